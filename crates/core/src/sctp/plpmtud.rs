//! Path MTU discovery by probes (RFC 8899): HEARTBEATs that PAD makes as long as a packet, for paths whose routers say nothing.
//!
//! The phases, the times and the base are Linux's (`sctp_transport_pl_send`); the search between what passes and what does not is
//! binary. Probes that are lost are no errors of the path, and say nothing of congestion.
use super::assoc::Assoc;
use super::input::probe_info;
use super::output::Outgoing;
use super::output::bundle::{Bundle, TlvList};
use super::paths::{PathId, PathState};
use crate::base::time::Duration;
use crate::base::{Cx, Instant};
use lowwater_wire::sctp::{CHUNK_HEADER_LEN, Chunk, HEADER_LEN, Param, Tlvs};

/// What every path is expected to carry (BASE_PLPMTU).
const BASE: u16 = 1_200;
/// Unanswered probes after which a size counts as too large (MAX_PROBES).
const PROBES_MAX: u8 = 3;
/// The search ends when it knows the size to so many bytes.
const STEP: u16 = 4;
/// Confirmations of a size after which a larger one is tried again (PMTU_RAISE_TIMER, counted as in Linux).
const RAISE_AFTER: u8 = 30;
/// Least time between probes in milliseconds (PROBE_TIMER).
const INTERVAL_MIN_MS: u32 = 5_000;

/// Phase of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Does the base pass?
    Base,
    /// Between the last size that did and `high`.
    Search,
    /// Found; it is confirmed from time to time.
    Complete,
    /// Not even the base passes.
    Error,
}

/// What became of probes of one size in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// They stayed without answer.
    lost: u8,
    /// They confirmed it.
    confirmed: u8,
}

/// The search on one path.
#[derive(Clone, Debug)]
pub(super) struct Plpmtud {
    phase: Phase,
    /// The route's MTU, beyond which nothing can be.
    route: u16,
    /// The largest size that has passed.
    good: u16,
    /// The largest that may still pass.
    high: u16,
    /// The size that is asked for.
    probe: u16,
    tally: Tally,
    /// Packets are no longer than this; `u16::MAX` while nothing is known.
    limit: u16,
    /// The longest packet with data since nothing was in flight, or since a timeout.
    longest: u16,
    /// What the answer must carry; 0 when no probe is out.
    nonce: u64,
    wanted: bool,
    /// The time for one came while the path was not active.
    put_off: bool,
    deadline: Instant,
}

impl Plpmtud {
    /// Begins with the base, now.
    fn new(route: u16, now: Instant) -> Self {
        Self {
            phase: Phase::Base,
            route,
            good: 0,
            high: route,
            probe: BASE.min(route),
            tally: Tally::default(),
            limit: u16::MAX,
            longest: 0,
            nonce: 0,
            wanted: false,
            put_off: false,
            deadline: now,
        }
    }

    /// When the next probe is due.
    #[must_use]
    pub(super) const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// No more probes.
    pub(super) const fn stop(&mut self) {
        (self.wanted, self.nonce, self.deadline) = (false, 0, Instant::FAR_FUTURE);
    }

    /// The route has this MTU; the path's then. What was found for another MTU holds no longer than that (Linux `sctp_transport_pl_toobig`,
    /// `sctp_transport_pl_reset`).
    pub(super) fn on_route(&mut self, mtu: u16) -> u16 {
        let before = core::mem::replace(&mut self.route, mtu);
        if mtu != before {
            // The answer to a probe of before says nothing of what is asked now.
            (self.nonce, self.tally) = (0, Tally::default());
            self.high = mtu;
            match self.phase {
                Phase::Base | Phase::Error => self.probe = BASE.min(mtu),
                Phase::Search | Phase::Complete if mtu <= self.good => {
                    (self.phase, self.good, self.probe, self.limit) = (Phase::Complete, mtu, mtu, mtu);
                }
                Phase::Search | Phase::Complete => self.search(),
            }
        }
        mtu.min(self.limit)
    }

    /// The next size between what has passed and what may still pass; or that was all.
    fn search(&mut self) {
        let between = self.high.saturating_sub(self.good);
        if between < STEP {
            (self.phase, self.probe, self.limit) = (Phase::Complete, self.good, self.good);
        } else {
            self.phase = Phase::Search;
            // The route's own size is the likely one. Packets of SCTP are multiples of four.
            let half = (self.good + between.div_ceil(2)).checked_next_multiple_of(STEP);
            let half = half.unwrap_or(self.high).min(self.high);
            self.probe = if self.high == self.route { self.high } else { half };
        }
    }

    /// The probe was answered.
    fn on_answer(&mut self) {
        (self.nonce, self.tally.lost) = (0, 0);
        if self.phase == Phase::Complete {
            if self.good >= self.route {
                return;
            }
            self.tally.confirmed += 1;
            if self.tally.confirmed < RAISE_AFTER {
                return;
            }
            self.high = self.route;
        }
        if matches!(self.phase, Phase::Base | Phase::Error) {
            self.high = self.route;
        }
        self.tally.confirmed = 0;
        self.good = self.probe;
        self.search();
        self.wanted = self.phase == Phase::Search;
    }

    /// Nobody answers probes of this size.
    fn on_loss(&mut self) {
        (self.nonce, self.tally) = (0, Tally::default());
        match self.phase {
            Phase::Search => {
                // What is as long as that does not pass either.
                self.limit = self.limit.min(self.good);
                self.high = self.probe - STEP;
                self.search();
            }
            // A black hole: from the beginning.
            Phase::Complete => {
                (self.phase, self.good, self.probe) = (Phase::Base, 0, BASE.min(self.route));
                self.limit = self.probe;
            }
            Phase::Base | Phase::Error => {
                self.phase = Phase::Error;
                self.limit = self.limit.min(BASE);
            }
        }
    }

    /// A packet with data leaves that is so long with all its headers; `first`: nothing else is in flight.
    fn on_data(&mut self, len: u16, first: bool) {
        self.longest = if first { len } else { self.longest.max(len) };
    }

    /// What has left stayed without answer. Where something of it was longer than what has ever passed it may be for its length: until the search
    /// says otherwise packets are no longer than that (RFC 8899 section 4.3), or than the base, before anything has (section 5.2).
    fn suspect(&mut self) {
        let longest = core::mem::take(&mut self.longest);
        let passes = match self.phase {
            Phase::Base => BASE,
            Phase::Search => self.good,
            Phase::Complete | Phase::Error => return,
        };
        if longest > passes {
            self.limit = self.limit.min(passes);
        }
    }

    fn on_timer(&mut self, now: Instant, interval: Duration) {
        self.deadline = now + interval;
        if self.nonce != 0 {
            self.tally.lost += 1;
            if self.tally.lost >= PROBES_MAX {
                self.on_loss();
            }
        }
        self.wanted = true;
    }
}

impl Assoc {
    /// Begins the search on all paths, where the setting says so. What an earlier one has found is forgotten, as the peer may be
    /// elsewhere.
    pub(super) fn begin_probing(&mut self, cx: &Cx<'_>) {
        let on = cx.sysctl.sctp_plpmtud_probe_interval > 0;
        for (_, path) in self.paths.iter_mut() {
            let route = path.room.plpmtud.as_ref().map_or(path.mtu(), |before| before.route);
            path.room.plpmtud = on.then(|| Box::new(Plpmtud::new(route, cx.now)));
        }
    }

    /// A probe is to be sent now.
    pub(super) fn wants_probe(&self) -> bool {
        self.probe_path().is_some()
    }

    fn probe_path(&self) -> Option<PathId> {
        let wanted = self.paths.iter().find(|(_, path)| path.room.plpmtud.as_ref().is_some_and(|p| p.wanted));
        wanted.map(|(id, _)| id)
    }

    /// The time of a path's next probe has come.
    pub(super) fn on_probe_timer(&mut self, cx: &Cx<'_>, id: PathId) {
        let up = self.state.beats();
        let path = self.paths.get_mut(id);
        let asks = up && path.is_routed() && path.state() == PathState::Active;
        let Some(plpmtud) = &mut path.room.plpmtud else { return };
        if !up {
            path.room.plpmtud = None;
            return;
        }
        let interval = cx.sysctl.sctp_plpmtud_probe_interval.max(INTERVAL_MIN_MS);
        let interval = Duration::from_millis(interval.into());
        if asks {
            plpmtud.on_timer(cx.now, interval);
            self.apply_plpmtu(id);
        } else {
            plpmtud.put_off = true;
            plpmtud.deadline = cx.now + interval;
        }
    }

    /// A packet has left with so many bytes of chunks, and of data in them.
    pub(super) fn note_length(&mut self, id: PathId, chunks: usize, data: u32) {
        let path = self.paths.get_mut(id);
        let (mtu, overhead) = (path.mtu(), path.mtu() - path.pmdcs() as u16);
        let first = path.cwnd.flight() == data;
        if let Some(plpmtud) = &mut path.room.plpmtud {
            // What is longer than the path goes in fragments as long as that.
            let len = u16::try_from(chunks).unwrap_or(u16::MAX).saturating_add(overhead).min(mtu);
            plpmtud.on_data(len, first);
        }
    }

    /// T3-rtx ran out on this path.
    pub(super) fn suspect_length(&mut self, id: PathId) {
        if let Some(plpmtud) = &mut self.paths.get_mut(id).room.plpmtud {
            plpmtud.suspect();
            self.apply_plpmtu(id);
        }
    }

    /// The path has failed, and its MTU is searched for: what is too long for it may be why. A HEARTBEAT that leaves with such data is lost with it,
    /// and the one that is due when T3-rtx runs out does so each time.
    pub(super) fn may_fail_by_length(&self, id: PathId) -> bool {
        let path = self.paths.get(id);
        path.room.plpmtud.is_some() && path.state() != PathState::Active
    }

    /// The path answers a HEARTBEAT. Where it was not active when the time for a probe came, that goes now: a black hole fails the path with what
    /// is too long for it and heals it with a HEARTBEAT, over and over, and may never let it be active at the times of the search.
    pub(super) fn take_up_probing(&mut self, cx: &Cx<'_>, id: PathId) {
        let path = self.paths.get_mut(id);
        let active = path.state() == PathState::Active;
        let Some(plpmtud) = &mut path.room.plpmtud else { return };
        if active && core::mem::take(&mut plpmtud.put_off) {
            self.on_probe_timer(cx, id);
        }
    }

    /// An answer to a probe.
    pub(super) fn on_probe_ack(&mut self, cx: &Cx<'_>, id: PathId, bytes: &[u8]) {
        let Some(plpmtud) = &mut self.paths.get_mut(id).room.plpmtud else { return };
        if plpmtud.nonce == 0 || probe_info(plpmtud.nonce, id) != bytes {
            return;
        }
        plpmtud.on_answer();
        if plpmtud.wanted {
            let interval = cx.sysctl.sctp_plpmtud_probe_interval.max(INTERVAL_MIN_MS);
            plpmtud.deadline = cx.now + Duration::from_millis(interval.into());
        }
        self.apply_plpmtu(id);
    }

    /// Packets become as long as the search says.
    fn apply_plpmtu(&mut self, id: PathId) {
        let path = self.paths.get(id);
        let Some(plpmtud) = &path.room.plpmtud else { return };
        let mtu = plpmtud.route.min(plpmtud.limit);
        if mtu < path.mtu() {
            self.narrow(id, mtu);
        }
        self.paths.get_mut(id).fit();
    }

    /// The packet of a probe: a HEARTBEAT and what fills it up.
    pub(super) fn output_probe(&mut self, cx: &mut Cx<'_>) -> Option<Outgoing> {
        let id = self.probe_path()?;
        let path = self.paths.get_mut(id);
        let overhead = path.mtu() - path.pmdcs() as u16;
        let plpmtud = path.room.plpmtud.as_mut()?;
        plpmtud.wanted = false;
        plpmtud.nonce = cx.rng.next_u64() | 1;
        let room = usize::from(plpmtud.probe.saturating_sub(overhead)) & !3;
        let info = probe_info(plpmtud.nonce, id);
        path.on_transmit(cx);
        let mut bundle = Bundle::new(room, cx.pool.lend(HEADER_LEN + room));
        let (param, mut list) = (Param::HeartbeatInfo(&info), TlvList::default());
        list.push(param.stated_len(), |out| param.emit(out));
        bundle.chunk(&Chunk::Heartbeat(Tlvs::new(list.as_slice())));
        let pad = vec![0; bundle.room().saturating_sub(CHUNK_HEADER_LEN)];
        bundle.chunk(&Chunk::Pad(&pad));
        cx.count.own.sctp_heartbeats += 1;
        cx.count.sctp.out_ctrl_chunks += 2;
        self.owner.counting.add(|c| c.octrlchunks += 2);
        let page = self.finish_packet(cx, bundle, self.id.tags.1);
        let bytes = page.map_err(|page| cx.pool.restore(page)).ok()?;
        let (depart_at, unit) = (cx.now, bytes.len());
        Some(Outgoing { path: id, bytes, unit, charge: 0, depart_at, fragment: false, ect: false })
    }
}

#[cfg(test)]
mod tests;
