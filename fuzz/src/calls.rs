//! What applications do, in any order and with any name: stale ones, those of other kinds, closed ones.
use crate::craft::PORTS;
use crate::world::{SOCKETS_MAX, Side, World, v4, v6, value_of};
use bytes::Bytes;
use lowwater_core::base::sysctl::CongestionKind;
use lowwater_core::base::{Duration, Instant, Rng, SocketId, Sysctl};
use lowwater_core::socket::{Decision, ListenAddr, ListenOptions};
use lowwater_core::tcp::{How, SendFlags, SocketOptions};
use lowwater_core::udp::MtuDiscovery;
use std::net::{IpAddr, SocketAddr};

/// Most that one call sends.
const CHUNK: u64 = 70_000;

/// The answer of a call that may fail as it likes.
fn ignore<T>(_: T) {}

/// One call. Its answer does not matter: any error is fine, a panic is not.
pub(crate) fn any(world: &mut World, n: usize, rng: &mut Rng) {
    let now = world.now;
    let remote = remote(n, rng);
    let side = &mut world.sides[n];
    if side.stack.open_sockets() < SOCKETS_MAX && (side.ids.len() < 3 || rng.below(5) == 0) {
        open(side, n, now, remote, rng);
        return;
    }
    let Some(id) = pick(side, rng) else { return };
    match rng.below(12) {
        0..4 => send(side, id, now, rng),
        4..8 => receive(side, id, now, rng),
        8 => close(side, id, now, rng),
        9 => decide(side, now, rng),
        10 => options(side, id, now, rng),
        _ => look(side, id, now, remote, rng),
    }
}

/// The newest sockets are the most interesting ones.
fn pick(side: &Side, rng: &mut Rng) -> Option<SocketId> {
    let all = side.ids.len() as u64;
    let recent = if rng.below(4) == 0 { all } else { all.min(8) };
    side.ids.get((all - 1 - rng.below(recent).min(all.checked_sub(1)?)) as usize).copied()
}

fn remote(n: usize, rng: &mut Rng) -> SocketAddr {
    let port = PORTS[rng.below(PORTS.len() as u64) as usize];
    let ip = match rng.below(10) {
        0 => "10.0.0.200".parse().expect("an address"),
        1 => v4(n),
        2 => "::1".parse().expect("an address"),
        3 => "255.255.255.255".parse().expect("an address"),
        4..8 => v4(1 - n),
        _ => v6(1 - n),
    };
    SocketAddr::new(ip, if rng.below(30) == 0 { 0 } else { port })
}

fn open(side: &mut Side, n: usize, now: Instant, remote: SocketAddr, rng: &mut Rng) {
    let options = random_options(side.stack.sysctl(), rng);
    let port = PORTS[rng.below(PORTS.len() as u64) as usize];
    let here = [v4(n), v6(n), IpAddr::from([0, 0, 0, 0]), IpAddr::from([0_u16; 8])][rng.below(4) as usize];
    let opened = match rng.below(8) {
        0..3 => {
            let ip = (rng.below(2) == 0).then_some(here);
            let local =
                ListenAddr { ip, port: [Some(port), Some(port), Some(0), None][rng.below(4) as usize] };
            let backlog = [0, 1, 8, 4_096][rng.below(4) as usize];
            side.stack.tcp_listen(now, local, ListenOptions { backlog, ask: rng.below(4) == 0, options })
        }
        3 => side.stack.udp_bind(now, SocketAddr::new(here, if rng.below(2) == 0 { 0 } else { port })),
        _ => {
            let local = (rng.below(4) == 0).then(|| SocketAddr::new(here, port));
            side.stack.tcp_connect(now, remote, local, &options)
        }
    };
    side.ids.extend(opened);
}

fn send(side: &mut Side, id: SocketId, now: Instant, rng: &mut Rng) {
    let len = if rng.below(2) == 0 { rng.below(100) } else { rng.below(CHUNK) } as usize;
    let flags = SendFlags {
        more: rng.below(4) == 0,
        eor: rng.below(8) == 0,
        oob: rng.below(8) == 0,
        waits: len.is_multiple_of(2),
        resumed: len.is_multiple_of(3),
        goes_on: len.is_multiple_of(5),
    };
    let mut data = Bytes::from(vec![0x5a; len]);
    match rng.below(4) {
        0 => ignore(side.stack.tcp_send(now, id, &data, flags)),
        1 => ignore(side.stack.udp_send(now, id, data)),
        2 => {
            let to = SocketAddr::new(v4(rng.below(3) as usize), PORTS[rng.below(4) as usize]);
            ignore(side.stack.udp_send_to(now, id, data, to));
        }
        _ => ignore(side.stack.tcp_send_bytes(now, id, &mut data, flags)),
    }
}

fn receive(side: &mut Side, id: SocketId, now: Instant, rng: &mut Rng) {
    let len = [0, 1, 100, 4_096, 100_000][rng.below(5) as usize];
    match rng.below(5) {
        0 => ignore(side.stack.tcp_read_chunk(now, id, len)),
        1 => ignore(side.stack.udp_recv_from(now, id)),
        2 => {
            if let Ok((id, _)) = side.stack.tcp_accept(now, id) {
                side.ids.push(id);
            }
        }
        _ => ignore(side.stack.tcp_recv(now, id, &mut vec![0; len], rng.below(4) == 0)),
    }
}

fn close(side: &mut Side, id: SocketId, now: Instant, rng: &mut Rng) {
    let how = [How::Read, How::Write, How::Both][rng.below(3) as usize];
    match rng.below(6) {
        0..3 => ignore(side.stack.shutdown(now, id, how)),
        3 | 4 => ignore(side.stack.close(now, id)),
        _ => ignore(side.stack.abort(now, id)),
    }
}

fn decide(side: &mut Side, now: Instant, rng: &mut Rng) {
    let at = rng.below(side.requests.len() as u64) as usize;
    let Some(request) = side.requests.get(at).copied() else { return };
    let decision =
        [Decision::Accept, Decision::Accept, Decision::Refuse, Decision::Drop][rng.below(4) as usize];
    ignore(side.stack.tcp_decide(now, request, decision));
}

fn options(side: &mut Side, id: SocketId, now: Instant, rng: &mut Rng) {
    let options = random_options(side.stack.sysctl(), rng);
    ignore(side.stack.set_options(now, id, options));
}

/// Options of a socket: half of them as they come, the others anywhere; buffers within what a case may use.
fn random_options(sysctl: &Sysctl, rng: &mut Rng) -> SocketOptions {
    let mut o = SocketOptions::new(sysctl);
    let odd = |rng: &mut Rng| if rng.below(2) == 0 { rng.below(4) as u32 } else { rng.next_u32() };
    for _ in 0..rng.below(6) {
        match rng.below(16) {
            0 => o.nodelay = true,
            1 => o.cork = true,
            2 => o.keepalive = true,
            3 => o.keepidle = odd(rng),
            4 => o.keepintvl = odd(rng),
            5 => o.keepcnt = odd(rng),
            6 => o.linger = Some(Duration::from_secs(rng.below(3))),
            7 => o.linger2 = odd(rng) as i32,
            8 => o.user_timeout_ms = odd(rng),
            9 => o.notsent_lowat = odd(rng),
            10 => o.sndbuf = Some(rng.below(1 << 19) as u32),
            11 => o.rcvbuf = Some(rng.below(1 << 19) as u32),
            12 => o.max_pacing_rate = [0, 1, 1_000, 1_000_000, u64::MAX - 1][rng.below(5) as usize],
            13 => o.maxseg = odd(rng) as u16,
            14 => o.window_clamp = odd(rng),
            _ => {
                o.congestion = CongestionKind::ALL[rng.below(3) as usize];
                o.tos = odd(rng) as u8;
                o.ttl = odd(rng) as u8;
                o.syncnt = odd(rng) as u8;
            }
        }
    }
    o
}

fn discovery(rng: &mut Rng) -> MtuDiscovery {
    [MtuDiscovery::Dont, MtuDiscovery::Want, MtuDiscovery::Do][rng.below(3) as usize]
}

/// Calls that only ask, and those of UDP that connect.
fn look(side: &mut Side, id: SocketId, now: Instant, remote: SocketAddr, rng: &mut Rng) {
    match rng.below(6) {
        0 => ignore(side.stack.udp_connect(now, id, remote)),
        1 => ignore(side.stack.udp_set_mtu_discovery(id, [discovery(rng), discovery(rng)])),
        2 => ignore(side.stack.report(now)),
        3 => ignore(side.stack.tcp_info(now, id)),
        4 => ignore(side.stack.take_error(id)),
        _ => {
            side.stack.poll(now, id);
            ignore((side.stack.local_addr(id), side.stack.peer_addr(id), side.stack.tcp_state(id)));
        }
    }
}

/// Settings by name, MTUs, addresses: what an administrator changes while traffic flows.
pub(crate) fn settings(world: &mut World, n: usize, rng: &mut Rng) {
    let side = &mut world.sides[n];
    match rng.below(4) {
        0 => {
            let mtu = [0, 67, 68, 576, 1_280, 1_500, 65_535][rng.below(7) as usize];
            ignore(side.stack.set_mtu(side.dev, mtu));
        }
        1 => side.stack.set_trace(rng.below(2) == 0),
        _ => {
            let (name, _) = Sysctl::NAMES[rng.below(Sysctl::NAMES.len() as u64) as usize];
            let value = match value_of(name, rng) {
                Some(value) if rng.below(8) > 0 => value,
                // What is refused must change nothing. (Buffers stay within what the judge of memory allows.)
                _ => ["-1", "x", "", "1 2", "0x10", "99999999999999999999"][rng.below(6) as usize].to_owned(),
            };
            ignore(side.stack.set_sysctl(name, &value));
        }
    }
}
