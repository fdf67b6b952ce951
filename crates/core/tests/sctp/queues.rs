//! Short queues: credit below the transport, the low-water mark on what is unsent; and what an idle association costs.
use crate::world::*;
use bytes::Bytes;
use lowwater_core::base::sysctl::Triple;
use lowwater_core::base::{Duration, Error, Instant, Sysctl, Wait};
use lowwater_core::sctp::{SctpOptions, SendInfo};
use lowwater_core::stack::Event;
use lowwater_core::tcp::Ready;

#[test]
fn a_writer_is_held_at_the_low_water_mark_and_woken_under_its_half() {
    let mut w = World::new();
    let options = SctpOptions { notsent_lowat: 20_000, ..w.options() };
    let (a, b) = w.associated(options.clone(), options);
    let (mut unsent_most, mut sent) = (0, 0);
    let done = w.run(Duration::from_secs(300), |w| {
        let now = w.now;
        loop {
            match w.stacks[A].sctp_send(now, a, Bytes::from_static(&[0; 1_000]), SendInfo::default()) {
                Ok(_) => sent += 1,
                Err(Error::WouldBlock) => break,
                Err(error) => panic!("{error}"),
            }
        }
        let unsent = w.info(A, a).unsent_bytes;
        unsent_most = unsent_most.max(unsent);
        let writable = w.stacks[A].poll(now, a).0 & Ready::OUT.0 != 0;
        assert_eq!(writable, unsent < 10_000, "{unsent} bytes unsent");
        w.read(B, b);
        sent >= 3_000
    });
    assert!(done);
    assert!((19_000..=20_999).contains(&unsent_most), "{unsent_most}");
    assert!(w.events[A].contains(&Event::Writable(a)));
}

/// MSG_MORE waits for more; where there is no room for more it would wait for ever.
#[test]
fn what_waits_for_more_leaves_when_the_buffer_has_no_room_for_more() {
    let mut w = World::new();
    let (a, b) = w.associated(SctpOptions { sndbuf: 4_000, ..w.options() }, w.options());
    let (mut sent, mut got) = (0, 0);
    let done = w.run(Duration::from_secs(60), |w| {
        let (now, more) = (w.now, SendInfo { more: true, ..SendInfo::default() });
        while sent < 100 && w.stacks[A].sctp_send(now, a, Bytes::from_static(b"x"), more).is_ok() {
            sent += 1;
        }
        got += w.messages(B, b).len();
        sent == 100
    });
    assert!(done, "{sent} sent, {got} read: {:?}", w.info(A, a).wait);
}

/// Who asks before each message is never asked to wait for room that only what waits for more would give.
#[test]
fn what_waits_for_more_leaves_when_who_asks_hears_of_no_room() {
    let marks = [(1_000, u32::MAX, 4_000_000), (u32::MAX, 1_000, 4_000_000), (u32::MAX, u32::MAX, 4_608)];
    for (notsent_lowat, stream_lowat, sndbuf) in marks {
        let mut w = World::new();
        let options = SctpOptions { notsent_lowat, stream_lowat, sndbuf, ..w.options() };
        let (a, b) = w.associated(options, w.options());
        let (mut sent, mut got) = (0, 0);
        let done = w.run(Duration::from_secs(60), |w| {
            let (now, more) = (w.now, SendInfo { more: true, ..SendInfo::default() });
            while sent < 20 && w.stacks[A].sctp_poll_stream(now, a, 0) == Ok(true) {
                w.stacks[A].sctp_send(now, a, Bytes::from_static(&[0; 600]), more).unwrap();
                sent += 1;
            }
            got += w.messages(B, b).len();
            sent == 20
        });
        assert!(
            done,
            "{notsent_lowat} {stream_lowat} {sndbuf}: {sent} sent, {got} read: {:?}",
            w.info(A, a).wait
        );
    }
}

#[test]
fn an_idle_association_costs_less_than_two_kibibytes() {
    // The boxes of an association with one path, by their types; heap memory that an idle one has is none beside them.
    let assoc = size_of::<lowwater_core::socket::SctpSocket>();
    let path = size_of::<lowwater_core::sctp::paths::Path>();
    let options = size_of::<SctpOptions>();
    let entry = size_of::<lowwater_core::socket::Entry>();
    let all = assoc + path + options + entry;
    assert!(all <= 2_048, "{assoc} + {path} + {options} + {entry} = {all}");
}

/// What is below the transport is at most what the rule of TCP's small queues allows, though the window is far larger.
#[test]
fn a_bulk_flow_keeps_little_below_itself() {
    let mut w = World::new();
    let options =
        SctpOptions { sndbuf: 4_000_000, rcvbuf: 8_000_000, pacing: false, max_burst: 0, ..w.options() };
    let (a, b) = w.associated(options.clone(), options);
    // The device lets one packet of 1,500 bytes through in a millisecond.
    w.slow = Some(ms(1));
    let (mut most, mut flight) = (0, 0);
    w.run(Duration::from_secs(10), |w| {
        let now = w.now;
        while w.stacks[A].sctp_send(now, a, Bytes::from_static(&[0; 1_400]), SendInfo::default()).is_ok() {}
        w.read(B, b);
        let report = w.stacks[A].report(Instant::ZERO);
        most = most.max(report.sockets.iter().map(|s| s.below).max().unwrap_or(0));
        flight = flight.max(w.info(A, a).paths[0].flight);
        false
    });
    let waits = w.stacks[A].counters().waits(Wait::Credit);
    assert!(waits > 100, "{waits} waits for credit, {most} bytes below, {flight} in flight");
    // A millisecond of the rate, but at least two packets, plus the one that was admitted last.
    assert!(most < 40_000, "{most}");
    assert!(flight > 2 * most as u32, "{flight} in flight, {most} below");
}

#[test]
fn a_message_of_one_byte_costs_more_than_its_byte() {
    let mut w = World::new();
    let options = SctpOptions { sndbuf: 100_000, ..w.options() };
    let (a, _) = w.associated(options.clone(), options);
    w.rule = Box::new(|_| Fate::Lose);
    let (now, mut sent) = (w.now, 0);
    while w.stacks[A].sctp_send(now, a, Bytes::from_static(b"x"), SendInfo::default()).is_ok() {
        sent += 1;
    }
    // Each costs 128 bytes beside its own.
    assert!((700..800).contains(&sent), "{sent}");
    assert!(w.stacks[A].poll(now, a).0 & Ready::OUT.0 == 0);
    assert!(w.stacks[A].sockstat().tcp_mem * 4_096 >= 100_000);
    // Unsent or out is the same.
    w.pass(ms(50));
    let more = w.stacks[A].sctp_send(w.now, a, Bytes::from_static(b"x"), SendInfo::default());
    assert_eq!(more, Err(Error::WouldBlock));
    let now = w.now;
    w.stacks[A].sctp_abort(now, a, b"").unwrap();
    assert_eq!(w.stacks[A].sockstat().tcp_mem, 0);
}

#[test]
fn associations_share_the_memory_of_the_stack_and_go_on_when_it_is_exhausted() {
    let pages = Triple { min: 4, default: 8, max: 16 };
    let sysctl = Sysctl { tcp_mem: pages, ..Sysctl::default() };
    let mut w = World::with(1, &sysctl, 1);
    let options = SctpOptions { sndbuf: 1 << 20, rcvbuf: 1 << 20, ..w.options() };
    let (a, b) = w.associated(options.clone(), options);
    let (mut sent, mut most) = (0, [0; 2]);
    let mut fill = |w: &mut World| {
        let now = w.now;
        while w.stacks[A].sctp_send(now, a, Bytes::from_static(&[7; 1_000]), SendInfo::default()).is_ok() {
            sent += 1;
        }
        for host in [A, B] {
            most[host] = w.stacks[host].sockstat().tcp_mem.max(most[host]);
        }
        sent
    };
    // Nobody reads: what the reader holds is bounded, far below its buffer.
    w.run(Duration::from_secs(20), |w| fill(w) > 10_000);
    let mut got = 0;
    let done = w.run(Duration::from_secs(300), |w| {
        got += w.messages(B, b).len();
        fill(w) > 500
    });
    assert!(done, "it goes on");
    w.run(Duration::from_secs(60), |w| {
        got += w.messages(B, b).len();
        w.info(A, a).unacked == 0 && w.info(A, a).unsent_bytes == 0
    });
    got += w.messages(B, b).len();
    assert_eq!(got, sent);
    // One message may go beyond, and what fills a hole.
    assert!(most.iter().all(|pages| (8..=18).contains(pages)), "{most:?}");
    assert_eq!([A, B].map(|host| w.stacks[host].sockstat().tcp_mem), [0, 0]);
}

/// A message larger than all the memory there is: its parts are read as they come, for nobody else gives anything back.
#[test]
fn a_long_message_is_read_in_parts_when_memory_is_exhausted() {
    let pages = Triple { min: 4, default: 8, max: 16 };
    let sysctl = Sysctl { tcp_mem: pages, ..Sysctl::default() };
    let mut w = World::with(1, &sysctl, 1);
    let (a, b) = w.pair();
    w.send(A, a, &[7; 150_000], SendInfo::default());
    let mut got = 0;
    let done = w.run(Duration::from_secs(60), |w| {
        got += w.messages(B, b).iter().map(Vec::len).sum::<usize>();
        got >= 150_000
    });
    assert!(done, "{got} bytes");
    w.pass(Duration::from_secs(5));
    assert_eq!(w.stacks[A].counters().sctp.t3_rtx_expireds, 0);
    assert_eq!([A, B].map(|host| w.stacks[host].sockstat().tcp_mem), [0, 0]);
}

/// The halves of several messages are what fills the memory: each can be read, and so the rest can come.
#[test]
fn half_messages_that_fill_the_memory_can_be_read() {
    let pages = Triple { min: 4, default: 8, max: 16 };
    let sysctl = Sysctl { tcp_mem: pages, ..Sysctl::default() };
    let mut w = World::with(1, &sysctl, 1);
    // A sends without minding the memory that B lacks.
    let options = w.options();
    let pairs: Vec<_> = (0..4)
        .map(|n| {
            w.events[A].clear();
            if n == 0 {
                return w.associated(options.clone(), options.clone());
            }
            let a = w.connect(options.clone());
            let mut b = None;
            w.run(Duration::from_secs(5), |w| {
                let (now, listener) = (w.now, w.listener.expect("listens"));
                b = b.or_else(|| w.stacks[B].sctp_accept(now, listener).ok().map(|(id, _)| id));
                b.is_some()
            });
            (a, b.expect("accepted"))
        })
        .collect();
    for (a, _) in &pairs {
        w.send(A, *a, &[7; 40_000], SendInfo::default());
    }
    // Nobody reads until all of it stands still.
    w.pass(Duration::from_secs(20));
    assert!(w.stacks[B].sockstat().tcp_mem >= 16);
    let mut got = 0;
    let done = w.run(Duration::from_secs(120), |w| {
        for (_, b) in &pairs {
            got += w.messages(B, *b).iter().map(Vec::len).sum::<usize>();
        }
        got >= 160_000
    });
    assert!(done, "{got} bytes");
}
