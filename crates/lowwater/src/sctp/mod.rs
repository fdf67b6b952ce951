//! SCTP for async programs: messages in streams, between sides that may have many addresses, in RFC 6458's terms.
//!
//! | RFC 6458 | here |
//! |---|---|
//! | one-to-one socket, `accept`, `connect` | [`SctpListener`], [`SctpAssociation`] |
//! | one-to-many socket, `sctp_peeloff` | [`SctpSocket`], [`SctpSocket::peel_off`] |
//! | `sctp_bindx`, `sctp_connectx` | a call with several addresses: they are those of *one* side |
//! | `sctp_sendv` with SCTP_SNDINFO, SCTP_PRINFO | a [`SendInfo`] with each message |
//! | `sctp_recvv` with SCTP_RCVINFO, MSG_EOR | [`Received::Data`] with its [`RecvInfo`] and `eor` |
//! | MSG_NOTIFICATION, SCTP_EVENT | [`Received::Notification`], those of [`SctpOptions::events`] |
//! | SCTP_STATUS, SCTP_GET_PEER_ADDR_INFO | `info()`, with a [`PathInfo`] for each address of the peer |
//! | SCTP_PRIMARY_ADDR, SCTP_PEER_ADDR_PARAMS | `set_primary()`, `set_path()`, `heartbeat()` |
//!
//! ```
//! use bytes::Bytes;
//! use lowwater::sctp::{Received, SendInfo};
//! use lowwater::{SctpAssociation, SctpListener};
//!
//! # fn main() -> std::io::Result<()> {
//! let (a, b) = lowwater::link::pair(1500);
//! let server = lowwater::Stack::builder().device(a).address("10.0.0.1/24").build()?;
//! let client = lowwater::Stack::builder().device(b).address("10.0.0.2/24").build()?;
//!
//! tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//!     let listener = SctpListener::bind(&server, "10.0.0.1:7").await?;
//!     let echo = async {
//!         let (peer, _) = listener.accept().await?;
//!         while let Some(received) = peer.recv().await? {
//!             if let Received::Data { data, info, .. } = received {
//!                 peer.send_bytes(data, SendInfo { stream: info.stream, ..SendInfo::default() }).await?;
//!             }
//!         }
//!         peer.finish().await
//!     };
//!     let ask = async {
//!         let assoc = SctpAssociation::connect(&client, "10.0.0.1:7").await?;
//!         assoc.send(b"hello", SendInfo { stream: 3, ..SendInfo::default() }).await?;
//!         let Some(Received::Data { data, info, eor }) = assoc.recv().await? else { panic!("no message") };
//!         assert_eq!((data, info.stream, eor), (Bytes::from("hello"), 3, true));
//!         assoc.finish().await
//!     };
//!     tokio::try_join!(echo, ask)?;
//!     std::io::Result::Ok(())
//! })
//! # }
//! ```
//!
//! # Ends
//! `shutdown()` closes in good order: what was queued is delivered, nothing more can be sent, and there is no half-closed state
//! as TCP's. `finish()` does so and waits for it; `abort()` ends it at once with a reason for the peer. Dropping an association
//! closes it in the background in good order, unless messages were not read, or SO_LINGER is zero: then the peer hears an ABORT,
//! since it must not think that they were. Dropping a listener aborts associations that nobody has accepted.
//!
//! # Errors
//! What the peer, the network or the state of a socket brings (a refusal, a reset, no route, an address in use, nothing to read) are std's errors
//! with the kernel's numbers, as TCP's and UDP's are: [`raw_os_error`](std::io::Error::raw_os_error) has them. What is wrong with the call
//! itself (each EINVAL and EMSGSIZE, and what reconfiguration answers while there is an association) has the same [`kind`](std::io::Error::kind) and a sentence that says what and
//! what to do, [`Explained`]. An `io::Error` has a number or a sentence; std's own sockets have nothing of SCTP that a program could have
//! been written for, so here the sentence goes first, and [`Explained::errno`] still has the number. TCP and UDP keep their numbers, which programs for
//! std's sockets look at; only what std refuses itself, before any system call, has a sentence there, too (no address, a timeout of zero), and options out of bounds.
mod assoc;
mod calls;
mod endpoints;
mod listener;
mod many;
pub(crate) mod why;

pub use assoc::{Association, SctpAssociation};
pub(crate) use endpoints::Endpoints;
pub use listener::SctpListener;
pub use lowwater_core::base::sysctl::SctpCongestionKind;
pub use lowwater_core::sctp::handshake::init::Features;
pub use lowwater_core::sctp::{
    Abandoned, AbandonedCounts, AssocChange, AssocInfo, Notification, Outcome, PathChange, PathInfo,
    PathOptions, PathState, Received, Reconfigurable, RecvInfo, Reliability, ResetWhat, RtoOptions,
    SctpOptions, SendFailed, SendInfo, State, Subscriptions,
};
pub use many::SctpSocket;
pub use why::Explained;

pub(crate) use calls::association_calls;

use crate::Stack;
use crate::error::invalid;
use crate::family::meant;
use lowwater_core::base::SocketId;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

/// Associations that may wait to be accepted, where nothing else is said.
const BACKLOG: u32 = 1_024;

/// Associations of a one-to-many socket, where nothing else is said.
const ASSOCIATIONS: usize = 65_536;

/// An association of a [`SctpSocket`] (RFC 6458's `sctp_assoc_t`). It names no other one later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssocId(pub(crate) SocketId);

/// Where and how to listen for associations.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// Our addresses, all with one port (bindx); none or an unspecified one: all of the stack's. Port 0: a free one.
    pub local: Vec<SocketAddr>,
    /// Associations that may wait to be accepted; bounded by the sysctl `somaxconn`.
    pub backlog: u32,
    /// Options of the associations; `None`: the stack's defaults.
    pub options: Option<SctpOptions>,
    /// Associations that a one-to-many socket has at a time. One that a peer opens beyond it is aborted; each has a receive buffer.
    pub associations: usize,
}

impl Default for ListenOptions {
    /// Any address, a free port, a backlog of 1,024, 65,536 associations.
    fn default() -> Self {
        Self { local: Vec::new(), backlog: BACKLOG, options: None, associations: ASSOCIATIONS }
    }
}

/// How an association is opened.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// The addresses that the peer is told of, all with one port (bindx); none: those that fit the peer's, and a free port.
    pub local: Vec<SocketAddr>,
    /// Options; `None`: the stack's defaults.
    pub options: Option<SctpOptions>,
}

impl Stack {
    /// What an SCTP socket of this stack begins with, by its sysctls.
    #[must_use]
    pub fn sctp_options(&self) -> SctpOptions {
        SctpOptions::new(&self.sysctl())
    }
}

/// All of them: a name or a slice with several addresses means one side that has them all.
pub(crate) fn all(addrs: impl ToSocketAddrs) -> io::Result<Vec<SocketAddr>> {
    let all: Vec<SocketAddr> = addrs.to_socket_addrs()?.map(meant).collect();
    if all.is_empty() { Err(invalid("no address")) } else { Ok(all) }
}

/// A message to the address of the peer's that is meant.
pub(crate) fn to_meant(info: SendInfo) -> SendInfo {
    SendInfo { to: info.to.map(|ip| ip.to_canonical()), ..info }
}

/// What a call of the core takes: no address at all would lose the port.
pub(crate) fn bound(local: &[SocketAddr], port: u16) -> Vec<SocketAddr> {
    if local.is_empty() { vec![(Ipv4Addr::UNSPECIFIED, port).into()] } else { local.to_vec() }
}
