//! sctp-failover (E5) on Linux: two hosts with two paths, a message every 10 ms, and the first path goes dark.
use crate::hosts::Host;
use crate::job::Measured;
use lowwater_os::Clock;
use lowwater_os::socket::{self, Address, Buffer};
use rustix::fd::{AsFd as _, OwnedFd};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const PORT: u16 = 5_001;
/// Bytes of a message; the first eight are its number.
const MESSAGE: usize = 160;
const EVERY: Duration = Duration::from_millis(10);
/// Half of the round-trip time.
const DELAY_MS: u32 = 10;
/// Delivery is restored when messages take no longer (two round trips).
const USUAL_S: f64 = 0.04;
/// Time for what is under way at the end.
pub(crate) const REST: Duration = Duration::from_secs(120);
/// How long a reader waits before it looks whether all is over.
const LOOK_MS: i32 = 100;
/// SCTP_NODELAY of linux/sctp.h.
const SCTP_NODELAY: i32 = 3;

/// One way to run it.
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    /// Settings of both hosts below `net.sctp`.
    sets: &'static [(&'static str, &'static str)],
}

pub(crate) const VARIANTS: &[Variant] = &[
    Variant { name: "default", sets: &[] },
    Variant { name: "rto-min-200ms", sets: &[("rto_min", "200")] },
    Variant { name: "pf-off", sets: &[("pf_enable", "0")] },
    Variant { name: "pf-retrans-2", sets: &[("pf_retrans", "2")] },
    Variant { name: "pf-off-max-retrans-1", sets: &[("pf_enable", "0"), ("path_max_retrans", "1")] },
    Variant {
        name: "pf-off-max-retrans-1-rto-min-200ms",
        sets: &[("pf_enable", "0"), ("path_max_retrans", "1"), ("rto_min", "200")],
    },
];

/// What was sent when, and what came when, in seconds of one clock.
#[derive(Debug, Default)]
struct Account {
    sent: Vec<f64>,
    /// Number and time of each arrival.
    came: Vec<(usize, f64)>,
}

/// What the threads of a run share.
#[derive(Debug, Default)]
struct Shared {
    account: Mutex<Account>,
    /// Nothing more is waited for.
    over: AtomicBool,
}

impl Shared {
    /// Nobody panics with the lock held.
    fn account<T>(&self, f: impl FnOnce(&mut Account) -> T) -> T {
        f(&mut self.account.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn complete(&self) -> bool {
        self.account(|a| a.came.len() >= a.sent.len())
    }
}

fn seconds(clock: &Clock) -> f64 {
    clock.now().as_nanos() as f64 / 1e9
}

/// `struct sockaddr_in`.
fn address(link: u8, host: u8) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&PORT.to_be_bytes());
    bytes[4..8].copy_from_slice(&[10, 0, link, host]);
    bytes
}

/// Two hosts with two links; A's devices are `va0` and `va1`, B's `vb0` and `vb1`.
fn world(variant: &Variant) -> Result<(Host, Host), String> {
    let (a, b) = (Host::new()?, Host::new()?);
    for link in 0..2 {
        let end = |name: &str, host: u8| (format!("v{name}{link}"), format!("10.0.{link}.{host}/24"));
        let ((va, at_a), (vb, at_b)) = (end("a", 1), end("b", 2));
        a.link((&va, &at_a), &b, (&vb, &at_b))?;
        for (host, dev) in [(&a, va), (&b, vb)] {
            host.command(&format!("tc qdisc add dev {dev} root netem delay {DELAY_MS}ms limit 100000"))?;
        }
    }
    for (name, value) in variant.sets {
        a.set_sctp(name, value)?;
        b.set_sctp(name, value)?;
    }
    Ok((a, b))
}

fn listen() -> io::Result<OwnedFd> {
    let fd = socket::socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP)?;
    let mut any = address(0, 0);
    any[4..8].fill(0);
    socket::bind(Some(fd.as_fd()), Address::Bytes(&any))?;
    socket::listen(Some(fd.as_fd()), 1)?;
    Ok(fd)
}

fn connect() -> io::Result<OwnedFd> {
    let fd = socket::socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP)?;
    let on = 1_i32.to_ne_bytes();
    socket::setsockopt(Some(fd.as_fd()), libc::IPPROTO_SCTP, SCTP_NODELAY, Some(&on), 4)?;
    socket::connect(Some(fd.as_fd()), Address::Bytes(&address(0, 2)))?;
    Ok(fd)
}

pub(crate) fn run(name: &str, times: (f64, f64)) -> Result<Measured, String> {
    let variant = VARIANTS.iter().find(|v| v.name == name).ok_or("no such variant")?;
    let (a, b) = world(variant)?;
    let listener = b.run(listen).map_err(|e| format!("listening: {e}"))?;
    let writer = a.run(connect).map_err(|e| format!("connecting: {e}"))?;
    let (reader, _) = socket::accept(Some(listener.as_fd()), 0).map_err(|e| format!("accepting: {e}"))?;
    let (clock, shared) = (Clock::start(), Shared::default());
    thread::scope(|s| {
        let read = s.spawn(|| read(&reader, &clock, &shared));
        let wrote = s.spawn(|| write(&writer, &clock, &shared, times.0 + times.1));
        thread::sleep(Duration::from_secs_f64(times.0));
        let dark = seconds(&clock);
        let darkened = darken(&a, "va0").and_then(|()| darken(&b, "vb0"));
        let wrote = wrote.join();
        let end = seconds(&clock);
        // Where not all was sent there is nothing to wait for, and the reader must hear of the end all the same.
        while matches!(wrote, Ok(Ok(()))) && !shared.complete() && seconds(&clock) < end + REST.as_secs_f64()
        {
            thread::sleep(EVERY);
        }
        shared.over.store(true, Ordering::Relaxed);
        let read = read.join().map_err(|_| "the reader panicked")?;
        darkened?;
        wrote.map_err(|_| "the writer panicked")?.map_err(|e| format!("sending: {e}"))?;
        read.map_err(|e| format!("receiving: {e}"))?;
        let mut figures = shared.account(|account| reckon(account, dark, end));
        for (name, counter) in
            [("t3_rtx_expireds", "SctpT3RtxExpireds"), ("t3_retransmits", "SctpT3Retransmits")]
        {
            figures.push((name, a.sctp_counter(counter)? as f64));
        }
        Ok(figures)
    })
}

/// The device loses everything from now on.
fn darken(host: &Host, dev: &str) -> Result<(), String> {
    host.command(&format!("tc qdisc change dev {dev} root netem delay {DELAY_MS}ms limit 100000 loss 100%"))
        .map(drop)
}

fn write(fd: &OwnedFd, clock: &Clock, shared: &Shared, until: f64) -> io::Result<()> {
    let (mut number, begin) = (0_u64, seconds(clock));
    while seconds(clock) < begin + until {
        let mut data = [0; MESSAGE];
        data[..8].copy_from_slice(&number.to_be_bytes());
        shared.account(|a| a.sent.push(seconds(clock)));
        socket::send(Some(fd.as_fd()), &[(Some(&data), MESSAGE)], None, &[], 0)?;
        number += 1;
        let due = begin + number as f64 * EVERY.as_secs_f64();
        thread::sleep(Duration::from_secs_f64((due - seconds(clock)).max(0.0)));
    }
    Ok(())
}

fn read(fd: &OwnedFd, clock: &Clock, shared: &Shared) -> io::Result<()> {
    while !shared.over.load(Ordering::Relaxed) {
        let (ready, _) = socket::poll(&[Some((Some(fd.as_fd()), libc::POLLIN))], LOOK_MS)?;
        if ready == 0 {
            continue;
        }
        let mut data = [Buffer::Bytes(vec![0; MESSAGE])];
        let len = socket::recv(Some(fd.as_fd()), &mut data, 0, 0)?.len;
        let [Buffer::Bytes(bytes)] = &data else { unreachable!("as made") };
        let number = bytes.first_chunk().map_or(0, |b| u64::from_be_bytes(*b));
        if len != MESSAGE {
            return Err(io::Error::other(format!("a message of {len} bytes")));
        }
        shared.account(|a| a.came.push((number as usize, seconds(clock))));
    }
    Ok(())
}

/// As the lab reckons (`SctpFailover` of the simulator).
fn reckon(account: &Account, dark: f64, end: f64) -> Measured {
    let (mut last, mut gap, mut longest, mut restored) = (dark, 0.0_f64, 0.0_f64, 0.0);
    let mut seen = vec![0_u32; account.sent.len()];
    for &(number, at) in &account.came {
        let Some(sent) = account.sent.get(number) else { continue };
        seen[number] += 1;
        if at < dark {
            continue;
        }
        gap = gap.max(at - last);
        longest = longest.max(at - sent);
        if at - sent > USUAL_S {
            restored = at - dark;
        }
        last = at;
    }
    gap = gap.max(end.max(last) - last);
    let lost = seen.iter().filter(|n| **n == 0).count();
    let twice: u32 = seen.iter().map(|n| n.saturating_sub(1)).sum();
    vec![
        ("delivery_gap_s_max", gap),
        ("restored_s", if lost > 0 { f64::INFINITY } else { restored }),
        ("message_delay_s_max", longest),
        ("messages", account.sent.len() as f64),
        ("messages_lost", lost as f64),
        ("messages_duplicated", f64::from(twice)),
    ]
}
