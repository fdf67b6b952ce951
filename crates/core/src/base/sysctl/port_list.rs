//! Ports that are kept for those who name them.
use super::value::{Range, Value};

/// A list of ports and ranges of ports, in ascending order (`ip_local_reserved_ports`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortList {
    ranges: Vec<(u16, u16)>,
}

impl PortList {
    /// The list in a text like `80,8000-8080`; an empty one in an empty text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let port = |text: &str| text.trim().parse::<u16>().ok();
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        let mut ranges: Vec<(u16, u16)> = words
            .map(|word| {
                let (low, high) = word.split_once('-').unwrap_or((word, word));
                let range = (port(low)?, port(high)?);
                (range.0 <= range.1).then_some(range)
            })
            .collect::<Option<_>>()?;
        ranges.sort_unstable();
        let mut merged: Vec<(u16, u16)> = Vec::new();
        for (low, high) in ranges {
            match merged.last_mut() {
                Some(last) if u32::from(low) <= u32::from(last.1) + 1 => last.1 = last.1.max(high),
                _ => merged.push((low, high)),
            }
        }
        Some(Self { ranges: merged })
    }

    /// True when `port` is in the list.
    #[must_use]
    pub fn contains(&self, port: u16) -> bool {
        let at = self.ranges.partition_point(|&(_, high)| high < port);
        self.ranges.get(at).is_some_and(|&(low, _)| low <= port)
    }
}

impl Value for PortList {
    fn parse(text: &str, _range: Range) -> Option<Self> {
        Self::parse(text)
    }
    fn print(&self) -> String {
        let word =
            |&(low, high): &(u16, u16)| if low == high { low.to_string() } else { format!("{low}-{high}") };
        self.ranges.iter().map(word).collect::<Vec<_>>().join(",")
    }
}
