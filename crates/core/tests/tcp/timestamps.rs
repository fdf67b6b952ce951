//! Timestamps and PAWS (RFC 7323 sections 3 to 5).
use super::peer::{Peer, Shape};
use lowwater_core::base::{Error, Sysctl};
use lowwater_core::tcp::State;

const SYN: &str = "win 65535 mss 1460 sackOK ts 500000/0";

/// The peer's clock at time zero shows 500,100; ours, relative to its first value, 100.
fn server() -> Peer {
    let mut p = Peer::server(Shape { syn: SYN, ..Shape::default() });
    p.auto_timestamps(false);
    p
}

#[test]
fn every_segment_carries_the_clock_and_the_last_value_of_the_peer() {
    let mut p = server();
    p.inject("P. 1:11 ack 1 ts 500100/0");
    p.expect(". 1 ack 11 ts 100/500100");
    p.at(7);
    p.write(10);
    p.expect("P. 1:11 ack 11 ts 107/500100");
    p.read(10);
    p.abort();
    p.expect("R. 11 ack 11 ts 107/500100");
}

#[test]
fn without_the_peers_offer_no_segment_carries_them() {
    let mut p = Peer::server(Shape::default());
    p.write(10);
    assert_eq!(p.expect("P. 1:11 ack 1").ts, None);
}

#[test]
fn the_sysctl_switches_them_off_and_their_offset_off() {
    let sysctl = Sysctl { tcp_timestamps: 0, ..Sysctl::default() };
    let mut p = Peer::connecting(Shape { sysctl, ..Shape::default() });
    p.expect("S 0 win 64240 mss 1460 sackOK ws 7 opts");
    let mut p = Peer::server(Shape {
        syn: SYN,
        sysctl: Sysctl { tcp_timestamps: 0, ..Sysctl::default() },
        ..Shape::default()
    });
    p.write(10);
    assert_eq!(p.expect("P. 1:11").ts, None);
}

#[test]
fn an_older_timestamp_is_rejected_with_an_ack() {
    // RFC 7323 section 5.3 R1: not acceptable, ACK <SEQ=SND.NXT><ACK=RCV.NXT>, drop.
    let mut p = server();
    p.inject("P. 1:11 ack 1 ts 500200/0");
    p.expect(". 1 ack 11");
    p.inject("P. 11:21 ack 1 ts 500198/0");
    p.expect(". 1 ack 11 ts 100/500200");
    p.read(10);
    assert_eq!(p.try_read(1), Err(Error::WouldBlock));
    assert_eq!(p.stack.counters().tcp_ext.paws_estab, 1);
    // One tick older is let through (Linux's TCP_PAWS_WINDOW), without moving TS.Recent back.
    p.inject("P. 11:21 ack 1 ts 500199/0");
    p.expect(". 1 ack 21 ts 100/500200");
    p.read(10);
}

#[test]
fn the_clock_may_wrap() {
    let mut p = Peer::listening(Shape::default(), 1);
    p.inject("S 0 win 65535 mss 1460 ts 4294967290/0");
    p.expect("S. 0 ack 1 ts 0/4294967290");
    p.inject("P. 1:11 ack 1 ts 4294967295/0");
    p.accept();
    p.expect(". 1 ack 11 ts 0/4294967295");
    p.inject("P. 11:21 ack 1 ts 3/0");
    p.expect(". 1 ack 21 ts 0/3");
    p.inject("P. 21:31 ack 1 ts 4294967295/0");
    p.expect(". 1 ack 21 ts 0/3");
    p.read(20);
}

#[test]
fn a_reset_needs_no_timestamp_and_may_have_an_old_one() {
    // RFC 7323 section 5.2.
    let mut p = server();
    p.inject("P. 1:11 ack 1 ts 500200/0");
    p.expect(". 1 ack 11");
    p.inject("R 11 ts 1/0");
    assert_eq!(p.state(), State::Close);
}

#[test]
fn a_segment_without_the_option_is_taken() {
    // RFC 7323 section 3.2 says SHOULD drop; Linux takes it, since middleboxes strip options.
    let mut p = server();
    p.inject("P. 1:11 ack 1");
    p.expect(". 1 ack 11");
    p.read(10);
}

#[test]
fn after_2147_idle_seconds_the_last_value_is_no_longer_trusted() {
    // RFC 7323 section 5.5; Linux 6.7 and later allow for a clock of a microsecond.
    let mut p = server();
    p.inject("P. 1:11 ack 1 ts 500200/0");
    p.expect(". 1 ack 11");
    p.read(10);
    p.at(2_145_000);
    p.inject("P. 11:21 ack 1 ts 500000/0");
    p.expect(". 1 ack 11");
    p.at(2_148_000);
    p.inject("P. 11:21 ack 1 ts 500000/0");
    p.expect(". 1 ack 21");
    p.read(10);
}

#[test]
fn the_echo_follows_the_left_edge_only() {
    // RFC 7323 section 4.3: SEG.SEQ <= Last.ACK.sent.
    let mut p = server();
    p.inject("P. 101:201 ack 1 ts 500300/0");
    p.expect(". 1 ack 1 sack 101:201 ts 100/500100");
    p.inject("P. 1:101 ack 1 ts 500250/0");
    p.expect(". 1 ack 201 ts 100/500250");
    // Too old a segment of old data does not move it back.
    p.inject("P. 1:101 ack 1 ts 500249/0");
    p.expect(". 1 ack 201 sack 1:101 ts 100/500250");
}

#[test]
fn a_delayed_ack_echoes_the_first_of_its_segments() {
    // RFC 7323 section 4.3 (A): the sender's RTT then includes the delay.
    let mut p = server();
    let mut at = 1;
    for _ in 0..16 {
        p.inject(&format!(". {at}:{} ack 1 ts 500100/0", at + 1_000));
        p.expect(&format!(". 1 ack {}", at + 1_000));
        p.read(1_000);
        at += 1_000;
    }
    p.inject(&format!(". {at}:{} ack 1 ts 500110/0", at + 1_000));
    p.quiet();
    p.read(1_000);
    p.inject(&format!(". {}:{} ack 1 ts 500120/0", at + 1_000, at + 2_000));
    p.expect(&format!(". 1 ack {} ts 100/500110", at + 2_000));
}

#[test]
fn round_trips_are_measured_across_retransmissions() {
    // RFC 7323 section 4 against Karn's rule: the echo tells which transmission was answered.
    let mut p = server();
    p.write(100);
    p.expect("P. 1:101 ts 100/500100");
    let lost = p.run_to(900);
    assert_eq!(lost.len(), 2, "TLP and RTO: {lost:?}");
    let info = p.info();
    assert!(info.backoff > 0);
    p.inject(". 1 ack 101 ts 501000/700");
    // 1,000 - 700 = 300 ms: srtt = 7/8 * 100 + 1/8 * 300 = 125 ms.
    assert_eq!((p.info().rtt, p.info().backoff), (125_000, 0));
}

#[test]
fn an_old_syn_is_challenged_and_an_old_acknowledgement_is_silence() {
    let mut p = Peer::server(Shape { syn: "win 65535 mss 1460 sackOK ts 500000/0", ..Shape::default() });
    p.auto_timestamps(false);
    p.inject("P. 1:11 ack 1 ts 510000/0");
    p.expect(". 1 ack 11");
    p.inject("S 5 win 65535 ts 1/0");
    p.expect(". 1 ack 11");
    // Overtaken on its way: common, and no sign of confusion (Linux 6.14).
    p.at(1_000);
    p.inject(". 1 ack 1 ts 500001/0");
    p.quiet();
    let c = &p.stack.counters().tcp_ext;
    assert_eq!((c.tcp_syn_challenge, c.paws_old_ack, c.paws_estab), (1, 1, 0));
    // Old data is answered.
    p.inject("P. 11:21 ack 1 ts 500001/0");
    p.expect(". 1 ack 11");
    assert_eq!(p.stack.counters().tcp_ext.paws_estab, 1);
}

#[test]
fn a_timestamp_of_zero_in_the_syn_forbids_nothing() {
    // Some hosts have no clock before the connection is there (`tcp_paws_check`).
    let mut p = Peer::listening(Shape::default(), 8);
    p.inject("S 0 win 65535 mss 1460 ts 0/0");
    p.expect("S. 0 ack 1");
    p.inject(". 1 ack 1 ts 4000000000/0");
    p.accept();
    p.inject("P. 1:11 ack 1 ts 4000000001/0");
    p.expect(". 1 ack 11 ts 0/4000000001");
    // What followed the zero is remembered, whatever it was.
    p.inject("P. 11:21 ack 1 ts 3999999000/0");
    p.expect(". 1 ack 11 ts 0/4000000001");
    assert_eq!(p.stack.counters().tcp_ext.paws_estab, 1);
}
