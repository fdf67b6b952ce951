//! The addresses that the kernel has, on all its devices.
use super::msg::{self, Message, NLM_F_DUMP};
use super::{IFA_ADDRESS, IFA_LOCAL, exchange, number, sockets};
use crate::error::SetupError;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::cell::Cell;
use std::net::IpAddr;

/// Length of `struct ifaddrmsg`.
const IFADDR_LEN: usize = 8;
/// Offsets in it: of the length of the prefix, and of the index of the device.
const IFADDR_PREFIX: usize = 1;
const IFADDR_INDEX: usize = 4;

/// An address of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Name of the device that has it.
    pub device: String,
    /// The address.
    pub ip: IpAddr,
    /// Length of its subnet's prefix.
    pub prefix: u8,
}

/// How often a list is asked for that changes while it is read.
const LISTS_MAX: u32 = 16;

/// All addresses of the calling thread's network namespace, of both families; needs no privileges.
///
/// # Errors
/// [`SetupError::Os`] when the process is out of descriptors, there are more than half a mebibyte of answers, or addresses come and go all the
/// time.
pub fn addresses() -> Result<Vec<Held>, SetupError> {
    let (socket, lookup) = sockets()?;
    let named = |(index, ip, prefix)| {
        // A device that is gone meanwhile has no addresses any more.
        let device = rustix::net::netdevice::index_to_name(&lookup, index).ok()?;
        Some(Held { device, ip, prefix })
    };
    Ok(held(&socket, &Cell::new(0))?.into_iter().filter_map(named).collect())
}

/// Those of the socket's namespace: index of the device, address and prefix of each.
pub(super) fn held(socket: &OwnedFd, seq: &Cell<u32>) -> Result<Vec<(u32, IpAddr, u8)>, SetupError> {
    let mut found = Vec::new();
    for _ in 0..LISTS_MAX {
        let seq = seq.replace(seq.get().wrapping_add(1)).wrapping_add(1);
        let mut request = Message::new(libc::RTM_GETADDR, NLM_F_DUMP, seq);
        request.u8(libc::AF_UNSPEC as u8).u8(0).u8(0).u8(0).u32(0);
        let mut take = |kind, body: &[u8]| {
            if kind == libc::RTM_NEWADDR {
                found.extend(parse(body));
            }
        };
        match exchange(socket, &request.finish(), seq, &mut take) {
            Ok(()) => return Ok(found),
            Err(Errno::INTR) => found.clear(),
            Err(e) => return Err(failed(e)),
        }
    }
    Err(failed(Errno::INTR))
}

fn failed(errno: Errno) -> SetupError {
    SetupError::from_errno("listing the kernel's addresses", errno)
}

/// Index of the device, address and prefix. The end of a tunnel has its own address as `IFA_LOCAL`, the peer's as the other.
fn parse(body: &[u8]) -> Option<(u32, IpAddr, u8)> {
    let attrs = body.get(IFADDR_LEN..)?;
    let ip = address(msg::find_attr(attrs, IFA_LOCAL).or_else(|| msg::find_attr(attrs, IFA_ADDRESS))?)?;
    Some((number(body.get(IFADDR_INDEX..)?)?, ip, *body.get(IFADDR_PREFIX)?))
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}
