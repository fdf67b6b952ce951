//! What goes out, the first time or again, and how it is taken from the queue.
use super::{Attempt, Sender};
use crate::base::Instant;
use crate::tcp::seq::Seq;
use crate::tcp::tx_queue::flag;
use bytes::Bytes;
use core::fmt;

/// Something that goes out: the first time or again. The payload is shared with the queue.
#[derive(Clone)]
pub struct SendPlan {
    /// Sequence number of the first byte, or of the SYN.
    pub seq: Seq,
    /// Payload.
    pub payload: Bytes,
    /// SYN in front of it.
    pub syn: bool,
    /// PSH on the last segment.
    pub push: bool,
    /// FIN behind it.
    pub fin: bool,
    /// Segments.
    pub segs: u16,
    /// Payload bytes per segment when there are several.
    pub mss: u16,
    /// When the record was last sent: for telling whether it can still be below us.
    pub last_sent: Option<Instant>,
    /// When it leaves: now, or later where the queue below keeps the pace.
    pub departure: Instant,
    /// How to take it back; `None` for a SYN, which stays sent.
    pub attempt: Option<Attempt>,
}

/// Never the payload: it is the user's, and large.
impl fmt::Debug for SendPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (len, segs) = (self.payload.len(), self.segs);
        write!(f, "{:?}+{len}/{segs} syn {} push {} fin {}", self.seq, self.syn, self.push, self.fin)
    }
}

impl SendPlan {
    /// An empty segment.
    pub(super) const fn nothing(seq: Seq) -> Self {
        let payload = Bytes::new();
        Self {
            seq,
            payload,
            syn: false,
            push: false,
            fin: false,
            segs: 1,
            mss: 0,
            last_sent: None,
            departure: Instant::ZERO,
            attempt: None,
        }
    }
}

impl Sender {
    pub(super) fn plan(&self, start: u64, last_sent: Option<Instant>) -> Option<SendPlan> {
        let sent = self.flight.tx.get(start)?;
        Some(SendPlan {
            seq: self.seq(start),
            payload: sent.payload.clone(),
            syn: sent.has(flag::SYN),
            push: sent.has(flag::PUSH),
            fin: sent.has(flag::FIN),
            segs: sent.segs,
            mss: sent.mss,
            last_sent,
            departure: sent.sent_at,
            attempt: None,
        })
    }
}
