//! A router's output queue by any of the core's own queueing disciplines, in front of a line of finite rate.
use super::{Effects, Stage, serialisation_ns};
use crate::edit::wire_size;
use lowwater_core::base::trace::Trace;
use lowwater_core::base::{Counters, Cx, Instant, Pool, Pressure, Rng, Sysctl};
use lowwater_core::packet::Packet;
use lowwater_core::qdisc::{Any, Dequeued, Fate, Gone, LinkFacts, Qdisc as _};

/// A queueing discipline and what it stands before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QdiscSpec {
    /// Its name and options in the words of `tc`.
    pub words: String,
    /// The line's rate in bits per second; 0 is unlimited.
    pub rate: u64,
    /// The link's MTU, of which a discipline makes a quantum, a burst or what it never drops. It lets pass what is larger.
    pub mtu: u16,
}

/// What the core's layers are given, here for one queue.
struct Surroundings {
    rng: Rng,
    sysctl: Sysctl,
    count: Counters,
    trace: Trace,
    pool: Pool,
}

impl Surroundings {
    fn cx(&mut self, now: Instant) -> Cx<'_> {
        Cx {
            now,
            rng: &mut self.rng,
            sysctl: &self.sysctl,
            count: &mut self.count,
            trace: &mut self.trace,
            pool: &mut self.pool,
            pressure: Pressure::Low,
            share: u64::MAX,
            orphans: 0,
            socket: None,
        }
    }
}

/// The queue and its line.
pub struct Discipline {
    qdisc: Any,
    around: Surroundings,
    gone: Gone,
    rate: u64,
    /// What is on the line, and when its last bit has left.
    line: Option<(Instant, Packet)>,
    /// When the line was last known to be free.
    free_at: Instant,
    not_before: Option<Instant>,
}

impl Discipline {
    /// The queue and the line of a link.
    ///
    /// # Errors
    /// The sentence about a wrong word.
    pub fn new(spec: &QdiscSpec, rng: Rng) -> Result<Self, String> {
        let mut qdisc: Any = spec.words.parse()?;
        let mut around = Surroundings {
            rng,
            sysctl: Sysctl::default(),
            count: Counters::default(),
            trace: Trace::default(),
            pool: Pool::default(),
        };
        qdisc.attach(&mut around.cx(Instant::ZERO), &LinkFacts::ip(spec.mtu));
        let (line, free_at, not_before) = (None, Instant::ZERO, None);
        Ok(Self { qdisc, around, gone: Gone::default(), rate: spec.rate, line, free_at, not_before })
    }

    fn account(&mut self, effects: &mut Effects) {
        for (_, fate) in self.gone.packets.drain(..) {
            match fate {
                Fate::Lost => effects.counts.lost += 1,
                Fate::Refused | Fate::Dropped => effects.counts.queue_full += 1,
            }
        }
        self.gone.released.clear();
    }

    /// Puts the next packet on a line that has been free since `at`.
    fn load(&mut self, at: Instant, effects: &mut Effects) {
        self.not_before = None;
        match self.qdisc.dequeue(&mut self.around.cx(at), &mut self.gone) {
            Dequeued::Packet(packet) => {
                let (_, wire) = wire_size(&packet);
                self.line = Some((at.plus_nanos(serialisation_ns(u64::from(wire), self.rate)), packet));
            }
            Dequeued::NotBefore(at) => self.not_before = Some(at),
            Dequeued::Empty => {}
        }
        self.account(effects);
    }
}

impl Stage for Discipline {
    fn accept(&mut self, now: Instant, packet: Packet, effects: &mut Effects) {
        let before = self.qdisc.stats().qlen;
        // Departure times were the sender's concern.
        // What a socket asks for stays on its host.
        let packet = Packet { at: now, priority: None, ..packet };
        self.qdisc.enqueue(&mut self.around.cx(now), packet, &mut self.gone);
        let after = self.qdisc.stats().qlen + self.gone.packets.len() as u64;
        let more = (after - before).saturating_sub(1);
        if self.qdisc.name() == "netem" {
            effects.counts.duplicated += more;
        } else {
            effects.counts.split += more;
        }
        self.account(effects);
        if self.line.is_none() {
            self.load(self.free_at.max(now), effects);
        }
    }

    fn release(&mut self, now: Instant, effects: &mut Effects) -> Option<Packet> {
        if self.line.is_none() && self.not_before.is_some_and(|at| at <= now) {
            self.load(now, effects);
        }
        let (done, packet) = self.line.take_if(|(done, _)| *done <= now)?;
        self.free_at = done;
        self.load(done, effects);
        Some(packet)
    }

    fn deadline(&self) -> Option<Instant> {
        self.line.as_ref().map(|(done, _)| *done).or(self.not_before)
    }

    fn held(&self) -> u64 {
        self.qdisc.stats().qlen + u64::from(self.line.is_some())
    }

    fn heal(&mut self) {
        if let Any::Netem(netem) = &mut self.qdisc {
            netem.heal();
        }
    }

    fn backlog_bytes(&self) -> Option<u64> {
        Some(self.qdisc.stats().backlog + self.line.as_ref().map_or(0, |(_, p)| u64::from(wire_size(p).1)))
    }
}
