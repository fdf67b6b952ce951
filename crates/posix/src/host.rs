//! A host in virtual time: the stack, its device, the file descriptors and the calls that block.
use crate::block::{Progress, Waiting};
use crate::call::{Call, Fd, Reply};
use crate::device::{Device, Sent};
use crate::files::Files;
use crate::leftovers::Leftovers;
use crate::pipe::Pipes;
use crate::poll::{DATA_READY, WRITE_SPACE};
use crate::sctp::AssocIds;
use crate::timestamping::{Left, Watched};
use bytes::Bytes;
use core::net::{IpAddr, SocketAddr};
use lowwater_core::base::{DeviceId, Duration, Error, Instant, SocketId, Tuple};
use lowwater_core::device::{DeviceCaps, Submit};
use lowwater_core::packet::Packet;
use lowwater_core::stack::{Config, Event, Stack};
use lowwater_core::tcp::{State, TcpInfo};

/// Steps within one move of time after which the stack is taken to spin.
const STEPS_MAX: usize = 1_000_000;

/// What a host is made with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Settings and seed of the stack.
    pub config: Config,
    /// What its device can do.
    pub caps: DeviceCaps,
    /// Packets that the device holds until [`Host::complete`]; `None` for a device that completes at once.
    pub device_room: Option<usize>,
    /// Its addresses with the lengths of their prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Routes through the device: destination, prefix, gateway.
    pub routes: Vec<(IpAddr, u8, Option<IpAddr>)>,
    /// When its time begins.
    pub start: Instant,
    /// The lowest file descriptor.
    pub first_fd: Fd,
    /// What a wall clock shows at [`Instant::ZERO`], counted from 1970: times of packets are told by it (SO_TIMESTAMPING).
    pub epoch: Duration,
    /// Packets of TCP that hold more than so many bytes come in as segments of that size that the device has joined; 0: it joins none.
    pub joined: u16,
    /// Name of the device for SO_BINDTODEVICE; empty for none.
    pub device_name: String,
}

impl Default for Settings {
    /// A device without offloads and an MTU of 1,500, no addresses, time 10 s after the origin, descriptors from 3.
    fn default() -> Self {
        Self {
            config: Config::default(),
            caps: DeviceCaps::plain(1_500),
            device_room: None,
            addresses: Vec::new(),
            routes: Vec::new(),
            start: Instant::from_millis(10_000),
            first_fd: 3,
            epoch: Duration::ZERO,
            joined: 0,
            device_name: String::new(),
        }
    }
}

/// Name of a call that blocks or has blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub(crate) u64);

impl CallId {
    /// A name for a call that something else than a [`Host`] carries out.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// What became of a call at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// It is over.
    Done(Reply),
    /// It blocks; [`Host::take`] has its reply once it is over.
    Blocked(CallId),
}

/// A stack behind one device in virtual time, with file descriptors.
#[derive(Debug)]
pub struct Host {
    pub(crate) stack: Stack,
    pub(crate) dev: DeviceId,
    pub(crate) now: Instant,
    pub(crate) device: Device,
    pub(crate) files: Files,
    pub(crate) pipes: Pipes,
    pub(crate) waiting: Waiting,
    pub(crate) assoc_ids: AssocIds,
    /// Pieces of ended associations that nobody will read.
    pub(crate) dropped: u64,
    pub(crate) epoch: Duration,
    /// Descriptors of connections with something on its way of which the application is to hear.
    pub(crate) watched: Watched,
    /// What closed descriptors left at their ports.
    pub(crate) leftovers: Leftovers,
}

impl Host {
    /// A host.
    ///
    /// # Errors
    /// What the stack says about an address or a route.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let mut stack = Stack::new(settings.config, Instant::ZERO);
        let dev = stack.add_device(settings.caps);
        stack.hear_icmp();
        for (addr, prefix) in settings.addresses {
            stack.add_address(dev, addr, prefix)?;
        }
        for (dest, prefix, via) in settings.routes {
            stack.add_route(dest, prefix, via, dev)?;
        }
        Ok(Self {
            stack,
            dev,
            now: settings.start,
            device: Device::new(settings.device_room, settings.joined, settings.device_name),
            files: Files::new(settings.first_fd.max(0)),
            pipes: Pipes::default(),
            waiting: Waiting::default(),
            assoc_ids: AssocIds::default(),
            dropped: 0,
            leftovers: Leftovers::default(),
            epoch: settings.epoch,
            watched: Watched::default(),
        })
    }

    /// The virtual time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Makes a call, now.
    pub fn call(&mut self, call: Call) -> Started {
        let mut progress = Progress::default();
        let closes = matches!(call, Call::Close { .. });
        let answer = self.attempt(&call, &mut progress);
        self.give_back(&answer, &mut progress);
        let started = match answer {
            Ok(Some(reply)) => Started::Done(reply),
            Err(errno) => Started::Done(Reply::fail(errno)),
            Ok(None) if self.waiting.is_full() => Started::Done(self.may_not_wait(&call, progress)),
            Ok(None) => Started::Blocked(self.wait_on(call, progress)),
        };
        if closes {
            self.end_orphans();
        }
        self.settle();
        started
    }

    /// The reply of a call that had blocked, with the instant at which it was over; `None` while it blocks. Once.
    pub fn take(&mut self, id: CallId) -> Option<(Instant, Reply)> {
        self.waiting.take(id)
    }

    /// The call that was over first among those whose reply was not taken.
    #[must_use]
    pub fn finished(&self) -> Option<CallId> {
        self.waiting.first_finished()
    }

    /// The call has not come back.
    #[must_use]
    pub fn is_blocked(&self, id: CallId) -> bool {
        self.waiting.is_blocked(id)
    }

    /// Ends a blocked call with EINTR, or with what it has done so far, as a signal would.
    pub fn interrupt(&mut self, id: CallId) {
        self.interrupt_blocked(id);
        self.settle();
    }

    /// Gives the device one more address, with a route to the subnet around it.
    ///
    /// # Errors
    /// [`Error::AddressInUse`] where it has it already; [`Error::Invalid`] for what no host may have.
    pub fn add_address(&mut self, addr: IpAddr, prefix: u8) -> Result<(), Error> {
        self.stack.add_address(self.dev, addr, prefix)
    }

    /// A packet comes in, now, from the IP header on.
    pub fn inject(&mut self, packet: Bytes) {
        let offload = self.device.offload_of(&packet);
        let packet = Packet::received(packet, offload, self.now);
        self.stack.receive(self.now, self.dev, packet);
        self.stack.flush(self.now);
        self.settle();
    }

    /// Moves time to `t`, doing everything that is due on the way. An earlier `t` changes nothing.
    pub fn advance_until(&mut self, t: Instant) {
        for _ in 0..STEPS_MAX {
            if !self.step(t) {
                break;
            }
        }
        self.oversleep(t);
    }

    /// Moves time to `t` as a driver does that sleeps too long: what was due before happens only then.
    pub fn oversleep(&mut self, t: Instant) {
        if t > self.now {
            self.now = t;
            self.pass();
        }
    }

    /// The oldest packet that was sent and not taken; else moves time until one is sent, but not beyond `limit`. With `None` the
    /// time stands at the last thing that was due, so a caller that wants `limit` itself advances to it.
    pub fn next_packet(&mut self, limit: Instant) -> Option<Sent> {
        for _ in 0..STEPS_MAX {
            if let Some(sent) = self.device.sent.pop_front() {
                return Some(sent);
            }
            if !self.step(limit) {
                break;
            }
        }
        self.device.sent.pop_front()
    }

    /// The oldest packet that was sent and not taken, without time passing.
    #[must_use]
    pub fn sent(&self) -> Option<&Sent> {
        self.device.sent.front()
    }

    /// When something will happen by itself, a blocked call's timeout included; `None` for never.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        [self.stack.next_deadline(), self.waiting.deadline()].into_iter().flatten().min()
    }

    /// Sets a sysctl by its Linux name, at any time.
    ///
    /// # Errors
    /// One sentence that names the setting and the allowed values.
    pub fn set_sysctl(&mut self, name: &str, value: &str) -> Result<(), String> {
        self.stack.set_sysctl(name, value)
    }

    /// The value of a sysctl as text.
    #[must_use]
    pub fn sysctl(&self, name: &str) -> Option<String> {
        self.stack.sysctl().get(name)
    }

    /// The stack's socket behind a descriptor, where there is one.
    #[must_use]
    pub fn socket_of(&self, fd: Fd) -> Option<SocketId> {
        self.files.sock(fd).ok()?.kind.id()
    }

    /// The connection between two addresses, accepted or not.
    #[must_use]
    pub fn lookup(&self, local: SocketAddr, remote: SocketAddr) -> Option<SocketId> {
        self.stack.tcp_lookup(&Tuple::new(local, remote))
    }

    /// TCP_INFO of a connection that [`Host::lookup`] has found, as whoever holds its descriptor would read it.
    pub fn tcp_info_of(&mut self, now: Instant, id: SocketId) -> Option<TcpInfo> {
        let info = self.stack.tcp_info(now, id).ok()?;
        Some(match self.files.fd_of(id) {
            Some(fd) => self.unanswered(fd, id, info),
            None => info,
        })
    }

    /// The descriptors that are open, in order.
    pub fn open_fds(&self) -> impl Iterator<Item = Fd> {
        self.files.iter().map(|(fd, _)| fd)
    }

    /// Messages and notifications that ended associations left to be read on their sockets and that found no room: more than SO_RCVBUF, or than a thousand of them, waited already.
    #[must_use]
    pub const fn unread_dropped(&self) -> u64 {
        self.dropped
    }

    /// The stack, to look at. Whoever calls socket verbs on it goes around the file descriptors.
    pub const fn stack(&mut self) -> &mut Stack {
        &mut self.stack
    }

    /// Moves to the next thing that is due until `limit`; false when there is none.
    fn step(&mut self, limit: Instant) -> bool {
        self.settle();
        let Some(next) = self.next_deadline().filter(|next| *next <= limit) else { return false };
        self.now = self.now.max(next);
        self.pass();
        true
    }

    /// Everything happens that is due by now: the stack's, then the timeouts of calls.
    fn pass(&mut self) {
        self.stack.handle_timeout(self.now);
        self.settle();
        self.expire_blocked();
        self.settle();
    }

    /// Hands the device what the stack wants sent; true when there was something. What it has taken of connections goes to `left` where
    /// somebody waits to hear of it.
    pub(crate) fn transmit(&mut self, left: &mut Vec<Left>) -> bool {
        if !self.stack.needs_transmit(self.dev) {
            return false;
        }
        let pause = self.device.pauses.pop_front();
        self.now += pause.unwrap_or(Duration::ZERO);
        let watching = !self.watched.is_empty();
        let device = &mut self.device;
        let mut submit = |now: Instant, packet: Packet| {
            let owner = packet.owner.map(|owner| owner.flow.socket);
            let submitted = device.submit(now, packet);
            let taken = watching && !matches!(submitted, Submit::NotNow(_) | Submit::Dropped);
            if let Some(sent) = device.sent.back().filter(|_| taken) {
                device.pieces.take(owner, sent.bytes.clone(), left);
            }
            submitted
        };
        let done = match pause {
            Some(_) => self.stack.transmit_one(self.now, self.dev, &mut submit),
            None => self.stack.transmit(self.now, self.dev, BUDGET, &mut submit),
        };
        done.packets + done.dropped > 0
    }

    /// Tells epoll sets and blocked calls what the stack has to say; true when it had something.
    pub(crate) fn gather_events(&mut self) -> bool {
        let (mut woken, mut over) = (Vec::new(), Vec::new());
        while let Some(event) = self.stack.next_event() {
            let (id, key) = match event {
                // A change of state wakes whoever waits for anything (`sock_def_wakeup`), a FIN among them (`tcp_fin`), but not what comes later.
                Event::Readable(id) if self.has_just_closed(id) => (id, ANY),
                // An error of datagrams is told whoever waits for anything, each anew (`sock_def_error_report`).
                Event::Readable(id) if self.has_just_failed(id) => (id, ANY),
                Event::Readable(id) | Event::Accepted(id) => (id, DATA_READY),
                // So does the acknowledgement of our FIN (`tcp_rcv_state_process`).
                Event::Writable(id) if self.has_just_been_heard(id) => (id, ANY),
                Event::Writable(id) => (id, WRITE_SPACE),
                Event::Connected(id) | Event::Closed(id) | Event::Gone(id) => (id, ANY),
                Event::Incoming { .. } | Event::RequestGone { .. } => continue,
            };
            match event {
                Event::Accepted(_) => self.sctp_adopt(id),
                Event::Readable(_) => self.sctp_note(id),
                Event::Connected(_) => self.sctp_is_up(id),
                _ => {}
            }
            over.extend(matches!(event, Event::Closed(_)).then_some(id));
            woken.push((id, key));
        }
        if woken.is_empty() {
            return false;
        }
        for &(id, key) in &woken {
            if let Some(fd) = self.files.fd_of(id) {
                self.sctp_touch(fd, id);
                self.wake_fd(fd, key);
            }
        }
        let ids: Vec<SocketId> = woken.into_iter().map(|(id, _)| id).collect();
        self.wake_blocked(&ids);
        // Whoever waits for an association has been told how it ended.
        for id in over {
            self.sctp_reap(id);
        }
        true
    }

    /// The peer's FIN has come in its place.
    pub(crate) fn has_peer_closed(&self, id: SocketId) -> bool {
        let state = self.stack.tcp_state(id);
        matches!(state, Ok(State::CloseWait | State::LastAck | State::Closing | State::TimeWait))
    }

    /// The same, and nobody has been told so far.
    fn has_just_closed(&mut self, id: SocketId) -> bool {
        if !self.has_peer_closed(id) {
            return false;
        }
        let sock = self.files.fd_of(id).and_then(|fd| self.files.sock_mut(fd).ok());
        sock.is_none_or(|sock| !core::mem::replace(&mut sock.knobs.past.fin_told, true))
    }

    /// The peer has acknowledged our FIN, and nobody has been told so far.
    fn has_just_been_heard(&mut self, id: SocketId) -> bool {
        if !matches!(self.stack.tcp_state(id), Ok(State::FinWait2 | State::TimeWait)) {
            return false;
        }
        let sock = self.files.fd_of(id).and_then(|fd| self.files.sock_mut(fd).ok());
        sock.is_some_and(|sock| !core::mem::replace(&mut sock.knobs.past.acked_told, true))
    }

    /// An error of a datagram socket has come that nobody has been told of so far.
    fn has_just_failed(&mut self, id: SocketId) -> bool {
        let told = self.stack.udp_errors_told(id);
        if told == 0 {
            return false;
        }
        let sock = self.files.fd_of(id).and_then(|fd| self.files.sock_mut(fd).ok());
        let Some(sock) = sock.filter(|sock| sock.knobs.errors_told != told) else { return false };
        sock.knobs.errors_told = told;
        // It takes the place of the one that the error queue left (`sk_err` is one).
        sock.error = None;
        true
    }
}

/// Packets that the device is handed in one turn: more than a call or a packet lets go, so that no turn ends where a TUN, which takes all that
/// comes, would have throttled no flow.
const BUDGET: usize = 65_535;
/// What every waiter waits for.
pub(crate) const ANY: u32 = 0x0fff_ffff;
