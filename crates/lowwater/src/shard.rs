//! Several stacks behind one device: each has a queue, and hands packets of others' flows to them.
use crate::port::Port;
use lowwater_core::base::Instant;
use lowwater_core::base::hash::KeyedState;
use lowwater_core::device::{Device, DeviceCaps, QueueLimit, ShardId, Steering, Submit};
use lowwater_core::packet::{Owner, Packet};
use lowwater_os::{Poller, Waker};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Packets that other shards have read and that are ours; what does not fit is dropped, as a full queue of a device does.
#[derive(Debug, Default)]
struct Mailbox {
    packets: Mutex<(VecDeque<Packet>, usize)>,
    bell: OnceLock<Waker>,
    forwarded: AtomicU64,
}

impl Mailbox {
    fn deliver(&self, packet: Packet) {
        let limit = QueueLimit::default();
        let mut guard = self.packets.lock().unwrap_or_else(PoisonError::into_inner);
        let (queue, bytes) = &mut *guard;
        if !limit.admits(queue.len(), *bytes) {
            return;
        }
        *bytes += packet.len();
        queue.push_back(packet);
        drop(guard);
        self.forwarded.fetch_add(1, Ordering::Relaxed);
        if let Some(bell) = self.bell.get() {
            bell.wake();
        }
    }

    fn take(&self, into: &mut Vec<Packet>) {
        let mut guard = self.packets.lock().unwrap_or_else(PoisonError::into_inner);
        into.extend(guard.0.drain(..));
        guard.1 = 0;
    }
}

/// One queue of a device with its shard of the flows. Give each to a stack of its own, all with the same addresses and
/// listeners; a stack that connects must choose a local port for which [`Home::owns`] says yes.
#[derive(Debug)]
pub struct ShardPort<P> {
    port: P,
    me: ShardId,
    steering: Steering,
    link_len: usize,
    mailboxes: Arc<[Mailbox]>,
    read: Vec<Packet>,
}

/// Which flows belong to a shard, for those that choose ports.
#[derive(Clone, Debug)]
pub struct Home {
    me: ShardId,
    steering: Steering,
    mailboxes: Arc<[Mailbox]>,
}

impl Home {
    /// The flow belongs to this shard.
    #[must_use]
    pub fn owns(&self, tuple: &lowwater_core::base::Tuple) -> bool {
        self.steering.flow(tuple) == self.me
    }

    /// Packets that other shards have read and handed over to this one.
    #[must_use]
    pub fn forwarded(&self) -> u64 {
        self.mailboxes[usize::from(self.me.0)].forwarded.load(Ordering::Relaxed)
    }
}

/// Makes shards of the queues of one device. The key keeps peers from choosing a shard; without reason take a random one.
#[must_use]
pub fn shards<P: Port>(queues: Vec<P>, key: (u64, u64)) -> Vec<(ShardPort<P>, Home)> {
    let count = u16::try_from(queues.len()).unwrap_or(u16::MAX);
    let steering = Steering::new(KeyedState::new(key.0, key.1), count);
    let mailboxes: Arc<[Mailbox]> = (0..count).map(|_| Mailbox::default()).collect();
    let shard = |(port, n): (P, u16)| {
        let (me, link_len) = (ShardId(n), port.caps().link_len());
        let home = Home { me, steering, mailboxes: mailboxes.clone() };
        (ShardPort { port, me, steering, link_len, mailboxes: mailboxes.clone(), read: Vec::new() }, home)
    };
    queues.into_iter().zip(0..count).map(shard).collect()
}

impl<P: Port> Device for ShardPort<P> {
    fn submit(&mut self, now: Instant, packet: Packet) -> Submit {
        self.port.submit(now, packet)
    }
}

impl<P: Port> Port for ShardPort<P> {
    fn caps(&self) -> DeviceCaps {
        self.port.caps()
    }

    fn recv(&mut self, at: Instant, max: usize, into: &mut Vec<Packet>) -> io::Result<bool> {
        self.mailboxes[usize::from(self.me.0)].take(into);
        // What came before a failure is handed out as well.
        let more = self.port.recv(at, max, &mut self.read);
        for packet in self.read.drain(..) {
            let shard = self.steering.packet(&packet, self.link_len);
            if shard == self.me {
                into.push(packet);
            } else {
                self.mailboxes[usize::from(shard.0)].deliver(packet);
            }
        }
        more
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

    fn flush(&mut self) {
        self.port.flush();
    }

    fn needs_flush(&self) -> bool {
        self.port.needs_flush()
    }

    fn attach(&mut self, poller: &Poller, token: u64) -> io::Result<()> {
        // A port is attached once.
        let _ = self.mailboxes[usize::from(self.me.0)].bell.set(poller.waker());
        self.port.attach(poller, token)
    }

    fn retry_after(&self) -> Option<Duration> {
        self.port.retry_after()
    }
}
