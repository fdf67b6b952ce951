//! SYN cookies (RFC 4987 section 3.6): what a full SYN queue answers, and what comes back.
use super::peer::{Peer, Shape};
use lowwater_core::base::{Error, Sysctl};
use lowwater_core::tcp::State;

/// A listener with a backlog of 1 whose SYN queue is full: requests of ports 5000 and 5001.
fn crowded(sysctl: Sysctl) -> Peer {
    let mut p = Peer::listening(Shape { sysctl, ..Shape::default() }, 1);
    for port in [5_000, 5_001] {
        p.other_peer(port);
        p.inject("S 0 win 65535 mss 1460");
        p.expect("S. 0 ack 1");
    }
    assert_eq!(p.stack.small_objects().0, 2);
    p.other_peer(5_002);
    p
}

fn counts(p: &Peer) -> (u64, u64, u64) {
    let c = &p.stack.counters().tcp_ext;
    (c.syncookies_sent, c.syncookies_recv, c.syncookies_failed)
}

#[test]
fn a_full_queue_keeps_nothing_and_loses_nobody() {
    let mut p = crowded(Sysctl::default());
    p.inject("S 0 win 65535 mss 1460 sackOK ws 7");
    // Without timestamps no option comes back, so none is offered.
    p.expect("S. 0 ack 1 win 64240 mss 1460 opts");
    assert_eq!((p.stack.small_objects().0, counts(&p)), (2, (1, 0, 0)));
    // Nobody repeats it: nothing is known of it.
    p.at(400);
    p.inject("P. 1:11 ack 1");
    p.accept();
    assert_eq!((p.state(), p.info().snd_mss, p.info().snd_wscale), (State::Established, 1_460, 0));
    p.read(10);
    p.expect(". 1 ack 11");
    p.write(10);
    p.expect("P. 1:11 ack 11");
    assert_eq!(counts(&p), (1, 1, 0));
    assert_eq!(p.stack.counters().tcp_ext.tcp_req_q_full_do_cookies, 1);
    assert_eq!(p.stack.counters().tcp.passive_opens, 1);
}

#[test]
fn timestamps_carry_the_other_options() {
    let mut p = crowded(Sysctl { tcp_timestamps: 2, ..Sysctl::default() });
    p.at(100);
    p.inject("S 0 win 65535 mss 1400 sackOK ws 9 ts 500/0");
    let seg = p.expect("S. 0 ack 1 win 65160 mss 1460 sackOK ws 7");
    let echo = seg.ts.expect("a timestamp").0;
    p.at(200);
    p.inject(&format!(". 1 ack 1 win 1000 ts 510/{echo}"));
    p.accept();
    let i = p.info();
    // 1,400 is rounded down to 1,300; timestamps take twelve bytes of each segment.
    assert_eq!((i.snd_mss, i.snd_wscale, i.rcv_wscale, i.options & 7, i.snd_wnd), (1_288, 9, 7, 7, 512_000));
}

#[test]
fn what_is_no_cookie_is_reset() {
    let sysctl = Sysctl { tcp_syncookies: 2, ..Sysctl::default() };
    let mut p = Peer::listening(Shape { sysctl, ..Shape::default() }, 8);
    p.inject("S 0 win 65535 mss 1460");
    p.expect("S. 0 ack 1");
    p.inject(". 1 ack 2");
    p.expect("R 2");
    p.inject(". 100 ack 1");
    p.expect("R 1");
    assert_eq!(counts(&p), (1, 0, 2));
    // Two minutes later it is none any more.
    p.run_to(121_000);
    p.inject(". 1 ack 1");
    p.expect("R 1");
    assert_eq!(counts(&p).1, 0);
}

#[test]
fn nobody_looks_for_cookies_where_none_was_sent() {
    let mut p = Peer::listening(Shape::default(), 8);
    p.inject(". 1 ack 1");
    p.expect("R 1");
    assert_eq!(counts(&p), (0, 0, 0));
}

#[test]
fn switched_off_a_full_queue_is_silent() {
    let mut p = crowded(Sysctl { tcp_syncookies: 0, ..Sysctl::default() });
    p.inject("S 0 win 65535 mss 1460");
    p.quiet();
    assert_eq!(p.stack.counters().tcp_ext.tcp_req_q_full_drop, 1);
    assert_eq!(counts(&p), (0, 0, 0));
}

#[test]
fn always_means_without_any_crowd() {
    let sysctl = Sysctl { tcp_syncookies: 2, ..Sysctl::default() };
    let mut p = Peer::listening(Shape { sysctl, ..Shape::default() }, 8);
    p.inject("S 0 win 65535 mss 1460");
    p.expect("S. 0 ack 1");
    assert_eq!(p.stack.small_objects().0, 0);
    p.inject(". 1 ack 1");
    p.accept();
    assert_eq!(p.try_read(1), Err(Error::WouldBlock));
}

#[test]
fn a_full_backlog_has_no_room_for_cookies_either() {
    let sysctl = Sysctl { tcp_syncookies: 2, ..Sysctl::default() };
    let mut p = Peer::listening(Shape { sysctl, ..Shape::default() }, 0);
    p.inject("S 0 win 65535 mss 1460");
    p.expect("S. 0 ack 1");
    let first = p.iss();
    p.other_peer(5_001);
    p.inject("S 0 win 65535 mss 1460");
    p.expect("S. 0 ack 1");
    p.inject(". 1 ack 1");
    // The second has taken the only place.
    p.other_peer(5_000);
    p.set_iss(first);
    p.inject(". 1 ack 1");
    p.quiet();
    assert_eq!(p.stack.counters().tcp_ext.listen_overflows, 1);
    p.other_peer(5_002);
    p.inject("S 0 win 65535 mss 1460");
    p.quiet();
}

#[test]
fn a_flood_holds_no_more_than_the_backlog() {
    let mut p = Peer::listening(Shape::default(), 16);
    for port in 10_000..12_000 {
        p.other_peer(port);
        p.inject_more("S 0 win 65535 mss 1460");
        p.drain();
    }
    assert_eq!((p.stack.small_objects().0, p.sockets()), (17, 1));
    assert_eq!(counts(&p).0, 1_983);
}
