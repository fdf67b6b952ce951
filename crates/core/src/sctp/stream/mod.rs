//! Streams: messages in the order of their stream on the way out, and in again. A stream that was never used costs nothing.
mod notes;
mod numbers;
mod pieces;
mod ready;
pub mod recv;
mod runs;
pub mod send;
pub mod unsent;
