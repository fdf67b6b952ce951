//! Settings of a stack under Linux's sysctl names, with Linux's defaults (6.1), looked up by name or by field.
mod kinds;
mod port_list;
mod value;

use super::Instant;
use super::fastopen_keys::FastOpenKeys;
use super::near::distance;
pub use kinds::{CongestionKind, QdiscKind, SctpCongestionKind};
pub use port_list::PortList;
pub use value::Triple;
use value::Value;

/// Answers to segments out of place in one instant, where `tcp_invalid_ratelimit` sets no limit.
const ANSWERS_PER_INSTANT: u64 = 64;

/// What a stack that runs does when a setting is written, beside going by it from then on. It stands in the setting's row below, behind `=>`:
/// whenever it is written, or where it is another one then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    None,
    /// What the queue-aware limit has counted of queues is true no more.
    RestartQueues,
    /// A suspicion that the path swallows what Fast Open sends is over (`proc_tfo_blackhole_detect_timeout`).
    TrustFastOpen,
}

impl Effect {
    const fn or(self, effect: Self, due: bool) -> Self {
        if due { effect } else { self }
    }

    const fn whenever_written(_changed: bool) -> bool {
        true
    }

    const fn when_changed(changed: bool) -> bool {
        changed
    }
}

macro_rules! sysctls {
    ($($(#[$doc:meta])* $field:ident : $ty:ty = $default:expr, $name:literal, $what:literal
        $(, $lo:literal ..= $hi:literal)? $(=> $when:ident $effect:ident)?;)*) => {
        /// All settings of a stack. Fields may be set before the stack is built, or by name at run time.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Sysctl { $($(#[$doc])* pub $field: $ty,)* }

        impl Default for Sysctl {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl Sysctl {
            /// Names with the values they allow, in the order of the table in docs/sysctl.md.
            pub const NAMES: &'static [(&'static str, &'static str)] =
                &[$(($name, concat!($what $(, " from ", $lo, " to ", $hi)?)),)*];

            /// The lowest and the highest number that `name` takes; `None` where it takes no numbers.
            #[must_use]
            pub fn range(name: &str) -> Option<(i64, i64)> {
                match short_name(name) {
                    $($name => None$(.or(Some(($lo, $hi))))?,)*
                    _ => None,
                }
            }

            /// Sets `name` (with or without `net.ipv4.`) to `value`.
            ///
            /// # Errors
            /// One sentence that names the place and the allowed values.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
                self.write(name, value).map(|_| ())
            }

            /// The same; what a stack that runs does then.
            pub(crate) fn write(&mut self, name: &str, value: &str) -> Result<Effect, String> {
                match short_name(name) {
                    $($name => match self.$field.with(value, Self::range($name)) {
                        Some(v) => {
                            let before = std::mem::replace(&mut self.$field, v);
                            let told = self.in_order($name);
                            let effect =
                                Effect::None$(.or(Effect::$effect, Effect::$when(before != self.$field)))?;
                            if told.is_err() {
                                self.$field = before;
                            }
                            told.map(|()| effect)
                        }
                        None => Err(format!(
                            "sysctl {name}: '{value}' is not allowed; it takes {}",
                            concat!($what $(, " from ", $lo, " to ", $hi)?)
                        )),
                    },)*
                    _ => Err(Self::unknown(name)),
                }
            }

            /// The value of `name` as text, where there is such a setting.
            #[must_use]
            pub fn get(&self, name: &str) -> Option<String> {
                match short_name(name) {
                    $($name => Some(self.$field.print()),)*
                    _ => None,
                }
            }
        }
    };
}

/// Names that a wrong one is told to be near to.
const NEAR_MAX: usize = 3;

impl Sysctl {
    /// There is a setting of this name (with or without `net.ipv4.` and the like).
    #[must_use]
    pub fn knows(name: &str) -> bool {
        let name = short_name(name);
        Self::NAMES.iter().any(|(known, _)| *known == name)
    }

    /// The settings whose names are nearest to `name` (with or without `net.ipv4.`), the nearest first, for messages: those that begin with it,
    /// or have it in them, and those that it is misspelt of. None where more than a third of its letters would have to be others.
    #[must_use]
    pub fn near(name: &str) -> Vec<&'static str> {
        let name = short_name(name);
        let far = name.len() / 3;
        let typed = |known: &str| Some(distance(name, known)).filter(|letters| *letters <= far);
        // At least a word's beginning: of one or two letters too many names are full.
        let shortened = |known: &str| match known.find(name).filter(|_| name.len() > 2) {
            Some(0) => Some(0),
            Some(at) if known[..at].ends_with(['_', '.']) => Some(1),
            Some(_) => Some(2),
            None => None,
        };
        let of = |known: &'static str| Some((typed(known).into_iter().chain(shortened(known)).min()?, known));
        let mut all: Vec<_> = Self::NAMES.iter().filter_map(|(known, _)| of(known)).collect();
        all.sort_unstable();
        all.into_iter().take(NEAR_MAX).map(|(_, known)| known).collect()
    }

    /// SCTP's least timeout is not above its largest. Each is refused where it passes the other, which `name` has just done or not
    /// (`proc_sctp_do_rto_min`, `proc_sctp_do_rto_max`). Reordering does not begin above its bound, which may fall below it later (6.18).
    fn in_order(&self, name: &str) -> Result<(), String> {
        let (min, max) = (self.sctp_rto_min, self.sctp_rto_max);
        match name {
            "sctp.rto_min" if min > max => {
                Err(format!("sysctl {name}: '{min}' is not allowed above sctp.rto_max, which is {max}"))
            }
            "sctp.rto_max" if max < min => {
                Err(format!("sysctl {name}: '{max}' is not allowed below sctp.rto_min, which is {min}"))
            }
            "tcp_reordering" if self.tcp_reordering > self.tcp_max_reordering => Err(format!(
                "sysctl {name}: '{}' is not allowed above tcp_max_reordering, which is {}",
                self.tcp_reordering, self.tcp_max_reordering
            )),
            _ => Ok(()),
        }
    }

    /// One sentence about a name that is none.
    fn unknown(name: &str) -> String {
        let near = match &Self::near(name)[..] {
            [] => String::new(),
            near => format!("; near it: {}", near.join(", ")),
        };
        format!("sysctl {name}: no such setting{near} (docs/sysctl.md and `Sysctl::NAMES` list all)")
    }
}

/// The name without what stands in front of it below `/proc/sys/net`.
fn short_name(name: &str) -> &str {
    name.trim()
        .trim_start_matches("net.ipv4.")
        .trim_start_matches("net.core.")
        .trim_start_matches("net.lowwater.")
        .trim_start_matches("net.")
}

sysctls! {
    /// Offer and accept window scaling (RFC 7323).
    tcp_window_scaling: bool = true, "tcp_window_scaling", "a number (0 is off)", 0 ..= 255;
    /// Offer and accept timestamps (RFC 7323): 0 off, 1 with a random offset per connection, 2 without.
    tcp_timestamps: u32 = 1, "tcp_timestamps", "a number", 0 ..= 255;
    /// Offer and accept selective acknowledgements (RFC 2018).
    tcp_sack: bool = true, "tcp_sack", "a number (0 is off)", 0 ..= 255;
    /// Report duplicates (RFC 2883).
    tcp_dsack: bool = true, "tcp_dsack", "a number (0 is off)", 0 ..= 255;
    /// ECN (RFC 3168): 0 never, 1 ask and accept, 2 accept only; accurate ECN (RFC 9768), or the classic one to who asks for that: 3 ask and accept, 4
    /// accept, and ask for the classic one, 5 accept only.
    tcp_ecn: u32 = 2, "tcp_ecn", "a number", 0 ..= 5;
    /// When segments of a connection with accurate ECN have its option: 0 never, 1 where there is news, 2 where it fits, 3 also where some of it seems to
    /// be lost.
    tcp_ecn_option: u32 = 2, "tcp_ecn_option", "a number", 0 ..= 3;
    /// How often in a round trip it goes out at the least where `tcp_ecn_option` is 1.
    tcp_ecn_option_beacon: u32 = 3, "tcp_ecn_option_beacon", "a number", 0 ..= 3;
    /// Fall back to no ECN when the ECN-setup SYN is retransmitted (RFC 3168 section 6.1.1.1).
    tcp_ecn_fallback: bool = true, "tcp_ecn_fallback", "a number", 0 ..= 1;
    /// The congestion controller of new connections.
    tcp_congestion_control: CongestionKind = CongestionKind::Cubic, "tcp_congestion_control", "reno, cubic or bbr";
    /// SYN retransmissions of an active open before it fails.
    tcp_syn_retries: u32 = 6, "tcp_syn_retries", "a number", 1 ..= 127;
    /// SYN retransmissions of an active open, in front of those of `tcp_syn_retries`, that do not double the timeout (Linux 6.5).
    tcp_syn_linear_timeouts: u32 = 4, "tcp_syn_linear_timeouts", "a number", 0 ..= 127;
    /// Small segments are retransmitted together, up to a full one.
    tcp_retrans_collapse: bool = true, "tcp_retrans_collapse", "a number (0 is off)", 0 ..= 255;
    /// SYN cookies (RFC 4987) when a listener's queue of requests is full: 0 never, 1 then, 2 always.
    tcp_syncookies: u32 = 1, "tcp_syncookies", "a number", 0 ..= 255;
    /// SYN-ACK retransmissions before a request is forgotten.
    tcp_synack_retries: u32 = 5, "tcp_synack_retries", "a number", 0 ..= 255;
    /// Retransmissions after which a connection fails (RFC 9293 R2), as a count at exponential backoff.
    tcp_retries2: u32 = 15, "tcp_retries2", "a number", 0 ..= 255;
    /// Timeouts of thin streams do not double at first.
    tcp_thin_linear_timeouts: bool = false, "tcp_thin_linear_timeouts", "a number (0 is off)", 0 ..= 255;
    /// Answers within the delay of an acknowledgement from which on traffic counts as interactive.
    tcp_pingpong_thresh: u32 = 1, "tcp_pingpong_thresh", "a number", 1 ..= 255;
    /// Let the receive window shrink with memory although its right edge moves left.
    tcp_shrink_window: bool = false, "tcp_shrink_window", "a number", 0 ..= 1;
    /// Answer a SYN with its own type of service, and keep it for the connection.
    tcp_reflect_tos: bool = false, "tcp_reflect_tos", "a number", 0 ..= 1;
    /// Retransmissions after which a black hole is suspected (RFC 9293 R1), as a count at exponential backoff.
    tcp_retries1: u32 = 3, "tcp_retries1", "a number", 0 ..= 255;
    /// RFC 4821: 0 off, 1 once a black hole is suspected, 2 always.
    tcp_mtu_probing: u32 = 0, "tcp_mtu_probing", "a number", 0 ..= 255;
    /// Payload bytes, options excluded, with which the search for the path MTU begins.
    tcp_base_mss: u32 = 1_024, "tcp_base_mss", "bytes", 0 ..= 2147483647;
    /// Least MSS that a peer or a router can bring us to, options included.
    tcp_min_snd_mss: u32 = 48, "tcp_min_snd_mss", "bytes", 48 ..= 65535;
    /// Least MSS that black holes can bring us to.
    tcp_mtu_probe_floor: u32 = 48, "tcp_mtu_probe_floor", "bytes", 48 ..= 65535;
    /// A range of packet sizes narrower than this is not searched further.
    tcp_probe_threshold: u32 = 8, "tcp_probe_threshold", "bytes", 0 ..= 2147483647;
    /// Seconds after which the search begins anew.
    tcp_probe_interval: u32 = 600, "tcp_probe_interval", "seconds", 0 ..= 17179869;
    /// The same for connections that no application owns any more; 0 means 8.
    tcp_orphan_retries: u32 = 0, "tcp_orphan_retries", "a number", 0 ..= 255;
    /// Seconds in FIN-WAIT-2 without an owner.
    tcp_fin_timeout: u32 = 60, "tcp_fin_timeout", "seconds", 0 ..= 8589934;
    /// Seconds of silence before the first keepalive probe.
    tcp_keepalive_time: u32 = 7_200, "tcp_keepalive_time", "seconds", 0 ..= 8589934;
    /// Seconds between keepalive probes.
    tcp_keepalive_intvl: u32 = 75, "tcp_keepalive_intvl", "seconds", 0 ..= 8589934;
    /// Unanswered keepalive probes before the connection fails.
    tcp_keepalive_probes: u32 = 9, "tcp_keepalive_probes", "a number", 0 ..= 255;
    /// Segments out of order before loss is assumed, at the start.
    tcp_reordering: u32 = 3, "tcp_reordering", "a number", 1 ..= 300;
    /// Bound for the measured reordering.
    tcp_max_reordering: u32 = 300, "tcp_max_reordering", "a number", 1 ..= 2147483647;
    /// Seconds over which the least round trip is remembered.
    tcp_min_rtt_wlen: u32 = 300, "tcp_min_rtt_wlen", "seconds", 0 ..= 86400;
    /// Bits: 2 static reordering window, 4 no dupack threshold. 1 has no effect: RACK is always on.
    tcp_recovery: u32 = 1, "tcp_recovery", "bits 2 and 4, a number", 0 ..= 255;
    /// 0 no tail loss probe, 3 or 4 with (RFC 8985 section 7).
    tcp_early_retrans: u32 = 3, "tcp_early_retrans", "a number", 0 ..= 4;
    /// Forward RTO recovery (RFC 5682).
    tcp_frto: u32 = 2, "tcp_frto", "a number", 0 ..= 255;
    /// Shrink the congestion window after an idle RTO (RFC 2861).
    tcp_slow_start_after_idle: bool = true, "tcp_slow_start_after_idle", "a number (0 is off)", 0 ..= 255;
    /// Grow the receive buffer with what the application reads (dynamic right-sizing).
    tcp_moderate_rcvbuf: bool = true, "tcp_moderate_rcvbuf", "a number (0 is off)", 0 ..= 255;
    /// Pages of 4,096 bytes that all connections together may hold: where buffers stop growing, where pressure begins, and the limit.
    tcp_mem: Triple = Triple { min: 95_325, default: 127_100, max: 190_650 }, "tcp_mem", "three numbers of pages: low pressure high, each", 0 ..= 2147483647;
    /// Bytes of a receive buffer; the charge of what waits, metadata included.
    tcp_rmem: Triple = Triple { min: 4_096, default: 131_072, max: 6_291_456 }, "tcp_rmem", "three sizes (minimum default maximum)", 1 ..= 2147483647;
    /// Bytes of a send buffer; the charge of what waits or is in flight, metadata included.
    tcp_wmem: Triple = Triple { min: 4_096, default: 16_384, max: 4_194_304 }, "tcp_wmem", "three sizes (minimum default maximum)", 1 ..= 2147483647;
    /// Share of a receive buffer that overhead takes: charge/2^n, or charge - charge/2^-n when negative.
    tcp_adv_win_scale: i32 = 1, "tcp_adv_win_scale", "a number", -31 ..= 31;
    /// Share of the window kept for the application at the start: window/2^n (31 keeps nothing).
    tcp_app_win: u32 = 31, "tcp_app_win", "a number", 0 ..= 31;
    /// Bound for SO_RCVBUF, and for the window scale that is offered (`net.core.rmem_max`).
    rmem_max: u32 = 4_194_304, "rmem_max", "bytes", 2304 ..= 2147483647;
    /// Bound for SO_SNDBUF (`net.core.wmem_max`).
    wmem_max: u32 = 4_194_304, "wmem_max", "bytes", 4608 ..= 2147483647;
    /// Longest delay of a compressed acknowledgement, in nanoseconds.
    tcp_comp_sack_delay_ns: u32 = 1_000_000, "tcp_comp_sack_delay_ns", "nanoseconds", 0 ..= 4294967295;
    /// Acknowledgements that may be compressed into one; 0 switches it off.
    tcp_comp_sack_nr: u32 = 44, "tcp_comp_sack_nr", "a number", 0 ..= 255;
    /// Unsent bytes under which a socket is writable; 4294967295 means no limit.
    tcp_notsent_lowat: u32 = u32::MAX, "tcp_notsent_lowat", "bytes", 0 ..= 4294967295;
    /// Let small writes wait while a packet of the flow is below the transport (autocorking).
    tcp_autocorking: bool = true, "tcp_autocorking", "a number", 0 ..= 1;
    /// The urgent pointer names the urgent byte (RFC 1122) rather than the one behind it, for what is received.
    tcp_stdurg: bool = false, "tcp_stdurg", "a number (0 is off)", 0 ..= 255;
    /// Bound for what an unpaced flow may have below the transport, and a paced one with `tcp_limit_output_all`.
    tcp_limit_output_bytes: u32 = 1_048_576, "tcp_limit_output_bytes", "bytes", 0 ..= 2147483647;
    /// `tcp_limit_output_bytes` bounds paced flows as well, as since Linux 6.16. A setting of ours.
    tcp_limit_output_all: bool = false, "tcp_limit_output_all", "a number", 0 ..= 1;
    /// Segments in the smallest super-packet that autosizing makes.
    tcp_min_tso_segs: u32 = 2, "tcp_min_tso_segs", "a number", 1 ..= 255;
    /// A window this many times the segment is worth sending at once.
    tcp_tso_win_divisor: u32 = 3, "tcp_tso_win_divisor", "a number (0 never defers)", 0 ..= 255;
    /// Near peers get larger bursts: the RTT in microseconds is shifted by this; 0 switches it off.
    tcp_tso_rtt_log: u32 = 9, "tcp_tso_rtt_log", "a number", 0 ..= 255;
    /// A packet takes what it lacks from the next element of the send queue (Linux 6.10); off, it ends where the
    /// element does. A setting of ours.
    tcp_grow_packet: bool = true, "tcp_grow_packet", "a number", 0 ..= 1;
    /// What a flow has below it follows what its own queue passes on, not its pacing rate alone (path/queue_aware.rs). A setting of ours.
    tcp_queue_aware: bool = false, "tcp_queue_aware", "a number", 0 ..= 1 => when_changed RestartQueues;
    /// Pacing rate in slow start, percent of cwnd/srtt.
    tcp_pacing_ss_ratio: u32 = 200, "tcp_pacing_ss_ratio", "percent", 0 ..= 1000;
    /// Pacing rate in congestion avoidance, percent of cwnd/srtt.
    tcp_pacing_ca_ratio: u32 = 120, "tcp_pacing_ca_ratio", "percent", 0 ..= 1000;
    /// Challenge ACKs of all connections in a second (RFC 5961 section 7); 2147483647 sets no limit.
    tcp_challenge_ack_limit: u32 = 2_147_483_647, "tcp_challenge_ack_limit", "a number", 0 ..= 2147483647;
    /// Milliseconds between answers to invalid segments of one connection.
    tcp_invalid_ratelimit: u32 = 500, "tcp_invalid_ratelimit", "milliseconds", 0 ..= 2147483647;
    /// TCP Fast Open (RFC 7413), bits: 1 clients, 2 listeners with TCP_FASTOPEN, 4 clients without cookie, 0x200 listeners
    /// without cookie, 0x400 all listeners.
    tcp_fastopen: u32 = 1, "tcp_fastopen", "bits 1, 2, 4, 0x200 and 0x400, a number", 0 ..= 2147483647;
    /// Keys of Fast Open cookies: one, or one and a backup; zeros stand for one that the stack draws.
    tcp_fastopen_key: Option<FastOpenKeys> = None, "tcp_fastopen_key", "four hexadecimal numbers with dashes, a backup after a comma";
    /// Seconds without active Fast Open after a path seemed to swallow it, doubled with each suspicion; 0 never rests.
    tcp_fastopen_blackhole_timeout_sec: u32 = 0, "tcp_fastopen_blackhole_timeout_sec", "seconds", 0 ..= 2147483647 => whenever_written TrustFastOpen;
    /// Without SYN cookies: requests that may wait for their final ACK, per listener, less a quarter.
    tcp_max_syn_backlog: u32 = 4_096, "tcp_max_syn_backlog", "a number", 0 ..= 2147483647;
    /// Bound for a listener's accept backlog.
    somaxconn: u32 = 4_096, "somaxconn", "a number", 0 ..= 2147483647;
    /// Reset connections that find the accept backlog full instead of letting them try again.
    tcp_abort_on_overflow: bool = false, "tcp_abort_on_overflow", "a number (0 is off)", 0 ..= 255;
    /// Objects in TIME-WAIT; above it connections are closed at once.
    tcp_max_tw_buckets: u32 = 65_536, "tcp_max_tw_buckets", "a number", 0 ..= 2147483647;
    /// Connections without an owner.
    tcp_max_orphans: u32 = 65_536, "tcp_max_orphans", "a number", 0 ..= 2147483647;
    /// Drop RSTs for connections in TIME-WAIT (RFC 1337).
    tcp_rfc1337: bool = false, "tcp_rfc1337", "a number (0 is off)", 0 ..= 255;
    /// Lowest and highest source port of active opens.
    ip_local_port_range: (u16, u16) = (32_768, 60_999), "ip_local_port_range", "two ports (lowest highest)", 1 ..= 65535;
    /// Ports that are never chosen, only asked for.
    ip_local_reserved_ports: PortList = PortList::default(), "ip_local_reserved_ports", "ports and ranges (80,8000-8080)";
    /// Ephemeral ports may take the place of connections in TIME-WAIT whose peer has timestamps: 0 never, 1 always, 2 on loopback.
    tcp_tw_reuse: u32 = 2, "tcp_tw_reuse", "a number", 0 ..= 2;
    /// Milliseconds in TIME-WAIT before that (Linux 6.14).
    tcp_tw_reuse_delay: u32 = 1_000, "tcp_tw_reuse_delay", "milliseconds", 1 ..= 60000;
    /// TTL of what we send over IPv4; over IPv6 it is 64, or IPV6_UNICAST_HOPS.
    ip_default_ttl: u32 = 64, "ip_default_ttl", "a number", 1 ..= 255;
    /// Milliseconds between ICMP errors to one receiver over IPv4, of which six may go at once (RFC 1812 section 4.3.2.8); 0 sets no limit.
    icmp_ratelimit: u32 = 1_000, "icmp_ratelimit", "milliseconds", 0 ..= 2147483647;
    /// Types of ICMP messages over IPv4 that are limited, a bit each; 6168 are those of errors.
    icmp_ratemask: u32 = 6_168, "icmp_ratemask", "bits by the types of messages, a number", 0 ..= 2147483647;
    /// ICMP errors in a second to all receivers together; 0 sends none.
    icmp_msgs_per_sec: u32 = 1_000, "icmp_msgs_per_sec", "a number", 0 ..= 2147483647;
    /// How many of those may go at once.
    icmp_msgs_burst: u32 = 50, "icmp_msgs_burst", "a number", 0 ..= 2147483647;
    /// Milliseconds between ICMP errors to one receiver over IPv6, of which six may go at once (RFC 4443 section 2.4 f); 0 sets no limit.
    icmp6_ratelimit: u32 = 100, "ipv6.icmp.ratelimit", "milliseconds", 0 ..= 2147483647;
    /// Do not learn path MTUs: 0 learn, 1 never set DF.
    ip_no_pmtu_disc: u32 = 0, "ip_no_pmtu_disc", "a number", 0 ..= 1;
    /// Bytes that waiting fragments may hold.
    ipfrag_high_thresh: u32 = 4_194_304, "ipfrag_high_thresh", "bytes", 0 ..= 4294967295;
    /// Seconds that a fragment of IPv4 waits for the rest.
    ipfrag_time: u32 = 30, "ipfrag_time", "seconds", 0 ..= 8589934;
    /// Seconds that a fragment of IPv6 waits for the rest (RFC 8200 section 4.5).
    ip6frag_time: u32 = 60, "ipv6.ip6frag_time", "seconds", 0 ..= 8589934;
    /// Bytes of a UDP socket's receive buffer (`net.core.rmem_default`).
    rmem_default: u32 = 212_992, "rmem_default", "bytes", 2304 ..= 2147483647;
    /// Bytes of a UDP socket's send buffer (`net.core.wmem_default`).
    wmem_default: u32 = 212_992, "wmem_default", "bytes", 4608 ..= 2147483647;
    /// Which slow-start exit cubic uses: 0 none, 1 HyStart as Linux has it, 2 HyStart++ (RFC 9406). Ours.
    hystart: u32 = 1, "hystart", "a number", 0 ..= 2;
    /// Tick of the clock by which CUBIC counts time (`jiffies`): 1,000 as a kernel of 1,000 Hz, 4,000 as one of 250 Hz. Ours.
    cubic_tick_us: u32 = 1_000, "cubic_tick_us", "microseconds", 1000 ..= 10000;
    /// Writers are woken under half of TCP_NOTSENT_LOWAT, as in Linux since 4.20; 0: under the whole, for comparison. Ours.
    notsent_lowat_half: bool = true, "notsent_lowat_half", "a number", 0 ..= 1;
    /// What a kernel reserves for headers (`MAX_TCP_HEADER`), by which send buffers grow, and which super-packets leave out: 320, 256 where it is
    /// built without radio, 192 without tunnels as well. Ours.
    max_tcp_header: u32 = 320, "max_tcp_header", "bytes", 64 ..= 1024;
    /// Smallest retransmission timeout in microseconds (`TCP_RTO_MIN`).
    tcp_rto_min_us: u32 = 200_000, "tcp_rto_min_us", "microseconds", 1 ..= 2147483647;
    /// Largest retransmission timeout in milliseconds (`TCP_RTO_MAX`).
    tcp_rto_max_ms: u32 = 120_000, "tcp_rto_max_ms", "milliseconds", 1000 ..= 120000;
    /// Largest delay of an acknowledgement in microseconds (`TCP_DELACK_MAX`); the minimum is 40 ms.
    tcp_delack_max_us: u32 = 200_000, "tcp_delack_max_us", "microseconds", 1 ..= 200000;
    /// RTO.Initial of SCTP.
    sctp_rto_initial: u32 = 3_000, "sctp.rto_initial", "milliseconds", 1 ..= 86400000;
    /// RTO.Min of SCTP.
    sctp_rto_min: u32 = 1_000, "sctp.rto_min", "milliseconds", 1 ..= 86400000;
    /// RTO.Max of SCTP.
    sctp_rto_max: u32 = 60_000, "sctp.rto_max", "milliseconds", 1 ..= 86400000;
    /// A sample of the round-trip time counts 2^-n in the average (RTO.Alpha).
    sctp_rto_alpha_exp_divisor: u32 = 3, "sctp.rto_alpha_exp_divisor", "a number", 0 ..= 31;
    /// A sample of the round-trip time counts 2^-n in the variation (RTO.Beta).
    sctp_rto_beta_exp_divisor: u32 = 2, "sctp.rto_beta_exp_divisor", "a number", 0 ..= 31;
    /// Packets that an association may send at one opportunity, where nobody paces it; 0 sets no bound.
    sctp_max_burst: u32 = 4, "sctp.max_burst", "a number", 0 ..= 2147483647;
    /// Data of an association leaves at the rate of its path. A setting of ours.
    sctp_pacing: bool = true, "sctp.pacing", "a number", 0 ..= 1;
    /// What moves the windows of associations. A setting of ours: Linux has RFC 9260's rules alone.
    sctp_congestion_control: SctpCongestionKind = SctpCongestionKind::Rfc9260, "sctp.congestion_control", "rfc9260, cubic or bbr";
    /// A peer may ask for a cookie that lives longer.
    sctp_cookie_preserve_enable: bool = true, "sctp.cookie_preserve_enable", "a number", 0 ..= 2147483647;
    /// Milliseconds that a cookie is good for.
    sctp_valid_cookie_life: u32 = 60_000, "sctp.valid_cookie_life", "milliseconds", 1 ..= 2147483647;
    /// Milliseconds that a SACK is delayed.
    sctp_sack_timeout: u32 = 200, "sctp.sack_timeout", "milliseconds", 1 ..= 500;
    /// Milliseconds between heartbeats on an idle path, beside half of its timeout and a jitter.
    sctp_hb_interval: u32 = 30_000, "sctp.hb_interval", "milliseconds", 1 ..= 86400000;
    /// The heartbeat timer is drawn and armed anew with every packet, as Linux did before 4.6: for comparison. A setting of ours.
    sctp_hb_eager: bool = false, "sctp.hb_eager", "a number", 0 ..= 1;
    /// Errors in a row beyond which a path is inactive (Path.Max.Retrans).
    sctp_path_max_retrans: u32 = 5, "sctp.path_max_retrans", "a number", 1 ..= 2147483647;
    /// Errors in a row beyond which a path is potentially failed (RFC 7829).
    sctp_pf_retrans: u32 = 0, "sctp.pf_retrans", "a number", 0 ..= 65535;
    /// Paths may be potentially failed (RFC 7829).
    sctp_pf_enable: bool = true, "sctp.pf_enable", "a number", 0 ..= 2147483647;
    /// Errors in a row beyond which an association fails (Association.Max.Retrans).
    sctp_association_max_retrans: u32 = 10, "sctp.association_max_retrans", "a number", 1 ..= 2147483647;
    /// INITs and COOKIE ECHOs that are repeated (Max.Init.Retransmits).
    sctp_max_init_retransmits: u32 = 8, "sctp.max_init_retransmits", "a number", 1 ..= 2147483647;
    /// A window that has opened by 2^-n of the receive buffer is told at once.
    sctp_rwnd_update_shift: u32 = 4, "sctp.rwnd_update_shift", "a number", 1 ..= 16;
    /// Associations offer ECN, and use it where the peer does too (RFC 4960 appendix A).
    sctp_ecn_enable: bool = true, "sctp.ecn_enable", "a number", 0 ..= 1;
    /// Associations offer FORWARD TSN, and give up what was sent and outlived its lifetime where the peer does too (RFC 3758).
    sctp_prsctp_enable: bool = true, "sctp.prsctp_enable", "a number", 0 ..= 1;
    /// Associations offer RE-CONFIG, and take it where the peer offers it too (RFC 6525).
    sctp_reconf_enable: bool = false, "sctp.reconf_enable", "a number", 0 ..= 1;
    /// Milliseconds between probes of the path MTU (RFC 8899), 5,000 at the least; 0 asks only routers.
    sctp_plpmtud_probe_interval: u32 = 0, "sctp.plpmtud_probe_interval", "milliseconds", 0 ..= 86400000;
    /// Our UDP port for SCTP over UDP (RFC 6951); 0 for none, 9899 is the registered one.
    sctp_udp_port: u32 = 0, "sctp.udp_port", "a port", 0 ..= 65535;
    /// UDP port of peers to which associations are opened over UDP; 0 opens them over IP.
    sctp_encap_port: u32 = 0, "sctp.encap_port", "a port", 0 ..= 65535;
    /// Queueing discipline of devices that are attached from now on, and of the queues of `mq` (`net.core.default_qdisc`).
    default_qdisc: QdiscKind = QdiscKind::PfifoFast, "default_qdisc", "pfifo_fast, pfifo, bfifo, fq, codel, fq_codel, netem or noqueue";
    /// Resolution of the clock that the driver uses, in nanoseconds. Ours: coarse clocks widen RACK's window.
    clock_resolution_ns: u32 = 1, "clock_resolution_ns", "nanoseconds", 1 ..= 1000000000;
}

/// The hop limit of IPv6 where no socket has set one (`IPV6_DEFAULT_HOPLIMIT`, which ip_default_ttl leaves alone).
pub const HOP_LIMIT: u8 = 64;

impl Sysctl {
    /// What leaves has this time to live where nobody has set another: `ip_default_ttl`, over IPv6 [`HOP_LIMIT`].
    #[must_use]
    pub fn default_ttl(&self, v6: bool) -> u8 {
        if v6 { HOP_LIMIT } else { self.ip_default_ttl.clamp(1, 255) as u8 }
    }

    /// Whether a segment out of place is answered `now`; `last` is when one was (`__tcp_oow_rate_limited`). With `tcp_invalid_ratelimit` 0 all
    /// are, as in Linux, but for one instant of a simulated clock: a connection to itself, or two confused peers on one host, would
    /// answer each other for ever without time passing.
    pub(crate) fn answers_out_of_place(&self, now: Instant, last: &mut Option<Instant>) -> bool {
        let interval = u64::from(self.tcp_invalid_ratelimit) * 1_000_000;
        // Without a limit each answer of an instant is noted a nanosecond later.
        let at = last.filter(|_| interval == 0).map_or(now, |last| now.max(last.plus_nanos(1)));
        let allowed = match *last {
            Some(last) if interval > 0 => now.nanos_since(last) >= interval,
            _ => at.nanos_since(now) < ANSWERS_PER_INSTANT,
        };
        if allowed {
            *last = Some(at);
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_prints_and_parses_its_own_value() {
        let mut s = Sysctl::default();
        for (name, _) in Sysctl::NAMES {
            let text = s.get(name).expect("listed");
            s.set(&format!("net.ipv4.{name}"), &text).expect("its own value");
        }
        assert_eq!(s, Sysctl::default());
    }

    #[test]
    fn what_a_running_stack_does_stands_in_the_row() {
        let mut s = Sysctl::default();
        let mut written = |name, value| s.write(name, value).expect("allowed");
        let aware = ["1", "1", "0", "0"].map(|value| written("net.lowwater.tcp_queue_aware", value));
        let (none, restarts) = (Effect::None, Effect::RestartQueues);
        assert_eq!(aware, [restarts, none, restarts, none], "where it changes");
        let timeout = ["0", "0"].map(|value| written("tcp_fastopen_blackhole_timeout_sec", value));
        assert_eq!(timeout, [Effect::TrustFastOpen; 2], "whenever it is written");
        assert_eq!(written("tcp_sack", "0"), none);
    }

    #[test]
    fn near_names_are_found() {
        assert_eq!(Sysctl::near("net.ipv4.tcp_sakc")[0], "tcp_sack");
        assert!(Sysctl::near("tcp_slow_start_afer_idle").contains(&"tcp_slow_start_after_idle"));
        assert_eq!((distance("abc", "abc"), distance("", "abc")), (0, 3));
        let rtt = Sysctl::near("rtt");
        assert!(
            !rtt.is_empty() && rtt.iter().all(|name| name.split('_').any(|word| word == "rtt")),
            "{rtt:?}"
        );
        for (short, first) in [
            ("tcp_notsent", "tcp_notsent_lowat"),
            ("tcp_congestion", "tcp_congestion_control"),
            ("tcp_fin", "tcp_fin_timeout"),
            ("slow_start", "tcp_slow_start_after_idle"),
        ] {
            assert_eq!(Sysctl::near(short).first(), Some(&first), "{short}");
        }
        assert!(Sysctl::near("tcp_limit_output").contains(&"tcp_limit_output_bytes"));
        assert_eq!(Sysctl::near("sctp.rto").len(), 3);
        assert_eq!(Sysctl::near("delay_of_the_path"), Vec::<&str>::new());
        assert_eq!(Sysctl::near(""), Vec::<&str>::new());
    }

    #[test]
    fn a_bad_value_is_answered_in_one_sentence() {
        let e = Sysctl::default().set("tcp_sack", "yes").unwrap_err();
        assert_eq!(e, "sysctl tcp_sack: 'yes' is not allowed; it takes a number (0 is off) from 0 to 255");
        let e = Sysctl::default().set("tcp_sakc", "1").unwrap_err();
        assert!(e.starts_with("sysctl tcp_sakc: no such setting; near it: tcp_sack"), "{e}");
    }

    /// The text around one number that `name` takes: some settings take several.
    fn value(name: &str, n: i64) -> String {
        let words = Sysctl::default().get(name).map_or(0, |text| text.split_whitespace().count());
        vec![n.to_string(); words].join(" ")
    }

    #[test]
    fn every_number_has_a_range_that_is_kept_and_told() {
        for (name, text) in Sysctl::NAMES {
            if matches!(
                *name,
                "tcp_congestion_control"
                    | "sctp.congestion_control"
                    | "tcp_fastopen_key"
                    | "ip_local_reserved_ports"
                    | "default_qdisc"
            ) {
                continue;
            }
            let (lo, hi) = Sysctl::range(name).unwrap_or_else(|| panic!("{name} has no range"));
            assert!(text.ends_with(&format!(" from {lo} to {hi}")), "{name}: {text}");
            let mut s = Sysctl { sctp_rto_min: 1, sctp_rto_max: 86_400_000, ..Sysctl::default() };
            for n in [lo, hi] {
                s.set(name, &value(name, n)).expect("an end of the range");
                assert!(s.get(name) == Some(value(name, n)) || s.get(name).as_deref() == Some("1"));
            }
            for n in [lo - 1, hi + 1, i64::MIN, i64::MAX] {
                let e = s.set(name, &value(name, n)).expect_err("outside of the range");
                assert!(e.ends_with(text), "{e}");
            }
        }
    }

    #[test]
    fn bits_may_be_hexadecimal_and_a_key_may_be_zeros() {
        let mut s = Sysctl::default();
        s.set("net.ipv4.tcp_fastopen", "0x70403").expect("hexadecimal");
        assert_eq!((s.tcp_fastopen, s.get("tcp_fastopen")), (0x7_0403, Some("459779".into())));
        let key = "a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4";
        s.set("tcp_fastopen_key", key).expect("a key");
        assert_eq!(s.get("tcp_fastopen_key").as_deref(), Some(key));
        assert!(s.set("tcp_fastopen_key", key.split_at(8).0).is_err());
        s.set("tcp_fastopen_key", "0-0-0-0").expect("zeros");
        assert_eq!(s.tcp_fastopen_key.map(|keys| keys.primary), Some([0; 16]));
        s.set("tcp_fastopen_key", "").expect("none");
        assert_eq!((s.tcp_fastopen_key, s.get("tcp_fastopen_key").as_deref()), (None, Some("")));
    }

    #[test]
    fn a_list_of_ports_is_sorted_and_joined() {
        let mut s = Sysctl::default();
        s.set("ip_local_reserved_ports", "9148-9150, 80,81-90,65535,9151").expect("a list");
        assert_eq!(s.get("ip_local_reserved_ports").as_deref(), Some("80-90,9148-9151,65535"));
        let list = &s.ip_local_reserved_ports;
        let inside = (0..=u16::MAX).filter(|&port| list.contains(port)).count();
        assert_eq!((inside, list.contains(79), list.contains(91)), (16, false, false));
        for bad in ["x", "2-1", "65536", "1-2-3", "-1"] {
            assert!(s.set("ip_local_reserved_ports", bad).is_err(), "{bad}");
        }
        s.set("ip_local_reserved_ports", "").expect("none");
        assert_eq!(s, Sysctl::default());
    }

    #[test]
    fn three_sizes_and_two_ports_are_in_order() {
        let mut s = Sysctl::default();
        for bad in ["3 2 1", "1 2 3 4", "0 2 3", "1 x 3", "6291457", "1 0", ""] {
            assert!(s.set("tcp_rmem", bad).is_err(), "{bad}");
        }
        for bad in ["2 1", "0 1", "1", "1 65536", "1 2 3"] {
            assert!(s.set("ip_local_port_range", bad).is_err(), "{bad}");
        }
        assert_eq!(s, Sysctl::default(), "what is refused changes nothing");
    }

    #[test]
    fn of_three_sizes_those_that_are_not_named_stay() {
        let mut s = Sysctl::default();
        let mut set = |text| {
            s.set("net.ipv4.tcp_wmem", text).expect("in order");
            s.get("tcp_wmem")
        };
        assert_eq!(set("5000").as_deref(), Some("5000 16384 4194304"));
        assert_eq!(set("6000\t7000").as_deref(), Some("6000 7000 4194304"));
        assert_eq!(set("1 2 3").as_deref(), Some("1 2 3"));
        s.set("tcp_mem", "0").expect("pages");
        assert_eq!(s.get("tcp_mem").as_deref(), Some("0 127100 190650"));
    }

    #[test]
    fn timeouts_of_sctp_do_not_pass_each_other() {
        let mut s = Sysctl::default();
        let told = s.set("net.sctp.rto_max", "999").expect_err("below the least");
        assert_eq!(told, "sysctl sctp.rto_max: '999' is not allowed below sctp.rto_min, which is 1000");
        let told = s.set("sctp.rto_min", "60001").expect_err("above the largest");
        assert_eq!(told, "sysctl sctp.rto_min: '60001' is not allowed above sctp.rto_max, which is 60000");
        assert_eq!(s, Sysctl::default(), "what is refused changes nothing");
        for (name, value) in [("sctp.rto_min", "200"), ("sctp.rto_max", "200"), ("sctp.rto_max", "500")] {
            s.set(name, value).expect("in order");
        }
        let mut crossed = Sysctl { sctp_rto_min: 9, sctp_rto_max: 1, ..s };
        crossed.set("tcp_sack", "0").expect("another setting is none of their business");
    }

    #[test]
    fn reordering_does_not_begin_above_its_bound() {
        let mut s = Sysctl::default();
        s.set("tcp_max_reordering", "5").expect("a number");
        let told = s.set("tcp_reordering", "6").expect_err("above the bound");
        assert_eq!(told, "sysctl tcp_reordering: '6' is not allowed above tcp_max_reordering, which is 5");
        assert_eq!(s.tcp_reordering, 3);
        s.set("tcp_reordering", "5").expect("the bound itself");
        s.set("tcp_max_reordering", "4").expect("the bound may fall below it");
    }

    #[test]
    fn no_limit_is_one_for_each_instant_alone() {
        let s = Sysctl { tcp_invalid_ratelimit: 0, ..Sysctl::default() };
        let (mut last, now) = (None, Instant::from_micros(7));
        assert_eq!((0..1_000).filter(|_| s.answers_out_of_place(now, &mut last)).count(), 64);
        let later = now.plus_nanos(1_000);
        assert_eq!((0..1_000).filter(|_| s.answers_out_of_place(later, &mut last)).count(), 64);
        let s = Sysctl::default();
        assert!(!s.answers_out_of_place(later, &mut last));
        assert!(s.answers_out_of_place(later.plus_nanos(600_000_000), &mut last));
    }
}
