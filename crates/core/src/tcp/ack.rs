//! One acknowledgement from beginning to end: marks, RTT, machine, window, timer, in Linux's order (`tcp_ack`).
use super::accecn::{Delivered, Feedback};
use super::moments::Taken;
use super::recovery::{Ack, Env, Recovery, fact};
use super::sender::AckOut;
use super::tx_queue::flag;
use super::usage::Usage;
use crate::base::limits::GSO_MAX_SIZE;
use crate::base::time::{Duration, Instant};
use crate::path::congestion::{AckSample, CaState, Congestion as _};
use crate::path::rate::Sampler;

/// Everything that an acknowledgement touches.
#[derive(Debug)]
pub(super) struct Work<'a, 'c> {
    pub(super) e: Env<'a, 'c>,
    pub(super) recovery: &'a mut Recovery,
    pub(super) usage: &'a Usage,
    pub(super) ack: Ack,
    /// What the segment tells of marks, where ECN is accurate.
    pub(super) accurate: Option<Feedback<'a>>,
    /// Of what was delivered, as far as that tells.
    pub(super) marked: u32,
    pub(super) out: AckOut,
}

/// What the removal of acknowledged records told.
#[derive(Debug, Default)]
struct Cleaned {
    /// Segments acknowledged.
    acked: u32,
    /// First and last departure of what was never retransmitted nor sacked.
    sent_at: Option<(Instant, Instant)>,
    /// Round trip for the estimator.
    rtt: Option<Duration>,
    /// Round trip of the last delivered segment, for the controller.
    last_rtt: Option<Duration>,
    /// The last record is acknowledged whole.
    whole: bool,
    /// The peer may have delayed it.
    delayed: bool,
}

impl Work<'_, '_> {
    /// The whole of it. `blocks`: SACK blocks as offsets.
    pub(super) fn run(&mut self, blocks: &[(u64, u64)]) {
        let prior_una = self.ack.prior_una;
        // The acknowledgement that ends the episode still belongs to it (`is_sack_reneg`).
        let reneged = self.recovery.reneged;
        if self.ack.ack < prior_una {
            self.old_ack(blocks);
            return;
        }
        let (prior_out, prior_in_flight) = (self.e.flight.packets_out, self.e.flight.in_flight());
        let lost = self.e.flight.lost;
        let fack = if self.e.flight.sack_ok { self.e.flight.highest_sack() } else { prior_una };
        if self.ack.ack > prior_una {
            self.ack.facts |= fact::UNA_ADVANCED;
            self.recovery.timeouts.retransmits = 0;
            self.e.flight.advance_una(self.ack.ack);
            self.out.advanced = self.ack.ack - prior_una;
        }
        if !blocks.is_empty() {
            self.recovery.sack(&mut self.e, &mut self.ack, blocks);
        }
        if prior_out == 0 {
            self.nothing_out();
            return;
        }
        let cleaned = self.clean(fack);
        if self.e.flight.packets_out == 0 {
            self.recovery.rack.all_arrived();
        }
        let mut sample = self.told(&cleaned, prior_in_flight);
        let delivered = self.e.path.rate.delivered().wrapping_add(self.ack.delivered);
        let prior_delivered = self.ack.sampler.prior_delivered();
        self.recovery.rack.update_reo_wnd(self.e.cx.sysctl, prior_delivered, delivered);
        self.count_accurate();
        let delivered_ce = self.ack.has(fact::ECE);
        self.recovery.process_tlp_ack(&mut self.e, &self.ack);
        if self.recovery.is_dubious(&self.ack) {
            self.out.rexmit = self.recovery.alert(&mut self.e, &mut self.ack);
        }
        if self.ack.has(fact::SET_XMIT_TIMER) {
            self.recovery.set_xmit_timer(&mut self.e);
        }
        self.out.progress = self.ack.has(fact::FORWARD_PROGRESS);
        sample.delivered = self.ack.delivered;
        sample.lost = self.e.flight.lost.wrapping_sub(lost);
        sample.state = self.recovery.ca;
        sample.ece = delivered_ce;
        self.sample_rate(&mut sample, reneged);
        self.control(&sample);
    }

    /// Nothing was in flight: a D-SACK may still undo something (`no_queue`).
    fn nothing_out(&mut self) {
        self.out.was_idle = true;
        self.count_accurate();
        self.ack.facts |= fact::OLD;
        if self.ack.has(fact::DSACKING_ACK) {
            self.out.rexmit = self.recovery.alert(&mut self.e, &mut self.ack);
            self.count_delivered();
        }
        self.recovery.process_tlp_ack(&mut self.e, &self.ack);
    }

    /// An acknowledgement overtaken by a later one: only its SACK blocks are news (`old_ack`).
    fn old_ack(&mut self, blocks: &[(u64, u64)]) {
        if blocks.is_empty() {
            return;
        }
        // An echo of congestion counts where it is news.
        self.ack.facts = self.ack.facts & !fact::ECE | fact::OLD;
        self.recovery.sack(&mut self.e, &mut self.ack, blocks);
        self.out.rexmit = self.recovery.alert(&mut self.e, &mut self.ack);
        // What it delivers is not counted (`tcp_ack`, Linux 6.15 and later).
    }

    /// The marks that the ACE field tells of (`tcp_accecn_process`). They slow down as an echo does.
    fn count_accurate(&mut self) {
        let Some(feedback) = &mut self.accurate else { return };
        let (told, ack) = (self.e.path.rate.delivered_ce(), &self.ack);
        let (bytes, mss) = (ack.delivered_bytes, self.e.flight.mss.into());
        let sure = self.e.flight.sack_ok || matches!(self.recovery.ca, CaState::Open | CaState::Cwr);
        let (progress, syn) = (ack.has(fact::FORWARD_PROGRESS), ack.has(fact::SYN_ACKED));
        (self.marked, self.out.overdue) =
            feedback.delta(told, Delivered { segs: ack.delivered, progress, syn, bytes, mss, sure });
        if self.marked > 0 {
            self.e.path.rate.count_marked(self.marked);
            self.ack.facts |= fact::ECE;
        }
    }

    fn count_delivered(&mut self) {
        let (delivered, now) = (self.ack.delivered, self.ack.at);
        self.e.path.rate.on_ack(now, delivered, &Sampler::default(), None, false);
        self.count_segments(delivered);
    }

    fn count_segments(&mut self, delivered: u32) {
        self.e.cx.count.tcp_ext.tcp_delivered += u64::from(delivered);
        if self.accurate.is_some() {
            self.e.cx.count.tcp_ext.tcp_delivered_ce += u64::from(self.marked);
        } else if self.ack.has(fact::ECE) {
            self.e.cx.count.tcp_ext.tcp_delivered_ce += u64::from(delivered);
            self.e.path.rate.count_marked(delivered);
        }
    }

    /// Removes what is cumulatively acknowledged and takes RTT samples (`tcp_clean_rtx_queue`).
    fn clean(&mut self, fack: u64) -> Cleaned {
        let mut cleaned = Cleaned::default();
        let prior_sacked = self.e.flight.sacked_out;
        let mut reord = self.e.flight.tx.nxt();
        while let Some(record) = self.e.flight.take_acked(self.e.cx.pool, self.ack.ack) {
            let partial = record.end > self.ack.ack;
            if partial && record.segs == 0 {
                break;
            }
            self.acknowledged(&mut cleaned, &mut reord, record);
            if partial {
                break;
            }
        }
        let ends = u64::from(self.out.fin_acked) + u64::from(self.out.syn_acked);
        self.out.acked_bytes = self.out.advanced.saturating_sub(ends);
        if self.e.flight.reneged() {
            self.ack.facts |= fact::SACK_RENEGING;
        }
        cleaned.delayed = prior_sacked == 0 && self.maybe_delayed(&cleaned);
        self.take_rtt(&mut cleaned);
        if self.ack.has(fact::ACKED) {
            self.ack.facts |= fact::SET_XMIT_TIMER;
            self.probe_acknowledged();
            if !self.e.flight.sack_ok {
                let acked = cleaned.acked;
                self.recovery.remove_reno_sacks(&mut self.e, &mut self.ack, acked);
                // Without SACK nothing tells the original from the retransmission.
                if self.ack.has(fact::RETRANS_DATA_ACKED) {
                    self.ack.facts &= !fact::ORIG_SACK_ACKED;
                }
            } else if reord < fack {
                let late = reord..self.e.flight.highest_sack();
                self.recovery.check_reordering(&mut self.e, late, false);
            }
        } else if self.out.rtt_sampled
            && let Some((first, _)) = self.ack.sacked_at
            && self.e.flight.head_sent_at().is_some_and(|head| first < head)
        {
            // The timer moves on only if what was sacked had left before the head did for the last time.
            self.ack.facts |= fact::SET_XMIT_TIMER;
        }
        cleaned
    }

    /// A probe of the path's MTU arrived: the window holds as many bytes as before, in larger segments
    /// (`tcp_mtup_probe_success`).
    fn probe_acknowledged(&mut self) {
        let e = &mut self.e;
        let Some(search) = &mut e.path.plpmtud else { return };
        let before = search.packet(&e.path.pmtu, e.flight.mss);
        let Some(size) = search.acknowledged(&e.path.pmtu, e.flight.tx.una()) else { return };
        // The pace is set by the segments of now at once (`tcp_sync_mss`): larger ones, or smaller where a child, whose segments
        // are as large as its route's until something tells their size anew, probed for less.
        let mss = (u32::from(e.flight.mss) + u32::from(size)).saturating_sub(u32::from(before));
        e.flight.mss = u16::try_from(mss).unwrap_or(u16::MAX);
        e.cx.count.tcp_ext.tcp_mtup_success += 1;
        self.recovery.undo.prior_ssthresh = self.recovery.current_ssthresh(e.path);
        let cwnd = u64::from(e.path.window.cwnd) * u64::from(before) / u64::from(size.max(1));
        e.path.window.reset_cwnd(e.cx, u32::try_from(cwnd).unwrap_or(u32::MAX).max(1));
        e.path.window.cwnd_cnt = 0;
        let ssthresh = self.recovery.current_ssthresh(e.path);
        e.path.window.set_ssthresh(e.cx, ssthresh);
    }

    fn acknowledged(&mut self, cleaned: &mut Cleaned, reord: &mut u64, record: super::tx_queue::Acked) {
        let resent = record.has(flag::RETRANS | flag::EVER_RETRANS);
        let sacked = record.has(flag::SACKED);
        if resent {
            self.ack.facts |= fact::RETRANS_DATA_ACKED;
        } else if !sacked {
            let first = cleaned.sent_at.map_or(record.sent_at, |(first, _)| first);
            cleaned.sent_at = Some((first, record.sent_at));
            *reord = (*reord).min(record.start);
            if record.end <= self.recovery.high_seq {
                self.ack.facts |= fact::ORIG_SACK_ACKED;
            }
        }
        if !sacked {
            self.ack.delivered_bytes += record.end.min(self.ack.ack).saturating_sub(record.start) as u32;
            if self.e.flight.sack_ok {
                self.ack.delivered += u32::from(record.segs);
                // The echo tells originals at the left edge only: what is sacked is acknowledged with an older one
                // (RFC 7323 section 4.3, `tcp_skb_spurious_retrans`).
                if !(resent && self.ack.echoes_before(record.sent_at)) {
                    let (path, left) = (&*self.e.path, record.departure());
                    self.recovery.rack.advance(path, &self.ack, record.flags, record.end, left);
                }
            }
            let mut stamp = record.stamp;
            self.e.path.rate.on_delivered(&mut self.ack.sampler, &mut stamp, record.sent_at, resent);
        }
        self.note_taken(record.end);
        cleaned.acked += u32::from(record.segs);
        cleaned.whole = record.end <= self.ack.ack;
        if record.has(flag::SYN) {
            self.ack.facts |= fact::SYN_ACKED;
            self.out.syn_acked = true;
            self.recovery.undo.stamp = None;
        } else {
            self.ack.facts |= fact::DATA_ACKED;
        }
        if record.has(flag::FIN) && record.end <= self.ack.ack {
            self.out.fin_acked = true;
        }
    }

    /// What was delivered up to the record that is taken here, for who asks (`tcp_ack_tstamp`).
    fn note_taken(&mut self, end: u64) {
        let marked = if self.ack.has(fact::ECE) { self.ack.delivered } else { 0 };
        let Env { path, flight, .. } = &mut self.e;
        if let Some(moments) = flight.tx.moments() {
            moments.take(Taken {
                end: end.min(self.ack.ack),
                delivered: path.rate.delivered().wrapping_add(self.ack.delivered),
                delivered_ce: path.rate.delivered_ce().wrapping_add(marked),
                dsack_dups: self.recovery.undo.dsack_dups,
                reordering: self.recovery.reorder.degree,
                reord_seen: self.recovery.reorder.seen,
            });
        }
    }

    /// RTT samples: by sequence number first, then by SACK, then by timestamp (`tcp_ack_update_rtt`); never from what was
    /// retransmitted (Karn), and up to the packet's arrival.
    fn take_rtt(&mut self, cleaned: &mut Cleaned) {
        let at = self.ack.at;
        if let Some((first, last)) = cleaned.sent_at.filter(|_| !self.ack.has(fact::RETRANS_DATA_ACKED)) {
            cleaned.rtt = Some(at.since(first));
            cleaned.last_rtt = Some(at.since(last));
        }
        if let Some((first, last)) = self.ack.sacked_at {
            cleaned.rtt = cleaned.rtt.or(Some(at.since(first)));
            cleaned.last_rtt = Some(at.since(last));
        }
        if cleaned.rtt.is_none()
            && self.ack.has(fact::ACKED)
            && let Some(echo) = self.ack.tsecr
        {
            let ms = (at.as_millis() as u32).wrapping_sub(echo);
            if ms < i32::MAX as u32 / 1_000 {
                cleaned.rtt = Some(Duration::from_millis(u64::from(ms.max(1))));
                cleaned.last_rtt = cleaned.rtt;
            }
        }
        let Some(rtt) = cleaned.rtt else { return };
        let (una, nxt) = (self.e.flight.tx.una(), self.e.flight.tx.nxt());
        let least = cleaned.last_rtt.unwrap_or(rtt);
        // A delay of the peer's is no round trip, and the old least one stays until a better comes (`tcp_update_rtt_min`).
        if !(cleaned.delayed && self.e.path.rtt.min_rtt().is_some_and(|min| least > min)) {
            self.e.path.rtt.sample_min(self.e.cx, least);
        }
        self.e.path.rtt.sample(self.e.cx, rtt, una, nxt);
        self.out.rtt_sampled = true;
    }

    /// What the removal told the controller, which hears of it before the machine moves: the window that HyStart sees is still that of
    /// a recovery that this acknowledgement may undo (`pkts_acked` at the end of `tcp_clean_rtx_queue`).
    fn told(&mut self, cleaned: &Cleaned, prior_in_flight: u32) -> AckSample {
        let mut sample = AckSample {
            delivered: self.ack.delivered,
            acked: cleaned.acked,
            prior_in_flight,
            delayed: cleaned.delayed,
            rtt: cleaned.last_rtt,
            state: self.recovery.ca,
            una: self.e.flight.tx.una(),
            cwnd_limited: self.usage.is_limited(self.e.path),
            paced: self.e.path.pacing.is_paced(),
            burst_delay: self.e.path.pacing.burst_delay(GSO_MAX_SIZE as u32),
            ..AckSample::default()
        };
        if sample.rtt.is_some() || sample.acked > 0 {
            let e = &mut self.e;
            sample.flow = e.flow();
            e.path.congestion.on_ack(e.cx, &mut e.path.window, &sample);
        }
        sample
    }

    fn sample_rate(&mut self, sample: &mut AckSample, reneged: bool) {
        sample.cwnd_limited = self.usage.is_limited(self.e.path);
        self.count_segments(sample.delivered);
        let e = &mut self.e;
        let min_rtt = e.path.rtt.min_rtt();
        sample.sampled = self.ack.sampler.prior_delivered().is_some() && !reneged;
        sample.rate = e.path.rate.on_ack(self.ack.at, sample.delivered, &self.ack.sampler, min_rtt, reneged);
        sample.flow = e.flow();
        sample.conserved = sample.flow.in_flight.saturating_add(sample.delivered);
    }

    /// Moves the window (`tcp_cong_control`).
    fn control(&mut self, sample: &AckSample) {
        if self.e.path.congestion.wishes().governs {
            return self.be_governed(sample);
        }
        if self.recovery.in_reduction() {
            self.recovery.reduce(&mut self.e, sample.delivered, sample.lost, Some(&self.ack));
        } else if self.may_raise() {
            let e = &mut self.e;
            if sample.cwnd_limited {
                // Growth follows what was delivered, by SACK too, so that a hole's repair is not counted twice.
                let sample = AckSample { acked: sample.delivered, ..*sample };
                e.path.congestion.cong_avoid(e.cx, &mut e.path.window, &sample);
            }
            // Progress proves the window even where it does not grow (`tcp_cong_avoid`).
            e.path.window.stamp = e.cx.now;
        }
        let (mss, out) = (self.e.flight.mss, self.e.flight.packets_out);
        self.e.path.update_pacing_rate(self.e.cx, mss, out);
    }

    /// A lone short segment was all that was in flight, or the rest of one: the peer may have waited for a second one, whether or not it
    /// echoes congestion. Without SACK what this acknowledgement delivers is not counted yet (`FLAG_ACK_MAYBE_DELAYED`).
    fn maybe_delayed(&self, cleaned: &Cleaned) -> bool {
        let delivered = self.e.path.rate.delivered().wrapping_add(self.ack.delivered);
        cleaned.whole
            && cleaned.acked == 1
            && self.out.advanced < self.e.flight.mss.into()
            && !self.ack.has(fact::RETRANS_DATA_ACKED)
            && self.ack.sampler.prior_delivered().is_some_and(|prior| prior.wrapping_add(1) == delivered)
            && !self.ack.has(fact::SYN_ACKED)
    }

    /// The controller moves the window and sets the pace in every state.
    fn be_governed(&mut self, sample: &AckSample) {
        let e = &mut self.e;
        e.path.congestion.cong_avoid(e.cx, &mut e.path.window, sample);
        let wishes = e.path.congestion.wishes();
        if wishes.app_limited {
            e.path.rate.mark_app_limited(e.flight.in_flight());
        }
        if let Some(rate) = wishes.pacing_rate {
            e.path.pacing.set_rate(rate);
        }
    }

    /// With much reordering any progress may open the window, else only cumulative progress (`tcp_may_raise_cwnd`).
    fn may_raise(&self) -> bool {
        if self.recovery.reorder.degree > self.e.cx.sysctl.tcp_reordering {
            self.ack.has(fact::FORWARD_PROGRESS)
        } else {
            self.ack.has(fact::DATA_ACKED)
        }
    }
}
