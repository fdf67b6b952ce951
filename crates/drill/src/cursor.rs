//! A place in a script's text: skips blanks and comments, reads words and numbers, knows its line.
use crate::failure::Failure;

/// A reader of a script's text.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

/// What stands behind the blanks and comments that `text` begins with.
pub(crate) fn past_blanks(mut text: &str) -> &str {
    loop {
        let spaces = text.len() - text.trim_start().len();
        let n = if spaces > 0 {
            spaces
        } else if text.starts_with("//") || text.starts_with('#') {
            text.find('\n').unwrap_or(text.len())
        } else if let Some(end) = text.strip_prefix("/*").and_then(|inside| inside.find("*/")) {
            end + 4
        } else {
            // A comment that never ends is none: whoever comes upon it says so.
            return text;
        };
        text = &text[n..];
    }
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(text: &'a str, line: usize) -> Self {
        Self { text, at: 0, line }
    }

    /// The line of what comes next.
    pub(crate) const fn line(&self) -> usize {
        self.line
    }

    /// The text that is left, from here.
    pub(crate) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(crate) fn peek(&self) -> char {
        self.rest().chars().next().unwrap_or('\0')
    }

    pub(crate) fn fail<T>(&self, what: impl Into<String>) -> Result<T, Box<Failure>> {
        if self.rest().starts_with("/*") {
            return Err(Failure::new(self.line, "no '*/' ends the comment that begins here"));
        }
        Err(Failure::new(self.line, what))
    }

    /// Goes on by `n` bytes, which must be a boundary of characters.
    pub(crate) fn skip(&mut self, n: usize) -> &'a str {
        let taken = &self.text[self.at..self.at + n];
        self.line += taken.matches('\n').count();
        self.at += n;
        taken
    }

    /// Skips blanks and comments.
    pub(crate) fn blank(&mut self) {
        let n = self.rest().len() - past_blanks(self.rest()).len();
        self.skip(n);
    }

    /// Takes `token`, blanks before it skipped, if it is next.
    pub(crate) fn eat(&mut self, token: &str) -> bool {
        self.blank();
        let here = self.rest().starts_with(token);
        if here {
            self.skip(token.len());
        }
        here
    }

    /// Takes `token` if it is next, without a blank before it.
    pub(crate) fn eat_here(&mut self, token: &str) -> bool {
        let here = self.rest().starts_with(token);
        if here {
            self.skip(token.len());
        }
        here
    }

    /// Takes `token` or fails.
    pub(crate) fn expect(&mut self, token: &str) -> Result<(), Box<Failure>> {
        let line = self.line;
        if self.eat(token) {
            return Ok(());
        }
        let next = self.next_words();
        if line != self.line && !next.starts_with("/*") {
            // What lacks it is what came before, not what begins below.
            let before = if next.is_empty() { String::new() } else { format!(", before '{next}'") };
            return Err(Failure::new(
                line,
                format!("'{token}' should stand at the end of this line{before}"),
            ));
        }
        self.wants(&format!("'{token}'"))
    }

    /// Fails for want of `what`, and says what is here instead.
    pub(crate) fn wants<T>(&self, what: &str) -> Result<T, Box<Failure>> {
        let next = self.next_words();
        match next.is_empty() {
            true if self.rest().is_empty() => {
                self.fail(format!("{what} should stand here, where the script ends"))
            }
            true => self.fail(format!("{what} should stand here, where the line ends")),
            false => self.fail(format!("{what} should stand here, not '{next}'")),
        }
    }

    fn next_words(&self) -> String {
        self.rest().chars().take_while(|c| *c != '\n').take(20).collect()
    }

    /// Takes characters while `keep` likes them; blanks before them are skipped.
    pub(crate) fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        self.blank();
        let rest = self.rest();
        let n = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.skip(n)
    }

    /// Takes characters from here up to the first that `stop` likes.
    pub(crate) fn take_until(&mut self, stop: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let n = rest.find(stop).unwrap_or(rest.len());
        self.skip(n)
    }

    /// The name that comes next, left in place; empty if there is none.
    pub(crate) fn peek_word(&self) -> &'a str {
        let rest = past_blanks(self.rest());
        let n = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        if rest.starts_with(|c: char| c.is_ascii_digit()) { "" } else { &rest[..n] }
    }

    /// Takes a name; empty if there is none.
    pub(crate) fn word(&mut self) -> &'a str {
        self.blank();
        if self.peek().is_ascii_digit() {
            return "";
        }
        self.take_while(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    /// Takes `word` if it is the next name.
    pub(crate) fn eat_word(&mut self, word: &str) -> bool {
        self.blank();
        let rest = self.rest();
        let ends = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        let here = rest.strip_prefix(word).is_some_and(|r| r.chars().next().is_none_or(ends));
        if here {
            self.skip(word.len());
        }
        here
    }

    /// Takes everything up to `end` and `end` itself.
    pub(crate) fn until(&mut self, end: &str) -> Result<&'a str, Box<Failure>> {
        self.take_up_to(self.rest().find(end), end)
    }

    /// Takes what stands in front of `end`, which was found so far on, and `end` itself.
    fn take_up_to(&mut self, found: Option<usize>, end: &str) -> Result<&'a str, Box<Failure>> {
        let Some(n) = found else { return self.fail(format!("no '{end}' ends what begins here")) };
        let taken = self.skip(n);
        self.skip(end.len());
        Ok(taken)
    }

    /// Takes everything up to a mark that has no backslash before it, and the mark.
    pub(crate) fn until_bare(&mut self, mark: char) -> Result<&'a str, Box<Failure>> {
        let mut escaped = false;
        let ends = |c: char| {
            let bare = c == mark && !escaped;
            escaped = c == '\\' && !escaped;
            bare
        };
        self.take_up_to(self.rest().find(ends), mark.encode_utf8(&mut [0; 4]))
    }

    /// True when something that is not a blank follows before the line ends.
    pub(crate) fn more_on_line(&mut self) -> bool {
        let line = self.line;
        self.blank();
        self.line == line && !self.rest().is_empty()
    }

    /// Takes a number: decimal or 0x.
    pub(crate) fn number<T: TryFrom<i64>>(&mut self) -> Result<T, Box<Failure>> {
        self.blank();
        let negative = self.eat("-");
        let digits = self.take_while(|c| c.is_ascii_alphanumeric());
        let signed = match digits.strip_prefix("0x") {
            // Beyond the largest it is what has the same bits.
            Some(hex) => {
                let n = u64::from_str_radix(hex, 16).ok().map(u64::cast_signed);
                n.and_then(|n| if negative { n.checked_neg() } else { Some(n) })
            }
            // As atoll() reads it, and packetdrill with that.
            None if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                let (sign, furthest) = if negative { ("-", i64::MIN) } else { ("", i64::MAX) };
                Some(format!("{sign}{digits}").parse().unwrap_or(furthest))
            }
            None => None,
        };
        match signed.and_then(|n| T::try_from(n).ok()) {
            Some(n) => Ok(n),
            None if digits.is_empty() => self.wants("a number"),
            None if signed.is_some() => {
                let (sign, bits) = (if negative { "-" } else { "" }, 8 * size_of::<T>());
                self.fail(format!("{sign}{digits} does not fit: there are {bits} bits for it"))
            }
            None => self.fail(format!("'{digits}' is no number that fits here")),
        }
    }

    /// Takes seconds with a fraction, as microseconds.
    pub(crate) fn seconds(&mut self) -> Result<u64, Box<Failure>> {
        self.blank();
        let rest = self.rest();
        // Digits, one point: `0.1...0.2` has a range after the fraction, `1...2` one after the whole.
        let whole = rest.bytes().take_while(u8::is_ascii_digit).count();
        let mut n = whole;
        let after = &rest[whole..];
        if after.starts_with('.') && !after.starts_with("..") {
            n += 1 + after[1..].bytes().take_while(u8::is_ascii_digit).count();
        }
        let text = self.skip(n);
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let fraction = format!("{fraction:0<6}");
        let micros = (whole.parse::<u64>().or(if whole.is_empty() { Ok(0) } else { Err(()) }))
            .ok()
            .zip(fraction.get(..6).and_then(|f| f.parse::<u64>().ok()))
            .and_then(|(s, us)| s.checked_mul(1_000_000)?.checked_add(us));
        match micros {
            Some(us) if n > 0 => Ok(us),
            _ if text.is_empty() => self.wants("a time in seconds"),
            _ => self.fail(format!("'{text}' is no time in seconds")),
        }
    }
}
