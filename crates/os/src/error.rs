//! Why setting up a device, a link or a namespace failed, in words that say what to do.
use core::fmt;
use rustix::io::Errno;
use std::io;

/// A failure of set-up.
#[non_exhaustive]
pub enum SetupError {
    /// The process may not do this. (EPERM, EACCES)
    NotPermitted {
        /// What was tried, as the subject of a sentence: "creating a TUN device".
        doing: String,
        /// The capability that allows it.
        capability: &'static str,
    },
    /// There is no /dev/net/tun. (ENOENT, ENODEV, ENXIO)
    NoTunDriver,
    /// /dev/net/tun is there, and this user may not open it. (EACCES)
    TunDriverClosed,
    /// The device exists and another process holds it, or with another queue mode. (EBUSY)
    Busy {
        /// Name of the device.
        name: String,
    },
    /// A device of another kind has this name: a TAP for a TUN, a card, the loopback device. (EINVAL)
    OtherKind {
        /// Name of the device.
        name: String,
    },
    /// No network device has this name. (ENODEV)
    NoSuchLink {
        /// The name.
        name: String,
    },
    /// The name is empty, longer than 15 bytes, or holds '/', ':', white space or NUL.
    BadName {
        /// The name.
        name: String,
    },
    /// The operating system refused for another reason.
    Os {
        /// What was tried, as the subject of a sentence.
        doing: String,
        /// The system's answer.
        source: io::Error,
    },
}

impl SetupError {
    /// True when the environment lacks something that the program cannot make up for: privileges or the driver.
    /// Command lines map it to exit code 77, tests to "skipped".
    #[must_use]
    pub const fn is_environment(&self) -> bool {
        matches!(self, Self::NotPermitted { .. } | Self::NoTunDriver | Self::TunDriverClosed)
    }

    pub(crate) fn from_errno(doing: impl Into<String>, errno: Errno) -> Self {
        let doing = doing.into();
        match errno {
            Errno::PERM | Errno::ACCESS => Self::NotPermitted { doing, capability: "CAP_NET_ADMIN" },
            other => Self::Os { doing, source: other.into() },
        }
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPermitted { doing, capability } => {
                write!(f, "{doing} needs {capability}: run as root or inside `unshare -rn`")
            }
            Self::NoTunDriver => f.write_str(
                "/dev/net/tun is missing: load the driver with `modprobe tun`, or give the container the device \
                 (`--device /dev/net/tun`)",
            ),
            Self::TunDriverClosed => f.write_str(
                "this user may not open /dev/net/tun: run as root, or allow it with `chmod 666 /dev/net/tun`",
            ),
            Self::Busy { name } => write!(
                f,
                "device {name} is in use by another process (or it was made with a different number of queues): \
                 choose another name"
            ),
            Self::OtherKind { name } => write!(
                f,
                "{name} is a network device of another kind: choose a name that none has (`ip link` lists them), \
                 such as lw0"
            ),
            Self::NoSuchLink { name } => write!(f, "there is no network device {name}"),
            Self::BadName { name } => write!(
                f,
                "{name:?} is no device name: 1 to 15 bytes without '/', ':' and white space are"
            ),
            Self::Os { doing, source } => write!(f, "{doing} failed: {source}"),
        }
    }
}

/// As displayed: a program whose `main` returns this prints it so, and its user needs the advice.
impl fmt::Debug for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for SetupError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Os { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<SetupError> for io::Error {
    fn from(e: SetupError) -> Self {
        let kind = match &e {
            SetupError::NotPermitted { .. } | SetupError::TunDriverClosed => io::ErrorKind::PermissionDenied,
            SetupError::NoTunDriver | SetupError::NoSuchLink { .. } => io::ErrorKind::NotFound,
            SetupError::Busy { .. } => io::ErrorKind::ResourceBusy,
            SetupError::OtherKind { .. } => io::ErrorKind::AlreadyExists,
            SetupError::BadName { .. } => io::ErrorKind::InvalidInput,
            SetupError::Os { source, .. } => source.kind(),
        };
        Self::new(kind, e)
    }
}
