//! Virtual time's agenda: a heap ordered by (time, insertion number), and the guard against worlds that stand still.
use lowwater_core::base::Instant;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::VecDeque;

/// Events without virtual progress after which a world is declared stuck.
pub const STUCK_EVENTS: u64 = 1_000_000;
/// How many of the last event kinds the guard remembers.
const REMEMBERED: usize = 24;

#[derive(Debug)]
struct Entry<E> {
    at: Instant,
    number: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at && self.number == other.number
    }
}
impl<E> Eq for Entry<E> {}
impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Entry<E> {
    // Reversed: the standard heap is a max-heap and the earliest event must come first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

/// Events to come. Those of one instant come out in the order in which they were put in.
#[derive(Debug)]
pub struct Schedule<E> {
    heap: BinaryHeap<Entry<E>>,
    inserted: u64,
}

impl<E> Default for Schedule<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), inserted: 0 }
    }
}

impl<E> Schedule<E> {
    /// Puts `event` on the agenda.
    pub fn push(&mut self, at: Instant, event: E) {
        self.heap.push(Entry { at, number: self.inserted, event });
        self.inserted += 1;
    }

    /// When the next event is due.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|e| e.at)
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<(Instant, E)> {
        self.heap.pop().map(|e| (e.at, e.event))
    }

    /// Number of events on the agenda.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// True when nothing will ever happen again.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

/// What happened at an instant, for the report of a world that stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Kind of event.
    pub kind: &'static str,
    /// Host or pipe.
    pub index: usize,
}

/// Counts events since virtual time last moved.
#[derive(Debug, Default)]
pub struct StuckGuard {
    at: Instant,
    events: u64,
    last: VecDeque<Step>,
}

impl StuckGuard {
    /// Notes one event. True while the world is healthy; false once [`STUCK_EVENTS`] happened at one instant.
    #[must_use]
    pub fn step(&mut self, now: Instant, step: Step) -> bool {
        if now > self.at {
            self.at = now;
            self.events = 0;
        }
        self.events += 1;
        if self.events > STUCK_EVENTS - REMEMBERED as u64 {
            if self.last.len() == REMEMBERED {
                self.last.pop_front();
            }
            self.last.push_back(step);
        }
        self.events < STUCK_EVENTS
    }

    /// True once [`STUCK_EVENTS`] happened at one instant.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.events >= STUCK_EVENTS
    }

    /// Where it stands still: the instant and the last kinds of events.
    #[must_use]
    pub fn place(&self) -> String {
        let steps: Vec<String> = self.last.iter().map(|s| format!("{}#{}", s.kind, s.index)).collect();
        format!("at {} after {} events: ... {}", self.at, self.events, steps.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_time_order_and_ties_in_insertion_order() {
        let mut s = Schedule::default();
        s.push(Instant::from_nanos(5), 'c');
        s.push(Instant::from_nanos(1), 'a');
        s.push(Instant::from_nanos(5), 'd');
        s.push(Instant::from_nanos(1), 'b');
        let order: String = std::iter::from_fn(|| s.pop()).map(|(_, e)| e).collect();
        assert_eq!(order, "abcd");
    }

    #[test]
    fn the_guard_trips_at_its_bound_and_says_where() {
        let mut g = StuckGuard::default();
        let step = Step { kind: "poll", index: 3 };
        for _ in 0..STUCK_EVENTS - 1 {
            assert!(g.step(Instant::ZERO, step));
        }
        assert!(!g.step(Instant::ZERO, step));
        assert!(g.place().contains("poll#3"));
        assert!(g.step(Instant::from_nanos(1), step));
    }
}
