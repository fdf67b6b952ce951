//! Whom an option is about. Each option of RFC 6458 that may differ between associations names one, or those to come
//! (SCTP_FUTURE_ASSOC), those that there are (SCTP_CURRENT_ASSOC), or both (SCTP_ALL_ASSOC; section 7.2).
use crate::abi::{SCTP_ALL_ASSOC, SCTP_CURRENT_ASSOC, SCTP_FUTURE_ASSOC};
use crate::call::Fd;
use crate::errno::Errno;
use crate::host::Host;
use crate::sctp::Manner;
use core::net::SocketAddr;
use lowwater_core::base::SocketId;
use lowwater_core::sctp::{PathInfo, SctpOptions};

/// Associations to come, some that there are, or both.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) future: bool,
    pub(super) of: Vec<SocketId>,
}

impl Scope {
    /// Associations to come alone.
    pub(super) const FUTURE: Self = Self { future: true, of: Vec::new() };

    /// The association that it names, if it is one.
    pub(super) fn one(&self) -> Option<SocketId> {
        self.of.first().copied()
    }
}

impl Host {
    /// Everything of a socket, for options that know no identifier.
    pub(super) fn sctp_everywhere(&self, fd: Fd) -> Scope {
        Scope { future: true, of: self.assocs_of(fd) }
    }

    /// What an identifier names: of a one-to-one socket all that it has, whatever the number.
    ///
    /// # Errors
    /// EINVAL for an unknown one, and for several where the option is about one (`several` is false).
    pub(super) fn sctp_scope(&mut self, fd: Fd, assoc: u32, several: bool) -> Result<Scope, Errno> {
        if !self.sctp(fd)?.style.is_many() {
            return Ok(self.sctp_everywhere(fd));
        }
        match i32::try_from(assoc) {
            Ok(SCTP_FUTURE_ASSOC) => Ok(Scope::FUTURE),
            Ok(SCTP_CURRENT_ASSOC) if several => Ok(Scope { future: false, of: self.assocs_of(fd) }),
            Ok(SCTP_ALL_ASSOC) if several => Ok(self.sctp_everywhere(fd)),
            _ => Ok(Scope { future: false, of: vec![self.sctp_named(fd, assoc)?] }),
        }
    }

    /// The options that hold there.
    pub(super) fn sctp_live(&self, fd: Fd, scope: &Scope) -> Result<SctpOptions, Errno> {
        match scope.one() {
            Some(id) => Ok(self.stack.sctp_options(id)?.clone()),
            None => self.sctp_options(fd),
        }
    }

    /// Changes the options of these associations; associations to come have theirs from the socket and its listener.
    pub(super) fn sctp_change(
        &mut self,
        fd: Fd,
        scope: &Scope,
        change: impl Fn(&mut SctpOptions),
    ) -> Result<(), Errno> {
        let mut ids = scope.of.clone();
        if scope.future {
            change(&mut self.sctp_mut(fd)?.options);
            ids.extend(self.files.sock(fd)?.kind.listener());
        }
        for id in ids {
            let mut options = self.stack.sctp_options(id)?.clone();
            change(&mut options);
            self.stack.sctp_set_options(self.now, id, options)?;
            self.sctp_touch(fd, id);
        }
        Ok(())
    }

    /// What these associations do with messages and notifications.
    pub(super) fn sctp_manner(&self, fd: Fd, scope: &Scope) -> Result<Manner, Errno> {
        let sctp = self.sctp(fd)?;
        Ok(scope.one().map_or(sctp.manner, |id| sctp.manner_of(id)))
    }

    /// Changes that.
    pub(super) fn sctp_change_manner(
        &mut self,
        fd: Fd,
        scope: &Scope,
        change: impl Fn(&mut Manner),
    ) -> Result<(), Errno> {
        let sctp = self.sctp_mut(fd)?;
        if scope.future {
            change(&mut sctp.manner);
        }
        for id in &scope.of {
            sctp.members.manner_mut(*id).into_iter().for_each(&change);
        }
        Ok(())
    }

    /// The path to this address of a peer's, and whose it is. An identifier that names an association must name that one
    /// (`sctp_addr_id2transport`).
    ///
    /// # Errors
    /// EINVAL when no association has it.
    pub(super) fn sctp_path(
        &mut self,
        fd: Fd,
        assoc: u32,
        to: SocketAddr,
    ) -> Result<(SocketId, PathInfo), Errno> {
        let id = self.sctp_with(fd, to).ok_or(Errno::EINVAL)?;
        if self.sctp_named(fd, assoc).is_ok_and(|named| named != id) {
            return Err(Errno::EINVAL);
        }
        let paths = self.stack.sctp_info(id)?.paths;
        let path = paths.into_iter().find(|path| path.remote == to.ip()).ok_or(Errno::EINVAL)?;
        Ok((id, path))
    }
}
