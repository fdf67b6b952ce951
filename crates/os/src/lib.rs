//! Devices, clocks and entropy of the operating system.
//!
//! `unsafe` lives in `sys/` alone, one argued block per system call that has no safe wrapper; everything else here is
//! ordinary code over rustix.
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

pub mod busy_poll;
pub mod clock;
pub mod entropy;
pub mod error;
pub mod netlink;
pub mod netns;
pub mod packet;
pub mod poll;
mod pool;
pub mod program;
mod sched;
#[allow(
    unsafe_code,
    reason = "the ioctls of TUN, unshare, options as bytes, rings shared with the kernel, a thread's policy, tokio's descriptors and reading into fresh memory have no safe wrapper"
)]
mod sys;
mod sysfs;
pub mod tun;
mod vnet;

pub use busy_poll::{BUSY_POLL, BUSY_POLL_MOST, BusyPoll, Idle};
pub use clock::Clock;
pub use error::SetupError;
pub use netlink::{Link, SockDiag};
pub use packet::{PacketDevice, PacketOptions};
#[cfg(feature = "tokio")]
pub use poll::TokioWait;
pub use poll::{Interest, Poller, Ready, Waker};
pub use sched::go_first;
pub use sys::socket;
pub use tun::{KernelWork, Layer, Tun, TunOptions};
