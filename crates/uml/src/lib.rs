//! Linux 6.1 in user mode (Debian's user-mode-linux) as the other column of the experiments.
//!
//! The kernel boots in two seconds as an ordinary process without root, on one processor, with the file system of this
//! host. Inside, the program that started it runs once more ([`guest`]): hosts are network namespaces, links are veths,
//! bottlenecks and delays are `tc`. Counts, bytes and queue lengths of such a run may be trusted; its processor time may not.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]
mod autosize;
mod boot;
mod failover;
mod hosts;
mod job;
mod lowat;
pub mod qdisc;
mod queues;

pub use boot::{Guest, available, present};
pub use job::{Figures, Job, Scenario, guest, run};
