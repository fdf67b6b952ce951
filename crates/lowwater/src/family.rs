//! IPv4 addresses in the form that sockets of IPv6 have for them (::ffff:a.b.c.d): they mean IPv4, as on Linux's sockets of both families.
use std::net::{IpAddr, SocketAddr};

/// The address that is meant. One of IPv6 keeps its scope.
pub(crate) fn meant(addr: SocketAddr) -> SocketAddr {
    match addr.ip().to_canonical() {
        v4 @ IpAddr::V4(_) => SocketAddr::new(v4, addr.port()),
        IpAddr::V6(_) => addr,
    }
}

/// The addresses that are meant.
pub(crate) fn all_meant(addrs: &[SocketAddr]) -> Vec<SocketAddr> {
    addrs.iter().copied().map(meant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddrV6;

    #[test]
    fn mapped_addresses_are_those_of_ipv4_and_others_stay_as_they_are() {
        for (given, is) in [
            ("[::ffff:10.0.0.1]:80", "10.0.0.1:80"),
            ("[::ffff:0.0.0.0]:80", "0.0.0.0:80"),
            ("10.0.0.1:80", "10.0.0.1:80"),
            ("[::10.0.0.1]:80", "[::10.0.0.1]:80"),
        ] {
            assert_eq!(meant(given.parse().expect("valid")), is.parse().expect("valid"));
        }
        let scoped = SocketAddrV6::new("fe80::1".parse().expect("valid"), 80, 3, 4).into();
        assert_eq!(all_meant(&[scoped]), [scoped]);
    }
}
