//! A peer that wants to connect, before its SYN is answered: accept, refuse, or keep silent.
use super::stream::TcpStream;
use crate::asks::Birth;
use crate::coop::polled;
use crate::error::{io_error, stopped};
use crate::registry::Wakes;
use crate::shared::{Handle, Inner};
use crate::sock::Sock;
use lowwater_core::base::{Error, Instant, SocketId, Tuple};
use lowwater_core::stack::{Decision, RequestId};
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
        let sock = polled(|cx| self.asked.poll(cx)).await?;
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
            if inner.core.tcp_decide(now, self.request, Decision::Accept).is_err() {
                // It has lapsed, and the flow may have another by now.
                self.state = State::Done;
                return Err(io_error(Error::TimedOut));
            }
            if let Some(id) = inner.asks.expect(self.listener, (self.request, self.tuple), wakes) {
                give_up(inner, now, id, wakes);
            }
            Ok(())
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
                    give_up(inner, now, id, wakes);
                }
            }),
            State::Done => {}
        }
    }
}

/// A connection that has arrived and that nobody will fetch.
fn give_up(inner: &mut Inner, now: Instant, id: SocketId, wakes: &mut Wakes) {
    let _ = inner.core.abort(now, id);
    inner.registry.remove(id, wakes);
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.tuple)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use crate::link::{self, QueueLimit};
    use crate::{ListenOptions, Stack, TcpListener};
    use lowwater_core::base::{DeviceId, Duration};
    use lowwater_core::device::{DeviceCaps, Submit};
    use lowwater_core::packet::Packet;
    use lowwater_core::stack::{Config, Stack as Core};
    use lowwater_core::tcp::SocketOptions;
    use std::pin::pin;
    use std::task::Waker;

    const DEV: DeviceId = DeviceId(1);

    /// A stack that nobody drives, with a listener that asks, and a peer; time is the test's.
    struct Asking {
        stack: Stack,
        /// Stopped, it would end the stack.
        _driver: Driver,
        listener: TcpListener,
        peer: Core,
        now: Instant,
    }

    /// What waits to leave a core, as it arrives.
    fn packets(core: &mut Core, now: Instant, dev: DeviceId) -> Vec<Packet> {
        let mut packets = Vec::new();
        let mut device = |_: Instant, packet: Packet| {
            packets.push(Packet::received(packet.to_bytes(), packet.offload, now));
            Submit::Completed
        };
        core.transmit(now, dev, 64, &mut device);
        packets
    }

    impl Asking {
        fn new() -> Self {
            let (port, _link) = link::owned(1_500, QueueLimit::default());
            let (stack, driver) =
                Stack::builder().device(port).address("10.0.0.1/24").build_driver().expect("a stack");
            let options = ListenOptions { port: Some(80), ask: true, ..ListenOptions::default() };
            let listener = TcpListener::listen(&stack, &options).expect("free");
            let mut peer = Core::new(Config::default(), Instant::ZERO);
            let dev = peer.add_device(DeviceCaps::plain(1_500));
            assert_eq!(dev, DEV);
            peer.add_address(dev, [10, 0, 0, 2].into(), 24).expect("an address");
            let now = stack.handle.clock.now() + Duration::from_secs(1);
            Self { stack, _driver: driver, listener, peer, now }
        }

        /// The peer opens from its one port; its SYN.
        fn opens(&mut self) -> (SocketId, Vec<Packet>) {
            let (to, from) = (([10, 0, 0, 1], 80).into(), ([10, 0, 0, 2], 4_000).into());
            let options = SocketOptions::new(self.peer.sysctl());
            let id = self.peer.tcp_connect(self.now, to, Some(from), &options).expect("the port is free");
            (id, packets(&mut self.peer, self.now, DEV))
        }

        /// Packets for the stack, and what is due.
        fn gets(&self, packets: Vec<Packet>) {
            self.stack.handle.enter(|inner, _, wakes| {
                let dev = inner.devices[0];
                packets.into_iter().for_each(|packet| inner.core.receive(self.now, dev, packet));
                inner.core.handle_timeout(self.now);
                inner.dispatch(self.now, wakes);
            });
        }

        /// Packets both ways until nobody has any.
        fn talk(&mut self) {
            loop {
                let theirs = packets(&mut self.peer, self.now, DEV);
                let ours = self.stack.handle.enter(|inner, _, _| {
                    let dev = inner.devices[0];
                    packets(&mut inner.core, self.now, dev)
                });
                if theirs.is_empty() && ours.is_empty() {
                    return;
                }
                ours.into_iter().for_each(|packet| self.peer.receive(self.now, DEV, packet));
                self.gets(theirs);
            }
        }

        fn asked(&self) -> Incoming {
            match self.listener.poll_incoming(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(incoming) => incoming.expect("it listens"),
                Poll::Pending => panic!("nobody asks"),
            }
        }

        /// Sockets that handles hold.
        fn held(&self) -> usize {
            self.stack.handle.lock().registry.ids().count()
        }
    }

    fn poll<F: Future>(future: core::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn timed_out(accepted: Poll<io::Result<TcpStream>>) -> bool {
        matches!(accepted, Poll::Ready(Err(e)) if e.kind() == io::ErrorKind::TimedOut)
    }

    /// The flow's second request is accepted first, and has its connection before or after the first is looked at.
    #[test]
    fn a_request_that_has_lapsed_takes_nothing_from_the_next_of_its_flow() {
        for arrives_first in [false, true] {
            let mut w = Asking::new();
            let (_, syn) = w.opens();
            w.gets(syn.clone());
            let first = w.asked();
            w.now += Duration::from_secs(4);
            w.gets(Vec::new());
            w.gets(syn);
            let mut second = pin!(w.asked().accept());
            assert!(poll(second.as_mut()).is_pending());
            if arrives_first {
                w.talk();
            }
            assert!(timed_out(poll(pin!(first.accept()))));
            w.talk();
            assert!(matches!(poll(second.as_mut()), Poll::Ready(Ok(_))), "{arrives_first}");
        }
    }

    /// Nobody has fetched it, its peer has reset it and connects anew from the same port.
    #[test]
    fn a_connection_in_whose_place_the_next_comes_is_closed() {
        let mut w = Asking::new();
        let (theirs, syn) = w.opens();
        w.gets(syn);
        let mut first = pin!(w.asked().accept());
        assert!(poll(first.as_mut()).is_pending());
        w.talk();
        assert_eq!(w.held(), 2);
        w.peer.abort(w.now, theirs).expect("it is open");
        w.talk();
        let (_, syn) = w.opens();
        w.gets(syn);
        let mut second = pin!(w.asked().accept());
        assert!(poll(second.as_mut()).is_pending());
        assert_eq!(w.held(), 1, "the listener");
        assert!(timed_out(poll(first.as_mut())));
        w.talk();
        assert!(matches!(poll(second.as_mut()), Poll::Ready(Ok(_))));
        assert_eq!(w.held(), 1, "what was fetched is gone again");
    }
}
