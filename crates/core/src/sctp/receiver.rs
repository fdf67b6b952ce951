//! The receiving half of an association: what has come, what is told about it, how much more fits.
use super::ack_policy::AckPolicy;
use super::options::SctpOptions;
use super::paths::PathId;
use super::stream::recv::RecvStreams;
use super::tsn::Tsn;
use super::tsn_map::TsnMap;
use crate::base::Sysctl;
use std::collections::BTreeMap;

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// Which TSNs have come.
    pub(crate) map: TsnMap,
    /// When that is told.
    pub(crate) ack: AckPolicy,
    /// What came in them.
    pub(crate) streams: RecvStreams,
    /// Streams that the peer may send on.
    pub(crate) inbound: u16,
    /// What is left of the window that the last SACK offered, as the peer must see it.
    pub(crate) advertised: u32,
    /// Where DATA came from last: a SACK goes there (section 6.4).
    pub(crate) path: PathId,
    /// The last TSN that a router has marked, until the peer answers that.
    pub(crate) marked: Option<Tsn>,
    /// The peer sends nothing more.
    pub(crate) ended: bool,
    /// What resets of streams have left behind.
    pub(crate) anew: Option<Box<Anew>>,
}

/// The last TSN of the old numbers of streams that have begun anew: of all of them, and of single ones since, which are as many as there are.
#[derive(Debug, Default)]
pub(crate) struct Anew {
    all: Option<Tsn>,
    streams: BTreeMap<u16, Tsn>,
}

impl Receiver {
    /// Nothing has come; the peer's first TSN will be `initial`.
    #[must_use]
    pub(crate) fn new(initial: Tsn, inbound: u16, options: &SctpOptions) -> Self {
        Self {
            map: TsnMap::new(initial),
            ack: AckPolicy::new(),
            streams: RecvStreams::default(),
            inbound,
            advertised: initial_window(options),
            path: 0,
            marked: None,
            ended: false,
            anew: None,
        }
    }

    /// These streams have begun anew behind this TSN, or all where none is named.
    pub(crate) fn begin_anew(&mut self, last: Tsn, streams: &[u16]) {
        let anew = self.anew.get_or_insert_default();
        if streams.is_empty() {
            **anew = Anew { all: Some(last), streams: BTreeMap::new() };
        }
        anew.streams.extend(streams.iter().map(|stream| (*stream, last)));
    }

    /// What the memory of such streams costs.
    pub(crate) fn anew_bytes(&self) -> usize {
        self.anew.as_ref().map_or(0, |anew| anew.streams.len() * ANEW_BYTES)
    }

    /// What was said of this stream when the TSN was no higher than `point` is about numbers that it has no more.
    pub(crate) fn is_of_old(&self, point: Tsn, stream: u16) -> bool {
        self.anew.as_deref().is_some_and(|anew| {
            let one = anew.streams.get(&stream).copied();
            one.max(anew.all).is_some_and(|last| point <= last)
        })
    }

    /// The window: half of the buffer less what waits, and nothing when what it costs fills the buffer.
    #[must_use]
    pub(crate) fn window(&self, options: &SctpOptions) -> u32 {
        let buffer = options.rcvbuf as usize;
        // What the streams cost stays for good: it never closes the window by itself.
        let streams = (self.streams.stream_bytes() + self.anew_bytes()).min(buffer / 2);
        if self.streams.charge() + streams >= buffer {
            return 0;
        }
        let held = u32::try_from(self.streams.bytes()).unwrap_or(u32::MAX);
        initial_window(options).saturating_sub(held)
    }

    /// What a SACK says: as wide as its own buffer, unless memory is exhausted, which leaves only `buffer` bytes.
    #[must_use]
    pub(crate) fn offer(&self, options: &SctpOptions, buffer: u32) -> u32 {
        let window = self.window(options);
        let charge = u32::try_from(self.streams.charge()).unwrap_or(u32::MAX);
        if buffer < options.rcvbuf { window.min(buffer.saturating_sub(charge)) } else { window }
    }

    /// User data came, out of the window that was offered.
    pub(crate) const fn on_data(&mut self, len: usize) {
        self.advertised = self.advertised.saturating_sub(len as u32);
    }

    /// The window has opened so far that the peer should hear of it (`sctp_peer_needs_update`, which counts from what the last SACK
    /// said). Where a packet is larger than half of the window, half of it is enough: the peer may have no room for another. A SACK
    /// would offer what `buffer` bytes have room for.
    #[must_use]
    pub(crate) fn window_has_opened(
        &self,
        options: &SctpOptions,
        buffer: u32,
        sysctl: &Sysctl,
        mtu: u16,
    ) -> bool {
        let opened = self.offer(options, buffer).saturating_sub(self.advertised);
        let share = buffer.checked_shr(sysctl.sctp_rwnd_update_shift).unwrap_or(0);
        opened > 0 && opened >= share.max(u32::from(mtu).min(initial_window(options) / 2))
    }
}

/// The window of a new association: half of the buffer, as in Linux, but never so little that the peer must not send.
#[must_use]
pub(crate) fn initial_window(options: &SctpOptions) -> u32 {
    (options.rcvbuf / 2).max(WINDOW_MIN)
}

/// A stream with its TSN in a map that was filled in order, whose leaves are half full: 6 entries in 120 bytes, and what stands above.
const ANEW_BYTES: usize = 24;

/// Least initial window (RFC 9260 section 3.3.2).
const WINDOW_MIN: u32 = 1_500;
