//! Tests of the poller: deadlines, wakes that are never lost, descriptors that come and go.
use super::*;
use rustix::time::timerfd_gettime;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;

#[test]
fn a_wait_never_ends_before_its_deadline() {
    let (clock, mut poller, mut ready) = (Clock::start(), Poller::new().unwrap(), Vec::new());
    for us in [0, 50, 300, 2_000] {
        let deadline = clock.now() + Duration::from_micros(us);
        assert!(!poller.wait(&clock, Some(deadline), &mut ready).unwrap());
        assert!(ready.is_empty());
        assert!(clock.now() >= deadline, "woke early");
    }
    assert!(!poller.wait(&clock, Some(Instant::ZERO), &mut ready).unwrap(), "past deadlines do not block");
}

/// How late a wait ends is for the machine to say (the benchmark `pace`); that nobody rounds its deadline is not. Time between two
/// looks at the clock widens what is allowed, so a busy machine cannot fail this.
#[test]
fn the_kernel_is_told_deadlines_to_the_nanosecond_and_to_keep_them_within_a_microsecond() {
    precise_timers().unwrap();
    assert_eq!(rustix::thread::current_timer_slack().unwrap(), 1_000);
    let (clock, mut poller, mut ready) = (Clock::start(), Poller::new().unwrap(), Vec::new());
    // Something is ready, so that the wait ends and its timer goes on.
    let (a, b) = UnixStream::pair().unwrap();
    poller.add(&a, 7, Interest::Read).unwrap();
    rustix::io::write(&b, b"x").unwrap();
    for ns in [90_000_000_123, 60_000_999_999, 30_000_500_001, 10_000_000_001] {
        let before = clock.now();
        let deadline = before.plus_nanos(ns);
        poller.wait(&clock, Some(deadline), &mut ready).unwrap();
        assert_eq!(ready.len(), 1);
        let left = timerfd_gettime(&poller.timer).unwrap().it_value;
        let left = left.tv_sec as u64 * 1_000_000_000 + left.tv_nsec as u64;
        let allowed = deadline.nanos_since(clock.now())..=ns;
        assert!(allowed.contains(&left), "{left} ns are left of {allowed:?}");
    }
}

#[test]
fn a_deadline_that_moves_is_kept_and_the_timer_set_only_for_earlier_ones() {
    let (clock, mut poller, mut ready) = (Clock::start(), Poller::new().unwrap(), Vec::new());
    let (a, b) = UnixStream::pair().unwrap();
    poller.add(&a, 7, Interest::Read).unwrap();
    rustix::io::write(&b, b"x").unwrap();
    let begin = clock.now();
    let at = |ms| Some(begin + Duration::from_millis(ms));
    poller.wait(&clock, at(20), &mut ready).unwrap();
    poller.wait(&clock, at(60), &mut ready).unwrap();
    assert_eq!((ready.len(), poller.armed), (1, at(20)), "a later deadline leaves the timer alone");
    rustix::io::read(&a, &mut [0u8; 8]).unwrap();
    assert!(!poller.wait(&clock, at(60), &mut ready).unwrap());
    assert!(clock.now() >= begin + Duration::from_millis(60) && ready.is_empty(), "woke early");
    poller.wait(&clock, at(10), &mut ready).unwrap();
    assert_eq!(poller.armed, None, "a deadline in the past fires at once");
}

#[test]
fn news_is_told_once_each_time_and_apart_from_what_is_read() {
    let (mut poller, mut ready) = (Poller::new().unwrap(), Vec::new());
    let (a, b) = UnixStream::pair().unwrap();
    poller.add(&a, 7, Interest::News).unwrap();
    for _ in 0..2 {
        rustix::io::write(&b, b"x").unwrap();
        poller.wait_for(None, &mut ready).unwrap();
        assert_eq!(ready, [Ready { token: 7, readable: true, writable: false, news: true }]);
        poller.wait_for(Some(Duration::ZERO), &mut ready).unwrap();
        assert_eq!(ready, [], "though nobody has read it");
    }
}

#[test]
fn descriptors_report_their_token_until_served() {
    let (mut poller, mut ready) = (Poller::new().unwrap(), Vec::new());
    let (a, b) = UnixStream::pair().unwrap();
    poller.add(&a, 7, Interest::Read).unwrap();
    poller.wait_for(Some(Duration::ZERO), &mut ready).unwrap();
    assert_eq!(ready, []);
    rustix::io::write(&b, b"x").unwrap();
    for _ in 0..2 {
        poller.wait_for(None, &mut ready).unwrap();
        assert_eq!(ready, [Ready { token: 7, readable: true, writable: false, news: false }]);
    }
    poller.modify(&a, 8, Interest::ReadWrite).unwrap();
    poller.wait_for(None, &mut ready).unwrap();
    assert_eq!(ready, [Ready { token: 8, readable: true, writable: true, news: false }]);
    drop(a);
    // What another test starts at this moment holds a copy of the descriptor until its exec().
    let until = std::time::Instant::now() + Duration::from_secs(10);
    loop {
        poller.wait_for(Some(Duration::from_millis(1)), &mut ready).unwrap();
        if ready.is_empty() {
            break;
        }
        assert!(std::time::Instant::now() < until, "a closed descriptor leaves by itself");
    }
    for own in [u64::MAX, u64::MAX - 1, 1 << 63] {
        assert!(poller.add(&b, own, Interest::Read).is_err());
    }
}

/// A runtime is told of edges; what was left unread before is there all the same.
#[cfg(feature = "tokio")]
#[test]
fn what_was_left_unread_ends_a_wait_in_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let (clock, mut poller, mut ready) = (Clock::start(), Poller::new().unwrap(), Vec::new());
    let (a, b) = UnixStream::pair().unwrap();
    poller.add(&a, 7, Interest::Read).unwrap();
    runtime.block_on(async {
        let place = TokioWait::of(&poller).unwrap();
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            rustix::io::write(&b, b"four").unwrap();
            b
        });
        for left in (1..=4).rev() {
            // The first may be the edge, which says nothing of what is there.
            while ready.is_empty() {
                assert!(!poller.wait_in(&place, &clock, None, &mut ready).await.unwrap());
            }
            assert_eq!(ready[0].token, 7, "{left} bytes are left");
            rustix::io::read(&a, &mut [0u8; 1]).unwrap();
            ready.clear();
        }
        let _open = writer.join().unwrap();
        let waker = poller.waker();
        let ringer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            waker.wake();
        });
        while !poller.wait_in(&place, &clock, None, &mut ready).await.unwrap() {}
        ringer.join().unwrap();
        let deadline = clock.now() + Duration::from_millis(20);
        while clock.now() < deadline {
            assert!(!poller.wait_in(&place, &clock, Some(deadline), &mut ready).await.unwrap());
        }
    });
}

#[test]
fn a_wake_before_the_wait_is_not_lost() {
    let (mut poller, mut ready) = (Poller::new().unwrap(), Vec::new());
    let waker = poller.waker();
    waker.wake();
    waker.wake();
    assert!(poller.wait_for(None, &mut ready).unwrap());
    assert!(!poller.wait_for(Some(Duration::from_millis(1)), &mut ready).unwrap(), "wakes merge");
}

#[test]
fn wakes_from_other_threads_always_arrive() {
    let (mut poller, mut ready) = (Poller::new().unwrap(), Vec::new());
    let posted = Arc::new(AtomicU64::new(0));
    let (waker, theirs) = (poller.waker(), posted.clone());
    let thread = std::thread::spawn(move || {
        for n in 1..=20_000 {
            theirs.store(n, Ordering::Release);
            waker.wake();
            if n % 7 == 0 {
                std::thread::yield_now();
            }
        }
    });
    // Without a timeout: a lost wake hangs here.
    while posted.load(Ordering::Acquire) < 20_000 {
        poller.wait_for(None, &mut ready).unwrap();
        assert_eq!(ready, [], "the eventfd is the poller's own");
    }
    thread.join().unwrap();
}
