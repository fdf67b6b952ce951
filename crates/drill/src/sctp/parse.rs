//! Reads `sctp: CHUNK[...]; CHUNK[...]`.
use super::{Class, Content, Crc, Item, Names, SctpSpec, Shape, Slot, Value, shapes};
use crate::cursor::Cursor;
use crate::failure::Failure;
use core::net::{Ipv4Addr, Ipv6Addr};

/// How deep items may stand in one another.
const DEPTH_MAX: usize = 6;

/// What follows the ends of a packet, from the word `sctp` on.
pub(crate) fn packet(c: &mut Cursor<'_>, inbound: bool) -> Result<SctpSpec, Box<Failure>> {
    c.word();
    let mut spec = SctpSpec { tag: None, udp: None, crc: Crc::Good, content: Content::Chunks(Vec::new()) };
    if c.eat("(") {
        header(c, &mut spec)?;
    }
    if spec.crc == Crc::Bad && !inbound {
        return c.fail("a wrong checksum is for inbound packets: the stack's must be right");
    }
    if c.eat("/") {
        spec.udp = Some(udp(c)?);
    }
    c.expect(":")?;
    c.blank();
    if c.peek() == '[' {
        if !inbound {
            return c.fail("bytes instead of chunks are for inbound packets");
        }
        spec.content = Content::Raw(bytes(c)?.unwrap_or_default());
        return Ok(spec);
    }
    let mut chunks = Vec::new();
    // A packet without chunks is one too: then the next event follows, or the name of a last command. A chunk may stand on the next line.
    let named = shapes::named(Class::Chunk, &c.peek_word().replace('-', "_")).is_some();
    if (named || c.more_on_line()) && c.peek().is_ascii_alphabetic() {
        chunks.push(item(c, Class::Chunk, 0)?);
        while c.eat(";") {
            chunks.push(item(c, Class::Chunk, 0)?);
        }
    }
    spec.content = Content::Chunks(chunks);
    Ok(spec)
}

/// `udp(9899>9899)`: the ports of the UDP that the packet travels in.
fn udp(c: &mut Cursor<'_>) -> Result<(u16, u16), Box<Failure>> {
    if c.word() != "udp" {
        return c.fail("SCTP travels in IP or in UDP: sctp/udp(9899>9899):");
    }
    c.expect("(")?;
    let from = c.number()?;
    c.expect(">")?;
    let to = c.number()?;
    c.expect(")")?;
    Ok((from, to))
}

/// `(bad_crc32c, tag=1)`; ours: `zero_checksum`.
fn header(c: &mut Cursor<'_>, spec: &mut SctpSpec) -> Result<(), Box<Failure>> {
    loop {
        match c.word() {
            "bad_crc32c" => spec.crc = Crc::Bad,
            "zero_checksum" => spec.crc = Crc::Zero,
            "tag" => {
                c.expect("=")?;
                spec.tag = Some(c.number()?);
            }
            other => {
                return c.fail(format!(
                    "'{other}' says nothing about an SCTP header; there are tag=N, bad_crc32c, zero_checksum"
                ));
            }
        }
        if !c.eat(",") {
            return c.expect(")");
        }
    }
}

/// A name; `I-DATA` is the same as `I_DATA`.
fn name(c: &mut Cursor<'_>) -> String {
    let mut name = c.word().to_owned();
    while c.rest().starts_with('-') && c.rest()[1..].starts_with(|ch: char| ch.is_ascii_alphabetic()) {
        c.skip(1);
        name = format!("{name}_{}", c.word());
    }
    name
}

fn item(c: &mut Cursor<'_>, class: Class, depth: usize) -> Result<Item, Box<Failure>> {
    let name = name(c);
    if depth == DEPTH_MAX {
        return c.fail("items stand too deep in one another");
    }
    let Some(shape) = shapes::named(class, &name) else {
        let (what, names) = match class {
            Class::Chunk => ("chunk", shapes::of(class)),
            Class::Param => ("parameter", shapes::of(class)),
            Class::Cause => ("error cause", shapes::of(class)),
        };
        let names: Vec<&str> = names.iter().map(|shape| shape.name).collect();
        return c.fail(format!("'{name}' is no {what}; there are {}", names.join(", ")));
    };
    c.expect("[")?;
    if c.eat("...") {
        c.expect("]")?;
        return Ok(Item { shape, values: vec![Value::Any; shape.slots.len()] });
    }
    let values = values(c, shape, depth)?;
    c.expect("]")?;
    let item = Item { shape, values };
    check_len(c, &item)?;
    Ok(item)
}

fn values(c: &mut Cursor<'_>, shape: &'static Shape, depth: usize) -> Result<Vec<Value>, Box<Failure>> {
    let mut values = Vec::with_capacity(shape.slots.len());
    let mut first = true;
    for slot in shape.slots {
        if !slot.is_written() {
            values.push(Value::Any);
            continue;
        }
        c.blank();
        if let Some(absent) = slot.absent().filter(|_| c.peek() == ']') {
            values.push(absent);
            continue;
        }
        if !std::mem::take(&mut first) {
            c.expect(",")?;
        }
        values.push(value(c, slot, depth)?);
    }
    Ok(values)
}

/// A length must fit what the item says of itself.
fn check_len(c: &Cursor<'_>, item: &Item) -> Result<(), Box<Failure>> {
    let written = item.value(|slot| *slot == Slot::Len);
    let Some(len) = written.and_then(Value::num) else {
        return match item.bytes() {
            Some(_) if written.is_some() => c.fail("'len=' must be a number where the bytes are given"),
            _ => Ok(()),
        };
    };
    let fixed: usize = 4 + item.shape.slots.iter().map(fixed_len).sum::<usize>();
    let given = item.bytes().map_or(0, <[u8]>::len);
    if (len as usize) < fixed + given {
        return c.fail(format!("len={len} is too short: {} bytes are here", fixed + given));
    }
    Ok(())
}

const fn fixed_len(slot: &Slot) -> usize {
    match slot {
        Slot::Num(_, width, _) | Slot::Zeros(width) => *width,
        _ => 0,
    }
}

/// `name=`, or one of two names.
fn named(c: &mut Cursor<'_>, name: &str) -> Result<(), Box<Failure>> {
    let word = c.word();
    if !name.split('|').any(|n| n == word) {
        return c.fail(format!("'{name}=' should stand here, not '{word}'"));
    }
    c.expect("=")
}

fn value(c: &mut Cursor<'_>, slot: &Slot, depth: usize) -> Result<Value, Box<Failure>> {
    let name = match slot {
        Slot::Kind(name)
        | Slot::Num(name, ..)
        | Slot::MaybeNum(name, ..)
        | Slot::Bytes(name)
        | Slot::Text(name, _)
        | Slot::List(name, ..)
        | Slot::Counted(name, _)
        | Slot::NamedItems(name, _)
        | Slot::NamedItem(name, _) => name,
        Slot::Flags(_) => "flgs",
        Slot::Len => "len",
        Slot::Ip4 | Slot::Ip6 => "addr",
        Slot::Gaps(name) => name,
        Slot::Dups => "dups",
        Slot::Ids(_) => "ids",
        Slot::Items(class) => return items(c, *class, "]", depth),
        Slot::Zeros(_) | Slot::Data | Slot::Counts => return Ok(Value::Any),
    };
    named(c, name)?;
    if c.eat("...") {
        return Ok(Value::Any);
    }
    match slot {
        Slot::Kind("type") if c.peek().is_ascii_alphabetic() => chunk_type(c).map(Value::Num),
        Slot::Kind(_) => c.number::<u16>().map(|n| Value::Num(n.into())),
        Slot::Flags(letters) => flags(c, letters),
        Slot::Len => c.number::<u16>().map(|n| Value::Num(n.into())),
        Slot::Num(_, 2, _) | Slot::MaybeNum(_, 2, _) => c.number::<u16>().map(|n| Value::Num(n.into())),
        Slot::Num(..) | Slot::MaybeNum(..) => c.number().map(Value::Num),
        Slot::Bytes(_) => bytes(c).map(|bytes| bytes.map_or(Value::Any, Value::Bytes)),
        Slot::Text(_, zero) => text(c, *zero),
        Slot::Ip4 | Slot::Ip6 => address(c, *slot == Slot::Ip6),
        Slot::Gaps(_) => list(c, gap).map(|gaps| gaps.map_or(Value::Any, Value::Gaps)),
        Slot::Dups => list(c, Cursor::number).map(|dups| dups.map_or(Value::Any, Value::Nums)),
        Slot::List(_, width, names) => numbers(c, *width, *names),
        Slot::Counted(_, width) => numbers(c, *width, Names::None),
        Slot::Ids(widths) => list(c, |c| ids(c, widths.len())).map(|all| all.map_or(Value::Any, Value::Ids)),
        Slot::NamedItems(_, class) => {
            c.expect("[")?;
            let all = items(c, *class, "]", depth)?;
            c.expect("]")?;
            Ok(all)
        }
        Slot::NamedItem(_, class) => Ok(Value::Items(vec![item(c, *class, depth + 1)?])),
        Slot::Items(_) | Slot::Zeros(_) | Slot::Data | Slot::Counts => Ok(Value::Any),
    }
}

fn chunk_type(c: &mut Cursor<'_>) -> Result<u32, Box<Failure>> {
    let name = name(c);
    match shapes::number(Names::Chunks, &name) {
        Some(kind) => Ok(kind),
        None => c.fail(format!("'{name}' is no type of chunk")),
    }
}

/// A number, or letters.
fn flags(c: &mut Cursor<'_>, letters: &[(char, u8)]) -> Result<Value, Box<Failure>> {
    c.blank();
    if c.peek().is_ascii_digit() {
        return c.number::<u8>().map(|n| Value::Num(n.into()));
    }
    let word = c.word();
    let mut flags = 0;
    for letter in word.chars() {
        match letters.iter().find(|(l, _)| *l == letter) {
            Some((_, bit)) if flags & bit == 0 => flags |= bit,
            Some(_) => return c.fail(format!("'{letter}' stands twice in '{word}'")),
            None => return c.fail(format!("'{letter}' in '{word}' is no flag of this chunk")),
        }
    }
    if word.is_empty() { c.fail("flags should stand here") } else { Ok(Value::Num(flags.into())) }
}

/// `[1, 0x2]`; `None` for `[...]`.
fn bytes(c: &mut Cursor<'_>) -> Result<Option<Vec<u8>>, Box<Failure>> {
    list(c, Cursor::number)
}

fn list<'a, T>(
    c: &mut Cursor<'a>,
    one: impl Fn(&mut Cursor<'a>) -> Result<T, Box<Failure>>,
) -> Result<Option<Vec<T>>, Box<Failure>> {
    c.expect("[")?;
    if c.eat("...") {
        c.expect("]")?;
        return Ok(None);
    }
    let mut all = Vec::new();
    while !c.eat("]") {
        all.push(one(c)?);
        if !c.eat(",") {
            c.expect("]")?;
            break;
        }
    }
    Ok(Some(all))
}

fn gap(c: &mut Cursor<'_>) -> Result<(u16, u16), Box<Failure>> {
    let start = c.number()?;
    c.expect(":")?;
    Ok((start, c.number()?))
}

fn ids(c: &mut Cursor<'_>, count: usize) -> Result<Vec<u32>, Box<Failure>> {
    c.expect("{")?;
    let mut all = Vec::with_capacity(count);
    for n in 0..count {
        if n > 0 {
            c.expect(",")?;
        }
        all.push(c.number()?);
    }
    c.expect("}")?;
    Ok(all)
}

fn numbers(c: &mut Cursor<'_>, width: usize, names: Names) -> Result<Value, Box<Failure>> {
    let one = |c: &mut Cursor<'_>| {
        c.blank();
        if !c.peek().is_ascii_alphabetic() {
            return if width == 1 {
                c.number::<u8>().map(u32::from)
            } else {
                c.number::<u16>().map(u32::from)
            };
        }
        let name = name(c);
        match shapes::number(names, &name) {
            Some(number) => Ok(number),
            None => c.fail(format!("'{name}' has no number here")),
        }
    };
    Ok(list(c, one)?.map_or(Value::Any, Value::Nums))
}

/// A string, with its zero where it ends in one on the wire.
fn text(c: &mut Cursor<'_>, zero: bool) -> Result<Value, Box<Failure>> {
    c.expect("\"")?;
    let mut bytes = c.until("\"")?.as_bytes().to_vec();
    if zero {
        bytes.push(0);
    }
    Ok(Value::Bytes(bytes))
}

fn address(c: &mut Cursor<'_>, six: bool) -> Result<Value, Box<Failure>> {
    let text = c.take_while(|ch| ch.is_ascii_hexdigit() || ch == ':' || ch == '.');
    let ip =
        if six { text.parse::<Ipv6Addr>().map(Into::into) } else { text.parse::<Ipv4Addr>().map(Into::into) };
    match ip {
        Ok(ip) => Ok(Value::Ip(ip)),
        Err(_) => c.fail(format!("'{text}' is no IPv{} address", if six { 6 } else { 4 })),
    }
}

/// Items with commas up to `end`, which stays; `...` for any.
fn items(c: &mut Cursor<'_>, class: Class, end: &str, depth: usize) -> Result<Value, Box<Failure>> {
    if c.eat("...") {
        return Ok(Value::Any);
    }
    let mut all = Vec::new();
    c.blank();
    while !c.rest().starts_with(end) {
        all.push(item(c, class, depth + 1)?);
        if !c.eat(",") {
            break;
        }
        c.blank();
    }
    Ok(Value::Items(all))
}
