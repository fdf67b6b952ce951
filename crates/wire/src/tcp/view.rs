//! The borrowed view of a TCP segment.
use super::{HEADER_LEN, Header, TcpFlags, TcpOptions};
use crate::{Malformed, checksum};
use zerocopy::FromBytes;

/// A TCP segment whose lengths have been checked; its checksum has not.
#[derive(Clone, Copy)]
pub struct TcpView<'a> {
    header: &'a Header,
    bytes: &'a [u8],
    header_len: usize,
}

impl<'a> TcpView<'a> {
    /// Checks lengths; `bytes` is the segment to its last byte.
    ///
    /// # Errors
    /// When the header is cut short or its length impossible.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, _) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        let header_len = usize::from(header.offset_flags.get() >> 12) * 4;
        if header_len < HEADER_LEN {
            return Err(Malformed::HeaderLength);
        }
        if header_len > bytes.len() {
            return Err(Malformed::Truncated);
        }
        Ok(Self { header, bytes, header_len })
    }

    /// Source port.
    #[must_use]
    pub fn src_port(&self) -> u16 {
        self.header.src_port.get()
    }

    /// Destination port.
    #[must_use]
    pub fn dst_port(&self) -> u16 {
        self.header.dst_port.get()
    }

    /// Sequence number.
    #[must_use]
    pub fn seq(&self) -> u32 {
        self.header.seq.get()
    }

    /// Acknowledgment number, meaningful with ACK only.
    #[must_use]
    pub fn ack(&self) -> u32 {
        self.header.ack.get()
    }

    /// Control bits.
    #[must_use]
    pub fn flags(&self) -> TcpFlags {
        TcpFlags::from_bits_truncate(self.header.offset_flags.get())
    }

    /// The window field, not scaled.
    #[must_use]
    pub fn window(&self) -> u16 {
        self.header.window.get()
    }

    /// The checksum field.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        self.header.checksum.get()
    }

    /// Urgent pointer, meaningful with URG only.
    #[must_use]
    pub fn urgent(&self) -> u16 {
        self.header.urgent.get()
    }

    /// Header length in bytes, options included.
    #[must_use]
    pub fn header_len(&self) -> usize {
        self.header_len
    }

    /// The raw options.
    #[must_use]
    pub fn option_bytes(&self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..self.header_len]
    }

    /// The options.
    #[must_use]
    #[inline]
    pub fn options(&self) -> TcpOptions {
        TcpOptions::parse(self.option_bytes())
    }

    /// No options, or timestamps alone behind two NOPs: how nearly all segments of a connection are laid out
    /// (RFC 7323 appendix A).
    #[must_use]
    #[inline]
    pub fn has_usual_options(&self) -> bool {
        TcpOptions::are_usual(self.option_bytes())
    }

    /// The payload.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len..]
    }

    /// Length of header and payload in bytes, for the pseudo-header.
    #[must_use]
    pub fn total_len(&self) -> usize {
        self.bytes.len()
    }

    /// True if the checksum over the pseudo-header sum `pseudo` and the segment adds up.
    #[must_use]
    pub fn checksum_ok(&self, pseudo: u64) -> bool {
        checksum::verify(pseudo, self.bytes)
    }
}

/// The beginning of a TCP header as an ICMP error quotes it: at least 8 bytes (RFC 792), enough to find the connection and
/// to tell a forged error (RFC 5927 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Source port: ours.
    pub src_port: u16,
    /// Destination port: the peer's.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
}

/// Reads the quoted beginning of a TCP header.
///
/// # Errors
/// When fewer than 8 bytes are there.
pub fn quoted(bytes: &[u8]) -> Result<Quoted, Malformed> {
    let &[a, b, c, d, e, f, g, h, ..] = bytes else { return Err(Malformed::Truncated) };
    Ok(Quoted {
        src_port: u16::from_be_bytes([a, b]),
        dst_port: u16::from_be_bytes([c, d]),
        seq: u32::from_be_bytes([e, f, g, h]),
    })
}
