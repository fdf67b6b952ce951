//! How far the stream has got on its way to the peer, for who tells the application of each step (MSG_ZEROCOPY, SO_TIMESTAMPING).
use super::conn::Conn;
use super::seq::Seq;
use crate::base::time::Instant;
use crate::ranges::RangeSet;
use bytes::Bytes;

/// Places in the stream that was written: the SYN is at 0, the first byte at 1, as in the send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Everything before it is acknowledged.
    pub una: u64,
    /// Everything before it was handed down at least once.
    pub nxt: u64,
    /// End of what was written.
    pub end: u64,
    /// Sequence number of place 0.
    pub isn: Seq,
}

/// A piece of the stream that Linux has in one buffer: an element that waits, or one that is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// Where the buffer ends that it is a part of since both were sacked (`tcp_shift_skb_data`).
    pub joined_end: u64,
    /// When it was handed down last; `None` while it waits.
    pub sent_at: Option<Instant>,
    /// Its bytes, of what is on its way.
    pub payload: Bytes,
}

impl Conn {
    /// How far the stream is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let queue = self.tx.queue_ref();
        Progress { una: queue.una(), nxt: queue.nxt(), end: queue.write_seq(), isn: self.tx.seq(0) }
    }

    /// Where pieces have become others since the last call: handed down, again too, cut, joined. `None` for the first time, when all of
    /// them may have.
    pub fn take_changed(&mut self) -> Option<RangeSet> {
        self.tx.queue().take_changed()
    }

    /// Somebody asks for what changes.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        self.tx.queue_ref().is_followed()
    }

    /// Nobody asks any more.
    pub fn forget_changed(&mut self) {
        self.tx.queue().forget_changed();
    }

    /// When data came in last.
    #[must_use]
    pub const fn last_data_at(&self) -> Instant {
        self.rx.ack.last_data_at()
    }

    /// The piece that holds what is at `place`; `None` where nothing is there any more, or nothing yet.
    #[must_use]
    pub fn piece(&self, place: u64) -> Option<Piece> {
        let queue = self.tx.queue_ref();
        if let Some((start, end)) = queue.unsent.piece(place) {
            return Some(Piece { start, end, joined_end: end, sent_at: None, payload: Bytes::new() });
        }
        let (start, sent) = queue.covering(place)?;
        let end = start + sent.span();
        let joined_end = self.tx.flight().buffer_at(place).map_or(end, |buffer| buffer.end);
        Some(Piece { start, end, joined_end, sent_at: Some(sent.sent_at), payload: sent.payload.clone() })
    }
}
