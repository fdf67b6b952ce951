//! The frames of a case: as bytes for the guest's socket and as packets for our disciplines, and back.
use super::{Frame, Left};
use bytes::Bytes;
use core::net::Ipv4Addr;
use lowwater_core::base::Instant;
use lowwater_core::packet::{Csum, GsoKind, Head, Offload, Packet};
use lowwater_wire::ether::{EtherAddr, EtherRepr};
use lowwater_wire::ipv4::{Ipv4Repr, Ipv4View};
use lowwater_wire::udp::UdpRepr;
use lowwater_wire::vnet_hdr::{self, VnetHdr};
use lowwater_wire::{checksum, ether, ipv4, protocol, tcp};

const FROM: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const TO: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// Where the frames say that they come from: what else passes is not theirs.
const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 0x51];
const DESTINATION: [u8; 6] = [2, 0, 0, 0, 0, 0x52];
/// Bytes of payload: all the same, so that a struck one shows.
const FILL: u8 = 0x5a;

/// The frame as a packet that leaves `at`.
pub(super) fn packet(frame: &Frame, at: Instant) -> Packet {
    let mut head = Head::new();
    let payload = Bytes::from(vec![FILL; usize::from(frame.len)]);
    let transport = if frame.gso > 0 { protocol::TCP } else { protocol::UDP };
    let mut offload = Offload { csum: Csum::None, ..Offload::default() };
    if frame.gso > 0 {
        let repr = tcp::TcpRepr {
            src_port: frame.flow,
            dst_port: 9,
            seq: 1,
            ack: 1,
            flags: tcp::TcpFlags::ACK,
            window: 1_000,
            urgent: 0,
            options: tcp::TcpOptions::EMPTY,
        };
        let header = head.prepend(repr.buffer_len());
        repr.emit(header);
        let len = header.len() + payload.len();
        tcp::fill_checksum_partial(header, checksum::pseudo_v4(FROM, TO, transport, len));
        offload.csum = Csum::Partial { start: ipv4::HEADER_LEN as u16, offset: tcp::CHECKSUM_OFFSET as u16 };
        (offload.gso, offload.gso_size) = (GsoKind::Tcp4, frame.gso);
    } else {
        let repr = UdpRepr { src_port: frame.flow, dst_port: 9, payload_len: frame.len };
        repr.emit(head.prepend(repr.buffer_len()));
    }
    let ip = Ipv4Repr {
        tos: frame.tos,
        ident: frame.number,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: transport,
        src: FROM,
        dst: TO,
        payload_len: (head.len() + payload.len()) as u16,
    };
    ip.emit(head.prepend(ipv4::HEADER_LEN));
    let link = EtherRepr { dst: EtherAddr(DESTINATION), src: EtherAddr(SOURCE), ethertype: ether::TYPE_IPV4 };
    link.emit(head.prepend(ether::HEADER_LEN));
    Packet { head, payload, offload, owner: None, at, priority: None }
}

/// The packet behind the header that packet sockets want.
pub(super) fn bytes(packet: &Packet) -> Vec<u8> {
    let mut header = VnetHdr::default();
    if packet.offload.gso_size > 0 {
        header.flags = vnet_hdr::F_NEEDS_CSUM;
        header.gso_type = vnet_hdr::GSO_TCPV4;
        header.hdr_len = packet.head.len() as u16;
        header.gso_size = packet.offload.gso_size;
        header.csum_start = (ether::HEADER_LEN + ipv4::HEADER_LEN) as u16;
        header.csum_offset = tcp::CHECKSUM_OFFSET as u16;
    }
    let mut bytes = vec![0; vnet_hdr::LEN];
    header.emit(&mut bytes);
    bytes.extend_from_slice(&packet.to_bytes());
    bytes
}

/// What came out, if it is one of ours. A struck frame is recognized by its length alone: its flow is 0.
pub(super) fn left(frame: &[u8]) -> Option<Left> {
    let (link, ip) = frame.split_at_checked(ether::HEADER_LEN)?;
    let bytes = frame.len() as u32;
    let struck = Left { flow: 0, number: 0, ecn: 0, bytes };
    // A single bit may have been flipped anywhere.
    let differ: u32 = link[6..12].iter().zip(SOURCE).map(|(a, b)| (a ^ b).count_ones()).sum();
    if differ > 1 {
        return None;
    }
    let Some(view) = Ipv4View::parse(ip).ok().filter(|v| v.checksum_ok() && v.src() == FROM) else {
        return Some(struck);
    };
    let header =
        if view.protocol() == protocol::TCP { tcp::HEADER_LEN } else { lowwater_wire::udp::HEADER_LEN };
    let (transport, payload) = view.payload().split_at_checked(header)?;
    let port = u16::from_be_bytes([transport[0], transport[1]]);
    let whole = differ == 0 && transport[2..4] == [0, 9] && payload.iter().all(|b| *b == FILL);
    Some(if whole { Left { flow: port, number: view.ident(), ecn: view.tos() & 3, bytes } } else { struck })
}
