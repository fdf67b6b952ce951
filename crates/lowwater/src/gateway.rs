//! Gateways of routes: told in words where nobody would reach one, before the stack runs and while it does.
use lowwater_core::base::DeviceId;
use lowwater_core::ip::Cidr;
use lowwater_core::stack::Stack as Core;
use std::net::IpAddr;

/// What the stack knows of a gateway, and the device that leads to it.
pub(crate) struct Place<'a> {
    /// It is an address of a device of the stack, of whichever.
    pub(crate) configured: bool,
    /// Those of the route's device.
    pub(crate) addresses: &'a [Cidr],
    /// It is in a subnet of the device, behind a route without a gateway, or the device takes any address.
    pub(crate) near: bool,
}

/// No host has the address, so none forwards; in words that follow "is". The address of the network itself is one that Linux takes
/// (`fib_check_nh_v4_gw`: its type is that of a host's).
fn nobodys(gateway: IpAddr, addresses: &[Cidr]) -> Option<&'static str> {
    if gateway.is_unspecified() {
        return Some("no address: a route on the link has no gateway at all");
    }
    if gateway.is_multicast() {
        return Some("a multicast address");
    }
    let IpAddr::V4(ip) = gateway else { return None };
    let of_a_subnet = addresses.iter().any(|own| own.broadcast() == Some(ip));
    (ip.is_broadcast() || of_a_subnet).then_some("a broadcast address")
}

/// What is wrong with a gateway: what Linux refuses ("Nexthop has invalid gateway", "Invalid gateway address"), and for both families the stack's
/// own addresses. Linux refuses these for IPv6 ("Gateway can not be a local address"); for IPv4 it takes one of the device's and makes a route
/// on the link of it, which is said here by no gateway. A link-local one is always on the link.
pub(crate) fn mistake(to: &Cidr, gateway: IpAddr, place: &Place<'_>) -> Option<String> {
    if gateway.is_ipv4() != to.addr().is_ipv4() {
        return Some(format!("the gateway {gateway} of the route to {to} is of another family"));
    }
    if let Some(what) = nobodys(gateway, place.addresses) {
        return Some(format!("the gateway {gateway} of the route to {to} is {what}"));
    }
    if place.configured || gateway.is_loopback() {
        return Some(format!(
            "the gateway {gateway} of the route to {to} is the stack's own address: name the neighbour's, or none for a route on the link"
        ));
    }
    let local = matches!(gateway, IpAddr::V6(ip) if ip.is_unicast_link_local());
    (!local && !place.near).then(|| {
        format!("the gateway {gateway} of the route to {to} is in no subnet of its device's addresses: nobody would reach it")
    })
}

/// The same for a route by `dev` of a stack that runs. The kernel's side of a TUN may be in no subnet, but then a route without a gateway leads
/// there, or one by it.
pub(crate) fn mistake_of_running(
    core: &Core,
    dev: DeviceId,
    to: &Cidr,
    gateway: Option<IpAddr>,
) -> Option<String> {
    let gateway = gateway?;
    let (ifaces, routes) = (core.ip().ifaces(), core.ip().routes());
    let iface = ifaces.get(dev);
    let addresses = iface.map_or(&[][..], |iface| iface.addresses());
    let near = iface.is_some_and(|iface| iface.any_address)
        || addresses.iter().any(|own| own.contains(gateway))
        || routes.iter().filter(|route| route.device == dev).any(|route| {
            route.gateway == Some(gateway) || (route.gateway.is_none() && route.dst.contains(gateway))
        });
    mistake(to, gateway, &Place { configured: ifaces.is_configured(gateway), addresses, near })
}
