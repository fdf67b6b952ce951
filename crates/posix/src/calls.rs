//! From a call to the function that carries it out.
use crate::abi::{
    AF_INET, AF_INET6, AF_UNIX, F_GETFD, F_GETFL, F_GETPIPE_SZ, F_SETFD, F_SETFL, FD_CLOEXEC, FIOASYNC,
    FIOCLEX, FIONBIO, FIONCLEX, FIONREAD, IPPROTO_SCTP, IPPROTO_TCP, IPPROTO_UDP, MSG_CMSG_CLOEXEC, O_APPEND,
    O_ASYNC, O_DIRECT, O_NOATIME, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY, SIOCATMARK, SIOCOUTQ, SIOCOUTQNSD,
    SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_RAW, SOCK_SEQPACKET, SOCK_STREAM,
};
use crate::block::Progress;
use crate::call::{Call, Fd, Name, RecvKind, Reply, SendKind};
use crate::errno::Errno;
use crate::files::{File, Kind, Sock};
use crate::host::Host;
use crate::pipe::{PIPE_BYTES, Side};
use bytes::Bytes;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use lowwater_core::base::Error;
use lowwater_core::stack::Queues;
use lowwater_core::tcp::{Inq, SocketOptions, State};

/// What a call comes to: a reply, or `None` while it blocks.
pub(crate) type Answer = Result<Option<Reply>, Errno>;

/// The bits of socket(2)'s type that are the type (`SOCK_TYPE_MASK`), and the types there are (`SOCK_MAX`).
const TYPE_MASK: i32 = 0xf;
const TYPE_MAX: i32 = 11;
/// Address families that Linux has numbers for (`AF_MAX`), and protocols (`IPPROTO_MAX`, MPTCP included).
const PROTOCOL_MAX: i32 = 263;
/// iovecs of one call (`UIO_MAXIOV`), bytes of one call (`MAX_RW_COUNT`).
pub(crate) const IOVECS_MAX: usize = 1_024;
pub(crate) const BYTES_MAX: usize = 0x7fff_f000;

/// A flag that only the kernel gives itself (`MSG_CMSG_COMPAT`).
const MSG_CMSG_COMPAT: i32 = i32::MIN;

/// The upper byte of requests that are for sockets (`SOCK_IOC_TYPE`).
const SOCKET_IOCTLS: i32 = 0x89;

impl Host {
    /// Attempts a call, for the first time or again.
    pub(crate) fn attempt(&mut self, call: &Call, p: &mut Progress) -> Answer {
        // Before anything else is asked, of these two calls alone (`__sys_sendmsg`, `__sys_recvmsg`).
        if let Call::Send { kind: SendKind::Sendmsg, flags, .. }
        | Call::Recv { kind: RecvKind::Recvmsg, flags, .. } = call
            && flags & MSG_CMSG_COMPAT != 0
        {
            return Err(Errno::EINVAL);
        }
        if let Some(answer) = self.sctp_attempt(call, p) {
            return answer;
        }
        let done = match call {
            Call::Socket { domain, ty, protocol } => self.socket(*domain, *ty, *protocol),
            Call::Bind { fd, addr } => self.bind(*fd, *addr),
            Call::Listen { fd, backlog } => self.listen(*fd, *backlog),
            Call::Accept { fd, flags } => return self.accept(*fd, *flags, p),
            Call::Connect { fd, addr } => return self.connect(*fd, *addr, p),
            Call::Recv { fd, kind, .. } => {
                return match (self.files.get(*fd)?, kind) {
                    (File::Socket(sock), _) if sock.stream => echoed(call, self.tcp_recv(call, p)),
                    (File::Socket(_), _) => echoed(call, self.udp_recv(call, p)),
                    (File::Pipe(id, side), RecvKind::Read | RecvKind::Readv) => {
                        let (id, side) = (*id, *side);
                        self.pipe_read(id, side, call, p)
                    }
                    (File::Epoll(_), RecvKind::Read | RecvKind::Readv) => Err(Errno::EINVAL),
                    _ => Err(Errno::ENOTSOCK),
                };
            }
            Call::Send { fd, kind, to, .. } => {
                return match (self.files.get(*fd)?, kind) {
                    // The address is copied before the protocol has a say (`__sys_sendto`).
                    (File::Socket(_), _) if *to == Some(Name::Bad) => Err(Errno::EFAULT),
                    (File::Socket(_), _) if *to == Some(Name::Strange) => Err(Errno::EINVAL),
                    (File::Socket(sock), _) if sock.stream => self.tcp_send(call, p),
                    (File::Socket(_), _) => self.udp_send(call, p),
                    (File::Pipe(id, side), SendKind::Write | SendKind::Writev) => {
                        let (id, side) = (*id, *side);
                        self.pipe_write(id, side, call, p)
                    }
                    (File::Epoll(_), SendKind::Write | SendKind::Writev) => Err(Errno::EINVAL),
                    _ => Err(Errno::ENOTSOCK),
                };
            }
            Call::Shutdown { fd, how } => self.shutdown(*fd, *how),
            Call::Close { fd } => return self.close(*fd, p),
            Call::Fcntl { fd, cmd, arg } => self.fcntl(*fd, *cmd, *arg),
            Call::Ioctl { fd, request, arg } => self.ioctl(*fd, *request, *arg),
            Call::Getsockopt { fd, level, name, len } => self.getsockopt(*fd, *level, *name, *len),
            Call::GetsockoptIn { fd, level, name, value } => {
                let len = i32::try_from(value.len()).unwrap_or(i32::MAX);
                self.getsockopt(*fd, *level, *name, len)
            }
            Call::Setsockopt { fd, level, name, value } => self.setsockopt(*fd, *level, *name, value),
            Call::Getsockname { fd } => self.getsockname(*fd),
            Call::Getpeername { fd } => self.getpeername(*fd),
            Call::Poll { fds, timeout_ms } => return self.poll(fds, *timeout_ms, p),
            Call::EpollCreate { size, flags } => self.epoll_create(*size, *flags),
            Call::EpollCtl { epfd, op, fd, event } => self.epoll_ctl(*epfd, *op, *fd, *event),
            Call::EpollWait { epfd, max_events, timeout_ms } => {
                return self.epoll_wait(*epfd, *max_events, *timeout_ms, p);
            }
            Call::Pipe { flags } => self.pipe(*flags),
            Call::Splice { .. } => return self.splice(call, p),
        };
        done.map(Some)
    }

    /// socket(2): `__sys_socket`, `inet_create`, `inet6_create`.
    fn socket(&mut self, domain: i32, ty: i32, protocol: i32) -> Result<Reply, Errno> {
        let (kind, flags) = (ty & TYPE_MASK, ty & !TYPE_MASK);
        if flags & !(SOCK_NONBLOCK | SOCK_CLOEXEC) != 0 || kind >= TYPE_MAX {
            return Err(Errno::EINVAL);
        }
        // AF_UNIX and the rest are not there.
        let v6 = match domain {
            AF_INET => false,
            AF_INET6 => true,
            AF_UNIX => return Err(Errno::EAFNOSUPPORT),
            _ => return Err(Errno::EAFNOSUPPORT),
        };
        if !(0..PROTOCOL_MAX).contains(&protocol) {
            return Err(Errno::EINVAL);
        }
        // Of SOCK_SEQPACKET no protocol is its one (`inet_create`).
        if let (SOCK_STREAM, IPPROTO_SCTP) | (SOCK_SEQPACKET, IPPROTO_SCTP | 0) = (kind, protocol) {
            return self.sctp_socket(kind == SOCK_SEQPACKET, v6, flags);
        }
        let stream = match (kind, protocol) {
            (SOCK_STREAM, 0 | IPPROTO_TCP) => true,
            (SOCK_DGRAM, 0 | IPPROTO_UDP) => false,
            (SOCK_STREAM | SOCK_DGRAM | SOCK_RAW | SOCK_SEQPACKET, _) => return Err(Errno::EPROTONOSUPPORT),
            _ => return Err(Errno::ESOCKTNOSUPPORT),
        };
        let mut options = SocketOptions::new(self.stack.sysctl());
        if !stream {
            (options.rmem, options.wmem) =
                (self.stack.sysctl().rmem_default, self.stack.sysctl().wmem_default);
        }
        let sock = Sock::new(stream, v6, flags & SOCK_NONBLOCK != 0, options);
        let file = File::Socket(Box::new(sock));
        Ok(Reply::ok(self.files.add_with(file, flags & SOCK_CLOEXEC != 0)?.into()))
    }

    /// fcntl(2) on what is here; descriptors are not duplicated.
    fn fcntl(&mut self, fd: Fd, cmd: i32, arg: i64) -> Result<Reply, Errno> {
        let status = self.files.status(fd);
        let file = self.files.get_mut(fd)?;
        let nonblocking = match file {
            File::Socket(sock) => sock.nonblocking,
            File::Epoll(_) => status & O_NONBLOCK != 0,
            File::Pipe(id, side) => self.pipes.nonblocking(*id, *side),
        };
        let mode = match file {
            File::Pipe(_, Side::Read) => O_RDONLY,
            File::Pipe(_, Side::Write) => O_WRONLY,
            _ => O_RDWR,
        };
        match cmd {
            F_GETFL => {
                let nonblocking = if nonblocking { O_NONBLOCK } else { 0 };
                Ok(Reply::ok((mode | status | nonblocking).into()))
            }
            F_SETFL => self.set_status(fd, arg as i32),
            F_GETFD => Ok(Reply::ok(if self.files.cloexec(fd) { FD_CLOEXEC.into() } else { 0 })),
            // No other flag is looked at (`do_fcntl`).
            F_SETFD => {
                self.files.set_cloexec(fd, arg & i64::from(FD_CLOEXEC) != 0);
                Ok(Reply::ok(0))
            }
            F_GETPIPE_SZ if matches!(file, File::Pipe(..)) => Ok(Reply::ok(PIPE_BYTES as i64)),
            F_GETPIPE_SZ => Err(Errno::EBADF),
            _ => Err(Errno::EINVAL),
        }
    }

    /// F_SETFL: what else than O_NONBLOCK there is, is read back and does nothing (`setfl`).
    fn set_status(&mut self, fd: Fd, flags: i32) -> Result<Reply, Errno> {
        const REMEMBERED: i32 = O_APPEND | O_DIRECT | O_NOATIME;
        let on = flags & O_NONBLOCK != 0;
        let kept = match self.files.get_mut(fd)? {
            File::Socket(_) | File::Epoll(_) if flags & O_DIRECT != 0 => return Err(Errno::EINVAL),
            File::Socket(sock) => {
                sock.nonblocking = on;
                REMEMBERED | O_ASYNC
            }
            // A set has nobody to signal, and its waiting is bounded by its calls alone.
            File::Epoll(_) => REMEMBERED | O_NONBLOCK,
            File::Pipe(id, side) => {
                let (id, side) = (*id, *side);
                self.pipes.set_nonblocking(id, side, on);
                REMEMBERED | O_ASYNC
            }
        };
        self.files.set_status(fd, flags & kept);
        Ok(Reply::ok(0))
    }

    /// ioctl(2): `tcp_ioctl`, `udp_ioctl`, `pipe_ioctl`.
    fn ioctl(&mut self, fd: Fd, request: u64, arg: Option<i32>) -> Result<Reply, Errno> {
        // An unsigned int in the kernel, whatever the caller's register has beyond.
        let request = request as i32;
        self.files.get(fd)?;
        // What every file knows (`do_vfs_ioctl`).
        if let FIOCLEX | FIONCLEX = request {
            self.files.set_cloexec(fd, request == FIOCLEX);
            return Ok(Reply::ok(0));
        }
        if let FIONBIO | FIOASYNC = request {
            return self.set_flag(fd, if request == FIONBIO { O_NONBLOCK } else { O_ASYNC }, arg);
        }
        if let Some(told) = self.sctp_ioctl(fd, request) {
            return told.and_then(|told| arg.map(|_| told).ok_or(Errno::EFAULT));
        }
        let told = match self.files.get(fd)? {
            File::Epoll(_) => return Err(Errno::EINVAL),
            File::Pipe(id, _) if request == FIONREAD => self.pipes.waiting(*id) as u64,
            File::Pipe(..) => return Err(Errno::ENOTTY),
            // What the protocol does not know is one of devices, whose argument is read first (`sock_do_ioctl`).
            File::Socket(sock) => self.socket_ioctl(sock, request).map_err(|errno| match errno {
                Errno::ENOTTY if arg.is_none() && request >> 8 == SOCKET_IOCTLS => Errno::EFAULT,
                errno => errno,
            })?,
        };
        arg.ok_or(Errno::EFAULT)?;
        let int = i32::try_from(told).unwrap_or(i32::MAX);
        Ok(Reply { value: Bytes::copy_from_slice(&int.to_ne_bytes()), ..Reply::ok(0) })
    }

    /// FIONBIO, FIOASYNC: one status flag alone. A set has nobody to signal (`ioctl_fioasync`).
    fn set_flag(&mut self, fd: Fd, flag: i32, arg: Option<i32>) -> Result<Reply, Errno> {
        let on = arg.ok_or(Errno::EFAULT)? != 0;
        if flag == O_ASYNC && matches!(self.files.get(fd)?, File::Epoll(_)) {
            return if on { Err(Errno::ENOTTY) } else { Ok(Reply::ok(0)) };
        }
        let flags = self.fcntl(fd, F_GETFL, 0)?.ret as i32 & !flag;
        self.set_status(fd, flags | if on { flag } else { 0 })
    }

    fn socket_ioctl(&self, sock: &Sock, request: i32) -> Result<u64, Errno> {
        let known = match request {
            FIONREAD | SIOCOUTQ => true,
            SIOCOUTQNSD | SIOCATMARK => sock.stream,
            _ => false,
        };
        if !known {
            return Err(Errno::ENOTTY);
        }
        let inq = match sock.kind {
            Kind::Conn(id) => self.stack.tcp_inq(id).unwrap_or_default(),
            _ => Inq::default(),
        };
        if request == SIOCATMARK {
            return Ok(inq.at_mark.into());
        }
        let queues = match sock.kind {
            Kind::Listener(_) => return Err(Errno::EINVAL),
            Kind::Fresh => Queues::default(),
            Kind::Conn(id) => {
                let early = matches!(self.stack.tcp_state(id), Ok(State::SynSent | State::SynRecv));
                let queues = if early { Queues::default() } else { self.queues(id) };
                Queues { recv: inq.bytes.into(), ..queues }
            }
            Kind::Udp(id) => self.queues(id),
        };
        Ok(match request {
            FIONREAD => queues.recv,
            SIOCOUTQ => queues.send,
            _ => queues.unsent,
        })
    }

    pub(crate) fn queues(&self, id: lowwater_core::base::SocketId) -> Queues {
        self.stack.queues(id).unwrap_or_default()
    }

    /// getsockname(2).
    pub(crate) fn getsockname(&mut self, fd: Fd) -> Result<Reply, Errno> {
        let sock = self.files.sock(fd)?;
        let any: IpAddr = if sock.v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let addr = match sock.kind {
            // What was bound anew after the connection was over.
            Kind::Conn(_) if sock.knobs.past.rebound => sock.bound,
            // A bind() that failed has taken the address of a connection that is over (`inet_reset_saddr`), not its port.
            Kind::Conn(id) if sock.bound.is_none() => {
                self.stack.local_addr(id).ok().map(|a| SocketAddr::new(any, a.port()))
            }
            Kind::Udp(_) if !self.has_port(sock) => sock.bound,
            Kind::Conn(id) | Kind::Udp(id) => self.stack.local_addr(id).ok().or(sock.bound),
            Kind::Fresh | Kind::Listener(_) => sock.bound,
        };
        let mut addr = addr.unwrap_or(SocketAddr::new(any, 0));
        if addr.port() == 0 {
            addr.set_port(sock.knobs.past.port);
        }
        Ok(Reply { addr: Some(sock.shown(addr)), ..Reply::ok(0) })
    }

    /// getpeername(2): not before the handshake is through, not after the end (`inet_getname`).
    pub(crate) fn getpeername(&mut self, fd: Fd) -> Result<Reply, Errno> {
        let sock = self.files.sock(fd)?;
        let addr = match sock.kind {
            Kind::Conn(id) => {
                let gone = !matches!(self.stack.tcp_state(id), Ok(s) if !matches!(s, State::SynSent | State::Close | State::TimeWait));
                if gone { Err(Error::NotConnected) } else { self.stack.peer_addr(id) }
            }
            // Port 0 is none (`inet_getname`).
            Kind::Udp(id) => self
                .stack
                .peer_addr(id)
                .and_then(|a| if a.port() == 0 { Err(Error::NotConnected) } else { Ok(a) }),
            Kind::Fresh | Kind::Listener(_) => Err(Error::NotConnected),
        };
        let addr = addr.map_err(|_| Errno::ENOTCONN)?;
        Ok(Reply { addr: Some(sock.shown(addr)), ..Reply::ok(0) })
    }
}

/// recvmsg() shows the MSG_CMSG_CLOEXEC that it was called with (`____sys_recvmsg`).
fn echoed(call: &Call, answer: Answer) -> Answer {
    let shown = match call {
        Call::Recv { kind: RecvKind::Recvmsg, flags, .. } => flags & MSG_CMSG_CLOEXEC,
        _ => 0,
    };
    answer.map(|reply| reply.map(|reply| Reply { msg_flags: reply.msg_flags | shown, ..reply }))
}
