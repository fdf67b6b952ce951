//! Options of SOL_IPV6 whose subject is not built (multicast, anycast, extension headers, flow labels, addresses that change):
//! what they answer is Linux's where nothing is asked for, and where it cannot be had (`do_ipv6_setsockopt`,
//! `do_ipv6_getsockopt`).
use super::{Told, Value};
use crate::abi::*;
use crate::call::Fd;
use crate::errno::Errno;
use crate::files::{Kind, Sock};
use crate::host::Host;
use bytes::Bytes;
use lowwater_core::tcp::State;

/// Flags of IPV6_ADDR_PREFERENCES (RFC 5014 section 3).
const PREFER_TMP: i32 = 0x1;
const PREFER_PUBLIC: i32 = 0x2;
const PREFER_PUBTMP_DEFAULT: i32 = 0x100;
const PREFER_COA: i32 = 0x4;
const PREFER_HOME: i32 = 0x400;
const PREFER_CGA: i32 = 0x8;
const PREFER_NONCGA: i32 = 0x800;
/// What IPV6_ADDR_PREFERENCES is at the start.
pub(super) const PREFER_NOTHING: i32 = PREFER_PUBTMP_DEFAULT | PREFER_HOME;

/// Sizes of `struct ipv6_mreq`, `group_req`, `group_source_req`, `in6_pktinfo`, `ip6_mtuinfo`, `in6_flowlabel_req` and `cmsghdr`.
const MREQ: usize = 20;
const GROUP: usize = 136;
const GROUP_SOURCE: usize = 264;
/// A struct group_filter without a source (`GROUP_FILTER_SIZE(0)`).
const GROUP_FILTER: usize = 144;
const PKTINFO: usize = 20;
const MTUINFO: usize = 32;
const FLOWLABEL: usize = 32;
const CMSG: usize = 16;

/// Option, how long a value must be (else EINVAL), and what a stream socket is told of one that is.
const GROUPS: &[(i32, usize, Errno)] = &[
    (IPV6_ADD_MEMBERSHIP, MREQ, Errno::EPROTO),
    (IPV6_DROP_MEMBERSHIP, MREQ, Errno::EPROTO),
    (IPV6_JOIN_ANYCAST, MREQ, Errno::EADDRNOTAVAIL),
    (IPV6_LEAVE_ANYCAST, MREQ, Errno::ENOENT),
    (MCAST_JOIN_GROUP, GROUP, Errno::EADDRNOTAVAIL),
    (MCAST_LEAVE_GROUP, GROUP, Errno::EADDRNOTAVAIL),
    (MCAST_BLOCK_SOURCE, GROUP_SOURCE, Errno::EADDRNOTAVAIL),
    (MCAST_UNBLOCK_SOURCE, GROUP_SOURCE, Errno::EADDRNOTAVAIL),
    (MCAST_JOIN_SOURCE_GROUP, GROUP_SOURCE, Errno::EADDRNOTAVAIL),
    (MCAST_LEAVE_SOURCE_GROUP, GROUP_SOURCE, Errno::EADDRNOTAVAIL),
    (MCAST_MSFILTER, 0, Errno::EINVAL),
];

/// What is preferred after `n` was asked for: what it does not name begins anew (`ip6_sock_set_addr_preferences`).
fn prefer(n: i32) -> Result<i32, Errno> {
    let lifetime = match n & (PREFER_PUBLIC | PREFER_TMP | PREFER_PUBTMP_DEFAULT) {
        0 => PREFER_PUBTMP_DEFAULT,
        one @ (PREFER_PUBLIC | PREFER_TMP | PREFER_PUBTMP_DEFAULT) => one,
        _ => return Err(Errno::EINVAL),
    };
    let home = match n & (PREFER_HOME | PREFER_COA) {
        0 => PREFER_HOME,
        one @ (PREFER_HOME | PREFER_COA) => one,
        _ => return Err(Errno::EINVAL),
    };
    // Checked, and not remembered.
    if n & (PREFER_CGA | PREFER_NONCGA) == PREFER_CGA | PREFER_NONCGA {
        return Err(Errno::EINVAL);
    }
    Ok(lifetime | home)
}

/// Headers that every packet is to carry: none may be asked for, and others only with a right that nobody has here.
fn sticky_header(name: i32, value: &Value<'_>) -> Result<(), Errno> {
    let len = value.len();
    if len == 0 {
        return Ok(());
    }
    let header = value.bytes().map_err(|_| Errno::EINVAL)?;
    let own = header.get(1).map_or(usize::MAX, |units| (usize::from(*units) + 1) * 8);
    if name == IPV6_RTHDR || !len.is_multiple_of(8) || len > 8 * 255 || own > len {
        Err(Errno::EINVAL)
    } else {
        Err(Errno::EPERM)
    }
}

impl Host {
    /// `None`: the option is none of these.
    pub(super) fn get_v6_unbuilt(&self, sock: &Sock, name: i32, len: usize) -> Option<Result<Told, Errno>> {
        let open = self.is_established(sock);
        Some(match name {
            IPV6_ADDRFORM if open => Ok(Told::Int(AF_INET6)),
            IPV6_ADDRFORM => Err(Errno::ENOTCONN),
            IPV6_2292PKTOPTIONS if !sock.stream => Err(Errno::ENOPROTOOPT),
            IPV6_2292PKTOPTIONS | IPV6_HOPOPTS | IPV6_RTHDRDSTOPTS | IPV6_RTHDR | IPV6_DSTOPTS => {
                Ok(Told::Bytes(Bytes::new()))
            }
            IPV6_PATHMTU if len < MTUINFO => Err(Errno::EINVAL),
            IPV6_PATHMTU => self.path_mtu(sock).ok_or(Errno::ENOTCONN).map(|mtu| {
                // The address before it stays empty.
                let mut info = [0; MTUINFO];
                info[MTUINFO - 4..].copy_from_slice(&mtu.to_ne_bytes());
                Told::copy(&info)
            }),
            // There is no label to tell of.
            IPV6_FLOWLABEL_MGR if len >= FLOWLABEL => Err(Errno::ENOENT),
            // The group that it is asked about is none of IPv6.
            MCAST_MSFILTER if len >= GROUP_FILTER => Err(Errno::EADDRNOTAVAIL),
            IPV6_FLOWLABEL_MGR | MCAST_MSFILTER => Err(Errno::EINVAL),
            _ => return None,
        })
    }

    /// `None`: the option is none of these, or is remembered like others that are one number.
    pub(super) fn set_v6_unbuilt(
        &mut self,
        fd: Fd,
        name: i32,
        value: &Value<'_>,
    ) -> Option<Result<(), Errno>> {
        let (len, n) = (value.len(), value.int().unwrap_or(0));
        let sock = match self.files.sock(fd) {
            Ok(sock) => sock,
            Err(errno) => return Some(Err(errno)),
        };
        if let Some((_, least, errno)) = GROUPS.iter().find(|group| group.0 == name) {
            let device = value.bytes().ok().and_then(|bytes| bytes.get(MREQ - 4..MREQ));
            let errno = match (sock.stream, name, device) {
                (false, ..) => Errno::ENOPROTOOPT,
                // A device that is named is looked for first (`ipv6_sock_ac_join`).
                (true, IPV6_JOIN_ANYCAST, Some(device)) if device != [0; 4] => Errno::ENODEV,
                _ => *errno,
            };
            return Some(Err(if len < *least { Errno::EINVAL } else { errno }));
        }
        Some(match name {
            IPV6_FLOWLABEL_MGR => Err(Errno::EINVAL),
            IPV6_ADDRFORM if len < 4 || n != AF_INET => Err(Errno::EINVAL),
            IPV6_ADDRFORM if !self.is_established(sock) => Err(Errno::ENOTCONN),
            IPV6_ADDRFORM => Err(Errno::EADDRNOTAVAIL),
            IPV6_2292PKTOPTIONS if len == 0 => Ok(()),
            IPV6_2292PKTOPTIONS if len < CMSG => value.bytes().map(|_| ()),
            IPV6_2292PKTOPTIONS => Err(value.bytes().map_or(Errno::EFAULT, |_| Errno::EINVAL)),
            IPV6_HOPOPTS | IPV6_RTHDRDSTOPTS | IPV6_RTHDR | IPV6_DSTOPTS => sticky_header(name, value),
            // A device: the last word of it. Who is bound to one has no other.
            IPV6_PKTINFO => match value.bytes().ok().and_then(|bytes| bytes.get(PKTINFO - 4..PKTINFO)) {
                Some([0, 0, 0, 0]) => Ok(()),
                Some(_) if sock.plain(SOL_SOCKET, SO_BINDTODEVICE) == 0 => Ok(()),
                _ => Err(Errno::EINVAL),
            },
            IPV6_ROUTER_ALERT if len < 4 => Err(Errno::EINVAL),
            IPV6_UNICAST_IF if len != 4 => Err(Errno::EINVAL),
            IPV6_UNICAST_IF if n != 0 => Err(Errno::EADDRNOTAVAIL),
            IPV6_ADDR_PREFERENCES if len < 4 => Err(Errno::EINVAL),
            IPV6_ADDR_PREFERENCES => prefer(n).and_then(|n| self.set_plain(fd, SOL_IPV6, name, n)),
            _ => return None,
        })
    }

    fn is_established(&self, sock: &Sock) -> bool {
        match sock.kind {
            Kind::Conn(id) => matches!(self.stack.tcp_state(id), Ok(State::Established)),
            Kind::Udp(id) => self.stack.peer_addr(id).is_ok(),
            _ => false,
        }
    }
}
