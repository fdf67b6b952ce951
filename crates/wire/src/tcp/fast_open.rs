//! The cookie of the TCP Fast Open option (RFC 7413 section 4.1.1), in the option's own kind or in its experimental form
//! (RFC 6994, with the magic number of RFC 7413's drafts).

/// Longest cookie.
const MAX_LEN: usize = 16;
/// Shortest cookie, apart from none.
const MIN_LEN: usize = 4;

/// A cookie of 4 to 16 bytes, or the empty one with which a client asks for one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FastOpenCookie {
    // Bytes past `len` stay 0, so that derived equality is right.
    bytes: [u8; MAX_LEN],
    len: u8,
    experimental: bool,
}

impl FastOpenCookie {
    /// The cookie request.
    pub const REQUEST: Self = Self { bytes: [0; MAX_LEN], len: 0, experimental: false };

    /// The cookie with these bytes; `None` unless their number is 0, or even and from 4 to 16.
    #[must_use]
    pub fn new(cookie: &[u8]) -> Option<Self> {
        let len = cookie.len();
        let legal = len == 0 || ((MIN_LEN..=MAX_LEN).contains(&len) && len.is_multiple_of(2));
        if !legal {
            return None;
        }
        let mut bytes = [0; MAX_LEN];
        bytes[..len].copy_from_slice(cookie);
        Some(Self { bytes, len: len as u8, experimental: false })
    }

    /// The same cookie in the experimental option (kind 254), or in the assigned one (kind 34).
    #[must_use]
    pub const fn with_experimental(self, experimental: bool) -> Self {
        Self { experimental, ..self }
    }

    /// True for the experimental form of the option.
    #[must_use]
    pub const fn is_experimental(&self) -> bool {
        self.experimental
    }

    /// The cookie's bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Number of bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// True for the cookie request.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl core::fmt::Debug for FastOpenCookie {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let exp = if self.experimental { "Exp" } else { "" };
        write!(f, "FastOpenCookie{exp}({:02x?})", self.as_slice())
    }
}
