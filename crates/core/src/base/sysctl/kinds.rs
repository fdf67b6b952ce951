//! Algorithms that a setting chooses by name.
use super::value::{Range, Value};

/// The congestion controllers that can be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionKind {
    /// RFC 5681.
    Reno,
    /// RFC 9438, Linux's default.
    Cubic,
    /// draft-cardwell-iccrg-bbr-congestion-control-00: BBR version 1, as Linux has it.
    Bbr,
}

impl CongestionKind {
    /// All kinds, in the order in which they are listed to users.
    pub const ALL: [Self; 3] = [Self::Reno, Self::Cubic, Self::Bbr];
    /// The name in `tcp_congestion_control` and TCP_CONGESTION.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }
}

/// What can move the windows of an association's paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SctpCongestionKind {
    /// RFC 9260 section 7.2: SCTP's own rules, in bytes of user data. The default.
    Rfc9260,
    /// RFC 9438, as for TCP.
    Cubic,
    /// draft-cardwell-iccrg-bbr-congestion-control-00, as for TCP.
    Bbr,
}

impl SctpCongestionKind {
    /// All kinds, in the order in which they are listed to users.
    pub const ALL: [Self; 3] = [Self::Rfc9260, Self::Cubic, Self::Bbr];

    /// The name in `sctp.congestion_control`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rfc9260 => "rfc9260",
            Self::Cubic => CongestionKind::Cubic.name(),
            Self::Bbr => CongestionKind::Bbr.name(),
        }
    }

    /// It sets a pace of its own, whether or not the owner wants one.
    #[must_use]
    pub const fn paces(self) -> bool {
        matches!(self, Self::Bbr)
    }

    /// The controller, where it is one of those that TCP has too.
    #[must_use]
    pub const fn controller(self) -> Option<CongestionKind> {
        match self {
            Self::Rfc9260 => None,
            Self::Cubic => Some(CongestionKind::Cubic),
            Self::Bbr => Some(CongestionKind::Bbr),
        }
    }
}

/// The queueing disciplines that can stand in front of a device without a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QdiscKind {
    /// Three bands by priority, Linux's default.
    PfifoFast,
    /// First in, first out, bounded in packets.
    Pfifo,
    /// The same, bounded in bytes.
    Bfifo,
    /// A queue per flow, and pacing.
    Fq,
    /// RFC 8289.
    Codel,
    /// RFC 8290.
    FqCodel,
    /// An emulated network, which does nothing until it is told.
    Netem,
    /// No queue.
    Noqueue,
}

impl QdiscKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::PfifoFast,
        Self::Pfifo,
        Self::Bfifo,
        Self::Fq,
        Self::Codel,
        Self::FqCodel,
        Self::Netem,
        Self::Noqueue,
    ];
    /// The name in `default_qdisc` and `tc`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PfifoFast => "pfifo_fast",
            Self::Pfifo => "pfifo",
            Self::Bfifo => "bfifo",
            Self::Fq => "fq",
            Self::Codel => "codel",
            Self::FqCodel => "fq_codel",
            Self::Netem => "netem",
            Self::Noqueue => "noqueue",
        }
    }
}

/// The value is the name of one of `ALL`.
macro_rules! by_name {
    ($($kind:ty),*) => {$(
        impl Value for $kind {
            fn parse(text: &str, _range: Range) -> Option<Self> {
                Self::ALL.into_iter().find(|kind| kind.name() == text.trim())
            }
            fn print(&self) -> String {
                self.name().to_owned()
            }
        }
    )*};
}

by_name!(CongestionKind, SctpCongestionKind, QdiscKind);
