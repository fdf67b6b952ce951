//! The congestion window: slow start, validation, idle restart, ECN (RFC 5681, 6928, 2861, 3168).
use super::peer::{Peer, Shape};
use lowwater_core::base::Sysctl;
use lowwater_core::base::sysctl::CongestionKind;
use lowwater_core::tcp::{How, SendFlags};

fn server() -> Peer {
    let options = |o: &mut lowwater_core::tcp::SocketOptions| o.sndbuf = Some(1 << 20);
    Peer::server(Shape { syn: "win 65535 mss 1000 sackOK", options, ..Shape::default() })
}

#[test]
fn the_initial_window_is_ten_segments() {
    // RFC 6928.
    let mut p = server();
    p.write(15_000);
    p.expect_data(1, 10_001, 1_000);
    p.quiet();
    // The first data of a connection whose SYN was lost twice begins with one (RFC 5681 section 3.1, Linux).
    assert_eq!(p.info().snd_cwnd, 10);
}

#[test]
fn slow_start_grows_by_what_is_acknowledged() {
    // RFC 5681 section 3.1 with L = the whole ACK, as in Linux (appropriate byte counting without a limit).
    let mut p = server();
    p.write(60_000);
    p.expect_data(1, 10_001, 1_000);
    p.at(100);
    p.inject(". 1 ack 2001");
    assert_eq!(p.info().snd_cwnd, 12);
    p.expect_data(10_001, 14_001, 1_000);
    p.quiet();
    p.at(102);
    p.inject(". 1 ack 10001");
    assert_eq!(p.info().snd_cwnd, 20);
    p.expect_data(14_001, 30_001, 1_000);
    p.quiet();
}

#[test]
fn acknowledgements_of_parts_of_a_segment_bring_nothing() {
    // Ack division (Savage 1999): the window counts whole segments.
    let mut p = server();
    p.write(60_000);
    p.expect_data(1, 10_001, 1_000);
    p.at(100);
    for i in 1..10 {
        p.inject(&format!(". 1 ack {}", i * 100 + 1));
    }
    assert_eq!(p.info().snd_cwnd, 10);
    p.quiet();
    p.inject(". 1 ack 1001");
    assert_eq!(p.info().snd_cwnd, 11);
    p.expect_data(10_001, 12_001, 1_000);
    p.quiet();
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    // RFC 7661's problem; Linux: in slow start it grows while at least half of it is used.
    let mut p = server();
    p.write(3_000);
    p.expect_data(1, 3_001, 1_000);
    p.at(100);
    p.inject(". 1 ack 3001");
    assert_eq!(p.info().snd_cwnd, 10);
    p.write(6_000);
    p.expect_data(3_001, 9_001, 1_000);
    p.at(200);
    p.inject(". 1 ack 9001");
    assert_eq!(p.info().snd_cwnd, 16);
}

/// A window of 20 at 100 ms, all acknowledged at 200 ms.
fn grown(sysctl: Sysctl) -> Peer {
    grown_by(sysctl, 100)
}

/// The same with another round-trip time in milliseconds.
fn grown_by(sysctl: Sysctl, rtt: u64) -> Peer {
    let mut p =
        Peer::server(Shape { syn: "win 65535 mss 1000 sackOK", sysctl, rtt_ms: rtt, ..Shape::default() });
    p.write(30_000);
    p.expect_data(1, 10_001, 1_000);
    p.at(rtt);
    p.inject(". 1 ack 10001");
    p.expect_data(10_001, 30_001, 1_000);
    p.at(2 * rtt);
    p.inject(". 1 ack 30001");
    p.quiet();
    p
}

#[test]
fn after_idleness_the_window_halves_per_timeout_down_to_ten() {
    // RFC 2861 section 3.1, RFC 5681 section 4.1; Linux's tcp_slow_start_after_idle.
    let mut p = grown(Sysctl::default());
    let before = p.info().snd_cwnd;
    assert!(before >= 30, "{before}");
    p.at(250);
    p.write(1);
    p.expect("P. 30001:30002");
    assert_eq!(p.info().snd_cwnd, before, "too short a pause");
    p.at(350);
    p.inject(". 1 ack 30002");
    p.at(10_000);
    p.write(1);
    p.expect("P. 30002:30003");
    assert_eq!(p.info().snd_cwnd, 10);
    // Three quarters are remembered.
    assert!(p.info().snd_ssthresh >= before * 3 / 4);
}

#[test]
fn writes_that_one_turn_sends_restart_the_window_once() {
    // In Linux the first of them has left before the second is written.
    let mut p = grown(Sysctl::default());
    let (before, rto) = (p.info().snd_cwnd, u64::from(p.info().rto / 1_000));
    p.at(200 + rto + 50);
    // Half of the largest window is an element.
    for _ in 0..2 {
        assert_eq!(p.write_before_turn(32_000, SendFlags::default()), Ok(32_000));
    }
    // There is no room for more; the driver's turn.
    assert!(p.try_write(1, SendFlags::default()).is_err());
    assert_eq!(p.info().snd_cwnd, before / 2);
    p.expect_data(30_001, 30_001 + before / 2 * 1_000, 1_000);
}

#[test]
fn a_timeout_of_less_than_a_millisecond_counts_as_one() {
    // icsk_rto is in jiffies, rounded up.
    let mut p = grown_by(Sysctl { tcp_rto_min_us: 500, ..Sysctl::default() }, 0);
    assert!(p.info().snd_cwnd >= 30, "{}", p.info().snd_cwnd);
    assert!(p.info().rto < 1_000, "{}", p.info().rto);
    p.at(10_000);
    p.write(1);
    p.expect("P. 30001:30002");
    assert_eq!(p.info().snd_cwnd, 10);
}

#[test]
fn the_sysctl_keeps_the_window_over_idleness() {
    let sysctl = Sysctl { tcp_slow_start_after_idle: false, ..Sysctl::default() };
    let mut p = grown(sysctl);
    let before = p.info().snd_cwnd;
    p.at(10_000);
    p.write(1);
    p.expect("P. 30001:30002");
    assert_eq!(p.info().snd_cwnd, before);
}

#[test]
fn reno_halves_and_cubic_takes_seven_tenths() {
    for (kind, want) in [(CongestionKind::Reno, 5), (CongestionKind::Cubic, 7)] {
        let sysctl = Sysctl { tcp_congestion_control: kind, ..Sysctl::default() };
        let mut p = Peer::server(Shape { syn: "win 65535 mss 1000 sackOK", sysctl, ..Shape::default() });
        p.write(10_000);
        p.expect_data(1, 10_001, 1_000);
        p.at(100);
        p.inject(". 1 ack 1 sack 1001:4001");
        p.expect(". 1:1001");
        p.inject(". 1 ack 1 sack 1001:10001");
        p.at(200);
        p.inject(". 1 ack 10001");
        assert_eq!(p.info().snd_cwnd, want);
    }
}

// ----- ECN -----

fn ecn(tcp_ecn: u32) -> Sysctl {
    Sysctl { tcp_ecn, ..Sysctl::default() }
}

fn ecn_client() -> Peer {
    let mut p = Peer::connecting(Shape { sysctl: ecn(1), ..Shape::default() });
    p.expect("SEW 0 notect");
    p.at(100);
    p.inject("SE. 0 ack 1 win 65535 mss 1000 sackOK");
    p.expect(". 1 ack 1 notect");
    p.set_zero();
    p
}

#[test]
fn an_active_open_asks_for_ecn_only_with_the_sysctl() {
    // RFC 3168 section 6.1.1.
    for mode in [0, 2] {
        let mut p = Peer::connecting(Shape { sysctl: ecn(mode), ..Shape::default() });
        p.expect("S 0 notect");
    }
    let mut p = ecn_client();
    p.write(100);
    p.expect("P. 1:101 ect0");
}

#[test]
fn a_peer_that_does_not_answer_ece_alone_gets_no_ecn() {
    for answer in ["S. 0 ack 1 win 65535 mss 1000", "SEW. 0 ack 1 win 65535 mss 1000"] {
        let mut p = Peer::connecting(Shape { sysctl: ecn(1), ..Shape::default() });
        p.expect("SEW 0");
        p.inject(answer);
        p.expect(". 1 ack 1");
        p.write(100);
        p.expect("P. 1:101 notect");
    }
}

#[test]
fn a_repeated_syn_does_not_insist() {
    // RFC 3168 section 6.1.1.1; tcp_ecn_fallback.
    let mut p = Peer::connecting(Shape { sysctl: ecn(1), ..Shape::default() });
    p.expect("SEW 0");
    p.expect_at(1_000, "S 0");
    let sysctl = Sysctl { tcp_ecn_fallback: false, ..ecn(1) };
    let mut p = Peer::connecting(Shape { sysctl, ..Shape::default() });
    p.expect("SEW 0");
    p.expect_at(1_000, "SEW 0");
}

#[test]
fn a_passive_open_agrees_unless_the_sysctl_says_never() {
    for (mode, syn, answer) in [
        (2, "SEW", "SE. 0 ack 1 notect"),
        (1, "SEW", "SE. 0 ack 1 notect"),
        (0, "SEW", "S. 0 ack 1"),
        (2, "S", "S. 0 ack 1"),
        (2, "SE", "S. 0 ack 1"),
    ] {
        let mut p = Peer::listening(Shape { sysctl: ecn(mode), ..Shape::default() }, 1);
        p.inject(&format!("{syn} 0 win 65535 mss 1000"));
        p.expect(answer);
    }
}

#[test]
fn only_new_data_is_ecn_capable() {
    // RFC 3168 sections 6.1.4 to 6.1.6: not pure ACKs, retransmissions, window probes.
    let mut p = ecn_client();
    p.inject("P. 1:101 ack 1 ect0");
    p.expect(". 1 ack 101 notect");
    p.read(100);
    p.write(100);
    p.expect("P. 1:101 ect0");
    p.expect_at(300, "P. 1:101 notect");
}

#[test]
fn a_mark_is_echoed_until_the_peer_has_reduced() {
    // RFC 3168 section 6.1.3.
    let mut p = ecn_client();
    p.inject("P. 1:101 ack 1 ce");
    p.expect("E. 1 ack 101");
    p.inject("P. 101:201 ack 1 ect0");
    p.expect("E. 1 ack 201");
    p.write(10);
    p.expect("PE. 1:11 ack 201 ect0");
    p.inject("PW. 201:301 ack 11 ect0");
    p.expect(". 11 ack 301");
    p.inject("P. 301:401 ack 11 ce");
    p.expect("E. 11 ack 401");
}

#[test]
fn an_echo_reduces_once_per_window_and_is_answered_with_cwr() {
    // RFC 3168 section 6.1.2: like a loss, without retransmission; CWR on the next new data.
    let mut p = ecn_client();
    p.write(30_000);
    p.expect_data(1, 10_001, 1_000);
    p.at(100);
    p.inject("E. 1 ack 1001");
    assert_eq!((p.info().ca_state, p.info().snd_ssthresh), (2, 7));
    let mut first = p.drain();
    for i in 2..=10 {
        p.inject_more(&format!("E. 1 ack {}", i * 1_000 + 1));
        first.extend(p.drain());
    }
    assert_eq!(p.info().snd_ssthresh, 7, "one reduction only");
    assert!(first[0].flags.contains('W'), "{}", first[0]);
    assert_eq!(first.iter().filter(|s| s.flags.contains('W')).count(), 1);
    assert!(first.iter().all(|s| s.seq.unwrap() >= 10_001));
    assert_eq!((p.info().total_retrans, p.info().snd_cwnd), (0, 7));
}

#[test]
fn echoes_without_ecn_mean_nothing() {
    let mut p = server();
    p.write(10_000);
    p.expect_data(1, 10_001, 1_000);
    p.at(100);
    p.inject("E. 1 ack 5001");
    assert_eq!((p.info().ca_state, p.info().snd_ssthresh > 1_000_000), (0, true));
    p.inject("P. 1:11 ack 5001 ce");
    p.expect(". 10001 ack 11");
}

/// What waits for the peer's window when its owner lets go has none any more when the window opens, though the driver has not asked for packets in
/// between (`tcp_cwnd_application_limited` finds no socket after `sock_orphan`).
#[test]
fn what_the_peer_lets_go_after_close_does_not_shrink_the_window() {
    for closes in [true, false] {
        let mut p = server();
        p.write(10_000);
        p.expect_data(1, 10_001, 1_000);
        p.at(100);
        p.inject(". 1 ack 10001 win 1000");
        p.at(250);
        // After no pause, or the window would begin anew; what follows comes after one that was not used for an RTO.
        p.write(6_000);
        p.expect_data(10_001, 11_001, 1_000);
        assert_eq!(p.info().snd_cwnd, 20);
        p.at(450);
        p.stall(true);
        if closes {
            p.close();
        }
        p.inject_more(". 1 ack 10001 win 65535");
        p.stall(false);
        p.expect_data(11_001, 15_001, 1_000);
        p.expect(if closes { "FP. 15001:16001" } else { "P. 15001:16001" });
        assert_eq!(p.info().snd_cwnd, if closes { 20 } else { 15 });
    }
}

/// What shutdown() has let go leaves as its owner's, also where close() follows before the driver has asked for packets: Linux has sent it
/// within shutdown().
#[test]
fn what_shutdown_lets_go_right_before_close_is_the_owners() {
    let cwnd = |calls: &[fn(&mut Peer)]| {
        let mut p = server();
        p.write(10_000);
        p.expect_data(1, 10_001, 1_000);
        p.at(100);
        p.inject(". 1 ack 10001");
        p.at(450);
        p.stall(true);
        calls.iter().for_each(|call| call(&mut p));
        p.stall(false);
        p.expect("F. 10001");
        p.info().snd_cwnd
    };
    let shut: fn(&mut Peer) = |p| p.shutdown(How::Write);
    let both = cwnd(&[shut, Peer::close]);
    assert_eq!((both, cwnd(&[Peer::close])), (cwnd(&[shut]), cwnd(&[shut])));
    assert_eq!(both, 15);
}

/// A close() while the pace has the flow looked at once more, though nothing waits (`tcp_tsq_write`; tests/drill/tcp/pacing/walk_goes_on.pkt): the
/// congestion window counts as the limit all the same, and grows by what is acknowledged once the loss proves to be none.
#[test]
fn a_close_does_not_keep_the_pace_from_finding_the_window_full() {
    let options = |o: &mut lowwater_core::tcp::SocketOptions| {
        o.congestion = CongestionKind::Reno;
        o.max_pacing_rate = 100_000;
    };
    for closes in [true, false] {
        let mut p = Peer::server(Shape { syn: "win 32792 mss 1000 sackOK", options, ..Shape::default() });
        p.write(10_000);
        p.drain();
        p.at(100);
        p.inject(". 1 ack 10001");
        p.at(150);
        p.write(4_000);
        p.run_to(200);
        p.shutdown(How::Write);
        p.run_to(250);
        p.inject(". 1 ack 10001 sack 13001:14001");
        let again = p.run_to(275);
        assert!(again.iter().any(|(_, seg)| seg.seq == Some(10_001)), "{again:?}");
        assert_eq!(p.info().snd_cwnd, 2);
        p.stall(true);
        p.at(330);
        if closes {
            p.close();
        }
        p.stall(false);
        p.inject(". 1 ack 14001 sack 10001:11001");
        assert_eq!(p.info().snd_cwnd, 24, "closed: {closes}");
    }
}
