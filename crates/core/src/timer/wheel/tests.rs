//! The wheel against a sorted list of (deadline, insertion number).
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn at(ns: u64) -> Instant {
    Instant::from_nanos(ns)
}

#[test]
fn entries_are_small() {
    assert!(size_of::<Node<crate::base::SocketId>>() <= 32);
    assert_eq!(size_of::<Option<Entry>>(), 8);
}

#[test]
fn an_entry_fires_at_its_nanosecond_and_not_before() {
    for deadline in [0, 1, 63, 64, 65, 4_095, 4_096, 200_000_000, 1 << 40, u64::MAX - 2, u64::MAX - 1] {
        let mut wheel = Wheel::new(at(0));
        wheel.insert(at(deadline), 'x');
        assert_eq!(wheel.next_deadline(), Some(at(deadline)));
        if deadline > 0 {
            assert_eq!(wheel.pop_expired(at(deadline - 1)), None);
            assert_eq!(wheel.next_deadline(), Some(at(deadline)));
        }
        assert_eq!(wheel.pop_expired(at(deadline)), Some(('x', at(deadline))));
        assert_eq!(wheel.pop_expired(Instant::FAR_FUTURE), None);
    }
}

#[test]
fn a_stale_name_finds_nothing() {
    let mut wheel = Wheel::new(at(0));
    let a = wheel.insert(at(5), 1);
    assert_eq!(wheel.deadline(a), Some(at(5)));
    assert_eq!(wheel.remove(a), Some((1, at(5))));
    let b = wheel.insert(at(6), 2);
    assert_eq!((a.index, wheel.remove(a), wheel.deadline(a)), (b.index, None, None));
    assert_eq!(wheel.pop_expired(at(6)), Some((2, at(6))));
    assert_eq!(wheel.remove(b), None);
}

#[test]
fn equal_deadlines_keep_their_order_across_levels() {
    let mut wheel = Wheel::new(at(0));
    wheel.insert(at(100_000), 1);
    assert_eq!(wheel.pop_expired(at(99_990)), None);
    wheel.insert(at(100_000), 2);
    assert_eq!(wheel.pop_expired(at(100_000)), Some((1, at(100_000))));
    wheel.insert(at(7), 3);
    assert_eq!(wheel.pop_expired(at(100_000)), Some((2, at(100_000))));
    assert_eq!(wheel.pop_expired(at(100_000)), Some((3, at(100_000))));
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(u64),
    Remove(usize),
    Advance(u64),
    PopOne(u64),
    ToNext,
}

/// Time saturates where an [`Instant`] does.
fn later(time: u64, by: u64) -> u64 {
    at(time).plus_nanos(by).as_nanos()
}

fn distance() -> impl Strategy<Value = u64> {
    prop_oneof![0..4u64, 0..200u64, 0..1_000_000u64, (0..63u32).prop_map(|bits| 1u64 << bits), any::<u64>()]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => distance().prop_map(Operation::Insert),
        2 => any::<usize>().prop_map(Operation::Remove),
        2 => distance().prop_map(Operation::Advance),
        1 => distance().prop_map(Operation::PopOne),
        2 => Just(Operation::ToNext),
    ]
}

/// The naive timer list.
#[derive(Default)]
struct Model {
    armed: BTreeMap<(u64, u64), Entry>,
    time: u64,
    inserted: u64,
    removed_any: bool,
}

impl Model {
    fn pop(&mut self, wheel: &mut Wheel<u64>, now: u64) -> bool {
        let due = self.armed.first_key_value().map(|(k, _)| *k).filter(|k| k.0 <= now);
        let got = wheel.pop_expired(at(now));
        assert_eq!(got, due.map(|(deadline, number)| (number, at(deadline))));
        if let Some(key) = due {
            self.armed.remove(&key);
            self.time = self.time.max(key.0);
        } else {
            self.time = self.time.max(now);
        }
        due.is_some()
    }

    fn drain(&mut self, wheel: &mut Wheel<u64>, now: u64) {
        while self.pop(wheel, now) {}
        self.removed_any = self.removed_any && !self.armed.is_empty();
    }

    fn step(&mut self, wheel: &mut Wheel<u64>, operation: &Operation) {
        match *operation {
            Operation::Insert(delay) => {
                // Sometimes in the past: XOR may go below the current time.
                let deadline =
                    if delay % 7 == 0 { self.time.saturating_sub(delay) } else { later(self.time, delay) };
                let entry = wheel.insert(at(deadline), self.inserted);
                self.armed.insert((deadline.max(self.time), self.inserted), entry);
                self.inserted += 1;
            }
            Operation::Remove(pick) => {
                let Some(&key) = self.armed.keys().nth(pick % self.armed.len().max(1)) else { return };
                let entry = self.armed.remove(&key).expect("picked");
                assert_eq!(wheel.remove(entry), Some((key.1, at(key.0))));
                assert_eq!(wheel.remove(entry), None);
                self.removed_any = true;
            }
            Operation::Advance(delay) => self.drain(wheel, later(self.time, delay)),
            Operation::PopOne(delay) => {
                self.pop(wheel, later(self.time, delay));
            }
            Operation::ToNext => {
                if let Some(next) = wheel.next_deadline() {
                    self.drain(wheel, next.as_nanos());
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn the_wheel_is_a_sorted_list(operations in prop::collection::vec(operation(), 1..300)) {
        let mut wheel = Wheel::new(at(0));
        let mut model = Model::default();
        for operation in &operations {
            model.step(&mut wheel, operation);
            prop_assert_eq!(wheel.len(), model.armed.len());
            let first = model.armed.keys().next().map(|k| at(k.0));
            let next = wheel.next_deadline();
            prop_assert_eq!(first.is_some(), next.is_some());
            prop_assert!(next <= first);
            if !model.removed_any {
                prop_assert_eq!(next, first);
            }
        }
        model.drain(&mut wheel, u64::MAX - 1);
        prop_assert!(wheel.is_empty());
    }

    /// A driver that sleeps until `next_deadline` reaches every entry, whatever was removed.
    #[test]
    fn sleeping_until_the_next_deadline_always_makes_progress(
        deadlines in prop::collection::vec(any::<u64>(), 1..50), drop_every in 2..5usize,
    ) {
        let mut wheel = Wheel::new(at(0));
        let names: Vec<_> = deadlines.iter().map(|&d| wheel.insert(at(d), d)).collect();
        for name in names.iter().step_by(drop_every) {
            wheel.remove(*name);
        }
        let mut wakes = 0;
        while let Some(next) = wheel.next_deadline() {
            while wheel.pop_expired(next).is_some() {}
            wakes += 1;
            prop_assert!(wakes <= 50 * 12);
        }
        prop_assert!(wheel.is_empty());
    }
}
