//! The stack's SCTP against the kernel's, Linux 6.1 in user mode behind TAPs of a namespace of the test's own.
//!
//! The other side is this very program, run once more inside the guest: the ignored tests of `guest.rs`.
#![cfg(target_os = "linux")]
mod guest;
mod host;

use bytes::Bytes;
use host::{Host, PORT, with_guest};
use lowwater_core::base::{Duration, Error};
use lowwater_core::sctp::{SendInfo, State};

fn info(stream: u16) -> SendInfo {
    SendInfo { stream, ..SendInfo::default() }
}

/// Sends 1 byte, 1 MB and 10,000 messages on ten streams to the guest, which counts and hashes them.
fn to_the_guest(host: &mut Host) {
    let a = host.connect();
    let mut sums = vec![guest::Sum::default(); 10];
    let mut messages = vec![(0, guest::message(0, 0, 9)), (1, guest::message(1, 0, 1_000_000))];
    for n in 0..10_000u32 {
        let stream = (n % 10) as u16;
        let number = n / 10 + u32::from(stream < 2);
        messages.push((stream, guest::message(stream, number, 9 + n as usize * 7 % 2_000)));
    }
    for (stream, data) in &messages {
        sums[usize::from(*stream)].add(data);
        host.send(a, data, info(*stream));
    }
    host.send(a, b"done", info(0));
    let answer = host.receive(a, Duration::from_secs(120));
    let expected: Vec<String> = sums.iter().map(guest::Sum::to_text).collect();
    assert_eq!(String::from_utf8_lossy(&answer), expected.join(" "));
    assert!(host.until(Duration::from_secs(20), |h| h.state(a) == State::Closed), "{:?}", host.info(a));
    assert_eq!(host.stack.take_error(a), None, "the kernel closed in good order");
    let sctp = &host.stack.counters().sctp;
    assert_eq!((sctp.shutdowns, sctp.aborteds, sctp.checksum_errors), (1, 0, 0));
}

#[test]
fn everything_arrives_at_the_kernel() {
    with_guest("guest::listens", 1, to_the_guest);
}

#[test]
fn everything_arrives_at_the_kernel_over_a_bad_network() {
    with_guest("guest::listens_behind_netem", 1, |host| {
        host.lose_one_of = 101;
        to_the_guest(host);
        let sctp = &host.stack.counters().sctp;
        assert!(sctp.fast_retransmits + sctp.t3_retransmits > 0, "{sctp:?}");
    });
}

/// The kernel opens, sends, reads an answer and closes; then opens again and aborts.
fn from_the_guest(host: &mut Host) {
    let listener = host.listen();
    let a = host.accept(listener);
    let mut sum = guest::Sum::default();
    loop {
        let message = host.receive(a, Duration::from_secs(120));
        if message == b"done" {
            break;
        }
        sum.add(&message);
    }
    host.send(a, sum.to_text().as_bytes(), info(0));
    assert!(host.until(Duration::from_secs(60), |h| h.state(a) == State::Closed));
    let now = host.now();
    assert_eq!(host.stack.sctp_recv(now, a, 1), Ok(None), "closed in good order");
    let b = host.accept(listener);
    assert!(host.until(Duration::from_secs(60), |h| h.state(b) == State::Closed));
    assert_eq!(host.stack.take_error(b), Some(Error::Reset));
    assert_eq!(host.stack.counters().sctp.passive_estabs, 2);
}

#[test]
fn everything_comes_from_the_kernel() {
    with_guest("guest::connects", 1, from_the_guest);
}

#[test]
fn everything_comes_from_the_kernel_over_a_bad_network() {
    with_guest("guest::connects_behind_netem", 1, from_the_guest);
}

/// Two addresses on each side; the first path goes dark while the guest counts, and comes back.
#[test]
fn a_path_that_goes_dark_loses_nothing() {
    with_guest("guest::listens_at_two_addresses", 2, |host| {
        let a = host.connect();
        assert!(host.until(Duration::from_secs(20), |h| {
            let paths = h.info(a).paths;
            paths.len() == 2 && paths.iter().all(|p| p.state == lowwater_core::sctp::PathState::Active)
        }));
        let mut sum = guest::Sum::default();
        for n in 0..600 {
            host.dark = (100..300).contains(&n).then_some(0);
            let data = guest::message(0, n, 500);
            sum.add(&data);
            host.send(a, &data, info(0));
            let end = host.now() + Duration::from_millis(10);
            host.until(Duration::from_millis(10), |h| h.now() >= end);
        }
        host.send(a, b"done", info(0));
        let answer = host.receive(a, Duration::from_secs(60));
        let text = String::from_utf8_lossy(&answer).into_owned();
        assert_eq!(text.split(' ').next(), Some(&*sum.to_text()));
        assert!(host.dropped > 0, "the path was dark");
    });
}

#[test]
fn the_kernel_refuses_where_nobody_listens() {
    with_guest("guest::waits", 1, |host| {
        let a = host.connect_to(PORT + 1);
        assert!(host.until(Duration::from_secs(60), |h| h.state(a) == State::Closed));
        assert_eq!(host.stack.take_error(a), Some(Error::Refused));
        let now = host.now();
        let _ = host.stack.sctp_send(now, a, Bytes::new(), info(0));
    });
}

/// Our side forgets everything and opens again from the same port: the kernel sees a restart and goes on.
#[test]
fn our_restart_goes_on_with_the_kernels_association() {
    with_guest("guest::listens", 1, |host| {
        let a = host.connect_from(6_000);
        let before = host.info(a).tags;
        host.forget();
        let a = host.connect_from(6_000);
        let after = host.info(a).tags;
        assert!(before.0 != after.0 && before.1 != after.1, "{before:?} {after:?}");
        let mut sum = guest::Sum::default();
        for n in 0..100 {
            let data = guest::message(0, n, 700);
            sum.add(&data);
            host.send(a, &data, info(0));
        }
        host.send(a, b"done", info(0));
        let answer = host.receive(a, Duration::from_secs(60));
        // The listener accepted one association, before the restart: the answer comes from that one.
        let text = String::from_utf8_lossy(&answer).into_owned();
        assert_eq!(text.split(' ').next(), Some(&*sum.to_text()));
    });
}
