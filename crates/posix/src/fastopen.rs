//! TCP Fast Open in the client's calls: MSG_FASTOPEN, and the first write after TCP_FASTOPEN_CONNECT (`tcp_sendmsg_fastopen`).
use crate::abi::MSG_FASTOPEN;
use crate::block::Progress;
use crate::call::{Fd, Name, Reply};
use crate::calls::Answer;
use crate::errno::Errno;
use crate::files::{Attempt, Kind, take_addr};
use crate::host::Host;
use crate::send::Write;
use lowwater_core::base::{Error, SocketId};
use lowwater_core::tcp::State;

/// Bit of `tcp_fastopen` that lets clients send data with a SYN.
const CLIENT: u32 = 1;

/// What is noted of a connection that Fast Open may begin: a request (`fastopen_req`), and that the first write is to open it
/// (`DEFER_CONNECT`). A write's is noted until it comes back from the handshake, and all of it until the socket is dissolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fast {
    /// Nothing, also once the request is over.
    #[default]
    Nothing,
    /// connect() has left the SYN to the first write (TCP_FASTOPEN_CONNECT).
    Deferred,
    /// connect() has asked for a cookie (`tcp_fastopen_defer_connect`): nothing ends this request but the socket's dissolution.
    Asked,
    /// The first write behind a deferred connect() is under way.
    First,
    /// Any other write with MSG_FASTOPEN is.
    Write,
}

impl Fast {
    /// What connect() leaves.
    pub(crate) const fn of_connect(deferred: bool, wanted: bool) -> Self {
        match (deferred, wanted) {
            (true, _) => Self::Deferred,
            (_, true) => Self::Asked,
            _ => Self::Nothing,
        }
    }

    /// The first write behind connect() is to open the connection, or has sent its SYN and not come back from the handshake (`DEFER_CONNECT`).
    pub(crate) const fn is_deferred(self) -> bool {
        matches!(self, Self::Deferred | Self::First)
    }

    /// A write notes its request.
    ///
    /// # Errors
    /// EALREADY where there is another's.
    const fn begin(&mut self) -> Result<(), Errno> {
        *self = match self {
            Self::Nothing => Self::Write,
            Self::Deferred => Self::First,
            Self::Asked | Self::First | Self::Write => return Err(Errno::EALREADY),
        };
        Ok(())
    }

    /// That write is back from the handshake, whatever came of it.
    const fn end(&mut self) {
        if matches!(self, Self::First | Self::Write) {
            *self = Self::Nothing;
        }
    }
}

impl Host {
    /// What Fast Open has noted of a socket.
    pub(crate) fn fast(&self, fd: Fd) -> Fast {
        self.files.sock(fd).map_or(Fast::Nothing, |sock| sock.knobs.past.fast)
    }

    /// A write that would go on now opens the connection before (`tcp_sendmsg_locked`).
    pub(crate) fn writes_fast(&self, write: &Write, p: &Progress) -> bool {
        p.fast || (!p.begun && (write.has(MSG_FASTOPEN) || self.fast(write.fd).is_deferred()))
    }

    /// The first write behind a deferred connect() has not come back, and its SYN is unanswered: the socket counts as writable, as before that
    /// write (`tcp_poll`).
    pub(crate) fn is_writable_deferred(&self, fd: Fd, id: SocketId) -> bool {
        self.fast(fd).is_deferred() && self.stack.tcp_state(id) == Ok(State::SynSent)
    }

    /// The part of a write that goes with the SYN. `Ok(None)` when the connection is there and the write goes on as any other.
    ///
    /// # Errors
    /// EOPNOTSUPP, EISCONN, EALREADY, EINPROGRESS when the SYN took nothing, or why connecting failed.
    pub(crate) fn send_fast(&mut self, write: &Write, p: &mut Progress) -> Result<Option<Answer>, Errno> {
        let answer = if p.fast {
            self.go_on_fast(write, p)
        } else {
            if self.stack.sysctl().tcp_fastopen & CLIENT == 0 || matches!(write.to, Some(Name::Unspec(..))) {
                return Err(Errno::EOPNOTSUPP);
            }
            // Before anybody asks how far the connection is.
            self.files.sock_mut(write.fd)?.knobs.past.fast.begin()?;
            p.fast = true;
            self.time_anew(write.fd, p);
            self.begin_fast(write, p)
        };
        if !matches!(answer, Ok(Some(Ok(None)))) {
            p.fast = false;
            self.files.sock_mut(write.fd)?.knobs.past.fast.end();
        }
        if matches!(answer, Ok(None)) {
            self.time_anew(write.fd, p);
        }
        answer
    }

    /// What follows a wait has its own time: the handshake behind one for a pipe, and a write behind the handshake (`sock_sndtimeo`).
    fn time_anew(&self, fd: Fd, p: &mut Progress) {
        if p.begun {
            let timeout = self.files.sock(fd).ok().and_then(|sock| sock.knobs.sndtimeo);
            p.deadline = timeout.map(|t| self.now + t);
        }
    }

    /// Its request is noted: it opens the connection, or waits for the one that is being made.
    fn begin_fast(&mut self, write: &Write, p: &mut Progress) -> Result<Option<Answer>, Errno> {
        let sock = self.files.sock(write.fd)?;
        let (kind, nonblocking) = (sock.kind, write.impatient(sock, p));
        let deferred = sock.knobs.past.fast.is_deferred();
        // Before anybody asks how far the connection is (`__inet_stream_connect`), but where its SYN waits for this write.
        if matches!(write.to, Some(Name::Short(0, _))) && !deferred {
            return Err(Errno::EINVAL);
        }
        match kind {
            Kind::Fresh => {
                let remote = take_addr(sock.v6, write.to.ok_or(Errno::EINVAL)?)?;
                let (id, taken) = self.open_connection(write.fd, remote, Some(&write.data))?;
                (p.done, p.first) = (taken, true);
                self.expect_rest(write, id, nonblocking, p)
            }
            Kind::Conn(id) if deferred => {
                let flags = write.send_flags(!nonblocking, p.begun, false);
                p.done = match self.stack.tcp_send(self.now, id, &write.data, flags) {
                    Ok(taken) => taken,
                    Err(Error::WouldBlock) => 0,
                    // It has found no route; why is no error of the connection (`inet_sk_rebuild_header`).
                    Err(Error::Aborted) => return Err(self.end_attempt(write.fd, id)?),
                    Err(e) => return Err(e.into()),
                };
                p.first = true;
                self.expect_rest(write, id, nonblocking, p)
            }
            Kind::Conn(_) if sock.attempt == Attempt::Spoilt => Err(Errno::EINVAL),
            Kind::Conn(id) if sock.attempt == Attempt::Open => self.expect_rest(write, id, nonblocking, p),
            Kind::Conn(_) | Kind::Listener(_) | Kind::Udp(_) => Err(Errno::EISCONN),
        }
    }

    /// It has waited for the handshake.
    fn go_on_fast(&mut self, write: &Write, p: &mut Progress) -> Result<Option<Answer>, Errno> {
        let sock = self.files.sock_mut(write.fd)?;
        match sock.kind {
            Kind::Conn(id) if sock.attempt != Attempt::None => {
                if p.over() {
                    self.end_wait_to_write(write.fd, id)?;
                }
                self.await_syn(write, id, false, p)
            }
            // Another call that waited for it was told first.
            Kind::Conn(_) => {
                p.first = true;
                Ok(None)
            }
            // What it waited for was dissolved: what went with the SYN does not count.
            _ => Err(sock.take_error().unwrap_or(Errno::EPIPE)),
        }
    }

    /// Waits for the end of the handshake, as long as it may.
    fn await_syn(
        &mut self,
        write: &Write,
        id: SocketId,
        nonblocking: bool,
        p: &mut Progress,
    ) -> Result<Option<Answer>, Errno> {
        let still = if p.first { Errno::EINPROGRESS } else { Errno::EALREADY };
        // A splice() may have waited before, for its pipe.
        let answer = if nonblocking && self.waits_to_connect(write.fd, id) {
            Err(still)
        } else {
            self.connect_result(write.fd, id, nonblocking, still, p)
        };
        match answer {
            // What went with the SYN counts where the wait for the rest is over.
            Err(Errno::EINPROGRESS) if p.done > 0 => Ok(Some(Ok(Some(Reply::ok(p.done as i64))))),
            Err(errno) => Err(errno),
            Ok(Some(_)) => {
                // Whatever it looks at before a write it looks at now (`tcp_sendmsg_locked`).
                p.first = true;
                Ok(None)
            }
            Ok(None) => Ok(Some(Ok(None))),
        }
    }

    /// It waits for the handshake, whose last ACK may ride on what the SYN has not taken (`inet_wait_for_connect`: `writebias`).
    fn expect_rest(
        &mut self,
        write: &Write,
        id: SocketId,
        nonblocking: bool,
        p: &mut Progress,
    ) -> Result<Option<Answer>, Errno> {
        if !nonblocking && p.done < write.data.len() {
            self.stack.tcp_expect_write(self.now, id, true)?;
        }
        self.await_syn(write, id, nonblocking, p)
    }
}
