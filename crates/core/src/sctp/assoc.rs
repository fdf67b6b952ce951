//! An association: its parts, how it begins, and the questions that others may ask of it.
use super::counts::Counting;
use super::handshake::cookie::Ticket;
use super::handshake::init::{Addresses, Features, Offer};
use super::handshake::restart::Tags;
use super::input::one_cause;
use super::notification::{AssocChange, Notification, PathChange, SendFailed, Subscriptions, Why};
use super::options::SctpOptions;
use super::outstanding::{Chunk, Mark};
use super::paths::{Path, PathId, PathState, Paths};
use super::pending::Pending;
use super::receiver::{Receiver, initial_window};
use super::sender::Sender;
use super::state::State;
use super::timers::Timers;
use super::tsn::Tsn;
use crate::base::limits::SCTP_FAILED_SNDBUFS;
use crate::base::{Carrier, Cx, DeviceId, Duration, Error, Instant};
use bytes::Bytes;
use core::net::IpAddr;
use lowwater_wire::sctp::{Cause, cause_kind, chunk_kind};

/// What an active open needs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Our port and the peer's.
    pub ports: (u16, u16),
    /// The peer's addresses as the application knows them; INIT goes to the first.
    pub remotes: Addresses,
    /// Our addresses, to be announced.
    pub locals: Addresses,
    /// What its packets travel in.
    pub carrier: Carrier,
    /// Options.
    pub options: SctpOptions,
}

/// Who the association is.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) ports: (u16, u16),
    /// Our tag, which the peer's packets carry, and the peer's.
    pub(super) tags: (u32, u32),
    /// Random numbers that stand for the tags in cookies (section 5.2.2).
    pub(super) ties: (u32, u32),
    /// Our first TSN, and the peer's.
    pub(super) tsn: u32,
    pub(super) peer_tsn: u32,
    pub(super) locals: Addresses,
    pub(super) features: Features,
    /// What its packets travel in.
    pub(super) carrier: Carrier,
    /// The application opened it, the peer did not.
    pub(super) active_open: bool,
}

/// What is kept until the handshake is complete.
#[derive(Clone, Debug, Default)]
pub(super) struct Opening {
    /// INITs or COOKIE ECHOs sent again.
    pub(super) tries: u16,
    /// How long T1 runs: the timeout of the path for the first, then doubled. T3 of DATA that goes with a cookie doubles that of the path.
    pub(super) timeout: Duration,
    /// The cookie to be echoed.
    pub(super) cookie: Vec<u8>,
    /// Causes of the ERROR that goes with it.
    pub(super) report: Bytes,
    /// Stale cookies so far; for how many milliseconds the next should live longer.
    pub(super) stale: (u8, u32),
    /// When INIT or COOKIE ECHO was sent first, as long as it was sent once: a sample of the round-trip time.
    pub(super) sent_at: Option<Instant>,
    /// Where it was sent last.
    pub(super) path: PathId,
    /// The peer's adaptation layer, told once the association is up.
    pub(super) adaptation: Option<u32>,
}

/// What the owner of the socket is told, and what he has done.
#[derive(Clone, Debug, Default)]
pub(super) struct Owner {
    pub(super) notice: Notice,
    pub(super) error: Option<Error>,
    /// The counters were told that it is up.
    pub(super) counted: bool,
    /// The application has closed, or given it up. A handshake that is completed later does not undo that.
    pub(super) closing: bool,
    /// It was told that everything was acknowledged.
    pub(super) dry: bool,
    /// Nobody reads any more: what comes is acknowledged and forgotten, so that the peer can end in good order.
    pub(super) deaf: bool,
    /// What ended it, if that was no shutdown; unlike `error` this stays.
    pub(super) cause: Option<Error>,
    /// What it asks to be counted.
    pub(super) counting: Counting,
}

/// Edges for the owner of the socket, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notice(pub u8);

impl Notice {
    /// The handshake is complete.
    pub const CONNECTED: u8 = 1;
    /// There is something to read.
    pub const READABLE: u8 = 2;
    /// A writer that had seen "full" may go on.
    pub const WRITABLE: u8 = 4;
    /// It is over.
    pub const CLOSED: u8 = 8;

    pub(super) const fn add(&mut self, bit: u8) {
        self.0 |= bit;
    }
}

/// What is left of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on, or has something to say still.
    Alive,
    /// It is over, and nothing more is to be sent.
    Dead,
}

/// An association.
#[derive(Debug)]
pub struct Assoc {
    pub(super) state: State,
    pub(super) id: Identity,
    pub(super) options: Box<SctpOptions>,
    pub(super) paths: Paths,
    pub(super) tx: Sender,
    pub(super) rx: Receiver,
    pub(super) opening: Option<Box<Opening>>,
    pub(super) timers: Timers,
    pub(super) pending: Pending,
    /// Transmissions in a row that stayed without answer, on all paths together (section 8.1).
    pub(super) errors: u16,
    pub(super) owner: Owner,
    /// What the stack was told of the memory of its messages.
    pub(super) accounted: u32,
}

/// HEARTBEATs in a round-trip time to addresses that are not confirmed (section 16).
const HB_MAX_BURST: u32 = 1;

/// A verification tag: anything but zero.
pub(super) fn draw_tag(cx: &mut Cx<'_>) -> u32 {
    loop {
        let tag = cx.rng.next_u32();
        if tag != 0 {
            return tag;
        }
    }
}

impl Assoc {
    /// Begins an active open: INIT will be sent.
    #[must_use]
    pub fn connect(cx: &mut Cx<'_>, setup: Setup) -> Self {
        let (tag, tsn) = (draw_tag(cx), cx.rng.next_u32());
        let mut assoc = Self::new(cx, setup, (tag, tsn));
        // What the application names is confirmed by that (section 5.4, rule 1).
        for (_, path) in assoc.paths.iter_mut() {
            path.confirm();
        }
        assoc.id.active_open = true;
        assoc.state = State::CookieWait;
        assoc.opening = Some(Box::default());
        assoc.pending.set(Pending::INIT);
        assoc
    }

    /// A passive open whose cookie came back.
    #[must_use]
    pub fn accept(
        cx: &mut Cx<'_>,
        ticket: &Ticket,
        locals: Addresses,
        carrier: Carrier,
        options: SctpOptions,
    ) -> Self {
        let remotes = ticket.addresses.clone();
        let setup = Setup { ports: ticket.ports, remotes, locals, carrier, options };
        let mut assoc = Self::new(cx, setup, (ticket.tags.0, ticket.tsns.0));
        assoc.adopt(&ticket.offer(), ticket.streams.0, ticket.streams.1);
        assoc.state = State::CookieEchoed;
        assoc.establish(cx);
        assoc.note_round_trip(cx, ticket);
        assoc.pending.set(Pending::COOKIE_ACK);
        assoc
    }

    /// A cookie has come back: INIT ACK and it have taken a round trip, so that a peer which goes dark right then is found out as soon as any.
    /// Either of them may have gone twice, and the peer's timer with it (Karn's rule): what would make the timeout longer than that of a path
    /// of which nothing is known says nothing.
    pub(super) fn note_round_trip(&mut self, cx: &Cx<'_>, ticket: &Ticket) {
        let rtt = cx.now.since(ticket.made_at);
        let Some(id) = ticket.addresses.first().and_then(|ip| self.paths.find(*ip)) else { return };
        let path = self.paths.get_mut(id);
        if path.rto.srtt().is_none() && rtt * 3 < path.rto.get() {
            path.rto.sample_prompt(&self.options.rto, rtt);
            path.update_rate(cx);
        }
    }

    fn new(cx: &mut Cx<'_>, setup: Setup, (tag, tsn): (u32, u32)) -> Self {
        let Setup { ports, remotes, locals, carrier, options } = setup;
        let mut remotes = remotes.into_iter();
        // An association without an address of the peer's is never asked for; such a one would fail by its timer.
        let first = remotes.next().unwrap_or(IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED));
        let mut paths = Paths::new(first, true, &options);
        for ip in remotes {
            paths.add(ip, false, &options);
        }
        let ties = (draw_tag(cx), draw_tag(cx));
        let mut counting = Counting::new(options.counts);
        counting.note_rto(&mut paths);
        Self {
            state: State::CookieWait,
            id: Identity {
                ports,
                tags: (tag, 0),
                ties,
                tsn,
                peer_tsn: 0,
                locals,
                features: Features::default(),
                carrier,
                active_open: false,
            },
            paths,
            tx: Sender::new(Tsn::initial(tsn), options.num_ostreams),
            rx: Receiver::new(Tsn::initial(0), options.max_instreams, &options),
            opening: None,
            timers: Timers::default(),
            pending: Pending::default(),
            errors: 0,
            owner: Owner { counting, ..Owner::default() },
            accounted: 0,
            options: Box::new(options),
        }
    }

    /// Takes over what the peer's INIT or INIT ACK says.
    pub(super) fn adopt(&mut self, offer: &Offer, outbound: u16, inbound: u16) {
        self.id.tags.1 = offer.tag;
        self.id.peer_tsn = offer.tsn;
        self.id.features = offer.features;
        // Where both have opened at once, what went with our COOKIE ECHO is under way.
        self.tx.peer_rwnd = offer.a_rwnd.saturating_sub(self.tx.out.in_flight());
        self.tx.streams = outbound;
        // Notifications may wait already; nothing else can.
        let streams = core::mem::take(&mut self.rx.streams);
        self.rx = Receiver { streams, ..Receiver::new(Tsn::initial(offer.tsn), inbound, &self.options) };
        let named = offer.addresses.iter().filter(|_| self.id.carrier.has_addresses());
        for &ip in named {
            self.paths.add(ip, false, &self.options);
        }
        if let Some(layer) = offer.adaptation {
            self.opening.get_or_insert_default().adaptation = Some(layer);
        }
        // Messages that were queued before the peer said how many streams it takes.
        for message in self.tx.queue.take_beyond(outbound) {
            self.notify_failed(SendFailed::unsent(&message, cause_kind::INVALID_STREAM));
        }
    }

    /// The handshake is complete.
    pub(super) fn establish(&mut self, cx: &mut Cx<'_>) {
        self.set_state(State::Established);
        let opening = self.opening.take();
        self.timers.stop_handshake();
        self.errors = 0;
        self.tx.burst = None;
        self.count_up(cx);
        self.timers.set_autoclose(cx.now, self.options.autoclose_secs);
        self.paths.choose();
        self.begin_heartbeats(cx);
        self.owner.notice.add(Notice::CONNECTED | Notice::WRITABLE);
        self.assoc_change(AssocChange::Up, None, 0, Bytes::new());
        if let Some(layer) = opening.and_then(|opening| opening.adaptation) {
            self.notify(Notification::Adaptation(layer));
        }
    }

    /// Starts the heartbeats of all paths. Those that are not confirmed are asked now, HB.Max.Burst of them in a round-trip time
    /// (section 5.4): an INIT may name as many strangers as it likes. So are those that had failed before the peer has started anew: what
    /// they missed was another peer's.
    pub(super) fn begin_heartbeats(&mut self, cx: &mut Cx<'_>) {
        self.begin_probing(cx);
        let rtt = self.paths.get(self.paths.active()).rto.round_trip();
        let mut asked = 0;
        for (_, path) in self.paths.iter_mut() {
            if path.beats() {
                let cadence = path.cadence();
                path.hb.arm(cx, &cadence);
            }
            if path.state() != PathState::Active && path.beats() {
                path.hb.wanted = asked < HB_MAX_BURST;
                if !path.hb.wanted {
                    path.hb.ask_at(cx.now + rtt * (asked / HB_MAX_BURST));
                }
                asked += 1;
            }
        }
    }

    /// SHUTDOWN or SHUTDOWN ACK goes out: no HEARTBEATs or probes any more (section 8.3).
    pub(super) fn end_heartbeats(&mut self) {
        for (_, path) in self.paths.iter_mut() {
            path.hb.stop();
            if let Some(plpmtud) = &mut path.room.plpmtud {
                plpmtud.stop();
            }
        }
    }

    /// An answer has come, so that a round-trip time is over: the next address that was never asked is.
    pub(super) fn ask_next(&mut self, cx: &mut Cx<'_>) {
        if !self.state.beats() {
            return;
        }
        let never =
            |path: &Path| path.state() == PathState::Unconfirmed && path.hb.last_sent() == Instant::ZERO;
        let next = self.paths.iter_mut().map(|(_, path)| path).find(|path| never(path) && !path.hb.wanted);
        if let Some(path) = next {
            path.hb.wanted = true;
            let cadence = path.cadence();
            path.hb.arm(cx, &cadence);
        }
    }

    fn count_up(&mut self, cx: &mut Cx<'_>) {
        if !self.owner.counted {
            self.owner.counted = true;
            let count = &mut cx.count.sctp;
            count.curr_estab += 1;
            if self.id.active_open { count.active_estabs += 1 } else { count.passive_estabs += 1 }
        }
    }

    /// The only place that changes the state.
    pub(super) fn set_state(&mut self, next: State) {
        debug_assert!(self.state.may_become(next), "{:?} -> {next:?}", self.state);
        self.state = next;
    }

    /// What the owner is told of an end that is no shutdown.
    pub(super) const fn failure(&self) -> AssocChange {
        if self.state.is_opening() { AssocChange::CannotStart } else { AssocChange::Lost }
    }

    /// It is over: everything is forgotten but what can be read, and what is still to be said.
    pub(super) fn finish(&mut self, cx: &mut Cx<'_>, change: AssocChange, error: Option<Error>, why: Why) {
        if self.state == State::Closed {
            return;
        }
        self.set_state(State::Closed);
        if self.owner.counted {
            self.owner.counted = false;
            cx.count.sctp.curr_estab -= 1;
        }
        self.timers = Timers::default();
        self.opening = None;
        for (_, path) in self.paths.iter_mut() {
            path.hb.stop();
            path.room.plpmtud = None;
            path.t3 = Instant::FAR_FUTURE;
            path.cwnd.end();
        }
        self.rx.ended = true;
        (self.owner.error, self.owner.cause) = (error, error);
        self.owner.notice.add(Notice::CLOSED | Notice::READABLE);
        let (cause, info) = why.told();
        self.assoc_change(change, error, cause, info);
        self.fail_messages(cause);
    }

    /// Messages that will not be acknowledged: their owner may want to know. What was given up before was told then. Of what gap blocks
    /// have named nobody knows whether it was read, as in Linux (`sctp_outq_teardown`).
    pub(super) fn fail_messages(&mut self, cause: u16) {
        let told = |chunk: &Chunk| chunk.mark == Mark::Abandoned;
        let sent = self.tx.out.drain().filter(|chunk| !told(chunk));
        let mut failed: Vec<_> = sent.map(|chunk| SendFailed::sent(&chunk, cause)).collect();
        failed.extend(self.tx.queue.drain().map(|message| SendFailed::unsent(&message, cause)));
        for one in failed {
            self.notify_failed(one);
        }
    }

    /// A notification, if it is wanted.
    pub(super) fn notify(&mut self, note: Notification) {
        if self.options.events.contains(note.kind()) {
            self.rx.streams.notify(note);
            self.owner.notice.add(Notice::READABLE);
        }
    }

    /// A message failed: told, if that is wanted, while those that wait to be read have room in twice the send buffer.
    pub(super) fn notify_failed(&mut self, failed: SendFailed) {
        if self.options.events.contains(Subscriptions::SEND_FAILED) {
            let most = SCTP_FAILED_SNDBUFS * self.options.sndbuf as usize;
            self.rx.streams.notify_failed(failed, most);
            self.owner.notice.add(Notice::READABLE);
        }
    }

    /// Notifications that found no room since the last call: those that a peer may cause, and those of messages that failed.
    pub fn take_dropped(&mut self) -> (u64, u64) {
        self.rx.streams.take_dropped()
    }

    pub(super) fn assoc_change(
        &mut self,
        change: AssocChange,
        error: Option<Error>,
        cause: u16,
        info: Bytes,
    ) {
        let (outbound_streams, inbound_streams) = (self.tx.streams, self.rx.inbound);
        self.notify(Notification::Assoc { change, error, outbound_streams, inbound_streams, cause, info });
    }

    pub(super) fn path_change(&mut self, id: PathId, change: Option<PathChange>) {
        if let Some(change) = change {
            let address = self.paths.get(id).remote;
            self.notify(Notification::Path { address, change });
        }
    }

    /// A shutdown waits for a peer that keeps its window closed. That such a peer lives is not enough: nobody may be left to give
    /// it up, so that its errors count until it takes something (Linux `sctp_check_transmitted`).
    pub(super) const fn is_held_up(&self) -> bool {
        self.tx.closed.shut && matches!(self.state, State::ShutdownPending | State::ShutdownReceived)
    }

    /// Something came that only a live peer sends. While data keeps a shutdown waiting, a HEARTBEAT that is answered does not say that
    /// the peer takes any, and nobody may be left to give it up (Linux `sctp_cmd_transport_on`); what follows has T5.
    pub(super) fn on_alive(&mut self, id: PathId, heartbeat: bool) {
        if !heartbeat || !matches!(self.state, State::ShutdownPending | State::ShutdownReceived) {
            self.errors = 0;
        }
        if !heartbeat {
            // The answer to a HEARTBEAT that is out would say no more than this.
            self.paths.get_mut(id).hb.nonce = 0;
        }
        let change = self.paths.on_alive(id, heartbeat);
        self.path_change(id, change);
    }

    /// The peer has promised an answer: its path is well, and a shutdown that waits for the answer no nearer to its end.
    pub(super) fn on_put_off(&mut self, id: PathId) {
        let change = self.paths.on_alive(id, false);
        self.path_change(id, change);
    }

    /// Something stayed without answer on this path, which backs off; true while the association goes on.
    pub(super) fn on_error(&mut self, cx: &mut Cx<'_>, id: PathId) -> bool {
        self.errors = self.errors.saturating_add(1);
        let change = self.paths.on_error(cx, id);
        self.path_change(id, change);
        if self.errors > self.options.association_max_retrans {
            // A peer that keeps its window closed has as long as the guard runs to take the last data (Linux `sctp_sf_do_6_3_3_rtx`).
            if self.state == State::ShutdownPending && self.tx.closed.shut {
                self.timers.start_t5(cx.now, self.options.rto.max_ms);
                return true;
            }
            cx.count.sctp.aborteds += 1;
            self.finish(cx, self.failure(), Some(Error::TimedOut), Why::Unsaid);
            // He may hear us, or hear us again (Linux `sctp_cmd_assoc_failed`).
            let why = Cause::ProtocolViolation(b"too many transmissions without an answer");
            self.pending.abort_with(one_cause(&why));
            return false;
        }
        true
    }

    /// Its state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Our port and the peer's.
    #[must_use]
    pub const fn ports(&self) -> (u16, u16) {
        self.id.ports
    }

    /// Our verification tag and the peer's.
    #[must_use]
    pub const fn tags(&self) -> (u32, u32) {
        self.id.tags
    }

    /// What a cookie that comes back is compared with.
    #[must_use]
    pub const fn known_tags(&self) -> Tags {
        Tags { tags: self.id.tags, ties: self.id.ties }
    }

    /// Our addresses as the peer was told.
    #[must_use]
    pub fn locals(&self) -> &[IpAddr] {
        &self.id.locals
    }

    /// What its packets travel in.
    #[must_use]
    pub const fn carrier(&self) -> Carrier {
        self.id.carrier
    }

    /// A packet of these chunks goes without CRC32c: something better is below, and the peer has said that it knows. INIT comes before
    /// that, and COOKIE ECHO may come to one who has forgotten it (RFC 9653 section 5.2).
    #[must_use]
    pub fn omits_crc(&self, chunks: &[u8]) -> bool {
        let agreed = self.id.carrier.detects_errors() && self.id.features.has(Features::ZERO_CHECKSUM);
        agreed && !matches!(chunks.first(), Some(&(chunk_kind::INIT | chunk_kind::COOKIE_ECHO)))
    }

    /// Our first TSN.
    #[must_use]
    pub const fn initial_tsn(&self) -> u32 {
        self.id.tsn
    }

    /// The paths.
    #[must_use]
    pub const fn paths(&self) -> &Paths {
        &self.paths
    }

    /// This is the peer's address, as an answer from there has shown. One that the peer only names may be anybody's
    /// (RFC 5062 section 2).
    #[must_use]
    pub fn has_confirmed(&self, remote: IpAddr) -> bool {
        self.paths.find(remote).is_some_and(|id| self.paths.get(id).state() != PathState::Unconfirmed)
    }

    /// Paths by which something has come to the peer that it had not acknowledged before.
    pub fn take_heard(&mut self) -> impl Iterator<Item = PathId> {
        let heard = |path: &mut Path| core::mem::take(&mut path.flow.heard);
        self.paths.iter_mut().filter_map(move |(id, path)| heard(path).then_some(id))
    }

    /// Addresses that stopped being the peer's since the last call: the indices of all paths have changed.
    pub fn take_gone(&mut self) -> Vec<IpAddr> {
        self.paths.take_gone()
    }

    /// The route of a path, as the stack has found it: from which address of ours, by which device. Where that is another one than
    /// before, however long ago, what was learnt of the path is forgotten (section 7.2.5.2).
    pub fn set_route(&mut self, cx: &Cx<'_>, id: PathId, way: (IpAddr, DeviceId), mtu: u16) {
        let path = self.paths.get_mut(id);
        if path.set_route(way, mtu) {
            path.reinitialize(cx);
        }
        self.paths.choose();
    }

    /// There is no route to a path.
    pub fn lose_route(&mut self, id: PathId) {
        self.paths.get_mut(id).lose_route();
        self.paths.choose();
    }

    /// Options in force.
    #[must_use]
    pub fn options(&self) -> &SctpOptions {
        &self.options
    }

    /// What is left of it.
    #[must_use]
    pub fn fate(&self) -> Fate {
        if self.state == State::Closed && self.pending.is_over() { Fate::Dead } else { Fate::Alive }
    }

    /// The edges since the last call.
    pub fn take_notice(&mut self, cx: &Cx<'_>) -> Notice {
        let sndbuf = self.sndbuf(cx);
        if self.tx.take_writable_edge(&self.options, sndbuf, cx.sysctl) {
            self.owner.notice.add(Notice::WRITABLE);
        }
        core::mem::take(&mut self.owner.notice)
    }

    /// The window that our INIT or INIT ACK offers.
    #[must_use]
    pub fn initial_window(&self) -> u32 {
        initial_window(&self.options)
    }
}
