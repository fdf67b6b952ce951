//! Carries snippets out: names, operators, functions, and what an assertion says when it fails.
use super::parse::{Do, Expr, Program, Stmt};
use super::value::Val;
use crate::names;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Steps that one snippet may take.
const STEPS_MAX: usize = 100_000;
/// Longest string; most values in a list, with those of the lists in it.
const LEN_MAX: usize = 10_000;
/// How deep lists may stand in one another.
const DEPTH_MAX: usize = 64;
/// Values of a list that count as one step when somebody asks for it, which copies them.
const COPIED_IN_STEP: usize = 64;
/// Furthest shift and highest power: what cannot overflow 128 bits by itself.
const SHIFT_MAX: i128 = 100;
/// Lines that print() may leave.
const PRINTED_MAX: usize = 1_000;

/// What snippets know and leave behind: one for the whole script.
#[derive(Debug, Default)]
pub(crate) struct Env {
    names: BTreeMap<String, Val>,
    /// What print() said.
    pub(crate) printed: Vec<String>,
}

/// Why a snippet failed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wrong {
    pub(crate) line: usize,
    pub(crate) what: String,
    /// The condition of an assertion.
    pub(crate) expected: String,
    /// The values of the names in it.
    pub(crate) actual: String,
}

/// Facts that come from outside: TCP_INFO's fields and Linux's constants by their names.
pub(crate) trait Facts {
    /// A value by its name.
    fn value(&self, name: &str) -> Option<i128>;

    /// The names that a wrong one may have been meant for, the nearest first.
    fn near(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

impl<F: Fn(&str) -> Option<i128>> Facts for F {
    fn value(&self, name: &str) -> Option<i128> {
        self(name)
    }
}

impl Env {
    /// Carries a snippet out.
    pub(crate) fn run(&mut self, program: &Program, facts: &dyn Facts) -> Result<(), Wrong> {
        let mut run = Run { env: self, facts, steps: 0 };
        run.block(&program.body)
    }
}

struct Run<'a> {
    env: &'a mut Env,
    facts: &'a dyn Facts,
    steps: usize,
}

impl Run<'_> {
    fn block(&mut self, body: &[Stmt]) -> Result<(), Wrong> {
        body.iter().try_for_each(|stmt| self.statement(stmt))
    }

    fn statement(&mut self, stmt: &Stmt) -> Result<(), Wrong> {
        let wrong = |what| Wrong { line: stmt.line, what, expected: String::new(), actual: String::new() };
        match &stmt.what {
            Do::Pass => Ok(()),
            Do::Expr(e) => self.value(e).map(drop).map_err(wrong),
            Do::Assert(condition, text, message) => {
                if self.value(condition).map_err(wrong)?.truth() {
                    return Ok(());
                }
                let message = message.as_ref().map(|m| self.value(m)).transpose().map_err(wrong)?;
                let mut what = "the assertion does not hold".to_owned();
                if let Some(message) = message {
                    what = format!("{what}: {message}");
                }
                Err(Wrong { line: stmt.line, what, expected: text.clone(), actual: self.names_in(condition) })
            }
            Do::Assign(names, op, value) => self.assign(names, *op, value).map_err(wrong),
            Do::If(branches) => {
                for (condition, body) in branches {
                    if self.value(condition).map_err(wrong)?.truth() {
                        return self.block(body);
                    }
                }
                Ok(())
            }
            Do::For(name, items, body) => {
                let items = self.value(items).and_then(list).map_err(wrong)?;
                for item in items {
                    self.step().map_err(wrong)?;
                    self.env.names.insert(name.clone(), item);
                    self.block(body)?;
                }
                Ok(())
            }
        }
    }

    fn assign(&mut self, names: &[String], op: Option<&'static str>, value: &Expr) -> Result<(), String> {
        let mut value = self.value(value)?;
        if let [name] = names {
            if let Some(op) = op {
                value = binary(op, &self.name(name)?, &value)?;
            }
            self.env.names.insert(name.clone(), value);
            return Ok(());
        }
        let values = list(value)?;
        if values.len() != names.len() {
            return Err(format!("{} names for {} values", names.len(), values.len()));
        }
        self.env.names.extend(names.iter().cloned().zip(values));
        Ok(())
    }

    fn step(&mut self) -> Result<(), String> {
        self.steps += 1;
        if self.steps > STEPS_MAX { Err("the snippet does not come to an end".to_owned()) } else { Ok(()) }
    }

    fn name(&self, name: &str) -> Result<Val, String> {
        let own = self.env.names.get(name).cloned();
        own.or_else(|| self.facts.value(name).map(Val::Int)).ok_or_else(|| {
            let wrong = match name.starts_with("tcpi_") {
                true => format!("TCP_INFO has no '{name}'"),
                false => format!("the name '{name}' is not known"),
            };
            wrong + &names::told(&self.facts.near(name))
        })
    }

    fn value(&mut self, expr: &Expr) -> Result<Val, String> {
        self.step()?;
        match expr {
            Expr::Const(value) => Ok(value.clone()),
            Expr::Name(name) => {
                let value = self.name(name)?;
                self.steps += value.weight() / COPIED_IN_STEP;
                Ok(value)
            }
            Expr::Not(e) => Ok(Val::Bool(!self.value(e)?.truth())),
            Expr::Unary(op, e) => unary(op, &self.value(e)?),
            Expr::And(a, b) => {
                let left = self.value(a)?;
                if left.truth() { self.value(b) } else { Ok(left) }
            }
            Expr::Or(a, b) => {
                let left = self.value(a)?;
                if left.truth() { Ok(left) } else { self.value(b) }
            }
            Expr::Binary(op, a, b) => binary(op, &self.value(a)?, &self.value(b)?),
            Expr::Compare(first, rest) => {
                let mut left = self.value(first)?;
                for (op, right) in rest {
                    let right = self.value(right)?;
                    if !compare(op, &left, &right)? {
                        return Ok(Val::Bool(false));
                    }
                    left = right;
                }
                Ok(Val::Bool(true))
            }
            Expr::Choice(parts) => {
                let [condition, yes, no] = &**parts;
                if self.value(condition)?.truth() { self.value(yes) } else { self.value(no) }
            }
            Expr::List(items) => bounded(items.iter().map(|i| self.value(i)).collect::<Result<_, _>>()?),
            Expr::Index(list, index) => index_of(&self.value(list)?, &self.value(index)?),
            Expr::Call(name, args) => {
                let args = args.iter().map(|a| self.value(a)).collect::<Result<Vec<_>, _>>()?;
                self.call(name, args)
            }
        }
    }

    fn call(&mut self, name: &str, args: Vec<Val>) -> Result<Val, String> {
        if name != "print" {
            return function(name, args);
        }
        if self.env.printed.len() < PRINTED_MAX {
            let words: Vec<String> = args.iter().map(ToString::to_string).collect();
            self.env.printed.push(words.join(" "));
        }
        Ok(Val::None)
    }

    /// Every name in an expression with its value, each once.
    fn names_in(&self, expr: &Expr) -> String {
        let mut seen = BTreeSet::new();
        let mut out = Vec::new();
        walk(expr, &mut |name| {
            if seen.insert(name.to_owned()) && !name.starts_with("TCP_") && !name.starts_with("TCPI_") {
                let value = self.name(name).map_or_else(|_| "?".to_owned(), |v| v.repr());
                out.push(format!("{name} = {value}"));
            }
        });
        out.join(", ")
    }
}

/// Visits the names in an expression from left to right.
fn walk(expr: &Expr, visit: &mut impl FnMut(&str)) {
    match expr {
        Expr::Const(_) => {}
        Expr::Name(name) => visit(name),
        Expr::Not(e) | Expr::Unary(_, e) => walk(e, visit),
        Expr::And(a, b) | Expr::Or(a, b) | Expr::Binary(_, a, b) | Expr::Index(a, b) => {
            walk(a, visit);
            walk(b, visit);
        }
        Expr::Compare(first, rest) => {
            walk(first, visit);
            rest.iter().for_each(|(_, e)| walk(e, visit));
        }
        Expr::Choice(parts) => parts.iter().for_each(|e| walk(e, visit)),
        Expr::List(items) | Expr::Call(_, items) => items.iter().for_each(|e| walk(e, visit)),
    }
}

/// A list of these. In Python lists share what they hold; here they own it.
fn bounded(items: Vec<Val>) -> Result<Val, String> {
    let list = Val::List(items);
    if list.depth() > DEPTH_MAX || list.weight() > LEN_MAX {
        return Err("a list that is too long or too deep".to_owned());
    }
    Ok(list)
}

fn list(value: Val) -> Result<Vec<Val>, String> {
    match value {
        Val::List(items) => Ok(items),
        other => Err(format!("{} is no list", other.repr())),
    }
}

fn unary(op: &str, value: &Val) -> Result<Val, String> {
    let result = match (op, value.int()) {
        ("-", Some(n)) => n.checked_neg().map(Val::Int),
        ("~", Some(n)) => Some(Val::Int(!n)),
        ("+", Some(n)) => Some(Val::Int(n)),
        ("-", None) => value.float().map(|x| Val::Float(-x)),
        ("+", None) => value.float().map(Val::Float),
        _ => None,
    };
    result.ok_or_else(|| format!("'{op}' does not go with {}", value.repr()))
}

fn compare(op: &str, a: &Val, b: &Val) -> Result<bool, String> {
    let among = |b: &Val| match (a, b) {
        (Val::Str(a), Val::Str(b)) => Ok(b.contains(a.as_str())),
        (a, Val::List(items)) => Ok(items.iter().any(|i| i.same(a))),
        _ => Err(format!("'in' does not go with {}", b.repr())),
    };
    match op {
        "==" => return Ok(a.same(b)),
        "!=" => return Ok(!a.same(b)),
        "in" => return among(b),
        "not in" => return among(b).map(|found| !found),
        _ => {}
    }
    let order = a.order(b).ok_or_else(|| format!("'{op}' does not go with {} and {}", a.kind(), b.kind()))?;
    Ok(match op {
        "<" => order == Ordering::Less,
        "<=" => order != Ordering::Greater,
        ">" => order == Ordering::Greater,
        _ => order != Ordering::Less,
    })
}

fn binary(op: &str, a: &Val, b: &Val) -> Result<Val, String> {
    let misfit = || format!("'{op}' does not go with {} and {}", a.kind(), b.kind());
    match (op, a, b) {
        ("%", Val::Str(text), _) => return format(text, b),
        ("+", Val::Str(x), Val::Str(y)) if x.len() + y.len() <= LEN_MAX => {
            return Ok(Val::Str(format!("{x}{y}")));
        }
        ("+", Val::List(x), Val::List(y)) => return bounded([x.as_slice(), y.as_slice()].concat()),
        _ => {}
    }
    if let (Some(x), Some(y)) = (a.int(), b.int()) {
        if op == "/" {
            return if y == 0 { Err("a division by zero".to_owned()) } else { finite(x as f64 / y as f64) };
        }
        if matches!(op, "//" | "%") && y == 0 {
            return Err("a division by zero".to_owned());
        }
        return whole(op, x, y).map(Val::Int).ok_or_else(|| format!("{x} {op} {y} does not fit 128 bits"));
    }
    let (Some(x), Some(y)) = (a.float(), b.float()) else { return Err(misfit()) };
    match op {
        "/" | "//" | "%" if y == 0.0 => Err("a division by zero".to_owned()),
        "+" => finite(x + y),
        "-" => finite(x - y),
        "*" => finite(x * y),
        "/" => finite(x / y),
        "//" => finite((x / y).floor()),
        "%" => finite(x - y * (x / y).floor()),
        "**" => finite(x.powf(y)),
        _ => Err(misfit()),
    }
}

fn finite(x: f64) -> Result<Val, String> {
    if x.is_finite() { Ok(Val::Float(x)) } else { Err("a number without end".to_owned()) }
}

/// Whole numbers, with Python's rounding downward.
fn whole(op: &str, x: i128, y: i128) -> Option<i128> {
    let shift = || u32::try_from(y).ok().filter(|_| y <= SHIFT_MAX);
    match op {
        "|" => Some(x | y),
        "^" => Some(x ^ y),
        "&" => Some(x & y),
        "<<" => x.checked_mul(1_i128.checked_shl(shift()?)?),
        ">>" => x.checked_shr(shift()?),
        "+" => x.checked_add(y),
        "-" => x.checked_sub(y),
        "*" => x.checked_mul(y),
        "//" => {
            let quotient = x.checked_div(y)?;
            let inexact = x.checked_rem(y)? != 0;
            Some(if inexact && (x < 0) != (y < 0) { quotient - 1 } else { quotient })
        }
        "%" => {
            let rest = x.checked_rem(y)?;
            Some(if rest != 0 && (rest < 0) != (y < 0) { rest + y } else { rest })
        }
        "**" => x.checked_pow(shift()?),
        _ => None,
    }
}

/// `text % values`: %d, %s, %f, %x, %r, %%, with a width, and %f with digits.
fn format(text: &str, values: &Val) -> Result<Val, String> {
    let values = if let Val::List(items) = values { items.clone() } else { vec![values.clone()] };
    let mut values = values.into_iter();
    let mut out = String::new();
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once('%') {
        out.push_str(plain);
        let end =
            after.find(|c: char| c.is_ascii_alphabetic() || c == '%').ok_or("a '%' without a letter")?;
        let (spec, letter) = (&after[..end], after.as_bytes()[end]);
        rest = &after[end + 1..];
        if letter == b'%' {
            out.push('%');
            continue;
        }
        let value = values.next().ok_or("not enough values for the '%' in the text")?;
        let misfit = || format!("'%{spec}{}' does not work", letter as char);
        let (width, digits) = match spec.split_once('.') {
            Some((width, digits)) if letter == b'f' => (width, digits.parse().map_err(|_| misfit())?),
            Some(_) => return Err(misfit()),
            None => (spec, 6),
        };
        let is_plain = width.chars().all(|c| c.is_ascii_digit()) && !width.starts_with('0');
        let width = if width.is_empty() { Ok(0) } else { width.parse::<usize>() };
        let width = width.ok().filter(|width| is_plain && *width <= LEN_MAX).ok_or_else(misfit)?;
        let number = || value.int().ok_or_else(|| format!("{} is no whole number", value.repr()));
        let piece = match letter {
            b'd' | b'i' | b'u' => number()?.to_string(),
            b'x' => {
                let n = number()?;
                format!("{}{:x}", if n < 0 { "-" } else { "" }, n.unsigned_abs())
            }
            b'f' => {
                let x = value.float().ok_or_else(|| format!("{} is no number", value.repr()))?;
                format!("{x:.*}", usize::min(digits, 30))
            }
            b's' => value.to_string(),
            b'r' => value.repr(),
            _ => return Err(misfit()),
        };
        out.push_str(&format!("{piece:>width$}"));
        if out.len() > LEN_MAX {
            return Err("a text that is too long".to_owned());
        }
    }
    out.push_str(rest);
    if values.next().is_some() {
        Err("more values than '%' in the text".to_owned())
    } else {
        Ok(Val::Str(out))
    }
}

fn index_of(list: &Val, index: &Val) -> Result<Val, String> {
    let (Val::List(items), Some(at)) = (list, index.int()) else {
        return Err(format!("{} has no [{}]", list.repr(), index.repr()));
    };
    let at = if at < 0 { at + items.len() as i128 } else { at };
    let item = usize::try_from(at).ok().and_then(|at| items.get(at));
    item.cloned().ok_or_else(|| format!("a list of {} has no [{}]", items.len(), index.repr()))
}

fn function(name: &str, mut args: Vec<Val>) -> Result<Val, String> {
    if matches!(name, "min" | "max" | "sum" | "any" | "all") && matches!(args.as_slice(), [Val::List(_)]) {
        args = args.pop().map_or(Ok(Vec::new()), list)?;
    }
    let extreme = |wanted: Ordering| {
        let mut best = args.first().cloned().ok_or("nothing to choose from")?;
        for value in &args {
            if value.order(&best).ok_or("values without an order")? == wanted {
                best = value.clone();
            }
        }
        Ok(best)
    };
    match (name, args.as_slice()) {
        ("min", _) => extreme(Ordering::Less),
        ("max", _) => extreme(Ordering::Greater),
        ("any", values) => Ok(Val::Bool(values.iter().any(Val::truth))),
        ("all", values) => Ok(Val::Bool(values.iter().all(Val::truth))),
        ("sum", values) => values.iter().try_fold(Val::Int(0), |sum, v| binary("+", &sum, v)),
        ("abs", [value]) => match (value.int(), value.float()) {
            (Some(n), _) => Ok(Val::Int(n.saturating_abs())),
            (None, Some(x)) => Ok(Val::Float(x.abs())),
            _ => Err(format!("abs() of {}", value.repr())),
        },
        ("len", [Val::Str(text)]) => Ok(Val::Int(text.chars().count() as i128)),
        ("len", [Val::List(items)]) => Ok(Val::Int(items.len() as i128)),
        ("str", [value]) => Ok(Val::Str(value.to_string())),
        ("bool", [value]) => Ok(Val::Bool(value.truth())),
        ("float", [value]) => {
            value.float().map(Val::Float).ok_or_else(|| format!("float() of {}", value.repr()))
        }
        ("int", [value]) => match value {
            Val::Float(x) if x.abs() < 1e30 => Ok(Val::Int(x.trunc() as i128)),
            Val::Str(text) => text.trim().parse().map(Val::Int).map_err(|_| format!("int() of '{text}'")),
            other => other.int().map(Val::Int).ok_or_else(|| format!("int() of {}", other.repr())),
        },
        ("round", [value]) => match value {
            Val::Float(x) if x.abs() < 1e30 => Ok(Val::Int(x.round_ties_even() as i128)),
            other => other.int().map(Val::Int).ok_or_else(|| format!("round() of {}", other.repr())),
        },
        ("range", bounds) => range(bounds),
        _ => Err(format!("there is no function {name}() with {} arguments", args.len())),
    }
}

fn range(bounds: &[Val]) -> Result<Val, String> {
    let bounds: Option<Vec<i128>> = bounds.iter().map(Val::int).collect();
    let (from, to, step) = match bounds.as_deref() {
        Some([to]) => (0, *to, 1),
        Some([from, to]) => (*from, *to, 1),
        Some([from, to, step]) if *step != 0 => (*from, *to, *step),
        _ => return Err("range() takes one to three whole numbers".to_owned()),
    };
    let mut items = Vec::new();
    let mut at = from;
    while (step > 0 && at < to) || (step < 0 && at > to) {
        if items.len() == LEN_MAX {
            return Err("a range that is too long".to_owned());
        }
        items.push(Val::Int(at));
        let Some(next) = at.checked_add(step) else { break };
        at = next;
    }
    Ok(Val::List(items))
}
