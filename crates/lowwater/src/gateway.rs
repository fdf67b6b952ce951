//! Gateways of routes: told in words where nobody would reach one, before the stack runs and while it does.
use lowwater_core::base::DeviceId;
use lowwater_core::ip::Cidr;
use lowwater_core::stack::Stack as Core;
use std::net::IpAddr;

/// What a route's device knows of its gateway.
pub(crate) struct Place {
    /// It is an address of the stack's own.
    pub(crate) own: bool,
    /// It is in a subnet of the device, behind a route without a gateway, or the device takes any address.
    pub(crate) near: bool,
}

/// What is wrong with a gateway (Linux: "Nexthop has invalid gateway", "Gateway can not be a local address"). A link-local one is always on
/// the link.
pub(crate) fn mistake(to: &Cidr, gateway: IpAddr, place: &Place) -> Option<String> {
    if gateway.is_ipv4() != to.addr().is_ipv4() {
        return Some(format!("the gateway {gateway} of the route to {to} is of another family"));
    }
    if place.own {
        return Some(format!(
            "the gateway {gateway} of the route to {to} is the stack's own address: name the neighbour's"
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
    let near = ifaces
        .get(dev)
        .is_some_and(|iface| iface.any_address || iface.addresses().iter().any(|own| own.contains(gateway)))
        || routes.iter().filter(|route| route.device == dev).any(|route| {
            route.gateway == Some(gateway) || (route.gateway.is_none() && route.dst.contains(gateway))
        });
    mistake(to, gateway, &Place { own: ifaces.owner_of(gateway).is_some(), near })
}
