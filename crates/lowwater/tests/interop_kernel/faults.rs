//! A device that loses, repeats, swaps, delays, damages and refuses packets in both directions, from a seed.
use bytes::BytesMut;
use lowwater::core::base::{Instant, Rng};
use lowwater::core::device::{Device, DeviceCaps, Submit};
use lowwater::core::packet::{Csum, Head, Owner, Packet};
use lowwater::port::Port;
use lowwater_os::{Interest, Poller};
use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A packet that is held back follows the next ones after this long at the latest.
const HELD_AT_MOST: Duration = Duration::from_millis(2);
/// Packets in flight in one direction; more are lost, as in a router.
const LANE_PACKETS: usize = 20_000;

/// What happens to packets, in each direction; probabilities in parts per million.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Faults {
    pub(crate) loss: u32,
    /// Held back until `reorder_by` more have passed.
    pub(crate) reorder: u32,
    pub(crate) reorder_by: u32,
    pub(crate) duplicate: u32,
    /// One bit behind the IP header is flipped, where the checksum is complete.
    pub(crate) corrupt: u32,
    /// The device refuses for now.
    pub(crate) not_now: u32,
    /// One way.
    pub(crate) delay: Duration,
    /// Credit comes back by `completions`, this long after the packet was taken.
    pub(crate) late_completion: Option<Duration>,
}

/// What a test sees and changes while the device works.
#[derive(Default)]
pub(crate) struct Control {
    faults: Mutex<Faults>,
    /// Loses everything.
    pub(crate) blackhole: AtomicBool,
    pub(crate) lost: AtomicU64,
    pub(crate) corrupted: AtomicU64,
}

impl Control {
    pub(crate) fn set(&self, faults: Faults) {
        *self.faults.lock().unwrap() = faults;
    }
}

/// One direction.
struct Lane {
    rng: Rng,
    /// In order of their time.
    queue: VecDeque<(Instant, Packet)>,
    held: Option<(u32, Instant, Packet)>,
}

impl Lane {
    fn new(rng: Rng) -> Self {
        Self { rng, queue: VecDeque::new(), held: None }
    }

    fn enter(&mut self, now: Instant, mut packet: Packet, faults: &Faults, control: &Control) {
        if control.blackhole.load(Relaxed)
            || self.rng.chance_ppm(faults.loss)
            || self.queue.len() >= LANE_PACKETS
        {
            control.lost.fetch_add(1, Relaxed);
            return;
        }
        if self.rng.chance_ppm(faults.corrupt) && flip(&mut packet, &mut self.rng) {
            control.corrupted.fetch_add(1, Relaxed);
        }
        let due = now + faults.delay;
        if self.held.is_none() && self.rng.chance_ppm(faults.reorder) {
            self.held = Some((faults.reorder_by, due + HELD_AT_MOST, packet));
            return;
        }
        if self.rng.chance_ppm(faults.duplicate) {
            self.queue.push_back((due, packet.clone()));
        }
        self.queue.push_back((due, packet));
        if let Some((more, _, _)) = &mut self.held {
            *more = more.saturating_sub(1);
            if *more == 0 {
                self.release(due);
            }
        }
    }

    fn release(&mut self, due: Instant) {
        if let Some((_, _, packet)) = self.held.take() {
            self.queue.push_back((due, packet));
        }
    }

    /// The next packet that has arrived.
    fn leave(&mut self, now: Instant) -> Option<Packet> {
        if self.held.as_ref().is_some_and(|(_, latest, _)| *latest <= now) {
            self.release(now);
        }
        if self.queue.front()?.0 > now {
            return None;
        }
        self.queue.pop_front().map(|(_, packet)| packet)
    }

    fn next_due(&self) -> Option<Instant> {
        let first = self.queue.front().map(|(due, _)| *due);
        first.into_iter().chain(self.held.as_ref().map(|(_, latest, _)| *latest)).min()
    }
}

/// Flips a bit of transport header or payload; false where nobody would verify a checksum.
fn flip(packet: &mut Packet, rng: &mut Rng) -> bool {
    if packet.offload.csum != Csum::None || packet.offload.gso_size > 0 {
        return false;
    }
    let mut bytes = BytesMut::from(&packet.to_bytes()[..]);
    let header = if bytes[0] >> 4 == 4 { 4 * usize::from(bytes[0] & 15) } else { 40 };
    let at = header + rng.below((bytes.len() - header) as u64) as usize;
    bytes[at] ^= 1 << rng.below(8);
    packet.head = Head::new();
    packet.payload = bytes.freeze();
    true
}

/// The device `P` behind a bad line.
pub(crate) struct Faulty<P> {
    port: P,
    control: Arc<Control>,
    rng: Rng,
    out: Lane,
    into: Lane,
    refused: Option<Packet>,
    done: VecDeque<(Instant, Owner)>,
    timer: OwnedFd,
    arrived: Vec<Packet>,
    now: Instant,
}

impl<P: Port> Faulty<P> {
    pub(crate) fn new(port: P, seed: u64, control: Arc<Control>) -> io::Result<Self> {
        let rng = Rng::new(seed);
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let (out, into) = (Lane::new(rng.fork("out")), Lane::new(rng.fork("in")));
        let (done, arrived) = (VecDeque::new(), Vec::new());
        Ok(Self { port, control, rng, out, into, refused: None, done, timer, arrived, now: Instant::ZERO })
    }

    fn faults(&self) -> Faults {
        *self.control.faults.lock().unwrap()
    }

    /// What has crossed the line goes to the device underneath.
    fn deliver(&mut self, now: Instant) {
        while let Some(packet) = self.refused.take().or_else(|| self.out.leave(now)) {
            match self.port.submit(now, packet) {
                Submit::NotNow(packet) => {
                    self.refused = Some(packet);
                    break;
                }
                Submit::Dropped => {
                    self.control.lost.fetch_add(1, Relaxed);
                }
                Submit::Sent | Submit::Filled | Submit::Completed => {}
            }
        }
        self.port.flush();
    }

    /// Wakes the stack's thread when the next packet or completion is due.
    fn arm(&self, now: Instant) {
        let retry = self.refused.as_ref().map(|_| now + Duration::from_micros(100));
        let done = self.done.front().map(|(due, _)| *due);
        let due = [self.out.next_due(), self.into.next_due(), retry, done].into_iter().flatten().min();
        // Zero would switch the timer off.
        let after = due.map_or(Duration::ZERO, |due| due.since(now).max(Duration::from_nanos(1)));
        let it_value = Timespec { tv_sec: after.as_secs() as i64, tv_nsec: i64::from(after.subsec_nanos()) };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval, it_value })
            .expect("a timer");
    }
}

impl<P: Port> Device for Faulty<P> {
    fn submit(&mut self, now: Instant, mut packet: Packet) -> Submit {
        let faults = self.faults();
        if self.rng.chance_ppm(faults.not_now) {
            return Submit::NotNow(packet);
        }
        let owner = packet.owner.take();
        self.out.enter(now, packet, &faults, &self.control);
        self.deliver(now);
        self.now = now;
        match (faults.late_completion, owner) {
            (Some(after), Some(owner)) => {
                self.done.push_back((now + after, owner));
                Submit::Sent
            }
            _ => Submit::Completed,
        }
    }
}

impl<P: Port> Port for Faulty<P> {
    fn caps(&self) -> DeviceCaps {
        self.port.caps()
    }

    fn recv(&mut self, at: Instant, max: usize, into: &mut Vec<Packet>) -> io::Result<bool> {
        let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        let faults = self.faults();
        let more = self.port.recv(at, max, &mut self.arrived)?;
        for packet in self.arrived.drain(..) {
            self.into.enter(at, packet, &faults, &self.control);
        }
        while let Some(packet) = self.into.leave(at) {
            into.push(Packet { at, ..packet });
        }
        self.deliver(at);
        self.arm(at);
        self.now = at;
        Ok(more)
    }

    fn completions(&mut self, into: &mut Vec<Owner>) {
        while let Some(&(due, owner)) = self.done.front()
            && due <= self.now
        {
            self.done.pop_front();
            into.push(owner);
        }
    }

    fn flush(&mut self) {
        self.port.flush();
        self.arm(self.now);
    }

    fn attach(&mut self, poller: &Poller, token: u64) -> io::Result<()> {
        self.port.attach(poller, token)?;
        // The driver asks every device after every wait, so the token need not differ.
        poller.add(&self.timer, token, Interest::Read)
    }

    fn retry_after(&self) -> Option<Duration> {
        Some(Duration::from_micros(20))
    }
}
