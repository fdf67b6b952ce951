//! The estimator against values computed by hand from the rules.
use super::*;
use crate::base::Instant;
use crate::base::testing::World;
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);

fn feed(rtt: &mut Rtt, world: &mut World, ms: u64, una: u64, nxt: u64) {
    rtt.sample(&world.cx(Instant::ZERO), Duration::from_millis(ms), una, nxt);
}

#[test]
fn before_any_sample_the_timeout_is_one_second_and_doubles_to_the_bound() {
    let (world, mut rtt) = (World::new(), Rtt::new());
    assert_eq!(rtt.rto(&world.sysctl), Duration::from_secs(1));
    for expected in [2, 4, 8, 16, 32, 64, 120, 120] {
        rtt.back_off();
        assert_eq!(rtt.rto(&world.sysctl), Duration::from_secs(expected));
    }
    rtt.reset_backoff();
    rtt.fall_back();
    assert_eq!(rtt.rto(&world.sysctl), Duration::from_secs(3));
}

#[test]
fn the_first_sample_sets_everything() {
    let (mut world, mut rtt) = (World::new(), Rtt::new());
    rtt.back_off();
    feed(&mut rtt, &mut world, 100, 1, 1_001);
    assert_eq!(rtt.srtt(), Some(100 * MS));
    assert_eq!(rtt.mdev(), 50 * MS);
    assert_eq!(rtt.rttvar(), 200 * MS);
    assert_eq!((rtt.rto(&world.sysctl), rtt.backoff()), (300 * MS, 0));
    // A handshake of a second: four deviations are twice the sample.
    let mut slow = Rtt::new();
    feed(&mut slow, &mut world, 1_000, 1, 1);
    assert_eq!(slow.rto(&world.sysctl), 3_000 * MS);
    slow.fall_back();
    assert_eq!(slow.rto(&world.sysctl), 3_000 * MS);
}

#[test]
fn the_deviation_follows_peaks_at_once_and_falls_once_per_round() {
    let (mut world, mut rtt) = (World::new(), Rtt::new());
    feed(&mut rtt, &mut world, 100, 1, 1_001);
    // 400 ms: error 300; srtt 137.5; mdev4 = 200 + 300 - 50 = 450 ms.
    feed(&mut rtt, &mut world, 400, 501, 2_001);
    assert_eq!(rtt.srtt8_us(), 1_100_000);
    assert_eq!(rtt.rttvar(), 450 * MS);
    assert_eq!(rtt.rto(&world.sysctl), Duration::from_micros(587_500));
    // Error -37.5 ms, 75 below the deviation of 112.5: mdev4 falls to 375, rttvar stays within the round.
    feed(&mut rtt, &mut world, 100, 901, 3_001);
    assert_eq!((rtt.mdev4, rtt.rttvar()), (375_000, 450 * MS));
    // The round of the first sample ends: the peak of the round, 450, is still the value.
    feed(&mut rtt, &mut world, 100, 1_101, 3_001);
    assert_eq!(rtt.rttvar(), 450 * MS);
    assert_eq!(rtt.mdev_max4, 200_000);
    // A quiet round later a quarter of what is above its peak goes.
    let peak = rtt.mdev4 - (rtt.mdev4 >> 2) + (rtt.srtt8 >> 3) - 100_000;
    feed(&mut rtt, &mut world, 100, 3_002, 4_001);
    assert_eq!(rtt.rttvar, 450_000 - ((450_000 - peak.max(200_000)) >> 2));
}

#[test]
fn a_falling_rtt_does_not_raise_the_timeout_much() {
    let (mut world, mut rtt) = (World::new(), Rtt::new());
    for i in 0..100 {
        feed(&mut rtt, &mut world, 500, i, i);
    }
    let before = rtt.mdev4;
    feed(&mut rtt, &mut world, 100, 100, 100);
    // Error about -400 ms: an eighth of what exceeds the deviation.
    assert!(rtt.mdev4 - before <= 50_000, "{} {}", rtt.mdev4, before);
}

#[test]
fn steady_samples_converge_to_rtt_plus_the_floor() {
    let (mut world, mut rtt) = (World::new(), Rtt::new());
    for i in 0..200 {
        feed(&mut rtt, &mut world, 50, 2 * i, 2 * i + 1);
    }
    assert_eq!(rtt.rto(&world.sysctl), 250 * MS);
}

#[test]
fn a_coarse_clock_widens_samples_and_timeout() {
    let (mut world, mut rtt) = (World::new(), Rtt::new());
    world.sysctl.clock_resolution_ns = 10_000_000;
    world.sysctl.tcp_rto_min_us = 1_000;
    rtt.sample(&world.cx(Instant::ZERO), Duration::ZERO, 1, 1);
    assert_eq!(rtt.srtt(), Some(10 * MS));
    for i in 0..100 {
        feed(&mut rtt, &mut world, 10, 2 * i, 2 * i + 1);
    }
    assert_eq!(rtt.rto(&world.sysctl), 20 * MS);
}

#[test]
fn the_minimum_lasts_five_minutes() {
    let (mut world, mut rtt) = (World::new(), Rtt::new());
    assert_eq!(rtt.min_rtt(), None);
    rtt.sample_min(&world.cx(Instant::from_millis(0)), 10 * MS);
    rtt.sample_min(&world.cx(Instant::from_millis(200_000)), 20 * MS);
    assert_eq!(rtt.min_rtt(), Some(10 * MS));
    rtt.sample_min(&world.cx(Instant::from_millis(300_001)), 30 * MS);
    assert_eq!(rtt.min_rtt(), Some(20 * MS));
}

#[test]
fn the_minimum_lasts_as_long_as_the_setting_says() {
    let (mut world, mut rtt) = (World::new(), Rtt::new());
    world.sysctl.tcp_min_rtt_wlen = 1;
    rtt.sample_min(&world.cx(Instant::from_millis(0)), 10 * MS);
    rtt.sample_min(&world.cx(Instant::from_millis(900)), 20 * MS);
    assert_eq!(rtt.min_rtt(), Some(10 * MS));
    rtt.sample_min(&world.cx(Instant::from_millis(2_000)), 30 * MS);
    assert_eq!(rtt.min_rtt(), Some(30 * MS));
}

#[test]
fn bounds_of_a_socket_may_be_those_of_any_setting() {
    let sysctl = World::new().sysctl;
    for (min_us, told) in [(1, 4), (500, 500), (200_000, 200_000), (262_140, 262_140), (400_000, 400_000)] {
        let mut rtt = Rtt::new();
        rtt.set_bounds(RtoBounds::new(min_us, 120_000));
        assert_eq!((rtt.rto_min_us(&sysctl), rtt.rto_max(&sysctl)), (told, Duration::from_secs(120)));
    }
    // Beyond a quarter of a second in whole units of 4 ms, up to what no timeout reaches.
    let mut rtt = Rtt::new();
    rtt.set_bounds(RtoBounds::new(i32::MAX as u32, 0));
    assert_eq!((rtt.rto_min_us(&sysctl), rtt.rto_max(&sysctl)), (262_140_000, Duration::from_secs(120)));
}

#[test]
fn another_bound_counts_for_timers_at_once_and_for_the_timeout_later() {
    let mut world = World::new();
    let sysctl = &world.sysctl.clone();
    let (second, mut rtt) = (Duration::from_secs(1), Rtt::new());
    rtt.set_bounds(RtoBounds::new(0, 120_000));
    rtt.fall_back();
    rtt.set_bounds(RtoBounds::new(0, 1_000));
    assert_eq!((rtt.rto(sysctl), rtt.rto_of_timer(sysctl)), (3 * second, second), "it was never bound");
    rtt.back_off();
    assert_eq!((rtt.rto(sysctl), rtt.rto_of_timer(sysctl)), (second, second));
    // A higher one, and a third before anything was computed by it.
    rtt.set_bounds(RtoBounds::new(0, 120_000));
    rtt.set_bounds(RtoBounds::new(0, 2_000));
    assert_eq!((rtt.rto(sysctl), rtt.rto_of_timer(sysctl)), (second, second));
    rtt.back_off();
    assert_eq!(rtt.rto(sysctl), 2 * second);
    rtt.set_bounds(RtoBounds::new(0, 1_000));
    assert_eq!((rtt.rto(sysctl), rtt.rto_of_timer(sysctl)), (2 * second, second));
    rtt.sample(&world.cx(Instant::ZERO), 2 * second, 1, 2);
    assert_eq!(rtt.rto(sysctl), second);
}

proptest! {
    #[test]
    fn the_timeout_is_always_within_its_bounds(
        samples in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<bool>()), 1..100),
    ) {
        let (mut world, mut rtt) = (World::new(), Rtt::new());
        for (ns, una, nxt, expire) in samples {
            if expire {
                rtt.back_off();
            } else {
                rtt.sample(&world.cx(Instant::ZERO), Duration::from_nanos(ns), una, nxt);
            }
            let rto = rtt.rto(&world.sysctl);
            prop_assert!(rto >= Duration::from_millis(200) && rto <= Duration::from_secs(120), "{rto:?}");
        }
    }
}
