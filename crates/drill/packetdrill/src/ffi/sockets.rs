//! The calls that make, join and end sockets, and their options.
use super::User;
use super::calls::{foreign, make, name, put_name, simple};
use super::memory;
use super::system::{Number, give};
use crate::shared::SHARED;
use bytes::Bytes;
use core::ffi::{c_int, c_void};
use core::ops::RangeInclusive;
use libc::{sockaddr, socklen_t};
use lowwater_posix::abi::{
    SCTP_SOCKOPT_CONNECTX3, SO_ATTACH_FILTER, SO_ATTACH_REUSEPORT_CBPF, SO_BINDTODEVICE, SO_LINGER,
    SO_MAX_PACING_RATE, SO_RCVTIMEO, SO_RCVTIMEO_NEW, SO_SNDTIMEO, SO_SNDTIMEO_NEW, SO_TIMESTAMPING,
    SO_TIMESTAMPING_NEW, SO_TXTIME, SOL_IP, SOL_IPV6, SOL_SCTP, SOL_SOCKET, SOL_TCP, TCP_CONGESTION,
    TCP_FASTOPEN_KEY, TCP_ULP,
};
use lowwater_posix::{Call, Optval};

/// Longest value of an option that is told on: longer than that of any option here, some of SCTP's being lists of addresses.
const OPTION_MAX: usize = 4_096;
/// Longest structure of IP.
const STRUCTURE_MAX: usize = 64;

/// Options of IP and IPv6 whose values are structures of several sizes: groups, headers, flow labels (linux/in.h, linux/in6.h).
const IP_STRUCTURES: [RangeInclusive<c_int>; 2] = [4..=4, 32..=48];
const IPV6_STRUCTURES: [RangeInclusive<c_int>; 7] =
    [2..=6, 9..=10, 20..=21, 27..=28, 32..=32, 42..=50, 54..=59];

/// What an option's value is, which says how much of the caller's memory Linux reads of it, whatever its length says beyond.
#[derive(Clone, Copy)]
enum Shape {
    /// A number or a structure of so many bytes.
    Bytes(usize),
    /// A name: up to its NUL.
    Name,
}

impl Shape {
    fn of(level: c_int, name: c_int) -> Self {
        match (level, name) {
            (SOL_SCTP, _) => Self::Bytes(OPTION_MAX),
            (SOL_SOCKET, SO_BINDTODEVICE) | (SOL_TCP, TCP_CONGESTION | TCP_ULP) => Self::Name,
            (
                SOL_SOCKET,
                SO_LINGER | SO_MAX_PACING_RATE | SO_TXTIME | SO_TIMESTAMPING | SO_TIMESTAMPING_NEW,
            ) => Self::Bytes(8),
            (
                SOL_SOCKET,
                SO_RCVTIMEO
                | SO_SNDTIMEO
                | SO_RCVTIMEO_NEW
                | SO_SNDTIMEO_NEW
                | SO_ATTACH_FILTER
                | SO_ATTACH_REUSEPORT_CBPF,
            ) => Self::Bytes(16),
            (SOL_TCP, TCP_FASTOPEN_KEY) => Self::Bytes(32),
            (SOL_IP, _) if IP_STRUCTURES.iter().any(|names| names.contains(&name)) => {
                Self::Bytes(STRUCTURE_MAX)
            }
            (SOL_IPV6, _) if IPV6_STRUCTURES.iter().any(|names| names.contains(&name)) => {
                Self::Bytes(STRUCTURE_MAX)
            }
            _ => Self::Bytes(4),
        }
    }
}

pub(super) extern "C" fn socket(_: User, domain: c_int, ty: c_int, protocol: c_int) -> c_int {
    give(|| simple(Call::Socket { domain, ty, protocol }))
}

pub(super) unsafe extern "C" fn bind(_: User, fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: bind(2) demands an address of this length.
    give(|| simple(Call::Bind { fd, addr: unsafe { name(addr, len) } }))
}

pub(super) extern "C" fn listen(_: User, fd: c_int, backlog: c_int) -> c_int {
    give(|| simple(Call::Listen { fd, backlog }))
}

pub(super) unsafe extern "C" fn accept(
    _: User,
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    give(|| {
        let reply = make(Call::Accept { fd, flags: 0 })?;
        // SAFETY: accept(2) demands NULL or an address with its length.
        if let Err(number) = unsafe { put_name(&reply, addr, len) } {
            // As in Linux the connection is lost.
            simple(Call::Close { fd: c_int::try_from(reply.ret).unwrap_or(-1) })?;
            return Err(number);
        }
        Ok(reply.ret)
    })
}

pub(super) unsafe extern "C" fn connect(_: User, fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: connect(2) demands an address of this length.
    give(|| simple(Call::Connect { fd, addr: unsafe { name(addr, len) } }))
}

pub(super) extern "C" fn shutdown(_: User, fd: c_int, how: c_int) -> c_int {
    give(|| simple(Call::Shutdown { fd, how }))
}

pub(super) unsafe extern "C" fn getsockopt(
    _: User,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: getsockopt(2) demands room of the length that `len` points to.
    give(|| unsafe { getsockopt_of(fd, level, name, value, len) })
}

/// # Safety
/// As getsockopt(2) demands.
pub(super) unsafe fn getsockopt_of(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> Result<i64, Number> {
    // SAFETY: the caller's promise.
    let room = unsafe { memory::value(len.cast_const().cast::<c_int>()) };
    if (level, name) == (SOL_SCTP, SCTP_SOCKOPT_CONNECTX3) && !foreign(fd) {
        // SAFETY: the caller's promise.
        return unsafe { connectx3(fd, value, room?, len) };
    }
    // Without a length there is still the question whether there is such a socket: EBADF comes before EFAULT.
    let given = match usize::try_from(room.as_ref().copied().unwrap_or(0)) {
        // SAFETY: SCTP's options read what they are to tell about from the caller's room (RFC 6458 section 8).
        Ok(len) if level == SOL_SCTP && len <= OPTION_MAX => unsafe {
            memory::bytes(value.cast_const(), len)
        },
        _ => None,
    };
    let reply = SHARED.call(match given {
        Some(value) => Call::GetsockoptIn { fd, level, name, value },
        None => Call::Getsockopt { fd, level, name, len: room.unwrap_or(0) },
    });
    if let Some(asked) = reply.optlen {
        // SAFETY: the caller's promise.
        unsafe { memory::put(len, asked) }?;
    }
    if let Some(errno) = reply.errno {
        return Err(errno.number());
    }
    let room = room?;
    let fits = &reply.value[..reply.value.len().min(usize::try_from(room).unwrap_or(0))];
    // SAFETY: no more than the caller's length.
    unsafe { memory::fill(value, fits) }?;
    // SAFETY: the caller's promise.
    unsafe { memory::put(len, fits.len() as socklen_t) }?;
    Ok(reply.ret)
}

/// What libsctp's sctp_connectx() hands over (struct sctp_getaddrs_old).
#[repr(C)]
#[derive(Clone, Copy)]
struct Connectx3 {
    assoc_id: i32,
    /// Bytes of the addresses.
    len: i32,
    addrs: *const c_void,
}

/// Reads the addresses where the structure points to, and writes the identifier in front of it, also while the handshake is under way.
///
/// # Safety
/// As getsockopt(2) demands; the structure has as many bytes of addresses as it says.
unsafe fn connectx3(fd: c_int, value: *mut c_void, room: c_int, len: *mut socklen_t) -> Result<i64, Number> {
    if room < size_of::<Connectx3>() as c_int {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller has room for the structure.
    let given = unsafe { memory::value(value.cast_const().cast::<Connectx3>()) }?;
    let most = usize::try_from(given.len).ok().filter(|len| *len <= OPTION_MAX).ok_or(libc::EINVAL)?;
    // SAFETY: the structure says how many bytes there are.
    let addrs = unsafe { memory::bytes(given.addrs, most) }.ok_or(libc::EFAULT)?;
    let head = [given.assoc_id.to_le_bytes(), given.len.to_le_bytes()].concat();
    let in_place = Bytes::from([&head[..], &addrs].concat());
    let reply = SHARED.call(Call::GetsockoptIn {
        fd,
        level: SOL_SCTP,
        name: SCTP_SOCKOPT_CONNECTX3,
        value: in_place,
    });
    if !reply.value.is_empty() {
        // SAFETY: it is shorter than the structure.
        unsafe { memory::fill(value, &reply.value) }?;
        // SAFETY: the caller's promise.
        unsafe { memory::put(len, reply.value.len() as socklen_t) }?;
    }
    reply.errno.map_or(Ok(reply.ret), |errno| Err(errno.number()))
}

pub(super) unsafe extern "C" fn setsockopt(
    _: User,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    give(|| {
        // optlen is a signed number in the kernel.
        let signed = len.cast_signed();
        let value = match usize::try_from(signed) {
            // SAFETY: setsockopt(2) demands a value of this length.
            Ok(len) => unsafe { option_value(Shape::of(level, name), value, len) },
            Err(_) => None,
        };
        let value = value.map_or(Optval::Bad(signed), Optval::Bytes);
        simple(Call::Setsockopt { fd, level, name, value })
    })
}

/// A value of `len` bytes, of which no more is read than its shape has: scripts give lengths that their values do not have, which Linux
/// does not notice either. The rest is zeros, which nobody looks at; `None` where nothing can be read.
///
/// # Safety
/// A pointer beyond the first page points to a value of this shape or to `len` bytes, whichever is less.
unsafe fn option_value(shape: Shape, value: *const c_void, len: usize) -> Option<Bytes> {
    let told = len.min(OPTION_MAX);
    let mut bytes = Vec::with_capacity(told);
    match shape {
        // SAFETY: the caller's promise.
        Shape::Bytes(most) => bytes.extend_from_slice(&unsafe { memory::bytes(value, told.min(most)) }?),
        Shape::Name => {
            for at in 0..told {
                // SAFETY: the caller's promise; a name ends with its NUL, behind which this does not look.
                let byte = unsafe { memory::value(value.cast::<u8>().wrapping_add(at)) }.ok()?;
                if byte == 0 {
                    break;
                }
                bytes.push(byte);
            }
        }
    }
    bytes.resize(told, 0);
    Some(bytes.into())
}
