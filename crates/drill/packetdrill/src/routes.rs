//! What the network namespace's routes to the peers ask of connections, read late: scripts change them by `ip route` at any time.
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use lowwater_core::base::RouteMetrics;
use lowwater_os::netlink::route_metrics;

/// The peers, and what their routes were when they were last read.
#[derive(Debug)]
pub(crate) struct Routes(Vec<(IpAddr, RouteMetrics)>);

impl Routes {
    /// Of these peers, whose routes ask for nothing so far.
    pub(crate) fn to(peers: Vec<IpAddr>) -> Self {
        Self(peers.into_iter().map(|peer| (peer, RouteMetrics::NONE)).collect())
    }

    /// Asks for all, and hands what changed to `set`, as the default route's of that family. A peer without a route, as where there is no
    /// namespace for scripts, asks for nothing. Returns what is worth saying.
    pub(crate) fn refresh(
        &mut self,
        mut set: impl FnMut(IpAddr, RouteMetrics) -> Result<(), String>,
    ) -> Vec<String> {
        let mut news = Vec::new();
        for (peer, seen) in &mut self.0 {
            let metrics = route_metrics(*peer).unwrap_or_default();
            if metrics == *seen {
                continue;
            }
            *seen = metrics;
            let any: IpAddr =
                if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            news.extend(set(any, metrics).err());
        }
        news
    }
}
