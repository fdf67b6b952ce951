//! Queueing disciplines in front of the device: pacing by `fq`, and replacement while flows run.
use super::tcp::{close_both, listen, options, transfer};
use super::world::{World, at, v4};
use crate::base::{Cx, DropWhy, Error, Instant, SocketId, Wait};
use crate::credit::PACKET_CHARGE;
use crate::device::{DeviceCaps, Submit};
use crate::packet::Packet;
use crate::qdisc::{Any, Dequeued, Fate, Fifo, Gone, Qdisc, Stats};
use crate::stack::{Event, ListenAddr};
use crate::tcp::{SendFlags, SocketOptions};

pub(super) fn qdisc(w: &mut World, spec: &str) {
    let q: Any = spec.parse().expect(spec);
    w.stacks[0].set_qdisc(w.devs[0], q).expect("a device");
}

/// A connection whose client is paced to `rate` bytes per second.
pub(super) fn paced(w: &mut World, rate: u64) -> (SocketId, SocketId) {
    let listener = listen(w, ListenAddr::port(80));
    let options = crate::tcp::SocketOptions { max_pacing_rate: rate, ..options(w) };
    let client = w.stacks[0].tcp_connect(w.now, at(v4(2), 80), None, &options).expect("a route");
    w.until("accepted", |w| w.saw(1, Event::Accepted(listener)));
    let (server, _) = w.stacks[1].tcp_accept(w.now, listener).expect("one waits");
    w.stacks[1].close(w.now, listener).expect("open");
    (client, server)
}

/// Payload bytes per second of a transfer.
fn rate(w: &mut World, client: SocketId, server: SocketId, bytes: usize) -> u64 {
    let start = w.now;
    transfer(w, (0, client), (1, server), bytes);
    bytes as u64 * 1_000_000_000 / w.now.nanos_since(start)
}

#[test]
fn below_fq_a_flow_is_paced_without_timers_of_its_own() {
    for spec in ["pfifo", "fq"] {
        let mut w = World::plain();
        qdisc(&mut w, spec);
        let (client, server) = paced(&mut w, 1_000_000);
        let rate = rate(&mut w, client, server, 2_000_000);
        assert!((970_000..1_030_000).contains(&rate), "{spec}: {rate}");
        let report = w.stacks[0].qdisc(w.devs[0]).expect("a device");
        let throttled = report.details.iter().find(|f| f.name == "throttled_pkts").map(|f| f.value.clone());
        let waits = w.stacks[0].counters().waits(Wait::Pacing);
        match spec {
            "fq" => assert!(
                waits == 0 && throttled > Some(crate::qdisc::Value::Count(100)),
                "{waits} {throttled:?}"
            ),
            _ => assert!(waits > 100, "{waits}"),
        }
        close_both(&mut w, client, server);
        let stats = w.stacks[0].qdisc(w.devs[0]).expect("a device").stats;
        assert_eq!((stats.qlen, stats.backlog, stats.drops), (0, 0, 0));
        assert!(stats.packets > 1_380 && stats.bytes > 2_000_000);
    }
}

#[test]
fn a_discipline_is_replaced_while_a_flow_runs_and_nothing_is_lost() {
    let mut w = World::plain();
    let (client, server) = paced(&mut w, 2_000_000);
    let (mut total, mut packets) = (0, 0);
    for spec in ["fq", "pfifo", "fq maxrate 80mbit", "bfifo limit 10mb", "fq"] {
        qdisc(&mut w, spec);
        let start = w.now;
        transfer(&mut w, (0, client), (1, server), 300_000);
        // In the midst of a transfer too: packets with departure times wait in fq.
        let data = vec![0; 60_000];
        w.stacks[0].tcp_send(w.now, client, &data, super::tcp::NO_FLAGS).expect("room");
        w.step();
        total += w.now.nanos_since(start);
        packets += w.stacks[0].qdisc(w.devs[0]).expect("a device").stats.packets;
        qdisc(&mut w, "pfifo");
        let mut got = 0;
        w.until("the rest", |w| {
            while let Ok(Some(chunk)) = w.stacks[1].tcp_read_chunk(w.now, server, usize::MAX) {
                got += chunk.len();
            }
            got == data.len()
        });
    }
    assert!(total > 0 && packets > 900, "{packets}");
    assert_eq!(w.stacks[0].counters().tcp.retrans_segs, 0);
    assert_eq!(w.stacks[0].tcp_info(w.now, client).map(|i| (i.retransmits, i.lost)), Ok((0, 0)));
    close_both(&mut w, client, server);
}

#[test]
fn a_new_device_has_the_discipline_that_the_setting_names() {
    let mut w = World::plain();
    let kind = |w: &World, dev| w.stacks[0].qdisc(dev).map(|q| q.kind);
    assert_eq!(kind(&w, w.devs[0]), Some("pfifo_fast"), "as in Linux");
    w.stacks[0].set_sysctl("net.core.default_qdisc", "fq").expect("one that needs no parameters");
    let dev = w.stacks[0].add_device(DeviceCaps::plain(1_500));
    assert_eq!((kind(&w, w.devs[0]), kind(&w, dev)), (Some("pfifo_fast"), Some("fq")));
    qdisc(&mut w, "mq queues 2");
    let report = w.stacks[0].qdisc(w.devs[0]).expect("a device");
    assert_eq!(report.children.iter().map(|q| q.kind).collect::<Vec<_>>(), ["fq"; 2]);
    assert!(report.children[0].options.iter().any(|f| f.to_string() == "quantum 3000b"), "of this device");
    let why = w.stacks[0].set_sysctl("default_qdisc", "tbf").expect_err("it needs a rate");
    assert!(
        why.ends_with("it takes pfifo_fast, pfifo, bfifo, fq, codel, fq_codel, netem or noqueue"),
        "{why}"
    );
}

#[test]
fn nothing_overtakes_what_waits_for_its_time_between_two_disciplines() {
    let mut w = World::plain();
    qdisc(&mut w, "fq");
    let (dev, now) = (w.devs[0], w.now);
    let packet =
        |number: u32, ms: u64| crate::qdisc::law::packet(1, number, 10, now.plus_nanos(ms * 1_000_000));
    w.stacks[0].enqueue(dev, Packet { owner: None, ..packet(1, 3) });
    w.stacks[0].enqueue(dev, Packet { owner: None, ..packet(2, 5) });
    qdisc(&mut w, "pfifo");
    // An acknowledgement of the same flow, with no time of its own.
    w.stacks[0].enqueue(dev, Packet { owner: None, ..packet(3, 0) });
    let mut left = Vec::new();
    for (ms, spec) in [(0, ""), (3, "bfifo limit 1mb"), (4, "fq"), (5, "")] {
        let then = now.plus_nanos(ms * 1_000_000);
        let mut device = |_, p: Packet| {
            left.push((ms, crate::qdisc::law::label(&p).1));
            crate::device::Submit::Sent
        };
        // Between two disciplines once more, with one that is due and others that are not.
        w.stacks[0].flush(then);
        if !spec.is_empty() {
            qdisc(&mut w, spec);
        }
        w.stacks[0].transmit(then, dev, 8, &mut device);
    }
    assert_eq!(left, [(3, 1), (5, 2), (5, 3)]);
}

#[test]
fn what_the_new_discipline_has_no_room_for_is_given_up_and_survived() {
    let mut w = World::plain();
    qdisc(&mut w, "fq");
    let (client, server) = paced(&mut w, 1_000_000);
    let data = vec![0; 60_000];
    w.stacks[0].tcp_send(w.now, client, &data, super::tcp::NO_FLAGS).expect("room");
    w.until("a backlog", |w| w.stacks[0].qdisc(w.devs[0]).is_some_and(|q| q.stats.qlen > 1));
    qdisc(&mut w, "fq limit 1");
    assert!(w.stacks[0].qdisc(w.devs[0]).is_some_and(|q| q.stats.drops > 0 && q.stats.qlen == 1));
    let mut got = 0;
    w.until("all", |w| {
        while let Ok(Some(chunk)) = w.stacks[1].tcp_read_chunk(w.now, server, usize::MAX) {
            got += chunk.len();
        }
        got == data.len()
    });
    close_both(&mut w, client, server);
    assert!(w.now > Instant::ZERO && w.stacks[0].credits().is_empty());
}

#[test]
fn what_may_go_now_does_not_wait_for_a_flow_that_must() {
    let mut w = World::plain();
    qdisc(&mut w, "fq");
    let (client, _) = paced(&mut w, 100_000);
    w.stacks[0].tcp_send(w.now, client, &[0; 40_000], super::tcp::NO_FLAGS).expect("room");
    w.until("it is paced", |w| w.stacks[0].qdisc(w.devs[0]).is_some_and(|q| q.stats.qlen > 0));
    w.run(core::time::Duration::from_millis(1));
    let dev = w.devs[0];
    assert!(!w.stacks[0].needs_transmit(dev) && w.stacks[0].next_deadline().is_some());
    // An echo request; nobody's turn brings the answer out.
    let mut echo = vec![8, 0, 0, 0, 0, 1, 0, 1];
    let sum = lowwater_wire::checksum::checksum(&echo);
    echo[2..4].copy_from_slice(&sum.to_be_bytes());
    let request =
        super::world::ipv4_packet([10, 0, 0, 2], [10, 0, 0, 1], lowwater_wire::protocol::ICMP, &echo, w.now);
    w.stacks[0].receive(w.now, dev, request);
    let mut sent = 0;
    let mut device = |_, packet: Packet| {
        sent += 1;
        assert_eq!(packet.to_bytes()[9], lowwater_wire::protocol::ICMP);
        crate::device::Submit::Sent
    };
    w.stacks[0].flush(w.now);
    assert!(w.stacks[0].needs_transmit(dev));
    w.stacks[0].transmit(w.now, dev, 8, &mut device);
    assert_eq!(sent, 1);
    assert!(!w.stacks[0].needs_transmit(dev));
}

/// A FIFO that gives up every n-th packet that is its flow's turn to leave.
#[derive(Debug)]
struct GivesUp {
    fifo: Fifo,
    every: u64,
    seen: u64,
}

impl Qdisc for GivesUp {
    fn name(&self) -> &'static str {
        "gives_up"
    }
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet, gone: &mut Gone) {
        self.fifo.enqueue(cx, packet, gone);
    }
    fn dequeue(&mut self, cx: &mut Cx<'_>, gone: &mut Gone) -> Dequeued {
        loop {
            let next = self.fifo.dequeue(cx, gone);
            let Dequeued::Packet(packet) = next else { return next };
            self.seen += 1;
            if packet.owner.is_none() || !self.seen.is_multiple_of(self.every) {
                return Dequeued::Packet(packet);
            }
            gone.packets.push((packet, Fate::Dropped));
        }
    }
    fn take(&mut self) -> Option<Packet> {
        self.fifo.take()
    }
    fn each(&self, f: &mut dyn FnMut(&Packet)) {
        self.fifo.each(f);
    }
    fn stats(&self) -> &Stats {
        self.fifo.stats()
    }
}

#[test]
fn what_an_aqm_gives_up_is_sent_again_before_any_acknowledgement_could_tell() {
    let mut w = World::plain();
    let gives_up: Box<dyn Qdisc> = Box::new(GivesUp { fifo: Fifo::default(), every: 30, seen: 0 });
    w.stacks[0].set_qdisc(w.devs[0], gives_up).expect("a device");
    let (client, server) = paced(&mut w, u64::MAX);
    transfer(&mut w, (0, client), (1, server), 2_000_000);
    let c = w.stacks[0].counters();
    let dropped = c.drops(DropWhy::Aqm);
    assert!(dropped > 10 && c.own.lost_in_queue >= dropped, "{dropped} {}", c.own.lost_in_queue);
    // A probe of the tail may meet the AQM as well.
    assert!(c.tcp.retrans_segs <= c.own.lost_in_queue + 5, "{} again", c.tcp.retrans_segs);
    assert_eq!(c.tcp_ext.tcp_timeouts, 0);
    let peer = w.stacks[1].counters();
    let held = peer.tcp_ext.tcp_ofo_queue;
    assert!(peer.tcp_ext.tcp_dsack_old_sent == 0, "nothing comes twice; {held} waited for a hole");
    close_both(&mut w, client, server);
    assert!(w.stacks[0].credits().is_empty());
}

#[test]
fn disciplines_that_drop_and_networks_that_lose_are_survived_with_all_credit_back() {
    for (spec, why, local) in [
        ("pfifo limit 1", DropWhy::QueueFull, false),
        ("codel limit 1", DropWhy::QueueFull, false),
        ("fq limit 5 flow_limit 1", DropWhy::QueueFull, false),
        ("fq_codel limit 1", DropWhy::Aqm, true),
        ("tbf rate 40mbit burst 5kb limit 20kb", DropWhy::QueueFull, false),
        ("netem delay 10ms 2ms loss 2%", DropWhy::Emulated, false),
        ("netem delay 1ms loss gemodel 10% 30% reorder 1% duplicate 1%", DropWhy::Emulated, false),
    ] {
        let mut w = World::plain();
        qdisc(&mut w, spec);
        // One completion at a time, so that the queue has something to hold.
        w.ring = 1;
        let (client, server) = paced(&mut w, u64::MAX);
        transfer(&mut w, (0, client), (1, server), 1_000_000);
        let c = w.stacks[0].counters();
        assert!(c.drops(why) > 0, "{spec}: {:?}", w.stacks[0].qdisc(w.devs[0]).map(|q| q.to_string()));
        assert_eq!(c.own.lost_in_queue > 0, local, "{spec}");
        let got = w.stacks[0].close(w.now, client);
        assert_eq!(got, Ok(()), "{spec}");
        w.run(super::tcp::SECOND * 5);
        assert_eq!(w.stacks[0].credits(), [], "{spec}");
        let stats = w.stacks[0].qdisc(w.devs[0]).expect("a device").stats;
        assert_eq!((stats.qlen, stats.backlog), (0, 0), "{spec}");
    }
}

#[test]
fn what_a_bucket_cuts_is_charged_for_each_piece_and_comes_back_with_each() {
    let mut w = World::plain();
    // A segment every 12 ms.
    qdisc(&mut w, "tbf rate 1mbit burst 1600 limit 1mb");
    let (client, _) = paced(&mut w, u64::MAX);
    let segment = u64::from(w.stacks[0].tcp_info(w.now, client).expect("open").snd_mss);
    w.stacks[0].tcp_send(w.now, client, &vec![0; 10 * segment as usize], super::tcp::NO_FLAGS).expect("room");
    let mut seen = Vec::new();
    w.until("all have left", |w| {
        let waiting = w.stacks[0].qdisc(w.devs[0]).expect("a device").stats.qlen;
        let below: u64 = w.stacks[0].credits().iter().map(|c| c.below).sum();
        assert_eq!(below, waiting * (segment + u64::from(PACKET_CHARGE)), "{waiting} wait");
        if seen.last() != Some(&waiting) {
            seen.push(waiting);
        }
        waiting == 0 && seen.len() > 1
    });
    assert!(seen.contains(&5) && seen.contains(&3) && seen.contains(&1), "{seen:?}");
}

/// The account of the queue-aware limit is what stands in the bucket, also where that has room for a part of a packet alone.
#[test]
fn what_a_bucket_cuts_and_has_no_room_for_is_not_below_and_has_not_left() {
    let mut w = World::plain();
    w.stacks[0].set_sysctl("tcp_queue_aware", "1").expect("a sysctl");
    // A segment every 12 ms, and four of them.
    qdisc(&mut w, "tbf rate 1mbit burst 1600 limit 6000");
    let (client, _) = paced(&mut w, u64::MAX);
    let segment = w.stacks[0].tcp_info(w.now, client).expect("open").snd_mss as usize;
    let told = |w: &World| {
        let passed = w.stacks[0].qdisc(w.devs[0]).expect("a device").stats.packets;
        (w.stacks[0].counters().own.completions, passed)
    };
    let before = told(&w);
    for segments in [2, 8, 30] {
        let data = vec![0; segments * segment];
        w.stacks[0].tcp_send(w.now, client, &data, super::tcp::NO_FLAGS).expect("room");
    }
    let (mut full, mut rates) = (0, 0);
    w.until("all is acknowledged", |w| {
        let stats = w.stacks[0].qdisc(w.devs[0]).expect("a device").stats;
        if let Some(queue) = w.stacks[0].own_queue(w.now, client) {
            assert_eq!(queue.bytes, stats.backlog);
            // Eight of them, the first of which a full bucket passes at once.
            assert!(queue.rate.is_none_or(|rate| rate <= 125_000 * 8 / 7), "{queue:?}");
            (full, rates) = (full.max(queue.bytes), rates + u32::from(queue.rate.is_some()));
        }
        w.stacks[0].tcp_info(w.now, client).is_ok_and(|info| info.bytes_acked >= 40 * segment as u64)
    });
    let c = w.stacks[0].counters();
    assert!(c.drops(DropWhy::QueueFull) > 0 && full == 6_000 && rates > 0, "{full} {rates}");
    let now = told(&w);
    assert_eq!(now.0 - before.0, now.1 - before.1, "what was refused never left");
}

/// The account begins while others stand there. What a bucket cuts behind those is none of them, whether or not it has room for all of it.
#[test]
fn what_a_bucket_has_no_room_for_is_none_of_what_went_before_the_account() {
    let mut w = World::plain();
    // A segment every 12 ms, and four of them.
    qdisc(&mut w, "tbf rate 1mbit burst 1600 limit 6000");
    let (client, _) = paced(&mut w, u64::MAX);
    let segment = w.stacks[0].tcp_info(w.now, client).expect("open").snd_mss as usize;
    let stats = |w: &World| w.stacks[0].qdisc(w.devs[0]).expect("a device").stats;
    w.stacks[0].tcp_send(w.now, client, &vec![0; 4 * segment], super::tcp::NO_FLAGS).expect("room");
    w.until("some stand there", |w| stats(w).qlen == 3);
    w.stacks[0].set_sysctl("tcp_queue_aware", "1").expect("a sysctl");
    let start = stats(&w);
    let data = vec![0; 6 * segment];
    w.stacks[0].tcp_send(w.now, client, &data, super::tcp::NO_FLAGS).expect("room");
    let (mut refused, mut seen) = (0, 0);
    w.until("all is acknowledged", |w| {
        let now = stats(w);
        let strangers = start.backlog.saturating_sub(now.bytes - start.bytes);
        if let Some(queue) = w.stacks[0].own_queue(w.now, client) {
            assert_eq!(queue.bytes, now.backlog - strangers, "beside {strangers} of before");
            seen += 1;
        }
        if strangers > 0 {
            refused = refused.max(now.drops - start.drops);
        }
        w.stacks[0].tcp_info(w.now, client).is_ok_and(|info| info.bytes_acked >= 10 * segment as u64)
    });
    assert!(refused > 0 && seen > 0, "{refused} {seen}");
}

#[test]
fn a_delayed_packet_has_left_its_flow() {
    let mut w = World::plain();
    qdisc(&mut w, "netem delay 100ms");
    let (client, _) = paced(&mut w, u64::MAX);
    w.stacks[0].tcp_send(w.now, client, &[0; 10_000], super::tcp::NO_FLAGS).expect("room");
    w.until("it waits", |w| w.stacks[0].qdisc(w.devs[0]).is_some_and(|q| q.stats.qlen > 3));
    assert_eq!(w.stacks[0].credits(), [], "nothing of the flow is below as far as it knows");
    assert_eq!(w.stacks[0].counters().own.lost_in_queue, 0);
}

#[test]
fn nothing_is_dequeued_while_the_device_is_full() {
    let mut w = World::plain();
    let (dev, now) = (w.devs[0], w.now);
    qdisc(&mut w, "pfifo_fast");
    let packet = |number: u32, priority: Option<u8>| {
        let packet = crate::qdisc::law::packet(1, number, 10, now);
        Packet { owner: None, priority, ..packet }
    };
    (1..=3).for_each(|number| w.stacks[0].enqueue(dev, packet(number, None)));
    let mut left = Vec::new();
    for round in 0..4 {
        // A ring of one packet, which says so with the packet that fills it.
        let mut ring = |_, p: Packet| {
            left.push(crate::qdisc::law::label(&p).1);
            crate::device::Submit::Filled
        };
        let done = w.stacks[0].transmit(now, dev, 8, &mut ring);
        assert_eq!((done.packets, done.stopped, w.stacks[0].needs_transmit(dev)), (1, true, false));
        if round == 0 {
            w.stacks[0].enqueue(dev, packet(4, Some(7)));
        }
        w.stacks[0].device_ready(now, dev);
    }
    assert_eq!(left, [1, 4, 2, 3], "the urgent one waits for what is in the device alone");
    assert_eq!(w.stacks[0].counters().own.packets_not_now, 0);
    assert_eq!(w.stacks[0].qdisc(dev).expect("a device").stats.requeues, 0);
}

#[test]
fn what_the_device_gave_back_and_what_waits_for_its_time_is_counted() {
    let mut w = World::plain();
    let (dev, now) = (w.devs[0], w.now);
    let packet = |number: u32, ms: u64| {
        let packet = crate::qdisc::law::packet(1, number, 10, now.plus_nanos(ms * 1_000_000));
        Packet { owner: None, ..packet }
    };
    let stats = |w: &World| w.stacks[0].qdisc(dev).expect("a device").stats;
    qdisc(&mut w, "fq");
    (1..=3).for_each(|number| w.stacks[0].enqueue(dev, packet(number, 5)));
    let before = (stats(&w).qlen, stats(&w).backlog);
    assert_eq!(before.0, 3);
    qdisc(&mut w, "pfifo");
    assert_eq!((stats(&w).qlen, stats(&w).backlog), before, "between the two");
    let mut busy = |_, p: Packet| crate::device::Submit::NotNow(p);
    let then = now.plus_nanos(6_000_000);
    w.stacks[0].transmit(then, dev, 8, &mut busy);
    w.stacks[0].device_ready(then, dev);
    w.stacks[0].transmit(then, dev, 8, &mut busy);
    assert_eq!((stats(&w).qlen, stats(&w).backlog, stats(&w).requeues), (before.0, before.1, 2));
    qdisc(&mut w, "pfifo");
    assert_eq!(stats(&w).requeues, 0, "another discipline counts for itself");
}

#[test]
fn a_packet_that_the_queue_refuses_leaves_a_writer_no_room() {
    for (limit, told) in [(1, false), (2, true)] {
        let mut w = World::plain();
        qdisc(&mut w, &format!("pfifo limit {limit}"));
        let (client, _) = paced(&mut w, u64::MAX);
        let (now, dev) = (w.now, w.devs[0]);
        let lowat = SocketOptions { notsent_lowat: 2_000, nodelay: true, ..options(&w) };
        let stack = &mut w.stacks[0];
        stack.set_options(now, client, lowat).expect("open");
        // A ring of one packet, which keeps it.
        let mut ring = |_, _: Packet| Submit::Filled;
        let record = SendFlags { eor: true, ..super::tcp::NO_FLAGS };
        for (bytes, taken) in [(1, 1), (999, 999), (2_200, 2_200)] {
            assert_eq!(stack.tcp_send(now, client, &vec![0; bytes], record), Ok(taken));
            if bytes < 1_000 {
                stack.transmit(now, dev, 8, &mut ring);
            }
        }
        let full = Err(Error::WouldBlock);
        // What was said of room before says nothing from here on.
        while stack.next_event().is_some() {}
        assert_eq!(stack.tcp_send(now, client, &[0], record), full);
        // 2,200 bytes wait. With a segment of 1,460 less the rest is less than half the limit.
        let refused = stack.counters().drops(DropWhy::QueueFull);
        stack.transmit(now, dev, 8, &mut ring);
        assert_eq!(stack.counters().drops(DropWhy::QueueFull) - refused, u64::from(!told));
        let events: Vec<Event> = core::iter::from_fn(|| stack.next_event()).collect();
        assert_eq!(events.contains(&Event::Writable(client)), told, "limit {limit}: {events:?}");
        let taken = stack.tcp_send(now, client, &[0], record);
        assert_eq!(taken, if told { Ok(1) } else { full });
    }
}
