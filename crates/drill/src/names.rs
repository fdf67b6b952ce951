//! The names of the socket interface with Linux's values, and errors under theirs.
use lowwater_core::base::Error;

const CONSTANTS: &[(&str, i64)] = &[
    ("NULL", 0),
    ("AF_INET", 2),
    ("PF_INET", 2),
    ("AF_INET6", 10),
    ("PF_INET6", 10),
    ("AF_UNSPEC", 0),
    ("SOCK_STREAM", 1),
    ("SOCK_DGRAM", 2),
    ("SOCK_NONBLOCK", O_NONBLOCK),
    ("SOCK_CLOEXEC", 0o2_000_000),
    ("IPPROTO_IP", 0),
    ("IPPROTO_TCP", 6),
    ("IPPROTO_UDP", 17),
    ("IPPROTO_IPV6", 41),
    ("SOL_IP", 0),
    ("SOL_SOCKET", 1),
    ("SOL_TCP", 6),
    ("F_GETFL", 3),
    ("F_SETFL", 4),
    ("O_RDWR", O_RDWR),
    ("O_NONBLOCK", O_NONBLOCK),
    ("SHUT_RD", 0),
    ("SHUT_WR", 1),
    ("SHUT_RDWR", 2),
    ("MSG_PEEK", MSG_PEEK),
    ("MSG_DONTWAIT", MSG_DONTWAIT),
    ("MSG_EOR", MSG_EOR),
    ("MSG_NOSIGNAL", MSG_NOSIGNAL),
    ("MSG_MORE", MSG_MORE),
    ("POLLIN", 1),
    ("POLLPRI", 2),
    ("POLLOUT", 4),
    ("POLLERR", 8),
    ("POLLHUP", 16),
    ("POLLRDNORM", 64),
    ("POLLWRNORM", 256),
    ("POLLRDHUP", 0x2000),
    ("SIOCINQ", 0x541b),
    ("FIONREAD", 0x541b),
    ("SIOCOUTQ", 0x5411),
    ("SIOCOUTQNSD", 0x894b),
    ("SOMAXCONN", 4096),
];

/// Socket options by name; the numbers within a level.
pub(crate) const OPTIONS: &[(&str, i64, i64)] = &[
    ("SO_REUSEADDR", 1, 2),
    ("SO_TYPE", 1, 3),
    ("SO_ERROR", 1, 4),
    ("SO_SNDBUF", 1, 7),
    ("SO_RCVBUF", 1, 8),
    ("SO_KEEPALIVE", 1, 9),
    ("SO_LINGER", 1, 13),
    ("SO_REUSEPORT", 1, 15),
    ("SO_MAX_PACING_RATE", 1, 47),
    ("IP_TOS", 0, 1),
    ("IP_TTL", 0, 2),
    ("TCP_NODELAY", 6, 1),
    ("TCP_MAXSEG", 6, 2),
    ("TCP_CORK", 6, 3),
    ("TCP_KEEPIDLE", 6, 4),
    ("TCP_KEEPINTVL", 6, 5),
    ("TCP_KEEPCNT", 6, 6),
    ("TCP_SYNCNT", 6, 7),
    ("TCP_LINGER2", 6, 8),
    ("TCP_WINDOW_CLAMP", 6, 10),
    ("TCP_QUICKACK", 6, 12),
    ("TCP_USER_TIMEOUT", 6, 18),
    ("TCP_NOTSENT_LOWAT", 6, 25),
];

pub(crate) const O_RDWR: i64 = 2;
pub(crate) const O_NONBLOCK: i64 = 0o4000;
pub(crate) const MSG_PEEK: i64 = 2;
pub(crate) const MSG_DONTWAIT: i64 = 0x40;
pub(crate) const MSG_EOR: i64 = 0x80;
pub(crate) const MSG_NOSIGNAL: i64 = 0x4000;
pub(crate) const MSG_MORE: i64 = 0x8000;

/// The value of a name in a call.
pub(crate) fn constant(name: &str) -> Option<i64> {
    let plain = CONSTANTS.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
    plain.or_else(|| OPTIONS.iter().find(|(n, ..)| *n == name).map(|(_, _, v)| *v))
}

/// The name of a socket option.
pub(crate) fn option(level: i64, number: i64) -> Option<&'static str> {
    OPTIONS.iter().find(|(_, l, n)| (*l, *n) == (level, number)).map(|(name, ..)| *name)
}

/// An error as errno names it, with its number.
pub(crate) const fn errno(e: Error) -> (&'static str, i64) {
    match e {
        Error::WouldBlock => ("EAGAIN", 11),
        Error::NoSuchSocket => ("EBADF", 9),
        Error::Invalid => ("EINVAL", 22),
        Error::Unsupported => ("EOPNOTSUPP", 95),
        Error::NotConnected => ("ENOTCONN", 107),
        Error::AlreadyConnected => ("EISCONN", 106),
        Error::AddressInUse => ("EADDRINUSE", 98),
        Error::AddressNotAvailable => ("EADDRNOTAVAIL", 99),
        Error::BrokenPipe => ("EPIPE", 32),
        Error::Refused => ("ECONNREFUSED", 111),
        Error::Reset => ("ECONNRESET", 104),
        Error::Aborted => ("ECONNABORTED", 103),
        Error::TimedOut => ("ETIMEDOUT", 110),
        Error::NoRoute => ("ENETUNREACH", 101),
        Error::HostUnreachable => ("EHOSTUNREACH", 113),
        Error::MessageTooLong => ("EMSGSIZE", 90),
        Error::NoBuffers => ("ENOBUFS", 105),
        Error::NoSuchOption => ("ENOPROTOOPT", 92),
        _ => ("EIO", 5),
    }
}
