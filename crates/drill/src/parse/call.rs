//! Reads a system call: `name(args) = result ERRNO (note)`.
use super::Scope;
use crate::cursor::{Cursor, past_blanks};
use crate::failure::Failure;
use crate::names;
use crate::script::{CallSpec, Value};
use crate::sctp;
use core::net::{Ipv4Addr, Ipv6Addr};

/// Deepest nesting of lists and structs.
const DEPTH_MAX: usize = 8;
/// Notes in parentheses behind a call: one goes with the errno.
const NOTES_MAX: usize = 2;

pub(super) fn call(
    c: &mut Cursor<'_>,
    scope: &Scope<'_>,
    end: Option<u64>,
) -> Result<CallSpec, Box<Failure>> {
    let name = scope.word(c.word()).to_owned();
    c.expect("(")?;
    let args = values(c, scope, ")", 0)?;
    c.expect("=")?;
    let result = match value(c, scope, 0)? {
        Value::Any => None,
        Value::Int(n) => Some(n),
        other => return c.fail(format!("a call returns a number or '...', not {other}")),
    };
    let mut errno = None;
    // An event begins with its time, so a word belongs to this one on whatever line; but a name may stand for the last command.
    let word = scope.word(c.peek_word());
    if word.starts_with('E') {
        if names::errno(word).is_none() {
            let near = names::told(&names::near_errnos(word));
            return c.fail(format!("'{word}' is no error that Linux knows{near}"));
        }
        errno = Some(word.to_owned());
        c.word();
    }
    // What strace says of an error, and of the result.
    for _ in 0..NOTES_MAX {
        if c.eat("(") {
            c.until(")")?;
        }
    }
    Ok(CallSpec { name, args, end, result, errno })
}

fn values(
    c: &mut Cursor<'_>,
    scope: &Scope<'_>,
    close: &str,
    depth: usize,
) -> Result<Vec<Value>, Box<Failure>> {
    let mut list = Vec::new();
    while !c.eat(close) {
        list.push(value(c, scope, depth)?);
        if !c.eat(",") {
            c.expect(close)?;
            break;
        }
    }
    Ok(list)
}

fn value(c: &mut Cursor<'_>, scope: &Scope<'_>, depth: usize) -> Result<Value, Box<Failure>> {
    if depth > DEPTH_MAX {
        return c.fail("lists nested too deeply");
    }
    c.blank();
    match c.peek() {
        '.' => c.expect("...").map(|()| Value::Any),
        '"' => strings(c).map(Value::Text),
        '[' => {
            c.eat("[");
            values(c, scope, "]", depth + 1).map(Value::List)
        }
        '{' => {
            c.eat("{");
            fields(c, scope, depth + 1)
        }
        _ => {
            let first = atom(c, scope, depth)?;
            let Value::Int(mut bits) = first else { return Ok(first) };
            while c.eat("|") {
                match atom(c, scope, depth)? {
                    Value::Int(more) => bits |= more,
                    other => return c.fail(format!("'|' joins numbers, not {other}")),
                }
            }
            Ok(Value::Int(bits))
        }
    }
}

/// Strings that follow one another are one; `...` behind them says that more follows, which nobody compares.
fn strings(c: &mut Cursor<'_>) -> Result<Vec<u8>, Box<Failure>> {
    let mut bytes = Vec::new();
    while c.eat("\"") {
        let begin = c.line();
        loop {
            let plain = c.take_until(|ch| ch == '"' || ch == '\\');
            bytes.extend(plain.as_bytes());
            if c.eat_here("\"") {
                break;
            }
            if !c.eat_here("\\") {
                return Err(Failure::new(begin, "no '\"' ends what begins here"));
            }
            bytes.push(escape(c)?);
        }
    }
    c.eat("...");
    Ok(bytes)
}

fn escape(c: &mut Cursor<'_>) -> Result<u8, Box<Failure>> {
    let letter = c.peek();
    let byte = match letter {
        'n' => b'\n',
        'f' => 0x0c,
        'v' => 0x0b,
        'r' => b'\r',
        't' => b'\t',
        '0' => 0,
        '\\' | '"' | '\'' => letter as u8,
        'x' => {
            let hex = c.rest().get(1..3).and_then(|d| u8::from_str_radix(d, 16).ok());
            let Some(byte) = hex else { return c.fail("'\\x' needs two hexadecimal digits") };
            c.skip(3);
            return Ok(byte);
        }
        _ => return c.fail(format!("'\\{letter}' is no character")),
    };
    c.skip(1);
    Ok(byte)
}

fn fields(c: &mut Cursor<'_>, scope: &Scope<'_>, depth: usize) -> Result<Value, Box<Failure>> {
    let mut list = Vec::new();
    if let Some(what) = tunnel(c) {
        return c.fail(format!("{what} as a value: packets within packets do not exist here"));
    }
    while !c.eat("}") {
        let (name, room) = field_name(c)?;
        list.extend(room.map(|n| ("msg_controllen".to_owned(), Value::Int(n))));
        let known = if name == "sauth_chunk" { sctp::chunk_kind(c.peek_word()) } else { None };
        list.push((
            common(name),
            match known {
                Some(kind) => {
                    c.word();
                    Value::Int(kind.into())
                }
                None => value(c, scope, depth)?,
            },
        ));
        if !c.eat(",") {
            c.expect("}")?;
            break;
        }
    }
    Ok(Value::Struct(list))
}

/// The field of `sockaddr_in` for that of `sockaddr_in6`: which of them an address is its family says.
fn common(name: String) -> String {
    let name = match name.as_str() {
        "sin_family" | "sin6_family" => "sa_family",
        "sin6_port" => "sin_port",
        "sin6_addr" => "sin_addr",
        _ => return name,
    };
    name.to_owned()
}

/// What of packetdrill's tunnels stands here: `{(label 0, ...)}` or `{flags [none], ...}`.
fn tunnel(c: &mut Cursor<'_>) -> Option<&'static str> {
    c.blank();
    let rest = c.rest();
    let gre = rest.strip_prefix("flags").or_else(|| rest.strip_prefix("Flags"));
    let named = |after: &str| after.starts_with([' ', '[']) && !after.trim_start().starts_with('=');
    match c.peek() {
        '(' => Some("a stack of MPLS labels"),
        _ => gre.is_some_and(named).then_some("a header of GRE"),
    }
}

/// `name=`, or `name(n)=` as in `msg_iov(2)=`, whose number says again what the list says; or nothing. That of `msg_control(100)=` is the room.
fn field_name(c: &mut Cursor<'_>) -> Result<(String, Option<i64>), Box<Failure>> {
    c.blank();
    let word = c.peek_word();
    let after = past_blanks(c.rest().get(word.len()..).unwrap_or_default());
    let counted = matches!(word, "msg_name" | "msg_iov" | "msg_control") && after.starts_with('(');
    if word.is_empty() || !(after.starts_with('=') || counted) {
        return Ok((String::new(), None));
    }
    c.word();
    let mut room = None;
    if counted {
        c.expect("(")?;
        room = c.until(")")?.trim().parse().ok().filter(|_| word == "msg_control");
    }
    c.expect("=")?;
    Ok((word.to_owned(), room))
}

fn atom(c: &mut Cursor<'_>, scope: &Scope<'_>, depth: usize) -> Result<Value, Box<Failure>> {
    c.blank();
    if c.peek().is_ascii_digit() || c.peek() == '-' {
        return c.number().map(Value::Int);
    }
    let name = c.word();
    if let Some(text) = scope.defines.get(name) {
        // What a definition stands for is read like what it replaces, but knows no definitions itself.
        let plain = std::collections::BTreeMap::new();
        let scope = Scope { v6: scope.v6, defines: &plain };
        return value(&mut Cursor::new(text, c.line()), &scope, depth + 1);
    }
    match name {
        "htons" => {
            c.expect("(")?;
            let port: u16 = c.number()?;
            c.expect(")")?;
            Ok(Value::Int(port.into()))
        }
        "htonl" => {
            c.expect("(")?;
            let n: u32 = c.number()?;
            c.expect(")")?;
            Ok(Value::Int(n.to_be().into()))
        }
        "inet_addr" | "inet6_addr" => {
            c.expect("(")?;
            let text = String::from_utf8(strings(c)?).unwrap_or_default();
            c.expect(")")?;
            let v4 = text.parse::<Ipv4Addr>().ok().filter(|_| name == "inet_addr").map(Into::into);
            match v4.or_else(|| text.parse::<Ipv6Addr>().ok().map(Into::into)) {
                Some(ip) => Ok(Value::Addr(ip)),
                None => c.fail(format!("'{text}' is no address")),
            }
        }
        "" => c.wants("a value"),
        _ => match names::constant(name) {
            Some(n) => Ok(Value::Int(n)),
            None => c.fail(names::unknown(name)),
        },
    }
}
