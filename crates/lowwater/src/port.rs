//! A device as the driver serves it: packets in by batches, packets out, and how the driver is woken for it.
use lowwater_core::base::{Instant, Rng};
use lowwater_core::device::{Device, DeviceCaps, QueueLimit, Submit};
use lowwater_core::packet::{Owner, Packet};
use lowwater_os::{Interest, PacketDevice, Poller, Tun};
use std::io;
use std::time::Duration;

/// Most packets of one batch.
pub(crate) const BATCH_PACKETS: usize = 64;
/// A batch of packets read ends beyond this many bytes, so that it stays in the cache.
pub(crate) const BATCH_BYTES: usize = 512 * 1_024;

/// A device that a stack's thread drives. Implement it to attach one of your own.
///
/// One call at a time, and none may block. All come from the thread that serves the stack, unless [`Port::sends_from_any_thread`].
pub trait Port: Device + Send {
    /// What the device can do; asked once. Its MTU may change later ([`Port::new_mtu`]).
    fn caps(&self) -> DeviceCaps;

    /// Appends packets that wait, `max` at most, as having arrived `at`. True when more may wait.
    ///
    /// # Errors
    /// When the device is gone for good: it is not served any more, and dropped once it was asked to [`abandon`](Port::abandon).
    fn recv(&mut self, at: Instant, max: usize, into: &mut Vec<Packet>) -> io::Result<bool>;

    /// Appends the owners of packets that were answered with [`Submit::Sent`] or [`Submit::Filled`] and have left since the last call.
    fn completions(&mut self, into: &mut Vec<Owner>) {
        let _ = into;
    }

    /// [`Port::recv`] has failed, so nothing comes back any more: appends the owners of all packets that were answered with
    /// [`Submit::Sent`] or [`Submit::Filled`] and have not been given back.
    fn abandon(&mut self, into: &mut Vec<Owner>) {
        self.completions(into);
    }

    /// What it would take now, so that no more is taken out of the queueing discipline in front of it: what was, stands before all that
    /// comes later. A packet that exceeds the bytes ends the batch. A device that is full wakes the stack's thread when it no longer is.
    /// It is asked under the stack's lock, so it must not call the stack.
    fn room(&self) -> QueueLimit {
        QueueLimit { packets: usize::MAX, bytes: usize::MAX }
    }

    /// The device's MTU, where it has changed since this was last asked or since [`Port::caps`]: connections follow with what they send next, down
    /// and up. Asked before each [`Port::recv`], so it should cost a system call only with `look`: that is true where the poller has told of
    /// [`Interest::News`], and besides for one question in a tenth of a second while the stack has something to do. Less than the 68 bytes of IPv4 (RFC 791) is not
    /// taken.
    ///
    /// Packets of the old size may still be submitted behind an answer; what it does not take any more is [`Submit::Dropped`]. A device without a
    /// descriptor for news wakes the poller, and one that wraps another asks that one.
    fn new_mtu(&mut self, look: bool) -> Option<u16> {
        let _ = look;
        None
    }

    /// A batch of submits is over.
    fn flush(&mut self) {}

    /// What was flushed has not all been taken over: [`Port::flush`] is called again, within a millisecond at the latest.
    /// It may be asked under the stack's lock, so it must not call the stack.
    fn needs_flush(&self) -> bool {
        false
    }

    /// Arranges that `poller` wakes when a packet waits, when there are completions, when there is room after "not now", and where the MTU changes
    /// ([`Interest::News`]).
    ///
    /// # Errors
    /// When the descriptor cannot be polled.
    fn attach(&mut self, poller: &Poller, token: u64) -> io::Result<()>;

    /// While the thread that serves the stack sleeps, one that sends a little may submit it ([`Device::submit`], [`Port::room`], [`Port::flush`],
    /// [`Port::needs_flush`], [`Port::completions`]), inside of the program's call: for devices that are a descriptor and wake nobody of the program.
    fn sends_from_any_thread(&self) -> bool {
        false
    }

    /// After how long a packet that met "not now" is tried again; `None` where the device wakes the poller then.
    fn retry_after(&self) -> Option<Duration> {
        Some(Duration::from_micros(100))
    }
}

impl Port for Tun {
    fn caps(&self) -> DeviceCaps {
        Self::caps(self)
    }

    fn recv(&mut self, at: Instant, max: usize, into: &mut Vec<Packet>) -> io::Result<bool> {
        self.recv_batch(at, max, BATCH_BYTES, into)
    }

    fn new_mtu(&mut self, look: bool) -> Option<u16> {
        if look { Self::new_mtu(self) } else { None }
    }

    fn attach(&mut self, poller: &Poller, token: u64) -> io::Result<()> {
        poller.add(&*self, token, Interest::Read)?;
        self.watch_fd().map_or(Ok(()), |watch| poller.add(watch, token, Interest::News))
    }

    /// Not where somebody of the program sees its packets.
    fn sends_from_any_thread(&self) -> bool {
        !self.is_observed()
    }
}

impl Port for PacketDevice {
    fn caps(&self) -> DeviceCaps {
        Self::caps(self)
    }

    fn recv(&mut self, at: Instant, max: usize, into: &mut Vec<Packet>) -> io::Result<bool> {
        self.recv_batch(at, max, BATCH_BYTES, into)
    }

    fn completions(&mut self, into: &mut Vec<Owner>) {
        Self::completions(self, into);
    }

    fn abandon(&mut self, into: &mut Vec<Owner>) {
        Self::abandon(self, into);
    }

    fn needs_flush(&self) -> bool {
        Self::needs_flush(self)
    }

    fn new_mtu(&mut self, look: bool) -> Option<u16> {
        Self::new_mtu(self, look)
    }

    fn room(&self) -> QueueLimit {
        Self::room(self)
    }

    fn flush(&mut self) {
        Self::flush(self);
    }

    fn attach(&mut self, poller: &Poller, token: u64) -> io::Result<()> {
        poller.add(self.input_fd(), token, Interest::Read)?;
        poller.add(self.watch_fd(), token, Interest::News)?;
        poller.add(self.output_fd(), token, Interest::Returns)
    }

    fn sends_from_any_thread(&self) -> bool {
        true
    }

    fn retry_after(&self) -> Option<Duration> {
        None
    }
}

/// A wrapper that says "not now" at random: what a stack must survive without losing a packet. For tests.
#[derive(Debug)]
pub struct NotNow<P> {
    port: P,
    rng: Rng,
    ppm: u32,
}

impl<P> NotNow<P> {
    /// Refuses with a probability of `ppm` in a million.
    pub const fn new(port: P, rng: Rng, ppm: u32) -> Self {
        Self { port, rng, ppm }
    }
}

impl<P: Port> Device for NotNow<P> {
    fn submit(&mut self, now: Instant, packet: Packet) -> Submit {
        if self.rng.chance_ppm(self.ppm) {
            return Submit::NotNow(packet);
        }
        self.port.submit(now, packet)
    }
}

impl<P: Port> Port for NotNow<P> {
    fn caps(&self) -> DeviceCaps {
        self.port.caps()
    }
    fn recv(&mut self, at: Instant, max: usize, into: &mut Vec<Packet>) -> io::Result<bool> {
        self.port.recv(at, max, into)
    }
    fn completions(&mut self, into: &mut Vec<Owner>) {
        self.port.completions(into);
    }
    fn abandon(&mut self, into: &mut Vec<Owner>) {
        self.port.abandon(into);
    }
    fn room(&self) -> QueueLimit {
        self.port.room()
    }
    fn new_mtu(&mut self, look: bool) -> Option<u16> {
        self.port.new_mtu(look)
    }
    fn flush(&mut self) {
        self.port.flush();
    }
    fn needs_flush(&self) -> bool {
        self.port.needs_flush()
    }
    fn attach(&mut self, poller: &Poller, token: u64) -> io::Result<()> {
        self.port.attach(poller, token)
    }
    fn retry_after(&self) -> Option<Duration> {
        Some(Duration::from_micros(20))
    }
}
