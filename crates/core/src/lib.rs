//! The lowwater stack: one owner, no I/O, time and chance as arguments.
#![forbid(unsafe_code)]
pub mod base;
pub mod credit;
pub mod device;
pub mod ip;
pub mod offload;
pub mod packet;
pub mod path;
pub mod qdisc;
pub mod ranges;
pub mod socket;
pub mod stack;
pub mod tcp;
pub mod timer;
pub mod udp;
