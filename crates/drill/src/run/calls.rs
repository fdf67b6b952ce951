//! Makes the calls of a script: those that block, those that make descriptors, and when they come back.
use super::fds::Kind;
use super::replied::Replied;
use super::{Runner, at, seconds};
use crate::failure::Failure;
use crate::names;
use crate::script::{CallSpec, Value};
use lowwater_posix::abi::{MSG_FASTOPEN, SO_NO_CHECK, SOL_SOCKET};
use lowwater_posix::{Call, CallId, Errno, Fd, Reply, Started};

/// How long packetdrill waits by the clock for a call that blocks, in microseconds: before another call, and at the end of the script.
const AWAITED_US: u64 = 1_000_000;
/// Between two looks at it.
const AWAIT_STEP_US: u64 = 100;

/// A call that has not come back.
#[derive(Debug)]
pub(super) struct Blocked {
    line: usize,
    spec: CallSpec,
    id: CallId,
    /// When it began and when it shall come back, in microseconds of the script.
    from: u64,
    end: u64,
}

impl Runner<'_> {
    /// Before another call packetdrill waits for the one that still blocks, but not for ever: a second after the event before it makes
    /// a call that does not block all the same. `base` is when that event was; this one may come until `late`.
    pub(super) fn await_call(
        &mut self,
        line: usize,
        spec: &CallSpec,
        (base, late): (u64, u64),
    ) -> Result<(), Box<Failure>> {
        let awaited = base.saturating_add(AWAITED_US);
        match &self.blocked {
            None => return Ok(()),
            Some(_) if spec.end.is_none() && self.now() >= awaited => return Ok(()),
            Some(_) => {}
        }
        let until = late.min(awaited);
        while self.blocked.is_some() && self.now() < until {
            let next = self.now().saturating_add(AWAIT_STEP_US).min(until);
            self.advance(at(next), line)?;
            self.finished_call()?;
        }
        match &self.blocked {
            Some(blocked) => {
                Err(Failure::new(line, format!("the call in line {} still blocks", blocked.line)))
            }
            None => Ok(()),
        }
    }

    /// Makes a call and compares its result, or lets it block until `end`.
    pub(super) fn call(
        &mut self,
        line: usize,
        spec: &CallSpec,
        end: Option<u64>,
    ) -> Result<(), Box<Failure>> {
        let from = self.now();
        match (self.start(line, spec)?, end) {
            (Started::Done(reply), end) => {
                let begins = reply.errno == Some(Errno::EINPROGRESS);
                if reply.ret >= 0 || begins {
                    self.opens(spec, begins);
                }
                self.come_back(line, spec, &reply)?;
                end.map_or(Ok(()), |end| self.check_end(line, (from, end), from))
            }
            (Started::Blocked(id), Some(end)) => {
                self.opens(spec, true);
                self.blocked = Some(Blocked { line, spec: spec.clone(), id, from, end });
                Ok(())
            }
            (Started::Blocked(_), None) => {
                let what = "the call blocks, but its line has no end ('...')";
                Err(Failure::differs(line, what, told(spec), "nothing yet"))
            }
        }
    }

    /// Looks whether the blocked call has come back.
    pub(super) fn finished_call(&mut self) -> Result<(), Box<Failure>> {
        let Some(blocked) = self.blocked.take() else { return Ok(()) };
        match self.host.take(blocked.id) {
            Some((when, reply)) => {
                let when = self.micros(when);
                self.come_back(blocked.line, &blocked.spec, &reply)?;
                self.check_end(blocked.line, (blocked.from, blocked.end), when)
            }
            None => {
                self.blocked = Some(blocked);
                Ok(())
            }
        }
    }

    /// At the end of the script packetdrill gives a call that blocks its time, and then none may still block; a real clock is given its slack.
    pub(super) fn last_call(&mut self) -> Result<(), Box<Failure>> {
        let Some((line, from, end)) = self.blocked.as_ref().map(|b| (b.line, b.from, b.end)) else {
            return Ok(());
        };
        let due = end.saturating_add(self.tolerance(end.saturating_sub(from)));
        let now = self.now();
        let until = due.min(now.saturating_add(AWAITED_US)).max(now.saturating_add(self.host.slack_us()));
        self.advance(at(until), line)?;
        self.finished_call()?;
        match self.blocked.take() {
            Some(_) => Err(Failure::new(line, "this call still blocks at the end of the script")),
            None => Ok(()),
        }
    }

    fn check_end(&self, line: usize, (from, end): (u64, u64), when: u64) -> Result<(), Box<Failure>> {
        let tolerance = self.tolerance(end.saturating_sub(from));
        if when.abs_diff(end) > tolerance {
            let what = "the call came back at the wrong time";
            return Err(Failure::differs(line, what, seconds(end), seconds(when)));
        }
        Ok(())
    }

    /// Compares a result and takes note of what the call has made.
    fn come_back(&mut self, line: usize, spec: &CallSpec, reply: &Reply) -> Result<(), Box<Failure>> {
        let makes = matches!(
            spec.name.as_str(),
            "socket" | "accept" | "accept4" | "epoll_create" | "epoll_create1" | "sctp_peeloff"
        );
        let same = match spec.result {
            None => true,
            // The script has its own numbers for descriptors.
            Some(n) if makes && n >= 0 => reply.ret >= 0,
            Some(n) => n == reply.ret,
        };
        // A name that no call here answers with is a difference like any other.
        let wanted = spec.errno.as_deref().and_then(names::errno);
        let actual = reply.errno.map(|errno| i64::from(errno.number()));
        if !same || (spec.errno.is_some() && wanted != actual) {
            let actual = reply.errno.map_or_else(|| reply.ret.to_string(), |e| format!("-1 {e}"));
            let what = missing(spec).filter(|_| reply.errno == Some(Errno::EPROTONOSUPPORT));
            let what = what.unwrap_or_else(|| format!("{} has another result", spec.name));
            return Err(Failure::differs(line, what, told(spec), actual));
        }
        let record = self.record.iter_mut();
        record.for_each(|record| record.replied.extend(Replied::of(line, spec, reply)));
        let still = [Errno::EINPROGRESS, Errno::EALREADY, Errno::EISCONN];
        if ["connect", "sctp_connectx"].contains(&spec.name.as_str())
            && reply.errno.is_some_and(|errno| !still.contains(&errno))
        {
            spec.args.first().and_then(Value::int).into_iter().for_each(|fd| self.fds.failed(fd));
        }
        if reply.ret >= 0 {
            self.check_output(line, spec, reply)?;
            self.remember(line, spec, reply)?;
        }
        Ok(())
    }

    /// A connect() of a stream makes the next SYN the beginning of a new connection, and so does a write with MSG_FASTOPEN. A connect() that
    /// asks what became of the first does not, unless that one has failed: then this one `begins` anew. AF_UNSPEC ends it.
    fn opens(&mut self, spec: &CallSpec, begins: bool) {
        let fd = spec.args.first().and_then(Value::int);
        let stream = fd.is_some_and(|fd| self.fds.kind(fd) == Some(Kind::Stream));
        let flags = match spec.name.as_str() {
            "sendto" | "send" => spec.args.get(3),
            "sendmsg" => spec.args.get(2),
            _ => None,
        };
        let fast = flags.and_then(Value::int).is_some_and(|flags| flags & i64::from(MSG_FASTOPEN) != 0);
        let connect = spec.name == "connect" || spec.name == "sctp_connectx";
        let unspec = spec.name == "connect" && is_unspec(spec.args.get(1));
        if let Some(fd) = fd.filter(|_| stream && (fast || connect)) {
            if connect && (begins || unspec) {
                self.fds.failed(fd);
            }
            // A write with MSG_FASTOPEN may also wait for the connection that a connect() has begun.
            if !unspec && self.fds.begins(fd) {
                self.flows.expect_new();
            }
        }
    }

    fn remember(&mut self, line: usize, spec: &CallSpec, reply: &Reply) -> Result<(), Box<Failure>> {
        let first = spec.args.first().and_then(Value::int).unwrap_or(-1);
        match spec.name.as_str() {
            "socket" => {
                let datagram = spec.args.get(1).and_then(Value::int).is_some_and(|ty| ty & 0xf == 2);
                self.descriptor(line, spec, reply, if datagram { Kind::Datagram } else { Kind::Stream })
            }
            "accept" | "accept4" | "sctp_peeloff" => {
                self.fds.begins(spec.result.unwrap_or(reply.ret));
                self.descriptor(line, spec, reply, Kind::Stream)
            }
            "epoll_create" | "epoll_create1" => self.descriptor(line, spec, reply, Kind::Other),
            "pipe" | "pipe2" => self.pipe(line, spec, reply),
            "listen" => {
                let fd = self.fds.live(first);
                let port = match self.host.call(Call::Getsockname { fd }) {
                    Started::Done(reply) => reply.addr.map_or(0, |a| a.port()),
                    Started::Blocked(_) => 0,
                };
                // As in packetdrill: to listen again changes nothing for the connection under test.
                if self.fds.listens(first) {
                    self.flows.expect_child(port);
                }
                Ok(())
            }
            "setsockopt" => {
                let number = |at: usize| spec.args.get(at).and_then(Value::int);
                if (number(1), number(2)) == (Some(SOL_SOCKET.into()), Some(SO_NO_CHECK.into())) {
                    self.note_checks(first);
                }
                Ok(())
            }
            // What comes next is from the peer that the socket has now.
            "connect" if self.fds.kind(first) == Some(Kind::Datagram) => {
                self.sniffed.datagram = None;
                Ok(())
            }
            "close" => {
                self.fds.remove(first);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Gives a new descriptor the number that the script calls it by.
    fn descriptor(
        &mut self,
        line: usize,
        spec: &CallSpec,
        reply: &Reply,
        kind: Kind,
    ) -> Result<(), Box<Failure>> {
        self.name_fd(line, spec.result.unwrap_or(reply.ret), reply.ret as Fd, kind)
    }

    fn name_fd(&mut self, line: usize, script: i64, live: Fd, kind: Kind) -> Result<(), Box<Failure>> {
        if self.fds.insert(script, live, kind) {
            return Ok(());
        }
        Err(Failure::new(line, format!("the script has a descriptor {script} already")))
    }

    fn pipe(&mut self, line: usize, spec: &CallSpec, reply: &Reply) -> Result<(), Box<Failure>> {
        let ends = spec.args.first().and_then(Value::items).unwrap_or_default();
        let ends: Option<Vec<i64>> = ends.into_iter().map(Value::int).collect();
        let (Some(&[read, write]), Some(live)) = (ends.as_deref(), reply.pipe) else {
            return Err(Failure::new(line, "pipe takes the numbers of its two ends: [5, 6]"));
        };
        self.name_fd(line, read, live.0, Kind::Other)?;
        self.name_fd(line, write, live.1, Kind::Other)
    }
}

/// An address without a family: 0 in its place, as packetdrill has it, or a structure.
fn is_unspec(value: Option<&Value>) -> bool {
    value.is_some_and(|v| *v == Value::Int(0) || v.field("sa_family").and_then(Value::int) == Some(0))
}

/// Sockets that packetdrill's scripts may ask for and that do not exist here.
fn missing(spec: &CallSpec) -> Option<String> {
    const PROTOCOLS: [(i64, &str); 4] = [(1, "ICMP"), (58, "ICMPv6"), (136, "UDP-Lite"), (262, "MPTCP")];
    let asked = spec.args.get(2).filter(|_| spec.name == "socket")?.int()?;
    let (_, name) = PROTOCOLS.iter().find(|(number, _)| *number == asked)?;
    Some(format!("sockets of {name} do not exist here"))
}

/// What a script says a call returns.
fn told(spec: &CallSpec) -> String {
    let result = spec.result.map_or_else(|| "...".to_owned(), |r| r.to_string());
    spec.errno.as_ref().map_or(result.clone(), |e| format!("{result} {e}"))
}
