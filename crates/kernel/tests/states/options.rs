//! Options that are asked for in every state, and those that are not.
use crate::life::Drawn;
use lowwater_posix::abi::*;

/// Options that differ on purpose: level, name (`options_matrix`, linux-differences.md).
pub(crate) const LEFT_OUT: &[(i32, i32)] = &[
    (SOL_SOCKET, SO_ATTACH_BPF),
    (SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF),
    (SOL_SOCKET, SO_BINDTOIFINDEX),
    (SOL_IP, IP_OPTIONS),
    (SOL_IP, IP_LOCAL_PORT_RANGE),
    (SOL_TCP, TCP_MD5SIG),
    (SOL_TCP, TCP_MD5SIG_EXT),
    (SOL_TCP, TCP_REPAIR),
    (SOL_TCP, TCP_TX_DELAY),
    (SOL_IP, IP_MULTICAST_IF),
    (SOL_IP, IP_MULTICAST_TTL),
    (SOL_SOCKET, SO_BINDTODEVICE),
    (SOL_IPV6, IPV6_ADDRFORM),
    (SOL_SOCKET, SO_ATTACH_FILTER),
    (SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF),
    (SOL_IP, IP_PASSSEC),
    (SOL_IP, IP_MULTICAST_ALL),
    (SOL_IPV6, IPV6_MULTICAST_IF),
    (SOL_IPV6, IPV6_MULTICAST_HOPS),
    (SOL_TCP, TCP_REPAIR_OPTIONS),
    (SOL_TCP, TCP_REPAIR_WINDOW),
    (SOL_TCP, TCP_REPAIR_QUEUE),
    (SOL_TCP, TCP_AO_ADD_KEY),
    (SOL_TCP, TCP_AO_DEL_KEY),
    (SOL_TCP, TCP_AO_INFO),
    (SOL_TCP, TCP_AO_GET_KEYS),
    (SOL_TCP, TCP_NOTSENT_LOWAT),
    (SOL_TCP, TCP_AO_REPAIR),
    (SOL_SOCKET, SO_RESERVE_MEM),
    (SOL_SOCKET, SO_PEERPIDFD),
    (SOL_TCP, TCP_ZEROCOPY_RECEIVE),
    (SOL_TCP, TCP_RTO_MAX_MS),
    (SOL_TCP, TCP_RTO_MIN_US),
    (SOL_TCP, TCP_DELACK_MAX_US),
    (SOL_IP, IP_PROTOCOL),
    (SOL_IPV6, IPV6_HOPOPTS),
    (SOL_IPV6, IPV6_RTHDRDSTOPTS),
    (SOL_IPV6, IPV6_RTHDR),
    (SOL_IPV6, IPV6_DSTOPTS),
    (SOL_IPV6, IPV6_2292PKTOPTIONS),
];
/// Options of datagrams that are remembered only: no control message tells of one.
pub(crate) const NOT_OF_DATAGRAMS: &[(i32, i32)] = &[
    (SOL_SOCKET, SO_PEEK_OFF),
    (SOL_IPV6, IPV6_MTU),
    (SOL_SOCKET, SO_ZEROCOPY),
    (SOL_SOCKET, SO_TIMESTAMP),
    (SOL_SOCKET, SO_TIMESTAMPNS),
    (SOL_SOCKET, SO_TIMESTAMPING),
    (SOL_SOCKET, SO_TIMESTAMP_NEW),
    (SOL_SOCKET, SO_TIMESTAMPNS_NEW),
    (SOL_SOCKET, SO_TIMESTAMPING_NEW),
    (SOL_SOCKET, SO_RXQ_OVFL),
    (SOL_SOCKET, SO_RCVMARK),
    (SOL_SOCKET, SO_RCVPRIORITY),
    (SOL_SOCKET, SO_WIFI_STATUS),
    (SOL_IP, IP_PKTINFO),
    (SOL_IP, IP_RECVTTL),
    (SOL_IP, IP_RECVTOS),
    (SOL_IP, IP_RECVOPTS),
    (SOL_IP, IP_RETOPTS),
    (SOL_IP, IP_RECVORIGDSTADDR),
    (SOL_IP, IP_CHECKSUM),
    (SOL_IP, IP_RECVFRAGSIZE),
    (SOL_IPV6, IPV6_RECVPKTINFO),
    (SOL_IPV6, IPV6_RECVHOPLIMIT),
    (SOL_IPV6, IPV6_RECVTCLASS),
    (SOL_IPV6, IPV6_FLOWINFO),
    (SOL_IPV6, IPV6_2292PKTINFO),
    (SOL_IPV6, IPV6_2292HOPLIMIT),
    (SOL_IPV6, IPV6_RECVORIGDSTADDR),
    (SOL_IPV6, IPV6_RECVFRAGSIZE),
    (SOL_IPV6, IPV6_JOIN_ANYCAST),
    (SOL_IPV6, IPV6_LEAVE_ANYCAST),
    (SOL_IPV6, IPV6_ADD_MEMBERSHIP),
    (SOL_IPV6, IPV6_DROP_MEMBERSHIP),
    (SOL_IPV6, MCAST_JOIN_GROUP),
    (SOL_IPV6, MCAST_LEAVE_GROUP),
    (SOL_IPV6, MCAST_BLOCK_SOURCE),
    (SOL_IPV6, MCAST_UNBLOCK_SOURCE),
    (SOL_IPV6, MCAST_JOIN_SOURCE_GROUP),
    (SOL_IPV6, MCAST_LEAVE_SOURCE_GROUP),
    (SOL_IPV6, MCAST_MSFILTER),
];
const IP_PASSSEC: i32 = 18;
const IP_MULTICAST_ALL: i32 = 49;

/// Names that begin as those of TCP's options do: of states, and of a control message.
const NO_OPTIONS: [&str; 12] = [
    "TCP_ESTABLISHED",
    "TCP_SYN_SENT",
    "TCP_SYN_RECV",
    "TCP_FIN_WAIT1",
    "TCP_FIN_WAIT2",
    "TCP_TIME_WAIT",
    "TCP_CLOSE",
    "TCP_CLOSE_WAIT",
    "TCP_LAST_ACK",
    "TCP_LISTEN",
    "TCP_CLOSING",
    "TCP_CM_INQ",
];

impl Drawn {
    pub(crate) fn options(&self) -> Vec<(i32, i32)> {
        let level = |name: &str| match name {
            _ if name.starts_with("SO_EE") || name.starts_with("SOF_") => None,
            _ if name.starts_with("SO_") => Some(SOL_SOCKET),
            _ if name.starts_with("IP_PMTUDISC") => None,
            _ if name.starts_with("IP_") => Some(SOL_IP),
            _ if name.starts_with("IPV6_") || name.starts_with("MCAST_") => Some(SOL_IPV6),
            _ if name.starts_with("TCP_CA_") => None,
            _ if name.starts_with("TCP_") => Some(SOL_TCP),
            _ => None,
        };
        let mut all: Vec<(i32, i32)> = NAMES
            .iter()
            .filter(|(name, _)| !NO_OPTIONS.contains(name))
            .filter_map(|(name, value)| Some((level(name)?, *value as i32)))
            .filter(|option| {
                !LEFT_OUT.contains(option) && (self.stream || !NOT_OF_DATAGRAMS.contains(option))
            })
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
