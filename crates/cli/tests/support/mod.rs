//! Processes that are bounded in time and end with their handle, and directories that end with theirs.
#![allow(dead_code, reason = "each test program uses its part")]
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The command under test.
pub(crate) fn lowwater<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lowwater"));
    command.args(args);
    command
}

/// What takes longer, on however busy a machine, hangs: no test passes or fails by how fast something is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A process; killed when it is dropped.
pub(crate) struct Proc {
    child: Child,
    stdout: Option<Gatherer>,
    stderr: Option<Gatherer>,
}

/// What a process prints, readable while it still does.
struct Gatherer {
    all: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Gatherer {
    fn new(mut from: impl std::io::Read + Send + 'static) -> Self {
        let all = Arc::<Mutex<Vec<u8>>>::default();
        let into = all.clone();
        let reader = std::thread::spawn(move || {
            let mut block = [0; 4096];
            // What cannot be read any more has ended.
            while let Ok(n @ 1..) = from.read(&mut block) {
                into.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&block[..n]);
            }
        });
        Self { all, reader: Some(reader) }
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.all.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// All of it, when it has ended.
    fn whole(mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("a reader of a pipe");
        }
        self.so_far()
    }
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// It succeeded, or the test fails with what it said.
    pub(crate) fn ok(self) -> Self {
        assert!(self.status.success(), "{self:?}");
        self
    }
}

impl Proc {
    /// Starts it; what it prints is gathered.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut proc = Self::piped(command);
        proc.stdout = proc.child.stdout.take().map(Gatherer::new);
        proc
    }

    /// Starts it; its stdout is left to the caller.
    pub(crate) fn piped(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let stderr = child.stderr.take().map(Gatherer::new);
        Self { child, stdout: None, stderr }
    }

    pub(crate) fn stdout(&mut self) -> std::process::ChildStdout {
        self.child.stdout.take().expect("its stdout is taken once")
    }

    /// Goes on gathering what is left of a stdout that was taken.
    pub(crate) fn gather_rest(&mut self, rest: impl std::io::Read + Send + 'static) {
        self.stdout = Some(Gatherer::new(rest));
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("a process that has not been waited for");
    }

    /// Whether it has a handler of that signal (proc_pid_status(5), SigCgt), which without one would end it.
    pub(crate) fn hears(&self, signal: Signal) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        // Bit 0 is signal 1.
        mask.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1)
    }

    /// Waits until it has said so on stderr.
    pub(crate) fn says(&self, what: &str) {
        let said = || self.stderr.as_ref().map(Gatherer::so_far).unwrap_or_default();
        assert!(eventually(PATIENCE, || said().contains(what)), "it never says {what:?}, but {:?}", said());
    }

    /// Whether one of its descriptors is of this file.
    pub(crate) fn has_open(&self, file: &str) -> bool {
        let all = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).into_iter().flatten().flatten();
        all.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|open| open == Path::new(file))
    }

    /// Stops it as a whole: returns when none of its threads runs any more.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        assert!(eventually(PATIENCE, || states(self.child.id()).all(|state| state == 'T')), "it goes on");
    }

    /// Ctrl-C, as soon as it can be heard.
    pub(crate) fn interrupt(&self) {
        assert!(eventually(PATIENCE, || self.hears(Signal::INT)), "it never listens to Ctrl-C");
        self.signal(Signal::INT);
    }

    pub(crate) fn running(&mut self) -> bool {
        self.child.try_wait().expect("waiting for a child").is_none()
    }

    /// Waits for the end; a process that takes longer is killed and fails the test.
    pub(crate) fn wait(mut self, limit: Duration) -> Ended {
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("waiting for a child") {
                break status;
            }
            if Instant::now() >= deadline {
                let threads = threads(self.child.id());
                let _ = self.child.kill();
                let _ = self.child.wait();
                let (stdout, stderr) = self.said();
                panic!("a process did not end within {limit:?}; it said {stdout:?} {stderr:?}; {threads}");
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let (stdout, stderr) = self.said();
        Ended { status, stdout, stderr }
    }

    fn said(&mut self) -> (String, String) {
        let text = |gatherer: Option<Gatherer>| gatherer.map(Gatherer::whole).unwrap_or_default();
        (text(self.stdout.take()), text(self.stderr.take()))
    }
}

/// The states of a process's threads (proc_pid_stat(5)).
fn states(pid: u32) -> impl Iterator<Item = char> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    })
}

/// What the threads of a process do: name, state, and where in the kernel they are (that for root alone). For whoever asks why it hangs.
fn threads(pid: u32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let told = tasks.map(|task| {
        let read = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let state = read("stat").rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        let stack: Vec<_> =
            read("stack").lines().map(|line| line.trim_start_matches("[<0>] ").to_owned()).collect();
        format!("{} ({}): {}", read("comm").trim_end(), state.unwrap_or('?'), stack.join(" < "))
    });
    told.collect::<Vec<_>>().join("; ")
}

impl Drop for Proc {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("process {}: {}", self.child.id(), threads(self.child.id()));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Ended {
    Proc::start(command).wait(limit)
}

/// A directory on disk that is removed at the end.
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new() -> Self {
        Self::within(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    pub(crate) fn within(parent: &Path) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = parent.join(format!("lowwater-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Tries until it holds; false after `limit`.
pub(crate) fn eventually(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !holds() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// Reads all of it.
pub(crate) fn slurp(mut from: impl std::io::Read) -> Vec<u8> {
    let mut all = Vec::new();
    from.read_to_end(&mut all).unwrap();
    all
}
