//! Compares what a call has written with what the script says: data, addresses, options, events, control messages.
use super::Runner;
use super::args::{Args, CMSGHDR, epoll_event, option_name};
use super::{info, sctp_args, sctp_info, stats};
use crate::failure::Failure;
use crate::names;
use crate::script::{CallSpec, Value};
use core::net::SocketAddr;
use lowwater_core::base::Instant;
use lowwater_posix::abi::{IPPROTO_SCTP, SCM_TIMESTAMPING_OPT_STATS, SCTP_SNDRCV, SOL_SOCKET};
use lowwater_posix::{Control, EpollEvent, Reply};
use std::fmt;

/// Lengths of sockaddr_in and sockaddr_in6.
const SOCKADDR_IN: i64 = 16;
const SOCKADDR_IN6: i64 = 28;
/// Where IP_RECVERR has its fields: name, offset, size.
const EXTENDED_ERR: [(&str, usize, usize); 6] = [
    ("ee_errno", 0, 4),
    ("ee_origin", 4, 1),
    ("ee_type", 5, 1),
    ("ee_code", 6, 1),
    ("ee_info", 8, 4),
    ("ee_data", 12, 4),
];
/// Length of a struct sctp_sndrcvinfo.
const SNDRCVINFO: usize = 32;

impl Runner<'_> {
    /// The first thing that a call has written otherwise than its line says.
    pub(super) fn check_output(
        &self,
        line: usize,
        spec: &CallSpec,
        reply: &Reply,
    ) -> Result<(), Box<Failure>> {
        let a = Args { line, spec };
        let arg = |index: usize| spec.args.get(index);
        match spec.name.as_str() {
            "read" | "recv" => same_data(&a, arg(1).into_iter(), reply),
            "readv" => self.same_vectors(&a, arg(1), reply),
            "recvfrom" => {
                same_data(&a, arg(1).into_iter(), reply)?;
                same_addr(&a, arg(4), arg(5), reply.addr)
            }
            "recvmsg" => self.same_message(&a, arg(1), reply),
            "sctp_recvmsg" => same_sctp(&a, reply),
            "sctp_recvv" => {
                self.same_vectors(&a, arg(1), reply)?;
                sctp_info::same_recvv(&a, reply)
            }
            "sctp_getpaddrs" | "sctp_getladdrs" => sctp_info::same_addrs(&a, reply),
            "sctp_opt_info" => same_struct(&a, arg(3), &reply.value),
            "accept" | "accept4" | "getsockname" | "getpeername" => same_addr(&a, arg(1), arg(2), reply.addr),
            "getsockopt" => same_option(&a, reply),
            "ioctl" => {
                let expected = arg(2).and_then(|v| if let Value::List(_) = v { v.int() } else { None });
                match (expected, reply.int()) {
                    (Some(expected), Some(actual)) if expected != i64::from(actual) => {
                        differs(line, "ioctl tells another number", expected, actual)
                    }
                    _ => Ok(()),
                }
            }
            "poll" => same_revents(&a, arg(0), reply),
            "epoll_wait" => same_events(&a, arg(1), reply),
            _ => Ok(()),
        }
    }

    fn same_vectors(&self, a: &Args<'_>, value: Option<&Value>, reply: &Reply) -> Result<(), Box<Failure>> {
        let buffers = value.map_or(Ok(Vec::new()), |v| a.iovecs(v))?;
        let mut rest = reply.data.as_ref();
        for (buffer, len) in buffers {
            let (here, after) = rest.split_at(len.min(rest.len()));
            same_bytes(a, buffer, here)?;
            rest = after;
        }
        Ok(())
    }

    fn same_message(&self, a: &Args<'_>, value: Option<&Value>, reply: &Reply) -> Result<(), Box<Failure>> {
        let Some(message) = value else { return Ok(()) };
        self.same_vectors(a, message.field("msg_iov"), reply)?;
        same_addr(a, message.field("msg_name"), None, reply.addr)?;
        // A line without msg_flags expects none, as in packetdrill.
        same_flags(a, message.field("msg_flags").map_or(Some(0), Value::int), reply)?;
        if message.field("msg_control") == Some(&Value::Any) {
            return Ok(());
        }
        let expected = message.field("msg_control").and_then(Value::items).unwrap_or_default();
        let whole = || {
            let list: Vec<String> = reply.control.iter().map(control_shown).collect();
            format!("[{}]", list.join(", "))
        };
        if expected.len() != reply.control.len() {
            let count = format!("{} control messages", expected.len());
            return differs(a.line, "recvmsg has another number of control messages", count, whole());
        }
        for (expected, actual) in expected.into_iter().zip(&reply.control) {
            if !self.same_control(a, expected, actual)? {
                return differs(a.line, "recvmsg has another control message", expected, whole());
            }
        }
        Ok(())
    }

    fn same_control(&self, a: &Args<'_>, expected: &Value, actual: &Control) -> Result<bool, Box<Failure>> {
        let data = actual.data.as_ref();
        let is = |name, actual: i64| match expected.field(name) {
            Some(Value::Any) => true,
            value => value.and_then(Value::int) == Some(actual),
        };
        let long = expected.field("cmsg_len").is_none() || is("cmsg_len", (CMSGHDR + data.len()) as i64);
        if !is("cmsg_level", actual.level.into()) || !is("cmsg_type", actual.ty.into()) || !long {
            return Ok(false);
        }
        Ok(match expected.field("cmsg_data") {
            None | Some(Value::Any) => true,
            Some(Value::Text(text)) => text == data,
            Some(Value::Struct(fields)) if sctp_args::structure(fields).is_some() => {
                let of = sctp_args::structure(fields);
                of.is_some_and(|of| sctp_args::difference(of, fields, data).is_none())
            }
            Some(Value::Struct(fields)) if fields.iter().any(|(n, _)| n == "scm_sec") => {
                self.same_time(fields, data)
            }
            Some(Value::Struct(fields)) if stats::told_by(fields) => {
                stats::same(fields, data, self.tolerance(0))
            }
            Some(Value::Struct(fields)) if fields.iter().any(|(n, _)| !n.is_empty()) => {
                fields.iter().all(|(name, value)| {
                    let known = EXTENDED_ERR.iter().find(|(n, ..)| n == name);
                    let actual = known.and_then(|(_, at, size)| info::number(data, *at, *size));
                    *value == Value::Any || value.int().map(i128::from) == actual
                })
            }
            Some(value) => a.layout(value, data.len())? == data,
        })
    }

    /// A time that a control message begins with, counted from the script's beginning, may be as far from what the script says as an
    /// event may.
    fn same_time(&self, fields: &[(String, Value)], data: &[u8]) -> bool {
        let told = |at: usize| info::number(data, at, 8).and_then(|n| u64::try_from(n).ok());
        let Some((seconds, nanos)) = told(0).zip(told(8)) else { return false };
        let since = seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        let at = self.micros(Instant::from_nanos(since.saturating_sub(self.host.epoch_ns())));
        let said = |name: &str| fields.iter().find(|(n, _)| n == name).and_then(|(_, value)| value.int());
        // As in packetdrill a time of zero is any.
        let said = said("scm_sec").zip(said("scm_nsec")).filter(|said| *said != (0, 0));
        let Some((seconds, nanos)) = said else { return true };
        let said =
            u64::try_from(seconds.saturating_mul(1_000_000).saturating_add(nanos / 1_000)).unwrap_or(0);
        at.abs_diff(said) <= self.tolerance(0)
    }
}

pub(super) fn differs<T>(
    line: usize,
    what: impl Into<String>,
    expected: impl fmt::Display,
    actual: impl fmt::Display,
) -> Result<T, Box<Failure>> {
    Err(Failure::differs(line, what, expected.to_string(), actual.to_string()))
}

fn same_data<'v>(
    a: &Args<'_>,
    mut buffers: impl Iterator<Item = &'v Value>,
    reply: &Reply,
) -> Result<(), Box<Failure>> {
    buffers.try_for_each(|buffer| same_bytes(a, buffer, &reply.data))
}

/// The fields of a structure that a line names.
pub(super) fn same_struct(a: &Args<'_>, value: Option<&Value>, actual: &[u8]) -> Result<(), Box<Failure>> {
    let Some(Value::Struct(fields)) = value else { return Ok(()) };
    let Some(of) = sctp_args::structure(fields) else {
        let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        return a.fail(format!("no structure that is known here has the fields {}", names.join(", ")));
    };
    match sctp_args::difference(of, fields, actual) {
        Some((name, expected, actual)) => {
            differs(a.line, format!("{name} has another value"), expected, actual)
        }
        None => Ok(()),
    }
}

/// sctp_recvmsg(fd, buffer, length, from, fromlen, sinfo, flags). What the call has not filled in is as packetdrill made it: zeros.
fn same_sctp(a: &Args<'_>, reply: &Reply) -> Result<(), Box<Failure>> {
    let arg = |index: usize| a.spec.args.get(index);
    same_data(a, arg(1).into_iter(), reply)?;
    if arg(3) != Some(&Value::Int(0)) {
        same_name(a, arg(3), arg(4).and_then(Value::int), reply.addr)?;
    }
    let info = reply.control.iter().find(|c| (c.level, c.ty) == (IPPROTO_SCTP, SCTP_SNDRCV));
    same_struct(a, arg(5), info.map_or(&[0; SNDRCVINFO][..], |control| &control.data))?;
    same_flags(a, arg(6).map_or(Some(0), Value::int), reply)
}

/// The flags of a message.
pub(super) fn same_flags(a: &Args<'_>, expected: Option<i64>, reply: &Reply) -> Result<(), Box<Failure>> {
    match expected {
        Some(flags) if flags != i64::from(reply.msg_flags) => {
            let (expected, actual) = (format!("{flags:#x}"), format!("{:#x}", reply.msg_flags));
            differs(a.line, format!("{} has other flags", a.spec.name), expected, actual)
        }
        _ => Ok(()),
    }
}

/// A string in a script is what the data begins with, as far as there is data; a structure what it holds.
fn same_bytes(a: &Args<'_>, buffer: &Value, data: &[u8]) -> Result<(), Box<Failure>> {
    if matches!(buffer, Value::Struct(_)) {
        return same_struct(a, Some(buffer), data);
    }
    let Value::Text(text) = buffer else { return Ok(()) };
    let n = text.len().min(data.len());
    if text[..n] == data[..n] && data[n..].iter().all(|b| *b == 0) {
        return Ok(());
    }
    let actual = format!("\"{}\"", data.escape_ascii());
    differs(a.line, format!("{} has other data", a.spec.name), buffer, actual)
}

fn same_addr(
    a: &Args<'_>,
    value: Option<&Value>,
    len: Option<&Value>,
    actual: Option<SocketAddr>,
) -> Result<(), Box<Failure>> {
    same_name(a, value, len.and_then(|v| if let Value::List(_) = v { v.int() } else { None }), actual)
}

/// An address, and its length where that is said.
pub(super) fn same_name(
    a: &Args<'_>,
    value: Option<&Value>,
    len: Option<i64>,
    actual: Option<SocketAddr>,
) -> Result<(), Box<Failure>> {
    let number = |name| value.and_then(|v| v.field(name)).and_then(Value::int);
    let Some(actual) = actual else {
        // As recvfrom() of a connection, which leaves the address as it was.
        let named = value.filter(|_| number("sa_family").is_some_and(|family| family != 0));
        return named
            .map_or(Ok(()), |v| differs(a.line, format!("{} tells no address", a.spec.name), v, "none"));
    };
    let family = if actual.is_ipv4() { 2 } else { 10 };
    let ip = value.and_then(|v| v.field("sin_addr"));
    let same = number("sa_family").is_none_or(|f| f == family)
        && number("sin_port").is_none_or(|p| p == i64::from(actual.port()))
        && ip.is_none_or(|ip| *ip == Value::Any || *ip == Value::Addr(actual.ip()));
    if let (false, Some(expected)) = (same, value) {
        return differs(a.line, format!("{} tells another address", a.spec.name), expected, actual);
    }
    let actual_len = if actual.is_ipv4() { SOCKADDR_IN } else { SOCKADDR_IN6 };
    match len {
        // The call itself has room for any address, so that none is cut.
        Some(expected) if expected != actual_len => {
            differs(a.line, format!("{} tells another length", a.spec.name), expected, actual_len)
        }
        _ => Ok(()),
    }
}

fn same_option(a: &Args<'_>, reply: &Reply) -> Result<(), Box<Failure>> {
    let name = option_name(a);
    let actual = reply.value.as_ref();
    if let Some(Value::List(_)) = a.spec.args.get(4) {
        let len = a.number(4)?;
        if usize::try_from(len).ok() != Some(actual.len()) {
            return differs(a.line, format!("{name} has another length"), len, actual.len());
        }
    }
    let wrong = |expected: &Value, actual: String| {
        differs(a.line, format!("{name} has another value"), expected, actual)
    };
    let error = name == "SO_ERROR";
    let number = |n: i64| if error { names::error(n) } else { n.to_string() };
    let shown = || match reply.int() {
        Some(n) => number(n.into()),
        None => format!("\"{}\"", actual.escape_ascii()),
    };
    match a.spec.args.get(3) {
        None | Some(Value::Any) => Ok(()),
        Some(expected @ Value::Text(text)) => {
            let zero = actual.iter().position(|b| *b == 0).unwrap_or(actual.len());
            if actual[..zero] == text[..] || actual == text { Ok(()) } else { wrong(expected, shown()) }
        }
        // struct tcp_info, field by field: ours.
        Some(value @ Value::Struct(fields)) if sctp_args::structure(fields).is_some() => {
            same_struct(a, Some(value), actual)
        }
        Some(Value::Struct(fields)) if fields.iter().all(|(n, _)| n.starts_with("tcpi_")) => {
            for (field, expected) in fields {
                let actual = info::field(actual, field);
                if expected.int().map(i128::from) != actual && *expected != Value::Any {
                    let told = actual.map_or_else(|| info::lacking(field), |n| n.to_string());
                    return differs(a.line, format!("{field} has another value"), expected, told);
                }
            }
            Ok(())
        }
        Some(expected) => {
            let bytes = a.layout(expected, actual.len())?;
            if bytes != actual {
                let brief = if let (Some(n), true) = (expected.int(), actual.len() <= 8) {
                    let mut wide = [0; 8];
                    wide[..actual.len()].copy_from_slice(actual);
                    let unsigned = u64::from_le_bytes(wide);
                    let shown = reply.int().map_or_else(|| unsigned.to_string(), |n| number(n.into()));
                    return differs(a.line, format!("{name} has another value"), number(n), shown);
                } else {
                    format!("{actual:?}")
                };
                return wrong(expected, brief);
            }
            Ok(())
        }
    }
}

fn same_revents(a: &Args<'_>, value: Option<&Value>, reply: &Reply) -> Result<(), Box<Failure>> {
    let entries = value.and_then(Value::items).unwrap_or_default();
    for (entry, actual) in entries.iter().zip(&reply.revents) {
        let expected = entry.field("revents").map_or(Some(0), Value::int);
        if let Some(expected) = expected.filter(|e| *e != i64::from(*actual)) {
            let fd = entry.field("fd").and_then(Value::int).unwrap_or_default();
            let what = format!("poll tells other events of {fd}");
            return differs(a.line, what, format!("{expected:#x}"), format!("{actual:#x}"));
        }
    }
    Ok(())
}

/// epoll_wait's events in their order. What the call has not filled in is as it was: packetdrill compares it with its zeros.
fn same_events(a: &Args<'_>, value: Option<&Value>, reply: &Reply) -> Result<(), Box<Failure>> {
    let expected = match value {
        None | Some(Value::Any) => return Ok(()),
        Some(Value::List(items)) => items.iter().collect(),
        Some(one) => vec![one],
    };
    let show = |e: &EpollEvent| format!("{{events={}, data={}}}", names::bits("EPOLL", e.events), e.data);
    let none = EpollEvent { events: 0, data: 0 };
    for (expected, actual) in expected.into_iter().zip(reply.events.iter().chain(core::iter::repeat(&none))) {
        let wanted = epoll_event(a, expected)?;
        let half = ["fd", "u32"].iter().any(|name| expected.field(name).is_some());
        let same = if half { wanted.data as u32 == actual.data as u32 } else { wanted.data == actual.data };
        if !same || wanted.events != actual.events {
            return differs(a.line, "epoll_wait tells another event", show(&wanted), show(actual));
        }
    }
    Ok(())
}

fn control_shown(control: &Control) -> String {
    let data = match <[u8; 4]>::try_from(control.data.as_ref()) {
        _ if (control.level, control.ty) == (SOL_SOCKET, SCM_TIMESTAMPING_OPT_STATS) => {
            stats::shown(&control.data)
        }
        Ok(bytes) => i32::from_ne_bytes(bytes).to_string(),
        Err(_) => format!("{:?}", control.data.as_ref()),
    };
    format!("{{cmsg_level={}, cmsg_type={}, cmsg_data={data}}}", control.level, control.ty)
}
