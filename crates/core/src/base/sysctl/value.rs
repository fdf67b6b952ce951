//! How the values of settings are written, read and bounded.
use crate::base::fastopen_keys::FastOpenKeys;

/// How a sysctl's value is written and bounded.
pub(super) trait Value: Sized {
    /// The value of `text`, where it is one and each number in it lies within `range`.
    fn parse(text: &str, range: Range) -> Option<Self>;
    fn print(&self) -> String;
    /// What `text` makes of this value.
    fn with(&self, text: &str, range: Range) -> Option<Self> {
        Self::parse(text, range)
    }
}

/// The lowest and the highest number that a sysctl takes.
pub(super) type Range = Option<(i64, i64)>;

/// A number within `range`: decimal, or hexadecimal as people write bits (`0x70403`).
fn number(text: &str, range: Range) -> Option<i64> {
    let text = text.trim();
    let n = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    range.is_none_or(|(lo, hi)| (lo..=hi).contains(&n)).then_some(n)
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Value for $number {
            fn parse(text: &str, range: Range) -> Option<Self> {
                number(text, range)?.try_into().ok()
            }
            fn print(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

numbers!(u32, i32);

/// Linux keeps such a switch in a byte and takes what fits it; here it reads back as 0 or 1.
impl Value for bool {
    fn parse(text: &str, range: Range) -> Option<Self> {
        Some(number(text, range)? != 0)
    }
    fn print(&self) -> String {
        u32::from(*self).to_string()
    }
}

impl Value for Triple {
    fn parse(text: &str, range: Range) -> Option<Self> {
        let mut words = text.split_whitespace().map(|word| u32::parse(word, range));
        let triple = Self { min: words.next()??, default: words.next()??, max: words.next()?? };
        (words.next().is_none() && triple.min <= triple.max).then_some(triple)
    }
    /// What is not named stays (`proc_dointvec_minmax`).
    fn with(&self, text: &str, range: Range) -> Option<Self> {
        let words = text.split_whitespace().count();
        let stays = [self.min, self.default, self.max].into_iter().skip(words.max(1));
        let all = stays.fold(text.to_owned(), |all, number| format!("{all} {number}"));
        Self::parse(&all, range)
    }
    fn print(&self) -> String {
        format!("{} {} {}", self.min, self.default, self.max)
    }
}

impl Value for Option<FastOpenKeys> {
    /// Nothing stands for a key that the stack draws, where Linux tells zeros before the first use: zeros are a key
    /// (`proc_tcp_fastopen_key`).
    fn parse(text: &str, _range: Range) -> Option<Self> {
        if text.trim().is_empty() { Some(None) } else { FastOpenKeys::parse(text).map(Some) }
    }
    fn print(&self) -> String {
        self.map_or_else(String::new, |keys| keys.to_string())
    }
}

impl Value for (u16, u16) {
    fn parse(text: &str, range: Range) -> Option<Self> {
        let mut words = text.split_whitespace().map(|word| number(word, range)?.try_into().ok());
        let ports: Self = (words.next()??, words.next()??);
        (words.next().is_none() && ports.0 <= ports.1).then_some(ports)
    }
    fn print(&self) -> String {
        format!("{} {}", self.0, self.1)
    }
}

/// Three sizes in bytes: minimum, default, maximum (`tcp_rmem`, `tcp_wmem`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triple {
    /// Smallest size, kept even under memory pressure.
    pub min: u32,
    /// Size at the start.
    pub default: u32,
    /// Bound for autotuning.
    pub max: u32,
}
