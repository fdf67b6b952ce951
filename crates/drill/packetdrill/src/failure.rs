//! How this object tells something and how it ends the process: the interface has neither results nor messages for that.
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::exit;

/// Runs what C has called. A panic is a bug of ours: it ends the process with its reason instead of crossing the border.
pub(crate) fn guard<T>(work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| die("a bug of the stack, described above"))
}

/// Ends the process as packetdrill does after an error.
pub(crate) fn die(why: &str) -> ! {
    say(why);
    exit(1)
}

/// Writes a line for the user; a standard error that is closed is nobody's concern.
pub(crate) fn say(line: &str) {
    _ = writeln!(std::io::stderr(), "lowwater: {line}");
}
