//! Times of what was sent and received: SO_TIMESTAMPING, SO_TIMESTAMP, SO_TIMESTAMPNS (`__sock_tx_timestamp`, `__skb_tstamp_tx`,
//! `tcp_recv_timestamp`).
use crate::abi::{
    IPPROTO_TCP, SCM_TIMESTAMPING_OPT_STATS, SCM_TSTAMP_ACK, SCM_TSTAMP_SCHED, SCM_TSTAMP_SND,
    SO_EE_ORIGIN_TIMESTAMPING, SO_TIMESTAMP, SO_TIMESTAMP_NEW, SO_TIMESTAMPING, SO_TIMESTAMPING_NEW,
    SO_TIMESTAMPNS, SO_TIMESTAMPNS_NEW, SOF_TIMESTAMPING_OPT_CMSG, SOF_TIMESTAMPING_OPT_ID,
    SOF_TIMESTAMPING_OPT_RX_FILTER, SOF_TIMESTAMPING_OPT_STATS, SOF_TIMESTAMPING_OPT_TSONLY,
    SOF_TIMESTAMPING_RX_SOFTWARE, SOF_TIMESTAMPING_SOFTWARE, SOF_TIMESTAMPING_TX_ACK,
    SOF_TIMESTAMPING_TX_COMPLETION, SOF_TIMESTAMPING_TX_HARDWARE, SOF_TIMESTAMPING_TX_SCHED,
    SOF_TIMESTAMPING_TX_SOFTWARE, SOL_SOCKET,
};
use crate::call::{Control, Fd};
use crate::errqueue::{ENTRY_CHARGE, Entry, ExtendedErr};
use crate::files::{Kind, Sock};
use crate::host::Host;
use crate::steps;
use crate::zerocopy::Freed;
use bytes::{BufMut as _, Bytes, BytesMut};
use core::ops::Range;
use lowwater_core::base::{Duration, Instant, SocketId};
use lowwater_core::tcp::{Moments, Piece, Progress, State, TcpInfo};
use packet::{flow_of, headers_of, places_of, segments_of, source_of, uncut};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
mod packet;
#[cfg(test)]
mod tests;

/// Flags that ask for times of one call (`SOF_TIMESTAMPING_TX_RECORD_MASK`).
pub(crate) const TX_RECORD: i32 = SOF_TIMESTAMPING_TX_HARDWARE
    | SOF_TIMESTAMPING_TX_SOFTWARE
    | SOF_TIMESTAMPING_TX_SCHED
    | SOF_TIMESTAMPING_TX_ACK
    | SOF_TIMESTAMPING_TX_COMPLETION;
/// ENOMSG: what a time has for its error.
const ENOMSG: i32 = 42;
/// Bytes whose times are awaited on one connection; the oldest is forgotten first. Linux has one for each buffer in its send queue.
const MARKS_MAX: usize = 4_096;

/// What a socket has asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamping {
    /// SOF_TIMESTAMPING_*.
    pub(crate) flags: i32,
    /// What comes in has a time (SOCK_RCVTSTAMP), in nanoseconds (SOCK_RCVTSTAMPNS).
    pub(crate) receive: bool,
    pub(crate) nanos: bool,
    /// It has the layouts with 64 bits everywhere (SOCK_TSTAMP_NEW), which differ in their names alone.
    pub(crate) new: bool,
}

impl Stamping {
    const fn has(self, flag: i32) -> bool {
        self.flags & flag != 0
    }

    /// The message that tells the time of something.
    fn plain(self, t: Duration) -> Option<Control> {
        let ty = match (self.nanos, self.new) {
            (false, false) => SO_TIMESTAMP,
            (false, true) => SO_TIMESTAMP_NEW,
            (true, false) => SO_TIMESTAMPNS,
            (true, true) => SO_TIMESTAMPNS_NEW,
        };
        let part = if self.nanos { t.subsec_nanos() } else { t.subsec_micros() };
        let data = [t.as_secs().to_ne_bytes(), u64::from(part).to_ne_bytes()].concat();
        self.receive.then(|| Control { level: SOL_SOCKET, ty, data: data.into() })
    }

    /// struct scm_timestamping: the time by software, and two that only hardware has.
    fn three(self, t: Duration) -> Control {
        let ty = if self.new { SO_TIMESTAMPING_NEW } else { SO_TIMESTAMPING };
        let mut data = BytesMut::new();
        data.put_slice(&t.as_secs().to_ne_bytes());
        data.put_slice(&u64::from(t.subsec_nanos()).to_ne_bytes());
        data.resize(48, 0);
        Control { level: SOL_SOCKET, ty, data: data.freeze() }
    }
}

/// Bytes of the stream whose times are awaited.
#[derive(Clone, Debug, Default)]
pub(crate) struct TxStamps {
    /// The place that numbers count from (`sk_tskey`).
    pub(crate) base: u64,
    /// Where the first mark is that was `pushed` since the last turn: those behind it came after it.
    pushed_from: Option<u64>,
    /// In the order of their places: what of them a packet or an acknowledgement is about is found without looking at the others.
    marks: VecDeque<Mark>,
}

/// The last byte of a write (`tskey`), which stands for the buffer that it is in.
#[derive(Clone, Debug)]
struct Mark {
    place: u64,
    /// SOF_TIMESTAMPING_TX_*.
    wants: i32,
    /// When it was handed down last.
    handed: Option<Instant>,
    /// What its write lets go has gone before it was marked.
    pushed: bool,
    /// Its buffer's bytes once it is on its way.
    payload: Bytes,
}

/// A packet that the device took: whose it is, and its bytes.
pub(crate) type Left = (SocketId, Bytes);

/// Most segments of one packet.
const PIECES_MAX: usize = 65_536 / 8;

/// Segments that the device has taken of a packet that was cut, of which the last alone has an owner.
#[derive(Debug, Default)]
pub(crate) struct Pieces(Vec<Bytes>);

impl Pieces {
    /// The device has taken a packet: with its owner it goes to `left`, and so do the segments before it.
    pub(crate) fn take(&mut self, owner: Option<SocketId>, packet: Bytes, left: &mut Vec<Left>) {
        let Some(owner) = owner else {
            // What has no data belongs to nobody, either, nor does what is not of TCP.
            let flow = flow_of(&packet);
            let has_data = headers_of(&packet).is_some_and(|headers| headers < packet.len());
            if !has_data || flow.is_none_or(|(protocol, _)| i32::from(protocol) != IPPROTO_TCP) {
                return;
            }
            // Of a packet whose last segment never came there is nothing to tell.
            if self.0.last().is_some_and(|last| flow_of(last) != flow) {
                self.0.clear();
            }
            if self.0.len() < PIECES_MAX {
                self.0.push(packet);
            }
            return;
        };
        let flow = flow_of(&packet);
        left.extend(self.0.drain(..).filter(|piece| flow_of(piece) == flow).map(|piece| (owner, piece)));
        left.push((owner, packet));
    }
}

impl TxStamps {
    pub(crate) fn is_waiting(&self) -> bool {
        !self.marks.is_empty()
    }

    /// A write ended with the last byte of `piece`. Of a buffer only the last one counts, for what any of them asked for.
    fn mark(&mut self, piece: Piece, wants: i32, pushed: bool) {
        let (mut wants, mut pushed) = (wants, pushed);
        while let Some(older) = self.marks.pop_back_if(|m| m.place >= piece.start) {
            wants |= older.wants;
            // Somebody was there before the buffer leaves.
            pushed &= older.pushed;
        }
        if self.marks.len() >= MARKS_MAX {
            self.marks.pop_front();
        }
        let (place, handed) = (piece.end - 1, piece.sent_at);
        if pushed {
            self.pushed_from = Some(self.pushed_from.map_or(place, |first| first.min(place)));
        }
        let payload = if handed.is_some() { piece.payload } else { Bytes::new() };
        self.marks.push_back(Mark { place, wants, handed, pushed, payload });
    }

    /// Which marks stand at `from..to`.
    fn within(&self, (from, to): (u64, u64)) -> Range<usize> {
        let begin = self.marks.partition_point(|m| m.place < from);
        begin..begin.max(self.marks.partition_point(|m| m.place < to))
    }

    /// Where pieces have become one, on their way again or since both were sacked, the last mark stands for what all of them asked for
    /// (`tcp_skb_collapse_tstamp`). The pieces on their way of the marks that something happened to.
    fn join(
        &mut self,
        changed: &[(u64, u64)],
        piece_at: impl Fn(u64) -> Option<Piece>,
    ) -> BTreeMap<u64, Piece> {
        let mut pieces = BTreeMap::new();
        for (from, to) in changed {
            let mut at = self.marks.partition_point(|m| m.place < *from);
            while let Some(place) = self.marks.get(at).map(|m| m.place).filter(|place| place < to) {
                at += 1;
                let Some(piece) = piece_at(place).filter(|piece| piece.sent_at.is_some()) else { continue };
                let behind = self.marks.partition_point(|m| m.place < piece.joined_end).max(at);
                let wants = self.marks.drain(at - 1..behind - 1).fold(0, |wants, m| wants | m.wants);
                let Some(last) = self.marks.get_mut(at - 1) else { continue };
                last.wants |= wants;
                let piece = if behind > at { piece_at(last.place) } else { Some(piece) };
                pieces.extend(piece.map(|piece| (last.place, piece)));
            }
        }
        pieces
    }

    /// Nothing is awaited any more.
    pub(crate) fn clear(&mut self) {
        self.marks.clear();
    }
}

/// Descriptors of connections with something on its way of which the application is to hear.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    all: BTreeSet<Fd>,
    /// Those of them of which something may have changed: nobody looks at the others.
    look: BTreeSet<Fd>,
}

impl Watched {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn has(&self, fd: Fd) -> bool {
        self.all.contains(&fd)
    }

    pub(crate) fn begin(&mut self, fd: Fd) {
        self.all.insert(fd);
        self.look.insert(fd);
    }

    /// Something may have changed about a descriptor, if it is one of them.
    pub(crate) fn look_at(&mut self, fd: Fd) {
        if self.has(fd) {
            self.look.insert(fd);
        }
    }

    pub(crate) fn end(&mut self, fd: Fd) {
        self.all.remove(&fd);
        self.look.remove(&fd);
    }
}

/// Something that happened to a byte: SCM_TSTAMP_*, its place, and what is read with it.
struct Happened {
    what: i32,
    place: u64,
    data: Bytes,
    /// `data` is a packet from its IP header on.
    packet: bool,
}

impl Host {
    /// A call has written something: the times of its last byte are awaited if somebody wants them, by its own wish or the socket's
    /// (`tcp_tx_timestamp`). One that has found no room for the rest has pushed before that (`tcp_sendmsg_locked`: wait_for_space), so that
    /// nobody hears when what that has let go left.
    pub(crate) fn mark_write(&mut self, fd: Fd, stamps: Option<i32>, pushed: bool) {
        let Ok(sock) = self.files.sock(fd) else { return };
        let (kind, flags) = (sock.kind, sock.knobs.stamping.flags);
        let wants = stamps.unwrap_or(flags) & TX_RECORD;
        let Kind::Conn(id) = kind else { return };
        // What a SYN takes along has no times.
        if wants == 0 || matches!(self.stack.tcp_state(id), Ok(State::SynSent)) {
            return;
        }
        let Some(piece) = self.tail(id).filter(|tail| pushed || tail.sent_at.is_none()) else { return };
        let Ok(sock) = self.files.sock_mut(fd) else { return };
        sock.knobs.feedback.get_or_insert_default().stamps.mark(piece, wants, pushed);
        self.watched.begin(fd);
        self.keep_moments(fd);
    }

    /// What a connection is like at each moment that is told of is kept while somebody asks for it with times that are awaited.
    pub(crate) fn keep_moments(&mut self, fd: Fd) {
        let Ok(sock) = self.files.sock(fd) else { return };
        let waits = sock.knobs.feedback.as_ref().is_some_and(|f| f.stamps.is_waiting());
        if let Kind::Conn(id) = sock.kind {
            self.stack.tcp_keep_moments(id, waits && sock.knobs.stamping.has(SOF_TIMESTAMPING_OPT_STATS));
        }
    }

    /// Looks how far the writes are that somebody is to hear of, after packets came in and `left` went out: those of sockets of which something may
    /// have changed, however many others wait or have sent.
    pub(crate) fn tell_progress(&mut self, left: &[Left]) {
        let (owners, packets) = self.watched_packets(left);
        let followed = self.stack.tcp_take_followed();
        let mut last = None;
        let sent = owners.iter().copied().filter(|&id| last.replace(id) != Some(id));
        for id in followed.into_iter().chain(sent) {
            self.files.fd_of(id).into_iter().for_each(|fd| self.watched.look_at(fd));
        }
        for fd in core::mem::take(&mut self.watched.look) {
            steps::step();
            let id = self.files.sock(fd).ok().and_then(|sock| match sock.kind {
                Kind::Conn(id) => Some(id),
                _ => None,
            });
            let progress = id.and_then(|id| Some((id, self.live_progress(id)?)));
            let own = id.map_or(0..0, |id| {
                owners.partition_point(|&owner| owner < id)..owners.partition_point(|&owner| owner <= id)
            });
            self.tell_one(fd, progress, packets.get(own).unwrap_or_default());
            let watching = |sock: &Sock| sock.knobs.feedback.as_ref().is_some_and(|f| f.is_watching());
            if !self.files.sock(fd).is_ok_and(watching) {
                self.watched.end(fd);
                id.into_iter().for_each(|id| self.stack.tcp_forget_changed(id));
            }
        }
    }

    /// What has left of sockets that somebody is to hear of, those of one together and in their order, with the owner of each. Whose a packet is is
    /// asked once, and not by each socket of all of them.
    fn watched_packets<'a>(&self, left: &'a [Left]) -> (Vec<SocketId>, Vec<&'a Bytes>) {
        if self.watched.is_empty() {
            return Default::default();
        }
        let watches = |id: SocketId| self.files.fd_of(id).is_some_and(|fd| self.watched.has(fd));
        let mut own: Vec<(SocketId, &Bytes)> = Vec::new();
        for (id, packet) in left.iter().filter(|(id, _)| watches(*id)) {
            steps::step();
            own.push((*id, packet));
        }
        own.sort_by_key(|(id, _)| *id);
        own.into_iter().unzip()
    }

    /// `left` are packets of this descriptor's connection alone.
    fn tell_one(&mut self, fd: Fd, progress: Option<(SocketId, Progress)>, left: &[&Bytes]) {
        let Ok(sock) = self.files.sock_mut(fd) else { return };
        // Not before it has a connection.
        let waits = matches!(sock.kind, Kind::Fresh) && sock.knobs.feedback.is_some();
        let Some(feedback) = sock.knobs.feedback.as_mut().filter(|_| !waits) else { return };
        let changed = progress.map_or_else(Vec::new, |(id, _)| self.stack.tcp_changed(id));
        let (mut acked, mut gone) = (Vec::new(), Vec::new());
        if let Some((id, progress)) = progress {
            acked = acknowledged(&mut feedback.stamps, progress.una);
            let piece_at = |place| self.stack.tcp_piece(id, place);
            gone = departed(&mut feedback.stamps, progress, &changed, left, piece_at);
        } else {
            feedback.stamps.clear();
        }
        let freed = feedback.zerocopy.release(progress.map(|(_, p)| p.una));
        let moments = progress.map_or_else(Moments::default, |(id, _)| self.stack.tcp_take_moments(id));
        self.tell_acknowledged(fd, &acked, &freed, &moments);
        for happened in &gone {
            self.queue_time(fd, happened, &moments);
        }
    }

    /// Buffer after buffer: the time at which the peer had it, and then that it is free (`tcp_clean_rtx_queue`).
    fn tell_acknowledged(&mut self, fd: Fd, acked: &[Happened], freed: &[Freed], moments: &Moments) {
        let mut acked = acked.iter().peekable();
        for buffer in freed {
            while let Some(happened) = acked.next_if(|happened| happened.place < buffer.until) {
                self.queue_time(fd, happened, moments);
            }
            if let Some(feedback) = self.files.sock_mut(fd).ok().and_then(|s| s.knobs.feedback.as_mut()) {
                feedback.push_zerocopy(buffer.low, buffer.high);
            }
            self.report_error(fd);
        }
        acked.for_each(|happened| self.queue_time(fd, happened, moments));
    }

    /// A connection of this descriptor is over, or will be another: sends without a copy are, too.
    pub(crate) fn end_feedback(&mut self, fd: Fd) {
        if self.watched.has(fd) {
            self.tell_one(fd, None, &[]);
        }
    }

    fn queue_time(&mut self, fd: Fd, happened: &Happened, moments: &Moments) {
        let Ok(sock) = self.files.sock(fd) else { return };
        let (stamping, feedback, conn) = (sock.knobs.stamping, sock.knobs.feedback.as_ref(), sock.kind.id());
        let base = feedback.map_or(0, |f| f.stamps.base);
        let id =
            if stamping.has(SOF_TIMESTAMPING_OPT_ID) { happened.place.wrapping_sub(base) as u32 } else { 0 };
        let bare = stamping.has(SOF_TIMESTAMPING_OPT_TSONLY);
        let stats = bare && stamping.has(SOF_TIMESTAMPING_OPT_STATS);
        let data = if !bare {
            happened.data.clone()
        } else if stats {
            self.stats_of(conn, happened, moments)
        } else {
            Bytes::new()
        };
        let source = (happened.packet && !data.is_empty()).then(|| source_of(&happened.data)).flatten();
        let err = ExtendedErr {
            errno: ENOMSG,
            origin: SO_EE_ORIGIN_TIMESTAMPING,
            ty: 0,
            code: 0,
            info: happened.what as u32,
            data: id,
        };
        let offender = source.filter(|_| stamping.has(SOF_TIMESTAMPING_OPT_CMSG));
        // Headers and statistics take no more than the smallest buffer has.
        let payload = match (bare, happened.packet) {
            (true, _) => 0,
            (false, true) => data.len().saturating_sub(headers_of(&data).unwrap_or(0)),
            (false, false) => data.len(),
        };
        let charge = ENTRY_CHARGE + payload;
        self.queue_error(fd, Entry { err, offender, name: None, at: Some(self.now), data, stats, charge });
    }

    /// The wall clock's time, as the host's settings have it.
    fn wall(&self, at: Instant) -> Duration {
        self.epoch + Duration::from_nanos(at.nanos_since(Instant::ZERO))
    }

    /// Messages that tell the time of an entry of the error queue. What became of a send without a copy has none of its own, and that of the read
    /// where SO_TIMESTAMP wants one (`__sock_recv_timestamp`: `need_software_tstamp`).
    pub(crate) fn tx_time_controls(&self, sock: &Sock, entry: &Entry) -> Vec<Control> {
        let stamping = sock.knobs.stamping;
        let of_read = (entry.err.is_zerocopy() && stamping.receive).then_some(self.now);
        let Some(at) = entry.at.or(of_read).map(|at| self.wall(at)) else { return Vec::new() };
        let mut controls: Vec<Control> = stamping.plain(at).into_iter().collect();
        if stamping.has(SOF_TIMESTAMPING_SOFTWARE) {
            controls.push(stamping.three(at));
            if entry.stats && !entry.data.is_empty() {
                let data = entry.data.clone();
                controls.push(Control { level: SOL_SOCKET, ty: SCM_TIMESTAMPING_OPT_STATS, data });
            }
        }
        controls
    }

    /// Messages that tell when what was read came in. What waits together is one buffer, which has the time of what came last. Every arrival
    /// has one, whatever this socket asked for, as on a Linux host where any socket has asked (`netstamp_needed_key`).
    pub(crate) fn rx_time_controls(&self, sock: &Sock, at: Option<Instant>) -> Vec<Control> {
        let stamping = sock.knobs.stamping;
        let Some(at) = at.map(|at| self.wall(at)) else { return Vec::new() };
        let mut controls: Vec<Control> = stamping.plain(at).into_iter().collect();
        let mine =
            stamping.has(SOF_TIMESTAMPING_RX_SOFTWARE) || !stamping.has(SOF_TIMESTAMPING_OPT_RX_FILTER);
        controls.extend((stamping.has(SOF_TIMESTAMPING_SOFTWARE) && mine).then(|| stamping.three(at)));
        controls
    }

    /// The attributes of SCM_TIMESTAMPING_OPT_STATS (`tcp_get_timestamping_opt_stats`).
    fn stats_of(&mut self, id: Option<SocketId>, happened: &Happened, moments: &Moments) -> Bytes {
        let progress = id.and_then(|id| self.stack.tcp_progress(id));
        let queued = |una| progress.map_or(0, |p| p.end.saturating_sub(una));
        let acked = happened.what == SCM_TSTAMP_ACK;
        if let Some((una, info)) = moments.acknowledged(happened.place).filter(|_| acked) {
            return stats(&info, queued(una), acked);
        }
        let now = id.and_then(|id| self.stack.tcp_info(self.now, id).ok()).unwrap_or_default();
        let info = if acked { now } else { moments.left(happened.place, now) };
        stats(&info, queued(progress.map_or(0, |p| p.una)), acked)
    }
}

/// The bytes that the peer has now.
fn acknowledged(stamps: &mut TxStamps, una: u64) -> Vec<Happened> {
    let mut told = Vec::new();
    while let Some(mark) = stamps.marks.pop_front_if(|mark| mark.place < una) {
        if mark.wants & SOF_TIMESTAMPING_TX_ACK != 0 {
            told.push(Happened {
                what: SCM_TSTAMP_ACK,
                place: mark.place,
                data: mark.payload,
                packet: false,
            });
        }
    }
    told
}

/// What became of a mark's buffer in one turn.
#[derive(Default)]
struct News<'a> {
    /// Its piece is another one, or was handed down.
    changed: bool,
    /// The device has taken these with its last byte: their places among all that it has taken.
    packets: Vec<(usize, &'a Bytes)>,
}

/// The bytes that were handed down, and those that the device has taken, each also when it is sent again: of what `changed` and of what
/// `left`, so that no other mark is looked at.
fn departed<'a>(
    stamps: &mut TxStamps,
    progress: Progress,
    changed: &[(u64, u64)],
    left: &[&'a Bytes],
    piece_at: impl Fn(u64) -> Option<Piece>,
) -> Vec<Happened> {
    let mut pieces = stamps.join(changed, &piece_at);
    let mut news: BTreeMap<usize, News<'a>> = BTreeMap::new();
    for at in changed.iter().flat_map(|range| stamps.within(*range)) {
        news.entry(at).or_default().changed = true;
    }
    for (nth, &packet) in left.iter().enumerate() {
        steps::step();
        for at in places_of(packet, progress).map_or(0..0, |range| stamps.within(range)) {
            news.entry(at).or_default().packets.push((nth, packet));
        }
    }
    let mut told = Vec::new();
    for (at, News { changed, packets }) in news {
        let Some(mark) = stamps.marks.get_mut(at) else { continue };
        let happened = |what, data: Bytes, packet| Happened { what, place: mark.place, data, packet };
        if let Some(piece) = pieces.remove(&mark.place).filter(|_| changed) {
            let again = mark.handed != piece.sent_at;
            (mark.handed, mark.payload) = (piece.sent_at, piece.payload);
            if again && !mark.pushed && mark.wants & SOF_TIMESTAMPING_TX_SCHED != 0 {
                let whole = packets.first().and_then(|(nth, _)| {
                    let segments = segments_of(left, *nth, (piece.start, piece.end), progress);
                    uncut(segments, piece.start, &mark.payload, progress)
                });
                let packet = whole.is_some();
                told.push(happened(SCM_TSTAMP_SCHED, whole.unwrap_or_else(|| mark.payload.clone()), packet));
            }
        }
        if !mark.pushed && mark.wants & SOF_TIMESTAMPING_TX_SOFTWARE != 0 {
            told.extend(
                packets.into_iter().map(|(_, packet)| happened(SCM_TSTAMP_SND, packet.clone(), true)),
            );
        }
    }
    // What a write had pushed leaves in this turn; what is sent again is told of.
    if let Some(first) = stamps.pushed_from.take() {
        let from = stamps.marks.partition_point(|mark| mark.place < first);
        stamps.marks.range_mut(from..).for_each(|mark| mark.pushed = false);
    }
    told
}

/// Attributes of netlink with the numbers of TCP_NLA_*, in Linux's order.
fn stats(info: &TcpInfo, queued: u64, acked: bool) -> Bytes {
    let mut out = BytesMut::new();
    let mut put = |number: u16, value: &[u8]| {
        let len = 4 + value.len();
        out.put_slice(&(len as u16).to_ne_bytes());
        out.put_slice(&number.to_ne_bytes());
        out.put_slice(value);
        out.put_bytes(0, len.next_multiple_of(4) - len);
    };
    let long = |name: &str| info.get(name).unwrap_or(0).to_ne_bytes();
    let word = |name: &str| (info.get(name).unwrap_or(0) as u32).to_ne_bytes();
    let byte = |name: &str| [info.get(name).unwrap_or(0) as u8];
    put(1, &long("busy_time"));
    put(2, &long("rwnd_limited"));
    put(3, &long("sndbuf_limited"));
    put(4, &long("data_segs_out"));
    put(5, &long("total_retrans"));
    put(6, &long("pacing_rate"));
    put(7, &long("delivery_rate"));
    put(8, &word("snd_cwnd"));
    put(9, &word("reordering"));
    put(10, &word("min_rtt"));
    put(11, &byte("retransmits"));
    put(12, &byte("delivery_rate_app_limited"));
    put(15, &word("snd_ssthresh"));
    put(16, &word("delivered"));
    put(17, &word("delivered_ce"));
    put(13, &(queued as u32).to_ne_bytes());
    put(14, &byte("ca_state"));
    put(18, &long("bytes_sent"));
    put(19, &long("bytes_retrans"));
    put(20, &word("dsack_dups"));
    put(21, &word("reord_seen"));
    put(22, &word("rtt"));
    put(23, &(info.get("rehash").unwrap_or(0) as u16).to_ne_bytes());
    put(24, &word("notsent_bytes"));
    put(25, &0_u64.to_ne_bytes());
    if acked {
        put(26, &[0]);
    }
    put(27, &0_u32.to_ne_bytes());
    out.freeze()
}
