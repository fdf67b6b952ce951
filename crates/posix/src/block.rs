//! Calls that block: what they have done so far, when they give up, what wakes them.
use crate::call::{Call, Fd, Reply};
use crate::calls::Answer;
use crate::errno::Errno;
use crate::host::{CallId, Host};
use bytes::BytesMut;
use lowwater_core::base::{Duration, Instant, SocketId};

/// Calls that may block at once, those among them that are over and whose reply nobody has taken.
const BLOCKED_MAX: usize = 1_024;
/// Rounds of waking within one instant after which the stack is taken to spin.
const ROUNDS_MAX: usize = 100_000;

/// How far a call is.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// It was attempted before.
    pub(crate) begun: bool,
    /// Its time is over: it answers now, whatever it has.
    pub(crate) expired: bool,
    /// It was interrupted: as `expired`, but with EINTR if it has nothing.
    pub(crate) interrupted: bool,
    /// When its time is over.
    pub(crate) deadline: Option<Instant>,
    /// Bytes sent, or read and thrown away.
    pub(crate) done: usize,
    /// A write whose request for Fast Open is noted; a connect() behind one that was deferred.
    pub(crate) fast: bool,
    /// It began to connect itself, or has waited until that was done, and written nothing since; a splice() whose time began anew, too.
    pub(crate) first: bool,
    /// The number of a write that has one (MSG_ZEROCOPY).
    pub(crate) zerocopy: Option<u32>,
    /// Bytes read.
    pub(crate) data: BytesMut,
    /// What it has beside its files.
    pub(crate) holds: Holds,
    /// The association that it began, or waits for; the connection that a splice() waits for.
    pub(crate) assoc: Option<SocketId>,
    /// Bytes that a read waits for, as SO_RCVLOWAT was when it began.
    pub(crate) target: Option<usize>,
}

/// What a call has while it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Holds {
    #[default]
    Nothing,
    /// A socket that lingers behind a closed descriptor.
    Lingering(SocketId),
    /// The number that an accept() has taken for the descriptor of what it waits for.
    Number(Fd),
}

impl Progress {
    /// The socket that lingers behind its closed descriptor.
    pub(crate) const fn lingers(&self) -> Option<SocketId> {
        if let Holds::Lingering(id) = self.holds { Some(id) } else { None }
    }

    /// The call would wait, for `timeout` at the most (`None`: for ever). `Err` when it must not wait any more.
    pub(crate) fn wait(&mut self, now: Instant, timeout: Option<Duration>) -> Result<Option<Reply>, Errno> {
        if self.interrupted {
            return Err(Errno::EINTR);
        }
        if self.expired || self.hurries(false, timeout) {
            return Err(Errno::EAGAIN);
        }
        self.arm(now, timeout);
        Ok(None)
    }

    /// The call must not wait, by O_NONBLOCK or its timeout: what they are when it begins counts (`sock_rcvtimeo`, `sock_sndtimeo`).
    pub(crate) fn hurries(&self, nonblocking: bool, timeout: Option<Duration>) -> bool {
        !self.begun && (nonblocking || timeout.is_some_and(|t| t.is_zero()))
    }

    /// Sets the deadline the first time.
    pub(crate) fn arm(&mut self, now: Instant, timeout: Option<Duration>) {
        if !self.begun {
            self.deadline = timeout.map(|t| now + t);
        }
    }

    /// It must not wait any more.
    pub(crate) const fn over(&self) -> bool {
        self.expired || self.interrupted
    }
}

/// A call that has not come back.
#[derive(Debug)]
pub(crate) struct Blocked {
    id: CallId,
    call: Call,
    /// The files that it is about.
    files: [Option<u64>; 2],
    progress: Progress,
    /// The socket whose events wake it; `None` for a call that any event may concern.
    on: Option<SocketId>,
    /// The connection that it waits for was dissolved (`sk_disconnects`).
    cut: bool,
}

/// All calls that block, and replies that wait to be taken.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    blocked: Vec<Blocked>,
    finished: Vec<(CallId, Instant, Reply)>,
    next: u64,
}

impl Waiting {
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.blocked.iter().filter_map(|b| b.progress.deadline).min()
    }

    /// No more calls may block.
    pub(crate) fn is_full(&self) -> bool {
        self.blocked.len() + self.finished.len() >= BLOCKED_MAX
    }

    /// Whoever waits for this connection has lost it, whatever its socket will be.
    pub(crate) fn cut(&mut self, conn: SocketId) {
        // A splice() is woken by its pipe, too, and so by no socket alone.
        let waits = |b: &&mut Blocked| b.on == Some(conn) || b.progress.assoc == Some(conn);
        self.blocked.iter_mut().filter(waits).for_each(|b| b.cut = true);
    }

    /// A call waits for this association.
    pub(crate) fn is_for(&self, assoc: SocketId) -> bool {
        self.blocked.iter().any(|b| b.progress.assoc == Some(assoc))
    }

    /// A call waits to write to this descriptor. The one that goes on at the moment does not count.
    fn writes_to(&self, to: Fd) -> bool {
        self.blocked.iter().any(|b| {
            matches!(&b.call, Call::Send { fd, .. } | Call::Splice { fd_out: fd, .. } if *fd == to) && !b.cut
        })
    }

    pub(crate) fn first_finished(&self) -> Option<CallId> {
        self.finished.first().map(|(id, ..)| *id)
    }

    pub(crate) fn take(&mut self, id: CallId) -> Option<(Instant, Reply)> {
        let at = self.finished.iter().position(|(finished, ..)| *finished == id)?;
        let (_, when, reply) = self.finished.remove(at);
        Some((when, reply))
    }

    pub(crate) fn is_blocked(&self, id: CallId) -> bool {
        self.blocked.iter().any(|b| b.id == id)
    }
}

impl Host {
    /// A call waits no more to write, of this descriptor's connection: nobody may be left who does (`sk_write_pending`).
    pub(crate) fn end_wait_to_write(&mut self, fd: Fd, conn: SocketId) -> Result<(), Errno> {
        let others = self.waiting.writes_to(fd);
        Ok(self.stack.tcp_expect_write(self.now, conn, others)?)
    }

    /// Lets the calls go on whose time is over.
    pub(crate) fn expire_blocked(&mut self) {
        let now = self.now;
        let due = |p: &Progress| p.deadline.is_some_and(|d| d <= now);
        let ids: Vec<CallId> =
            self.waiting.blocked.iter().filter(|b| due(&b.progress)).map(|b| b.id).collect();
        for id in ids {
            self.go_on(id, |p| (p.expired, p.deadline) = (true, None));
        }
    }

    pub(crate) fn interrupt_blocked(&mut self, id: CallId) {
        self.go_on(id, |p| p.interrupted = true);
    }

    /// Ends the calls whose descriptor was closed.
    pub(crate) fn end_orphans(&mut self) {
        let orphaned = |b: &&Blocked| self.files_of(&b.call) != b.files;
        let ids: Vec<CallId> = self.waiting.blocked.iter().filter(orphaned).map(|b| b.id).collect();
        for id in ids {
            self.go_on(id, |_| {});
        }
    }

    /// Lets the calls go on that wait for something of this descriptor's socket (`sk_state_change`, `sk_write_space`).
    pub(crate) fn wake_waiters(&mut self, fd: Fd) {
        let id = self.files.sock(fd).ok().and_then(|sock| sock.kind.id());
        self.wake_blocked(id.as_slice());
    }

    /// Lets the calls go on that an event of one of these sockets may concern, oldest first.
    pub(crate) fn wake_blocked(&mut self, woken: &[SocketId]) {
        let concerned = |b: &Blocked| b.on.is_none_or(|id| woken.contains(&id));
        let ids: Vec<CallId> = self.waiting.blocked.iter().filter(|b| concerned(b)).map(|b| b.id).collect();
        for id in ids {
            self.go_on(id, |_| {});
        }
    }

    /// Attempts a blocked call again.
    fn go_on(&mut self, id: CallId, change: impl FnOnce(&mut Progress)) {
        let Some(at) = self.waiting.blocked.iter().position(|b| b.id == id) else { return };
        let mut blocked = self.waiting.blocked.remove(at);
        change(&mut blocked.progress);
        // Another file may have got the descriptor of one that was closed.
        let same = self.files_of(&blocked.call) == blocked.files;
        let (call, progress) = (&blocked.call, &mut blocked.progress);
        let answer = match call {
            _ if !same => Err(Errno::EBADF),
            Call::Recv { .. } if blocked.cut => self.after_cut(call, progress).map(Some),
            // Why is for SO_ERROR to tell (`sk_wait_data`, `inet_wait_for_connect`).
            Call::Connect { .. } if blocked.cut => Err(Errno::EPIPE),
            Call::Splice { fd_in, .. } if blocked.cut && self.files.sock(*fd_in).is_ok() => Err(Errno::EPIPE),
            _ => self.attempt(call, progress),
        };
        self.give_back(&answer, progress);
        let reply = match answer {
            Ok(None) => {
                blocked.on = self.wakes(&blocked.call, &blocked.progress);
                self.waiting.blocked.insert(at.min(self.waiting.blocked.len()), blocked);
                return;
            }
            Ok(Some(reply)) => reply,
            Err(errno) => Reply::fail(errno),
        };
        self.waiting.finished.push((id, self.now, reply));
    }

    /// The number that it has taken for a descriptor, and not used, is free again when it is over (`__sys_accept4_file`).
    pub(crate) fn give_back(&mut self, answer: &Answer, progress: &mut Progress) {
        if !matches!(answer, Ok(None))
            && let Holds::Number(fd) = core::mem::take(&mut progress.holds)
        {
            self.files.release(fd);
        }
    }

    /// The call would block, and too many do: it ends as by a signal, so that what it has done counts.
    pub(crate) fn may_not_wait(&mut self, call: &Call, mut progress: Progress) -> Reply {
        (progress.begun, progress.interrupted) = (true, true);
        let answer = self.attempt(call, &mut progress);
        self.give_back(&answer, &mut progress);
        match answer {
            Ok(Some(reply)) => reply,
            Ok(None) | Err(Errno::EINTR) => Reply::fail(Errno::ENOMEM),
            Err(errno) => Reply::fail(errno),
        }
    }

    /// The call blocks: it is about the files that its descriptors are now.
    pub(crate) fn wait_on(&mut self, mut call: Call, mut progress: Progress) -> CallId {
        call.join();
        progress.begun = true;
        let (files, on) = (self.files_of(&call), self.wakes(&call, &progress));
        let id = CallId(self.waiting.next);
        self.waiting.next += 1;
        self.waiting.blocked.push(Blocked { id, call, files, progress, on, cut: false });
        id
    }

    /// The files that a call holds while it blocks. close() has none any more, and poll() looks them up each time.
    fn files_of(&self, call: &Call) -> [Option<u64>; 2] {
        let fds = match call {
            Call::Recv { fd, .. }
            | Call::Send { fd, .. }
            | Call::Accept { fd, .. }
            | Call::Connect { fd, .. }
            | Call::Setsockopt { fd, .. }
            | Call::GetsockoptIn { fd, .. }
            | Call::EpollWait { epfd: fd, .. } => [Some(*fd), None],
            Call::Splice { fd_in, fd_out, .. } => [Some(*fd_in), Some(*fd_out)],
            _ => [None, None],
        };
        fds.map(|fd| fd.and_then(|fd| self.files.serial(fd)))
    }

    /// The socket whose events may let a call go on.
    fn wakes(&self, call: &Call, progress: &Progress) -> Option<SocketId> {
        match call {
            Call::Recv { fd, .. }
            | Call::Send { fd, .. }
            | Call::Accept { fd, .. }
            | Call::Connect { fd, .. } => {
                let sock = self.files.sock(*fd).ok()?;
                // Any event may be one of a one-to-many socket's associations.
                sock.kind.id().filter(|_| sock.sctp.as_ref().is_none_or(|sctp| !sctp.style.is_many()))
            }
            Call::Close { .. } => progress.lingers(),
            _ => None,
        }
    }

    /// Lets the stack and the blocked calls do all that they can at this instant.
    pub(crate) fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            // What a packet makes the stack send goes before whom it wakes: the latter runs later (Linux: softirq, then process).
            let mut left = Vec::new();
            // All of it, however many turns of the device that takes.
            let turns = (0..ROUNDS_MAX).take_while(|_| self.transmit(&mut left)).count();
            let sent = turns > 0;
            self.tell_progress(&left);
            // Before events, by which a socket may lose its connection.
            let (heard, woken) = self.hear_icmp();
            let events = self.gather_events() || heard;
            if !woken.is_empty() {
                self.wake_blocked(&woken);
            }
            // What goes over loopback asks for more turns without leaving a trace here.
            let more = self.stack.needs_transmit(self.dev) && !self.device.is_stopped();
            if !events && !sent && !more {
                return;
            }
        }
        debug_assert!(false, "the stack comes to rest at every instant");
    }
}

#[cfg(test)]
mod tests {
    use crate::abi::{AF_INET, MSG_ZEROCOPY, SO_SNDBUF, SOCK_DGRAM, SOL_SOCKET};
    use crate::{Call, Host, Name, Optval, Piece, SendKind, Settings, Started};

    /// Each time it goes on it would be put together anew.
    #[test]
    fn what_waits_to_be_written_is_one_piece() {
        let addresses = vec![([192, 0, 2, 1].into(), 24)];
        let mut host = Host::new(Settings { addresses, ..Settings::default() }).expect("a host");
        let Started::Done(reply) = host.call(Call::Socket { domain: AF_INET, ty: SOCK_DGRAM, protocol: 0 })
        else {
            panic!("socket() never blocks")
        };
        let fd = reply.ret as i32;
        host.call(Call::Setsockopt { fd, level: SOL_SOCKET, name: SO_SNDBUF, value: Optval::int(5_000) });
        host.set_busy(true);
        let to = Some(Name::Inet("192.0.2.9:9".parse().expect("an address")));
        let two = vec![Piece::zeros(500), Piece::zeros(501)];
        let send = |flags| Call::Send {
            fd,
            kind: SendKind::Sendmsg,
            data: two.clone(),
            flags,
            to,
            control: Vec::new(),
        };
        while matches!(host.call(send(0)), Started::Done(reply) if reply.ret == 1_001) {}
        assert!(matches!(host.call(send(MSG_ZEROCOPY)), Started::Blocked(_)));
        let waiting = host.waiting.blocked.iter().map(|blocked| match &blocked.call {
            Call::Send { data, .. } => data.iter().map(Piece::len).collect(),
            _ => Vec::new(),
        });
        assert_eq!(waiting.collect::<Vec<_>>(), [vec![1_001], vec![500, 501]]);
    }
}
