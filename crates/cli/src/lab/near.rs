//! Names of `--set` that nobody knows: which known ones are meant.
use lowwater_core::base::Sysctl;
use lowwater_core::base::near::distance;

/// Words that people use, and the parameters that they mean.
const MEANS: [(&str, &str); 8] = [
    ("bandwidth", "rate_mbps"),
    ("delay", "rtt_ms"),
    ("latency", "rtt_ms"),
    ("speed", "rate_mbps"),
    ("duration", "measure_s"),
    ("time", "measure_s"),
    ("size", "bytes"),
    ("notsent_lowat", "lowat"),
];
/// Letters of what may be a part of a sysctl's name: fewer are in too many.
const PART_MIN: usize = 4;
/// Most names that are suggested.
const MOST: usize = 4;

fn without_prefix(key: &str) -> &str {
    let prefixes = ["net.ipv4.", "net.core.", "net.lowwater.", "net."];
    prefixes.iter().find_map(|p| key.strip_prefix(p)).unwrap_or(key)
}

/// A sysctl by its short name; what is none as it is.
pub(super) fn short(key: &str) -> &str {
    let short = without_prefix(key);
    if Sysctl::knows(short) { short } else { key }
}

/// Parameters of `own` and sysctls that are close to `key`, the closest first; nothing where none is.
pub(super) fn near(own: &[&'static str], key: &str) -> Vec<&'static str> {
    let key = key.to_ascii_lowercase();
    let key = without_prefix(&key);
    let far = (key.chars().count() / 4).max(1);
    let typed = |name: &str| Some(distance(key, name)).filter(|d| *d <= far);
    let parts: Vec<&str> = key.split('_').collect();
    let meant = |name: &str| {
        let says =
            MEANS.iter().any(|(word, means)| *means == name && (key.ends_with(word) || parts.contains(word)));
        let begins = key.len() >= 3 && (name.starts_with(key) || name.ends_with(key));
        let part = name.split('_').any(|part| part == key) || (name.len() >= 4 && parts.contains(&name));
        (says || begins || part).then_some(1)
    };
    let own = own.iter().filter_map(|name| Some((typed(name).into_iter().chain(meant(name)).min()?, *name)));
    // A part of a name, as `tcp_congestion` and `congestion_control` are: its beginning before its end, and that before its middle. Where something is
    // nearer, what has the word somewhere is not meant.
    let part = |name: &str| {
        let long = key.len() >= PART_MIN && name.contains(key);
        long.then(|| if name.starts_with(key) { 2 } else { 4 - usize::from(name.ends_with(key)) })
    };
    let sysctls = Sysctl::NAMES.iter().map(|(name, _)| *name);
    let near = sysctls.clone().filter_map(|name| Some((typed(name)?, name)));
    let mut all: Vec<_> = own.chain(near).collect();
    if all.is_empty() {
        all = sysctls.filter_map(|name| Some((part(name)?, name))).collect();
    }
    all.sort_by_key(|(distance, _)| *distance);
    all.into_iter().take(MOST).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_close_is_suggested() {
        let own = ["flows", "lowat", "rate_mbps", "rtt_ms", "loss_percent", "queue_bytes", "write_bytes"];
        let cases: [(&str, &[&str]); 10] = [
            ("tcp_congestion", &["tcp_congestion_control"]),
            ("congestion_control", &["tcp_congestion_control"]),
            ("TCP_NOTSENT_LOWAT", &["tcp_notsent_lowat", "lowat"]),
            ("delay", &["rtt_ms"]),
            ("rate", &["rate_mbps"]),
            ("los", &["loss_percent"]),
            ("flow", &["flows"]),
            ("net.ipv4.tcp_sakc", &["tcp_sack"]),
            ("foo", &[]),
            ("something_else", &[]),
        ];
        for (key, wanted) in cases {
            let found = near(&own, key);
            assert!(found.starts_with(wanted) && found.is_empty() == wanted.is_empty(), "{key}: {found:?}");
        }
    }
}
