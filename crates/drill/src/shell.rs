//! The part of the shell's language that scripts use: commands one after another, words, quotations, and where output goes.
use crate::arith;
use std::iter::Peekable;
use std::str::Chars;

/// A command with its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shell {
    /// Where it begins.
    pub(crate) line: usize,
    pub(crate) words: Vec<String>,
    /// The file that its output goes to.
    pub(crate) into: Option<String>,
    /// The words of the commands that its output goes through, one after the other.
    pub(crate) filters: Vec<Vec<String>>,
    /// A word is a variable's value, or another command's output.
    pub(crate) variable: bool,
    /// Nobody waits for it.
    pub(crate) background: bool,
    /// It may fail: `|| true` stands behind it.
    pub(crate) may_fail: bool,
}

/// Cuts a shell script into commands. What stands behind `||` is left out: here either a command is carried out or the script is refused.
///
/// # Errors
/// A quotation without an end, with the line in which it begins.
pub(crate) fn commands_of(text: &str, first: usize) -> Result<Vec<Shell>, (usize, String)> {
    let mut tokens = Tokens { chars: text.chars().peekable(), line: first };
    let mut all = Vec::new();
    let (mut command, mut left_out) = (Shell::default(), false);
    while let Some((line, token)) = tokens.next()? {
        let fresh = command.words.is_empty() && command.into.is_none();
        match token {
            Token::Word(word) => {
                command.line = if fresh { line } else { command.line };
                command.variable |= word.variable;
                command.filters.last_mut().unwrap_or(&mut command.words).push(word.text);
            }
            // `&1` is what the other stream goes to; of what goes through another command, its own output counts.
            Token::Output(target) if command.filters.is_empty() && !target.text.starts_with('&') => {
                command.line = if fresh { line } else { command.line };
                command.variable |= target.variable;
                command.into = Some(target.text);
            }
            Token::Output(_) => {}
            // What checks nothing would seem to have found it.
            Token::Pipe if command.words.is_empty() => {
                return Err((line, "nothing stands before the |".to_owned()));
            }
            Token::Pipe => command.filters.push(Vec::new()),
            // All that `||` and `&&` join would run there: the one that is looked at says so.
            Token::Background => {
                command.background = true;
                if left_out {
                    all.iter_mut().for_each(|before: &mut Shell| before.background = true);
                }
                end(&mut all, &mut command, left_out);
                left_out = false;
            }
            Token::End | Token::Or => {
                end(&mut all, &mut command, left_out);
                left_out = token == Token::Or;
            }
        }
    }
    end(&mut all, &mut command, left_out);
    Ok(all)
}

fn end(all: &mut Vec<Shell>, command: &mut Shell, left_out: bool) {
    let whole = std::mem::take(command);
    if !left_out && !whole.words.is_empty() {
        all.push(whole);
    } else if let (Some(before), [nothing]) = (all.last_mut(), &whole.words[..]) {
        before.may_fail |= nothing == "true" || nothing == ":";
    }
}

impl Shell {
    /// What is written stays nowhere.
    pub(crate) fn is_silent(&self) -> bool {
        !self.is_piped() && self.into.as_deref().is_none_or(|file| file == "/dev/null")
    }

    /// Its output goes to another command.
    pub(crate) const fn is_piped(&self) -> bool {
        !self.filters.is_empty()
    }

    /// Its words, for messages.
    pub(crate) fn text(&self) -> String {
        let filters = self.filters.iter().map(|words| format!(" | {}", words.join(" ")));
        self.words.join(" ") + &filters.collect::<String>()
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(Word),
    /// `>`, `>>`, `1>` or `&>` with where it goes; what is about input, errors or other descriptors is passed over.
    Output(Word),
    Pipe,
    /// `||`.
    Or,
    /// `;`, `&&`, or the end of a line.
    End,
    /// `&`.
    Background,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Word {
    text: String,
    variable: bool,
}

struct Tokens<'a> {
    chars: Peekable<Chars<'a>>,
    line: usize,
}

impl Tokens<'_> {
    /// The next token, with its line.
    fn next(&mut self) -> Result<Option<(usize, Token)>, (usize, String)> {
        loop {
            self.blanks();
            let line = self.line;
            let Some(&c) = self.chars.peek() else { return Ok(None) };
            let token = match (c, self.second()) {
                ('\n' | ';', _) => self.skip(1, Token::End),
                ('&', Some('&')) => self.skip(2, Token::End),
                ('|', Some('|')) => self.skip(2, Token::Or),
                ('|', _) => self.skip(1, Token::Pipe),
                ('#', _) => {
                    while self.chars.next_if(|c| *c != '\n').is_some() {}
                    continue;
                }
                _ if self.is_redirection() => match self.redirection()? {
                    Some(target) => Token::Output(target),
                    None => continue,
                },
                ('&', _) => self.skip(1, Token::Background),
                _ => Token::Word(self.word()?),
            };
            return Ok(Some((line, token)));
        }
    }

    fn second(&self) -> Option<char> {
        self.chars.clone().nth(1)
    }

    /// A redirection begins here, perhaps with `&` or the number of a descriptor.
    fn is_redirection(&self) -> bool {
        let mut ahead = self.chars.clone();
        if ahead.next_if_eq(&'&').is_none() {
            while ahead.next_if(char::is_ascii_digit).is_some() {}
        }
        matches!(ahead.peek(), Some('<' | '>'))
    }

    /// The next character; lines are counted.
    fn take(&mut self) -> Option<char> {
        let c = self.chars.next()?;
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn skip(&mut self, chars: usize, token: Token) -> Token {
        (0..chars).for_each(|_| _ = self.take());
        token
    }

    /// Passes blanks, and lines that go on in the next.
    fn blanks(&mut self) {
        while let Some(&c) = self.chars.peek() {
            let goes_on = c == '\\' && self.second() == Some('\n');
            if !goes_on && (c == '\n' || !c.is_whitespace()) {
                return;
            }
            (0..=usize::from(goes_on)).for_each(|_| _ = self.take());
        }
    }

    /// `>`, `>>`, `2>`, `&>` or `<` and where to; `None` where it is not about the output.
    fn redirection(&mut self) -> Result<Option<Word>, (usize, String)> {
        let mut number = String::new();
        number.extend(std::iter::from_fn(|| self.chars.next_if(|c| !matches!(c, '<' | '>'))));
        let output = self.take() == Some('>') && matches!(number.as_str(), "" | "1" | "&");
        self.chars.next_if_eq(&'>');
        self.blanks();
        let other = self.chars.next_if_eq(&'&');
        let mut target = self.word()?;
        target.text.insert_str(0, if other.is_some() { "&" } else { "" });
        Ok(output.then_some(target))
    }

    fn word(&mut self) -> Result<Word, (usize, String)> {
        let mut word = Word::default();
        while let Some(&c) = self.chars.peek() {
            let ends = match c {
                ';' | '|' | '<' | '>' | '&' => true,
                c => c.is_whitespace(),
            };
            if ends {
                break;
            }
            self.take();
            match c {
                '\\' => word.text.extend(self.take().filter(|c| *c != '\n')),
                '"' | '\'' => self.quotation(c, &mut word)?,
                '$' if self.sum(&mut word) => {}
                c => word.push(c),
            }
        }
        Ok(word)
    }

    /// A sum behind the `$` that was taken becomes its value.
    fn sum(&mut self, word: &mut Word) -> bool {
        let ahead: String = self.chars.clone().take_while(|c| arith::is_part(*c)).collect();
        let Some((value, chars)) = arith::value(&ahead) else { return false };
        (0..chars).for_each(|_| _ = self.take());
        word.text.push_str(&value.to_string());
        true
    }

    /// What stands between two of these marks: everything as it is, between double ones with variables and `\` in front of what it takes.
    fn quotation(&mut self, mark: char, word: &mut Word) -> Result<(), (usize, String)> {
        let begun = self.line;
        while let Some(c) = self.take() {
            match c {
                c if c == mark => return Ok(()),
                '\\' if mark == '"' => match self.take() {
                    Some('\n') => {}
                    Some(c @ ('"' | '\\' | '$' | '`')) => word.text.push(c),
                    other => {
                        word.text.push('\\');
                        word.text.extend(other);
                    }
                },
                '$' if mark == '"' && self.sum(word) => {}
                c if mark == '"' => word.push(c),
                c => word.text.push(c),
            }
        }
        Err((begun, "a quotation that does not end".to_owned()))
    }
}

impl Word {
    fn push(&mut self, c: char) {
        self.variable |= matches!(c, '$' | '`');
        self.text.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn cut(text: &str) -> Shell {
        let mut all = commands_of(text, 1).expect(text);
        assert_eq!(all.len(), 1, "{text}: {all:?}");
        all.remove(0)
    }

    #[test]
    fn words_are_those_of_sh() {
        for text in [
            "a 'b c'd  e",
            r#"net.ipv4.tcp_rmem="4096 1 2""#,
            "\"4096 \\\n 87380\"",
            "4096\\\n87380 \\\n x",
            r#""a \"b\" c" d"#,
            r"a\'b c \; \| \> \\ \$HOME",
            r#""\$HOME \a \\ \'" '\"' 'a\'"#,
            "'$x' a#b 'x\ny'",
            "\"\" ''a",
            "a;",
            "a 3>/dev/null b 2>&1 4</dev/null 5>&1 c3",
            "a&",
            "a &&true",
        ] {
            let said =
                Command::new("sh").args(["-c", &format!("printf '<%s>' {text}")]).output().expect("sh");
            let ours = commands_of(text, 1).expect(text).remove(0);
            assert!(!ours.variable, "{text}");
            let ours: String = ours.words.iter().map(|word| format!("<{word}>")).collect();
            assert_eq!(ours, String::from_utf8_lossy(&said.stdout), "{text}");
        }
        let wrong = commands_of("a\nb \"x\n y", 3);
        assert_eq!(wrong, Err((4, "a quotation that does not end".to_owned())));
    }

    #[test]
    fn redirections_are_no_words() {
        let quiet = cut("sysctl x=1 >/dev/null 2>&1");
        assert!(quiet.words == ["sysctl", "x=1"] && quiet.is_silent());
        for (text, into) in
            [("echo 3 >/proc/sys/x", "/proc/sys/x"), ("echo 3 1>>a", "a"), ("echo 3 &>a", "a")]
        {
            let echo = cut(text);
            assert_eq!((echo.text().as_str(), echo.into.as_deref()), ("echo 3", Some(into)));
        }
        // The number of a descriptor, as dash has it, and bash for 10.
        for text in ["echo 3>/proc/sys/x", "echo 10>/proc/sys/x"] {
            let echo = cut(text);
            assert_eq!((echo.text().as_str(), echo.into), ("echo", None), "{text}");
        }
        let piped = cut("nstat 2> /dev/null | grep x > y");
        assert!(piped.words == ["nstat"] && piped.filters == [["grep", "x"]] && piped.into.is_none());
        assert!(!piped.is_silent() && piped.text() == "nstat | grep x");
        for text in ["rm /tmp/${PPID}", "rm \"$x\"", "rm `x`", "a > $x"] {
            assert!(cut(text).variable, "{text}");
        }
    }

    #[test]
    fn commands_are_cut_outside_of_quotations_and_alternatives_left_out() {
        let text = "# head\na 'x;y' && b # c\n\nd \\\n e || f; g \"1\n2\"\nh#i || j && k";
        let all = commands_of(text, 5).expect(text);
        let cut: Vec<_> = all.iter().map(|c| (c.line, c.text())).collect();
        let wanted = [(6, "a x;y"), (6, "b"), (8, "d e"), (9, "g 1\n2"), (11, "h#i"), (11, "k")];
        assert_eq!(cut, wanted.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn what_goes_through_a_filter_comes_from_a_command() {
        for text in ["| grep x", "true\n; | grep x", "2>/dev/null | grep x"] {
            let (line, what) = commands_of(text, 1).unwrap_err();
            assert_eq!(
                (line, what.as_str()),
                (1 + text.matches('\n').count(), "nothing stands before the |")
            );
        }
    }

    #[test]
    fn what_may_fail_has_true_behind_it() {
        let all = commands_of("a || true; b || : ; c || exit 1; d; true", 1).expect("a script");
        let may_fail: Vec<bool> = all.iter().map(|c| c.may_fail).collect();
        assert_eq!(may_fail, [true, true, false, false, false]);
    }

    #[test]
    fn what_runs_in_the_background_ends_there() {
        let cut = |text: &str| {
            let all = commands_of(text, 1).expect(text);
            all.iter().map(|c| (c.text(), c.background)).collect::<Vec<_>>()
        };
        let two = |first: bool| vec![("sleep 5".to_owned(), first), ("b c".to_owned(), false)];
        assert_eq!(
            (cut("sleep 5 & b c"), cut("sleep 5&b c"), cut("sleep 5; b c")),
            (two(true), two(true), two(false))
        );
        assert_eq!((cut("sleep 5 || x & b c"), cut("sleep 5 >&2 & b c")), (two(true), two(true)));
    }
}
