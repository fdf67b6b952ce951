//! A link between two stacks of one process: packets change hands without being copied or checksummed.
use crate::port::Port;
use lowwater_core::base::Instant;
use lowwater_core::device::{Device, DeviceCaps, Pair, QueueLimit, Side, Submit};
use lowwater_core::packet::{Owner, Packet};
use lowwater_os::{Poller, Waker};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

#[derive(Debug)]
struct Shared {
    /// Taken for one packet or one batch at a time, by either driver, with no other lock held or taken inside.
    pair: Mutex<Pair>,
    /// An end is gone, and the stack that had it.
    left: AtomicBool,
    bells: [OnceLock<Waker>; 2],
}

impl Shared {
    fn pair(&self) -> MutexGuard<'_, Pair> {
        self.pair.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self, side: Side) {
        if let Some(bell) = self.bells[side as usize].get() {
            bell.wake();
        }
    }
}

/// One end of a link in memory.
#[derive(Debug)]
pub struct PairPort {
    shared: Arc<Shared>,
    side: Side,
    caps: DeviceCaps,
}

/// A link with this MTU (68 to 65535; a builder refuses less) and the default bound. Super-packets stay whole and checksums unfinished, as between two virtual
/// machines on one host.
#[must_use]
pub fn pair(mtu: u16) -> (PairPort, PairPort) {
    pair_with(DeviceCaps::offloading(mtu).keeping_nothing(), QueueLimit::default())
}

/// A link whose ends do only what `caps` says, so that the stacks do the rest in software; `limit` bounds each direction.
#[must_use]
pub fn pair_with(caps: DeviceCaps, limit: QueueLimit) -> (PairPort, PairPort) {
    let pair = Mutex::new(Pair::with_caps(caps, limit));
    let shared = Arc::new(Shared { pair, left: AtomicBool::new(false), bells: Default::default() });
    let end = |side| PairPort { shared: shared.clone(), side, caps };
    (end(Side::A), end(Side::B))
}

impl Device for PairPort {
    fn submit(&mut self, now: Instant, packet: Packet) -> Submit {
        self.shared.pair().end(self.side).submit(now, packet)
    }
}

impl Port for PairPort {
    fn caps(&self) -> DeviceCaps {
        self.caps
    }

    fn recv(&mut self, at: Instant, max: usize, into: &mut Vec<Packet>) -> io::Result<bool> {
        let (before, mut owed) = (into.len(), false);
        // Asked before the packets are: what the other end has sent until it went is there.
        let left = self.shared.left.load(Ordering::Acquire);
        let mut pair = self.shared.pair();
        while into.len() - before < max
            && let Some(packet) = pair.take(self.side, at)
        {
            into.push(packet);
        }
        let more = pair.waiting(self.side) > 0;
        owed |= into.len() > before;
        drop(pair);
        if owed {
            // The other stack gets its credit back, and room.
            self.shared.ring(self.side.other());
        } else if left {
            return Err(io::Error::other("the stack at the other end of the link is gone"));
        }
        Ok(more)
    }

    fn completions(&mut self, into: &mut Vec<Owner>) {
        self.shared.pair().completions(self.side, into);
    }

    fn abandon(&mut self, into: &mut Vec<Owner>) {
        let mut pair = self.shared.pair();
        while pair.take(self.side.other(), Instant::ZERO).is_some() {}
        pair.completions(self.side, into);
    }

    fn room(&self) -> QueueLimit {
        self.shared.pair().room(self.side)
    }

    fn flush(&mut self) {
        self.shared.ring(self.side.other());
    }

    fn attach(&mut self, poller: &Poller, _token: u64) -> io::Result<()> {
        // A port is attached once.
        let _ = self.shared.bells[self.side as usize].set(poller.waker());
        Ok(())
    }

    /// The other side rings when it has taken packets.
    fn retry_after(&self) -> Option<Duration> {
        None
    }
}

impl Drop for PairPort {
    fn drop(&mut self) {
        self.shared.left.store(true, Ordering::Release);
        self.shared.ring(self.side.other());
    }
}
