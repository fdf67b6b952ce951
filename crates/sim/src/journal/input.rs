//! One input of a stack as a value: a verb with its arguments.
use super::codec::{Decoder, Encoder};
use super::options::{
    get_caps, get_options, get_owner, get_packet, put_caps, put_options, put_owner, put_packet,
};
use bytes::Bytes;
use lowwater_core::base::SocketId;
use lowwater_core::device::DeviceCaps;
use lowwater_core::packet::{Owner, Packet};
use lowwater_core::socket::ListenOptions;
use lowwater_core::tcp::{How, SocketOptions};
use std::net::{IpAddr, SocketAddr};

/// A device's answers to the packets of one `transmit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Taken.
    Sent,
    /// Taken and gone.
    Completed,
    /// No room.
    NotNow,
    /// Thrown away.
    Dropped,
    /// Taken, and no room for another.
    Filled,
}

/// A verb of the stack with its arguments.
#[derive(Debug)]
#[allow(missing_docs, reason = "each variant is the verb of the same name")]
pub enum Input {
    AddDevice(DeviceCaps),
    AddAddress(IpAddr, u8),
    AddRoute(IpAddr, u8, Option<IpAddr>),
    SetSysctl(String, String),
    Receive(Packet),
    Flush,
    Complete(Owner),
    DeviceReady,
    HandleTimeout,
    Transmit(usize, Vec<Answer>),
    NextEvent,
    Connect(SocketAddr, SocketOptions),
    ConnectWith(SocketAddr, SocketOptions, Bytes),
    Listen(Option<IpAddr>, Option<u16>, ListenOptions),
    Accept(SocketId),
    Send(SocketId, Bytes, bool, bool),
    SendBytes(SocketId, Bytes, bool, bool),
    Recv(SocketId, usize),
    ReadChunk(SocketId, usize),
    Shutdown(SocketId, How),
    Close(SocketId),
    Abort(SocketId),
    TakeError(SocketId),
    UdpBind(SocketAddr),
    UdpSendTo(SocketId, Bytes, SocketAddr),
    UdpRecvFrom(SocketId),
    SetQdisc(String),
}

impl Input {
    pub(super) fn encode(&self, e: &mut Encoder) {
        match self {
            Self::AddDevice(caps) => {
                e.bytes.push(0);
                put_caps(e, caps);
            }
            Self::AddAddress(ip, prefix) => {
                e.bytes.push(1);
                e.ip(*ip);
                e.number((*prefix).into());
            }
            Self::AddRoute(ip, prefix, via) => {
                e.bytes.push(2);
                e.ip(*ip);
                e.number((*prefix).into());
                e.flag(via.is_some());
                via.iter().for_each(|v| e.ip(*v));
            }
            Self::SetSysctl(name, value) => {
                e.bytes.push(3);
                e.slice(name.as_bytes());
                e.slice(value.as_bytes());
            }
            Self::Receive(p) => {
                e.bytes.push(4);
                put_packet(e, p);
            }
            Self::Flush => e.bytes.push(5),
            Self::Complete(owner) => {
                e.bytes.push(6);
                put_owner(e, *owner);
            }
            Self::DeviceReady => e.bytes.push(7),
            Self::HandleTimeout => e.bytes.push(8),
            Self::Transmit(budget, answers) => {
                e.bytes.push(9);
                e.number(*budget as u64);
                e.slice(&answers.iter().map(|a| *a as u8).collect::<Vec<_>>());
            }
            Self::NextEvent => e.bytes.push(10),
            Self::SetQdisc(words) => {
                e.bytes.push(25);
                e.slice(words.as_bytes());
            }
            _ => self.encode_socket_call(e),
        }
    }

    fn encode_socket_call(&self, e: &mut Encoder) {
        let id = |e: &mut Encoder, tag: u8, id: &SocketId| {
            e.bytes.push(tag);
            e.socket(*id);
        };
        match self {
            Self::Connect(remote, options) => {
                e.bytes.push(11);
                e.addr(*remote);
                put_options(e, options);
            }
            Self::ConnectWith(remote, options, data) => {
                e.bytes.push(26);
                e.addr(*remote);
                put_options(e, options);
                e.slice(data);
            }
            Self::Listen(ip, port, o) => {
                e.bytes.push(12);
                e.flag(ip.is_some());
                ip.iter().for_each(|ip| e.ip(*ip));
                e.optional(port.map(u64::from));
                e.number(o.backlog.into());
                e.flag(o.ask);
                put_options(e, &o.options);
            }
            Self::Accept(s) => id(e, 13, s),
            Self::Send(s, data, more, oob) | Self::SendBytes(s, data, more, oob) => {
                id(e, if matches!(self, Self::Send(..)) { 14 } else { 15 }, s);
                e.slice(data);
                e.flag(*more);
                e.flag(*oob);
            }
            Self::Recv(s, n) | Self::ReadChunk(s, n) => {
                id(e, if matches!(self, Self::Recv(..)) { 16 } else { 17 }, s);
                e.number(*n as u64);
            }
            Self::Shutdown(s, how) => {
                id(e, 18, s);
                e.bytes.push(*how as u8);
            }
            Self::Close(s) => id(e, 19, s),
            Self::Abort(s) => id(e, 20, s),
            Self::TakeError(s) => id(e, 21, s),
            Self::UdpBind(addr) => {
                e.bytes.push(22);
                e.addr(*addr);
            }
            Self::UdpSendTo(s, data, to) => {
                id(e, 23, s);
                e.slice(data);
                e.addr(*to);
            }
            Self::UdpRecvFrom(s) => id(e, 24, s),
            _ => {}
        }
    }

    pub(super) fn decode(d: &mut Decoder<'_>) -> Option<Self> {
        let text = |b: &[u8]| String::from_utf8(b.to_vec()).ok();
        Some(match d.byte()? {
            0 => Self::AddDevice(get_caps(d)?),
            1 => Self::AddAddress(d.ip()?, d.small()?),
            2 => Self::AddRoute(d.ip()?, d.small()?, if d.flag()? { Some(d.ip()?) } else { None }),
            3 => Self::SetSysctl(text(d.slice()?)?, text(d.slice()?)?),
            4 => Self::Receive(get_packet(d)?),
            5 => Self::Flush,
            6 => Self::Complete(get_owner(d)?),
            7 => Self::DeviceReady,
            8 => Self::HandleTimeout,
            9 => {
                Self::Transmit(d.small()?, d.slice()?.iter().map(|b| Answer::of(*b)).collect::<Option<_>>()?)
            }
            10 => Self::NextEvent,
            25 => Self::SetQdisc(text(d.slice()?)?),
            tag => return Self::decode_socket_call(tag, d),
        })
    }

    fn decode_socket_call(tag: u8, d: &mut Decoder<'_>) -> Option<Self> {
        let bytes = |d: &mut Decoder<'_>| d.slice().map(Bytes::copy_from_slice);
        Some(match tag {
            11 => Self::Connect(d.addr()?, get_options(d)?),
            12 => {
                let ip = if d.flag()? { Some(d.ip()?) } else { None };
                let port = d.optional()?.and_then(|p| u16::try_from(p).ok());
                let (backlog, ask) = (d.small()?, d.flag()?);
                Self::Listen(ip, port, ListenOptions { backlog, ask, options: get_options(d)? })
            }
            13 => Self::Accept(d.socket()?),
            14 => Self::Send(d.socket()?, bytes(d)?, d.flag()?, d.flag()?),
            15 => Self::SendBytes(d.socket()?, bytes(d)?, d.flag()?, d.flag()?),
            16 => Self::Recv(d.socket()?, d.small()?),
            17 => Self::ReadChunk(d.socket()?, d.small()?),
            18 => {
                let id = d.socket()?;
                let how = [How::Read, How::Write, How::Both].into_iter().nth(d.byte()?.into())?;
                Self::Shutdown(id, how)
            }
            19 => Self::Close(d.socket()?),
            20 => Self::Abort(d.socket()?),
            21 => Self::TakeError(d.socket()?),
            22 => Self::UdpBind(d.addr()?),
            23 => Self::UdpSendTo(d.socket()?, bytes(d)?, d.addr()?),
            24 => Self::UdpRecvFrom(d.socket()?),
            26 => Self::ConnectWith(d.addr()?, get_options(d)?, bytes(d)?),
            _ => return None,
        })
    }
}

impl Answer {
    fn of(byte: u8) -> Option<Self> {
        [Self::Sent, Self::Completed, Self::NotNow, Self::Dropped, Self::Filled].into_iter().nth(byte.into())
    }
}
