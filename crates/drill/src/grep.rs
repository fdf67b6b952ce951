//! `grep` as scripts put it behind `nstat`: lines in which a pattern is found.
use regex_lite::{Regex, RegexBuilder};
use std::iter::Peekable;
use std::str::Chars;

/// What a basic regular expression has behind a backslash, and an extended one alone.
const OPERATORS: &str = "(){}|+?";

/// Which language a pattern is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Basic,
    Extended,
    /// No language: the pattern is what is looked for.
    Fixed,
}

/// The words of a call, read.
#[derive(Debug)]
pub(crate) struct Grep {
    patterns: Vec<Regex>,
    /// `-v`: lines without the pattern.
    inverted: bool,
    /// `-q`: nothing is printed.
    quiet: bool,
    /// `-c`: how many lines there are is printed.
    count: bool,
}

impl Grep {
    /// Reads the words behind the name.
    ///
    /// # Errors
    /// What cannot be had, or is no pattern, in a sentence.
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let (mut letters, mut patterns, mut operands) = (String::new(), Vec::new(), Vec::new());
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word.strip_prefix('-') {
                Some("-") => operands.extend(words.by_ref()),
                Some(cluster) if !cluster.is_empty() && operands.is_empty() => {
                    let (before, pattern) = cluster.split_once('e').unwrap_or((cluster, ""));
                    letters += before;
                    if before.len() < cluster.len() {
                        let next = if pattern.is_empty() { words.next() } else { Some(pattern) };
                        patterns.push(next.ok_or("grep -e needs a pattern behind it")?);
                    }
                }
                _ => operands.push(word),
            }
        }
        if let Some(letter) = letters.chars().find(|letter| !"EFGchiqsvwx".contains(*letter)) {
            return Err(format!(
                "grep -{letter} cannot be had here: there are -E, -F, -G, -c, -e, -h, -i, -q, -s, -v, -w, -x"
            ));
        }
        if patterns.is_empty() && !operands.is_empty() {
            patterns.push(operands.remove(0));
        }
        if let Some(file) = operands.first() {
            return Err(format!("grep reads what stands before the |, not the file '{file}'"));
        }
        if patterns.is_empty() {
            return Err("grep needs a pattern".to_owned());
        }
        let has = |letter| letters.contains(letter);
        Ok(Self {
            patterns: patterns.iter().map(|p| regex(p, &letters)).collect::<Result<_, _>>()?,
            inverted: has('v'),
            quiet: has('q'),
            count: has('c'),
        })
    }

    /// What it prints of `text`, and whether it has found anything.
    pub(crate) fn lines_of(&self, text: &str) -> (String, bool) {
        let found = |line: &&str| self.patterns.iter().any(|p| p.is_match(line)) != self.inverted;
        let lines: Vec<&str> = text.lines().filter(found).collect();
        let printed = match (self.quiet, self.count) {
            (true, _) => String::new(),
            (false, true) => format!("{}\n", lines.len()),
            (false, false) => lines.iter().map(|line| format!("{line}\n")).collect(),
        };
        (printed, !lines.is_empty())
    }
}

fn regex(pattern: &str, letters: &str) -> Result<Regex, String> {
    let language = match letters.rfind(['E', 'F', 'G']).map(|at| &letters[at..=at]) {
        Some("E") => Language::Extended,
        Some("F") => Language::Fixed,
        _ => Language::Basic,
    };
    let told = |why: &dyn core::fmt::Display| format!("grep: '{pattern}' is no pattern: {why}");
    // For grep each of its lines is one.
    if pattern.contains('\n') {
        return Err(told(&"it has more than a line; -e takes one each"));
    }
    let mut text = match language {
        Language::Basic => translated(pattern, true).map_err(|why| told(&why))?,
        Language::Extended => translated(pattern, false).map_err(|why| told(&why))?,
        Language::Fixed => regex_lite::escape(pattern),
    };
    if letters.contains('w') {
        text = format!(r"(?:^|\W)(?:{text})(?:\W|$)");
    }
    if letters.contains('x') {
        text = format!("^(?:{text})$");
    }
    let built = RegexBuilder::new(&text).case_insensitive(letters.contains('i')).build();
    built.map_err(|e| told(&e))
}

/// A pattern of POSIX in the words of the library, which differ from those of an extended regular expression in sets alone. In a basic one the
/// operators `( ) { } | + ?` have a backslash in front. What the library would read as something else than grep is refused.
///
/// # Errors
/// What cannot be had, in a sentence.
fn translated(pattern: &str, basic: bool) -> Result<String, String> {
    let (mut text, mut chars) = (String::new(), pattern.chars().peekable());
    // Nothing stands before it that could be repeated: the beginning, of the whole or of a part. And what stands there is a repetition.
    let (mut begins, mut repeats) = (true, false);
    while let Some(c) = chars.next() {
        let operator = match c {
            '[' => {
                set(&mut text, &mut chars)?;
                None
            }
            '\\' => match chars.next() {
                Some(operator) if basic && OPERATORS.contains(operator) => Some(operator),
                Some('<' | '>') => {
                    text += r"\b";
                    None
                }
                Some(other) if is_foreign(other) => return Err(format!("\\{other} cannot be had here")),
                Some(other) => {
                    text.extend(['\\', other]);
                    None
                }
                None => return Err("a backslash stands at the end".to_owned()),
            },
            // In a basic expression anchors are such at the ends alone, and a star with nothing before it is one.
            '^' if !basic || begins => {
                text.push('^');
                begins = true;
                continue;
            }
            '$' if basic && !ends(&chars) => {
                text += r"\$";
                None
            }
            '^' | '*' if basic && (c == '^' || begins) => {
                text.extend(['\\', c]);
                None
            }
            '*' => Some('*'),
            c if OPERATORS.contains(c) && !basic => Some(c),
            c if OPERATORS.contains(c) => {
                text.extend(['\\', c]);
                None
            }
            c => {
                text.push(c);
                None
            }
        };
        let again = operator.is_some_and(|operator| "*+?{".contains(operator));
        if again && (begins || repeats) {
            return Err("there is nothing before a repetition, or another one".to_owned());
        }
        text.extend(operator);
        begins = operator.is_some_and(|operator| "(|".contains(operator));
        repeats = again || operator == Some('}');
    }
    Ok(text)
}

/// What has another meaning for the library behind a backslash than for grep.
const fn is_foreign(c: char) -> bool {
    !matches!(c, 'w' | 'W' | 's' | 'S' | 'b' | 'B') && (!c.is_ascii_punctuation() || matches!(c, '`' | '\''))
}

/// A basic expression, or a part of it, ends here.
fn ends(rest: &Peekable<Chars<'_>>) -> bool {
    let mut rest = rest.clone();
    match rest.next() {
        None => true,
        Some(c) => c == '\\' && matches!(rest.next(), Some(')' | '|')),
    }
}

/// The characters of a set, up to its end: a backslash is one of them, and so is `]` where it comes first.
///
/// # Errors
/// What cannot be had, in a sentence.
fn set(text: &mut String, chars: &mut Peekable<Chars<'_>>) -> Result<(), String> {
    let from = text.len();
    text.push('[');
    text.extend(chars.next_if_eq(&'^'));
    let mut first = true;
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            (']', _) if !first => {
                let inner = text.get(from + 1..).unwrap_or_default();
                if inner.len() > 1 && inner.starts_with(':') && inner.ends_with(':') {
                    return Err(format!("a class of characters is [[:space:]], not [{inner}]"));
                }
                text.push(']');
                return Ok(());
            }
            // [:alpha:] and the like.
            ('[', Some(':')) => {
                text.push('[');
                for c in chars.by_ref() {
                    text.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            ('[', Some(kind @ ('.' | '='))) => return Err(format!("[{kind} cannot be had here")),
            (']' | '[' | '\\' | '&' | '~', _) => text.extend(['\\', c]),
            (c, _) => text.push(c),
        }
        first = false;
    }
    Err("a set has no end".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    fn words(text: &str) -> Vec<String> {
        text.split('~').map(str::to_owned).collect()
    }

    const TEXT: &str = "#kernel\nTcpActiveOpens                  3                  0.0\n\
        TcpExtTCPTimeouts               12                 0.0\nTcpExtTCPRcvQDrop               1                  0.0\n\
        a+b(c){1}|?*[x] \\ .\na^b$c a*c\n";

    /// As the system's grep does it.
    #[test]
    fn what_is_found_is_what_grep_finds() {
        for call in [
            "Timeouts",
            "-q~TcpExtTCPRcvQDrop",
            "-q~nothing",
            "-c~Tcp",
            "-v~Tcp",
            "-vc~Tcp",
            "-i~tcpext",
            "-E~Timeouts +12 ",
            "Timeouts +12",
            r"Timeouts \+12",
            r"TcpExtTCP\(Timeouts\|RcvQDrop\) *1",
            "TcpExtTCP(Timeouts|RcvQDrop) *1",
            "-E~TcpExtTCP(Timeouts|RcvQDrop) *1",
            r"Drop[ ]\{5,\}1",
            "-w~1",
            "-w~2",
            "-w~TcpExtTCPTimeouts",
            "-x~#kernel",
            "-x~kernel",
            "-F~(c){1}",
            "-F~c.{1}",
            "?*",
            "^#",
            "0$",
            "[[:space:]]1[[:space:]]",
            r"[]x]",
            r"[^]x\]$",
            r"[\\]",
            r"\.",
            r"\<Tcp",
            "-e~Active~-e~RcvQ",
            "-eActive",
            "-qe~Active",
            "-Eq~(12|13)",
            "--~-q",
            "a^b",
            "b$c",
            r"a\^b\$c",
            "-E~a^b",
            r"-E~a\^b",
            r"\(^a\)",
            r"x\|^a",
            r"\(c$\)",
            r"c$\|x",
            "^*c",
            r"\(*c\)",
            "a*c$",
            r"Act\w*\s",
            r"Act\W",
            r"\bTcpA",
            r"\BActive",
            r"Opens\>",
        ] {
            let mut grep = Command::new("grep")
                .env("LC_ALL", "C")
                .args(words(call))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            // One that has found what it looks for reads no further.
            let _ = grep.stdin.take().unwrap().write_all(TEXT.as_bytes());
            let theirs = grep.wait_with_output().unwrap();
            let (printed, found) =
                Grep::parse(&words(call)).unwrap_or_else(|e| panic!("{call}: {e}")).lines_of(TEXT);
            assert_eq!(
                (printed, found),
                (String::from_utf8(theirs.stdout).unwrap(), theirs.status.success()),
                "{call}"
            );
        }
    }

    #[test]
    fn what_cannot_be_had_is_refused() {
        for (call, why) in [
            ("-o~x", "grep -o"),
            ("-q", "a pattern"),
            ("-e", "behind it"),
            ("x~file", "'file'"),
            ("-E~(", "no pattern"),
            ("*[x", "no end"),
            (r"\d", r"\d"),
            (r"-E~\t", r"\t"),
            (r"\n", r"\n"),
            (r"\x41", r"\x"),
            (r"\pL", r"\p"),
            (r"\(a\)\1", r"\1"),
            (r"\'", r"\'"),
            (r"a\", "backslash"),
            ("[[.a.]]", "[."),
            ("[[=a=]]", "[="),
            ("[:space:]", "[[:space:]]"),
            ("-E~(?i)x", "repetition"),
            (r"\(\?i\)", "repetition"),
            ("-E~a+?", "repetition"),
            ("-E~a{2}?", "repetition"),
            ("-E~*a", "repetition"),
            ("a\nb", "more than a line"),
            ("-F~a\nb", "more than a line"),
        ] {
            let told = Grep::parse(&words(call)).unwrap_err();
            assert!(told.contains(why), "{call}: {told}");
        }
    }
}
