//! INIT ACK and COOKIE ACK at the side that opens (RFC 9260 sections 5.1 B, C and E, 5.2.3, 5.2.5).
use super::{Inbound, one_cause};
use crate::base::limits::SCTP_PATHS_MAX;
use crate::base::{Cx, DropWhy, Error};
use crate::sctp::assoc::{Assoc, Notice, draw_tag};
use crate::sctp::blue::{self, BlueAnswer};
use crate::sctp::handshake::cookie::Ticket;
use crate::sctp::handshake::init::{Addresses, Offer, Refusal, WINDOW_MIN};
use crate::sctp::notification::{AssocChange, Subscriptions, Why};
use crate::sctp::output::bundle::TlvList;
use crate::sctp::pending::Pending;
use crate::sctp::receiver::Receiver;
use crate::sctp::sender::Sender;
use crate::sctp::state::State;
use crate::sctp::tsn::Tsn;
use bytes::Bytes;
use core::net::IpAddr;
use lowwater_wire::sctp::{Cause, Init, Tlvs};

impl Assoc {
    /// An INIT ACK, the only chunk of its packet; `None` for one that is too short. What answers it beside the association, which has
    /// no tag of the peer's to do so.
    ///
    /// # Errors
    /// A wrong tag.
    pub fn on_init_ack(
        &mut self,
        cx: &mut Cx<'_>,
        inbound: &Inbound<'_>,
        init: Option<&Init<'_>>,
    ) -> Result<Option<BlueAnswer>, DropWhy> {
        if inbound.vtag != self.id.tags.0 {
            return Err(DropWhy::SctpTag);
        }
        if self.state != State::CookieWait {
            // One that comes late is dropped (section 5.2.3).
            return Ok(None);
        }
        cx.count.sctp.in_ctrl_chunks += 1;
        self.owner.counting.add(|c| (c.ipackets, c.ictrlchunks) = (c.ipackets + 1, c.ictrlchunks + 1));
        // There is nobody whose tag an ABORT could have but ourselves (section 3.3.3; Linux `sctp_sf_abort_violation`).
        let Some(init) = init.filter(|init| init.initiate_tag != 0) else {
            let why = if init.is_some() {
                Cause::InvalidMandatory
            } else {
                Cause::ProtocolViolation(b"chunk length")
            };
            let causes = one_cause(&why);
            self.refuse_peer(cx, &causes);
            return Ok(Some(blue::reflect(inbound.vtag, &causes)));
        };
        let offer = match Offer::read(init, true, self.options.features.over(self.id.carrier)) {
            Ok(offer) => offer,
            Err(Refusal(causes)) => {
                // A window that is too small changes nothing, and INIT goes again (section 3.3.3).
                if init.a_rwnd >= WINDOW_MIN || !offers_streams(init) {
                    self.refuse_peer(cx, &causes);
                }
                return Ok(Some(blue::refuse(init.initiate_tag, &causes)));
            }
        };
        self.begin_cookie(cx, inbound, offer);
        Ok(None)
    }

    /// What the peer offers cannot be taken. An ABORT with these causes goes to where that came from, which may be no path (section 6.4).
    fn refuse_peer(&mut self, cx: &mut Cx<'_>, causes: &[u8]) {
        cx.count.sctp.aborteds += 1;
        self.finish(cx, AssocChange::CannotStart, Some(Error::Refused), Why::we(causes));
        self.pending = Pending::default();
    }

    /// The INIT ACK is good: its cookie goes back.
    fn begin_cookie(&mut self, cx: &Cx<'_>, inbound: &Inbound<'_>, offer: Offer) {
        let outbound = self.options.num_ostreams.min(offer.inbound);
        let instreams = self.options.max_instreams.min(offer.outbound);
        let from = inbound.from;
        // Who names his addresses has no others, whatever the application thought (Linux `sctp_process_init`); the one that this came from
        // is his too, and has a place whatever he names, for the cookie goes there.
        let others = offer.addresses.iter().copied().filter(|ip| *ip != from);
        let named: Addresses = core::iter::once(from).chain(others).take(SCTP_PATHS_MAX).collect();
        self.paths.keep(&named);
        self.paths.add(from, true, &self.options);
        if let Some(path) = self.paths.find(from) {
            self.paths.get_mut(path).set_encap(inbound.encap);
        }
        self.adopt(&offer, outbound, instreams);
        self.keep_paths(&named, Some(from));
        let answered = self.paths.primary();
        let unknown = unknown_causes(&offer);
        let Some(opening) = &mut self.opening else { return };
        let sample = opening.sent_at.take().map(|at| cx.now.since(at));
        self.tx.out.move_to(answered);
        opening.tries = 0;
        opening.cookie = offer.cookie.unwrap_or_default();
        opening.report = unknown;
        opening.path = answered;
        let path = self.paths.get_mut(answered);
        if let Some(rtt) = sample {
            path.rto.sample_prompt(&self.options.rto, rtt);
        }
        self.timers.stop_handshake();
        self.set_state(State::CookieEchoed);
        self.pending.set(Pending::COOKIE_ECHO);
    }

    /// The peer has these addresses and no others; `primary` is where it was heard. The paths that stay may have other indices than
    /// before, so that whatever names one names the primary path now, and HEARTBEATs from before are not answered.
    fn keep_paths(&mut self, named: &[IpAddr], primary: Option<IpAddr>) {
        if let Some(id) = primary.and_then(|ip| self.paths.find(ip)) {
            self.paths.set_primary(id);
        }
        self.paths.keep(named);
        let primary = self.paths.primary();
        (self.pending.reply_path, self.pending.shutdown_path, self.rx.path) = (primary, primary, primary);
        self.pending.forget_echoes();
    }

    pub(super) fn on_cookie_ack(&mut self, cx: &mut Cx<'_>) {
        if self.state != State::CookieEchoed {
            return;
        }
        let sample = self.opening.as_ref().and_then(|opening| Some((opening.sent_at?, opening.path)));
        if let Some((at, id)) = sample {
            let path = self.paths.get_mut(id);
            path.rto.sample_prompt(&self.options.rto, cx.now.since(at));
            path.update_rate(cx);
        }
        self.establish(cx);
        self.close_again(cx);
    }

    /// The handshake of both sides at once is complete by the peer's cookie (section 5.2.4, action B), or by the one that we know
    /// (action D). False where it is not taken: then what lies behind it is not for this association.
    #[must_use]
    pub fn on_own_cookie(&mut self, cx: &mut Cx<'_>, ticket: &Ticket, collision: bool) -> bool {
        let opening = self.state.is_opening();
        if self.state == State::Closed {
            return false;
        }
        if opening {
            self.adopt(&ticket.offer(), ticket.streams.0, ticket.streams.1);
            self.establish(cx);
        } else if collision {
            // Another instance of the peer, whose INIT crossed ours too: its numbers are others, also where we were closing, which goes on
            // then (section 5.2.4 B; Linux `sctp_assoc_update`).
            self.on_restart(cx, ticket);
            return true;
        }
        self.pending.clear(Pending::INIT | Pending::COOKIE_ECHO);
        self.pending.set(Pending::COOKIE_ACK);
        self.close_again(cx);
        true
    }

    /// The peer has started anew (section 5.2.4, action A): everything but the socket and what waits to be read begins again.
    pub fn on_restart(&mut self, cx: &mut Cx<'_>, ticket: &Ticket) {
        if self.state == State::Closed {
            return;
        }
        let tell = self.options.events.contains(Subscriptions::PARTIAL_DELIVERY);
        let partial = self.rx.streams.is_partial();
        self.rx.streams.restart(tell);
        self.id.tags = ticket.tags;
        // Tie-tags are those of the moment: cookies from before are good for nothing.
        self.id.ties = (draw_tag(cx), draw_tag(cx));
        (self.id.tsn, self.id.peer_tsn) = ticket.tsns;
        self.fail_messages(0);
        self.tx = Sender::new(Tsn::initial(ticket.tsns.0), ticket.streams.0);
        self.tx.peer_rwnd = ticket.peer_rwnd;
        // Taken out behind the notifications of the messages that failed.
        let streams = core::mem::take(&mut self.rx.streams);
        let (peer_tsn, inbound) = (Tsn::initial(ticket.tsns.1), ticket.streams.1);
        self.rx = Receiver { streams, ..Receiver::new(peer_tsn, inbound, &self.options) };
        self.id.features = ticket.features;
        self.errors = 0;
        // What the peer has now is what its INIT names (Linux `sctp_assoc_update`); none of that is new (section 5.2.2).
        self.keep_paths(&ticket.addresses, None);
        for (_, path) in self.paths.iter_mut() {
            path.on_restart(&self.options);
        }
        self.timers.stop_shutdown();
        if self.state != State::Established {
            self.set_state(State::Established);
        }
        self.pending.clear_all();
        self.pending.set(Pending::COOKIE_ACK);
        // The INIT came from there, and what answered it has arrived.
        if let Some(id) = ticket.addresses.first().and_then(|ip| self.paths.find(*ip)) {
            let change = self.paths.on_alive(id, false);
            self.path_change(id, change);
        }
        self.note_round_trip(cx, ticket);
        self.paths.choose();
        self.begin_heartbeats(cx);
        if self.options.autoclose_secs > 0 {
            self.timers.set_autoclose(cx.now, self.options.autoclose_secs);
        }
        // A writer that waited for room has it now.
        self.owner.notice.add(Notice::WRITABLE);
        // Also whoever was in the middle of a message, and has something else to read now.
        if partial || self.rx.streams.is_readable() {
            self.owner.notice.add(Notice::READABLE);
        }
        self.assoc_change(AssocChange::Restart, None, 0, Bytes::new());
        // What was out has failed: nothing is left to be sent.
        self.after_acks(cx);
        self.close_again(cx);
    }

    /// An INIT came while SHUTDOWN ACK is out (section 9.2).
    pub fn repeat_shutdown_ack(&mut self) {
        self.pending.set(Pending::SHUTDOWN_ACK);
    }

    /// A COOKIE ECHO came while SHUTDOWN ACK is out (section 5.2.4): the peer hears that again.
    pub fn on_cookie_in_shutdown(&mut self) {
        self.pending.error(one_cause(&Cause::CookieInShutdown));
        self.pending.set(Pending::SHUTDOWN_ACK | Pending::ACK_BEFORE_ERROR);
    }
}

/// It offers a stream in each direction.
const fn offers_streams(init: &Init<'_>) -> bool {
    init.outbound_streams > 0 && init.inbound_streams > 0
}

/// The causes of the ERROR about parameters that we do not know.
fn unknown_causes(offer: &Offer) -> Bytes {
    let mut all = TlvList::default();
    for bytes in offer.unknown.iter() {
        all.push(bytes.len(), |out| out[..bytes.len()].copy_from_slice(bytes));
    }
    if all.is_empty() {
        return Bytes::new();
    }
    one_cause(&Cause::UnrecognizedParams(Tlvs::new(all.as_slice())))
}
