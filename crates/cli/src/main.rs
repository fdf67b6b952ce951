//! The `lowwater` command: parses, calls, prints, and turns failures into exit codes.
#![forbid(unsafe_code)]
mod args;
#[cfg(target_os = "linux")]
mod draw;
mod drill;
mod failure;
mod get;
mod interrupt;
mod lab;
mod net;
mod out;
mod rates;
mod running;
mod script_options;
mod sctp;
mod serve;
mod ss;
mod tc;
mod tcp_info;

use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = match args::Cli::of_process(&lab::names()).command {
        args::Command::Lab(lab) => lab::run(lab),
        args::Command::Drill(drill) => drill::run(&drill),
        args::Command::Serve(serve) => serve::run(&serve),
        args::Command::Tc(tc) => tc::run(&tc),
        args::Command::Ss(ss) => ss::run(&ss),
        args::Command::Get(get) => get::run(&get),
        args::Command::SctpSend(send) => sctp::run(&send),
        args::Command::Guest { job } => lab::guest(&job),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("lowwater: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
