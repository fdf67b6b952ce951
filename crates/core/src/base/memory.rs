//! What all connections of a stack hold together, and how short memory is (`tcp_mem`, `__sk_mem_raise_allocated`).
use super::{Counters, Sysctl};

/// Bytes of a page, the unit of `tcp_mem`.
const PAGE: u64 = 4_096;

/// How short memory is; each level gives up one thing more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Below the first number of `tcp_mem`: no limit but each socket's own.
    #[default]
    Low,
    /// Above it: buffers do not grow any more.
    Moderate,
    /// Above the second, until it falls below the first: out-of-order data is not held beyond the least buffer, then windows
    /// shrink to four segments, and no low-water mark keeps a reader waiting; and who holds more than his share sees his send buffer shrink.
    Pressed,
    /// Above the third: nothing is taken beyond the least buffer of each socket.
    Exhausted,
}

/// The sum.
#[derive(Debug, Default)]
pub struct Memory {
    used: u64,
    pressed: bool,
    level: Pressure,
    /// Connections and listeners (`sk_sockets_allocated`).
    sockets: u64,
    /// Connections that nobody owns (`tcp_orphan_count`).
    orphans: u32,
}

impl Memory {
    /// How short memory is.
    #[must_use]
    pub const fn level(&self) -> Pressure {
        self.level
    }

    /// Bytes held, metadata included.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// Pages from which on a connection gives way: an equal part of the last limit under pressure, none where that is exceeded.
    #[must_use]
    #[inline]
    pub fn share(&self, sysctl: &Sysctl) -> u64 {
        // Every verb on a connection asks, and hardly ever is memory short.
        if self.level <= Pressure::Moderate { u64::MAX } else { self.short_share(sysctl) }
    }

    #[cold]
    #[inline(never)]
    fn short_share(&self, sysctl: &Sysctl) -> u64 {
        if self.level == Pressure::Exhausted {
            return 0;
        }
        u64::from(sysctl.tcp_mem.max).div_ceil(self.sockets.max(1))
    }

    /// There is one socket more.
    pub const fn open(&mut self) {
        self.sockets += 1;
    }

    /// There is one socket less.
    pub const fn close(&mut self) {
        self.sockets = self.sockets.saturating_sub(1);
    }

    /// Connections that nobody owns.
    #[must_use]
    pub const fn orphans(&self) -> u32 {
        self.orphans
    }

    /// Nobody owns one of them any more.
    pub const fn orphan(&mut self) {
        self.orphans += 1;
    }

    /// One that nobody owned is over.
    pub const fn bury(&mut self) {
        self.orphans = self.orphans.saturating_sub(1);
    }

    /// A connection that held `before` bytes holds `after` now.
    pub fn account(&mut self, sysctl: &Sysctl, count: &mut Counters, before: u32, after: u32) {
        if before == after {
            return;
        }
        self.used = self.used.saturating_sub(u64::from(before)) + u64::from(after);
        let (pages, limits) = (self.used.div_ceil(PAGE), &sysctl.tcp_mem);
        if pages <= u64::from(limits.min) {
            self.pressed = false;
        } else if pages > u64::from(limits.default) && !self.pressed {
            self.pressed = true;
            count.tcp_ext.tcp_mem_pressures += 1;
        }
        self.level = match self.pressed {
            _ if pages > u64::from(limits.max) => Pressure::Exhausted,
            true => Pressure::Pressed,
            false if pages > u64::from(limits.min) => Pressure::Moderate,
            false => Pressure::Low,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sysctl::Triple;

    #[test]
    fn pressure_begins_at_the_second_limit_and_ends_at_the_first() {
        let sysctl = Sysctl { tcp_mem: Triple { min: 1, default: 2, max: 3 }, ..Sysctl::default() };
        let (mut m, mut count) = (Memory::default(), Counters::default());
        let mut at = 0;
        for (bytes, level, times) in [
            (4_096, Pressure::Low, 0),
            (4_097, Pressure::Moderate, 0),
            (8_193, Pressure::Pressed, 1),
            (12_288, Pressure::Pressed, 1),
            (12_289, Pressure::Exhausted, 1),
            (5_000, Pressure::Pressed, 1),
            (4_096, Pressure::Low, 1),
            (5_000, Pressure::Moderate, 1),
            (9_000, Pressure::Pressed, 2),
        ] {
            m.account(&sysctl, &mut count, at, bytes);
            at = bytes;
            assert_eq!((m.level(), count.tcp_ext.tcp_mem_pressures), (level, times), "{bytes}");
        }
        assert_eq!(m.used(), 9_000);
    }

    #[test]
    fn under_pressure_sockets_share_the_last_limit() {
        let sysctl = Sysctl { tcp_mem: Triple { min: 10, default: 20, max: 31 }, ..Sysctl::default() };
        let (mut m, mut count) = (Memory::default(), Counters::default());
        for _ in 0..3 {
            m.open();
        }
        m.account(&sysctl, &mut count, 0, 20 * 4_096);
        assert_eq!(m.share(&sysctl), u64::MAX);
        m.account(&sysctl, &mut count, 0, 1);
        assert_eq!(m.share(&sysctl), 11, "a third of 31, rounded up");
        m.close();
        assert_eq!(m.share(&sysctl), 16);
        m.account(&sysctl, &mut count, 0, 11 * 4_096);
        assert_eq!(m.share(&sysctl), 0);
    }
}
