//! Control operations: devices, addresses, routes, queueing disciplines, settings.
use super::Stack;
use super::link::{LOOPBACK, LOOPBACK_MTU, Link};
use crate::base::sysctl::Effect;
use crate::base::{DeviceId, Error, Sysctl};
use crate::device::DeviceCaps;
use crate::ip::{self, Cidr, Iface, Ip, Route};
use crate::packet::Packet;
use crate::qdisc::{self, Any, Early, Fifo, Qdisc as _};
use crate::socket::Socket;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

impl Stack {
    /// The loopback device, with 127.0.0.1/8 and ::1, which every stack has.
    pub(super) fn add_loopback(&mut self) {
        let id = self.attach(
            ip::Link::Loopback,
            DeviceCaps::offloading(LOOPBACK_MTU).keeping_nothing().repeating_cwr(),
        );
        debug_assert_eq!(id, LOOPBACK);
        for (addr, len) in [(IpAddr::V4(Ipv4Addr::LOCALHOST), 8), (IpAddr::V6(Ipv6Addr::LOCALHOST), 128)] {
            let added = self.add_address(LOOPBACK, addr, len);
            debug_assert_eq!(added, Ok(()));
        }
    }

    /// Attaches a device. Its name is the next free number; the driver keeps it.
    ///
    /// # Panics
    /// Beyond 256 devices ([`ip::iface::DEVICES_MAX`]), which is a bug of the program.
    pub fn add_device(&mut self, caps: DeviceCaps) -> DeviceId {
        let link = caps.ethernet.map_or(ip::Link::Ip, ip::Link::Ethernet);
        self.attach(link, caps)
    }

    fn attach(&mut self, link: ip::Link, caps: DeviceCaps) -> DeviceId {
        let id = DeviceId(self.links.len() as u16);
        self.ip.add_device(id, Iface::new(link, caps.mtu)).expect("fewer than 256 devices");
        // Linux has none before its loopback device. Ours is emptied by batches, so that it needs room.
        let mut qdisc = match id {
            LOOPBACK => Any::Fifo(Fifo::default()),
            _ => self.env.sysctl.default_qdisc.into(),
        };
        qdisc.attach(&mut self.env.cx(self.now, None), &Link::facts_of(&caps));
        self.links.push(Link::new(caps, qdisc));
        id
    }

    /// Gives a device an address, and a route to the subnet around it.
    ///
    /// # Errors
    /// [`Error::AddressInUse`] when some device has it, [`Error::Invalid`] for what no host may have,
    /// [`Error::NoBuffers`] at a bound, [`Error::NoSuchSocket`] without the device.
    pub fn add_address(&mut self, dev: DeviceId, addr: IpAddr, prefix: u8) -> Result<(), Error> {
        self.ip.add_address(dev, Cidr::new(addr, prefix).ok_or(Error::Invalid)?)
    }

    /// Lets a device accept packets to any unicast destination, or stops that.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`] without the device.
    pub fn set_any_address(&mut self, dev: DeviceId, on: bool) -> Result<(), Error> {
        self.ip.set_any_address(dev, on)
    }

    /// Adds a route to `dest`/`prefix`, on the link or through `via`.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`] without the device, [`Error::Invalid`] for a prefix or gateway that cannot be,
    /// [`Error::NoBuffers`] at the bound for routes.
    pub fn add_route(
        &mut self,
        dest: IpAddr,
        prefix: u8,
        via: Option<IpAddr>,
        dev: DeviceId,
    ) -> Result<(), Error> {
        let dst = Cidr::new(dest, prefix).ok_or(Error::Invalid)?;
        self.ip.add_route(Route { gateway: via, ..Route::on_link(dst, dev) })
    }

    /// Adds a route with its MTU and what it asks of connections, or replaces the one with the same prefix, metric and device.
    /// Connections that have the route hear of it when they next send.
    ///
    /// # Errors
    /// As [`Stack::add_route`].
    pub fn replace_route(&mut self, route: Route) -> Result<(), Error> {
        self.ip.add_route(route)
    }

    /// Takes a route away; connections that have no other wait for one ([`Wait::NoPath`](crate::base::Wait::NoPath)) and ask
    /// again when their timers run out. False when there is no such route.
    pub fn remove_route(&mut self, dest: IpAddr, prefix: u8, via: Option<IpAddr>, dev: DeviceId) -> bool {
        let Some(dst) = Cidr::new(dest, prefix) else { return false };
        self.ip.remove_route(&Route { gateway: via, ..Route::on_link(dst, dev) })
    }

    /// Changes a device's MTU in bytes of IP packet, as when an administrator does. Connections and associations follow with what leaves next, down
    /// and up again, and what is sent again is cut to it. What waits before the device already leaves as it is, and may be too long for it.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`] without the device, [`Error::Invalid`] below 68 bytes.
    pub fn set_mtu(&mut self, dev: DeviceId, mtu: u16) -> Result<(), Error> {
        self.ip.set_mtu(dev, mtu)?;
        self.links[usize::from(dev.0)].caps.mtu = mtu;
        Ok(())
    }

    /// Puts another queueing discipline in front of a device. The packets of the old one move over in their flows' order, with
    /// their departure times; only what the new one has no room for is given up, and its flows hear of it. To a discipline that
    /// does not keep such times a packet comes when its time has come, and nothing of its flow before: a paced flow never bursts. What `netem` delays
    /// goes on when its delay is over, without another one.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`] without the device.
    pub fn set_qdisc(&mut self, dev: DeviceId, qdisc: impl Into<Any>) -> Result<(), Error> {
        let link = self.links.get_mut(usize::from(dev.0)).ok_or(Error::NoSuchSocket)?;
        let mut qdisc = qdisc.into();
        qdisc.attach(&mut self.env.cx(self.now, None), &link.facts());
        let mut old = core::mem::replace(&mut link.qdisc, qdisc);
        link.not_before = None;
        link.requeues = 0;
        let keeps = link.qdisc.honours_departure();
        let fresh = Early::new(&link.facts(), &mut self.env.rng.fork("early"));
        let mut early = core::mem::replace(&mut link.early, fresh);
        if let (Any::Netem(link), Any::Netem(old)) = (&mut link.qdisc, &mut old) {
            link.take_over(self.now, old);
        }
        // What waits for its time came behind what waits for its turn.
        while let Some(packet) = old.take().or_else(|| early.take()) {
            match self.links.get_mut(usize::from(dev.0)) {
                Some(link) if !keeps && packet.at > self.now => link.early.keep(packet),
                _ => self.enqueue(dev, packet),
            }
        }
        Ok(())
    }

    /// The queueing discipline in front of a device with its statistics, as `tc -s qdisc` shows it.
    #[must_use]
    pub fn qdisc(&self, dev: DeviceId) -> Option<qdisc::Report> {
        let link = self.links.get(usize::from(dev.0))?;
        let mut report = link.qdisc.report();
        // What met "not now" still waits here: Linux counts it so (`dev_requeue_skb`).
        report.stats.requeues += link.requeues;
        // So does what waits for its time in front of a discipline that keeps none.
        let mut waits = |packet: &Packet| {
            report.stats.backlog += packet.len() as u64;
            report.stats.qlen += 1;
        };
        link.held.iter().for_each(&mut waits);
        link.early.each(&mut waits);
        Some(report)
    }

    /// The settings.
    #[must_use]
    pub const fn sysctl(&self) -> &Sysctl {
        &self.env.sysctl
    }

    /// Changes a setting by its Linux name.
    ///
    /// # Errors
    /// One sentence that names the setting and the allowed values.
    pub fn set_sysctl(&mut self, name: &str, value: &str) -> Result<(), String> {
        match self.env.sysctl.write(name, value)? {
            Effect::None => {}
            Effect::RestartQueues => self.restart_queues(),
            Effect::TrustFastOpen => self.openers.fastopen.cache.trust(),
        }
        Ok(())
    }

    /// The queue-aware limit was switched on or off: what was counted before is not true any more.
    fn restart_queues(&mut self) {
        let on = self.env.sysctl.tcp_queue_aware;
        self.links.iter_mut().for_each(|link| link.told.restart());
        for entry in self.sockets.values_mut() {
            if let Socket::Tcp(conn) = &mut entry.socket {
                conn.restart_queue(on);
            }
        }
    }

    /// Starts or stops the flight recorder.
    pub fn set_trace(&mut self, on: bool) {
        self.env.trace.enable(on);
    }

    /// Starts the flight recorder for what changes alone: states, windows, recovery, reasons for silence.
    pub fn trace_changes(&mut self) {
        self.env.trace.enable_changes();
    }

    /// The IP layer, for what needs its tables.
    #[must_use]
    pub const fn ip(&self) -> &Ip {
        &self.ip
    }
}
