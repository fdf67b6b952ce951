//! What crossed, in a file, and what an independent dissector finds wrong in it.
use lowwater_wire::pcapng::{Block, Direction, LINKTYPE_ETHERNET, PacketBlock};
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

impl Capture {
    pub(crate) fn new() -> Self {
        let mut new = Self { file: Vec::new() };
        new.write(&Block::Section { application: "lowwater", comment: "" });
        new.write(&Block::Interface { link: LINKTYPE_ETHERNET, name: "" });
        new
    }

    fn write(&mut self, block: &Block<'_>) {
        block.emit(&mut |part| self.file.extend_from_slice(part));
    }

    /// Notes a frame that crossed at `us` microseconds.
    pub(crate) fn note(&mut self, us: u64, frame: &[u8]) {
        let (at_ns, data, comment) = (us * 1_000, [frame, &[]], "");
        self.write(&Block::Packet(PacketBlock {
            interface: 0,
            at_ns,
            direction: Direction::In,
            data,
            comment,
        }));
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
