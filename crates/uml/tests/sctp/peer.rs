//! The program that talks to us (`peer.c`), and what it says and hears: messages that tell their place, and sums over them.
use std::path::{Path, PathBuf};
use std::process::Command;

/// Streams in use.
pub(crate) const STREAMS: usize = 10;
/// In a message's first half-word beside its stream: it has no place in the order.
pub(crate) const UNORDERED: u16 = 0x8000;

/// Count of the messages of a stream, sum of their FNV-1a hashes, and the number that is due.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum {
    count: u32,
    next: u32,
    hash: u64,
}

/// All streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums([Sum; STREAMS]);

fn fnv(data: &[u8]) -> u64 {
    data.iter()
        .fold(0xcbf2_9ce4_8422_2325, |h: u64, byte| (h ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

impl Sums {
    /// Counts a message; with `check`, its number in its stream must be the one that is due.
    pub(crate) fn add(&mut self, data: &[u8], check: bool) {
        let word = data.get(..6).map_or(UNORDERED, |d| u16::from_be_bytes([d[0], d[1]]));
        let sum = &mut self.0[usize::from(word & !UNORDERED)];
        if check && word & UNORDERED == 0 {
            let n = u32::from_be_bytes([data[2], data[3], data[4], data[5]]);
            assert_eq!(n, sum.next, "stream {word} is in order");
            sum.next += 1;
        }
        sum.count += 1;
        sum.hash = sum.hash.wrapping_add(fnv(data));
    }

    /// As both sides write it.
    pub(crate) fn to_text(&self) -> String {
        self.0.each_ref().map(|s| format!("{}:{:016x}", s.count, s.hash)).join(" ")
    }
}

/// Message `n` of the stream in `word`, `len` bytes long.
pub(crate) fn message(word: u16, n: u32, len: usize) -> Vec<u8> {
    let head: Vec<u8> = word.to_be_bytes().into_iter().chain(n.to_be_bytes()).take(len).collect();
    let byte = |i: usize| ((i as u32).wrapping_mul(n | 1) >> 8) as u8;
    head.into_iter().chain((6..len).map(byte)).collect()
}

/// 1 byte, 1,000,000 bytes, `ordered` messages over all streams, and one out of order beside every twentieth.
pub(crate) fn plan(ordered: u32) -> Vec<(u16, Vec<u8>)> {
    let mut all = vec![(UNORDERED, message(0, 0, 1)), (1, message(1, 0, 1_000_000))];
    for n in 0..ordered {
        let stream = (n % STREAMS as u32) as u16;
        let number = n / STREAMS as u32 + u32::from(stream == 1);
        all.push((stream, message(stream, number, 9 + n as usize * 7 % 2_000)));
        if n % 20 == 0 {
            let word = UNORDERED | stream;
            all.push((word, message(word, n, 9 + n as usize * 3 % 1_700)));
        }
    }
    all
}

/// A program of ours, gone with this.
#[derive(Debug)]
pub(crate) struct Program {
    folder: PathBuf,
}

impl Program {
    /// Compiles `source`, a file beside this one, with these further arguments of cc.
    ///
    /// # Panics
    /// When there is no cc, or it finds fault.
    pub(crate) fn compile(source: &str, name: &str, args: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("lowwater-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let program = Self { folder };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sctp").join(source);
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-o"]).arg(program.path()).arg(source);
        let done = cc.args(args).status().expect("cc (apt-get install gcc)");
        assert!(done.success(), "{cc:?}");
        program
    }

    /// Where it is.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join("peer")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // What cannot be removed stays in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
