//! Stream reconfiguration (RFC 6525), the side that asks: streams begin anew, all numbers do, streams are added. One request is out at
//! a time, and goes again until it is answered. What answers a peer is in `input/reconfig.rs`.
use super::assoc::Assoc;
use super::handshake::init::Features;
use super::options::Reconfigurable;
use super::output::bundle::TlvList;
use super::paths::PathId;
use super::pending::Pending;
use super::state::State;
use super::tsn::Tsn;
use crate::base::limits::SCTP_REPLIES_MAX;
use crate::base::{Cx, Error, Instant};
use bytes::Bytes;
use lowwater_wire::sctp::{CHUNK_HEADER_LEN, Param, Reset};
use smallvec::{SmallVec, smallvec};
use std::collections::VecDeque;
use zerocopy::network_endian::U16;

/// Results of a request (RFC 6525 section 4.4).
pub(super) mod result {
    /// It was carried out.
    pub(in crate::sctp) const PERFORMED: u32 = 1;
    /// It is not allowed.
    pub(in crate::sctp) const DENIED: u32 = 2;
    /// It names a stream that does not exist.
    pub(in crate::sctp) const WRONG_SSN: u32 = 3;
    /// Another one must be over first.
    pub(in crate::sctp) const BUSY: u32 = 4;
    /// Its number is none that is expected.
    pub(in crate::sctp) const BAD_NUMBER: u32 = 5;
    /// It will be carried out, and is to be sent again.
    pub(in crate::sctp) const IN_PROGRESS: u32 = 6;
}

/// What is asked of the peer. Without streams a reset is about all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// The numbers of streams that we send on begin anew.
    ResetOutgoing(Vec<u16>),
    /// The peer is to ask us for that.
    ResetIncoming(Vec<u16>),
    /// All numbers begin anew, TSNs too.
    ResetAll,
    /// We send on so many streams more.
    AddOutgoing(u16),
    /// The peer is to ask us for that.
    AddIncoming(u16),
}

/// A part of the request that is out, under its number.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) number: u32,
    pub(super) ask: Ask,
    /// The last TSN that had been sent then.
    pub(super) last: Tsn,
}

/// The request that is out.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// What of it was not answered.
    pub(super) parts: SmallVec<[Part; 2]>,
    /// Its parameters, each time the same.
    params: Bytes,
    /// When it goes again; [`Instant::FAR_FUTURE`] before it has gone.
    deadline: Instant,
    /// Where it went last.
    pub(super) path: PathId,
    /// It has not gone since the peer has said that it will do it: who waits for that is no error (section 5.2.7).
    pub(super) promised: bool,
    /// Copies that have left and that the peer has not put off; one that was lost stays among them.
    pub(super) unheard: u32,
    /// When the first of them left.
    pub(super) since: Instant,
}

/// An answer that waits to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    /// Number of the request.
    pub(super) request: u32,
    pub(super) result: u32,
    /// After a reset of TSNs our next one, and the peer's.
    pub(super) next: Option<(u32, u32)>,
}

/// Streams on which nothing new is sent until the peer has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// There are none.
    Nothing,
    /// All of them.
    All,
    /// From this one on.
    From(u16),
    /// These, in order.
    These(Vec<u16>),
}

/// What a number of the peer's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// The one that is expected.
    Next,
    /// One of the last two, which had this result.
    Again(u32),
    /// None of these.
    Bad,
}

/// What is kept for an association one side of which has asked for something.
#[derive(Clone, Debug)]
pub(crate) struct Reconf {
    /// Number of the first part of our request that is not answered, or of the next request.
    next_out: u32,
    /// Number of the peer's next request.
    next_in: u32,
    /// Results of the peer's last two, the last first.
    results: [u32; 2],
    pub(super) request: Option<Request>,
    pub(super) answers: VecDeque<Answer>,
    pub(super) closed: Closed,
}

impl Reconf {
    /// The numbers begin with the first TSNs of both sides (section 4.1).
    fn new(ours: u32, peers: u32) -> Self {
        Self {
            next_out: ours,
            next_in: peers,
            results: [result::DENIED; 2],
            request: None,
            answers: VecDeque::new(),
            closed: Closed::Nothing,
        }
    }

    /// What this number of the peer's is.
    pub(super) const fn judge(&self, number: u32) -> Number {
        match number.wrapping_sub(self.next_in) as i32 {
            0 => Number::Next,
            -1 => Number::Again(self.results[0]),
            -2 => Number::Again(self.results[1]),
            _ => Number::Bad,
        }
    }

    /// The peer's next request has this result.
    pub(super) const fn record(&mut self, result: u32) {
        self.results = [result, self.results[0]];
        self.next_in = self.next_in.wrapping_add(1);
    }

    /// An answer waits to be sent; beyond the bound the peer will ask again.
    pub(super) fn answer(&mut self, answer: Answer) {
        if self.answers.len() < SCTP_REPLIES_MAX {
            self.answers.push_back(answer);
        }
    }

    /// A part of our request was answered; what it was.
    pub(super) fn settle(&mut self, is: impl Fn(&Part) -> bool) -> Option<Ask> {
        let request = self.request.as_mut()?;
        let at = request.parts.iter().position(is)?;
        let part = request.parts.remove(at);
        self.next_out = self.next_out.wrapping_add(1);
        if request.parts.is_empty() {
            self.request = None;
        }
        Some(part.ask)
    }

    /// The part of our request that has this number, while it is not answered.
    pub(super) fn part(&self, number: u32) -> Option<&Part> {
        self.request.as_ref()?.parts.iter().find(|part| part.number == number)
    }

    /// We have asked for all numbers to begin anew.
    pub(super) fn awaits_tsns(&self) -> bool {
        self.request.as_ref().is_some_and(|r| r.parts.iter().any(|part| part.ask == Ask::ResetAll))
    }

    /// The peer may have carried that out, though nobody has told us.
    fn may_have_reset(&self) -> bool {
        self.awaits_tsns() && self.request.as_ref().is_some_and(|request| !request.promised)
    }

    /// Where the request went last.
    pub(super) fn path(&self) -> Option<PathId> {
        self.request.as_ref().map(|request| request.path)
    }

    /// When the request goes again.
    pub(crate) fn deadline(&self) -> Instant {
        self.request.as_ref().map_or(Instant::FAR_FUTURE, |request| request.deadline)
    }

    pub(super) fn closes(&self, stream: u16) -> bool {
        match &self.closed {
            Closed::Nothing => false,
            Closed::All => true,
            Closed::From(first) => stream >= *first,
            Closed::These(streams) => streams.binary_search(&stream).is_ok(),
        }
    }
}

/// Streams as a parameter lists them.
fn listed(streams: &[u16]) -> Vec<U16> {
    streams.iter().map(|stream| U16::new(*stream)).collect()
}

impl Assoc {
    /// The state of reconfiguration, made when it is used first.
    pub(super) fn reconf(&mut self) -> &mut Reconf {
        let (ours, peers) = (self.id.tsn, self.id.peer_tsn);
        self.pending.reconf.get_or_insert_with(|| Box::new(Reconf::new(ours, peers)))
    }

    /// Nothing new is sent on this stream until the peer has answered a request.
    pub(super) fn is_stream_closed(&self, stream: u16) -> bool {
        let asks = matches!(self.state, State::Established | State::ShutdownPending);
        asks && self.pending.reconf.as_ref().is_some_and(|reconf| reconf.closes(stream))
    }

    /// We have asked for all numbers to begin anew: what acknowledges may have new ones already.
    pub(super) fn awaits_tsns(&self) -> bool {
        self.pending.reconf.as_ref().is_some_and(|reconf| reconf.awaits_tsns())
    }

    /// The answer to a reset of all numbers may have been lost or overtaken: what numbers DATA has nobody knows before. It comes again, for
    /// it is not acknowledged.
    pub(super) fn may_have_reset(&self) -> bool {
        self.pending.reconf.as_ref().is_some_and(|reconf| reconf.may_have_reset())
    }

    /// A request may be made: both sides can, the owner allows it, and none is out.
    fn may_ask(&self, right: u8) -> Result<(), Error> {
        if !self.id.features.has(Features::RECONF) || !self.options.reconfigurable.has(right) {
            return Err(Error::NoSuchOption);
        }
        if self.state != State::Established || self.owner.closing {
            return Err(Error::NotConnected);
        }
        let busy = self.pending.reconf.as_ref().is_some_and(|reconf| reconf.request.is_some());
        if busy { Err(Error::InProgress) } else { Ok(()) }
    }

    /// Has the numbers of messages begin anew in these streams, or in all if there are none: those that we send on, those that the peer
    /// does, or both (SCTP_RESET_STREAMS). The answer is a notification.
    ///
    /// # Errors
    /// [`Error::NoSuchOption`] where the peer does not offer RE-CONFIG or the options do not allow it, [`Error::InProgress`] while
    /// another request is out, [`Error::WouldBlock`] while something of these streams is unsent, [`Error::Invalid`] for neither
    /// direction or a stream that does not exist, [`Error::MessageTooLong`] for more streams than a packet can name,
    /// [`Error::NotConnected`].
    pub fn reset_streams(&mut self, streams: &[u16], outgoing: bool, incoming: bool) -> Result<(), Error> {
        self.may_ask(Reconfigurable::STREAMS)?;
        let beyond = |count: u16| streams.iter().any(|stream| *stream >= count);
        let wrong = (outgoing && beyond(self.tx.streams)) || (incoming && beyond(self.rx.inbound));
        if wrong || !(outgoing || incoming) {
            return Err(Error::Invalid);
        }
        if outgoing && self.tx.queue.has_any_of(streams) {
            return Err(Error::WouldBlock);
        }
        let mut asks = SmallVec::new();
        if outgoing {
            asks.push(Ask::ResetOutgoing(streams.to_vec()));
        }
        if incoming {
            asks.push(Ask::ResetIncoming(streams.to_vec()));
        }
        self.request(asks)
    }

    /// Has all numbers begin anew, TSNs too (SCTP_RESET_ASSOC). The answer is a notification.
    ///
    /// # Errors
    /// Those of [`Assoc::reset_streams`]; [`Error::WouldBlock`] while something is unsent or not acknowledged.
    pub fn reset_association(&mut self) -> Result<(), Error> {
        self.may_ask(Reconfigurable::ASSOCIATION)?;
        if !self.tx.is_dry() {
            return Err(Error::WouldBlock);
        }
        self.request(smallvec![Ask::ResetAll])
    }

    /// Adds streams: such that we send on, such that the peer does, or both (SCTP_ADD_STREAMS). Messages for ours may be queued at
    /// once; they leave when the peer has agreed. The answer is a notification.
    ///
    /// # Errors
    /// Those of [`Assoc::reset_streams`]; [`Error::Invalid`] for none, and for more than 65,535 in all.
    pub fn add_streams(&mut self, outgoing: u16, incoming: u16) -> Result<(), Error> {
        self.may_ask(Reconfigurable::COUNT)?;
        let out = self.tx.streams.checked_add(outgoing).ok_or(Error::Invalid)?;
        let possible = self.rx.inbound.checked_add(incoming).is_some();
        if !possible || (outgoing, incoming) == (0, 0) {
            return Err(Error::Invalid);
        }
        let both = [(outgoing, Ask::AddOutgoing(outgoing)), (incoming, Ask::AddIncoming(incoming))];
        self.request(both.into_iter().filter(|(count, _)| *count > 0).map(|(_, ask)| ask).collect())?;
        self.tx.streams = out;
        Ok(())
    }

    /// A request of the owner's goes out: it answers none.
    fn request(&mut self, asks: SmallVec<[Ask; 2]>) -> Result<(), Error> {
        let last = self.reconf().next_in.wrapping_sub(1);
        self.ask(asks, last)
    }

    /// A request goes out, which answers the peer's of this number, or says that this was the peer's last.
    ///
    /// # Errors
    /// [`Error::MessageTooLong`].
    pub(super) fn ask(&mut self, asks: SmallVec<[Ask; 2]>, response: u32) -> Result<(), Error> {
        let (streams, last) = (self.tx.streams, self.tx.out.next_tsn().prev());
        let first = self.reconf().next_out;
        let numbers = (0..).map(|n| first.wrapping_add(n));
        let parts: SmallVec<[Part; 2]> =
            numbers.zip(asks).map(|(number, ask)| Part { number, ask, last }).collect();
        let mut list = TlvList::default();
        let mut push = |param: &Param<'_>| list.push(param.stated_len(), |out| param.emit(out));
        for Part { number, ask, .. } in &parts {
            let number = *number;
            match ask {
                Ask::ResetOutgoing(streams) => {
                    let fixed = Reset {
                        request: number.into(),
                        response: response.into(),
                        last_tsn: last.wire().into(),
                    };
                    push(&Param::OutgoingReset(&fixed, &listed(streams)));
                }
                Ask::ResetIncoming(streams) => push(&Param::IncomingReset(number, &listed(streams))),
                Ask::ResetAll => push(&Param::TsnReset(number)),
                Ask::AddOutgoing(count) => push(&Param::AddOutgoing(number, *count)),
                Ask::AddIncoming(count) => push(&Param::AddIncoming(number, *count)),
            }
        }
        let params = list.into_bytes();
        if CHUNK_HEADER_LEN + params.len() > self.paths.chunk_max() {
            return Err(Error::MessageTooLong);
        }
        let closed =
            parts.iter().map(|part| part.ask.closes(streams)).find(|closed| *closed != Closed::Nothing);
        let path = self.paths.active();
        let reconf = self.reconf();
        reconf.closed = closed.unwrap_or(Closed::Nothing);
        let deadline = Instant::FAR_FUTURE;
        let (promised, unheard, since) = (true, 0, deadline);
        reconf.request = Some(Request { parts, params, deadline, path, promised, unheard, since });
        self.pending.set(Pending::RECONF);
        Ok(())
    }

    /// The parameters of the request that is to go out.
    pub(super) fn request_params(&self) -> Option<Bytes> {
        Some(self.pending.reconf.as_ref()?.request.as_ref()?.params.clone())
    }

    /// The request leaves by this path.
    pub(super) fn on_request_sent(&mut self, cx: &Cx<'_>, path: PathId) {
        let rto = self.paths.get(path).rto.get();
        if let Some(request) = self.pending.reconf.as_mut().and_then(|reconf| reconf.request.as_mut()) {
            if request.unheard == 0 {
                request.since = cx.now;
            }
            request.unheard = request.unheard.saturating_add(1);
            (request.deadline, request.path, request.promised) = (cx.now + rto, path, false);
        }
    }

    /// The peer will carry the request out: it goes again after a timeout (section 5.2.7). Each copy brings one such answer to what keeps messages
    /// waiting (`closes`), and it may have been under way while a later copy was carried out.
    pub(super) fn on_promise(&mut self, cx: &Cx<'_>, closes: bool) {
        let Some(path) = self.pending.reconf.as_ref().and_then(|reconf| reconf.path()) else { return };
        let rto = self.paths.get(path).rto.get();
        if let Some(request) = self.pending.reconf.as_mut().and_then(|reconf| reconf.request.as_mut()) {
            request.unheard = request.unheard.saturating_sub(closes.into());
            // Once for each time that it went: who says so again and again would put off for ever what ends a shutdown.
            if !core::mem::replace(&mut request.promised, true) {
                request.deadline = cx.now + rto;
            }
        }
    }

    /// The request was not answered (section 5.1.1), or is still not carried out.
    pub(super) fn on_reconf_timer(&mut self, cx: &mut Cx<'_>) {
        let Some(reconf) = &mut self.pending.reconf else { return };
        let Some(request) = &mut reconf.request else { return };
        request.deadline = Instant::FAR_FUTURE;
        let (path, promised) = (request.path, request.promised);
        if !matches!(self.state, State::Established | State::ShutdownPending) {
            // Nobody would answer it any more.
            return self.end_request(cx);
        }
        // Messages that wait for the answer hold back the end of an association whose owner may be gone: there no promise is for ever.
        if !promised || self.state == State::ShutdownPending {
            cx.count.own.sctp_reconf_expireds += 1;
            self.paths.get_mut(path).rto.back_off(&self.options.rto);
            if !self.on_error(cx, path) {
                return;
            }
        }
        self.pending.set(Pending::RECONF);
    }

    /// All numbers begin anew, behind those that there were, so that inside they never become smaller: from `ours` and `peers` on.
    pub(super) fn reset_numbers(&mut self, ours: u32, peers: u32, tell: bool) {
        let first = self.rx.map.highest().after(peers);
        self.rx.streams.reset_all(self.rx.map.highest(), tell);
        self.rx.map = super::tsn_map::TsnMap::new(first);
        self.rx.begin_anew(first.prev(), &[]);
        self.rx.marked = None;
        let next: Tsn = self.tx.out.next_tsn().prev().after(ours);
        self.tx.out.jump(next);
        self.rx.ack = super::ack_policy::AckPolicy::new();
        self.tx.reduced_at = next.prev();
        self.tx.limits.forget();
        for (_, path) in self.paths.iter_mut() {
            (path.timed, path.cwnd.recovery) = (None, None);
        }
        self.tx.queue.restart_streams();
    }
}

impl Ask {
    /// What waits until it is answered, where we send on so many streams.
    fn closes(&self, streams: u16) -> Closed {
        match self {
            Self::ResetOutgoing(list) if list.is_empty() => Closed::All,
            Self::ResetOutgoing(list) => {
                let mut list = list.clone();
                list.sort_unstable();
                Closed::These(list)
            }
            Self::ResetAll => Closed::All,
            Self::AddOutgoing(_) => Closed::From(streams),
            Self::ResetIncoming(_) | Self::AddIncoming(_) => Closed::Nothing,
        }
    }
}
