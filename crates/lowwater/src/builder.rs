//! How a stack is described: settings, devices, addresses, routes.
use crate::asks::Asks;
use crate::capture::Capture;
use crate::devices::{Attached, Devices};
use crate::driver::{Answers, Driver};
use crate::error::{invalid, io_error};
use crate::events::{Event, Told};
use crate::gateway::{self, Place};
use crate::observe::{Observer, Watch};
use crate::port::Port;
use crate::ready::Sets;
use crate::registry::Registry;
use crate::sctp::Endpoints;
use crate::shared::{Handle, Inner, Phase, Shared};
use crate::stack::Stack;
use lowwater_core::base::{Error, Instant, RouteMetrics};
use lowwater_core::ip::{Cidr, Route};
use lowwater_core::qdisc::Any;
use lowwater_core::stack::{Config, Stack as Core};
use lowwater_os::{BusyPoll, Clock, Layer, PacketDevice, PacketOptions, Poller, Tun, TunOptions};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// Smallest MTU of a device (RFC 791 section 3.2).
pub(crate) const MTU_MIN: u16 = 68;

enum Open {
    Tun(TunOptions),
    Packet(PacketOptions),
    Port(Box<dyn Port>),
}

/// Where to, by which gateway, and what it asks of connections.
type PlannedRoute = (Cidr, Option<IpAddr>, RouteMetrics);

/// One device to be opened.
struct Planned {
    open: Open,
    addresses: Vec<Cidr>,
    host_addresses: Vec<Cidr>,
    routes: Vec<PlannedRoute>,
    any_address: bool,
    qdisc: Option<Any>,
}

/// Describes a stack. Addresses and routes belong to the device that was named last; mistakes are told by
/// [`Builder::build`].
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// let stack = lowwater::Stack::builder()
///     .tun("lw0")
///     .address("10.9.0.2/24")
///     .address("fd00:9::2/64")
///     .host_address("10.9.0.1/24")
///     .sysctl("tcp_congestion_control", "cubic")
///     .build()?;
/// # let _ = stack;
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    config: Config,
    seeded: bool,
    devices: Vec<Planned>,
    watch: Watch,
    told: Option<Told>,
    busy_poll: Option<Duration>,
    mistake: Option<String>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            config: Config::default(),
            seeded: false,
            devices: Vec::new(),
            watch: Watch::default(),
            told: None,
            busy_poll: None,
            mistake: None,
        }
    }

    /// Sets a sysctl by its Linux name.
    pub fn sysctl(mut self, name: &str, value: &str) -> Self {
        if let Err(why) = self.config.sysctl.set(name, value) {
            self.mistake.get_or_insert(why);
        }
        self
    }

    /// Takes all chance and all secrets (ports, ISNs) from this seed. Only for tests: without it the operating system's
    /// random source is asked.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self.seeded = true;
        self
    }

    /// Adds a TUN device with offloads; see [`TunOptions::new`]. Needs CAP_NET_ADMIN, unless the device was made for this
    /// user before, is up, and has the addresses of the kernel's side that are named.
    pub fn tun(self, name: &str) -> Self {
        self.tun_with(TunOptions::new(name))
    }

    /// Adds a TAP device with offloads.
    pub fn tap(self, name: &str) -> Self {
        self.tun_with(TunOptions { layer: Layer::Ethernet, ..TunOptions::new(name) })
    }

    /// Adds a TUN or TAP device with these options.
    pub fn tun_with(self, options: TunOptions) -> Self {
        self.plan(Open::Tun(options))
    }

    /// Adds a network interface of the kernel by packet sockets; see [`PacketOptions::new`]. The stack shares its Ethernet
    /// address and needs an IP address of its own, which the kernel must not have. Where the kernel forwards what comes by this interface
    /// (net.ipv4.ip_forward), it tells peers that the address is elsewhere or nowhere: switch that off for the interface. Needs CAP_NET_RAW.
    pub fn packet(self, interface: &str) -> Self {
        self.packet_with(PacketOptions::new(interface))
    }

    /// Adds a network interface with these options.
    pub fn packet_with(self, options: PacketOptions) -> Self {
        self.plan(Open::Packet(options))
    }

    /// Adds a device: an end of [`crate::link::pair`], a link of the application ([`crate::link::owned`]), or one of your
    /// own.
    pub fn device(self, port: impl Port + 'static) -> Self {
        self.plan(Open::Port(Box::new(port)))
    }

    fn plan(mut self, open: Open) -> Self {
        self.devices.push(Planned {
            open,
            addresses: Vec::new(),
            host_addresses: Vec::new(),
            routes: Vec::new(),
            any_address: false,
            qdisc: None,
        });
        self
    }

    /// Gives the stack an address, as "10.9.0.2/24", and a route to the subnet around it. Without a prefix the address is alone in its subnet:
    /// nobody else is reached without [`Builder::route`].
    pub fn address(self, cidr: &str) -> Self {
        self.with_cidr(cidr, |device, cidr| device.addresses.push(cidr))
    }

    /// Gives the kernel's side of a TUN or TAP an address, as "10.9.0.1/24". It is up without this too.
    pub fn host_address(self, cidr: &str) -> Self {
        self.with_cidr(cidr, |device, cidr| device.host_addresses.push(cidr))
    }

    /// Adds a route, as "10.8.0.0/16", on the link or by a gateway on it. "default" is 0.0.0.0/0, by a gateway of IPv6 ::/0.
    pub fn route(self, to: &str, via: Option<IpAddr>) -> Self {
        let via = via.map(|ip| ip.to_canonical());
        let to = match (to, via) {
            ("default", Some(IpAddr::V6(_))) => "::/0",
            ("default", _) => "0.0.0.0/0",
            _ => to,
        };
        self.with_cidr(to, |device, to| device.routes.push((to, via, RouteMetrics::NONE)))
    }

    /// What the route that was added last says of itself and asks of connections, in the words of `ip route`: "mtu 1400 initcwnd 20 rto_min 50ms".
    /// A second call adds to the first. docs/ip.md has all words. A peer in the subnet of an address takes that subnet's route: name it by
    /// [`Builder::route`], too.
    pub fn route_metrics(mut self, words: &str) -> Self {
        let told = match self.devices.last_mut().and_then(|device| device.routes.last_mut()) {
            Some((_, _, metrics)) => metrics.apply(words),
            None => {
                Err("route_metrics() is about the route() before it, and this device has none".to_owned())
            }
        };
        if let Err(why) = told {
            self.mistake.get_or_insert(why);
        }
        self
    }

    /// Accepts packets to any unicast address, for proxies ([`crate::TcpListener::bind_any`]).
    pub fn any_address(mut self) -> Self {
        match self.devices.last_mut() {
            Some(device) => device.any_address = true,
            None => self.no_device(),
        }
        self
    }

    /// Puts a queueing discipline in front of the device, in the words of `tc qdisc add`: "fq maxrate 48mbit". docs/qdisc.md
    /// has them all; without this it is what `net.core.default_qdisc` names, `pfifo_fast` at first.
    pub fn qdisc(mut self, words: &str) -> Self {
        match (words.parse(), self.devices.last_mut()) {
            (Ok(qdisc), Some(device)) => device.qdisc = Some(qdisc),
            (Err(why), _) => {
                self.mistake.get_or_insert(why);
            }
            (_, None) => self.no_device(),
        }
        self
    }

    fn with_cidr(mut self, text: &str, f: impl FnOnce(&mut Planned, Cidr)) -> Self {
        match (text.parse(), self.devices.last_mut()) {
            (Ok(cidr), Some(device)) => f(device, cidr),
            (Err(why), _) => {
                self.mistake.get_or_insert(format!("{text:?} is {why}"));
            }
            (_, None) => self.no_device(),
        }
        self
    }

    fn no_device(&mut self) {
        self.mistake
            .get_or_insert("name a device before its addresses, routes and queueing discipline".into());
    }

    /// Lets `observer` see every packet; see [`Observer`]. Several see it one after the other.
    pub fn observe(mut self, mut observer: Observer) -> Self {
        self.watch.observer = Some(match self.watch.observer.take() {
            None => observer,
            Some(mut first) => Box::new(move |device, direction, packet| {
                first(device, direction, packet);
                observer(device, direction, packet);
            }),
        });
        self
    }

    /// Writes every packet that passes between the stack and its devices to a pcapng file, from the first one on.
    /// [`Capture::finish`] ends it:
    ///
    /// ```no_run
    /// # async fn run() -> std::io::Result<()> {
    /// let capture = lowwater::Capture::create("stack.pcapng")?;
    /// let stack = lowwater::Stack::builder().capture(&capture).tun("lw0").address("10.9.0.2/24").build()?;
    /// // ...
    /// stack.shutdown(std::time::Duration::from_secs(1)).await;
    /// capture.finish()
    /// # }
    /// ```
    ///
    /// [`Stack::observe`](crate::Stack::observe) does not end it.
    pub fn capture(mut self, capture: &Capture) -> Self {
        self.watch.captures.push(capture.tap());
        self
    }

    /// Calls `hook` with each change of a connection or an association: its state, its congestion window, loss recovery, and why it does not send. It runs on the stack's
    /// thread, after the turn in which they came: its packets have left and its waiters are awake by then, and no lock is held. So it may ask the
    /// stack, and what it does slowly delays only what comes next. It must not wait for the stack, which waits for it; if it panics the stack ends, as [`Stack::failure`](crate::Stack::failure)
    /// says. A hook that holds a clone of the [`Stack`] keeps the stack until [`Stack::shutdown`](crate::Stack::shutdown), at whose end the hook is gone.
    /// What a call of the program changes is told with the stack's next turn: where nothing leaves by it and nobody answers, when something else happens, or at the end.
    /// The stack keeps 256 events from one turn to the next, those of calls included ([`Event::missed`]).
    pub fn on_event(mut self, hook: impl FnMut(&Event) + Send + 'static) -> Self {
        self.told = Some(Told::new(Box::new(hook)));
        self
    }

    /// Lets the stack's thread look at its devices for up to `limit` before it sleeps (as `net.core.busy_poll` does, in whole
    /// microseconds there): a round trip is spared the time to wake up, for processor time. It gives way to other threads
    /// all the while, and stops while waits are longer than that. By default it looks for 50 us, and for up to 200 where that pays;
    /// zero: never. A stack that is a task
    /// ([`Builder::spawn`]) looks only where this is called: between two looks the other tasks run that are ready, but its thread
    /// of the runtime is busy.
    pub fn busy_poll(mut self, limit: Duration) -> Self {
        self.busy_poll = Some(limit);
        self
    }

    /// Opens the devices, in the calling thread's network namespace, and starts the thread that serves the stack.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a mistake in the description; for devices what [`lowwater_os::SetupError`] says,
    /// which is the source of the error (`get_ref`).
    pub fn build(self) -> io::Result<Stack> {
        let (stack, driver) = self.build_driver()?;
        std::thread::Builder::new().name("lowwater".into()).spawn(move || driver.run())?;
        Ok(stack)
    }

    /// As [`Builder::build`], but a task of the tokio runtime serves the stack ([`Driver::run_on_tokio`]) instead of a thread: small
    /// requests are answered sooner where threads would share a processor, and the stack shares the runtime's threads with
    /// the application.
    ///
    /// # Errors
    /// Those of [`Builder::build`], and [`io::ErrorKind::NotConnected`] outside of a runtime.
    ///
    /// # Panics
    /// Where the runtime's I/O is not enabled, as sockets of tokio do, in the task.
    #[cfg(feature = "tokio")]
    pub fn spawn(self) -> io::Result<Stack> {
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|why| io::Error::new(io::ErrorKind::NotConnected, why))?;
        let (stack, driver) = self.build_driver()?;
        runtime.spawn(driver.run_on_tokio());
        Ok(stack)
    }

    /// As [`Builder::build`], but leaves it to the caller to [run](Driver::run) the stack on a thread.
    ///
    /// # Errors
    /// Those of [`Builder::build`].
    pub fn build_driver(mut self) -> io::Result<(Stack, Driver)> {
        if let Some(mistake) = self.mistake.or_else(|| mistake(&self.devices)) {
            return Err(invalid(mistake));
        }
        if !self.seeded {
            self.config.seed = lowwater_os::entropy::number()?;
        }
        let (clock, poller) = (Clock::start(), Poller::new()?);
        let mut core = Core::new(self.config, Instant::ZERO);
        if self.told.is_some() {
            core.trace_changes();
        }
        let mut ports = Vec::new();
        for planned in self.devices {
            let token = ports.len() as u64;
            let mut port = attach(&mut core, planned)?;
            port.port.attach(&poller, token)?;
            ports.push(port);
        }
        let inner = Inner {
            core,
            registry: Registry::default(),
            asks: Asks::default(),
            endpoints: Endpoints::default(),
            sets: Sets::default(),
            devices: ports.iter().map(|p| p.id).collect(),
            phase: Phase::Running,
            asleep: None,
            brief: false,
            mourners: Vec::new(),
            observer: None,
            failure: None,
        };
        let devices = Devices { ports, watch: self.watch, ..Devices::default() };
        let shared = Shared::new(inner, devices, clock, poller.waker());
        let stack = Stack { handle: Handle::new(&shared) };
        let driver = Driver {
            shared,
            poller,
            input_first: 0,
            busy_poll: self.busy_poll.map_or_else(BusyPoll::learning, BusyPoll::new),
            told_to_poll: self.busy_poll.is_some(),
            answers: Answers::default(),
            looked: true,
            told: self.told,
        };
        Ok((stack, driver))
    }
}

/// What is wrong with the addresses of devices or the gateways of routes, where something is.
fn mistake(devices: &[Planned]) -> Option<String> {
    devices.iter().find_map(|planned| {
        let gateway = || planned.routes.iter().find_map(|route| unreachable_gateway(devices, planned, route));
        wrong_address(planned).or_else(gateway).or_else(|| out_of_reach(planned))
    })
}

/// What is wrong with the addresses of a device by themselves.
fn wrong_address(planned: &Planned) -> Option<String> {
    let Planned { addresses, host_addresses, any_address, .. } = planned;
    if addresses.is_empty() && !any_address {
        return Some("a device has no address: give it one by address(), as \"10.9.0.2/24\"".to_owned());
    }
    addresses.iter().chain(host_addresses).find_map(|cidr| {
        let what = cidr.not_a_hosts()?;
        Some(format!("{cidr} is {what}: give a host's, as \"10.9.0.2/24\""))
    })
}

/// Why the kernel's side of a device and ours would not reach each other.
fn out_of_reach(planned: &Planned) -> Option<String> {
    let Planned { addresses, host_addresses, routes, any_address, .. } = planned;
    host_addresses.iter().find_map(|host| {
        if addresses.iter().any(|own| own.addr() == host.addr()) {
            return Some(format!("{} is the stack's own address: the kernel's side needs another one", host.addr()));
        }
        let meets = |own: &Cidr| own.contains(host.addr()) && host.contains(own.addr());
        let leads = |(to, ..): &PlannedRoute| to.contains(host.addr());
        let apart = !any_address && !addresses.iter().any(meets) && !routes.iter().any(leads);
        apart.then(|| {
            format!("{host} of the kernel's side is in no subnet of the stack's addresses: neither would reach the other")
        })
    })
}

/// What is wrong with the gateway of a route, where it has one.
fn unreachable_gateway(
    devices: &[Planned],
    planned: &Planned,
    (to, via, _): &PlannedRoute,
) -> Option<String> {
    let Planned { addresses, host_addresses, routes, any_address, .. } = planned;
    let gateway = (*via)?;
    let near = *any_address
        || addresses.iter().any(|own| own.contains(gateway))
        || host_addresses.iter().any(|host| host.addr() == gateway)
        || routes.iter().any(|(to, via, _)| via.is_none() && to.contains(gateway));
    let configured = devices.iter().flat_map(|d| &d.addresses).any(|own| own.addr() == gateway);
    gateway::mistake(to, gateway, &Place { configured, addresses, near })
}

fn attach(core: &mut Core, planned: Planned) -> io::Result<Attached> {
    let port: Box<dyn Port> = match planned.open {
        Open::Tun(options) => {
            let tun = Tun::open(&options)?;
            let link = tun.link()?;
            // What an administrator has done for this user already takes no privileges.
            if !link.is_up()? {
                link.up()?;
            }
            for cidr in &planned.host_addresses {
                if !link.has_address(cidr.addr(), cidr.len())? {
                    link.add_address(cidr.addr(), cidr.len())?;
                }
            }
            Box::new(tun)
        }
        Open::Packet(_) | Open::Port(_) if !planned.host_addresses.is_empty() => {
            return Err(invalid("only a TUN or TAP has a kernel's side that could get an address"));
        }
        Open::Packet(options) => Box::new(PacketDevice::open(&options)?),
        Open::Port(port) => port,
    };
    let caps = port.caps();
    if caps.mtu < MTU_MIN {
        return Err(invalid(format!("a device has an MTU of {}; IPv4 needs {MTU_MIN} (RFC 791)", caps.mtu)));
    }
    let id = core.add_device(caps);
    for cidr in planned.addresses {
        core.add_address(id, cidr.addr(), cidr.len()).map_err(|error| match error {
            Error::AddressInUse => invalid(format!("the address {} is given twice", cidr.addr())),
            other => io_error(other),
        })?;
    }
    for (to, gateway, metrics) in planned.routes {
        let route = Route { gateway, metrics, ..Route::on_link(to, id) };
        core.replace_route(route).map_err(io_error)?;
    }
    if planned.any_address {
        core.set_any_address(id, true).map_err(io_error)?;
    }
    if let Some(qdisc) = planned.qdisc {
        core.set_qdisc(id, qdisc).map_err(io_error)?;
    }
    Ok(Attached::new(id, caps, port))
}
