//! When acknowledgements go out: quick, delayed, with data (RFC 9293 section 3.8.6.3, RFC 5681 section 4.2).
use super::peer::{Peer, Shape};
use lowwater_core::base::Sysctl;
use lowwater_core::tcp::State;

#[test]
fn the_first_sixteen_segments_are_acknowledged_one_by_one() {
    // Linux's TCP_MAX_QUICKACKS: the sender's slow start needs the ACKs.
    let mut p = Peer::server(Shape::default());
    p.end_quick_acks(1);
    p.inject(". 16001:17001 ack 1");
    p.quiet();
}

#[test]
fn every_second_full_segment_is_acknowledged_at_once() {
    // RFC 5681 section 4.2 (MUST).
    let mut p = Peer::server(Shape::default());
    p.end_quick_acks(1);
    for i in 0..5 {
        let at = 16_001 + i * 2_000;
        p.inject(&format!(". {at}:{} ack 1", at + 1_000));
        p.quiet();
        // What waits narrows the window, and then Linux does not hurry.
        p.read(1_000);
        p.inject(&format!(". {}:{} ack 1", at + 1_000, at + 2_000));
        p.expect(&format!(". 1 ack {}", at + 2_000));
        p.read(1_000);
    }
    assert_eq!(p.stack.counters().tcp_ext.delayed_acks, 0);
}

#[test]
fn a_single_segment_waits_forty_milliseconds() {
    // RFC 9293 section 3.8.6.3: less than 0.5 s; Linux's TCP_DELACK_MIN.
    let mut p = Peer::server(Shape::default());
    p.end_quick_acks(1);
    p.inject(". 16001:17001 ack 1");
    p.at(39);
    p.expect_at(40, ". 1 ack 17001");
    assert_eq!(p.stack.counters().tcp_ext.delayed_acks, 1);
}

#[test]
fn small_segments_do_not_add_up_to_two_full_ones_too_early() {
    let mut p = Peer::server(Shape::default());
    p.end_quick_acks(1);
    // What waits narrows the window, and Linux does not hurry then; less than SO_RCVLOWAT does not count as waiting.
    p.set_rcvlowat(2_000);
    p.inject("P. 16001:16401 ack 1");
    p.quiet();
    p.inject("P. 16401:16801 ack 1");
    p.quiet();
    p.inject("P. 16801:17201 ack 1");
    p.expect(". 1 ack 17201");
}

#[test]
fn an_answer_carries_the_acknowledgement_and_makes_the_traffic_interactive() {
    let mut p = Peer::server(Shape::default());
    p.inject("P. 1:101 ack 1");
    p.expect(". 1 ack 101");
    p.read(100);
    p.at(5);
    p.write(200);
    p.expect("P. 1:201 ack 101");
    p.at(105);
    p.inject("P. 101:201 ack 201");
    p.quiet();
    p.at(110);
    p.read(100);
    p.quiet();
    p.write(200);
    p.expect("P. 201:401 ack 201");
    // Nothing is owed any more.
    p.at(205);
    assert_eq!(p.stack.counters().tcp_ext.delayed_acks, 0);
}

#[test]
fn an_answer_that_does_not_come_ends_interactive_mode() {
    let mut p = Peer::server(Shape::default());
    p.inject("P. 1:101 ack 1");
    p.expect(". 1 ack 101");
    p.write(200);
    p.expect("P. 1:201 ack 101");
    p.at(100);
    p.inject("P. 101:201 ack 201");
    // The gap of 100 ms is above the estimate, which stays at 40 ms.
    p.expect_at(140, ". 201 ack 201");
    p.at(200);
    p.inject("P. 201:301 ack 201");
    p.expect(". 201 ack 301");
}

#[test]
fn reading_sends_the_ack_of_a_small_tail() {
    // Linux's ICSK_ACK_PUSHED: nothing more will come, so the reader need not wait for the timer.
    let mut p = Peer::server(Shape::default());
    p.end_quick_acks(1);
    p.inject("P. 16001:16101 ack 1");
    p.quiet();
    p.read(100);
    p.expect(". 1 ack 16101");
}

#[test]
fn data_out_of_order_is_acknowledged_at_once_and_so_is_the_filler() {
    // RFC 5681 section 4.2.
    let mut p = Peer::server(Shape::default());
    p.end_quick_acks(1);
    p.inject(". 17001:18001 ack 1");
    p.expect(". 1 ack 16001 sack 17001:18001");
    p.inject(". 16001:17001 ack 1");
    p.expect(". 1 ack 18001");
}

#[test]
fn a_filler_of_one_of_two_holes_is_acknowledged_at_once() {
    let mut p = Peer::server(Shape::default());
    p.end_quick_acks(1);
    p.inject(". 17001:18001 ack 1");
    p.expect(". 1 ack 16001 sack 17001:18001");
    p.inject(". 19001:20001 ack 1");
    p.expect(". 1 ack 16001 sack 19001:20001 17001:18001");
    p.inject(". 16001:16501 ack 1");
    p.expect(". 1 ack 16501 sack 19001:20001 17001:18001");
}

#[test]
fn a_duplicate_brings_quick_acks_back() {
    // The peer seems to miss our ACKs.
    let mut p = Peer::server(Shape::default());
    p.end_quick_acks(1);
    p.inject(". 15001:16001 ack 1");
    p.expect(". 1 ack 16001 sack 15001:16001");
    p.inject(". 16001:17001 ack 1");
    p.expect(". 1 ack 17001");
    p.read(1_000);
    p.inject(". 17001:18001 ack 1");
    p.expect(". 1 ack 18001");
}

#[test]
fn a_pause_longer_than_the_rto_brings_quick_acks_back() {
    // The sender's window restarts after such a pause (RFC 5681 section 4.1).
    let mut p = Peer::server(Shape::default());
    p.end_quick_acks(1);
    p.at(301);
    p.inject(". 16001:17001 ack 1");
    p.expect(". 1 ack 17001");
}

#[test]
fn a_pure_ack_is_never_acknowledged() {
    let mut p = Peer::server(Shape::default());
    p.inject(". 1 ack 1 win 1000");
    p.inject(". 1 ack 1 win 2000");
    p.at(1_000);
    assert_eq!(p.state(), State::Established);
}

#[test]
fn a_fin_is_acknowledged_within_the_delay_and_at_once_while_we_close() {
    // Linux delays the ACK of a FIN like that of data in CLOSE-WAIT, and answers at once in FIN-WAIT-2.
    let mut p = Peer::server(Shape::default());
    p.end_quick_acks(1);
    p.inject("F. 16001 ack 1");
    p.expect_at(40, ". 1 ack 16002");
    let mut p = Peer::server(Shape::default());
    p.shutdown(lowwater_core::tcp::How::Write);
    p.expect("F. 1 ack 1");
    p.inject(". 1 ack 2");
    p.inject("F. 1 ack 2");
    p.expect(". 2 ack 2");
}

#[test]
fn the_sysctl_bounds_the_delay() {
    let sysctl = Sysctl { tcp_delack_max_us: 10_000, ..Sysctl::default() };
    let mut p = Peer::server(Shape { sysctl, ..Shape::default() });
    p.end_quick_acks(1);
    p.inject(". 16001:17001 ack 1");
    p.expect_at(10, ". 1 ack 17001");
}

#[test]
fn a_socket_may_bound_the_delay_for_itself() {
    let mut p = Peer::server(Shape { options: |o| o.delack_max_us = 10_000, ..Shape::default() });
    p.end_quick_acks(1);
    p.inject(". 16001:17001 ack 1");
    p.expect_at(10, ". 1 ack 17001");
}

#[test]
fn a_listener_may_ask_for_delays_from_the_handshake_on() {
    let mut p = Peer::server(Shape { options: |o| o.interactive = true, ..Shape::default() });
    p.inject("P. 1:101 ack 1");
    p.expect_at(40, ". 1 ack 101");
    // Loss ends it.
    p.inject("P. 201:301 ack 1");
    p.expect(". 1 ack 101 sack 201:301");
}

/// TCPHPHits, TCPHPAcks and TCPPureAcks.
fn predicted(p: &Peer) -> (u64, u64, u64) {
    let ext = &p.stack.counters().tcp_ext;
    (ext.tcp_hp_hits, ext.tcp_hp_acks, ext.tcp_pure_acks)
}

#[test]
fn what_header_prediction_would_recognize_is_counted() {
    for syn in ["win 65535 mss 1000 sackOK", "win 65535 mss 1012 sackOK ts 500000/0"] {
        let mut p = Peer::server(Shape { syn, ..Shape::default() });
        p.auto_timestamps(syn.contains("ts"));
        let (hits, acks, pure) = predicted(&p);
        // The first data takes a page of memory, which then has room for more.
        p.inject("P. 1:51 ack 1");
        assert_eq!(predicted(&p), (hits, acks, pure));
        p.drain();
        // Data in order, with the window as it was.
        p.inject("P. 51:101 ack 1");
        assert_eq!(predicted(&p), (hits + 1, acks, pure));
        p.drain();
        p.write(100);
        p.drain();
        // An acknowledgement of new data.
        p.inject(". 101 ack 101");
        assert_eq!(predicted(&p), (hits + 1, acks + 1, pure));
        // The same again says nothing new, and a window that moved is a surprise.
        p.inject(". 101 ack 101");
        assert_eq!(predicted(&p), (hits + 1, acks + 1, pure + 1));
        p.inject(". 101 ack 101 win 30000");
        assert_eq!(predicted(&p), (hits + 1, acks + 1, pure + 2));
        // Beyond a hole, and the data that fills it.
        p.inject("P. 201:301 ack 101 win 30000");
        p.drain();
        p.inject("P. 101:201 ack 101 win 30000");
        assert_eq!(predicted(&p), (hits + 1, acks + 1, pure + 2));
        p.drain();
        p.inject("P. 301:401 ack 101 win 30000");
        assert_eq!(predicted(&p), (hits + 2, acks + 1, pure + 2));
    }
}
