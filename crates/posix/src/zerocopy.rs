//! MSG_ZEROCOPY on connections (`msg_zerocopy_realloc`, `msg_zerocopy_complete`): sends are numbered, and the error queue tells when the
//! buffers of each are free. Data is copied all the same, which each notification says.
use crate::abi::{MSG_ZEROCOPY, SO_ZEROCOPY, SOL_SOCKET};
use crate::block::Progress as Call;
use crate::call::Fd;
use crate::errno::Errno;
use crate::errqueue::ENTRY_CHARGE;
use crate::files::Kind;
use crate::host::Host;
use crate::send::Write;
use lowwater_core::base::SocketId;
use lowwater_core::tcp::{Piece, Progress, State};
use std::collections::VecDeque;

/// Memory for options and their like that a socket may hold (`net.core.optmem_max` by default): it bounds sends that are under way and
/// notifications that nobody has read.
const OPTMEM_MAX: usize = 131_072;
/// What must be left of it for another one (`SKB_TRUESIZE(0)`).
const OPTMEM_LEFT: usize = 576;
/// Bytes that sends may have which share one notification (`byte_limit`), and the most such sends.
const SHARED_BYTES: usize = 1 << 19;
const SHARED_MAX: u32 = u16::MAX as u32 - 1;

/// Sends whose buffers are not free yet, and the number of the next one.
#[derive(Clone, Debug, Default)]
pub(crate) struct ZeroCopy {
    next: u32,
    /// In the order of their numbers; at most [`OPTMEM_MAX`] of charge.
    pending: VecDeque<Sending>,
}

/// Sends that share a notification: those whose data stands in one buffer (`struct ubuf_info_msgzc`).
#[derive(Clone, Debug)]
struct Sending {
    low: u32,
    count: u32,
    bytes: usize,
    /// Where the buffer ends that holds it, with what was written behind it before it left: the peer must have all of that, of each part where
    /// it was cut (`skb_split`, `skb_zerocopy_clone`). 0 before there is one.
    until: u64,
    /// Calls that go on writing.
    open: u32,
}

/// Sends whose buffers are free: their numbers, and where the last buffer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) low: u32,
    pub(crate) high: u32,
    pub(crate) until: u64,
}

impl ZeroCopy {
    pub(crate) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// A send of `size` bytes begins; its number. `tail` is where the buffer begins that is not sent yet and could take its data in.
    ///
    /// # Errors
    /// ENOBUFS when too many are under way, or were not read (`unread`).
    fn begin(&mut self, size: usize, tail: Option<u64>, unread: usize) -> Result<u32, Errno> {
        let shares =
            |s: &Sending| tail.is_some_and(|tail| s.until > tail) && s.low.wrapping_add(s.count) == self.next;
        if let Some(last) = self.pending.back_mut().filter(|s| shares(s))
            && last.count < SHARED_MAX
            && last.bytes + size <= SHARED_BYTES
        {
            (last.count, last.bytes, last.open) = (last.count + 1, last.bytes + size, last.open + 1);
        } else if (self.pending.len() + unread) * ENTRY_CHARGE + OPTMEM_LEFT > OPTMEM_MAX {
            return Err(Errno::ENOBUFS);
        } else {
            let new = Sending { low: self.next, count: 1, bytes: size, until: 0, open: 1 };
            self.pending.push_back(new);
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        Ok(number)
    }

    /// The send of this number is over, and its last byte is there. One that has sent nothing does not count
    /// (`msg_zerocopy_put_abort`), unless another one has the next number already.
    fn end(&mut self, number: u32, last: Option<u64>) {
        let holds = |s: &Sending| number.wrapping_sub(s.low) < s.count;
        let Some(at) = self.pending.iter().rposition(holds) else { return };
        let sending = &mut self.pending[at];
        sending.open = sending.open.saturating_sub(1);
        if let Some(last) = last {
            sending.until = sending.until.max(last + 1);
        } else if number.wrapping_add(1) == self.next {
            self.next = number;
            sending.count -= 1;
            if sending.count == 0 {
                self.pending.remove(at);
            }
        }
    }

    /// Those at the front of which the peer has everything before `una`, in order; all of them where the connection is over (`None`).
    pub(crate) fn release(&mut self, una: Option<u64>) -> Vec<Freed> {
        let mut free = Vec::new();
        while let Some(first) = self.pending.front().filter(|s| s.open == 0) {
            if una.is_some_and(|una| una < first.until) {
                break;
            }
            let high = first.low.wrapping_add(first.count).wrapping_sub(1);
            free.push(Freed { low: first.low, high, until: first.until });
            self.pending.pop_front();
        }
        free
    }

    /// Something was written: what waits behind the last byte of a send has joined its buffer, or the part of it that was not sent yet.
    /// `end_of` tells where the buffer ends that waits and holds a place.
    pub(crate) fn grow(&mut self, end_of: impl FnOnce(u64) -> Option<u64>) {
        let until = self.pending.iter().map(|s| s.until).max().unwrap_or(0);
        let Some(end) = until.checked_sub(1).and_then(end_of).filter(|end| *end > until) else { return };
        for sending in self.pending.iter_mut().filter(|s| s.until == until) {
            sending.until = end;
        }
    }
}

impl Host {
    /// A call is about to write: with MSG_ZEROCOPY it gets a number.
    ///
    /// # Errors
    /// ENOBUFS.
    pub(crate) fn begin_zerocopy(&mut self, write: &Write, call: &mut Call) -> Result<(), Errno> {
        let sock = self.files.sock(write.fd)?;
        let asked =
            write.has(MSG_ZEROCOPY) && !write.data.is_empty() && sock.plain(SOL_SOCKET, SO_ZEROCOPY) != 0;
        if call.begun || !asked {
            return Ok(());
        }
        let tail = sock.kind.id().and_then(|id| self.unsent_tail(id)).map(|(start, _)| start);
        let feedback = self.files.sock_mut(write.fd)?.knobs.feedback.get_or_insert_default();
        let unread = feedback.notifications();
        call.zerocopy = Some(feedback.zerocopy.begin(write.data.len(), tail, unread)?);
        self.watched.begin(write.fd);
        Ok(())
    }

    /// Something may have been written to the socket.
    pub(crate) fn grow_zerocopy(&mut self, fd: Fd) {
        let Ok(sock) = self.files.sock_mut(fd) else { return };
        let (kind, feedback) = (sock.kind, sock.knobs.feedback.as_mut());
        if let Some(feedback) = feedback.filter(|f| f.zerocopy.is_waiting())
            && let Kind::Conn(id) = kind
        {
            let waiting = |place| self.stack.tcp_piece(id, place).filter(|piece| piece.sent_at.is_none());
            feedback.zerocopy.grow(|place| waiting(place).map(|piece| piece.end));
        }
    }

    /// The call is over and has written so much.
    pub(crate) fn end_zerocopy(&mut self, fd: Fd, call: &Call, written: usize) {
        let last = self.last_byte(fd, written).filter(|_| written > 0);
        if let Some(number) = call.zerocopy
            && let Some(feedback) = self.files.sock_mut(fd).ok().and_then(|s| s.knobs.feedback.as_mut())
        {
            feedback.zerocopy.end(number, last);
            self.watched.look_at(fd);
        }
    }

    /// Where the last byte is of so many that a call has written to a connection. What goes with a SYN begins behind it, and is queued
    /// when that leaves.
    fn last_byte(&self, fd: Fd, written: usize) -> Option<u64> {
        let Kind::Conn(id) = self.files.sock(fd).ok()?.kind else { return None };
        match self.stack.tcp_state(id) {
            Ok(State::SynSent) => Some(written as u64),
            _ => self.stack.tcp_progress(id).and_then(|p| p.end.checked_sub(1)),
        }
    }

    /// The last buffer of a connection that is not sent yet: where it begins and ends (`tcp_write_queue_tail`).
    pub(crate) fn unsent_tail(&self, id: SocketId) -> Option<(u64, u64)> {
        self.tail(id).filter(|piece| piece.sent_at.is_none()).map(|piece| (piece.start, piece.end))
    }

    /// What of the last bytes that were written goes together, or has gone.
    pub(crate) fn tail(&self, id: SocketId) -> Option<Piece> {
        let last = self.stack.tcp_progress(id)?.end.checked_sub(1)?;
        self.stack.tcp_piece(id, last)
    }

    /// How far a connection is; `None` once it is over and nothing of it will be acknowledged any more.
    pub(crate) fn live_progress(&self, id: SocketId) -> Option<Progress> {
        let over = matches!(self.stack.tcp_state(id), Ok(State::Close) | Err(_));
        self.stack.tcp_progress(id).filter(|_| !over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(freed: Vec<Freed>) -> Vec<(u32, u32)> {
        freed.into_iter().map(|f| (f.low, f.high)).collect()
    }

    #[test]
    fn sends_share_a_buffer_that_waits_and_a_failed_one_has_no_number() {
        let mut z = ZeroCopy::default();
        assert_eq!(z.begin(100, None, 0), Ok(0));
        z.end(0, Some(100));
        assert_eq!(z.begin(100, Some(1), 0), Ok(1), "the buffer is not sent yet");
        z.end(1, None);
        assert_eq!(z.begin(100, Some(1), 0), Ok(1), "the number of the one that has sent nothing");
        z.end(1, Some(200));
        assert_eq!(z.begin(SHARED_BYTES, Some(1), 0), Ok(2), "too long to share");
        z.end(2, Some(300));
        assert_eq!(z.begin(1, None, 0), Ok(3));
        assert_eq!(numbers(z.release(Some(200))), [], "its last byte is at 200");
        assert_eq!(numbers(z.release(Some(301))), [(0, 1), (2, 2)], "the last one goes on writing");
        z.end(3, Some(301));
        assert_eq!(numbers(z.release(None)), [(3, 3)], "the connection is over");
        assert!(!z.is_waiting());
    }

    #[test]
    fn what_is_written_behind_a_send_belongs_to_its_buffer_wherever_that_is_cut() {
        let mut z = ZeroCopy::default();
        z.grow(|place| panic!("nothing was sent, and {place} was looked for"));
        z.begin(1, None, 0).expect("room");
        z.end(0, Some(10));
        z.begin(1, None, 0).expect("room");
        z.end(1, Some(20));
        z.grow(|place| (place == 20).then_some(50));
        assert_eq!(numbers(z.release(Some(49))), [(0, 0)], "the buffer ends at 50");
        assert_eq!(z.begin(1, Some(40), 0), Ok(2), "its front has left, to 40");
        z.end(2, Some(50));
        z.grow(|place| (place == 50).then_some(60));
        assert_eq!(numbers(z.release(Some(59))), []);
        z.grow(|_| None);
        assert_eq!(numbers(z.release(Some(60))), [(1, 2)], "one buffer");
    }

    #[test]
    fn a_call_that_fails_while_another_one_writes_keeps_its_number() {
        let mut z = ZeroCopy::default();
        assert_eq!((z.begin(1, None, 0), z.begin(1, None, 0)), (Ok(0), Ok(1)));
        z.end(0, None);
        z.end(1, Some(1));
        assert_eq!(numbers(z.release(Some(2))), [(0, 0), (1, 1)]);
        assert_eq!(z.begin(1, None, 0), Ok(2));
    }

    #[test]
    fn sends_under_way_and_notifications_that_nobody_reads_are_bounded() {
        let most = (OPTMEM_MAX - OPTMEM_LEFT) / ENTRY_CHARGE + 1;
        let mut z = ZeroCopy::default();
        for n in 0..most as u32 {
            assert_eq!(z.begin(1, None, 0), Ok(n));
            z.end(n, Some(u64::from(n)));
        }
        assert_eq!(z.begin(1, None, 0), Err(Errno::ENOBUFS));
        assert_eq!(z.release(Some(u64::MAX)).len(), most);
        assert_eq!(z.begin(1, None, most), Err(Errno::ENOBUFS));
        assert_eq!(z.begin(1, None, most - 1), Ok(most as u32));
    }
}
