//! E1 on Linux: writers that never stop behind a router's queue, told by edges when there is room.
use crate::hosts::{Host, Line};
use crate::job::Measured;
use crate::run::Run;
use crate::settings;
use crate::shape::Shape;
use lowwater_os::{Clock, Interest, Poller, socket};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Where the receiver listens.
pub(crate) const PORT: u16 = 5_001;
/// MTU of all links.
pub(crate) const MTU: u32 = 1_500;
/// Time between the starts of two flows, and between looks at all of them: a look takes the guest a while.
const STAGGER: Duration = Duration::from_millis(10);
const LOOK: Duration = Duration::from_millis(200);

/// The run in the guest's words.
pub(crate) struct Setup {
    flows: usize,
    /// TCP_NOTSENT_LOWAT of each; 0 for none.
    lowat: u32,
    /// SO_SNDBUF as set; 0 lets buffers tune themselves.
    sndbuf: usize,
    /// Bytes of a write.
    write: usize,
    rtt: Duration,
    gso_max_segs: u32,
    /// What stands before the sender's device and the router's.
    own: Shape,
    router: Shape,
}

impl Setup {
    pub(crate) fn of(run: &Run) -> Result<Self, String> {
        settings::check(run)?;
        let mtu = f64::from(MTU);
        let router = match run.words("router")? {
            "none" => Shape::line(run.number("rate_mbps")?, run.number("queue_bytes")?, mtu),
            words => Shape::discipline(words, mtu)?,
        };
        Ok(Self {
            flows: run.number("flows")? as usize,
            lowat: run.number("lowat")? as u32,
            sndbuf: run.number("sndbuf")? as usize,
            write: run.number("write_bytes")? as usize,
            rtt: run.ms("rtt_ms")?,
            gso_max_segs: run.number("gso_max_segs")? as u32,
            own: Shape::discipline(run.words("qdisc")?, mtu)?,
            router,
        })
    }

    /// Bytes that the guest carries in so many seconds, and bytes that its sockets may hold.
    pub(crate) fn load(&self, seconds: f64) -> (f64, f64) {
        let mbps = self.own.mbps().min(self.router.mbps());
        (carried(mbps, seconds), 2.0 * self.sndbuf as f64 * self.flows as f64)
    }
}

/// Mbit/s that a guest without a bottleneck carries.
const UNBOUND_MBPS: f64 = 5_000.0;

/// Bytes at so many Mbit/s, or at as many as can be.
pub(crate) const fn carried(mbps: f64, seconds: f64) -> f64 {
    mbps.min(UNBOUND_MBPS) * 1e6 / 8.0 * seconds
}

pub(crate) fn run(run: &Run) -> Result<Measured, String> {
    let setup = Setup::of(run)?;
    let Line { a, r, b } = Line::new(setup.rtt, MTU)?;
    settings::apply(&[&a, &b], run)?;
    a.command(&format!("ip link set va gso_max_segs {}", setup.gso_max_segs))?;
    setup.own.put(&a, "va")?;
    setup.router.put(&r, "rb")?;
    let listener = b.run(|| TcpListener::bind((Line::FAR, PORT))).map_err(|e| format!("listening: {e}"))?;
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|s| {
        let sink = s.spawn(|| drain(&listener, setup.flows, &stop, &received));
        let seen = write(&setup, (&a, &r), run.seconds(), &received);
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
pub(crate) fn open(set: impl FnOnce(&OwnedFd) -> rustix::io::Result<()>) -> io::Result<TcpStream> {
    let kind = (AddressFamily::INET, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC);
    let socket = socket_with(kind.0, kind.1, kind.2, None)?;
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
    srtt_ms: f64,
}

impl Seen {
    fn look(&mut self, a: &Host, r: &Host, flows: usize) -> Result<(), String> {
        let text = a.command(&format!("ss -tminHO dst {}", Line::FAR))?;
        // `w` of skmem is sk_wmem_queued; zeros are not shown.
        let sum = |name: &str, scale: &dyn Fn(&str) -> f64| -> f64 {
            let of = |line: &str| {
                let value = line.split([' ', ',', '(', '/']).find_map(|word| word.strip_prefix(name))?;
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
        self.srtt_ms += sum("rtt:", &|_| 1.0);
        self.backlog += r.backlog("rb")?;
        Ok(())
    }
}

/// Counters of the sender that grow: retransmitted segments, packets, segments, and what came in.
fn counts(a: &Host) -> Result<[f64; 4], String> {
    let of = |group, name| a.counter(group, name).map(|n| n as f64);
    let retrans = of("Tcp", "RetransSegs")?;
    Ok([retrans, of("Ip", "OutRequests")?, of("Tcp", "OutSegs")? + retrans, of("Tcp", "InSegs")?])
}

/// What had been when measuring began.
struct Before {
    at: Duration,
    wakes: u64,
    received: u64,
    counts: [f64; 4],
}

/// Starts the flows, writes on each edge and looks; reckons after the warm-up.
fn write(
    setup: &Setup,
    (a, r): (&Host, &Host),
    seconds: (f64, f64),
    received: &AtomicU64,
) -> Result<Measured, String> {
    let failed = |e: io::Error| format!("writing: {e}");
    let (warm, end) = (Duration::from_secs_f64(seconds.0), Duration::from_secs_f64(seconds.0 + seconds.1));
    let clock = Clock::start();
    let now = || Duration::from_nanos(clock.now().as_nanos());
    let mut poller = Poller::new().map_err(failed)?;
    let (mut flows, mut ready, data) = (Vec::<TcpStream>::new(), Vec::new(), vec![0; setup.write]);
    let (mut seen, mut wakes, mut next_look, mut before) = (Seen::default(), 0u64, warm, None);
    while now() < end {
        while flows.len() < setup.flows && now() >= STAGGER * flows.len() as u32 {
            let flow = a.run(|| open(|socket| prepare(socket, setup))).map_err(failed)?;
            poller.add(&flow, flows.len() as u64, Interest::Returns).map_err(failed)?;
            flows.push(flow);
        }
        if now() >= next_look {
            next_look = now() + LOOK;
            if before.is_none() {
                let received = received.load(Ordering::Relaxed);
                before = Some(Before { at: now(), wakes, received, counts: counts(a)? });
            }
            seen.look(a, r, setup.flows)?;
        }
        let start = if flows.len() < setup.flows { STAGGER * flows.len() as u32 } else { end };
        let wait = start.min(next_look).min(end).saturating_sub(now());
        ready.clear();
        poller.wait_for(Some(wait), &mut ready).map_err(failed)?;
        for token in ready.iter().map(|r| r.token) {
            let Some(flow) = usize::try_from(token).ok().and_then(|i| flows.get_mut(i)) else { continue };
            wakes += 1;
            while flow.write(&data).is_ok() {}
        }
    }
    let (at, bytes, after) = (now(), received.load(Ordering::Relaxed), counts(a)?);
    // Resets: the next variant needs the memory.
    for flow in &flows {
        sockopt::set_socket_linger(flow, Some(Duration::ZERO)).map_err(|e| failed(e.into()))?;
    }
    let before = before.ok_or("no time to measure")?;
    let mb = (bytes - before.received) as f64 / 1e6;
    let (mean, grown) = (|sum: f64| sum / seen.looks, |i: usize| after[i] - before.counts[i]);
    Ok(vec![
        ("goodput_mbps", mb * 8.0 / (at - before.at).as_secs_f64()),
        ("queued_bytes_per_flow", mean(seen.queued)),
        ("unsent_bytes_per_flow", mean(seen.unsent)),
        ("in_flight_bytes_per_flow", mean(seen.in_flight)),
        ("writable_events_per_mb", (wakes - before.wakes) as f64 / mb),
        ("acks_per_mb", grown(3) / mb),
        ("backlog_bytes_mean", mean(seen.backlog)),
        ("srtt_ms", mean(seen.srtt_ms)),
        ("retrans_segs", grown(0)),
        ("segs_per_packet", grown(2) / grown(1).max(1.0)),
    ])
}

/// TCP_NOTSENT_LOWAT of linux/tcp.h.
const TCP_NOTSENT_LOWAT: i32 = 25;

/// Sets the options of a flow.
fn prepare(socket: &OwnedFd, setup: &Setup) -> rustix::io::Result<()> {
    if setup.sndbuf > 0 {
        sockopt::set_socket_send_buffer_size_force(socket, setup.sndbuf)?;
    }
    if setup.lowat == 0 {
        return Ok(());
    }
    let value = setup.lowat.to_ne_bytes();
    socket::setsockopt(Some(socket.as_fd()), libc::IPPROTO_TCP, TCP_NOTSENT_LOWAT, Some(&value), 4)
        .map_err(|e| rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::IO))
}
