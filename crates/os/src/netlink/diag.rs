//! What the kernel tells of TCP connections that nobody holds a descriptor of, as `ss` asks for it.
use super::exchange;
use super::msg::{self, Message};
use crate::error::SetupError;
use rustix::fd::OwnedFd;
use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};

/// Type of a request for one socket, and of the answer.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// The attribute with struct tcp_info; its bit in a request is one less.
const INET_DIAG_INFO: u16 = 2;
/// Length of `struct inet_diag_msg`, which stands before the attributes, and where the peer's port is in it.
const DIAG_LEN: usize = 72;
const DIAG_DPORT: usize = 6;
/// Whatever the socket's cookie is.
const ANY_COOKIE: u32 = u32::MAX;

/// A way to ask about connections of the network namespace in which it was made.
#[derive(Debug)]
pub struct SockDiag {
    socket: OwnedFd,
    seq: Cell<u32>,
}

impl SockDiag {
    /// For the calling thread's network namespace.
    ///
    /// # Errors
    /// [`SetupError::Os`] when the process is out of descriptors or the kernel has no such interface.
    pub fn new() -> Result<Self, SetupError> {
        let (netlink, raw) = (AddressFamily::NETLINK, SocketType::RAW);
        let socket = socket_with(netlink, raw, SocketFlags::CLOEXEC, Some(SOCK_DIAG))
            .map_err(|e| SetupError::from_errno("opening a netlink socket", e))?;
        Ok(Self { socket, seq: Cell::new(0) })
    }

    /// `struct tcp_info` of the connection between two ends, in the kernel's layout; `None` when there is none, and while it
    /// is a request without a socket of its own.
    ///
    /// # Errors
    /// [`SetupError::Os`] with what the kernel answered.
    pub fn tcp_info(&self, local: SocketAddr, remote: SocketAddr) -> Result<Option<Vec<u8>>, SetupError> {
        let seq = self.seq.get().wrapping_add(1);
        self.seq.set(seq);
        let mut request = Message::new(SOCK_DIAG_BY_FAMILY, 0, seq);
        let family = super::family(local.ip());
        request.u8(family).u8(libc::IPPROTO_TCP as u8).u8(1 << (INET_DIAG_INFO - 1)).u8(0).u32(u32::MAX);
        request.u16(local.port().to_be()).u16(remote.port().to_be());
        for ip in [local.ip(), remote.ip()] {
            address(ip).into_iter().for_each(|byte| _ = request.u8(byte));
        }
        request.u32(0).u32(ANY_COOKIE).u32(ANY_COOKIE);
        let mut found = None;
        let mut take = |kind, body: &[u8]| {
            let port = body.get(DIAG_DPORT..).and_then(<[u8]>::first_chunk).map(|p| u16::from_be_bytes(*p));
            // Without such a connection the kernel answers with the listener.
            if kind == SOCK_DIAG_BY_FAMILY && port == Some(remote.port()) {
                let attrs = body.get(DIAG_LEN..).unwrap_or_default();
                found = msg::find_attr(attrs, INET_DIAG_INFO).map(<[u8]>::to_vec);
            }
        };
        match exchange(&self.socket, &request.finish(), seq, &mut take) {
            Ok(()) => Ok(found),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(e) => Err(SetupError::from_errno("asking about a connection", e)),
        }
    }
}

/// Sixteen bytes, of which an IPv4 address takes the first four.
fn address(ip: IpAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    match ip {
        IpAddr::V4(v4) => bytes[..4].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => bytes = v6.octets(),
    }
    bytes
}
