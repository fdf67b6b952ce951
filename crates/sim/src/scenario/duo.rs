//! The set-up of all experiments: A, a router, B; the bottleneck where it is wanted, the delay on the way of the acknowledgements.
use super::knobs::NO_QDISC;
use crate::check::Broken;
use crate::host::HostSpec;
use crate::link::PipeSpec;
use crate::link::spec::{Carry, DelaySpec, NicSpec, QdiscSpec, QueueSpec};
use crate::world::{Recording, To, World};
use lowwater_core::base::time::nanos;
use lowwater_core::base::{Duration, Instant, Sysctl};
use lowwater_core::device::DeviceCaps;
use lowwater_core::tcp::{Memory, TcpInfo};
use std::net::{IpAddr, Ipv4Addr};

/// The sender.
pub(super) const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
/// The receiver.
pub(super) const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
/// Where B listens.
pub(super) const PORT: u16 = 5_001;
/// Rate of devices that are not the bottleneck.
pub(super) const FAST: u64 = 40_000_000_000;

/// The line of a device that is not the bottleneck.
pub(super) fn fast_line() -> NicSpec {
    NicSpec { rate: FAST, carry: Carry::Whole, ..NicSpec::default() }
}

/// What a world of two hosts needs to know.
pub(super) struct Duo<'a> {
    pub(super) seed: u64,
    pub(super) sysctl: &'a Sysctl,
    /// The sender's device.
    pub(super) caps: DeviceCaps,
    /// The sender's queueing discipline in the words of `tc`, or none of its own.
    pub(super) qdisc: &'a str,
    /// The router's queue towards B, where the bottleneck is there.
    pub(super) queue: Option<QueueSpec>,
    /// A discipline of the router's in the words of `tc`, whose line has no rate of its own, instead of `queue`; "none" for none.
    pub(super) router: &'a str,
    pub(super) rtt: Duration,
    /// The line of the sender's device.
    pub(super) line: NicSpec,
}

impl Duo<'_> {
    /// The world, without programs; A is host 0 and B host 1.
    pub(super) fn build(&self) -> World {
        let mut world = World::new(self.seed, Recording::default());
        let host = |ip, caps| HostSpec { sysctl: self.sysctl.clone(), caps, ..HostSpec::new(ip) };
        let words = if self.qdisc == NO_QDISC { "" } else { self.qdisc };
        let a = world.add_host(HostSpec { qdisc: words.to_owned(), ..host(A, self.caps) });
        let b = world.add_host(host(B, DeviceCaps::offloading(self.caps.mtu)));
        let words = (self.router != NO_QDISC).then(|| self.router.to_owned());
        let router = words.map(|words| QdiscSpec { words, rate: 0, mtu: self.caps.mtu });
        let forward = PipeSpec {
            nic: Some(self.line.clone()),
            queue: self.queue,
            qdisc: router,
            ..PipeSpec::default()
        };
        let delay = DelaySpec { delay_ns: nanos(self.rtt), ..DelaySpec::default() };
        let back = PipeSpec { nic: Some(fast_line()), delay, ..PipeSpec::default() };
        world.add_pipe(Some(a), &forward, To::Host(b));
        world.add_pipe(Some(b), &back, To::Host(a));
        world
    }
}

/// Runs through the warm-up, then looks at its end and after each `step`, until the measured time is over or `on_progress` says so.
pub(super) fn watch(
    world: &mut World,
    (warmup, measured): (Duration, Duration),
    step: Duration,
    on_progress: &mut dyn FnMut(f64) -> bool,
    look: &mut dyn FnMut(&mut World),
) -> Result<(), Broken> {
    let (warm, end) = (Instant::ZERO + warmup, Instant::ZERO + warmup + measured);
    while world.now() < end {
        world.run_until((world.now() + step).min(if world.now() < warm { warm } else { end }))?;
        if world.now() >= warm {
            look(world);
        }
        if !on_progress(seconds(world.now()) / seconds(end)) {
            break;
        }
    }
    Ok(())
}

/// TCP_INFO and the memory of each program on A that shows a socket, by its number.
pub(super) fn senders(world: &mut World) -> Vec<(usize, TcpInfo, Memory)> {
    let sockets: Vec<_> = world.hosts()[0].apps().map(|a| a.sockets().first().copied()).collect();
    let core = world.host_mut(0).core_mut();
    let mut seen = Vec::with_capacity(sockets.len());
    for (flow, id) in sockets.into_iter().enumerate() {
        let Some(id) = id else { continue };
        let Some(info) = core.tcp_info(id) else { continue };
        let memory = core.stack().memory(id).unwrap_or_default();
        seen.push((flow, info, memory));
    }
    seen
}

pub(super) fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}

/// The mean; 0 of nothing.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0u64), |(s, n), v| (s + v, n + 1));
    if n == 0 { 0.0 } else { sum / n as f64 }
}
