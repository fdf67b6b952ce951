//! One association between the hosts: messages that say their number, and what became of each.
use super::net::{A, B, LINKS, Net, Spec, address};
use crate::check::Broken;
use bytes::{BufMut as _, Bytes, BytesMut};
use lowwater_core::base::{Duration, Error, Instant, SocketId};
use lowwater_core::sctp::{PathState, Received, SctpOptions, SendInfo};
use std::net::SocketAddr;

/// Where B listens.
const PORT: u16 = 5_001;
/// Time for the handshake and the confirmation of both paths.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a message's number; the least that a message has.
pub(super) const NUMBER: usize = 8;

/// What was sent and what came.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// When message n was sent.
    sent: Vec<Instant>,
    /// The number that must come next.
    next: u64,
    /// User data that came.
    pub(super) bytes: u64,
    /// Messages that came again.
    pub(super) duplicated: u64,
    /// Numbers that were left out.
    skipped: u64,
    /// When each message that came was sent and how long it took, in the order of coming.
    pub(super) delays: Vec<(Instant, Duration)>,
}

impl Account {
    fn note(&mut self, now: Instant, data: &[u8]) -> Result<(), Broken> {
        let number = data.first_chunk().map(|b| u64::from_be_bytes(*b));
        let sent = number.and_then(|n| Some((n, *self.sent.get(usize::try_from(n).ok()?)?)));
        let right = |&(number, _): &(u64, Instant)| data[NUMBER..].iter().all(|b| *b == fill(number));
        let Some((number, sent)) = sent.filter(right) else {
            let message = format!("the message in place of number {} is none that was sent", self.next);
            return Err(Broken { checker: "messages", at: now, message });
        };
        self.bytes += data.len() as u64;
        if number < self.next {
            self.duplicated += 1;
            return Ok(());
        }
        self.skipped += number - self.next;
        self.next = number + 1;
        self.delays.push((sent, now.since(sent)));
        Ok(())
    }

    /// Messages sent, and those that never came.
    pub(super) fn lost(&self) -> (u64, u64) {
        let sent = self.sent.len() as u64;
        (sent, self.skipped + (sent - self.next))
    }
}

/// The byte that fills message `number`.
const fn fill(number: u64) -> u8 {
    number as u8 ^ 0x5a
}

/// What is said.
pub(super) struct Traffic {
    /// Bytes of a message, [`NUMBER`] at the least.
    pub(super) message: usize,
    /// Time between messages; zero for as many as fit.
    pub(super) every: Duration,
    /// SO_SNDBUF and SO_RCVBUF of both sides; 0 leaves the defaults.
    pub(super) buffer: u32,
}

/// The hosts with their association.
pub(super) struct Talk {
    pub(super) net: Net,
    pub(super) account: Account,
    pub(super) a: SocketId,
    b: SocketId,
    message: usize,
    /// Time between messages; zero for as many as fit.
    every: Duration,
    /// When the next one is written.
    write_at: Instant,
}

impl Talk {
    /// Opens the association and waits until both paths are known to work.
    pub(super) fn open(spec: &Spec<'_>, traffic: &Traffic) -> Result<Self, Broken> {
        let mut net = Net::new(spec);
        let mut options = SctpOptions { nodelay: true, ..SctpOptions::new(spec.sysctl) };
        if traffic.buffer > 0 {
            (options.sndbuf, options.rcvbuf) = (traffic.buffer, traffic.buffer);
        }
        let failed =
            |at, what: &str, why: Error| Broken { checker: "opening", at, message: format!("{what}: {why}") };
        let now = net.now;
        let any = SocketAddr::from(([0, 0, 0, 0], PORT));
        let listener = net.stacks[B].sctp_listen(now, &[any], 1, options.clone());
        let listener = listener.map_err(|why| failed(now, "listening", why))?;
        let remote = SocketAddr::new(address(0, B), PORT);
        let a = net.stacks[A].sctp_connect(now, &[remote], &[], options);
        let a = a.map_err(|why| failed(now, "connecting", why))?;
        let mut b = None;
        let end = net.now + PATIENCE;
        while net.now < end {
            net.settle();
            b = b.or_else(|| net.stacks[B].sctp_accept(net.now, listener).ok().map(|(id, _)| id));
            let paths = net.stacks[A].sctp_info(a).map(|info| info.paths).unwrap_or_default();
            let active = paths.iter().filter(|p| p.state == PathState::Active).count();
            if let Some(b) = b.filter(|_| active == LINKS) {
                let write_at = net.now;
                let account = Account::default();
                let (message, every) = (traffic.message.max(NUMBER), traffic.every);
                return Ok(Self { net, account, a, b, message, every, write_at });
            }
            let Some(next) = net.next() else { break };
            net.advance(next)?;
        }
        Err(failed(net.now, "waiting for two paths", Error::TimedOut))
    }

    /// Runs for `time`, writing.
    pub(super) fn run(&mut self, time: Duration) -> Result<(), Broken> {
        let until = self.net.now + time;
        self.write_at = self.write_at.max(self.net.now);
        loop {
            self.write()?;
            let next = self.step(until, Some(self.write_at).filter(|_| !self.every.is_zero()))?;
            if !next {
                return Ok(());
            }
        }
    }

    /// Writes nothing more until all has come, or `time` is over.
    pub(super) fn drain(&mut self, time: Duration) -> Result<(), Broken> {
        let until = self.net.now + time;
        while self.account.next < self.account.sent.len() as u64 {
            if !self.step(until, None)? {
                break;
            }
        }
        Ok(())
    }

    /// The next thing that happens, at `own` at the latest; false when that lies behind `until`, where time then stands.
    fn step(&mut self, until: Instant, own: Option<Instant>) -> Result<bool, Broken> {
        self.net.settle();
        let next = self.net.next().into_iter().chain(own).min().filter(|&at| at < until);
        let Some(next) = next else {
            self.net.advance(until)?;
            self.read()?;
            return Ok(false);
        };
        self.net.advance(next)?;
        self.read()?;
        Ok(true)
    }

    fn write(&mut self) -> Result<(), Broken> {
        let now = self.net.now;
        while self.write_at <= now {
            let number = self.account.sent.len() as u64;
            let mut data = BytesMut::with_capacity(self.message);
            data.put_u64(number);
            data.resize(self.message, fill(number));
            match self.net.stacks[A].sctp_send(now, self.a, data.freeze(), SendInfo::default()) {
                Ok(_) => self.account.sent.push(now),
                // A writer that keeps to a clock leaves one out; one that writes all it can waits.
                Err(Error::WouldBlock) if self.every.is_zero() => return Ok(()),
                Err(Error::WouldBlock) => {}
                Err(why) => {
                    let message = format!("sending message {number}: {why}");
                    return Err(Broken { checker: "messages", at: now, message });
                }
            }
            self.write_at += self.every;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), Broken> {
        let now = self.net.now;
        let mut parts: Option<BytesMut> = None;
        loop {
            match self.net.stacks[B].sctp_recv(now, self.b, usize::MAX) {
                Ok(Some(Received::Data { data, eor, .. })) => {
                    let data = whole(&mut parts, data, eor);
                    data.map_or(Ok(()), |data| self.account.note(now, &data))?;
                }
                Ok(Some(Received::Notification(_))) => {}
                Ok(None) | Err(_) => return Ok(()),
            }
        }
    }
}

/// The message that `data` ends, with the parts before it.
fn whole(parts: &mut Option<BytesMut>, data: Bytes, eor: bool) -> Option<Bytes> {
    match (parts.take(), eor) {
        (None, true) => Some(data),
        (before, _) => {
            let mut all = before.unwrap_or_default();
            all.extend_from_slice(&data);
            if eor {
                return Some(all.freeze());
            }
            *parts = Some(all);
            None
        }
    }
}
