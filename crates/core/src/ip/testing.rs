//! What the tests of this layer share: a context that is owned, and hosts to put into it.
use super::{Cidr, Iface, Ip, Link, Outbox, OutputParams, Route};
use crate::base::trace::Trace;
use crate::base::{Counters, Cx, DeviceId, Duration, Instant, Pool, Rng, Sysctl};
use crate::packet::{Csum, Head, Offload, Packet};
use bytes::Bytes;
use core::net::{IpAddr, SocketAddr};
use lowwater_wire::{checksum, protocol, udp};

/// Everything that a context borrows.
pub(super) struct World {
    pub(super) now: Instant,
    pub(super) rng: Rng,
    pub(super) sysctl: Sysctl,
    pub(super) count: Counters,
    pub(super) trace: Trace,
    pub(super) pool: Pool,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            now: Instant::from_millis(1_000),
            rng: Rng::new(seed),
            sysctl: Sysctl::default(),
            count: Counters::default(),
            trace: Trace::default(),
            pool: Pool::default(),
        }
    }

    pub(super) fn cx(&mut self) -> Cx<'_> {
        Cx {
            now: self.now,
            rng: &mut self.rng,
            sysctl: &self.sysctl,
            count: &mut self.count,
            trace: &mut self.trace,
            pool: &mut self.pool,
            pressure: crate::base::Pressure::Low,
            share: u64::MAX,
            orphans: 0,
            socket: None,
        }
    }

    pub(super) fn sleep(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
    }
}

pub(super) const DEV: DeviceId = DeviceId(0);

pub(super) fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub(super) fn cidr(text: &str) -> Cidr {
    text.parse().expect("a prefix")
}

/// A host with one device, the addresses 10.0.0.`n` and fd00::`n`, and default routes through 1.
pub(super) fn host(w: &mut World, n: u8, link: Link) -> Ip {
    let mut host = Ip::new(&mut w.rng);
    host.add_device(DEV, Iface::new(link, 1500)).expect("room");
    host.add_address(DEV, cidr(&format!("10.0.0.{n}/24"))).expect("free");
    host.add_address(DEV, cidr(&format!("fd00::{n}/64"))).expect("free");
    host.add_route(Route::via(cidr("0.0.0.0/0"), ip("10.0.0.1"), DEV)).expect("room");
    host.add_route(Route::via(cidr("::/0"), ip("fd00::1"), DEV)).expect("room");
    host
}

/// A UDP packet without IP header, checksum partial as a flow makes it.
pub(super) fn udp_packet(src: SocketAddr, dst: SocketAddr, len: usize) -> Packet {
    let payload: Vec<u8> = (0..len).map(|n| (n * 11 + n / 256) as u8).collect();
    let repr = udp::UdpRepr { src_port: src.port(), dst_port: dst.port(), payload_len: len as u16 };
    let mut head = Head::new();
    let header = head.prepend(repr.buffer_len());
    repr.emit(header);
    let pseudo = match (src.ip(), dst.ip()) {
        (IpAddr::V4(s), IpAddr::V4(d)) => checksum::pseudo_v4(s, d, protocol::UDP, len + 8),
        (IpAddr::V6(s), IpAddr::V6(d)) => checksum::pseudo_v6(s, d, protocol::UDP, len + 8),
        _ => panic!("one family"),
    };
    udp::fill_checksum_partial(header, pseudo);
    let csum = Csum::Partial { start: 0, offset: udp::CHECKSUM_OFFSET as u16 };
    let offload = Offload { csum, ..Offload::default() };
    Packet { head, payload: Bytes::from(payload), offload, owner: None, at: Instant::ZERO, priority: None }
}

/// Sends a UDP datagram of `len` bytes from port 1000 to port 2000; returns the frames.
pub(super) fn send_udp(w: &mut World, from: &mut Ip, src: &str, dst: &str, len: usize) -> Outbox {
    let mut out = Outbox::default();
    let (src, dst) = (ip(src), ip(dst));
    let params = OutputParams::new(src, dst, protocol::UDP);
    let packet = udp_packet(SocketAddr::new(src, 1000), SocketAddr::new(dst, 2000), len);
    from.send(&mut w.cx(), &params, packet, &mut out).expect("a route");
    out
}

/// The packet as a device delivers it, checksum unknown to be good.
pub(super) fn flat(packet: &Packet) -> Packet {
    Packet::received(packet.to_bytes(), Offload::default(), packet.at)
}
