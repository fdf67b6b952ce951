//! What a queueing discipline reads of a packet: its size on the wire, its flow, its priority, and whether it can be marked.
use crate::base::Rng;
use crate::base::hash::KeyedState;
use crate::packet::Packet;
use core::hash::{BuildHasher as _, Hasher as _};
use lowwater_wire::{ipv4, ipv6, protocol, tcp};

/// Length of an Ethernet address pair, before the type.
const ETHER_TYPE_AT: usize = 12;
const ETHER_ARP: [u8; 2] = [0x08, 0x06];

/// The type of an SCTP packet's first chunk (RFC 9260 section 3.1).
const SCTP_CHUNK_AT: usize = 12;
/// First chunks of packets that belong to no association: INIT ACK, ABORT, SHUTDOWN COMPLETE.
const SCTP_OF_NOBODY: [u8; 3] = [2, 6, 14];

/// Priority of traffic without a wish (`TC_PRIO_BESTEFFORT`).
const PRIO_BEST_EFFORT: u8 = 0;
/// Priority of neighbour discovery and group management (`TC_PRIO_CONTROL`).
pub(super) const PRIO_CONTROL: u8 = 7;

/// The priority that goes with a type of service (`rt_tos2priority`).
#[must_use]
pub const fn of_tos(tos: u8) -> u8 {
    match (tos & 0x1e) >> 1 {
        4..=7 => 2,
        8..=11 => 6,
        12..=15 => 4,
        _ => PRIO_BEST_EFFORT,
    }
}

/// What a queueing discipline must know of the device that it stands before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkFacts {
    /// Bytes of link header in front of each packet.
    pub link_len: usize,
    /// Largest IP packet.
    pub mtu: u16,
    /// Packets of a queue whose limit nobody has set (`txqueuelen`).
    pub tx_queue_len: u32,
}

impl LinkFacts {
    /// Default of Ethernet devices.
    pub const TX_QUEUE_LEN: u32 = 1_000;

    /// Facts of a device without link headers.
    #[must_use]
    pub const fn ip(mtu: u16) -> Self {
        Self { link_len: 0, mtu, tx_queue_len: Self::TX_QUEUE_LEN }
    }

    /// Largest frame (`psched_mtu`).
    #[must_use]
    pub const fn frame(&self) -> u32 {
        self.mtu as u32 + self.link_len as u32
    }
}

/// Size of a packet: what statistics count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Bytes on the wire, each segment's headers included (`qdisc_pkt_len`).
    pub(super) len: u32,
    /// Packets on the wire.
    pub(super) segs: u32,
}

impl Size {
    pub(super) fn of(packet: &Packet) -> Self {
        let (len, gso) = (packet.len() as u32, u32::from(packet.offload.gso_size));
        if gso == 0 {
            return Self { len, segs: 1 };
        }
        let head =
            if packet.head.is_empty() { headers_len(&packet.payload) } else { packet.head.len() as u32 };
        let segs = len.saturating_sub(head).div_ceil(gso).max(1);
        Self { len: len + (segs - 1) * head, segs }
    }
}

/// Headers of a super-packet that came in one piece, without a link header.
fn headers_len(bytes: &[u8]) -> u32 {
    let Some((l3, _)) = ip_header(bytes) else { return 0 };
    bytes.get(l3..).and_then(|b| tcp::TcpView::parse(b).ok()).map_or(0, |t| (l3 + t.header_len()) as u32)
}

/// A connection sent it. Nobody's are the SYN-ACK of a request, and what answers a segment that belongs to no connection: a reset without ACK,
/// or one with the number 0 (RFC 9293 section 3.10.7.1).
fn is_of_connection(segment: &tcp::TcpView<'_>) -> bool {
    let flags = segment.flags();
    let is_reset_of_nobody =
        flags.contains(tcp::TcpFlags::RST) && (!flags.contains(tcp::TcpFlags::ACK) || segment.seq() == 0);
    !(flags.contains(tcp::TcpFlags::SYN) || is_reset_of_nobody)
}

/// Length of the IP header and its traffic class.
fn ip_header(bytes: &[u8]) -> Option<(usize, u8)> {
    match bytes.first()? >> 4 {
        4 => ipv4::Ipv4View::parse_quoted(bytes).ok().map(|v| (v.header_len(), v.tos())),
        6 => ipv6::Ipv6View::parse_quoted(bytes).ok().map(|v| (ipv6::HEADER_LEN, v.traffic_class())),
        _ => None,
    }
}

/// Whose packet it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowKey {
    /// Hash of addresses, protocol and ports under a key of the queue's own. Two flows share one with probability 2^-64.
    pub(super) hash: u64,
    /// It comes from a connection or another socket of this stack, not from the stack as such (SYN-ACK, RST, ICMP).
    pub(super) socket: bool,
}

/// Reads packets for one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    pub(super) link: LinkFacts,
    key: KeyedState,
}

impl Default for Reader {
    fn default() -> Self {
        Self { link: LinkFacts::ip(1_500), key: KeyedState::new(0, 0) }
    }
}

impl Reader {
    /// A reader whose hashes no peer can foresee.
    pub(super) fn new(link: &LinkFacts, rng: &mut Rng) -> Self {
        Self { link: *link, key: KeyedState::new(rng.next_u64(), rng.next_u64()) }
    }

    /// The IP header and what follows, as far as it lies in one piece.
    fn ip<'a>(&self, packet: &'a Packet) -> &'a [u8] {
        let bytes = if packet.head.is_empty() { &packet.payload } else { packet.head.as_slice() };
        bytes.get(self.link.link_len..).unwrap_or(&[])
    }

    pub(super) fn flow(&self, packet: &Packet) -> FlowKey {
        let ip = self.ip(packet);
        let mut hash = self.key.build_hasher();
        let (transport, payload) = match ip.first().map(|b| b >> 4) {
            Some(4) => match ipv4::Ipv4View::parse_quoted(ip) {
                Ok(v) if !v.is_fragment() => {
                    hash.write(&ip[12..20]);
                    (v.protocol(), v.payload())
                }
                Ok(v) => {
                    // Later fragments have no ports: all go by their addresses, so that they stay together.
                    hash.write(&ip[12..20]);
                    hash.write_u8(v.protocol());
                    return FlowKey { hash: hash.finish(), socket: packet.owner.is_some() };
                }
                Err(_) => (0, ip),
            },
            Some(6) => match ipv6::Ipv6View::parse_quoted(ip) {
                Ok(v) => {
                    hash.write(&ip[8..40]);
                    (v.next_header(), v.payload())
                }
                Err(_) => (0, ip),
            },
            _ => (0, ip),
        };
        hash.write_u8(transport);
        let mut socket = packet.owner.is_some();
        // Several packets of SCTP have their headers behind the head.
        let payload = if payload.is_empty() { &packet.payload } else { payload };
        if matches!(transport, protocol::TCP | protocol::UDP | protocol::SCTP)
            && let Some(ports) = payload.get(..4)
        {
            hash.write(ports);
        }
        if transport == protocol::TCP && !socket {
            // Nobody pays for a pure acknowledgement or for the reset that ends a connection, yet they belong to its flow, or they
            // would be overtaken, and the reset would overtake.
            socket = tcp::TcpView::parse(payload).is_ok_and(|segment| is_of_connection(&segment));
        }
        if transport == protocol::SCTP && !socket {
            // Nor for SACKs and heartbeats. Answers of listeners and to strangers begin otherwise.
            socket = payload.get(SCTP_CHUNK_AT).is_some_and(|kind| !SCTP_OF_NOBODY.contains(kind));
        }
        FlowKey { hash: hash.finish(), socket }
    }

    /// It has a departure time from its transport, as all of TCP has (`tcp_wstamp_ns`).
    pub(super) fn has_departure(&self, packet: &Packet) -> bool {
        let ip = self.ip(packet);
        let protocol = match ip.first().map(|b| b >> 4) {
            Some(4) => ip.get(9),
            Some(6) => ip.get(6),
            _ => None,
        };
        protocol == Some(&protocol::TCP)
    }

    /// The type of service or traffic class; `None` of what is not IP.
    pub(super) fn class(&self, packet: &Packet) -> Option<u8> {
        ip_header(self.ip(packet)).map(|(_, class)| class)
    }

    /// What its socket asks for (SO_PRIORITY), or the priority that Linux's sockets have for this type of service (`rt_tos2priority`), which
    /// IP_TOS sets; IPV6_TCLASS does not.
    pub(super) fn priority(&self, packet: &Packet) -> u8 {
        if let Some(priority) = packet.priority {
            return priority & 15;
        }
        let ip = self.ip(packet);
        let bytes = if packet.head.is_empty() { &packet.payload } else { packet.head.as_slice() };
        if self.link.link_len > 0 && bytes.get(ETHER_TYPE_AT..ETHER_TYPE_AT + 2) == Some(&ETHER_ARP[..]) {
            return PRIO_CONTROL;
        }
        let Some((l3, class)) = ip_header(ip) else { return PRIO_BEST_EFFORT };
        let (v6, transport) = (ip[0] >> 4 == 6, if ip[0] >> 4 == 6 { ip[6] } else { ip[9] });
        // Neighbour discovery (RFC 4861) and IGMP.
        let discovery =
            v6 && transport == protocol::ICMPV6 && ip.get(l3).is_some_and(|t| (133..=137).contains(t));
        if discovery || (!v6 && transport == protocol::IGMP) {
            return PRIO_CONTROL;
        }
        if v6 {
            return PRIO_BEST_EFFORT;
        }
        of_tos(class)
    }

    /// Marks the packet "congestion experienced" where its transport can hear it (RFC 3168 section 5); false where it cannot.
    pub(super) fn mark(&self, packet: &mut Packet) -> bool {
        let at = self.link.link_len;
        if !packet.head.is_empty() {
            return packet.head.as_mut_slice().get_mut(at..).is_some_and(set_ce);
        }
        let mut bytes = bytes::BytesMut::from(core::mem::take(&mut packet.payload));
        let marked = bytes.get_mut(at..).is_some_and(set_ce);
        packet.payload = bytes.freeze();
        marked
    }
}

fn set_ce(ip: &mut [u8]) -> bool {
    match ip.first().map(|b| b >> 4) {
        Some(4) => ipv4::set_ce(ip),
        Some(6) => ipv6::set_ce(ip),
        _ => false,
    }
}
