//! Loss: fast retransmit, RACK, PRR, limited transmit, tail loss probes, NewReno (RFC 5681, 8985, 9937, 3042, 6582).
use super::peer::{Peer, Shape};
use lowwater_core::base::Sysctl;

/// Segments of 1,000 bytes, SACK, 100 ms of round trip: the RTO is 300 ms.
fn sack() -> Peer {
    Peer::server(Shape { syn: "win 65535 mss 1000 sackOK", ..Shape::default() })
}

fn no_sack() -> Peer {
    Peer::server(Shape { syn: "win 65535 mss 1000", ..Shape::default() })
}

/// Ten segments left at time zero; now it is 100 ms later.
fn ten_out(p: &mut Peer, written: usize) {
    p.write(written);
    p.expect_data(1, 10_001, 1_000);
    p.at(100);
}

#[test]
fn the_third_sacked_segment_brings_the_first_one_again() {
    // RFC 6675 section 5 / RFC 8985 section 6.2 with a reordering window of zero once three are sacked.
    let mut p = sack();
    ten_out(&mut p, 10_000);
    p.inject(". 1 ack 1 sack 1001:2001");
    p.inject(". 1 ack 1 sack 1001:3001");
    p.quiet();
    p.inject(". 1 ack 1 sack 1001:4001");
    p.expect(". 1:1001");
    let info = p.info();
    assert_eq!((info.ca_state, info.lost, info.retrans, info.sacked), (3, 1, 1, 3));
    p.inject(". 1 ack 1 sack 1001:10001");
    p.quiet();
    p.at(200);
    p.inject(". 1 ack 10001");
    // CUBIC: 10 * 717 / 1024 = 7.
    let info = p.info();
    assert_eq!((info.ca_state, info.snd_cwnd, info.snd_ssthresh), (0, 7, 7));
}

#[test]
fn one_sacked_segment_brings_it_after_a_quarter_of_the_round_trip() {
    // RFC 8985 section 6.2 step 4: reo_wnd = min_rtt/4 = 25 ms; 2 ms of slack for the timer.
    let mut p = sack();
    p.write(3_000);
    p.expect_data(1, 3_001, 1_000);
    p.at(100);
    p.inject(". 1 ack 1 sack 1001:2001");
    p.at(126);
    p.expect_at(127, ". 1:1001");
}

#[test]
fn a_segment_that_was_only_late_is_not_sent_again() {
    let mut p = sack();
    p.write(3_000);
    p.expect_data(1, 3_001, 1_000);
    p.at(100);
    p.inject(". 1 ack 1 sack 1001:2001");
    p.at(120);
    p.inject(". 1 ack 3001");
    p.at(10_000);
    let info = p.info();
    assert_eq!((info.total_retrans, info.snd_cwnd), (0, 10));
}

#[test]
fn limited_transmit_and_proportional_rate_reduction() {
    // RFC 3042: each of the first two duplicates lets one new segment out. Then RFC 9937 by hand: prior_cwnd 10, ssthresh 7.
    let mut p = sack();
    ten_out(&mut p, 30_000);
    // 2 ms apart: within 1 ms after a packet Linux prefers to wait for a larger one (tcp_tso_should_defer).
    p.inject(". 1 ack 1 sack 1001:2001");
    p.expect(". 10001:11001");
    p.at(102);
    p.inject(". 1 ack 1 sack 1001:3001");
    p.expect(". 11001:12001");
    // In flight 12 - 3 sacked - 1 lost = 8 > 7: ceil(7 * 1 / 10) - 0 = 1, the retransmission.
    p.at(104);
    p.inject(". 1 ack 1 sack 1001:4001");
    p.expect(". 1:1001");
    p.quiet();
    // ceil(14/10) - 1 = 1, ceil(21/10) - 2 = 1, ceil(28/10) - 3 = 0.
    p.at(106);
    p.inject(". 1 ack 1 sack 1001:5001");
    p.expect(". 12001:13001");
    p.at(108);
    p.inject(". 1 ack 1 sack 1001:6001");
    p.expect(". 13001:14001");
    p.at(110);
    p.inject(". 1 ack 1 sack 1001:7001");
    p.quiet();
    // In flight 14 - 7 = 7 = ssthresh: nothing; then below it, one for one.
    p.at(112);
    p.inject(". 1 ack 1 sack 1001:8001");
    p.quiet();
    p.at(114);
    p.inject(". 1 ack 1 sack 1001:9001");
    p.expect(". 14001:15001");
    p.at(116);
    p.inject(". 1 ack 1 sack 1001:10001");
    p.expect(". 15001:16001");
    p.quiet();
    p.at(200);
    // Everything up to the recovery point 12,001: four in flight, the window is 7.
    p.inject(". 1 ack 12001");
    p.expect_data(16_001, 19_001, 1_000);
    p.quiet();
    assert_eq!(p.info().snd_cwnd, 7);
}

#[test]
fn several_holes_are_repaired_in_one_recovery() {
    let mut p = sack();
    ten_out(&mut p, 10_000);
    // 1, 3 and 5 are lost.
    p.inject(". 1 ack 1 sack 1001:2001");
    p.inject(". 1 ack 1 sack 3001:4001 1001:2001");
    p.inject(". 1 ack 1 sack 5001:6001 3001:4001 1001:2001");
    p.expect(". 1:1001");
    p.inject(". 1 ack 1 sack 5001:7001 3001:4001 1001:2001");
    p.expect(". 2001:3001");
    p.inject(". 1 ack 1 sack 5001:8001 3001:4001 1001:2001");
    p.expect(". 4001:5001");
    p.inject(". 1 ack 1 sack 5001:10001 3001:4001 1001:2001");
    p.quiet();
    p.at(200);
    p.inject(". 1 ack 10001");
    assert_eq!((p.info().snd_cwnd, p.info().total_retrans), (7, 3));
}

#[test]
fn a_lost_retransmission_is_found_by_rack() {
    // RFC 8985: what was sent after it is delivered, so it is lost again; dupack counting would wait for the RTO.
    let mut p = sack();
    ten_out(&mut p, 30_000);
    p.inject(". 1 ack 1 sack 1001:2001");
    p.expect(". 10001:11001");
    p.at(102);
    p.inject(". 1 ack 1 sack 1001:3001");
    p.expect(". 11001:12001");
    p.at(104);
    p.inject(". 1 ack 1 sack 1001:4001");
    p.expect(". 1:1001");
    p.at(110);
    p.inject(". 1 ack 1 sack 1001:5001");
    p.expect(". 12001:13001");
    // What left at 110 arrives, what left at 104 did not. In flight 13 - 6 - 1 = 6: one more.
    p.at(210);
    p.inject(". 1 ack 1 sack 1001:6001 12001:13001");
    p.expect(". 1:1001");
    assert_eq!(p.stack.counters().tcp_ext.tcp_lost_retransmit, 1);
}

#[test]
fn a_tail_is_probed_after_two_round_trips() {
    // RFC 8985 section 7.2: PTO = 2 * SRTT + 2 ms with more than one segment out: the last one again.
    let mut p = sack();
    p.write(3_000);
    p.expect_data(1, 3_001, 1_000);
    p.at(201);
    p.expect_at(202, "P. 2001:3001");
    assert_eq!(p.stack.counters().tcp_ext.tcp_loss_probes, 1);
    // The whole tail was lost: the probe's SACK shows the hole.
    p.at(302);
    p.inject(". 1 ack 1 sack 2001:3001");
    p.drain();
    let more = p.run_to(400);
    assert!(more.iter().all(|(_, s)| s.seq == Some(1) || s.seq == Some(1_001)), "{more:?}");
    assert_eq!(p.stack.counters().tcp_ext.tcp_timeouts, 0, "no RTO was needed");
}

#[test]
fn a_probe_prefers_new_data() {
    let mut p = sack();
    p.write(100);
    p.expect("P. 1:101");
    p.write(100);
    p.quiet();
    // One segment out: 2 * 100 + 200 ms for a delayed ACK, but not later than the RTO.
    p.expect_at(300, "P. 101:201");
    assert_eq!(p.stack.counters().tcp_ext.tcp_loss_probes, 1);
}

#[test]
fn a_probe_that_repaired_the_loss_reduces_the_window() {
    // RFC 8985 section 7.4: the ACK covers the probe and no D-SACK says that the original arrived too.
    let mut p = sack();
    p.write(3_000);
    p.expect_data(1, 3_001, 1_000);
    p.at(100);
    p.inject(". 1 ack 2001");
    let probe = p.run_to(500);
    assert_eq!(probe.len(), 1, "{probe:?}");
    p.inject(". 1 ack 3001");
    p.write(1_000);
    p.expect("P. 3001:4001");
    p.at(600);
    p.inject(". 1 ack 4001");
    assert_eq!(p.stack.counters().tcp_ext.tcp_loss_probe_recovery, 1);
    assert!(p.info().snd_ssthresh <= 7, "{}", p.info().snd_ssthresh);
}

#[test]
fn a_probe_that_was_not_needed_changes_nothing() {
    let mut p = sack();
    p.write(3_000);
    p.expect_data(1, 3_001, 1_000);
    p.expect_at(202, "P. 2001:3001");
    p.at(210);
    p.inject(". 1 ack 3001");
    p.at(302);
    p.inject(". 1 ack 3001 sack 2001:3001");
    p.write(1_000);
    p.expect("P. 3001:4001");
    p.at(402);
    p.inject(". 1 ack 4001");
    assert_eq!(p.stack.counters().tcp_ext.tcp_loss_probe_recovery, 0);
    assert_eq!(p.info().snd_cwnd, 10);
}

#[test]
fn without_sack_and_without_the_sysctl_there_is_no_probe() {
    let mut p = no_sack();
    p.write(3_000);
    p.expect_data(1, 3_001, 1_000);
    p.expect_at(300, ". 1:1001");
    assert_eq!(p.stack.counters().tcp_ext.tcp_timeouts, 1);
    let sysctl = Sysctl { tcp_early_retrans: 0, ..Sysctl::default() };
    let mut p = Peer::server(Shape { syn: "win 65535 mss 1000 sackOK", sysctl, ..Shape::default() });
    p.write(3_000);
    p.expect_data(1, 3_001, 1_000);
    p.expect_at(300, ". 1:1001");
}

#[test]
fn newreno_retransmits_one_hole_per_round_trip() {
    // RFC 6582 section 3.2.
    let mut p = no_sack();
    ten_out(&mut p, 10_000);
    p.inject(". 1 ack 1");
    p.inject(". 1 ack 1");
    p.quiet();
    p.inject(". 1 ack 1");
    p.expect(". 1:1001");
    for _ in 0..4 {
        p.inject(". 1 ack 1");
    }
    p.quiet();
    p.at(200);
    p.inject(". 1 ack 4001");
    p.expect(". 4001:5001");
    p.at(300);
    p.inject(". 1 ack 10001");
    p.quiet();
    assert_eq!((p.info().snd_ssthresh, p.info().total_retrans), (7, 2));
    assert_eq!(p.stack.counters().tcp_ext.tcp_reno_recovery, 1);
}

#[test]
fn two_duplicates_or_window_updates_start_no_recovery() {
    // RFC 5681 section 2: a duplicate ACK carries no data and does not change the window.
    let mut p = no_sack();
    ten_out(&mut p, 10_000);
    p.inject(". 1 ack 1");
    p.inject(". 1 ack 1");
    p.inject(". 1 ack 3001 win 9000");
    for win in [10_000, 20_000, 30_000, 40_000] {
        p.inject(&format!(". 1 ack 3001 win {win}"));
    }
    p.quiet();
    for i in 0..4 {
        p.inject(&format!("P. {}:{} ack 3001 win 40000", i * 10 + 1, i * 10 + 11));
        p.expect(&format!(". 10001 ack {}", i * 10 + 11));
    }
    assert_eq!(p.info().total_retrans, 0);
}

#[test]
fn limited_transmit_without_sack() {
    let mut p = no_sack();
    ten_out(&mut p, 20_000);
    p.inject(". 1 ack 1");
    p.expect(". 10001:11001");
    p.at(102);
    p.inject(". 1 ack 1");
    p.expect(". 11001:12001");
    p.at(104);
    p.inject(". 1 ack 1");
    p.expect(". 1:1001");
}

#[test]
fn sack_blocks_for_what_was_never_sent_are_ignored() {
    let mut p = sack();
    ten_out(&mut p, 10_000);
    p.inject(". 1 ack 1 sack 20001:30001");
    p.inject(". 1 ack 1 sack -5000:-4000");
    p.inject(". 1 ack 1 sack 5001:4001");
    p.quiet();
    assert_eq!(p.info().sacked, 0);
}

#[test]
fn a_peer_that_reneges_gets_everything_again() {
    // RFC 2018 section 8: the cumulative ACK reaches what was sacked without covering it.
    let mut p = sack();
    ten_out(&mut p, 10_000);
    p.inject(". 1 ack 1 sack 1001:4001");
    p.expect(". 1:1001");
    p.at(200);
    p.inject(". 1 ack 1001");
    let out = p.run_to(20_000);
    assert!(out.iter().any(|(_, s)| s.seq == Some(1_001)), "{out:?}");
    assert!(p.stack.counters().tcp_ext.tcp_sack_reneging >= 1);
}

#[test]
fn what_an_acknowledgement_has_sent_again_leaves_before_the_next_is_looked_at() {
    // `tcp_xmit_recovery` for each: what the second one finds out comes too late for what the first one asks for.
    for together in [true, false] {
        let syn = "win 65535 mss 1460 sackOK ts 500000/0";
        let mut p = Peer::server(Shape { syn, ..Shape::default() });
        p.auto_timestamps(false);
        p.write(14_480);
        p.expect_data(1, 14_481, 1_448);
        p.at(100);
        p.inject(". 1 ack 1 sack 1449:5793 ts 500200/100");
        p.expect(". 1:1449 ack 1");
        p.at(110);
        let lost = ". 1 ack 1 sack 7241:11585 1449:5793 ts 500210/100";
        // The original was late: that takes the marks back where nothing is out again.
        let delayed = ". 1 ack 5793 sack 7241:11585 ts 500210/100";
        if together {
            p.inject_together(&[lost, delayed]);
        } else {
            p.inject(lost);
            p.inject_more(delayed);
        }
        p.expect(". 5793:7241 ack 1");
        p.quiet();
        assert_eq!(p.stack.counters().tcp_ext.tcp_partial_undo, 0);
    }
}

#[test]
fn a_retransmission_that_small_queues_hold_acknowledges_nothing() {
    let sysctl = Sysctl { tcp_min_tso_segs: 5, tcp_limit_output_bytes: 4_000, ..Sysctl::default() };
    let mut p = Peer::server(Shape { sysctl, ..Shape::default() });
    p.end_quick_acks(1);
    p.slow_device();
    p.write(14_600);
    p.expect_data(1, 14_601, 1_460);
    // One packet has left, and with it what is lost; the other is more than twice the limit.
    p.complete(1);
    p.at(100);
    p.inject("P. 16001:16011 ack 1");
    p.at(120);
    p.inject("P. 16011:16021 ack 1 sack 1461:14601");
    p.quiet();
    // The delay is that of the first: nothing has acknowledged it.
    p.expect_at(140, ". 14601 ack 16021");
    p.complete(1);
    p.expect(". 1:1461 ack 16021");
}
