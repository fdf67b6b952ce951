//! A network namespace with the kernel on one side of a TUN and our stack, behind a line with faults, on the other.
use crate::faults::{Control, Faults, Faulty};
use lowwater::core::packet::Packet;
use lowwater::{Direction, Observer, Stack};
use lowwater_os::netns::{NetNs, net_admin};
use lowwater_os::{Layer, Tun, TunOptions};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a call may block before the test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(25);

/// No SYN is longer: IPv6 and TCP headers, all options.
const SYN_AT_MOST: usize = 101;

/// How the namespace is set up.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Captures and observed SYNs are right for IP only.
    pub(crate) layer: Layer,
    pub(crate) offload: bool,
    pub(crate) mtu: u32,
    pub(crate) faults: Faults,
    pub(crate) seed: u64,
    /// Sysctls of the kernel, without `net.ipv4.`.
    pub(crate) kernel: Vec<(&'static str, &'static str)>,
    /// Sysctls of our stack.
    pub(crate) ours: Vec<(&'static str, &'static str)>,
    /// The kernel's congestion control, by socket: a namespace may not choose any by sysctl.
    pub(crate) congestion: &'static str,
}

impl Default for Setup {
    fn default() -> Self {
        let faults = Faults::default();
        Self {
            layer: Layer::Ip,
            offload: true,
            mtu: 1_500,
            faults,
            seed: 1,
            kernel: Vec::new(),
            ours: Vec::new(),
            congestion: "cubic",
        }
    }
}

impl Setup {
    /// The same setting on both sides.
    pub(crate) fn both(mut self, name: &'static str, value: &'static str) -> Self {
        self.kernel.push((name, value));
        self.ours.push((name, value));
        self
    }
}

/// One packet that passed our stack, its checksum possibly unfinished.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) direction: Direction,
    pub(crate) bytes: Vec<u8>,
}

/// What a test works with.
pub(crate) struct World {
    pub(crate) stack: Stack,
    pub(crate) control: Arc<Control>,
    /// Of the line, one way.
    pub(crate) delay: Duration,
    congestion: &'static str,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// An address of the kernel.
pub(crate) fn kernel(v6: bool, port: u16) -> SocketAddr {
    let ip: IpAddr = if v6 { "fd77::1" } else { "10.77.0.1" }.parse().unwrap();
    SocketAddr::new(ip, port)
}

/// An address of our stack.
pub(crate) fn ours(v6: bool, port: u16) -> SocketAddr {
    let ip: IpAddr = if v6 { "fd77::2" } else { "10.77.0.2" }.parse().unwrap();
    SocketAddr::new(ip, port)
}

/// Runs `f` in a fresh namespace, or says why it cannot be had.
pub(crate) fn in_world(setup: &Setup, f: impl FnOnce(&World) + Send) {
    if !net_admin() {
        return;
    }
    NetNs::new().unwrap().run(|| {
        // The host's choices would leak in.
        for (name, value) in [("tcp_rmem", "4096 131072 6291456"), ("tcp_wmem", "4096 16384 4194304")] {
            set_kernel(name, value);
        }
        for (name, value) in &setup.kernel {
            set_kernel(name, value);
        }
        let world = World::new(setup);
        f(&world);
        world.stack.shutdown_blocking(Duration::from_millis(200));
    });
}

fn set_kernel(name: &str, value: &str) {
    let path = format!("/proc/sys/net/ipv4/{name}");
    std::fs::write(&path, value).unwrap_or_else(|e| panic!("{path} = {value}: {e}"));
}

impl World {
    fn new(setup: &Setup) -> Self {
        let options = TunOptions {
            layer: setup.layer,
            offload: setup.offload,
            mtu: setup.mtu,
            ..TunOptions::new("lw0")
        };
        let tun = Tun::open(&options).unwrap();
        let link = tun.link().unwrap();
        link.up().unwrap();
        link.add_address(kernel(false, 0).ip(), 24).unwrap();
        link.add_address(kernel(true, 0).ip(), 64).unwrap();
        let control = Arc::new(Control::default());
        control.set(setup.faults);
        let port = Faulty::new(tun, setup.seed, control.clone()).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut builder = Stack::builder().seed(setup.seed).device(port);
        builder = builder.address("10.77.0.2/24").address("fd77::2/64").observe(observer(seen.clone()));
        // It bounds the window scale, and a namespace cannot change it.
        if let Ok(max) = std::fs::read_to_string("/proc/sys/net/core/rmem_max") {
            builder = builder.sysctl("rmem_max", &max);
        }
        for (name, value) in &setup.ours {
            builder = builder.sysctl(name, value);
        }
        Self {
            stack: builder.build().unwrap(),
            control,
            delay: setup.faults.delay,
            congestion: setup.congestion,
            seen,
        }
    }

    /// The packets with SYN, in order.
    pub(crate) fn syns(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// What helps to understand a failure.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        for line in self.stack.sockets().sockets {
            text += &format!(
                "{:?} {:?} rq {} sq {} {:?}\n",
                line.local, line.state, line.recv_queue, line.send_queue, line.info
            );
        }
        self.stack.counters().each(&mut |group, name, value| {
            if value > 0 {
                text += &format!("{group}.{name} {value}; ");
            }
        });
        if let Ok(ss) = std::process::Command::new("ss").args(["-tinmo"]).output() {
            text += &format!("\nkernel: {}", String::from_utf8_lossy(&ss.stdout));
        }
        text
    }
}

/// Notes the packets with SYN; with LOWWATER_INTEROP_PCAP=directory it also writes all to pcapng files there.
fn observer(seen: Arc<Mutex<Vec<Seen>>>) -> Observer {
    let mut pcap = std::env::var_os("LOWWATER_INTEROP_PCAP").map(|dir| {
        let name = format!(
            "{}-{:?}.pcapng",
            std::thread::current().name().unwrap_or("test"),
            std::time::SystemTime::now()
        );
        let path = std::path::Path::new(&dir).join(name.replace(['/', ' ', ':', '{', '}'], "_"));
        let file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
        let mut writer = lowwater_sim::pcap::PcapWriter::new(file, Default::default(), "interop").unwrap();
        writer.interface("lw0").unwrap();
        writer
    });
    let clock = std::time::Instant::now();
    Box::new(move |_, direction, packet: &Packet| {
        if let Some(writer) = &mut pcap {
            use lowwater_sim::pcap::Direction::{In, Out};
            let way = if direction == Direction::In { In } else { Out };
            let at = lowwater::core::base::Instant::ZERO + clock.elapsed();
            writer.packet(0, at, way, packet, None).unwrap();
        }
        if packet.len() < SYN_AT_MOST {
            let bytes = packet.to_bytes().to_vec();
            if flags(&bytes).is_some_and(|f| f & 2 != 0) {
                seen.lock().unwrap().push(Seen { direction, bytes });
            }
        }
    })
}

/// The flags byte of a TCP packet.
fn flags(packet: &[u8]) -> Option<u8> {
    let (protocol, header) = match packet.first()? >> 4 {
        4 => (packet.get(9)?, 4 * usize::from(packet[0] & 15)),
        _ => (packet.get(6)?, 40),
    };
    if *protocol == 6 { packet.get(header + 13).copied() } else { None }
}

/// A counter of the kernel's in this namespace, by the name that nstat gives it without its group.
pub(crate) fn kernel_counter(name: &str) -> u64 {
    let read = |file| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap();
    let text = read("snmp") + &read("netstat");
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks(2).filter_map(|l| Some(l.first()?.split(' ').zip(l.get(1)?.split(' '))));
    let value = pairs.flatten().find(|(n, _)| *n == name).map(|(_, v)| v.parse().unwrap());
    value.unwrap_or_else(|| panic!("the kernel has no counter {name}"))
}

/// A connection of the kernel's with limits for its patience.
pub(crate) fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The same for ours.
pub(crate) fn patient_ours(stream: lowwater::blocking::TcpStream) -> lowwater::blocking::TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A connection of the kernel's from a port of our choice.
pub(crate) fn kernel_connect_from(from: SocketAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let family = if to.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let fd = socket(family, SocketType::STREAM, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    bind(&fd, &from)?;
    connect(&fd, &to)?;
    Ok(patient(TcpStream::from(fd)))
}

/// A pair of connected sockets: the kernel's and ours, opened by either side.
pub(crate) fn connected(
    world: &World,
    v6: bool,
    kernel_opens: bool,
) -> (TcpStream, lowwater::blocking::TcpStream) {
    use lowwater::blocking::{TcpListener, TcpStream as OurStream};
    let (kernels, our) = if kernel_opens {
        let listener = TcpListener::bind(&world.stack, ours(v6, 7)).unwrap();
        let kernels = TcpStream::connect_timeout(&ours(v6, 7), PATIENCE).unwrap();
        (kernels, listener.accept().unwrap().0)
    } else {
        let listener = std::net::TcpListener::bind(kernel(v6, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let our = OurStream::connect_timeout(&world.stack, &at, PATIENCE).unwrap();
        (listener.accept().unwrap().0, our)
    };
    sockopt::set_tcp_congestion(&kernels, world.congestion).unwrap();
    (patient(kernels), patient_ours(our))
}
