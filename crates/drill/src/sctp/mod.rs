//! SCTP in a script: chunks, parameters and error causes, each by a table of what stands between its brackets.
mod compare;
mod decode;
mod encode;
mod parse;
mod shapes;
mod show;

pub(crate) use compare::difference;
pub(crate) use decode::packet as decode;
pub(crate) use encode::{item as encode_item, packet as encode};
pub(crate) use parse::packet as parse;

use core::net::IpAddr;
use lowwater_wire::sctp::chunk_kind::INIT;

/// The type of the chunk of this name.
pub(crate) fn chunk_kind(name: &str) -> Option<u32> {
    shapes::number(Names::Chunks, name)
}

/// What an item is, which decides its header and its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Chunk,
    Param,
    Cause,
}

/// Whose numbers a field counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Plain,
    /// TSNs of who sends the packet.
    Own,
    /// TSNs of who receives it.
    Other,
    /// Initiate tags of who sends it.
    Tag,
}

/// One thing between an item's brackets, or between those in its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// The type or code of what has no name of its own.
    Kind(&'static str),
    /// A chunk's flags, with the letters of the known ones.
    Flags(&'static [(char, u8)]),
    /// The length field.
    Len,
    /// A number of so many bytes; of two names, separated by a bar, the first counts with the flag B.
    Num(&'static str, usize, Space),
    /// A number that may be missing together with everything behind it.
    MaybeNum(&'static str, usize, Space),
    /// Bytes that are zero and not written.
    Zeros(usize),
    /// User data up to the item's length: not written and not compared.
    Data,
    /// Bytes up to the item's length.
    Bytes(&'static str),
    /// Text up to the item's length, with a zero at its end where the flag is set.
    Text(&'static str, bool),
    Ip4,
    Ip6,
    /// How many there are in each of the lists of gap blocks and duplicates that follow, which is not written.
    Counts,
    Gaps(&'static str),
    Dups,
    /// Numbers of so many bytes each, with names for some of them.
    List(&'static str, usize, Names),
    /// As `List`, with their number in front.
    Counted(&'static str, usize),
    /// Numbers in braces, of so many bytes each.
    Ids(&'static [usize]),
    /// Items to the end, with commas.
    Items(Class),
    /// Items in a list that has a name.
    NamedItems(&'static str, Class),
    /// One item that has a name.
    NamedItem(&'static str, Class),
}

/// Which names the numbers of a list may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    None,
    Addresses,
    Chunks,
}

/// What is between the brackets of one name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) class: Class,
    /// Its type or code; `None` for the one that stands for any.
    pub(crate) kind: Option<u16>,
    pub(crate) slots: &'static [Slot],
}

/// What a slot holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// `...`, and what is not written.
    Any,
    /// A number that may be missing and is.
    Absent,
    Num(u32),
    Bytes(Vec<u8>),
    Ip(IpAddr),
    Gaps(Vec<(u16, u16)>),
    Nums(Vec<u32>),
    Ids(Vec<Vec<u32>>),
    Items(Vec<Item>),
}

/// A chunk, a parameter or an error cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) shape: &'static Shape,
    /// One for each slot.
    pub(crate) values: Vec<Value>,
}

/// What a packet's checksum is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crc {
    Good,
    Zero,
    /// Of inbound packets alone.
    Bad,
}

/// What follows the common header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Chunks(Vec<Item>),
    /// Bytes that may be no chunks at all.
    Raw(Vec<u8>),
}

/// A packet of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SctpSpec {
    /// Verification tag, where the line has one.
    pub(crate) tag: Option<u32>,
    /// Ports of the UDP that it travels in (RFC 6951), source first.
    pub(crate) udp: Option<(u16, u16)>,
    pub(crate) crc: Crc,
    pub(crate) content: Content,
}

/// By how much the numbers of a packet are moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shift {
    /// Added to the TSNs of the sender.
    pub(crate) own: u32,
    /// Added to those of the receiver.
    pub(crate) other: u32,
    /// An initiate tag and what it becomes.
    pub(crate) tag: (u32, u32),
}

impl SctpSpec {
    /// It begins an association.
    pub(crate) fn opens(&self) -> bool {
        match &self.content {
            Content::Chunks(chunks) => chunks.first().is_some_and(|c| c.kind() == Some(INIT.into())),
            Content::Raw(_) => false,
        }
    }
}

impl Item {
    /// Its type.
    pub(crate) fn kind(&self) -> Option<u16> {
        let own = || self.value(|slot| matches!(slot, Slot::Kind(_)))?.num().map(|n| n as u16);
        self.shape.kind.or_else(own)
    }

    /// The value of the first such slot.
    fn value(&self, wanted: impl Fn(&Slot) -> bool) -> Option<&Value> {
        self.shape.slots.iter().zip(&self.values).find(|(slot, _)| wanted(slot)).map(|(_, value)| value)
    }

    /// The number of this name, if the item says one.
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        self.value(|slot| matches!(slot, Slot::Num(n, ..) if *n == name))?.num()
    }

    /// Its flags, if it says them.
    pub(crate) fn flags(&self) -> Option<u8> {
        self.value(|slot| matches!(slot, Slot::Flags(_)))?.num().map(|n| n as u8)
    }

    /// Its bytes, if it says them.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self.value(|slot| matches!(slot, Slot::Bytes(_)))? {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Says what its bytes are; true if it has a place for them.
    pub(crate) fn set_bytes(&mut self, bytes: &[u8]) -> bool {
        let len = bytes.len() as u32 + 4;
        let mut done = false;
        for (slot, value) in self.shape.slots.iter().zip(&mut self.values) {
            match slot {
                Slot::Len => *value = Value::Num(len),
                Slot::Bytes(_) => {
                    *value = Value::Bytes(bytes.to_vec());
                    done = true;
                }
                _ => {}
            }
        }
        done
    }

    /// Items within it.
    pub(crate) fn items(&self) -> &[Self] {
        let list = self.values.iter().find_map(|value| match value {
            Value::Items(items) => Some(&items[..]),
            _ => None,
        });
        list.unwrap_or_default()
    }

    /// Items within it.
    pub(crate) fn items_mut(&mut self) -> &mut [Self] {
        let list = self.values.iter_mut().find_map(|value| match value {
            Value::Items(items) => Some(&mut items[..]),
            _ => None,
        });
        list.unwrap_or_default()
    }

    /// Moves all numbers. What a packet quotes was sent by the other side.
    pub(crate) fn shift(&mut self, by: Shift) {
        for (slot, value) in self.shape.slots.iter().zip(&mut self.values) {
            match (slot, value) {
                (Slot::Num(_, _, space) | Slot::MaybeNum(_, _, space), Value::Num(n)) => match space {
                    Space::Plain => {}
                    Space::Own => *n = n.wrapping_add(by.own),
                    Space::Other => *n = n.wrapping_add(by.other),
                    Space::Tag if *n == by.tag.0 => *n = by.tag.1,
                    Space::Tag => {}
                },
                (Slot::Dups, Value::Nums(dups)) => {
                    dups.iter_mut().for_each(|n| *n = n.wrapping_add(by.other));
                }
                (Slot::Items(_), Value::Items(items)) => items.iter_mut().for_each(|item| item.shift(by)),
                (Slot::NamedItems(..) | Slot::NamedItem(..), Value::Items(items)) => {
                    let quoted = Shift { own: by.other, other: by.own, tag: (0, 0) };
                    items.iter_mut().for_each(|item| item.shift(quoted));
                }
                _ => {}
            }
        }
    }
}

impl Value {
    /// As a number, if it is one.
    pub(crate) const fn num(&self) -> Option<u32> {
        match self {
            Self::Num(n) => Some(*n),
            _ => None,
        }
    }
}

impl Slot {
    /// `Counts` says how long it is.
    const fn is_counted(&self) -> bool {
        matches!(self, Self::Gaps(_) | Self::Dups)
    }

    /// It stands between the brackets.
    const fn is_written(&self) -> bool {
        !matches!(self, Self::Zeros(_) | Self::Data | Self::Counts)
    }

    /// What it holds when the bracket closes before it, where that may be.
    fn absent(&self) -> Option<Value> {
        match self {
            Self::MaybeNum(..) => Some(Value::Absent),
            Self::Items(_) => Some(Value::Items(Vec::new())),
            Self::List("sids", ..) => Some(Value::Nums(Vec::new())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
