//! A TCP connection from SYN-SENT to its end: the parts and their birth; what they do is in the files beside this one.
use super::Setup;
use super::chrono::{Chrono, Held};
use super::fastopen::{FastOpen, Open, fact};
use super::label::Label;
use super::lowat::Level;
use super::negotiated::Negotiated;
use super::options::{OptionSets, SocketOptions};
use super::output::Followed;
use super::output::nagle::Hold;
use super::pending::Pending;
use super::ready::{Fate, Notice};
use super::receiver::Receiver;
use super::request::Accepted;
use super::segment::{Ecn, Outgoing};
use super::send_window::SendWindow;
use super::sender::Sender;
use super::seq::Seq;
use super::state::State;
use super::timers::Timers;
use super::timewait::{Remains, Reusable, TIME_WAIT, TimeWait};
use super::waits::Seldom;
use super::window::{self, RcvBuf};
use crate::base::time::{Duration, Instant};
use crate::base::trace::Ev;
use crate::base::{Cx, Error, Pressure, Sysctl, Tuple, Wait};
use crate::path::Path;
use crate::path::congestion::{Congestion as _, Window};
use crate::path::pmtu::Pmtu;
use std::sync::Arc;

/// Most seconds that TCP_LINGER2 may ask for (`TCP_FIN_TIMEOUT_MAX`).
const FIN_TIMEOUT_MAX: u32 = 120;

/// A connection. Its owner calls one verb at a time; each verb leaves its consequences in the state, in notices for the
/// application, and in what [`Conn::output`] returns next.
#[derive(Debug)]
pub struct Conn {
    pub(super) state: State,
    pub(super) tuple: Tuple,
    /// Shared with every connection that has the same: few sockets set any.
    pub(super) options: Arc<SocketOptions>,
    pub(super) peer: Negotiated,
    pub(super) snd: SendWindow,
    pub(super) tx: Sender,
    pub(super) rx: Receiver,
    pub(super) path: Path,
    pub(super) timers: Timers,
    pub(super) app: App,
    pub(super) out: Pending,
    pub(super) rest: Rest,
}

/// The application's side of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct App {
    /// Edges that it has not taken yet.
    pub(super) notice: Notice,
    /// Whether it saw "full" and waits for room (SOCK_NOSPACE).
    pub(super) nospace: NoSpace,
    /// Something came since the last round of output that may let a writer go on.
    pub(super) acked: bool,
    /// What it has queued goes whatever a cork says, until another element begins (`TCP_NAGLE_PUSH`).
    pub(super) push: bool,
    /// It will read nothing more.
    pub(super) rcv_shutdown: bool,
    /// It will write nothing more.
    pub(super) snd_shutdown: bool,
    /// It has let go of the connection (an orphan).
    pub(super) orphan: bool,
    /// What went wrong, for SO_ERROR.
    pub(super) error: Option<Error>,
    /// Something not fatal that ICMP said; it names the reason if the connection times out.
    pub(super) soft_error: Option<Error>,
    /// Charge of the send buffer's bound (`sk_sndbuf`).
    pub(super) sndbuf: u32,
    /// Memory that the stack has been told of.
    pub(super) accounted: u32,
    /// Why what it wrote is not sent; `None` while it is.
    pub(super) wait: Option<Wait>,
}

/// Whether a writer waits for room (SOCK_NOSPACE).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NoSpace {
    /// None does.
    #[default]
    No,
    /// One does.
    Waits,
    /// One does, and its call has not come back: what it handed over is pushed first.
    Writes,
    /// That push has made room and the writer was told, but its call comes back without it and waits again (`do_eagain` of
    /// `sk_stream_wait_memory`).
    Told,
}

impl NoSpace {
    pub(super) const fn is_set(self) -> bool {
        matches!(self, Self::Waits | Self::Writes)
    }

    /// The writer is told of room.
    const fn told(self) -> Self {
        if matches!(self, Self::Writes) { Self::Told } else { Self::No }
    }

    /// The call that found no room is back, its push done.
    pub(super) const fn call_over(self) -> Self {
        if matches!(self, Self::No) { Self::No } else { Self::Waits }
    }
}

/// What is seldom needed.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// Counts for reports.
    pub(super) stats: Stats,
    /// In TIME-WAIT while the application still holds the connection: what answers.
    pub(super) time_wait: Option<Box<TimeWait>>,
    /// TCP Fast Open, while its handshake lasts.
    pub(super) fast: Option<Box<Open>>,
    /// What is below us and how fast it moves, while it matters (`tcp_queue_aware`).
    pub(super) queue: Option<Box<Followed>>,
    /// What only some connections need.
    pub(super) seldom: Option<Box<Seldom>>,
}

/// What only reports want.
#[derive(Clone, Debug, Default)]
pub(super) struct Stats {
    pub(super) bytes_received: u64,
    pub(super) bytes_sent: u64,
    pub(super) bytes_retrans: u64,
    pub(super) segs_in: u32,
    pub(super) segs_out: u32,
    pub(super) data_segs_in: u32,
    pub(super) data_segs_out: u32,
    pub(super) rcv_ooopack: u32,
    pub(super) received_ce: u32,
    pub(super) last_ack_recv: Instant,
    /// Where the sender's time goes.
    pub(super) chrono: Chrono,
    /// How it was opened.
    pub(super) fast: FastOpen,
}

impl Conn {
    /// An active open: the SYN is the first thing that [`Conn::output`] returns.
    #[must_use]
    pub fn connect(cx: &mut Cx<'_>, setup: Setup) -> Self {
        let Setup { tuple, mtu, isn, ts_offset, options, .. } = setup;
        let mut peer = Negotiated::offer(cx.sysctl, &tuple, mtu, &options, ts_offset);
        let window = window::initial(cx.sysctl, &options, peer.advmss, peer.wscale);
        peer.rcv_wscale = window.wscale;
        let mut conn = Self {
            state: State::SynSent,
            snd: SendWindow { pushed: isn + 1, ..SendWindow::new(0, Seq(0), isn) },
            tx: Sender::new(options.reordering, isn, peer.mss(mtu, tuple.is_v6())),
            rx: Receiver::new(window, RcvBuf::of(&options), peer.advmss),
            path: new_path(cx, mtu, &tuple, &options),
            timers: Timers::default(),
            app: App { sndbuf: options.sndbuf.unwrap_or(options.wmem), ..App::default() },
            out: Pending::default(),
            rest: Rest::default(),
            tuple,
            options,
            peer,
        };
        conn.rest.stats.fast.facts |= fact::ACTIVE;
        conn.rx.begin_with(&conn.options);
        conn.tx.follow_departures();
        cx.count.tcp.active_opens += 1;
        conn.out.try_send(Hold::Push);
        conn
    }

    /// The connection follows one of the same flow whose TIME-WAIT it has taken: what that knew of the peer's clock goes on
    /// (`tcp_twsk_unique`). With timestamps already known to be on, the window of the SYN counts in what segments with them carry
    /// (`tcp_connect_init`).
    pub fn follow(&mut self, sysctl: &Sysctl, old: Option<&Reusable>) {
        let Some(old) = old else { return };
        (self.peer.stamps.recent, self.peer.stamps.recent_at) = (old.recent, Some(old.recent_at));
        self.prepare_syn(sysctl);
    }

    /// What the SYN offers, by the settings and options of now (`tcp_connect_init`).
    pub(super) fn prepare_syn(&mut self, sysctl: &Sysctl) {
        let (mtu, stamps) = (self.path.pmtu.mtu(), self.peer.stamps.clone());
        let offer = Negotiated::offer(sysctl, &self.tuple, mtu, &self.options, stamps.offset);
        self.peer = Negotiated { stamps, ..offer };
        let known = self.peer.stamps.recent_at.map_or(0, |_| self.peer.data_option_bytes());
        let (buf, payload) = (self.rx.window().buf(), self.peer.advmss.saturating_sub(known));
        let window = window::initial_window(sysctl, buf, payload.into(), self.peer.wscale)
            .at_most(self.options.route.initrwnd, payload);
        self.peer.rcv_wscale = window.wscale;
        self.rx.reoffer(window, self.peer.advmss);
        self.tx.set_mss(self.peer.mss(mtu, self.tuple.is_v6()));
    }

    /// What answers in TIME-WAIT while the application still holds the connection.
    #[must_use]
    pub fn time_wait(&self) -> Option<&TimeWait> {
        self.rest.time_wait.as_deref().filter(|_| self.state == State::TimeWait)
    }

    /// The last acknowledgement once more, in TIME-WAIT.
    #[must_use]
    pub fn last_ack(&self, cx: &Cx<'_>) -> Option<Outgoing> {
        Some(self.time_wait()?.last_ack(cx))
    }

    /// Another connection takes the place of this one, which is in TIME-WAIT: at once, so that an answer of it that has not left never does.
    pub fn yield_flow(&mut self, cx: &mut Cx<'_>) {
        let unsent = self.out.reset.take().is_some();
        cx.count.tcp.out_segs = cx.count.tcp.out_segs.saturating_sub(unsent.into());
        self.finish(cx, None);
    }

    /// A passive open: the connection of a request whose handshake is complete but for the segment at hand.
    pub(super) fn accept(cx: &mut Cx<'_>, from: Accepted) -> Self {
        let Accepted { setup, mut peer, window, irs, snd_wnd, sent } = from;
        let Setup { tuple, mtu, isn, options, saved_syn, .. } = setup;
        // By what TCP_MAXSEG says by now, whatever the SYN-ACK said (`tcp_v4_syn_recv_sock`).
        peer.advmss = Negotiated::advertise(&tuple, mtu, &options);
        let mut conn = Self {
            state: State::SynRecv,
            snd: SendWindow::new(u32::from(snd_wnd), irs, isn + 1),
            tx: Sender::established(options.reordering, isn, peer.mss(mtu, tuple.is_v6())),
            rx: Receiver::new(window, RcvBuf::of(&options), peer.advmss),
            path: new_path(cx, mtu, &tuple, &options),
            timers: Timers::default(),
            app: App { sndbuf: options.sndbuf.unwrap_or(options.wmem), ..App::default() },
            out: Pending::default(),
            rest: Rest::default(),
            tuple,
            options,
            peer,
        };
        if saved_syn.is_some() {
            conn.rest.seldom().saved_syn = saved_syn;
        }
        conn.tx.follow_departures();
        cx.count.tcp.passive_opens += 1;
        conn.rx.synchronize(irs);
        conn.rx.await_owner();
        // Silence counts from here, and segments have their size, whatever becomes of what comes next (`tcp_create_openreq_child`).
        conn.tx.began(cx.now);
        conn.rx.ack.began(cx.now);
        conn.path.pmtu.set_peer_mss(Some(conn.peer.mss_clamp));
        // The SYN, which the request received.
        conn.rest.stats.segs_in = 1;
        conn.rx.begin_with(&conn.options);
        conn.path.ecn.set_negotiated(conn.peer.ecn.capable());
        if let Some(sent) = sent {
            conn.timers.synack_sent = (sent.again == 0).then_some(sent.first);
            conn.tx.note_syn_acks(cx.now, &sent);
            conn.snd.label = Label::after(sent.again);
        }
        conn
    }

    /// The application has taken it from its listener (`sock_graft`).
    pub const fn hand_over(&mut self) {
        self.rx.hand_over();
    }

    /// The flow.
    #[must_use]
    pub const fn tuple(&self) -> &Tuple {
        &self.tuple
    }

    /// The state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// How far the peer is known to have heard: what it has acknowledged, SYN and FIN included, whether it has ended the handshake, and how many
    /// segments have come to it, which it may have told by SACK (`FLAG_FORWARD_PROGRESS`).
    #[must_use]
    pub const fn heard(&self) -> (u64, bool, u32) {
        (self.tx.una_offset(), self.state.is_synchronized(), self.path.rate.delivered())
    }

    /// It is paced whatever stands below, as what follows on the same socket is, too (`sk_pacing_status`).
    #[must_use]
    pub const fn needs_pacing(&self) -> bool {
        self.path.pacing.is_needed()
    }

    /// What left last could be marked by routers: new data, where both sides agreed on ECN (`INET_ECN_xmit`).
    #[must_use]
    pub const fn last_left_capable(&self) -> bool {
        self.path.ecn.last_capable()
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> &SocketOptions {
        &self.options
    }

    /// What has come with this TTL or hop limit is not for it (IP_MINTTL, IPV6_MINHOPCOUNT). Linux does not ask in TIME-WAIT
    /// (`tcp_v4_rcv`, `tcp_v4_err`).
    #[must_use]
    pub fn drops_from_afar(&self, v6: bool, ttl: u8) -> bool {
        self.options.too_far(v6, ttl) && self.state != State::TimeWait
    }

    /// A listener's child has its options, but for some ([`OptionSets::of_child`]).
    pub fn inherit(&mut self, sets: &mut OptionSets) {
        self.options = sets.of_child(&self.options);
    }

    /// Payload bytes of a full segment, options taken off, and at most half of the largest window that the peer ever offered.
    pub(super) fn mss(&self) -> u16 {
        let scale = if self.takes_window_for_scaled() { self.peer.snd_wscale } else { 0 };
        self.mss_within(self.tx.max_window() << scale)
    }

    /// The same if the largest window that the peer ever offered were this.
    pub(super) fn mss_within(&self, max_window: u32) -> u16 {
        let mss = self.path.pmtu.mss_within(self.peer.data_option_bytes(), max_window);
        self.path.plpmtud.as_ref().map_or(mss, |search| mss.min(search.mss(&self.path.pmtu)))
    }

    /// The largest window that the peer ever offered, in bytes.
    #[must_use]
    pub const fn max_window(&self) -> u32 {
        self.tx.max_window()
    }

    /// What a connection that follows on the same socket takes as [`SocketOptions::rcv_ratio`].
    #[must_use]
    pub fn rcv_ratio(&self, sysctl: &Sysctl) -> u8 {
        self.rx.window().ratio_after(sysctl)
    }

    /// MTU of the path as the connection knows it.
    #[must_use]
    pub const fn path_mtu(&self) -> u16 {
        self.path.pmtu.mtu()
    }

    /// The one way to change state.
    pub(super) fn set_state(&mut self, cx: &mut Cx<'_>, next: State) {
        debug_assert!(self.state.may_become(next), "{} -> {}", self.state.name(), next.name());
        cx.trace(Ev::State(self.state.name(), next.name()));
        // Whoever ends it (`tcp_set_state`).
        let open = matches!(self.state, State::Established | State::CloseWait);
        cx.count.tcp.estab_resets += u64::from(open && next == State::Close);
        self.state = next;
    }

    /// The send queue as the writability rule sees it.
    pub(super) fn level(&self, cx: &Cx<'_>) -> Level {
        let lowat = if self.options.notsent_lowat != 0 {
            self.options.notsent_lowat
        } else {
            cx.sysctl.tcp_notsent_lowat
        };
        Level {
            queued_charge: self.tx.flight().wmem_queued() as u64,
            sndbuf: u64::from(self.app.sndbuf.min(self.allowance(cx))),
            unsent: self.tx.queue_ref().unsent_bytes(),
            lowat: u64::from(lowat),
            half: cx.sysctl.notsent_lowat_half,
        }
    }

    /// Bytes that the send queue may hold while memory is exhausted: the least buffer, so that nobody waits for others.
    fn allowance(&self, cx: &Cx<'_>) -> u32 {
        if cx.pressure == Pressure::Exhausted { cx.sysctl.tcp_wmem.min } else { u32::MAX }
    }

    /// Memory that both queues hold: what the stack was told last, and what it is now.
    pub fn recharge(&mut self) -> (u32, u32) {
        let queued = u32::try_from(self.tx.queue_ref().queued_charge()).unwrap_or(u32::MAX);
        let now = self.rx.charge().saturating_add(queued);
        (core::mem::replace(&mut self.app.accounted, now), now)
    }

    /// Length of the IP header before each of the peer's segments.
    pub(super) const fn ip_header_bytes(&self) -> u32 {
        if self.tuple.remote_ip.is_ipv4() { 20 } else { 40 }
    }

    /// Memory that the stack has been told of.
    #[must_use]
    pub const fn accounted(&self) -> u32 {
        self.app.accounted
    }

    /// There are too many connections that nobody owns, each counted for 2^`penalty`, or the send queue holds more than the least buffer where
    /// memory is exhausted (`tcp_check_oom`).
    #[must_use]
    pub fn is_one_too_many(&self, cx: &Cx<'_>, penalty: u32) -> bool {
        let much = self.tx.flight().wmem_queued() > SOCK_MIN_SNDBUF;
        u64::from(cx.orphans) << penalty > u64::from(cx.sysctl.tcp_max_orphans)
            || (much && cx.pressure == Pressure::Exhausted)
    }

    /// The send buffer follows the window: room for what is in flight and as much again, within the present bound (`tcp_sndbuf_expand`).
    /// What a segment is reckoned at depends on how the kernel is built: 2,304 or 4,352 bytes for 1,460 of payload.
    pub(super) fn expand_sndbuf(&mut self, cx: &Cx<'_>) {
        if self.options.sndbuf.is_some() || cx.pressure >= Pressure::Moderate {
            return;
        }
        let window = self.path.window.cwnd.max(Window::INITIAL);
        let segments = u64::from(window.max(self.tx.reordering().degree.saturating_add(1)));
        let segment = u64::from(self.mss().max(self.peer.mss_clamp));
        let headers = u64::from(cx.sysctl.max_tcp_header) + SHARED_INFO;
        let per_mss = (segment + headers).next_power_of_two() + ELEMENT_OVERHEAD;
        let wanted = u64::from(self.path.congestion.wishes().sndbuf_expand) * segments * per_mss;
        if wanted > u64::from(self.app.sndbuf) {
            // Where the bound has fallen since, so does the buffer.
            self.app.sndbuf = wanted.min(u64::from(cx.sysctl.tcp_wmem.max)) as u32;
        }
    }

    /// The queue is about to hold `bytes` more. While memory is short, who holds more than his share keeps a send buffer of half
    /// of what waits in it, so that he writes again only when most of that is acknowledged (`sk_stream_moderate_sndbuf`). How many
    /// of them may be taken: none but the least buffer's where the application has set the buffer's size.
    pub(super) fn schedule(&mut self, cx: &Cx<'_>, bytes: usize) -> usize {
        if cx.share == u64::MAX {
            return bytes;
        }
        let queued = self.tx.flight().wmem_queued();
        let held = self.tx.queue_ref().queued_charge() as u64 + u64::from(self.rx.charge());
        let least = cx.sysctl.tcp_wmem.min as usize;
        let granted = cx.pressure < Pressure::Exhausted && queued < least;
        if granted || (held + bytes as u64).div_ceil(PAGE) < cx.share {
            return bytes;
        }
        if self.options.sndbuf.is_none() {
            let half = self.app.sndbuf.min(u32::try_from(queued / 2).unwrap_or(u32::MAX));
            self.app.sndbuf = half.max(SOCK_MIN_SNDBUF as u32);
        }
        if queued + bytes >= self.app.sndbuf as usize {
            return bytes;
        }
        bytes.min(least.saturating_sub(queued))
    }

    /// After an acknowledgement, and what it let out.
    pub(super) fn offer_space(&mut self, cx: &Cx<'_>) {
        if core::mem::take(&mut self.app.acked) {
            self.check_space(cx);
        }
    }

    /// A writer waits for room: where the congestion window has some all the same, the buffer was what held the sender, and grows;
    /// the writer is told once the rule turns true (`tcp_check_space`, `tcp_new_space`). Called after each packet too
    /// (`tcp_event_new_data_sent`).
    pub(super) fn check_space(&mut self, cx: &Cx<'_>) {
        if self.app.nospace.is_set() && self.held_by_sndbuf(cx) {
            self.expand_sndbuf(cx);
            self.path.window.stamp = cx.now;
        }
        self.wake_writer(cx);
    }

    /// That the window is not used says nothing of it: a writer waits for room, or nobody owns the connection, so that Linux finds no
    /// socket to ask (`tcp_cwnd_application_limited`). What close() itself lets go leaves before that (`sock_orphan`).
    pub(super) fn keeps_window(&self) -> bool {
        self.app.nospace.is_set() || (self.app.orphan && !self.out.burst.closes)
    }

    /// The send buffer was what held the sender, and may grow (`tcp_should_expand_sndbuf`).
    fn held_by_sndbuf(&self, cx: &Cx<'_>) -> bool {
        self.options.sndbuf.is_none()
            && cx.pressure < Pressure::Moderate
            && self.tx.in_flight() < self.path.window.cwnd
    }

    /// As [`Self::keeps_window`] for a packet that has left just now: a writer who waits has its room first (`tcp_event_new_data_sent`), which
    /// says as much of the window where the buffer grows for it.
    pub(super) fn keeps_window_behind(&self, cx: &Cx<'_>) -> bool {
        let told = self.app.nospace.is_set() && !self.held_by_sndbuf(cx) && self.level(cx).writable();
        self.keeps_window() && (!told || self.app.orphan)
    }

    /// A waiter that saw "full" is told once the rule turns true. Called after every event that lowers the unsent part or the
    /// charge, or raises a limit.
    pub(super) fn wake_writer(&mut self, cx: &Cx<'_>) {
        if self.tell_writer(cx) {
            self.rest.stats.chrono.stop(cx.now, Held::SendBuffer, self.tx.is_empty());
        }
    }

    /// The same where a limit was raised: the time that the buffer takes goes on (`sk_stream_write_space`; only `tcp_check_space` stops
    /// its clock).
    pub(super) fn tell_writer(&mut self, cx: &Cx<'_>) -> bool {
        let tells = self.app.nospace.is_set() && self.level(cx).writable();
        if tells {
            self.app.nospace = self.app.nospace.told();
            self.app.notice.insert(Notice::WRITABLE);
        }
        tells
    }

    /// What becomes of the object. It stays until its last segment has gone out.
    #[must_use]
    pub fn fate(&self) -> Fate {
        if self.wants_output() {
            return Fate::Alive;
        }
        match (self.state, self.app.orphan) {
            (State::Close, true) => Fate::Dead,
            (State::Close, false) => Fate::Detached,
            (State::FinWait2, true) if self.timers.keepalive.is_some() => Fate::Alive,
            (State::TimeWait | State::FinWait2, true) => Fate::TimeWait,
            _ => Fate::Alive,
        }
    }

    /// The small object that stays for a connection whose fate is TIME-WAIT.
    #[must_use]
    pub fn into_time_wait(mut self, cx: &mut Cx<'_>) -> TimeWait {
        match self.rest.time_wait.take() {
            Some(time_wait) => *time_wait,
            None => self.remains(cx),
        }
    }

    fn remains(&mut self, cx: &mut Cx<'_>) -> TimeWait {
        let fin_wait2 = self.state == State::FinWait2;
        // What the acknowledgement of the FIN says, which has yet to leave, is what later ones repeat (`tcp_fin` sends before `tcp_time_wait`).
        let answers = !fin_wait2 && self.rx.ack_due();
        let rcv_wnd = if answers { self.rx.next_window(cx) } else { self.rx.open_window() };
        let length = if fin_wait2 { self.small_fin_wait2(cx) } else { TIME_WAIT };
        // Those that end soon are counted apart (`__inet_twsk_schedule`).
        let soon = length <= Duration::from_secs(4);
        cx.count.tcp_ext.tw_killed += u64::from(soon);
        cx.count.tcp_ext.tw += u64::from(!soon);
        TimeWait::new(
            Remains {
                tuple: self.tuple,
                snd_nxt: self.tx.snd_nxt(),
                rcv_nxt: self.rx.nxt(),
                rcv_wnd,
                tos: self.options.tos_of(self.tuple.is_v6()) | self.ect_of_remains(),
                priority: self.options.queue_priority(),
                label: self.label(),
                peer: self.peer.clone(),
            },
            fin_wait2,
            (cx.now, cx.now + length),
        )
    }

    /// ECT where the acknowledgement of the peer's FIN is still to come and data was the last to leave (`tw_tos`). In TIME-WAIT that has left.
    fn ect_of_remains(&self) -> u8 {
        if self.state == State::FinWait2 && self.last_left_capable() { Ecn::Ect0 as u8 } else { 0 }
    }

    /// How long an orphan stays in FIN-WAIT-2 (TCP_LINGER2, tcp_fin_timeout); an option asks for two minutes at the most.
    pub(super) fn fin_timeout(&self, cx: &Cx<'_>) -> Duration {
        let seconds = match self.options.linger2 {
            0 => cx.sysctl.tcp_fin_timeout,
            n => n.max(0).unsigned_abs().min(FIN_TIMEOUT_MAX),
        };
        Duration::from_secs(u64::from(seconds)).max(self.fin_timeout_min(cx))
    }

    /// At least 3.5 RTO with the doublings in force, so that a lost FIN can be sent again (`tcp_fin_time`).
    fn fin_timeout_min(&self, cx: &Cx<'_>) -> Duration {
        self.path.rtt.rto(cx.sysctl) * 7 / 2
    }

    /// How long of that the small object stays: what is longer than TIME-WAIT begins as a whole connection, and when that has waited for the rest, the
    /// rest begins anew (`tcp_keepalive_timer`, `tcp_time_wait`).
    fn small_fin_wait2(&self, cx: &Cx<'_>) -> Duration {
        let all = self.fin_timeout(cx);
        if all > TIME_WAIT { (all - TIME_WAIT).max(self.fin_timeout_min(cx)) } else { all }
    }

    /// Closed now it becomes a small object at once, or nothing: it is over, or in FIN-WAIT-2 for no longer than TIME-WAIT takes.
    pub(crate) fn is_nearly_over(&self, cx: &Cx<'_>) -> bool {
        match self.state {
            State::Close | State::TimeWait => true,
            State::FinWait2 => self.fin_timeout(cx) <= TIME_WAIT,
            _ => false,
        }
    }

    /// Nobody owns the connection in FIN-WAIT-2: how long it stays whole (`__tcp_close`, `tcp_rcv_state_process`).
    pub(super) fn arm_fin_wait2(&mut self, cx: &Cx<'_>) {
        let all = self.fin_timeout(cx);
        self.timers.keepalive = (all > TIME_WAIT).then(|| cx.now + (all - TIME_WAIT));
    }

    /// The connection is over: tells the application why and lets the stack remove the object (`tcp_done`).
    pub(super) fn finish(&mut self, cx: &mut Cx<'_>, error: Option<Error>) {
        self.judge_fast_open();
        self.release(false);
        // In Linux the socket has been closed since TIME-WAIT began, and is told nothing of the end of that.
        let told = self.state == State::TimeWait;
        // The last acknowledgement leaves it as it is; whatever else ends a connection empties its queues (`tcp_write_queue_purge`).
        if !matches!(self.state, State::LastAck | State::TimeWait) || error.is_some() {
            self.path.rtt.end_backoff();
        }
        if self.state != State::Close {
            self.set_state(cx, State::Close);
        }
        // What ends it is told in the place of what was told before and nobody has asked for (`tcp_reset`).
        self.app.error = error.or(self.app.error);
        self.app.rcv_shutdown = true;
        self.app.snd_shutdown = true;
        if !told {
            self.app.notice.insert(Notice::CLOSED);
            self.app.notice.insert(Notice::READABLE);
            self.app.notice.insert(Notice::WRITABLE);
        }
        // What reports still tell of the end.
        self.timers = Timers { probes_out: self.timers.probes_out, ..Timers::default() };
        self.rest.stats.chrono.stop(cx.now, Held::Busy, self.tx.is_empty());
        self.tx.clear();
        self.out.stop();
    }

    /// Both FINs are through: the small object takes over once nobody holds this one (`tcp_time_wait`).
    pub(super) fn enter_time_wait(&mut self, cx: &mut Cx<'_>) {
        self.judge_fast_open();
        self.set_state(cx, State::TimeWait);
        self.timers.stop_all();
        self.app.notice.insert(Notice::CLOSED);
        self.app.notice.insert(Notice::READABLE);
        self.app.notice.insert(Notice::WRITABLE);
        self.app.snd_shutdown = true;
        let time_wait = self.remains(cx);
        self.timers.probe = None;
        self.timers.keepalive = Some(time_wait.deadline());
        self.rest.time_wait = Some(Box::new(time_wait));
    }

    /// Something sent is not acknowledged.
    pub(super) const fn has_in_flight(&self) -> bool {
        self.tx.flight().packets_out > 0
    }
}

/// Bytes of a page, the unit of `tcp_mem`.
const PAGE: u64 = 4_096;
/// Smallest send buffer (`SOCK_MIN_SNDBUF`).
const SOCK_MIN_SNDBUF: usize = 4_608;
/// Metadata that each queued element pins beside its bytes.
const ELEMENT_OVERHEAD: u64 = 256;
/// What Linux adds to a segment's payload and headers before it rounds up: the description of its pages (the shared part of a buffer,
/// aligned, on 64-bit machines). With 320 bytes of headers ten segments of 1,460 bytes make the 87,040 that `ss` shows.
const SHARED_INFO: u64 = 320;

fn new_path(cx: &Cx<'_>, mtu: u16, tuple: &Tuple, options: &SocketOptions) -> Path {
    let mut pmtu = Pmtu::new(mtu, tuple.is_v6());
    pmtu.set_min_mss(cx.sysctl.tcp_min_snd_mss);
    let mut path = Path::new(cx, pmtu);
    path.set_congestion(options.congestion);
    path.rtt.set_bounds(options.rto_bounds());
    if options.max_pacing_rate != u64::MAX {
        path.pacing.set_max_rate(options.max_pacing_rate);
    }
    if options.paced {
        path.pacing.need();
    }
    path
}
