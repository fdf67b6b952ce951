//! RE-CONFIG: what a peer asks for, and how it answers (RFC 6525 sections 5.2.1 to 5.2.7).
use super::Reading;
use crate::base::Cx;
use crate::sctp::assoc::{Assoc, Notice};
use crate::sctp::message::SendInfo;
use crate::sctp::notification::{Notification, Outcome, ResetWhat, SendFailed, Subscriptions};
use crate::sctp::options::Reconfigurable;
use crate::sctp::pending::Pending;
use crate::sctp::reconfig::{Answer, Ask, Closed, Number, Part, result};
use crate::sctp::state::State;
use lowwater_wire::sctp::{Param, Tlvs, cause_kind};
use smallvec::{SmallVec, smallvec};
use zerocopy::network_endian::U16;

/// A parameter may follow `last` in a RE-CONFIG (section 3.1; Linux `sctp_verify_reconf`).
const fn may_follow(last: Option<&Param<'_>>, param: &Param<'_>) -> bool {
    let Some(last) = last else {
        return matches!(
            param,
            Param::OutgoingReset(..)
                | Param::IncomingReset(..)
                | Param::TsnReset(_)
                | Param::ResetResponse(..)
                | Param::AddOutgoing(..)
                | Param::AddIncoming(..)
        );
    };
    matches!(
        (last, param),
        (Param::OutgoingReset(..), Param::IncomingReset(..) | Param::ResetResponse(..))
            | (Param::IncomingReset(..), Param::OutgoingReset(..))
            | (Param::ResetResponse(..), Param::OutgoingReset(..) | Param::ResetResponse(..))
            | (Param::AddOutgoing(..), Param::AddIncoming(..))
            | (Param::AddIncoming(..), Param::AddOutgoing(..))
    )
}

/// The streams of a list.
fn streams(list: &[U16]) -> Vec<u16> {
    list.iter().map(|stream| stream.get()).collect()
}

impl Assoc {
    /// A RE-CONFIG of two parameters at the most. Nothing of one that breaks the rules is carried out. In SHUTDOWN-SENT it may be the answer to what we
    /// have asked before; and a peer whose SHUTDOWN was lost asks, and has messages that wait for the answer.
    pub(super) fn on_reconfig(&mut self, cx: &mut Cx<'_>, reading: &mut Reading<'_>, tlvs: Tlvs<'_>) {
        if !matches!(self.state, State::Established | State::ShutdownPending | State::ShutdownSent) {
            return;
        }
        let mut params = SmallVec::<[Param<'_>; 2]>::new();
        for tlv in tlvs {
            let param = tlv.and_then(|tlv| Param::parse(&tlv)).ok();
            let good = param.filter(|param| params.len() < 2 && may_follow(params.last(), param));
            let Some(param) = good else { return self.violation(cx, b"parameter of RE-CONFIG") };
            params.push(param);
        }
        for param in &params {
            match param {
                Param::ResetResponse(number, result, next) => self.on_response(cx, *number, *result, *next),
                // Each that waits may cost a walk over all messages: one in a packet is enough, for the next number comes after it.
                _ => reading.waits |= self.on_request(cx, param, reading.waits),
            }
        }
    }

    /// A request: its number decides whether it is new (section 5.2.1). One that cannot be carried out yet keeps its number, and comes
    /// again; then this returns true, and what stands behind it waits too.
    fn on_request(&mut self, cx: &mut Cx<'_>, param: &Param<'_>, waits: bool) -> bool {
        let number = match param {
            Param::OutgoingReset(fixed, _) => fixed.request.get(),
            Param::IncomingReset(number, _)
            | Param::TsnReset(number)
            | Param::AddOutgoing(number, _)
            | Param::AddIncoming(number, _) => *number,
            _ => return false,
        };
        let tsns = matches!(param, Param::TsnReset(_));
        // Such a one is answered by a request of ours.
        let asks = matches!(param, Param::IncomingReset(..) | Param::AddIncoming(..));
        let known = match self.reconf().judge(number) {
            _ if waits => Some(result::IN_PROGRESS),
            Number::Bad => Some(result::BAD_NUMBER),
            Number::Again(result::PERFORMED) if asks => return false,
            Number::Again(result) => Some(result),
            // Nothing begins behind a SHUTDOWN, and what waits at the peer goes under its old numbers.
            Number::Next if self.state == State::ShutdownSent => {
                self.reconf().record(result::DENIED);
                Some(result::DENIED)
            }
            Number::Next => None,
        };
        if let Some(result) = known {
            self.respond(number, result, tsns);
            return waits;
        }
        let result = match param {
            Param::OutgoingReset(fixed, list) => {
                self.on_outgoing_reset(fixed.response.get(), fixed.last_tsn.get(), list)
            }
            Param::IncomingReset(_, list) => self.on_incoming_reset(number, list),
            Param::TsnReset(_) => self.on_tsn_reset(),
            Param::AddOutgoing(_, count) => self.on_add_outgoing(*count),
            Param::AddIncoming(_, count) => self.on_add_incoming(number, *count),
            _ => return false,
        };
        if result != result::IN_PROGRESS {
            self.reconf().record(result);
        }
        if !(asks && result == result::PERFORMED) {
            self.respond(number, result, tsns);
        }
        // What waited may be over.
        self.after_acks(cx);
        result == result::IN_PROGRESS
    }

    /// An answer goes to where the request came from; that to a reset of TSNs, which was carried out, with the numbers that hold now.
    fn respond(&mut self, request: u32, result: u32, tsns: bool) {
        let numbers = (self.tx.out.cum().next().wire(), self.rx.map.cum().next().wire());
        let next = (tsns && result == result::PERFORMED).then_some(numbers);
        self.reconf().answer(Answer { request, result, next });
        self.pending.set(Pending::RECONF_ANSWER);
    }

    /// The owner lets the peer have this done.
    fn allows(&self, right: u8) -> bool {
        self.options.reconfigurable.has(right)
    }

    /// A part of our request is answered; what it was.
    fn settle(&mut self, is: impl Fn(&Part) -> bool) -> Option<Ask> {
        let reconf = self.pending.reconf.as_mut()?;
        let ask = reconf.settle(is)?;
        if reconf.request.is_none() {
            self.pending.clear(Pending::RECONF);
        }
        Some(ask)
    }

    /// The peer's streams begin anew (section 5.2.2), once all that it has sent on them is here.
    fn on_outgoing_reset(&mut self, response: u32, last_tsn: u32, list: &[U16]) -> u32 {
        let cum = self.rx.map.cum();
        if cum.near(last_tsn) > cum {
            return result::IN_PROGRESS;
        }
        if !self.allows(Reconfigurable::STREAMS) {
            return result::DENIED;
        }
        // It may be what we have asked for (E1).
        let is = |part: &Part| part.number == response && matches!(part.ask, Ask::ResetIncoming(_));
        let what = if self.settle(is).is_some() { ResetWhat::IncomingAsked } else { ResetWhat::Incoming };
        if list.iter().any(|stream| stream.get() >= self.rx.inbound) {
            return result::WRONG_SSN;
        }
        let list = streams(list);
        self.rx.streams.reset(&list);
        self.rx.begin_anew(cum, &list);
        self.notify(Notification::StreamReset { what, outcome: Outcome::Done, streams: list });
        result::PERFORMED
    }

    /// The peer asks us to have streams of ours begin anew (section 5.2.3): our request is the answer.
    fn on_incoming_reset(&mut self, number: u32, list: &[U16]) -> u32 {
        if !self.allows(Reconfigurable::STREAMS) {
            return result::DENIED;
        }
        if self.reconf().request.is_some() {
            return result::BUSY;
        }
        if list.iter().any(|stream| stream.get() >= self.tx.streams) {
            return result::WRONG_SSN;
        }
        let list = streams(list);
        if self.tx.queue.has_any_of(&list) {
            return result::IN_PROGRESS;
        }
        if self.ask(smallvec![Ask::ResetOutgoing(list.clone())], number).is_err() {
            return result::DENIED;
        }
        let (what, outcome) = (ResetWhat::OutgoingWanted, Outcome::Done);
        self.notify(Notification::StreamReset { what, outcome, streams: list });
        result::PERFORMED
    }

    /// All numbers begin anew (section 5.2.4), once the peer has acknowledged all that we have sent. Its next TSN is half of the numbers
    /// away from the last, ours stays what it would have been.
    fn on_tsn_reset(&mut self) -> u32 {
        if !self.allows(Reconfigurable::ASSOCIATION) {
            return result::DENIED;
        }
        // Before anything else: what waits for the answer to ours would keep both waiting for ever.
        if self.reconf().request.is_some() {
            return result::BUSY;
        }
        if !self.tx.is_dry() {
            return result::IN_PROGRESS;
        }
        let peers = self.rx.map.cum().wire().wrapping_add(1 << 31);
        let ours = self.tx.out.next_tsn().wire();
        self.restart_numbers(ours, peers, Outcome::Done);
        result::PERFORMED
    }

    /// All numbers begin anew, from these on; who waits for messages may have some, and is told.
    fn restart_numbers(&mut self, ours: u32, peers: u32, outcome: Outcome) {
        let tell = self.options.events.contains(Subscriptions::PARTIAL_DELIVERY);
        self.reset_numbers(ours, peers, tell);
        self.owner.notice.add(Notice::READABLE);
        self.notify(Notification::AssocReset { outcome, local_tsn: peers, remote_tsn: ours });
    }

    /// The peer sends on so many streams more (section 5.2.5).
    fn on_add_outgoing(&mut self, count: u16) -> u32 {
        if !self.allows(Reconfigurable::COUNT) {
            return result::DENIED;
        }
        // It may be what we have asked for. No number says so: as many streams are taken for the answer (Linux: any number of them).
        self.settle(|part| part.ask == Ask::AddIncoming(count));
        let Some(inbound) = self.rx.inbound.checked_add(count).filter(|_| count > 0) else {
            return result::DENIED;
        };
        self.rx.inbound = inbound;
        let outcome = Outcome::Done;
        self.notify(Notification::StreamChange { outcome, incoming: count, outgoing: 0 });
        result::PERFORMED
    }

    /// The peer asks us to add streams that we send on (section 5.2.6): our request is the answer.
    fn on_add_incoming(&mut self, number: u32, count: u16) -> u32 {
        if !self.allows(Reconfigurable::COUNT) {
            return result::DENIED;
        }
        if self.reconf().request.is_some() {
            return result::BUSY;
        }
        let Some(outbound) = self.tx.streams.checked_add(count).filter(|_| count > 0) else {
            return result::DENIED;
        };
        if self.ask(smallvec![Ask::AddOutgoing(count)], number).is_err() {
            return result::DENIED;
        }
        self.tx.streams = outbound;
        let outcome = Outcome::Done;
        self.notify(Notification::StreamChange { outcome, incoming: 0, outgoing: count });
        result::PERFORMED
    }

    /// An answer to a part of our request (section 5.2.7). To what we have asked the peer to ask us for, its request is the answer.
    fn on_response(&mut self, cx: &mut Cx<'_>, number: u32, result: u32, next: Option<(u32, u32)>) {
        let Some(part) = self.pending.reconf.as_ref().and_then(|reconf| reconf.part(number)) else { return };
        let done = result == result::PERFORMED;
        let (ask, last) = (part.ask.clone(), part.last);
        let promise = result == result::IN_PROGRESS;
        let waits = match ask {
            _ if promise => true,
            // It has not been looked at, since what stands before it waits.
            _ if result == result::BAD_NUMBER && !self.is_first_part(number) => true,
            Ask::ResetIncoming(_) | Ask::AddIncoming(_) => done,
            Ask::ResetAll => done && next.is_none(),
            Ask::ResetOutgoing(_) | Ask::AddOutgoing(_) => false,
        };
        // Who answers lives; but what leaves the request open brings a shutdown that waits for it no nearer to its end (`on_reconf_timer`).
        if let Some(path) = self.pending.reconf.as_ref().and_then(|reconf| reconf.path()) {
            let puts_off = waits && self.state == State::ShutdownPending;
            if puts_off { self.on_put_off(path) } else { self.on_alive(path, false) }
        }
        if promise {
            self.on_promise(cx, !matches!(ask, Ask::ResetIncoming(_) | Ask::AddIncoming(_)));
        }
        if waits {
            return;
        }
        let Some(ask) = self.settle(|part| part.number == number) else { return };
        let outcome = match result {
            result::PERFORMED => Outcome::Done,
            result::DENIED => Outcome::Denied,
            _ => Outcome::Failed,
        };
        if !matches!(ask, Ask::ResetIncoming(_) | Ask::AddIncoming(_)) {
            self.reconf().closed = Closed::Nothing;
        }
        if done && matches!(ask, Ask::ResetOutgoing(_)) {
            self.tx.out.hear_of(last);
        }
        self.conclude_request(ask, outcome, next);
        self.tx.burst = None;
        self.after_acks(cx);
    }

    /// Nobody answers requests any more, as the peer sends SHUTDOWN, or all is over: ours has failed. One that has met the peer's SHUTDOWN on its way,
    /// or each copy of which the peer has put off, counts as not carried out. Of any other nobody knows what numbers the peer waits for in streams that were to
    /// begin anew: what was written for them could be acknowledged and never read, so that it fails too.
    pub(in crate::sctp) fn end_request(&mut self, cx: &Cx<'_>) {
        let Some(reconf) = &mut self.pending.reconf else { return };
        let Some(request) = reconf.request.take() else { return };
        // There and back nothing has ever come in half of that, by any path: the peer's answer would be older than its SHUTDOWN.
        let least = self.paths.iter().map(|(_, path)| path.rto.least()).min().unwrap_or_default() / 2;
        if request.unheard > 0 && cx.now.since(request.since) >= least {
            let all = request.parts.iter().any(|part| part.ask == Ask::ResetAll);
            let lost = |info: &SendInfo| reconf.closes(info.stream) && (all || !info.unordered);
            for message in self.tx.queue.take_those(lost) {
                self.notify_failed(SendFailed::unsent(&message, 0));
            }
        }
        self.reconf().closed = Closed::Nothing;
        self.pending.clear(Pending::RECONF);
        for part in request.parts {
            self.conclude_request(part.ask, Outcome::Failed, None);
        }
    }

    /// Nothing of our request before this number waits for an answer.
    fn is_first_part(&self, number: u32) -> bool {
        let request = self.pending.reconf.as_ref().and_then(|reconf| reconf.request.as_ref());
        request.is_none_or(|request| request.parts.first().is_none_or(|part| part.number == number))
    }

    /// What an answer changes, and that the owner is told of it.
    fn conclude_request(&mut self, ask: Ask, outcome: Outcome, next: Option<(u32, u32)>) {
        let done = outcome == Outcome::Done;
        match ask {
            Ask::ResetOutgoing(streams) => {
                if done {
                    self.tx.queue.reset_streams(&streams);
                }
                self.notify(Notification::StreamReset { what: ResetWhat::Outgoing, outcome, streams });
            }
            Ask::ResetIncoming(streams) => {
                self.notify(Notification::StreamReset { what: ResetWhat::IncomingAsked, outcome, streams });
            }
            Ask::ResetAll => {
                let (peers, ours) = next.unwrap_or_default();
                if done {
                    return self.restart_numbers(ours, peers, outcome);
                }
                self.notify(Notification::AssocReset { outcome, local_tsn: peers, remote_tsn: ours });
            }
            Ask::AddOutgoing(count) => {
                if !done {
                    self.tx.streams -= count.min(self.tx.streams);
                    for message in self.tx.queue.take_beyond(self.tx.streams) {
                        self.notify_failed(SendFailed::unsent(&message, cause_kind::INVALID_STREAM));
                    }
                }
                self.notify(Notification::StreamChange { outcome, incoming: 0, outgoing: count });
            }
            Ask::AddIncoming(count) => {
                self.notify(Notification::StreamChange { outcome, incoming: count, outgoing: 0 });
            }
        }
    }
}
