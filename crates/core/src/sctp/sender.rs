//! The sending half of an association: what waits, what is out, what the peer has room for.
use super::options::SctpOptions;
use super::outstanding::Outstanding;
use super::partial_reliability::Limits;
use super::stream::send::SendQueue;
use super::stream::unsent::Unsent;
use super::tsn::Tsn;
use crate::base::limits::SCTP_CHUNK_OVERHEAD;
use crate::base::{Instant, Sysctl, Wait};

/// What is known of a chunk that was sent though the peer's window is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// There is none.
    None,
    /// It is out.
    Out,
    /// A SACK has come since that left the window closed: the peer lives, and nothing was lost by the path.
    Answered,
}

/// What is known of a window that the peer has closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClosedWindow {
    /// The peer's last SACK said that it is, or that the chunk which is out does not fit it.
    pub(crate) shut: bool,
    /// The one chunk that probes it (section 6.1 A).
    pub(crate) probe: Probe,
}

/// The sending half.
#[derive(Debug)]
pub(crate) struct Sender {
    /// Messages that wait.
    pub(crate) queue: SendQueue,
    /// Chunks that were sent.
    pub(crate) out: Outstanding,
    /// What the peer has room for beyond what is in flight.
    pub(crate) peer_rwnd: u32,
    /// Streams that we may send on.
    pub(crate) streams: u16,
    /// One packet of retransmissions may leave whatever the window says (section 7.2.4, rule 3).
    pub(crate) fast: bool,
    /// What was out when an echo of a router's mark last slowed us down.
    pub(crate) reduced_at: Tsn,
    /// What limits messages that were sent.
    pub(crate) limits: Limits,
    /// Packets that may still leave at this opportunity; `None` before it was looked at.
    pub(crate) burst: Option<u32>,
    /// The window that the peer has closed.
    pub(crate) closed: ClosedWindow,
    /// Why nothing was sent in the last turn; until when, if a time decides.
    pub(crate) hold: (Wait, Option<Instant>),
    /// A writer has seen "full".
    writer_waits: bool,
}

impl Sender {
    /// Nothing sent; the first TSN will be `initial`.
    #[must_use]
    pub(crate) fn new(initial: Tsn, streams: u16) -> Self {
        Self {
            queue: SendQueue::default(),
            out: Outstanding::new(initial),
            peer_rwnd: 0,
            streams,
            fast: false,
            reduced_at: initial.prev(),
            limits: Limits::default(),
            burst: None,
            closed: ClosedWindow { shut: false, probe: Probe::None },
            hold: (Wait::Empty, None),
            writer_waits: false,
        }
    }

    /// Everything was sent and acknowledged.
    #[must_use]
    pub(crate) fn is_dry(&self) -> bool {
        self.queue.is_empty() && self.out.is_empty()
    }

    /// Bytes that count for the send buffer.
    #[must_use]
    pub(crate) const fn bytes(&self) -> usize {
        self.queue.bytes() + self.out.bytes()
    }

    /// What all of it costs: messages of one byte are not for nothing (Linux `sctp_set_owner_w` charges the chunk and its buffer).
    #[must_use]
    pub(crate) fn charge(&self) -> usize {
        self.bytes() + (self.queue.len() + self.out.len()) * SCTP_CHUNK_OVERHEAD
    }

    /// A message may be queued: a byte of the buffer of `sndbuf` bytes is free, and less is unsent than the low-water mark.
    pub(crate) fn admits(&mut self, options: &SctpOptions, sndbuf: u32) -> bool {
        let room = self.charge() < sndbuf as usize;
        let unsent = self.queue.is_small(options.unsent_mark());
        self.writer_waits |= !(room && unsent);
        room && unsent
    }

    /// Writable by the half rule: half of the buffer is free, and less than half of the low-water mark unsent. A writer who sees
    /// "no" will be told.
    pub(crate) fn poll_writable(&mut self, options: &SctpOptions, sndbuf: u32, sysctl: &Sysctl) -> bool {
        let writable = self.writable(options, sndbuf, sysctl);
        self.writer_waits |= !writable;
        writable
    }

    /// What the streams say to their low-water mark.
    pub(crate) fn streams(&mut self, options: &SctpOptions, sysctl: &Sysctl) -> &mut Unsent {
        self.queue.streams(options.stream_mark(), u32::from(sysctl.notsent_lowat_half))
    }

    /// Who asks hears that there is room for another message of `stream`. Nobody is told later because of this question.
    pub(crate) fn invites(
        &mut self,
        options: &SctpOptions,
        sndbuf: u32,
        sysctl: &Sysctl,
        stream: u16,
    ) -> bool {
        self.writable(options, sndbuf, sysctl) && self.streams(options, sysctl).is_writable(stream)
    }

    fn writable(&self, options: &SctpOptions, sndbuf: u32, sysctl: &Sysctl) -> bool {
        let shift = u32::from(sysctl.notsent_lowat_half);
        let unsent = self.queue.bytes() as u64;
        let mark = options.unsent_mark();
        2 * self.charge() as u64 <= u64::from(sndbuf)
            && (mark == u32::MAX || unsent << shift < u64::from(mark))
    }

    /// A writer that had seen "full" may go on; true once.
    pub(crate) fn take_writable_edge(&mut self, options: &SctpOptions, sndbuf: u32, sysctl: &Sysctl) -> bool {
        let edge = self.writer_waits && self.writable(options, sndbuf, sysctl);
        self.writer_waits &= !edge;
        edge | self.queue.take_freed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Instant;
    use crate::sctp::message::SendInfo;
    use bytes::Bytes;

    /// More than any of these need.
    const BUF: u32 = 1 << 20;

    #[test]
    fn the_low_water_mark_counts_what_is_unsent_and_wakes_under_its_half() {
        let sysctl = Sysctl::default();
        let options = SctpOptions { notsent_lowat: 1_000, ..SctpOptions::new(&sysctl) };
        let mut tx = Sender::new(Tsn::initial(1), 10);
        assert!(tx.admits(&options, BUF) && tx.poll_writable(&options, BUF, &sysctl));
        tx.queue.push(Bytes::from_static(&[0; 1_000]), SendInfo::default(), Instant::ZERO);
        assert!(!tx.admits(&options, BUF));
        assert!(tx.queue.take(500).is_some());
        assert!(!tx.take_writable_edge(&options, BUF, &sysctl));
        assert!(tx.admits(&options, BUF));
        assert!(tx.queue.take(1).is_some());
        assert!(tx.take_writable_edge(&options, BUF, &sysctl));
        assert!(!tx.take_writable_edge(&options, BUF, &sysctl));
    }

    /// As TCP's: 0 is the default, which is no limit here.
    #[test]
    fn a_mark_of_zero_is_none_and_of_one_a_message_at_a_time() {
        let sysctl = Sysctl::default();
        let plain = SctpOptions::new(&sysctl);
        for (mark, takes) in [(0, true), (u32::MAX, true), (1, false)] {
            let options = SctpOptions { notsent_lowat: mark, ..plain.clone() };
            let by_stream = SctpOptions { stream_lowat: mark, ..plain.clone() };
            let mut tx = Sender::new(Tsn::initial(1), 10);
            assert!(tx.admits(&options, BUF) && tx.invites(&by_stream, BUF, &sysctl, 0), "{mark}: empty");
            tx.queue.push(Bytes::from_static(&[0; 9]), SendInfo::default(), Instant::ZERO);
            assert_eq!(tx.admits(&options, BUF), takes, "{mark}");
            assert_eq!(tx.poll_writable(&options, BUF, &sysctl), takes, "{mark}");
            assert_eq!(tx.invites(&by_stream, BUF, &sysctl, 0), takes, "{mark} of a stream");
        }
    }
}
