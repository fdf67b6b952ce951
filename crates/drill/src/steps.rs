//! A host in virtual time on which no two events share an instant.
//!
//! A script says `+0` of what follows at once. On a kernel it follows some microseconds later, and RACK tells by that what was
//! sent first (`tcp_rack_detect_loss`). So each call and each packet is a nanosecond later than the script has it. The script's
//! clock leaves those out, by what it is ahead when it is read: a packet that was sent some events before seems as many nanoseconds
//! earlier, so its time is told to the nearest microsecond.
use bytes::Bytes;
use lowwater_core::base::Instant;
use lowwater_core::base::trace::{Ev, Record};
use lowwater_posix::{Call, CallId, Host, Privileges, Reply, Sent, Started};

/// Time between two events of one instant.
const STEP_NS: u64 = 1;

/// The host, and how far its clock is ahead of the script's.
#[derive(Debug)]
pub struct Steps {
    host: Host,
    ahead_ns: u64,
}

impl Steps {
    /// A host that nothing has happened to.
    #[must_use]
    pub const fn new(host: Host) -> Self {
        Self { host, ahead_ns: 0 }
    }

    /// What happens without an event, and what is only looked at.
    pub const fn host(&mut self) -> &mut Host {
        &mut self.host
    }

    /// The script's time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.script(self.host.now())
    }

    fn script(&self, at: Instant) -> Instant {
        Instant::from_nanos(at.as_nanos().saturating_sub(self.ahead_ns))
    }

    fn step(&mut self) {
        self.ahead_ns += STEP_NS;
        self.host.advance_until(self.host.now().plus_nanos(STEP_NS));
    }

    /// The last records of the flight recorder, at most `max`, in the script's time. Those from before the last events seem as many steps
    /// earlier than they were, which no microsecond shows.
    pub fn trace(&mut self, max: usize) -> Vec<Record> {
        let records: Vec<_> = self.host.stack().trace().records().copied().collect();
        let last = records.get(records.len().saturating_sub(max)..).unwrap_or_default();
        let told = |record: &Record| {
            let event = match record.event {
                Ev::Timer(name, due) => Ev::Timer(name, self.script(due)),
                event => event,
            };
            Record { at: self.script(record.at), event, ..*record }
        };
        last.iter().map(told).collect()
    }

    /// [`Host::call`].
    pub fn call(&mut self, call: Call) -> Started {
        self.call_as(Privileges::ALL, call)
    }

    /// [`Host::call_as`].
    pub fn call_as(&mut self, who: Privileges, call: Call) -> Started {
        self.step();
        self.host.call_as(who, call)
    }

    /// [`Host::inject`].
    pub fn inject(&mut self, packet: Bytes) {
        self.step();
        self.host.inject(packet);
    }

    /// [`Host::complete`].
    pub fn complete(&mut self, count: usize) -> usize {
        self.step();
        self.host.complete(count)
    }

    /// [`Host::take`].
    pub fn take(&mut self, id: CallId) -> Option<(Instant, Reply)> {
        let (at, reply) = self.host.take(id)?;
        Some((self.script(at), reply))
    }

    /// [`Host::advance_until`].
    pub fn advance_until(&mut self, t: Instant) {
        self.host.advance_until(t.plus_nanos(self.ahead_ns));
    }

    /// [`Host::oversleep`].
    pub fn oversleep(&mut self, t: Instant) {
        self.host.oversleep(t.plus_nanos(self.ahead_ns));
    }

    /// [`Host::next_packet`].
    pub fn next_packet(&mut self, limit: Instant) -> Option<Sent> {
        let sent = self.host.next_packet(limit.plus_nanos(self.ahead_ns))?;
        Some(Sent { at: self.script(sent.at), departs_at: self.script(sent.departs_at), ..sent })
    }

    /// [`Host::next_deadline`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.host.next_deadline().map(|at| self.script(at))
    }
}
