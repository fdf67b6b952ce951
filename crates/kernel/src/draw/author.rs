//! Draws a program: writes, and the acknowledgements that a receiver behind a link would send to what the stack sends.
use super::network::{Dice, Network};
use super::pace::Paced as _;
use super::peer::Peer;
use super::program::{Act, Answer, Flavours, Program, Setup, Step};
use super::receiver::{BLOCKS_MAX, Receiver};
use super::stack::{HEADERS, Stack};
use lowwater_core::base::Duration;
use std::collections::BTreeMap;

/// How long a receiver waits for the next segment before it answers, in microseconds.
const DELACK: u64 = 40_000;
/// After a timer nothing happens for so long, beyond half of a round trip: the kernel's is late.
const QUIET: u64 = 60_000;
/// Nor shortly before one.
const NEAR: u64 = 5_000;
/// How long the end is waited for.
const TAIL: u64 = 100_000;
/// Offset and value of the congestion state in TCP_INFO.
const CA_STATE: usize = 1;

/// The program of a seed, for a kernel that reserves so much for headers.
pub(super) fn program(seed: u64, flavours: &Flavours, headers: u32) -> Result<Program, String> {
    let mut dice = Dice::new(seed);
    let setup = Setup { headers, ..setup(&mut dice, flavours) };
    let network = Network::draw(&mut dice, flavours, setup.rtt, setup.ecn);
    let mut stack = Stack::new(headers)?;
    let mut author = Author {
        network,
        receiver: Receiver::default(),
        answers: BTreeMap::new(),
        count: 0,
        delack: None,
        writes: Writes { left: dice.range(1, 8), next: setup.rtt + dice.range(0, 20_000), shut: false },
        append: flavours.has("append"),
        steps: Vec::new(),
        setup,
        dice,
    };
    let (steps, until) = if flavours.has("long") { (160, 15_000_000) } else { (70, 6_000_000) };
    let setup = author.setup.clone();
    author.draw(&mut Peer::open(&mut stack, &setup)?, steps, until);
    let end = author.steps.last().map_or(0, |step| step.at) + TAIL;
    Ok(Program { setup, steps: author.steps, end })
}

fn setup(dice: &mut Dice, flavours: &Flavours) -> Setup {
    let mut sysctls = Vec::new();
    if !flavours.has("defer") {
        sysctls.push(("tcp_tso_win_divisor", 200));
    }
    sysctls.push(("tcp_slow_start_after_idle", u64::from(dice.percent(60))));
    let odd = flavours.has("sysctl");
    if odd {
        draw_sysctls(dice, &mut sysctls);
    }
    let ecn = flavours.has("ecn") && dice.percent(70);
    if ecn {
        sysctls.push(("tcp_ecn", 1));
    }
    Setup {
        congestion: if flavours.has("cubic") { "cubic" } else { "reno" },
        sysctls,
        sack: !flavours.has("nosack") && (flavours.has("sack") || dice.percent(75)),
        timestamps: dice.percent(50),
        ecn,
        mss: if flavours.has("even") { 1_000 } else { dice.pick(&[1_000, 1_000, 1_460]) },
        window: if flavours.has("smallwin") { dice.range(60, 300) as u16 } else { 1_024 },
        rtt: dice.pick(&[40_000, 60_000, 100_000, 150_000]),
        late: 0,
        nodelay: dice.percent(30),
        thin: odd && dice.percent(10),
        headers: HEADERS,
    }
}

fn draw_sysctls(dice: &mut Dice, sysctls: &mut Vec<(&'static str, u64)>) {
    let all: [(&str, u64, &[u64]); 8] = [
        ("tcp_recovery", 35, &[0, 1, 2, 3, 4, 5, 6, 7]),
        ("tcp_early_retrans", 35, &[0, 1, 2, 3, 4]),
        ("tcp_frto", 35, &[0, 1, 2]),
        ("tcp_reordering", 20, &[1, 2, 3, 5, 8]),
        ("tcp_max_reordering", 20, &[3, 5, 300]),
        ("tcp_thin_linear_timeouts", 20, &[1]),
        ("tcp_retrans_collapse", 20, &[0]),
        ("tcp_dsack", 15, &[0]),
    ];
    for (name, percent, values) in all {
        if dice.percent(percent) {
            sysctls.push((name, dice.pick(values)));
        }
    }
}

/// What the application still wants to write.
#[derive(Debug)]
struct Writes {
    left: u64,
    next: u64,
    shut: bool,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// A segment reaches the receiver.
    Arrival,
    /// The receiver has waited long enough.
    Delack,
    /// A timer of the stack is due.
    Timer,
    /// An acknowledgement reaches the stack.
    Answer,
    /// The application writes.
    Write,
}

/// Who draws.
#[derive(Debug)]
struct Author {
    dice: Dice,
    setup: Setup,
    network: Network,
    receiver: Receiver,
    /// Acknowledgements on their way; the number keeps the order of one instant.
    answers: BTreeMap<(u64, usize), Answer>,
    count: usize,
    delack: Option<u64>,
    writes: Writes,
    append: bool,
    steps: Vec<Step>,
}

impl Author {
    fn draw(&mut self, peer: &mut Peer<'_, Stack>, steps: usize, until: u64) {
        while self.steps.len() < steps {
            for seen in peer.collect().iter().filter(|seen| seen.is_data() && !seen.flags.syn()) {
                self.network.send(&mut self.dice, seen);
            }
            let deadline = self.deadline(peer);
            let Some((at, next)) = self.next(deadline).filter(|(at, _)| *at <= until) else { break };
            match next {
                Next::Arrival => self.arrival(at),
                Next::Delack => {
                    let answer = self.answer(None);
                    self.answer_at(at + self.setup.rtt / 2, answer);
                }
                Next::Timer => {
                    let due = peer.base + Duration::from_micros(at + 1);
                    lowwater_drill::Target::advance_until(peer.target, due);
                    let quiet = at + QUIET + self.setup.rtt / 2;
                    self.hold_until(quiet);
                    self.writes.next = self.writes.next.max(quiet);
                }
                // What is written in recovery is cut in ways that say little.
                Next::Write if !self.append && peer.info().get(CA_STATE).is_some_and(|state| *state > 0) => {
                    self.writes.next = at + self.setup.rtt / 2;
                }
                Next::Answer | Next::Write => self.step(peer, at, next),
            }
        }
    }

    fn deadline(&self, peer: &Peer<'_, Stack>) -> Option<u64> {
        peer.target.next_deadline().map(|at| at.nanos_since(peer.base) / 1_000)
    }

    fn next(&self, deadline: Option<u64>) -> Option<(u64, Next)> {
        let answer = self.answers.first_key_value().map(|((at, _), _)| *at);
        let write = (self.writes.left > 0).then_some(self.writes.next);
        let all = [
            (self.network.next_at(), Next::Arrival),
            (self.delack, Next::Delack),
            (deadline, Next::Timer),
            (answer, Next::Answer),
            (write, Next::Write),
        ];
        // Of one instant the first counts.
        all.into_iter().filter_map(|(at, next)| at.map(|at| (at, next))).min_by_key(|(at, _)| *at)
    }

    fn arrival(&mut self, at: u64) {
        let Some(segment) = self.network.arrive() else { return };
        let (again, at_once) = self.receiver.take(segment.from, segment.to, segment.nth);
        self.receiver.unanswered += 1;
        if !at_once && self.receiver.unanswered < self.network.habits.delack {
            self.delack.get_or_insert(at + DELACK);
            return;
        }
        let mut answer = self.answer(again);
        answer.len = if self.dice.percent(self.network.habits.data) { 100 } else { 0 };
        answer.ece = self.dice.percent(self.network.habits.ece);
        if !self.dice.percent(self.network.habits.answer_loss) {
            let way = self.network.way_back(&mut self.dice);
            self.answer_at(at + way, answer);
        }
    }

    /// The receiver answers with what it has.
    fn answer(&mut self, again: Option<(u32, u32)>) -> Answer {
        self.receiver.unanswered = 0;
        self.delack = None;
        let sacks = if self.setup.sack { self.receiver.blocks(again) } else { Vec::new() };
        let (ack, echo) = (self.receiver.next, self.receiver.echo);
        Answer { ack, sacks, echo, len: 0, ece: false, window: None }
    }

    fn answer_at(&mut self, at: u64, answer: Answer) {
        self.count += 1;
        self.answers.insert((at, self.count), answer);
    }

    /// Acknowledgements that were to come before `quiet` come then.
    fn hold_until(&mut self, quiet: u64) {
        let later = self.answers.split_off(&(quiet, 0));
        let held = core::mem::replace(&mut self.answers, later);
        self.answers.extend(held.into_iter().map(|((_, number), answer)| ((quiet, number), answer)));
    }

    /// Something reaches the stack, unless a timer is too near.
    fn step(&mut self, peer: &mut Peer<'_, Stack>, at: u64, next: Next) {
        let at = self.steps.last().map_or(at, |last| at.max(last.at));
        if let Some(due) = self.deadline(peer).filter(|due| *due < at + NEAR) {
            let quiet = due + QUIET + self.setup.rtt / 2;
            match next {
                Next::Answer => self.hold_until(quiet),
                _ => self.writes.next = quiet,
            }
            return;
        }
        let act = if next == Next::Answer {
            let Some((_, mut answer)) = self.answers.pop_first() else { return };
            if self.dice.percent(self.network.habits.weird) {
                self.make_weird(&mut answer);
            }
            Act::Answer(answer)
        } else {
            self.write(at)
        };
        lowwater_drill::Target::advance_until(peer.target, peer.base + Duration::from_micros(at));
        let step = Step { at, act };
        peer.act(&step);
        self.steps.push(step);
    }

    fn write(&mut self, at: u64) -> Act {
        self.writes.left -= 1;
        let pause = if self.dice.percent(30) { self.dice.range(300, 2_000) } else { self.dice.range(1, 120) };
        self.writes.next = at + pause * 1_000;
        if self.writes.left == 0 && self.dice.percent(40) && !self.writes.shut {
            self.writes.shut = true;
            return Act::Shutdown;
        }
        let mss = u64::from(self.payload());
        let len = match self.dice.range(0, 3) {
            0 => self.dice.range(1, 3) * mss,
            1 => self.dice.range(100, 3_000),
            _ => self.dice.range(5, 40) * mss,
        };
        Act::Write(len as usize)
    }

    /// Payload of a segment.
    fn payload(&self) -> u32 {
        u32::from(self.setup.mss) - if self.setup.timestamps { 12 } else { 0 }
    }

    /// What no receiver would say, or would not say now.
    fn make_weird(&mut self, answer: &mut Answer) {
        let (mss, highest) = (self.payload(), self.network.highest);
        let back = |dice: &mut Dice| mss * dice.range(1, 3) as u32;
        match self.dice.range(0, 8) {
            0 => answer.ack = self.anywhere(),
            1 => {
                let from = self.anywhere();
                answer.sacks = vec![(from, from + mss * self.dice.range(1, 4) as u32)];
            }
            2 => {
                let from = self.anywhere();
                answer.sacks.insert(0, (from, from + self.dice.range(1, 3_000) as u32));
            }
            3 => answer.sacks.clear(),
            4 => {
                let from = self.anywhere().min(answer.ack);
                answer.sacks.insert(0, (from, answer.ack.min(from + mss)));
            }
            5 => answer.window = Some(self.dice.range(0, 200) as u16),
            6 => answer.ack = answer.ack.saturating_sub(back(&mut self.dice)).max(1),
            7 => answer.sacks = vec![(highest.saturating_sub(back(&mut self.dice)).max(1), highest)],
            _ => answer.len = 10,
        }
        answer.sacks.retain(|(from, to)| from < to);
        answer.sacks.truncate(BLOCKS_MAX);
    }

    /// Some byte up to a little beyond what was sent, the first of a segment more often than not.
    fn anywhere(&mut self) -> u32 {
        let mss = self.payload();
        let byte = self.dice.range(0, u64::from(self.network.highest + 2 * mss) - 1) as u32;
        if self.dice.percent(60) { byte / mss * mss + 1 } else { byte.max(1) }
    }
}
