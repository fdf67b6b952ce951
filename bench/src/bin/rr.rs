//! Request and response of one byte by TCP and by UDP, and connect with close: the stack and the kernel over TUN, beside kernel and kernel over veth.
//!
//! `rr [--seconds S] [--pairs N] [--what W] [--only ROW,...] [--busy-poll US] [--place same|apart] [--work W]`: needs root and iproute2. Every side is one thread that sleeps while it waits;
//! TCP_NODELAY is set; rounds interleave the rows, of each row the median counts, and a ratio is one within its round (`rounds`).
#![forbid(unsafe_code)]
use lowwater_bench::args;
use lowwater_bench::datagrams;
use lowwater_bench::rounds::{Quartiles, median};
use lowwater_bench::single::{self, Asker, Echo, Single, Used};
use lowwater_os::TunOptions;
use lowwater_os::netns::NetNs;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const OURS: &str = "10.77.0.2";
const HOST: &str = "10.77.0.1";
/// Ephemeral ports of the kernel in each namespace, and connections of one run: each stays in TIME-WAIT, and the kernel's
/// connect() tries ports in turn (half of them at first) until one is free. With most of them taken that search would be
/// nearly all that is measured.
const PORTS: &str = "1024 65535";
const CONNECTIONS_MAX: u64 = 6_000;

/// What is repeated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// One byte there and back on one connection.
    Ask,
    /// A connection opened and closed.
    Connect,
    /// One byte there and back by UDP.
    Datagram,
}

/// What one run gave.
#[derive(Clone, Copy)]
struct Rate {
    per_second: f64,
    done: f64,
}

impl Rate {
    fn over(done: u64, took: Duration) -> Self {
        Self { per_second: done as f64 / took.as_secs_f64(), done: done as f64 }
    }
}

/// What one run of a row gave.
#[derive(Clone, Copy)]
struct Measured {
    per_second: f64,
    /// Processor time of one of them.
    cpu_us: f64,
}

type Run = fn(What, Duration, Option<Duration>) -> Rate;

struct Row {
    name: &'static str,
    run: Run,
    /// The stack's thread looks at its device before it sleeps, as `--busy-poll` says.
    busy: bool,
    /// It can serve datagrams too.
    udp: bool,
}

const ROWS: [Row; 8] = [
    Row { name: "kernel <-> kernel, veth", run: veth, busy: false, udp: true },
    Row { name: "kernel -> stack, TUN", run: server, busy: true, udp: false },
    Row { name: "stack -> kernel, TUN", run: client, busy: true, udp: false },
    Row { name: "kernel -> stack, TUN, never busy polling", run: server, busy: false, udp: false },
    Row { name: "stack -> kernel, TUN, never busy polling", run: client, busy: false, udp: false },
    Row { name: "kernel -> stack, TUN, facade", run: facade_server, busy: true, udp: true },
    Row { name: "kernel -> stack, TUN, task of tokio", run: task_server, busy: false, udp: true },
    Row { name: "kernel -> stack, TUN, task that busy polls", run: task_server, busy: true, udp: true },
];

fn main() {
    args::check(
        "rr [--seconds S] [--pairs N] [--what ask|connect|datagram] [--only ROW,...] [--busy-poll US] [--place same|apart] \
         [--work auto|inline|spread|thread]",
    );
    if let Err(why) = lowwater_os::netns::can_net_admin() {
        eprintln!("skipped: needs {why}");
        std::process::exit(77);
    }
    let seconds = Duration::from_secs(args::number("--seconds", 2, 1, 3_600));
    let busy = single::busy_poll();
    let only = args::numbers("--only", 0, ROWS.len() as u64 - 1);
    let what = args::word("--what");
    for (what, unit) in match what.as_deref() {
        Some("ask") => &[(What::Ask, "round trips")][..],
        Some("connect") => &[(What::Connect, "connections")],
        Some("datagram") => &[(What::Datagram, "datagrams there and back")],
        None => &[
            (What::Ask, "round trips"),
            (What::Connect, "connections"),
            (What::Datagram, "datagrams there and back"),
        ],
        Some(other) => args::refuse("--what", &"ask, connect or datagram", other),
    } {
        let runs = |(at, row): &(u64, &Row)| {
            only.as_ref().is_none_or(|only| only.contains(at)) && (row.udp || *what != What::Datagram)
        };
        let rows: Vec<_> = (0..).zip(&ROWS).filter(runs).collect();
        // Connections end a run early, so that more of them take as long.
        let pairs = args::number("--pairs", if *what == What::Connect { 15 } else { 5 }, 1, 1_000);
        let mut runs: Vec<Vec<Measured>> = vec![Vec::new(); rows.len()];
        for _ in 0..pairs {
            for ((_, row), runs) in rows.iter().zip(&mut runs) {
                let cpu = cpu_us();
                let rate = (row.run)(*what, seconds, if row.busy { busy } else { Some(Duration::ZERO) });
                runs.push(Measured { per_second: rate.per_second, cpu_us: (cpu_us() - cpu) / rate.done });
            }
        }
        for ((_, row), of_row) in rows.iter().zip(&runs) {
            report(row.name, unit, of_row, &runs[0]);
        }
    }
}

/// One row: medians, and its ratios to the first row that runs.
fn report(name: &str, unit: &str, runs: &[Measured], yardstick: &[Measured]) {
    let rate = |run: &Measured| run.per_second;
    let per_cpu = |run: &Measured| 1.0 / run.cpu_us;
    let ratio =
        |of: fn(&Measured) -> f64| Quartiles::of_ratios(runs.iter().map(of), yardstick.iter().map(of));
    let (Some(by_time), Some(by_cpu)) = (ratio(rate), ratio(per_cpu)) else { return };
    println!(
        "{name}: {:.0} {unit}/s, ratio {by_time}; {:.2} us of processor time each, ratio {by_cpu}",
        median(runs.iter().map(rate)),
        median(runs.iter().map(|run| run.cpu_us)),
    );
}

/// Processor time of this process, all threads and what the kernel does in them.
fn cpu_us() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 * 1e6 + t.tv_nsec as f64 / 1e3
}

/// The kernel's end that answers.
enum KernelServer {
    Stream(TcpListener),
    Datagram(UdpSocket),
}

impl KernelServer {
    fn bind(addr: SocketAddr, what: What) -> Self {
        match what {
            What::Datagram => Self::Datagram(UdpSocket::bind(addr).expect("the port is free")),
            What::Ask | What::Connect => Self::Stream(TcpListener::bind(addr).expect("the port is free")),
        }
    }

    fn serve(&self, what: What) {
        place(false);
        match self {
            Self::Stream(listener) => kernel_server(listener, what),
            Self::Datagram(socket) => datagrams::answer(socket),
        }
    }
}

/// The kernel's server: it serves one connection after the other until a client that says nothing has come and gone.
fn kernel_server(listener: &TcpListener, what: What) {
    let mut byte = [0; 64];
    for _ in 0..if what == What::Ask { 1 } else { u64::MAX } {
        let Ok((mut stream, _)) = listener.accept() else { return };
        stream.set_nodelay(true).expect("a socket takes the option");
        while let Ok(n @ 1..) = stream.read(&mut byte) {
            if byte[0] == b'q' || stream.write_all(&byte[..n]).is_err() {
                return;
            }
        }
    }
}

/// The kernel's client; how often it succeeded.
fn kernel_client(addr: SocketAddr, what: What, time: Duration) -> Rate {
    place(true);
    if what == What::Datagram {
        let (done, took) = datagrams::ask(addr, time).expect("the server answers");
        return Rate::over(done, took);
    }
    let connect = || {
        let stream = TcpStream::connect(addr).expect("the server answers");
        stream.set_nodelay(true).expect("a socket takes the option");
        stream
    };
    let (mut done, mut byte) = (0u64, [b'x']);
    let mut stream = connect();
    let start = Instant::now();
    while start.elapsed() < time && done < CONNECTIONS_MAX * if what == What::Ask { 1_000 } else { 1 } {
        match what {
            What::Ask => {
                stream.write_all(&byte).expect("the connection lives");
                stream.read_exact(&mut byte).expect("the connection lives");
            }
            What::Connect => {
                // Our end, the server's in answer, and the next one.
                stream.shutdown(Shutdown::Write).expect("the connection lives");
                assert_eq!(stream.read(&mut byte).expect("the server closes"), 0);
                stream = connect();
            }
            What::Datagram => unreachable!("asked above"),
        }
        done += 1;
    }
    let rate = Rate::over(done, start.elapsed());
    if what == What::Connect {
        // Ends a server of the kernel's; ours echoes it.
        let _ = stream.write_all(b"q");
    }
    rate
}

/// A namespace with all ports.
fn namespace() -> NetNs {
    let namespace = NetNs::new().expect("a namespace");
    // What a thread of the namespace opens there is the namespace's own.
    namespace.run(|| std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", PORTS)).expect("ports");
    namespace
}

fn veth(what: What, time: Duration, _: Option<Duration>) -> Rate {
    let (a, b) = (namespace(), namespace());
    let mut holder = b.run(|| Command::new("sleep").arg("60").spawn()).expect("sleep runs");
    a.run(|| {
        ip(&format!("link add lwa type veth peer name lwb netns {}", holder.id()));
        ip("addr add 10.78.0.1/24 dev lwa");
        ip("link set lwa up");
    });
    b.run(|| {
        ip("addr add 10.78.0.2/24 dev lwb");
        ip("link set lwb up");
    });
    let _ = holder.kill();
    let _ = holder.wait();
    let addr: SocketAddr = "10.78.0.2:9".parse().expect("an address");
    std::thread::scope(|scope| {
        let server = b.run(|| KernelServer::bind(addr, what));
        let server = scope.spawn(move || server.serve(what));
        let rate = a.run(|| kernel_client(addr, what, time));
        server.join().expect("the server ends");
        rate
    })
}

/// Puts the calling thread on a processor: the server on the first, the client on the same or on the second (`--place same`,
/// `--place apart`); without the word the scheduler decides.
fn place(client: bool) {
    let cpu = match args::word("--place").as_deref() {
        Some("same") => 0,
        Some("apart") => usize::from(client),
        None => return,
        Some(other) => args::refuse("--place", &"same or apart", other),
    };
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).expect("there is such a processor");
}

fn ip(args: &str) {
    let status = Command::new("ip").args(args.split(' ')).status().expect("ip runs");
    assert!(status.success(), "ip {args}");
}

/// The stack as server of a kernel's client.
fn server(what: What, time: Duration, busy: Option<Duration>) -> Rate {
    namespace().run(|| {
        let mut single = Single::open("lw0", OURS, HOST, single::work()).busy_poll(busy);
        let stop = single.stopper();
        std::thread::scope(|scope| {
            let stack = scope.spawn(move || {
                place(false);
                single.serve(&mut Echo)
            });
            let rate = kernel_client(SocketAddr::new(OURS.parse().expect("an address"), 9), what, time);
            stop();
            say(&stack.join().expect("the stack's thread ends"), rate.done);
            rate
        })
    })
}

/// The same by the sockets of programs: the stack has a thread, the server another one.
fn facade_server(what: What, time: Duration, busy: Option<Duration>) -> Rate {
    namespace().run(|| {
        let (stack, driver) = single::polling(builder(), busy).build_driver().expect("a stack");
        let serve = facade_end(&stack, what);
        std::thread::scope(|scope| {
            let ran = scope.spawn(move || {
                place(false);
                driver.run();
            });
            let server = scope.spawn(move || {
                place(false);
                serve();
            });
            let rate = kernel_client(SocketAddr::new(OURS.parse().expect("an address"), 9), what, time);
            server.join().expect("the server ends");
            stack.shutdown_blocking(Duration::ZERO);
            ran.join().expect("the stack's thread ends");
            rate
        })
    })
}

/// What the server does, once its port is its own.
fn facade_end(stack: &lowwater::Stack, what: What) -> Box<dyn FnOnce() + Send> {
    if what == What::Datagram {
        let socket = lowwater::blocking::UdpSocket::bind(stack, (OURS, 9)).expect("the port is free");
        return Box::new(move || datagrams::answer_blocking(&socket));
    }
    let listener = lowwater::blocking::TcpListener::bind(stack, (OURS, 9)).expect("the port is free");
    Box::new(move || {
        while let Ok((stream, _)) = listener.accept() {
            if echo(&stream) == Echoed::Enough || what == What::Ask {
                break;
            }
        }
    })
}

/// The same with the stack and the server as tasks of one thread.
fn task_server(what: What, time: Duration, busy: Option<Duration>) -> Rate {
    namespace().run(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        let within = runtime.enter();
        // A task does not look unless it is told for how long.
        let stack = builder().busy_poll(busy.unwrap_or(lowwater_os::BUSY_POLL)).spawn().expect("a stack");
        drop(within);
        std::thread::scope(|scope| {
            let server = scope.spawn(|| {
                place(false);
                runtime.block_on(async {
                    match what {
                        What::Datagram => {
                            let socket = lowwater::UdpSocket::bind(&stack, (OURS, 9)).await;
                            datagrams::answer_by_task(&socket.expect("the port is free")).await;
                        }
                        What::Ask | What::Connect => streams_by_task(&stack, what).await,
                    }
                    stack.shutdown(Duration::ZERO).await;
                });
            });
            let rate = kernel_client(SocketAddr::new(OURS.parse().expect("an address"), 9), what, time);
            server.join().expect("the server ends");
            rate
        })
    })
}

async fn streams_by_task(stack: &lowwater::Stack, what: What) {
    let listener = lowwater::TcpListener::bind(stack, (OURS, 9)).await.expect("the port is free");
    while let Ok((stream, _)) = listener.accept().await {
        if echo_by_task(stream).await == Echoed::Enough || what == What::Ask {
            break;
        }
    }
}

async fn echo_by_task(mut stream: lowwater::TcpStream) -> Echoed {
    let mut byte = [0; 64];
    stream.set_nodelay(true).expect("a socket takes the option");
    while let Ok(n @ 1..) = AsyncReadExt::read(&mut stream, &mut byte).await {
        if byte[0] == b'q' || stream.write_all(&byte[..n]).await.is_err() {
            return Echoed::Enough;
        }
    }
    Echoed::All
}

#[derive(PartialEq, Eq)]
enum Echoed {
    All,
    Enough,
}

fn echo(mut stream: &lowwater::blocking::TcpStream) -> Echoed {
    let mut byte = [0; 64];
    stream.set_nodelay(true).expect("a socket takes the option");
    while let Ok(n @ 1..) = stream.read(&mut byte) {
        if byte[0] == b'q' || stream.write_all(&byte[..n]).is_err() {
            return Echoed::Enough;
        }
    }
    Echoed::All
}

/// The stack as client of a kernel's server.
fn client(what: What, time: Duration, busy: Option<Duration>) -> Rate {
    namespace().run(|| {
        let mut single = Single::open("lw0", OURS, HOST, single::work()).busy_poll(busy);
        let addr: SocketAddr = SocketAddr::new(HOST.parse().expect("an address"), 9);
        let server = KernelServer::bind(addr, what);
        std::thread::scope(|scope| {
            let server = scope.spawn(move || server.serve(what));
            let (start, limit) = (Instant::now(), if what == What::Ask { u64::MAX } else { CONNECTIONS_MAX });
            let mut asker = Asker::new(addr, what == What::Connect, start + time, limit);
            place(true);
            let used = single.serve(&mut asker);
            let took = asker.over.map_or(time, |end| end - start);
            let rate = Rate::over(asker.done, took);
            say(&used, rate.done);
            if what == What::Connect {
                kernel_client(addr, what, Duration::ZERO);
            }
            server.join().expect("the server ends");
            rate
        })
    })
}

fn say(used: &Used, times: f64) {
    if std::env::var_os("LOWWATER_BENCH_VERBOSE").is_some() {
        eprintln!(
            "  {:.2} us of the stack's thread, {:.2} sleeps, {:.1} packets each time",
            used.cpu_s * 1e6 / times,
            used.sleeps as f64 / times,
            used.packets as f64 / times
        );
    }
}

/// A stack for the sockets of programs, on its TUN.
fn builder() -> lowwater::Builder {
    let (own, host) = (format!("{OURS}/24"), format!("{HOST}/24"));
    let options = TunOptions { work: single::work(), ..TunOptions::new("lw0") };
    lowwater::Stack::builder().tun_with(options).address(&own).host_address(&host)
}
