//! Writability: how much an application may write ahead, and when it is woken (TCP_NOTSENT_LOWAT with the half rule).

/// The send queue as the rule sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    /// Charge of what is unsent and in flight, metadata included.
    pub(super) queued_charge: u64,
    /// SO_SNDBUF, in the same unit.
    pub(super) sndbuf: u64,
    /// Bytes written but not sent.
    pub(super) unsent: u64,
    /// TCP_NOTSENT_LOWAT, or the sysctl.
    pub(super) lowat: u64,
    /// The half rule holds (`notsent_lowat_half`).
    pub(super) half: bool,
}

impl Level {
    /// May a new element begin? With `wake`, may a waiter be woken? The same function for both, so that they cannot disagree:
    /// a waiter is only woken under *half* the limit, or each ACK would wake it.
    pub(super) const fn memory_free(&self, wake: bool) -> bool {
        self.queued_charge < self.sndbuf && (self.unsent << (wake as u32)) < self.lowat
    }

    /// What poll() reports as writable, and the condition for a wake-up (`__sk_stream_is_writeable`).
    pub(super) const fn writable(&self) -> bool {
        self.sndbuf.saturating_sub(self.queued_charge) >= self.queued_charge / 2
            && self.memory_free(self.half)
    }
}

#[cfg(test)]
mod tests {
    use super::Level;

    const OPEN: Level = Level { queued_charge: 0, sndbuf: 87_040, unsent: 0, lowat: 65_536, half: true };

    #[test]
    fn writing_stops_at_the_limit_and_waking_starts_under_half() {
        let at = |unsent| Level { unsent, ..OPEN };
        assert!(at(65_535).memory_free(false) && !at(65_536).memory_free(false));
        assert!(at(32_767).writable() && !at(32_768).writable());
    }

    #[test]
    fn without_the_half_rule_waking_starts_at_the_limit() {
        let at = |unsent| Level { unsent, half: false, ..OPEN };
        assert!(at(65_535).writable() && !at(65_536).writable());
        assert!(at(65_535).memory_free(false) && !at(65_536).memory_free(false));
    }

    #[test]
    fn the_buffer_bounds_the_charge() {
        let at = |queued_charge| Level { queued_charge, ..OPEN };
        assert!(at(87_039).memory_free(false) && !at(87_040).memory_free(false));
        // Free space must be a third of the whole: 87,040 - 58,026 >= 58,026 / 2.
        assert!(at(58_026).writable() && !at(58_028).writable());
    }
}
