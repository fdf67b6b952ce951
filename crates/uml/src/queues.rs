//! E2 on Linux: one bulk flow through a bottleneck at its own host's door, and a probe through the same queue.
use crate::hosts::Host;
use crate::job::Measured;
use lowwater_os::Clock;
use rustix::net::sockopt;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The receiver's address and port, for TCP and for the probes.
const SINK: &str = "10.0.0.2:5001";
/// Time between probes, and between looks at the queue.
const PROBE: Duration = Duration::from_millis(50);
/// After this long a probe counts as lost.
const LOST: Duration = Duration::from_secs(2);

/// One way to run it.
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    rate_mbit: u64,
    cap: &'static str,
    /// The queue takes packets from their owners on entry, so that small queues see none ("before").
    orphaned: bool,
    /// Super-packets stay whole until they leave.
    whole: bool,
}

const fn variant(name: &'static str, rate_mbit: u64, cap: &'static str) -> Variant {
    Variant { name, rate_mbit, cap, orphaned: false, whole: true }
}

/// tcp_limit_output_bytes by default, and in the seed's time.
const DEFAULT_CAP: &str = "1048576";
const SEED_CAP: &str = "131072";

pub(crate) const VARIANTS: &[Variant] = &[
    variant("tsq-1gbit", 1_000, DEFAULT_CAP),
    variant("tsq-131072-1gbit", 1_000, SEED_CAP),
    // The same here as without "tbf": a bucket is the only line that this Linux has.
    variant("tsq-tbf-1gbit", 1_000, DEFAULT_CAP),
    Variant { orphaned: true, ..variant("off-1gbit", 1_000, DEFAULT_CAP) },
    Variant { orphaned: true, whole: false, ..variant("off-segments-1gbit", 1_000, DEFAULT_CAP) },
    variant("tsq-100mbit", 100, DEFAULT_CAP),
    variant("tsq-131072-100mbit", 100, SEED_CAP),
    variant("tsq-tbf-100mbit", 100, DEFAULT_CAP),
    Variant { orphaned: true, ..variant("off-100mbit", 100, DEFAULT_CAP) },
    Variant { orphaned: true, whole: false, ..variant("off-segments-100mbit", 100, DEFAULT_CAP) },
];

fn world(variant: &Variant) -> Result<(Host, Host), String> {
    let (a, b) = (Host::new()?, Host::new()?);
    a.link(("va", "10.0.0.1/24"), &b, ("vb", "10.0.0.2/24"))?;
    a.set("tcp_limit_output_bytes", variant.cap)?;
    if !variant.whole {
        a.command("ip link set va gso_max_segs 1")?;
    }
    a.command(&format!(
        "tc qdisc add dev va root handle 1: tbf rate {}mbit burst 68000 limit 100000000",
        variant.rate_mbit
    ))?;
    // Netem with a delay lets go of the packets' owners on entry.
    let child = if variant.orphaned { "netem delay 1us limit 1000" } else { "pfifo limit 1000" };
    a.command(&format!("tc qdisc add dev va parent 1:1 handle 2: {child}"))?;
    Ok((a, b))
}

pub(crate) fn run(name: &str, seconds: (f64, f64)) -> Result<Measured, String> {
    let variant = VARIANTS.iter().find(|v| v.name == name).ok_or("no such variant")?;
    let (a, b) = world(variant)?;
    let stop = Arc::new(AtomicBool::new(false));
    let received = Arc::new(AtomicU64::new(0));
    let listener = b.run(|| TcpListener::bind(SINK)).map_err(|e| format!("listening: {e}"))?;
    let echo = b.run(|| UdpSocket::bind(SINK)).map_err(|e| format!("the echo: {e}"))?;
    let probe = a.run(connect_probe).map_err(|e| format!("the probe: {e}"))?;
    let flow = a.run(connect).map_err(|e| format!("connecting: {e}"))?;
    let (peer, _) = listener.accept().map_err(|e| format!("accepting: {e}"))?;
    thread::scope(|s| {
        s.spawn(|| write(flow, &stop));
        s.spawn(|| drain(peer, &received));
        s.spawn(|| answer(&echo, &stop));
        let seen = observe(&a, &probe, &received, seconds);
        stop.store(true, Ordering::Relaxed);
        seen
    })
}

fn connect_probe() -> io::Result<UdpSocket> {
    let probe = UdpSocket::bind("0.0.0.0:0")?;
    probe.connect(SINK)?;
    probe.set_read_timeout(Some(LOST))?;
    Ok(probe)
}

fn connect() -> io::Result<TcpStream> {
    let stream = TcpStream::connect(SINK)?;
    sockopt::set_tcp_congestion(&stream, "cubic")?;
    stream.set_write_timeout(Some(PROBE))?;
    Ok(stream)
}

/// Writes as much as goes until told to stop.
fn write(mut stream: TcpStream, stop: &AtomicBool) {
    let data = vec![0; 262_144];
    while !stop.load(Ordering::Relaxed) {
        match stream.write(&data) {
            Ok(_) => {}
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => return,
        }
    }
    // A reset: nobody waits for what is still queued.
    let _ = sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
}

fn drain(mut stream: TcpStream, received: &AtomicU64) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        received.fetch_add(n as u64, Ordering::Relaxed);
    }
}

/// Sends each probe back.
fn answer(echo: &UdpSocket, stop: &AtomicBool) {
    let mut buffer = [0; 64];
    let _ = echo.set_read_timeout(Some(PROBE));
    while !stop.load(Ordering::Relaxed) {
        if let Ok((n, from)) = echo.recv_from(&mut buffer) {
            let _ = echo.send_to(&buffer[..n], from);
        }
    }
}

/// Looks at the queue and sends a probe every 50 ms, and reckons after the warm-up.
fn observe(
    a: &Host,
    probe: &UdpSocket,
    received: &AtomicU64,
    seconds: (f64, f64),
) -> Result<Measured, String> {
    let clock = Clock::start();
    let now = || clock.now().as_nanos() as f64 / 1e9;
    let (mut backlogs, mut probes) = (Vec::new(), Vec::new());
    let mut begun = None;
    while now() < seconds.0 + seconds.1 {
        let tick = now();
        if tick >= seconds.0 {
            begun.get_or_insert((tick, received.load(Ordering::Relaxed)));
            backlogs.push(a.backlog("va")?);
            probes.extend(round_trip(probe, &clock));
        }
        thread::sleep(PROBE.saturating_sub(Duration::from_secs_f64(now() - tick)));
    }
    let (from, bytes) = begun.ok_or("no time to measure")?;
    let bits = (received.load(Ordering::Relaxed) - bytes) as f64 * 8.0;
    backlogs.sort_by(f64::total_cmp);
    probes.sort_by(f64::total_cmp);
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len().max(1) as f64;
    let last = |v: &[f64]| v.last().copied().unwrap_or_default();
    Ok(vec![
        ("goodput_mbps", bits / (now() - from) / 1e6),
        ("backlog_bytes_mean", mean(&backlogs)),
        ("backlog_bytes_p95", backlogs.get(backlogs.len() * 95 / 100).copied().unwrap_or_default()),
        ("backlog_bytes_max", last(&backlogs)),
        ("probe_rtt_ms_min", probes.first().copied().unwrap_or_default()),
        ("probe_rtt_ms_mean", mean(&probes)),
        ("probe_rtt_ms_max", last(&probes)),
    ])
}

/// Milliseconds there and back; nothing when the probe was lost.
fn round_trip(probe: &UdpSocket, clock: &Clock) -> Option<f64> {
    let sent = clock.now();
    let stamp = sent.as_nanos().to_be_bytes();
    probe.send(&stamp).ok()?;
    let mut answer = [0; 8];
    // What an earlier probe left behind is not this one's answer.
    while probe.recv(&mut answer).ok()? != 8 || answer != stamp {}
    Some(clock.now().nanos_since(sent) as f64 / 1e6)
}
