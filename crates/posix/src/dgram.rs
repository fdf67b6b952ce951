//! UDP sockets: connect, send and receive datagrams (`udp_sendmsg`, `udp_recvmsg`).
use crate::abi::{
    AF_INET, EPOLLOUT, IP_FREEBIND, MSG_DONTWAIT, MSG_ERRQUEUE, MSG_OOB, MSG_PEEK, MSG_PROBE, MSG_TRUNC,
    SO_BINDTODEVICE, SOL_IP, SOL_SOCKET,
};
use crate::block::Progress;
use crate::call::{Call, Fd, Name, RecvKind, Reply, SendKind};
use crate::calls::Answer;
use crate::cmsg;
use crate::errno::Errno;
use crate::files::{Kind, Sock, take_addr};
use crate::host::Host;
use crate::poll::WRITE_SPACE;
use crate::recv::Read;
use crate::send::Write;
use core::net::{Ipv4Addr, SocketAddr};
use lowwater_core::base::{Error, SocketId};
use lowwater_core::udp::BindManner;

/// The longest datagram that anybody may ask for (`udp_sendmsg`).
const LEN_MAX: usize = 0xffff;
/// The longest that packets of each family carry.
const LEN_MAX_V4: usize = LEN_MAX - 20 - 8;
const LEN_MAX_V6: usize = LEN_MAX - 8;

/// AF_INET as addresses have it.
const IN: u16 = AF_INET as u16;

impl Host {
    /// Makes the stack's socket for one that was bound.
    pub(crate) fn bind_udp(&mut self, sock: &mut Sock) -> Result<(), Errno> {
        let bound = sock.bound.ok_or(Errno::EINVAL)?;
        // Who may share a place was asked of the descriptors (`collides`).
        let manner = BindManner {
            shared: true,
            v6_only: sock.v6only(),
            free: sock.plain(SOL_IP, IP_FREEBIND) != 0,
            stays: sock.v6 && bound.is_ipv4(),
        };
        if let Kind::Udp(id) = sock.kind {
            return Ok(self.stack.udp_attach(id, bound, manner)?);
        }
        let id = self.stack.udp_bind_with(self.now, bound, manner)?;
        sock.kind = Kind::Udp(id);
        self.apply_udp_options(sock, id);
        Ok(())
    }

    /// The address that it sends from: what connecting has fixed in IPv4 is for nothing else any more (`ip6_dst_lookup_tail`).
    fn udp_source(&self, sock: &Sock) -> Option<SocketAddr> {
        self.place_of(sock).filter(|place| place.is_ipv4()).or(sock.bound)
    }

    fn udp_id(&mut self, fd: Fd) -> Result<SocketId, Errno> {
        // None is left, which may change (`inet_autobind`).
        self.autobind(fd).map_err(|errno| if errno == Errno::EADDRINUSE { Errno::EAGAIN } else { errno })?;
        self.files.sock(fd)?.kind.id().ok_or(Errno::EINVAL)
    }

    /// connect() of a datagram socket.
    pub(crate) fn udp_connect(&mut self, fd: Fd, name: Name) -> Result<Reply, Errno> {
        if matches!(name, Name::Unspec(..)) {
            return self.udp_disconnect(fd);
        }
        // The port comes first, whatever the address is worth (`inet_dgram_connect`).
        let id = self.udp_id(fd)?;
        let sock = self.files.sock(fd)?;
        let from = self.udp_source(sock);
        let remote = udp_addr(sock, name, Errno::EAFNOSUPPORT)?;
        self.find_device(fd, remote)?;
        let remote = Self::stack_remote(remote, from);
        self.may_reach(from, remote)?;
        self.stack.udp_connect(self.now, id, remote)?;
        Ok(Reply::ok(0))
    }

    /// connect() with AF_UNSPEC: a port that the system chose goes back (`__udp_disconnect`), and so does the device.
    fn udp_disconnect(&mut self, fd: Fd) -> Result<Reply, Errno> {
        let sock = self.files.sock_mut(fd)?;
        sock.knobs.plain.remove(&(SOL_SOCKET, SO_BINDTODEVICE));
        let (kind, chosen) = (sock.kind, sock.chosen);
        let Kind::Udp(id) = kind else { return Ok(Reply::ok(0)) };
        if chosen {
            self.give_port_back(fd)?;
            self.stack.udp_detach(self.now, id)?;
        } else {
            self.stack.udp_connect(self.now, id, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))?;
        }
        Ok(Reply::ok(0))
    }

    pub(crate) fn udp_recv(&mut self, call: &Call, p: &mut Progress) -> Answer {
        let read = Read::of(call)?;
        if read.want == 0 && matches!(read.kind, RecvKind::Read | RecvKind::Readv) {
            return Ok(Some(Reply::ok(0)));
        }
        if read.has(MSG_ERRQUEUE) {
            return self.read_errqueue(&read).map(Some);
        }
        let sock = self.files.sock(read.fd)?;
        let patient = !(p.hurries(sock.nonblocking, None) || read.has(MSG_DONTWAIT));
        let (timeout, shut) = (sock.knobs.rcvtimeo, sock.shut & 1 != 0);
        if let Some(errno) = self.files.sock_mut(read.fd)?.take_error() {
            return Err(errno);
        }
        let got = match self.files.sock(read.fd)?.kind {
            Kind::Udp(id) if read.has(MSG_PEEK) => self.stack.udp_peek_from(self.now, id),
            Kind::Udp(id) => self.stack.udp_recv_from(self.now, id),
            _ => Err(Error::WouldBlock),
        };
        let (data, from) = match got {
            Ok(got) => got,
            Err(Error::WouldBlock) if !patient => return Err(Errno::EAGAIN),
            // Only who would wait is told that nothing will come (`__skb_wait_for_more_packets`).
            Err(Error::WouldBlock) if shut => return Ok(Some(Reply::ok(0))),
            Err(Error::WouldBlock) => return p.wait(self.now, timeout),
            Err(e) => return Err(e.into()),
        };
        let copied = data.len().min(read.want);
        if copied > read.good {
            return Err(Errno::EFAULT);
        }
        let cut = data.len() > copied;
        let ret = if read.has(MSG_TRUNC) { data.len() } else { copied };
        let addr = Some(self.files.sock(read.fd)?.shown(from));
        let msg_flags = if cut { MSG_TRUNC } else { 0 };
        Ok(Some(Reply { data: data.slice(..copied), addr, msg_flags, ..Reply::ok(ret as i64) }))
    }

    /// Each datagram that has left tells whoever watches for edges that there is room, whatever there was before (`sock_wfree`).
    fn tell_of_departure(&mut self, fd: Fd) {
        if self.readiness(fd).is_some_and(|bits| bits & EPOLLOUT != 0) {
            self.wake_fd(fd, WRITE_SPACE);
        }
    }

    /// Whom a call names; of one that names nobody the socket has a peer.
    fn udp_destination(&self, write: &Write, id: SocketId) -> Result<Option<SocketAddr>, Errno> {
        let sock = self.files.sock(write.fd)?;
        let to = match write.to {
            None => None,
            // An AF_INET socket takes it for an AF_INET address, an AF_INET6 one for none.
            Some(Name::Unspec(..)) if sock.v6 => None,
            Some(Name::Unspec(addr, _)) => {
                let addr = addr.ok_or(Errno::EINVAL)?.into();
                Some(Self::stack_remote(addr, self.udp_source(sock)))
            }
            Some(Name::Other(..)) if sock.v6 => return Err(Errno::EINVAL),
            Some(name) => {
                Some(Self::stack_remote(udp_addr(sock, name, Errno::ENETUNREACH)?, self.udp_source(sock)))
            }
        };
        if to.is_some_and(|to| to.port() == 0) {
            return Err(Errno::EINVAL);
        }
        if to.is_none() && self.stack.peer_addr(id).is_err() {
            return Err(Errno::EDESTADDRREQ);
        }
        Ok(to)
    }

    /// IPv4 sends it: for any socket of AF_INET, for one of AF_INET6 by whom the call names, or by its peer.
    fn goes_by_v4(&self, sock: &Sock, write: &Write, id: SocketId) -> bool {
        match write.to {
            _ if !sock.v6 => true,
            None | Some(Name::Unspec(..)) => self.stack.peer_addr(id).is_ok_and(|peer| peer.is_ipv4()),
            Some(name) => !sock.v6only() && is_for_v4(name, self.udp_source(sock)),
        }
    }

    /// What IPv4 asks of a datagram before it looks whom it is for (`udp_sendmsg`); IPv6 asks none of that, but hands over what is for IPv4
    /// (`udpv6_sendmsg`). A peer of IPv4 of an AF_INET6 socket is written to as if by its address, beside AF_UNSPEC.
    fn check_for_v4(&self, sock: &Sock, write: &Write, id: SocketId) -> Result<(), Errno> {
        if write.len > LEN_MAX {
            return Err(Errno::EMSGSIZE);
        }
        let unspec = matches!(write.to, Some(Name::Unspec(..)));
        if write.has(MSG_OOB) && !(sock.v6 && unspec) {
            return Err(Errno::EOPNOTSUPP);
        }
        let by_peer = sock.v6 && (unspec || write.to.is_none());
        let nowhere = by_peer && self.stack.peer_addr(id).is_ok_and(|peer| peer.port() == 0);
        if nowhere { Err(Errno::EINVAL) } else { Ok(()) }
    }

    pub(crate) fn udp_send(&mut self, call: &Call, p: &mut Progress) -> Answer {
        let write = Write::of(call)?;
        // Before anything else (`inet_send_prepare`).
        let id = self.udp_id(write.fd)?;
        let sock = self.files.sock(write.fd)?;
        let patient = !(p.hurries(sock.nonblocking, None) || write.has(MSG_DONTWAIT));
        let (timeout, shut) = (sock.knobs.sndtimeo, sock.shut & 2 != 0);
        // Of IPv6 the length is asked when the packet is made, behind whom it is for (`ip6_append_data`).
        let to_v4 = self.goes_by_v4(sock, &write, id);
        if to_v4 {
            self.check_for_v4(sock, &write, id)?;
        }
        let to = self.udp_destination(&write, id)?;
        if let Call::Send { kind: SendKind::Sendmsg, control, .. } = call {
            cmsg::check(control, (to_v4, sock.v6), |ip| self.is_ours(ip))?;
        }
        if write.is_strange_to(sock) {
            return Err(Errno::EINVAL);
        }
        // Before a pending error and what was shut down (`ip_route_output_flow`, `__ip_append_data`).
        if let Some(to) = to {
            self.may_reach(self.udp_source(sock), to)?;
            self.stack.ip().lookup(None, to.ip(), self.now)?;
        }
        // Whoever asks for the way alone sends nothing, whatever its length (`ip_make_skb`).
        if write.has(MSG_PROBE) {
            return Ok(Some(Reply::ok(write.len as i64)));
        }
        if write.len > if to_v4 { LEN_MAX_V4 } else { LEN_MAX_V6 } {
            return Err(Errno::EMSGSIZE);
        }
        // What is to leave is asked again as it does.
        let fails = shut || write.bad || self.files.sock(write.fd)?.error.is_some();
        if fails && self.stack.udp_fits(self.now, id, to, write.len) == Err(Error::MessageTooLong) {
            return Err(Errno::EMSGSIZE);
        }
        if let Some(errno) = self.files.sock_mut(write.fd)?.take_error() {
            return Err(errno);
        }
        if shut || write.bad {
            return Err(self.udp_refuses(write.fd, id, shut));
        }
        let sent = match to {
            Some(to) => self.stack.udp_send_to(self.now, id, write.data, to),
            None => self.stack.udp_send(self.now, id, write.data),
        };
        match sent {
            Ok(n) => {
                self.tell_of_departure(write.fd);
                Ok(Some(Reply::ok(n as i64)))
            }
            Err(Error::WouldBlock) if !patient => Err(Errno::EAGAIN),
            Err(Error::WouldBlock) => p.wait(self.now, timeout),
            Err(e) => Err(e.into()),
        }
    }

    /// Why nothing is sent by a socket that was shut down, or of data that cannot be read: an error that waits comes first. EPIPE without SIGPIPE:
    /// that is for streams.
    fn udp_refuses(&mut self, fd: Fd, id: SocketId, shut: bool) -> Errno {
        if let Some(error) = self.stack.take_error(id) {
            return error.into();
        }
        if shut {
            return Errno::EPIPE;
        }
        // The packet that was made for it is given up.
        self.tell_of_departure(fd);
        Errno::EFAULT
    }
}

/// An address of IPv4, or one that has its family and too few bytes. For a socket that has an address of IPv4 the unspecified one is that of
/// this host (`udpv6_sendmsg`).
fn is_for_v4(name: Name, from: Option<SocketAddr>) -> bool {
    match name {
        Name::Inet(addr) => Host::stack_remote(addr, from).ip().to_canonical().is_ipv4(),
        Name::Padded(_) | Name::Short(IN, _) => true,
        _ => false,
    }
}

/// An address as datagram sockets take it: those of AF_INET6 take a sockaddr_in too (`udpv6_sendmsg`, `ip6_datagram_connect`), or with
/// IPV6_V6ONLY fail with `v4`.
fn udp_addr(sock: &Sock, name: Name, v4: Errno) -> Result<SocketAddr, Errno> {
    let addr = match name {
        Name::Inet(SocketAddr::V4(_)) | Name::Padded(_) | Name::Short(IN, _) if sock.v6only() => {
            return Err(v4);
        }
        Name::Inet(addr @ SocketAddr::V4(_)) => addr,
        Name::Padded(addr) => addr.into(),
        name => take_addr(sock.v6, name)?,
    };
    if sock.v6only() && addr.is_ipv4() { Err(Errno::ENETUNREACH) } else { Ok(addr) }
}
