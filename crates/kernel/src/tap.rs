//! The device of a run and its clock: packets have the time at which they left, whoever waits for what meanwhile.
use crate::namespace::Namespace;
use lowwater_core::base::{Duration, Instant};
use lowwater_drill::ORIGIN;
use lowwater_os::Clock;
use lowwater_posix::Sent;
use rustix::fd::BorrowedFd;
use std::collections::VecDeque;

/// What leaves by the device, in its order.
pub(crate) struct Tap {
    pub(crate) world: Namespace,
    pub(crate) clock: Clock,
    /// What the clock said when the script began.
    pub(crate) begun: Instant,
    pub(crate) sent: VecDeque<Sent>,
}

impl Tap {
    /// The script's time.
    pub(crate) fn now(&self) -> Instant {
        ORIGIN.plus_nanos(self.clock.now().nanos_since(self.begun))
    }

    /// Waits until `t`, until a packet comes or until `bell` rings, whatever is first, and takes what came.
    pub(crate) fn wait(&mut self, t: Instant, bell: Option<BorrowedFd<'_>>) {
        let left = Duration::from_nanos(t.nanos_since(self.now()));
        self.world.wait(left, bell);
        self.gather();
    }

    /// Takes what has left.
    pub(crate) fn gather(&mut self) {
        while let Some(bytes) = self.world.recv() {
            let at = self.now();
            self.sent.push_back(Sent { at, departs_at: at, bytes, gso_size: 0, queued: 0, packets: 0 });
        }
    }
}
