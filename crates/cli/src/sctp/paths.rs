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

/// Bits per second for people, from bytes per second.
fn rate(bytes: &Value) -> String {
    bytes.as_f64().map_or_else(|| "-".to_owned(), |bytes| format!("{:.1} Mbit/s", bytes * 8.0 / 1e6))
}

/// Two lines of text from that, each behind `indent`: where it leads, and what holds it back.
pub(crate) fn text(path: &Value, indent: &str) -> String {
    let text = |name: &str| match &path[name] {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let role = match (path["primary"] == true, path["active"] == true) {
        (true, true) => ", primary",
        (true, false) => ", primary, not used",
        (false, true) => ", used instead of the primary",
        (false, false) => "",
    };
    format!(
        "{indent}path {} from {}: {}{role}; srtt {} ms, rto {} ms, mtu {}, errors {}\n\
         {indent}  cwnd {}, ssthresh {}, flight {}, {}; {}, pacing {}, delivered {}",
        text("remote"),
        text("local"),
        text("state"),
        text("srtt_ms"),
        text("rto_ms"),
        text("mtu"),
        text("errors"),
        text("cwnd"),
        text("ssthresh"),
        text("flight"),
        below(&path["below_bytes"]),
        text("congestion"),
        rate(&path["pacing_rate"]),
        rate(&path["delivery_rate"]),
    )
}

/// Bytes that have left the transport and not the host.
pub(crate) fn below(bytes: &Value) -> String {
    format!("{} bytes charged below", bytes.as_u64().unwrap_or_default())
}
