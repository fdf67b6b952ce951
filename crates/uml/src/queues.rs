//! E2 on Linux: one bulk flow through a bottleneck at its own host's door, and a probe through the same queue.
use crate::hosts::Host;
use crate::job::Measured;
use crate::lowat::{MTU, carried};
use crate::run::Run;
use crate::settings;
use crate::shape::Shape;
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

/// The run in the guest's words.
pub(crate) struct Setup {
    gso_max_segs: u32,
    /// Bytes of a write.
    write: usize,
    /// The line, with what stands before it inside.
    shape: Shape,
}

impl Setup {
    pub(crate) fn of(run: &Run) -> Result<Self, String> {
        settings::check(run)?;
        if run.number("ring")? != 1.0 {
            return Err("a bucket takes one packet at a time (ring=1)".to_owned());
        }
        let (mtu, mbps) = (f64::from(MTU), run.number("rate_mbps")?);
        let inner = Shape::discipline(run.words("qdisc")?, mtu)?;
        Ok(Self {
            gso_max_segs: run.number("gso_max_segs")? as u32,
            write: run.number("write_bytes")? as usize,
            shape: Shape::line(mbps, 0.0, mtu).around(inner),
        })
    }

    /// Bytes that the guest carries in so many seconds, and bytes that its sockets may hold.
    pub(crate) fn load(&self, seconds: f64) -> (f64, f64) {
        (carried(self.shape.mbps(), seconds), 0.0)
    }
}

fn world(setup: &Setup, run: &Run) -> Result<(Host, Host), String> {
    let (a, b) = (Host::new()?, Host::new()?);
    a.link(("va", "10.0.0.1/24"), &b, ("vb", "10.0.0.2/24"))?;
    settings::apply(&[&a, &b], run)?;
    a.command(&format!("ip link set va gso_max_segs {}", setup.gso_max_segs))?;
    setup.shape.put(&a, "va")?;
    Ok((a, b))
}

pub(crate) fn run(run: &Run) -> Result<Measured, String> {
    let setup = Setup::of(run)?;
    let (a, b) = world(&setup, run)?;
    let stop = Arc::new(AtomicBool::new(false));
    let received = Arc::new(AtomicU64::new(0));
    let listener = b.run(|| TcpListener::bind(SINK)).map_err(|e| format!("listening: {e}"))?;
    let echo = b.run(|| UdpSocket::bind(SINK)).map_err(|e| format!("the echo: {e}"))?;
    let probe = a.run(connect_probe).map_err(|e| format!("the probe: {e}"))?;
    let flow = a.run(connect).map_err(|e| format!("connecting: {e}"))?;
    let (peer, _) = listener.accept().map_err(|e| format!("accepting: {e}"))?;
    thread::scope(|s| {
        s.spawn(|| write(flow, setup.write, &stop));
        s.spawn(|| drain(peer, &received));
        s.spawn(|| answer(&echo, &stop));
        let seen = observe(&a, &probe, &received, run.seconds());
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
    stream.set_write_timeout(Some(PROBE))?;
    Ok(stream)
}

/// Writes as much as goes until told to stop.
fn write(mut stream: TcpStream, bytes: usize, stop: &AtomicBool) {
    let data = vec![0; bytes];
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
    let count = |group, name| a.counter(group, name).map(|n| n as f64);
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
    // Of probes that never came back there is no time: no figure.
    let of_probes = |value: f64| if probes.is_empty() { f64::NAN } else { value };
    Ok(vec![
        ("goodput_mbps", bits / (now() - from) / 1e6),
        ("backlog_bytes_mean", mean(&backlogs)),
        ("backlog_bytes_p95", backlogs.get(backlogs.len() * 95 / 100).copied().unwrap_or_default()),
        ("backlog_bytes_max", last(&backlogs)),
        ("probe_rtt_ms_min", of_probes(probes.first().copied().unwrap_or_default())),
        ("probe_rtt_ms_mean", of_probes(mean(&probes))),
        ("probe_rtt_ms_max", of_probes(last(&probes))),
        ("retrans_segs", count("Tcp", "RetransSegs")?),
        // Of the whole run, probes included, as in the lab.
        (
            "segs_per_packet",
            (count("Tcp", "OutSegs")? + count("Tcp", "RetransSegs")?) / count("Ip", "OutRequests")?.max(1.0),
        ),
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
