//! What becomes of packets that do not go on to the device, and of credit that comes back before they do.
use crate::packet::{Owner, Packet};

/// The end of a packet inside of a queueing discipline. Each says something else to the flow that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It found no place and was never in the queue: not sent. The flow reduces once per window.
    Refused,
    /// It was in the queue and was given up on purpose, by an AQM or to make room: congestion that the sender can hear of at
    /// once, without a duplicate acknowledgement.
    Dropped,
    /// It was lost on a network that is emulated here. Whoever sent it must find out as if it had been lost far away.
    Lost,
}

/// Where a queueing discipline puts what it gives up. The stack carries the fates out and empties it.
#[derive(Debug, Default)]
pub struct Gone {
    /// Packets and their ends, in the order in which they ended.
    pub packets: Vec<(Packet, Fate)>,
    /// Owners whose packets go on without them: for the flow they have left this host.
    pub released: Vec<Owner>,
    /// Owners of pieces that found no place where others of the same packet did: they never leave.
    pub parts: Vec<Owner>,
    /// Owners of packets that were cut into several, and by how many bytes the charge has grown with that: told before anything else.
    pub grown: Vec<(Owner, u32)>,
}

impl Gone {
    /// Nothing to carry out.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.packets.is_empty() && self.released.is_empty() && self.parts.is_empty() && self.grown.is_empty()
    }

    pub(super) fn refuse(&mut self, packet: Packet) {
        self.packets.push((packet, Fate::Refused));
    }

    pub(super) fn drop(&mut self, packet: Packet) {
        self.packets.push((packet, Fate::Dropped));
    }

    pub(super) fn lose(&mut self, mut packet: Packet) {
        self.release(&mut packet);
        self.packets.push((packet, Fate::Lost));
    }

    /// The packet goes on as if it had left this host (`skb_orphan`).
    pub(super) fn release(&mut self, packet: &mut Packet) {
        self.released.extend(packet.owner.take());
    }

    /// Of what was refused since there were `from` packets here, a part of the same packet was taken: the whole counts as taken, and
    /// nobody hears of the rest (`tbf_segment`), whose credit comes back.
    pub(super) fn release_refused(&mut self, from: usize) {
        for (packet, _) in self.packets[from..].iter_mut().filter(|(_, fate)| *fate == Fate::Refused) {
            self.parts.extend(packet.owner.take());
        }
    }

    /// All that was refused since there were `from` packets here are the pieces of one packet, whose `owner` hears of it once.
    pub(super) fn refuse_whole(&mut self, from: usize, owner: Option<Owner>) {
        let pieces = self.packets[from..].iter_mut().filter(|(_, fate)| *fate == Fate::Refused);
        let mut owner = owner;
        for (packet, _) in pieces.rev() {
            packet.owner = owner.take();
        }
    }
}
