//! The parameters of a bulk transfer by name: what `--set` takes and what reports print.
use crate::args::unknown_setting;
use lowwater_core::base::{Duration, Sysctl};
use lowwater_sim::scenario::BulkParams;
use serde_json::{Map, Value, json};

/// Most bytes over all flows of one run: an experiment is to end today.
const BYTES_MAX: u64 = 100_000_000_000;
/// Most flows of one run.
const FLOWS_MAX: u64 = 10_000;

/// Names, what they take, what they mean.
pub(crate) const NAMES: &[(&str, &str, &str)] = &[
    ("rtt_ms", "milliseconds", "round-trip time of the empty path"),
    ("rate_mbps", "10^6 bit/s", "rate of the bottleneck"),
    ("loss_percent", "0 to 100", "random loss of data packets"),
    ("queue_bytes", "bytes", "queue of the bottleneck, 0 without a limit"),
    ("bytes", "bytes", "size of each transfer"),
    ("flows", "a number", "transfers at the same time"),
    ("write_bytes", "bytes", "size of the application's writes"),
    ("mtu", "576 to 65535", "MTU of all devices"),
    ("limit_s", "seconds", "virtual time after which a run ends in any case"),
];

/// Parameters of one run.
#[derive(Clone, Debug)]
pub(crate) struct Params {
    /// As the scenario takes them.
    pub(crate) bulk: BulkParams,
}

impl Params {
    /// The experiment's own parameters.
    pub(crate) fn new(seed: u64, loss_ppm: u32) -> Self {
        let sample_every = Duration::from_millis(20);
        Self { bulk: BulkParams { seed, loss_ppm, sample_every, bytes: 50_000_000, ..BulkParams::default() } }
    }

    /// Random loss in percent.
    pub(crate) fn loss_percent(&self) -> f64 {
        f64::from(self.bulk.loss_ppm) / 10_000.0
    }

    /// Sets a parameter or a sysctl by name.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let p = &mut self.bulk;
        match key {
            "rtt_ms" => p.rtt = Duration::from_nanos((number(key, value, 0.0, 60_000.0)? * 1e6) as u64),
            "rate_mbps" => p.rate = (number(key, value, 0.001, 400_000.0)? * 1e6) as u64,
            "loss_percent" => p.loss_ppm = (number(key, value, 0.0, 100.0)? * 1e4).round() as u32,
            "queue_bytes" => p.queue_bytes = whole(key, value, 0, u64::from(u32::MAX))?,
            "bytes" => p.bytes = whole(key, value, 1_000, BYTES_MAX)?,
            "flows" => p.flows = whole(key, value, 1, FLOWS_MAX)? as usize,
            "write_bytes" => p.write = whole(key, value, 1, 64 << 20)? as usize,
            "mtu" => p.mtu = whole(key, value, 576, 65_535)? as u16,
            "limit_s" => p.limit = Duration::from_nanos((number(key, value, 0.001, 1e6)? * 1e9) as u64),
            _ if p.sysctl.get(key).is_some() => p.sysctl.set(key, value)?,
            _ => {
                let own: Vec<_> = NAMES.iter().map(|(name, ..)| *name).collect();
                return Err(format!(
                    "there is no parameter {key}; there are {}. As a sysctl: {}",
                    own.join(", "),
                    unknown_setting(key)
                ));
            }
        }
        Ok(())
    }

    /// All parameters, and the sysctls that differ from the defaults.
    pub(crate) fn report(&self) -> Value {
        let p = &self.bulk;
        let mut report = Map::new();
        let mut put = |key: &str, value: Value| report.insert(key.into(), value);
        put("rtt_ms", json!(p.rtt.as_secs_f64() * 1e3));
        put("rate_mbps", json!(p.rate as f64 / 1e6));
        put("loss_percent", json!(self.loss_percent()));
        put("queue_bytes", json!(p.queue_bytes));
        put("bytes", json!(p.bytes));
        put("flows", json!(p.flows));
        put("write_bytes", json!(p.write));
        put("mtu", json!(p.mtu));
        put("limit_s", json!(p.limit.as_secs_f64()));
        let defaults = Sysctl::default();
        for (name, _) in Sysctl::NAMES {
            let value = p.sysctl.get(name);
            if value != defaults.get(name) {
                put(name, json!(value));
            }
        }
        Value::Object(report)
    }
}

fn number(key: &str, value: &str, min: f64, max: f64) -> Result<f64, String> {
    let parsed: Option<f64> = value.parse().ok();
    parsed
        .filter(|v| (min..=max).contains(v))
        .ok_or_else(|| format!("{key}: '{value}' is not allowed; it takes a number from {min} to {max}"))
}

fn whole(key: &str, value: &str, min: u64, max: u64) -> Result<u64, String> {
    let parsed: Option<u64> = value.replace('_', "").parse().ok();
    parsed.filter(|v| (min..=max).contains(v)).ok_or_else(|| {
        format!("{key}: '{value}' is not allowed; it takes a whole number from {min} to {max}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_parameter_can_be_set_and_is_reported() {
        let mut params = Params::new(1, 0);
        for (name, ..) in NAMES {
            let before = params.report()[*name].to_string();
            params.set(name, before.trim_end_matches(".0")).expect("its own value");
            assert_eq!(params.report()[*name].to_string(), before);
        }
        params.set("tcp_sack", "0").expect("a sysctl");
        assert_eq!(params.report()["tcp_sack"], "0");
    }

    #[test]
    fn mistakes_are_answered_with_what_is_allowed() {
        let mut params = Params::new(1, 0);
        assert!(params.set("mtu", "5").unwrap_err().contains("576"));
        assert!(params.set("loss_percent", "nan").unwrap_err().contains("100"));
        assert!(params.set("los", "1").unwrap_err().contains("loss_percent"));
    }
}
