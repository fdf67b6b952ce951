//! The paths of an association: one for each address of the peer, their states, the primary one, and who takes over.
//!
//! RFC 9260 sections 5.4 (confirmation), 6.4 (multihomed endpoints), 8.2 (path failure); RFC 7829 (potentially failed).
use super::congestion::Cwnd;
use super::heartbeat::{Cadence, Heartbeat};
use super::notification::PathChange;
use super::options::{PathOptions, SctpOptions};
use super::plpmtud::Plpmtud;
use super::rto::Rto;
use super::tsn::Tsn;
use crate::base::limits::SCTP_PATHS_MAX;
use crate::base::{Cx, DeviceId, Instant, steps};
use crate::credit::Credit;
use crate::path::pacing::Pacing;
use core::net::IpAddr;
use lowwater_wire::sctp::HEADER_LEN;
use lowwater_wire::udp::HEADER_LEN as UDP_HEADER_LEN;
use smallvec::SmallVec;

/// State of a path (`spinfo_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// The peer named the address; nothing was heard from there, so no data goes there (section 5.4).
    Unconfirmed,
    /// It answers.
    Active,
    /// It missed some answers: heartbeats at the timeout find out, data goes elsewhere (RFC 7829).
    PotentiallyFailed,
    /// It missed too many.
    Inactive,
}

impl PathState {
    /// The name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unconfirmed => "unconfirmed",
            Self::Active => "active",
            Self::PotentiallyFailed => "potentially failed",
            Self::Inactive => "inactive",
        }
    }
}

/// What a SACK said about one path, gathered while it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acked {
    /// Bytes newly acknowledged.
    pub bytes: u32,
    /// The cumulative TSN has passed something of this path.
    pub cumulative: bool,
    /// The lowest of them; 0, which no chunk has, for none.
    pub first: Tsn,
    /// Something of this path below all of them is missing still.
    pub behind: bool,
    /// Bytes in flight before with the headers of the chunks and their padding, as are the next two.
    pub load: u32,
    /// Newly acknowledged.
    pub delivered: u32,
    /// Newly marked for retransmission.
    pub lost: u32,
    /// What is newly acknowledged has overtaken something of this path that is not.
    pub overtaken: bool,
}

/// One address of the peer.
#[derive(Debug)]
pub struct Path {
    /// The address.
    pub remote: IpAddr,
    /// The way that it has led last, if any. It stays while there is no route.
    way: Option<Way>,
    /// Its state; only [`Paths`] changes it.
    state: PathState,
    /// Errors in a row.
    pub errors: u16,
    /// How large a packet may be, and what of it is not chunks.
    pub(super) room: Room,
    /// Bounds and interval.
    pub options: PathOptions,
    /// Round-trip time and timeout.
    pub rto: Rto,
    /// The chunk that is timed, one per round trip.
    pub timed: Option<Tsn>,
    /// Congestion window and flight.
    pub cwnd: Cwnd,
    /// When T3-rtx runs out; [`Instant::FAR_FUTURE`] while it is stopped.
    pub t3: Instant,
    /// Heartbeats.
    pub hb: Heartbeat,
    /// The pacer with what this SACK said.
    pub flow: PathFlow,
}

/// Where a route leads.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// Our address.
    local: IpAddr,
    device: DeviceId,
    /// There is a route still.
    open: bool,
}

/// Pacing, credit, and the figures of the SACK at work.
#[derive(Debug)]
pub struct PathFlow {
    /// What it has handed down. Each path has its own, for each may lead by another device.
    pub credit: Credit,
    /// Rate and departure times.
    pub pacing: Pacing,
    /// Bytes that may still leave in this turn, whatever the pacer says; 0 between turns.
    pub train: u32,
    /// What the SACK at work said.
    pub acked: Acked,
    /// The peer has heard something that went this way since the stack has last asked.
    pub heard: bool,
}

/// What packets of a path have room for, and under which number.
#[derive(Debug)]
pub(super) struct Room {
    /// Path MTU in bytes of an IP packet.
    mtu: u16,
    /// What the route takes.
    route: u16,
    /// UDP port of the peer; 0 for packets without UDP (RFC 6951).
    encap: u16,
    /// Its number among all paths that the association ever had: what it has handed down comes back under that name.
    number: u8,
    /// The search for the path MTU, where it is probed.
    pub(super) plpmtud: Option<Box<Plpmtud>>,
}

impl Room {
    /// Bytes of chunks that fit one packet (RFC 9260's PMDCS).
    pub(super) const fn pmdcs(&self, remote: IpAddr) -> u32 {
        let udp = if self.encap == 0 { 0 } else { UDP_HEADER_LEN };
        let ip = if remote.is_ipv6() { 40 } else { 20 };
        self.mtu as u32 - (HEADER_LEN + udp + ip) as u32
    }
}

/// Smallest path MTU that is assumed, so that some data fits whatever a router says.
const MTU_MIN: u16 = 512;
/// Path MTU before the route is known.
const MTU_UNKNOWN: u16 = 1_280;

impl Path {
    fn new(remote: IpAddr, number: u8, confirmed: bool, options: &SctpOptions) -> Self {
        let state = if confirmed { PathState::Active } else { PathState::Unconfirmed };
        let mut pacing = Pacing::new();
        if options.pacing || options.congestion.paces() {
            pacing.need();
        }
        let room =
            Room { mtu: MTU_UNKNOWN, route: MTU_UNKNOWN, encap: options.encap_port, number, plpmtud: None };
        Self {
            remote,
            way: None,
            state,
            errors: 0,
            options: options.path,
            rto: Rto::new(&options.rto),
            timed: None,
            cwnd: Cwnd::new(options.congestion, room.pmdcs(remote), remote.is_ipv6()),
            room,
            t3: Instant::FAR_FUTURE,
            hb: Heartbeat::new(),
            flow: PathFlow { credit: Credit::new(), pacing, train: 0, acked: Acked::default(), heard: false },
        }
    }

    /// Its state.
    #[must_use]
    pub const fn state(&self) -> PathState {
        self.state
    }

    /// It needs no answer to a HEARTBEAT to be the peer's.
    pub fn confirm(&mut self) {
        if self.state == PathState::Unconfirmed {
            self.state = PathState::Active;
        }
    }

    /// Its number among all paths that the association ever had.
    #[must_use]
    pub const fn number(&self) -> u8 {
        self.room.number
    }

    /// Path MTU in bytes of an IP packet.
    #[must_use]
    pub const fn mtu(&self) -> u16 {
        self.room.mtu
    }

    /// Bytes of chunks that fit one packet (RFC 9260's PMDCS).
    #[must_use]
    pub const fn pmdcs(&self) -> u32 {
        self.room.pmdcs(self.remote)
    }

    /// UDP port of the peer; 0 for packets without UDP (RFC 6951).
    #[must_use]
    pub const fn encap(&self) -> u16 {
        self.room.encap
    }

    /// The peer is reached behind this UDP port, or without UDP. What was cut for more room is left to IP to fragment.
    pub fn set_encap(&mut self, port: u16) {
        let fresh = self.cwnd.last_data == Instant::ZERO;
        if self.room.encap != port {
            self.room.encap = port;
            if fresh {
                self.cwnd = Cwnd::new(self.cwnd.kind(), self.pmdcs(), self.remote.is_ipv6());
            }
        }
    }

    /// Our address, as the route gives it; `None` while there is no route.
    #[must_use]
    pub fn local(&self) -> Option<IpAddr> {
        self.way.filter(|way| way.open).map(|way| way.local)
    }

    /// There is a route.
    #[must_use]
    pub const fn is_routed(&self) -> bool {
        matches!(self.way, Some(Way { open: true, .. }))
    }

    /// The route leads this way from now on, and takes packets of `mtu` bytes; true where it has led another way before.
    pub(super) fn set_route(&mut self, (local, device): (IpAddr, DeviceId), mtu: u16) -> bool {
        let old = self.way.replace(Way { local, device, open: true });
        self.set_route_mtu(mtu);
        old.is_some_and(|old| (old.local, old.device) != (local, device))
    }

    /// The route takes packets of so many bytes.
    pub(super) fn set_route_mtu(&mut self, mtu: u16) {
        self.room.route = mtu;
        self.fit();
    }

    /// There is no route.
    pub(super) const fn lose_route(&mut self) {
        if let Some(way) = &mut self.way {
            way.open = false;
        }
    }

    /// Packets are as long as the route, the search and the application let them be.
    pub(super) fn fit(&mut self) {
        let fixed = if self.options.pmtu == 0 { u16::MAX } else { self.options.pmtu };
        let route = self.room.route.min(fixed).max(MTU_MIN);
        let mtu = self.room.plpmtud.as_mut().map_or(route, |plpmtud| plpmtud.on_route(route));
        let (mtu, fresh) = (mtu.max(MTU_MIN), self.cwnd.last_data == Instant::ZERO);
        if mtu != self.room.mtu {
            self.room.mtu = mtu;
            if fresh {
                self.cwnd = Cwnd::new(self.cwnd.kind(), self.pmdcs(), self.remote.is_ipv6());
            }
        }
    }

    /// How its heartbeats go.
    #[must_use]
    pub const fn cadence(&self) -> Cadence {
        let urgent = match self.state {
            // Who never answers is asked as seldom as who has failed: it may be nobody, or a stranger.
            PathState::Unconfirmed => self.errors <= self.options.max_retrans,
            PathState::PotentiallyFailed => true,
            PathState::Active | PathState::Inactive => false,
        };
        Cadence::new(&self.options, self.rto.get(), urgent)
    }

    /// Heartbeats are due to this path at times.
    #[must_use]
    pub const fn beats(&self) -> bool {
        self.options.hb_enable || matches!(self.state, PathState::Unconfirmed)
    }

    /// Something that can refresh the round-trip time leaves on this path: one store. The eager variant of the lab draws and arms
    /// the heartbeat timer anew, as Linux did before commit ba6f5e33bdbb.
    pub fn on_transmit(&mut self, cx: &mut Cx<'_>) {
        self.hb.on_transmit(cx.now);
        if cx.sysctl.sctp_hb_eager && self.hb.deadline() != Instant::FAR_FUTURE {
            let cadence = self.cadence();
            self.hb.arm(cx, &cadence);
        }
    }

    /// Starts T3-rtx for what departs at `depart_at`, unless it runs.
    pub fn start_t3(&mut self, depart_at: Instant) {
        if self.t3 == Instant::FAR_FUTURE {
            self.restart_t3(depart_at);
        }
    }

    /// Starts T3-rtx anew.
    pub fn restart_t3(&mut self, now: Instant) {
        self.t3 = now + self.rto.get();
    }

    /// Its options have changed: heartbeats begin, end or move at once.
    pub fn on_options(&mut self, cx: &mut Cx<'_>, up: bool) {
        self.fit();
        let cadence = self.cadence();
        if !self.beats() {
            self.hb.stop();
        } else if self.hb.deadline() != Instant::FAR_FUTURE {
            self.hb.reschedule(&cadence);
        } else if up {
            self.hb.arm(cx, &cadence);
        }
    }

    /// The peer has started anew: nothing of what was measured counts (section 5.2.4.1).
    pub fn on_restart(&mut self, options: &SctpOptions) {
        self.errors = 0;
        self.rto = Rto::new(&options.rto);
        self.timed = None;
        self.cwnd = Cwnd::new(options.congestion, self.pmdcs(), self.remote.is_ipv6());
        self.t3 = Instant::FAR_FUTURE;
        self.hb = Heartbeat::new();
    }

    /// How good it is for data, 0 the best (RFC 7829 section 5.1).
    fn rank(&self) -> u8 {
        match self.state {
            _ if !self.is_routed() => 4,
            PathState::Active => 0,
            PathState::PotentiallyFailed => 1,
            PathState::Inactive => 2,
            PathState::Unconfirmed => 3,
        }
    }

    /// Something other than a HEARTBEAT or its answer may go there if nothing better is left (section 5.4).
    pub const fn usable(&self) -> bool {
        self.is_routed() && !matches!(self.state, PathState::Unconfirmed)
    }
}

/// Index of a path; a path keeps it until addresses are forgotten ([`Paths::keep`]).
pub type PathId = u8;

/// All paths of an association. There is always one.
#[derive(Debug)]
pub struct Paths {
    list: SmallVec<[Box<Path>; 1]>,
    primary: PathId,
    /// Where data goes: the primary path while it is active.
    active: PathId,
    /// The number of the next path that is added.
    next_number: u8,
    gone: Option<Box<Gone>>,
}

/// What is left of paths that are the peer's no more.
#[derive(Debug, Default)]
struct Gone {
    /// Their addresses, until the stack has heard of them.
    ips: Vec<IpAddr>,
    /// Their charge below the transport.
    below: u32,
}

impl Paths {
    /// One path, which is the primary one. `confirmed` where the application chose the address or the handshake came from it.
    #[must_use]
    pub fn new(remote: IpAddr, confirmed: bool, options: &SctpOptions) -> Self {
        let mut list = SmallVec::new();
        list.push(Box::new(Path::new(remote, 0, confirmed, options)));
        Self { list, primary: 0, active: 0, gone: None, next_number: 1 }
    }

    /// Adds an address, unless it is known or there are too many; true when it was added.
    pub fn add(&mut self, remote: IpAddr, confirmed: bool, options: &SctpOptions) -> bool {
        if let Some(id) = self.find(remote) {
            if confirmed {
                self.get_mut(id).confirm();
            }
            return false;
        }
        if self.list.len() >= SCTP_PATHS_MAX {
            return false;
        }
        self.list.push(Box::new(Path::new(remote, self.next_number, confirmed, options)));
        self.next_number = self.next_number.wrapping_add(1);
        true
    }

    /// Keeps the paths to `named` addresses and forgets the others; the first named one becomes the primary path when that is among
    /// them. Only while nothing is in flight, for the paths that stay have other indices afterwards, also where somebody has noted one.
    pub fn keep(&mut self, named: &[IpAddr]) {
        let Some(first) = named.iter().find_map(|ip| self.find(*ip)) else { return };
        let kept = |path: &Path| named.contains(&path.remote);
        let primary = self.get(if kept(self.get(self.primary)) { self.primary } else { first }).remote;
        for path in self.list.iter().filter(|p| !kept(p)) {
            let gone = self.gone.get_or_insert_default();
            gone.ips.push(path.remote);
            gone.below += path.flow.credit.below();
        }
        self.list.retain(|p| kept(p));
        self.set_primary(self.find(primary).unwrap_or(0));
    }

    /// A packet of the path with this number is done; true when the path waited for that.
    pub fn refund(&mut self, number: u8, charge: u32) -> bool {
        if let Some(path) = self.list.iter_mut().find(|path| path.number() == number) {
            return path.flow.credit.refund(charge);
        }
        if let Some(gone) = &mut self.gone {
            gone.below = gone.below.saturating_sub(charge);
        }
        false
    }

    /// Charge below the transport, of paths that are gone too.
    #[must_use]
    pub fn below(&self) -> u32 {
        let gone = self.gone.as_ref().map_or(0, |gone| gone.below);
        self.list.iter().map(|path| path.flow.credit.below()).fold(gone, u32::saturating_add)
    }

    /// The addresses that were forgotten since the last call.
    pub fn take_gone(&mut self) -> Vec<IpAddr> {
        let ips = self.gone.as_mut().map(|gone| core::mem::take(&mut gone.ips)).unwrap_or_default();
        self.gone.take_if(|gone| gone.below == 0);
        ips
    }

    /// The path to this address.
    #[must_use]
    pub fn find(&self, remote: IpAddr) -> Option<PathId> {
        self.list.iter().position(|p| p.remote == remote).map(|at| at as PathId)
    }

    /// Number of paths.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Never.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them, by index.
    pub fn iter(&self) -> impl Iterator<Item = (PathId, &Path)> {
        self.list.iter().enumerate().map(|(at, path)| (at as PathId, &**path))
    }

    /// All of them, by index.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (PathId, &mut Path)> {
        self.list.iter_mut().enumerate().map(|(at, path)| (at as PathId, &mut **path))
    }

    /// The path of this index.
    #[must_use]
    pub fn get(&self, id: PathId) -> &Path {
        &self.list[usize::from(id)]
    }

    /// The path of this index.
    pub fn get_mut(&mut self, id: PathId) -> &mut Path {
        &mut self.list[usize::from(id)]
    }

    /// The path that is used while all is well.
    #[must_use]
    pub const fn primary(&self) -> PathId {
        self.primary
    }

    /// Makes a path the primary one.
    pub fn set_primary(&mut self, id: PathId) {
        self.primary = id;
        self.choose();
    }

    /// Where new data goes.
    #[must_use]
    pub const fn active(&self) -> PathId {
        self.active
    }

    /// Where something goes again that was sent to `last` and not acknowledged: another active path, if there is one
    /// (section 6.4.1), one whose device is not full if there is one.
    #[must_use]
    pub fn alternate(&self, last: PathId) -> PathId {
        let count = self.list.len();
        let after = (1..count).map(|n| ((usize::from(last) + n) % count) as PathId);
        let good = |id: &PathId| self.get(*id).state == PathState::Active && self.get(*id).usable();
        let free = |id: &PathId| good(id) && !self.get(*id).flow.credit.is_throttled();
        after.clone().find(free).or_else(|| after.clone().find(good)).unwrap_or_else(|| {
            // Nobody else answers: the one with the fewest errors, the one in use when they are equal and it leads anywhere.
            let key = |id: &PathId| (self.get(*id).rank(), self.get(*id).errors);
            let least = after.filter(|id| self.get(*id).usable()).min_by_key(key);
            let bad = !self.get(last).usable();
            least.filter(|id| bad || key(id) < key(&last)).unwrap_or(last)
        })
    }

    /// Chooses where new data goes: the primary path while it is active, else another active one, else the one that is
    /// potentially failed with the fewest errors (RFC 7829 section 5.1), else the primary.
    pub fn choose(&mut self) {
        let key = |id: PathId, path: &Path| (path.rank(), path.errors, id != self.primary, id != self.active);
        let active_primary = self.get(self.primary).rank() == 0;
        let best = self.iter().min_by_key(|&(id, path)| key(id, path)).map_or(self.primary, |(id, _)| id);
        self.active = if active_primary { self.primary } else { best };
    }

    /// Something was heard that only a live path brings: an acknowledgement of DATA, or of a HEARTBEAT (section 8.2). What has
    /// changed, if anything.
    pub fn on_alive(&mut self, id: PathId, heartbeat: bool) -> Option<PathChange> {
        let path = self.get_mut(id);
        path.errors = 0;
        path.flow.heard = true;
        let before = path.state;
        if before == PathState::Unconfirmed && !heartbeat {
            return None;
        }
        path.state = PathState::Active;
        if before == PathState::Active {
            return None;
        }
        let cadence = path.cadence();
        path.hb.reschedule(&cadence);
        self.choose();
        Some(if before == PathState::Unconfirmed { PathChange::Confirmed } else { PathChange::Available })
    }

    /// A transmission to this path stayed without answer. What has changed, if anything.
    pub fn on_error(&mut self, cx: &Cx<'_>, id: PathId) -> Option<PathChange> {
        let pf_enable = cx.sysctl.sctp_pf_enable;
        let path = self.get_mut(id);
        if path.state != PathState::Inactive {
            path.errors = path.errors.saturating_add(1);
        }
        let before = path.state;
        let known = !matches!(before, PathState::Inactive | PathState::Unconfirmed);
        // What never answered stays unconfirmed, for a path that has failed is the peer's still (Linux `sctp_assoc_control_transport`).
        if known && path.errors > path.options.max_retrans {
            path.state = PathState::Inactive;
        } else if pf_enable && before == PathState::Active && path.errors > path.options.pf_retrans {
            path.state = PathState::PotentiallyFailed;
        }
        if path.state == before {
            // Errors decide between those that all miss answers.
            if self.get(self.active).state != PathState::Active {
                self.choose();
            }
            return None;
        }
        // The timer that runs has the long interval of a path that is well.
        let cadence = path.cadence();
        path.hb.reschedule(&cadence);
        let state = path.state;
        self.choose();
        match state {
            PathState::PotentiallyFailed => Some(PathChange::PotentiallyFailed),
            _ => Some(PathChange::Unreachable),
        }
    }

    /// Bytes of the longest chunk that fits every path.
    #[must_use]
    pub fn chunk_max(&self) -> usize {
        self.fragment_point(0) + lowwater_wire::sctp::DATA_HEADER_LEN
    }

    /// Largest amount of user data in one DATA chunk on every path, `maxseg` at the most.
    #[must_use]
    pub fn fragment_point(&self, maxseg: u16) -> usize {
        let routed = self.list.iter().inspect(|_| steps::step()).filter(|p| p.is_routed());
        let pmdcs = routed.map(|p| p.pmdcs()).min().unwrap_or(u32::from(MTU_MIN));
        let most = (pmdcs as usize - lowwater_wire::sctp::DATA_HEADER_LEN) & !3;
        if maxseg == 0 { most } else { most.min(usize::from(maxseg)) }
    }
}

#[cfg(test)]
mod tests;
