//! What iproute2's `nstat` prints: counters since it was called last.
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What stands among the counters and is none: nobody prints it.
const SETTINGS: [&str; 7] = [
    "IpForwarding",
    "IpDefaultTTL",
    "TcpRtoAlgorithm",
    "TcpRtoMin",
    "TcpRtoMax",
    "TcpMaxConn",
    "TcpCurrEstab",
];

/// What `nstat` remembers of its last call.
#[derive(Debug, Default)]
pub(crate) struct Nstat {
    history: BTreeMap<String, u64>,
}

/// The options of a call.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// `-a`: since the beginning.
    absolute: bool,
    /// `-n`: nothing is printed.
    quiet: bool,
    /// `-r`: what is remembered is forgotten first.
    reset: bool,
    /// `-s`: nothing is remembered.
    keep: bool,
    /// `-z`: counters that have not changed, too.
    zeros: bool,
    /// Wildcards: names of which one fits are printed.
    patterns: Vec<String>,
}

impl Nstat {
    /// A call with these words behind the name; what it prints.
    ///
    /// # Errors
    /// Options that cannot be had, in a sentence.
    pub(crate) fn call(&mut self, words: &[String], now: &[(String, u64)]) -> Result<String, String> {
        let options = Options::parse(words)?;
        if options.reset {
            self.history.clear();
        }
        let printed = if options.quiet { String::new() } else { self.text(&options, now) };
        if !options.keep {
            self.history = now.iter().cloned().collect();
        }
        Ok(printed)
    }

    fn text(&self, options: &Options, now: &[(String, u64)]) -> String {
        let mut text = "#kernel\n".to_owned();
        let any = options.patterns.is_empty();
        for (name, value) in now {
            let before = if options.absolute { 0 } else { self.history.get(name).copied().unwrap_or(0) };
            let value = value.saturating_sub(before);
            let shown =
                any || options.patterns.iter().any(|pattern| fits(pattern.as_bytes(), name.as_bytes()));
            if shown && !SETTINGS.contains(&name.as_str()) && (value != 0 || options.zeros) {
                // The last column is a rate, which only its daemon knows.
                let _ = writeln!(text, "{name:<32}{value:<16}{:>6}", "0.0");
            }
        }
        text
    }
}

impl Options {
    fn parse(words: &[String]) -> Result<Self, String> {
        let (mut options, mut words) = (Self::default(), words.iter().map(String::as_str));
        while let Some(word) = words.next() {
            match (word.strip_prefix("--"), word.strip_prefix('-')) {
                (Some(""), _) => options.patterns.extend(words.by_ref().map(str::to_owned)),
                (Some(long), _) => options.long(long)?,
                (None, Some(letters)) if !letters.is_empty() => {
                    letters.chars().try_for_each(|letter| options.letter(letter))?;
                }
                _ => options.patterns.push(word.to_owned()),
            }
        }
        Ok(options)
    }

    fn long(&mut self, name: &str) -> Result<(), String> {
        let known = ["ignore", "nooutput", "reset", "noupdate", "zeros"];
        let letter = known.into_iter().zip("anrsz".chars()).find(|(long, _)| *long == name);
        letter.map_or_else(|| refused(&format!("--{name}")), |(_, letter)| self.letter(letter))
    }

    fn letter(&mut self, letter: char) -> Result<(), String> {
        match letter {
            'a' => self.absolute = true,
            'n' => self.quiet = true,
            'r' => self.reset = true,
            's' => self.keep = true,
            'z' => self.zeros = true,
            letter => return refused(&format!("-{letter}")),
        }
        Ok(())
    }
}

fn refused(option: &str) -> Result<(), String> {
    Err(format!("nstat {option} cannot be had here: there are -a, -n, -r, -s, -z and patterns"))
}

/// `*` is anything, `?` one byte; letters of both cases are alike, as `nstat` has it.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    // The rows of the usual table of one prefix of the pattern after the other: linear in both.
    let mut row = vec![false; name.len() + 1];
    row[0] = true;
    for p in pattern {
        if *p == b'*' {
            let first = row.iter().position(|fits| *fits).unwrap_or(row.len());
            row[first..].fill(true);
            continue;
        }
        for i in (0..name.len()).rev() {
            row[i + 1] = row[i] && (*p == b'?' || p.eq_ignore_ascii_case(&name[i]));
        }
        row[0] = false;
    }
    row[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(timeouts: u64) -> Vec<(String, u64)> {
        let all = [
            ("TcpCurrEstab", 1),
            ("TcpActiveOpens", 3),
            ("TcpExtTCPTimeouts", timeouts),
            ("TcpExtTCPSACKReorder", 0),
        ];
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Names and values of the lines below the head.
    fn said(nstat: &mut Nstat, words: &str, timeouts: u64) -> Vec<(String, u64)> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let text = nstat.call(&words, &counters(timeouts)).unwrap();
        let pair = |line: &str| {
            let mut words = line.split_whitespace();
            (words.next().unwrap().to_owned(), words.next().unwrap().parse().unwrap())
        };
        text.lines().skip(1).map(pair).collect()
    }

    #[test]
    fn the_lines_are_nstats_own() {
        let printed = Nstat::default().call(&[], &counters(2)).unwrap();
        let lines = [
            "#kernel",
            "TcpActiveOpens                  3                  0.0",
            "TcpExtTCPTimeouts               2                  0.0",
        ];
        assert_eq!(printed.lines().collect::<Vec<_>>(), lines);
        assert_eq!(Nstat::default().call(&["-n".to_owned()], &counters(2)).unwrap(), "");
    }

    /// As iproute2 6.15 does with files that change in the same way.
    #[test]
    fn changes_are_since_the_last_call_that_remembers() {
        let nstat = &mut Nstat::default();
        let pair = |name: &str, value| (name.to_owned(), value);
        assert_eq!(said(nstat, "-n", 2), []);
        assert_eq!(said(nstat, "", 2), []);
        assert_eq!(said(nstat, "-s", 7), [pair("TcpExtTCPTimeouts", 5)]);
        assert_eq!(said(nstat, "", 7), [pair("TcpExtTCPTimeouts", 5)]);
        assert_eq!(said(nstat, "", 7), []);
        let all = [pair("TcpActiveOpens", 3), pair("TcpExtTCPTimeouts", 8)];
        assert_eq!(said(nstat, "-a", 8), all);
        assert_eq!(said(nstat, "", 8), []);
        assert_eq!(said(nstat, "--reset", 8), all);
        assert_eq!(said(nstat, "-z tcp*reorder", 8), [pair("TcpExtTCPSACKReorder", 0)]);
        assert_eq!(said(nstat, "-az TcpExtTCPTimeout?", 8), [pair("TcpExtTCPTimeouts", 8)]);
        assert_eq!(said(nstat, "-az TcpExtTCPTimeout", 8), []);
    }

    #[test]
    fn what_cannot_be_had_is_refused() {
        for words in ["-j", "-zq", "--json", "-d"] {
            let why = Nstat::default().call(&[words.to_owned()], &[]).unwrap_err();
            assert!(why.contains("-a, -n, -r, -s, -z"), "{why}");
        }
    }

    #[test]
    fn patterns_fit_as_fnmatch_has_them() {
        for (pattern, name, result) in [
            ("*", "", true),
            ("", "a", false),
            ("a*b*c", "aXbYbc", true),
            ("a*b*c", "aXbYbcd", false),
            ("**?", "", false),
            ("TCP?xt*", "TcpExt", true),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), result, "{pattern} {name}");
        }
    }
}
