//! Fields of the structures that getsockopt tells, by Linux's names.
use crate::names;

/// struct tcp_info (linux/tcp.h, 7.0): name, offset, size. The bit fields are in [`field`].
const TCP_INFO: &[(&str, usize, usize)] = &[
    ("state", 0, 1),
    ("ca_state", 1, 1),
    ("retransmits", 2, 1),
    ("probes", 3, 1),
    ("backoff", 4, 1),
    ("options", 5, 1),
    ("rto", 8, 4),
    ("ato", 12, 4),
    ("snd_mss", 16, 4),
    ("rcv_mss", 20, 4),
    ("unacked", 24, 4),
    ("sacked", 28, 4),
    ("lost", 32, 4),
    ("retrans", 36, 4),
    ("fackets", 40, 4),
    ("last_data_sent", 44, 4),
    ("last_ack_sent", 48, 4),
    ("last_data_recv", 52, 4),
    ("last_ack_recv", 56, 4),
    ("pmtu", 60, 4),
    ("rcv_ssthresh", 64, 4),
    ("rtt", 68, 4),
    ("rttvar", 72, 4),
    ("snd_ssthresh", 76, 4),
    ("snd_cwnd", 80, 4),
    ("advmss", 84, 4),
    ("reordering", 88, 4),
    ("rcv_rtt", 92, 4),
    ("rcv_space", 96, 4),
    ("total_retrans", 100, 4),
    ("pacing_rate", 104, 8),
    ("max_pacing_rate", 112, 8),
    ("bytes_acked", 120, 8),
    ("bytes_received", 128, 8),
    ("segs_out", 136, 4),
    ("segs_in", 140, 4),
    ("notsent_bytes", 144, 4),
    ("min_rtt", 148, 4),
    ("data_segs_in", 152, 4),
    ("data_segs_out", 156, 4),
    ("delivery_rate", 160, 8),
    ("busy_time", 168, 8),
    ("rwnd_limited", 176, 8),
    ("sndbuf_limited", 184, 8),
    ("delivered", 192, 4),
    ("delivered_ce", 196, 4),
    ("bytes_sent", 200, 8),
    ("bytes_retrans", 208, 8),
    ("dsack_dups", 216, 4),
    ("reord_seen", 220, 4),
    ("rcv_ooopack", 224, 4),
    ("snd_wnd", 228, 4),
    ("rcv_wnd", 232, 4),
    ("rehash", 236, 4),
    ("total_rto", 240, 2),
    ("total_rto_recoveries", 242, 2),
    ("total_rto_time", 244, 4),
    ("received_ce", 248, 4),
    ("delivered_e1_bytes", 252, 4),
    ("delivered_e0_bytes", 256, 4),
    ("delivered_ce_bytes", 260, 4),
    ("received_e1_bytes", 264, 4),
    ("received_e0_bytes", 268, 4),
    ("received_ce_bytes", 272, 4),
];

/// Fields of a few bits. In Linux 6.18 the last four were two shorts about accurate ECN, 0 without it.
const BITS: [&str; 8] = [
    "snd_wscale",
    "rcv_wscale",
    "delivery_rate_app_limited",
    "fastopen_client_fail",
    "ecn_mode",
    "accecn_opt_seen",
    "accecn_fail_mode",
    "options2",
];

/// SO_MEMINFO's numbers in their order (linux/sock_diag.h).
const MEMINFO: [&str; 9] = [
    "SK_MEMINFO_RMEM_ALLOC",
    "SK_MEMINFO_RCVBUF",
    "SK_MEMINFO_WMEM_ALLOC",
    "SK_MEMINFO_SNDBUF",
    "SK_MEMINFO_FWD_ALLOC",
    "SK_MEMINFO_WMEM_QUEUED",
    "SK_MEMINFO_OPTMEM",
    "SK_MEMINFO_BACKLOG",
    "SK_MEMINFO_DROPS",
];

/// TCP_CC_INFO as BBR, DCTCP and Vegas fill it (linux/inet_diag.h), under the names that packetdrill gives.
const CC_INFO: &[(&str, usize, usize)] = &[
    ("bbr_bw_lo", 0, 4),
    ("bbr_bw_hi", 4, 4),
    ("bbr_bw", 0, 8),
    ("bbr_min_rtt", 8, 4),
    ("bbr_pacing_gain", 12, 4),
    ("bbr_cwnd_gain", 16, 4),
    ("dctcp_enabled", 0, 2),
    ("dctcp_ce_state", 2, 2),
    ("dctcp_alpha", 4, 4),
    ("dctcp_ab_ecn", 8, 4),
    ("dctcp_ab_tot", 12, 4),
    ("tcpv_enabled", 0, 4),
    ("tcpv_rttcnt", 4, 4),
    ("tcp_rtt", 8, 4),
    ("tcp_minrtt", 12, 4),
];

/// A number without a sign within a structure, where the structure is long enough.
pub(super) fn number(bytes: &[u8], at: usize, size: usize) -> Option<i128> {
    let part = bytes.get(at..at.checked_add(size)?)?;
    let mut wide = [0; 8];
    wide.get_mut(..size)?.copy_from_slice(part);
    Some(u64::from_le_bytes(wide).into())
}

/// A field of TCP_INFO by its name with `tcpi_` in front.
pub(super) fn field(info: &[u8], name: &str) -> Option<i128> {
    let short = name.strip_prefix("tcpi_")?;
    let bits = |at: usize, shift: u32, count: u32| {
        number(info, at, 1).map(|byte| byte >> shift & ((1 << count) - 1))
    };
    match short {
        "snd_wscale" => bits(6, 0, 4),
        "rcv_wscale" => bits(6, 4, 4),
        "delivery_rate_app_limited" => bits(7, 0, 1),
        "fastopen_client_fail" => bits(7, 1, 2),
        "ecn_mode" => bits(276, 0, 2),
        "accecn_opt_seen" => bits(276, 2, 2),
        "accecn_fail_mode" => bits(276, 4, 4),
        "options2" => number(info, 276, 4).map(|word| word >> 8),
        _ => {
            let (_, at, size) = TCP_INFO.iter().find(|(n, ..)| *n == short)?;
            number(info, *at, *size)
        }
    }
}

/// All names of TCP_INFO's fields, without `tcpi_`.
pub(super) fn tcp_names() -> impl Iterator<Item = &'static str> {
    TCP_INFO.iter().map(|(name, ..)| *name).chain(BITS)
}

/// The fields of TCP_INFO that a wrong name with `tcpi_` may have been meant for, the nearest first.
pub(super) fn near(name: &str) -> Vec<String> {
    let Some(short) = name.strip_prefix("tcpi_") else { return Vec::new() };
    let all: Vec<&str> = tcp_names().collect();
    names::near(short, &all).into_iter().map(|near| format!("tcpi_{near}")).collect()
}

/// Why a field cannot be told.
pub(super) fn lacking(name: &str) -> String {
    match name.strip_prefix("tcpi_").is_some_and(|short| tcp_names().any(|known| known == short)) {
        true => "it lies behind the bytes that came back".to_owned(),
        false => format!("no such field{}", names::told(&near(name))),
    }
}

/// All names of values.
pub(super) fn names() -> impl Iterator<Item = String> {
    let fields = tcp_names().map(|name| format!("tcpi_{name}"));
    let others = CC_INFO.iter().map(|(name, ..)| *name).chain(MEMINFO);
    fields.chain(others.map(str::to_owned))
}

/// A number of SO_MEMINFO.
pub(super) fn memory(info: &[u8], name: &str) -> Option<i128> {
    let at = MEMINFO.iter().position(|n| *n == name)?;
    number(info, at * 4, 4)
}

/// A number of TCP_CC_INFO; none where the controller tells nothing.
pub(super) fn congestion(info: &[u8], name: &str) -> Option<i128> {
    let (_, at, size) = CC_INFO.iter().find(|(n, ..)| *n == name)?;
    number(info, *at, *size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_follow_one_another_without_a_gap_up_to_the_last_bits() {
        let mut end = 8;
        for (name, at, size) in &TCP_INFO[6..] {
            assert_eq!(*at, end, "{name}");
            end += size;
        }
        assert_eq!(end, 276);
    }

    #[test]
    fn numbers_are_found_and_short_structures_have_fewer() {
        let mut info = vec![0; 280];
        (info[0], info[6], info[7], info[80], info[112]) = (1, 0x87, 0b101, 10, 9);
        (info[276], info[278]) = (0b0110_1101, 1);
        for (name, wanted) in [
            ("tcpi_state", 1),
            ("tcpi_snd_wscale", 7),
            ("tcpi_rcv_wscale", 8),
            ("tcpi_delivery_rate_app_limited", 1),
            ("tcpi_fastopen_client_fail", 2),
            ("tcpi_ecn_mode", 1),
            ("tcpi_accecn_opt_seen", 3),
            ("tcpi_accecn_fail_mode", 6),
            ("tcpi_options2", 0x100),
            ("tcpi_snd_cwnd", 10),
            ("tcpi_max_pacing_rate", 9),
        ] {
            assert_eq!(field(&info, name), Some(wanted), "{name}");
        }
        assert_eq!(field(&info[..80], "tcpi_snd_cwnd"), None);
        assert_eq!(field(&info, "snd_cwnd"), None);
        assert_eq!(memory(&[1, 0, 0, 0, 2, 0, 0, 0], "SK_MEMINFO_RCVBUF"), Some(2));
        assert_eq!(congestion(&[], "bbr_bw"), None);
    }
}
