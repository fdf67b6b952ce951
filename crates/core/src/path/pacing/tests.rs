//! Rates, departure times and packet sizes computed by hand.
use super::*;

const DEMAND: Demand =
    Demand { mss: 1_448, cwnd: 10, ssthresh: 0x7fff_ffff, packets_out: 0, srtt8_us: 800_000 };

fn rate(demand: &Demand) -> u64 {
    let mut pacing = Pacing::new();
    pacing.derive_rate(&Sysctl::default(), demand);
    pacing.rate()
}

#[test]
fn the_rate_is_a_window_per_round_trip_times_the_ratio() {
    assert_eq!(rate(&DEMAND), 289_600);
    assert_eq!(rate(&Demand { ssthresh: 20, ..DEMAND }), 173_760);
    assert_eq!(rate(&Demand { ssthresh: 21, ..DEMAND }), 173_760);
    assert_eq!(rate(&Demand { ssthresh: 22, ..DEMAND }), 289_600);
    assert_eq!(rate(&Demand { packets_out: 20, ..DEMAND }), 579_200);
    // Without an RTT: as if it were an eighth of a microsecond.
    assert_eq!(rate(&Demand { srtt8_us: 0, ..DEMAND }), 14_480 * 2 * 8_000_000);
    let all = Demand { mss: u32::MAX, cwnd: u32::MAX, packets_out: u32::MAX, ssthresh: 1, srtt8_us: 1 };
    assert_eq!(rate(&all), u64::MAX);
}

#[test]
fn each_ratio_acts_in_its_phase_alone() {
    let sysctl = Sysctl { tcp_pacing_ss_ratio: 100, tcp_pacing_ca_ratio: 50, ..Sysctl::default() };
    let rate = |ssthresh| {
        let mut pacing = Pacing::new();
        pacing.derive_rate(&sysctl, &Demand { ssthresh, ..DEMAND });
        pacing.rate()
    };
    assert_eq!((rate(0x7fff_ffff), rate(20)), (144_800, 72_400));
}

#[test]
fn a_maximum_bounds_the_rate_at_once_and_makes_pacing_needed() {
    let mut pacing = Pacing::new();
    pacing.derive_rate(&Sysctl::default(), &DEMAND);
    pacing.set_max_rate(100_000);
    assert_eq!((pacing.rate(), pacing.status()), (100_000, Status::Needed));
    pacing.derive_rate(&Sysctl::default(), &DEMAND);
    assert_eq!(pacing.rate(), 100_000);
    pacing.set_max_rate(u64::MAX);
    pacing.derive_rate(&Sysctl::default(), &DEMAND);
    assert_eq!(pacing.rate(), 289_600);
}

#[test]
fn credit_from_idleness_shortens_the_wait_by_at_most_half() {
    let mut pacing = Pacing::new();
    pacing.set_max_rate(1_000_000);
    let at = Instant::from_millis;
    // 1,000 bytes take 1 ms.
    assert_eq!(pacing.on_send(at(5), 1_000, 10), at(5));
    assert_eq!(pacing.wstamp, Instant::from_micros(5_500));
    assert_eq!(pacing.not_before(at(5)), Some(Instant::from_micros(5_500)));
    // On time: the whole millisecond.
    assert_eq!(pacing.on_send(Instant::from_micros(5_500), 1_000, 11), Instant::from_micros(5_500));
    assert_eq!(pacing.wstamp, Instant::from_micros(6_500));
    // 200 us late: 200 us less.
    assert_eq!(pacing.on_send(Instant::from_micros(6_700), 1_000, 12), Instant::from_micros(6_700));
    assert_eq!(pacing.wstamp, Instant::from_micros(7_500));
    // With fq below the packet goes down early and carries its time.
    pacing.stand_on(true);
    assert_eq!(pacing.not_before(at(7)), None);
    assert_eq!(pacing.on_send(at(7), 1_000, 13), Instant::from_micros(7_500));
}

#[test]
fn the_first_ten_segments_and_unpaced_flows_leave_at_once() {
    let mut pacing = Pacing::new();
    pacing.set_max_rate(1_000);
    pacing.on_send(Instant::from_millis(1), 1_448, 9);
    assert_eq!(pacing.not_before(Instant::from_millis(1)), None);
    let mut pacing = Pacing::new();
    pacing.set_rate(1_000);
    pacing.on_send(Instant::from_millis(1), 1_448, 100);
    assert_eq!(pacing.wstamp, Instant::from_millis(1));
}

#[test]
fn a_queue_that_honours_departure_times_paces_every_flow_while_it_is_there() {
    let (mut plain, mut wanting) = (Pacing::new(), Pacing::new());
    wanting.need();
    for (fq, of_plain, of_wanting) in [
        (false, Status::None, Status::Needed),
        (true, Status::Fq, Status::Fq),
        (false, Status::None, Status::Needed),
    ] {
        plain.stand_on(fq);
        wanting.stand_on(fq);
        assert_eq!((plain.status(), wanting.status()), (of_plain, of_wanting));
    }
    wanting.stand_on(true);
    wanting.need();
    assert_eq!(wanting.status(), Status::Fq);
}

#[test]
fn a_second_of_sending_at_any_rate_takes_a_second() {
    // 1 kbit/s to 400 Gbit/s.
    for (rate, len, count) in
        [(125, 125, 1u64), (1_250_000, 1_250, 1_000), (50_000_000_000, 50_000, 1_000_000)]
    {
        let mut pacing = Pacing::new();
        pacing.set_max_rate(rate);
        let mut now = Instant::from_millis(0);
        for _ in 0..count {
            pacing.on_send(now, len, 10);
            now = pacing.not_before(now).unwrap_or(now);
        }
        assert_eq!(now, Instant::from_millis(1_000), "{rate}");
    }
}

/// Timers fire late; the rate must not suffer (docs/transmit-path.md, "Pacing").
#[test]
fn late_wakes_do_not_lower_the_rate_and_very_late_ones_do_not_burst() {
    let mut pacing = Pacing::new();
    pacing.set_max_rate(1_000_000);
    let (mut now, late_ns) = (Instant::from_millis(1), 450_000);
    for _ in 0..1_000 {
        pacing.on_send(now, 1_000, 10);
        now = pacing.not_before(now).expect("paced").plus_nanos(late_ns);
    }
    let took = now.nanos_since(Instant::from_millis(1));
    assert!((999_000_000..=1_001_000_000).contains(&took), "{took}");
    // A second late: the next packet goes after half of its time, and only that one.
    now = now.plus_nanos(1_000_000_000);
    pacing.on_send(now, 1_000, 10);
    assert_eq!(pacing.not_before(now), Some(now.plus_nanos(500_000)));
    now = now.plus_nanos(500_000);
    pacing.on_send(now, 1_000, 10);
    assert_eq!(pacing.not_before(now), Some(now.plus_nanos(1_000_000)));
}

#[test]
fn packets_grow_with_the_rate_and_with_nearness() {
    let sysctl = Sysctl::default();
    let mut pacing = Pacing::new();
    pacing.set_rate(1_250_000);
    let far = Some(Duration::from_millis(40));
    assert_eq!(pacing.autosize_bytes(&sysctl, 65_536, far), 1_220);
    assert_eq!(pacing.autosize_bytes(&sysctl, 65_536, None), 1_220);
    // 1 ms is one halving: 1,000 >> 9 = 1.
    assert_eq!(pacing.autosize_bytes(&sysctl, 65_536, Some(Duration::from_millis(1))), 1_220 + 32_768);
    assert_eq!(pacing.autosize_bytes(&sysctl, 65_536, Some(Duration::from_micros(100))), 65_536);
    let off = Sysctl { tcp_tso_rtt_log: 0, ..Sysctl::default() };
    assert_eq!(pacing.autosize_bytes(&off, 65_536, Some(Duration::from_micros(1))), 1_220);
    pacing.set_rate(u64::MAX);
    assert_eq!(pacing.autosize_bytes(&sysctl, 65_536, far), 65_536);
}

#[test]
fn the_cushion_for_bursts_is_bounded() {
    let mut pacing = Pacing::new();
    assert_eq!(pacing.burst_delay(65_536), Duration::ZERO);
    pacing.set_rate(1_000_000_000);
    assert_eq!(pacing.burst_delay(65_536), Duration::from_nanos(262_144));
    pacing.set_rate(1_000);
    assert_eq!(pacing.burst_delay(65_536), Duration::from_millis(1));
}

#[test]
fn a_maximum_of_zero_spaces_nothing() {
    let mut pacing = Pacing::new();
    pacing.set_max_rate(0);
    assert_eq!((pacing.rate(), pacing.max_rate(), pacing.is_paced()), (0, 0, true));
    let now = Instant::from_millis(1_000);
    for _ in 0..100 {
        assert_eq!(pacing.on_send(now, 14_480, 10), now);
        assert_eq!(pacing.not_before(now), None);
    }
    assert!(pacing.lets_go_after(now, 1_000));
    assert_eq!(pacing.burst_delay(65_536), Duration::ZERO);
    assert_eq!(pacing.autosize_bytes(&Sysctl::default(), 65_215, Some(Duration::from_millis(100))), 0);
}

#[test]
fn what_may_leave_at_once_is_what_sending_shows() {
    let now = Instant::from_millis(1_000);
    for before in 0..14 {
        for segs in [1, 2, 3, 10] {
            let mut pacing = Pacing::new();
            pacing.set_max_rate(1_000_000);
            pacing.count(before);
            let foreseen = pacing.clone();
            for packets in 0..16 {
                let ahead = u32::from(packets * segs);
                let (may, does) = (foreseen.lets_go_after(now, ahead), pacing.not_before(now).is_none());
                assert_eq!(may, does, "{before} before, {packets} packets of {segs}");
                if !does {
                    break;
                }
                pacing.on_send(now, 1_000 * usize::from(segs), segs);
            }
        }
    }
}

#[test]
fn an_acknowledgement_ends_what_idle_time_is_worth() {
    let gap = |acked: bool| {
        let mut pacing = Pacing::new();
        pacing.set_max_rate(1_000_000);
        pacing.count(10);
        pacing.on_send(Instant::from_millis(1_000), 1_000, 1);
        let later = Instant::from_millis(1_010);
        if acked {
            pacing.renew(later);
        }
        pacing.on_send(later, 1_000, 1);
        pacing.delay(later)
    };
    assert_eq!((gap(false), gap(true)), (Duration::from_micros(500), Duration::from_millis(1)));
}
