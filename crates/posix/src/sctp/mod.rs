//! SCTP sockets: one-to-one and one-to-many, with the calls, options and notifications of RFC 6458 as Linux has them.
mod address;
mod event;
mod inbox;
pub mod layout;
mod life;
mod manner;
mod many;
mod members;
mod recv;
mod send;
mod sizes;
mod sockopt;

use crate::abi::{
    EPOLLERR, EPOLLHUP, EPOLLOUT, EPOLLRDHUP, EPOLLWRNORM, SCTP_SOCKOPT_CONNECTX3, SOCK_SEQPACKET,
    SOCK_STREAM, SOL_SCTP,
};
use crate::block::Progress;
use crate::call::{Call, Fd};
use crate::calls::Answer;
use crate::files::Kind;
use crate::host::Host;
use crate::poll::READING;
use core::net::SocketAddr;
use inbox::Inbox;
use lowwater_core::base::SocketId;
use lowwater_core::sctp::{SctpOptions, State};
use lowwater_core::socket::ready_set;
pub(crate) use manner::Manner;
use members::Members;
use std::collections::BTreeMap;

/// Addresses that one socket may be bound to.
const ADDRESSES_MAX: usize = 64;
/// The first association identifier that Linux gives (0 to 2 stand for all, future and current ones).
const FIRST_ASSOC: u32 = 3;
const WRITING: u32 = EPOLLOUT | EPOLLWRNORM;

/// What kind of socket it is (`sctp_style`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// One-to-one (SOCK_STREAM).
    One,
    /// One-to-many (SOCK_SEQPACKET).
    Many,
    /// One association that was one of a one-to-many socket's, and still ends by a message.
    Peeled,
}

impl Style {
    pub(crate) const fn is_many(self) -> bool {
        matches!(self, Self::Many)
    }
}

/// What an SCTP socket has beside what every socket has.
#[derive(Clone, Debug)]
pub(crate) struct Sctp {
    pub(crate) style: Style,
    /// Of associations to come.
    pub(crate) options: SctpOptions,
    /// The same of messages and notifications; where there is one association alone, also its.
    pub(crate) manner: Manner,
    /// Where it was bound, all with one port.
    pub(crate) bound: Vec<SocketAddr>,
    /// The address that was bound last, which is what getsockname() tells until an association has one.
    pub(crate) named: Option<SocketAddr>,
    /// Associations of a one-to-many socket.
    pub(crate) members: Members,
    pub(crate) inbox: Inbox,
    pub(crate) wants: Wants,
    /// shutdown() for sending.
    pub(crate) shut: bool,
    /// connect() has not told its result yet.
    pub(crate) connecting: bool,
}

/// What a reader wants to come with each message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wants {
    /// SCTP_RCVINFO (SCTP_RECVRCVINFO).
    pub(crate) rcvinfo: bool,
    /// SCTP_NXTINFO (SCTP_RECVNXTINFO).
    pub(crate) nxtinfo: bool,
    /// An AF_INET6 socket shows addresses of IPv4 as mapped ones (SCTP_I_WANT_MAPPED_V4_ADDR).
    pub(crate) mapped: bool,
}

impl Sctp {
    pub(crate) fn new(style: Style, options: SctpOptions) -> Self {
        Self {
            style,
            manner: Manner::new(&options),
            options,
            bound: Vec::new(),
            named: None,
            members: Members::default(),
            inbox: Inbox::default(),
            wants: Wants { rcvinfo: false, nxtinfo: false, mapped: true },
            shut: false,
            connecting: false,
        }
    }

    /// SOCK_STREAM or SOCK_SEQPACKET.
    pub(crate) const fn ty(&self) -> i32 {
        if self.style.is_many() { SOCK_SEQPACKET } else { SOCK_STREAM }
    }

    /// This association is one of many.
    pub(crate) fn has(&self, id: SocketId) -> bool {
        self.members.has(id)
    }

    /// What this association does with messages and notifications.
    pub(crate) fn manner_of(&self, id: SocketId) -> Manner {
        self.members.manner_of(id).unwrap_or(self.manner)
    }
}

/// Identifiers of associations.
#[derive(Debug, Default)]
pub(crate) struct AssocIds {
    known: BTreeMap<SocketId, u32>,
    taken: BTreeMap<u32, SocketId>,
    /// The one that was given last.
    last: u32,
}

impl AssocIds {
    /// The identifier of an association, a new one the first time.
    pub(crate) fn of(&mut self, id: SocketId) -> u32 {
        if let Some(known) = self.known.get(&id) {
            return *known;
        }
        // Numbers go round, past those that somebody has (`idr_alloc_cyclic`).
        let mut next = self.last.checked_add(1).unwrap_or(FIRST_ASSOC).max(FIRST_ASSOC);
        while self.taken.contains_key(&next) {
            next = next.checked_add(1).unwrap_or(FIRST_ASSOC);
        }
        self.last = next;
        self.known.insert(id, next);
        self.taken.insert(next, id);
        next
    }

    /// The association of an identifier.
    pub(crate) fn named(&self, assoc: u32) -> Option<SocketId> {
        self.taken.get(&assoc).copied()
    }

    pub(crate) fn forget(&mut self, id: SocketId) {
        if let Some(known) = self.known.remove(&id) {
            self.taken.remove(&known);
        }
    }
}

impl Host {
    /// Attempts a call on an SCTP socket; `None` for every other.
    pub(crate) fn sctp_attempt(&mut self, call: &Call, p: &mut Progress) -> Option<Answer> {
        let fd = match call {
            Call::Bind { fd, .. }
            | Call::Listen { fd, .. }
            | Call::Accept { fd, .. }
            | Call::Connect { fd, .. }
            | Call::Recv { fd, .. }
            | Call::Send { fd, .. }
            | Call::Shutdown { fd, .. }
            | Call::Close { fd }
            | Call::Getsockname { fd }
            | Call::Getpeername { fd } => *fd,
            Call::Getsockopt { fd, level: SOL_SCTP, .. }
            | Call::GetsockoptIn { fd, level: SOL_SCTP, .. }
            | Call::Setsockopt { fd, level: SOL_SCTP, .. } => *fd,
            _ => return None,
        };
        if p.lingers().is_none() && !self.is_sctp(fd) {
            return None;
        }
        let done = match call {
            Call::Bind { addr, .. } => self.sctp_bind(fd, *addr),
            Call::Listen { backlog, .. } => self.sctp_listen(fd, *backlog),
            Call::Accept { flags, .. } => return Some(self.sctp_accept(fd, *flags, p)),
            Call::Connect { addr, .. } => return Some(self.sctp_connect(fd, *addr, p)),
            Call::Recv { .. } => return Some(self.sctp_recv(call, p)),
            Call::Send { .. } => return Some(self.sctp_send(call, p)),
            Call::Shutdown { how, .. } => self.sctp_shutdown(fd, *how),
            Call::Close { .. } if p.lingers().is_some() => return self.sctp_linger(p),
            Call::Close { .. } => return Some(self.sctp_close(fd, p)),
            Call::Getsockname { .. } => self.sctp_name(fd),
            Call::Getpeername { .. } => self.sctp_peer(fd),
            Call::GetsockoptIn { name: SCTP_SOCKOPT_CONNECTX3, value, .. } => {
                return Some(self.sctp_connectx3(fd, value, p));
            }
            Call::Getsockopt { name, len, .. } => {
                let room = usize::try_from(*len).unwrap_or(0).min(sockopt::VALUE_MAX);
                self.get_sctp(fd, *name, &vec![0; room])
            }
            Call::GetsockoptIn { name, value, .. } => self.get_sctp(fd, *name, value),
            Call::Setsockopt { name, value, .. } => return Some(self.set_sctp(fd, *name, value, p)),
            _ => return None,
        };
        Some(done.map(Some))
    }

    /// What an SCTP socket is ready for (`sctp_poll`).
    pub(crate) fn sctp_readiness(&mut self, fd: Fd) -> u32 {
        self.sctp_look_at_begun(fd);
        let Ok(sock) = self.files.sock(fd) else { return 0 };
        let (kind, failed) = (sock.kind, sock.error.is_some());
        let Some(sctp) = &sock.sctp else { return 0 };
        let (held, shut, connecting) = (sctp.inbox.has_next(), sctp.shut, sctp.connecting);
        let mut bits = match kind {
            _ if sctp.style.is_many() => self.sctp_many_readiness(fd),
            Kind::Conn(id) => {
                let bits = ready_set::bits(self.stack.poll(self.now, id)) & !EPOLLHUP;
                // Who was refused can neither read nor write, but try again.
                let refused = connecting && self.stack.sctp_state(id) == Ok(State::Closed);
                let input = if self.stack.sctp_has_input(id) { READING } else { 0 };
                if refused { bits & EPOLLERR | input } else { bits }
            }
            Kind::Listener(id) => ready_set::bits(self.stack.poll(self.now, id)) & !EPOLLHUP,
            _ => 0,
        };
        // An association that is over does not hang up: `sctp_poll` asks for the directions that were shut down.
        if shut && bits & EPOLLRDHUP != 0 {
            bits |= EPOLLHUP;
        }
        bits | if held { READING } else { 0 } | if failed { EPOLLERR } else { 0 }
    }

    pub(crate) fn is_sctp(&self, fd: Fd) -> bool {
        self.files.sock(fd).is_ok_and(|sock| sock.sctp.is_some())
    }

    /// The part of a socket that only SCTP has.
    pub(crate) fn sctp(&self, fd: Fd) -> Result<&Sctp, crate::errno::Errno> {
        self.files.sock(fd)?.sctp.as_deref().ok_or(crate::errno::Errno::EOPNOTSUPP)
    }

    pub(crate) fn sctp_mut(&mut self, fd: Fd) -> Result<&mut Sctp, crate::errno::Errno> {
        self.files.sock_mut(fd)?.sctp.as_deref_mut().ok_or(crate::errno::Errno::EOPNOTSUPP)
    }

    /// The associations of a socket, oldest first; of a one-to-many socket those that are not over.
    pub(crate) fn assocs_of(&self, fd: Fd) -> Vec<SocketId> {
        let Ok(sock) = self.files.sock(fd) else { return Vec::new() };
        match (sock.kind, &sock.sctp) {
            (_, Some(sctp)) if sctp.style.is_many() => {
                sctp.members.ids().filter(|id| self.sctp_lives(*id)).collect()
            }
            (Kind::Conn(id), _) => vec![id],
            _ => Vec::new(),
        }
    }

    /// The association is not over.
    pub(crate) fn sctp_lives(&self, id: SocketId) -> bool {
        self.stack.sctp_state(id).is_ok_and(|state| state != State::Closed)
    }

    /// The oldest of [`Self::assocs_of`]: those that are over are taken off soon.
    pub(crate) fn first_assoc_of(&self, fd: Fd) -> Option<SocketId> {
        let sock = self.files.sock(fd).ok()?;
        match (sock.kind, &sock.sctp) {
            (_, Some(sctp)) if sctp.style.is_many() => sctp.members.ids().find(|id| self.sctp_lives(*id)),
            (Kind::Conn(id), _) => Some(id),
            _ => None,
        }
    }

    /// One of [`Self::assocs_of`].
    pub(crate) fn has_assoc(&self, fd: Fd, id: SocketId) -> bool {
        match self.sctp(fd) {
            Ok(sctp) if sctp.style.is_many() => sctp.has(id) && self.sctp_lives(id),
            _ => self.files.sock(fd).is_ok_and(|sock| sock.kind == Kind::Conn(id)),
        }
    }
}
