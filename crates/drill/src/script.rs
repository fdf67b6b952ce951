//! A script as a value: events with their times.
use crate::config::Config;
use crate::failure::Failure;
use crate::options::TcpOption;
use crate::py::Program;
use crate::sctp::SctpSpec;
use crate::shell::Shell;
use core::net::IpAddr;
use lowwater_wire::tcp::TcpFlags;
use std::fmt;

/// A whole script.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// What the options in front ask for.
    pub(crate) config: Config,
    /// What happens; the init command first, the cleanup command last.
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
    Command(Vec<Shell>),
    /// A snippet of Python.
    Code(Snippet),
    /// The device under the stack does something.
    Device(DeviceAct),
}

/// A snippet.
#[derive(Debug)]
pub(crate) struct Snippet {
    /// What our own evaluator makes of it, or why it cannot: then Python reads it.
    pub(crate) program: Result<Program, Box<Failure>>,
    /// Its text without the blanks at both ends, as packetdrill hands it to Python.
    pub(crate) text: String,
}

/// What the device does when the script says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceAct {
    /// So many of the oldest packets leave it; `None` for all.
    Complete(Option<usize>),
    /// It drops so many of the next packets as it takes them.
    Drop(usize),
    /// It answers "not now" until it is ready.
    Busy,
    /// It has room again.
    Ready,
}

/// A packet in the script's numbers.
#[derive(Clone, Debug)]
pub(crate) struct PacketSpec {
    pub(crate) ip: IpSpec,
    /// Addresses and ports, where the line has them.
    pub(crate) ends: Option<EndsSpec>,
    pub(crate) body: BodySpec,
    pub(crate) marks: Marks,
}

/// What a line says about the IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IpSpec {
    pub(crate) tos: Option<TosSpec>,
    pub(crate) ttl: Option<u8>,
    pub(crate) flow_label: Option<u32>,
}

/// What a packet's TOS or traffic class must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TosSpec {
    /// Exactly these two bits of ECN.
    Ecn(u8),
    /// One of the two ECT codepoints.
    Ect01,
    /// Exactly these six bits of DSCP, which are the upper ones.
    Dscp(u8),
    /// The whole byte.
    Tos(u8),
}

impl TosSpec {
    /// The byte that an inbound packet gets.
    pub(crate) const fn byte(self) -> u8 {
        match self {
            Self::Ecn(bits) | Self::Tos(bits) => bits,
            Self::Dscp(bits) => bits << 2,
            Self::Ect01 => 2,
        }
    }

    /// True for a byte that is as it must be.
    pub(crate) const fn allows(self, tos: u8) -> bool {
        match self {
            Self::Ecn(bits) => tos & 3 == bits,
            Self::Ect01 => matches!(tos & 3, 1 | 2),
            Self::Dscp(bits) => tos >> 2 == bits,
            Self::Tos(byte) => tos == byte,
        }
    }
}

/// Addresses and ports of a line; without addresses those of the script's world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndsSpec {
    pub(crate) src: (Option<IpAddr>, u16),
    pub(crate) dst: (Option<IpAddr>, u16),
    /// They name a connection (ours); otherwise they are ports alone, as packetdrill has them.
    pub(crate) named: bool,
}

/// What the packet carries.
#[derive(Clone, Debug)]
pub(crate) enum BodySpec {
    Tcp(TcpSpec),
    /// UDP with so many bytes.
    Udp(u16),
    Icmp(IcmpSpec),
    Sctp(SctpSpec),
}

/// What the sequence number of a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbered {
    /// The script's number.
    Script,
    /// `...(100)`: of the stack, whatever it is.
    Any,
    /// `17:17(0)!`: of the peer, as it stands on the wire.
    Wire,
}

/// A TCP segment.
#[derive(Clone, Debug)]
pub(crate) struct TcpSpec {
    pub(crate) flags: TcpFlags,
    pub(crate) seq: u32,
    pub(crate) numbered: Numbered,
    pub(crate) len: u32,
    pub(crate) ack: u32,
    pub(crate) window: Option<u16>,
    pub(crate) urgent: u16,
    /// `None` for `<...>`.
    pub(crate) options: Option<Vec<TcpOption>>,
}

/// An ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IcmpSpec {
    pub(crate) kind: u8,
    pub(crate) code: u8,
    pub(crate) mtu: Option<u32>,
    pub(crate) id: Option<u16>,
    pub(crate) quoted: Quoted,
}

/// The packet that an ICMP error quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quoted {
    /// Whatever it is: a line about a packet of the stack that says nothing.
    Any,
    /// A segment with this sequence number and so much payload.
    Tcp { seq: u32, len: u32 },
    /// A datagram of so many bytes.
    Udp(u16),
    /// An SCTP packet of the association under test; its tag is that of the peer whatever the number says, as in packetdrill.
    Sctp(u32),
    /// No packet but so many bytes of zeros, header of the message included.
    Raw(u16),
}

/// What a line says about how a packet left the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Segments in this one packet.
    pub(crate) segs: Option<u32>,
    /// Payload of each segment but the last; 0 for a packet that is no super-packet.
    pub(crate) gso: Option<u32>,
    /// When it may leave, in microseconds after it was handed to the device.
    pub(crate) departs: Option<u64>,
    /// Bytes and packets in the device, this one included.
    pub(crate) queued: Option<u64>,
    pub(crate) packets: Option<u64>,
}

impl Marks {
    /// None of them.
    pub(crate) const NONE: Self = Self { segs: None, gso: None, departs: None, queued: None, packets: None };
}

/// A system call.
#[derive(Clone, Debug)]
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
    /// Bytes; no zero at the end.
    Text(Vec<u8>),
    List(Vec<Value>),
    /// Fields with their names, where they have one.
    Struct(Vec<(String, Value)>),
    /// An address, `inet_addr("...")` or `inet6_addr("...")`.
    Addr(IpAddr),
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

    /// What a list contains; a struct without names counts as one.
    pub(crate) fn items(&self) -> Option<Vec<&Self>> {
        match self {
            Self::List(items) => Some(items.iter().collect()),
            Self::Struct(fields) if fields.iter().all(|(n, _)| n.is_empty()) => {
                Some(fields.iter().map(|(_, v)| v).collect())
            }
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("..."),
            Self::Int(n) => write!(f, "{n}"),
            Self::Text(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Self::Addr(ip) => write!(f, "{ip}"),
            Self::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Self::Struct(fields) => {
                f.write_str("{")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    let equals = if name.is_empty() { "" } else { "=" };
                    write!(f, "{}{name}{equals}{value}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
        }
    }
}
