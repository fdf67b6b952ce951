//! Packets of the peer, and what is read of those sent to it.
use super::pace::Timed;
use super::stack::{LOCAL, REMOTE};
use bytes::Bytes;
use core::fmt;
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
        let facts = |s: &Self| (s.seq, s.len, s.flags.union(TcpFlags::PSH), s.ack);
        facts(self) == facts(other) && self.sacks == other.sacks
    }
}

/// As packetdrill writes it.
impl Timed for Seen {
    fn at(&self) -> u64 {
        self.at
    }
}

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
        for (_, letter) in LETTERS.iter().filter(|(flag, _)| self.flags.contains(*flag)) {
            write!(f, "{letter}")?;
        }
        write!(f, " {}:{}({}) ack {}", self.seq, self.seq + self.len, self.len, self.ack)
    }
}

/// A packet from the peer with `len` zeros of payload.
pub(super) fn build(repr: &TcpRepr, len: usize) -> Bytes {
    let header = repr.buffer_len();
    let ip = Ipv4Repr {
        src: REMOTE,
        dst: LOCAL,
        protocol: protocol::TCP,
        ttl: 64,
        tos: 0,
        ident: 0,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: (header + len) as u16,
    };
    let start = ip.buffer_len();
    let mut packet = vec![0; start + header + len];
    ip.emit(&mut packet[..start]);
    let (head, payload) = packet[start..].split_at_mut(header);
    repr.emit(head);
    let pseudo = checksum::pseudo_v4(REMOTE, LOCAL, protocol::TCP, header + len);
    fill_checksum(head, pseudo, &[payload]);
    packet.into()
}
