//! The receiver that a program's acknowledgements come from (RFC 2018, RFC 2883).
use std::collections::BTreeMap;

/// Blocks that an acknowledgement has at most.
pub(super) const BLOCKS_MAX: usize = 4;

/// What has arrived.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Above `next`: start and end of what is there.
    held: BTreeMap<u32, u32>,
    /// The next byte in order.
    pub(super) next: u32,
    /// Starts of ranges, the last that grew first.
    recent: Vec<u32>,
    /// Segments that no acknowledgement has answered.
    pub(super) unanswered: u64,
    /// The last transmission at the left edge: its first byte, and how often that had left before.
    pub(super) echo: (u32, usize),
}

impl Default for Receiver {
    fn default() -> Self {
        Self { held: BTreeMap::new(), next: 1, recent: Vec::new(), unanswered: 0, echo: (0, 0) }
    }
}

impl Receiver {
    /// A segment arrives: what it repeats, and whether it is answered at once.
    pub(super) fn take(&mut self, from: u32, to: u32, nth: usize) -> (Option<(u32, u32)>, bool) {
        if to <= self.next || self.held.iter().any(|(a, b)| *a <= from && to <= *b) {
            return (Some((from, to)), true);
        }
        if from <= self.next {
            self.echo = (from, nth);
        }
        let touches = |(a, b): (&u32, &u32)| (*a <= to && from <= *b).then_some(*a);
        let touched: Vec<u32> = self.held.iter().filter_map(touches).collect();
        let (mut start, mut end) = (from, to);
        for range in touched {
            let other = self.held.remove(&range).unwrap_or(range);
            (start, end) = (start.min(range), end.max(other));
        }
        let had_holes = !self.held.is_empty();
        self.recent.retain(|at| self.held.contains_key(at) && *at != start);
        if start <= self.next {
            self.next = end;
            return (None, had_holes || end != to);
        }
        self.held.insert(start, end);
        self.recent.insert(0, start);
        (None, true)
    }

    /// The blocks of an acknowledgement, that of a repetition first, and behind it the range that it is part of.
    pub(super) fn blocks(&self, again: Option<(u32, u32)>) -> Vec<(u32, u32)> {
        let mut blocks: Vec<(u32, u32)> = again.into_iter().collect();
        if let Some((from, to)) = again.filter(|(from, _)| *from >= self.next)
            && let Some((a, b)) = self.held.iter().find(|(a, b)| **a <= from && to <= **b)
        {
            blocks.push((*a, *b));
        }
        for start in &self.recent {
            let Some(end) = self.held.get(start) else { continue };
            if !blocks.contains(&(*start, *end)) {
                blocks.push((*start, *end));
            }
        }
        blocks.truncate(BLOCKS_MAX);
        blocks
    }
}
