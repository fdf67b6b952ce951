//! The kernel's socket system calls over the lowwater core, as data and in virtual time.
//!
//! A [`Host`] is a stack behind one device, with a table of file descriptors. [`Host::call`] takes a [`Call`] and gives a
//! [`Reply`], or the name of a call that blocks; blocked calls go on inside the host at the very instant at which an event lets
//! them. Time passes only by [`Host::advance_until`] and [`Host::next_packet`]. See docs/posix.md.
#![forbid(unsafe_code)]
pub mod abi;
mod block;
mod call;
mod calls;
mod cmsg;
mod device;
mod dgram;
mod epoll;
mod errno;
mod errqueue;
mod fastopen;
mod files;
mod host;
mod leftovers;
mod numbers;
mod pipe;
mod poll;
mod ports;
mod privileges;
mod recv;
pub mod sctp;
mod send;
mod sockopt;
mod steps {
    //! Steps of walks whose length the number of sockets might decide.
    lowwater_core::count_steps!();
}
mod stream;
mod timestamping;
#[cfg(test)]
mod walks;
mod watches;
mod zerocopy;

pub use call::{
    Call, Control, EpollEvent, Fd, Name, Optval, Piece, PollFd, RecvKind, Reply, Room, SendKind, sockaddr,
};
pub use device::Sent;
pub use errno::Errno;
pub use host::{CallId, Host, Settings, Started};
pub use privileges::Privileges;
