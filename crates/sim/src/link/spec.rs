//! A pipe described by numbers: what scenarios write and swarms draw.
pub use super::delay::DelaySpec;
pub use super::discipline::QdiscSpec;
pub use super::loss::LossSpec;
pub use super::nic::{Carry, NicSpec};
use super::{
    Nic, Pipe, Stage, delay::Delay, discipline::Discipline, loss::Loss, mangle::Mangle, mtu::Mtu,
    queue::Queue,
};
use lowwater_core::base::Rng;

/// A router's queue; all zero means that there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSpec {
    /// Bits per second; 0 is unlimited.
    pub rate: u64,
    /// Bound in packets; 0 is unlimited.
    pub packets: usize,
    /// Bound in bytes; 0 is unlimited. One packet always fits.
    pub bytes: u64,
    /// ECN-capable packets are marked above this many bytes; 0 never.
    pub mark_bytes: u64,
}

/// One direction of a link, from the sending host (or router) to the next one. Chances are in 10^-6 per packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PipeSpec {
    /// The host's device, which a pipe from a host needs; `None` for a hop that begins at a router.
    pub nic: Option<NicSpec>,
    /// The MTU of the hop behind the router; 0 is unlimited.
    pub mtu: u16,
    /// The hop drops what is too big without telling (a black hole).
    pub mtu_silent: bool,
    /// The router's queue.
    pub queue: Option<QueueSpec>,
    /// A queueing discipline before a line, instead of `queue`.
    pub qdisc: Option<QdiscSpec>,
    /// Losses.
    pub loss: LossSpec,
    /// Chance of duplication.
    pub duplicate_ppm: u32,
    /// Chance of flipped bits; the pipe must then carry segments.
    pub corrupt_ppm: u32,
    /// Propagation.
    pub delay: DelaySpec,
}

impl PipeSpec {
    /// Builds the pipe; every stage draws from a stream of its own, forked from `rng`.
    ///
    /// # Panics
    /// For words that are no queueing discipline: whoever takes them from people reads them before.
    #[must_use]
    pub fn build(&self, rng: &Rng) -> Pipe {
        let mut stages: Vec<Box<dyn Stage>> = Vec::new();
        if self.mtu != 0 {
            stages.push(Box::new(Mtu::new(self.mtu, self.mtu_silent)));
        }
        if let Some(spec) = &self.qdisc {
            let discipline = Discipline::new(spec, rng.fork("qdisc"));
            stages.push(Box::new(discipline.expect("words that were read before")));
        } else if let Some(q) = self.queue {
            stages.push(Box::new(Queue::new(q.rate, q.packets, q.bytes, q.mark_bytes)));
        }
        if !self.loss.is_none() {
            stages.push(Box::new(Loss::new(self.loss.clone(), rng.fork("loss"))));
        }
        if self.duplicate_ppm + self.corrupt_ppm > 0 {
            stages.push(Box::new(Mangle::new(self.duplicate_ppm, self.corrupt_ppm, rng.fork("mangle"))));
        }
        if self.delay != DelaySpec::default() {
            stages.push(Box::new(Delay::new(self.delay, rng.fork("delay"))));
        }
        Pipe::new(self.nic.clone().map(|n| Nic::new(n, rng.fork("nic"))), stages)
    }
}
