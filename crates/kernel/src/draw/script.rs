//! A run of a program as a script in packetdrill's language.
use super::packet::Seen;
use super::peer::{SCALE, SYN_WINDOW};
use super::program::{Act, Answer, Program, Setup};
use super::trace::{FIELDS, Trace, Values};
use core::fmt::Write as _;
use lowwater_wire::tcp::TcpFlags;

/// Fields of TCP_INFO that scripts assert where they change.
const ASSERTED: [&str; 15] = [
    "ca_state",
    "unacked",
    "sacked",
    "lost",
    "retrans",
    "snd_ssthresh",
    "snd_cwnd",
    "reordering",
    "retransmits",
    "backoff",
    "delivered",
    "dsack_dups",
    "reord_seen",
    "total_retrans",
    "notsent_bytes",
];
/// Names of ca_state's values.
const CA_STATES: [&str; 5] =
    ["TCP_CA_Open", "TCP_CA_Disorder", "TCP_CA_CWR", "TCP_CA_Recovery", "TCP_CA_Loss"];
/// Segments that left so near to each other, in microseconds, are one line.
const TOGETHER: u64 = 5_000;
/// The peer's timestamp at the SYN, and the stack's at the SYN-ACK.
const STAMP: u64 = 100;

/// The first `steps` steps of a run.
pub(super) fn text(program: &Program, run: &Trace, steps: usize) -> String {
    let setup = &program.setup;
    let mut script =
        Script { text: String::new(), setup, last: setup.rtt, ours: 1, said: vec![], sent: vec![], echo: 0 };
    script.head();
    for (step, done) in program.steps.iter().zip(&run.steps).take(steps) {
        script.act(step.at, &step.act, done.ret);
        script.seen(&done.at_once, None);
        script.info(&done.info);
        script.seen(&done.later, Some(step.at));
        if !done.later.is_empty() {
            script.info(&done.info_later);
        }
    }
    script.text
}

struct Script<'a> {
    text: String,
    setup: &'a Setup,
    /// When the last line was, in microseconds since the SYN.
    last: u64,
    /// The peer's next byte.
    ours: u32,
    /// What the last assertion knew.
    said: Values,
    sent: Vec<Seen>,
    /// The peer's last timestamp.
    echo: u64,
}

impl Script<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn head(&mut self) {
        let s = self.setup;
        let mut set = vec![format!("net.ipv4.tcp_congestion_control={}", s.congestion)];
        set.extend(s.sysctls.iter().map(|(name, value)| format!("net.ipv4.{name}={value}")));
        self.line(&format!("`sysctl -q {}`", set.join(" ")));
        self.line("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3");
        self.line("+0 setsockopt(3, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0");
        self.line("+0 bind(3, ..., ...) = 0");
        self.line("+0 listen(3, 1) = 0");
        let options = match (s.sack, s.timestamps) {
            (true, true) => ",sackOK,TS val 100 ecr 0",
            (true, false) => ",nop,nop,sackOK",
            (false, true) => ",nop,nop,TS val 100 ecr 0",
            (false, false) => "",
        };
        let (asks, grants) = if s.ecn { ("SEW", "SE.") } else { ("S", "S.") };
        self.line(&format!(
            "+0 < {asks} 0:0(0) win {SYN_WINDOW} <mss {}{options},nop,wscale {SCALE}>",
            s.mss
        ));
        let answer = match (s.timestamps, s.sack) {
            (false, _) => "...",
            (true, true) => "mss 1460,sackOK,TS val 100 ecr 100,nop,wscale 7",
            (true, false) => "mss 1460,nop,nop,TS val 100 ecr 100,nop,wscale 7",
        };
        self.line(&format!("+0 > {grants} 0:0(0) ack 1 <{answer}>"));
        let stamp = self.stamp(s.rtt, STAMP).map(|stamp| format!(" <{stamp}>")).unwrap_or_default();
        self.line(&format!("+{} < . 1:1(0) ack 1 win {}{stamp}", seconds(s.rtt), s.window));
        self.echo = STAMP + s.rtt / 1_000;
        self.line("+0 accept(3, ..., ...) = 4");
        self.line("+0 setsockopt(4, SOL_SOCKET, SO_SNDBUF, [1048576], 4) = 0");
        if s.nodelay {
            self.line("+0 setsockopt(4, SOL_TCP, TCP_NODELAY, [1], 4) = 0");
        }
        if s.thin {
            self.line("+0 setsockopt(4, SOL_TCP, TCP_THIN_LINEAR_TIMEOUTS, [1], 4) = 0");
        }
    }

    /// The peer's timestamp option at `at`.
    fn stamp(&self, at: u64, echo: u64) -> Option<String> {
        self.setup.timestamps.then(|| format!("nop,nop,TS val {} ecr {echo}", STAMP + at / 1_000))
    }

    fn act(&mut self, at: u64, act: &Act, ret: i64) {
        let pause = seconds(at.saturating_sub(self.last));
        self.last = at.max(self.last);
        let line = match act {
            Act::Write(len) => format!("+{pause} write(4, ..., {len}) = {ret}"),
            Act::Shutdown => format!("+{pause} shutdown(4, SHUT_WR) = {ret}"),
            Act::Answer(answer) => format!("+{pause} < {}", self.answer(at, answer)),
        };
        self.line(&line);
    }

    fn answer(&mut self, at: u64, a: &Answer) -> String {
        let mut options: Vec<String> = self.stamp(at, self.echo_of(a.echo)).into_iter().collect();
        let room = if self.setup.timestamps { 3 } else { 4 };
        let blocks: Vec<String> =
            a.sacks.iter().take(room).map(|(from, to)| format!("{from}:{to}")).collect();
        if !blocks.is_empty() {
            options.push(format!("nop,nop,sack {}", blocks.join(" ")));
        }
        let options = if options.is_empty() { String::new() } else { format!(" <{}>", options.join(",")) };
        let flags = match (a.ece, a.len > 0) {
            (true, true) => "PE.",
            (true, false) => "E.",
            (false, true) => "P.",
            (false, false) => ".",
        };
        let (from, to) = (self.ours, self.ours + u32::from(a.len));
        self.ours = to;
        self.echo = STAMP + at / 1_000;
        let window = a.window.unwrap_or(self.setup.window);
        format!("{flags} {from}:{to}({}) ack {} win {window}{options}", a.len, a.ack)
    }

    /// The timestamp of a transmission, as the script calls it.
    fn echo_of(&self, (byte, nth): (u32, usize)) -> u64 {
        let holds = |s: &&Seen| s.len > 0 && s.seq <= byte && byte < s.seq + s.len;
        let of: Vec<&Seen> = self.sent.iter().filter(holds).collect();
        let found = of.get(nth.min(of.len().saturating_sub(1))).copied().or(self.sent.last());
        found.map_or(STAMP, |seen| STAMP + seen.at / 1_000)
    }

    /// Segments, of which those that follow one another are one line. `since` is the step's time for those that a timer sent.
    fn seen(&mut self, all: &[Seen], since: Option<u64>) {
        let mut rest = all;
        while let Some((first, behind)) = rest.split_first() {
            let mut whole = first.clone();
            let joined = behind.iter().take_while(|next| self.joins(&mut whole, next)).count();
            rest = &behind[joined..];
            let pause = since.map_or(0, |_| whole.at.saturating_sub(self.last) / 1_000 * 1_000);
            self.last += pause;
            let options = match self.setup.timestamps {
                true => format!(" <nop,nop,TS val {} ecr {}>", STAMP + whole.at / 1_000, self.echo),
                false => String::new(),
            };
            self.line(&format!("+{} > {whole}{options}", seconds(pause)));
        }
        self.sent.extend_from_slice(all);
    }

    /// `next` goes on where `whole` ends, and is added to it.
    fn joins(&self, whole: &mut Seen, next: &Seen) -> bool {
        let again = |seen: &Seen| self.sent.iter().any(|s| s.seq == seen.seq);
        let ends = whole.flags.intersects(TcpFlags::FIN.union(TcpFlags::PSH));
        let follows = next.len > 0 && next.seq == whole.seq + whole.len && next.at < whole.at + TOGETHER;
        if ends || !follows || next.ack != whole.ack || again(whole) != again(next) {
            return false;
        }
        whole.len += next.len;
        whole.flags.insert(next.flags);
        true
    }

    fn info(&mut self, info: &Values) {
        let mut says = String::new();
        for (i, (name, ..)) in FIELDS.iter().enumerate().filter(|(_, (name, ..))| ASSERTED.contains(name)) {
            let (value, before) = (info.get(i).copied().unwrap_or(0), self.said.get(i).copied());
            if before == Some(value) || (before.is_none() && value == 0) {
                continue;
            }
            let named = (*name == "ca_state").then(|| CA_STATES.get(value as usize)).flatten();
            let value = named.map_or_else(|| value.to_string(), |name| (*name).to_owned());
            let and = if says.is_empty() { "" } else { " and " };
            // Writing to a String cannot fail.
            let _ = write!(says, "{and}tcpi_{name} == {value}");
        }
        if !says.is_empty() {
            self.line(&format!("+0 %{{ assert {says} }}%"));
        }
        self.said.clone_from(info);
    }
}

/// Microseconds as seconds, as short as they can be written.
pub(super) fn seconds(us: u64) -> String {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let text = text.trim_start_matches('0').trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() { "0".to_owned() } else { text.to_owned() }
}
