//! SCTP's calls and structures (RFC 6458): what libsctp makes of a call, and how a script writes its structures.
use super::args::Args;
use super::{Runner, sctp_info};
use crate::failure::Failure;
use crate::script::{CallSpec, Value};
use bytes::Bytes;
use core::net::{IpAddr, SocketAddr};
use lowwater_posix::abi::{
    IPPROTO_SCTP, SCTP_BINDX_ADD_ADDR, SCTP_SNDRCV, SCTP_SOCKOPT_BINDX_ADD, SCTP_SOCKOPT_BINDX_REM,
    SCTP_SOCKOPT_CONNECTX3, SCTP_SOCKOPT_PEELOFF, SCTP_STATUS,
};
use lowwater_posix::sctp::layout::{self, Layout, SOCKADDR_STORAGE, sockaddr_bytes};
use lowwater_posix::{Call, Control, Name, Optval, RecvKind, SendKind, Started};
use std::borrow::Cow;

/// The structure of SCTP's interface that has these fields.
pub(super) fn structure(fields: &[(String, Value)]) -> Option<&'static Layout> {
    if fields.is_empty() {
        return None;
    }
    let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    layout::with_fields(&names)
}

/// `{sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("10.0.0.1")}`.
fn address(value: &Value) -> Option<SocketAddr> {
    let port = value.field("sin_port")?.int()?;
    let Value::Addr(ip) = value.field("sin_addr")? else { return None };
    let ip = match (value.field("sa_family")?.int()?, *ip) {
        (10, IpAddr::V4(v4)) => v4.to_ipv6_mapped().into(),
        (_, ip) => ip,
    };
    Some(SocketAddr::new(ip, u16::try_from(port).ok()?))
}

/// Fields in the network's order, which scripts write with `htons`.
const NETWORK_ORDER: [&str; 1] = ["sue_port"];
/// Address fields of options whose `...` is the connected peer in packetdrill.
const OF_THE_PEER: [&str; 4] = ["spinfo_address", "spp_address", "ssp_addr", "sue_address"];

/// Calls whose fourth argument is whom a message is for.
const SENDING: [&str; 3] = ["sctp_sendmsg", "sctp_sendv", "sctp_sendx"];
const RECEIVER: usize = 3;

/// A number as a structure has it.
fn laid_out(name: &str, number: i64, size: usize) -> Option<Vec<u8>> {
    let mut bytes = number.to_le_bytes().get(..size)?.to_vec();
    if NETWORK_ORDER.contains(&name) {
        bytes.reverse();
    }
    Some(bytes)
}

/// The bytes of a structure; what is not said, or `...`, is zero. `None` for a field that cannot be laid out.
pub(super) fn bytes_of(of: &Layout, fields: &[(String, Value)]) -> Option<Vec<u8>> {
    let mut bytes = vec![0; of.size];
    for (name, value) in fields {
        let (at, size) = of.field(name)?;
        if let (Some((_, width)), Value::List(items)) = (of.rest(name), value) {
            for item in items {
                bytes.extend(item.int()?.to_le_bytes().get(..width)?);
            }
            continue;
        }
        let field = match value {
            Value::Any => continue,
            Value::Struct(_) if size == SOCKADDR_STORAGE => sockaddr_bytes(address(value)?),
            Value::Struct(inner) => bytes_of(structure(inner)?, inner)?,
            value => laid_out(name, value.int()?, size)?,
        };
        bytes.get_mut(at..at + field.len())?.copy_from_slice(&field);
    }
    Some(bytes)
}

/// The first field in which a structure differs: its name, what was expected and what is there.
pub(super) fn difference(
    of: &Layout,
    fields: &[(String, Value)],
    actual: &[u8],
) -> Option<(String, String, String)> {
    for (name, expected) in fields {
        let (at, size) = of.field(name)?;
        let end = if of.rest(name).is_some() { actual.len() } else { (at + size).min(actual.len()) };
        let there = actual.get(at..end).unwrap_or_default();
        let told = match expected {
            Value::Any => continue,
            Value::List(items) if of.rest(name).is_some() => {
                let width = of.rest(name).map_or(1, |(_, width)| width);
                let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, byte| n << 8 | i64::from(*byte));
                let there: Vec<i64> = there.chunks(width).map(number).collect();
                if items.iter().map(Value::int).eq(there.iter().map(|n| Some(*n))) {
                    continue;
                }
                format!("{there:?}")
            }
            Value::Struct(_) if size == SOCKADDR_STORAGE => {
                let actual = of.address(actual, name);
                if actual.is_some() && actual == address(expected) {
                    continue;
                }
                actual.map_or_else(|| "no address".to_owned(), |a| a.to_string())
            }
            Value::Struct(inner) => match structure(inner).and_then(|of| difference(of, inner, there)) {
                Some(inside) => return Some(inside),
                None => continue,
            },
            expected => {
                let n = of.number(actual, name);
                let n = if NETWORK_ORDER.contains(&name.as_str()) {
                    n.swap_bytes() >> (64 - 8 * size)
                } else {
                    n
                };
                let wanted = expected.int().map(|n| n as u64 & (u64::MAX >> (64 - 8 * size.clamp(1, 8))));
                if wanted == Some(n) && there.len() == size {
                    continue;
                }
                n.to_string()
            }
        };
        return Some((name.clone(), expected.to_string(), told));
    }
    None
}

/// The address of a structure as a script writes it.
fn written(address: SocketAddr) -> Value {
    let family = if address.is_ipv4() { 2 } else { 10 };
    let fields = [
        ("sa_family", Value::Int(family)),
        ("sin_port", Value::Int(address.port().into())),
        ("sin_addr", Value::Addr(address.ip())),
    ];
    Value::Struct(fields.map(|(name, value)| (name.to_owned(), value)).to_vec())
}

impl Runner<'_> {
    /// `...` for the address in an option of SCTP, or of a message that libsctp sends, is that of the connected peer, as in packetdrill.
    /// Where there is none it is zeros in an option, and in a message the script's usual peer.
    pub(super) fn with_peer<'s>(&mut self, spec: &'s CallSpec) -> Cow<'s, CallSpec> {
        if SENDING.contains(&spec.name.as_str()) {
            return self.with_receiver(spec);
        }
        let open =
            |(name, value): &(String, Value)| *value == Value::Any && OF_THE_PEER.contains(&name.as_str());
        let at =
            spec.args.iter().position(|arg| matches!(arg, Value::Struct(fields) if fields.iter().any(open)));
        let option = ["getsockopt", "setsockopt", "sctp_opt_info"].contains(&spec.name.as_str());
        let (Some(at), Some(fd)) = (at.filter(|_| option), spec.args.first().and_then(Value::int)) else {
            return Cow::Borrowed(spec);
        };
        let Some(peer) = self.peer_of(fd) else { return Cow::Borrowed(spec) };
        let mut spec = spec.clone();
        if let Some(Value::Struct(fields)) = spec.args.get_mut(at) {
            fields.iter_mut().filter(|field| open(field)).for_each(|field| field.1 = written(peer));
        }
        Cow::Owned(spec)
    }

    fn with_receiver<'s>(&mut self, spec: &'s CallSpec) -> Cow<'s, CallSpec> {
        let open = match spec.args.get(RECEIVER) {
            Some(Value::List(list)) => list.contains(&Value::Any),
            value => value == Some(&Value::Any),
        };
        let fd = spec.args.first().and_then(Value::int).filter(|_| open);
        let Some(peer) = fd.and_then(|fd| self.peer_of(fd)) else { return Cow::Borrowed(spec) };
        let mut spec = spec.clone();
        match &mut spec.args[RECEIVER] {
            Value::List(list) => {
                list.iter_mut()
                    .filter(|value| **value == Value::Any)
                    .for_each(|value| *value = written(peer));
            }
            value => *value = written(peer),
        }
        Cow::Owned(spec)
    }

    /// Whom a socket is connected to, if anybody.
    fn peer_of(&mut self, fd: i64) -> Option<SocketAddr> {
        match self.host.call(Call::Getpeername { fd: self.fds.live(fd) }) {
            Started::Done(reply) => reply.addr,
            Started::Blocked(_) => None,
        }
    }

    /// The system call that a function of libsctp makes; `None` for another name.
    pub(super) fn sctp_call(&self, a: &Args<'_>) -> Result<Option<Call>, Box<Failure>> {
        let fd = || a.number(0).map(|fd| self.fds.live(fd));
        Ok(Some(match a.spec.name.as_str() {
            "sctp_sendmsg" => {
                a.at_most(10)?;
                let numbers = [("sinfo_ppid", 5), ("sinfo_flags", 6), ("sinfo_stream", 7)];
                let more = [("sinfo_timetolive", 8), ("sinfo_context", 9)];
                let info = self.info(a, "sctp_sndrcvinfo", numbers.iter().chain(&more))?;
                self.sctp_send(a, 1, Some(3), Control { level: IPPROTO_SCTP, ty: SCTP_SNDRCV, data: info })?
            }
            "sctp_send" => {
                a.at_most(5)?;
                let info = sctp_info::struct_arg(a, 3)?;
                let flags = a.spec.args.get(4).map_or(Ok(0), |_| a.int(4))?;
                let control = Control { level: IPPROTO_SCTP, ty: SCTP_SNDRCV, data: info };
                match self.sctp_send(a, 1, None, control)? {
                    Call::Send { fd, kind, data, to, control, .. } => {
                        Call::Send { fd, kind, data, flags, to, control }
                    }
                    call => call,
                }
            }
            "sctp_sendv" => self.sctp_sendv(a)?,
            "sctp_sendx" => self.sctp_sendx(a)?,
            "sctp_getpaddrs" | "sctp_getladdrs" => self.sctp_get_addrs(a)?,
            "sctp_recvv" => {
                a.at_most(9)?;
                let rooms = a.counted(a.rooms(a.value(1)?)?)?;
                Call::Recv { fd: fd()?, kind: RecvKind::Recvmsg, rooms, flags: 0, control_len: 4_096 }
            }
            "sctp_recvmsg" => {
                a.at_most(7)?;
                let rooms = vec![a.room(a.value(1)?, a.length(2)?)?];
                Call::Recv { fd: fd()?, kind: RecvKind::Recvmsg, rooms, flags: 0, control_len: 4_096 }
            }
            "sctp_bindx" => {
                a.at_most(4)?;
                let add = a.int(3)? == SCTP_BINDX_ADD_ADDR;
                let name = if add { SCTP_SOCKOPT_BINDX_ADD } else { SCTP_SOCKOPT_BINDX_REM };
                let usual = (self.config.ends.local, self.config.ends.bind_port);
                let value = Optval::Bytes(self.addresses(a, usual)?);
                Call::Setsockopt { fd: fd()?, level: IPPROTO_SCTP, name, value }
            }
            "sctp_connectx" => {
                a.at_most(4)?;
                let usual = (self.config.ends.remote, self.config.ends.connect_port);
                let addresses = self.addresses(a, usual)?;
                // As libsctp does it: no identifier yet, and the addresses.
                let mut value = vec![0; 4];
                value.extend((addresses.len() as u32).to_le_bytes());
                value.extend(addresses);
                let (level, name) = (IPPROTO_SCTP, SCTP_SOCKOPT_CONNECTX3);
                Call::GetsockoptIn { fd: fd()?, level, name, value: value.into() }
            }
            "sctp_peeloff" => {
                a.at_most(2)?;
                let mut value = a.int(1)?.to_le_bytes().to_vec();
                value.extend([0; 4]);
                let (level, name) = (IPPROTO_SCTP, SCTP_SOCKOPT_PEELOFF);
                Call::GetsockoptIn { fd: fd()?, level, name, value: value.into() }
            }
            "sctp_opt_info" => {
                // sctp_opt_info(fd, assoc_id, option, value, [length])
                a.at_most(5)?;
                self.option_in(a, IPPROTO_SCTP, a.int(2)?, 3, fd()?)?
            }
            _ => return Ok(None),
        }))
    }

    /// getsockopt() of SCTP, which reads what it is about from where it writes the answer.
    pub(super) fn option_in(
        &self,
        a: &Args<'_>,
        level: i32,
        name: i32,
        at: usize,
        fd: lowwater_posix::Fd,
    ) -> Result<Call, Box<Failure>> {
        let said = match a.spec.args.get(at + 1) {
            Some(Value::Any) | None => None,
            Some(_) => usize::try_from(a.int(at + 1)?).ok().filter(|len| *len <= 4_096),
        };
        let mut value = match a.value(at)? {
            Value::Struct(fields) => match structure(fields).and_then(|of| bytes_of(of, fields)) {
                Some(bytes) => bytes,
                None => return a.fail("these fields are of no structure of SCTP's"),
            },
            _ if name == SCTP_STATUS => vec![0; layout::layout("sctp_status").map_or(0, |of| of.size)],
            _ => vec![0; 4],
        };
        value.resize(said.unwrap_or(value.len()), 0);
        Ok(Call::GetsockoptIn { fd, level, name, value: value.into() })
    }

    fn sctp_send(
        &self,
        a: &Args<'_>,
        buffer: usize,
        to: Option<usize>,
        info: Control,
    ) -> Result<Call, Box<Failure>> {
        let data = vec![a.piece(a.value(buffer)?, a.length(buffer + 1)?)?];
        let to = match to.map(|to| a.value(to)).transpose()? {
            None | Some(Value::Int(0)) => None,
            Some(value) => Some(self.peer_name(a, value)?),
        };
        let fd = self.fds.live(a.number(0)?);
        Ok(Call::Send { fd, kind: SendKind::Sendmsg, data, flags: 0, to, control: vec![info] })
    }

    /// A structure of arguments that are numbers.
    fn info<'n>(
        &self,
        a: &Args<'_>,
        name: &str,
        numbers: impl Iterator<Item = &'n (&'static str, usize)>,
    ) -> Result<Bytes, Box<Failure>> {
        let Some(of) = layout::layout(name) else { return a.fail("no such structure") };
        let mut bytes = vec![0; of.size];
        for (field, at) in numbers {
            of.put(&mut bytes, field, a.number(*at)? as u64);
        }
        Ok(bytes.into())
    }

    /// The addresses of sctp_bindx and sctp_connectx, one behind the other; `...` is the script's usual one.
    fn addresses(&self, a: &Args<'_>, usual: (IpAddr, u16)) -> Result<Bytes, Box<Failure>> {
        let one = |value: &Value| match self.sockaddr(a, value, self.name(usual.0, usual.1))? {
            Name::Inet(address) => Ok(sockaddr_bytes(address)),
            _ => a.fail("an address should stand here"),
        };
        let mut bytes = Vec::new();
        match a.value(1)? {
            Value::List(list) => {
                for value in list {
                    bytes.extend(one(value)?);
                }
            }
            value => bytes = one(value)?,
        }
        let (count, said) = (if let Value::List(list) = a.value(1)? { list.len() } else { 1 }, a.number(2)?);
        if usize::try_from(said) != Ok(count) {
            return a.fail(format!("{} says {said} addresses and lists {count}", a.spec.name));
        }
        Ok(bytes.into())
    }
}
