//! The units of `tc`: rates, sizes, times and shares, read and printed without a fraction getting lost in between.

/// Reads "1.5" as 15 and 10.
fn decimal(text: &str) -> Option<(u64, u64)> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if (whole.is_empty() && part.is_empty()) || part.len() > 9 || whole.len() > 18 {
        return None;
    }
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    let scale = 10_u64.pow(part.len() as u32);
    let number = |s: &str| if s.is_empty() { Some(0) } else { s.parse::<u64>().ok() };
    Some((number(whole)?.checked_mul(scale)?.checked_add(number(part)?)?, scale))
}

fn split(text: &str) -> (&str, String) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].to_ascii_lowercase())
}

fn scaled(number: &str, unit: u64, per: u64) -> Option<u64> {
    let (n, scale) = decimal(number)?;
    u64::try_from(u128::from(n) * u128::from(unit) / (u128::from(scale) * u128::from(per))).ok()
}

/// Bytes per second: "48mbit", "6mbps" (bytes), "1gibit"; a bare number is bits.
#[must_use]
pub fn rate(text: &str) -> Option<u64> {
    let (number, unit) = split(text);
    let (unit, per) = match unit.strip_suffix("bit") {
        Some(unit) => (unit.to_owned(), 8),
        None if unit.is_empty() => (unit, 8),
        None => (unit.strip_suffix("bps")?.to_owned(), 1),
    };
    let unit = match unit.as_str() {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        "t" => 1_000_000_000_000,
        "ki" => 1 << 10,
        "mi" => 1 << 20,
        "gi" => 1 << 30,
        "ti" => 1 << 40,
        _ => return None,
    };
    scaled(number, unit, per)
}

/// Bytes: "3028", "3028b", "32kb", "1mb", "10kbit".
pub(super) fn size(text: &str) -> Option<u64> {
    let (number, unit) = split(text);
    let (unit, per) = match unit.as_str() {
        "" | "b" => (1, 1),
        "k" | "kb" => (1 << 10, 1),
        "m" | "mb" => (1 << 20, 1),
        "g" | "gb" => (1 << 30, 1),
        "kbit" => (1 << 10, 8),
        "mbit" => (1 << 20, 8),
        "gbit" => (1 << 30, 8),
        _ => return None,
    };
    scaled(number, unit, per)
}

/// Nanoseconds: "5ms", "100us", "1s"; a bare number is microseconds.
pub(super) fn time(text: &str) -> Option<u64> {
    let (number, unit) = split(text);
    let unit = match unit.as_str() {
        "s" | "sec" | "secs" => 1_000_000_000,
        "ms" | "msec" | "msecs" => 1_000_000,
        "" | "us" | "usec" | "usecs" => 1_000,
        "ns" | "nsec" | "nsecs" => 1,
        _ => return None,
    };
    scaled(number, unit, 1)
}

/// A share in 2^-32: "1.5%"; a bare number is per cent too.
pub(super) fn share(text: &str) -> Option<u32> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let (n, scale) = decimal(number)?;
    let (n, scale) = (u128::from(n), u128::from(scale));
    (n <= 100 * scale).then(|| ((n * u128::from(u32::MAX) + 50 * scale) / (100 * scale)) as u32)
}

/// As `tc` prints a rate given in bytes per second.
pub(super) fn rate_text(bytes: u64) -> String {
    let mut bits = u128::from(bytes) * 8;
    let mut units = ["", "K", "M", "G", "T"].into_iter();
    let mut unit = units.next().unwrap_or("");
    while bits >= 1_000 && (bits % 1_000 == 0 || bits >= 1_000_000) {
        let Some(next) = units.next() else { break };
        (bits, unit) = (bits / 1_000, next);
    }
    format!("{bits}{unit}bit")
}

/// As `tc` prints a size.
pub(super) fn size_text(bytes: u64) -> String {
    match bytes {
        0 => "0b".into(),
        n if n % (1 << 20) == 0 => format!("{}Mb", n >> 20),
        n if n % (1 << 10) == 0 => format!("{}Kb", n >> 10),
        n => format!("{n}b"),
    }
}

/// As `tc` prints a time: three digits and a unit.
pub(super) fn time_text(ns: u64) -> String {
    let (unit, name) = match ns {
        1_000_000_000.. => (1_000_000_000, "s"),
        1_000_000.. => (1_000_000, "ms"),
        1_000.. => (1_000, "us"),
        _ => (1, "ns"),
    };
    fraction(ns, unit) + name
}

/// Per cent.
pub(super) fn share_text(share: u32) -> String {
    let hundredths_of_thousandths = (u64::from(share) * 10_000_000 + (1 << 31)) >> 32;
    fraction(hundredths_of_thousandths.div_ceil(10) * 10, 100_000) + "%"
}

/// `n / unit` with at most three digits behind the point.
fn fraction(n: u64, unit: u64) -> String {
    let thousandths = (u128::from(n) * 1_000 / u128::from(unit)) as u64;
    let text = format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_tc() {
        assert_eq!(
            [rate("48mbit"), rate("6mbps"), rate("8"), rate("1.5Gbit")],
            [Some(6_000_000), Some(6_000_000), Some(1), Some(187_500_000)]
        );
        assert_eq!(
            [rate("8kibit"), rate("mbit"), rate("1foo"), rate("1.2.3mbit"), rate("-1")],
            [Some(1_024), None, None, None, None]
        );
        assert_eq!(
            [size("3028"), size("3028b"), size("32kb"), size("1m"), size("16kbit"), size("1x")],
            [Some(3_028), Some(3_028), Some(32_768), Some(1 << 20), Some(2_048), None]
        );
        assert_eq!(
            [time("5ms"), time("100"), time("1s"), time("1.5us"), time("7ns"), time("1h")],
            [Some(5_000_000), Some(100_000), Some(1_000_000_000), Some(1_500), Some(7), None]
        );
        assert_eq!(
            [share("100%"), share("0"), share("50%"), share("101%"), share("x")],
            [Some(u32::MAX), Some(0), Some(0x8000_0000), None, None]
        );
    }

    #[test]
    fn what_is_printed_is_what_tc_prints() {
        assert_eq!(
            [rate_text(68_750), rate_text(6_000_000), rate_text(187_500_000), rate_text(1)],
            ["550Kbit", "48Mbit", "1500Mbit", "8bit"]
        );
        assert_eq!(
            [size_text(3_028), size_text(32 << 20), size_text(4_096), size_text(0)],
            ["3028b", "32Mb", "4Kb", "0b"]
        );
        assert_eq!(
            [time_text(5_000_000), time_text(10_000_000_000), time_text(12_345), time_text(999)],
            ["5ms", "10s", "12.345us", "999ns"]
        );
        for text in ["1%", "0.5%", "12.5%", "33.333%", "100%", "0%"] {
            assert_eq!(share_text(share(text).expect("a share")), text);
        }
    }
}
