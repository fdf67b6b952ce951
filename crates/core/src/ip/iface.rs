//! What IP knows of each device: link type, MTU, addresses, and whether it takes packets for any destination.
use super::cidr::Cidr;
use crate::base::{DeviceId, Error};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use lowwater_wire::ether::{self, EtherAddr};
use std::collections::{BTreeMap, BTreeSet};

/// Devices per stack.
pub const DEVICES_MAX: usize = 256;
/// Addresses per device.
pub const ADDRESSES_MAX: usize = 64;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// What stands before the IP header on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Nothing: TUN, links in memory.
    Ip,
    /// Nothing, and packets turn around at once: the one device on which our own addresses may be sources.
    Loopback,
    /// An Ethernet header; neighbours are found by ARP and ND.
    Ethernet(Mac),
}

impl Link {
    /// Bytes of the link header.
    #[must_use]
    pub const fn header_len(self) -> usize {
        match self {
            Self::Ip | Self::Loopback => 0,
            Self::Ethernet(_) => ether::HEADER_LEN,
        }
    }
}

/// One device as IP sees it.
#[derive(Clone, Debug)]
pub struct Iface {
    /// Link type.
    pub link: Link,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// Accept packets to any unicast destination (a proxy's or sandbox's stack).
    pub any_address: bool,
    /// It is gone for good: nothing leads by it.
    pub(super) gone: bool,
    addresses: Vec<Cidr>,
}

impl Iface {
    /// A device without addresses.
    #[must_use]
    pub const fn new(link: Link, mtu: u16) -> Self {
        Self { link, mtu, any_address: false, gone: false, addresses: Vec::new() }
    }

    /// Its Ethernet address, where it has one.
    #[must_use]
    pub const fn mac(&self) -> Option<EtherAddr> {
        match self.link {
            Link::Ethernet(mac) => Some(EtherAddr(mac)),
            Link::Ip | Link::Loopback => None,
        }
    }

    /// Its addresses in the order in which they were added.
    #[must_use]
    pub fn addresses(&self) -> &[Cidr] {
        &self.addresses
    }

    /// True when `dst` is the broadcast address of one of its subnets, or the limited one.
    #[must_use]
    pub fn is_broadcast(&self, dst: Ipv4Addr) -> bool {
        dst.is_broadcast() || self.addresses.iter().any(|c| c.broadcast() == Some(dst))
    }

    /// True when it listens to the multicast group: all nodes, and the solicited nodes of its addresses (RFC 4291 section 2.8).
    #[must_use]
    pub fn is_member(&self, group: IpAddr) -> bool {
        match group {
            IpAddr::V4(g) => g == Ipv4Addr::new(224, 0, 0, 1),
            IpAddr::V6(g) => {
                g == ALL_NODES
                    || self.addresses.iter().any(|c| match c.addr() {
                        IpAddr::V6(a) => solicited_node(a) == g,
                        IpAddr::V4(_) => false,
                    })
            }
        }
    }
}

/// The all-nodes group of the link (RFC 4291 section 2.7.1).
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The solicited-node group of `addr` (RFC 4291 section 2.7.1).
#[must_use]
pub const fn solicited_node(addr: Ipv6Addr) -> Ipv6Addr {
    let o = addr.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | o[13] as u16, u16::from_be_bytes([o[14], o[15]]))
}

/// The link-local address made of a MAC address (RFC 4291 appendix A, modified EUI-64).
#[must_use]
pub const fn link_local(mac: Mac) -> Ipv6Addr {
    Ipv6Addr::new(
        0xfe80,
        0,
        0,
        0,
        u16::from_be_bytes([mac[0] ^ 2, mac[1]]),
        u16::from_be_bytes([mac[2], 0xff]),
        u16::from_be_bytes([0xfe, mac[3]]),
        u16::from_be_bytes([mac[4], mac[5]]),
    )
}

/// All devices, and which address belongs to which.
#[derive(Debug, Default)]
pub struct Ifaces {
    devices: BTreeMap<DeviceId, Iface>,
    /// Addresses of all devices: the weak host model (RFC 1122 section 3.3.4.2), as Linux has it.
    local: BTreeMap<IpAddr, DeviceId>,
    /// Broadcast addresses of all their subnets.
    broadcasts: BTreeSet<Ipv4Addr>,
    /// Whose packet was last found right, so that its next one is not judged anew.
    judged: Option<Judged>,
}

/// Device, source and destination of a packet for this host whose addresses are right.
type Judged = (DeviceId, Ipv4Addr, Ipv4Addr);

impl Ifaces {
    /// The device, where it exists.
    #[must_use]
    pub fn get(&self, device: DeviceId) -> Option<&Iface> {
        self.devices.get(&device)
    }

    pub(super) fn get_mut(&mut self, device: DeviceId) -> Option<&mut Iface> {
        self.judged = None;
        self.devices.get_mut(&device)
    }

    /// All devices in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (DeviceId, &Iface)> {
        self.devices.iter().map(|(&id, iface)| (id, iface))
    }

    /// The device that `addr` is configured on; all of 127.0.0.0/8 is loopback's (RFC 1122 section 3.2.1.3).
    #[must_use]
    pub fn owner_of(&self, addr: IpAddr) -> Option<DeviceId> {
        self.local.get(&addr).copied().or_else(|| match addr {
            IpAddr::V4(ip) if ip.is_loopback() => self.loopback(),
            _ => None,
        })
    }

    /// `addr` itself is configured on some device.
    #[must_use]
    pub fn is_configured(&self, addr: IpAddr) -> bool {
        self.local.contains_key(&addr)
    }

    /// True for the limited broadcast address and that of any subnet of ours: which of our devices a packet came by does not change what its address
    /// means (`fib_validate_source`, `ip_route_input_slow`).
    #[must_use]
    pub fn is_broadcast(&self, addr: Ipv4Addr) -> bool {
        addr.is_broadcast() || self.broadcasts.contains(&addr)
    }

    /// The last packet that was judged had these addresses, was right, and for us alone; nothing that it was judged by has changed.
    pub(super) fn is_judged(&self, packet: Judged) -> bool {
        self.judged == Some(packet)
    }

    pub(super) const fn note_judged(&mut self, packet: Judged) {
        self.judged = Some(packet);
    }

    fn find_broadcasts(&mut self) {
        let addresses = self.devices.values().flat_map(|iface| &iface.addresses);
        self.broadcasts = addresses.filter_map(|c| c.broadcast()).collect();
    }

    /// The loopback device, where there is one.
    #[must_use]
    pub fn loopback(&self) -> Option<DeviceId> {
        self.iter().find(|(_, iface)| iface.link == Link::Loopback).map(|(id, _)| id)
    }

    /// Every address with its device and prefix length, for source selection.
    pub fn candidates(&self) -> impl Iterator<Item = (DeviceId, IpAddr, u8)> {
        self.iter().flat_map(|(id, iface)| iface.addresses.iter().map(move |c| (id, c.addr(), c.len())))
    }

    pub(super) fn add(&mut self, device: DeviceId, iface: Iface) -> Result<(), Error> {
        self.judged = None;
        if self.devices.len() >= DEVICES_MAX {
            return Err(Error::NoBuffers);
        }
        if self.devices.contains_key(&device) {
            return Err(Error::AddressInUse);
        }
        self.devices.insert(device, iface);
        Ok(())
    }

    pub(super) fn remove(&mut self, device: DeviceId) {
        self.judged = None;
        self.devices.remove(&device);
        self.local.retain(|_, on| *on != device);
        self.find_broadcasts();
    }

    pub(super) fn add_address(&mut self, device: DeviceId, cidr: Cidr) -> Result<(), Error> {
        self.judged = None;
        let addr = cidr.addr();
        if addr.is_unspecified() || addr.is_multicast() || addr == IpAddr::V4(Ipv4Addr::BROADCAST) {
            return Err(Error::Invalid);
        }
        let iface = self.devices.get_mut(&device).ok_or(Error::NoSuchSocket)?;
        if iface.addresses.len() >= ADDRESSES_MAX {
            return Err(Error::NoBuffers);
        }
        if self.local.contains_key(&addr) {
            return Err(Error::AddressInUse);
        }
        iface.addresses.push(cidr);
        self.local.insert(addr, device);
        self.broadcasts.extend(cidr.broadcast());
        Ok(())
    }

    pub(super) fn remove_address(&mut self, device: DeviceId, addr: IpAddr) -> Option<Cidr> {
        self.judged = None;
        let iface = self.devices.get_mut(&device)?;
        let at = iface.addresses.iter().position(|c| c.addr() == addr)?;
        self.local.remove(&addr);
        let cidr = iface.addresses.remove(at);
        self.find_broadcasts();
        Some(cidr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_belong_to_one_device() {
        let mut i = Ifaces::default();
        i.add(DeviceId(1), Iface::new(Link::Ip, 1500)).expect("room");
        i.add(DeviceId(2), Iface::new(Link::Ip, 1500)).expect("room");
        let c: Cidr = "10.0.0.1/24".parse().expect("valid");
        i.add_address(DeviceId(1), c).expect("free");
        assert_eq!(i.add_address(DeviceId(2), c), Err(Error::AddressInUse));
        assert_eq!(i.add_address(DeviceId(2), "224.0.0.1/4".parse().expect("valid")), Err(Error::Invalid));
        assert_eq!(i.owner_of(c.addr()), Some(DeviceId(1)));
        assert!(i.get(DeviceId(1)).is_some_and(|d| d.is_broadcast(Ipv4Addr::new(10, 0, 0, 255))));
        assert_eq!(i.remove_address(DeviceId(1), c.addr()), Some(c));
        assert_eq!(i.owner_of(c.addr()), None);
    }

    #[test]
    fn a_judgement_ends_with_any_change() {
        let change: [fn(&mut Ifaces); 5] = [
            |i| i.add(DeviceId(2), Iface::new(Link::Ip, 1500)).expect("room"),
            |i| i.remove(DeviceId(2)),
            |i| i.add_address(DeviceId(1), "10.0.0.9/24".parse().expect("valid")).expect("free"),
            |i| i.remove_address(DeviceId(1), "10.0.0.1".parse().expect("valid")).map_or((), |_| ()),
            |i| i.get_mut(DeviceId(1)).map_or((), |iface| iface.any_address = true),
        ];
        let mut i = Ifaces::default();
        i.add(DeviceId(1), Iface::new(Link::Ip, 1500)).expect("room");
        i.add_address(DeviceId(1), "10.0.0.1/24".parse().expect("valid")).expect("free");
        let right = (DeviceId(1), Ipv4Addr::new(10, 0, 0, 9), Ipv4Addr::new(10, 0, 0, 1));
        for (at, change) in change.into_iter().enumerate() {
            assert!(!i.is_judged(right), "change {at}");
            i.note_judged(right);
            assert!(i.is_judged(right) && !i.is_judged((DeviceId(2), right.1, right.2)));
            change(&mut i);
        }
        assert!(!i.is_judged(right));
    }

    #[test]
    fn derived_addresses_are_the_standards() {
        assert_eq!(link_local([0x02, 0x11, 0x22, 0x33, 0x44, 0x55]).to_string(), "fe80::11:22ff:fe33:4455");
        let a: Ipv6Addr = "4037::1:800:200e:8c6c".parse().expect("valid");
        assert_eq!(solicited_node(a).to_string(), "ff02::1:ff0e:8c6c");
    }
}
