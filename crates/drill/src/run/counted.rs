//! `nstat` in scripts, alone or through `grep`: a script may ask for counters as it does for packets.
use super::Runner;
use crate::grep::Grep;
use crate::shell::Shell;

/// What a command is that stands before the others of its line.
const NOT: &str = "!";

/// The words behind `nstat`, and whether a `!` stands before it; `None` where the command is another one.
pub(super) fn asked(shell: &Shell) -> Option<(&[String], bool)> {
    let (not, words) = match shell.words.split_first()? {
        (first, rest) if first == NOT => (true, rest),
        _ => (false, shell.words.as_slice()),
    };
    let (first, rest) = words.split_first()?;
    let name = super::commands::program(first);
    (name == "nstat").then_some((rest, not))
}

impl Runner<'_> {
    /// Prints what has changed since the last call, through each filter.
    ///
    /// # Errors
    /// The last filter has found nothing (or something, behind `!`); what cannot be had.
    pub(super) fn counted(&mut self, line: usize, shell: &Shell) -> Result<(), String> {
        let Some((words, not)) = asked(shell) else { return Ok(()) };
        let now = self.host.counters()?;
        let printed = self.shell.nstat.call(words, &now)?;
        if !shell.is_piped() && !shell.is_silent() {
            let file = shell.into.as_deref().unwrap_or_default();
            self.notes.push(format!("line {line}: `{}` writes nothing into {file}", shell.text()));
        }
        let (mut text, mut found) = (printed.clone(), true);
        for filter in &shell.filters {
            match filter.split_first().map(|(name, words)| (super::commands::program(name), words)) {
                Some(("grep", words)) => (text, found) = Grep::parse(words)?.lines_of(&text),
                Some(("egrep", words)) => (text, found) = Grep::parse(&with("-E", words))?.lines_of(&text),
                Some(("fgrep", words)) => (text, found) = Grep::parse(&with("-F", words))?.lines_of(&text),
                _ => {
                    return Err(format!(
                        "`{}` cannot be had: what nstat prints goes through grep alone here",
                        shell.text()
                    ));
                }
            }
        }
        if found != not {
            return Ok(());
        }
        let what = if not { "succeeds, and should not" } else { "finds nothing" };
        let lines: String = printed.lines().map(|line| format!("\n    {line}")).collect();
        Err(format!("`{}` {what}; nstat printed:{lines}", shell.text()))
    }
}

fn with(option: &str, words: &[String]) -> Vec<String> {
    std::iter::once(option.to_owned()).chain(words.iter().cloned()).collect()
}
