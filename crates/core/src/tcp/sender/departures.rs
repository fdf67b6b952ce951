//! What has left this host, as the sender's timers see it.
use super::Sender;
use crate::base::Cx;
use crate::path::Path;
use crate::tcp::recovery::Env;
use crate::tcp::recovery::rto::{TIMEOUT_MIN, TimerKind};
use crate::tcp::seq::Seq;
use crate::tcp::tx_queue::{Sent, flag};
use smallvec::SmallVec;

impl Sender {
    /// From now on [`Self::on_left`], [`Self::take_back`] or another end is told for each packet that is paid for.
    pub fn follow_departures(&mut self) {
        self.flight.tx.below.follow();
    }

    /// The oldest packet below has left this host. Where that took its time, timers count from now and not from when it was
    /// handed down (RFC 6298 section 5.1 starts them when a segment is sent); true when the RTO timer was set anew.
    pub fn on_left(&mut self, cx: &mut Cx<'_>, path: &mut Path) -> bool {
        let tx = &mut self.flight.tx;
        tx.below.on_left();
        match self.timer.get() {
            Some((TimerKind::Rto, at)) => {
                let due = cx.now + path.rtt.rto_of_timer(cx.sysctl);
                let late = |head: &Sent| {
                    tx.below.left_last(head.number) && cx.now.since(head.sent_at) >= TIMEOUT_MIN
                };
                // The first test keeps the usual completion, which comes at once, from looking at the queue.
                if at + TIMEOUT_MIN <= due && tx.first().is_some_and(|(_, head)| late(head)) {
                    self.timer.set(cx, TimerKind::Rto, due);
                    return true;
                }
            }
            Some((TimerKind::Tlp, _))
                if tx.below.is_empty()
                    && cx.now.since(self.usage.last_sent) >= TIMEOUT_MIN
                    // A FIN by itself is no data (`lsndtime`).
                    && tx.last().is_some_and(|(_, last)| cx.now.since(last.sent_at) >= TIMEOUT_MIN) =>
            {
                let mut e = Env { cx, path, flight: &mut self.flight, timer: &mut self.timer };
                self.recovery.schedule_probe(&mut e, true);
            }
            _ => {}
        }
        false
    }

    /// A packet below has come to its end before the wire, mostly the oldest. Where older ones are still there, as in a device when the queue before it
    /// gives up its head, the oldest counts as gone in its place, and so does each after it until those have left: then the count is right again,
    /// where one that left the older ones alone would stay behind for as long as the flow sends. What goes wrong meanwhile is the host's own
    /// queue alone ([`Self::is_below`]): small queues and the queue-aware limit keep accounts of the bytes that each packet names itself.
    pub const fn on_gone(&mut self) {
        self.flight.tx.below.on_left();
    }

    /// The queue below had no room for the end of the newest packet, and has pieces of it: those stand there without one, and the older packets as before.
    /// A segmented packet has left its flow in Linux, too (`tbf_segment` frees it, so that `skb_still_in_host_queue` finds it no more).
    pub const fn on_end_refused(&mut self) {
        self.flight.tx.below.on_refused();
    }

    /// A queueing discipline gave up a packet, or a piece of one, which carried `len` bytes (FIN included) from `seq` on: congestion
    /// on purpose. One reduction per window, and the records that lie within the range are lost at once: no acknowledgement must find that
    /// out. RACK finds a piece of a longer one.
    pub fn on_given_up(&mut self, cx: &mut Cx<'_>, path: &mut Path, seq: Seq, len: u32) {
        self.enter_cwr(cx, path);
        let from = self.offset(seq);
        let to = from + u64::from(len);
        // A record for each segment of a super-packet at most, and but one unless the MSS has changed since.
        // What was retransmitted at this instant met the queue that gave it up before: again at once would be for ever. RACK finds it.
        let at_once = |sent: &Sent| sent.has(flag::RETRANS) && sent.sent_at >= cx.now;
        let whole = |(start, sent): (u64, &Sent)| {
            (start + sent.span() <= to && !at_once(sent)).then_some((start, sent.segs))
        };
        let records: SmallVec<[(u64, u16); 4]> = self.flight.tx.range(from, to).filter_map(whole).collect();
        for (start, segs) in records {
            if self.flight.mark_given_up(cx, start) {
                cx.count.own.lost_in_queue += u64::from(segs);
            }
        }
        if !self.flight.sack_ok {
            self.flight.limit_reno_sacked();
        }
    }

    /// Packets of the flow that have not left this host.
    #[must_use]
    pub const fn packets_below(&self) -> u16 {
        self.flight.tx.below.len()
    }

    /// Nothing of the flow is below.
    pub fn on_all_back(&mut self) {
        self.flight.tx.below.on_all_back();
    }

    /// The oldest record in flight has not left this host.
    #[must_use]
    pub fn head_is_below(&self) -> bool {
        self.flight.tx.first().is_some_and(|(_, head)| self.flight.tx.below.holds(head.number))
    }

    /// The RTO timer fired for a head that has not left this host, or whose retransmission has not. Linux enters Loss and finds that it must not send; here
    /// nothing is lost, but the attempt counts, so that a device that takes nothing for ever ends the connection in time.
    pub fn on_rto_below(&mut self, cx: &mut Cx<'_>, path: &mut Path) {
        self.recovery.timeouts.attempt();
        self.recovery.undo.stamp.get_or_insert(cx.now);
        path.rtt.back_off();
        Env { cx, path, flight: &mut self.flight, timer: &mut self.timer }.restart_rto();
    }
}
