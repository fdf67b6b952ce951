//! The one error of all parsers: why bytes are not the packet they claim to be.

/// Why bytes were refused. The packet is to be dropped and counted as a header error (`InHdrErrors` and its kin).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Malformed {
    /// Fewer bytes than the fixed header, or than a length field promises.
    Truncated,
    /// A version field with another protocol's number.
    Version,
    /// A header length below the fixed header, or above the whole packet.
    HeaderLength,
    /// A total length below the header length.
    TotalLength,
    /// An option that is cut short, has no length, or breaks its own rules.
    Option,
    /// A field whose value the protocol forbids.
    Field,
    /// Well-formed as far as can be told, but of a kind that this crate does not represent.
    Unsupported,
}

impl Malformed {
    /// The reason in a few words.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Truncated => "truncated packet",
            Self::Version => "wrong protocol version",
            Self::HeaderLength => "impossible header length",
            Self::TotalLength => "impossible total length",
            Self::Option => "malformed option",
            Self::Field => "forbidden field value",
            Self::Unsupported => "unsupported kind of packet",
        }
    }
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.reason())
    }
}

impl core::error::Error for Malformed {}
