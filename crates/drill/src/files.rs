//! Finds scripts in directories and runs them.
use crate::config::{Family, Overrides};
use crate::failure::{Failure, Ran};
use crate::invocation::Invocation;
use crate::modes;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Of open(2).
const O_NONBLOCK: i32 = if cfg!(target_os = "linux") { 0o4000 } else { 4 };

/// One script and what became of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its path.
    pub script: PathBuf,
    /// Why it failed, if it did.
    pub failure: Option<Box<Failure>>,
    /// What print() in its snippets said, if it passed.
    pub printed: Vec<String>,
    /// The first comment of its head: what it shows.
    pub shows: String,
    /// Why it is expected to fail: `// fails: WHY` in its head.
    pub fails_because: Option<String>,
    /// Whether it fails for that reason is chance.
    pub by_chance: bool,
    /// The mode that it was run in; `None` for a script that ran as it says itself.
    pub mode: Option<Family>,
    /// Why it was not run in this mode.
    pub left_out: Option<String>,
}

impl Outcome {
    /// What became of the script `text` in the file `script`.
    #[must_use]
    pub fn of(script: &Path, text: &str, result: Result<Vec<String>, Box<Failure>>) -> Self {
        let (failure, printed) = match result {
            Ok(printed) => (None, printed),
            Err(failure) => (Some(failure), Vec::new()),
        };
        let shows = head(text).next().unwrap_or_default().to_owned();
        let fails_because =
            head(text).find_map(|line| line.strip_prefix("fails:")).map(|why| why.trim().to_owned());
        let (by_chance, mode, left_out) = (false, None, None);
        Self { script: script.to_owned(), failure, printed, shows, fails_because, by_chance, mode, left_out }
    }

    /// It passed, or failed and its head says so, or its head leaves that to chance, or it was left out. One that cannot be read shows nothing
    /// of what its head says.
    #[must_use]
    pub fn as_expected(&self) -> bool {
        let fails = self.failure.is_some() == self.fails_because.is_some();
        self.left_out.is_some() || !self.is_unread() && (self.by_chance || fails)
    }

    /// It could not even be read.
    #[must_use]
    pub fn is_unread(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.ran == Ran::Nowhere)
    }
}

/// The comments before the first event.
pub(crate) fn head(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map_while(|line| line.trim().strip_prefix("//")).map(str::trim)
}

/// The scripts among `paths` in order: files as they are, and all `*.pkt` below directories, sorted.
///
/// # Errors
/// A path that does not exist or cannot be read, which the error names.
pub fn collect(paths: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            walk(path, &mut found)?;
        } else {
            readable(path)?;
            found.push(path.clone());
        }
    }
    Ok(found)
}

/// The text of a script.
///
/// # Errors
/// What is no regular file, so that nobody waits for the other end of a pipe; a file that cannot be read as text.
pub fn read(path: &Path) -> io::Result<String> {
    readable(path)?;
    let read = open(path).and_then(|mut file| {
        let mut text = String::new();
        file.read_to_string(&mut text).map(|_| text)
    });
    read.map_err(|e| named(path, &e))
}

/// Opens a file to be read by who waits for nothing: what the kernel only calls regular, as a log that never ends, has nothing more to read
/// instead.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(O_NONBLOCK).open(path)
}

fn readable(path: &Path) -> io::Result<()> {
    if path.metadata().map_err(|e| named(path, &e))?.is_file() {
        return Ok(());
    }
    let why = io::Error::new(io::ErrorKind::InvalidInput, "this is no regular file");
    Err(named(path, &why))
}

/// The error with the path in front.
fn named(path: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = std::fs::read_dir(dir).and_then(|entries| entries.map(|e| e.map(|e| e.path())).collect());
    let mut entries: Vec<PathBuf> = entries.map_err(|e| named(dir, &e))?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            walk(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "pkt") {
            found.push(path);
        }
    }
    Ok(())
}

/// Runs the script in a file, with what the command line says over it.
///
/// # Errors
/// Those of [`read`].
pub fn drill_file(path: &Path, over: Overrides) -> io::Result<Outcome> {
    let text = read(path)?;
    let name = path.display().to_string();
    let mut outcome = Outcome::of(path, &text, Invocation::new(&name, &text).over(over).run());
    // A script that fails when it runs does not where nothing runs.
    if outcome.failure.is_none() && over.options.iter().any(|(name, _)| name == "dry_run") {
        outcome.fails_because = None;
    }
    Ok(outcome)
}

/// Has `run` run the script in a file in each of these modes; where it cannot be so, an outcome says why.
///
/// # Errors
/// Those of [`read`] and of `run`.
pub fn in_modes(
    path: &Path,
    modes: &[Family],
    mut run: impl FnMut(&Path, Overrides) -> io::Result<Outcome>,
) -> io::Result<Vec<Outcome>> {
    let text = read(path)?;
    let one = |&family: &Family| {
        let by_name = || modes::left_out_by_name(path, &text, family);
        let outcome = match modes::left_out(&text, family).map(|why| why.or_else(by_name)) {
            Ok(None) => run(path, family.into())?,
            Ok(left_out) => Outcome { left_out, ..Outcome::of(path, &text, Ok(Vec::new())) },
            Err(failure) => {
                let failure = failure.unread().in_script(&path.display().to_string(), &text);
                Outcome::of(path, &text, Err(failure))
            }
        };
        Ok(Outcome { mode: Some(family), ..outcome })
    };
    modes.iter().map(one).collect()
}
