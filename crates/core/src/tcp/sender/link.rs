//! The sender against a receiver over a link that loses, reorders and duplicates: everything arrives, and timers end it.
use super::*;
use crate::base::Rng;
use crate::base::testing::World;
use crate::base::time::Duration;
use crate::path::pmtu::Pmtu;
use crate::ranges::RangeSet;
use crate::tcp::recovery::rto::Timeout;
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
}

#[derive(Debug)]
enum Event {
    Data { from: u64, to: u64, ts: u32 },
    Ack { ack: u64, blocks: Vec<(u64, u64)>, tsecr: u32 },
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

    fn output(&mut self, mut rexmit: Rexmit) {
        let far = self.s.snd_nxt() + 1_000_000;
        if rexmit == Rexmit::New {
            self.send_new();
            rexmit = if self.s.frto_sent() { Rexmit::Lost } else { Rexmit::None };
        }
        while rexmit == Rexmit::Lost
            && let Some(r) = self.s.next_retransmit(&self.path, 8, far)
        {
            let mut cx = self.world.cx(self.now);
            let plan = self.s.commit_retransmit(&mut cx, &mut self.path, &r).expect("fresh");
            self.transmit(&plan);
        }
        self.send_new();
    }

    fn send_new(&mut self) {
        let mut segs = 0;
        while self.s.peek_unsent().is_some() {
            let room = self.s.cwnd_room(&self.path) as usize;
            if room == 0 {
                break;
            }
            let len = room.min(self.weather.whole) * usize::from(MSS);
            let mut cx = self.world.cx(self.now);
            let plan = self.s.commit_send(&mut cx, &mut self.path, len).expect("unsent");
            segs += u32::from(plan.segs);
            self.transmit(&plan);
        }
        let limited = self.s.peek_unsent().is_some();
        self.s.after_write(&mut self.world.cx(self.now), &mut self.path, segs, limited, false);
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
        self.output(out.rexmit);
    }

    fn fire(&mut self, kind: TimerKind) {
        let mut cx = self.world.cx(self.now);
        match kind {
            TimerKind::Rto => {
                let r = self
                    .s
                    .on_rto(&mut cx, &mut self.path, Timeout::Backoff)
                    .expect("the timer runs for something");
                let plan = self.s.commit_rto(&mut cx, &mut self.path, &r).expect("fresh");
                self.transmit(&plan);
            }
            TimerKind::Tlp => {
                let sent = match self.s.on_tlp(&mut cx, &mut self.path, true) {
                    Probe::New => {
                        let plan = self.s.commit_send(&mut cx, &mut self.path, usize::from(MSS));
                        self.transmit(&plan.expect("unsent"));
                        Some(false)
                    }
                    Probe::Resend(r) => {
                        let plan = self.s.commit_tlp(&mut cx, &mut self.path, &r).expect("fresh");
                        self.transmit(&plan);
                        Some(true)
                    }
                    Probe::Nothing => None,
                };
                if let Some(retrans) = sent {
                    self.s.tlp_done(&mut self.world.cx(self.now), &mut self.path, retrans);
                }
            }
            TimerKind::Reorder => {
                let found = self.s.on_reorder_timeout(&mut cx, &mut self.path);
                self.output(if found { Rexmit::Lost } else { Rexmit::None });
            }
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
