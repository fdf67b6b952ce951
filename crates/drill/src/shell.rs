//! The part of the shell's language that scripts use: commands one after another, words, quotations, and where output goes.

/// A command with its words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Shell {
    pub(crate) words: Vec<String>,
    /// The file that its output goes to.
    pub(crate) into: Option<String>,
    /// Its output goes to another command.
    pub(crate) piped: bool,
    /// A word is a variable's value, or another command's output.
    pub(crate) variable: bool,
}

/// Splits a shell script into commands with their lines; `\` at the end of a line goes on in the next. What stands behind `||` is left out:
/// here either a command is carried out or the script is refused.
pub(crate) fn lines_of(text: &str, first: usize) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    let (mut line, mut begun) = (first, first);
    let (mut command, mut left_out) = (String::new(), false);
    let mut quote = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        line += usize::from(c == '\n');
        let next = chars.peek().copied();
        let fresh = command.chars().next_back().is_none_or(char::is_whitespace);
        if quote.is_some() {
            quote = quote.filter(|q| *q != c);
            command.push(c);
            continue;
        }
        match (c, next) {
            ('\\', Some('\n')) => {
                chars.next();
                line += 1;
                command.push(' ');
            }
            ('#', _) if fresh => while chars.next_if(|c| *c != '\n').is_some() {},
            ('\n' | ';', _) | ('&', Some('&')) => {
                if c == '&' {
                    chars.next();
                }
                end(&mut all, begun, &mut command, left_out);
                left_out = false;
            }
            ('|', Some('|')) => {
                chars.next();
                end(&mut all, begun, &mut command, left_out);
                left_out = true;
            }
            _ => {
                if command.trim().is_empty() && !c.is_whitespace() {
                    begun = line;
                }
                quote = Some(c).filter(|c| matches!(c, '"' | '\''));
                command.push(c);
            }
        }
    }
    end(&mut all, begun, &mut command, left_out);
    all
}

fn end(all: &mut Vec<(usize, String)>, begun: usize, command: &mut String, left_out: bool) {
    let whole = std::mem::take(command);
    if !(left_out || whole.trim().is_empty()) {
        all.push((begun, whole.trim().to_owned()));
    }
}

impl Shell {
    /// Cuts a command into words; quotation marks hold blanks together.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let mut cut = Self::default();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            if rest.starts_with('|') {
                cut.piped = true;
                break;
            }
            match redirection(rest) {
                Some((output, after)) => {
                    let (target, after) = cut.word(after.trim_start(), text)?;
                    // `&1` is what the other stream goes to.
                    if output && !target.starts_with('&') {
                        cut.into = Some(target);
                    }
                    rest = after.trim_start();
                }
                None => {
                    let (word, after) = cut.word(rest, text)?;
                    cut.words.push(word);
                    rest = after.trim_start();
                }
            }
        }
        Ok(cut)
    }

    /// The word in front, and what is behind it.
    fn word<'a>(&mut self, rest: &'a str, text: &str) -> Result<(String, &'a str), String> {
        let mut word = String::new();
        let mut chars = rest.char_indices();
        while let Some((at, c)) = chars.next() {
            self.variable |= c == '$';
            match c {
                '"' | '\'' => loop {
                    match chars.next() {
                        Some((_, inner)) if inner == c => break,
                        Some((_, inner)) => {
                            self.variable |= c == '"' && inner == '$';
                            word.push(inner);
                        }
                        None => return Err(format!("'{text}': a quotation that does not end")),
                    }
                },
                '>' | '<' | '|' => return Ok((word, &rest[at..])),
                c if c.is_whitespace() => return Ok((word, &rest[at..])),
                c => word.push(c),
            }
        }
        Ok((word, ""))
    }

    /// What is written stays nowhere.
    pub(crate) fn is_silent(&self) -> bool {
        !self.piped && self.into.as_deref().is_none_or(|file| file == "/dev/null")
    }
}

/// `>`, `>>`, `2>`, `&>` or `<` in front: whether it is about the output, and what is behind it.
fn redirection(rest: &str) -> Option<(bool, &str)> {
    let (number, rest) = match rest.as_bytes() {
        [b'0'..=b'2' | b'&', b'>' | b'<', ..] => rest.split_at(1),
        _ => ("", rest),
    };
    match rest.strip_prefix('>') {
        Some(after) => Some((matches!(number, "" | "1" | "&"), after.strip_prefix('>').unwrap_or(after))),
        None => rest.strip_prefix('<').map(|after| (false, after)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_at_blanks_outside_of_quotations() {
        let cut = Shell::new("sysctl -q  net.ipv4.tcp_rmem=\"4096 1 2\" 'a b'c").expect("words");
        assert_eq!(cut.words, ["sysctl", "-q", "net.ipv4.tcp_rmem=4096 1 2", "a bc"]);
        assert_eq!(cut, Shell { words: cut.words.clone(), ..Shell::default() });
        assert!(Shell::new("echo \"x").is_err());
    }

    #[test]
    fn redirections_are_no_words() {
        let cut = |text: &str| Shell::new(text).expect(text);
        let quiet = cut("sysctl x=1 >/dev/null 2>&1");
        assert!(quiet.words == ["sysctl", "x=1"] && quiet.is_silent());
        let echo = cut("echo 3>/proc/sys/x");
        assert_eq!(
            (echo.words.as_slice(), echo.into.as_deref()),
            (&["echo".into(), "3".into()][..], Some("/proc/sys/x"))
        );
        let piped = cut("nstat 2> /dev/null | grep x");
        assert!(piped.words == ["nstat"] && piped.piped && !piped.is_silent());
        assert!(cut("rm /tmp/${PPID}").variable && !cut("echo '$x'").variable);
    }

    #[test]
    fn commands_are_cut_outside_of_quotations_and_alternatives_left_out() {
        let text = "# head\na 'x;y' && b # c\n\nd \\\n e || f; g \"1\n2\"\nh#i || j && k";
        let lines = lines_of(text, 5);
        let cut: Vec<(usize, &str)> = lines.iter().map(|(n, c)| (*n, c.as_str())).collect();
        assert_eq!(cut, [(6, "a 'x;y'"), (6, "b"), (8, "d   e"), (9, "g \"1\n2\""), (11, "h#i"), (11, "k")]);
    }
}
