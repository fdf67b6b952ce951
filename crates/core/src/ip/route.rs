//! Routes: longest prefix match over both families, bounded, with a generation that tells flows when to ask again.
use super::cidr::{Cidr, bits, masked};
use crate::base::limits::ROUTES_MAX;
use crate::base::{DeviceId, Error, RouteMetrics};
use core::net::IpAddr;
use std::collections::BTreeMap;

/// One route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destinations it covers.
    pub dst: Cidr,
    /// Next hop; `None` when the destinations are on the link.
    pub gateway: Option<IpAddr>,
    /// Device it leads to.
    pub device: DeviceId,
    /// Among routes of the same prefix the lowest wins.
    pub metric: u32,
    /// Preferred source address.
    pub src: Option<IpAddr>,
    /// Its MTU, and what it asks of connections.
    pub metrics: RouteMetrics,
}

impl Route {
    /// Destinations that `device` reaches directly.
    #[must_use]
    pub const fn on_link(dst: Cidr, device: DeviceId) -> Self {
        Self { dst, gateway: None, device, metric: 0, src: None, metrics: RouteMetrics::NONE }
    }

    /// Destinations that `device` reaches through `gateway`.
    #[must_use]
    pub const fn via(dst: Cidr, gateway: IpAddr, device: DeviceId) -> Self {
        Self { gateway: Some(gateway), ..Self::on_link(dst, device) }
    }
}

/// What a flow keeps of a route. Good as long as [`super::Ip::generation`] still equals `generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dst {
    /// Device that packets leave by.
    pub device: DeviceId,
    /// Whose link address the frame gets: the gateway, or the destination itself.
    pub next_hop: IpAddr,
    /// Source address: the caller's, or the chosen one.
    pub src: IpAddr,
    /// Path MTU in bytes of IP packet: the least of device, route and what ICMP has taught.
    pub mtu: u16,
    /// A router on the way has less room than is believed of any (`ip_rt_min_pmtu`), so that routers may cut packets up.
    pub mtu_locked: bool,
    /// TTL or hop limit that the route asks for where nobody has set one, 0 for none (`ip4_dst_hoplimit`).
    pub hops: u8,
    /// Generation at the time of the lookup.
    pub generation: u64,
    /// The destination is one of our own addresses.
    pub local: bool,
}

/// Order in which a lookup wants to find routes: family, prefix, then metric, then device.
type Key = (u128, u32, DeviceId);

#[derive(Debug, Default)]
struct Family {
    /// For each prefix length in use, its routes; lookups walk the lengths from the longest, at most 33 or 129 of them.
    lengths: BTreeMap<u8, BTreeMap<Key, Route>>,
}

impl Family {
    fn lookup(&self, dst: u128, usable: impl Fn(&Route) -> bool) -> Option<&Route> {
        self.lengths.iter().rev().find_map(|(&len, routes)| {
            let network = masked(dst, len);
            let first = (network, 0, DeviceId(0));
            let last = (network, u32::MAX, DeviceId(u16::MAX));
            routes.range(first..=last).map(|(_, route)| route).find(|route| usable(route))
        })
    }
}

/// The routing table.
#[derive(Debug, Default)]
pub struct Routes {
    v4: Family,
    v6: Family,
    len: usize,
}

impl Routes {
    const fn family(&mut self, addr: IpAddr) -> &mut Family {
        if addr.is_ipv4() { &mut self.v4 } else { &mut self.v6 }
    }

    fn key(route: &Route) -> Key {
        (bits(route.dst.network().addr()), route.metric, route.device)
    }

    /// Adds a route, or replaces the one with the same prefix, metric and device.
    ///
    /// # Errors
    /// [`Error::NoBuffers`] at [`ROUTES_MAX`]; [`Error::Invalid`] when the gateway is of another family.
    pub(super) fn add(&mut self, route: Route) -> Result<(), Error> {
        let v4 = route.dst.addr().is_ipv4();
        if route.gateway.is_some_and(|g| g.is_ipv4() != v4) || route.src.is_some_and(|s| s.is_ipv4() != v4) {
            return Err(Error::Invalid);
        }
        if self.len >= ROUTES_MAX {
            return Err(Error::NoBuffers);
        }
        let routes = self.family(route.dst.addr()).lengths.entry(route.dst.len()).or_default();
        if routes.insert(Self::key(&route), route).is_none() {
            self.len += 1;
        }
        Ok(())
    }

    /// Removes the route with the prefix, metric and device of `route`; false when there is none.
    pub(super) fn remove(&mut self, route: &Route) -> bool {
        let family = self.family(route.dst.addr());
        let Some(routes) = family.lengths.get_mut(&route.dst.len()) else { return false };
        let removed = routes.remove(&Self::key(route)).is_some();
        if routes.is_empty() {
            family.lengths.remove(&route.dst.len());
        }
        self.len -= usize::from(removed);
        removed
    }

    /// Removes every route through `device` (a control operation: it walks the table).
    pub(super) fn remove_device(&mut self, device: DeviceId) {
        let mut left = 0;
        for family in [&mut self.v4, &mut self.v6] {
            for routes in family.lengths.values_mut() {
                routes.retain(|_, route| route.device != device);
                left += routes.len();
            }
            family.lengths.retain(|_, routes| !routes.is_empty());
        }
        self.len = left;
    }

    /// A device has another MTU, `new` instead of `old`. That of an IPv6 route which is larger, or was the device's, becomes the device's
    /// (`rt6_mtu_change_route`); one of IPv4 stays as it was set (`fib_sync_mtu`).
    pub(super) fn follow_device(&mut self, device: DeviceId, (old, new): (u16, u16)) {
        let all = self.v6.lengths.values_mut().flat_map(BTreeMap::values_mut);
        for route in all.filter(|route| route.device == device) {
            let mtu = &mut route.metrics.mtu;
            if *mtu >= new || *mtu == old {
                *mtu = new;
            }
        }
    }

    /// The best route to `dst` among those that `usable` accepts: longest prefix, then lowest metric.
    #[must_use]
    pub fn lookup(&self, dst: IpAddr, usable: impl Fn(&Route) -> bool) -> Option<&Route> {
        let family = if dst.is_ipv4() { &self.v4 } else { &self.v6 };
        family.lookup(bits(dst), usable)
    }

    /// All routes, longest prefix first.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        [&self.v4, &self.v6].into_iter().flat_map(|f| f.lengths.values().rev().flat_map(BTreeMap::values))
    }

    /// Number of routes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True when there is no route at all.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cidr(s: &str) -> Cidr {
        s.parse().expect("valid")
    }
    fn ip(s: &str) -> IpAddr {
        s.parse().expect("valid")
    }

    #[test]
    fn the_longest_prefix_wins_then_the_lowest_metric() {
        let mut r = Routes::default();
        r.add(Route::via(cidr("0.0.0.0/0"), ip("10.0.0.1"), DeviceId(0))).expect("room");
        r.add(Route::on_link(cidr("10.0.0.0/8"), DeviceId(1))).expect("room");
        r.add(Route { metric: 5, ..Route::on_link(cidr("10.1.0.0/16"), DeviceId(2)) }).expect("room");
        r.add(Route { metric: 4, ..Route::on_link(cidr("10.1.0.0/16"), DeviceId(3)) }).expect("room");
        let dev = |a: &str| r.lookup(ip(a), |_| true).map(|r| r.device.0);
        assert_eq!(
            (dev("8.8.8.8"), dev("10.2.3.4"), dev("10.1.3.4"), dev("::1")),
            (Some(0), Some(1), Some(3), None)
        );
        assert_eq!(r.lookup(ip("10.1.1.1"), |r| r.device.0 != 3).map(|r| r.device.0), Some(2));
        let gone = Route { metric: 4, ..Route::on_link(cidr("10.1.0.0/16"), DeviceId(3)) };
        assert!(r.remove(&gone) && !r.remove(&gone));
        assert_eq!(r.len(), 3);
        r.remove_device(DeviceId(2));
        assert_eq!(r.iter().count(), 2);
        assert!(r.add(Route::via(cidr("1.0.0.0/8"), ip("::1"), DeviceId(0))).is_err());
    }

    #[test]
    fn the_table_is_bounded() {
        let mut r = Routes::default();
        for n in 0..ROUTES_MAX as u32 {
            r.add(Route::on_link(Cidr::host(IpAddr::from(n.to_be_bytes())), DeviceId(0))).expect("room");
        }
        assert_eq!(r.add(Route::on_link(cidr("::/0"), DeviceId(0))), Err(Error::NoBuffers));
    }

    proptest! {
        #[test]
        fn lookup_equals_a_walk(routes in prop::collection::vec((any::<u32>(), 0u8..=32, 0u32..3, 0u16..3), 0..40), dst in any::<u32>()) {
            let mut table = Routes::default();
            let mut list: Vec<Route> = Vec::new();
            for (addr, len, metric, device) in routes {
                let dst = Cidr::new(IpAddr::from((addr & 0xc300_00ff).to_be_bytes()), len).expect("valid");
                let route = Route { metric, ..Route::on_link(dst, DeviceId(device)) };
                table.add(route).expect("room");
                list.push(route);
            }
            let dst = IpAddr::from((dst & 0xc300_00ff).to_be_bytes());
            let want = list.iter().filter(|r| r.dst.contains(dst)).map(|r| (r.dst.len(), core::cmp::Reverse(r.metric))).max();
            prop_assert_eq!(table.lookup(dst, |_| true).map(|r| (r.dst.len(), core::cmp::Reverse(r.metric))), want);
        }
    }
}
