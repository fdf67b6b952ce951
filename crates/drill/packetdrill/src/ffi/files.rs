//! The calls that any file has. Descriptors that are not ours are real files, which a script opens with libc's open(): libc serves them.
use super::User;
use super::calls::{foreign, make, simple};
use super::memory::{self, RW_MAX};
use super::messages::{self, IOV_MAX};
use super::system::{Number, forwarded, give};
use crate::shared::SHARED;
use core::ffi::{c_int, c_long, c_uint, c_ulong, c_void};
use libc::{iovec, loff_t, size_t, ssize_t};
use lowwater_posix::abi::{F_GETPIPE_SZ, FIOASYNC, FIONBIO};
use lowwater_posix::{Call, Piece, RecvKind, Room, SendKind};

/// Flags of splice(2).
const SPLICE_FLAGS: c_uint =
    libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;
/// Bytes that splice() and sendfile() move between a file and us at a time.
const MOVE_MAX: usize = 1 << 20;

pub(super) unsafe extern "C" fn read(_: User, fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t {
    give(|| {
        if foreign(fd) {
            // SAFETY: read(2)'s demands are the caller's to keep.
            return forwarded(unsafe { libc::read(fd, buf, len) } as i64);
        }
        // SAFETY: read(2) demands room for `len` bytes.
        unsafe { messages::receive_into(fd, RecvKind::Read, &[iovec { iov_base: buf, iov_len: len }], 0) }
    })
}

pub(super) unsafe extern "C" fn readv(_: User, fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    give(|| {
        if foreign(fd) {
            // SAFETY: readv(2)'s demands are the caller's to keep.
            return forwarded(unsafe { libc::readv(fd, iov, count) } as i64);
        }
        // SAFETY: readv(2) demands an array of so many buffers.
        let iov = unsafe { iovecs(iov, count) }?;
        // SAFETY: ... each of which has the room that it says.
        unsafe { messages::receive_into(fd, RecvKind::Readv, &iov, 0) }
    })
}

pub(super) unsafe extern "C" fn write(_: User, fd: c_int, buf: *const c_void, len: size_t) -> ssize_t {
    give(|| {
        if foreign(fd) {
            // SAFETY: write(2)'s demands are the caller's to keep.
            return forwarded(unsafe { libc::write(fd, buf, len) } as i64);
        }
        // SAFETY: write(2) demands `len` bytes.
        let data = vec![unsafe { memory::piece(buf, len) }];
        simple(Call::Send { fd, kind: SendKind::Write, data, flags: 0, to: None, control: Vec::new() })
    })
}

pub(super) unsafe extern "C" fn writev(_: User, fd: c_int, iov: *const iovec, count: c_int) -> ssize_t {
    give(|| {
        if foreign(fd) {
            // SAFETY: writev(2)'s demands are the caller's to keep.
            return forwarded(unsafe { libc::writev(fd, iov, count) } as i64);
        }
        // SAFETY: writev(2) demands an array of so many buffers.
        let iov = unsafe { iovecs(iov, count) }?;
        // SAFETY: ... each of which has the bytes that it says.
        let data = unsafe { messages::pieces(&iov) };
        simple(Call::Send { fd, kind: SendKind::Writev, data, flags: 0, to: None, control: Vec::new() })
    })
}

pub(super) extern "C" fn fcntl(_: User, fd: c_int, cmd: c_int, arg: c_long) -> c_int {
    give(|| {
        if foreign(fd) {
            // SAFETY: the commands that scripts have take a number; those with a pointer are the caller's to answer for.
            return forwarded(unsafe { libc::fcntl(fd, cmd, arg) }.into());
        }
        // What packetdrill passes is an int, and the upper half of the register is not its own. Linux looks at the int, too.
        simple(Call::Fcntl { fd, cmd, arg: i64::from(arg as c_int) })
    })
}

pub(super) unsafe extern "C" fn ioctl(_: User, fd: c_int, request: c_ulong, arg: *mut c_int) -> c_int {
    give(|| {
        if foreign(fd) {
            // SAFETY: ioctl(2)'s demands are the caller's to keep.
            return forwarded(unsafe { libc::ioctl(fd, request, arg) }.into());
        }
        let told = match request as c_int {
            // SAFETY: both read an int.
            FIONBIO | FIOASYNC => unsafe { memory::value(arg.cast_const()) }.ok(),
            _ => (!memory::is_bad(arg)).then_some(0),
        };
        let reply = make(Call::Ioctl { fd, request, arg: told })?;
        // SAFETY: the requests that tell something write an int.
        reply.int().map_or(Ok(()), |int| unsafe { memory::put(arg, int) })?;
        Ok(reply.ret)
    })
}

pub(super) extern "C" fn close(_: User, fd: c_int) -> c_int {
    give(|| close_of(fd))
}

/// close(2) for any descriptor.
pub(super) fn close_of(fd: c_int) -> Result<i64, Number> {
    if foreign(fd) {
        // SAFETY: the descriptor is the caller's, not one of ours, and closing it is what they ask for.
        return forwarded(unsafe { libc::close(fd) }.into());
    }
    simple(Call::Close { fd })
}

pub(super) unsafe extern "C" fn pipe(_: User, fds: *mut c_int) -> c_int {
    give(|| {
        if memory::is_bad(fds) {
            return Err(libc::EFAULT);
        }
        let reply = make(Call::Pipe { flags: 0 })?;
        let (read, write) = reply.pipe.ok_or(libc::EMFILE)?;
        // SAFETY: pipe(2) demands room for two.
        unsafe { memory::put(fds.cast::<[c_int; 2]>(), [read, write]) }?;
        Ok(reply.ret)
    })
}

pub(super) unsafe extern "C" fn splice(
    _: User,
    fd_in: c_int,
    off_in: *mut loff_t,
    fd_out: c_int,
    off_out: *mut loff_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    let (theirs_in, theirs_out) = (foreign(fd_in), foreign(fd_out));
    give(|| match (theirs_in, theirs_out) {
        // SAFETY: splice(2)'s demands are the caller's to keep.
        (true, true) => forwarded(unsafe { libc::splice(fd_in, off_in, fd_out, off_out, len, flags) } as i64),
        (false, false) => {
            // SAFETY: splice(2) demands NULL or an offset.
            let (off_in, off_out) = unsafe { (offset(off_in), offset(off_out)) };
            simple(Call::Splice { fd_in, off_in, fd_out, off_out, len, flags })
        }
        // In this order (`splice` of fs/splice.c), whatever our descriptor is.
        _ if len == 0 => Ok(0),
        _ if flags & !SPLICE_FLAGS != 0 => Err(libc::EINVAL),
        _ if !is_open(if theirs_in { fd_in } else { fd_out }) => Err(libc::EBADF),
        // Between a file and a socket there must be a pipe (`do_splice`).
        (true, false) if !is_pipe(fd_out) => Err(libc::EINVAL),
        (false, true) if !is_pipe(fd_in) => Err(libc::EINVAL),
        // SAFETY: as above; a file's own offset serves where none is given.
        (true, false) => move_in(fd_in, unsafe { offset(off_in) }, fd_out, len),
        (false, true) => move_out(fd_in, fd_out, len),
    })
}

/// One of the caller's own descriptors is open.
fn is_open(fd: c_int) -> bool {
    // SAFETY: no memory is involved.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// One of our descriptors is an end of a pipe.
fn is_pipe(fd: c_int) -> bool {
    make(Call::Fcntl { fd, cmd: F_GETPIPE_SZ, arg: 0 }).is_ok()
}

/// In packetdrill's calls of a shared object a pointer to 0 stands for the script's NULL.
///
/// # Safety
/// NULL, or a pointer to an offset.
unsafe fn offset(at: *const loff_t) -> Option<i64> {
    // SAFETY: the caller's promise.
    unsafe { memory::value(at) }.ok().filter(|offset| *offset != 0)
}

/// Writes what a file has, from `offset` or from where the file stands, to one of our descriptors, up to its end or until no more is taken.
/// The file stands behind the last byte that was taken.
pub(super) fn move_in(file: c_int, offset: Option<i64>, fd: c_int, len: usize) -> Result<i64, Number> {
    // SAFETY: no memory is involved.
    let has_end = unsafe { libc::lseek(file, 0, libc::SEEK_CUR) } >= 0;
    let mut done = 0;
    loop {
        let most = len.saturating_sub(usize::try_from(done).unwrap_or(0)).min(MOVE_MAX);
        match move_some(file, offset.map(|offset| offset + done), fd, most) {
            // A pipe gives what it has, and may have no more for long.
            Ok(n) if n < most as i64 || !has_end => return Ok(done + n),
            Ok(n) => done += n,
            Err(number) => return if done > 0 { Ok(done) } else { Err(number) },
        }
        if done as usize == len {
            return Ok(done);
        }
    }
}

fn move_some(file: c_int, offset: Option<i64>, fd: c_int, len: usize) -> Result<i64, Number> {
    let mut buffer = vec![0; len];
    let (at, room) = (buffer.as_mut_ptr().cast(), buffer.len());
    let got = match offset {
        // SAFETY: the buffer has this room.
        Some(offset) => unsafe { libc::pread(file, at, room, offset) },
        // SAFETY: the same.
        None => unsafe { libc::read(file, at, room) },
    };
    let got = forwarded(got as i64)?;
    buffer.truncate(usize::try_from(got).unwrap_or(0));
    if buffer.is_empty() {
        return Ok(0);
    }
    let data = vec![Piece::Data(buffer.into())];
    let sent =
        simple(Call::Send { fd, kind: SendKind::Write, data, flags: 0, to: None, control: Vec::new() });
    let unsent = got - sent.unwrap_or(0);
    if offset.is_none() && unsent > 0 {
        // SAFETY: no memory is involved. What cannot be moved back, a pipe, keeps nothing either in splice(2).
        unsafe { libc::lseek(file, -unsent, libc::SEEK_CUR) };
    }
    sent
}

/// Reads from one of our descriptors and writes it to a file. What the file does not take stays in our pipe.
fn move_out(fd: c_int, file: c_int, len: usize) -> Result<i64, Number> {
    let rooms = vec![Room::new(len.min(MOVE_MAX))];
    let reply = make(Call::Recv { fd, kind: RecvKind::Read, rooms, flags: 0, control_len: 0 })?;
    let data = &reply.data[..];
    let mut done = 0;
    while done < data.len() {
        let rest = &data[done..];
        // SAFETY: the bytes are ours and live until the call is over.
        let wrote = forwarded(unsafe { libc::write(file, rest.as_ptr().cast(), rest.len()) } as i64);
        match wrote.map(|n| usize::try_from(n).unwrap_or(0)) {
            Ok(n) if n > 0 => done += n,
            stopped => {
                SHARED.with(|machine| machine.unread(fd, rest));
                if let (0, Err(number)) = (done, stopped) {
                    return Err(number);
                }
                break;
            }
        }
    }
    Ok(done as i64)
}

/// Copies an array of buffers. One that is too long (UIO_MAXIOV) or has a length below zero is EINVAL.
///
/// # Safety
/// A pointer beyond the first page points to so many.
unsafe fn iovecs(iov: *const iovec, count: c_int) -> Result<Vec<iovec>, Number> {
    let count = usize::try_from(count).ok().filter(|n| *n <= IOV_MAX).ok_or(libc::EINVAL)?;
    // SAFETY: the caller's promise.
    unsafe { messages::iovecs(iov, count) }
}

const _: () = assert!(MOVE_MAX < RW_MAX);
