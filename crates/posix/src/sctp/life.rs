//! The life of an SCTP socket: bind, listen, accept, connect, peel off, shutdown, close.
use super::{ADDRESSES_MAX, Sctp, layout};
use crate::abi::{SHUT_RD, SHUT_RDWR, SHUT_WR, SOCK_CLOEXEC, SOCK_NONBLOCK};
use crate::block::Progress;
use crate::call::{Fd, Name, Reply};
use crate::calls::Answer;
use crate::errno::Errno;
use crate::files::{File, Kind, Sock, take_addr};
use crate::host::{ANY, Host};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use lowwater_core::base::{Error, SocketId};
use lowwater_core::sctp::{SctpOptions, State};
use lowwater_core::tcp::SocketOptions;

impl Host {
    /// A new socket (`sctp_init_sock`).
    pub(crate) fn sctp_socket(&mut self, many: bool, v6: bool, nonblocking: bool) -> Result<Reply, Errno> {
        let mut sock = Sock::new(true, v6, nonblocking, SocketOptions::new(self.stack.sysctl()));
        sock.sctp = Some(Box::new(Sctp::new(many, SctpOptions::new(self.stack.sysctl()))));
        Ok(Reply::ok(self.files.add(File::Socket(Box::new(sock)))?.into()))
    }

    /// bind(2): the first address (`sctp_bind`).
    pub(super) fn sctp_bind(&mut self, fd: Fd, name: Name) -> Result<Reply, Errno> {
        let addr = take_addr(self.files.sock(fd)?.v6, name)?;
        if !self.sctp(fd)?.bound.is_empty() {
            return Err(Errno::EINVAL);
        }
        self.sctp_add(fd, addr)?;
        Ok(Reply::ok(0))
    }

    /// Adds an address to those that the socket is bound to (`sctp_do_bind`).
    fn sctp_add(&mut self, fd: Fd, addr: SocketAddr) -> Result<(), Errno> {
        if !addr.ip().is_unspecified() && !self.is_ours(addr.ip()) {
            return Err(Errno::EADDRNOTAVAIL);
        }
        let before = self.sctp(fd)?.bound.clone();
        if before.len() >= ADDRESSES_MAX {
            return Err(Errno::EINVAL);
        }
        let port = match (before.first().map(SocketAddr::port), addr.port()) {
            (Some(port), 0) => port,
            (Some(port), wanted) if port != wanted => return Err(Errno::EINVAL),
            (None, 0) => self.stack.tcp_free_port(Some(addr.ip()).filter(|ip| !ip.is_unspecified()))?,
            (_, wanted) => wanted,
        };
        let addr = SocketAddr::new(addr.ip(), port);
        let meets = |a: &SocketAddr| {
            a.port() == port && (a.ip() == addr.ip() || a.ip().is_unspecified() || addr.ip().is_unspecified())
        };
        let taken = self.files.iter().any(|(other, file)| match file {
            File::Socket(sock) if other != fd => {
                sock.sctp.as_ref().is_some_and(|s| s.bound.iter().any(meets))
            }
            _ => false,
        });
        if taken || before.contains(&addr) {
            return Err(Errno::EADDRINUSE);
        }
        self.sctp_mut(fd)?.bound.push(addr);
        Ok(())
    }

    /// SCTP_SOCKOPT_BINDX_ADD: addresses one behind the other. Removing one is not there, nor adding one to what is in use.
    pub(super) fn sctp_bindx(&mut self, fd: Fd, bytes: &[u8]) -> Result<(), Errno> {
        let addrs = addresses(bytes)?;
        if self.files.sock(fd)?.kind != Kind::Fresh {
            return Err(Errno::EOPNOTSUPP);
        }
        for addr in addrs {
            self.sctp_add(fd, addr)?;
        }
        Ok(())
    }

    /// A socket that was never bound gets a port before it is used (`sctp_autobind`).
    fn sctp_autobind(&mut self, fd: Fd) -> Result<(), Errno> {
        if !self.sctp(fd)?.bound.is_empty() {
            return Ok(());
        }
        let any: IpAddr = match self.files.sock(fd)?.v6 {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        };
        self.sctp_add(fd, SocketAddr::new(any, 0))
    }

    /// The options for an association to come.
    pub(super) fn sctp_options(&self, fd: Fd) -> Result<SctpOptions, Errno> {
        let sock = self.files.sock(fd)?;
        let mut options = self.sctp(fd)?.options.clone();
        shared(&mut options, &sock.options);
        Ok(options)
    }

    /// listen(2): `sctp_inet_listen`.
    pub(super) fn sctp_listen(&mut self, fd: Fd, backlog: i32) -> Result<Reply, Errno> {
        match self.files.sock(fd)?.kind {
            Kind::Fresh => {}
            Kind::Listener(_) => return Ok(Reply::ok(0)),
            _ => return Err(Errno::EINVAL),
        }
        self.sctp_autobind(fd)?;
        let (options, bound) = (self.sctp_options(fd)?, self.sctp(fd)?.bound.clone());
        let id = self.stack.sctp_listen(self.now, &bound, backlog.unsigned_abs(), options)?;
        self.files.sock_mut(fd)?.kind = Kind::Listener(id);
        self.files.index(fd);
        Ok(Reply::ok(0))
    }

    /// accept(2): `sctp_accept`.
    pub(super) fn sctp_accept(&mut self, fd: Fd, flags: i32, p: &mut Progress) -> Answer {
        if flags & !(SOCK_NONBLOCK | SOCK_CLOEXEC) != 0 {
            return Err(Errno::EINVAL);
        }
        let sock = self.files.sock(fd)?.clone();
        if self.sctp(fd)?.many {
            return Err(Errno::EOPNOTSUPP);
        }
        let Kind::Listener(listener) = sock.kind else { return Err(Errno::EINVAL) };
        let (id, peer) = match self.stack.sctp_accept(self.now, listener) {
            Ok(accepted) => accepted,
            Err(Error::WouldBlock) if sock.nonblocking => return Err(Errno::EAGAIN),
            Err(Error::WouldBlock) => return p.wait(self.now, sock.knobs.rcvtimeo),
            Err(e) => return Err(e.into()),
        };
        let child = sock.child(id, flags & SOCK_NONBLOCK != 0);
        let addr = Some(child.shown(peer));
        match self.files.add(File::Socket(Box::new(child))) {
            Ok(new) => Ok(Some(Reply { addr, ..Reply::ok(new.into()) })),
            Err(errno) => {
                self.stack.abort(self.now, id)?;
                Err(errno)
            }
        }
    }

    /// What a one-to-many listener has been sent becomes its own at once.
    pub(crate) fn sctp_adopt(&mut self, listener: SocketId) {
        let Some(fd) = self.files.fd_of(listener).filter(|fd| self.sctp(*fd).is_ok_and(|s| s.many)) else {
            return;
        };
        while let Ok((id, _)) = self.stack.sctp_accept(self.now, listener) {
            self.sctp_join(fd, id);
        }
    }

    /// One more association of a one-to-many socket.
    fn sctp_join(&mut self, fd: Fd, id: SocketId) {
        if let Ok(sctp) = self.sctp_mut(fd) {
            sctp.assocs.push(id);
        }
        self.files.add_id(fd, id);
    }

    /// An association of a one-to-many socket is over.
    pub(super) fn sctp_leave(&mut self, fd: Fd, id: SocketId) {
        if let Ok(sctp) = self.sctp_mut(fd) {
            sctp.assocs.retain(|other| *other != id);
        }
        self.files.remove_id(id);
        self.assoc_ids.forget(id);
        let closed = self.stack.close(self.now, id);
        debug_assert_eq!(closed, Ok(()), "an association of this socket");
    }

    /// connect(2): `sctp_connect`.
    pub(super) fn sctp_connect(&mut self, fd: Fd, name: Name, p: &mut Progress) -> Answer {
        match name {
            Name::Bad => return Err(Errno::EFAULT),
            Name::Short(0) => return Err(Errno::EINVAL),
            Name::Unspec => return Err(Errno::EOPNOTSUPP),
            _ => {}
        }
        let sock = self.files.sock(fd)?;
        let (kind, connecting, v6) = (sock.kind, self.sctp(fd)?.connecting, sock.v6);
        let many = self.sctp(fd)?.many;
        if let Some(id) = p.assoc {
            return self.sctp_connected(fd, id, Errno::EINPROGRESS, p);
        }
        match kind {
            Kind::Conn(id) if connecting => {
                let first = if p.begun { Errno::EINPROGRESS } else { Errno::EALREADY };
                self.sctp_connected(fd, id, first, p)
            }
            Kind::Conn(_) => Err(Errno::EISCONN),
            Kind::Listener(_) if !many => Err(Errno::EISCONN),
            _ => {
                let remote = Self::stack_remote(take_addr(v6, name)?, self.sctp(fd)?.bound.first().copied());
                if many && self.sctp_with(fd, remote).is_some() {
                    return Err(Errno::EISCONN);
                }
                let id = self.sctp_open(fd, &[remote])?;
                self.sctp_connected(fd, id, Errno::EINPROGRESS, p)
            }
        }
    }

    /// SCTP_SOCKOPT_CONNECTX: an association with a peer of several addresses.
    pub(super) fn sctp_connectx(&mut self, fd: Fd, bytes: &[u8], p: &mut Progress) -> Answer {
        if let Some(id) = p.assoc {
            return self.sctp_connected(fd, id, Errno::EINPROGRESS, p);
        }
        if bytes.is_empty() {
            return Err(Errno::EINVAL);
        }
        // One that listens, or has an association, is told so before anybody looks at the addresses.
        if self.files.sock(fd)?.kind != Kind::Fresh && !self.sctp(fd)?.many {
            return Err(Errno::EISCONN);
        }
        let remotes = addresses(bytes)?;
        let id = self.sctp_open(fd, &remotes)?;
        self.sctp_connected(fd, id, Errno::EINPROGRESS, p)
    }

    /// Begins an association.
    pub(super) fn sctp_open(&mut self, fd: Fd, remotes: &[SocketAddr]) -> Result<SocketId, Errno> {
        let (options, bound) = (self.sctp_options(fd)?, self.sctp(fd)?.bound.clone());
        let id = self.stack.sctp_connect(self.now, remotes, &bound, options)?;
        if self.sctp(fd)?.many {
            self.sctp_join(fd, id);
        } else {
            let sock = self.files.sock_mut(fd)?;
            (sock.kind, sock.error) = (Kind::Conn(id), None);
            self.sctp_mut(fd)?.connecting = true;
            self.files.index(fd);
        }
        Ok(id)
    }

    /// The association of a one-to-many socket with this peer.
    pub(super) fn sctp_with(&self, fd: Fd, remote: SocketAddr) -> Option<SocketId> {
        let has = |id: &SocketId| self.stack.sctp_addrs(*id).is_ok_and(|(_, peers)| peers.contains(&remote));
        self.assocs_of(fd).into_iter().find(has)
    }

    /// What a connect() under way comes to (`sctp_wait_for_connect`).
    fn sctp_connected(&mut self, fd: Fd, id: SocketId, still: Errno, p: &mut Progress) -> Answer {
        let sock = self.files.sock(fd)?;
        let (nonblocking, timeout) = (sock.nonblocking, sock.knobs.sndtimeo);
        match self.stack.sctp_info(id).map(|info| info.state) {
            Ok(State::CookieWait | State::CookieEchoed) => {
                if nonblocking || p.expired || timeout.is_some_and(|t| t.is_zero()) {
                    return Err(still);
                }
                p.assoc = Some(id);
                p.wait(self.now, timeout)
            }
            Ok(State::Closed) | Err(_) => {
                let error = self.stack.take_any_error(id).map_or(Errno::ECONNREFUSED, Errno::from);
                // A reader may have seen its end before, or another connect().
                if !self.assocs_of(fd).contains(&id) {
                    return Err(error);
                }
                if self.sctp(fd)?.many {
                    self.sctp_leave(fd, id);
                } else {
                    let sock = self.files.sock_mut(fd)?;
                    sock.kind = Kind::Fresh;
                    self.sctp_mut(fd)?.connecting = false;
                    self.files.index(fd);
                    self.stack.close(self.now, id)?;
                }
                Err(error)
            }
            Ok(_) => {
                self.sctp_mut(fd)?.connecting = false;
                Ok(Some(Reply::ok(0)))
            }
        }
    }

    /// SCTP_SOCKOPT_PEELOFF: an association of a one-to-many socket gets a one-to-one socket of its own.
    pub(super) fn sctp_peeloff(&mut self, fd: Fd, assoc: u32) -> Result<Reply, Errno> {
        if !self.sctp(fd)?.many {
            return Err(Errno::EINVAL);
        }
        let id = self.sctp_named(fd, assoc)?;
        let sock = self.files.sock(fd)?.clone();
        let mut child = sock.child(id, false);
        let sctp = self.sctp_mut(fd)?;
        sctp.assocs.retain(|other| *other != id);
        let held = std::mem::take(&mut sctp.held);
        let (own, rest) = held.into_iter().partition(|(of, _)| *of == id);
        sctp.held = rest;
        if let Some(sctp) = &mut child.sctp {
            (sctp.many, sctp.held) = (false, own);
            sctp.assocs.clear();
        }
        self.files.remove_id(id);
        let new = self.files.add(File::Socket(Box::new(child)))?;
        let mut value = assoc.to_le_bytes().to_vec();
        value.extend(new.to_le_bytes());
        Ok(Reply { value: value.into(), ..Reply::ok(new.into()) })
    }

    /// The association that an identifier names: on a one-to-one socket its own, whatever the number (`sctp_id2assoc`).
    pub(super) fn sctp_named(&mut self, fd: Fd, assoc: u32) -> Result<SocketId, Errno> {
        let all = self.assocs_of(fd);
        if !self.sctp(fd)?.many {
            return all.first().copied().ok_or(Errno::EINVAL);
        }
        let ids = &mut self.assoc_ids;
        all.into_iter().find(|id| ids.of(*id) == assoc).ok_or(Errno::EINVAL)
    }

    /// shutdown(2): only of one-to-one sockets, and only sending (`inet_shutdown`, `sctp_shutdown`).
    pub(super) fn sctp_shutdown(&mut self, fd: Fd, how: i32) -> Result<Reply, Errno> {
        if !matches!(how, SHUT_RD | SHUT_WR | SHUT_RDWR) {
            return Err(Errno::EINVAL);
        }
        let sock = self.files.sock(fd)?;
        let Kind::Conn(id) = sock.kind else {
            return Err(if self.sctp(fd)?.many { Errno::EOPNOTSUPP } else { Errno::ENOTCONN });
        };
        if self.stack.sctp_info(id).is_ok_and(|info| info.state == State::Closed) {
            return Err(Errno::ENOTCONN);
        }
        if how != SHUT_RD {
            self.sctp_mut(fd)?.shut = true;
            self.stack.sctp_shutdown(self.now, id)?;
        }
        self.wake_fd(fd, ANY);
        self.wake_blocked(&[]);
        Ok(Reply::ok(0))
    }

    /// close(2): `sctp_close`.
    pub(super) fn sctp_close(&mut self, fd: Fd) -> Result<Reply, Errno> {
        let assocs = self.assocs_of(fd);
        let held = !self.sctp(fd)?.held.is_empty();
        let Some(File::Socket(sock)) = self.files.remove(fd) else { return Err(Errno::EBADF) };
        self.files.each_epoll(|epoll| {
            epoll.forget(fd);
            false
        });
        if let Kind::Listener(id) = sock.kind {
            self.stack.close(self.now, id)?;
        }
        for id in assocs {
            self.files.remove_id(id);
            self.assoc_ids.forget(id);
            // What was taken from the stack and not read is lost like what is still there.
            if held { self.stack.abort(self.now, id)? } else { self.stack.close(self.now, id)? }
        }
        Ok(Reply::ok(0))
    }

    /// getsockname(2).
    pub(super) fn sctp_name(&mut self, fd: Fd) -> Result<Reply, Errno> {
        let sock = self.files.sock(fd)?;
        let live = match sock.kind {
            Kind::Conn(id) => self.stack.local_addr(id).ok(),
            _ => None,
        };
        let any: IpAddr = if sock.v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let bound = self.sctp(fd)?.bound.first().copied();
        let addr = live.or(bound).unwrap_or(SocketAddr::new(any, 0));
        Ok(Reply { addr: Some(sock.shown(addr)), ..Reply::ok(0) })
    }

    /// getpeername(2): only of one-to-one sockets.
    pub(super) fn sctp_peer(&mut self, fd: Fd) -> Result<Reply, Errno> {
        let sock = self.files.sock(fd)?;
        let Kind::Conn(id) = sock.kind else { return Err(Errno::ENOTCONN) };
        let addr = self.stack.peer_addr(id).map_err(|_| Errno::ENOTCONN)?;
        Ok(Reply { addr: Some(sock.shown(addr)), ..Reply::ok(0) })
    }
}

/// What all kinds of sockets have in common.
pub(super) fn shared(options: &mut SctpOptions, all: &SocketOptions) {
    options.sndbuf = all.sndbuf.unwrap_or(options.sndbuf);
    options.rcvbuf = all.rcvbuf.unwrap_or(options.rcvbuf);
    options.linger = all.linger;
    (options.tos, options.ttl) = all.marks(false);
    (options.tclass, options.unicast_hops) = all.marks(true);
}

/// Addresses one behind the other, each as long as its family wants it.
fn addresses(mut bytes: &[u8]) -> Result<Vec<SocketAddr>, Errno> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let addr = layout::sockaddr(bytes).ok_or(Errno::EINVAL)?;
        let len = layout::sockaddr_bytes(addr).len();
        bytes = bytes.get(len..).ok_or(Errno::EINVAL)?;
        all.push(SocketAddr::new(addr.ip().to_canonical(), addr.port()));
        if all.len() > ADDRESSES_MAX {
            return Err(Errno::EINVAL);
        }
    }
    if all.is_empty() { Err(Errno::EINVAL) } else { Ok(all) }
}
