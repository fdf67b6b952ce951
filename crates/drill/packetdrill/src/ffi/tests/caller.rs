//! Calls as values, carried out by the functions of the interface.
use super::super::{Interface, User};
use crate::shared::SHARED;
use bytes::Bytes;
use core::ffi::{c_int, c_void};
use core::mem::zeroed;
use core::ptr::{null, null_mut};
use libc::{epoll_event, iovec, msghdr, pollfd, sockaddr, socklen_t};
use lowwater_posix::abi::SCTP_SOCKOPT_CONNECTX3;
use lowwater_posix::{
    Call, Control, EpollEvent, Errno, Name, Optval, Piece, RecvKind, Reply, Room, SendKind,
    sockaddr as encode,
};
use std::io;

/// Bytes of a struct sockaddr_storage.
const STORAGE: usize = 128;

/// struct sctp_getaddrs_old, as libsctp makes it.
#[repr(C)]
struct Connectx3 {
    id: c_int,
    len: c_int,
    at: *const u8,
}

/// The functions, as packetdrill has them.
pub(super) struct Caller(pub(super) Interface);

/// What every function gets first.
const USER: User = null_mut();

impl Caller {
    pub(super) fn call(&self, call: Call) -> Reply {
        let f = &self.0;
        match call {
            Call::Socket { domain, ty, protocol } => done((f.socket)(USER, domain, ty, protocol)),
            Call::Listen { fd, backlog } => done((f.listen)(USER, fd, backlog)),
            Call::Shutdown { fd, how } => done((f.shutdown)(USER, fd, how)),
            // libc would be asked, and closes what another test has by now.
            Call::Close { fd } if !SHARED.has(fd) => Reply::fail(Errno::EBADF),
            Call::Close { fd } => done((f.close)(USER, fd)),
            Call::Fcntl { fd, cmd, arg } => done((f.fcntl)(USER, fd, cmd, arg)),
            Call::EpollCreate { size, flags: 0 } => done((f.epoll_create)(USER, size)),
            Call::Bind { fd, addr } => {
                let name = Given::new(addr);
                // SAFETY: the address is as long as it says, or the pointer is one that nobody reads.
                done(unsafe { (f.bind)(USER, fd, name.at(), name.len) })
            }
            Call::Connect { fd, addr } => {
                let name = Given::new(addr);
                // SAFETY: as above.
                done(unsafe { (f.connect)(USER, fd, name.at(), name.len) })
            }
            Call::Accept { fd, flags: 0 } => self.accept(fd),
            Call::Recv { fd, kind, rooms, flags, control_len } => {
                self.recv(fd, kind, &rooms, flags, control_len)
            }
            Call::Send { fd, kind, data, flags, to, control } => {
                self.send((fd, kind, flags), &data, to, &control)
            }
            call => self.other(call),
        }
    }

    fn other(&self, call: Call) -> Reply {
        let f = &self.0;
        match call {
            Call::Ioctl { fd, request, arg } => {
                let mut value = arg.unwrap_or_default();
                let at = if arg.is_some() { &raw mut value } else { null_mut() };
                // SAFETY: an int, or a pointer that nobody reads.
                let reply = done(unsafe { (f.ioctl)(USER, fd, request, at) });
                Reply { value: Bytes::copy_from_slice(&value.to_ne_bytes()), ..reply }
            }
            Call::Getsockopt { fd, level, name, len } => {
                let mut room = vec![0_u8; usize::try_from(len).unwrap_or(0)];
                let given = len.cast_unsigned();
                let (mut len, at) = (given, room.as_mut_ptr().cast::<c_void>());
                // SAFETY: as much room as the length says.
                let reply = done(unsafe { (f.getsockopt)(USER, fd, level, name, at, &raw mut len) });
                room.truncate(if reply.ret == 0 { len as usize } else { 0 });
                let optlen = (reply.ret < 0 && len != given).then_some(len);
                Reply { value: room.into(), optlen, ..reply }
            }
            Call::GetsockoptIn { fd, level, name: name @ SCTP_SOCKOPT_CONNECTX3, value } => {
                let addresses = value.slice(8..);
                let mut room = Connectx3 { id: 0, len: addresses.len() as c_int, at: addresses.as_ptr() };
                let mut len = size_of_val(&room) as socklen_t;
                let at = (&raw mut room).cast::<c_void>();
                // SAFETY: the structure, with as many bytes of addresses as it says.
                let reply = done(unsafe { (f.getsockopt)(USER, fd, level, name, at, &raw mut len) });
                let id = room.id.to_le_bytes().to_vec();
                Reply { value: if len == 4 { id.into() } else { Bytes::new() }, ..reply }
            }
            Call::GetsockoptIn { fd, level, name, value } => {
                let (mut room, mut len) = (value.to_vec(), value.len() as socklen_t);
                let at = room.as_mut_ptr().cast::<c_void>();
                // SAFETY: as many bytes as the length says, to be read and written.
                let reply = done(unsafe { (f.getsockopt)(USER, fd, level, name, at, &raw mut len) });
                room.truncate(if reply.ret >= 0 { len as usize } else { 0 });
                Reply { value: room.into(), ..reply }
            }
            Call::Setsockopt { fd, level, name, value } => {
                let (at, len) = match &value {
                    Optval::Bytes(bytes) => (bytes.as_ptr().cast(), bytes.len() as socklen_t),
                    Optval::Bad(len) => (null(), len.cast_unsigned()),
                };
                // SAFETY: so many bytes, or a pointer that nobody reads.
                done(unsafe { (f.setsockopt)(USER, fd, level, name, at, len) })
            }
            Call::Poll { fds, timeout_ms } => {
                let mut fds: Vec<_> =
                    fds.iter().map(|p| pollfd { fd: p.fd, events: p.events, revents: 0 }).collect();
                // SAFETY: an array of this length.
                let ret = unsafe { (f.poll)(USER, fds.as_mut_ptr(), fds.len() as u64, timeout_ms) };
                Reply { revents: fds.iter().map(|p| p.revents).collect(), ..done(ret) }
            }
            Call::EpollCtl { epfd, op, fd, event } => {
                let event = event.map(|e| epoll_event { events: e.events, u64: e.data });
                let at = event.as_ref().map_or(null(), |e| &raw const *e);
                // SAFETY: an event, or NULL.
                done(unsafe { (f.epoll_ctl)(USER, epfd, op, fd, at) })
            }
            Call::EpollWait { epfd, max_events, timeout_ms } => self.epoll_wait(epfd, max_events, timeout_ms),
            Call::Pipe { flags: 0 } => {
                let mut ends = [0; 2];
                // SAFETY: room for two.
                let reply = done(unsafe { (f.pipe)(USER, ends.as_mut_ptr()) });
                Reply { pipe: (reply.ret == 0).then_some((ends[0], ends[1])), ..reply }
            }
            Call::Splice { fd_in, off_in, fd_out, off_out, len, flags } => {
                let (mut off_in, mut off_out) = (off_in.unwrap_or(0), off_out.unwrap_or(0));
                let (at_in, at_out) = (&raw mut off_in, &raw mut off_out);
                // SAFETY: two offsets.
                done(unsafe { (f.splice)(USER, fd_in, at_in, fd_out, at_out, len, flags) })
            }
            // What packetdrill's interface does not have: accept4, epoll_create1, pipe2, getsockname, getpeername.
            call => SHARED.call(call),
        }
    }

    fn accept(&self, fd: c_int) -> Reply {
        let mut room = [0_u8; STORAGE];
        let mut len = STORAGE as socklen_t;
        // SAFETY: as much room as the length says.
        let ret = unsafe { (self.0.accept)(USER, fd, room.as_mut_ptr().cast(), &raw mut len) };
        let reply = done(ret);
        let addr = (ret >= 0).then(|| Name::read(&room[..len as usize])).and_then(Name::inet);
        Reply { addr, ..reply }
    }

    fn epoll_wait(&self, epfd: c_int, max_events: c_int, timeout_ms: c_int) -> Reply {
        let none = epoll_event { events: 0, u64: 0 };
        let mut events = vec![none; usize::try_from(max_events).unwrap_or(0).min(1_024)];
        // SAFETY: room for as many; scripts ask for a handful.
        let ret = unsafe { (self.0.epoll_wait)(USER, epfd, events.as_mut_ptr(), max_events, timeout_ms) };
        events.truncate(usize::try_from(ret).unwrap_or(0));
        let events = events.iter().map(|e| EpollEvent { events: e.events, data: e.u64 }).collect();
        Reply { events, ..done(ret) }
    }

    fn recv(&self, fd: c_int, kind: RecvKind, rooms: &[Room], flags: c_int, control_len: usize) -> Reply {
        let f = &self.0;
        let mut buffers: Vec<_> = rooms.iter().map(|r| vec![0_u8; if r.bad { 0 } else { r.len }]).collect();
        let mut iov: Vec<_> = rooms
            .iter()
            .zip(&mut buffers)
            .map(|(r, b)| {
                let at = if r.bad { null_mut() } else { b.as_mut_ptr().cast() };
                iovec { iov_base: at, iov_len: r.len }
            })
            .collect();
        let iovec { iov_base: at, iov_len: len } = iov[0];
        let mut name = [0_u8; STORAGE];
        let mut name_len = STORAGE as socklen_t;
        let mut control = vec![0_u64; control_len.div_ceil(8)];
        // SAFETY: zeros are a message without anything.
        let mut message: msghdr = unsafe { zeroed() };
        message.msg_name = name.as_mut_ptr().cast();
        message.msg_namelen = name_len;
        (message.msg_iov, message.msg_iovlen) = (iov.as_mut_ptr(), iov.len());
        (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), control_len);
        let name_at = name.as_mut_ptr().cast::<sockaddr>();
        // SAFETY: every buffer is as long as it says, or its pointer one that nobody writes to.
        let reply = done(unsafe {
            match kind {
                RecvKind::Read => (f.read)(USER, fd, at, len),
                RecvKind::Readv => (f.readv)(USER, fd, iov.as_ptr(), iov.len() as c_int),
                RecvKind::Recv => (f.recv)(USER, fd, at, len, flags),
                RecvKind::Recvfrom => (f.recvfrom)(USER, fd, at, len, flags, name_at, &raw mut name_len),
                RecvKind::Recvmsg => (f.recvmsg)(USER, fd, &raw mut message, flags),
            }
        });
        if reply.ret < 0 {
            return reply;
        }
        let data: Vec<u8> = buffers.concat();
        let data =
            Bytes::from(data).slice(..usize::try_from(reply.ret).unwrap_or(0).min(rooms_len(&buffers)));
        let named = match kind {
            RecvKind::Recvfrom => name_len,
            RecvKind::Recvmsg => message.msg_namelen,
            _ => 0,
        };
        let addr = Name::read(&name[..named as usize]).inet();
        let written = control.iter().flat_map(|word| word.to_ne_bytes()).take(message.msg_controllen);
        let control = match kind {
            RecvKind::Recvmsg => Control::read(&written.collect::<Vec<_>>()).unwrap_or_default(),
            _ => Vec::new(),
        };
        Reply { data, addr, msg_flags: message.msg_flags, control, ..reply }
    }

    fn send(
        &self,
        (fd, kind, flags): (c_int, SendKind, c_int),
        data: &[Piece],
        to: Option<Name>,
        control: &[Control],
    ) -> Reply {
        let f = &self.0;
        let mut iov: Vec<_> = data
            .iter()
            .map(|piece| match piece {
                Piece::Data(bytes) => {
                    iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
                }
                Piece::Bad(len) => iovec { iov_base: null_mut(), iov_len: *len },
            })
            .collect();
        let iovec { iov_base: at, iov_len: len } = iov[0];
        let name = to.map(Given::new);
        let (name_at, name_len) = name.as_ref().map_or((null(), 0), |n| (n.at(), n.len));
        let control = Control::write(control);
        // SAFETY: zeros are a message without anything.
        let mut message: msghdr = unsafe { zeroed() };
        (message.msg_name, message.msg_namelen) = (name_at.cast_mut().cast(), name_len);
        (message.msg_iov, message.msg_iovlen) = (iov.as_mut_ptr(), iov.len());
        message.msg_control = control.as_ptr().cast_mut().cast();
        message.msg_controllen = control.len();
        // SAFETY: every buffer is as long as it says, or its pointer one that nobody reads.
        done(unsafe {
            match kind {
                SendKind::Write => (f.write)(USER, fd, at, len),
                SendKind::Writev => (f.writev)(USER, fd, iov.as_ptr(), iov.len() as c_int),
                SendKind::Send => (f.send)(USER, fd, at, len, flags),
                SendKind::Sendto => (f.sendto)(USER, fd, at, len, flags, name_at, name_len),
                SendKind::Sendmsg => (f.sendmsg)(USER, fd, &raw const message, flags),
            }
        })
    }
}

fn rooms_len(buffers: &[Vec<u8>]) -> usize {
    buffers.iter().map(Vec::len).sum()
}

/// An address as C has it.
struct Given {
    bytes: Option<Bytes>,
    len: socklen_t,
}

impl Given {
    fn new(name: Name) -> Self {
        let with_family = |family: u16, len: usize| {
            let mut bytes = family.to_ne_bytes().to_vec();
            bytes.resize(len, 0);
            Some(Bytes::from(bytes))
        };
        let bytes = match name {
            Name::Inet(addr) => Some(encode(addr)),
            Name::Padded(addr) => Some([&encode(addr.into())[..], &[0; 12]].concat().into()),
            Name::Unspec(_, len) => with_family(0, len),
            Name::Other(family, len) => with_family(family, len),
            Name::Short(family, len) => with_family(family, len),
            Name::Strange => with_family(2, 129),
            Name::Bad => None,
        };
        let len = bytes.as_ref().map_or(16, Bytes::len) as socklen_t;
        Self { bytes, len }
    }

    fn at(&self) -> *const sockaddr {
        self.bytes.as_ref().map_or(null(), |bytes| bytes.as_ptr().cast())
    }
}

/// A result of libc's kind; errno is read at once, as packetdrill does.
fn done<T: TryInto<i64>>(ret: T) -> Reply {
    let errno = io::Error::last_os_error().raw_os_error().and_then(Errno::from_number);
    let ret = ret.try_into().unwrap_or(-1);
    if ret >= 0 { Reply::ok(ret) } else { Reply::fail(errno.unwrap_or(Errno::EINVAL)) }
}
