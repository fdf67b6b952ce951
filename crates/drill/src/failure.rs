//! Why a script failed, with all that is needed to understand it.
use crate::config::{Overrides, quoted};
use std::fmt;

/// Where a script failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Ran {
    /// It could not be read: nothing ran.
    Nowhere,
    /// Against the stack.
    #[default]
    Stack,
    /// Against the kernel of the host.
    Kernel,
    /// Against both, and what they send was compared.
    Compared,
}

/// The first thing in a script that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Failure {
    /// Path of the script.
    pub script: String,
    /// Line, from 1; 0 where it is about the script as a whole.
    pub line: usize,
    /// The text of that line.
    pub source: String,
    /// What is wrong.
    pub what: String,
    /// What the script says; empty where the message says it all.
    pub expected: String,
    /// What happened; empty where the message says it all.
    pub actual: String,
    /// The last packets, in the script's own numbers, oldest first.
    pub packets: Vec<String>,
    /// What two runs tell otherwise of the same packets, oldest first.
    pub told: Vec<String>,
    /// The last records of the stack's flight recorder, oldest first.
    pub trace: Vec<String>,
    /// What print() in snippets said.
    pub printed: Vec<String>,
    /// What the command line said over the script.
    pub over: Overrides,
    /// Where it failed.
    pub ran: Ran,
}

impl Failure {
    /// A failure that its message explains.
    pub(crate) fn new(line: usize, what: impl Into<String>) -> Box<Self> {
        Box::new(Self { line, what: what.into(), ..Self::default() })
    }

    /// Both are of one line and have the same words; packets, times and addresses aside.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.line == other.line
            && self.script == other.script
            && self.what == other.what
            && self.expected == other.expected
            && self.actual == other.actual
    }

    /// A difference between what the script says and what happened.
    pub(crate) fn differs(
        line: usize,
        what: impl Into<String>,
        expected: impl Into<String>,
        actual: impl Into<String>,
    ) -> Box<Self> {
        let mut failure = Self::new(line, what);
        failure.expected = expected.into();
        failure.actual = actual.into();
        failure
    }

    /// The script could not be read.
    pub(crate) fn unread(mut self: Box<Self>) -> Box<Self> {
        self.ran = Ran::Nowhere;
        self
    }

    /// Says where it happened.
    pub(crate) fn in_script(mut self: Box<Self>, name: &str, text: &str) -> Box<Self> {
        name.clone_into(&mut self.script);
        let source = self.line.checked_sub(1).and_then(|at| text.lines().nth(at)).unwrap_or_default();
        source.trim().clone_into(&mut self.source);
        self
    }

    /// It failed there, unless it could not be read.
    pub fn ran_on(&mut self, ran: Ran) {
        if self.ran != Ran::Nowhere {
            self.ran = ran;
        }
    }

    /// The command that runs this script alone.
    #[must_use]
    pub fn alone(&self) -> String {
        let against = match self.ran {
            Ran::Nowhere | Ran::Stack => "",
            Ran::Kernel => "--kernel ",
            Ran::Compared => "--kernel --compare ",
        };
        format!("lowwater drill {against}{}{}", self.over, quoted(&self.script))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            return write!(f, "{}: {}", self.script, self.what);
        }
        writeln!(f, "{}:{}: {}", self.script, self.line, self.what)?;
        if !self.source.is_empty() {
            writeln!(f, "  line:     {}", self.source)?;
        }
        if !(self.expected.is_empty() && self.actual.is_empty()) {
            writeln!(f, "  expected: {}", self.expected)?;
            writeln!(f, "  actual:   {}", self.actual)?;
        }
        let packets = if self.ran == Ran::Compared { "packets" } else { "last packets" };
        let parts = [
            (packets, &self.packets),
            ("told otherwise", &self.told),
            ("last trace", &self.trace),
            ("printed", &self.printed),
        ];
        for (title, lines) in parts {
            if !lines.is_empty() {
                writeln!(f, "  {title}:")?;
            }
            for line in lines {
                writeln!(f, "    {line}")?;
            }
        }
        write!(f, "  alone:    {}", self.alone())
    }
}

impl std::error::Error for Failure {}
