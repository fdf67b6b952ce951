//! Compares what the stack sent with what a line says, chunk by chunk.
use super::{Item, Slot, Value, encode};

/// The first thing in which chunks differ.
pub(crate) fn difference(expected: &[Item], actual: &[Item]) -> Option<String> {
    let first = expected.iter().zip(actual).find_map(|(e, a)| item(e, a));
    first.or_else(|| (expected.len() != actual.len()).then(|| "another number of chunks".to_owned()))
}

fn item(expected: &Item, actual: &Item) -> Option<String> {
    if expected.shape.kind.is_none() && actual.shape != expected.shape {
        return nameless(expected, actual);
    }
    if expected.shape != actual.shape {
        return Some(format!("{} where {} should be", actual.shape.name, expected.shape.name));
    }
    let name = expected.shape.name;
    let slots = expected.shape.slots.iter().zip(expected.values.iter().zip(&actual.values));
    slots.filter(|(slot, _)| slot.is_written()).find_map(|(slot, (e, a))| value(name, slot, e, a))
}

/// One of the nameless kind stands for any bytes.
fn nameless(expected: &Item, actual: &Item) -> Option<String> {
    let bytes = encode::item(actual);
    let name = actual.shape.name;
    let slots = expected.shape.slots.iter().zip(&expected.values);
    slots.into_iter().find_map(|(slot, e)| {
        let a = match slot {
            Slot::Kind(_) => Value::Num(actual.kind().unwrap_or_default().into()),
            Slot::Flags(_) => Value::Num(bytes[1].into()),
            Slot::Len => Value::Num(bytes.len() as u32),
            _ => Value::Bytes(bytes[4..].to_vec()),
        };
        value(name, slot, e, &a)
    })
}

fn value(name: &str, slot: &Slot, expected: &Value, actual: &Value) -> Option<String> {
    let what = match slot {
        Slot::Kind(_) => "type",
        Slot::Flags(_) => "flags",
        Slot::Len => "length",
        Slot::Num(what, ..) | Slot::MaybeNum(what, ..) | Slot::List(what, ..) | Slot::Counted(what, _) => {
            what
        }
        Slot::Bytes(_) | Slot::Text(..) => "bytes",
        Slot::Ip4 | Slot::Ip6 => "address",
        Slot::Gaps(what) => what,
        Slot::Dups => "dups",
        Slot::Ids(_) => "ids",
        Slot::Items(_) | Slot::NamedItems(..) | Slot::NamedItem(..) => "contents",
        Slot::Zeros(_) | Slot::Data | Slot::Counts => return None,
    };
    match (expected, actual) {
        (Value::Any, _) => None,
        (Value::Items(e), Value::Items(a)) => {
            let first = e.iter().zip(a).find_map(|(e, a)| item(e, a));
            first.or_else(|| {
                (e.len() != a.len()).then(|| format!("{name} with another number of items in it"))
            })
        }
        (e, a) => (e != a).then(|| format!("{name} with other {what}")),
    }
}
