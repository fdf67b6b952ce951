//! Datagrams to an echo server and back: what returns must be what was sent, however much is lost.
use super::{App, Io, pattern};
use bytes::BytesMut;
use lowwater_core::base::{Duration, Error, Instant, SocketId};
use lowwater_core::socket::Event;
use std::net::SocketAddr;

/// What to send.
#[derive(Clone, Debug)]
pub struct UdpPingSpec {
    /// Own address; port 0 takes a free one.
    pub local: SocketAddr,
    /// The server.
    pub remote: SocketAddr,
    /// Key of the bytes.
    pub key: u64,
    /// Datagrams.
    pub count: u32,
    /// Bytes in each; more than the MTU is fragmented.
    pub size: usize,
    /// Time between them.
    pub every_ns: u64,
    /// When to begin.
    pub start: Instant,
}

/// The client.
pub struct UdpPing {
    spec: UdpPingSpec,
    id: Option<SocketId>,
    sent: u32,
    returned: u32,
}

impl UdpPing {
    /// A client that starts at its time.
    #[must_use]
    pub fn new(spec: UdpPingSpec) -> Self {
        Self { spec, id: None, sent: 0, returned: 0 }
    }

    /// Datagrams that came back.
    #[must_use]
    pub fn returned(&self) -> u32 {
        self.returned
    }

    fn judge(&mut self, io: &mut Io<'_>, data: &[u8]) {
        self.returned += 1;
        let number = data.get(..8).and_then(|b| b.try_into().ok()).map_or(u64::MAX, u64::from_be_bytes);
        if let (Some(round_trips), true) = (&mut io.ledger.round_trips, number < u64::from(self.sent)) {
            // Wakes are exact: a timer of the simulator is never late.
            let sent = self.spec.start.plus_nanos(self.spec.every_ns * number);
            round_trips.push((sent, Duration::from_nanos(io.now.nanos_since(sent))));
        }
        let key = self.spec.key.wrapping_add(number);
        if number >= u64::from(self.sent)
            || data.len() != self.spec.size
            || pattern::mismatch(key, 8, &data[8..]).is_some()
        {
            io.fail(
                "bytes",
                format!("a datagram of {} bytes came back changed (number {number})", data.len()),
            );
        }
    }
}

impl App for UdpPing {
    fn name(&self) -> &'static str {
        "udp-ping"
    }

    fn start(&mut self, io: &mut Io<'_>) {
        match io.udp_bind(self.spec.local) {
            Ok(id) => self.id = Some(id),
            Err(e) => io.fail("bytes", format!("bind failed: {e}")),
        }
        io.wake_at(self.spec.start);
    }

    fn wake(&mut self, io: &mut Io<'_>) {
        let Some(id) = self.id else { return };
        if self.done() {
            return;
        }
        let mut data = BytesMut::zeroed(self.spec.size.max(8));
        pattern::fill(self.spec.key.wrapping_add(u64::from(self.sent)), 0, &mut data);
        data[..8].copy_from_slice(&u64::from(self.sent).to_be_bytes());
        self.sent += 1;
        match io.core.udp_send_to(io.now, id, data.freeze(), self.spec.remote) {
            Ok(_) | Err(Error::WouldBlock | Error::MessageTooLong | Error::NoBuffers) => {}
            Err(e) => io.fail("bytes", format!("a datagram could not be sent: {e}")),
        }
        io.wake_at(io.now.plus_nanos(self.spec.every_ns));
    }

    fn event(&mut self, io: &mut Io<'_>, event: Event) {
        let Event::Readable(id) = event else { return };
        while let Ok((data, _)) = io.core.udp_recv_from(io.now, id) {
            self.judge(io, &data);
        }
    }

    fn done(&self) -> bool {
        self.sent >= self.spec.count
    }

    fn stop(&mut self, io: &mut Io<'_>) {
        if let Some(id) = self.id.take() {
            io.core.close(io.now, id);
        }
    }

    fn progress(&self) -> String {
        format!("{} of {} sent, {} returned", self.sent, self.spec.count, self.returned)
    }
}

/// The server.
pub struct UdpEcho {
    local: SocketAddr,
    id: Option<SocketId>,
}

impl UdpEcho {
    /// A server at `local`.
    #[must_use]
    pub fn new(local: SocketAddr) -> Self {
        Self { local, id: None }
    }
}

impl App for UdpEcho {
    fn name(&self) -> &'static str {
        "udp-echo"
    }

    fn start(&mut self, io: &mut Io<'_>) {
        match io.udp_bind(self.local) {
            Ok(id) => self.id = Some(id),
            Err(e) => io.fail("bytes", format!("bind failed: {e}")),
        }
    }

    fn wake(&mut self, _io: &mut Io<'_>) {}

    fn event(&mut self, io: &mut Io<'_>, event: Event) {
        let Event::Readable(id) = event else { return };
        while let Ok((data, from)) = io.core.udp_recv_from(io.now, id) {
            // A full queue loses the answer, as datagrams may.
            let _ = io.core.udp_send_to(io.now, id, data, from);
        }
    }

    fn done(&self) -> bool {
        true
    }

    fn stop(&mut self, io: &mut Io<'_>) {
        if let Some(id) = self.id.take() {
            io.core.close(io.now, id);
        }
    }

    fn progress(&self) -> String {
        String::from("serving")
    }
}
