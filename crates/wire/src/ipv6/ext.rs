//! The chain of IPv6 extension headers (RFC 8200 section 4), followed to the transport header with every length checked.
use super::{FRAGMENT_HEADER_LEN, FragmentHeader, HEADER_LEN};
use crate::{Malformed, protocol};

/// Most extension headers in one packet; a longer chain is an attack, not a packet.
pub const MAX_EXTENSION_HEADERS: usize = 8;
/// Most options other than padding in one options header (`net.ipv6.max_dst_opts_number`).
pub const MAX_OPTIONS: usize = 8;
/// Longest run of padding: options are aligned to at most 8 bytes, more is a covert channel (RFC 4942 section 2.1.9.5).
const MAX_PADDING: usize = 7;

const OPTION_PAD1: u8 = 0;
const OPTION_PADN: u8 = 1;
const OPTION_ROUTER_ALERT: u8 = 5;

/// Where the chain of extension headers ends. Offsets count from the first byte after the fixed header unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// What follows the last header. For a fragment: what the fragmentable part starts with, valid if its offset is 0.
    pub protocol: u8,
    /// Where the transport header or, for a fragment, its piece of the fragmentable part starts.
    pub offset: usize,
    /// Where the byte that holds `protocol` lies, from the start of the *fixed* header: the pointer of an ICMPv6 "unrecognized
    /// next header" (RFC 4443 section 3.4).
    pub protocol_at: usize,
    /// Set if the packet must be reassembled before its transport is looked at; unset for an atomic fragment (RFC 6946). Its
    /// header lies directly before `offset`, and all before that is the unfragmentable part.
    pub fragment: Option<FragmentHeader>,
    /// For a fragment: where the byte that announced the fragment header lies, from the start of the *fixed* header;
    /// reassembly puts `protocol` there.
    pub fragment_at: usize,
    /// A Router Alert option was seen (RFC 2711), as MLD messages must carry.
    pub router_alert: bool,
    /// An atomic fragment: with a fragment header, and yet the whole packet (RFC 6946).
    pub atomic: bool,
}

/// What to do with a packet whose extension headers cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtError {
    /// Drop it: the bytes make no sense.
    Malformed(Malformed),
    /// Drop it: an unknown option asks for that (RFC 8200 section 4.2), or a bound of this stack is exceeded.
    Discard,
    /// Drop it and send an ICMPv6 Parameter Problem (RFC 4443 section 3.4).
    ParameterProblem {
        /// Code: 0 erroneous field, 1 unrecognized next header, 2 unrecognized option, 3 incomplete chain (RFC 7112).
        code: u8,
        /// Offset of the offending byte from the start of the fixed header.
        pointer: u32,
        /// An option asks for silence if the packet was sent to a multicast address.
        unless_multicast: bool,
    },
}

impl From<Malformed> for ExtError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

fn problem(code: u8, at: usize) -> ExtError {
    ExtError::ParameterProblem { code, pointer: at as u32, unless_multicast: false }
}

/// Follows the extension headers in `bytes`, the payload of a fixed header that announced `next_header`.
///
/// Headers are accepted in any order and number up to [`MAX_EXTENSION_HEADERS`] (RFC 8200 section 4.1), except that hop-by-hop
/// options come first. ESP and AH are returned as the protocol, as is "no next header".
///
/// # Errors
/// What to do with the packet instead of delivering it.
pub fn walk(next_header: u8, bytes: &[u8]) -> Result<Chain, ExtError> {
    walk_stated(next_header, bytes, bytes.len())
}

/// The same where the payload has `stated` bytes, of which `bytes` are the first.
pub(super) fn walk_stated(next_header: u8, bytes: &[u8], stated: usize) -> Result<Chain, ExtError> {
    let mut chain = Chain {
        protocol: next_header,
        offset: 0,
        protocol_at: 6,
        fragment: None,
        fragment_at: 0,
        router_alert: false,
        atomic: false,
    };
    for _ in 0..MAX_EXTENSION_HEADERS {
        let rest = bytes.get(chain.offset..).ok_or(Malformed::Truncated)?;
        let at = HEADER_LEN + chain.offset;
        let len = match chain.protocol {
            protocol::HOP_BY_HOP => {
                if chain.offset != 0 {
                    return Err(problem(1, chain.protocol_at));
                }
                let header = sized(rest)?;
                chain.router_alert = options(header, at)?;
                header.len()
            }
            protocol::DESTINATION_OPTIONS => {
                let header = sized(rest)?;
                options(header, at)?;
                header.len()
            }
            protocol::ROUTING => routing(rest, at)?,
            protocol::FRAGMENT => {
                let fragment = FragmentHeader::parse(rest)?;
                if !fragment.is_atomic() {
                    return fragmented(chain, fragment, bytes, stated);
                }
                chain.atomic = true;
                FRAGMENT_HEADER_LEN
            }
            _ => return Ok(chain),
        };
        chain.protocol = rest[0];
        chain.protocol_at = at;
        chain.offset += len;
    }
    if is_extension(chain.protocol) { Err(ExtError::Discard) } else { Ok(chain) }
}

/// Protocol behind the extension headers in `bytes`, and its offset there, by their lengths alone: whatever is wrong with what they say, an error
/// about the packet must know whether it is an error itself (RFC 4443 section 2.4 e.1). [`protocol::FRAGMENT`] for a fragment that is not the
/// first; `None` where the chain is cut off or its packet ends with it.
#[must_use]
pub fn skip(mut next_header: u8, bytes: &[u8]) -> Option<(u8, usize)> {
    let mut offset = 0;
    loop {
        let rest = bytes.get(offset..)?;
        let len = match next_header {
            protocol::NO_NEXT_HEADER => return None,
            protocol::FRAGMENT if FragmentHeader::parse(rest).ok()?.offset > 0 => {
                return Some((next_header, offset));
            }
            protocol::FRAGMENT => FRAGMENT_HEADER_LEN,
            // Counted in units of four bytes (RFC 4302 section 2.2).
            protocol::AH => (usize::from(*rest.get(1)?) + 2) * 4,
            other if is_extension(other) => (usize::from(*rest.get(1)?) + 1) * 8,
            _ => return Some((next_header, offset)),
        };
        next_header = rest[0];
        offset += len;
    }
}

const fn is_extension(next_header: u8) -> bool {
    matches!(
        next_header,
        protocol::HOP_BY_HOP | protocol::ROUTING | protocol::FRAGMENT | protocol::DESTINATION_OPTIONS
    )
}

/// The extension header at the front of `bytes`, by its own length field.
fn sized(bytes: &[u8]) -> Result<&[u8], Malformed> {
    let units = *bytes.get(1).ok_or(Malformed::Truncated)?;
    bytes.get(..(usize::from(units) + 1) * 8).ok_or(Malformed::Truncated)
}

/// Checks a routing header, of which no type is followed: one with nothing left to visit is skipped, any other is an error
/// (RFC 8200 section 4.4; type 0 is deprecated by RFC 5095).
fn routing(bytes: &[u8], at: usize) -> Result<usize, ExtError> {
    let header = sized(bytes)?;
    let segments_left = header[3];
    if segments_left == 0 { Ok(header.len()) } else { Err(problem(0, at + 2)) }
}

/// The chain that ends at a fragment header, which must be a valid one (RFC 8200 section 4.5).
fn fragmented(
    chain: Chain,
    fragment: FragmentHeader,
    bytes: &[u8],
    stated: usize,
) -> Result<Chain, ExtError> {
    let offset = chain.offset + FRAGMENT_HEADER_LEN;
    let piece = bytes.get(offset..).ok_or(Malformed::Truncated)?;
    let (len, whole) = (stated.saturating_sub(offset), stated <= bytes.len());
    if fragment.more && len % 8 != 0 {
        // The pointer is to the payload length of the fixed header.
        return Err(problem(0, 4));
    }
    if usize::from(fragment.offset) + len > usize::from(u16::MAX) {
        return Err(problem(0, HEADER_LEN + chain.offset + 2));
    }
    if fragment.offset == 0 && whole && !reaches_transport(fragment.next_header, piece) {
        return Err(problem(3, 0));
    }
    Ok(Chain {
        protocol: fragment.next_header,
        offset,
        protocol_at: HEADER_LEN + chain.offset,
        fragment: Some(fragment),
        fragment_at: chain.protocol_at,
        router_alert: chain.router_alert,
        atomic: chain.atomic,
    })
}

/// True if a first fragment holds all headers up to and including the transport's (RFC 7112), so that no filter is evaded.
fn reaches_transport(mut next_header: u8, mut bytes: &[u8]) -> bool {
    for _ in 0..MAX_EXTENSION_HEADERS {
        let header = match next_header {
            protocol::FRAGMENT => bytes.get(..FRAGMENT_HEADER_LEN),
            other if is_extension(other) => sized(bytes).ok(),
            protocol::TCP => return bytes.len() >= crate::tcp::HEADER_LEN,
            protocol::UDP | protocol::ICMPV6 => return bytes.len() >= 8,
            _ => return true,
        };
        let Some(header) = header else { return false };
        next_header = header[0];
        bytes = &bytes[header.len()..];
    }
    false
}

/// Looks through the options of a hop-by-hop or destination options header at `at` (RFC 8200 section 4.2); true if a Router
/// Alert is among them.
fn options(header: &[u8], at: usize) -> Result<bool, ExtError> {
    let mut router_alert = false;
    let mut count = 0;
    let mut padding = 0;
    let mut i = 2;
    while i < header.len() {
        let kind = header[i];
        if kind == OPTION_PAD1 {
            padding += 1;
            i += 1;
        } else {
            let len = usize::from(*header.get(i + 1).ok_or(Malformed::Option)?);
            let data = header.get(i + 2..i + 2 + len).ok_or(Malformed::Option)?;
            if kind == OPTION_PADN {
                if data.iter().any(|byte| *byte != 0) {
                    return Err(ExtError::Discard);
                }
                padding += 2 + len;
            } else {
                padding = 0;
                count += 1;
                router_alert |= option(kind, data, at + i)?;
            }
            i += 2 + len;
        }
        if padding > MAX_PADDING || count > MAX_OPTIONS {
            return Err(ExtError::Discard);
        }
    }
    Ok(router_alert)
}

/// Takes note of a known option, true for Router Alert; obeys the high bits of an unknown one's type.
fn option(kind: u8, data: &[u8], at: usize) -> Result<bool, ExtError> {
    match (kind, kind >> 6) {
        (OPTION_ROUTER_ALERT, _) if data.len() == 2 => Ok(true),
        (_, 0b00) => Ok(false),
        (_, 0b01) => Err(ExtError::Discard),
        (_, action) => {
            Err(ExtError::ParameterProblem { code: 2, pointer: at as u32, unless_multicast: action == 0b11 })
        }
    }
}
