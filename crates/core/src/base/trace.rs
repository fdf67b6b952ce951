//! The flight recorder: a ring of small records of what changed, dumped when something fails.
use super::id::SocketId;
use super::limits::TRACE_RECORDS;
use super::time::Instant;
use core::fmt;

/// What changed. Only setters trace, so a record is a change of state and not a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ev {
    /// A connection changed state; names as in RFC 9293.
    State(&'static str, &'static str),
    /// Congestion window and slow-start threshold, in segments.
    Cwnd(u32, u32),
    /// The congestion state machine moved (`Open`, `Disorder`, `CWR`, `Recovery`, `Loss`).
    CaState(&'static str, &'static str),
    /// A timer was set; its kind and deadline.
    Timer(&'static str, Instant),
    /// A segment went out: sequence number, length, flags.
    Out(u32, u32, u16),
    /// A segment came in: sequence number, length, flags.
    In(u32, u32, u16),
    /// A packet was dropped; the reason's name.
    Dropped(&'static str),
    /// A chunk of SCTP went out: its type, the TSN that it has or names, the place of its path.
    ChunkOut(&'static str, Option<u32>, u8),
    /// A chunk of SCTP came in, likewise.
    ChunkIn(&'static str, Option<u32>, u8),
    /// The path at this place changed its state.
    Path(u8, &'static str, &'static str),
    /// Congestion window and slow-start threshold of the path at this place, in bytes.
    PathCwnd(u8, u32, u32),
    /// A timer ran out; of which path, where it is one path's.
    Fired(&'static str, Option<u8>),
    /// A sender ended with something else in its way than before; the reason's name.
    Wait(&'static str),
}

impl Ev {
    /// It comes with each packet or nearly so, not with changes of a connection.
    const fn comes_often(self) -> bool {
        matches!(
            self,
            Self::Timer(..) | Self::Out(..) | Self::In(..) | Self::ChunkOut(..) | Self::ChunkIn(..)
        )
    }
}

/// Flags in the order in which scripts write them.
const LETTERS: [(u16, char); 9] =
    [(2, 'S'), (1, 'F'), (4, 'R'), (8, 'P'), (32, 'U'), (64, 'E'), (128, 'W'), (256, 'A'), (16, '.')];

/// A segment as scripts write it: flags, first and next sequence number, length.
fn segment(f: &mut fmt::Formatter<'_>, way: char, (seq, len, flags): (u32, u32, u16)) -> fmt::Result {
    let letters: String = LETTERS.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, c)| *c).collect();
    let letters = if letters.is_empty() { "-" } else { &letters };
    write!(f, "{way} {letters} {seq}:{}({len})", seq.wrapping_add(len))
}

/// A chunk: its type, TSN and path.
fn chunk(f: &mut fmt::Formatter<'_>, way: char, (kind, tsn, path): (&str, Option<u32>, u8)) -> fmt::Result {
    write!(f, "{way} {kind}")?;
    if let Some(tsn) = tsn {
        write!(f, " {tsn}")?;
    }
    write!(f, ", path {path}")
}

impl fmt::Display for Ev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::State(before, after) => write!(f, "state {before} -> {after}"),
            Self::Cwnd(cwnd, ssthresh) if ssthresh > i32::MAX as u32 - 1 => {
                write!(f, "cwnd {cwnd}, no ssthresh")
            }
            Self::Cwnd(cwnd, ssthresh) => write!(f, "cwnd {cwnd}, ssthresh {ssthresh}"),
            Self::CaState(before, after) => write!(f, "recovery {before} -> {after}"),
            Self::Timer(name, due) => {
                let us = due.nanos_since(Instant::ZERO) / 1_000;
                write!(f, "timer {name} set to {}.{:06}", us / 1_000_000, us % 1_000_000)
            }
            Self::Out(seq, len, flags) => segment(f, '>', (seq, len, flags)),
            Self::In(seq, len, flags) => segment(f, '<', (seq, len, flags)),
            Self::Dropped(why) => write!(f, "dropped: {why}"),
            Self::ChunkOut(kind, tsn, path) => chunk(f, '>', (kind, tsn, path)),
            Self::ChunkIn(kind, tsn, path) => chunk(f, '<', (kind, tsn, path)),
            Self::Path(path, before, after) => write!(f, "path {path}: {before} -> {after}"),
            Self::PathCwnd(path, cwnd, u32::MAX) => {
                write!(f, "path {path}: cwnd {cwnd} bytes, no ssthresh yet")
            }
            Self::PathCwnd(path, cwnd, ssthresh) => {
                write!(f, "path {path}: cwnd {cwnd} bytes, ssthresh {ssthresh}")
            }
            Self::Wait(why) => write!(f, "waits: {why}"),
            Self::Fired(name, None) => write!(f, "timer {name} ran out"),
            Self::Fired(name, Some(path)) => write!(f, "timer {name} of path {path} ran out"),
        }
    }
}

/// One record of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When.
    pub at: Instant,
    /// Whose, where it belongs to a socket.
    pub socket: Option<SocketId>,
    /// What.
    pub event: Ev,
}

/// A bounded ring of [`Record`]s. Disabled, it costs one branch.
#[derive(Debug, Default)]
pub struct Trace {
    ring: Vec<Record>,
    next: usize,
    /// How many there ever were.
    written: u64,
    enabled: bool,
    /// Those that come with packets are left out.
    changes_only: bool,
}

impl Trace {
    /// Starts or stops recording; the ring is allocated at the first start.
    pub fn enable(&mut self, on: bool) {
        self.enabled = on;
        self.changes_only = false;
        if on {
            self.ring.reserve_exact(TRACE_RECORDS.saturating_sub(self.ring.len()));
        }
    }

    /// Starts recording what changes alone: no packets, and no timers, which are set with each.
    pub fn enable_changes(&mut self) {
        self.enable(true);
        self.changes_only = true;
    }

    /// It records.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.enabled
    }

    /// Records `event`.
    pub fn record(&mut self, at: Instant, socket: Option<SocketId>, event: Ev) {
        if !self.enabled || (self.changes_only && event.comes_often()) {
            return;
        }
        self.written += 1;
        let record = Record { at, socket, event };
        if self.ring.len() < TRACE_RECORDS {
            self.ring.push(record);
        } else {
            self.ring[self.next] = record;
        }
        self.next = (self.next + 1) % TRACE_RECORDS;
    }

    /// How many records there ever were: where [`Trace::since`] goes on.
    #[must_use]
    pub const fn written(&self) -> u64 {
        self.written
    }

    /// What was recorded since there were `written` records, oldest first, and how many of it are no longer there.
    pub fn since(&self, written: u64) -> (u64, impl Iterator<Item = &Record>) {
        let fresh = self.written.saturating_sub(written);
        let kept = fresh.min(self.ring.len() as u64);
        (fresh - kept, self.records().skip(self.ring.len() - kept as usize))
    }

    /// The records, oldest first.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        let split = if self.ring.len() < TRACE_RECORDS { 0 } else { self.next };
        self.ring[split..].iter().chain(self.ring[..split].iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(trace: &Trace, written: u64) -> (u64, Vec<u32>) {
        let (missed, records) = trace.since(written);
        let of = |record: &Record| match record.event {
            Ev::Cwnd(cwnd, _) => cwnd,
            other => panic!("{other}"),
        };
        (missed, records.map(of).collect())
    }

    #[test]
    fn a_reader_goes_on_where_it_was_and_hears_how_much_it_missed() {
        let mut trace = Trace::default();
        let write = |trace: &mut Trace, n: u32| trace.record(Instant::ZERO, None, Ev::Cwnd(n, 0));
        write(&mut trace, 0);
        assert_eq!(trace.written(), 0, "nothing is recorded before it is asked for");
        trace.enable_changes();
        (1..=3).for_each(|n| write(&mut trace, n));
        trace.record(Instant::ZERO, None, Ev::In(1, 2, 3));
        trace.record(Instant::ZERO, None, Ev::Timer("rto", Instant::ZERO));
        assert_eq!((told(&trace, 0), told(&trace, 2)), ((0, vec![1, 2, 3]), (0, vec![3])));
        assert_eq!(told(&trace, trace.written()), (0, vec![]));
        let most = TRACE_RECORDS as u32;
        (4..=most + 10).for_each(|n| write(&mut trace, n));
        let (missed, rest) = told(&trace, 3);
        assert_eq!((missed, rest.len(), rest[0], rest.last()), (7, TRACE_RECORDS, 11, Some(&(most + 10))));
        // All of them where it is asked to have packets too.
        trace.enable(true);
        trace.record(Instant::ZERO, None, Ev::In(1, 2, 3));
        assert_eq!(trace.written(), u64::from(most) + 11);
    }

    #[test]
    fn each_flag_of_a_segment_has_its_letter() {
        assert_eq!(Ev::Out(7, 3, 0x1ff).to_string(), "> SFRPUEWA. 7:10(3)");
        assert_eq!(Ev::In(7, 0, 0).to_string(), "< - 7:7(0)");
    }
}
