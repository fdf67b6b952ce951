//! Urgent data as a receiver: one byte out of band and the mark where it was (RFC 9293 section 3.8.5, RFC 6093; `tcp_urg`).
use super::Receiver;
use crate::base::{Error, Sysctl};
use crate::tcp::segment::Segment;
use crate::tcp::seq::Seq;
use lowwater_wire::tcp::TcpFlags;

/// The byte that the urgent pointer names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Byte {
    /// No pointer, or the stream was read past it.
    #[default]
    None,
    /// The pointer came, the byte did not (`TCP_URG_NOTYET`).
    Awaited,
    /// It can be read (`TCP_URG_VALID`).
    Here(u8),
    /// It was read out of band, and its place in the stream still is the mark (`TCP_URG_READ`).
    Read,
}

/// The mark in the stream. There is only one: a later pointer takes the place of an earlier one.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp) struct Urgent {
    seq: Seq,
    byte: Byte,
    /// SO_OOBINLINE: the byte stays in the stream.
    inline: bool,
}

impl Urgent {
    pub(super) const fn new() -> Self {
        Self { seq: Seq(0), byte: Byte::None, inline: false }
    }

    pub(super) fn is_set(&self) -> bool {
        self.byte != Byte::None
    }
}

impl Receiver {
    /// SO_OOBINLINE.
    pub(in crate::tcp) const fn set_oob_inline(&mut self, on: bool) {
        self.urgent.inline = on;
    }

    /// A segment whose acknowledgement was processed and whose data was not: takes the pointer and the byte it names
    /// (`tcp_check_urg`, `tcp_urg`). True when the byte has come.
    pub(in crate::tcp) fn on_urgent(&mut self, sysctl: &Sysctl, seg: &Segment) -> bool {
        if seg.has(TcpFlags::URG) {
            self.point(sysctl, seg);
        }
        if self.urgent.byte != Byte::Awaited {
            return false;
        }
        let data = seg.seq + u32::from(seg.has(TcpFlags::SYN));
        let mut at = self.urgent.seq.since(data) as usize;
        for piece in &seg.payload {
            if let Some(&byte) = piece.get(at) {
                self.urgent.byte = Byte::Here(byte);
                return true;
            }
            at -= piece.len();
        }
        false
    }

    fn point(&mut self, sysctl: &Sysctl, seg: &Segment) {
        // RFC 1122 lets the pointer name the byte itself, everybody else the one behind it.
        let back = u32::from(seg.urgent > 0 && !sysctl.tcp_stdurg);
        let at = seg.seq + (u32::from(seg.urgent) - back);
        let copied = self.intake.copied_seq();
        if copied.after(at)
            || at.before(self.intake.nxt())
            || (self.urgent.is_set() && !at.after(self.urgent.seq))
        {
            return;
        }
        if self.at_mark() && !self.urgent.inline && self.intake.queue.readable_bytes() > 0 {
            // The byte under the old mark is no data; with the mark gone nothing would tell.
            self.intake.queue.skip(1);
        }
        self.urgent = Urgent { seq: at, byte: Byte::Awaited, ..self.urgent };
        self.set_foreseen(false);
    }

    /// There is a mark that was not read past yet (`urg_data`).
    pub(in crate::tcp) fn has_mark(&self) -> bool {
        self.urgent.is_set()
    }

    /// SIOCATMARK: the next byte to read is the urgent one, or was. The peer's FIN counts as one that was read once its reader has met it.
    #[must_use]
    pub fn at_mark(&self) -> bool {
        let met_fin = u32::from(self.intake.queue.fin_read());
        self.urgent.is_set() && self.urgent.seq == self.intake.copied_seq() + met_fin
    }

    /// Nothing but the urgent byte, which is no data, waits before the peer's FIN.
    #[must_use]
    pub fn ends_behind_mark(&self) -> bool {
        self.fin_reached() && self.urgent_bytes() > 0 && self.readable_bytes() == self.urgent_bytes()
    }

    /// Urgent data can be read (`EPOLLPRI`).
    #[must_use]
    pub fn has_urgent(&self) -> bool {
        matches!(self.urgent.byte, Byte::Here(_))
    }

    /// MSG_OOB: the urgent byte; `None` when it has not come yet. With `peek` it stays (`tcp_recv_urg`).
    ///
    /// # Errors
    /// [`Error::Invalid`] without a pointer, when the byte was read already, or when it belongs to the stream.
    pub(in crate::tcp) fn recv_urgent(&mut self, peek: bool) -> Result<Option<u8>, Error> {
        match self.urgent.byte {
            _ if self.urgent.inline => Err(Error::Invalid),
            Byte::None | Byte::Read => Err(Error::Invalid),
            Byte::Awaited => Ok(None),
            Byte::Here(byte) => {
                if !peek {
                    self.urgent.byte = Byte::Read;
                }
                Ok(Some(byte))
            }
        }
    }

    /// Bytes that an application may ask about: up to the mark, where that lies ahead (`tcp_inq`).
    #[must_use]
    pub fn inq(&self) -> u32 {
        let ahead = self.urgent.seq.since(self.intake.copied_seq());
        let marked = self.urgent.is_set() && !self.urgent.inline && self.urgent.seq.before(self.intake.nxt());
        if marked && ahead < 1 << 31 { ahead } else { self.intake.queue.readable_bytes() }
    }

    /// Bytes that wait before the urgent mark, where that has not been passed, or will come.
    #[must_use]
    pub fn to_mark(&self) -> Option<u32> {
        let ahead = self.urgent.seq.since(self.intake.copied_seq());
        Some(ahead).filter(|ahead| self.urgent.is_set() && *ahead < 1 << 31)
    }

    /// How far a read may go that wants `max` bytes: whether it must step over the urgent byte first, and how many bytes follow.
    /// A read ends before the mark, so that the mark can be noticed (`tcp_recvmsg_locked`); one that looks from `skip` on may begin behind it.
    pub(super) fn up_to_mark(&self, skip: u32, max: usize) -> (bool, usize) {
        if !self.urgent.is_set() {
            return (false, max);
        }
        match self.urgent.seq.since(self.intake.copied_seq() + skip) {
            0 => (!self.urgent.inline && self.intake.queue.readable_bytes() > skip, max),
            ahead if ahead < 1 << 31 => (false, max.min(ahead as usize)),
            _ => (false, max),
        }
    }

    /// Something was read: behind the mark it is forgotten.
    pub(super) fn leave_mark(&mut self) {
        if self.urgent.is_set() && self.intake.copied_seq().after(self.urgent.seq) {
            self.urgent.byte = Byte::None;
            self.foresee();
        }
    }

    /// A byte that waits and is no data.
    pub(super) fn urgent_bytes(&self) -> u32 {
        u32::from(self.at_mark() && !self.urgent.inline)
    }
}
