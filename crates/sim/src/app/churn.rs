//! A client that opens and ends connections one after the other, in every way in which a connection can end.
use super::{App, Io};
use lowwater_core::base::{Error, Instant, SocketId};
use lowwater_core::socket::Event;
use lowwater_core::tcp::{How, SendFlags, SocketOptions};
use std::net::SocketAddr;

/// What to do.
#[derive(Clone, Debug)]
pub struct ChurnSpec {
    /// An echo server.
    pub remote: SocketAddr,
    /// Connections.
    pub rounds: u32,
    /// When to begin.
    pub start: Instant,
    /// Pause between connections.
    pub pause_ns: u64,
    /// Socket options.
    pub options: SocketOptions,
    /// The request goes with the SYN (TCP Fast Open).
    pub fast_open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Close before the handshake is complete.
    Early,
    /// Close without a byte.
    Silent,
    /// Send, read the answer, close.
    Polite,
    /// Send, half-close, read the answer to its end, close.
    HalfClose,
    /// Send and close without reading: data meets a closed socket.
    Rude,
    /// Send and abort.
    Abort,
}

const ENDINGS: [Ending; 6] =
    [Ending::Early, Ending::Silent, Ending::Polite, Ending::HalfClose, Ending::Rude, Ending::Abort];
const REQUEST: &[u8] = b"a request of no particular content, long enough to be noticed when it is gone";

/// The client.
pub struct Churn {
    spec: ChurnSpec,
    id: Option<SocketId>,
    ending: Ending,
    rounds: u32,
    got: usize,
    /// Of the request.
    sent: usize,
}

impl Churn {
    /// A client that starts at its time.
    #[must_use]
    pub fn new(spec: ChurnSpec) -> Self {
        Self { spec, id: None, ending: Ending::Silent, rounds: 0, got: 0, sent: 0 }
    }

    fn connect(&mut self, io: &mut Io<'_>) -> Result<SocketId, Error> {
        self.sent = 0;
        if !self.spec.fast_open || matches!(self.ending, Ending::Early | Ending::Silent) {
            return io.connect(self.spec.remote, &self.spec.options);
        }
        let (id, sent) = io.connect_with_data(self.spec.remote, &self.spec.options, REQUEST)?;
        self.sent = sent;
        Ok(id)
    }

    fn end(&mut self, io: &mut Io<'_>, abort: bool) {
        if let Some(id) = self.id.take() {
            if abort {
                io.core.abort(io.now, id);
            } else {
                io.core.close(io.now, id);
            }
        }
        self.rounds += 1;
        if self.rounds < self.spec.rounds {
            io.wake_at(io.now.plus_nanos(self.spec.pause_ns));
        }
    }

    fn connected(&mut self, io: &mut Io<'_>, id: SocketId) {
        if self.ending == Ending::Silent {
            return self.end(io, false);
        }
        let rest = &REQUEST[self.sent..];
        if !rest.is_empty() {
            match io.core.tcp_send(io.now, id, rest, SendFlags::default()) {
                Ok(n) if n == rest.len() => {}
                other => io.fail("bytes", format!("a first write of {} bytes gave {other:?}", rest.len())),
            }
        }
        match self.ending {
            Ending::Abort => self.end(io, true),
            Ending::Rude => self.end(io, false),
            Ending::HalfClose => {
                if let Err(e) = io.core.shutdown(io.now, id, How::Write) {
                    io.fail("bytes", format!("shutdown failed: {e}"));
                }
            }
            Ending::Early | Ending::Silent | Ending::Polite => {}
        }
    }

    fn read(&mut self, io: &mut Io<'_>, id: SocketId) {
        let mut buffer = [0; 256];
        loop {
            match io.core.tcp_recv(io.now, id, &mut buffer) {
                Ok(0) => {
                    if self.got != REQUEST.len() {
                        io.fail("bytes", format!("the answer ended after {} bytes", self.got));
                    }
                    return self.end(io, false);
                }
                Ok(n) => {
                    if REQUEST.get(self.got..self.got + n) != Some(&buffer[..n]) {
                        io.fail("bytes", format!("a wrong answer at {}", self.got));
                    }
                    self.got += n;
                    if self.ending == Ending::Polite && self.got == REQUEST.len() {
                        return self.end(io, false);
                    }
                }
                Err(Error::WouldBlock) => return,
                Err(e) => {
                    io.fail("bytes", format!("a {:?} connection failed: {e}", self.ending));
                    return self.end(io, true);
                }
            }
        }
    }
}

impl App for Churn {
    fn name(&self) -> &'static str {
        "churn"
    }

    fn start(&mut self, io: &mut Io<'_>) {
        io.wake_at(self.spec.start);
    }

    fn wake(&mut self, io: &mut Io<'_>) {
        if self.id.is_some() || self.done() {
            return;
        }
        self.ending = ENDINGS[io.rng.below(ENDINGS.len() as u64) as usize];
        self.got = 0;
        match self.connect(io) {
            Ok(id) => {
                self.id = Some(id);
                if self.ending == Ending::Early {
                    self.end(io, false);
                }
            }
            Err(e) => {
                io.fail("bytes", format!("connect failed: {e}"));
                self.rounds = self.spec.rounds;
            }
        }
    }

    fn event(&mut self, io: &mut Io<'_>, event: Event) {
        match event {
            Event::Connected(id) if self.id == Some(id) => self.connected(io, id),
            Event::Readable(id) if self.id == Some(id) => self.read(io, id),
            Event::Closed(id) if self.id == Some(id) => {
                if let Some(e) = io.core.take_error(io.now, id) {
                    io.fail("bytes", format!("a {:?} connection failed: {e}", self.ending));
                    self.end(io, true);
                }
            }
            _ => {}
        }
    }

    fn done(&self) -> bool {
        self.rounds >= self.spec.rounds
    }

    fn stop(&mut self, _io: &mut Io<'_>) {}

    fn progress(&self) -> String {
        format!("{} of {} connections, now {:?}", self.rounds, self.spec.rounds, self.ending)
    }
}
