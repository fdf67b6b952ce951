//! What TCP's counters said where there was time between two lines of a script, and how two runs of it differ in the end.
use super::told;
use crate::failure::Failure;
use std::collections::{BTreeMap, BTreeSet};

/// Counters of Linux that say nothing of how the stack behaves, and why. docs/drill.md has the same table.
pub(super) const NOT_COMPARED: &[(&str, &str)] = &[
    ("TcpRtoAlgorithm", "a setting"),
    ("TcpRtoMin", "a setting"),
    ("TcpRtoMax", "a setting"),
    ("TcpMaxConn", "a setting"),
    ("TcpCurrEstab", "how many there are now, which is no counter: `Sockstat` and `ss` tell it"),
    (
        "TcpExtDelayedACKLocked",
        "a delayed acknowledgement found the socket in use by a call: a stack has one thread",
    ),
    ("TcpExtTCPBacklogCoalesce", "what came while a call used the socket, joined"),
    ("TcpExtTCPBacklogDrop", "what came while a call used the socket and found no room"),
    ("TcpExtTCPRcvCoalesce", "buffers that wait to be read, joined: ours share their memory instead"),
    ("TcpExtTCPSackMerged", "buffers of what was sent, joined as SACKs come: ours are ranges"),
    ("TcpExtTCPSackShiftFallback", "the same, where they could not be"),
    ("TcpExtTCPSackShifted", "the same, in part"),
];

/// So begin the names of TCP's, of groups `Tcp` and `TcpExt`.
const OF_TCP: &str = "Tcp";

/// Whether a counter of Linux's, by its name in `nstat`, is one of TCP's that says how a stack behaves: docs/drill.md lists those that do not.
#[must_use]
pub fn is_compared(counter: &str) -> bool {
    counter.starts_with(OF_TCP) && NOT_COMPARED.iter().all(|(not, _)| *not != counter)
}

/// What a target has told of its counters after a line.
///
/// # Errors
/// They cannot be read, or there are none of TCP's.
pub(super) fn read(
    line: usize,
    told: Result<Vec<(String, u64)>, String>,
) -> Result<Vec<(String, u64)>, Box<Failure>> {
    let told = told.and_then(|told| match told.iter().any(|(name, _)| is_compared(name)) {
        true => Ok(told),
        false => Err("there are none of TCP's".to_owned()),
    });
    told.map_err(|why| Failure::new(line, format!("counters cannot be compared: {why}")))
}

/// Counters by the names of `nstat`.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// Those that there are.
    known: BTreeSet<String>,
    /// By how much each that moved had moved, after the lines where that was seen.
    moves: BTreeMap<String, Vec<(usize, u64)>>,
    /// By how much each had moved when the run was no longer watched.
    end: BTreeMap<String, u64>,
}

impl Counted {
    /// What they say after a line.
    pub(super) fn note(&mut self, line: usize, counters: Vec<(String, u64)>) {
        for (name, moved) in counters.into_iter().filter(|(name, _)| is_compared(name)) {
            if moved != self.last(&name) {
                self.moves.entry(name.clone()).or_default().push((line, moved));
            }
            self.known.insert(name);
        }
    }

    /// What they say when the run is no longer watched.
    pub(super) fn note_last(&mut self, counters: Vec<(String, u64)>) {
        self.end = counters.into_iter().filter(|(name, _)| is_compared(name)).collect();
    }

    fn last(&self, name: &str) -> u64 {
        self.moves.get(name).and_then(|moves| moves.last()).map_or(0, |(_, moved)| *moved)
    }

    /// Both had counted the same when they were no longer watched: what is due just after the last line is on one side of a look here and on the
    /// other side there.
    fn ends_as(&self, other: &Self, name: &str) -> bool {
        self.end.get(name).zip(other.end.get(name)).is_some_and(|(mine, theirs)| mine == theirs)
    }

    /// By how much a counter had moved after a line.
    fn until(&self, name: &str, line: usize) -> u64 {
        let moves = self.moves.get(name).map(Vec::as_slice).unwrap_or_default();
        moves.iter().take_while(|(at, _)| *at <= line).last().map_or(0, |(_, moved)| *moved)
    }

    /// Lines after which it was seen that a counter had moved.
    fn lines<'n>(&'n self, name: &str) -> impl Iterator<Item = usize> + 'n {
        self.moves.get(name).into_iter().flatten().map(|(line, _)| *line)
    }
}

/// Lines that name what differs in the end, `-` only in `a` and `+` only in `b`, below the line since which it does. Empty when nothing
/// does. One that `b` does not know is left out: each kernel has more than those before it.
pub(super) fn differences(a: &Counted, b: &Counted, text: &str) -> Vec<String> {
    let told = apart(a, b, text).into_iter().flat_map(|(line, names)| {
        let source = text.lines().nth(line.saturating_sub(1)).unwrap_or_default().trim();
        let head = format!("  counters in the end, which are apart when line {line} is over: {source}");
        core::iter::once(head).chain(names.into_iter().flatten())
    });
    told.collect()
}

/// The first line since which a counter differs in the end.
pub(super) fn first(a: &Counted, b: &Counted, text: &str) -> Option<usize> {
    apart(a, b, text).into_keys().next()
}

/// What differs in the end, by the line since which it does.
fn apart(a: &Counted, b: &Counted, text: &str) -> BTreeMap<usize, Vec<[String; 2]>> {
    if a.known.is_empty() {
        return BTreeMap::new();
    }
    let unlike = told::unlike(text);
    let mut found: BTreeMap<usize, Vec<[String; 2]>> = BTreeMap::new();
    for name in b.known.iter().filter(|name| !unlike.contains(&name.as_str())) {
        let (mine, theirs) = (a.last(name), b.last(name));
        if mine == theirs || a.ends_as(b, name) {
            continue;
        }
        let lines: BTreeSet<usize> = a.lines(name).chain(b.lines(name)).collect();
        let apart = |line: &usize| a.until(name, *line) != b.until(name, *line);
        let since = lines.into_iter().rev().take_while(apart).last().unwrap_or_default();
        let mine = if a.known.contains(name) { mine.to_string() } else { "is not counted".to_owned() };
        found.entry(since).or_default().push([format!("- {name} {mine}"), format!("+ {name} {theirs}")]);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCS: &str = include_str!("../../../../docs/drill.md");

    fn at(pure: u64, segs: u64) -> Vec<(String, u64)> {
        vec![("TcpExtTCPPureAcks".to_owned(), pure), ("TcpInSegs".to_owned(), segs)]
    }

    fn run(notes: &[(usize, u64, u64)]) -> Counted {
        let mut counted = Counted::default();
        notes.iter().for_each(|(line, pure, segs)| counted.note(*line, at(*pure, *segs)));
        counted
    }

    #[test]
    fn what_is_apart_in_the_end_is_told_with_the_line_since_which_it_is() {
        // The second is late by a line once, and counts one more from line 3 on.
        let a = run(&[(1, 1, 1), (2, 2, 2), (3, 2, 3), (4, 3, 4)]);
        let b = run(&[(1, 0, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4)]);
        assert_eq!(
            differences(&a, &b, "one\ntwo\nthree\nfour\n"),
            [
                "  counters in the end, which are apart when line 3 is over: three",
                "- TcpExtTCPPureAcks 3",
                "+ TcpExtTCPPureAcks 4"
            ]
        );
        assert!(differences(&a, &a, "one\n").is_empty());
    }

    #[test]
    fn what_is_the_same_when_nobody_watches_any_more_was_only_looked_at_too_early() {
        let ended = |notes: &[(usize, u64, u64)], (pure, segs)| {
            let mut counted = run(notes);
            counted.note_last(at(pure, segs));
            counted
        };
        let (a, b) = (ended(&[(1, 1, 1)], (2, 1)), ended(&[(1, 2, 1)], (2, 1)));
        assert!(differences(&a, &b, "one\n").is_empty());
        let told = |a: &Counted, b: &Counted| differences(a, b, "one\n").len();
        assert_eq!(told(&ended(&[(1, 1, 1)], (1, 1)), &b), 3, "it is apart to the end");
        assert_eq!(told(&run(&[(1, 1, 1)]), &b), 3, "nobody looked again");
    }

    #[test]
    fn what_cannot_be_read_is_a_failure() {
        assert!(read(1, Ok(at(0, 0))).is_ok());
        let none = vec![("IpInReceives".to_owned(), 3), ("TcpRtoMin".to_owned(), 200)];
        for (told, why) in
            [(Ok(none), "none of TCP's"), (Ok(Vec::new()), "none"), (Err("no file".to_owned()), "no file")]
        {
            let failure = read(7, told).unwrap_err();
            assert_eq!(failure.line, 7);
            assert!(failure.what.contains("counters cannot be compared") && failure.what.contains(why));
        }
    }

    #[test]
    fn a_script_may_say_why_one_differs() {
        let (a, b) = (run(&[(1, 1, 1)]), run(&[(1, 2, 2)]));
        let names = |text| {
            let told = differences(&a, &b, text).into_iter().filter(|line| line.starts_with('+'));
            told.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(names("one\n"), "+ TcpExtTCPPureAcks 2, + TcpInSegs 2");
        assert_eq!(names("// unlike the kernel in rtt, TcpExtTCPPureAcks: because\n"), "+ TcpInSegs 2");
    }

    #[test]
    fn what_the_kernel_lacks_is_left_out_and_what_the_stack_lacks_is_not() {
        let both = run(&[(1, 1, 1)]);
        let mut old = Counted::default();
        old.note(1, vec![("TcpInSegs".to_owned(), 1)]);
        assert!(differences(&both, &old, "one\n").is_empty());
        let told = differences(&old, &both, "one\n");
        assert_eq!(told[1..], ["- TcpExtTCPPureAcks is not counted", "+ TcpExtTCPPureAcks 1"]);
        assert!(differences(&Counted::default(), &both, "one\n").is_empty(), "nothing could be asked");
    }

    #[test]
    fn the_page_has_the_same_table() {
        let rows = DOCS.lines().filter_map(|line| line.strip_prefix("| `Tcp")?.strip_suffix(" |"));
        let told: Vec<String> = rows.map(|row| format!("Tcp{row}")).collect();
        let have: Vec<String> = NOT_COMPARED.iter().map(|(name, why)| format!("{name}` | {why}")).collect();
        assert_eq!(told, have);
    }
}
