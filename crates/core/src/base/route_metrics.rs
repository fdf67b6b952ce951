//! What a route says of itself, and asks of the connections that take it, by the words of `ip route` (`RTAX_*`, `dst_metric`).
use super::sysctl::CongestionKind;
use core::str::FromStr;

/// Least MTU of a route.
const MIN_MTU: u16 = 68;

/// Settings of a route. Zero and off leave it to the stack's and the socket's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteMetrics {
    /// `mtu`: in bytes of IP packet, below the device's.
    pub mtu: u16,
    /// `initcwnd`: the congestion window that a connection begins with, in segments (`tcp_init_cwnd`).
    pub initcwnd: u32,
    /// `initrwnd`: most that the first receive window offers, in segments (`tcp_select_initial_window`).
    pub initrwnd: u32,
    /// `advmss`: the MSS that we announce, in bytes (`tcp_advertise_mss`).
    pub advmss: u16,
    /// `window`: bound for the receive window of sockets without TCP_WINDOW_CLAMP, in bytes.
    pub window: u32,
    /// `rto_min`: smallest retransmission timeout, in microseconds; counts for more than TCP_RTO_MIN_US (`tcp_rto_min`).
    pub rto_min_us: u32,
    /// `quickack`: every segment is acknowledged at once (`tcp_in_quickack_mode`).
    pub quickack: bool,
    /// `congctl`: the controller that connections begin with (`tcp_ca_dst_init`).
    pub congestion: Option<CongestionKind>,
    /// `features ecn`: ECN is asked for and granted whatever tcp_ecn says (`tcp_ecn_send_syn`, `tcp_ecn_create_request`).
    pub ecn: bool,
    /// `fastopen_no_cookie`: Fast Open without cookies, in both roles (`tcp_fastopen_no_cookie`).
    pub fastopen_no_cookie: bool,
    /// `hoplimit`: TTL or hop limit of sockets that have none of their own (`ip4_dst_hoplimit`).
    pub hoplimit: u8,
}

impl Default for RouteMetrics {
    fn default() -> Self {
        Self::NONE
    }
}

impl RouteMetrics {
    /// A route that asks for nothing.
    pub const NONE: Self = Self {
        mtu: 0,
        initcwnd: 0,
        initrwnd: 0,
        advmss: 0,
        window: 0,
        rto_min_us: 0,
        quickack: false,
        congestion: None,
        ecn: false,
        fastopen_no_cookie: false,
        hoplimit: 0,
    };

    /// The words that there are.
    pub const WORDS: [&'static str; 11] = [
        "mtu",
        "initcwnd",
        "initrwnd",
        "advmss",
        "window",
        "rto_min",
        "quickack",
        "congctl",
        "features",
        "fastopen_no_cookie",
        "hoplimit",
    ];

    fn set(&mut self, word: &str, value: &str) -> Result<(), String> {
        match word {
            "mtu" => match number(word, value)? {
                mtu @ MIN_MTU.. => self.mtu = mtu,
                mtu => return Err(format!("mtu: {mtu} is less than the {MIN_MTU} of IPv4 (RFC 791)")),
            },
            "initcwnd" => self.initcwnd = number(word, value)?,
            "initrwnd" => self.initrwnd = number(word, value)?,
            "advmss" => self.advmss = number(word, value)?,
            "window" => self.window = number(word, value)?,
            "hoplimit" => self.hoplimit = number(word, value)?,
            "rto_min" => self.rto_min_us = micros(value)?,
            "quickack" => self.quickack = switch(word, value)?,
            "fastopen_no_cookie" => self.fastopen_no_cookie = switch(word, value)?,
            "features" if value == "ecn" => self.ecn = true,
            "features" => return Err(format!("features: there is 'ecn', not '{value}'")),
            "congctl" => {
                let known = CongestionKind::ALL.into_iter().find(|kind| kind.name() == value);
                self.congestion =
                    Some(known.ok_or_else(|| format!("congctl: no controller is called '{value}'"))?);
            }
            _ => return Err(unknown(word)),
        }
        Ok(())
    }

    /// Sets what these words say and leaves the rest: those of `ip route add`, each with its value, "initcwnd 20 rto_min 50ms". `lock`
    /// between them changes nothing, and is refused for the MTU, which routers may lower.
    ///
    /// # Errors
    /// What is wrong with which word; those before it have been set.
    pub fn apply(&mut self, text: &str) -> Result<(), String> {
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            if !Self::WORDS.contains(&word) {
                return Err(unknown(word));
            }
            let value = match words.next() {
                Some("lock") if word == "mtu" => return Err("mtu lock: routers may lower any MTU".to_owned()),
                Some("lock") => words.next(),
                value => value,
            };
            self.set(word, value.ok_or_else(|| format!("{word} of a route wants a value"))?)?;
        }
        Ok(())
    }
}

/// The words of [`RouteMetrics::apply`].
impl FromStr for RouteMetrics {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut metrics = Self::NONE;
        metrics.apply(text)?;
        Ok(metrics)
    }
}

fn unknown(word: &str) -> String {
    format!("a route has no '{word}' here; there are {}", RouteMetrics::WORDS.join(", "))
}

fn switch(word: &str, value: &str) -> Result<bool, String> {
    match value {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(format!("{word}: '{value}' is neither 0 nor 1")),
    }
}

fn number<T: FromStr>(word: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{word}: '{value}' is no number that fits"))
}

/// A time as `ip route` has it: milliseconds, or with `s`, `ms` or `us` behind it.
fn micros(value: &str) -> Result<u32, String> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let wrong = || format!("rto_min: '{value}' is no whole number of s, ms or us, such as 50ms");
    let scale = match &value[digits.len()..] {
        "us" => 1,
        "" | "ms" => 1_000,
        "s" => 1_000_000,
        _ => return Err(wrong()),
    };
    let n: u32 = digits.parse().map_err(|_| wrong())?;
    n.checked_mul(scale).ok_or_else(|| format!("rto_min: '{value}' is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_of_ip_route_sets_one_thing() {
        let mut set = RouteMetrics::default();
        let words = [
            ("mtu", "1400"),
            ("initcwnd", "20"),
            ("initrwnd", "4"),
            ("advmss", "1000"),
            ("window", "5000"),
            ("rto_min", "50ms"),
            ("quickack", "1"),
            ("congctl", "reno"),
            ("features", "ecn"),
            ("fastopen_no_cookie", "1"),
            ("hoplimit", "9"),
        ];
        assert_eq!(words.map(|(word, _)| word), RouteMetrics::WORDS);
        for (word, value) in words {
            let before = set;
            set.set(word, value).expect(word);
            assert_ne!(set, before, "{word}");
        }
        let expected = RouteMetrics {
            mtu: 1_400,
            initcwnd: 20,
            initrwnd: 4,
            advmss: 1_000,
            window: 5_000,
            rto_min_us: 50_000,
            quickack: true,
            congestion: Some(CongestionKind::Reno),
            ecn: true,
            fastopen_no_cookie: true,
            hoplimit: 9,
        };
        assert_eq!(set, expected);
    }

    #[test]
    fn what_cannot_be_is_told() {
        let told = |word, value| RouteMetrics::default().set(word, value).unwrap_err();
        assert!(told("initcwnd", "many").contains("'many' is no number"));
        assert!(told("hoplimit", "256").contains("'256' is no number that fits"));
        assert!(told("rto_min", "5 parsecs").contains("'5 parsecs' is no whole number of s, ms or us"));
        assert!(told("rto_min", "5000s").contains("too long"));
        assert!(told("congctl", "vegas").contains("'vegas'"));
        assert!(told("features", "sack").contains("'ecn'"));
        assert!(told("rto_min", "0.05s").contains("'0.05s' is no whole number"));
        assert!(told("quickack", "7").contains("neither 0 nor 1"));
        assert!(told("mtu", "20").contains("20 is less than the 68"));
        assert!(told("realm", "1").contains("there are mtu, initcwnd"));
    }

    #[test]
    fn words_follow_each_other() {
        let set = "initcwnd 20 congctl lock reno rto_min 2s".parse::<RouteMetrics>();
        let expected = RouteMetrics {
            initcwnd: 20,
            congestion: Some(CongestionKind::Reno),
            rto_min_us: 2_000_000,
            ..RouteMetrics::NONE
        };
        assert_eq!((set, "".parse()), (Ok(expected), Ok(RouteMetrics::NONE)));
        let told = |words: &str| words.parse::<RouteMetrics>().unwrap_err();
        assert!(told("mtu lock 1400").contains("routers may lower"));
        assert!(told("quickack 1 initcwnd").contains("initcwnd of a route wants a value"));
        assert!(
            told("initcwnd=20").contains("no 'initcwnd=20' here")
                && told("rto_min 50 ms").contains("no 'ms' here")
        );
        let mut metrics = expected;
        assert_eq!(metrics.apply("initcwnd 30 quickack 1"), Ok(()));
        assert_eq!(metrics, RouteMetrics { initcwnd: 30, quickack: true, ..expected });
    }
}
