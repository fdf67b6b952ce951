//! The core's errors as `std::io::Error`, with the kinds and the numbers that a socket of the operating system gives.
use lowwater_core::base::Error;
use rustix::io::Errno;
use std::io;

/// The number of an error, so that `kind`, `raw_os_error` and the text are those that std's sockets give.
const fn errno(error: Error) -> Errno {
    match error {
        Error::WouldBlock => Errno::AGAIN,
        Error::NoSuchSocket => Errno::BADF,
        Error::Unsupported => Errno::OPNOTSUPP,
        Error::NotConnected => Errno::NOTCONN,
        Error::AlreadyConnected => Errno::ISCONN,
        Error::AddressInUse => Errno::ADDRINUSE,
        Error::AddressNotAvailable => Errno::ADDRNOTAVAIL,
        Error::BrokenPipe => Errno::PIPE,
        Error::Refused => Errno::CONNREFUSED,
        Error::ProtocolProblem => Errno::PROTO,
        Error::Prohibited => Errno::ACCESS,
        Error::HostDown => Errno::HOSTDOWN,
        Error::Isolated => Errno::NONET,
        Error::Reset => Errno::CONNRESET,
        Error::Aborted => Errno::CONNABORTED,
        Error::TimedOut => Errno::TIMEDOUT,
        Error::NoRoute => Errno::NETUNREACH,
        Error::HostUnreachable => Errno::HOSTUNREACH,
        Error::MessageTooLong => Errno::MSGSIZE,
        Error::NoBuffers => Errno::NOBUFS,
        Error::InProgress => Errno::INPROGRESS,
        Error::NoSuchOption | Error::ProtocolUnreachable => Errno::NOPROTOOPT,
        // `Invalid`, and what the core may add.
        _ => Errno::INVAL,
    }
}

/// The error as std's sockets report it.
pub(crate) fn io_error(error: Error) -> io::Error {
    errno(error).into()
}

/// What a call of the core, or what was looked at around it, may fail by.
pub(crate) trait IntoIo {
    fn into_io(self) -> io::Error;
}

impl IntoIo for Error {
    fn into_io(self) -> io::Error {
        io_error(self)
    }
}

impl IntoIo for io::Error {
    fn into_io(self) -> io::Error {
        self
    }
}

/// What a socket answers after its stack was shut down.
pub(crate) fn stopped() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the stack was shut down")
}

/// What the builder answers to a setting that makes no sense.
pub(crate) fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why.into())
}

/// What a timeout of zero is answered with, as std does.
pub(crate) fn no_time() -> io::Error {
    invalid(
        "a timeout of zero leaves no time at all: None waits without end, and set_nonblocking() does not wait",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn kinds_are_those_of_std() {
        for (error, kind) in [
            (Error::WouldBlock, ErrorKind::WouldBlock),
            (Error::Invalid, ErrorKind::InvalidInput),
            (Error::NotConnected, ErrorKind::NotConnected),
            (Error::AddressInUse, ErrorKind::AddrInUse),
            (Error::AddressNotAvailable, ErrorKind::AddrNotAvailable),
            (Error::BrokenPipe, ErrorKind::BrokenPipe),
            (Error::Refused, ErrorKind::ConnectionRefused),
            (Error::Reset, ErrorKind::ConnectionReset),
            (Error::Aborted, ErrorKind::ConnectionAborted),
            (Error::TimedOut, ErrorKind::TimedOut),
            (Error::NoRoute, ErrorKind::NetworkUnreachable),
            (Error::HostUnreachable, ErrorKind::HostUnreachable),
        ] {
            assert_eq!(io_error(error).kind(), kind, "{error:?}");
            assert!(io_error(error).raw_os_error().is_some());
        }
    }
}
