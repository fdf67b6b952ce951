//! What the kernel answers about SCTP's options is what lowwater-posix is compared with.
use crate::peer::Program;
use lowwater_uml::{Guest, present};
use std::path::Path;

/// The tables that lowwater-posix takes for the kernel's: `crates/posix/tests/calls/sctp_matrix.rs` and `sctp_calls.rs`.
const OPTIONS: &str = include_str!("../../../posix/tests/matrix/sctp.txt");
const CALLS: &str = include_str!("../../../posix/tests/matrix/sctp_calls.txt");

/// Runs a program of lowwater-posix's in the guest and compares what it prints.
fn says(source: &str, name: &str, table: &str, arg: &str) {
    if !present() {
        return;
    }
    let source = format!("../../../posix/tests/matrix/{source}");
    let program = Program::compile(&source, name, &["-D_GNU_SOURCE"]);
    let guest = Guest::new(&["ipv6", "hmac", "sctp"]);
    let script = format!("ip link set lo up; exec {} {arg}", program.path().display());
    let said = guest.run(Path::new("/bin/sh"), &["-c", &script]).expect("the guest");
    let same = said.lines().zip(table.lines()).filter(|(said, kept)| said == kept).count();
    if (same, said.lines().count()) != (table.lines().count(), table.lines().count()) {
        let path = std::env::temp_dir().join(format!("lowwater-{name}.txt"));
        std::fs::write(&path, &said).expect("a file");
        panic!("{same} lines are the same; what the kernel says is in {}", path.display());
    }
}

#[test]
fn the_table_of_answers_is_the_kernels() {
    says("sctp.c", "sctp-options", OPTIONS, "");
}

#[test]
fn the_table_of_calls_is_the_kernels() {
    let asked = concat!(env!("CARGO_MANIFEST_DIR"), "/../posix/tests/matrix/sctp_calls.txt");
    says("sctp_calls.c", "sctp-calls", CALLS, asked);
}
