//! System calls on the stack's sockets.
use super::Runner;
use super::net::PORT;
use super::sockets::{Answer, Blocked, Kind, Sock};
use crate::failure::Failure;
use crate::names::{self, MSG_DONTWAIT, MSG_EOR, MSG_MORE, MSG_NOSIGNAL, MSG_PEEK, O_NONBLOCK, O_RDWR};
use crate::script::{CallSpec, Value};
use core::net::SocketAddr;
use lowwater_core::base::{Error, SocketId};
use lowwater_core::stack::{ListenAddr, ListenOptions};
use lowwater_core::tcp::{How, Ready, SendFlags, SocketOptions, State};

/// Most bytes that one call reads or writes.
const BYTES_MAX: i64 = 1 << 26;
const POLL_BITS: [(Ready, i64); 5] =
    [(Ready::IN, 1 | 64), (Ready::OUT, 4 | 256), (Ready::ERR, 8), (Ready::HUP, 16), (Ready::RDHUP, 0x2000)];

impl Runner {
    /// Makes a call and compares its result, or lets it block until `end`.
    pub(super) fn call(
        &mut self,
        line: usize,
        spec: &CallSpec,
        end: Option<u64>,
    ) -> Result<(), Box<Failure>> {
        if let Some(blocked) = &self.blocked {
            let what = format!("the call in line {} still blocks", blocked.line);
            return Err(Failure::new(line, what));
        }
        let answer = self.answer(line, spec, 0, end.is_some())?;
        match (answer, end) {
            (Answer::Blocks(written), Some(end)) => {
                let call = CallSpec {
                    name: spec.name.clone(),
                    args: spec.args.clone(),
                    end: spec.end,
                    result: spec.result,
                    errno: spec.errno.clone(),
                };
                self.blocked = Some(Blocked { line, call, end, written });
                Ok(())
            }
            (Answer::Blocks(_), None) => {
                let what = "the call blocks, but its line has no end ('...')";
                Err(Failure::differs(line, what, told(spec), "nothing yet"))
            }
            (answer, _) => self.check(line, spec, &answer),
        }
    }

    /// Compares a result.
    pub(super) fn check(
        &mut self,
        line: usize,
        spec: &CallSpec,
        answer: &Answer,
    ) -> Result<(), Box<Failure>> {
        let (result, errno) = match answer {
            Answer::Done(n) => (*n, None),
            Answer::Failed(name) => (-1, Some(*name)),
            Answer::Blocks(_) => return Ok(()),
        };
        let same = spec.result.is_none_or(|r| r == result)
            && (spec.errno.is_none() || spec.errno.as_deref() == errno);
        if same {
            return Ok(());
        }
        let actual = errno.map_or_else(|| result.to_string(), |e| format!("-1 {e}"));
        Err(Failure::differs(line, format!("{} has another result", spec.name), told(spec), actual))
    }

    /// Makes a call. Of a call that is repeated after it blocked, `written` bytes are done.
    pub(super) fn answer(
        &mut self,
        line: usize,
        spec: &CallSpec,
        written: usize,
        may_block: bool,
    ) -> Result<Answer, Box<Failure>> {
        let known = match spec.name.as_str() {
            "socket" => return self.socket(line, spec),
            "poll" => return self.poll(line, spec, may_block),
            "read" | "write" | "recv" | "recvfrom" | "send" | "sendto" | "readv" | "writev" | "accept"
            | "connect" | "bind" | "listen" | "close" | "shutdown" | "fcntl" | "ioctl" | "setsockopt"
            | "getsockopt" => true,
            _ => false,
        };
        if !known {
            return Err(Failure::new(line, format!("the call {} does not work yet", spec.name)));
        }
        let fd = number(line, spec, 0)?;
        if self.sockets.get(fd).is_none() {
            return Ok(Answer::Failed("EBADF"));
        }
        match spec.name.as_str() {
            "bind" => self.bind(fd),
            "listen" => self.listen(fd, number(line, spec, 1)?),
            "accept" => self.accept(line, fd, spec),
            "connect" => self.connect(fd),
            "read" | "recv" | "recvfrom" => {
                self.read(fd, number(line, spec, 2)?, flags(line, spec, MSG_PEEK)?)
            }
            "write" | "send" | "sendto" => {
                self.write(fd, number(line, spec, 2)?, flags(line, spec, MSG_MORE | MSG_EOR)?, written)
            }
            "readv" => self.read(fd, vector(line, spec)?, 0),
            "writev" => self.write(fd, vector(line, spec)?, 0, written),
            "shutdown" => self.shut(fd, number(line, spec, 1)?),
            "fcntl" => self.fcntl(fd, number(line, spec, 1)?, spec.args.get(2)),
            "ioctl" => self.ioctl(line, fd, spec),
            "setsockopt" => self.setsockopt(line, fd, spec),
            "getsockopt" => self.getsockopt(line, fd, spec),
            _ => Ok(self.close(fd)),
        }
    }

    fn socket(&mut self, line: usize, spec: &CallSpec) -> Result<Answer, Box<Failure>> {
        if number(line, spec, 1)? & 0xf != 1 {
            return Err(Failure::new(line, "only SOCK_STREAM works yet"));
        }
        let options = SocketOptions::new(self.stack.sysctl());
        let nonblocking = number(line, spec, 1)? & O_NONBLOCK != 0;
        let sock = Sock { kind: Kind::Fresh, bound: None, nonblocking, connecting: false, options };
        self.name(line, spec, sock)
    }

    /// Gives a new socket the number that the script calls it by.
    fn name(&mut self, line: usize, spec: &CallSpec, sock: Sock) -> Result<Answer, Box<Failure>> {
        let Some(fd) = spec.result.filter(|fd| *fd >= 0) else { return Ok(Answer::Done(0)) };
        if self.sockets.insert(fd, sock) {
            return Ok(Answer::Done(fd));
        }
        Err(Failure::new(line, format!("the script has a socket {fd} already")))
    }

    fn bind(&mut self, fd: i64) -> Result<Answer, Box<Failure>> {
        let local = SocketAddr::new(self.local, PORT);
        let Some(sock) = self.sockets.get(fd) else { return Ok(Answer::Failed("EBADF")) };
        if sock.bound.is_some() || sock.kind != Kind::Fresh {
            return Ok(Answer::Failed("EINVAL"));
        }
        sock.bound = Some(local);
        Ok(Answer::Done(0))
    }

    fn listen(&mut self, fd: i64, backlog: i64) -> Result<Answer, Box<Failure>> {
        let Some(mut sock) = self.sockets.get(fd).cloned() else { return Ok(Answer::Failed("EBADF")) };
        if sock.kind != Kind::Fresh {
            let again = matches!(sock.kind, Kind::Listener(_));
            return Ok(if again { Answer::Done(0) } else { Answer::Failed("EINVAL") });
        }
        let addr = sock.bound.map_or(ListenAddr { ip: None, port: Some(0) }, ListenAddr::from);
        let backlog = u32::try_from(backlog).unwrap_or(u32::MAX);
        let options = ListenOptions { backlog, ask: false, options: sock.options.clone() };
        Ok(match self.stack.tcp_listen(self.now, addr, options) {
            Ok(id) => {
                sock.kind = Kind::Listener(id);
                sock.bound = self.stack.local_addr(id).ok();
                self.sockets.insert(fd, sock);
                Answer::Done(0)
            }
            Err(e) => failed(e),
        })
    }

    fn accept(&mut self, line: usize, fd: i64, spec: &CallSpec) -> Result<Answer, Box<Failure>> {
        let Some(sock) = self.sockets.get(fd).cloned() else { return Ok(Answer::Failed("EBADF")) };
        let Kind::Listener(listener) = sock.kind else { return Ok(Answer::Failed("EINVAL")) };
        match self.stack.tcp_accept(self.now, listener) {
            Ok((id, _)) => {
                let kind = Kind::Conn(id);
                let child = Sock { kind, bound: None, nonblocking: false, connecting: false, ..sock };
                self.name(line, spec, child)
            }
            Err(Error::WouldBlock) if !sock.nonblocking => Ok(Answer::Blocks(0)),
            Err(e) => Ok(failed(e)),
        }
    }

    fn connect(&mut self, fd: i64) -> Result<Answer, Box<Failure>> {
        let remote = SocketAddr::new(self.remote, PORT);
        let Some(mut sock) = self.sockets.get(fd).cloned() else { return Ok(Answer::Failed("EBADF")) };
        match sock.kind {
            Kind::Fresh => {
                match self.stack.tcp_connect(self.now, remote, sock.bound, &sock.options) {
                    Ok(id) => sock.kind = Kind::Conn(id),
                    Err(e) => return Ok(failed(e)),
                }
                sock.connecting = true;
                let nonblocking = sock.nonblocking;
                self.flow = None;
                self.sockets.insert(fd, sock);
                Ok(if nonblocking { Answer::Failed("EINPROGRESS") } else { Answer::Blocks(0) })
            }
            Kind::Conn(id) => Ok(self.connect_again(fd, id, &sock)),
            Kind::Listener(_) => Ok(Answer::Failed("EISCONN")),
        }
    }

    fn connect_again(&mut self, fd: i64, id: SocketId, sock: &Sock) -> Answer {
        if !sock.connecting {
            return Answer::Failed("EISCONN");
        }
        let state = self.stack.tcp_state(id);
        if matches!(state, Ok(State::SynSent | State::SynRecv)) {
            return if sock.nonblocking { Answer::Failed("EALREADY") } else { Answer::Blocks(0) };
        }
        let error = match self.stack.take_error(id) {
            Some(e) => names::errno(e).0,
            None if matches!(state, Ok(State::Close) | Err(_)) => "ECONNABORTED",
            None => {
                self.sockets.get(fd).into_iter().for_each(|sock| sock.connecting = false);
                return Answer::Done(0);
            }
        };
        // A connect() that has told its failure leaves a socket that can try again (`tcp_disconnect`).
        let gone = self.stack.close(self.now, id);
        debug_assert_eq!(gone, Ok(()));
        self.sockets.forget_latest();
        if let Some(sock) = self.sockets.get(fd) {
            (sock.kind, sock.connecting) = (Kind::Fresh, false);
        }
        Answer::Failed(error)
    }

    fn read(&mut self, fd: i64, count: i64, flags: i64) -> Result<Answer, Box<Failure>> {
        let Some((id, nonblocking)) = self.conn(fd) else { return Ok(Answer::Failed("ENOTCONN")) };
        let mut buf = vec![0; count.clamp(0, BYTES_MAX) as usize];
        Ok(match self.stack.tcp_recv(self.now, id, &mut buf, flags & MSG_PEEK != 0) {
            Ok(n) => Answer::Done(n as i64),
            Err(Error::WouldBlock) if !(nonblocking || flags & MSG_DONTWAIT != 0) => Answer::Blocks(0),
            Err(e) => failed(e),
        })
    }

    fn write(&mut self, fd: i64, count: i64, flags: i64, written: usize) -> Result<Answer, Box<Failure>> {
        let Some((id, nonblocking)) = self.conn(fd) else { return Ok(Answer::Failed("EPIPE")) };
        let dont_wait = nonblocking || flags & MSG_DONTWAIT != 0;
        let data = vec![0; count.clamp(0, BYTES_MAX) as usize];
        let send = SendFlags { more: flags & MSG_MORE != 0, eor: flags & MSG_EOR != 0, oob: false };
        let rest = &data[written.min(data.len())..];
        Ok(match self.stack.tcp_send(self.now, id, rest, send) {
            Ok(n) if n < rest.len() && !dont_wait => Answer::Blocks(written + n),
            Ok(n) => Answer::Done((written + n) as i64),
            Err(Error::WouldBlock) if !dont_wait => Answer::Blocks(written),
            Err(_) if written > 0 => Answer::Done(written as i64),
            Err(e) => failed(e),
        })
    }

    /// The connection behind a file descriptor, and whether calls on it must not wait.
    fn conn(&mut self, fd: i64) -> Option<(SocketId, bool)> {
        let sock = self.sockets.get(fd)?;
        let Kind::Conn(id) = sock.kind else { return None };
        Some((id, sock.nonblocking))
    }

    fn shut(&mut self, fd: i64, how: i64) -> Result<Answer, Box<Failure>> {
        let Some((id, _)) = self.conn(fd) else { return Ok(Answer::Failed("ENOTCONN")) };
        let how = match how {
            0 => How::Read,
            1 => How::Write,
            2 => How::Both,
            _ => return Ok(Answer::Failed("EINVAL")),
        };
        Ok(self.stack.shutdown(self.now, id, how).map_or_else(failed, |()| Answer::Done(0)))
    }

    fn close(&mut self, fd: i64) -> Answer {
        let Some(sock) = self.sockets.remove(fd) else { return Answer::Failed("EBADF") };
        match sock.kind {
            Kind::Fresh => Answer::Done(0),
            Kind::Listener(id) | Kind::Conn(id) => {
                self.stack.close(self.now, id).map_or_else(failed, |()| Answer::Done(0))
            }
        }
    }

    fn fcntl(&mut self, fd: i64, command: i64, arg: Option<&Value>) -> Result<Answer, Box<Failure>> {
        let Some(sock) = self.sockets.get(fd) else { return Ok(Answer::Failed("EBADF")) };
        Ok(match command {
            3 => Answer::Done(O_RDWR | if sock.nonblocking { O_NONBLOCK } else { 0 }),
            4 => {
                sock.nonblocking = arg.and_then(Value::int).is_some_and(|n| n & O_NONBLOCK != 0);
                Answer::Done(0)
            }
            _ => Answer::Failed("EINVAL"),
        })
    }

    fn ioctl(&mut self, line: usize, fd: i64, spec: &CallSpec) -> Result<Answer, Box<Failure>> {
        let Some((id, _)) = self.conn(fd) else { return Ok(Answer::Failed("EINVAL")) };
        let report = self.stack.report();
        let Some(socket) = report.sockets.iter().find(|s| s.id == Some(id)) else {
            return Ok(Answer::Failed("EBADF"));
        };
        let actual = match number(line, spec, 1)? {
            0x541b => socket.recv_queue as i64,
            0x5411 => socket.send_queue as i64,
            0x894b => socket.info.as_ref().map_or(0, |i| i64::from(i.notsent_bytes)),
            _ => return Err(Failure::new(line, "this ioctl does not work yet")),
        };
        match spec.args.get(2).and_then(Value::int) {
            Some(expected) if expected != actual => Err(Failure::differs(
                line,
                "ioctl tells another number",
                expected.to_string(),
                actual.to_string(),
            )),
            _ => Ok(Answer::Done(0)),
        }
    }

    fn poll(&mut self, line: usize, spec: &CallSpec, may_block: bool) -> Result<Answer, Box<Failure>> {
        let Some(Value::List(list)) = spec.args.first() else {
            return Err(Failure::new(line, "poll takes a list: [{fd=3, events=POLLIN, revents=POLLIN}]"));
        };
        let mut ready = 0;
        let mut differing = None;
        for entry in list {
            let field = |name| entry.field(name).and_then(Value::int);
            let (Some(fd), Some(events)) = (field("fd"), field("events")) else {
                return Err(Failure::new(line, "poll takes {fd=..., events=..., revents=...}"));
            };
            let actual = self.poll_one(fd) & (events | 8 | 16);
            ready += i64::from(actual != 0);
            if field("revents").is_some_and(|expected| expected != actual) {
                differing = Some((fd, field("revents").unwrap_or_default(), actual));
            }
        }
        let timeout = number(line, spec, 2)?;
        let over = self.wake.is_some_and(|wake| wake <= self.now);
        if ready == 0 && timeout != 0 && may_block && !over {
            if let (None, Ok(ms)) = (self.wake, u64::try_from(timeout)) {
                self.wake = Some(self.now.plus_nanos(ms.saturating_mul(1_000_000)));
            }
            return Ok(Answer::Blocks(0));
        }
        self.wake = None;
        if let Some((fd, expected, actual)) = differing {
            let what = format!("poll tells other events of {fd}");
            return Err(Failure::differs(line, what, format!("{expected:#x}"), format!("{actual:#x}")));
        }
        Ok(Answer::Done(ready))
    }

    fn poll_one(&mut self, fd: i64) -> i64 {
        let Some(sock) = self.sockets.get(fd) else { return 0x20 };
        let (Kind::Conn(id) | Kind::Listener(id)) = sock.kind else { return 4 | 256 | 16 };
        let ready = self.stack.poll(self.now, id);
        POLL_BITS.iter().filter(|(bit, _)| ready.contains(*bit)).fold(0, |all, (_, bits)| all | bits)
    }
}

/// What a script says a call returns.
fn told(spec: &CallSpec) -> String {
    let result = spec.result.map_or_else(|| "...".to_owned(), |r| r.to_string());
    spec.errno.as_ref().map_or(result.clone(), |e| format!("{result} {e}"))
}

pub(super) fn failed(e: Error) -> Answer {
    Answer::Failed(names::errno(e).0)
}

/// An argument that must be a number.
pub(super) fn number(line: usize, spec: &CallSpec, index: usize) -> Result<i64, Box<Failure>> {
    spec.args.get(index).and_then(Value::int).ok_or_else(|| {
        Failure::new(line, format!("argument {} of {} must be a number", index + 1, spec.name))
    })
}

/// Flags of a call that may have some; `allowed` beside those that never matter here.
fn flags(line: usize, spec: &CallSpec, allowed: i64) -> Result<i64, Box<Failure>> {
    if matches!(spec.name.as_str(), "read" | "write") {
        return Ok(0);
    }
    let flags = number(line, spec, 3)?;
    let unknown = flags & !(allowed | MSG_DONTWAIT | MSG_NOSIGNAL);
    if unknown != 0 {
        return Err(Failure::new(line, format!("the flags {unknown:#x} of {} do not work yet", spec.name)));
    }
    Ok(flags)
}

/// Bytes of an array of buffers.
fn vector(line: usize, spec: &CallSpec) -> Result<i64, Box<Failure>> {
    let wrong = || Failure::new(line, format!("{} takes [{{..., 1000}}, {{..., 500}}]", spec.name));
    let Some(Value::List(list)) = spec.args.get(1) else { return Err(wrong()) };
    list.iter().try_fold(0_i64, |sum, item| match item {
        Value::Struct(fields) => {
            let len = fields.get(1).and_then(|(_, v)| v.int()).ok_or_else(wrong)?;
            Ok(sum.saturating_add(len))
        }
        _ => Err(wrong()),
    })
}
