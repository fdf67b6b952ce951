//! Control operations on the IP layer: devices, addresses, routes.
use super::iface::{Iface, Link, link_local};
use super::{Cidr, Ip, Route};
use crate::base::{DeviceId, Error, RouteMetrics};
use core::net::IpAddr;

impl Ip {
    /// Attaches a device. An Ethernet device gets its IPv6 link-local address (RFC 4862 section 5.3, without DAD).
    ///
    /// # Errors
    /// [`Error::AddressInUse`] when the device exists, [`Error::NoBuffers`] at the bound for devices.
    pub fn add_device(&mut self, device: DeviceId, iface: Iface) -> Result<(), Error> {
        let link = iface.link;
        self.ifaces.add(device, iface)?;
        self.generation += 1;
        if let Link::Ethernet(mac) = link
            && let Some(cidr) = Cidr::new(IpAddr::V6(link_local(mac)), 64)
        {
            // Two devices with one MAC address share the link-local address; the first keeps it.
            let _ = self.add_address(device, cidr);
        }
        Ok(())
    }

    /// Detaches a device with its addresses, routes and neighbours. Packets that waited for a neighbour are in `out.dropped`.
    pub fn remove_device(&mut self, device: DeviceId, out: &mut super::Outbox) {
        self.generation += 1;
        self.ifaces.remove(device);
        self.routes.remove_device(device);
        self.neigh.remove_device(device, &mut out.dropped);
    }

    /// A device is gone for good: nothing leads by it any more, and nothing will. Its addresses stay ours. Packets that waited for a neighbour are
    /// in `out.dropped`.
    pub fn lose_device(&mut self, device: DeviceId, out: &mut super::Outbox) {
        self.generation += 1;
        if let Some(iface) = self.ifaces.get_mut(device) {
            iface.gone = true;
        }
        self.routes.remove_device(device);
        self.neigh.remove_device(device, &mut out.dropped);
    }

    /// Gives a device an address, and a route to the subnet around it. What is sent there has the first address of the subnet over IPv4
    /// (a later one is secondary, `fib_add_ifaddr`), and the last one over IPv6.
    ///
    /// # Errors
    /// [`Error::AddressInUse`] when some device has it, [`Error::Invalid`] for what no host may have,
    /// [`Error::NoBuffers`] at a bound, [`Error::NoSuchSocket`] without the device.
    pub fn add_address(&mut self, device: DeviceId, cidr: Cidr) -> Result<(), Error> {
        if self.ifaces.get(device).is_some_and(|iface| iface.gone) {
            return Err(Error::NoSuchSocket);
        }
        self.ifaces.add_address(device, cidr)?;
        self.generation += 1;
        if cidr.addr().is_ipv4() && self.of_subnet(device, cidr) != Some(cidr) {
            return Ok(());
        }
        if let Err(e) = self.routes.add(Self::connected(device, cidr)) {
            self.ifaces.remove_address(device, cidr.addr());
            return Err(e);
        }
        Ok(())
    }

    fn connected(device: DeviceId, cidr: Cidr) -> Route {
        Route { src: Some(cidr.addr()), ..Route::on_link(cidr.network(), device) }
    }

    /// Takes an address away; false when the device did not have it.
    pub fn remove_address(&mut self, device: DeviceId, addr: IpAddr) -> bool {
        let Some(cidr) = self.ifaces.remove_address(device, addr) else { return false };
        self.generation += 1;
        self.routes.remove(&Self::connected(device, cidr));
        // Another address of the same subnet still needs the route.
        if let Some(other) = self.of_subnet(device, cidr) {
            let _ = self.routes.add(Self::connected(device, other));
        }
        true
    }

    /// The address that a device's packets to the subnet of `cidr` have.
    fn of_subnet(&self, device: DeviceId, cidr: Cidr) -> Option<Cidr> {
        let there = self.ifaces.get(device).filter(|iface| !iface.gone);
        let mut all = there.map(Iface::addresses).unwrap_or_default().iter().copied();
        let same = |c: &Cidr| c.network() == cidr.network();
        if cidr.addr().is_ipv4() { all.find(same) } else { all.rfind(same) }
    }

    /// Adds a route, or replaces the one with the same prefix, metric and device.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`] without the device, [`Error::Invalid`] for a gateway of the other family,
    /// [`Error::NoBuffers`] at the bound for routes.
    pub fn add_route(&mut self, route: Route) -> Result<(), Error> {
        if self.ifaces.get(route.device).is_none_or(|iface| iface.gone) {
            return Err(Error::NoSuchSocket);
        }
        self.generation += 1;
        self.asks |= route.metrics != RouteMetrics::NONE;
        self.routes.add(route)
    }

    /// Removes the route with the prefix, metric and device of `route`; false when there is none.
    pub fn remove_route(&mut self, route: &Route) -> bool {
        self.generation += 1;
        self.routes.remove(route)
    }

    /// Changes a device's MTU in bytes of IP packet, and with it what is known of the ways that lead by it.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`] without the device, [`Error::Invalid`] below 68 bytes (RFC 791).
    pub fn set_mtu(&mut self, device: DeviceId, mtu: u16) -> Result<(), Error> {
        if mtu < 68 {
            return Err(Error::Invalid);
        }
        let iface = self.ifaces.get_mut(device).ok_or(Error::NoSuchSocket)?;
        let change = (core::mem::replace(&mut iface.mtu, mtu), mtu);
        self.routes.follow_device(device, change);
        let leads_by = |dst: &IpAddr| self.best_route(None, *dst).is_some_and(|way| way.device == device);
        let known: Vec<IpAddr> = self.pmtu.known().filter(leads_by).collect();
        known.into_iter().for_each(|dst| self.pmtu.follow_device(dst, change));
        self.generation += 1;
        Ok(())
    }

    /// True for a multicast address, and for one of all hosts of a subnet of ours or of a link.
    #[must_use]
    pub fn is_group(&self, addr: IpAddr) -> bool {
        addr.is_multicast() || matches!(addr, IpAddr::V4(addr) if self.ifaces.is_broadcast(addr))
    }

    /// True when all hosts of a subnet of this device have the address, or all at its link.
    #[must_use]
    pub fn is_broadcast(&self, device: DeviceId, addr: IpAddr) -> bool {
        let IpAddr::V4(addr) = addr else { return false };
        self.ifaces.get(device).is_some_and(|iface| iface.is_broadcast(addr))
    }

    /// Lets a device accept packets to any unicast destination, or stops that.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`] without the device.
    pub fn set_any_address(&mut self, device: DeviceId, on: bool) -> Result<(), Error> {
        self.ifaces.get_mut(device).ok_or(Error::NoSuchSocket)?.any_address = on;
        self.generation += 1;
        Ok(())
    }
}
