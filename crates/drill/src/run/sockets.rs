//! The script's file descriptors and what is behind them.
use super::Runner;
use crate::failure::Failure;
use crate::script::CallSpec;
use core::net::SocketAddr;
use lowwater_core::base::SocketId;
use lowwater_core::tcp::SocketOptions;
use std::collections::BTreeMap;

/// What is behind a file descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Neither listening nor connecting.
    Fresh,
    Listener(SocketId),
    Conn(SocketId),
}

/// One socket.
#[derive(Clone, Debug)]
pub(super) struct Sock {
    pub(super) kind: Kind,
    pub(super) bound: Option<SocketAddr>,
    pub(super) nonblocking: bool,
    /// connect() has not told its result yet.
    pub(super) connecting: bool,
    /// Until the stack has a socket for them.
    pub(super) options: SocketOptions,
}

/// All sockets by the script's numbers.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    by_fd: BTreeMap<i64, Sock>,
    /// The connection that was made last.
    latest: Option<SocketId>,
    port: Option<u16>,
}

impl Sockets {
    pub(super) fn insert(&mut self, fd: i64, sock: Sock) -> bool {
        self.note(&sock);
        self.by_fd.insert(fd, sock).is_none()
    }

    pub(super) fn get(&mut self, fd: i64) -> Option<&mut Sock> {
        self.by_fd.get_mut(&fd)
    }

    pub(super) fn remove(&mut self, fd: i64) -> Option<Sock> {
        let sock = self.by_fd.remove(&fd)?;
        if let Kind::Listener(_) = sock.kind {
            self.port = None;
        }
        Some(sock)
    }

    /// Remembers which connection or listener is the one under test.
    pub(super) fn note(&mut self, sock: &Sock) {
        match sock.kind {
            Kind::Conn(id) => self.latest = Some(id),
            Kind::Listener(_) => self.port = sock.bound.map(|b| b.port()),
            Kind::Fresh => {}
        }
    }

    /// A new connection is under test that nobody has accepted yet.
    pub(super) const fn forget_latest(&mut self) {
        self.latest = None;
    }

    pub(super) const fn latest(&self) -> Option<SocketId> {
        self.latest
    }

    pub(super) const fn listening_port(&self) -> Option<u16> {
        self.port
    }
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Its result.
    Done(i64),
    /// An error, by the name that errno has.
    Failed(&'static str),
    /// Nothing yet; so many bytes have been written.
    Blocks(usize),
}

/// A call that has not come back.
#[derive(Debug)]
pub(super) struct Blocked {
    pub(super) line: usize,
    pub(super) call: CallSpec,
    /// When it shall come back, in microseconds of the script.
    pub(super) end: u64,
    /// Bytes that are written already.
    pub(super) written: usize,
}

impl Runner {
    /// Tries a blocked call again; true when it has come back.
    pub(super) fn retry_blocked(&mut self) -> Result<bool, Box<Failure>> {
        let Some(mut blocked) = self.blocked.take() else { return Ok(false) };
        let answer = self.answer(blocked.line, &blocked.call, blocked.written, true)?;
        if let Answer::Blocks(written) = answer {
            let more = written > blocked.written;
            blocked.written = written;
            self.blocked = Some(blocked);
            return Ok(more);
        }
        let now = self.micros(self.now);
        self.check(blocked.line, &blocked.call, &answer)?;
        if now.abs_diff(blocked.end) > self.tolerance {
            let (expected, actual) = (super::seconds(blocked.end), super::seconds(now));
            let what = "the call came back at the wrong time";
            return Err(Failure::differs(blocked.line, what, expected, actual));
        }
        Ok(true)
    }
}
