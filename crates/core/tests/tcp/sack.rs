//! What the receiver reports: selective acknowledgements and duplicates (RFC 2018, RFC 2883).
use super::peer::{Peer, Shape};
use lowwater_core::base::Sysctl;

#[test]
fn the_block_that_changed_last_comes_first() {
    // RFC 2018 section 4.
    let mut p = Peer::server(Shape::default());
    p.inject(". 1001:2001 ack 1");
    p.expect(". 1 ack 1 sack 1001:2001");
    p.inject(". 3001:4001 ack 1");
    p.expect(". 1 ack 1 sack 3001:4001 1001:2001");
    p.inject(". 2001:3001 ack 1");
    p.expect(". 1 ack 1 sack 1001:4001");
    p.inject(". 1:1001 ack 1");
    p.expect(". 1 ack 4001");
    p.read(4_000);
}

#[test]
fn four_blocks_fit_and_three_beside_timestamps() {
    let mut p = Peer::server(Shape::default());
    let mut t = Peer::server(Shape { syn: "win 65535 mss 1460 sackOK ts 500000/0", ..Shape::default() });
    for (i, want4, want3) in [
        (1, "1001:1101", "1001:1101"),
        (2, "2001:2101 1001:1101", "2001:2101 1001:1101"),
        (3, "3001:3101 2001:2101 1001:1101", "3001:3101 2001:2101 1001:1101"),
        (4, "4001:4101 3001:3101 2001:2101 1001:1101", "4001:4101 3001:3101 2001:2101"),
        (5, "5001:5101 4001:4101 3001:3101 2001:2101", "5001:5101 4001:4101 3001:3101"),
    ] {
        let segment = format!(". {}:{} ack 1", i * 1_000 + 1, i * 1_000 + 101);
        p.inject(&segment);
        p.expect_at(0, &format!(". 1 ack 1 sack {want4}"));
        t.inject(&segment);
        let out = t.run_to(i * 2);
        assert_eq!(out.len(), 1);
        assert!(out[0].1.to_string().contains(&format!("sack {want3}")), "{}", out[0].1);
    }
}

#[test]
fn blocks_ride_on_data_too_and_shorten_it() {
    let mut p = Peer::server(Shape::default());
    p.inject(". 1001:2001 ack 1");
    p.expect(". 1 ack 1 sack 1001:2001");
    p.write(1_460);
    // 12 bytes of options: 1,448 of payload.
    p.expect(". 1:1449 ack 1 sack 1001:2001");
    p.expect("P. 1449:1461 ack 1 sack 1001:2001");
}

#[test]
fn none_without_the_peers_permission() {
    let mut p = Peer::server(Shape { syn: "win 65535 mss 1460", ..Shape::default() });
    p.inject(". 1001:2001 ack 1");
    p.expect(". 1 ack 1");
    p.inject(". 1:1001 ack 1");
    p.expect(". 1 ack 2001");
    p.inject(". 1:1001 ack 1");
    p.expect(". 1 ack 2001");
    let sysctl = Sysctl { tcp_sack: false, ..Sysctl::default() };
    let mut p = Peer::listening(Shape { sysctl, ..Shape::default() }, 1);
    p.inject("S 0 win 65535 mss 1460 sackOK");
    p.expect("S. 0 ack 1 mss 1460 opts");
}

#[test]
fn a_whole_duplicate_is_reported_once() {
    // RFC 2883 section 4.1.
    let mut p = Peer::server(Shape::default());
    p.inject(". 1:1001 ack 1");
    p.expect(". 1 ack 1001");
    p.inject(". 1:1001 ack 1");
    p.expect(". 1 ack 1001 sack 1:1001");
    p.inject(". 1001:2001 ack 1");
    p.expect(". 1 ack 2001");
    assert_eq!(p.stack.counters().tcp_ext.tcp_dsack_old_sent, 1);
}

#[test]
fn a_partial_duplicate_is_reported() {
    // RFC 2883 section 4.2.
    let mut p = Peer::server(Shape::default());
    p.inject(". 1:1001 ack 1");
    p.expect(". 1 ack 1001");
    p.inject(". 501:1501 ack 1");
    p.expect(". 1 ack 1501 sack 501:1001");
}

#[test]
fn a_duplicate_beyond_a_hole_comes_with_the_block_that_holds_it() {
    // RFC 2883 section 4.2.1: D-SACK first, then its enclosing block.
    let mut p = Peer::server(Shape::default());
    p.inject(". 3001:4001 ack 1");
    p.expect(". 1 ack 1 sack 3001:4001");
    p.inject(". 3001:4001 ack 1");
    p.expect(". 1 ack 1 sack 3001:4001 3001:4001");
    p.inject(". 3501:4501 ack 1");
    p.expect(". 1 ack 1 sack 3501:4001 3001:4501");
    assert_eq!(p.stack.counters().tcp_ext.tcp_dsack_ofo_sent, 2);
}

#[test]
fn the_sysctl_switches_duplicates_off() {
    let sysctl = Sysctl { tcp_dsack: false, ..Sysctl::default() };
    let mut p = Peer::server(Shape { sysctl, ..Shape::default() });
    p.inject(". 1:1001 ack 1");
    p.expect(". 1 ack 1001");
    p.inject(". 1:1001 ack 1");
    p.expect(". 1 ack 1001");
    p.inject(". 3001:4001 ack 1");
    p.expect(". 1 ack 1001 sack 3001:4001");
}

#[test]
fn the_fourth_duplicate_ack_waits_for_more_news() {
    // Linux's tcp_comp_sack_*: three go at once, the others at most min(rtt/20, 1 ms) later, together.
    let mut p = Peer::server(Shape { syn: "win 65535 mss 1460 sackOK ts 500000/0", ..Shape::default() });
    // A round trip as the receiver sees it: 100 ms, so that 1 ms is the bound.
    p.write(10);
    p.expect("P. 1:11");
    p.at(100);
    p.end_quick_acks(11);
    for i in 17..=19 {
        p.inject(&format!(". {}001:{}001 ack 11", i, i + 1));
        p.expect(&format!(". 11 ack 16001 sack 17001:{}001", i + 1));
    }
    p.inject(". 20001:21001 ack 11");
    p.quiet();
    p.inject(". 21001:22001 ack 11");
    p.at_us(100_999);
    p.expect_at_us(101_000, ". 11 ack 16001 sack 17001:22001");
    assert_eq!(p.stack.counters().tcp_ext.tcp_ack_compressed, 1);
    // A filled hole is told at once.
    p.inject(". 16001:17001 ack 11");
    p.expect(". 11 ack 22001");
    p.quiet();
}

/// What became of D-SACKs, as nstat tells it: duplicates, and those ignored as old, without an episode, dubious.
fn dsacks(p: &Peer) -> (u64, [u64; 3]) {
    let c = &p.stack.counters().tcp_ext;
    let ignored = [c.tcp_dsack_ignored_old, c.tcp_dsack_ignored_no_undo, c.tcp_dsack_ignored_dubious];
    (c.tcp_dsack_recv_segs, ignored)
}

#[test]
fn a_duplicate_counts_by_segments_and_one_that_nobody_sent_is_dubious() {
    let mut p = Peer::server(Shape { syn: "win 65535 mss 1000 sackOK", ..Shape::default() });
    p.write(4_000);
    p.expect_data(1, 4_001, 1_000);
    p.at(100);
    p.inject(". 1 ack 1001 sack 1:1001");
    assert_eq!(dsacks(&p), (0, [0, 0, 1]), "nothing was sent twice");
    // The retransmission timer sends three again, which had all arrived.
    p.run_to(900);
    p.inject(". 1 ack 2001");
    p.drain();
    p.at(1_000);
    p.inject(". 1 ack 4001");
    p.write(1_000);
    p.expect("P. 4001:5001");
    p.inject(". 1 ack 4001 sack 2001:4001");
    assert_eq!(dsacks(&p).0, 2, "one block, two segments");
}

#[test]
fn a_duplicate_outside_of_an_episode_says_which_it_is() {
    let mut p = Peer::server(Shape { syn: "win 65535 mss 1000 sackOK", ..Shape::default() });
    // A tail loss probe is sent again without an episode.
    p.write(1_000);
    p.expect("P. 1:1001");
    let (at, _) = p.run_to(400).remove(0);
    assert!(at > 100, "the probe");
    p.inject(". 1 ack 1001");
    p.write(1_000);
    p.expect("P. 1001:2001");
    p.inject(". 1 ack 1001 sack 1:1001");
    assert_eq!(dsacks(&p), (1, [0, 1, 0]));
    // An episode that began later.
    p.inject(". 1 ack 2001");
    p.write(4_000);
    p.expect_data(2_001, 6_001, 1_000);
    p.at(500);
    p.inject(". 1 ack 2001 sack 3001:6001");
    p.expect(". 2001:3001");
    p.inject(". 1 ack 2001 sack 1001:2001 3001:6001");
    assert_eq!(dsacks(&p), (2, [1, 1, 0]));
}

#[test]
fn blocks_that_name_nothing_sent_are_counted() {
    let mut p = Peer::server(Shape { syn: "win 65535 mss 1000 sackOK", ..Shape::default() });
    p.write(3_000);
    p.expect_data(1, 3_001, 1_000);
    p.at(100);
    p.inject(". 1 ack 1 sack 5001:6001");
    p.inject(". 1 ack 1 sack 2001:2001");
    assert_eq!(p.stack.counters().tcp_ext.tcp_sack_discard, 2);
    p.inject(". 1 ack 2001");
    // An acknowledgement that was overtaken: its block was true once.
    p.inject(". 1 ack 1 sack 1001:2001");
    assert_eq!(p.stack.counters().tcp_ext.tcp_sack_discard, 2);
}
