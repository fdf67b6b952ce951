//! Calls that change something about an association while it runs. None of them may cost a message.
use crate::app::Io;
use lowwater_core::base::SocketId;
use lowwater_core::base::sysctl::SctpCongestionKind;
use std::net::IpAddr;

/// Does one of them. What the stack refuses is refused: the errors say nothing about messages.
pub(super) fn act(io: &mut Io<'_>, id: SocketId, peers: &[IpAddr], may_fail: bool) {
    let now = io.now;
    let peer = peers[io.rng.below(peers.len() as u64) as usize];
    let streams = [io.rng.below(4) as u16, io.rng.below(12) as u16];
    let some = &streams[..io.rng.below(3) as usize];
    let stack = io.core.stack_mut();
    let draw = io.rng.next_u32();
    match io.rng.below(9) {
        0 => drop(stack.sctp_set_primary(now, id, peer)),
        1 => drop(stack.sctp_heartbeat(now, id, peer)),
        2 | 3 => drop(stack.sctp_reset_streams(now, id, some, (draw & 1 == 0, draw & 6 == 0))),
        4 => drop(stack.sctp_reset_association(now, id)),
        5 => drop(stack.sctp_add_streams(now, id, (draw & 3) as u16, (draw >> 2 & 3) as u16)),
        6 => {
            let Ok(mut options) = stack.sctp_path_options(id, peer) else { return };
            options.hb_interval_ms = 10 << (draw % 12);
            options.pf_retrans = (draw >> 8 & 3) as u16;
            if may_fail {
                options.max_retrans = (draw >> 10 & 7) as u16;
            }
            let _ = stack.sctp_set_path(now, id, peer, options);
        }
        7 => {
            let Ok(mut options) = stack.sctp_options(id).cloned() else { return };
            options.nodelay = draw & 1 == 0;
            options.pacing = draw & 2 == 0;
            options.max_burst = draw >> 2 & 7;
            options.sack_freq = 1 + (draw >> 5 & 3);
            let kinds = [SctpCongestionKind::Rfc9260, SctpCongestionKind::Cubic, SctpCongestionKind::Bbr];
            options.congestion = kinds[(draw >> 8) as usize % kinds.len()];
            let _ = stack.sctp_set_options(now, id, options);
        }
        _ => drop(stack.sctp_poll_stream(now, id, streams[0])),
    }
}
