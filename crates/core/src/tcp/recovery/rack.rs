//! RACK (RFC 8985 section 6): what was sent sufficiently long before something that arrived is lost.
//!
//! First transmissions leave in sequence order, so a cursor separates what has been judged from what has not;
//! retransmissions wait in a queue in the order of their departure. Neither is walked twice.
use super::rto::{TIMEOUT_MIN, TimerKind};
use super::{Ack, Env, Reorder};
use crate::base::time::{Duration, Instant, nanos};
use crate::base::{Sysctl, steps};
use crate::path::Path;
use crate::path::congestion::CaState;
use crate::path::rate::Snapshot;
use crate::tcp::below::Departure;
use crate::tcp::scoreboard::Flight;
use crate::tcp::tx_queue::{Sent, flag};
use std::collections::VecDeque;

/// Recoveries for which a window widened by D-SACKs stays (`TCP_RACK_RECOVERY_THRESH`).
const PERSIST: u8 = 16;
/// Bit of tcp_recovery: the reordering window does not adapt.
const STATIC_REO_WND: u32 = 2;
/// Bit of tcp_recovery: the number of duplicates does not matter.
const NO_DUPTHRESH: u32 = 4;

/// Records behind one another that were not sent once and are passed over in a search for one that was.
const WALK_MAX: usize = 64;

/// Retransmissions beyond two for each record in flight that are remembered before those are looked for that have gone once more since.
const STALE_MAX: usize = 16;

/// A retransmission, in case it is lost too. It holds while the records in its range say the same time.
#[derive(Clone, Copy, Debug)]
struct Resent {
    left: Departure,
    start: u64,
    end: u64,
    /// Where what had been sent by then ended.
    nxt: u64,
}

/// The transmission before a retransmission.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Earlier {
    left: Departure,
    stamp: Snapshot,
    /// Marks at that time.
    flags: u16,
}

impl Earlier {
    /// What the record that is about to go again has been through.
    pub(in crate::tcp) const fn of(sent: &Sent) -> Self {
        Self { left: sent.departure(), stamp: sent.stamp, flags: sent.flags }
    }

    /// It was the first, and RACK has not judged it.
    const fn is_undecided_first(&self) -> bool {
        self.flags & (flag::EVER_RETRANS | flag::JUDGED | flag::RENEGED) == 0
    }
}

/// Retransmissions to be judged.
#[derive(Debug, Default)]
struct ResentQueue {
    /// In the order of their departure.
    out: VecDeque<Resent>,
    /// Those that something else marked lost before they were judged, which they are if that is taken back.
    aside: VecDeque<Resent>,
    /// What preceded the newest, in case that one does not leave this host.
    earlier: Option<Earlier>,
}

impl ResentQueue {
    /// Another one is about to leave. What was sent once more since says nothing: of one record that goes again and again, as into a window
    /// that stays shut, nothing is ever judged.
    fn make_room(&mut self, flight: &Flight) {
        if self.out.len() > 2 * flight.tx.records() + STALE_MAX {
            self.out.retain(|resent| piece(flight, resent, resent.start).is_some() || waits(flight, resent));
        }
    }

    /// What was in flight before the newest did not leave is judged as what was sent again: it counts as that.
    fn put_back(&mut self, resent: Resent) {
        let place = self.out.partition_point(|other| resent.left.is_after(other.left));
        self.out.insert(place, resent);
    }

    /// It is decided: forgotten, unless it only waits to be sent again.
    fn put_aside(&mut self, flight: &Flight, resent: Resent) {
        if !waits(flight, &resent) {
            return;
        }
        if self.aside.len() == self.aside.capacity() {
            self.aside.retain(|resent| waits(flight, resent));
        }
        self.aside.push_back(resent);
    }

    /// What was put aside and has been sent again, or has arrived, is forgotten.
    fn tidy(&mut self, flight: &Flight) {
        while self.aside.pop_front_if(|resent| !waits(flight, resent)).is_some() {}
    }
}

/// State of RACK.
#[derive(Debug)]
pub struct Rack {
    /// When the segment left that was sent last of those that arrived (RACK.xmit_ts).
    sent_at: Instant,
    /// Its end (RACK.end_seq).
    end_seq: u64,
    /// First transmissions before `sent_at` lie below.
    firsts_end: u64,
    /// Its round trip in nanoseconds (RACK.rtt).
    rtt_ns: u64,
    /// Every first transmission below is judged: sacked, lost or retransmitted.
    cursor: u64,
    /// Retransmissions in the order of their departure; `None` when there are none.
    resent: Option<Box<ResentQueue>>,
    /// `delivered` when the reordering window was last adapted.
    last_delivered: u32,
    /// Quarters of min_rtt in the reordering window (RACK.reo_wnd_mult).
    steps: u8,
    /// Recoveries left until it shrinks back (RACK.reo_wnd_persist).
    persist: u8,
    noted: Noted,
}

/// What takes few bits.
#[derive(Clone, Copy, Debug, Default)]
struct Noted {
    /// The number of the transmission that `sent_at` is of.
    number: u16,
    /// That transmission counts as earlier than it was.
    late: bool,
    /// A D-SACK waits for its adaptation.
    dsack: bool,
    /// Something arrived since the last judgement.
    advanced: bool,
    /// The number of the transmission that `rtt_ns` is of, where that was a retransmission.
    rtt_of_resent: Option<u16>,
}

/// RACK_sent_after of RFC 8985 section 6.2: in the order of departure, then of position where one packet was cut. Time alone
/// would not do: what several acknowledgements of one instant let out has one time. Of what counts as earlier than it was, the
/// position alone tells.
fn sent_after(a: (Departure, u64), b: (Departure, u64)) -> bool {
    if a.0 == b.0 || (a.0.at == b.0.at && (a.0.late || b.0.late)) { a.1 > b.1 } else { a.0.is_after(b.0) }
}

/// First transmissions with one of these are decided (in Linux: no longer on the list by time of sending).
const OFF_THE_LIST: u16 = flag::SACKED | flag::RENEGED | flag::EVER_RETRANS | flag::LOST | flag::JUDGED;

impl Rack {
    pub(super) const fn new() -> Self {
        Self {
            sent_at: Departure::NEVER.at,
            end_seq: 0,
            firsts_end: 0,
            rtt_ns: 0,
            cursor: 0,
            resent: None,
            last_delivered: 0,
            steps: 1,
            persist: 0,
            noted: Noted {
                number: Departure::NEVER.number,
                late: Departure::NEVER.late,
                dsack: false,
                advanced: false,
                rtt_of_resent: None,
            },
        }
    }

    /// Something that `left` then, ending at `end`, arrived (`tcp_rack_advance`, RFC 8985 section 6.2 step 2).
    pub(in crate::tcp) fn advance(&mut self, path: &Path, ack: &Ack, flags: u16, end: u64, left: Departure) {
        let rtt = ack.at.since(left.at);
        let resent = flags & (flag::EVER_RETRANS | flag::RETRANS) != 0;
        // Sooner than any round trip, or none is known: it may have been the original that arrived.
        if resent && path.rtt.min_rtt().is_none_or(|min| rtt < min) {
            return;
        }
        self.noted.advanced = true;
        (self.rtt_ns, self.noted.rtt_of_resent) = (nanos(rtt), resent.then_some(left.number));
        if sent_after((left, end), (self.sent(), self.end_seq)) {
            (self.sent_at, self.noted.number, self.noted.late) = (left.at, left.number, left.late);
            self.end_seq = end;
            self.firsts_end = if resent { self.sent_by(left) } else { end };
        }
    }

    /// Departure of the segment sent last of those that arrived.
    const fn sent(&self) -> Departure {
        Departure { at: self.sent_at, number: self.noted.number, late: self.noted.late }
    }

    /// A record is about to go out again: while it still counts as what went before, which stays remembered in case this one does not leave.
    pub(in crate::tcp) fn make_room(&mut self, flight: &Flight) {
        if let Some(queue) = &mut self.resent {
            queue.make_room(flight);
        }
    }

    /// A record went out again, after `earlier`. Remembered only where RACK judges it later: nothing else takes it out.
    pub(in crate::tcp) fn on_resent(&mut self, flight: &Flight, start: u64, end: u64, earlier: Earlier) {
        if flight.sack_ok
            && let Some(left) = flight.tx.get(start).map(Sent::departure)
        {
            let nxt = flight.tx.nxt();
            let queue = self.resent.get_or_insert_default();
            queue.out.push_back(Resent { left, start, end, nxt });
            queue.earlier = Some(earlier);
        }
    }

    /// Where what had been sent ended when that retransmission left, as far as it is remembered.
    fn sent_by(&self, left: Departure) -> u64 {
        let Some(ResentQueue { out: resent, .. }) = self.resent.as_deref() else { return u64::MAX };
        let at = resent.partition_point(|r| left.is_after(r.left));
        resent.get(at).map_or(u64::MAX, |r| r.nxt)
    }

    /// The record at `start`, which went out again last, never left: it is in flight as it was before, and judged so
    /// (`__tcp_transmit_skb` moves only what has left to the end of the list by time of sending).
    pub(in crate::tcp) fn take_back(&mut self, flight: &mut Flight, start: u64) {
        let Some(queue) = &mut self.resent else { return };
        let newest = queue.out.pop_back_if(|newest| newest.start == start);
        let (Some(newest), Some(earlier)) = (newest, queue.earlier.take()) else { return };
        let Earlier { left, stamp, flags } = earlier;
        if flight.count_as_before(start, left, stamp, flags) && earlier.is_undecided_first() {
            queue.put_back(Resent { left, nxt: newest.end, ..newest });
        }
    }

    /// Nothing is in flight any more.
    pub(in crate::tcp) fn all_arrived(&mut self) {
        self.resent = None;
    }

    /// Retransmissions that are remembered, for tests of the bound.
    #[cfg(test)]
    pub(in crate::tcp) fn remembered(&self) -> usize {
        self.resent.as_ref().map_or(0, |resent| resent.out.len() + resent.aside.len())
    }

    /// Whatever may still be lost will be judged: a first transmission stands before the cursor, and what was sent again in the queue.
    #[cfg(test)]
    pub(in crate::tcp) fn check_sight(&self, flight: &Flight) {
        for (start, sent) in flight.tx.range(0, u64::MAX).filter(|_| flight.sack_ok) {
            assert!(sent.has(OFF_THE_LIST) || start >= self.cursor, "{start} {sent:?}: {self:?}");
            let decided = sent.has(flag::SACKED | flag::RENEGED | flag::JUDGED);
            let waits = sent.flags & (flag::LOST | flag::RETRANS) == flag::LOST;
            if sent.has(flag::EVER_RETRANS) && !decided && !waits {
                let queue = self.resent.as_ref().expect("something was sent again");
                let mut records = queue.out.iter().filter(|r| r.left == sent.departure());
                assert!(records.any(|r| r.start <= start && start < r.end), "{start} {sent:?}: {self:?}");
            }
        }
    }

    /// Marks what is lost by now; true when the reordering timer runs for more (`tcp_rack_mark_lost`).
    pub(super) fn mark_lost(
        &mut self,
        e: &mut Env<'_, '_>,
        ca: CaState,
        reorder: &Reorder,
        now: Instant,
    ) -> bool {
        if !self.noted.advanced {
            return false;
        }
        self.noted.advanced = false;
        let Some(wait) = self.detect(e, ca, reorder, now) else { return false };
        let rto = e.path.rtt.rto_of_timer(e.cx.sysctl);
        e.timer.set(e.cx, TimerKind::Reorder, e.cx.now + (wait + TIMEOUT_MIN).min(rto));
        true
    }

    /// Marks what is lost at `now` (RFC 8985 section 6.2 step 5); how long until the rest can be judged, if there is a rest.
    pub(super) fn detect(
        &mut self,
        e: &mut Env<'_, '_>,
        ca: CaState,
        reorder: &Reorder,
        now: Instant,
    ) -> Option<Duration> {
        let patience = Duration::from_nanos(self.rtt_ns) + self.reo_wnd(e, ca, reorder);
        let first = self.judge_first(e, now, patience);
        let again = self.judge_resent(e, now, patience);
        let last = match (first, again) {
            (None, None) => return None,
            (a, b) => a.max(b)?,
        };
        Some((last + patience).since(now))
    }

    /// Moves the cursor over first transmissions; when the last undecided one was sent, if any is undecided.
    fn judge_first(&mut self, e: &mut Env<'_, '_>, now: Instant, patience: Duration) -> Option<Instant> {
        while let Some((start, sent)) = e.flight.tx.at_or_after(self.cursor) {
            let end = start + sent.span();
            if !sent.has(OFF_THE_LIST) {
                if !sent_after((self.sent(), self.end_seq), (sent.departure(), end)) {
                    return None;
                }
                let due = sent.sent_at + patience;
                if due > now || (due == now && self.left_behind_resent(sent.number, patience)) {
                    return Some(self.last_first(e.flight));
                }
                // The cursor may come back for what a timeout has marked beside it.
                Self::judge(e, start);
            }
            self.cursor = end;
        }
        None
    }

    /// The record at `start` is lost (`tcp_rack_mark_skb_lost`).
    fn judge(e: &mut Env<'_, '_>, start: u64) {
        e.flight.mark_lost(e.cx, start);
        if let Some(sent) = e.flight.tx.get_mut(start) {
            sent.flags |= flag::JUDGED;
        }
    }

    /// What is sent for the first time in answer to an acknowledgement leaves after what is sent again for it: by the other's round
    /// trip it is not late, though here it may have the same time.
    fn left_behind_resent(&self, number: u16, patience: Duration) -> bool {
        let same_time = nanos(patience) == self.rtt_ns;
        same_time && self.noted.rtt_of_resent.is_some_and(|resent| (number.wrapping_sub(resent) as i16) > 0)
    }

    /// When the last of the undecided first transmissions before `sent_at` left; `sent_at` where it is hard to find.
    fn last_first(&self, flight: &Flight) -> Instant {
        let before = |sent: &Sent| !sent.departure().is_after(self.sent());
        let last = undecided_first_below(flight, self.firsts_end, before);
        last.map_or(self.sent_at, |(_, sent)| sent.sent_at)
    }

    /// What went again at the time of what arrived is not judged where a first transmission that left before it was not sent before that:
    /// Linux walks one list, in the order in which all of them left, as far as the first such (`tcp_rack_detect_loss`). Only what counts as
    /// earlier than it was can be behind one and yet before what arrived. If any is, the last that left before it is.
    fn is_behind_a_later_first(&self, flight: &Flight, resent: &Resent) -> bool {
        if resent.left.at != self.sent_at || !(resent.left.late || self.noted.late) {
            return false;
        }
        undecided_first_below(flight, resent.nxt, |_| true).is_some_and(|(start, sent)| {
            !sent_after((self.sent(), self.end_seq), (sent.departure(), start + sent.span()))
        })
    }

    /// The same for retransmissions. Pieces of one that a SACK block has cut left at one time, so that their ends tell which of them the
    /// piece that arrived leaves behind.
    fn judge_resent(&mut self, e: &mut Env<'_, '_>, now: Instant, patience: Duration) -> Option<Instant> {
        let mut free_below = None;
        while let Some(&resent) = self.resent.as_ref()?.out.front() {
            if let Some((start, end)) = piece(e.flight, &resent, resent.start) {
                if !sent_after((self.sent(), self.end_seq), (resent.left, end)) {
                    return None;
                }
                // What one error has sent again has the same first transmissions before it: they are looked at once.
                if free_below != Some(resent.nxt) && self.is_behind_a_later_first(e.flight, &resent) {
                    return None;
                }
                free_below = Some(resent.nxt);
                if resent.left.at + patience > now {
                    return Some(self.last_resent(e.flight));
                }
                Self::judge(e, start);
                let queue = self.resent.as_mut()?;
                if resent.start < start {
                    // What something else has marked lost of it before that is not judged by now.
                    queue.put_aside(e.flight, Resent { end: start, ..resent });
                }
                // What is judged here stays judged, also if the mark is taken back.
                queue.out.front_mut()?.start = end;
            } else {
                let queue = self.resent.as_mut()?;
                queue.out.pop_front();
                queue.put_aside(e.flight, resent);
            }
        }
        self.resent.as_mut()?.tidy(e.flight);
        self.resent.take_if(|queue| queue.aside.is_empty());
        None
    }

    /// When the last of those before `sent_at` left that are undecided; what is decided is forgotten on the way. A piece of the same packet,
    /// before what arrived, is the last there can be.
    fn last_resent(&mut self, flight: &Flight) -> Instant {
        let (sent, sent_end) = (self.sent(), self.end_seq);
        let Some(queue) = self.resent.as_deref_mut() else { return sent.at };
        let resent = &mut queue.out;
        let before = resent.partition_point(|r| sent.is_after(r.left));
        let beside = resent.get(before).filter(|r| r.left == sent);
        if beside.and_then(|r| piece(flight, r, r.start)).is_some_and(|(_, end)| end < sent_end) {
            return sent.at;
        }
        let holds = |r: &Resent| piece(flight, r, r.start).is_some();
        let stale = resent.range(..before).rev().take_while(|r| !holds(r)).count();
        let decided: Vec<_> = resent.drain(before - stale..before).collect();
        let last = (before - stale).checked_sub(1).and_then(|i| resent.get(i)).map_or(sent.at, |r| r.left.at);
        decided.into_iter().for_each(|resent| queue.put_aside(flight, resent));
        last
    }

    /// The reordering window (RFC 8985 section 6.2 step 4, `tcp_rack_reo_wnd`), widened by a coarse clock's resolution.
    fn reo_wnd(&self, e: &Env<'_, '_>, ca: CaState, reorder: &Reorder) -> Duration {
        let coarse = Duration::from_nanos(u64::from(e.cx.sysctl.clock_resolution_ns) / 1_000 * 1_000);
        if reorder.seen == 0 {
            let dupthresh =
                e.flight.sacked_out >= reorder.degree && e.cx.sysctl.tcp_recovery & NO_DUPTHRESH == 0;
            if ca >= CaState::Recovery || dupthresh {
                return coarse;
            }
        }
        let min_rtt = e.path.rtt.min_rtt().map_or(u64::MAX, nanos);
        let window = (min_rtt / 4).saturating_mul(u64::from(self.steps));
        let srtt = e.path.rtt.srtt().map_or(0, nanos);
        Duration::from_nanos(window.min(srtt)) + coarse
    }

    /// Adapts the reordering window to D-SACKs, at most once per round trip (`tcp_rack_update_reo_wnd`). `prior_delivered` is
    /// what had been delivered when the newest of the delivered segments left, `delivered` what has been by now.
    pub(in crate::tcp) fn update_reo_wnd(
        &mut self,
        sysctl: &Sysctl,
        prior_delivered: Option<u32>,
        delivered: u32,
    ) {
        let Some(prior) = prior_delivered.filter(|p| *p != 0) else { return };
        if sysctl.tcp_recovery & STATIC_REO_WND != 0 {
            return;
        }
        if (prior.wrapping_sub(self.last_delivered) as i32) < 0 {
            self.noted.dsack = false;
        }
        if self.noted.dsack {
            self.steps = self.steps.saturating_add(1);
            self.noted.dsack = false;
            self.last_delivered = delivered;
            self.persist = PERSIST;
        } else if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// A D-SACK that may be due to reordering.
    pub(super) fn on_dsack(&mut self) {
        self.noted.dsack = true;
    }

    /// A recovery ended without undo (`reo_wnd_persist`).
    pub(super) fn end_of_recovery(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }

    /// A recovery was undone by D-SACK: the widened window stays longer.
    pub(super) fn persist_more(&mut self) {
        self.persist = (self.persist + 1).min(PERSIST);
    }

    /// Judges again at the next acknowledgement, whatever it brings.
    pub(super) fn look_again(&mut self) {
        self.noted.advanced = true;
    }

    /// All marks were taken back: from `undecided` on there may be first transmissions that something else than RACK had marked. What was
    /// judged lost stays judged, until it is sent again.
    pub(super) fn on_unmarked(&mut self, flight: &Flight, undecided: Option<u64>) {
        self.cursor = undecided.map_or(self.cursor, |undecided| undecided.min(self.cursor));
        let Some(queue) = self.resent.as_mut().filter(|queue| !queue.aside.is_empty()) else { return };
        let mut all = core::mem::take(&mut queue.aside);
        all.retain(|resent| piece(flight, resent, resent.start).is_some());
        all.append(&mut queue.out);
        // Those of one instant stay as they are.
        all.make_contiguous().sort_by_key(|resent| resent.left.at);
        queue.out = all;
    }

    /// The record sent at `sent_at` has not had its round trip (`tcp_rack_skb_timeout` without patience).
    pub(super) fn is_recent(&self, sent_at: Instant, now: Instant) -> bool {
        sent_at.plus_nanos(self.rtt_ns) > now
    }

    /// Quarters of min_rtt in the reordering window.
    #[must_use]
    pub const fn reo_wnd_steps(&self) -> u8 {
        self.steps
    }
}

/// The last record below `bound` that was sent once, is undecided and `fits`; `None` also where it is hard to find.
fn undecided_first_below(flight: &Flight, bound: u64, fits: impl Fn(&Sent) -> bool) -> Option<(u64, &Sent)> {
    let mut bound = bound.min(flight.tx.nxt());
    for _ in 0..WALK_MAX {
        steps::step();
        let (start, sent) = flight.last_unsacked_below(bound)?;
        if !sent.has(OFF_THE_LIST) && fits(sent) {
            return Some((start, sent));
        }
        bound = start;
    }
    None
}

/// Records in `from..to` that are not sacked, in order: those that are, however many pieces a peer makes of them, are passed over together.
fn not_sacked(flight: &Flight, from: u64, to: u64) -> impl Iterator<Item = (u64, &Sent)> {
    let mut at = from;
    core::iter::from_fn(move || {
        steps::step();
        at = flight.not_sacked_from(at);
        let (start, sent) = flight.tx.range(at, to).next()?;
        at = start + sent.span();
        Some((start, sent))
    })
}

/// Start and end of the first record at or after `from` that is still in flight as of that retransmission.
fn piece(flight: &Flight, resent: &Resent, from: u64) -> Option<(u64, u64)> {
    let mut records = not_sacked(flight, from, resent.end);
    records.find(|(_, sent)| holds(sent, resent)).map(|(start, sent)| (start, start + sent.span()))
}

/// A record of that retransmission is lost and not sent again yet.
fn waits(flight: &Flight, resent: &Resent) -> bool {
    let mut records = not_sacked(flight, resent.start, resent.end);
    let marks = flag::LOST | flag::RETRANS | flag::SACKED | flag::RENEGED;
    let lost = |sent: &Sent| sent.flags & marks == flag::LOST;
    records.any(|(_, sent)| sent.departure() == resent.left && sent.has(flag::EVER_RETRANS) && lost(sent))
}

/// The record is still in flight as of that retransmission.
fn holds(sent: &Sent, resent: &Resent) -> bool {
    sent.departure() == resent.left
        && sent.has(flag::EVER_RETRANS)
        && !sent.has(flag::SACKED | flag::RENEGED)
        && sent.flags & (flag::LOST | flag::RETRANS) != flag::LOST
}
