//! The SCTP packet (RFC 9260 section 3): common header, chunks, parameters, error causes and the CRC32c.
//!
//! A packet comes in as a [`SctpView`], whose [`SctpView::chunks`] gives each [`RawChunk`]; [`Chunk::parse`] says what is in it,
//! with what has a variable length borrowed. A packet goes out through a [`Builder`], which bundles chunks while they fit, or
//! in pieces: [`SctpRepr`], [`DataRepr`] and [`fill_checksum`] for payload that is not to be copied.

mod build;
mod cause;
mod checksum;
mod chunk;
mod data;
mod forward;
mod init;
mod kinds;
mod param;
mod raw;
mod sack;
mod tlv;
mod view;

pub use build::Builder;
pub use cause::Cause;
pub use checksum::{Checksum, fill_checksum, zero_checksum};
pub use chunk::Chunk;
pub use data::{DATA_HEADER_LEN, DataFlags, DataRepr, I_DATA_HEADER_LEN, IDataRepr};
pub use forward::{ForwardStream, IForwardStream};
pub use init::Init;
pub use kinds::{Unknown, cause_kind, chunk_kind, param_kind};
pub use param::{Param, Reset};
pub use raw::{Chunks, RawChunk};
pub use sack::{GapBlock, Sack};
pub use tlv::{Tlv, Tlvs};
pub use view::{Quoted, SctpRepr, SctpView, quoted};

/// Length of the common header in bytes.
pub const HEADER_LEN: usize = 12;
/// Length of a chunk's header in bytes: type, flags, length.
pub const CHUNK_HEADER_LEN: usize = 4;
/// Offset of the checksum in the common header.
pub const CHECKSUM_OFFSET: usize = 8;
/// Destination port of SCTP over UDP (RFC 6951 section 5.1).
pub const UDP_PORT: u16 = 9899;

/// `len` with the padding that follows chunks, parameters and causes: the next multiple of four.
#[must_use]
pub const fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}

#[cfg(test)]
mod tests;
