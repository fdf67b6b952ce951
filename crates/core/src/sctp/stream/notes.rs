//! Notifications that wait to be read, as far as a peer may cause them as often as it likes: how many, what they cost, how many were too many.
use crate::base::limits::{SCTP_CHUNK_OVERHEAD, SCTP_NOTE_BYTES_MAX, SCTP_NOTES_MAX};
use crate::sctp::notification::{Notification, SendFailed, Subscriptions};

/// Counts of what waits, and of what found no room.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notes {
    /// How many wait to be read.
    waiting: u16,
    /// How many were too many.
    dropped: u16,
    /// Bytes of causes in those that wait.
    bytes: u32,
    /// What the messages cost that failed and whose notifications wait.
    failed: u32,
    /// How many of those found no room.
    failed_dropped: u32,
}

impl Notes {
    /// Room for one more, which is counted; else it is dropped. One that the peer cannot cause always has room.
    pub(super) fn admit(&mut self, note: &Notification) -> bool {
        if !is_of_peer(note) {
            return true;
        }
        let bytes = self.bytes.saturating_add(list_bytes(note));
        let long = bytes > SCTP_NOTE_BYTES_MAX && self.bytes > 0;
        if usize::from(self.waiting) >= SCTP_NOTES_MAX || long {
            self.dropped = self.dropped.saturating_add(1);
            return false;
        }
        (self.waiting, self.bytes) = (self.waiting + 1, bytes);
        true
    }

    /// Room for a message that failed, which is counted, unless those that wait cost `most` bytes.
    pub(super) fn admit_failed(&mut self, failed: &SendFailed, most: usize) -> bool {
        if self.failed as usize >= most {
            self.failed_dropped = self.failed_dropped.saturating_add(1);
            return false;
        }
        self.failed += charge(failed);
        true
    }

    /// One was read.
    pub(super) fn release(&mut self, note: &Notification) {
        self.waiting -= u16::from(is_of_peer(note));
        self.bytes -= list_bytes(note);
        if let Notification::SendFailed(failed) = note {
            self.failed -= charge(failed);
        }
    }

    /// How many were too many since the last call: of the peer's, and of messages that failed.
    pub(super) fn take_dropped(&mut self) -> (u64, u64) {
        (core::mem::take(&mut self.dropped).into(), core::mem::take(&mut self.failed_dropped).into())
    }

    /// What messages cost that failed, in bytes.
    pub(super) const fn failed_charge(&self) -> usize {
        self.failed as usize
    }

    /// Bytes of causes and lists that wait.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes as usize
    }
}

fn charge(failed: &SendFailed) -> u32 {
    (failed.data.len() + SCTP_CHUNK_OVERHEAD) as u32
}

/// Bytes of causes and lists.
fn list_bytes(note: &Notification) -> u32 {
    match note {
        Notification::RemoteError { causes, .. } => causes.len() as u32,
        Notification::StreamReset { streams, .. } => 2 * streams.len() as u32,
        _ => 0,
    }
}

/// ERROR chunks, paths that come and go, messages that end in their middle, adaptation layers, streams that begin anew.
const fn is_of_peer(note: &Notification) -> bool {
    let kinds = Subscriptions::REMOTE_ERROR.with(Subscriptions::PATH);
    let kinds = kinds.with(Subscriptions::PARTIAL_DELIVERY).with(Subscriptions::ADAPTATION);
    let reconf =
        Subscriptions::STREAM_RESET.with(Subscriptions::ASSOC_RESET).with(Subscriptions::STREAM_CHANGE);
    kinds.with(reconf).contains(note.kind())
}
