//! The application reads, and the peer hears of the room (`tcp_recvmsg`, `tcp_cleanup_rbuf`).
use super::{Reader, Receiver};
use crate::base::Cx;
use bytes::Bytes;

impl Receiver {
    /// Copies received bytes from `skip` on, which stay. Returns how many. May make an ACK due, as what waits for a reader leaves after a
    /// look too, and after one that is for nothing.
    pub fn peek(&mut self, cx: &mut Cx<'_>, skip: u32, buf: &mut [u8]) -> usize {
        let (step, max) = self.up_to_mark(skip, buf.len());
        let n = self.intake.queue.peek(skip as usize + usize::from(step), &mut buf[..max]);
        cx.count.own.payload_copied_out += n as u64;
        if n > 0 || (buf.is_empty() && self.intake.queue.readable_bytes() > skip) {
            // A look ends a measure of the reader's pace as a read does, though nothing is taken, and so does who meets data and asks for none
            // of it (`tcp_rcv_space_adjust`).
            self.intake.grow_for_reader(cx);
        }
        self.cleanup(cx, n > 0, self.is_shut());
        n
    }

    /// Copies received bytes. Returns how many. May make an ACK due.
    pub fn recv(&mut self, cx: &mut Cx<'_>, buf: &mut [u8]) -> usize {
        let (step, max) = self.up_to_mark(0, buf.len());
        let buf = &mut buf[..max];
        self.intake.queue.skip(usize::from(step));
        let n = self.intake.queue.recv(buf);
        cx.count.own.payload_copied_out += n as u64;
        self.after_read(cx, (n > 0, false), step);
        n
    }

    /// Takes the next piece without copying, at most `max` bytes. May make an ACK due.
    pub fn read_chunk(&mut self, cx: &Cx<'_>, max: usize) -> Option<Bytes> {
        let (step, max) = self.up_to_mark(0, max);
        self.intake.queue.skip(usize::from(step));
        let piece = self.intake.queue.read_chunk(max);
        // Segments that share a buffer are one to whoever reads on (`tcp_rcv_space_adjust` follows each buffer).
        let within =
            self.intake.queue.is_part_read() && piece.as_ref().is_some_and(|piece| piece.len() < max);
        self.after_read(cx, (piece.is_some(), within), step);
        piece
    }

    /// Discards what waits to be read, not what is held beyond a hole; returns the bytes that nobody read.
    pub fn discard(&mut self) -> u32 {
        self.intake.queue.clear()
    }

    /// Who has stepped over the urgent byte and found nothing behind it has `copied` nothing, of which the peer does not hear; an
    /// acknowledgement that waits for a reader leaves all the same. Who is `within` a buffer reads on.
    fn after_read(&mut self, cx: &Cx<'_>, (copied, within): (bool, bool), step: bool) {
        if copied || step {
            self.leave_mark();
        }
        if copied && !within {
            self.intake.grow_for_reader(cx);
        }
        self.cleanup(cx, copied, self.is_shut());
    }

    /// Nothing more will be read than what is there (`RCV_SHUTDOWN`).
    fn is_shut(&self) -> bool {
        self.reader == Reader::Gone || self.intake.queue.fin_reached()
    }

    /// After a read: acknowledges what waited for it, or tells of a window that opened widely (`tcp_cleanup_rbuf`).
    pub(super) fn cleanup(&mut self, cx: &Cx<'_>, copied: bool, shut: bool) {
        let unacked = self.intake.nxt().since(self.intake.window.wup());
        if self.ack.wants_ack_after_read(unacked, copied, self.intake.charged() == 0) {
            return self.ack.send_now();
        }
        if !copied || shut {
            return;
        }
        let open = self.intake.open_window();
        if 2 * open <= self.intake.window.clamp() {
            let offer = self.offer(cx);
            if offer > 0 && offer >= 2 * open {
                self.ack.send_now();
            }
        }
    }
}
