//! A client that sends requests to an echo server, one at a time, and checks every answer.
use super::{App, Io, READ_BYTES, pattern};
use lowwater_core::base::{Error, Instant, SocketId};
use lowwater_core::socket::Event;
use lowwater_core::tcp::{SendFlags, SocketOptions};
use std::net::SocketAddr;

/// What to ask.
#[derive(Clone, Debug)]
pub struct RrSpec {
    /// The server.
    pub remote: SocketAddr,
    /// Key of the bytes.
    pub key: u64,
    /// Requests.
    pub rounds: u32,
    /// Bytes per request and answer.
    pub size: usize,
    /// Pause between an answer and the next request.
    pub think_ns: u64,
    /// When to connect.
    pub start: Instant,
    /// Socket options.
    pub options: SocketOptions,
    /// Requests that are written in two halves, the first of which says that more follows, in a hundred.
    pub more: u8,
}

/// The client.
pub struct Rr {
    spec: RrSpec,
    id: Option<SocketId>,
    written: u64,
    read: u64,
    allowed: u64,
    connected: bool,
    done: bool,
}

impl Rr {
    /// A client that starts at its time.
    #[must_use]
    pub fn new(spec: RrSpec) -> Self {
        Self { spec, id: None, written: 0, read: 0, allowed: 0, connected: false, done: false }
    }

    fn total(&self) -> u64 {
        u64::from(self.spec.rounds) * self.spec.size as u64
    }

    fn write(&mut self, io: &mut Io<'_>) {
        let Some(id) = self.id else { return };
        while self.written < self.allowed {
            let mut n = (self.allowed - self.written).min(READ_BYTES as u64) as usize;
            let more = self.spec.more > 0 && n > 1 && io.rng.below(100) < self.spec.more.into();
            if more {
                n /= 2;
            }
            let flags = SendFlags { more, ..SendFlags::default() };
            let mut buffer = vec![0; n];
            pattern::fill(self.spec.key, self.written, &mut buffer);
            match io.core.tcp_send(io.now, id, &buffer, flags) {
                Ok(n) => self.written += n as u64,
                Err(Error::WouldBlock) => return,
                Err(e) => return self.broke(io, e),
            }
        }
    }

    fn read(&mut self, io: &mut Io<'_>) {
        let mut buffer = vec![0; READ_BYTES];
        while let Some(id) = self.id {
            match io.core.tcp_recv(io.now, id, &mut buffer) {
                Ok(0) => return self.broke(io, Error::Reset),
                Ok(n) => self.judge(io, &buffer[..n]),
                Err(Error::WouldBlock) => return,
                Err(e) => return self.broke(io, e),
            }
        }
    }

    fn judge(&mut self, io: &mut Io<'_>, data: &[u8]) {
        if let Some(at) = pattern::mismatch(self.spec.key, self.read, data) {
            io.fail(
                "bytes",
                format!("answer {:016x}: wrong byte at {}", self.spec.key, self.read + at as u64),
            );
        }
        self.read += data.len() as u64;
        if self.read > self.written {
            io.fail(
                "bytes",
                format!("answer {:016x}: {} of {} bytes", self.spec.key, self.read, self.written),
            );
        }
        if self.read >= self.total() {
            self.done = true;
            if let Some(id) = self.id.take() {
                io.core.close(io.now, id);
            }
        } else if self.read == self.allowed {
            if self.spec.think_ns == 0 {
                self.next_round(io);
            } else {
                io.wake_at(io.now.plus_nanos(self.spec.think_ns));
            }
        }
    }

    fn next_round(&mut self, io: &mut Io<'_>) {
        if self.read == self.allowed {
            self.allowed = (self.allowed + self.spec.size as u64).min(self.total());
        }
        self.write(io);
    }

    fn broke(&mut self, io: &mut Io<'_>, e: Error) {
        io.fail("bytes", format!("client {:016x} failed after {} bytes: {e}", self.spec.key, self.read));
        self.done = true;
        self.id = None;
    }
}

impl App for Rr {
    fn name(&self) -> &'static str {
        "rr"
    }

    fn start(&mut self, io: &mut Io<'_>) {
        io.wake_at(self.spec.start);
    }

    fn wake(&mut self, io: &mut Io<'_>) {
        if self.done {
            return;
        }
        if self.id.is_some() {
            if self.connected {
                self.next_round(io);
            }
            return;
        }
        match io.connect(self.spec.remote, &self.spec.options) {
            Ok(id) => self.id = Some(id),
            Err(e) => self.broke(io, e),
        }
    }

    fn event(&mut self, io: &mut Io<'_>, event: Event) {
        match event {
            Event::Connected(_) => {
                self.connected = true;
                self.next_round(io);
            }
            Event::Writable(_) => self.write(io),
            Event::Readable(_) => self.read(io),
            Event::Closed(id) if self.id == Some(id) => {
                if let Some(e) = io.core.take_error(io.now, id) {
                    self.broke(io, e);
                }
            }
            _ => {}
        }
    }

    fn done(&self) -> bool {
        self.done
    }

    fn stop(&mut self, _io: &mut Io<'_>) {}

    fn progress(&self) -> String {
        format!("{} of {} bytes answered, {} written", self.read, self.total(), self.written)
    }

    fn sockets(&self) -> Vec<SocketId> {
        self.id.into_iter().collect()
    }
}
