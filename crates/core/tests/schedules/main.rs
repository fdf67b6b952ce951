//! Random schedules of writes, transmissions, completions, acknowledgements, changed options and closed sockets: what small queues
//! and writability promise holds after every step, and everything that was written arrives, although the device stays as it is:
//! late, in batches, telling at once or of sockets that are gone.
//!
//! A failure names its seed; with that in `SEEDS`, as `17..18`, `cargo test -p lowwater-core --test schedules` runs it alone.
use bytes::Bytes;
use lowwater_core::base::{DeviceId, Duration, Error, Instant, Rng, SocketId, Sysctl, Wait};
use lowwater_core::device::{DeviceCaps, Submit};
use lowwater_core::packet::{Owner, Packet};
use lowwater_core::stack::{Config, Event, ListenAddr, ListenOptions, Stack};
use lowwater_core::tcp::{Ready, SendFlags, SocketOptions, State};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use witness::{Facts, Witness};

mod witness;

/// What a packet of the send queue is charged beside its payload.
const PACKET_CHARGE: u64 = 832;
/// Schedules.
const SEEDS: std::ops::Range<u64> = 0..1_000;
/// Steps of one.
const STEPS: u32 = 400;
/// Completions that a device tells of together, and how long the first of them waits at most.
const BATCH: usize = 8;
const BATCH_WAIT: Duration = Duration::from_millis(5);

struct Flow {
    id: SocketId,
    peer: Option<SocketId>,
    written: u64,
    received: u64,
    /// It saw "full" and has not been told of room since.
    waits: bool,
    aborted: bool,
    /// It has had a maximal pacing rate; from then on the transport paces it, as in Linux.
    paced: bool,
}

/// When a device says that a packet has left it. It never does better, until the end.
#[derive(Clone, Copy, Debug)]
enum Habit {
    /// At any step, one, some or all.
    AtRandom,
    /// So long after it was taken.
    Late(Duration),
    /// Of eight together, or when the first has waited for too long.
    Batched,
}

/// A packet whose completion is owed.
#[derive(Clone, Copy, Debug)]
struct Owed {
    owner: Owner,
    since: Instant,
    /// IP bytes.
    bytes: u64,
}

/// A flow's window, and what its device has dropped of all flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    cwnd: u32,
    ssthresh: u32,
    ca_state: u8,
    dropped: u64,
}

/// How often the schedules came to what they are about.
#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    bytes: u64,
    throttled: u64,
    aware: u64,
    /// Packets held to the limit of small queues, and to the queue-aware one.
    admitted: u64,
    limited: u64,
    /// How often a flow's own account was compared.
    compared: u64,
    /// Completions for sockets that are gone.
    lost: u64,
    /// Packets that a device did not take, with a window that stayed as it was.
    not_now: u64,
    /// Writers that a changed option woke.
    woken: u64,
    polled: u64,
    /// Flows that a completion let go.
    let_go: u64,
}

impl Reached {
    fn each(&mut self) -> [&mut u64; 11] {
        let Self {
            bytes,
            throttled,
            aware,
            admitted,
            limited,
            compared,
            lost,
            not_now,
            woken,
            polled,
            let_go,
        } = self;
        [bytes, throttled, aware, admitted, limited, compared, lost, not_now, woken, polled, let_go]
    }
}

struct Schedule {
    rng: Rng,
    now: Instant,
    dev: DeviceId,
    stacks: [Stack; 2],
    /// Packets that a device has taken, by sender; and whose completion it owes.
    wire: [VecDeque<Packet>; 2],
    owed: [VecDeque<Owed>; 2],
    habit: Habit,
    witness: Witness,
    flows: Vec<Flow>,
    listener: SocketId,
    /// Whose options were changed in this step.
    changed: Option<SocketId>,
    /// How often the sender's device said "not now" since it was looked at.
    refused: u64,
    /// How the sender's device answers: parts per million of "not now", of completion at once, of a drop.
    habits: [u32; 3],
    /// The queue-aware limit is switched on and off.
    switches: bool,
    /// Charge of flows that was below when the limit was switched on, and has not come back.
    strangers: BTreeMap<SocketId, u64>,
    /// Packets of timeouts and probes, which nobody holds back, that have not been seen yet.
    free: u64,
    reached: Reached,
}

impl Schedule {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let now = Instant::from_millis(1_000);
        // Half of the worlds have a cap that bites.
        let limit = if rng.below(2) == 0 { 1 << 20 } else { 10_000 + rng.next_u32() % 100_000 };
        let sysctl = Sysctl {
            tcp_limit_output_bytes: limit,
            tcp_notsent_lowat: if rng.below(4) == 0 { 100_000 } else { u32::MAX },
            notsent_lowat_half: rng.below(8) != 0,
            tcp_autocorking: rng.below(2) == 0,
            tcp_queue_aware: seed % 2 == 1,
            tcp_limit_output_all: rng.fork("cap").below(2) == 0,
            ..Sysctl::default()
        };
        let mut dev = DeviceId(0);
        let mut make = |host: u8| {
            let mut stack = Stack::new(Config { sysctl: sysctl.clone(), seed: u64::from(host) }, now);
            dev = stack.add_device(DeviceCaps::offloading(1500));
            stack.add_address(dev, [10, 0, 0, host].into(), 24).expect("a fresh stack takes an address");
            stack
        };
        let mut stacks = [make(1), make(2)];
        let (witness, qdisc) = Witness::new();
        stacks[0].set_qdisc(dev, qdisc).expect("the device is there");
        let options = ListenOptions::new(SocketOptions::new(&sysctl));
        let at = ListenAddr { ip: None, port: Some(80) };
        let listener = stacks[1].tcp_listen(now, at, options).expect("the port is free");
        let odds = [0, 50_000, 500_000];
        let mut odd = || odds[rng.below(3) as usize];
        let habits = [odd(), odd(), odd() / 25];
        let wire = [VecDeque::new(), VecDeque::new()];
        let owed = [VecDeque::new(), VecDeque::new()];
        let late = [20, 1_000, 30_000][rng.below(3) as usize];
        let habit = [Habit::AtRandom, Habit::Late(Duration::from_micros(late)), Habit::Batched];
        let habit = habit[rng.below(3) as usize];
        Self {
            rng,
            now,
            dev,
            stacks,
            wire,
            owed,
            flows: Vec::new(),
            listener,
            changed: None,
            refused: 0,
            habits,
            switches: seed % 4 < 2,
            habit,
            witness,
            strangers: BTreeMap::new(),
            free: 0,
            reached: Reached::default(),
        }
    }

    fn open(&mut self) {
        let options = SocketOptions::new(self.stacks[0].sysctl());
        let remote = SocketAddr::from(([10, 0, 0, 2], 80));
        let id = self.stacks[0].tcp_connect(self.now, remote, None, &options).expect("a free port");
        self.flows.push(Flow {
            id,
            peer: None,
            written: 0,
            received: 0,
            waits: true,
            aborted: false,
            paced: false,
        });
    }

    fn any_flow(&mut self) -> usize {
        self.rng.below(self.flows.len() as u64) as usize
    }

    fn step(&mut self) {
        match self.rng.below(16) {
            0..=3 => self.write(),
            4..=6 => self.transmit(),
            7 => self.transmit_b(),
            8 => self.leave(0),
            9 => self.leave(1),
            10 => self.complete(),
            11 => self.read(),
            12 => {
                self.now = self.now.plus_nanos(self.rng.below(3_000_000));
                self.timers();
            }
            13 => self.change_options(),
            14 => self.poll(),
            _ => match self.rng.below(20) {
                0 if self.flows.len() < 6 => self.open(),
                1 => self.abort(),
                _ => {}
            },
        }
        if self.stacks[0].sysctl().tcp_queue_aware && self.rng.below(2) == 0 {
            // A line that is never idle while something is below: else nothing could be learnt of it.
            self.now = self.now.plus_nanos(self.rng.below(1_000_000));
            self.timers();
            if let Habit::AtRandom = self.habit {
                self.complete_one(0);
            }
            self.complete_due();
            self.transmit();
            self.leave(0);
            self.leave(1);
        }
        self.hear();
        self.balances();
    }

    fn write(&mut self) {
        let f = self.any_flow();
        let sizes = [1, 100, 1_448, 5_000, 65_536, 300_000];
        let most = sizes[self.rng.below(6) as usize];
        let len = 1 + self.rng.below(most) as usize;
        let flags = SendFlags { more: self.rng.below(8) == 0, ..SendFlags::default() };
        let (id, now) = (self.flows[f].id, self.now);
        let result = if self.rng.below(3) == 0 {
            self.stacks[0].tcp_send_bytes(now, id, &mut Bytes::from(vec![7; len]), flags)
        } else {
            self.stacks[0].tcp_send(now, id, &vec![7; len], flags)
        };
        match result {
            Ok(n) => {
                self.flows[f].written += n as u64;
                self.flows[f].waits |= n < len;
            }
            Err(Error::WouldBlock) => self.flows[f].waits = true,
            Err(_) => assert!(self.flows[f].aborted, "a living connection takes data or waits"),
        }
    }

    /// The account of a flow's own queue is empty exactly when nothing of it is below.
    fn balances(&mut self) {
        for flow in &self.flows {
            let Some(queue) = self.stacks[0].own_queue(Instant::ZERO, flow.id) else { continue };
            let below = self.below(flow.id);
            // What went down before the limit was switched on is nobody's, and told from what came after by the order in which a device
            // tells: not by one that answers out of turn.
            let in_turn = !self.switches || self.habits[1..] == [0, 0];
            let own = self.strangers.get(&flow.id).is_none_or(|&charge| charge == 0);
            // A completion empties the ledger; the estimate follows when the flow looks for more to send.
            assert!(below == 0 || queue.bytes > 0 || !(in_turn && own), "{queue:?} with {below} below");
            if in_turn && below > 0 && own {
                assert_eq!(queue.bytes, self.standing(flow.id), "{below} below");
                self.reached.compared += 1;
            }
        }
    }

    /// The charge of a flow below the transport.
    fn below(&self, id: SocketId) -> u64 {
        self.stacks[0].credits().iter().find(|c| c.socket == id).map_or(0, |c| c.below)
    }

    fn transmit(&mut self) {
        let budget = 1 + self.rng.below(32) as usize;
        self.transmit_so_many(budget);
    }

    /// Packets go down; each is held to the rule by itself.
    fn transmit_so_many(&mut self, budget: usize) {
        let (mut facts, mut rates) = (BTreeMap::<SocketId, Facts>::new(), BTreeMap::new());
        for flow in &self.flows {
            let Ok(info) = self.stacks[0].tcp_info(Instant::ZERO, flow.id) else { continue };
            let sysctl = self.stacks[0].sysctl();
            let capped = !flow.paced || sysctl.tcp_limit_output_all;
            let cap = if capped { u64::from(sysctl.tcp_limit_output_bytes) } else { u64::MAX };
            let own = self.stacks[0].own_queue(Instant::ZERO, flow.id);
            let own_queue = own.map(|q| (q.bytes, q.limit));
            rates.insert(flow.id, own.and_then(|q| q.rate));
            let late = Duration::ZERO;
            facts.insert(flow.id, Facts { pacing_rate: info.pacing_rate, cap, own_queue, late });
        }
        let exceptions = |s: &Self| {
            let count = s.stacks[0].counters();
            (count.own.credit_exempt, count.tcp_ext.tcp_timeouts + count.tcp_ext.tcp_loss_probes)
        };
        // Completions that came before this.
        self.witness.round(&|_| None);
        let windows = self.windows();
        let (exempt, free) = exceptions(self);
        self.hand_down(0, budget);
        self.window_stays(&windows);
        for (id, facts) in &mut facts {
            let Some(own) = self.stacks[0].own_queue(Instant::ZERO, *id) else { continue };
            // Where it came or went on the way, nobody can say which of the packets it judged. Where it changed, one of them may have been
            // judged by the rate before and the time after.
            let limit = |limit: Option<u64>| {
                let (before, after, rate) =
                    (limit?, own.limit?, rates.get(id).copied().flatten().zip(own.rate));
                let mixed = rate.map_or(0, |(old, new)| match old == new {
                    true => 0,
                    false => (before * new / old.max(1)).max(after * old / new.max(1)),
                });
                Some(before.max(after).max(mixed))
            };
            let (standing, before) = facts.own_queue.unwrap_or_default();
            facts.own_queue = Some((standing, limit(before)));
            facts.late = self.stacks[0].lateness(self.dev).unwrap_or_default();
        }
        let round = self.witness.round(&|id| facts.get(&id).copied());
        let (exempt, new_free) = (exceptions(self).0 - exempt, exceptions(self).1 - free);
        self.free += new_free;
        let [new, again] = round.beyond.each_ref().map(|beyond| beyond.len() as u64);
        assert!(new <= exempt, "{exempt} exempt: {:?}", round.beyond[0]);
        self.free = (self.free + exempt - new).checked_sub(again).unwrap_or_else(|| {
            panic!("{} may pass: {:?}", self.free + exempt - new, round.beyond[1]);
        });
        assert!(round.beyond_own.len() as u64 <= exempt, "{exempt} exempt: {:?}", round.beyond_own);
        self.reached.admitted += round.admitted;
        self.reached.limited += round.own;
        for flow in self.flows.iter().filter(|f| !f.aborted) {
            assert_eq!(self.witness.charge(flow.id), self.below(flow.id), "the ledger is what is below");
        }
    }

    /// The window of each flow that has something in flight and has just sent: nothing but what a device does could change it now.
    fn windows(&mut self) -> Vec<Option<Window>> {
        let Self { stacks, flows, .. } = self;
        let own = &stacks[0].counters().own;
        let dropped = own.packets_dropped_below + own.lost_in_queue;
        let window = |flow: &Flow| {
            let info = stacks[0].tcp_info(Instant::ZERO, flow.id).ok()?;
            let just_now = info.unacked > 0 && info.last_data_sent < 1;
            let (cwnd, ssthresh, ca_state) = (info.snd_cwnd, info.snd_ssthresh, info.ca_state);
            just_now.then_some(Window { cwnd, ssthresh, ca_state, dropped })
        };
        flows.iter().map(window).collect()
    }

    /// "Not now" is no congestion.
    fn window_stays(&mut self, before: &[Option<Window>]) {
        let refused = core::mem::take(&mut self.refused);
        let after = self.windows();
        for (before, after) in before.iter().zip(after) {
            let (Some(before), Some(after)) = (*before, after) else { continue };
            if before.dropped == after.dropped {
                assert_eq!(before, after, "{refused} times not now");
                self.reached.not_now += u64::from(refused > 0);
            }
        }
    }

    fn transmit_b(&mut self) {
        self.hand_down(1, 64);
    }

    fn hand_down(&mut self, from: usize, budget: usize) {
        let Self { stacks, rng, wire, owed, habits, dev, now, strangers, refused, witness, .. } = self;
        let habits = if from == 0 { *habits } else { [0; 3] };
        let told = witness.told();
        let mut done = |owner: Owner, bytes: u64| {
            if from == 0 {
                told.back(owner, bytes);
                back(strangers, owner);
            }
        };
        let mut device = |now: Instant, mut packet: Packet| {
            let short = rng.chance_ppm(habits[0]);
            *refused += u64::from(short && from == 0);
            if short && rng.below(2) == 0 {
                return Submit::NotNow(packet);
            }
            let bytes = u64::from(packet.line_bytes());
            if rng.chance_ppm(habits[2]) {
                packet.owner.into_iter().for_each(|owner| done(owner, bytes));
                return Submit::Dropped;
            }
            let owner = packet.owner.take();
            wire[from].push_back(packet);
            if rng.chance_ppm(habits[1]) {
                owner.into_iter().for_each(|owner| done(owner, bytes));
                return Submit::Completed;
            }
            owed[from].extend(owner.map(|owner| Owed { owner, since: now, bytes }));
            if short { Submit::Filled } else { Submit::Sent }
        };
        let done = stacks[from].transmit(*now, *dev, budget, &mut device);
        if done.stopped {
            stacks[from].device_ready(*now, *dev);
        }
    }

    /// Some packets arrive, now and then one is lost.
    fn leave(&mut self, from: usize) {
        for _ in 0..self.rng.below(20) {
            let Some(packet) = self.wire[from].pop_front() else { break };
            if !self.rng.chance_ppm(5_000) {
                self.stacks[1 - from].receive(self.now, self.dev, packet);
            }
        }
        self.stacks[1 - from].flush(self.now);
    }

    /// Completions come as the device has it, also for sockets that are gone.
    fn complete(&mut self) {
        let Habit::AtRandom = self.habit else { return self.complete_due() };
        for from in 0..2 {
            let n = if self.rng.below(3) == 0 { usize::MAX } else { self.rng.below(4) as usize };
            for _ in 0..n.min(self.owed[from].len()) {
                self.complete_one(from);
            }
        }
    }

    /// When the device tells next, by itself.
    fn due(&self, from: usize) -> Option<Instant> {
        let first = self.owed[from].front()?.since;
        match self.habit {
            Habit::AtRandom => None,
            Habit::Late(by) => Some(first + by),
            Habit::Batched if self.owed[from].len() >= BATCH => Some(self.now),
            Habit::Batched => Some(first + BATCH_WAIT),
        }
    }

    fn complete_due(&mut self) {
        for from in 0..2 {
            while self.due(from).is_some_and(|at| at <= self.now) {
                let batch = if let Habit::Batched = self.habit { BATCH } else { 1 };
                (0..batch).for_each(|_| self.complete_one(from));
            }
        }
    }

    fn complete_one(&mut self, from: usize) {
        let Some(Owed { owner, bytes, .. }) = self.owed[from].pop_front() else { return };
        if from == 0 {
            self.witness.told().back(owner, bytes);
            back(&mut self.strangers, owner);
            let gone = self.stacks[0].tcp_state(owner.flow.socket).is_err();
            self.reached.lost += u64::from(gone);
        }
        let why =
            self.stacks[from].wait_report(Instant::ZERO, owner.flow.socket).and_then(|report| report.why);
        self.stacks[from].complete(self.now, self.dev, owner);
        if let Some(Wait::Credit | Wait::QueueAware | Wait::HostQueue) = why {
            // Not by the next acknowledgement, and not by a timer.
            assert!(self.stacks[from].needs_transmit(self.dev), "{why:?}, and nobody goes on");
            self.reached.let_go += u64::from(from == 0);
        }
    }

    /// The queue-aware limit on, or off, whatever is under way.
    fn switch(&mut self) {
        let on = !self.stacks[0].sysctl().tcp_queue_aware;
        self.stacks[0].set_sysctl("tcp_queue_aware", if on { "1" } else { "0" }).expect("a setting");
        self.strangers = self.stacks[0].credits().iter().map(|c| (c.socket, c.below)).collect();
    }

    /// IP bytes of a flow that stand below it, by what went to the device and what has not.
    fn standing(&self, id: SocketId) -> u64 {
        let held = self.stacks[0].credits().iter().find(|c| c.socket == id).map_or(0, |c| c.held_bytes);
        let at_device = self.owed[0].iter().filter(|owed| owed.owner.flow.socket == id);
        held + at_device.map(|owed| owed.bytes).sum::<u64>()
    }

    fn timers(&mut self) {
        for stack in &mut self.stacks {
            stack.handle_timeout(self.now);
        }
    }

    fn read(&mut self) {
        while let Ok((peer, from)) = self.stacks[1].tcp_accept(self.now, self.listener) {
            let flow = self.flows.iter_mut().find(|f| self.stacks[0].local_addr(f.id) == Ok(from));
            match flow {
                Some(flow) => flow.peer = Some(peer),
                None => drop(self.stacks[1].abort(self.now, peer)),
            }
        }
        for flow in &mut self.flows {
            let Some(peer) = flow.peer else { continue };
            while let Ok(Some(data)) = self.stacks[1].tcp_read_chunk(self.now, peer, 1 << 20) {
                flow.received += data.len() as u64;
            }
        }
    }

    fn change_options(&mut self) {
        let f = self.any_flow();
        let id = self.flows[f].id;
        if self.switches && self.rng.below(4) == 0 {
            return self.switch();
        }
        let Ok(mut options) = self.stacks[0].options(id).cloned() else { return };
        let limits = [0, 1, 4_096, 131_072, 1 << 20];
        match self.rng.below(8) {
            0..=3 => options.notsent_lowat = limits[self.rng.below(5) as usize],
            4..=6 => options.sndbuf = Some(4_608 << self.rng.below(12)),
            _ => options.max_pacing_rate = [u64::MAX, 50_000_000, 1 << 30][self.rng.below(3) as usize],
        }
        let paced = options.max_pacing_rate != u64::MAX;
        self.flows[f].paced |= self.stacks[0].set_options(self.now, id, options).is_ok() && paced;
        self.changed = Some(id);
    }

    fn abort(&mut self) {
        let f = self.any_flow();
        let _ = self.stacks[0].abort(self.now, self.flows[f].id);
        self.flows[f].aborted = true;
    }

    /// What the rule of transmit-path.md says of a flow's writability, from what everybody can see.
    fn writable(&mut self, f: usize) -> Option<bool> {
        self.writable_but_for(f, 0)
    }

    /// The same when so much of the charge of each segment in flight is left out: what is sent is cut, and each packet is charged
    /// for its metadata, so room that was told of may be gone when it is heard.
    fn writable_but_for(&mut self, f: usize, each: u64) -> Option<bool> {
        let id = self.flows[f].id;
        let stack = &mut self.stacks[0];
        let alive = matches!(stack.tcp_state(id), Ok(State::Established)) && !self.flows[f].aborted;
        let (memory, unsent) =
            (stack.memory(id).ok()?, stack.tcp_info(Instant::ZERO, id).ok()?.notsent_bytes);
        let sysctl = (stack.sysctl().tcp_notsent_lowat, u32::from(stack.sysctl().notsent_lowat_half));
        let lowat = stack.options(id).ok().map(|o| o.notsent_lowat).filter(|&l| l != 0).unwrap_or(sysctl.0);
        let cut = each * u64::from(stack.tcp_info(Instant::ZERO, id).ok()?.unacked);
        let (queued, sndbuf) = (u64::from(memory.queued).saturating_sub(cut), u64::from(memory.sndbuf));
        let memory_free = queued < sndbuf && u64::from(unsent) << sysctl.1 < u64::from(lowat);
        alive.then_some(sndbuf.saturating_sub(queued) >= queued / 2 && memory_free)
    }

    /// poll says writable exactly when the rule does.
    fn poll(&mut self) {
        let f = self.any_flow();
        let Some(wanted) = self.writable(f) else { return };
        let ready = self.stacks[0].poll(self.now, self.flows[f].id).contains(Ready::OUT);
        assert_eq!(ready, wanted);
        self.reached.polled += 1;
        self.flows[f].waits |= !ready;
    }

    /// Whoever waits is told as soon as the rule turns true, and not before.
    fn hear(&mut self) {
        while let Some(event) = self.stacks[0].next_event() {
            let (Event::Writable(id) | Event::Connected(id) | Event::Closed(id)) = event else { continue };
            let Some(f) = self.flows.iter().position(|f| f.id == id) else { continue };
            assert!(
                !matches!(event, Event::Writable(_))
                    || self.flows[f].waits
                    || self.writable_but_for(f, PACKET_CHARGE) != Some(false),
                "told of room where there is none"
            );
            let option = matches!(event, Event::Writable(_)) && self.changed == Some(id);
            self.reached.woken += u64::from(option && self.flows[f].waits);
            self.flows[f].waits = false;
        }
        self.changed = None;
        while self.stacks[1].next_event().is_some() {}
        for f in 0..self.flows.len() {
            assert!(!self.flows[f].waits || self.writable(f) != Some(true), "a wake-up is lost");
        }
    }

    /// Nothing is lost any more, and the applications read all: what was written must arrive, although the device tells as late, in
    /// such batches and as early as before.
    fn heal(&mut self) {
        self.habits[2] = 0;
        for _ in 0..20_000 {
            self.transmit_so_many(usize::MAX >> 1);
            self.hand_down(1, usize::MAX >> 1);
            for from in 0..2 {
                if let Habit::AtRandom = self.habit {
                    (0..self.owed[from].len()).for_each(|_| self.complete_one(from));
                }
                while let Some(packet) = self.wire[from].pop_front() {
                    self.stacks[1 - from].receive(self.now, self.dev, packet);
                }
                self.stacks[1 - from].flush(self.now);
            }
            self.complete_due();
            self.read();
            self.hear();
            if self.flows.iter().all(|f| f.aborted || (f.peer.is_some() && f.received == f.written)) {
                return;
            }
            if !self.stacks.iter().any(|s| s.needs_transmit(self.dev)) {
                self.nobody_waits_for_nothing();
                let next = self.stacks.iter().filter_map(Stack::next_deadline);
                let next = next.chain((0..2).filter_map(|from| self.due(from))).min();
                self.now = next.unwrap_or(self.now).max(self.now + Duration::from_micros(10));
            }
            self.complete_due();
            self.timers();
        }
        let left: Vec<_> = self.flows.iter().map(|f| (f.aborted, f.written, f.received)).collect();
        panic!("written data does not arrive: {left:?} {:?}", self.habit);
    }

    /// Whoever has two segments to send, a window, and nothing under way would be helped by a timer only, or by nobody.
    fn nobody_waits_for_nothing(&mut self) {
        // What a pacer holds back has a timer.
        let living = self.flows.iter().filter(|f| !f.aborted && !f.paced);
        let living: Vec<SocketId> = living.map(|f| f.id).collect();
        for id in living {
            let Ok(info) = self.stacks[0].tcp_info(Instant::ZERO, id) else { continue };
            let open = matches!(self.stacks[0].tcp_state(id), Ok(State::Established));
            let idle = info.unacked == 0 && self.below(id) == 0;
            let could = info.notsent_bytes >= 2 * 1_460 && info.snd_wnd >= 2 * 1_460;
            assert!(!(open && idle && could), "nobody sends {info:?}");
        }
    }
}

/// The charge of a packet has come back.
fn back(charges: &mut BTreeMap<SocketId, u64>, owner: Owner) {
    if let Some(charge) = charges.get_mut(&owner.flow.socket) {
        *charge = charge.saturating_sub(u64::from(owner.charge));
    }
}

fn run(seed: u64) -> Reached {
    let mut schedule = Schedule::new(seed);
    schedule.open();
    for _ in 0..STEPS {
        schedule.step();
    }
    // No mark survives that nobody wakes: those who wait are told once all is through.
    schedule.heal();
    for f in 0..schedule.flows.len() {
        assert!(schedule.flows[f].aborted || !schedule.flows[f].waits || schedule.writable(f) == Some(false));
    }
    let count = schedule.stacks[0].counters();
    Reached {
        bytes: schedule.flows.iter().map(|f| f.received).sum(),
        throttled: count.waits(Wait::Credit),
        aware: count.waits(Wait::QueueAware),
        ..schedule.reached
    }
}

#[test]
fn small_queues_and_writability_hold_in_every_schedule() {
    let mut sum = Reached::default();
    for seed in SEEDS {
        let result = std::panic::catch_unwind(|| run(seed));
        let mut reached = result.unwrap_or_else(|e| {
            println!("seed {seed} failed");
            std::panic::resume_unwind(e)
        });
        sum.each().into_iter().zip(reached.each()).for_each(|(sum, count)| *sum += *count);
    }
    println!("{SEEDS:?}: {sum:?}");
    assert!(
        sum.throttled > 1_000 && sum.bytes > 100_000_000,
        "the schedules reach what they are about: {sum:?}"
    );
    assert!(
        sum.aware > 100 && sum.limited > 1_000 && sum.compared > 10_000,
        "and the queue-aware limit: {sum:?}"
    );
    assert!(
        sum.lost > 100 && sum.not_now > 100 && sum.woken > 100 && sum.polled > 1_000 && sum.let_go > 1_000,
        "and all else: {sum:?}"
    );
}
