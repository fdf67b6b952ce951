//! Right-sizing worked out by hand.
use super::*;

fn established() -> RcvSpace {
    let mut r = RcvSpace::new();
    r.establish(Instant::from_millis(1_000), Seq(0), 64_076, 64_240, 1_460);
    r
}

#[test]
fn the_window_gives_the_minimum_and_timestamps_the_mean() {
    let mut r = established();
    r.on_data(Instant::from_millis(1_000), Seq(0), 10_000);
    r.on_data(Instant::from_millis(1_030), Seq(9_999), 10_000);
    assert_eq!(r.rtt(), Duration::ZERO);
    r.on_data(Instant::from_millis(1_050), Seq(10_000), 10_000);
    assert_eq!(r.rtt(), Duration::from_millis(50));
    r.on_data(Instant::from_millis(1_200), Seq(20_000), 10_000);
    assert_eq!(r.rtt(), Duration::from_millis(50));
    // A shorter one counts at once, a longer one as an eighth.
    r.on_timestamp(1, 10, true, true);
    assert_eq!(r.rtt(), Duration::from_millis(10));
    r.on_timestamp(2, 18, true, true);
    assert_eq!(r.rtt(), Duration::from_millis(11));
    // The same echo again, a short segment, no time at all, or data that waits say nothing.
    r.on_timestamp(2, 90, true, true);
    r.on_timestamp(3, 90, false, true);
    r.on_timestamp(4, 0, true, true);
    r.on_timestamp(5, 90, true, false);
    assert_eq!(r.rtt(), Duration::from_millis(11));
    r.on_timestamp(6, 9, true, false);
    assert_eq!(r.rtt(), Duration::from_millis(9));
}

#[test]
fn the_window_follows_twice_what_was_read_and_its_growth() {
    let mut r = established();
    assert_eq!(r.space(), 14_600);
    r.on_timestamp(1, 100, true, true);
    assert_eq!(r.adjust(Instant::from_millis(1_099), Seq(29_200), 0), None);
    // 2 * 29,200, grown by 14,600 of 14,600: 2 * 58,400 more.
    assert_eq!(r.adjust(Instant::from_millis(1_100), Seq(29_200), 0), Some(175_200));
    assert_eq!(r.space(), 29_200);
    // Not more than before: nothing.
    assert_eq!(r.adjust(Instant::from_millis(1_200), Seq(58_400), 0), None);
    // What waits does not count.
    assert_eq!(r.adjust(Instant::from_millis(1_300), Seq(98_400), 10_800), None);
    assert_eq!(r.adjust(Instant::from_millis(1_400), Seq(138_400), 10_799), Some(2 * 29_201 + 4));
    assert_eq!(r.with_hole(5_000), 2 * 29_201 + 5_000);
}

#[test]
fn nothing_moves_without_a_round_trip() {
    let mut r = established();
    assert_eq!(r.adjust(Instant::from_millis(9_000), Seq(1_000_000), 0), None);
    assert_eq!(r.space(), 14_600);
}
