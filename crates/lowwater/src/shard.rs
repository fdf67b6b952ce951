//! Several stacks behind one device: each has a queue, and hands packets of others' flows to them.
mod fragments;

use crate::port::Port;
use fragments::Fragments;
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

/// ICMP of IPv6, where its header says what follows.
const ICMPV6: u8 = 58;

/// A packet, and whether it is a fragment that is to meet others of its packet here; of one whose flow is known, this is the shard.
type Mail = (Packet, bool);

/// Packets that other shards have read and that are ours; what does not fit is dropped, as a full queue of a device does.
#[derive(Debug, Default)]
struct Mailbox {
    packets: Mutex<(VecDeque<Mail>, usize)>,
    bell: OnceLock<Waker>,
    forwarded: AtomicU64,
    dropped: AtomicU64,
}

impl Mailbox {
    fn deliver(&self, packet: Packet, meets: bool) {
        let limit = QueueLimit::default();
        let mut guard = self.packets.lock().unwrap_or_else(PoisonError::into_inner);
        let (queue, bytes) = &mut *guard;
        if !limit.admits(queue.len(), *bytes) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        *bytes += packet.len();
        queue.push_back((packet, meets));
        drop(guard);
        self.forwarded.fetch_add(1, Ordering::Relaxed);
        if let Some(bell) = self.bell.get() {
            bell.wake();
        }
    }

    /// As having arrived `at`: when they were read is a time of another stack's clock.
    fn take(&self, at: Instant, into: &mut Vec<Packet>, meeting: &mut Vec<Packet>) {
        let mut guard = self.packets.lock().unwrap_or_else(PoisonError::into_inner);
        for (packet, meets) in guard.0.drain(..) {
            let place = if meets { &mut *meeting } else { &mut *into };
            place.push(Packet { at, ..packet });
        }
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
    fragments: Fragments,
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

    /// Packets that are lost because they came by another shard's queue: there was no room for them on their way to this one, or they were fragments
    /// that met here and whose first one did not come in time. No stack has counted them.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.mailboxes[usize::from(self.me.0)].dropped.load(Ordering::Relaxed)
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
        let (mailboxes, read, fragments) = (mailboxes.clone(), Vec::new(), Fragments::default());
        (ShardPort { port, me, steering, link_len, mailboxes, read, fragments }, home)
    };
    queues.into_iter().zip(0..count).map(shard).collect()
}

/// Of ARP, or of neighbour discovery (RFC 4861 section 4): of no flow, and every stack has a table of its own. All of them answer a question, and
/// all say the same.
fn is_about_neighbours(packet: &Packet, link_len: usize) -> bool {
    let (head, payload) = (packet.head.as_slice(), &packet.payload);
    let byte = |at: usize| match at.checked_sub(head.len()) {
        None => Some(head[at]),
        Some(behind) => payload.get(behind).copied(),
    };
    let Some(kind) = link_len.checked_sub(2) else { return false };
    match (byte(kind), byte(kind + 1)) {
        (Some(8), Some(6)) => true,
        (Some(0x86), Some(0xdd)) => {
            byte(link_len + 6) == Some(ICMPV6)
                && byte(link_len + 40).is_some_and(|kind| (133..=137).contains(&kind))
        }
        _ => false,
    }
}

impl<P> ShardPort<P> {
    /// A packet of the device, or a fragment of one that meets others here: to the stack, or to another shard.
    fn sort(&mut self, at: Instant, packet: Packet, into: &mut Vec<Packet>) {
        if is_about_neighbours(&packet, self.link_len) {
            let others = self.mailboxes.iter().enumerate().filter(|(n, _)| *n != usize::from(self.me.0));
            others.for_each(|(_, mailbox)| mailbox.deliver(packet.clone(), false));
            into.push(packet);
            return;
        }
        let place = self.steering.place(&packet, self.link_len);
        match place.fragment {
            None => self.hand(place.shard, packet, into),
            Some(fragment) if place.shard == self.me => {
                let mut known = Vec::new();
                self.fragments.take(at, (fragment, packet), &mut known);
                known.into_iter().for_each(|(shard, packet)| self.hand(shard, packet, into));
            }
            Some(_) => self.mailboxes[usize::from(place.shard.0)].deliver(packet, true),
        }
    }

    fn hand(&self, shard: ShardId, packet: Packet, into: &mut Vec<Packet>) {
        if shard == self.me {
            into.push(packet);
        } else {
            self.mailboxes[usize::from(shard.0)].deliver(packet, false);
        }
    }
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
        // Those that meet here come before what the device has, as they came to it.
        let mut read = core::mem::take(&mut self.read);
        self.mailboxes[usize::from(self.me.0)].take(at, into, &mut read);
        // What came before a failure is handed out as well.
        let more = self.port.recv(at, max, &mut read);
        for packet in read.drain(..) {
            self.sort(at, packet, into);
        }
        self.read = read;
        self.fragments.expire(at);
        let dropped = core::mem::take(&mut self.fragments.dropped);
        if dropped > 0 {
            self.mailboxes[usize::from(self.me.0)].dropped.fetch_add(dropped, Ordering::Relaxed);
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
        // A port is attached once.
        let _ = self.mailboxes[usize::from(self.me.0)].bell.set(poller.waker());
        self.port.attach(poller, token)
    }

    fn retry_after(&self) -> Option<Duration> {
        self.port.retry_after()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use lowwater_core::packet::Offload;

    /// A queue with these packets.
    struct Queue(Vec<Bytes>);

    impl Device for Queue {
        fn submit(&mut self, _: Instant, _: Packet) -> Submit {
            Submit::Completed
        }
    }

    impl Port for Queue {
        fn caps(&self) -> DeviceCaps {
            DeviceCaps::plain(1_500)
        }
        fn recv(&mut self, at: Instant, _: usize, into: &mut Vec<Packet>) -> io::Result<bool> {
            into.extend(self.0.drain(..).map(|bytes| Packet::received(bytes, Offload::default(), at)));
            Ok(false)
        }
        fn attach(&mut self, _: &Poller, _: u64) -> io::Result<()> {
            Ok(())
        }
    }

    /// A fragment of a datagram from `port`, eight bytes at `offset` of 24.
    fn fragment(port: u8, offset: u8) -> Bytes {
        let more = if offset < 16 { 0x20 } else { 0 };
        let mut bytes =
            vec![0x45, 0, 0, 28, 0, port, more, offset / 8, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes.extend([0, port, 0, 80, 0, 24, 0, 0]);
        Bytes::from(bytes)
    }

    /// Whichever queue each comes by, and in whichever order.
    #[test]
    fn all_fragments_come_to_the_shard_of_their_flow() {
        for order in [[0, 8, 16], [16, 8, 0], [8, 0, 16]] {
            let queues: Vec<_> = (0..3)
                .map(|n: usize| Queue((0..64).map(|port| fragment(port, order[n])).collect()))
                .collect();
            let mut shards = shards(queues, (1, 2));
            let mut got = vec![Vec::new(); 3];
            for _ in 0..4 {
                for ((port, _), got) in shards.iter_mut().zip(&mut got) {
                    port.recv(Instant::from_millis(7), 64, got).expect("it is there");
                }
            }
            assert_eq!(got.iter().map(Vec::len).sum::<usize>(), 3 * 64);
            for ((_, home), got) in shards.iter().zip(&got) {
                for packet in got {
                    let addr = |n, port| std::net::SocketAddr::from(([10, 0, 0, n], port));
                    let (from, to) = (addr(1, packet.payload[5].into()), addr(2, 80));
                    assert!(home.owns(&lowwater_core::base::Tuple::new(to, from)));
                }
                assert!(!got.is_empty());
            }
        }
    }

    /// What no stack ever sees is counted all the same.
    #[test]
    fn what_is_lost_between_shards_is_counted() {
        let queues = vec![Queue((0..64).map(|port| fragment(port, 8)).collect()), Queue(Vec::new())];
        let mut shards = shards(queues, (1, 2));
        let mut got = Vec::new();
        for at in [7, 30_006, 30_007] {
            for (port, _) in &mut shards {
                port.recv(Instant::from_millis(at), 64, &mut got).expect("it is there");
            }
            let dropped: u64 = shards.iter().map(|(_, home)| home.dropped()).sum();
            assert_eq!(dropped, if at == 30_007 { 64 } else { 0 });
        }
        // Nobody reads the second shard's.
        let limit = QueueLimit::default().packets;
        let again = || Queue((0..200).cycle().take(4 * limit).map(|port| fragment(port, 0)).collect());
        let mut shards = super::shards(vec![again(), again()], (1, 2));
        shards[0].0.recv(Instant::ZERO, 64, &mut got).expect("it is there");
        let home = &shards[1].1;
        assert!(home.dropped() > 0 && home.forwarded() == limit as u64);
    }

    /// Each stack counts from when it was built. Round trips are measured by when a packet came.
    #[test]
    fn what_is_handed_over_has_come_by_the_clock_of_the_stack_that_gets_it() {
        let segment = |port: u8| {
            let mut bytes = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            bytes.extend([0, port, 0, 80]);
            bytes.resize(40, 0);
            Bytes::from(bytes)
        };
        let queues = vec![Queue((0..64).map(segment).collect()), Queue(Vec::new())];
        let [(mut first, _), (mut second, home)] =
            <[_; 2]>::try_from(shards(queues, (1, 2))).ok().expect("two");
        let (mut own, mut handed) = (Vec::new(), Vec::new());
        first.recv(Instant::from_millis(90_000), 64, &mut own).expect("it is there");
        second.recv(Instant::from_millis(7), 64, &mut handed).expect("it is there");
        assert_eq!((own.len() + handed.len(), handed.len() as u64), (64, home.forwarded()));
        assert!(!handed.is_empty() && handed.iter().all(|packet| packet.at == Instant::from_millis(7)));
        assert!(own.iter().all(|packet| packet.at == Instant::from_millis(90_000)));
    }
}
