//! Control chunks that wait to be sent: at most one of each kind, and short bounded lists of answers.
use super::paths::PathId;
use super::reconfig::Reconf;
use crate::base::limits::SCTP_REPLIES_MAX;
use bytes::Bytes;
use smallvec::SmallVec;

/// What waits.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    bits: u16,
    /// Where the packet came from that is answered: answers go there (section 6.4).
    pub(crate) reply_path: PathId,
    /// Where SHUTDOWN or SHUTDOWN ACK went last.
    pub(crate) shutdown_path: PathId,
    /// What is longer than a bit; none where there is nothing, which is nearly always.
    long: Option<Box<Long>>,
    /// Requests of stream reconfiguration, where there ever was one.
    pub(crate) reconf: Option<Box<Reconf>>,
}

/// Chunks with something in them.
#[derive(Debug, Default)]
struct Long {
    /// The content of HEARTBEATs, to be sent back.
    echoes: SmallVec<[(PathId, Bytes); 1]>,
    /// Causes of ERRORs.
    errors: SmallVec<[Bytes; 1]>,
    /// Causes of the ABORT that ends the association.
    abort: Option<Bytes>,
}

impl Long {
    fn is_empty(&self) -> bool {
        self.echoes.is_empty() && self.errors.is_empty() && self.abort.is_none()
    }
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
    /// RE-CONFIG with our request.
    pub(crate) const RECONF: u16 = 512;
    /// RE-CONFIGs with answers.
    pub(crate) const RECONF_ANSWER: u16 = 1_024;

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
    pub(crate) const fn is_empty(&self) -> bool {
        self.bits == 0 && self.long.is_none()
    }

    /// Nothing waits that an association could still send which is over: FORWARD TSN goes while it is up only.
    #[must_use]
    pub(crate) const fn is_over(&self) -> bool {
        self.bits & !Self::FORWARD_TSN == 0 && self.long.is_none()
    }

    /// A HEARTBEAT is to be answered; beyond the bound the peer will ask again.
    pub(crate) fn echo(&mut self, path: PathId, info: Bytes) {
        let echoes = &mut self.long.get_or_insert_default().echoes;
        if echoes.len() < SCTP_REPLIES_MAX {
            echoes.push((path, info));
        }
    }

    /// The HEARTBEAT to be answered next, and its path.
    pub(crate) fn next_echo(&self) -> Option<&(PathId, Bytes)> {
        self.long.as_ref()?.echoes.first()
    }

    /// That was answered.
    pub(crate) fn pop_echo(&mut self) {
        self.change(|long| drop(long.echoes.remove(0)));
    }

    /// No HEARTBEAT is to be answered.
    pub(crate) fn forget_echoes(&mut self) {
        self.change(|long| long.echoes.clear());
    }

    /// An ERROR is to be sent; beyond the bound it is not.
    pub(crate) fn error(&mut self, causes: Bytes) {
        let errors = &mut self.long.get_or_insert_default().errors;
        if errors.len() < SCTP_REPLIES_MAX {
            errors.push(causes);
        }
    }

    /// The causes of the ERROR to be sent next.
    pub(crate) fn next_error(&self) -> Option<&Bytes> {
        self.long.as_ref()?.errors.first()
    }

    /// That was sent.
    pub(crate) fn pop_error(&mut self) {
        self.change(|long| drop(long.errors.remove(0)));
    }

    /// An ABORT waits.
    #[must_use]
    pub(crate) fn aborts(&self) -> bool {
        self.long.as_ref().is_some_and(|long| long.abort.is_some())
    }

    /// The causes of the ABORT, which goes now.
    pub(crate) fn take_abort(&mut self) -> Option<Bytes> {
        let causes = self.long.as_mut()?.abort.take();
        self.change(|_| ());
        causes
    }

    /// Changes what is there; nothing costs nothing.
    fn change(&mut self, change: impl FnOnce(&mut Long)) {
        let Some(long) = &mut self.long else { return };
        change(long);
        if long.is_empty() {
            self.long = None;
        }
    }

    /// Nothing waits any more.
    pub(crate) fn clear_all(&mut self) {
        *self = Self { reply_path: self.reply_path, ..Self::default() };
    }

    /// The end: nothing but this ABORT is to be said.
    pub(crate) fn abort_with(&mut self, causes: Bytes) {
        let long = Some(Box::new(Long { abort: Some(causes), ..Long::default() }));
        *self = Self { long, reply_path: self.reply_path, ..Self::default() };
    }

    /// The end: nothing but SHUTDOWN COMPLETE is to be said.
    pub(crate) fn complete(&mut self) {
        *self = Self { bits: Self::SHUTDOWN_COMPLETE, reply_path: self.reply_path, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_wait_in_order_and_cost_nothing_when_they_are_gone() {
        let mut pending = Pending::default();
        for n in 0..2 * SCTP_REPLIES_MAX as u8 {
            pending.echo(n, Bytes::new());
            pending.error(Bytes::copy_from_slice(&[n]));
        }
        assert!(!pending.is_empty() && !pending.aborts());
        for n in 0..SCTP_REPLIES_MAX as u8 {
            assert_eq!(pending.next_echo().map(|(path, _)| *path), Some(n));
            assert_eq!(pending.next_error().map(|causes| causes[0]), Some(n));
            pending.pop_echo();
            pending.pop_error();
        }
        assert!(pending.is_empty() && pending.long.is_none());
        pending.echo(1, Bytes::new());
        pending.forget_echoes();
        assert!(pending.long.is_none());
        pending.set(Pending::FORWARD_TSN);
        assert!(pending.is_over() && !pending.is_empty(), "an association that is over never sends it");
        pending.clear(Pending::FORWARD_TSN);
        pending.set(Pending::COOKIE_ACK);
        assert!(!pending.is_over());
        pending.clear(Pending::COOKIE_ACK);
        // An ABORT without causes is one.
        pending.error(Bytes::new());
        pending.abort_with(Bytes::new());
        assert!(pending.aborts() && pending.next_error().is_none());
        assert_eq!((pending.take_abort(), pending.is_empty()), (Some(Bytes::new()), true));
        assert_eq!(pending.take_abort(), None);
    }
}
