//! The link between both ends of a drawn connection: what it does to segments on their way to the receiver.
use super::packet::Seen;
use super::program::Flavours;
use core::ops::Range;
use lowwater_core::base::Rng;
use std::collections::BTreeMap;

/// Chance, in the words of whoever draws.
#[derive(Debug)]
pub(super) struct Dice(Rng);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(Rng::new(seed).fork("drawn connection"))
    }

    /// From `low` to `high`, both included.
    pub(super) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    /// True in so many of a hundred cases.
    pub(super) fn percent(&mut self, p: u64) -> bool {
        self.0.below(100) < p
    }

    /// One of these; a value that stands there twice is twice as likely.
    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.below(of.len() as u64) as usize]
    }
}

/// A delay that ends, for transmissions of these numbers.
#[derive(Clone, Debug)]
struct Spike {
    of: Range<usize>,
    extra: u64,
}

/// Per cent of segments, and of acknowledgements, to which something happens.
#[derive(Clone, Debug)]
pub(super) struct Habits {
    loss: u64,
    burst_loss: u64,
    reorder: u64,
    again: u64,
    pub(super) answer_loss: u64,
    pub(super) ece: u64,
    pub(super) data: u64,
    pub(super) weird: u64,
    /// Segments that one acknowledgement answers.
    pub(super) delack: u64,
}

/// A segment on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flying {
    pub(super) from: u32,
    pub(super) to: u32,
    /// Transmissions of its first byte before it.
    pub(super) nth: usize,
}

/// The link.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) habits: Habits,
    /// All transmissions of these numbers are lost.
    holes: Vec<Range<usize>>,
    spike: Option<Spike>,
    rtt: u64,
    /// What arrives when; the number keeps the order of one instant.
    flying: BTreeMap<(u64, usize), Flying>,
    count: usize,
    transmissions: usize,
    nths: BTreeMap<u32, usize>,
    burst_left: u64,
    jitter: u64,
    /// One past the highest byte that was sent.
    pub(super) highest: u32,
}

impl Network {
    pub(super) fn draw(dice: &mut Dice, flavours: &Flavours, rtt: u64, ecn: bool) -> Self {
        let habits = Habits {
            loss: dice.pick(&[0, 0, 3, 8, 15, 25]),
            burst_loss: dice.pick(&[0, 0, 0, 5]),
            reorder: dice.pick(&[0, 0, 0, 5, 15, 30]),
            again: dice.pick(&[0, 0, 0, 5, 20]),
            answer_loss: dice.pick(&[0, 0, 0, 10, 40]),
            ece: if ecn { dice.pick(&[0, 3, 10]) } else { 0 },
            data: if flavours.has("data") { 5 } else { 0 },
            weird: if flavours.has("weird") { dice.pick(&[5, 15, 40]) } else { 0 },
            delack: dice.pick(&[1, 1, 1, 2, 2, 4]),
        };
        let count = dice.pick(&[0, 0, 1, 1, 2, 3]);
        let holes = (0..count).map(|_| span(dice, 60, 12)).collect();
        let spike = (dice.percent(25) || flavours.has("spike"))
            .then(|| Spike { of: span(dice, 50, 10), extra: dice.range(150, 900) * 1_000 });
        Self {
            habits,
            holes,
            spike,
            rtt,
            flying: BTreeMap::new(),
            count: 0,
            transmissions: 0,
            nths: BTreeMap::new(),
            burst_left: 0,
            jitter: 0,
            highest: 1,
        }
    }

    /// A segment leaves the sender.
    pub(super) fn send(&mut self, dice: &mut Dice, seen: &Seen) {
        let (from, to) = (seen.seq, seen.end());
        self.highest = self.highest.max(to);
        let times = self.nths.entry(from).or_insert(0);
        let nth = *times;
        *times += 1;
        self.transmissions += 1;
        if self.is_lost(dice) {
            return;
        }
        let number = self.transmissions;
        self.jitter += dice.range(0, 150);
        let mut delay = self.rtt / 2 + dice.range(1, 7) * 10 + self.jitter % 3_000;
        if dice.percent(self.habits.reorder) {
            delay += dice.range(1, 8) * self.rtt / 10;
        }
        delay +=
            self.spike.as_ref().filter(|spike| spike.of.contains(&number)).map_or(0, |spike| spike.extra);
        let flying = Flying { from, to, nth };
        self.fly(seen.at + delay, flying);
        if dice.percent(self.habits.again) {
            let later = dice.range(0, self.rtt / 4);
            self.fly(seen.at + delay + later, flying);
        }
    }

    fn is_lost(&mut self, dice: &mut Dice) -> bool {
        if self.burst_left > 0 {
            self.burst_left -= 1;
            return true;
        }
        let number = self.transmissions;
        if self.holes.iter().any(|hole| hole.contains(&number)) || dice.percent(self.habits.loss) {
            return true;
        }
        let burst = dice.percent(self.habits.burst_loss);
        if burst {
            self.burst_left = dice.range(1, 5);
        }
        burst
    }

    fn fly(&mut self, at: u64, flying: Flying) {
        self.count += 1;
        self.flying.insert((at, self.count), flying);
    }

    /// When the next segment arrives.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.flying.first_key_value().map(|((at, _), _)| *at)
    }

    /// The segment that arrives next.
    pub(super) fn arrive(&mut self) -> Option<Flying> {
        self.flying.pop_first().map(|(_, flying)| flying)
    }

    /// How long an acknowledgement takes.
    pub(super) fn way_back(&self, dice: &mut Dice) -> u64 {
        let late = if dice.percent(self.habits.reorder / 3) { self.rtt / 5 } else { 0 };
        self.rtt / 2 + late
    }
}

/// Up to `longest` numbers from a place up to `last`.
fn span(dice: &mut Dice, last: u64, longest: u64) -> Range<usize> {
    let from = dice.range(2, last) as usize;
    from..from + dice.range(1, longest) as usize
}
