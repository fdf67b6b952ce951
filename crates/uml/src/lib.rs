//! Linux 6.1 in user mode (Debian's user-mode-linux) as the other column of the experiments.
//!
//! The kernel boots in two seconds as an ordinary process without root, on one processor, with the file system of this
//! host. Inside, the program that started it runs once more ([`guest`]): hosts are network namespaces, links are veths,
//! bottlenecks and delays are `tc`. Experiments run by a clock that passes only where the guest sleeps (`still/still.c`), so that its figures
//! are those of Linux's decisions and not of this machine.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]
mod autosize;
mod boot;
mod hosts;
mod job;
mod lowat;
mod pacing;
pub mod qdisc;
mod queues;
mod run;
mod sctp;
mod settings;
mod shape;
mod sniff;

pub use boot::{Guest, LIFE, SILENCE, available, can_stand_still, present};
pub use job::{Ended, Figures, Job, Scenario, guest, run};
pub use run::{Param, Run};
