//! The stack in virtual time as what a script runs against.
use crate::config::{Config, Family};
use crate::failure::Failure;
use crate::names;
use crate::steps::Steps;
use crate::target::{ORIGIN, Target};
use bytes::Bytes;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use lowwater_core::base::trace::Record;
use lowwater_core::base::{Instant, Sysctl};
use lowwater_core::device::DeviceCaps;
use lowwater_posix::{Call, CallId, Host, Privileges, Reply, Sent, Settings, Started};

/// What the device of a script is called.
pub(super) const DEVICE: &str = "tun0";
/// The setting that names what stands before new devices.
const DEFAULT_QDISC: &str = "net.core.default_qdisc";

/// A host in virtual time.
pub(super) struct Stack {
    steps: Steps,
    settings: Settings,
    /// Something but a command has happened.
    begun: bool,
    /// What the script's program may do.
    may: Privileges,
}

impl Stack {
    pub(super) fn new(config: &Config) -> Result<Self, Box<Failure>> {
        let mut caps = DeviceCaps::plain(config.mtu);
        if config.device.gso > 0 {
            caps = DeviceCaps {
                gso_max_size: config.device.gso,
                ..DeviceCaps::offloading(config.mtu).repeating_cwr()
            };
        }
        let any: IpAddr = match config.family {
            Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
            _ => Ipv4Addr::UNSPECIFIED.into(),
        };
        let settings = Settings {
            caps,
            device_room: config.device.queue,
            addresses: vec![(config.ends.local, config.ends.prefix)],
            routes: vec![(any, 0, None)],
            start: ORIGIN,
            joined: config.joined,
            device_name: DEVICE.to_owned(),
            ..Settings::default()
        };
        let steps = host(&settings).map_err(|why| Failure::new(1, why))?;
        Ok(Self { steps, settings, begun: false, may: Privileges::ALL })
    }
}

fn host(settings: &Settings) -> Result<Steps, String> {
    let mut host = Host::new(settings.clone()).map_err(|e| format!("the stack's addresses: {e}"))?;
    host.stack().set_trace(true);
    Ok(Steps::new(host))
}

impl Target for Stack {
    fn now(&self) -> Instant {
        self.steps.now()
    }

    fn call(&mut self, call: Call) -> Started {
        self.steps.call_as(self.may, call)
    }

    fn privileges(&self) -> Privileges {
        self.may
    }

    fn set_privileges(&mut self, may: Privileges) -> Result<(), String> {
        self.may = may;
        Ok(())
    }

    fn take(&mut self, id: CallId) -> Option<(Instant, Reply)> {
        self.steps.take(id)
    }

    fn inject(&mut self, packet: Bytes) {
        self.steps.inject(packet);
    }

    fn advance_until(&mut self, t: Instant) {
        self.steps.advance_until(t);
    }

    fn next_packet(&mut self, limit: Instant) -> Option<Sent> {
        self.steps.next_packet(limit)
    }

    fn set_sysctl(&mut self, name: &str, value: &str) -> Result<(), String> {
        self.steps.host().set_sysctl(name, value)?;
        // What stands before a device is decided when it is made: before the first event that is not too late.
        if name == DEFAULT_QDISC && !self.begun {
            self.settings.config.sysctl = self.steps.host().stack().sysctl().clone();
            self.steps = host(&self.settings)?;
        }
        Ok(())
    }

    fn lacks_sysctl(&self, name: &str) -> Option<String> {
        if Sysctl::knows(name) {
            return None;
        }
        let near = names::told(&Sysctl::near(name));
        Some(format!("the stack has no setting '{name}'{near} (docs/sysctl.md lists all)"))
    }

    fn counters(&mut self) -> Result<Vec<(String, u64)>, String> {
        let mut all = Vec::new();
        self.steps.host().stack().counters().each_of_linux(&mut |group, name, value| {
            all.push((format!("{group}{name}"), value));
        });
        Ok(all)
    }

    fn forget_servers(&mut self) -> Result<(), String> {
        self.steps.host().stack().forget_servers();
        Ok(())
    }

    fn set_qdisc(&mut self, words: &str) -> Result<(), String> {
        self.steps.host().set_qdisc(words)
    }

    fn set_route(&mut self, dest: IpAddr, prefix: u8, metrics: &str) -> Result<(), String> {
        self.steps.host().set_route(dest, prefix, metrics.parse()?)
    }

    fn remove_route(&mut self, dest: IpAddr, prefix: u8) -> Result<(), String> {
        self.steps.host().remove_route(dest, prefix)
    }

    fn set_mtu(&mut self, mtu: u16) -> Result<(), String> {
        self.steps.host().set_mtu(mtu)
    }

    fn begin(&mut self) {
        self.begun = true;
    }

    fn set_busy(&mut self, busy: bool) {
        self.steps.host().set_busy(busy);
    }

    fn set_drops(&mut self, count: usize) {
        self.steps.host().set_drops(count);
    }

    fn complete(&mut self, count: usize) -> usize {
        self.steps.complete(count)
    }

    fn early_info(&mut self, local: SocketAddr, remote: SocketAddr) -> Option<Vec<u8>> {
        let id = self.steps.host().lookup(local, remote)?;
        let now = self.steps.now();
        self.steps.host().tcp_info_of(now, id).map(|info| info.emit().to_vec())
    }

    fn trace(&mut self, max: usize) -> Vec<Record> {
        self.steps.trace(max)
    }
}
