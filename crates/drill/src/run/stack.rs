//! The stack in virtual time as what a script runs against.
use crate::config::{Config, Family};
use crate::failure::Failure;
use crate::steps::Steps;
use crate::target::{ORIGIN, Target};
use bytes::Bytes;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use lowwater_core::base::trace::Record;
use lowwater_core::base::{Instant, Sysctl};
use lowwater_core::device::DeviceCaps;
use lowwater_posix::{Call, CallId, Host, Reply, Sent, Settings, Started};

/// A host in virtual time.
pub(super) struct Stack(Steps);

impl Stack {
    pub(super) fn new(config: &Config) -> Result<Self, Box<Failure>> {
        let mut caps = DeviceCaps::plain(config.mtu);
        if config.device.gso > 0 {
            caps = DeviceCaps { gso_max_size: config.device.gso, ..DeviceCaps::offloading(config.mtu) };
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
            ..Settings::default()
        };
        let mut host =
            Host::new(settings).map_err(|e| Failure::new(1, format!("the stack's addresses: {e}")))?;
        host.stack().set_trace(true);
        Ok(Self(Steps::new(host)))
    }
}

impl Target for Stack {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn call(&mut self, call: Call) -> Started {
        self.0.call(call)
    }

    fn take(&mut self, id: CallId) -> Option<(Instant, Reply)> {
        self.0.take(id)
    }

    fn inject(&mut self, packet: Bytes) {
        self.0.inject(packet);
    }

    fn advance_until(&mut self, t: Instant) {
        self.0.advance_until(t);
    }

    fn next_packet(&mut self, limit: Instant) -> Option<Sent> {
        self.0.next_packet(limit)
    }

    fn set_sysctl(&mut self, name: &str, value: &str) -> Result<(), String> {
        self.0.host().set_sysctl(name, value)
    }

    fn lacks_sysctl(&self, name: &str) -> Option<String> {
        if Sysctl::knows(name) {
            return None;
        }
        let near = Sysctl::near(name).join(", ");
        Some(format!("the stack has no setting '{name}'; near it are {near} (docs/sysctl.md lists all)"))
    }

    fn forget_servers(&mut self) -> Result<(), String> {
        self.0.host().stack().forget_servers();
        Ok(())
    }

    fn set_qdisc(&mut self, words: &str) -> Result<(), String> {
        self.0.host().set_qdisc(words)
    }

    fn set_busy(&mut self, busy: bool) {
        self.0.host().set_busy(busy);
    }

    fn set_drops(&mut self, count: usize) {
        self.0.host().set_drops(count);
    }

    fn complete(&mut self, count: usize) -> usize {
        self.0.complete(count)
    }

    fn early_info(&mut self, local: SocketAddr, remote: SocketAddr) -> Option<Vec<u8>> {
        let id = self.0.host().lookup(local, remote)?;
        self.0.host().stack().tcp_info(id).ok().map(|info| info.emit().to_vec())
    }

    fn trace(&mut self, max: usize) -> Vec<Record> {
        let records: Vec<_> = self.0.host().stack().trace().records().copied().collect();
        records.get(records.len().saturating_sub(max)..).unwrap_or_default().to_vec()
    }
}
