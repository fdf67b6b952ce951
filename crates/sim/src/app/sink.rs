//! A server that reads keyed streams to their end and checks every byte, eagerly or slowly.
use super::{App, Io, READ_BYTES, pattern};
use bytes::Bytes;
use lowwater_core::base::{Error, SocketId};
use lowwater_core::socket::{Event, ListenOptions};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// How the server reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Everything at once, by copy.
    Eager,
    /// Everything at once, in owned pieces.
    Owned,
    /// At most `bytes` from each connection, every `every_ns`.
    Slow {
        /// Bytes per reading.
        bytes: usize,
        /// Time between readings.
        every_ns: u64,
    },
}

struct Reader {
    peer: SocketAddr,
    header: Vec<u8>,
    key: u64,
}

/// The server.
pub struct Sink {
    port: u16,
    options: ListenOptions,
    pace: Pace,
    expected: usize,
    finished: usize,
    listener: Option<SocketId>,
    readers: BTreeMap<SocketId, Reader>,
    buffer: Vec<u8>,
}

impl Sink {
    /// A server that is done after `expected` streams.
    #[must_use]
    pub fn new(port: u16, options: ListenOptions, pace: Pace, expected: usize) -> Self {
        let buffer = vec![0; READ_BYTES];
        Self { port, options, pace, expected, finished: 0, listener: None, readers: BTreeMap::new(), buffer }
    }

    /// The next bytes of a connection; empty at the end of the stream.
    fn take(&mut self, io: &mut Io<'_>, id: SocketId) -> Result<Bytes, Error> {
        match self.pace {
            Pace::Owned => Ok(io.core.tcp_read_chunk(io.now, id, READ_BYTES)?.unwrap_or_default()),
            Pace::Eager | Pace::Slow { .. } => {
                let n =
                    if let Pace::Slow { bytes, .. } = self.pace { bytes.min(READ_BYTES) } else { READ_BYTES };
                let n = io.core.tcp_recv(io.now, id, &mut self.buffer[..n])?;
                Ok(Bytes::copy_from_slice(&self.buffer[..n]))
            }
        }
    }

    fn read(&mut self, io: &mut Io<'_>, id: SocketId) {
        while self.readers.contains_key(&id) {
            match self.take(io, id) {
                Ok(data) if data.is_empty() => return self.end(io, id),
                Ok(data) => self.judge(io, id, &data),
                Err(Error::WouldBlock) => return,
                Err(e) => return self.broke(io, id, e),
            }
            if matches!(self.pace, Pace::Slow { .. }) {
                return;
            }
        }
    }

    fn judge(&mut self, io: &mut Io<'_>, id: SocketId, mut data: &[u8]) {
        let Some(reader) = self.readers.get_mut(&id) else { return };
        if reader.header.len() < pattern::HEADER {
            let n = (pattern::HEADER - reader.header.len()).min(data.len());
            reader.header.extend_from_slice(&data[..n]);
            data = &data[n..];
            let Ok(header) = <[u8; pattern::HEADER]>::try_from(&reader.header[..]) else { return };
            reader.key = pattern::parse(&header).0;
            let result = io.ledger.bytes.header(io.now, reader.key, &header);
            io.ledger.check("bytes", io.now, result);
        }
        if !data.is_empty() {
            let result = io.ledger.bytes.received(io.now, reader.key, data);
            io.ledger.check("bytes", io.now, result);
        }
    }

    /// A reset is what a writer that was given up answers the late segments of its reader with (RFC 9293 3.10.7.1), and of no other: any other
    /// reset is a broken promise.
    fn broke(&mut self, io: &mut Io<'_>, id: SocketId, e: Error) {
        let given_up =
            self.readers.remove(&id).is_some_and(|reader| io.ledger.given_up.contains(&reader.peer));
        if !given_up || e != Error::Reset {
            io.fail("bytes", format!("the reader of {id:?} failed: {e}"));
        }
    }

    fn end(&mut self, io: &mut Io<'_>, id: SocketId) {
        if let Some(reader) = self.readers.remove(&id) {
            let result = io.ledger.bytes.ended(io.now, reader.key);
            io.ledger.check("bytes", io.now, result);
            self.finished += 1;
        }
        io.core.close(io.now, id);
    }
}

impl App for Sink {
    fn name(&self) -> &'static str {
        "sink"
    }

    fn start(&mut self, io: &mut Io<'_>) {
        match io.listen(self.port, &self.options) {
            Ok(id) => self.listener = Some(id),
            Err(e) => io.fail("bytes", format!("listening on port {} failed: {e}", self.port)),
        }
        if let Pace::Slow { every_ns, .. } = self.pace {
            io.wake_at(io.now.plus_nanos(every_ns));
        }
    }

    fn event(&mut self, io: &mut Io<'_>, event: Event) {
        match event {
            Event::Accepted(listener) => {
                while let Ok((id, peer)) = io.accept(listener) {
                    self.readers.insert(id, Reader { peer, header: Vec::new(), key: 0 });
                    if !matches!(self.pace, Pace::Slow { .. }) {
                        self.read(io, id);
                    }
                }
            }
            Event::Readable(id) if !matches!(self.pace, Pace::Slow { .. }) => self.read(io, id),
            Event::Closed(id) if self.readers.contains_key(&id) => {
                if let Some(e) = io.core.take_error(io.now, id) {
                    self.broke(io, id, e);
                }
            }
            _ => {}
        }
    }

    fn wake(&mut self, io: &mut Io<'_>) {
        let Pace::Slow { every_ns, .. } = self.pace else { return };
        let ids: Vec<SocketId> = self.readers.keys().copied().collect();
        for id in ids {
            self.read(io, id);
        }
        if !self.done() {
            io.wake_at(io.now.plus_nanos(every_ns));
        }
    }

    fn done(&self) -> bool {
        self.finished >= self.expected
    }

    fn stop(&mut self, io: &mut Io<'_>) {
        if let Some(id) = self.listener.take() {
            io.core.close(io.now, id);
        }
    }

    fn progress(&self) -> String {
        format!("{} of {} streams ended, {} open", self.finished, self.expected, self.readers.len())
    }
}
