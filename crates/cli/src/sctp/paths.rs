//! A path of an association for people and for programs.
use lowwater::sctp::{PathInfo, PathState};
use lowwater_core::path::congestion::bbr::BbrInfo;
use serde_json::{Value, json};

/// The words of RFC 6458 and RFC 7829 for the state of a path.
const fn state(state: PathState) -> &'static str {
    match state {
        PathState::Active => "active",
        PathState::PotentiallyFailed => "potentially failed",
        PathState::Inactive => "inactive",
        PathState::Unconfirmed => "unconfirmed",
    }
}

/// BBR counts its gains in 256ths.
const GAIN: f64 = 256.0;

/// What BBR tells, of a path or of a connection.
pub(crate) fn bbr(told: &BbrInfo) -> Value {
    json!({"bw": told.bw, "min_rtt_us": (told.min_rtt != u32::MAX).then_some(told.min_rtt),
        "pacing_gain": f64::from(told.pacing_gain) / GAIN, "cwnd_gain": f64::from(told.cwnd_gain) / GAIN})
}

/// As JSON. Windows are in bytes, the rate in bytes per second, `null` where nothing is known or nothing is paced.
pub(crate) fn json(path: &PathInfo) -> Value {
    let controller = path.controller.as_ref();
    let bbr = controller.and_then(|c| c.bbr).map(|told| bbr(&told));
    let ms = |d: std::time::Duration| (d.as_secs_f64() * 1e6).round() / 1e3;
    json!({
        "remote": path.remote, "local": path.local, "state": state(path.state), "primary": path.primary, "active": path.active,
        "cwnd": path.cwnd, "ssthresh": (path.ssthresh != u32::MAX).then_some(path.ssthresh), "flight": path.flight,
        "srtt_ms": path.srtt.map(ms), "rto_ms": ms(path.rto), "mtu": path.mtu, "errors": path.errors,
        "pacing_rate": (path.pacing_rate != u64::MAX).then_some(path.pacing_rate), "below_bytes": path.below,
        "congestion": path.congestion.name(), "delivery_rate": controller.and_then(|c| c.delivery_rate),
        "ca_state": controller.map(|c| format!("{:?}", c.state)), "min_rtt_ms": path.min_rtt.map(ms), "bbr": bbr,
    })
}

/// How a rate in bytes per second is told: as `sctp-send` tells its own.
pub(crate) fn mbit(bytes: u64) -> String {
    format!("{:.1} Mbit/s", bytes as f64 * 8.0 / 1e6)
}

/// The same in the words of `ss`.
pub(crate) fn bps(bytes: u64) -> String {
    format!("{}bps", u128::from(bytes) * 8)
}

/// Two lines of text from that, each behind `indent`: where it leads, and what holds it back. What is 0 or unknown is left out, as `ss` does.
pub(crate) fn text(path: &Value, indent: &str, rate: fn(u64) -> String) -> String {
    let text = |name: &str| path[name].as_str().unwrap_or("-");
    let role = match (path["primary"] == true, path["active"] == true) {
        (true, true) => ", primary",
        (true, false) => ", primary, not used",
        (false, true) => ", used instead of the primary",
        (false, false) => "",
    };
    let known = |name: &str| Some(&path[name]).filter(|value| value.as_f64().is_some_and(|n| n != 0.0));
    let number =
        |word: &str, name: &str, unit: &str| known(name).map(|value| format!("{word} {value}{unit}"));
    let bits = |word: &str, name: &str| known(name)?.as_u64().map(|bytes| format!("{word} {}", rate(bytes)));
    let list = |of: [Option<String>; 4]| of.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let times = list([
        number("srtt", "srtt_ms", " ms"),
        number("rto", "rto_ms", " ms"),
        number("mtu", "mtu", ""),
        number("errors", "errors", ""),
    ]);
    let windows = list([
        number("cwnd", "cwnd", ""),
        number("ssthresh", "ssthresh", ""),
        number("flight", "flight", ""),
        known("below_bytes").map(below),
    ]);
    let rates = list([
        Some(text("congestion").to_owned()),
        bits("pacing", "pacing_rate"),
        // Of the last acknowledgements alone, so of a tail nothing that anybody would call the rate.
        bits("last rate sample", "delivery_rate"),
        None,
    ]);
    let (remote, local, state) = (text("remote"), text("local"), text("state"));
    format!("{indent}path {remote} from {local}: {state}{role}; {times}\n{indent}  {windows}; {rates}")
}

/// Bytes that have left the transport and not the host.
pub(crate) fn below(bytes: &Value) -> String {
    format!("{} bytes charged below", bytes.as_u64().unwrap_or_default())
}
