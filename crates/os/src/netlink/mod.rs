//! The kernel's side of a device: up, MTU, queue length, addresses and routes, by rtnetlink instead of `ip`.
mod addresses;
mod diag;
mod msg;
mod routes;
mod watch;

pub use addresses::{Held, addresses};
pub use diag::SockDiag;
pub use routes::route_metrics;
pub(crate) use watch::LinkWatch;

use crate::error::SetupError;
use core::time::Duration;
use msg::{
    Answer, Message, NLM_F_CREATE, NLM_F_DUMP_INTR, NLM_F_EXCL, NLM_F_REPLACE, NLMSG_DONE, NLMSG_ERROR,
};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use std::cell::{Cell, RefCell};
use std::net::IpAddr;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const IFA_F_NODAD: u32 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
/// Length of `struct ifinfomsg`.
const IFINFO_LEN: usize = 16;
/// Offset of the flags in it.
const IFINFO_FLAGS: usize = 8;
/// Offset of the type in `struct rtmsg`.
const RTMSG_TYPE: usize = 7;
/// Looks for the route of a new IPv6 address, which takes well under a millisecond on an idle machine.
const LOCAL_WAITS_MAX: usize = 2_000;
/// Time between two looks.
const LOCAL_WAIT: Duration = Duration::from_millis(1);
/// Datagrams read for one request: leftovers of others, ours, and of a list (addresses of all devices) up to 8 KiB each.
const ANSWERS_MAX: usize = 64;

/// A network device of the kernel in the namespace of the thread that looked it up, as an administrator sees it.
///
/// Every setting takes effect at once. The `Link` holds a socket of that namespace, so that it works from any thread.
#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
    seq: Cell<u32>,
    index: u32,
    name: String,
    /// IPv6 addresses that begin to work when the device is up.
    waiting: RefCell<Vec<IpAddr>>,
}

/// Every device of IPv4 takes so much (RFC 791 section 3.2).
pub(crate) const MTU_MIN: u32 = 68;

impl Link {
    /// The device called `name` in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`SetupError::NoSuchLink`], or [`SetupError::Os`] when the process is out of descriptors.
    pub fn by_name(name: &str) -> Result<Self, SetupError> {
        let (socket, lookup) = sockets()?;
        let index = rustix::net::netdevice::name_to_index(&lookup, name)
            .map_err(|_| SetupError::NoSuchLink { name: name.into() })?;
        Ok(Self { socket, seq: Cell::new(0), index, name: name.into(), waiting: RefCell::default() })
    }

    /// The device's index.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the device up, so that it carries packets.
    ///
    /// # Errors
    /// [`SetupError::NotPermitted`] without CAP_NET_ADMIN in the namespace; [`SetupError::Os`] otherwise.
    pub fn up(&self) -> Result<(), SetupError> {
        self.link(format!("setting {} up", self.name), libc::IFF_UP as u32, |_| {})?;
        for ip in self.waiting.take() {
            self.await_local(ip);
        }
        Ok(())
    }

    /// Sets the device down.
    ///
    /// # Errors
    /// As [`Link::up`].
    pub fn down(&self) -> Result<(), SetupError> {
        self.link(format!("setting {} down", self.name), 0, |_| {})
    }

    /// The MTU in bytes, without the link header; needs no privileges.
    ///
    /// # Errors
    /// [`SetupError::NoSuchLink`] when the device is gone.
    pub fn mtu(&self) -> Result<u32, SetupError> {
        let mtu = self.ask(|body| number(msg::find_attr(body.get(IFINFO_LEN..)?, IFLA_MTU)?));
        mtu?.ok_or_else(|| SetupError::NoSuchLink { name: self.name.clone() })
    }

    /// The Ethernet address; `None` where the device has none, as a TUN. Needs no privileges.
    ///
    /// # Errors
    /// [`SetupError::NoSuchLink`] when the device is gone.
    pub fn ethernet(&self) -> Result<Option<[u8; 6]>, SetupError> {
        self.ask(|body| msg::find_attr(body.get(IFINFO_LEN..)?, IFLA_ADDRESS)?.try_into().ok())
    }

    /// Whether the device is up; needs no privileges.
    ///
    /// # Errors
    /// [`SetupError::NoSuchLink`] when the device is gone.
    pub fn is_up(&self) -> Result<bool, SetupError> {
        let flags = self.ask(|body| number(body.get(IFINFO_FLAGS..)?))?;
        Ok(flags.unwrap_or(0) & libc::IFF_UP as u32 != 0)
    }

    /// Sets the MTU in bytes, without the link header.
    ///
    /// # Errors
    /// As [`Link::up`]; an MTU outside the driver's range (68 to 65,535 for TUN and TAP) gives EINVAL.
    pub fn set_mtu(&self, mtu: u32) -> Result<(), SetupError> {
        let doing = format!("setting the MTU of {} to {mtu}", self.name);
        self.attribute(doing, |m| _ = m.attr_u32(IFLA_MTU, mtu))
    }

    /// Sets the number of packets that wait in the device towards the stack.
    ///
    /// # Errors
    /// As [`Link::up`].
    pub fn set_txqueuelen(&self, packets: u32) -> Result<(), SetupError> {
        let doing = format!("setting the queue length of {}", self.name);
        self.attribute(doing, |m| _ = m.attr_u32(IFLA_TXQLEN, packets))
    }

    /// Renames the device, which must be down.
    ///
    /// # Errors
    /// As [`Link::up`].
    pub fn rename(&mut self, name: &str) -> Result<(), SetupError> {
        let nul_terminated = [name.as_bytes(), b"\0"].concat();
        let doing = format!("renaming {} to {name}", self.name);
        self.attribute(doing, |m| _ = m.attr(IFLA_IFNAME, &nul_terminated))?;
        self.name = name.into();
        Ok(())
    }

    /// Gives the kernel's side an address; its prefix becomes a route to the device. IPv6 addresses have
    /// duplicate detection switched off and work when this, or on a device that is down [`Link::up`], returns.
    ///
    /// # Errors
    /// As [`Link::up`]; EEXIST when the device has the address already.
    pub fn add_address(&self, ip: IpAddr, prefix: u8) -> Result<(), SetupError> {
        if ip.is_ipv6() {
            self.allow_ipv6();
        }
        let doing = format!("adding address {ip}/{prefix} to {}", self.name);
        self.request(doing, libc::RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, |m| {
            m.u8(family(ip)).u8(prefix).u8(0).u8(0).u32(self.index);
            m.attr_ip(IFA_LOCAL, ip).attr_ip(IFA_ADDRESS, ip);
            if ip.is_ipv6() {
                m.attr_u32(IFA_FLAGS, IFA_F_NODAD);
            }
        })?;
        if ip.is_ipv6() {
            if self.is_up()? { self.await_local(ip) } else { self.waiting.borrow_mut().push(ip) }
        }
        Ok(())
    }

    /// Whether the device has an address with this prefix; needs no privileges.
    ///
    /// # Errors
    /// As [`addresses()`].
    pub fn has_address(&self, ip: IpAddr, prefix: u8) -> Result<bool, SetupError> {
        let held = addresses::held(&self.socket, &self.seq)?;
        Ok(held.contains(&(self.index, ip, prefix)))
    }

    /// Takes an address away.
    ///
    /// # Errors
    /// As [`Link::up`]; EADDRNOTAVAIL when the device has no such address.
    pub fn remove_address(&self, ip: IpAddr, prefix: u8) -> Result<(), SetupError> {
        let doing = format!("removing address {ip}/{prefix} from {}", self.name);
        self.request(doing, libc::RTM_DELADDR, 0, |m| {
            m.u8(family(ip)).u8(prefix).u8(0).u8(0).u32(self.index);
            m.attr_ip(IFA_LOCAL, ip);
        })
    }

    /// Routes `to`/`prefix` through the device, by gateway `via` or directly; replaces an equal route.
    /// The device must be up.
    ///
    /// # Errors
    /// As [`Link::up`].
    pub fn add_route(&self, to: IpAddr, prefix: u8, via: Option<IpAddr>) -> Result<(), SetupError> {
        self.route(to, prefix, via, NLM_F_REPLACE)
    }

    /// As [`Link::add_route`], but an equal route stays, and is an error.
    ///
    /// # Errors
    /// As [`Link::up`].
    pub fn add_new_route(&self, to: IpAddr, prefix: u8, via: Option<IpAddr>) -> Result<(), SetupError> {
        self.route(to, prefix, via, NLM_F_EXCL)
    }

    fn route(&self, to: IpAddr, prefix: u8, via: Option<IpAddr>, equal: u16) -> Result<(), SetupError> {
        let doing = format!("routing {to}/{prefix} through {}", self.name);
        let scope = if via.is_some() { libc::RT_SCOPE_UNIVERSE } else { libc::RT_SCOPE_LINK };
        self.request(doing, libc::RTM_NEWROUTE, NLM_F_CREATE | equal, |m| {
            m.u8(family(to)).u8(prefix).u8(0).u8(0).u8(libc::RT_TABLE_MAIN).u8(libc::RTPROT_STATIC);
            m.u8(scope).u8(libc::RTN_UNICAST).u32(0);
            if prefix > 0 {
                m.attr_ip(RTA_DST, network(to, prefix));
            }
            if let Some(via) = via {
                m.attr_ip(RTA_GATEWAY, via);
            }
            m.attr_u32(RTA_OIF, self.index);
        })
    }

    /// Deletes the device.
    ///
    /// # Errors
    /// As [`Link::up`]; EOPNOTSUPP for devices that cannot be deleted, such as `lo`.
    pub fn delete(self) -> Result<(), SetupError> {
        self.request(format!("deleting {}", self.name), libc::RTM_DELLINK, 0, |m| self.ifinfo(m, 0, 0))
    }

    fn link(&self, doing: String, flags: u32, more: impl FnOnce(&mut Message)) -> Result<(), SetupError> {
        self.request(doing, libc::RTM_NEWLINK, 0, |m| {
            self.ifinfo(m, flags, libc::IFF_UP as u32);
            more(m);
        })
    }

    fn attribute(&self, doing: String, more: impl FnOnce(&mut Message)) -> Result<(), SetupError> {
        self.request(doing, libc::RTM_NEWLINK, 0, |m| {
            self.ifinfo(m, 0, 0);
            more(m);
        })
    }

    /// What `find` sees in the kernel's description of the device.
    fn ask<T>(&self, find: impl Fn(&[u8]) -> Option<T>) -> Result<Option<T>, SetupError> {
        let (doing, mut found) = (format!("asking about {}", self.name), None);
        let take = |kind, body: &[u8]| {
            if kind == libc::RTM_NEWLINK {
                found = find(body);
            }
        };
        self.request_with(doing, (libc::RTM_GETLINK, 0), |m| self.ifinfo(m, 0, 0), take)?;
        Ok(found)
    }

    /// Waits until packets to `ip` are the kernel's own: it makes the route of an IPv6 address in the background, even
    /// without duplicate detection, and drops what comes before. Whatever takes longer than the bound is not our doing.
    fn await_local(&self, ip: IpAddr) {
        for _ in 0..LOCAL_WAITS_MAX {
            let mut local = false;
            let ask = |m: &mut Message| {
                m.u8(family(ip)).u8(128).u8(0).u8(0).u8(0).u8(0).u8(0).u8(0).u32(0).attr_ip(RTA_DST, ip);
            };
            let take = |kind, body: &[u8]| {
                local |= kind == libc::RTM_NEWROUTE && body.get(RTMSG_TYPE) == Some(&libc::RTN_LOCAL);
            };
            let asked = self.request_with("asking for a route".into(), (libc::RTM_GETROUTE, 0), ask, take);
            if local || asked.is_err() {
                return;
            }
            std::thread::sleep(LOCAL_WAIT);
        }
    }

    /// `struct ifinfomsg`.
    fn ifinfo(&self, m: &mut Message, flags: u32, change: u32) {
        m.u8(0).u8(0).u16(0).u32(self.index).u32(flags).u32(change);
    }

    /// Containers often start with IPv6 off; where the setting cannot be written, adding the address says so.
    fn allow_ipv6(&self) {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", self.name), "0");
    }

    fn request(
        &self,
        doing: String,
        kind: u16,
        flags: u16,
        body: impl FnOnce(&mut Message),
    ) -> Result<(), SetupError> {
        self.request_with(doing, (kind, flags), body, |_, _| {})
    }

    /// Sends a request and hands every answer before the acknowledgement to `take`, as type and body.
    fn request_with(
        &self,
        doing: String,
        (kind, flags): (u16, u16),
        body: impl FnOnce(&mut Message),
        mut take: impl FnMut(u16, &[u8]),
    ) -> Result<(), SetupError> {
        let seq = self.seq.get().wrapping_add(1);
        self.seq.set(seq);
        let mut message = Message::new(kind, flags, seq);
        body(&mut message);
        match exchange(&self.socket, &message.finish(), seq, &mut take) {
            Ok(()) => Ok(()),
            Err(Errno::NODEV) => Err(SetupError::NoSuchLink { name: self.name.clone() }),
            Err(e) => Err(SetupError::from_errno(doing, e)),
        }
    }
}

/// A netlink socket for routing, and one for looking names up.
fn sockets() -> Result<(OwnedFd, OwnedFd), SetupError> {
    let failed = |e| SetupError::from_errno("opening a netlink socket", e);
    let (netlink, raw) = (AddressFamily::NETLINK, SocketType::RAW);
    // Protocol 0 is NETLINK_ROUTE.
    let socket = socket_with(netlink, raw, SocketFlags::CLOEXEC, None).map_err(failed)?;
    let lookup =
        socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).map_err(failed)?;
    Ok((socket, lookup))
}

/// Sends a request and hands what comes before its acknowledgement, or before the end of a list, to `take`. EINTR for a list of what has
/// changed meanwhile.
fn exchange(
    socket: &OwnedFd,
    message: &[u8],
    seq: u32,
    take: &mut dyn FnMut(u16, &[u8]),
) -> Result<(), Errno> {
    sendto(socket, message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    answered(socket, seq, take)
}

fn answered(socket: &OwnedFd, seq: u32, take: &mut dyn FnMut(u16, &[u8])) -> Result<(), Errno> {
    let mut bytes = [0u8; 8192];
    let mut changed = false;
    for _ in 0..ANSWERS_MAX {
        let (len, _) = rustix::io::retry_on_intr(|| recv(socket, &mut bytes, RecvFlags::empty()))?;
        for Answer { kind, flags, body } in msg::answers(&bytes[..len], seq) {
            changed |= flags & NLM_F_DUMP_INTR != 0;
            match (kind, msg::error_code(body)) {
                (NLMSG_DONE, None | Some(0)) if changed => return Err(Errno::INTR),
                (NLMSG_DONE, None) | (NLMSG_DONE | NLMSG_ERROR, Some(0)) => return Ok(()),
                (NLMSG_DONE | NLMSG_ERROR, code) => {
                    return Err(code.map_or(Errno::PROTO, Errno::from_raw_os_error));
                }
                _ => take(kind, body),
            }
        }
    }
    Err(Errno::PROTO)
}

fn number(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*value.first_chunk::<4>()?))
}

const fn family(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

/// `ip` with the host's bits cleared, which the kernel insists on in routes.
fn network(ip: IpAddr, prefix: u8) -> IpAddr {
    match ip {
        IpAddr::V4(a) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
            IpAddr::V4((u32::from(a) & mask).into())
        }
        IpAddr::V6(a) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            IpAddr::V6((u128::from(a) & mask).into())
        }
    }
}

#[cfg(test)]
mod tests;
