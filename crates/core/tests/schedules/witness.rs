//! Who was let down and when: a queueing discipline that writes down each packet that comes to it, and the rule that says whether it
//! might (small queues, and the queue-aware limit).
use lowwater_core::base::{Cx, Duration, SocketId};
use lowwater_core::packet::{Owner, Packet};
use lowwater_core::qdisc::{Any, Dequeued, Gone, LinkFacts, PfifoFast, Qdisc, Stats};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};

/// IP bytes of two segments: what the queue-aware limit always lets stand.
const TWO_SEGMENTS: u64 = 2 * 1_500;
/// Charge of the largest packet: 64 KiB and what it pins beside that.
const PACKET_CHARGE_MAX: u64 = 66_400;

/// What happened to credit, in the order in which it did.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A packet came down, whose payload ends here and with so many IP bytes.
    Down { owner: Owner, end: u32, bytes: u64 },
    /// It is no longer below.
    Back { owner: Owner, bytes: u64 },
}

/// Linux's default discipline, watched.
#[derive(Debug)]
struct Watched {
    inner: PfifoFast,
    steps: Sender<Step>,
}

fn sequence_end(packet: &Packet) -> u32 {
    let head = packet.head.as_slice();
    let seq = u32::from_be_bytes([head[24], head[25], head[26], head[27]]);
    seq.wrapping_add(packet.payload.len() as u32)
}

impl Qdisc for Watched {
    fn name(&self) -> &'static str {
        "watched"
    }
    fn attach(&mut self, cx: &mut Cx<'_>, link: &LinkFacts) {
        self.inner.attach(cx, link);
    }
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet, gone: &mut Gone) {
        if let Some(owner) = packet.owner {
            let bytes = u64::from(packet.line_bytes());
            let _ = self.steps.send(Step::Down { owner, end: sequence_end(&packet), bytes });
        }
        let before = gone.packets.len();
        self.inner.enqueue(cx, packet, gone);
        assert_eq!(gone.packets.len(), before, "a thousand packets fit");
    }
    fn dequeue(&mut self, cx: &mut Cx<'_>, gone: &mut Gone) -> Dequeued {
        self.inner.dequeue(cx, gone)
    }
    fn take(&mut self) -> Option<Packet> {
        self.inner.take()
    }
    fn each(&self, f: &mut dyn FnMut(&Packet)) {
        self.inner.each(f);
    }
    fn stats(&self) -> &Stats {
        self.inner.stats()
    }
}

/// The device's side of the same account.
#[derive(Clone, Debug)]
pub(crate) struct Told(Sender<Step>);

impl Told {
    /// Credit comes back for a packet of so many IP bytes.
    pub(crate) fn back(&self, owner: Owner, bytes: u64) {
        let _ = self.0.send(Step::Back { owner, bytes });
    }
}

/// What limits a flow while the stack transmits: nothing of it changes on the way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) pacing_rate: u64,
    /// `tcp_limit_output_bytes`, unless it is paced and that has no cap.
    pub(crate) cap: u64,
    /// The queue-aware limit follows it: what stands below is its own, and the larger of its limits before and after.
    pub(crate) own_queue: Option<(u64, Option<u64>)>,
    /// What completions of its device are late by, where that limit follows it.
    pub(crate) late: Duration,
}

impl Facts {
    /// What may be below when a packet is let down (transmit-path.md, "Small queues").
    fn limit(&self, charge: u64, retransmission: bool) -> u64 {
        // With a queue of its own its packets are smaller than those that small queues reckon with.
        let charge = if self.own_queue.is_some() { charge.max(PACKET_CHARGE_MAX) } else { charge };
        let late = u128::from(self.pacing_rate) * self.late.as_nanos() / 1_000_000;
        let pacing_rate = self.pacing_rate.saturating_add(late as u64);
        (pacing_rate >> 10).max(2 * charge).min(self.cap) << u32::from(retransmission)
    }
}

#[derive(Debug, Default)]
struct Below {
    charge: u64,
    bytes: u64,
    /// End of what it has sent.
    nxt: Option<u32>,
}

/// What one round of transmission let down.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) admitted: u64,
    /// Packets beyond small queues' limit: new ones, and those that were sent before.
    pub(crate) beyond: [Vec<String>; 2],
    /// Packets beyond the queue-aware limit, and how often that was looked at.
    pub(crate) beyond_own: Vec<String>,
    pub(crate) own: u64,
}

/// Keeps the account of every flow.
#[derive(Debug)]
pub(crate) struct Witness {
    steps: Receiver<Step>,
    told: Told,
    flows: BTreeMap<SocketId, Below>,
}

impl Witness {
    /// The account, and the discipline to put before the device.
    pub(crate) fn new() -> (Self, Any) {
        let (sender, steps) = channel();
        let qdisc = Any::Custom(Box::new(Watched { inner: PfifoFast::default(), steps: sender.clone() }));
        (Self { steps, told: Told(sender), flows: BTreeMap::new() }, qdisc)
    }

    pub(crate) fn told(&self) -> Told {
        self.told.clone()
    }

    /// Charge of a flow below the transport.
    pub(crate) fn charge(&self, id: SocketId) -> u64 {
        self.flows.get(&id).map_or(0, |flow| flow.charge)
    }

    /// Goes through what has happened since; `facts` of a flow say what it was held to.
    pub(crate) fn round(&mut self, facts: &dyn Fn(SocketId) -> Option<Facts>) -> Round {
        let mut round = Round::default();
        while let Ok(step) = self.steps.try_recv() {
            match step {
                Step::Back { owner, bytes } => {
                    let flow = self.flows.entry(owner.flow.socket).or_default();
                    flow.charge -= u64::from(owner.charge);
                    flow.bytes -= bytes;
                }
                Step::Down { owner, end, bytes } => {
                    let flow = self.flows.entry(owner.flow.socket).or_default();
                    if let Some(facts) = facts(owner.flow.socket) {
                        flow.judge(&facts, u64::from(owner.charge), end, bytes, &mut round);
                    }
                    flow.charge += u64::from(owner.charge);
                    flow.bytes += bytes;
                    flow.nxt = Some(flow.nxt.filter(|nxt| !after(end, *nxt)).unwrap_or(end));
                }
            }
        }
        round
    }
}

const fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl Below {
    fn judge(&self, facts: &Facts, charge: u64, end: u32, bytes: u64, round: &mut Round) {
        let again = self.nxt.is_some_and(|nxt| !after(end, nxt));
        round.admitted += 1;
        let limit = facts.limit(charge, again);
        if self.charge > limit {
            let said = format!("{charge} on {} below with a limit of {limit}, {facts:?}", self.charge);
            round.beyond[usize::from(again)].push(said);
        }
        let Some((standing, Some(limit))) = facts.own_queue else { return };
        // What went down before the limit was switched on is nobody's.
        if standing == self.bytes && !again {
            round.own += 1;
            if self.bytes > 0 && self.bytes + bytes > limit.max(TWO_SEGMENTS) {
                let said = format!("{bytes} on {} with a limit of {limit}", self.bytes);
                round.beyond_own.push(said);
            }
        }
    }
}
