//! Packets of the peer, and what is read of those sent to it.
use super::pace::Timed;
use super::stack::{LOCAL, REMOTE};
use bytes::Bytes;
use core::fmt;
use core::net::Ipv4Addr;
use lowwater_wire::icmp4::{Icmp4Repr, TIME_EXCEEDED, UNREACHABLE};
use lowwater_wire::ipv4::{Ipv4Repr, Ipv4View};
use lowwater_wire::tcp::{TcpFlags, TcpRepr, TcpView, fill_checksum};
use lowwater_wire::{checksum, protocol};

/// A segment that was sent, with numbers as on the wire until [`Seen::number`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Microseconds since the SYN.
    pub(super) at: u64,
    pub(super) seq: u32,
    pub(super) len: u32,
    pub(super) flags: TcpFlags,
    pub(super) ack: u32,
    pub(super) stamp: Option<u32>,
    pub(super) sacks: Vec<(u32, u32)>,
    /// The window field, and the TOS of its IP header.
    pub(super) window: u16,
    pub(super) tos: u8,
    /// [`Timed::waited`].
    pub(super) waited: Option<u64>,
}

impl Seen {
    /// Reads an IPv4 packet; `None` for anything that carries no TCP.
    pub(super) fn parse(packet: &[u8]) -> Option<Self> {
        let ip = Ipv4View::parse(packet).ok().filter(|ip| ip.protocol() == protocol::TCP)?;
        let tcp = TcpView::parse(ip.payload()).ok()?;
        let options = tcp.options();
        Some(Self {
            at: 0,
            seq: tcp.seq(),
            len: tcp.payload().len() as u32,
            flags: tcp.flags(),
            ack: tcp.ack(),
            stamp: options.timestamps.map(|stamp| stamp.value),
            sacks: options.sack.iter().collect(),
            window: tcp.window(),
            tos: ip.tos(),
            waited: None,
        })
    }

    /// Counts from the first byte, which is 1; `at` is when it came.
    pub(super) fn number(mut self, isn: u32, at: u64) -> Self {
        self.seq = self.seq.wrapping_sub(isn);
        self.at = at;
        self
    }

    /// One past its last byte, a FIN included.
    pub(super) fn end(&self) -> u32 {
        self.seq + self.len + u32::from(self.flags.fin())
    }

    /// True for data, a FIN included.
    pub(super) fn is_data(&self) -> bool {
        self.len > 0 || self.flags.fin()
    }

    /// Alike but for time and timestamp, and for PSH, which shows where packets were cut below TCP.
    pub(super) fn same(&self, other: &Self) -> bool {
        let facts = |s: &Self| (s.seq, s.len, s.flags.union(TcpFlags::PSH), s.ack, s.window, s.tos);
        facts(self) == facts(other) && self.sacks == other.sacks
    }
}

impl Timed for Seen {
    fn at(&self) -> u64 {
        self.at
    }

    fn waited(&self) -> Option<u64> {
        self.waited
    }

    fn note(&mut self, waited: Option<u64>) {
        self.waited = waited;
    }
}

/// As packetdrill writes it.
impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LETTERS: [(TcpFlags, char); 7] = [
            (TcpFlags::FIN, 'F'),
            (TcpFlags::SYN, 'S'),
            (TcpFlags::RST, 'R'),
            (TcpFlags::PSH, 'P'),
            (TcpFlags::ECE, 'E'),
            (TcpFlags::CWR, 'W'),
            (TcpFlags::ACK, '.'),
        ];
        if self.tos != 0 {
            write!(f, "[tos {:#x}] ", self.tos)?;
        }
        for (_, letter) in LETTERS.iter().filter(|(flag, _)| self.flags.contains(*flag)) {
            write!(f, "{letter}")?;
        }
        let (end, len) = (self.seq + self.len, self.len);
        write!(f, " {}:{end}({len}) ack {} win {}", self.seq, self.ack, self.window)
    }
}

const fn header(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, tos: u8, len: usize) -> Ipv4Repr {
    Ipv4Repr {
        src,
        dst,
        protocol,
        ttl: 64,
        tos,
        ident: 0,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: len as u16,
    }
}

/// What somebody says of a segment of ours that has this number: type, code and MTU of the message, and the ports of the segment.
pub(super) fn icmp((kind, code, mtu): (u8, u8, u16), (src, dst): (u16, u16), seq: u32) -> Bytes {
    const TCP_LEN: usize = 20;
    let ip = header(LOCAL, REMOTE, protocol::TCP, 0, TCP_LEN);
    let mut quoted = vec![0; ip.buffer_len() + 8];
    ip.emit(&mut quoted);
    let start = ip.buffer_len();
    quoted[start..start + 2].copy_from_slice(&src.to_be_bytes());
    quoted[start + 2..start + 4].copy_from_slice(&dst.to_be_bytes());
    quoted[start + 4..].copy_from_slice(&seq.to_be_bytes());
    let quoted = quoted.as_slice();
    let message = match kind {
        UNREACHABLE => Icmp4Repr::Unreachable { code, mtu, quoted },
        TIME_EXCEEDED => Icmp4Repr::TimeExceeded { code, quoted },
        _ => Icmp4Repr::ParameterProblem { code, pointer: 0, quoted },
    };
    let ip = header(REMOTE, LOCAL, protocol::ICMP, 0, message.buffer_len());
    let mut packet = vec![0; ip.buffer_len() + message.buffer_len()];
    ip.emit(&mut packet);
    message.emit(&mut packet[ip.buffer_len()..]);
    packet.into()
}

/// A packet from the peer with `len` zeros of payload.
pub(super) fn build(repr: &TcpRepr, tos: u8, len: usize) -> Bytes {
    let head_len = repr.buffer_len();
    let ip = header(REMOTE, LOCAL, protocol::TCP, tos, head_len + len);
    let start = ip.buffer_len();
    let mut packet = vec![0; start + head_len + len];
    ip.emit(&mut packet[..start]);
    let (head, payload) = packet[start..].split_at_mut(head_len);
    repr.emit(head);
    let pseudo = checksum::pseudo_v4(REMOTE, LOCAL, protocol::TCP, head_len + len);
    fill_checksum(head, pseudo, &[payload]);
    packet.into()
}
