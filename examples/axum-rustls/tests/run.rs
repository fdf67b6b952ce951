//! Runs the example; it checks itself and says so by its exit code.
#![forbid(unsafe_code)]
use std::process::Command;

#[test]
fn axum_over_rustls() {
    let output = Command::new(env!("CARGO_BIN_EXE_axum_rustls")).output().expect("the example was built");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}
