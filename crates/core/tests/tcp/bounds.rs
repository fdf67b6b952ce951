//! Bounds that settings move: requests, backlogs, buffers, reordering, and the path's right to fragment.
use super::peer::{Peer, Shape};
use lowwater_core::base::Sysctl;

const SYN: &str = "S 0 win 65535 mss 1460";

fn with(change: impl FnOnce(&mut Sysctl)) -> Shape {
    let mut sysctl = Sysctl::default();
    change(&mut sysctl);
    Shape { sysctl, ..Shape::default() }
}

/// A request of another peer that the listener answers.
fn answered(p: &mut Peer, port: u16) {
    p.other_peer(port);
    p.inject(SYN);
    p.expect("S. 0 ack 1");
}

/// A request of another peer that the listener ignores.
fn ignored(p: &mut Peer, port: u16) {
    p.other_peer(port);
    p.inject(SYN);
    p.quiet();
}

#[test]
fn requests_that_wait_for_their_last_ack_are_bounded() {
    // The last quarter is for peers that are known to live: nobody.
    let mut p = Peer::listening(with(|s| (s.tcp_syncookies, s.tcp_max_syn_backlog) = (0, 8)), 100);
    (5_000..5_007).for_each(|port| answered(&mut p, port));
    ignored(&mut p, 5_007);
    assert_eq!(p.stack.small_objects().0, 7);
    // A backlog of n holds n + 1.
    let mut p = Peer::listening(with(|s| s.tcp_syncookies = 0), 100);
    (5_000..5_101).for_each(|port| answered(&mut p, port));
    ignored(&mut p, 5_101);
}

#[test]
fn somaxconn_bounds_any_backlog() {
    let fill = |shape| {
        let mut p = Peer::listening(shape, 100);
        for port in [5_000, 5_001] {
            answered(&mut p, port);
            p.inject(". 1 ack 1");
        }
        p
    };
    // As in Linux a backlog of n holds n + 1.
    ignored(&mut fill(with(|s| s.somaxconn = 1)), 5_002);
    answered(&mut fill(Shape::default()), 5_002);
}

#[test]
fn buffers_decide_the_first_window_and_its_scale() {
    Peer::connecting(Shape::default()).expect("S 0 win 64240 ws 7");
    Peer::connecting(with(|s| s.tcp_adv_win_scale = 2)).expect("S 0 win 65535 ws 7");
    // log2(64 MiB) = 26, 26 - 15 = 11.
    Peer::connecting(with(|s| s.rmem_max = 64 << 20)).expect("S 0 win 64240 ws 11");
    let small = |s: &mut Sysctl| (s.tcp_rmem.max, s.rmem_max) = (131_072, 212_992);
    Peer::connecting(with(small)).expect("S 0 win 64240 ws 2");
}

#[test]
fn routers_may_fragment_only_where_path_mtus_are_not_learnt() {
    for (value, dont_fragment) in [(0, true), (1, false)] {
        let mut p = Peer::server(with(|s| s.ip_no_pmtu_disc = value));
        p.write(100);
        p.drain();
        assert_eq!(p.last_dont_fragment(), dont_fragment);
    }
}

/// The degree of reordering that the stack believes in after the second of ten segments came after the tenth.
fn reordering_after(shape: Shape) -> u32 {
    let mut p = Peer::server(shape);
    p.write(14_600);
    p.drain();
    p.at(100);
    p.inject(". 1 ack 1 sack 13141:14601");
    p.inject(". 1 ack 1 sack 1461:2921 13141:14601");
    p.quiet();
    p.info().reordering
}

#[test]
fn the_measured_reordering_is_bounded() {
    assert_eq!(reordering_after(Shape::default()), 9);
    assert_eq!(reordering_after(with(|s| s.tcp_max_reordering = 5)), 5);
    assert_eq!(reordering_after(with(|s| s.tcp_reordering = 20)), 20);
}
