//! Bytes in both directions under drawn settings and faults: all arrive, in bounded time, and TCP_INFO agrees.
use crate::faults::Faults;
use crate::world::{Setup, World, connected, in_world, kernel_counter};
use lowwater::Layer;
use lowwater::core::base::Rng;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

/// A prime, so that bytes at wrong places differ whatever the packet size.
const PATTERN: usize = 1_048_573;

fn pattern() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let mut rng = Rng::new(77);
        (0..PATTERN).map(|_| rng.next_u32() as u8).collect()
    })
}

fn send(mut to: impl Write, len: usize, piece: usize) -> io::Result<()> {
    let mut sent = 0;
    while sent < len {
        let at = sent % PATTERN;
        let n = piece.min(PATTERN - at).min(len - sent);
        to.write_all(&pattern()[at..at + n])?;
        sent += n;
    }
    Ok(())
}

/// Reads to the end and compares; the number of bytes.
fn recv(mut from: impl Read) -> Result<usize, String> {
    let (mut got, mut buffer) = (0, vec![0; 256 * 1_024]);
    loop {
        let n = from.read(&mut buffer).map_err(|e| format!("reading after {got} bytes: {e}"))?;
        if n == 0 {
            return Ok(got);
        }
        let (mut at, mut left) = (got % PATTERN, &buffer[..n]);
        while !left.is_empty() {
            let m = left.len().min(PATTERN - at);
            if left[..m] != pattern()[at..at + m] {
                let wrong = (0..m).find(|&i| left[i] != pattern()[at + i]).unwrap();
                return Err(format!("other bytes from {} on", got + n - left.len() + wrong));
            }
            (at, left) = ((at + m) % PATTERN, &left[m..]);
        }
        got += n;
    }
}

/// What is transferred over one connection.
#[derive(Clone, Copy, Debug)]
struct Job {
    v6: bool,
    kernel_opens: bool,
    to_ours: usize,
    to_kernel: usize,
    piece: usize,
}

/// Moves the bytes of `job`, each side closing when it has sent all; the time it took.
fn run(world: &World, job: Job) -> Duration {
    let (kernels, our) = connected(world, job.v6, job.kernel_opens);
    let begin = Instant::now();
    let results = thread::scope(|s| {
        let sends = [
            s.spawn(|| {
                send(&kernels, job.to_ours, job.piece)?;
                kernels.shutdown(Shutdown::Write)
            }),
            s.spawn(|| {
                send(&our, job.to_kernel, job.piece)?;
                our.shutdown(Shutdown::Write)
            }),
        ];
        let recvs = [s.spawn(|| recv(&our)), s.spawn(|| recv(&kernels))];
        let sends = sends.map(|t| t.join().unwrap().map_err(|e| format!("sending: {e}")));
        let recvs = recvs.map(|t| t.join().unwrap());
        (sends, recvs)
    });
    let took = begin.elapsed();
    let right =
        matches!(&results, ([Ok(()), Ok(())], [Ok(a), Ok(b)]) if *a == job.to_ours && *b == job.to_kernel);
    assert!(right, "{job:?}: {results:?} after {took:?}\n{}", world.describe());
    info_agrees(world, &our, job);
    took
}

/// Our TCP_INFO after all was sent, acknowledged and received.
fn info_agrees(world: &World, our: &lowwater::blocking::TcpStream, job: Job) {
    // The acknowledgement of our last bytes may still be on its way.
    let patience = Instant::now() + Duration::from_secs(5);
    let mut info = our.info().unwrap();
    while info.unacked > 0 && Instant::now() < patience {
        thread::sleep(Duration::from_millis(1));
        info = our.info().unwrap();
    }
    let say = || format!("{job:?} {info:?}");
    // As Linux does, both count the FIN, because they count sequence numbers, and who opened counts its SYN.
    assert_eq!(info.bytes_received, job.to_ours as u64 + 1, "{}", say());
    let syn = u64::from(!job.kernel_opens);
    assert_eq!(info.bytes_acked, job.to_kernel as u64 + 1 + syn, "{}", say());
    assert!(info.bytes_sent - info.bytes_retrans == job.to_kernel as u64, "{}", say());
    assert!((info.unacked, info.lost, info.sacked, info.notsent_bytes) == (0, 0, 0, 0), "{}", say());
    let sysctl = world.stack.sysctl();
    assert!(sysctl.tcp_timestamps > 0 || info.options & 1 == 0, "{}", say());
    assert!(sysctl.tcp_sack || info.options & 2 == 0, "{}", say());
    assert!(sysctl.tcp_window_scaling || info.options & 4 == 0, "{}", say());
    // The line's delay counts from the beginning of a turn of the driver, the RTT from the segment.
    assert!(info.min_rtt + 1_000 >= 2 * world.delay.as_micros() as u32, "{}", say());
    assert!(info.rtt > 0 && info.rto >= 200_000, "{}", say());
}

/// Draws a setting: which options are on at which side, and who opens.
fn draw(rng: &mut Rng, faults: Faults) -> (Setup, bool) {
    let offload = rng.below(2) == 0;
    // Damage is done behind an IP header only.
    let layer = if rng.below(5) == 0 && faults.corrupt == 0 { Layer::Ethernet } else { Layer::Ip };
    let mut setup = Setup { layer, offload, faults, seed: rng.next_u64(), ..Setup::default() };
    for name in ["tcp_sack", "tcp_timestamps", "tcp_window_scaling"] {
        match rng.below(6) {
            0 => setup.kernel.push((name, "0")),
            1 => setup.ours.push((name, "0")),
            _ => {}
        }
    }
    if rng.below(3) == 0 {
        setup = setup.both("tcp_ecn", "1");
    }
    setup.ours.push(("tcp_congestion_control", if rng.below(3) == 0 { "reno" } else { "cubic" }));
    setup.congestion = ["reno", "cubic", "cubic", "bbr"][rng.below(4) as usize];
    let small = rng.below(4) == 0;
    if small {
        setup = setup.both("tcp_rmem", "4096 8192 16384").both("tcp_wmem", "4096 8192 16384");
    }
    (setup, small)
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// Runs drawn settings under `faults`, `bytes` in each direction, every one within `limit`.
fn matrix(name: &str, faults: Faults, cases: u64, bytes: usize, limit: Duration) {
    let mut rng = Rng::new(number("LOWWATER_INTEROP_SEED", 1)).fork(name);
    for case in 0..cases * number("LOWWATER_INTEROP_CASES", 1) {
        let (setup, small) = draw(&mut rng, faults);
        let bytes = if small { bytes / 8 } else { bytes };
        let (v6, kernel_opens) = (rng.below(2) == 0, rng.below(2) == 0);
        let piece = [1_000, 16_384, 300_000][rng.below(3) as usize];
        let which = rng.below(3);
        let (to_ours, to_kernel) = if which == 0 { (bytes, bytes) } else { (bytes, 0) };
        let (to_ours, to_kernel) = if which == 1 { (to_kernel, to_ours) } else { (to_ours, to_kernel) };
        let job = Job { v6, kernel_opens, to_ours, to_kernel, piece };
        in_world(&setup, |world| {
            println!("{name} {case}: {job:?} {setup:?}");
            let took = run(world, job);
            let gbits = (to_ours + to_kernel) as f64 * 8.0 / took.as_secs_f64() / 1e9;
            let count = world.stack.counters();
            println!(
                "{name} {case}: {took:?}, {gbits:.2} Gbit/s, {} retransmitted, {} timeouts, kernel {} and {}, {} lost, {} damaged",
                count.tcp.retrans_segs,
                count.tcp_ext.tcp_timeouts,
                kernel_counter("RetransSegs"),
                kernel_counter("TCPTimeouts"),
                world.control.lost.load(Relaxed),
                world.control.corrupted.load(Relaxed)
            );
            assert!(took < limit, "{name} {case} took {took:?}: {job:?} {setup:?}\n{}", world.describe());
        });
    }
}

const MB: usize = 1_000_000;

#[test]
fn a_good_line() {
    matrix("good", Faults::default(), 12, 8 * MB, Duration::from_secs(5));
}

#[test]
fn a_loss_of_one_in_a_thousand() {
    matrix("loss 0.1 %", Faults { loss: 1_000, ..Faults::default() }, 8, 3 * MB, Duration::from_secs(10));
}

#[test]
fn a_loss_of_two_in_a_hundred() {
    matrix("loss 2 %", Faults { loss: 20_000, ..Faults::default() }, 8, 2 * MB, Duration::from_secs(20));
}

#[test]
fn losses_without_sack() {
    let faults = Faults { loss: 20_000, ..Faults::default() };
    let setup = Setup { offload: false, faults, ..Setup::default() }.both("tcp_sack", "0");
    for (to_ours, to_kernel) in [(2 * MB, 0), (0, 2 * MB)] {
        in_world(&setup, |world| {
            let job = Job { v6: false, kernel_opens: true, to_ours, to_kernel, piece: 16_384 };
            let (took, timeouts) = (run(world, job), kernel_counter("TCPTimeouts"));
            println!("no SACK, {to_ours} to us: {took:?}, {timeouts} timeouts of the kernel's");
            assert!(timeouts < 10, "{took:?}\n{}", world.describe());
        });
    }
}

/// Without SACK a timeout may follow though nothing was lost: the kernel drops what it gets with an acknowledgement that is
/// older than a window (RFC 5961 section 5.2), and duplicates that carry data are not counted.
#[test]
fn packets_that_overtake() {
    let faults = Faults { reorder: 10_000, reorder_by: 5, ..Faults::default() };
    matrix("reorder", faults, 8, 3 * MB, Duration::from_secs(10));
}

#[test]
fn a_long_line() {
    let faults = Faults { delay: Duration::from_millis(30), ..Faults::default() };
    matrix("delay", faults, 5, 2 * MB, Duration::from_secs(15));
}

#[test]
fn damaged_packets_are_not_believed() {
    let faults = Faults { corrupt: 10_000, ..Faults::default() };
    matrix("damage", faults, 6, 2 * MB, Duration::from_secs(15));
}

#[test]
fn packets_that_come_twice() {
    let faults = Faults { duplicate: 30_000, ..Faults::default() };
    matrix("twice", faults, 6, 3 * MB, Duration::from_secs(10));
}

#[test]
fn a_device_that_refuses_and_completes_late() {
    let late_completion = Some(Duration::from_micros(500));
    let faults = Faults { not_now: 200_000, late_completion, ..Faults::default() };
    matrix("not now", faults, 6, 3 * MB, Duration::from_secs(10));
}

#[test]
fn everything_at_once() {
    let faults = Faults {
        loss: 5_000,
        reorder: 10_000,
        reorder_by: 3,
        duplicate: 5_000,
        corrupt: 2_000,
        not_now: 50_000,
        delay: Duration::from_millis(5),
        late_completion: Some(Duration::from_micros(300)),
    };
    matrix("all", faults, 6, MB, Duration::from_secs(20));
}

#[test]
fn transfers_go_on_after_a_silence() {
    for (v6, to_ours, to_kernel) in [(false, 400 * MB, 0), (true, 0, 400 * MB)] {
        in_world(&Setup::default(), |world| {
            let job = Job { v6, kernel_opens: v6, to_ours, to_kernel, piece: 65_536 };
            let took = thread::scope(|s| {
                let transfer = s.spawn(|| run(world, job));
                thread::sleep(Duration::from_millis(20));
                world.control.blackhole.store(true, Relaxed);
                thread::sleep(Duration::from_millis(1_500));
                world.control.blackhole.store(false, Relaxed);
                transfer.join().unwrap()
            });
            println!("silence: {to_ours} to us and {to_kernel} to the kernel in {took:?}");
            // Timeouts at 0.2, 0.6, 1.4 and 3.0 s, with a little more for the RTT's variance.
            assert!(took < Duration::from_secs(6), "{took:?}\n{}", world.describe());
        });
    }
}

#[test]
fn the_speed_of_plain_transfers() {
    in_world(&Setup::default(), |world| {
        for (name, to_ours, to_kernel) in [("in", 400 * MB, 0), ("out", 0, 400 * MB)] {
            let took = run(world, Job { v6: false, kernel_opens: false, to_ours, to_kernel, piece: 262_144 });
            println!("{name}: {:.2} Gbit/s", 400.0 * 8.0 / took.as_secs_f64() / 1e3);
        }
    });
}
