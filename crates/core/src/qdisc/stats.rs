//! What `tc -s qdisc` prints: the counts that every discipline keeps, and options and details of its own as named values.
use super::look::Size;
use super::units;
use core::fmt;

/// Counts under the names of `tc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes that left, headers of all segments included.
    pub bytes: u64,
    /// Packets that left, as they are on the wire: a super-packet counts its segments.
    pub packets: u64,
    /// Packets that were given up; a super-packet counts once.
    pub drops: u64,
    /// Times that a limit or a rate held something back.
    pub overlimits: u64,
    /// Packets that a device gave back.
    pub requeues: u64,
    /// Bytes that wait.
    pub backlog: u64,
    /// Packets that wait; a super-packet counts once.
    pub qlen: u64,
}

impl Stats {
    pub(super) const fn enter(&mut self, size: Size) {
        self.backlog += size.len as u64;
        self.qlen += 1;
    }

    pub(super) const fn leave(&mut self, size: Size) {
        self.remove(size);
        self.sent(size);
    }

    pub(super) const fn sent(&mut self, size: Size) {
        self.bytes += size.len as u64;
        self.packets += size.segs as u64;
    }

    /// It is in the queue no more, and was not sent.
    pub(super) const fn remove(&mut self, size: Size) {
        self.backlog -= size.len as u64;
        self.qlen -= 1;
    }
}

/// A value with its unit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd)]
pub enum Value {
    /// A number.
    Count(u64),
    /// Packets.
    Packets(u64),
    /// Bytes.
    Bytes(u64),
    /// Bytes per second.
    Rate(u64),
    /// Nanoseconds.
    Time(u64),
    /// A part of the whole, in 2^-32.
    Share(u32),
    /// A word.
    Text(String),
    /// Nothing but its name.
    Flag,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(n) => write!(f, "{n}"),
            Self::Packets(n) => write!(f, "{n}p"),
            Self::Bytes(n) => f.write_str(&units::size_text(*n)),
            Self::Rate(n) => f.write_str(&units::rate_text(*n)),
            Self::Time(n) => f.write_str(&units::time_text(*n)),
            Self::Share(n) => f.write_str(&units::share_text(*n)),
            Self::Text(text) => f.write_str(text),
            Self::Flag => Ok(()),
        }
    }
}

/// An option or a detail of one discipline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in `tc`.
    pub name: &'static str,
    /// Its value.
    pub value: Value,
    /// It begins a line of the details.
    pub line: bool,
    /// `tc` prints the value alone.
    pub bare: bool,
    /// What `tc` prints instead of the name, where that is not unique.
    pub shown: &'static str,
}

impl Field {
    pub(super) const fn new(name: &'static str, value: Value) -> Self {
        Self { name, value, line: false, bare: false, shown: name }
    }

    pub(super) const fn bare(name: &'static str, value: Value) -> Self {
        Self { name, value, line: false, bare: true, shown: name }
    }

    pub(super) const fn line(name: &'static str, value: Value) -> Self {
        Self { name, value, line: true, bare: false, shown: name }
    }

    /// `tc` prints another name.
    pub(super) const fn shown(mut self, shown: &'static str) -> Self {
        self.shown = shown;
        self
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Value::Flag => f.write_str(self.shown),
            _ if self.bare => write!(f, "{}", self.value),
            _ => write!(f, "{} {}", self.shown, self.value),
        }
    }
}

/// One discipline as `tc -s qdisc` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its name.
    pub kind: &'static str,
    /// Its options.
    pub options: Vec<Field>,
    /// The counts that all have.
    pub stats: Stats,
    /// Its own.
    pub details: Vec<Field>,
    /// What is inside of it, a queue each.
    pub children: Vec<Report>,
}

impl Report {
    fn write(&self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        write!(f, "qdisc {} {name}", self.kind)?;
        self.options.iter().try_for_each(|option| write!(f, " {option}"))?;
        let s = &self.stats;
        writeln!(f)?;
        writeln!(
            f,
            " Sent {} bytes {} pkt (dropped {}, overlimits {} requeues {})",
            s.bytes, s.packets, s.drops, s.overlimits, s.requeues
        )?;
        write!(f, " backlog {} {}p requeues {}", units::size_text(s.backlog), s.qlen, s.requeues)?;
        for detail in &self.details {
            f.write_str(if detail.line { "\n  " } else { " " })?;
            write!(f, "{detail}")?;
        }
        for child in &self.children {
            writeln!(f)?;
            child.write(f, "parent")?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "root")
    }
}
