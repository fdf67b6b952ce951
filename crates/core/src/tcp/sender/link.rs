//! The sender against a receiver over a link that loses, reorders and duplicates, above a queue that refuses and a driver whose rounds
//! of sending are interrupted: everything arrives, timers end it, and a reduction lets no more go than was delivered.
use super::*;
use crate::base::Rng;
use crate::base::testing::World;
use crate::base::time::Duration;
use crate::path::pmtu::Pmtu;
use crate::ranges::RangeSet;
use crate::tcp::below::Departure;
use crate::tcp::recovery::rto::Timeout;
use crate::tcp::tx_queue::Sent;
use std::collections::BTreeMap;

const MSS: u16 = 1_000;
const ISS: Seq = Seq(u32::MAX - 100_000);
/// No world of these tests needs longer.
const TIME_MAX: Instant = Instant::from_millis(3_600_000);

/// How bad the link is.
#[derive(Clone, Copy, Debug)]
struct Weather {
    loss_ppm: u32,
    ack_loss_ppm: u32,
    dup_ppm: u32,
    jitter_us: u64,
    sack: bool,
    timestamps: bool,
    whole: usize,
    /// Chances that a round ends behind a packet, or before what a timer asks for, and goes on later; and that the queue below has no room.
    pause_ppm: u32,
    refuse_ppm: u32,
}

#[derive(Debug)]
enum Event {
    Data {
        from: u64,
        to: u64,
        ts: u32,
    },
    Ack {
        ack: u64,
        blocks: Vec<(u64, u64)>,
        tsecr: u32,
    },
    /// The flow has its turn again.
    Turn,
}

/// What a timer has asked for and what has not had its turn.
#[derive(Debug)]
enum Due {
    Timeout(Resend),
    Probe(Probe),
}

/// When a record had left, by its start.
type Earlier = (u64, Option<Departure>);

/// A reduction of the window, from the first acknowledgement in it that delivered something: before, the window is the old one.
#[derive(Clone, Copy, Debug)]
struct Reduction {
    /// Where its round ends (`high_seq`).
    end: u64,
    /// Segments that have left in it.
    sent: u32,
    /// Acknowledgements that let one more go each.
    acks: u32,
}

struct Net {
    world: World,
    path: Path,
    s: Sender,
    rng: Rng,
    now: Instant,
    order: u64,
    events: BTreeMap<(Instant, u64), Event>,
    got: RangeSet,
    rcv_nxt: u64,
    total: u64,
    weather: Weather,
    /// What the round that was interrupted was to send, and has sent.
    rexmit: Rexmit,
    segs: u32,
    due: Option<Due>,
    /// The one that goes on, where nothing was undone in it, and the undone ones that are known.
    reduction: Option<Reduction>,
    undone: u64,
}

impl Net {
    fn new(seed: u64, total: u64, weather: Weather) -> Self {
        let mut world = World::new();
        let path = Path::new(&world.cx(Instant::ZERO), Pmtu::new(1_500, false));
        let mut s = Sender::established(world.sysctl.tcp_reordering, ISS, MSS);
        s.set_sack(weather.sack);
        s.note_window(1 << 20);
        let data = vec![1; total as usize];
        let mut rest = &data[..];
        while !rest.is_empty() {
            rest = &rest[s.queue().unsent.begin_element(
                &mut crate::base::Pool::default(),
                rest,
                rest.len(),
                60_000,
            )..];
        }
        s.queue().unsent.queue_fin();
        Self {
            world,
            path,
            s,
            rng: Rng::new(seed),
            now: Instant::from_millis(1),
            order: 0,
            events: BTreeMap::new(),
            got: RangeSet::new(),
            rcv_nxt: 1,
            total: total + 2,
            weather,
            rexmit: Rexmit::None,
            segs: 0,
            due: None,
            reduction: None,
            undone: 0,
        }
    }

    fn post(&mut self, event: Event) {
        let at = self.now + Duration::from_micros(10_000 + self.rng.below(self.weather.jitter_us + 1));
        self.order += 1;
        self.events.insert((at, self.order), event);
    }

    /// What was sent leaves in segments, each with its own fate.
    fn transmit(&mut self, plan: &SendPlan) {
        let offset = self.s.offset(plan.seq);
        let end = offset + plan.payload.len() as u64 + u64::from(plan.fin);
        let mut from = offset;
        while from < end {
            let mut to = (from + u64::from(plan.mss)).min(end);
            if end - to == u64::from(plan.fin) {
                to = end;
            }
            let ts = self.now.as_millis() as u32;
            for _ in 0..1 + u32::from(self.rng.chance_ppm(self.weather.dup_ppm)) {
                if !self.rng.chance_ppm(self.weather.loss_ppm) {
                    self.post(Event::Data { from, to, ts });
                }
            }
            from = to;
        }
    }

    /// What was committed leaves, or the queue refuses it; false when the round is over for now.
    fn leave(&mut self, plan: &SendPlan, before: Option<Earlier>) -> bool {
        let refused = plan.attempt.as_ref().filter(|_| self.rng.chance_ppm(self.weather.refuse_ppm));
        if let Some(attempt) = refused {
            let mut cx = self.world.cx(self.now);
            self.s.take_back(&mut cx, &mut self.path, attempt, true);
            self.s.enter_cwr(&mut cx, &mut self.path);
            let is = before.map(|(start, _)| (start, self.left(start)));
            assert_eq!(is, before, "what was in flight before left when it did");
            self.note_reduction(0);
        } else {
            self.transmit(plan);
            self.count_out(plan.segs);
        }
        let goes_on = refused.is_none() && !self.rng.chance_ppm(self.weather.pause_ppm);
        if !goes_on {
            self.post_turn();
        }
        goes_on
    }

    /// When the record at `start` left, or did again.
    fn left(&self, start: u64) -> Option<Departure> {
        self.s.flight().tx.get(start).map(Sent::departure)
    }

    /// RACK alone looks at it, which without SACK there is none of.
    fn before(&self, resend: &Resend) -> Option<Earlier> {
        self.weather.sack.then(|| (resend.start, self.left(resend.start)))
    }

    fn post_turn(&mut self) {
        let at = self.now + Duration::from_micros(self.rng.below(150_000));
        self.order += 1;
        self.events.insert((at, self.order), Event::Turn);
    }

    /// Who sends in a reduction has a delivery for each segment, and one more for each acknowledgement at the most (RFC 9937 section 6.2).
    fn count_out(&mut self, segs: u16) {
        let Some(reduction) = &mut self.reduction else { return };
        reduction.sent += u32::from(segs);
        let delivered = self.s.recovery.prr.delivered;
        let prr = &self.s.recovery.prr;
        assert!(
            reduction.sent <= delivered + reduction.acks + 1,
            "{reduction:?} {prr:?} {:?}: {:?}",
            self.path.window,
            self.s
        );
    }

    /// An acknowledgement (`acks`), or a packet that was refused, may have begun a reduction or ended one.
    fn note_reduction(&mut self, acks: u32) {
        let ext = &self.world.count.tcp_ext;
        let undone = ext.tcp_full_undo + ext.tcp_partial_undo + ext.tcp_loss_undo + ext.tcp_dsack_undo;
        let reduces = matches!(self.s.ca_state(), CaState::Cwr | CaState::Recovery);
        let old = self.reduction.take();
        let (end, prr) = (self.s.recovery.high_seq, &self.s.recovery.prr);
        // Of one that was undone the window is another.
        if reduces && undone == self.undone && prr.delivered > 0 {
            let goes_on = old.filter(|old| old.end == end);
            let begins = || (prr.out == 0).then_some(Reduction { end, sent: 0, acks: 0 });
            self.reduction = goes_on.or_else(begins);
            if let Some(reduction) = &mut self.reduction {
                reduction.acks += acks;
            }
        }
        self.undone = undone;
    }

    fn output(&mut self, rexmit: Rexmit) {
        self.rexmit = rexmit;
        self.turn();
    }

    /// The round begins or goes on, until it is over or interrupted.
    fn turn(&mut self) {
        let far = self.s.snd_nxt() + 1_000_000;
        if let Some(due) = self.due.take()
            && !self.catch_up(&due, true)
        {
            return;
        }
        if self.rexmit == Rexmit::New {
            if !self.send_new() {
                return;
            }
            self.rexmit = if self.s.frto_sent() { Rexmit::Lost } else { Rexmit::None };
        }
        while self.rexmit == Rexmit::Lost
            && let Some(r) = self.s.next_lost(&self.path, 8, far).and_then(|lost| self.s.fit(&lost))
        {
            let before = self.before(&r);
            let mut cx = self.world.cx(self.now);
            let plan = self.s.commit_retransmit(&mut cx, &mut self.path, &r).expect("fresh");
            if !self.leave(&plan, before) {
                return;
            }
        }
        self.rexmit = Rexmit::None;
        self.send_new();
    }

    /// False when the round is interrupted.
    fn send_new(&mut self) -> bool {
        while self.s.peek_unsent().is_some() {
            let room = self.s.cwnd_room(&self.path) as usize;
            if room == 0 {
                break;
            }
            let len = room.min(self.weather.whole) * usize::from(MSS);
            let mut cx = self.world.cx(self.now);
            let plan = self.s.commit_send(&mut cx, &mut self.path, len).expect("unsent");
            self.segs += u32::from(plan.segs);
            if !self.leave(&plan, None) {
                return false;
            }
        }
        let limited = self.s.peek_unsent().is_some();
        let segs = core::mem::take(&mut self.segs);
        self.s.after_write(&mut self.world.cx(self.now), &mut self.path, segs, limited, false);
        true
    }

    /// What a timer has asked for, which may have been overtaken where it had to wait; false when the round is interrupted.
    fn catch_up(&mut self, due: &Due, waited: bool) -> bool {
        let before = match due {
            Due::Timeout(r) | Due::Probe(Probe::Resend(r)) => self.before(r),
            Due::Probe(_) => None,
        };
        let mut cx = self.world.cx(self.now);
        let (plan, retrans) = match due {
            Due::Timeout(r) => {
                let plan = self.s.commit_rto(&mut cx, &mut self.path, r);
                assert!(waited || plan.is_some(), "it is fresh: {due:?}");
                return plan.is_none_or(|plan| self.leave(&plan, before));
            }
            Due::Probe(_) if self.s.ca_state() >= CaState::Recovery => return true,
            Due::Probe(Probe::New) if self.s.flight().packets_out > 0 => {
                (self.s.commit_send(&mut cx, &mut self.path, usize::from(MSS)), false)
            }
            Due::Probe(Probe::Resend(r)) => (self.s.commit_tlp(&mut cx, &mut self.path, r), true),
            Due::Probe(_) => return true,
        };
        assert!(waited || plan.is_some(), "it is fresh: {due:?}");
        let Some(plan) = plan else { return true };
        self.s.tlp_done(&mut cx, &mut self.path, retrans);
        self.leave(&plan, before)
    }

    fn receive(&mut self, from: u64, to: u64, ts: u32) {
        let dup = to <= self.rcv_nxt || self.got.covers(from, to);
        self.got.insert(from, to);
        if let Some((_, end)) = self.got.range_at(self.rcv_nxt) {
            self.rcv_nxt = end;
        }
        let mut blocks = Vec::new();
        if dup {
            blocks.push((from, to));
        }
        if let Some(range) = self.got.range_at(from).filter(|r| r.0 > self.rcv_nxt) {
            blocks.push(range);
        }
        for range in self.got.iter().rev() {
            if range.0 > self.rcv_nxt && blocks.len() < 3 && !blocks.contains(&range) {
                blocks.push(range);
            }
        }
        if !self.rng.chance_ppm(self.weather.ack_loss_ppm) {
            self.post(Event::Ack { ack: self.rcv_nxt, blocks, tsecr: ts });
        }
    }

    fn acknowledge(&mut self, ack: u64, blocks: &[(u64, u64)], tsecr: u32) {
        let blocks: Vec<_> = blocks.iter().map(|&(a, b)| (self.s.seq(a), self.s.seq(b))).collect();
        let input = AckIn {
            ack: self.s.seq(ack),
            sack: &blocks,
            tsecr: self.weather.timestamps.then_some(tsecr),
            at: self.now,
            has_data: false,
            window_taken: false,
            ece: false,
            child: false,
            crossed: false,
            wnd_end: self.s.snd_nxt() + 1_000_000,
        };
        let out = self.s.on_ack(&mut self.world.cx(self.now), &mut self.path, &input);
        self.note_reduction(1);
        self.output(out.rexmit);
    }

    fn fire(&mut self, kind: TimerKind) {
        // What a timer finds lost makes room without any delivery, and a probe needs none.
        self.reduction = None;
        let mut cx = self.world.cx(self.now);
        match kind {
            TimerKind::Rto => {
                let r = self
                    .s
                    .on_rto(&mut cx, &mut self.path, Timeout::Backoff)
                    .expect("the timer runs for something");
                self.ask(Due::Timeout(r));
            }
            TimerKind::Tlp => {
                let probe = self.s.on_tlp(&mut cx, &mut self.path, true);
                self.ask(Due::Probe(probe));
            }
            TimerKind::Reorder => {
                let found = self.s.on_reorder_timeout(&mut cx, &mut self.path);
                self.output(if found { Rexmit::Lost } else { Rexmit::None });
            }
        }
    }

    /// A timer asks for something, which leaves at once or when the flow has its turn.
    fn ask(&mut self, due: Due) {
        if self.rng.chance_ppm(self.weather.pause_ppm) {
            self.due = Some(due);
            self.post_turn();
        } else {
            self.catch_up(&due, false);
        }
    }

    /// Runs until everything is acknowledged; how long it took.
    fn run(&mut self) -> Duration {
        self.output(Rexmit::None);
        let start = self.now;
        while !self.s.is_empty() {
            let timer = self.s.timer();
            let event = self.events.first_key_value().map(|(k, _)| *k);
            match (event, timer) {
                (Some(key), timer) if timer.is_none_or(|(_, at)| key.0 <= at) => {
                    self.now = key.0;
                    match self.events.remove(&key).expect("first") {
                        Event::Data { from, to, ts } => self.receive(from, to, ts),
                        Event::Ack { ack, blocks, tsecr } => self.acknowledge(ack, &blocks, tsecr),
                        Event::Turn => self.turn(),
                    }
                }
                (_, Some((kind, at))) => {
                    self.now = self.now.max(at);
                    self.fire(kind);
                }
                (_, None) => panic!("data in flight, but no timer: {:?}", self.s),
            }
            self.s.flight().check_counters();
            self.s.check_sight();
            assert!(self.now < TIME_MAX, "no progress: {:?}", self.s);
        }
        assert_eq!((self.rcv_nxt, self.s.una_offset()), (self.total, self.total));
        assert_eq!((self.s.timer(), self.s.queue_ref().queued_charge()), (None, 0));
        self.now.since(start)
    }
}

const CALM: Weather = Weather {
    loss_ppm: 0,
    ack_loss_ppm: 0,
    dup_ppm: 0,
    jitter_us: 0,
    sack: true,
    timestamps: true,
    whole: 16,
    pause_ppm: 0,
    refuse_ppm: 0,
};

#[test]
fn in_calm_weather_nothing_is_sent_twice() {
    for sack in [false, true] {
        let mut net = Net::new(1, 500_000, Weather { sack, ..CALM });
        let took = net.run();
        assert_eq!(net.world.count.tcp.retrans_segs, 0);
        assert!(took < Duration::from_millis(250), "{took:?}");
    }
}

fn weather(rng: &mut Rng) -> Weather {
    Weather {
        loss_ppm: [0, 1_000, 20_000, 100_000][rng.below(4) as usize],
        ack_loss_ppm: [0, 20_000, 300_000][rng.below(3) as usize],
        dup_ppm: [0, 50_000][rng.below(2) as usize],
        jitter_us: [0, 500, 30_000][rng.below(3) as usize],
        sack: rng.below(4) > 0,
        timestamps: rng.below(2) > 0,
        whole: [1, 4, 40][rng.below(3) as usize],
        pause_ppm: [0, 50_000, 400_000][rng.below(3) as usize],
        refuse_ppm: [0, 0, 30_000][rng.below(3) as usize],
    }
}

/// Every mechanism has to act somewhere, or the test would prove nothing about it.
#[test]
fn in_any_weather_everything_arrives_and_everything_acts() {
    let mut sums: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in 0..400 {
        let mut rng = Rng::new(seed).fork("weather");
        let weather = weather(&mut rng);
        let result = std::panic::catch_unwind(|| {
            let mut net = Net::new(seed, 200_000, weather);
            net.run();
            net.world.count
        });
        let Ok(count) = result else { panic!("seed {seed}, {weather:?}") };
        count.each(&mut |_, name, value| *sums.entry(name).or_default() += value);
    }
    for name in [
        "TCPFastRetrans",
        "TCPSlowStartRetrans",
        "TCPTimeouts",
        "TCPLossProbes",
        "TCPLostRetransmit",
        "TCPSackRecovery",
        "TCPRenoRecovery",
        "TCPSACKReorder",
        "TCPTSReorder",
        "TCPRenoReorder",
        "TCPFullUndo",
        "TCPPartialUndo",
        "TCPDSACKUndo",
        "TCPLossUndo",
        "TCPSpuriousRTOs",
        "TCPDSACKRecv",
        "TCPDSACKOfoRecv",
        "TCPDSACKIgnoredOld",
    ] {
        assert!(sums.get(name).is_some_and(|n| *n > 0), "{name} never moved");
    }
}

#[test]
fn jitter_does_not_ratchet_the_window_down() {
    let mut net = Net::new(7, 3_000_000, Weather { jitter_us: 4_000, ..CALM });
    let took = net.run();
    // Without loss the window only grows, but for reductions that are undone.
    assert!(took < Duration::from_millis(900), "{took:?}, {}", net.path.window.cwnd);
    assert!(net.world.count.tcp.retrans_segs < 60, "{}", net.world.count.tcp.retrans_segs);
}

#[test]
fn light_loss_is_repaired_without_timeouts() {
    let mut net = Net::new(3, 2_000_000, Weather { loss_ppm: 2_000, ..CALM });
    net.run();
    assert_eq!(net.world.count.tcp_ext.tcp_timeouts, 0);
    let lost = net.world.count.tcp.retrans_segs;
    assert!((1..30).contains(&lost), "{lost}");
}
