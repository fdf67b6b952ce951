//! The estimate, the limit and what ends them, by completions made by hand.
use super::*;

const SIZES: Sizes = Sizes { mss: 1_448, headers: 52 };

fn us(us: u64) -> Instant {
    Instant::from_nanos(us * 1_000)
}

/// A line that takes `us_per_segment`, with `below` segments always below; the queue after `n` completions, and the time.
fn run(us_per_segment: u64, below: u32, n: u64) -> (QueueAware, Instant) {
    let mut q = QueueAware::new(us(0), SIZES);
    (0..below).for_each(|_| q.on_sent(us(0), 1_448, SIZES, us(0)));
    for i in 1..=n {
        assert!(!q.on_left(us(i * us_per_segment), 1_448));
        q.on_sent(us(i * us_per_segment), 1_448, SIZES, us(0));
    }
    (q, us(n * us_per_segment))
}

#[test]
fn a_packet_has_headers_for_each_segment_and_one_without_payload_too() {
    assert_eq!(SIZES.ip_bytes(0), 52);
    assert_eq!(SIZES.ip_bytes(1), 53);
    assert_eq!(SIZES.ip_bytes(1_448), 1_500);
    assert_eq!(SIZES.ip_bytes(1_449), 1_553);
    assert_eq!(SIZES.segment(), 1_500);
}

#[test]
fn pieces_count_as_what_each_of_them_is() {
    // Selective acknowledgements have made three of two segments, and half the MSS makes six of three.
    for (payload, pieces) in [(2_800, [933, 933, 934].as_slice()), (4_344, &[724; 6])] {
        let mut q = QueueAware::new(us(0), SIZES);
        q.on_sent(us(0), 1_000, SIZES, us(0));
        q.on_sent(us(0), payload, SIZES, us(0));
        q.on_cut(us(0), payload, pieces.iter().copied());
        assert_eq!(q.queued(), 1_052 + u64::from(payload) + pieces.len() as u64 * 52);
        let left = pieces.iter().filter(|&&piece| q.on_left(us(1), piece)).count();
        assert_eq!((left, q.queued()), (0, 1_052), "the other one still stands");
    }
    // In longer ones than they have become each piece is two: as many as it counted for.
    let mut q = QueueAware::new(us(0), Sizes { mss: 700, headers: 52 });
    q.on_sent(us(0), 700, Sizes { mss: 700, headers: 52 }, us(0));
    q.on_sent(us(0), 2_100, SIZES, us(0));
    q.on_cut(us(0), 2_100, [1_050; 2].into_iter());
    assert_eq!(q.queued(), 752 + 2_100 + 4 * 52);
}

#[test]
fn pieces_of_what_waits_for_its_time_wait_for_it() {
    // Three of two segments, or of four that the account took it for: more in any case, since parts are rounded up one by one.
    let short = Sizes { mss: 700, headers: 52 };
    for (sizes, pieces) in [(SIZES, [933, 933, 934].as_slice()), (short, &[933, 933, 934])] {
        let mut q = QueueAware::new(us(0), sizes);
        // Another one waits before it, which is not the one that was cut.
        q.on_sent(us(0), 700, sizes, us(5_000));
        q.on_sent(us(0), 2_800, sizes, us(10_000));
        q.on_cut(us(0), 2_800, pieces.iter().copied());
        assert_eq!(q.period(us(4_999)).busy_ns, 0, "pace is no queue");
        assert!(!q.on_left(us(5_000), 700));
        assert_eq!(q.period(us(9_999)).busy_ns, 0, "the rest has its time to wait for");
        for piece in pieces {
            assert!(!q.on_left(us(11_000), *piece));
        }
        assert_eq!((q.queued(), q.period(us(12_000)).busy_ns), (0, 1_000_000));
    }
    // One that waits for nothing is a queue.
    let mut q = QueueAware::new(us(0), SIZES);
    q.on_sent(us(0), 1_000, SIZES, us(0));
    q.on_sent(us(0), 2_800, SIZES, us(0));
    q.on_cut(us(0), 2_800, [933, 933, 934].into_iter());
    assert_eq!(q.period(us(3_000)).busy_ns, 3_000_000);
}

#[test]
fn eight_completions_and_four_milliseconds_make_an_estimate() {
    // 10 Mbit/s: eight completions take longer than 4 ms.
    assert_eq!(run(1_200, 2, 7).0.rate(us(7 * 1_200)), None);
    assert_eq!(run(1_200, 2, 8).0.rate(us(8 * 1_200)), Some(1_250_000));
    // 120 Mbit/s: 4 ms are forty completions, five between two marks.
    assert_eq!(run(100, 2, 39).0.rate(us(3_900)), None);
    assert_eq!(run(100, 2, 40).0.rate(us(4_000)), Some(15_000_000));
}

#[test]
fn a_packet_takes_half_a_millisecond_and_the_queue_one() {
    // 24 Mbit/s: all of the millisecond.
    let (mut q, now) = run(500, 2, 100);
    assert_eq!((q.segments(now), q.limit(now)), (Some(1), Some(3_000)));
    q.set_lateness(Duration::from_micros(500));
    assert_eq!(q.limit(now), Some(4_500));
    // 120 Mbit/s: 0.818 of it, the eighth root of a fifth, and all of the lateness.
    let (mut q, now) = run(100, 2, 100);
    assert_eq!((q.segments(now), q.limit(now)), (Some(4), Some(12_266)));
    q.set_lateness(Duration::from_micros(200));
    assert_eq!(q.limit(now), Some(15_266));
    assert_eq!(q.queued(), 3_000);
    assert_eq!(q.admits(now, 5 * 1_448), Some(true));
    q.on_sent(now, 9 * 1_448, SIZES, us(0));
    assert_eq!(q.admits(now, 1), Some(false), "no room for another byte");
}

#[test]
fn a_slow_line_has_two_segments_and_an_empty_one_takes_anything() {
    let (mut q, now) = run(12_000, 2, 20);
    assert_eq!((q.segments(now), q.limit(now)), (Some(1), Some(3_000)));
    assert_eq!(q.admits(now, 1_448), Some(false));
    let next = now + Duration::from_millis(12);
    assert!(!q.on_left(next, 1_448), "one is still below");
    assert_eq!(q.admits(next, 1_448), Some(true));
    assert_eq!(q.admits(next, 1_449), Some(false));
    let last = next + Duration::from_millis(12);
    assert!(q.on_left(last, 1_448), "the rule held something back, and nothing is left");
    assert_eq!(q.admits(last, 64_000), Some(true));
}

/// Bursts of four segments, one each 10 ms, over a line that takes 600 us for each and tells at so many microseconds after the burst
/// began; what completions are late by is known.
fn bursts(told_at: [u64; 4], late: Duration) -> Option<u64> {
    let mut q = QueueAware::new(us(0), SIZES);
    q.set_lateness(late);
    for burst in 0..8 {
        let begin = us(burst * 10_000);
        (0..4).for_each(|_| q.on_sent(begin, 1_448, SIZES, us(0)));
        for at in told_at {
            let _ = q.on_left(begin.plus_nanos(at * 1_000), 1_448);
        }
    }
    let end = us(7 * 10_000 + told_at[3]);
    q.rate(end)
}

/// 1,500 bytes in 600 us are 2,500,000 a second, however short the bursts are.
#[test]
fn the_last_packet_of_a_burst_does_not_make_the_line_slower() {
    let late = Duration::from_millis(1);
    assert_eq!(bursts([600, 1_200, 1_800, 2_400], Duration::ZERO), Some(2_500_000));
    assert_eq!(bursts([1_600, 2_200, 2_800, 3_400], late), Some(2_500_000));
    // A timer of a millisecond tells of the first two and of the last two; the last left 200 us before, as half a packet's time says well enough.
    let two = bursts([1_600, 1_600, 2_800, 2_800], late).expect("enough of them");
    assert!((2_200_000..2_800_000).contains(&two), "{two}");
    // What is believed is too much: half of the time is the line's.
    let wrong = bursts([600, 1_200, 1_800, 2_400], Duration::from_millis(9)).expect("enough of them");
    assert!(wrong <= 5_000_000, "{wrong}");
}

/// A driver that was stopped makes c 10 ms for a while, on a line that tells at once: whatever the bursts are, d is never far off.
#[test]
fn a_lateness_that_is_none_does_not_make_the_line_fast() {
    for packets in [1, 2, 4, 8, 20, 50] {
        let mut q = QueueAware::new(us(0), SIZES);
        q.set_lateness(Duration::from_millis(10));
        let mut most = 0;
        for burst in 0..40 {
            let begin = us(burst * 40_000);
            (0..packets).for_each(|_| q.on_sent(begin, 1_448, SIZES, us(0)));
            for i in 1..=packets {
                let now = begin.plus_nanos(i * 600_000);
                let _ = q.on_left(now, 1_448);
                most = q.rate(now).unwrap_or(0).max(most);
            }
        }
        assert!(most <= 3 * 2_500_000, "{packets}: {most}");
    }
}

#[test]
fn the_estimate_follows_the_line() {
    let (mut q, mut now) = run(100, 2, 100);
    let mut step = |us_each: u64, n: u64| {
        for _ in 0..n {
            now = now.plus_nanos(us_each * 1_000);
            let _ = q.on_left(now, 1_448);
            q.on_sent(now, 1_448, SIZES, us(0));
        }
        q.rate(now)
    };
    assert_eq!(step(1_000, 8), Some(1_500_000), "ten times slower, after eight completions");
    assert_eq!(step(10, 400), Some(150_000_000), "a hundred times faster, after 4 ms");
}

#[test]
fn a_queue_that_empties_at_once_has_no_estimate() {
    // Ten packets a millisecond, each below for no time, and for a fifth of the time.
    for below_us in [0, 20] {
        let mut q = QueueAware::new(us(0), SIZES);
        for i in 0..1_000 {
            q.on_sent(us(100 * i), 1_448, SIZES, us(0));
            assert!(!q.on_left(us(100 * i + below_us), 1_448));
            assert_eq!((q.rate(us(100 * i + below_us)), q.segments(us(100 * i + 99))), (None, None));
        }
    }
}

#[test]
fn short_pauses_do_not_count_and_a_long_one_ends_the_estimate() {
    let mut q = QueueAware::new(us(0), SIZES);
    for i in 0..100 {
        q.on_sent(us(1_000 * i), 1_448, SIZES, us(0));
        assert!(!q.on_left(us(1_000 * i + 800), 1_448));
    }
    // 1,500 bytes in 800 us, whatever the pauses of 200 us.
    assert_eq!(q.rate(us(100_000)), Some(1_875_000));
    assert_eq!(q.rate(us(200_000)), None, "busy for less than half of the window");
    // It comes back when the pause has left the window.
    for i in 200..208 {
        q.on_sent(us(1_000 * i), 1_448, SIZES, us(0));
        assert_eq!(q.rate(us(1_000 * i)), None);
        assert!(!q.on_left(us(1_000 * i + 800), 1_448));
    }
    q.on_sent(us(208_000), 1_448, SIZES, us(0));
    assert!(!q.on_left(us(208_800), 1_448));
    assert_eq!(q.rate(us(208_800)), Some(1_875_000));
}

#[test]
fn what_was_dropped_is_no_speed() {
    let (mut q, now) = run(1_200, 4, 8);
    let rate = q.rate(now);
    for _ in 0..2 {
        q.on_dropped(now, 1_448);
    }
    assert_eq!((q.queued(), q.rate(now)), (3_000, rate));
    q.on_all_back(now);
    assert_eq!(q.queued(), 0);
}

#[test]
fn sizes_change_only_while_nothing_is_below() {
    let mut q = QueueAware::new(us(0), SIZES);
    let small = Sizes { mss: 1_000, headers: 40 };
    q.on_sent(us(0), 1_448, SIZES, us(0));
    q.on_sent(us(0), 1_000, small, us(0));
    assert_eq!(q.queued(), 1_500 + 1_052);
    let _ = q.on_left(us(10), 1_448);
    let _ = q.on_left(us(20), 1_000);
    assert_eq!(q.queued(), 0);
    q.on_sent(us(30), 1_000, small, us(0));
    assert_eq!(q.queued(), 1_040);
}

#[test]
fn a_packet_is_cut_to_the_room_but_keeps_half_its_size() {
    // What may stand is eight segments, a packet four of them.
    let (mut q, now) = run(100, 2, 100);
    assert_eq!(q.segments(now), Some(4));
    q.on_sent(now, 4 * 1_448, SIZES, us(0));
    assert_eq!(q.segments(now), Some(2), "six stand, two more may");
    q.on_sent(now, 1_448, SIZES, us(0));
    assert_eq!(q.segments(now), Some(4), "less than half would fit: it waits");
    assert_eq!(q.admits(now, 4 * 1_448), Some(false));
    assert_eq!(q.admits(now, 1_448), Some(true), "what is no larger may go");
}

/// A flow that had an estimate when it had nothing in flight begins with it, until completions make another one or say that there is none.
#[test]
fn what_is_remembered_holds_until_there_is_something_better() {
    let (old, now) = run(1_200, 2, 20);
    let mut memory = Memory::default();
    old.forget(now, &mut memory);
    let later = now + Duration::from_millis(500);
    let speed = memory.speed(later, SIZES).expect("fresh");
    assert_eq!(speed.rate(), 1_250_000);
    let at = |i: u64, us: u64| later.plus_nanos(i * us * 1_000);
    let begin = || {
        let mut q = QueueAware::remembering(later, SIZES, speed);
        (0..2).for_each(|_| q.on_sent(later, 1_448, SIZES, later));
        q
    };
    let mut q = begin();
    for i in 1..=8 {
        assert_eq!(q.rate(at(i, 2_400)), Some(1_250_000), "{i}");
        assert!(!q.on_left(at(i, 2_400), 1_448));
        q.on_sent(at(i, 2_400), 1_448, SIZES, later);
    }
    assert_eq!(q.rate(at(8, 2_400)), Some(625_000), "its own, after eight completions");
    // A line on which nothing stands any more.
    let mut q = begin();
    q.on_all_back(later);
    for i in 1..=20 {
        assert!(!q.on_left(at(i, 10_000), 1_448));
        q.on_sent(at(i, 10_000), 1_448, SIZES, later);
        let _ = q.on_left(at(i, 10_000).plus_nanos(10_000), 1_448);
    }
    assert_eq!(q.rate(at(20, 10_000)), None);
    q.forget(at(20, 10_000), &mut memory);
    assert_eq!(memory.speed(at(20, 10_000), SIZES), None, "and that is not remembered");
}

#[test]
fn a_flow_that_is_followed_costs_little() {
    assert!(size_of::<QueueAware>() <= 440, "{}", size_of::<QueueAware>());
}

/// Packets of a flow paced to one a millisecond, three of them handed down ahead, before a line that takes `line_us` for each.
fn paced(line_us: u64, n: u64) -> (QueueAware, Instant) {
    let mut q = QueueAware::new(us(0), SIZES);
    let (mut free, mut left) = (0, 0);
    for i in 0..n {
        // It is handed down two milliseconds before its time.
        let (sent, due) = (1_000 * i, 1_000 * (i + 2));
        while left < i && free.max(1_000 * (left + 2)) + line_us <= sent {
            free = free.max(1_000 * (left + 2)) + line_us;
            assert!(!q.on_left(us(free), 1_448));
            left += 1;
        }
        q.on_sent(us(sent), 1_448, SIZES, us(due));
    }
    (q, us(1_000 * n))
}

#[test]
fn what_waits_for_its_time_is_no_queue() {
    let (q, now) = paced(20, 200);
    assert!(q.queued() >= 2 * 1_500, "{} stand all the time", q.queued());
    assert_eq!(q.rate(now), None, "but for two hundredths of it they could leave");
    // A line that takes nine tenths of the time of each is a queue, and its speed is the line's.
    let (q, now) = paced(900, 200);
    assert_eq!(q.rate(now), Some(1_666_666));
    // One that takes more falls behind: all is due, and nothing is paced.
    let (q, now) = paced(1_500, 200);
    assert_eq!(q.rate(now), Some(1_000_000));
}

#[test]
fn the_account_of_what_waits_for_its_time_is_bounded_and_balances() {
    let mut q = QueueAware::new(us(0), SIZES);
    (0..100).for_each(|i| q.on_sent(us(0), 1_448, SIZES, us(1_000 + i)));
    assert_eq!((q.held_back.len(), q.held_bytes, q.queued()), (HELD_MAX, 150_000, 150_000));
    q.on_refused(us(0), 1_448);
    assert_eq!((q.held_bytes, q.queued()), (148_500, 148_500));
    // One may leave early, when the discipline is replaced.
    assert!(!q.on_left(us(1), 1_448));
    assert_eq!(q.queued(), 147_000);
    assert!(q.held_bytes <= 147_000);
    q.on_dropped(us(2_000), 1_448);
    assert_eq!((q.held_back.len(), q.held_bytes, q.queued()), (0, 0, 145_500));
    q.on_all_back(us(2_000));
    assert_eq!((q.held_bytes, q.queued()), (0, 0));
}
