//! TCP options in the order in which they stand, which the stack's own parser forgets.
use std::fmt;

/// Kind of TCP Fast Open's option (RFC 7413 section 4.1.1).
pub(crate) const FAST_OPEN: u8 = 34;
/// Kind of the experimental options that begin with a magic number (RFC 6994).
pub(crate) const EXPERIMENT: u8 = 254;
/// A signature by MD5 (RFC 2385).
pub(crate) const MD5: u8 = 19;
/// Kinds of accurate ECN's option: which of the three counters stands first (RFC 9768 section 3.2.3).
pub(crate) const ACCECN: [u8; 2] = [172, 174];
/// The magic number under which it was an experiment.
pub(crate) const ACCECN_MAGIC: [u8; 2] = [0xac, 0xce];
/// The numbers of an older experiment, of which each had one order (draft-ietf-tcpm-accurate-ecn).
pub(crate) const ACCECN_EXPERIMENTS: [[u8; 2]; 2] = [[0xac, 0xc0], [0xac, 0xc1]];
/// The number of an experiment by which a sender asks for a rate of acknowledgements (draft-gomez-tcpm-ack-rate-request).
pub(crate) const TARR_MAGIC: [u8; 2] = [0x00, 0xac];
/// Names of its counters in the order of the first kind; the second has them backwards.
pub(crate) const ACCECN_COUNTERS: [&str; 3] = ["e0b", "ceb", "e1b"];
/// The magic number under which Fast Open was an experiment.
pub(crate) const FAST_OPEN_MAGIC: [u8; 2] = [0xf9, 0x89];

/// One option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TcpOption {
    Eol,
    Nop,
    Mss(u16),
    Wscale(u8),
    /// Of the stack, whatever it says: `wscale *`.
    AnyWscale,
    SackOk,
    Sack(Vec<(u32, u32)>),
    Ts {
        val: u32,
        ecr: u32,
    },
    /// Of the stack, whatever it says: `TS val ... ecr 1`.
    AnyTs,
    /// Of the peer, with an echo as it stands on the wire: `TS val 1 ecr 7!`.
    WireTs {
        val: u32,
        ecr: u32,
    },
    Other(u8, Vec<u8>),
}

/// The bytes of `options`.
pub(crate) fn encode(options: &[TcpOption]) -> Vec<u8> {
    let mut out = Vec::new();
    for option in options {
        match option {
            TcpOption::Eol => out.push(0),
            TcpOption::Nop => out.push(1),
            TcpOption::Mss(mss) => {
                out.extend([2, 4]);
                out.extend(mss.to_be_bytes());
            }
            TcpOption::Wscale(shift) => out.extend([3, 3, *shift]),
            TcpOption::AnyWscale => out.extend([3, 3, 0]),
            TcpOption::SackOk => out.extend([4, 2]),
            TcpOption::Sack(blocks) => {
                out.extend([5, (2 + 8 * blocks.len()) as u8]);
                for (left, right) in blocks {
                    out.extend(left.to_be_bytes());
                    out.extend(right.to_be_bytes());
                }
            }
            TcpOption::AnyTs => out.extend([8, 10, 0, 0, 0, 0, 0, 0, 0, 0]),
            TcpOption::Ts { val, ecr } | TcpOption::WireTs { val, ecr } => {
                out.extend([8, 10]);
                out.extend(val.to_be_bytes());
                out.extend(ecr.to_be_bytes());
            }
            TcpOption::Other(kind, data) => {
                out.extend([*kind, (2 + data.len()) as u8]);
                out.extend(data);
            }
        }
    }
    out
}

/// The options in `bytes`, up to what cannot be read.
pub(crate) fn decode(mut bytes: &[u8]) -> Vec<TcpOption> {
    let word = |b: &[u8]| u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
    let mut list = Vec::new();
    while let [kind, rest @ ..] = bytes {
        if *kind < 2 {
            list.push(if *kind == 0 { TcpOption::Eol } else { TcpOption::Nop });
            bytes = rest;
            continue;
        }
        let Some((data, after)) = rest
            .first()
            .and_then(|len| bytes.split_at_checked(usize::from(*len)))
            .filter(|(d, _)| d.len() >= 2)
        else {
            return list;
        };
        bytes = after;
        list.push(match (*kind, &data[2..]) {
            (2, [a, b]) => TcpOption::Mss(u16::from_be_bytes([*a, *b])),
            (3, [shift]) => TcpOption::Wscale(*shift),
            (4, []) => TcpOption::SackOk,
            (5, blocks) if blocks.len().is_multiple_of(8) => {
                TcpOption::Sack(blocks.chunks(8).map(|b| (word(b), word(&b[4..]))).collect())
            }
            (8, ts) if ts.len() == 8 => TcpOption::Ts { val: word(ts), ecr: word(&ts[4..]) },
            (kind, data) => TcpOption::Other(kind, data.to_vec()),
        });
    }
    list
}

/// The first option that is not what `expected` asks for; neither values nor echoes of timestamps are compared, as in packetdrill (the runner has options for both).
pub(crate) fn difference(expected: &[TcpOption], actual: &[TcpOption]) -> Option<String> {
    let alike = |(e, a): (&TcpOption, &TcpOption)| match (e, a) {
        (TcpOption::Ts { .. } | TcpOption::AnyTs, TcpOption::Ts { .. })
        | (TcpOption::AnyWscale, TcpOption::Wscale(_)) => true,
        (e, a) => e == a,
    };
    let at = expected.iter().zip(actual).take_while(|both| alike(*both)).count();
    match (&expected[at..], &actual[at..]) {
        ([], []) => None,
        ([e, ..], [a, ..]) => Some(format!("other options: {a} where the line has {e}")),
        (missing, []) => Some(format!("other options: {} is missing", telling(missing)?)),
        ([], extra) => Some(format!("other options: {} is too many", telling(extra)?)),
    }
}

/// The first that is not only there to fill, if there is one.
fn telling(options: &[TcpOption]) -> Option<&TcpOption> {
    options.iter().find(|option| **option != TcpOption::Nop).or(options.first())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Accurate ECN's counters as a script has them; bytes that no counter has are shown as they are.
fn counters(f: &mut fmt::Formatter<'_>, backwards: bool, data: &[u8]) -> fmt::Result {
    let word = |counter: &[u8]| counter.iter().fold(0_u32, |n, byte| n << 8 | u32::from(*byte));
    let order = if backwards { [2, 1, 0] } else { [0, 1, 2] };
    for (at, counter) in order.iter().zip(data.chunks(3)) {
        write!(f, " {} {}", ACCECN_COUNTERS[*at], word(counter))?;
    }
    Ok(())
}

impl fmt::Display for TcpOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Eol => f.write_str("eol"),
            Self::Nop => f.write_str("nop"),
            Self::Mss(mss) => write!(f, "mss {mss}"),
            Self::Wscale(shift) => write!(f, "wscale {shift}"),
            Self::AnyWscale => f.write_str("wscale *"),
            Self::SackOk => f.write_str("sackOK"),
            Self::Sack(blocks) => {
                f.write_str("sack")?;
                blocks.iter().try_for_each(|(left, right)| write!(f, " {left}:{right}"))
            }
            Self::Ts { val, ecr } => write!(f, "TS val {val} ecr {ecr}"),
            Self::AnyTs => f.write_str("TS val ... ecr ..."),
            Self::WireTs { val, ecr } => write!(f, "TS val {val} ecr {ecr}!"),
            Self::Other(FAST_OPEN, cookie) => write!(f, "FO {}", hex(cookie)),
            Self::Other(EXPERIMENT, data) if data.starts_with(&FAST_OPEN_MAGIC) => {
                f.write_str(format!("FOEXP {}", hex(&data[2..])).trim_end())
            }
            Self::Other(kind, data)
                if ACCECN.contains(kind) && data.len() <= 9 && data.len().is_multiple_of(3) =>
            {
                f.write_str("ECN")?;
                counters(f, *kind == ACCECN[1], data)
            }
            Self::Other(kind, data) => write!(f, "opt {kind} {}", hex(data)),
        }
    }
}
