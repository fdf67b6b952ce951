//! A simulated host: one stack with its device, its programs, and the loop that a driver would run around them.
mod core;

pub use self::core::Core;

use crate::app::{App, Io};
use crate::check::aware::Below;
use crate::check::bounds::{self, Standing, Turns};
use crate::check::chunks::{self, Chunks, Habits};
use crate::check::early::Ground;
use crate::check::pace::Paces;
use crate::check::paths::{self, Paths};
use crate::check::segments::{self, Segments};
use crate::check::size::Sizes;
use crate::check::{Departure, Ledger};
use crate::edit::wire_size;
use crate::link::{Pipe, Submitted};
use crate::pcap::Direction;
use crate::schedule::{Step, StuckGuard};
use crate::world::Capture;
use ::core::cell::OnceCell;
use lowwater_core::base::{DropWhy, Instant, Rng, SocketId, Sysctl};
use lowwater_core::device::{DeviceCaps, Submit};
use lowwater_core::packet::{Owner, Packet};
use lowwater_core::socket::Event;
use lowwater_core::stack::Witnessed;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What a host is.
#[derive(Clone, Debug)]
pub struct HostSpec {
    /// Settings of its stack.
    pub sysctl: Sysctl,
    /// Its device.
    pub caps: DeviceCaps,
    /// Its addresses; everything else is reached over the device.
    pub addresses: Vec<IpAddr>,
    /// How long the device gathers packets before the stack gets them (interrupt coalescing), in nanoseconds.
    pub rx_coalesce_ns: u64,
    /// Budget of one transmit call in packets.
    pub budget: usize,
    /// The queueing discipline in front of the device in the words of `tc`; empty for the default.
    pub qdisc: String,
    /// What its associations may do.
    pub habits: Habits,
}

impl HostSpec {
    /// A host with one address and a device that offloads everything.
    #[must_use]
    pub fn new(address: IpAddr) -> Self {
        Self {
            sysctl: Sysctl::default(),
            caps: DeviceCaps::offloading(1500).repeating_cwr(),
            addresses: vec![address],
            rx_coalesce_ns: 0,
            budget: 64,
            qdisc: String::new(),
            habits: Habits::default(),
        }
    }
}

struct Slot {
    app: Box<dyn App>,
    rng: Rng,
    wake_at: Option<Instant>,
}

/// What a host reaches outside itself while it runs.
pub(crate) struct Outside<'a> {
    pub(crate) pipe: Option<&'a mut Pipe>,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) guard: &'a mut StuckGuard,
    pub(crate) capture: &'a mut Option<Capture>,
    pub(crate) host: usize,
}

/// Counts of packets and of credit at the border of a host.
#[derive(Clone, Debug, Default)]
struct Account {
    arrived: u64,
    taken: u64,
    charged: u64,
    refunded: u64,
    /// Credit that the device must still give back, by flow.
    owed: BTreeMap<SocketId, u64>,
    /// IP bytes and owner of each packet of a flow in the device, oldest first.
    packets: BTreeMap<SocketId, VecDeque<(u32, Owner)>>,
    /// IP bytes of a flow that the device has told to have left.
    left: BTreeMap<SocketId, u64>,
    /// Ends and IP bytes of the first pieces of a packet that was cut before the device, between which nothing stands: the last has the owner.
    cut: Option<(Ends, u32)>,
    /// Owners of control traffic that left before its time in this turn.
    control: Vec<SocketId>,
}

/// `TC_PRIO_CONTROL`, which `fq` does not hold back.
const PRIO_CONTROL: u8 = 7;

/// The two ends of a connection.
type Ends = (SocketAddr, SocketAddr);

impl Account {
    /// IP bytes of the pieces before this one with data between such ends.
    fn pieces_before(&self, ends: Option<Ends>) -> u32 {
        self.cut.filter(|(of, _)| Some(*of) == ends).map_or(0, |(_, bytes)| bytes)
    }

    /// The device took a packet with data between such ends.
    fn charge(&mut self, owner: Option<Owner>, bytes: u32, ends: Option<Ends>) {
        let bytes = self.pieces_before(ends) + bytes;
        self.cut = ends.filter(|_| owner.is_none()).map(|ends| (ends, bytes));
        if let Some(owner @ Owner { flow, charge, .. }) = owner {
            let id = flow.socket;
            self.charged += u64::from(charge);
            self.packets.entry(id).or_default().push_back((bytes, owner));
            *self.owed.entry(id).or_default() += u64::from(charge);
        }
    }

    /// It has left.
    fn settle(&mut self, owner: Owner) {
        let id = owner.flow.socket;
        if let Some(packets) = self.packets.get_mut(&id) {
            *self.left.entry(id).or_default() += packets.pop_front().map_or(0, |(bytes, _)| u64::from(bytes));
        }
        if let Some(owed) = self.owed.get_mut(&id) {
            *owed = owed.saturating_sub(u64::from(owner.charge));
            if *owed == 0 {
                self.owed.remove(&id);
                self.packets.remove(&id);
            }
        }
    }
}

/// A host.
pub struct Host {
    core: Core,
    apps: Vec<Slot>,
    owners: BTreeMap<SocketId, usize>,
    rx: VecDeque<Packet>,
    rx_at: Option<Instant>,
    rx_coalesce_ns: u64,
    budget: usize,
    stopped: bool,
    addresses: Vec<IpAddr>,
    account: Account,
    watch: Watch,
}

/// What checkers know of a host, in the profiles that have them look.
struct Watch {
    /// What its segments and packets of SCTP say.
    segments: Segments,
    chunks: Chunks,
    /// The queue before its device cuts packets.
    cuts: bool,
    /// The turns after which bounds of connections are looked at.
    turns: Turns,
    /// When connections may go on by their pace, and paths of associations.
    paces: Paces,
    paths: Paths,
}

impl Host {
    /// A host at rest; with `journal`, every input of its stack is recorded from the first.
    pub(crate) fn new(spec: HostSpec, seed: u64, now: Instant, journal: bool) -> Self {
        let mut core = Core::new(seed, spec.sysctl, now);
        if journal {
            core.record();
        }
        if segments::WATCHED {
            core.stack_mut().watch();
        }
        let mtu = spec.caps.mtu;
        core.add_device(now, spec.caps);
        if !spec.qdisc.is_empty() {
            core.set_qdisc(now, &spec.qdisc).expect("words that were read before");
        }
        for ip in &spec.addresses {
            let prefix = if ip.is_ipv4() { 24 } else { 64 };
            core.add_address(now, *ip, prefix).expect("a fresh stack takes an address");
        }
        for any in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
            core.add_route(now, any, 0, None).expect("a fresh stack takes a route");
        }
        Self {
            core,
            apps: Vec::new(),
            owners: BTreeMap::new(),
            rx: VecDeque::new(),
            rx_at: None,
            rx_coalesce_ns: spec.rx_coalesce_ns,
            budget: spec.budget.max(1),
            stopped: false,
            addresses: spec.addresses,
            account: Account::default(),
            watch: Watch {
                segments: Segments::new(is_orderly(&spec.qdisc)),
                chunks: Chunks::new(keeps_paths_in_order(&spec.qdisc), mtu, spec.habits),
                cuts: spec.qdisc.starts_with("tbf"),
                turns: Turns::default(),
                paces: Paces::default(),
                paths: Paths::default(),
            },
        }
    }

    pub(crate) fn add_app(&mut self, app: Box<dyn App>, rng: Rng) {
        self.apps.push(Slot { app, rng, wake_at: None });
    }

    /// Its programs.
    pub fn apps(&self) -> impl Iterator<Item = &dyn App> {
        self.apps.iter().map(|s| &*s.app)
    }

    /// Its stack.
    #[must_use]
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Its stack.
    pub fn core_mut(&mut self) -> &mut Core {
        &mut self.core
    }

    /// Puts another queueing discipline in front of its device.
    pub(crate) fn set_qdisc(&mut self, now: Instant, words: &str) -> Result<(), String> {
        self.core.set_qdisc(now, words)?;
        self.watch.cuts |= words.starts_with("tbf");
        if !is_orderly(words) {
            self.watch.segments.set_disorderly();
        }
        if !keeps_paths_in_order(words) {
            self.watch.chunks.set_disorderly();
        }
        Ok(())
    }

    /// Its addresses.
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Packets that arrived, that the stack has taken, and that wait in the device.
    #[must_use]
    pub fn received_packets(&self) -> (u64, u64, u64) {
        (self.account.arrived, self.account.taken, self.rx.len() as u64)
    }

    /// What its segments have said.
    #[must_use]
    pub fn segments(&self) -> &Segments {
        &self.watch.segments
    }

    /// Whatever its transports have made has left it, or waits: nothing was lost on the way to its device.
    #[must_use]
    pub fn loses_nothing(&self) -> bool {
        loses_nothing(&self.core)
    }

    /// Bytes of credit that went to the device, and that came back.
    #[must_use]
    pub fn credit(&self) -> (u64, u64) {
        (self.account.charged, self.account.refunded)
    }

    /// Bytes of a flow's credit that the device must still give back.
    #[must_use]
    pub fn owed(&self, socket: SocketId) -> u64 {
        self.account.owed.get(&socket).copied().unwrap_or(0)
    }

    /// IP bytes of each flow that has some below it: in the stack's queues, and in the device until that tells that they have left.
    #[must_use]
    pub fn below(&self) -> BTreeMap<SocketId, u64> {
        let sum =
            |packets: &VecDeque<(u32, Owner)>| packets.iter().map(|(len, _)| u64::from(*len)).sum::<u64>();
        let mut below: BTreeMap<_, _> = self.account.packets.iter().map(|(id, p)| (*id, sum(p))).collect();
        for credit in self.core.stack().credits() {
            *below.entry(credit.socket).or_default() += credit.held_bytes;
        }
        below
    }

    /// IP bytes of a flow that have left, as the device told.
    #[must_use]
    pub fn left(&self, socket: SocketId) -> u64 {
        self.account.left.get(&socket).copied().unwrap_or(0)
    }

    /// A packet reached the device.
    pub(crate) fn arrive(&mut self, now: Instant, mut packet: Packet) {
        packet.at = now;
        packet.owner = None;
        self.account.arrived += 1;
        self.rx.push_back(packet);
        self.rx_at.get_or_insert(now.plus_nanos(self.rx_coalesce_ns));
    }

    /// A packet has left the device.
    pub(crate) fn complete(&mut self, now: Instant, owner: Owner) {
        self.account.refunded += u64::from(owner.charge);
        self.account.settle(owner);
        self.core.complete(now, owner);
    }

    /// The device has room again.
    pub(crate) fn device_ready(&mut self, now: Instant) {
        self.stopped = false;
        self.core.device_ready(now);
    }

    /// When the host must run next.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let wakes = self.apps.iter().filter_map(|s| s.wake_at);
        wakes.chain(self.rx_at).chain(self.core.next_deadline()).min()
    }

    /// Does everything that is due: input first, then timers, then programs, then output.
    pub(crate) fn run(&mut self, now: Instant, outside: &mut Outside<'_>) {
        if self.rx_at.is_some_and(|t| t <= now) {
            self.rx_at = None;
            while let Some(packet) = self.rx.pop_front() {
                self.account.taken += 1;
                if let Some(capture) = outside.capture {
                    capture.packet(outside.host, now, Direction::In, &packet);
                }
                if segments::WATCHED {
                    self.watch.segments.received(&packet, now);
                    self.watch.chunks.received(&packet);
                }
                self.core.receive(now, packet);
            }
            self.core.flush(now);
            self.look_back(now, outside);
        }
        if self.core.next_deadline().is_some_and(|t| t <= now) {
            self.core.handle_timeout(now);
        }
        for i in 0..self.apps.len() {
            if self.apps[i].wake_at.is_some_and(|t| t <= now) {
                self.apps[i].wake_at = None;
                self.with_app(now, i, outside, |app, io| app.wake(io));
            }
        }
        self.settle(now, outside);
    }

    /// Calls every program's `start` or `stop`.
    pub(crate) fn each_app(
        &mut self,
        now: Instant,
        outside: &mut Outside<'_>,
        call: fn(&mut dyn App, &mut Io<'_>),
    ) {
        for i in 0..self.apps.len() {
            self.with_app(now, i, outside, call);
        }
        self.settle(now, outside);
    }

    fn with_app(
        &mut self,
        now: Instant,
        i: usize,
        outside: &mut Outside<'_>,
        call: impl FnOnce(&mut dyn App, &mut Io<'_>),
    ) {
        let mut opened = Vec::new();
        let slot = &mut self.apps[i];
        let mut io = Io {
            core: &mut self.core,
            now,
            rng: &mut slot.rng,
            ledger: outside.ledger,
            opened: &mut opened,
            wake_at: &mut slot.wake_at,
        };
        call(&mut *slot.app, &mut io);
        self.owners.extend(opened.into_iter().map(|id| (id, i)));
    }

    /// Hands out events and packets until there are none.
    pub(crate) fn settle(&mut self, now: Instant, outside: &mut Outside<'_>) {
        loop {
            if !outside.guard.step(now, Step { kind: "settle", index: outside.host }) {
                return;
            }
            let mut progress = false;
            while let Some(event) = self.core.next_event(now) {
                progress = true;
                self.dispatch(now, event, outside);
                if !outside.guard.step(now, Step { kind: event_name(&event), index: outside.host }) {
                    return;
                }
            }
            if self.core.needs_transmit() {
                progress |= self.transmit(now, outside);
            }
            if !progress {
                return;
            }
        }
    }

    fn transmit(&mut self, now: Instant, outside: &mut Outside<'_>) -> bool {
        let looks = segments::WATCHED && self.watch.turns.is_due();
        let before = looks.then(|| Standing::of(&self.core, now, self.watch.cuts));
        let Self { core, account, watch, .. } = self;
        let Watch { segments, chunks, cuts, turns, paces, .. } = watch;
        let holds = segments::WATCHED && core.holds_back();
        account.control.clear();
        let Outside { pipe, capture, host, ledger, .. } = outside;
        let mut device = |at: Instant, packet: Packet| {
            let Some(pipe) = pipe.as_deref_mut() else { return Submit::Dropped };
            let owner = packet.owner;
            let ends = segments::data_of(&packet);
            let (_, bytes) = wire_size(&packet);
            let copy = (capture.is_some() || segments::WATCHED).then(|| packet.clone());
            // Control traffic is not held back (`fq_classify`).
            let control = packet.priority.is_some_and(|priority| priority & 15 == PRIO_CONTROL);
            if holds && packet.at > at && control {
                account.control.extend(owner.map(|owner| owner.flow.socket));
            } else if holds && packet.at > at {
                let what = format!("host {host}: {owner:?} leaves before its time, {}", packet.at);
                ledger.fail(bounds::NAME, at, what);
            }
            let noted = ledger.departures.is_some().then(|| departure(at, *host, &packet));
            let answer = pipe.submit(at, packet);
            let filled = matches!(answer, Submitted::Filled);
            match answer {
                Submitted::Sent | Submitted::Filled => {
                    account.charge(owner, bytes, ends);
                    if let (Some(departures), Some(noted)) = (&mut ledger.departures, noted) {
                        departures.push(noted);
                    }
                    if let Some(copy) = copy {
                        if segments::WATCHED {
                            segments.sent(&copy);
                            chunks.sent(&copy);
                        }
                        if let Some(capture) = capture.as_mut() {
                            capture.packet(*host, at, Direction::Out, &copy);
                        }
                    }
                    if filled { Submit::Filled } else { Submit::Sent }
                }
                Submitted::NotNow(packet) => Submit::NotNow(packet),
                Submitted::Dropped => Submit::Dropped,
            }
        };
        let done = core.transmit(now, self.budget, &mut device);
        if let Some(before) = before {
            let kept = kept(core, account, &before, now, *cuts, paces);
            turns.spend(2 * before.connections() + kept.as_ref().map_or(0, |walked| *walked));
            let kept = kept.map(|_| ()).map_err(|what| format!("host {host}: {what}"));
            ledger.check(bounds::NAME, now, kept);
        }
        let whole = loses_nothing(core);
        for (name, wrong) in [(segments::NAME, segments.wrong(whole)), (chunks::NAME, chunks.wrong(whole))] {
            ledger.check(name, now, wrong.map_err(|what| format!("host {host}: {what}")));
        }
        self.look_back(now, outside);
        self.stopped |= done.stopped;
        let progress = done.packets > 0 || done.more;
        if !progress
            && !self.stopped
            && self.core.needs_transmit()
            && self.core.next_deadline().is_none_or(|t| t > now)
        {
            outside.ledger.fail("driver", now, "needs_transmit stays true though transmit has nothing to do");
        }
        progress
    }

    /// What went down where nobody could look before and after, since the last time.
    fn look_back(&mut self, now: Instant, outside: &mut Outside<'_>) {
        let witnessed = if segments::WATCHED { self.core.stack_mut().witnessed() } else { Vec::new() };
        let Self { core, account, watch, .. } = self;
        for witnessed in &witnessed {
            let (name, kept) = match witnessed {
                Witnessed::Early(early) => {
                    let sizes = Sizes::of(core.stack().sysctl());
                    let ground = Ground { sizes, late: core.lateness(), holds: core.holds_back() };
                    let held = || below(core, account).get(&early.socket).map_or(0, Below::held);
                    let kept = ground.keeps(early, &mut watch.paces, held);
                    (bounds::NAME, kept.map_err(|what| format!("{:?} {what}", early.socket)))
                }
                Witnessed::Turn(turn) => {
                    if watch.paths.is_new(turn.socket) {
                        watch.paths.retain(|id| core.stack().queues(id).is_ok());
                    }
                    watch.paths.turn(turn);
                    continue;
                }
                Witnessed::Data(packet) => (paths::NAME, watch.paths.keeps(packet)),
                Witnessed::Lost => (bounds::NAME, Err("more has gone down than was looked at".to_owned())),
            };
            let kept = kept.map_err(|what| format!("host {}: {what}", outside.host));
            outside.ledger.check(name, now, kept);
        }
    }

    fn dispatch(&mut self, now: Instant, event: Event, outside: &mut Outside<'_>) {
        let (Event::Readable(id)
        | Event::Writable(id)
        | Event::Connected(id)
        | Event::Accepted(id)
        | Event::Closed(id)
        | Event::Gone(id)
        | Event::Incoming { listener: id, .. }
        | Event::RequestGone { listener: id, .. }) = event;
        if matches!(event, Event::Writable(_)) {
            outside.ledger.writable_events += 1;
        }
        let owner = if matches!(event, Event::Gone(_)) {
            self.owners.remove(&id)
        } else {
            self.owners.get(&id).copied()
        };
        if let Some(i) = owner {
            self.with_app(now, i, outside, |app, io| app.event(io, event));
        }
    }
}

/// What connections have sent since `before` keeps to their bounds; how many packets that was seen by.
fn kept(
    core: &Core,
    account: &Account,
    before: &Standing,
    now: Instant,
    cuts: bool,
    paces: &mut Paces,
) -> Result<u64, String> {
    let stack = core.stack();
    // A walk over all that waits: once for all flows, and where somebody asks.
    let all = OnceCell::new();
    let below = |id| all.get_or_init(|| below(core, account)).get(&id).cloned().unwrap_or_default();
    let sent = |id, from| stack.sent_from(id, from);
    Standing::of(core, now, cuts).after(before, now, paces, below, sent)
}

/// What is below each flow of a host that has something there: in the stack's queues, and in the device until that tells that it has left.
fn below(core: &Core, account: &Account) -> BTreeMap<SocketId, Below> {
    let mut all: BTreeMap<_, Below> = BTreeMap::new();
    for (id, packets) in &account.packets {
        let below = all.entry(*id).or_default();
        packets.iter().for_each(|(bytes, owner)| below.add(*bytes, (owner.charge, owner.whole)));
    }
    // The device may have said "not now" between two pieces.
    let mut first = true;
    core.stack().each_held(&mut |packet, owner, bytes| {
        let before = if first { account.pieces_before(segments::data_of(packet)) } else { 0 };
        first = false;
        let below = all.entry(owner.flow.socket).or_default();
        below.add(before + bytes, (owner.charge, owner.whole));
        below.hold();
    });
    for id in &account.control {
        all.entry(*id).or_default().hold();
    }
    all
}

/// Packets leave a queueing discipline in the words of `tc` in the order in which transports make them: what has no data overtakes paced data in
/// `fq`, and anything overtakes anything in `netem`.
fn is_orderly(qdisc: &str) -> bool {
    !qdisc.split(' ').any(|word| ["fq", "netem"].contains(&word))
}

/// So do those of an association, whose paths are flows of their own, and have queues of their own in some.
fn keeps_paths_in_order(qdisc: &str) -> bool {
    is_orderly(qdisc) && !["fq_codel", "mq"].iter().any(|q| qdisc.starts_with(q))
}

fn loses_nothing(core: &Core) -> bool {
    use DropWhy::{Aqm, Device, Emulated, NoRoute, QueueFull, TooBig};
    let lost = [Aqm, Device, Emulated, NoRoute, QueueFull, TooBig];
    lost.into_iter().all(|why| core.stack().counters().drops(why) == 0)
}

fn departure(at: Instant, host: usize, packet: &Packet) -> Departure {
    let flow = packet.owner.map(|owner| owner.flow.socket);
    let (segs, _) = wire_size(packet);
    Departure { at, host, flow, bytes: packet.payload.len() as u32, segs }
}

fn event_name(event: &Event) -> &'static str {
    match event {
        Event::Readable(_) => "readable",
        Event::Writable(_) => "writable",
        Event::Connected(_) => "connected",
        Event::Accepted(_) => "accepted",
        Event::Incoming { .. } => "incoming",
        Event::RequestGone { .. } => "request gone",
        Event::Closed(_) => "closed",
        Event::Gone(_) => "gone",
    }
}
