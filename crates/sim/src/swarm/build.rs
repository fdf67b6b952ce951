//! From drawn options to a world: hosts, pipes, programs.
use super::SeldomDraw;
use super::draw::{AppDraw, CLAMP, CLAMPED, Faults, WorldSpec};
use crate::app::{
    Bulk, BulkSpec, Churn, ChurnSpec, Echo, Pace, Rr, RrSpec, Sink, UdpEcho, UdpPing, UdpPingSpec,
};
use crate::host::HostSpec;
use crate::link::PipeSpec;
use crate::link::spec::{DelaySpec, LossSpec, NicSpec, QueueSpec};
use crate::world::{Recording, To, World};
use lowwater_core::base::{Instant, Rng, Sysctl};
use lowwater_core::device::DeviceCaps;
use lowwater_core::socket::ListenOptions;
use lowwater_core::tcp::SocketOptions;
use std::iter;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Ports of the servers: sinks by reader, echo, and echo over UDP.
const SINK_PORT: u16 = 5_001;
const ECHO_PORT: u16 = 7;
const UDP_PORT: u16 = 9_007;
/// Connections that may wait for the end of their handshake with data in hand.
const FAST_OPENS: u32 = 16;

fn address(v6: bool, host: usize) -> IpAddr {
    let n = host as u16 + 1;
    if v6 {
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n))
    } else {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, n as u8))
    }
}

/// The address of a host in the second network.
fn second_address(v6: bool, host: usize) -> IpAddr {
    let n = host as u16 + 1;
    if v6 {
        IpAddr::V6(Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, n))
    } else {
        IpAddr::V4(Ipv4Addr::new(10, 0, 1, n as u8))
    }
}

fn addresses(draw: &WorldSpec, host: usize) -> Vec<IpAddr> {
    let second = draw.sctp.second.iter().map(|s| second_address(s.v6, host));
    iter::once(address(draw.v6, host)).chain(second).collect()
}

fn settings(draw: &WorldSpec, server: bool) -> Sysctl {
    let mut sysctl = Sysctl::default();
    let set = if server { &draw.server_sysctl } else { &draw.client_sysctl };
    for (name, value) in set.iter().chain(draw.sctp.settings(server)).chain(&draw.seldom.sysctl) {
        sysctl.set(name, value).expect("a drawn setting is legal");
    }
    sysctl
}

fn host(draw: &WorldSpec, index: usize) -> HostSpec {
    // Host 0 is the server.
    let qdisc = draw.qdiscs[usize::from(index == 0)].clone();
    let mut caps =
        if draw.gso { DeviceCaps::offloading(draw.mtu).repeating_cwr() } else { DeviceCaps::plain(draw.mtu) };
    // Super-packets need unfinished checksums, as devices go.
    caps.checksum = draw.checksum_offload || draw.gso;
    caps.sctp = draw.sctp.trains;
    HostSpec {
        sysctl: settings(draw, index == 0),
        caps,
        addresses: addresses(draw, index),
        rx_coalesce_ns: draw.rx_coalesce_ns,
        budget: draw.budget,
        qdisc,
        habits: draw.sctp.habits(index == 0),
    }
}

fn nic(draw: &WorldSpec, rate: u64) -> NicSpec {
    let usual = (20_000, draw.not_now_ppm);
    let (not_now_ns, not_now_ppm) = if draw.seldom.stall.0 > 0 { draw.seldom.stall } else { usual };
    NicSpec {
        rate,
        packets: draw.nic_packets,
        bytes: 0,
        carry: draw.carry,
        not_now_ppm,
        not_now_ns,
        telling: draw.telling,
    }
}

/// The hop with the bottleneck and one direction's faults.
fn hop(draw: &WorldSpec, faults: &Faults, nic: Option<NicSpec>) -> PipeSpec {
    let ms = Instant::from_millis;
    PipeSpec {
        nic,
        mtu: draw.hop_mtu,
        mtu_silent: draw.seldom.black_hole,
        queue: Some(QueueSpec {
            rate: draw.rate,
            packets: draw.queue_packets,
            bytes: 0,
            mark_bytes: draw.mark_bytes,
        }),
        qdisc: None,
        loss: LossSpec {
            random_ppm: faults.loss_ppm,
            to_bad_ppm: faults.burst_ppm.0,
            to_good_ppm: faults.burst_ppm.1,
            bad_ppm: faults.burst_ppm.2,
            blackouts: faults.blackouts_ms.iter().map(|&(a, b)| (ms(a), ms(b))).collect(),
            nth: Vec::new(),
        },
        duplicate_ppm: faults.duplicate_ppm,
        corrupt_ppm: faults.corrupt_ppm,
        delay: DelaySpec {
            delay_ns: draw.delay_ns,
            jitter_ns: faults.jitter_ns,
            reorder_ppm: faults.reorder.0,
            reorder_ns: faults.reorder.1,
        },
    }
}

/// The hops of the networks in one direction (0 to the server, 1 from it), the first network's first.
fn hops(draw: &WorldSpec, way: usize) -> Vec<PipeSpec> {
    let mut first = hop(draw, &draw.faults[way], None);
    let Some(second) = &draw.sctp.second else { return vec![first] };
    let like = WorldSpec { rate: second.rate, delay_ns: second.delay_ns, ..draw.clone() };
    let mut other = hop(&like, &second.faults[way], None);
    for (hop, (from, to)) in [&mut first, &mut other].into_iter().zip(second.dark_ms) {
        if to > from {
            hop.loss.blackouts.push((Instant::from_millis(from), Instant::from_millis(to)));
        }
    }
    vec![first, other]
}

/// Host 0 is the server; clients follow.
pub(super) fn world(draw: &WorldSpec, recording: Recording) -> World {
    let mut world = World::new(draw.seed, recording);
    let server = world.add_host(host(draw, 0));
    let clients: Vec<usize> = (1..=draw.clients).map(|n| world.add_host(host(draw, n))).collect();
    // Devices are some times faster than the bottleneck.
    let fast = draw.rate * 4;
    if let ([client], None) = (&clients[..], &draw.sctp.second) {
        world.add_pipe(Some(*client), &hop(draw, &draw.faults[0], Some(nic(draw, fast))), To::Host(server));
        world.add_pipe(Some(server), &hop(draw, &draw.faults[1], Some(nic(draw, fast))), To::Host(*client));
    } else {
        routed(
            &mut world,
            draw,
            server,
            &clients,
            &PipeSpec { nic: Some(nic(draw, fast)), ..PipeSpec::default() },
        );
    }
    add_programs(&mut world, draw, &clients);
    world
}

/// Hosts behind a router, which has a hop to each address of the server, shared by all clients, and one to each address of each client.
fn routed(world: &mut World, draw: &WorldSpec, server: usize, clients: &[usize], access: &PipeSpec) {
    let shared: Vec<(IpAddr, usize)> = (addresses(draw, server).into_iter().zip(hops(draw, 0)))
        .map(|(ip, hop)| (ip, world.add_pipe(None, &hop, To::Host(server))))
        .collect();
    let mut table = Vec::new();
    for &client in clients {
        world.add_pipe(Some(client), access, To::Router(shared.clone()));
        for (ip, hop) in addresses(draw, client).into_iter().zip(hops(draw, 1)) {
            table.push((ip, world.add_pipe(None, &hop, To::Host(client))));
        }
    }
    world.add_pipe(Some(server), access, To::Router(table));
}

fn socket_options(draw: &WorldSpec, server: bool) -> SocketOptions {
    let mut o = SocketOptions::new(&settings(draw, server));
    o.sndbuf = (draw.sndbuf != 0).then_some(draw.sndbuf);
    o.rcvbuf = (draw.rcvbuf != 0).then_some(draw.rcvbuf);
    drawn_options(&mut o, draw.options[usize::from(server)], draw.rate);
    o.oobinline = draw.seldom.urgent > 0;
    if draw.seldom.fast_open && server {
        o.fastopen = FAST_OPENS;
    }
    o
}

/// What the bits of one side say: each option has two or three of its own, all of which must be set.
fn drawn_options(o: &mut SocketOptions, bits: u32, rate: u64) {
    let set = |mask: u32| bits & mask == mask;
    o.nodelay |= set(0b11);
    o.cork |= set(0b11_1000);
    o.thin_linear_timeouts |= set(0b1100_0000);
    if set(0b11 << 8) {
        // Longer than any network is dark.
        (o.keepalive, o.keepidle, o.keepintvl, o.keepcnt) = (true, 1, 1, 127);
    }
    if set(0b11 << 10) {
        o.notsent_lowat = 8_192;
    }
    if set(0b111 << 12) {
        // Half of the bottleneck's bytes a second.
        o.max_pacing_rate = (rate / 16).max(20_000);
    }
    if set(0b111 << 15) {
        o.maxseg = 600;
    }
    if set(CLAMPED) {
        o.window_clamp = CLAMP;
    }
    if set(0b111 << 21) {
        o.delack_max_us = 5_000;
    }
}

const fn pace(reader: u8) -> Pace {
    match reader {
        0 | 1 => Pace::Eager,
        2 => Pace::Owned,
        _ => Pace::Slow { bytes: 16_384, every_ns: 10_000_000 },
    }
}

fn add_programs(world: &mut World, draw: &WorldSpec, clients: &[usize]) {
    let listen = ListenOptions::new(socket_options(draw, true));
    for reader in 0..4u8 {
        let expected =
            draw.apps.iter().filter(|a| matches!(a, AppDraw::Bulk { reader: r, .. } if *r == reader)).count();
        if expected > 0 {
            let port = SINK_PORT + u16::from(reader);
            world.add_app(0, Box::new(Sink::new(port, listen.clone(), pace(reader), expected)));
        }
    }
    let local = address(draw.v6, 0);
    world.add_app(0, Box::new(Echo::new(ECHO_PORT, listen)));
    world.add_app(0, Box::new(UdpEcho::new(SocketAddr::new(local, UDP_PORT))));
    let sysctl = [&settings(draw, false), &settings(draw, true)];
    super::sctp::add_programs(world, &draw.sctp, clients, sysctl, |host| addresses(draw, host));
    let keys = Rng::new(draw.seed).fork("keys");
    for (n, app) in draw.apps.iter().enumerate() {
        let client = clients[n % clients.len()];
        let key = keys.fork(&n.to_string()).next_u64();
        let options = socket_options(draw, false);
        let seldom = &draw.seldom;
        add_client(world, client, app, key, (address(draw.v6, client), local), (options, seldom));
    }
}

fn add_client(
    world: &mut World,
    client: usize,
    app: &AppDraw,
    key: u64,
    (from, to): (IpAddr, IpAddr),
    (options, seldom): (SocketOptions, &SeldomDraw),
) {
    let (more, urgent) = (seldom.more, seldom.urgent);
    let server = |port| SocketAddr::new(to, port);
    let ms = |n: u64| n * 1_000_000;
    match *app {
        AppDraw::Bulk { bytes, write, owned, reader, start_ms } => {
            let (remote, start) = (server(SINK_PORT + u16::from(reader)), Instant::from_millis(start_ms));
            let gives_up = false;
            let spec = BulkSpec { remote, key, bytes, write, owned, start, options, more, urgent, gives_up };
            world.add_app(client, Box::new(Bulk::new(spec)));
        }
        AppDraw::Rr { rounds, size, think_ms, start_ms } => {
            let (remote, start) = (server(ECHO_PORT), Instant::from_millis(start_ms));
            let spec = RrSpec { remote, key, rounds, size, think_ns: ms(think_ms), start, options, more };
            world.add_app(client, Box::new(Rr::new(spec)));
        }
        AppDraw::Churn { rounds, pause_ms, start_ms } => {
            let (remote, start) = (server(ECHO_PORT), Instant::from_millis(start_ms));
            let spec = ChurnSpec {
                remote,
                rounds,
                start,
                pause_ns: ms(pause_ms),
                options,
                fast_open: seldom.fast_open,
            };
            world.add_app(client, Box::new(Churn::new(spec)));
        }
        AppDraw::Udp { count, size, every_ms, start_ms } => {
            let spec = UdpPingSpec {
                local: SocketAddr::new(from, 0),
                remote: server(UDP_PORT),
                key,
                count,
                size,
                every_ns: ms(every_ms),
                start: Instant::from_millis(start_ms),
            };
            world.add_app(client, Box::new(UdpPing::new(spec)));
        }
    }
}
