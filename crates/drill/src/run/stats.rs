//! The attributes of SCM_TIMESTAMPING_OPT_STATS: `{TCP_NLA_BUSY=10000, TCP_NLA_SND_CWND=..., ...}`.
use super::info;
use crate::names;
use crate::script::Value;

/// What the names of all attributes begin with.
const PREFIX: &str = "TCP_NLA_";
/// How long the connection was busy, and what held it up: these may be away from the script's by the tolerance, unless one is 0.
const TIMES: [u16; 3] = [1, 2, 3];
/// The last attribute that packetdrill knows. A line need not have those that are newer.
const KNOWN: u16 = 22;
/// Length and number in front of each, and what the next one is aligned to.
const HEAD: usize = 4;

/// A line says what these attributes are.
pub(super) fn told_by(fields: &[(String, Value)]) -> bool {
    !fields.is_empty() && fields.iter().all(|(name, _)| name.starts_with(PREFIX))
}

/// The attributes are those of the line, in its order.
pub(super) fn same(fields: &[(String, Value)], data: &[u8], tolerance: u64) -> bool {
    let all = attributes(data);
    let Some((told, newer)) = all.split_at_checked(fields.len()) else { return false };
    let alike = |((name, wanted), (number, actual)): (&(String, Value), &(u16, i128))| {
        names::constant(name) == Some((*number).into())
            && match wanted {
                Value::Any => true,
                wanted => wanted.int().is_some_and(|n| near(*number, n.into(), *actual, tolerance)),
            }
    };
    fields.iter().zip(told).all(alike) && newer.iter().all(|(number, _)| *number > KNOWN)
}

fn near(number: u16, wanted: i128, actual: i128, tolerance: u64) -> bool {
    let apart = if TIMES.contains(&number) && wanted != 0 { tolerance } else { 0 };
    (wanted - actual).unsigned_abs() <= apart.into()
}

/// As a line has them.
pub(super) fn shown(data: &[u8]) -> String {
    let name = |number: u16| names::attribute(number).map_or_else(|| number.to_string(), str::to_owned);
    let list: Vec<String> =
        attributes(data).into_iter().map(|(number, value)| format!("{}={value}", name(number))).collect();
    format!("{{{}}}", list.join(", "))
}

/// Number and value of each, up to what cannot be read.
fn attributes(mut data: &[u8]) -> Vec<(u16, i128)> {
    let mut all = Vec::new();
    while let [a, b, c, d, ..] = *data {
        let (len, number) = (usize::from(u16::from_ne_bytes([a, b])), u16::from_ne_bytes([c, d]));
        let value = len.checked_sub(HEAD).and_then(|size| info::number(data, HEAD, size));
        let Some(value) = value else { break };
        all.push((number, value));
        data = data.get(len.next_multiple_of(HEAD)..).unwrap_or_default();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(number: u16, value: &[u8]) -> Vec<u8> {
        let len = HEAD + value.len();
        let mut out = Vec::new();
        out.extend((len as u16).to_ne_bytes());
        out.extend(number.to_ne_bytes());
        out.extend(value);
        out.resize(len.next_multiple_of(HEAD), 0);
        out
    }

    #[test]
    fn attributes_are_compared_in_their_order_and_newer_ones_need_not_be_told() {
        let newer = attribute(23, &5_u16.to_ne_bytes());
        let data = [
            attribute(1, &100_u64.to_ne_bytes()),
            attribute(11, &[2]),
            attribute(8, &10_u32.to_ne_bytes()),
            newer,
        ]
        .concat();
        let line = |fields: &[(&str, Value)]| -> Vec<(String, Value)> {
            fields.iter().map(|(name, value)| (format!("{PREFIX}{name}"), value.clone())).collect()
        };
        let told = |busy, retrans, cwnd| {
            line(&[("BUSY", Value::Int(busy)), ("RECUR_RETRANS", retrans), ("SND_CWND", Value::Int(cwnd))])
        };
        assert!(told_by(&told(1, Value::Any, 1)) && !told_by(&[]));
        assert!(same(&told(100, Value::Int(2), 10), &data, 0));
        assert!(same(&told(104, Value::Any, 10), &data, 4) && !same(&told(105, Value::Any, 10), &data, 4));
        assert!(!same(&told(0, Value::Any, 10), &data, 1_000), "no time at all");
        assert!(!same(&told(100, Value::Any, 11), &data, 4), "a number has no tolerance");
        assert!(!same(&told(100, Value::Any, 10)[..2], &data, 4), "one that packetdrill knows is left out");
        let other = line(&[("SND_CWND", Value::Any), ("BUSY", Value::Any), ("RECUR_RETRANS", Value::Any)]);
        assert!(!same(&other, &data, 4), "another order");
        assert!(!same(&told(100, Value::Any, 10), &data[..12], 4), "fewer of them");
        let all =
            "{TCP_NLA_BUSY=100, TCP_NLA_RECUR_RETRANS=2, TCP_NLA_SND_CWND=10, TCP_NLA_TIMEOUT_REHASH=5}";
        assert_eq!((shown(&data).as_str(), shown(&[9, 0, 1]).as_str()), (all, "{}"));
    }
}
