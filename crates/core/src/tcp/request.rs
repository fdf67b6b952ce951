//! SYN-RECEIVED of a passive open as a small object (RFC 9293 section 3.10.7.4; Linux's `tcp_check_req`).
use super::Setup;
use super::accecn::{Learned, ace, fail, fill_syn_ack, is_asked_for, reflected};
use super::conn::Conn;
use super::negotiated::{EcnMode, Negotiated};
use super::options::SocketOptions;
use super::reset::reset_for;
use super::segment::{Ecn, Outgoing, Segment};
use super::seq::Seq;
use super::window::{self, InitialWindow};
use crate::base::time::{Duration, Instant};
use crate::base::{Cx, DropWhy, Tuple};
use lowwater_wire::tcp::{FastOpenCookie, TcpFlags, TcpOptions, TcpRepr};
use std::sync::Arc;

/// First retransmission of a SYN or SYN-ACK (`TCP_TIMEOUT_INIT`, RFC 6298 section 2.1).
pub(super) const TIMEOUT_INIT: Duration = Duration::from_secs(1);

/// A connection before the handshake's last segment. It holds no buffers. One that was accepted with data in its SYN (TCP Fast
/// Open) lives on inside the connection until the SYN-ACK is acknowledged.
#[derive(Debug)]
pub struct Request {
    setup: Setup,
    peer: Negotiated,
    window: InitialWindow,
    irs: Seq,
    /// Next number expected: behind the SYN, or behind the data that was accepted with it.
    rcv_nxt: Seq,
    snd_wnd: u16,
    sent: SynAcks,
    learned: Learned,
    deadline: Instant,
    last_answer: Option<Instant>,
}

/// What is known of the SYN-ACKs.
#[derive(Clone, Copy, Debug)]
pub(super) struct SynAcks {
    /// When the first and the last one left.
    pub(super) first: Instant,
    pub(super) last: Instant,
    /// All after the first, for whatever reason (`num_retrans`).
    pub(super) again: u8,
    /// Those that the timer sent: only these use up tcp_synack_retries, a peer that repeats its SYN does not (`num_timeout`).
    pub(super) timeouts: u8,
    /// The peer has acknowledged one, but the connection could not begin: the backlog was full, or TCP_DEFER_ACCEPT waits for
    /// data.
    pub(super) acked: bool,
}

/// How crowded a listener is, for the patience with its requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crowd {
    /// Requests.
    pub requests: u32,
    /// Those whose SYN-ACK was not repeated yet.
    pub young: u32,
    /// The backlog.
    pub backlog: u32,
}

/// What to do with a segment for a request.
#[derive(Debug)]
pub enum RequestVerdict {
    /// Nothing.
    Drop(DropWhy),
    /// Answer with this.
    Reply(Outgoing),
    /// The handshake is complete: call [`Request::into_conn`], then [`Conn::input`] with the same segment.
    Spawn,
    /// Answer with this reset; the request stays.
    Reset(Outgoing),
    /// Answer with this reset, if any, and forget the request.
    Gone(Option<Outgoing>),
}

/// What to do when a request's deadline has passed.
#[derive(Debug)]
pub enum RequestTimeout {
    /// Send the SYN-ACK again.
    Resend(Outgoing),
    /// Forget the request.
    Expired,
    /// Too early.
    NotYet,
}

/// What a connection takes over from its request.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) setup: Setup,
    pub(super) peer: Negotiated,
    pub(super) window: InitialWindow,
    pub(super) irs: Seq,
    pub(super) snd_wnd: u16,
    /// `None` after a SYN cookie, which tells no time.
    pub(super) sent: Option<SynAcks>,
}

impl Request {
    /// The options that it answers by, and that its connection begins with.
    #[must_use]
    pub fn options(&self) -> &SocketOptions {
        &self.setup.options
    }

    /// Its listener has other options by now, or its route asks for something else: both may have it announce another MSS
    /// (`tcp_mss_clamp`).
    pub fn renew(&mut self, options: Arc<SocketOptions>) {
        self.setup.options = options;
        self.peer.advmss = Negotiated::advertise(&self.setup.tuple, self.setup.mtu, &self.setup.options);
    }

    /// The request of a SYN.
    ///
    /// # Errors
    /// A reason to drop the segment when it is no SYN.
    pub fn new(cx: &mut Cx<'_>, setup: Setup, syn: &Segment) -> Result<Self, DropWhy> {
        if !syn.has(TcpFlags::SYN)
            || syn.has(TcpFlags::ACK)
            || syn.has(TcpFlags::RST)
            || syn.has(TcpFlags::FIN)
        {
            return Err(DropWhy::TcpFlags);
        }
        let options = &setup.options;
        let mut peer = Negotiated::offer(cx.sysctl, &setup.tuple, setup.mtu, options, setup.ts_offset);
        peer.accept(syn, options.maxseg);
        let payload = peer.advmss - peer.data_option_bytes();
        let window = window::initial(cx.sysctl, options, payload, peer.wscale);
        peer.rcv_wscale = if peer.wscale { window.wscale } else { 0 };
        // RFC 3168 section 6.1.1: an ECN-setup SYN carries ECE and CWR, and its packet is not ECN-capable; one that asks for accurate ECN may be (RFC
        // 9768 section 3.1.1) and gets the classic one where no other is granted.
        let classic = options.grants_ecn(cx.sysctl)
            && syn.has(TcpFlags::ECE)
            && syn.has(TcpFlags::CWR)
            && (syn.ecn() == Ecn::NotEct || syn.has(TcpFlags::AE));
        peer.ecn = match classic {
            _ if SocketOptions::grants_accurate_ecn(cx.sysctl) && is_asked_for(syn.flags) => {
                EcnMode::Accurate
            }
            true => EcnMode::Classic,
            false => EcnMode::Off,
        };
        let sent = SynAcks { first: cx.now, last: cx.now, again: 0, timeouts: 0, acked: false };
        Ok(Self {
            setup,
            peer,
            window,
            irs: syn.seq,
            rcv_nxt: syn.seq + 1,
            snd_wnd: syn.window,
            sent,
            learned: Learned { syn: syn.ecn(), ..Learned::default() },
            deadline: cx.now + TIMEOUT_INIT,
            last_answer: None,
        })
    }

    /// Its path carries packets of `mtu` bytes by now.
    pub fn follow_path(&mut self, mtu: u16) {
        self.setup.mtu = mtu;
        self.peer.advmss = Negotiated::advertise(&self.setup.tuple, mtu, &self.setup.options);
    }

    /// Number of its SYN-ACK.
    #[must_use]
    pub const fn isn(&self) -> Seq {
        self.setup.isn
    }

    /// The data of the SYN is accepted with it: the SYN-ACK acknowledges it.
    pub fn accept_data(&mut self, syn: &Segment) {
        self.rcv_nxt = self.irs + 1 + syn.payload_len();
    }

    /// The flow.
    #[must_use]
    pub const fn tuple(&self) -> &Tuple {
        &self.setup.tuple
    }

    /// When [`Request::on_timeout`] wants to be called.
    #[must_use]
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The label in use, after so many others: each repeated SYN-ACK has a new one (`tcp_rtx_synack`).
    #[must_use]
    pub fn label(&self) -> u16 {
        self.sent.again.into()
    }

    /// No SYN-ACK was repeated by the timer yet.
    #[must_use]
    pub const fn is_young(&self) -> bool {
        self.sent.timeouts == 0
    }

    /// What both sides agreed on.
    pub(super) const fn peer(&self) -> &Negotiated {
        &self.peer
    }

    /// What was sent, for the round trip that the final ACK shows.
    pub(super) const fn sent(&self) -> SynAcks {
        self.sent
    }

    /// The connection could not begin, though the peer did what it had to.
    pub const fn note_acked(&mut self) {
        self.sent.acked = true;
    }

    /// The window that a SYN-ACK can tell of, without a scale: nobody has offered more yet (`tcp_synack_window`).
    fn synack_window(&self) -> u32 {
        self.window.rcv_wnd.min(65_535)
    }

    /// The SYN-ACK, the first one with a Fast Open cookie where one is due.
    pub fn syn_ack(&mut self, cx: &mut Cx<'_>, cookie: Option<FastOpenCookie>) -> Outgoing {
        self.syn_ack_after(cx, cookie, 0)
    }

    /// The same after so many timeouts: the second that goes for one has an ACE field of zero, in case that the others were lost for theirs (RFC 9768
    /// section 3.2.3.2.2; `tcp_ecn_make_synack`).
    fn syn_ack_after(&mut self, cx: &mut Cx<'_>, cookie: Option<FastOpenCookie>, timeouts: u8) -> Outgoing {
        self.sent.last = cx.now;
        let mut flags = TcpFlags::SYN | TcpFlags::ACK;
        match self.peer.ecn {
            EcnMode::Classic => flags.insert(TcpFlags::ECE),
            EcnMode::Accurate if timeouts == 0 => flags.insert(reflected(self.learned.syn)),
            EcnMode::Accurate | EcnMode::Off => {}
        }
        let mut options = TcpOptions { fastopen: cookie, ..self.peer.syn_options(cx.now) };
        if self.peer.ecn.accurate() && self.sent.again == 0 {
            fill_syn_ack(&mut options, cx.sysctl);
        }
        let mut out = Outgoing::control(TcpRepr {
            src_port: self.setup.tuple.local_port,
            dst_port: self.setup.tuple.remote_port,
            seq: self.setup.isn.0,
            ack: self.rcv_nxt.0,
            flags,
            window: self.synack_window() as u16,
            urgent: 0,
            options,
        });
        let v6 = self.setup.tuple.is_v6();
        out.tos = self.setup.options.tos_of(v6);
        out.ttl = self.setup.options.ttl_of(v6);
        out.priority = self.setup.options.queue_priority();
        out
    }

    /// Looks at a segment of this flow. TS.Recent stays that of the SYN: only the connection that a segment begins takes it over.
    pub fn input(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> RequestVerdict {
        self.look(cx, seg, None)
    }

    /// Looks at a segment for the connection that this request began with data; `snd_nxt` is the connection's.
    pub(super) fn input_child(&mut self, cx: &mut Cx<'_>, seg: &Segment, snd_nxt: Seq) -> RequestVerdict {
        let deadline = self.deadline;
        let verdict = self.look(cx, seg, Some(snd_nxt));
        // The timer is the connection's: a SYN that comes again does not move it, as it does that of a request (`tcp_check_req`).
        self.deadline = deadline;
        verdict
    }

    fn look(&mut self, cx: &mut Cx<'_>, seg: &Segment, child: Option<Seq>) -> RequestVerdict {
        // Whoever has switched timestamps off meanwhile reads none here; connections go on with them (`tcp_check_req`).
        let stamped = self.peer.ts && cx.sysctl.tcp_timestamps != 0;
        let paws = stamped && self.refuses_as_old(cx, seg);
        let pure_syn = seg.has(TcpFlags::SYN) && !seg.has(TcpFlags::ACK) && !seg.has(TcpFlags::RST);
        if pure_syn && seg.seq == self.irs && !paws {
            return self.answer(cx, seg, None);
        }
        // A reset is judged by its number alone, below.
        if seg.has(TcpFlags::ACK)
            && child.is_none()
            && seg.ack != self.setup.isn + 1
            && let Some(out) = reset_for(&self.setup.tuple, seg)
        {
            return RequestVerdict::Reset(out);
        }
        let foreign = child.is_none() && stamped && self.echoes_none_of_ours(seg);
        if paws || foreign || !self.in_window(seg) {
            cx.count.tcp_ext.paws_estab += u64::from(paws);
            cx.count.tcp_ext.tsecr_rejected += u64::from(foreign && !paws);
            return if seg.has(TcpFlags::RST) {
                RequestVerdict::Drop(DropWhy::TcpOutOfWindow)
            } else {
                self.answer(cx, seg, Some(child.unwrap_or(self.setup.isn + 1)))
            };
        }
        if seg.has(TcpFlags::RST) {
            if seg.seq != self.rcv_nxt {
                // In the window, but not the next number: challenged (RFC 5961 section 3.2; later Linux).
                return self.answer(cx, seg, Some(child.unwrap_or(self.setup.isn + 1)));
            }
            cx.count.tcp.attempt_fails += 1;
            cx.count.tcp_ext.embryonic_rsts += u64::from(child.is_none());
            return RequestVerdict::Gone(None);
        }
        if seg.has(TcpFlags::SYN) && seg.seq != self.irs {
            cx.count.tcp.attempt_fails += 1;
            cx.count.tcp_ext.embryonic_rsts += u64::from(child.is_none());
            return RequestVerdict::Gone(reset_for(&self.setup.tuple, seg));
        }
        if !seg.has(TcpFlags::ACK) {
            return RequestVerdict::Drop(DropWhy::TcpFlags);
        }
        if self.peer.ecn.accurate() {
            self.learned.look(seg.options.accecn().as_ref());
        }
        let bare = seg.seq + seg.seq_len() == self.irs + 1;
        if child.is_none() && self.sent.timeouts < self.setup.options.defer_accept && bare {
            // TCP_DEFER_ACCEPT: an acknowledgement alone is not worth waking anybody.
            self.sent.acked = true;
            cx.count.tcp_ext.tcp_defer_accept_drop += 1;
            return RequestVerdict::Drop(DropWhy::ListenFilter);
        }
        RequestVerdict::Spawn
    }

    /// PAWS, for which TS.Recent is as old as the time between two SYN-ACKs, whenever the SYN came (`tcp_check_req`).
    fn refuses_as_old(&self, cx: &Cx<'_>, seg: &Segment) -> bool {
        let mut stamps = self.peer.stamps.clone();
        stamps.recent_at = stamps.recent_at.map(|_| seg.at - self.patience(cx));
        stamps.reject(seg)
    }

    /// The echoed timestamp is none that a SYN-ACK carried.
    fn echoes_none_of_ours(&self, seg: &Segment) -> bool {
        let echo = seg.options.timestamps.filter(|ts| ts.echo != 0).map(|ts| ts.echo);
        let (first, last) = (self.peer.stamps.now(self.sent.first), self.peer.stamps.now(self.sent.last));
        echo.is_some_and(|echo| echo.wrapping_sub(first) > last.wrapping_sub(first))
    }

    /// Answers a repeated SYN with the SYN-ACK (`seq` is none) and anything else out of place with an ACK. What carries data is
    /// always answered, anything else, and a reset with whatever it carries, at most once per tcp_invalid_ratelimit (`tcp_oow_rate_limited`).
    fn answer(&mut self, cx: &mut Cx<'_>, seg: &Segment, seq: Option<Seq>) -> RequestVerdict {
        let limited = seg.flags.intersects(TcpFlags::SYN.union(TcpFlags::RST)) || seg.seq_len() == 0;
        // What a reset gets is a challenge, and counts as one.
        let challenge = seg.has(TcpFlags::RST);
        if limited && !cx.sysctl.answers_out_of_place(cx.now, &mut self.last_answer) {
            cx.count.tcp_ext.tcp_ack_skipped_challenge += u64::from(challenge);
            cx.count.tcp_ext.tcp_ack_skipped_syn_recv += u64::from(!challenge);
            return RequestVerdict::Drop(DropWhy::RateLimited);
        }
        cx.count.tcp_ext.tcp_challenge_ack += u64::from(challenge);
        let Some(seq) = seq else {
            self.deadline = cx.now + self.patience(cx);
            self.learned.syn = seg.ecn();
            if ace(seg.flags) == 0 {
                // The first one had asked, so that its flags have been lost, or it asks no more (RFC 9768 section 3.1.4.1).
                self.learned.failed |= fail::ACE_RECV;
            }
            return RequestVerdict::Reply(self.syn_ack_again(cx, self.sent.timeouts));
        };
        let out = Outgoing::control(TcpRepr {
            src_port: self.setup.tuple.local_port,
            dst_port: self.setup.tuple.remote_port,
            seq: seq.0,
            ack: self.rcv_nxt.0,
            flags: TcpFlags::ACK,
            window: (self.synack_window() >> self.peer.rcv_wscale) as u16,
            urgent: 0,
            options: self.peer.options(cx.now),
        });
        RequestVerdict::Reply(out.in_answer_to(seg))
    }

    fn in_window(&self, seg: &Segment) -> bool {
        let nxt = self.rcv_nxt;
        let end = nxt + self.synack_window();
        let seg_end = seg.seq + seg.seq_len();
        seg.seq == nxt
            || (seg_end.after(nxt) && seg.seq.before(end))
            || (seg.seq == end && seg_end == seg.seq)
    }

    /// Retransmits the SYN-ACK with backoff, until the retries are spent (`reqsk_timer_handler`, `syn_ack_recalc`). Who has not acknowledged one
    /// is forgotten where nothing is `reachable` any more: none would come to him.
    pub fn on_timeout(&mut self, cx: &mut Cx<'_>, crowd: &Crowd, reachable: bool) -> RequestTimeout {
        if cx.now < self.deadline {
            return RequestTimeout::NotYet;
        }
        let (timeouts, defer) = (self.sent.timeouts, self.setup.options.defer_accept);
        let spent = u32::from(timeouts) >= self.retries(cx, crowd);
        let expired = spent && (defer == 0 || !self.sent.acked || timeouts >= defer);
        // A peer whose data is awaited has acknowledged the SYN-ACK; it is reminded once, at the end.
        let resend = defer == 0 || !self.sent.acked || timeouts >= defer - 1;
        cx.count.tcp_ext.tcp_timeouts += 1;
        if expired || (resend && !reachable && !self.sent.acked) {
            return RequestTimeout::Expired;
        }
        self.sent.timeouts = timeouts.saturating_add(1);
        self.deadline = cx.now + self.patience(cx);
        if !resend || !reachable {
            return RequestTimeout::NotYet;
        }
        RequestTimeout::Resend(self.again(cx))
    }

    /// The SYN-ACK once more, by the timer of the connection that began with data; `None` when `retries` are spent. The connection's own
    /// TCP_RTO_MAX_MS bounds the time until the next one (`tcp_fastopen_synack_timer`).
    pub(super) fn resend(&mut self, cx: &mut Cx<'_>, retries: u32, rto_max_ms: u32) -> Option<Outgoing> {
        cx.count.tcp_ext.tcp_timeouts += 1;
        if u32::from(self.sent.timeouts) >= retries {
            return None;
        }
        self.sent.timeouts = self.sent.timeouts.saturating_add(1);
        self.deadline = cx.now + self.patience_within(cx, rto_max_ms);
        Some(self.again(cx))
    }

    fn again(&mut self, cx: &mut Cx<'_>) -> Outgoing {
        self.syn_ack_again(cx, self.sent.timeouts.saturating_sub(1))
    }

    /// Who hears the second that goes again may have lost two for their ACE fields: nothing is marked from then on (RFC 9768 section 3.1.5;
    /// `reqsk_timer_handler`, `tcp_check_req`).
    fn syn_ack_again(&mut self, cx: &mut Cx<'_>, timeouts: u8) -> Outgoing {
        self.sent.again = self.sent.again.saturating_add(1);
        cx.count.tcp_ext.tcp_syn_retrans += 1;
        cx.count.tcp.retrans_segs += 1;
        let out = self.syn_ack_after(cx, None, timeouts);
        if self.sent.again > 1 {
            self.learned.failed |= fail::ACE_SEND;
        }
        out
    }

    /// TCP_SYNCNT of the listener, or tcp_synack_retries; fewer while old requests fill more than half of the backlog, which is
    /// for young ones (`reqsk_timer_handler`).
    fn retries(&self, cx: &Cx<'_>, crowd: &Crowd) -> u32 {
        let own = u32::from(self.setup.options.syncnt);
        let mut retries = if own == 0 { cx.sysctl.tcp_synack_retries } else { own };
        let mut young = u64::from(crowd.young) * 2;
        if u64::from(crowd.requests) * 2 > u64::from(crowd.backlog).max(8) {
            // Ends after 32 rounds at the latest: the number of requests has so many bits.
            while retries > 2 && u64::from(crowd.requests) >= young && young > 0 {
                retries -= 1;
                young *= 2;
            }
            if young == 0 {
                retries = retries.min(2);
            }
        }
        retries
    }

    /// Time until the SYN-ACK is sent again, at most the listener's TCP_RTO_MAX_MS (`tcp_reqsk_timeout` since Linux 6.19).
    fn patience(&self, cx: &Cx<'_>) -> Duration {
        self.patience_within(cx, self.setup.options.rto_max_ms)
    }

    /// The same under a bound in milliseconds, which is tcp_rto_max_ms where it is 0.
    fn patience_within(&self, cx: &Cx<'_>, own: u32) -> Duration {
        let max = if own != 0 { own } else { cx.sysctl.tcp_rto_max_ms };
        TIMEOUT_INIT.saturating_mul(1 << self.sent.timeouts.min(16)).min(Duration::from_millis(max.into()))
    }

    /// What is known of the path's ways with ECN.
    pub(super) const fn learned(&self) -> Learned {
        self.learned
    }

    /// What the connection takes over, while the request lives on.
    pub(super) fn accepted(&self) -> Accepted {
        Accepted {
            setup: self.setup.clone(),
            peer: self.peer.clone(),
            window: self.window,
            irs: self.irs,
            snd_wnd: self.snd_wnd,
            sent: Some(self.sent),
        }
    }

    /// The connection, in SYN-RECEIVED; give it `seg` next, which completed the handshake. What that tells of round trip and window counts
    /// whatever becomes of it there: it may be a SYN, too, which is challenged (`tcp_check_req`, `tcp_create_openreq_child`).
    #[must_use]
    pub fn into_conn(self, cx: &mut Cx<'_>, seg: &Segment) -> Conn {
        let learned = self.learned;
        let mut conn = Conn::accept(
            cx,
            Accepted {
                setup: self.setup,
                peer: self.peer,
                window: self.window,
                irs: self.irs,
                snd_wnd: self.snd_wnd,
                sent: Some(self.sent),
            },
        );
        conn.begin_with(cx, seg);
        conn.begin_accurate(learned, cx.sysctl.tcp_ecn_fallback, seg);
        // Segments are no longer than half of that window (`tcp_v4_syn_recv_sock`).
        conn.guess_rcv_mss();
        conn
    }
}

const _: () = assert!(size_of::<Request>() <= 384);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::testing::World;
    use crate::tcp::{Chunks, Layout, SocketOptions};
    use core::net::SocketAddr;
    use lowwater_wire::tcp::Timestamps;

    fn segment(at: Instant, flags: TcpFlags, seq: Seq, clock: u32) -> Segment {
        let timestamps = Some(Timestamps { value: clock, echo: 0 });
        Segment {
            at,
            seq,
            ack: Seq(0),
            flags,
            window: 100,
            urgent: 0,
            options: TcpOptions { timestamps, ..TcpOptions::EMPTY },
            tos: 0,
            ttl: 64,
            layout: Layout::default(),
            payload: Chunks::new(),
        }
    }

    fn request(cx: &mut Cx<'_>, clock: u32) -> Request {
        let tuple = Tuple::new(SocketAddr::from(([10, 0, 0, 1], 80)), SocketAddr::from(([10, 0, 0, 2], 5)));
        let options = std::sync::Arc::new(SocketOptions::new(cx.sysctl));
        let setup = Setup { tuple, mtu: 1_500, isn: Seq(0), ts_offset: 0, options, saved_syn: None };
        Request::new(cx, setup, &segment(cx.now, TcpFlags::SYN, Seq(0), clock)).expect("a SYN")
    }

    #[test]
    fn old_requests_make_room_for_young_ones() {
        let mut w = World::new();
        let cx = &mut w.cx(Instant::ZERO);
        let request = request(cx, 1);
        let retries = |requests, young| request.retries(cx, &Crowd { requests, young, backlog: 16 });
        assert_eq!(retries(8, 0), 5, "half of the backlog");
        assert_eq!(retries(9, 0), 2, "nobody is young");
        assert_eq!(retries(9, 9), 5, "all are");
        assert_eq!(retries(16, 4), 3);
    }

    #[test]
    fn a_reset_with_an_old_timestamp_ends_no_request_before_its_sixth_timeout() {
        let mut w = World::new();
        for timeouts in 0..=6 {
            let mut request = request(&mut w.cx(Instant::ZERO), 500);
            request.sent.timeouts = timeouts;
            let now = Instant::from_millis(120_000);
            let reset = segment(now, TcpFlags::RST, Seq(1), 400);
            let verdict = request.input(&mut w.cx(now), &reset);
            // Of 32 seconds after the fifth, of 64 after the sixth.
            assert_eq!(matches!(verdict, RequestVerdict::Gone(None)), timeouts == 6, "{timeouts} timeouts");
        }
    }
}
