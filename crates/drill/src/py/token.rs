//! Cuts a snippet into lines and tokens, as Python does: indentation, brackets that join lines, comments, strings.
use crate::failure::Failure;

/// A piece of a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Int(i128),
    Float(f64),
    Str(String),
    Name(String),
    /// An operator or a punctuation mark.
    Op(&'static str),
}

/// A logical line.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Line {
    /// Of the script.
    pub(super) number: usize,
    /// Blanks in front of it.
    pub(super) indent: usize,
    pub(super) tokens: Vec<Token>,
    /// Where each token begins and ends in the text.
    pub(super) spans: Vec<(usize, usize)>,
}

/// Longer ones first.
const OPERATORS: [&str; 44] = [
    "**=", "//=", "<<=", ">>=", "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "+=", "-=", "*=", "/=", "%=",
    "&=", "|=", "^=", "->", ":=", "(", ")", "[", "]", "{", "}", ",", ":", ".", ";", "+", "-", "*", "/", "%",
    "&", "|", "^", "~", "<", ">", "=",
];

/// The logical lines of a snippet whose first line has this number.
pub(super) fn lines(text: &str, first: usize) -> Result<Vec<Line>, Box<Failure>> {
    let mut cutter =
        Cutter { text, at: 0, number: first, depth: 0, line: Line::default(), lines: Vec::new() };
    cutter.begin();
    while cutter.at < text.len() {
        cutter.next()?;
    }
    cutter.end();
    if cutter.depth > 0 {
        return Err(Failure::new(cutter.number, "a bracket in this snippet is never closed"));
    }
    Ok(cutter.lines)
}

struct Cutter<'a> {
    text: &'a str,
    at: usize,
    number: usize,
    /// Brackets that are open.
    depth: usize,
    line: Line,
    lines: Vec<Line>,
}

impl<'a> Cutter<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Begins a logical line here: counts its blanks.
    fn begin(&mut self) {
        let rest = self.rest();
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        self.at += blanks;
        // What follows `%{` on its line is not indented, however many blanks stand there.
        let before = &self.text[..self.at];
        let first = self.lines.is_empty() && before.trim().is_empty() && !before.contains('\n');
        let indent = if first { 0 } else { blanks };
        self.line = Line { number: self.number, indent, ..Line::default() };
    }

    fn end(&mut self) {
        let line = std::mem::take(&mut self.line);
        if !line.tokens.is_empty() {
            self.lines.push(line);
        }
    }

    fn push(&mut self, token: Token, len: usize) {
        if self.line.tokens.is_empty() {
            self.line.number = self.number;
        }
        self.line.spans.push((self.at, self.at + len));
        self.line.tokens.push(token);
        self.at += len;
    }

    fn next(&mut self) -> Result<(), Box<Failure>> {
        let rest = self.rest();
        let Some(ch) = rest.chars().next() else { return Ok(()) };
        match ch {
            '\n' => {
                self.at += 1;
                self.number += 1;
                if self.depth == 0 {
                    self.end();
                    self.begin();
                }
            }
            '\\' if rest[1..].starts_with('\n') => {
                self.at += 2;
                self.number += 1;
            }
            '#' => self.at += rest.find('\n').unwrap_or(rest.len()),
            ' ' | '\t' | '\r' => self.at += 1,
            '"' | '\'' => self.string(ch)?,
            '0'..='9' => self.number()?,
            '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number()?,
            'a'..='z' | 'A'..='Z' | '_' => {
                let n = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
                if matches!(&rest[..n], "f" | "b" | "r" | "u") && rest[n..].starts_with(['"', '\'']) {
                    return self.fail("strings with a letter in front do not work; write 'text %d' % value");
                }
                self.push(Token::Name(rest[..n].to_owned()), n);
            }
            _ => self.operator(ch)?,
        }
        Ok(())
    }

    fn operator(&mut self, ch: char) -> Result<(), Box<Failure>> {
        let rest = self.rest();
        let Some(op) = OPERATORS.iter().find(|op| rest.starts_with(**op)) else {
            return self.fail(format!("'{ch}' means nothing in Python"));
        };
        match *op {
            "(" | "[" | "{" => self.depth += 1,
            ")" | "]" | "}" => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.push(Token::Op(op), op.len());
        Ok(())
    }

    fn number(&mut self) -> Result<(), Box<Failure>> {
        let rest = self.rest();
        let radix = match rest.get(..2) {
            Some("0x" | "0X") => 16,
            Some("0b" | "0B") => 2,
            Some("0o" | "0O") => 8,
            _ => 10,
        };
        let mut n = 0;
        for (i, c) in rest.char_indices() {
            let exponent = radix == 10 && matches!(c, '+' | '-') && rest[..i].ends_with(['e', 'E']);
            if !(c.is_ascii_alphanumeric() || c == '_' || c == '.' || exponent) {
                break;
            }
            n = i + 1;
        }
        let digits: String = rest[..n].chars().filter(|c| *c != '_').collect();
        let token = if radix != 10 {
            i128::from_str_radix(&digits[2..], radix).ok().map(Token::Int)
        } else if digits.contains(['.', 'e', 'E']) {
            digits.parse().ok().filter(|x: &f64| x.is_finite()).map(Token::Float)
        } else {
            digits.parse().ok().map(Token::Int)
        };
        match token {
            Some(token) => {
                self.push(token, n);
                Ok(())
            }
            None => self.fail(format!("'{}' is no number that fits here", &rest[..n])),
        }
    }

    fn string(&mut self, quote: char) -> Result<(), Box<Failure>> {
        let rest = self.rest();
        let mut text = String::new();
        let mut chars = rest.char_indices().skip(1);
        while let Some((i, c)) = chars.next() {
            match c {
                '\n' => break,
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, c @ ('\\' | '\'' | '"'))) => text.push(c),
                    _ => return self.fail("a '\\' in a string goes with n, t, \\ and quotation marks alone"),
                },
                c if c == quote => {
                    self.push(Token::Str(text), i + 1);
                    return Ok(());
                }
                c => text.push(c),
            }
        }
        self.fail("a string in this snippet is never closed")
    }

    fn fail<T>(&self, what: impl Into<String>) -> Result<T, Box<Failure>> {
        Err(Failure::new(self.number, what))
    }
}
