//! Random schedules of writes, transmissions, completions, acknowledgements, changed options and closed sockets: what small queues
//! and writability promise holds after every step, and everything that was written arrives.
//!
//! A failure names its seed; with that in `SEEDS`, as `17..18`, `cargo test -p lowwater-core --test schedules` runs it alone.
use bytes::Bytes;
use lowwater_core::base::{DeviceId, Duration, Error, Instant, Rng, SocketId, Sysctl, Wait};
use lowwater_core::device::{DeviceCaps, Submit};
use lowwater_core::packet::{Owner, Packet};
use lowwater_core::stack::{Config, Event, ListenAddr, ListenOptions, Stack};
use lowwater_core::tcp::{OwnQueue, Ready, SendFlags, SocketOptions, State};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// What a packet of the send queue is charged beside its payload.
const PACKET_CHARGE: u64 = 832;
/// Schedules.
const SEEDS: std::ops::Range<u64> = 0..1_000;
/// Steps of one.
const STEPS: u32 = 400;
/// Charge of the largest packet: 64 KiB and what it pins beside that.
const PACKET_CHARGE_MAX: u64 = 66_400;
/// IP bytes of the largest packet: 45 segments of 1,500.
const PACKET_BYTES_MAX: u64 = 67_500;

struct Flow {
    id: SocketId,
    peer: Option<SocketId>,
    written: u64,
    received: u64,
    /// It saw "full" and has not been told of room since.
    waits: bool,
    aborted: bool,
}

struct Schedule {
    rng: Rng,
    now: Instant,
    dev: DeviceId,
    stacks: [Stack; 2],
    /// Packets that a device has taken, by sender; and whose completion it owes.
    wire: [VecDeque<Packet>; 2],
    owed: [VecDeque<Owner>; 2],
    flows: Vec<Flow>,
    listener: SocketId,
    /// How the sender's device answers: parts per million of "not now", of completion at once, of a drop.
    habits: [u32; 3],
    /// The queue-aware limit is switched on and off.
    switches: bool,
    /// How often the queue-aware limit was looked at.
    limited: u64,
    /// IP bytes of each packet in the first device, in the order of `owed[0]`.
    lengths: VecDeque<u64>,
    /// Charge of flows that was below when the limit was switched on, and has not come back.
    strangers: BTreeMap<SocketId, u64>,
    /// How often a flow's own account was compared.
    compared: u64,
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
        let options = ListenOptions::new(SocketOptions::new(&sysctl));
        let at = ListenAddr { ip: None, port: Some(80) };
        let listener = stacks[1].tcp_listen(now, at, options).expect("the port is free");
        let odds = [0, 50_000, 500_000];
        let mut odd = || odds[rng.below(3) as usize];
        let habits = [odd(), odd(), odd() / 25];
        let wire = [VecDeque::new(), VecDeque::new()];
        let owed = [VecDeque::new(), VecDeque::new()];
        Self {
            rng,
            now,
            dev,
            stacks,
            wire,
            owed,
            flows: Vec::new(),
            listener,
            habits,
            switches: seed % 4 < 2,
            limited: 0,
            lengths: VecDeque::new(),
            strangers: BTreeMap::new(),
            compared: 0,
        }
    }

    fn open(&mut self) {
        let options = SocketOptions::new(self.stacks[0].sysctl());
        let remote = SocketAddr::from(([10, 0, 0, 2], 80));
        let id = self.stacks[0].tcp_connect(self.now, remote, None, &options).expect("a free port");
        self.flows.push(Flow { id, peer: None, written: 0, received: 0, waits: true, aborted: false });
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
            self.complete_one(0);
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
            let Some(queue) = self.stacks[0].own_queue(flow.id) else { continue };
            let below = self.below(flow.id);
            // What went down before the limit was switched on is nobody's, and told from what came after by the order in which a device
            // tells: not by one that answers out of turn.
            let in_turn = !self.switches || self.habits[1..] == [0, 0];
            let own = self.strangers.get(&flow.id).is_none_or(|&charge| charge == 0);
            // A completion empties the ledger; the estimate follows when the flow looks for more to send.
            assert!(below == 0 || queue.bytes > 0 || !(in_turn && own), "{queue:?} with {below} below");
            if in_turn && below > 0 && own {
                assert_eq!(queue.bytes, self.standing(flow.id), "{below} below");
                self.compared += 1;
            }
        }
    }

    /// The charge of a flow below the transport.
    fn below(&self, id: SocketId) -> u64 {
        self.stacks[0].credits().iter().find(|c| c.socket == id).map_or(0, |c| c.below)
    }

    fn transmit(&mut self) {
        let rates: Vec<u64> = self
            .flows
            .iter()
            .map(|f| self.stacks[0].tcp_info(f.id).map_or(u64::MAX, |i| i.pacing_rate))
            .collect();
        let before: Vec<u64> = self.flows.iter().map(|f| self.below(f.id)).collect();
        let queues = |s: &Self| -> Vec<Option<OwnQueue>> {
            s.flows.iter().map(|f| s.stacks[0].own_queue(f.id)).collect()
        };
        let queued = queues(self);
        let exceptions = |s: &Self| {
            let count = s.stacks[0].counters();
            // Nobody holds a tail loss probe back.
            (count.own.credit_exempt, count.tcp.retrans_segs, count.tcp_ext.tcp_loss_probes)
        };
        let counted = exceptions(self);
        let budget = 1 + self.rng.below(32) as usize;
        self.hand_down(0, budget);
        if exceptions(self) != counted {
            return;
        }
        let cap = u64::from(self.stacks[0].sysctl().tcp_limit_output_bytes);
        let queues = queues(self);
        for (f, flow) in self.flows.iter().enumerate() {
            if let (Some(was), Some(is)) = (queued[f], queues[f])
                && let (Some(limit), Some(later)) = (was.limit, is.limit)
            {
                // A millisecond of what the queue passes on; a queue that was empty takes one packet.
                let limit = limit.max(later).max(was.bytes).max(PACKET_BYTES_MAX);
                assert!(is.bytes <= limit, "{is:?} after {was:?}");
                self.limited += 1;
                continue;
            }
            // Two packets or a millisecond's worth, at most the cap; what is below may then exceed it by one packet.
            let limit = (rates[f] >> 10).max(2 * PACKET_CHARGE_MAX).min(cap);
            let (was, is) = (before[f], self.below(flow.id));
            assert!(
                is <= was.max(limit) + PACKET_CHARGE_MAX,
                "{is} below with a limit of {limit}, {was} before"
            );
        }
    }

    fn transmit_b(&mut self) {
        self.hand_down(1, 64);
    }

    fn hand_down(&mut self, from: usize, budget: usize) {
        let Self { stacks, rng, wire, owed, habits, dev, now, lengths, strangers, .. } = self;
        let habits = if from == 0 { *habits } else { [0; 3] };
        let mut device = |_: Instant, mut packet: Packet| {
            if rng.chance_ppm(habits[0]) {
                return Submit::NotNow(packet);
            }
            if rng.chance_ppm(habits[2]) {
                packet.owner.into_iter().for_each(|owner| back(strangers, owner));
                return Submit::Dropped;
            }
            let (owner, bytes) = (packet.owner.take(), packet.line_bytes());
            wire[from].push_back(packet);
            if rng.chance_ppm(habits[1]) {
                owner.into_iter().filter(|_| from == 0).for_each(|owner| back(strangers, owner));
                return Submit::Completed;
            }
            if from == 0 {
                lengths.extend(owner.map(|_| u64::from(bytes)));
            }
            owed[from].extend(owner);
            Submit::Sent
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

    /// Completions come late, one by one or many at once, also for sockets that are gone.
    fn complete(&mut self) {
        for from in 0..2 {
            let n = if self.rng.below(3) == 0 { usize::MAX } else { self.rng.below(4) as usize };
            for _ in 0..n.min(self.owed[from].len()) {
                self.complete_one(from);
            }
        }
    }

    fn complete_one(&mut self, from: usize) {
        let Some(owner) = self.owed[from].pop_front() else { return };
        if from == 0 {
            self.lengths.pop_front();
            back(&mut self.strangers, owner);
        }
        self.stacks[from].complete(self.now, self.dev, owner);
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
        let at_device = self.owed[0].iter().zip(&self.lengths).filter(|(owner, _)| owner.flow.socket == id);
        held + at_device.map(|(_, len)| len).sum::<u64>()
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
        if self.rng.below(2) == 0 {
            options.notsent_lowat = limits[self.rng.below(5) as usize];
        } else {
            options.sndbuf = Some(4_608 << self.rng.below(12));
        }
        let _ = self.stacks[0].set_options(self.now, id, options);
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
        let (memory, unsent) = (stack.memory(id).ok()?, stack.tcp_info(id).ok()?.notsent_bytes);
        let sysctl = (stack.sysctl().tcp_notsent_lowat, u32::from(stack.sysctl().notsent_lowat_half));
        let lowat = stack.options(id).ok().map(|o| o.notsent_lowat).filter(|&l| l != 0).unwrap_or(sysctl.0);
        let cut = each * u64::from(stack.tcp_info(id).ok()?.unacked);
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
            self.flows[f].waits = false;
        }
        while self.stacks[1].next_event().is_some() {}
        for f in 0..self.flows.len() {
            assert!(!self.flows[f].waits || self.writable(f) != Some(true), "a wake-up is lost");
        }
    }

    /// Everything completes and arrives from now on: what was written must too.
    fn heal(&mut self) {
        self.habits = [0; 3];
        for _ in 0..20_000 {
            for from in 0..2 {
                self.hand_down(from, usize::MAX >> 1);
                while !self.owed[from].is_empty() {
                    self.complete_one(from);
                }
                while let Some(packet) = self.wire[from].pop_front() {
                    self.stacks[1 - from].receive(self.now, self.dev, packet);
                }
                self.stacks[1 - from].flush(self.now);
            }
            self.read();
            self.hear();
            if self.flows.iter().all(|f| f.aborted || (f.peer.is_some() && f.received == f.written)) {
                return;
            }
            if !self.stacks.iter().any(|s| s.needs_transmit(self.dev)) {
                let next = self.stacks.iter().filter_map(Stack::next_deadline).min();
                self.now = next.unwrap_or(self.now).max(self.now + Duration::from_micros(10));
            }
            self.timers();
        }
        let left: Vec<_> = self.flows.iter().map(|f| (f.aborted, f.written, f.received)).collect();
        panic!("written data does not arrive: {left:?}");
    }
}

/// The charge of a packet has come back.
fn back(charges: &mut BTreeMap<SocketId, u64>, owner: Owner) {
    if let Some(charge) = charges.get_mut(&owner.flow.socket) {
        *charge = charge.saturating_sub(u64::from(owner.charge));
    }
}

fn run(seed: u64) -> [u64; 5] {
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
    let credit = schedule.stacks[0].counters().waits(Wait::Credit);
    let aware = schedule.stacks[0].counters().waits(Wait::QueueAware);
    [credit, schedule.flows.iter().map(|f| f.received).sum(), aware, schedule.limited, schedule.compared]
}

#[test]
fn small_queues_and_writability_hold_in_every_schedule() {
    let mut sums = [0; 5];
    for seed in SEEDS {
        let result = std::panic::catch_unwind(|| run(seed));
        let counts = result.unwrap_or_else(|e| {
            println!("seed {seed} failed");
            std::panic::resume_unwind(e)
        });
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let [throttled, bytes, aware, limited, compared] = sums;
    println!(
        "{SEEDS:?} schedules: {bytes} bytes, {throttled} times a flow waited for credit, {aware} times for its own queue, {limited} looks"
    );
    assert!(throttled > 1_000 && bytes > 100_000_000, "the schedules reach what they are about");
    assert!(compared > 10_000, "the schedules look at what stands below: {compared}");
    assert!(aware > 100 && limited > 1_000, "the schedules reach the queue-aware limit: {aware} {limited}");
}
