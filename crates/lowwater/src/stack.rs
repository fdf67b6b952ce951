//! The handle on a stack: what it is asked about and how it ends.
use crate::builder::Builder;
use crate::error::{invalid, io_error};
use crate::gateway::mistake_of_running;
use crate::observe::Observer;
use crate::shared::{Handle, Phase};
use crate::waiters::same_task;
use lowwater_core::base::{Counters, DeviceId, Error, RouteMetrics, Sysctl};
use lowwater_core::ip::{Cidr, Route};
use lowwater_core::qdisc::{self, Any};
use lowwater_core::stack::{Report, Sockstat};
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::task::{Context, Poll};
use std::time::Duration;

/// A TCP/IP stack. Cheap to clone, usable from any thread; a thread of its own does the work.
///
/// Its life ends by [`Stack::shutdown`], or when the last handle is gone (this one, its clones, and all sockets): then
/// connections that close in the background have 60 seconds left, unless the process ends first.
#[derive(Clone)]
pub struct Stack {
    pub(crate) handle: Handle,
}

/// How a stack ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were reset because they had not closed by themselves, or were still held by the program.
    pub aborted: usize,
}

impl Stack {
    /// A stack to be described.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// A snapshot of all counters, under Linux's names.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.handle.enter(|inner, _, _| inner.core.counters().clone())
    }

    /// All sockets, as `ss` lists them.
    #[must_use]
    pub fn sockets(&self) -> Report {
        self.handle.enter(|inner, now, _| inner.core.report(now))
    }

    /// How many sockets there are and what they hold, as /proc/net/sockstat.
    #[must_use]
    pub fn sockstat(&self) -> Sockstat {
        self.handle.enter(|inner, _, _| inner.core.sockstat())
    }

    /// The settings.
    #[must_use]
    pub fn sysctl(&self) -> Sysctl {
        self.handle.enter(|inner, _, _| inner.core.sysctl().clone())
    }

    /// Changes a setting by its Linux name; it acts on new connections, where Linux's does.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] with a sentence that names the allowed values.
    pub fn set_sysctl(&self, name: &str, value: &str) -> io::Result<()> {
        self.handle.enter(|inner, _, _| inner.core.set_sysctl(name, value)).map_err(invalid)
    }

    /// Adds a route by the stack's `device`-th device, counted from 0 in order of the builder's calls; one to the same prefix is replaced, with
    /// what it asked of connections. As for [`Builder::route`], a gateway is a neighbour: in a subnet of the device, or behind a route without one.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a device that is not there, a bad prefix or a gateway that cannot be, in words.
    pub fn add_route(&self, to: IpAddr, prefix: u8, via: Option<IpAddr>, device: usize) -> io::Result<()> {
        self.lead(to, prefix, via, (device, RouteMetrics::NONE))
    }

    /// The same with what the route says of itself and asks of connections, in the words of `ip route` ("mtu 1400 initcwnd 20"; docs/ip.md). A
    /// route to the same prefix by this device is replaced, its words with it; connections follow with their next packet.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] as [`Stack::add_route`], or with a sentence that names the wrong word and what is allowed.
    pub fn replace_route(
        &self,
        to: IpAddr,
        prefix: u8,
        gateway: Option<IpAddr>,
        device: usize,
        words: &str,
    ) -> io::Result<()> {
        let metrics = words.parse().map_err(|why: String| invalid(why))?;
        self.lead(to, prefix, gateway, (device, metrics))
    }

    /// Puts a route in the place of the one to the same prefix by this device.
    fn lead(
        &self,
        to: IpAddr,
        prefix: u8,
        gateway: Option<IpAddr>,
        (device, metrics): (usize, RouteMetrics),
    ) -> io::Result<()> {
        let gateway = gateway.map(|ip| ip.to_canonical());
        let bits = if to.is_ipv4() { 32 } else { 128 };
        let to = Cidr::new(to, prefix).ok_or_else(|| {
            invalid(format!("no route to {to}/{prefix}: a prefix of its family has at most {bits} bits"))
        })?;
        self.handle.enter_live(|inner, _, _| {
            let dev = device_of(&inner.devices, device)?;
            if let Some(why) = mistake_of_running(&inner.core, dev, &to, gateway) {
                return Err(invalid(why));
            }
            let route = Route { gateway, metrics, ..Route::on_link(to, dev) };
            inner.core.replace_route(route).map_err(|error| match error {
                Error::NoSuchSocket => {
                    invalid(format!("device {device} is gone, so nothing leads by it: failure() says why"))
                }
                other => io_error(other),
            })
        })
    }

    /// Puts another queueing discipline in front of the `device`-th device, in the words of `tc qdisc replace`: "fq maxrate
    /// 48mbit". What waits moves over; only what the new one has no room for is given up.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for a device that is not there, or with a sentence that names the wrong word and what is
    /// allowed.
    pub fn set_qdisc(&self, device: usize, words: &str) -> io::Result<()> {
        let qdisc: Any = words.parse().map_err(|why: String| invalid(why))?;
        self.handle.enter_live(|inner, _, _| {
            let dev = device_of(&inner.devices, device)?;
            inner.core.set_qdisc(dev, qdisc).map_err(io_error)
        })?;
        self.handle.bell.wake();
        Ok(())
    }

    /// The queueing discipline in front of the `device`-th device with its statistics, as `tc -s qdisc` shows it: print it, or
    /// read its values by name. `None` without the device.
    #[must_use]
    pub fn qdisc(&self, device: usize) -> Option<qdisc::Report> {
        self.handle.enter(|inner, _, _| inner.core.qdisc(*inner.devices.get(device)?))
    }

    /// Lets `observer` see every packet from now on; `None` ends that. It takes the place of [`Builder::observe`]'s, and of none of
    /// [`Builder::capture`]'s.
    pub fn observe(&self, observer: Option<Observer>) {
        let unused = self.handle.enter(|inner, _, _| match inner.phase {
            Phase::Stopped(_) => Some(observer),
            _ => inner.observer.replace(observer),
        });
        // The program's code, which may ask the stack.
        drop(unused);
        self.handle.bell.wake();
    }

    /// Why a device stopped working, where one did, or the stack by itself (whoever served it has panicked): a TUN or a network interface that was deleted, or the other end of a link in memory is gone: the partner's stack
    /// of a [`link::pair`](crate::link::pair()), the last [`Link`](crate::link::Link) of a [`link::owned`](crate::link::owned()). Its
    /// routes went with it: connections that had no other way have ended with [`NetworkUnreachable`](std::io::ErrorKind::NetworkUnreachable), and so does
    /// connecting or sending there. Listeners go on, for other devices and the loopback one.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.handle.enter(|inner, _, _| inner.failure.clone())
    }

    /// Ends the stack: listeners close at once; connections that close in the background have `within` to do so; then all
    /// that is left is reset, connections that the program still holds included. Ready when nothing of the stack runs any
    /// more.
    ///
    /// Cancel-safe: the end takes its course once this was polled, and a second call waits for the same end.
    pub async fn shutdown(&self, within: Duration) -> Drained {
        let mut started = false;
        poll_fn(|cx| {
            if !std::mem::replace(&mut started, true) {
                self.start_shutdown(within);
            }
            self.poll_end(cx)
        })
        .await
    }

    /// [`Stack::shutdown`] for programs without async.
    pub fn shutdown_blocking(&self, within: Duration) -> Drained {
        self.start_shutdown(within);
        // No deadline, hence no error.
        crate::blocking::wait(None, |cx| self.poll_end(cx).map(Ok)).unwrap_or(Drained { aborted: 0 })
    }

    fn start_shutdown(&self, within: Duration) {
        self.handle.enter(|inner, now, wakes| inner.drain(now, now + within, wakes));
        self.handle.bell.wake();
    }

    fn poll_end(&self, cx: &mut Context<'_>) -> Poll<Drained> {
        self.handle.enter(|inner, _, _| {
            if let Phase::Stopped(aborted) = inner.phase {
                return Poll::Ready(Drained { aborted });
            }
            if !inner.mourners.iter().any(|w| same_task(w, cx.waker())) {
                inner.mourners.push(cx.waker().clone());
            }
            Poll::Pending
        })
    }
}

/// The device of this number.
fn device_of(devices: &[DeviceId], number: usize) -> io::Result<DeviceId> {
    devices.get(number).copied().ok_or_else(|| {
        invalid(format!("there is no device {number}: the stack has {}, counted from 0", devices.len()))
    })
}

impl std::fmt::Debug for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stack").finish_non_exhaustive()
    }
}
