//! Several packets that go down as one, over a link that takes them so: what arrives is the same, each packet has its own checksum, and
//! each second one its SACK.
use bytes::{Bytes, BytesMut};
use lowwater_core::base::{DeviceId, Instant, SocketId, Sysctl};
use lowwater_core::device::pair::{Pair, Side};
use lowwater_core::device::{DeviceCaps, QueueLimit};
use lowwater_core::packet::{Csum, GsoKind, Head, Offload, Packet};
use lowwater_core::sctp::{Received, SctpOptions, SendInfo};
use lowwater_core::stack::{Config, Stack};
use lowwater_wire::ipv4::Ipv4Repr;
use std::net::SocketAddr;

const DEV: DeviceId = DeviceId(1);
const SIDES: [Side; 2] = [Side::A, Side::B];

struct Link {
    stacks: [Stack; 2],
    pair: Pair,
    now: Instant,
    /// What is done to each packet on its way.
    touch: Box<dyn FnMut(&mut Packet)>,
}

impl Link {
    fn new(caps: DeviceCaps) -> Self {
        let now = Instant::from_millis(1_000);
        let pair = Pair::with_caps(caps, QueueLimit { packets: 1_024, bytes: 64 << 20 });
        let stacks = [1u8, 2].map(|host| {
            let config = Config { sysctl: Sysctl::default(), seed: u64::from(host) };
            let mut stack = Stack::new(config, now);
            let dev = stack.add_device(pair.caps());
            stack.add_address(dev, [10, 0, 0, host].into(), 24).unwrap();
            stack
        });
        Self { stacks, pair, now, touch: Box::new(|_| {}) }
    }

    fn turn(&mut self) {
        self.now = self.now.plus_nanos(100_000);
        let now = self.now;
        for (host, side) in SIDES.into_iter().enumerate() {
            while self.stacks[host].needs_transmit(DEV)
                && self.stacks[host].transmit(now, DEV, 64, &mut self.pair.end(side)).packets > 0
            {
            }
            while let Some(mut packet) = self.pair.take(side.other(), now) {
                (self.touch)(&mut packet);
                self.stacks[1 - host].receive(now, DEV, packet);
            }
            let mut owners = Vec::new();
            self.pair.completions(side, &mut owners);
            for owner in owners {
                self.stacks[host].complete(now, DEV, owner);
            }
            self.stacks[host].handle_timeout(now);
            while self.stacks[host].next_event().is_some() {}
        }
    }

    fn associate(&mut self) -> (SocketId, SocketId) {
        let options =
            SctpOptions { sndbuf: 1 << 20, rcvbuf: 1 << 20, ..SctpOptions::new(&Sysctl::default()) };
        let there = SocketAddr::from(([10, 0, 0, 2], 5_000));
        let listener = self.stacks[1].sctp_listen(self.now, &[there], 1, options.clone()).unwrap();
        let client = self.stacks[0].sctp_connect(self.now, &[there], &[], options).unwrap();
        loop {
            self.turn();
            if let Ok((server, _)) = self.stacks[1].sctp_accept(self.now, listener) {
                return (client, server);
            }
        }
    }

    /// Carries `count` messages of 1,636 bytes, all of which must come as they were sent.
    fn carry(&mut self, count: u32) {
        let (client, server) = self.associate();
        let message = |n: u32| Bytes::from(n.to_be_bytes().repeat(409));
        let (mut sent, mut came, mut turns) = (0, 0, 0);
        while came < count {
            turns += 1;
            assert!(turns < 100_000, "{came} of {count} came");
            while sent < count
                && self.stacks[0].sctp_send(self.now, client, message(sent), SendInfo::default()).is_ok()
            {
                sent += 1;
            }
            self.turn();
            while let Ok(Some(Received::Data { data, eor, .. })) =
                self.stacks[1].sctp_recv(self.now, server, usize::MAX)
            {
                assert!(eor && data == message(came), "message {came}");
                came += 1;
            }
        }
        self.turn();
    }
}

#[test]
fn what_goes_as_one_arrives_the_same_and_is_acknowledged_packet_by_packet() {
    let mut link = Link::new(DeviceCaps::offloading(1_500).taking_sctp());
    link.carry(2_000);
    let [a, b] = [0, 1].map(|host| link.stacks[host].counters().clone());
    let (packets, sacks) = (a.sctp.out_sctp_packs, b.sctp.out_sctp_packs);
    assert!(a.ip.out_requests < packets / 5, "{} for {packets} packets", a.ip.out_requests);
    assert!(b.ip.out_requests < sacks / 3, "{} for {sacks} packets", b.ip.out_requests);
    // One for each second packet, the handshake and what a window that opens adds aside.
    assert!((packets / 2 - 5..packets / 2 + packets / 10).contains(&sacks), "{sacks} for {packets}");
    assert_eq!((a.sctp.t3_retransmits, a.sctp.fast_retransmits), (0, 0));
    assert_eq!((b.sctp.checksum_errors, b.sctp.in_sctp_packs, a.sctp.in_sctp_packs), (0, packets, sacks));
}

/// Over a device that takes no such packets each goes alone, at the device's door.
#[test]
fn a_device_that_takes_one_packet_at_a_time_gets_them_so() {
    let mut link = Link::new(DeviceCaps::plain(1_500));
    link.touch = Box::new(|packet| {
        assert!(packet.offload.gso == GsoKind::None && packet.len() <= 1_500, "{packet:?}");
    });
    link.carry(500);
    let a = link.stacks[0].counters();
    assert!(a.own.gso_segmented > 0 && a.sctp.t3_retransmits + a.sctp.fast_retransmits == 0);
    assert_eq!(link.stacks[1].counters().sctp.checksum_errors, 0);
}

/// A wrong byte costs the packet that it is in, and none of its neighbours.
#[test]
fn a_wrong_byte_costs_one_packet() {
    let mut link = Link::new(DeviceCaps::offloading(1_500).taking_sctp());
    let mut broken = 0;
    link.touch = Box::new(move |packet| {
        if packet.offload.gso == GsoKind::Sctp && packet.payload.len() > 5 * 1_480 && broken < 3 {
            broken += 1;
            let mut bytes = BytesMut::from(&packet.payload[..]);
            bytes[2 * 1_480 + 700] ^= 1;
            packet.payload = bytes.freeze();
        }
    });
    link.carry(1_000);
    let [a, b] = [0, 1].map(|host| link.stacks[host].counters().clone());
    assert_eq!(b.sctp.checksum_errors, 3);
    assert!((3..=6).contains(&(a.sctp.fast_retransmits + a.sctp.t3_retransmits)), "{:?}", a.sctp);
}

/// A neighbour of this process may put packets of two associations into one: each is told of its own, and by its own path.
#[test]
fn packets_of_two_associations_in_one_reach_both() {
    let mut link = Link::new(DeviceCaps::offloading(1_500).taking_sctp());
    let there = SocketAddr::from(([10, 0, 0, 2], 5_000));
    let options = SctpOptions { nodelay: true, ..SctpOptions::new(&Sysctl::default()) };
    let listener = link.stacks[1].sctp_listen(link.now, &[there], 2, options.clone()).unwrap();
    // One may be reached at the source of both by its second path, the other one has no second.
    link.stacks[0].add_address(DEV, [10, 0, 0, 3].into(), 24).unwrap();
    let at = |host: u8, port: u16| SocketAddr::from(([10, 0, 0, host], port));
    let clients = [vec![at(1, 7_001), at(3, 7_001)], vec![at(3, 7_002)]]
        .map(|local| link.stacks[0].sctp_connect(link.now, &[there], &local, options.clone()).unwrap());
    (0..100).for_each(|_| link.turn());
    let servers = [(); 2].map(|()| link.stacks[1].sctp_accept(link.now, listener).unwrap().0);
    let mut l4 = BytesMut::new();
    for client in clients {
        // Two packets of each, which are due a SACK.
        for _ in 0..2 {
            let message = Bytes::from_static(&[7; 1_400]);
            link.stacks[0].sctp_send(link.now, client, message, SendInfo::default()).unwrap();
            link.stacks[0].transmit(link.now, DEV, 64, &mut link.pair.end(Side::A));
            while let Some(packet) = link.pair.take(Side::B, link.now) {
                l4.extend_from_slice(&packet.to_bytes()[20..]);
            }
        }
    }
    let mut head = Head::new();
    let names = Ipv4Repr {
        src: [10, 0, 0, 3].into(),
        dst: [10, 0, 0, 2].into(),
        protocol: 132,
        ttl: 64,
        tos: 0,
        ident: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: l4.len() as u16,
    };
    names.emit(head.prepend(20));
    let offload = Offload {
        gso: GsoKind::Sctp,
        gso_size: (l4.len() / 4) as u16,
        csum: Csum::None,
        ..Offload::default()
    };
    let train = Packet { head, payload: l4.freeze(), offload, owner: None, at: link.now, priority: None };
    link.stacks[1].receive(link.now, DEV, train);
    (0..20_000).for_each(|_| link.turn());
    for (client, server) in clients.into_iter().zip(servers) {
        let came = link.stacks[1].sctp_recv(link.now, server, usize::MAX).unwrap();
        assert!(matches!(came, Some(Received::Data { ref data, .. }) if data.len() == 1_400), "{came:?}");
        assert_eq!(link.stacks[0].sctp_info(client).unwrap().unacked, 0);
    }
    let count = link.stacks[0].counters();
    assert_eq!(count.sctp.t3_retransmits, 0, "both were acknowledged in time");
}
