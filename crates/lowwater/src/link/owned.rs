//! A link that the application owns: it takes the stack's packets, carries them wherever it likes, and brings others.
use crate::builder::MTU_MIN;
use crate::coop::polled;
use crate::error::stopped;
use crate::port::Port;
use crate::waiters::Waiters;
use bytes::Bytes;
use lowwater_core::base::Instant;
use lowwater_core::device::{Device, DeviceCaps, LinkCredit, OwnedLink, QueueLimit, Submit};
use lowwater_core::packet::{Owner, Packet};
use lowwater_os::{Poller, Waker as Bell};
use std::collections::VecDeque;
use std::io;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

#[derive(Debug)]
struct State {
    /// From the stack to the application.
    out: OwnedLink,
    /// From the application to the stack.
    inbound: VecDeque<Packet>,
    inbound_bytes: usize,
    limit: QueueLimit,
    readers: Waiters,
    writers: Waiters,
    /// The stack is gone.
    closed: bool,
    /// The application is: no end of its is left, and no packet of the stack in its hands.
    left: bool,
    /// Another MTU, of which the stack is to hear.
    mtu: Option<u16>,
}

#[derive(Debug)]
struct Shared {
    /// Taken for one packet or one batch at a time, with no other lock held or taken inside.
    state: Mutex<State>,
    bell: OnceLock<Bell>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            bell.wake();
        }
    }

    fn complete(&self, credit: LinkCredit) {
        self.state().out.complete(credit);
        self.ring();
    }
}

/// A link of finished IP packets with this MTU: the stack's end, to be given to [`crate::Builder::device`], and the
/// application's. `limit` bounds each direction; packets that the application holds count until they are dropped, so that
/// flows see a tunnel's backlog as their own queue.
#[must_use]
pub fn owned(mtu: u16, limit: QueueLimit) -> (OwnedPort, Link) {
    of(DeviceCaps::plain(mtu), limit)
}

/// The same with a device of these capabilities.
pub(super) fn of(caps: DeviceCaps, limit: QueueLimit) -> (OwnedPort, Link) {
    let out = OwnedLink::with_caps(caps, limit);
    let state = State {
        out,
        inbound: VecDeque::new(),
        inbound_bytes: 0,
        limit,
        readers: Waiters::default(),
        writers: Waiters::default(),
        closed: false,
        left: false,
        mtu: None,
    };
    let shared = Arc::new(Shared { state: Mutex::new(state), bell: OnceLock::new() });
    (OwnedPort { shared: shared.clone(), caps }, Link(Arc::new(End(shared))))
}

/// A packet of the stack, in the hands of the application. Drop it when it has really left: only then its flow may send
/// more.
#[derive(Debug)]
pub struct LinkPacket {
    bytes: Bytes,
    credit: Option<LinkCredit>,
    end: Arc<End>,
}

impl LinkPacket {
    /// The IP packet; a cheap clone that may outlive the credit.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }
}

impl Deref for LinkPacket {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for LinkPacket {
    fn drop(&mut self) {
        if let Some(credit) = self.credit.take() {
            self.end.0.complete(credit);
        }
    }
}

/// What the application holds of a link: its end, and packets.
#[derive(Debug)]
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.state().left = true;
        self.0.ring();
    }
}

/// The application's end. Clones share it; its methods may be called from any thread and are cancel-safe. When the last is dropped, the
/// device of the stack is gone ([`crate::Stack::failure`]).
#[derive(Clone, Debug)]
pub struct Link(Arc<End>);

impl Link {
    /// The next packet of the stack; `None` when the stack is gone.
    pub async fn recv(&self) -> Option<LinkPacket> {
        polled(|cx| self.poll_recv(cx)).await
    }

    /// [`Link::recv`] for programs without async.
    #[must_use]
    pub fn recv_blocking(&self) -> Option<LinkPacket> {
        crate::blocking::wait(None, |cx| self.poll_recv(cx).map(Ok)).ok().flatten()
    }

    /// [`Link::recv`] as a poll function.
    pub fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<Option<LinkPacket>> {
        let mut state = self.0.0.state();
        if let Some(packet) = state.out.pop() {
            let (bytes, credit) = (packet.bytes, Some(packet.credit));
            return Poll::Ready(Some(LinkPacket { bytes, credit, end: self.0.clone() }));
        }
        if state.closed {
            return Poll::Ready(None);
        }
        let woken = state.readers.wait(cx.waker());
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        Poll::Pending
    }

    /// The next packet of the stack, if one waits.
    #[must_use]
    pub fn try_recv(&self) -> Option<LinkPacket> {
        match self.poll_recv(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(packet) => packet,
            Poll::Pending => None,
        }
    }

    /// Gives the stack an IP packet; waits while the link is full.
    ///
    /// # Errors
    /// When the stack is gone.
    pub async fn send(&self, packet: Bytes) -> io::Result<()> {
        polled(|cx| self.poll_send(cx, &packet)).await
    }

    /// [`Link::send`] for programs without async.
    ///
    /// # Errors
    /// When the stack is gone.
    pub fn send_blocking(&self, packet: &Bytes) -> io::Result<()> {
        crate::blocking::wait(None, |cx| self.poll_send(cx, packet))
    }

    /// Gives the stack an IP packet if there is room; an application that carries datagrams drops it otherwise.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`], or the stack is gone.
    pub fn try_send(&self, packet: &Bytes) -> io::Result<()> {
        match self.poll_send(&mut Context::from_waker(Waker::noop()), packet) {
            Poll::Ready(result) => result,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// [`Link::send`] as a poll function; `packet` shares its memory.
    ///
    /// # Errors
    /// When the stack is gone.
    pub fn poll_send(&self, cx: &mut Context<'_>, packet: &Bytes) -> Poll<io::Result<()>> {
        self.poll_send_packet(cx, &OwnedLink::received(packet.clone(), Instant::ZERO))
    }

    /// The link takes packets of `mtu` bytes from now on, as when the path of a tunnel has changed. The stack's connections follow with what they send
    /// next, down and up. What it has made for a larger size and not given to the link is lost, as in a network; what waits in the link stays.
    ///
    /// # Errors
    /// Less than the 68 bytes of IPv4 (RFC 791), or the stack is gone.
    pub fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        if mtu < MTU_MIN {
            let why = format!("an MTU of {mtu}; IPv4 needs {MTU_MIN} (RFC 791)");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let mut state = self.0.0.state();
        if state.closed {
            return Err(stopped());
        }
        state.mtu = Some(mtu);
        // Nothing longer comes behind this call. A larger one is taken once the stack has heard of it.
        if mtu < state.out.caps().mtu {
            state.out.set_mtu(mtu);
        }
        drop(state);
        self.0.0.ring();
        Ok(())
    }

    /// The same for a packet in parts; the stack says when it arrived.
    pub(super) fn poll_send_packet(&self, cx: &mut Context<'_>, packet: &Packet) -> Poll<io::Result<()>> {
        let mut state = self.0.0.state();
        if state.closed {
            return Poll::Ready(Err(stopped()));
        }
        if !state.limit.admits(state.inbound.len(), state.inbound_bytes) {
            let woken = state.writers.wait(cx.waker());
            drop(state);
            woken.into_iter().for_each(Waker::wake);
            return Poll::Pending;
        }
        state.inbound_bytes += packet.len();
        state.inbound.push_back(packet.clone());
        drop(state);
        self.0.0.ring();
        Poll::Ready(Ok(()))
    }
}

/// The stack's end.
#[derive(Debug)]
pub struct OwnedPort {
    shared: Arc<Shared>,
    /// With the MTU that the stack has last heard of.
    caps: DeviceCaps,
}

impl Device for OwnedPort {
    fn submit(&mut self, now: Instant, packet: Packet) -> Submit {
        self.shared.state().out.submit(now, packet)
    }
}

impl Port for OwnedPort {
    fn caps(&self) -> DeviceCaps {
        self.caps
    }

    fn recv(&mut self, at: Instant, max: usize, into: &mut Vec<Packet>) -> io::Result<bool> {
        let mut state = self.shared.state();
        if state.left && state.inbound.is_empty() {
            return Err(io::Error::other("the application has dropped its end of the link"));
        }
        let count = state.inbound.len().min(max);
        let taken: Vec<Packet> = state.inbound.drain(..count).collect();
        state.inbound_bytes -= taken.iter().map(Packet::len).sum::<usize>();
        // Behind the last packets comes the end.
        let more = !state.inbound.is_empty() || state.left;
        let writers = if count > 0 { state.writers.take() } else { Vec::new() };
        drop(state);
        writers.into_iter().for_each(Waker::wake);
        into.extend(taken.into_iter().map(|packet| Packet { at, ..packet }));
        Ok(more)
    }

    fn completions(&mut self, into: &mut Vec<Owner>) {
        self.shared.state().out.completions(into);
    }

    fn abandon(&mut self, into: &mut Vec<Owner>) {
        let mut state = self.shared.state();
        while let Some((_, credit)) = state.out.pop_parts() {
            state.out.complete(credit);
        }
        state.out.completions(into);
    }

    fn new_mtu(&mut self, _look: bool) -> Option<u16> {
        let mut state = self.shared.state();
        let mtu = state.mtu.take()?;
        state.out.set_mtu(mtu);
        (core::mem::replace(&mut self.caps.mtu, mtu) != mtu).then_some(mtu)
    }

    fn room(&self) -> QueueLimit {
        self.shared.state().out.room()
    }

    fn flush(&mut self) {
        let readers = self.shared.state().readers.take();
        readers.into_iter().for_each(Waker::wake);
    }

    fn attach(&mut self, poller: &Poller, _token: u64) -> io::Result<()> {
        // A port is attached once.
        let _ = self.shared.bell.set(poller.waker());
        Ok(())
    }

    /// The application rings when it gives a credit back.
    fn retry_after(&self) -> Option<Duration> {
        None
    }
}

impl Drop for OwnedPort {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.closed = true;
        let mut waiters = state.readers.take();
        waiters.append(&mut state.writers.take());
        drop(state);
        waiters.into_iter().for_each(Waker::wake);
    }
}
