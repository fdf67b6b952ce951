//! Which packets of a connection still wait below it: what has not left this host is not lost, whatever a timer says
//! (`skb_still_in_host_queue`).
//!
//! Packets of a flow leave in the order in which they were handed down, so two counts and a number in each record tell it, and
//! nothing travels with the packet. Where a route or a queueing discipline breaks the order the answer is wrong by as many
//! packets, until all have come back: a retransmission is then late, or as early as without this. The numbers are modulo 2^16;
//! credit keeps what is below a flow far under that.

use crate::base::time::Instant;

/// When a packet was handed down, and its number for packets of one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The time.
    pub at: Instant,
    /// Its number as of [`Below::hand_down`].
    pub number: u16,
    /// It was handed down later than that, so that the number says nothing about others of the instant.
    pub late: bool,
}

impl Departure {
    /// Before everything.
    pub const NEVER: Self = Self { at: Instant::ZERO, number: 0, late: false };

    /// It was handed down after `other`.
    #[must_use]
    pub fn is_after(self, other: Self) -> bool {
        self.at > other.at || (self.at == other.at && (self.number.wrapping_sub(other.number) as i16) > 0)
    }
}

/// The counts of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Below {
    handed: u16,
    returned: u16,
    /// Somebody tells of departures; without, nothing ever counts as being below.
    follows: bool,
}

impl Default for Below {
    fn default() -> Self {
        Self::new()
    }
}

impl Below {
    /// Nothing below, and nobody who tells.
    #[must_use]
    pub const fn new() -> Self {
        Self { handed: 0, returned: 0, follows: false }
    }

    /// From now on each packet handed down is told to have come back.
    pub const fn follow(&mut self) {
        self.follows = true;
    }

    /// Another packet goes down; its number.
    #[must_use]
    pub const fn hand_down(&mut self) -> u16 {
        if self.follows {
            self.handed = self.handed.wrapping_add(1);
        }
        self.handed
    }

    /// The number of the last packet that was handed down.
    #[must_use]
    pub const fn handed(&self) -> u16 {
        self.handed
    }

    /// A number for what nobody pays for, and nobody tells of.
    #[must_use]
    pub const fn none(&self) -> u16 {
        self.returned
    }

    /// The oldest packet has left.
    pub const fn on_left(&mut self) {
        if !self.is_empty() {
            self.returned = self.returned.wrapping_add(1);
        }
    }

    /// The newest packet was refused and will never leave.
    pub const fn on_refused(&mut self) {
        if !self.is_empty() {
            self.handed = self.handed.wrapping_sub(1);
        }
    }

    /// The flow's account says that everything is back.
    pub const fn on_all_back(&mut self) {
        self.returned = self.handed;
    }

    /// Packet `number` has not left.
    #[must_use]
    pub const fn holds(&self, number: u16) -> bool {
        let ahead = number.wrapping_sub(self.returned);
        ahead != 0 && ahead <= self.handed.wrapping_sub(self.returned)
    }

    /// Packet `number` is the one that left last.
    #[must_use]
    pub const fn left_last(&self, number: u16) -> bool {
        number == self.returned
    }

    /// Packets that have not left.
    #[must_use]
    pub const fn len(&self) -> u16 {
        self.handed.wrapping_sub(self.returned)
    }

    /// Nothing is below.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.handed == self.returned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_in_order_over_the_end_of_the_numbers() {
        let mut below = Below { handed: u16::MAX - 1, returned: u16::MAX - 1, follows: true };
        let numbers: Vec<u16> = (0..4).map(|_| below.hand_down()).collect();
        for (i, &number) in numbers.iter().enumerate() {
            assert!(numbers[i..].iter().all(|&n| below.holds(n)), "those that have not left");
            assert!(!numbers[..i].iter().any(|&n| below.holds(n)), "those that have");
            below.on_left();
            assert!(below.left_last(number));
        }
        assert!(below.is_empty());
        below.on_left();
        assert!(below.is_empty(), "more departures than packets change nothing");
    }

    #[test]
    fn what_was_refused_or_never_paid_for_is_not_below() {
        let mut below = Below { follows: true, ..Below::default() };
        let first = below.hand_down();
        assert!(!below.holds(below.none()));
        let second = below.hand_down();
        below.on_refused();
        assert!(below.holds(first) && !below.holds(second));
        below.on_all_back();
        assert!(!below.holds(first) && below.is_empty());
    }

    #[test]
    fn without_news_of_departures_nothing_is_below() {
        let mut below = Below::default();
        let number = below.hand_down();
        assert!(!below.holds(number) && below.is_empty());
    }
}
