//! Standard output, whose reader may go away.
use crate::failure::Failure;
use std::io::{self, Write as _};

/// Writes a text and what ends its last line. False where nobody reads any more, as behind `| head`: that is no failure.
pub(crate) fn tell(text: &str) -> Result<bool, Failure> {
    let mut stdout = io::stdout().lock();
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    match write!(stdout, "{text}{end}").and_then(|()| stdout.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(Failure::io("writing to stdout", &e)),
        Ok(()) => Ok(true),
    }
}
