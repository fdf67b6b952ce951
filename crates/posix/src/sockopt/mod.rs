//! getsockopt and setsockopt on bytes, with Linux's layouts, lengths and errors.
mod ip;
mod ipv6;
mod plain;
mod socket;
mod stamps;
mod tcp;
mod v6_unbuilt;

pub(crate) use tcp::{NAME_MAX, TIMER_US};

use crate::abi::{IPPROTO_TCP, SO_NO_CHECK, SOL_IP, SOL_IPV6, SOL_SOCKET};
use crate::call::{Fd, Optval, Reply};
use crate::errno::Errno;
use crate::files::{Kind, Knobs, Sock};
use crate::host::Host;
use bytes::Bytes;
use lowwater_core::base::SocketId;
use lowwater_core::tcp::SocketOptions;
use lowwater_core::udp::Marks;
use std::collections::VecDeque;
use std::sync::Arc;

/// What getsockopt tells: an int, or bytes of a length of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Int(i32),
    Bytes(Bytes),
    /// So many bytes, for which there is no room: EINVAL, and their number all the same.
    NoRoom(u32),
}

impl Told {
    fn copy(bytes: &[u8]) -> Self {
        Self::Bytes(Bytes::copy_from_slice(bytes))
    }
}

/// The value of setsockopt as its option wants it.
pub(crate) struct Value<'a>(&'a Optval);

impl Value<'_> {
    /// optlen.
    pub(crate) fn len(&self) -> usize {
        match self.0 {
            Optval::Bytes(bytes) => bytes.len(),
            Optval::Bad(len) => usize::try_from(*len).unwrap_or(0),
        }
    }

    /// # Errors
    /// EFAULT for what cannot be read.
    pub(crate) fn bytes(&self) -> Result<&[u8], Errno> {
        match self.0 {
            Optval::Bytes(bytes) => Ok(bytes),
            Optval::Bad(_) => Err(Errno::EFAULT),
        }
    }

    /// # Errors
    /// EINVAL for less than an int, EFAULT for what cannot be read.
    pub(crate) fn int(&self) -> Result<i32, Errno> {
        if self.len() < 4 {
            return Err(Errno::EINVAL);
        }
        let word = self.bytes()?.first_chunk::<4>().ok_or(Errno::EINVAL)?;
        Ok(i32::from_ne_bytes(*word))
    }

    /// The `index`th 64-bit number.
    pub(crate) fn long(&self, index: usize) -> Result<i64, Errno> {
        let at = index * 8;
        let bytes = self.bytes()?.get(at..at + 8).ok_or(Errno::EINVAL)?;
        Ok(i64::from_ne_bytes(bytes.try_into().map_err(|_| Errno::EINVAL)?))
    }
}

impl Host {
    /// getsockopt(2).
    pub(crate) fn getsockopt(&mut self, fd: Fd, level: i32, name: i32, len: i32) -> Result<Reply, Errno> {
        let stream = self.files.sock(fd)?.stream;
        let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
        let told = match level {
            SOL_SOCKET => self.get_socket(fd, name, len)?,
            SOL_IP => self.get_ip(fd, name)?,
            SOL_IPV6 if self.files.sock(fd)?.v6 => self.get_ipv6(fd, name, len)?,
            IPPROTO_TCP if stream && !self.is_sctp(fd) => self.get_tcp(fd, name, len)?,
            // IPv4 and IPv6 differ here (`do_ip_getsockopt`, `ipv6_getsockopt`).
            _ if self.files.sock(fd)?.v6 => return Err(Errno::ENOPROTOOPT),
            _ => return Err(Errno::EOPNOTSUPP),
        };
        let value = match told {
            // IP options that fit a byte may be asked for as one (`do_ip_getsockopt`).
            Told::Int(int) if level == SOL_IP && (1..4).contains(&len) && (0..=255).contains(&int) => {
                Bytes::copy_from_slice(&[int as u8])
            }
            Told::Int(int) => Bytes::copy_from_slice(&int.to_ne_bytes()[..len.min(4)]),
            Told::Bytes(bytes) => bytes.slice(..bytes.len().min(len)),
            Told::NoRoom(len) => return Ok(Reply { optlen: Some(len), ..Reply::fail(Errno::EINVAL) }),
        };
        Ok(Reply { value, ..Reply::ok(0) })
    }

    /// setsockopt(2).
    pub(crate) fn setsockopt(
        &mut self,
        fd: Fd,
        level: i32,
        name: i32,
        value: &Optval,
    ) -> Result<Reply, Errno> {
        let stream = self.files.sock(fd)?.stream;
        if matches!(value, Optval::Bad(len) if *len < 0) {
            return Err(Errno::EINVAL);
        }
        let value = Value(value);
        self.settle_heirs(fd)?;
        self.settle_shares(fd)?;
        match level {
            SOL_SOCKET => self.set_socket(fd, name, &value)?,
            SOL_IP => self.set_ip(fd, name, &value)?,
            SOL_IPV6 if self.files.sock(fd)?.v6 => self.set_ipv6(fd, name, &value)?,
            IPPROTO_TCP if stream && !self.is_sctp(fd) => self.set_tcp(fd, name, &value)?,
            _ => return Err(Errno::ENOPROTOOPT),
        }
        Ok(Reply::ok(0))
    }

    /// A listener's options are about to change: connections whose handshake is over have what they were (`sk_clone_lock`).
    fn settle_heirs(&mut self, fd: Fd) -> Result<(), Errno> {
        let Kind::Listener(id) = self.files.sock(fd)?.kind else { return Ok(()) };
        let Some(newest) = self.stack.tcp_newest_waiting(id) else { return Ok(()) };
        let knobs = &mut self.files.sock_mut(fd)?.knobs;
        // Those before it have theirs already.
        if knobs.heirs.back().is_none_or(|(last, _)| *last != newest) {
            let mine = Knobs { heirs: VecDeque::new(), feedback: None, ..knobs.clone() };
            knobs.heirs.push_back((newest, Arc::new(mine)));
        }
        Ok(())
    }

    /// TCP's options of a socket, wherever they are.
    pub(crate) fn options_of(&self, sock: &Sock) -> SocketOptions {
        match sock.kind {
            Kind::Conn(id) | Kind::Listener(id) => {
                self.stack.options(id).cloned().unwrap_or_else(|_| sock.options.clone())
            }
            Kind::Fresh | Kind::Udp(_) => sock.options.clone(),
        }
    }

    /// Changes TCP's options of a socket, wherever they are.
    pub(crate) fn change(&mut self, fd: Fd, change: impl FnOnce(&mut SocketOptions)) -> Result<(), Errno> {
        let sock = self.files.sock(fd)?;
        let (kind, mut options) = (sock.kind, self.options_of(sock));
        change(&mut options);
        if self.is_sctp(fd) {
            self.files.sock_mut(fd)?.options = options;
            return self.sctp_share(fd);
        }
        if let Kind::Conn(id) | Kind::Listener(id) = kind {
            self.stack.set_options(self.now, id, options.clone())?;
        }
        self.files.sock_mut(fd)?.options = options;
        Ok(())
    }

    pub(crate) fn conn(&self, fd: Fd) -> Result<Option<SocketId>, Errno> {
        match self.files.sock(fd)?.kind {
            Kind::Conn(id) => Ok(Some(id)),
            _ => Ok(None),
        }
    }

    /// Options of a UDP socket that has just got its port.
    pub(crate) fn apply_udp_options(&mut self, sock: &Sock, id: SocketId) {
        let rcvbuf = sock.options.rcvbuf.unwrap_or(sock.options.rmem);
        let sndbuf = sock.options.sndbuf.unwrap_or(sock.options.wmem);
        let buffers = self.stack.udp_set_buffers(id, rcvbuf, sndbuf);
        let whole = self.stack.udp_set_mtu_discovery(id, [false, true].map(|v6| ip::discovery(sock, v6)));
        let o = &sock.options;
        let marks = [false, true].map(|v6| Marks {
            tos: o.tos_of(v6),
            ttl: o.ttl_of(v6),
            group_ttl: sock.group_ttl(v6),
            priority: o.queue_priority(),
            unchecked: !v6 && sock.plain(SOL_SOCKET, SO_NO_CHECK) != 0,
        });
        let marks = self.stack.udp_set_marks(id, marks);
        let recverr = self.stack.udp_set_recverr(id, o.recverr);
        debug_assert_eq!((buffers, whole, marks, recverr), (Ok(()), Ok(()), Ok(()), Ok(())), "it is open");
    }
}
