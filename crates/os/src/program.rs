//! A program that runs for us: it has so much time, may say so much, and what it started ends with it, unless that has left its group.
use crate::clock::Clock;
use core::time::Duration;
use lowwater_core::base::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io::{self, Read, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// How long the end of a program, or [`stop`], may go unnoticed where nothing is read or written.
const TICK: Duration = Duration::from_millis(10);
/// Bytes read or written at once.
const CHUNK: usize = 4_096;
/// Nobody wants to hear more from any program.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// What a program may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From its start to its end.
    pub time: Duration,
    /// From one sign of life to the next: it says something, or [`run_heard`] hears of it. As long as [`Limits::time`] where it may be silent.
    pub silence: Duration,
    /// Bytes on each of stdout and stderr.
    pub output: usize,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, or by somebody else's signal.
    Exited(ExitStatus),
    /// It had taken all of [`Limits::time`].
    TooLong,
    /// Nothing was heard of it for all of [`Limits::silence`].
    Silent,
    /// It had said more than [`Limits::output`].
    TooMuch,
    /// [`stop`] was called.
    Stopped,
}

/// What became of a program.
#[derive(Debug)]
pub struct Ran {
    /// How it ended.
    pub end: End,
    /// What it said up to then, at most [`Limits::output`] bytes.
    pub stdout: Vec<u8>,
    /// The same of what went wrong.
    pub stderr: Vec<u8>,
}

/// Ends every program that runs now or will, for who is asked to end.
pub fn stop() {
    STOPPED.store(true, Ordering::Relaxed);
}

/// When something was heard of a program for the last time.
#[derive(Debug)]
struct Heard {
    at: Instant,
    /// Bytes that it had said by then, and what else was heard.
    said: (usize, u64),
}

impl Heard {
    /// How long nothing was heard of it, which has said this by now.
    fn silent_for(&mut self, now: Instant, said: (usize, u64)) -> Duration {
        if said != self.said {
            *self = Self { at: now, said };
        }
        Duration::from_nanos(now.nanos_since(self.at))
    }
}

/// Runs `command` with `input` on its stdin. It is a process group of its own, so that signals of the terminal leave it alone, and what is
/// left of the group when it ends is killed with it.
///
/// # Errors
/// Those of starting and of reading. A program that does not read its input is no error.
pub fn run(command: Command, input: &[u8], limits: Limits) -> io::Result<Ran> {
    run_heard(command, input, limits, || 0)
}

/// As [`run`], of a program that also says something elsewhere, in files for example: `heard` is asked every few milliseconds and gives another
/// number whenever there is more, a sum of lengths for example.
///
/// # Errors
/// As [`run`].
pub fn run_heard(
    mut command: Command,
    input: &[u8],
    limits: Limits,
    mut heard: impl FnMut() -> u64,
) -> io::Result<Ran> {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running(piped.process_group(0).spawn()?);
    let child = &mut running.0;
    let mut input = Input { pipe: child.stdin.take(), left: input };
    let mut said = [Output::new(child.stdout.take(), limits)?, Output::new(child.stderr.take(), limits)?];
    input.pipe.iter().try_for_each(|pipe| ioctl_fionbio(pipe, true))?;
    let clock = Clock::start();
    let begun = clock.now();
    let mut last = Heard { at: begun, said: (0, 0) };
    let end = loop {
        if said.iter().any(Output::is_too_much) {
            break Some(End::TooMuch);
        }
        if STOPPED.load(Ordering::Relaxed) {
            break Some(End::Stopped);
        }
        if running.is_over()? {
            break None;
        }
        let now = clock.now();
        let left = limits.time.saturating_sub(Duration::from_nanos(now.nanos_since(begun)));
        if left.is_zero() {
            break Some(End::TooLong);
        }
        let silent = last.silent_for(now, (said.iter().map(|output| output.said.len()).sum(), heard()));
        if silent >= limits.silence {
            break Some(End::Silent);
        }
        wait(&input, &said, left.min(TICK))?;
        input.write();
        said.iter_mut().try_for_each(Output::read)?;
    };
    // What it had said when it ended is in the pipes; whoever may still hold their other ends is not waited for.
    let status = running.end()?;
    said.iter_mut().try_for_each(Output::read)?;
    let too_much = said.iter().any(Output::is_too_much).then_some(End::TooMuch);
    let end = end.or(too_much).unwrap_or(End::Exited(status));
    let [stdout, stderr] = said.map(Output::text);
    Ok(Ran { end, stdout, stderr })
}

/// Waits until something can be read or written, or for so long.
fn wait(input: &Input<'_>, said: &[Output], time: Duration) -> io::Result<()> {
    let mut all: Vec<PollFd<'_>> = Vec::with_capacity(3);
    all.extend(input.pipe.iter().map(|pipe| PollFd::new(pipe, PollFlags::OUT)));
    let readers = said.iter().filter_map(|output| output.pipe.as_ref());
    all.extend(readers.map(|pipe| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)));
    // It is a few milliseconds.
    let time = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
    match poll(&mut all, Some(&time)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// A child that is never left behind, alive or dead.
struct Running(Child);

impl Running {
    /// It has ended; it is still to be waited for, so that its number is nobody else's.
    fn is_over(&self) -> io::Result<bool> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(Pid::from_child(&self.0)), look) {
            Ok(ended) => Ok(ended.is_some()),
            Err(Errno::INTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Kills it and what it has started, as far as that has not left its group.
    fn end(&mut self) -> io::Result<ExitStatus> {
        // Nobody may be left in the group.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        // It may have left its own group for another one; nobody has waited for it, so the number is still its own.
        let _ = self.0.kill();
        self.0.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Behind an end a second one must not meet a number that is somebody else's by now.
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.end();
        }
    }
}

/// What is still to be written, and where; closed when all is.
struct Input<'a> {
    pipe: Option<ChildStdin>,
    left: &'a [u8],
}

impl Input<'_> {
    /// Writes what goes without waiting. Who does not read to the end has its reasons, and tells them.
    fn write(&mut self) {
        while let Some(pipe) = self.pipe.as_mut().filter(|_| !self.left.is_empty()) {
            match pipe.write(&self.left[..self.left.len().min(CHUNK)]) {
                Ok(n) => self.left = &self.left[n..],
                Err(e) if is_later(&e) => return,
                Err(_) => break,
            }
        }
        self.pipe = None;
    }
}

/// What comes out of one of its pipes.
struct Output {
    /// `None` once its end has come.
    pipe: Option<Box<dyn Pipe>>,
    said: Vec<u8>,
    max: usize,
}

trait Pipe: Read + AsFd {}
impl<P: Read + AsFd> Pipe for P {}

impl Output {
    fn new(pipe: Option<impl Pipe + 'static>, limits: Limits) -> io::Result<Self> {
        pipe.iter().try_for_each(|pipe| ioctl_fionbio(pipe, true))?;
        let pipe = pipe.map(|pipe| Box::new(pipe) as Box<dyn Pipe>);
        Ok(Self { pipe, said: Vec::new(), max: limits.output })
    }

    fn is_too_much(&self) -> bool {
        self.said.len() > self.max
    }

    /// Reads what is there, up to one chunk more than may be said.
    fn read(&mut self) -> io::Result<()> {
        let mut chunk = [0; CHUNK];
        while let Some(pipe) = self.pipe.as_mut().filter(|_| self.said.len() <= self.max) {
            match pipe.read(&mut chunk) {
                Ok(0) => self.pipe = None,
                Ok(n) => self.said.extend_from_slice(&chunk[..n]),
                Err(e) if is_later(&e) => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn text(mut self) -> Vec<u8> {
        self.said.truncate(self.max);
        self.said
    }
}

fn is_later(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hours, for what must end by something else.
    const FOREVER: Duration = Duration::from_secs(10_000);

    fn sh(text: &str, input: &[u8], limits: Limits) -> (End, String, String) {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        let ran = run(command, input, limits).expect("a shell");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (ran.end, text(&ran.stdout), text(&ran.stderr))
    }

    /// The process of this number has ended; it may be that nobody has waited for it yet.
    fn is_over(pid: &str) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        state.is_empty() || state.contains(") Z ") || state.contains(") X ")
    }

    fn code(end: End) -> Option<i32> {
        match end {
            End::Exited(status) => status.code(),
            _ => None,
        }
    }

    #[test]
    fn both_pipes_and_the_input_may_be_longer_than_a_pipe_holds() {
        let long = vec![b'x'; 300_000];
        let limits = Limits { time: FOREVER, silence: FOREVER, output: 1 << 20 };
        let (end, out, err) = sh("cat | tee /dev/stderr", &long, limits);
        assert_eq!((code(end), out.len(), err.len()), (Some(0), 300_000, 300_000));
        // Who reads nothing is heard all the same.
        let (end, out, err) = sh("exec <&-; echo a; echo b >&2; exit 3", &long, limits);
        assert_eq!((code(end), out.as_str(), err.as_str()), (Some(3), "a\n", "b\n"));
    }

    #[test]
    fn what_it_started_is_not_waited_for_and_does_not_outlive_it() {
        let limits = Limits { time: FOREVER, silence: FOREVER, output: 1_000 };
        let (end, out, _) = sh("sleep 9999 & echo $!", b"", limits);
        assert_eq!(code(end), Some(0));
        // Killed, it may be there for a moment still, and until its new parent has waited for it.
        let mut looks = (0..1_000).map(|_| std::thread::sleep(TICK));
        assert!(is_over(&out) || looks.any(|()| is_over(&out)), "{out}");
    }

    #[test]
    fn who_has_left_the_group_lives_on_and_is_not_waited_for() {
        let limits = Limits { time: FOREVER, silence: FOREVER, output: 1_000 };
        let text = "setsid sleep 60 & while [ \"$(cut -d' ' -f6 /proc/$!/stat)\" != $! ]; do sleep .01; done; echo $!";
        let (end, out, _) = sh(text, b"", limits);
        assert_eq!(code(end), Some(0));
        let pid = out.trim().parse().ok().and_then(Pid::from_raw).expect("its number");
        assert!(!is_over(&out), "{out}");
        rustix::process::kill_process(pid, Signal::KILL).expect("it lives");
    }

    #[test]
    fn a_program_that_has_left_its_group_is_ended_too() {
        if Command::new("python3").arg("--version").output().is_err() {
            let forbidden = std::env::var_os(crate::netns::REQUIRE_NET).is_some_and(|v| v == "1");
            assert!(!forbidden, "needs python3");
            eprintln!("skipped: needs python3");
            return;
        }
        let mut command = Command::new("python3");
        command.args(["-c", "import os, time; os.setpgid(0, os.getpgid(os.getppid())); print(1, flush=True); time.sleep(9999)"]);
        let ran = run(command, b"", Limits { time: Duration::from_secs(2), silence: FOREVER, output: 1_000 })
            .expect("a Python");
        assert_eq!((ran.end, &ran.stdout[..]), (End::TooLong, &b"1\n"[..]));
    }

    #[test]
    fn too_long_and_too_much_are_ends() {
        let limits = Limits { time: Duration::from_millis(100), silence: FOREVER, output: 1_000 };
        let (end, out, _) = sh("trap '' TERM ALRM; echo a; sleep 9999", b"", limits);
        assert_eq!((end, out.as_str()), (End::TooLong, "a\n"));
        let limits = Limits { time: FOREVER, silence: FOREVER, output: 1_000 };
        for text in ["yes", "yes >&2", "printf '%01001d' 1"] {
            let (end, out, err) = sh(text, b"", limits);
            assert!(end == End::TooMuch && out.len().max(err.len()) == 1_000, "{text}: {end:?}");
        }
        let (end, out, _) = sh("printf '%01000d' 1", b"", limits);
        assert_eq!((code(end), out.len()), (Some(0), 1_000));
    }

    #[test]
    fn silence_is_an_end_and_every_sign_of_life_begins_another() {
        let limits = Limits { time: FOREVER, silence: Duration::from_millis(100), output: 1_000 };
        let (end, out, _) = sh("echo a; sleep 9999", b"", limits);
        assert_eq!((end, out.as_str()), (End::Silent, "a\n"));
        // What it writes elsewhere counts as well.
        let mut command = Command::new("sh");
        command.args(["-c", "sleep .3"]);
        let mut more = 0..;
        let ran = run_heard(command, b"", limits, || more.next().unwrap_or_default()).expect("a shell");
        assert_eq!(code(ran.end), Some(0));

        let at = Instant::from_micros;
        let mut heard = Heard { at: at(0), said: (0, 0) };
        let silent = [(70, (0, 0)), (90, (1, 0)), (170, (1, 0)), (180, (1, 5)), (185, (1, 5)), (190, (2, 5))]
            .map(|(now, said)| heard.silent_for(at(now), said).as_micros());
        assert_eq!(silent, [70, 0, 80, 0, 5, 0]);
    }

    #[test]
    fn what_cannot_be_started_is_an_error() {
        let gone =
            run(Command::new("/nonexistent"), b"", Limits { time: FOREVER, silence: FOREVER, output: 0 });
        assert_eq!(gone.expect_err("no program").kind(), io::ErrorKind::NotFound);
    }
}
