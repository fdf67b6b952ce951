//! SACK from beginning to end: what it acknowledges, what it misses, what it says of windows (RFC 9260 sections 6.2.1, 6.3, 7.2).
use crate::base::limits::SCTP_TSN_HOLES_MAX;
use crate::base::{Cx, Instant};
use crate::ranges::RangeSet;
use crate::sctp::assoc::Assoc;
use crate::sctp::congestion::Marks;
use crate::sctp::notification::Notification;
use crate::sctp::options::RtoOptions;
use crate::sctp::outstanding::{Chunk, Mark};
use crate::sctp::paths::{PathId, Paths};
use crate::sctp::recovery::fast::{self, News};
use crate::sctp::sender::Probe;
use crate::sctp::state::State;
use crate::sctp::tsn::Tsn;
use lowwater_wire::sctp::{GapBlock, Sack};

/// Gap blocks in a SACK that may not be all: Linux lists sixteen (`SCTP_MAX_GABS`), others what fits the path.
const GAPS_CUT: usize = 16;

impl Assoc {
    pub(super) fn on_sack(&mut self, cx: &mut Cx<'_>, sack: &Sack<'_>) {
        if !self.state.takes_sack() {
            return;
        }
        // Nothing is out then, and the peer may have begun to count anew.
        if self.awaits_tsns() {
            return;
        }
        let cum = self.tx.out.cum().near(sack.cum_tsn);
        if cum < self.tx.out.cum() {
            return;
        }
        if cum >= self.tx.out.next_tsn() {
            if self.is_from_before_reset(cum) {
                return;
            }
            return self.violation(cx, b"cumulative TSN beyond what was sent");
        }
        let mut news = self.take_cumulative(cx, cum);
        let taken_back = self.take_gaps(cx, sack.gaps, &mut news);
        self.grow(cx);
        fast::on_sack(cx, &mut self.tx, &mut self.paths, &news);
        for (start, end) in taken_back.iter() {
            self.tx.out.count_reneged(Tsn(start), Tsn(end));
        }
        self.conclude(cx);
        self.give_up(cx);
        self.tx.peer_rwnd = sack.a_rwnd.saturating_sub(self.tx.out.in_flight());
        self.tx.closed.shut = sack.a_rwnd < self.least_window();
        self.on_window(cx);
        self.after_acks(cx);
    }

    /// An acknowledgement that comes late, of the numbers before all began anew: those of now began half of all numbers away (RFC 6525 section
    /// 5.2.4), so that it seems to be nearly as far ahead.
    pub(super) fn is_from_before_reset(&self, cum: Tsn) -> bool {
        self.pending.reconf.is_some() && cum.0 - self.tx.out.next_tsn().0 > 1 << 30
    }

    /// A window of fewer bytes is closed: the chunk that is out alone, or that has to go first where nothing else is under way, does not fit
    /// it (Linux asks what is left of the window then).
    fn least_window(&self) -> u32 {
        let out = &self.tx.out;
        let alone = out.len() == 1 || out.in_flight() == 0 || self.tx.closed.probe != Probe::None;
        out.iter().next().filter(|_| alone).map_or(1, |(_, chunk)| chunk.len().max(1))
    }

    /// Whoever keeps its window closed and says so lives, and the path to it too (section 6.1 A; Linux `sctp_check_transmitted`).
    fn on_window(&mut self, cx: &mut Cx<'_>) {
        if !self.tx.closed.shut || self.tx.out.is_empty() {
            if core::mem::replace(&mut self.tx.closed.probe, Probe::None) == Probe::Answered {
                self.end_probing(cx);
            }
            return;
        }
        if self.tx.closed.probe == Probe::Out {
            self.tx.closed.probe = Probe::Answered;
        }
        if !self.is_held_up() {
            self.errors = 0;
            let probed = self.tx.out.iter().next().map(|(_, chunk)| chunk.path);
            if let Some(id) = probed {
                self.paths.get_mut(id).errors = 0;
            }
        }
    }

    /// The window that was closed has opened, and the peer had no room for what has probed it: that goes again at once, for its timer has
    /// run out so often that the next time may be a minute away. What may have met this SACK on the way is left to its timer.
    fn end_probing(&mut self, cx: &mut Cx<'_>) {
        let Some((id, at)) = self.tx.out.iter().next().map(|(_, chunk)| (chunk.path, chunk.sent_at)) else {
            return;
        };
        let path = self.paths.get_mut(id);
        path.cwnd.lone = false;
        if path.rto.srtt().is_none_or(|rtt| cx.now.since(at) < rtt) {
            return;
        }
        let lost = self.tx.out.lose_path(id);
        self.tx.peer_rwnd = self.tx.peer_rwnd.saturating_add(lost);
        let marks = Marks::of(&self.tx.out);
        let path = self.paths.get_mut(id);
        path.on_t3(cx, marks, true);
        (path.timed, path.t3) = (None, Instant::FAR_FUTURE);
    }

    /// The cumulative acknowledgement of a SACK or a SHUTDOWN.
    pub(super) fn take_cumulative(&mut self, cx: &mut Cx<'_>, cum: Tsn) -> News {
        for (_, path) in self.paths.iter_mut() {
            path.begin_sack();
        }
        let (mut news, paths, rto) = (News::default(), &mut self.paths, &self.options.rto);
        self.tx.out.advance(cum, |tsn, chunk| {
            news.advanced = true;
            paths.get_mut(chunk.path).flow.acked.cumulative = true;
            if matches!(chunk.mark, Mark::InFlight | Mark::Lost) {
                news.acknowledged(tsn, chunk.path);
                note(cx, paths, rto, tsn, chunk, chunk.mark);
            }
        });
        news
    }

    /// Windows grow by what was acknowledged, before what is missing makes them shrink (section 7.2.4).
    pub(super) fn grow(&mut self, cx: &mut Cx<'_>) {
        fast::leave(&self.tx, &mut self.paths);
        for (_, path) in self.paths.iter_mut() {
            path.grow(cx);
        }
    }

    /// The gap blocks: what they name for the first time, and what they no longer name, which comes back.
    fn take_gaps(&mut self, cx: &mut Cx<'_>, gaps: &[GapBlock], news: &mut News) -> RangeSet {
        let gaps = &gaps[..gaps.len().min(SCTP_TSN_HOLES_MAX)];
        let (cum, next) = (self.tx.out.cum(), self.tx.out.next_tsn());
        let bounds = |gap: &GapBlock| {
            // What was never sent cannot be named, nor the first that is missing (section 3.3.4), which no timer would run for: the rest
            // of such a block counts.
            let end = cum.plus(u64::from(gap.end()) + 1).min(next);
            let start = cum.plus(gap.start().max(2).into());
            (gap.start() > 0 && start < end).then_some((start, end))
        };
        let (mut named, mut behind, mut ordered) = (0, cum, true);
        for (start, end) in gaps.iter().filter_map(bounds) {
            ordered &= start > behind;
            (named, behind) = (named + end.0 - start.0, end);
            news.last_gap = news.last_gap.max(Some(end.prev()));
            let (paths, rto) = (&mut self.paths, &self.options.rto);
            self.tx.out.ack(start, end, |tsn, before, chunk| {
                note(cx, paths, rto, tsn, chunk, before);
                news.acknowledged(tsn, chunk.path);
            });
        }
        if named < self.tx.out.acked() || !ordered {
            let mut named = RangeSet::new();
            for (start, end) in gaps.iter().filter_map(bounds) {
                named.insert(start.0, end.0);
            }
            return self.renege(cx, &named, gaps.len());
        }
        RangeSet::new()
    }

    /// The peer no longer names something that it had: it counts as under way again, and T3-rtx runs for it (section 6.2.1, D iii;
    /// Linux `sctp_check_transmitted`). A list that may have been cut says nothing of what lies behind it.
    fn renege(&mut self, cx: &Cx<'_>, named: &RangeSet, blocks: usize) -> RangeSet {
        let mut end = self.tx.out.next_tsn();
        if blocks >= GAPS_CUT
            && let Some((_, last)) = named.last()
        {
            end = Tsn(last);
        }
        self.take_back(cx, named, end)
    }

    /// A SHUTDOWN names no blocks, but the TSN behind its cumulative one is missing, or it would be another.
    pub(super) fn take_back_first(&mut self, cx: &Cx<'_>) {
        let (behind, before) = (self.tx.out.cum().plus(2), self.tx.out.in_flight());
        self.take_back(cx, &RangeSet::new(), behind);
        let back = self.tx.out.in_flight() - before;
        self.tx.peer_rwnd = self.tx.peer_rwnd.saturating_sub(back);
    }

    fn take_back(&mut self, cx: &Cx<'_>, named: &RangeSet, end: Tsn) -> RangeSet {
        let paths = &mut self.paths;
        self.tx.out.renege(named, end, |id, len| {
            let path = paths.get_mut(id);
            path.on_chunk_reneged(len);
            path.start_t3(cx.now);
        })
    }

    /// What follows for each path: window, timer, life.
    pub(super) fn conclude(&mut self, cx: &mut Cx<'_>) {
        let marks = Marks::of(&self.tx.out);
        for id in 0..self.paths.len() as PathId {
            let path = self.paths.get_mut(id);
            let acked = path.flow.acked;
            if acked.bytes == 0 && !acked.cumulative {
                // What only lost something says so where the lost is counted.
                if acked.lost > 0 {
                    path.end_sack(cx, marks);
                }
                continue;
            }
            path.cwnd.lone = false;
            path.end_sack(cx, marks);
            // Rules R2 and R3 of section 6.3.2. The cumulative TSN may wait for another path.
            if path.cwnd.flight() == 0 {
                path.t3 = Instant::FAR_FUTURE;
            } else if acked.cumulative || !acked.behind {
                path.restart_t3(cx.now);
            }
            if acked.bytes > 0 {
                self.on_alive(id, false);
                self.end_hold_up();
            }
        }
    }

    /// A peer that takes something, however slowly, is given up by no guard of its closed window (Linux `sctp_check_transmitted`).
    fn end_hold_up(&mut self) {
        if self.state == State::ShutdownPending {
            self.timers.stop_t5();
        }
    }

    /// What acknowledgements, or the end of a lifetime, make possible: the end of a shutdown, the news that all was sent.
    pub(in crate::sctp) fn after_acks(&mut self, cx: &Cx<'_>) {
        if self.tx.is_dry()
            && self.state == State::Established
            && !core::mem::replace(&mut self.owner.dry, true)
        {
            self.notify(Notification::SenderDry);
        }
        self.advance_shutdown(cx);
    }
}

/// A chunk is acknowledged for the first time: its path has less in flight, and perhaps a sample.
fn note(cx: &Cx<'_>, paths: &mut Paths, rto: &RtoOptions, tsn: Tsn, chunk: &Chunk, before: Mark) {
    let path = paths.get_mut(chunk.path);
    let first = &mut path.flow.acked.first;
    *first = if *first == Tsn(0) { tsn } else { tsn.min(*first) };
    path.on_chunk_acked(cx.now, chunk, before == Mark::InFlight);
    if path.timed == Some(tsn) {
        path.timed = None;
        // Karn's rule: of a chunk that was sent twice nobody knows which one was answered.
        if chunk.sends == 1 {
            path.rto.sample(rto, cx.now.since(chunk.sent_at));
        }
    }
}
