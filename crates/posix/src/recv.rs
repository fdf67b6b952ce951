//! Reading from a TCP socket: read, readv, recv, recvfrom, recvmsg (`tcp_recvmsg_locked`).
use crate::abi::{
    MSG_CTRUNC, MSG_DONTWAIT, MSG_ERRQUEUE, MSG_OOB, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, SO_RCVLOWAT,
    SOL_SOCKET, SOL_TCP, TCP_CM_INQ, TCP_INQ,
};
use crate::block::Progress;
use crate::call::{Call, Control, Fd, RecvKind, Reply, Room};
use crate::calls::{Answer, BYTES_MAX, IOVECS_MAX};
use crate::errno::Errno;
use crate::files::{Kind, Sock};
use crate::host::Host;
use bytes::{Bytes, BytesMut};
use lowwater_core::base::{Error, SocketId};
use lowwater_core::tcp::Ready;

/// A reading call, taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) fd: Fd,
    pub(crate) kind: RecvKind,
    /// Bytes that are asked for.
    pub(crate) want: usize,
    /// Bytes in front of a pointer that cannot be written to.
    pub(crate) good: usize,
    pub(crate) flags: i32,
    pub(crate) control_len: usize,
}

impl Read {
    /// # Errors
    /// EINVAL for too many iovecs, and for lengths below zero (`__import_iovec`).
    pub(crate) fn of(call: &Call) -> Result<Self, Errno> {
        let Call::Recv { fd, kind, rooms, flags, control_len } = call else { return Err(Errno::EINVAL) };
        let (fd, kind, flags, control_len) = (*fd, *kind, *flags, *control_len);
        if rooms.len() > IOVECS_MAX {
            return Err(if kind == RecvKind::Recvmsg { Errno::EMSGSIZE } else { Errno::EINVAL });
        }
        let vector = matches!(kind, RecvKind::Readv | RecvKind::Recvmsg);
        if vector && rooms.iter().any(|room| isize::try_from(room.len).is_err()) {
            return Err(Errno::EINVAL);
        }
        let sum = |rooms: &[Room]| {
            rooms.iter().try_fold(0_usize, |sum, room| sum.checked_add(room.len)).ok_or(Errno::EINVAL)
        };
        let want = sum(rooms)?.min(BYTES_MAX);
        let bad = rooms.iter().position(|room| room.bad && room.len > 0).unwrap_or(rooms.len());
        let good = sum(rooms.get(..bad).unwrap_or_default())?.min(want);
        let plain = matches!(kind, RecvKind::Read | RecvKind::Readv);
        Ok(Self { fd, kind, want, good, flags: if plain { 0 } else { flags }, control_len })
    }

    pub(crate) const fn has(&self, flag: i32) -> bool {
        self.flags & flag != 0
    }
}

impl Host {
    pub(crate) fn tcp_recv(&mut self, call: &Call, p: &mut Progress) -> Answer {
        let read = Read::of(call)?;
        // read() of nothing is nothing, whatever the state (`sock_read_iter`).
        if read.want == 0 && matches!(read.kind, RecvKind::Read | RecvKind::Readv) {
            return Ok(Some(Reply::ok(0)));
        }
        if read.has(MSG_ERRQUEUE) {
            return self.read_errqueue(&read).map(Some);
        }
        let sock = self.files.sock(read.fd)?;
        let id = match sock.kind {
            Kind::Conn(id) => id,
            Kind::Listener(_) | Kind::Udp(_) => return Err(Errno::ENOTCONN),
            Kind::Fresh if read.has(MSG_OOB) => return Err(Errno::EINVAL),
            Kind::Fresh => return self.recv_unconnected(&read).map(Some),
        };
        if read.has(MSG_OOB) {
            return self.recv_urgent(id, &read).map(Some);
        }
        let lowat = sock.plain(SOL_SOCKET, SO_RCVLOWAT).max(1) as usize;
        let patient = !(p.hurries(sock.nonblocking, None) || read.has(MSG_DONTWAIT));
        let (timeout, shut) = (sock.knobs.rcvtimeo, sock.shut & 1 != 0);
        let target = if read.has(MSG_WAITALL) { read.want } else { lowat.min(read.want) }.max(1);
        let target = *p.target.get_or_insert(target);
        let taken = if read.has(MSG_PEEK) { self.peek(id, &read, p)? } else { self.take_data(id, &read, p)? };
        let waiting = self.queues(id).recv.saturating_sub(self.peek_from(&read)?);
        if read.want == 0 {
            self.meet(id, self.peek_from(&read)?)?;
            // Who has waited for nothing has it, whatever has come (`tcp_recvmsg_locked`).
            if p.begun {
                return Ok(Some(Reply::ok(0)));
            }
        }
        let stops = taken > 0 && self.stops_here(&read, id, taken, waiting)?;
        if taken >= target || stops || (read.want == 0 && waiting > 0) {
            return self.received(&read, id, taken, p).map(Some);
        }
        let ready = self.stack.tcp_ready(self.now, id);
        let over = ready.contains(Ready::ERR) || ready.contains(Ready::HUP) || ready.contains(Ready::RDHUP);
        if taken > 0 {
            if over || !patient || p.over() || p.hurries(false, timeout) {
                return self.received(&read, id, taken, p).map(Some);
            }
            p.arm(self.now, timeout);
            return Ok(None);
        }
        // A look leaves the urgent byte, behind which it sees the end (`tcp_recvmsg_locked`).
        let at_mark = read.has(MSG_PEEK) && self.stack.tcp_inq(id).is_ok_and(|inq| inq.at_mark);
        if at_mark && ready.contains(Ready::RDHUP) && !ready.contains(Ready::ERR) {
            return self.received(&read, id, 0, p).map(Some);
        }
        // What waits in front of a peek's place is none of its business.
        let max = if waiting == self.queues(id).recv { usize::MAX } else { 0 };
        let nothing = match read.has(MSG_PEEK) {
            // A look leaves the end, too. One from behind what waits on sees what is there.
            true => {
                let from = u32::try_from(self.peek_from(&read)?).unwrap_or(u32::MAX);
                self.stack.tcp_peek(self.now, id, from, &mut [0])
            }
            false => self.stack.tcp_recv_with(self.now, id, max, &mut |_| {}),
        };
        match if max == 0 && !over { Err(Error::WouldBlock) } else { nothing } {
            Ok(_) => self.received(&read, id, 0, p).map(Some),
            // Shut down before the connection began.
            Err(Error::WouldBlock) if shut => self.received(&read, id, 0, p).map(Some),
            Err(Error::WouldBlock) if !patient => Err(Errno::EAGAIN),
            Err(Error::WouldBlock) => p.wait(self.now, timeout),
            Err(e) => Err(e.into()),
        }
    }

    /// Who has taken something does not go on: the urgent mark ends what is read in one go, a peek standing where what it has seen ends,
    /// and what is left may have to go where nobody can write.
    fn stops_here(&self, read: &Read, id: SocketId, taken: usize, waiting: u64) -> Result<bool, Errno> {
        let peeked = if read.has(MSG_PEEK) { taken as u64 + self.peek_from(read)? } else { 0 };
        let to_mark = self.stack.tcp_inq(id).ok().and_then(|inq| inq.to_mark);
        let fault = waiting > 0 && read.good < read.want;
        Ok(fault || to_mark.is_some_and(|to| u64::from(to) == peeked))
    }

    /// The connection was dissolved while a reader waited: it has what it has (`sk_wait_event`). Why is for SO_ERROR to tell.
    pub(crate) fn after_cut(&self, call: &Call, p: &mut Progress) -> Result<Reply, Errno> {
        let read = Read::of(call)?;
        let data = core::mem::take(&mut p.data).freeze();
        // What was only looked at is not counted anywhere else.
        let taken = if read.has(MSG_PEEK) { data.len() } else { p.done };
        if taken == 0 {
            return Err(Errno::EPIPE);
        }
        self.tell_inq(&read, Reply { data, ..Reply::ok(taken as i64) }, || Ok(0))
    }

    /// Reading from what was never connected, or is no more.
    fn recv_unconnected(&mut self, read: &Read) -> Result<Reply, Errno> {
        let sock = self.files.sock_mut(read.fd)?;
        match sock.error.take() {
            Some(errno) => Err(errno),
            None if sock.shut & 1 != 0 => self.tell_inq(read, Reply::ok(0), || Ok(0)),
            None => Err(Errno::ENOTCONN),
        }
    }

    /// MSG_OOB (`tcp_recv_urg`).
    fn recv_urgent(&mut self, id: SocketId, read: &Read) -> Result<Reply, Errno> {
        let Some(byte) = self.stack.tcp_recv_oob(self.now, id, read.has(MSG_PEEK))? else {
            return self.with_inq(read, id, Reply::ok(0));
        };
        if read.want == 0 {
            return self.with_inq(read, id, Reply { msg_flags: MSG_OOB | MSG_TRUNC, ..Reply::ok(0) });
        }
        if read.good == 0 && !read.has(MSG_TRUNC) {
            return Err(Errno::EFAULT);
        }
        let data = Bytes::copy_from_slice(&[byte]);
        self.with_inq(read, id, Reply { data, msg_flags: MSG_OOB, ..Reply::ok(1) })
    }

    /// Tells how much waits, where somebody has asked for it (TCP_INQ): whatever was read, if it was the urgent byte (`tcp_recvmsg`).
    fn with_inq(&self, read: &Read, id: SocketId, reply: Reply) -> Result<Reply, Errno> {
        let hint = || Ok(i32::try_from(self.stack.tcp_inq(id)?.hint).unwrap_or(i32::MAX));
        self.tell_inq(read, reply, hint)
    }

    fn tell_inq(
        &self,
        read: &Read,
        mut reply: Reply,
        hint: impl FnOnce() -> Result<i32, Errno>,
    ) -> Result<Reply, Errno> {
        if read.kind == RecvKind::Recvmsg && self.files.sock(read.fd)?.plain(SOL_TCP, TCP_INQ) != 0 {
            put_control(&mut reply, read.control_len, Control::int(SOL_TCP, TCP_CM_INQ, hint()?));
        }
        Ok(reply)
    }

    /// How far from the front a peek begins: where the one before ended, with SO_PEEK_OFF (`sk_peek_offset`).
    fn peek_from(&self, read: &Read) -> Result<u64, Errno> {
        let from = self.files.sock(read.fd)?.peek_off().unwrap_or(0);
        Ok(if read.has(MSG_PEEK) { from.into() } else { 0 })
    }

    /// Moves the place of the next peek, where there is one (`sk_peek_offset_fwd`, `sk_peek_offset_bwd`).
    fn move_peek(&mut self, read: &Read, by: i64) -> Result<(), Errno> {
        let sock = self.files.sock_mut(read.fd)?;
        if let Some(from) = sock.peek_off() {
            let moved = (i64::from(from) + by).clamp(0, i32::MAX.into());
            sock.set_peek_off(moved as u32);
        }
        Ok(())
    }

    /// Copies what waits without taking it; how much there is.
    fn peek(&mut self, id: SocketId, read: &Read, p: &mut Progress) -> Result<usize, Errno> {
        // One peek begins where it began, however often it has to wait (`tcp_recvmsg_locked`, which moves the place at the end).
        let from = u32::try_from(self.peek_from(read)?).unwrap_or(u32::MAX);
        let waiting = self.queues(id).recv.saturating_sub(from.into());
        let there = usize::try_from(waiting).unwrap_or(usize::MAX).min(read.want);
        if there > read.good && !read.has(MSG_TRUNC) {
            self.meet(id, u64::MAX)?;
            return Err(Errno::EFAULT);
        }
        if there == 0 {
            return Ok(0);
        }
        let mut buf = BytesMut::zeroed(there);
        let n = match self.stack.tcp_peek(self.now, id, from, &mut buf) {
            // The urgent byte alone stands there.
            Err(Error::WouldBlock) => 0,
            n => n?,
        };
        buf.truncate(n);
        if !read.has(MSG_TRUNC) {
            p.data = buf;
        }
        Ok(n)
    }

    /// Who takes nothing has been a reader all the same (`tcp_cleanup_rbuf`), and one whose pace is measured where something waits from the
    /// place `from` on. Who has nowhere to put it meets nothing: that is behind all that waits.
    fn meet(&mut self, id: SocketId, from: u64) -> Result<(), Errno> {
        let from = u32::try_from(from).unwrap_or(u32::MAX);
        self.stack.tcp_peek(self.now, id, from, &mut [])?;
        Ok(())
    }

    /// Takes what waits, as much as is still asked for; how much the call has altogether.
    fn take_data(&mut self, id: SocketId, read: &Read, p: &mut Progress) -> Result<usize, Errno> {
        // The mark has come where this call stands, which has taken what is before it and waits for more (`tcp_recvmsg_locked`).
        if p.done > 0 && self.stack.tcp_inq(id).is_ok_and(|inq| inq.to_mark == Some(0)) {
            return Ok(p.done);
        }
        let there = usize::try_from(self.queues(id).recv).unwrap_or(usize::MAX);
        let max = read.want - p.done.min(read.want);
        let some = there.min(max);
        if some == 0 {
            let ready = self.stack.tcp_ready(self.now, id);
            if p.done > 0 && max > 0 && ready.contains(Ready::RDHUP) && !ready.contains(Ready::ERR) {
                // Who has waited for more takes the end, too, where that is what came (`tcp_recvmsg_locked`).
                let _ = self.stack.tcp_recv_with(self.now, id, max, &mut |_| {});
            }
            return Ok(p.done);
        }
        let keep = !read.has(MSG_TRUNC);
        if keep && p.done + some > read.good {
            self.meet(id, u64::MAX)?;
            return if p.done > 0 { Ok(p.done) } else { Err(Errno::EFAULT) };
        }
        let data = &mut p.data;
        let mut take = |piece: &[u8]| {
            if keep {
                data.extend_from_slice(piece);
            }
        };
        // Who asks for more than is there also takes the end, where that has come.
        let taken = match self.stack.tcp_recv_with(self.now, id, max, &mut take) {
            // There was the urgent byte alone, which has been stepped over: whoever may wait does.
            Err(Error::WouldBlock) => 0,
            taken => taken?,
        };
        self.move_peek(read, -(taken as i64))?;
        p.done += taken;
        Ok(p.done)
    }

    fn received(
        &mut self,
        read: &Read,
        id: SocketId,
        taken: usize,
        p: &mut Progress,
    ) -> Result<Reply, Errno> {
        if read.has(MSG_PEEK) {
            self.move_peek(read, taken as i64)?;
        }
        let data = core::mem::take(&mut p.data).freeze();
        let mut reply = Reply { data, ..Reply::ok(taken as i64) };
        // Who asks for no bytes has met what waits all the same (`tcp_recvmsg_locked`).
        let met = taken > 0 || (read.want == 0 && self.queues(id).recv > 0);
        if read.kind == RecvKind::Recvmsg && met {
            let at = self.stack.tcp_last_data(id);
            for control in self.rx_time_controls(self.files.sock(read.fd)?, at) {
                put_control(&mut reply, read.control_len, control);
            }
        }
        self.with_inq(read, id, reply)
    }
}

/// Adds a control message as far as there is room (`put_cmsg`).
pub(crate) fn put_control(reply: &mut Reply, control_len: usize, mut control: Control) {
    let used: usize = reply.control.iter().map(Control::space).sum();
    let room = control_len.saturating_sub(used);
    let header = control.len() - control.data.len();
    if room < header {
        reply.msg_flags |= MSG_CTRUNC;
        return;
    }
    if room < control.len() {
        reply.msg_flags |= MSG_CTRUNC;
        control.data.truncate(room - header);
    }
    reply.control.push(control);
}

impl Sock {
    /// The next thing that a call on a socket without a connection tells: its error, once.
    pub(crate) const fn take_error(&mut self) -> Option<Errno> {
        self.error.take()
    }
}
