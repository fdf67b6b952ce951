//! What runs inside of the guest for tests: the cases whose names are its argument.
#![forbid(unsafe_code)]
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(names) = std::env::args().nth(1) else { return ExitCode::from(2) };
    #[cfg(target_os = "linux")]
    if let Err(why) = lowwater_uml::qdisc::guest(&names) {
        eprintln!("{why}");
        return ExitCode::FAILURE;
    }
    let _ = names;
    ExitCode::SUCCESS
}
