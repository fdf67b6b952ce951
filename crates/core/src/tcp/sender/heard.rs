//! What an acknowledgement told the sender, and what it changed.
use super::Sender;
use crate::base::{Cx, Instant};
use crate::path::Path;
use crate::path::rate::Sampler;
use crate::tcp::accecn::Feedback;
use crate::tcp::ack::Work;
use crate::tcp::recovery::{Ack, Env, Offered, fact};
use crate::tcp::seq::Seq;
use smallvec::SmallVec;

/// Most SACK blocks that one segment's options hold.
pub const SACK_BLOCKS_MAX: usize = 4;

/// What an acceptable segment with ACK told, as far as sending is concerned.
#[derive(Clone, Copy, Debug)]
pub struct AckIn<'a> {
    /// SEG.ACK; the caller has checked that it is not above `snd_nxt` and not too old (RFC 5961 section 5).
    pub ack: Seq,
    /// SACK blocks in the order of the option.
    pub sack: &'a [(Seq, Seq)],
    /// TSecr without the connection's offset, that is in milliseconds of the stack's clock modulo 2^32; `None` without the
    /// option or when it is 0.
    pub tsecr: Option<u32>,
    /// When the packet reached this host.
    pub at: Instant,
    /// The segment carries data, SYN or FIN.
    pub has_data: bool,
    /// It changed the peer's window.
    pub window_taken: bool,
    /// It carries ECE and classic ECN is in use.
    pub ece: bool,
    /// The connection was accepted with its SYN, and its SYN-ACK was not acknowledged before (`fastopen_rsk`).
    pub child: bool,
    /// It acknowledges a SYN that has crossed the peer's.
    pub crossed: bool,
    /// End of the peer's window after this segment (`tcp_wnd_end`).
    pub wnd_end: Seq,
}

/// What the caller should send after an acknowledgement, beside what `peek_unsent` allows in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Rexmit {
    /// Nothing in particular.
    #[default]
    None,
    /// Ask [`Sender::next_lost`].
    Lost,
    /// F-RTO: try new data first, with Nagle off; then call [`Sender::frto_sent`] and ask [`Sender::next_lost`] if it
    /// says so.
    New,
}

/// What an acknowledgement changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AckOut {
    /// `snd.una` moved by this much sequence space.
    pub advanced: u64,
    /// Payload bytes newly acknowledged.
    pub acked_bytes: u64,
    /// Our SYN is acknowledged by this segment.
    pub syn_acked: bool,
    /// Our FIN is acknowledged by this segment.
    pub fin_acked: bool,
    /// An RTT sample was taken.
    pub rtt_sampled: bool,
    /// Data was acknowledged, cumulatively or selectively: the path is alive (`FLAG_FORWARD_PROGRESS`).
    pub progress: bool,
    /// Nothing was in flight before: only the window can have changed (`tcp_ack_probe`).
    pub was_idle: bool,
    /// What to send now.
    pub rexmit: Rexmit,
    /// Marks of the peer's segments have waited for too long to be told of.
    pub overdue: bool,
}

impl Sender {
    /// An acknowledgement (`tcp_ack`).
    pub fn on_ack(&mut self, cx: &mut Cx<'_>, path: &mut Path, input: &AckIn<'_>) -> AckOut {
        self.on_ack_with(cx, path, None, input)
    }

    /// The same with what it tells of marks where ECN is accurate.
    pub(in crate::tcp) fn on_ack_with(
        &mut self,
        cx: &mut Cx<'_>,
        path: &mut Path,
        accurate: Option<Feedback<'_>>,
        input: &AckIn<'_>,
    ) -> AckOut {
        let ack = self.ack_of(input);
        let mut blocks: SmallVec<[(u64, u64); SACK_BLOCKS_MAX]> = SmallVec::new();
        if self.flight.sack_ok {
            let base = input.sack.iter().take(SACK_BLOCKS_MAX);
            blocks.extend(base.map(|&(s, t)| (self.offset(s), self.offset(t))));
        }
        let mut work = Work {
            e: Env { cx, path, flight: &mut self.flight, timer: &mut self.timer },
            recovery: &mut self.recovery,
            usage: &self.usage,
            ack,
            accurate,
            marked: 0,
            out: AckOut::default(),
        };
        work.run(&blocks);
        work.out
    }

    pub(super) fn ack_of(&self, input: &AckIn<'_>) -> Ack {
        let mut facts = 0;
        let told = [
            (input.has_data, fact::DATA),
            (input.window_taken, fact::WIN_UPDATE),
            (input.ece, fact::ECE),
            (input.child, fact::CHILD),
            (input.crossed, fact::CROSSED),
        ];
        for (on, bit) in told {
            if on {
                facts |= bit;
            }
        }
        Ack {
            facts,
            ack: self.offset(input.ack).min(self.flight.tx.nxt()),
            prior_una: self.flight.tx.una(),
            at: input.at,
            tsecr: input.tsecr,
            delivered: 0,
            delivered_bytes: 0,
            reord: u64::MAX,
            sampler: Sampler::default(),
            sacked_at: None,
            first_len: input.sack.first().map_or(0, |&(s, t)| if s.before(t) { t.since(s) } else { 0 }),
            window: Offered { largest: self.max_window, end: self.offset(input.wnd_end) },
        }
    }
}
