//! The calls that make, join and end sockets, and their options.
use super::User;
use super::calls::{foreign, make, name, put_name, simple};
use super::memory;
use super::system::{Number, give};
use crate::shared::SHARED;
use bytes::Bytes;
use core::ffi::{c_int, c_void};
use libc::{sockaddr, socklen_t};
use lowwater_posix::abi::{SCTP_SOCKOPT_CONNECTX3, SOL_SCTP};
use lowwater_posix::{Call, Optval};

/// Bytes of an option's value that are looked at: longer than that of any option here.
const VALUE_MAX: usize = 64;
/// The same for those of SCTP, some of which are lists of addresses.
const SCTP_OPTION_MAX: usize = 4_096;

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
        Ok(len) if level == SOL_SCTP && len <= SCTP_OPTION_MAX => unsafe {
            memory::bytes(value.cast_const(), len)
        },
        _ => None,
    };
    let reply = make(match given {
        Some(value) => Call::GetsockoptIn { fd, level, name, value },
        None => Call::Getsockopt { fd, level, name, len: room.unwrap_or(0) },
    });
    let (reply, room) = (reply?, room?);
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
    let most = usize::try_from(given.len).ok().filter(|len| *len <= SCTP_OPTION_MAX).ok_or(libc::EINVAL)?;
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
        let most = if level == SOL_SCTP { SCTP_OPTION_MAX } else { VALUE_MAX };
        let value = match usize::try_from(signed) {
            Ok(len) => {
                // Scripts give lengths that their values do not have, which Linux does not notice: it reads what the option needs.
                let len = len.min(most);
                // SAFETY: setsockopt(2) demands a value of this length, and packetdrill's buffers have at least as many bytes.
                let bytes = unsafe { memory::bytes(value, len) };
                bytes.map_or(Optval::Bad(signed), Optval::Bytes)
            }
            Err(_) => Optval::Bad(signed),
        };
        simple(Call::Setsockopt { fd, level, name, value })
    })
}
