//! An active open with data in its SYN, and what the SYN-ACK made of it (RFC 7413 section 4.2.1; `tcp_send_syn_data`,
//! `tcp_rcv_fastopen_synack`).
use super::cache::{Learnt, SynPlan};
use super::{ClientFail, News, Open, Syn, fact};
use crate::base::limits::TCP_MIN_SND_MSS;
use crate::base::{Cx, Error};
use crate::tcp::Setup;
use crate::tcp::chrono::Held;
use crate::tcp::conn::Conn;
use crate::tcp::negotiated::{Negotiated, TS_OPTION_BYTES, default_mss, mss_of_mtu};
use crate::tcp::output::nagle::Hold;
use crate::tcp::segment::{Outgoing, Segment};
use crate::tcp::state::State;
use bytes::Bytes;
use lowwater_wire::tcp::TcpFlags;

/// Room that a SYN with data leaves for options, its own and those of middleboxes (`MAX_TCP_OPTION_SPACE`).
const OPTION_SPACE: u16 = 40;

impl Conn {
    /// An active open whose SYN may carry the option and data. `deferred` leaves the SYN to the first [`Conn::send`]
    /// (TCP_FASTOPEN_CONNECT); it has no effect unless data may go along.
    pub fn connect_fast(cx: &mut Cx<'_>, setup: Setup, plan: &SynPlan, deferred: bool) -> Self {
        let mut conn = Self::connect(cx, setup);
        let deferred = deferred && plan.data;
        let mss = if plan.data { conn.syn_mss(plan.mss) } else { 0 };
        let syn = Syn { option: plan.option, mss, remembered: plan.mss, deferred, data: Bytes::new() };
        conn.rest.stats.fast.facts |= if plan.trial { fact::TRIAL } else { 0 };
        conn.rest.stats.fast.fail = plan.fail;
        conn.rest.fast = Some(Box::new(Open::Syn(syn)));
        if deferred {
            conn.out.tried();
            // The first write opens it (`tcp_connect`).
            cx.count.tcp.active_opens -= 1;
        }
        conn
    }

    /// The SYN waits for the first write.
    #[must_use]
    pub fn is_deferred(&self) -> bool {
        matches!(self.rest.fast.as_deref(), Some(Open::Syn(Syn { deferred: true, .. })))
    }

    /// Bytes of the largest segment by the path's MTU of now and what the server took before, or else what we would take (`tcp_send_syn_data`).
    fn syn_mss(&self, remembered: u16) -> u16 {
        let clamp = if remembered == 0 { self.peer.advmss } else { remembered };
        mss_of_mtu(self.path.pmtu.mtu(), self.tuple.is_v6()).min(clamp)
    }

    /// The first write behind a deferred connect() cannot open it: it is as though that had not been tried.
    pub fn end_deferred(&mut self, cx: &mut Cx<'_>) {
        self.rest.fast = None;
        self.finish(cx, None);
    }

    /// Takes the front of `data` along with the SYN that is yet to leave; how much of it. For a new connection that was not
    /// deferred to be called before its SYN leaves.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when the SYN takes no data, or has left.
    pub fn send_with_syn(&mut self, cx: &mut Cx<'_>, data: &[u8]) -> Result<usize, Error> {
        let deferred = self.is_deferred();
        if deferred {
            // Options may have been set since connect(), and settings.
            self.prepare_syn(cx.sysctl);
        }
        let Some(Open::Syn(syn)) = self.rest.fast.as_deref() else { return Err(Error::WouldBlock) };
        // The route may have another MTU, too.
        let mss = if deferred { self.syn_mss(syn.remembered) } else { syn.mss };
        let user = self.options.maxseg;
        let Some(Open::Syn(syn)) = self.rest.fast.as_deref_mut() else { return Err(Error::WouldBlock) };
        syn.mss = mss;
        if self.state != State::SynSent || !syn.data.is_empty() || self.tx.queue_ref().nxt() > 0 {
            return Err(Error::WouldBlock);
        }
        let space = match syn.mss {
            0 => 0,
            mss if user == 0 => mss.max(TCP_MIN_SND_MSS) - OPTION_SPACE,
            mss => mss.min(user).max(TCP_MIN_SND_MSS) - OPTION_SPACE,
        };
        let taken = data.len().min(usize::from(space));
        syn.data = Bytes::copy_from_slice(&data[..taken]);
        cx.count.tcp.active_opens += u64::from(core::mem::take(&mut syn.deferred));
        self.out.try_send(Hold::Push);
        if taken == 0 && !data.is_empty() { Err(Error::WouldBlock) } else { Ok(taken) }
    }

    /// The application waits for the connection with more to write, which may carry the last ACK of the handshake; or it does so no more
    /// (`sk_write_pending`).
    pub fn expect_write(&mut self, expect: bool) {
        let facts = &mut self.rest.stats.fast.facts;
        if !expect {
            *facts &= !fact::MORE;
        } else if self.state == State::SynSent {
            *facts |= fact::MORE;
        }
    }

    /// The first SYN: with the option and the data, which stays in the queue apart from the SYN, to be sent again without it.
    pub(in crate::tcp) fn first_syn(&mut self, cx: &mut Cx<'_>) -> Outgoing {
        let syn = match self.rest.fast.take().map(|open| *open) {
            Some(Open::Syn(syn)) => syn,
            _ => Syn { option: None, mss: 0, remembered: 0, deferred: false, data: Bytes::new() },
        };
        self.settle_syn(cx, syn.mss);
        let plan = self.tx.commit_syn(cx, &mut self.path);
        if let Some(option) = &syn.option {
            self.rest.stats.fast.facts |= fact::OPTION;
            self.rest.stats.fast.facts |= if option.is_experimental() { fact::EXPERIMENTAL } else { 0 };
        }
        let mut out = self.syn_segment(cx, &plan, syn.option);
        if !syn.data.is_empty() {
            self.rest.stats.fast.facts |= fact::DATA;
            out.payload = self.commit_syn_data(cx, syn.data);
        }
        out
    }

    /// The size that segments are counted on to have until the SYN is answered. What is set later changes nothing of it
    /// (`tcp_connect_init`). `remembered` is what the server took before, where the SYN may carry data (`tcp_send_syn_data`), or 0.
    fn settle_syn(&mut self, cx: &Cx<'_>, remembered: u16) {
        let clamp = match (remembered, self.options.maxseg) {
            (0, 0) => default_mss(&self.tuple),
            (mss, 0) | (0, mss) => mss,
            (mss, maxseg) => mss.min(maxseg),
        };
        let options = Negotiated::asked_option_bytes(cx.sysctl);
        self.rest.stats.fast.facts |= if options > 0 { fact::STAMPED } else { 0 };
        let probing = cx.sysctl.tcp_mtu_probing > 1;
        let searched = u16::try_from(cx.sysctl.tcp_base_mss).unwrap_or(u16::MAX).saturating_add(options);
        self.path.pmtu.set_peer_mss(Some(if probing { clamp.min(searched) } else { clamp }));
        self.path.pmtu.set_min_mss(cx.sysctl.tcp_min_snd_mss);
    }

    /// Bytes of options in segments as our first SYN counted on them.
    pub(in crate::tcp) const fn syn_option_bytes(&self) -> u16 {
        if self.rest.stats.fast.has(fact::STAMPED) { TS_OPTION_BYTES } else { 0 }
    }

    fn commit_syn_data(&mut self, cx: &mut Cx<'_>, data: Bytes) -> Bytes {
        let len = data.len();
        self.tx.queue().unsent.append_bytes(cx.pool, data, len);
        self.tx.queue().unsent.mark_push();
        self.rest.stats.chrono.start(cx.now, Held::Busy);
        self.snd.pushed = self.tx.write_seq();
        self.tx.set_mss(len as u16);
        let Some(plan) = self.tx.commit_send(cx, &mut self.path, len) else { return Bytes::new() };
        self.count_syn_data(plan.payload.len());
        self.out.tried();
        plan.payload
    }

    /// The SYN-ACK has come, and what it acknowledges is out of the queue (`tcp_rcv_fastopen_synack`). True when the data has
    /// to be sent again: then that acknowledges the SYN-ACK.
    pub(in crate::tcp) fn fast_syn_answered(&mut self, cx: &mut Cx<'_>, seg: &Segment) -> bool {
        if !self.rest.stats.fast.has(fact::OPTION | fact::DATA) {
            return false;
        }
        let resent = self.tx.total_retrans() > 0;
        let data = self.rest.stats.fast.has(fact::DATA) && self.has_in_flight();
        let asked = self.rest.stats.fast.has(fact::OPTION);
        let got = seg.options.fastopen.filter(|_| asked);
        let mut learnt = Learnt {
            mss: seg.options.mss.unwrap_or_else(|| default_mss(&self.tuple)),
            cookie: got,
            syn_lost: false,
            try_exp: 0,
        };
        if asked && resent {
            // Only a later SYN got through, or only the answer to one.
            learnt.syn_lost = got.is_none() && data;
        } else if asked && got.is_none() && !self.rest.stats.fast.has(fact::DATA) {
            learnt.try_exp = if self.rest.stats.fast.has(fact::EXPERIMENTAL) { 2 } else { 1 };
        }
        self.rest.fast = Some(Box::new(Open::News(News::Learnt(learnt))));
        if data {
            self.rest.stats.fast.fail =
                if resent { ClientFail::SynRetransmitted } else { ClientFail::DataNotAcked };
            cx.count.tcp_ext.tcp_fast_open_active_fail += 1;
            self.tx.on_syn_data_refused(cx, &mut self.path);
            return true;
        }
        if self.rest.stats.fast.has(fact::DATA) {
            self.rest.stats.fast.facts |= fact::DATA_ACKED;
            cx.count.tcp_ext.tcp_fast_open_active += 1;
            self.path.rate.join_syn_and_data();
        }
        // Linux counts its data twice, and forgets what had come before it (`tcp_fastopen_add_skb`).
        let stats = &mut self.rest.stats;
        if seg.payload_len() > 0 {
            stats.data_segs_in = stats.data_segs_in.wrapping_add(seg.segs());
        }
        if seg.payload_len() > 0 || seg.has(TcpFlags::FIN) {
            stats.segs_in = seg.segs();
        }
        self.take_syn_data(cx, seg);
        false
    }

    /// Too many timeouts in a row make us suspect that something on the path swallows Fast Open
    /// (`tcp_fastopen_active_detect_blackhole`). `expired`: the connection is given up.
    pub(in crate::tcp) fn suspect_path(&mut self, cx: &mut Cx<'_>, expired: bool) {
        if !self.rest.stats.fast.has(fact::OPTION | fact::DATA | fact::DATA_ACKED) {
            return;
        }
        let timeouts = self.tx.retransmits();
        if timeouts == 2 || (timeouts < 2 && expired) {
            self.tell(News::Blackhole);
            cx.count.tcp_ext.tcp_fast_open_active_fail += 1;
        }
    }

    /// A reset out of order before any data came (`tcp_validate_incoming`).
    pub(in crate::tcp) fn suspect_reset(&mut self) {
        if self.rest.stats.fast.has(fact::OPTION)
            && self.rest.stats.data_segs_in == 0
            && self.state == State::Established
        {
            self.tell(News::Blackhole);
        }
    }

    /// A FIN beyond missing data came with the acknowledgement of ours, when nobody was left to read (`tcp_rcv_state_process`).
    pub(in crate::tcp) fn suspect_lost_data(&mut self) {
        if self.rest.stats.fast.has(fact::OPTION) && self.app.orphan && self.state == State::FinWait2 {
            self.tell(News::Blackhole);
        }
    }

    /// The end: nothing came but a FIN beyond a hole, or data after Fast Open had been suspended
    /// (`tcp_fastopen_active_disable_ofo_check`).
    pub(in crate::tcp) fn judge_fast_open(&mut self) {
        if !self.rest.stats.fast.has(fact::OPTION) {
            return;
        }
        if self.rest.stats.data_segs_in == 0 {
            if self.rx.holds_only_fin() {
                self.tell(News::Blackhole);
            }
        } else if self.rest.stats.fast.has(fact::TRIAL) {
            self.tell(News::Proven);
        }
    }

    /// Leaves word for the stack; what it has not taken yet matters more.
    fn tell(&mut self, news: News) {
        if self.rest.fast.is_none() {
            self.rest.fast = Some(Box::new(Open::News(news)));
        }
    }

    /// What the stack has to hear, once.
    pub fn take_news(&mut self) -> Option<News> {
        match self.rest.fast.as_deref() {
            Some(Open::News(news)) => {
                let news = news.clone();
                self.rest.fast = None;
                Some(news)
            }
            _ => None,
        }
    }
}
