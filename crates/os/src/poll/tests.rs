//! Tests of the poller: deadlines, wakes that are never lost, descriptors that come and go.
use super::*;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;

#[test]
fn deadlines_are_kept_to_the_microsecond_scale() {
    precise_timers().unwrap();
    let (clock, mut poller, mut ready) = (Clock::start(), Poller::new().unwrap(), Vec::new());
    for us in [0, 50, 300, 2_000] {
        let deadline = clock.now() + Duration::from_micros(us);
        assert!(!poller.wait(&clock, Some(deadline), &mut ready).unwrap());
        assert!(ready.is_empty());
        assert!(clock.now() >= deadline, "woke early");
    }
    assert!(!poller.wait(&clock, Some(Instant::ZERO), &mut ready).unwrap(), "past deadlines do not block");
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
fn descriptors_report_their_token_until_served() {
    let (mut poller, mut ready) = (Poller::new().unwrap(), Vec::new());
    let (a, b) = UnixStream::pair().unwrap();
    poller.add(&a, 7, Interest::Read).unwrap();
    poller.wait_for(Some(Duration::ZERO), &mut ready).unwrap();
    assert_eq!(ready, []);
    rustix::io::write(&b, b"x").unwrap();
    for _ in 0..2 {
        poller.wait_for(None, &mut ready).unwrap();
        assert_eq!(ready, [Ready { token: 7, readable: true, writable: false }]);
    }
    poller.modify(&a, 8, Interest::ReadWrite).unwrap();
    poller.wait_for(None, &mut ready).unwrap();
    assert_eq!(ready, [Ready { token: 8, readable: true, writable: true }]);
    drop(a);
    poller.wait_for(Some(Duration::from_millis(1)), &mut ready).unwrap();
    assert_eq!(ready, [], "a closed descriptor leaves by itself");
    for own in [u64::MAX, u64::MAX - 1] {
        assert!(poller.add(&b, own, Interest::Read).is_err());
    }
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
