//! A runner for packetdrill's language: scripts of packets and system calls, against the core, in virtual time.
//!
//! [`drill`] takes the text of one script, gives the stack one device with one peer on it, and compares what the stack
//! does with what the script says, line by line. There is no kernel, no device and no clock: a script that spans minutes runs
//! in microseconds, and runs the same every time. docs/drill.md says which part of the language works.
#![forbid(unsafe_code)]

mod config;
mod cursor;
mod failure;
mod files;
mod names;
mod options;
mod page;
mod parse;
mod py;
mod run;
mod script;
mod sctp;
mod shell;
mod target;
mod wire;

pub use failure::Failure;
pub use files::{Outcome, collect, drill_file, read};
pub use page::page;
pub use run::Transcript;
pub use target::{ORIGIN, Target, World};

use std::path::Path;

/// Runs a script and gives what its snippets printed. `name` is its path, for messages and for the files that it names.
///
/// # Errors
/// The first line that cannot be read, or that the stack does not fulfil.
pub fn drill(name: &str, text: &str) -> Result<Vec<String>, Box<Failure>> {
    let script = parse::script(text).map_err(|e| e.in_script(name, text))?;
    run::run(&script, folder(name)).map_err(|e| e.in_script(name, text))
}

/// Runs a script, and gives the Python program that packetdrill would make of its snippets: each behind the values of its moment.
/// Empty for a script without snippets.
///
/// # Errors
/// As [`drill`].
pub fn python(name: &str, text: &str) -> Result<String, Box<Failure>> {
    let script = parse::script(text).map_err(|e| e.in_script(name, text))?;
    run::python(&script, folder(name)).map_err(|e| e.in_script(name, text))
}

/// Runs a script as [`drill`] does, and tells what the stack sent.
///
/// # Errors
/// As [`drill`].
pub fn record(name: &str, text: &str) -> Result<(Vec<String>, Transcript), Box<Failure>> {
    let script = parse::script(text).map_err(|e| e.in_script(name, text))?;
    run::record(&script, folder(name)).map_err(|e| e.in_script(name, text))
}

/// Runs a script as [`drill_on`] does, and tells what was sent.
///
/// # Errors
/// As [`drill_on`].
pub fn record_on(
    name: &str,
    text: &str,
    make: impl FnOnce(&World) -> Result<Box<dyn Target>, String>,
) -> Result<(Vec<String>, Transcript), Box<Failure>> {
    let run = || {
        let script = parse::script(text)?;
        let target = make(&World::of(&script.config)).map_err(|what| Failure::new(1, what))?;
        run::record_on(&script, folder(name), target)
    };
    run().map_err(|e| e.in_script(name, text))
}

/// Where a script looks for files.
fn folder(name: &str) -> &Path {
    Path::new(name).parent().unwrap_or(Path::new(""))
}

/// Runs a script against what `make` gives for its world.
///
/// # Errors
/// As [`drill`], and what `make` says.
pub fn drill_on(
    name: &str,
    text: &str,
    make: impl FnOnce(&World) -> Result<Box<dyn Target>, String>,
) -> Result<Vec<String>, Box<Failure>> {
    let run = || {
        let script = parse::script(text)?;
        let target = make(&World::of(&script.config)).map_err(|what| Failure::new(1, what))?;
        run::run_on(&script, folder(name), target)
    };
    run().map_err(|e| e.in_script(name, text))
}
