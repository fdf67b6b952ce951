//! Boots the kernel as a child, runs one command in it, and brings back what that wrote.
use lowwater_os::program::{self, End, Limits, Ran};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The kernel's program, from Debian's package user-mode-linux.
const PROGRAM: &str = "linux.uml";
/// Where that package keeps the kernel's modules.
const MODULES: &str = "/usr/lib/uml/modules";
/// What is said of a kernel that somebody stopped.
pub(crate) const STOPPED: &str = "stopped";
/// Bytes that its console may say, and the lines of them that a failure shows.
const CONSOLE_MAX: usize = 1 << 20;
const CONSOLE_LINES: usize = 15;
/// A clock that passes only where the kernel sleeps, in C: it takes the place of functions of libc in the kernel's process.
const STILL: &str = include_str!("../still/still.c");
/// Folders of killed processes that one may meet.
const LEFT_MAX: u32 = 100;
/// Bytes that the command may write: far more than any experiment says.
const SAID_MAX: u64 = 64 << 20;
/// What compiles it.
const CC: &str = "cc";

/// For so long nothing may be heard of a guest: a busy machine takes seconds for what a quiet one does at once.
pub const SILENCE: Duration = Duration::from_secs(60);
/// And so long one that goes on saying something may live.
pub const LIFE: Duration = Duration::from_secs(20 * 60);

/// A kernel that is to be booted once, for one command.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Modules to load, in order.
    pub modules: Vec<String>,
    /// Further words of the kernel's command line, as `vec0:transport=tap,ifname=tap0`.
    pub args: Vec<String>,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Real time after which it is ended by force when neither its console nor the command in it has said anything: what is slow goes on, what
    /// hangs does not.
    pub silence: Duration,
    /// Real time after which it is ended by force whatever it says.
    pub deadline: Duration,
    /// The guest's time passes only where its processor has nothing to do, so that whatever is measured inside neither depends on this
    /// machine nor takes longer than its work. Needs cc ([`can_stand_still`]).
    pub still: bool,
}

impl Guest {
    /// A kernel with these modules, 512 MiB, [`SILENCE`], [`LIFE`] and the host's clock.
    #[must_use]
    pub fn new(modules: &[&str]) -> Self {
        Self {
            modules: modules.iter().map(|&m| m.to_owned()).collect(),
            args: Vec::new(),
            memory_mib: 512,
            silence: SILENCE,
            deadline: LIFE,
            still: false,
        }
    }

    /// Boots, runs `program` with `args` as root of the guest, and returns what it wrote to its standard output.
    ///
    /// # Errors
    /// In a sentence with the end of the console: the kernel did not boot, the command failed, it was silent or alive for too long, or somebody called
    /// [`program::stop`].
    pub fn run(&self, program: &Path, args: &[&str]) -> Result<String, String> {
        let (said, end) = self.run_to_any_end(program, args);
        end.map(|()| said)
    }

    /// As [`run`](Self::run), with what the program wrote until then also where it failed.
    pub(crate) fn run_to_any_end(&self, program: &Path, args: &[&str]) -> (String, Result<(), String>) {
        let shared = match Shared::new() {
            Ok(shared) => shared,
            Err(why) => return (String::new(), Err(why)),
        };
        let end = self.boot(&shared, program, args);
        (shared.said("out"), end)
    }

    fn boot(&self, shared: &Shared, program: &Path, args: &[&str]) -> Result<(), String> {
        shared.write_init(&self.modules, program, args)?;
        let mut kernel = Command::new(PROGRAM);
        if self.still {
            kernel.env("LD_PRELOAD", shared.compile_still()?).env("STILL_FROM", shared.path("out"));
        }
        kernel
            .arg(format!("mem={}M", self.memory_mib))
            .args(["root=none", "rootfstype=hostfs", "rw", "con=null", "con0=null,fd:1", "ssl=null"])
            .arg(format!("init={}", shared.path("init").display()))
            .args(&self.args);
        let limits = Limits { time: self.deadline, silence: self.silence, output: CONSOLE_MAX };
        let ran = on_one_processor(|| program::run_heard(kernel, b"", limits, || shared.written()))
            .map_err(|e| format!("{PROGRAM}: {e}"))?;
        let console = console(&ran);
        let code = fs::read_to_string(shared.path("code")).unwrap_or_default();
        match (ran.end, code.trim()) {
            (End::Exited(_), "0") => Ok(()),
            (End::TooLong, _) => Err(format!("no end after {} s\n{console}", self.deadline.as_secs())),
            (End::Silent, _) => Err(format!("nothing heard for {} s\n{console}", self.silence.as_secs())),
            (End::TooMuch, _) => Err(format!("the console said more than {CONSOLE_MAX} bytes\n{console}")),
            (End::Stopped, _) => Err(STOPPED.to_owned()),
            (End::Exited(_), "") => Err(format!("the kernel ended before its command did\n{console}")),
            (End::Exited(_), code) => {
                let wrong = shared.said("err");
                Err(format!("exit code {code} in the guest: {}", wrong.trim()))
            }
        }
    }
}

/// The last lines of its console, and what it had to say besides.
fn console(ran: &Ran) -> String {
    let text = [&ran.stdout[..], &ran.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(CONSOLE_LINES)..].join("\n")
}

/// The folder through which host and guest exchange files; it goes when this is dropped.
struct Shared {
    folder: PathBuf,
}

impl Shared {
    fn new() -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let here = std::env::temp_dir();
        let mut tries = 0;
        let folder = loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let folder = here.join(format!("lowwater-uml-{}-{number}", std::process::id()));
            // Nobody else may have made it, or write to it: what lies in it runs with this process's rights.
            match fs::DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => break folder,
                // One that was killed had this process's number, and its folder is still there.
                Err(e) if e.kind() == ErrorKind::AlreadyExists && tries < LEFT_MAX => tries += 1,
                Err(e) => return Err(format!("{}: {e}", folder.display())),
            }
        };
        let shared = Self { folder };
        fs::create_dir(shared.path("lib")).map_err(|e| format!("{}: {e}", shared.path("lib").display()))?;
        let link = shared.path("lib/modules");
        std::os::unix::fs::symlink(MODULES, &link).map_err(|e| format!("{}: {e}", link.display()))?;
        Ok(shared)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What the command wrote to a file, as far as there is room for it.
    fn said(&self, name: &str) -> String {
        let mut said = Vec::new();
        // What cannot be read was not said.
        let file = fs::File::open(self.path(name));
        let _ = file.and_then(|file| file.take(SAID_MAX).read_to_end(&mut said));
        String::from_utf8_lossy(&said).into_owned()
    }

    /// Bytes that the command has written, its exit code included.
    fn written(&self) -> u64 {
        let length = |name| fs::metadata(self.path(name)).map_or(0, |file| file.len());
        ["out", "err", "code"].into_iter().map(length).sum()
    }

    /// The first process of the guest: a shell that mounts what is needed, loads modules and runs the command.
    fn write_init(&self, modules: &[String], program: &Path, args: &[&str]) -> Result<(), String> {
        use std::os::unix::fs::PermissionsExt as _;
        let here = quoted(&self.folder.display().to_string());
        let mut command = quoted(&program.display().to_string());
        for arg in args {
            command.push(' ');
            command.push_str(&quoted(arg));
        }
        let mut script = String::from("#!/bin/sh\nexport PATH=/usr/sbin:/usr/bin:/sbin:/bin\n");
        script.push_str("mount -t proc proc /proc\nmount -t sysfs sysfs /sys\n");
        for module in modules {
            script.push_str(&format!("modprobe -d {here} {}\n", quoted(module)));
        }
        // The file system is the host's: nothing in the guest may fill it (blocks of 512 bytes).
        script.push_str(&format!("ulimit -f {}\n", SAID_MAX / 512));
        script.push_str(&format!("{command} >{here}/out 2>{here}/err\necho $? >{here}/code\nhalt -f -p\n"));
        let path = self.path("init");
        fs::write(&path, script)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
            .map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Compiles the clock; the file to be preloaded.
    fn compile_still(&self) -> Result<PathBuf, String> {
        let (source, object) = (self.path("still.c"), self.path("still.so"));
        fs::write(&source, STILL).map_err(|e| format!("{}: {e}", source.display()))?;
        let mut cc = Command::new(CC);
        cc.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&object).arg(&source).arg("-ldl");
        let done = cc.output().map_err(|e| format!("{CC}: {e}"))?;
        if done.status.success() {
            Ok(object)
        } else {
            Err(format!("{CC}: {}", String::from_utf8_lossy(&done.stderr).trim()))
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // What cannot be removed stays in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Does `work` where all that it starts stays on one processor. A guest has one, and its kernel and its programs are processes here that
/// give each other the turn at every system call: on two processors each turn would be a wake-up of the other one, which takes far
/// longer than to change over.
fn on_one_processor<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut here = CpuSet::new();
            here.set(sched_getcpu());
            // Who may not ask for that has all processors, and takes longer.
            let _ = sched_setaffinity(None, &here);
            work()
        });
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// `word` for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|dir| dir.join(name).is_file())
}

/// What [`Guest::still`] needs is there.
#[must_use]
pub fn can_stand_still() -> bool {
    on_path(CC)
}

/// Whether the kernel can be booted here.
///
/// # Errors
/// What is missing, to follow "needs".
pub fn available() -> Result<(), String> {
    let packages = [(PROGRAM, "user-mode-linux"), ("modprobe", "kmod"), ("tc", "iproute2")];
    match packages.iter().find(|(program, _)| !on_path(program)) {
        Some((program, package)) => Err(format!("{program} (apt-get install {package})")),
        None if !Path::new(MODULES).is_dir() => Err(format!("{MODULES} (apt-get install user-mode-linux)")),
        None => Ok(()),
    }
}

/// The guard of tests that boot: true when they can; otherwise prints "skipped: needs ...", and panics when the
/// environment says `LOWWATER_REQUIRE_NET=1`.
///
/// # Panics
/// When skipping is forbidden.
#[must_use]
pub fn present() -> bool {
    let Err(lack) = available() else { return true };
    let forbidden = std::env::var_os(lowwater_os::netns::REQUIRE_NET).is_some_and(|v| v == "1");
    assert!(!forbidden, "{}=1, but this test needs {lack}", lowwater_os::netns::REQUIRE_NET);
    eprintln!("skipped: needs {lack}");
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::sched_getaffinity;

    #[test]
    fn the_folder_is_nobody_elses() {
        use std::os::unix::fs::PermissionsExt as _;
        let shared = Shared::new().unwrap();
        let mode = fs::metadata(&shared.folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn a_folder_that_somebody_left_is_passed_by() {
        let first = Shared::new().unwrap();
        let name = first.folder.file_name().unwrap().to_str().unwrap();
        let (stem, number) = name.rsplit_once('-').unwrap();
        // Other tests may take numbers meanwhile.
        let next = number.parse::<u32>().unwrap() + 1;
        let left: Vec<PathBuf> =
            (next..next + 20).map(|n| std::env::temp_dir().join(format!("{stem}-{n}"))).collect();
        let made: Vec<&PathBuf> = left.iter().filter(|folder| fs::create_dir(folder).is_ok()).collect();
        let second = Shared::new();
        made.iter().for_each(|folder| fs::remove_dir(folder).unwrap());
        assert!(!made.is_empty() && second.is_ok());
    }

    #[test]
    fn no_more_is_read_than_there_is_room_for() {
        let shared = Shared::new().unwrap();
        assert_eq!(shared.said("out"), "");
        let file = fs::File::create(shared.path("out")).unwrap();
        file.set_len(SAID_MAX + 1).unwrap();
        assert_eq!(shared.said("out").len() as u64, SAID_MAX);
    }

    #[test]
    fn what_is_started_stays_on_one_processor_and_who_starts_it_does_not() {
        let all = sched_getaffinity(None).unwrap();
        let status = on_one_processor(|| Command::new("cat").arg("/proc/self/status").output()).unwrap();
        let status = String::from_utf8(status.stdout).unwrap();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        assert!(allowed.trim().parse::<u32>().is_ok(), "one number: {allowed}");
        assert_eq!(sched_getaffinity(None).unwrap(), all);
    }

    #[test]
    fn a_command_runs_inside() {
        if !present() {
            return;
        }
        let said = Guest::new(&[]).run(Path::new("/bin/uname"), &["-r"]).unwrap();
        assert!(said.starts_with("6.1."), "{said}");
    }

    #[test]
    fn time_passes_only_in_sleep() {
        if !present() {
            return;
        }
        let guest = Guest { still: true, ..Guest::new(&[]) };
        let said = guest.run(Path::new("/bin/sh"), &["-c", "date +%s%N; sleep 1000; date +%s%N"]).unwrap();
        let at: Vec<u64> = said.lines().map(|line| line.parse().unwrap()).collect();
        let passed = Duration::from_nanos(at[1] - at[0]);
        assert!(
            passed >= Duration::from_secs(1_000) && passed < Duration::from_millis(1_000_100),
            "{passed:?}"
        );
    }

    #[test]
    fn what_fails_inside_is_said() {
        if !present() {
            return;
        }
        let why = Guest::new(&[]).run(Path::new("/bin/ls"), &["/it's not there"]).unwrap_err();
        assert!(why.starts_with("exit code 2 in the guest: ") && why.contains("it's not there"), "{why}");
        let hasty = Guest { deadline: Duration::from_millis(1), ..Guest::new(&[]) };
        let why = hasty.run(Path::new("/bin/true"), &[]).unwrap_err();
        assert!(why.starts_with("no end after 0 s"), "{why}");
        let impatient = Guest { silence: Duration::from_millis(1), ..Guest::new(&[]) };
        let why = impatient.run(Path::new("/bin/true"), &[]).unwrap_err();
        assert!(why.starts_with("nothing heard for 0 s"), "{why}");
    }

    #[test]
    fn who_writes_for_ever_ends() {
        if !present() {
            return;
        }
        let (said, end) = Guest::new(&[]).run_to_any_end(Path::new("/usr/bin/yes"), &[]);
        assert!(end.as_ref().is_err_and(|why| why.starts_with("exit code 153 in the guest")), "{end:?}");
        assert_eq!(said.len() as u64, SAID_MAX);
    }

    #[test]
    fn what_the_command_writes_is_a_sign_of_life() {
        let shared = Shared::new().unwrap();
        assert_eq!(shared.written(), 0);
        fs::write(shared.path("out"), "abc").unwrap();
        fs::write(shared.path("err"), "de").unwrap();
        assert_eq!(shared.written(), 5);
        fs::write(shared.path("code"), "0\n").unwrap();
        assert_eq!(shared.written(), 7);
    }
}
