//! The ioctls of /dev/net/tun (linux/if_tun.h).
use core::ffi::{c_int, c_uint};
use core::mem::size_of;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io;
use rustix::ioctl::{Getter, IntegerSetter, Opcode, Setter, Updater, ioctl, opcode};

/// `struct ifreq` as TUNSETIFF and TUNGETIFF use it: name, flags, and the rest of the union.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    flags: u16,
    rest: [u8; size_of::<libc::ifreq>() - libc::IFNAMSIZ - 2],
}

const _: () = assert!(size_of::<Request>() == size_of::<libc::ifreq>());

/// Flags of a descriptor: IFF_TUN or IFF_TAP, IFF_NO_PI, IFF_VNET_HDR, IFF_MULTI_QUEUE.
pub(crate) type TunFlags = u16;

const SET_IFF: Opcode = opcode::write::<c_int>(b'T', 202);
const SET_OFFLOAD: Opcode = opcode::write::<c_uint>(b'T', 208);
const GET_IFF: Opcode = opcode::read::<c_uint>(b'T', 210);
const SET_SNDBUF: Opcode = opcode::write::<c_int>(b'T', 212);
const SET_VNET_LE: Opcode = opcode::write::<c_int>(b'T', 220);
const SET_VNET_HDR_SZ: Opcode = opcode::write::<c_int>(b'T', 216);

impl Request {
    fn new(name: &str, flags: TunFlags) -> Self {
        let mut request = Self { name: [0; libc::IFNAMSIZ], flags, rest: [0; _] };
        // The last byte stays NUL.
        let len = name.len().min(libc::IFNAMSIZ - 1);
        request.name[..len].copy_from_slice(&name.as_bytes()[..len]);
        request
    }

    fn name(&self) -> String {
        String::from_utf8_lossy(self.name.split(|b| *b == 0).next().unwrap_or_default()).into_owned()
    }
}

/// Opens a queue of device `name` (made when there is none; empty or with `%d`: the kernel chooses), non-blocking.
/// Returns the descriptor and the device's name.
pub(crate) fn attach(name: &str, flags: TunFlags) -> io::Result<(OwnedFd, String)> {
    let fd = open("/dev/net/tun", OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let mut request = Request::new(name, flags);
    // SAFETY: TUNSETIFF, for all that its number says `int`, reads and writes back one `struct ifreq`; `Request` has
    // its size and layout, holds no padding, and every bit pattern is a value of it.
    unsafe { ioctl(&fd, Updater::<SET_IFF, Request>::new(&mut request))? };
    Ok((fd, request.name()))
}

/// Name and flags of the device behind a descriptor; EBADFD when it is not attached to one.
pub(crate) fn interface(fd: impl AsFd) -> io::Result<(String, TunFlags)> {
    // SAFETY: TUNGETIFF writes one whole `struct ifreq`, whose size and layout `Request` has; every bit pattern is a
    // value of it.
    let request = unsafe { ioctl(fd, Getter::<GET_IFF, Request>::new())? };
    Ok((request.name(), request.flags))
}

/// Says which super-packets and unfinished checksums the reader takes (TUN_F_*).
pub(crate) fn set_offload(fd: impl AsFd, offloads: u32) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its argument as a number and touches no memory of ours.
    unsafe { ioctl(fd, IntegerSetter::<SET_OFFLOAD>::new_usize(offloads as usize)) }
}

/// Sets the length of the virtio-net header in front of every packet.
pub(crate) fn set_vnet_hdr_len(fd: impl AsFd, len: usize) -> io::Result<()> {
    // SAFETY: TUNSETVNETHDRSZ reads one `int`.
    unsafe { ioctl(fd, Setter::<SET_VNET_HDR_SZ, c_int>::new(len as c_int)) }
}

/// Makes the numbers in the virtio-net header little-endian, whatever this machine's order is.
pub(crate) fn set_little_endian(fd: impl AsFd) -> io::Result<()> {
    // SAFETY: TUNSETVNETLE reads one `int`.
    unsafe { ioctl(fd, Setter::<SET_VNET_LE, c_int>::new(1)) }
}

/// Bounds the bytes on their way into the kernel; above, a write answers EAGAIN.
pub(crate) fn set_sndbuf(fd: impl AsFd, bytes: c_int) -> io::Result<()> {
    // SAFETY: TUNSETSNDBUF reads one `int`.
    unsafe { ioctl(fd, Setter::<SET_SNDBUF, c_int>::new(bytes)) }
}
