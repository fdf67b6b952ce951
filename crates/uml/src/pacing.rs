//! E4 on Linux: flows held to a rate by SO_MAX_PACING_RATE or BBR, and when their packets leave the sender.
use crate::hosts::{Host, Line};
use crate::job::Measured;
use crate::lowat::{MTU, PORT, carried, drain, open};
use crate::run::Run;
use crate::settings;
use crate::shape::Shape;
use crate::sniff::{self, EVERY_PROTOCOL, NS_PER_S, Sniffed};
use lowwater_os::socket;
use lowwater_os::{Clock, Interest, Poller};
use lowwater_wire::{ether, ipv4::Ipv4View, tcp::TcpView};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Bytes of a write.
const WRITE: usize = 262_144;
/// The longest sleep of the writer.
const LOOK: Duration = Duration::from_millis(200);
/// The first segments of a flow are not paced.
const UNPACED_SEGS: u64 = 10;
/// Packets of a flow that are closer than this left back to back.
const BACK_TO_BACK: u64 = 100_000;

/// The run in the guest's words.
pub(crate) struct Setup {
    flows: u32,
    /// SO_MAX_PACING_RATE of each in bytes per second; 0 leaves it unset.
    rate: u64,
    rtt: Duration,
    /// Time over which the starts are spread.
    spread: Duration,
    own: Shape,
    router: Shape,
}

impl Setup {
    pub(crate) fn of(run: &Run) -> Result<Self, String> {
        settings::check(run)?;
        if run.words("switch")? != "none" {
            return Err(
                "Linux throws away what waits when a discipline takes another's place (switch)".to_owned()
            );
        }
        let mtu = f64::from(MTU);
        let router = match run.words("router")? {
            "none" => Shape::line(run.number("rate_mbps")?, run.number("queue_bytes")?, mtu),
            words => Shape::discipline(words, mtu)?,
        };
        Ok(Self {
            flows: run.number("flows")? as u32,
            rate: (run.number("pacing_mbps")? * 1e6 / 8.0) as u64,
            rtt: run.ms("rtt_ms")?,
            spread: run.ms("spread_ms")?,
            own: Shape::discipline(run.words("qdisc")?, mtu)?,
            router,
        })
    }

    /// Bytes that the guest carries in so many seconds, and bytes that its sockets may hold.
    pub(crate) fn load(&self, seconds: f64) -> (f64, f64) {
        let paced = match self.rate {
            0 => f64::INFINITY,
            rate => rate as f64 * 8.0 / 1e6 * f64::from(self.flows),
        };
        (carried(self.own.mbps().min(self.router.mbps()).min(paced), seconds), 0.0)
    }
}

pub(crate) fn run(run: &Run) -> Result<Measured, String> {
    let setup = Setup::of(run)?;
    let Line { a, r, b } = Line::new(setup.rtt, MTU)?;
    settings::apply(&[&a, &b], run)?;
    setup.own.put(&a, "va")?;
    setup.router.put(&r, "rb")?;
    let listener = b.run(|| TcpListener::bind((Line::FAR, PORT))).map_err(|e| format!("listening: {e}"))?;
    let sniffer = r.run(|| sniff::open("ra", EVERY_PROTOCOL)).map_err(|e| format!("a packet socket: {e}"))?;
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|s| {
        let sink = s.spawn(|| drain(&listener, setup.flows as usize, &stop, &received));
        let seen = s.spawn(|| {
            let mut seen = Seen::default();
            sniff::collect(&sniffer, &stop, &mut |sniffed| seen.frame(sniffed)).map(|()| seen)
        });
        let wrote = write(&setup, &a, run.seconds(), &received);
        stop.store(true, Ordering::Relaxed);
        sink.join().map_err(|_| "the receiver panicked")?.map_err(|e| format!("receiving: {e}"))?;
        let seen = seen.join().map_err(|_| "the sniffer panicked")?.map_err(|e| format!("looking: {e}"))?;
        Ok(seen.figures(&wrote?))
    })
}

/// What the writer knows of the measured time.
struct Wrote {
    /// Nanoseconds of the wall clock when it began and when it ended.
    from: u64,
    to: u64,
    received: u64,
    retrans: u64,
}

fn wall() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec as u64 * NS_PER_S + now.tv_nsec as u64
}

fn paced(socket: &OwnedFd, rate: u64) -> rustix::io::Result<()> {
    if rate == 0 {
        return Ok(());
    }
    let value = rate.to_ne_bytes();
    socket::setsockopt(Some(socket.as_fd()), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, Some(&value), 8)
        .map_err(|e| rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::IO))
}

/// Starts the flows and writes on each edge until the time is over.
fn write(setup: &Setup, a: &Host, seconds: (f64, f64), received: &AtomicU64) -> Result<Wrote, String> {
    let failed = |e: io::Error| format!("writing: {e}");
    let (warm, end) = (Duration::from_secs_f64(seconds.0), Duration::from_secs_f64(seconds.0 + seconds.1));
    let clock = Clock::start();
    let now = || Duration::from_nanos(clock.now().as_nanos());
    let totals =
        || Ok::<_, String>((wall(), received.load(Ordering::Relaxed), a.counter("Tcp", "RetransSegs")?));
    let mut poller = Poller::new().map_err(failed)?;
    let (mut flows, mut ready, data) = (Vec::<TcpStream>::new(), Vec::new(), vec![0; WRITE]);
    let mut before = None;
    while now() < end {
        let next = setup.spread * flows.len() as u32 / setup.flows;
        if flows.len() < setup.flows as usize && now() >= next {
            let flow = a.run(|| open(|s| paced(s, setup.rate))).map_err(failed)?;
            poller.add(&flow, flows.len() as u64, Interest::Returns).map_err(failed)?;
            flows.push(flow);
            continue;
        }
        if now() >= warm && before.is_none() {
            before = Some(totals()?);
        }
        let mark = if before.is_none() { warm } else { end };
        let mark = if flows.len() < setup.flows as usize { mark.min(next) } else { mark };
        ready.clear();
        poller.wait_for(Some(mark.saturating_sub(now()).min(LOOK)), &mut ready).map_err(failed)?;
        for token in ready.iter().map(|r| r.token) {
            let Some(flow) = usize::try_from(token).ok().and_then(|i| flows.get_mut(i)) else { continue };
            while flow.write(&data).is_ok() {}
        }
    }
    let (before, after) = (before.ok_or("no time to measure")?, totals()?);
    // Resets: the next variant needs the memory.
    for flow in &flows {
        rustix::net::sockopt::set_socket_linger(flow, Some(Duration::ZERO)).map_err(|e| failed(e.into()))?;
    }
    Ok(Wrote { from: before.0, to: after.0, received: after.1 - before.1, retrans: after.2 - before.2 })
}

/// A packet of data as it left.
struct Packet {
    at: u64,
    port: u16,
    bytes: u64,
    segs: u64,
}

#[derive(Default)]
struct Seen {
    packets: Vec<Packet>,
}

/// A flow as its packets come by.
#[derive(Clone, Copy, Default)]
struct Flow {
    segs: u64,
    last: Option<u64>,
    burst: u64,
}

impl Seen {
    fn frame(&mut self, sniffed: &Sniffed<'_>) {
        let Some(Ok(ip)) = sniffed.frame.get(ether::HEADER_LEN..).map(Ipv4View::parse_quoted) else { return };
        let Ok(tcp) = TcpView::parse(ip.payload()) else { return };
        let bytes = tcp.payload().len() as u64;
        if bytes == 0 || tcp.dst_port() != PORT {
            return;
        }
        let segs = if sniffed.gso_size == 0 { 1 } else { bytes.div_ceil(u64::from(sniffed.gso_size)) };
        self.packets.push(Packet { at: sniffed.at, port: tcp.src_port(), bytes, segs });
    }

    /// Figures as the lab reckons them.
    fn figures(&self, wrote: &Wrote) -> Measured {
        let (mut flows, mut gaps, mut burst) = (BTreeMap::<u16, Flow>::new(), Vec::new(), 0);
        let (mut packets, mut segs) = (0_u64, 0_u64);
        for packet in self.packets.iter().filter(|p| p.at < wrote.to) {
            let measured = packet.at >= wrote.from;
            packets += u64::from(measured);
            segs += if measured { packet.segs } else { 0 };
            let flow = flows.entry(packet.port).or_default();
            let first = flow.segs < UNPACED_SEGS;
            flow.segs += packet.segs;
            if first {
                continue;
            }
            let gap = flow.last.replace(packet.at).map(|last| packet.at.saturating_sub(last));
            flow.burst =
                if gap.is_some_and(|gap| gap < BACK_TO_BACK) { flow.burst } else { 0 } + packet.bytes;
            if measured {
                burst = burst.max(flow.burst);
                gaps.extend(gap);
            }
        }
        gaps.sort_unstable();
        let rank = |percent: usize| {
            let rank = (gaps.len() * percent).div_ceil(100).max(1) - 1;
            gaps.get(rank).map_or(0.0, |gap| *gap as f64 / 1e3)
        };
        let elapsed = (wrote.to - wrote.from) as f64 / 1e9;
        let close = gaps.partition_point(|gap| *gap < BACK_TO_BACK);
        vec![
            ("goodput_mbps", wrote.received as f64 * 8.0 / 1e6 / elapsed),
            ("packets_per_s", packets as f64 / elapsed),
            ("segs_per_packet", segs as f64 / packets.max(1) as f64),
            ("gap_us_p5", rank(5)),
            ("gap_us_p50", rank(50)),
            ("gap_us_p95", rank(95)),
            ("gap_us_width", rank(95) - rank(5)),
            ("gap_us_p99", rank(99)),
            ("gap_us_max", rank(100)),
            ("gaps_under_100us_percent", 100.0 * close as f64 / gaps.len().max(1) as f64),
            ("burst_bytes_max", burst as f64),
            ("retrans_segs", wrote.retrans as f64),
        ]
    }
}
