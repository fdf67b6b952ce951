//! What calls answered whose result a line leaves open (`= ...`), and how two runs of a script differ there.
use super::told;
use crate::script::{CallSpec, Value};
use core::fmt::Write as _;
use lowwater_posix::Reply;

/// Calls that give back a number which a process has by chance.
const MAKES: [&str; 6] = ["socket", "accept", "accept4", "epoll_create", "epoll_create1", "sctp_peeloff"];
/// Calls that tell an address.
const NAMES: [&str; 4] = ["recvfrom", "recvmsg", "getsockname", "getpeername"];
/// Options whose value is by chance or has a clock in it, by level and number: SO_INCOMING_CPU, SO_MEMINFO, SO_INCOMING_NAPI_ID, SO_COOKIE,
/// SO_NETNS_COOKIE, TCP_TIMESTAMP, TCP_CC_INFO, TCP_INFO (which is
/// compared by itself).
const BY_CHANCE: [(i64, i64); 8] = [(1, 49), (1, 55), (1, 56), (1, 57), (1, 71), (6, 24), (6, 26), (6, 11)];

/// What one call answered.
#[derive(Debug)]
pub(super) struct Replied {
    line: usize,
    said: String,
}

impl Replied {
    /// `None` where the line itself says what it expects, or where nothing can be compared.
    pub(super) fn of(line: usize, spec: &CallSpec, reply: &Reply) -> Option<Self> {
        if spec.result.is_some() || (MAKES.contains(&spec.name.as_str()) && reply.ret >= 0) {
            return None;
        }
        let mut said = reply.ret.to_string();
        let _ = reply.errno.map(|errno| write!(said, " {errno}"));
        // Only recvmsg() tells them.
        if reply.msg_flags != 0 && spec.name == "recvmsg" {
            let _ = write!(said, " msg_flags {:#x}", reply.msg_flags);
        }
        for control in &reply.control {
            let _ = write!(said, " cmsg {} {} of {}", control.level, control.ty, control.data.len());
        }
        let number = |index: usize| spec.args.get(index).and_then(Value::int);
        let chance = number(1).zip(number(2)).is_some_and(|option| BY_CHANCE.contains(&option));
        let _ = match (reply.value.as_ref(), reply.int()) {
            ([], _) => Ok(()),
            (value, _) if spec.name == "getsockopt" && chance => write!(said, " {} bytes", value.len()),
            (_, Some(int)) => write!(said, " value {int}"),
            (value, None) => write!(said, " value {value:?}"),
        };
        // A port may be by chance; that there is one is not.
        if let Some(addr) = reply.addr.filter(|_| NAMES.contains(&spec.name.as_str())) {
            let port = if addr.port() == 0 { "0" } else { "..." };
            let _ = write!(said, " of {} port {port}", addr.ip());
        }
        for revents in &reply.revents {
            let _ = write!(said, " revents {revents:#x}");
        }
        for event in &reply.events {
            let _ = write!(said, " events {:#x}", event.events);
        }
        Some(Self { line, said })
    }
}

/// Answers to the same call that differ.
fn apart<'n>(a: &'n [Replied], b: &'n [Replied]) -> impl Iterator<Item = (&'n Replied, &'n Replied)> {
    told::pairs(a, b, |replied| replied.line).filter(|(x, y)| x.said != y.said)
}

/// The first line whose call answers otherwise.
pub(super) fn first(a: &[Replied], b: &[Replied]) -> Option<usize> {
    apart(a, b).map(|(x, _)| x.line).min()
}

/// Lines that name what differs, `-` only in `a` and `+` only in `b`. Empty when nothing does.
pub(super) fn differences(a: &[Replied], b: &[Replied], text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for (x, y) in apart(a, b) {
        let source = text.lines().nth(x.line.saturating_sub(1)).unwrap_or_default().trim();
        out.push(format!("  the call in line {}: {source}", x.line));
        out.push(format!("- {}", x.said));
        out.push(format!("+ {}", y.said));
    }
    out
}
