//! `--dry_run`: what a script can be told of without running it. Names of calls, of fields and of settings are looked up, commands are carried out
//! on a stack that nothing else happens to, and calls are built.
use super::{Runner, info, local};
use crate::failure::Failure;
use crate::names;
use crate::script::{Action, CallSpec, Script, Snippet, Value};
use std::collections::BTreeSet;

impl Runner<'_> {
    /// Reads the script, and runs none of its events.
    pub(super) fn dry(&mut self, script: &Script) -> Result<(), Box<Failure>> {
        self.init_scripts(script)?;
        let own = own_names(script);
        for event in &script.events {
            match &event.action {
                Action::Command(commands) => self.commands(commands)?,
                Action::Call(spec) => self.dry_call(event.line, spec)?,
                Action::Code(snippet) => dry_snippet(event.line, snippet, &own)?,
                Action::Inbound(_) | Action::Outbound(_) | Action::Device(_) => {}
            }
        }
        Ok(())
    }

    fn dry_call(&self, line: usize, spec: &CallSpec) -> Result<(), Box<Failure>> {
        for value in &spec.args {
            known_fields(line, value)?;
        }
        // What the runner answers by itself looks at files.
        if local::OWN.contains(&spec.name.as_str()) {
            return Ok(());
        }
        self.build(line, spec).map(|_| ())
    }
}

/// Every `tcpi_` of a value is a field of TCP_INFO.
fn known_fields(line: usize, value: &Value) -> Result<(), Box<Failure>> {
    match value {
        Value::List(items) => items.iter().try_for_each(|item| known_fields(line, item)),
        Value::Struct(fields) => fields.iter().try_for_each(|(name, value)| {
            known_field(line, name)?;
            known_fields(line, value)
        }),
        _ => Ok(()),
    }
}

fn known_field(line: usize, name: &str) -> Result<(), Box<Failure>> {
    if !name.starts_with("tcpi_") || info::names().any(|known| known == name) {
        return Ok(());
    }
    Err(Failure::new(line, format!("TCP_INFO has no '{name}'{}", names::told(&info::near(name)))))
}

/// The names that snippets give values, for one another.
fn own_names(script: &Script) -> BTreeSet<&str> {
    let snippets = script.events.iter().filter_map(|event| match &event.action {
        Action::Code(snippet) => Some(&snippet.text),
        _ => None,
    });
    let words = snippets.flat_map(|text| text.lines().flat_map(words));
    words.filter(|(_, assigned)| *assigned).map(|(word, _)| word).collect()
}

/// The fields that a snippet names, whoever reads it.
fn dry_snippet(first: usize, snippet: &Snippet, own: &BTreeSet<&str>) -> Result<(), Box<Failure>> {
    for (n, line) in snippet.text.lines().enumerate() {
        for (word, _) in words(line).filter(|(word, _)| !own.contains(word)) {
            known_field(first + n, word)?;
        }
    }
    Ok(())
}

/// The names of a line of Python outside of comments and strings, and whether a value is given to each.
fn words(line: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut rest = line;
    std::iter::from_fn(move || {
        loop {
            let first = rest.chars().next().filter(|c| *c != '#')?;
            let end = match first {
                '"' | '\'' => rest[1..].find(first).map_or(rest.len(), |at| at + 2),
                c if is_name(c) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
                c => c.len_utf8(),
            };
            let (word, after) = rest.split_at(end);
            rest = after;
            if is_name(first) {
                let behind = after.trim_start();
                return Some((word, behind.starts_with('=') && !behind.starts_with("==")));
            }
        }
    })
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_outside_of_strings_and_comments() {
        let line = "tcpi_x = 'tcpi_a \"' + a == tcpi_b, \"it's\" # tcpi_c";
        let found: Vec<_> = words(line).collect();
        assert_eq!(found, [("tcpi_x", true), ("a", false), ("tcpi_b", false)]);
        assert_eq!(words("é 'open").count(), 0);
    }
}
