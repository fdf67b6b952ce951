//! A script as a value: events with their times.
use crate::expr::Expr;
use crate::options::TcpOption;
use lowwater_wire::tcp::TcpFlags;

/// A whole script.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// `--name=value` lines in front, with their lines.
    pub(crate) flags: Vec<(usize, String, String)>,
    /// What happens.
    pub(crate) events: Vec<Event>,
}

/// One event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) line: usize,
    pub(crate) when: When,
    pub(crate) action: Action,
}

/// When an event happens; microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Whenever it does.
    Any,
    /// Since the beginning of the script, with the end of the range.
    Absolute(u64, u64),
    /// Since the event before, with the end of the range.
    Relative(u64, u64),
}

/// What happens.
#[derive(Debug)]
pub(crate) enum Action {
    /// The peer sends this.
    Inbound(PacketSpec),
    /// The stack sends this.
    Outbound(PacketSpec),
    /// The application calls.
    Call(CallSpec),
    /// Shell commands, a line each with its number.
    Command(Vec<(usize, String)>),
    /// Assertions over TCP_INFO.
    Code(Vec<Assert>),
}

/// `assert EXPR`.
#[derive(Debug)]
pub(crate) struct Assert {
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) expr: Expr,
}

/// What a packet's ECN field must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EcnSpec {
    /// Exactly these two bits.
    Bits(u8),
    /// One of the two ECT codepoints.
    Ect01,
}

/// A TCP packet in the script's numbers.
#[derive(Clone, Debug)]
pub(crate) struct PacketSpec {
    pub(crate) flags: TcpFlags,
    pub(crate) seq: u32,
    pub(crate) len: u32,
    pub(crate) ack: u32,
    pub(crate) window: Option<u16>,
    pub(crate) urgent: u16,
    /// `None` for `<...>`.
    pub(crate) options: Option<Vec<TcpOption>>,
    pub(crate) ecn: Option<EcnSpec>,
}

/// A system call.
#[derive(Debug)]
pub(crate) struct CallSpec {
    pub(crate) name: String,
    pub(crate) args: Vec<Value>,
    /// End of a call that blocks, on the scale of the event's time.
    pub(crate) end: Option<u64>,
    /// `None` for `...`.
    pub(crate) result: Option<i64>,
    pub(crate) errno: Option<String>,
}

/// An argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// `...`
    Any,
    Int(i64),
    Text(String),
    List(Vec<Value>),
    /// Fields with their names, where they have one.
    Struct(Vec<(String, Value)>),
}

impl Value {
    /// As a number; `...` has none.
    pub(crate) fn int(&self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(*n),
            Self::List(items) if items.len() == 1 => items[0].int(),
            _ => None,
        }
    }

    /// A field of a struct.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        let Self::Struct(fields) = self else { return None };
        fields.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }
}
