//! Super-packets taken apart by the core's own software segmentation, for links and files that carry single segments.
use lowwater_core::packet::Packet;

/// Calls `each` with every segment of `packet` in order, checksums complete; an ordinary packet comes out as it is.
pub fn segment(packet: Packet, each: &mut dyn FnMut(Packet)) {
    for segment in lowwater_core::offload::segment(packet, 0, true) {
        each(segment);
    }
}
