//! A system call and its answer as values: what is asked, what came back.
use crate::abi::{AF_INET, AF_INET6, AF_UNSPEC, MSG_ZEROCOPY};
use crate::errno::Errno;
use bytes::{BufMut, Bytes, BytesMut};
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// A file descriptor of a [`crate::Host`].
pub type Fd = i32;

/// A system call.
///
/// Buffers of different members are those of one call; a pointer that the caller could not have read is a value too
/// ([`Piece::Bad`], [`Room::bad`], [`Name::Bad`], [`Optval::Bad`]) and gives EFAULT where Linux would look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the arguments have the names of the manual pages")]
pub enum Call {
    /// socket(2); the type with SOCK_NONBLOCK and SOCK_CLOEXEC.
    Socket { domain: i32, ty: i32, protocol: i32 },
    /// bind(2).
    Bind { fd: Fd, addr: Name },
    /// listen(2).
    Listen { fd: Fd, backlog: i32 },
    /// accept(2), or accept4(2) with flags. The peer is in [`Reply::addr`].
    Accept { fd: Fd, flags: i32 },
    /// connect(2); [`Name::Unspec`] dissolves the association.
    Connect { fd: Fd, addr: Name },
    /// read, readv, recv, recvfrom, recvmsg. `rooms` are the iovecs (one for those without), `control_len` is msg_controllen.
    Recv { fd: Fd, kind: RecvKind, rooms: Vec<Room>, flags: i32, control_len: usize },
    /// write, writev, send, sendto, sendmsg. `data` are the iovecs (one for those without).
    Send { fd: Fd, kind: SendKind, data: Vec<Piece>, flags: i32, to: Option<Name>, control: Vec<Control> },
    /// shutdown(2).
    Shutdown { fd: Fd, how: i32 },
    /// close(2). Blocks with SO_LINGER on a blocking socket.
    Close { fd: Fd },
    /// fcntl(2).
    Fcntl { fd: Fd, cmd: i32, arg: i64 },
    /// ioctl(2); what it tells is an int in [`Reply::value`], what FIONBIO reads is `arg` (`None`: a bad pointer).
    Ioctl { fd: Fd, request: u64, arg: Option<i32> },
    /// getsockopt(2) into `len` bytes (*optlen before the call). What was written is [`Reply::value`], *optlen its length.
    Getsockopt { fd: Fd, level: i32, name: i32, len: i32 },
    /// getsockopt(2) of an option that reads its value too, as several of SCTP's do; *optlen is its length. Else as `Getsockopt`.
    GetsockoptIn { fd: Fd, level: i32, name: i32, value: Bytes },
    /// setsockopt(2); optlen is the value's length.
    Setsockopt { fd: Fd, level: i32, name: i32, value: Optval },
    /// getsockname(2).
    Getsockname { fd: Fd },
    /// getpeername(2).
    Getpeername { fd: Fd },
    /// poll(2) in milliseconds, below zero for ever.
    Poll { fds: Vec<PollFd>, timeout_ms: i32 },
    /// epoll_create(2) with a size, epoll_create1(2) with flags and any size above 0.
    EpollCreate { size: i32, flags: i32 },
    /// epoll_ctl(2); `None` is a bad pointer.
    EpollCtl { epfd: Fd, op: i32, fd: Fd, event: Option<EpollEvent> },
    /// epoll_wait(2).
    EpollWait { epfd: Fd, max_events: i32, timeout_ms: i32 },
    /// pipe2(2); the ends are in [`Reply::pipe`].
    Pipe { flags: i32 },
    /// splice(2).
    Splice { fd_in: Fd, off_in: Option<i64>, fd_out: Fd, off_out: Option<i64>, len: usize, flags: u32 },
}

impl Call {
    /// What is written becomes one piece, so that a call which waits does not put it together each time it goes on. Sends without a copy
    /// need to know where each piece ended.
    pub(crate) fn join(&mut self) {
        let Self::Send { data, flags, .. } = self else { return };
        if data.len() < 2
            || *flags & MSG_ZEROCOPY != 0
            || data.iter().any(|piece| matches!(piece, Piece::Bad(_)))
        {
            return;
        }
        *data = vec![Piece::Data(joined(data))];
    }

    /// Every descriptor that the call names.
    pub fn for_each_fd(&mut self, mut f: impl FnMut(&mut Fd)) {
        match self {
            Self::Socket { .. } | Self::EpollCreate { .. } | Self::Pipe { .. } => {}
            Self::Bind { fd, .. }
            | Self::Listen { fd, .. }
            | Self::Accept { fd, .. }
            | Self::Connect { fd, .. }
            | Self::Recv { fd, .. }
            | Self::Send { fd, .. }
            | Self::Shutdown { fd, .. }
            | Self::Close { fd }
            | Self::Fcntl { fd, .. }
            | Self::Ioctl { fd, .. }
            | Self::Getsockopt { fd, .. }
            | Self::GetsockoptIn { fd, .. }
            | Self::Setsockopt { fd, .. }
            | Self::Getsockname { fd }
            | Self::Getpeername { fd }
            | Self::EpollWait { epfd: fd, .. } => f(fd),
            Self::EpollCtl { epfd, fd, .. } => [epfd, fd].into_iter().for_each(f),
            Self::Splice { fd_in, fd_out, .. } => [fd_in, fd_out].into_iter().for_each(f),
            Self::Poll { fds, .. } => fds.iter_mut().for_each(|entry| f(&mut entry.fd)),
        }
    }
}

/// Which of the calls that read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvKind {
    /// read(2).
    Read,
    /// readv(2).
    Readv,
    /// recv(2).
    Recv,
    /// recvfrom(2): [`Reply::addr`] has the sender of a datagram.
    Recvfrom,
    /// recvmsg(2): with address, flags and control messages.
    Recvmsg,
}

/// Which of the calls that write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendKind {
    /// write(2).
    Write,
    /// writev(2).
    Writev,
    /// send(2).
    Send,
    /// sendto(2).
    Sendto,
    /// sendmsg(2).
    Sendmsg,
}

/// One buffer to read into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Its length in bytes.
    pub len: usize,
    /// Nobody can write there: EFAULT.
    pub bad: bool,
}

impl Room {
    /// Room for `len` bytes.
    #[must_use]
    pub const fn new(len: usize) -> Self {
        Self { len, bad: false }
    }

    /// A pointer to nothing with a length.
    #[must_use]
    pub const fn bad(len: usize) -> Self {
        Self { len, bad: true }
    }
}

/// One buffer to write from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes.
    Data(Bytes),
    /// So many bytes behind a pointer that cannot be read.
    Bad(usize),
}

impl Piece {
    /// `len` zeros: what packetdrill writes.
    #[must_use]
    pub fn zeros(len: usize) -> Self {
        Self::Data(Bytes::from(vec![0; len]))
    }

    /// Its length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Data(data) => data.len(),
            Self::Bad(len) => *len,
        }
    }

    /// It has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The bytes of these pieces as one.
pub(crate) fn joined(pieces: &[Piece]) -> Bytes {
    if let [Piece::Data(one)] = pieces {
        return one.clone();
    }
    let mut all = BytesMut::new();
    for piece in pieces {
        if let Piece::Data(bytes) = piece {
            all.extend_from_slice(bytes);
        }
    }
    all.freeze()
}

impl From<Bytes> for Piece {
    fn from(data: Bytes) -> Self {
        Self::Data(data)
    }
}

/// A struct sockaddr with its length, as the caller passed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// A sockaddr_in, or a sockaddr_in6 (IPv4-mapped addresses in their mapped form), as long as it is.
    Inet(SocketAddr),
    /// A sockaddr_in in as many bytes as a sockaddr_in6 has, or more: AF_INET6's calls ask for those before they look at the family.
    Padded(SocketAddrV4),
    /// So many bytes of family AF_UNSPEC, with what a sockaddr_in has where it has it: AF_INET's calls may take it for one. `None` for one
    /// that is too short for that.
    Unspec(Option<SocketAddrV4>, usize),
    /// So many bytes of another family.
    Other(u16, usize),
    /// So many bytes of this family, too few for it; family 0 where they are too few for that.
    Short(u16, usize),
    /// Longer than any address is, or shorter than nothing: EINVAL before anybody looks at it (`move_addr_to_kernel`). Of a message it is the
    /// latter alone: whoever reads a message cuts what is too long to 128 bytes ([`Name::read`] of those, `__copy_msghdr`).
    Strange,
    /// A pointer that cannot be read.
    Bad,
}

impl From<SocketAddr> for Name {
    fn from(addr: SocketAddr) -> Self {
        Self::Inet(addr)
    }
}

/// Length of a sockaddr_in; what AF_INET's calls ask for at least.
const SOCKADDR_IN: usize = 16;
/// Length of a sockaddr_in6, and of the older one without a scope (`SIN6_LEN_RFC2133`), which Linux accepts.
const SOCKADDR_IN6: usize = 28;
const SOCKADDR_IN6_OLD: usize = 24;
/// Longest that any address may be (`struct sockaddr_storage`).
const SOCKADDR_STORAGE: usize = 128;

impl Name {
    /// Of family AF_UNSPEC with nothing but zeros, long enough for the family of any socket.
    pub const UNSPEC: Self = Self::Unspec(Some(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)), SOCKADDR_IN6);

    /// Reads a struct sockaddr of Linux.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        if bytes.len() > SOCKADDR_STORAGE {
            return Self::Strange;
        }
        let Some((family, rest)) = bytes.split_first_chunk::<2>() else { return Self::Short(0, bytes.len()) };
        let family = u16::from_ne_bytes(*family);
        let port = |b: &[u8]| Some(u16::from_be_bytes([*b.first()?, *b.get(1)?]));
        let v4 = || {
            let ip = rest.get(2..6).and_then(|b| <[u8; 4]>::try_from(b).ok());
            let addr = ip.zip(port(rest)).filter(|_| bytes.len() >= SOCKADDR_IN);
            addr.map(|(ip, port)| SocketAddrV4::new(Ipv4Addr::from(ip), port))
        };
        match i32::from(family) {
            AF_UNSPEC => Self::Unspec(v4(), bytes.len()),
            AF_INET => match v4() {
                None => Self::Short(family, bytes.len()),
                Some(addr) if bytes.len() >= SOCKADDR_IN6_OLD => Self::Padded(addr),
                Some(addr) => Self::Inet(addr.into()),
            },
            AF_INET6 if bytes.len() >= SOCKADDR_IN6_OLD => {
                let word = |at: usize| rest.get(at..at + 4).and_then(|b| <[u8; 4]>::try_from(b).ok());
                let ip = rest.get(6..22).and_then(|b| <[u8; 16]>::try_from(b).ok());
                ip.zip(port(rest)).map_or(Self::Short(family, bytes.len()), |(ip, port)| {
                    let flow = word(2).map_or(0, u32::from_be_bytes);
                    let scope = word(22).map_or(0, u32::from_ne_bytes);
                    Self::Inet(SocketAddrV6::new(Ipv6Addr::from(ip), port, flow, scope).into())
                })
            }
            AF_INET6 => Self::Short(family, bytes.len()),
            _ => Self::Other(family, bytes.len()),
        }
    }

    /// The address and port, if it has them.
    #[must_use]
    pub const fn inet(self) -> Option<SocketAddr> {
        match self {
            Self::Inet(addr) => Some(addr),
            Self::Padded(addr) => Some(SocketAddr::V4(addr)),
            _ => None,
        }
    }

    /// It has as many bytes as a sockaddr_in, or as AF_INET6's calls want at least of a sockaddr_in6 (`SIN6_LEN_RFC2133`).
    #[must_use]
    pub const fn fills(self, v6: bool) -> bool {
        let len = match self {
            Self::Inet(SocketAddr::V4(_)) => SOCKADDR_IN,
            Self::Inet(SocketAddr::V6(_)) | Self::Padded(_) => SOCKADDR_IN6,
            Self::Unspec(_, len) | Self::Other(_, len) | Self::Short(_, len) => len,
            Self::Strange | Self::Bad => 0,
        };
        len >= if v6 { SOCKADDR_IN6_OLD } else { SOCKADDR_IN }
    }
}

/// Writes an address as Linux's sockaddr_in or sockaddr_in6.
#[must_use]
pub fn sockaddr(addr: SocketAddr) -> Bytes {
    let mut out = BytesMut::with_capacity(SOCKADDR_IN6);
    match addr {
        SocketAddr::V4(v4) => {
            out.put_slice(&(AF_INET as u16).to_ne_bytes());
            out.put_u16(v4.port());
            out.put_slice(&v4.ip().octets());
            out.put_bytes(0, 8);
        }
        SocketAddr::V6(v6) => {
            out.put_slice(&(AF_INET6 as u16).to_ne_bytes());
            out.put_u16(v6.port());
            out.put_u32(v6.flowinfo());
            out.put_slice(&v6.ip().octets());
            out.put_slice(&v6.scope_id().to_ne_bytes());
        }
    }
    out.freeze()
}

/// The value of setsockopt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Optval {
    /// These bytes; optlen is their number.
    Bytes(Bytes),
    /// A pointer that cannot be read, with an optlen (which may be below zero).
    Bad(i32),
}

impl Optval {
    /// An int.
    #[must_use]
    pub fn int(value: i32) -> Self {
        Self::Bytes(Bytes::copy_from_slice(&value.to_ne_bytes()))
    }

    /// The bytes of `text`, as for TCP_CONGESTION.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Bytes(Bytes::copy_from_slice(text.as_bytes()))
    }
}

/// A control message (struct cmsghdr with its data, without padding).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// cmsg_level.
    pub level: i32,
    /// cmsg_type.
    pub ty: i32,
    /// The data; cmsg_len is 16 more than its length.
    pub data: Bytes,
}

/// Bytes of a struct cmsghdr, and what everything in a control buffer is aligned to, where longs have 64 bits.
const CMSGHDR: usize = 16;
const ALIGN: usize = 8;

impl Control {
    /// A message whose data is one int.
    #[must_use]
    pub fn int(level: i32, ty: i32, value: i32) -> Self {
        Self { level, ty, data: Bytes::copy_from_slice(&value.to_ne_bytes()) }
    }

    /// CMSG_LEN.
    #[must_use]
    pub const fn len(&self) -> usize {
        CMSGHDR + self.data.len()
    }

    /// Never: a message has a header.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// CMSG_SPACE: what it takes of msg_controllen.
    #[must_use]
    pub const fn space(&self) -> usize {
        CMSGHDR + self.data.len().next_multiple_of(ALIGN)
    }

    /// Writes messages as a control buffer has them; its length is msg_controllen.
    #[must_use]
    pub fn write(all: &[Self]) -> Bytes {
        let mut out = BytesMut::new();
        for c in all {
            out.put_slice(&c.len().to_ne_bytes());
            out.put_slice(&c.level.to_ne_bytes());
            out.put_slice(&c.ty.to_ne_bytes());
            out.put_slice(&c.data);
            out.put_bytes(0, c.space() - c.len());
        }
        out.freeze()
    }

    /// Reads a control buffer; `None` when a length in it is wrong (EINVAL).
    #[must_use]
    pub fn read(mut bytes: &[u8]) -> Option<Vec<Self>> {
        let mut all = Vec::new();
        while bytes.len() >= CMSGHDR {
            let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(i32::from_ne_bytes);
            let len = usize::from_ne_bytes(bytes.get(..8)?.try_into().ok()?);
            let data = bytes.get(CMSGHDR..len)?;
            all.push(Self { level: word(8)?, ty: word(12)?, data: Bytes::copy_from_slice(data) });
            bytes = bytes.get(len.checked_next_multiple_of(ALIGN)?..).unwrap_or_default();
        }
        Some(all)
    }
}

/// One entry of poll(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollFd {
    /// The descriptor; below zero the entry is skipped.
    pub fd: Fd,
    /// POLLIN and so on.
    pub events: i16,
}

/// struct epoll_event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpollEvent {
    /// EPOLLIN and so on.
    pub events: u32,
    /// The caller's, verbatim.
    pub data: u64,
}

/// What a call came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The result; -1 with an errno.
    pub ret: i64,
    /// Why it failed.
    pub errno: Option<Errno>,
    /// What was read, over all iovecs.
    pub data: Bytes,
    /// The peer of accept, the sender of a datagram, the name of getsockname and getpeername; mapped on an AF_INET6 socket.
    pub addr: Option<SocketAddr>,
    /// msg_flags of recvmsg.
    pub msg_flags: i32,
    /// Control messages of recvmsg.
    pub control: Vec<Control>,
    /// What getsockopt wrote; the int of an ioctl.
    pub value: Bytes,
    /// What a getsockopt that failed wrote to optlen all the same: the length that it asks for.
    pub optlen: Option<u32>,
    /// revents of poll, one for each entry.
    pub revents: Vec<i16>,
    /// What epoll_wait wrote.
    pub events: Vec<EpollEvent>,
    /// The two ends of a pipe: to read, to write.
    pub pipe: Option<(Fd, Fd)>,
    /// The kernel would have sent SIGPIPE.
    pub sigpipe: bool,
}

impl Reply {
    /// A result without more.
    #[must_use]
    pub fn ok(ret: i64) -> Self {
        Self { ret, ..Self::default() }
    }

    /// A failure.
    #[must_use]
    pub fn fail(errno: Errno) -> Self {
        Self { ret: -1, errno: Some(errno), ..Self::default() }
    }

    /// The value as an int, where it is four bytes long.
    #[must_use]
    pub fn int(&self) -> Option<i32> {
        self.value.as_ref().try_into().ok().map(i32::from_ne_bytes)
    }
}

impl From<Errno> for Reply {
    fn from(errno: Errno) -> Self {
        Self::fail(errno)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sockaddr_is_read_as_it_was_written() {
        for text in ["192.0.2.1:80", "[2001:db8::1]:443", "[::ffff:192.0.2.1]:80", "[fe80::1%3]:9"] {
            let addr: SocketAddr = text.parse().expect("an address");
            assert_eq!(Name::read(&sockaddr(addr)), Name::Inet(addr), "{text}");
        }
    }

    #[test]
    fn short_and_strange_sockaddrs_are_told_apart() {
        let v4 = sockaddr("192.0.2.1:80".parse().expect("an address"));
        assert_eq!(Name::read(&v4[..15]), Name::Short(2, 15));
        assert_eq!(Name::read(&[1, 0, b'/']), Name::Other(1, 3));
        assert_eq!(Name::read(&[0, 0]), Name::Unspec(None, 2));
        assert_eq!(Name::read(&[0; 15]), Name::Unspec(None, 15));
        assert_eq!(Name::read(&[0; 28]), Name::UNSPEC);
        let old = [0, 0, 0, 80, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Name::read(&old), Name::Unspec(Some(SocketAddrV4::new([10, 0, 0, 1].into(), 80)), 16));
        assert_eq!([&[2][..], &[2; 129]].map(Name::read), [Name::Short(0, 1), Name::Strange]);
        let [two, wide] = [16, 24].map(|len| {
            let mut bytes = v4.to_vec();
            bytes.resize(len, 0);
            Name::read(&bytes)
        });
        assert_eq!((two, two.fills(true)), (Name::Inet("192.0.2.1:80".parse().expect("an address")), false));
        assert_eq!((wide.inet(), wide.fills(true)), (two.inet(), true));
    }

    #[test]
    fn control_messages_are_read_as_they_were_written() {
        let all =
            [Control::int(6, 36, 7), Control { level: 0, ty: 8, data: Bytes::from_static(b"0123456789ab") }];
        let bytes = Control::write(&all);
        assert_eq!(bytes.len(), 24 + 32);
        assert_eq!(Control::read(&bytes), Some(all.to_vec()));
        assert_eq!(Control::read(&[0; 16]), None, "a length below the header's");
        assert_eq!(Control::read(&[0; 15]), Some(Vec::new()), "less than a header is nothing");
    }
}
