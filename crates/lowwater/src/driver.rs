//! The loop of the thread that owns a stack and its devices: read, process, hand out, write, wait.
use crate::devices::{Attached, input, output};
use crate::observe::{Direction, Observer};
use crate::registry::Wakes;
use crate::shared::{Inner, Phase, Shared};
use lowwater_core::base::Instant;
use lowwater_core::tcp::State;
use lowwater_os::{BusyPoll, Idle, Poller};
use std::sync::Arc;
use std::task::Waker;

/// Turns in a row in which timers wait because a device still has input: after a stall news comes before timers, yet a
/// flood does not stop time.
const INPUT_FIRST_TURNS: u32 = 64;

/// Whether a device that was just written to is read before the driver sleeps. Bulk data is there by then; where single
/// requests are answered nothing is, and the read that would meet nothing is left out most of the time.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    unasked: u8,
}

impl Answers {
    /// After a read that met nothing, that many are left out.
    const UNASKED: u8 = 15;

    fn asks(&mut self) -> bool {
        let asks = self.unasked == 0;
        self.unasked = self.unasked.saturating_sub(1);
        asks
    }

    fn met(&mut self, something: bool) {
        self.unasked = if something { 0 } else { Self::UNASKED };
    }
}

/// What the driver does after having processed.
enum Next {
    /// There is more to do.
    Go,
    /// Nothing until then.
    Sleep(Instant),
    /// The stack has ended.
    Stop,
}

/// The loop that serves one stack. [`crate::Builder::build`] runs it on a thread of its own;
/// [`crate::Builder::build_driver`] hands it out.
pub struct Driver {
    pub(crate) shared: Arc<Shared>,
    pub(crate) poller: Poller,
    pub(crate) ports: Vec<Attached>,
    pub(crate) observer: Option<Observer>,
    pub(crate) input_first: u32,
    pub(crate) busy_poll: BusyPoll,
    pub(crate) answers: Answers,
    /// The devices were read in this turn: timers come after what has arrived.
    pub(crate) looked: bool,
}

impl Driver {
    /// Serves the stack on the calling thread until [`crate::Stack::shutdown`] has ended, or until all handles are gone and
    /// what they had opened has closed.
    pub fn run(mut self) {
        // Only costs precision where it fails.
        let _ = lowwater_os::poll::precise_timers();
        let mut ready = Vec::new();
        let mut wakes = Wakes::new();
        // The one look at the clock of each turn: timers see the time before the devices were read.
        let mut at = self.shared.clock.now();
        self.read(at);
        loop {
            let next = self.process(at, &mut wakes);
            wakes.drain(..).for_each(Waker::wake);
            let wrote = self.write(at);
            match next {
                Next::Stop => return self.stop(),
                Next::Sleep(until) if !wrote => {
                    let until = self.ports.iter().map(|p| p.wake_at(at)).fold(until, Instant::min);
                    if let Some(now) = self.look_around(until) {
                        at = now;
                        continue;
                    }
                    if self.poller.wait(&self.shared.clock, Some(until), &mut ready).is_err() {
                        return self.stop();
                    }
                }
                Next::Go | Next::Sleep(_) => {}
            }
            at = self.shared.clock.now();
            self.busy_poll.on_something(at);
            self.looked = !wrote || self.ports.iter().any(|p| p.more_input) || self.answers.asks();
            if self.looked {
                let came = self.read(at);
                if wrote {
                    self.answers.met(came);
                }
            }
        }
    }

    /// Reads all devices; true when something has come.
    fn read(&mut self, at: Instant) -> bool {
        let mut came = false;
        for (index, attached) in self.ports.iter_mut().enumerate() {
            came |= attached.read(at);
            if let Some(observe) = &mut self.observer {
                attached.inbox.iter().for_each(|packet| observe(index, Direction::In, packet));
            }
        }
        came
    }

    /// Busy polling: the time once there is something to do, and what has come by then is read; `None` when it is time to
    /// sleep. Other threads that want this processor get it at each look.
    fn look_around(&mut self, until: Instant) -> Option<Instant> {
        if !self.busy_poll.is_on() {
            return None;
        }
        let mut now = self.shared.clock.now();
        while self.busy_poll.on_nothing(now) == Idle::Look {
            std::thread::yield_now();
            now = self.shared.clock.now();
            if self.read(now) || self.poller.take_wake() || now >= until {
                // Every device was read: what is due comes after that.
                self.looked = true;
                self.busy_poll.on_something(now);
                return Some(now);
            }
        }
        None
    }

    fn write(&mut self, at: Instant) -> bool {
        let mut wrote = false;
        for (index, attached) in self.ports.iter_mut().enumerate() {
            if attached.outbox.is_empty()
                || attached.retry_at.is_some_and(|retry| retry > at && retry != Instant::FAR_FUTURE)
            {
                continue;
            }
            wrote |= attached.write(at, self.observer.as_mut().map(|o| (index, o)));
        }
        wrote
    }

    /// The part under the lock: what came in, what is due, what goes out, who is woken.
    fn process(&mut self, at: Instant, wakes: &mut Wakes) -> Next {
        let mut guard = self.shared.lock();
        let inner = &mut *guard;
        inner.asleep = None;
        if let Some(observer) = inner.observer.take() {
            self.observer = observer;
        }
        // A handle may have looked at the clock since.
        let now = at.max(inner.core.now());
        let mut more_input = false;
        for attached in &mut self.ports {
            input(inner, now, attached);
            more_input |= attached.more_input;
        }
        inner.core.flush(now);
        if more_input && self.input_first < INPUT_FIRST_TURNS {
            self.input_first += 1;
        } else if self.looked {
            self.input_first = 0;
            inner.core.handle_timeout(now);
        }
        let ended = end(inner, now);
        let mut collected = false;
        for attached in &mut self.ports {
            collected |= output(inner, now, attached);
        }
        inner.dispatch(now, wakes);
        if ended {
            return Next::Stop;
        }
        if more_input || collected || self.ports.iter().any(Attached::has_news) {
            return Next::Go;
        }
        let mut until = inner.core.next_deadline().unwrap_or(Instant::FAR_FUTURE);
        if let Phase::Draining(end) = inner.phase {
            until = until.min(end);
        }
        let waits = |p: &Attached| inner.core.needs_transmit(p.id) && p.outbox.is_empty();
        if until <= now || self.ports.iter().any(waits) {
            return Next::Go;
        }
        inner.asleep = Some(until);
        Next::Sleep(until)
    }

    /// Nobody is left waiting for a stack that has ended, however it ended.
    fn stop(&mut self) {
        let mut wakes = Wakes::new();
        let mut inner = self.shared.lock();
        if !matches!(inner.phase, Phase::Stopped(_)) {
            inner.phase = Phase::Stopped(inner.registry.len());
        }
        inner.registry.wake_everybody(&mut wakes);
        inner.sets.wake_everybody(&mut wakes);
        wakes.extend(inner.mourners.drain(..));
        drop(inner);
        wakes.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Ends a stack that drains: true when nothing closes in the background any more, or when its time is over.
fn end(inner: &mut Inner, now: Instant) -> bool {
    let Phase::Draining(until) = inner.phase else { return false };
    if inner.background() > 0 && now < until {
        return false;
    }
    let mut aborted = inner.core.abort_orphans(now);
    let held: Vec<_> = inner.registry.ids().collect();
    for id in held {
        // In TIME-WAIT both directions are over: nobody loses anything.
        let over = matches!(inner.core.tcp_state(id), Ok(State::TimeWait | State::Close));
        let ended = inner.core.peer_addr(id).is_ok() && inner.core.abort(now, id).is_ok();
        aborted += usize::from(ended && !over);
    }
    inner.phase = Phase::Stopped(aborted);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::Port;
    use lowwater_core::base::{DeviceId, Duration};
    use lowwater_core::device::{Device, DeviceCaps, Submit};
    use lowwater_core::packet::Packet;
    use std::io;

    #[test]
    fn looking_around_is_looking() {
        let builder = crate::Stack::builder().busy_poll(core::time::Duration::from_secs(1));
        let (_stack, mut driver) = builder.build_driver().unwrap();
        driver.looked = false;
        assert!(driver.look_around(Instant::ZERO).is_some(), "a time that has come ends it at once");
        assert!(driver.looked, "else timers would wait for another turn");
    }

    /// A TUN with a host behind it: what is written is gone, and the driver tells the stack in its next turn.
    struct Written {
        caps: DeviceCaps,
        peer: lowwater_core::stack::Stack,
        packets: Arc<std::sync::atomic::AtomicUsize>,
    }

    impl Device for Written {
        fn submit(&mut self, now: Instant, packet: Packet) -> Submit {
            let bytes = packet.to_bytes();
            self.packets.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
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
                while let Some(id) = read
                    && let Ok(Some(_)) = self.peer.tcp_read_chunk(at, id, usize::MAX)
                {}
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
    }

    /// Packets that a megabyte takes over such a device, and how often the queue-aware limit held it back.
    fn a_megabyte_written(aware: bool, keeps: bool) -> (usize, u64) {
        use lowwater_core::base::Wait;
        use lowwater_core::stack::{Config, ListenAddr, ListenOptions, Stack};
        use lowwater_core::tcp::{SendFlags, SocketOptions};
        let caps = DeviceCaps { keeps, ..DeviceCaps::offloading(1_500) };
        let mut peer = Stack::new(Config::default(), Instant::ZERO);
        let dev = peer.add_device(caps);
        peer.add_address(dev, [10, 0, 0, 2].into(), 24).unwrap();
        let options = SocketOptions::new(peer.sysctl());
        let listen = ListenOptions::new(options.clone());
        peer.tcp_listen(Instant::ZERO, ListenAddr::port(80), listen).unwrap();
        let packets = Arc::default();
        let port = Written { caps, peer, packets: Arc::clone(&packets) };
        let aware = if aware { "1" } else { "0" };
        let builder = crate::Stack::builder().device(port).address("10.0.0.1/24");
        let (_stack, mut driver) = builder.sysctl("tcp_queue_aware", aware).build_driver().unwrap();
        let (mut at, mut wakes) = (driver.shared.clock.now() + Duration::from_secs(1), Wakes::new());
        let connect = |driver: &Driver| {
            let mut inner = driver.shared.lock();
            inner.core.tcp_connect(at, ([10, 0, 0, 2], 80).into(), None, &options).unwrap()
        };
        let id = connect(&driver);
        let mut left = 1_000_000;
        let block = vec![0; 64 << 10];
        while left > 0 || driver.shared.lock().core.queues(id).unwrap().send > 0 {
            // Turns of a driver that has other work.
            at += Duration::from_millis(3);
            let sent = driver.shared.lock().core.tcp_send(
                at,
                id,
                &block[..left.min(block.len())],
                SendFlags::default(),
            );
            left -= sent.unwrap_or(0);
            driver.looked = true;
            driver.read(at);
            driver.process(at, &mut wakes);
            driver.write(at);
        }
        let waits = driver.shared.lock().core.counters().waits(Wait::QueueAware);
        (packets.load(std::sync::atomic::Ordering::Relaxed), waits)
    }

    #[test]
    fn what_is_written_at_once_is_no_queue_though_it_is_told_of_a_turn_later() {
        let (linux, waits) = a_megabyte_written(false, false);
        assert_eq!(waits, 0);
        assert_eq!(a_megabyte_written(true, false), (linux, 0));
        // A device that said that packets wait in it would be believed.
        assert!(a_megabyte_written(true, true).1 > 0);
    }
}
