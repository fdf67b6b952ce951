//! SCTP sockets: one-to-one and one-to-many, with the calls, options and notifications of RFC 6458 as Linux has them.
mod event;
pub mod layout;
mod life;
mod recv;
mod send;
mod sizes;
mod sockopt;

use crate::abi::{EPOLLERR, EPOLLHUP, EPOLLOUT, EPOLLWRNORM, SOCK_SEQPACKET, SOCK_STREAM, SOL_SCTP};
use crate::block::Progress;
use crate::call::{Call, Fd};
use crate::calls::Answer;
use crate::files::Kind;
use crate::host::Host;
use crate::poll::READING;
use bytes::Bytes;
use core::net::SocketAddr;
use lowwater_core::base::SocketId;
use lowwater_core::sctp::{RecvInfo, SctpOptions, SendInfo};
use lowwater_core::socket::ready_set;
use std::collections::{BTreeMap, VecDeque};

/// Addresses that one socket may be bound to.
const ADDRESSES_MAX: usize = 64;
/// The first association identifier that Linux gives (0 to 2 stand for all, future and current ones).
const FIRST_ASSOC: u32 = 3;
const WRITING: u32 = EPOLLOUT | EPOLLWRNORM;

/// What an SCTP socket has beside what every socket has.
#[derive(Clone, Debug)]
pub(crate) struct Sctp {
    /// SOCK_SEQPACKET: one socket for many associations.
    pub(crate) many: bool,
    /// Of associations to come.
    pub(crate) options: SctpOptions,
    /// Where it was bound, all with one port.
    pub(crate) bound: Vec<SocketAddr>,
    /// Associations of a one-to-many socket, oldest first.
    pub(crate) assocs: Vec<SocketId>,
    /// What was read and not handed over yet.
    pub(crate) held: VecDeque<(SocketId, Piece)>,
    /// SCTP_DEFAULT_SEND_PARAM, SCTP_DEFAULT_SNDINFO.
    pub(crate) defaults: SendInfo,
    pub(crate) wants: Wants,
    /// shutdown() for sending.
    pub(crate) shut: bool,
    /// connect() has not told its result yet.
    pub(crate) connecting: bool,
}

/// What a reader wants beside data, as far as it is no notification of the stack.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wants {
    /// SCTP_SNDRCV with every message (sctp_data_io_event).
    pub(crate) sndrcv: bool,
    /// SCTP_RCVINFO with every message.
    pub(crate) rcvinfo: bool,
    /// Failed messages by the newer of the two structures.
    pub(crate) failed_event: bool,
    /// SCTP_CONTEXT: what the reader is told with every message.
    pub(crate) context: u32,
}

/// A message, a notification, or what is left of one.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    /// `None` for a notification.
    pub(crate) info: Option<RecvInfo>,
    /// It ends here.
    pub(crate) eor: bool,
}

impl Sctp {
    pub(crate) fn new(many: bool, options: SctpOptions) -> Self {
        Self {
            many,
            options,
            bound: Vec::new(),
            assocs: Vec::new(),
            held: VecDeque::new(),
            defaults: SendInfo::default(),
            wants: Wants::default(),
            shut: false,
            connecting: false,
        }
    }

    /// SOCK_STREAM or SOCK_SEQPACKET.
    pub(crate) const fn ty(&self) -> i32 {
        if self.many { SOCK_SEQPACKET } else { SOCK_STREAM }
    }
}

/// Identifiers of associations.
#[derive(Debug, Default)]
pub(crate) struct AssocIds {
    known: BTreeMap<SocketId, u32>,
    given: u32,
}

impl AssocIds {
    /// The identifier of an association, a new one the first time.
    pub(crate) fn of(&mut self, id: SocketId) -> u32 {
        *self.known.entry(id).or_insert_with(|| {
            self.given += 1;
            FIRST_ASSOC + self.given - 1
        })
    }

    pub(crate) fn forget(&mut self, id: SocketId) {
        self.known.remove(&id);
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
        if p.lingers.is_none() && !self.is_sctp(fd) {
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
            Call::Close { .. } if p.lingers.is_some() => return None,
            Call::Close { .. } => self.sctp_close(fd),
            Call::Getsockname { .. } => self.sctp_name(fd),
            Call::Getpeername { .. } => self.sctp_peer(fd),
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
        let Ok(sock) = self.files.sock(fd) else { return 0 };
        let (kind, failed) = (sock.kind, sock.error.is_some());
        let Some(sctp) = &sock.sctp else { return 0 };
        let (many, held) = (sctp.many, !sctp.held.is_empty());
        let mut bits = match (kind, many) {
            // An association that is over does not hang up: `sctp_poll` asks for the directions that calls have shut down.
            (Kind::Conn(id) | Kind::Listener(id), false) => {
                ready_set::bits(self.stack.poll(self.now, id)) & !EPOLLHUP
            }
            _ => 0,
        };
        if many {
            bits |= WRITING;
            for id in self.assocs_of(fd) {
                bits |= ready_set::bits(self.stack.poll(self.now, id)) & READING;
            }
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

    /// The associations of a socket, oldest first.
    pub(crate) fn assocs_of(&self, fd: Fd) -> Vec<SocketId> {
        let Ok(sock) = self.files.sock(fd) else { return Vec::new() };
        match (sock.kind, &sock.sctp) {
            (_, Some(sctp)) if sctp.many => sctp.assocs.clone(),
            (Kind::Conn(id), _) => vec![id],
            _ => Vec::new(),
        }
    }
}
