//! The addresses of an SCTP socket: bind, sctp_bindx, getsockname, getpeername.
use super::{ADDRESSES_MAX, layout};
use crate::call::{Fd, Name, Reply};
use crate::errno::Errno;
use crate::files::{Kind, Sock, take_addr};
use crate::host::Host;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

impl Host {
    /// bind(2): the first address (`sctp_bind`).
    pub(super) fn sctp_bind(&mut self, fd: Fd, name: Name) -> Result<Reply, Errno> {
        let addr = sctp_addr(self.files.sock(fd)?, name)?;
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
        let before = &self.sctp(fd)?.bound;
        if before.len() >= ADDRESSES_MAX {
            return Err(Errno::EINVAL);
        }
        let port = match (before.first().map(SocketAddr::port), addr.port()) {
            (Some(port), 0) => port,
            (Some(port), wanted) if port != wanted => return Err(Errno::EINVAL),
            (None, 0) => {
                let ips: Vec<IpAddr> =
                    Some(addr.ip()).filter(|ip| !ip.is_unspecified()).into_iter().collect();
                let files = &self.files;
                let taken = |port| is_taken(files, fd, SocketAddr::new(addr.ip(), port));
                self.stack.sctp_free_port(&ips, taken)?
            }
            (_, wanted) => wanted,
        };
        let addr = SocketAddr::new(addr.ip(), port);
        if self.sctp(fd)?.bound.contains(&addr) {
            return Err(Errno::EINVAL);
        }
        if is_taken(&self.files, fd, addr) {
            return Err(Errno::EADDRINUSE);
        }
        let sctp = self.sctp_mut(fd)?;
        sctp.bound.push(addr);
        sctp.named = Some(addr);
        self.files.index(fd);
        Ok(())
    }

    /// SCTP_SOCKOPT_BINDX_REM: one address stays (`sctp_bindx_rem`). Associations keep what they have: without ASCONF nobody could tell
    /// their peers.
    pub(super) fn sctp_unbindx(&mut self, fd: Fd, bytes: &[u8]) -> Result<(), Errno> {
        let addrs = addresses(self.files.sock(fd)?, bytes)?;
        let (mut bound, mut removed) = (self.sctp(fd)?.bound.clone(), Vec::new());
        let failed = addrs.into_iter().find_map(|addr| remove(&mut bound, &mut removed, addr).err());
        let Some(errno) = failed else { return self.sctp_rebind(fd, bound) };
        // Those that were gone are added again, behind the others.
        let sctp = self.sctp_mut(fd)?;
        sctp.named = removed.last().copied().or(sctp.named);
        bound.append(&mut removed);
        sctp.bound = bound;
        Err(errno)
    }

    /// Another list of addresses, of the listener too.
    fn sctp_rebind(&mut self, fd: Fd, bound: Vec<SocketAddr>) -> Result<(), Errno> {
        if let Kind::Listener(id) = self.files.sock(fd)?.kind {
            self.stack.sctp_rebind(id, &bound)?;
        }
        self.sctp_mut(fd)?.bound = bound;
        Ok(())
    }

    /// SCTP_SOCKOPT_BINDX_ADD: addresses one behind the other, all or none; for associations to come.
    pub(super) fn sctp_bindx(&mut self, fd: Fd, bytes: &[u8]) -> Result<(), Errno> {
        let addrs = addresses(self.files.sock(fd)?, bytes)?;
        let sctp = self.sctp(fd)?;
        let (before, named) = (sctp.bound.clone(), sctp.named);
        let added = addrs.into_iter().try_for_each(|addr| self.sctp_add(fd, addr));
        let bound = self.sctp(fd)?.bound.clone();
        if let Err(errno) = added.and_then(|()| self.sctp_rebind(fd, bound)) {
            let sctp = self.sctp_mut(fd)?;
            (sctp.bound, sctp.named) = (before, named);
            self.files.index(fd);
            return Err(errno);
        }
        Ok(())
    }

    /// A socket that was never bound gets a port before it is used, the same for all of its associations (`sctp_autobind`).
    pub(super) fn sctp_autobind(&mut self, fd: Fd) -> Result<(), Errno> {
        if !self.sctp(fd)?.bound.is_empty() {
            return Ok(());
        }
        self.sctp_add(fd, SocketAddr::new(any(self.files.sock(fd)?.v6), 0))
    }

    /// Where the socket is bound: all addresses of the host that it speaks where that is any (`sctp_copy_laddrs`).
    pub(super) fn sctp_bound(&self, fd: Fd) -> Result<Vec<SocketAddr>, Errno> {
        let bound = self.sctp(fd)?.bound.clone();
        let [any] = bound.as_slice() else { return Ok(bound) };
        if !any.ip().is_unspecified() {
            return Ok(bound);
        }
        let sock = self.files.sock(fd)?;
        let own = self.stack.ip().ifaces().candidates().map(|(_, ip, _)| ip);
        let loopback = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let all = loopback.into_iter().chain(own.filter(|ip| !ip.is_loopback()));
        Ok(all.filter(|ip| speaks(sock, *ip)).map(|ip| SocketAddr::new(ip, any.port())).collect())
    }

    /// getsockname(2).
    pub(super) fn sctp_name(&mut self, fd: Fd) -> Result<Reply, Errno> {
        let sock = self.files.sock(fd)?;
        let live = match sock.kind {
            Kind::Conn(id) => self.stack.local_addr(id).ok(),
            _ => None,
        };
        let addr = self.sctp(fd)?.named.or(live).unwrap_or(SocketAddr::new(any(sock.v6), 0));
        Ok(Reply { addr: Some(sock.shown(addr)), ..Reply::ok(0) })
    }

    /// getpeername(2): only of one-to-one sockets.
    pub(super) fn sctp_peer(&mut self, fd: Fd) -> Result<Reply, Errno> {
        let sock = self.files.sock(fd)?;
        let Kind::Conn(id) = sock.kind else { return Err(Errno::ENOTCONN) };
        if self.sctp(fd)?.connecting {
            return Err(Errno::ENOTCONN);
        }
        let addr = self.stack.peer_addr(id).map_err(|_| Errno::ENOTCONN)?;
        Ok(Reply { addr: Some(sock.shown(addr)), ..Reply::ok(0) })
    }
}

/// Takes an address off the list, unless it is the last one.
fn remove(bound: &mut Vec<SocketAddr>, removed: &mut Vec<SocketAddr>, addr: SocketAddr) -> Result<(), Errno> {
    let first = bound.first().filter(|_| bound.len() > 1).ok_or(Errno::EBUSY)?;
    let port = if addr.port() == 0 { first.port() } else { addr.port() };
    let at = bound.iter().position(|one| *one == SocketAddr::new(addr.ip(), port)).ok_or(Errno::EINVAL)?;
    removed.push(bound.remove(at));
    Ok(())
}

/// Another socket is bound there (`sctp_bind_addr_conflict`): of two sockets one of AF_INET6 says whether the families are apart.
fn is_taken(files: &crate::files::Files, fd: Fd, addr: SocketAddr) -> bool {
    let Ok(own) = files.sock(fd) else { return false };
    let meets = |other: &Sock, a: &SocketAddr| {
        let apart = if other.v6 { other.v6only() } else { own.v6only() };
        a.port() == addr.port()
            && !(apart && a.is_ipv4() != addr.is_ipv4())
            && (a.ip() == addr.ip() || a.ip().is_unspecified() || addr.ip().is_unspecified())
    };
    // All addresses of one socket have one port.
    files.at_port(addr.port()).any(|(other, sock)| {
        other != fd && sock.sctp.as_ref().is_some_and(|s| s.bound.iter().any(|a| meets(sock, a)))
    })
}

const fn any(v6: bool) -> IpAddr {
    if v6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) }
}

/// An address of the caller as the stack knows it; that of an AF_INET6 socket may be one of IPv4 as it is (`sctp_inet6_af_supported`).
///
/// # Errors
/// Those of [`take_addr`]; EINVAL for one of IPv4 with IPV6_V6ONLY.
pub(super) fn sctp_addr(sock: &Sock, name: Name) -> Result<SocketAddr, Errno> {
    let addr = match name {
        Name::Inet(addr @ SocketAddr::V4(_)) => addr,
        Name::Padded(addr) => addr.into(),
        _ => {
            let addr = take_addr(sock.v6, name)?;
            SocketAddr::new(addr.ip(), addr.port())
        }
    };
    if sock.v6only() && addr.is_ipv4() { Err(Errno::EINVAL) } else { Ok(addr) }
}

/// The socket can have such addresses and speak to them.
pub(super) fn speaks(sock: &Sock, ip: IpAddr) -> bool {
    if ip.is_ipv4() { !sock.v6only() } else { sock.v6 }
}

/// Addresses one behind the other, each as long as its family wants it.
///
/// # Errors
/// EINVAL for none, too many, what is none, and those of a family that the socket does not speak (`sctp_verify_addr`).
pub(super) fn addresses(sock: &Sock, mut bytes: &[u8]) -> Result<Vec<SocketAddr>, Errno> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let addr = layout::sockaddr(bytes).filter(|addr| sock.v6 || addr.is_ipv4()).ok_or(Errno::EINVAL)?;
        let len = layout::sockaddr_bytes(addr).len();
        bytes = bytes.get(len..).ok_or(Errno::EINVAL)?;
        all.push(SocketAddr::new(addr.ip().to_canonical(), addr.port()));
        if all.len() > ADDRESSES_MAX || !all.iter().all(|addr| speaks(sock, addr.ip())) {
            return Err(Errno::EINVAL);
        }
    }
    if all.is_empty() { Err(Errno::EINVAL) } else { Ok(all) }
}
