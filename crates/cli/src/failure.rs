//! Why a command failed, in words that say what to do, and the exit code that scripts see.
use lowwater_os::SetupError;
use std::fmt;
use std::io;

/// Exit code where the environment lacks something (automake's "skipped").
const ENVIRONMENT: u8 = 77;
/// Exit code for command lines that make no sense, as clap's.
const USAGE: u8 = 2;
const OTHER: u8 = 1;

/// A command's failure.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    /// The command line makes no sense.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self { code: USAGE, text: text.into() }
    }

    /// The environment lacks something.
    pub(crate) fn missing(what: impl fmt::Display) -> Self {
        Self { code: ENVIRONMENT, text: format!("this needs {what}") }
    }

    /// Something went wrong on the way.
    pub(crate) fn other(text: impl Into<String>) -> Self {
        Self { code: OTHER, text: text.into() }
    }

    /// An I/O error, after what was being done.
    pub(crate) fn io(doing: impl fmt::Display, e: &io::Error) -> Self {
        Self::other(format!("{doing}: {e}"))
    }

    /// The exit code.
    pub(crate) const fn exit_code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<SetupError> for Failure {
    fn from(e: SetupError) -> Self {
        let code = match e {
            SetupError::BadName { .. } => USAGE,
            _ if e.is_environment() => ENVIRONMENT,
            _ => OTHER,
        };
        Self { code, text: e.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_environment_lacks_is_77() {
        assert_eq!(Failure::from(SetupError::NoTunDriver).exit_code(), 77);
        assert_eq!(Failure::from(SetupError::Busy { name: "lw0".into() }).exit_code(), 1);
        assert_eq!(Failure::usage("no").exit_code(), 2);
    }
}
