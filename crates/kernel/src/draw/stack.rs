//! The stack in virtual time, behind the device that the kernel gets.
use super::pace::{Timed, most_late, usual_delay};
use bytes::Bytes;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use lowwater_core::base::trace::{Ev, Record};
use lowwater_core::base::{Duration, Instant};
use lowwater_core::device::DeviceCaps;
use lowwater_drill::{ORIGIN, Steps, Target, World};
use lowwater_posix::{Call, CallId, Host, Reply, Sent, Settings, Started};

/// What is tested.
pub(super) const LOCAL: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
/// Its peer.
pub(super) const REMOTE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The same over IPv6.
pub(super) const LOCAL_V6: Ipv6Addr = Ipv6Addr::new(0xfd3d, 0xa0b, 0x17d6, 0, 0, 0, 0, 1);
pub(super) const REMOTE_V6: Ipv6Addr = Ipv6Addr::new(0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, 1);
/// What the stack reserves for headers, and the usual kernel.
pub(super) const HEADERS: u32 = 320;
const PREFIX: u8 = 16;
const PREFIX_V6: u8 = 48;
const MTU: u16 = 1_500;
/// By so many nanoseconds a deadline may be told differently: to a microsecond.
const ROUNDED: u64 = 1_000;

/// Where a drawn connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Over IPv6.
    pub(super) v6: bool,
    /// MTU of the device.
    pub(super) mtu: u16,
    /// What the kernel reserves for headers (`MAX_TCP_HEADER`).
    pub(super) headers: u32,
}

impl Default for Place {
    fn default() -> Self {
        Self { v6: false, mtu: MTU, headers: HEADERS }
    }
}

impl Place {
    pub(super) const fn world(self) -> World {
        let (local, remote) = self.ends();
        let prefix = if self.v6 { PREFIX_V6 } else { PREFIX };
        World { local, prefix, remote, mtu: self.mtu, joined: 0, special_device: false }
    }

    /// What is tested, and its peer.
    pub(super) const fn ends(self) -> (IpAddr, IpAddr) {
        match self.v6 {
            true => (IpAddr::V6(LOCAL_V6), IpAddr::V6(REMOTE_V6)),
            false => (IpAddr::V4(LOCAL), IpAddr::V4(REMOTE)),
        }
    }

    /// Bytes behind the headers of a packet that fills the device.
    pub(super) fn payload(self) -> u32 {
        u32::from(self.mtu) - if self.v6 { 60 } else { 40 }
    }
}

/// A host in virtual time.
pub(super) struct Stack(Steps);

impl Stack {
    /// The usual one, which reserves so much for headers.
    pub(super) fn new(headers: u32) -> Result<Self, String> {
        Self::starting(ORIGIN, headers)
    }

    /// The same elsewhere.
    pub(super) fn at(place: Place) -> Result<Self, String> {
        Self::made(place, ORIGIN)
    }

    /// The same with another time of its clock at the beginning.
    pub(super) fn starting(start: Instant, headers: u32) -> Result<Self, String> {
        Self::made(Place { headers, ..Place::default() }, start)
    }

    fn made(place: Place, start: Instant) -> Result<Self, String> {
        let world = place.world();
        let any = if place.v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let settings = Settings {
            caps: DeviceCaps::plain(place.mtu),
            addresses: vec![(world.local, world.prefix)],
            routes: vec![(any, 0, None)],
            start,
            ..Settings::default()
        };
        let mut host = Host::new(settings).map_err(|e| format!("the stack: {e}"))?;
        host.set_sysctl("max_tcp_header", &place.headers.to_string())?;
        host.stack().set_trace(true);
        Ok(Self(Steps::new(host)))
    }

    /// When its next timer is due.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.0.next_deadline()
    }

    /// Data that the last event made leave, packet by packet: number and length.
    pub(super) fn outs(&mut self) -> Vec<(u32, u32)> {
        let now = self.0.now();
        let out = |record: &Record| match record.event {
            Ev::Out(seq, len, _) if len > 0 && record.at >= now => Some((seq, len)),
            _ => None,
        };
        self.0.trace(usize::MAX).iter().filter_map(out).collect()
    }

    /// [`lowwater_posix::Host::set_pauses`].
    pub(super) fn set_pauses(&mut self, pauses: Vec<Duration>) {
        self.0.host().set_pauses(pauses);
    }

    /// Moves time to `at`, when a timer of another run made something leave after a step at `step`: what is due before that by no more than a
    /// timer of the kernel's can be late is as late. That grows with the time since it was set, which may have been long before the step.
    pub(super) fn follow(&mut self, at: Instant, step: Instant) {
        while let Some(due) = self.0.next_deadline().filter(|due| *due < at) {
            let set = set_at(&self.0.trace(usize::MAX), due).unwrap_or(step);
            if due.plus_nanos(most_late(at.nanos_since(set) / 1_000) * 1_000) >= at {
                break;
            }
            self.0.advance_until(due);
        }
        // Not everything that leaves is a timer's, and what has left already is no reason to wait.
        match self.0.next_deadline().is_some_and(|due| due < at) {
            true => self.0.oversleep(at),
            false => self.0.advance_until(at),
        }
    }

    /// Moves time on towards `end`, with timers that are late as the kernel's are.
    pub(super) fn drowse(&mut self, end: Instant) {
        while let Some(due) = self.0.next_deadline().filter(|due| *due < end) {
            let late = usual_delay(due.nanos_since(self.0.now()) / 1_000);
            self.0.oversleep(due.plus_nanos(late * 1_000).min(end));
        }
    }
}

impl Target for Stack {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn call(&mut self, call: Call) -> Started {
        self.0.call(call)
    }

    fn take(&mut self, id: CallId) -> Option<(Instant, Reply)> {
        self.0.take(id)
    }

    fn inject(&mut self, packet: Bytes) {
        self.0.inject(packet);
    }

    fn advance_until(&mut self, t: Instant) {
        self.0.advance_until(t);
    }

    fn next_packet(&mut self, limit: Instant) -> Option<Sent> {
        self.0.next_packet(limit)
    }

    fn set_sysctl(&mut self, name: &str, value: &str) -> Result<(), String> {
        self.0.host().set_sysctl(name, value)
    }

    fn early_info(&mut self, _: SocketAddr, _: SocketAddr) -> Option<Vec<u8>> {
        None
    }

    fn counters(&mut self) -> Result<Vec<(String, u64)>, String> {
        let mut all = Vec::new();
        self.0.host().stack().counters().each_of_linux(&mut |group, name, value| {
            all.push((format!("{group}{name}"), value));
        });
        Ok(all)
    }

    fn trace(&mut self, max: usize) -> Vec<Record> {
        self.0.trace(max)
    }
}

/// Notes for how long the timers had been set that made these leave; times are counted from `base`. A target without a flight recorder
/// tells nothing.
pub(super) fn note_waits<O: Timed>(target: &mut impl Target, base: Instant, outs: &mut [O]) {
    if outs.is_empty() {
        return;
    }
    let records = target.trace(usize::MAX);
    for out in outs {
        let due = base + Duration::from_micros(out.at());
        out.note(set_at(&records, due).map(|set| due.nanos_since(set) / 1_000));
    }
}

/// When the transmission timer was set that was due then, as far as a flight recorder remembers.
pub(super) fn set_at(records: &[Record], due: Instant) -> Option<Instant> {
    let is_due = |record: &Record| matches!(record.event, Ev::Timer(_, at) if due.nanos_since(at).max(at.nanos_since(due)) <= ROUNDED);
    records.iter().rfind(|record| is_due(record)).map(|record| record.at)
}
