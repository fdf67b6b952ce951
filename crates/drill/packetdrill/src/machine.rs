//! The host under test as packetdrill meets it: calls by the kernel's file descriptors, settings read late, a clock in microseconds.
use crate::device;
use crate::failure::say;
use crate::fds::Fds;
use crate::flags::Flags;
use crate::routes::Routes;
use crate::sysctls::Sysctls;
use bytes::Bytes;
use core::mem;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use lowwater_core::base::Instant;
use lowwater_core::base::counters::Counters;
use lowwater_core::device::DeviceCaps;
use lowwater_posix::abi::{
    F_DUPFD, F_DUPFD_CLOEXEC, MSG_FASTOPEN, SCTP_SOCKOPT_PEELOFF, SCTP_SOCKOPT_PEELOFF_FLAGS, SOL_SCTP,
};
use lowwater_posix::{Call, CallId, Errno, Fd, Host, Name, Privileges, Reply, Settings, Started};
use rustix::thread::{CapabilitySet, capabilities};
use std::time::Duration;

/// Microseconds since 1970 at the origin of the host's time. A constant, so that every run is the same.
pub(crate) const EPOCH_US: u64 = 1_700_000_000_000_000;
/// How far [`Machine::next_packet`] looks: longer than every timer of a silent connection together, keepalive included (2.2 h).
const PATIENCE_NS: u64 = 24 * 3_600 * 1_000_000_000;
/// Things that happen by themselves in that time after which the stack is taken to spin.
const DEADLINES_MAX: usize = 1_000_000;
/// How long packetdrill waits for a call that blocks before it goes on without it.
const AWAITED_NS: u64 = 1_000_000_000;
/// From so long on a command of a script has slept: `sleep 1`, less what the clock was looked at late.
const SLEPT: Duration = Duration::from_millis(950);
/// Where the descriptor stands in what SCTP_SOCKOPT_PEELOFF writes, behind the association's identifier.
const PEELED_AT: usize = 4;
/// Records of the flight recorder that a failed run shows.
const SHOWN: usize = 16;
/// IPv4 and IPv6 protocol number of TCP, and the bits of its flags that tell a SYN from a SYN-ACK.
const TCP: u8 = 6;
const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;

/// The stack, its descriptors and its settings.
#[derive(Debug)]
pub(crate) struct Machine {
    host: Host,
    fds: Fds,
    sysctls: Sysctls,
    routes: Routes,
    /// What `count_children` told when the settings were read last.
    children: Option<u64>,
    /// Tells whether a child process has ended since: a script's shell command.
    count_children: fn() -> u64,
    /// It was said that no packet will ever come.
    said_end: bool,
    /// The process's privileges when the run began.
    effective: CapabilitySet,
    /// See [`Flags::awake`].
    awake: bool,
    /// See [`Flags::untold`].
    untold: bool,
    /// What [`Flags::drawn`] was, less what [`Machine::learn`] has found.
    drawn: [Option<u8>; 2],
    /// Where [`Machine::next_packet`] gives up once: scripts that tests run know when they have waited enough.
    #[cfg(test)]
    horizon: Option<Instant>,
}

/// What a call came to, or that it blocks.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is over.
    Done(Reply),
    /// [`Machine::take`] has the reply later.
    Blocked(Blocked),
}

/// A call that blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocked {
    id: CallId,
    /// Its result will be a descriptor.
    gives_fd: bool,
}

/// A packet that the host has sent.
#[derive(Debug)]
pub(crate) struct Sniffed {
    /// Microseconds since 1970 at which it was sent.
    pub(crate) at_us: u64,
    /// From the IP header on.
    pub(crate) bytes: Bytes,
}

impl Machine {
    /// A host with the addresses of `flags`; `count_children` changes whenever a child process has ended.
    ///
    /// # Errors
    /// What the stack says about an address, as a sentence.
    pub(crate) fn new(flags: &Flags, count_children: fn() -> u64) -> Result<Self, String> {
        let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        let settings = Settings {
            // As the device of a script: no offloads, one segment per packet.
            caps: DeviceCaps::plain(flags.mtu()),
            addresses: flags.addresses(),
            // The device has no link layer, so a gateway would change nothing on the wire.
            routes: any.map(|any| (any, 0, None)).to_vec(),
            epoch: Duration::from_micros(EPOCH_US),
            joined: flags.joined(),
            device_name: device::NAME.to_owned(),
            ..Settings::default()
        };
        let mut host = Host::new(settings).map_err(|e| format!("the stack's addresses: {e}"))?;
        host.stack().set_trace(true);
        let (fds, sysctls) = (Fds::default(), Sysctls::of_namespace());
        Ok(Self {
            host,
            fds,
            sysctls,
            routes: Routes::to(flags.peers()),
            children: None,
            count_children,
            said_end: false,
            effective: effective(),
            awake: flags.awake(),
            untold: flags.untold(),
            drawn: flags.drawn(),
            #[cfg(test)]
            horizon: None,
        })
    }

    /// Makes a call. Descriptors in `call` are the kernel's numbers, and so are those in the reply. With `prompt` the settings are read only
    /// after a command: reading them takes a while, and packetdrill watches whether its second thread sleeps.
    pub(crate) fn call(&mut self, mut call: Call, prompt: bool) -> Outcome {
        self.settings(!prompt && consults_settings(&call));
        if let Call::Bind { addr: Name::Inet(addr), .. } = &call {
            self.learn(addr.ip().to_canonical());
        }
        let gives_fd = match &call {
            Call::Socket { .. } | Call::Accept { .. } | Call::EpollCreate { .. } => true,
            Call::GetsockoptIn { level: SOL_SCTP, name, .. } => {
                matches!(*name, SCTP_SOCKOPT_PEELOFF | SCTP_SOCKOPT_PEELOFF_FLAGS)
            }
            Call::Fcntl { cmd, .. } => matches!(*cmd, F_DUPFD | F_DUPFD_CLOEXEC),
            _ => false,
        };
        let closes = match &call {
            Call::Close { fd } => Some(*fd),
            _ => None,
        };
        self.number_for_host(&mut call);
        let started = self.host.call_as(self.privileges(&call), call);
        // As in Linux the number is free even while close() lingers.
        closes.inspect(|fd| self.fds.release(*fd));
        match started {
            Started::Done(reply) => Outcome::Done(self.number_for_caller(reply, gives_fd)),
            Started::Blocked(id) => Outcome::Blocked(Blocked { id, gives_fd }),
        }
    }

    /// The reply of a call that had blocked, with the microsecond at which it was over.
    pub(crate) fn take(&mut self, blocked: Blocked) -> Option<(u64, Reply)> {
        let (at, reply) = self.host.take(blocked.id)?;
        Some((micros(at), self.number_for_caller(reply, blocked.gives_fd)))
    }

    /// A call that had blocked is over, and nobody has taken its reply.
    pub(crate) fn has_finished(&self) -> bool {
        self.host.finished().is_some()
    }

    /// Lets time pass until the next thing happens by itself; false when nothing ever will.
    pub(crate) fn step(&mut self) -> bool {
        let Some(next) = self.host.next_deadline().filter(|next| *next <= self.patience()) else {
            return false;
        };
        self.host.advance_until(next.max(self.host.now()));
        true
    }

    /// Lets time pass for a call that has blocked, until it is over, at most as long as packetdrill waits.
    pub(crate) fn elapse(&mut self) {
        let limit = self.host.now().plus_nanos(AWAITED_NS);
        for _ in 0..DEADLINES_MAX {
            if self.has_finished() {
                return;
            }
            match self.host.next_deadline().filter(|next| *next <= limit) {
                Some(next) => self.host.advance_until(next.max(self.host.now())),
                None => return self.host.advance_until(limit),
            }
        }
    }

    /// The driving thread was away so long, by the real clock. A command of the script that slept is time for a kernel, too; shorter ones are none,
    /// since a busy machine makes all of them slow, and so are those of a script that has none that sleeps.
    pub(crate) fn slept(&mut self, away: Duration) {
        let slept =
            !self.awake && away >= SLEPT && self.children.is_some_and(|seen| seen != (self.count_children)());
        if slept {
            let tenths = u64::try_from(away.as_millis() / 100).unwrap_or(u64::MAX);
            self.sleep(tenths.saturating_mul(100_000));
        }
    }

    /// Lets so much time pass.
    pub(crate) fn sleep(&mut self, us: u64) {
        self.settings(false);
        self.host.advance_until(self.host.now().plus_nanos(us.saturating_mul(1_000)));
    }

    /// A packet comes in.
    pub(crate) fn inject(&mut self, packet: Bytes) {
        self.settings(is_syn(&packet));
        if self.untold {
            destination(&packet).into_iter().for_each(|ip| self.learn(ip));
        }
        self.host.inject(packet);
    }

    /// What was read from a pipe and found no place goes back into it.
    pub(crate) fn unread(&mut self, fd: Fd, rest: &[u8]) {
        let fd = self.fds.host(fd);
        self.host.unread(fd, rest);
    }

    /// The oldest packet that was sent and not taken; else time passes until one is sent. `None`: never.
    pub(crate) fn next_packet(&mut self) -> Option<Sniffed> {
        self.settings(false);
        let limit = self.patience();
        #[cfg(test)]
        let limit = self.horizon.take().unwrap_or(limit);
        let sent = self.host.next_packet(limit);
        if sent.is_none() && !mem::replace(&mut self.said_end, true) {
            say("nothing is left that could ever send a packet");
        }
        sent.map(|sent| Sniffed { at_us: micros(sent.at), bytes: sent.bytes })
    }

    /// The clock, in microseconds since 1970. Reading it takes a microsecond: packetdrill waits for a time in a loop.
    pub(crate) fn clock(&mut self) -> u64 {
        self.host.advance_until(self.host.now().plus_nanos(1_000));
        micros(self.host.now())
    }

    /// The stack's counters.
    pub(crate) fn counters(&mut self) -> &Counters {
        self.host.stack().counters()
    }

    /// The last records of the flight recorder with their times on the stack's clock, as lines.
    pub(crate) fn last_records(&mut self) -> Vec<String> {
        let records: Vec<_> = self.host.stack().trace().records().collect();
        let shown = &records[records.len().saturating_sub(SHOWN)..];
        let seconds = |at: Instant| {
            let us = at.nanos_since(Instant::ZERO) / 1_000;
            format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
        };
        shown.iter().map(|r| format!("{} {}", seconds(r.at), r.event)).collect()
    }

    /// The end, after which packetdrill's process ends too, or runs its next script.
    pub(crate) fn end(self) {
        self.fds.end();
    }

    /// The next packet is waited for until `limit` only.
    #[cfg(test)]
    pub(crate) const fn set_horizon(&mut self, limit: Instant) {
        self.horizon = Some(limit);
    }

    /// The clock as it stands, in microseconds since 1970.
    #[cfg(test)]
    pub(crate) fn now(&self) -> u64 {
        micros(self.host.now())
    }

    /// The congestion controller is the stack's own, not that of the namespace, which inherits it from the machine.
    #[cfg(test)]
    pub(crate) fn keep_controller(&mut self) {
        self.sysctls.leave_out("tcp_congestion_control");
    }

    /// The host itself.
    #[cfg(test)]
    pub(crate) const fn host(&mut self) -> &mut Host {
        &mut self.host
    }

    /// The descriptor is the host's.
    pub(crate) fn has(&self, fd: Fd) -> bool {
        self.fds.has(fd)
    }

    /// Where it is not told where the stack is, packetdrill draws an address, and the interface has no word for it: it is the one that the script's
    /// first bind() has, or where nobody knows it its first packet. The stack takes it, once in each family.
    fn learn(&mut self, ip: IpAddr) {
        let family = usize::from(ip.is_ipv6());
        let Some(prefix) = self.drawn[family].filter(|_| !ip.is_unspecified()) else { return };
        // What it has already or cannot have is not what is looked for.
        if self.host.add_address(ip, prefix).is_ok() {
            self.drawn[family] = None;
        }
    }

    /// What packetdrill has taken from the calling thread since the run began (cap_set()). What that lacked before it lacks by no doing of the script's.
    fn privileges(&self, call: &Call) -> Privileges {
        if !matches!(call, Call::Bind { .. } | Call::Setsockopt { .. }) {
            return Privileges::ALL;
        }
        let taken = self.effective - effective();
        let left = |one: CapabilitySet| !taken.contains(one);
        Privileges {
            bind_service: left(CapabilitySet::NET_BIND_SERVICE),
            admin: left(CapabilitySet::NET_ADMIN),
            raw: left(CapabilitySet::NET_RAW),
        }
    }

    fn patience(&self) -> Instant {
        self.host.now().plus_nanos(PATIENCE_NS)
    }

    /// Reads the namespace's settings: always where the stack is about to look at many of them, else when a command has run.
    fn settings(&mut self, always: bool) {
        let children = (self.count_children)();
        let commanded = self.children != Some(children);
        if !always && !commanded {
            return;
        }
        self.children = Some(children);
        let host = &mut self.host;
        if commanded {
            let set = |any, metrics| host.set_route(any, 0, metrics);
            self.routes.refresh(set).into_iter().for_each(|line| say(&line));
        }
        for line in self.sysctls.refresh(|name, value| host.set_sysctl(name, value)) {
            say(&line);
        }
    }

    fn number_for_host(&self, call: &mut Call) {
        call.for_each_fd(|fd| *fd = self.fds.host(*fd));
    }

    /// Gives the descriptors of a reply numbers of the kernel; what has none is closed again.
    fn number_for_caller(&mut self, mut reply: Reply, gives_fd: bool) -> Reply {
        if gives_fd
            && let Ok(host) = Fd::try_from(reply.ret)
            && host >= 0
        {
            match self.fds.adopt(host) {
                Some(fd) => reply.ret = fd.into(),
                None => return self.give_up(&[host]),
            }
            // What was peeled off stands in the structure as well (`sctp_peeloff_arg_t`).
            let mut value = Vec::from(mem::take(&mut reply.value));
            if let Some(sd) = value.get_mut(PEELED_AT..PEELED_AT + size_of::<Fd>()) {
                sd.copy_from_slice(&(reply.ret as Fd).to_ne_bytes());
            }
            reply.value = value.into();
        }
        if let Some((read, write)) = reply.pipe {
            reply.pipe = self.fds.adopt_both(read, write);
            if reply.pipe.is_none() {
                return self.give_up(&[read, write]);
            }
        }
        reply
    }

    fn give_up(&mut self, hosts: &[Fd]) -> Reply {
        for fd in hosts {
            self.host.call(Call::Close { fd: *fd });
        }
        Reply::fail(Errno::EMFILE)
    }
}

/// The calling thread's privileges; none where they cannot be asked for.
fn effective() -> CapabilitySet {
    capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective)
}

const fn micros(at: Instant) -> u64 {
    EPOCH_US + at.nanos_since(Instant::ZERO) / 1_000
}

/// Calls at which settings become those of a socket, a listener or a connection.
fn consults_settings(call: &Call) -> bool {
    match call {
        Call::Socket { .. } | Call::Listen { .. } | Call::Connect { .. } => true,
        Call::Send { flags, .. } => flags & MSG_FASTOPEN != 0,
        _ => false,
    }
}

/// Where a packet goes, as far as it is long enough to tell.
fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(packet.get(16..20)?).ok()?)),
        6 => Some(IpAddr::from(<[u8; 16]>::try_from(packet.get(24..40)?).ok()?)),
        _ => None,
    }
}

/// True for a TCP packet with SYN and without ACK, as far as it is long enough to tell.
fn is_syn(packet: &[u8]) -> bool {
    let (protocol, header) = match packet.first().map(|b| (b >> 4, usize::from(b & 0xf) * 4)) {
        Some((4, header)) => (packet.get(9), header),
        Some((6, _)) => (packet.get(6), 40),
        _ => return false,
    };
    let flags = packet.get(header + 13).copied().unwrap_or_default();
    protocol == Some(&TCP) && flags & SYN_ACK == SYN
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU64, Ordering};
    use lowwater_posix::abi::{AF_INET, IPPROTO_SCTP, SCTP_GET_ASSOC_ID_LIST, SOCK_SEQPACKET};

    #[test]
    fn commands_that_are_slow_take_no_time_where_none_sleeps() {
        static CHILDREN: AtomicU64 = AtomicU64::new(0);
        for (script, passes) in [("`sleep 2`", 2_000_000), ("`true`", 0)] {
            let args = ["packetdrill", "x.pkt"].map(str::to_owned);
            let flags = Flags::of_run("", &args, 0, |_| Some(script.to_owned())).unwrap();
            let mut machine = Machine::new(&flags, || CHILDREN.load(Ordering::Relaxed)).unwrap();
            machine.sleep(0);
            let before = machine.now();
            CHILDREN.fetch_add(1, Ordering::Relaxed);
            machine.slept(Duration::from_secs(2));
            assert_eq!(machine.now() - before, passes, "{script}");
        }
    }

    /// The reply of a call that does not block.
    fn done(machine: &mut Machine, call: Call) -> Reply {
        let reply = match machine.call(call, false) {
            Outcome::Done(reply) => reply,
            Outcome::Blocked(blocked) => machine.take(blocked).expect("it goes over loopback").1,
        };
        assert_eq!(reply.errno, None);
        reply
    }

    #[test]
    fn what_is_peeled_off_has_a_number_of_the_kernel() {
        let flags = Flags::of_run("", &["packetdrill".to_owned()], 0, |_| None).unwrap();
        let mut machine = Machine::new(&flags, || 0).unwrap();
        let at = Name::Inet("127.0.0.1:80".parse().unwrap());
        let ty = SOCK_SEQPACKET;
        let [listener, many] = [(); 2].map(|()| {
            done(&mut machine, Call::Socket { domain: AF_INET, ty, protocol: IPPROTO_SCTP }).ret as Fd
        });
        done(&mut machine, Call::Bind { fd: listener, addr: at });
        done(&mut machine, Call::Listen { fd: listener, backlog: 5 });
        for (name, len) in [(SCTP_SOCKOPT_PEELOFF, 8), (SCTP_SOCKOPT_PEELOFF_FLAGS, 12)] {
            done(&mut machine, Call::Connect { fd: many, addr: at });
            let (level, fd) = (SOL_SCTP, many);
            let value = Bytes::from(vec![0; 8]);
            let ids =
                done(&mut machine, Call::GetsockoptIn { fd, level, name: SCTP_GET_ASSOC_ID_LIST, value });
            let mut value = ids.value[4..8].to_vec();
            value.resize(len, 0);
            let value = Bytes::from(value);
            let peeled = done(&mut machine, Call::GetsockoptIn { fd, level, name, value });
            let number = peeled.ret as Fd;
            assert!(machine.has(number), "{number} is the host's own number");
            assert_eq!(peeled.value[4..8], number.to_ne_bytes());
            done(&mut machine, Call::Close { fd: number });
        }
        machine.end();
    }

    #[test]
    fn syns_are_known_by_their_first_bytes() {
        let mut v4 = vec![0_u8; 40];
        (v4[0], v4[9], v4[33]) = (0x45, TCP, SYN);
        assert!(is_syn(&v4));
        v4[33] = SYN_ACK;
        assert!(!is_syn(&v4));
        let mut v6 = vec![0_u8; 60];
        (v6[0], v6[6], v6[53]) = (0x60, TCP, SYN);
        assert!(is_syn(&v6));
        for len in 0..53 {
            assert!(!is_syn(&v6[..len]));
        }
        assert!(!is_syn(&[]));
    }
}
