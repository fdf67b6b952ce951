//! What is wrong about the control messages of a datagram (`udp_cmsg_send`, `ip_cmsg_send`, `ip6_datagram_send_ctl`). Those of IP that are as they
//! should be do nothing; those of SOL_SOCKET are streams' too (`Write`).
use crate::abi::*;
use crate::call::Control;
use crate::errno::Errno;
use core::net::{IpAddr, Ipv6Addr};
use core::ops::RangeInclusive;

/// Bytes of a struct in_pktinfo, and of a struct in6_pktinfo.
const PKTINFO: usize = 12;
const PKTINFO_V6: usize = 20;

/// The message is one int within these bounds.
fn int_within(control: &Control, bounds: RangeInclusive<i32>) -> bool {
    let int = control.data.as_ref().try_into().ok().map(i32::from_ne_bytes);
    int.is_some_and(|int| bounds.contains(&int))
}

/// The address of an IPV6_PKTINFO.
fn source_of(control: &Control) -> Option<Ipv6Addr> {
    let whole = control.data.get(..PKTINFO_V6)?;
    whole.first_chunk::<16>().copied().map(Ipv6Addr::from)
}

/// As `ip_cmsg_send`, of an AF_INET6 socket where `v6`.
fn is_sound_v4(control: &Control, v6: bool) -> bool {
    match (control.level, control.ty) {
        (SOL_IPV6, IPV6_PKTINFO) if v6 => source_of(control).is_some_and(|ip| ip.to_ipv4_mapped().is_some()),
        // What IP options would say is not looked at (`IP_OPTIONS`).
        (SOL_IP, IP_RETOPTS) => true,
        (SOL_IP, IP_PKTINFO) => control.data.len() == PKTINFO,
        (SOL_IP, IP_TTL | IP_PROTOCOL) => int_within(control, 1..=255),
        (SOL_IP, IP_TOS) => control.data.len() == 1 || int_within(control, 0..=255),
        (level, _) => level != SOL_IP,
    }
}

/// As `ip6_datagram_send_ctl`; `ours` tells whose an address is.
fn check_v6(control: &Control, ours: impl Fn(IpAddr) -> bool) -> Result<(), Errno> {
    let sound = match (control.level, control.ty) {
        (SOL_IPV6, IPV6_PKTINFO | IPV6_2292PKTINFO) => {
            source_of(control).is_some_and(|ip| ip.is_unspecified() || ours(ip.into()))
        }
        (SOL_IPV6, IPV6_FLOWINFO) => control.data.len() >= 4,
        (SOL_IPV6, IPV6_HOPLIMIT | IPV6_2292HOPLIMIT | IPV6_TCLASS) => int_within(control, -1..=255),
        (SOL_IPV6, IPV6_DONTFRAG) => int_within(control, 0..=1),
        // Headers between IP's and UDP's: as long as they say, and for those who may.
        (SOL_IPV6, IPV6_HOPOPTS | IPV6_2292HOPOPTS | IPV6_DSTOPTS | IPV6_2292DSTOPTS | IPV6_RTHDRDSTOPTS) => {
            let said = control.data.get(1).map(|eights| (usize::from(*eights) + 1) * 8);
            if said.is_some_and(|said| said <= control.data.len()) {
                return Err(Errno::EPERM);
            }
            false
        }
        (level, _) => level != SOL_IPV6,
    };
    if sound { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Looks at all of them, for a datagram to an address of IPv4 (`to_v4`) or of IPv6, by an AF_INET6 socket (`v6`) or one of AF_INET.
///
/// # Errors
/// EINVAL for what no such datagram takes, or of another length or value; EPERM for a header of IPv6.
pub(crate) fn check(
    all: &[Control],
    (to_v4, v6): (bool, bool),
    ours: impl Fn(IpAddr) -> bool,
) -> Result<(), Errno> {
    for control in all {
        // UDP_SEGMENT of no size changes nothing; there is none of another.
        if control.level == SOL_UDP && (control.ty != UDP_SEGMENT || control.data.as_ref() != [0; 2]) {
            return Err(Errno::EINVAL);
        }
        if !to_v4 {
            check_v6(control, &ours)?;
        } else if !is_sound_v4(control, v6) {
            return Err(Errno::EINVAL);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(level: i32, ty: i32, data: &[u8], to_v4: bool) -> Result<(), Errno> {
        let control = Control { level, ty, data: data.to_vec().into() };
        check(&[control], (to_v4, !to_v4), |ip| ip == IpAddr::V6(Ipv6Addr::LOCALHOST))
    }

    /// Each as on Linux 6.18, the header for somebody without rights.
    #[test]
    fn what_no_datagram_takes_is_refused() {
        const NO: Result<(), Errno> = Err(Errno::EINVAL);
        let int = |n: i32| n.to_ne_bytes();
        for (ty, data, then) in [
            (IP_TTL, &int(1)[..], Ok(())),
            (IP_TTL, &int(0), NO),
            (IP_TTL, &int(256), NO),
            (IP_TTL, &[1], NO),
            (IP_TOS, &[255], Ok(())),
            (IP_TOS, &int(255), Ok(())),
            (IP_TOS, &int(-1), NO),
            (IP_TOS, &[1, 0], NO),
            (IP_PKTINFO, &[0; 12], Ok(())),
            (IP_PKTINFO, &[0; 13], NO),
            (IP_RECVERR, &int(1), NO),
            (99, &int(1), NO),
        ] {
            assert_eq!(told(SOL_IP, ty, data, true), then, "{ty} {data:?}");
            assert_eq!(told(SOL_IP, ty, data, false), Ok(()), "of another family");
        }
        let here = [&Ipv6Addr::LOCALHOST.octets()[..], &[0; 4]].concat();
        for (ty, data, then) in [
            (IPV6_HOPLIMIT, &int(-1)[..], Ok(())),
            (IPV6_HOPLIMIT, &int(256), NO),
            (IPV6_TCLASS, &int(255), Ok(())),
            (IPV6_TCLASS, &[1], NO),
            (IPV6_DONTFRAG, &int(2), NO),
            (IPV6_PKTINFO, &[0; 20], Ok(())),
            (IPV6_PKTINFO, &here, Ok(())),
            (IPV6_PKTINFO, &[1; 20], NO),
            (IPV6_PKTINFO, &[0; 19], NO),
            (IPV6_HOPOPTS, &[0; 8], Err(Errno::EPERM)),
            (IPV6_HOPOPTS, &[0; 7], NO),
            (IPV6_HOPOPTS, &[0], NO),
            (IPV6_V6ONLY, &int(1), NO),
        ] {
            assert_eq!(told(SOL_IPV6, ty, data, false), then, "{ty} {data:?}");
        }
        assert_eq!(told(SOL_UDP, UDP_SEGMENT, &[0; 2], true), Ok(()));
        assert_eq!(told(SOL_UDP, UDP_SEGMENT, &[0, 1], true), NO);
        assert_eq!(told(SOL_UDP, UDP_CORK, &int(1), false), NO);
        assert_eq!(told(99, 99, &[], true), Ok(()), "of no level that is asked");
    }
}
