//! Writes what the peer sends, with its checksums; payload is zeros.
use super::read::pseudo;
use super::{Body, Icmp, Ip, Quote, Sctp, Tcp, Udp, Wire};
use crate::options;
use crate::sctp::{self, Crc};
use bytes::Bytes;
use core::net::IpAddr;
use lowwater_wire::sctp::{SctpRepr, fill_checksum};
use lowwater_wire::{checksum, ipv4, ipv6, protocol};

/// Bytes of a quoted packet behind its IP header, besides the payload that the script asks for: ports and sequence number.
const QUOTED_BYTES: usize = 8;

impl Wire {
    /// The packet as bytes.
    pub(crate) fn write(&self) -> Bytes {
        let v6 = self.ip.dst.is_ipv6();
        if let Body::Sctp(sctp @ Sctp { udp: None, .. }) = &self.body {
            let l4 = association(sctp);
            let mut out = header(&self.ip, protocol::SCTP, l4.len());
            out.extend(l4);
            return out.into();
        }
        let (proto, mut l4, at) = match &self.body {
            Body::Tcp(tcp) => (protocol::TCP, segment(tcp), 16),
            Body::Udp(udp) => (protocol::UDP, datagram(*udp), 6),
            Body::Icmp(icmp) => (if v6 { protocol::ICMPV6 } else { protocol::ICMP }, message(*icmp), 2),
            Body::Sctp(sctp) => {
                let (inner, (src_port, dst_port)) = (association(sctp), sctp.udp.unwrap_or_default());
                let mut l4 = datagram(Udp { src_port, dst_port, len: inner.len() as u16 });
                l4[8..].copy_from_slice(&inner);
                (protocol::UDP, l4, 6)
            }
        };
        let cover =
            if proto == protocol::ICMP { 0 } else { pseudo(self.ip.src, self.ip.dst, proto, l4.len()) };
        let sum = checksum::finish(u64::from(checksum::fold(cover)) + checksum::sum(&l4));
        // RFC 768: a checksum of zero would mean none.
        let sum = if proto == protocol::UDP && sum == 0 { 0xffff } else { sum };
        if let Some(field) = l4.get_mut(at..at + 2) {
            field.copy_from_slice(&sum.to_be_bytes());
        }
        let mut out = header(&self.ip, proto, l4.len());
        out.extend(l4);
        out.into()
    }
}

fn header(ip: &Ip, proto: u8, len: usize) -> Vec<u8> {
    match (ip.src, ip.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let repr = ipv4::Ipv4Repr {
                src,
                dst,
                protocol: proto,
                ttl: ip.ttl,
                tos: ip.tos,
                ident: 0,
                dont_fragment: false,
                more_fragments: false,
                fragment_offset: 0,
                payload_len: len as u16,
            };
            let mut head = vec![0; repr.buffer_len()];
            repr.emit(&mut head);
            head
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let repr = ipv6::Ipv6Repr {
                src,
                dst,
                next_header: proto,
                hop_limit: ip.ttl,
                traffic_class: ip.tos,
                flow_label: ip.flow_label,
                payload_len: len as u16,
            };
            let mut head = vec![0; repr.buffer_len()];
            repr.emit(&mut head);
            head
        }
        _ => Vec::new(),
    }
}

fn segment(tcp: &Tcp) -> Vec<u8> {
    let options = options::encode(&tcp.options);
    let head = 20 + options.len();
    let total = head + tcp.len as usize;
    let mut l4 = Vec::with_capacity(total);
    l4.extend(tcp.src_port.to_be_bytes());
    l4.extend(tcp.dst_port.to_be_bytes());
    l4.extend(tcp.seq.to_be_bytes());
    l4.extend(tcp.ack.to_be_bytes());
    l4.extend((((head / 4) as u16) << 12 | tcp.flags.bits()).to_be_bytes());
    l4.extend(tcp.window.to_be_bytes());
    l4.extend([0, 0]);
    l4.extend(tcp.urgent.to_be_bytes());
    l4.extend(options);
    l4.resize(total, 0);
    l4
}

fn association(packet: &Sctp) -> Vec<u8> {
    let header = SctpRepr { src_port: packet.src_port, dst_port: packet.dst_port, vtag: packet.vtag };
    let mut l4 = sctp::encode(&header, &packet.chunks);
    l4.extend(packet.raw.iter().flatten());
    match packet.crc {
        Crc::Good => fill_checksum(&mut l4, &[]),
        Crc::Zero => {}
        Crc::Bad => {
            fill_checksum(&mut l4, &[]);
            l4[8] ^= 0xff;
        }
    }
    l4
}

fn datagram(udp: Udp) -> Vec<u8> {
    let total = usize::from(udp.len) + 8;
    let mut l4 = Vec::with_capacity(total);
    l4.extend(udp.src_port.to_be_bytes());
    l4.extend(udp.dst_port.to_be_bytes());
    l4.extend((total as u16).to_be_bytes());
    l4.resize(total, 0);
    l4
}

fn message(icmp: Icmp) -> Vec<u8> {
    let mut l4 = vec![icmp.kind, icmp.code, 0, 0];
    l4.extend(icmp.rest.to_be_bytes());
    match &icmp.quoted {
        Some(quote) => l4.extend(quoted(quote)),
        None => l4.resize((icmp.len as usize).max(8), 0),
    }
    l4
}

/// The IP header of the quoted packet with what follows, cut where a router cuts it.
fn quoted(quote: &Quote) -> Vec<u8> {
    let l4_head = match quote.protocol {
        protocol::TCP => 20,
        protocol::SCTP => 12,
        _ => 8,
    };
    let ip = Ip { src: quote.src.ip(), dst: quote.dst.ip(), tos: 0, ttl: 64, flow_label: 0 };
    let mut out = header(&ip, quote.protocol, l4_head + quote.len as usize);
    let mut l4 = Vec::with_capacity(QUOTED_BYTES);
    l4.extend(quote.src.port().to_be_bytes());
    l4.extend(quote.dst.port().to_be_bytes());
    if matches!(quote.protocol, protocol::TCP | protocol::SCTP) {
        l4.extend(quote.seq.to_be_bytes());
    } else {
        l4.extend(((8 + quote.len) as u16).to_be_bytes());
        l4.extend([0, 0]);
    }
    l4.resize(QUOTED_BYTES.max(quote.kept as usize), 0);
    out.extend(l4);
    out
}
