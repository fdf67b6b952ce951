//! The TCP segment (RFC 9293 section 3.1): view, representation, flags, options and checksum.

mod accecn;
mod checksum;
mod fast_open;
mod flags;
mod options;
mod repr;
mod sack;
mod view;

pub use accecn::AccEcnOption;
pub use checksum::{fill_checksum, fill_checksum_partial};
pub use fast_open::FastOpenCookie;
pub use flags::TcpFlags;
pub use options::{MAX_WINDOW_SCALE, Signature, TcpOptions, Timestamps};
pub use repr::TcpRepr;
pub use sack::{MAX_SACK_BLOCKS, SackBlocks};
pub use view::{Quoted, TcpView, quoted};

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of a header without options.
pub const HEADER_LEN: usize = 20;
/// Longest header: the data offset counts 15 words.
pub const MAX_HEADER_LEN: usize = 60;
/// Room for options in a header.
pub const MAX_OPTIONS_LEN: usize = MAX_HEADER_LEN - HEADER_LEN;
/// Offset of the checksum in the header.
pub const CHECKSUM_OFFSET: usize = 16;

/// The fixed header as it lies on the wire.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    src_port: U16,
    dst_port: U16,
    seq: U32,
    ack: U32,
    offset_flags: U16,
    window: U16,
    checksum: U16,
    urgent: U16,
}

#[cfg(test)]
mod tests;
