//! The window that the peer offers, and what was sent into it (RFC 9293 section 3.3.1: SND.WND, SND.WL1).
use super::PathCaps;
use super::label::Label;
use super::output::autosize::gso_payload_max;
use super::seq::Seq;
use crate::base::Sysctl;
use crate::base::limits::GSO_MAX_SIZE;

/// Send-side variables that belong neither to loss recovery nor to the path.
#[derive(Clone, Debug)]
pub(super) struct SendWindow {
    /// SND.WND in bytes, unscaled.
    pub(super) wnd: u32,
    /// SND.WL1: sequence number of the segment that updated the window last.
    pub(super) wl1: Seq,
    /// End of the last small segment sent, for Minshall's form of Nagle's algorithm.
    pub(super) sml: Seq,
    /// Write sequence number of the last PSH that was set because half of the largest window was filled.
    pub(super) pushed: Seq,
    /// Where in the stream what was pushed out ended (`output/within.rs`), when a write last found the buffer full.
    pub(super) full_from: u64,
    /// What the packet that was given last leaves to a writer, where the queue below takes it.
    pub(super) room: Room,
    /// SND.UP: one behind the last urgent byte (`snd_up`); SND.UNA when there is none.
    pub(super) up: Seq,
    /// The largest super-packet of the device that the route leads to.
    pub(super) gso: Gso,
    /// Flow labels, ours and the peer's.
    pub(super) label: Label,
}

/// Bounds of a super-packet (`sk_gso_max_size`, `sk_gso_max_segs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gso {
    /// One less than its bytes, which are 65,536 at most.
    last_byte: u16,
    pub(super) max_segs: u16,
}

impl Gso {
    /// The largest that a device takes, while none is known.
    const LARGEST: Self = Self { last_byte: (GSO_MAX_SIZE - 1) as u16, max_segs: u16::MAX };

    pub(super) fn of(caps: &PathCaps) -> Self {
        let last_byte = u16::try_from(caps.gso_max_size.saturating_sub(1)).unwrap_or(u16::MAX);
        Self { last_byte, max_segs: caps.gso_max_segs }
    }

    /// Bytes with headers. Where the device takes no super-packet it is 1, which has room for none either.
    pub(super) const fn max_size(self) -> u32 {
        self.last_byte as u32 + 1
    }

    /// Bytes of payload.
    pub(super) const fn payload_max(self, sysctl: &Sysctl) -> u32 {
        gso_payload_max(sysctl, self.max_size())
    }
}

/// What a packet of new data leaves to a writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Room {
    /// Nothing, or the writer knows.
    #[default]
    None,
    /// Room in the send buffer, which may grow as well.
    Grows,
    /// Room in the send buffer.
    Stays,
}

impl SendWindow {
    pub(super) const fn new(wnd: u32, wl1: Seq, iss: Seq) -> Self {
        Self {
            wnd,
            wl1,
            sml: iss,
            pushed: iss,
            full_from: 0,
            room: Room::None,
            up: iss,
            gso: Gso::LARGEST,
            label: Label::FIRST,
        }
    }

    /// Takes the window of an acceptable ACK (RFC 9293 section 3.10.7.4; `tcp_ack_update_window`).
    pub(super) fn update(&mut self, una: Seq, ack: Seq, seq: Seq, wnd: u32) -> Update {
        let taken =
            ack.after(una) || seq.after(self.wl1) || (seq == self.wl1 && (wnd > self.wnd || wnd == 0));
        if !taken {
            return Update::default();
        }
        self.wl1 = seq;
        let changed = core::mem::replace(&mut self.wnd, wnd) != wnd;
        Update { taken, changed }
    }
}

/// What an ACK said of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Update {
    /// It is news, even of the same size: such an ACK is no duplicate (`FLAG_WIN_UPDATE`).
    pub(super) taken: bool,
    /// SND.WND is another one now.
    pub(super) changed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_segment_does_not_change_the_window() {
        let mut w = SendWindow::new(1_000, Seq(10), Seq(0));
        let (old, same) = (Update::default(), Update { taken: true, changed: false });
        let new = Update { taken: true, changed: true };
        assert_eq!(w.update(Seq(5), Seq(5), Seq(9), 2_000), old, "seq before wl1, nothing new acknowledged");
        assert_eq!(w.update(Seq(5), Seq(5), Seq(10), 2_000), new, "same segment, larger window");
        assert_eq!(w.update(Seq(5), Seq(5), Seq(10), 500), old, "same segment, smaller window: reordered");
        assert_eq!(w.update(Seq(5), Seq(6), Seq(10), 500), new, "new data acknowledged");
        assert_eq!(w.wnd, 500);
        assert_eq!(w.update(Seq(6), Seq(6), Seq(11), 500), same, "behind data of the peer");
        let closed = w.update(Seq(6), Seq(6), Seq(11), 0);
        assert_eq!(closed, new, "same segment, closed: probes find out (`tcp_may_update_window`)");
    }
}
