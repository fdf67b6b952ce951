//! Calls that the runner answers by itself: files, which are the machine's and can only be sent, and those that give and take privileges.
use super::args::Args;
use super::{Runner, sctp_info};
use crate::failure::Failure;
use crate::script::{CallSpec, Value};
use bytes::Bytes;
use lowwater_posix::{Call, Errno, Piece, Reply, SendKind, Started};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};

/// Access modes in open()'s flags, and those that go with reading alone.
const O_ACCMODE: i64 = 3;
const O_HARMLESS: i64 = 0o2_004_000;
/// Privileges that calls here ask for (capabilities(7)).
const CAP_NET_BIND_SERVICE: i64 = 10;
const CAP_NET_ADMIN: i64 = 12;
const CAP_NET_RAW: i64 = 13;
/// Sets of them, and what may be done with one.
const CAP_EFFECTIVE: i64 = 0;
const CAP_PERMITTED: i64 = 1;
const CAP_CLEAR: i64 = 0;

/// The calls that the runner answers.
pub(super) const OWN: [&str; 5] = ["open", "sendfile", "cap_set", "sctp_freepaddrs", "sctp_freeladdrs"];

impl Runner<'_> {
    /// Makes a call: of the runner itself, or of the host.
    pub(super) fn start(&mut self, line: usize, spec: &CallSpec) -> Result<Started, Box<Failure>> {
        let a = Args { line, spec };
        let fd = spec.args.first().and_then(Value::int);
        let file = fd.filter(|fd| self.fds.file(*fd).is_some());
        let writes = ["write", "writev", "send", "sendto", "sendmsg"].contains(&spec.name.as_str());
        self.sniffed.written |= spec.name == "sendfile" || (writes && spec.args.iter().any(has_text));
        match (spec.name.as_str(), file) {
            ("open", _) => self.open(&a),
            ("sendfile", _) => self.sendfile(&a),
            ("cap_set", _) => self.cap_set(&a),
            // What libsctp has taken from the heap.
            ("sctp_freepaddrs" | "sctp_freeladdrs", _) => Ok(Started::Done(Reply::ok(0))),
            ("close", Some(fd)) => {
                self.fds.remove(fd);
                Ok(Started::Done(Reply::ok(0)))
            }
            (name, Some(fd)) => {
                a.fail(format!("{name}: {fd} is a file, which only sendfile and close take here"))
            }
            _ => {
                let with_peer = self.with_peer(spec);
                let call = self.build(line, &with_peer)?;
                Ok(match self.host.call(call) {
                    Started::Done(reply) => Started::Done(sctp_info::counted(&spec.name, reply)),
                    blocked => blocked,
                })
            }
        }
    }

    /// open(path, flags), to be read; looked for from the folder of the script.
    fn open(&mut self, a: &Args<'_>) -> Result<Started, Box<Failure>> {
        a.at_most(2)?;
        let Value::Text(path) = a.value(0)? else {
            return a.fail("open takes a path: open(\"file\", O_RDONLY)");
        };
        let Ok(path) = str::from_utf8(path) else { return a.fail("a path that is no UTF-8") };
        let flags = a.number(1)?;
        if flags & O_ACCMODE != 0 || flags & !O_HARMLESS != 0 {
            return a.fail("open: a script may read files of the machine (O_RDONLY), not write them");
        }
        let whole = self.folder.join(path);
        // What else there is might never end, and sending it or even opening it might wait for ever.
        if whole.metadata().is_ok_and(|is| !is.is_file()) {
            return a.fail(format!("open: {path} is no regular file"));
        }
        Ok(Started::Done(match crate::files::open(&whole) {
            Ok(file) => {
                let script = a.spec.result.unwrap_or_default();
                if !self.fds.insert_file(script, file) {
                    return a.fail(format!("the script has a descriptor {script} already"));
                }
                Reply::ok(script)
            }
            Err(e) => Reply::fail(errno(&e)),
        }))
    }

    /// sendfile(out, file, [offset], count): as one write of what the file has there. Linux moves it by a pipe, and goes on until all is taken or
    /// the socket takes less (`splice_direct_to_actor`).
    fn sendfile(&mut self, a: &Args<'_>) -> Result<Started, Box<Failure>> {
        a.at_most(4)?;
        let Ok(offset) = u64::try_from(a.number(2)?) else { return a.fail("sendfile: an offset below zero") };
        let len = a.length(3)? as u64;
        let Some(mut file) = self.fds.file(a.number(1)?) else {
            return Ok(Started::Done(Reply::fail(Errno::EBADF)));
        };
        let mut data = Vec::new();
        let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.take(len).read_to_end(&mut data));
        if let Err(e) = read {
            return Ok(Started::Done(Reply::fail(errno(&e))));
        }
        if data.is_empty() {
            return Ok(Started::Done(Reply::ok(0)));
        }
        let (fd, data) = (self.fds.live(a.number(0)?), vec![Piece::Data(Bytes::from(data))]);
        Ok(self.host.call(Call::Send {
            fd,
            kind: SendKind::Write,
            data,
            flags: 0,
            to: None,
            control: Vec::new(),
        }))
    }

    /// cap_set(set, privilege, CAP_SET or CAP_CLEAR). What a call asks for is looked for among the effective ones.
    fn cap_set(&mut self, a: &Args<'_>) -> Result<Started, Box<Failure>> {
        a.at_most(3)?;
        let (set, on) = (a.number(0)?, a.number(2)? != CAP_CLEAR);
        let before = self.host.privileges();
        let mut may = before;
        match a.number(1)? {
            CAP_NET_BIND_SERVICE => may.bind_service = on,
            CAP_NET_ADMIN => may.admin = on,
            CAP_NET_RAW => may.raw = on,
            _ => {}
        }
        if set == CAP_PERMITTED && may != before && !on {
            return a.fail("cap_set: a privilege can be taken from CAP_EFFECTIVE, and given back");
        }
        if set == CAP_EFFECTIVE && may != before {
            self.host.set_privileges(may).or_else(|why| a.fail(format!("cap_set: {why}")))?;
        }
        Ok(Started::Done(Reply::ok(0)))
    }
}

fn has_text(value: &Value) -> bool {
    match value {
        Value::Text(_) => true,
        Value::List(items) => items.iter().any(has_text),
        Value::Struct(fields) => fields.iter().any(|(_, value)| has_text(value)),
        _ => false,
    }
}

fn errno(e: &io::Error) -> Errno {
    let known = e.raw_os_error().and_then(Errno::from_number);
    known.unwrap_or(if e.kind() == ErrorKind::NotFound { Errno::ENOENT } else { Errno::EINVAL })
}
