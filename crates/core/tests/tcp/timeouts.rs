//! The retransmission timeout and its undoing: backoff, slow start after it, F-RTO, D-SACK, timestamps (RFC 6298, 5682, 3522).
use super::peer::{Peer, Shape};
use lowwater_core::base::Sysctl;

fn sack() -> Peer {
    Peer::server(Shape { syn: "win 65535 mss 1000 sackOK", ..Shape::default() })
}

fn stamped() -> Peer {
    Peer::server(Shape { syn: "win 65535 mss 1012 sackOK ts 500000/0", ..Shape::default() })
}

#[test]
fn the_timeout_doubles_up_to_two_minutes() {
    // RFC 6298 section 5.5; TCP_RTO_MAX. 300 ms * 2^n: no probe without SACK.
    let mut p = Peer::server(Shape { syn: "win 65535 mss 1000", ..Shape::default() });
    p.write(100);
    p.expect("P. 1:101");
    let (mut at, mut wait) = (0, 300);
    for _ in 0..12 {
        at += wait;
        p.expect_at(at, "P. 1:101");
        wait = (wait * 2).min(120_000);
    }
    assert_eq!(wait, 120_000);
    p.at(at + 50);
    p.inject(". 1 ack 101");
    // Karn: no sample, and the timeout keeps its backoff until there is one (RFC 6298 section 5).
    p.write(100);
    p.expect("P. 101:201");
    assert!(p.info().rto >= 300_000);
}

#[test]
fn the_timer_restarts_when_data_is_acknowledged() {
    // RFC 6298 section 5.3.
    let mut p = Peer::server(Shape { syn: "win 65535 mss 1000", ..Shape::default() });
    p.write(3_000);
    p.expect_data(1, 3_001, 1_000);
    p.at(250);
    p.inject(". 1 ack 1001");
    let rto = u64::from(p.info().rto);
    p.expect_at_us(250_000 + rto, ". 1001:2001");
}

#[test]
fn nothing_outstanding_means_no_timer() {
    // RFC 6298 section 5.2.
    let mut p = sack();
    p.write(1_000);
    p.expect("P. 1:1001");
    p.at(100);
    p.inject(". 1 ack 1001");
    p.at(1_000_000);
}

#[test]
fn after_a_timeout_the_window_is_one_and_grows_by_slow_start() {
    // RFC 5681 section 3.1: the loss window.
    let mut p = sack();
    p.write(10_000);
    p.expect_data(1, 10_001, 1_000);
    p.expect_at(202, "P. 9001:10001");
    p.expect_at(502, ". 1:1001");
    p.quiet();
    assert_eq!((p.info().snd_cwnd, p.info().snd_ssthresh, p.info().ca_state), (1, 7, 4));
    p.at(602);
    p.inject(". 1 ack 1001");
    p.expect_data(1_001, 3_001, 1_000);
    p.quiet();
    p.at(702);
    p.inject(". 1 ack 3001");
    p.expect_data(3_001, 7_001, 1_000);
    p.quiet();
    p.at(802);
    p.inject(". 1 ack 10001");
    assert_eq!(p.info().ca_state, 0);
}

#[test]
fn f_rto_finds_that_the_originals_arrived() {
    // RFC 5682 section 3 (SACK-enhanced) step 3.b: something that was not retransmitted is acknowledged.
    let mut p = sack();
    p.write(30_000);
    p.expect_data(1, 10_001, 1_000);
    p.expect_at(202, ". 10001:11001");
    p.expect_at(502, ". 1:1001");
    assert_eq!(p.info().snd_cwnd, 1);
    p.at(520);
    p.inject(". 1 ack 2001");
    assert_eq!(p.stack.counters().tcp_ext.tcp_spurious_rtos, 1);
    let info = p.info();
    assert!(info.snd_cwnd >= 10 && info.snd_ssthresh > 1_000_000, "{} {}", info.snd_cwnd, info.snd_ssthresh);
    assert_eq!(info.ca_state, 0);
    // New data goes on; nothing more is sent again.
    assert!(p.drain().iter().all(|s| s.seq.unwrap() >= 11_001));
}

#[test]
fn f_rto_sends_new_data_and_believes_in_the_loss_when_it_comes_back_alone() {
    // RFC 5682 section 3 steps 2.b and 3.a.
    let mut p = sack();
    p.write(30_000);
    p.expect_data(1, 10_001, 1_000);
    p.expect_at(202, ". 10001:11001");
    p.expect_at(502, ". 1:1001");
    p.at(602);
    // The retransmission is acknowledged, nothing else: two new segments probe.
    p.inject(". 1 ack 1001");
    p.expect_data(11_001, 13_001, 1_000);
    p.quiet();
    p.at(702);
    p.inject(". 1 ack 1001 sack 11001:12001");
    // The loss was real: retransmission goes on.
    let out = p.drain();
    assert_eq!(out.first().and_then(|s| s.seq), Some(1_001), "{out:?}");
    assert_eq!(p.stack.counters().tcp_ext.tcp_spurious_rtos, 0);
}

#[test]
fn a_dsack_undoes_a_needless_fast_retransmit() {
    // RFC 3708; Linux: the window returns once every retransmission was reported as a duplicate.
    let mut p = sack();
    p.write(10_000);
    p.expect_data(1, 10_001, 1_000);
    p.at(100);
    p.inject(". 1 ack 1 sack 1001:4001");
    p.expect(". 1:1001");
    p.at(110);
    p.inject(". 1 ack 10001");
    assert_eq!(p.info().snd_ssthresh, 7);
    p.at(200);
    p.inject(". 1 ack 10001 sack 1:1001");
    let info = p.info();
    assert!(info.snd_cwnd >= 10 && info.snd_ssthresh > 1_000_000, "{} {}", info.snd_cwnd, info.snd_ssthresh);
    assert_eq!(p.stack.counters().tcp_ext.tcp_dsack_undo, 1);
}

#[test]
fn without_the_dsack_the_reduction_stays() {
    let mut p = sack();
    p.write(10_000);
    p.expect_data(1, 10_001, 1_000);
    p.at(100);
    p.inject(". 1 ack 1 sack 1001:4001");
    p.expect(". 1:1001");
    p.inject(". 1 ack 1 sack 1001:10001");
    p.at(200);
    p.inject(". 1 ack 10001");
    p.at(300);
    p.inject(". 1 ack 10001");
    assert_eq!((p.info().snd_cwnd, p.info().snd_ssthresh), (7, 7));
}

#[test]
fn an_old_echo_undoes_a_needless_fast_retransmit() {
    // Eifel (RFC 3522): the ACK echoes a timestamp from before the retransmission.
    let mut p = stamped();
    p.write(10_000);
    p.expect_data(1, 10_001, 1_000);
    p.auto_timestamps(false);
    p.at(100);
    p.inject(". 1 ack 1 sack 1001:4001 ts 500200/100");
    p.expect(". 1:1001 ts 200/500200");
    p.at(110);
    p.inject(". 1 ack 10001 ts 500210/100");
    let info = p.info();
    assert!(info.snd_cwnd >= 10 && info.snd_ssthresh > 1_000_000, "{} {}", info.snd_cwnd, info.snd_ssthresh);
    assert_eq!(p.stack.counters().tcp_ext.tcp_full_undo, 1);
}

#[test]
fn a_new_echo_confirms_it() {
    let mut p = stamped();
    p.write(10_000);
    p.expect_data(1, 10_001, 1_000);
    p.auto_timestamps(false);
    p.at(100);
    p.inject(". 1 ack 1 sack 1001:4001 ts 500200/100");
    p.expect(". 1:1001 ts 200/500200");
    p.inject(". 1 ack 1 sack 1001:10001 ts 500200/100");
    p.at(200);
    p.inject(". 1 ack 10001 ts 500300/200");
    assert_eq!((p.info().snd_cwnd, p.info().snd_ssthresh), (7, 7));
    assert_eq!(p.stack.counters().tcp_ext.tcp_full_undo, 0);
}

#[test]
fn an_old_echo_undoes_a_needless_timeout() {
    let mut p = stamped();
    p.write(3_000);
    p.expect_data(1, 3_001, 1_000);
    p.expect_at(202, "P. 2001:3001");
    p.expect_at(502, ". 1:1001 ts 602/500100");
    p.auto_timestamps(false);
    p.at(510);
    p.inject(". 1 ack 1001 ts 500600/100");
    assert_eq!(p.stack.counters().tcp_ext.tcp_loss_undo, 1);
    let info = p.info();
    assert!(info.snd_cwnd >= 10 && info.snd_ssthresh > 1_000_000, "{} {}", info.snd_cwnd, info.snd_ssthresh);
    p.quiet();
}

#[test]
fn the_estimate_follows_the_formula() {
    // RFC 6298 section 2 with Linux's floor: the variance term is at least 200 ms.
    let mut p = sack();
    assert_eq!((p.info().rtt, p.info().rttvar, p.info().rto), (100_000, 50_000, 300_000));
    p.write(100);
    p.expect("P. 1:101");
    p.at(60);
    p.inject(". 1 ack 101");
    // srtt = 7/8 * 100 + 1/8 * 60 = 95 ms; |error| 40 < mdev 50: mdev = 3/4 * 50 + 1/4 * 40 = 47.5 ms.
    assert_eq!((p.info().rtt, p.info().rttvar), (95_000, 47_500));
    assert_eq!(p.info().rto, 295_000);
    assert_eq!(p.info().min_rtt, 60_000);
}

#[test]
fn a_timeout_counts_by_the_state_that_it_ends() {
    // Recovery with SACK and without, Disorder, Loss: RecoveryFail, Failures, LossFailures (`tcp_retransmit_timer`).
    let fails = |p: &Peer| {
        let c = &p.stack.counters().tcp_ext;
        let recovery = (c.tcp_sack_recovery_fail, c.tcp_reno_recovery_fail);
        (recovery, (c.tcp_sack_failures, c.tcp_reno_failures, c.tcp_loss_failures))
    };
    for (syn, ack, wanted) in [
        ("win 65535 mss 1000 sackOK", " sack 1001:4001", ((1, 0), (0, 0, 0))),
        ("win 65535 mss 1000", "", ((0, 1), (0, 0, 0))),
    ] {
        let mut p = Peer::server(Shape { syn, ..Shape::default() });
        p.write(10_000);
        p.expect_data(1, 10_001, 1_000);
        p.at(100);
        for _ in 0..3 {
            p.inject(&format!(". 1 ack 1{ack}"));
            p.drain();
        }
        assert_eq!(p.info().ca_state, 3, "{syn}");
        p.run_to(900);
        assert_eq!((p.info().ca_state, fails(&p)), (4, wanted), "{syn}");
    }
    // A duplicate with a congestion mark: CWR, in which something has arrived, counts as Disorder does.
    let sysctl = Sysctl { tcp_ecn: 1, ..Sysctl::default() };
    let mut p = Peer::connecting(Shape { sysctl, ..Shape::default() });
    p.expect("SEW 0");
    p.at(100);
    p.inject("SE. 0 ack 1 win 65535 mss 1000");
    p.expect(". 1 ack 1");
    p.write(3_000);
    p.drain();
    p.at(200);
    // The first is news of the window.
    p.inject(". 1 ack 1");
    p.inject("E. 1 ack 1");
    assert_eq!((p.info().ca_state, p.info().sacked), (2, 1));
    p.run_to(900);
    assert_eq!(fails(&p), ((0, 0), (0, 1, 0)));
}
