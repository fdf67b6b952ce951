//! Deferral of a super-packet that will soon be able to be larger (`tcp_tso_should_defer`; transmit-time batching).
use crate::base::Wait;

/// A flow that has sent nothing for this long sends at once.
const RECENT_NS: u64 = 1_000_000;
/// An acknowledgement further away than this is not worth waiting for.
const SOON_NS: u64 = 1_000_000;

/// Facts about the element at the head of the queue and about the windows.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Facts {
    /// Length of the element.
    pub(in crate::tcp) len: u64,
    /// A FIN or an end of record ends it.
    pub(in crate::tcp) sealed: bool,
    /// It is the last of the queue: the application may still add to it.
    pub(in crate::tcp) last: bool,
    /// Room in the peer's window, from the element's first byte on.
    pub(in crate::tcp) send_win: u64,
    /// Room in the congestion window, in bytes.
    pub(in crate::tcp) cong_win: u64,
    /// An opening of this many bytes is worth using at once; see [`worthwhile`].
    pub(in crate::tcp) worthwhile: u64,
    /// Bytes of the packet that autosizing aims at.
    pub(in crate::tcp) goal: u64,
    /// In recovery or loss.
    pub(in crate::tcp) recovering: bool,
    /// Time since something could last have left: what a paced flow may not send yet does not count (`tcp_wstamp_ns`).
    pub(in crate::tcp) since_sent_ns: u64,
    /// Age of the oldest segment in flight; `None` when nothing is.
    pub(in crate::tcp) oldest_ns: Option<u64>,
    /// Smoothed RTT.
    pub(in crate::tcp) srtt_ns: u64,
}

/// An opening that is worth using at once: a share of the smaller window (`tcp_tso_win_divisor`), or more than three segments
/// where there is no divisor.
pub(in crate::tcp) fn worthwhile(window: u64, divisor: u32, mss: u64) -> u64 {
    window.checked_div(u64::from(divisor)).unwrap_or(3 * mss + 1)
}

/// Why the element should wait, if it should.
pub(in crate::tcp) fn check(f: &Facts) -> Option<Wait> {
    if f.recovering || f.since_sent_ns > RECENT_NS {
        return None;
    }
    let limit = f.send_win.min(f.cong_win);
    if limit >= f.goal || (!f.last && limit >= f.len) {
        return None;
    }
    if limit >= f.worthwhile {
        return None;
    }
    let oldest = f.oldest_ns?;
    let next_ack_in = f.srtt_ns.saturating_sub(oldest);
    if next_ack_in > (f.srtt_ns / 2).min(SOON_NS) {
        return None;
    }
    if f.cong_win < f.send_win {
        if f.cong_win <= f.len {
            return Some(Wait::Cwnd);
        }
    } else if f.send_win <= f.len {
        return Some(Wait::RecvWindow);
    }
    if f.sealed { None } else { Some(Wait::Defer) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITS: Facts = Facts {
        len: 50_000,
        sealed: false,
        last: true,
        send_win: 1_000_000,
        cong_win: 3_000,
        worthwhile: 33_333,
        goal: 65_160,
        recovering: false,
        since_sent_ns: 10_000,
        oldest_ns: Some(39_900_000),
        srtt_ns: 40_000_000,
    };

    #[test]
    fn a_small_opening_waits_and_says_which_window() {
        assert_eq!(check(&WAITS), Some(Wait::Cwnd));
        assert_eq!(check(&Facts { cong_win: 1_000_000, send_win: 3_000, ..WAITS }), Some(Wait::RecvWindow));
        assert_eq!(check(&Facts { len: 2_000, ..WAITS }), Some(Wait::Defer));
    }

    #[test]
    fn each_reason_to_send_now_suffices() {
        assert_eq!(check(&Facts { recovering: true, ..WAITS }), None);
        assert_eq!(check(&Facts { since_sent_ns: 1_000_001, ..WAITS }), None);
        assert_eq!(check(&Facts { cong_win: 65_160, ..WAITS }), None);
        assert_eq!(check(&Facts { cong_win: 33_334, ..WAITS }), None);
        assert_eq!(check(&Facts { oldest_ns: None, ..WAITS }), None);
        assert_eq!(check(&Facts { oldest_ns: Some(0), ..WAITS }), None);
        assert_eq!(check(&Facts { len: 2_000, last: false, ..WAITS }), None);
        assert_eq!(check(&Facts { len: 2_000, sealed: true, ..WAITS }), None);
    }

    #[test]
    fn without_a_divisor_more_than_three_segments_are_enough() {
        assert_eq!(worthwhile(100_000, 3, 1_448), 33_333);
        assert_eq!(worthwhile(100_000, 0, 1_448), 4_345);
        let by_segments = Facts { worthwhile: worthwhile(100_000, 0, 1_448), ..WAITS };
        assert_eq!(check(&Facts { cong_win: 4_344, ..by_segments }), Some(Wait::Cwnd));
        assert_eq!(check(&Facts { cong_win: 4_345, ..by_segments }), None);
    }
}
