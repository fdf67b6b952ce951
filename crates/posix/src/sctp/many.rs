//! One socket for many associations: who joins, who leaves, what they leave behind, who gets a socket of its own.
use super::inbox::Held;
use super::members::Members;
use super::{Style, WRITING};
use crate::abi::{SOCK_CLOEXEC, SOCK_NONBLOCK};
use crate::call::Fd;
use crate::errno::Errno;
use crate::files::File;
use crate::host::Host;
use crate::poll::READING;
use crate::steps;
use lowwater_core::base::SocketId;
use lowwater_core::sctp::{SctpOptions, State};
use lowwater_core::socket::ready_set;

impl Host {
    /// The one-to-many socket that this is an association or the listener of.
    fn sctp_many_of(&self, id: SocketId) -> Option<Fd> {
        self.files.fd_of(id).filter(|fd| self.sctp(*fd).is_ok_and(|s| s.style.is_many()))
    }

    /// What a one-to-many listener has been sent becomes its own at once.
    pub(crate) fn sctp_adopt(&mut self, listener: SocketId) {
        let Some(fd) = self.sctp_many_of(listener) else { return };
        while let Ok((id, _)) = self.stack.sctp_accept(self.now, listener) {
            self.sctp_join(fd, id);
            // It may have ended before anybody could hear of it.
            self.sctp_note(id);
            self.sctp_reap(id);
        }
    }

    /// One more association of a one-to-many socket.
    pub(super) fn sctp_join(&mut self, fd: Fd, id: SocketId) {
        if let Ok(sctp) = self.sctp_mut(fd) {
            let manner = sctp.manner;
            sctp.members.join(id, manner);
        }
        // It is named from then on (`sctp_assoc_set_id`).
        self.assoc_ids.of(id);
        self.files.add_id(fd, id);
    }

    /// Something has happened to one of many, of which its room may be another.
    pub(crate) fn sctp_touch(&mut self, fd: Fd, id: SocketId) {
        if let Ok(sctp) = self.sctp_mut(fd) {
            sctp.members.look_at(id);
        }
    }

    /// One of many has something to read.
    pub(crate) fn sctp_note(&mut self, id: SocketId) {
        let arrival = self.stack.sctp_arrival(id);
        if let Some(fd) = self.sctp_many_of(id)
            && let Ok(sctp) = self.sctp_mut(fd)
        {
            sctp.inbox.note(id, arrival);
        }
    }

    /// One of many is over, and is forgotten at once; what it has to read waits on the socket (`sctp_association_free`).
    pub(crate) fn sctp_reap(&mut self, id: SocketId) {
        if self.stack.sctp_state(id) != Ok(State::Closed) {
            return;
        }
        let Some(fd) = self.sctp_many_of(id) else { return };
        self.sctp_take_over(fd, id);
        if let Ok(sctp) = self.sctp_mut(fd) {
            sctp.members.leave(id);
            sctp.inbox.note(id, None);
        }
        self.sctp_forget(id);
    }

    /// What an association that is over has to read becomes the socket's.
    pub(super) fn sctp_take_over(&mut self, fd: Fd, id: SocketId) {
        let most = self.sctp_options(fd).map_or(0, |options| options.rcvbuf as usize);
        let arrival = |host: &Self| host.stack.sctp_arrival(id).unwrap_or_default();
        let mut came = arrival(self);
        while let Ok(Some(received)) = self.stack.sctp_recv(self.now, id, usize::MAX) {
            for held in self.sctp_held(fd, id, received) {
                let held = Held { arrival: came, ..held };
                let left = self.sctp_mut(fd).is_ok_and(|sctp| sctp.inbox.leave(held, most));
                self.dropped += u64::from(!left);
            }
            came = arrival(self);
        }
    }

    /// The stack and the tables lose an association.
    pub(super) fn sctp_forget(&mut self, id: SocketId) {
        self.files.remove_id(id);
        self.assoc_ids.forget(id);
        let closed = self.stack.close(self.now, id);
        debug_assert_eq!(closed, Ok(()), "an association of this socket");
    }

    /// What a one-to-many socket is ready for: what was sent to it can be read, and something can be written unless every association
    /// is full.
    pub(super) fn sctp_many_readiness(&mut self, fd: Fd) -> u32 {
        let mut bits = 0;
        let has_input = |id| self.stack.sctp_has_input(id);
        if self.sctp(fd).is_ok_and(|sctp| sctp.inbox.order().any(has_input)) {
            bits |= READING;
        }
        let changed = self.sctp_mut(fd).map(|sctp| sctp.members.take_changed()).unwrap_or_default();
        for id in changed {
            steps::step();
            // Who is asked and has none will tell when it has some.
            let room = ready_set::bits(self.stack.poll(self.now, id)) & WRITING != 0;
            let lives = self.sctp_lives(id);
            if let Ok(sctp) = self.sctp_mut(fd) {
                sctp.members.note_room(id, room && lives);
            }
        }
        // Nobody is full where there is nobody: one that is over may not be taken off the list yet.
        let writable = self.sctp(fd).is_ok_and(|s| s.members.has_room()) || self.first_assoc_of(fd).is_none();
        bits | if writable { WRITING } else { 0 }
    }

    /// SCTP_SOCKOPT_PEELOFF: an association of a one-to-many socket gets a socket of its own.
    pub(super) fn sctp_peeloff(&mut self, fd: Fd, assoc: u32, flags: i32) -> Result<Fd, Errno> {
        if !self.sctp(fd)?.style.is_many() {
            return Err(Errno::EINVAL);
        }
        let id = self.sctp_named(fd, assoc)?;
        // Nobody waits for what goes elsewhere (`sctp_do_peeloff`).
        if self.waiting.is_for(id) {
            return Err(Errno::EBUSY);
        }
        let new = self.files.reserve()?;
        let mut child = self.files.sock(fd)?.child(id, flags & SOCK_NONBLOCK != 0);
        let sctp = self.sctp_mut(fd)?;
        let (manner, inbox) = (sctp.manner_of(id), sctp.inbox.split(id));
        sctp.members.leave(id);
        if let Some(sctp) = &mut child.sctp {
            (sctp.style, sctp.manner, sctp.inbox) = (Style::Peeled, manner, inbox);
            sctp.members = Members::default();
        }
        self.files.remove_id(id);
        self.sctp_forget_priority(id);
        self.files.install(new, File::Socket(Box::new(child)));
        self.files.set_cloexec(new, flags & SOCK_CLOEXEC != 0);
        Ok(new)
    }

    /// A socket of its own begins with SO_PRIORITY 0, whatever the one that it comes from had (`sctp_copy_sock`).
    pub(in crate::sctp) fn sctp_forget_priority(&mut self, id: SocketId) {
        if let Ok(options) = self.stack.sctp_options(id).cloned() {
            // It is there: it has just told its options.
            let _ = self.stack.sctp_set_options(self.now, id, SctpOptions { priority: Some(0), ..options });
        }
    }

    /// The association that an identifier names: on a one-to-one socket its own, whatever the number (`sctp_id2assoc`).
    pub(super) fn sctp_named(&mut self, fd: Fd, assoc: u32) -> Result<SocketId, Errno> {
        let named = if self.sctp(fd)?.style.is_many() {
            self.assoc_ids.named(assoc).filter(|id| self.has_assoc(fd, *id))
        } else {
            let lives = |id: &SocketId| self.stack.sctp_state(*id) != Ok(State::Closed);
            self.first_assoc_of(fd).filter(lives)
        };
        named.ok_or(Errno::EINVAL)
    }

    /// Some that was read, as the socket keeps it.
    pub(super) fn sctp_held(
        &mut self,
        fd: Fd,
        id: SocketId,
        received: lowwater_core::sctp::Received,
    ) -> Vec<Held> {
        let manner = self.sctp(fd).map_or_else(|_| None, |sctp| Some(sctp.manner_of(id)));
        let Some(manner) = manner else { return Vec::new() };
        let (assoc, peer) = (self.assoc_ids.of(id), self.stack.peer_addr(id).ok());
        let v6 = self.files.sock(fd).is_ok_and(|sock| sock.v6) && self.sctp(fd).is_ok_and(|s| s.wants.mapped);
        let about = super::event::About { assoc, port: peer.map_or(0, |peer| peer.port()), v6 };
        let pieces = super::event::pieces(received, about, manner.events);
        let held = |piece| Held { id, assoc, peer, context: manner.context, arrival: 0, piece };
        pieces.into_iter().map(held).collect()
    }
}
