//! Sequence numbers pass 2^32 in the middle of a transfer (RFC 9293 section 3.4); timestamps may pass it too (RFC 7323 section 5).
use super::peer::{Peer, Shape};

/// Sequence numbers a millisecond: the clock of initial sequence numbers ticks every 64 ns.
const PER_MS: u64 = 15_625;

/// A connection whose first data begins at most [`PER_MS`] below 2^32.
fn wrapping() -> Peer {
    let shape = || Shape { syn: "win 65535 mss 1000 sackOK", ..Shape::default() };
    let mut first = Peer::listening(shape(), 1);
    first.inject("S 0 win 65535 mss 1000 sackOK");
    first.drain();
    let wait = (u64::from(u32::MAX) + 1 - u64::from(first.iss())) / PER_MS;
    let mut p = Peer::listening(shape(), 1);
    p.at(wait);
    p.inject("S 0 win 65535 mss 1000 sackOK");
    p.drain();
    assert!(u64::from(p.iss().wrapping_neg()) <= PER_MS, "{:#x}", p.iss());
    p.at(wait + 100);
    p.inject(". 1 ack 1");
    p.accept();
    p.set_zero();
    p
}

#[test]
fn data_acknowledgements_and_sack_pass_the_end_of_the_numbers() {
    let mut p = wrapping();
    let (mut una, mut nxt) = (1, 10_001);
    p.write(40_000);
    p.expect_data(1, 10_001, 1_000);
    p.at(100);
    // Two segments for each that is acknowledged, up to the segment before the end of the numbers.
    let end = p.iss().wrapping_neg();
    while una + 2_000 < end {
        una += 1_000;
        p.inject(&format!(". 1 ack {una}"));
        p.expect_data(nxt, (nxt + 2_000).min(40_001), 1_000);
        nxt = (nxt + 2_000).min(40_001);
    }
    // That segment is lost; what is sacked lies beyond the end.
    assert!(una < end && end < una + 4_000, "{una} {end}");
    p.inject(&format!(". 1 ack {una} sack {}:{}", una + 1_000, una + 4_000));
    p.expect(&format!(". {una}:{}", una + 1_000));
    p.drain();
    let info = p.info();
    assert_eq!((info.ca_state, info.lost, info.retrans, info.sacked), (3, 1, 1, 3));
    p.inject(&format!(". 1 ack {nxt}"));
    p.drain();
    let info = p.info();
    assert_eq!((info.ca_state, info.lost, info.retrans, info.total_retrans), (0, 0, 0, 1));
    assert_eq!(info.bytes_acked, u64::from(nxt) - 1);
}

#[test]
fn the_congestion_window_and_the_timer_know_no_end_of_the_numbers() {
    let mut p = wrapping();
    p.write(10_000);
    p.expect_data(1, 10_001, 1_000);
    p.run_to(250);
    p.drain();
    let info = p.info();
    assert_eq!(info.unacked, 10);
    p.inject(". 1 ack 10001");
    p.write(20_000);
    p.expect_data(10_001, 30_001, 1_000);
    p.at(350);
    p.inject(". 1 ack 30001");
    let info = p.info();
    assert_eq!((info.unacked, info.bytes_acked, info.ca_state), (0, 30_000, 0));
}
