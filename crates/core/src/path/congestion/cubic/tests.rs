//! CUBIC's numbers computed by hand from RFC 9438 and Linux's parameters.
use super::*;
use crate::base::testing::World;
use crate::base::time::Duration;
use proptest::prelude::*;

const MS: Tick = Tick(1_000_000);

/// One round trip: as many acknowledgements of one segment as the window has, evenly spread.
fn round(cubic: &mut Cubic, window: &mut Window, now: &mut Instant, rtt: Duration) {
    let segments = window.cwnd;
    let mut world = World::new();
    for _ in 0..segments {
        *now += rtt / segments;
        let sample = AckSample {
            acked: 1,
            cwnd_limited: true,
            rtt: Some(rtt),
            una: 1,
            flow: Flow { nxt: 2, ..Flow::default() },
            ..AckSample::default()
        };
        cubic.on_ack(&mut world.cx(*now), window, &sample);
        cubic.cong_avoid(&mut world.cx(*now), window, &sample);
    }
}

/// A flow right after a reduction from `before` segments.
fn reduced(before: u32) -> (Cubic, Window) {
    let (mut cubic, mut window) = (Cubic::new(), Window { cwnd: before, ..Window::new() });
    window.ssthresh = cubic.ssthresh(&mut World::new().cx(Instant::ZERO), &window);
    window.cwnd = window.ssthresh;
    (cubic, window)
}

#[test]
fn constants_are_linuxs() {
    assert_eq!((CUBE_FACTOR, RENO_SCALE), (2_681_735_677, 15));
}

#[test]
fn a_reduction_is_by_beta_and_converges_fast() {
    let (mut cubic, window) = reduced(100);
    assert_eq!((window.ssthresh, cubic.curve.last_max), (70, 100));
    let mut world = World::new();
    let window = Window { cwnd: 50, ..window };
    assert_eq!(cubic.ssthresh(&mut world.cx(Instant::ZERO), &window), 35);
    // 50 x (1 + 0.7) / 2.
    assert_eq!(cubic.curve.last_max, 42);
    assert_eq!(cubic.undo_cwnd(&window), 50);
    let window = Window { cwnd: 2, ..window };
    assert_eq!(cubic.ssthresh(&mut world.cx(Instant::ZERO), &window), 2);
}

#[test]
fn the_window_returns_to_its_maximum_after_k() {
    let (mut cubic, mut window) = reduced(1_000);
    assert_eq!(window.cwnd, 700);
    let (mut now, rtt) = (Instant::from_millis(1), Duration::from_millis(100));
    round(&mut cubic, &mut window, &mut now, rtt);
    // K = (300 / 0.4)^(1/3) = 9.085 s.
    assert_eq!(cubic.curve.k, 9_300);
    let mut at_half = 0;
    while now < Instant::from_millis(9_000) {
        round(&mut cubic, &mut window, &mut now, rtt);
        if at_half == 0 && now >= Instant::from_millis(4_543) {
            at_half = window.cwnd;
        }
    }
    // Half way in time the cube is an eighth of the way down: 1,000 - 300/8 = 962.
    assert!((955..=966).contains(&at_half), "{at_half}");
    assert!((990..=1_000).contains(&window.cwnd), "{}", window.cwnd);
    while now < Instant::from_millis(18_170) {
        round(&mut cubic, &mut window, &mut now, rtt);
    }
    assert!((1_270..=1_310).contains(&window.cwnd), "{}", window.cwnd);
}

#[test]
fn on_short_paths_it_keeps_up_with_reno() {
    let (mut cubic, mut window) = reduced(30);
    let (mut now, rtt) = (Instant::from_millis(1), Duration::from_millis(5));
    for _ in 0..100 {
        round(&mut cubic, &mut window, &mut now, rtt);
    }
    // Reno's estimate grows by 8/15 of a segment per round: 21 + 53. The cubic alone would be at 29 after half a second.
    assert!((68..=76).contains(&window.cwnd), "{}", window.cwnd);
}

#[test]
fn before_the_first_congestion_it_grows_by_five_per_cent_per_round() {
    let mut cubic = Cubic::new();
    let mut window = Window { cwnd: 100, ssthresh: 100, ..Window::new() };
    let mut now = Instant::from_millis(1);
    round(&mut cubic, &mut window, &mut now, Duration::from_millis(10));
    assert!((104..=106).contains(&window.cwnd), "{}", window.cwnd);
}

#[test]
fn a_second_reduction_begins_a_new_epoch() {
    let (mut cubic, mut window) = reduced(1_000);
    let (mut now, rtt) = (Instant::from_millis(1), Duration::from_millis(100));
    while now < Instant::from_millis(5_000) {
        round(&mut cubic, &mut window, &mut now, rtt);
    }
    window.ssthresh = cubic.ssthresh(&mut World::new().cx(now), &window);
    window.cwnd = window.ssthresh;
    let start = now;
    round(&mut cubic, &mut window, &mut now, rtt);
    assert!(cubic.curve.epoch.is_some_and(|epoch| epoch > MS.floor(start)), "{:?}", cubic.curve);
}

/// The target is where the cubic will be one RTT from now (RFC 9438 section 4.2).
#[test]
fn the_curve_is_read_one_round_trip_ahead() {
    let (mut cubic, window) = reduced(1_000);
    cubic.curve.begin_epoch(window.cwnd, 1);
    let without = cubic.curve.cubic_cnt(1_000_000_000, MS, window.cwnd);
    cubic.curve.delay_min_us = 1_000_000;
    // 8.08 s before the plateau: 1,000 - 0.4 x 8.08^3 = 789; another second on 844.
    assert_eq!((without, cubic.curve.cubic_cnt(1_000_000_000, MS, window.cwnd)), (700 / 89, 700 / 144));
}

/// With windows of 9 the plateau of 11 asks for nothing yet, so that the rate of before, one in three, shows that nobody has looked.
#[test]
fn the_curve_is_looked_at_once_a_tick() {
    for (tick, looked) in [(MS, 4_103), (Tick(4_000_000), 4_104)] {
        let mut curve = Curve { last_max: 11, delay_min_us: 100_000, ..Curve::default() };
        curve.update(Instant::from_millis(4_000), tick, 7, 1);
        curve.update(Instant::from_millis(4_102), tick, 7, 1);
        assert_eq!(curve.cnt, 3);
        for ms in 4_102..4_108 {
            curve.update(Instant::from_millis(ms), tick, 9, 1);
            assert_eq!(curve.cnt, if ms < looked { 3 } else { 900 }, "{tick:?} at {ms} ms");
        }
    }
}

#[test]
fn a_rate_stays_for_a_thirty_second_of_a_second_in_whole_ticks() {
    for (tick, last) in [(MS, 31), (Tick(4_000_000), 28)] {
        let mut curve = Curve::default();
        for (ms, seen) in [(0, 0), (28, 0), (last, 0), (32, 32)] {
            curve.update(Instant::from_millis(ms), tick, 10, 1);
            assert_eq!(curve.last, Some(Instant::from_millis(seen)), "{tick:?} at {ms} ms");
        }
    }
}

/// Linux looks at the window alone, which a reduction that is undone leaves as it was.
#[test]
fn a_rate_outlives_a_reduction_that_is_undone_at_once() {
    let (mut cubic, _) = reduced(100);
    let (at, mut world) = (Instant::from_millis, World::new());
    cubic.curve.update(at(1_000), MS, 70, 1);
    let before = cubic.curve;
    cubic.ssthresh(&mut world.cx(at(1_001)), &Window { cwnd: 70, ..Window::new() });
    cubic.curve.update(at(1_010), MS, 70, 1);
    assert_eq!((cubic.curve.cnt, cubic.curve.epoch), (before.cnt, None));
    cubic.curve.update(at(1_032), MS, 70, 1);
    assert_eq!(cubic.curve.epoch, Some(at(1_032)));
}

#[test]
fn idle_time_is_not_time_on_the_curve() {
    let (mut cubic, mut window) = reduced(1_000);
    let (mut now, rtt) = (Instant::from_millis(1), Duration::from_millis(100));
    round(&mut cubic, &mut window, &mut now, rtt);
    let epoch = cubic.curve.epoch.expect("in avoidance");
    let last_sent = now;
    now += Duration::from_secs(60);
    cubic.on_event(
        &mut World::new().cx(now),
        &mut window.clone(),
        CaEvent::TxStart { last_sent },
        &Flow::default(),
    );
    assert_eq!(cubic.curve.epoch, Some(epoch + Duration::from_secs(60)));
    let before = window.cwnd;
    round(&mut cubic, &mut window, &mut now, rtt);
    assert!(window.cwnd < before + 20, "{before} {}", window.cwnd);
    // Never into the future.
    cubic.on_event(
        &mut World::new().cx(now),
        &mut window.clone(),
        CaEvent::TxStart { last_sent: Instant::ZERO },
        &Flow::default(),
    );
    assert_eq!(cubic.curve.epoch, Some(MS.floor(now)));
}

#[test]
fn a_timeout_forgets_the_curve_but_not_how_to_undo() {
    let (mut cubic, window) = reduced(1_000);
    cubic.on_state(&mut World::new().cx(Instant::ZERO), &window, CaState::Loss, &Flow::default());
    assert_eq!(cubic.curve, Curve::default());
    assert_eq!(cubic.undo_cwnd(&window), 1_000);
}

#[test]
fn the_sysctl_selects_the_way_out_of_slow_start() {
    let mut world = World::new();
    let (mut cubic, mut window) = (Cubic::new(), Window::new());
    let sample = AckSample { rtt: Some(Duration::from_millis(1)), ..AckSample::default() };
    for (sysctl, name) in [(1, "HyStart("), (2, "HyStartPp("), (0, "None"), (2, "HyStartPp(")] {
        world.sysctl.hystart = sysctl;
        cubic.on_ack(&mut world.cx(Instant::ZERO), &mut window, &sample);
        assert!(format!("{:?}", cubic.exit).starts_with(name));
    }
    assert!(size_of::<Cubic>() <= 120, "{}", size_of::<Cubic>());
}

proptest! {
    #[test]
    fn the_cube_root_is_exact(n in any::<u64>(), small in 0..100_000u64) {
        for n in [n, small, u64::MAX] {
            let root = u128::from(cube_root(n));
            prop_assert!(root.pow(3) <= u128::from(n) && (root + 1).pow(3) > u128::from(n));
        }
    }
}
