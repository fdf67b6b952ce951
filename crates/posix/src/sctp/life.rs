//! The life of an SCTP socket: listen, accept, connect, shutdown, close.
use super::address::{addresses, sctp_addr};
use super::{Sctp, Style};
use crate::abi::{SHUT_RD, SHUT_RDWR, SHUT_WR, SOCK_CLOEXEC, SOCK_NONBLOCK};
use crate::block::{Holds, Progress};
use crate::call::{Fd, Name, Reply};
use crate::calls::Answer;
use crate::errno::Errno;
use crate::files::{File, Kind, Sock};
use crate::host::{ANY, Host};
use core::net::SocketAddr;
use lowwater_core::base::{Error, SocketId};
use lowwater_core::sctp::{SctpOptions, State};
use lowwater_core::socket::Families;
use lowwater_core::tcp::SocketOptions;
use std::collections::BTreeSet;

impl Host {
    /// A new socket (`sctp_init_sock`).
    pub(crate) fn sctp_socket(&mut self, many: bool, v6: bool, flags: i32) -> Result<Reply, Errno> {
        let nonblocking = flags & SOCK_NONBLOCK != 0;
        let mut sock = Sock::new(true, v6, nonblocking, SocketOptions::new(self.stack.sysctl()));
        let style = if many { Style::Many } else { Style::One };
        let options =
            SctpOptions { counts: true, arrivals: style.is_many(), ..SctpOptions::new(self.stack.sysctl()) };
        sock.sctp = Some(Box::new(Sctp::new(style, options)));
        let file = File::Socket(Box::new(sock));
        Ok(Reply::ok(self.files.add_with(file, flags & SOCK_CLOEXEC != 0)?.into()))
    }

    /// The options for an association to come.
    pub(super) fn sctp_options(&self, fd: Fd) -> Result<SctpOptions, Errno> {
        let sock = self.files.sock(fd)?;
        let mut options = self.sctp(fd)?.options.clone();
        shared(&mut options, &sock.options);
        Ok(options)
    }

    /// listen(2), again with another backlog, and with none to stop (`sctp_inet_listen`). A negative one is as large as can be.
    pub(super) fn sctp_listen(&mut self, fd: Fd, backlog: i32) -> Result<Reply, Errno> {
        match self.files.sock(fd)?.kind {
            Kind::Fresh if backlog == 0 => return Err(Errno::EINVAL),
            Kind::Fresh => {}
            Kind::Listener(id) if backlog == 0 => {
                self.sctp_become(fd, Kind::Fresh)?;
                self.stack.close(self.now, id)?;
                return Ok(Reply::ok(0));
            }
            Kind::Listener(id) => {
                self.stack.sctp_set_backlog(id, backlog as u32)?;
                return Ok(Reply::ok(0));
            }
            _ => return Err(Errno::EINVAL),
        }
        self.sctp_autobind(fd)?;
        let (options, bound) = (self.sctp_options(fd)?, self.sctp(fd)?.bound.clone());
        // `sctp_inet_cmp_addr`, `sctp_inet6_cmp_addr`.
        let sock = self.files.sock(fd)?;
        let families = match (sock.v6, sock.v6only()) {
            (false, _) => Families::V4,
            (true, false) => Families::Both,
            (true, true) => Families::V6,
        };
        let id = self.stack.sctp_listen_for(self.now, families, &bound, backlog as u32, options)?;
        self.sctp_become(fd, Kind::Listener(id))?;
        Ok(Reply::ok(0))
    }

    /// Another socket of the stack is behind the descriptor, or none.
    fn sctp_become(&mut self, fd: Fd, kind: Kind) -> Result<(), Errno> {
        self.files.sock_mut(fd)?.kind = kind;
        self.files.index(fd);
        Ok(())
    }

    /// accept(2): `sctp_accept`.
    pub(super) fn sctp_accept(&mut self, fd: Fd, flags: i32, p: &mut Progress) -> Answer {
        if flags & !(SOCK_NONBLOCK | SOCK_CLOEXEC) != 0 {
            return Err(Errno::EINVAL);
        }
        // Who cannot have a descriptor is told so first, and leaves the association where it is (`__sys_accept4_file`).
        let new = self.reserve_for(p)?;
        if self.sctp(fd)?.style != Style::One {
            return Err(Errno::EOPNOTSUPP);
        }
        let sock = self.files.sock(fd)?;
        let Kind::Listener(listener) = sock.kind else { return Err(Errno::EINVAL) };
        let (nonblocking, timeout) = (sock.nonblocking, sock.knobs.rcvtimeo);
        let (id, peer) = match self.stack.sctp_accept(self.now, listener) {
            Ok(accepted) => accepted,
            Err(Error::WouldBlock) if p.hurries(nonblocking, None) => return Err(Errno::EAGAIN),
            Err(Error::WouldBlock) => return p.wait(self.now, timeout),
            Err(e) => return Err(e.into()),
        };
        let mut child = self.files.sock(fd)?.child(id, flags & SOCK_NONBLOCK != 0);
        if let Some(sctp) = &mut child.sctp {
            sctp.named = None;
        }
        self.sctp_forget_priority(id);
        let addr = Some(child.shown(peer));
        self.install_reserved(new, child, flags, p);
        Ok(Some(Reply { addr, ..Reply::ok(new.into()) }))
    }

    /// connect(2): `sctp_connect`.
    pub(super) fn sctp_connect(&mut self, fd: Fd, name: Name, p: &mut Progress) -> Answer {
        match name {
            Name::Bad => return Err(Errno::EFAULT),
            Name::Strange | Name::Short(0, _) => return Err(Errno::EINVAL),
            Name::Unspec(..) => return Err(Errno::EOPNOTSUPP),
            _ => {}
        }
        let sock = self.files.sock(fd)?;
        let (kind, connecting) = (sock.kind, self.sctp(fd)?.connecting);
        let many = self.sctp(fd)?.style.is_many();
        if let Some(id) = p.assoc {
            return self.sctp_connected(fd, id, Errno::EINPROGRESS, p);
        }
        match kind {
            // One that was refused begins anew; why is for SO_ERROR to tell.
            Kind::Conn(id) if connecting && !p.begun && self.stack.sctp_state(id) == Ok(State::Closed) => {
                self.sctp_dissolve(fd, id)?;
            }
            Kind::Conn(id) if connecting => {
                let first = if p.begun { Errno::EINPROGRESS } else { Errno::EALREADY };
                return self.sctp_connected(fd, id, first, p);
            }
            Kind::Conn(_) => return Err(Errno::EISCONN),
            Kind::Listener(_) if !many => return Err(Errno::EISCONN),
            _ => {}
        }
        let remote =
            Self::stack_remote(sctp_addr(self.files.sock(fd)?, name)?, self.sctp(fd)?.bound.first().copied());
        self.sctp_is_new(fd, &[remote])?;
        let id = self.sctp_open(fd, &[remote])?;
        self.sctp_connected(fd, id, Errno::EINPROGRESS, p)
    }

    /// SCTP_SOCKOPT_CONNECTX: an association with a peer of several addresses; it `tells` its identifier.
    pub(super) fn sctp_connectx(&mut self, fd: Fd, bytes: &[u8], tells: bool, p: &mut Progress) -> Answer {
        let id = self.sctp_opened(fd, bytes, p)?;
        let answer = self.sctp_connected(fd, id, Errno::EINPROGRESS, p)?;
        let assoc = if tells { i64::from(self.assoc_ids.of(id)) } else { 0 };
        Ok(answer.map(|_| Reply::ok(assoc)))
    }

    /// SCTP_SOCKOPT_CONNECTX3, where the identifier is written and the result is that of connect(): a struct sctp_getaddrs_old, whose
    /// pointer stands here for the addresses themselves, as many bytes as its second field says.
    pub(super) fn sctp_connectx3(&mut self, fd: Fd, given: &[u8], p: &mut Progress) -> Answer {
        let Some((head, bytes)) = given.split_first_chunk::<8>() else { return Err(Errno::EINVAL) };
        let len = usize::try_from(i32::from_le_bytes([head[4], head[5], head[6], head[7]]));
        let bytes = len.ok().and_then(|len| bytes.get(..len)).ok_or(Errno::EINVAL)?;
        let id = self.sctp_opened(fd, bytes, p)?;
        let value = self.assoc_ids.of(id).to_le_bytes().to_vec().into();
        match self.sctp_connected(fd, id, Errno::EINPROGRESS, p) {
            Ok(answer) => Ok(answer.map(|reply| Reply { value, ..reply })),
            Err(Errno::EINPROGRESS) => Ok(Some(Reply { value, ..Reply::fail(Errno::EINPROGRESS) })),
            Err(errno) => Err(errno),
        }
    }

    /// The association that a call with several addresses begins, or waits for.
    fn sctp_opened(&mut self, fd: Fd, bytes: &[u8], p: &Progress) -> Result<SocketId, Errno> {
        if let Some(id) = p.assoc {
            return Ok(id);
        }
        if bytes.is_empty() {
            return Err(Errno::EINVAL);
        }
        let sock = self.files.sock(fd)?;
        let (many, connecting) = (self.sctp(fd)?.style.is_many(), self.sctp(fd)?.connecting);
        let kind = sock.kind;
        match kind {
            // As with connect().
            Kind::Conn(id) if connecting && self.stack.sctp_state(id) == Ok(State::Closed) => {
                self.sctp_dissolve(fd, id)?;
            }
            // One that listens, or has an association, is told so before anybody looks at the addresses.
            kind if kind != Kind::Fresh && !many => return Err(Errno::EISCONN),
            _ => {}
        }
        let first = self.sctp(fd)?.bound.first().copied();
        let remotes = addresses(self.files.sock(fd)?, bytes)?;
        let remotes: Vec<_> = remotes.into_iter().map(|remote| Self::stack_remote(remote, first)).collect();
        self.sctp_is_new(fd, &remotes)?;
        self.sctp_open(fd, &remotes)
    }

    /// # Errors
    /// EISCONN and EALREADY where there is an association with such a peer, or will be (`__sctp_connect`).
    fn sctp_is_new(&self, fd: Fd, remotes: &[SocketAddr]) -> Result<(), Errno> {
        let Some(id) = remotes.iter().find_map(|remote| self.sctp_with(fd, *remote)) else { return Ok(()) };
        let opening = matches!(self.stack.sctp_state(id), Ok(State::CookieWait | State::CookieEchoed));
        Err(if opening { Errno::EALREADY } else { Errno::EISCONN })
    }

    /// Begins an association. Who has one with that peer, on a socket of its own, keeps it (`sctp_endpoint_is_peeled_off`).
    pub(super) fn sctp_open(&mut self, fd: Fd, remotes: &[SocketAddr]) -> Result<SocketId, Errno> {
        self.sctp_autobind(fd)?;
        let (options, bound) = (self.sctp_options(fd)?, self.sctp(fd)?.bound.clone());
        let opened = self.stack.sctp_connect(self.now, remotes, &bound, options);
        let id =
            opened.map_err(|e| if e == Error::AddressInUse { Errno::EADDRNOTAVAIL } else { e.into() })?;
        if self.sctp(fd)?.style.is_many() {
            self.sctp_join(fd, id);
        } else {
            self.files.sock_mut(fd)?.error = None;
            let sctp = self.sctp_mut(fd)?;
            (sctp.connecting, sctp.named) = (true, None);
            self.sctp_become(fd, Kind::Conn(id))?;
        }
        Ok(id)
    }

    /// The association with this peer.
    pub(super) fn sctp_with(&self, fd: Fd, remote: SocketAddr) -> Option<SocketId> {
        let sctp = self.sctp(fd).ok()?;
        if !sctp.style.is_many() {
            let peers =
                |id: &SocketId| self.stack.sctp_addrs(*id).map_or_else(|_| Vec::new(), |(_, peers)| peers);
            return self.first_assoc_of(fd).filter(|id| peers(id).contains(&remote));
        }
        // All of them have the socket's port.
        let port = sctp.bound.first().map_or(0, SocketAddr::port);
        let there = self.stack.sctp_with(port, remote).iter().copied();
        sctp.members.oldest(there.filter(|id| self.sctp_lives(*id)))
    }

    /// The handshake is complete: no connect() has anything to tell any more.
    pub(crate) fn sctp_is_up(&mut self, id: SocketId) {
        if let Some(fd) = self.files.fd_of(id)
            && let Ok(sctp) = self.sctp_mut(fd)
        {
            sctp.connecting = false;
        }
    }

    /// A one-to-one socket has no association any more: what that had to read stays.
    pub(super) fn sctp_dissolve(&mut self, fd: Fd, id: SocketId) -> Result<(), Errno> {
        self.sctp_take_over(fd, id);
        self.sctp_mut(fd)?.connecting = false;
        self.sctp_become(fd, Kind::Fresh)?;
        self.sctp_forget(id);
        Ok(())
    }

    /// What a connect() under way comes to (`sctp_wait_for_connect`).
    fn sctp_connected(&mut self, fd: Fd, id: SocketId, still: Errno, p: &mut Progress) -> Answer {
        let sock = self.files.sock(fd)?;
        let (nonblocking, timeout) = (sock.nonblocking, sock.knobs.sndtimeo);
        match self.stack.sctp_info(id).map(|info| info.state) {
            Ok(State::CookieWait | State::CookieEchoed) => {
                if p.expired || p.hurries(nonblocking, timeout) {
                    return Err(still);
                }
                p.assoc = Some(id);
                p.wait(self.now, timeout)
            }
            Ok(State::Closed) | Err(_) => {
                let error = self.stack.take_any_error(id).map_or(Errno::ECONNREFUSED, Errno::from);
                if self.sctp(fd)?.style.is_many() {
                    self.sctp_reap(id);
                } else if self.files.sock(fd)?.kind == Kind::Conn(id) {
                    self.sctp_dissolve(fd, id)?;
                }
                Err(error)
            }
            Ok(_) => {
                self.sctp_mut(fd)?.connecting = false;
                Ok(Some(Reply::ok(0)))
            }
        }
    }

    /// shutdown(2): only of one-to-one sockets, and only sending (`inet_shutdown`, `sctp_shutdown`).
    pub(super) fn sctp_shutdown(&mut self, fd: Fd, how: i32) -> Result<Reply, Errno> {
        if !matches!(how, SHUT_RD | SHUT_WR | SHUT_RDWR) {
            return Err(Errno::EINVAL);
        }
        let id = match self.files.sock(fd)?.kind {
            Kind::Conn(id) if self.sctp(fd)?.style == Style::One => id,
            // Only one-to-one sockets end by this.
            Kind::Conn(_) => return Ok(Reply::ok(0)),
            // What listens has no association to end, and cannot be dissolved.
            Kind::Listener(_) if how == SHUT_WR => return Ok(Reply::ok(0)),
            Kind::Listener(_) => return Err(Errno::EOPNOTSUPP),
            _ => return Err(Errno::ENOTCONN),
        };
        if how != SHUT_WR {
            self.stack.sctp_stop_reading(self.now, id)?;
        }
        let connecting = self.sctp(fd)?.connecting;
        if how != SHUT_RD {
            self.sctp_mut(fd)?.shut = true;
            self.stack.sctp_shutdown(self.now, id)?;
        }
        self.wake_fd(fd, ANY);
        self.wake_waiters(fd);
        // It is done all the same (`inet_shutdown`).
        if connecting { Err(Errno::ENOTCONN) } else { Ok(Reply::ok(0)) }
    }

    /// close(2): `sctp_close`. A one-to-one socket may linger until its association is over.
    pub(super) fn sctp_close(&mut self, fd: Fd, p: &mut Progress) -> Answer {
        let assocs = self.assocs_of(fd);
        let Some(File::Socket(sock)) = self.files.remove(fd) else { return Err(Errno::EBADF) };
        let Some(sctp) = &sock.sctp else { return Err(Errno::EBADF) };
        if let Kind::Listener(id) = sock.kind {
            self.stack.close(self.now, id)?;
        }
        for id in assocs.iter().copied() {
            self.files.remove_id(id);
            self.assoc_ids.forget(id);
            // What was taken from the stack and not read is lost like what is still there.
            if sctp.inbox.has_data_of(id) {
                self.stack.abort(self.now, id)?;
            } else {
                self.stack.close(self.now, id)?;
            }
        }
        // Those that are over and were not taken off the list yet.
        let assocs: BTreeSet<SocketId> = assocs.into_iter().collect();
        for id in sctp.members.ids().filter(|id| !assocs.contains(id)) {
            self.sctp_forget(id);
        }
        let linger = sock.options.linger.filter(|linger| !linger.is_zero() && sctp.style == Style::One);
        if let (Kind::Conn(id), Some(linger)) = (sock.kind, linger)
            && self.stack.sctp_state(id).is_ok_and(|state| state != State::Closed)
        {
            p.holds = Holds::Lingering(id);
            p.arm(self.now, Some(linger));
            return Ok(None);
        }
        Ok(Some(Reply::ok(0)))
    }

    /// A close(2) that lingers (`sctp_wait_for_close`); `None` where it is not SCTP that does.
    pub(super) fn sctp_linger(&self, p: &Progress) -> Option<Answer> {
        let state = self.stack.sctp_state(p.lingers()?).ok()?;
        let over = p.over() || state == State::Closed;
        Some(Ok(over.then(|| Reply::ok(0))))
    }
}

/// What all kinds of sockets have in common.
pub(super) fn shared(options: &mut SctpOptions, all: &SocketOptions) {
    options.sndbuf = all.sndbuf.unwrap_or(options.sndbuf);
    options.rcvbuf = all.rcvbuf.unwrap_or(options.rcvbuf);
    (options.linger, options.priority) = (all.linger, all.queue_priority());
    (options.tos, options.ttl) = all.marks(false);
    (options.tclass, options.unicast_hops) = all.marks(true);
}
