//! A runner for packetdrill's language: scripts of packets and system calls, against the core, in virtual time.
//!
//! An [`Invocation`] takes the text of one script, gives the stack one device with one peer on it, and compares what the stack
//! does with what the script says, line by line. There is no kernel, no device and no clock: a script that spans minutes runs
//! in microseconds, and runs the same every time. docs/drill.md says which part of the language works.
#![forbid(unsafe_code)]

mod arith;
mod config;
mod cursor;
mod failure;
mod files;
mod grep;
mod invocation;
mod modes;
mod names;
mod nstat;
mod options;
mod page;
mod parse;
mod py;
mod run;
mod script;
mod sctp;
mod shell;
mod steps;
mod target;
mod wire;

pub use config::{Family, Overrides};
pub use failure::{Failure, Ran};
pub use files::{Outcome, collect, drill_file, in_modes, read};
pub use invocation::Invocation;
pub use modes::left_out;
pub use page::page;
pub use run::{Apart, Transcript, is_compared};
pub use steps::Steps;
pub use target::{ORIGIN, Target, World};

/// Runs a script as it says itself and gives what its snippets printed: [`Invocation::run`].
///
/// # Errors
/// The first line that cannot be read, or that the stack does not fulfil.
pub fn drill(name: &str, text: &str) -> Result<Vec<String>, Box<Failure>> {
    Invocation::new(name, text).run()
}
