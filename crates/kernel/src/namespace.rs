//! The world of one script: a namespace with a TUN, addresses, routes and settings.
use bytes::Bytes;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use lowwater_core::base::{Duration, Instant, Sysctl};
use lowwater_core::device::{Device as _, Submit};
use lowwater_core::packet::{Csum, GsoKind, Offload, Packet};
use lowwater_drill::World;
use lowwater_os::{Tun, TunOptions};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::{PoisonError, RwLock};

/// Settings whose defaults depend on the machine or on the age of the kernel: the stack's are taken.
const EQUAL: [&str; 4] = ["tcp_rmem", "tcp_wmem", "tcp_syn_retries", "tcp_congestion_control"];
/// IP's number for TCP.
const TCP: u8 = 6;
/// Controller that every namespace may choose.
const RENO: &str = "reno";

/// A TUN in a namespace of its own, which the calling thread has entered.
pub(crate) struct Namespace {
    tun: Tun,
    /// See [`World`].
    joined: u16,
}

impl Namespace {
    pub(crate) fn new(world: &World) -> Result<Self, String> {
        crate::enter()?;
        let (offload, mtu) = (world.joined > 0, world.mtu.into());
        let tun = Tun::open(&TunOptions { offload, mtu, ..TunOptions::new("tun0") })
            .and_then(|tun| tun.receive_plain().map(|()| tun))
            .map_err(|e| e.to_string())?;
        let link = tun.link().map_err(|e| e.to_string())?;
        if world.local.is_ipv6() {
            // Addresses are usable at once.
            set("/proc/sys/net/ipv6/conf/tun0/accept_dad", "0")?;
            set("/proc/sys/net/ipv6/conf/tun0/router_solicitations", "0")?;
        }
        let any: IpAddr = match world.local {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        link.add_address(world.local, world.prefix)
            .and_then(|()| link.up())
            .and_then(|()| link.add_route(any, 0, None))
            .map_err(|e| e.to_string())?;
        // What the stack remembers of a destination is its path MTU only.
        set_sysctl("tcp_no_metrics_save", "1")?;
        let ours = Sysctl::default();
        for name in EQUAL {
            let value = ours.get(name).unwrap_or_default();
            // CUBIC may be closed to namespaces; sockets choose it by themselves then (TCP_CONGESTION).
            set_sysctl(name, &value).or_else(|e| match name {
                "tcp_congestion_control" => set_sysctl(name, RENO),
                _ => Err(e),
            })?;
        }
        Ok(Self { tun, joined: world.joined })
    }

    /// Waits for a packet, or until there is something to read from `bell`, at most so long.
    pub(crate) fn wait(&self, most: Duration, bell: Option<BorrowedFd<'_>>) {
        let tun = PollFd::new(&self.tun, PollFlags::IN);
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        // A signal ends the wait early; the caller looks at the clock again.
        let _ = match bell {
            Some(bell) => poll(&mut [tun, PollFd::from_borrowed_fd(bell, PollFlags::IN)], Some(&most)),
            None => poll(&mut [tun], Some(&most)),
        };
    }

    pub(crate) fn recv(&mut self) -> Option<Bytes> {
        self.tun.recv(Instant::ZERO).ok().flatten().map(|packet| packet.to_bytes())
    }

    /// Hands a packet to the kernel, unless that refuses it.
    #[must_use]
    pub(crate) fn send(&mut self, packet: &Bytes) -> bool {
        let packet = Packet::received(packet.clone(), self.offload(packet), Instant::ZERO);
        matches!(self.tun.submit(Instant::ZERO, packet), Submit::Completed)
    }

    /// As packetdrill does it with `--mss`: of every packet of TCP it is said that it is joined, and the kernel sees for itself whether it has more
    /// than one segment.
    fn offload(&self, packet: &[u8]) -> Offload {
        let (protocol, gso) = match packet.first().map(|first| first >> 4) {
            Some(4) => (packet.get(9), GsoKind::Tcp4),
            Some(6) => (packet.get(6), GsoKind::Tcp6),
            _ => (None, GsoKind::None),
        };
        match protocol {
            Some(&TCP) if self.joined > 0 => {
                Offload { gso, gso_size: self.joined, csum: Csum::None, ..Offload::default() }
            }
            _ => Offload::default(),
        }
    }
}

fn set(path: &str, value: &str) -> Result<(), String> {
    fs::write(path, value).map_err(|e| format!("{path}: {e}"))
}

/// Sets a sysctl of the calling thread's namespace.
pub(crate) fn set_sysctl(name: &str, value: &str) -> Result<(), String> {
    set(&path(name)?, value)
}

/// Why the calling thread's namespace has no sysctl of this name; `None` when it has.
pub(crate) fn lacks_sysctl(name: &str) -> Option<String> {
    match path(name) {
        Ok(path) if fs::exists(&path).unwrap_or(false) => None,
        Ok(_) => Some(format!("the kernel has no setting '{name}' in a network namespace")),
        Err(why) => Some(why),
    }
}

/// The counters of the calling thread's namespace, as `nstat` names them; nobody sums IPv6's up with the others.
///
/// # Errors
/// A file cannot be read, or is not as the kernel writes it.
pub(crate) fn counters() -> Result<Vec<(String, u64)>, String> {
    let mut all = Vec::new();
    for file in ["netstat", "snmp"] {
        let path = format!("/proc/thread-self/net/{file}");
        let text = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        // Of each group a line of names and one of values, with the group's name before both.
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.chunks(2) {
            let [names, values] = pair else { return Err(format!("{path}: a group has no values")) };
            let (names, values) = (names.split_whitespace(), values.split_whitespace());
            let mut both = names.zip(values);
            let group = match both.next() {
                Some((group, same)) if group == same => group.trim_end_matches(':'),
                _ => return Err(format!("{path}: '{}' is no line of values", pair[1])),
            };
            // A few of them are settings, perhaps -1.
            all.extend(
                both.filter_map(|(name, value)| Some((format!("{group}{name}"), value.parse().ok()?))),
            );
        }
    }
    Ok(all)
}

/// Forgets what connections of the calling thread's namespace have taught about servers.
pub(crate) fn forget_servers() -> Result<(), String> {
    ip(&["tcp_metrics", "flush", "all"])
}

/// Everything of a prefix leaves by the device.
pub(crate) fn set_route(dest: IpAddr, prefix: u8, metrics: &str) -> Result<(), String> {
    let to = format!("{dest}/{prefix}");
    let words: Vec<&str> =
        ["route", "replace", &to, "dev", "tun0"].into_iter().chain(metrics.split_whitespace()).collect();
    ip(&words)
}

/// Nothing of a prefix leaves by the device any more.
pub(crate) fn remove_route(dest: IpAddr, prefix: u8) -> Result<(), String> {
    ip(&["route", "del", &format!("{dest}/{prefix}"), "dev", "tun0"])
}

/// The device takes IP packets of so many bytes from now on.
pub(crate) fn set_mtu(mtu: u16) -> Result<(), String> {
    ip(&["link", "set", "dev", "tun0", "mtu", &mtu.to_string()])
}

/// A discipline stands in front of the device from now on, in the words of `tc`.
pub(crate) fn set_qdisc(words: &str) -> Result<(), String> {
    let place = ["qdisc", "replace", "dev", "tun0", "root"];
    let words_of: Vec<&str> = place.into_iter().chain(words.split_whitespace()).collect();
    program("tc", &words_of).map_err(|why| format!("the queueing discipline '{words}': {why}"))
}

/// A program that starts holds copies of all descriptors until its exec(), which is when `spawn` is
/// back: what another script closes meanwhile (the readers of this lock) would stay open that long.
static COPIES: RwLock<()> = RwLock::new(());

/// Ends what `f` closes at once, whatever [`program`] starts meanwhile. What is closed without it, and what is closed while Python of a snippet
/// starts (which takes no lock), may stay open until the exec() of a program that starts just then.
pub(crate) fn without_copies<T>(f: impl FnOnce() -> T) -> T {
    let _no_start = COPIES.read().unwrap_or_else(PoisonError::into_inner);
    f()
}

fn ip(words: &[&str]) -> Result<(), String> {
    program("ip", words)
}

fn program(name: &str, words: &[&str]) -> Result<(), String> {
    let mut command = Command::new(name);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = {
        let _alone = COPIES.write().unwrap_or_else(PoisonError::into_inner);
        command.spawn()
    };
    match started.and_then(Child::wait_with_output) {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(format!("{name}: {}", String::from_utf8_lossy(&done.stderr).trim())),
        Err(e) => Err(format!("{name}: {e}")),
    }
}

fn path(name: &str) -> Result<String, String> {
    let name = name.trim().replace('.', "/");
    let name = if name.contains('/') { name } else { format!("net/ipv4/{name}") };
    if name.split('/').any(|part| part.is_empty() || part == ".." || part == ".") || !name.starts_with("net/")
    {
        return Err(format!("'{name}' is no setting of a network namespace"));
    }
    Ok(format!("/proc/sys/{name}"))
}
