//! The pace in real time: how late timers end beside a bare timerfd, and how near the payload comes to SO_MAX_PACING_RATE over a TUN.
//!
//! `pace [--seconds S]`: needs root. One thread runs the stack, its device and the writer; the kernel reads and hashes.
#![forbid(unsafe_code)]
use lowwater_bench::single::Single;
use lowwater_bench::{args, hash::Hash, paced::Paced};
use lowwater_os::KernelWork;
use lowwater_os::netns::NetNs;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io::Read as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

const USAGE: &str = "pace [--seconds S]";
const OURS: &str = "10.77.0.2";
const HOST: &str = "10.77.0.1";
/// Time in which windows grow, before anything counts.
const WARM_UP: Duration = Duration::from_millis(500);
/// Waits that are noted.
const NOTED: usize = 200_000;
const MBITS: [u64; 4] = [10, 100, 500, 1_000];

fn main() {
    args::check(USAGE);
    if let Err(why) = lowwater_os::netns::can_net_admin() {
        eprintln!("skipped: needs {why}");
        std::process::exit(77);
    }
    let seconds = Duration::from_secs(args::number("--seconds", 3, 1, 60));
    let _ = lowwater_os::poll::precise_timers();
    for mbit in MBITS {
        let rate = mbit * 125_000;
        // The gap of the flow's packets: a millisecond's worth, two segments at least.
        let gap = (rate / 1_024).max(2 * 1_448) * 1_000_000_000 / rate;
        let bare = p99(bare_timer(Duration::from_nanos(gap), seconds));
        let (got, late) = paced(rate, seconds);
        let late = p99(late);
        println!(
            "{mbit:>5} Mbit/s: {:.3} of the rate; p99 of lateness {:.1} us, of a bare timerfd {:.1} us, ratio {:.2}",
            got / rate as f64,
            late as f64 / 1e3,
            bare as f64 / 1e3,
            late as f64 / bare as f64,
        );
    }
}

/// Nanoseconds that each expiry of a timerfd is late, set anew each time as a pacer does.
fn bare_timer(gap: Duration, time: Duration) -> Vec<u64> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).expect("a timerfd");
    let clock = lowwater_os::Clock::start();
    let (mut at, end, mut late) = (clock.now() + gap, clock.now() + time, Vec::new());
    while at < end {
        let ns = clock.monotonic_nanos(at);
        let it_value = Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &once).expect("a time");
        rustix::io::read(&timer, &mut [0; 8]).expect("it fires");
        let now = clock.now();
        late.push(now.nanos_since(at));
        at = now.max(at) + gap;
    }
    late
}

/// Payload bytes per second at the kernel's end, and the lateness of the stack's timers.
fn paced(rate: u64, time: Duration) -> (f64, Vec<u64>) {
    let ns = NetNs::new().expect("a namespace: needs root");
    ns.run(|| {
        let mut single = Single::open("lw0", OURS, HOST, KernelWork::default()).note_lateness(NOTED);
        let stop = single.stopper();
        std::thread::scope(|scope| {
            let server = scope.spawn(move || {
                let _ = lowwater_os::poll::precise_timers();
                single.serve(&mut Paced::new(rate));
                single.lateness()
            });
            let got = read(time);
            stop();
            (got, server.join().expect("the stack's thread ends"))
        })
    })
}

fn read(time: Duration) -> f64 {
    let mut stream = (0..50)
        .find_map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            TcpStream::connect((OURS, 9)).ok()
        })
        .expect("the stack answers");
    let (mut buf, mut hash) = (vec![0; 262_144], Hash::new());
    let mut take = |stream: &mut TcpStream| {
        let n = stream.read(&mut buf).expect("the flow lives");
        hash.update(&buf[..n]);
        n as u64
    };
    let warm = Instant::now() + WARM_UP;
    while Instant::now() < warm {
        take(&mut stream);
    }
    // From the end of one read to the end of another: what came before the first is not in the sum.
    let (start, mut total) = (Instant::now(), 0);
    while start.elapsed() < time {
        total += take(&mut stream);
    }
    let rate = total as f64 / start.elapsed().as_secs_f64();
    std::hint::black_box(hash.value());
    rate
}

fn p99(mut samples: Vec<u64>) -> u64 {
    samples.sort_unstable();
    samples.get(samples.len() * 99 / 100).copied().unwrap_or(0)
}
