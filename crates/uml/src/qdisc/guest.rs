//! The guest's half: two hosts, the disciplines by `tc`, frames from a packet socket, and what comes out at the other end.
use super::cases::{Case, case};
use super::{Frame, Left, Outcome, frames};
use crate::hosts::Host;
use lowwater_core::base::Instant;
use lowwater_os::Link;
use lowwater_os::socket::{self, Address, Buffer};
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
/// ETH_P_ALL in network order.
const EVERY_PROTOCOL: u16 = (libc::ETH_P_ALL as u16).to_be();
/// PACKET_IGNORE_OUTGOING of linux/if_packet.h.
const PACKET_IGNORE_OUTGOING: i32 = 23;
const NS_PER_S: u64 = 1_000_000_000;

/// Runs the cases that `names` lists, separated by commas, and prints a line for each.
///
/// # Errors
/// What went wrong, in a sentence.
pub fn guest(names: &str) -> Result<(), String> {
    for name in names.split(',') {
        let case = case(name).ok_or_else(|| format!("there is no case {name}"))?;
        let outcome = run(case).map_err(|why| format!("{name}: {why}"))?;
        println!("{}", outcome.to_json());
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
        let mut looks = 0;
        let counts = loop {
            thread::sleep(SILENCE);
            let counts = counts(&a)?;
            looks += 1;
            if counts.first().and_then(|c| c.get("qlen")) == Some(&0) || looks == LOOKS_MAX {
                break counts;
            }
        };
        thread::sleep(SILENCE);
        stop.store(true, Ordering::Relaxed);
        let left =
            sink.join().map_err(|_| "the receiver panicked")?.map_err(|e| format!("receiving: {e}"))?;
        let handed = handed?;
        let start = handed.first().copied().unwrap_or_default();
        let handed_ns = handed.iter().map(|at| at - start).collect();
        let left = left.into_iter().map(|(at, left)| (at.saturating_sub(start), left)).collect();
        Ok(Outcome { handed_ns, left, counts })
    })
}

fn open(interface: &str, protocol: u16) -> io::Result<OwnedFd> {
    let link = Link::by_name(interface).map_err(|e| io::Error::other(e.to_string()))?;
    let fd = socket::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0)?;
    let option = |level, name, value: i32| {
        socket::setsockopt(Some(fd.as_fd()), level, name, Some(&value.to_ne_bytes()), 4)
    };
    option(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    option(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
    option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 8 << 20)?;
    option(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 64 << 20)?;
    option(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    let txtime = [libc::CLOCK_MONOTONIC.to_ne_bytes(), 0_u32.to_ne_bytes()].concat();
    socket::setsockopt(Some(fd.as_fd()), libc::SOL_SOCKET, libc::SO_TXTIME, Some(&txtime), 8)?;
    let mut address = [0; 20];
    address[..2].copy_from_slice(&(libc::AF_PACKET as u16).to_ne_bytes());
    address[2..4].copy_from_slice(&protocol.to_ne_bytes());
    address[4..8].copy_from_slice(&link.index().to_ne_bytes());
    socket::bind(Some(fd.as_fd()), Address::Bytes(&address))?;
    Ok(fd)
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
    while !stop.load(Ordering::Relaxed) {
        let (readable, _) = socket::poll(&[Some((Some(fd.as_fd()), libc::POLLIN))], 50)?;
        if readable == 0 {
            continue;
        }
        let mut buffers = [Buffer::Bytes(vec![0; 70_000])];
        let got = socket::recv(Some(fd.as_fd()), &mut buffers, 0, 64)?;
        let [Buffer::Bytes(bytes)] = &buffers else { continue };
        let frame = bytes.get(lowwater_wire::vnet_hdr::LEN..got.len).unwrap_or(&[]);
        if let Some(left) = frames::left(frame) {
            all.push((stamp(&got.control).unwrap_or_default(), left));
        }
    }
    Ok(all)
}

/// Nanoseconds in the control message SCM_TIMESTAMPNS.
fn stamp(control: &[u8]) -> Option<u64> {
    let word = |at: usize| Some(u64::from_ne_bytes(control.get(at..at + 8)?.try_into().ok()?));
    Some(word(16)? * NS_PER_S + word(24)?)
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
