//! Shows a packet as a line of a script would have it.
use super::{Body, Handed, Icmp, Sctp, Tcp, Wire};
use crate::parse::{LETTERS, code_name, kind_name};
use crate::script::Marks;
use crate::sctp::Crc;
use core::fmt;
use lowwater_wire::protocol;
use lowwater_wire::tcp::TcpFlags;

/// What a line shows beside what every line shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub(crate) window: bool,
    pub(crate) tos: bool,
    pub(crate) ttl: bool,
    pub(crate) flow_label: bool,
    pub(crate) ports: bool,
    /// The verification tag of an SCTP packet.
    pub(crate) vtag: bool,
    /// Those that are shown.
    pub(crate) marks: Marks,
}

impl Default for Shown {
    fn default() -> Self {
        Self {
            window: false,
            tos: false,
            ttl: false,
            flow_label: false,
            ports: false,
            vtag: false,
            marks: Marks::NONE,
        }
    }
}

/// A packet in the script's language.
pub(crate) struct Line<'a>(pub(crate) &'a Wire, pub(crate) Shown);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(p, shown) = self;
        let mut info = Vec::new();
        if shown.tos {
            info.push(format!("tos {:#04x}", p.ip.tos));
        } else if p.ip.tos & 3 != 0 && p.tcp().is_some() {
            info.push(["noecn", "ect1", "ect0", "ce"][usize::from(p.ip.tos & 3)].to_owned());
        }
        if shown.ttl {
            info.push(format!("ttl {}", p.ip.ttl));
        }
        if shown.flow_label {
            info.push(format!("flowlabel {:#x}", p.ip.flow_label));
        }
        if !info.is_empty() {
            write!(f, "[{}] ", info.join(", "))?;
        }
        let (src, dst) = p.ends();
        if shown.ports {
            write!(f, "{src} > {dst}: ")?;
        }
        match &p.body {
            Body::Tcp(tcp) => segment(f, tcp, shown.window)?,
            Body::Udp(udp) => write!(f, "udp ({})", udp.len)?,
            Body::Icmp(icmp) => message(f, icmp, p.ip.src.is_ipv6())?,
            Body::Sctp(sctp) => association(f, sctp, shown.vtag)?,
        }
        marks(f, &shown.marks, &p.handed)
    }
}

/// Those marks of which the line speaks.
fn marks(f: &mut fmt::Formatter<'_>, shown: &Marks, handed: &Handed) -> fmt::Result {
    let wait = handed.wait_ns / 1_000;
    let all = [
        shown.segs.map(|_| format!("segs {}", handed.segs)),
        shown.gso.map(|_| format!("gso {}", handed.gso)),
        shown.departs.map(|_| format!("departs +{}.{:06}", wait / 1_000_000, wait % 1_000_000)),
        shown.queued.map(|_| format!("queued {}", handed.queued)),
        shown.packets.map(|_| format!("packets {}", handed.packets)),
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    if all.is_empty() { Ok(()) } else { write!(f, " {{{}}}", all.join(", ")) }
}

fn segment(f: &mut fmt::Formatter<'_>, p: &Tcp, window: bool) -> fmt::Result {
    write!(f, "{} {}:{}({})", letters(p.flags), p.seq, p.seq.wrapping_add(p.len), p.len)?;
    if p.flags.ack() {
        write!(f, " ack {}", p.ack)?;
    }
    if window {
        write!(f, " win {}", p.window)?;
    }
    if p.urgent != 0 {
        write!(f, " urg {}", p.urgent)?;
    }
    for (i, option) in p.options.iter().enumerate() {
        write!(f, "{}{option}", if i == 0 { " <" } else { "," })?;
    }
    if p.options.is_empty() { Ok(()) } else { f.write_str(">") }
}

fn association(f: &mut fmt::Formatter<'_>, p: &Sctp, vtag: bool) -> fmt::Result {
    let crc = match p.crc {
        Crc::Good => None,
        Crc::Zero => Some("zero_checksum".to_owned()),
        Crc::Bad => Some("bad_crc32c".to_owned()),
    };
    let said: Vec<String> = crc.into_iter().chain(vtag.then(|| format!("tag={}", p.vtag))).collect();
    f.write_str("sctp")?;
    if !said.is_empty() {
        write!(f, "({})", said.join(", "))?;
    }
    if let Some((from, to)) = p.udp {
        write!(f, "/udp({from}>{to})")?;
    }
    if let Some(raw) = &p.raw {
        return write!(f, ": {raw:?}");
    }
    for (n, chunk) in p.chunks.iter().enumerate() {
        write!(f, "{} {chunk}", if n == 0 { ":" } else { ";" })?;
    }
    if p.chunks.is_empty() { f.write_str(":") } else { Ok(()) }
}

fn message(f: &mut fmt::Formatter<'_>, p: &Icmp, v6: bool) -> fmt::Result {
    let (kind, code) = (kind_name(v6, p.kind), code_name(v6, p.kind, p.code));
    write!(f, "icmp {kind}{code}")?;
    match (kind.as_str(), p.rest) {
        ("packet_too_big", mtu) => write!(f, " mtu {mtu}")?,
        ("unreachable", mtu) if !v6 && p.code == 4 => write!(f, " mtu {mtu}")?,
        ("echo_request" | "echo_reply", rest) if rest >> 16 != 0 => write!(f, " id {}", rest >> 16)?,
        _ => {}
    }
    match &p.quoted {
        None if p.len == 0 => Ok(()),
        None => write!(f, " [raw ({})]", p.len),
        Some(q) if q.protocol == protocol::TCP => {
            write!(f, " [{}:{}({})]", q.seq, q.seq.wrapping_add(q.len), q.len)
        }
        Some(q) if q.protocol == protocol::SCTP => write!(f, " [sctp({})]", q.seq),
        Some(q) => write!(f, " [udp ({})]", q.len),
    }
}

fn letters(flags: TcpFlags) -> String {
    let set: String = LETTERS.iter().filter(|(_, f)| flags.contains(*f)).map(|(l, _)| *l).collect();
    if set.is_empty() { "-".to_owned() } else { set }
}
