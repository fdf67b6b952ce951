//! Reads a system call: `name(args) = result ERRNO (note)`.
use crate::cursor::Cursor;
use crate::failure::Failure;
use crate::names;
use crate::script::{CallSpec, Value};

/// Deepest nesting of lists and structs.
const DEPTH_MAX: usize = 8;

pub(crate) fn call(c: &mut Cursor<'_>, end: Option<u64>) -> Result<CallSpec, Box<Failure>> {
    let name = c.word().to_owned();
    c.expect("(")?;
    let args = values(c, ")", 0)?;
    c.expect("=")?;
    let result = if c.eat("...") { None } else { Some(c.number()?) };
    let mut errno = None;
    c.blank();
    if c.peek() == 'E' {
        errno = Some(c.word().to_owned());
    }
    // On the same line only: nothing else begins with a parenthesis, but a note never stands alone.
    if c.eat("(") {
        c.until(")")?;
    }
    Ok(CallSpec { name, args, end, result, errno })
}

fn values(c: &mut Cursor<'_>, close: &str, depth: usize) -> Result<Vec<Value>, Box<Failure>> {
    let mut list = Vec::new();
    while !c.eat(close) {
        list.push(value(c, depth)?);
        if !c.eat(",") {
            c.expect(close)?;
            break;
        }
    }
    Ok(list)
}

fn value(c: &mut Cursor<'_>, depth: usize) -> Result<Value, Box<Failure>> {
    if depth > DEPTH_MAX {
        return c.fail("lists nested too deeply");
    }
    c.blank();
    match c.peek() {
        '.' => c.expect("...").map(|()| Value::Any),
        '"' => {
            c.eat("\"");
            Ok(Value::Text(c.until("\"")?.to_owned()))
        }
        '[' => {
            c.eat("[");
            values(c, "]", depth + 1).map(Value::List)
        }
        '{' => {
            c.eat("{");
            fields(c, depth + 1)
        }
        _ => {
            let mut bits = atom(c)?;
            while c.eat("|") {
                bits |= atom(c)?;
            }
            Ok(Value::Int(bits))
        }
    }
}

fn fields(c: &mut Cursor<'_>, depth: usize) -> Result<Value, Box<Failure>> {
    let mut list = Vec::new();
    while !c.eat("}") {
        c.blank();
        let rest = c.rest();
        let word =
            rest.len() - rest.trim_start_matches(|ch: char| ch.is_ascii_alphanumeric() || ch == '_').len();
        let named = !c.peek().is_ascii_digit() && word > 0 && rest[word..].trim_start().starts_with('=');
        let name = if named { c.word().to_owned() } else { String::new() };
        if named {
            c.expect("=")?;
        }
        list.push((name, value(c, depth)?));
        if !c.eat(",") {
            c.expect("}")?;
            break;
        }
    }
    Ok(Value::Struct(list))
}

fn atom(c: &mut Cursor<'_>) -> Result<i64, Box<Failure>> {
    c.blank();
    if c.peek().is_ascii_digit() || c.peek() == '-' {
        return c.number();
    }
    let name = c.word();
    match names::constant(name) {
        Some(n) => Ok(n),
        None => c.fail(format!("the name '{name}' is not known")),
    }
}
