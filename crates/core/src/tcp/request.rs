//! SYN-RECEIVED of a passive open as a small object (RFC 9293 section 3.10.7.4; Linux's `tcp_check_req`).
use super::Setup;
use super::conn::Conn;
use super::negotiated::Negotiated;
use super::reset::reset_for;
use super::segment::{Ecn, Outgoing, Segment};
use super::seq::Seq;
use super::window::{self, InitialWindow};
use crate::base::time::{Duration, Instant};
use crate::base::{Cx, DropWhy, Tuple};
use lowwater_wire::tcp::{TcpFlags, TcpRepr};

/// First retransmission of a SYN or SYN-ACK (`TCP_TIMEOUT_INIT`, RFC 6298 section 2.1).
pub(super) const TIMEOUT_INIT: Duration = Duration::from_secs(1);

/// A connection before the handshake's last segment. It holds no buffers; `into_conn` may be called at any time, so that a
/// request which carried data (TCP Fast Open) can become a connection before the final ACK.
#[derive(Debug)]
pub struct Request {
    setup: Setup,
    peer: Negotiated,
    window: InitialWindow,
    irs: Seq,
    snd_wnd: u16,
    /// SYN-ACKs after the first, for whatever reason (`num_retrans`).
    retransmits: u8,
    /// Those that the timer sent: only these use up tcp_synack_retries, a peer that repeats its SYN does not (`num_timeout`).
    timeouts: u8,
    sent_at: Instant,
    deadline: Instant,
    last_answer: Option<Instant>,
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
pub(super) struct Accepted {
    pub(super) setup: Setup,
    pub(super) peer: Negotiated,
    pub(super) window: InitialWindow,
    pub(super) irs: Seq,
    pub(super) snd_wnd: u16,
    /// When the SYN-ACK went out, unless it was retransmitted (Karn).
    pub(super) synack_sent: Option<Instant>,
}

impl Request {
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
        // RFC 3168 section 6.1.1: an ECN-setup SYN carries ECE and CWR, and its packet is not ECN-capable.
        peer.ecn = cx.sysctl.tcp_ecn != 0
            && syn.has(TcpFlags::ECE)
            && syn.has(TcpFlags::CWR)
            && syn.ecn == Ecn::NotEct;
        Ok(Self {
            setup,
            peer,
            window,
            irs: syn.seq,
            snd_wnd: syn.window,
            retransmits: 0,
            timeouts: 0,
            sent_at: cx.now,
            deadline: cx.now + TIMEOUT_INIT,
            last_answer: None,
        })
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

    /// The SYN-ACK.
    pub fn syn_ack(&mut self, cx: &mut Cx<'_>) -> Outgoing {
        self.sent_at = cx.now;
        let mut flags = TcpFlags::SYN | TcpFlags::ACK;
        if self.peer.ecn {
            flags.insert(TcpFlags::ECE);
        }
        let mut out = Outgoing::control(TcpRepr {
            src_port: self.setup.tuple.local_port,
            dst_port: self.setup.tuple.remote_port,
            seq: self.setup.isn.0,
            ack: (self.irs + 1).0,
            flags,
            window: self.window.rcv_wnd.min(65_535) as u16,
            urgent: 0,
            options: self.peer.syn_options(cx.now),
        });
        out.tos = self.setup.options.tos;
        out.ttl = self.setup.options.ttl;
        out
    }

    /// Looks at a segment of this flow.
    pub fn input(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> RequestVerdict {
        let paws = self.peer.ts && self.peer.stamps.reject(seg);
        let pure_syn = seg.has(TcpFlags::SYN) && !seg.has(TcpFlags::ACK) && !seg.has(TcpFlags::RST);
        if pure_syn && seg.seq == self.irs && !paws {
            return self.answer(cx, true);
        }
        if seg.has(TcpFlags::ACK) && seg.ack != self.setup.isn + 1 {
            return reset_for(&self.setup.tuple, seg)
                .map_or(RequestVerdict::Gone(None), RequestVerdict::Reset);
        }
        if paws || !self.in_window(seg) {
            if paws {
                cx.count.tcp_ext.paws_estab += 1;
            }
            return if seg.has(TcpFlags::RST) {
                RequestVerdict::Drop(DropWhy::TcpOutOfWindow)
            } else {
                self.answer(cx, false)
            };
        }
        if seg.has(TcpFlags::RST) {
            cx.count.tcp.attempt_fails += 1;
            return RequestVerdict::Gone(None);
        }
        if seg.has(TcpFlags::SYN) && seg.seq != self.irs {
            cx.count.tcp.attempt_fails += 1;
            return RequestVerdict::Gone(reset_for(&self.setup.tuple, seg));
        }
        if !seg.has(TcpFlags::ACK) {
            return RequestVerdict::Drop(DropWhy::TcpFlags);
        }
        RequestVerdict::Spawn
    }

    /// Answers a repeated SYN with the SYN-ACK and anything else out of place with an ACK, both rate-limited.
    fn answer(&mut self, cx: &mut Cx<'_>, syn: bool) -> RequestVerdict {
        let interval = cx.sysctl.invalid_ratelimit_ns();
        if self.last_answer.is_some_and(|at| cx.now.nanos_since(at) < interval) {
            cx.count.tcp_ext.tcp_ack_skipped_syn_recv += 1;
            return RequestVerdict::Drop(DropWhy::RateLimited);
        }
        self.last_answer = Some(cx.now);
        if syn {
            self.retransmits = self.retransmits.saturating_add(1);
            self.deadline = cx.now + self.patience(cx);
            return RequestVerdict::Reply(self.syn_ack(cx));
        }
        RequestVerdict::Reply(Outgoing::control(TcpRepr {
            src_port: self.setup.tuple.local_port,
            dst_port: self.setup.tuple.remote_port,
            seq: (self.setup.isn + 1).0,
            ack: (self.irs + 1).0,
            flags: TcpFlags::ACK,
            window: (self.window.rcv_wnd >> self.peer.rcv_wscale).min(65_535) as u16,
            urgent: 0,
            options: self.peer.options(cx.now),
        }))
    }

    fn in_window(&self, seg: &Segment) -> bool {
        let nxt = self.irs + 1;
        let end = nxt + self.window.rcv_wnd;
        let seg_end = seg.seq + seg.seq_len();
        seg.seq == nxt
            || (seg_end.after(nxt) && seg.seq.before(end))
            || (seg.seq == end && seg_end == seg.seq)
    }

    /// Retransmits the SYN-ACK with backoff, until tcp_synack_retries are spent.
    pub fn on_timeout(&mut self, cx: &mut Cx<'_>) -> RequestTimeout {
        if cx.now < self.deadline {
            return RequestTimeout::NotYet;
        }
        if u32::from(self.timeouts) >= cx.sysctl.tcp_synack_retries {
            return RequestTimeout::Expired;
        }
        self.timeouts += 1;
        self.retransmits = self.retransmits.saturating_add(1);
        cx.count.tcp_ext.tcp_timeouts += 1;
        cx.count.tcp_ext.tcp_syn_retrans += 1;
        cx.count.tcp.retrans_segs += 1;
        self.deadline = cx.now + self.patience(cx);
        RequestTimeout::Resend(self.syn_ack(cx))
    }

    /// Time until the SYN-ACK is sent again.
    fn patience(&self, cx: &Cx<'_>) -> Duration {
        let max = Duration::from_millis(u64::from(cx.sysctl.tcp_rto_max_ms));
        TIMEOUT_INIT.saturating_mul(1 << self.timeouts.min(16)).min(max)
    }

    /// The connection, in SYN-RECEIVED; give it the segment that completed the handshake.
    #[must_use]
    pub fn into_conn(self, cx: &mut Cx<'_>) -> Conn {
        let retransmitted = self.retransmits > 0;
        Conn::accept(
            cx,
            Accepted {
                setup: self.setup,
                peer: self.peer,
                window: self.window,
                irs: self.irs,
                snd_wnd: self.snd_wnd,
                synack_sent: (!retransmitted).then_some(self.sent_at),
            },
        )
    }
}

const _: () = assert!(size_of::<Request>() <= 384);
