//! TIME-WAIT: what it answers, and when a new connection may take its place (RFC 9293 section 3.6.1, RFC 6191, RFC 1337).
use super::peer::{Peer, Shape};
use lowwater_core::base::{Error, Sysctl};
use lowwater_core::tcp::{How, State};

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

/// What is read before the answer to the FIN leaves gives room back, and a window that was offered is not taken back (RFC 9293 section 3.8.6).
#[test]
fn what_the_answer_to_the_fin_offered_stays_offered() {
    let mut p = Peer::server(Shape { options: |o| o.rcvbuf = Some(2_304), ..Shape::default() });
    p.shutdown(How::Write);
    p.expect("F. 1 ack 1");
    p.stall(true);
    p.inject("FP. 1:78 ack 2");
    p.read(77);
    p.stall(false);
    let first = p.expect(". 2 ack 79");
    p.inject("FP. 1:78 ack 2");
    assert_eq!(p.expect(". 2 ack 79").win, first.win);
}

/// The answer to the FIN has not left when the SYN comes.
#[test]
fn one_that_somebody_holds_makes_way_at_once() {
    let mut p = Peer::server(Shape::default());
    p.shutdown(How::Both);
    p.expect("F. 1 ack 1");
    p.inject("F. 1 ack 2");
    p.expect(". 2 ack 2");
    let sent = p.stack.counters().tcp.out_segs;
    p.inject_together(&["F. 1 ack 2", "S 3 win 65535 mss 1460", "R 4"]);
    assert_eq!(p.drain().len(), 1, "a SYN-ACK, and it was taken back");
    assert_eq!(p.stack.counters().tcp.out_segs, sent + 1);
    assert_eq!(p.stack.small_objects(), (0, 0, 0));
    assert_eq!(p.state(), State::Close);
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
    assert_eq!(p.stack.counters().tcp_ext.tw_recycled, 0, "that counts active opens");
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
    let counts =
        |p: &Peer| (p.stack.counters().tcp_ext.tcp_time_wait_overflow, p.stack.counters().tcp_ext.tw);
    assert_eq!(counts(&p), (1, 0));
    // So where somebody holds it.
    let sysctl = Sysctl { tcp_max_tw_buckets: 0, ..Sysctl::default() };
    let mut p = Peer::server(Shape { sysctl, ..Shape::default() });
    p.shutdown(How::Both);
    p.expect("F. 1 ack 1");
    p.inject("F. 1 ack 2");
    p.expect(". 2 ack 2");
    assert_eq!((p.state(), counts(&p)), (State::Close, (1, 0)));
}

/// The peer's connection 5000 is in TIME-WAIT with timestamps; the stack's next active open goes to the peer's port 5000 from 80.
fn reopen(shape: Shape, wait_ms: u64) -> Result<Peer, Error> {
    let mut p = time_wait(Shape { syn: "win 65535 mss 1460 sackOK ts 500000/0", ..shape });
    p.auto_timestamps(false);
    p.at(wait_ms);
    p.connect_from(80, 5_000).map(|()| p)
}

#[test]
fn an_active_open_may_follow_by_timestamps_when_its_port_was_asked_for() {
    // RFC 6191; Linux asks tcp_tw_reuse only where it chooses the port itself.
    let mut p = reopen(Shape::default(), 10).expect("the flow is free");
    // The SYN echoes what TIME-WAIT knew of the peer's clock.
    p.expect("S 65539 ts 110/500100");
    assert_eq!((p.stack.small_objects().1, p.stack.counters().tcp_ext.tw_recycled), (0, 1));
}

#[test]
fn an_active_open_may_not_follow_without_timestamps() {
    let sysctl = Sysctl { tcp_timestamps: 0, ..Sysctl::default() };
    let mut p = time_wait(Shape { sysctl, ..Shape::default() });
    p.at(5_000);
    assert_eq!(p.connect_from(80, 5_000), Err(Error::AddressNotAvailable));
    assert_eq!(p.stack.small_objects().1, 1);
}

#[test]
fn a_syn_that_nobody_listens_for_gets_the_last_acknowledgement() {
    let mut p = time_wait(Shape::default());
    p.close_listener();
    p.inject("S 3 win 65535 mss 1460");
    p.expect(". 2 ack 2");
    assert_eq!(p.stack.small_objects().1, 1);
}

/// One port for active opens, whose connection to the peer is in TIME-WAIT since time zero.
fn last_port(reuse: u32) -> Peer {
    let sysctl = Sysctl { ip_local_port_range: (40_000, 40_000), tcp_tw_reuse: reuse, ..Sysctl::default() };
    let mut p =
        Peer::client(Shape { sysctl, syn: "win 65535 mss 1460 sackOK ts 500000/0", ..Shape::default() });
    p.close();
    p.expect("F. 1 ack 1");
    p.inject("F. 1 ack 2");
    p.expect(". 2 ack 2");
    p
}

#[test]
fn a_port_that_the_stack_chooses_is_reused_after_a_second_where_the_setting_says_so() {
    let mut p = last_port(1);
    p.at(1_000);
    assert_eq!(p.try_connect(), Err(Error::AddressNotAvailable));
    p.at(1_001);
    assert_eq!(p.try_connect(), Ok(()));
    p.expect("S 65539");
    // By default only on loopback.
    for reuse in [0, 2] {
        let mut p = last_port(reuse);
        p.at(30_000);
        assert_eq!(p.try_connect(), Err(Error::AddressNotAvailable));
        p.at(60_000);
        assert_eq!(p.try_connect(), Ok(()));
    }
}

#[test]
fn what_does_not_fit_is_counted() {
    let sysctl = Sysctl { tcp_max_tw_buckets: 0, ..Sysctl::default() };
    let mut p = Peer::server(Shape { sysctl, ..Shape::default() });
    p.close();
    p.expect("F. 1 ack 1");
    p.inject("F. 1 ack 2");
    p.expect(". 2 ack 2");
    assert_eq!(p.stack.counters().tcp_ext.tcp_time_wait_overflow, 1);
}
