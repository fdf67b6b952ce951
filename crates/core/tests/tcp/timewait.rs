//! TIME-WAIT: what it answers, and when a new connection may take its place (RFC 9293 section 3.6.1, RFC 6191, RFC 1337).
use super::peer::{Peer, Shape};
use lowwater_core::base::Sysctl;

/// In TIME-WAIT since time zero; next numbers: 2 on both sides.
fn time_wait(shape: Shape) -> Peer {
    let mut p = Peer::server(shape);
    p.close();
    p.expect("F. 1 ack 1");
    p.inject("F. 1 ack 2");
    p.expect(". 2 ack 2");
    assert_eq!(p.stack.small_objects(), (0, 1, 0));
    p
}

#[test]
fn a_repeated_fin_is_acknowledged_and_the_wait_begins_anew() {
    let mut p = time_wait(Shape::default());
    p.at(50_000);
    p.inject("F. 1 ack 2");
    p.expect(". 2 ack 2");
    p.at(109_999);
    assert_eq!(p.stack.small_objects().1, 1);
    p.at(110_000);
    assert_eq!(p.stack.small_objects().1, 0);
}

#[test]
fn answers_are_limited() {
    let mut p = time_wait(Shape::default());
    p.inject(". 0 ack 2");
    p.expect(". 2 ack 2");
    p.inject(". 0 ack 2");
    p.quiet();
    // What occupies sequence space cannot be an answer to an answer.
    p.inject("F. 1 ack 2");
    p.expect(". 2 ack 2");
    p.at(500);
    p.inject(". 0 ack 2");
    p.expect(". 2 ack 2");
    assert_eq!(p.stack.counters().tcp_ext.tcp_ack_skipped_time_wait, 1);
}

#[test]
fn a_syn_with_a_higher_number_opens_a_new_connection() {
    // RFC 9293 section 3.6.1 (MAY-2): larger than the largest number used before.
    let mut p = time_wait(Shape::default());
    p.at(1_000);
    let old = p.forget_iss().unwrap();
    p.inject("S 3 win 65535 mss 1460");
    p.expect("S. 0 ack 4");
    // Our own number is beyond everything of the old connection: SND.NXT + 65,535 + 2.
    assert_eq!(p.iss().wrapping_sub(old), 2 + 65_537);
    p.inject(". 4 ack 1");
    p.accept();
    p.inject("P. 4:14 ack 1");
    p.expect(". 1 ack 14");
    assert_eq!(p.stack.counters().tcp_ext.tw_recycled, 1);
}

#[test]
fn a_syn_with_an_old_number_is_answered_with_the_last_ack() {
    let mut p = time_wait(Shape::default());
    p.inject("S 2 win 65535 mss 1460");
    p.expect(". 2 ack 2");
    p.at(1_000);
    p.inject("S -100000 win 65535 mss 1460");
    p.expect(". 2 ack 2");
    assert_eq!(p.stack.small_objects().1, 1);
}

#[test]
fn a_newer_timestamp_opens_even_with_an_old_number() {
    // RFC 6191 section 2.
    let mut p = time_wait(Shape { syn: "win 65535 mss 1460 sackOK ts 500000/0", ..Shape::default() });
    p.auto_timestamps(false);
    p.at(1_000);
    p.inject("S -100000 win 65535 mss 1460 ts 1/0");
    p.expect(". 2 ack 2");
    p.at(2_000);
    p.forget_iss();
    p.inject("S -100000 win 65535 mss 1460 ts 502000/0");
    p.expect("S. 0 ack -99999");
}

#[test]
fn a_reset_ends_it_unless_rfc1337_is_asked_for() {
    // RFC 1337 section 3 against Linux's default.
    let mut p = time_wait(Shape::default());
    p.inject("R 3");
    assert_eq!(p.stack.small_objects().1, 1, "not its number");
    p.inject("R 2");
    assert_eq!(p.stack.small_objects().1, 0);
    let sysctl = Sysctl { tcp_rfc1337: true, ..Sysctl::default() };
    let mut p = time_wait(Shape { sysctl, ..Shape::default() });
    p.inject("R 2");
    assert_eq!(p.stack.small_objects().1, 1);
    p.quiet();
}

#[test]
fn old_data_is_acknowledged_and_pure_acks_are_not() {
    let mut p = time_wait(Shape::default());
    p.inject(". 2 ack 2");
    p.quiet();
    p.inject("P. -50:2 ack 2");
    p.expect(". 2 ack 2");
}

#[test]
fn the_port_can_be_used_for_an_active_open_only_after_it() {
    let mut p = time_wait(Shape::default());
    assert_eq!(p.stack.counters().tcp_ext.tw, 1);
    p.at(60_000);
    p.inject("F. 1 ack 2");
    p.expect("R 2");
}

#[test]
fn the_number_of_them_is_bounded() {
    let sysctl = Sysctl { tcp_max_tw_buckets: 0, ..Sysctl::default() };
    let mut p = Peer::server(Shape { sysctl, ..Shape::default() });
    p.close();
    p.expect("F. 1 ack 1");
    p.inject("F. 1 ack 2");
    p.expect(". 2 ack 2");
    assert_eq!((p.sockets(), p.stack.small_objects()), (1, (0, 0, 0)));
}
