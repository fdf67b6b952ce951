//! Bytes as items; what does not have the layout of its type becomes one of the nameless kind.
use super::{Class, Item, Shape, Slot, Value, encode, shapes};
use core::net::{Ipv4Addr, Ipv6Addr};
use lowwater_wire::sctp::{Chunks, Tlvs};

/// How deep items may stand in one another.
const DEPTH_MAX: usize = 6;

/// The chunks of a packet.
pub(crate) fn packet(payload: &[u8]) -> Result<Vec<Item>, String> {
    let broken = |_| "the stack sent a chunk with an impossible length".to_owned();
    let chunks =
        Chunks::new(payload).map(|raw| raw.map(|raw| item(Class::Chunk, raw.bytes(), 0)).map_err(broken));
    let chunks: Vec<Item> = chunks.collect::<Result<_, _>>()?;
    let len: usize = chunks.iter().map(|chunk| lowwater_wire::sctp::padded(encode::item(chunk).len())).sum();
    if len != payload.len() {
        return Err("the stack sent a packet whose last chunk has the wrong padding".to_owned());
    }
    Ok(chunks)
}

/// One item, header included, without padding.
fn item(class: Class, bytes: &[u8], depth: usize) -> Item {
    let kind = match class {
        Class::Chunk => bytes[0].into(),
        Class::Param | Class::Cause => u16::from_be_bytes([bytes[0], bytes[1]]),
    };
    let known = shapes::numbered(class, kind).filter(|_| depth < DEPTH_MAX);
    let known = known.and_then(|shape| Some(Item { shape, values: values(shape, bytes, depth)? }));
    // Nothing may get lost: else a difference would not be seen.
    let whole = known.filter(|item| same(item, &encode::item(item), bytes));
    whole.unwrap_or_else(|| {
        let shape = shapes::any(class);
        let values = shape.slots.iter().map(|slot| match slot {
            Slot::Kind(_) => Value::Num(kind.into()),
            Slot::Flags(_) => Value::Num(bytes[1].into()),
            Slot::Len => Value::Num(bytes.len() as u32),
            _ => Value::Bytes(bytes[4..].to_vec()),
        });
        Item { shape, values: values.collect() }
    })
}

/// User data is not kept.
fn same(item: &Item, encoded: &[u8], bytes: &[u8]) -> bool {
    let data = item.shape.slots.last() == Some(&Slot::Data);
    let fixed = if data { bytes.len() - data_len(item, bytes) } else { bytes.len() };
    encoded.len() == bytes.len() && encoded[..fixed] == bytes[..fixed]
}

fn data_len(item: &Item, bytes: &[u8]) -> usize {
    let head: usize = 4 + item
        .shape
        .slots
        .iter()
        .map(|slot| match slot {
            Slot::Num(_, width, _) | Slot::Zeros(width) => *width,
            _ => 0,
        })
        .sum::<usize>();
    bytes.len().saturating_sub(head)
}

fn values(shape: &'static Shape, bytes: &[u8], depth: usize) -> Option<Vec<Value>> {
    let (head, mut rest) = bytes.split_at_checked(4)?;
    let mut counts = Vec::new().into_iter();
    let mut values = Vec::with_capacity(shape.slots.len());
    for slot in shape.slots {
        values.push(match slot {
            Slot::Kind(_) => return None,
            Slot::Flags(_) => Value::Num(head[1].into()),
            Slot::Len => Value::Num(bytes.len() as u32),
            Slot::Num(_, width, _) => Value::Num(number(&mut rest, *width)?),
            Slot::MaybeNum(..) if rest.is_empty() => Value::Absent,
            Slot::MaybeNum(_, width, _) => Value::Num(number(&mut rest, *width)?),
            Slot::Zeros(width) => {
                number(&mut rest, *width)?;
                Value::Any
            }
            Slot::Counts => {
                let lists = shape.slots.iter().filter(|slot| slot.is_counted());
                let all: Option<Vec<u32>> = lists.map(|_| number(&mut rest, 2)).collect();
                counts = all?.into_iter();
                Value::Any
            }
            Slot::Data => {
                rest = &[];
                Value::Any
            }
            Slot::Gaps(_) => {
                let mut gap = || Some((number(&mut rest, 2)? as u16, number(&mut rest, 2)? as u16));
                Value::Gaps((0..counts.next()?).map(|_| gap()).collect::<Option<_>>()?)
            }
            Slot::Dups => {
                Value::Nums((0..counts.next()?).map(|_| number(&mut rest, 4)).collect::<Option<_>>()?)
            }
            slot => to_the_end(slot, std::mem::take(&mut rest), depth)?,
        });
    }
    rest.is_empty().then_some(values)
}

/// What takes all that is left, or exactly so much.
fn to_the_end(slot: &Slot, mut rest: &[u8], depth: usize) -> Option<Value> {
    Some(match slot {
        Slot::Bytes(_) | Slot::Text(..) => Value::Bytes(rest.to_vec()),
        Slot::Ip4 => Value::Ip(Ipv4Addr::from_octets(rest.try_into().ok()?).into()),
        Slot::Ip6 => Value::Ip(Ipv6Addr::from_octets(rest.try_into().ok()?).into()),
        Slot::List(_, width, _) => Value::Nums(list(rest, *width)?),
        Slot::Counted(_, width) => {
            number(&mut rest, 4)?;
            Value::Nums(list(rest, *width)?)
        }
        Slot::Ids(widths) => {
            let mut all = Vec::new();
            while !rest.is_empty() {
                all.push(widths.iter().map(|width| number(&mut rest, *width)).collect::<Option<_>>()?);
            }
            Value::Ids(all)
        }
        Slot::Items(class @ (Class::Param | Class::Cause))
        | Slot::NamedItems(_, class @ (Class::Param | Class::Cause))
        | Slot::NamedItem(_, class @ (Class::Param | Class::Cause)) => {
            let inner = Tlvs::new(rest).map(|tlv| Some(item(*class, tlv.ok()?.bytes(), depth + 1)));
            Value::Items(inner.collect::<Option<_>>()?)
        }
        Slot::Items(_) | Slot::NamedItems(..) | Slot::NamedItem(..) => {
            let inner = Chunks::new(rest).map(|raw| Some(item(Class::Chunk, raw.ok()?.bytes(), depth + 1)));
            Value::Items(inner.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

fn list(mut rest: &[u8], width: usize) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    while !rest.is_empty() {
        all.push(number(&mut rest, width)?);
    }
    Some(all)
}

fn number(rest: &mut &[u8], width: usize) -> Option<u32> {
    let (bytes, after) = rest.split_at_checked(width)?;
    *rest = after;
    Some(bytes.iter().fold(0, |n, byte| n << 8 | u32::from(*byte)))
}
