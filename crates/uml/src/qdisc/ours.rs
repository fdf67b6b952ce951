//! Our half: the same frames at the guest's times through our discipline, in front of a device that takes everything at once.
use super::{Case, Outcome, frames};
use lowwater_core::base::trace::Trace;
use lowwater_core::base::{Counters, Cx, Instant, Pool, Pressure, Rng, Sysctl};
use lowwater_core::packet::Packet;
use lowwater_core::qdisc::{Any, Dequeued, Gone, LinkFacts, Qdisc as _, Report, Value};
use std::collections::BTreeMap;

/// What a discipline is given.
struct Run {
    q: Any,
    rng: Rng,
    sysctl: Sysctl,
    count: Counters,
    trace: Trace,
    pool: Pool,
    out: Outcome,
    wakes_at: Option<Instant>,
}

/// Times begin here, so that there is a time before.
const START: Instant = Instant::from_millis(1_000);

/// The frames through the discipline inside of a bucket, which is asked for the next one whenever one left the guest's: whatever the
/// guest's clock did, both decide at the same times.
pub(super) fn follow(case: &Case, linux: &Outcome) -> Result<Outcome, String> {
    let inside = case.words.split_once(" child ").map_or(case.words, |(_, inside)| inside);
    let mut run = Run::new(inside, &linux.handed_ns)?;
    let load = (case.load)();
    let mut frames = load.iter().zip(&linux.handed_ns).peekable();
    let mut head = None;
    for (at, _) in &linux.left {
        while let Some((frame, ns)) = frames.next_if(|(_, ns)| *ns <= at) {
            let now = START.plus_nanos(*ns);
            run.with(now, |q, cx, gone| q.enqueue(cx, frames::packet(frame, now), gone));
            head = head.or_else(|| run.next(now));
        }
        let now = START.plus_nanos(*at);
        run.out.left.extend(head.take().and_then(|p: Packet| Some((*at, frames::left(&p.to_bytes())?))));
        head = run.next(now);
    }
    run.out.left.extend(head.and_then(|p| Some((0, frames::left(&p.to_bytes())?))));
    Ok(run.out)
}

pub(super) fn run(case: &Case, handed_ns: &[u64]) -> Result<Outcome, String> {
    let mut run = Run::new(case.words, handed_ns)?;
    for (frame, ns) in (case.load)().iter().zip(handed_ns) {
        let now = START.plus_nanos(*ns);
        run.drain(Some(now));
        let packet = frames::packet(frame, now.plus_nanos(frame.depart_us * 1_000));
        run.with(now, |q, cx, gone| q.enqueue(cx, packet, gone));
        run.empty(now);
    }
    run.drain(None);
    run.out.counts = counts(&run.q.report());
    Ok(run.out)
}

impl Run {
    fn new(words: &str, handed_ns: &[u64]) -> Result<Self, String> {
        let mut run = Self {
            q: words.parse()?,
            rng: Rng::new(1),
            sysctl: Sysctl::default(),
            count: Counters::default(),
            trace: Trace::default(),
            pool: Pool::default(),
            out: Outcome { handed_ns: handed_ns.to_vec(), ..Outcome::default() },
            wakes_at: None,
        };
        let link = LinkFacts { link_len: lowwater_wire::ether::HEADER_LEN, ..LinkFacts::ip(1_500) };
        // The guest's disciplines are there some time before the first frame.
        run.with(Instant::from_millis(900), |q, cx, _| q.attach(cx, &link));
        Ok(run)
    }

    fn next(&mut self, now: Instant) -> Option<Packet> {
        match self.with(now, |q, cx, gone| q.dequeue(cx, gone)) {
            Dequeued::Packet(packet) => Some(packet),
            _ => None,
        }
    }

    fn with<T>(&mut self, now: Instant, f: impl FnOnce(&mut Any, &mut Cx<'_>, &mut Gone) -> T) -> T {
        let mut cx = Cx {
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
        };
        f(&mut self.q, &mut cx, &mut Gone::default())
    }

    /// All that may leave now.
    fn empty(&mut self, now: Instant) {
        self.wakes_at = loop {
            match self.with(now, |q, cx, gone| q.dequeue(cx, gone)) {
                Dequeued::Packet(packet) => {
                    let left = frames::left(&packet.to_bytes());
                    self.out.left.extend(left.map(|left| (now.nanos_since(START), left)));
                }
                Dequeued::NotBefore(at) => break Some(at),
                Dequeued::Empty => break None,
            }
        };
    }

    /// All that leaves before `end`, or ever.
    fn drain(&mut self, end: Option<Instant>) {
        while let Some(at) = self.wakes_at.filter(|at| end.is_none_or(|end| *at < end)) {
            self.empty(at);
        }
    }
}

/// The counts of a discipline and of what is inside of it.
fn counts(report: &Report) -> Vec<BTreeMap<String, u64>> {
    let s = &report.stats;
    let common = [
        ("bytes", s.bytes),
        ("packets", s.packets),
        ("drops", s.drops),
        ("overlimits", s.overlimits),
        ("requeues", s.requeues),
        ("backlog", s.backlog),
        ("qlen", s.qlen),
    ];
    let mut all: BTreeMap<String, u64> = common.map(|(name, n)| (name.to_owned(), n)).into();
    all.extend(report.details.iter().filter_map(|field| match field.value {
        Value::Count(n) | Value::Packets(n) | Value::Bytes(n) | Value::Time(n) => {
            Some((field.name.to_owned(), n))
        }
        _ => None,
    }));
    let mut counts = vec![all];
    // `tc` has the same name for flows that wait and for how often they did; the latter is what its JSON ends with.
    if let Some(n) = counts[0].get("throttled_pkts").copied() {
        counts[0].insert("throttled".into(), n);
    }
    counts.extend(report.children.iter().flat_map(self::counts));
    counts
}
