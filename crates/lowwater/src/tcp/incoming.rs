//! A peer that wants to connect, before its SYN is answered: accept, refuse, or keep silent.
use super::stream::TcpStream;
use crate::asks::Birth;
use crate::error::{io_error, stopped};
use crate::shared::Handle;
use crate::sock::Sock;
use lowwater_core::base::{Error, SocketId, Tuple};
use lowwater_core::stack::{Decision, RequestId};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

/// A request to connect. The peer waits without an answer until it is decided; after three seconds without a decision the
/// request lapses, and the peer's next SYN asks again. Dropping it refuses.
#[derive(Debug)]
#[must_use = "dropping a request refuses it"]
pub struct Incoming {
    asked: Asked,
}

/// A flow about which the stack waits for a decision, or the application for a connection.
struct Asked {
    handle: Handle,
    listener: SocketId,
    request: RequestId,
    tuple: Tuple,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Undecided,
    Accepted,
    Done,
}

impl Incoming {
    pub(crate) fn new(handle: Handle, listener: SocketId, request: RequestId, tuple: Tuple) -> Self {
        Self { asked: Asked { handle, listener, request, tuple, state: State::Undecided } }
    }

    /// Who wants to connect.
    #[must_use]
    pub const fn peer(&self) -> SocketAddr {
        self.asked.tuple.remote()
    }

    /// Where the peer wants to connect to.
    #[must_use]
    pub const fn local(&self) -> SocketAddr {
        self.asked.tuple.local()
    }

    /// Answers the SYN and waits for the end of the handshake. Dropping the future gives the connection up.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] when the request has lapsed or the peer does not complete the handshake,
    /// [`io::ErrorKind::ConnectionAborted`] when the listener is gone meanwhile.
    pub async fn accept(mut self) -> io::Result<TcpStream> {
        self.asked.accept()?;
        let sock = poll_fn(|cx| self.asked.poll(cx)).await?;
        Ok(TcpStream { sock })
    }

    /// [`Incoming::accept`] for programs without async.
    ///
    /// # Errors
    /// As [`Incoming::accept`].
    pub fn accept_blocking(mut self) -> io::Result<crate::blocking::TcpStream> {
        self.asked.accept()?;
        let sock = crate::blocking::wait(None, |cx| self.asked.poll(cx))?;
        Ok(crate::blocking::TcpStream::from_sock(sock))
    }

    /// Answers with a reset: the peer sees "connection refused".
    pub fn refuse(mut self) {
        self.asked.decide(Decision::Refuse);
    }

    /// Does not answer at all.
    pub fn drop_silently(mut self) {
        self.asked.decide(Decision::Drop);
    }
}

impl Asked {
    fn decide(&mut self, decision: Decision) {
        self.state = State::Done;
        // A request that has lapsed needs no answer.
        let _ = self.handle.enter(|inner, now, _| inner.core.tcp_decide(now, self.request, decision));
    }

    fn accept(&mut self) -> io::Result<()> {
        self.handle.enter_live(|inner, now, wakes| {
            inner.asks.expect(self.listener, (self.request, self.tuple), wakes);
            if inner.core.tcp_decide(now, self.request, Decision::Accept).is_ok() {
                return Ok(());
            }
            inner.asks.forget(self.listener, (self.request, self.tuple), wakes);
            Err(io_error(Error::TimedOut))
        })?;
        self.state = State::Accepted;
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Sock>> {
        let born = self.handle.enter(|inner, _, wakes| {
            if inner.phase.is_over() {
                return Err(stopped());
            }
            Ok(inner.asks.poll(self.listener, (self.request, self.tuple), cx.waker(), wakes))
        });
        let result = match born {
            Ok(Some(Birth::Expected(_))) => return Poll::Pending,
            Ok(Some(Birth::Arrived(id))) => Ok(Sock::new(self.handle.clone(), id)),
            Ok(Some(Birth::Failed)) => Err(io_error(Error::TimedOut)),
            Ok(None) => Err(io_error(Error::Aborted)),
            Err(e) => Err(e),
        };
        self.state = State::Done;
        Poll::Ready(result)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        match self.state {
            State::Undecided => self.decide(Decision::Refuse),
            State::Accepted => self.handle.enter(|inner, now, wakes| {
                if let Some(id) = inner.asks.forget(self.listener, (self.request, self.tuple), wakes) {
                    let _ = inner.core.abort(now, id);
                    inner.registry.remove(id, wakes);
                }
            }),
            State::Done => {}
        }
    }
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.tuple)
    }
}
