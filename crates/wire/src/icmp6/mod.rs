//! ICMP for IPv6: echo and errors (RFC 4443), with neighbour discovery beside it.
use crate::{Malformed, checksum, icmp4, protocol};
use core::net::Ipv6Addr;

mod nd;
mod nd_option;
pub use nd::{NdRepr, RouterAdvert};
pub use nd_option::{NdOption, NdOptions, PrefixInfo};

/// Length of the header that all messages here share.
pub const HEADER_LEN: usize = 8;
/// Most bytes of the offending packet to quote, so that the whole error fits the minimum MTU (RFC 4443 section 2.4).
pub const MAX_QUOTED: usize = 1280 - 40 - HEADER_LEN;

/// Message type: destination unreachable.
pub const UNREACHABLE: u8 = 1;
/// Message type: packet too big.
pub const PACKET_TOO_BIG: u8 = 2;
/// Message type: time exceeded.
pub const TIME_EXCEEDED: u8 = 3;
/// Message type: parameter problem.
pub const PARAMETER_PROBLEM: u8 = 4;
/// Message type: echo request.
pub const ECHO_REQUEST: u8 = 128;
/// Message type: echo reply.
pub const ECHO_REPLY: u8 = 129;
/// Message type: router solicitation.
pub const ROUTER_SOLICIT: u8 = 133;
/// Message type: router advertisement.
pub const ROUTER_ADVERT: u8 = 134;
/// Message type: neighbour solicitation.
pub const NEIGHBOUR_SOLICIT: u8 = 135;
/// Message type: neighbour advertisement.
pub const NEIGHBOUR_ADVERT: u8 = 136;

/// Unreachable code: no route.
pub const NO_ROUTE: u8 = 0;
/// Unreachable code: administratively prohibited.
pub const ADMIN_PROHIBITED: u8 = 1;
/// Unreachable code: address.
pub const ADDRESS_UNREACHABLE: u8 = 3;
/// Unreachable code: port.
pub const PORT_UNREACHABLE: u8 = 4;
/// Time exceeded code: in transit.
pub const HOP_LIMIT_EXCEEDED: u8 = 0;
/// Time exceeded code: during reassembly.
pub const REASSEMBLY_EXCEEDED: u8 = 1;
/// Parameter problem code: erroneous header field.
pub const ERRONEOUS_FIELD: u8 = 0;
/// Parameter problem code: unrecognized next header.
pub const UNRECOGNIZED_NEXT_HEADER: u8 = 1;
/// Parameter problem code: unrecognized option.
pub const UNRECOGNIZED_OPTION: u8 = 2;

/// An ICMPv6 message that is long enough for the common header; its checksum has not been checked.
#[derive(Clone, Copy)]
pub struct Icmp6View<'a> {
    bytes: &'a [u8],
    header: [u8; HEADER_LEN],
}

impl<'a> Icmp6View<'a> {
    /// Checks the length.
    ///
    /// # Errors
    /// When the header is cut short.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let header = *bytes.first_chunk().ok_or(Malformed::Truncated)?;
        Ok(Self { bytes, header })
    }

    /// Message type.
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.header[0]
    }

    /// Code within the type.
    #[must_use]
    pub fn code(&self) -> u8 {
        self.header[1]
    }

    /// True for errors, to which no error may answer (RFC 4443 section 2.4 e).
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.kind() < 128
    }

    /// The last four bytes of the header, whose meaning depends on the type.
    #[must_use]
    pub fn rest_of_header(&self) -> [u8; 4] {
        let [.., a, b, c, d] = self.header;
        [a, b, c, d]
    }

    /// What follows the header.
    #[must_use]
    pub fn data(&self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..]
    }

    /// The packet that an error quotes, without extensions (RFC 4884 section 5.2).
    #[must_use]
    pub fn quoted(&self) -> &'a [u8] {
        let extended = matches!(self.kind(), UNREACHABLE | TIME_EXCEEDED);
        let words = if extended { usize::from(self.header[4]) } else { 0 };
        icmp4::quoted(self.data(), words * 8)
    }

    /// True if the checksum over the pseudo-header and the message adds up.
    #[must_use]
    pub fn checksum_ok(&self, src: Ipv6Addr, dst: Ipv6Addr) -> bool {
        checksum::verify(checksum::pseudo_v6(src, dst, protocol::ICMPV6, self.bytes.len()), self.bytes)
    }
}

/// An ICMPv6 message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmp6Repr<'a> {
    /// Destination unreachable.
    Unreachable {
        /// Code.
        code: u8,
        /// Beginning of the packet that could not be delivered.
        quoted: &'a [u8],
    },
    /// Packet too big.
    PacketTooBig {
        /// MTU of the next hop in bytes.
        mtu: u32,
        /// Beginning of the packet that could not be delivered.
        quoted: &'a [u8],
    },
    /// Time exceeded.
    TimeExceeded {
        /// Code.
        code: u8,
        /// Beginning of the packet that was dropped.
        quoted: &'a [u8],
    },
    /// Parameter problem.
    ParameterProblem {
        /// Code.
        code: u8,
        /// Offset of the offending byte in the quoted packet.
        pointer: u32,
        /// Beginning of the packet that was dropped.
        quoted: &'a [u8],
    },
    /// Echo request.
    EchoRequest {
        /// Identifier.
        ident: u16,
        /// Sequence number.
        seq: u16,
        /// Data to echo.
        data: &'a [u8],
    },
    /// Echo reply.
    EchoReply {
        /// Identifier of the request.
        ident: u16,
        /// Sequence number of the request.
        seq: u16,
        /// Data of the request.
        data: &'a [u8],
    },
    /// Neighbour discovery. The caller checks that the hop limit is 255 (RFC 4861 section 7.1).
    Nd(NdRepr),
}

impl<'a> Icmp6Repr<'a> {
    /// The message's fields.
    ///
    /// # Errors
    /// For types that are not represented, and for neighbour discovery that RFC 4861 calls invalid.
    pub fn parse(view: &Icmp6View<'a>) -> Result<Self, Malformed> {
        let [a, b, c, d] = view.rest_of_header();
        let (ident, seq) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let word = u32::from_be_bytes([a, b, c, d]);
        let (code, quoted) = (view.code(), view.quoted());
        match (view.kind(), code) {
            (UNREACHABLE, _) => Ok(Self::Unreachable { code, quoted }),
            // RFC 4443 section 3.2: the receiver ignores the code.
            (PACKET_TOO_BIG, _) => Ok(Self::PacketTooBig { mtu: word, quoted }),
            (TIME_EXCEEDED, _) => Ok(Self::TimeExceeded { code, quoted }),
            (PARAMETER_PROBLEM, _) => Ok(Self::ParameterProblem { code, pointer: word, quoted }),
            (ECHO_REQUEST, 0) => Ok(Self::EchoRequest { ident, seq, data: view.data() }),
            (ECHO_REPLY, 0) => Ok(Self::EchoReply { ident, seq, data: view.data() }),
            _ => NdRepr::parse(view).map(Self::Nd),
        }
    }

    fn header(&self) -> ([u8; HEADER_LEN], &'a [u8]) {
        let with = |kind, code, [a, b, c, d]: [u8; 4]| [kind, code, 0, 0, a, b, c, d];
        let echo = |kind, ident: u16, seq: u16| {
            with(kind, 0, (u32::from(ident) << 16 | u32::from(seq)).to_be_bytes())
        };
        match *self {
            Self::Unreachable { code, quoted } => (with(UNREACHABLE, code, [0; 4]), quoted),
            Self::PacketTooBig { mtu, quoted } => (with(PACKET_TOO_BIG, 0, mtu.to_be_bytes()), quoted),
            Self::TimeExceeded { code, quoted } => (with(TIME_EXCEEDED, code, [0; 4]), quoted),
            Self::ParameterProblem { code, pointer, quoted } => {
                (with(PARAMETER_PROBLEM, code, pointer.to_be_bytes()), quoted)
            }
            Self::EchoRequest { ident, seq, data } => (echo(ECHO_REQUEST, ident, seq), data),
            Self::EchoReply { ident, seq, data } => (echo(ECHO_REPLY, ident, seq), data),
            Self::Nd(nd) => (nd.header(), &[]),
        }
    }

    /// Bytes that [`Self::emit`] writes: header and data.
    #[must_use]
    pub fn buffer_len(&self) -> usize {
        match self {
            Self::Nd(nd) => HEADER_LEN + nd.body_len(),
            _ => HEADER_LEN + self.header().1.len(),
        }
    }

    /// Writes the message from `src` to `dst` with its checksum to the front of `buffer`. Quoted packets go out whole: cut
    /// them to [`MAX_QUOTED`] before.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Self::buffer_len`].
    pub fn emit(&self, src: Ipv6Addr, dst: Ipv6Addr, buffer: &mut [u8]) {
        let (header, data) = self.header();
        let message = &mut buffer[..self.buffer_len()];
        message[..HEADER_LEN].copy_from_slice(&header);
        match self {
            Self::Nd(nd) => nd.emit_body(&mut message[HEADER_LEN..]),
            _ => message[HEADER_LEN..].copy_from_slice(data),
        }
        let pseudo = checksum::pseudo_v6(src, dst, protocol::ICMPV6, message.len());
        let checksum = checksum::finish(pseudo + checksum::sum(message));
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
