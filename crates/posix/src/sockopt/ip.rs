//! Options of the level SOL_IP (`do_ip_setsockopt`, `do_ip_getsockopt`).
use super::{Told, Value};
use crate::abi::*;
use crate::call::Fd;
use crate::errno::Errno;
use crate::files::{Kind, Sock};
use crate::host::Host;
use bytes::Bytes;
use lowwater_core::qdisc::of_tos;
use lowwater_core::udp::MtuDiscovery;

/// IP_MTU_DISCOVER and IPV6_MTU_DISCOVER; IPV6_DONTFRAG refuses besides what would be fragmented here (`__ip6_append_data`).
pub(super) fn discovery(sock: &Sock, v6: bool) -> MtuDiscovery {
    let discover = if v6 { sock.options.mtu_discover_v6 } else { sock.options.mtu_discover };
    let whole = v6 && sock.plain(SOL_IPV6, IPV6_DONTFRAG) != 0;
    match i32::from(discover) {
        IP_PMTUDISC_DO => MtuDiscovery::Do,
        IP_PMTUDISC_PROBE => MtuDiscovery::Probe,
        IP_PMTUDISC_INTERFACE => MtuDiscovery::Interface,
        IP_PMTUDISC_OMIT if whole => MtuDiscovery::Interface,
        IP_PMTUDISC_OMIT => MtuDiscovery::Omit,
        IP_PMTUDISC_DONT if whole => MtuDiscovery::Refuse,
        _ if whole => MtuDiscovery::Do,
        IP_PMTUDISC_DONT => MtuDiscovery::Dont,
        _ => MtuDiscovery::Want,
    }
}

/// A value of IP_MTU_DISCOVER or IPV6_MTU_DISCOVER, from IP_PMTUDISC_DONT to IP_PMTUDISC_OMIT.
pub(super) fn pmtudisc(n: i32) -> Result<u8, Errno> {
    if (IP_PMTUDISC_DONT..=IP_PMTUDISC_OMIT).contains(&n) { Ok(n as u8) } else { Err(Errno::EINVAL) }
}

/// What a stream socket is told before the value is read (`do_ip_setsockopt`).
const fn refused_of_stream(name: i32) -> Option<Errno> {
    match name {
        IP_MULTICAST_IF => Some(Errno::EINVAL),
        IP_ADD_MEMBERSHIP | IP_DROP_MEMBERSHIP => Some(Errno::EPROTO),
        _ => None,
    }
}

/// A struct ip_mreq: the group and the address of a device.
const MREQ: usize = 8;

/// What a datagram socket is told that asks for a group: it can be in none here (`ip_mc_join_group`, `ip_mc_leave_group`).
fn membership(name: i32, value: &Value<'_>) -> Errno {
    if value.len() < MREQ {
        return Errno::EINVAL;
    }
    match value.bytes() {
        Err(errno) => errno,
        Ok(_) if name == IP_DROP_MEMBERSHIP => Errno::EADDRNOTAVAIL,
        Ok(group) if group[0] >> 4 != 0xe => Errno::EINVAL,
        Ok(_) => Errno::ENOPROTOOPT,
    }
}

/// An int, or one byte, or nothing for zero.
fn number(value: &Value<'_>) -> Result<i32, Errno> {
    match value.len() {
        0 => Ok(0),
        1..4 => Ok(value.bytes()?.first().copied().unwrap_or(0).into()),
        _ => value.int(),
    }
}

impl Host {
    pub(super) fn get_ip(&mut self, fd: Fd, name: i32) -> Result<Told, Errno> {
        let sock = self.files.sock(fd)?;
        let options = self.options_of(sock);
        Ok(match name {
            IP_TOS => Told::Int((options.tos | self.ect_of(sock)).into()),
            IP_MTU_DISCOVER => Told::Int(options.mtu_discover.into()),
            IP_TTL if options.ttl != 0 => Told::Int(options.ttl.into()),
            IP_TTL => Told::Int(self.stack.sysctl().ip_default_ttl as i32),
            IP_MINTTL => Told::Int(options.min_ttl[0].into()),
            IP_MTU => Told::Int(self.path_mtu(sock).ok_or(Errno::ENOTCONN)?),
            IP_PKTOPTIONS if !sock.stream => return Err(Errno::ENOPROTOOPT),
            IP_OPTIONS | IP_PKTOPTIONS => Told::Bytes(Bytes::new()),
            // A struct in_addr, of which as much is told as there is room for.
            IP_MULTICAST_IF => Told::copy(&[0; 4]),
            // Of any but raw sockets the port (`inet_num`).
            IP_PROTOCOL => Told::Int(self.port_of(sock).into()),
            _ => self.get_plain(fd, SOL_IP, name)?,
        })
    }

    /// ECT(0) of a connection that sent data last: TCP writes it where the option lies, at both levels (`INET_ECN_xmit`).
    pub(super) fn ect_of(&self, sock: &Sock) -> u8 {
        match sock.kind {
            Kind::Conn(id) if self.stack.tcp_last_capable(id) == Ok(true) => 2,
            _ => 0,
        }
    }

    /// MTU of the path that a connected socket knows.
    pub(super) fn path_mtu(&self, sock: &Sock) -> Option<i32> {
        match sock.kind {
            Kind::Conn(id) | Kind::Udp(id) => self.stack.path_mtu(id).ok().map(i32::from),
            _ => None,
        }
    }

    pub(super) fn set_ip(&mut self, fd: Fd, name: i32, value: &Value<'_>) -> Result<(), Errno> {
        if self.files.sock(fd)?.stream
            && let Some(errno) = refused_of_stream(name)
        {
            return Err(errno);
        }
        if let IP_ADD_MEMBERSHIP | IP_DROP_MEMBERSHIP = name {
            return Err(membership(name, value));
        }
        let n = number(value).map_err(|errno| {
            // What does not exist is not read (`do_ip_setsockopt`).
            let own = [IP_TOS, IP_TTL, IP_OPTIONS, IP_MINTTL, IP_MTU_DISCOVER, IP_MULTICAST_TTL];
            let known = own.contains(&name) || (name != IP_PROTOCOL && Self::knows_plain(SOL_IP, name));
            if known { errno } else { Errno::ENOPROTOOPT }
        })?;
        match name {
            IP_TOS => {
                // TCP keeps the ECN bits to itself (`__ip_sock_set_tos`).
                let keep = if self.files.sock(fd)?.stream { !3 } else { !0 };
                self.change(fd, |o| {
                    let tos = n as u8 & keep;
                    // One that changes takes its priority along (`__ip_sock_set_tos`).
                    o.priority = if tos == o.tos { o.priority } else { Some(of_tos(tos).into()) };
                    o.tos = tos;
                })?;
                self.renew_udp(fd)
            }
            IP_TTL => {
                let empty = value.len() == 0;
                let ttl = match n {
                    -1 => 0,
                    1..=255 if !empty => n as u8,
                    _ => return Err(Errno::EINVAL),
                };
                self.change(fd, |o| o.ttl = ttl)?;
                self.renew_udp(fd)
            }
            IP_OPTIONS if value.len() == 0 => Ok(()),
            IP_MTU | IP_OPTIONS | IP_PKTOPTIONS => Err(Errno::ENOPROTOOPT),
            IP_RECVFRAGSIZE | IP_MULTICAST_TTL if self.files.sock(fd)?.stream => Err(Errno::EINVAL),
            IP_MULTICAST_TTL if value.len() == 0 => Err(Errno::EINVAL),
            IP_MULTICAST_TTL => {
                self.set_plain(fd, SOL_IP, name, if n == -1 { 1 } else { n })?;
                self.renew_udp(fd)
            }
            IP_UNICAST_IF if value.len() != 4 => Err(Errno::EINVAL),
            IP_UNICAST_IF if n != 0 => Err(Errno::EADDRNOTAVAIL),
            IP_FREEBIND | IP_TRANSPARENT | IP_MINTTL | IP_MULTICAST_LOOP if value.len() == 0 => {
                Err(Errno::EINVAL)
            }
            IP_MINTTL => {
                let least = u8::try_from(n).map_err(|_| Errno::EINVAL)?;
                self.change(fd, |o| o.min_ttl[0] = least)
            }
            IP_MTU_DISCOVER => {
                let n = pmtudisc(n)?;
                self.change(fd, |o| o.mtu_discover = n)?;
                self.renew_udp(fd)
            }
            IP_RECVERR => {
                self.set_plain(fd, SOL_IP, name, n)?;
                if n == 0 {
                    self.purge_errqueue(fd)?;
                }
                self.change(fd, |o| o.recverr[0] = n != 0)?;
                self.renew_udp(fd)
            }
            _ => self.set_plain(fd, SOL_IP, name, n),
        }
    }

    /// The port that a socket has, 0 where it has given it back.
    fn port_of(&self, sock: &Sock) -> u16 {
        if !self.has_port(sock) {
            return 0;
        }
        let live =
            sock.kind.id().filter(|_| !sock.knobs.past.rebound).and_then(|id| self.stack.local_addr(id).ok());
        live.or(sock.bound).map_or(0, |addr| addr.port())
    }

    /// Hands a UDP socket's options to the stack again.
    pub(super) fn renew_udp(&mut self, fd: Fd) -> Result<(), Errno> {
        let sock = self.files.sock(fd)?.clone();
        if let Kind::Udp(id) = sock.kind {
            self.apply_udp_options(&sock, id);
        }
        Ok(())
    }
}
