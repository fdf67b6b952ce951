//! How large a packet should be: about one per millisecond at the flow's rate, larger for near peers (`tcp_tso_autosize`).
use crate::base::Sysctl;
use crate::path::Path;
use crate::path::congestion::Congestion as _;
use crate::tcp::PathCaps;

/// Payload bytes of the largest super-packet: what a kernel reserves for headers is left out, and one byte more (`sk_setup_caps`).
pub(in crate::tcp) const fn gso_payload_max(sysctl: &Sysctl, gso_max_size: u32) -> u32 {
    gso_max_size.saturating_sub(sysctl.max_tcp_header + 1)
}

/// Segments that the next packet should hold.
pub(in crate::tcp) fn segments(sysctl: &Sysctl, path: &Path, caps: &PathCaps, mss: u16) -> u16 {
    let max = gso_payload_max(sysctl, caps.gso_max_size);
    if max < 2 * u32::from(mss) {
        return 1;
    }
    let bytes = path.pacing.autosize_bytes(sysctl, max, path.rtt.min_rtt());
    let least = match path.congestion.wishes().two_segments_from {
        Some(rate) if path.pacing.rate() < rate => 1,
        Some(_) => 2,
        None => sysctl.tcp_min_tso_segs,
    };
    let segments = (bytes / u32::from(mss)).max(least).min(max / u32::from(mss));
    segments.clamp(1, u32::from(caps.gso_max_segs.max(1))) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::testing::World;
    use crate::base::{Duration, Instant};
    use crate::path::pmtu::Pmtu;

    const CAPS: PathCaps = PathCaps {
        gso_max_size: 65_536,
        gso_max_segs: 64,
        fq: false,
        lateness: Duration::ZERO,
        backlog: false,
        reachable: true,
    };

    fn at_rate(bytes_per_second: u64, sysctl: &Sysctl, caps: &PathCaps) -> u16 {
        let mut path = Path::new(&World::new().cx(Instant::ZERO), Pmtu::new(1_500, false));
        path.pacing.set_rate(bytes_per_second);
        segments(sysctl, &path, caps, 1_448)
    }

    #[test]
    fn a_packet_is_a_millisecond_of_the_rate_within_bounds() {
        let default = Sysctl::default();
        // 14.48 Mbyte/s >> 10 = 14,140 bytes; 65,215 bytes of room hold 45 segments.
        assert_eq!(at_rate(14_480_000, &default, &CAPS), 9);
        assert_eq!(at_rate(u64::MAX, &default, &CAPS), 45);
        assert_eq!(at_rate(u64::MAX, &default, &PathCaps { gso_max_segs: 4, ..CAPS }), 4);
        assert_eq!(at_rate(u64::MAX, &default, &PathCaps { gso_max_size: 0, ..CAPS }), 1);
    }

    #[test]
    fn what_is_reserved_for_headers_is_no_payload() {
        let small = Sysctl { max_tcp_header: 192, ..Sysctl::default() };
        let most = |sysctl| gso_payload_max(sysctl, CAPS.gso_max_size);
        assert_eq!((most(&Sysctl::default()), most(&small)), (65_215, 65_343));
        assert_eq!(gso_payload_max(&small, 0), 0);
    }

    #[test]
    fn slow_flows_send_the_least_number_of_segments() {
        assert_eq!(at_rate(1_000, &Sysctl::default(), &CAPS), 2);
        let eight = Sysctl { tcp_min_tso_segs: 8, ..Sysctl::default() };
        assert_eq!((at_rate(1_000, &eight, &CAPS), at_rate(14_480_000, &eight, &CAPS)), (8, 9));
    }
}
