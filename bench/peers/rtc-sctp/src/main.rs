//! Two endpoints of rtc-sctp in one process and one thread: messages one way, every byte hashed.
//!
//! `rtc-sctp-pair MTU BYTES SECONDS [batched]` prints the bytes of payload that came, the seconds that it took, and packets both ways. The exit
//! code is 1 when the hash is not that of what was sent. Compiled and run by the bench `sctp`.
#![forbid(unsafe_code)]
use bytes::Bytes;
use crc_fast::{CrcAlgorithm::Crc32Iscsi, Digest};
use rtc_sctp::{
    Association, AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig, Event, Payload,
    PayloadProtocolIdentifier, ServerConfig, TransportConfig,
};
use shared::TransportProtocol;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that wait at the sender, as in the other rows.
const BUFFER: usize = 1 << 20;
const PATTERN: usize = 4_096;
const STEP: u64 = 61;
/// IPv4, the common header, a DATA chunk's header.
const OVERHEAD: u32 = 20 + 12 + 16;

struct Node {
    endpoint: Endpoint,
    peer: SocketAddr,
    handle: Option<AssociationHandle>,
    assoc: Option<Association>,
    timeout: Option<Instant>,
    connected: bool,
    packets: u64,
    /// All that has come is taken before anything is answered: a SACK for many packets, as drivers of it have it that read in batches.
    batched: bool,
}

impl Node {
    fn new(own: SocketAddr, peer: SocketAddr, mtu: u32, server: bool) -> Self {
        let mut config = EndpointConfig::default();
        config.max_payload_size(mtu - OVERHEAD);
        let server = server.then(|| Arc::new(ServerConfig::new(transport())));
        let endpoint = Endpoint::new(own, TransportProtocol::UDP, Arc::new(config), server);
        Self { endpoint, peer, handle: None, assoc: None, timeout: None, connected: false, packets: 0, batched: false }
    }

    /// Takes one packet after another and lets each be answered before the next, so that every second one has its SACK, unless it is
    /// batched.
    fn drive(&mut self, now: Instant, inbound: &mut VecDeque<Bytes>, outbound: &mut VecDeque<Bytes>) -> bool {
        let mut worked = false;
        while let Some(packet) = inbound.pop_front() {
            worked = true;
            if let Some((handle, event)) = self.endpoint.handle(now, self.peer, None, packet) {
                match event {
                    DatagramEvent::NewAssociation(assoc) => {
                        (self.handle, self.assoc) = (Some(handle), Some(assoc));
                    }
                    DatagramEvent::AssociationEvent(event) => {
                        if let Some(assoc) = &mut self.assoc {
                            assoc.handle_event(event);
                        }
                    }
                    _ => {}
                }
            }
            if !self.batched {
                self.answer(now, outbound);
            }
        }
        worked | self.answer(now, outbound)
    }

    fn answer(&mut self, now: Instant, outbound: &mut VecDeque<Bytes>) -> bool {
        let Some(assoc) = &mut self.assoc else { return false };
        if self.timeout.is_some_and(|at| at <= now) {
            self.timeout = None;
            assoc.handle_timeout(now);
        }
        while let Some(event) = assoc.poll() {
            self.connected |= matches!(event, Event::Connected);
        }
        while let Some(event) = assoc.poll_endpoint_event() {
            if let Some(handle) = self.handle {
                self.endpoint.handle_event(handle, event);
            }
        }
        let before = outbound.len();
        while let Some(transmit) = assoc.poll_transmit(now) {
            if let Payload::RawEncode(packets) = transmit.message {
                outbound.extend(packets);
            }
        }
        self.timeout = assoc.poll_timeout();
        self.packets += (outbound.len() - before) as u64;
        outbound.len() > before
    }
}

fn transport() -> TransportConfig {
    TransportConfig::default().with_max_receive_buffer_size(BUFFER as u32)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let ([_, mtu, len, seconds], batched) = (match &args[..] {
        [all @ .., last] if last == "batched" => (all, true),
        all => (all, false),
    }) else {
        return ExitCode::from(2);
    };
    let (Ok(mtu), Ok(len), Ok(seconds)) = (mtu.parse(), len.parse::<usize>(), seconds.parse()) else {
        return ExitCode::from(2);
    };
    let pattern: Vec<u8> = (0..PATTERN + 65_536).map(|i| (i * 31 + (i >> 8)) as u8).collect();
    let pattern = Bytes::from_static(pattern.leak());
    let message = |n: u64| {
        let at = (n * STEP) as usize % PATTERN;
        pattern.slice(at..at + len)
    };
    let (ours, theirs) = (SocketAddr::from(([127, 0, 0, 1], 1)), SocketAddr::from(([127, 0, 0, 1], 2)));
    let (mut client, mut server) = (Node::new(ours, theirs, mtu, false), Node::new(theirs, ours, mtu, true));
    let start = Instant::now();
    let config = ClientConfig::new(transport());
    let (handle, assoc) = client.endpoint.connect(start, config, theirs).expect("a handshake begins");
    (client.handle, client.assoc) = (Some(handle), Some(assoc));
    (client.batched, server.batched) = (batched, batched);
    let (mut there, mut back) = (VecDeque::new(), VecDeque::new());
    while !(client.connected && server.connected) {
        let now = Instant::now();
        client.drive(now, &mut back, &mut there);
        server.drive(now, &mut there, &mut back);
    }
    let opened = client.assoc.as_mut().map(|a| a.open_stream(0, PayloadProtocolIdentifier::Binary).is_ok());
    assert_eq!(opened, Some(true));
    let (mut sent, mut received, mut accepted) = (0, 0u64, false);
    let (mut hash, mut buffer) = (Digest::new(Crc32Iscsi), vec![0; len]);
    let limit = Duration::from_secs_f64(seconds);
    let start = Instant::now();
    let mut now = start;
    while now - start < limit {
        if let Some(Ok(mut stream)) = client.assoc.as_mut().map(|a| a.stream(0)) {
            while stream.buffered_amount().is_ok_and(|held| held < BUFFER) {
                stream.write_sctp(now, &message(sent), PayloadProtocolIdentifier::Binary).expect("room");
                sent += 1;
            }
        }
        client.drive(now, &mut back, &mut there);
        server.drive(now, &mut there, &mut back);
        if let Some(assoc) = &mut server.assoc {
            accepted = accepted || assoc.accept_stream().is_some();
            if let (true, Ok(mut stream)) = (accepted, assoc.stream(0)) {
                while let Ok(Some(chunks)) = stream.read_sctp() {
                    let n = chunks.read(&mut buffer).expect("a message fits");
                    hash.update(&buffer[..n]);
                    received += n as u64;
                }
            }
        }
        now = Instant::now();
    }
    let mut wanted = Digest::new(Crc32Iscsi);
    (0..received / len as u64).for_each(|n| wanted.update(&message(n)));
    println!("{received} {:.6} {}", (now - start).as_secs_f64(), client.packets + server.packets);
    ExitCode::from(u8::from(received == 0 || wanted.finalize() != hash.finalize()))
}
