//! TCP_INFO of a connection in the words of `ss -ti`: as JSON for the file of `serve --stats`, and that as text.
use crate::sctp::paths;
use lowwater_core::stack::SocketReport;
use lowwater_core::tcp::TcpInfo;
use serde_json::{Map, Value, json};

/// Bits of `tcpi_options`, as `ss` names them.
const OPTIONS: [(u8, &str); 5] = [(1, "ts"), (2, "sack"), (8, "ecn"), (16, "ecnseen"), (32, "fastopen")];
/// `tcpi_snd_ssthresh` before any congestion.
const NO_SSTHRESH: u32 = 0x7fff_ffff;
/// Reordering that every connection begins with, which `ss` does not tell.
const USUAL_REORDERING: u32 = 3;

/// What a connection tells of itself; nothing of what is no connection. Rates are in bytes per second, times in milliseconds; `null` stands for
/// "unknown" and "no limit".
pub(crate) fn json(socket: &SocketReport) -> Option<Value> {
    let info = socket.info.as_ref()?;
    let mut all = Map::new();
    let mut put = |fields: Vec<(&str, Value)>| {
        all.extend(fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
    };
    let options = OPTIONS.iter().filter(|(bit, _)| info.options & bit != 0).map(|(_, name)| *name);
    put(vec![
        ("options", options.collect()),
        ("congestion", json!(socket.congestion.map(|kind| kind.name()))),
        ("bbr", socket.bbr.as_ref().map_or(Value::Null, paths::bbr)),
        ("ca_state", json!(info.ca_state_name())),
    ]);
    put(sizes(info));
    put(times(info));
    put(rates(info));
    put(counts(info));
    Some(Value::Object(all))
}

fn sizes(info: &TcpInfo) -> Vec<(&'static str, Value)> {
    vec![
        ("wscale", json!([info.snd_wscale, info.rcv_wscale])),
        ("mss", json!(info.snd_mss)),
        ("pmtu", json!(info.pmtu)),
        ("rcvmss", json!(info.rcv_mss)),
        ("advmss", json!(info.advmss)),
        ("cwnd", json!(info.snd_cwnd)),
        ("ssthresh", json!((info.snd_ssthresh < NO_SSTHRESH).then_some(info.snd_ssthresh))),
        ("notsent", json!(info.notsent_bytes)),
        ("snd_wnd", json!(info.snd_wnd)),
        ("rcv_wnd", json!(info.rcv_wnd)),
        ("rcv_space", json!(info.rcv_space)),
        ("rcv_ssthresh", json!(info.rcv_ssthresh)),
    ]
}

fn times(info: &TcpInfo) -> Vec<(&'static str, Value)> {
    let ms = |micros: u32| f64::from(micros) / 1e3;
    let whole_ms = |micros: u64| json!(micros / 1_000);
    vec![
        ("rto_ms", json!(ms(info.rto))),
        ("rtt_ms", json!(ms(info.rtt))),
        ("rttvar_ms", json!(ms(info.rttvar))),
        ("minrtt_ms", json!((info.min_rtt != u32::MAX).then(|| ms(info.min_rtt)))),
        ("rcv_rtt_ms", json!(ms(info.rcv_rtt))),
        ("ato_ms", json!(ms(info.ato))),
        ("lastsnd_ms", json!(info.last_data_sent)),
        ("lastrcv_ms", json!(info.last_data_recv)),
        ("lastack_ms", json!(info.last_ack_recv)),
        ("busy_ms", whole_ms(info.busy_time)),
        ("rwnd_limited_ms", whole_ms(info.rwnd_limited)),
        ("sndbuf_limited_ms", whole_ms(info.sndbuf_limited)),
    ]
}

fn rates(info: &TcpInfo) -> Vec<(&'static str, Value)> {
    let known = |rate: u64| json!((rate != u64::MAX).then_some(rate));
    // A window in a round trip.
    let window = u64::from(info.snd_mss) * u64::from(info.snd_cwnd) * 1_000_000;
    vec![
        ("send_rate", json!(window.checked_div(u64::from(info.rtt)))),
        ("pacing_rate", known(info.pacing_rate)),
        ("max_pacing_rate", known(info.max_pacing_rate)),
        ("delivery_rate", json!(info.delivery_rate)),
        ("app_limited", json!(info.delivery_rate_app_limited != 0)),
    ]
}

fn counts(info: &TcpInfo) -> Vec<(&'static str, Value)> {
    vec![
        ("backoff", json!(info.backoff)),
        ("bytes_sent", json!(info.bytes_sent)),
        ("bytes_retrans", json!(info.bytes_retrans)),
        ("bytes_acked", json!(info.bytes_acked)),
        ("bytes_received", json!(info.bytes_received)),
        ("segs_out", json!(info.segs_out)),
        ("segs_in", json!(info.segs_in)),
        ("data_segs_out", json!(info.data_segs_out)),
        ("data_segs_in", json!(info.data_segs_in)),
        ("delivered", json!(info.delivered)),
        ("delivered_ce", json!(info.delivered_ce)),
        ("unacked", json!(info.unacked)),
        ("retrans", json!(info.retrans)),
        ("retrans_total", json!(info.total_retrans)),
        ("lost", json!(info.lost)),
        ("sacked", json!(info.sacked)),
        ("dsack_dups", json!(info.dsack_dups)),
        ("reordering", json!(info.reordering)),
        ("reord_seen", json!(info.reord_seen)),
        ("rcv_ooopack", json!(info.rcv_ooopack)),
    ]
}

/// The line of `ss -ti`, from that JSON: what is 0 or unknown is left out, rates are in bits per second.
pub(crate) fn text(info: &Value) -> String {
    let mut words: Vec<String> = info["options"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    words.extend(info["congestion"].as_str().map(str::to_owned));
    let shifts = [0, 1].map(|side| info["wscale"][side].as_u64().unwrap_or(0));
    words.extend((shifts != [0, 0]).then(|| format!("wscale:{},{}", shifts[0], shifts[1])));
    words.extend(plain(info, &["rto_ms", "backoff"]));
    words.extend(shown(&info["rtt_ms"]).map(|rtt| format!("rtt:{rtt}/{}", value(&info["rttvar_ms"]))));
    words.extend(plain(info, &["ato_ms", "mss", "pmtu", "rcvmss", "advmss", "cwnd", "ssthresh"]));
    words.extend(plain(info, &["bytes_sent", "bytes_retrans", "bytes_acked", "bytes_received", "segs_out"]));
    words.extend(plain(info, &["segs_in", "data_segs_out", "data_segs_in"]));
    words.extend(bbr(&info["bbr"]));
    words.extend(bits(&info["send_rate"]).map(|rate| format!("send {rate}")));
    words.extend(plain(info, &["lastsnd_ms", "lastrcv_ms", "lastack_ms"]));
    words.extend(pacing(info));
    words.extend(bits(&info["delivery_rate"]).map(|rate| format!("delivery_rate {rate}")));
    words.extend(plain(info, &["delivered", "delivered_ce"]));
    words.extend((info["app_limited"] == true).then(|| "app_limited".to_owned()));
    words.extend(limits(info));
    words.extend(plain(info, &["unacked"]));
    words.extend(retransmitted(info));
    words.extend(plain(info, &["lost", "sacked", "dsack_dups"]));
    if info["reordering"] != USUAL_REORDERING {
        words.extend(plain(info, &["reordering"]));
    }
    words.extend(plain(info, &["reord_seen", "rcv_rtt_ms", "rcv_space", "rcv_ssthresh", "notsent"]));
    words.extend(plain(info, &["minrtt_ms", "rcv_ooopack", "snd_wnd", "rcv_wnd"]));
    words.join(" ")
}

/// `word:value` of each; times are milliseconds, which `ss` does not say.
fn plain(info: &Value, names: &[&str]) -> Vec<String> {
    let of = |name: &&str| {
        let word = name.strip_suffix("_ms").unwrap_or(name);
        Some(format!("{word}:{}", shown(&info[*name])?))
    };
    names.iter().filter_map(of).collect()
}

/// A number that is known and not 0.
fn shown(number: &Value) -> Option<String> {
    number.as_f64().filter(|n| *n != 0.0).map(|_| value(number))
}

fn value(number: &Value) -> String {
    // 204.0 ms are 204.
    number.as_u64().map_or_else(|| number.as_f64().unwrap_or_default().to_string(), |n| n.to_string())
}

fn bits(bytes: &Value) -> Option<String> {
    bytes.as_u64().filter(|rate| *rate > 0).map(|rate| format!("{}bps", u128::from(rate) * 8))
}

fn pacing(info: &Value) -> Option<String> {
    let rate = bits(&info["pacing_rate"])?;
    let most = bits(&info["max_pacing_rate"]).map_or_else(String::new, |most| format!("/{most}"));
    Some(format!("pacing_rate {rate}{most}"))
}

fn bbr(info: &Value) -> Option<String> {
    let bw = info.get("bw")?.as_u64()?;
    let mrtt = info["min_rtt_us"].as_f64().map_or_else(|| "-".to_owned(), |us| (us / 1e3).to_string());
    let gains = format!("pacing_gain:{},cwnd_gain:{}", info["pacing_gain"], info["cwnd_gain"]);
    Some(format!("bbr:(bw:{}bps,mrtt:{mrtt},{gains})", u128::from(bw) * 8))
}

/// Where the time goes while something is queued or in flight, and the shares of it that a limit held.
fn limits(info: &Value) -> Vec<String> {
    let Some(busy) = info["busy_ms"].as_u64().filter(|busy| *busy > 0) else { return Vec::new() };
    let of = |name: &str| {
        let ms = info[format!("{name}_ms")].as_u64().filter(|ms| *ms > 0)?;
        Some(format!("{name}:{ms}ms({:.1}%)", ms as f64 * 100.0 / busy as f64))
    };
    [Some(format!("busy:{busy}ms")), of("rwnd_limited"), of("sndbuf_limited")].into_iter().flatten().collect()
}

/// Segments that are on their way again, and those that ever were.
fn retransmitted(info: &Value) -> Option<String> {
    let ever = shown(&info["retrans_total"])?;
    Some(format!("retrans:{}/{ever}", value(&info["retrans"])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowwater_core::base::sysctl::CongestionKind;
    use lowwater_core::path::congestion::bbr::BbrInfo;
    use lowwater_core::stack::SocketKind;
    use lowwater_core::tcp::State;

    fn report(info: TcpInfo) -> SocketReport {
        SocketReport {
            id: None,
            kind: SocketKind::Tcp,
            state: State::Established,
            local: None,
            remote: None,
            recv_queue: 0,
            send_queue: 0,
            owned: true,
            below: 0,
            info: Some(info),
            congestion: Some(CongestionKind::Cubic),
            bbr: None,
            wait: None,
            sctp: None,
        }
    }

    /// What a connection knows from its beginning on.
    fn fresh() -> TcpInfo {
        TcpInfo {
            options: 7,
            snd_wscale: 10,
            rcv_wscale: 7,
            rto: 204_000,
            rtt: 117,
            rttvar: 74,
            snd_mss: 1_448,
            pmtu: 1_500,
            rcv_mss: 536,
            advmss: 1_448,
            snd_cwnd: 10,
            snd_ssthresh: NO_SSTHRESH,
            min_rtt: u32::MAX,
            pacing_rate: 1_000_000,
            max_pacing_rate: u64::MAX,
            reordering: 3,
            ..TcpInfo::default()
        }
    }

    #[test]
    fn what_is_unknown_or_nothing_is_left_out_of_the_line() {
        let object = json(&report(fresh())).expect("a connection");
        assert_eq!(
            text(&object),
            "ts sack cubic wscale:10,7 rto:204 rtt:0.117/0.074 mss:1448 pmtu:1500 rcvmss:536 advmss:1448 cwnd:10 send 990085464bps \
             pacing_rate 8000000bps"
        );
        for name in ["ssthresh", "minrtt_ms", "max_pacing_rate"] {
            assert_eq!(object.get(name), Some(&Value::Null), "{name}");
        }
        assert_eq!((&object["cwnd"], &object["ca_state"]), (&10.into(), &"Open".into()));
        assert_eq!(json(&SocketReport { info: None, ..report(fresh()) }), None);
    }

    #[test]
    fn what_holds_the_sender_stands_in_the_words_of_ss() {
        let info = TcpInfo {
            options: 2,
            backoff: 1,
            snd_ssthresh: 7,
            unacked: 9,
            retrans: 1,
            total_retrans: 5,
            lost: 2,
            sacked: 3,
            reordering: 12,
            notsent_bytes: 3_877_753,
            min_rtt: 14,
            busy_time: 308_000,
            rwnd_limited: 154_999,
            sndbuf_limited: 0,
            max_pacing_rate: 1_000_000,
            delivery_rate: 500_000,
            delivery_rate_app_limited: 1,
            ato: 40_000,
            ..fresh()
        };
        let bbr = BbrInfo { bw: 2_500_000, min_rtt: 14, pacing_gain: 739, cwnd_gain: 512 };
        let line = text(&json(&SocketReport { bbr: Some(bbr), ..report(info) }).expect("a connection"));
        for words in [
            "rto:204 backoff:1 rtt:0.117/0.074 ato:40 mss:1448",
            "cwnd:10 ssthresh:7 bbr:(bw:20000000bps,mrtt:0.014,pacing_gain:2.88671875,cwnd_gain:2.0) send ",
            "pacing_rate 8000000bps/8000000bps delivery_rate 4000000bps app_limited busy:308ms rwnd_limited:154ms(50.0%) unacked:9",
            "unacked:9 retrans:1/5 lost:2 sacked:3 reordering:12 notsent:3877753 minrtt:0.014",
        ] {
            assert!(line.contains(words), "{words}: {line}");
        }
        assert!(!line.contains("sndbuf_limited"), "{line}");
    }

    #[test]
    fn a_connection_that_is_all_large_numbers_stays_small_in_the_file() {
        let info = TcpInfo {
            rto: u32::MAX - 1,
            rtt: u32::MAX - 1,
            bytes_acked: u64::MAX,
            bytes_sent: u64::MAX,
            bytes_received: u64::MAX,
            segs_in: u32::MAX,
            segs_out: u32::MAX,
            busy_time: u64::MAX,
            rwnd_limited: u64::MAX,
            options: u8::MAX,
            ..fresh()
        };
        let object = json(&report(info)).expect("a connection");
        // serve --stats lists 1,000 of them, each twelve blanks further in.
        let len = format!("{object:#}").lines().map(|line| line.len() + 13).sum::<usize>();
        assert!(len < 3_000, "{len}");
    }
}
