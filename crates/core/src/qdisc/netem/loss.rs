//! Loss models of `netem`: independent and correlated chance, the model of Gilbert and Elliott, and the one of four states.
use super::super::stats::{Field, Value};
use crate::base::Rng;

/// A stream of random numbers in which each resembles the one before by a share of `rho` / 2^32 (`get_crandom`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chance {
    rho: u32,
    last: u32,
}

impl Chance {
    pub(super) const fn new(rho: u32) -> Self {
        Self { rho, last: 0 }
    }

    /// The first number is like one that is drawn, too (`init_crandom`). Where there is no resemblance nothing is drawn.
    pub(super) fn begin(&mut self, rng: &mut Rng) {
        if self.rho > 0 {
            self.last = rng.next_u32();
        }
    }

    pub(super) const fn correlation(&self) -> u32 {
        self.rho
    }

    pub(super) fn draw(&mut self, rng: &mut Rng) -> u32 {
        let value = u64::from(rng.next_u32());
        if self.rho == 0 {
            return value as u32;
        }
        let rho = u64::from(self.rho) + 1;
        self.last = ((value * ((1 << 32) - rho) + u64::from(self.last) * rho) >> 32) as u32;
        self.last
    }

    /// True with probability `share` / 2^32.
    pub(super) fn strikes(&mut self, rng: &mut Rng, share: u32) -> bool {
        share > 0 && share >= self.draw(rng)
    }
}

/// State of the model of four states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    GapReceived = 1,
    BurstReceived,
    BurstLost,
    GapLost,
}

/// How packets are lost; shares are in 2^-32.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    Random {
        share: u32,
        chance: Chance,
    },
    /// `bad` and `good` are the shares lost in each state (1-h and 1-k).
    Gilbert {
        p: u32,
        r: u32,
        bad: u32,
        good: u32,
        in_bad: bool,
    },
    States {
        p13: u32,
        p31: u32,
        p32: u32,
        p23: u32,
        p14: u32,
        state: State,
    },
}

impl Loss {
    pub(super) const NONE: Self = Self::Random { share: 0, chance: Chance::new(0) };

    pub(super) fn next(&mut self, rng: &mut Rng) -> bool {
        match self {
            Self::Random { share, chance } => chance.strikes(rng, *share),
            Self::Gilbert { p, r, bad, good, in_bad } => {
                // The state changes with the first number, the packet is judged by the second, in the state before.
                let (change, judge) = (rng.next_u32(), rng.next_u32());
                let (leave, lost) = if *in_bad { (*r, *bad) } else { (*p, *good) };
                *in_bad ^= strikes(change, leave);
                strikes(judge, lost)
            }
            Self::States { .. } => self.next_of_four(rng.next_u32()),
        }
    }

    fn next_of_four(&mut self, draw: u32) -> bool {
        let Self::States { p13, p31, p32, p23, p14, state } = self else { return false };
        *state = match *state {
            State::GapReceived if strikes(draw, *p14) => State::GapLost,
            State::GapReceived if strikes(draw, p14.saturating_add(*p13)) => State::BurstLost,
            State::BurstReceived if strikes(draw, *p23) => State::BurstLost,
            State::BurstLost if strikes(draw, *p32) => State::BurstReceived,
            State::BurstLost if strikes(draw, p32.saturating_add(*p31)) => State::GapReceived,
            State::GapLost => State::GapReceived,
            stays => stays,
        };
        matches!(*state, State::BurstLost | State::GapLost)
    }

    pub(super) fn show(&self, out: &mut Vec<Field>) {
        let names: [&'static str; 5] = match self {
            Self::Random { share: 0, .. } => return,
            Self::Random { share, chance } => {
                out.push(Field::new("loss", Value::Share(*share)));
                if chance.correlation() > 0 {
                    out.push(Field::bare("loss_correlation", Value::Share(chance.correlation())));
                }
                return;
            }
            Self::Gilbert { .. } => ["p", "r", "1-h", "1-k", ""],
            Self::States { .. } => ["p13", "p31", "p32", "p23", "p14"],
        };
        let (model, values) = match self {
            Self::Gilbert { p, r, bad, good, .. } => ("gemodel", [*p, *r, *bad, *good, 0]),
            Self::States { p13, p31, p32, p23, p14, .. } => ("state", [*p13, *p31, *p32, *p23, *p14]),
            Self::Random { .. } => return,
        };
        out.push(Field::new("loss", Value::Text(model.into())));
        let values = names.into_iter().zip(values).filter(|(name, _)| !name.is_empty());
        out.extend(values.map(|(name, value)| Field::bare(name, Value::Share(value))));
    }
}

const fn strikes(draw: u32, share: u32) -> bool {
    draw < share || share == u32::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn percent(n: u64) -> u32 {
        (n * u32::MAX as u64 / 100) as u32
    }

    /// Share lost in per mille, and the mean length of a burst in tenths.
    fn run(mut loss: Loss) -> (u32, u32) {
        let mut rng = Rng::new(3);
        let (mut lost, mut bursts, mut before) = (0, 0, false);
        for _ in 0..200_000 {
            let now = loss.next(&mut rng);
            lost += u32::from(now);
            bursts += u32::from(now && !before);
            before = now;
        }
        (lost / 200, lost * 10 / bursts.max(1))
    }

    #[test]
    fn shares_and_bursts_are_those_of_the_models() {
        assert_eq!(run(Loss::NONE), (0, 0));
        assert_eq!(run(Loss::Random { share: u32::MAX, chance: Chance::new(0) }).0, 1_000);
        let (lost, burst) = run(Loss::Random { share: percent(10), chance: Chance::new(0) });
        assert!((98..102).contains(&lost) && (10..12).contains(&burst), "{lost} {burst}");
        // In the bad state p / (p + r) of the time, for 1 / r packets.
        let (p, r) = (percent(1), percent(25));
        let (lost, burst) = run(Loss::Gilbert { p, r, bad: u32::MAX, good: 0, in_bad: false });
        assert!((36..42).contains(&lost) && (38..42).contains(&burst), "{lost} {burst}");
        let (lost, _) = run(Loss::Gilbert { p, r, bad: percent(50), good: percent(10), in_bad: false });
        assert!((110..121).contains(&lost), "{lost}");
        let four = |p32, p23| Loss::States { p13: p, p31: r, p32, p23, p14: 0, state: State::GapReceived };
        let (lost, burst) = run(four(0, u32::MAX));
        assert!((36..42).contains(&lost) && (38..42).contains(&burst), "two states: {lost} {burst}");
        let (with_pauses, _) = run(four(percent(25), percent(50)));
        assert!((34..40).contains(&with_pauses), "{with_pauses}");
    }

    #[test]
    fn what_resembles_the_number_before_begins_anywhere() {
        let first = |seed| {
            let (mut chance, mut rng) = (Chance::new(percent(99)), Rng::new(seed));
            chance.begin(&mut rng);
            u64::from(chance.draw(&mut rng))
        };
        let mean = (0..200).map(first).sum::<u64>() / 200;
        assert!(mean.abs_diff(1 << 31) < 1 << 28, "{mean}");
        let mut rng = Rng::new(1);
        Chance::new(0).begin(&mut rng);
        assert_eq!(rng.next_u32(), Rng::new(1).next_u32(), "nothing is drawn that nobody needs");
    }

    #[test]
    fn correlation_makes_neighbours_alike() {
        let (lost, burst) = run(Loss::Random { share: percent(10), chance: Chance::new(0) });
        let (together, longer) = run(Loss::Random { share: percent(40), chance: Chance::new(percent(90)) });
        assert!(longer > 2 * burst && together > 0 && lost > 0, "{burst} {longer} {together}");
    }
}
