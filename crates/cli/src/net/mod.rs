//! The stack on its device, as `serve`, `get` and `sctp-send` use it: set-up, addresses of the kernel's side, capture.
mod capture;
mod conflict;
pub(crate) mod lent;
pub(crate) mod sink;
mod taken;

use crate::args::Net;
use crate::failure::Failure;
use crate::rates;
use capture::Capture;
use lowwater::port::{NotNow, Port};
use lowwater::{Builder, PacketOptions, Stack, TunOptions};
use lowwater_core::base::Rng;
use lowwater_core::ip::Cidr;
use lowwater_os::{PacketDevice, Tun};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use taken::Taken;
use tokio::runtime::Runtime;

/// MTU of a TUN.
const DEFAULT_MTU: u16 = 1_500;
/// Half of all submits, in 10^-6.
const HALF: u32 = 500_000;

/// A running stack and what is known about its surroundings.
pub(crate) struct Opened {
    /// The stack.
    pub(crate) stack: Stack,
    /// Name of the device.
    pub(crate) device: String,
    /// Addresses of the stack.
    pub(crate) addresses: Vec<IpAddr>,
    /// Addresses of the kernel's side.
    pub(crate) hosts: Vec<Cidr>,
    /// What may keep others from reaching the stack; told on stderr already.
    pub(crate) warnings: Vec<String>,
    capture: Option<Capture>,
    /// With packet sockets: what keeps others from these addresses.
    _taken: Option<Taken>,
}

/// The one thread of these commands: their tasks and the stack's.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|e| Failure::io("starting the runtime", &e))
}

/// Opens the device, configures the kernel's side of a TUN and starts the stack.
pub(crate) fn open(net: &Net, runtime: &Runtime) -> Result<Opened, Failure> {
    let sides = sides(net)?;
    let mut warnings = conflict::check(net, &sides)?;
    warnings.extend(net.front.qdisc.as_ref().and_then(|words| rates::slow("--qdisc", words)));
    for warning in &warnings {
        eprintln!("lowwater: warning: {warning}");
    }
    let taken = net.iface.packet.as_deref().map(|interface| taken::take(interface, &sides)).transpose()?;
    let capture = net.pcap.as_deref().map(Capture::create).transpose()?;
    let (mut builder, device) = match &net.iface.packet {
        Some(interface) => attach(net, packet(net, interface)?, interface.clone()),
        None => {
            let tun = tun(net, &sides)?;
            let name = tun.name().to_owned();
            attach(net, tun, name)
        }
    };
    for side in &sides {
        builder = builder.address(&side.own.to_string());
    }
    for (v4, all) in [(true, "0.0.0.0/0"), (false, "::/0")] {
        let mut hosts = sides.iter().filter_map(|side| side.host);
        if let Some(host) = hosts.find(|host| host.addr().is_ipv4() == v4) {
            builder = builder.route(all, Some(host.addr()));
        }
    }
    if let Some(words) = &net.front.qdisc {
        builder = builder.qdisc(words);
    }
    for (key, value) in &net.set {
        builder = builder.sysctl(key, value);
    }
    if let Some(capture) = &capture {
        builder = builder.capture(&capture.file);
    }
    let stack = start(builder, net, runtime).map_err(|e| Failure::io("starting the stack", &e))?;
    let addresses = sides.iter().map(|side| side.own.addr()).collect();
    let hosts = sides.iter().filter_map(|side| side.host).collect();
    Ok(Opened { stack, device, addresses, hosts, warnings, capture, _taken: taken })
}

/// As a task of the command's one thread.
fn start(builder: Builder, net: &Net, runtime: &Runtime) -> io::Result<Stack> {
    let _in_runtime = runtime.enter();
    builder.busy_poll(Duration::from_micros(net.busy_poll.into())).spawn()
}

/// An address of the stack, and the host beside it: the kernel's side of a TUN, or a gateway.
struct Side {
    own: Cidr,
    host: Option<Cidr>,
}

fn sides(net: &Net) -> Result<Vec<Side>, Failure> {
    let first = net.addr[0];
    for (flag, own) in
        net.addr.iter().map(|own| ("--addr", own)).chain(net.addr6.iter().map(|own| ("--addr6", own)))
    {
        host_address(flag, *own)?;
    }
    if let Some(addr6) = net.addr6.filter(|addr6| addr6.addr().is_ipv4() == first.addr().is_ipv4()) {
        return Err(Failure::usage(format!(
            "--addr6 {addr6} is of the same family as --addr {first}: it takes one of the other family"
        )));
    }
    let mut sides: Vec<Side> = Vec::new();
    for (n, &own) in net.addr.iter().enumerate() {
        if sides.iter().any(|side| side.own.addr() == own.addr()) {
            return Err(Failure::usage(format!("--addr {own} is given twice")));
        }
        let given = net.host_addr.filter(|_| n == 0);
        // One address of the kernel is enough in a subnet.
        let there = sides.iter().any(|side| side.host.is_some_and(|host| host.contains(own.addr())));
        let host = if there { None } else { side(net, "--host-addr", (own, given))? };
        sides.push(Side { own, host });
    }
    if let Some(own) = net.addr6 {
        sides.push(Side { own, host: side(net, "--host-addr6", (own, net.host_addr6))? });
    }
    Ok(sides)
}

/// The host beside an address; on an interface of the kernel there is one only where it is given.
fn side(net: &Net, flag: &str, (own, given): (Cidr, Option<Cidr>)) -> Result<Option<Cidr>, Failure> {
    match (net.iface.packet.is_some(), given) {
        (true, None) => Ok(None),
        _ => host_side(flag, own, given).map(Some),
    }
}

fn tun(net: &Net, sides: &[Side]) -> Result<Tun, Failure> {
    let name = net.tun.as_deref().unwrap_or_default();
    if name.is_empty() {
        return Err(Failure::usage("--tun needs a name of 1 to 15 bytes, as lw0".to_owned()));
    }
    let options = TunOptions {
        offload: !net.no_offload,
        mtu: net.mtu.unwrap_or(DEFAULT_MTU).into(),
        ..TunOptions::new(name)
    };
    let tun = Tun::open(&options)?;
    let link = tun.link()?;
    link.up()?;
    for host in sides.iter().filter_map(|side| side.host) {
        link.add_address(host.addr(), host.len())?;
    }
    Ok(tun)
}

fn packet(net: &Net, interface: &str) -> Result<PacketDevice, Failure> {
    if net.mtu.is_some() {
        return Err(Failure::usage(format!(
            "--mtu is for --tun: {interface} has the MTU that `ip link` gave it"
        )));
    }
    let default = PacketOptions::new(interface);
    let options = PacketOptions {
        offload: !net.no_offload,
        slots: net.iface.packet_slots.map_or(default.slots, usize::from),
        bql: !net.iface.packet_no_bql,
        orphan: net.iface.packet_orphan,
        ..default
    };
    Ok(PacketDevice::open(&options)?)
}

fn attach(net: &Net, port: impl Port + 'static, name: String) -> (Builder, String) {
    let builder = match net.front.fault_not_now {
        true => Stack::builder().device(NotNow::new(port, Rng::new(1), HALF)),
        false => Stack::builder().device(port),
    };
    (builder, name)
}

impl Opened {
    /// After the stack was shut down: completes the capture.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        self.capture.map_or(Ok(()), Capture::finish)
    }
}

/// An address that a host may have, not one of the network, of everybody or of the host itself.
fn host_address(flag: &str, own: Cidr) -> Result<(), Failure> {
    let Some(what) = own.not_a_hosts() else { return Ok(()) };
    Err(Failure::usage(format!("{flag} {own} is {what}: give a host's, as 10.9.0.2/24 or fd00:9::2/64")))
}

fn host_side(flag: &str, own: Cidr, given: Option<Cidr>) -> Result<Cidr, Failure> {
    let Some(host) = given else {
        return first_free(own).ok_or_else(|| {
            Failure::usage(format!(
                "the subnet of {own} has no second address: give one with a prefix, as {}, or name the kernel's side by {flag}",
                if own.addr().is_ipv4() { "10.9.0.2/24" } else { "fd00:9::2/64" }
            ))
        });
    };
    if host.addr() == own.addr() {
        return Err(Failure::usage(format!(
            "{flag} {host} is the stack's own address: the kernel's side needs another one"
        )));
    }
    if !host.contains(own.addr()) {
        return Err(Failure::usage(format!(
            "{flag} {host} does not contain the stack's {}: the kernel could not reach it",
            own.addr()
        )));
    }
    Ok(host)
}

/// The first address of the subnet that is not the stack's, nor the network's (RFC 3021 gives both of a /31 to hosts).
fn first_free(own: Cidr) -> Option<Cidr> {
    let bits = if own.addr().is_ipv4() { 32 } else { 128 };
    let room = bits - own.len();
    let first = u32::from(room > 1);
    (first..first + 2)
        .filter(|n| room > 0 && (room > 1 || *n < 2))
        .filter_map(|n| match own.network().addr() {
            IpAddr::V4(a) => Some(IpAddr::V4(Ipv4Addr::from_bits(a.to_bits().checked_add(n)?))),
            IpAddr::V6(a) => Some(IpAddr::V6(Ipv6Addr::from_bits(a.to_bits().checked_add(n.into())?))),
        })
        .find(|a| *a != own.addr() && own.contains(*a))
        .and_then(|a| Cidr::new(a, own.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_gets_the_first_address_that_is_free() {
        for (own, host) in [
            ("10.9.0.2/24", Some("10.9.0.1/24")),
            ("10.9.0.1/24", Some("10.9.0.2/24")),
            ("10.9.0.77/30", Some("10.9.0.78/30")),
            ("10.9.0.4/31", Some("10.9.0.5/31")),
            ("10.9.0.5/31", Some("10.9.0.4/31")),
            ("10.9.0.5/32", None),
            ("fd00:9::2/64", Some("fd00:9::1/64")),
            ("fd00:9::1/127", Some("fd00:9::/127")),
            ("fd00:9::1/128", None),
        ] {
            let found = first_free(own.parse().expect("valid"));
            assert_eq!(found.map(|c| c.to_string()).as_deref(), host, "{own}");
        }
    }

    #[test]
    fn only_addresses_of_hosts_are_taken() {
        for bad in [
            "10.9.0.0/24",
            "10.9.0.255/24",
            "127.0.0.1/8",
            "224.0.0.1/24",
            "0.0.0.0/0",
            "::1/128",
            "ff02::1/64",
        ] {
            assert!(host_address("--addr", bad.parse().expect("valid")).is_err(), "{bad}");
        }
        for good in ["10.9.0.2/24", "10.9.0.0/31", "10.9.0.5/32", "fd00:9::/127", "fd00:9::2/64"] {
            assert!(host_address("--addr", good.parse().expect("valid")).is_ok(), "{good}");
        }
    }

    #[test]
    fn host_addresses_that_cannot_work_are_refused() {
        let own: Cidr = "10.9.0.2/24".parse().expect("valid");
        for bad in ["10.9.0.2/24", "10.8.0.1/24", "fd00::1/64"] {
            assert!(host_side("--host-addr", own, Some(bad.parse().expect("valid"))).is_err(), "{bad}");
        }
        assert!(host_side("--host-addr", own, Some("10.9.0.9/16".parse().expect("valid"))).is_ok());
    }
}
