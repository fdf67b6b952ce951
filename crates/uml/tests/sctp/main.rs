//! The stack's SCTP against the kernel's, Linux 6.1 in user mode behind TAPs of a namespace of the test's own, and against usrsctp over
//! UDP in such a namespace. The other side is `peer.c`; everything that crossed is shown to tshark.
#![cfg(target_os = "linux")]
mod air;
mod capture;
mod host;
mod options;
mod paths;
mod peer;
mod reconfig;
mod restart;
mod transfer;
