//! A program that writes a stream of keyed bytes as fast as its socket takes them, closes, and waits for the peer's end.
use super::{App, Io, pattern};
use crate::check::lowat;
use bytes::{Bytes, BytesMut};
use lowwater_core::base::{Error, Instant, SocketId};
use lowwater_core::socket::Event;
use lowwater_core::tcp::{How, SendFlags, SocketOptions};
use std::net::SocketAddr;

/// What to send.
#[derive(Clone, Debug)]
pub struct BulkSpec {
    /// The peer.
    pub remote: SocketAddr,
    /// Key of the stream; also its name in the ledger.
    pub key: u64,
    /// Bytes in all, header included; at least [`pattern::HEADER`].
    pub bytes: u64,
    /// Bytes per write.
    pub write: usize,
    /// Hand over `Bytes` instead of copying.
    pub owned: bool,
    /// When to connect.
    pub start: Instant,
    /// Socket options.
    pub options: SocketOptions,
    /// Writes that say that more follows, in a hundred.
    pub more: u8,
    /// Writes that end with an urgent byte, in a thousand.
    pub urgent: u16,
    /// The path may be so bad that a connection ends with ETIMEDOUT: that is a figure then, and elsewhere a broken promise.
    pub gives_up: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Connecting,
    Writing,
    Finishing,
    Done,
}

/// The sender.
pub struct Bulk {
    spec: BulkSpec,
    id: Option<SocketId>,
    offset: u64,
    stage: Stage,
    /// When it tried to write last.
    tried: Option<Instant>,
    buffer: Vec<u8>,
}

impl Bulk {
    /// A sender that starts at its time.
    #[must_use]
    pub fn new(spec: BulkSpec) -> Self {
        let buffer = vec![0; spec.write.max(1)];
        Self { spec, id: None, offset: 0, stage: Stage::Waiting, tried: None, buffer }
    }

    fn write_once(&mut self, io: &mut Io<'_>, id: SocketId) -> Result<usize, Error> {
        let left = self.spec.bytes - self.offset;
        let n = left.min(self.buffer.len() as u64) as usize;
        // The last one says the truth.
        let more = self.spec.more > 0 && (n as u64) < left && io.rng.below(100) < self.spec.more.into();
        let oob = self.spec.urgent > 0 && io.rng.below(1_000) < self.spec.urgent.into();
        let flags = SendFlags { more, oob, ..SendFlags::default() };
        if self.spec.owned {
            let mut data = BytesMut::zeroed(n);
            pattern::fill_with_header(self.spec.key, self.spec.bytes, self.offset, &mut data);
            let mut data: Bytes = data.freeze();
            return io.core.tcp_send_bytes(io.now, id, &mut data, flags);
        }
        pattern::fill_with_header(self.spec.key, self.spec.bytes, self.offset, &mut self.buffer[..n]);
        io.core.tcp_send(io.now, id, &self.buffer[..n], flags)
    }

    fn write(&mut self, io: &mut Io<'_>) {
        let Some(id) = self.id else { return };
        self.tried = Some(io.now);
        let bounded = lowat::check(io.core, id, &self.spec.options);
        io.ledger.check(lowat::NAME, io.now, bounded);
        while self.stage == Stage::Writing {
            if self.offset == self.spec.bytes {
                self.stage = Stage::Finishing;
                if let Err(e) = io.core.shutdown(io.now, id, How::Write) {
                    io.fail("bytes", format!("stream {:016x}: shutdown failed: {e}", self.spec.key));
                }
                return;
            }
            match self.write_once(io, id) {
                Ok(n) => {
                    self.offset += n as u64;
                    io.ledger.bytes.sent(io.now, self.spec.key, n);
                }
                Err(Error::WouldBlock) => return,
                Err(e) => return self.broke(io, e),
            }
        }
    }

    fn read(&mut self, io: &mut Io<'_>) {
        let Some(id) = self.id.filter(|_| self.stage != Stage::Done) else { return };
        match io.core.tcp_recv(io.now, id, &mut [0; 64]) {
            Ok(0) if self.stage == Stage::Finishing => {
                self.stage = Stage::Done;
                self.id = None;
                io.core.close(io.now, id);
            }
            Ok(0) => io.fail("bytes", format!("stream {:016x}: the reader closed early", self.spec.key)),
            Ok(n) => io.fail("bytes", format!("stream {:016x}: {n} bytes from a silent peer", self.spec.key)),
            Err(Error::WouldBlock) => {}
            Err(e) => self.broke(io, e),
        }
    }

    fn broke(&mut self, io: &mut Io<'_>, e: Error) {
        self.stage = Stage::Done;
        if self.spec.gives_up && e == Error::TimedOut {
            io.ledger.give_up(io.core, io.now, self.id);
            return;
        }
        io.fail("bytes", format!("stream {:016x}: the writer failed at {}: {e}", self.spec.key, self.offset));
    }
}

impl App for Bulk {
    fn name(&self) -> &'static str {
        "bulk"
    }

    fn start(&mut self, io: &mut Io<'_>) {
        io.ledger.bytes.open(self.spec.key, self.spec.bytes);
        io.wake_at(self.spec.start);
    }

    fn wake(&mut self, io: &mut Io<'_>) {
        if self.stage != Stage::Waiting {
            return;
        }
        match io.connect(self.spec.remote, &self.spec.options) {
            Ok(id) => {
                self.id = Some(id);
                self.stage = Stage::Connecting;
            }
            Err(e) => self.broke(io, e),
        }
    }

    fn event(&mut self, io: &mut Io<'_>, event: Event) {
        match event {
            Event::Connected(_) => {
                io.ledger.connected += 1;
                self.stage = Stage::Writing;
                self.write(io);
            }
            Event::Writable(_) => {
                // Of what it has written itself in this instant, as on connecting, the event may not know.
                let wants = self.stage == Stage::Writing && self.tried != Some(io.now);
                let before = self.offset;
                self.write(io);
                if wants
                    && self.offset == before
                    && self.stage == Stage::Writing
                    && lowat::has_memory(io.core)
                {
                    let what = format!("stream {:016x}: writable, and nothing is taken", self.spec.key);
                    io.fail(lowat::NAME, what);
                }
            }
            Event::Readable(_) => self.read(io),
            Event::Closed(id) if self.id == Some(id) && self.stage != Stage::Done => {
                if let Some(e) = io.core.take_error(io.now, id) {
                    self.broke(io, e);
                }
                self.read(io);
            }
            _ => {}
        }
    }

    fn done(&self) -> bool {
        self.stage == Stage::Done
    }

    fn stop(&mut self, _io: &mut Io<'_>) {}

    fn progress(&self) -> String {
        format!("{:?}, {} of {} bytes written", self.stage, self.offset, self.spec.bytes)
    }

    fn sockets(&self) -> Vec<SocketId> {
        self.id.into_iter().collect()
    }
}
