//! How large a packet should be: about one per millisecond at the flow's rate, larger for near peers (`tcp_tso_autosize`).
use crate::base::Sysctl;
use crate::path::Path;
use crate::tcp::PathCaps;

/// Room that a super-packet leaves for headers (`MAX_TCP_HEADER` + 1).
const HEADER_ROOM: u32 = 321;

/// Payload bytes of the largest super-packet.
pub(in crate::tcp) const fn gso_payload_max(caps_gso_max_size: u32) -> u32 {
    caps_gso_max_size.saturating_sub(HEADER_ROOM)
}

/// Segments that the next packet should hold.
pub(in crate::tcp) fn segments(sysctl: &Sysctl, path: &Path, caps: &PathCaps, mss: u16) -> u16 {
    let max = gso_payload_max(caps.gso_max_size);
    if max < 2 * u32::from(mss) {
        return 1;
    }
    let bytes = path.pacing.autosize_bytes(sysctl, max, path.rtt.min_rtt());
    let segments = (bytes / u32::from(mss)).max(sysctl.tcp_min_tso_segs).min(max / u32::from(mss));
    segments.clamp(1, u32::from(caps.gso_max_segs.max(1))) as u16
}
