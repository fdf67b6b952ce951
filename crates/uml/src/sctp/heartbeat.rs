//! sctp-heartbeat (E5) on Linux: when the busy and the idle one of two paths have HEARTBEATs, seen where they arrive.
use super::{Shared, Variant, talk, world};
use crate::job::Measured;
use crate::sniff::{self, EVERY_PROTOCOL, NS_PER_S, Sniffed};
use lowwater_os::Clock;
use rustix::fd::OwnedFd;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) const VARIANTS: &[Variant] = &[
    Variant { name: "5ms", sets: &[("hb_interval", "500")], every: Duration::from_millis(5) },
    Variant { name: "20ms", sets: &[], every: Duration::from_millis(20) },
];
/// HEARTBEAT (RFC 9260 section 3.3.5).
const HEARTBEAT: u8 = 4;

pub(crate) fn run(name: &str, times: (f64, f64)) -> Result<Measured, String> {
    let variant = Variant::by_name(VARIANTS, name)?;
    let (a, b) = world(variant)?;
    let (clock, shared) = (Clock::start(), Shared::default());
    let sniff =
        |name: &str| b.run(|| sniff::open(name, EVERY_PROTOCOL)).map_err(|e| format!("a packet socket: {e}"));
    let packets = [sniff("vb0")?, sniff("vb1")?];
    let (_, beats) = talk((&a, &b), (variant.every, times.0 + times.1), &shared, &clock, || {
        thread::sleep(Duration::from_secs_f64(times.0));
        watch(&packets, Duration::from_secs_f64(times.1)).map_err(|e| format!("watching: {e}"))
    })?;
    let mut figures = reckon(&beats);
    figures.extend(shared.account(|account| account.figures()));
    Ok(figures)
}

/// When HEARTBEATs arrived by each path in this time, in seconds. What came before waits in the sockets, with its time.
fn watch(packets: &[OwnedFd; 2], measured: Duration) -> io::Result<[Vec<f64>; 2]> {
    let begin = wall_clock();
    let stop = AtomicBool::new(false);
    let heard = |fd| {
        let mut beats = Vec::new();
        let mut hear = |seen: &Sniffed<'_>| {
            let counts = seen.at >= begin && is_heartbeat(seen.frame);
            beats.extend(counts.then_some(seen.at as f64 / NS_PER_S as f64));
        };
        sniff::collect(fd, &stop, &mut hear).map(|()| beats)
    };
    thread::scope(|s| {
        let [busy, idle] = packets.each_ref().map(|fd| s.spawn(|| heard(fd)));
        thread::sleep(measured);
        stop.store(true, Ordering::Relaxed);
        let joined = |listener: ScopedJoinHandle<'_, io::Result<Vec<f64>>>| {
            listener.join().unwrap_or_else(|_| Err(io::Error::other("a listener panicked")))
        };
        Ok([joined(busy)?, joined(idle)?])
    })
}

/// Nanoseconds of the clock that the kernel stamps packets by.
fn wall_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// The first chunk of an Ethernet frame's SCTP packet over IPv4 is a HEARTBEAT.
fn is_heartbeat(frame: &[u8]) -> bool {
    /// Bytes of Ethernet's header and of SCTP's.
    const ETHERNET: usize = 14;
    const COMMON: usize = 12;
    let packet = frame.get(ETHERNET..).unwrap_or_default();
    let first = packet.first().map(|b| usize::from(b & 0xf) * 4 + COMMON).and_then(|at| packet.get(at));
    packet.get(9) == Some(&(libc::IPPROTO_SCTP as u8)) && first == Some(&HEARTBEAT)
}

/// As the lab reckons (`SctpHeartbeat` of the simulator).
fn reckon([busy, idle]: &[Vec<f64>; 2]) -> Measured {
    let gaps = idle.windows(2).map(|pair| pair[1] - pair[0]);
    let mut figures = vec![("heartbeats_busy", busy.len() as f64), ("heartbeats_idle", idle.len() as f64)];
    if idle.len() > 1 {
        figures.push(("idle_gap_s_min", gaps.clone().fold(f64::INFINITY, f64::min)));
        figures.push(("idle_gap_s_max", gaps.fold(0.0, f64::max)));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_are_told_from_other_chunks() {
        let frame = |protocol: u8, chunk: u8| {
            let mut frame = vec![0; 50];
            (frame[14], frame[23], frame[46]) = (0x45, protocol, chunk);
            frame
        };
        assert!(is_heartbeat(&frame(132, 4)));
        assert!(!is_heartbeat(&frame(132, 0)) && !is_heartbeat(&frame(6, 4)));
        assert!(!is_heartbeat(&frame(132, 4)[..46]) && !is_heartbeat(&[]));
    }

    #[test]
    fn gaps_are_those_of_the_idle_path() {
        let figures = reckon(&[vec![1.5], vec![1.0, 2.0, 4.0]]);
        let of = |name| figures.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
        assert_eq!((of("heartbeats_busy"), of("heartbeats_idle")), (Some(1.0), Some(3.0)));
        assert_eq!((of("idle_gap_s_min"), of("idle_gap_s_max")), (Some(1.0), Some(2.0)));
    }
}
