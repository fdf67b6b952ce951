//! What a connection was like amid a turn, for who tells the application of it with a time (SOF_TIMESTAMPING_OPT_STATS): Linux asks while it
//! takes a buffer off its queue (`tcp_ack_tstamp`), or while a packet leaves (`__skb_tstamp_tx`), and the turn goes on after that. Kept for
//! connections of which somebody asks.
use super::conn::Conn;
use super::info::TcpInfo;
use super::sender::SendPlan;
use crate::base::Cx;
use std::collections::VecDeque;

/// Acknowledgements whose beginnings are kept until somebody takes them, and records that they took or packets that left: what is older
/// is told as the oldest of these.
const ACKS_MAX: usize = 64;
const RECORDS_MAX: usize = 4_096;

/// Since somebody took them last.
#[derive(Debug, Default)]
pub struct Moments {
    /// What the connection was like when an acknowledgement came, and the end of what it covers.
    acks: VecDeque<(u64, TcpInfo)>,
    taken: VecDeque<Taken>,
    left: VecDeque<Left>,
}

/// A record, or the front of one, that an acknowledgement takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// Where what is taken ends.
    pub(super) end: u64,
    /// Segments delivered, with these.
    pub(super) delivered: u32,
    pub(super) delivered_ce: u32,
    /// What the SACK blocks before have told.
    pub(super) dsack_dups: u32,
    pub(super) reordering: u32,
    pub(super) reord_seen: u32,
}

/// A packet that is handed down.
#[derive(Clone, Copy, Debug)]
struct Left {
    start: u64,
    end: u64,
    /// With this one.
    data_segs_out: u32,
    bytes_sent: u64,
    total_retrans: u32,
    bytes_retrans: u64,
    /// This one among them, if it leaves for the first time (`tcp_event_new_data_sent` follows `tcp_transmit_skb`).
    notsent: u32,
}

impl Moments {
    fn begin_ack(&mut self, ack: u64, info: TcpInfo) {
        if self.acks.len() >= ACKS_MAX {
            self.acks.pop_front();
        }
        self.acks.push_back((ack, info));
    }

    pub(super) fn take(&mut self, taken: Taken) {
        if self.taken.len() >= RECORDS_MAX {
            self.taken.pop_front();
        }
        self.taken.push_back(taken);
    }

    fn leave(&mut self, left: Left) {
        if self.left.len() >= RECORDS_MAX {
            self.left.pop_front();
        }
        self.left.push_back(left);
    }

    /// What the connection was like when the record was acknowledged that holds what is at `place`, and up to where everything was by then.
    #[must_use]
    pub fn acknowledged(&self, place: u64) -> Option<(u64, TcpInfo)> {
        // Both are in order.
        let taken = self.taken.get(self.taken.partition_point(|taken| taken.end <= place))?;
        let (una, before) = self.acks.get(self.acks.partition_point(|(ack, _)| *ack < taken.end))?;
        let &Taken { delivered, delivered_ce, dsack_dups, reordering, reord_seen, .. } = taken;
        let info = TcpInfo {
            delivered,
            delivered_ce,
            dsack_dups,
            reordering,
            reord_seen,
            // What moves the left edge has ended them already (`tcp_ack`).
            retransmits: 0,
            ..before.clone()
        };
        Some((*una, info))
    }

    /// `now`, without what left after the last packet with what is at `place` was handed down, if one was.
    #[must_use]
    pub fn left(&self, place: u64, now: TcpInfo) -> TcpInfo {
        let holds = |left: &&Left| (left.start..left.end).contains(&place);
        let Some(&Left { data_segs_out, bytes_sent, total_retrans, bytes_retrans, notsent, .. }) =
            self.left.iter().rev().find(holds)
        else {
            return now;
        };
        TcpInfo { data_segs_out, bytes_sent, total_retrans, bytes_retrans, notsent_bytes: notsent, ..now }
    }
}

impl Conn {
    /// Somebody asks for [`Moments`], or nobody does any more.
    pub fn keep_moments(&mut self, keep: bool) {
        self.tx.queue().keep_moments(keep);
    }

    /// Those since the last call.
    pub fn take_moments(&mut self) -> Moments {
        self.tx.queue().moments().map(core::mem::take).unwrap_or_default()
    }

    /// An acknowledgement of everything before `ack` is looked at now.
    pub(super) fn note_ack(&mut self, cx: &Cx<'_>, ack: u64) {
        if ack > self.tx.una_offset() && self.tx.queue().moments().is_some() {
            let info = self.info(cx);
            if let Some(moments) = self.tx.queue().moments() {
                moments.begin_ack(ack, info);
            }
        }
    }

    /// A packet with data is handed down, and is counted.
    pub(super) fn note_left(&mut self, plan: &SendPlan) {
        let Some((start, new)) = plan.attempt.map(|attempt| (attempt.start(), attempt.errand.is_new()))
        else {
            return;
        };
        if self.tx.queue().moments().is_none() {
            return;
        }
        let span = plan.payload.len() as u64 + u64::from(plan.fin);
        let unsent = self.unsent_bytes() + if new { span } else { 0 };
        let stats = &self.rest.stats;
        let left = Left {
            start,
            end: start + span,
            data_segs_out: stats.data_segs_out,
            bytes_sent: stats.bytes_sent,
            total_retrans: self.tx.total_retrans(),
            bytes_retrans: stats.bytes_retrans,
            notsent: u32::try_from(unsent).unwrap_or(u32::MAX),
        };
        if let Some(moments) = self.tx.queue().moments() {
            moments.leave(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_takes_is_bounded_and_the_oldest_goes_first() {
        let mut moments = Moments::default();
        for n in 1..=2 * RECORDS_MAX as u32 {
            let end = u64::from(n) * 10;
            moments.begin_ack(end, TcpInfo { snd_cwnd: n, retransmits: 3, ..TcpInfo::default() });
            moments.take(Taken {
                end,
                delivered: n,
                delivered_ce: 1,
                dsack_dups: 2,
                reordering: 4,
                reord_seen: 5,
            });
            moments.leave(Left {
                start: end - 10,
                end,
                data_segs_out: n,
                bytes_sent: end,
                total_retrans: 6,
                bytes_retrans: 7,
                notsent: 8,
            });
        }
        let lens = (moments.acks.len(), moments.taken.len(), moments.left.len());
        assert_eq!(lens, (ACKS_MAX, RECORDS_MAX, RECORDS_MAX));
        let last = 20 * RECORDS_MAX as u64;
        let (una, told) = moments.acknowledged(last - 11).expect("the last but one");
        assert_eq!(una, last - 10);
        let n = 2 * RECORDS_MAX as u32 - 1;
        assert_eq!((told.snd_cwnd, told.delivered, told.retransmits), (n, n, 0));
        assert_eq!(moments.acknowledged(last), None, "nobody has acknowledged it");
        let now = TcpInfo { notsent_bytes: 99, snd_cwnd: 10, ..TcpInfo::default() };
        let told = moments.left(last - 11, now.clone());
        assert_eq!((told.data_segs_out, told.notsent_bytes, told.snd_cwnd), (n, 8, 10));
        assert_eq!(moments.left(0, now.clone()), now, "it has not left, or long ago");
    }

    #[test]
    fn each_acknowledgement_tells_what_was_before_it() {
        let mut moments = Moments::default();
        let taken = |end, delivered| Taken {
            end,
            delivered,
            delivered_ce: 0,
            dsack_dups: 0,
            reordering: 3,
            reord_seen: 0,
        };
        moments.begin_ack(21, TcpInfo { rtt: 100, ..TcpInfo::default() });
        moments.take(taken(11, 2));
        moments.take(taken(21, 3));
        moments.begin_ack(31, TcpInfo { rtt: 200, ..TcpInfo::default() });
        moments.take(taken(31, 4));
        let told = |place| moments.acknowledged(place).map(|(_, info)| (info.delivered, info.rtt));
        assert_eq!(
            [1, 10, 11, 20, 30].map(told),
            [(2, 100), (2, 100), (3, 100), (3, 100), (4, 200)].map(Some)
        );
    }
}
