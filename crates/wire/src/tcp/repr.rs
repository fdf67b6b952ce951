//! The TCP header as a value.
use super::{HEADER_LEN, Header, TcpFlags, TcpOptions, TcpView};
use zerocopy::IntoBytes;
use zerocopy::network_endian::U16;

/// A TCP header with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpRepr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// The window field, not scaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options.
    pub options: TcpOptions,
}

const _: () = assert!(size_of::<TcpRepr>() <= 96, "passed by value on the hot path");

impl TcpRepr {
    /// The header's fields and options.
    #[must_use]
    #[inline]
    pub fn parse(view: &TcpView<'_>) -> Self {
        Self {
            src_port: view.src_port(),
            dst_port: view.dst_port(),
            seq: view.seq(),
            ack: view.ack(),
            flags: view.flags(),
            window: view.window(),
            urgent: view.urgent(),
            options: view.options(),
        }
    }

    /// Length of the header in bytes, options included.
    #[must_use]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.buffer_len()
    }

    /// Bytes that [`Self::emit`] writes: the header.
    #[must_use]
    pub fn buffer_len(&self) -> usize {
        self.header_len()
    }

    /// Writes the header to the front of `buffer`, with checksum 0: follow with [`super::fill_checksum`] or
    /// [`super::fill_checksum_partial`].
    ///
    /// # Panics
    /// When `buffer` is shorter than [`Self::buffer_len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let (fixed, options) = buffer.split_at_mut(HEADER_LEN);
        let header_len = HEADER_LEN + self.options.emit(options);
        let header = Header {
            src_port: self.src_port.into(),
            dst_port: self.dst_port.into(),
            seq: self.seq.into(),
            ack: self.ack.into(),
            offset_flags: (((header_len / 4) as u16) << 12 | self.flags.bits()).into(),
            window: self.window.into(),
            checksum: U16::ZERO,
            urgent: self.urgent.into(),
        };
        fixed.copy_from_slice(header.as_bytes());
    }
}
