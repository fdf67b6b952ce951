//! The error causes of ABORT and ERROR (RFC 9260 section 3.3.10).
use super::tlv::{self, TLV_HEADER_LEN, word};
use super::{Tlv, Tlvs, cause_kind as kind, padded};
use crate::Malformed;
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, IntoBytes};

/// An error cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause<'a> {
    /// DATA for a stream that does not exist.
    InvalidStream(u16),
    /// Types of the mandatory parameters that are missing.
    MissingParams(&'a [U16]),
    /// The cookie came so many microseconds too late.
    StaleCookie(u32),
    /// Out of resource.
    OutOfResource,
    /// The address parameter, whole, that could not be resolved.
    UnresolvableAddress(&'a [u8]),
    /// The chunk, whole or its beginning, that is not known.
    UnrecognizedChunk(&'a [u8]),
    /// A mandatory parameter has a forbidden value.
    InvalidMandatory,
    /// The parameters, whole, that are not known.
    UnrecognizedParams(Tlvs<'a>),
    /// The TSN of DATA without user data.
    NoUserData(u32),
    /// COOKIE ECHO while shutting down.
    CookieInShutdown,
    /// The address parameters that are new in a restart.
    Restart(Tlvs<'a>),
    /// What the upper layer gives as its reason.
    UserAbort(&'a [u8]),
    /// Protocol violation, with further information.
    ProtocolViolation(&'a [u8]),
    /// The UDP port that an association has, and the other one that an INIT for it came from.
    NewEncapPort(u16, u16),
    /// Any other.
    Other(Tlv<'a>),
}

impl<'a> Cause<'a> {
    /// What is in a cause.
    ///
    /// # Errors
    /// When its length is not one that its code can have.
    pub fn parse(tlv: &Tlv<'a>) -> Result<Self, Malformed> {
        let value = tlv.value();
        Ok(match tlv.kind() {
            kind::INVALID_STREAM => Self::InvalidStream((word(value)? >> 16) as u16),
            kind::MISSING_PARAMS => {
                let (count, rest) = value.split_first_chunk::<4>().ok_or(Malformed::Option)?;
                let count = u32::from_be_bytes(*count) as usize;
                let most = rest.len() / size_of::<U16>();
                let (list, _) = <[U16]>::ref_from_prefix_with_elems(rest, count.min(most))
                    .map_err(|_| Malformed::Option)?;
                if count > most {
                    return Err(Malformed::Option);
                }
                Self::MissingParams(list)
            }
            kind::STALE_COOKIE => Self::StaleCookie(word(value)?),
            kind::OUT_OF_RESOURCE => Self::OutOfResource,
            kind::UNRESOLVABLE_ADDRESS => Self::UnresolvableAddress(value),
            kind::UNRECOGNIZED_CHUNK => Self::UnrecognizedChunk(value),
            kind::INVALID_MANDATORY => Self::InvalidMandatory,
            kind::UNRECOGNIZED_PARAMS => Self::UnrecognizedParams(Tlvs::new(value)),
            kind::NO_USER_DATA => Self::NoUserData(word(value)?),
            kind::COOKIE_IN_SHUTDOWN => Self::CookieInShutdown,
            kind::RESTART => Self::Restart(Tlvs::new(value)),
            kind::USER_ABORT => Self::UserAbort(value),
            kind::NEW_ENCAP_PORT => {
                let ports = word(value)?;
                Self::NewEncapPort((ports >> 16) as u16, ports as u16)
            }
            kind::PROTOCOL_VIOLATION => Self::ProtocolViolation(value),
            _ => Self::Other(*tlv),
        })
    }

    /// Its length field: code, length and value without padding.
    #[must_use]
    pub const fn stated_len(&self) -> usize {
        TLV_HEADER_LEN
            + match self {
                Self::InvalidStream(_)
                | Self::StaleCookie(_)
                | Self::NoUserData(_)
                | Self::NewEncapPort(..) => 4,
                Self::MissingParams(list) => 4 + size_of_val(*list),
                Self::OutOfResource | Self::InvalidMandatory | Self::CookieInShutdown => 0,
                Self::UnresolvableAddress(bytes)
                | Self::UnrecognizedChunk(bytes)
                | Self::UserAbort(bytes)
                | Self::ProtocolViolation(bytes) => bytes.len(),
                Self::UnrecognizedParams(tlvs) | Self::Restart(tlvs) => tlvs.bytes().len(),
                Self::Other(tlv) => tlv.bytes().len() - TLV_HEADER_LEN,
            }
    }

    /// Bytes that [`Self::emit`] writes: the cause and its padding.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        padded(self.stated_len())
    }

    /// Writes the cause and its padding to the front of `buffer`.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Self::buffer_len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let out = &mut buffer[..self.buffer_len()];
        match self {
            Self::InvalidStream(sid) => {
                tlv::emit(out, kind::INVALID_STREAM, &[&sid.to_be_bytes(), &[0; 2]]);
            }
            Self::MissingParams(list) => {
                let count = list.len() as u32;
                tlv::emit(out, kind::MISSING_PARAMS, &[&count.to_be_bytes(), list.as_bytes()]);
            }
            Self::StaleCookie(us) => tlv::emit(out, kind::STALE_COOKIE, &[&us.to_be_bytes()]),
            Self::OutOfResource => tlv::emit(out, kind::OUT_OF_RESOURCE, &[]),
            Self::UnresolvableAddress(param) => tlv::emit(out, kind::UNRESOLVABLE_ADDRESS, &[param]),
            Self::UnrecognizedChunk(chunk) => tlv::emit(out, kind::UNRECOGNIZED_CHUNK, &[chunk]),
            Self::InvalidMandatory => tlv::emit(out, kind::INVALID_MANDATORY, &[]),
            Self::UnrecognizedParams(params) => tlv::emit(out, kind::UNRECOGNIZED_PARAMS, &[params.bytes()]),
            Self::NoUserData(tsn) => tlv::emit(out, kind::NO_USER_DATA, &[&tsn.to_be_bytes()]),
            Self::CookieInShutdown => tlv::emit(out, kind::COOKIE_IN_SHUTDOWN, &[]),
            Self::Restart(addresses) => tlv::emit(out, kind::RESTART, &[addresses.bytes()]),
            Self::UserAbort(reason) => tlv::emit(out, kind::USER_ABORT, &[reason]),
            Self::ProtocolViolation(more) => tlv::emit(out, kind::PROTOCOL_VIOLATION, &[more]),
            Self::NewEncapPort(current, new) => {
                tlv::emit(out, kind::NEW_ENCAP_PORT, &[&current.to_be_bytes(), &new.to_be_bytes()]);
            }
            Self::Other(tlv) => tlv::emit(out, tlv.kind(), &[tlv.value()]),
        }
    }
}
