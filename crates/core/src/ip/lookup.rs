//! From a destination to a [`Dst`]: route, source address, path MTU and next hop in one answer that a flow may cache.
use super::pmtu::Learnt;
use super::{DeviceId, Dst, Ip, Route, source};
use crate::base::limits::{MIN_PMTU_V4, MIN_PMTU_V6};
use crate::base::{Error, Instant, RouteMetrics};
use core::net::IpAddr;

/// Least MTU that a route may have, as a device (RFC 791).
const MIN_MTU: u16 = 68;

impl Ip {
    /// The way to `dst`, from `src` where the caller is bound to one.
    ///
    /// # Errors
    /// [`Error::NoRoute`] when there is none, [`Error::AddressNotAvailable`] when no address of ours may be the source.
    pub fn lookup(&self, src: Option<IpAddr>, dst: IpAddr, now: Instant) -> Result<Dst, Error> {
        if src.is_some_and(|s| s.is_ipv4() != dst.is_ipv4()) {
            return Err(Error::Invalid);
        }
        let route = self.best_route(src, dst).ok_or(Error::NoRoute)?;
        let iface = self.ifaces.get(route.device).ok_or(Error::NoRoute)?;
        let src = match src {
            Some(bound) => bound,
            None if self.ifaces.is_configured(dst) => dst,
            None => route
                .src
                .filter(|s| self.ifaces.owner_of(*s).is_some())
                .or_else(|| source::select(self.ifaces.candidates(), (dst, route.gateway), route.device))
                .ok_or(Error::AddressNotAvailable)?,
        };
        let mut mtu = match route.metrics.mtu {
            0 => iface.mtu,
            of_route => iface.mtu.min(of_route.max(MIN_MTU)),
        };
        let learnt = self.pmtu.get(dst, now);
        mtu = mtu.min(learnt.map_or(u16::MAX, |learnt| learnt.mtu));
        Ok(Dst {
            device: route.device,
            next_hop: route.gateway.unwrap_or(dst),
            src,
            mtu,
            mtu_locked: learnt.is_some_and(|learnt| learnt.locked),
            hops: route.metrics.hoplimit,
            generation: self.generation,
            local: self.ifaces.owner_of(dst).is_some(),
        })
    }

    /// Bytes of IP packet that a device takes; none where it is gone.
    #[must_use]
    pub fn device_mtu(&self, device: DeviceId) -> u16 {
        self.ifaces.get(device).map_or(0, |iface| iface.mtu)
    }

    /// What the route to `dst` from `src` asks of connections.
    #[must_use]
    pub fn metrics(&self, src: Option<IpAddr>, dst: IpAddr) -> RouteMetrics {
        if !self.asks {
            return RouteMetrics::NONE;
        }
        self.best_route(src, dst).map_or(RouteMetrics::NONE, |route| route.metrics)
    }

    /// Our own addresses are reached over loopback where there is one. Link-local destinations leave by the device that the
    /// source belongs to; all others by the best route.
    pub(super) fn best_route(&self, src: Option<IpAddr>, dst: IpAddr) -> Option<Route> {
        if self.ifaces.owner_of(dst).is_some()
            && let Some(loopback) = self.ifaces.loopback()
        {
            return Some(Route::on_link(super::Cidr::host(dst), loopback));
        }
        if source::scope(dst) == source::LINK
            && let Some(device) = src.and_then(|s| self.ifaces.owner_of(s))
        {
            let there = self.ifaces.get(device).is_some_and(|iface| !iface.gone);
            return there.then(|| Route::on_link(super::Cidr::host(dst), device));
        }
        self.routes.lookup(dst, |_| true).copied()
    }

    /// Lowers the path MTU to `dst` after an error that the transport has validated (RFC 5927 section 7); true when
    /// that changed something. IPv6 ignores values below its floor; IPv4 takes its floor for them and lets routers cut packets from
    /// then on (`__ip_rt_update_pmtu`). A router older than RFC 1191 states 0.
    pub fn lower_path_mtu(&mut self, dst: IpAddr, mtu: u16, now: Instant) -> bool {
        let locked = dst.is_ipv4() && mtu < MIN_PMTU_V4;
        // No router is on the way to ourselves.
        if (dst.is_ipv6() && mtu < MIN_PMTU_V6) || self.ifaces.owner_of(dst).is_some() {
            return false;
        }
        let current = self.lookup(None, dst, now).map_or(u16::MAX, |d| d.mtu);
        let mtu = if locked { MIN_PMTU_V4.min(current) } else { mtu };
        if (mtu >= current && !locked) || !self.pmtu.lower(dst, Learnt { mtu, locked }, now) {
            return false;
        }
        self.generation += 1;
        true
    }
}
