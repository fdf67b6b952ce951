//! Reads a script: options in front, then events, each with a time and an action.
mod call;
mod packet;

pub(crate) use packet::LETTERS;

use crate::cursor::Cursor;
use crate::expr;
use crate::failure::Failure;
use crate::script::{Action, Assert, Event, Script, When};

/// Reads the text of a script.
pub(crate) fn script(text: &str) -> Result<Script, Box<Failure>> {
    let mut c = Cursor::new(text, 1);
    let mut script = Script::default();
    loop {
        c.blank();
        if !c.rest().starts_with("--") {
            break;
        }
        let line = c.line();
        c.eat("--");
        let name = c.word().to_owned();
        let value = if c.rest().starts_with('=') { c.take_while(|ch| !ch.is_whitespace()) } else { "" };
        script.flags.push((line, name, value.trim_start_matches('=').to_owned()));
    }
    loop {
        c.blank();
        if c.rest().is_empty() {
            return Ok(script);
        }
        script.events.push(event(&mut c)?);
    }
}

fn event(c: &mut Cursor<'_>) -> Result<Event, Box<Failure>> {
    let when = when(c)?;
    let end = if c.eat("...") { Some(c.seconds()?) } else { None };
    c.blank();
    let line = c.line();
    let action = match c.peek() {
        '<' => {
            c.eat("<");
            Action::Inbound(packet::packet(c, true)?)
        }
        '>' => {
            c.eat(">");
            Action::Outbound(packet::packet(c, false)?)
        }
        '`' => Action::Command(command(c)?),
        '%' => Action::Code(code(c)?),
        ch if ch.is_ascii_alphabetic() => Action::Call(call::call(c, end)?),
        ch => return c.fail(format!("'{ch}' begins neither a packet nor a call nor a command")),
    };
    if end.is_some() && !matches!(action, Action::Call(_)) {
        return Err(Failure::new(line, "only a call may take time ('...'); for a range write '~'"));
    }
    Ok(Event { line, when, action })
}

fn when(c: &mut Cursor<'_>) -> Result<When, Box<Failure>> {
    c.blank();
    if c.eat("*") {
        return Ok(When::Any);
    }
    let relative = c.eat("+");
    if !relative && !c.peek().is_ascii_digit() && c.peek() != '.' {
        return Ok(When::Relative(0, 0));
    }
    let from = c.seconds()?;
    let mut to = from;
    if c.eat("~") {
        c.eat("+");
        to = c.seconds()?;
        if to < from {
            return c.fail("a range of time that ends before it begins");
        }
    }
    Ok(if relative { When::Relative(from, to) } else { When::Absolute(from, to) })
}

fn command(c: &mut Cursor<'_>) -> Result<Vec<(usize, String)>, Box<Failure>> {
    c.eat("`");
    let first = c.line();
    let text = c.until("`")?;
    let mut lines = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.split(" #").next().unwrap_or_default();
        for part in line.replace("&&", ";").split(';') {
            let part = part.trim();
            if !part.is_empty() && !part.starts_with('#') {
                lines.push((first + n, part.to_owned()));
            }
        }
    }
    Ok(lines)
}

fn code(c: &mut Cursor<'_>) -> Result<Vec<Assert>, Box<Failure>> {
    c.expect("%{")?;
    let first = c.line();
    let text = c.until("}%")?;
    let mut asserts = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let number = first + n;
        let line = line.split('#').next().unwrap_or_default();
        for part in line.split(';').map(str::trim).filter(|p| !p.is_empty()) {
            let Some(body) = part.strip_prefix("assert") else {
                return Err(Failure::new(number, format!("only assertions work in %{{ }}%, not '{part}'")));
            };
            let expr = expr::parse(body, number)?;
            asserts.push(Assert { line: number, text: body.trim().to_owned(), expr });
        }
    }
    Ok(asserts)
}

#[cfg(test)]
mod tests;
