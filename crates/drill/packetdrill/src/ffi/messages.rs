//! The calls that send and receive on sockets, with their messages of buffers, address and control data.
use super::User;
use super::calls::{NAME_MAX, make, name, put_name, simple};
use super::memory::{self, RW_MAX};
use super::system::{Number, give};
use core::ffi::{c_int, c_void};
use libc::{iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use lowwater_posix::{Call, Control, Name, Piece, RecvKind, Reply, SendKind};

/// Buffers that one call may have (UIO_MAXIOV).
pub(super) const IOV_MAX: usize = 1_024;
/// Bytes of control data that one call may send, as Linux's `net.core.optmem_max`.
const CONTROL_MAX: usize = 131_072;

pub(super) unsafe extern "C" fn recv(
    _: User,
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: recv(2) demands room for `len` bytes.
    give(|| unsafe { receive_into(fd, RecvKind::Recv, &[iovec { iov_base: buf, iov_len: len }], flags) })
}

pub(super) unsafe extern "C" fn recvfrom(
    _: User,
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    flags: c_int,
    addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> ssize_t {
    give(|| {
        let iov = [iovec { iov_base: buf, iov_len: len }];
        let reply = receive(fd, RecvKind::Recvfrom, &iov, flags, 0)?;
        // SAFETY: recvfrom(2) demands room for `len` bytes.
        unsafe { scatter(&iov, &reply.data) }?;
        // SAFETY: ... and NULL or an address with its length.
        unsafe { put_name(&reply, addr, addr_len) }?;
        Ok(reply.ret)
    })
}

pub(super) unsafe extern "C" fn recvmsg(_: User, fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    give(|| {
        // SAFETY: recvmsg(2) demands a message.
        let mut header = unsafe { memory::value(message.cast_const()) }?;
        name_len(&header)?;
        // SAFETY: ... with an array of so many buffers.
        let iov = unsafe { message_iovecs(&header) }?;
        // Room that is nowhere is none, which `put_cmsg` does not hold against anybody.
        let nowhere = memory::is_bad(header.msg_control);
        let room = if nowhere { 0 } else { header.msg_controllen };
        let reply = receive(fd, RecvKind::Recvmsg, &iov, flags, room)?;
        // SAFETY: ... each of which has the room that it says.
        unsafe { scatter(&iov, &reply.data) }?;
        // SAFETY: ... with NULL or room for an address of this length.
        unsafe { put_name(&reply, header.msg_name.cast(), &raw mut header.msg_namelen) }?;
        let control = Control::write(&reply.control);
        let control = &control[..control.len().min(room)];
        // SAFETY: ... and room for so much control data.
        unsafe { memory::fill(header.msg_control, control) }?;
        header.msg_controllen = control.len();
        header.msg_flags = reply.msg_flags;
        // SAFETY: the message was readable, and recvmsg(2) demands that it is writable.
        unsafe { memory::put(message, header) }?;
        Ok(reply.ret)
    })
}

pub(super) unsafe extern "C" fn send(
    _: User,
    fd: c_int,
    buf: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    give(|| {
        // SAFETY: send(2) demands `len` bytes.
        let data = vec![unsafe { memory::piece(buf, len) }];
        simple(Call::Send { fd, kind: SendKind::Send, data, flags, to: None, control: Vec::new() })
    })
}

pub(super) unsafe extern "C" fn sendto(
    _: User,
    fd: c_int,
    buf: *const c_void,
    len: size_t,
    flags: c_int,
    addr: *const sockaddr,
    addr_len: socklen_t,
) -> ssize_t {
    give(|| {
        // SAFETY: sendto(2) demands `len` bytes.
        let data = vec![unsafe { memory::piece(buf, len) }];
        // SAFETY: ... and NULL or an address of this length, which may be 0 here (`__sys_sendto`).
        let to = (!addr.is_null()).then(|| unsafe { name(addr, addr_len) });
        simple(Call::Send { fd, kind: SendKind::Sendto, data, flags, to, control: Vec::new() })
    })
}

pub(super) unsafe extern "C" fn sendmsg(_: User, fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    give(|| {
        // SAFETY: sendmsg(2) demands a message.
        let header = unsafe { memory::value(message) }?;
        let name_len = name_len(&header)?;
        // SAFETY: ... with an array of so many buffers.
        let iov = unsafe { message_iovecs(&header) }?;
        // SAFETY: ... each of which has the bytes that it says.
        let data = unsafe { pieces(&iov) };
        // SAFETY: ... with NULL or an address of this length.
        let to = unsafe { destination(header.msg_name.cast(), name_len) };
        if header.msg_controllen > CONTROL_MAX {
            return Err(libc::ENOBUFS);
        }
        // SAFETY: ... and so much control data.
        let control =
            unsafe { memory::bytes(header.msg_control, header.msg_controllen) }.ok_or(libc::EFAULT)?;
        let control = Control::read(&control).ok_or(libc::EINVAL)?;
        simple(Call::Send { fd, kind: SendKind::Sendmsg, data, flags, to, control })
    })
}

/// Receives without an address and without control data.
///
/// # Safety
/// Each buffer beyond the first page has the room that it says.
pub(super) unsafe fn receive_into(
    fd: c_int,
    kind: RecvKind,
    iov: &[iovec],
    flags: c_int,
) -> Result<i64, Number> {
    let reply = receive(fd, kind, iov, flags, 0)?;
    // SAFETY: the caller's promise.
    unsafe { scatter(iov, &reply.data) }?;
    Ok(reply.ret)
}

fn receive(
    fd: c_int,
    kind: RecvKind,
    iov: &[iovec],
    flags: c_int,
    control_len: usize,
) -> Result<Reply, Number> {
    let rooms = iov.iter().map(|v| memory::room(v.iov_base, v.iov_len)).collect();
    make(Call::Recv { fd, kind, rooms, flags, control_len })
}

/// Copies what was read to the buffers in their order.
///
/// # Safety
/// Each buffer beyond the first page has the room that it says.
unsafe fn scatter(iov: &[iovec], mut data: &[u8]) -> Result<(), Number> {
    for v in iov {
        let (now, later) = data.split_at(v.iov_len.min(data.len()));
        // SAFETY: no more than the buffer's length.
        unsafe { memory::fill(v.iov_base, now) }?;
        data = later;
    }
    Ok(())
}

/// What the buffers hold.
///
/// # Safety
/// Each buffer beyond the first page has the bytes that it says.
pub(super) unsafe fn pieces(iov: &[iovec]) -> Vec<Piece> {
    let mut left = RW_MAX;
    iov.iter()
        .map(|v| {
            let len = v.iov_len.min(left);
            left -= len;
            // SAFETY: the caller's promise, and no more than the buffer's length.
            unsafe { memory::piece(v.iov_base, len) }
        })
        .collect()
}

/// Copies an array of buffers; a length below zero is EINVAL.
///
/// # Safety
/// A pointer beyond the first page points to so many.
pub(super) unsafe fn iovecs(iov: *const iovec, count: usize) -> Result<Vec<iovec>, Number> {
    // SAFETY: the caller's promise.
    let iov = unsafe { memory::array(iov, count) }?;
    let lengths_fit = iov.iter().all(|v| isize::try_from(v.iov_len).is_ok());
    if lengths_fit { Ok(iov) } else { Err(libc::EINVAL) }
}

/// The length of a message's address, cut to that of the longest there is. One below zero is EINVAL before anything else is looked at
/// (`__copy_msghdr`).
fn name_len(header: &msghdr) -> Result<socklen_t, Number> {
    let negative = !header.msg_name.is_null() && header.msg_namelen.cast_signed() < 0;
    if negative { Err(libc::EINVAL) } else { Ok(header.msg_namelen.min(NAME_MAX as socklen_t)) }
}

/// The buffers of a message; too many are EMSGSIZE.
///
/// # Safety
/// As sendmsg(2) and recvmsg(2) demand.
unsafe fn message_iovecs(header: &msghdr) -> Result<Vec<iovec>, Number> {
    if header.msg_iovlen > IOV_MAX {
        return Err(libc::EMSGSIZE);
    }
    // SAFETY: the caller's promise.
    unsafe { iovecs(header.msg_iov, header.msg_iovlen) }
}

/// Where to send a message to, unless the caller does not say: none has the length 0 (`__copy_msghdr`).
///
/// # Safety
/// `at` is NULL or points to `len` bytes.
unsafe fn destination(at: *const sockaddr, len: socklen_t) -> Option<Name> {
    // SAFETY: the caller's promise.
    (!at.is_null() && len > 0).then(|| unsafe { name(at, len) })
}
