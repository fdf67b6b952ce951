//! The devices of one stack, and what is between each of them and the stack.
use crate::builder::MTU_MIN;
use crate::observe::{Direction, Watch};
use crate::port::{BATCH_PACKETS, Port};
use crate::shared::Inner;
use lowwater_core::base::{DeviceId, Duration, Instant};
use lowwater_core::device::{Device, DeviceCaps, QueueLimit, Submit};
use lowwater_core::packet::{Owner, Packet};
use lowwater_os::Poller;
use std::collections::VecDeque;
use std::io;

/// A device that has not taken over all of a batch is asked again after this long.
const FLUSH_AGAIN: Duration = Duration::from_millis(1);

/// While there is something to do devices are asked for news at this pace: their descriptors tell only whoever waits.
const NEWS_EVERY: Duration = Duration::from_millis(100);

/// What the stack has yet to hear of a device.
#[derive(Default)]
struct Untold {
    gone: bool,
    mtu: Option<u16>,
}

/// In the place of a device that is gone: what it had of the system is given back.
struct Gone(DeviceCaps);

impl Device for Gone {
    fn submit(&mut self, _: Instant, _: Packet) -> Submit {
        Submit::Dropped
    }
}

impl Port for Gone {
    fn caps(&self) -> DeviceCaps {
        self.0
    }
    fn recv(&mut self, _: Instant, _: usize, _: &mut Vec<Packet>) -> io::Result<bool> {
        Ok(false)
    }
    fn attach(&mut self, _: &Poller, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn sends_from_any_thread(&self) -> bool {
        true
    }
}

/// One device with what is between it and the stack.
pub(crate) struct Attached {
    pub(crate) id: DeviceId,
    /// What the port said when it was attached: it is asked once. With the MTU of now.
    caps: DeviceCaps,
    pub(crate) port: Box<dyn Port>,
    /// Received and not yet given to the stack.
    pub(crate) inbox: Vec<Packet>,
    /// Taken from the stack and not yet taken by the device.
    pub(crate) outbox: VecDeque<Packet>,
    /// Owners whose packets have left.
    done: Vec<Owner>,
    /// What the device dropped, with the owners where there are some.
    dropped: Vec<Option<Owner>>,
    /// It met "not now" and is tried again then.
    pub(crate) retry_at: Option<Instant>,
    pub(crate) more_input: bool,
    failed: Option<String>,
    untold: Untold,
    /// The last batch filled the device, and the stack was not told of room since.
    crowded: bool,
}

impl Attached {
    pub(crate) fn new(id: DeviceId, caps: DeviceCaps, port: Box<dyn Port>) -> Self {
        Self {
            id,
            caps,
            port,
            inbox: Vec::new(),
            outbox: VecDeque::new(),
            done: Vec::new(),
            dropped: Vec::new(),
            retry_at: None,
            more_input: false,
            failed: None,
            untold: Untold::default(),
            crowded: false,
        }
    }

    /// True when something has come, a failure included. With `look` there may be news of the device itself.
    fn read(&mut self, at: Instant, look: bool) -> bool {
        self.more_input = false;
        if self.failed.is_some() {
            return false;
        }
        self.hear(look);
        match self.port.recv(at, BATCH_PACKETS, &mut self.inbox) {
            Ok(more) => self.more_input = more,
            Err(e) => {
                (self.failed, self.untold.gone) = (Some(gone(&e)), true);
                // Nothing comes back any more, and nobody shall wait for it.
                self.port.abandon(&mut self.done);
                self.lose_outbox();
                // A descriptor with an error for good, as that of a TUN that was deleted, would end every wait at once.
                self.port = Box::new(Gone(self.caps));
                return true;
            }
        }
        // Reading may have met news as well, of which no descriptor tells again.
        self.hear(false);
        if self.port.needs_flush() {
            self.port.flush();
        }
        self.port.completions(&mut self.done);
        !self.inbox.is_empty() || !self.done.is_empty() || self.untold.mtu.is_some()
    }

    /// Less than IPv4 needs (RFC 791) is not heard: Linux ends IPv4 on such a device.
    fn hear(&mut self, look: bool) {
        if let Some(mtu) = self.port.new_mtu(look).filter(|mtu| *mtu >= MTU_MIN) {
            (self.caps.mtu, self.untold.mtu) = (mtu, Some(mtu));
        }
    }

    /// The stack has yet to hear what became of some packets.
    pub(crate) const fn has_news(&self) -> bool {
        !(self.done.is_empty() && self.dropped.is_empty())
    }

    /// Something was taken out of the queueing discipline that the device, or what it is a door to, has yet to take.
    pub(crate) fn holds_something(&self) -> bool {
        !self.outbox.is_empty() || (self.failed.is_none() && self.port.needs_flush())
    }

    /// What was to leave by a device that is gone is lost, as in a network.
    fn lose_outbox(&mut self) {
        self.done.extend(self.outbox.drain(..).filter_map(|packet| packet.owner));
        self.retry_at = None;
    }

    /// Until when the driver may sleep for this device's sake.
    fn wake_at(&self, at: Instant) -> Instant {
        let works = self.failed.is_none();
        let flush = if works && self.port.needs_flush() { at + FLUSH_AGAIN } else { Instant::FAR_FUTURE };
        // A device that tells nobody of its room is asked again after a batch that filled it, too.
        let room = if works && self.crowded { self.retry_from(at) } else { Instant::FAR_FUTURE };
        self.retry_at.unwrap_or(Instant::FAR_FUTURE).min(flush).min(room)
    }

    /// When a device that had no room is tried again.
    fn retry_from(&self, now: Instant) -> Instant {
        self.port.retry_after().map_or(Instant::FAR_FUTURE, |after| now + after)
    }

    /// Gives the device what it takes; true when it took something.
    fn write(&mut self, now: Instant, (index, watch): (usize, &mut Watch)) -> bool {
        let mut moved = false;
        self.retry_at = None;
        if self.failed.is_some() {
            self.lose_outbox();
            return true;
        }
        while let Some(packet) = self.outbox.pop_front() {
            let owner = packet.owner;
            let seen = watch.is_on().then(|| packet.clone());
            let answer = self.port.submit(now, packet);
            let full = matches!(answer, Submit::Filled);
            let taken = match answer {
                Submit::Sent | Submit::Filled => true,
                Submit::Completed => {
                    self.done.extend(owner);
                    true
                }
                Submit::NotNow(packet) => {
                    self.outbox.push_front(packet);
                    self.retry_at = Some(self.retry_from(now));
                    break;
                }
                // Lost between here and the wire: the stack counts it, and the flow hears of it.
                Submit::Dropped => {
                    self.dropped.push(owner);
                    false
                }
            };
            moved = true;
            if let (true, Some(seen)) = (taken, seen) {
                watch.see(index, Direction::Out, &seen);
            }
            if full && !self.outbox.is_empty() {
                self.retry_at = Some(self.retry_from(now));
                break;
            }
        }
        if moved {
            self.port.flush();
            self.port.completions(&mut self.done);
        }
        moved
    }
}

/// All devices of a stack. One thread at a time serves them: the driver's, or one that sends what it has just written
/// ([`crate::shared::Shared::enter`]).
#[derive(Default)]
pub(crate) struct Devices {
    pub(crate) ports: Vec<Attached>,
    /// Who sees every packet.
    pub(crate) watch: Watch,
    /// Another thread has sent since the driver looked: an answer may come soon.
    pub(crate) sent_beside: bool,
    /// Until when the driver sleeps, as far as it does.
    pub(crate) asleep_until: Instant,
    /// When they are asked for news of themselves.
    pub(crate) news_at: Instant,
}

impl Devices {
    /// Reads all of them; true when something has come.
    pub(crate) fn read(&mut self, at: Instant) -> bool {
        let mut came = false;
        let look = at >= self.news_at;
        if look {
            self.news_at = at + NEWS_EVERY;
        }
        for (index, attached) in self.ports.iter_mut().enumerate() {
            came |= attached.read(at, look);
            if self.watch.is_on() {
                attached.inbox.iter().for_each(|packet| self.watch.see(index, Direction::In, packet));
            }
        }
        came
    }

    /// Gives each of them what it takes; true when one took something.
    pub(crate) fn write(&mut self, at: Instant) -> bool {
        let mut wrote = false;
        for (index, attached) in self.ports.iter_mut().enumerate() {
            if attached.outbox.is_empty()
                || attached.retry_at.is_some_and(|retry| retry > at && retry != Instant::FAR_FUTURE)
            {
                continue;
            }
            wrote |= attached.write(at, (index, &mut self.watch));
        }
        wrote
    }

    /// More may wait in one of them.
    pub(crate) fn have_more_input(&self) -> bool {
        self.ports.iter().any(|p| p.more_input)
    }

    /// Until when the driver may sleep for their sake.
    pub(crate) fn wake_at(&self, at: Instant) -> Instant {
        self.ports.iter().map(|p| p.wake_at(at)).fold(Instant::FAR_FUTURE, Instant::min)
    }

    /// A thread that sends may serve them in the place of the driver: no device minds, and no code of the application sees the packets, which
    /// could wait for what that thread holds.
    pub(crate) fn may_be_served_beside(&self) -> bool {
        !self.watch.is_on() && self.ports.iter().all(|p| p.port.sends_from_any_thread())
    }

    /// Nothing is on its way to one of them or back, and none must be asked again.
    pub(crate) fn are_at_rest(&self, at: Instant) -> bool {
        let rests = |p: &Attached| p.outbox.is_empty() && !p.has_news();
        self.ports.iter().all(rests) && self.wake_at(at) == Instant::FAR_FUTURE
    }
}

/// Why nothing comes from a device any more, in a sentence: what a TUN says that was deleted (`tun_chr_read_iter`) tells nobody.
fn gone(error: &std::io::Error) -> String {
    if error.raw_os_error() == Some(rustix::io::Errno::BADFD.raw_os_error()) {
        return format!("the device is gone: it was deleted, or its network namespace was ({error})");
    }
    error.to_string()
}

/// Input events of one device.
pub(crate) fn input(inner: &mut Inner, now: Instant, attached: &mut Attached) {
    if let Some(why) = &attached.failed
        && inner.failure.is_none()
    {
        inner.failure = Some(why.clone());
    }
    for owner in attached.done.drain(..) {
        inner.core.complete(now, attached.id, owner);
    }
    for owner in attached.dropped.drain(..) {
        inner.core.dropped(now, attached.id, owner);
    }
    let Untold { gone, mtu } = core::mem::take(&mut attached.untold);
    if let Some(mtu) = mtu {
        // Only less than IPv4 needs is refused, which was not heard.
        let _ = inner.core.set_mtu(attached.id, mtu);
    }
    for packet in attached.inbox.drain(..) {
        inner.core.receive(now, attached.id, packet);
    }
    if gone {
        inner.core.lose_device(now, attached.id);
    }
}

/// Takes up to `most` packets for one device, unless the last batch is not gone yet; true when there are some. Where the device is full
/// flows have their turns all the same, so that the queueing discipline sees what waits.
pub(crate) fn output(inner: &mut Inner, now: Instant, attached: &mut Attached, most: usize) -> bool {
    if !attached.outbox.is_empty() {
        return false;
    }
    let all = QueueLimit { packets: usize::MAX, bytes: usize::MAX };
    let mut room = if attached.failed.is_some() { all } else { attached.port.room() };
    if room.packets > 0 && core::mem::take(&mut attached.crowded) {
        inner.core.device_ready(now, attached.id);
    }
    let (outbox, crowded) = (&mut attached.outbox, &mut attached.crowded);
    let mut collect = |_, packet: Packet| {
        if room.packets == 0 {
            *crowded = true;
            return Submit::NotNow(packet);
        }
        let last = packet.len() > room.bytes;
        room.packets = if last { 0 } else { room.packets - 1 };
        room.bytes -= packet.len().min(room.bytes);
        outbox.push_back(packet);
        *crowded = room.packets == 0;
        if *crowded { Submit::Filled } else { Submit::Sent }
    };
    inner.core.transmit(now, attached.id, most, &mut collect);
    !attached.outbox.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use lowwater_core::base::{FlowId, SocketId};
    use lowwater_core::packet::Offload;

    /// Takes two packets, gives none back, and is gone at the second look.
    #[derive(Default)]
    struct Unplugged {
        held: Vec<Owner>,
        looks: u32,
    }

    impl Device for Unplugged {
        fn submit(&mut self, _: Instant, packet: Packet) -> Submit {
            if self.held.len() == 2 {
                return Submit::NotNow(packet);
            }
            self.held.extend(packet.owner);
            Submit::Sent
        }
    }

    impl Port for Unplugged {
        fn caps(&self) -> DeviceCaps {
            panic!("whoever attaches it has asked");
        }
        fn recv(&mut self, _: Instant, _: usize, _: &mut Vec<Packet>) -> io::Result<bool> {
            self.looks += 1;
            if self.looks == 1 { Ok(false) } else { Err(io::Error::other("unplugged")) }
        }
        fn abandon(&mut self, into: &mut Vec<Owner>) {
            into.append(&mut self.held);
        }
        fn room(&self) -> QueueLimit {
            QueueLimit { packets: 2 - self.held.len(), bytes: usize::MAX }
        }
        fn attach(&mut self, _: &Poller, _: u64) -> io::Result<()> {
            Ok(())
        }
    }

    fn packet(charge: u32) -> Packet {
        let owner = Some(Owner::new(FlowId::of(SocketId::default()), charge));
        let bytes = Bytes::from_static(&[0x45; 20]);
        Packet { owner, ..Packet::received(bytes, Offload::default(), Instant::ZERO) }
    }

    #[test]
    fn a_device_that_is_gone_keeps_nobodys_credit() {
        let mut attached =
            Attached::new(DeviceId(1), DeviceCaps::plain(1_400), Box::new(Unplugged::default()));
        assert!(!attached.read(Instant::ZERO, false));
        attached.outbox.extend((0..3).map(packet));
        assert!(attached.write(Instant::ZERO, (0, &mut Watch::default())));
        assert!(attached.done.is_empty() && attached.outbox.len() == 1, "two are out, one waits");
        assert!(attached.read(Instant::ZERO, false) && attached.failed.is_some());
        assert_eq!(attached.port.caps().mtu, 1_400, "it was not asked again");
        let back = |attached: &mut Attached| attached.done.drain(..).map(|o| o.charge).collect::<Vec<_>>();
        assert_eq!(back(&mut attached), [0, 1, 2]);
        // Nor does what comes later.
        attached.outbox.push_back(packet(9));
        assert!(attached.write(Instant::ZERO, (0, &mut Watch::default())));
        assert_eq!(back(&mut attached), [9]);
        assert!(!attached.read(Instant::ZERO, false) && attached.outbox.is_empty());
    }

    /// Hears of MTUs while it reads, as a network interface does that was down.
    struct Heard(Vec<u16>, Option<u16>);

    impl Device for Heard {
        fn submit(&mut self, _: Instant, _: Packet) -> Submit {
            Submit::Sent
        }
    }

    impl Port for Heard {
        fn caps(&self) -> DeviceCaps {
            DeviceCaps::plain(1_500)
        }
        fn recv(&mut self, _: Instant, _: usize, _: &mut Vec<Packet>) -> io::Result<bool> {
            self.1 = self.0.pop();
            Ok(false)
        }
        fn new_mtu(&mut self, _: bool) -> Option<u16> {
            self.1.take()
        }
        fn attach(&mut self, _: &Poller, _: u64) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_mtu_that_reading_has_met_is_told_at_once_and_none_too_small_for_ipv4() {
        let port = Heard(vec![67, 68, 1_400], None);
        let mut attached = Attached::new(DeviceId(1), DeviceCaps::plain(1_500), Box::new(port));
        for (told, now) in [(Some(1_400), 1_400), (Some(68), 68), (None, 68)] {
            assert_eq!(attached.read(Instant::ZERO, false), told.is_some(), "the driver would sleep on it");
            assert_eq!((core::mem::take(&mut attached.untold).mtu, attached.caps.mtu), (told, now));
        }
    }

    /// Full, and nobody hears from it when it no longer is.
    struct Polled;

    impl Device for Polled {
        fn submit(&mut self, _: Instant, _: Packet) -> Submit {
            Submit::Filled
        }
    }

    impl Port for Polled {
        fn caps(&self) -> DeviceCaps {
            DeviceCaps::plain(1_500)
        }
        fn recv(&mut self, _: Instant, _: usize, _: &mut Vec<Packet>) -> io::Result<bool> {
            Ok(false)
        }
        fn attach(&mut self, _: &Poller, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn retry_after(&self) -> Option<Duration> {
            Some(Duration::from_millis(5))
        }
    }

    #[test]
    fn a_full_device_that_tells_nobody_is_asked_again() {
        let mut attached = Attached::new(DeviceId(1), DeviceCaps::plain(1_500), Box::new(Polled));
        let now = Instant::from_millis(7);
        assert_eq!(attached.wake_at(now), Instant::FAR_FUTURE);
        attached.crowded = true;
        assert_eq!(attached.wake_at(now), Instant::from_millis(12));
        attached.failed = Some("gone".to_owned());
        assert_eq!(attached.wake_at(now), Instant::FAR_FUTURE);
    }
}
