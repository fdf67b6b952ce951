//! How many flows of 48 Mbit/s half a core carries over a TUN, and what they cost by the transport's timers and by `fq` (experiment E4).
//!
//! `half_core [--seconds S] [--pairs N]`: needs root. One thread runs the stack, its device and the writers; the kernel reads.
#![forbid(unsafe_code)]
use lowwater_bench::{args, paced::Paced, rounds::median, single::Single};
use lowwater_os::KernelWork;
use lowwater_os::netns::NetNs;
use rustix::event::{Timespec, epoll};
use rustix::net::{RecvFlags, recv};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

const USAGE: &str = "half_core [--seconds S] [--pairs N]";
const OURS: &str = "10.77.0.2";
const HOST: &str = "10.77.0.1";
/// Bytes a second of each flow.
const RATE: u64 = 6_000_000;
const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 2), 9);
/// The reader looks at its clock so often at least.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
const FLOWS_MAX: usize = 2_048;
/// Time in which the connections open, and in which windows grow, before anything counts.
const OPENING: Duration = Duration::from_millis(500);
const WARM_UP: Duration = Duration::from_millis(700);
/// What the reader takes at once.
const READ_MAX: usize = 1 << 20;

/// What a number of flows took.
#[derive(Clone, Copy)]
struct Share {
    /// Of one core: the stack's thread, with what the kernel does in it.
    core: f64,
    /// Payload that arrived, of what was asked for.
    payload: f64,
}

fn main() {
    args::check(USAGE);
    if let Err(why) = lowwater_os::netns::can_net_admin() {
        eprintln!("skipped: needs {why}");
        std::process::exit(77);
    }
    let seconds = Duration::from_secs(args::number("--seconds", 2, 1, 60));
    let pairs = args::number("--pairs", 3, 1, 100);
    let flows = half_a_core(seconds);
    let mut shares = [Vec::new(), Vec::new()];
    for _ in 0..pairs {
        for (qdisc, shares) in ["pfifo_fast", "fq"].into_iter().zip(&mut shares) {
            shares.push(run(flows, qdisc, seconds));
        }
    }
    for (name, shares) in ["by the transport's timers", "by fq"].into_iter().zip(&shares) {
        println!(
            "{flows} flows of 48 Mbit/s, {name}: {:.0} % of a core, payload {:.3} of what was asked for",
            100.0 * median(shares.iter().map(|share| share.core)),
            median(shares.iter().map(|share| share.payload))
        );
    }
}

/// Flows that take half a core by the transport's timers: as many as double before, less what was too much.
fn half_a_core(seconds: Duration) -> usize {
    let (mut flows, mut below) = (8, (0, 0.0));
    while flows <= FLOWS_MAX {
        let share = run(flows, "pfifo_fast", seconds);
        eprintln!("{flows} flows: {:.0} % of a core, payload {:.3}", 100.0 * share.core, share.payload);
        if share.core >= 0.5 {
            let (few, less) = below;
            return few + ((flows - few) as f64 * (0.5 - less) / (share.core - less)) as usize;
        }
        (below, flows) = ((flows, share.core), flows * 2);
    }
    FLOWS_MAX
}

fn run(flows: usize, qdisc: &str, time: Duration) -> Share {
    let ns = NetNs::new().expect("a namespace: needs root");
    ns.run(|| {
        let mut single = Single::open("lw0", OURS, HOST, KernelWork::default()).qdisc(qdisc);
        let from = single.now() + OPENING + WARM_UP;
        let mut writers = Paced::new(RATE).measured(from, from + time);
        std::thread::scope(|scope| {
            let server = scope.spawn(move || {
                let _ = lowwater_os::poll::precise_timers();
                single.serve(&mut writers);
                writers.of_a_core().expect("it has ended")
            });
            let began = Instant::now();
            let sinks = connect(flows);
            assert!(began.elapsed() < OPENING, "{flows} connections took {:?}", began.elapsed());
            let from = began + OPENING + WARM_UP;
            let got = read(&sinks, from, from + time);
            Share {
                core: server.join().expect("the stack's thread ends"),
                payload: got / (RATE as f64 * flows as f64),
            }
        })
    })
}

fn connect(flows: usize) -> Vec<TcpStream> {
    std::thread::sleep(Duration::from_millis(20));
    let open =
        || TcpStream::connect_timeout(&SERVER.into(), Duration::from_secs(5)).expect("the stack answers");
    (0..flows).map(|_| open()).collect()
}

/// Payload bytes per second that came between two times.
fn read(sinks: &[TcpStream], from: Instant, until: Instant) -> f64 {
    let ready = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll");
    for (index, sink) in sinks.iter().enumerate() {
        sink.set_nonblocking(true).expect("a socket");
        epoll::add(&ready, sink, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)
            .expect("room");
    }
    let (mut buf, mut events) = (vec![0; READ_MAX], Vec::with_capacity(64));
    // From the end of one turn to the end of another: what came before the first is not in the sum.
    let (mut first, mut total) = (None, 0);
    loop {
        epoll::wait(&ready, rustix::buffer::spare_capacity(&mut events), Some(&TICK)).expect("an epoll");
        for event in events.drain(..) {
            let sink = &sinks[event.data.u64() as usize];
            // MSG_TRUNC: thrown away without a copy.
            let (_, taken) = recv(sink, &mut buf, RecvFlags::TRUNC).expect("the flow lives");
            total += taken as u64;
        }
        let now = Instant::now();
        match first {
            None if now >= from => first = Some((now, total)),
            Some((since, before)) if now >= until => {
                return (total - before) as f64 / now.duration_since(since).as_secs_f64();
            }
            _ => {}
        }
    }
}
