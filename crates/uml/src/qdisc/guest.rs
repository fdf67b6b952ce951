//! The guest's half: two hosts, the disciplines by `tc`, frames from a packet socket, and what comes out at the other end.
use super::cases::{Case, case};
use super::{Frame, Left, Outcome, frames};
use crate::hosts::Host;
use crate::job::say;
use crate::sniff::{self, EVERY_PROTOCOL, NS_PER_S, open};
use lowwater_core::base::Instant;
use lowwater_os::socket;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Without a frame for so long, and with nothing in the queue, a case is over.
const SILENCE: Duration = Duration::from_millis(300);
/// Looks at a queue that does not empty.
const LOOKS_MAX: u32 = 40;

/// Runs the cases that `names` lists, separated by commas, and prints a line for each.
///
/// # Errors
/// What went wrong, in a sentence.
pub fn guest(names: &str) -> Result<(), String> {
    for name in names.split(',') {
        let case = case(name).ok_or_else(|| format!("there is no case {name}"))?;
        let outcome = run(case).map_err(|why| format!("{name}: {why}"))?;
        say(&outcome.to_json())?;
    }
    Ok(())
}

fn run(case: &Case) -> Result<Outcome, String> {
    let (a, b) = (Host::new()?, Host::new()?);
    a.link(("va", "10.0.0.1/24"), &b, ("vb", "10.0.0.2/24"))?;
    for (depth, words) in case.words.split(" child ").enumerate() {
        let place = if depth == 0 { "root".to_owned() } else { format!("parent {depth}:1") };
        a.command(&format!("tc qdisc add dev va {place} handle {}: {words}", depth + 1))?;
    }
    let output = a.run(|| open("va", 0)).map_err(|e| format!("a socket for sending: {e}"))?;
    let input = b.run(|| open("vb", EVERY_PROTOCOL)).map_err(|e| format!("a socket for receiving: {e}"))?;
    let stop = AtomicBool::new(false);
    thread::scope(|s| {
        let sink = s.spawn(|| collect(&input, &stop));
        let handed = send(&output, &(case.load)()).map_err(|e| format!("sending: {e}"));
        // Whatever comes of it, the receiver hears of the end.
        let counts = settled(&a);
        thread::sleep(SILENCE);
        stop.store(true, Ordering::Relaxed);
        let left =
            sink.join().map_err(|_| "the receiver panicked")?.map_err(|e| format!("receiving: {e}"))?;
        let handed = handed?;
        let start = handed.first().copied().unwrap_or_default();
        let handed_ns = handed.iter().map(|at| at - start).collect();
        let left = left.into_iter().map(|(at, left)| (at.saturating_sub(start), left)).collect();
        Ok(Outcome { handed_ns, left, counts: counts? })
    })
}

/// The counts when nothing waits any more, or where something waits for too long.
fn settled(a: &Host) -> Result<Vec<BTreeMap<String, u64>>, String> {
    let mut looks = 0;
    loop {
        thread::sleep(SILENCE);
        let counts = counts(a)?;
        looks += 1;
        if counts.first().and_then(|c| c.get("qlen")) == Some(&0) || looks == LOOKS_MAX {
            return Ok(counts);
        }
    }
}

fn nanos(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * NS_PER_S + now.tv_nsec as u64
}

/// Sends each frame at its time; when each was handed over.
fn send(fd: &OwnedFd, load: &[Frame]) -> io::Result<Vec<u64>> {
    let ready: Vec<Vec<u8>> = load.iter().map(|f| frames::bytes(&frames::packet(f, Instant::ZERO))).collect();
    let start = nanos(ClockId::Monotonic);
    let (mut handed, mut priority) = (Vec::new(), 0);
    for (frame, bytes) in load.iter().zip(&ready) {
        let due = start + frame.at_us * 1_000;
        let wait = due.saturating_sub(nanos(ClockId::Monotonic));
        if wait > 0 {
            thread::sleep(Duration::from_nanos(wait));
        }
        if core::mem::replace(&mut priority, priority_of(frame.tos)) != priority {
            let value = i32::to_ne_bytes(priority);
            socket::setsockopt(Some(fd.as_fd()), libc::SOL_SOCKET, libc::SO_PRIORITY, Some(&value), 4)?;
        }
        handed.push(nanos(ClockId::Realtime));
        let control = match frame.depart_us {
            0 => Vec::new(),
            us => departure(nanos(ClockId::Monotonic) + us * 1_000),
        };
        match socket::send(Some(fd.as_fd()), &[(Some(bytes), 0)], None, &control, 0) {
            // The discipline had no room for it.
            Ok(_) => {}
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(handed)
}

/// The priority that IP_TOS gives a socket (`rt_tos2priority`).
#[must_use]
pub const fn priority_of(tos: u8) -> i32 {
    match (tos & 0x1e) >> 1 {
        4..=7 => 2,
        8..=11 => 6,
        12..=15 => 4,
        _ => 0,
    }
}

/// The control message SCM_TXTIME.
fn departure(ns: u64) -> Vec<u8> {
    let len: usize = 24;
    let mut message = len.to_ne_bytes().to_vec();
    message.extend(libc::SOL_SOCKET.to_ne_bytes());
    message.extend(libc::SCM_TXTIME.to_ne_bytes());
    message.extend(ns.to_ne_bytes());
    message
}

/// What comes out until told to stop, with the kernel's time of its arrival.
fn collect(fd: &OwnedFd, stop: &AtomicBool) -> io::Result<Vec<(u64, Left)>> {
    let mut all = Vec::new();
    sniff::collect(fd, stop, &mut |seen| all.extend(frames::left(seen.frame).map(|left| (seen.at, left))))?;
    Ok(all)
}

/// The counts of all disciplines of the sender's interface.
fn counts(a: &Host) -> Result<Vec<BTreeMap<String, u64>>, String> {
    let text = a.command("tc -s -j qdisc show dev va")?;
    let queues: Value = serde_json::from_str(&text).map_err(|e| format!("tc's JSON: {e}"))?;
    let counts = |q: &Value| -> BTreeMap<String, u64> {
        q.as_object()
            .into_iter()
            .flatten()
            .filter_map(|(name, n)| Some((name.clone(), n.as_u64()?)))
            .collect()
    };
    Ok(queues.as_array().into_iter().flatten().map(counts).collect())
}
