//! A packet socket that sees super-packets whole, with the kernel's time of each.
use lowwater_os::Link;
use lowwater_os::socket::{self, Address, Buffer};
use rustix::fd::{AsFd as _, OwnedFd};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// ETH_P_ALL in network order.
pub(crate) const EVERY_PROTOCOL: u16 = (libc::ETH_P_ALL as u16).to_be();
/// PACKET_IGNORE_OUTGOING of linux/if_packet.h.
const PACKET_IGNORE_OUTGOING: i32 = 23;
/// Bytes that may wait for the reader.
const BUFFER: i32 = 64 << 20;
/// The header before each frame, and where `gso_size` lies in it.
const HEAD: usize = lowwater_wire::vnet_hdr::LEN;
const GSO_SIZE_AT: usize = 4;
pub(crate) const NS_PER_S: u64 = 1_000_000_000;

/// A socket on an interface of the calling thread's host. With protocol 0 it only sends.
pub(crate) fn open(interface: &str, protocol: u16) -> io::Result<OwnedFd> {
    let link = Link::by_name(interface).map_err(|e| io::Error::other(e.to_string()))?;
    let fd = socket::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0)?;
    let option = |level, name, value: i32| {
        socket::setsockopt(Some(fd.as_fd()), level, name, Some(&value.to_ne_bytes()), 4)
    };
    option(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    option(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
    option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER)?;
    option(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, BUFFER)?;
    option(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    let txtime = [libc::CLOCK_MONOTONIC.to_ne_bytes(), 0_u32.to_ne_bytes()].concat();
    socket::setsockopt(Some(fd.as_fd()), libc::SOL_SOCKET, libc::SO_TXTIME, Some(&txtime), 8)?;
    let mut address = [0; 20];
    address[..2].copy_from_slice(&(libc::AF_PACKET as u16).to_ne_bytes());
    address[2..4].copy_from_slice(&protocol.to_ne_bytes());
    address[4..8].copy_from_slice(&link.index().to_ne_bytes());
    socket::bind(Some(fd.as_fd()), Address::Bytes(&address))?;
    Ok(fd)
}

/// What came by.
pub(crate) struct Sniffed<'a> {
    /// Nanoseconds of the wall clock.
    pub(crate) at: u64,
    /// Bytes of payload in each segment of a super-packet; 0 for a single one.
    pub(crate) gso_size: u16,
    /// The frame.
    pub(crate) frame: &'a [u8],
}

/// Shows `see` what comes until told to stop.
pub(crate) fn collect(fd: &OwnedFd, stop: &AtomicBool, see: &mut dyn FnMut(&Sniffed<'_>)) -> io::Result<()> {
    let mut buffers = [Buffer::Bytes(vec![0; 70_000])];
    while !stop.load(Ordering::Relaxed) {
        let (readable, _) = socket::poll(&[Some((Some(fd.as_fd()), libc::POLLIN))], 50)?;
        if readable == 0 {
            continue;
        }
        let got = socket::recv(Some(fd.as_fd()), &mut buffers, 0, 64)?;
        let [Buffer::Bytes(bytes)] = &buffers else { continue };
        if let Some((head, frame)) = bytes.get(..got.len).and_then(|b| b.split_at_checked(HEAD)) {
            let gso_size = u16::from_le_bytes([head[GSO_SIZE_AT], head[GSO_SIZE_AT + 1]]);
            see(&Sniffed { at: stamp(&got.control).unwrap_or_default(), gso_size, frame });
        }
    }
    Ok(())
}

/// Nanoseconds in the control message SCM_TIMESTAMPNS.
fn stamp(control: &[u8]) -> Option<u64> {
    let word = |at: usize| Some(u64::from_ne_bytes(control.get(at..at + 8)?.try_into().ok()?));
    Some(word(16)? * NS_PER_S + word(24)?)
}
