//! The world: hosts and pipes in virtual time, stepped event by event from one seed.
use crate::app::App;
use crate::check::{self, Broken, Ledger};
use crate::edit::addresses;
use crate::host::{Host, HostSpec, Outside};
use crate::link::{Completion, Pipe, PipeSpec};
use crate::pcap::{Direction, PcapOptions, PcapWriter};
use crate::schedule::{Schedule, Step, StuckGuard};
use lowwater_core::base::trace::Record;
use lowwater_core::base::{Instant, Rng};
use lowwater_core::packet::Packet;
use std::net::IpAddr;

/// Where a pipe ends.
#[derive(Clone, Debug)]
pub enum To {
    /// At a host.
    Host(usize),
    /// At a router, which knows the next pipe for each address. Packets for other addresses vanish there.
    Router(Vec<(IpAddr, usize)>),
}

/// What happens when. Each host and each pipe has at most one armed instant; older entries are stale and ignored.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Host(usize),
    Pipe(usize),
}

struct PipeSlot {
    pipe: Pipe,
    from: Option<usize>,
    to: To,
    armed: Option<Instant>,
}

struct HostSlot {
    pipe: Option<usize>,
    armed: Option<Instant>,
}

/// A capture in memory, at every host's device.
pub struct Capture {
    writer: PcapWriter<Vec<u8>>,
}

impl Capture {
    pub(crate) fn packet(&mut self, host: usize, at: Instant, direction: Direction, packet: &Packet) {
        // Memory takes every write, and the interface was declared.
        let _ = self.writer.packet(host as u32, at, direction, packet, None);
    }
}

/// What a world records beside its figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Packets, as pcapng.
    pub capture: bool,
    /// Every stack's flight recorder.
    pub trace: bool,
    /// Every stack's journal.
    pub journal: bool,
}

/// A world.
pub struct World {
    now: Instant,
    rng: Rng,
    schedule: Schedule<Happening>,
    guard: StuckGuard,
    hosts: Vec<Host>,
    host_slots: Vec<HostSlot>,
    pipes: Vec<PipeSlot>,
    /// Facts that programs reported.
    pub ledger: Ledger,
    capture: Option<Capture>,
    recording: Recording,
    events: u64,
}

impl World {
    /// An empty world; all its chance comes from `seed`.
    #[must_use]
    pub fn new(seed: u64, recording: Recording) -> Self {
        let capture = recording.capture.then(|| {
            let comment = format!("lowwater-sim, seed {seed}");
            let options = PcapOptions::default();
            Capture {
                writer: PcapWriter::new(Vec::new(), options, &comment).expect("memory takes every write"),
            }
        });
        Self {
            now: Instant::ZERO,
            rng: Rng::new(seed),
            schedule: Schedule::default(),
            guard: StuckGuard::default(),
            hosts: Vec::new(),
            host_slots: Vec::new(),
            pipes: Vec::new(),
            ledger: Ledger::default(),
            capture,
            recording,
            events: 0,
        }
    }

    /// Adds a host and returns its number.
    pub fn add_host(&mut self, spec: HostSpec) -> usize {
        let h = self.hosts.len();
        let seed = self.rng.fork(&format!("host {h}")).next_u64();
        let mut host = Host::new(spec, seed, self.now, self.recording.journal);
        host.core_mut().stack_mut().set_trace(self.recording.trace);
        self.hosts.push(host);
        self.host_slots.push(HostSlot { pipe: None, armed: None });
        if let Some(capture) = &mut self.capture {
            capture.writer.interface(&format!("host{h}")).expect("memory takes every write");
        }
        h
    }

    /// Adds one direction of a link, from a host's device or from a router.
    ///
    /// # Panics
    /// For a pipe from a host without [`PipeSpec::nic`].
    pub fn add_pipe(&mut self, from: Option<usize>, spec: &PipeSpec, to: To) -> usize {
        assert!(
            from.is_none() || spec.nic.is_some(),
            "a pipe that begins at a host needs its device: PipeSpec::nic, NicSpec::default() for one without limits"
        );
        let p = self.pipes.len();
        let pipe = spec.build(&self.rng.fork(&format!("pipe {p}")));
        self.pipes.push(PipeSlot { pipe, from, to, armed: None });
        if let Some(h) = from {
            self.host_slots[h].pipe = Some(p);
        }
        p
    }

    /// Adds a program to a host.
    pub fn add_app(&mut self, host: usize, app: Box<dyn App>) {
        let n = self.hosts[host].apps().count();
        let rng = self.rng.fork(&format!("app {host} {n}"));
        self.hosts[host].add_app(app, rng);
    }

    /// Puts another queueing discipline in front of a host's device, whatever runs.
    ///
    /// # Errors
    /// One sentence about what is wrong with the words.
    pub fn set_qdisc(&mut self, host: usize, words: &str) -> Result<(), String> {
        let mut done = Ok(());
        self.with_host(host, |host, now, outside| {
            done = host.set_qdisc(now, words);
            host.settle(now, outside);
        });
        done
    }

    /// Starts all programs.
    pub fn start(&mut self) {
        self.for_each_app(|app, io| app.start(io));
    }

    /// Tells all programs to close what they hold open for good.
    pub fn stop(&mut self) {
        self.for_each_app(|app, io| app.stop(io));
    }

    fn for_each_app(&mut self, call: fn(&mut dyn App, &mut crate::app::Io<'_>)) {
        for h in 0..self.hosts.len() {
            self.with_host(h, |host, now, outside| host.each_app(now, outside, call));
        }
    }

    /// Stops all random faults in all pipes.
    pub fn heal(&mut self) {
        for slot in &mut self.pipes {
            slot.pipe.heal();
        }
    }

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The hosts.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// A host, for reports that need it mutable.
    pub fn host_mut(&mut self, host: usize) -> &mut Host {
        &mut self.hosts[host]
    }

    /// Packets that pipes which end at hosts have delivered, and that routers have sent back.
    #[must_use]
    pub fn handed_to_hosts(&self) -> u64 {
        let delivered = |slot: &PipeSlot| {
            let to_host = matches!(slot.to, To::Host(_));
            slot.pipe.counts().told + if to_host { slot.pipe.counts().delivered } else { 0 }
        };
        self.pipes.iter().map(delivered).sum()
    }

    /// The pipes.
    pub fn pipes(&self) -> impl Iterator<Item = &Pipe> {
        self.pipes.iter().map(|s| &s.pipe)
    }

    /// Every program on every host has finished.
    #[must_use]
    pub fn all_done(&self) -> bool {
        self.hosts.iter().all(|h| h.apps().all(App::done))
    }

    /// Every program of this host has finished. A writer does so after its reader, unless it was given up, and then its reader never does.
    #[must_use]
    pub fn host_is_done(&self, h: usize) -> bool {
        self.hosts.get(h).is_some_and(|host| host.apps().all(App::done))
    }

    /// Nothing is under way in any pipe, no device has anything to tell, and no stack holds anything that time would remove.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.pipes.iter().all(|s| s.pipe.held() == 0 && s.pipe.deadline().is_none())
            && self.hosts.iter().all(|h| h.deadline().is_none())
    }

    /// Does the next thing that happens at or before `limit`. False when there is none.
    ///
    /// # Errors
    /// The first broken promise of a program or of a driver, and a world that stands still.
    pub fn step(&mut self, limit: Instant) -> Result<bool, Broken> {
        if let Some(broken) = self.ledger.broken() {
            return Err(broken.clone());
        }
        if self.schedule.next_at().is_none_or(|at| at > limit) {
            return Ok(false);
        }
        let Some((at, happening)) = self.schedule.pop() else { return Ok(false) };
        debug_assert!(at >= self.now, "virtual time never runs backwards");
        self.now = at;
        self.events += 1;
        let (kind, index, armed) = match happening {
            Happening::Host(h) => ("host", h, &mut self.host_slots[h].armed),
            Happening::Pipe(p) => ("pipe", p, &mut self.pipes[p].armed),
        };
        if *armed != Some(at) {
            return Ok(true);
        }
        *armed = None;
        if self.guard.step(at, Step { kind, index }) {
            match happening {
                Happening::Host(h) => self.with_host(h, Host::run),
                Happening::Pipe(p) => self.run_pipe(p),
            }
        }
        self.guard_verdict()
    }

    fn guard_verdict(&mut self) -> Result<bool, Broken> {
        if self.guard.is_stuck() {
            let message = format!("no virtual progress {}", self.guard.place());
            self.ledger.fail("progress", self.now, message);
        }
        self.ledger.broken().map_or(Ok(true), |b| Err(b.clone()))
    }

    /// Runs to virtual time `limit`.
    ///
    /// # Errors
    /// As [`World::step`].
    pub fn run_until(&mut self, limit: Instant) -> Result<(), Broken> {
        while self.step(limit)? {}
        self.now = self.now.max(limit);
        Ok(())
    }

    /// Runs while `wanted` holds, to `limit` at the latest. True when it ended because `wanted` no longer holds.
    ///
    /// # Errors
    /// As [`World::step`].
    pub fn run_while(&mut self, limit: Instant, wanted: impl Fn(&Self) -> bool) -> Result<bool, Broken> {
        while wanted(self) {
            if !self.step(limit)? {
                return Ok(!wanted(self));
            }
        }
        // What programs were told to do before the first step may have broken something, too.
        self.ledger.broken().map_or(Ok(true), |b| Err(b.clone()))
    }

    fn with_host(&mut self, h: usize, call: impl FnOnce(&mut Host, Instant, &mut Outside<'_>)) {
        let slot = self.host_slots[h].pipe;
        let mut outside = Outside {
            pipe: slot.map(|p| &mut self.pipes[p].pipe),
            ledger: &mut self.ledger,
            guard: &mut self.guard,
            capture: &mut self.capture,
            host: h,
        };
        call(&mut self.hosts[h], self.now, &mut outside);
        // A walk over all that waits, after every step: in the profile of the simulations, not in programs that show figures.
        if cfg!(debug_assertions) {
            let balance = check::credit::host(&self.hosts[h]).map_err(|e| format!("host {h}: {e}"));
            self.ledger.check(check::credit::NAME, self.now, balance);
        }
        self.arm_host(h);
        if let Some(p) = slot {
            self.arm_pipe(p);
        }
    }

    fn run_pipe(&mut self, p: usize) {
        let mut completions = Vec::new();
        self.pipes[p].pipe.advance(self.now, &mut completions);
        self.forward(p);
        if let Some(h) = self.pipes[p].from
            && !completions.is_empty()
        {
            self.with_host(h, |host, now, outside| {
                for c in completions {
                    match c {
                        Completion::Left(owner) => host.complete(now, owner),
                        Completion::Ready => host.device_ready(now),
                    }
                }
                host.settle(now, outside);
            });
        }
        self.arm_pipe(p);
    }

    /// Moves what came out of a pipe to where it ends.
    fn forward(&mut self, p: usize) {
        for packet in self.pipes[p].pipe.take_back() {
            let dest = addresses(&packet).map(|(_, to)| to);
            if let Some(h) = self.hosts.iter().position(|h| dest.is_some_and(|d| h.addresses().contains(&d)))
            {
                self.hosts[h].arrive(self.now, packet);
                self.arm_host(h);
            }
        }
        let delivered = self.pipes[p].pipe.take_delivered();
        if delivered.is_empty() {
            return;
        }
        match &self.pipes[p].to {
            To::Host(h) => {
                let h = *h;
                for packet in delivered {
                    self.hosts[h].arrive(self.now, packet);
                }
                self.arm_host(h);
            }
            To::Router(table) => {
                let next: Vec<(usize, Packet)> = delivered
                    .into_iter()
                    .filter_map(|packet| {
                        let (_, to) = addresses(&packet)?;
                        let (_, pipe) = table.iter().find(|(ip, _)| *ip == to)?;
                        Some((*pipe, packet))
                    })
                    .collect();
                for (pipe, packet) in next {
                    self.pipes[pipe].pipe.accept(self.now, packet);
                    // What the first stage answers at once (an ICMP error) must not wait for the next packet.
                    self.forward(pipe);
                    self.arm_pipe(pipe);
                }
            }
        }
    }

    fn arm_host(&mut self, h: usize) {
        let Some(at) = self.hosts[h].deadline() else { return };
        let at = at.max(self.now);
        let slot = &mut self.host_slots[h];
        if slot.armed.is_none_or(|armed| at < armed) {
            slot.armed = Some(at);
            self.schedule.push(at, Happening::Host(h));
        }
    }

    fn arm_pipe(&mut self, p: usize) {
        let slot = &mut self.pipes[p];
        let Some(at) = slot.pipe.deadline() else { return };
        let at = at.max(self.now);
        if slot.armed.is_none_or(|armed| at < armed) {
            slot.armed = Some(at);
            self.schedule.push(at, Happening::Pipe(p));
        }
    }

    /// The capture so far, as a file's bytes; ends the capture.
    pub fn take_capture(&mut self) -> Option<Vec<u8>> {
        self.capture.take().and_then(|c| c.writer.finish().ok())
    }

    /// The last `n` records of all flight recorders with their hosts, oldest first.
    #[must_use]
    pub fn last_records(&self, n: usize) -> Vec<(usize, Record)> {
        let mut all: Vec<(usize, Record)> = self
            .hosts
            .iter()
            .enumerate()
            .flat_map(|(h, host)| host.core().stack().trace().records().map(move |r| (h, *r)))
            .collect();
        all.sort_by_key(|(_, r)| r.at);
        all.split_off(all.len().saturating_sub(n))
    }
}

#[cfg(test)]
mod tests;
