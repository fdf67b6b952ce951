//! Address prefixes in CIDR notation, for IPv4 and IPv6 alike.
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// An address with the length of its network prefix (RFC 4632): `10.0.0.1/24`, `fd00::1/64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    addr: IpAddr,
    len: u8,
}

/// An address's bits, left-aligned, so that both families share the prefix arithmetic.
pub(super) fn bits(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(a) => u128::from(a.to_bits()) << 96,
        IpAddr::V6(a) => a.to_bits(),
    }
}

/// `bits` with everything after the first `len` bits cleared.
pub(super) const fn masked(bits: u128, len: u8) -> u128 {
    if len == 0 { 0 } else { bits & (u128::MAX << (128 - len as u32)) }
}

impl Cidr {
    /// The prefix of `len` bits around `addr`; `None` when the family's addresses are shorter than that.
    #[must_use]
    pub const fn new(addr: IpAddr, len: u8) -> Option<Self> {
        let max = if addr.is_ipv4() { 32 } else { 128 };
        if len <= max { Some(Self { addr, len }) } else { None }
    }

    /// The prefix that holds `addr` alone.
    #[must_use]
    pub const fn host(addr: IpAddr) -> Self {
        Self { addr, len: if addr.is_ipv4() { 32 } else { 128 } }
    }

    /// The address as it was given, host bits included.
    #[must_use]
    pub const fn addr(self) -> IpAddr {
        self.addr
    }

    /// Length of the prefix in bits.
    #[must_use]
    pub const fn len(self) -> u8 {
        self.len
    }

    /// True for the prefix that covers a whole family (the default route).
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// True when `other` lies in this prefix.
    #[must_use]
    pub fn contains(self, other: IpAddr) -> bool {
        self.addr.is_ipv4() == other.is_ipv4()
            && masked(bits(self.addr), self.len) == self.network_bits(other)
    }

    fn network_bits(self, addr: IpAddr) -> u128 {
        masked(bits(addr), self.len)
    }

    /// The directed broadcast address of an IPv4 prefix shorter than /31 (RFC 919, RFC 3021).
    #[must_use]
    pub fn broadcast(self) -> Option<Ipv4Addr> {
        match self.addr {
            IpAddr::V4(a) if self.len < 31 => Some(Ipv4Addr::from_bits(a.to_bits() | (u32::MAX >> self.len))),
            _ => None,
        }
    }

    /// The same prefix with the host bits cleared.
    #[must_use]
    pub fn network(self) -> Self {
        let bits = self.network_bits(self.addr);
        let addr = match self.addr {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits((bits >> 96) as u32)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(bits)),
        };
        Self { addr, len: self.len }
    }

    /// Why no host may have the address, in words that follow "is"; `None` where one may. Of a /31 both may be hosts' (RFC 3021).
    #[must_use]
    pub fn not_a_hosts(self) -> Option<&'static str> {
        let addr = self.addr();
        let has_ends = addr.is_ipv4() && self.len() < 31;
        if addr.is_loopback() {
            Some("a loopback address")
        } else if addr.is_multicast() {
            Some("a multicast address")
        } else if addr.is_unspecified() || (has_ends && self.network().addr() == addr) {
            Some("the address of the network itself")
        } else if has_ends && self.broadcast().is_some_and(|b| IpAddr::V4(b) == addr) {
            Some("the broadcast address of its network")
        } else {
            None
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

/// The text is not an address with an optional prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadCidr;

impl fmt::Display for BadCidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an address with a prefix length, such as 10.0.0.1/24 or fd00::1/64")
    }
}

impl std::error::Error for BadCidr {}

impl FromStr for Cidr {
    type Err = BadCidr;
    /// Parses `addr/len`; without a length the prefix holds the address alone.
    fn from_str(text: &str) -> Result<Self, BadCidr> {
        let Some((addr, len)) = text.split_once('/') else {
            return text.parse().map(Self::host).map_err(|_| BadCidr);
        };
        let addr = addr.parse().map_err(|_| BadCidr)?;
        Self::new(addr, len.parse().map_err(|_| BadCidr)?).ok_or(BadCidr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_contain_what_they_should() {
        let c: Cidr = "10.1.2.3/20".parse().expect("valid");
        assert!(c.contains("10.1.15.255".parse().expect("valid")));
        assert!(!c.contains("10.1.16.0".parse().expect("valid")));
        assert!(!c.contains("::".parse().expect("valid")));
        assert_eq!(c.network().to_string(), "10.1.0.0/20");
        assert_eq!(c.broadcast(), Some("10.1.15.255".parse().expect("valid")));
        let all: Cidr = "::/0".parse().expect("valid");
        assert!(
            all.contains("ff::1".parse().expect("valid")) && !all.contains("1.1.1.1".parse().expect("valid"))
        );
        assert!("10.0.0.0/33".parse::<Cidr>().is_err() && "x".parse::<Cidr>().is_err());
        assert_eq!("10.0.0.1/31".parse::<Cidr>().expect("valid").broadcast(), None);
        assert_eq!("10.0.0.1/0".parse::<Cidr>().expect("valid").broadcast(), Some(Ipv4Addr::BROADCAST));
    }
    #[test]
    fn some_addresses_are_no_hosts() {
        let why = |text: &str| text.parse::<Cidr>().expect("valid").not_a_hosts();
        for host in ["10.9.0.1/24", "10.9.0.255/16", "10.9.0.0/31", "10.9.0.0/32", "fd00::/64", "10.9.0.2"] {
            assert_eq!(why(host), None, "{host}");
        }
        assert!(why("10.9.0.0/24").is_some_and(|why| why.contains("network itself")));
        assert!(why("10.9.0.255/24").is_some_and(|why| why.contains("broadcast")));
        assert!(why("127.0.0.1/8").is_some_and(|why| why.contains("loopback")));
        assert!(why("ff02::1/64").is_some_and(|why| why.contains("multicast")));
        assert!(why("::/0").is_some());
    }
}
