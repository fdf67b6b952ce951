//! ABORT and ERROR from the peer (RFC 9260 sections 3.3.7, 3.3.10, 5.2.6, 9.1).
use crate::base::limits::SCTP_NOTES_MAX;
use crate::base::{Cx, Error, Instant};
use crate::sctp::assoc::Assoc;
use crate::sctp::congestion::Cwnd;
use crate::sctp::notification::{AssocChange, Notification, Subscriptions, Why};
use crate::sctp::paths::PathId;
use crate::sctp::pending::Pending;
use crate::sctp::state::State;
use bytes::Bytes;
use lowwater_wire::sctp::{Cause, Tlvs, padded};

/// INITs that a stale cookie may lead to.
const STALE_MAX: u8 = 8;

/// Most milliseconds beyond a round trip by which a cookie should live longer (section 5.2.6).
const PRESERVE_BEYOND_MS: u32 = 1_000;

impl Assoc {
    pub(super) fn on_abort(&mut self, cx: &mut Cx<'_>, causes: Tlvs<'_>) {
        let error = if self.state.is_opening() { Error::Refused } else { Error::Reset };
        cx.count.sctp.aborteds += 1;
        self.finish(cx, self.failure(), Some(error), Why::Peer(Bytes::copy_from_slice(causes.bytes())));
        self.pending = Pending::default();
    }

    pub(super) fn on_error_chunk(&mut self, cx: &mut Cx<'_>, causes: Tlvs<'_>) {
        let stale = causes.into_iter().flatten().find_map(|tlv| match Cause::parse(&tlv) {
            Ok(Cause::StaleCookie(us)) => Some(us),
            _ => None,
        });
        if let Some(us) = stale {
            // In any other state it is discarded (section 5.2.6).
            if self.state == State::CookieEchoed {
                self.on_stale_cookie(cx, us);
            }
            return;
        }
        if !self.state.is_up() || !self.options.events.contains(Subscriptions::REMOTE_ERROR) {
            return;
        }
        // Each is told by itself (Linux `sctp_cmd_process_operr`); an ERROR without any is one too.
        let mut all = causes.into_iter().map_while(Result::ok).take(SCTP_NOTES_MAX);
        let mut next = all.next();
        loop {
            let (cause, mut bytes) = next.map_or((0, Vec::new()), |tlv| (tlv.kind(), tlv.bytes().to_vec()));
            // With its padding (`sctp_ulpevent_make_remote_error`).
            bytes.resize(padded(bytes.len()), 0);
            self.notify(Notification::RemoteError { cause, causes: bytes.into() });
            next = all.next();
            if next.is_none() {
                return;
            }
        }
    }

    /// The cookie came too late: another INIT, with the wish for one that lives longer (section 5.2.6).
    fn on_stale_cookie(&mut self, cx: &mut Cx<'_>, late_us: u32) {
        let Some(opening) = &mut self.opening else { return };
        opening.stale.0 += 1;
        if opening.stale.0 > STALE_MAX {
            cx.count.sctp.aborteds += 1;
            return self.finish(cx, AssocChange::CannotStart, Some(Error::TimedOut), Why::Unsaid);
        }
        // Twice what was missing, as Linux asks for, but no more than the round trip and a second (section 5.2.6).
        let path = self.paths.get(opening.path);
        let rtt = opening.sent_at.map_or(path.rto.round_trip(), |at| cx.now.since(at));
        let most = u32::try_from(rtt.as_millis()).unwrap_or(u32::MAX).saturating_add(PRESERVE_BEYOND_MS);
        opening.stale.1 = (late_us / 1_000).saturating_mul(2).clamp(1, most);
        opening.tries = 0;
        opening.sent_at = None;
        self.timers.stop_handshake();
        // The next INIT ACK brings another tag (Linux `SCTP_CMD_CLEAR_INIT_TAG`).
        self.id.tags.1 = 0;
        self.lose_all();
        self.set_state(State::CookieWait);
        self.pending.clear(Pending::COOKIE_ECHO);
        self.pending.set(Pending::INIT);
    }

    /// The DATA that went with a cookie in vain goes again when another one was taken (Linux `SCTP_RTXR_T1_RTX`). The next INIT ACK may
    /// name other addresses, so that nothing counts for a path until then, and windows begin anew.
    fn lose_all(&mut self) {
        for id in 0..self.paths.len() as PathId {
            let lost = self.tx.out.lose_path(id);
            self.tx.peer_rwnd = self.tx.peer_rwnd.saturating_add(lost);
            let path = self.paths.get_mut(id);
            path.cwnd = Cwnd::new(self.options.congestion, path.pmdcs(), path.remote.is_ipv6());
            (path.timed, path.t3) = (None, Instant::FAR_FUTURE);
        }
    }
}
