//! E1 on Linux: writers that never stop behind a router's queue, told by edges when there is room.
use crate::hosts::{Host, Line, set_for_all};
use crate::job::Measured;
use lowwater_os::{Clock, Interest, Poller};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Where the receiver listens.
pub(crate) const PORT: u16 = 5_001;
/// Bytes of a write.
pub(crate) const WRITE: usize = 262_144;
/// Time between the starts of two flows, and between looks at all of them: a look takes the guest a while.
const STAGGER: Duration = Duration::from_millis(10);
const LOOK: Duration = Duration::from_millis(200);
/// `tcp_mem` that bounds nothing, and that of a guest of 512 MiB.
const ROOMY: &str = "4000000 4000000 4000000";
const SHORT: &str = "5700 7601 11400";

/// One way to run it.
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    congestion: &'static str,
    flows: usize,
    queue_bytes: u32,
    /// SO_SNDBUF as set; 0 lets buffers tune themselves.
    sndbuf: usize,
    /// TCP_NOTSENT_LOWAT; 0 for none.
    lowat: u32,
    tcp_mem: &'static str,
}

const fn ten(name: &'static str, congestion: &'static str, queue_bytes: u32, lowat: u32) -> Variant {
    Variant { name, congestion, flows: 10, queue_bytes, sndbuf: 4_000_000, lowat, tcp_mem: ROOMY }
}

const fn hundred(name: &'static str, lowat: u32, tcp_mem: &'static str) -> Variant {
    Variant { name, congestion: "bbr", flows: 100, queue_bytes: 10_000_000, sndbuf: 0, lowat, tcp_mem }
}

pub(crate) const VARIANTS: &[Variant] = &[
    ten("cubic-unset", "cubic", 2_500_000, 0),
    ten("cubic-262144", "cubic", 2_500_000, 262_144),
    ten("bbr-unset", "bbr", 10_000_000, 0),
    ten("bbr-262144", "bbr", 10_000_000, 262_144),
    hundred("bbr-100-unset", 0, ROOMY),
    hundred("bbr-100-131072", 131_072, ROOMY),
    hundred("bbr-100-unset-512mib", 0, SHORT),
    hundred("bbr-100-131072-512mib", 131_072, SHORT),
];

pub(crate) fn run(name: &str, seconds: (f64, f64)) -> Result<Measured, String> {
    let variant = VARIANTS.iter().find(|v| v.name == name).ok_or("no such variant")?;
    let Line { a, r, b } = Line::new(100)?;
    set_for_all("ipv4/tcp_mem", variant.tcp_mem)?;
    set_for_all("core/wmem_max", "8000000")?;
    a.set("tcp_wmem", "4096 262144 64000000")?;
    if variant.lowat > 0 {
        a.set("tcp_notsent_lowat", &variant.lowat.to_string())?;
    }
    r.command(&format!(
        "tc qdisc add dev rb root tbf rate 200mbit burst 68000 limit {}",
        variant.queue_bytes
    ))?;
    let listener = b.run(|| TcpListener::bind((Line::FAR, PORT))).map_err(|e| format!("listening: {e}"))?;
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|s| {
        let sink = s.spawn(|| drain(&listener, variant.flows, &stop, &received));
        let seen = write(variant, (&a, &r), seconds, &received);
        stop.store(true, Ordering::Relaxed);
        sink.join().map_err(|_| "the receiver panicked")?.map_err(|e| format!("receiving: {e}"))?;
        seen
    })
}

/// Reads whatever comes on all connections until told to stop.
pub(crate) fn drain(
    listener: &TcpListener,
    flows: usize,
    stop: &AtomicBool,
    received: &AtomicU64,
) -> io::Result<()> {
    let mut poller = Poller::new()?;
    poller.add(listener, flows as u64, Interest::Read)?;
    let (mut streams, mut ready, mut buffer) = (Vec::<TcpStream>::new(), Vec::new(), vec![0; 1 << 20]);
    while !stop.load(Ordering::Relaxed) {
        ready.clear();
        poller.wait_for(Some(LOOK), &mut ready)?;
        for token in ready.iter().map(|r| r.token) {
            if token == flows as u64 {
                let (stream, _) = listener.accept()?;
                poller.add(&stream, streams.len() as u64, Interest::Read)?;
                streams.push(stream);
            } else if let Some(stream) = usize::try_from(token).ok().and_then(|i| streams.get_mut(i)) {
                // At the end flows are reset.
                let n = stream.read(&mut buffer).unwrap_or(0);
                received.fetch_add(n as u64, Ordering::Relaxed);
                if n == 0 {
                    poller.remove(&*stream)?;
                }
            }
        }
    }
    Ok(())
}

/// One flow, on its way to be connected; `set` sets its options.
pub(crate) fn open(
    congestion: &str,
    set: impl FnOnce(&OwnedFd) -> rustix::io::Result<()>,
) -> io::Result<TcpStream> {
    let kind = (AddressFamily::INET, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC);
    let socket = socket_with(kind.0, kind.1, kind.2, None)?;
    sockopt::set_tcp_congestion(&socket, congestion)?;
    set(&socket)?;
    match connect(&socket, &SocketAddrV4::new(Ipv4Addr::new(10, 0, 1, 2), PORT)) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(e) => Err(e.into()),
    }
}

/// What was seen of all flows, and of the router's queue.
#[derive(Default)]
struct Seen {
    looks: f64,
    queued: f64,
    unsent: f64,
    in_flight: f64,
    backlog: f64,
}

impl Seen {
    fn look(&mut self, a: &Host, r: &Host, flows: usize) -> Result<(), String> {
        let text = a.command(&format!("ss -tminHO dst {}", Line::FAR))?;
        // `w` of skmem is sk_wmem_queued; zeros are not shown.
        let sum = |name: &str, scale: &dyn Fn(&str) -> f64| -> f64 {
            let of = |line: &str| {
                let value = line.split([' ', ',', '(']).find_map(|word| word.strip_prefix(name))?;
                Some(value.parse::<f64>().ok()? * scale(line))
            };
            text.lines().filter_map(of).sum::<f64>() / flows as f64
        };
        let mss = |line: &str| {
            line.split(' ').find_map(|word| word.strip_prefix("mss:")?.parse().ok()).unwrap_or_default()
        };
        self.looks += 1.0;
        self.queued += sum("w", &|_| 1.0);
        self.unsent += sum("notsent:", &|_| 1.0);
        self.in_flight += sum("unacked:", &mss);
        self.backlog += r.backlog("rb")?;
        Ok(())
    }
}

/// Starts the flows, writes on each edge and looks; reckons after the warm-up.
fn write(
    variant: &Variant,
    (a, r): (&Host, &Host),
    seconds: (f64, f64),
    received: &AtomicU64,
) -> Result<Measured, String> {
    let failed = |e: io::Error| format!("writing: {e}");
    let (warm, end) = (Duration::from_secs_f64(seconds.0), Duration::from_secs_f64(seconds.0 + seconds.1));
    let clock = Clock::start();
    let now = || Duration::from_nanos(clock.now().as_nanos());
    let mut poller = Poller::new().map_err(failed)?;
    let (mut flows, mut ready, data) = (Vec::<TcpStream>::new(), Vec::new(), vec![0; WRITE]);
    let (mut seen, mut wakes, mut next_look, mut before) = (Seen::default(), 0u64, warm, None);
    while now() < end {
        while flows.len() < variant.flows && now() >= STAGGER * flows.len() as u32 {
            let sndbuf = variant.sndbuf;
            let set = |socket: &OwnedFd| match sndbuf {
                0 => Ok(()),
                _ => sockopt::set_socket_send_buffer_size(socket, sndbuf),
            };
            let flow = a.run(|| open(variant.congestion, set)).map_err(failed)?;
            poller.add(&flow, flows.len() as u64, Interest::Returns).map_err(failed)?;
            flows.push(flow);
        }
        if now() >= next_look {
            next_look = now() + LOOK;
            let retrans = a.counter("Tcp", "RetransSegs")?;
            before.get_or_insert((now(), wakes, received.load(Ordering::Relaxed), retrans));
            seen.look(a, r, variant.flows)?;
        }
        let start = if flows.len() < variant.flows { STAGGER * flows.len() as u32 } else { end };
        let wait = start.min(next_look).min(end).saturating_sub(now());
        ready.clear();
        poller.wait_for(Some(wait), &mut ready).map_err(failed)?;
        for token in ready.iter().map(|r| r.token) {
            let Some(flow) = usize::try_from(token).ok().and_then(|i| flows.get_mut(i)) else { continue };
            wakes += 1;
            while flow.write(&data).is_ok() {}
        }
    }
    // Resets: the next variant needs the memory.
    for flow in &flows {
        sockopt::set_socket_linger(flow, Some(Duration::ZERO)).map_err(|e| failed(e.into()))?;
    }
    let (from, wakes_before, bytes, retrans) = before.ok_or("no time to measure")?;
    let mb = (received.load(Ordering::Relaxed) - bytes) as f64 / 1e6;
    let mean = |sum: f64| sum / seen.looks;
    Ok(vec![
        ("goodput_mbps", mb * 8.0 / (now() - from).as_secs_f64()),
        ("queued_bytes_per_flow", mean(seen.queued)),
        ("unsent_bytes_per_flow", mean(seen.unsent)),
        ("in_flight_bytes_per_flow", mean(seen.in_flight)),
        ("writable_events_per_mb", (wakes - wakes_before) as f64 / mb),
        ("backlog_bytes_mean", mean(seen.backlog)),
        ("retrans_segs", (a.counter("Tcp", "RetransSegs")? - retrans) as f64),
    ])
}
