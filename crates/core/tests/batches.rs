//! Segments that come in as one batch are merged, and still teach what single ones teach.
use lowwater_core::base::{DeviceId, Instant, SocketId, Sysctl};
use lowwater_core::device::{DeviceCaps, Submit};
use lowwater_core::packet::Packet;
use lowwater_core::stack::{Config, ListenAddr, ListenOptions, Stack};
use lowwater_core::tcp::{SendFlags, SocketOptions};
use std::net::SocketAddr;

const MSS: u16 = 536;

/// Two stacks on devices that take no super-packets; each batch arrives a millisecond after it left.
struct Duo {
    stacks: [Stack; 2],
    dev: DeviceId,
    now: Instant,
}

impl Duo {
    fn new() -> Self {
        let now = Instant::from_millis(1_000);
        let mut dev = DeviceId(0);
        let stacks = [1u8, 2].map(|host| {
            let mut stack = Stack::new(Config { sysctl: Sysctl::default(), seed: u64::from(host) }, now);
            dev = stack.add_device(DeviceCaps::plain(1_500));
            stack.add_address(dev, [10, 0, 0, host].into(), 24).unwrap();
            stack
        });
        Self { stacks, dev, now }
    }

    fn turn(&mut self) {
        for from in 0..2 {
            let mut batch = Vec::new();
            let mut device = |_: Instant, packet: Packet| {
                batch.push(packet.to_bytes());
                Submit::Completed
            };
            self.stacks[from].transmit(self.now, self.dev, 64, &mut device);
            for bytes in batch {
                let packet = Packet::received(bytes, lowwater_core::packet::Offload::default(), self.now);
                self.stacks[1 - from].receive(self.now, self.dev, packet);
            }
            self.stacks[1 - from].handle_timeout(self.now);
        }
        self.now = self.now.plus_nanos(1_000_000);
    }

    fn connect(&mut self) -> (SocketId, SocketId) {
        let mut options = SocketOptions::new(self.stacks[0].sysctl());
        let listen = ListenOptions { backlog: 1, ask: false, options: options.clone() };
        let addr = ListenAddr { ip: None, port: Some(80) };
        let listener = self.stacks[1].tcp_listen(self.now, addr, listen).unwrap();
        options.maxseg = MSS;
        let remote = SocketAddr::from(([10, 0, 0, 2], 80));
        let client = self.stacks[0].tcp_connect(self.now, remote, None, &options).unwrap();
        self.turn();
        self.turn();
        self.turn();
        (client, self.stacks[1].tcp_accept(self.now, listener).unwrap().0)
    }
}

#[test]
fn the_peers_mss_is_estimated_from_segments_not_from_what_they_became() {
    let mut duo = Duo::new();
    let (client, server) = duo.connect();
    let (mut got, data) = (0, [7; 20_000]);
    assert_eq!(duo.stacks[0].tcp_send(duo.now, client, &data, SendFlags::default()), Ok(data.len()));
    let mut buf = [0; 4_096];
    for _ in 0..100 {
        duo.turn();
        while let Ok(n) = duo.stacks[1].tcp_recv(duo.now, server, &mut buf, false) {
            got += n;
        }
    }
    assert_eq!(got, data.len());
    // Twelve bytes are the timestamps'.
    assert_eq!(duo.stacks[1].tcp_info(Instant::ZERO, server).unwrap().rcv_mss, u32::from(MSS) - 12);
}
