//! Packets of one association that go the same way at the same time: they pass IP, queues and memory as one, with a common header and
//! a checksum each, like TCP's super-packets. A device that does not take them so gets them one by one, at its door.
use super::input::Behind;
use crate::base::pool::Pool;
use crate::base::{Instant, SocketId, Tuple};
use crate::ip::Ingress;
use crate::packet::{Csum, GsoKind, Head, Offload, Owner, Packet};
use crate::sctp::{More, Outgoing, PathId, State};
use crate::socket::{Socket, Turn};
use crate::stack::Stack;
use crate::stack::sctp::input::Arrived;
use bytes::Buf as _;
use lowwater_wire::sctp::{Chunks, HEADER_LEN, chunk_kind};

/// Most bytes of packets that go down as one: an IP packet of any family can say so.
const TRAIN_MAX: usize = 65_000;

impl Stack {
    /// The next packet of an association.
    pub(super) fn sctp_next(&mut self, id: SocketId) -> Option<Outgoing> {
        let Socket::Sctp(sctp) = &mut self.sockets.get_mut(id)?.socket else { return None };
        let out = sctp.assoc.output(&mut self.env.cx(self.now, Some(id)))?;
        if self.env.sysctl.sctp_hb_eager {
            self.sctp_rearm(id);
        }
        Some(out)
    }

    /// Gathers packets that may go down as one with `out`; the one behind them, if it was written already.
    pub(super) fn sctp_gather(&mut self, id: SocketId, out: &mut Outgoing) -> Option<Outgoing> {
        if !self.sctp_goes_on(id, out.path) {
            return None;
        }
        loop {
            let Socket::Sctp(sctp) = &mut self.sockets.get_mut(id)?.socket else { return None };
            let more = sctp.assoc.output_more(&mut self.env.cx(self.now, Some(id)), out, TRAIN_MAX);
            if self.env.sysctl.sctp_hb_eager && !matches!(more, More::Nothing) {
                self.sctp_rearm(id);
            }
            match more {
                More::Joined => {}
                More::Behind(next) => return Some(next),
                More::Nothing => return None,
            }
        }
    }

    /// More may go with what this association sends to this path now. Each datagram, of UDP or of a link, holds one packet.
    fn sctp_goes_on(&self, id: SocketId, path: PathId) -> bool {
        let Ok(assoc) = self.assoc(id) else { return false };
        assoc.carrier().has_addresses()
            && (self.env.sysctl.sctp_udp_port == 0 || assoc.paths().get(path).encap() == 0)
    }

    /// Several packets that came as one. The SACKs that they make due go as one too, and conclusions are drawn once.
    pub(super) fn sctp_train(&mut self, ingress: &Ingress) {
        let all = ingress.payload_bytes(0);
        let size = usize::from(ingress.packet.offload.gso_size).max(HEADER_LEN);
        let checked = ingress.packet.offload.csum == Csum::Valid;
        let mut run = Run { known: None, acks: None, most: all.len() };
        for l4 in all.chunks(size) {
            let behind = Behind { skip: 0, len: l4.len(), encap: 0, checked };
            let chunks = l4.get(HEADER_LEN..).unwrap_or_default();
            let Some(arrived) = self.sctp_arrived(ingress, &behind, l4, chunks) else { continue };
            let flow = self.sctp_in_transfer(&arrived, run.known.as_ref());
            // Another association's packet, or one that may change the paths of this one, finds nothing open.
            if flow != run.known.as_ref().map(|(id, _)| *id) {
                self.sctp_run_ends(&mut run);
            }
            let Some(id) = flow else {
                self.sctp_packet(&arrived);
                continue;
            };
            run.known = Some((id, arrived.tuple));
            self.sctp_run_input(&mut run, id, &arrived);
        }
        self.sctp_run_ends(&mut run);
    }

    fn sctp_run_input(&mut self, run: &mut Run, id: SocketId, arrived: &Arrived<'_>) {
        if !self.sctp_take(id, arrived) {
            return;
        }
        let Some(Socket::Sctp(sctp)) = self.sockets.get_mut(id).map(|e| &mut e.socket) else { return };
        let cx = &mut self.env.cx(self.now, Some(id));
        let Some(acks) = &mut run.acks else {
            run.acks = sctp.assoc.output_sack(cx);
            return;
        };
        if let More::Behind(ack) = sctp.assoc.output_more_sack(cx, acks, run.most) {
            let before = core::mem::replace(acks, ack);
            self.send_sctp(id, before);
        }
    }

    /// The last of neighbouring packets of one association.
    fn sctp_run_ends(&mut self, run: &mut Run) {
        let Some((id, _)) = run.known.take() else { return };
        if let Some(out) = run.acks.take() {
            self.send_sctp(id, out);
        }
        self.settle_sctp(id, Turn::INPUT);
    }

    /// The association whose DATA or SACK this is, while it has nothing else on its mind. The packet before has been `known`.
    fn sctp_in_transfer(&self, arrived: &Arrived<'_>, known: Option<&(SocketId, Tuple)>) -> Option<SocketId> {
        let first = Chunks::new(arrived.inbound.chunks).next()?.ok()?;
        if !matches!(first.kind(), chunk_kind::DATA | chunk_kind::SACK) {
            return None;
        }
        let same = known.filter(|(_, tuple)| *tuple == arrived.tuple).map(|(id, _)| *id);
        let id = same.or_else(|| self.sctp_flow(arrived.tuple.local(), arrived.tuple.remote()))?;
        (self.assoc(id).ok()?.state() == State::Established).then_some(id)
    }
}

/// Neighbouring packets of one association in what came as one.
struct Run {
    /// Whose they are.
    known: Option<(SocketId, Tuple)>,
    /// The SACKs that they have made due.
    acks: Option<Outgoing>,
    /// Bytes that the SACKs may have as one.
    most: usize,
}

/// What goes to IP: one packet has its common header in the head, several have theirs in the payload. What is left of the page goes
/// back.
pub(super) fn sealed_packet(pool: &mut Pool, out: Outgoing, owner: Option<Owner>, at: Instant) -> Packet {
    let (mut head, mut bytes) = (Head::new(), out.bytes);
    pool.restore(bytes.split_off(bytes.len()));
    if bytes.len() > out.unit {
        let offload =
            Offload { gso: GsoKind::Sctp, gso_size: out.unit as u16, csum: Csum::None, ..Offload::default() };
        return Packet { head, payload: bytes.freeze(), offload, owner, at, priority: None };
    }
    head.prepend(HEADER_LEN).copy_from_slice(&bytes[..HEADER_LEN]);
    bytes.advance(HEADER_LEN);
    Packet { head, payload: bytes.freeze(), offload: Offload::default(), owner, at, priority: None }
}
