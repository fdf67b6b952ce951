//! Items as bytes; what a line leaves open becomes zero.
use super::{Class, Item, Slot, Value};
use core::net::IpAddr;
use lowwater_wire::sctp::{HEADER_LEN, SctpRepr, padded};

/// What fills bytes that a line leaves open.
const FILL: u8 = b'A';

/// A packet with a checksum of zero: follow with the one that it is to have.
pub(crate) fn packet(header: &SctpRepr, chunks: &[Item]) -> Vec<u8> {
    let mut out = vec![0; HEADER_LEN];
    header.emit(&mut out);
    for chunk in chunks {
        out.extend(item(chunk));
        out.resize(padded(out.len()), 0);
    }
    out
}

/// An item without the padding behind it.
pub(crate) fn item(item: &Item) -> Vec<u8> {
    let kind = item.kind().unwrap_or_default();
    let mut out = match item.shape.class {
        Class::Chunk => vec![kind as u8, item.flags().unwrap_or_default(), 0, 0],
        Class::Param | Class::Cause => {
            let [a, b] = kind.to_be_bytes();
            vec![a, b, 0, 0]
        }
    };
    let len = item.value(|slot| *slot == Slot::Len).and_then(Value::num).map(|n| n as usize);
    for (n, (slot, value)) in item.shape.slots.iter().zip(&item.values).enumerate() {
        put(&mut out, slot, value, (&item.shape.slots[n..], &item.values[n..]));
        if let (Slot::Data | Slot::Bytes(_), Some(len)) = (slot, len) {
            let fill = if *slot == Slot::Data { 0 } else { FILL };
            out.resize(len.max(4), fill);
        }
    }
    let len = len.unwrap_or(out.len()) as u16;
    out[2..4].copy_from_slice(&len.to_be_bytes());
    out
}

fn put(out: &mut Vec<u8>, slot: &Slot, value: &Value, (slots, values): (&[Slot], &[Value])) {
    match (slot, value) {
        (Slot::Num(_, width, _) | Slot::MaybeNum(_, width, _), Value::Num(n)) => number(out, *n, *width),
        (Slot::Num(_, width, _) | Slot::Zeros(width), _) => number(out, 0, *width),
        (Slot::Bytes(_) | Slot::Text(..), Value::Bytes(bytes)) => out.extend(bytes),
        (Slot::Text(_, true), _) => out.push(0),
        (Slot::Ip4, Value::Ip(IpAddr::V4(ip))) => out.extend(ip.octets()),
        (Slot::Ip6, Value::Ip(IpAddr::V6(ip))) => out.extend(ip.octets()),
        (Slot::Ip4, _) => out.extend([0; 4]),
        (Slot::Ip6, _) => out.extend([0; 16]),
        (Slot::Counts, _) => {
            for (_, list) in slots.iter().zip(values).filter(|(slot, _)| slot.is_counted()) {
                let len = match list {
                    Value::Gaps(gaps) => gaps.len(),
                    Value::Nums(dups) => dups.len(),
                    _ => 0,
                };
                number(out, len as u32, 2);
            }
        }
        (Slot::Gaps(_), Value::Gaps(gaps)) => {
            for (start, end) in gaps {
                number(out, (*start).into(), 2);
                number(out, (*end).into(), 2);
            }
        }
        (Slot::Dups, Value::Nums(dups)) => dups.iter().for_each(|n| number(out, *n, 4)),
        (Slot::List(_, width, _), Value::Nums(list)) => list.iter().for_each(|n| number(out, *n, *width)),
        (Slot::Counted(_, width), Value::Nums(list)) => {
            number(out, list.len() as u32, 4);
            list.iter().for_each(|n| number(out, *n, *width));
        }
        (Slot::Counted(..), _) => number(out, 0, 4),
        (Slot::Ids(widths), Value::Ids(all)) => {
            for (n, width) in all.iter().flat_map(|ids| ids.iter().zip(*widths)) {
                number(out, *n, *width);
            }
        }
        (Slot::Items(_) | Slot::NamedItems(..) | Slot::NamedItem(..), Value::Items(items)) => {
            for inner in items {
                // The padding of the last is that of the whole.
                out.resize(padded(out.len()), 0);
                out.extend(item(inner));
            }
            // But a chunk is quoted with its own, as kernels and packetdrill do.
            if items.iter().any(|inner| inner.shape.class == Class::Chunk) {
                out.resize(padded(out.len()), 0);
            }
        }
        _ => {}
    }
}

fn number(out: &mut Vec<u8>, n: u32, width: usize) {
    out.extend(&n.to_be_bytes()[4 - width..]);
}
