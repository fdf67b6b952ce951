//! The stack behind the TAPs of the guest, driven by the test itself.
use bytes::Bytes;
use lowwater_core::base::{DeviceId, Duration, Error, Instant, SocketId, Sysctl};
use lowwater_core::device::{Device as _, Submit};
use lowwater_core::packet::Packet;
use lowwater_core::sctp::{AssocInfo, Received, SctpOptions, SendInfo, State};
use lowwater_core::stack::{Config, Stack};
use lowwater_os::netns::{NetNs, net_admin};
use lowwater_os::{Clock, PacketDevice, PacketOptions};
use lowwater_uml::{Guest, present};
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::thread;

pub(crate) const PORT: u16 = 5_000;
/// Frames of one round.
const BUDGET: usize = 64;
/// Patience with a guest that boots and works on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Host {
    clock: Clock,
    pub(crate) stack: Stack,
    devices: Vec<PacketDevice>,
    /// Frames of this link go nowhere, in either direction.
    pub(crate) dark: Option<usize>,
    pub(crate) dropped: usize,
    /// One of so many packets to the guest is lost; 0 for none.
    pub(crate) lose_one_of: u64,
    sent: u64,
}

fn sh(line: &str) {
    let done = Command::new("/bin/sh").args(["-c", line]).status().expect("a shell");
    assert!(done.success(), "{line}");
}

/// Boots a guest that runs the ignored test `role`, joined by `links` TAPs, and runs `host` against it.
pub(crate) fn with_guest(role: &str, links: usize, host: fn(&mut Host)) {
    if !net_admin() || !present() {
        return;
    }
    NetNs::new().unwrap().run(|| {
        let mut guest = Guest::new(&["ipv6", "hmac", "sctp", "sch_netem"]);
        guest.deadline = 2 * PATIENCE;
        for link in 0..links {
            sh(&format!("ip tuntap add dev tap{link} mode tap && ip link set tap{link} addrgenmode none up"));
            guest.args.push(format!("vec{link}:transport=tap,ifname=tap{link},depth=128,gro=1"));
        }
        let program = std::env::current_exe().unwrap();
        thread::scope(|s| {
            let args = [role, "--exact", "--ignored", "--nocapture"];
            let kernel = s.spawn(move || guest.run(&program, &args));
            let mut side = Host::new(links);
            host(&mut side);
            // What the stack still has to say, it says while the guest ends.
            while !kernel.is_finished() {
                side.round();
            }
            if let Err(why) = kernel.join().expect("the thread of the guest") {
                panic!("{why}");
            }
        });
    });
}

/// A stack on these devices that knows nothing.
fn fresh(devices: &[PacketDevice], seed: u64, now: Instant) -> Stack {
    let mut stack = Stack::new(Config { sysctl: Sysctl::default(), seed }, now);
    for (link, device) in devices.iter().enumerate() {
        let dev = stack.add_device(device.caps());
        stack.add_address(dev, IpAddr::from([10, 9, link as u8, 2]), 24).unwrap();
    }
    stack
}

impl Host {
    fn new(links: usize) -> Self {
        let clock = Clock::start();
        let open = |link: usize| {
            let options = PacketOptions { offload: false, ..PacketOptions::new(format!("tap{link}")) };
            PacketDevice::open(&options).unwrap()
        };
        let devices: Vec<PacketDevice> = (0..links).map(open).collect();
        let stack = fresh(&devices, 7, clock.now());
        Self { clock, stack, devices, dark: None, dropped: 0, lose_one_of: 0, sent: 0 }
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Moves what is there to be moved; sleeps for a moment if nothing was.
    fn round(&mut self) {
        let (mut frames, mut owners, mut moved) = (Vec::new(), Vec::new(), false);
        for link in 0..self.devices.len() {
            let dev = DeviceId(link as u16 + 1);
            let now = self.clock.now();
            self.devices[link].recv_batch(now, BUDGET, usize::MAX, &mut frames).unwrap();
            moved |= !frames.is_empty();
            for frame in frames.drain(..) {
                if self.dark == Some(link) {
                    self.dropped += 1;
                } else {
                    self.stack.receive(now, dev, frame);
                }
            }
            self.devices[link].completions(&mut owners);
            for owner in owners.drain(..) {
                self.stack.complete(now, dev, owner);
            }
        }
        let now = self.clock.now();
        self.stack.handle_timeout(now);
        while self.stack.next_event().is_some() {}
        for link in 0..self.devices.len() {
            let (dev, dark) = (DeviceId(link as u16 + 1), self.dark == Some(link));
            if !self.stack.needs_transmit(dev) {
                continue;
            }
            let (device, sent, one_of) = (&mut self.devices[link], &mut self.sent, self.lose_one_of);
            let mut door = |at, packet: Packet| {
                *sent += 1;
                if dark || (one_of > 0 && sent.is_multiple_of(one_of)) {
                    return Submit::Completed;
                }
                device.submit(at, packet)
            };
            let done = self.stack.transmit(now, dev, BUDGET, &mut door);
            self.devices[link].flush();
            if done.stopped {
                self.stack.device_ready(now, dev);
            }
            moved |= done.packets > 0;
            self.dropped += if dark { done.packets } else { 0 };
        }
        if !moved {
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Rounds until `done`; false when `limit` has passed before.
    pub(crate) fn until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.clock.now() + limit;
        while self.clock.now() < end {
            if done(self) {
                return true;
            }
            self.round();
        }
        done(self)
    }

    fn options(&self) -> SctpOptions {
        // The guest boots meanwhile: INITs go out every 300 ms until it listens.
        let mut options = SctpOptions::new(self.stack.sysctl());
        options.max_init_retransmits = 400;
        options.max_init_timeo_ms = 300;
        options
    }

    /// Everything is forgotten, as by a host that was switched off.
    pub(crate) fn forget(&mut self) {
        let now = self.now();
        self.stack = fresh(&self.devices, 8, now);
    }

    pub(crate) fn connect(&mut self) -> SocketId {
        self.connect_from(0)
    }

    pub(crate) fn connect_from(&mut self, local: u16) -> SocketId {
        let end = self.now() + PATIENCE;
        loop {
            let id = self.open(local, PORT);
            self.until(PATIENCE, |h| !matches!(h.state(id), State::CookieWait | State::CookieEchoed));
            if self.state(id) == State::Established {
                return id;
            }
            assert!(self.now() < end, "no association: {:?}", self.info(id));
            // Refused: the guest's network is there and its listener is not yet.
            let now = self.now();
            self.stack.close(now, id).unwrap();
            self.until(Duration::from_millis(100), |_| false);
        }
    }

    pub(crate) fn connect_to(&mut self, port: u16) -> SocketId {
        self.open(0, port)
    }

    fn open(&mut self, local: u16, port: u16) -> SocketId {
        let (now, options) = (self.now(), self.options());
        let remote = SocketAddr::from(([10, 9, 0, 1], port));
        let any = SocketAddr::from(([0, 0, 0, 0], local));
        self.stack.sctp_connect(now, &[remote], &[any], options).unwrap()
    }

    pub(crate) fn listen(&mut self) -> SocketId {
        let (now, options) = (self.now(), self.options());
        self.stack.sctp_listen(now, &[SocketAddr::from(([0, 0, 0, 0], PORT))], 5, options).unwrap()
    }

    pub(crate) fn accept(&mut self, listener: SocketId) -> SocketId {
        let mut id = None;
        self.until(PATIENCE, |h| {
            let now = h.now();
            id = h.stack.sctp_accept(now, listener).ok().map(|(id, _)| id);
            id.is_some()
        });
        id.expect("an association")
    }

    pub(crate) fn info(&self, id: SocketId) -> AssocInfo {
        self.stack.sctp_info(id).unwrap()
    }

    pub(crate) fn state(&self, id: SocketId) -> State {
        self.info(id).state
    }

    pub(crate) fn send(&mut self, id: SocketId, data: &[u8], info: SendInfo) {
        let data = Bytes::copy_from_slice(data);
        let sent = self.until(PATIENCE, |h| {
            let now = h.now();
            match h.stack.sctp_send(now, id, data.clone(), info) {
                Ok(_) => true,
                Err(Error::WouldBlock) => false,
                Err(error) => panic!("{error}: {:?}", h.info(id)),
            }
        });
        assert!(sent, "the buffer stays full: {:?}", self.info(id));
    }

    /// The next whole message.
    pub(crate) fn receive(&mut self, id: SocketId, limit: Duration) -> Vec<u8> {
        let (mut all, mut whole) = (Vec::new(), false);
        self.until(limit, |h| {
            let now = h.now();
            while !whole {
                match h.stack.sctp_recv(now, id, 1 << 20) {
                    Ok(Some(Received::Data { data, eor, .. })) => {
                        all.extend_from_slice(&data);
                        whole = eor;
                    }
                    Ok(Some(Received::Notification(_))) => {}
                    Err(Error::WouldBlock) => break,
                    other => panic!("{other:?} instead of a message: {:?}", h.info(id)),
                }
            }
            whole
        });
        assert!(whole, "no message: {:?}", self.info(id));
        all
    }
}
