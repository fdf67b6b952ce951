//! Packets that say whose part they are, however they are cut and whichever bit is flipped.
use crate::base::{FlowId, Instant, Rng, SocketId};
use crate::packet::{Csum, GsoKind, Head, Offload, Owner, Packet};
use bytes::Bytes;
use lowwater_wire::{ipv4, protocol, tcp};

/// Low bits of a sequence number or tag that say where in its packet a segment begins.
const PLACE_BITS: u32 = 17;
/// Flows that are associations.
const SCTP_FLOWS: core::ops::RangeInclusive<u16> = 5..=6;
/// Length of the IP header, and with TCP's.
const IP: usize = 20;
const IP_TCP: usize = 40;
/// Payload bytes of a packet, at most: the IP length has 16 bits.
const PAYLOAD_MAX: u64 = 65_000;

fn ip(protocol: u8, payload_len: usize) -> ipv4::Ipv4Repr {
    ipv4::Ipv4Repr {
        tos: 2,
        ident: 1,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol,
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
        payload_len: payload_len as u16,
    }
}

fn tcp_packet(flow: u16, (seq, ack, window): (u32, u32, u16), payload: Bytes) -> Packet {
    let mut head = Head::new();
    let repr = tcp::TcpRepr {
        src_port: 1_000,
        dst_port: flow,
        seq,
        ack,
        flags: tcp::TcpFlags::ACK,
        window,
        urgent: 0,
        options: tcp::TcpOptions::EMPTY,
    };
    repr.emit(head.prepend(repr.buffer_len()));
    let ip = ip(protocol::TCP, head.len() + payload.len());
    ip.emit(head.prepend(ipv4::HEADER_LEN));
    Packet { head, payload, offload: Offload::default(), owner: None, at: Instant::ZERO, priority: None }
}

fn flow_id(flow: u16) -> FlowId {
    FlowId::of(SocketId::from(slotmap::KeyData::from_ffi(1 << 32 | (u64::from(flow) + 1))))
}

fn owner(flow: u16, number: u32) -> Option<Owner> {
    Some(Owner::new(flow_id(flow), number + 1))
}

/// A TCP packet of `flow` with a number in its sequence field; `at` is its departure time.
pub(crate) fn packet(flow: u16, number: u32, len: usize, at: Instant) -> Packet {
    let packet = tcp_packet(flow, (number, 0, 0), Bytes::from(vec![7; len]));
    Packet { owner: owner(flow, number), at, ..packet }
}

/// Port and number of a packet made by [`packet`].
pub(crate) fn label(packet: &Packet) -> (u16, u32) {
    let head = packet.head.as_slice();
    (u16::from_be_bytes([head[22], head[23]]), u32::from_be_bytes([head[24], head[25], head[26], head[27]]))
}

/// Makes numbered packets of all kinds: small ones, super-packets of TCP and of SCTP.
pub(super) struct Maker {
    rng: Rng,
    bytes: Bytes,
    /// Super-packets too.
    pub(super) gso: bool,
}

impl Maker {
    pub(super) fn new(seed: u64, gso: bool) -> Self {
        Self { rng: Rng::new(seed), bytes: Bytes::from(vec![7; PAYLOAD_MAX as usize]), gso }
    }

    /// The next packet of `flow`. Its number is there three times, so that one flipped bit does not hide it.
    pub(super) fn make(&mut self, flow: u16, number: u32, at: Instant) -> Packet {
        assert!(number < 1 << (32 - PLACE_BITS), "the number fits");
        let size = [536, 1_448, 1_448, 4_000][self.rng.below(4) as usize];
        let most = if self.rng.below(2) == 0 { PAYLOAD_MAX } else { 5 * size };
        let large = self.gso && self.rng.below(2) == 0;
        let mut packet = if SCTP_FLOWS.contains(&flow) {
            let packets = if large { 1 + self.rng.below((most / size).max(1)) as usize } else { 1 };
            sctp(flow, number, packets, size as usize)
        } else if large {
            let len = 1 + self.rng.below(most);
            self.tcp(flow, number, len, size as u16)
        } else {
            let len = self.rng.below(1_400);
            self.tcp(flow, number, len, 0)
        };
        (packet.owner, packet.at) = (owner(flow, number), at);
        packet
    }

    fn tcp(&self, flow: u16, number: u32, len: u64, size: u16) -> Packet {
        let marks = (number << PLACE_BITS, number, number as u16);
        let mut packet = tcp_packet(flow, marks, self.bytes.slice(..len as usize));
        packet.offload.csum = Csum::Partial { start: IP as u16, offset: tcp::CHECKSUM_OFFSET as u16 };
        if len > u64::from(size) && size > 0 {
            (packet.offload.gso, packet.offload.gso_size) = (GsoKind::Tcp4, size);
        }
        packet
    }
}

/// So many whole packets of SCTP behind one IP header, the last one shorter.
fn sctp(flow: u16, number: u32, packets: usize, size: usize) -> Packet {
    let mut payload = Vec::with_capacity(packets * size);
    for i in 0..packets {
        let from = payload.len();
        payload.extend([1_000_u16, flow].into_iter().flat_map(u16::to_be_bytes));
        let tag = number << PLACE_BITS | from as u32;
        payload.extend([tag, 0, number, number].into_iter().flat_map(u32::to_be_bytes));
        payload.resize(from + if i + 1 < packets { size } else { 40 }, 7);
    }
    let mut head = Head::new();
    ip(protocol::SCTP, payload.len()).emit(head.prepend(ipv4::HEADER_LEN));
    let mut offload = Offload::default();
    if packets > 1 {
        (offload.gso, offload.gso_size) = (GsoKind::Sctp, size as u16);
    }
    Packet { head, payload: Bytes::from(payload), offload, owner: None, at: Instant::ZERO, priority: None }
}

/// Number of a packet that [`Maker`] made or of a segment of it, and where in it that begins: wrong where a bit of the place was flipped.
pub(super) fn part(packet: &Packet) -> (u32, u32) {
    let word = |bytes: &[u8], at: usize| {
        u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    };
    let (head, payload) = (packet.head.as_slice(), &packet.payload);
    let (mark, others) = if head.len() == IP_TCP {
        let window = u32::from(u16::from_be_bytes([head[34], head[35]]));
        (word(head, 24), [word(head, 28), window])
    } else {
        (word(payload, 4), [word(payload, 12), word(payload, 16)])
    };
    let first = mark >> PLACE_BITS;
    // Of three copies, one may be wrong.
    let number = if first == others[0] || first == others[1] { first } else { others[0] };
    (number, mark & ((1 << PLACE_BITS) - 1))
}
