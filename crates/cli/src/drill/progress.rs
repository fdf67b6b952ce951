//! How far `lowwater drill` came, for who asks it to end.
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Shared with who waits for signals.
#[derive(Debug)]
pub(super) struct Progress {
    total: usize,
    now: Mutex<Now>,
}

#[derive(Debug, Default)]
struct Now {
    done: usize,
    failed: usize,
    /// The script that runs.
    script: Option<PathBuf>,
}

impl Progress {
    /// Before the first of so many scripts.
    pub(super) fn new(total: usize) -> Self {
        Self { total, now: Mutex::default() }
    }

    /// This one runs from now on.
    pub(super) fn begin(&self, script: &Path) {
        self.change(|now| now.script = Some(script.to_owned()));
    }

    /// It came to its end; so many have failed by now. False where there are more.
    pub(super) fn end(&self, failed: usize) -> bool {
        self.change(|now| *now = Now { done: now.done + 1, failed, script: None });
        self.change(|now| now.done) == self.total
    }

    /// How far it came. Of a script that was cut short nobody knows what would have become of it.
    pub(super) fn words(&self) -> String {
        self.change(|now| {
            let Now { done, failed, script } = now;
            let cut = script.as_ref().map(|script| format!("; {} was cut short", script.display()));
            format!("stopped: {done} of {} scripts, {failed} failed{}", self.total, cut.unwrap_or_default())
        })
    }

    fn change<R>(&self, change: impl FnOnce(&mut Now) -> R) -> R {
        change(&mut self.now.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_is_told_to_be_cut_short() {
        let progress = Progress::new(2);
        progress.begin(Path::new("a.pkt"));
        assert_eq!(progress.words(), "stopped: 0 of 2 scripts, 0 failed; a.pkt was cut short");
        assert!(!progress.end(1));
        assert_eq!(progress.words(), "stopped: 1 of 2 scripts, 1 failed");
        progress.begin(Path::new("b.pkt"));
        assert!(progress.end(1));
    }
}
