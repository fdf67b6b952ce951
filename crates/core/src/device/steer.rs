//! Which shard a packet belongs to: a pure, symmetrical function of its flow (multiqueue TUN, the simulator).
use crate::base::hash::KeyedState;
use crate::base::tuple::Tuple;
use crate::packet::Packet;
use core::hash::{BuildHasher as _, Hasher};
use core::net::IpAddr;
use lowwater_wire::ipv4::Ipv4View;
use lowwater_wire::ipv6::Ipv6View;
use lowwater_wire::protocol;
#[cfg(test)]
mod tests;

/// Bytes of a packet that are looked at: IPv6 with a few extension headers, an ICMP header, the quoted packet's headers.
const PREFIX_BYTES: usize = 256;
/// IPv4's and IPv6's number for SCTP, which steers by ports alone so that all paths of an association meet.
const SCTP: u8 = protocol::SCTP;

/// A shard: one stack, one queue of a multiqueue device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

/// Distributes flows over shards. All shards and drivers of one device share the key, so that they agree.
#[derive(Clone, Copy, Debug)]
pub struct Steering {
    key: KeyedState,
    shards: u16,
}

/// What the fragments of one packet have in common: addresses, protocol (0 over IPv6) and identification.
pub type FragmentName = (IpAddr, IpAddr, u8, u32);

/// A fragment, for whoever brings those of a packet together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Whose it is.
    pub named: FragmentName,
    /// The shard of its flow, which only the first fragment tells.
    pub flow: Option<ShardId>,
}

/// Where a packet belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The shard of its flow, or where the fragments of its packet meet.
    pub shard: ShardId,
    /// It is one of several.
    pub fragment: Option<Fragment>,
}

impl Place {
    const fn of(shard: ShardId) -> Self {
        Self { shard, fragment: None }
    }

    /// The shard of its flow, as far as that can be told.
    fn flow(self) -> ShardId {
        self.fragment.and_then(|fragment| fragment.flow).unwrap_or(self.shard)
    }
}

/// One end of a flow as far as steering looks: with the port, or without for what has none.
type End = (Option<IpAddr>, u16);

impl Steering {
    /// Over `shards` shards (0 counts as 1). The key keeps peers from choosing a shard.
    #[must_use]
    pub const fn new(key: KeyedState, shards: u16) -> Self {
        Self { key, shards: if shards == 0 { 1 } else { shards } }
    }

    /// Number of shards.
    #[must_use]
    pub const fn shards(&self) -> u16 {
        self.shards
    }

    /// The shard of a TCP or UDP flow, the same for both directions. `connect` asks this to choose a source port that steers home.
    #[must_use]
    pub fn flow(&self, tuple: &Tuple) -> ShardId {
        self.pick((Some(tuple.local_ip), tuple.local_port), (Some(tuple.remote_ip), tuple.remote_port), 0)
    }

    /// The shard of a packet whose IP header starts at `link_bytes`. ICMP errors go where the flow is that they quote;
    /// fragments meet by addresses and identification; what cannot be parsed goes to the first shard, which counts it.
    #[must_use]
    pub fn packet(&self, packet: &Packet, link_bytes: usize) -> ShardId {
        self.place(packet, link_bytes).shard
    }

    /// The same, and what there is to know where it is a fragment.
    #[must_use]
    pub fn place(&self, packet: &Packet, link_bytes: usize) -> Place {
        if self.shards == 1 {
            return Place::of(ShardId(0));
        }
        if packet.head.is_empty() {
            return self.place_of(packet.payload.get(link_bytes..).unwrap_or_default());
        }
        let head = packet.head.as_slice();
        let mut prefix = [0; PREFIX_BYTES];
        let tail = packet.payload.len().min(PREFIX_BYTES - head.len());
        prefix[..head.len()].copy_from_slice(head);
        prefix[head.len()..head.len() + tail].copy_from_slice(&packet.payload[..tail]);
        self.place_of(prefix[..head.len() + tail].get(link_bytes..).unwrap_or_default())
    }

    /// The shard of an IP packet, of which the beginning is enough.
    #[must_use]
    pub fn bytes(&self, ip: &[u8]) -> ShardId {
        self.place_of(ip).shard
    }

    fn place_of(&self, ip: &[u8]) -> Place {
        self.parse(ip, true).unwrap_or(Place::of(ShardId(0)))
    }

    fn parse(&self, ip: &[u8], may_quote: bool) -> Option<Place> {
        match ip.first()? >> 4 {
            4 => {
                let view = Ipv4View::parse_quoted(ip).ok()?;
                let (src, dst) = (view.src().into(), view.dst().into());
                let l4 = ip.get(view.header_len()..)?;
                let flow = || self.transport(src, dst, view.protocol(), l4, may_quote);
                if !view.is_fragment() {
                    return flow().map(Place::of);
                }
                let named = (src, dst, view.protocol(), view.ident().into());
                Some(self.part(named, view.fragment_offset() == 0, flow))
            }
            6 => {
                let view = Ipv6View::parse_quoted(ip).ok()?;
                let (src, dst) = (view.src().into(), view.dst().into());
                // Of what an error quotes, and of a packet whose headers are apart, only the beginning is here.
                let chain = view.walk_quoted().ok()?;
                let l4 = view.payload().get(chain.offset..)?;
                let flow = || self.transport(src, dst, chain.protocol, l4, may_quote);
                let Some(f) = chain.fragment else { return flow().map(Place::of) };
                // The protocol is no part of the name (RFC 8200 section 4.5).
                Some(self.part((src, dst, 0, f.ident), f.offset == 0, flow))
            }
            _ => None,
        }
    }

    /// A fragment of the packet `named`, and the shard that `flow` finds in it if it is the first.
    fn part(&self, named: FragmentName, first: bool, flow: impl FnOnce() -> Option<ShardId>) -> Place {
        let (src, dst, _, ident) = named;
        let shard = self.pick((Some(src), 0), (Some(dst), 0), u64::from(ident) + 1);
        // Of one that is too short for ports whoever puts it together counts it.
        let flow = first.then(|| flow().unwrap_or(shard));
        Place { shard, fragment: Some(Fragment { named, flow }) }
    }

    fn transport(&self, src: IpAddr, dst: IpAddr, proto: u8, l4: &[u8], may_quote: bool) -> Option<ShardId> {
        let ports = || Some((be16(l4, 0)?, be16(l4, 2)?));
        match proto {
            protocol::TCP | protocol::UDP => {
                let (from, to) = ports()?;
                Some(self.pick((Some(src), from), (Some(dst), to), 0))
            }
            SCTP => {
                let (from, to) = ports()?;
                Some(self.pick((None, from), (None, to), 0))
            }
            // Errors have types 3, 4, 5, 11 and 12 (RFC 792), and below 128 in ICMPv6 (RFC 4443 section 2.1).
            protocol::ICMP if may_quote && matches!(l4.first()?, 3 | 4 | 5 | 11 | 12) => {
                self.parse(l4.get(8..)?, false).map(Place::flow)
            }
            protocol::ICMPV6 if may_quote && *l4.first()? < 128 => {
                self.parse(l4.get(8..)?, false).map(Place::flow)
            }
            _ => Some(self.pick((Some(src), 0), (Some(dst), 0), 0)),
        }
    }

    /// Hashes both ends in an order that does not depend on the direction.
    fn pick(&self, a: End, b: End, extra: u64) -> ShardId {
        let (low, high) = if a <= b { (a, b) } else { (b, a) };
        let mut hasher = self.key.build_hasher();
        for (addr, port) in [low, high] {
            match addr {
                Some(IpAddr::V4(v4)) => hasher.write(&v4.octets()),
                Some(IpAddr::V6(v6)) => hasher.write(&v6.octets()),
                None => {}
            }
            hasher.write_u16(port);
        }
        hasher.write_u64(extra);
        // The high half times the number of shards: even, without a division.
        ShardId((((hasher.finish() >> 32) * u64::from(self.shards)) >> 32) as u16)
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
