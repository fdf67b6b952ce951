//! A running `lowwater serve`, what curl does with it, and content whose hash is known.
use crate::support::{Dir, Ended, PATIENCE, Proc, eventually, lowwater, run};
use lowwater_os::netns::{NetNs, REQUIRE_NET, net_admin};
use rustix::process::Signal;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub(crate) const V4: &str = "10.9.0.2";
pub(crate) const V6: &str = "[fd00:9::2]";
pub(crate) const MIB: u64 = 1 << 20;
/// No step of these tests takes longer.
pub(crate) const LIMIT: Duration = PATIENCE;

/// The guard of these tests: true when namespaces and all these programs are there.
#[must_use]
pub(crate) fn can_run(programs: &[&str]) -> bool {
    if !net_admin() {
        return false;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = |p: &str| std::env::split_paths(&path).any(|dir| dir.join(p).is_file());
    let missing: Vec<_> = programs.iter().copied().filter(|p| !there(p)).collect();
    if missing.is_empty() {
        return true;
    }
    assert!(
        std::env::var_os(REQUIRE_NET).is_none_or(|v| v != "1"),
        "{REQUIRE_NET}=1, but this test needs {}",
        missing.join(", ")
    );
    eprintln!("skipped: needs {}", missing.join(", "));
    false
}

/// Runs a test in a fresh namespace.
pub(crate) fn in_namespace(test: impl FnOnce() + Send) {
    NetNs::new().unwrap().run(test);
}

/// The server, with a directory of its own.
pub(crate) struct Served {
    pub(crate) dir: Dir,
    proc: Proc,
    pub(crate) said: Value,
}

impl Served {
    /// Starts it on 10.9.0.2 and fd00:9::2 and waits until it serves.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_on(["--tun", "lw0"], args)
    }

    /// The same on another device.
    pub(crate) fn start_on(device: [&str; 2], args: &[&str]) -> Self {
        let dir = Dir::new();
        std::fs::create_dir(dir.join("root")).unwrap();
        let mut command = lowwater(["serve", "--json", "--addr", "10.9.0.2/24", "--addr6", "fd00:9::2/64"]);
        command.args(device);
        command.arg("--root").arg(dir.join("root")).arg("--stats").arg(dir.join("stats.json")).args(args);
        let mut proc = Proc::piped(&mut command);
        let mut lines = BufReader::new(proc.stdout());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        if line.is_empty() {
            panic!("serve {args:?} did not start: {:?}", proc.wait(LIMIT));
        }
        proc.gather_rest(lines);
        Self { dir, proc, said: serde_json::from_str(&line).expect("a JSON object") }
    }

    pub(crate) fn root(&self, name: &str) -> PathBuf {
        self.dir.join("root").join(name)
    }

    /// The counters as they were written last.
    pub(crate) fn stats(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.dir.join("stats.json")).unwrap()).expect("JSON")
    }

    /// Waits until the counters say so.
    pub(crate) fn stats_show(&self, what: &str, shows: impl Fn(&Value) -> bool) {
        let file = self.dir.join("stats.json");
        // It is there a moment after the first line.
        let ok = eventually(LIMIT, || file.exists() && shows(&self.stats()));
        assert!(ok, "the counters never showed {what}: {:#}", self.stats());
    }

    /// Stops it for a time.
    pub(crate) fn freeze(&self) {
        self.proc.freeze();
    }

    /// Sends it a signal that does not end it.
    pub(crate) fn signal(&self, signal: Signal) {
        self.proc.signal(signal);
    }

    /// Ends it by a signal; gives its last counters and its directory.
    pub(crate) fn stop(self, signal: Signal) -> (Value, Dir) {
        self.proc.signal(signal);
        let Self { dir, proc, .. } = self;
        let ended: Ended = proc.wait(LIMIT).ok();
        assert!(ended.stdout.contains("\"ended\""), "{ended:?}");
        let stats = std::fs::read(dir.join("stats.json")).unwrap();
        (serde_json::from_slice(&stats).expect("JSON"), dir)
    }
}

/// curl, which fails for statuses from 400 on.
pub(crate) fn curl(args: &[&str]) -> Command {
    let mut command = Command::new("curl");
    command.args(["-sS", "-g", "--fail-with-body", "--max-time", "100", "--noproxy", "*"]).args(args);
    command
}

/// Runs curl and returns what it printed.
pub(crate) fn ask(args: &[&str]) -> String {
    run(&mut curl(args), LIMIT).ok().stdout
}

/// Writes a file of bytes that do not repeat and returns its hash.
pub(crate) fn content(path: &Path, len: u64) -> String {
    let mut file = File::create(path).unwrap();
    let mut hash = Sha256::new();
    let (mut state, mut left) = (len | 1, len);
    let mut block = vec![0u8; 1 << 20];
    while left > 0 {
        for word in block.chunks_exact_mut(8) {
            // Marsaglia's xorshift64.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let n = left.min(block.len() as u64) as usize;
        file.write_all(&block[..n]).unwrap();
        hash.update(&block[..n]);
        left -= n as u64;
    }
    hex(hash)
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

/// The hash of what is read.
pub(crate) fn sha256(mut from: impl Read) -> String {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let n = from.read(&mut buffer).unwrap();
        if n == 0 {
            return hex(hash);
        }
        hash.update(&buffer[..n]);
    }
}

pub(crate) fn sha256_file(path: &Path) -> String {
    sha256(File::open(path).unwrap())
}

/// Downloads by the kernel's curl and returns the hash; nothing is stored.
pub(crate) fn download(url: &str) -> String {
    let mut curl = Proc::piped(&mut curl(&[url]));
    let hash = sha256(curl.stdout());
    curl.wait(LIMIT).ok();
    hash
}

/// Uploads by the kernel's curl.
pub(crate) fn upload(file: &Path, url: &str) {
    ask(&["-T", &file.display().to_string(), url]);
}
