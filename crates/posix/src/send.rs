//! Writing to a TCP socket: write, writev, send, sendto, sendmsg (`tcp_sendmsg_locked`).
use crate::abi::{
    MSG_DONTWAIT, MSG_EOR, MSG_MORE, MSG_NOSIGNAL, MSG_OOB, MSG_ZEROCOPY, SCM_CREDENTIALS, SCM_DEVMEM_DMABUF,
    SCM_RIGHTS, SO_MARK, SO_PRIORITY, SO_TIMESTAMPING, SO_TIMESTAMPING_NEW, SO_TXTIME, SOL_SOCKET,
};
use crate::block::Progress;
use crate::call::{Call, Control, Fd, Name, Piece, Reply, SendKind, joined};
use crate::calls::{Answer, BYTES_MAX, IOVECS_MAX};
use crate::errno::Errno;
use crate::files::{Attempt, Kind, Sock};
use crate::host::Host;
use crate::timestamping::TX_RECORD;
use bytes::Bytes;
use lowwater_core::base::{Error, SocketId};
use lowwater_core::tcp::{Ready, SendFlags, State};

/// A writing call, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) fd: i32,
    pub(crate) data: Bytes,
    /// Its length, what cannot be read included.
    pub(crate) len: usize,
    /// Some of the data cannot be read, and `data` is what stands before it.
    pub(crate) bad: bool,
    /// A control message that no such socket takes.
    pub(crate) strange: bool,
    /// Some control message names a time at which to leave, for which the socket needs SO_TXTIME.
    timed: bool,
    pub(crate) flags: i32,
    pub(crate) to: Option<Name>,
    /// SOF_TIMESTAMPING_TX_* of this call alone, by a control message.
    pub(crate) stamps: Option<i32>,
    /// Where buffers end that can refer to no more pieces, of a send without a copy.
    cuts: Vec<usize>,
}

impl Write {
    /// # Errors
    /// EINVAL for too many iovecs.
    pub(crate) fn of(call: &Call) -> Result<Self, Errno> {
        let Call::Send { fd, kind, data: pieces, flags, to, control } = call else {
            return Err(Errno::EINVAL);
        };
        if pieces.len() > IOVECS_MAX {
            return Err(if *kind == SendKind::Sendmsg { Errno::EMSGSIZE } else { Errno::EINVAL });
        }
        let first_bad = pieces.iter().position(|piece| matches!(piece, Piece::Bad(len) if *len > 0));
        let bad = first_bad.is_some();
        let len = pieces.iter().fold(0_usize, |sum, piece| sum.saturating_add(piece.len())).min(BYTES_MAX);
        // What goes with a SYN ends where the first cannot be read (`tcp_send_syn_data`); no other call takes anything then.
        let joined = joined(first_bad.and_then(|n| pieces.get(..n)).unwrap_or(pieces));
        let plain = matches!(kind, SendKind::Write | SendKind::Writev);
        let data = joined.slice(..joined.len().min(BYTES_MAX));
        let strange = *kind == SendKind::Sendmsg && control.iter().any(is_strange);
        let timed = *kind == SendKind::Sendmsg && control.iter().any(is_txtime);
        let stamps = control.iter().filter(|c| is_stamps(c)).filter_map(word).next_back();
        let cuts = if *flags & MSG_ZEROCOPY != 0 { cuts(pieces) } else { Vec::new() };
        let flags = if plain { 0 } else { *flags };
        // Of a message a name of no length is none (`__copy_msghdr`).
        let to = to.filter(|to| *kind != SendKind::Sendmsg || *to != Name::Short(0, 0));
        Ok(Self { fd: *fd, data, len, bad, strange, timed, flags, to, stamps, cuts })
    }

    pub(crate) const fn has(&self, flag: i32) -> bool {
        self.flags & flag != 0
    }

    /// It has a control message that this socket does not take (`sock_cmsg_send`).
    pub(crate) const fn is_strange_to(&self, sock: &Sock) -> bool {
        self.strange || (self.timed && sock.knobs.txtime.is_none())
    }

    /// It must not wait.
    pub(crate) fn impatient(&self, sock: &Sock, p: &Progress) -> bool {
        self.has(MSG_DONTWAIT) || p.hurries(sock.nonblocking, sock.knobs.sndtimeo)
    }

    /// Of a call that may wait, and may have done so.
    pub(crate) const fn send_flags(&self, waits: bool, resumed: bool, goes_on: bool) -> SendFlags {
        let (more, eor, oob) = (self.has(MSG_MORE), self.has(MSG_EOR), self.has(MSG_OOB));
        SendFlags { more, eor, oob, waits, resumed, goes_on }
    }

    /// The failure of a writing call: EPIPE comes with SIGPIPE unless the caller does not want it.
    pub(crate) fn fail(&self, errno: Errno) -> Reply {
        let sigpipe = errno == Errno::EPIPE && !self.has(MSG_NOSIGNAL);
        Reply { sigpipe, ..Reply::fail(errno) }
    }
}

/// `__sock_cmsg_send`: of SOL_SOCKET's messages, a mark and a priority are taken (and do nothing), rights and credentials are
/// ignored, the rest needs what is not there. Those of other levels are the protocol's, and TCP looks at none.
fn is_strange(control: &Control) -> bool {
    let int = control.data.len() == 4;
    match control.ty {
        _ if control.level != SOL_SOCKET => false,
        SO_MARK | SO_PRIORITY => !int,
        SCM_RIGHTS | SCM_CREDENTIALS => false,
        // Memory of a device, of which there is none: number 0 says so.
        SCM_DEVMEM_DMABUF => word(control) != Some(0),
        // Streams leave by their pace all the same, and datagrams by none.
        SO_TXTIME => control.data.len() != 8,
        SO_TIMESTAMPING | SO_TIMESTAMPING_NEW => word(control).is_none_or(|flags| flags & !TX_RECORD != 0),
        _ => true,
    }
}

/// Where each 17th piece ends (`MAX_SKB_FRAGS`): a buffer refers to no more, so that the next one begins there (`skb_zerocopy_iter_stream`).
/// Pieces are taken to lie apart and within a page.
fn cuts(pieces: &[Piece]) -> Vec<usize> {
    const FRAGS_MAX: usize = 17;
    let mut end = 0;
    let ends = pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| {
        end += piece.len();
        end
    });
    ends.skip(FRAGS_MAX - 1).step_by(FRAGS_MAX).collect()
}

/// Data may still be written in this state.
const fn may_send(state: State) -> bool {
    matches!(state, State::SynRecv | State::Established | State::CloseWait)
}

const fn is_txtime(control: &Control) -> bool {
    control.level == SOL_SOCKET && control.ty == SO_TXTIME
}

/// A control message with the times that a call asks for.
const fn is_stamps(control: &Control) -> bool {
    control.level == SOL_SOCKET && matches!(control.ty, SO_TIMESTAMPING | SO_TIMESTAMPING_NEW)
}

/// The int that a control message has.
fn word(control: &Control) -> Option<i32> {
    control.data.as_ref().try_into().ok().map(i32::from_ne_bytes)
}

impl Host {
    pub(crate) fn tcp_send(&mut self, call: &Call, p: &mut Progress) -> Answer {
        let write = Write::of(call)?;
        self.begin_zerocopy(&write, p)?;
        let answer = self.tcp_send_now(&write, p);
        self.grow_zerocopy(write.fd);
        let written = match &answer {
            Ok(None) => return answer,
            Ok(Some(reply)) => usize::try_from(reply.ret).unwrap_or(0),
            Err(_) => 0,
        };
        if written > 0 {
            self.mark_write(write.fd, write.stamps, written < write.data.len() && !write.bad);
        }
        self.end_zerocopy(write.fd, p, written);
        answer
    }

    fn tcp_send_now(&mut self, write: &Write, p: &mut Progress) -> Answer {
        self.files.sock(write.fd)?;
        if self.writes_fast(write, p) {
            match self.send_fast(write, p) {
                Ok(None) => {}
                Ok(Some(answer)) => return answer,
                Err(errno) => return Ok(Some(write.fail(errno))),
            }
        }
        let sock = self.files.sock_mut(write.fd)?;
        let Kind::Conn(id) = sock.kind else {
            // What it had written before the connection was dissolved counts (`tcp_sendmsg_locked`).
            if p.done > 0 {
                return Ok(Some(Reply::ok(p.done as i64)));
            }
            let errno = sock.take_error().unwrap_or(Errno::EPIPE);
            return Ok(Some(write.fail(errno)));
        };
        let (shut, waits) = (sock.shut & 2 != 0, self.waits_to_connect(write.fd, id));
        let sock = self.files.sock(write.fd)?;
        let (patient, timeout) = (!write.impatient(sock, p), sock.knobs.sndtimeo);
        // After the handshake and before anything else (`sock_cmsg_send`).
        let open = !waits && self.stack.tcp_state(id).is_ok_and(may_send);
        if open && write.is_strange_to(sock) {
            if !p.begun || p.first {
                self.stack.tcp_refuse_write(self.now, id)?;
            }
            return Err(Errno::EINVAL);
        }
        if p.done > 0 && (p.over() || self.stack.tcp_ready(self.now, id).contains(Ready::ERR)) {
            // An error stays for whoever asks next (`sk_stream_wait_memory`).
            self.stack.tcp_end_write(self.now, id, write.send_flags(patient, true, true))?;
            return Ok(Some(Reply::ok(p.done as i64)));
        }
        // What was shut down before the connection began is shut down in it, too.
        if shut && !waits {
            let errno = self.stack.take_error(id).map_or(Errno::EPIPE, Errno::from);
            return Ok(Some(write.fail(errno)));
        }
        if p.begun && patient && !waits && !p.over() && self.stack.tcp_ends_wait_for_room(id) == Some(false) {
            // Woken by something else: the tail of the queue takes no more, either.
            return p.wait(self.now, timeout);
        }
        match self.send_some(id, (write, patient), p) {
            Ok(_) if write.bad && !p.over() => return Err(Errno::EFAULT),
            Ok(n) => p.done += n,
            Err(Error::WouldBlock) if p.done < write.data.len() || write.data.is_empty() || write.bad => {}
            Err(Error::WouldBlock) => return Ok(Some(Reply::ok(p.done as i64))),
            Err(_) if p.done > 0 => return Ok(Some(Reply::ok(p.done as i64))),
            Err(e) => return Ok(Some(write.fail(e.into()))),
        }
        if p.done >= write.data.len() && !waits && !write.bad {
            return Ok(Some(Reply::ok(p.done as i64)));
        }
        if !patient || p.over() {
            if waits && p.begun {
                self.end_wait_to_write(write.fd, id)?;
            }
            let nothing = if p.interrupted { Errno::EINTR } else { Errno::EAGAIN };
            return if p.done > 0 { Ok(Some(Reply::ok(p.done as i64))) } else { Err(nothing) };
        }
        if waits {
            // The last ACK of the handshake may ride on what waits here.
            self.stack.tcp_expect_write(self.now, id, true)?;
        }
        p.wait(self.now, timeout)
    }

    /// Nothing can be written before the handshake that connect() began is through, by whichever way (`sk_stream_wait_connect`); a child of
    /// Fast Open need not wait.
    pub(crate) fn waits_to_connect(&self, fd: Fd, id: SocketId) -> bool {
        match self.stack.tcp_state(id) {
            Ok(State::SynSent) => true,
            Ok(State::SynRecv) => self.files.sock(fd).is_ok_and(|sock| sock.attempt != Attempt::None),
            _ => false,
        }
    }

    fn send_some(
        &mut self,
        id: SocketId,
        (write, patient): (&Write, bool),
        p: &mut Progress,
    ) -> Result<usize, Error> {
        let rest = write.data.get(p.done..).unwrap_or_default();
        // What cannot be read fails as a whole once there is room for it.
        if write.bad && !p.over() {
            return self
                .stack
                .tcp_find_room(self.now, id, write.send_flags(patient, p.begun, p.done > 0))
                .map(|()| 0);
        }
        // Who has waited long enough does not try again, though there may be room by now; the state of the connection comes first
        // (`sk_stream_wait_memory`).
        let rest = if p.over() { &[] } else { rest };
        let cuts = if p.zerocopy.is_some() { write.cuts.as_slice() } else { &[] };
        let resumed = p.begun && !core::mem::take(&mut p.first);
        let (mut done, mut flags) = (0, write.send_flags(patient, resumed, p.done > 0));
        for cut in cuts.iter().filter(|cut| **cut > p.done && **cut < write.data.len()) {
            let part = rest.get(done..cut - p.done).unwrap_or_default();
            let ends = SendFlags { more: false, eor: true, ..flags };
            match self.stack.tcp_send(self.now, id, part, ends) {
                Ok(n) if n == part.len() => {
                    done += n;
                    (flags.resumed, flags.goes_on) = (true, true);
                }
                Ok(n) => return Ok(done + n),
                Err(_) if done > 0 => return Ok(done),
                Err(e) => return Err(e),
            }
        }
        match self.stack.tcp_send(self.now, id, rest.get(done..).unwrap_or_default(), flags) {
            Err(_) if done > 0 => Ok(done),
            sent => sent.map(|n| done + n),
        }
    }
}
