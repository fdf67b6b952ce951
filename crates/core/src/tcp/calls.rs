//! What the application calls on a connection: send, recv, poll, options (`tcp_sendmsg`, `tcp_recvmsg`, `tcp_poll`).
use super::chrono::Held;
use super::conn::{Conn, NoSpace};
use super::options::SocketOptions;
use super::output::nagle::Hold;
use super::ready::{Notice, Ready, SendFlags};
use super::state::State;
use super::tx_queue::COPY_BELOW;
use crate::base::{Cx, Error, Sysctl, Wait};
use crate::credit::PACKET_CHARGE;
use crate::path::pmtu::bound_to_half_window;
use bytes::{Buf as _, Bytes};
use std::sync::Arc;

/// Bytes that wait to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inq {
    /// SIOCINQ: bytes up to the urgent mark or to the end, the FIN not counted.
    pub bytes: u32,
    /// TCP_INQ: all of them, and one more once the FIN has come, so that a reader reads on (`tcp_inq_hint`).
    pub hint: u32,
    /// SIOCATMARK.
    pub at_mark: bool,
    /// Bytes before the urgent mark: there a read ends, and a peek.
    pub to_mark: Option<u32>,
}

impl Conn {
    /// Takes bytes of `data` into the send queue, copying them; returns how many fitted.
    ///
    /// The question whether there is room is asked each time a new element begins, never per byte, so a call may end up to one
    /// element above the limit.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when not a byte fitted; a later [`Notice::WRITABLE`] tells of room. [`Error::BrokenPipe`] after the
    /// sending direction was closed. The connection's error, once, if it failed.
    pub fn send(&mut self, cx: &mut Cx<'_>, data: &[u8], flags: SendFlags) -> Result<usize, Error> {
        if self.is_deferred() {
            return self.send_with_syn(cx, data);
        }
        self.may_send(flags)?;
        let goal = self.size_goal(cx.sysctl, flags);
        let mut rest = data;
        while !rest.is_empty() {
            let taken = self.fill_or_begin(cx, rest, goal);
            if taken == 0 {
                self.found_full(cx, rest.len() < data.len(), flags);
                break;
            }
            if rest.len() == data.len() && !flags.goes_on {
                self.tx.queue().unsent.clear_push();
            }
            rest = &rest[taken..];
            if !rest.is_empty() && !flags.oob {
                self.push_within(cx);
            }
        }
        let taken = data.len() - rest.len();
        cx.count.own.payload_copied_in += taken as u64;
        self.sent_by_call(cx, taken, data.len(), flags)
    }

    /// What a write with these flags comes to before it has read any of its data.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when there is no room for any. Those of [`Conn::send`].
    pub fn find_room(&mut self, cx: &mut Cx<'_>, flags: SendFlags) -> Result<(), Error> {
        self.may_send(flags)?;
        let goal = self.size_goal(cx.sysctl, flags);
        if self.tx.queue_ref().unsent.tail_room(goal) > 0 || self.level_within(cx).memory_free(false) {
            return Ok(());
        }
        self.found_full(cx, false, flags);
        Err(Error::WouldBlock)
    }

    /// Copies the front of `data` into the tail element, or begins another with it where there is room; the number of bytes taken.
    fn fill_or_begin(&mut self, cx: &mut Cx<'_>, data: &[u8], goal: usize) -> usize {
        let room = self.tx.queue_ref().unsent.tail_room(goal);
        if room > 0 {
            let may = self.schedule(cx, data.len().min(room));
            return self.tx.queue().unsent.fill_tail(cx.pool, &data[..may], goal);
        }
        if !self.level_within(cx).memory_free(false) {
            return 0;
        }
        self.begin(cx);
        let may = self.schedule(cx, data.len().min(goal));
        self.tx.queue().unsent.begin_element(cx.pool, &data[..may], data.len(), goal)
    }

    /// The writer has to wait for room. What it has handed over is pushed before it does; who does not wait pushes it again at the end of the
    /// call (`tcp_sendmsg_locked`), which this is the first of.
    fn found_full(&mut self, cx: &mut Cx<'_>, some: bool, flags: SendFlags) {
        let queue = self.tx.queue_ref();
        self.snd.full_from = queue.nxt() + u64::from(queue.unsent.pushed().bytes);
        self.app.nospace = if some && !flags.waits { NoSpace::Writes } else { NoSpace::Waits };
        // Where all of it has left there is nothing to mark (`tcp_push`).
        let waits = !self.tx.queue_ref().unsent.is_pushed_out();
        if some && waits && flags.oob {
            // Before the push, which cuts by segments then (`tcp_mark_urg`).
            self.snd.up = self.tx.write_seq();
        }
        if some && waits && !flags.waits && !self.autocorks(cx, flags) {
            self.mark_push();
            self.push_all_within(cx);
        }
    }

    /// An element begins: only here Linux looks at the pause before it, and forgets a push (`tcp_skb_entail`).
    /// What an earlier call asked to send would have left from inside of it.
    fn begin(&mut self, cx: &mut Cx<'_>) {
        let queue = self.tx.queue_ref();
        let asked = self.out.tries() && queue.unsent_bytes() > 0;
        if queue.unsent.pushed().packets == 0 && !asked {
            self.tx.check_idle_restart(cx, &mut self.path);
        }
        self.app.push = false;
    }

    /// Takes what fits off the front of `data` without copying it (short pieces are copied, to keep elements long).
    ///
    /// # Errors
    /// As [`Conn::send`].
    pub fn send_bytes(
        &mut self,
        cx: &mut Cx<'_>,
        data: &mut Bytes,
        flags: SendFlags,
    ) -> Result<usize, Error> {
        if self.is_deferred() {
            let taken = self.send_with_syn(cx, data)?;
            data.advance(taken);
            return Ok(taken);
        }
        self.may_send(flags)?;
        let goal = self.size_goal(cx.sysctl, flags);
        let before = data.len();
        while !data.is_empty() {
            if data.len() < COPY_BELOW && self.tx.queue_ref().unsent.tail_room(goal) > 0 {
                let taken = self.fill_or_begin(cx, data, goal);
                if taken == 0 {
                    self.found_full(cx, data.len() < before, flags);
                    break;
                }
                cx.count.own.payload_copied_in += taken as u64;
                if data.len() == before && !flags.goes_on {
                    self.tx.queue().unsent.clear_push();
                }
                data.advance(taken);
                if !data.is_empty() && !flags.oob {
                    self.push_within(cx);
                }
                continue;
            }
            if !self.level_within(cx).memory_free(false) {
                self.found_full(cx, data.len() < before, flags);
                break;
            }
            self.begin(cx);
            let may = self.schedule(cx, data.len().min(goal));
            if may == 0 {
                self.found_full(cx, data.len() < before, flags);
                break;
            }
            let piece = data.split_to(may);
            cx.count.own.payload_copied_in +=
                self.tx.queue().unsent.append_bytes(cx.pool, piece, goal) as u64;
            if data.len() + may == before && !flags.goes_on {
                self.tx.queue().unsent.clear_push();
            }
            if !data.is_empty() && !flags.oob {
                self.push_within(cx);
            }
        }
        self.sent_by_call(cx, before - data.len(), before, flags)
    }

    /// More than half of the peer's largest window has been written since the last push (`forced_push`).
    pub(super) fn push_is_forced(&self) -> bool {
        self.tx.write_seq().after(self.snd.pushed + (self.tx.max_window() >> 1))
    }

    pub(super) fn mark_push(&mut self) {
        self.tx.queue().unsent.mark_push();
        self.snd.pushed = self.tx.write_seq();
    }

    /// A write is refused for what comes with its data. That it came shows all the same whether the application holds the flow back
    /// (`tcp_sendmsg_locked` looks first).
    pub fn refuse_write(&mut self) {
        self.mark_app_limited();
    }

    fn may_send(&mut self, flags: SendFlags) -> Result<(), Error> {
        if !flags.resumed {
            // A call looks once, before whatever it waits for (`tcp_sendmsg_locked`).
            self.mark_app_limited();
        }
        if let Some(error) = self.app.error.take() {
            return Err(error);
        }
        // The handshake comes first, whatever may be written after it (`tcp_sendmsg_locked`).
        let child = self.is_child() && self.state == State::SynRecv;
        if matches!(self.state, State::SynSent | State::SynRecv) && !child {
            // Nobody waits for room: the end of the handshake is told in any case (`sk_stream_wait_connect`).
            return Err(Error::WouldBlock);
        }
        if self.app.snd_shutdown {
            return Err(Error::BrokenPipe);
        }
        if !child && !self.state.can_send() {
            return Err(Error::BrokenPipe);
        }
        Ok(())
    }

    fn sent_by_call(
        &mut self,
        cx: &mut Cx<'_>,
        taken: usize,
        asked: usize,
        flags: SendFlags,
    ) -> Result<usize, Error> {
        if taken == 0 {
            return if asked == 0 { Ok(0) } else { Err(Error::WouldBlock) };
        }
        let all = taken == asked;
        // What was owed for what came before the call had left by itself, though it may go with this now.
        self.rx.ack_stands();
        if flags.oob {
            self.snd.up = self.tx.write_seq();
        }
        self.rest.stats.chrono.start(cx.now, Held::Busy);
        if flags.eor && all {
            self.tx.queue().unsent.mark_eor();
        }
        self.push_end(cx, flags, all);
        Ok(taken)
    }

    /// A write whose wait is over comes back with what it has: that is pushed as at the end of any (`out` of `tcp_sendmsg_locked`).
    pub fn end_write(&mut self, cx: &mut Cx<'_>, flags: SendFlags) {
        if self.state.can_send() && self.tx.queue_ref().unsent_bytes() > 0 {
            self.push_end(cx, flags, true);
        }
    }

    /// The push at the end of a write (`tcp_push`), or where there is no room for all of it.
    fn push_end(&mut self, cx: &mut Cx<'_>, flags: SendFlags, all: bool) {
        if self.tx.queue_ref().unsent.is_pushed_out() {
            // Nothing is left to mark.
            self.out.try_send(Hold::Push);
            return;
        }
        // A push ends what the application has handed over, or each half of the largest window.
        let forced = self.push_is_forced();
        if !flags.more || forced || !all {
            self.mark_push();
        }
        let pushed = self.tx.queue_ref().unsent.pushed().packets > 0;
        if self.autocorks(cx, flags) {
            self.app.nospace = self.app.nospace.call_over();
            if self.out.credit.throttle() {
                cx.count.tcp_ext.tcp_auto_corking += 1;
                self.count_wait(cx, Wait::Autocork);
            }
            if pushed {
                self.out.try_resend();
            }
            return;
        }
        // What stops for lack of room is pushed whatever Nagle says: the writer may wait for its acknowledgement.
        let hold = match (all, flags.more) {
            (false, _) => Hold::Push,
            (true, true) => Hold::Cork,
            (true, false) => self.default_hold(),
        };
        self.out.try_send(hold);
        let behind = pushed && self.corked_tail(cx, flags).is_some();
        self.out.burst.cork_behind(behind);
    }

    /// A small write waits for more while something of the flow sits below: its completion sends both (`tcp_should_autocork`).
    fn autocorks(&self, cx: &Cx<'_>, flags: SendFlags) -> bool {
        self.tx.queue_ref().records() > 0
            && self
                .corked_tail(cx, flags)
                .is_some_and(|len| self.out.credit.below() >= len as u32 + PACKET_CHARGE)
    }

    /// Bytes of the last element where more may join it, so that it is worth waiting.
    fn corked_tail(&self, cx: &Cx<'_>, flags: SendFlags) -> Option<usize> {
        let tail = self.tx.queue_ref().unsent.tail().filter(|_| cx.sysctl.tcp_autocorking);
        tail.filter(|&(len, sealed)| !sealed && len < self.size_goal(cx.sysctl, flags)).map(|(len, _)| len)
    }

    /// The flow label in use, after so many others.
    #[must_use]
    pub const fn label(&self) -> u16 {
        self.snd.label.ours()
    }

    /// The next answer depends on what of the last packets is still below.
    #[must_use]
    pub const fn asks_what_is_below(&self) -> bool {
        self.out.burst.corks_behind()
    }

    /// What a write has pushed out has gone down: its end waits for that, as any small write does.
    pub(super) fn autocork_behind(&mut self, cx: &mut Cx<'_>) -> Result<(), Wait> {
        let behind = self.out.burst.corks_behind();
        self.out.burst.cork_behind(false);
        if !behind || !self.autocorks(cx, SendFlags::default()) {
            return Ok(());
        }
        cx.count.tcp_ext.tcp_auto_corking += u64::from(self.out.credit.throttle());
        Err(Wait::Autocork)
    }

    /// Payload bytes that an element is filled up to: the largest super-packet of the device in whole segments, bound to half the
    /// largest window that the peer ever offered; a segment of what is urgent (`tcp_xmit_size_goal`).
    fn size_goal(&self, sysctl: &Sysctl, flags: SendFlags) -> usize {
        let mss = u32::from(self.mss_now());
        if flags.oob {
            return mss as usize;
        }
        let max = self.snd.gso.payload_max(sysctl);
        let goal = bound_to_half_window(max, self.peer.data_option_bytes(), self.tx.max_window());
        let segments = (goal / mss).min(u32::from(self.snd.gso.max_segs)).max(1);
        (segments * mss) as usize
    }

    /// Copies received bytes into `buf`. `Ok(0)` is the end of the stream. Who asks for nothing is a reader, too, and lets an acknowledgement go
    /// that waits for one.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when nothing waits. The connection's error, once, if it failed.
    pub fn recv(&mut self, cx: &mut Cx<'_>, buf: &mut [u8]) -> Result<usize, Error> {
        if buf.is_empty() {
            return Ok(self.rx.peek(cx, 0, buf));
        }
        match self.rx.recv(cx, buf) {
            0 => self.nothing_to_read().map(|()| 0),
            n => Ok(self.read_some(cx, n)),
        }
    }

    /// As [`Conn::recv`], from `skip` bytes on, and the bytes stay.
    ///
    /// # Errors
    /// As [`Conn::recv`].
    pub fn peek(&mut self, cx: &mut Cx<'_>, skip: u32, buf: &mut [u8]) -> Result<usize, Error> {
        match self.rx.peek(cx, skip, buf) {
            0 if buf.is_empty() => Ok(0),
            // A look steps over the urgent byte as a read does, and sees the end behind it (`tcp_recvmsg_locked`).
            0 if self.rx.ends_behind_mark() => Ok(0),
            // The end is in the queue that it walks, whatever it leaves unseen before that.
            0 if skip > 0 && self.rx.fin_reached() => Ok(0),
            0 => self.nothing_to_read().map(|()| 0),
            n => Ok(self.read_some(cx, n)),
        }
    }

    /// Hands up to `max` received bytes to `take`, piece by piece: for a reader whose buffer is not initialised. `Ok(0)` is the
    /// end of the stream.
    ///
    /// # Errors
    /// As [`Conn::recv`].
    pub fn recv_with(
        &mut self,
        cx: &mut Cx<'_>,
        max: usize,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, Error> {
        let mut taken = 0;
        while taken < max
            && !(taken > 0 && self.rx.at_mark())
            && let Some(piece) = self.rx.read_chunk(cx, max - taken)
        {
            take(&piece);
            taken += piece.len();
        }
        cx.count.own.payload_copied_out += taken as u64;
        if taken == 0 && max > 0 {
            self.nothing_to_read()?;
        }
        Ok(self.read_some(cx, taken))
    }

    /// Takes the next received piece without copying, at most `max` bytes. `Ok(None)` is the end of the stream.
    ///
    /// # Errors
    /// As [`Conn::recv`].
    pub fn read_chunk(&mut self, cx: &mut Cx<'_>, max: usize) -> Result<Option<Bytes>, Error> {
        match self.rx.read_chunk(cx, max) {
            None => self.nothing_to_read().map(|()| None),
            Some(piece) => {
                self.read_some(cx, piece.len());
                Ok(Some(piece))
            }
        }
    }

    /// MSG_OOB: the urgent byte, which `peek` leaves; `Ok(None)` is the end of the stream.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is none, it was read before, or SO_OOBINLINE is set; [`Error::WouldBlock`] when its pointer
    /// came before it; [`Error::NotConnected`].
    pub fn recv_oob(&mut self, peek: bool) -> Result<Option<u8>, Error> {
        // Without a connection the byte stays where it is, and what has not come is not asked for any more.
        let gone = self.state == State::Close && !self.rx.fin_reached();
        match self.rx.recv_urgent(peek || gone)? {
            _ if gone => Err(Error::NotConnected),
            Some(byte) => Ok(Some(byte)),
            None if self.state == State::Close || self.app.rcv_shutdown || self.rx.fin_reached() => Ok(None),
            None => Err(Error::WouldBlock),
        }
    }

    /// What waits, as SIOCINQ, SIOCATMARK and TCP_INQ tell it.
    #[must_use]
    pub fn inq(&self) -> Inq {
        let handshake = matches!(self.state, State::SynSent | State::SynRecv);
        let fin = u32::from(self.rx.fin_reached());
        Inq {
            bytes: if handshake { 0 } else { self.rx.inq() },
            hint: self.rx.readable_bytes() + fin,
            at_mark: self.rx.at_mark(),
            to_mark: self.rx.to_mark(),
        }
    }

    /// So many bytes were read or looked at, and with them the clock (`tcp_rcv_space_adjust`).
    const fn read_some(&mut self, cx: &Cx<'_>, n: usize) -> usize {
        if n > 0 {
            self.timers.look(cx.now);
        }
        n
    }

    /// `Ok` at the end of the stream.
    fn nothing_to_read(&mut self) -> Result<(), Error> {
        // The end of the stream comes before an error that followed it (SOCK_DONE in `tcp_recvmsg_locked`).
        if self.rx.at_eof() {
            return Ok(());
        }
        if let Some(error) = self.app.error.take() {
            return Err(error);
        }
        let over = self.app.rcv_shutdown || matches!(self.state, State::Close | State::TimeWait);
        if over { Ok(()) } else { Err(Error::WouldBlock) }
    }

    /// There is room to write by the rule that wakes writers, in whatever state.
    #[must_use]
    pub fn has_room(&self, cx: &Cx<'_>) -> bool {
        self.level(cx).writable()
    }

    /// A write that waits for room goes on: there is some, if less than wakes it, or nothing to wait for. Where it waits on it has seen "full" again: of
    /// several writers the one that was told of room may have taken all of it (`sk_stream_wait_memory` asks for it in each of its rounds).
    pub fn ends_wait_for_room(&mut self, cx: &Cx<'_>) -> bool {
        let may_send = matches!(self.state, State::SynRecv | State::Established | State::CloseWait);
        let ends = !may_send
            || self.app.snd_shutdown
            || self.app.error.is_some()
            || self.level(cx).memory_free(false);
        if !ends {
            self.app.nospace = NoSpace::Waits;
        }
        ends
    }

    /// Level readiness. Asking while it is not writable counts as having seen "full": a wake-up will follow.
    pub fn poll(&mut self, cx: &Cx<'_>) -> Ready {
        let ready = self.ready(cx);
        let asks = !matches!(self.state, State::SynSent | State::SynRecv) || self.is_child();
        if asks && !ready.contains(Ready::OUT) {
            self.app.nospace = NoSpace::Waits;
        }
        ready
    }

    /// The directions that are shut down, reading and writing (`sk_shutdown`).
    pub(crate) const fn is_shut(&self) -> [bool; 2] {
        [self.app.rcv_shutdown || self.rx.fin_reached(), self.app.snd_shutdown]
    }

    /// Level readiness, for who does not ask for room (`tcp_recvmsg_locked`).
    #[must_use]
    pub fn ready(&self, cx: &Cx<'_>) -> Ready {
        let mut ready = Ready::NONE;
        let [rcv_over, snd_over] = self.is_shut();
        let over = self.state == State::Close || (rcv_over && snd_over);
        if self.app.error.is_some() {
            ready.insert(Ready::ERR);
        }
        if self.rx.has_urgent() {
            ready.insert(Ready::PRI);
        }
        if over {
            ready.insert(Ready::HUP);
        }
        if rcv_over {
            ready.insert(Ready::IN);
            ready.insert(Ready::RDHUP);
        }
        if matches!(self.state, State::SynSent | State::SynRecv) && !self.is_child() {
            if self.is_deferred() {
                ready.insert(Ready::OUT);
            }
            return ready;
        }
        if self.rx.is_readable(cx.pressure) {
            ready.insert(Ready::IN);
        }
        if self.app.snd_shutdown || self.level(cx).writable() {
            ready.insert(Ready::OUT);
        }
        ready
    }

    /// The edges since the last call.
    pub fn take_notice(&mut self) -> Notice {
        core::mem::take(&mut self.app.notice)
    }

    /// What ICMP said that did not end the connection, once: SO_ERROR tells it where there is no error (`sk_err_soft`).
    pub fn take_soft_error(&mut self) -> Option<Error> {
        self.app.soft_error.take()
    }

    /// What ICMP said of a connection before this one, by which an attempt ends that nobody answers.
    pub const fn set_soft_error(&mut self, error: Error) {
        self.app.soft_error = Some(error);
    }

    /// SO_ERROR: the connection's error, once.
    pub fn take_error(&mut self) -> Option<Error> {
        self.app.error.take()
    }

    /// Replaces the options; each takes effect at once where it can.
    pub fn set_options(&mut self, cx: &mut Cx<'_>, options: Arc<SocketOptions>) {
        let old = core::mem::replace(&mut self.options, options);
        let room = self.app.sndbuf;
        if let Some(bytes) = self.options.sndbuf {
            self.app.sndbuf = bytes;
        }
        match (old.rcvbuf, self.options.rcvbuf) {
            (old, Some(bytes)) if old != Some(bytes) => self.rx.set_rcvbuf(bytes),
            (Some(_), None) => self.rx.unlock_rcvbuf(),
            _ => {}
        }
        if old.window_clamp != self.options.window_clamp {
            self.clamp_window();
        }
        self.rx.set_oob_inline(self.options.oobinline);
        self.path.rtt.set_bounds(self.options.rto_bounds());
        self.rx.ack.set_delay_max(self.options.delack_max_us);
        if old.congestion != self.options.congestion {
            self.path.set_congestion(self.options.congestion);
            // In a handshake too, behind which it does not begin again (`tcp_reinit_congestion_control`).
            if self.state != State::Close {
                self.tx.start_congestion(cx, &mut self.path);
            }
        }
        if old.max_pacing_rate != self.options.max_pacing_rate {
            self.path.pacing.set_max_rate(self.options.max_pacing_rate);
        }
        if old.keepalive != self.options.keepalive {
            self.arm_keepalive(cx);
        }
        if old.keepidle != self.options.keepidle {
            self.change_keepidle(cx);
        }
        // Uncorking and switching Nagle off push what was held (`__tcp_sock_set_cork`, `__tcp_sock_set_nodelay`).
        // Nodelay pushes even what a cork holds, until another element begins.
        let (corked, nodelay) = (self.options.cork, self.options.nodelay);
        self.app.push |= nodelay && (!old.nodelay || (old.cork && !corked));
        if (!old.nodelay && nodelay) || (old.cork && !corked) {
            self.out.try_send(self.default_hold());
        }
        // Linux wakes writers when a limit is set, also those that have not seen "full" (`sk_stream_write_space`). One that stays as it
        // has become is none (SO_BUF_LOCK), and no other option wakes who has waited since before a reset.
        let limited = old.notsent_lowat != self.options.notsent_lowat || room != self.app.sndbuf;
        if limited && self.level(cx).writable() {
            self.app.nospace = NoSpace::Waits;
            self.tell_writer(cx);
        }
    }

    /// TCP_WINDOW_CLAMP said again: segments may have raised the bound since. One of zero takes it off what is over, and cannot off
    /// what lives (`tcp_set_window_clamp`).
    pub fn clamp_window(&mut self) {
        match self.options.window_clamp {
            0 if matches!(self.state, State::Close | State::TimeWait) => self.rx.lift_window_clamp(),
            0 => {}
            bytes => self.rx.set_window_clamp(bytes),
        }
    }

    /// The bound of the receive window in bytes, as TCP_WINDOW_CLAMP reads back.
    #[must_use]
    pub const fn window_clamp(&self) -> u32 {
        self.rx.window().clamp()
    }

    /// Acknowledgements are not delayed for answers to ride on (TCP_QUICKACK as it reads back).
    #[must_use]
    pub const fn quickack(&self) -> bool {
        !self.rx.ack.pingpong()
    }

    /// SO_RCVLOWAT; readers that are satisfied by it now are told.
    pub fn set_rcvlowat(&mut self, cx: &Cx<'_>, bytes: u32) {
        self.rx.set_lowat(cx.sysctl, bytes);
        if self.rx.is_readable(cx.pressure) {
            self.app.notice.insert(Notice::READABLE);
        }
    }

    /// TCP_QUICKACK.
    pub fn set_quickack(&mut self, cx: &Cx<'_>, value: u32) {
        let open = matches!(self.state, State::Established | State::CloseWait);
        self.rx.set_quickack(cx, value, open);
    }
}
