//! Queueing disciplines in front of the device: pacing by `fq`, and replacement while flows run.
use super::tcp::{close_both, listen, options, transfer};
use super::world::{World, at, v4};
use crate::base::{Instant, SocketId, Wait};
use crate::qdisc::Any;
use crate::stack::{Event, ListenAddr};

fn qdisc(w: &mut World, spec: &str) {
    let q: Any = spec.parse().expect(spec);
    w.stacks[0].set_qdisc(w.devs[0], q).expect("a device");
}

/// A connection whose client is paced to `rate` bytes per second.
fn paced(w: &mut World, rate: u64) -> (SocketId, SocketId) {
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
    assert_eq!(w.stacks[0].tcp_info(client).map(|i| (i.retransmits, i.lost)), Ok((0, 0)));
    close_both(&mut w, client, server);
}

#[test]
fn what_the_new_discipline_has_no_room_for_is_given_up_and_survived() {
    let mut w = World::plain();
    qdisc(&mut w, "fq");
    let (client, server) = paced(&mut w, 1_000_000);
    let data = vec![0; 60_000];
    w.stacks[0].tcp_send(w.now, client, &data, super::tcp::NO_FLAGS).expect("room");
    w.until("a backlog", |w| w.stacks[0].qdisc(w.devs[0]).is_some_and(|q| q.stats.qlen > 2));
    qdisc(&mut w, "pfifo limit 1");
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
