//! A deadline that moves for free: the wheel is touched only when it moves forward, or when its entry fires early.
//!
//! A retransmission timer moves with every acknowledgement, nearly always to a later time. Storing the new deadline is all
//! that such a move costs; the entry armed for the old one fires early, once, and is armed again for what is left.
use super::wheel::{Entry, Wheel};
use crate::base::{Cx, Instant};

/// One owner's deadline and its entry in the wheel. The owner must [`Lazy::cancel`] it before it goes away.
#[derive(Debug)]
pub struct Lazy {
    /// [`Instant::FAR_FUTURE`] for none, which keeps the record at 24 bytes.
    deadline: Instant,
    armed: Option<Entry>,
    armed_for: Instant,
}

impl Default for Lazy {
    fn default() -> Self {
        Self::new()
    }
}

impl Lazy {
    /// No deadline.
    #[must_use]
    pub const fn new() -> Self {
        Self { deadline: Instant::FAR_FUTURE, armed: None, armed_for: Instant::FAR_FUTURE }
    }

    /// The deadline in force.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        (self.deadline != Instant::FAR_FUTURE).then_some(self.deadline)
    }

    /// True while the wheel holds an entry, even one whose deadline has moved on.
    #[must_use]
    pub const fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// Moves the deadline. Only an earlier one than the armed one touches the wheel.
    pub fn set<K: Copy>(&mut self, cx: &mut Cx<'_>, wheel: &mut Wheel<K>, key: K, deadline: Option<Instant>) {
        self.deadline = deadline.unwrap_or(Instant::FAR_FUTURE);
        if self.deadline != Instant::FAR_FUTURE && (self.armed.is_none() || self.deadline < self.armed_for) {
            self.cancel_entry(wheel);
            self.arm(cx, wheel, key);
        }
    }

    /// The wheel returned the owner's key: true when the deadline has come (it is then gone), false after an early fire.
    pub fn fired<K: Copy>(&mut self, cx: &mut Cx<'_>, wheel: &mut Wheel<K>, key: K) -> bool {
        // The entry is gone already; removing it again matters only if a caller reports a fire that never was.
        self.cancel_entry(wheel);
        if self.deadline == Instant::FAR_FUTURE {
            cx.count.own.timer_early += 1;
            return false;
        }
        if self.deadline <= cx.now {
            cx.count.own.timer_fired += 1;
            self.deadline = Instant::FAR_FUTURE;
            return true;
        }
        cx.count.own.timer_early += 1;
        self.arm(cx, wheel, key);
        false
    }

    /// Drops deadline and entry: the owner goes away.
    pub fn cancel<K: Copy>(&mut self, wheel: &mut Wheel<K>) {
        self.deadline = Instant::FAR_FUTURE;
        self.cancel_entry(wheel);
    }

    fn arm<K: Copy>(&mut self, cx: &mut Cx<'_>, wheel: &mut Wheel<K>, key: K) {
        cx.count.own.timer_armed += 1;
        self.armed = Some(wheel.insert(self.deadline, key));
        self.armed_for = self.deadline;
    }

    fn cancel_entry<K: Copy>(&mut self, wheel: &mut Wheel<K>) {
        if let Some(entry) = self.armed.take() {
            wheel.remove(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::testing::World;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn a_later_deadline_costs_one_store_and_one_early_fire() {
        let (mut world, mut wheel, mut lazy) = (World::new(), Wheel::new(at(0)), Lazy::new());
        for i in 0..100 {
            lazy.set(&mut world.cx(at(i)), &mut wheel, 7u32, Some(at(1_000 + i)));
        }
        assert_eq!((world.count.own.timer_armed, wheel.len()), (1, 1));
        assert_eq!(wheel.pop_expired(at(1_000)), Some((7, at(1_000))));
        assert!(!lazy.fired(&mut world.cx(at(1_000)), &mut wheel, 7));
        assert_eq!(wheel.next_deadline(), Some(at(1_099)));
        assert_eq!(wheel.pop_expired(at(1_099)), Some((7, at(1_099))));
        assert!(lazy.fired(&mut world.cx(at(1_099)), &mut wheel, 7));
        assert_eq!(lazy.deadline(), None);
        let own = &world.count.own;
        assert_eq!((own.timer_armed, own.timer_early, own.timer_fired), (2, 1, 1));
    }

    /// Linux's SCTP heartbeat could once not be shortened.
    #[test]
    fn an_earlier_deadline_takes_effect_at_once() {
        let (mut world, mut wheel, mut lazy) = (World::new(), Wheel::new(at(0)), Lazy::new());
        lazy.set(&mut world.cx(at(0)), &mut wheel, 1u32, Some(at(5_000)));
        lazy.set(&mut world.cx(at(0)), &mut wheel, 1u32, Some(at(50)));
        assert_eq!((wheel.next_deadline(), wheel.len()), (Some(at(50)), 1));
    }

    #[test]
    fn none_leaves_the_entry_to_die_and_cancel_removes_it() {
        let (mut world, mut wheel, mut lazy) = (World::new(), Wheel::new(at(0)), Lazy::new());
        lazy.set(&mut world.cx(at(0)), &mut wheel, 1u32, Some(at(10)));
        lazy.set(&mut world.cx(at(0)), &mut wheel, 1u32, None);
        assert!(lazy.is_armed());
        assert!(wheel.pop_expired(at(10)).is_some());
        assert!(!lazy.fired(&mut world.cx(at(10)), &mut wheel, 1));
        assert!(wheel.is_empty() && !lazy.is_armed());
        lazy.set(&mut world.cx(at(10)), &mut wheel, 1u32, Some(at(20)));
        lazy.cancel(&mut wheel);
        assert!(wheel.is_empty());
    }

    #[test]
    fn the_record_is_small() {
        assert!(size_of::<Lazy>() <= 24);
    }
}
