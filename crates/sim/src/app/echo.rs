//! A server that sends every byte back and closes after its client has.
use super::{App, Io, READ_BYTES};
use bytes::Bytes;
use lowwater_core::base::{Error, SocketId};
use lowwater_core::socket::{Event, ListenOptions};
use lowwater_core::tcp::SendFlags;
use std::collections::{BTreeMap, VecDeque};

/// Bytes that may wait for one client before the server stops reading.
const PENDING_BYTES: usize = 262_144;

#[derive(Default)]
struct Client {
    pending: VecDeque<Bytes>,
    bytes: usize,
    ended: bool,
}

/// The server. Clients may vanish as they like: judging is their part.
pub struct Echo {
    port: u16,
    options: ListenOptions,
    listener: Option<SocketId>,
    clients: BTreeMap<SocketId, Client>,
}

impl Echo {
    /// A server on `port`.
    #[must_use]
    pub fn new(port: u16, options: ListenOptions) -> Self {
        Self { port, options, listener: None, clients: BTreeMap::new() }
    }

    fn serve(&mut self, io: &mut Io<'_>, id: SocketId) {
        loop {
            let Some(client) = self.clients.get_mut(&id) else { return };
            let Ok(wrote) = Self::write(io, id, client) else { return self.drop_client(io, id) };
            if client.ended {
                if wrote {
                    self.drop_client(io, id);
                }
                return;
            }
            if client.bytes >= PENDING_BYTES {
                return;
            }
            match io.core.tcp_read_chunk(io.now, id, READ_BYTES) {
                Ok(Some(data)) => {
                    client.bytes += data.len();
                    client.pending.push_back(data);
                }
                Ok(None) => client.ended = true,
                Err(Error::WouldBlock) => return,
                Err(_) => return self.drop_client(io, id),
            }
        }
    }

    /// True when nothing is left to write.
    fn write(io: &mut Io<'_>, id: SocketId, client: &mut Client) -> Result<bool, Error> {
        while let Some(front) = client.pending.front_mut() {
            match io.core.tcp_send_bytes(io.now, id, front, SendFlags::default()) {
                Ok(n) => {
                    client.bytes -= n;
                    if front.is_empty() {
                        client.pending.pop_front();
                    }
                }
                Err(Error::WouldBlock) => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    fn drop_client(&mut self, io: &mut Io<'_>, id: SocketId) {
        self.clients.remove(&id);
        io.core.close(io.now, id);
    }
}

impl App for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn start(&mut self, io: &mut Io<'_>) {
        match io.listen(self.port, &self.options) {
            Ok(id) => self.listener = Some(id),
            Err(e) => io.fail("bytes", format!("listening on port {} failed: {e}", self.port)),
        }
    }

    fn event(&mut self, io: &mut Io<'_>, event: Event) {
        match event {
            Event::Accepted(listener) => {
                while let Ok((id, _)) = io.accept(listener) {
                    self.clients.insert(id, Client::default());
                    self.serve(io, id);
                }
            }
            Event::Readable(id) | Event::Writable(id) => self.serve(io, id),
            Event::Closed(id) => {
                self.serve(io, id);
                if self.clients.contains_key(&id) {
                    self.drop_client(io, id);
                }
            }
            _ => {}
        }
    }

    fn wake(&mut self, _io: &mut Io<'_>) {}

    fn done(&self) -> bool {
        self.clients.is_empty()
    }

    fn stop(&mut self, io: &mut Io<'_>) {
        if let Some(id) = self.listener.take() {
            io.core.close(io.now, id);
        }
    }

    fn progress(&self) -> String {
        format!("{} clients", self.clients.len())
    }
}
