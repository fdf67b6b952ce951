//! Streams: messages in the order of their stream on the way out, and in again. A stream that was never used costs nothing.
pub mod recv;
pub mod send;
