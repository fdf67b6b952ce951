//! System calls on sockets as they are: addresses, options and control messages as bytes in the kernel's layout. For programs
//! that compare the kernel with something else, or stand between a program and it; others are better served by `std::net`.
//!
//! A descriptor that is `None` is -1, which no process has; a buffer that is [`Buffer::Bad`] or a `None` of an option is a null
//! pointer with a length: the kernel answers both (EBADF, EFAULT), and nothing is touched.
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::io::{Error, Result};
use std::ptr;

/// Longest address that the kernel tells.
const ADDRESS_MAX: usize = 128;

/// Room for the value of an option: no value is longer, and the kernel writes only what there is.
const OPTION_MAX: u32 = 65_536;

/// A descriptor, or none.
pub type Fd<'a> = Option<BorrowedFd<'a>>;

/// A buffer to be filled.
#[derive(Debug)]
pub enum Buffer {
    /// Its bytes.
    Bytes(Vec<u8>),
    /// A null pointer with a length.
    Bad(usize),
}

/// A struct sockaddr to be read.
#[derive(Clone, Copy, Debug)]
pub enum Address<'a> {
    /// Its bytes.
    Bytes(&'a [u8]),
    /// A pointer into the first page, where nothing is, with a length.
    Bad(u32),
}

impl Address<'_> {
    /// The pointer and the length that the kernel gets.
    fn parts(&self) -> (*const libc::sockaddr, u32) {
        match self {
            Self::Bytes(bytes) => (bytes.as_ptr().cast(), bytes.len() as u32),
            // Null would mean that there is no address (sendmsg(2)).
            Self::Bad(len) => (ptr::without_provenance(1), *len),
        }
    }
}

/// What recvmsg(2) told.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Bytes received; with MSG_TRUNC more than the buffers hold is possible.
    pub len: usize,
    /// The sender's address, empty where there is none.
    pub addr: Vec<u8>,
    /// msg_flags.
    pub flags: i32,
    /// Control messages, as they stand in their buffer.
    pub control: Vec<u8>,
}

fn raw(fd: Fd<'_>) -> RawFd {
    fd.map_or(-1, |fd| fd.as_raw_fd())
}

fn check(ret: isize) -> Result<usize> {
    usize::try_from(ret).map_err(|_| Error::last_os_error())
}

fn own(ret: i32) -> Result<OwnedFd> {
    check(ret as isize)?;
    // SAFETY: the kernel has just made this descriptor, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(ret) })
}

/// socket(2).
///
/// # Errors
/// The kernel's.
pub fn socket(domain: i32, ty: i32, protocol: i32) -> Result<OwnedFd> {
    // SAFETY: no pointers.
    own(unsafe { libc::socket(domain, ty, protocol) })
}

/// bind(2).
///
/// # Errors
/// The kernel's.
pub fn bind(fd: Fd<'_>, addr: Address<'_>) -> Result<()> {
    let (pointer, len) = addr.parts();
    // SAFETY: the pointer and the length are those of bytes that are only read, or lead nowhere, which the kernel answers.
    check(unsafe { libc::bind(raw(fd), pointer, len) } as isize).map(drop)
}

/// connect(2).
///
/// # Errors
/// The kernel's.
pub fn connect(fd: Fd<'_>, addr: Address<'_>) -> Result<()> {
    let (pointer, len) = addr.parts();
    // SAFETY: the pointer and the length are those of bytes that are only read, or lead nowhere, which the kernel answers.
    check(unsafe { libc::connect(raw(fd), pointer, len) } as isize).map(drop)
}

/// listen(2).
///
/// # Errors
/// The kernel's.
pub fn listen(fd: Fd<'_>, backlog: i32) -> Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::listen(raw(fd), backlog) } as isize).map(drop)
}

/// accept4(2): the connection and the peer's address.
///
/// # Errors
/// The kernel's.
pub fn accept(fd: Fd<'_>, flags: i32) -> Result<(OwnedFd, Vec<u8>)> {
    let mut addr = vec![0_u8; ADDRESS_MAX];
    let mut len = ADDRESS_MAX as u32;
    // SAFETY: the kernel writes at most `len` bytes to `addr`, which has as many, and the length to `len`.
    let made = own(unsafe { libc::accept4(raw(fd), addr.as_mut_ptr().cast(), &raw mut len, flags) })?;
    addr.truncate(len as usize);
    Ok((made, addr))
}

/// getsockname(2), or getpeername(2) for the peer's.
///
/// # Errors
/// The kernel's.
pub fn name(fd: Fd<'_>, peer: bool) -> Result<Vec<u8>> {
    let mut addr = vec![0_u8; ADDRESS_MAX];
    let len = name_into(fd, peer, &mut addr)?;
    addr.truncate(len);
    Ok(addr)
}

/// [`name`] into a buffer, as far as it goes; the length of the whole address.
///
/// # Errors
/// The kernel's.
pub(crate) fn name_into(fd: Fd<'_>, peer: bool, into: &mut [u8]) -> Result<usize> {
    let mut len = u32::try_from(into.len()).unwrap_or(u32::MAX);
    let call = if peer { libc::getpeername } else { libc::getsockname };
    // SAFETY: the kernel writes at most `len` bytes to `into`, which has as many, and the length to `len`.
    check(unsafe { call(raw(fd), into.as_mut_ptr().cast(), &raw mut len) } as isize)?;
    Ok(len as usize)
}

/// shutdown(2).
///
/// # Errors
/// The kernel's.
pub fn shutdown(fd: Fd<'_>, how: i32) -> Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::shutdown(raw(fd), how) } as isize).map(drop)
}

/// close(2), whose error is told.
///
/// # Errors
/// The kernel's; the descriptor is gone in any case.
pub fn close(fd: OwnedFd) -> Result<()> {
    // SAFETY: the descriptor is owned, and given up by into_raw_fd.
    check(unsafe { libc::close(fd.into_raw_fd()) } as isize).map(drop)
}

/// fcntl(2) with F_GETFL, or F_SETFL where there is an argument.
///
/// # Errors
/// The kernel's.
pub fn status_flags(fd: Fd<'_>, set: Option<i32>) -> Result<usize> {
    let (cmd, arg) = set.map_or((libc::F_GETFL, 0), |flags| (libc::F_SETFL, flags));
    // SAFETY: these two commands take an int and no pointer.
    check(unsafe { libc::fcntl(raw(fd), cmd, arg) } as isize)
}

/// ioctl(2) with a request that reads or writes one int, or nothing (SIOCINQ, SIOCOUTQ, SIOCOUTQNSD, SIOCATMARK, FIONBIO, FIOASYNC, FIOCLEX,
/// FIONCLEX); others are answered with EINVAL without asking.
///
/// # Errors
/// The kernel's.
pub fn ioctl_int(fd: Fd<'_>, request: u64, value: Option<&mut i32>) -> Result<usize> {
    /// What SIOCOUTQNSD and SIOCATMARK are; libc has no names for them.
    const OUTQNSD: u64 = 0x894b;
    const ATMARK: u64 = 0x8905;
    let own = [libc::FIOASYNC, libc::FIOCLEX, libc::FIONCLEX];
    if ![libc::FIONREAD, libc::TIOCOUTQ, libc::FIONBIO, OUTQNSD, ATMARK].contains(&request)
        && !own.contains(&request)
    {
        return Err(Error::from_raw_os_error(libc::EINVAL));
    }
    let pointer = value.map_or(ptr::null_mut(), |v| &raw mut *v);
    // SAFETY: each of these requests reads or writes one int, which the pointer leads to unless it is null.
    check(unsafe { libc::ioctl(raw(fd), request, pointer) } as isize)
}

/// Refuses options that are more than a value of so many bytes: those whose value has pointers in it, through which the kernel would read or
/// write, and one whose length counts instructions. Levels that nobody here asks for may have such too.
fn plain(fd: Fd<'_>, level: i32, name: i32) -> Result<()> {
    /// linux/netfilter: the tables of iptables, arptables and ebtables below IP, that of ip6tables below IPv6 (`*_SO_SET_REPLACE`).
    const TABLES: core::ops::Range<i32> = 64..200;
    const TABLE_V6: i32 = 64;
    /// The value may be a program, as SO_ATTACH_FILTER's is.
    const PACKET_FANOUT_DATA: i32 = 22;
    let error = match (level, name) {
        // The kernel says EBADF before it looks at anything.
        _ if fd.is_none() => return Ok(()),
        // SO_ATTACH_FILTER, which is SO_GET_FILTER too.
        (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER | libc::SO_ATTACH_REUSEPORT_CBPF) => libc::EINVAL,
        (libc::IPPROTO_IP, name) if TABLES.contains(&name) => libc::EINVAL,
        (libc::IPPROTO_IPV6, TABLE_V6) | (libc::SOL_PACKET, PACKET_FANOUT_DATA) => libc::EINVAL,
        (libc::SOL_SOCKET | libc::SOL_PACKET | libc::IPPROTO_IP | libc::IPPROTO_IPV6, _) => return Ok(()),
        (libc::IPPROTO_TCP | libc::IPPROTO_UDP | libc::IPPROTO_SCTP, _) => return Ok(()),
        _ => libc::ENOPROTOOPT,
    };
    Err(Error::from_raw_os_error(error))
}

/// getsockopt(2) into a buffer of `len` bytes; what was written, and where it failed and changed optlen all the same, to what. Options
/// that are no plain values are answered with EINVAL, levels other than those of sockets, packets, IP, TCP, UDP and SCTP with ENOPROTOOPT,
/// without asking.
///
/// # Errors
/// The kernel's.
pub fn getsockopt(fd: Fd<'_>, level: i32, name: i32, len: i32) -> (Result<Vec<u8>>, Option<u32>) {
    if let Err(error) = plain(fd, level, name) {
        return (Err(error), None);
    }
    // What answers to a negative length is the kernel's to say: the descriptor and the level come before it.
    let room = u32::try_from(len).map_or(len as u32, |len| len.min(OPTION_MAX));
    let mut written = room;
    let mut value = vec![0_u8; room.min(OPTION_MAX) as usize];
    // SAFETY: the kernel writes at most `written` bytes to `value`, which has as many, and the number to `written`; SO_GET_FILTER, which
    // counts otherwise, is refused. What the kernel reads from `value` first is zeros: no pointers, no further elements. A negative length is
    // refused, or (`ip_mroute_getsockopt`) taken for a large one of which a value of some bytes needs a part: `value` has room for any.
    let done =
        check(unsafe { libc::getsockopt(raw(fd), level, name, value.as_mut_ptr().cast(), &raw mut written) }
            as isize);
    value.truncate(written as usize);
    let asked = (done.is_err() && written != room).then_some(written);
    (done.map(|_| value), asked)
}

/// setsockopt(2); without a value the pointer is null and optlen `len`. What [`getsockopt`] answers without asking, this does too.
///
/// # Errors
/// The kernel's.
pub fn setsockopt(fd: Fd<'_>, level: i32, name: i32, value: Option<&[u8]>, len: u32) -> Result<()> {
    plain(fd, level, name)?;
    let (pointer, len) = value.map_or((ptr::null(), len), |v| (v.as_ptr(), v.len() as u32));
    // SAFETY: the pointer and the length are those of `value`, or the pointer is null; the kernel copies and keeps nothing, and options whose
    // value leads elsewhere are refused.
    check(unsafe { libc::setsockopt(raw(fd), level, name, pointer.cast(), len) } as isize).map(drop)
}

/// SO_ATTACH_FILTER: what comes from now on must pass `program` (classic BPF).
///
/// # Errors
/// The kernel's; EINVAL for a program that it does not accept.
pub fn attach_filter(fd: Fd<'_>, program: &[libc::sock_filter]) -> Result<()> {
    let len = program.len().try_into().unwrap_or(0);
    let value = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    let (pointer, size) = ((&raw const value).cast(), size_of_val(&value) as u32);
    // SAFETY: `value` names an array of `len` instructions, which the kernel copies and does not write to.
    check(unsafe { libc::setsockopt(raw(fd), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, pointer, size) }
        as isize)
    .map(drop)
}

/// recvmsg(2) into `buffers`, with room for `control` bytes of control messages.
///
/// # Errors
/// The kernel's.
pub fn recv(fd: Fd<'_>, buffers: &mut [Buffer], flags: i32, control: usize) -> Result<Received> {
    let mut parts: Vec<libc::iovec> = buffers
        .iter_mut()
        .map(|buffer| match buffer {
            Buffer::Bytes(bytes) => libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() },
            Buffer::Bad(len) => libc::iovec { iov_base: ptr::null_mut(), iov_len: *len },
        })
        .collect();
    let (mut addr, mut room) = (vec![0_u8; ADDRESS_MAX], vec![0_u8; control]);
    // SAFETY: a msghdr of zeros is valid: null pointers with lengths of 0.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = addr.as_mut_ptr().cast();
    message.msg_namelen = ADDRESS_MAX as u32;
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len();
    if control > 0 {
        message.msg_control = room.as_mut_ptr().cast();
        message.msg_controllen = control;
    }
    // SAFETY: every pointer in `message` leads to as many bytes as the length beside it says, or is null.
    let len = check(unsafe { libc::recvmsg(raw(fd), &raw mut message, flags) })?;
    addr.truncate(message.msg_namelen as usize);
    room.truncate(message.msg_controllen);
    Ok(Received { len, addr, flags: message.msg_flags, control: room })
}

/// recvfrom(2) into one buffer.
///
/// # Errors
/// The kernel's.
pub fn recvfrom(fd: Fd<'_>, buffer: &mut Buffer, flags: i32) -> Result<Received> {
    let (pointer, room) = match buffer {
        Buffer::Bytes(bytes) => (bytes.as_mut_ptr(), bytes.len()),
        Buffer::Bad(len) => (ptr::null_mut(), *len),
    };
    let (mut addr, mut addr_len) = (vec![0_u8; ADDRESS_MAX], ADDRESS_MAX as u32);
    // SAFETY: the pointer leads to `room` bytes, or nowhere, which the kernel answers; the kernel writes at most `addr_len` bytes to `addr`,
    // which has as many, and the length to `addr_len`.
    let len = check(unsafe {
        libc::recvfrom(raw(fd), pointer.cast(), room, flags, addr.as_mut_ptr().cast(), &raw mut addr_len)
    })?;
    addr.truncate(addr_len as usize);
    Ok(Received { len, addr, flags: 0, control: Vec::new() })
}

/// sendto(2); without bytes the pointer is null.
///
/// # Errors
/// The kernel's.
pub fn sendto(
    fd: Fd<'_>,
    (bytes, len): (Option<&[u8]>, usize),
    to: Option<Address<'_>>,
    flags: i32,
) -> Result<usize> {
    let (pointer, len) = bytes.map_or((ptr::null(), len), |bytes| (bytes.as_ptr(), bytes.len()));
    let (addr, addr_len) = to.map_or((ptr::null(), 0), |to| to.parts());
    // SAFETY: each pointer leads to as many bytes as the length beside it says, or nowhere, which the kernel answers; it only reads.
    check(unsafe { libc::sendto(raw(fd), pointer.cast(), len, flags, addr, addr_len) })
}

/// sendmsg(2); a piece without bytes is a null pointer with the length beside it.
///
/// # Errors
/// The kernel's.
pub fn send(
    fd: Fd<'_>,
    pieces: &[(Option<&[u8]>, usize)],
    to: Option<Address<'_>>,
    control: &[u8],
    flags: i32,
) -> Result<usize> {
    let mut parts: Vec<libc::iovec> = pieces
        .iter()
        .map(|(bytes, len)| match bytes {
            Some(bytes) => libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() },
            None => libc::iovec { iov_base: ptr::null_mut(), iov_len: *len },
        })
        .collect();
    // SAFETY: a msghdr of zeros is valid: null pointers with lengths of 0.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    if let Some(to) = to {
        let (pointer, len) = to.parts();
        message.msg_name = pointer.cast_mut().cast();
        message.msg_namelen = len;
    }
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len();
    if !control.is_empty() {
        message.msg_control = control.as_ptr().cast_mut().cast();
        message.msg_controllen = control.len();
    }
    // SAFETY: every pointer in `message` leads to as many bytes as the length beside it says, or leads nowhere, which the kernel
    // answers; sendmsg only reads.
    check(unsafe { libc::sendmsg(raw(fd), &raw const message, flags) })
}

/// poll(2): descriptor and events of each entry, `None` for one that is skipped; its revents, and the result.
///
/// # Errors
/// The kernel's.
pub fn poll(entries: &[Option<(Fd<'_>, i16)>], timeout_ms: i32) -> Result<(usize, Vec<i16>)> {
    // Of numbers below zero poll() says nothing, so the one that no process has is another here.
    let number = |fd: &Fd<'_>| fd.map_or(RawFd::MAX, |fd| fd.as_raw_fd());
    let entry = |e: &Option<(Fd<'_>, i16)>| match e {
        Some((fd, events)) => libc::pollfd { fd: number(fd), events: *events, revents: 0 },
        None => libc::pollfd { fd: -1, events: 0, revents: 0 },
    };
    let mut fds: Vec<libc::pollfd> = entries.iter().map(entry).collect();
    // SAFETY: the pointer and the number are those of `fds`.
    let n = check(unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ms) } as isize)?;
    Ok((n, fds.iter().map(|f| f.revents).collect()))
}

/// splice(2); an offset that is there is moved on.
///
/// # Errors
/// The kernel's.
pub fn splice(
    (from, off_from): (Fd<'_>, Option<&mut i64>),
    (to, off_to): (Fd<'_>, Option<&mut i64>),
    len: usize,
    flags: u32,
) -> Result<usize> {
    let pointer = |off: Option<&mut i64>| off.map_or(ptr::null_mut(), |off| &raw mut *off);
    // SAFETY: the pointers are null or lead to numbers that outlive the call.
    check(unsafe { libc::splice(raw(from), pointer(off_from), raw(to), pointer(off_to), len, flags) })
}

/// epoll_create1(2).
///
/// # Errors
/// The kernel's.
pub fn epoll_create(flags: i32) -> Result<OwnedFd> {
    // SAFETY: no pointers.
    own(unsafe { libc::epoll_create1(flags) })
}

/// epoll_ctl(2); an event is its mask and the caller's 64 bits.
///
/// # Errors
/// The kernel's.
pub fn epoll_ctl(epfd: Fd<'_>, op: i32, fd: Fd<'_>, event: Option<(u32, u64)>) -> Result<()> {
    let mut event = event.map(|(events, data)| libc::epoll_event { events, u64: data });
    let pointer = event.as_mut().map_or(ptr::null_mut(), |e| &raw mut *e);
    // SAFETY: the pointer is null or leads to an event, which the kernel copies.
    check(unsafe { libc::epoll_ctl(raw(epfd), op, raw(fd), pointer) } as isize).map(drop)
}

/// epoll_wait(2): the events, each with its mask and 64 bits.
///
/// # Errors
/// The kernel's.
pub fn epoll_wait(epfd: Fd<'_>, max_events: i32, timeout_ms: i32) -> Result<Vec<(u32, u64)>> {
    let room = usize::try_from(max_events).unwrap_or(0).min(4_096);
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; room];
    // SAFETY: the kernel writes at most `max_events` events; there is room for as many, or `max_events` is refused (4,096 is
    // beyond what a caller here asks for, and is passed instead).
    let n =
        check(
            unsafe { libc::epoll_wait(raw(epfd), events.as_mut_ptr(), max_events.min(4_096), timeout_ms) }
                as isize,
        )?;
    Ok(events.iter().take(n).map(|e| (e.events, e.u64)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;

    #[test]
    fn bytes_go_round_and_errors_are_the_kernels() {
        let loopback = [2, 0, 0, 0, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        let listener = socket(2, 1, 0).unwrap();
        bind(Some(listener.as_fd()), Address::Bytes(&loopback)).unwrap();
        listen(Some(listener.as_fd()), 1).unwrap();
        let client = socket(2, 1, 0).unwrap();
        let to = name(Some(listener.as_fd()), false).unwrap();
        connect(Some(client.as_fd()), Address::Bytes(&to)).unwrap();
        let (server, peer) = accept(Some(listener.as_fd()), 0).unwrap();
        assert_eq!(peer, name(Some(client.as_fd()), false).unwrap());
        assert_eq!(
            send(Some(client.as_fd()), &[(Some(b"ab"), 2), (Some(b"c"), 1)], None, &[], 0).unwrap(),
            3
        );
        assert_eq!(
            poll(&[Some((Some(server.as_fd()), 1)), None, Some((None, 1))], 1_000).unwrap(),
            (2, vec![1, 0, libc::POLLNVAL])
        );
        let nowhere = [
            connect(Some(client.as_fd()), Address::Bad(16)).map(|()| 0),
            send(Some(client.as_fd()), &[], Some(Address::Bad(16)), &[], 0),
        ];
        assert!(nowhere.into_iter().all(|r| r.is_err_and(|e| e.raw_os_error() == Some(libc::EFAULT))));
        let mut waiting = 0;
        ioctl_int(Some(server.as_fd()), libc::FIONREAD, Some(&mut waiting)).unwrap();
        assert_eq!(waiting, 3);
        let mut buffers = [Buffer::Bytes(vec![0; 2]), Buffer::Bytes(vec![0; 8])];
        assert_eq!(recv(Some(server.as_fd()), &mut buffers, 0, 0).unwrap().len, 3);
        assert!(
            matches!(&buffers, [Buffer::Bytes(a), Buffer::Bytes(b)] if a == b"ab" && b.starts_with(b"c"))
        );
        let errno = |e: Error| e.raw_os_error();
        assert_eq!(
            send(Some(client.as_fd()), &[(None, 5)], None, &[], 0).map_err(errno),
            Err(Some(libc::EFAULT))
        );
        assert_eq!(listen(None, 1).map_err(errno), Err(Some(libc::EBADF)));
        assert_eq!(ioctl_int(None, 1, None).map_err(errno), Err(Some(libc::EINVAL)));
        setsockopt(Some(client.as_fd()), 6, 1, Some(&1_i32.to_ne_bytes()), 0).unwrap();
        assert_eq!(getsockopt(Some(client.as_fd()), 6, 1, 4).0.unwrap(), 1_i32.to_ne_bytes());
        assert_eq!(
            getsockopt(Some(client.as_fd()), 6, 1, i32::MAX).0.unwrap().capacity(),
            OPTION_MAX as usize
        );
        let any = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: u32::MAX };
        attach_filter(Some(server.as_fd()), &[any]).unwrap();
        for (level, option, error) in [
            (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, libc::EINVAL),
            (libc::IPPROTO_IP, 64, libc::EINVAL),
            (libc::IPPROTO_IPV6, 64, libc::EINVAL),
            (283, 4, libc::ENOPROTOOPT),
        ] {
            let got = getsockopt(Some(server.as_fd()), level, option, 1).0.map_err(errno);
            assert_eq!(got, Err(Some(error)), "{level} {option}");
            let set = setsockopt(Some(server.as_fd()), level, option, Some(&[0; 16]), 0).map_err(errno);
            assert_eq!(set, Err(Some(error)), "{level} {option}");
            assert_eq!(getsockopt(None, level, option, 1).0.map_err(errno), Err(Some(libc::EBADF)));
        }
        let ep = epoll_create(0).unwrap();
        epoll_ctl(Some(ep.as_fd()), 1, Some(client.as_fd()), Some((4, 77))).unwrap();
        assert_eq!(epoll_wait(Some(ep.as_fd()), 1, 0).unwrap(), [(4, 77)]);
        close(client).unwrap();
    }
}
