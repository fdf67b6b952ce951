//! What is behind a file descriptor: sockets, epoll sets, ends of pipes.
use crate::abi::{
    IP_MULTICAST_TTL, IPPROTO_SCTP, IPPROTO_TCP, IPPROTO_UDP, IPV6_MULTICAST_HOPS, SOCK_DGRAM, SOCK_STREAM,
    SOL_IP, SOL_IPV6,
};
use crate::call::Fd;
use crate::epoll::Epoll;
use crate::errno::Errno;
use crate::errqueue::Feedback;
use crate::fastopen::Fast;
use crate::leftovers::Shares;
use crate::numbers::Numbers;
use crate::pipe::{PipeId, Side};
use crate::sctp::Sctp;
use crate::steps;
use crate::timestamping::Stamping;
use crate::watches::Watches;
use core::net::{IpAddr, SocketAddr};
use lowwater_core::base::{Duration, Error, Instant, SocketId};
use lowwater_core::tcp::{SocketOptions, TcpInfo};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Descriptors that may be open at once (RLIMIT_NOFILE's usual soft limit).
pub(crate) const FDS_MAX: usize = 1_024;

/// What is behind a file descriptor.
#[derive(Debug)]
pub(crate) enum File {
    Socket(Box<Sock>),
    Epoll(Epoll),
    Pipe(PipeId, Side),
}

/// How far a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Neither listening nor connected (TCP_CLOSE).
    Fresh,
    /// A listener, of TCP or of SCTP.
    Listener(SocketId),
    /// A TCP connection or the association of a one-to-one socket, or one that is being made.
    Conn(SocketId),
    /// A UDP socket that has a port.
    Udp(SocketId),
}

impl Kind {
    pub(crate) const fn id(self) -> Option<SocketId> {
        match self {
            Self::Fresh => None,
            Self::Listener(id) | Self::Conn(id) | Self::Udp(id) => Some(id),
        }
    }

    /// The listener that it is.
    pub(crate) const fn listener(self) -> Option<SocketId> {
        if let Self::Listener(id) = self { Some(id) } else { None }
    }
}

/// One socket.
#[derive(Clone, Debug)]
pub(crate) struct Sock {
    pub(crate) kind: Kind,
    /// SOCK_STREAM or SOCK_SEQPACKET, and not SOCK_DGRAM.
    pub(crate) stream: bool,
    /// AF_INET6.
    pub(crate) v6: bool,
    pub(crate) nonblocking: bool,
    pub(crate) attempt: Attempt,
    /// Where it was bound, the port chosen; mapped addresses in their IPv4 form.
    pub(crate) bound: Option<SocketAddr>,
    /// The system chose the port of `bound`: it goes back with the connection or the listener (no SOCK_BINDPORT_LOCK).
    pub(crate) chosen: bool,
    /// Of a socket without a connection: the directions that were shut down all the same, 1 for reading, 2 for writing.
    pub(crate) shut: u8,
    /// An error for SO_ERROR that the stack does not hold.
    pub(crate) error: Option<Errno>,
    /// Options of TCP, and those of the same name of SCTP, while the stack has no socket for them.
    pub(crate) options: SocketOptions,
    /// Every other option.
    pub(crate) knobs: Knobs,
    /// What only an SCTP socket has.
    pub(crate) sctp: Option<Box<Sctp>>,
}

/// Unsent bytes that Linux tells of a socket that was dissolved, beside the largest window of its peer.
const UNSENT_AFTER: u32 = 2;
/// The least guess at the size of a peer's segments (`TCP_MIN_MSS`).
const MSS_MIN: u32 = 88;

/// TCP_INFO of a connection, and when it ended.
#[derive(Clone, Debug)]
pub(crate) struct Residue {
    pub(crate) info: TcpInfo,
    /// The largest window that the peer ever offered.
    pub(crate) max_window: u32,
    /// How far the sequence numbers were moved since a connection last had some: what is told as unsent.
    pub(crate) unsent: u32,
    /// The guess at the size of the peer's segments.
    pub(crate) rcv_mss: u32,
    pub(crate) at: Instant,
}

impl Residue {
    /// The socket is dissolved, once more where it was already: its sequence numbers move by the largest window and two (`tcp_disconnect`).
    #[must_use]
    pub(crate) const fn dissolved(mut self) -> Self {
        self.unsent = self.unsent.saturating_add(self.max_window).saturating_add(UNSENT_AFTER);
        self.rcv_mss = MSS_MIN;
        self
    }
}

/// How far a connect() is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// None was made, or it has told its result.
    None,
    /// It has not told its result yet (SS_CONNECTING).
    Open,
    /// It failed, and shutdown() came before anybody asked (SS_DISCONNECTING): no other may be made.
    Spoilt,
}

/// What the stack does not have: options that the calls here obey, and what is only remembered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knobs {
    /// SO_RCVTIMEO and SO_SNDTIMEO.
    pub(crate) rcvtimeo: Option<Duration>,
    pub(crate) sndtimeo: Option<Duration>,
    /// SO_TXTIME: a clock and flags.
    pub(crate) txtime: Option<[i32; 2]>,
    /// The rate that the socket paces by until a connection has one of its own (`sk_pacing_rate`): the least that
    /// SO_MAX_PACING_RATE has been, or what the last connection left.
    pub(crate) pace: Option<u64>,
    /// Options that are one number, by level and name, where they were set.
    pub(crate) plain: BTreeMap<(i32, i32), i32>,
    /// What TCP_INFO still tells of a connection that was dissolved.
    pub(crate) residue: Option<Box<Residue>>,
    /// Of a listener: what connections inherit that wait to be accepted, where its own has changed since their handshake. All up to the one that
    /// is named inherit the same, behind those before; no more than wait (the backlog).
    pub(crate) heirs: VecDeque<(SocketId, Arc<Knobs>)>,
    /// SO_TIMESTAMPING and its like.
    pub(crate) stamping: Stamping,
    /// The error queue and what is awaited for it; `None` of a socket that has never had anything to tell.
    pub(crate) feedback: Option<Box<Feedback>>,
    /// What ICMP said of a connection that was dissolved: for SO_ERROR, and for the next connection, which it outlives unless that is
    /// acknowledged anything (`sk_err_soft`).
    pub(crate) soft: Option<Error>,
    /// What is remembered of the connection.
    pub(crate) past: Past,
    /// Errors of datagrams that whoever waits has heard of, modulo 2^32.
    pub(crate) errors_told: u32,
}

/// What a socket remembers of its connection beside TCP_INFO.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Past {
    /// Whoever waits has heard of the peer's FIN.
    pub(crate) fin_told: bool,
    /// Whoever waits has heard that the peer has acknowledged ours.
    pub(crate) acked_told: bool,
    /// It is over, and the socket was bound anew.
    pub(crate) rebound: bool,
    /// The port that went back to the system, which getsockname() still tells (`inet_sport`).
    pub(crate) port: u16,
    /// The port that it was connected at.
    pub(crate) own: u16,
    /// What Fast Open has noted of it.
    pub(crate) fast: Fast,
    /// By what TIME-WAIT shares its port, where options were set since it began (`tw_reuse`).
    pub(crate) shared: Option<Shares>,
}

impl Sock {
    pub(crate) fn new(stream: bool, v6: bool, nonblocking: bool, mut options: SocketOptions) -> Self {
        // A socket always has one, which IP_TOS changes.
        options.priority = Some(0);
        Self {
            kind: Kind::Fresh,
            stream,
            v6,
            nonblocking,
            attempt: Attempt::None,
            bound: None,
            chosen: false,
            shut: 0,
            error: None,
            options,
            knobs: Knobs::default(),
            sctp: None,
        }
    }

    /// What accept() makes of a listener: options are inherited, the rest is new.
    pub(crate) fn child(&self, id: SocketId, nonblocking: bool) -> Self {
        let (kind, attempt) = (Kind::Conn(id), Attempt::None);
        // They are accepted in the order in which they wait.
        let mine = self.knobs.heirs.front().map_or(&self.knobs, |(_, knobs)| knobs).clone();
        let knobs =
            Knobs { heirs: VecDeque::new(), feedback: None, soft: None, past: Past::default(), ..mine };
        // The port is the listener's: a connection that is over has none (`sk_clone_lock`).
        let options = SocketOptions { priority: Some(0), ..self.options.clone() };
        Self {
            kind,
            stream: self.stream,
            v6: self.v6,
            nonblocking,
            attempt,
            bound: self.bound,
            chosen: true,
            shut: 0,
            error: None,
            options,
            knobs,
            sctp: self.sctp.clone(),
        }
    }

    /// SOCK_STREAM of TCP (`sk_is_tcp`).
    pub(crate) const fn is_tcp(&self) -> bool {
        self.stream && self.sctp.is_none()
    }

    pub(crate) const fn protocol(&self) -> i32 {
        if self.sctp.is_some() {
            IPPROTO_SCTP
        } else if self.stream {
            IPPROTO_TCP
        } else {
            IPPROTO_UDP
        }
    }

    pub(crate) fn ty(&self) -> i32 {
        let plain = if self.stream { SOCK_STREAM } else { SOCK_DGRAM };
        self.sctp.as_ref().map_or(plain, |sctp| sctp.ty())
    }

    /// The port that it was bound to, else the one that connect() has chosen, which it may have given back.
    fn port(&self) -> Option<u16> {
        let bound = match &self.sctp {
            Some(sctp) => sctp.bound.first(),
            None => self.bound.as_ref(),
        };
        let ports = [bound.map_or(0, SocketAddr::port), self.knobs.past.own];
        ports.into_iter().find(|port| *port != 0)
    }

    /// How far its datagrams to groups go (`mc_ttl`, `mcast_hops`).
    pub(crate) fn group_ttl(&self, v6: bool) -> u8 {
        let of = if v6 { (SOL_IPV6, IPV6_MULTICAST_HOPS) } else { (SOL_IP, IP_MULTICAST_TTL) };
        self.knobs.plain.get(&of).and_then(|n| u8::try_from(*n).ok()).unwrap_or(1)
    }

    /// An option that is one number.
    pub(crate) fn plain(&self, level: i32, name: i32) -> i32 {
        self.knobs.plain.get(&(level, name)).copied().unwrap_or(0)
    }

    /// SO_PEEK_OFF where it is on.
    pub(crate) fn peek_off(&self) -> Option<u32> {
        let set = self.knobs.plain.get(&(crate::abi::SOL_SOCKET, crate::abi::SO_PEEK_OFF))?;
        u32::try_from(*set).ok()
    }

    /// The place of the next peek is that far from the front, at most as far as SO_PEEK_OFF can say.
    pub(crate) fn set_peek_off(&mut self, place: u32) {
        let place = i32::try_from(place).unwrap_or(i32::MAX);
        self.knobs.plain.insert((crate::abi::SOL_SOCKET, crate::abi::SO_PEEK_OFF), place);
    }

    /// IPV6_V6ONLY.
    pub(crate) fn v6only(&self) -> bool {
        self.v6 && self.plain(AF_V6.0, AF_V6.1) != 0
    }

    /// An address as this socket's family writes it.
    pub(crate) fn shown(&self, addr: SocketAddr) -> SocketAddr {
        match addr.ip() {
            // SCTP may be told to leave them as they are (SCTP_I_WANT_MAPPED_V4_ADDR).
            IpAddr::V4(v4) if self.v6 && self.sctp.as_ref().is_none_or(|s| s.wants.mapped) => {
                SocketAddr::new(v4.to_ipv6_mapped().into(), addr.port())
            }
            _ => addr,
        }
    }
}

/// Level and name of IPV6_V6ONLY.
const AF_V6: (i32, i32) = (crate::abi::SOL_IPV6, crate::abi::IPV6_V6ONLY);

/// An address of the caller as the stack knows it.
///
/// # Errors
/// Those of `inet_bind` and `inet6_bind`, which are those of connect() too: EINVAL for what is too short, EAFNOSUPPORT for
/// another family.
pub(crate) fn take_addr(v6: bool, name: crate::call::Name) -> Result<SocketAddr, Errno> {
    use crate::call::Name;
    match name {
        Name::Bad => Err(Errno::EFAULT),
        // Before the family, which has its own length.
        name if !name.fills(v6) => Err(Errno::EINVAL),
        Name::Inet(addr @ SocketAddr::V4(_)) if !v6 => Ok(addr),
        Name::Inet(addr @ SocketAddr::V6(_)) if v6 => match addr.ip().to_canonical() {
            ip @ IpAddr::V4(_) => Ok(SocketAddr::new(ip, addr.port())),
            IpAddr::V6(_) => Ok(addr),
        },
        Name::Padded(addr) if !v6 => Ok(addr.into()),
        _ => Err(Errno::EAFNOSUPPORT),
    }
}

/// The table of file descriptors.
#[derive(Debug)]
pub(crate) struct Files {
    table: BTreeMap<Fd, File>,
    numbers: Numbers,
    /// Which descriptor a socket of the stack has, and the other way round.
    fds: BTreeMap<SocketId, Fd>,
    ids: BTreeMap<Fd, SocketId>,
    /// Which sockets may have a port, of any protocol, and which port: who asks for one looks at no others.
    at_ports: BTreeSet<(u16, Fd)>,
    ports: BTreeMap<Fd, u16>,
    watches: Watches,
    /// Which file each descriptor is, counted from the first that was ever opened.
    serials: BTreeMap<Fd, u64>,
    opened: u64,
    /// Those that FD_CLOEXEC is set of. Nothing is ever executed here: it is read back and does nothing.
    cloexec: BTreeSet<Fd>,
    /// Status flags beside O_NONBLOCK where a descriptor has any: what F_SETFL set is read back and does nothing.
    status: BTreeMap<Fd, i32>,
}

impl Files {
    pub(crate) const fn new(first: Fd) -> Self {
        Self {
            table: BTreeMap::new(),
            numbers: Numbers::new(first),
            fds: BTreeMap::new(),
            ids: BTreeMap::new(),
            at_ports: BTreeSet::new(),
            ports: BTreeMap::new(),
            watches: Watches::new(),
            serials: BTreeMap::new(),
            opened: 0,
            cloexec: BTreeSet::new(),
            status: BTreeMap::new(),
        }
    }

    /// Gives a file the lowest number that is free.
    pub(crate) fn add(&mut self, file: File) -> Result<Fd, Errno> {
        let fd = self.reserve()?;
        self.install(fd, file);
        Ok(fd)
    }

    /// Takes the lowest number that is free for a file to come (`get_unused_fd_flags`).
    pub(crate) fn reserve(&mut self) -> Result<Fd, Errno> {
        self.numbers.take()
    }

    /// No file came for a number that was reserved (`put_unused_fd`).
    pub(crate) fn release(&mut self, fd: Fd) {
        self.numbers.give_back(fd);
    }

    /// A file gets the number that was reserved for it (`fd_install`).
    pub(crate) fn install(&mut self, fd: Fd, file: File) {
        self.table.insert(fd, file);
        self.opened += 1;
        self.serials.insert(fd, self.opened);
        self.index(fd);
    }

    /// As [`Self::add`], with FD_CLOEXEC set or not.
    pub(crate) fn add_with(&mut self, file: File, cloexec: bool) -> Result<Fd, Errno> {
        let fd = self.add(file)?;
        self.set_cloexec(fd, cloexec);
        Ok(fd)
    }

    /// FD_CLOEXEC of an open descriptor.
    pub(crate) fn set_cloexec(&mut self, fd: Fd, on: bool) {
        if on {
            self.cloexec.insert(fd);
        } else {
            self.cloexec.remove(&fd);
        }
    }

    /// FD_CLOEXEC is set of this descriptor.
    pub(crate) fn cloexec(&self, fd: Fd) -> bool {
        self.cloexec.contains(&fd)
    }

    /// Status flags of an open descriptor that are remembered only.
    pub(crate) fn set_status(&mut self, fd: Fd, flags: i32) {
        if flags == 0 {
            self.status.remove(&fd);
        } else {
            self.status.insert(fd, flags);
        }
    }

    /// Those flags.
    pub(crate) fn status(&self, fd: Fd) -> i32 {
        self.status.get(&fd).copied().unwrap_or(0)
    }

    pub(crate) fn remove(&mut self, fd: Fd) -> Option<File> {
        let file = self.table.remove(&fd);
        if file.is_some() {
            self.numbers.give_back(fd);
        }
        self.serials.remove(&fd);
        self.end_watches(fd, file.as_ref());
        self.cloexec.remove(&fd);
        self.status.remove(&fd);
        self.index(fd);
        file
    }

    /// Which file this descriptor is: another one has another number, also where it got the same descriptor.
    pub(crate) fn serial(&self, fd: Fd) -> Option<u64> {
        self.serials.get(&fd).copied()
    }

    /// To be called when a socket has become another one of the stack's, or none, and when it was bound to another port, or to none.
    pub(crate) fn index(&mut self, fd: Fd) {
        if let Some(port) = self.ports.remove(&fd) {
            self.at_ports.remove(&(port, fd));
        }
        if let Some(port) = self.sock(fd).ok().and_then(Sock::port) {
            self.ports.insert(fd, port);
            self.at_ports.insert((port, fd));
        }
        if let Some(old) = self.ids.remove(&fd) {
            self.fds.remove(&old);
        }
        if let Ok(sock) = self.sock(fd)
            && let Some(id) = sock.kind.id()
        {
            self.ids.insert(fd, id);
            self.fds.insert(id, fd);
        }
    }

    /// One more socket of the stack is behind this descriptor (a one-to-many socket).
    pub(crate) fn add_id(&mut self, fd: Fd, id: SocketId) {
        self.fds.insert(id, fd);
    }

    /// A socket of the stack is behind no descriptor any more.
    pub(crate) fn remove_id(&mut self, id: SocketId) {
        if let Some(fd) = self.fds.remove(&id)
            && self.ids.get(&fd) == Some(&id)
        {
            self.ids.remove(&fd);
        }
    }

    pub(crate) fn get(&self, fd: Fd) -> Result<&File, Errno> {
        self.table.get(&fd).ok_or(Errno::EBADF)
    }

    pub(crate) fn get_mut(&mut self, fd: Fd) -> Result<&mut File, Errno> {
        self.table.get_mut(&fd).ok_or(Errno::EBADF)
    }

    pub(crate) fn sock(&self, fd: Fd) -> Result<&Sock, Errno> {
        match self.get(fd)? {
            File::Socket(sock) => Ok(sock),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    pub(crate) fn sock_mut(&mut self, fd: Fd) -> Result<&mut Sock, Errno> {
        match self.get_mut(fd)? {
            File::Socket(sock) => Ok(sock),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    /// Whoever is in the index of ports is where its own port says.
    #[cfg(test)]
    pub(crate) fn index_is_true(&self) -> bool {
        self.at_ports.iter().all(|(port, fd)| self.sock(*fd).ok().and_then(Sock::port) == Some(*port))
    }

    /// The sockets that may have a port.
    pub(crate) fn at_port(&self, port: u16) -> impl Iterator<Item = (Fd, &Sock)> {
        let there = self.at_ports.range((port, Fd::MIN)..=(port, Fd::MAX)).inspect(|_| steps::step());
        there.filter_map(|(_, fd)| Some((*fd, self.sock(*fd).ok()?)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Fd, &File)> {
        self.table.iter().inspect(|_| steps::step()).map(|(fd, file)| (*fd, file))
    }

    /// An epoll set watches a file from now on, or no longer.
    pub(crate) fn note_watch(&mut self, fd: Fd, set: Fd, on: bool) {
        if on {
            self.watches.begin(fd, set, matches!(self.get(fd), Ok(File::Epoll(_))));
        } else {
            self.watches.end(fd, set);
        }
    }

    pub(crate) const fn watches(&self) -> &Watches {
        &self.watches
    }

    /// A file is gone: no set watches it, and one that is a set watches nobody.
    fn end_watches(&mut self, fd: Fd, file: Option<&File>) {
        let sets: Vec<Fd> = self.watches.sets_of(fd).collect();
        for set in sets {
            self.watches.end(fd, set);
            if let Some(File::Epoll(epoll)) = self.table.get_mut(&set) {
                epoll.forget(fd);
            }
        }
        if let Some(File::Epoll(epoll)) = file {
            for watched in epoll.names() {
                self.watches.end(watched, fd);
            }
        }
    }

    /// The descriptor of a socket of the stack.
    pub(crate) fn fd_of(&self, id: SocketId) -> Option<Fd> {
        let fd = self.fds.get(&id).copied();
        let many = |sock: &Sock| sock.sctp.as_ref().is_some_and(|sctp| sctp.has(id));
        let is = |sock: &Sock| sock.kind.id() == Some(id) || many(sock);
        debug_assert!(fd.is_none_or(|fd| self.sock(fd).is_ok_and(is)));
        fd
    }
}
