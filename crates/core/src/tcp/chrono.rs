//! Where a sender's time goes: busy, held by the peer's window, held by its own send buffer (`tcp_chrono_start`, `tcp_chrono_stop`).
use crate::base::time::Instant;

/// What holds the sender at the moment, from the least to the most telling: the last one wins while several hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Held {
    /// Nothing is queued and nothing in flight.
    #[default]
    Idle,
    /// Something is queued or in flight.
    Busy,
    /// The next segment does not fit the peer's window (TCP_CHRONO_RWND_LIMITED).
    RecvWindow,
    /// All is sent, the congestion window has room, and the application waits for send buffer (TCP_CHRONO_SNDBUF_LIMITED).
    SendBuffer,
}

/// Milliseconds by reason. Busy time is the sum of all three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chrono {
    /// Spent in [`Held::Busy`], [`Held::RecvWindow`] and [`Held::SendBuffer`], the present stretch excluded.
    spent_ms: [u32; 3],
    /// When the present stretch began, on the stack's clock modulo 2^32.
    since_ms: u32,
    held: Held,
}

impl Chrono {
    /// `why` holds from now on, unless something more telling does already.
    pub(super) fn start(&mut self, now: Instant, why: Held) {
        if why > self.held {
            self.turn(now, why);
        }
    }

    /// `why` does not hold any more. `drained` says that nothing is queued and nothing in flight.
    pub(super) fn stop(&mut self, now: Instant, why: Held, drained: bool) {
        if drained {
            self.turn(now, Held::Idle);
        } else if why == self.held {
            self.turn(now, Held::Busy);
        }
    }

    fn turn(&mut self, now: Instant, next: Held) {
        self.spent_ms = self.until(now);
        self.since_ms = now.as_millis() as u32;
        self.held = next;
    }

    fn until(&self, now: Instant) -> [u32; 3] {
        let mut spent = self.spent_ms;
        if let Some(of) = (self.held as usize).checked_sub(1).and_then(|i| spent.get_mut(i)) {
            *of = of.wrapping_add((now.as_millis() as u32).wrapping_sub(self.since_ms));
        }
        spent
    }

    /// Microseconds busy, held by the peer's window, and held by the send buffer (`tcp_get_info_chrono_stats`).
    pub(super) fn report_us(&self, now: Instant) -> (u64, u64, u64) {
        let [busy, window, buffer] = self.until(now).map(|ms| u64::from(ms) * 1_000);
        (busy + window + buffer, window, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    #[test]
    fn the_most_telling_reason_counts_and_all_count_as_busy() {
        let mut c = Chrono::default();
        c.start(ms(100), Held::Busy);
        c.start(ms(110), Held::Busy);
        c.start(ms(120), Held::RecvWindow);
        // Less telling: changes nothing.
        c.start(ms(125), Held::Busy);
        c.start(ms(150), Held::SendBuffer);
        c.stop(ms(160), Held::RecvWindow, false);
        assert_eq!(c.report_us(ms(170)), (70_000, 30_000, 20_000));
        c.stop(ms(170), Held::SendBuffer, false);
        c.stop(ms(200), Held::Busy, true);
        assert_eq!(c.report_us(ms(9_000)), (100_000, 30_000, 20_000));
    }
}
