//! What the handshake settled, and the timestamps of RFC 7323 that live on with the connection.
use super::options::SocketOptions;
use super::segment::Segment;
use crate::base::limits::TCP_MIN_SND_MSS;
use crate::base::time::Instant;
use crate::base::{Sysctl, Tuple};
use lowwater_wire::tcp::{TcpFlags, TcpOptions, Timestamps};

/// Seconds after which TS.Recent is not trusted any more (`TCP_PAWS_WRAP`, Linux 6.7 and later): RFC 7323 section 5.5 allows 24 days, which is for a clock of a
/// millisecond; this is for one of a microsecond.
const PAWS_WRAP_SECS: u64 = i32::MAX as u64 / 1_000_000;
/// On an established connection a timestamp may be this much older than TS.Recent (`TCP_PAWS_WINDOW`).
const PAWS_WINDOW: i32 = 1;
/// Age of TS.Recent beyond which a reset with an older timestamp is believed (`TCP_PAWS_MSL`).
const PAWS_MSL_NS: u64 = 60 * 1_000_000_000;
/// Nanoseconds of a second.
const NANOS: u64 = 1_000_000_000;
/// Ticks of our timestamp clock per second (`TCP_TS_HZ`).
const TS_NS: u64 = 1_000_000;
/// Largest shift of a window scale (RFC 7323 section 2.3).
pub(crate) const MAX_WSCALE: u8 = 14;

/// Bytes that the timestamp option takes in every segment, padding included.
pub(crate) const TS_OPTION_BYTES: u16 = 12;

/// MSS that a path with this MTU allows, without options (RFC 9293 section 3.7.1, RFC 6691).
pub(crate) const fn mss_of_mtu(mtu: u16, v6: bool) -> u16 {
    mtu.saturating_sub(if v6 { 60 } else { 40 })
}

/// What both sides agreed on about ECN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnMode {
    /// Nothing.
    #[default]
    Off,
    /// One echo for all marks of a window (RFC 3168).
    Classic,
    /// Feedback that counts (RFC 9768).
    Accurate,
}

impl EcnMode {
    /// Packets may be marked, and somebody hears of it.
    #[must_use]
    pub const fn capable(self) -> bool {
        !matches!(self, Self::Off)
    }

    /// ECE and CWR are flags.
    #[must_use]
    pub const fn classic(self) -> bool {
        matches!(self, Self::Classic)
    }

    /// They are bits of a counter.
    #[must_use]
    pub const fn accurate(self) -> bool {
        matches!(self, Self::Accurate)
    }
}

/// Options that both sides agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Negotiated {
    /// Timestamps on every segment.
    pub ts: bool,
    /// Selective acknowledgements.
    pub sack: bool,
    /// Window scaling, both ways.
    pub wscale: bool,
    /// Shift of the windows that the peer advertises.
    pub snd_wscale: u8,
    /// Shift of the windows that we advertise.
    pub rcv_wscale: u8,
    /// ECN.
    pub ecn: EcnMode,
    /// MSS that the peer announced, or the default of RFC 9293 section 3.7.1.
    pub mss_clamp: u16,
    /// MSS that we announce.
    pub advmss: u16,
    /// The timestamps themselves.
    pub stamps: Stamps,
}

/// Our timestamp clock and the peer's last timestamp.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// Offset of our clock towards this peer.
    pub offset: u32,
    /// TS.Recent.
    pub recent: u32,
    /// When TS.Recent was taken; `None` while there is none.
    pub recent_at: Option<Instant>,
}

impl Stamps {
    /// Our clock: milliseconds, moved by the offset.
    pub(crate) const fn now(&self, now: Instant) -> u32 {
        ((now.as_nanos() / TS_NS) as u32).wrapping_add(self.offset)
    }

    /// The option of an outgoing segment.
    pub(crate) const fn option(&self, now: Instant) -> Timestamps {
        Timestamps { value: self.now(now), echo: self.recent }
    }

    /// PAWS (RFC 7323 section 5.3) for a connection: true when the segment is too old.
    pub(crate) fn too_old(&self, seg: &Segment) -> bool {
        self.older_by_more_than(PAWS_WINDOW, seg)
    }

    /// PAWS for requests and TIME-WAIT, which allow nothing; but when TS.Recent is a minute old, a peer may have rebooted, and
    /// its resets must end what is left here (`tcp_paws_reject`).
    pub(crate) fn reject(&self, seg: &Segment) -> bool {
        let rebooted = |at| seg.has(TcpFlags::RST) && seg.at.nanos_since(at) >= PAWS_MSL_NS;
        self.older_by_more_than(0, seg) && !self.recent_at.is_some_and(rebooted)
    }

    fn older_by_more_than(&self, window: i32, seg: &Segment) -> bool {
        let (Some(ts), Some(at)) = (seg.options.timestamps, self.recent_at) else {
            return false;
        };
        // TS.Recent expires on an idle connection (section 5.5); zero is what some hosts send in their SYNs before they have a
        // clock (`tcp_paws_check`).
        self.recent.wrapping_sub(ts.value) as i32 > window && !outdated(at, seg.at) && self.recent != 0
    }

    /// By how much the segment's timestamp is older than TS.Recent, in the peer's ticks taken for milliseconds.
    pub(crate) fn lag_ms(&self, seg: &Segment) -> Option<u128> {
        seg.options.timestamps.map(|ts| u128::from(self.recent.wrapping_sub(ts.value)))
    }

    /// Takes TS.Recent over from a segment that RFC 7323 section 4.3 allows (SEG.SEQ <= Last.ACK.sent).
    pub(crate) fn store(&mut self, seg: &Segment) {
        if let Some(ts) = seg.options.timestamps {
            let newer = ts.value.wrapping_sub(self.recent) as i32 >= 0 || self.recent == 0;
            if newer || self.recent_at.is_none_or(|at| outdated(at, seg.at)) {
                self.recent = ts.value;
                self.recent_at = Some(seg.at);
            }
        }
    }
}

/// TS.Recent of then says nothing any more; counted in whole seconds.
const fn outdated(then: Instant, now: Instant) -> bool {
    now.as_nanos() / NANOS >= then.as_nanos() / NANOS + PAWS_WRAP_SECS
}

impl Negotiated {
    /// What we would offer: the intersection with the peer's SYN is taken by [`Negotiated::accept`].
    pub(crate) fn offer(
        sysctl: &Sysctl,
        tuple: &Tuple,
        mtu: u16,
        options: &SocketOptions,
        ts_offset: u32,
    ) -> Self {
        Self {
            ts: sysctl.tcp_timestamps != 0,
            sack: sysctl.tcp_sack,
            wscale: sysctl.tcp_window_scaling,
            snd_wscale: 0,
            rcv_wscale: 0,
            ecn: EcnMode::Off,
            mss_clamp: default_mss(tuple),
            advmss: Self::advertise(tuple, mtu, options),
            stamps: Stamps {
                offset: if sysctl.tcp_timestamps == 1 { ts_offset } else { 0 },
                recent: 0,
                recent_at: None,
            },
        }
    }

    /// What the route says the MSS may be (`dst_metric_advmss`).
    pub(crate) fn route_advmss(tuple: &Tuple, mtu: u16, options: &SocketOptions) -> u16 {
        match options.route.advmss {
            0 => mss_of_mtu(mtu, tuple.is_v6()),
            of_route => of_route.max(TCP_MIN_SND_MSS),
        }
    }

    /// The MSS that we announce.
    pub(crate) fn advertise(tuple: &Tuple, mtu: u16, options: &SocketOptions) -> u16 {
        let by_path = Self::route_advmss(tuple, mtu, options);
        let advmss = if options.maxseg != 0 { by_path.min(options.maxseg) } else { by_path };
        advmss.max(TCP_MIN_SND_MSS)
    }

    /// What the sysctls say now counts for the SYN that goes again and for its answer, whatever the first one offered
    /// (`tcp_syn_options`, `tcp_parse_options`).
    pub(crate) const fn reconsider(&mut self, sysctl: &Sysctl) {
        self.ts = sysctl.tcp_timestamps != 0;
        self.sack = sysctl.tcp_sack;
        self.wscale = sysctl.tcp_window_scaling;
    }

    /// Keeps of the offer what the peer's SYN or SYN-ACK also carries.
    pub(crate) fn accept(&mut self, seg: &Segment, user_mss: u16) {
        let o = &seg.options;
        self.ts &= o.timestamps.is_some();
        self.sack &= o.sack_permitted;
        self.wscale &= o.window_scale.is_some();
        if self.wscale {
            self.snd_wscale = o.window_scale.unwrap_or(0).min(MAX_WSCALE);
        } else {
            self.rcv_wscale = 0;
        }
        if let Some(mss) = o.mss {
            self.mss_clamp = mss;
        }
        if user_mss != 0 {
            self.mss_clamp = self.mss_clamp.min(user_mss);
        }
        self.mss_clamp = self.mss_clamp.max(TCP_MIN_SND_MSS);
        if self.ts {
            self.stamps.recent_at = None;
            self.stamps.store(seg);
        }
    }

    /// Bytes of options in every data segment of a connection whose peer agrees to all that our SYN asks for.
    pub(crate) const fn asked_option_bytes(sysctl: &Sysctl) -> u16 {
        if sysctl.tcp_timestamps != 0 { TS_OPTION_BYTES } else { 0 }
    }

    /// Bytes of options in every data segment.
    pub(crate) const fn data_option_bytes(&self) -> u16 {
        if self.ts { TS_OPTION_BYTES } else { 0 }
    }

    /// Payload bytes of a full segment on a path with this MTU (`tcp_sync_mss`).
    pub(crate) fn mss(&self, mtu: u16, v6: bool) -> u16 {
        let whole = mss_of_mtu(mtu, v6).min(self.mss_clamp).max(TCP_MIN_SND_MSS);
        whole - self.data_option_bytes()
    }

    /// Options of our SYN or SYN-ACK.
    pub(crate) fn syn_options(&self, now: Instant) -> TcpOptions {
        TcpOptions {
            mss: Some(self.advmss),
            window_scale: self.wscale.then_some(self.rcv_wscale),
            sack_permitted: self.sack,
            timestamps: self.ts.then(|| self.stamps.option(now)),
            ..TcpOptions::default()
        }
    }

    /// Options of every other segment, without selective acknowledgements.
    pub(crate) fn options(&self, now: Instant) -> TcpOptions {
        TcpOptions { timestamps: self.ts.then(|| self.stamps.option(now)), ..TcpOptions::default() }
    }
}

/// MSS of a peer that does not announce one (RFC 9293 section 3.7.1).
pub(crate) const fn default_mss(tuple: &Tuple) -> u16 {
    if tuple.is_v6() { 1_220 } else { 536 }
}
