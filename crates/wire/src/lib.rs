//! Typed views and representations of the packets on the wire; parsing never panics.
//!
//! Every protocol has two types: a borrowed `…View` over bytes, whose `parse` checks all lengths once so that its getters
//! cannot fail, and a `…Repr` value with `parse`, `buffer_len` and `emit`. Views tolerate what the Robustness Principle
//! asks to tolerate; representations hold what this stack understands, so that `parse(emit(r)) == r`.
//!
//! [`pcapng`] is no protocol but a format of files, and is written and never read: blocks with `buffer_len` and `emit` alone.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod arp;
pub mod checksum;
pub mod ether;
pub mod icmp4;
pub mod icmp6;
pub mod ipv4;
pub mod ipv6;
pub mod malformed;
pub mod pcapng;
pub mod protocol;
pub mod sctp;
pub mod tcp;
pub mod udp;
pub mod vnet_hdr;

pub use malformed::Malformed;
