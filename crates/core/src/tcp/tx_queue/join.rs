//! Small segments that are sent again as one.
use super::{Sent, TxQueue, flag};
use bytes::BytesMut;

impl TxQueue {
    /// Joins to the record at `start`, where it is shorter than `space` bytes, those behind it that are single segments as it is, up to
    /// `space` bytes in all and to `edge`, the end of the window, and tells `each` where one started and ended and its marks. Nothing is
    /// joined behind a FIN or the end of a record of the application, nor what is sacked; a FIN, which takes no space, goes along with
    /// what fills it (`tcp_retrans_try_collapse`). Every byte is copied once, however many there are.
    pub fn join_following(
        &mut self,
        start: u64,
        (space, edge): (usize, u64),
        each: &mut dyn FnMut(u64, u64, u16),
    ) {
        let short = |record: &&Sent| record.segs == 1 && record.payload.len() < space;
        let Some(record) = self.sent.get(&start).filter(short) else { return };
        let (mut len, mut flags, mut end) = (record.payload.len(), record.flags, start + record.span());
        let first_behind = end;
        for next in self.sent.range(end..).map(|(_, next)| next) {
            let closed = flags & (flag::SYN | flag::FIN | flag::EOR) != 0;
            if closed
                || next.has(flag::SACKED)
                || next.segs > 1
                || len + next.payload.len() > space
                || end + next.span() > edge
            {
                break;
            }
            len += next.payload.len();
            flags |= next.flags & (flag::EVER_RETRANS | flag::PUSH | flag::FIN | flag::EOR);
            end += next.span();
        }
        if end == first_behind {
            return;
        }
        let mut whole = BytesMut::with_capacity(len);
        whole.extend_from_slice(&record.payload);
        let mut at = first_behind;
        while at < end {
            let Some(next) = self.sent.remove(&at) else { break };
            whole.extend_from_slice(&next.payload);
            let begin = at;
            at += next.span();
            each(begin, at, next.flags);
        }
        if let Some(record) = self.sent.get_mut(&start) {
            record.payload = whole.freeze();
            record.flags = flags;
        }
        self.on_changed(start, end);
    }

    /// Joins the records from the one at `start` to `end` to one of as many segments; what of the first is acknowledged is left out, and
    /// the segments are counted from there. The change in their number. What the queue cannot afford to copy, beside the `copied` bytes of
    /// earlier calls, stays apart.
    pub fn join_range(&mut self, start: u64, end: u64, copied: &mut usize) -> i32 {
        let stands = start.max(self.una);
        let Some(first) = self.sent.get(&start) else { return 0 };
        // An acknowledgement that ended within a segment of a longer packet has cut it already.
        let cut = stands > start
            || (stands == self.una && first.payload.len() % usize::from(first.mss.max(1)) != 0);
        let len = end.saturating_sub(stands) as usize;
        let alone = !cut && start + first.span() >= end;
        if alone || !self.affords_copy(*copied + len) {
            return 0;
        }
        *copied += len;
        let mut whole = BytesMut::with_capacity(len);
        let (mut segs, mut flags, mut at) = (0, 0, start);
        let mut head = None;
        while let Some(next) = (at < end).then(|| self.sent.remove(&at)).flatten() {
            let acked = (stands.saturating_sub(at) as usize).min(next.payload.len());
            whole.extend_from_slice(&next.payload[acked..]);
            segs += i32::from(next.segs);
            flags |= next.flags;
            at += next.span();
            head.get_or_insert(next);
        }
        let Some(mut head) = head else { return 0 };
        (head.payload, head.flags) = (whole.freeze(), flags);
        head.segs = u16::try_from(segs).unwrap_or(u16::MAX);
        if cut {
            let mss = head.mss;
            head.count(mss);
        }
        let delta = i32::from(head.segs) - segs;
        self.sent.insert(stands, head);
        self.on_changed(stands, end);
        delta
    }
}
