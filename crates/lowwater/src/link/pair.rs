//! A link between two stacks of one process: packets change hands without being copied or checksummed.
use crate::port::Port;
use lowwater_core::base::Instant;
use lowwater_core::device::{Device, DeviceCaps, Pair, QueueLimit, Side, Submit};
use lowwater_core::packet::{Owner, Packet};
use lowwater_os::{Poller, Waker};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Why the device of a stack stopped working whose partner has ended.
const GONE: &str = "the stack at the other end of the link has ended";

/// What is between the two.
#[derive(Debug)]
struct Between {
    pair: Pair,
    /// The stack on that side has ended, and its end of the link with it.
    gone: [bool; 2],
}

#[derive(Debug)]
struct Shared {
    /// Taken for one packet or one batch at a time, by either driver, with no other lock held or taken inside.
    between: Mutex<Between>,
    bells: [OnceLock<Waker>; 2],
}

impl Shared {
    fn between(&self) -> MutexGuard<'_, Between> {
        self.between.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self, side: Side) {
        if let Some(bell) = self.bells[side as usize].get() {
            bell.wake();
        }
    }
}

/// One end of a link in memory. It ends with its stack, or when it is dropped without one: then the other end's device is gone as soon as that
/// stack has read what was still on its way ([`crate::Stack::failure`]).
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
    pair_with(DeviceCaps::offloading(mtu).keeping_nothing().repeating_cwr(), QueueLimit::default())
}

/// A link whose ends do only what `caps` says, so that the stacks do the rest in software; `limit` bounds each direction.
#[must_use]
pub fn pair_with(caps: DeviceCaps, limit: QueueLimit) -> (PairPort, PairPort) {
    let between = Mutex::new(Between { pair: Pair::with_caps(caps, limit), gone: [false; 2] });
    let shared = Arc::new(Shared { between, bells: Default::default() });
    let end = |side| PairPort { shared: shared.clone(), side, caps };
    (end(Side::A), end(Side::B))
}

impl Device for PairPort {
    fn submit(&mut self, now: Instant, packet: Packet) -> Submit {
        self.shared.between().pair.end(self.side).submit(now, packet)
    }
}

impl Port for PairPort {
    fn caps(&self) -> DeviceCaps {
        self.caps
    }

    fn recv(&mut self, at: Instant, max: usize, into: &mut Vec<Packet>) -> io::Result<bool> {
        let before = into.len();
        let mut between = self.shared.between();
        while into.len() - before < max
            && let Some(packet) = between.pair.take(self.side, at)
        {
            into.push(packet);
        }
        let (more, gone) = (between.pair.waiting(self.side) > 0, between.gone[self.side.other() as usize]);
        drop(between);
        if into.len() > before {
            // The other stack gets its credit back, and room.
            self.shared.ring(self.side.other());
        } else if gone {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, GONE));
        }
        // Behind the last packets comes the end.
        Ok(more || gone)
    }

    fn abandon(&mut self, into: &mut Vec<Owner>) {
        let mut between = self.shared.between();
        between.pair.abandon(self.side);
        between.pair.completions(self.side, into);
    }

    fn completions(&mut self, into: &mut Vec<Owner>) {
        self.shared.between().pair.completions(self.side, into);
    }

    fn room(&self) -> QueueLimit {
        self.shared.between().pair.room(self.side)
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
        // Under the lock: who set its bell before it read hears it, who reads later finds the end.
        self.shared.between().gone[self.side as usize] = true;
        self.shared.ring(self.side.other());
    }
}
