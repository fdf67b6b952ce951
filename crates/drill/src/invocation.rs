//! A script and what the command line says over it, ready to run.
use crate::config::Overrides;
use crate::failure::Failure;
use crate::parse;
use crate::run::{self, Transcript};
use crate::script::Script;
use crate::target::{Target, World};
use std::path::Path;

/// A script that shall run.
#[derive(Clone, Copy, Debug)]
pub struct Invocation<'a> {
    name: &'a str,
    text: &'a str,
    over: Overrides,
}

impl<'a> Invocation<'a> {
    /// The script `text` as it says itself. `name` is its path, for messages and for the files that it names.
    #[must_use]
    pub const fn new(name: &'a str, text: &'a str) -> Self {
        Self { name, text, over: Overrides { ip_version: None, mtu: None, options: &[] } }
    }

    /// The same script with what the command line says over its options.
    #[must_use]
    pub fn over(self, over: impl Into<Overrides>) -> Self {
        Self { over: over.into(), ..self }
    }

    /// Runs it against the stack, and gives what its snippets printed.
    ///
    /// # Errors
    /// The first line that cannot be read, or that the stack does not fulfil.
    pub fn run(&self) -> Result<Vec<String>, Box<Failure>> {
        self.told(run::run)
    }

    /// Runs it against what `make` gives for its world.
    ///
    /// # Errors
    /// As [`Self::run`], and what `make` says.
    pub fn run_on(
        &self,
        make: impl FnOnce(&World) -> Result<Box<dyn Target>, String>,
    ) -> Result<Vec<String>, Box<Failure>> {
        self.told(|script, folder| run::run_on(script, folder, made(script, make)?))
    }

    /// Runs it as [`Self::run`] does, and tells what the stack sent.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn record(&self) -> Result<(Vec<String>, Transcript), Box<Failure>> {
        self.told(run::record)
    }

    /// Runs it as [`Self::run_on`] does, and tells what was sent.
    ///
    /// # Errors
    /// As [`Self::run_on`].
    pub fn record_on(
        &self,
        make: impl FnOnce(&World) -> Result<Box<dyn Target>, String>,
    ) -> Result<(Vec<String>, Transcript), Box<Failure>> {
        self.told(|script, folder| run::record_on(script, folder, made(script, make)?))
    }

    /// Runs it, and gives the Python program that packetdrill would make of its snippets: each behind the values of its moment.
    /// Empty for a script without snippets.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn python(&self) -> Result<String, Box<Failure>> {
        self.told(run::python)
    }

    /// Reads the script and does something with it; a failure tells where, and how to have it again.
    fn told<T>(
        &self,
        act: impl FnOnce(&Script, &Path) -> Result<T, Box<Failure>>,
    ) -> Result<T, Box<Failure>> {
        let folder = Path::new(self.name).parent().unwrap_or(Path::new(""));
        let unread = |failure: Box<Failure>| failure.unread();
        let script = parse::script(self.text, self.over).map_err(unread);
        script.and_then(|script| act(&script, folder)).map_err(|failure| {
            let mut failure = failure.in_script(self.name, self.text);
            failure.over = self.over;
            failure
        })
    }
}

fn made(
    script: &Script,
    make: impl FnOnce(&World) -> Result<Box<dyn Target>, String>,
) -> Result<Box<dyn Target>, Box<Failure>> {
    make(&World::of(&script.config)).map_err(|what| Failure::new(1, what))
}
