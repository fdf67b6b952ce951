//! Control chunks that wait to be sent: at most one of each kind, and short bounded lists of answers.
use super::paths::PathId;
use crate::base::limits::SCTP_REPLIES_MAX;
use bytes::Bytes;
use std::collections::VecDeque;

/// What waits.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    bits: u16,
    /// Where the packet came from that is answered: answers go there (section 6.4).
    pub(crate) reply_path: PathId,
    /// Where SHUTDOWN or SHUTDOWN ACK went last.
    pub(crate) shutdown_path: PathId,
    /// The content of HEARTBEATs, to be sent back.
    pub(crate) echoes: VecDeque<(PathId, Bytes)>,
    /// Causes of ERRORs.
    pub(crate) errors: VecDeque<Bytes>,
    /// Causes of the ABORT that ends the association.
    pub(crate) abort: Option<Bytes>,
}

impl Pending {
    /// INIT.
    pub(crate) const INIT: u16 = 1;
    /// COOKIE ECHO.
    pub(crate) const COOKIE_ECHO: u16 = 2;
    /// COOKIE ACK.
    pub(crate) const COOKIE_ACK: u16 = 4;
    /// SHUTDOWN.
    pub(crate) const SHUTDOWN: u16 = 8;
    /// SHUTDOWN ACK.
    pub(crate) const SHUTDOWN_ACK: u16 = 16;
    /// SHUTDOWN COMPLETE.
    pub(crate) const SHUTDOWN_COMPLETE: u16 = 32;
    /// SHUTDOWN ACK goes before the ERRORs: a peer that has started anew reads no further (section 8.5.1 E).
    pub(crate) const ACK_BEFORE_ERROR: u16 = 64;
    /// FORWARD TSN.
    pub(crate) const FORWARD_TSN: u16 = 128;
    /// CWR.
    pub(crate) const CWR: u16 = 256;

    /// One of these waits.
    pub(crate) const fn set(&mut self, bit: u16) {
        self.bits |= bit;
    }

    /// It waits no longer.
    pub(crate) const fn clear(&mut self, bit: u16) {
        self.bits &= !bit;
    }

    /// One of these waits.
    #[must_use]
    pub(crate) const fn has(&self, bit: u16) -> bool {
        self.bits & bit != 0
    }

    /// Nothing waits.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.bits == 0 && self.echoes.is_empty() && self.errors.is_empty() && self.abort.is_none()
    }

    /// A HEARTBEAT is to be answered; beyond the bound the peer will ask again.
    pub(crate) fn echo(&mut self, path: PathId, info: Bytes) {
        if self.echoes.len() < SCTP_REPLIES_MAX {
            self.echoes.push_back((path, info));
        }
    }

    /// An ERROR is to be sent; beyond the bound it is not.
    pub(crate) fn error(&mut self, causes: Bytes) {
        if self.errors.len() < SCTP_REPLIES_MAX {
            self.errors.push_back(causes);
        }
    }

    /// Nothing waits any more.
    pub(crate) fn clear_all(&mut self) {
        *self = Self { reply_path: self.reply_path, ..Self::default() };
    }

    /// The end: nothing but this ABORT is to be said.
    pub(crate) fn abort_with(&mut self, causes: Bytes) {
        *self = Self { abort: Some(causes), reply_path: self.reply_path, ..Self::default() };
    }

    /// The end: nothing but SHUTDOWN COMPLETE is to be said.
    pub(crate) fn complete(&mut self) {
        *self = Self { bits: Self::SHUTDOWN_COMPLETE, reply_path: self.reply_path, ..Self::default() };
    }
}
