//! The parameters of INIT, INIT ACK, HEARTBEAT, RE-CONFIG and ASCONF.
use super::tlv::{self, TLV_HEADER_LEN, word};
use super::{Tlv, Tlvs, padded, param_kind as kind};
use crate::Malformed;
use core::net::{Ipv4Addr, Ipv6Addr};
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The fixed part of an outgoing SSN reset request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Reset {
    /// Request sequence number.
    pub request: U32,
    /// Response sequence number.
    pub response: U32,
    /// The sender's last assigned TSN.
    pub last_tsn: U32,
}

/// A parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param<'a> {
    /// What a heartbeat brings back.
    HeartbeatInfo(&'a [u8]),
    /// An IPv4 address of the sender.
    Ipv4(Ipv4Addr),
    /// An IPv6 address of the sender.
    Ipv6(Ipv6Addr),
    /// State cookie.
    StateCookie(&'a [u8]),
    /// A parameter, whole, that the sender did not know.
    Unrecognized(&'a [u8]),
    /// By how many milliseconds the cookie should live longer.
    CookiePreservative(u32),
    /// Host name.
    HostName(&'a [u8]),
    /// Types of the address parameters that the sender can use.
    SupportedAddressTypes(&'a [U16]),
    /// Outgoing SSN reset request; without streams all of them.
    OutgoingReset(&'a Reset, &'a [U16]),
    /// Incoming SSN reset request: its number and the streams.
    IncomingReset(u32, &'a [U16]),
    /// SSN and TSN reset request: its number.
    TsnReset(u32),
    /// Reconfiguration response: number of the request, result, and after a reset of TSNs the next ones of sender and receiver.
    ResetResponse(u32, u32, Option<(u32, u32)>),
    /// Add outgoing streams: number of the request and how many.
    AddOutgoing(u32, u16),
    /// Add incoming streams: number of the request and how many.
    AddIncoming(u32, u16),
    /// ECN capable.
    EcnCapable,
    /// Zero checksum acceptable, with the identifier of the method that detects errors instead.
    ZeroChecksum(u32),
    /// Random number.
    Random(&'a [u8]),
    /// Types of the chunks that are to be authenticated.
    ChunkList(&'a [u8]),
    /// Identifiers of HMACs.
    HmacAlgorithms(&'a [U16]),
    /// Padding.
    Padding(&'a [u8]),
    /// Types of the chunks beyond RFC 9260 that the sender knows.
    SupportedExtensions(&'a [u8]),
    /// FORWARD TSN supported.
    ForwardTsnSupported,
    /// Add an address: correlation and the address parameter.
    AddIp(u32, Tlvs<'a>),
    /// Delete an address: correlation and the address parameter.
    DeleteIp(u32, Tlvs<'a>),
    /// Set the primary address: correlation and the address parameter.
    SetPrimary(u32, Tlvs<'a>),
    /// Error cause indication: correlation and causes.
    ErrorCause(u32, Tlvs<'a>),
    /// Success indication: correlation.
    Success(u32),
    /// Adaptation layer indication.
    Adaptation(u32),
    /// Any other.
    Other(Tlv<'a>),
}

impl<'a> Param<'a> {
    /// What is in a parameter.
    ///
    /// # Errors
    /// When its length is not one that its type can have.
    pub fn parse(tlv: &Tlv<'a>) -> Result<Self, Malformed> {
        let value = tlv.value();
        Ok(match tlv.kind() {
            kind::HEARTBEAT_INFO => Self::HeartbeatInfo(value),
            kind::IPV4 => Self::Ipv4(Ipv4Addr::from_bits(word(value)?)),
            kind::IPV6 => Self::Ipv6(Ipv6Addr::from_octets(value.try_into().map_err(|_| Malformed::Option)?)),
            kind::STATE_COOKIE => Self::StateCookie(value),
            kind::UNRECOGNIZED => Self::Unrecognized(value),
            kind::COOKIE_PRESERVATIVE => Self::CookiePreservative(word(value)?),
            kind::HOST_NAME => Self::HostName(value),
            kind::SUPPORTED_ADDRESS_TYPES => Self::SupportedAddressTypes(halves(value)?),
            kind::ECN_CAPABLE => Self::EcnCapable,
            kind::ZERO_CHECKSUM => Self::ZeroChecksum(word(value)?),
            kind::RANDOM => Self::Random(value),
            kind::CHUNK_LIST => Self::ChunkList(value),
            kind::HMAC_ALGORITHMS => Self::HmacAlgorithms(halves(value)?),
            kind::PADDING => Self::Padding(value),
            kind::SUPPORTED_EXTENSIONS => Self::SupportedExtensions(value),
            kind::FORWARD_TSN_SUPPORTED => Self::ForwardTsnSupported,
            kind::ADAPTATION => Self::Adaptation(word(value)?),
            _ => return Self::parse_request(tlv),
        })
    }

    /// Parameters of RE-CONFIG and ASCONF, which all begin with a number.
    fn parse_request(tlv: &Tlv<'a>) -> Result<Self, Malformed> {
        let value = tlv.value();
        let number = |value: &'a [u8]| {
            let (head, rest) = value.split_first_chunk::<4>().ok_or(Malformed::Option)?;
            Ok((u32::from_be_bytes(*head), rest))
        };
        Ok(match tlv.kind() {
            kind::OUTGOING_RESET => {
                let (fixed, streams) = Reset::ref_from_prefix(value).map_err(|_| Malformed::Option)?;
                Self::OutgoingReset(fixed, halves(streams)?)
            }
            kind::INCOMING_RESET => {
                let (request, streams) = number(value)?;
                Self::IncomingReset(request, halves(streams)?)
            }
            kind::TSN_RESET => Self::TsnReset(word(value)?),
            kind::RESET_RESPONSE => {
                let (request, rest) = number(value)?;
                let (result, rest) = number(rest)?;
                let next = match rest {
                    [] => None,
                    _ => {
                        let (sender, rest) = number(rest)?;
                        Some((sender, word(rest)?))
                    }
                };
                Self::ResetResponse(request, result, next)
            }
            kind::ADD_OUTGOING | kind::ADD_INCOMING => {
                let (request, rest) = number(value)?;
                let count = (word(rest)? >> 16) as u16;
                if tlv.kind() == kind::ADD_OUTGOING {
                    Self::AddOutgoing(request, count)
                } else {
                    Self::AddIncoming(request, count)
                }
            }
            kind::ADD_IP | kind::DELETE_IP | kind::SET_PRIMARY | kind::ERROR_CAUSE => {
                let (correlation, rest) = number(value)?;
                let make = match tlv.kind() {
                    kind::ADD_IP => Self::AddIp,
                    kind::DELETE_IP => Self::DeleteIp,
                    kind::SET_PRIMARY => Self::SetPrimary,
                    _ => Self::ErrorCause,
                };
                make(correlation, Tlvs::new(rest))
            }
            kind::SUCCESS => Self::Success(word(value)?),
            _ => Self::Other(*tlv),
        })
    }

    /// Its length field: type, length and value without padding.
    #[must_use]
    pub const fn stated_len(&self) -> usize {
        TLV_HEADER_LEN
            + match self {
                Self::HeartbeatInfo(bytes)
                | Self::StateCookie(bytes)
                | Self::Unrecognized(bytes)
                | Self::HostName(bytes)
                | Self::Random(bytes)
                | Self::ChunkList(bytes)
                | Self::Padding(bytes)
                | Self::SupportedExtensions(bytes) => bytes.len(),
                Self::Ipv4(_)
                | Self::CookiePreservative(_)
                | Self::TsnReset(_)
                | Self::ZeroChecksum(_)
                | Self::Success(_)
                | Self::Adaptation(_) => 4,
                Self::Ipv6(_) => 16,
                Self::SupportedAddressTypes(list) | Self::HmacAlgorithms(list) => size_of_val(*list),
                Self::OutgoingReset(_, streams) => size_of::<Reset>() + size_of_val(*streams),
                Self::IncomingReset(_, streams) => 4 + size_of_val(*streams),
                Self::ResetResponse(_, _, next) => {
                    if next.is_some() {
                        16
                    } else {
                        8
                    }
                }
                Self::AddOutgoing(..) | Self::AddIncoming(..) => 8,
                Self::EcnCapable | Self::ForwardTsnSupported => 0,
                Self::AddIp(_, tlvs)
                | Self::DeleteIp(_, tlvs)
                | Self::SetPrimary(_, tlvs)
                | Self::ErrorCause(_, tlvs) => 4 + tlvs.bytes().len(),
                Self::Other(tlv) => tlv.bytes().len() - TLV_HEADER_LEN,
            }
    }

    /// Bytes that [`Self::emit`] writes: the parameter and its padding.
    #[must_use]
    pub const fn buffer_len(&self) -> usize {
        padded(self.stated_len())
    }

    /// Writes the parameter and its padding to the front of `buffer`.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Self::buffer_len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let out = &mut buffer[..self.buffer_len()];
        match self {
            Self::HeartbeatInfo(bytes) => tlv::emit(out, kind::HEARTBEAT_INFO, &[bytes]),
            Self::Ipv4(address) => tlv::emit(out, kind::IPV4, &[&address.octets()]),
            Self::Ipv6(address) => tlv::emit(out, kind::IPV6, &[&address.octets()]),
            Self::StateCookie(bytes) => tlv::emit(out, kind::STATE_COOKIE, &[bytes]),
            Self::Unrecognized(bytes) => tlv::emit(out, kind::UNRECOGNIZED, &[bytes]),
            Self::CookiePreservative(ms) => tlv::emit(out, kind::COOKIE_PRESERVATIVE, &[&ms.to_be_bytes()]),
            Self::HostName(bytes) => tlv::emit(out, kind::HOST_NAME, &[bytes]),
            Self::SupportedAddressTypes(list) => {
                tlv::emit(out, kind::SUPPORTED_ADDRESS_TYPES, &[list.as_bytes()]);
            }
            Self::EcnCapable => tlv::emit(out, kind::ECN_CAPABLE, &[]),
            Self::ZeroChecksum(method) => tlv::emit(out, kind::ZERO_CHECKSUM, &[&method.to_be_bytes()]),
            Self::Random(bytes) => tlv::emit(out, kind::RANDOM, &[bytes]),
            Self::ChunkList(bytes) => tlv::emit(out, kind::CHUNK_LIST, &[bytes]),
            Self::HmacAlgorithms(list) => tlv::emit(out, kind::HMAC_ALGORITHMS, &[list.as_bytes()]),
            Self::Padding(bytes) => tlv::emit(out, kind::PADDING, &[bytes]),
            Self::SupportedExtensions(bytes) => tlv::emit(out, kind::SUPPORTED_EXTENSIONS, &[bytes]),
            Self::ForwardTsnSupported => tlv::emit(out, kind::FORWARD_TSN_SUPPORTED, &[]),
            Self::Adaptation(code) => tlv::emit(out, kind::ADAPTATION, &[&code.to_be_bytes()]),
            Self::Other(tlv) => tlv::emit(out, tlv.kind(), &[tlv.value()]),
            request => request.emit_request(out),
        }
    }

    fn emit_request(&self, out: &mut [u8]) {
        let mut put = |kind, first: u32, rest: &[u8]| tlv::emit(out, kind, &[&first.to_be_bytes(), rest]);
        match self {
            Self::OutgoingReset(fixed, streams) => {
                tlv::emit(out, kind::OUTGOING_RESET, &[fixed.as_bytes(), streams.as_bytes()]);
            }
            Self::IncomingReset(request, streams) => put(kind::INCOMING_RESET, *request, streams.as_bytes()),
            Self::TsnReset(request) => put(kind::TSN_RESET, *request, &[]),
            Self::ResetResponse(request, result, next) => {
                let (sender, receiver) = next.unwrap_or_default();
                let words = [*result, sender, receiver].map(u32::to_be_bytes);
                let words = if next.is_some() { &words[..] } else { &words[..1] };
                put(kind::RESET_RESPONSE, *request, words.as_flattened());
            }
            Self::AddOutgoing(request, count) => {
                put(kind::ADD_OUTGOING, *request, &(u32::from(*count) << 16).to_be_bytes());
            }
            Self::AddIncoming(request, count) => {
                put(kind::ADD_INCOMING, *request, &(u32::from(*count) << 16).to_be_bytes());
            }
            Self::AddIp(correlation, address) => put(kind::ADD_IP, *correlation, address.bytes()),
            Self::DeleteIp(correlation, address) => put(kind::DELETE_IP, *correlation, address.bytes()),
            Self::SetPrimary(correlation, address) => put(kind::SET_PRIMARY, *correlation, address.bytes()),
            Self::ErrorCause(correlation, causes) => put(kind::ERROR_CAUSE, *correlation, causes.bytes()),
            Self::Success(correlation) => put(kind::SUCCESS, *correlation, &[]),
            _ => {}
        }
    }
}

/// A list of 16-bit numbers.
pub(super) fn halves(bytes: &[u8]) -> Result<&[U16], Malformed> {
    <[U16]>::ref_from_bytes(bytes).map_err(|_| Malformed::Option)
}
