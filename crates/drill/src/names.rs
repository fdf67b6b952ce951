//! Names that scripts use in calls: those of the system calls' crate, and some that only scripts need.
use lowwater_posix::{Errno, abi};

/// What is not in the tables of the system calls.
const MORE: &[(&str, i64)] = &[
    ("NULL", 0),
    ("INADDR_ANY", 0),
    ("TCP_INFINITE_SSTHRESH", 0x7fff_ffff),
    ("TCP_CA_OPEN", 0),
    ("TCP_CA_DISORDER", 1),
    ("TCP_CA_RECOVERY", 3),
    ("TCP_CA_LOSS", 4),
    ("SCM_TIMESTAMPING_OPT_STATS", 54),
    ("SCM_TSTAMP_SND", 0),
    ("SCM_TSTAMP_SCHED", 1),
    ("SCM_TSTAMP_ACK", 2),
    ("SO_EE_ORIGIN_NONE", 0),
    ("SO_EE_ORIGIN_LOCAL", 1),
    ("SO_EE_ORIGIN_ICMP", 2),
    ("SO_EE_ORIGIN_ICMP6", 3),
    ("SO_EE_ORIGIN_TIMESTAMPING", 4),
    ("SO_EE_ORIGIN_ZEROCOPY", 5),
    ("SO_EE_CODE_ZEROCOPY_COPIED", 1),
    ("SOF_TIMESTAMPING_TX_HARDWARE", 1),
    ("SOF_TIMESTAMPING_TX_SOFTWARE", 2),
    ("SOF_TIMESTAMPING_RX_HARDWARE", 4),
    ("SOF_TIMESTAMPING_RX_SOFTWARE", 8),
    ("SOF_TIMESTAMPING_SOFTWARE", 0x10),
    ("SOF_TIMESTAMPING_SYS_HARDWARE", 0x20),
    ("SOF_TIMESTAMPING_RAW_HARDWARE", 0x40),
    ("SOF_TIMESTAMPING_OPT_ID", 0x80),
    ("SOF_TIMESTAMPING_TX_SCHED", 0x100),
    ("SOF_TIMESTAMPING_TX_ACK", 0x200),
    ("SOF_TIMESTAMPING_OPT_CMSG", 0x400),
    ("SOF_TIMESTAMPING_OPT_TSONLY", 0x800),
    ("SOF_TIMESTAMPING_OPT_STATS", 0x1000),
];

/// The value of a name in a call.
pub(crate) fn constant(name: &str) -> Option<i64> {
    let more = || MORE.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
    abi::constant(name).or_else(more).or_else(|| errno(name))
}

/// The number of an error.
pub(crate) fn errno(name: &str) -> Option<i64> {
    Errno::from_name(name).map(|e| e.number().into())
}

/// What a message calls a socket option.
pub(crate) fn option(level: i64, number: i64) -> String {
    let prefix = match level {
        0 => "IP_",
        1 => "SO_",
        6 => "TCP_",
        17 => "UDP_",
        41 => "IPV6_",
        _ => "",
    };
    let known = abi::NAMES.iter().find(|(n, v)| !prefix.is_empty() && n.starts_with(prefix) && *v == number);
    known.map_or_else(|| format!("option {number} of level {level}"), |(name, _)| (*name).to_owned())
}
