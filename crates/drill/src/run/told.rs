//! What TCP_INFO and SO_MEMINFO said after each line of a script, and how two runs of it differ there.
use super::info;
use core::fmt::Write as _;
use std::collections::{BTreeMap, VecDeque};

/// In place of a descriptor: the connection that nobody has accepted.
pub(super) const NOBODYS: i64 = -1;
/// A line of a script that begins so names fields and counters that are not compared, and after a colon why.
const UNLIKE: &str = "// unlike the kernel in ";
/// Times that a real clock makes different, with microseconds per unit.
const TIMES: &[(&str, i128)] = &[
    ("rto", 1),
    ("ato", 1),
    ("rtt", 1),
    ("rttvar", 1),
    ("rcv_rtt", 1),
    ("min_rtt", 1),
    ("busy_time", 1),
    ("rwnd_limited", 1),
    ("sndbuf_limited", 1),
    ("last_data_sent", 1_000),
    ("last_data_recv", 1_000),
    ("last_ack_recv", 1_000),
    ("total_rto_time", 1_000),
];
/// Times that count from the beginning of the clock, which is long ago, while nothing has happened.
const SINCE: [&str; 3] = ["last_data_sent", "last_data_recv", "last_ack_recv"];
const LONG_MS: i128 = 5_000;
/// Newer than Linux 6.18.
const NEVER_COMPARED: [&str; 1] = ["ecn_mode"];
/// Of SO_MEMINFO; the others are what a device and the kernel's allocator hold at the moment.
const MEMORY: [&str; 4] = ["SK_MEMINFO_RMEM_ALLOC", "SK_MEMINFO_RCVBUF", SNDBUF, "SK_MEMINFO_WMEM_QUEUED"];
const SNDBUF: &str = "SK_MEMINFO_SNDBUF";
/// What each element of the send queue costs beside its payload (`SKB_TRUESIZE`).
const ELEMENT_OVERHEAD: i128 = 256;
/// What two times may be apart, in microseconds, and the share of them that comes on top.
const APART_US: i128 = 12_000;
const APART_SHARE: i128 = 8;
/// Rates follow from a round trip, which is known this well; below this, in microseconds, nothing can be said.
const RATES: [&str; 2] = ["pacing_rate", "delivery_rate"];
/// Goes with the sample that delivery_rate came from; of two samples at nearly one rate, microseconds decide which that is.
const OF_SAMPLE: &str = "delivery_rate_app_limited";
const RATE_SHARE: i128 = 4;
const ROUND_TRIP_MIN: i128 = 30_000;

/// TCP_INFO and SO_MEMINFO of one socket, after a line.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) line: usize,
    /// The script's number for the descriptor.
    pub(super) fd: i64,
    /// Microseconds since the script began.
    pub(super) at: u64,
    pub(super) info: Vec<u8>,
    /// Empty before a program has the socket.
    pub(super) memory: Vec<u8>,
}

/// Fields of TCP_INFO and of SO_MEMINFO, and counters, in which a script says why the stack is not like the kernel.
pub(super) fn unlike(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix(UNLIKE)?.split_once(':'))
        .flat_map(|(names, _)| names.split(',').map(str::trim))
        .collect()
}

/// Lines that name what differs, `-` only in `a` and `+` only in `b`. Empty when nothing does.
pub(super) fn differences(a: &[Told], b: &[Told], text: &str) -> Vec<String> {
    differences_in(a, b, text, |_| true)
}

/// The first line after which a field differs.
pub(super) fn first(a: &[Told], b: &[Told], text: &str) -> Option<usize> {
    let unlike = unlike(text);
    let differs = |x, y| fields(x, y, |name| !unlike.contains(&name)).is_some();
    pairs(a, b, |told| (told.line, told.fd)).filter(|(x, y)| differs(x, y)).map(|(x, _)| x.line).min()
}

/// As [`differences`], without the fields that a clock decides.
pub(super) fn differences_beyond_time(a: &[Told], b: &[Told], text: &str) -> Vec<String> {
    let timed = |name: &str| TIMES.iter().any(|(time, _)| *time == name);
    differences_in(a, b, text, |name| !(timed(name) || RATES.contains(&name) || name == OF_SAMPLE))
}

fn differences_in(a: &[Told], b: &[Told], text: &str, asked: impl Fn(&str) -> bool) -> Vec<String> {
    let unlike = unlike(text);
    let mut out = Vec::new();
    for (x, y) in pairs(a, b, |told| (told.line, told.fd)) {
        let Some((mine, theirs)) = fields(x, y, |name| asked(name) && !unlike.contains(&name)) else {
            continue;
        };
        let source = text.lines().nth(x.line.saturating_sub(1)).unwrap_or_default().trim();
        let socket = if x.fd == NOBODYS { "not accepted".to_owned() } else { format!("descriptor {}", x.fd) };
        out.push(format!("  TCP_INFO and SO_MEMINFO after line {}: {source}", x.line));
        out.push(format!("- {socket}:{mine}"));
        out.push(format!("+ {socket}:{theirs}"));
    }
    out
}

/// What two runs noted of the same thing: the first with the first of a line, and so on, since several events may stand in one. What only one
/// has is left out: a call that blocks, or does not any more, is seen a moment later by one of them.
pub(super) fn pairs<'n, T, K: Ord>(
    a: &'n [T],
    b: &'n [T],
    key: impl Fn(&T) -> K,
) -> impl Iterator<Item = (&'n T, &'n T)> {
    let mut left: BTreeMap<K, VecDeque<&T>> = BTreeMap::new();
    b.iter().for_each(|y| left.entry(key(y)).or_default().push_back(y));
    a.iter().filter_map(move |x| left.get_mut(&key(x))?.pop_front().map(|y| (x, y)))
}

/// The fields in which two differ, of those that are asked for.
fn fields(a: &Told, b: &Told, asked: impl Fn(&str) -> bool) -> Option<(String, String)> {
    let (mut mine, mut theirs) = (String::new(), String::new());
    let mut tell = |name: &str, x: i128, y: i128| {
        let _ = write!(mine, " {name} {x}");
        let _ = write!(theirs, " {name} {y}");
    };
    for name in info::tcp_names() {
        let value = |told: &Told| info::field(&told.info, &format!("tcpi_{name}"));
        let ever = |told: &Told, v: i128| {
            let long = SINCE.contains(&name) && v > i128::from(told.at) / 1_000 + LONG_MS;
            if long { i128::from(u32::MAX) } else { v }
        };
        let (Some(x), Some(y)) = (value(a).map(|v| ever(a, v)), value(b).map(|v| ever(b, v))) else {
            continue;
        };
        let rtt = info::field(&a.info, "tcpi_rtt").unwrap_or_default();
        if NEVER_COMPARED.contains(&name) || !asked(name) || alike(name, x, y, rtt) {
            continue;
        }
        tell(name, x, y);
    }
    for name in MEMORY.into_iter().filter(|name| asked(name)) {
        let value = |told: &Told| info::memory(&told.memory, name);
        let differs = value(a).zip(value(b)).filter(|(x, y)| x != y && !grown_by_headers(name, *x, *y));
        differs.into_iter().for_each(|(x, y)| tell(name, x, y));
    }
    (!mine.is_empty()).then_some((mine, theirs))
}

/// A send buffer that tunes itself grows by segments, and what one is reckoned at is a power of two with an element's overhead on top: the
/// kernel's configuration (`MAX_TCP_HEADER`) decides which of two.
fn grown_by_headers(name: &str, x: i128, y: i128) -> bool {
    let (less, more) = (x.min(y), x.max(y));
    let segments = |bytes: i128, payload: i128| {
        let per_mss = payload + ELEMENT_OVERHEAD;
        (bytes % per_mss == 0).then_some(bytes / per_mss)
    };
    name == SNDBUF
        && (8..=16).any(|bits| {
            let least = segments(less, 1 << bits);
            least.is_some() && least == segments(more, 2 << bits)
        })
}

/// As far as a real clock can tell.
fn alike(name: &str, x: i128, y: i128, rtt: i128) -> bool {
    if let Some((_, unit)) = TIMES.iter().find(|(time, _)| *time == name) {
        // What is unknown is not nearly known.
        let unknown = i128::from(u32::MAX);
        return (x == unknown) == (y == unknown)
            && (x - y).abs() * unit <= APART_US + x.max(y) * unit / APART_SHARE;
    }
    if RATES.contains(&name) {
        return (x == 0) == (y == 0) && (rtt < ROUND_TRIP_MIN || (x - y).abs() <= x.max(y) / RATE_SHARE);
    }
    x == y
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: usize, at: usize, value: u8) -> Told {
        let mut info = vec![0; 280];
        info[at] = value;
        Told { line, fd: 3, at: 0, info, memory: Vec::new() }
    }

    #[test]
    fn a_field_that_differs_is_named_unless_the_script_says_why() {
        let (a, b) = ([told(2, 80, 10)], [told(2, 80, 11)]);
        let text = "one\ntwo\n";
        assert_eq!(
            differences(&a, &b, text),
            [
                "  TCP_INFO and SO_MEMINFO after line 2: two",
                "- descriptor 3: snd_cwnd 10",
                "+ descriptor 3: snd_cwnd 11"
            ]
        );
        assert!(differences(&a, &[told(2, 80, 10)], text).is_empty());
        let excused = "one\n// unlike the kernel in rtt, snd_cwnd: because\n";
        assert!(differences(&a, &b, excused).is_empty());
        assert_eq!(differences(&a, &b, "// unlike the kernel in rtt: because\n").len(), 3);
    }

    #[test]
    fn what_a_clock_decides_is_told_apart_from_the_rest() {
        let differ = |at| {
            let (a, b) = ([told(1, at, 0x80)], [told(1, at, 0)]);
            (differences(&a, &b, "one\n").len(), differences_beyond_time(&a, &b, "one\n").len())
        };
        let (cwnd, of_the_sample, rtt_in_its_third_byte) = (80, 7, 70);
        assert_eq!((differ(cwnd), differ(rtt_in_its_third_byte)), ((3, 3), (3, 0)));
        let (a, b) = ([told(1, of_the_sample, 1)], [told(1, of_the_sample, 0)]);
        assert_eq!(differences(&a, &b, "one\n").len(), 3);
        assert!(differences_beyond_time(&a, &b, "one\n").is_empty());
    }

    #[test]
    fn times_and_rates_may_be_a_little_apart_and_the_unknown_is_not_the_known() {
        assert!(alike("rtt", 100_000, 110_000, 0) && !alike("rtt", 100_000, 130_000, 0));
        assert!(alike("last_ack_recv", 100, 110, 0) && !alike("last_ack_recv", 100, 130, 0));
        assert!(!alike("min_rtt", i128::from(u32::MAX), 10, 0));
        assert!(alike("pacing_rate", 100, 120, 50_000) && !alike("pacing_rate", 100, 150, 50_000));
        assert!(alike("pacing_rate", 100, 150, 1_000) && !alike("pacing_rate", 0, 150, 1_000));
        assert!(!alike("segs_in", 1, 2, 0));
    }

    #[test]
    fn memory_that_differs_is_named_where_both_could_be_asked() {
        let queued = |bytes: u8| {
            let mut told = told(1, 0, 0);
            told.memory = vec![0; 36];
            told.memory[20] = bytes;
            [told]
        };
        let lines = differences(&queued(1), &queued(2), "one\n");
        assert_eq!(
            lines[1..],
            ["- descriptor 3: SK_MEMINFO_WMEM_QUEUED 1", "+ descriptor 3: SK_MEMINFO_WMEM_QUEUED 2"]
        );
        assert!(differences(&queued(1), &[told(1, 0, 0)], "one\n").is_empty());
        assert!(
            differences(&queued(1), &queued(2), "// unlike the kernel in SK_MEMINFO_WMEM_QUEUED: so\n")
                .is_empty()
        );
    }

    #[test]
    fn a_send_buffer_may_have_grown_by_larger_headers() {
        assert!(grown_by_headers(SNDBUF, 87_040, 46_080) && grown_by_headers(SNDBUF, 46_080, 87_040));
        assert!(
            !grown_by_headers(SNDBUF, 87_040, 48_384)
                && !grown_by_headers("SK_MEMINFO_RCVBUF", 87_040, 46_080)
        );
    }

    #[test]
    fn events_of_one_line_are_compared_in_their_order() {
        let run = |second: u8| [told(2, 80, 10), told(2, 80, second), told(3, 80, 10)];
        assert!(differences(&run(11), &run(11), "one\ntwo\nthree\n").is_empty());
        assert_eq!(differences(&run(11), &run(12), "one\ntwo\nthree\n").len(), 3);
    }

    #[test]
    fn what_only_one_could_ask_is_left_out() {
        let (a, b) = ([told(1, 0, 1), told(2, 0, 1)], [told(2, 0, 7), told(3, 0, 1)]);
        assert_eq!(differences(&a, &b, "x\ny\nz\n").len(), 3);
    }
}
