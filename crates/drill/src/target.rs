//! What a script runs against: the stack in virtual time, or something else that takes the same calls and packets.
use crate::config::{Config, DeviceConfig};
use bytes::Bytes;
use core::net::{IpAddr, SocketAddr};
use lowwater_core::base::trace::Record;
use lowwater_core::base::{Duration, Instant};
use lowwater_posix::{Call, CallId, Privileges, Reply, Sent, Started};

/// When a script's time begins, on the clock of its [`Target`].
pub const ORIGIN: Instant = Instant::from_millis(10_000);

/// The world that a script asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct World {
    /// Address of what is tested. Everything else is behind the one device.
    pub local: IpAddr,
    /// Length of its prefix.
    pub prefix: u8,
    /// The peer's address.
    pub remote: IpAddr,
    /// MTU of the device.
    pub mtu: u16,
    /// Packets of TCP with more than so many bytes come in as segments of that size that the device has joined; 0: it joins none.
    pub joined: u16,
    /// The script wants a device of its own kind: super-packets, or completions by hand.
    pub special_device: bool,
}

impl World {
    pub(crate) fn of(config: &Config) -> Self {
        let ends = &config.ends;
        let special_device = config.device != DeviceConfig::default();
        let (mtu, joined) = (config.mtu, config.joined);
        Self { local: ends.local, prefix: ends.prefix, remote: ends.remote, mtu, joined, special_device }
    }
}

/// Takes calls and packets, and tells what it sends. Its clock begins at [`ORIGIN`].
pub trait Target {
    /// The time.
    fn now(&self) -> Instant;
    /// Makes a call, now.
    fn call(&mut self, call: Call) -> Started;
    /// The reply of a call that had blocked, once, with the time at which it came back.
    fn take(&mut self, id: CallId) -> Option<(Instant, Reply)>;
    /// A packet comes in, from the IP header on.
    fn inject(&mut self, packet: Bytes);
    /// Why a packet did not come in, of those since it was asked last.
    fn refused(&mut self) -> Option<String> {
        None
    }
    /// Lets time pass until `t`.
    fn advance_until(&mut self, t: Instant);
    /// Waits until its clock stands where one in virtual time stands at its beginning, as far as a part of `period` tells: what is drawn from
    /// clocks is alike then.
    fn align(&mut self, period: Duration) {
        let _ = period;
    }
    /// The next packet that was or will be sent until `limit`.
    fn next_packet(&mut self, limit: Instant) -> Option<Sent>;
    /// Sets a sysctl by its Linux name.
    ///
    /// # Errors
    /// Why not, in a sentence.
    fn set_sysctl(&mut self, name: &str, value: &str) -> Result<(), String>;
    /// Why there is no setting of this name, in a sentence; `None` when there is one.
    fn lacks_sysctl(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }
    /// What the program that makes the calls may do.
    fn privileges(&self) -> Privileges {
        Privileges::ALL
    }
    /// What it may do from now on.
    ///
    /// # Errors
    /// Why not, in a sentence.
    fn set_privileges(&mut self, may: Privileges) -> Result<(), String> {
        let _ = may;
        Err("privileges cannot be taken here".to_owned())
    }
    /// Linux's counters that there are, with their names as `nstat` has them, since the world began.
    ///
    /// # Errors
    /// Why not, in a sentence.
    fn counters(&mut self) -> Result<Vec<(String, u64)>, String> {
        Err("counters cannot be had here".to_owned())
    }
    /// Forgets what connections have taught about servers, as `ip tcp_metrics flush` does.
    ///
    /// # Errors
    /// Why not, in a sentence.
    fn forget_servers(&mut self) -> Result<(), String> {
        Err("what is known of servers cannot be forgotten here".to_owned())
    }
    /// `struct tcp_info` of a connection that nobody has accepted yet, where that can be had.
    fn early_info(&mut self, local: SocketAddr, remote: SocketAddr) -> Option<Vec<u8>>;
    /// The last records of what happened inside, at most `max`.
    fn trace(&mut self, max: usize) -> Vec<Record>;
    /// Puts a queueing discipline in front of the device, in the words of `tc`.
    ///
    /// # Errors
    /// Why not, in a sentence.
    fn set_qdisc(&mut self, words: &str) -> Result<(), String> {
        Err(format!("the queueing discipline '{words}' is the stack's: it cannot be had here"))
    }
    /// Everything of a prefix leaves by the device from now on; `metrics` are the words of `ip route` behind that.
    ///
    /// # Errors
    /// Why not, in a sentence.
    fn set_route(&mut self, dest: IpAddr, prefix: u8, metrics: &str) -> Result<(), String> {
        let _ = metrics;
        Err(format!("the route to {dest}/{prefix} is the stack's: it cannot be changed here"))
    }
    /// Nothing of a prefix leaves by the device any more.
    ///
    /// # Errors
    /// Why not, in a sentence.
    fn remove_route(&mut self, dest: IpAddr, prefix: u8) -> Result<(), String> {
        Err(format!("the route to {dest}/{prefix} is the stack's: it cannot be changed here"))
    }
    /// The device takes IP packets of so many bytes from now on.
    ///
    /// # Errors
    /// Why not, in a sentence.
    fn set_mtu(&mut self, mtu: u16) -> Result<(), String> {
        Err(format!("the MTU {mtu} is the stack's: it cannot be changed here"))
    }
    /// The first commands have run: the device is made, as their settings say.
    fn begin(&mut self) {}
    /// The device says "not now" to everything, or no more.
    fn set_busy(&mut self, busy: bool) {
        let _ = busy;
    }
    /// The queue in front of the device drops the next `count` packets.
    fn set_drops(&mut self, count: usize) {
        let _ = count;
    }
    /// The device completes the oldest `count` of the packets that it holds; how many it held.
    fn complete(&mut self, count: usize) -> usize {
        let _ = count;
        0
    }
    /// What times in control messages show where [`Target::now`] shows [`Instant::ZERO`], in nanoseconds since 1970.
    fn epoch_ns(&self) -> u64 {
        0
    }
    /// How much further from its time an event may be than the script allows, in microseconds; 0 in virtual time.
    fn slack_us(&self) -> u64 {
        0
    }
    /// How long after its time a packet is waited for, in microseconds.
    fn patience_us(&self) -> u64 {
        200_000_000
    }
}
