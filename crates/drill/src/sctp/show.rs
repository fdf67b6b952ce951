//! Shows items as a script writes them.
use super::{Item, Names, Slot, Value, shapes};
use core::fmt;

/// The flag of a message's first fragment, on which the meaning of a field depends.
const B: u8 = 2;
/// Bytes that are shown: more are a cookie, which nobody reads.
const SHOWN_MAX: usize = 32;

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for (slot, value) in self.shape.slots.iter().zip(&self.values) {
            if !slot.is_written() || slot.absent().as_ref() == Some(value) {
                continue;
            }
            parts.push(self.part(slot, value));
        }
        write!(f, "{}[{}]", self.shape.name, parts.join(", "))
    }
}

impl Item {
    fn part(&self, slot: &Slot, value: &Value) -> String {
        let name = match slot {
            Slot::Kind(name)
            | Slot::Bytes(name)
            | Slot::Text(name, _)
            | Slot::List(name, ..)
            | Slot::Counted(name, _)
            | Slot::NamedItems(name, _)
            | Slot::NamedItem(name, _) => name,
            Slot::Num(name, ..) | Slot::MaybeNum(name, ..) => {
                let first = self.flags().is_none_or(|flags| flags & B != 0);
                match name.split_once('|') {
                    Some((with_b, _)) if first => with_b,
                    Some((_, without)) => without,
                    None => name,
                }
            }
            Slot::Flags(_) => "flgs",
            Slot::Len => "len",
            Slot::Ip4 | Slot::Ip6 => "addr",
            Slot::Gaps(name) => name,
            Slot::Dups => "dups",
            Slot::Ids(_) => "ids",
            Slot::Items(_) => return text(slot, value),
            Slot::Zeros(_) | Slot::Data | Slot::Counts => return String::new(),
        };
        format!("{name}={}", text(slot, value))
    }
}

fn text(slot: &Slot, value: &Value) -> String {
    let joined = |all: Vec<String>| all.join(", ");
    match (slot, value) {
        (_, Value::Any | Value::Absent) => "...".to_owned(),
        (Slot::Flags(letters), Value::Num(n)) => flags(letters, *n),
        (Slot::Kind(_), Value::Num(n)) => format!("{n:#x}"),
        (Slot::List(_, _, names), Value::Nums(list)) => {
            format!("[{}]", joined(list.iter().map(|n| one(*names, *n)).collect()))
        }
        (_, Value::Num(n)) => n.to_string(),
        (Slot::Text(_, zero), Value::Bytes(bytes)) => {
            let bytes = bytes.strip_suffix(&[0]).filter(|_| *zero).unwrap_or(bytes);
            format!("\"{}\"", bytes.escape_ascii())
        }
        (_, Value::Bytes(bytes)) if bytes.len() > SHOWN_MAX => "...".to_owned(),
        (_, Value::Bytes(bytes)) => {
            format!("[{}]", joined(bytes.iter().map(|byte| format!("{byte:#04x}")).collect()))
        }
        (_, Value::Ip(ip)) => ip.to_string(),
        (_, Value::Gaps(gaps)) => {
            format!("[{}]", joined(gaps.iter().map(|(start, end)| format!("{start}:{end}")).collect()))
        }
        (_, Value::Nums(list)) => format!("[{}]", joined(list.iter().map(u32::to_string).collect())),
        (_, Value::Ids(all)) => {
            let braces = |ids: &Vec<u32>| {
                format!("{{{}}}", ids.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
            };
            format!("[{}]", joined(all.iter().map(braces).collect()))
        }
        (Slot::NamedItems(..), Value::Items(items)) => {
            format!("[{}]", joined(items.iter().map(Item::to_string).collect()))
        }
        (_, Value::Items(items)) => joined(items.iter().map(Item::to_string).collect()),
    }
}

/// Letters where all bits have one.
fn flags(letters: &[(char, u8)], flags: u32) -> String {
    let known = letters.iter().fold(0, |all, (_, bit)| all | u32::from(*bit));
    if flags == 0 || flags & !known != 0 {
        return if flags < 10 { flags.to_string() } else { format!("{flags:#04x}") };
    }
    letters.iter().filter(|(_, bit)| flags & u32::from(*bit) != 0).map(|(letter, _)| *letter).collect()
}

fn one(names: Names, number: u32) -> String {
    shapes::name(names, number).map_or_else(|| number.to_string(), str::to_owned)
}
