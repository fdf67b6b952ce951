//! Parameters of `fq` as `tc` reads and prints them.
use super::super::spec::Words;
use super::super::stats::{Field, Value};

/// What stands for no rate.
pub(super) const NO_RATE: u64 = u64::MAX;
/// What stands for no threshold.
const NEVER: u64 = u64::MAX;

/// Parameters of [`super::Fq`], under `tc`'s names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FqConfig {
    /// Packets of all flows.
    pub limit: u32,
    /// Packets of one flow.
    pub flow_limit: u32,
    /// Bytes that a flow may send in its turn; 0 is two frames of the device.
    pub quantum: u32,
    /// Bytes that a new flow may send in its first turn; `None` is ten frames.
    pub initial_quantum: Option<u32>,
    /// Largest rate of each flow in bytes per second; `u64::MAX` for none.
    pub maxrate: u64,
    /// A flow at or below this rate, in bytes per second, is spaced packet by packet, faster ones by the quantum.
    pub low_rate_threshold: u64,
    /// Idle time, in nanoseconds, after which a flow has its quantum again.
    pub refill_delay: u64,
    /// Packets that belong to no socket share as many queues, plus one.
    pub orphan_mask: u32,
    /// Departure times further away, in nanoseconds, are refused or cut.
    pub horizon: u64,
    /// Packets beyond the horizon are dropped; else their time is cut.
    pub horizon_drop: bool,
    /// Packets that leave this many nanoseconds late are marked; `u64::MAX` for never.
    pub ce_threshold: u64,
    /// Flows are held to rates.
    pub pacing: bool,
    /// Hash buckets, which our table does not have: kept and shown.
    pub buckets: u32,
    /// Nanoseconds by which the timer may be late.
    pub timer_slack: u64,
}

impl Default for FqConfig {
    fn default() -> Self {
        Self {
            limit: 10_000,
            flow_limit: 100,
            quantum: 0,
            initial_quantum: None,
            maxrate: NO_RATE,
            low_rate_threshold: 550_000 / 8,
            refill_delay: 40_000_000,
            orphan_mask: 1_023,
            horizon: 10_000_000_000,
            horizon_drop: true,
            ce_threshold: u64::MAX,
            pacing: true,
            buckets: 1_024,
            timer_slack: 10_000,
        }
    }
}

impl FqConfig {
    /// Reads what follows the name.
    pub(in crate::qdisc) fn parse(words: &mut Words<'_>) -> Result<Self, String> {
        let mut c = Self::default();
        while let Some(option) = words.option(&[
            "limit",
            "flow_limit",
            "quantum",
            "initial_quantum",
            "maxrate",
            "low_rate_threshold",
            "refill_delay",
            "orphan_mask",
            "horizon",
            "horizon_drop",
            "horizon_cap",
            "ce_threshold",
            "pacing",
            "nopacing",
            "buckets",
            "timer_slack",
        ])? {
            match option {
                "limit" => c.limit = words.packets()?,
                "flow_limit" => c.flow_limit = words.packets()?,
                "quantum" => c.quantum = words.quantum()?,
                "initial_quantum" => c.initial_quantum = Some(words.bytes_from(0)?),
                "maxrate" => c.maxrate = words.rate()?,
                "low_rate_threshold" => c.low_rate_threshold = words.rate_or_zero()?,
                "refill_delay" => c.refill_delay = words.time()?,
                "orphan_mask" => c.orphan_mask = words.count(0, 0x00ff_ffff)?,
                "horizon" => c.horizon = words.time()?,
                "ce_threshold" => c.ce_threshold = words.time()?,
                "buckets" => c.buckets = words.count(1, 1 << 18)?.next_power_of_two(),
                "timer_slack" => c.timer_slack = words.time()?,
                "horizon_drop" | "horizon_cap" => c.horizon_drop = option == "horizon_drop",
                _ => c.pacing = option == "pacing",
            }
        }
        Ok(c)
    }

    pub(super) fn show(&self, out: &mut Vec<Field>) {
        out.extend([
            Field::new("limit", Value::Packets(self.limit.into())),
            Field::new("flow_limit", Value::Packets(self.flow_limit.into())),
            Field::new("buckets", Value::Count(self.buckets.into())),
            Field::new("orphan_mask", Value::Count(self.orphan_mask.into())),
        ]);
        if !self.pacing {
            out.push(Field::new("nopacing", Value::Flag));
        }
        out.push(Field::new("quantum", Value::Bytes(self.quantum.into())));
        out.extend(
            self.initial_quantum.map(|bytes| Field::new("initial_quantum", Value::Bytes(bytes.into()))),
        );
        if self.maxrate != NO_RATE {
            out.push(Field::new("maxrate", Value::Rate(self.maxrate)));
        }
        out.push(Field::new("low_rate_threshold", Value::Rate(self.low_rate_threshold)));
        out.push(Field::new("refill_delay", Value::Time(self.refill_delay)));
        if self.ce_threshold != NEVER {
            out.push(Field::new("ce_threshold", Value::Time(self.ce_threshold)));
        }
        out.push(Field::new("timer_slack", Value::Time(self.timer_slack)));
        out.push(Field::new("horizon", Value::Time(self.horizon)));
        out.push(Field::new(if self.horizon_drop { "horizon_drop" } else { "horizon_cap" }, Value::Flag));
    }
}
