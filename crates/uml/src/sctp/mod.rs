//! What the experiments of SCTP have in common on Linux: two hosts with two paths, and messages at fixed times over the first.
mod failover;
mod heartbeat;

use crate::hosts::Host;
use crate::job::Measured;
use crate::run::Run;
use lowwater_os::Clock;
use lowwater_os::socket::{self, Address, Buffer};
use rustix::fd::{AsFd as _, OwnedFd};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

pub(crate) use failover::{VARIANTS as FAILOVER, run as failover};
pub(crate) use heartbeat::{VARIANTS as HEARTBEAT, run as heartbeat};

const PORT: u16 = 5_001;
/// Bytes of a message; the first eight are its number.
const MESSAGE: usize = 160;
/// Half of the round-trip time.
const DELAY_MS: u32 = 10;
/// Time for what is under way at the end, and how often one looks whether it has come.
pub(crate) const REST: Duration = Duration::from_secs(120);
const REST_STEP: Duration = Duration::from_millis(10);
/// How long a reader waits before it looks whether all is over.
const LOOK_MS: i32 = 100;
/// SCTP_NODELAY of linux/sctp.h.
const SCTP_NODELAY: i32 = 3;

/// One way to run an experiment.
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    /// Settings of both hosts below `net.sctp`.
    sets: &'static [(&'static str, &'static str)],
    /// Time between two messages.
    every: Duration,
}

impl Variant {
    fn by_name(all: &'static [Self], name: &str) -> Result<&'static Self, String> {
        all.iter().find(|v| v.name == name).ok_or_else(|| format!("no variant {name}"))
    }
}

/// Whether the guest has the run: its own variants, as they are but for their times. Nothing of them is much to carry or to hold.
pub(crate) fn check(all: &[Variant], run: &Run) -> Result<(f64, f64), String> {
    match all.iter().any(|v| v.name == run.variant) {
        true if run.changed.is_empty() => Ok((0.0, 0.0)),
        true => Err(format!(
            "of SCTP the guest follows warmup_s and measure_s alone, not {}",
            run.changed.join(", ")
        )),
        false => Err("the guest has no such variant".to_owned()),
    }
}

/// What was sent when, and what came when, in seconds of one clock.
#[derive(Debug, Default)]
struct Account {
    sent: Vec<f64>,
    /// Number and time of each arrival.
    came: Vec<(usize, f64)>,
}

impl Account {
    /// How often each message came.
    fn seen(&self) -> Vec<u32> {
        let mut seen = vec![0; self.sent.len()];
        for &(number, _) in &self.came {
            seen.get_mut(number).into_iter().for_each(|times| *times += 1);
        }
        seen
    }

    /// Messages, and those that were lost or came twice.
    fn figures(&self) -> Measured {
        let seen = self.seen();
        let twice: u32 = seen.iter().map(|n| n.saturating_sub(1)).sum();
        vec![
            ("messages", self.sent.len() as f64),
            ("messages_lost", seen.iter().filter(|n| **n == 0).count() as f64),
            ("messages_duplicated", f64::from(twice)),
        ]
    }
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

/// Messages from A to B for this long, with what `during` does meanwhile; when the last one was sent, and what `during` says.
fn talk<T>(
    (a, b): (&Host, &Host),
    (every, seconds_in_all): (Duration, f64),
    shared: &Shared,
    clock: &Clock,
    during: impl FnOnce() -> Result<T, String>,
) -> Result<(f64, T), String> {
    let listener = b.run(listen).map_err(|e| format!("listening: {e}"))?;
    let writer = a.run(connect).map_err(|e| format!("connecting: {e}"))?;
    let (reader, _) = socket::accept(Some(listener.as_fd()), 0).map_err(|e| format!("accepting: {e}"))?;
    thread::scope(|s| {
        let read = s.spawn(|| read(&reader, clock, shared));
        let wrote = s.spawn(|| write(&writer, clock, shared, every, seconds_in_all));
        let said = during();
        let wrote = wrote.join();
        let end = seconds(clock);
        // Where not all was sent there is nothing to wait for, and the reader must hear of the end all the same.
        while matches!(wrote, Ok(Ok(()))) && !shared.complete() && seconds(clock) < end + REST.as_secs_f64() {
            thread::sleep(REST_STEP);
        }
        shared.over.store(true, Ordering::Relaxed);
        let read = read.join().map_err(|_| "the reader panicked")?;
        wrote.map_err(|_| "the writer panicked")?.map_err(|e| format!("sending: {e}"))?;
        read.map_err(|e| format!("receiving: {e}"))?;
        Ok((end, said?))
    })
}

fn write(fd: &OwnedFd, clock: &Clock, shared: &Shared, every: Duration, until: f64) -> io::Result<()> {
    let (mut number, begin) = (0_u64, seconds(clock));
    while seconds(clock) < begin + until {
        let mut data = [0; MESSAGE];
        data[..8].copy_from_slice(&number.to_be_bytes());
        shared.account(|a| a.sent.push(seconds(clock)));
        socket::send(Some(fd.as_fd()), &[(Some(&data), MESSAGE)], None, &[], 0)?;
        number += 1;
        let due = begin + number as f64 * every.as_secs_f64();
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
