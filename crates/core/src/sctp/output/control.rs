//! Control chunks in the order in which the receiver wants to see them, and the SACK.
use super::Writing;
use crate::base::Cx;
use crate::sctp::assoc::Assoc;
use crate::sctp::handshake::init::{Announce, EDM_DTLS};
use crate::sctp::input::heartbeat_info;
use crate::sctp::output::bundle::TlvList;
use crate::sctp::pending::Pending;
use crate::sctp::receiver::initial_window;
use crate::sctp::state::State;
use lowwater_wire::sctp::{Chunk, Param, Sack, Tlvs, padded};
use zerocopy::network_endian::{U16, U32};

/// Types of the parameters that name addresses.
pub(in crate::sctp) const ADDRESS_TYPES: [u16; 2] = [5, 6];

/// Length of an ECNE in bytes.
const ECNE_LEN: usize = 8;
/// Length of a SACK in bytes without gap blocks and duplicates.
const SACK_LEN: usize = 16;

impl Assoc {
    /// Writes what is pending for this path. False when the packet is complete: nothing may be bundled with it.
    pub(super) fn write_control(&mut self, cx: &mut Cx<'_>, writing: &mut Writing) -> bool {
        if let Some(causes) = self.pending.take_abort() {
            // It is alone, and nothing says it again: what is too long for the path is left to IP to fragment.
            writing.bundle.chunk_whole(&Chunk::Abort(false, Tlvs::new(&causes)));
            return self.end_control(cx, 1);
        }
        if self.pending.has(Pending::SHUTDOWN_COMPLETE) {
            self.pending.clear(Pending::SHUTDOWN_COMPLETE);
            writing.bundle.chunk(&Chunk::ShutdownComplete(false));
            return self.end_control(cx, 1);
        }
        if self.pending.has(Pending::INIT) {
            self.write_init(cx, writing);
            return self.end_control(cx, 1);
        }
        let mut chunks = 0;
        if self.pending.has(Pending::COOKIE_ECHO) {
            self.write_cookie_echo(cx, writing);
            chunks += 1;
        }
        let replies = self.pending.reply_path == writing.path;
        if self.pending.has(Pending::COOKIE_ACK) && replies && writing.bundle.chunk(&Chunk::CookieAck) {
            self.pending.clear(Pending::COOKIE_ACK);
            chunks += 1;
        }
        chunks += self.write_notices(cx, writing);
        chunks += self.write_reconf(cx, writing, replies);
        if self.pending.has(Pending::ACK_BEFORE_ERROR) {
            self.pending.clear(Pending::ACK_BEFORE_ERROR);
            chunks += self.write_shutdown(cx, writing, replies);
        }
        chunks += self.write_answers(writing, replies);
        let asks = self.write_heartbeat(cx, writing);
        chunks += asks;
        chunks += self.write_shutdown(cx, writing, replies);
        self.end_control(cx, chunks);
        asks == 0 || !self.may_fail_by_length(writing.path)
    }

    fn end_control(&mut self, cx: &mut Cx<'_>, chunks: u64) -> bool {
        self.owner.counting.add(|c| c.octrlchunks += chunks);
        cx.count.sctp.out_ctrl_chunks += chunks;
        false
    }

    /// What the peer has to hear before any data: CWR and FORWARD TSN.
    fn write_notices(&mut self, cx: &Cx<'_>, writing: &mut Writing) -> u64 {
        let mut chunks = 0;
        if self.pending.has(Pending::CWR) && writing.bundle.chunk(&Chunk::Cwr(self.tx.reduced_at.wire())) {
            self.pending.clear(Pending::CWR);
            chunks += 1;
        }
        if self.skip_is_due() && writing.path == self.paths.active() {
            self.pending.clear(Pending::FORWARD_TSN);
            let (point, streams) = self.tx.out.forward();
            // It may have been overtaken by an acknowledgement.
            if point > self.tx.out.cum() && writing.bundle.chunk(&Chunk::ForwardTsn(point.wire(), &streams)) {
                self.paths.get_mut(writing.path).start_t3(cx.now);
                chunks += 1;
            }
        }
        chunks
    }

    /// Answers to requests of the peer's, each a chunk as Linux has it, and our own request.
    fn write_reconf(&mut self, cx: &Cx<'_>, writing: &mut Writing, replies: bool) -> u64 {
        let mut chunks = 0;
        while let Some(reconf) = self.pending.reconf.as_mut().filter(|_| replies)
            && let Some(answer) = reconf.answers.front()
        {
            let param = Param::ResetResponse(answer.request, answer.result, answer.next);
            let mut list = TlvList::default();
            list.push(param.stated_len(), |out| param.emit(out));
            if !writing.bundle.chunk(&Chunk::ReConfig(Tlvs::new(list.as_slice()))) {
                return chunks;
            }
            reconf.answers.pop_front();
            chunks += 1;
        }
        if replies {
            self.pending.clear(Pending::RECONF_ANSWER);
        }
        if !self.pending.has(Pending::RECONF) || writing.path != self.paths.active() {
            return chunks;
        }
        let params = self.request_params().unwrap_or_default();
        let chunk = Chunk::ReConfig(Tlvs::new(&params));
        if !params.is_empty() && !writing.bundle.chunk(&chunk) {
            if !writing.bundle.is_empty() {
                return chunks;
            }
            // The path has become narrower.
            writing.bundle.chunk_whole(&chunk);
        }
        self.pending.clear(Pending::RECONF);
        self.on_request_sent(cx, writing.path);
        chunks + u64::from(!params.is_empty())
    }

    fn write_init(&mut self, cx: &mut Cx<'_>, writing: &mut Writing) {
        self.pending.clear(Pending::INIT);
        let Some(opening) = &mut self.opening else { return };
        let mut params = TlvList::default();
        let mut push = |param: &Param<'_>| params.push(param.stated_len(), |out| param.emit(out));
        if opening.stale.1 > 0 {
            push(&Param::CookiePreservative(opening.stale.1));
        }
        if self.id.carrier.has_addresses() {
            push(&Param::SupportedAddressTypes(&supported(&self.id.locals)));
        }
        for param in self.options.features.over(self.id.carrier).params() {
            push(&param);
        }
        if self.id.carrier.detects_errors() {
            push(&Param::ZeroChecksum(EDM_DTLS));
        }
        if let Some(layer) = self.options.adaptation {
            push(&Param::Adaptation(layer));
        }
        let announce = Announce {
            tag: self.id.tags.0,
            a_rwnd: initial_window(&self.options),
            outbound: self.options.num_ostreams,
            inbound: self.options.max_instreams,
            tsn: self.id.tsn,
            addresses: &self.id.locals,
            params,
        };
        announce.write(|init| writing.bundle.chunk_whole(&Chunk::Init(init)));
        if opening.tries == 0 && opening.stale.0 == 0 {
            opening.sent_at = Some(cx.now);
        }
        self.start_t1(cx, writing);
    }

    fn write_cookie_echo(&mut self, cx: &mut Cx<'_>, writing: &mut Writing) {
        self.pending.clear(Pending::COOKIE_ECHO);
        let Some(opening) = &mut self.opening else { return };
        writing.bundle.chunk_whole(&Chunk::CookieEcho(&opening.cookie));
        if !opening.report.is_empty() {
            writing.bundle.chunk(&Chunk::Error(Tlvs::new(&opening.report)));
        }
        if opening.tries == 0 {
            opening.sent_at = Some(cx.now);
        }
        self.start_t1(cx, writing);
    }

    /// INIT and COOKIE ECHO are repeated after the timeout of their path, which doubles.
    fn start_t1(&mut self, cx: &Cx<'_>, writing: &mut Writing) {
        writing.refreshes = true;
        let Some(opening) = &mut self.opening else { return };
        if opening.tries == 0 {
            opening.timeout = self.paths.get(writing.path).rto.get();
        }
        let (mut timeout, most) = (opening.timeout, self.options.max_init_timeo_ms);
        if most > 0 {
            timeout = timeout.min(core::time::Duration::from_millis(most.into()));
        }
        self.timers.start_t1(cx.now, timeout);
    }

    /// Answers to HEARTBEATs of this path, and ERRORs.
    fn write_answers(&mut self, writing: &mut Writing, replies: bool) -> u64 {
        let mut chunks = 0;
        while let Some((_, info)) = self.pending.next_echo().filter(|(path, _)| *path == writing.path) {
            let chunk = Chunk::HeartbeatAck(Tlvs::new(info));
            // What came in one packet fits one packet, except where our path is narrower than the peer's.
            if !writing.bundle.chunk(&chunk) {
                if !writing.bundle.is_empty() {
                    return chunks;
                }
                writing.bundle.chunk_whole(&chunk);
            }
            self.pending.pop_echo();
            chunks += 1;
        }
        while let Some(causes) = self.pending.next_error().filter(|_| replies) {
            let chunk = Chunk::Error(Tlvs::new(causes));
            if !writing.bundle.chunk(&chunk) {
                if !writing.bundle.is_empty() {
                    return chunks;
                }
                writing.bundle.chunk_whole(&chunk);
            }
            self.pending.pop_error();
            chunks += 1;
        }
        chunks
    }

    fn write_heartbeat(&mut self, cx: &mut Cx<'_>, writing: &mut Writing) -> u64 {
        let path = self.paths.get_mut(writing.path);
        if !path.hb.wanted || !self.state.beats() {
            return 0;
        }
        let question = path.hb.question(cx);
        let info = heartbeat_info(question.0, writing.path, question.1);
        let param = Param::HeartbeatInfo(&info);
        let mut list = TlvList::default();
        list.push(param.stated_len(), |out| param.emit(out));
        if !writing.bundle.chunk(&Chunk::Heartbeat(Tlvs::new(list.as_slice()))) {
            // The next packet has room.
            return 0;
        }
        path.hb.ask(cx.now, question);
        writing.refreshes = true;
        cx.count.own.sctp_heartbeats += 1;
        1
    }

    fn write_shutdown(&mut self, cx: &Cx<'_>, writing: &mut Writing, replies: bool) -> u64 {
        if !replies || !self.pending.has(Pending::SHUTDOWN | Pending::SHUTDOWN_ACK) {
            return 0;
        }
        let ack = self.pending.has(Pending::SHUTDOWN_ACK);
        let chunk = if ack { Chunk::ShutdownAck } else { Chunk::Shutdown(self.rx.map.cum().wire()) };
        if !writing.bundle.chunk(&chunk) {
            return 0;
        }
        self.pending.clear(Pending::SHUTDOWN | Pending::SHUTDOWN_ACK);
        self.pending.shutdown_path = writing.path;
        self.timers.start_t2(cx.now, self.paths.get(writing.path).rto.get());
        1
    }

    /// Bytes of the SACK that there would be now, with an echo of a mark.
    pub(super) fn sack_len(&self) -> usize {
        ECNE_LEN + SACK_LEN + 4 * self.rx.map.blocks()
    }

    /// A SACK, where one is due, or is owed and costs nothing beside `data` (section 6.2).
    pub(super) fn write_sack(&mut self, cx: &mut Cx<'_>, writing: &mut Writing, data: bool) {
        let ack = &self.rx.ack;
        let wanted = ack.is_due() || (ack.is_owed() && data);
        if !wanted || !self.state.is_up() || self.state == State::ShutdownAckSent {
            return;
        }
        if self.rx.path != writing.path && !ack.is_due() {
            return;
        }
        if let Some(marked) = self.rx.marked {
            writing.bundle.chunk(&Chunk::Ecne(marked.wire()));
        }
        let dups = self.rx.map.take_dups();
        let dups: smallvec::SmallVec<[U32; 4]> = dups.iter().map(|&tsn| U32::new(tsn)).collect();
        let fixed = SACK_LEN + 4 * dups.len();
        let gaps = self.rx.map.gaps(writing.bundle.room().saturating_sub(fixed) / 4);
        let a_rwnd = self.rx.offer(&self.options, self.rcvbuf(cx));
        let cum_tsn = self.rx.map.cum().wire();
        if writing.bundle.chunk(&Chunk::Sack(Sack { cum_tsn, a_rwnd, gaps: &gaps, dups: &dups })) {
            self.rx.advertised = a_rwnd;
            self.rx.ack.on_sent();
            self.owner.counting.add(|c| {
                c.osacks += 1;
                c.octrlchunks += 1;
                c.idupchunks += dups.len() as u64;
            });
            cx.count.sctp.out_ctrl_chunks += 1;
        }
        debug_assert!(padded(writing.bundle.len()) == writing.bundle.len(), "chunks are padded");
    }
}

/// The types of address that these addresses show us to use.
pub(in crate::sctp) fn supported(locals: &[core::net::IpAddr]) -> smallvec::SmallVec<[U16; 2]> {
    let has = |v6: bool| locals.iter().any(|ip| ip.is_ipv6() == v6);
    let types = [(has(false), ADDRESS_TYPES[0]), (has(true), ADDRESS_TYPES[1])];
    types.into_iter().filter(|(yes, _)| *yes).map(|(_, kind)| U16::new(kind)).collect()
}
