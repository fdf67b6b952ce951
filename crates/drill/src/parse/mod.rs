//! Reads a script: options in front, then events, each with a time and an action.
mod call;
mod icmp;
mod ip;
mod packet;
mod tcp;

pub(crate) use icmp::{code_name, has_words, kind_name};
pub(crate) use tcp::LETTERS;

use crate::config::{Config, Family, Flag, Overrides};
use crate::cursor::Cursor;
use crate::failure::Failure;
use crate::py;
use crate::script::{Action, DeviceAct, Event, Script, Snippet, When};
use crate::shell::{Shell, commands_of};
use std::collections::BTreeMap;

/// What reading depends on.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    /// Packets are IPv6.
    v6: bool,
    /// `--define=NAME=value`.
    defines: &'a BTreeMap<String, String>,
}

impl Scope<'_> {
    /// What a word stands for: itself without a definition.
    fn word<'w>(&'w self, word: &'w str) -> &'w str {
        self.defines.get(word).map_or(word, String::as_str)
    }
}

/// Characters that a message quotes.
const TOLD_MAX: usize = 40;

/// Reads the text of a script, with what the command line says over its options.
pub(crate) fn script(text: &str, over: Overrides) -> Result<Script, Box<Failure>> {
    let mut c = Cursor::new(text, 1);
    if text.starts_with('\u{feff}') {
        return c.fail("a byte order mark (U+FEFF) stands in front of the script: it is none of its text");
    }
    let config = Config::new(flags(&mut c)?, over)?;
    let mut events = Vec::new();
    let scope = Scope { v6: config.family == Family::V6, defines: &config.defines };
    if let Some(init) = bare_command(&mut c, &scope)? {
        events.push(init);
    }
    let mut timed = 0;
    loop {
        c.blank();
        if c.rest().is_empty() {
            break;
        }
        if let Some(cleanup) = bare_command(&mut c, &scope)? {
            c.blank();
            if !c.rest().is_empty() {
                let what = "a command without a time is either the first or the last thing in a script; several go \
                            between one pair of backticks";
                return Err(Failure::new(cleanup.line, what));
            }
            events.push(cleanup);
            break;
        }
        events.push(event(&mut c, &scope)?);
        timed += 1;
        check_order(&events, timed)?;
    }
    if events.is_empty() {
        return c.fail("the script has no event");
    }
    Ok(Script { config, events })
}

/// The options in front of a script, for who wants to know no more of it.
pub(crate) fn options(text: &str) -> Result<Vec<Flag>, Box<Failure>> {
    flags(&mut Cursor::new(text, 1))
}

/// The options in front: `--name=value` or `--name`.
fn flags(c: &mut Cursor<'_>) -> Result<Vec<Flag>, Box<Failure>> {
    let mut flags = Vec::new();
    while c.eat("--") {
        let line = c.line();
        let name = c.word().to_owned();
        // Blanks may stand around the sign: nothing that follows an option begins with one.
        let value = if c.eat("=") {
            c.blank();
            Some(flag_value(c)?)
        } else {
            None
        };
        flags.push(Flag { line, name, value });
    }
    Ok(flags)
}

/// Up to a blank; quotation marks of both kinds hold blanks together, and fall away around the whole.
fn flag_value(c: &mut Cursor<'_>) -> Result<String, Box<Failure>> {
    let mut value = String::new();
    loop {
        let plain = c.take_until(|ch| ch.is_whitespace() || ch == '"' || ch == '`');
        value.push_str(plain);
        let quote = c.peek();
        if quote != '"' && quote != '`' {
            // The sign of a definition may have blanks around it, as that of the option.
            let signed = match value.find('=') {
                Some(at) => at + 1 == value.len(),
                None if c.eat("=") => {
                    value.push('=');
                    true
                }
                None => false,
            };
            c.blank();
            if signed && !c.rest().is_empty() {
                continue;
            }
            return Ok(value);
        }
        let alone = quote == '"' && value.is_empty();
        c.skip(1);
        let inner = c.until(if quote == '"' { "\"" } else { "`" })?;
        if alone {
            value.push_str(inner);
        } else {
            value.extend([quote]);
            value.push_str(inner);
            value.extend([quote]);
        }
    }
}

/// A command without a time: the init command or the cleanup command.
fn bare_command(c: &mut Cursor<'_>, scope: &Scope<'_>) -> Result<Option<Event>, Box<Failure>> {
    c.blank();
    let line = c.line();
    let action = match c.peek() {
        '`' => Action::Command(command(c)?),
        ch if ch.is_ascii_alphabetic() => match defined_command(c, scope)? {
            Some(commands) => Action::Command(commands),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(Event { line, when: When::Relative(0, 0), action }))
}

/// A name that `--define` made a command.
fn defined_command(c: &mut Cursor<'_>, scope: &Scope<'_>) -> Result<Option<Vec<Shell>>, Box<Failure>> {
    let text = scope.defines.get(c.peek_word()).and_then(|text| text.strip_prefix('`')?.strip_suffix('`'));
    let Some(text) = text else { return Ok(None) };
    let line = c.line();
    c.word();
    commands(text, line).map(Some)
}

fn event(c: &mut Cursor<'_>, scope: &Scope<'_>) -> Result<Event, Box<Failure>> {
    c.blank();
    let begin = c.line();
    let when = when(c)?;
    let end = if c.eat("...") { Some(c.seconds()?) } else { None };
    c.blank();
    let line = c.line();
    let action = match c.peek() {
        '<' => {
            c.eat("<");
            Action::Inbound(packet::packet(c, scope, true)?)
        }
        '>' => {
            c.eat(">");
            Action::Outbound(packet::packet(c, scope, false)?)
        }
        '`' => Action::Command(command(c)?),
        '%' => Action::Code(code(c)?),
        ch if ch.is_ascii_alphabetic() => match defined_command(c, scope)? {
            Some(commands) => Action::Command(commands),
            None if c.peek_word() == "device" => Action::Device(device(c)?),
            None => Action::Call(call::call(c, scope, end)?),
        },
        ',' => return c.fail("',' behind a time: a decimal point is written '.', as 0.1"),
        ch => return c.fail(format!("'{ch}' begins neither a packet nor a call nor a command")),
    };
    if end.is_some() && !matches!(action, Action::Call(_)) {
        return Err(Failure::new(line, "only a call may take time ('...'); for a range write '~'"));
    }
    let vague = match when {
        When::Any => true,
        When::Absolute(from, to) | When::Relative(from, to) => from != to,
    };
    if vague && !matches!(action, Action::Outbound(_)) {
        return Err(Failure::new(
            begin,
            "only a packet that the stack sends may have '*' or a range of time",
        ));
    }
    Ok(Event { line, when, action })
}

/// A script begins at 0, and times do not go backwards.
fn check_order(events: &[Event], timed: usize) -> Result<(), Box<Failure>> {
    let [before @ .., last] = events else { return Ok(()) };
    if timed == 1 && !matches!(last.when, When::Absolute(0, _) | When::Relative(0, _)) {
        return Err(Failure::new(last.line, "the first event happens at 0"));
    }
    let earlier = before.last().map(|e| e.when);
    match (earlier, last.when) {
        (Some(When::Absolute(earlier, _)), When::Absolute(now, _)) if now < earlier => {
            Err(Failure::new(last.line, "this event comes before the one above it"))
        }
        _ => Ok(()),
    }
}

fn when(c: &mut Cursor<'_>) -> Result<When, Box<Failure>> {
    c.blank();
    if c.eat("*") {
        return Ok(When::Any);
    }
    let relative = c.eat("+");
    if !relative && !c.peek().is_ascii_digit() && c.peek() != '.' {
        let stands: String = c.rest().chars().take_while(|ch| *ch != '\n').take(TOLD_MAX).collect();
        return c.fail(format!(
            "an event begins with its time, 0.1, +0.1 or *, and not with '{}'; or does that belong to what stands before it?",
            stands.trim_end()
        ));
    }
    let from = c.seconds()?;
    let mut to = from;
    if c.eat("~") {
        if relative {
            c.expect("+")?;
        }
        to = c.seconds()?;
        if to < from {
            return c.fail("a range of time that ends before it begins");
        }
    }
    Ok(if relative { When::Relative(from, to) } else { When::Absolute(from, to) })
}

fn command(c: &mut Cursor<'_>) -> Result<Vec<Shell>, Box<Failure>> {
    c.eat("`");
    let first = c.line();
    commands(c.until_bare('`')?, first)
}

fn commands(text: &str, first: usize) -> Result<Vec<Shell>, Box<Failure>> {
    commands_of(text, first).map_err(|(line, what)| Failure::new(line, what))
}

fn code(c: &mut Cursor<'_>) -> Result<Snippet, Box<Failure>> {
    c.expect("%{")?;
    let first = c.line();
    let text = c.until("}%")?;
    Ok(Snippet { program: py::parse(text, first), text: text.trim_matches([' ', '\t']).to_owned() })
}

/// `device complete N|all`, `device drop N`, `device busy`, `device ready`: ours.
fn device(c: &mut Cursor<'_>) -> Result<DeviceAct, Box<Failure>> {
    c.word();
    match c.word() {
        "complete" if c.eat_word("all") => Ok(DeviceAct::Complete(None)),
        "complete" => Ok(DeviceAct::Complete(Some(c.number()?))),
        "drop" => Ok(DeviceAct::Drop(c.number()?)),
        "busy" => Ok(DeviceAct::Busy),
        "ready" => Ok(DeviceAct::Ready),
        other => c.fail(format!(
            "a device does 'complete N', 'complete all', 'drop N', 'busy' or 'ready', not '{other}'"
        )),
    }
}

#[cfg(test)]
mod tests;
