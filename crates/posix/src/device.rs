//! The device of a host: takes packets, holds them until they are completed where that is asked for, says "not now" when full or busy.
use crate::abi::IPPROTO_TCP;
use crate::host::Host;
use crate::timestamping::Pieces;
use bytes::Bytes;
use core::net::IpAddr;
use lowwater_core::base::{Duration, Instant, RouteMetrics};
use lowwater_core::device::Submit;
use lowwater_core::ip::{Cidr, Route};
use lowwater_core::offload::csum;
use lowwater_core::packet::{Csum, GsoKind, Offload, Owner, Packet};
use lowwater_core::qdisc::Any;
use std::collections::VecDeque;

/// Bytes of the headers of IPv6 and of TCP without options.
const IPV6_HEADER: usize = 40;
const TCP_HEADER: usize = 20;

/// A packet that the host has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When it was handed to the device.
    pub at: Instant,
    /// Its earliest departure time, as pacing wants it; not after `at` where the queue in front of the device waits for it.
    pub departs_at: Instant,
    /// The packet, from the IP header on, with its checksums.
    pub bytes: Bytes,
    /// Payload bytes per segment of a super-packet; 0 for an ordinary packet.
    pub gso_size: u16,
    /// Bytes in the device that have not been completed, this packet included; its own where the device completes at once.
    pub queued: usize,
    /// The same in packets.
    pub packets: usize,
}

/// A device.
#[derive(Debug, Default)]
pub(crate) struct Device {
    /// Packets that nobody has taken from the host yet.
    pub(crate) sent: VecDeque<Sent>,
    /// How many packets it holds until they are completed; `None` completes at once.
    room: Option<usize>,
    /// What it holds: owner and bytes.
    held: VecDeque<(Option<Owner>, usize)>,
    bytes: usize,
    /// It takes nothing, whatever its room.
    busy: bool,
    /// So many of the next packets it drops.
    drops: usize,
    /// It is full, or said "not now", and has not said "ready" since.
    refused: bool,
    /// How much time passes before each of the flows' next packets.
    pub(crate) pauses: VecDeque<Duration>,
    /// Bytes of the segments that it has joined where a packet has more; 0: it joins none.
    joined: u16,
    /// See [`crate::Settings`].
    pub(crate) name: String,
    /// What it has taken of a super-packet whose last segment is yet to come.
    pub(crate) pieces: Pieces,
}

impl Device {
    /// A device that holds so many packets until they are completed, or completes at once, and may join what comes in.
    pub(crate) fn new(room: Option<usize>, joined: u16, name: String) -> Self {
        Self { room, joined, name, ..Self::default() }
    }

    /// What it says of a packet that comes in.
    pub(crate) fn offload_of(&self, packet: &[u8]) -> Offload {
        joined(packet, self.joined).unwrap_or_default()
    }

    pub(crate) fn submit(&mut self, now: Instant, mut packet: Packet) -> Submit {
        if self.is_full() || self.busy {
            self.refused = true;
            return Submit::NotNow(packet);
        }
        if self.drops > 0 {
            self.drops -= 1;
            return Submit::Dropped;
        }
        // What a device with checksum offload would do; of a super-packet the one checksum covers the whole.
        csum::fill(&mut packet, 0);
        let len = packet.len();
        let mut sent = Sent {
            at: now,
            departs_at: packet.at,
            gso_size: packet.offload.gso_size,
            bytes: packet.to_bytes(),
            queued: len,
            packets: 1,
        };
        if self.room.is_none() {
            self.sent.push_back(sent);
            return Submit::Completed;
        }
        self.held.push_back((packet.owner, len));
        self.bytes += len;
        (sent.queued, sent.packets) = (self.bytes, self.held.len());
        self.sent.push_back(sent);
        self.refused = self.is_full();
        if self.refused { Submit::Filled } else { Submit::Sent }
    }

    /// It holds as many as it may.
    fn is_full(&self) -> bool {
        self.room.is_some_and(|room| self.held.len() >= room)
    }

    /// It takes nothing until it says that it is ready.
    pub(crate) const fn is_stopped(&self) -> bool {
        self.refused
    }

    /// The oldest packet leaves; its owner, if there was one.
    fn complete(&mut self) -> Option<Option<Owner>> {
        let (owner, len) = self.held.pop_front()?;
        self.bytes -= len;
        Some(owner)
    }
}

/// What a device that joins segments of `size` bytes says of a packet: of TCP, where there is more than that behind a header without options
/// (`virtio_net_hdr_to_skb`).
fn joined(packet: &[u8], size: u16) -> Option<Offload> {
    let word = |at: usize| Some(usize::from(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?)));
    let first = *packet.first()?;
    let (gso, protocol, header, end) = match first >> 4 {
        4 => (GsoKind::Tcp4, *packet.get(9)?, usize::from(first & 0xf) * 4, word(2)?),
        6 => (GsoKind::Tcp6, *packet.get(6)?, IPV6_HEADER, IPV6_HEADER + word(4)?),
        _ => return None,
    };
    let len = end.min(packet.len()).checked_sub(header + TCP_HEADER)?;
    let more = size > 0 && i32::from(protocol) == IPPROTO_TCP && len > usize::from(size);
    more.then_some(Offload { gso, gso_size: size, csum: Csum::None, ..Offload::default() })
}

impl Host {
    /// So many of the oldest packets leave the device, whose [`crate::Settings::device_room`] made it hold them. How many did: fewer when
    /// it had fewer.
    pub fn complete(&mut self, packets: usize) -> usize {
        let mut left = 0;
        while left < packets {
            let Some(owner) = self.device.complete() else { break };
            left += 1;
            if let Some(owner) = owner {
                self.stack.complete(self.now, self.dev, owner);
            }
        }
        if left > 0 && !self.device.busy {
            self.ready();
        }
        self.settle();
        left
    }

    /// Puts a queueing discipline in front of the device, in the words of `tc`; what waits moves over.
    ///
    /// # Errors
    /// The sentence about a wrong word.
    pub fn set_qdisc(&mut self, words: &str) -> Result<(), String> {
        let qdisc: Any = words.parse()?;
        let set = self.stack.set_qdisc(self.dev, qdisc).map_err(|e| e.to_string());
        self.settle();
        set
    }

    /// Everything of a prefix leaves by the device from now on, with what the route asks of connections.
    ///
    /// # Errors
    /// Why not, in a sentence: bits beyond the prefix.
    pub fn set_route(&mut self, dest: IpAddr, prefix: u8, metrics: RouteMetrics) -> Result<(), String> {
        let cidr = Cidr::new(dest, prefix).ok_or_else(|| format!("{dest}/{prefix} is no prefix"))?;
        let route = Route { metrics, ..Route::on_link(cidr, self.dev) };
        self.stack.replace_route(route).map_err(|e| format!("{dest}/{prefix}: {e}"))?;
        self.settle();
        Ok(())
    }

    /// Nothing of a prefix leaves by the device any more.
    ///
    /// # Errors
    /// There is no such route.
    pub fn remove_route(&mut self, dest: IpAddr, prefix: u8) -> Result<(), String> {
        if !self.stack.remove_route(dest, prefix, None, self.dev) {
            return Err(format!("there is no route to {dest}/{prefix}"));
        }
        self.settle();
        Ok(())
    }

    /// The device takes IP packets of so many bytes from now on.
    ///
    /// # Errors
    /// Fewer than the 68 of IPv4.
    pub fn set_mtu(&mut self, mtu: u16) -> Result<(), String> {
        self.stack.set_mtu(self.dev, mtu).map_err(|e| format!("an MTU of {mtu}: {e}"))?;
        self.settle();
        Ok(())
    }

    /// From now on the device says "not now" to everything, until it is ready again.
    pub fn set_busy(&mut self, busy: bool) {
        self.device.busy = busy;
        if !busy {
            self.ready();
            self.settle();
        }
    }

    /// The next so many packets are dropped by the device as it takes them.
    pub const fn set_drops(&mut self, packets: usize) {
        self.device.drops = packets;
    }

    /// From now on so much time passes before each of the flows' next packets, super-packets whole, as it does where code takes time:
    /// they leave one after the other. Behind the last of these all that may leave does so at one instant again.
    pub fn set_pauses(&mut self, pauses: impl IntoIterator<Item = Duration>) {
        self.device.pauses.clear();
        self.device.pauses.extend(pauses);
    }

    /// It has room again, unless it is full however it is: then completions say so.
    fn ready(&mut self) {
        if !self.device.is_full() && std::mem::take(&mut self.device.refused) {
            self.stack.device_ready(self.now, self.dev);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, Name, Optval, Piece, SendKind, Settings, Started};

    fn host(room: Option<usize>) -> Host {
        let addresses = vec![([192, 0, 2, 1].into(), 24)];
        Host::new(Settings { addresses, device_room: room, ..Settings::default() }).expect("a host")
    }

    #[test]
    fn segments_are_joined_where_a_packet_of_tcp_has_more_than_one() {
        // Total length 1,040 and 1,041: 1,000 bytes behind both headers, and one more.
        let v4 = |tcp: u8, len: u16| {
            let mut packet = vec![0; usize::from(len)];
            (packet[0], packet[9]) = (0x45, tcp);
            packet[2..4].copy_from_slice(&len.to_be_bytes());
            packet
        };
        let v6 = |len: u16| {
            let mut packet = vec![0; 40 + usize::from(len)];
            (packet[0], packet[6]) = (0x60, 6);
            packet[4..6].copy_from_slice(&len.to_be_bytes());
            packet
        };
        let size = |packet: &[u8]| joined(packet, 1_000).map_or(0, |offload| offload.gso_size);
        assert_eq!((size(&v4(6, 1_040)), size(&v4(6, 1_041)), size(&v4(17, 1_041))), (0, 1_000, 0));
        assert_eq!((size(&v6(1_020)), size(&v6(1_021))), (0, 1_000));
        assert_eq!(joined(&v4(6, 1_041), 0), None);
        for len in 0..60 {
            assert_eq!((size(&v4(6, 1_041)[..len]), size(&v6(1_021)[..len])), (0, 0), "cut off");
        }
    }

    /// Sends datagrams of 100 bytes; how many packets came out.
    fn send(host: &mut Host, fd: i32, count: usize) -> Vec<(usize, usize)> {
        let to = Name::Inet("192.0.2.9:9".parse().expect("an address"));
        for _ in 0..count {
            let (data, control) = (vec![Piece::zeros(100)], Vec::new());
            let call = Call::Send { fd, kind: SendKind::Sendto, data, flags: 0, to: Some(to), control };
            assert!(matches!(host.call(call), Started::Done(reply) if reply.ret == 100));
        }
        taken(host)
    }

    fn taken(host: &mut Host) -> Vec<(usize, usize)> {
        let now = host.now();
        std::iter::from_fn(|| host.next_packet(now)).map(|s| (s.packets, s.queued)).collect()
    }

    fn socket(host: &mut Host) -> i32 {
        match host.call(Call::Socket { domain: 2, ty: 2, protocol: 0 }) {
            Started::Done(reply) => reply.ret as i32,
            Started::Blocked(_) => panic!("socket() never blocks"),
        }
    }

    #[test]
    fn a_device_with_room_holds_packets_until_they_are_completed() {
        let mut host = host(Some(2));
        let fd = socket(&mut host);
        assert_eq!(send(&mut host, fd, 3), [(1, 128), (2, 256)]);
        assert_eq!(host.complete(1), 1);
        assert_eq!(taken(&mut host), [(2, 256)], "the third had waited");
        assert_eq!(host.complete(9), 2);
        assert_eq!(host.complete(1), 0);
        assert_eq!(send(&mut host, fd, 1), [(1, 128)]);
    }

    /// What is taken out of the queue stands before all that comes later, so that nothing is before there is room.
    #[test]
    fn a_full_device_that_is_no_longer_busy_is_still_full() {
        let mut host = host(Some(1));
        let (fd, urgent) = (socket(&mut host), socket(&mut host));
        let call = Call::Setsockopt { fd: urgent, level: 0, name: 1, value: Optval::int(0x10) };
        assert!(matches!(host.call(call), Started::Done(reply) if reply.ret == 0), "IP_TOS");
        assert_eq!(send(&mut host, fd, 2), [(1, 128)]);
        host.set_busy(true);
        host.set_busy(false);
        assert_eq!(send(&mut host, urgent, 1), []);
        let now = host.now();
        let mut tos = || {
            assert_eq!(host.complete(1), 1);
            host.next_packet(now).map(|sent| sent.bytes[1])
        };
        assert_eq!((tos(), tos()), (Some(0x10), Some(0)), "the discipline chooses when there is room");
    }

    #[test]
    fn a_full_device_that_was_busy_goes_on_with_the_next_completion() {
        let mut host = host(Some(1));
        let fd = socket(&mut host);
        assert_eq!(send(&mut host, fd, 3), [(1, 128)]);
        host.set_busy(true);
        assert_eq!((host.complete(1), taken(&mut host)), (1, vec![]), "it is busy");
        host.set_busy(false);
        assert_eq!(taken(&mut host), [(1, 128)]);
        host.set_busy(true);
        host.set_busy(false);
        assert_eq!((host.complete(1), taken(&mut host)), (1, vec![(1, 128)]));
    }

    #[test]
    fn a_busy_device_loses_nothing() {
        let mut host = host(None);
        let fd = socket(&mut host);
        assert_eq!(send(&mut host, fd, 2), [(1, 128), (1, 128)], "without room every packet leaves at once");
        host.set_busy(true);
        assert_eq!(send(&mut host, fd, 2), []);
        host.set_busy(false);
        assert_eq!(taken(&mut host), [(1, 128), (1, 128)]);
        host.set_drops(2);
        assert_eq!(send(&mut host, fd, 3), [(1, 128)], "two are lost");
    }

    #[test]
    fn pauses_part_packets_and_end() {
        let mut host = host(None);
        let fd = socket(&mut host);
        let begun = host.now();
        host.set_busy(true);
        assert_eq!(send(&mut host, fd, 4), []);
        host.set_pauses([0, 7].map(Duration::from_micros));
        host.set_busy(false);
        let times = |host: &mut Host| -> Vec<u64> {
            let now = host.now();
            std::iter::from_fn(|| host.next_packet(now))
                .map(|sent| sent.at.nanos_since(begun) / 1_000)
                .collect()
        };
        assert_eq!(times(&mut host), [0, 7, 7, 7]);
    }
}
