//! The stack, its TUN and the application in one thread: the smallest driver there can be.
use lowwater_core::base::{DeviceId, SocketId};
use lowwater_core::packet::Packet;
use lowwater_core::stack::{Config, Event, ListenAddr, ListenOptions, Stack};
use lowwater_core::tcp::{SendFlags, SocketOptions};
use lowwater_os::poll::Interest;
use lowwater_os::{Clock, Poller, Tun, TunOptions};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What the stack's side does with each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Reads and hashes.
    Discard,
    /// Writes and hashes.
    Generate,
}

/// What serving took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    /// Processor time of the thread, in seconds.
    pub cpu_s: f64,
    /// Payload bytes that crossed.
    pub bytes: u64,
    /// Packets in and out, super-packets as one.
    pub packets: u64,
    /// Allocations of the whole process in that time.
    pub allocations: u64,
}

fn thread_cpu_s() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// Packets per batch.
const BATCH: usize = 64;

/// One thread's world.
pub struct Single {
    stack: Stack,
    tun: Tun,
    dev: DeviceId,
    clock: Clock,
    poller: Poller,
    stop: Arc<AtomicBool>,
    inbox: Vec<Packet>,
}

impl Single {
    /// A TUN of this name, the stack's address and the kernel's.
    ///
    /// # Panics
    /// When the device cannot be made: a benchmark has nothing to do then.
    #[must_use]
    pub fn open(name: &str, own: &str, host: &str) -> Self {
        let tun = Tun::open(&TunOptions::new(name)).expect("a TUN");
        let link = tun.link().expect("the device has a name");
        link.add_address(host.parse::<IpAddr>().expect("an address"), 24)
            .expect("the kernel takes an address");
        link.up().expect("the link comes up");
        let clock = Clock::start();
        let mut stack = Stack::new(Config { seed: 7, ..Config::default() }, clock.now());
        let dev = stack.add_device(tun.caps());
        stack.add_address(dev, own.parse().expect("an address"), 24).expect("a fresh stack takes an address");
        let options =
            ListenOptions { backlog: 1_024, ask: false, options: SocketOptions::new(stack.sysctl()) };
        stack
            .tcp_listen(clock.now(), ListenAddr { ip: None, port: Some(9) }, options)
            .expect("the port is free");
        let poller = Poller::new().expect("a poller");
        poller.add(&tun, 0, Interest::Read).expect("the poller takes the device");
        Self { stack, tun, dev, clock, poller, stop: Arc::default(), inbox: Vec::new() }
    }

    /// What ends [`Self::serve`].
    pub fn stopper(&self) -> impl Fn() + Send + 'static {
        let (stop, waker) = (self.stop.clone(), self.poller.waker());
        move || {
            stop.store(true, Relaxed);
            waker.wake();
        }
    }

    /// Serves until it is stopped.
    ///
    /// # Panics
    /// When the device fails.
    pub fn serve(&mut self, role: Role) -> Used {
        let (cpu, calls, mut bytes) = (thread_cpu_s(), crate::counting::calls(), 0u64);
        let data = bytes::Bytes::from(vec![0x5a; 262_144]);
        let (mut crc, mut ready, mut writers) = (0u32, Vec::new(), Vec::<SocketId>::new());
        while !self.stop.load(Relaxed) {
            let now = self.clock.now();
            let got = self.tun.recv_batch(&self.clock, BATCH, &mut self.inbox).expect("the device lives");
            for packet in self.inbox.drain(..) {
                self.stack.receive(now, self.dev, packet);
            }
            self.stack.handle_timeout(now);
            while let Some(event) = self.stack.next_event() {
                match event {
                    Event::Accepted(listener) => {
                        while let Ok((id, _)) = self.stack.tcp_accept(now, listener) {
                            if role == Role::Generate {
                                writers.push(id);
                            }
                        }
                    }
                    Event::Readable(id) => {
                        while let Ok(Some(piece)) = self.stack.tcp_read_chunk(now, id, usize::MAX) {
                            crc = crc32c::crc32c_append(crc, &piece);
                            bytes += piece.len() as u64;
                        }
                    }
                    Event::Writable(id) => writers.push(id),
                    _ => {}
                }
            }
            for id in writers.drain(..) {
                loop {
                    let mut piece = data.clone();
                    if role != Role::Generate
                        || self.stack.tcp_send_bytes(now, id, &mut piece, SendFlags::default()).is_err()
                    {
                        break;
                    }
                    crc = crc32c::crc32c_append(crc, &data[..data.len() - piece.len()]);
                    bytes += (data.len() - piece.len()) as u64;
                }
            }
            let done = self.stack.transmit(now, self.dev, BATCH, &mut self.tun);
            if done.stopped {
                self.stack.device_ready(now, self.dev);
            }
            if got == 0 && !done.more && !done.stopped {
                let until = self.stack.next_deadline();
                self.poller.wait(&self.clock, until, &mut ready).expect("the poller lives");
                ready.clear();
            }
        }
        std::hint::black_box(crc);
        if std::env::var_os("LOWWATER_BENCH_COUNTERS").is_some() {
            self.stack.counters().each(&mut |group, name, n| {
                if n > 0 {
                    eprintln!("    {group}{name} {n}");
                }
            });
        }
        let count = &self.stack.counters().ip;
        Used {
            cpu_s: thread_cpu_s() - cpu,
            bytes,
            packets: count.in_receives + count.out_requests,
            allocations: crate::counting::calls() - calls,
        }
    }
}
