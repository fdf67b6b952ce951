//! A writer that never stops, by edges, or writes now and then; and a server that throws everything away: for figures of long flows.
use super::{App, Io, READ_BYTES};
use bytes::Bytes;
use lowwater_core::base::{Error, Instant, SocketId};
use lowwater_core::socket::{Event, ListenOptions};
use lowwater_core::tcp::{SendFlags, SocketOptions};
use std::net::SocketAddr;

/// What to send.
#[derive(Clone, Debug)]
pub struct FloodSpec {
    /// The peer.
    pub remote: SocketAddr,
    /// Bytes per write.
    pub write: usize,
    /// Hand over `Bytes`, the same ones again and again, instead of copying: queues of gigabytes then fit into memory.
    pub owned: bool,
    /// Time between writes, 0 for one after the other: the application is then what limits the flow.
    pub every_ns: u64,
    /// When to connect.
    pub start: Instant,
    /// Socket options.
    pub options: SocketOptions,
}

/// The writer.
pub struct Flood {
    spec: FloodSpec,
    id: Option<SocketId>,
    data: Bytes,
    written: u64,
    aborted: bool,
}

impl Flood {
    /// A writer that starts at its time.
    #[must_use]
    pub fn new(spec: FloodSpec) -> Self {
        let data = Bytes::from(vec![0x5a; spec.write.max(1)]);
        Self { spec, id: None, data, written: 0, aborted: false }
    }

    /// Writes until the socket takes no more.
    fn write(&mut self, io: &mut Io<'_>) {
        let Some(id) = self.id else { return };
        loop {
            let flags = SendFlags::default();
            let result = if self.spec.owned {
                io.core.tcp_send_bytes(io.now, id, &mut self.data.clone(), flags)
            } else {
                io.core.tcp_send(io.now, id, &self.data, flags)
            };
            match result {
                Ok(n) if self.spec.every_ns > 0 => {
                    self.written += n as u64;
                    return;
                }
                Ok(n) => self.written += n as u64,
                Err(Error::WouldBlock) => return,
                Err(e) => {
                    return self.ended(io, id, e, "the writer failed");
                }
            }
        }
    }

    /// A connection that nobody answered for too long is a figure (Linux's TCPAbortOnTimeout); any other end is a broken promise.
    fn ended(&mut self, io: &mut Io<'_>, id: SocketId, why: Error, what: &str) {
        match why {
            _ if self.aborted => {}
            Error::TimedOut => {
                self.aborted = true;
                io.ledger.give_up(io.core, io.now, Some(id));
            }
            _ => io.fail("flood", format!("{what} after {} bytes: {why}", self.written)),
        }
    }
}

impl App for Flood {
    fn name(&self) -> &'static str {
        "flood"
    }

    fn start(&mut self, io: &mut Io<'_>) {
        io.wake_at(self.spec.start);
    }

    fn wake(&mut self, io: &mut Io<'_>) {
        if self.aborted {
            return;
        }
        if self.id.is_some() {
            if self.spec.every_ns > 0 {
                self.write(io);
                io.wake_at(io.now.plus_nanos(self.spec.every_ns));
            }
            return;
        }
        match io.connect(self.spec.remote, &self.spec.options) {
            Ok(id) => self.id = Some(id),
            Err(e) => io.fail("flood", format!("connecting failed: {e}")),
        }
    }

    fn event(&mut self, io: &mut Io<'_>, event: Event) {
        io.ledger.connected += u64::from(matches!(event, Event::Connected(_)));
        match event {
            Event::Connected(_) if self.spec.every_ns > 0 => io.wake_at(io.now),
            // Who writes now and then does not wait for room.
            Event::Writable(_) if self.spec.every_ns > 0 => {}
            Event::Connected(_) | Event::Writable(_) => self.write(io),
            Event::Closed(id) => match io.core.take_error(io.now, id) {
                Some(why) => self.ended(io, id, why, "the connection ended"),
                None if self.aborted => {}
                None => io.fail("flood", "the connection ended"),
            },
            _ => {}
        }
    }

    fn done(&self) -> bool {
        false
    }

    fn stop(&mut self, _io: &mut Io<'_>) {}

    fn progress(&self) -> String {
        format!("{} bytes written", self.written)
    }

    fn sockets(&self) -> Vec<SocketId> {
        self.id.into_iter().collect()
    }
}

/// The server.
pub struct Discard {
    port: u16,
    options: ListenOptions,
    read: u64,
}

impl Discard {
    /// A server that reads everything at once.
    #[must_use]
    pub const fn new(port: u16, options: ListenOptions) -> Self {
        Self { port, options, read: 0 }
    }

    fn drain(&mut self, io: &mut Io<'_>, id: SocketId) {
        while let Ok(Some(data)) = io.core.tcp_read_chunk(io.now, id, READ_BYTES) {
            self.read += data.len() as u64;
        }
    }
}

impl App for Discard {
    fn name(&self) -> &'static str {
        "discard"
    }

    fn start(&mut self, io: &mut Io<'_>) {
        if let Err(e) = io.listen(self.port, &self.options) {
            io.fail("flood", format!("listening on port {} failed: {e}", self.port));
        }
    }

    fn event(&mut self, io: &mut Io<'_>, event: Event) {
        match event {
            Event::Accepted(listener) => {
                while let Ok((id, _)) = io.accept(listener) {
                    self.drain(io, id);
                }
            }
            Event::Readable(id) => self.drain(io, id),
            _ => {}
        }
    }

    fn wake(&mut self, _io: &mut Io<'_>) {}

    fn done(&self) -> bool {
        true
    }

    fn stop(&mut self, _io: &mut Io<'_>) {}

    fn progress(&self) -> String {
        format!("{} bytes read", self.read)
    }
}
