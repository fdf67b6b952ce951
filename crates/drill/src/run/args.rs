//! From a call in a script to a call of the host: numbers, buffers, addresses, structures.
use super::{Runner, sctp_args};
use crate::failure::Failure;
use crate::names;
use crate::script::{CallSpec, Value};
use bytes::Bytes;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use lowwater_posix::abi::{IPPROTO_SCTP, SO_TIMESTAMP, SO_TIMESTAMPNS, SO_TXTIME, SOL_SOCKET};
use lowwater_posix::{Call, Control, EpollEvent, Fd, Name, Optval, Piece, PollFd, RecvKind, Room, SendKind};

/// Most bytes of the buffers of one call.
const BYTES_MAX: i64 = 1 << 26;
/// What one call moves at most (Linux's MAX_RW_COUNT).
const RW_MAX: usize = 0x7fff_f000;
/// Bytes of an address of a family that is none of IP's (struct sockaddr_storage).
const STORAGE: usize = 128;
/// Longest value of an option, and room for control messages where the script expects whatever comes.
const CONTROL_ROOM: usize = 4_096;
/// Most room for control messages that a script may ask for.
const CONTROL_MAX: usize = 65_536;
/// struct cmsghdr, and what the data behind it is rounded up to.
pub(super) const CMSGHDR: usize = 16;
const CMSG_ALIGN: usize = 8;
/// Fields of the structures that are laid out number after number: struct linger, struct timeval.
const NUMBERS: [&str; 4] = ["onoff", "linger", "tv_sec", "tv_usec"];

/// Every call that there is, to find what a wrong name stands for.
pub(super) const CALLS: &[&str] = &[
    "accept",
    "accept4",
    "bind",
    "cap_set",
    "close",
    "connect",
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "fcntl",
    "getpeername",
    "getsockname",
    "getsockopt",
    "ioctl",
    "listen",
    "open",
    "pipe",
    "pipe2",
    "poll",
    "read",
    "readv",
    "recv",
    "recvfrom",
    "recvmsg",
    "sctp_bindx",
    "sctp_connectx",
    "sctp_freeladdrs",
    "sctp_freepaddrs",
    "sctp_getladdrs",
    "sctp_getpaddrs",
    "sctp_opt_info",
    "sctp_peeloff",
    "sctp_recvmsg",
    "sctp_recvv",
    "sctp_send",
    "sctp_sendmsg",
    "sctp_sendv",
    "sctp_sendx",
    "send",
    "sendfile",
    "sendmsg",
    "sendto",
    "setsockopt",
    "shutdown",
    "socket",
    "splice",
    "write",
    "writev",
];

/// A call with the line it stands in.
pub(super) struct Args<'a> {
    pub(super) line: usize,
    pub(super) spec: &'a CallSpec,
}

impl Args<'_> {
    pub(super) fn fail<T>(&self, what: impl Into<String>) -> Result<T, Box<Failure>> {
        Err(Failure::new(self.line, what))
    }

    /// An argument.
    pub(super) fn value(&self, index: usize) -> Result<&Value, Box<Failure>> {
        match self.spec.args.get(index) {
            Some(value) => Ok(value),
            None => self.fail(self.takes("at least", index + 1)),
        }
    }

    /// An argument that must be a number.
    pub(super) fn number(&self, index: usize) -> Result<i64, Box<Failure>> {
        let name = &self.spec.name;
        match self.value(index)?.int() {
            Some(n) => Ok(n),
            None => self.fail(format!("argument {} of {name} must be a number", index + 1)),
        }
    }

    /// The same, narrowed to what the kernel looks at.
    pub(super) fn int(&self, index: usize) -> Result<i32, Box<Failure>> {
        // Flags use the highest bit (EPOLLET, MSG_CMSG_CLOEXEC), so 32 bits without a sign are taken too.
        let n = self.number(index)?;
        match i32::try_from(n).ok().or_else(|| u32::try_from(n).ok().map(|n| n as i32)) {
            Some(n) => Ok(n),
            None => self.fail(format!("{n} does not fit an int")),
        }
    }

    /// No more arguments than these.
    pub(super) fn at_most(&self, count: usize) -> Result<(), Box<Failure>> {
        if self.spec.args.len() > count {
            return self.fail(self.takes("at most", count));
        }
        Ok(())
    }

    /// What a message says of too few arguments, or too many.
    fn takes(&self, bound: &str, count: usize) -> String {
        let here = self.spec.args.len();
        let s = if here == 1 { "" } else { "s" };
        format!("{} has {here} argument{s} here and takes {bound} {count}", self.spec.name)
    }

    /// Length of the buffer in argument 1: for NULL, of which nobody reads a byte, whatever a size_t can be.
    fn buffer_length(&self, index: usize) -> Result<usize, Box<Failure>> {
        let count = self.number(index)?;
        match self.value(1)? {
            Value::Int(0) if i32::try_from(count).is_ok() => {
                Ok(usize::try_from(count).unwrap_or(usize::MAX).min(RW_MAX))
            }
            _ => self.length(index),
        }
    }

    /// Length of a buffer.
    pub(super) fn length(&self, index: usize) -> Result<usize, Box<Failure>> {
        match self.number(index)? {
            n @ 0..=BYTES_MAX => Ok(n as usize),
            n => self.fail(format!("a buffer of {n} bytes is more than a script may have")),
        }
    }

    /// A buffer to write from: `...` is zeros, a string its bytes with zeros behind, NULL a bad pointer.
    pub(super) fn piece(&self, buffer: &Value, len: usize) -> Result<Piece, Box<Failure>> {
        match buffer {
            Value::Any => Ok(Piece::zeros(len)),
            Value::Int(0) => Ok(Piece::Bad(len)),
            Value::Text(text) => {
                let mut data = text.clone();
                data.resize(len, 0);
                Ok(Piece::Data(Bytes::from(data)))
            }
            other => self.fail(format!("a buffer is '...', a string or NULL, not {other}")),
        }
    }

    pub(super) fn room(&self, buffer: &Value, len: usize) -> Result<Room, Box<Failure>> {
        match buffer {
            Value::Any | Value::Text(_) | Value::Struct(_) => Ok(Room::new(len)),
            Value::Int(0) => Ok(Room::bad(len)),
            other => self.fail(format!("a buffer is '...', a string or NULL, not {other}")),
        }
    }

    /// `[{..., 1000}, {..., 500}]`: buffers with their lengths.
    pub(super) fn iovecs<'v>(&self, value: &'v Value) -> Result<Vec<(&'v Value, usize)>, Box<Failure>> {
        let Value::List(list) = value else {
            return self.fail("buffers are a list: [{..., 1000}, {..., 500}]");
        };
        let (mut all, mut left) = (Vec::new(), BYTES_MAX);
        for item in list {
            // In nplab's packetdrill also {iov_base=..., iov_len=1000}.
            let named = item.field("iov_base").zip(item.field("iov_len")).map(|(base, len)| vec![base, len]);
            let parts = named.or_else(|| item.items()).unwrap_or_default();
            match parts.as_slice() {
                [_, Value::Int(len)] if *len > left => {
                    return self.fail(format!("buffers of more than {BYTES_MAX} bytes in one call"));
                }
                [buffer, Value::Int(len @ 0..)] => {
                    left -= len;
                    all.push((*buffer, *len as usize));
                }
                _ => return self.fail(format!("a buffer is {{..., 1000}}, not {item}")),
            }
        }
        Ok(all)
    }

    /// The buffers of readv and writev and their kin, whose third number says again how many they are.
    pub(super) fn counted<T>(&self, buffers: Vec<T>) -> Result<Vec<T>, Box<Failure>> {
        let count = self.number(2)?;
        if usize::try_from(count).ok() == Some(buffers.len()) {
            return Ok(buffers);
        }
        self.fail(format!("{} says {count} buffers and lists {}", self.spec.name, buffers.len()))
    }

    pub(super) fn rooms(&self, value: &Value) -> Result<Vec<Room>, Box<Failure>> {
        self.iovecs(value)?.into_iter().map(|(buffer, len)| self.room(buffer, len)).collect()
    }

    pub(super) fn pieces(&self, value: &Value) -> Result<Vec<Piece>, Box<Failure>> {
        self.iovecs(value)?.into_iter().map(|(buffer, len)| self.piece(buffer, len)).collect()
    }

    fn field<'v>(&self, value: &'v Value, name: &str) -> Result<&'v Value, Box<Failure>> {
        match value.field(name) {
            Some(field) => Ok(field),
            None => self.fail(format!("{} needs the field {name}, not {value}", self.spec.name)),
        }
    }

    fn field_int(&self, value: &Value, name: &str) -> Result<i64, Box<Failure>> {
        match self.field(value, name)?.int() {
            Some(n) => Ok(n),
            None => self.fail(format!("the field {name} must be a number")),
        }
    }

    /// Control messages to send.
    fn controls(&self, message: &Value) -> Result<Vec<Control>, Box<Failure>> {
        let Some(list) = message.field("msg_control") else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for item in list.items().unwrap_or_default() {
            let (level, ty) = (self.field_int(item, "cmsg_level")?, self.field_int(item, "cmsg_type")?);
            let data = match self.field(item, "cmsg_data")? {
                Value::Text(text) => Bytes::copy_from_slice(text),
                // SCM_TXTIME has nanoseconds of 64 bits.
                value if (level, ty) == (SOL_SOCKET.into(), SO_TXTIME.into()) => {
                    Bytes::from(self.layout(value, 8)?)
                }
                value => Bytes::from(self.layout(value, 4)?),
            };
            all.push(Control { level: level as i32, ty: ty as i32, data });
        }
        Ok(all)
    }

    /// A value as the bytes that Linux lays it out in, when the caller says that it has `len`.
    pub(super) fn layout(&self, value: &Value, len: usize) -> Result<Vec<u8>, Box<Failure>> {
        if let Value::Struct(fields) = value
            && let Some(of) = sctp_args::structure(fields)
            && let Some(mut bytes) = sctp_args::bytes_of(of, fields)
        {
            bytes.resize(len.max(bytes.len()), 0);
            return Ok(bytes);
        }
        let ints = |list: &[i64], wide: bool| -> Vec<u8> {
            let narrow = |n: &i64| (*n as i32).to_ne_bytes().to_vec();
            list.iter().flat_map(|n| if wide { n.to_ne_bytes().to_vec() } else { narrow(n) }).collect()
        };
        let numbers: Option<Vec<i64>> = match value {
            Value::Struct(fields)
                if fields.iter().any(|(n, _)| !n.is_empty() && !NUMBERS.contains(&n.as_str())) =>
            {
                return self.fail(format!("no structure that is known here has the fields of {value}"));
            }
            Value::Struct(fields) => fields.iter().map(|(_, v)| v.int()).collect(),
            Value::List(items) => items.iter().map(Value::int).collect(),
            Value::Int(n) => Some(vec![*n]),
            _ => None,
        };
        let mut bytes = match (value, numbers) {
            (Value::Text(text), _) => text.clone(),
            (Value::Addr(IpAddr::V4(ip)), _) => ip.octets().to_vec(),
            (Value::Addr(IpAddr::V6(ip)), _) => ip.octets().to_vec(),
            (Value::List(items), _)
                if matches!(items.as_slice(), [Value::Text(_) | Value::Struct(_) | Value::Addr(_)]) =>
            {
                return self.layout(&items[0], len);
            }
            (_, Some(list)) => match (list.as_slice(), len) {
                ([n], 1..=8) => return Ok(n.to_le_bytes()[..len].to_vec()),
                // struct timeval has two longs, struct linger two ints.
                ([_, _], 16) => ints(&list, true),
                _ => ints(&list, false),
            },
            _ => return self.fail(format!("{value} has no layout that is known here")),
        };
        bytes.resize(len, 0);
        Ok(bytes)
    }
}

impl Runner<'_> {
    /// The call that a line of the script stands for.
    pub(super) fn build(&self, line: usize, spec: &CallSpec) -> Result<Call, Box<Failure>> {
        let a = Args { line, spec };
        let fd = || a.number(0).map(|fd| self.fds.live(fd));
        Ok(match spec.name.as_str() {
            "socket" => self.socket(&a)?,
            "bind" => Call::Bind { fd: fd()?, addr: self.bind_name(&a)? },
            "listen" => Call::Listen { fd: fd()?, backlog: a.int(1)? },
            "accept" => Call::Accept { fd: fd()?, flags: 0 },
            "accept4" => Call::Accept { fd: fd()?, flags: a.int(3)? },
            "connect" => Call::Connect { fd: fd()?, addr: self.destination(&a, a.value(1)?)? },
            "read" | "readv" | "recv" | "recvfrom" | "recvmsg" => self.recv(&a, fd()?)?,
            "write" | "writev" | "send" | "sendto" | "sendmsg" => self.send(&a, fd()?)?,
            "shutdown" => Call::Shutdown { fd: fd()?, how: a.int(1)? },
            "close" => {
                a.at_most(1)?;
                Call::Close { fd: fd()? }
            }
            "fcntl" => {
                let arg = spec.args.get(2).and_then(Value::int).unwrap_or_default();
                Call::Fcntl { fd: fd()?, cmd: a.int(1)?, arg }
            }
            "ioctl" => {
                let arg = match spec.args.get(2) {
                    Some(Value::Int(0)) => None,
                    Some(value) => Some(value.int().unwrap_or_default() as i32),
                    None => Some(0),
                };
                Call::Ioctl { fd: fd()?, request: a.number(1)? as u64, arg }
            }
            "getsockopt" => {
                let len = match a.value(4)? {
                    Value::Any => size_of_value(a.value(3)?),
                    _ => a.int(4)?,
                };
                let (level, name) = (a.int(1)?, a.int(2)?);
                if level == IPPROTO_SCTP {
                    return self.option_in(&a, level, name, 3, fd()?);
                }
                Call::Getsockopt { fd: fd()?, level, name, len }
            }
            "setsockopt" => self.setsockopt(&a, fd()?)?,
            "getsockname" => Call::Getsockname { fd: fd()? },
            "getpeername" => Call::Getpeername { fd: fd()? },
            "poll" => self.poll(&a)?,
            "epoll_create" => Call::EpollCreate { size: a.int(0)?, flags: 0 },
            "epoll_create1" => Call::EpollCreate { size: 1, flags: a.int(0)? },
            "epoll_ctl" => self.epoll_ctl(&a, fd()?)?,
            "epoll_wait" => Call::EpollWait { epfd: fd()?, max_events: a.int(2)?, timeout_ms: a.int(3)? },
            "pipe" => Call::Pipe { flags: 0 },
            "pipe2" => Call::Pipe { flags: a.int(1)? },
            "splice" => self.splice(&a)?,
            name if name.starts_with("psp_") => return a.fail(format!("'{name}': PSP does not exist here")),
            name => match self.sctp_call(&a)? {
                Some(call) => call,
                None => {
                    let near = names::told(&names::near(name, CALLS));
                    return a.fail(format!("there is no call '{name}'{near}"));
                }
            },
        })
    }

    fn socket(&self, a: &Args<'_>) -> Result<Call, Box<Failure>> {
        a.at_most(3)?;
        let domain = match a.value(0)? {
            // As the script's addresses are.
            Value::Any => match self.name(self.config.ends.local, 0) {
                SocketAddr::V4(_) => 2,
                SocketAddr::V6(_) => 10,
            },
            _ => a.int(0)?,
        };
        Ok(Call::Socket { domain, ty: a.int(1)?, protocol: a.int(2)? })
    }

    /// `...` is the script's own address, else a struct sockaddr.
    fn bind_name(&self, a: &Args<'_>) -> Result<Name, Box<Failure>> {
        let ends = &self.config.ends;
        self.sockaddr(a, a.value(1)?, self.name(ends.local, ends.bind_port))
    }

    pub(super) fn peer_name(&self, a: &Args<'_>, value: &Value) -> Result<Name, Box<Failure>> {
        let ends = &self.config.ends;
        self.sockaddr(a, value, self.name(ends.remote, ends.connect_port))
    }

    /// The same, or as packetdrill has it a family in the address's place, with an address of zeros: AF_UNSPEC, which NULL is too.
    fn destination(&self, a: &Args<'_>, value: &Value) -> Result<Name, Box<Failure>> {
        match value {
            Value::Int(0) => Ok(Name::UNSPEC),
            Value::Int(2) => Ok(Name::Inet(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))),
            Value::Int(10) => Ok(Name::Inet(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0))),
            Value::Int(family @ 1..=0xffff) => Ok(Name::Other(*family as u16, STORAGE)),
            _ => self.peer_name(a, value),
        }
    }

    pub(super) fn sockaddr(
        &self,
        a: &Args<'_>,
        value: &Value,
        usual: SocketAddr,
    ) -> Result<Name, Box<Failure>> {
        match value {
            Value::Any => Ok(Name::Inet(usual)),
            Value::Int(0) => Ok(Name::Bad),
            Value::Struct(_) => {
                let family = a.field_int(value, "sa_family")?;
                if family == 0 {
                    return Ok(Name::UNSPEC);
                }
                if family != 2 && family != 10 {
                    return Ok(Name::Other(family as u16, STORAGE));
                }
                let ip = match a.field(value, "sin_addr")? {
                    Value::Addr(ip) => *ip,
                    Value::Int(0) => Ipv4Addr::UNSPECIFIED.into(),
                    other => return a.fail(format!("sin_addr is inet_addr(\"...\"), not {other}")),
                };
                let port = a.field_int(value, "sin_port")?;
                Ok(Name::Inet(SocketAddr::new(ip, port as u16)))
            }
            other => a.fail(format!("an address is '...' or {{sa_family = ...}}, not {other}")),
        }
    }

    fn recv(&self, a: &Args<'_>, fd: Fd) -> Result<Call, Box<Failure>> {
        let one = || Ok::<_, Box<Failure>>(vec![a.room(a.value(1)?, a.buffer_length(2)?)?]);
        let (kind, rooms, flags, control_len) = match a.spec.name.as_str() {
            "read" => {
                a.at_most(3)?;
                (RecvKind::Read, one()?, 0, 0)
            }
            "readv" => (RecvKind::Readv, a.counted(a.rooms(a.value(1)?)?)?, 0, 0),
            "recv" => {
                a.at_most(4)?;
                (RecvKind::Recv, one()?, a.int(3)?, 0)
            }
            "recvfrom" => {
                a.at_most(6)?;
                (RecvKind::Recvfrom, one()?, a.int(3)?, 0)
            }
            _ => {
                a.at_most(3)?;
                let message = a.value(1)?;
                let said = message
                    .field("msg_controllen")
                    .and_then(Value::int)
                    .and_then(|n| usize::try_from(n).ok());
                let room = said.or(message.field("msg_control").map(control_room)).unwrap_or_default();
                if room > CONTROL_MAX {
                    return a.fail(format!(
                        "room for {room} bytes of control messages is more than a script may have"
                    ));
                }
                (RecvKind::Recvmsg, a.rooms(a.field(message, "msg_iov")?)?, a.int(2)?, room)
            }
        };
        Ok(Call::Recv { fd, kind, rooms, flags, control_len })
    }

    fn send(&self, a: &Args<'_>, fd: Fd) -> Result<Call, Box<Failure>> {
        let one = || Ok::<_, Box<Failure>>(vec![a.piece(a.value(1)?, a.buffer_length(2)?)?]);
        // No length is no address; with one NULL is AF_UNSPEC.
        let to = |value: Option<&Value>, len: Option<&Value>| match (value, len) {
            (None, _) | (Some(Value::Int(0)), None | Some(Value::Int(0))) => Ok(None),
            (Some(value), _) => self.destination(a, value).map(Some),
        };
        let (kind, data, flags, to, control) = match a.spec.name.as_str() {
            "write" => {
                a.at_most(3)?;
                (SendKind::Write, one()?, 0, None, Vec::new())
            }
            "writev" => (SendKind::Writev, a.counted(a.pieces(a.value(1)?)?)?, 0, None, Vec::new()),
            "send" => {
                a.at_most(4)?;
                (SendKind::Send, one()?, a.int(3)?, None, Vec::new())
            }
            "sendto" => {
                a.at_most(6)?;
                (SendKind::Sendto, one()?, a.int(3)?, to(a.spec.args.get(4), a.spec.args.get(5))?, Vec::new())
            }
            _ => {
                a.at_most(3)?;
                let message = a.value(1)?;
                let data = a.pieces(a.field(message, "msg_iov")?)?;
                let to = to(message.field("msg_name"), None)?;
                (SendKind::Sendmsg, data, a.int(2)?, to, a.controls(message)?)
            }
        };
        Ok(Call::Send { fd, kind, data, flags, to, control })
    }

    fn setsockopt(&self, a: &Args<'_>, fd: Fd) -> Result<Call, Box<Failure>> {
        a.at_most(5)?;
        let (level, name) = (a.int(1)?, a.int(2)?);
        let len = match a.value(4)? {
            Value::Any => size_of_value(a.value(3)?),
            _ => a.int(4)?,
        };
        let value = match a.value(3)? {
            Value::Int(0) => Optval::Bad(len),
            value => match usize::try_from(len) {
                Ok(room) if room <= CONTROL_ROOM => {
                    // The kernel looks at no more than the call says.
                    let mut bytes = a.layout(value, room)?;
                    bytes.truncate(room);
                    Optval::Bytes(bytes.into())
                }
                _ => Optval::Bad(len),
            },
        };
        Ok(Call::Setsockopt { fd, level, name, value })
    }

    fn poll(&self, a: &Args<'_>) -> Result<Call, Box<Failure>> {
        let mut fds = Vec::new();
        for entry in a.value(0)?.items().unwrap_or_default() {
            let (fd, events) = (a.field_int(entry, "fd")?, a.field_int(entry, "events")?);
            let fd = if fd < 0 { fd as Fd } else { self.fds.live(fd) };
            fds.push(PollFd { fd, events: events as i16 });
        }
        let count = a.number(1)?;
        if usize::try_from(count).ok() != Some(fds.len()) {
            return a.fail(format!("poll says {count} descriptors and lists {}", fds.len()));
        }
        Ok(Call::Poll { fds, timeout_ms: a.int(2)? })
    }

    fn epoll_ctl(&self, a: &Args<'_>, epfd: Fd) -> Result<Call, Box<Failure>> {
        let fd = self.fds.live(a.number(2)?);
        let event = match a.spec.args.get(3) {
            None | Some(Value::Int(0)) => None,
            Some(value) => Some(epoll_event(a, value)?),
        };
        Ok(Call::EpollCtl { epfd, op: a.int(1)?, fd, event })
    }

    fn splice(&self, a: &Args<'_>) -> Result<Call, Box<Failure>> {
        let offset = |index| match a.value(index)? {
            Value::List(items) => Ok(items.first().and_then(Value::int)),
            _ => a.number(index).map(|n| Some(n).filter(|n| *n != 0)),
        };
        Ok(Call::Splice {
            fd_in: self.fds.live(a.number(0)?),
            off_in: offset(1)?,
            fd_out: self.fds.live(a.number(2)?),
            off_out: offset(3)?,
            len: a.length(4)?,
            flags: a.int(5)? as u32,
        })
    }
}

/// How long an option's value is where a call leaves that open, as in nplab's packetdrill: the size of what stands there.
fn size_of_value(value: &Value) -> i32 {
    let size = match value {
        Value::Text(text) => text.len(),
        Value::Struct(fields) if fields.iter().any(|(name, _)| name.starts_with("tv_")) => 16,
        Value::Struct(fields) => match sctp_args::structure(fields) {
            Some(of) => sctp_args::bytes_of(of, fields).map_or(of.size, |bytes| bytes.len()),
            None => 4 * fields.len(),
        },
        _ => 4,
    };
    size as i32
}

/// As packetdrill does it: exactly what the messages take that the script expects.
fn control_room(expected: &Value) -> usize {
    let Some(items) = expected.items() else { return CONTROL_ROOM };
    let space = |item: &&Value| CMSGHDR + control_len(item).next_multiple_of(CMSG_ALIGN);
    items.iter().map(space).sum()
}

/// Bytes of a control message's data.
fn control_len(item: &Value) -> usize {
    /// struct sock_extended_err with an address of IPv4 or IPv6 behind it, and three times.
    const ERROR: [usize; 2] = [16 + 16, 16 + 28];
    const TIMES: usize = 48;
    /// One of them alone: SO_TIMESTAMP, SO_TIMESTAMPNS.
    const TIME: usize = 16;
    const ALONE: [i32; 2] = [SO_TIMESTAMP, SO_TIMESTAMPNS];
    let alone =
        item.field("cmsg_type").and_then(Value::int).is_some_and(|ty| ALONE.map(i64::from).contains(&ty));
    match item.field("cmsg_data") {
        Some(Value::Text(text)) => text.len(),
        Some(Value::Struct(fields)) => {
            let begins = |prefix: &str| fields.iter().any(|(name, _)| name.starts_with(prefix));
            if let Some(of) = sctp_args::structure(fields) {
                return sctp_args::bytes_of(of, fields).map_or(CONTROL_ROOM, |bytes| bytes.len());
            }
            match (begins("ee_"), begins("scm_")) {
                (true, _) => ERROR[usize::from(item.field("cmsg_level") != Some(&Value::Int(0)))],
                (_, true) if alone => TIME,
                (_, true) => TIMES,
                _ => CONTROL_ROOM,
            }
        }
        _ => 4,
    }
}

/// `{events=EPOLLIN, fd=4}`; fd and u32 fill the lower half of the data, ptr and u64 the whole.
pub(super) fn epoll_event(a: &Args<'_>, value: &Value) -> Result<EpollEvent, Box<Failure>> {
    let value = match value {
        Value::List(items) if items.len() == 1 => &items[0],
        other => other,
    };
    let events = a.field_int(value, "events")? as u32;
    let data = ["fd", "u32", "u64", "ptr"].iter().find_map(|name| Some((*name, value.field(name)?.int()?)));
    match data {
        Some(("fd" | "u32", n)) => Ok(EpollEvent { events, data: u64::from(n as u32) }),
        Some((_, n)) => Ok(EpollEvent { events, data: n as u64 }),
        None => a.fail("an epoll event has one of fd, u32, u64 and ptr"),
    }
}

/// What a message calls the option of a call.
pub(super) fn option_name(a: &Args<'_>) -> String {
    match (a.number(1), a.number(2)) {
        (Ok(level), Ok(name)) => names::option(level, name),
        _ => "the option".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invocation::Invocation;

    #[test]
    fn every_call_that_is_offered_is_there() {
        for name in CALLS {
            let text = format!("0 {name}() = 0\n");
            let what = Invocation::new("it.pkt", &text).run().map_or_else(|f| f.what, |_| String::new());
            assert!(!what.contains("there is no call"), "{name}: {what}");
        }
        assert_eq!(names::near("sctp_sendmgs", CALLS)[0], "sctp_sendmsg");
    }
}
