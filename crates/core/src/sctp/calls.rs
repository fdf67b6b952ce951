//! What applications ask of an association: send, receive, close, abort, readiness (RFC 9260 section 11.1).
use super::assoc::{Assoc, Notice};
use super::input::one_cause;
use super::message::{Received, RecvInfo, SendInfo};
use super::notification::{AssocChange, Notification, PathChange, Subscriptions, Why};
use super::options::SctpOptions;
use super::outstanding::{Chunk, Mark};
use super::paths::{PathId, PathState};
use super::state::State;
use super::stream::recv::RecvStreams;
use super::tsn::Tsn;
use crate::base::limits::SCTP_ABORT_REASON_MAX;
use crate::base::{Cx, Error, Pressure};
use bytes::Bytes;
use core::net::IpAddr;
use lowwater_wire::sctp::{CHUNK_HEADER_LEN, Cause, DATA_HEADER_LEN};

/// Type and length of an error cause.
const CAUSE_HEADER_LEN: usize = 4;

/// Level readiness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// A message, a notification, the end or an error can be read.
    pub readable: bool,
    /// A message can be queued, by the half rule.
    pub writable: bool,
    /// The peer sends nothing more.
    pub ended: bool,
    /// It is over.
    pub closed: bool,
    /// An error waits.
    pub error: bool,
}

impl Assoc {
    /// Queues a message.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when the buffer is full or too much is unsent, of the stream or in all; [`Error::Invalid`] for an empty message, a stream that
    /// does not exist, or an address that is not the peer's; [`Error::MessageTooLong`] where fragments are disabled; [`Error::BrokenPipe`] when it is closing or over, or
    /// the error that ended it.
    pub fn send(&mut self, cx: &mut Cx<'_>, data: Bytes, info: SendInfo) -> Result<usize, Error> {
        if let Some(error) = self.owner.error.take() {
            return Err(error);
        }
        if !self.state.may_queue() || self.owner.closing {
            return Err(Error::BrokenPipe);
        }
        let stranger = info.to.is_some_and(|to| self.paths.find(to).is_none());
        if data.is_empty() || info.stream >= self.tx.streams || stranger {
            return Err(Error::Invalid);
        }
        if self.options.disable_fragments && data.len() > self.paths.fragment_point(self.options.maxseg) {
            return Err(Error::MessageTooLong);
        }
        let sndbuf = self.sndbuf(cx);
        self.make_way(cx, data.len(), info.reliability.rank(), sndbuf);
        if !self.tx.admits(&self.options, sndbuf)
            || !self.tx.streams(&self.options, cx.sysctl).admits(info.stream)
        {
            // There is no room for what the last message waits for: room comes when that has left (as TCP pushes what waits).
            self.tx.queue.let_go();
            return Err(Error::WouldBlock);
        }
        let len = data.len();
        self.mark_app_limited();
        let stream = info.stream;
        self.tx.queue.push(data, info, cx.now);
        if !self.tx.invites(&self.options, sndbuf, cx.sysctl, stream) {
            // Who asks before writing is not told of room until something has left.
            self.tx.queue.let_go();
        }
        self.tx.burst = None;
        self.owner.dry = false;
        Ok(len)
    }

    /// The last message waits for more.
    #[must_use]
    pub fn wants_more(&self) -> bool {
        self.tx.queue.wants_more()
    }

    /// A SACK is to be sent now.
    #[must_use]
    pub const fn owes_sack(&self) -> bool {
        self.rx.ack.is_due()
    }

    /// The application writes, and there was a gap before: what is in flight shows what it offered, not what a path could carry
    /// (`tcp_rate_check_app_limited`).
    fn mark_app_limited(&mut self) {
        if !self.tx.queue.is_empty() || self.tx.out.lost() > 0 {
            return;
        }
        let next = self.tx.out.next_tsn();
        for (_, path) in self.paths.iter_mut().filter(|(_, path)| path.flow.credit.below() == 0) {
            path.mark_app_limited(next);
        }
    }

    /// The next message, part of a message or notification, `max` bytes at the most; `None` when the peer has sent everything.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when there is none yet, or the error that ended the association.
    pub fn recv(&mut self, cx: &mut Cx<'_>, max: usize) -> Result<Option<Received>, Error> {
        if let Some(received) = self.rx.streams.recv(max) {
            self.tell_window(cx);
            return Ok(Some(received));
        }
        if let Some(error) = self.owner.error.take() {
            return Err(error);
        }
        if self.has_ended() { Ok(None) } else { Err(Error::WouldBlock) }
    }

    /// The peer hears of a window that has opened far enough.
    fn tell_window(&mut self, cx: &Cx<'_>) {
        let mtu = self.paths.get(self.rx.path).mtu();
        let buffer = self.rcvbuf(cx);
        if self.state.may_receive_data() && self.rx.window_has_opened(&self.options, buffer, cx.sysctl, mtu) {
            self.rx.ack.demand();
        }
    }

    /// Shows all that can be read up to the next notification to `see`, piece by piece as it came in its packets, with what came with
    /// its message and whether that ends with it; how many bytes. Nothing is copied, nor referred to.
    pub fn read(&mut self, cx: &Cx<'_>, see: &mut impl FnMut(&[u8], &RecvInfo, bool)) -> usize {
        let read = self.rx.streams.read(see);
        if read > 0 {
            self.tell_window(cx);
        }
        read
    }

    /// As [`Assoc::recv`], one piece of a message as it came in its packet: nothing is copied.
    ///
    /// # Errors
    /// Those of [`Assoc::recv`].
    pub fn recv_piece(&mut self, cx: &mut Cx<'_>) -> Result<Option<Received>, Error> {
        self.recv(cx, self.rx.streams.next_piece())
    }

    /// Closes in good order: what was queued is sent first. Before the handshake is complete there is nothing to close in order.
    pub fn close(&mut self, cx: &mut Cx<'_>) {
        self.owner.closing = true;
        // Whoever waits for room waits for nothing.
        self.owner.notice.add(Notice::WRITABLE);
        match self.state {
            State::Established => self.begin_shutdown(cx),
            State::CookieWait if self.tx.is_dry() => {
                self.finish(cx, AssocChange::CannotStart, None, Why::Unsaid);
                self.pending = super::pending::Pending::default();
            }
            _ => {}
        }
    }

    /// The way out of ESTABLISHED in good order (section 9.2).
    pub(super) fn begin_shutdown(&mut self, cx: &Cx<'_>) {
        self.set_state(State::ShutdownPending);
        self.pending.reply_path = self.paths.active();
        self.advance_shutdown(cx);
    }

    /// A handshake is complete, the first one or that of a peer that has started anew: who had closed before it does not close
    /// again by himself (Linux `sctp_sf_do_dupcook_a` goes on with the shutdown of a socket that is closing or gone).
    pub(super) fn close_again(&mut self, cx: &Cx<'_>) {
        if self.owner.closing && self.state == State::Established {
            self.begin_shutdown(cx);
        }
    }

    /// Nothing more can be read but what can be read now.
    const fn has_ended(&self) -> bool {
        self.rx.ended || self.owner.deaf || matches!(self.state, State::Closed)
    }

    /// Its owner reads nothing more (SHUT_RD): what can be read now stays, what comes is acknowledged and forgotten. Nothing is said
    /// to the peer (RFC 6458 section 4.1.7).
    pub fn stop_reading(&mut self, cx: &Cx<'_>) {
        self.owner.deaf = true;
        self.rx.streams.forget_incomplete();
        self.tell_window(cx);
        self.owner.notice.add(Notice::READABLE);
    }

    /// Its owner gives it up: what was not read, complete or not, is lost, which the peer must hear by an ABORT; else it closes in good
    /// order. What comes afterwards is forgotten, or a peer with more than a window of it could never end (Linux `sctp_close`,
    /// `sctp_ulpq_tail_event`).
    pub fn release(&mut self, cx: &mut Cx<'_>) {
        let unread = self.rx.streams.bytes() > 0;
        self.owner.deaf = true;
        self.options.events = Subscriptions::NONE;
        self.rx.streams = RecvStreams::default();
        let lingers_not = self.options.linger == Some(core::time::Duration::ZERO);
        if (unread || lingers_not) && self.state != State::Closed {
            return self.abort(cx, one_cause(&Cause::UserAbort(b"")), Error::Aborted);
        }
        self.close(cx);
    }

    /// Ends it at once: ABORT with these causes, unless the peer has not heard of it yet.
    pub fn abort(&mut self, cx: &mut Cx<'_>, causes: Bytes, error: Error) {
        if self.state == State::Closed {
            return;
        }
        let heard = self.id.tags.1 != 0;
        cx.count.sctp.aborteds += 1;
        self.finish(cx, self.failure(), Some(error), Why::we(&causes));
        if heard {
            self.pending.abort_with(causes);
        } else {
            self.pending = super::pending::Pending::default();
        }
    }

    /// Ends it at once for the application, with its reason (section 11.1.4), as much of it as a packet can hold. What travels without
    /// IP cannot be cut into fragments.
    pub fn user_abort(&mut self, cx: &mut Cx<'_>, reason: &[u8]) {
        let path = self.paths.get(self.pending.reply_path);
        let most = if self.id.carrier.has_addresses() {
            SCTP_ABORT_REASON_MAX
        } else {
            path.pmdcs() as usize - CHUNK_HEADER_LEN - CAUSE_HEADER_LEN
        };
        let reason = &reason[..reason.len().min(most)];
        self.abort(cx, one_cause(&Cause::UserAbort(reason)), Error::Aborted);
    }

    /// The peer's host does not speak SCTP (section 10, ICMP6), or nothing leads to it any more, nor will: it ends at once, and nobody hears an
    /// ABORT.
    pub fn cut_off(&mut self, cx: &mut Cx<'_>, error: Error) {
        self.finish(cx, self.failure(), Some(error), Why::Unsaid);
        self.pending = super::pending::Pending::default();
    }

    /// Level readiness. Who sees "not writable" will be told when it is.
    pub fn poll(&mut self, cx: &Cx<'_>) -> Readiness {
        let closed = self.state == State::Closed;
        let error = self.owner.error.is_some();
        let ended = self.has_ended();
        let may_queue = self.state.may_queue() && !self.owner.closing;
        // A write that nobody takes fails at once, which is no reason to wait.
        let writable = match may_queue {
            true => self.state.is_up() && self.tx.poll_writable(&self.options, self.sndbuf(cx), cx.sysctl),
            false => true,
        };
        let readable = self.rx.streams.is_readable() || ended || error;
        Readiness { readable, writable, ended, closed, error }
    }

    /// A message can be queued for this stream, by the half rule of the association and by that of the stream. Who sees "not
    /// writable" will be told when it is; it is also told when it is over.
    pub fn poll_stream(&mut self, cx: &Cx<'_>, stream: u16) -> bool {
        let level = self.poll(cx);
        let up = self.state.may_queue() && !self.owner.closing && !level.error;
        level.writable && (!up || self.tx.streams(&self.options, cx.sysctl).poll_writable(stream))
    }

    /// A message or a notification waits to be read; an end or an error is none.
    #[must_use]
    pub fn has_input(&self) -> bool {
        self.rx.streams.is_readable()
    }

    /// Pieces of messages, and notifications, that can be read.
    #[must_use]
    pub fn readable(&self) -> usize {
        self.rx.streams.readable()
    }

    /// The message whose first TSN is this was not read to its end: more of it waits to be read, or will come.
    #[must_use]
    pub fn is_inside(&self, tsn: u32) -> bool {
        self.rx.streams.is_inside(tsn)
    }

    /// What ended it, if it is over and that was no shutdown. Unlike the pending error it stays.
    #[must_use]
    pub const fn cause(&self) -> Option<Error> {
        self.owner.cause
    }

    /// The pending error, once (SO_ERROR).
    pub fn take_error(&mut self) -> Option<Error> {
        self.owner.error.take()
    }

    /// Changes the options; those of paths reach the paths that there are.
    pub fn set_options(&mut self, cx: &mut Cx<'_>, options: SctpOptions) {
        let path = options.path;
        let (rto_changed, path_changed) = (options.rto != self.options.rto, path != self.options.path);
        let congestion = options.congestion;
        // Of IPv4, of IPv6.
        let remarked = [options.tos != self.options.tos, options.tclass != self.options.tclass];
        let fresh = |kind| options.events.contains(kind) && !self.options.events.contains(kind);
        let dry = fresh(Subscriptions::SENDER_DRY) && self.state.is_up() && self.tx.is_dry();
        let autoclose = options.autoclose_secs;
        if autoclose != self.options.autoclose_secs && self.state == State::Established {
            self.timers.set_autoclose(cx.now, autoclose);
        }
        *self.options = options;
        if dry {
            // Who asks for it hears it at once (RFC 6458 section 6.1.9).
            self.owner.dry = true;
            self.notify(Notification::SenderDry);
        }
        let pmtu = self.paths.iter().map(|(id, p)| (id, p.mtu())).collect::<smallvec::SmallVec<[_; 1]>>();
        for (_, p) in self.paths.iter_mut() {
            p.set_congestion(cx, congestion, self.options.pacing);
            if remarked[usize::from(p.remote.is_ipv6())] {
                p.reinitialize(cx);
            }
            if rto_changed {
                p.rto.rebound(&self.options.rto);
            }
            if path_changed {
                p.options = path;
                p.on_options(cx, self.state.beats());
            }
        }
        for (id, before) in pmtu {
            self.narrow_from(id, before);
        }
        self.owner.notice.add(Notice::WRITABLE);
    }

    /// Changes one path (SCTP_PEER_ADDR_PARAMS with an address). A changed interval takes effect at once.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the peer has no such address.
    pub fn set_path_options(
        &mut self,
        cx: &mut Cx<'_>,
        remote: IpAddr,
        options: super::options::PathOptions,
    ) -> Result<(), Error> {
        let id = self.paths.find(remote).ok_or(Error::Invalid)?;
        let up = self.state.beats();
        let path = self.paths.get_mut(id);
        let before = path.mtu();
        path.options = options;
        path.on_options(cx, up);
        self.narrow_from(id, before);
        Ok(())
    }

    /// The UDP port of the peer at one address, or at all of them; 0 for packets without UDP (SCTP_REMOTE_UDP_ENCAPS_PORT).
    ///
    /// # Errors
    /// [`Error::Invalid`] when the peer has no such address.
    pub fn set_encap_port(&mut self, remote: Option<IpAddr>, port: u16) -> Result<(), Error> {
        if let Some(remote) = remote {
            let id = self.paths.find(remote).ok_or(Error::Invalid)?;
            self.paths.get_mut(id).set_encap(port);
            return Ok(());
        }
        self.options.encap_port = port;
        for (_, path) in self.paths.iter_mut() {
            path.set_encap(port);
        }
        Ok(())
    }

    /// Makes an address the primary one (SCTP_PRIMARY_ADDR).
    ///
    /// # Errors
    /// [`Error::Invalid`] when the peer has no such address, or it was not confirmed.
    pub fn set_primary(&mut self, remote: IpAddr) -> Result<(), Error> {
        let id = self.paths.find(remote).ok_or(Error::Invalid)?;
        if self.paths.get(id).state() == PathState::Unconfirmed {
            return Err(Error::Invalid);
        }
        self.paths.set_primary(id);
        self.path_change(id, Some(PathChange::MadePrimary));
        Ok(())
    }

    /// Asks a path for an answer now (SPP_HB_DEMAND), or once the association is up; nothing once SHUTDOWN is out (section 8.3).
    ///
    /// # Errors
    /// [`Error::Invalid`] when the peer has no such address.
    pub fn request_heartbeat(&mut self, remote: IpAddr) -> Result<(), Error> {
        let id = self.paths.find(remote).ok_or(Error::Invalid)?;
        self.paths.get_mut(id).hb.wanted = self.state.beats() || self.state.is_opening();
        Ok(())
    }

    /// Bytes that may be queued: while memory is exhausted the least buffer, so that nobody waits for others.
    pub(super) fn sndbuf(&self, cx: &Cx<'_>) -> u32 {
        let most = if cx.pressure == Pressure::Exhausted { cx.sysctl.tcp_wmem.min } else { u32::MAX };
        self.options.sndbuf.min(most)
    }

    /// Bytes that may wait to be read, in the same way.
    pub(super) fn rcvbuf(&self, cx: &Cx<'_>) -> u32 {
        let most = if cx.pressure == Pressure::Exhausted { cx.sysctl.tcp_rmem.min } else { u32::MAX };
        self.options.rcvbuf.min(most)
    }

    /// What it holds of messages costs so much memory: what was said last, and what is true now.
    pub fn recharge(&mut self) -> (u32, u32) {
        let streams = &self.rx.streams;
        let peers = streams.peer_charge() + self.rx.anew_bytes();
        let held = self.tx.charge() + streams.charge() + streams.failed_charge() + peers;
        let now = u32::try_from(held).unwrap_or(u32::MAX);
        (core::mem::replace(&mut self.accounted, now), now)
    }

    /// What was said last of its memory.
    #[must_use]
    pub const fn accounted(&self) -> u32 {
        self.accounted
    }

    /// Bytes of user data to read, and bytes queued or not acknowledged.
    #[must_use]
    pub fn queues(&self) -> (u64, u64) {
        (self.rx.streams.readable_bytes() as u64, self.tx.bytes() as u64)
    }

    /// A packet of the path with this number has left the device, or will never come to it: its credit is back. True when the path
    /// waited for that.
    pub fn on_complete(&mut self, path: u8, charge: u32) -> bool {
        self.paths.refund(path, charge)
    }

    /// Charge below the transport, of all paths together.
    #[must_use]
    pub fn below(&self) -> u32 {
        self.paths.below()
    }

    /// A router said that packets to this address must not be longer than `mtu`.
    pub fn on_pmtu(&mut self, remote: IpAddr, mtu: u16) -> bool {
        let Some(id) = self.paths.find(remote) else { return false };
        let path = self.paths.get_mut(id);
        if !path.is_routed() || mtu >= path.mtu() {
            return false;
        }
        path.set_route_mtu(mtu);
        let mtu = path.mtu();
        self.narrow(id, mtu);
        true
    }

    /// Packets to this path may have become shorter.
    fn narrow_from(&mut self, id: PathId, before: u16) {
        let mtu = self.paths.get(id).mtu();
        if mtu < before {
            self.narrow(id, mtu);
        }
    }

    /// Packets to this path are `mtu` bytes long at the most from now on.
    pub(super) fn narrow(&mut self, id: PathId, mtu: u16) {
        let path = self.paths.get(id);
        let overhead = usize::from(path.mtu()) - path.pmdcs() as usize + DATA_HEADER_LEN;
        self.lose_larger(id, usize::from(mtu).saturating_sub(overhead));
    }

    /// What was sent to this path in chunks that do not fit it any more never arrives: it goes again at once, in fragments of IP,
    /// and nothing is said of congestion (section 7.3; Linux `SCTP_RTXR_PMTUD`).
    fn lose_larger(&mut self, id: PathId, most: usize) {
        let large = |c: &Chunk| c.path == id && c.mark == Mark::InFlight && c.data.len() > most;
        let tsns: Vec<Tsn> = self.tx.out.iter().filter(|(_, c)| large(c)).map(|(tsn, _)| tsn).collect();
        for tsn in tsns {
            if let Some((_, len)) = self.tx.out.lose(tsn) {
                let path = self.paths.get_mut(id);
                path.cwnd.remove(len);
                path.timed = path.timed.filter(|timed| *timed != tsn);
                self.tx.peer_rwnd = self.tx.peer_rwnd.saturating_add(len);
            }
        }
    }
}
