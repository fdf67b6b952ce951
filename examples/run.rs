//! Runs every example; each checks itself and says so by its exit code.
#![forbid(unsafe_code)]
use std::path::Path;
use std::process::Command;

fn run(program: &str) {
    run_with(program, &[]);
}

fn run_with(program: &str, args: &[&Path]) {
    let output = Command::new(program).args(args).output().expect("the example was built");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn two_stacks_in_a_process() {
    run(env!("CARGO_BIN_EXE_hello"));
}

#[test]
fn a_program_that_watches_its_stack() {
    let file = std::env::temp_dir().join(format!("lowwater-watched-{}.pcapng", std::process::id()));
    run_with(env!("CARGO_BIN_EXE_watched"), &[&file]);
    // What it names is there afterwards.
    std::fs::remove_file(file).expect("the capture that was asked for");
}

#[test]
fn a_proxy_for_any_destination() {
    run(env!("CARGO_BIN_EXE_any_proxy"));
}

#[test]
fn a_tunnel() {
    run(env!("CARGO_BIN_EXE_tunnel"));
}

#[test]
fn a_gateway_from_tcp_to_sctp() {
    run(env!("CARGO_BIN_EXE_sctp_gateway"));
}
