//! Pipes in memory, and splice(2) between them and sockets.
use crate::abi::{
    EPOLLERR, EPOLLHUP, MSG_DONTWAIT, MSG_MORE, MSG_PEEK, O_APPEND, O_CLOEXEC, O_DIRECT, O_NONBLOCK,
    SPLICE_F_MORE, SPLICE_F_NONBLOCK,
};
use crate::block::Progress;
use crate::call::{Call, Fd, Piece, RecvKind, Reply, Room, SendKind};
use crate::calls::Answer;
use crate::errno::Errno;
use crate::files::{File, Kind};
use crate::host::{ANY, Host};
use crate::poll::{READING, WRITING};
use crate::recv::Read;
use crate::send::Write;
use bytes::{Bytes, BytesMut};
use lowwater_core::base::{Duration, Error, SocketId};
use lowwater_core::tcp::{Ready, SendFlags};
use std::collections::{BTreeMap, VecDeque};

/// Bytes of a page, the most that one piece in a pipe has.
const PAGE: usize = 4_096;
/// Pieces that a pipe holds (`PIPE_DEF_BUFFERS`).
const PIECES_MAX: usize = 16;
/// Bytes that a pipe holds at the most (pipe(7)).
pub(crate) const PIPE_BYTES: usize = PIECES_MAX * PAGE;
/// Flags of splice(2).
const SPLICE_F_ALL: u32 = 0xf;

/// Name of a pipe.
pub(crate) type PipeId = u64;

/// Which end of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Read,
    Write,
}

#[derive(Debug, Default)]
struct Pipe {
    data: BytesMut,
    /// What the bytes lie in; each takes up a place until the last of its bytes is read.
    slots: VecDeque<Slot>,
    /// The ends that are open, and their O_NONBLOCK: to read, to write.
    ends: [Option<Fd>; 2],
    nonblocking: [bool; 2],
}

/// A piece of what is in a pipe (`pipe_buffer`).
#[derive(Clone, Copy, Debug)]
struct Slot {
    len: usize,
    /// Bytes of its page behind them that a write may fill; none where the page came by splice().
    room: usize,
}

impl Pipe {
    fn free(&self) -> usize {
        PIECES_MAX.saturating_sub(self.slots.len())
    }

    /// Takes the first `n` bytes, or as many as there are.
    fn take(&mut self, n: usize) -> BytesMut {
        let data = self.data.split_to(n.min(self.data.len()));
        let mut left = data.len();
        while left > 0
            && let Some(first) = self.slots.front_mut()
        {
            let part = left.min(first.len);
            (first.len, left) = (first.len - part, left - part);
            if first.len == 0 {
                self.slots.pop_front();
            }
        }
        data
    }

    /// Adds pages of `data` while there is place; how many bytes. What is `written` may be followed by more in its last page.
    fn add(&mut self, data: &[u8], written: bool) -> usize {
        let fits = data.len().min(self.free() * PAGE);
        for page in data[..fits].chunks(PAGE) {
            let room = if written { PAGE - page.len() } else { 0 };
            self.slots.push_back(Slot { len: page.len(), room });
        }
        self.data.extend_from_slice(&data[..fits]);
        fits
    }

    /// What of a whole write is no full page goes into the last page in use, if it has room for all of that (`pipe_write`); how many bytes.
    fn join(&mut self, data: &[u8]) -> usize {
        let part = data.len() % PAGE;
        let Some(last) = self.slots.back_mut().filter(|last| part <= last.room) else { return 0 };
        (last.len, last.room) = (last.len + part, last.room - part);
        self.data.extend_from_slice(&data[..part]);
        part
    }

    /// Puts `data` back in front, into pages of its own while there is place.
    fn put_back(&mut self, data: &[u8]) {
        let behind = self.data.split();
        self.data.extend_from_slice(data);
        self.data.unsplit(behind);
        for page in data.rchunks(PAGE) {
            let full = self.free() == 0;
            match self.slots.front_mut().filter(|_| full) {
                Some(first) => first.len += page.len(),
                None => self.slots.push_front(Slot { len: page.len(), room: 0 }),
            }
        }
    }
}

/// All pipes.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    pipes: BTreeMap<PipeId, Pipe>,
    next: PipeId,
}

const fn index(side: Side) -> usize {
    match side {
        Side::Read => 0,
        Side::Write => 1,
    }
}

impl Pipes {
    fn get(&mut self, id: PipeId) -> Result<&mut Pipe, Errno> {
        self.pipes.get_mut(&id).ok_or(Errno::EBADF)
    }

    pub(crate) fn waiting(&self, id: PipeId) -> usize {
        self.pipes.get(&id).map_or(0, |pipe| pipe.data.len())
    }

    /// Bytes for which there is place in pages of their own.
    fn room(&self, id: PipeId) -> usize {
        self.pipes.get(&id).map_or(0, |pipe| pipe.free() * PAGE)
    }

    /// The pieces that splice() moves of one pipe: at most `len` bytes in at most `free` of them. Of one that it splits the part
    /// that it moves has a page that no write fills (`splice_pipe_to_pipe`).
    fn pieces(&self, id: PipeId, len: usize, free: usize) -> Vec<Slot> {
        let mut left = len;
        let slots = self.pipes.get(&id).into_iter().flat_map(|pipe| &pipe.slots).take(free);
        slots
            .map_while(|slot| {
                let part = slot.len.min(left);
                left -= part;
                let room = if part < slot.len { 0 } else { slot.room };
                (part > 0).then_some(Slot { len: part, room })
            })
            .collect()
    }

    pub(crate) fn nonblocking(&self, id: PipeId, side: Side) -> bool {
        self.pipes.get(&id).is_some_and(|pipe| pipe.nonblocking[index(side)])
    }

    pub(crate) fn set_nonblocking(&mut self, id: PipeId, side: Side, on: bool) {
        if let Some(pipe) = self.pipes.get_mut(&id) {
            pipe.nonblocking[index(side)] = on;
        }
    }

    fn is_open(&self, id: PipeId, side: Side) -> bool {
        self.pipes.get(&id).is_some_and(|pipe| pipe.ends[index(side)].is_some())
    }

    /// `pipe_poll`.
    pub(crate) fn readiness(&self, id: PipeId, side: Side) -> u32 {
        let bit = |on: bool, bits: u32| if on { bits } else { 0 };
        match side {
            Side::Read => bit(self.waiting(id) > 0, READING) | bit(!self.is_open(id, Side::Write), EPOLLHUP),
            Side::Write => bit(self.room(id) > 0, WRITING) | bit(!self.is_open(id, Side::Read), EPOLLERR),
        }
    }
}

impl Host {
    /// pipe2(2).
    pub(crate) fn pipe(&mut self, flags: i32) -> Result<Reply, Errno> {
        if flags & !(O_CLOEXEC | O_NONBLOCK | O_DIRECT) != 0 {
            return Err(Errno::EINVAL);
        }
        let id = self.pipes.next;
        let read = self.files.add(File::Pipe(id, Side::Read))?;
        let write = match self.files.add(File::Pipe(id, Side::Write)) {
            Ok(write) => write,
            Err(errno) => {
                self.files.remove(read);
                return Err(errno);
            }
        };
        let cloexec = flags & O_CLOEXEC != 0;
        [read, write].into_iter().for_each(|fd| self.files.set_cloexec(fd, cloexec));
        // Of its ends the one to write alone keeps it (`create_pipe_files`).
        self.files.set_status(write, flags & O_DIRECT);
        self.pipes.next += 1;
        let nonblocking = flags & O_NONBLOCK != 0;
        let pipe = Pipe { ends: [Some(read), Some(write)], nonblocking: [nonblocking; 2], ..Pipe::default() };
        self.pipes.pipes.insert(id, pipe);
        Ok(Reply { pipe: Some((read, write)), ..Reply::ok(0) })
    }

    pub(crate) fn close_pipe(&mut self, id: PipeId, side: Side) {
        let Ok(pipe) = self.pipes.get(id) else { return };
        pipe.ends[index(side)] = None;
        if pipe.ends == [None; 2] {
            self.pipes.pipes.remove(&id);
        }
        self.wake_end(id, Side::Read, ANY);
        self.wake_end(id, Side::Write, ANY);
    }

    /// This end of a pipe has news of that kind, for whoever waits: each end has waiters of its own (`rd_wait`, `wr_wait`).
    fn wake_end(&mut self, id: PipeId, side: Side, key: u32) {
        if let Some(fd) = self.pipes.get(id).ok().and_then(|pipe| pipe.ends[index(side)]) {
            self.wake_fd(fd, key);
        }
        self.wake_blocked(&[]);
    }

    pub(crate) fn pipe_read(&mut self, id: PipeId, side: Side, call: &Call, p: &mut Progress) -> Answer {
        let read = Read::of(call)?;
        if side != Side::Read {
            return Err(Errno::EBADF);
        }
        if read.want == 0 {
            return Ok(Some(Reply::ok(0)));
        }
        let n = self.pipes.waiting(id).min(read.want);
        if n > 0 {
            if n > read.good {
                return Err(Errno::EFAULT);
            }
            let pipe = self.pipes.get(id)?;
            let was_full = pipe.free() == 0;
            let data = pipe.take(n).freeze();
            let (room, rest) = (was_full && pipe.free() > 0, !pipe.data.is_empty());
            if room {
                self.wake_end(id, Side::Write, WRITING);
            }
            // One reader is woken for what is written: one that has waited leaves the rest to the next.
            if p.begun && rest {
                self.wake_end(id, Side::Read, READING);
            }
            return Ok(Some(Reply { data, ..Reply::ok(n as i64) }));
        }
        if !self.pipes.is_open(id, Side::Write) {
            return Ok(Some(Reply::ok(0)));
        }
        if self.pipes.nonblocking(id, side) { Err(Errno::EAGAIN) } else { p.wait(self.now, None) }
    }

    /// Puts what was read from a pipe back in front, for a caller whose file did not take all of it. Of other descriptors nothing comes back.
    pub fn unread(&mut self, fd: Fd, rest: &[u8]) {
        let Ok(File::Pipe(id, Side::Read)) = self.files.get(fd) else { return };
        let id = *id;
        if let Ok(pipe) = self.pipes.get(id) {
            pipe.put_back(rest);
            self.wake_end(id, Side::Read, ANY);
        }
    }

    pub(crate) fn pipe_write(&mut self, id: PipeId, side: Side, call: &Call, p: &mut Progress) -> Answer {
        let write = Write::of(call)?;
        if side != Side::Write {
            return Err(Errno::EBADF);
        }
        if write.data.is_empty() && !write.bad {
            return Ok(Some(Reply::ok(0)));
        }
        if !self.pipes.is_open(id, Side::Read) {
            // What was written counts, and the signal comes all the same (`pipe_write`).
            let done = Reply { sigpipe: true, ..Reply::ok(p.done as i64) };
            return Ok(Some(if p.done > 0 { done } else { write.fail(Errno::EPIPE) }));
        }
        if write.bad {
            return Err(Errno::EFAULT);
        }
        let waits = !self.pipes.nonblocking(id, side) && !p.over();
        self.fill_pipe(id, &write.data, waits, p)?;
        let all = p.done == write.data.len();
        if all || !waits {
            // Readers are told as a write ends, also where it found no room (`pipe_write`: `poll_usage`).
            self.wake_end(id, Side::Read, READING);
            let room = self.pipes.room(id) > 0;
            if p.begun && room {
                self.wake_end(id, Side::Write, WRITING);
            }
        }
        if all || (p.done > 0 && !waits) {
            return Ok(Some(Reply::ok(p.done as i64)));
        }
        if self.pipes.nonblocking(id, side) { Err(Errno::EAGAIN) } else { p.wait(self.now, None) }
    }

    /// Writes what there is place for. Where that is not all and the call is to wait, readers of a pipe that was empty are told
    /// at once. One that has waited makes room then, and nobody else would tell of it, since this call does not wait yet.
    fn fill_pipe(&mut self, id: PipeId, data: &[u8], waits: bool, p: &mut Progress) -> Result<(), Errno> {
        let pipe = self.pipes.get(id)?;
        let mut was_empty = pipe.slots.is_empty();
        if !p.begun {
            p.done += pipe.join(data);
        }
        p.done += pipe.add(&data[p.done..], true);
        while waits && was_empty && p.done < data.len() {
            self.wake_end(id, Side::Read, READING);
            let pipe = self.pipes.get(id)?;
            was_empty = pipe.slots.is_empty();
            p.done += pipe.add(&data[p.done..], true);
        }
        Ok(())
    }

    /// splice(2): `do_splice`.
    pub(crate) fn splice(&mut self, call: &Call, p: &mut Progress) -> Answer {
        let Call::Splice { fd_in, off_in, fd_out, off_out, len, flags } = call else {
            return Err(Errno::EINVAL);
        };
        if *len == 0 {
            return Ok(Some(Reply::ok(0)));
        }
        if flags & !SPLICE_F_ALL != 0 {
            return Err(Errno::EINVAL);
        }
        let (from, to) = (self.splice_end(*fd_in)?, self.splice_end(*fd_out)?);
        let never = SPLICE_F_NONBLOCK as u32;
        let flags = if self.is_hasty(&from) || self.is_hasty(&to) { flags | never } else { *flags };
        let patient = flags & never == 0;
        match (from, to) {
            (End::Pipe(..), End::Pipe(..)) if off_in.is_some() || off_out.is_some() => Err(Errno::ESPIPE),
            (End::Pipe(a, Side::Read), End::Pipe(b, Side::Write)) if a != b => {
                self.splice_pipes(a, b, *len, patient, p)
            }
            (End::Pipe(a, Side::Read), End::Socket(fd)) => match (off_in, off_out) {
                (Some(_), _) => Err(Errno::ESPIPE),
                (_, Some(_)) => Err(Errno::EINVAL),
                // A place to write at is no end to append to (`do_splice`).
                _ if self.files.status(fd) & O_APPEND != 0 => Err(Errno::EINVAL),
                _ => self.splice_out(a, fd, *len, flags, p),
            },
            (End::Socket(fd), End::Pipe(b, Side::Write)) => match (off_in, off_out) {
                (_, Some(_)) => Err(Errno::ESPIPE),
                (Some(_), _) => Err(Errno::EINVAL),
                _ => self.splice_in(fd, b, *len, patient, p),
            },
            (End::Pipe(_, Side::Write), _) | (_, End::Pipe(_, Side::Read)) => Err(Errno::EBADF),
            _ => Err(Errno::EINVAL),
        }
    }

    /// A pipe that has O_NONBLOCK at this end has splice() not wait for it. A socket's is asked with its own waits.
    fn is_hasty(&self, end: &End) -> bool {
        matches!(*end, End::Pipe(id, side) if self.pipes.nonblocking(id, side))
    }

    fn splice_end(&self, fd: Fd) -> Result<End, Errno> {
        match self.files.get(fd)? {
            File::Pipe(id, side) => Ok(End::Pipe(*id, *side)),
            File::Socket(_) => Ok(End::Socket(fd)),
            File::Epoll(_) => Err(Errno::EINVAL),
        }
    }

    fn splice_pipes(
        &mut self,
        from: PipeId,
        to: PipeId,
        len: usize,
        patient: bool,
        p: &mut Progress,
    ) -> Answer {
        if !self.pipes.is_open(to, Side::Read) {
            return Ok(Some(Reply { sigpipe: true, ..Reply::fail(Errno::EPIPE) }));
        }
        let pieces = self.pipes.pieces(from, len, self.pipes.room(to) / PAGE);
        if pieces.is_empty() {
            if self.pipes.waiting(from) == 0 && !self.pipes.is_open(from, Side::Write) {
                return Ok(Some(Reply::ok(0)));
            }
            return if patient { p.wait(self.now, None) } else { Err(Errno::EAGAIN) };
        }
        let n = pieces.iter().map(|slot| slot.len).sum();
        let free = self.pipes.room(from);
        let data = self.pipes.get(from)?.take(n);
        let pipe = self.pipes.get(to)?;
        pipe.data.extend_from_slice(&data);
        pipe.slots.extend(pieces);
        self.wake_end(to, Side::Read, ANY);
        self.tell_of_place(from, free);
        Ok(Some(Reply::ok(n as i64)))
    }

    /// splice() tells writers of each place that it has made (`wakeup_pipe_writers`).
    fn tell_of_place(&mut self, id: PipeId, before: usize) {
        if self.pipes.room(id) > before {
            self.wake_end(id, Side::Write, ANY);
        }
    }

    /// From a socket (`tcp_splice_read`, `copy_splice_read`): waits for data as read() does, for room as a pipe does.
    fn splice_in(&mut self, fd: Fd, to: PipeId, len: usize, patient: bool, p: &mut Progress) -> Answer {
        if !self.pipes.is_open(to, Side::Read) {
            return Ok(Some(Reply { sigpipe: true, ..Reply::fail(Errno::EPIPE) }));
        }
        let room = self.pipes.room(to);
        if room == 0 {
            (p.assoc, p.deadline) = (None, None);
            return if patient { p.wait(self.now, None) } else { Err(Errno::EAGAIN) };
        }
        // What is there is enough, whatever SO_RCVLOWAT says; where there is nothing, whoever waits looks again.
        let sock = self.files.sock(fd)?;
        let conn = sock.kind.id().filter(|_| sock.is_tcp());
        let there = conn.map(|id| self.queues(id).recv);
        // Nothing is spliced from an urgent byte on (`tcp_read_sock`).
        if let Some(id) = conn.filter(|_| there > Some(0))
            && self.stack.tcp_inq(id).is_ok_and(|inq| inq.at_mark)
        {
            return self.splice_nothing(fd, id).map(Some);
        }
        // The socket is asked with its own waits, though this call may have waited for the pipe: as they are when it is asked first.
        let timeout = sock.knobs.rcvtimeo;
        let hasty = p.assoc.is_none() && (sock.nonblocking || timeout.is_some_and(|t| t.is_zero()));
        if p.begun && conn.is_some() && p.assoc.is_none() {
            p.deadline = timeout.map(|t| self.now + t);
        }
        let wait = if hasty { MSG_DONTWAIT } else { 0 };
        let (want, flags) = match there.map(|n| usize::try_from(n).unwrap_or(usize::MAX)) {
            Some(0) => (len.min(1), MSG_PEEK),
            Some(there) => (len.min(room).min(there), 0),
            None => (len.min(room), 0),
        };
        let rooms = vec![Room::new(want)];
        let call = Call::Recv { fd, kind: RecvKind::Recv, rooms, flags: flags | wait, control_len: 0 };
        let peek_off = self.files.sock(fd)?.peek_off();
        // Its wait ends with the connection that it waits for; that for room in the pipe does not.
        p.assoc = conn;
        let Some(reply) = self.attempt(&call, p)? else { return Ok(None) };
        // Of TCP it is no read that moves the place of the next peek (`tcp_read_sock`).
        if let (Some(_), Some(place)) = (conn, peek_off) {
            self.files.sock_mut(fd)?.set_peek_off(place);
        }
        if let Some(id) = conn.filter(|_| there == Some(0) && reply.data.is_empty()) {
            // The end was only looked at, and is read now (`tcp_read_sock`). There are no bytes that this could take, and no end either where
            // shutdown() came before there was a connection.
            match self.stack.tcp_recv_with(self.now, id, 1, &mut |_| {}) {
                Ok(_) | Err(Error::WouldBlock) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if !reply.data.is_empty() {
            self.pipes.get(to)?.add(&reply.data, false);
            self.wake_end(to, Side::Read, ANY);
        }
        Ok(Some(Reply::ok(reply.data.len() as i64)))
    }

    /// A socket from which nothing can be taken though something waits: `tcp_splice_read` does not wait then.
    fn splice_nothing(&mut self, fd: Fd, id: SocketId) -> Result<Reply, Errno> {
        if let Some(error) = self.stack.take_error(id) {
            return Err(error.into());
        }
        let ready = self.stack.tcp_ready(self.now, id);
        let over = ready.contains(Ready::HUP) || ready.contains(Ready::RDHUP);
        let sock = self.files.sock(fd)?;
        if !over && (sock.nonblocking || sock.knobs.rcvtimeo.is_some_and(|t| t.is_zero())) {
            return Err(Errno::EAGAIN);
        }
        Ok(Reply::ok(0))
    }

    /// To a socket: what has been written has its times, as any write (`tcp_sendmsg_locked`). Who writes to the pipe hears of the room only
    /// now (`splice_to_socket`): what comes is for another call.
    fn splice_out(&mut self, from: PipeId, fd: Fd, len: usize, flags: u32, p: &mut Progress) -> Answer {
        let free = self.pipes.room(from);
        let answer = self.splice_out_now(from, fd, len, flags, p);
        if p.done > 0 && !matches!(answer, Ok(None)) {
            self.mark_write(fd, None, p.done < len && self.pipes.waiting(from) > 0);
        }
        self.tell_of_place(from, free);
        answer
    }

    /// To a socket (`splice_to_socket`).
    fn splice_out_now(&mut self, from: PipeId, fd: Fd, len: usize, flags: u32, p: &mut Progress) -> Answer {
        if let Some(answer) = self.splice_fast(from, fd, len, flags, p)? {
            return answer;
        }
        let sock = self.files.sock(fd)?;
        let (timeout, kind, tcp) = (sock.knobs.sndtimeo, sock.kind, sock.is_tcp());
        // As it was when the socket was asked first; this call may have waited for the pipe before.
        let nonblocking = p.assoc.is_none() && (sock.nonblocking || timeout.is_some_and(|t| t.is_zero()));
        if p.over()
            && let Some(end) = self.splice_out_ends(p, timeout)
        {
            if let (Kind::Conn(id), true) = (kind, tcp) {
                self.end_wait_to_write(fd, id)?;
            }
            return end.map(Some);
        }
        let waiting = self.pipes.waiting(from);
        let n = (len - p.done.min(len)).min(waiting);
        if n == 0 {
            let over = p.done > 0 || !self.pipes.is_open(from, Side::Write);
            if over {
                return Ok(Some(Reply::ok(p.done as i64)));
            }
            let patient = flags & SPLICE_F_NONBLOCK as u32 == 0;
            return if patient { p.wait(self.now, None) } else { Err(Errno::EAGAIN) };
        }
        let (Kind::Conn(id), true) = (kind, tcp) else {
            if tcp && p.done > 0 {
                // It was dissolved. The next of the writes that this is made of has its error, which nobody is told (`splice_to_socket`).
                let sigpipe = self.files.sock_mut(fd)?.take_error().is_none();
                return Ok(Some(Reply { sigpipe, ..Reply::ok(p.done as i64) }));
            }
            return self.splice_message(from, fd, n, nonblocking, p);
        };
        match self.splice_send(from, id, n, flags & SPLICE_F_MORE as u32 != 0) {
            Ok(sent) => {
                self.grow_zerocopy(fd);
                p.done += sent;
                p.first &= sent == 0;
            }
            Err(Error::WouldBlock) if p.done == 0 && nonblocking => return Err(Errno::EAGAIN),
            Err(Error::WouldBlock) => {}
            Err(e) => {
                let errno = Errno::from(e);
                let reply = if p.done > 0 { Reply::ok(p.done as i64) } else { Reply::fail(errno) };
                return Ok(Some(Reply { sigpipe: errno == Errno::EPIPE, ..reply }));
            }
        }
        let done = p.done == len || self.pipes.waiting(from) == 0;
        if done || nonblocking {
            return Ok(Some(Reply::ok(p.done as i64)));
        }
        if self.waits_to_connect(fd, id) {
            self.stack.tcp_expect_write(self.now, id, true)?;
        }
        if p.assoc.replace(id).is_none() && p.begun {
            p.deadline = timeout.map(|t| self.now + t);
        }
        p.wait(self.now, timeout)
    }

    /// The first write where connect() was deferred (`tcp_sendmsg_fastopen`), which waits for the handshake whatever the SYN takes: until it
    /// comes back the pipe keeps all. `None` where it has, and where there is nothing to open.
    fn splice_fast(
        &mut self,
        from: PipeId,
        fd: Fd,
        len: usize,
        flags: u32,
        p: &mut Progress,
    ) -> Result<Option<Answer>, Errno> {
        let sock = self.files.sock(fd)?;
        let (kind, hasty) = (sock.kind, sock.nonblocking || sock.knobs.sndtimeo.is_some_and(|t| t.is_zero()));
        let deferred = sock.knobs.past.fast.is_deferred();
        let n = len.min(self.pipes.waiting(from));
        if !p.fast && (n == 0 || !deferred) {
            return Ok(None);
        }
        let data = Bytes::copy_from_slice(self.pipes.get(from)?.data.get(..n).unwrap_or_default());
        let more = if flags & SPLICE_F_MORE as u32 != 0 { MSG_MORE } else { 0 };
        let flags = if hasty { more | MSG_DONTWAIT } else { more };
        let data = vec![Piece::Data(data)];
        let write =
            Write::of(&Call::Send { fd, kind: SendKind::Send, data, flags, to: None, control: Vec::new() })?;
        match self.send_fast(&write, p) {
            Ok(Some(Ok(None))) => {
                p.assoc = kind.id();
                Ok(Some(Ok(None)))
            }
            Ok(_) => {
                // Whether its time is over or not, what follows has its own.
                self.pipes.get(from)?.take(p.done);
                p.first = p.done == 0;
                Ok(None)
            }
            Err(errno) => {
                p.done = 0;
                Ok(Some(Ok(Some(write.fail(errno)))))
            }
        }
    }

    /// The time of a splice() to a socket is over. Each of the writes that it is made of waits as long (`splice_to_socket`): one that has
    /// written something is followed by another, which tries anew (`None`); one that has not ends the call.
    fn splice_out_ends(&self, p: &mut Progress, timeout: Option<Duration>) -> Option<Result<Reply, Errno>> {
        match p.done {
            0 => Some(Err(if p.interrupted { Errno::EINTR } else { Errno::EAGAIN })),
            done if p.first || p.interrupted => Some(Ok(Reply::ok(done as i64))),
            _ => {
                (p.first, p.expired, p.assoc) = (true, false, None);
                p.deadline = timeout.map(|t| self.now + t);
                None
            }
        }
    }

    /// To what is no connection of TCP: a message, or an error.
    fn splice_message(&mut self, from: PipeId, fd: Fd, n: usize, hasty: bool, p: &mut Progress) -> Answer {
        let data = Bytes::copy_from_slice(self.pipes.get(from)?.data.get(..n).unwrap_or_default());
        let (data, flags) = (vec![Piece::Data(data)], if hasty { MSG_DONTWAIT } else { 0 });
        let call = Call::Send { fd, kind: SendKind::Send, data, flags, to: None, control: Vec::new() };
        let reply = self.attempt(&call, p)?;
        if let Some(sent) = reply.as_ref().and_then(|r| usize::try_from(r.ret).ok()) {
            self.pipes.get(from)?.take(sent.min(n));
        }
        Ok(reply)
    }

    fn splice_send(&mut self, from: PipeId, id: SocketId, n: usize, more: bool) -> Result<usize, Error> {
        let Ok(pipe) = self.pipes.get(from) else { return Err(Error::NoSuchSocket) };
        let data = pipe.data.get(..n).unwrap_or_default();
        let sent = self.stack.tcp_send(self.now, id, data, SendFlags { more, ..SendFlags::default() })?;
        pipe.take(sent);
        Ok(sent)
    }
}

/// One end of a splice.
#[derive(Clone, Copy, Debug)]
enum End {
    Pipe(PipeId, Side),
    Socket(Fd),
}
