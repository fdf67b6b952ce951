//! Bulk transfer between the stack and the kernel over TUN, beside kernel to kernel over veth in the same minute.
//!
//! `tun [--seconds S] [--pairs N] [--flows N] [--busy-poll US] [--congestion NAME]`: needs root and iperf3. Rows: one thread that runs the stack, its device and the
//! application; the facade (the stack's thread and the application's). Whoever reads hashes, iperf3 does not; what came is compared with what
//! was sent once the clock has stopped.
#![forbid(unsafe_code)]
use lowwater_bench::args;
use lowwater_bench::counting::{INSTRUMENTED_SYSTEM, StatsAlloc, System};
use lowwater_bench::pattern::{Sink, Source, WRITE_MAX};
use lowwater_bench::rounds::{Quartiles, median};
use lowwater_bench::single::{self, Bulk, Role, Single};
use lowwater_os::netns::NetNs;
use lowwater_os::poll::Interest;
use lowwater_os::{Clock, Poller, TunOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const OURS: &str = "10.77.0.2";
const HOST: &str = "10.77.0.1";
/// Of the namespace of whoever reads or writes it.
const CONGESTION_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const CONGESTION_CONTROLS: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
/// More parallel flows iperf3 does not take.
const IPERF_FLOWS_MAX: usize = 128;

type Run = fn(Duration, usize, Role) -> Ran;
const RUNS: [(Run, Role); 7] = [
    (one_thread, Role::Discard),
    (one_thread, Role::Generate),
    (facade, Role::Discard),
    (facade, Role::Generate),
    (kernel_pair, Role::Discard),
    (task, Role::Discard),
    (task, Role::Generate),
];

fn main() {
    args::check(
        "tun [--seconds S] [--pairs N] [--flows N] [--only ROW] [--busy-poll US] [--work auto|inline|spread|thread] [--congestion NAME]",
    );
    if let Err(why) = lowwater_os::netns::can_net_admin() {
        eprintln!("skipped: needs {why}");
        std::process::exit(77);
    }
    println!("the kernel's ends send by {}", namespace().run(congestion_control));
    let seconds = Duration::from_secs(args::number("--seconds", 3, 1, 3_600));
    let only = args::number("--only", 0, 1, RUNS.len() as u64);
    let (pairs, flows) =
        (args::number("--pairs", 5, 1, 1_000), args::number("--flows", 1, 1, 10_000) as usize);
    let mut kernel = Vec::new();
    let mut rows: [Vec<Figures>; RUNS.len()] = Default::default();
    for round in 0..pairs {
        if std::env::var_os("ALONE").is_none() {
            kernel.push(veth(seconds, flows.min(IPERF_FLOWS_MAX)));
        }
        for (row, (run, role)) in
            RUNS.iter().enumerate().filter(|(row, _)| only == 0 || only == *row as u64 + 1)
        {
            let cpu = process_cpu_s();
            let ran = run(seconds, flows, *role);
            let (cpu, gb) = (process_cpu_s() - cpu, ran.gb());
            assert!(gb > 0.0, "nothing came");
            rows[row]
                .push(Figures { gbits: gb * 8.0 / ran.took.as_secs_f64(), cpu_ms_per_gb: cpu * 1e3 / gb });
            ran.sinks.iter().for_each(Sink::check);
        }
        eprintln!("pair {}/{pairs} done", round + 1);
    }
    let names = [
        "kernel -> stack, one thread",
        "stack -> kernel, one thread",
        "kernel -> stack, facade",
        "stack -> kernel, facade",
        "kernel -> kernel, veth, this program",
        "kernel -> stack, task of tokio",
        "stack -> kernel, task of tokio",
    ];
    let yardstick = format!("kernel to kernel, veth, iperf3 -P {}", flows.min(IPERF_FLOWS_MAX));
    let all = [(yardstick.as_str(), &kernel)].into_iter().chain(names.into_iter().zip(&rows));
    let shown: Vec<_> = all.filter(|(_, runs)| !runs.is_empty()).collect();
    for (name, runs) in &shown {
        report(name, runs, shown[0].1);
    }
}

/// A namespace whose TCP sends by `--congestion`, or as those of this machine do.
fn namespace() -> NetNs {
    let ns = NetNs::new().expect("a namespace");
    if let Some(name) = args::word("--congestion") {
        let set = ns.run(|| std::fs::write(CONGESTION_CONTROL, &name));
        // Namespaces other than the first take no default that is not allowed to everybody (Linux's tcp_set_default_congestion_control).
        let has = std::fs::read_to_string(CONGESTION_CONTROLS).unwrap_or_default();
        let takes = format!("{} (what {CONGESTION_CONTROLS} allows)", has.trim().replace(' ', ", "));
        set.unwrap_or_else(|e| args::refuse("--congestion", &takes, &format!("{name} ({e})")));
    }
    ns
}

/// What the kernel's senders do where this thread is.
fn congestion_control() -> String {
    std::fs::read_to_string(CONGESTION_CONTROL).map_or_else(|e| e.to_string(), |name| name.trim().to_owned())
}

/// One row: medians, and its ratios to the first row that runs.
fn report(name: &str, runs: &[Figures], yardstick: &[Figures]) {
    let per_cpu = |run: &Figures| 1.0 / run.cpu_ms_per_gb;
    let ratio = |of: fn(&Figures) -> f64| Quartiles::of_ratios(runs.iter().map(of), yardstick.iter().map(of));
    let (Some(by_time), Some(by_cpu)) = (ratio(|run| run.gbits), ratio(per_cpu)) else { return };
    println!(
        "{name}: {:.1} Gbit/s, ratio {by_time}; {:.0} ms of processor time per GB, ratio {by_cpu}",
        median(runs.iter().map(|run| run.gbits)),
        median(runs.iter().map(|run| run.cpu_ms_per_gb)),
    );
}

/// What one run left.
struct Ran {
    took: Duration,
    /// What was read, one for each flow; empty ones for ends that wrote.
    sinks: Vec<Sink>,
}

impl Ran {
    /// Payload that was read, in GB.
    fn gb(&self) -> f64 {
        self.sinks.iter().map(|sink| sink.bytes).sum::<u64>() as f64 / 1e9
    }
}

/// Done when it goes, in a panic too: a thread that waits for the end is not left waiting.
struct Finally<F: FnMut()>(F);

impl<F: FnMut()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// What one run gave.
struct Figures {
    gbits: f64,
    cpu_ms_per_gb: f64,
}

/// Processor time of this process, all threads and what the kernel does in them.
fn process_cpu_s() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// iperf3 between two namespaces over veth with TSO; its processor time is what both of its ends say.
fn veth(seconds: Duration, flows: usize) -> Figures {
    let script = format!(
        "set -e; ip link add name lwa type veth peer name lwb; ip netns add lwb$$; ip link set lwb netns lwb$$; \
         trap 'ip netns del lwb$$' EXIT; \
         ip addr add 10.78.0.1/24 dev lwa; ip link set lwa up; \
         ip -n lwb$$ addr add 10.78.0.2/24 dev lwb; ip -n lwb$$ link set lwb up; ip -n lwb$$ link set lo up; \
         ip netns exec lwb$$ iperf3 -s -1 -B 10.78.0.2 >/dev/null & sleep 0.5; \
         iperf3 -c 10.78.0.2 -t {} -P {flows} -J; wait",
        seconds.as_secs()
    );
    let ns = namespace();
    let out = ns.run(|| {
        Command::new("bash").args(["-c", &script]).stderr(Stdio::inherit()).output().expect("bash runs")
    });
    let text = String::from_utf8_lossy(&out.stdout);
    let sum = ["\"sum_received\"", "\"sum_sent\""].iter().find_map(|sum| text.split(sum).nth(1));
    let gbits = number(sum.expect("iperf3's sum"), "bits_per_second") / 1e9;
    let percent = number(&text, "host_total") + number(&text, "remote_total");
    Figures { gbits, cpu_ms_per_gb: percent / 100.0 * 1e3 / (gbits / 8.0) }
}

/// The number of this name in a text of JSON, the first one.
fn number(text: &str, name: &str) -> f64 {
    let rest = text.split(&format!("\"{name}\":")).nth(1).expect("iperf3 says it");
    let digits: String = rest.trim_start().chars().take_while(|c| !",\n }".contains(*c)).collect();
    digits.parse().expect("a number")
}

/// The kernel's end: at most two threads, since a thousand would leave the stack's own no share of the processor.
fn kernel_end(addr: SocketAddr, seconds: Duration, flows: usize, role: Role) -> Ran {
    let threads = flows.min(2);
    let streams: Vec<Vec<TcpStream>> =
        (0..threads).map(|t| (t..flows).step_by(threads).map(|_| connect(addr)).collect()).collect();
    let start = Instant::now();
    let ends: Vec<End> = std::thread::scope(|scope| {
        let serve = |own| scope.spawn(move || serve_flows(own, seconds, role));
        let threads: Vec<_> = streams.iter().map(|own| serve(own.as_slice())).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a thread ends")).collect()
    });
    let took = start.elapsed();
    Ran { took, sinks: ends.into_iter().map(|end| end.sink).collect() }
}

fn connect(addr: SocketAddr) -> TcpStream {
    (0..50)
        .find_map(|_| {
            TcpStream::connect_timeout(&addr, Duration::from_secs(1)).ok().or_else(|| {
                std::thread::sleep(Duration::from_millis(20));
                None
            })
        })
        .expect("the stack answers")
}

/// One flow at the kernel's end; it goes one way.
#[derive(Default)]
struct End {
    source: Source,
    sink: Sink,
}

impl End {
    /// Writes for a stack that discards, or reads from one that generates; what is not possible now is left.
    fn go_on(&mut self, mut stream: &TcpStream, role: Role, buf: &mut [u8]) {
        let done = match role {
            Role::Discard => stream.write(&self.source.piece()).map(|n| self.source.wrote(n)),
            Role::Generate => stream.read(buf).map(|n| self.sink.read(&buf[..n])),
        };
        match done {
            Err(e) if e.kind() != std::io::ErrorKind::WouldBlock => panic!("a flow failed: {e}"),
            _ => {}
        }
    }
}

/// How long a call waits, or a thread for any of its flows.
const PATIENCE: Duration = Duration::from_millis(20);

/// One flow as iperf3 serves it, by calls that block; several by epoll.
fn serve_flows(streams: &[TcpStream], seconds: Duration, role: Role) -> Vec<End> {
    let end = Instant::now() + seconds;
    let mut ends: Vec<End> = streams.iter().map(|_| End::default()).collect();
    let mut buf = vec![0; WRITE_MAX];
    if let ([stream], [flow]) = (streams, &mut ends[..]) {
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket takes the option");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes the option");
        while Instant::now() < end {
            flow.go_on(stream, role, &mut buf);
        }
        return ends;
    }
    let mut poller = Poller::new().expect("a poller");
    let interest = if role == Role::Discard { Interest::Write } else { Interest::Read };
    for (token, stream) in streams.iter().enumerate() {
        stream.set_nonblocking(true).expect("a socket takes the flag");
        poller.add(stream, token as u64, interest).expect("the poller takes a socket");
    }
    let (clock, mut ready) = (Clock::start(), Vec::new());
    while Instant::now() < end {
        poller.wait(&clock, Some(clock.now() + PATIENCE), &mut ready).expect("the poller lives");
        for event in ready.drain(..) {
            let flow = event.token as usize;
            ends[flow].go_on(&streams[flow], role, &mut buf);
        }
    }
    ends
}

/// The same kernel's end with the kernel on the other side, read and hashed by one thread: what this program's method costs.
fn kernel_pair(seconds: Duration, flows: usize, role: Role) -> Ran {
    let (near, far) = (namespace(), namespace());
    let mut holder = far.run(|| Command::new("sleep").arg("60").spawn()).expect("sleep runs");
    near.run(|| {
        ip(&format!("link add lwa type veth peer name lwb netns {}", holder.id()));
        ip("addr add 10.78.0.1/24 dev lwa");
        ip("link set lwa up");
    });
    far.run(|| {
        ip("addr add 10.78.0.2/24 dev lwb");
        ip("link set lwb up");
    });
    let _ = holder.kill();
    let _ = holder.wait();
    let addr = SocketAddr::from(([10, 78, 0, 2], 9));
    std::thread::scope(|scope| {
        let listener = far.run(|| TcpListener::bind(addr)).expect("the port is free");
        let reader = scope.spawn(move || {
            let accept = |_| listener.accept().expect("a client comes").0;
            let streams: Vec<TcpStream> = (0..flows).map(accept).collect();
            let ends = serve_flows(&streams, seconds, Role::Generate);
            (streams, ends)
        });
        let ran = near.run(|| kernel_end(addr, seconds, flows, role));
        // Closed before the last write, they would fail it.
        let (streams, ends) = reader.join().expect("a thread ends");
        drop(streams);
        Ran { sinks: ends.into_iter().map(|end| end.sink).collect(), ..ran }
    })
}

fn ip(args: &str) {
    let status = Command::new("ip").args(args.split(' ')).status().expect("ip runs");
    assert!(status.success(), "ip {args}");
}

fn one_thread(seconds: Duration, flows: usize, role: Role) -> Ran {
    let ns = namespace();
    ns.run(|| {
        let mut single = Single::open("lw0", OURS, HOST, single::work()).busy_poll(single::busy_poll());
        let stop = single.stopper();
        std::thread::scope(|scope| {
            let stop = Finally(stop);
            let mut bulk = Bulk::new(role);
            let server = scope.spawn(move || (single.serve(&mut bulk), bulk));
            let mut ran =
                kernel_end(SocketAddr::new(OURS.parse().expect("an address"), 9), seconds, flows, role);
            if std::env::var_os("LOWWATER_BENCH_COUNTERS").is_some() {
                let _ = Command::new("bash").args(["-c", "ip -s link show lw0; tc -s qdisc show dev lw0; nstat -az 2>/dev/null | awk '$2>0'"]).status();
            }
            drop(stop);
            let (used, bulk) = server.join().expect("the stack's thread ends");
            let bytes = bulk.bytes();
            eprintln!(
                "  {role:?}: {:.1} Gbit/s per core of the stack's thread, {:.2} sleeps per MB, {:.2} allocations per packet, {:.3} copies of each payload byte in user space",
                bytes as f64 * 8.0 / used.cpu_s / 1e9,
                used.sleeps as f64 * 1e6 / bytes as f64,
                used.allocations as f64 / used.packets as f64,
                used.copied_bytes as f64 / bytes as f64,
            );
            ran.sinks.extend(bulk.into_sinks());
            ran
        })
    })
}

fn facade(seconds: Duration, flows: usize, role: Role) -> Ran {
    let ns = namespace();
    ns.run(|| {
        let stack = single::polling(builder(), single::busy_poll()).build().expect("a stack");
        let listener = lowwater::blocking::TcpListener::bind(&stack, (OURS, 9)).expect("the port is free");
        std::thread::scope(|scope| {
            let _end = Finally(|| _ = stack.shutdown_blocking(Duration::ZERO));
            let programs = scope.spawn(|| {
                let serve = |_| {
                    let (stream, _) = listener.accept().expect("a client comes");
                    scope.spawn(move || match role {
                        Role::Discard => discard(&stream),
                        Role::Generate => generate(&stream),
                    })
                };
                (0..flows).map(serve).collect::<Vec<_>>()
            });
            let mut ran =
                kernel_end(SocketAddr::new(OURS.parse().expect("an address"), 9), seconds, flows, role);
            let programs = programs.join().expect("a thread ends");
            ran.sinks.extend(programs.into_iter().map(|program| program.join().expect("a program ends")));
            ran
        })
    })
}

/// Stack and application as tasks of one thread.
fn task(seconds: Duration, flows: usize, role: Role) -> Ran {
    let ns = namespace();
    ns.run(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        let within = runtime.enter();
        let stack = builder().spawn().expect("a stack");
        drop(within);
        let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
        std::thread::scope(|scope| {
            let programs = scope.spawn(|| {
                runtime.block_on(async {
                    let listener =
                        lowwater::TcpListener::bind(&stack, (OURS, 9)).await.expect("the port is free");
                    let mut programs = Vec::new();
                    for _ in 0..flows {
                        let (stream, _) = listener.accept().await.expect("a client comes");
                        programs.push(tokio::spawn(async move {
                            match role {
                                Role::Discard => discard_by_task(&stream).await,
                                Role::Generate => generate_by_task(&stream).await,
                            }
                        }));
                    }
                    let _ = (&mut stopped).await;
                    stack.shutdown(Duration::ZERO).await;
                    let mut sinks = Vec::new();
                    for program in programs {
                        sinks.push(program.await.expect("a program ends"));
                    }
                    sinks
                })
            });
            let mut ran =
                kernel_end(SocketAddr::new(OURS.parse().expect("an address"), 9), seconds, flows, role);
            let _ = stop.send(());
            ran.sinks.extend(programs.join().expect("a thread ends"));
            ran
        })
    })
}

async fn discard_by_task(stream: &lowwater::TcpStream) -> Sink {
    let mut sink = Sink::default();
    while let Ok(Some(piece)) = stream.read_chunk().await {
        sink.read(&piece);
    }
    sink
}

async fn generate_by_task(stream: &lowwater::TcpStream) -> Sink {
    let mut source = Source::default();
    while stream.write_bytes(source.piece()).await.is_ok() {
        source.wrote(WRITE_MAX);
    }
    Sink::default()
}

fn discard(stream: &lowwater::blocking::TcpStream) -> Sink {
    let mut sink = Sink::default();
    while let Ok(Some(piece)) = stream.read_chunk() {
        sink.read(&piece);
    }
    sink
}

fn generate(stream: &lowwater::blocking::TcpStream) -> Sink {
    let mut source = Source::default();
    while stream.write_bytes(source.piece()).is_ok() {
        source.wrote(WRITE_MAX);
    }
    Sink::default()
}

/// A stack for the sockets of programs, on its TUN.
fn builder() -> lowwater::Builder {
    let (own, host) = (format!("{OURS}/24"), format!("{HOST}/24"));
    let options = TunOptions { work: single::work(), ..TunOptions::new("lw0") };
    lowwater::Stack::builder().tun_with(options).address(&own).host_address(&host)
}
