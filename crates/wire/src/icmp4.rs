//! ICMP for IPv4: echo and errors (RFC 792, RFC 1191, RFC 4884).
use crate::{Malformed, checksum};

/// Length of the header that all messages here share.
pub const HEADER_LEN: usize = 8;
/// Most bytes of the offending packet to quote, so that the whole error stays within 576 (RFC 1812 section 4.3.2.3).
pub const MAX_QUOTED: usize = 576 - 20 - HEADER_LEN;

/// Message type: echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Message type: destination unreachable.
pub const UNREACHABLE: u8 = 3;
/// Message type: echo request.
pub const ECHO_REQUEST: u8 = 8;
/// Message type: time exceeded.
pub const TIME_EXCEEDED: u8 = 11;
/// Message type: parameter problem.
pub const PARAMETER_PROBLEM: u8 = 12;

/// Unreachable code: network.
pub const NET_UNREACHABLE: u8 = 0;
/// Unreachable code: host.
pub const HOST_UNREACHABLE: u8 = 1;
/// Unreachable code: protocol.
pub const PROTOCOL_UNREACHABLE: u8 = 2;
/// Unreachable code: port.
pub const PORT_UNREACHABLE: u8 = 3;
/// Unreachable code: fragmentation needed and DF set.
pub const FRAGMENTATION_NEEDED: u8 = 4;
/// Unreachable code: communication administratively prohibited (RFC 1812 section 5.2.7.1).
pub const ADMIN_PROHIBITED: u8 = 13;
/// Time exceeded code: in transit.
pub const TTL_EXCEEDED: u8 = 0;
/// Time exceeded code: during reassembly.
pub const REASSEMBLY_EXCEEDED: u8 = 1;

/// An ICMP message that is long enough for the common header; its checksum has not been checked.
#[derive(Clone, Copy)]
pub struct Icmp4View<'a> {
    bytes: &'a [u8],
    header: [u8; HEADER_LEN],
}

impl<'a> Icmp4View<'a> {
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

    /// The packet that an error quotes, without extensions (RFC 4884 section 5.1).
    #[must_use]
    pub fn quoted(&self) -> &'a [u8] {
        quoted(self.data(), usize::from(self.header[5]) * 4)
    }

    /// True if the checksum adds up.
    #[must_use]
    pub fn checksum_ok(&self) -> bool {
        checksum::verify(0, self.bytes)
    }
}

/// The first `stated` bytes of `data`, where that can be the length of a packet with extensions behind it: it has 128 bytes then, with zeros behind it
/// if need be (RFC 4884 section 4). Routers older than that left noise in the field.
pub(crate) fn quoted(data: &[u8], stated: usize) -> &[u8] {
    const WITH_EXTENSIONS_MIN: usize = 128;
    if stated < WITH_EXTENSIONS_MIN { data } else { data.get(..stated).unwrap_or(data) }
}

/// An ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmp4Repr<'a> {
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
    /// Destination unreachable.
    Unreachable {
        /// Code.
        code: u8,
        /// With [`FRAGMENTATION_NEEDED`] the MTU of the next hop in bytes, or 0 from a router older than RFC 1191; 0 otherwise.
        mtu: u16,
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
        pointer: u8,
        /// Beginning of the packet that was dropped.
        quoted: &'a [u8],
    },
}

impl<'a> Icmp4Repr<'a> {
    /// The message's fields.
    ///
    /// # Errors
    /// For types that are not represented.
    pub fn parse(view: &Icmp4View<'a>) -> Result<Self, Malformed> {
        let [a, b, c, d] = view.rest_of_header();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let (code, quoted) = (view.code(), view.quoted());
        match (view.kind(), code) {
            (ECHO_REQUEST, 0) => Ok(Self::EchoRequest { ident: high, seq: low, data: view.data() }),
            (ECHO_REPLY, 0) => Ok(Self::EchoReply { ident: high, seq: low, data: view.data() }),
            (UNREACHABLE, FRAGMENTATION_NEEDED) => Ok(Self::Unreachable { code, mtu: low, quoted }),
            (UNREACHABLE, _) => Ok(Self::Unreachable { code, mtu: 0, quoted }),
            (TIME_EXCEEDED, _) => Ok(Self::TimeExceeded { code, quoted }),
            (PARAMETER_PROBLEM, _) => Ok(Self::ParameterProblem { code, pointer: a, quoted }),
            _ => Err(Malformed::Unsupported),
        }
    }

    fn header(&self) -> ([u8; HEADER_LEN], &'a [u8]) {
        let echo = |kind, ident: u16, seq: u16| {
            let ([a, b], [c, d]) = (ident.to_be_bytes(), seq.to_be_bytes());
            [kind, 0, 0, 0, a, b, c, d]
        };
        match *self {
            Self::EchoRequest { ident, seq, data } => (echo(ECHO_REQUEST, ident, seq), data),
            Self::EchoReply { ident, seq, data } => (echo(ECHO_REPLY, ident, seq), data),
            Self::Unreachable { code, mtu, quoted } => {
                let [a, b] = if code == FRAGMENTATION_NEEDED { mtu.to_be_bytes() } else { [0, 0] };
                ([UNREACHABLE, code, 0, 0, 0, 0, a, b], quoted)
            }
            Self::TimeExceeded { code, quoted } => ([TIME_EXCEEDED, code, 0, 0, 0, 0, 0, 0], quoted),
            Self::ParameterProblem { code, pointer, quoted } => {
                ([PARAMETER_PROBLEM, code, 0, 0, pointer, 0, 0, 0], quoted)
            }
        }
    }

    /// Bytes that [`Self::emit`] writes: header and data.
    #[must_use]
    pub fn buffer_len(&self) -> usize {
        HEADER_LEN + self.header().1.len()
    }

    /// Writes the message with its checksum to the front of `buffer`. Quoted packets go out whole: cut them to
    /// [`MAX_QUOTED`] before.
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Self::buffer_len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let (header, data) = self.header();
        let message = &mut buffer[..HEADER_LEN + data.len()];
        message[..HEADER_LEN].copy_from_slice(&header);
        message[HEADER_LEN..].copy_from_slice(data);
        let checksum = checksum::checksum(message);
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
