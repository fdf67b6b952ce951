//! The stack behind the TAPs of the guest, or behind a pair of veths, driven by the test itself.
use crate::air::Air;
use crate::capture::Capture;
use crate::peer::{Program, Sums, UNORDERED};
use bytes::Bytes;
use lowwater_core::base::{DeviceId, Duration, Error, Instant, SocketId, Sysctl};
use lowwater_core::device::{Device as _, Submit};
use lowwater_core::packet::Packet;
use lowwater_core::sctp::{AssocInfo, Received, Reconfigurable, SctpOptions, SendInfo, State};
use lowwater_core::stack::{Config, Stack};
use lowwater_os::netns::{NetNs, net_admin};
use lowwater_os::{Clock, PacketDevice, PacketOptions};
use lowwater_uml::{Guest, present};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// A frame that is longer than this has a message of [`crate::paths`] in it.
const MESSAGE_MIN: usize = 400;
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
    /// Frames of a full message that came by each link.
    pub(crate) heard: Vec<usize>,
    air: Option<Air>,
    capture: Capture,
    setting: Setting,
}

/// The network of a run, and what the peer does in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Links between the two, each with an address of both families on both sides.
    pub(crate) links: u8,
    /// The peer's packets are late by 50 ms, out of order, and one in a hundred is lost: netem's work in a guest, the test's own
    /// where the host's kernel has none.
    pub(crate) bad: bool,
    /// Everything goes over UDP.
    pub(crate) udp: bool,
    /// Associations are opened over IPv6.
    pub(crate) v6: bool,
    /// What `peer.c` is told to do.
    pub(crate) role: &'static str,
}

/// What the guest calls its links, with their numbers.
const GUEST_LINK: &str = "vec";

/// Our ends of the links to a peer on the host.
const HOST_LINK: &str = "our";

/// UDP port of SCTP on both sides.
const UDP_PORT: u16 = 9_899;

impl Setting {
    /// One link, IPv4, no UDP.
    pub(crate) const fn new(role: &'static str) -> Self {
        Self { links: 1, bad: false, udp: false, v6: false, role }
    }

    /// The script of the peer's machine, whose links are called `NAME0` and so on.
    fn script(&self, link_name: &str, program: &Path) -> String {
        let mut out = String::from("set -e\nip link set lo up\n");
        for link in 0..self.links {
            let (dev, v4, v6) = (format!("{link_name}{link}"), ip(link, 1), ip6(link, 1));
            let _ = writeln!(
                out,
                "ip addr add {v4}/24 dev {dev}; ip addr add {v6}/64 dev {dev} nodad; ip link set {dev} up"
            );
            if self.bad && link_name == GUEST_LINK {
                let _ = writeln!(out, "tc qdisc add dev {dev} root netem limit 10000 delay 50ms 5ms loss 1%");
            }
        }
        // What closes last is lost as anything else: there must be somebody who can be asked again.
        let linger = if self.bad { "LINGER=1 " } else { "" };
        let _ = writeln!(out, "{linger}exec {} {}", program.display(), self.role);
        out
    }
}

/// Address of the peer (1) or ours (2) on a link.
pub(crate) fn ip(link: u8, host: u8) -> IpAddr {
    IpAddr::from([10, 9, link, host])
}

/// The same of IPv6.
pub(crate) fn ip6(link: u8, host: u8) -> IpAddr {
    Ipv6Addr::new(0xfd09, link.into(), 0, 0, 0, 0, 0, host.into()).into()
}

fn sh(line: &str) {
    let done = Command::new("/bin/sh").args(["-c", line]).status().expect("a shell");
    assert!(done.success(), "{line}");
}

/// Boots a guest that is a peer in this setting, runs `host` against it, and gives back what the peer printed, or nothing where there can be no
/// guest. All that crossed is well formed.
pub(crate) fn with_guest(setting: Setting, host: impl FnOnce(&mut Host) + Send) -> Option<String> {
    if !net_admin() || !present() {
        return None;
    }
    let name = thread::current().name().unwrap_or("sctp").to_owned();
    let program = Program::compile("peer.c", &name, &[]);
    NetNs::new().unwrap().run(|| {
        let mut guest = Guest::new(&["ipv6", "hmac", "sctp", "sch_netem"]);
        // The peer is as silent as its test.
        guest.silence = 2 * PATIENCE;
        for link in 0..setting.links {
            sh(&format!("ip tuntap add dev tap{link} mode tap && ip link set tap{link} addrgenmode none up"));
            guest.args.push(format!("vec{link}:transport=tap,ifname=tap{link},depth=128,gro=1"));
        }
        let mut script = String::from(
            "echo 4194304 >/proc/sys/net/core/wmem_max; echo 1000 >/proc/sys/net/sctp/hb_interval\n\
             echo 1 >/proc/sys/net/sctp/reconf_enable\n",
        );
        if setting.udp {
            // What Linux 6.1 cuts from a super-packet of SCTP over UDP does not all arrive at its device: it shall make none.
            for link in 0..setting.links {
                let _ = writeln!(script, "ip link set dev vec{link} gso_max_size 1500");
            }
            for name in ["udp_port", "encap_port"] {
                let _ = writeln!(script, "echo {UDP_PORT} >/proc/sys/net/sctp/{name}");
            }
        }
        script.push_str(&setting.script(GUEST_LINK, &program.path()));
        let guest = move || guest.run(Path::new("/bin/sh"), &["-c", &script]);
        Some(beside(setting, &name, "tap", guest, host))
    })
}

/// The same with usrsctp as the peer, in the namespace itself and over UDP.
pub(crate) fn with_usrsctp(setting: Setting, host: impl FnOnce(&mut Host) + Send) -> Option<String> {
    if !net_admin() {
        return None;
    }
    if !Path::new("/usr/include/usrsctp.h").is_file() {
        assert!(std::env::var_os("LOWWATER_REQUIRE_NET").is_none_or(|v| v != "1"), "needs libusrsctp-dev");
        eprintln!("skipped: needs libusrsctp-dev");
        return None;
    }
    let name = thread::current().name().unwrap_or("sctp").to_owned();
    let program = Program::compile("peer.c", &name, &["-DUSRSCTP", "-lusrsctp", "-lpthread"]);
    NetNs::new().unwrap().run(|| {
        for link in 0..setting.links {
            sh(&format!("ip link add veth{link} type veth peer name {HOST_LINK}{link}"));
            sh(&format!("ip link set {HOST_LINK}{link} addrgenmode none up"));
            // UDP with finished checksums: there is no device that would finish them.
            sh(&format!("ethtool -K veth{link} tx off >/dev/null"));
        }
        let script = setting.script("veth", &program.path());
        let peer = move || {
            let mut command = Command::new("timeout");
            command.args(["240", "/bin/sh", "-c", &script]).stdin(Stdio::null());
            let output = command.output().map_err(|e| e.to_string())?;
            let (out, err) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
            output.status.success().then(|| String::from_utf8_lossy(&out).into_owned()).ok_or(err)
        };
        Some(beside(setting, &name, HOST_LINK, peer, host))
    })
}

/// Runs the peer on a thread of its own and `host` on a stack beside it.
fn beside(
    setting: Setting,
    name: &str,
    link_name: &str,
    peer: impl FnOnce() -> Result<String, String> + Send,
    host: impl FnOnce(&mut Host),
) -> String {
    thread::scope(|s| {
        let peer = s.spawn(peer);
        let mut side = Host::new(setting, link_name);
        let outcome = catch_unwind(AssertUnwindSafe(|| host(&mut side)));
        // What the stack still has to say, it says while the peer ends. One that has failed may know why.
        let patience = if outcome.is_ok() { 2 * PATIENCE } else { Duration::from_secs(5) };
        side.until(patience, |_| peer.is_finished());
        if let Err(panic) = outcome {
            if peer.is_finished() {
                eprintln!("the peer: {:?}", peer.join());
            }
            resume_unwind(panic);
        }
        let said = peer.join().expect("the thread of the peer").unwrap_or_else(|why| panic!("{why}"));
        side.capture.check(name, setting.udp);
        said
    })
}

impl Drop for Host {
    /// What crossed in a run that failed is kept.
    fn drop(&mut self) {
        if thread::panicking() {
            self.capture.keep();
        }
    }
}

/// A stack on these devices that knows nothing.
fn fresh(devices: &[PacketDevice], setting: Setting, seed: u64, now: Instant) -> Stack {
    let mut sysctl = Sysctl { sctp_reconf_enable: true, ..Sysctl::default() };
    if setting.udp {
        (sysctl.sctp_udp_port, sysctl.sctp_encap_port) = (UDP_PORT.into(), UDP_PORT.into());
    }
    let mut stack = Stack::new(Config { sysctl, seed }, now);
    for (link, device) in devices.iter().enumerate() {
        let dev = stack.add_device(device.caps());
        stack.add_address(dev, ip(link as u8, 2), 24).unwrap();
        stack.add_address(dev, ip6(link as u8, 2), 64).unwrap();
    }
    stack
}

impl Host {
    fn new(setting: Setting, link_name: &str) -> Self {
        let clock = Clock::start();
        let open = |link: u8| {
            let options =
                PacketOptions { offload: false, ..PacketOptions::new(format!("{link_name}{link}")) };
            PacketDevice::open(&options).unwrap()
        };
        let devices: Vec<PacketDevice> = (0..setting.links).map(open).collect();
        let stack = fresh(&devices, setting, 7, clock.now());
        let capture = Capture::new();
        let air = (setting.bad && link_name == HOST_LINK).then(Air::new);
        let heard = vec![0; setting.links.into()];
        Self {
            clock,
            stack,
            devices,
            dark: None,
            dropped: 0,
            lose_one_of: 0,
            sent: 0,
            heard,
            air,
            capture,
            setting,
        }
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
                self.capture.note(now.as_micros(), &frame.to_bytes());
                if self.dark == Some(link) {
                    self.dropped += 1;
                    continue;
                }
                self.heard[link] += usize::from(frame.len() > MESSAGE_MIN);
                match &mut self.air {
                    Some(air) => air.put(now, dev, frame),
                    None => self.stack.receive(now, dev, frame),
                }
            }
            self.devices[link].completions(&mut owners);
            for owner in owners.drain(..) {
                self.stack.complete(now, dev, owner);
            }
        }
        let now = self.clock.now();
        while let Some((dev, frame)) = self.air.as_mut().and_then(|air| air.take(now)) {
            self.stack.receive(now, dev, frame);
        }
        self.stack.handle_timeout(now);
        while self.stack.next_event().is_some() {}
        for link in 0..self.devices.len() {
            let (dev, dark) = (DeviceId(link as u16 + 1), self.dark == Some(link));
            if !self.stack.needs_transmit(dev) {
                continue;
            }
            let (device, sent, one_of) = (&mut self.devices[link], &mut self.sent, self.lose_one_of);
            let capture = &mut self.capture;
            let mut door = |at: Instant, packet: Packet| {
                *sent += 1;
                capture.note(at.as_micros(), &packet.to_bytes());
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
        // The guest boots meanwhile: after the first timeout INITs go out every 300 ms until it listens.
        let mut options = SctpOptions::new(self.stack.sysctl());
        options.max_init_retransmits = 400;
        options.max_init_timeo_ms = 300;
        options.reconfigurable = Reconfigurable::ALL;
        options
    }

    /// Everything is forgotten, as by a host that was switched off.
    pub(crate) fn forget(&mut self) {
        let now = self.now();
        self.stack = fresh(&self.devices, self.setting, 8, now);
    }

    /// An association with the peer's first address, which may need some time until it listens.
    pub(crate) fn connect(&mut self) -> SocketId {
        self.connect_from(&[], 0)
    }

    /// The same from this port and these addresses of ours; none for all that fit.
    pub(crate) fn connect_from(&mut self, locals: &[IpAddr], port: u16) -> SocketId {
        let end = self.now() + PATIENCE;
        loop {
            let id = self.open(locals, port, PORT);
            self.until(PATIENCE, |h| !matches!(h.state(id), State::CookieWait | State::CookieEchoed));
            if self.state(id) == State::Established {
                return id;
            }
            assert!(self.now() < end, "no association: {:?}", self.info(id));
            // Refused: the peer's network is there and its listener is not yet.
            let now = self.now();
            self.stack.close(now, id).unwrap();
            self.until(Duration::from_millis(100), |_| false);
        }
    }

    pub(crate) fn open(&mut self, locals: &[IpAddr], local: u16, port: u16) -> SocketId {
        let (now, options) = (self.now(), self.options());
        let remote = if self.setting.v6 { ip6(0, 1) } else { ip(0, 1) };
        let mut from: Vec<SocketAddr> = locals.iter().map(|ip| SocketAddr::new(*ip, local)).collect();
        if from.is_empty() {
            from.push(SocketAddr::from(([0, 0, 0, 0], local)));
        }
        self.stack.sctp_connect(now, &[SocketAddr::new(remote, port)], &from, options).unwrap()
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

    /// Sends these messages, says how many there are, and compares what the peer has added up.
    pub(crate) fn send_all(&mut self, id: SocketId, messages: &[(u16, Vec<u8>)]) {
        let mut sums = Sums::default();
        for (word, data) in messages {
            self.send_one(id, *word, data);
            sums.add(data, false);
        }
        self.settle(id, messages.len(), &sums);
    }

    /// Sends a message the way that its first half-word says.
    pub(crate) fn send_one(&mut self, id: SocketId, word: u16, data: &[u8]) {
        self.send(id, data, way(word));
    }

    /// The end of [`Self::send_all`].
    pub(crate) fn settle(&mut self, id: SocketId, count: usize, sums: &Sums) {
        self.send(id, format!("done {count}").as_bytes(), way(0));
        let answer = self.receive(id, PATIENCE);
        assert_eq!(String::from_utf8_lossy(&answer), sums.to_text());
    }

    /// Reads as many messages as the peer says there are, in whatever order they come, and answers with the sums.
    pub(crate) fn answer(&mut self, id: SocketId) {
        let (mut sums, mut wanted, mut had) = (Sums::default(), usize::MAX, 0);
        while had < wanted {
            let data = self.receive(id, PATIENCE);
            if let Some(count) = data.strip_prefix(b"done ") {
                wanted = String::from_utf8_lossy(count).parse().expect("a number");
            } else {
                sums.add(&data, true);
                had += 1;
            }
        }
        self.send(id, sums.to_text().as_bytes(), way(0));
    }

    /// Waits for the association's end.
    pub(crate) fn closed(&mut self, id: SocketId) {
        let closed = self.until(Duration::from_secs(60), |h| h.state(id) == State::Closed);
        assert!(closed, "{:?}", self.info(id));
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

/// How a message goes whose first half-word is this.
fn way(word: u16) -> SendInfo {
    SendInfo { stream: word & !UNORDERED, unordered: word & UNORDERED != 0, ..SendInfo::default() }
}
