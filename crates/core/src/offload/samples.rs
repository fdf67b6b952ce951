//! Packets for the tests of this module.
use crate::base::Instant;
use crate::packet::{Csum, GsoKind, Head, Offload, Packet};
use bytes::Bytes;
use core::net::{Ipv4Addr, Ipv6Addr};
use lowwater_wire::tcp::{TcpFlags, TcpOptions, TcpRepr, Timestamps};
use lowwater_wire::{checksum, ipv4, ipv6, protocol, tcp};

/// One TCP packet by its variable parts.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) v6: bool,
    pub(super) port: u16,
    pub(super) ident: u16,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) window: u16,
    pub(super) flags: TcpFlags,
    pub(super) timestamps: Option<u32>,
    /// Offset of the payload in the stream from which all samples take theirs.
    pub(super) from: usize,
    pub(super) len: usize,
    pub(super) gso_size: u16,
    pub(super) tos: u8,
}

impl Default for Sample {
    fn default() -> Self {
        Self {
            v6: false,
            port: 5000,
            ident: 77,
            seq: 1_000,
            ack: 9,
            window: 512,
            flags: TcpFlags::ACK,
            timestamps: Some(5),
            from: 0,
            len: 100,
            gso_size: 0,
            tos: 2,
        }
    }
}

const SRC4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const DST4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SRC6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const DST6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

impl Sample {
    fn repr(&self) -> TcpRepr {
        let timestamps = self.timestamps.map(|value| Timestamps { value, echo: 3 });
        TcpRepr {
            src_port: self.port,
            dst_port: 80,
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: self.window,
            urgent: 0,
            options: TcpOptions { timestamps, ..TcpOptions::EMPTY },
        }
    }

    pub(super) fn l4(&self) -> usize {
        if self.v6 { 40 } else { 20 }
    }

    pub(super) fn pseudo(&self, len: usize) -> u64 {
        let len = self.repr().header_len() + len;
        if self.v6 {
            checksum::pseudo_v6(SRC6, DST6, protocol::TCP, len)
        } else {
            checksum::pseudo_v4(SRC4, DST4, protocol::TCP, len)
        }
    }
}

/// Builds it as the transport and IP would: headers in the head, checksum partial.
pub(super) fn tcp_packet(s: &Sample) -> Packet {
    let repr = s.repr();
    let stream: Vec<u8> = (s.from..s.from + s.len).map(|n| (n * 7 + n / 251) as u8).collect();
    let mut head = Head::new();
    let header = head.prepend(repr.header_len());
    repr.emit(header);
    tcp::fill_checksum_partial(header, s.pseudo(s.len));
    let l4_len = (repr.header_len() + s.len) as u16;
    if s.v6 {
        let ip = ipv6::Ipv6Repr {
            src: SRC6,
            dst: DST6,
            next_header: protocol::TCP,
            hop_limit: 64,
            traffic_class: s.tos,
            flow_label: 5,
            payload_len: l4_len,
        };
        ip.emit(head.prepend(ip.buffer_len()));
    } else {
        let ip = ipv4::Ipv4Repr {
            src: SRC4,
            dst: DST4,
            protocol: protocol::TCP,
            ttl: 64,
            tos: s.tos,
            ident: s.ident,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            payload_len: l4_len,
        };
        ip.emit(head.prepend(ip.buffer_len()));
    }
    let gso = match (s.gso_size, s.v6) {
        (0, _) => GsoKind::None,
        (_, false) => GsoKind::Tcp4,
        (_, true) => GsoKind::Tcp6,
    };
    let csum = Csum::Partial { start: s.l4() as u16, offset: tcp::CHECKSUM_OFFSET as u16 };
    let offload = Offload { gso, gso_size: s.gso_size, csum, ..Offload::default() };
    Packet {
        head,
        payload: Bytes::from(stream),
        offload,
        owner: None,
        at: Instant::from_millis(1),
        priority: None,
    }
}

/// The same packet as a device delivers it.
pub(super) fn flat(packet: &Packet) -> Packet {
    Packet { head: Head::new(), payload: packet.to_bytes(), ..packet.clone() }
}
