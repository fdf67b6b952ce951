//! What was sent while a script ran, and how two such transcripts differ.
use super::counts::{self, Counted};
use super::flow::Flow;
use super::replied::{self, Replied};
use super::seconds;
use super::told::{self, Told};
use crate::options::TcpOption;
use crate::wire::{Body, Line, Shown, Tcp, Wire};
use core::net::SocketAddr;
use lowwater_core::base::Instant;
use lowwater_wire::tcp::TcpFlags;

/// Entries of one transcript.
const ENTRIES_MAX: usize = 10_000;
/// Segments that follow one another within so many microseconds count as one: a real device takes them one by one.
const BURST_US: u64 = 3_000;
/// What two packets may be apart in time, in microseconds, and the part of their distance from the last line of the script that comes
/// on top: timers of a kernel are late by up to an eighth.
const APART_US: u64 = 10_000;
const APART_SHARE: u64 = 8;
/// How long the stack is watched after the last line, in microseconds, and from when on a packet there may be missing.
pub(super) const WATCHED_US: u64 = 20_000;
pub(super) const LATE_US: u64 = 2_000;
/// Kinds of ICMPv6 by which a host speaks of itself: neighbours, routers, groups.
const OF_THE_LINK: core::ops::RangeInclusive<u8> = 130..=143;

/// What a target sent while a script ran, between the lines that made it do so.
#[derive(Debug, Default)]
pub struct Transcript {
    entries: Vec<Entry>,
    /// Conversations in the order of their first packets, for their numbers.
    talks: Vec<Flow>,
    /// What TCP_INFO said after each line.
    pub(super) told: Vec<Told>,
    /// What calls answered whose lines leave that open.
    pub(super) replied: Vec<Replied>,
    /// What TCP's counters said.
    counted: Counted,
    /// There was more than [`ENTRIES_MAX`].
    cut: bool,
}

#[derive(Debug)]
struct Entry {
    what: What,
    /// Microseconds since the beginning, and since the last line.
    at: u64,
    since: u64,
}

#[derive(Debug)]
enum What {
    /// A line of the script: a packet of the peer, a call, a command.
    Line(usize),
    /// A packet in the script's numbers, with the number of its conversation.
    Sent(usize, Box<Wire>),
}

/// In what two transcripts of a script differ, and where first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Apart {
    /// The first line that one has and the other has not, or after which they differ; 1 where there is none.
    pub line: usize,
    /// Each of what differs: packets alone, since what is told after them follows from them, or what calls answer, TCP_INFO, counters.
    pub what: Vec<&'static str>,
}

impl Transcript {
    /// Microseconds from the beginning to the last line or packet.
    #[must_use]
    pub fn lasted_us(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.at)
    }

    /// The script does something.
    pub(super) fn line(&mut self, line: usize, at: u64) {
        self.push(Entry { what: What::Line(line), at, since: 0 });
    }

    /// What the target's counters say after a line.
    pub(super) fn count(&mut self, line: usize, counters: Vec<(String, u64)>) {
        // What is not compared anyhow need not be kept.
        if !self.cut {
            self.counted.note(line, counters);
        }
    }

    /// What they say in the end of the moment after the last line.
    pub(super) fn count_last(&mut self, counters: Vec<(String, u64)>) {
        self.counted.note_last(counters);
    }

    /// The target has sent a packet.
    pub(super) fn sent(&mut self, packet: &Wire, at: u64) {
        if matches!(&packet.body, Body::Icmp(i) if packet.ip.src.is_ipv6() && OF_THE_LINK.contains(&i.kind)) {
            return;
        }
        let (talk, mut packet) = self.mapped(packet);
        // Whatever the clock of the target is.
        packet.at = Instant::ZERO;
        if let Some(tcp) = packet.tcp_mut() {
            // How large a window is follows from how a kernel's buffers are cut, and from a clock; that of a SYN does not.
            if !tcp.flags.syn() {
                tcp.window = tcp.window.min(1);
            }
            for option in &mut tcp.options {
                if let TcpOption::Ts { val, .. } = option {
                    *val = 0;
                }
            }
        }
        if let Some(Entry { what: What::Sent(last, before), at: begun, .. }) = self.entries.last_mut()
            && (*last, at.saturating_sub(*begun) <= BURST_US) == (talk, true)
            && joined(before, &packet)
        {
            return;
        }
        let line = self.entries.iter().rev().find(|e| matches!(e.what, What::Line(_)));
        let since = at.saturating_sub(line.map_or(0, |e| e.at));
        self.push(Entry { what: What::Sent(talk, Box::new(packet)), at, since });
    }

    fn push(&mut self, entry: Entry) {
        match self.entries.len() < ENTRIES_MAX {
            true => self.entries.push(entry),
            false => self.cut = true,
        }
    }

    /// A packet in the script's numbers, and the number of its conversation.
    fn mapped(&mut self, packet: &Wire) -> (usize, Wire) {
        let (local, remote) = match &packet.body {
            Body::Icmp(icmp) => icmp.quoted.map_or(packet.ends(), |q| (q.dst, q.src)),
            _ => packet.ends(),
        };
        let talk = self.talk(local, remote);
        let flow = &mut self.talks[talk];
        // A SYN with another number begins anew, and a reset of number 0 is of no connection (RFC 9293 section 3.10.7.1).
        let begins = |t: &Tcp| t.flags.syn() && flow.live_seq(0) != t.seq;
        if packet.tcp().is_some_and(|t| begins(t) || (t.flags.rst() && t.seq == 0)) {
            flow.forget();
        }
        flow.learn(packet);
        (talk, flow.to_script(packet))
    }

    fn talk(&mut self, local: SocketAddr, remote: SocketAddr) -> usize {
        let known = self.talks.iter().position(|f| (f.local, f.remote) == (local, remote));
        known.unwrap_or_else(|| {
            self.talks.push(Flow::new(local, remote));
            self.talks.len() - 1
        })
    }

    /// Both sent the same packets in the same order and counted the same, and what TCP_INFO said differs at most in what a clock measures: a
    /// late machine explains the rest of [`Self::differences`].
    #[must_use]
    pub fn differ_in_time_alone(&self, other: &Self, text: &str) -> bool {
        self.same_packets(other)
            && replied::differences(&self.replied, &other.replied, text).is_empty()
            && told::differences_beyond_time(&self.told, &other.told, text).is_empty()
            && counts::differences(&self.counted, &other.counted, text).is_empty()
    }

    /// Both sent the same packets in the same order, whenever that was.
    #[must_use]
    pub fn same_packets(&self, other: &Self) -> bool {
        if self.cut || other.cut {
            return false;
        }
        let packets = |t: &Self| {
            let sent = t.entries.iter().filter(|e| matches!(e.what, What::Sent(..)));
            sent.map(Entry::key).collect::<Vec<_>>()
        };
        packets(self) == packets(other)
    }

    /// Both sent the same packets at the same times: what they do not have in common is what calls, TCP_INFO and counters told.
    #[must_use]
    pub fn sends_alike(&self, other: &Self) -> bool {
        let mut steps = steps(&self.entries, &other.entries);
        forgive(&mut steps, &self.entries, &other.entries);
        !(self.cut || other.cut) && steps.iter().all(|s| matches!(s, Step::Both(_)))
    }

    /// In what this and another transcript of the same script differ, and where first.
    #[must_use]
    pub fn apart(&self, other: &Self, text: &str) -> Apart {
        let mut steps = steps(&self.entries, &other.entries);
        forgive(&mut steps, &self.entries, &other.entries);
        if let Some(at) = steps.iter().position(|s| !matches!(s, Step::Both(_))) {
            let line = |step: &Step| match step {
                Step::Both(i) | Step::Here(i) => self.entries[*i].line(),
                Step::There(j) => other.entries[*j].line(),
            };
            let line = steps[..=at].iter().rev().find_map(line);
            return Apart { line: line.unwrap_or(1), what: vec!["packets"] };
        }
        let all = [
            ("what calls answer", replied::first(&self.replied, &other.replied)),
            ("TCP_INFO", told::first(&self.told, &other.told, text)),
            ("counters", counts::first(&self.counted, &other.counted, text)),
        ];
        let line = all.iter().filter_map(|(_, line)| *line).min().unwrap_or_default().max(1);
        Apart { line, what: all.iter().filter(|(_, line)| line.is_some()).map(|(what, _)| *what).collect() }
    }

    /// What this and another transcript of the same script do not have in common, as lines with their surroundings: `-` only here, `+` only
    /// there. Empty when they are alike.
    #[must_use]
    pub fn differences(&self, other: &Self, text: &str) -> Vec<String> {
        // What was not written down may differ.
        if self.cut || other.cut {
            return vec![format!("not compared: there are more than {ENTRIES_MAX} lines and packets")];
        }
        let mut steps = steps(&self.entries, &other.entries);
        forgive(&mut steps, &self.entries, &other.entries);
        if steps.iter().all(|s| matches!(s, Step::Both(_))) {
            let mut lines = replied::differences(&self.replied, &other.replied, text);
            lines.append(&mut told::differences(&self.told, &other.told, text));
            lines.append(&mut counts::differences(&self.counted, &other.counted, text));
            return lines;
        }
        let show = |mark: char, e: &Entry| format!("{mark} {}", e.shown(text));
        steps
            .iter()
            .map(|step| match step {
                Step::Both(a) => show(' ', &self.entries[*a]),
                Step::Here(a) => show('-', &self.entries[*a]),
                Step::There(b) => show('+', &other.entries[*b]),
            })
            .collect()
    }
}

/// Takes `next` into the segment before it where both could have been one.
fn joined(before: &mut Wire, next: &Wire) -> bool {
    let (Some(a), Some(b)) = (before.tcp_mut(), next.tcp()) else { return false };
    let follows = a.len > 0 && b.len > 0 && a.seq.wrapping_add(a.len) == b.seq;
    let rest = |tcp: &crate::wire::Tcp| (tcp.ack, tcp.window, tcp.urgent, tcp.options.clone());
    let last = TcpFlags::PSH | TcpFlags::FIN;
    let alike = (a.flags | last) == (b.flags | last) && !a.flags.fin() && rest(a) == rest(b);
    if follows && alike {
        a.len += b.len;
        a.flags = b.flags;
    }
    follows && alike
}

impl Entry {
    fn key(&self) -> String {
        match &self.what {
            What::Line(line) => format!("line {line}"),
            What::Sent(talk, packet) => {
                let window = packet.tcp().is_some_and(|t| t.flags.syn() || t.window == 0);
                let shown = Shown { window, tos: true, ttl: true, ..Shown::default() };
                format!("{talk}: {}", Line(packet, shown))
            }
        }
    }

    fn line(&self) -> Option<usize> {
        match &self.what {
            What::Line(line) => Some(*line),
            What::Sent(..) => None,
        }
    }

    fn shown(&self, text: &str) -> String {
        match &self.what {
            What::Line(line) => {
                let source = text.lines().nth(line.saturating_sub(1)).unwrap_or_default().trim();
                format!("{} line {line}: {source}", seconds(self.at))
            }
            What::Sent(..) => format!("  +{} {}", seconds(self.since), self.key()),
        }
    }

    /// Both happen at the same distance from the line before, as far as a real clock can tell.
    fn timely(&self, other: &Self) -> bool {
        let sent = |e: &Self| matches!(e.what, What::Sent(..));
        !sent(self) || !sent(other) || near(self.since, other.since, self.since.max(other.since))
    }
}

fn near(a: u64, b: u64, since: u64) -> bool {
    a.abs_diff(b) <= APART_US + since / APART_SHARE
}

/// One step through two transcripts.
#[derive(Clone, Copy, Debug)]
enum Step {
    Both(usize),
    Here(usize),
    There(usize),
}

/// The way through both with the most in common (longest common subsequence). What is alike at both ends is left out of the table.
fn steps(a: &[Entry], b: &[Entry]) -> Vec<Step> {
    let keys = |list: &[Entry]| list.iter().map(Entry::key).collect::<Vec<_>>();
    let (ka, kb) = (keys(a), keys(b));
    let same = |i: usize, j: usize| ka[i] == kb[j] && a[i].timely(&b[j]);
    let head = (0..a.len().min(b.len())).take_while(|&i| same(i, i)).count();
    let rest = a.len().min(b.len()) - head;
    let tail = (1..=rest).take_while(|&i| same(a.len() - i, b.len() - i)).count();
    let (rows, columns) = (a.len() - head - tail, b.len() - head - tail);
    // longest[i][j]: what is common to the parts behind i and j.
    let mut longest = vec![vec![0_u32; columns + 1]; rows + 1];
    for i in (0..rows).rev() {
        for j in (0..columns).rev() {
            longest[i][j] = if same(head + i, head + j) {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let mut steps: Vec<Step> = (0..head).map(Step::Both).collect();
    let (mut i, mut j) = (0, 0);
    while i < rows || j < columns {
        if i < rows && j < columns && same(head + i, head + j) {
            steps.push(Step::Both(head + i));
            (i, j) = (i + 1, j + 1);
        } else if j == columns || (i < rows && longest[i + 1][j] >= longest[i][j + 1]) {
            steps.push(Step::Here(head + i));
            i += 1;
        } else {
            steps.push(Step::There(head + j));
            j += 1;
        }
    }
    steps.extend((1..=tail).rev().map(|i| Step::Both(a.len() - i)));
    steps
}

/// Takes out what a real clock alone explains: a packet that came on the other side of a line, and one that came after the last line, when
/// nobody waited for it any more.
fn forgive(steps: &mut Vec<Step>, a: &[Entry], b: &[Entry]) {
    let mut at = 0;
    while at < steps.len() {
        let Step::Here(i) = steps[at] else {
            at += 1;
            continue;
        };
        let since = a[i].since;
        let twin = steps.iter().position(|s| match s {
            Step::There(j) => {
                let since = since.max(b[*j].since);
                a[i].key() == b[*j].key() && since > 0 && near(a[i].at, b[*j].at, since)
            }
            _ => false,
        });
        if let Some(twin) = twin {
            steps[at] = Step::Both(i);
            steps.remove(twin);
            at += usize::from(twin > at);
        } else {
            at += 1;
        }
    }
    let last = steps.iter().rposition(|s| matches!(s, Step::Both(i) if matches!(a[*i].what, What::Line(_))));
    let mut index = 0;
    steps.retain(|step| {
        let behind = last.is_none_or(|last| index > last);
        index += 1;
        let late = match step {
            Step::Both(_) => false,
            Step::Here(i) => a[*i].since >= LATE_US,
            Step::There(j) => b[*j].since >= LATE_US,
        };
        !(behind && late)
    });
}
