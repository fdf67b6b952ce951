//! Carries a script out: keeps time, takes events in order, says what differs.
mod args;
mod association;
mod calls;
mod check;
mod commands;
mod compare;
mod counted;
mod counts;
mod dry;
mod fds;
mod flow;
mod inbound;
mod info;
mod local;
mod net;
mod python;
mod record;
mod replied;
mod sctp_args;
mod sctp_info;
mod snippet;
mod stack;
mod stats;
mod told;

use crate::config::{Config, Family};
use crate::failure::Failure;
use crate::script::{Action, DeviceAct, Event, Script, When};
use crate::target::{ORIGIN, Target};
use core::net::{IpAddr, SocketAddr};
pub use counts::is_compared;
use fds::Fds;
use flow::Flows;
use lowwater_core::base::Instant;
use lowwater_core::base::trace::{Ev, Record};
use net::Sniffed;
pub use record::{Apart, Transcript};
use std::path::Path;

/// Records of the flight recorder and packets that a failure shows.
const SHOWN: usize = 16;

/// Until the next event, in microseconds, where counters are noted between two lines: a kernel takes a fifth of a millisecond to tell them.
const IDLE_US: u64 = 5_000;

/// A script on its way.
pub(crate) struct Runner<'a> {
    host: Box<dyn Target>,
    config: &'a Config,
    /// Where files of commands are looked for.
    folder: &'a Path,
    /// The time that the event before had in the script, in microseconds.
    before: u64,
    sniffed: Sniffed,
    flows: Flows,
    fds: Fds,
    blocked: Option<calls::Blocked>,
    shell: commands::Commands,
    snippets: snippet::Snippets,
    /// What is worth a line and no failure.
    notes: Vec<String>,
    /// Where somebody wants to know what was sent.
    record: Option<Transcript>,
}

/// Runs a script against the stack in virtual time; what its snippets printed.
pub(crate) fn run(script: &Script, folder: &Path) -> Result<Vec<String>, Box<Failure>> {
    run_on(script, folder, Box::new(stack::Stack::new(&script.config)?))
}

/// Runs a script; what its snippets printed.
pub(crate) fn run_on(
    script: &Script,
    folder: &Path,
    target: Box<dyn Target>,
) -> Result<Vec<String>, Box<Failure>> {
    let mut runner = Runner::new(&script.config, folder, target);
    match runner.events(script) {
        Ok(()) => Ok(runner.said()),
        Err(failure) => Err(runner.explain(failure)),
    }
}

/// Runs a script against the stack; its snippets as one program.
pub(crate) fn python(script: &Script, folder: &Path) -> Result<String, Box<Failure>> {
    let mut runner = Runner::new(&script.config, folder, Box::new(stack::Stack::new(&script.config)?));
    match runner.events(script) {
        Ok(()) => Ok(python::program(&runner.snippets.noted)),
        Err(failure) => Err(runner.explain(failure)),
    }
}

/// Runs a script against the stack, and tells what that sent.
pub(crate) fn record(script: &Script, folder: &Path) -> Result<(Vec<String>, Transcript), Box<Failure>> {
    record_on(script, folder, Box::new(stack::Stack::new(&script.config)?))
}

/// Runs a script; what its snippets printed, and what was sent up to a moment after its last line.
pub(crate) fn record_on(
    script: &Script,
    folder: &Path,
    target: Box<dyn Target>,
) -> Result<(Vec<String>, Transcript), Box<Failure>> {
    let mut runner = Runner::new(&script.config, folder, target);
    runner.record = Some(Transcript::default());
    let done = runner.events(script).and_then(|()| runner.watch(script));
    match done {
        Ok(()) => Ok((runner.said(), runner.record.take().unwrap_or_default())),
        Err(failure) => Err(runner.explain(failure)),
    }
}

impl<'a> Runner<'a> {
    fn new(config: &'a Config, folder: &'a Path, host: Box<dyn Target>) -> Self {
        Self {
            host,
            config,
            folder,
            before: 0,
            sniffed: Sniffed::default(),
            flows: Flows::default(),
            fds: Fds::default(),
            blocked: None,
            shell: commands::Commands::default(),
            snippets: snippet::Snippets::default(),
            notes: config.notes.clone(),
            record: None,
        }
    }

    fn events(&mut self, script: &Script) -> Result<(), Box<Failure>> {
        if script.config.dry_run {
            return self.dry(script);
        }
        self.init_scripts(script)?;
        let mut events = script.events.iter().peekable();
        while let Some(event) = events.next() {
            self.event(event)?;
            // What answers a packet at once may be a jiffy late: its own line is looked at.
            let answered = events.peek().is_some_and(|next| matches!(next.action, Action::Outbound(_)));
            if !(answered && matches!(event.action, Action::Inbound(_))) {
                self.note_info(event.line);
            }
            if events.peek().is_some_and(|next| self.has_time_before(next.when)) {
                self.note_counters(event.line)?;
            }
        }
        self.last_call()?;
        self.hand_over()
    }

    /// Nothing is disturbed by what takes a kernel a moment.
    fn has_time_before(&self, next: When) -> bool {
        match next {
            When::Any => false,
            When::Absolute(from, _) => from >= self.now().saturating_add(IDLE_US),
            When::Relative(from, _) => from >= IDLE_US,
        }
    }

    /// What is sent in the moment after the last line; counters are those of before anything there may be missing, and those of its end.
    fn watch(&mut self, script: &Script) -> Result<(), Box<Failure>> {
        let now = self.now();
        self.advance(at(now.saturating_add(record::LATE_US)), 1)?;
        let line = script.events.last().map_or(1, |event| event.line);
        self.note_counters(line)?;
        self.advance(at(now.saturating_add(record::WATCHED_US)), 1)?;
        self.note_last_counters(line)
    }

    fn init_scripts(&mut self, script: &Script) -> Result<(), Box<Failure>> {
        for (line, file) in &script.config.init_scripts {
            self.file(*line, file, &[])
                .map_err(|what| Failure::new(*line, format!("--init_scripts: {what}")))?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Result<(), Box<Failure>> {
        if !self.shell.begun && !matches!(event.action, Action::Command(_)) {
            self.shell.begun = true;
            self.host.begin();
        }
        let base = self.now();
        let (from, to) = match event.when {
            When::Any => (base, u64::MAX),
            When::Absolute(from, to) => (from, to),
            When::Relative(from, to) => (base.saturating_add(from), base.saturating_add(to)),
        };
        let tolerance = self.tolerance(from.saturating_sub(self.before));
        if let Action::Outbound(spec) = &event.action {
            let any = event.when == When::Any;
            let early = if any { 0 } else { from.saturating_sub(tolerance) };
            let window = compare::Window { from, to, early, late: to.saturating_add(tolerance) };
            match self.outbound(event.line, spec, window) {
                // A packet that never came is the end all the same.
                Err(wrong) if self.config.judge.forgiving && wrong.actual != compare::NOTHING => {
                    let (what, expected, actual) = (&wrong.what, &wrong.expected, &wrong.actual);
                    let line = event.line;
                    self.notes.push(format!("line {line}: {what}: {expected}, not {actual}"));
                }
                done => done?,
            }
            self.before = from;
            return self.finished_call();
        }
        self.advance(at(from), event.line)?;
        let late = self.now();
        if late > from.saturating_add(tolerance) {
            let (expected, actual) = (give_or_take(seconds(from), tolerance), seconds(late));
            return Err(Failure::differs(event.line, "it is too late for this event", expected, actual));
        }
        self.before = from;
        self.finished_call()?;
        if let Action::Call(spec) = &event.action {
            self.await_call(event.line, spec, (base, from.saturating_add(tolerance)))?;
        }
        let now = self.now();
        self.record.iter_mut().for_each(|record| record.line(event.line, now));
        match &event.action {
            Action::Inbound(spec) => self.inbound(event.line, spec)?,
            Action::Outbound(_) => {}
            Action::Call(spec) => {
                let offset = if matches!(event.when, When::Relative(..)) { base } else { 0 };
                self.call(event.line, spec, spec.end.map(|end| end.saturating_add(offset)))?;
            }
            Action::Command(commands) => self.commands(commands)?,
            Action::Code(snippet) => self.snippet(event.line, snippet)?,
            Action::Device(act) => self.device(event.line, *act)?,
        }
        self.gather(event.line)?;
        self.finished_call()
    }

    fn device(&mut self, line: usize, act: DeviceAct) -> Result<(), Box<Failure>> {
        match act {
            DeviceAct::Busy => self.host.set_busy(true),
            DeviceAct::Drop(count) => self.host.set_drops(count),
            DeviceAct::Ready => self.host.set_busy(false),
            DeviceAct::Complete(_) if self.config.device.queue.is_none() => {
                let what = "the device completes by itself; --device_queue=N leaves that to the script";
                return Err(Failure::new(line, what));
            }
            DeviceAct::Complete(None) => _ = self.host.complete(usize::MAX),
            DeviceAct::Complete(Some(count)) => {
                let left = self.host.complete(count);
                if left < count {
                    let what = "the device holds fewer packets";
                    return Err(Failure::differs(line, what, count.to_string(), left.to_string()));
                }
            }
        }
        Ok(())
    }

    /// What an event may be away from its time when it comes `since` microseconds after the one before.
    fn tolerance(&self, since: u64) -> u64 {
        self.config.judge.tolerance(since).saturating_add(self.host.slack_us())
    }

    /// Microseconds of the script, now.
    fn now(&self) -> u64 {
        self.micros(self.host.now())
    }

    /// Microseconds of the script at a point of the stack's time: the nearest, since events of one instant are nanoseconds apart (`steps.rs`).
    fn micros(&self, now: Instant) -> u64 {
        now.nanos_since(ORIGIN).saturating_add(500) / 1_000
    }

    /// An address as sockets of this script have it: mapped into IPv6 where they speak IPv4 through AF_INET6.
    fn name(&self, ip: IpAddr, port: u16) -> SocketAddr {
        match (self.config.family, ip) {
            (Family::Mapped, IpAddr::V4(v4)) => SocketAddr::new(v4.to_ipv6_mapped().into(), port),
            _ => SocketAddr::new(ip, port),
        }
    }

    /// A record of the flight recorder with the script's times; its sequence numbers too, where there is one connection.
    fn told(&self, record: Record) -> String {
        let event = match record.event {
            Ev::Timer(name, due) => Ev::Timer(name, Instant::ZERO.plus_nanos(due.nanos_since(ORIGIN))),
            event => self.flows.only().map_or(event, |flow| flow.told(event)),
        };
        format!("{} {event}", seconds(self.micros(record.at)))
    }

    /// What is worth telling of a script that has run, and what its snippets printed.
    fn said(&mut self) -> Vec<String> {
        let mut said = std::mem::take(&mut self.notes);
        said.append(&mut self.snippets.env.printed);
        said
    }

    /// Adds what was seen last.
    fn explain(&mut self, mut failure: Box<Failure>) -> Box<Failure> {
        failure.packets = self.sniffed.log.iter().cloned().collect();
        failure.printed = self.said();
        let records = self.host.trace(SHOWN);
        failure.trace = records.into_iter().map(|record| self.told(record)).collect();
        failure
    }
}

/// The point of the stack's time at `us` of the script.
const fn at(us: u64) -> Instant {
    ORIGIN.plus_nanos(us.saturating_mul(1_000))
}

/// A time that is expected, with what is allowed around it.
fn give_or_take(wanted: String, tolerance: u64) -> String {
    if tolerance == 0 { wanted } else { format!("{wanted}, give or take {}", seconds(tolerance)) }
}

/// Microseconds as a script writes them.
fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}
