//! What crossed, in a file, and what an independent dissector finds wrong in it.
use std::path::{Path, PathBuf};
use std::process::Command;

/// What no capture may hold.
const BAD: &str = "_ws.malformed || sctp.checksum.status == Bad || ip.checksum.status == Bad || udp.checksum.status == Bad || \
                   sctp.parameter_length.bad || sctp.chunk_length.bad || sctp.parameter_padding.expert || \
                   sctp.sack_gap_block_malformed || sctp.sack_gap_block_out_of_order";

/// Ethernet frames of both directions.
#[derive(Debug)]
pub(crate) struct Capture {
    file: Vec<u8>,
}

/// A block of a pcapng file.
fn block(file: &mut Vec<u8>, kind: u32, parts: &[&[u8]]) {
    let content: usize = parts.iter().map(|part| part.len()).sum();
    let len = (12 + content.next_multiple_of(4)) as u32;
    file.extend(kind.to_le_bytes());
    file.extend(len.to_le_bytes());
    parts.iter().for_each(|part| file.extend(*part));
    file.resize(file.len().next_multiple_of(4), 0);
    file.extend(len.to_le_bytes());
}

impl Capture {
    pub(crate) fn new() -> Self {
        let mut file = Vec::new();
        let section = [0x1a2b_3c4d_u32, 1, u32::MAX, u32::MAX].map(u32::to_le_bytes);
        block(&mut file, 0x0a0d_0d0a, &[section.as_flattened()]);
        // Link type 1 is Ethernet.
        block(&mut file, 1, &[[1, 0].map(u32::to_le_bytes).as_flattened()]);
        Self { file }
    }

    /// Notes a frame that crossed at `us` microseconds.
    pub(crate) fn note(&mut self, us: u64, frame: &[u8]) {
        let len = frame.len() as u32;
        let head = [0, (us >> 32) as u32, us as u32, len, len].map(u32::to_le_bytes);
        block(&mut self.file, 6, &[head.as_flattened(), frame]);
    }

    /// Leaves it in the folder for temporary files.
    pub(crate) fn keep(&self) {
        let path = std::env::temp_dir().join(format!("lowwater-sctp-failed-{}.pcapng", std::process::id()));
        if std::fs::write(&path, &self.file).is_ok() {
            eprintln!("what crossed: {}", path.display());
        }
    }

    /// Asserts that tshark finds SCTP in it, `over_udp` or not, and nothing wrong.
    pub(crate) fn check(&self, name: &str, over_udp: bool) {
        let Some(tshark) = tshark() else { return };
        let path = std::env::temp_dir().join(format!("lowwater-{name}-{}.pcapng", std::process::id()));
        std::fs::write(&path, &self.file).expect("a file");
        let bad = frames(&tshark, &path, BAD, &["frame.number", "_ws.expert.message"]);
        assert!(bad.is_empty(), "tshark on {}: {bad}", path.display());
        let whole = "sctp.checksum.status == Good";
        let udp = frames(&tshark, &path, &format!("udp.port == 9899 && {whole}"), &["frame.number"]);
        let plain = frames(&tshark, &path, &format!("!udp && {whole}"), &["frame.number"]);
        let (some, none) = if over_udp { (udp, plain) } else { (plain, udp) };
        assert!(some.lines().count() > 1 && none.is_empty(), "SCTP {over_udp}: {}", path.display());
        std::fs::remove_file(path).expect("removed");
    }
}

fn frames(tshark: &Path, file: &Path, filter: &str, fields: &[&str]) -> String {
    let mut command = Command::new(tshark);
    command.arg("-n").arg("-r").arg(file).args(["-Y", filter, "-T", "fields"]);
    for check in ["sctp.checksum:CRC 32c", "ip.check_checksum:TRUE", "udp.check_checksum:TRUE"] {
        command.args(["-o", check]);
    }
    fields.iter().for_each(|field| _ = command.args(["-e", field]));
    let output = command.output().expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The program, unless this machine does not have it; with LOWWATER_REQUIRE_NET=1 it must.
fn tshark() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("tshark")).find(|p| p.is_file());
    if found.is_none() {
        assert!(std::env::var_os("LOWWATER_REQUIRE_NET").is_none_or(|v| v != "1"), "this test needs tshark");
        eprintln!("skipped: needs tshark");
    }
    found
}
