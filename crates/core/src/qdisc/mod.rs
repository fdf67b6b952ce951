//! Queueing disciplines: what stands between the flows and a device, and decides who goes next and who must go.
//!
//! The laws, which `law.rs` holds against every implementor:
//! 1. Conservation: what was enqueued has been dequeued, is in [`Gone`], or is in the queue; in segments and in bytes.
//! 2. Order: packets of one flow leave in the order of their departure times, equal ones as they came.
//! 3. Bounds: the queue never holds more than its limit.
//! 4. Drain: when nothing comes any more, everything leaves, at the instants that [`Dequeued::NotBefore`] names.
//! 5. Honest times: nothing leaves before its time, and nothing that could leave is held back after `NotBefore`.
//! 6. Credit: the owner of a packet leaves with it, is released once, or ends with it; never two of these. Whoever hears that a packet
//!    was not sent has nothing of it in the queue.
//! 7. The statistics add up.
mod any;
mod codel;
mod early;
mod fifo;
pub mod fq;
mod fq_codel;
mod gone;
mod inner;
mod line;
mod look;
mod mq;
mod netem;
mod noqueue;
mod pfifo_fast;
mod spec;
mod stats;
mod store;
mod tbf;
pub mod units;

pub use any::Any;
pub use codel::Codel;
pub(crate) use early::Early;
pub use fifo::Fifo;
pub use fq::{Fq, FqConfig};
pub use fq_codel::FqCodel;
pub use gone::{Fate, Gone};
pub use look::{LinkFacts, of_tos};
pub use mq::Mq;
pub use netem::{Netem, NetemConfig};
pub use noqueue::Noqueue;
pub use pfifo_fast::PfifoFast;
pub use stats::{Field, Report, Stats, Value};
pub use tbf::Tbf;

use crate::base::{Cx, Instant};
use crate::packet::Packet;

/// What a queue answers when it is asked for the next packet.
#[allow(
    clippy::large_enum_variant,
    reason = "a packet moves by value; boxing it would allocate on the hot path"
)]
#[derive(Debug)]
pub enum Dequeued {
    /// This one goes next.
    Packet(Packet),
    /// There are packets, but none may go before this instant.
    NotBefore(Instant),
    /// There is nothing.
    Empty,
}

/// A queueing discipline. Packets leave only by the answers of these methods, so that their credit always comes back.
pub trait Qdisc: core::fmt::Debug + Send {
    /// The name as `tc` prints it.
    fn name(&self) -> &'static str;
    /// It now stands before this device: called once, before the first packet. Parameters that nobody has set follow from it.
    fn attach(&mut self, _cx: &mut Cx<'_>, _link: &LinkFacts) {}
    /// Takes `packet`; what found no place, this one or one that had to make room, is in `gone`.
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet, gone: &mut Gone);
    /// The next packet that may go now; what was given up on the way to it is in `gone`.
    fn dequeue(&mut self, cx: &mut Cx<'_>, gone: &mut Gone) -> Dequeued;
    /// The next packet, whatever its time, for the discipline that takes over. [`Packet::at`] says when it may go.
    fn take(&mut self) -> Option<Packet>;
    /// Shows every packet in the queue to `f`, in any order; for reports.
    fn each(&self, f: &mut dyn FnMut(&Packet));
    /// The counts that every discipline keeps.
    fn stats(&self) -> &Stats;
    /// The same for one that stands outside of this discipline and has taken a packet to look at it: it still counts as inside.
    /// `None` where nobody may.
    fn stats_mut(&mut self) -> Option<&mut Stats> {
        None
    }
    /// The options as `tc qdisc show` prints them.
    fn options(&self, _out: &mut Vec<Field>) {}
    /// Counts of its own, as `tc -s` prints them.
    fn details(&self, _out: &mut Vec<Field>) {}
    /// What is inside of it, as `tc` shows it.
    fn children(&self) -> Vec<Report> {
        Vec::new()
    }
    /// Departure times ([`Packet::at`]) are honoured, so that transports need no timers for pacing.
    fn honours_departure(&self) -> bool {
        false
    }
    /// Nothing is queued.
    fn is_empty(&self) -> bool {
        self.stats().qlen == 0
    }
    /// All of it, for reports.
    fn report(&self) -> Report {
        let (mut options, mut details) = (Vec::new(), Vec::new());
        self.options(&mut options);
        self.details(&mut details);
        Report { kind: self.name(), options, stats: *self.stats(), details, children: self.children() }
    }
}

#[cfg(test)]
pub(crate) mod law;
