//! Reading from an SCTP socket: messages in order, notifications among them (`sctp_recvmsg`).
use super::inbox::{Held, Piece};
use super::layout::layout;
use crate::abi::{
    FIONREAD, IPPROTO_SCTP, MSG_DONTWAIT, MSG_EOR, MSG_ERRQUEUE, MSG_NOTIFICATION, MSG_PEEK,
    SCTP_DATA_IO_EVENT, SCTP_NOTIFICATION, SCTP_NXTINFO, SCTP_RCVINFO, SCTP_SNDRCV, SCTP_UNORDERED,
};
use crate::block::Progress;
use crate::call::{Call, Control, Fd, RecvKind, Reply};
use crate::calls::Answer;
use crate::errno::Errno;
use crate::files::Kind;
use crate::host::Host;
use crate::recv::{Read, put_control};
use lowwater_core::base::{Duration, Error, SocketId};
use lowwater_core::sctp::{Received, RecvInfo};

impl Host {
    pub(super) fn sctp_recv(&mut self, call: &Call, p: &mut Progress) -> Answer {
        let read = Read::of(call)?;
        if read.want == 0 && matches!(read.kind, RecvKind::Read | RecvKind::Readv) {
            return Ok(Some(Reply::ok(0)));
        }
        if read.has(MSG_ERRQUEUE) {
            return Err(Errno::EAGAIN);
        }
        let sock = self.files.sock(read.fd)?;
        let (kind, timeout) = (sock.kind, sock.knobs.rcvtimeo);
        let patient = !(p.hurries(sock.nonblocking, None) || read.has(MSG_DONTWAIT));
        let many = self.sctp(read.fd)?.style.is_many();
        if matches!(kind, Kind::Listener(_)) && !many {
            return Err(Errno::ENOTCONN);
        }
        // What stays, what may come back, and what the next one is told beside, is not cut.
        let stays = read.has(MSG_PEEK) || read.want == 0 || read.good < read.want;
        let whole = stays || self.sctp(read.fd)?.wants.nxtinfo;
        let most = if whole { usize::MAX } else { read.want };
        if let Some(held) = self.sctp_next(read.fd, most)? {
            return self.sctp_received(&read, held).map(Some);
        }
        match kind {
            // The end, which a one-to-many socket never has.
            Kind::Conn(id) if self.sctp_ended(id)? => Ok(Some(Reply::ok(0))),
            _ if !patient => Err(Errno::EAGAIN),
            _ if self.sctp_is_alone(read.fd) && !p.over() && timeout != Some(Duration::ZERO) => {
                Err(Errno::ENOTCONN)
            }
            _ => p.wait(self.now, timeout),
        }
    }

    /// The peer sends nothing more, and nothing waits to be read.
    ///
    /// # Errors
    /// What ended the association, once.
    fn sctp_ended(&mut self, id: SocketId) -> Result<bool, Errno> {
        match self.stack.sctp_recv(self.now, id, 0) {
            Ok(received) => Ok(received.is_none()),
            Err(Error::WouldBlock) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Nobody can send anything to this socket, now or later (`sctp_wait_for_packet`).
    fn sctp_is_alone(&self, fd: Fd) -> bool {
        let listens = self.files.sock(fd).is_ok_and(|sock| sock.kind.listener().is_some());
        !listens && self.first_assoc_of(fd).is_none()
    }

    /// A message whose rest does not come any more is not read any more.
    pub(super) fn sctp_look_at_begun(&mut self, fd: Fd) {
        if let Ok(sctp) = self.sctp(fd)
            && let Some(begun) = sctp.inbox.begun()
            && !self.stack.sctp_is_inside(begun.id, begun.tsn)
            && let Ok(sctp) = self.sctp_mut(fd)
        {
            sctp.inbox.comes_no_more();
        }
    }

    /// The next piece of any association, `most` bytes at the most, in the order in which they came. Ends and errors stay where they are.
    fn sctp_next(&mut self, fd: Fd, most: usize) -> Result<Option<Held>, Errno> {
        self.sctp_look_at_begun(fd);
        let many = self.sctp(fd)?.style.is_many();
        loop {
            let inbox = &mut self.sctp_mut(fd)?.inbox;
            if let Some(held) = inbox.pop() {
                return Ok(Some(held));
            }
            let next = if many { inbox.first() } else { self.first_assoc_of(fd) };
            let Some(id) = next else { return Ok(None) };
            match self.sctp_take(fd, id, most)? {
                // Whoever told of something may have nothing any more.
                None if many && self.sctp_mut(fd)?.inbox.note(id, None) => {}
                None => return Ok(None),
                Some(mut pieces) => {
                    let Some(first) = pieces.next() else { continue };
                    let inbox = &mut self.sctp_mut(fd)?.inbox;
                    for other in pieces.rev() {
                        inbox.put_back(other);
                    }
                    return Ok(Some(first));
                }
            }
        }
    }

    /// Takes what is next of an association, in the pieces that the socket's reader gets of it, perhaps none; `None` where nothing waits.
    fn sctp_take(
        &mut self,
        fd: Fd,
        id: SocketId,
        most: usize,
    ) -> Result<Option<impl DoubleEndedIterator<Item = Held> + use<>>, Errno> {
        if !self.stack.sctp_has_input(id) {
            return Ok(None);
        }
        let Ok(Some(received)) = self.stack.sctp_recv(self.now, id, most) else { return Ok(None) };
        let (tsn, eor) = match &received {
            Received::Data { info, eor, .. } => (Some(info.tsn), *eor),
            Received::Notification(_) => (None, true),
        };
        let arrival = self.stack.sctp_arrival(id);
        let pieces = self.sctp_held(fd, id, received).into_iter();
        let sctp = self.sctp_mut(fd)?;
        sctp.inbox.was_read(id, tsn, eor);
        if sctp.style.is_many() {
            sctp.inbox.note(id, arrival);
        }
        Ok(Some(pieces))
    }

    /// What comes behind what is read, for SCTP_NXTINFO.
    fn sctp_peek_next(&mut self, fd: Fd) -> Result<Option<Held>, Errno> {
        let next = self.sctp_next(fd, usize::MAX)?;
        if let Some(next) = &next {
            self.sctp_mut(fd)?.inbox.put_back(next.clone());
        }
        Ok(next)
    }

    /// ioctl(2): the length of what is read next; `None` for a socket that is not SCTP's (`sctp_ioctl`).
    pub(crate) fn sctp_ioctl(&mut self, fd: Fd, request: i32) -> Option<Result<Reply, Errno>> {
        let sock = self.files.sock(fd).ok()?;
        let listens = sock.kind.listener().is_some();
        let style = sock.sctp.as_ref()?.style;
        Some(match request {
            _ if listens && !style.is_many() => Err(Errno::ENOTCONN),
            FIONREAD => self.sctp_peek_next(fd).map(|next| {
                let len = next.map_or(0, |next| next.piece.bytes.len());
                let value = i32::try_from(len).unwrap_or(i32::MAX).to_ne_bytes();
                Reply { value: value.to_vec().into(), ..Reply::ok(0) }
            }),
            _ => Err(Errno::ENOTTY),
        })
    }

    fn sctp_received(&mut self, read: &Read, held: Held) -> Result<Reply, Errno> {
        let taken = held.piece.bytes.len().min(read.want);
        if taken > read.good {
            self.sctp_mut(read.fd)?.inbox.put_back(held);
            return Err(Errno::EFAULT);
        }
        let whole = taken == held.piece.bytes.len();
        let ends = if whole && held.piece.eor { MSG_EOR } else { 0 };
        let notified = if held.piece.info.is_none() { MSG_NOTIFICATION } else { 0 };
        let mut reply = Reply { msg_flags: ends | notified, ..Reply::ok(taken as i64) };
        if held.piece.info.is_some() && read.kind == RecvKind::Recvmsg {
            for one in self.sctp_controls(read.fd, &held)? {
                put_control(&mut reply, read.control_len, one);
            }
        }
        let sock = self.files.sock(read.fd)?;
        reply.addr = held.peer.map(|peer| sock.shown(peer));
        reply.data = held.piece.bytes.slice(..taken);
        if read.has(MSG_PEEK) {
            self.sctp_mut(read.fd)?.inbox.put_back(held);
        } else if !whole {
            let rest = Piece { bytes: held.piece.bytes.slice(taken..), ..held.piece };
            self.sctp_mut(read.fd)?.inbox.put_back(Held { piece: rest, ..held });
        }
        Ok(reply)
    }

    /// What comes with a message, in Linux's order (`sctp_recvmsg`).
    fn sctp_controls(&mut self, fd: Fd, held: &Held) -> Result<Vec<Control>, Errno> {
        let mut all = Vec::new();
        if self.sctp(fd)?.wants.nxtinfo
            && let Some(next) = self.sctp_peek_next(fd)?
        {
            all.push(nxtinfo(&next));
        }
        if self.sctp(fd)?.wants.rcvinfo {
            all.extend(rcvinfo(held));
        }
        if self.sctp(fd)?.manner.events.has(SCTP_DATA_IO_EVENT) {
            all.extend(sndrcvinfo(held));
        }
        Ok(all)
    }
}

const fn flags(info: &RecvInfo) -> u64 {
    if info.unordered { SCTP_UNORDERED as u64 } else { 0 }
}

fn control(ty: i32, name: &str, numbers: &[(&str, u64)]) -> Control {
    let data = layout(name).map_or_else(Vec::new, |of| of.build(numbers));
    Control { level: IPPROTO_SCTP, ty, data: data.into() }
}

/// `sctp_ulpevent_read_nxtinfo`: also of a notification.
fn nxtinfo(next: &Held) -> Control {
    let (stream, flags, ppid) = match next.piece.info {
        Some(info) => (info.stream.into(), flags(&info), info.ppid.to_be().into()),
        None => (0, SCTP_NOTIFICATION as u64, 0),
    };
    let numbers = [
        ("nxt_sid", stream),
        ("nxt_flags", flags),
        ("nxt_ppid", ppid),
        ("nxt_length", next.piece.bytes.len() as u64),
        ("nxt_assoc_id", next.assoc.into()),
    ];
    control(SCTP_NXTINFO, "sctp_nxtinfo", &numbers)
}

/// `sctp_ulpevent_read_rcvinfo`. The payload protocol identifier is the application's, byte for byte.
fn rcvinfo(held: &Held) -> Option<Control> {
    let info = held.piece.info?;
    let numbers = [
        ("rcv_sid", info.stream.into()),
        ("rcv_ssn", info.ssn.into()),
        ("rcv_flags", flags(&info)),
        ("rcv_ppid", info.ppid.to_be().into()),
        ("rcv_tsn", info.tsn.into()),
        ("rcv_context", held.context.into()),
        ("rcv_assoc_id", held.assoc.into()),
    ];
    Some(control(SCTP_RCVINFO, "sctp_rcvinfo", &numbers))
}

/// `sctp_ulpevent_read_sndrcvinfo`.
fn sndrcvinfo(held: &Held) -> Option<Control> {
    let info = held.piece.info?;
    let numbers = [
        ("sinfo_stream", info.stream.into()),
        ("sinfo_ssn", info.ssn.into()),
        ("sinfo_flags", flags(&info)),
        ("sinfo_ppid", info.ppid.to_be().into()),
        ("sinfo_tsn", info.tsn.into()),
        ("sinfo_context", held.context.into()),
        ("sinfo_assoc_id", held.assoc.into()),
    ];
    Some(control(SCTP_SNDRCV, "sctp_sndrcvinfo", &numbers))
}
