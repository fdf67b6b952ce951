//! What all system calls have in common: a call goes in, its result or errno comes out.
use super::memory;
use super::system::Number;
use crate::shared::SHARED;
use core::ffi::{c_int, c_void};
use libc::{sockaddr, socklen_t};
use lowwater_posix::{Call, Name, Reply, sockaddr};

/// Longest address that Linux reads (`struct sockaddr_storage`).
pub(super) const NAME_MAX: usize = 128;

/// Makes a call: its reply, or its errno.
pub(super) fn make(call: Call) -> Result<Reply, Number> {
    let reply = SHARED.call(call);
    match reply.errno {
        Some(errno) => Err(errno.number()),
        None => Ok(reply),
    }
}

/// The result of a call that brings nothing else.
pub(super) fn simple(call: Call) -> Result<i64, Number> {
    Ok(make(call)?.ret)
}

/// The descriptor is not ours: libc knows it.
pub(super) fn foreign(fd: c_int) -> bool {
    !SHARED.has(fd)
}

/// An address that the caller passes. One whose length no address has is not read.
///
/// # Safety
/// A pointer beyond the first page points to `len` bytes.
pub(super) unsafe fn name(at: *const sockaddr, len: socklen_t) -> Name {
    let len = len as usize;
    if len > NAME_MAX {
        return Name::Strange;
    }
    // SAFETY: the caller's promise.
    unsafe { memory::bytes(at.cast(), len) }.map_or(Name::Bad, |bytes| Name::read(&bytes))
}

/// Writes the peer's address and its length as Linux's `move_addr_to_user` does: no more than fits, but the length that it has. An
/// address that nobody asks for is not written; one that the call does not have has the length 0.
///
/// # Safety
/// `at` is NULL or points to as many bytes as `len` says, and `len` to a length.
pub(super) unsafe fn put_name(reply: &Reply, at: *mut sockaddr, len: *mut socklen_t) -> Result<(), Number> {
    if at.is_null() {
        return Ok(());
    }
    let name = reply.addr.map(sockaddr).unwrap_or_default();
    // SAFETY: the caller's promise.
    let room = unsafe { memory::value(len.cast_const().cast::<c_int>()) }?;
    let room = usize::try_from(room).map_err(|_| libc::EINVAL)?;
    let fits = &name[..room.min(name.len())];
    // SAFETY: no more than the caller's length.
    unsafe { memory::fill(at.cast::<c_void>(), fits) }?;
    // SAFETY: the caller's promise.
    unsafe { memory::put(len, name.len() as socklen_t) }
}
