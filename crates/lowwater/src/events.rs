//! What changes in the stack's connections and associations, told to the program.
use lowwater_core::base::trace::{Ev, Record};
use lowwater_core::base::{Instant, SocketId};
use lowwater_core::stack::Stack as Core;
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// Sockets whose addresses are remembered for events that come when they are gone; beyond that all are forgotten, and
/// looked up again.
const NAMED_MAX: usize = 16_384;

/// A connection or an association has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// When, since the stack began.
    pub at: Duration,
    /// Our address, where it was known.
    pub local: Option<SocketAddr>,
    /// The peer's, where it was known.
    pub remote: Option<SocketAddr>,
    /// What has changed: print it, or match the kinds that are of interest ([`Ev`] will have more).
    pub what: Ev,
    /// So many events just before this one were lost: more came at a time than the stack keeps.
    pub missed: u64,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.at.as_micros();
        write!(f, "{}.{:06} ", us / 1_000_000, us % 1_000_000)?;
        match (self.local, self.remote) {
            (Some(local), Some(remote)) => write!(f, "{local} > {remote}: {}", self.what)?,
            (Some(local), None) => write!(f, "{local}: {}", self.what)?,
            _ => write!(f, "{}", self.what)?,
        }
        if self.missed > 0 { write!(f, " ({} before it were lost)", self.missed) } else { Ok(()) }
    }
}

/// Our address and the peer's.
type Ends = (Option<SocketAddr>, Option<SocketAddr>);

/// Who is told, and what was not told yet.
pub(crate) struct Told {
    hook: Box<dyn FnMut(&Event) + Send>,
    /// Records that were seen.
    seen: u64,
    events: Vec<Event>,
    names: HashMap<SocketId, Ends>,
}

impl Told {
    pub(crate) fn new(hook: Box<dyn FnMut(&Event) + Send>) -> Self {
        Self { hook, seen: 0, events: Vec::new(), names: HashMap::new() }
    }

    /// Takes over what was recorded since the last time. Under the stack's lock: the hook runs later.
    pub(crate) fn gather(&mut self, core: &Core) {
        let trace = core.trace();
        if trace.written() == self.seen {
            return;
        }
        let (mut missed, records) = trace.since(self.seen);
        self.seen = trace.written();
        for record in records {
            let (local, remote) = ends(&mut self.names, core, record);
            let at = Duration::from_nanos(record.at.nanos_since(Instant::ZERO));
            let missed = core::mem::take(&mut missed);
            self.events.push(Event { at, local, remote, what: record.event, missed });
        }
    }

    /// There is something to tell.
    pub(crate) fn has_news(&self) -> bool {
        !self.events.is_empty()
    }

    /// Tells what was taken over. Without a lock: the hook may ask the stack.
    pub(crate) fn tell(&mut self) {
        self.events.iter().for_each(|event| (self.hook)(event));
        self.events.clear();
    }
}

/// The ends of a record's socket, as they are or, where it is gone, as they were.
fn ends(names: &mut HashMap<SocketId, Ends>, core: &Core, record: &Record) -> Ends {
    let Some(id) = record.socket else { return (None, None) };
    let now = (core.local_addr(id).ok(), core.peer_addr(id).ok());
    if now.0.is_none() && now.1.is_none() {
        return names.get(&id).copied().unwrap_or_default();
    }
    if names.len() >= NAMED_MAX {
        names.clear();
    }
    let name = names.entry(id).or_default();
    *name = (now.0.or(name.0), now.1.or(name.1));
    *name
}
