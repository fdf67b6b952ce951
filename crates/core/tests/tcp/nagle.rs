//! Small segments: Nagle in Minshall's form, TCP_NODELAY, TCP_CORK, MSG_MORE, PSH (RFC 9293 section 3.7.4).
use super::peer::{Peer, Shape};
use lowwater_core::base::Sysctl;
use lowwater_core::tcp::{How, SendFlags};

#[test]
fn a_second_small_segment_waits_for_the_first() {
    let mut p = Peer::server(Shape::default());
    p.write(100);
    p.expect("P. 1:101");
    p.write(100);
    p.write(50);
    p.quiet();
    p.at(50);
    p.inject(". 1 ack 101");
    p.expect("P. 101:251");
    p.quiet();
}

#[test]
fn full_segments_never_wait() {
    let mut p = Peer::server(Shape::default());
    p.write(100);
    p.expect("P. 1:101");
    p.write(1_460);
    p.expect("P. 101:1561");
    p.write(1_000);
    p.quiet();
    p.write(2_000);
    // 3,000 bytes: two full segments, and 80 bytes that wait.
    p.expect(". 1561:3021");
    p.expect(". 3021:4481");
    p.quiet();
    p.inject(". 1 ack 4481");
    p.expect("P. 4481:4561");
}

#[test]
fn minshall_lets_one_small_segment_follow_full_ones() {
    // Nagle in RFC 9293's words would hold the 100 bytes as long as anything is unacknowledged.
    let mut p = Peer::server(Shape::default());
    p.write(1_560);
    p.expect("p. 1:1461");
    p.expect("P. 1461:1561");
    p.write(100);
    p.quiet();
    // The full one is acknowledged, the small one is not: still one at a time.
    p.inject(". 1 ack 1461");
    p.quiet();
    p.inject(". 1 ack 1561");
    p.expect("P. 1561:1661");
}

#[test]
fn nodelay_sends_each_write() {
    let mut p = Peer::server(Shape { options: |o| o.nodelay = true, ..Shape::default() });
    for i in 0..3 {
        p.write(100);
        p.expect(&format!("P. {}:{}", i * 100 + 1, i * 100 + 101));
    }
}

#[test]
fn switching_nagle_off_pushes_what_waits() {
    let mut p = Peer::server(Shape::default());
    p.write(100);
    p.expect("P. 1:101");
    p.write(100);
    p.quiet();
    p.set(|o| o.nodelay = true);
    p.expect("P. 101:201");
}

#[test]
fn a_cork_holds_partial_segments_and_lets_full_ones_pass() {
    let mut p = Peer::server(Shape { options: |o| o.cork = true, ..Shape::default() });
    p.write(1_000);
    p.quiet();
    p.write(1_000);
    p.expect(". 1:1461");
    p.quiet();
    p.set(|o| o.cork = false);
    p.expect("P. 1461:2001");
}

#[test]
fn a_cork_beats_nodelay() {
    // Linux: with both, the cork holds; uncorking then sends at once whatever is in flight.
    let mut p = Peer::server(Shape { options: |o| (o.cork, o.nodelay) = (true, true), ..Shape::default() });
    p.write(100);
    p.quiet();
    p.set(|o| o.cork = false);
    p.expect("P. 1:101");
}

#[test]
fn a_forgotten_cork_pops_after_the_rto() {
    // Linux: the probe timer, at least 200 ms; here the RTO is 100 + 200 ms.
    let mut p = Peer::server(Shape { options: |o| o.cork = true, ..Shape::default() });
    p.write(100);
    p.at(299);
    p.expect_at(300, "P. 1:101");
    p.quiet();
}

#[test]
fn more_holds_until_the_next_write() {
    let mut p = Peer::server(Shape::default());
    p.write_more(100);
    p.quiet();
    p.write_more(100);
    p.quiet();
    p.write(100);
    p.expect("P. 1:301");
    p.quiet();
}

#[test]
fn more_lets_full_segments_pass() {
    let mut p = Peer::server(Shape::default());
    p.write_more(2_000);
    p.expect(". 1:1461");
    p.quiet();
    p.write(1);
    p.expect("P. 1461:2002");
}

#[test]
fn a_fin_takes_along_what_waits() {
    let mut p = Peer::server(Shape::default());
    p.write(100);
    p.expect("P. 1:101");
    p.write(100);
    p.quiet();
    p.shutdown(How::Write);
    p.expect("FP. 101:201");
    let mut p = Peer::server(Shape { options: |o| o.cork = true, ..Shape::default() });
    p.write(100);
    p.quiet();
    p.close();
    p.expect("FP. 1:101");
}

#[test]
fn an_end_of_record_is_not_joined_with_what_follows() {
    // MSG_EOR.
    let mut p = Peer::server(Shape::default());
    p.write(100);
    p.expect("P. 1:101");
    let eor = SendFlags { eor: true, ..SendFlags::default() };
    assert_eq!(p.try_write(100, eor), Ok(100));
    p.quiet();
    // What is not the last of the queue is not held by Nagle: nothing can be added to it any more.
    p.write(100);
    p.expect("P. 101:201");
    p.inject(". 1 ack 201");
    p.expect("P. 201:301");
}

#[test]
fn push_marks_the_end_of_a_write_and_not_its_middle() {
    // RFC 9293 section 3.9.1.2 (MAY-16): the last segment of what was handed over.
    // One packet: the last segment of each packet of several has it anyway.
    let sysctl = Sysctl { tcp_min_tso_segs: 3, ..Sysctl::default() };
    let mut p = Peer::server(Shape { sysctl, ..Shape::default() });
    p.write(4_000);
    p.expect("p. 1:1461");
    p.expect("p. 1461:2921");
    p.expect("P. 2921:4001");
}
