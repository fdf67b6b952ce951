//! Reads snippets into statements and expressions; operators bind as in Python.
use super::token::{Line, Token, lines};
use super::value::Val;
use crate::failure::Failure;

/// Deepest nesting of expressions and blocks together.
const DEPTH_MAX: usize = 64;
/// Most operators of one statement that lean on their left side, which makes trees deep without nesting.
const LINKS_MAX: usize = 400;

/// A snippet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Program {
    pub(super) body: Vec<Stmt>,
}

/// A statement with its line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stmt {
    pub(super) line: usize,
    pub(super) what: Do,
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Do {
    /// The condition with its text, and the message.
    Assert(Expr, String, Option<Expr>),
    /// Names, the operator of `+=` and its like, the value.
    Assign(Vec<String>, Option<&'static str>, Expr),
    Expr(Expr),
    /// Conditions with their blocks; `else` is one that is always true.
    If(Vec<(Expr, Vec<Stmt>)>),
    For(String, Expr, Vec<Stmt>),
    Pass,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Const(Val),
    Name(String),
    Not(Box<Expr>),
    /// `-`, `+` or `~`.
    Unary(&'static str, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// `a < b <= c`: the first, then operators with the others.
    Compare(Box<Expr>, Vec<(&'static str, Expr)>),
    /// `a if condition else b`: condition, a, b.
    Choice(Box<[Expr; 3]>),
    List(Vec<Expr>),
    Index(Box<Expr>, Box<Expr>),
    Call(String, Vec<Expr>),
}

/// Binary operators by rising strength.
const ROWS: [&[&str]; 6] = [&["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*", "/", "//", "%"]];
const ASSIGNMENTS: [&str; 12] = ["+=", "-=", "*=", "/=", "//=", "%=", "&=", "|=", "^=", "<<=", ">>=", "**="];
/// Statements of Python that do nothing useful here.
const REFUSED: [&str; 14] = [
    "import", "from", "def", "class", "while", "return", "try", "with", "del", "global", "raise", "lambda",
    "yield", "break",
];

/// Reads a snippet whose first line has this number in the script.
pub(crate) fn parse(text: &str, first: usize) -> Result<Program, Box<Failure>> {
    let lines = lines(text, first)?;
    let mut reader = Reader { text, lines, at: 0, column: 0, depth: 0, links: 0 };
    let body = reader.block(0)?;
    match reader.lines.get(reader.at) {
        // All snippets of a script are one program of Python's: packetdrill takes away only the blanks behind `%{`.
        Some(line) if reader.at == 0 => Err(Failure::new(
            line.number,
            "the first line of a snippet must not be indented: Python refuses it",
        )),
        Some(line) => Err(Failure::new(line.number, "this line is not indented like those above it")),
        None => Ok(Program { body }),
    }
}

struct Reader<'a> {
    text: &'a str,
    lines: Vec<Line>,
    /// The line, and the token in it.
    at: usize,
    column: usize,
    depth: usize,
    links: usize,
}

impl Reader<'_> {
    /// Lines that are indented by `indent`.
    fn block(&mut self, indent: usize) -> Result<Vec<Stmt>, Box<Failure>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.fail("blocks nested too deeply");
        }
        let mut body = Vec::new();
        while self.lines.get(self.at).is_some_and(|l| l.indent == indent) {
            self.statement(indent, &mut body)?;
        }
        self.depth -= 1;
        Ok(body)
    }

    fn statement(&mut self, indent: usize, body: &mut Vec<Stmt>) -> Result<(), Box<Failure>> {
        let line = self.number();
        self.links = 0;
        let what = match self.peek_name() {
            Some("if") => self.choice(indent)?,
            Some("for") => self.repetition(indent)?,
            Some("elif" | "else") => return self.fail("there is no 'if' above this"),
            _ => return self.simple_line(body),
        };
        body.push(Stmt { line, what });
        Ok(())
    }

    /// Simple statements up to the end of the line, with `;` between them.
    fn simple_line(&mut self, body: &mut Vec<Stmt>) -> Result<(), Box<Failure>> {
        loop {
            let line = self.number();
            self.links = 0;
            let what = self.simple()?;
            body.push(Stmt { line, what });
            let more = self.eat(";");
            if self.peek().is_none() {
                self.next_line();
                return Ok(());
            }
            if !more {
                return self.unexpected();
            }
        }
    }

    fn simple(&mut self) -> Result<Do, Box<Failure>> {
        let word = self.peek_name().unwrap_or_default().to_owned();
        if REFUSED.contains(&word.as_str()) {
            return self.fail(format!("'{word}' does not work in snippets; docs/drill.md says what does"));
        }
        if self.eat_name("pass") {
            return Ok(Do::Pass);
        }
        if self.eat_name("assert") {
            let from = self.column;
            let condition = self.expr()?;
            let text = self.source(from);
            let message = if self.eat(",") { Some(self.expr()?) } else { None };
            return Ok(Do::Assert(condition, text, message));
        }
        let left = self.tuple()?;
        if let Some(op) = ASSIGNMENTS.iter().find(|op| self.eat(op)) {
            let Expr::Name(name) = left else { return self.fail("only a name can be assigned to") };
            return Ok(Do::Assign(vec![name], Some(&op[..op.len() - 1]), self.tuple()?));
        }
        if !self.eat("=") {
            return Ok(Do::Expr(left));
        }
        let targets = match left {
            Expr::Name(name) => vec![name],
            Expr::List(items) => {
                let names = items.into_iter().map(|i| if let Expr::Name(n) = i { Some(n) } else { None });
                match names.collect::<Option<Vec<_>>>() {
                    Some(names) => names,
                    None => return self.fail("only names can be assigned to"),
                }
            }
            _ => return self.fail("only a name can be assigned to"),
        };
        Ok(Do::Assign(targets, None, self.tuple()?))
    }

    fn choice(&mut self, indent: usize) -> Result<Do, Box<Failure>> {
        let mut branches = Vec::new();
        self.eat_name("if");
        let condition = self.expr()?;
        branches.push((condition, self.suite(indent)?));
        loop {
            let here = self.lines.get(self.at).is_some_and(|l| l.indent == indent);
            if here && self.eat_name("elif") {
                let condition = self.expr()?;
                branches.push((condition, self.suite(indent)?));
            } else if here && self.eat_name("else") {
                branches.push((Expr::Const(Val::Bool(true)), self.suite(indent)?));
                return Ok(Do::If(branches));
            } else {
                return Ok(Do::If(branches));
            }
        }
    }

    fn repetition(&mut self, indent: usize) -> Result<Do, Box<Failure>> {
        self.eat_name("for");
        let name = self.name()?;
        if !self.eat_name("in") {
            return self.unexpected();
        }
        let items = self.tuple()?;
        Ok(Do::For(name, items, self.suite(indent)?))
    }

    /// `: statement` on the same line, or an indented block.
    fn suite(&mut self, indent: usize) -> Result<Vec<Stmt>, Box<Failure>> {
        self.expect(":")?;
        if self.peek().is_some() {
            let mut body = Vec::new();
            self.simple_line(&mut body)?;
            return Ok(body);
        }
        self.next_line();
        match self.lines.get(self.at).map(|l| l.indent) {
            Some(inner) if inner > indent => self.block(inner),
            _ => self.fail("an indented block should follow ':'"),
        }
    }

    /// One expression, or several with commas.
    fn tuple(&mut self) -> Result<Expr, Box<Failure>> {
        let first = self.expr()?;
        if !self.eat(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.peek().is_some_and(|t| !matches!(t, Token::Op("=" | ")" | ":" | ";"))) {
            items.push(self.expr()?);
            if !self.eat(",") {
                break;
            }
        }
        Ok(Expr::List(items))
    }

    fn expr(&mut self) -> Result<Expr, Box<Failure>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.fail("an expression nested too deeply");
        }
        let mut value = self.or()?;
        if self.eat_name("if") {
            let condition = self.or()?;
            if !self.eat_name("else") {
                return self.unexpected();
            }
            value = Expr::Choice(Box::new([condition, value, self.expr()?]));
        }
        self.depth -= 1;
        Ok(value)
    }

    fn or(&mut self) -> Result<Expr, Box<Failure>> {
        let mut left = self.and()?;
        while self.eat_name("or") {
            self.link()?;
            left = Expr::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expr, Box<Failure>> {
        let mut left = self.not()?;
        while self.eat_name("and") {
            self.link()?;
            left = Expr::And(Box::new(left), Box::new(self.not()?));
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Expr, Box<Failure>> {
        let mut times = 0;
        while self.eat_name("not") {
            times += 1;
        }
        let mut value = self.comparison()?;
        for _ in 0..(if times == 0 { 0 } else { 2 - times % 2 }) {
            value = Expr::Not(Box::new(value));
        }
        Ok(value)
    }

    fn comparison(&mut self) -> Result<Expr, Box<Failure>> {
        let first = self.row(0)?;
        let mut rest = Vec::new();
        while let Some(op) = self.comparator() {
            rest.push((op, self.row(0)?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Compare(Box::new(first), rest) })
    }

    fn comparator(&mut self) -> Option<&'static str> {
        for op in ["==", "!=", "<=", ">=", "<", ">"] {
            if self.eat(op) {
                return Some(op);
            }
        }
        if self.eat_name("in") {
            return Some("in");
        }
        if self.eat_name("is") {
            return Some(if self.eat_name("not") { "!=" } else { "==" });
        }
        let negated =
            self.peek_name() == Some("not") && matches!(self.peek_at(1), Some(Token::Name(n)) if n == "in");
        if negated {
            self.column += 2;
            return Some("not in");
        }
        None
    }

    fn row(&mut self, level: usize) -> Result<Expr, Box<Failure>> {
        let Some(operators) = ROWS.get(level) else { return self.unary() };
        let mut left = self.row(level + 1)?;
        while let Some(op) = operators.iter().find(|op| self.eat(op)) {
            self.link()?;
            left = Expr::Binary(op, Box::new(left), Box::new(self.row(level + 1)?));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, Box<Failure>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.fail("an expression nested too deeply");
        }
        let sign = ["-", "+", "~"].into_iter().find(|op| self.eat(op));
        let value = match sign {
            Some(op) => Expr::Unary(op, Box::new(self.unary()?)),
            None => {
                let base = self.postfix()?;
                // A power binds more tightly than a sign on its left, and takes one on its right.
                if self.eat("**") {
                    Expr::Binary("**", Box::new(base), Box::new(self.unary()?))
                } else {
                    base
                }
            }
        };
        self.depth -= 1;
        Ok(value)
    }

    fn postfix(&mut self) -> Result<Expr, Box<Failure>> {
        let mut value = self.atom()?;
        while self.eat("[") {
            self.link()?;
            let index = self.expr()?;
            self.expect("]")?;
            value = Expr::Index(Box::new(value), Box::new(index));
        }
        Ok(value)
    }

    fn atom(&mut self) -> Result<Expr, Box<Failure>> {
        let Some(token) = self.peek().cloned() else { return self.unexpected() };
        self.column += 1;
        match token {
            Token::Int(n) => Ok(Expr::Const(Val::Int(n))),
            Token::Float(x) => Ok(Expr::Const(Val::Float(x))),
            Token::Str(mut text) => {
                while let Some(Token::Str(more)) = self.peek().cloned() {
                    text.push_str(&more);
                    self.column += 1;
                }
                Ok(Expr::Const(Val::Str(text)))
            }
            Token::Op("(") => {
                if self.eat(")") {
                    return Ok(Expr::List(Vec::new()));
                }
                let inner = self.tuple()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Op("[") => Ok(Expr::List(self.arguments("]")?)),
            Token::Name(name) => self.named(name),
            Token::Op(_) => {
                self.column -= 1;
                self.unexpected()
            }
        }
    }

    fn named(&mut self, name: String) -> Result<Expr, Box<Failure>> {
        match name.as_str() {
            "True" => return Ok(Expr::Const(Val::Bool(true))),
            "False" => return Ok(Expr::Const(Val::Bool(false))),
            "None" => return Ok(Expr::Const(Val::None)),
            "and" | "or" | "not" | "in" | "is" | "if" | "else" | "elif" | "for" | "assert" | "pass" => {
                self.column -= 1;
                return self.unexpected();
            }
            _ => {}
        }
        if self.eat("(") {
            return Ok(Expr::Call(name, self.arguments(")")?));
        }
        Ok(Expr::Name(name))
    }

    fn arguments(&mut self, close: &'static str) -> Result<Vec<Expr>, Box<Failure>> {
        let mut list = Vec::new();
        while !self.eat(close) {
            list.push(self.expr()?);
            if !self.eat(",") {
                self.expect(close)?;
                break;
            }
        }
        Ok(list)
    }

    fn link(&mut self) -> Result<(), Box<Failure>> {
        self.links += 1;
        if self.links > LINKS_MAX { self.fail("an expression that is too long") } else { Ok(()) }
    }

    fn peek_at(&self, ahead: usize) -> Option<&Token> {
        self.lines.get(self.at)?.tokens.get(self.column + ahead)
    }

    fn peek(&self) -> Option<&Token> {
        self.peek_at(0)
    }

    fn peek_name(&self) -> Option<&str> {
        match self.peek() {
            Some(Token::Name(name)) => Some(name),
            _ => None,
        }
    }

    fn eat(&mut self, op: &str) -> bool {
        let here = matches!(self.peek(), Some(Token::Op(o)) if *o == op);
        self.column += usize::from(here);
        here
    }

    fn eat_name(&mut self, name: &str) -> bool {
        let here = self.peek_name() == Some(name);
        self.column += usize::from(here);
        here
    }

    fn name(&mut self) -> Result<String, Box<Failure>> {
        let Some(name) = self.peek_name().map(str::to_owned) else { return self.unexpected() };
        self.column += 1;
        Ok(name)
    }

    fn expect(&mut self, op: &str) -> Result<(), Box<Failure>> {
        if self.eat(op) {
            return Ok(());
        }
        let next = self.next_text();
        self.fail(format!("'{op}' should stand here, not {next}"))
    }

    fn next_line(&mut self) {
        self.at += 1;
        self.column = 0;
    }

    fn number(&self) -> usize {
        self.lines.get(self.at).or(self.lines.last()).map_or(0, |l| l.number)
    }

    /// The text of this line from a token on, up to here.
    fn source(&self, from: usize) -> String {
        let spans = self.lines.get(self.at).map_or(&[][..], |l| &l.spans);
        let begin = spans.get(from).map_or(0, |s| s.0);
        let end = self.column.checked_sub(1).and_then(|c| spans.get(c)).map_or(begin, |s| s.1);
        let text = self.text.get(begin..end).unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn next_text(&self) -> String {
        let span = self.lines.get(self.at).and_then(|l| l.spans.get(self.column));
        let text = span.and_then(|s| self.text.get(s.0..s.1));
        text.map_or_else(|| "the end of the line".to_owned(), |t| format!("'{t}'"))
    }

    fn unexpected<T>(&self) -> Result<T, Box<Failure>> {
        let next = self.next_text();
        self.fail(format!("{next} cannot stand here"))
    }

    fn fail<T>(&self, what: impl Into<String>) -> Result<T, Box<Failure>> {
        Err(Failure::new(self.number(), what))
    }
}
