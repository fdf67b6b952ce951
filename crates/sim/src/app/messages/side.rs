//! One side of an association: it writes, reads, and ends as its description says.
use super::whim;
use super::{End, Reads, TalkSpec, Writes};
use crate::app::{Io, pattern};
use crate::check::messages::{self, Message, NAME, Way};
use bytes::Bytes;
use lowwater_core::base::{Duration, Error, Instant, SocketId};
use lowwater_core::sctp::{Notification, Outcome, Received, RecvInfo, Reliability, SendInfo};
use std::net::{IpAddr, SocketAddr};

/// A message that is read in parts: the TSN of its first fragment, its identifier, and how much of it has come.
#[derive(Clone, Copy, Debug)]
struct Inside {
    tsn: u32,
    ppid: u32,
    offset: usize,
}

/// What it is to do.
struct Plan {
    writes: Writes,
    reads: Reads,
    end: End,
    may_fail: bool,
}

/// One side.
pub(super) struct Side {
    pub(super) id: SocketId,
    /// The association, and which side this is (0 the client, 1 the server).
    way: Way,
    plan: Plan,
    peers: Vec<IpAddr>,
    /// How many it wrote on in the beginning, and that were added since at the most: what the peer asks for is told twice.
    streams: (u16, u16),
    next: Option<(Bytes, SendInfo)>,
    in_burst: u32,
    write_at: Instant,
    read_at: Instant,
    inside: Option<Inside>,
    /// It has said that it ends.
    closed: bool,
    /// The association is over and the socket given back.
    pub(super) over: bool,
}

impl Side {
    /// Side `which` of the association `spec`, which is up.
    pub(super) fn new(io: &Io<'_>, id: SocketId, spec: &TalkSpec, which: u8) -> Self {
        let (n, stack) = (usize::from(which), io.core.stack());
        let peers = stack.sctp_addrs(id).map(|(_, peers)| peers).unwrap_or_default();
        Self {
            id,
            way: (spec.number.into(), which),
            plan: Plan {
                writes: spec.writes[n],
                reads: spec.reads[n],
                end: spec.end,
                may_fail: spec.may_fail,
            },
            peers: peers.iter().map(SocketAddr::ip).collect(),
            streams: (stack.sctp_info(id).map_or(0, |info| info.streams.0), 0),
            next: None,
            in_burst: 0,
            write_at: io.now,
            read_at: io.now,
            inside: None,
            closed: false,
            over: false,
        }
    }

    /// What the other side writes.
    const fn other(&self) -> Way {
        (self.way.0, 1 - self.way.1)
    }

    /// Does all that can be done now, and asks to be woken for the rest.
    pub(super) fn run(&mut self, io: &mut Io<'_>) {
        if !self.over && self.read_at <= io.now {
            self.read(io);
        }
        if !self.over {
            self.write(io);
        }
        if !self.over && self.read_at > io.now {
            io.wake_at(self.read_at);
        }
    }

    fn write(&mut self, io: &mut Io<'_>) {
        while !self.closed {
            if self.is_time_to_abort(io) {
                self.closed = true;
                return self.abort(io);
            }
            if io.ledger.messages.next(self.way) >= self.plan.writes.count && self.next.is_none() {
                return self.finish(io);
            }
            if self.write_at > io.now {
                return io.wake_at(self.write_at);
            }
            if io.rng.below(1_000) < self.plan.writes.whims.into() {
                whim::act(io, self.id, &self.peers, self.plan.may_fail);
            }
            let (data, info) = self.next.take().unwrap_or_else(|| self.draw(io));
            match io.core.stack_mut().sctp_send(io.now, self.id, data.clone(), info) {
                Ok(_) => self.took(io, &data, &info),
                Err(Error::WouldBlock) => {
                    self.next = Some((data, info));
                    return;
                }
                Err(e) => self.cannot_write(io, e),
            }
        }
    }

    /// A message with the number that comes next.
    fn draw(&self, io: &mut Io<'_>) -> (Bytes, SendInfo) {
        let (rng, w) = (&mut *io.rng, &self.plan.writes);
        let index = io.ledger.messages.next(self.way);
        // Small and large ones are equally likely.
        let len = (w.longest >> rng.below(u64::from(w.longest.max(1).ilog2()) + 1)).max(1);
        let len = 1 + rng.below(len as u64) as usize;
        let mut data = vec![0; len];
        pattern::fill(messages::key(self.way, index), 0, &mut data);
        let percent = |rng: &mut lowwater_core::base::Rng, n: u8| rng.below(100) < n.into();
        let reliability = if percent(rng, w.limited) {
            match rng.below(3) {
                0 => Reliability::Lifetime(Duration::from_millis(1 + rng.below(1_000))),
                1 => Reliability::Retransmissions(rng.below(3) as u32),
                _ => Reliability::Priority(1 + rng.below(5) as u32),
            }
        } else {
            Reliability::Full
        };
        let to = percent(rng, w.addressed).then(|| self.peers[rng.below(self.peers.len() as u64) as usize]);
        let info = SendInfo {
            stream: rng.below(w.streams.max(1).into()) as u16,
            ppid: messages::ppid(self.way, index),
            unordered: percent(rng, w.unordered),
            immediate: percent(rng, 5),
            reliability,
            context: index,
            to,
            more: percent(rng, 3) && self.plan.end.lets_go(self.way.1, index + 1 == w.count),
        };
        (Bytes::from(data), info)
    }

    fn took(&mut self, io: &mut Io<'_>, data: &Bytes, info: &SendInfo) {
        let (stream, unordered, len) = (info.stream, info.unordered, data.len());
        let reliable = info.reliability == Reliability::Full;
        io.ledger.messages.sent(self.way, Message { stream, unordered, len, reliable });
        self.check_bounds(io);
        self.in_burst += 1;
        if self.plan.writes.burst > 0 && self.in_burst >= self.plan.writes.burst {
            self.in_burst = 0;
            self.write_at = io.now.plus_nanos(self.plan.writes.pause_ns);
        }
    }

    /// A buffer holds no more than it may: one message beyond its end is taken, and the window was offered.
    fn check_bounds(&self, io: &mut Io<'_>) {
        let stack = io.core.stack();
        let (Ok(queues), Ok(options)) = (stack.queues(self.id), stack.sctp_options(self.id)) else { return };
        let most = u64::from(options.sndbuf) + self.plan.writes.longest as u64;
        if queues.send > most {
            io.fail(NAME, format!("{:?}: {} bytes are queued, {most} may be", self.way, queues.send));
        }
    }

    fn cannot_write(&mut self, io: &mut Io<'_>, e: Error) {
        match e {
            // A stream that the peer does not have: one of the others.
            Error::Invalid => self.plan.writes.streams = 1,
            // It closes, or is over: what reading says counts.
            Error::BrokenPipe => self.closed = true,
            e => {
                self.closed = true;
                self.broke(io, e);
            }
        }
    }

    fn is_time_to_abort(&self, io: &Io<'_>) -> bool {
        let written = io.ledger.messages.next(self.way);
        match (self.plan.end, self.way.1) {
            (End::ClientAborts(after), 0) | (End::ServerAborts(after), 1) => {
                written >= after.min(self.plan.writes.count)
            }
            _ => false,
        }
    }

    fn abort(&mut self, io: &mut Io<'_>) {
        if io.rng.below(2) == 0 {
            io.core.abort(io.now, self.id);
            self.over = true;
        } else if let Err(e) = io.core.stack_mut().sctp_abort(io.now, self.id, b"enough") {
            self.broke(io, e);
        }
    }

    /// Everything is written.
    fn finish(&mut self, io: &mut Io<'_>) {
        self.closed = true;
        if self.plan.end == End::Release && self.plan.end.shuts(self.way.1) {
            self.over = true;
            return io.core.close(io.now, self.id);
        }
        if self.plan.end.shuts(self.way.1)
            && let Err(e) = io.core.stack_mut().sctp_shutdown(io.now, self.id)
        {
            self.broke(io, e);
        }
    }

    fn read(&mut self, io: &mut Io<'_>) {
        loop {
            let (max, once) = match self.plan.reads {
                Reads::Slowly(bytes, every_ns) => {
                    self.read_at = io.now.plus_nanos(every_ns);
                    (bytes, true)
                }
                _ => (usize::MAX, false),
            };
            if self.plan.reads == Reads::InPlace && self.read_in_place(io) > 0 {
                continue;
            }
            let stack = io.core.stack_mut();
            let got = match self.plan.reads {
                Reads::Pieces => stack.sctp_recv_piece(io.now, self.id),
                _ => stack.sctp_recv(io.now, self.id, max),
            };
            match got {
                Ok(Some(Received::Data { data, info, eor })) => self.judge(io, &data, &info, eor),
                Ok(Some(Received::Notification(n))) => self.hear(io, &n),
                Ok(None) => return self.ended(io),
                Err(Error::WouldBlock) => return,
                Err(e) => return self.broke(io, e),
            }
            if once {
                return;
            }
        }
    }

    fn read_in_place(&mut self, io: &mut Io<'_>) -> usize {
        let mut seen = Vec::new();
        let see = &mut |data: &[u8], info: &RecvInfo, eor| seen.push((data.to_vec(), *info, eor));
        let read = io.core.stack_mut().sctp_read(io.now, self.id, see).unwrap_or(0);
        for (data, info, eor) in seen {
            self.judge(io, &data, &info, eor);
        }
        read
    }

    fn judge(&mut self, io: &mut Io<'_>, data: &[u8], info: &RecvInfo, eor: bool) {
        let before = self.inside.take();
        let goes_on = before.filter(|i| (i.tsn, i.ppid) == (info.tsn, info.ppid));
        let other = self.other();
        if let (Some(torn), None) = (before, goes_on) {
            let result = io.ledger.messages.torn(other, torn.ppid);
            io.ledger.check(NAME, io.now, result);
        }
        let offset = goes_on.map_or(0, |i| i.offset);
        let result = io.ledger.messages.part(other, info, (offset, eor), data);
        io.ledger.check(NAME, io.now, result);
        if !eor {
            self.inside = Some(Inside { tsn: info.tsn, ppid: info.ppid, offset: offset + data.len() });
        }
    }

    fn hear(&mut self, io: &mut Io<'_>, note: &Notification) {
        let ledger = &mut io.ledger.messages;
        if let Some(streams) = messages::cost(note, self.streams) {
            ledger.undone(self.way, &streams);
        }
        match note {
            Notification::StreamChange { outcome: Outcome::Done, outgoing, .. } => {
                self.streams.1 = self.streams.1.saturating_add(*outgoing);
            }
            Notification::Path { address, .. } if !self.peers.contains(address) => self.peers.push(*address),
            Notification::SendFailed(failed) if !failed.sent => {
                let result = ledger.failed(self.way, failed.context, failed.data.len());
                io.ledger.check(NAME, io.now, result);
            }
            _ => {}
        }
    }

    /// The peer has sent everything, and everything that was sent has arrived.
    fn ended(&mut self, io: &mut Io<'_>) {
        if self.plan.end.is_good() {
            io.ledger.messages.complete(self.other());
            // What we have written may still be under way, and be given up.
            if !self.plan.may_fail {
                io.ledger.messages.complete(self.way);
            }
        }
        self.over = true;
        io.core.close(io.now, self.id);
    }

    fn broke(&mut self, io: &mut Io<'_>, e: Error) {
        // Who has heard nothing for too long says so by an ABORT.
        let late = self.plan.may_fail && matches!(e, Error::TimedOut | Error::Reset);
        if self.plan.end.is_good() && !late {
            let (sent, got) = (io.ledger.messages.counts(self.way), io.ledger.messages.counts(self.other()));
            let message =
                format!("{:?} failed: {e}; wrote {sent:?}, read {got:?} (taken, arrived)", self.way);
            io.fail(NAME, message);
        }
        self.over = true;
        io.core.close(io.now, self.id);
    }

    /// How far it got.
    pub(super) fn progress(&self, now: &str) -> String {
        format!(
            "{now}{:?} closed {}, waits with a message {}, end {:?}",
            self.way,
            self.closed,
            self.next.is_some(),
            self.plan.end
        )
    }
}
