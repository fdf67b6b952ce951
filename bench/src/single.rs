//! The stack, its TUN and the application in one thread: the smallest driver there can be.
use crate::pattern::{Sink, Source, WRITE_MAX};
use lowwater_core::base::{DeviceId, Instant, SocketId};
use lowwater_core::packet::Packet;
use lowwater_core::stack::{Config, Event, ListenAddr, ListenOptions, Stack};
use lowwater_core::tcp::{How, SendFlags, SocketOptions};
use lowwater_os::poll::Interest;
use lowwater_os::{BusyPoll, Clock, Idle, KernelWork, Poller, Tun, TunOptions};
use slotmap::SecondaryMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Packets per batch.
const BATCH: usize = 64;
/// A batch ends beyond this many bytes, so that it stays in the cache.
const BATCH_BYTES: usize = 512 * 1_024;

/// Where the kernel does its part: `--work auto|inline|spread|thread` on the command line. Another word ends the process.
#[must_use]
pub fn work() -> KernelWork {
    match crate::args::word("--work").as_deref() {
        Some("thread") => KernelWork::Thread,
        Some("spread") => KernelWork::Spread,
        Some("inline") => KernelWork::Inline,
        Some("auto") | None => KernelWork::default(),
        Some(other) => crate::args::refuse("--work", &"auto, inline, spread or thread", other),
    }
}

/// How long the stack's thread looks at its device before it sleeps: `--busy-poll US`; `None`: it learns that.
#[must_use]
pub fn busy_poll() -> Option<Duration> {
    crate::args::word("--busy-poll")?;
    Some(Duration::from_micros(crate::args::number("--busy-poll", 0, 0, 1_000_000)))
}

/// A stack that looks at its device for so long.
pub fn polling(builder: lowwater::Builder, limit: Option<Duration>) -> lowwater::Builder {
    match limit {
        Some(limit) => builder.busy_poll(limit),
        None => builder,
    }
}

/// What serving took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    /// Processor time of the thread, in seconds.
    pub cpu_s: f64,
    /// How often it slept.
    pub sleeps: u64,
    /// Packets in and out, super-packets as one.
    pub packets: u64,
    /// Allocations of the whole process in that time.
    pub allocations: u64,
    /// Payload bytes that the stack and its device copied in user space, all copies counted.
    pub copied_bytes: u64,
}

/// What runs on the stack. Its thread calls it between packets in and packets out.
pub trait App {
    /// Something happened to a socket.
    fn event(&mut self, stack: &mut Stack, now: Instant, event: &Event);

    /// All events of this turn are told; false ends the serving.
    fn turn(&mut self, stack: &mut Stack, now: Instant) -> bool;
}

/// One thread's world.
pub struct Single {
    stack: Stack,
    tun: Tun,
    dev: DeviceId,
    clock: Clock,
    poller: Poller,
    stop: Arc<AtomicBool>,
    inbox: Vec<Packet>,
    busy_poll: BusyPoll,
    /// How late each wait for a deadline ended, in nanoseconds; room for so many, none by default.
    late_ns: Vec<u64>,
}

/// Processor time of the calling thread, what the kernel does in it included.
#[must_use]
pub fn thread_cpu_s() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

impl Single {
    /// A TUN of this name, the stack's address and the kernel's; the stack listens on port 9.
    ///
    /// # Panics
    /// When the device cannot be made: a benchmark has nothing to do then.
    #[must_use]
    pub fn open(name: &str, own: &str, host: &str, work: KernelWork) -> Self {
        let tun = Tun::open(&TunOptions { work, ..TunOptions::new(name) }).expect("a TUN");
        if let Some(why) = tun.degraded() {
            eprintln!("the kernel works inline: {why}");
        }
        let link = tun.link().expect("the device has a name");
        link.add_address(host.parse::<IpAddr>().expect("an address"), 24)
            .expect("the kernel takes an address");
        link.up().expect("the link comes up");
        let clock = Clock::start();
        let mut stack = Stack::new(Config { seed: 7, ..Config::default() }, clock.now());
        let dev = stack.add_device(tun.caps());
        stack.add_address(dev, own.parse().expect("an address"), 24).expect("a fresh stack takes an address");
        let options = ListenOptions { backlog: 1_024, ask: false, options: nodelay(&stack) };
        stack
            .tcp_listen(clock.now(), ListenAddr { ip: None, port: Some(9) }, options)
            .expect("the port is free");
        let poller = Poller::new().expect("a poller");
        poller.add(&tun, 0, Interest::Read).expect("the poller takes the device");
        Self {
            stack,
            tun,
            dev,
            clock,
            poller,
            stop: Arc::default(),
            inbox: Vec::new(),
            busy_poll: BusyPoll::default(),
            late_ns: Vec::new(),
        }
    }

    /// Notes how late the first `count` waits for a deadline end.
    #[must_use]
    pub fn note_lateness(mut self, count: usize) -> Self {
        self.late_ns = Vec::with_capacity(count);
        self
    }

    /// What was noted, in nanoseconds; empty from now on.
    pub fn lateness(&mut self) -> Vec<u64> {
        core::mem::take(&mut self.late_ns)
    }

    /// Looks at the device for up to `limit` before it sleeps, or for as long as it has learned.
    #[must_use]
    pub fn busy_poll(mut self, limit: Option<Duration>) -> Self {
        self.busy_poll = limit.map_or_else(BusyPoll::learning, BusyPoll::new);
        self
    }

    /// Puts a discipline of this description before the device.
    ///
    /// # Panics
    /// When there is none such.
    #[must_use]
    pub fn qdisc(mut self, text: &str) -> Self {
        self.stack
            .set_qdisc(self.dev, text.parse::<lowwater_core::qdisc::Any>().expect("a discipline"))
            .expect("a device");
        self
    }

    /// The time by the stack's clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// What ends [`Self::serve`].
    pub fn stopper(&self) -> impl Fn() + Send + 'static {
        let (stop, waker) = (self.stop.clone(), self.poller.waker());
        move || {
            stop.store(true, Relaxed);
            waker.wake();
        }
    }

    /// Serves until it is stopped or the application has had enough.
    ///
    /// # Panics
    /// When the device fails.
    pub fn serve(&mut self, app: &mut impl App) -> Used {
        let (cpu, calls) = (thread_cpu_s(), crate::counting::calls());
        let (mut ready, mut sleeps) = (Vec::new(), 0);
        while !self.stop.load(Relaxed) {
            let now = self.clock.now();
            let more =
                self.tun.recv_batch(now, BATCH, BATCH_BYTES, &mut self.inbox).expect("the device lives");
            if !self.inbox.is_empty() {
                self.busy_poll.on_something(now);
            }
            for packet in self.inbox.drain(..) {
                self.stack.receive(now, self.dev, packet);
            }
            self.stack.handle_timeout(now);
            while let Some(event) = self.stack.next_event() {
                app.event(&mut self.stack, now, &event);
            }
            if !app.turn(&mut self.stack, now) {
                break;
            }
            let done = self.stack.transmit(now, self.dev, BATCH, &mut self.tun);
            if done.stopped {
                self.stack.device_ready(now, self.dev);
            }
            if !more && !done.more && !done.stopped {
                let until = self.stack.next_deadline();
                if self.busy_poll.is_on() && self.busy_poll.on_nothing(self.clock.now()) == Idle::Look {
                    std::thread::yield_now();
                    continue;
                }
                sleeps += 1;
                self.poller.wait(&self.clock, until, &mut ready).expect("the poller lives");
                if self.late_ns.len() < self.late_ns.capacity()
                    && let Some(until) = until.filter(|_| ready.is_empty())
                {
                    let woke = self.clock.now();
                    // Woken for another reason, or for a deadline that has moved.
                    if woke >= until {
                        self.late_ns.push(woke.nanos_since(until));
                    }
                }
                ready.clear();
            }
        }
        if std::env::var_os("LOWWATER_BENCH_COUNTERS").is_some() {
            self.stack.counters().each(&mut |group, name, n| {
                if n > 0 {
                    eprintln!("    {group}{name} {n}");
                }
            });
        }
        let count = self.stack.counters();
        Used {
            cpu_s: thread_cpu_s() - cpu,
            sleeps,
            packets: count.ip.in_receives + count.ip.out_requests,
            allocations: crate::counting::calls() - calls,
            copied_bytes: crate::counting::copied_bytes(count) + self.tun.counters().copied_bytes,
        }
    }
}

/// Default options but for TCP_NODELAY, which programs that ask and answer set.
fn nodelay(stack: &Stack) -> SocketOptions {
    SocketOptions { nodelay: true, ..SocketOptions::new(stack.sysctl()) }
}

/// What the stack's side of a bulk transfer does with each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Reads and hashes.
    Discard,
    /// Writes.
    Generate,
}

/// Bulk transfer on any number of connections.
#[derive(Debug)]
pub struct Bulk {
    role: Role,
    sources: SecondaryMap<SocketId, Source>,
    sinks: SecondaryMap<SocketId, Sink>,
    writers: Vec<SocketId>,
}

impl Bulk {
    /// Nothing has crossed yet.
    #[must_use]
    pub fn new(role: Role) -> Self {
        Self { role, sources: SecondaryMap::new(), sinks: SecondaryMap::new(), writers: Vec::new() }
    }

    /// Payload bytes that crossed.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let written: u64 = self.sources.values().map(|source| source.bytes).sum();
        written + self.sinks.values().map(|sink| sink.bytes).sum::<u64>()
    }

    /// What was read, one for each connection.
    #[must_use]
    pub fn into_sinks(self) -> Vec<Sink> {
        self.sinks.into_iter().map(|(_, sink)| sink).collect()
    }

    fn read(&mut self, stack: &mut Stack, now: Instant, id: SocketId) {
        if !self.sinks.contains_key(id) {
            self.sinks.insert(id, Sink::default());
        }
        let sink = &mut self.sinks[id];
        while let Ok(Some(piece)) = stack.tcp_read_chunk(now, id, usize::MAX) {
            sink.read(&piece);
        }
    }

    /// Nagle's algorithm is on, as in iperf3: without it the end of each write would leave alone, in a packet of less than a segment.
    fn accept(&mut self, stack: &mut Stack, now: Instant, id: SocketId) {
        let options = SocketOptions::new(stack.sysctl());
        stack.set_options(now, id, options).expect("an open socket takes the options");
        if self.role == Role::Generate {
            self.sources.insert(id, Source::default());
            self.writers.push(id);
        }
    }
}

impl App for Bulk {
    fn event(&mut self, stack: &mut Stack, now: Instant, event: &Event) {
        match *event {
            Event::Accepted(listener) => {
                while let Ok((id, _)) = stack.tcp_accept(now, listener) {
                    self.accept(stack, now, id);
                }
            }
            Event::Readable(id) => self.read(stack, now, id),
            Event::Writable(id) if self.role == Role::Generate => self.writers.push(id),
            _ => {}
        }
    }

    fn turn(&mut self, stack: &mut Stack, now: Instant) -> bool {
        for id in self.writers.drain(..) {
            let source = &mut self.sources[id];
            loop {
                let mut piece = source.piece();
                if stack.tcp_send_bytes(now, id, &mut piece, SendFlags::default()).is_err() {
                    break;
                }
                source.wrote(WRITE_MAX - piece.len());
            }
        }
        true
    }
}

/// Answers every byte with the same byte, and a FIN with a FIN.
#[derive(Debug, Default)]
pub struct Echo;

impl App for Echo {
    fn event(&mut self, stack: &mut Stack, now: Instant, event: &Event) {
        match *event {
            Event::Accepted(listener) => while let Ok((_, _)) = stack.tcp_accept(now, listener) {},
            Event::Readable(id) => {
                let mut buf = [0; 64];
                loop {
                    match stack.tcp_recv(now, id, &mut buf, false) {
                        Ok(0) => {
                            let _ = stack.close(now, id);
                            break;
                        }
                        Ok(n) => {
                            let _ = stack.tcp_send(now, id, &buf[..n], SendFlags::default());
                        }
                        Err(_) => break,
                    }
                }
            }
            _ => {}
        }
    }

    fn turn(&mut self, _: &mut Stack, _: Instant) -> bool {
        true
    }
}

/// The stack as client of an echo: one byte there and back, again and again, or connections opened and closed.
#[derive(Debug)]
pub struct Asker {
    remote: std::net::SocketAddr,
    connects: bool,
    end: std::time::Instant,
    limit: u64,
    /// Round trips, or connections opened.
    pub done: u64,
    open: Option<SocketId>,
    /// When it had enough; what follows is closing.
    pub over: Option<std::time::Instant>,
}

impl Asker {
    /// Asks `remote` until `end`, or `limit` times.
    #[must_use]
    pub const fn new(
        remote: std::net::SocketAddr,
        connects: bool,
        end: std::time::Instant,
        limit: u64,
    ) -> Self {
        Self { remote, connects, end, limit, done: 0, open: None, over: None }
    }
}

impl App for Asker {
    fn event(&mut self, stack: &mut Stack, now: Instant, event: &Event) {
        match *event {
            Event::Connected(id) if self.connects => {
                let _ = stack.shutdown(now, id, How::Write);
            }
            Event::Connected(id) => {
                let _ = stack.tcp_send(now, id, b"x", SendFlags::default());
            }
            Event::Readable(id) if self.over.is_none() => {
                let mut buf = [0; 64];
                while let Ok(n) = stack.tcp_recv(now, id, &mut buf, false) {
                    self.done += 1;
                    if n == 0 {
                        // The other side has closed in answer.
                        let _ = stack.close(now, id);
                        self.open = None;
                        break;
                    }
                    let _ = stack.tcp_send(now, id, &buf[..n], SendFlags::default());
                }
            }
            _ => {}
        }
    }

    /// At the end everything is closed, so that the other side ends too; the listener is what stays.
    fn turn(&mut self, stack: &mut Stack, now: Instant) -> bool {
        let clock = std::time::Instant::now();
        if self.over.is_none() && (self.done >= self.limit || clock >= self.end) {
            self.over = Some(clock);
        }
        match self.open {
            None if self.over.is_none() => {
                let options = nodelay(stack);
                self.open = stack.tcp_connect(now, self.remote, None, &options).ok();
            }
            Some(id) if self.over.is_some() => {
                let _ = stack.close(now, id);
                self.open = None;
            }
            _ => {}
        }
        self.over.is_none() || stack.open_sockets() > 1
    }
}
