//! Packetization layer path MTU discovery: larger segments as probes, and a search below black holes (RFC 4821; `tcp_mtu_probe`,
//! `tcp_mtu_probing`).
use super::pmtu::Pmtu;
use super::rate::Snapshot;
use crate::base::Sysctl;
use crate::base::time::{Duration, Instant};
use core::ops::Range;

/// Smallest congestion window that can spare a probe.
pub const CWND_MIN: u32 = 11;

/// The search: packets of `low` bytes pass, above `high` none do. Sizes are bytes of IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plpmtud {
    low: u16,
    high: u16,
    /// No packet is longer: `low` as it was when something last settled the size of segments (`tcp_sync_mss`).
    settled: u16,
    /// Bytes of options in every segment.
    options: u16,
    /// When the search began.
    since: Instant,
    probe: Option<Probe>,
    /// What a lost probe goes again by at once.
    walk: Option<Walk>,
}

/// The flow as it was when the acknowledgement that showed a probe's loss came, before the controller heard of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// What the records remember.
    pub stamp: Snapshot,
    /// Bytes per second of the pace.
    pub rate: u64,
}

/// The probe that is out.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Probe {
    size: u16,
    span: Range<u64>,
}

impl Plpmtud {
    /// A search between what tcp_base_mss said after the handshake and what the peer takes (`tcp_mtup_init`). Segments keep the size that they have until
    /// [`Self::settle`].
    #[must_use]
    pub fn new(now: Instant, pmtu: &Pmtu, options: u16) -> Self {
        let (low, high) = (pmtu.mtu_of(pmtu.base_mss(), options), pmtu.peer_mtu());
        Self { low, high, settled: u16::MAX, options, since: now, probe: None, walk: None }
    }

    /// Where we opened the connection the search began with the SYN, which carried `asked` bytes of the options of segments: what
    /// passed then bounds the first segments even where the peer declined the options (`tcp_connect_init`).
    pub fn begun_with_syn(&mut self, asked: u16) {
        self.settled = self.low.saturating_sub(self.options).saturating_add(asked);
    }

    /// The size of segments is settled anew: no longer ones than surely pass, and than the path is known to carry
    /// (`tcp_sync_mss`).
    pub fn settle(&mut self, pmtu: &Pmtu) {
        self.high = self.high.min(pmtu.mtu());
        self.settled = self.low;
    }

    /// Largest payload of a segment; the path may allow less.
    #[must_use]
    pub fn mss(&self, pmtu: &Pmtu) -> u16 {
        pmtu.mss_at(self.settled, self.options)
    }

    /// A probe is out.
    #[must_use]
    pub const fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    /// Payload of the next probe, the middle of the range; `None` while one is out. A range narrower than `tcp_probe_threshold`
    /// is searched again, from the present size up, every `tcp_probe_interval` (`tcp_mtu_check_reprobe`).
    pub fn next_size(&mut self, sysctl: &Sysctl, now: Instant, pmtu: &Pmtu) -> Option<u16> {
        if self.probe.is_some() {
            return None;
        }
        let size = pmtu.mss_at(self.low.midpoint(self.high), self.options);
        let narrow = i32::from(self.high) - i32::from(self.low) < sysctl.tcp_probe_threshold as i32;
        if !narrow && size <= pmtu.mss_at(self.high, self.options) {
            // The first link would refuse what the peer takes and the path is known not to carry.
            return Some(size).filter(|&size| size <= pmtu.mss(self.options));
        }
        if now.since(self.since) >= Duration::from_secs(u64::from(sysctl.tcp_probe_interval)) {
            self.high = pmtu.peer_mtu();
            self.low = pmtu.mtu_of(self.mss(pmtu).min(pmtu.mss(self.options)), self.options);
            self.since = now;
        }
        None
    }

    /// A probe with `mss` bytes of payload left, at these offsets of the stream.
    pub fn sent(&mut self, pmtu: &Pmtu, mss: u16, span: Range<u64>) {
        self.probe = Some(Probe { size: pmtu.mtu_of(mss, self.options), span });
    }

    /// Everything below `una` is acknowledged: the probe's size where it was among that, which passes then
    /// (`tcp_mtup_probe_success`).
    pub fn acknowledged(&mut self, pmtu: &Pmtu, una: u64) -> Option<u16> {
        let size = self.probe.take_if(|probe| probe.span.end <= una)?.size;
        self.low = size;
        self.settle(pmtu);
        Some(size)
    }

    /// Recovery wants to begin at `una`: true when that is the probe, which was too large then (`tcp_mtup_probe_failed`).
    pub fn lost(&mut self, una: u64) -> bool {
        let Some(probe) = self.probe.take_if(|probe| probe.span.start == una) else { return false };
        self.high = probe.size - 1;
        true
    }

    /// The lost probe goes again from within the acknowledgement that showed its loss, before what that delivers moves the clock of the
    /// delivery rate and the pace (`tcp_simple_retransmit` in `tcp_fastretrans_alert`, `tcp_rate_gen`, `tcp_cong_control`). `None`: what goes
    /// again from now on does not.
    pub const fn set_walk(&mut self, walk: Option<Walk>) {
        self.walk = walk;
    }

    /// What a record goes again by, where it is not the state of the flow as it leaves.
    #[must_use]
    pub const fn walk(&self) -> Option<Walk> {
        self.walk
    }

    /// Something was sent again: the probe shows nothing any more.
    pub fn forget(&mut self) {
        self.probe = None;
    }

    /// Timeouts go on although the search runs: half of the size that should pass (`tcp_mtu_probing`). [`Self::settle`] has to
    /// follow.
    pub fn shrink(&mut self, sysctl: &Sysctl, pmtu: &Pmtu) {
        let half = u32::from(pmtu.mss_at(self.low, self.options)) / 2;
        let mss = half.min(sysctl.tcp_base_mss).max(sysctl.tcp_mtu_probe_floor).max(sysctl.tcp_min_snd_mss);
        self.low = pmtu.mtu_of(u16::try_from(mss).unwrap_or(u16::MAX), self.options);
    }

    /// Bytes of a packet with `mss` bytes of payload, in the proportions of the congestion window.
    #[must_use]
    pub fn packet(&self, pmtu: &Pmtu, mss: u16) -> u16 {
        pmtu.mtu_of(mss, self.options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> Pmtu {
        let mut pmtu = Pmtu::new(1_500, false);
        pmtu.set_peer_mss(Some(1_460));
        pmtu
    }

    #[test]
    fn successes_and_failures_halve_the_range_until_it_is_narrow() {
        let (sysctl, pmtu) = (Sysctl::default(), path());
        let mut p = Plpmtud::new(Instant::ZERO, &pmtu, 12);
        assert_eq!(p.mss(&pmtu), 1_448);
        // 1,024 + 52 bytes pass for certain.
        p.settle(&pmtu);
        assert_eq!(p.mss(&pmtu), 1_024);
        assert_eq!(p.next_size(&sysctl, Instant::ZERO, &pmtu), Some(1_236));
        p.sent(&pmtu, 1_236, 1..1_237);
        assert_eq!(p.next_size(&sysctl, Instant::ZERO, &pmtu), None, "one at a time");
        assert_eq!((p.acknowledged(&pmtu, 1_236), p.acknowledged(&pmtu, 1_237)), (None, Some(1_288)));
        assert_eq!(p.mss(&pmtu), 1_236);
        let mut passes = 0;
        let limit = 1_400;
        while let Some(size) = p.next_size(&sysctl, Instant::ZERO, &pmtu) {
            p.sent(&pmtu, size, 0..1);
            assert!(if size + 52 <= limit { p.acknowledged(&pmtu, 1).is_some() } else { p.lost(0) });
            passes += 1;
        }
        assert!(p.mss(&pmtu) + 52 <= limit && p.mss(&pmtu) + 52 > limit - 8, "{}", p.mss(&pmtu));
        assert!(passes <= 8, "{passes}");
        // Later the search begins anew, upward.
        let late = Instant::ZERO + Duration::from_secs(600);
        assert_eq!(p.next_size(&sysctl, late, &pmtu), None);
        assert!(p.next_size(&sysctl, late, &pmtu).is_some_and(|size| size + 52 > limit));
    }

    #[test]
    fn black_holes_halve_the_size_down_to_the_floor() {
        let (sysctl, pmtu) = (Sysctl::default(), path());
        let mut p = Plpmtud::new(Instant::ZERO, &pmtu, 0);
        p.settle(&pmtu);
        for want in [512, 256, 128, 64, 48, 48] {
            p.shrink(&sysctl, &pmtu);
            p.settle(&pmtu);
            assert_eq!(p.mss(&pmtu), want);
        }
        let floor = Sysctl { tcp_mtu_probe_floor: 200, ..Sysctl::default() };
        p.shrink(&floor, &pmtu);
        p.settle(&pmtu);
        assert_eq!(p.mss(&pmtu), 200);
    }

    #[test]
    fn a_probe_in_the_middle_of_the_window_is_not_blamed() {
        let mut pmtu = path();
        let mut p = Plpmtud::new(Instant::ZERO, &pmtu, 0);
        p.sent(&pmtu, 1_200, 100..1_300);
        assert!(!p.lost(99) && p.lost(100) && !p.lost(100));
        pmtu.reset(1_100);
        p.settle(&pmtu);
        assert_eq!(p.high, 1_100);
    }
}
