//! Errors of system calls under Linux's names, with the numbers of x86-64 and aarch64.
use core::fmt;
use lowwater_core::base::Error;

macro_rules! errnos {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        /// What errno says after a call that returned -1.
        #[allow(clippy::upper_case_acronyms, reason = "errno(3)'s names")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i32)]
        pub enum Errno { $($(#[$doc])* $name = $number,)* }

        impl Errno {
            /// All of them, by number.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The name, as errno(3) has it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }
        }
    };
}

errnos! {
    /// Operation not permitted.
    EPERM = 1;
    /// No such file: an epoll set has no entry for the descriptor; no such congestion controller.
    ENOENT = 2;
    /// Interrupted.
    EINTR = 4;
    /// Bad file descriptor.
    EBADF = 9;
    /// Nothing now (EWOULDBLOCK).
    EAGAIN = 11;
    /// Out of memory.
    ENOMEM = 12;
    /// Permission denied.
    EACCES = 13;
    /// Bad address: a pointer that cannot be read or written.
    EFAULT = 14;
    /// Busy.
    EBUSY = 16;
    /// Exists already.
    EEXIST = 17;
    /// No such device.
    ENODEV = 19;
    /// Invalid argument.
    EINVAL = 22;
    /// Too many open descriptors.
    EMFILE = 24;
    /// Not for this kind of file.
    ENOTTY = 25;
    /// A seek, or an offset, on what cannot be sought.
    ESPIPE = 29;
    /// Nobody reads any more.
    EPIPE = 32;
    /// Out of range.
    EDOM = 33;
    /// Would wait for itself.
    EDEADLK = 35;
    /// No such system call.
    ENOSYS = 38;
    /// Too many levels (nested epoll sets).
    ELOOP = 40;
    /// Nothing there: no peer has credentials.
    ENODATA = 61;
    /// A router said that this host is isolated.
    ENONET = 64;
    /// A packet was not understood on its way.
    EPROTO = 71;
    /// Not a socket.
    ENOTSOCK = 88;
    /// Needs a destination.
    EDESTADDRREQ = 89;
    /// Message too long.
    EMSGSIZE = 90;
    /// The protocol does not fit the type of socket.
    EPROTOTYPE = 91;
    /// No such option.
    ENOPROTOOPT = 92;
    /// No such protocol.
    EPROTONOSUPPORT = 93;
    /// No such type of socket.
    ESOCKTNOSUPPORT = 94;
    /// Not supported by this kind of socket.
    EOPNOTSUPP = 95;
    /// No such address family.
    EAFNOSUPPORT = 97;
    /// The address is taken.
    EADDRINUSE = 98;
    /// The address is not ours.
    EADDRNOTAVAIL = 99;
    /// The network is down.
    ENETDOWN = 100;
    /// No route.
    ENETUNREACH = 101;
    /// Aborted on this side.
    ECONNABORTED = 103;
    /// Reset by the peer.
    ECONNRESET = 104;
    /// A limit of buffers.
    ENOBUFS = 105;
    /// Connected already.
    EISCONN = 106;
    /// Not connected.
    ENOTCONN = 107;
    /// Timed out.
    ETIMEDOUT = 110;
    /// Refused by the peer.
    ECONNREFUSED = 111;
    /// A router said that the host is down.
    EHOSTDOWN = 112;
    /// The host cannot be reached.
    EHOSTUNREACH = 113;
    /// Under way already.
    EALREADY = 114;
    /// Now under way.
    EINPROGRESS = 115;
}

impl Errno {
    /// The number.
    #[must_use]
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The error with this number, where this crate knows it.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.iter().copied().find(|e| e.number() == number)
    }

    /// The error with this name; EWOULDBLOCK and ENOTSUP stand for EAGAIN and EOPNOTSUPP.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "EWOULDBLOCK" => Some(Self::EAGAIN),
            "ENOTSUP" => Some(Self::EOPNOTSUPP),
            _ => Self::ALL.iter().copied().find(|e| e.name() == name),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<Error> for Errno {
    fn from(e: Error) -> Self {
        match e {
            Error::WouldBlock => Self::EAGAIN,
            Error::NoSuchSocket => Self::EBADF,
            Error::Unsupported => Self::EOPNOTSUPP,
            Error::NotConnected => Self::ENOTCONN,
            Error::AlreadyConnected => Self::EISCONN,
            Error::AddressInUse => Self::EADDRINUSE,
            Error::AddressNotAvailable => Self::EADDRNOTAVAIL,
            Error::BrokenPipe => Self::EPIPE,
            Error::Refused => Self::ECONNREFUSED,
            Error::ProtocolProblem => Self::EPROTO,
            Error::Prohibited => Self::EACCES,
            Error::HostDown => Self::EHOSTDOWN,
            Error::Isolated => Self::ENONET,
            Error::Reset => Self::ECONNRESET,
            Error::Aborted => Self::ECONNABORTED,
            Error::TimedOut => Self::ETIMEDOUT,
            Error::NoRoute => Self::ENETUNREACH,
            Error::HostUnreachable => Self::EHOSTUNREACH,
            Error::MessageTooLong => Self::EMSGSIZE,
            Error::NoBuffers => Self::ENOBUFS,
            Error::InProgress => Self::EINPROGRESS,
            Error::NoSuchOption | Error::ProtocolUnreachable => Self::ENOPROTOOPT,
            _ => Self::EINVAL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Errno;

    #[test]
    fn names_and_numbers_lead_back() {
        for &e in Errno::ALL {
            assert_eq!(Errno::from_number(e.number()), Some(e));
            assert_eq!(Errno::from_name(e.name()), Some(e));
        }
        assert_eq!(Errno::from_name("EWOULDBLOCK"), Some(Errno::EAGAIN));
        assert_eq!(Errno::from_name("EWHAT"), None);
    }
}
