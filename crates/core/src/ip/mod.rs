//! IP for both families: what comes in is checked and classified, what goes out gets a route, a header and a link address.
//!
//! Invariants: never knows a transport; sends nothing itself — everything it wants sent or had to give up is a value in an
//! [`Outbox`]; every table is bounded.
pub mod cidr;
mod config;
mod ethernet;
pub mod frag;
pub mod icmp;
mod icmp_input;
mod icmp_output;
pub mod ident;
pub mod iface;
mod ingress;
pub mod input;
mod limiter;
mod lookup;
pub mod nd;
pub mod neigh;
pub mod output;
pub mod pmtu;
pub mod reasm;
pub mod route;
pub mod source;

pub use cidr::Cidr;
pub use ethernet::FrameInput;
pub use icmp::{Embedded, IcmpError, IcmpKind, IcmpMessage, Unreachable};
pub use ident::FlowIds;
pub use iface::{Iface, Link, Mac};
pub use ingress::Ingress;
pub use input::Input;
pub use output::OutputParams;
pub use route::{Dst, Route};

use crate::base::{Cx, DeviceId, DropWhy, Instant, Rng};
use crate::packet::Packet;

/// What a call left to be done: frames for the devices' queues, and packets that were given up.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Frames with their link header, each for the queue of its device, in order.
    pub frames: Vec<(DeviceId, Packet)>,
    /// Packets that will not leave. The caller counts the reason, refunds the owner's credit and tells the flow:
    /// [`IcmpError::local`] reads whom it concerns.
    pub dropped: Vec<(Packet, DropWhy)>,
}

impl Outbox {
    /// True when nothing is left to be done.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.dropped.is_empty()
    }
}

/// The IP layer of one stack.
#[derive(Debug)]
pub struct Ip {
    ifaces: iface::Ifaces,
    routes: route::Routes,
    neigh: neigh::Neighbours,
    reasm: reasm::Reassembly,
    pmtu: pmtu::PmtuCache,
    limiter: limiter::Limiter,
    idents: ident::Idents,
    generation: u64,
    /// Some route has had metrics: they are looked for.
    asks: bool,
}

impl Ip {
    /// An IP layer without devices; keys for its hashes come from `rng`.
    #[must_use]
    pub fn new(rng: &mut Rng) -> Self {
        Self {
            ifaces: iface::Ifaces::default(),
            routes: route::Routes::default(),
            neigh: neigh::Neighbours::default(),
            reasm: reasm::Reassembly::default(),
            pmtu: pmtu::PmtuCache::default(),
            limiter: limiter::Limiter::new(rng),
            idents: ident::Idents::new(rng),
            generation: 1,
            asks: false,
        }
    }

    /// Changes whenever a route, an address, an MTU or a path MTU does: a cached [`Dst`] of another generation is stale.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// The devices and their addresses.
    #[must_use]
    pub const fn ifaces(&self) -> &iface::Ifaces {
        &self.ifaces
    }

    /// The routes.
    #[must_use]
    pub const fn routes(&self) -> &route::Routes {
        &self.routes
    }

    /// The neighbours on Ethernet devices.
    #[must_use]
    pub const fn neighbours(&self) -> &neigh::Neighbours {
        &self.neigh
    }

    /// Datagrams of which fragments are missing, and the bytes that they hold.
    #[must_use]
    pub fn fragments(&self) -> (u64, u64) {
        self.reasm.waiting()
    }

    /// When [`Ip::on_timeout`] wants to be called next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        [self.neigh.next_deadline(), self.reasm.next_deadline(), self.pmtu.next_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Does what is due: neighbour retries, abandoned reassemblies, expired path MTUs.
    pub fn on_timeout(&mut self, cx: &mut Cx<'_>, out: &mut Outbox) {
        if self.pmtu.on_timeout(cx.now) {
            self.generation += 1;
        }
        while let Some(abandoned) = self.reasm.on_timeout(cx.now) {
            self.reassembly_timed_out(cx, &abandoned, out);
        }
        while let Some(due) = self.neigh.on_timeout(cx) {
            self.neighbour_due(cx, due, out);
        }
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
