//! Right-sizing worked out by hand.
use super::*;

fn established() -> (Sysctl, RcvSpace) {
    let mut r = RcvSpace::new();
    r.establish(Instant::from_millis(1_000), Seq(0), 64_076, 64_240, 1_460);
    (Sysctl::default(), r)
}

#[test]
fn the_window_gives_the_minimum_and_timestamps_the_mean() {
    let (_, mut r) = established();
    r.on_data(Instant::from_millis(1_000), Seq(0), 10_000);
    r.on_data(Instant::from_millis(1_030), Seq(9_999), 10_000);
    assert_eq!(r.rtt(), Duration::ZERO);
    r.on_data(Instant::from_millis(1_050), Seq(10_000), 10_000);
    assert_eq!(r.rtt(), Duration::from_millis(50));
    r.on_data(Instant::from_millis(1_200), Seq(20_000), 10_000);
    assert_eq!(r.rtt(), Duration::from_millis(50));
    // 50 * 7/8 + 10/8 * ... : rtt8 = 400000 - 50000 + 10000.
    r.on_timestamp(1, 10, true);
    assert_eq!(r.rtt(), Duration::from_micros(45_000));
    // The same echo again, or a short segment, says nothing.
    r.on_timestamp(1, 90, true);
    r.on_timestamp(2, 90, false);
    assert_eq!(r.rtt(), Duration::from_micros(45_000));
}

#[test]
fn the_buffer_follows_twice_what_was_read_and_its_growth() {
    let (sysctl, mut r) = established();
    assert_eq!(r.space(), 14_600);
    r.on_timestamp(1, 100, true);
    let at = Instant::from_millis(1_100);
    assert_eq!(r.adjust(&sysctl, Instant::from_millis(1_099), Seq(29_200), 1_460), None);
    // base = 2*29200 + 16*1460 = 81760; grown by 14600/14600: + 2*81760 = 245280 = 168 segments.
    // A segment costs 1460 + 288 + k*128 until half of it holds 1460: 1748 + 10*128 = 3028 (2900/2 = 1450 is short).
    assert_eq!(r.adjust(&sysctl, at, Seq(29_200), 1_460), Some(168 * 3_028));
    assert_eq!(r.space(), 29_200);
    // Not more than before: nothing.
    assert_eq!(r.adjust(&sysctl, Instant::from_millis(1_200), Seq(58_400), 1_460), None);
    // Bounded by tcp_rmem.
    assert_eq!(r.adjust(&sysctl, Instant::from_millis(1_300), Seq(9_000_000), 1_460), Some(6_291_456));
}

#[test]
fn nothing_moves_without_a_round_trip_or_with_the_sysctl_off() {
    let (mut sysctl, mut r) = established();
    assert_eq!(r.adjust(&sysctl, Instant::from_millis(9_000), Seq(1_000_000), 1_460), None);
    sysctl.tcp_moderate_rcvbuf = false;
    r.on_timestamp(1, 100, true);
    assert_eq!(r.adjust(&sysctl, Instant::from_millis(9_000), Seq(1_000_000), 1_460), None);
    assert_eq!(r.space(), 1_000_000);
}
