//! A host in virtual time: the stack, its device, the file descriptors and the calls that block.
use crate::call::{Call, Fd, Reply};
use crate::errno::Errno;
use bytes::Bytes;
use core::net::{IpAddr, SocketAddr};
use lowwater_core::base::{DeviceId, Error, Instant, SocketId};
use lowwater_core::device::{DeviceCaps, Submit};
use lowwater_core::packet::{Offload, Packet};
use lowwater_core::stack::{Config, Stack};
use std::collections::VecDeque;

/// Steps within one move of time after which the stack is taken to spin.
const STEPS_MAX: usize = 1_000_000;

/// What a host is made with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Settings and seed of the stack.
    pub config: Config,
    /// What its device can do.
    pub caps: DeviceCaps,
    /// Its addresses with the lengths of their prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Routes through the device: destination, prefix, gateway.
    pub routes: Vec<(IpAddr, u8, Option<IpAddr>)>,
    /// When its time begins.
    pub start: Instant,
    /// The lowest file descriptor.
    pub first_fd: Fd,
}

impl Default for Settings {
    /// A device without offloads and an MTU of 1,500, no addresses, time 10 s after the origin, descriptors from 3.
    fn default() -> Self {
        Self {
            config: Config::default(),
            caps: DeviceCaps::plain(1_500),
            addresses: Vec::new(),
            routes: Vec::new(),
            start: Instant::from_millis(10_000),
            first_fd: 3,
        }
    }
}

/// Name of a call that blocks or has blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

/// What became of a call at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// It is over.
    Done(Reply),
    /// It blocks; [`Host::take`] has its reply once it is over.
    Blocked(CallId),
}

/// A packet that the host has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When it was handed to the device.
    pub at: Instant,
    /// Its earliest departure time, as pacing wants it; not after `at` where the queue in front of the device waits for it.
    pub departs_at: Instant,
    /// The packet, from the IP header on.
    pub bytes: Bytes,
    /// Payload bytes per segment of a super-packet; 0 for an ordinary packet.
    pub gso_size: u16,
    /// Bytes that waited in the queue in front of the device when it left.
    pub queued: usize,
}

/// A stack behind one device in virtual time, with file descriptors.
#[derive(Debug)]
pub struct Host {
    stack: Stack,
    dev: DeviceId,
    now: Instant,
    sent: VecDeque<Sent>,
}

impl Host {
    /// A host.
    ///
    /// # Errors
    /// What the stack says about an address or a route.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let mut stack = Stack::new(settings.config, Instant::ZERO);
        let dev = stack.add_device(settings.caps);
        for (addr, prefix) in settings.addresses {
            stack.add_address(dev, addr, prefix)?;
        }
        for (dest, prefix, via) in settings.routes {
            stack.add_route(dest, prefix, via, dev)?;
        }
        Ok(Self { stack, dev, now: settings.start, sent: VecDeque::new() })
    }

    /// The virtual time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Makes a call, now.
    pub fn call(&mut self, call: Call) -> Started {
        drop(call);
        Started::Done(Reply::fail(Errno::ENOSYS))
    }

    /// The reply of a call that had blocked, with the instant at which it was over; `None` while it blocks. Once.
    pub fn take(&mut self, id: CallId) -> Option<(Instant, Reply)> {
        let _ = id;
        None
    }

    /// The call that was over first among those whose reply was not taken.
    #[must_use]
    pub fn finished(&self) -> Option<CallId> {
        None
    }

    /// Ends a blocked call with EINTR, or with what it has done so far, as a signal would.
    pub fn interrupt(&mut self, id: CallId) {
        let _ = id;
    }

    /// A packet comes in, now, from the IP header on.
    pub fn inject(&mut self, packet: Bytes) {
        let packet = Packet::received(packet, Offload::default(), self.now);
        self.stack.receive(self.now, self.dev, packet);
        self.stack.flush(self.now);
        self.settle();
    }

    /// Moves time to `t`, doing everything that is due on the way. An earlier `t` changes nothing.
    pub fn advance_until(&mut self, t: Instant) {
        for _ in 0..STEPS_MAX {
            if !self.step(t) {
                break;
            }
        }
        if t > self.now {
            self.now = t;
            self.stack.handle_timeout(t);
            self.settle();
        }
    }

    /// The oldest packet that was sent and not taken; else moves time until one is sent, but not beyond `limit`. `None` leaves
    /// the time at the last thing that was due, so a caller that wants `limit` itself advances to it.
    pub fn next_packet(&mut self, limit: Instant) -> Option<Sent> {
        for _ in 0..STEPS_MAX {
            if let Some(sent) = self.sent.pop_front() {
                return Some(sent);
            }
            if !self.step(limit) {
                break;
            }
        }
        self.sent.pop_front()
    }

    /// When something will happen by itself; `None` for never.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.stack.next_deadline()
    }

    /// Sets a sysctl by its Linux name, at any time.
    ///
    /// # Errors
    /// One sentence that names the setting and the allowed values.
    pub fn set_sysctl(&mut self, name: &str, value: &str) -> Result<(), String> {
        self.stack.set_sysctl(name, value)
    }

    /// The stack's socket behind a descriptor, where there is one.
    #[must_use]
    pub fn socket_of(&self, fd: Fd) -> Option<SocketId> {
        let _ = fd;
        None
    }

    /// The connection between two addresses, accepted or not.
    #[must_use]
    pub fn lookup(&self, local: SocketAddr, remote: SocketAddr) -> Option<SocketId> {
        let _ = (local, remote);
        None
    }

    /// The stack, to look at. Whoever calls socket verbs on it goes around the file descriptors.
    pub const fn stack(&mut self) -> &mut Stack {
        &mut self.stack
    }

    /// Moves to the next thing that is due until `limit`; false when there is none.
    fn step(&mut self, limit: Instant) -> bool {
        self.settle();
        let Some(next) = self.next_deadline().filter(|next| *next <= limit) else { return false };
        self.now = self.now.max(next);
        self.stack.handle_timeout(self.now);
        self.settle();
        true
    }

    /// Lets the stack and the blocked calls do all that they can at this instant.
    fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            while self.stack.next_event().is_some() {}
            if !self.stack.needs_transmit(self.dev) {
                return;
            }
            let sent = &mut self.sent;
            let mut device = |now: Instant, packet: Packet| {
                sent.push_back(Sent {
                    at: now,
                    departs_at: packet.at,
                    gso_size: packet.offload.gso_size,
                    bytes: packet.to_bytes(),
                    queued: 0,
                });
                Submit::Completed
            };
            if self.stack.transmit(self.now, self.dev, 64, &mut device).packets == 0 {
                return;
            }
        }
    }
}
