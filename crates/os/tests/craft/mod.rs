//! Packets made by hand and a peer that only acknowledges: enough TCP to make the kernel send and receive super-packets.
use bytes::Bytes;
use lowwater_core::base::Instant;
use lowwater_core::packet::{Csum, GsoKind, Offload, Packet};
use std::net::Ipv4Addr;

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;
/// Window scale of the peer.
pub(crate) const SCALE: u8 = 8;
pub(crate) const MSS: u16 = 1_460;

pub(crate) fn sum(bytes: &[u8], from: u32) -> u16 {
    let mut s = from;
    for pair in bytes.chunks(2) {
        s += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        s = (s & 0xffff) + (s >> 16);
    }
    s as u16
}

/// The IPv4 header of a packet with `len` bytes behind it.
pub(crate) fn ipv4(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, len: usize) -> [u8; 20] {
    let mut h = [0; 20];
    h[0] = 0x45;
    h[2..4].copy_from_slice(&(20 + len as u16).to_be_bytes());
    h[6] = 0x40;
    h[8] = 64;
    h[9] = protocol;
    h[12..16].copy_from_slice(&from.octets());
    h[16..20].copy_from_slice(&to.octets());
    let check = !sum(&h, 0);
    h[10..12].copy_from_slice(&check.to_be_bytes());
    h
}

/// The TCP packet with its checksum completed, for devices that do not do it.
pub(crate) fn complete(mut packet: Packet) -> Packet {
    let whole = packet.to_bytes();
    let check = !sum(&whole[20..], 0);
    packet.head.as_mut_slice()[36..38].copy_from_slice(&check.to_be_bytes());
    packet.offload.csum = Csum::None;
    packet
}

/// One side of a TCP connection, reduced to numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) me: (Ipv4Addr, u16),
    pub(crate) them: (Ipv4Addr, u16),
    pub(crate) snd_nxt: u32,
    pub(crate) rcv_nxt: u32,
}

/// A received TCP segment, possibly a super-packet's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) ports: (u16, u16),
    pub(crate) seq: u32,
    pub(crate) flags: u8,
    pub(crate) len: usize,
}

/// The TCP segment in an IPv4 packet without options; `None` for everything else.
pub(crate) fn parse(packet: &Packet) -> Option<Segment> {
    let p = packet.payload.as_ref();
    if p.len() < 40 || p[0] != 0x45 || p[9] != 6 {
        return None;
    }
    let port = |at| u16::from_be_bytes([p[at], p[at + 1]]);
    let seq = u32::from_be_bytes([p[24], p[25], p[26], p[27]]);
    let len = p.len() - 20 - usize::from(p[32] >> 4) * 4;
    Some(Segment { ports: (port(20), port(22)), seq, flags: p[33], len })
}

impl Peer {
    /// Answers a SYN.
    pub(crate) fn accept(me: Ipv4Addr, them: Ipv4Addr, syn: &Segment) -> Self {
        let (me, them) = ((me, syn.ports.1), (them, syn.ports.0));
        Self { me, them, snd_nxt: 1_000, rcv_nxt: syn.seq.wrapping_add(1) }
    }

    /// A segment with its checksum left to the kernel; a super-packet when the payload exceeds one MSS.
    pub(crate) fn segment(&mut self, flags: u8, payload: Bytes) -> Packet {
        let syn = flags & SYN != 0;
        let [mss_hi, mss_lo] = MSS.to_be_bytes();
        let options: &[u8] = if syn { &[2, 4, mss_hi, mss_lo, 1, 3, 3, SCALE] } else { &[] };
        let tcp_len = 20 + options.len();
        let mut tcp = [0; 28];
        tcp[0..2].copy_from_slice(&self.me.1.to_be_bytes());
        tcp[2..4].copy_from_slice(&self.them.1.to_be_bytes());
        tcp[4..8].copy_from_slice(&self.snd_nxt.to_be_bytes());
        tcp[8..12].copy_from_slice(&self.rcv_nxt.to_be_bytes());
        tcp[12] = ((tcp_len / 4) << 4) as u8;
        tcp[13] = flags;
        tcp[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
        tcp[20..tcp_len].copy_from_slice(options);
        let pseudo = [self.me.0.octets(), self.them.0.octets()].concat();
        let partial = sum(&pseudo, 6 + (tcp_len + payload.len()) as u32);
        tcp[16..18].copy_from_slice(&partial.to_be_bytes());

        let super_packet = payload.len() > usize::from(MSS);
        let offload = Offload {
            gso: if super_packet { GsoKind::Tcp4 } else { GsoKind::None },
            gso_size: if super_packet { MSS } else { 0 },
            csum: Csum::Partial { start: 20, offset: 16 },
            ..Offload::default()
        };
        let carried = payload.len() as u32 + u32::from(syn) + u32::from(flags & FIN != 0);
        let ip = ipv4(self.me.0, self.them.0, 6, tcp_len + payload.len());
        let mut packet = Packet::received(payload, offload, Instant::ZERO);
        packet.head.prepend(tcp_len).copy_from_slice(&tcp[..tcp_len]);
        packet.head.prepend(20).copy_from_slice(&ip);
        self.snd_nxt = self.snd_nxt.wrapping_add(carried);
        packet
    }

    /// Takes note of a segment; true when it came in order and deserves an acknowledgement.
    pub(crate) fn take(&mut self, segment: &Segment) -> bool {
        let carried = segment.len as u32 + u32::from(segment.flags & (SYN | FIN) != 0);
        if segment.seq == self.rcv_nxt {
            self.rcv_nxt = self.rcv_nxt.wrapping_add(carried);
        }
        carried > 0
    }
}
