//! The path MTU and what it leaves for a TCP segment.
//!
//! Source: RFC 9293 section 3.7.1, RFC 1191, RFC 8201; Linux `tcp_mtu_to_mss`, `tcp_bound_to_half_wnd`.
use crate::base::limits::{MIN_PMTU_V4, MIN_PMTU_V6, TCP_MIN_SND_MSS};

/// MSS of a peer that offers none (RFC 9293 section 3.7.1; Linux uses the IPv4 value for both versions).
pub const TCP_MSS_DEFAULT: u16 = 536;
/// Payload with which searches begin, until somebody says another (`TCP_BASE_MSS`).
const TCP_BASE_MSS: u16 = 1_024;
/// A TCP header without options.
const TCP_HEADER: u16 = 20;
/// A window so small that segments shrink below this does not shrink them further (a header's worth of room per packet).
const SMALLEST_PACKET: u32 = 68;

/// Path MTU, and the largest segment that the peer accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pmtu {
    mtu: u16,
    peer_mss: u16,
    /// Least payload of a segment, options included (`tcp_min_snd_mss`).
    min_mss: u16,
    /// Payload of segments that surely pass, options excluded: tcp_base_mss when the handshake was over (`tcp_mtup_init`).
    base_mss: u16,
    v6: bool,
}

impl Pmtu {
    /// A path whose first link carries `mtu` bytes per packet; the peer has offered nothing yet.
    #[must_use]
    pub fn new(mtu: u16, v6: bool) -> Self {
        Self {
            mtu: mtu.max(Self::header(v6) + TCP_HEADER),
            peer_mss: u16::MAX,
            min_mss: TCP_MIN_SND_MSS,
            base_mss: TCP_BASE_MSS,
            v6,
        }
    }

    /// tcp_base_mss.
    pub fn set_base_mss(&mut self, bytes: u32) {
        self.base_mss = u16::try_from(bytes).unwrap_or(u16::MAX);
    }

    /// Payload with which a search for the path MTU begins, options excluded.
    #[must_use]
    pub const fn base_mss(&self) -> u16 {
        self.base_mss
    }

    /// tcp_min_snd_mss.
    pub fn set_min_mss(&mut self, bytes: u32) {
        self.min_mss = u16::try_from(bytes).unwrap_or(u16::MAX).max(TCP_MIN_SND_MSS);
    }

    /// The path MTU in bytes of an IP packet.
    #[must_use]
    pub const fn mtu(&self) -> u16 {
        self.mtu
    }

    /// True for IPv6.
    #[must_use]
    pub const fn is_v6(&self) -> bool {
        self.v6
    }

    /// The MSS option that we offer: our link's MTU less fixed headers (RFC 6691).
    #[must_use]
    pub const fn advertised_mss(&self) -> u16 {
        self.mtu - Self::header(self.v6) - TCP_HEADER
    }

    /// The peer's SYN came: its MSS option, or none. Absurdly small ones are raised, or a peer could make us send nothing
    /// but headers (CVE-2019-11479).
    pub fn set_peer_mss(&mut self, offered: Option<u16>) {
        self.peer_mss = offered.filter(|&mss| mss > 0).unwrap_or(TCP_MSS_DEFAULT).max(TCP_MIN_SND_MSS);
    }

    /// Payload bytes per segment when every segment carries `option_bytes` of options (`mss_cache`).
    #[must_use]
    pub fn mss(&self, option_bytes: u16) -> u16 {
        self.mss_at(self.mtu, option_bytes)
    }

    /// The same on a path that carries packets of `mtu` bytes (`tcp_mtu_to_mss`).
    #[must_use]
    pub fn mss_at(&self, mtu: u16, option_bytes: u16) -> u16 {
        let by_path = mtu.saturating_sub(Self::header(self.v6) + TCP_HEADER);
        by_path.min(self.peer_mss).max(self.min_mss).saturating_sub(option_bytes).max(1)
    }

    /// Bytes of a packet with `mss` bytes of payload and `option_bytes` of options (`tcp_mss_to_mtu`).
    #[must_use]
    pub const fn mtu_of(&self, mss: u16, option_bytes: u16) -> u16 {
        mss.saturating_add(option_bytes + Self::header(self.v6) + TCP_HEADER)
    }

    /// Bytes of the largest packet that the peer takes.
    #[must_use]
    pub const fn peer_mtu(&self) -> u16 {
        self.mtu_of(self.peer_mss, 0)
    }

    /// The same, and at most half of the largest window that the peer ever offered: two segments must fit, or silly-window
    /// avoidance on both sides waits for the other (`tcp_bound_to_half_wnd`).
    #[must_use]
    pub fn mss_within(&self, option_bytes: u16, max_window: u32) -> u16 {
        bound_to_half_window(u32::from(self.mss(option_bytes)), option_bytes, max_window) as u16
    }

    /// A router says that packets above `next_hop` bytes do not pass: the new path MTU where that lowers it.
    ///
    /// The message must have been matched to a sequence number in flight (RFC 5927 section 4). IPv4 lowers nothing below
    /// `ip_rt_min_pmtu`, a missing next-hop MTU (RFC 1191 section 5) included; IPv6 ignores what is below 1,280 (RFC 8201 section 4).
    pub fn too_big(&mut self, next_hop: u32) -> Option<u16> {
        if self.v6 && next_hop < u32::from(MIN_PMTU_V6) {
            return None;
        }
        let floor = if self.v6 { MIN_PMTU_V6 } else { MIN_PMTU_V4 };
        let mtu = u16::try_from(next_hop).unwrap_or(u16::MAX).max(floor);
        (mtu < self.mtu).then(|| {
            self.mtu = mtu;
            mtu
        })
    }

    /// The route changed, or what was learnt grew too old (RFC 1191 section 6.3): start anew from `mtu`.
    pub fn reset(&mut self, mtu: u16) {
        self.mtu = mtu.max(Self::header(self.v6) + TCP_HEADER);
    }

    const fn header(v6: bool) -> u16 {
        if v6 { 40 } else { 20 }
    }
}

/// `size` bytes of payload, bounded to half of the peer's largest window when that is over 536 bytes, to the window itself
/// when it is smaller. Also for the size goal of whole elements (docs/transmit-path.md, "Autosizing").
#[must_use]
pub fn bound_to_half_window(size: u32, option_bytes: u16, max_window: u32) -> u32 {
    let cutoff = if max_window > u32::from(TCP_MSS_DEFAULT) { max_window / 2 } else { max_window };
    if cutoff == 0 || size <= cutoff {
        return size;
    }
    let smallest = SMALLEST_PACKET.saturating_sub(u32::from(TCP_HEADER + option_bytes));
    cutoff.max(smallest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_sizes() {
        let mut v4 = Pmtu::new(1_500, false);
        assert_eq!(v4.advertised_mss(), 1_460);
        assert_eq!(Pmtu::new(1_500, true).advertised_mss(), 1_440);
        assert_eq!(Pmtu::new(65_535, true).mss(12), 65_463);
        v4.set_peer_mss(Some(1_460));
        assert_eq!(v4.mss(12), 1_448);
        v4.set_peer_mss(Some(1_200));
        assert_eq!(v4.mss(12), 1_188);
        v4.set_peer_mss(None);
        assert_eq!(v4.mss(0), 536);
        v4.set_peer_mss(Some(1));
        assert_eq!(v4.mss(12), 36);
        v4.set_peer_mss(Some(0));
        assert_eq!(v4.mss(0), 536);
    }

    #[test]
    fn half_of_the_largest_window_bounds_a_segment() {
        let v4 = Pmtu::new(1_500, false);
        assert_eq!(v4.mss_within(12, 65_535), 1_448);
        assert_eq!(v4.mss_within(12, 2_000), 1_000);
        assert_eq!(v4.mss_within(12, 500), 500);
        assert_eq!(v4.mss_within(12, 10), 36);
        assert_eq!(v4.mss_within(12, 0), 1_448);
    }

    #[test]
    fn too_big_only_lowers_and_has_a_floor() {
        let (mut v4, mut v6) = (Pmtu::new(1_500, false), Pmtu::new(1_500, true));
        assert_eq!(v4.too_big(1_500), None);
        assert_eq!(v4.too_big(9_000), None);
        assert_eq!(v4.too_big(u32::MAX), None);
        assert_eq!(v4.too_big(1_400), Some(1_400));
        assert_eq!(v4.too_big(1_450), None);
        assert_eq!(v4.too_big(0), Some(552));
        assert_eq!(v4.too_big(68), None);
        assert_eq!((v6.too_big(576), v6.mtu()), (None, 1_500));
        assert_eq!(v6.too_big(1_280), Some(1_280));
        v6.reset(9_000);
        assert_eq!(v6.mtu(), 9_000);
        assert_eq!(Pmtu::new(0, false).mss(60), 1);
    }
}
