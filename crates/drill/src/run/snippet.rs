//! Snippets over the connection under test: which facts they know.
use super::python::Noted;
use super::told::{self, Told};
use super::{Runner, counts, info};
use crate::failure::Failure;
use crate::names;
use crate::py::{self, Env};
use crate::script::Snippet;
use crate::target::ORIGIN;
use lowwater_posix::{Call, Fd, Started};

/// What snippets may ask of a connection: level, option, room.
const TCP_INFO: (i32, i32, i32) = (6, 11, 280);
const TCP_CC_INFO: (i32, i32, i32) = (6, 26, 64);
const SO_MEMINFO: (i32, i32, i32) = (1, 55, 36);

/// Datagrams have no checksum.
const SO_NO_CHECK: (i32, i32, i32) = (1, 11, 4);

/// What a snippet knows of the connection under test.
pub(super) struct Facts {
    /// TCP_INFO, TCP_CC_INFO and SO_MEMINFO.
    tcp: Vec<u8>,
    congestion: Vec<u8>,
    memory: Vec<u8>,
}

impl Facts {
    /// A value by the name that packetdrill gives it.
    pub(super) fn get(&self, name: &str) -> Option<i128> {
        let told = info::field(&self.tcp, name).or_else(|| info::memory(&self.memory, name));
        told.or_else(|| info::congestion(&self.congestion, name))
    }
}

impl py::Facts for Facts {
    fn value(&self, name: &str) -> Option<i128> {
        self.get(name).or_else(|| constant(name))
    }

    /// Fields of TCP_INFO, and the constants that snippets have; a word of small letters may have been meant for anything.
    fn near(&self, name: &str) -> Vec<String> {
        if name.starts_with("tcpi_") || !name.contains(|c: char| c.is_ascii_uppercase()) {
            return info::near(name);
        }
        let near = names::near_constants(name).into_iter().filter(|known| constant(known).is_some());
        near.map(str::to_owned).collect()
    }
}

/// The snippets of a script so far.
#[derive(Default)]
pub(super) struct Snippets {
    /// What they leave to one another and have printed.
    pub(super) env: Env,
    /// Each with what it knew.
    pub(super) noted: Vec<Noted>,
    /// Why the first that our own evaluator could not carry out is Python's, and all others with it.
    pub(super) handed: Option<Handed>,
}

/// Why Python must carry a snippet out.
pub(super) struct Handed {
    pub(super) failure: Box<Failure>,
    /// Our own evaluator could read it, and something in it cannot be had.
    pub(super) is_read: bool,
}

/// A constant that snippets have.
fn constant(name: &str) -> Option<i128> {
    let known = ["TCP_", "TCPI_", "E"].iter().any(|p| name.starts_with(p));
    names::constant(name).filter(|_| known).map(i128::from)
}

impl Runner<'_> {
    /// Carries a snippet out.
    pub(super) fn snippet(&mut self, line: usize, snippet: &Snippet) -> Result<(), Box<Failure>> {
        let Some(tcp) = self.tcp_info() else {
            return Err(Failure::new(line, "there is no connection to assert anything about"));
        };
        let (congestion, memory) = match self.fds.latest() {
            Some(fd) => (self.ask(fd, TCP_CC_INFO), self.ask(fd, SO_MEMINFO)),
            None => (None, None),
        };
        let facts =
            Facts { tcp, congestion: congestion.unwrap_or_default(), memory: memory.unwrap_or_default() };
        let Snippets { env, noted, handed } = &mut self.snippets;
        match &snippet.program {
            _ if handed.is_some() => {}
            Err(unread) => *handed = Some(Handed { failure: unread.clone(), is_read: false }),
            Ok(program) => match env.run(program, &facts) {
                Err(wrong) if wrong.expected.is_empty() => {
                    *handed = Some(Handed { failure: Failure::new(wrong.line, wrong.what), is_read: true });
                }
                Err(wrong) => {
                    return Err(Failure::differs(wrong.line, wrong.what, wrong.expected, wrong.actual));
                }
                Ok(()) => {}
            },
        }
        // What stands behind a snippet that Python must read is Python's too, since names stay.
        noted.push(Noted { line, text: snippet.text.clone(), facts });
        Ok(())
    }

    /// TCP_INFO of the connection under test, also before somebody has accepted it.
    fn tcp_info(&mut self) -> Option<Vec<u8>> {
        if let Some(fd) = self.fds.latest() {
            return self.ask(fd, TCP_INFO);
        }
        self.early_info()
    }

    /// TCP_INFO of the connection under test, before somebody has accepted it.
    fn early_info(&mut self) -> Option<Vec<u8>> {
        let flow = self.flows.current()?;
        let (local, remote) = (flow.local, flow.remote);
        self.host.early_info(local, remote)
    }

    /// Writes down what TCP_INFO and SO_MEMINFO say of every stream socket, and of the connection that nobody has accepted.
    pub(super) fn note_info(&mut self, line: usize) {
        // A call that blocks keeps whoever could ask.
        if self.record.is_none() || self.blocked.is_some() {
            return;
        }
        let mut told: Vec<_> = Vec::new();
        for (script, fd) in self.fds.streams() {
            let memory = self.ask(fd, SO_MEMINFO).unwrap_or_default();
            told.extend(self.ask(fd, TCP_INFO).map(|info| (script, info, memory)));
        }
        for (script, fd) in self.fds.datagrams() {
            told.extend(self.ask(fd, SO_MEMINFO).map(|memory| (script, Vec::new(), memory)));
        }
        if self.fds.latest().is_none() {
            told.extend(self.early_info().map(|info| (told::NOBODYS, info, Vec::new())));
        }
        let at = self.host.now().nanos_since(ORIGIN) / 1_000;
        let tell = |(fd, info, memory)| Told { line, fd, at, info, memory };
        self.record.iter_mut().for_each(|record| record.told.extend(told.drain(..).map(tell)));
    }

    /// The same of the counters.
    ///
    /// # Errors
    /// They cannot be read: what is not compared would seem alike.
    pub(super) fn note_counters(&mut self, line: usize) -> Result<(), Box<Failure>> {
        if let Some(record) = &mut self.record {
            record.count(line, counts::read(line, self.host.counters())?);
        }
        Ok(())
    }

    /// What they say when nobody waits for anything any more.
    pub(super) fn note_last_counters(&mut self, line: usize) -> Result<(), Box<Failure>> {
        if let Some(record) = &mut self.record {
            record.count_last(counts::read(line, self.host.counters())?);
        }
        Ok(())
    }

    /// Takes note of whether a socket's datagrams have a checksum, which a call has just said.
    pub(super) fn note_checks(&mut self, script: i64) {
        let value = self.ask(self.fds.live(script), SO_NO_CHECK);
        self.fds.check(script, value.is_none_or(|value| value.iter().all(|byte| *byte == 0)));
    }

    fn ask(&mut self, fd: Fd, (level, name, len): (i32, i32, i32)) -> Option<Vec<u8>> {
        match self.host.call(Call::Getsockopt { fd, level, name, len }) {
            Started::Done(reply) if reply.ret == 0 => Some(reply.value.to_vec()),
            _ => None,
        }
    }
}
