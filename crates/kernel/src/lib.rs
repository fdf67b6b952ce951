//! The kernel of this host as what a script runs against: system calls on real sockets, packets by a TUN, real time.
//!
//! Each run has a network namespace of its own, with one TUN without offloads and the addresses of the script, so that it
//! touches nothing of the host and needs root. The settings in which the kernel's defaults depend on the machine are set to the
//! stack's. A script that passes here and in virtual time shows that both behave alike as far as it looks. Timers of the kernel
//! are late by up to an eighth, and a busy machine makes everything late: [`drill_file`] allows for the former and tries a
//! script again for the latter.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]
mod calls;
pub mod draw;
mod namespace;
mod tap;
mod worker;

use bytes::Bytes;
use core::net::{IpAddr, SocketAddr};
use lowwater_core::base::trace::Record;
use lowwater_core::base::{Duration, Instant};
use lowwater_drill::{
    Apart, Failure, Invocation, ORIGIN, Outcome, Overrides, Ran, Target, Transcript, World,
};
use lowwater_os::netns::NetNs;
use lowwater_os::{Clock, SockDiag};
use lowwater_posix::{Call, CallId, Reply, Sent, Started};
use namespace::Namespace;
use rustix::time::{ClockId, clock_getres};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::SystemTime;
use tap::Tap;
use worker::Worker;

/// What an event may be late or early beyond the script's tolerance, in microseconds: scheduling, and the timer wheel's steps.
const SLACK_US: u64 = 40_000;
/// How long after its time a packet is waited for, in microseconds.
const PATIENCE_US: u64 = 1_000_000;
/// A line of a script that begins so tells why the kernel cannot pass it.
const MARK: &str = "// kernel: ";
/// The same for one that the kernel passes once and fails another time.
const CHANCE: &str = "// kernel by chance: ";
/// So begins a line that tells why the stack sends something else here than the kernel, though both pass the script.
const UNLIKE: &str = "// unlike the kernel: ";
/// In front of differences that a clock explains.
const LATE: &str = "only times differ, the packets are the same: on a busy machine the kernel is late, so run it again on a quiet one";
/// So begin options of a script that ask for a device of its own.
const DEVICE: [&str; 2] = ["--gso", "--device_queue"];

/// What the stack and the kernel do not have in common in one script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// As lines, marked `-` for the stack and `+` for the kernel; none when both are alike.
    pub lines: Vec<String>,
    /// The packets are the same, and a machine that was late explains the rest.
    pub times_alone: bool,
    /// The packets and their times are the same, and what calls, TCP_INFO or counters tell is not.
    pub info_alone: bool,
    /// In what they differ, and where first.
    pub apart: Apart,
}

impl Differences {
    fn of(stack: &Transcript, kernel: &Transcript, text: &str) -> Self {
        let mut lines = stack.differences(kernel, text);
        let times_alone = !lines.is_empty() && stack.differ_in_time_alone(kernel, text);
        if times_alone {
            lines.insert(0, LATE.to_owned());
        }
        let info_alone = !lines.is_empty() && stack.sends_alike(kernel);
        Self { lines, times_alone, info_alone, apart: stack.apart(kernel, text) }
    }
}

/// The kernel, in a namespace of its own.
pub struct Kernel {
    tap: Tap,
    /// Tells of connections that nobody has accepted.
    diag: SockDiag,
    worker: Worker,
    calls: u64,
    /// A packet of the script did not come in.
    refused: Option<String>,
}

impl Kernel {
    /// A kernel for the world of a script. The calling thread moves into the new namespace for good, and goes before others from then on.
    ///
    /// # Errors
    /// What could not be made, in a sentence.
    pub fn new(world: &World) -> Result<Self, String> {
        if world.special_device {
            return Err("the kernel has no such device: --gso and --device_queue are the stack's".to_owned());
        }
        let world = Namespace::new(world)?;
        hurry();
        let diag = SockDiag::new().map_err(|e| e.to_string())?;
        let clock = Clock::start();
        let worker = Worker::start(clock)?;
        let tap = Tap { world, clock, begun: clock.now(), sent: VecDeque::new() };
        Ok(Self { tap, diag, worker, calls: 0, refused: None })
    }

    /// Between two ticks of the kernel's clock, in nanoseconds (`TICK_NSEC`): the coarse clocks move by it.
    fn tick_ns() -> u64 {
        let res = clock_getres(ClockId::MonotonicCoarse);
        u64::try_from(res.tv_nsec)
            .ok()
            .filter(|ns| (1_000_000..=10_000_000).contains(ns))
            .unwrap_or(4_000_000)
    }

    /// By how much the kernel's clock was ahead of a tick at `at`: its jiffies change there (ticks of 6.18 are whole multiples), and at each
    /// whole millisecond its timestamps.
    fn past_tick_ns(&self, at: Instant) -> u64 {
        let Tap { clock, begun, .. } = &self.tap;
        clock.monotonic_nanos(begun.plus_nanos(at.nanos_since(ORIGIN))) % Self::tick_ns()
    }
}

impl Target for Kernel {
    fn now(&self) -> Instant {
        self.tap.now()
    }

    fn epoch_ns(&self) -> u64 {
        let real = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(real.as_nanos()).unwrap_or(u64::MAX).saturating_sub(self.now().as_nanos())
    }

    fn call(&mut self, call: Call) -> Started {
        self.calls += 1;
        let id = CallId::new(self.calls);
        match self.worker.call(id, call, &mut self.tap) {
            Some(reply) => Started::Done(reply),
            None => Started::Blocked(id),
        }
    }

    fn take(&mut self, id: CallId) -> Option<(Instant, Reply)> {
        let (at, reply) = self.worker.reply(id)?;
        Some((ORIGIN.plus_nanos(at.nanos_since(self.tap.begun)), reply))
    }

    fn inject(&mut self, packet: Bytes) {
        self.tap.gather();
        if !self.tap.world.send(&packet) {
            self.refused =
                Some(format!("the kernel's device does not take this packet of {} bytes", packet.len()));
        }
        // What the kernel answers at once is there now; a caller that the packet wakes needs a moment.
        self.tap.gather();
        self.worker.settle(&mut self.tap);
    }

    fn refused(&mut self) -> Option<String> {
        self.refused.take()
    }

    fn advance_until(&mut self, t: Instant) {
        while self.now() < t {
            self.tap.wait(t, None);
        }
        self.tap.gather();
    }

    fn align(&mut self, period: Duration) {
        let ns = period.as_nanos().max(1) as u64;
        let clock = self.tap.clock;
        let past = clock.monotonic_nanos(clock.now()) % ns;
        let wanted = ORIGIN.as_nanos() % ns;
        let left = if past > wanted { ns - (past - wanted) } else { wanted - past };
        let at = self.now().plus_nanos(left);
        self.advance_until(at);
    }

    fn next_packet(&mut self, limit: Instant) -> Option<Sent> {
        self.tap.gather();
        while self.tap.sent.is_empty() && self.now() < limit {
            self.tap.wait(limit, None);
        }
        self.tap.sent.pop_front()
    }

    fn set_sysctl(&mut self, name: &str, value: &str) -> Result<(), String> {
        if name.ends_with("tcp_congestion_control") {
            // A namespace may not have every controller as its default; root's sockets may choose it.
            self.worker.set_congestion(value);
            let _ = namespace::set_sysctl(name, value);
            return Ok(());
        }
        namespace::set_sysctl(name, value)
    }

    fn counters(&mut self) -> Result<Vec<(String, u64)>, String> {
        namespace::counters()
    }

    fn lacks_sysctl(&self, name: &str) -> Option<String> {
        namespace::lacks_sysctl(name)
    }

    fn forget_servers(&mut self) -> Result<(), String> {
        namespace::forget_servers()
    }

    fn set_qdisc(&mut self, words: &str) -> Result<(), String> {
        namespace::set_qdisc(words)
    }

    fn set_route(&mut self, dest: IpAddr, prefix: u8, metrics: &str) -> Result<(), String> {
        namespace::set_route(dest, prefix, metrics)
    }

    fn remove_route(&mut self, dest: IpAddr, prefix: u8) -> Result<(), String> {
        namespace::remove_route(dest, prefix)
    }

    fn set_mtu(&mut self, mtu: u16) -> Result<(), String> {
        namespace::set_mtu(mtu)
    }

    fn early_info(&mut self, local: SocketAddr, remote: SocketAddr) -> Option<Vec<u8>> {
        self.diag.tcp_info(local, remote).ok().flatten()
    }

    fn trace(&mut self, _: usize) -> Vec<Record> {
        Vec::new()
    }

    fn slack_us(&self) -> u64 {
        SLACK_US
    }

    fn patience_us(&self) -> u64 {
        PATIENCE_US
    }
}

/// Why the kernel cannot pass a script, or not each time, where the script says so in a line `// kernel: ...` or `// kernel by chance: ...`.
#[must_use]
pub fn excuse(text: &str) -> Option<&str> {
    let own = |line: &str| DEVICE.iter().any(|option| line.trim_start().starts_with(option));
    if text.lines().any(own) {
        return Some("the device is the script's own");
    }
    text.lines().find_map(|line| line.strip_prefix(MARK).or_else(|| line.strip_prefix(CHANCE)))
}

/// Runs the script in a file against the kernel, with what the command line says over it, up to `attempts` times until it passes.
///
/// # Errors
/// Those of [`lowwater_drill::read`].
///
/// # Panics
/// When no thread can be started.
pub fn drill_file(path: &Path, over: Overrides, attempts: usize) -> io::Result<Outcome> {
    let text = lowwater_drill::read(path)?;
    let name = path.display().to_string();
    let once = || {
        // Nothing is compared, so nothing is asked for between the lines, which would come later for it.
        let script = Invocation::new(&name, &text).over(over);
        on_a_thread(|| script.run_on(boxed))
    };
    let mut last = once();
    for _ in 1..attempts {
        if last.is_ok() {
            break;
        }
        last = once();
    }
    Ok(outcome(path, &text, last))
}

fn outcome(path: &Path, text: &str, done: Result<Vec<String>, Box<Failure>>) -> Outcome {
    // What the stack cannot do yet is no reason for the kernel to fail; what the kernel cannot do is.
    let fails_because = excuse(text).map(str::to_owned);
    let done = done.map_err(|mut failure| {
        failure.ran_on(Ran::Kernel);
        failure
    });
    let by_chance = text.lines().any(|line| line.starts_with(CHANCE));
    Outcome { fails_because, by_chance, ..Outcome::of(path, text, done) }
}

/// Runs the script in a file against the kernel and against the stack, with what the command line says over it, up to `attempts` times
/// until it passes and both have sent the same at the same times; and where they differ. They do not where the script
/// fails, and where it says why it may. Of one that the stack fails
/// is told what the kernel makes of it, unless it says that it fails, or why the two are not alike.
///
/// # Errors
/// Those of [`lowwater_drill::read`].
///
/// # Panics
/// When no thread can be started.
pub fn compare_file(path: &Path, over: Overrides, attempts: usize) -> io::Result<(Outcome, Differences)> {
    let text = lowwater_drill::read(path)?;
    let name = path.display().to_string();
    let script = Invocation::new(&name, &text).over(over);
    let unlike = text.lines().any(|line| line.starts_with(UNLIKE));
    let stack = match script.record() {
        Ok(stack) => Some(stack).filter(|_| !unlike),
        Err(failure) => {
            let failed = Outcome::of(path, &text, Err(failure));
            // With nothing of the stack's to compare, a script that the kernel passes would seem alike.
            if failed.fails_because.is_none() && !unlike && excuse(&text).is_none() {
                let kernel = drill_file(path, over, attempts)?;
                return Ok((failed_by_the_stack(failed, &kernel), Differences::default()));
            }
            None
        }
    };
    let mut runs = Vec::new();
    for _ in 0..attempts.max(1) {
        let mut differences = Differences::default();
        let done = on_a_thread(|| script.record_on(boxed)).map(|(printed, kernel)| {
            if let Some((_, stack)) = &stack {
                differences = Differences::of(stack, &kernel, &text);
            }
            printed
        });
        let outcome = outcome(path, &text, done);
        if outcome.failure.is_none() && differences.lines.is_empty() {
            return Ok((outcome, differences));
        }
        runs.push((outcome, differences));
    }
    let (mut outcome, differences) = telling(runs).ok_or(io::ErrorKind::Other)?;
    if let (Some(failure), Some(_)) = (&mut outcome.failure, &stack) {
        failure.what = format!("the kernel fails it: {} (the stack passes it)", failure.what);
        failure.ran_on(Ran::Compared);
    }
    Ok((outcome, differences))
}

/// Of runs none of which was alike, one that speaks for them: what passes and differs says more than what fails, and of two ways to differ,
/// in time alone or beyond it, the one that more of them show; beyond it where as many do.
fn telling(mut runs: Vec<(Outcome, Differences)>) -> Option<(Outcome, Differences)> {
    let late = |run: &(Outcome, Differences)| run.0.failure.is_none().then_some(run.1.times_alone);
    let count = |which: bool| runs.iter().filter(|run| late(run) == Some(which)).count();
    let (beyond, times) = (count(false), count(true));
    let wanted = (beyond + times > 0).then_some(times > beyond);
    let at = runs.iter().rposition(|run| late(run) == wanted)?;
    Some(runs.swap_remove(at))
}

fn failed_by_the_stack(mut outcome: Outcome, kernel: &Outcome) -> Outcome {
    if let (Some(failure), Some(theirs)) = (&mut outcome.failure, &kernel.failure)
        && (failure.line, &failure.actual) == (theirs.line, &theirs.actual)
        // Of what did not come the kernel's run says until when it waited.
        && theirs.what.strip_prefix(failure.what.as_str()).is_some_and(|more| more.is_empty() || more.starts_with(" until "))
    {
        failure.ran_on(Ran::Compared);
        // A script that cannot be read, or asks for what there is not, has shown nothing of either.
        if !failure.actual.is_empty() || !failure.packets.is_empty() {
            failure.what =
                format!("the stack and the kernel both fail it, in the same way: {}", failure.what);
        }
        return outcome;
    }
    let told = match &kernel.failure {
        None => format!("the kernel passes it, which may be late or early by {} ms more", SLACK_US / 1_000),
        Some(failure) => format!("the kernel fails it in line {}: {}", failure.line, failure.what),
    };
    if let Some(failure) = &mut outcome.failure {
        failure.what = format!("the stack fails it: {} ({told})", failure.what);
        failure.ran_on(Ran::Compared);
    }
    outcome
}

fn boxed(world: &World) -> Result<Box<dyn Target>, String> {
    Kernel::new(world).map(|kernel| Box::new(kernel) as Box<dyn Target>)
}

/// On a thread of its own, since that moves into a namespace.
fn on_a_thread<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|s| match s.spawn(run).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Whether scripts can run against the kernel here; otherwise what is missing, to follow "needs".
///
/// # Errors
/// The missing thing, as in [`lowwater_os::netns::can_net_admin`].
pub fn available() -> Result<(), String> {
    lowwater_os::netns::can_net_admin()
}

/// The calling thread goes before everything else that wants a processor: a packet that a busy machine hands in late is another script to
/// the kernel, whose delayed ACK or end of a train came first. Threads that carry scripts out sleep nearly all the time. Who may not ask
/// for that is as late as everybody else.
fn hurry() {
    let _ = lowwater_os::go_first();
}

/// A fresh namespace, entered by the calling thread.
fn enter() -> Result<(), String> {
    let ns = NetNs::new().map_err(|e| e.to_string())?;
    ns.enter().map_err(|e| format!("entering a network namespace: {e}"))
}
