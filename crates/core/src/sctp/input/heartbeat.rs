//! HEARTBEAT and its answer (RFC 9260 sections 8.3 and 5.4).
use super::Reading;
use crate::base::Cx;
use crate::sctp::assoc::Assoc;
use crate::sctp::paths::PathId;
use bytes::Bytes;
use lowwater_wire::sctp::{Param, RawChunk, Tlvs};

/// Length of what our HEARTBEATs carry: a number that nobody can guess, the path, and which one of those with that number it is.
pub(in crate::sctp) const INFO_LEN: usize = 12;

/// What a HEARTBEAT of ours carries.
pub(in crate::sctp) fn info(nonce: u64, path: PathId, asked: u8) -> [u8; INFO_LEN] {
    let mut out = [0; INFO_LEN];
    out[..8].copy_from_slice(&nonce.to_be_bytes());
    (out[8], out[10]) = (path, asked);
    out
}

/// What a probe of the path MTU carries.
pub(in crate::sctp) fn probe_info(nonce: u64, path: PathId) -> [u8; INFO_LEN] {
    let mut out = info(nonce, path, 0);
    out[9] = 1;
    out
}

impl Assoc {
    /// The peer asks: it gets back what it sent, to where it came from, also where COOKIE ACK was lost (Linux takes both HEARTBEAT and
    /// SACK in COOKIE-ECHOED).
    pub(super) fn on_heartbeat(&mut self, reading: &Reading<'_>, raw: &RawChunk<'_>) {
        if let Some(path) = reading.path
            && self.state.is_answered()
        {
            // A copy: it may wait for long, and would pin a train of packets.
            self.pending.echo(path, Bytes::copy_from_slice(raw.value()));
        }
    }

    /// The peer answers. Only the number that is out counts, so that nobody can make a dead path live; and only the last HEARTBEAT that
    /// has it says what a round trip takes, for when the others were sent nobody knows any more.
    pub(super) fn on_heartbeat_ack(&mut self, cx: &mut Cx<'_>, mut params: Tlvs<'_>) {
        let Some(Ok(Param::HeartbeatInfo(bytes))) =
            params.next().map(|tlv| tlv.and_then(|t| Param::parse(&t)))
        else {
            return;
        };
        let Ok(bytes) = <[u8; INFO_LEN]>::try_from(bytes) else { return };
        let id = bytes[8];
        if usize::from(id) >= self.paths.len() {
            return;
        }
        if bytes[9] != 0 {
            return self.on_probe_ack(cx, id, &bytes);
        }
        let path = self.paths.get_mut(id);
        if path.hb.nonce == 0 || info(path.hb.nonce, id, bytes[10]) != bytes {
            return;
        }
        path.hb.nonce = 0;
        if bytes[10] == path.hb.asked {
            path.rto.sample_prompt(&self.options.rto, cx.now.since(path.hb.asked_at));
            path.update_rate(cx);
        }
        self.on_alive(id, true);
        self.take_up_probing(cx, id);
        self.ask_next(cx);
    }
}
