//! A bad network for a peer on a host whose kernel has no netem.
use lowwater_core::base::{DeviceId, Duration, Instant, Rng};
use lowwater_core::packet::Packet;
use std::collections::BTreeMap;

/// What netem does in a guest, for frames of a peer on the host.
#[derive(Debug)]
pub(crate) struct Air {
    rng: Rng,
    /// By the instant at which they are there.
    frames: BTreeMap<(Instant, u64), (DeviceId, Packet)>,
    count: u64,
}

impl Air {
    const LATE: Duration = Duration::from_millis(45);
    const JITTER_US: u64 = 10_000;
    const LOST_PPM: u32 = 10_000;

    pub(crate) fn new() -> Self {
        Self { rng: Rng::new(11), frames: BTreeMap::new(), count: 0 }
    }

    pub(crate) fn put(&mut self, now: Instant, dev: DeviceId, frame: Packet) {
        if !self.rng.chance_ppm(Self::LOST_PPM) {
            self.count += 1;
            let due = now + Self::LATE + Duration::from_micros(self.rng.below(Self::JITTER_US));
            self.frames.insert((due, self.count), (dev, frame));
        }
    }

    pub(crate) fn take(&mut self, now: Instant) -> Option<(DeviceId, Packet)> {
        let first = self.frames.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(first.remove())
    }
}
