//! When a SACK is sent: at once, or after the second packet, or when its delay is over (RFC 9260 section 6.2, RFC 7053).
use super::options::SctpOptions;
use crate::base::Instant;
use crate::base::time::Duration;

/// What is owed to the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AckPolicy {
    /// The next packet with DATA is acknowledged at once.
    next_at_once: bool,
    /// Packets since the last SACK.
    packets: u32,
    /// A SACK is to be sent now.
    due: bool,
    /// When a delayed one is; [`Instant::FAR_FUTURE`] for none.
    deadline: Instant,
}

impl AckPolicy {
    /// Nothing owed. The first packet is acknowledged at once, as in Linux (`sctp_gen_sack`): a sender in slow start needs it.
    #[must_use]
    pub const fn new() -> Self {
        Self { next_at_once: true, packets: 0, due: false, deadline: Instant::FAR_FUTURE }
    }

    /// A packet with DATA came; `force` when something in it or about it must not wait: a gap, a duplicate, the I bit.
    pub fn on_packet(&mut self, now: Instant, options: &SctpOptions, force: bool) {
        // A frequency of one is no delay (Linux `sctp_apply_asoc_delayed_ack`).
        if force || self.next_at_once || options.sack_delay_ms == 0 || options.sack_freq == 1 {
            self.due = true;
            return;
        }
        self.packets += 1;
        self.next_at_once = self.packets + 1 >= options.sack_freq;
        if self.deadline == Instant::FAR_FUTURE {
            self.deadline = now + Duration::from_millis(options.sack_delay_ms.into());
        }
    }

    /// Something else wants a SACK at once, such as a window that has opened.
    pub const fn demand(&mut self) {
        self.due = true;
    }

    /// A SACK is to be sent now.
    #[must_use]
    pub const fn is_due(&self) -> bool {
        self.due
    }

    /// One could be sent: bundled with data it costs nothing.
    #[must_use]
    pub fn is_owed(&self) -> bool {
        self.due || self.deadline != Instant::FAR_FUTURE
    }

    /// When the delayed one is due.
    #[must_use]
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// True when the delay is over.
    pub fn on_timer(&mut self, now: Instant) -> bool {
        let over = self.deadline <= now;
        if over {
            self.deadline = Instant::FAR_FUTURE;
            self.due = true;
        }
        over
    }

    /// A SACK leaves.
    pub const fn on_sent(&mut self) {
        *self = Self { next_at_once: false, packets: 0, due: false, deadline: Instant::FAR_FUTURE };
    }
}

impl Default for AckPolicy {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Sysctl;

    #[test]
    fn the_first_at_once_then_every_second_or_after_the_delay() {
        let options = SctpOptions::new(&Sysctl::default());
        let (mut ack, now) = (AckPolicy::new(), Instant::from_millis(5));
        ack.on_packet(now, &options, false);
        assert!(ack.is_due());
        ack.on_sent();
        ack.on_packet(now, &options, false);
        assert!(!ack.is_due() && ack.is_owed());
        assert_eq!(ack.deadline(), Instant::from_millis(205));
        ack.on_packet(now, &options, false);
        assert!(ack.is_due());
        ack.on_sent();
        ack.on_packet(now, &options, false);
        ack.on_timer(Instant::from_millis(204));
        assert!(!ack.is_due());
        ack.on_timer(Instant::from_millis(205));
        assert!(ack.is_due());
        ack.on_sent();
        ack.on_packet(now, &options, true);
        assert!(ack.is_due());
    }

    #[test]
    fn as_many_packets_as_the_frequency_says_share_one_sack() {
        for freq in 1..6 {
            let options = SctpOptions { sack_freq: freq, ..SctpOptions::new(&Sysctl::default()) };
            let mut ack = AckPolicy::new();
            ack.on_sent();
            let due: Vec<bool> = (0..freq)
                .map(|n| {
                    ack.on_packet(Instant::from_millis(n.into()), &options, false);
                    ack.is_due()
                })
                .collect();
            assert_eq!(due.iter().filter(|due| **due).count(), 1, "{freq}: {due:?}");
            assert!(due.last() == Some(&true));
            // None waits longer than the delay counted from the first.
            assert!(freq == 1 || ack.deadline() == Instant::from_millis(200));
        }
    }
}
