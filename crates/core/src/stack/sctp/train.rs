//! Packets of one association that go the same way at the same time: they pass IP, queues and memory as one, with a common header and
//! a checksum each, like TCP's super-packets. A device that does not take them so gets them one by one, at its door.
use super::input::Behind;
use crate::base::{Instant, SocketId};
use crate::ip::Ingress;
use crate::packet::{Csum, GsoKind, Head, Offload, Owner, Packet};
use crate::sctp::{Assoc, Outgoing, PathId, State};
use crate::socket::{Socket, Turn};
use crate::stack::Stack;
use crate::stack::sctp::input::Arrived;
use lowwater_wire::sctp::{Chunks, HEADER_LEN, SctpRepr, chunk_kind, fill_checksum};

/// Most bytes of packets that go down as one: an IP packet of any family can say so.
const TRAIN_MAX: usize = 65_000;

impl Stack {
    /// The next packet of an association.
    pub(super) fn sctp_next(&mut self, id: SocketId) -> Option<Outgoing> {
        let Socket::Sctp(sctp) = &mut self.sockets.get_mut(id)?.socket else { return None };
        let mut out = sctp.assoc.output(&mut self.env.cx(self.now, Some(id)))?;
        seal(&sctp.assoc, &mut out);
        if self.env.sysctl.sctp_hb_eager {
            self.sctp_rearm(id);
        }
        Some(out)
    }

    /// Gathers packets that may go down as one with `out`; the one behind them, if it was written already.
    pub(super) fn sctp_gather(&mut self, id: SocketId, out: &mut Outgoing) -> Option<Outgoing> {
        let mut other = None;
        while other.is_none() && out.charge > 0 && !out.fragment && self.sctp_goes_on(id, out.path) {
            let Some(next) = self.sctp_next(id) else { break };
            other = out.join(next, TRAIN_MAX).err();
        }
        other
    }

    /// More may go with what this association sends to this path now. Each datagram, of UDP or of a link, holds one packet.
    fn sctp_goes_on(&self, id: SocketId, path: PathId) -> bool {
        let Ok(assoc) = self.assoc(id) else { return false };
        assoc.goes_on(path)
            && assoc.carrier().has_addresses()
            && (self.env.sysctl.sctp_udp_port == 0 || assoc.paths().get(path).encap() == 0)
    }

    /// Several packets that came as one. The SACKs that they make due go as one too, and conclusions are drawn once.
    pub(super) fn sctp_train(&mut self, ingress: &Ingress) {
        let all = ingress.payload(0);
        let size = usize::from(ingress.packet.offload.gso_size).max(HEADER_LEN);
        let checked = ingress.packet.offload.csum == Csum::Valid;
        let (mut known, mut acks): (Option<SocketId>, Option<Outgoing>) = (None, None);
        for at in (0..all.len()).step_by(size) {
            let l4 = &all[at..all.len().min(at + size)];
            let behind = Behind { skip: 0, len: l4.len(), encap: 0, checked };
            let chunks = all.slice(at + l4.len().min(HEADER_LEN)..at + l4.len());
            let Some(arrived) = self.sctp_arrived(ingress, &behind, l4, chunks) else { continue };
            let flow = self.sctp_in_transfer(&arrived);
            // Another association's packet, or one that may change the paths of this one, finds nothing open.
            if flow != known {
                self.sctp_train_ends(known.take(), acks.take());
            }
            let Some(id) = flow else {
                self.sctp_packet(&arrived);
                continue;
            };
            known = flow;
            let Some(ack) = self.sctp_assoc_input(id, &arrived) else { continue };
            acks = match acks.take() {
                None => Some(ack),
                Some(mut before) => match before.join(ack, all.len()) {
                    Ok(()) => Some(before),
                    Err(ack) => {
                        self.send_sctp(id, before);
                        Some(ack)
                    }
                },
            };
        }
        self.sctp_train_ends(known, acks);
    }

    /// The last of neighbouring packets of one association.
    fn sctp_train_ends(&mut self, id: Option<SocketId>, acks: Option<Outgoing>) {
        let Some(id) = id else { return };
        if let Some(out) = acks {
            self.send_sctp(id, out);
        }
        self.settle_sctp(id, Turn::INPUT);
    }

    /// The association whose DATA or SACK this is, while it has nothing else on its mind.
    fn sctp_in_transfer(&self, arrived: &Arrived) -> Option<SocketId> {
        let first = Chunks::new(&arrived.inbound.chunks).next()?.ok()?;
        if !matches!(first.kind(), chunk_kind::DATA | chunk_kind::SACK) {
            return None;
        }
        let id = self.sctp_flow(arrived.tuple.local(), arrived.tuple.remote())?;
        (self.assoc(id).ok()?.state() == State::Established).then_some(id)
    }
}

/// Writes the common header, checksum included, in front of the chunks.
pub(super) fn seal(assoc: &Assoc, out: &mut Outgoing) {
    let ports = assoc.ports();
    let header = SctpRepr { src_port: ports.0, dst_port: ports.1, vtag: out.vtag };
    header.emit(&mut out.bytes);
    // The field is zero so far, which stands for none (RFC 9653).
    if !assoc.omits_crc(&out.bytes[HEADER_LEN..]) {
        fill_checksum(&mut out.bytes, &[]);
    }
}

/// What goes to IP: one packet has its common header in the head, several have theirs in the payload.
pub(super) fn sealed_packet(mut out: Outgoing, owner: Option<Owner>, at: Instant) -> Packet {
    let mut head = Head::new();
    if out.bytes.len() > out.unit {
        let offload = Offload { gso: GsoKind::Sctp, gso_size: out.unit as u16, csum: Csum::None };
        return Packet { head, payload: out.bytes.freeze(), offload, owner, at };
    }
    head.prepend(HEADER_LEN).copy_from_slice(&out.bytes.split_to(HEADER_LEN));
    Packet { head, payload: out.bytes.freeze(), offload: Offload::default(), owner, at }
}
