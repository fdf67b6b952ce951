//! Our stack against the kernel's TCP, in network namespaces: transfers, closes, handshakes.
//!
//! Needs root and /dev/net/tun; without them every test says so and passes, unless LOWWATER_REQUIRE_NET=1.
//! LOWWATER_INTEROP_PCAP=directory keeps captures; LOWWATER_INTEROP_SEED=n and LOWWATER_INTEROP_CASES=n draw other and more
//! settings.
#![cfg(target_os = "linux")]

mod closing;
mod faults;
mod handshake;
mod transfers;
mod world;
