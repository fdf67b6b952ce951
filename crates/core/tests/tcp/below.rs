//! What has not left this host: a device that says "not now" is no loss, and timers count from the departure
//! (`skb_still_in_host_queue`, RFC 6298 section 5.1).
use super::peer::{Peer, Shape};
use lowwater_core::base::Error;

/// A connection with a round trip of 100 ms, and then a device that completes nothing by itself.
fn slow(syn: &'static str) -> Peer {
    let mut p = warm(syn);
    p.slow_device();
    p
}

/// A connection with a round trip of 100 ms that has sent 2,000 bytes.
fn warm(syn: &'static str) -> Peer {
    let mut p = Peer::server(Shape { syn, ..Shape::default() });
    for n in 0..20_u32 {
        let from = 1 + 100 * n;
        p.write(100);
        p.expect(&format!("P. {from}:{}", from + 100));
        p.at(100 * (u64::from(n) + 1));
        p.inject(&format!(". 1 ack {}", from + 100));
    }
    p.set_zero();
    p
}

/// Retransmissions, timeouts, probes, and how often something was held back because it had not left.
fn counts(p: &Peer) -> (u64, u64, u64, u64) {
    let c = p.stack.counters();
    let ext = &c.tcp_ext;
    (c.tcp.retrans_segs, ext.tcp_timeouts, ext.tcp_loss_probes, ext.tcp_spurious_rtx_host_queues)
}

const SACK: &str = "win 65535 mss 1000 sackOK";
const PLAIN: &str = "win 65535 mss 1000";

#[test]
fn what_has_not_left_is_neither_probed_nor_sent_again() {
    for syn in [SACK, PLAIN] {
        let mut p = slow(syn);
        let cwnd = p.info().snd_cwnd;
        p.write(100);
        p.expect("P. 2001:2101");
        // Two probes or timeouts would have come by now.
        p.at(2_000);
        let (resent, timeouts, probes, held) = counts(&p);
        assert_eq!((resent, timeouts, probes), (0, 0, 0));
        assert!(held >= 2, "{held}");
        assert_eq!(p.info().snd_cwnd, cwnd, "nothing was lost");
        // It leaves, and its acknowledgement comes a round trip later.
        p.complete(1);
        p.at(2_100);
        p.inject(". 1 ack 2101");
        p.at(100_000);
        assert_eq!(counts(&p), (0, 0, 0, held));
    }
}

#[test]
fn the_timeout_counts_from_the_departure() {
    let mut p = slow(PLAIN);
    p.write(100);
    p.expect("P. 2001:2101");
    let rto = u64::from(p.info().rto) / 1_000;
    p.at(rto - 50);
    p.complete(1);
    p.expect_at(rto - 50 + rto, "P. 2001:2101");
    assert_eq!(counts(&p), (1, 1, 0, 0));
}

#[test]
fn a_probe_counts_from_the_departure_of_the_last() {
    let mut p = slow(SACK);
    p.write(100);
    p.expect("P. 2001:2101");
    // One segment in flight: twice the round trip and the smallest timeout (RFC 8985 section 7.2), bound by the timeout.
    let pto = (2 * u64::from(p.info().rtt) / 1_000 + 200).min(u64::from(p.info().rto) / 1_000);
    p.at(pto - 20);
    p.complete(1);
    let probe = p.run_to(pto - 20 + pto + 1);
    assert_eq!(probe.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [pto - 20 + pto], "{probe:?}");
    assert_eq!(counts(&p), (1, 0, 1, 0));
}

#[test]
fn what_leaves_at_once_is_probed_and_sent_again_as_ever() {
    let mut p = Peer::server(Shape { syn: PLAIN, ..Shape::default() });
    p.write(100);
    p.expect("P. 1:101");
    p.expect_at(300, "P. 1:101");
    assert_eq!(counts(&p), (1, 1, 0, 0));
}

#[test]
fn what_a_device_drops_later_reduces_once_and_gives_credit_back() {
    let mut p = slow(SACK);
    let cwnd = p.info().snd_cwnd;
    p.write(8_000);
    let sent = p.run_to(0).len();
    assert!(sent >= 3, "{sent} packets below");
    p.drop_below();
    p.drop_below();
    let count = p.stack.counters();
    assert_eq!((count.own.packets_dropped_below, count.own.completions), (2, 20));
    assert_eq!(p.info().ca_state, 2, "CWR");
    assert!(p.info().snd_ssthresh >= cwnd / 2, "once in a window: {} of {cwnd}", p.info().snd_ssthresh);
    assert!(p.run_to(1).len() >= 2, "the credit of both is back");
}

#[test]
fn a_timeout_loses_only_what_has_left() {
    let mut p = slow(PLAIN);
    p.write(3_000);
    p.expect_data(2_001, 5_001, 1_000);
    p.complete(1);
    let rto = u64::from(p.info().rto) / 1_000;
    // The first packet, of two segments, has left and is lost; the other stands below.
    p.expect_at(rto, ". 2001:3001");
    assert_eq!(p.info().lost, 2);
    p.complete(2);
    p.at(rto + 100);
    p.inject(". 1 ack 5001");
    p.at(100_000);
    assert_eq!(counts(&p), (1, 1, 0, 0));
}

#[test]
fn a_device_that_takes_nothing_for_ever_ends_the_connection_in_time() {
    let mut p = slow(SACK);
    p.write(100);
    p.expect("P. 2001:2101");
    p.at(1_200_000);
    assert_eq!(p.error(), Some(Error::TimedOut));
    assert_eq!(counts(&p).0, 0);
}

#[test]
fn what_is_held_back_is_told_once_however_much_new_data_passes_by() {
    let mut p = slow(SACK);
    p.set(|o| o.nodelay = true);
    p.stack.set_sysctl("tcp_autocorking", "0").expect("a setting");
    for n in 0..2 {
        p.at(30 * n);
        p.write(100);
        p.drain();
    }
    // The first is lost, and has not left.
    p.at(160);
    p.inject(". 1 ack 2001 sack 2101:2201");
    p.drain();
    let held = counts(&p).3;
    assert!(held > 0);
    p.write(2_000);
    let new = p.drain().len();
    assert!(new >= 1, "{new} segments");
    assert_eq!((counts(&p).0, counts(&p).3), (0, held + 1));
}

/// A driver whose device has no room asks nobody for packets, and a probe may wait for its turn for ever.
#[test]
fn a_probe_that_never_has_its_turn_does_not_stop_time() {
    let mut p = Peer::server(Shape { syn: SACK, ..Shape::default() });
    p.write(100);
    p.expect("P. 1:101");
    p.stall(true);
    p.at(1_200_000);
    assert_eq!(p.error(), Some(Error::TimedOut));
}

/// A timeout waits for its turn when all that it would send again is acknowledged, and then a probe is due.
#[test]
fn a_probe_that_finds_a_timeout_waiting_leaves_a_timer() {
    let mut p = Peer::server(Shape { syn: SACK, ..Shape::default() });
    p.set(|o| o.nodelay = true);
    p.stack.set_sysctl("tcp_early_retrans", "0").expect("a setting");
    for n in 0..2_u32 {
        p.write(100);
        p.expect(&format!("P. {}:{}", 1 + 100 * n, 101 + 100 * n));
    }
    p.stall(true);
    let rto = u64::from(p.info().rto) / 1_000;
    p.at(rto + 1);
    assert_eq!(counts(&p).1, 1);
    p.stack.set_sysctl("tcp_early_retrans", "3").expect("a setting");
    p.inject(". 1 ack 101");
    p.at(2_000);
    p.stall(false);
    let again = p.run_to(20_000);
    assert!(again.iter().any(|(_, seg)| seg.seq == Some(101)), "{again:?}");
}

/// A probe waits for its turn while acknowledgements show what is lost: recovery needs none.
#[test]
fn a_probe_that_recovery_overtakes_is_not_sent() {
    let mut p = warm(SACK);
    p.write(6_000);
    p.expect_data(2_001, 8_001, 1_000);
    p.stall(true);
    let pto = 2 * u64::from(p.info().rtt) / 1_000 + 10;
    assert!(pto < u64::from(p.info().rto) / 1_000);
    p.at(pto);
    p.inject(". 1 ack 2001 sack 3001:7001");
    assert_eq!(p.info().ca_state, 3, "Recovery");
    p.stall(false);
    p.expect(". 2001:3001");
    p.quiet();
    assert_eq!(counts(&p), (1, 0, 0, 0));
}

/// Questions wait for their turn while the peer answers them by itself.
#[test]
fn what_a_peer_has_answered_meanwhile_is_not_asked() {
    let mut p = warm(SACK);
    p.inject(". 1 ack 2001 win 0");
    p.write(3_000);
    p.stall(true);
    let rto = u64::from(p.info().rto) / 1_000;
    p.at(rto + 10);
    p.inject(". 1 ack 2001 win 65535");
    p.stall(false);
    p.expect_data(2_001, 5_001, 1_000);
    p.quiet();
    p.inject(". 1 ack 5001");
    assert_eq!(p.stack.counters().tcp_ext.tcp_win_probe, 0);
    p.set(|o| {
        o.keepidle = 60;
        o.keepalive = true;
    });
    p.stall(true);
    p.at(rto + 60_100);
    p.inject(". 1 ack 5001");
    p.stall(false);
    p.quiet();
    assert_eq!(p.stack.counters().tcp_ext.tcp_keep_alive, 0);
}
