//! ICMP for both families: what an error says, whom it concerns, and the limits on sending our own.
use super::{Ingress, Ip, Outbox, reasm};
use crate::base::{Cx, Rng};
use crate::packet::Packet;
use core::net::IpAddr;

/// What could not be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// The network, or there is no route.
    Net,
    /// The host.
    Host,
    /// The transport protocol.
    Protocol,
    /// The port.
    Port,
    /// Forbidden by an administrator.
    Admin,
}

/// Kind of an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpKind {
    /// Destination unreachable.
    Unreachable(Unreachable),
    /// Too big for a link of this MTU in bytes of IP packet, floor applied, never above the embedded packet's own length.
    TooBig(u16),
    /// TTL or reassembly time ran out.
    TimeExceeded,
    /// A header field was not understood.
    ParamProblem,
}

/// Whose packet an ICMP error is about: the beginning of what we sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Embedded {
    /// Our address.
    pub src: IpAddr,
    /// Where the packet went.
    pub dst: IpAddr,
    /// Its transport protocol.
    pub protocol: u8,
    /// Our port.
    pub src_port: u16,
    /// The other port.
    pub dst_port: u16,
    /// TCP's sequence number, which the transport must find in its window (RFC 5927 section 4.1).
    pub seq: Option<u32>,
}

/// An ICMP error as the flow it concerns sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// What happened.
    pub kind: IcmpKind,
    /// Who says so.
    pub from: IpAddr,
    /// About which packet.
    pub embedded: Embedded,
}

impl IcmpError {
    /// The error that the loss of our own `packet` (from its IP header on, or with a link header of `link_len` bytes) below
    /// the transport amounts to.
    #[must_use]
    pub fn local(packet: &Packet, link_len: usize, kind: IcmpKind) -> Option<Self> {
        let _ = (packet, link_len, kind);
        None
    }
}

/// Rate limit on what we send without being asked by an application.
#[derive(Debug)]
pub struct Limiter {}

impl Limiter {
    pub(super) fn new(rng: &mut Rng) -> Self {
        let _ = rng;
        Self {}
    }
}

impl Ip {
    /// Answers `ingress` with "destination unreachable", within the limits of RFC 1812 section 4.3.2 and RFC 4443 section 2.4.
    pub fn unreachable(&mut self, cx: &mut Cx<'_>, ingress: &Ingress, what: Unreachable, out: &mut Outbox) {
        let _ = (cx, ingress, what, out);
    }

    pub(super) fn reassembly_timed_out(&mut self, cx: &mut Cx<'_>, a: &reasm::Abandoned, out: &mut Outbox) {
        let _ = (cx, a, out);
    }
}
