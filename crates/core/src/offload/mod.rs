//! Work that a device may do and software must do where it does not: checksums, segmentation, coalescing.
//!
//! Invariants: pure transforms of packets; segmenting what GRO has merged gives the packets back, byte for byte.
pub mod csum;
pub mod gro;
#[cfg(test)]
mod samples;
pub mod tso;

pub use gro::{Coalesced, Gro};
pub use tso::{Segments, segment};
