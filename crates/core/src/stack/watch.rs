//! What goes down where nobody could look before and after: a connection that sends before its turn, and each packet of an association.
//! Kept for a checker that asks for it; without one it costs a branch. It keeps no more than [`WITNESSED_MAX`] of them, and says so.
use super::Stack;
use crate::base::{Instant, SocketId};
use crate::path::pacing::Status;
use crate::sctp::Outgoing;
use crate::socket::Socket;
use crate::tcp::{Bounds, OwnQueue, SentPacket};
use lowwater_wire::sctp::{Chunks, HEADER_LEN, chunk_kind};

/// Most that is kept for a checker who does not ask.
pub const WITNESSED_MAX: usize = 1 << 16;

/// What went down, in its order.
#[derive(Clone, Debug)]
pub enum Witnessed {
    /// A connection has sent before its turn ([`Stack`]'s `send_now`).
    Early(Box<Early>),
    /// An association's turn to send begins.
    Turn(AssocTurn),
    /// It has sent a packet with data.
    Data(DataPacket),
    /// What went down from here on until somebody asked was not kept: [`WITNESSED_MAX`].
    Lost,
}

/// A connection that has sent before its turn.
#[derive(Clone, Debug)]
pub struct Early {
    /// Which one.
    pub socket: SocketId,
    /// When.
    pub at: Instant,
    /// What bounded it before, and its own queue.
    pub was: (Bounds, Option<OwnQueue>),
    /// The same behind it.
    pub now: (Bounds, Option<OwnQueue>),
    /// What has left, among others that had left before.
    pub packets: Vec<SentPacket>,
}

/// An association's turn to send.
#[derive(Clone, Debug)]
pub struct AssocTurn {
    /// Whose.
    pub socket: SocketId,
    /// A packet of what goes again asks neither window nor pace (RFC 9260 section 7.2.4, rule 3).
    pub fast: bool,
}

/// A packet of an association that has data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataPacket {
    /// Whose.
    pub socket: SocketId,
    /// When it went down.
    pub at: Instant,
    /// The number of its path among all that the association ever had.
    pub path: u8,
    /// Bytes of its chunks.
    pub bytes: u32,
    /// TSN of its first chunk of data.
    pub tsn: u32,
    /// When it may leave; what goes with others may when they may.
    pub departs: Instant,
    /// It is the first of those that go together.
    pub leads: bool,
    /// Bytes a second, whether or not the path is paced.
    pub rate: u64,
    /// Who paces it.
    pub by: Status,
}

impl Stack {
    /// From now on the stack keeps what [`Self::witnessed`] tells; for checkers alone, who must ask often, or some of it is lost.
    pub fn watch(&mut self) {
        self.down.watch.get_or_insert_default();
    }

    /// What has gone down since this was last asked.
    pub fn witnessed(&mut self) -> Vec<Witnessed> {
        self.down.watch.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// How a connection stands, where somebody watches.
    pub(super) fn watched(&self, id: SocketId) -> Option<(Bounds, Option<OwnQueue>)> {
        self.down.watch.as_ref()?;
        match &self.sockets.get(id)?.socket {
            Socket::Tcp(conn) => Some((conn.bounds(), conn.own_queue(self.now))),
            _ => None,
        }
    }

    /// A connection that stood so has sent before its turn.
    pub(super) fn watch_early(&mut self, socket: SocketId, was: Option<(Bounds, Option<OwnQueue>)>) {
        let Some((was, now)) = was.zip(self.watched(socket)) else { return };
        if was.0.pace.handed == now.0.pace.handed {
            return;
        }
        let packets = self.sent_from(socket, 0).collect();
        if let Some(watch) = &mut self.down.watch {
            let at = self.now;
            keep(watch, Witnessed::Early(Box::new(Early { socket, at, was, now, packets })));
        }
    }

    /// An association's turn begins.
    pub(super) fn watch_turn(&mut self, socket: SocketId) {
        let Some(watch) = &mut self.down.watch else { return };
        if let Some(Socket::Sctp(sctp)) = self.sockets.get(socket).map(|entry| &entry.socket) {
            let fast = sctp.assoc.may_send_fast();
            keep(watch, Witnessed::Turn(AssocTurn { socket, fast }));
        }
    }

    /// An association sends these packets.
    pub(super) fn watch_chunks(&mut self, socket: SocketId, out: &Outgoing) {
        let Some(watch) = &mut self.down.watch else { return };
        let Some(Socket::Sctp(sctp)) = self.sockets.get(socket).map(|entry| &entry.socket) else { return };
        let path = sctp.assoc.paths().get(out.path);
        for (place, packet) in out.bytes.chunks(out.unit.max(1)).enumerate() {
            let chunks = packet.get(HEADER_LEN..).unwrap_or_default();
            let data = |kind| [chunk_kind::DATA, chunk_kind::I_DATA].contains(&kind);
            let first = Chunks::new(chunks).flatten().find(|chunk| data(chunk.kind()));
            let Some(tsn) = first.and_then(|chunk| chunk.value().first_chunk().copied()) else { continue };
            let packet = DataPacket {
                socket,
                at: self.now,
                path: path.number(),
                bytes: chunks.len() as u32,
                tsn: u32::from_be_bytes(tsn),
                departs: out.depart_at,
                leads: place == 0,
                rate: path.flow.pacing.rate(),
                by: path.flow.pacing.status(),
            };
            keep(watch, Witnessed::Data(packet));
        }
    }
}

/// Keeps it while there is room, the last of which says that there is none.
fn keep(watch: &mut Vec<Witnessed>, witnessed: Witnessed) {
    match watch.len() {
        len if len < WITNESSED_MAX - 1 => watch.push(witnessed),
        len if len < WITNESSED_MAX => watch.push(Witnessed::Lost),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_ask_is_told_that_something_is_lost() {
        let turn = || {
            let turn = AssocTurn { socket: SocketId::default(), fast: false };
            Witnessed::Turn(turn)
        };
        let mut watch = Vec::new();
        (0..WITNESSED_MAX + 9).for_each(|_| keep(&mut watch, turn()));
        assert_eq!(watch.len(), WITNESSED_MAX);
        let lost = |witnessed: &Witnessed| matches!(witnessed, Witnessed::Lost);
        assert_eq!(watch.iter().position(lost), Some(WITNESSED_MAX - 1));
    }
}
