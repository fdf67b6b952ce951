//! TCP, UDP and SCTP sockets in user space, for tokio and for blocking programs.
//!
//! A [`Stack`] is a whole TCP/IP stack with addresses of its own. It reaches the world by a TUN or TAP device or a network
//! interface of the kernel ([`Builder::packet`]), another stack of the process by a [link in memory](link::pair), or whatever
//! the application does with its packets ([`link::owned`]). Linux only. Sockets are those of tokio ([`TcpListener`], [`TcpStream`], [`UdpSocket`]) and of std
//! ([`blocking`]), with the stack as one more argument; errors have std's kinds and numbers. [SCTP](sctp) has no model there: its
//! sockets follow RFC 6458, and what is wrong with a call of theirs is told in [sentences](sctp#errors).
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # fn main() -> std::io::Result<()> {
//! // Two stacks, joined in memory: no root, no device. With `.tun("lw0").host_address("10.0.0.1/24").address("10.0.0.2/24")` a stack
//! // talks to the kernel instead, whose address is the first one.
//! let (a, b) = lowwater::link::pair(1500);
//! let server = lowwater::Stack::builder().device(a).address("10.0.0.1/24").build()?;
//! let client = lowwater::Stack::builder().device(b).address("10.0.0.2/24").build()?;
//!
//! tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//!     let listener = lowwater::TcpListener::bind(&server, "10.0.0.1:7").await?;
//!     let echo = async {
//!         let (mut stream, _) = listener.accept().await?;
//!         let (mut read, mut write) = stream.split();
//!         tokio::io::copy(&mut read, &mut write).await
//!     };
//!     let ask = async {
//!         let mut stream = lowwater::TcpStream::connect(&client, "10.0.0.1:7").await?;
//!         stream.write_all(b"hello").await?;
//!         stream.shutdown().await?;
//!         let mut answer = String::new();
//!         stream.read_to_string(&mut answer).await?;
//!         assert_eq!(answer, "hello");
//!         std::io::Result::Ok(())
//!     };
//!     tokio::try_join!(echo, ask)?;
//!     std::io::Result::Ok(())
//! })
//! # }
//! ```
//!
//! # How it works
//! One thread owns a stack's devices: it reads packets in batches, gives them to the core, runs timers, takes what the core
//! wants to send and writes it ([`Driver`]); while it sleeps, a short answer leaves in the thread that writes it. Sockets share the core with it under one lock that is never held across a
//! system call: a read or a write is a function call, not a message to another thread. Wakers do the rest, so the futures
//! run on any runtime. With [`Builder::spawn`] a task of tokio stands in that thread's place. Nothing is global; a process may have as many stacks as it likes.
//!
//! # Ends
//! Dropping a socket closes it in the background. [`Stack::shutdown`] waits for that, with a limit; a program that just
//! returns from `main` cuts off what has not been sent by then, since the stack ends with the process.
//!
//! # Features
//! `tokio` (default): tokio's `AsyncRead` and `AsyncWrite`, and stacks that are tasks. `futures-io`: those of the futures crates.
#![forbid(unsafe_code)]

mod asks;
pub mod blocking;
mod builder;
mod capture;
mod coop;
mod devices;
mod driver;
mod error;
mod events;
mod family;
mod gateway;
pub mod link;
mod observe;
mod options;
pub mod port;
pub mod ready;
mod registry;
pub mod sctp;
pub mod shard;
mod shared;
mod sock;
mod stack;
#[cfg(feature = "tokio")]
mod task;
pub mod tcp;
mod udp;
mod waiters;

#[doc(inline)]
pub use builder::Builder;
#[doc(inline)]
pub use capture::Capture;
#[doc(inline)]
pub use driver::Driver;
#[doc(inline)]
pub use events::Event;
#[doc(inline)]
pub use observe::{Direction, Observer};
#[doc(inline)]
pub use sctp::{SctpAssociation, SctpListener, SctpSocket};
#[doc(inline)]
pub use stack::{Drained, Stack};
#[doc(inline)]
pub use tcp::{ConnectOptions, Incoming, ListenOptions, TcpListener, TcpStream};
#[doc(inline)]
pub use udp::UdpSocket;

pub use lowwater_core as core;
pub use lowwater_core::base::trace::Ev;
pub use lowwater_core::base::{Counters, DropWhy, Sysctl, Wait};
pub use lowwater_core::stack::{Report, SocketReport};
pub use lowwater_core::tcp::{SocketOptions, TcpInfo, WaitReport};
pub use lowwater_os::{Layer, PacketOptions, SetupError, TunOptions};

/// The examples of docs/sockets.md are compiled as doc-tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sockets.md")]
mod sockets_page {}
