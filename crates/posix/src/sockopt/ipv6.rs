//! Options of the level SOL_IPV6 (`do_ipv6_setsockopt`, `do_ipv6_getsockopt`).
use super::ip::pmtudisc;
use super::{Told, Value};
use crate::abi::*;
use crate::call::Fd;
use crate::errno::Errno;
use crate::files::Sock;
use crate::host::Host;
use lowwater_core::base::sysctl::HOP_LIMIT;

/// RFC 8200 section 5.
const LEAST_MTU: i32 = 1_280;

impl Host {
    /// The hop limit of packets where nobody has set one: the route's, once the socket has a peer (`ip6_dst_hoplimit`).
    fn hops_of_route(&self, sock: &Sock) -> u8 {
        let peer = sock.kind.id().and_then(|id| self.stack.peer_addr(id).ok());
        let found = peer.and_then(|peer| self.stack.ip().lookup(None, peer.ip(), self.now).ok());
        found.map(|dst| dst.hops).filter(|hops| *hops != 0).unwrap_or(HOP_LIMIT)
    }

    pub(super) fn get_ipv6(&mut self, fd: Fd, name: i32, len: usize) -> Result<Told, Errno> {
        let sock = self.files.sock(fd)?;
        let options = self.options_of(sock);
        Ok(match name {
            IPV6_TCLASS => Told::Int((options.tclass | self.ect_of(sock)).into()),
            IPV6_MTU_DISCOVER => Told::Int(options.mtu_discover_v6.into()),
            IPV6_UNICAST_HOPS => Told::Int(options.hops.unwrap_or_else(|| self.hops_of_route(sock)).into()),
            IPV6_MINHOPCOUNT => Told::Int(options.min_ttl[1].into()),
            IPV6_MTU => Told::Int(self.path_mtu(sock).ok_or(Errno::ENOTCONN)?),
            IPV6_V6ONLY => Told::Int(sock.v6only().into()),
            _ => match self.get_v6_unbuilt(sock, name, len) {
                Some(told) => told?,
                None => self.get_plain(fd, SOL_IPV6, name)?,
            },
        })
    }

    pub(super) fn set_ipv6(&mut self, fd: Fd, name: i32, value: &Value<'_>) -> Result<(), Errno> {
        if let Some(done) = self.set_v6_unbuilt(fd, name, value) {
            return done;
        }
        let short = value.len() < 4;
        // What a null pointer leads to is 0 (`do_ipv6_setsockopt`).
        let n = if short { 0 } else { value.int().unwrap_or(0) };
        // -1 asks for the default.
        let in_byte = || match n {
            -1 if !short => Ok(None),
            0..=255 if !short => Ok(Some(n as u8)),
            _ => Err(Errno::EINVAL),
        };
        match name {
            IPV6_TCLASS => {
                // TCP keeps the ECN bits to itself.
                let keep = if self.files.sock(fd)?.stream { !3 } else { !0 };
                let tclass = in_byte()?.unwrap_or(0) & keep;
                self.change(fd, |o| o.tclass = tclass)?;
                self.renew_udp(fd)
            }
            IPV6_UNICAST_HOPS => {
                let hops = in_byte()?;
                self.change(fd, |o| o.hops = hops)?;
                self.renew_udp(fd)
            }
            IPV6_MULTICAST_HOPS if self.files.sock(fd)?.stream => Err(Errno::ENOPROTOOPT),
            IPV6_MULTICAST_HOPS => {
                let hops = in_byte()?.map_or(1, i32::from);
                self.set_plain(fd, SOL_IPV6, name, hops)?;
                self.renew_udp(fd)
            }
            IPV6_V6ONLY => {
                if short || self.has_port(self.files.sock(fd)?) {
                    return Err(Errno::EINVAL);
                }
                self.files.sock_mut(fd)?.knobs.plain.insert((SOL_IPV6, IPV6_V6ONLY), i32::from(n != 0));
                Ok(())
            }
            IPV6_MTU if n == 0 && !short => Ok(()),
            // How long fragments may be, and TCP makes none.
            IPV6_MTU if n >= LEAST_MTU && self.files.sock(fd)?.stream => Ok(()),
            IPV6_MTU => Err(Errno::EINVAL),
            IPV6_MTU_DISCOVER | IPV6_MINHOPCOUNT if short => Err(Errno::EINVAL),
            IPV6_DONTFRAG => {
                self.set_plain(fd, SOL_IPV6, name, n)?;
                self.renew_udp(fd)
            }
            IPV6_AUTOFLOWLABEL | IPV6_RECVFRAGSIZE => self.set_plain(fd, SOL_IPV6, name, n),
            _ if short => Self::may_set_plain(SOL_IPV6, name).and(Err(Errno::EINVAL)),
            IPV6_MINHOPCOUNT => {
                let least = u8::try_from(n).map_err(|_| Errno::EINVAL)?;
                self.change(fd, |o| o.min_ttl[1] = least)
            }
            IPV6_MTU_DISCOVER => {
                let n = pmtudisc(n)?;
                self.change(fd, |o| o.mtu_discover_v6 = n)?;
                self.renew_udp(fd)
            }
            IPV6_RECVERR => {
                self.set_plain(fd, SOL_IPV6, name, n)?;
                if n == 0 {
                    self.purge_errqueue(fd)?;
                }
                self.change(fd, |o| o.recverr[1] = n != 0)?;
                self.renew_udp(fd)
            }
            _ => self.set_plain(fd, SOL_IPV6, name, n),
        }
    }
}
