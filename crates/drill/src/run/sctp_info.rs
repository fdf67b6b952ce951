//! What libsctp's sctp_sendv(), sctp_recvv(), sctp_getpaddrs() and their kin make of their arguments (RFC 6458 sections 9.3 to 9.5, 9.12, 9.13).
use super::Runner;
use super::args::Args;
use super::check::{differs, same_flags, same_name, same_struct};
use super::sctp_args::{bytes_of, structure};
use crate::failure::Failure;
use crate::script::Value;
use bytes::Bytes;
use lowwater_posix::abi::{
    IPPROTO_SCTP, SCTP_AUTHINFO, SCTP_GET_LOCAL_ADDRS, SCTP_GET_PEER_ADDRS, SCTP_NXTINFO, SCTP_PRINFO,
    SCTP_RCVINFO, SCTP_SNDINFO, SCTP_SNDRCV,
};
use lowwater_posix::sctp::layout::{Layout, layout, sockaddr, sockaddr_bytes};
use lowwater_posix::{Call, Control, Name, Reply, SendKind};

/// The infotypes of sctp_sendv(), in their order from SCTP_SENDV_SNDINFO on: the structure, and its message to the kernel.
const SENT: [(&str, i32); 3] =
    [("sctp_sndinfo", SCTP_SNDINFO), ("sctp_prinfo", SCTP_PRINFO), ("sctp_authinfo", SCTP_AUTHINFO)];
const SENDV_NOINFO: i64 = 0;
const SENDV_SPA: i64 = 4;
/// Those of sctp_recvv() have a bit for each of the two structures.
const RECEIVED: [(&str, i32, i64); 2] =
    [("sctp_rcvinfo", SCTP_RCVINFO, 1), ("sctp_nxtinfo", SCTP_NXTINFO, 2)];
/// Room for the addresses of an association, with identifier and number in front.
const ADDRESSES_ROOM: usize = 4_096;

fn control(ty: i32, data: Vec<u8>) -> Control {
    Control { level: IPPROTO_SCTP, ty, data: data.into() }
}

/// The structure of an argument, which must be this one.
fn of_name(a: &Args<'_>, value: &Value, name: &str) -> Result<Vec<u8>, Box<Failure>> {
    let Value::Struct(fields) = value else {
        return a.fail(format!("the information should be a struct {name}, not {value}"));
    };
    let of = layout(name).filter(|of| fields.iter().all(|(field, _)| of.field(field).is_some()));
    match of.and_then(|of| bytes_of(of, fields)) {
        Some(bytes) => Ok(bytes),
        None => a.fail(format!("{value} is no struct {name}")),
    }
}

/// The part of a structure that one of its fields is.
fn part(of: Option<&Layout>, bytes: &[u8], field: &str) -> Vec<u8> {
    let place = of.and_then(|of| of.field(field));
    place.and_then(|(at, size)| bytes.get(at..at + size)).unwrap_or_default().to_vec()
}

impl Runner<'_> {
    /// sctp_sendv(fd, iov, iovcnt, addrs, addrcnt, info, infolen, infotype, flags).
    pub(super) fn sctp_sendv(&self, a: &Args<'_>) -> Result<Call, Box<Failure>> {
        a.at_most(9)?;
        let data = a.counted(a.pieces(a.value(1)?)?)?;
        let (value, ty) = (a.value(5)?, a.number(7)?);
        let control = match ty {
            SENDV_NOINFO => Vec::new(),
            SENDV_SPA => spa(&of_name(a, value, "sctp_sendv_spa")?),
            1..=3 => {
                let (name, message) = SENT[ty as usize - 1];
                vec![control(message, of_name(a, value, name)?)]
            }
            _ => return a.fail(format!("{ty} is no infotype: SCTP_SENDV_NOINFO to SCTP_SENDV_SPA")),
        };
        let (fd, to) = (self.fds.live(a.number(0)?), self.one_address(a, 3)?);
        Ok(Call::Send { fd, kind: SendKind::Sendmsg, data, flags: a.int(8)?, to, control })
    }

    /// sctp_sendx(fd, message, length, addrs, addrcnt, sinfo, flags).
    pub(super) fn sctp_sendx(&self, a: &Args<'_>) -> Result<Call, Box<Failure>> {
        a.at_most(7)?;
        let data = vec![a.piece(a.value(1)?, a.length(2)?)?];
        let control = vec![control(SCTP_SNDRCV, of_name(a, a.value(5)?, "sctp_sndrcvinfo")?)];
        let (fd, to) = (self.fds.live(a.number(0)?), self.one_address(a, 3)?);
        Ok(Call::Send { fd, kind: SendKind::Sendmsg, data, flags: a.int(6)?, to, control })
    }

    /// The address of a message and how many there are: none, or one.
    fn one_address(&self, a: &Args<'_>, at: usize) -> Result<Option<Name>, Box<Failure>> {
        let count = a.number(at + 1)?;
        match (a.value(at)?, count) {
            (Value::Int(0), _) | (_, 0) => Ok(None),
            (Value::List(list), 1) if list.len() == 1 => self.peer_name(a, &list[0]).map(Some),
            (value @ (Value::Any | Value::Struct(_)), 1) => self.peer_name(a, value).map(Some),
            _ => a.fail("a message has one address here"),
        }
    }

    /// sctp_getpaddrs(fd, id, addrs) and sctp_getladdrs().
    pub(super) fn sctp_get_addrs(&self, a: &Args<'_>) -> Result<Call, Box<Failure>> {
        a.at_most(3)?;
        let name = if a.spec.name == "sctp_getpaddrs" { SCTP_GET_PEER_ADDRS } else { SCTP_GET_LOCAL_ADDRS };
        let assoc = if *a.value(1)? == Value::Any { 0 } else { a.int(1)? };
        let mut value = assoc.to_le_bytes().to_vec();
        value.resize(ADDRESSES_ROOM, 0);
        let fd = self.fds.live(a.number(0)?);
        Ok(Call::GetsockoptIn { fd, level: IPPROTO_SCTP, name, value: value.into() })
    }
}

/// The parts of a struct sctp_sendv_spa that its flags name.
fn spa(bytes: &[u8]) -> Vec<Control> {
    let of = layout("sctp_sendv_spa");
    let flags = of.map_or(0, |of| of.number(bytes, "sendv_flags"));
    let parts = ["sendv_sndinfo", "sendv_prinfo", "sendv_authinfo"].iter().zip(SENT).enumerate();
    let said = parts.filter(|(n, _)| flags & (1 << n) != 0);
    said.map(|(_, (field, (_, message)))| control(message, part(of, bytes, field))).collect()
}

/// What sctp_getpaddrs() and sctp_getladdrs() return is how many addresses there are.
pub(super) fn counted(name: &str, reply: Reply) -> Reply {
    match reply.value.get(4..8) {
        Some(&[a, b, c, d]) if reply.ret >= 0 && ["sctp_getpaddrs", "sctp_getladdrs"].contains(&name) => {
            Reply { ret: i32::from_le_bytes([a, b, c, d]).into(), ..reply }
        }
        _ => reply,
    }
}

/// The addresses, in their order; `...` for any.
pub(super) fn same_addrs(a: &Args<'_>, reply: &Reply) -> Result<(), Box<Failure>> {
    let Some(Value::List(expected)) = a.spec.args.get(2) else { return Ok(()) };
    let (mut bytes, mut all) = (reply.value.get(8..).unwrap_or_default(), Vec::new());
    while let Some(address) = sockaddr(bytes) {
        bytes = bytes.get(sockaddr_bytes(address).len()..).unwrap_or_default();
        all.push(address);
    }
    if expected.len() != all.len() {
        let name = &a.spec.name;
        return differs(
            a.line,
            format!("{name} lists another number of addresses"),
            expected.len(),
            all.len(),
        );
    }
    expected.iter().zip(all).try_for_each(|(value, address)| same_name(a, Some(value), None, Some(address)))
}

/// sctp_recvv(fd, iov, iovcnt, from, [fromlen], info, [infolen], [infotype], [flags]).
pub(super) fn same_recvv(a: &Args<'_>, reply: &Reply) -> Result<(), Box<Failure>> {
    let arg = |index: usize| a.spec.args.get(index);
    let number = |index: usize| arg(index).and_then(Value::int);
    if arg(3) != Some(&Value::Int(0)) {
        same_name(a, arg(3), number(4), reply.addr)?;
    }
    let (mut info, mut ty) = (Vec::new(), 0);
    for (_, message, bit) in RECEIVED {
        let told = reply.control.iter().find(|c| (c.level, c.ty) == (IPPROTO_SCTP, message));
        ty |= told.map_or(0, |_| bit);
        info.extend(told.map(|c| c.data.to_vec()).unwrap_or_default());
    }
    if let Some(expected) = number(7).filter(|expected| *expected != ty) {
        return differs(a.line, "sctp_recvv tells another infotype", expected, ty);
    }
    if let Some(expected) = number(6).filter(|expected| usize::try_from(*expected) != Ok(info.len())) {
        return differs(a.line, "sctp_recvv tells another infolen", expected, info.len());
    }
    same_struct(a, arg(5), &info)?;
    same_flags(a, arg(8).map_or(Some(0), Value::int), reply)
}

/// The structure that an argument of a call is.
pub(super) fn struct_arg(a: &Args<'_>, at: usize) -> Result<Bytes, Box<Failure>> {
    let Value::Struct(fields) = a.value(at)? else {
        return a.fail(format!("argument {} is a structure: {{snd_sid=0, ...}}", at + 1));
    };
    match structure(fields).and_then(|of| bytes_of(of, fields)) {
        Some(bytes) => Ok(bytes.into()),
        None => a.fail("these fields are of no structure of SCTP's"),
    }
}
