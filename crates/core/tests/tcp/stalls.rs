//! Drawn lives of a sender whose driver and device stall: nobody asks for packets, turns are short, "not now", completions that come late, with
//! any queue below and small limits, over a path that loses. Everything arrives, a timer of the connection's own always runs for what is in flight,
//! timestamps are those of the departure and nothing is probed for in recovery (both in `Peer`).
use super::peer::{Peer, Shape};
use super::text::Seg;
use lowwater_core::base::{Error, Rng, Sysctl};
use lowwater_core::tcp::{SendFlags, SocketOptions};
use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;

const WORLDS: u64 = 1_500;
/// Stalls begin before this, and none is longer than [`LONGEST_MS`].
const STALLS_END_MS: u64 = 8_000;
const LONGEST_MS: u64 = 2_500;
/// Nothing of these lives takes longer.
const LIMIT_MS: u64 = 900_000;

#[derive(Clone, Copy, Debug)]
enum Stall {
    /// Nobody asks for packets.
    Asleep,
    /// The device has no room.
    NotNow,
    /// A packet or two now and then.
    Turns,
    /// What has left is told of at the end.
    Late,
    /// The path is longer, both ways.
    Far,
}

#[derive(Debug)]
enum Event {
    Write(usize),
    Begin(Stall, u64),
    /// Nobody asks for packets any more.
    Dead,
    Turn(usize),
    End(Stall),
    /// A segment of ours at the peer.
    There(Seg),
    /// The peer's segment here.
    Here(String),
    /// The peer writes so many bytes.
    Peer(u32),
}

struct Life {
    p: Peer,
    rng: Rng,
    at: u64,
    order: u64,
    events: BTreeMap<(u64, u64), Event>,
    /// One way, and how much longer that is now.
    delay: u64,
    farther: u64,
    /// When the newest arrives in each direction: nothing overtakes.
    newest: [u64; 2],
    loss_ppm: u32,
    sack: bool,
    /// What the peer has got, as disjoint ranges by their start, and what it has sent.
    got: BTreeMap<u32, u32>,
    peer_nxt: u32,
    written: u32,
    /// Stalls of each kind that have begun and not ended.
    stalls: [u32; 5],
    dead: bool,
}

fn plain(_: &mut SocketOptions) {}
fn prompt(o: &mut SocketOptions) {
    o.nodelay = true;
}
fn paced(o: &mut SocketOptions) {
    o.nodelay = true;
    o.max_pacing_rate = 30_000;
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork("life");
        let sack = rng.below(4) > 0;
        let syn = match (sack, rng.below(4) > 0) {
            (true, true) => "win 65535 mss 1000 sackOK ts 100/0",
            (true, false) => "win 65535 mss 1000 sackOK",
            (false, true) => "win 65535 mss 1000 ts 100/0",
            (false, false) => "win 65535 mss 1000",
        };
        let sysctl = Sysctl {
            tcp_limit_output_bytes: [1 << 20, 4_000, 10_000][rng.below(3) as usize],
            tcp_limit_output_all: rng.below(2) == 0,
            tcp_autocorking: rng.below(2) == 0,
            ..Sysctl::default()
        };
        let options = [plain, prompt, paced][rng.below(3) as usize];
        let delay = [5, 20, 50][rng.below(3) as usize];
        let mut p = Peer::server(Shape { sysctl, options, syn, rtt_ms: 2 * delay, ..Shape::default() });
        if rng.below(4) > 0 {
            p.set_qdisc(["fq", "fq quantum 1000", "pfifo limit 3", "pfifo_fast"][rng.below(4) as usize]);
        }
        p.set_zero();
        let loss_ppm = [0, 20_000, 100_000, 250_000][rng.below(4) as usize];
        let mut life = Self {
            p,
            rng,
            at: 0,
            order: 0,
            events: BTreeMap::new(),
            delay,
            farther: 0,
            newest: [0; 2],
            loss_ppm,
            sack,
            got: BTreeMap::new(),
            peer_nxt: 1,
            written: 0,
            stalls: [0; 5],
            dead: false,
        };
        life.draw();
        life
    }

    fn draw(&mut self) {
        if self.rng.below(8) == 0 {
            let at = self.rng.below(STALLS_END_MS);
            self.post(at, Event::Write(3_000));
            self.post(at + self.rng.clone().below(3 * self.delay), Event::Dead);
        }
        for _ in 0..5 + self.rng.below(25) {
            let len = [100, 900, 3_000, 9_000][self.rng.below(4) as usize];
            let at = self.rng.below(STALLS_END_MS);
            self.post(at, Event::Write(1 + self.rng.clone().below(len) as usize));
        }
        if self.rng.below(2) == 0 {
            for _ in 0..self.rng.below(60) {
                let at = self.rng.below(STALLS_END_MS);
                self.post(at, Event::Peer(1 + self.rng.clone().below(1_000) as u32));
            }
        }
        for _ in 0..self.rng.below(30) {
            let kinds = [Stall::Asleep, Stall::NotNow, Stall::Turns, Stall::Late, Stall::Far];
            let kind = kinds[self.rng.below(5) as usize];
            let longest = [30, 300, LONGEST_MS][self.rng.below(3) as usize];
            let (at, lasts) = (self.rng.below(STALLS_END_MS), 1 + self.rng.below(longest));
            self.post(at, Event::Begin(kind, lasts));
            if self.rng.below(2) == 0 {
                // Seldom alone: data leaves, and then the path is long and nobody asks.
                let (before, other) = (self.rng.below(2 * self.delay), kinds[self.rng.below(5) as usize]);
                self.post(at.saturating_sub(before), Event::Write(9_000));
                self.post(at + self.rng.clone().below(4 * self.delay), Event::Begin(other, lasts));
            }
        }
    }

    fn post(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.events.insert((at, self.order), event);
    }

    /// When what leaves at `at` arrives, towards the peer (0) or from it.
    fn arrival(&mut self, at: u64, way: usize) -> u64 {
        self.newest[way] = self.newest[way].max(at + self.delay + self.farther);
        self.newest[way]
    }

    /// Until `at` or the next event, with all that leaves on the way.
    fn pass(&mut self, at: u64) {
        // What leaves arrives no earlier than one delay later, and may come before `at`.
        while self.at < at && self.events.first_key_value().is_none_or(|(key, _)| key.0 > self.at) {
            self.at = at.min(self.at + self.delay);
            let left = self.p.run_to(self.at);
            self.check_timer();
            for (ms, seg) in left {
                if seg.len > 0 && !self.rng.chance_ppm(self.loss_ppm) {
                    let there = self.arrival(ms, 0);
                    self.post(there, Event::There(seg));
                }
            }
        }
    }

    /// Something in flight that is lost is found by a timer of the connection's own, whatever else has happened, waits or is due, and the stack asks
    /// to be called by then.
    fn check_timer(&mut self) {
        let (unacked, error) = (self.p.info().unacked, self.p.error());
        if unacked == 0 || error.is_some() {
            return;
        }
        let own = self.p.stack.tcp_retransmission_deadline(self.p.sock);
        let Some(own) = own else { panic!("no timer runs for {unacked} segments at {}", self.at) };
        let asked = self.p.stack.next_deadline();
        assert!(asked.is_some_and(|at| at <= own), "{asked:?} asked for, {own:?} due at {}", self.at);
    }

    fn arrived(&mut self, seg: &Seg) {
        let (mut from, mut to) = (seg.seq.expect("data"), seg.seq.expect("data") + seg.len);
        let touching: Vec<u32> =
            self.got.range(..=to).filter(|(_, end)| **end >= from).map(|(start, _)| *start).collect();
        for start in touching {
            let end = self.got.remove(&start).expect("a range");
            (from, to) = (from.min(start), to.max(end));
        }
        self.got.insert(from, to);
        self.answer(0, Some(from));
    }

    /// The peer acknowledges what it has, with `len` bytes of its own; pure acknowledgements may be lost.
    fn answer(&mut self, len: u32, newest: Option<u32>) {
        let ack = self.acked();
        let mut text = match len {
            0 => format!(". {} ack {ack}", self.peer_nxt),
            _ => format!("P. {}:{} ack {ack}", self.peer_nxt, self.peer_nxt + len),
        };
        self.peer_nxt += len;
        let ranges: Vec<(u32, u32)> = self.got.iter().map(|(a, b)| (*a, *b)).filter(|r| r.0 > ack).collect();
        if self.sack && !ranges.is_empty() {
            text.push_str(" sack");
            let first = ranges.iter().filter(|r| Some(r.0) == newest);
            let others = ranges.iter().rev().filter(|r| Some(r.0) != newest);
            for (a, b) in first.chain(others).take(3) {
                text.push_str(&format!(" {a}:{b}"));
            }
        }
        if len > 0 || !self.rng.chance_ppm(self.loss_ppm / 2) {
            let here = self.arrival(self.at, 1);
            self.post(here, Event::Here(text));
        }
    }

    fn acked(&self) -> u32 {
        self.got.first_key_value().filter(|(start, _)| **start == 1).map_or(1, |(_, end)| *end)
    }

    fn begin(&mut self, stall: Stall, lasts: u64) {
        self.stalls[stall as usize] += 1;
        match stall {
            Stall::Asleep => self.p.stall(true),
            Stall::NotNow => self.p.refuse(true),
            Stall::Turns => {
                self.p.turn(0);
                for _ in 0..self.rng.below(1 + lasts / 10) {
                    let at = self.at + self.rng.below(lasts);
                    self.post(at, Event::Turn(1 + self.rng.clone().below(3) as usize));
                }
            }
            Stall::Late => self.p.slow_device(),
            Stall::Far => self.farther = 1 + self.rng.below(500),
        }
        self.post(self.at + lasts, Event::End(stall));
    }

    fn end(&mut self, stall: Stall) {
        self.stalls[stall as usize] -= 1;
        if self.stalls[stall as usize] > 0 {
            return;
        }
        match stall {
            Stall::Asleep => self.p.stall(false),
            Stall::NotNow => self.p.refuse(false),
            Stall::Turns => self.p.turn(usize::MAX),
            Stall::Late => self.p.quick_device(),
            Stall::Far => self.farther = 0,
        }
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Write(n) => {
                self.written += self.p.try_write(n, SendFlags::default()).unwrap_or(0) as u32;
            }
            Event::Begin(stall, lasts) => self.begin(stall, lasts),
            Event::Turn(packets) if self.stalls[Stall::Turns as usize] > 0 => self.p.turn(packets),
            Event::Turn(_) => {}
            Event::Dead => {
                self.dead = true;
                self.p.stack.set_sysctl("tcp_retries2", "6").expect("a setting");
                self.stalls[Stall::Asleep as usize] += 1;
                self.p.stall(true);
            }
            Event::End(stall) => self.end(stall),
            Event::There(seg) => self.arrived(&seg),
            Event::Here(text) => {
                self.p.inject_more(&text);
                let _ = self.p.try_read(100_000);
            }
            Event::Peer(len) => self.answer(len, None),
        }
    }

    /// Runs until nothing happens any more, or what is in flight before a driver that is dead has ended the connection.
    fn run(&mut self) {
        loop {
            let error = self.p.error();
            if self.dead && (error == Some(Error::TimedOut) || self.p.info().unacked == 0) {
                return;
            }
            assert_eq!(error, None);
            let next = self.events.first_key_value().map(|(key, _)| *key);
            let done = self.acked() == self.written + 1 && self.p.info().unacked == 0;
            match next {
                Some(key) => {
                    self.pass(key.0);
                    let first = self.events.first_entry().filter(|first| first.key().0 <= self.at);
                    if let Some(event) = first.map(OccupiedEntry::remove) {
                        self.step(event);
                        self.check_timer();
                    }
                }
                None if done => return,
                None => self.pass(self.at + 1_000),
            }
            assert!(self.at < LIMIT_MS, "{} of {} bytes arrived", self.acked() - 1, self.written);
        }
    }
}

/// Every mechanism has to act somewhere, or the test would prove nothing about it.
#[test]
fn whatever_stalls_below_everything_arrives() {
    let mut sums: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in 0..WORLDS {
        let result = std::panic::catch_unwind(|| {
            let mut life = Life::new(seed);
            life.run();
            life.p.stack.counters().clone()
        });
        let Ok(count) = result else { panic!("seed {seed}") };
        count.each(&mut |_, name, value| *sums.entry(name).or_default() += value);
    }
    for name in [
        "TCPTimeouts",
        "TCPLossProbes",
        "TCPFastRetrans",
        "TCPSlowStartRetrans",
        "TCPSackRecovery",
        "TCPRenoRecovery",
        "TCPLostRetransmit",
        "TCPSpuriousRtxHostQueues",
        "TCPAbortOnTimeout",
        "PacketsNotNow",
        "credit",
        "pacing",
        "refused",
    ] {
        assert!(sums.get(name).is_some_and(|n| *n > 0), "{name} never moved");
    }
}
