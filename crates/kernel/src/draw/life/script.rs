//! A run of a drawn life as a script in packetdrill's language.
use super::super::pace::value;
use super::super::packet::{PORTS, letters};
use super::super::script::seconds;
use super::super::stack::Place;
use super::end::{BLOCKS, EVENTS, Look, Out, PIPE, TTL, WMEM, timeval};
use super::program::{Act, Cookie, Offer, Program, Segment, level, msg_flags};
use super::trace::{Done, FIELDS, Trace};
use core::fmt::Write as _;
use lowwater_posix::abi;
use lowwater_wire::tcp::{FastOpenCookie, TcpFlags, TcpOptions, TcpRepr};

/// Fields of TCP_INFO that scripts assert where they change.
const ASSERTED: [&str; 18] = [
    "state",
    "ca_state",
    "retransmits",
    "snd_mss",
    "rcv_mss",
    "unacked",
    "sacked",
    "lost",
    "retrans",
    "rcv_ssthresh",
    "snd_cwnd",
    "total_retrans",
    "notsent_bytes",
    "rcv_ooopack",
    "delivered",
    "snd_wnd",
    "rcv_wnd",
    "bytes_received",
];
/// What leaves less than so many microseconds apart leaves together.
const TOGETHER: u64 = 1_000;
/// The stack's timestamp at the beginning, in milliseconds.
const STAMP: u64 = 1_000;

/// The first `steps` steps of a run.
pub(super) fn text(program: &Program, run: &Trace, steps: usize) -> String {
    let mut script = Script {
        text: String::new(),
        last: 0,
        conn: None,
        last_stamp: 0,
        said: None,
        ready: vec![],
        marked: false,
        blocking: program.blocking,
        waits: false,
        turn: program.crowd.then_some(0),
        next: 4,
        pipe: None,
    };
    script.head(program);
    for (i, (step, done)) in program.steps.iter().zip(&run.steps).take(steps).enumerate() {
        let back = run.steps[i..].iter().take(steps - i).find_map(|done| done.woken.as_ref());
        script.step(step.at, &step.act, done, back.filter(|_| done.ret.ends_with(BLOCKS)));
    }
    script.text
}

struct Script {
    text: String,
    /// When the last line was, in microseconds.
    last: u64,
    /// The descriptor of the connection.
    conn: Option<i32>,
    /// What the stack's last timestamp is called.
    last_stamp: u64,
    /// What the last assertion knew.
    said: Option<Vec<u8>>,
    ready: Vec<i16>,
    /// TOS and TTL are said.
    marked: bool,
    /// Sockets block, and a call waits, beside which a script makes no other.
    blocking: bool,
    waits: bool,
    /// Of several peers, whose turn it is.
    turn: Option<u16>,
    /// The number of the next descriptor, and that of the pipe's first.
    next: i32,
    pipe: Option<i32>,
}

impl Script {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn head(&mut self, program: &Program) {
        let (place, usual) = (program.place, Place::default());
        if place.v6 {
            self.line("--ip_version=ipv6");
        }
        if place.v6 || place.mtu != usual.mtu {
            self.line(&format!("--mtu={}", place.mtu));
        }
        let mut set = vec!["net.ipv4.tcp_congestion_control=reno".to_owned()];
        set.extend(program.sysctls.iter().map(|(name, value)| format!("net.ipv4.{name}={value}")));
        set.push(format!("net.ipv4.tcp_wmem='{WMEM}'"));
        self.line(&format!("`sysctl -q {}`", set.join(" ")));
        self.socket("0");
    }

    /// The first socket, bound to its port.
    fn socket(&mut self, at: &str) {
        let ty = if self.blocking { "SOCK_STREAM" } else { "SOCK_STREAM|SOCK_NONBLOCK" };
        self.line(&format!("{at} socket(..., {ty}, IPPROTO_TCP) = 3"));
        self.line("+0 setsockopt(3, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0");
        self.line("+0 bind(3, ..., ...) = 0");
    }

    /// A step; one whose call waits is told `back`, when that came back, and with what.
    fn step(&mut self, at: u64, act: &Act, done: &Done, back: Option<&(u64, String)>) {
        let blocks = done.ret.ends_with(BLOCKS);
        let ret = back.map_or(&done.ret, |(_, ret)| ret);
        if let Act::Splice(len, _) = act {
            self.fill(at, *len, ret);
        }
        let pause = at.saturating_sub(self.last);
        // A script waits for whatever it begins.
        let never = back.is_none() && blocks;
        if let Act::Turn(peer) = act {
            self.turn = Some((*peer).into());
        } else if *act == Act::Socket {
            self.line(&format!("+{} close(3) = 0", seconds(pause)));
            self.socket("+0");
            self.conn = None;
        } else {
            let said = self.act(act, ret);
            let until = back.map(|(end, _)| format!("...{}", seconds(end.saturating_sub(self.last))));
            let comment = if never { "// never comes back: " } else { "" };
            self.line(&format!("{comment}+{}{} {said}", seconds(pause), until.unwrap_or_default()));
        }
        if !never && !matches!(act, Act::Turn(_)) {
            self.last = at.max(self.last);
        }
        self.waits |= blocks;
        self.outs(&done.at_once);
        self.look(&done.look, at);
        self.outs(&done.later);
        let back = done.woken.as_ref().map_or(0, |(end, _)| *end);
        self.waits &= done.woken.is_none();
        self.look(&done.look_later, back);
    }

    fn act(&mut self, act: &Act, ret: &str) -> String {
        let fd = self.conn.unwrap_or(3);
        match act {
            Act::Splice(_, flags) => {
                let (from, moved) = (self.pipe.unwrap_or(0), piped(ret).1);
                let flags = if *flags == 0 { "0" } else { "SPLICE_F_MORE" };
                format!("splice({from}, NULL, {fd}, NULL, {PIPE}, {flags}) = {moved}")
            }
            Act::Socket | Act::Turn(_) => String::new(),
            Act::Listen(backlog) => format!("listen(3, {backlog}) = {ret}"),
            Act::Connect => {
                self.conn = Some(3);
                format!("connect(3, ..., ...) = {ret}")
            }
            Act::Accept => {
                let made = ret.starts_with("fd");
                let fd = self.next.to_string();
                let flags = if self.blocking { "0" } else { "SOCK_NONBLOCK" };
                let said = format!("accept4(3, ..., ..., {flags}) = {}", if made { &fd } else { ret });
                if made {
                    self.conn = Some(self.next);
                    self.next += 1;
                }
                said
            }
            Act::Set(name, value) => set(fd, name, *value, ret),
            Act::Write(len, flags) => format!("send({fd}, ..., {len}, {}) = {ret}", msg_flags(*flags)),
            Act::Fast(len, flags) => {
                self.conn = Some(3);
                format!("sendto(3, ..., {len}, {}, ..., ...) = {ret}", msg_flags(*flags))
            }
            Act::Read(len, flags) => format!("recv({fd}, ..., {len}, {}) = {ret}", msg_flags(*flags)),
            Act::Gather(lens, 0) => format!("writev({fd}, {}, {}) = {ret}", pieces(lens), lens.len()),
            Act::Scatter(lens, 0) => format!("readv({fd}, {}, {}) = {ret}", pieces(lens), lens.len()),
            Act::Gather(lens, flags) => {
                format!("sendmsg({fd}, {}, {}) = {ret}", header(lens, "0"), msg_flags(*flags))
            }
            Act::Scatter(lens, flags) => {
                format!("recvmsg({fd}, {}, {}) = {ret}", header(lens, "..."), msg_flags(*flags))
            }
            Act::Shutdown(how) => {
                let how = ["SHUT_RD", "SHUT_WR", "SHUT_RDWR"].get(*how as usize).unwrap_or(&"3");
                format!("shutdown({fd}, {how}) = {ret}")
            }
            Act::Close => {
                self.conn = None;
                format!("close({fd}) = {ret}")
            }
            Act::CloseListener => format!("close(3) = {ret}"),
            Act::Error => format!("getsockopt({fd}, SOL_SOCKET, SO_ERROR, [{ret}], [4]) = 0"),
            Act::Ioctl(name) => format!("ioctl({fd}, {name}, [{ret}]) = 0"),
            Act::Get(name) => {
                let level = level(name).1;
                format!("getsockopt({fd}, {level}, {name}, [{ret}], [4]) = 0")
            }
            Act::Disconnect => format!("connect({fd}, AF_UNSPEC, ...) = {ret}"),
            Act::Icmp(kind, code, mtu, seq) => {
                format!("< icmp type_{kind} code_{code} mtu {mtu} [{seq}:{seq}(0)]")
            }
            Act::Packet(segment) => self.packet(segment),
        }
    }

    /// A write to the pipe, which is made first; what it came to stands in front of what the splice did.
    fn fill(&mut self, at: u64, len: usize, ret: &str) {
        let mut lead = format!("+{}", self.pause(at));
        if self.pipe.is_none() {
            let from = self.next;
            self.line(&format!("{lead} pipe2([{from}, {}], O_NONBLOCK) = 0", from + 1));
            (self.pipe, self.next, lead) = (Some(from), from + 2, "+0".to_owned());
        }
        let (into, written) = (self.pipe.map_or(0, |from| from + 1), piped(ret).0);
        self.line(&format!("{lead} write({into}, ..., {len}) = {written}"));
    }

    fn packet(&self, s: &Segment) -> String {
        let mut words = Vec::new();
        let offer = s.offer.unwrap_or(Offer { mss: None, scale: None, sack: false, cookie: None });
        words.extend(offer.mss.map(|mss| format!("mss {mss}")));
        if let Some((value, back)) = s.stamp {
            let echo = if s.flags.ack() { self.last_stamp.saturating_sub(back.into()) } else { 0 };
            let pad = if offer.sack { "sackOK" } else { "nop,nop" };
            words.push(format!("{pad},TS val {value} ecr {echo}"));
        } else if offer.sack {
            words.push("nop,nop,sackOK".to_owned());
        }
        words.extend(offer.scale.map(|scale| format!("nop,wscale {scale}")));
        let blocks: Vec<String> = s.sacks.iter().map(|(from, to)| format!("{from}:{to}")).collect();
        if !blocks.is_empty() {
            words.push(format!("nop,nop,sack {}", blocks.join(" ")));
        }
        words.extend(offer.cookie.and_then(Cookie::option).map(|cookie| fast_open(&cookie)));
        let ack = if s.flags.ack() { format!(" ack {}", s.ack) } else { String::new() };
        let urgent =
            if s.flags.contains(TcpFlags::URG) { format!(" urg {}", s.urgent) } else { String::new() };
        let options = if words.is_empty() { String::new() } else { format!(" <{}>", words.join(",")) };
        let end = s.seq.wrapping_add(s.len.into());
        let flags = letters(s.flags);
        let mark = match ["", "[ect1] ", "[ect0] ", "[ce] "].get(usize::from(s.tos)) {
            Some(mark) => (*mark).to_owned(),
            None => format!("[tos {:#x}] ", s.tos),
        };
        let ends = self.turn.map_or_else(String::new, |turn| format!(":{} > :{}: ", PORTS.1 + turn, PORTS.0));
        format!("< {mark}{ends}{flags} {}:{end}({}){ack} win {}{urgent}{options}", s.seq, s.len, s.window)
    }

    /// What was sent, segments that follow one another as one: where packets were cut below TCP is not compared ([`Out::same`]), and a
    /// script, whose events of one instant are a moment apart, may find it elsewhere.
    fn outs(&mut self, all: &[Out]) {
        let mut rest = all;
        while let Some((first, behind)) = rest.split_first() {
            let (mut whole, mut size) = (first.clone(), first.len);
            let joins = |next: &&Out| {
                // Only the last one may be shorter.
                let joins = size == first.len && next.len <= size && join(&mut whole, next);
                size = next.len;
                joins
            };
            let taken = behind.iter().take_while(joins).count();
            self.out(&whole);
            rest = behind.get(taken..).unwrap_or_default();
        }
    }

    fn out(&mut self, out: &Out) {
        let pause = out.at.saturating_sub(self.last);
        let pause = if pause < 4_000 { 0 } else { pause / 1_000 * 1_000 };
        self.last += pause;
        let r = &out.repr;
        let mut words = Vec::new();
        let o = &r.options;
        if let Some(stamp) = o.timestamps {
            self.last_stamp = STAMP + out.at / 1_000;
            words.push(format!("nop,nop,TS val {} ecr {}", self.last_stamp, stamp.echo));
        }
        let blocks: Vec<String> = o.sack.iter().map(|(from, to)| format!("{from}:{to}")).collect();
        if !blocks.is_empty() {
            words.push(format!("nop,nop,sack {}", blocks.join(" ")));
        }
        let mut options = if words.is_empty() { String::new() } else { format!(" <{}>", words.join(",")) };
        if r.flags.syn() {
            options = match o.timestamps {
                // Their value has a name from here on.
                Some(_) if r.flags.ack() && o.fastopen.is_some() => " <...>".to_owned(),
                Some(_) => self.syn_options(o),
                None => " <...>".to_owned(),
            };
        }
        let ack = if r.flags.ack() { format!(" ack {}", r.ack) } else { String::new() };
        let urgent =
            if r.flags.contains(TcpFlags::URG) { format!(" urg {}", r.urgent) } else { String::new() };
        let (flags, end) = (letters(r.flags), r.seq.wrapping_add(out.len));
        let (seq, len, window) = (r.seq, out.len, r.window);
        let (tos, ttl) = out.header;
        // Said of all from the first that is not as usual.
        self.marked |= (tos, ttl) != (0, TTL);
        let mark = if self.marked { format!("[tos {tos:#x}, ttl {ttl}] ") } else { String::new() };
        let ends = self.turn.map_or_else(String::new, |_| format!(":{} > :{}: ", r.src_port, r.dst_port));
        self.line(&format!(
            "+{} > {mark}{ends}{flags} {seq}:{end}({len}){ack} win {window}{urgent}{options}",
            seconds(pause)
        ));
    }

    /// Options of a SYN with timestamps, in the order that they are sent in.
    fn syn_options(&self, o: &TcpOptions) -> String {
        let mut words: Vec<String> = o.mss.map(|mss| format!("mss {mss}")).into_iter().collect();
        let echo = o.timestamps.map_or(0, |stamp| stamp.echo);
        let pad = if o.sack_permitted { "sackOK" } else { "nop,nop" };
        words.push(format!("{pad},TS val {} ecr {echo}", self.last_stamp));
        words.extend(o.window_scale.map(|scale| format!("nop,wscale {scale}")));
        words.extend(o.fastopen.map(|cookie| fast_open(&cookie)));
        format!(" <{}>", words.join(","))
    }

    /// How long before a line that must not come before a time, when a call is back.
    fn pause(&mut self, from: u64) -> String {
        let pause = from.saturating_sub(self.last);
        self.last += pause;
        seconds(pause)
    }

    /// What is asked for, not before a time.
    fn look(&mut self, look: &Look, from: u64) {
        let ready = look.ready.clone();
        if ready != self.ready && !self.waits {
            if let (Some(fd), Some(revents)) = (self.conn, ready.last()) {
                let ret = i32::from(*revents != 0);
                let (asked, got) = (poll_words(EVENTS), poll_words(*revents));
                let pause = self.pause(from);
                self.line(&format!(
                    "+{pause} poll([{{fd={fd}, events={asked}, revents={got}}}], 1, 0) = {ret}"
                ));
            }
            self.ready = ready;
        }
        for edges in &look.edges {
            self.line(&format!("// epoll, edge-triggered: {edges:#x}"));
        }
        let Some(info) = &look.info else { return };
        let mut says = String::new();
        for field in FIELDS.iter().filter(|(name, ..)| ASSERTED.contains(name)) {
            let (now, before) = (value(info, *field), self.said.as_ref().map(|said| value(said, *field)));
            if before == Some(now) || (before.is_none() && now == 0) {
                continue;
            }
            let and = if says.is_empty() { "" } else { " and " };
            // Writing to a String cannot fail.
            let _ = write!(says, "{and}tcpi_{} == {now}", field.0);
        }
        if !says.is_empty() {
            let pause = self.pause(from);
            self.line(&format!("+{pause} %{{ assert {says} }}%"));
        }
        self.said = Some(info.clone());
    }
}

/// Takes `next` into `whole`, where that left with it and goes on behind it.
fn join(whole: &mut Out, next: &Out) -> bool {
    let last = TcpFlags::PSH | TcpFlags::FIN;
    let (a, b) = (&whole.repr, &next.repr);
    let follows = whole.len > 0 && next.len > 0 && next.at < whole.at + TOGETHER && b.seq == whole.end();
    let flags = (a.flags | last) == (b.flags | last) && !a.flags.fin();
    let alike = TcpRepr { seq: a.seq, flags: a.flags, ..*b } == *a && whole.header == next.header;
    if follows && flags && alike {
        (whole.at, whole.len, whole.repr.flags) = (next.at, whole.len + next.len, next.repr.flags);
        return true;
    }
    false
}

/// What the write to the pipe came to, and what the splice did.
fn piped(ret: &str) -> (&str, &str) {
    ret.split_once(", ").unwrap_or(("", ret))
}

fn set(fd: i32, name: &str, value: i32, ret: &str) -> String {
    let (value, len) = match name {
        "SO_LINGER" => (format!("{{onoff={}, linger={}}}", i32::from(value >= 0), value.max(0)), 8),
        "SO_RCVTIMEO" | "SO_SNDTIMEO" => {
            let (seconds, micros) = timeval(value);
            (format!("{{tv_sec={seconds}, tv_usec={micros}}}"), 16)
        }
        _ => (format!("[{value}]"), 4),
    };
    format!("setsockopt({fd}, {}, {name}, {value}, {len}) = {ret}", level(name).1)
}

/// The option of Fast Open, filled up to whole words.
fn fast_open(cookie: &FastOpenCookie) -> String {
    let hex: String = cookie.as_slice().iter().map(|byte| format!("{byte:02x}")).collect();
    let space = if hex.is_empty() { "" } else { " " };
    let pad = if (cookie.len() + 2).is_multiple_of(4) { "" } else { ",nop,nop" };
    format!("FO{space}{hex}{pad}")
}

fn pieces(lens: &[usize]) -> String {
    let all: Vec<String> = lens.iter().map(|len| format!("{{..., {len}}}")).collect();
    format!("[{}]", all.join(", "))
}

/// A message header with these pieces.
fn header(lens: &[usize], flags: &str) -> String {
    format!("{{msg_name(...)=NULL, msg_iov({})={}, msg_flags={flags}}}", lens.len(), pieces(lens))
}

fn poll_words(events: i16) -> String {
    const NAMES: [(i32, &str); 6] = [
        (abi::POLLIN, "POLLIN"),
        (abi::POLLPRI, "POLLPRI"),
        (abi::POLLOUT, "POLLOUT"),
        (abi::POLLERR, "POLLERR"),
        (abi::POLLHUP, "POLLHUP"),
        (abi::POLLRDHUP, "POLLRDHUP"),
    ];
    let all: Vec<&str> =
        NAMES.iter().filter(|(bit, _)| i32::from(events) & bit != 0).map(|(_, name)| *name).collect();
    if all.is_empty() { "0".to_owned() } else { all.join("|") }
}
