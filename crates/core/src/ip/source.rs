//! Source address selection: the rules of RFC 6724 section 5 that a host without home agents or temporary addresses needs.
use super::Cidr;
use super::cidr::bits;
use crate::base::DeviceId;
use core::net::{IpAddr, Ipv6Addr};

/// Link-local scope.
pub(super) const LINK: u8 = 2;

/// Scope of an address as RFC 6724 section 3.1 and 3.2 number them (for multicast: RFC 4291 section 2.7).
#[must_use]
pub fn scope(addr: IpAddr) -> u8 {
    const SITE: u8 = 5;
    const GLOBAL: u8 = 14;
    match addr {
        IpAddr::V4(a) if a.is_loopback() || a.is_link_local() => LINK,
        IpAddr::V4(_) => GLOBAL,
        IpAddr::V6(a) if a.is_multicast() => a.octets()[1] & 0x0f,
        IpAddr::V6(a) if a.is_loopback() || a.is_unicast_link_local() => LINK,
        IpAddr::V6(a) if a.segments()[0] & 0xffc0 == 0xfec0 => SITE,
        IpAddr::V6(_) => GLOBAL,
    }
}

/// Label of RFC 6724's default policy table, so that unique local addresses talk to each other first (rule 6).
fn label(addr: IpAddr) -> u8 {
    let IpAddr::V6(a) = addr else { return 4 };
    let s = a.segments();
    match s {
        _ if a == Ipv6Addr::LOCALHOST => 0,
        _ if a.to_ipv4_mapped().is_some() => 4,
        [0x2002, ..] => 2,
        [0x2001, 0, ..] => 5,
        _ if s[0] & 0xfe00 == 0xfc00 => 13,
        _ => 1,
    }
}

/// What makes one source better than another for `dst` leaving by `device`: rules 1, 2, 5, 6 and 8 of RFC 6724 section 5. Over IPv4 what shares a
/// subnet with the next hop comes before the others, however many bits those have of the destination (`inet_select_addr`).
fn rank(
    candidate: (DeviceId, IpAddr, u8),
    (dst, gateway): (IpAddr, Option<IpAddr>),
    device: DeviceId,
) -> (bool, (bool, i16), bool, bool, u32) {
    let (on, addr, prefix) = candidate;
    let (have, want) = (scope(addr), scope(dst));
    // Rule 2: the smallest scope that still covers the destination's; failing that the largest there is.
    let by_scope = if have >= want { (true, -i16::from(have)) } else { (false, i16::from(have)) };
    let common = if addr.is_ipv4() {
        let next_hop = gateway.unwrap_or(dst);
        u32::from(Cidr::new(addr, prefix).is_some_and(|subnet| subnet.contains(next_hop)))
    } else {
        (bits(addr) ^ bits(dst)).leading_zeros().min(u32::from(prefix))
    };
    (addr == dst, by_scope, on == device, label(addr) == label(dst), common)
}

/// The best source address for `dst`, behind `gateway` or on the link, leaving by `device`; among equals the first.
pub fn select(
    candidates: impl Iterator<Item = (DeviceId, IpAddr, u8)>,
    (dst, gateway): (IpAddr, Option<IpAddr>),
    device: DeviceId,
) -> Option<IpAddr> {
    let mut best = None;
    for candidate in candidates.filter(|c| c.1.is_ipv4() == dst.is_ipv4()) {
        // A link-local address means nothing on another link.
        if candidate.0 != device && scope(candidate.1) == LINK {
            continue;
        }
        let rank = rank(candidate, (dst, gateway), device);
        if best.is_none_or(|(top, _)| rank > top) {
            best = Some((rank, candidate.1));
        }
    }
    best.map(|(_, addr)| addr)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(have: &[(u16, &str, u8)], dst: &str, device: u16) -> Option<String> {
        through(have, (dst, None), device)
    }

    fn through(have: &[(u16, &str, u8)], to: (&str, Option<&str>), device: u16) -> Option<String> {
        let ip = |text: &str| text.parse::<IpAddr>().expect("valid");
        let list = have.iter().map(|&(d, a, l)| (DeviceId(d), ip(a), l));
        select(list, (ip(to.0), to.1.map(ip)), DeviceId(device)).map(|a| a.to_string())
    }

    #[test]
    fn the_rules_act_in_order() {
        let have = [(0, "fe80::1", 64), (0, "2001:db8::1", 64), (0, "fd00::1", 64), (1, "2001:db8:1::1", 64)];
        assert_eq!(pick(&have, "fe80::9", 0).as_deref(), Some("fe80::1"), "same scope");
        assert_eq!(pick(&have, "2a00::1", 0).as_deref(), Some("2001:db8::1"), "same label");
        assert_eq!(pick(&have, "fd00:1::9", 0).as_deref(), Some("fd00::1"), "same label");
        assert_eq!(
            pick(&have, "2001:db8:1::9", 0).as_deref(),
            Some("2001:db8::1"),
            "the device before the prefix"
        );
        assert_eq!(pick(&have, "2001:db8:1::1", 0).as_deref(), Some("2001:db8:1::1"), "the address itself");
        assert_eq!(pick(&have, "ff02::1", 1).as_deref(), Some("2001:db8:1::1"));
        assert_eq!(pick(&have, "10.0.0.1", 0), None);
        let v4 = [(0, "10.0.0.1", 24), (0, "10.0.9.1", 24), (1, "10.0.8.1", 24)];
        assert_eq!(pick(&v4, "10.0.9.7", 0).as_deref(), Some("10.0.9.1"), "its subnet");
        let behind = |gateway| through(&v4, ("10.0.8.7", Some(gateway)), 0);
        assert_eq!(
            behind("10.0.0.254").as_deref(),
            Some("10.0.0.1"),
            "what the gateway shares a subnet with"
        );
        assert_eq!(behind("10.0.9.254").as_deref(), Some("10.0.9.1"));
        assert_eq!(
            behind("192.0.2.1").as_deref(),
            Some("10.0.0.1"),
            "else the first, not the nearest number"
        );
        assert_eq!(pick(&v4, "10.0.9.7", 2).as_deref(), Some("10.0.9.1"), "any device will do");
    }
}
