//! Options that are one number: how they are checked and what they are before they are set.
use super::v6_unbuilt::PREFER_NOTHING;
use super::{Told, Value};
use crate::abi::*;
use crate::call::Fd;
use crate::errno::Errno;
use crate::host::Host;

/// What may be written to an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Anything; not 0 reads back as 1.
    Bool,
    /// The same, and what is set stays: EPERM.
    Latch,
    /// Any int.
    Any,
    /// These ints, else EINVAL.
    Range(i32, i32),
    /// Nothing: ENOPROTOOPT, as for an option that does not exist.
    Read,
    /// Nothing; reading tells that there is nobody (ENODATA).
    Nobody,
    /// Nothing, with this error; `None` for the value: reading fails with it too.
    Refused(Errno),
}

/// Level, name, value at the start (`None`: it cannot be read), rule.
type Row = (i32, i32, Option<i32>, Rule);

/// Every option of the levels SOL_SOCKET, SOL_IP and SOL_IPV6 that is remembered or refused and nothing else.
const ROWS: &[Row] = &[
    (SOL_SOCKET, SO_DEBUG, Some(0), Rule::Bool),
    (SOL_SOCKET, SO_REUSEADDR, Some(0), Rule::Bool),
    (SOL_SOCKET, SO_REUSEPORT, Some(0), Rule::Bool),
    (SOL_SOCKET, SO_DONTROUTE, Some(0), Rule::Bool),
    (SOL_SOCKET, SO_BROADCAST, Some(0), Rule::Bool),
    (SOL_SOCKET, SO_NO_CHECK, Some(0), Rule::Bool),
    (SOL_SOCKET, SO_SNDLOWAT, Some(1), Rule::Read),
    (SOL_SOCKET, SO_PASSCRED, None, Rule::Refused(Errno::EOPNOTSUPP)),
    (SOL_SOCKET, SO_PASSSEC, None, Rule::Refused(Errno::EOPNOTSUPP)),
    (SOL_SOCKET, SO_PASSPIDFD, None, Rule::Refused(Errno::EOPNOTSUPP)),
    (SOL_SOCKET, SO_PASSRIGHTS, None, Rule::Refused(Errno::EOPNOTSUPP)),
    (SOL_SOCKET, SO_PEEK_OFF, Some(-1), Rule::Any),
    (SOL_SOCKET, SO_MARK, Some(0), Rule::Any),
    (SOL_SOCKET, SO_RXQ_OVFL, Some(0), Rule::Bool),
    (SOL_SOCKET, SO_WIFI_STATUS, Some(0), Rule::Bool),
    (SOL_SOCKET, SO_ZEROCOPY, Some(0), Rule::Range(0, 1)),
    (SOL_SOCKET, SO_NOFCS, Some(0), Rule::Bool),
    (SOL_SOCKET, SO_LOCK_FILTER, Some(0), Rule::Latch),
    (SOL_SOCKET, SO_SELECT_ERR_QUEUE, Some(0), Rule::Bool),
    (SOL_SOCKET, SO_BUSY_POLL, Some(0), Rule::Range(0, i32::MAX)),
    (SOL_SOCKET, SO_PREFER_BUSY_POLL, Some(0), Rule::Bool),
    (SOL_SOCKET, SO_BPF_EXTENSIONS, Some(64), Rule::Read),
    (SOL_SOCKET, SO_INCOMING_CPU, Some(-1), Rule::Any),
    (SOL_SOCKET, SO_INCOMING_NAPI_ID, Some(0), Rule::Read),
    (SOL_SOCKET, SO_BUF_LOCK, Some(0), Rule::Range(0, 3)),
    (SOL_SOCKET, SO_RESERVE_MEM, Some(0), Rule::Refused(Errno::EOPNOTSUPP)),
    (SOL_SOCKET, SO_TXREHASH, Some(1), Rule::Range(0, 1)),
    (SOL_SOCKET, SO_RCVMARK, Some(0), Rule::Bool),
    (SOL_SOCKET, SO_RCVPRIORITY, Some(0), Rule::Bool),
    (SOL_SOCKET, SO_PEERGROUPS, None, Rule::Nobody),
    (SOL_SOCKET, SO_PEERPIDFD, None, Rule::Nobody),
    (SOL_SOCKET, SO_BINDTOIFINDEX, Some(0), Rule::Range(0, 0)),
    (SOL_IP, IP_HDRINCL, Some(0), Rule::Read),
    (SOL_IP, IP_NODEFRAG, Some(0), Rule::Read),
    (SOL_IP, IP_ROUTER_ALERT, Some(0), Rule::Refused(Errno::EINVAL)),
    (SOL_IP, IP_RECVOPTS, Some(0), Rule::Bool),
    (SOL_IP, IP_RETOPTS, Some(0), Rule::Bool),
    (SOL_IP, IP_PKTINFO, Some(0), Rule::Bool),
    (SOL_IP, IP_RECVERR, Some(0), Rule::Bool),
    (SOL_IP, IP_RECVTTL, Some(0), Rule::Bool),
    (SOL_IP, IP_RECVTOS, Some(0), Rule::Bool),
    (SOL_IP, IP_FREEBIND, Some(0), Rule::Bool),
    (SOL_IP, IP_TRANSPARENT, Some(0), Rule::Bool),
    (SOL_IP, IP_RECVORIGDSTADDR, Some(0), Rule::Bool),
    (SOL_IP, IP_CHECKSUM, Some(0), Rule::Bool),
    (SOL_IP, IP_BIND_ADDRESS_NO_PORT, Some(0), Rule::Bool),
    (SOL_IP, IP_RECVERR_RFC4884, Some(0), Rule::Range(0, 1)),
    (SOL_IP, IP_MULTICAST_LOOP, Some(1), Rule::Bool),
    (SOL_IP, IP_MULTICAST_TTL, Some(1), Rule::Range(0, 255)),
    (SOL_IP, IP_MULTICAST_IF, Some(0), Rule::Refused(Errno::EINVAL)),
    (SOL_IP, IP_RECVFRAGSIZE, Some(0), Rule::Bool),
    (SOL_IP, IP_UNICAST_IF, Some(0), Rule::Range(0, 0)),
    (SOL_IP, IP_PROTOCOL, Some(0), Rule::Read),
    (SOL_IPV6, IPV6_RECVERR, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_RECVPKTINFO, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_RECVHOPLIMIT, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_RECVTCLASS, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_DONTFRAG, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_AUTOFLOWLABEL, Some(1), Rule::Bool),
    (SOL_IPV6, IPV6_FREEBIND, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_TRANSPARENT, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_MULTICAST_LOOP, Some(1), Rule::Range(0, 1)),
    (SOL_IPV6, IPV6_MULTICAST_HOPS, Some(1), Rule::Range(0, 255)),
    (SOL_IPV6, IPV6_MULTICAST_IF, Some(0), Rule::Read),
    (SOL_IPV6, IPV6_FLOWINFO_SEND, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_2292HOPLIMIT, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_FLOWINFO, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_MULTICAST_ALL, Some(1), Rule::Bool),
    (SOL_IPV6, IPV6_RECVERR_RFC4884, Some(0), Rule::Range(0, 1)),
    (SOL_IPV6, IPV6_RECVHOPOPTS, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_RECVRTHDR, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_RECVDSTOPTS, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_RECVPATHMTU, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_RECVORIGDSTADDR, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_RECVFRAGSIZE, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_2292PKTINFO, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_2292HOPOPTS, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_2292DSTOPTS, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_2292RTHDR, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_ROUTER_ALERT, Some(0), Rule::Read),
    (SOL_IPV6, IPV6_ROUTER_ALERT_ISOLATE, Some(0), Rule::Bool),
    (SOL_IPV6, IPV6_UNICAST_IF, Some(0), Rule::Range(0, 0)),
    (SOL_IPV6, IPV6_ADDR_PREFERENCES, Some(PREFER_NOTHING), Rule::Any),
    (SOL_TCP, TCP_SAVE_SYN, Some(0), Rule::Range(0, 2)),
    (SOL_TCP, TCP_INQ, Some(0), Rule::Range(0, 1)),
    (SOL_TCP, TCP_IS_MPTCP, Some(0), Rule::Read),
    (SOL_TCP, TCP_REPAIR, Some(0), Rule::Refused(Errno::EPERM)),
    (SOL_TCP, TCP_REPAIR_QUEUE, None, Rule::Refused(Errno::EPERM)),
    (SOL_TCP, TCP_REPAIR_WINDOW, None, Rule::Refused(Errno::EPERM)),
    (SOL_TCP, TCP_REPAIR_OPTIONS, None, Rule::Refused(Errno::EINVAL)),
    (SOL_TCP, TCP_QUEUE_SEQ, None, Rule::Refused(Errno::EINVAL)),
    (SOL_TCP, TCP_TIMESTAMP, Some(0), Rule::Refused(Errno::EPERM)),
];

/// Flags of the socket that both families have a name for (`do_ipv6_setsockopt`: `inet_assign_bit`): they are remembered under IPv4's.
const fn of_both(level: i32, name: i32) -> (i32, i32) {
    match (level, name) {
        (SOL_IPV6, IPV6_FREEBIND) => (SOL_IP, IP_FREEBIND),
        (SOL_IPV6, IPV6_TRANSPARENT) => (SOL_IP, IP_TRANSPARENT),
        other => other,
    }
}

fn row(level: i32, name: i32) -> Result<&'static Row, Errno> {
    ROWS.iter().find(|row| (row.0, row.1) == (level, name)).ok_or(Errno::ENOPROTOOPT)
}

impl Host {
    /// There is such an option, whether it can be written or not.
    pub(super) fn knows_plain(level: i32, name: i32) -> bool {
        row(level, name).is_ok()
    }

    /// Such an option exists and can be written.
    pub(super) fn may_set_plain(level: i32, name: i32) -> Result<(), Errno> {
        match row(level, name)?.3 {
            Rule::Read | Rule::Nobody => Err(Errno::ENOPROTOOPT),
            _ => Ok(()),
        }
    }

    /// Reads an option that is one number.
    pub(super) fn get_plain(&self, fd: Fd, level: i32, name: i32) -> Result<Told, Errno> {
        let (_, _, start, rule) = row(level, name)?;
        let set = self.files.sock(fd)?.knobs.plain.get(&of_both(level, name)).copied();
        match (start, rule) {
            (Some(start), _) => Ok(Told::Int(set.unwrap_or(*start))),
            (None, Rule::Refused(Errno::EPERM | Errno::EINVAL)) => Err(Errno::EINVAL),
            (None, Rule::Refused(errno)) => Err(*errno),
            (None, Rule::Nobody) => Err(Errno::ENODATA),
            (None, _) => Err(Errno::ENOPROTOOPT),
        }
    }

    /// Checks and remembers an option that is one number.
    pub(super) fn set_plain(&mut self, fd: Fd, level: i32, name: i32, n: i32) -> Result<(), Errno> {
        let (.., rule) = row(level, name)?;
        let value = match *rule {
            Rule::Latch if n == 0 && self.files.sock(fd)?.plain(level, name) != 0 => {
                return Err(Errno::EPERM);
            }
            Rule::Bool | Rule::Latch => i32::from(n != 0),
            Rule::Any => n,
            Rule::Range(low, high) if (low..=high).contains(&n) => n,
            Rule::Range(..) => return Err(Errno::EINVAL),
            Rule::Read | Rule::Nobody => return Err(Errno::ENOPROTOOPT),
            Rule::Refused(errno) => return Err(errno),
        };
        self.files.sock_mut(fd)?.knobs.plain.insert(of_both(level, name), value);
        if (level, name) == (SOL_SOCKET, SO_NO_CHECK) { self.renew_udp(fd) } else { Ok(()) }
    }

    /// As [`Host::set_plain`], of an option that must be an int.
    pub(super) fn set_plain_int(
        &mut self,
        fd: Fd,
        level: i32,
        name: i32,
        value: &Value<'_>,
    ) -> Result<(), Errno> {
        self.set_plain(fd, level, name, value.int()?)
    }
}
