//! The lowwater stack: one owner, no I/O, time and chance as arguments.
#![forbid(unsafe_code)]
pub mod base;
pub mod packet;
pub mod path;
pub mod tcp;
