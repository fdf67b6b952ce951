//! Packets of the peer, and what is read of those sent to it.
use super::pace::Timed;
use super::stack::{LOCAL, LOCAL_V6, REMOTE, REMOTE_V6};
use bytes::Bytes;
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use lowwater_wire::icmp4::{Icmp4Repr, TIME_EXCEEDED, UNREACHABLE};
use lowwater_wire::icmp6::{self, Icmp6Repr};
use lowwater_wire::ipv4::{Ipv4Repr, Ipv4View};
use lowwater_wire::ipv6::{Ipv6Repr, Ipv6View};
use lowwater_wire::tcp::{TcpFlags, TcpRepr, TcpView, fill_checksum};
use lowwater_wire::{checksum, protocol};

/// Ports of both ends of a drawn connection.
pub(super) const PORTS: (u16, u16) = (8_080, 40_000);

/// A segment that was sent, with numbers as on the wire until [`Seen::number`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Microseconds since the SYN.
    pub(super) at: u64,
    pub(super) seq: u32,
    pub(super) len: u32,
    pub(super) flags: TcpFlags,
    pub(super) ack: u32,
    /// Its timestamp, and what it echoes.
    pub(super) stamp: Option<u32>,
    pub(super) echo: Option<u32>,
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
            echo: options.timestamps.map(|stamp| stamp.echo),
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

    /// Alike but for time and what the sender's own timestamp says, and for PSH, which shows where packets were cut below TCP.
    pub(super) fn same(&self, other: &Self) -> bool {
        let facts = |s: &Self| (s.seq, s.len, s.flags.union(TcpFlags::PSH), s.ack, s.window, s.tos, s.echo);
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
        if self.tos != 0 {
            write!(f, "[tos {:#x}] ", self.tos)?;
        }
        let (flags, end, len) = (letters(self.flags), self.seq + self.len, self.len);
        write!(f, "{flags} {}:{end}({len}) ack {} win {}", self.seq, self.ack, self.window)
    }
}

/// Flags as packetdrill writes them.
pub(super) fn letters(flags: TcpFlags) -> String {
    const LETTERS: [(TcpFlags, char); 9] = [
        (TcpFlags::FIN, 'F'),
        (TcpFlags::SYN, 'S'),
        (TcpFlags::RST, 'R'),
        (TcpFlags::PSH, 'P'),
        (TcpFlags::URG, 'U'),
        (TcpFlags::ECE, 'E'),
        (TcpFlags::CWR, 'W'),
        (TcpFlags::AE, 'A'),
        (TcpFlags::ACK, '.'),
    ];
    let all: String = LETTERS.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, c)| *c).collect();
    if all.is_empty() { "-".to_owned() } else { all }
}

/// What stands in the header of a packet of either IP: the protocol behind it, TOS and TTL, and what is behind it.
pub(super) struct Ip<'a> {
    pub(super) protocol: u8,
    pub(super) tos: u8,
    pub(super) ttl: u8,
    pub(super) payload: &'a [u8],
}

impl<'a> Ip<'a> {
    pub(super) fn parse(packet: &'a [u8]) -> Option<Self> {
        if let Ok(ip) = Ipv4View::parse(packet) {
            return Some(Self {
                protocol: ip.protocol(),
                tos: ip.tos(),
                ttl: ip.ttl(),
                payload: ip.payload(),
            });
        }
        let ip = Ipv6View::parse(packet).ok()?;
        let (protocol, tos, ttl) = (ip.next_header(), ip.traffic_class(), ip.hop_limit());
        Some(Self { protocol, tos, ttl, payload: ip.payload() })
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

const fn header_v6(src: Ipv6Addr, dst: Ipv6Addr, next_header: u8, tos: u8, len: usize) -> Ipv6Repr {
    Ipv6Repr {
        src,
        dst,
        next_header,
        hop_limit: 64,
        traffic_class: tos,
        flow_label: 0,
        payload_len: len as u16,
    }
}

/// A header from the peer in front of this.
fn wrap(v6: bool, protocol: u8, tos: u8, payload: &[u8]) -> Bytes {
    if v6 {
        return headed_v6(&header_v6(REMOTE_V6, LOCAL_V6, protocol, tos, payload.len()), payload).into();
    }
    headed(&header(REMOTE, LOCAL, protocol, tos, payload.len()), payload).into()
}

fn headed(ip: &Ipv4Repr, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ip.buffer_len()];
    ip.emit(&mut packet);
    packet.extend_from_slice(payload);
    packet
}

fn headed_v6(ip: &Ipv6Repr, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ip.buffer_len()];
    ip.emit(&mut packet);
    packet.extend_from_slice(payload);
    packet
}

/// What somebody says of a segment of ours that has this number: type, code and MTU of the message, and the ports of the segment.
pub(super) fn icmp(v6: bool, (kind, code, mtu): (u8, u8, u16), (src, dst): (u16, u16), seq: u32) -> Bytes {
    const TCP_LEN: usize = 20;
    let mut segment = [0; TCP_LEN];
    segment[..2].copy_from_slice(&src.to_be_bytes());
    segment[2..4].copy_from_slice(&dst.to_be_bytes());
    segment[4..8].copy_from_slice(&seq.to_be_bytes());
    if v6 {
        let quoted = headed_v6(&header_v6(LOCAL_V6, REMOTE_V6, protocol::TCP, 0, TCP_LEN), &segment);
        let quoted = quoted.as_slice();
        let message = match kind {
            icmp6::UNREACHABLE => Icmp6Repr::Unreachable { code, quoted },
            icmp6::PACKET_TOO_BIG => Icmp6Repr::PacketTooBig { mtu: mtu.into(), quoted },
            icmp6::TIME_EXCEEDED => Icmp6Repr::TimeExceeded { code, quoted },
            _ => Icmp6Repr::ParameterProblem { code, pointer: 0, quoted },
        };
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(REMOTE_V6, LOCAL_V6, &mut bytes);
        return wrap(v6, protocol::ICMPV6, 0, &bytes);
    }
    // As little as must be quoted (RFC 792).
    let quoted = headed(&header(LOCAL, REMOTE, protocol::TCP, 0, TCP_LEN), &segment[..8]);
    let quoted = quoted.as_slice();
    let message = match kind {
        UNREACHABLE => Icmp4Repr::Unreachable { code, mtu, quoted },
        TIME_EXCEEDED => Icmp4Repr::TimeExceeded { code, quoted },
        _ => Icmp4Repr::ParameterProblem { code, pointer: 0, quoted },
    };
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut bytes);
    wrap(v6, protocol::ICMP, 0, &bytes)
}

/// A packet from the peer with `len` zeros of payload.
pub(super) fn build(v6: bool, repr: &TcpRepr, tos: u8, len: usize) -> Bytes {
    let head_len = repr.buffer_len();
    let mut segment = vec![0; head_len + len];
    let pseudo = match v6 {
        true => checksum::pseudo_v6(REMOTE_V6, LOCAL_V6, protocol::TCP, segment.len()),
        false => checksum::pseudo_v4(REMOTE, LOCAL, protocol::TCP, segment.len()),
    };
    let (head, payload) = segment.split_at_mut(head_len);
    repr.emit(head);
    fill_checksum(head, pseudo, &[payload]);
    wrap(v6, protocol::TCP, tos, &segment)
}
