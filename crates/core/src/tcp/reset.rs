//! Resets for segments that no connection wants (RFC 9293 section 3.10.7.1).
use super::segment::{Outgoing, Segment};
use crate::base::Tuple;
use lowwater_wire::tcp::{TcpFlags, TcpOptions, TcpRepr};

/// The reset that answers `seg` where there is no connection; `None` when `seg` is itself a reset.
#[must_use]
pub fn reset_for(tuple: &Tuple, seg: &Segment) -> Option<Outgoing> {
    if seg.has(TcpFlags::RST) {
        return None;
    }
    let (seq, ack, flags) = if seg.has(TcpFlags::ACK) {
        (seg.ack.0, 0, TcpFlags::RST)
    } else {
        (0, (seg.seq + seg.seq_len()).0, TcpFlags::RST | TcpFlags::ACK)
    };
    let out = Outgoing::control(TcpRepr {
        src_port: tuple.local_port,
        dst_port: tuple.remote_port,
        seq,
        ack,
        flags,
        window: 0,
        urgent: 0,
        options: TcpOptions::default(),
    });
    Some(out.in_answer_to(seg))
}
