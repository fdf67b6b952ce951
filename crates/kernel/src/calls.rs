//! Calls as values, carried out on sockets of the kernel.
use crate::namespace::without_copies;
use bytes::Bytes;
use lowwater_core::base::Sysctl;
use lowwater_os::socket::{self, Address, Buffer};
use lowwater_posix::{
    Call, Control, EpollEvent, Errno, Fd, Name, Optval, Piece, RecvKind, Reply, Room, SendKind, sockaddr,
};
use rustix::io::FdFlags;
use rustix::net::sockopt::socket_linger;
use rustix::pipe::PipeFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Families, the type and the option that sockets need to begin with.
const SOCK_STREAM: i32 = 1;
const SOL_TCP: i32 = 6;
const TCP_CONGESTION: i32 = 13;
/// Bytes of a sockaddr_in, and of a sockaddr_in6.
const SOCKADDR: [usize; 2] = [16, 28];
/// The most that an address may have.
const STORAGE: usize = 128;
/// The commands of fcntl() that work.
const F_GETFD: i32 = 1;
const F_SETFD: i32 = 2;
const F_GETFL: i32 = 3;
const F_SETFL: i32 = 4;
const F_GETPIPE_SZ: i32 = 1032;
/// Bytes of one buffer that a script may ask for.
const ROOM_MAX: usize = 1 << 26;
/// Nobody wants the signal.
const MSG_NOSIGNAL: i32 = 0x4000;
const MSG_ZEROCOPY: i32 = 0x400_0000;

/// The descriptors of a script's process, which all threads that make its calls share.
#[derive(Clone)]
pub(crate) struct Sockets(Arc<Mutex<Table>>);

struct Table {
    open: BTreeMap<Fd, Arc<OwnedFd>>,
    /// Those of them that are no sockets: ends of pipes and epoll sets, which read() and write() do not ask as recv() and send() do.
    files: BTreeSet<Fd>,
    congestion: Vec<u8>,
    /// What was sent without a copy: the kernel may read it as long as the connection lasts.
    kept: Vec<Vec<Piece>>,
}

/// A descriptor that a call goes on using when another one closes it, as the kernel does with its file.
struct Held(Option<Arc<OwnedFd>>);

impl Held {
    fn get(&self) -> socket::Fd<'_> {
        self.0.as_ref().map(|fd| fd.as_fd())
    }
}

type Answer = io::Result<Reply>;

impl Sockets {
    pub(crate) fn new() -> Self {
        let congestion = Sysctl::default().get("tcp_congestion_control").unwrap_or_default().into_bytes();
        let (open, files) = (BTreeMap::new(), BTreeSet::new());
        Self(Arc::new(Mutex::new(Table { open, files, congestion, kept: Vec::new() })))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // What a panic left is still a table of descriptors.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sockets made from now on have this controller.
    pub(crate) fn set_congestion(&self, name: &str) {
        self.table().congestion = name.as_bytes().to_vec();
    }

    /// The script is over. A peer that never answers must not keep connections for minutes, since there is no peer any more; and whoever
    /// waits in a call comes back.
    pub(crate) fn hang_up(&self) {
        for fd in self.table().open.values() {
            let _ = socket::shutdown(Some(fd.as_fd()), 2);
        }
    }

    pub(crate) fn call(&self, call: Call) -> Reply {
        self.carry_out(call).unwrap_or_else(|e| failed(&e))
    }

    fn held(&self, fd: Fd) -> Held {
        Held(self.table().open.get(&fd).cloned())
    }

    fn is_file(&self, fd: Fd) -> bool {
        self.table().files.contains(&fd)
    }

    /// Takes a new descriptor in; its number is the kernel's.
    fn made(&self, fd: OwnedFd) -> Reply {
        let number = fd.as_raw_fd();
        self.table().open.insert(number, Arc::new(fd));
        Reply::ok(number.into())
    }

    fn carry_out(&self, call: Call) -> Answer {
        match call {
            Call::Socket { domain, ty, protocol } => self.socket(domain, ty, protocol),
            Call::Bind { fd, addr } => {
                socket::bind(self.held(fd).get(), address(addr, &name(addr))).map(done)
            }
            Call::Listen { fd, backlog } => socket::listen(self.held(fd).get(), backlog).map(done),
            Call::Accept { fd, flags } => {
                let (conn, peer) = socket::accept(self.held(fd).get(), flags)?;
                Ok(Reply { addr: Name::read(&peer).inet(), ..self.made(conn) })
            }
            Call::Connect { fd, addr } => {
                socket::connect(self.held(fd).get(), address(addr, &name(addr))).map(done)
            }
            Call::Recv { fd, kind: RecvKind::Read | RecvKind::Readv, rooms, .. } if self.is_file(fd) => {
                self.read_file(fd, &rooms)
            }
            Call::Send { fd, kind: SendKind::Write | SendKind::Writev, data, .. } if self.is_file(fd) => {
                self.write_file(fd, &data)
            }
            // read() and readv() of nothing do not ask the protocol (`sock_read_iter`).
            Call::Recv { fd, kind: RecvKind::Read | RecvKind::Readv, rooms, .. }
                if rooms.iter().all(|room| room.len == 0) =>
            {
                let held = self.held(fd);
                let Some(fd) = held.get() else { return Ok(Reply::fail(Errno::EBADF)) };
                Ok(number(rustix::io::read(fd, &mut [0_u8; 0][..])?))
            }
            Call::Recv { fd, kind, rooms, flags, control_len } => {
                self.recv(fd, kind, &rooms, flags, control_len)
            }
            Call::Send { fd, kind, data, flags, to, control } => {
                let pieces: Vec<_> = data.iter().map(piece).collect();
                let to = to.map(|to| (to, name(to)));
                let to = to.as_ref().map(|(to, bytes)| address(*to, bytes));
                let control = Control::write(&control);
                let flags = flags | MSG_NOSIGNAL;
                let sent = match (kind, &pieces[..]) {
                    (SendKind::Send | SendKind::Sendto, [one]) => {
                        socket::sendto(self.held(fd).get(), *one, to, flags)
                    }
                    _ => socket::send(self.held(fd).get(), &pieces, to, &control, flags),
                };
                if flags & MSG_ZEROCOPY != 0 {
                    self.table().kept.push(data);
                }
                Ok(Reply::ok(sent? as i64))
            }
            Call::Shutdown { fd, how } => socket::shutdown(self.held(fd).get(), how).map(done),
            Call::Close { fd } => self.close(fd),
            Call::Fcntl { fd, cmd, arg } => self.fcntl(fd, cmd, arg),
            Call::Ioctl { fd, request, arg } => {
                let mut value = arg.unwrap_or_default();
                let ret =
                    socket::ioctl_int(self.held(fd).get(), request, arg.is_some().then_some(&mut value))?;
                Ok(Reply { value: Bytes::copy_from_slice(&value.to_ne_bytes()), ..Reply::ok(ret as i64) })
            }
            call => self.options_and_events(call),
        }
    }

    /// What another call still uses is closed when that comes back.
    fn close(&self, fd: Fd) -> Answer {
        let open = {
            let mut table = self.table();
            table.files.remove(&fd);
            table.open.remove(&fd)
        };
        let Some(open) = open else { return Ok(Reply::fail(Errno::EBADF)) };
        // Who lingers would keep others from starting anything for as long.
        let lingers = |open: &OwnedFd| matches!(socket_linger(open), Ok(Some(time)) if !time.is_zero());
        let close = |open| match lingers(&open) {
            true => socket::close(open),
            false => without_copies(|| socket::close(open)),
        };
        Arc::into_inner(open).map_or(Ok(()), close).map(done)
    }

    fn fcntl(&self, fd: Fd, cmd: i32, arg: i64) -> Answer {
        let held = self.held(fd);
        let Some(open) = held.get() else { return Ok(Reply::fail(Errno::EBADF)) };
        match cmd {
            F_GETFD => Ok(Reply::ok(rustix::io::fcntl_getfd(open)?.bits().into())),
            F_SETFD => Ok(done(rustix::io::fcntl_setfd(open, FdFlags::from_bits_retain(arg as u32))?)),
            F_GETFL => socket::status_flags(Some(open), None).map(number),
            F_SETFL => socket::status_flags(Some(open), Some(arg as i32)).map(number),
            F_GETPIPE_SZ => rustix::pipe::fcntl_getpipe_size(open).map(number).map_err(io::Error::from),
            _ => Ok(Reply::fail(Errno::EINVAL)),
        }
    }

    fn options_and_events(&self, call: Call) -> Answer {
        match call {
            Call::Getsockopt { fd, level, name, len } => {
                let (value, asked) = socket::getsockopt(self.held(fd).get(), level, name, len);
                match value {
                    Ok(value) => Ok(Reply { value: value.into(), ..Reply::ok(0) }),
                    Err(error) => Ok(Reply { optlen: asked, ..failed(&error) }),
                }
            }
            Call::Setsockopt { fd, level, name, value } => {
                let (bytes, len) = match &value {
                    Optval::Bytes(bytes) => (Some(&bytes[..]), 0),
                    Optval::Bad(len) => (None, *len as u32),
                };
                socket::setsockopt(self.held(fd).get(), level, name, bytes, len).map(done)
            }
            Call::Getsockname { fd } => self.name_of(fd, false),
            Call::Getpeername { fd } => self.name_of(fd, true),
            Call::Poll { fds, timeout_ms } => {
                let held: Vec<_> = fds.iter().map(|f| (f.fd >= 0).then(|| self.held(f.fd))).collect();
                let both = fds.iter().zip(&held);
                let entries: Vec<_> =
                    both.map(|(f, held)| held.as_ref().map(|held| (held.get(), f.events))).collect();
                let (n, revents) = socket::poll(&entries, timeout_ms)?;
                Ok(Reply { revents, ..Reply::ok(n as i64) })
            }
            Call::EpollCreate { size, flags } => match size {
                ..=0 => Ok(Reply::fail(Errno::EINVAL)),
                _ => socket::epoll_create(flags).map(|fd| {
                    self.table().files.insert(fd.as_raw_fd());
                    self.made(fd)
                }),
            },
            Call::EpollCtl { epfd, op, fd, event } => {
                let event = event.map(|e| (e.events, e.data));
                socket::epoll_ctl(self.held(epfd).get(), op, self.held(fd).get(), event).map(done)
            }
            Call::EpollWait { epfd, max_events, timeout_ms } => {
                let events = socket::epoll_wait(self.held(epfd).get(), max_events, timeout_ms)?;
                let ret = events.len() as i64;
                let events = events.into_iter().map(|(events, data)| EpollEvent { events, data }).collect();
                Ok(Reply { events, ..Reply::ok(ret) })
            }
            call => self.pipes(&call),
        }
    }

    fn pipes(&self, call: &Call) -> Answer {
        match *call {
            Call::Pipe { flags } => {
                let (read, write) = rustix::pipe::pipe_with(PipeFlags::from_bits_retain(flags as u32))?;
                let ends = (read.as_raw_fd(), write.as_raw_fd());
                self.table().files.extend([ends.0, ends.1]);
                self.made(read);
                self.made(write);
                Ok(Reply { pipe: Some(ends), ..Reply::ok(0) })
            }
            Call::Splice { fd_in, off_in, fd_out, off_out, len, flags } => {
                // Descriptors are looked up behind length and flags (`splice` in fs/splice.c), so by the kernel.
                let (from, to) = (self.held(fd_in), self.held(fd_out));
                let (mut off_in, mut off_out) = (off_in, off_out);
                let (from, to) = ((from.get(), off_in.as_mut()), (to.get(), off_out.as_mut()));
                socket::splice(from, to, len, flags).map(number)
            }
            _ => Ok(Reply::fail(Errno::ENOSYS)),
        }
    }

    fn read_file(&self, fd: Fd, rooms: &[Room]) -> Answer {
        let held = self.held(fd);
        let Some(fd) = held.get() else { return Ok(Reply::fail(Errno::EBADF)) };
        let len = rooms.iter().map(|room| room.len).sum::<usize>().min(ROOM_MAX);
        let mut data = vec![0; len];
        let got = rustix::io::read(fd, &mut data)?;
        data.truncate(got);
        Ok(Reply { data: data.into(), ..number(got) })
    }

    fn write_file(&self, fd: Fd, data: &[Piece]) -> Answer {
        let held = self.held(fd);
        let Some(fd) = held.get() else { return Ok(Reply::fail(Errno::EBADF)) };
        let all: Vec<u8> = data.iter().filter_map(|data| piece(data).0).flatten().copied().collect();
        Ok(number(rustix::io::write(fd, &all)?))
    }

    fn socket(&self, domain: i32, ty: i32, protocol: i32) -> Answer {
        let fd = socket::socket(domain, ty, protocol)?;
        if ty & 0xf == SOCK_STREAM {
            // Root may choose what the namespace may not have as its default; what the kernel does not have fails the call, so that nobody takes
            // another controller for it.
            let chosen = self.table().congestion.clone();
            let chosen = socket::setsockopt(Some(fd.as_fd()), SOL_TCP, TCP_CONGESTION, Some(&chosen), 0);
            if let Err(error) = chosen
                && error.kind() == io::ErrorKind::NotFound
            {
                return Err(error);
            }
        }
        Ok(self.made(fd))
    }

    fn recv(&self, fd: Fd, kind: RecvKind, rooms: &[Room], flags: i32, control_len: usize) -> Answer {
        let mut buffers: Vec<_> = rooms
            .iter()
            .map(|r| if r.bad { Buffer::Bad(r.len) } else { Buffer::Bytes(vec![0; r.len.min(ROOM_MAX)]) })
            .collect();
        let held = self.held(fd);
        let got = match (kind, &mut buffers[..]) {
            (RecvKind::Recv | RecvKind::Recvfrom, [one]) => socket::recvfrom(held.get(), one, flags)?,
            _ => socket::recv(held.get(), &mut buffers, flags, control_len.min(ROOM_MAX))?,
        };
        let mut data = Vec::new();
        for buffer in buffers {
            if let Buffer::Bytes(bytes) = buffer {
                data.extend(bytes);
            }
        }
        data.truncate(got.len);
        let addr =
            matches!(kind, RecvKind::Recvfrom | RecvKind::Recvmsg).then(|| Name::read(&got.addr).inet());
        Ok(Reply {
            data: data.into(),
            addr: addr.flatten(),
            msg_flags: got.flags,
            control: Control::read(&got.control).unwrap_or_default(),
            ..Reply::ok(got.len as i64)
        })
    }

    fn name_of(&self, fd: Fd, peer: bool) -> Answer {
        let addr = socket::name(self.held(fd).get(), peer)?;
        Ok(Reply { addr: Name::read(&addr).inet(), ..Reply::ok(0) })
    }
}

fn done((): ()) -> Reply {
    Reply::ok(0)
}

fn number(n: usize) -> Reply {
    Reply::ok(n as i64)
}

fn piece(piece: &Piece) -> (Option<&[u8]>, usize) {
    match piece {
        Piece::Data(data) => (Some(data), data.len()),
        Piece::Bad(len) => (None, *len),
    }
}

fn address(name: Name, bytes: &[u8]) -> Address<'_> {
    if name == Name::Bad { Address::Bad(SOCKADDR[1] as u32) } else { Address::Bytes(bytes) }
}

fn failed(error: &io::Error) -> Reply {
    let errno = error.raw_os_error().and_then(Errno::from_number);
    Reply::fail(errno.unwrap_or(Errno::EINVAL))
}

/// A struct sockaddr in the kernel's layout.
fn name(name: Name) -> Vec<u8> {
    match name {
        Name::Inet(addr) => sockaddr(addr).to_vec(),
        Name::Padded(addr) => {
            let mut bytes = sockaddr(addr.into()).to_vec();
            bytes.resize(SOCKADDR[1], 0);
            bytes
        }
        Name::Unspec(addr, len) => {
            let mut bytes = addr.map(|addr| sockaddr(addr.into()).to_vec()).unwrap_or_default();
            bytes.resize(len, 0);
            bytes.iter_mut().take(2).for_each(|byte| *byte = 0);
            bytes
        }
        Name::Other(family, len) | Name::Short(family, len) => {
            let mut bytes = family.to_ne_bytes().to_vec();
            bytes.resize(len, 0);
            bytes
        }
        Name::Strange => vec![0; STORAGE + 1],
        Name::Bad => Vec::new(),
    }
}
