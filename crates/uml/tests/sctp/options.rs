//! What the kernel answers about SCTP's options is what lowwater-posix is compared with.
use crate::peer::Program;
use lowwater_uml::{Guest, present};
use std::path::Path;

/// The table that `crates/posix/tests/sctp_matrix.rs` takes for the kernel's.
const TABLE: &str = include_str!("../../../posix/tests/matrix/sctp.txt");

#[test]
fn the_table_of_answers_is_the_kernels() {
    if !present() {
        return;
    }
    let program = Program::compile("../../../posix/tests/matrix/sctp.c", "sctp-options", &[]);
    let guest = Guest::new(&["ipv6", "hmac", "sctp"]);
    let script = format!("ip link set lo up; exec {}", program.path().display());
    let said = guest.run(Path::new("/bin/sh"), &["-c", &script]).expect("the guest");
    let same = said.lines().zip(TABLE.lines()).filter(|(said, kept)| said == kept).count();
    if (same, said.lines().count()) != (TABLE.lines().count(), TABLE.lines().count()) {
        let path = std::env::temp_dir().join("lowwater-sctp-options.txt");
        std::fs::write(&path, &said).expect("a file");
        panic!("{same} lines are the same; what the kernel says is in {}", path.display());
    }
}
