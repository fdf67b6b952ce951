//! Rates on the command line. An option of ours takes none without a unit; words of tc mean what they mean to tc, where a bare number is
//! bit/s, and a rate that looks as if it lacked its unit is told.
use lowwater_core::qdisc::units;
use std::fmt::Write as _;

/// Bytes per second of an option's value.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    let is_number = text.parse::<f64>().is_ok_and(|n| n.is_finite() && n > 0.0);
    if is_number && !text.ends_with('.') {
        return Err(format!(
            "'{text}' lacks its unit: did you mean {text}mbit? ({text} bit/s would be {text}bit)"
        ));
    }
    units::rate(text).filter(|rate| *rate > 0).ok_or_else(|| {
        format!(
            "'{text}' is no rate: it takes a number above 0 with a unit, as 20mbit, 1.5gbit or 2mbps (bytes)"
        )
    })
}

/// Least rate that is not suspected to lack its unit.
const SLOWEST_BPS: u64 = 8_000;

/// What was understood of rates in the words of tc that look as if they lacked their unit; `key` is what the words are for.
pub(crate) fn slow(key: &str, value: &str) -> Option<String> {
    let words: Vec<_> = value.split([' ', ';']).collect();
    let slow = words.windows(2).filter(|pair| pair[0].ends_with("rate")).filter_map(|pair| {
        let bps = bits_per_second(pair[1]).filter(|bps| (1..SLOWEST_BPS).contains(bps))?;
        Some((pair.join(" "), bps))
    });
    let mut said = String::new();
    for (words, bps) in slow {
        let _ = write!(said, "{}{words} is {bps} bit/s", if said.is_empty() { "" } else { ", " });
    }
    (!said.is_empty()).then(|| {
        format!("{key}: {said}: a rate without a unit is in bit/s, and kbit, mbit and gbit say more")
    })
}

/// Bytes per second that disciplines in tc's words let pass, all flows together; `None` where they hold nothing back.
pub(crate) fn shaped(words: &str) -> Option<u64> {
    let words: Vec<_> = words.split_whitespace().collect();
    let rates = words.windows(2).filter(|pair| pair[0] == "rate").filter_map(|pair| units::rate(pair[1]));
    rates.filter(|rate| *rate > 0).min()
}

/// A rate in tc's words, as far as it may be a slow one.
fn bits_per_second(word: &str) -> Option<u64> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    match word[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "bit" => Some(number),
        "bps" => number.checked_mul(8),
        "kbit" => number.checked_mul(1_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_its_unit_and_is_never_nothing() {
        assert_eq!((rate("20mbit"), rate("2mbps"), rate("8kbit")), (Ok(2_500_000), Ok(2_000_000), Ok(1_000)));
        for wrong in ["0", "0mbit", "1bit", "fast", "-1mbit", ""] {
            assert!(rate(wrong).is_err_and(|why| why.contains("20mbit")), "{wrong}");
        }
        for bare in ["20", "8000", "1.5"] {
            assert!(
                rate(bare).is_err_and(|why| why.contains(&format!("did you mean {bare}mbit?"))),
                "{bare}"
            );
        }
    }

    #[test]
    fn rates_without_a_unit_are_told() {
        let of = |value: &str| slow("qdisc", value).unwrap_or_default();
        assert!(of("fq maxrate 48").contains("maxrate 48 is 48 bit/s"));
        assert!(of("fq;tbf rate 900bps burst 5kb latency 5ms").contains("rate 900bps is 7200 bit/s"));
        for fine in ["fq maxrate 48mbit", "tbf rate 8kbit burst 5kb latency 5ms", "fq maxrate 0", "none"] {
            assert_eq!(of(fine), "", "{fine}");
        }
    }
}
