//! Reading from an SCTP socket: messages in order, notifications among them (`sctp_recvmsg`).
use super::event::{self, About};
use super::layout::layout;
use super::{Piece, Wants};
use crate::abi::{
    IPPROTO_SCTP, MSG_CTRUNC, MSG_DONTWAIT, MSG_EOR, MSG_ERRQUEUE, MSG_NOTIFICATION, MSG_PEEK, SCTP_RCVINFO,
    SCTP_SNDRCV, SCTP_UNORDERED,
};
use crate::block::Progress;
use crate::call::{Call, Control, Fd, RecvKind, Reply};
use crate::calls::Answer;
use crate::errno::Errno;
use crate::files::Kind;
use crate::host::Host;
use crate::recv::Read;
use lowwater_core::base::{Error, SocketId};
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
        let patient = !(sock.nonblocking || read.has(MSG_DONTWAIT));
        let many = self.sctp(read.fd)?.many;
        if matches!(kind, Kind::Listener(_)) && !many {
            return Err(Errno::ENOTCONN);
        }
        match self.sctp_next(read.fd, read.want)? {
            Some((id, piece)) => self.sctp_received(&read, id, piece).map(Some),
            // The end, which a one-to-many socket never has.
            None if !many && matches!(kind, Kind::Conn(_)) && self.sctp_ended(kind) => Ok(Some(Reply::ok(0))),
            None if !patient => Err(Errno::EAGAIN),
            None => p.wait(self.now, timeout),
        }
    }

    /// The peer sends nothing more.
    fn sctp_ended(&mut self, kind: Kind) -> bool {
        let Some(id) = kind.id() else { return false };
        matches!(self.stack.sctp_recv(self.now, id, 0), Ok(None))
    }

    /// The next piece of any association.
    fn sctp_next(&mut self, fd: Fd, want: usize) -> Result<Option<(SocketId, Piece)>, Errno> {
        if let Some(held) = self.sctp_mut(fd)?.held.pop_front() {
            return Ok(Some(held));
        }
        let many = self.sctp(fd)?.many;
        for id in self.assocs_of(fd) {
            match self.stack.sctp_recv(self.now, id, want.max(1)) {
                Ok(Some(received)) => {
                    return self.sctp_piece(fd, id, received).map(|piece| Some((id, piece)));
                }
                Ok(None) if many => self.sctp_leave(fd, id),
                Ok(None) | Err(Error::WouldBlock) => {}
                Err(_) if many => self.sctp_leave(fd, id),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(None)
    }

    fn sctp_piece(&mut self, fd: Fd, id: SocketId, received: Received) -> Result<Piece, Errno> {
        Ok(match received {
            Received::Data { data, info, eor } => Piece { bytes: data, info: Some(info), eor },
            Received::Notification(notification) => {
                let about = About {
                    assoc: self.assoc_ids.of(id),
                    port: self.stack.peer_addr(id).map_or(0, |peer| peer.port()),
                    v6: self.files.sock(fd)?.v6,
                    failed_event: self.sctp(fd)?.wants.failed_event,
                };
                Piece { bytes: event::bytes(&notification, about), info: None, eor: true }
            }
        })
    }

    fn sctp_received(&mut self, read: &Read, id: SocketId, piece: Piece) -> Result<Reply, Errno> {
        let taken = piece.bytes.len().min(read.want);
        if taken > read.good {
            self.sctp_mut(read.fd)?.held.push_front((id, piece));
            return Err(Errno::EFAULT);
        }
        let whole = taken == piece.bytes.len();
        let mut msg_flags = if whole && piece.eor { MSG_EOR } else { 0 };
        let wants = self.sctp(read.fd)?.wants;
        let mut control = Vec::new();
        match piece.info {
            None => msg_flags |= MSG_NOTIFICATION,
            Some(info) => {
                let all = controls(&info, wants, self.assoc_ids.of(id));
                let mut room = read.control_len;
                for one in all {
                    if read.kind != RecvKind::Recvmsg {
                        break;
                    }
                    if one.space() > room {
                        msg_flags |= MSG_CTRUNC;
                        break;
                    }
                    room -= one.space();
                    control.push(one);
                }
            }
        }
        let addr = self.stack.peer_addr(id).ok();
        let addr = addr.map(|peer| self.files.sock(read.fd).map_or(peer, |sock| sock.shown(peer)));
        let data = piece.bytes.slice(..taken);
        if read.has(MSG_PEEK) {
            self.sctp_mut(read.fd)?.held.push_front((id, piece));
        } else if !whole {
            let rest = Piece { bytes: piece.bytes.slice(taken..), ..piece };
            self.sctp_mut(read.fd)?.held.push_front((id, rest));
        }
        Ok(Reply { data, addr, msg_flags, control, ..Reply::ok(taken as i64) })
    }
}

/// What comes with a message (`sctp_ulpevent_read_rcvinfo`, `sctp_ulpevent_read_sndrcvinfo`).
fn controls(info: &RecvInfo, wants: Wants, assoc: u32) -> Vec<Control> {
    let mut all = Vec::new();
    let flags = if info.unordered { SCTP_UNORDERED as u64 } else { 0 };
    // The payload protocol identifier is the application's, byte for byte.
    let ppid = u64::from(info.ppid.to_be());
    let mut push = |ty, name: &str, numbers: &[(&str, u64)]| {
        let data = layout(name).map_or_else(Vec::new, |of| of.build(numbers));
        all.push(Control { level: IPPROTO_SCTP, ty, data: data.into() });
    };
    if wants.rcvinfo {
        let numbers = [
            ("rcv_sid", info.stream.into()),
            ("rcv_ssn", info.ssn.into()),
            ("rcv_flags", flags),
            ("rcv_ppid", ppid),
            ("rcv_tsn", info.tsn.into()),
            ("rcv_context", wants.context.into()),
            ("rcv_assoc_id", assoc.into()),
        ];
        push(SCTP_RCVINFO, "sctp_rcvinfo", &numbers);
    }
    if wants.sndrcv {
        let numbers = [
            ("sinfo_stream", info.stream.into()),
            ("sinfo_ssn", info.ssn.into()),
            ("sinfo_flags", flags),
            ("sinfo_ppid", ppid),
            ("sinfo_tsn", info.tsn.into()),
            ("sinfo_context", wants.context.into()),
            ("sinfo_assoc_id", assoc.into()),
        ];
        push(SCTP_SNDRCV, "sctp_sndrcvinfo", &numbers);
    }
    all
}
