//! A shared object through which packetdrill drives lowwater in virtual time: `packetdrill --so_filename=./liblowwater_packetdrill.so`.
//!
//! `ffi/` is the border to C: it turns pointers into values and back, and is the only place with `unsafe`. Behind it `shared.rs`
//! has the lock, the threads and the clock, `machine.rs` the host with its file descriptors and settings. See docs/packetdrill.md.
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

mod counted;
mod device;
mod driver;
mod failure;
mod fds;
#[allow(
    unsafe_code,
    reason = "the border to C: pointers come in, and packetdrill's own calls of libc are redirected"
)]
mod ffi;
mod flags;
mod machine;
mod routes;
mod shared;
mod sysctls;

pub use ffi::{Interface, packetdrill_interface_init};
