//! Packets between the script's world and the stack's: bytes in, values out.
use crate::options::{self, TcpOption};
use crate::parse::LETTERS;
use bytes::Bytes;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use lowwater_core::base::Instant;
use lowwater_wire::tcp::{TcpFlags, TcpView};
use lowwater_wire::{checksum, ipv4, ipv6, protocol};

/// A TCP packet as it was on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub(crate) at: Instant,
    pub(crate) src: SocketAddr,
    pub(crate) dst: SocketAddr,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: TcpFlags,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    pub(crate) options: Vec<TcpOption>,
    pub(crate) tos: u8,
    pub(crate) len: u32,
}

/// Reads an IP packet; `None` for anything but TCP, `Err` for what no stack may send.
pub(crate) fn read(bytes: &[u8], at: Instant) -> Result<Option<Wire>, String> {
    let broken = |what: &str| format!("the stack sent {what}");
    let v4 = bytes.first().is_some_and(|b| b >> 4 == 4);
    let (src, dst, tos, proto, l4): (IpAddr, IpAddr, u8, u8, &[u8]) = if v4 {
        let ip = ipv4::Ipv4View::parse(bytes).map_err(|e| broken(&format!("a bad IPv4 header: {e:?}")))?;
        if !ip.checksum_ok() {
            return Err(broken("a wrong IPv4 checksum"));
        }
        (ip.src().into(), ip.dst().into(), ip.tos(), ip.protocol(), ip.payload())
    } else {
        let ip = ipv6::Ipv6View::parse(bytes).map_err(|e| broken(&format!("a bad IPv6 header: {e:?}")))?;
        (ip.src().into(), ip.dst().into(), ip.traffic_class(), ip.next_header(), ip.payload())
    };
    if proto != protocol::TCP {
        return Ok(None);
    }
    let tcp = TcpView::parse(l4).map_err(|e| broken(&format!("a bad TCP header: {e:?}")))?;
    if !tcp.checksum_ok(pseudo(src, dst, l4.len())) {
        return Err(broken("a wrong TCP checksum"));
    }
    Ok(Some(Wire {
        at,
        src: SocketAddr::new(src, tcp.src_port()),
        dst: SocketAddr::new(dst, tcp.dst_port()),
        seq: tcp.seq(),
        ack: tcp.ack(),
        flags: tcp.flags(),
        window: tcp.window(),
        urgent: tcp.urgent(),
        options: options::decode(tcp.option_bytes()),
        tos,
        len: tcp.payload().len() as u32,
    }))
}

fn pseudo(src: IpAddr, dst: IpAddr, len: usize) -> u64 {
    match (src, dst) {
        (IpAddr::V4(s), IpAddr::V4(d)) => checksum::pseudo_v4(s, d, protocol::TCP, len),
        (IpAddr::V6(s), IpAddr::V6(d)) => checksum::pseudo_v6(s, d, protocol::TCP, len),
        _ => 0,
    }
}

impl Wire {
    /// The packet as bytes; its payload is zeros.
    pub(crate) fn write(&self) -> Bytes {
        let options = options::encode(&self.options);
        let head = 20 + options.len();
        let total = head + self.len as usize;
        let mut l4 = Vec::with_capacity(total);
        l4.extend(self.src.port().to_be_bytes());
        l4.extend(self.dst.port().to_be_bytes());
        l4.extend(self.seq.to_be_bytes());
        l4.extend(self.ack.to_be_bytes());
        l4.extend((((head / 4) as u16) << 12 | self.flags.bits()).to_be_bytes());
        l4.extend(self.window.to_be_bytes());
        l4.extend([0, 0]);
        l4.extend(self.urgent.to_be_bytes());
        l4.extend(options);
        l4.resize(total, 0);
        let sum = checksum::finish(
            u64::from(checksum::fold(pseudo(self.src.ip(), self.dst.ip(), total))) + checksum::sum(&l4),
        );
        l4[16..18].copy_from_slice(&sum.to_be_bytes());
        let mut out = match (self.src.ip(), self.dst.ip()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let repr = ipv4::Ipv4Repr {
                    src,
                    dst,
                    protocol: protocol::TCP,
                    ttl: 255,
                    tos: self.tos,
                    ident: 0,
                    dont_fragment: false,
                    more_fragments: false,
                    fragment_offset: 0,
                    payload_len: total as u16,
                };
                let mut head = vec![0; repr.buffer_len()];
                repr.emit(&mut head);
                head
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let repr = ipv6::Ipv6Repr {
                    src,
                    dst,
                    next_header: protocol::TCP,
                    hop_limit: 255,
                    traffic_class: self.tos,
                    flow_label: 0,
                    payload_len: total as u16,
                };
                let mut head = vec![0; repr.buffer_len()];
                repr.emit(&mut head);
                head
            }
            _ => Vec::new(),
        };
        out.extend(l4);
        out.into()
    }

    /// As a script would have it, if its numbers are a script's.
    pub(crate) fn script(&self, window: bool) -> Line<'_> {
        Line(self, window)
    }
}

/// A packet in the script's language.
pub(crate) struct Line<'a>(&'a Wire, bool);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p = self.0;
        let ecn = ["", "[ect1] ", "[ect0] ", "[ce] "][usize::from(p.tos & 3)];
        write!(f, "{ecn}{} {}:{}({})", letters(p.flags), p.seq, p.seq.wrapping_add(p.len), p.len)?;
        if p.flags.ack() {
            write!(f, " ack {}", p.ack)?;
        }
        if self.1 {
            write!(f, " win {}", p.window)?;
        }
        for (i, option) in p.options.iter().enumerate() {
            write!(f, "{}{option}", if i == 0 { " <" } else { "," })?;
        }
        if p.options.is_empty() { Ok(()) } else { f.write_str(">") }
    }
}

fn letters(flags: TcpFlags) -> String {
    let set: String = LETTERS.iter().filter(|(_, f)| flags.contains(*f)).map(|(l, _)| *l).collect();
    if set.is_empty() { "-".to_owned() } else { set }
}
