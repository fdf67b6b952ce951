//! What the kernel has already and would keep the stack from being reached.
use super::Side;
use crate::args::Net;
use crate::failure::Failure;
use lowwater_core::ip::Cidr;
use lowwater_os::Link;
use lowwater_os::netlink::{self, Held};

/// Warnings about what may go wrong; refuses what cannot work.
pub(super) fn check(net: &Net, sides: &[Side]) -> Result<Vec<String>, Failure> {
    // Where the kernel does not tell its addresses, what follows says what is wrong.
    let held = netlink::addresses().unwrap_or_default();
    let is_up = |device: &str| Link::by_name(device).and_then(|link| link.is_up()).unwrap_or(true);
    judge(net.tun.as_deref().filter(|_| net.iface.packet.is_none()), sides, &held, is_up)
}

/// `tun` is the name of the TUN, which has no addresses of others; `None` with packet sockets, where the stack is reached
/// by the wire alone.
fn judge(
    tun: Option<&str>,
    sides: &[Side],
    held: &[Held],
    is_up: impl Fn(&str) -> bool,
) -> Result<Vec<String>, Failure> {
    let mut warnings = Vec::new();
    for side in sides {
        let own = side.own;
        // A device that is down changes nothing here: the kernel keeps the address's local route (seen with Linux 6.18).
        if let Some(Held { device, ip, prefix }) = held.iter().find(|held| held.ip == own.addr()) {
            return Err(Failure::usage(format!(
                "{own} for the stack: the kernel itself has {ip}/{prefix} on {device} and would answer in the stack's place: \
                 give another address, or take this one away (`ip addr del {ip}/{prefix} dev {device}`)"
            )));
        }
        // What the kernel will route to the TUN.
        let (Some(tun), Some(routed)) = (tun, side.host) else { continue };
        for (held, theirs) in held.iter().filter(|held| held.device != tun).filter_map(subnet) {
            let Held { device, ip, prefix } = held;
            let takes_it = theirs.contains(own.addr()) && theirs.len() >= routed.len();
            if takes_it && is_up(device) {
                return Err(Failure::usage(format!(
                    "{own} for the stack: {device} has {ip}/{prefix}, and there the kernel would send what is meant for the \
                     stack: give a subnet that no device has (`ip addr` lists them), or end what made {device}"
                )));
            }
            if takes_it {
                warnings.push(format!(
                    "{device}, which is down, has {ip}/{prefix}: once it is up, the kernel may send there what is meant for {own}"
                ));
            } else if theirs.contains(routed.addr()) || routed.contains(*ip) {
                warnings.push(format!(
                    "{device} has {ip}/{prefix}, which overlaps with {} of {tun}: what is in both is reached by one of them only",
                    routed.network()
                ));
            }
        }
    }
    Ok(warnings)
}

/// Every device has the subnet of link-local addresses of IPv6: it says nothing.
fn subnet(held: &Held) -> Option<(&Held, Cidr)> {
    let link_local = matches!(held.ip, std::net::IpAddr::V6(ip) if ip.is_unicast_link_local());
    Cidr::new(held.ip, held.prefix).filter(|_| !link_local).map(|theirs| (held, theirs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(device: &str, cidr: &str) -> Held {
        let cidr: Cidr = cidr.parse().expect("valid");
        Held { device: device.to_owned(), ip: cidr.addr(), prefix: cidr.len() }
    }

    fn judged(tun: Option<&str>, there: Held, up: bool) -> Result<Vec<String>, Failure> {
        let side = |own: &str, host: &str| Side {
            own: own.parse().expect("valid"),
            host: tun.map(|_| host.parse().expect("valid")),
        };
        let sides = [side("10.9.0.2/24", "10.9.0.1/24"), side("fd00:9::2/64", "fd00:9::1/64")];
        judge(tun, &sides, &[there], |_| up)
    }

    #[test]
    fn what_hides_the_stack_is_refused_and_names_the_device() {
        for (device, cidr) in [
            ("lw1", "10.9.0.1/24"),
            ("eth0", "10.9.0.77/24"),
            ("eth0", "10.9.0.3/30"),
            ("lw1", "fd00:9::1/64"),
            ("lw0", "10.9.0.2/24"),
            ("eth0", "10.9.0.2/32"),
        ] {
            let refused = judged(Some("lw0"), held(device, cidr), true).expect_err(cidr);
            assert_eq!(refused.exit_code(), 2);
            let text = refused.to_string();
            assert!(text.contains(&format!("{device} ")) || text.contains(&format!("on {device}")), "{text}");
            assert!(text.contains(cidr), "{text}");
        }
        assert!(judged(None, held("v0", "10.9.0.2/24"), true).is_err(), "packet sockets");
    }

    #[test]
    fn what_may_hide_it_is_a_warning_and_all_else_is_nothing() {
        for (cidr, up) in
            [("10.9.0.1/24", false), ("10.0.0.1/8", true), ("10.9.0.129/25", true), ("10.9.0.1/32", true)]
        {
            let warned = judged(Some("lw0"), held("eth0", cidr), up).expect(cidr);
            assert!(
                warned.len() == 1 && warned[0].contains("eth0") && warned[0].contains(cidr),
                "{cidr}: {warned:?}"
            );
        }
        for (device, cidr) in
            [("lw0", "10.9.0.1/24"), ("eth0", "10.8.0.1/24"), ("eth0", "fe80::1/64"), ("lo", "127.0.0.1/8")]
        {
            assert!(
                judged(Some("lw0"), held(device, cidr), true).is_ok_and(|w| w.is_empty()),
                "{device} {cidr}"
            );
        }
        assert!(
            judged(None, held("vb", "10.9.0.1/24"), true).is_ok_and(|w| w.is_empty()),
            "the other end of a veth"
        );
    }
}
