//! Queueing disciplines and lines of the lab in the guest: Linux counts Ethernet's 14 bytes of each frame, the lab IP's alone.
use crate::hosts::Host;
use lowwater_core::qdisc::Any;

/// No discipline of its own.
const NONE: &str = "none";
/// Bytes of Ethernet's header.
const ETHERNET: f64 = 14.0;
/// The bucket of a line: the largest super-packet passes whole, with the headers of all its segments.
const BUCKET: u32 = 69_000;
/// What stands for a queue without an end.
const ENDLESS: u32 = 100_000_000;
/// Rate in Mbit/s from which on a line of the lab is none that anybody waits for.
const FAST_MBPS: f64 = 40_000.0;
/// Options of these disciplines that are rates or bytes on the wire.
const SCALED: [(&str, &[&str]); 4] = [
    ("tbf", &["rate", "peakrate", "burst", "buffer", "maxburst", "limit", "mtu", "minburst"]),
    ("netem", &["rate"]),
    ("fq", &["maxrate", "low_rate_threshold"]),
    ("bfifo", &["limit"]),
];

/// Bits per second of the usual units.
const UNITS: [(&str, f64); 5] = [("bit", 1.0), ("", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];

/// What stands before a device, the outermost discipline first, in `tc`'s words.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Shape(Vec<String>);

impl Shape {
    /// The discipline in these words of the lab, on links of this MTU.
    pub(crate) fn discipline(words: &str, mtu: f64) -> Result<Self, String> {
        if words == NONE {
            return Ok(Self::default());
        }
        words.parse::<Any>()?;
        let all: Vec<&str> = words.split(" child ").collect();
        let mut shape = Vec::new();
        for (depth, words) in all.iter().enumerate() {
            let name = words.split_whitespace().next().unwrap_or_default();
            match name {
                "mq" => return Err("mq: a device of the guest has one queue".to_owned()),
                "noqueue" if depth > 0 => return Err("noqueue: Linux has none inside of another".to_owned()),
                _ => {}
            }
            let mut words = scaled(name, words, (mtu + ETHERNET) / mtu);
            let bounded = words.contains(" limit ") || words.contains(" latency ");
            if name == "tbf" && !bounded && depth + 1 < all.len() {
                words = format!("{words} limit {ENDLESS}");
            }
            shape.push(words);
        }
        Ok(Self(shape))
    }

    /// A line of so many Mbit/s with a queue of so many bytes (0: without an end), on links of this MTU; nothing where nobody waits for it.
    pub(crate) fn line(mbps: f64, queue_bytes: f64, mtu: f64) -> Self {
        if mbps <= 0.0 || mbps >= FAST_MBPS {
            return Self::default();
        }
        let wire = (mtu + ETHERNET) / mtu;
        let rate = (mbps * 1e6 * wire).round();
        let queue = if queue_bytes == 0.0 { f64::from(ENDLESS) } else { (queue_bytes * wire).round() };
        Self(vec![format!("tbf rate {rate}bit burst {BUCKET} limit {queue}")])
    }

    /// `inner` inside of it.
    pub(crate) fn around(mut self, inner: Self) -> Self {
        self.0.extend(inner.0);
        self
    }

    /// Mbit/s that pass it at the most, as far as buckets and emulated lines say.
    pub(crate) fn mbps(&self) -> f64 {
        let of = |words: &String| {
            let mut all = words.split_whitespace();
            let shapes = all.next().is_some_and(|name| name == "tbf" || name == "netem");
            let rate = all.skip_while(|word| *word != "rate").nth(1).filter(|_| shapes)?;
            let end = rate.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(rate.len());
            let (number, unit) = rate.split_at(end);
            let per = UNITS.iter().find(|(name, _)| *name == unit).map_or(f64::INFINITY, |(_, bits)| *bits);
            number.parse::<f64>().ok().map(|number| number * per / 1e6)
        };
        self.0.iter().filter_map(of).fold(f64::INFINITY, f64::min)
    }

    /// Puts it before a device of the host.
    pub(crate) fn put(&self, host: &Host, device: &str) -> Result<(), String> {
        for (depth, words) in self.0.iter().enumerate() {
            let place = if depth == 0 { "root".to_owned() } else { format!("parent {depth}:1") };
            // A discipline that cannot be told by a number has none.
            let handle =
                if words.starts_with("noqueue") { String::new() } else { format!("handle {}:", depth + 1) };
            host.command(&format!("tc qdisc replace dev {device} {place} {handle} {words}"))?;
        }
        Ok(())
    }
}

/// The words of one discipline with what counts frames made larger by so many times.
fn scaled(name: &str, words: &str, times: f64) -> String {
    let keys = SCALED.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, keys)| keys);
    let mut scale = false;
    let out: Vec<String> = words
        .split_whitespace()
        .map(|word| {
            let was = core::mem::replace(&mut scale, keys.contains(&word));
            if was { larger(word, times) } else { word.to_owned() }
        })
        .collect();
    out.join(" ")
}

/// A number with its unit, so many times as large.
fn larger(word: &str, times: f64) -> String {
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let (number, unit) = word.split_at(end);
    match number.parse::<f64>() {
        Ok(number) if unit.is_empty() => format!("{}", (number * times).round()),
        Ok(number) => format!("{:.6}{unit}", number * times),
        Err(_) => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_frames_is_larger_by_ethernets_header() {
        let of = |words: &str| Shape::discipline(words, 1_500.0).map(|shape| shape.0);
        assert_eq!(of("none"), Ok(vec![]));
        assert_eq!(of("pfifo limit 1000"), Ok(vec!["pfifo limit 1000".to_owned()]));
        assert_eq!(
            of("tbf rate 150mbit burst 15000 limit 3000 child fq maxrate 1500kbit limit 7"),
            Ok(vec![
                "tbf rate 151.400000mbit burst 15140 limit 3028".to_owned(),
                "fq maxrate 1514.000000kbit limit 7".to_owned()
            ])
        );
        assert_eq!(
            of("tbf rate 150mbit burst 15000 child pfifo").expect("as here")[0],
            "tbf rate 151.400000mbit burst 15140 limit 100000000"
        );
        assert!(of("mq").is_err_and(|why| why.starts_with("mq: ")));
        assert!(of("fq_code").is_err_and(|why| why.contains("fq_code")));
    }

    #[test]
    fn a_line_is_a_bucket_and_a_fast_one_is_none() {
        let line = |mbps, queue| Shape::line(mbps, queue, 1_500.0).0;
        assert_eq!(line(15.0, 1_500.0), ["tbf rate 15140000bit burst 69000 limit 1514"]);
        assert_eq!(line(15.0, 0.0), ["tbf rate 15140000bit burst 69000 limit 100000000"]);
        assert!(line(0.0, 5.0).is_empty() && line(40_000.0, 5.0).is_empty());
        let shape = |words| Shape::discipline(words, 1_500.0).expect("as here");
        let mbps = Shape::line(15.0, 0.0, 1_500.0).around(shape("netem rate 1gbit")).mbps();
        assert!((mbps - 15.14).abs() < 0.01 && shape("fq maxrate 1mbit").mbps() == f64::INFINITY);
    }
}
