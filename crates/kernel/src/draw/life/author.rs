//! Draws a life: what the application and its peer do, one after the other, until both are done.
use super::super::network::Dice;
use super::super::pace::Paced as _;
use super::super::packet::PORTS;
use super::super::program::Flavours;
use super::super::stack::{Place, Stack};
use super::end::{End, Look, Out};
use super::moves;
use super::opening;
use super::peer::Peer;
use super::program::{Act, Program, Step};
use lowwater_drill::Target as _;

/// After a timer nothing happens for so long: the kernel's is late.
const QUIET: u64 = 90_000;
/// Nor shortly before one.
const NEAR: u64 = 8_000;
/// How long the end is waited for.
const TAIL: u64 = 300_000;
/// Steps of a program, and when none begins any more, in microseconds.
const STEPS: (u64, u64) = (12, 45);
const UNTIL: u64 = 7_000_000;
/// Some ticks of the kernel, in microseconds.
const TICKS: u64 = 20_000;
/// By how much the kernel may hold back an acknowledgement that is compressed, in microseconds (`tcp_comp_sack_slack_ns`, and the time that takes).
const COMPRESSED: u64 = 1_000;
/// How long it takes to see that a call of the kernel's waits, in microseconds, and has not come back for a packet.
const SLEEPY: u64 = 5_000;
/// Steps after the end of the connection.
const AFTER: usize = 4;
/// TCP_CLOSE in TCP_INFO.
const CLOSED: u8 = 7;

/// The program of a seed.
pub(super) fn program(seed: u64, words: &Flavours, headers: u32) -> Result<Program, String> {
    let mut dice = Dice::new(seed);
    let opening = opening::draw(&mut dice, words);
    let (place, sysctls) = (Place { headers, ..opening.place }, opening.sysctls);
    let mut program = Program {
        place,
        sysctls,
        epoll: words.has("poll"),
        blocking: words.has("blocking"),
        crowd: words.has("crowd"),
        steps: Vec::new(),
        end: 0,
    };
    let mut stack = Stack::at(place)?;
    let mut end = End::open(&mut stack, &program)?;
    let most = dice.range(STEPS.0, STEPS.1) as usize;
    let mut author = Author {
        dice,
        words: words.clone(),
        others: if words.has("crowd") { opening.peer.others() } else { Vec::new() },
        turn: 0,
        peer: opening.peer,
        steps: Vec::new(),
        at: 0,
        over: 0,
        look: Look::default(),
    };
    for (pause, act) in opening.acts {
        author.at += pause;
        let act = act.make(&author.peer, author.at);
        author.step(&mut end, act);
    }
    while author.steps.len() < most && author.over < AFTER {
        author.at += author.pause();
        let Some(act) = moves::draw(&mut author, &end) else { break };
        author.step(&mut end, act);
        if author.at > UNTIL {
            break;
        }
    }
    program.end = author.at + TAIL;
    // A timer that is due when everything ends would be late.
    while let Some(due) = author.deadline(&end).filter(|due| program.end.abs_diff(*due) < QUIET) {
        program.end = due + 2 * QUIET;
        let last = end.instant(due + 1);
        end.target.advance_until(last);
    }
    program.steps = author.steps;
    Ok(program)
}

/// Who draws.
#[derive(Debug)]
pub(super) struct Author {
    pub(super) dice: Dice,
    pub(super) words: Flavours,
    /// The peer whose turn it is, its number, and all others, with that one's place left to whoever had the turn before.
    pub(super) peer: Peer,
    pub(super) turn: usize,
    pub(super) others: Vec<Peer>,
    pub(super) steps: Vec<Step>,
    /// When the next step is, in microseconds.
    pub(super) at: u64,
    /// Steps since the connection ended.
    over: usize,
    /// What the sockets showed last.
    pub(super) look: Look,
}

impl Author {
    /// When the next timer is due.
    fn deadline(&self, end: &End<'_, Stack>) -> Option<u64> {
        end.target.next_deadline().map(|at| at.nanos_since(end.base) / 1_000)
    }

    fn pause(&mut self) -> u64 {
        let slow = ["keepalive", "usertimeout", "buffers", "listen", "crowd", "fastopen"]
            .iter()
            .any(|word| self.words.has(word));
        match self.dice.range(0, 99) {
            0..35 => 0,
            35..55 => self.dice.range(1, 10) * 1_000,
            55..80 => self.dice.range(10, 120) * 1_000,
            80..90 if slow => self.dice.range(300, 2_500) * 1_000,
            80..97 => self.dice.range(100, 300) * 1_000,
            _ => self.dice.range(300, 1_500) * 1_000,
        }
    }

    /// Timers that are due before the next step go off, and it keeps away from them.
    fn let_timers_pass(&mut self, end: &mut End<'_, Stack>) {
        for _ in 0..50 {
            let Some(due) = self.deadline(end).filter(|due| *due < self.at + NEAR) else { break };
            let instant = end.instant(due + 1);
            end.target.advance_until(instant);
            self.hear(&end.collect());
            self.at = self.at.max(due + QUIET);
        }
    }

    fn hear(&mut self, outs: &[Out]) {
        for out in outs {
            let whose = usize::from(out.repr.dst_port.wrapping_sub(PORTS.1));
            match self.others.get_mut(whose) {
                Some(other) if whose != self.turn => other.hear(out),
                _ => self.peer.hear(out),
            }
        }
    }

    /// Another peer has its turn.
    fn turn_to(&mut self, next: usize) {
        for at in [self.turn, next] {
            if let Some(place) = self.others.get_mut(at) {
                core::mem::swap(place, &mut self.peer);
            }
        }
        self.turn = next;
    }

    fn step(&mut self, end: &mut End<'_, Stack>, act: Act) {
        self.let_timers_pass(end);
        let at = end.instant(self.at);
        end.target.advance_until(at);
        self.hear(&end.collect());
        let beyond = matches!(&act, Act::Packet(s) if s.len > 0 && s.seq > self.peer.una);
        end.act(&act);
        match &act {
            Act::Packet(segment) => self.peer.told(segment),
            Act::Socket => self.peer.restart(),
            Act::Turn(next) => self.turn_to((*next).into()),
            _ => {}
        }
        self.hear(&end.collect());
        // The call that waited is over; nobody asks again.
        let _ = end.woken();
        if end.is_blocked() {
            self.at += SLEEPY;
        }
        self.look = end.look();
        self.steps.push(Step { at: self.at, act });
        let fin = matches!(self.steps.last(), Some(Step { act: Act::Packet(s), .. }) if s.flags.fin());
        if fin && self.peer.top() == 1 {
            // The kernel answers it with its next tick.
            self.at += TICKS;
        }
        if beyond {
            self.at += COMPRESSED;
        }
        let state = self.look.info.as_ref().and_then(|info| info.first());
        if state == Some(&CLOSED) || (end.conn.is_none() && end.first.is_none()) {
            self.over += 1;
        }
    }
}
