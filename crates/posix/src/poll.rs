//! What a file is ready for, and poll(2) (`tcp_poll`, `datagram_poll`, `pipe_poll`).
use crate::abi::{
    EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDBAND, EPOLLRDHUP, EPOLLRDNORM, EPOLLWRBAND,
    EPOLLWRNORM, POLLERR, POLLHUP, POLLNVAL, SO_SELECT_ERR_QUEUE, SOL_SOCKET,
};
use crate::block::Progress;
use crate::call::{Fd, PollFd, Reply};
use crate::calls::Answer;
use crate::errno::Errno;
use crate::files::{FDS_MAX, File, Kind};
use crate::host::Host;
use crate::steps;
use lowwater_core::base::{Duration, SocketId};
use lowwater_core::socket::ready_set;
use std::collections::BTreeMap;

pub(crate) const READING: u32 = EPOLLIN | EPOLLRDNORM;
pub(crate) const WRITING: u32 = EPOLLOUT | EPOLLWRNORM;
/// What whoever waits is told of room (`sk_stream_write_space`, `sock_def_write_space`), and of data (`sock_def_readable`).
pub(crate) const WRITE_SPACE: u32 = WRITING | EPOLLWRBAND;
pub(crate) const DATA_READY: u32 = READING | EPOLLPRI | EPOLLRDBAND;

/// A timeout in milliseconds; below zero it never comes.
pub(crate) fn timeout(ms: i32) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}

impl Host {
    /// What a file is ready for, in the bits of epoll; `None` without such a file.
    pub(crate) fn readiness(&mut self, fd: Fd) -> Option<u32> {
        self.readiness_within(fd, &mut BTreeMap::new())
    }

    /// `sets` are epoll sets that were looked at already: several may watch the same ones. None watches itself, and `epoll_ctl` bounds how many
    /// are within one another.
    fn readiness_within(&mut self, fd: Fd, sets: &mut BTreeMap<Fd, u32>) -> Option<u32> {
        if let Some(bits) = sets.get(&fd) {
            return Some(*bits);
        }
        match self.files.get(fd).ok()? {
            File::Pipe(id, side) => Some(self.pipes.readiness(*id, *side)),
            File::Epoll(epoll) => {
                let (mut next, mut bits) = (epoll.waiting(None), 0);
                while let Some((place, watched, events)) = next {
                    steps::step();
                    if self.readiness_within(watched, sets).is_some_and(|ready| ready & events != 0) {
                        bits = READING;
                        break;
                    }
                    let Ok(File::Epoll(epoll)) = self.files.get_mut(fd) else { break };
                    epoll.unlist(watched);
                    next = epoll.waiting(Some(place));
                }
                sets.insert(fd, bits);
                Some(bits)
            }
            File::Socket(sock) if sock.sctp.is_some() => Some(self.sctp_readiness(fd)),
            File::Socket(sock) => {
                let (kind, stream) = (sock.kind, sock.stream);
                let shut = sock.shut | self.shut_since(kind);
                let queued = sock.knobs.feedback.as_ref().is_some_and(|f| f.has_entries());
                let failed = sock.error.is_some() || queued;
                // Of datagram sockets alone (`datagram_poll`).
                let asked = !stream && sock.plain(SOL_SOCKET, SO_SELECT_ERR_QUEUE) != 0;
                let mut bits = match kind {
                    Kind::Fresh if stream => WRITING | EPOLLHUP,
                    Kind::Fresh => WRITE_SPACE,
                    Kind::Conn(id) | Kind::Listener(id) | Kind::Udp(id) => {
                        let ready = self.stack.poll(self.now, id);
                        let bits = ready_set::bits(ready);
                        match kind {
                            Kind::Udp(_) => self.datagram_bits(id, bits),
                            Kind::Conn(_) if self.is_writable_deferred(fd, id) => bits | WRITING,
                            _ => bits,
                        }
                    }
                };
                if shut & 1 != 0 {
                    bits |= READING | EPOLLRDHUP;
                }
                if shut == 3 {
                    // By whichever came before the connection, and whichever on it.
                    bits |= EPOLLHUP;
                }
                // Of a listener nothing is told but who waits (`inet_csk_listen_poll`).
                if failed && !matches!(kind, Kind::Listener(_)) {
                    bits |= EPOLLERR;
                }
                Some(if asked && bits & EPOLLERR != 0 { bits | EPOLLPRI } else { bits })
            }
        }
    }

    /// The directions of a connection that are shut down, reading by the peer, too, in the bits of [`Sock::shut`](crate::files::Sock).
    fn shut_since(&self, kind: Kind) -> u8 {
        let Kind::Conn(id) = kind else { return 0 };
        let [read, write] = self.stack.tcp_is_shut(id).map(u8::from);
        read | write << 1
    }

    /// An error alone is nothing to read, and datagrams are written to a band too (`datagram_poll`).
    fn datagram_bits(&self, id: SocketId, bits: u32) -> u32 {
        let empty = self.stack.udp_first_len(id).is_err();
        let bits = if empty { bits & !READING } else { bits };
        if bits & EPOLLOUT != 0 { bits | EPOLLWRBAND } else { bits }
    }

    /// poll(2).
    pub(crate) fn poll(&mut self, fds: &[PollFd], timeout_ms: i32, p: &mut Progress) -> Answer {
        if fds.len() > FDS_MAX {
            return Err(Errno::EINVAL);
        }
        let mut revents = Vec::with_capacity(fds.len());
        for entry in fds {
            let wanted = i32::from(entry.events) | POLLERR | POLLHUP;
            let bits = match self.readiness(entry.fd) {
                _ if entry.fd < 0 => 0,
                None => POLLNVAL,
                Some(bits) => bits as i32 & wanted & 0xffff,
            };
            revents.push(bits as i16);
        }
        let ready = revents.iter().filter(|r| **r != 0).count();
        if ready > 0 || timeout_ms == 0 || p.expired {
            return Ok(Some(Reply { revents, ..Reply::ok(ready as i64) }));
        }
        p.wait(self.now, timeout(timeout_ms))
    }
}
