//! Compares what the stack sends with what the script says it sends.
use super::net::Whose;
use super::{Runner, at, give_or_take, seconds};
use crate::failure::Failure;
use crate::options::{self, TcpOption};
use crate::script::{BodySpec, IcmpSpec, Marks, Numbered, PacketSpec, Quoted, TcpSpec, TosSpec};
use crate::sctp::{self, Content, SctpSpec};
use crate::wire::{Body, Handed, Icmp, Ip, Line, Quote, Sctp, Shown, Tcp, Udp, Wire};
use core::net::SocketAddr;
use lowwater_core::base::Instant;
use lowwater_wire::protocol;
use lowwater_wire::tcp::TcpFlags;

/// What a message about a packet that did not come begins with.
pub(super) const NOT_SENT: &str = "this packet is not sent";
/// What a message says came instead of a packet that did not.
pub(super) const NOTHING: &str = "nothing";

/// When a packet is due and when it may come, in microseconds of the script.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) early: u64,
    pub(super) late: u64,
}

impl Runner<'_> {
    /// Waits for a packet and compares it.
    pub(super) fn outbound(
        &mut self,
        line: usize,
        spec: &PacketSpec,
        window: Window,
    ) -> Result<(), Box<Failure>> {
        // To say when it came, if it comes too late.
        let patience = self.host.patience_us();
        let limit = match window.late {
            u64::MAX => self.now().saturating_add(patience.saturating_mul(10)),
            late => late.saturating_add(patience),
        };
        let whose = self.whose(spec);
        let shown = shown(spec);
        let expected = self.expected(spec);
        let describe = |wire: &Wire| {
            let any = matches!(&spec.body, BodySpec::Tcp(t) if t.options.is_none());
            format!("{}{}", Line(wire, shown), if any { " <...>" } else { "" })
        };
        let Some(mut packet) = self.sniff(whose, at(limit), line)? else {
            // In real time the wait has an end that the stack's, which is virtual, does not show: a packet may come after it.
            let what = match self.host.slack_us() {
                0 => NOT_SENT.to_owned(),
                _ => format!("{NOT_SENT} until {}, when the run stops waiting", seconds(limit)),
            };
            return Err(Failure::differs(line, what, describe(&expected), NOTHING));
        };
        if let BodySpec::Tcp(tcp) = &spec.body {
            self.begin(tcp, &mut packet);
            if !self.config.judge.strict_segments {
                self.glue((whose, at(limit), line), &mut packet, (spec, tcp))?;
            }
        }
        if let BodySpec::Sctp(sctp) = &spec.body {
            self.begin_association(sctp, &mut packet);
        }
        let what = difference(spec, &packet).or_else(|| self.wrong_number(spec, window, &packet));
        if let Some(what) = what {
            let actual = Line(&packet, shown).to_string();
            // The packet of this line comes behind another one, for which there is no line.
            let until = at(window.late.min(self.now().saturating_add(patience)));
            let extra = !self.config.judge.forgiving
                && self.follows(whose, until, line, |next| difference(spec, next).is_none());
            let what = match extra {
                true => {
                    let came = seconds(self.micros(packet.at));
                    format!(
                        "unexpected packet: {actual} at {came}, before the one of this line, which comes too"
                    )
                }
                false => format!("the packet has {what}{}", self.late(window, packet.at)),
            };
            return Err(Failure::differs(line, what, describe(&expected), actual));
        }
        if let (BodySpec::Tcp(tcp), Some(live)) = (&spec.body, packet.tcp()) {
            let (local, remote) = packet.ends();
            let flow = self.flows.find(local, remote);
            flow.zip(tcp.options.as_ref()).into_iter().for_each(|(f, o)| f.stamp(o, &live.options));
        }
        let when = self.micros(packet.at);
        if when < window.early || when > window.late {
            let (from, to) = (seconds(window.from), seconds(window.to));
            let wanted = if window.from == window.to { from } else { format!("{from} to {to}") };
            let what = format!("the packet has the wrong time{}", self.early(window, when));
            let wanted = give_or_take(wanted, window.late.saturating_sub(window.to));
            return Err(Failure::differs(line, what, wanted, seconds(when)));
        }
        Ok(())
    }

    /// Says that a packet left before the script's last one came: its line stands too low.
    fn early(&self, window: Window, left: u64) -> String {
        match self.sniffed.came {
            Some(came) if left < window.early && left < came => {
                format!(": it left before the script's packet of {} came", seconds(came))
            }
            _ => String::new(),
        }
    }

    /// Says that a packet, which is another one, came too late to be the one that was due: that one never came.
    fn late(&self, window: Window, came: Instant) -> String {
        match self.micros(came) {
            when if when > window.late => {
                let (came, due) = (seconds(when), seconds(window.to));
                format!("; it came at {came}, and until the line's time, {due}, none came")
            }
            _ => String::new(),
        }
    }

    /// A SYN of the stack for which the script has a number of its own.
    fn begin(&mut self, spec: &TcpSpec, packet: &mut Wire) {
        let (local, remote) = packet.ends();
        let names = spec.flags.syn() && spec.numbered == Numbered::Script;
        let Some(tcp) = packet.tcp_mut().filter(|t| t.flags.syn() && names) else { return };
        if let Some(flow) = self.flows.find(local, remote) {
            let live = flow.live_seq(tcp.seq);
            if flow.begins_with(spec.seq, live) {
                tcp.seq = spec.seq;
            }
        }
    }

    /// Joins segments that follow one another, as packetdrill does without --strict_segments: a stack without TSO sends in
    /// several packets what a script writes as one. It waits for them as for the first; the line's time is that of the last. An
    /// acknowledgment without data before them is one of them.
    fn glue(
        &mut self,
        (whose, limit, line): (Whose, Instant, usize),
        packet: &mut Wire,
        (whole, spec): (&PacketSpec, &TcpSpec),
    ) -> Result<(), Box<Failure>> {
        let mut size = packet.tcp().map_or(0, |tcp| tcp.len);
        let short = |tcp: &&mut Tcp| tcp.len < spec.len && may_go_on(tcp) && has_number(spec, tcp);
        loop {
            let before = steady(packet);
            let Some(tcp) = packet.tcp_mut().filter(short) else { return Ok(()) };
            let (next, room) = (tcp.seq.wrapping_add(tcp.len), spec.len - tcp.len);
            let more = self.sniff_if(whose, limit, line, |p| {
                let fits = |t: &Tcp| t.seq == next && (t.len > 0 || size == 0) && t.len <= room;
                p.tcp().is_some_and(fits) && steady(p) == before
            })?;
            let Some((last, more)) = more.and_then(|p| Some((p.clone(), p.tcp()?.clone()))) else {
                return Ok(());
            };
            // As in packetdrill: only the last one may be of another size.
            if more.len < room && more.len != size {
                let (expected, actual) = (format!("{size} bytes"), format!("{} bytes", more.len));
                let what = "segments of this line differ in size";
                let differ = || Failure::differs(line, what, expected, actual);
                let stray = size == 0 && self.is_whole((whose, limit, line), last, (whole, spec));
                return Err(if stray { self.stray(line, whole, packet) } else { differ() });
            }
            size = more.len;
            tcp.len += more.len;
            // The first segment says where the line begins and whether it has CWR, the last one everything else.
            tcp.flags = (tcp.flags & TcpFlags::CWR) | without_cwr(more.flags);
            tcp.options = more.options;
            (packet.at, packet.ip.tos) = (last.at, last.ip.tos);
        }
    }

    /// A segment has all data of the line, with those that follow it.
    fn is_whole(
        &mut self,
        where_from: (Whose, Instant, usize),
        mut first: Wire,
        (whole, spec): (&PacketSpec, &TcpSpec),
    ) -> bool {
        let joined = self.glue(where_from, &mut first, (whole, spec));
        joined.is_ok() && first.tcp().is_some_and(|tcp| tcp.len == spec.len)
    }

    /// An acknowledgment without data for which there is no line: what the line says comes behind it.
    fn stray(&self, line: usize, spec: &PacketSpec, packet: &Wire) -> Box<Failure> {
        let (expected, shown) = (self.expected(spec), shown(spec));
        let actual = Line(packet, shown).to_string();
        let came = seconds(self.micros(packet.at));
        let what =
            format!("unexpected packet: {actual} at {came}, before the one of this line, which comes too");
        Failure::differs(line, what, Line(&expected, shown).to_string(), actual)
    }

    /// A timestamp or a verification tag that is not what it should be.
    fn wrong_number(&mut self, spec: &PacketSpec, window: Window, packet: &Wire) -> Option<String> {
        if let BodySpec::Sctp(sctp) = &spec.body {
            return self.wrong_tag(sctp, packet);
        }
        let wrong = self.wrong_label(spec, packet).or_else(|| self.wrong_stamp(spec, window, packet));
        wrong.map(str::to_owned)
    }

    /// The script has labels of its own for those of the stack, which are random; IPv4 has none, whatever a line says.
    fn wrong_label(&mut self, spec: &PacketSpec, packet: &Wire) -> Option<&'static str> {
        let script = spec.ip.flow_label.filter(|label| *label != 0 && packet.ip.src.is_ipv6())?;
        let live = packet.ip.flow_label;
        let (local, remote) = packet.ends();
        let same = match self.flows.find(local, remote) {
            Some(flow) => flow.label_is(script, live),
            None => script == live,
        };
        (!same).then_some(if live == 0 { "no flow label" } else { "another flow label" })
    }

    /// With --tcp_ts_tick_usecs the stack's timestamps must advance as the script's do; with --tcp_ts_ecr_exact what it echoes is the
    /// peer's, whose timestamps go out as they stand.
    fn wrong_stamp(&mut self, spec: &PacketSpec, window: Window, packet: &Wire) -> Option<&'static str> {
        let judge = self.config.judge;
        let BodySpec::Tcp(spec) = &spec.body else { return None };
        let stamp = |options: &[TcpOption]| {
            options
                .iter()
                .find_map(|o| if let TcpOption::Ts { val, ecr } = o { Some((*val, *ecr)) } else { None })
        };
        let (expected, expected_ecr) = stamp(spec.options.as_deref()?)?;
        let (actual, actual_ecr) = stamp(&packet.tcp()?.options)?;
        if judge.ts_ecr_exact && actual_ecr != expected_ecr {
            return Some("another TS ecr");
        }
        if judge.ts_tick_us == 0 {
            return None;
        }
        let (local, remote) = packet.ends();
        let drift = self.flows.find(local, remote)?.drift(expected, actual);
        // As in packetdrill the share counts from the beginning of the script, not from the event before.
        let wrong =
            drift.unsigned_abs().saturating_mul(judge.ts_tick_us.into()) > judge.tolerance(window.from);
        wrong.then_some("another TS val")
    }

    /// What a line expects, as a packet.
    fn expected(&self, spec: &PacketSpec) -> Wire {
        let world = &self.config.ends;
        let (src, dst) =
            spec.ends.map_or((SocketAddr::new(world.local, 0), SocketAddr::new(world.remote, 0)), |ends| {
                let src = SocketAddr::new(ends.src.0.unwrap_or(world.local), ends.src.1);
                (src, SocketAddr::new(ends.dst.0.unwrap_or(world.remote), ends.dst.1))
            });
        let ip = Ip {
            src: src.ip(),
            dst: dst.ip(),
            tos: spec.ip.tos.map_or(0, |tos| tos.byte()),
            ttl: spec.ip.ttl.unwrap_or_default(),
            flow_label: spec.ip.flow_label.unwrap_or_default(),
        };
        let body = match &spec.body {
            BodySpec::Tcp(tcp) => Body::Tcp(Tcp {
                src_port: src.port(),
                dst_port: dst.port(),
                seq: tcp.seq,
                ack: tcp.ack,
                flags: tcp.flags,
                window: tcp.window.unwrap_or_default(),
                urgent: tcp.urgent,
                options: tcp.options.clone().unwrap_or_default(),
                len: tcp.len,
            }),
            BodySpec::Udp(len) => Body::Udp(Udp { src_port: src.port(), dst_port: dst.port(), len: *len }),
            BodySpec::Icmp(icmp) => Body::Icmp(expected_message(icmp, src, dst)),
            BodySpec::Sctp(sctp) => Body::Sctp(expected_chunks(sctp, src, dst)),
        };
        let marks = &spec.marks;
        let handed = Handed {
            segs: marks.segs.unwrap_or_default(),
            gso: marks.gso.unwrap_or_default() as u16,
            wait_ns: marks.departs.unwrap_or_default().saturating_mul(1_000),
            queued: marks.queued.unwrap_or_default(),
            packets: marks.packets.unwrap_or_default(),
        };
        Wire { at: Instant::ZERO, ip, body, handed }
    }
}

/// What segments of one line must have in common: acknowledgment, window, urgent pointer, flags, bytes of options, TTL.
type Steady = (u32, u16, u16, TcpFlags, usize, u8);

fn steady(packet: &Wire) -> Option<Steady> {
    packet.tcp().map(|tcp| {
        let mut flags = tcp.flags;
        [TcpFlags::FIN, TcpFlags::PSH, TcpFlags::CWR].into_iter().for_each(|flag| flags.remove(flag));
        let options = options::encode(&tcp.options).len();
        (tcp.ack, tcp.window, tcp.urgent, flags, options, packet.ip.ttl)
    })
}

/// More of the line may follow this segment.
const fn may_go_on(tcp: &Tcp) -> bool {
    tcp.len > 0 || !(tcp.flags.syn() || tcp.flags.fin() || tcp.flags.rst())
}

fn without_cwr(mut flags: TcpFlags) -> TcpFlags {
    flags.remove(TcpFlags::CWR);
    flags
}

/// What the messages about a line show.
fn shown(spec: &PacketSpec) -> Shown {
    let window = matches!(&spec.body, BodySpec::Tcp(t) if t.window.is_some());
    let vtag = matches!(&spec.body, BodySpec::Sctp(s) if s.tag.is_some());
    Shown { window, vtag, ports: spec.ends.is_some(), marks: spec.marks, ..Shown::of(&spec.ip) }
}

fn expected_chunks(spec: &SctpSpec, src: SocketAddr, dst: SocketAddr) -> Sctp {
    let (chunks, raw) = match &spec.content {
        Content::Chunks(chunks) => (chunks.clone(), None),
        Content::Raw(bytes) => (Vec::new(), Some(bytes.clone())),
    };
    let vtag = spec.tag.unwrap_or_default();
    Sctp { src_port: src.port(), dst_port: dst.port(), vtag, udp: spec.udp, crc: spec.crc, chunks, raw }
}

fn expected_message(spec: &IcmpSpec, src: SocketAddr, dst: SocketAddr) -> Icmp {
    let quote = |protocol, seq, len| Some(Quote { src: dst, dst: src, protocol, seq, len, kept: 8 });
    let (quoted, len) = match spec.quoted {
        Quoted::Any => (None, 0),
        Quoted::Raw(len) => (None, len.into()),
        Quoted::Udp(len) => (quote(protocol::UDP, 0, len.into()), 0),
        Quoted::Sctp(tag) => (quote(protocol::SCTP, tag, 0), 0),
        Quoted::Tcp { seq, len } => (quote(protocol::TCP, seq, len), 0),
    };
    let rest = spec.mtu.unwrap_or_else(|| u32::from(spec.id.unwrap_or_default()) << 16);
    Icmp { kind: spec.kind, code: spec.code, rest, quoted, len }
}

/// The first thing in which a packet differs.
fn difference(spec: &PacketSpec, p: &Wire) -> Option<String> {
    let body = match (&spec.body, &p.body) {
        (BodySpec::Sctp(spec), Body::Sctp(p)) => chunks(spec, p),
        (BodySpec::Tcp(spec), Body::Tcp(p)) => {
            let options = || options::difference(spec.options.as_ref()?, &p.options);
            segment(spec, p).map(str::to_owned).or_else(options)
        }
        _ => plain(spec, p).map(str::to_owned),
    };
    body.or_else(|| around(spec, p).map(str::to_owned))
}

fn chunks(spec: &SctpSpec, p: &Sctp) -> Option<String> {
    if spec.crc != p.crc {
        return Some("another kind of checksum".to_owned());
    }
    if spec.udp != p.udp {
        return Some(match p.udp {
            Some((from, to)) => format!("UDP ports {from} > {to}"),
            None => "no UDP around it".to_owned(),
        });
    }
    match &spec.content {
        Content::Chunks(expected) => sctp::difference(expected, &p.chunks),
        Content::Raw(_) => None,
    }
}

/// What a packet without chunks or segments carries.
fn plain(spec: &PacketSpec, p: &Wire) -> Option<&'static str> {
    match (&spec.body, &p.body) {
        (BodySpec::Udp(len), Body::Udp(p)) => (*len != p.len).then_some("another length"),
        (BodySpec::Icmp(spec), Body::Icmp(p)) => message(spec, p),
        _ => Some("another protocol"),
    }
}

/// What is around it.
fn around(spec: &PacketSpec, p: &Wire) -> Option<&'static str> {
    match spec.ip.tos {
        Some(tos) if !tos.allows(p.ip.tos) => {
            return Some(match tos {
                TosSpec::Tos(_) => "another TOS",
                TosSpec::Dscp(_) => "another DSCP",
                TosSpec::Ecn(_) | TosSpec::Ect01 => "another ECN mark",
            });
        }
        _ => {}
    }
    // 0 is any, as in packetdrill.
    if spec.ip.ttl.is_some_and(|ttl| ttl != 0 && ttl != p.ip.ttl) {
        return Some("another TTL");
    }
    marks(&spec.marks, p)
}

/// Its first number is the one that the line has, if it has one.
fn has_number(spec: &TcpSpec, p: &Tcp) -> bool {
    spec.numbered == Numbered::Any || spec.seq == p.seq
}

/// What a segment says but for its options.
fn segment(spec: &TcpSpec, p: &Tcp) -> Option<&'static str> {
    if spec.flags != p.flags {
        return Some("other flags");
    }
    if !has_number(spec, p) {
        return Some("another sequence number");
    }
    if spec.len != p.len {
        return Some("another length");
    }
    if spec.ack != p.ack {
        return Some("another acknowledgment number");
    }
    if spec.window.is_some_and(|window| window != p.window) {
        return Some("another window");
    }
    if spec.urgent != p.urgent {
        return Some("another urgent pointer");
    }
    None
}

fn message(spec: &IcmpSpec, p: &Icmp) -> Option<&'static str> {
    if spec.kind != p.kind {
        return Some("another type");
    }
    if spec.code != p.code {
        return Some("another code");
    }
    if spec.mtu.is_some_and(|mtu| mtu != p.rest) {
        return Some("another MTU");
    }
    if spec.id.is_some_and(|id| u32::from(id) != p.rest >> 16) {
        return Some("another identifier");
    }
    match (spec.quoted, &p.quoted) {
        (Quoted::Any, _) => None,
        (Quoted::Raw(len), None) => (u32::from(len) != p.len).then_some("another length"),
        (Quoted::Udp(len), Some(q)) if q.protocol == protocol::UDP => {
            (u32::from(len) != q.len).then_some("a quoted packet of another length")
        }
        (Quoted::Tcp { seq, len }, Some(q)) if q.protocol == protocol::TCP => {
            ((seq, len) != (q.seq, q.len)).then_some("another quoted segment")
        }
        _ => Some("another kind of quoted packet"),
    }
}

fn marks(spec: &Marks, p: &Wire) -> Option<&'static str> {
    let handed = &p.handed;
    if spec.segs.is_some_and(|segs| segs != handed.segs) {
        return Some("another number of segments");
    }
    if spec.gso.is_some_and(|gso| gso != u32::from(handed.gso)) {
        return Some("another GSO size");
    }
    // To the microsecond: virtual time is exact.
    if spec.departs.is_some_and(|us| us.abs_diff(handed.wait_ns / 1_000) > 1) {
        return Some("another departure time");
    }
    if spec.queued.is_some_and(|bytes| bytes != handed.queued) {
        return Some("another number of bytes in the queue");
    }
    spec.packets.is_some_and(|n| n != handed.packets).then_some("another number of packets in the queue")
}
