//! SCTP between two stacks in one process and one thread, beside usrsctp and rtc-sctp in the same run: Gbit/s, medians and ratios.
#![forbid(unsafe_code)]
use lowwater_bench::args;
use lowwater_bench::counting::{self, INSTRUMENTED_SYSTEM, StatsAlloc, System};
use lowwater_bench::messages::Carrier;
use lowwater_core::base::Sysctl;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What one run of a row measured.
#[derive(Clone, Copy, Debug)]
struct Run {
    gbps: f64,
    /// Packets both ways for each message.
    packets: f64,
    /// Allocations for each message, where they are counted.
    allocations: Option<f64>,
}

/// A row of the table.
enum Row {
    /// Ours with these settings.
    Ours(&'static str, Box<Sysctl>),
    /// A program that prints bytes, seconds and packets, with what it is told beside the load.
    Peer(&'static str, PathBuf, &'static [&'static str]),
}

/// What is carried.
#[derive(Clone, Copy)]
struct Load {
    mtu: u16,
    message: usize,
    seconds: f64,
}

fn main() {
    args::check("sctp [--mtu N] [--message BYTES] [--seconds S] [--pairs N] [--only ROW]");
    let load = Load {
        mtu: args::number("--mtu", 1_500, 576, 65_535) as u16,
        message: args::number("--message", 1_636, 1, 65_535) as usize,
        seconds: args::number("--seconds", 1, 1, 3_600) as f64,
    };
    let pairs = args::number("--pairs", 5, 1, 1_000);
    let only = args::number("--only", 0, 0, 9) as usize;
    let mut rows = vec![Row::Ours("lowwater", Box::default())];
    let eager = Sysctl { sctp_hb_eager: true, ..Sysctl::default() };
    rows.push(Row::Ours("lowwater, heartbeat timer armed by each packet", Box::new(eager)));
    rows.push(Row::Ours("lowwater, not paced", Box::new(Sysctl { sctp_pacing: false, ..Sysctl::default() })));
    match usrsctp() {
        Ok(program) => rows.push(Row::Peer("usrsctp", program, &[])),
        Err(lack) => eprintln!("usrsctp: skipped: needs {lack}"),
    }
    match rtc_sctp() {
        Ok(program) => {
            rows.push(Row::Peer("rtc-sctp 0.21", program.clone(), &[]));
            rows.push(Row::Peer("rtc-sctp 0.21, SACKs batched", program, &["batched"]));
        }
        Err(lack) => eprintln!("rtc-sctp 0.21: skipped: needs {lack}"),
    }
    println!(
        "messages of {} bytes, MTU {}, {pairs} rounds of {} s, one thread",
        load.message, load.mtu, load.seconds
    );
    let mut runs: Vec<Vec<Run>> = rows.iter().map(|_| Vec::new()).collect();
    for _ in 0..pairs {
        for (n, row) in rows.iter().enumerate().filter(|(n, _)| only == 0 || only == n + 1) {
            runs[n].push(row.run(load));
        }
    }
    let median = |of: &[Run]| {
        let mut all: Vec<f64> = of.iter().map(|run| run.gbps).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let first = median(&runs[0]);
    for (row, of) in rows.iter().zip(&runs).filter(|(_, of)| !of.is_empty()) {
        let gbps = median(of);
        let all: Vec<String> = of.iter().map(|run| format!("{:.2}", run.gbps)).collect();
        let allocations =
            of[0].allocations.map_or_else(String::new, |n| format!(", {n:.3} allocations per message"));
        let mut line = format!(
            "{}: {gbps:.2} Gbit/s ({}), {:.2} packets per message{allocations}",
            row.name(),
            all.join(" "),
            of[0].packets
        );
        if only == 0 && !matches!(row, Row::Ours("lowwater", _)) {
            line += &format!("; lowwater is {:.2} times as fast", first / gbps);
        }
        println!("{line}");
    }
}

impl Row {
    const fn name(&self) -> &'static str {
        match self {
            Self::Ours(name, _) | Self::Peer(name, ..) => name,
        }
    }

    fn run(&self, load: Load) -> Run {
        match self {
            Self::Ours(_, sysctl) => ours(load, sysctl),
            Self::Peer(_, program, told) => peer(load, program, told),
        }
    }
}

fn ours(load: Load, sysctl: &Sysctl) -> Run {
    let mut carrier = Carrier::new(load.mtu, load.message, sysctl);
    let (base, calls, packets) = (carrier.duo.now, counting::calls(), carrier.packets());
    let start = Instant::now();
    let mut elapsed = start.elapsed();
    while elapsed.as_secs_f64() < load.seconds {
        carrier.turn(base.plus_nanos(elapsed.as_nanos() as u64));
        elapsed = start.elapsed();
    }
    let (calls, packets) = (counting::calls() - calls, carrier.packets() - packets);
    assert!(carrier.is_right(), "the payload's hash");
    let messages = carrier.received as f64 / load.message as f64;
    Run {
        gbps: carrier.received as f64 * 8.0 / elapsed.as_secs_f64() / 1e9,
        packets: packets as f64 / messages,
        allocations: Some(calls as f64 / messages),
    }
}

fn peer(load: Load, program: &Path, told: &[&str]) -> Run {
    let args = [load.mtu.to_string(), load.message.to_string(), load.seconds.to_string()];
    let out = Command::new(program).args(args).args(told).output().expect("it runs");
    assert!(out.status.success(), "{}: {:?}", program.display(), out);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [bytes, seconds, packets] = numbers[..] else { panic!("{} said {text}", program.display()) };
    Run {
        gbps: bytes * 8.0 / seconds / 1e9,
        packets: packets / (bytes / load.message as f64),
        allocations: None,
    }
}

/// A folder for what is built here.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers")
}

/// Compiles the peer in C.
fn usrsctp() -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/usrsctp.c");
    let program = folder().join("usrsctp-pair");
    std::fs::create_dir_all(folder()).map_err(|e| e.to_string())?;
    let simd: &[&str] = if cfg!(target_arch = "x86_64") { &["-msse4.2"] } else { &[] };
    let mut cc = Command::new("cc");
    cc.arg("-O2").args(simd).arg("-o").arg(&program).arg(source).arg("-lusrsctp");
    match cc.output() {
        Ok(out) if out.status.success() => Ok(program),
        Ok(_) => Err("libusrsctp (apt-get install libusrsctp-dev)".to_owned()),
        Err(_) => Err("cc (apt-get install gcc)".to_owned()),
    }
}

/// Compiles the peer in Rust, which is no member of the workspace.
fn rtc_sctp() -> Result<PathBuf, String> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/rtc-sctp/Cargo.toml");
    let target = folder().join("rtc-sctp");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--quiet", "--manifest-path"]).arg(manifest);
    match cargo.arg("--target-dir").arg(&target).output() {
        Ok(out) if out.status.success() => Ok(target.join("release/rtc-sctp-pair")),
        Ok(out) => Err(format!("the crate rtc-sctp: {}", String::from_utf8_lossy(&out.stderr).trim())),
        Err(why) => Err(format!("cargo: {why}")),
    }
}
