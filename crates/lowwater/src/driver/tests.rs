//! When the driver looks at its devices, sleeps, wakes others and tells a hook.
use super::*;
use crate::port::Port;
use crate::registry::Side;
use lowwater_core::base::{DeviceId, Wait};
use lowwater_core::device::{Device, DeviceCaps, Submit};
use lowwater_core::packet::Packet;
use lowwater_core::stack::{Config, ListenAddr, ListenOptions, Stack as Core};
use lowwater_core::tcp::{SendFlags, SocketOptions};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::task::Waker;

/// Turns that any of these takes at the most: what goes on longer has failed.
const TURNS: usize = 100_000;

#[test]
fn looking_around_is_looking() {
    let builder = crate::Stack::builder().busy_poll(core::time::Duration::from_secs(1));
    let (_stack, mut driver) = builder.build_driver().unwrap();
    driver.looked = false;
    let shared = driver.shared.clone();
    let looked = driver.look_around(&shared, Instant::ZERO);
    assert!(looked.is_some(), "a time that has come ends it at once");
    assert!(driver.looked, "else timers would wait for another turn");
}

/// Whether it was asked for news of itself, each time.
struct Asked(Arc<std::sync::Mutex<Vec<bool>>>);

impl Device for Asked {
    fn submit(&mut self, _: Instant, _: Packet) -> Submit {
        Submit::Completed
    }
}

impl Port for Asked {
    fn caps(&self) -> DeviceCaps {
        DeviceCaps::plain(1_500)
    }
    fn recv(&mut self, _: Instant, _: usize, _: &mut Vec<Packet>) -> io::Result<bool> {
        Ok(false)
    }
    fn new_mtu(&mut self, look: bool) -> Option<u16> {
        // Reading asks again for what costs nothing.
        self.0.lock().unwrap().extend(look.then_some(true));
        None
    }
    fn attach(&mut self, _: &Poller, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// However lately it was asked, and whatever else has woken the driver.
#[test]
fn a_device_whose_descriptor_tells_of_news_is_asked_for_them() {
    let asked = Arc::default();
    let builder = crate::Stack::builder().device(Asked(Arc::clone(&asked))).address("10.0.0.1/24");
    let (_stack, mut driver) = builder.build_driver().unwrap();
    let shared = driver.shared.clone();
    for (news, times) in [(None, 0), (Some(false), 0), (Some(true), 1)] {
        shared.devices().news_at = Instant::FAR_FUTURE;
        asked.lock().unwrap().clear();
        let mut ready =
            news.map(|news| Ready { token: 0, readable: true, writable: false, news }).into_iter().collect();
        drop(driver.look(&shared, &mut ready));
        assert_eq!(asked.lock().unwrap().len(), times, "{news:?}");
    }
}

/// A TUN with a host behind it: what is written is gone, and the driver tells the stack in its next turn.
struct Written {
    caps: DeviceCaps,
    peer: Core,
    packets: Arc<AtomicUsize>,
    /// The host's connection.
    theirs: Option<SocketId>,
    /// The host is to reset it.
    resets: Arc<AtomicBool>,
}

impl Device for Written {
    fn submit(&mut self, now: Instant, packet: Packet) -> Submit {
        let bytes = packet.to_bytes();
        self.packets.fetch_add(1, Relaxed);
        self.peer.receive(now, DeviceId(1), Packet::received(bytes, packet.offload, now));
        Submit::Completed
    }
}

impl Port for Written {
    fn caps(&self) -> DeviceCaps {
        self.caps
    }
    fn recv(&mut self, at: Instant, _: usize, into: &mut Vec<Packet>) -> io::Result<bool> {
        self.peer.handle_timeout(at);
        let ids: Vec<_> = std::iter::from_fn(|| self.peer.next_event()).collect();
        for event in ids {
            use lowwater_core::stack::Event::{Accepted, Readable};
            let read = match event {
                Accepted(listener) => self.peer.tcp_accept(at, listener).ok().map(|(id, _)| id),
                Readable(id) => Some(id),
                _ => None,
            };
            self.theirs = self.theirs.or(read);
            while let Some(id) = read
                && let Ok(Some(_)) = self.peer.tcp_read_chunk(at, id, usize::MAX)
            {}
        }
        if let Some(id) = self.theirs
            && self.resets.swap(false, Relaxed)
        {
            self.peer.abort(at, id).expect("it is open");
        }
        let mut answer = |_, packet: Packet| {
            into.push(Packet::received(packet.to_bytes(), packet.offload, at));
            Submit::Completed
        };
        self.peer.transmit(at, DeviceId(1), 64, &mut answer);
        Ok(false)
    }
    fn attach(&mut self, _: &Poller, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn sends_from_any_thread(&self) -> bool {
        true
    }
}

/// A stack with a connection over such a device, and what drives it.
struct Turns {
    driver: Driver,
    id: SocketId,
    at: Instant,
    packets: Arc<AtomicUsize>,
    resets: Arc<AtomicBool>,
    stack: crate::Stack,
}

impl Turns {
    fn new(aware: bool, keeps: bool) -> Self {
        let caps = DeviceCaps { keeps, ..DeviceCaps::offloading(1_500) };
        let mut peer = Core::new(Config::default(), Instant::ZERO);
        let dev = peer.add_device(caps);
        peer.add_address(dev, [10, 0, 0, 2].into(), 24).unwrap();
        let options = SocketOptions::new(peer.sysctl());
        let listen = ListenOptions::new(options.clone());
        peer.tcp_listen(Instant::ZERO, ListenAddr::port(80), listen).unwrap();
        let (packets, resets) = (Arc::default(), Arc::default());
        let port =
            Written { caps, peer, packets: Arc::clone(&packets), theirs: None, resets: Arc::clone(&resets) };
        let aware = if aware { "1" } else { "0" };
        let builder = crate::Stack::builder().device(port).address("10.0.0.1/24");
        let (stack, driver) = builder.sysctl("tcp_queue_aware", aware).build_driver().unwrap();
        let at = driver.shared.clock.now() + Duration::from_secs(1);
        let mut inner = driver.shared.lock();
        let id = inner.core.tcp_connect(at, ([10, 0, 0, 2], 80).into(), None, &options).unwrap();
        drop(inner);
        Self { driver, id, at, packets, resets, stack }
    }

    /// A turn of a driver that has other work; true when it would sleep now.
    fn turn(&mut self) -> bool {
        self.at += Duration::from_millis(3);
        self.driver.looked = true;
        let shared = self.driver.shared.clone();
        let mut devices = shared.devices();
        devices.read(self.at);
        let next = self.driver.process(self.at, &mut devices, &mut Wakes::new());
        let wrote = devices.write(self.at);
        let Next::Sleep(until) = next else { return false };
        devices.asleep_until = until;
        !wrote
    }

    fn send(&self, data: &[u8]) -> usize {
        let mut inner = self.driver.shared.lock();
        inner.core.tcp_send(self.at, self.id, data, SendFlags::default()).unwrap_or(0)
    }

    fn send_queue(&self) -> u64 {
        self.driver.shared.lock().core.queues(self.id).unwrap().send
    }

    fn packets(&self) -> usize {
        self.packets.load(Relaxed)
    }

    /// A call of another thread that sends a byte: packets that it gave to the device itself, and whether it woke the driver.
    fn byte_from_beside(&mut self, brief: bool) -> (usize, bool) {
        let before = self.packets();
        let sent = self.driver.shared.enter(|inner, now, _| {
            inner.brief = brief;
            inner.core.tcp_send(now, self.id, b"x", SendFlags::default())
        });
        assert_eq!(sent, Ok(1));
        (self.packets() - before, self.driver.poller.take_wake())
    }

    fn until_it_sleeps(&mut self) {
        let mut turns = 0..TURNS;
        while !self.turn() || self.send_queue() > 0 {
            turns.next().expect("it sleeps in the end");
        }
    }
}

/// Packets that eight megabytes take over such a device, always with more to send than a turn carries, and how often the queue-aware
/// limit held them back.
fn megabytes_written(aware: bool, keeps: bool) -> (usize, u64) {
    let mut turns = Turns::new(aware, keeps);
    let mut left = 8_000_000;
    let block = vec![0; 256 << 10];
    let mut bound = 0..TURNS;
    while left > 0 || turns.send_queue() > 0 {
        bound.next().expect("all is sent in the end");
        left -= turns.send(&block[..left.min(block.len())]);
        turns.turn();
    }
    let waits = turns.driver.shared.lock().core.counters().waits(Wait::QueueAware);
    (turns.packets(), waits)
}

#[test]
fn who_sends_little_while_the_driver_sleeps_gives_it_to_the_device() {
    let mut turns = Turns::new(false, false);
    turns.until_it_sleeps();
    // The timers of this byte are what the driver sleeps until; those of later bytes are due later.
    assert_eq!(turns.byte_from_beside(true), (1, true), "its timer is news");
    turns.until_it_sleeps();
    assert_eq!(turns.byte_from_beside(true), (1, false));
    assert!(turns.driver.shared.lock().asleep.is_some(), "the driver sleeps on");
    turns.until_it_sleeps();
    assert_eq!(turns.byte_from_beside(false), (0, true), "more than a little is the driver's");
    turns.until_it_sleeps();
    let shared = turns.driver.shared.clone();
    let devices = shared.devices();
    assert_eq!(turns.byte_from_beside(true), (0, true), "somebody else has the devices");
    drop(devices);
    turns.until_it_sleeps();
    assert_eq!(turns.send_queue(), 0);
}

#[test]
fn a_datagram_leaves_in_the_thread_that_sends_it() {
    let mut turns = Turns::new(false, false);
    let socket = crate::UdpSocket::bind_first(&turns.stack, "10.0.0.1:0").expect("a free port");
    let to = ([10, 0, 0, 2], 9).into();
    turns.until_it_sleeps();
    let mut send = |data: &[u8]| {
        let before = turns.packets();
        assert_eq!(socket.try_send_to(data, to).ok(), Some(data.len()));
        (turns.packets() - before, turns.driver.poller.take_wake())
    };
    assert_eq!(send(b"x"), (1, false));
    assert_eq!(send(&[0; 60_000]), (0, true), "more than a little is the driver's");
    assert_eq!(send(b"x"), (0, false), "it was woken for what waits before this one");
}

#[test]
fn what_the_application_sees_is_sent_by_the_driver() {
    let mut turns = Turns::new(false, false);
    let shared = turns.driver.shared.clone();
    turns.until_it_sleeps();
    // On its way to the driver, then there.
    shared.lock().observer = Some(Some(Box::new(|_, _, _| {})));
    assert_eq!(turns.byte_from_beside(true), (0, true));
    turns.until_it_sleeps();
    assert!(shared.devices().watch.observer.is_some());
    assert_eq!(turns.byte_from_beside(true), (0, true));
    shared.lock().observer = Some(None);
    turns.until_it_sleeps();
    turns.byte_from_beside(true);
    turns.until_it_sleeps();
    assert_eq!(turns.byte_from_beside(true), (1, false));
}

/// Whoever is woken, and may send in answer.
struct Woken {
    shared: Arc<Shared>,
    told: std::sync::mpsc::Sender<bool>,
}

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        let free = self.shared.devices.try_lock().is_ok();
        let _ = self.told.send(free);
    }
}

#[test]
fn who_is_woken_before_the_driver_sleeps_finds_the_devices_free() {
    let mut turns = Turns::new(false, false);
    turns.until_it_sleeps();
    let shared = turns.driver.shared.clone();
    let (told, hears) = std::sync::mpsc::channel();
    let waker = Waker::from(Arc::new(Woken { shared: shared.clone(), told }));
    let mut inner = shared.lock();
    inner.registry.insert(turns.id);
    inner.registry.wait(turns.id, Side::Read, &waker, &mut Wakes::new());
    drop(inner);
    // A reset is answered by nothing.
    turns.resets.store(true, Relaxed);
    let free = std::thread::scope(|scope| {
        scope.spawn(|| turns.driver.run());
        let free = hears.recv();
        turns.stack.shutdown_blocking(core::time::Duration::ZERO);
        free
    });
    assert_eq!(free, Ok(true));
}

#[test]
fn a_hook_finds_the_devices_free_and_the_packets_gone() {
    let mut turns = Turns::new(false, false);
    turns.driver.shared.lock().core.trace_changes();
    let (shared, packets) = (turns.driver.shared.clone(), turns.packets.clone());
    let seen = Arc::new(AtomicUsize::new(0));
    let hears = seen.clone();
    turns.driver.told = Some(Told::new(Box::new(move |event| {
        assert!(shared.devices.try_lock().is_ok());
        if matches!(event.what, lowwater_core::base::trace::Ev::State(_, "ESTAB")) {
            hears.store(packets.load(Relaxed), Relaxed);
        }
    })));
    let shared = turns.driver.shared.clone();
    for _ in 0..TURNS {
        if seen.load(Relaxed) > 0 {
            break;
        }
        let (at, devices) = turns.driver.look(&shared, &mut Vec::new());
        let at = at + Duration::from_secs(1);
        let _ = turns.driver.work(at, devices, &mut Wakes::new(), Stint::Whole);
    }
    assert_eq!(seen.load(Relaxed), 2, "SYN, and the ACK of the turn in which it was established");
}

/// A thread finds the driver asleep, and is so slow that this wakes, does the work and sleeps again.
#[test]
fn what_counts_is_until_when_the_driver_sleeps_now() {
    let mut turns = Turns::new(false, false);
    turns.until_it_sleeps();
    let shared = turns.driver.shared.clone();
    let before = shared.lock().asleep.take().expect("it sleeps");
    turns.send(b"x");
    turns.until_it_sleeps();
    let now = shared.lock().asleep.take().expect("it sleeps again");
    assert_ne!(before, now);
    assert!(shared.send_here(&mut Wakes::new()));
    assert_eq!(shared.lock().asleep, Some(now));
}

#[test]
fn what_is_written_at_once_is_no_queue_though_it_is_told_of_a_turn_later() {
    let (linux, waits) = megabytes_written(false, false);
    assert_eq!(waits, 0);
    assert_eq!(megabytes_written(true, false), (linux, 0));
    // A device that said that packets wait in it would be believed.
    assert!(megabytes_written(true, true).1 > 0);
}
