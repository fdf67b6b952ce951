//! The interface as what a script runs against: every call by C, in a second thread, so that it may block.
use super::super::{system, table};
use super::caller::Caller;
use crate::machine::Machine;
use crate::shared::SHARED;
use bytes::Bytes;
use core::net::{IpAddr, SocketAddr};
use core::ptr::null_mut;
use lowwater_core::base::trace::Record;
use lowwater_core::base::{Instant, Sysctl};
use lowwater_drill::{Family, Target, World};
use lowwater_posix::{Call, CallId, Privileges, Reply, Sent, Started};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// Between two looks at a call that has not come back.
const LOOK: Duration = Duration::from_micros(200);
/// Looks in a row at which a caller must be asleep to count as blocked.
const ASLEEP: u32 = 3;
/// Where a namespace's settings are.
pub(super) const SETTINGS: &str = "/proc/sys/net/ipv4";

/// A machine behind its interface, from `init` to `free`.
pub(super) struct Interface {
    caller: Caller,
    jobs: Sender<Call>,
    replies: Receiver<(u64, Reply)>,
    /// The second thread's id; 0 before it has taken a job, when it sleeps for another reason.
    busy: Arc<AtomicI32>,
    /// The script has asked for a device that packetdrill does not have.
    special: Arc<AtomicBool>,
    calls: u64,
    blocked: Option<CallId>,
    ready: Option<(u64, Reply)>,
}

impl Interface {
    pub(super) fn new(world: &World, mode: Family, special: Arc<AtomicBool>) -> Self {
        let version = mode.name();
        let (local, remote) = (world.local, world.remote);
        let (prefix, mtu, mss) = (world.prefix, world.mtu, world.joined);
        let flags = format!(
            "ip_version={version},local_ip={local},remote_ip={remote},prefix_len={prefix},mtu={mtu},mss={mss}"
        );
        // What packetdrill_interface_init() does, but for the redirection: these tests are the main program.
        SHARED.start(&flags, system::ended_children);
        SHARED.with(|machine| machine.keep_controller());
        let (jobs, inbox) = channel::<Call>();
        let (outbox, replies) = channel();
        let busy = Arc::new(AtomicI32::new(0));
        let flag = Arc::clone(&busy);
        thread::spawn(move || {
            let caller = Caller(table());
            // SAFETY: asks for a number.
            let tid = unsafe { libc::gettid() };
            for call in inbox {
                flag.store(tid, Ordering::SeqCst);
                let reply = caller.call(call);
                flag.store(0, Ordering::SeqCst);
                if outbox.send((SHARED.glance(), reply)).is_err() {
                    return;
                }
            }
        });
        Self { caller: Caller(table()), jobs, replies, busy, special, calls: 0, blocked: None, ready: None }
    }

    /// Waits until the call has come back or sleeps.
    fn settle(&mut self) {
        let mut asleep = 0;
        while self.ready.is_none() && asleep < ASLEEP {
            match self.replies.recv_timeout(LOOK) {
                Ok(reply) => self.ready = Some(reply),
                Err(_) => asleep = if self.is_asleep() { asleep + 1 } else { 0 },
            }
        }
    }

    fn is_asleep(&self) -> bool {
        let tid = self.busy.load(Ordering::SeqCst);
        let stat = fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
        let sleeps = stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'));
        tid != 0 && sleeps && !SHARED.with(|machine| machine.has_finished()).unwrap_or_default()
    }

    fn settle_blocked(&mut self) {
        if self.blocked.is_some() {
            self.settle();
        }
    }
}

impl Drop for Interface {
    fn drop(&mut self) {
        (self.caller.0.free)(null_mut());
    }
}

/// The clock's time on the stack's own clock, which the runner's is as well.
fn instant(us: u64) -> Instant {
    Instant::from_micros(us - crate::machine::EPOCH_US)
}

impl Target for Interface {
    fn now(&self) -> Instant {
        instant(SHARED.glance())
    }

    fn epoch_ns(&self) -> u64 {
        crate::machine::EPOCH_US * 1_000
    }

    fn call(&mut self, call: Call) -> Started {
        self.calls += 1;
        let id = CallId::new(self.calls);
        // As packetdrill does it: beside a call that blocks the main thread makes the others.
        if self.blocked.is_some() {
            return Started::Done(self.caller.call(call));
        }
        self.jobs.send(call).expect("the second thread takes calls");
        self.settle();
        match self.ready.take() {
            Some((_, reply)) => Started::Done(reply),
            None => {
                self.blocked = Some(id);
                Started::Blocked(id)
            }
        }
    }

    fn take(&mut self, id: CallId) -> Option<(Instant, Reply)> {
        if self.blocked != Some(id) {
            return None;
        }
        let (at, reply) = self.ready.take()?;
        self.blocked = None;
        Some((instant(at), reply))
    }

    fn inject(&mut self, packet: Bytes) {
        // SAFETY: a packet of this length.
        let ret = unsafe { (self.caller.0.netdev_send)(null_mut(), packet.as_ptr().cast(), packet.len()) };
        assert_eq!(ret, 0);
        self.settle_blocked();
    }

    fn advance_until(&mut self, t: Instant) {
        let mut left = t.nanos_since(self.now()) / 1_000;
        while left > 0 {
            let us = u32::try_from(left).unwrap_or(u32::MAX);
            assert_eq!((self.caller.0.usleep)(null_mut(), us), 0);
            left -= u64::from(us);
        }
        self.settle_blocked();
    }

    fn next_packet(&mut self, limit: Instant) -> Option<Sent> {
        SHARED.with(|machine| machine.set_horizon(limit));
        let mut packet = vec![0_u8; 65_536];
        let (mut len, mut us) = (packet.len(), 0);
        let at = packet.as_mut_ptr().cast();
        // SAFETY: as much room as the length says, a length and a time.
        let ret = unsafe { (self.caller.0.netdev_receive)(null_mut(), at, &raw mut len, &raw mut us) };
        assert_eq!(ret, 0);
        self.settle_blocked();
        packet.truncate(len);
        let at = (len > 0).then(|| instant(us.cast_unsigned()))?;
        Some(Sent { at, departs_at: at, bytes: packet.into(), gso_size: 0, queued: 0, packets: 0 })
    }

    fn set_qdisc(&mut self, words: &str) -> Result<(), String> {
        SHARED.with(|machine| machine.host().set_qdisc(words)).unwrap_or(Ok(()))
    }

    fn set_route(&mut self, dest: IpAddr, prefix: u8, metrics: &str) -> Result<(), String> {
        let metrics = metrics.parse()?;
        SHARED.with(|machine| machine.host().set_route(dest, prefix, metrics)).unwrap_or(Ok(()))
    }

    fn remove_route(&mut self, dest: IpAddr, prefix: u8) -> Result<(), String> {
        SHARED.with(|machine| machine.host().remove_route(dest, prefix)).unwrap_or(Ok(()))
    }

    fn set_sysctl(&mut self, name: &str, value: &str) -> Result<(), String> {
        let short = name.trim_start_matches("net.ipv4.");
        let path = Path::new(SETTINGS).join(short);
        if short == name || !path.exists() || short == "tcp_congestion_control" {
            // Ours, the host's, or a controller that only the host may choose.
            return SHARED.with(|machine| machine.host().set_sysctl(name, value)).unwrap_or(Ok(()));
        }
        // By a command, as scripts do.
        let done =
            Command::new("sh").args(["-c", "printf %s \"$1\" >\"$2\"", "sh", value]).arg(path).output();
        let done = done.map_err(|e| e.to_string())?;
        if !done.status.success() && short == "tcp_ecn" && matches!(value, "3" | "4" | "5") {
            // Accurate ECN, which kernels before 7.0 do not have, so that no file tells the shared object of it: passed over.
            self.special.store(true, Ordering::SeqCst);
            return Ok(());
        }
        if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).into_owned()) }
    }

    fn counters(&mut self) -> Result<Vec<(String, u64)>, String> {
        let mut all = Vec::new();
        SHARED.with(|machine| {
            machine.counters().each_of_linux(&mut |group, name, value| {
                all.push((format!("{group}{name}"), value));
            });
        });
        Ok(all)
    }

    fn lacks_sysctl(&self, name: &str) -> Option<String> {
        let short = name.trim_start_matches("net.ipv4.");
        let known = Sysctl::knows(name) || Path::new(SETTINGS).join(short).exists();
        (!known).then(|| format!("there is no setting '{name}'"))
    }

    /// Nobody tells the shared object of a device whose MTU changes: such a script is passed over.
    fn set_mtu(&mut self, _: u16) -> Result<(), String> {
        self.special.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// packetdrill takes them from its own thread, which is not the one that makes the calls here: `driver.c` does that.
    fn set_privileges(&mut self, _: Privileges) -> Result<(), String> {
        self.special.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn set_busy(&mut self, _: bool) {
        self.special.store(true, Ordering::SeqCst);
    }

    fn set_drops(&mut self, _: usize) {
        self.special.store(true, Ordering::SeqCst);
    }

    fn complete(&mut self, _: usize) -> usize {
        self.special.store(true, Ordering::SeqCst);
        0
    }

    fn early_info(&mut self, local: SocketAddr, remote: SocketAddr) -> Option<Vec<u8>> {
        SHARED.with(|machine| {
            let id = machine.host().lookup(local, remote)?;
            machine.host().stack().tcp_info(Instant::ZERO, id).ok().map(|info| info.emit().to_vec())
        })?
    }

    fn trace(&mut self, max: usize) -> Vec<Record> {
        let last = |machine: &mut Machine| -> Vec<Record> {
            let records: Vec<Record> = machine.host().stack().trace().records().copied().collect();
            records[records.len().saturating_sub(max)..].to_vec()
        };
        SHARED.with(last).unwrap_or_default()
    }
}
