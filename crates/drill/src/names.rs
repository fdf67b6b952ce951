//! Names that scripts use in calls: those of the system calls' crate, and some that only scripts need.
use lowwater_core::base::near::distance;
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
    ("TCPI_ECN_MODE_DISABLED", 0),
    ("TCPI_ECN_MODE_RFC3168", 1),
    ("TCPI_ECN_MODE_ACCECN", 2),
    ("TCPI_ECN_MODE_PENDING", 3),
    ("TCP_ACCECN_OPT_NOT_SEEN", 0),
    ("TCP_ACCECN_OPT_EMPTY_SEEN", 1),
    ("TCP_ACCECN_OPT_COUNTER_SEEN", 2),
    ("TCP_ACCECN_OPT_FAIL_SEEN", 3),
    ("TCP_ACCECN_ACE_FAIL_SEND", 1),
    ("TCP_ACCECN_ACE_FAIL_RECV", 2),
    ("TCP_ACCECN_OPT_FAIL_SEND", 4),
    ("TCP_ACCECN_OPT_FAIL_RECV", 8),
    ("SCM_TSTAMP_COMPLETION", 3),
    ("SO_EE_ORIGIN_TXTIME", 6),
    ("IPV6_PMTUDISC_DONT", 0),
    ("IPV6_PMTUDISC_WANT", 1),
    ("IPV6_PMTUDISC_DO", 2),
    ("IPV6_PMTUDISC_PROBE", 3),
    ("IPV6_PMTUDISC_INTERFACE", 4),
    ("IPV6_PMTUDISC_OMIT", 5),
];

/// What libsctp and Linux's <linux/sctp.h> have for calls and options that the stack answers without knowing these names.
#[rustfmt::skip]
const SCTP: &[(&str, i64)] = &[
    ("SCTP_SENDV_NOINFO", 0), ("SCTP_SENDV_SNDINFO", 1), ("SCTP_SENDV_PRINFO", 2), ("SCTP_SENDV_AUTHINFO", 3),
    ("SCTP_SENDV_SPA", 4), ("SCTP_SEND_SNDINFO_VALID", 1), ("SCTP_SEND_PRINFO_VALID", 2), ("SCTP_SEND_AUTHINFO_VALID", 4),
    ("SCTP_RECVV_NOINFO", 0), ("SCTP_RECVV_RCVINFO", 1), ("SCTP_RECVV_NXTINFO", 2), ("SCTP_RECVV_RN", 3),
    ("SCTP_SS_FCFS", 0), ("SCTP_SS_DEFAULT", 0), ("SCTP_SS_PRIO", 1), ("SCTP_SS_RR", 2),
    ("SCTP_ENABLE_RESET_STREAM_REQ", 1), ("SCTP_ENABLE_RESET_ASSOC_REQ", 2), ("SCTP_ENABLE_CHANGE_ASSOC_REQ", 4),
    ("SCTP_STREAM_RESET_INCOMING", 1), ("SCTP_STREAM_RESET_OUTGOING", 2), ("SCTP_STREAM_RESET_INCOMING_SSN", 1),
    ("SCTP_STREAM_RESET_OUTGOING_SSN", 2), ("SCTP_STREAM_RESET_DENIED", 4), ("SCTP_STREAM_RESET_FAILED", 8),
    ("SCTP_ASSOC_RESET_DENIED", 4), ("SCTP_ASSOC_RESET_FAILED", 8), ("SCTP_ASSOC_CHANGE_DENIED", 4),
    ("SCTP_ASSOC_CHANGE_FAILED", 8), ("SCTP_AUTH_HMAC_ID_SHA1", 1), ("SCTP_AUTH_HMAC_ID_SHA256", 3),
    ("SCTP_AUTH_NEW_KEY", 0), ("SCTP_AUTH_NEWKEY", 0), ("SCTP_AUTH_FREE_KEY", 1), ("SCTP_AUTH_NO_AUTH", 2),
    ("SCTP_ADAPTION_INDICATION", 0x8007),
];

/// Attributes of SCM_TIMESTAMPING_OPT_STATS.
#[rustfmt::skip]
const ATTRIBUTES: &[(&str, i64)] = &[
    ("TCP_NLA_PAD", 0), ("TCP_NLA_BUSY", 1), ("TCP_NLA_RWND_LIMITED", 2), ("TCP_NLA_SNDBUF_LIMITED", 3),
    ("TCP_NLA_DATA_SEGS_OUT", 4), ("TCP_NLA_TOTAL_RETRANS", 5), ("TCP_NLA_PACING_RATE", 6),
    ("TCP_NLA_DELIVERY_RATE", 7), ("TCP_NLA_SND_CWND", 8), ("TCP_NLA_REORDERING", 9), ("TCP_NLA_MIN_RTT", 10),
    ("TCP_NLA_RECUR_RETRANS", 11), ("TCP_NLA_DELIVERY_RATE_APP_LMT", 12), ("TCP_NLA_SNDQ_SIZE", 13),
    ("TCP_NLA_CA_STATE", 14), ("TCP_NLA_SND_SSTHRESH", 15), ("TCP_NLA_DELIVERED", 16), ("TCP_NLA_DELIVERED_CE", 17),
    ("TCP_NLA_BYTES_SENT", 18), ("TCP_NLA_BYTES_RETRANS", 19), ("TCP_NLA_DSACK_DUPS", 20), ("TCP_NLA_REORD_SEEN", 21),
    ("TCP_NLA_SRTT", 22), ("TCP_NLA_TIMEOUT_REHASH", 23), ("TCP_NLA_BYTES_NOTSENT", 24), ("TCP_NLA_EDT", 25),
    ("TCP_NLA_TTL", 26), ("TCP_NLA_REHASH", 27),
];

/// The rest of packetdrill's table: what no call here knows, so that a script is refused for what it asks and not for a name.
#[rustfmt::skip]
const FOREIGN: &[(&str, i64)] = &[
    ("O_ACCMODE", 3), ("O_CREAT", 64), ("O_EXCL", 128), ("O_NOCTTY", 256), ("O_TRUNC", 512),
    ("F_GETLK", 5), ("F_SETLK", 6), ("F_SETLKW", 7), ("F_SETSIG", 10), ("F_GETSIG", 11), ("F_GETLK64", 5),
    ("F_SETLK64", 6), ("F_SETLKW64", 7), ("F_SETLEASE", 1024), ("F_GETLEASE", 1025), ("F_NOTIFY", 1026),
    ("LOCK_SH", 1), ("LOCK_EX", 2), ("LOCK_NB", 4), ("LOCK_UN", 8), ("F_RDLCK", 0), ("F_WRLCK", 1), ("F_UNLCK", 2),
    ("F_EXLCK", 4), ("F_SHLCK", 8), ("SEEK_SET", 0), ("SEEK_CUR", 1), ("SEEK_END", 2), ("MSG_PROXY", 16),
    ("POLLREMOVE", 4096), ("SO_SECURITY_AUTHENTICATION", 22), ("SO_SECURITY_ENCRYPTION_TRANSPORT", 23),
    ("SO_SECURITY_ENCRYPTION_NETWORK", 24), ("TCP_COOKIE_TRANSACTIONS", 15), ("IPPROTO_ICMPV6", 58),
    ("INADDR_LOOPBACK", 2130706433), ("ESRCH", 3), ("EIO", 5), ("ENXIO", 6), ("E2BIG", 7), ("ENOEXEC", 8),
    ("ECHILD", 10), ("ENOTBLK", 15), ("EXDEV", 18), ("ENOTDIR", 20), ("EISDIR", 21), ("ENFILE", 23), ("ETXTBSY", 26),
    ("EFBIG", 27), ("ENOSPC", 28), ("EROFS", 30), ("EMLINK", 31), ("ERANGE", 34), ("ENAMETOOLONG", 36),
    ("ENOLCK", 37), ("ENOTEMPTY", 39), ("ENOMSG", 42), ("EIDRM", 43), ("ECHRNG", 44), ("ENOSTR", 60), ("ETIME", 62),
    ("ENOSR", 63), ("ENONET", 64), ("ENOPKG", 65), ("EREMOTE", 66), ("ENOLINK", 67), ("EADV", 68), ("ESRMNT", 69),
    ("ECOMM", 70), ("EPROTO", 71), ("EMULTIHOP", 72), ("EDOTDOT", 73), ("EBADMSG", 74), ("EOVERFLOW", 75),
    ("ENOTUNIQ", 76), ("EBADFD", 77), ("EREMCHG", 78), ("EILSEQ", 84), ("ERESTART", 85), ("ESTRPIPE", 86),
    ("EUSERS", 87), ("EPFNOSUPPORT", 96), ("ENETRESET", 102), ("ESHUTDOWN", 108), ("ETOOMANYREFS", 109),
    ("EHOSTDOWN", 112), ("ESTALE", 116), ("EUCLEAN", 117), ("EREMOTEIO", 121), ("EDQUOT", 122), ("ECANCELED", 125),
    ("ENOKEY", 126), ("EKEYEXPIRED", 127), ("EKEYREVOKED", 128), ("EKEYREJECTED", 129), ("EOWNERDEAD", 130),
    ("ENOTRECOVERABLE", 131), ("ERFKILL", 132), ("EHWPOISON", 133), ("IPPROTO_RAW", 255), ("SOL_MPTCP", 284), ("SCM_TS_OPT_ID", 81),
    ("EDEADLOCK", 35), ("EL2NSYNC", 45), ("EL3HLT", 46), ("EL3RST", 47), ("ELNRNG", 48), ("EUNATCH", 49),
    ("ENOCSI", 50), ("EL2HLT", 51), ("EBADE", 52), ("EBADR", 53), ("EXFULL", 54), ("ENOANO", 55), ("EBADRQC", 56),
    ("EBADSLT", 57), ("EBFONT", 59), ("ELIBACC", 79), ("ELIBBAD", 80), ("ELIBSCN", 81), ("ELIBMAX", 82),
    ("ELIBEXEC", 83), ("ENOTNAM", 118), ("ENAVAIL", 119), ("EISNAM", 120), ("ENOMEDIUM", 123), ("EMEDIUMTYPE", 124),
];

/// What cap_set() takes: kinds of sets, privileges, what becomes of them.
#[rustfmt::skip]
const PRIVILEGES: &[(&str, i64)] = &[
    ("CAP_EFFECTIVE", 0), ("CAP_PERMITTED", 1), ("CAP_INHERITABLE", 2), ("CAP_CLEAR", 0), ("CAP_SET", 1),
    ("CAP_CHOWN", 0), ("CAP_DAC_OVERRIDE", 1), ("CAP_DAC_READ_SEARCH", 2), ("CAP_FOWNER", 3), ("CAP_FSETID", 4),
    ("CAP_KILL", 5), ("CAP_SETGID", 6), ("CAP_SETUID", 7), ("CAP_SETPCAP", 8), ("CAP_LINUX_IMMUTABLE", 9),
    ("CAP_NET_BIND_SERVICE", 10), ("CAP_NET_BROADCAST", 11), ("CAP_NET_ADMIN", 12), ("CAP_NET_RAW", 13),
    ("CAP_IPC_LOCK", 14), ("CAP_IPC_OWNER", 15), ("CAP_SYS_MODULE", 16), ("CAP_SYS_RAWIO", 17),
    ("CAP_SYS_CHROOT", 18), ("CAP_SYS_PTRACE", 19), ("CAP_SYS_PACCT", 20), ("CAP_SYS_ADMIN", 21),
    ("CAP_SYS_BOOT", 22), ("CAP_SYS_NICE", 23), ("CAP_SYS_RESOURCE", 24), ("CAP_SYS_TIME", 25),
    ("CAP_SYS_TTY_CONFIG", 26), ("CAP_MKNOD", 27), ("CAP_LEASE", 28), ("CAP_AUDIT_WRITE", 29),
    ("CAP_AUDIT_CONTROL", 30), ("CAP_SETFCAP", 31), ("CAP_MAC_OVERRIDE", 32), ("CAP_MAC_ADMIN", 33),
    ("CAP_SYSLOG", 34), ("CAP_WAKE_ALARM", 35), ("CAP_BLOCK_SUSPEND", 36), ("CAP_AUDIT_READ", 37),
    ("CAP_PERFMON", 38), ("CAP_BPF", 39), ("CAP_CHECKPOINT_RESTORE", 40),
];

/// The value of a name in a call.
pub(crate) fn constant(name: &str) -> Option<i64> {
    let more = || {
        MORE.iter()
            .chain(SCTP)
            .chain(ATTRIBUTES)
            .chain(FOREIGN)
            .chain(PRIVILEGES)
            .find(|(n, _)| *n == name)
            .map(|(_, v)| *v)
    };
    abi::constant(name).or_else(more).or_else(|| errno(name))
}

/// The name of an attribute of SCM_TIMESTAMPING_OPT_STATS.
pub(crate) fn attribute(number: u16) -> Option<&'static str> {
    ATTRIBUTES.iter().find(|(_, n)| *n == i64::from(number)).map(|(name, _)| *name)
}

/// The number of an error, also of one that no call here answers with.
pub(crate) fn errno(name: &str) -> Option<i64> {
    let foreign = || FOREIGN.iter().find(|(n, _)| *n == name).filter(|_| name.starts_with('E'));
    Errno::from_name(name).map(|e| e.number().into()).or_else(|| foreign().map(|(_, number)| *number))
}

/// Names of errors that a wrong one may have been meant for, the nearest first.
pub(crate) fn near_errnos(name: &str) -> Vec<&'static str> {
    near(name, &Errno::ALL.iter().map(|errno| errno.name()).collect::<Vec<_>>())
}

/// What a message calls the value of SO_ERROR.
pub(crate) fn error(number: i64) -> String {
    let known = i32::try_from(number).ok().and_then(Errno::from_number);
    known.map_or_else(|| number.to_string(), |errno| format!("{errno} ({number})"))
}

/// What a message calls a socket option.
pub(crate) fn option(level: i64, number: i64) -> String {
    let prefix = match level {
        0 => "IP_",
        1 => "SO_",
        6 => "TCP_",
        17 => "UDP_",
        132 => "SCTP_",
        41 => "IPV6_",
        _ => "",
    };
    let known = abi::NAMES.iter().find(|(n, v)| !prefix.is_empty() && n.starts_with(prefix) && *v == number);
    known.map_or_else(|| format!("option {number} of level {level}"), |(name, _)| (*name).to_owned())
}

/// Names that are offered for one that is wrong.
const NEAR_MAX: usize = 3;

/// Most names that are offered because they begin alike.
const FAMILY_MAX: usize = 6;

/// Letters of a word that stands for names that contain it.
const WORD_MIN: usize = 3;

/// Those of `all` that contain `name` or are the least letters away from it, the nearest first; where more than a third of its letters would
/// have to be others, something else was meant (`select` is no misspelt `splice`).
pub(crate) fn near<'n>(name: &str, all: &[&'n str]) -> Vec<&'n str> {
    // In another order and cut short, too: `retrans_tot` is in `total_retrans`.
    let words = || name.split('_').filter(|word| word.len() >= WORD_MIN);
    let is_whole = name.split('_').all(|word| word.len() >= WORD_MIN) && name.contains('_');
    let contains = |known: &str| {
        name.len() >= WORD_MIN && known.contains(name) || is_whole && words().all(|word| known.contains(word))
    };
    let letters = |known: &str| if contains(known) { 0 } else { distance(name, known) };
    let mut all: Vec<(usize, &str)> = all.iter().map(|known| (letters(known), *known)).collect();
    all.retain(|(letters, _)| *letters <= (name.len() / 3).max(1));
    all.sort_unstable();
    all.into_iter().take(NEAR_MAX).map(|(_, known)| known).collect()
}

/// What a message says after `wrong`, of names that may have been meant; nothing where there are none.
pub(crate) fn told(near: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = near.iter().map(AsRef::as_ref).collect();
    if names.is_empty() { String::new() } else { format!("; near it: {}", names.join(", ")) }
}

/// The names of values that a wrong one may have been meant for, the nearest first: a quarter of its letters may be others.
pub(crate) fn near_constants(name: &str) -> Vec<&'static str> {
    let tables = [abi::NAMES, MORE, SCTP, ATTRIBUTES, FOREIGN, PRIVILEGES];
    let all: Vec<&str> = tables.iter().flat_map(|table| table.iter().map(|(known, _)| *known)).collect();
    let upper = name.to_ascii_uppercase();
    let mut near = near(&upper, &all);
    near.dedup();
    near.retain(|known| distance(&upper, known) <= (name.len() / 4).max(1));
    if near.is_empty() { family(&upper, &all) } else { near }
}

/// Names that begin as a wrong one does, up to its last word, where they are few: those of `TCP_CA_` for `TCP_CA_FOO`.
fn family<'n>(name: &str, all: &[&'n str]) -> Vec<&'n str> {
    let Some((begin, _)) = name.rsplit_once('_').filter(|(begin, _)| begin.contains('_')) else {
        return Vec::new();
    };
    let is_of = |known: &&&str| known.strip_prefix(begin).is_some_and(|rest| rest.starts_with('_'));
    let mut found: Vec<&str> = Vec::new();
    for known in all.iter().filter(is_of) {
        // TCP_CA_Open is TCP_CA_OPEN.
        if !found.iter().any(|f| f.eq_ignore_ascii_case(known)) {
            found.push(known);
        }
    }
    if found.len() <= FAMILY_MAX { found } else { Vec::new() }
}

/// What a message says of a name that has no value.
pub(crate) fn unknown(name: &str) -> String {
    format!("the name '{name}' is not known{}", told(&near_constants(name)))
}

/// Bits under the names that begin with `prefix`, as `EPOLLIN|EPOLLOUT`; what has no name stands at the end.
pub(crate) fn bits(prefix: &str, value: u32) -> String {
    let mut rest = value;
    let mut words = Vec::new();
    // Behind an underscore stand other things: EPOLL_CTL_ADD.
    let is_bit = |name: &str| name.strip_prefix(prefix).is_some_and(|rest| !rest.starts_with('_'));
    for (name, bit) in abi::NAMES.iter().filter(|(name, _)| is_bit(name)) {
        let bit = *bit as u32;
        if bit.is_power_of_two() && rest & bit != 0 {
            words.push((*name).to_owned());
            rest &= !bit;
        }
    }
    if rest != 0 || words.is_empty() {
        words.push(if rest == 0 { "0".to_owned() } else { format!("{rest:#x}") });
    }
    words.join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_told_the_nearest() {
        assert_eq!(near_constants("TCP_NOTSENT_LOWATER")[0], "TCP_NOTSENT_LOWAT");
        assert_eq!(near_constants("so_sndbuff")[0], "SO_SNDBUF");
        assert!(near("select", &["splice", "socket"]).is_empty());
        assert_eq!(near("cwnd", &["snd_cwnd", "rto", "rcv_wnd"])[0], "snd_cwnd", "a word of it");
        assert_eq!(near("retrans_tot", &["total_retrans", "retransmits"])[0], "total_retrans", "its words");
        assert!(
            unknown("TCP_CA_FOO").contains("; near it: TCP_CA_Open, TCP_CA_Disorder"),
            "{}",
            unknown("TCP_CA_FOO")
        );
        assert_eq!(near_errnos("ECONREFUSED"), ["ECONNREFUSED"]);
        assert!(unknown("TCP_NODELAYED").contains("; near it: TCP_NODELAY"));
        assert_eq!(unknown("QUUX_OF_NOTHING"), "the name 'QUUX_OF_NOTHING' is not known");
    }

    #[test]
    fn bits_have_their_names() {
        assert_eq!(bits("EPOLL", 0x14), "EPOLLOUT|EPOLLHUP");
        assert_eq!(bits("EPOLL", 0x8000_0001), "EPOLLIN|EPOLLET");
        assert_eq!(bits("EPOLL", 0x4001), "EPOLLIN|0x4000");
        assert_eq!(bits("EPOLL", 0), "0");
    }
}
