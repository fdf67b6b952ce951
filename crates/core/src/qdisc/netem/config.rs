//! Parameters of `netem` as `tc` reads and prints them.
use super::super::inner::Inner;
use super::super::spec::{CHILD, TIMES, Words};
use super::super::stats::{Field, Value};
use super::super::units;
use super::dist::Dist;
use super::loss::{Chance, Loss, State};
use crate::base::Rng;

/// A share of packets, in 2^-32, drawn with a correlation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Some2 {
    pub(super) share: u32,
    pub(super) chance: Chance,
}

impl Some2 {
    fn show(&self, name: &'static str, out: &mut Vec<Field>) {
        if self.share > 0 {
            out.push(Field::new(name, Value::Share(self.share)));
            if self.chance.correlation() > 0 {
                out.push(Field::bare("correlation", Value::Share(self.chance.correlation())));
            }
        }
    }
}

/// Delay of each packet, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delay {
    pub(super) mean: u64,
    pub(super) jitter: u64,
    pub(super) chance: Chance,
    pub(super) dist: Dist,
}

/// The line's rate in bytes per second, 0 for none; a packet has `overhead` more bytes and fills cells of `cell` bytes, each
/// with `cell_overhead` more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) rate: u64,
    pub(super) overhead: i32,
    pub(super) cell: u32,
    pub(super) cell_overhead: i32,
}

impl Rate {
    /// Nanoseconds of a packet on the line (`packet_time_ns`).
    pub(super) fn time(&self, len: u32) -> u64 {
        if self.rate == 0 {
            return 0;
        }
        let mut bytes = (i64::from(len) + i64::from(self.overhead)).max(0);
        if self.cell > 0 {
            let cells = (bytes as u64).div_ceil(u64::from(self.cell)) as i64;
            bytes = (cells * (i64::from(self.cell) + i64::from(self.cell_overhead))).max(0);
        }
        u64::try_from(bytes as u128 * 1_000_000_000 / u128::from(self.rate)).unwrap_or(u64::MAX)
    }
}

/// Packets leave in slots: the time to the next one, in nanoseconds, and what may leave in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) min: u64,
    pub(super) max: u64,
    /// Mean and deviation instead of least and most.
    pub(super) dist: Option<Dist>,
    pub(super) packets: u32,
    pub(super) bytes: u32,
}

/// What to do to packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetemConfig {
    pub(super) limit: u32,
    pub(super) delay: Delay,
    pub(super) loss: Loss,
    pub(super) ecn: bool,
    pub(super) duplicate: Some2,
    pub(super) corrupt: Some2,
    pub(super) reorder: Some2,
    pub(super) gap: u32,
    pub(super) rate: Rate,
    pub(super) slot: Option<Slot>,
}

impl Default for NetemConfig {
    fn default() -> Self {
        Self {
            limit: 1_000,
            delay: Delay { mean: 0, jitter: 0, chance: Chance::default(), dist: Dist::Uniform },
            loss: Loss::NONE,
            ecn: false,
            duplicate: Some2::default(),
            corrupt: Some2::default(),
            reorder: Some2::default(),
            gap: 0,
            rate: Rate::default(),
            slot: None,
        }
    }
}

const SHARES: &str = "0% to 100%, as 1.5%";
const DISTS: &str = "uniform, normal, pareto";

impl NetemConfig {
    /// Streams of numbers that resemble each other begin anywhere.
    pub(super) fn begin(&mut self, rng: &mut Rng) {
        let of_loss = match &mut self.loss {
            Loss::Random { chance, .. } => Some(chance),
            Loss::Gilbert { .. } | Loss::States { .. } => None,
        };
        let others = [&mut self.duplicate, &mut self.corrupt, &mut self.reorder].map(|two| &mut two.chance);
        [&mut self.delay.chance]
            .into_iter()
            .chain(of_loss)
            .chain(others)
            .for_each(|chance| chance.begin(rng));
    }

    /// Reads what follows the name: the parameters, and the discipline inside.
    pub(super) fn parse(words: &mut Words<'_>) -> Result<(Self, Option<Inner>), String> {
        let mut c = Self::default();
        let mut inner = None;
        while let Some(option) = words.option(&[
            "limit",
            "delay",
            "latency",
            "distribution",
            "loss",
            "drop",
            "ecn",
            "duplicate",
            "corrupt",
            "reorder",
            "gap",
            "rate",
            "slot",
            CHILD,
        ])? {
            match option {
                "limit" => c.limit = words.packets()?,
                "delay" | "latency" => {
                    c.delay.mean = words.time()?;
                    c.delay.jitter = words.maybe(units::time).unwrap_or(0);
                    c.delay.chance = Chance::new(words.maybe(percent).unwrap_or(0));
                }
                "distribution" => c.delay.dist = words.value(Dist::parse, DISTS)?,
                "loss" | "drop" => c.loss = loss(words)?,
                "ecn" => c.ecn = true,
                "duplicate" => c.duplicate = chance(words)?,
                "corrupt" => c.corrupt = chance(words)?,
                "reorder" => c.reorder = chance(words)?,
                "gap" => c.gap = words.count(0, u32::MAX)?,
                "rate" => c.rate = rate(words)?,
                CHILD => inner = Some(Inner::parse(words)?),
                _ => c.slot = Some(slot(words)?),
            }
        }
        // `tc` says the same; by itself it would do nothing.
        if c.gap > 0 && c.reorder.share == 0 {
            return Err(words.lacks("reorder beside gap", SHARES));
        }
        if c.reorder.share > 0 && c.gap == 0 {
            c.gap = 1;
        }
        if c.reorder.share > 0 && c.delay.mean == 0 {
            return Err(words.lacks("delay beside reorder", TIMES));
        }
        if c.delay.dist != Dist::Uniform && c.delay.jitter == 0 {
            return Err(words.lacks("delay with jitter beside distribution", TIMES));
        }
        Ok((c, inner))
    }

    /// Packets leave later than they came, so their owners are released on entry.
    pub(super) const fn delays(&self) -> bool {
        self.delay.mean > 0 || self.delay.jitter > 0 || self.rate.rate > 0
    }

    pub(super) fn show(&self, out: &mut Vec<Field>) {
        out.push(Field::new("limit", Value::Count(self.limit.into())));
        let d = &self.delay;
        if d.mean > 0 || d.jitter > 0 {
            out.push(Field::new("delay", Value::Time(d.mean)));
            if d.jitter > 0 {
                out.push(Field::bare("jitter", Value::Time(d.jitter)));
            }
            if d.chance.correlation() > 0 {
                out.push(Field::bare("delay_correlation", Value::Share(d.chance.correlation())));
            }
            if d.dist != Dist::Uniform {
                out.push(Field::new("distribution", Value::Text(d.dist.name().into())));
            }
        }
        self.loss.show(out);
        if self.ecn {
            out.push(Field::new("ecn", Value::Flag));
        }
        self.duplicate.show("duplicate", out);
        self.reorder.show("reorder", out);
        self.corrupt.show("corrupt", out);
        if self.rate.rate > 0 {
            out.push(Field::new("rate", Value::Rate(self.rate.rate)));
            let r = &self.rate;
            if r.overhead != 0 || r.cell != 0 {
                out.push(Field::bare("packet_overhead", Value::Text(r.overhead.to_string())));
                out.push(Field::bare("cellsize", Value::Count(r.cell.into())));
                out.push(Field::bare("cell_overhead", Value::Text(r.cell_overhead.to_string())));
            }
        }
        if let Some(s) = &self.slot {
            match s.dist {
                None => out.push(Field::new("slot", Value::Time(s.min))),
                Some(dist) => {
                    out.push(Field::new("slot", Value::Text(format!("distribution {}", dist.name()))));
                    out.push(Field::bare("slot_delay", Value::Time(s.min)));
                }
            }
            out.push(Field::bare("slot_max", Value::Time(s.max)));
            for (name, n) in [("packets", s.packets), ("bytes", s.bytes)] {
                if n > 0 {
                    out.push(Field::new(name, Value::Count(n.into())));
                }
            }
        }
        if self.gap > 0 {
            out.push(Field::new("gap", Value::Count(self.gap.into())));
        }
    }
}

/// Shares may come without a sign for per cent, times without a unit: only a sign tells which one follows a time.
fn percent(word: &str) -> Option<u32> {
    units::share(word)
}

fn share(words: &mut Words<'_>) -> Result<u32, String> {
    words.value(percent, SHARES)
}

fn chance(words: &mut Words<'_>) -> Result<Some2, String> {
    let share = share(words)?;
    Ok(Some2 { share, chance: Chance::new(words.maybe(percent).unwrap_or(0)) })
}

fn loss(words: &mut Words<'_>) -> Result<Loss, String> {
    if words.maybe(|w| (w == "gemodel").then_some(())).is_some() {
        let p = share(words)?;
        let mut or = |default| words.maybe(percent).unwrap_or(default);
        let (r, bad, good) = (or(!p), or(u32::MAX), or(0));
        return Ok(Loss::Gilbert { p, r, bad, good, in_bad: false });
    }
    if words.maybe(|w| (w == "state").then_some(())).is_some() {
        let p13 = share(words)?;
        let mut or = |default| words.maybe(percent).unwrap_or(default);
        let (p31, p32, p23, p14) = (or(!p13), or(0), or(u32::MAX), or(0));
        return Ok(Loss::States { p13, p31, p32, p23, p14, state: State::GapReceived });
    }
    words.maybe(|w| (w == "random").then_some(()));
    let Some2 { share, chance } = chance(words)?;
    Ok(Loss::Random { share, chance })
}

fn rate(words: &mut Words<'_>) -> Result<Rate, String> {
    let rate = words.rate()?;
    let overhead = words.maybe(|w| w.parse().ok()).unwrap_or(0);
    let cell = words.maybe(|w| w.parse().ok()).unwrap_or(0);
    let cell_overhead = words.maybe(|w| w.parse().ok()).unwrap_or(0);
    Ok(Rate { rate, overhead, cell, cell_overhead })
}

fn slot(words: &mut Words<'_>) -> Result<Slot, String> {
    let dist = match words.maybe(|w| (w == "distribution").then_some(())) {
        Some(()) => Some(words.value(Dist::parse, DISTS)?),
        None => None,
    };
    let min = words.time()?;
    let most = words.maybe(units::time);
    let max = if dist.is_some() { most.unwrap_or(0) } else { most.unwrap_or(min).max(min) };
    let (mut packets, mut bytes) = (0, 0);
    while let Some(option) = words.maybe(|w| ["packets", "bytes"].into_iter().find(|o| *o == w)) {
        match option {
            "packets" => packets = words.count(1, u32::MAX)?,
            _ => bytes = words.count(1, u32::MAX)?,
        }
    }
    Ok(Slot { min, max, dist, packets, bytes })
}
