//! The options of neighbour discovery messages (RFC 4861 section 4.6).
use crate::Malformed;
use crate::ether::EtherAddr;
use core::net::Ipv6Addr;
use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const SOURCE_LINK: u8 = 1;
const TARGET_LINK: u8 = 2;
const PREFIX: u8 = 3;
const MTU: u8 = 5;

/// Length of a link-address option for Ethernet, and of an MTU option.
const SHORT_LEN: usize = 8;
const PREFIX_LEN: usize = 32;
const ON_LINK: u8 = 0x80;
const AUTONOMOUS: u8 = 0x40;

/// A prefix that a router advertises (RFC 4861 section 4.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixInfo {
    /// The prefix.
    pub prefix: Ipv6Addr,
    /// Its length in bits, at most 128.
    pub prefix_len: u8,
    /// Addresses under it are on this link.
    pub on_link: bool,
    /// Hosts may form addresses under it (RFC 4862).
    pub autonomous: bool,
    /// Seconds for which it is on-link; all ones means for ever.
    pub valid_lifetime: u32,
    /// Seconds for which addresses under it are preferred; all ones means for ever.
    pub preferred_lifetime: u32,
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdOption<'a> {
    /// Source link-layer address.
    SourceLink(EtherAddr),
    /// Target link-layer address.
    TargetLink(EtherAddr),
    /// Prefix information.
    Prefix(PrefixInfo),
    /// MTU of the link in bytes.
    Mtu(u32),
    /// Any other, to be ignored.
    Other {
        /// Type.
        kind: u8,
        /// What follows type and length.
        data: &'a [u8],
    },
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawPrefix {
    kind: u8,
    units: u8,
    prefix_len: u8,
    flags: u8,
    valid_lifetime: U32,
    preferred_lifetime: U32,
    reserved: U32,
    prefix: [u8; 16],
}

/// The options in a run of bytes, in order; ends after the first malformed one, which makes the whole message invalid.
#[derive(Clone, Copy)]
pub struct NdOptions<'a> {
    bytes: &'a [u8],
}

impl<'a> NdOptions<'a> {
    /// The options in `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    fn read(&mut self) -> Result<NdOption<'a>, Malformed> {
        let &[kind, units, ..] = self.bytes else { return Err(Malformed::Option) };
        let len = usize::from(units) * 8;
        if len == 0 {
            return Err(Malformed::Option);
        }
        let (option, rest) = self.bytes.split_at_checked(len).ok_or(Malformed::Option)?;
        self.bytes = rest;
        Ok(match (kind, option) {
            (SOURCE_LINK, &[_, _, a, b, c, d, e, f]) => NdOption::SourceLink(EtherAddr([a, b, c, d, e, f])),
            (TARGET_LINK, &[_, _, a, b, c, d, e, f]) => NdOption::TargetLink(EtherAddr([a, b, c, d, e, f])),
            (MTU, &[_, _, _, _, a, b, c, d]) => NdOption::Mtu(u32::from_be_bytes([a, b, c, d])),
            (PREFIX, _) => match RawPrefix::ref_from_bytes(option) {
                Ok(raw) if raw.prefix_len <= 128 => NdOption::Prefix(PrefixInfo {
                    prefix: Ipv6Addr::from_octets(raw.prefix),
                    prefix_len: raw.prefix_len,
                    on_link: raw.flags & ON_LINK != 0,
                    autonomous: raw.flags & AUTONOMOUS != 0,
                    valid_lifetime: raw.valid_lifetime.get(),
                    preferred_lifetime: raw.preferred_lifetime.get(),
                }),
                _ => NdOption::Other { kind, data: &option[2..] },
            },
            _ => NdOption::Other { kind, data: &option[2..] },
        })
    }
}

impl<'a> Iterator for NdOptions<'a> {
    type Item = Result<NdOption<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let option = self.read();
        if option.is_err() {
            self.bytes = &[];
        }
        Some(option)
    }
}

impl NdOption<'_> {
    /// Bytes that [`Self::emit`] writes.
    pub(super) fn buffer_len(&self) -> usize {
        match self {
            Self::SourceLink(_) | Self::TargetLink(_) | Self::Mtu(_) => SHORT_LEN,
            Self::Prefix(_) => PREFIX_LEN,
            Self::Other { data, .. } => (2 + data.len()).next_multiple_of(8),
        }
    }

    /// Writes the option to `out`, which is exactly [`Self::buffer_len`] long.
    pub(super) fn emit(&self, out: &mut [u8]) {
        out.fill(0);
        out[1] = (out.len() / 8) as u8;
        match self {
            Self::SourceLink(address) | Self::TargetLink(address) => {
                out[0] = if matches!(self, Self::SourceLink(_)) { SOURCE_LINK } else { TARGET_LINK };
                out[2..].copy_from_slice(&address.0);
            }
            Self::Mtu(mtu) => {
                out[0] = MTU;
                out[4..].copy_from_slice(&mtu.to_be_bytes());
            }
            Self::Prefix(info) => {
                let on_link = if info.on_link { ON_LINK } else { 0 };
                let autonomous = if info.autonomous { AUTONOMOUS } else { 0 };
                let raw = RawPrefix {
                    kind: PREFIX,
                    units: (PREFIX_LEN / 8) as u8,
                    prefix_len: info.prefix_len,
                    flags: on_link | autonomous,
                    valid_lifetime: info.valid_lifetime.into(),
                    preferred_lifetime: info.preferred_lifetime.into(),
                    reserved: U32::ZERO,
                    prefix: info.prefix.octets(),
                };
                out.copy_from_slice(raw.as_bytes());
            }
            Self::Other { kind, data } => {
                out[0] = *kind;
                out[2..][..data.len()].copy_from_slice(data);
            }
        }
    }
}
