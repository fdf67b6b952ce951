//! How many connections of a listener may live before their handshake is complete (`struct fastopen_queue`).
use super::forgiven;
use crate::base::{Cx, Instant};
use std::collections::VecDeque;

/// The count of one listener.
#[derive(Debug, Default)]
pub struct Queue {
    /// TCP_FASTOPEN; 0 switches Fast Open off.
    max: u32,
    /// Connections whose handshake is not complete, and resets that are not forgiven.
    pending: u32,
    /// When the resets are forgiven, oldest first; never more than `pending`.
    resets: VecDeque<Instant>,
}

impl Queue {
    /// A queue for `max` connections.
    #[must_use]
    pub const fn new(max: u32) -> Self {
        Self { max, pending: 0, resets: VecDeque::new() }
    }

    /// TCP_FASTOPEN.
    pub const fn set_max(&mut self, max: u32) {
        self.max = max;
    }

    /// The bound.
    #[must_use]
    pub const fn max(&self) -> u32 {
        self.max
    }

    /// Connections that count against the bound.
    #[must_use]
    pub const fn pending(&self) -> u32 {
        self.pending
    }

    /// True when one more may begin (`tcp_fastopen_queue_check`).
    pub fn admit(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.max == 0 {
            return false;
        }
        if self.pending < self.max {
            return true;
        }
        if self.resets.front().is_none_or(|&at| at > cx.now) {
            cx.count.tcp_ext.tcp_fast_open_listen_overflow += 1;
            return false;
        }
        self.resets.pop_front();
        self.pending = self.pending.saturating_sub(1);
        true
    }

    /// One begins.
    pub const fn enter(&mut self) {
        self.pending += 1;
    }

    /// One is complete, or gone (`reqsk_fastopen_remove`). A reset of one that the application holds already still counts for a
    /// minute.
    pub fn leave(&mut self, now: Instant, reset_while_owned: bool) {
        if reset_while_owned {
            self.resets.push_back(forgiven(now));
        } else {
            self.pending = self.pending.saturating_sub(1);
        }
    }
}
