//! What an application may set on an SCTP socket, under RFC 6458's and Linux's names, with the sysctls as defaults.
use super::handshake::init::Features;
use super::notification::Subscriptions;
use crate::base::Sysctl;
use crate::base::sysctl::SctpCongestionKind;
use crate::base::time::Duration;

/// Bounds and smoothing of the retransmission timeout (SCTP_RTOINFO).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoOptions {
    /// Timeout before the first sample, in milliseconds; 1 to 86,400,000, as the two bounds.
    pub initial_ms: u32,
    /// Least timeout in milliseconds.
    pub min_ms: u32,
    /// Longest timeout in milliseconds.
    pub max_ms: u32,
    /// Smoothing of the average: a sample counts 2^-alpha, of 31 at most.
    pub alpha: u8,
    /// Smoothing of the variation: a sample counts 2^-beta, of 31 at most.
    pub beta: u8,
}

impl RtoOptions {
    /// What the sysctls say.
    #[must_use]
    pub fn new(sysctl: &Sysctl) -> Self {
        Self {
            initial_ms: sysctl.sctp_rto_initial,
            min_ms: sysctl.sctp_rto_min,
            max_ms: sysctl.sctp_rto_max,
            alpha: sysctl.sctp_rto_alpha_exp_divisor.min(31) as u8,
            beta: sysctl.sctp_rto_beta_exp_divisor.min(31) as u8,
        }
    }

    /// `ns` nanoseconds within the bounds.
    #[must_use]
    pub const fn bounded(&self, ns: u64) -> u64 {
        let (min, max) = (self.min_ms as u64 * 1_000_000, self.max_ms as u64 * 1_000_000);
        if ns < min {
            min
        } else if ns > max {
            max
        } else {
            ns
        }
    }
}

/// What may be set for each path (SCTP_PEER_ADDR_PARAMS, SCTP_PEER_ADDR_THLDS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathOptions {
    /// Milliseconds between heartbeats, beside half of the timeout and a jitter.
    pub hb_interval_ms: u32,
    /// Heartbeats are sent at all; a path that is not confirmed yet gets them in any case.
    pub hb_enable: bool,
    /// Errors in a row beyond which the path is inactive (Path.Max.Retrans).
    pub max_retrans: u16,
    /// Errors in a row beyond which it is potentially failed (RFC 7829 PFMR).
    pub pf_retrans: u16,
    /// Bytes that a packet may have, whatever the route takes beyond that, 512 at least; 0 for what the route takes (SPP_PMTUD_DISABLE).
    pub pmtu: u16,
}

impl PathOptions {
    /// What the sysctls say.
    #[must_use]
    pub fn new(sysctl: &Sysctl) -> Self {
        Self {
            hb_interval_ms: sysctl.sctp_hb_interval,
            hb_enable: true,
            max_retrans: u16::try_from(sysctl.sctp_path_max_retrans).unwrap_or(u16::MAX),
            pf_retrans: u16::try_from(sysctl.sctp_pf_retrans).unwrap_or(u16::MAX),
            pmtu: 0,
        }
    }
}

/// What a peer may have done by RE-CONFIG, and the owner ask for (SCTP_ENABLE_STREAM_RESET, whose bits these are); nothing of it without
/// [`Features::RECONF`] at both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reconfigurable(pub u8);

impl Reconfigurable {
    /// Streams begin anew.
    pub const STREAMS: u8 = 1;
    /// All numbers do, TSNs too.
    pub const ASSOCIATION: u8 = 2;
    /// Streams are added.
    pub const COUNT: u8 = 4;
    /// All of it.
    pub const ALL: Self = Self(7);

    /// It is among them.
    #[must_use]
    pub const fn has(self, right: u8) -> bool {
        self.0 & right != 0
    }
}

/// Socket options. Inherited by the associations that a listener accepts. The core takes them as they are; bounds named here are kept by the
/// crate `lowwater`, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SctpOptions {
    /// SCTP_RTOINFO.
    pub rto: RtoOptions,
    /// Of paths to come (SCTP_PEER_ADDR_PARAMS on the socket).
    pub path: PathOptions,
    /// Streams that we ask for, one at least (SCTP_INITMSG).
    pub num_ostreams: u16,
    /// Streams that the peer may ask for, one at least (SCTP_INITMSG).
    pub max_instreams: u16,
    /// INITs and COOKIE ECHOs that are repeated (SCTP_INITMSG).
    pub max_init_retransmits: u16,
    /// Longest timeout of INIT in milliseconds; 0 takes the one of SCTP_RTOINFO (SCTP_INITMSG).
    pub max_init_timeo_ms: u32,
    /// Errors in a row of the whole association (SCTP_ASSOCINFO).
    pub association_max_retrans: u16,
    /// Milliseconds that a cookie is good for, 1 at least (SCTP_ASSOCINFO).
    pub cookie_life_ms: u32,
    /// Delay of a SACK in milliseconds, 500 at most; 0 sends them at once (SCTP_DELAYED_SACK).
    pub sack_delay_ms: u32,
    /// Packets with DATA after which a SACK is not delayed (SCTP_DELAYED_SACK).
    pub sack_freq: u32,
    /// SCTP_NODELAY: no waiting for a full packet.
    pub nodelay: bool,
    /// Largest message without fragmentation, 444 to 65,516; 0 takes the path's (SCTP_MAXSEG).
    pub maxseg: u16,
    /// Messages that do not fit one packet are refused (SCTP_DISABLE_FRAGMENTS).
    pub disable_fragments: bool,
    /// Packets that may leave at one opportunity; 0 for no bound (SCTP_MAX_BURST).
    pub max_burst: u32,
    /// Data leaves at the rate of the path instead of in bursts. BBR paces in any case.
    pub pacing: bool,
    /// What moves the windows of the paths; may be changed while they are used.
    pub congestion: SctpCongestionKind,
    /// Extensions that are offered to the peer and used with it (SCTP_ECN_SUPPORTED, SCTP_PR_SUPPORTED, SCTP_RECONFIG_SUPPORTED).
    pub features: Features,
    /// What may be reconfigured.
    pub reconfigurable: Reconfigurable,
    /// SO_SNDBUF in bytes, 4,608 at least.
    pub sndbuf: u32,
    /// SO_RCVBUF in bytes, 2,304 at least; half of it is offered as window.
    pub rcvbuf: u32,
    /// Unsent bytes under which a socket is writable, as TCP's option has it: 0 takes the default, which is no limit for SCTP (no sysctl has
    /// another), and `u32::MAX` is none, too. 1 takes a message when nothing is unsent.
    pub notsent_lowat: u32,
    /// Unsent bytes of one stream under which it takes a message, whatever the others have, in the same numbers.
    pub stream_lowat: u32,
    /// Bytes of an incomplete message after which its beginning is handed over, half of `rcvbuf` at most; 0 only when the window closes
    /// (SCTP_PARTIAL_DELIVERY_POINT).
    pub pd_point: u32,
    /// Seconds without data after which the association is closed; 0 never (SCTP_AUTOCLOSE).
    pub autoclose_secs: u32,
    /// SCTP_ADAPTATION_LAYER.
    pub adaptation: Option<u32>,
    /// Which notifications come with the data (SCTP_EVENT).
    pub events: Subscriptions,
    /// Type of service without ECN (IP_TOS).
    pub tos: u8,
    /// IP_TTL; 0 takes ip_default_ttl.
    pub ttl: u8,
    /// What `tos` is, for paths of IPv6 (IPV6_TCLASS).
    pub tclass: u8,
    /// What `ttl` is, for paths of IPv6 (IPV6_UNICAST_HOPS).
    pub unicast_hops: u8,
    /// What the socket asks of queues (SO_PRIORITY, its last four bits); `None` leaves it to the type of service.
    pub priority: Option<u8>,
    /// UDP port of the peer in paths to come, 0 for packets without UDP (SCTP_REMOTE_UDP_ENCAPS_PORT on the socket). It only
    /// counts where the stack has a UDP port for SCTP; what a peer's packets show overrides it.
    pub encap_port: u16,
    /// SO_LINGER.
    pub linger: Option<Duration>,
    /// Each association counts what it sends and receives, for [`Assoc::take_counts`](super::Assoc::take_counts); of associations to come.
    pub counts: bool,
    /// Of each association it is known when what can be read of it came, for those who read several as one
    /// (`Stack::sctp_arrival`); of associations to come.
    pub arrivals: bool,
}

/// Streams that an association asks for (`SCTP_DEFAULT_OUTSTREAMS`).
const OUTSTREAMS: u16 = 10;

impl SctpOptions {
    /// What the sysctls say.
    #[must_use]
    pub fn new(sysctl: &Sysctl) -> Self {
        let retrans = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
        Self {
            rto: RtoOptions::new(sysctl),
            path: PathOptions::new(sysctl),
            num_ostreams: OUTSTREAMS,
            max_instreams: u16::MAX,
            max_init_retransmits: retrans(sysctl.sctp_max_init_retransmits),
            max_init_timeo_ms: 0,
            association_max_retrans: retrans(sysctl.sctp_association_max_retrans),
            cookie_life_ms: sysctl.sctp_valid_cookie_life,
            sack_delay_ms: sysctl.sctp_sack_timeout,
            sack_freq: 2,
            nodelay: false,
            maxseg: 0,
            disable_fragments: false,
            max_burst: sysctl.sctp_max_burst,
            pacing: sysctl.sctp_pacing,
            congestion: sysctl.sctp_congestion_control,
            features: Features::new(sysctl),
            reconfigurable: Reconfigurable::default(),
            sndbuf: sysctl.wmem_default,
            rcvbuf: sysctl.rmem_default,
            notsent_lowat: 0,
            stream_lowat: 0,
            pd_point: 0,
            autoclose_secs: 0,
            adaptation: None,
            events: Subscriptions::NONE,
            tos: 0,
            ttl: 0,
            tclass: 0,
            unicast_hops: 0,
            priority: None,
            encap_port: u16::try_from(sysctl.sctp_encap_port).unwrap_or(0),
            linger: None,
            counts: false,
            arrivals: false,
        }
    }

    /// Unsent bytes under which the association takes a message; `u32::MAX` for no limit.
    pub(super) const fn unsent_mark(&self) -> u32 {
        or_none(self.notsent_lowat)
    }

    /// The same of each stream.
    pub(super) const fn stream_mark(&self) -> u32 {
        or_none(self.stream_lowat)
    }
}

/// The mark that an option sets; what 0 takes is no limit.
const fn or_none(mark: u32) -> u32 {
    if mark == 0 { u32::MAX } else { mark }
}
