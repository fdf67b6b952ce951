//! Counters under Linux's MIB names: plain additions on the hot path, names only when somebody reads them.
use super::why::{DROP_REASONS, DropWhy, WAIT_REASONS, Wait};
use super::{Instant, Rng};
use core::fmt;

macro_rules! counter_group {
    ($(#[$doc:meta])* $group:ident $title:literal { $($field:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each field is the Linux counter that its name spells")]
        pub struct $group { $(pub $field: u64,)* }

        impl $group {
            /// The group's name as `nstat` prints it before each counter.
            pub const TITLE: &'static str = $title;
            /// Calls `f` with the name and value of every counter, in a fixed order.
            pub fn each(&self, f: &mut dyn FnMut(&'static str, &'static str, u64)) {
                $(f($title, $name, self.$field);)*
            }
        }
    };
}

counter_group! {
    /// IPv4 and IPv6 together, as `/proc/net/snmp` has them for IPv4 (IPv6 under `Ip6` in Linux).
    Ip "Ip" {
        in_receives = "InReceives", in_hdr_errors = "InHdrErrors", in_addr_errors = "InAddrErrors",
        in_unknown_protos = "InUnknownProtos", in_discards = "InDiscards", in_delivers = "InDelivers",
        out_requests = "OutRequests", out_discards = "OutDiscards", out_no_routes = "OutNoRoutes",
        reasm_timeout = "ReasmTimeout", reasm_reqds = "ReasmReqds", reasm_oks = "ReasmOKs", reasm_fails = "ReasmFails",
        frag_oks = "FragOKs", frag_fails = "FragFails", frag_creates = "FragCreates", out_transmits = "OutTransmits",
    }
}
counter_group! {
    /// Octets and ECN codepoints (`IpExt`).
    IpExt "IpExt" {
        in_octets = "InOctets", out_octets = "OutOctets", in_csum_errors = "InCsumErrors",
        in_no_ect_pkts = "InNoECTPkts", in_ect1_pkts = "InECT1Pkts", in_ect0_pkts = "InECT0Pkts", in_ce_pkts = "InCEPkts",
    }
}
counter_group! {
    /// ICMPv4 and ICMPv6.
    Icmp "Icmp" {
        in_msgs = "InMsgs", in_errors = "InErrors", in_csum_errors = "InCsumErrors", in_dest_unreachs = "InDestUnreachs",
        in_echos = "InEchos", in_echo_reps = "InEchoReps", out_msgs = "OutMsgs", out_errors = "OutErrors",
        out_rate_limit_host = "OutRateLimitHost", out_dest_unreachs = "OutDestUnreachs", out_echo_reps = "OutEchoReps",
    }
}
counter_group! {
    /// UDP.
    Udp "Udp" {
        in_datagrams = "InDatagrams", no_ports = "NoPorts", in_errors = "InErrors", out_datagrams = "OutDatagrams",
        rcvbuf_errors = "RcvbufErrors", sndbuf_errors = "SndbufErrors", in_csum_errors = "InCsumErrors",
        ignored_multi = "IgnoredMulti",
    }
}
counter_group! {
    /// TCP (RFC 4022's names).
    Tcp "Tcp" {
        active_opens = "ActiveOpens", passive_opens = "PassiveOpens", attempt_fails = "AttemptFails",
        estab_resets = "EstabResets", in_segs = "InSegs", out_segs = "OutSegs", retrans_segs = "RetransSegs",
        in_errs = "InErrs", out_rsts = "OutRsts", in_csum_errors = "InCsumErrors",
    }
}
counter_group! {
    /// Linux's extended TCP counters (`TcpExt`).
    TcpExt "TcpExt" {
        syncookies_sent = "SyncookiesSent", syncookies_recv = "SyncookiesRecv", syncookies_failed = "SyncookiesFailed",
        embryonic_rsts = "EmbryonicRsts", tw_killed = "TWKilled", paws_old_ack = "PAWSOldAck", paws_timewait = "PAWSTimewait", tsecr_rejected = "TSEcrRejected",
        beyond_window = "BeyondWindow", tcp_time_wait_overflow = "TCPTimeWaitOverflow",
        tcp_req_q_full_do_cookies = "TCPReqQFullDoCookies", tcp_req_q_full_drop = "TCPReqQFullDrop",
        tcp_defer_accept_drop = "TCPDeferAcceptDrop", tcp_ack_skipped_fin_wait2 = "TCPACKSkippedFinWait2",
        tcp_fast_open_active = "TCPFastOpenActive", tcp_fast_open_active_fail = "TCPFastOpenActiveFail",
        tcp_fast_open_passive = "TCPFastOpenPassive", tcp_fast_open_passive_fail = "TCPFastOpenPassiveFail",
        tcp_fast_open_listen_overflow = "TCPFastOpenListenOverflow", tcp_fast_open_cookie_reqd = "TCPFastOpenCookieReqd",
        tcp_fast_open_blackhole = "TCPFastOpenBlackhole", tcp_fast_open_passive_alt_key = "TCPFastOpenPassiveAltKey",
        tw = "TW", tw_recycled = "TWRecycled", paws_active = "PAWSActive", paws_estab = "PAWSEstab",
        delayed_acks = "DelayedACKs", delayed_ack_lost = "DelayedACKLost",
        out_of_window_icmps = "OutOfWindowIcmps", listen_overflows = "ListenOverflows", listen_drops = "ListenDrops",
        tcp_hp_hits = "TCPHPHits", tcp_pure_acks = "TCPPureAcks", tcp_hp_acks = "TCPHPAcks",
        tcp_reno_recovery = "TCPRenoRecovery", tcp_sack_recovery = "TCPSackRecovery", tcp_sack_reneging = "TCPSACKReneging",
        tcp_sack_reorder = "TCPSACKReorder", tcp_reno_reorder = "TCPRenoReorder", tcp_ts_reorder = "TCPTSReorder",
        tcp_full_undo = "TCPFullUndo", tcp_partial_undo = "TCPPartialUndo", tcp_dsack_undo = "TCPDSACKUndo",
        tcp_loss_undo = "TCPLossUndo", tcp_lost_retransmit = "TCPLostRetransmit",
        tcp_reno_failures = "TCPRenoFailures", tcp_sack_failures = "TCPSackFailures", tcp_loss_failures = "TCPLossFailures",
        tcp_reno_recovery_fail = "TCPRenoRecoveryFail", tcp_sack_recovery_fail = "TCPSackRecoveryFail",
        tcp_fast_retrans = "TCPFastRetrans", tcp_slow_start_retrans = "TCPSlowStartRetrans", tcp_timeouts = "TCPTimeouts",
        tcp_loss_probes = "TCPLossProbes", tcp_loss_probe_recovery = "TCPLossProbeRecovery",
        prune_called = "PruneCalled", rcv_pruned = "RcvPruned", ofo_pruned = "OfoPruned",
        tcp_rcv_collapsed = "TCPRcvCollapsed",
        tcp_dsack_old_sent = "TCPDSACKOldSent", tcp_dsack_ofo_sent = "TCPDSACKOfoSent",
        tcp_dsack_recv = "TCPDSACKRecv", tcp_dsack_ofo_recv = "TCPDSACKOfoRecv",
        tcp_abort_on_data = "TCPAbortOnData", tcp_abort_on_close = "TCPAbortOnClose", tcp_abort_on_memory = "TCPAbortOnMemory",
        tcp_abort_on_timeout = "TCPAbortOnTimeout", tcp_timeout_rehash = "TcpTimeoutRehash", tcp_duplicate_data_rehash = "TcpDuplicateDataRehash", tcp_abort_on_linger = "TCPAbortOnLinger",
        tcp_dsack_ignored_old = "TCPDSACKIgnoredOld", tcp_dsack_ignored_no_undo = "TCPDSACKIgnoredNoUndo",
        tcp_dsack_ignored_dubious = "TCPDSACKIgnoredDubious", tcp_dsack_recv_segs = "TCPDSACKRecvSegs", tcp_sack_discard = "TCPSACKDiscard",
        tcp_spurious_rtos = "TCPSpuriousRTOs", tcp_spurious_rtx_host_queues = "TCPSpuriousRtxHostQueues",
        tcp_ofo_queue = "TCPOFOQueue", tcp_ofo_drop = "TCPOFODrop", tcp_md5_unexpected = "TCPMD5Unexpected", tcp_min_ttl_drop = "TCPMinTTLDrop", tcp_ofo_merge = "TCPOFOMerge",
        tcp_challenge_ack = "TCPChallengeACK", tcp_syn_challenge = "TCPSYNChallenge",
        tcp_from_zero_window_adv = "TCPFromZeroWindowAdv", tcp_to_zero_window_adv = "TCPToZeroWindowAdv", tcp_want_zero_window_adv = "TCPWantZeroWindowAdv",
        tcp_syn_retrans = "TCPSynRetrans", tcp_retrans_fail = "TCPRetransFail", tcp_orig_data_sent = "TCPOrigDataSent",
        tcp_hystart_train_detect = "TCPHystartTrainDetect", tcp_hystart_train_cwnd = "TCPHystartTrainCwnd",
        tcp_hystart_delay_detect = "TCPHystartDelayDetect", tcp_hystart_delay_cwnd = "TCPHystartDelayCwnd",
        tcp_ack_skipped_syn_recv = "TCPACKSkippedSynRecv", tcp_ack_skipped_paws = "TCPACKSkippedPAWS", tcp_ack_skipped_seq = "TCPACKSkippedSeq",
        tcp_ack_skipped_challenge = "TCPACKSkippedChallenge", tcp_ack_skipped_time_wait = "TCPACKSkippedTimeWait",
        tcp_win_probe = "TCPWinProbe", tcp_keep_alive = "TCPKeepAlive", tcp_delivered = "TCPDelivered", tcp_delivered_ce = "TCPDeliveredCE",
        tcp_ack_compressed = "TCPAckCompressed", tcp_zero_window_drop = "TCPZeroWindowDrop", tcp_rcv_q_drop = "TCPRcvQDrop",
        tcp_mtup_fail = "TCPMTUPFail", tcp_mtup_success = "TCPMTUPSuccess",
        tcp_auto_corking = "TCPAutoCorking", tcp_mem_pressures = "TCPMemoryPressures",
    }
}
counter_group! {
    /// SCTP, as `/proc/net/sctp/snmp` has it.
    Sctp "Sctp" {
        curr_estab = "CurrEstab", active_estabs = "ActiveEstabs", passive_estabs = "PassiveEstabs", aborteds = "Aborteds",
        shutdowns = "Shutdowns", out_of_blues = "OutOfBlues", checksum_errors = "ChecksumErrors",
        out_ctrl_chunks = "OutCtrlChunks", out_order_chunks = "OutOrderChunks", out_unorder_chunks = "OutUnorderChunks",
        in_ctrl_chunks = "InCtrlChunks", in_order_chunks = "InOrderChunks", in_unorder_chunks = "InUnorderChunks",
        frag_usr_msgs = "FragUsrMsgs", reasm_usr_msgs = "ReasmUsrMsgs", out_sctp_packs = "OutSCTPPacks",
        in_sctp_packs = "InSCTPPacks", t1_init_expireds = "T1InitExpireds", t1_cookie_expireds = "T1CookieExpireds",
        t2_shutdown_expireds = "T2ShutdownExpireds", t3_rtx_expireds = "T3RtxExpireds",
        t5_shutdown_guard_expireds = "T5ShutdownGuardExpireds", delay_sack_expireds = "DelaySackExpireds",
        autoclose_expireds = "AutocloseExpireds", t3_retransmits = "T3Retransmits",
        pmtud_retransmits = "PmtudRetransmits", fast_retransmits = "FastRetransmits", in_pkt_discards = "InPktDiscards",
        in_data_chunk_discards = "InDataChunkDiscards",
    }
}
counter_group! {
    /// What only lowwater counts.
    Own "Lowwater" {
        events = "Events", packets_not_now = "PacketsNotNow", packets_dropped_below = "PacketsDroppedBelow",
        completions = "Completions", timer_fired = "TimerFired", timer_early = "TimerEarly", timer_armed = "TimerArmed",
        gro_merged = "GroMerged", gso_segmented = "GsoSegmented", clock_backwards = "ClockBackwards",
        credit_exempt = "CreditExempt", credit_capped = "CreditCapped", lost_in_queue = "LostInQueue", payload_copied_in = "PayloadCopiedIn", payload_copied_out = "PayloadCopiedOut",
        payload_copied_inside = "PayloadCopiedInside", sctp_hb_armed = "SctpHbArmed", sctp_hb_early = "SctpHbEarly", sctp_heartbeats = "SctpHeartbeats",
        sctp_notes_dropped = "SctpNotesDropped", sctp_failed_dropped = "SctpFailedDropped", sctp_abandoned = "SctpAbandoned", sctp_t3_in_host = "SctpT3InHost", sctp_data_unread = "SctpDataUnread", sctp_reconf_expireds = "SctpReconfExpireds",
        sctp_sacks_ignored = "SctpSacksIgnored", sctp_chunks_again = "SctpChunksAgain",
    }
}

/// Challenge ACKs that may still leave in this second: so many that nobody can count them (RFC 5961 section 7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Challenges {
    second: u64,
    left: u32,
}

impl Challenges {
    /// True when one more may leave at `now`. A second's number is drawn from half of `limit` to one and a half, for an exact
    /// bound over all connections would tell an attacker of one whether the others are active (CVE-2016-5696).
    pub fn take(&mut self, now: Instant, limit: u32, rng: &mut Rng) -> bool {
        let second = now.as_nanos() / 1_000_000_000 + 1;
        if second != self.second {
            let half = limit.div_ceil(2);
            let drawn = rng.below(u64::from(limit).max(1)) as u32;
            (self.second, self.left) = (second, if limit == 0 { 0 } else { half.saturating_add(drawn) });
        }
        let may = self.left > 0;
        self.left -= u32::from(may);
        may
    }
}

/// All counters of a stack.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each group is documented at its type")]
pub struct Counters {
    pub ip: Ip,
    pub ip_ext: IpExt,
    pub icmp: Icmp,
    pub udp: Udp,
    pub tcp: Tcp,
    pub tcp_ext: TcpExt,
    pub sctp: Sctp,
    pub own: Own,
    /// What of a limit over all connections is left.
    pub challenges: Challenges,
    waits: [u64; WAIT_REASONS],
    drops: [u64; DROP_REASONS],
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            ip: Ip::default(),
            ip_ext: IpExt::default(),
            icmp: Icmp::default(),
            udp: Udp::default(),
            tcp: Tcp::default(),
            tcp_ext: TcpExt::default(),
            sctp: Sctp::default(),
            own: Own::default(),
            challenges: Challenges::default(),
            waits: [0; WAIT_REASONS],
            drops: [0; DROP_REASONS],
        }
    }
}

impl Counters {
    /// Counts one silence.
    pub fn wait(&mut self, why: Wait) {
        self.waits[why as usize] += 1;
    }

    /// Counts one drop.
    pub fn dropped(&mut self, why: DropWhy) {
        self.drops[why as usize] += 1;
    }

    /// Counts one packet that was to leave and for which there is no route (`ip_queue_xmit`).
    pub fn no_route(&mut self) {
        self.ip.out_no_routes += 1;
        self.dropped(DropWhy::NoRoute);
    }

    /// How often flows were silent for this reason.
    #[must_use]
    pub fn waits(&self, why: Wait) -> u64 {
        self.waits[why as usize]
    }

    /// How many packets were dropped for this reason.
    #[must_use]
    pub fn drops(&self, why: DropWhy) -> u64 {
        self.drops[why as usize]
    }

    /// Calls `f` with group, name and value of the counters that Linux has, too, in a fixed order: what `nstat` prints are group and name
    /// in one word.
    pub fn each_of_linux(&self, f: &mut dyn FnMut(&'static str, &'static str, u64)) {
        self.ip.each(f);
        self.ip_ext.each(f);
        self.icmp.each(f);
        self.udp.each(f);
        self.tcp.each(f);
        self.tcp_ext.each(f);
        self.sctp.each(f);
    }

    /// Calls `f` with group, name and value of every counter, in a fixed order.
    pub fn each(&self, f: &mut dyn FnMut(&'static str, &'static str, u64)) {
        self.each_of_linux(f);
        self.own.each(f);
        for why in Wait::ALL {
            f("Wait", why.name(), self.waits(why));
        }
        for &why in DropWhy::ALL {
            f("Drop", why.name(), self.drops(why));
        }
    }
}

/// A line for each counter that is not 0, in the columns of `nstat`: group and name, value. Reasons, whose names are words and not Linux's, stand
/// behind a dot: `Wait.cwnd`.
impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut done = Ok(());
        let mut first = true;
        self.each(&mut |group, name, value| {
            if value > 0 && done.is_ok() {
                let begin = if core::mem::take(&mut first) { "" } else { "\n" };
                let dot = if name.starts_with(char::is_lowercase) { "." } else { "" };
                done = write!(f, "{begin}{:<32}{value}", format!("{group}{dot}{name}"));
            }
        });
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_show_what_has_happened_and_nothing_else() {
        let mut counters = Counters::default();
        assert_eq!(counters.to_string(), "");
        counters.ip.in_receives = 3;
        counters.wait(Wait::Cwnd);
        let text = counters.to_string();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines, [["IpInReceives", "3"], ["Wait.cwnd", "1"]]);
        assert_eq!(text.lines().next().map(str::len), Some(33), "values stand below each other");
    }
}
