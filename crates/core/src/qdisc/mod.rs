//! Queueing disciplines: what stands between the flows and a device, and decides who goes next and who must go.
mod pfifo;

pub use pfifo::Pfifo;

use crate::base::{Cx, Instant};
use crate::packet::Packet;

/// What a queue answers when it is asked for the next packet.
#[derive(Debug)]
pub enum Dequeued {
    /// This one goes next.
    Packet(Packet),
    /// The queue gave up this packet after it had taken it (an AQM's decision); ask again for another.
    Dropped(Packet),
    /// There are packets, but none may go before this instant.
    NotBefore(Instant),
    /// There is nothing.
    Empty,
}

/// A queueing discipline. Packets leave only by the answers of these methods, so that their credit always comes back.
pub trait Qdisc: core::fmt::Debug + Send {
    /// The name as `tc` prints it.
    fn name(&self) -> &'static str;
    /// Takes `packet`.
    ///
    /// # Errors
    /// The packet that found no place: this one, or one that had to make room. It was never sent, and its flow hears of it.
    #[allow(
        clippy::result_large_err,
        reason = "a packet moves by value; boxing it would allocate on the hot path"
    )]
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Result<(), Packet>;
    /// The next packet that may go now.
    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Dequeued;
    /// Shows every packet in the queue to `f`, in any order; for reports.
    fn each(&self, f: &mut dyn FnMut(&Packet));
    /// Packets in the queue.
    fn len(&self) -> usize;
    /// Bytes in the queue.
    fn bytes(&self) -> u64;
    /// Departure times ([`Packet::at`]) are honoured, so that transports need no timers for pacing.
    fn honours_departure(&self) -> bool;
    /// True when nothing is queued.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests;
