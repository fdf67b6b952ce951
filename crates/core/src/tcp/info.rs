//! A snapshot of a connection under the names of Linux's `struct tcp_info` (7.0), and its 280 bytes.
use super::chrono::Chrono;
use super::conn::Conn;
use super::fastopen::fact;
use super::state::State;
use crate::base::Cx;
use crate::base::time::{Duration, Instant};
use crate::path::congestion::bbr::BbrInfo;
use crate::path::congestion::{AnyCongestion, Congestion as _};
use crate::path::pacing::Status;
use core::num::NonZeroU64;
use lowwater_wire::tcp::AccEcnOption;

/// Bytes of the struct in Linux 6.18 and 7.0.
pub const TCP_INFO_LEN: usize = 280;

/// Bits of `options`: timestamps, SACK, window scaling, ECN negotiated, ECN seen in a packet.
const OPT_TIMESTAMPS: u8 = 1;
const OPT_SACK: u8 = 2;
const OPT_WSCALE: u8 = 4;
const OPT_ECN: u8 = 8;
const OPT_ECN_SEEN: u8 = 16;
const OPT_SYN_DATA: u8 = 32;
const OPT_TFO_CHILD: u8 = 128;
/// TCPI_ECN_MODE_PENDING.
const MODE_PENDING: u8 = 3;
/// What Linux tells before it knows the peer: TCP_MSS_DEFAULT of a new socket, and TCP_MIN_MSS.
const MSS_DEFAULT: u16 = 536;
const MIN_MSS: u32 = 88;

/// Fills a buffer from the front in little endian.
struct Writer<'a> {
    out: &'a mut [u8; TCP_INFO_LEN],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        if let Some(place) = self.out.get_mut(self.at..end) {
            place.copy_from_slice(bytes);
        }
        self.at = end;
    }
}

macro_rules! tcp_info {
    (
        bytes { $($(#[$bdoc:meta])* $byte:ident)* }
        bits { $($(#[$ndoc:meta])* $bit:ident)* }
        words { $($(#[$wdoc:meta])* $word:ident : $ty:ty,)* }
    ) => {
        /// What TCP_INFO reports, field by field as Linux does. Times are in microseconds where nothing else is said.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct TcpInfo {
            $($(#[$bdoc])* pub $byte: u8,)*
            $($(#[$ndoc])* pub $bit: u8,)*
            $($(#[$wdoc])* pub $word: $ty,)*
        }

        impl TcpInfo {
            /// The value of a field by Linux's name, with or without `tcpi_`.
            #[must_use]
            pub fn get(&self, name: &str) -> Option<u64> {
                match name.strip_prefix("tcpi_").unwrap_or(name) {
                    $(stringify!($byte) => Some(u64::from(self.$byte)),)*
                    $(stringify!($bit) => Some(u64::from(self.$bit)),)*
                    $(stringify!($word) => Some(u64::from(self.$word)),)*
                    _ => None,
                }
            }

            fn emit_bytes(&self, to: &mut Writer<'_>) {
                $(to.put(&[self.$byte]);)*
            }

            fn emit_words(&self, to: &mut Writer<'_>) {
                $(to.put(&self.$word.to_le_bytes());)*
            }
        }
    };
}

tcp_info! {
    bytes {
        /// State by Linux's number; [`TcpInfo::state_name`] is its name.
        state
        /// State of the congestion control machine (TCP_CA_Open ... TCP_CA_Loss); [`TcpInfo::ca_state_name`] is its name.
        ca_state
        /// Retransmission timeouts since the last progress.
        retransmits
        /// Unanswered window or keepalive probes.
        probes
        /// Doublings of the running timer.
        backoff
        /// TCPI_OPT_* bits.
        options
    }
    bits {
        /// Shift of the peer's windows; four bits.
        snd_wscale
        /// Shift of our windows; four bits.
        rcv_wscale
        /// 1 when `delivery_rate` was limited by the application, as it is before the first sample.
        delivery_rate_app_limited
        /// Why Fast Open failed at the client; two bits.
        fastopen_client_fail
        /// What is agreed on about ECN (TCPI_ECN_MODE_*): 0 for nothing, 1 for RFC 3168, 2 for RFC 9768, 3 while our SYN asks for that. Linux 6.18 has
        /// the bits of two other fields here.
        ecn_mode
        /// Whether the option of accurate ECN came (TCP_ACCECN_OPT_*).
        accecn_opt_seen
        /// What keeps accurate ECN from working (TCP_ACCECN_ACE_FAIL_* and TCP_ACCECN_OPT_FAIL_*).
        accecn_fail_mode
    }
    words {
        /// Retransmission timeout.
        rto: u32,
        /// Estimated delay of an acknowledgement.
        ato: u32,
        /// Payload bytes of a full segment that we send.
        snd_mss: u32,
        /// Estimated payload bytes of the peer's full segments.
        rcv_mss: u32,
        /// Segments in flight or believed lost.
        unacked: u32,
        /// Segments selectively acknowledged.
        sacked: u32,
        /// Segments believed lost.
        lost: u32,
        /// Segments of which a retransmission is in flight.
        retrans: u32,
        /// Always 0, as in Linux since 4.15.
        fackets: u32,
        /// Milliseconds since data was sent.
        last_data_sent: u32,
        /// Always 0, as in Linux.
        last_ack_sent: u32,
        /// Milliseconds since data came in order.
        last_data_recv: u32,
        /// Milliseconds since an acknowledgement came.
        last_ack_recv: u32,
        /// Path MTU in bytes.
        pmtu: u32,
        /// Slow-start threshold of the window that we offer, in bytes.
        rcv_ssthresh: u32,
        /// Smoothed round-trip time.
        rtt: u32,
        /// Its mean deviation.
        rttvar: u32,
        /// Slow-start threshold in segments.
        snd_ssthresh: u32,
        /// Congestion window in segments.
        snd_cwnd: u32,
        /// MSS that we announced.
        advmss: u32,
        /// Measured reordering in segments.
        reordering: u32,
        /// Round trip as the receiver measures it.
        rcv_rtt: u32,
        /// Bytes read in the last measured round trip.
        rcv_space: u32,
        /// Segments ever retransmitted.
        total_retrans: u32,
        /// Bytes per second; `u64::MAX` for none.
        pacing_rate: u64,
        /// SO_MAX_PACING_RATE; `u64::MAX` for none.
        max_pacing_rate: u64,
        /// Sequence space acknowledged by the peer, our SYN included where we sent the first.
        bytes_acked: u64,
        /// Sequence space received in order, the peer's FIN included.
        bytes_received: u64,
        /// Segments sent, the SYN-ACK of a passive open excluded.
        segs_out: u32,
        /// Segments received.
        segs_in: u32,
        /// Bytes queued and never sent.
        notsent_bytes: u32,
        /// Smallest round trip of the last minutes; `u32::MAX` while unknown.
        min_rtt: u32,
        /// Segments with data received.
        data_segs_in: u32,
        /// Segments with data sent.
        data_segs_out: u32,
        /// Bytes per second of the last sample that counts.
        delivery_rate: u64,
        /// Time with something queued or in flight.
        busy_time: u64,
        /// Of it, held by the peer's window.
        rwnd_limited: u64,
        /// Of it, held by the send buffer.
        sndbuf_limited: u64,
        /// Segments delivered, the SYN included.
        delivered: u32,
        /// Of them, acknowledged with an ECN echo.
        delivered_ce: u32,
        /// Payload bytes sent, retransmissions included.
        bytes_sent: u64,
        /// Payload bytes retransmitted.
        bytes_retrans: u64,
        /// Duplicates that the peer reported.
        dsack_dups: u32,
        /// Reordering events seen.
        reord_seen: u32,
        /// Segments received out of order.
        rcv_ooopack: u32,
        /// The peer's window in bytes.
        snd_wnd: u32,
        /// The window that we offered last, in bytes.
        rcv_wnd: u32,
        /// Timeouts that gave the flow another label.
        rehash: u32,
        /// Retransmission timeouts ever.
        total_rto: u16,
        /// Recoveries that began with a timeout.
        total_rto_recoveries: u16,
        /// Milliseconds spent in them.
        total_rto_time: u32,
        /// Segments received with a congestion mark.
        received_ce: u32,
        /// Payload bytes that the peer got with ECT(1), by its option of accurate ECN; 0 without it, like the two fields that follow.
        delivered_e1_bytes: u32,
        /// With ECT(0).
        delivered_e0_bytes: u32,
        /// With a congestion mark.
        delivered_ce_bytes: u32,
        /// Payload bytes received with ECT(1).
        received_e1_bytes: u32,
        /// With ECT(0).
        received_e0_bytes: u32,
        /// With a congestion mark.
        received_ce_bytes: u32,
    }
}

/// States of the congestion control machine by Linux's number, as `ss` names them.
const CA_STATES: [&str; 5] = ["Open", "Disorder", "CWR", "Recovery", "Loss"];

impl TcpInfo {
    /// The state as `ss` prints it, [`UNKNOWN`](Self::UNKNOWN) for a number that is no state.
    #[must_use]
    pub fn state_name(&self) -> &'static str {
        State::ALL
            .iter()
            .find(|state| **state as u8 == self.state)
            .map_or(Self::UNKNOWN, |state| state.name())
    }

    /// The state of the congestion control machine without `TCP_CA_`, [`UNKNOWN`](Self::UNKNOWN) for a number that is none.
    #[must_use]
    pub fn ca_state_name(&self) -> &'static str {
        CA_STATES.get(usize::from(self.ca_state)).copied().unwrap_or(Self::UNKNOWN)
    }

    /// What `ss` prints for a number that is no state: no stack tells one, but a `TcpInfo` may be made by hand.
    pub const UNKNOWN: &'static str = "UNKNOWN";

    /// `struct tcp_info` of Linux 7.0, little endian. A caller with a shorter buffer gets the front of it.
    #[must_use]
    pub fn emit(&self) -> [u8; TCP_INFO_LEN] {
        let mut out = [0; TCP_INFO_LEN];
        let mut to = Writer { out: &mut out, at: 0 };
        self.emit_bytes(&mut to);
        to.put(&[
            (self.snd_wscale & 15) | self.rcv_wscale << 4,
            (self.delivery_rate_app_limited & 1) | (self.fastopen_client_fail & 3) << 1,
        ]);
        self.emit_words(&mut to);
        let ecn = (self.ecn_mode & 3) | (self.accecn_opt_seen & 3) << 2 | (self.accecn_fail_mode & 15) << 4;
        to.put(&u32::from(ecn).to_le_bytes());
        debug_assert_eq!(to.at, TCP_INFO_LEN);
        out
    }

    fn take_times(&mut self, chrono: &Chrono, cx: &Cx<'_>) {
        (self.busy_time, self.rwnd_limited, self.sndbuf_limited) = chrono.report_us(cx.now);
    }
}

/// Memory of a socket, in bytes of charge (SO_MEMINFO).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What waits to be read or to be put in order: `sk_rmem_alloc` without the error queue, which is the owner's.
    pub received: u32,
    /// Bound of the receive buffer (`sk_rcvbuf`).
    pub rcvbuf: u32,
    /// What was written and is not acknowledged (`sk_wmem_queued`).
    pub queued: u32,
    /// Bound of the send buffer (`sk_sndbuf`).
    pub sndbuf: u32,
    /// Memory that the send queue really holds; `tcp_mem` counts it.
    pub held: u32,
}

fn micros(d: Duration) -> u32 {
    u32::try_from(d.as_micros()).unwrap_or(u32::MAX)
}

/// What a connection has out, and what bounds that; for checkers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Segments in flight.
    pub in_flight: u32,
    /// Segments that are not, since without SACK each duplicate acknowledgement stands for one.
    pub duplicates: u32,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Segments with data that have been sent, and those of them that were sent again.
    pub sent: (u32, u32),
    /// The FIN has been sent.
    pub fin: bool,
    /// Bytes of charge below the transport.
    pub below: u32,
    /// How it leaves.
    pub pace: Pace,
    /// Where what is not acknowledged begins in the stream.
    pub una: u64,
    /// Where what has never been sent begins there.
    pub nxt: u64,
    /// A probe of the path's MTU is out.
    pub probes_mtu: bool,
    /// Packets in the retransmit queue.
    pub records: usize,
    /// Where the sequence space ended when the tail loss probe that is out left.
    pub tail_probe: Option<NonZeroU64>,
}

/// How a connection leaves: how fast, in how large packets, and what it has handed down; for checkers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Bytes a second, whether or not it is paced.
    pub rate: u64,
    /// That by which a lost probe of the path's MTU goes again: the one of before the acknowledgement that showed its loss.
    pub again: Option<u64>,
    /// Who paces it.
    pub by: Status,
    /// The smallest round trip.
    pub min_rtt: Option<Duration>,
    /// Payload and headers from IP on of a full segment, without selective acknowledgements.
    pub segment: (u16, u16),
    /// Bytes of headers that counters of marks may take besides, in words; none without accurate ECN.
    pub counters: u16,
    /// Bytes with headers and segments of the largest packet that the device takes.
    pub gso: (u32, u16),
    /// See [`two_segments_from`](crate::path::congestion::Wishes::two_segments_from).
    pub two_segments_from: Option<u64>,
    /// Where in the stream ends what a write has pushed out and what has not left yet: it was cut within that write, by the window of then.
    pub pushed_to: u64,
    /// Number of the last packet that was handed down.
    pub handed: u16,
    /// A timeout or a tail loss probe waits for its turn.
    pub due: bool,
}

/// A packet in the retransmit queue; for checkers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentPacket {
    /// Where it begins in the stream.
    pub at: u64,
    /// Payload.
    pub bytes: usize,
    /// Segments.
    pub segs: u16,
    /// When it departs, the last time that it was sent.
    pub departs: Instant,
    /// Its number among the packets that were handed down, that time.
    pub number: u16,
}

impl Conn {
    /// Packets that begin at or behind `offset` in the stream, and were sent.
    pub fn sent_from(&self, offset: u64) -> impl Iterator<Item = SentPacket> {
        let queue = self.tx.queue_ref();
        queue.range(offset, queue.nxt()).map(|(at, sent)| SentPacket {
            at,
            bytes: sent.payload.len(),
            segs: sent.segs,
            departs: sent.sent_at,
            number: sent.number,
        })
    }

    /// What bounds it, at this moment.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        let flight = self.tx.flight();
        // IP and TCP.
        let headers = if self.tuple.is_v6() { 40 + 20 } else { 20 + 20 };
        Bounds {
            in_flight: self.tx.in_flight(),
            duplicates: if flight.sack_ok { 0 } else { flight.sacked_out },
            cwnd: self.path.window.cwnd,
            sent: (self.rest.stats.data_segs_out, self.tx.total_retrans()),
            fin: self.state.is_synchronized() && !self.state.can_send() && self.tx.peek_unsent().is_none(),
            below: self.out.credit.below(),
            pace: Pace {
                rate: self.path.pacing.rate(),
                again: self.path.plpmtud.as_ref().and_then(|search| search.walk()).map(|walk| walk.rate),
                by: self.path.pacing.status(),
                min_rtt: self.path.rtt.min_rtt(),
                segment: (self.mss(), headers + self.peer.data_option_bytes()),
                counters: if self.peer.ecn.accurate() { AccEcnOption::ROOM_MAX as u16 } else { 0 },
                gso: (self.snd.gso.max_size(), self.snd.gso.max_segs),
                two_segments_from: self.path.congestion.wishes().two_segments_from,
                pushed_to: self.tx.queue_ref().nxt() + u64::from(self.tx.queue_ref().unsent.pushed().bytes),
                handed: self.tx.queue_ref().below.handed(),
                due: self.out.is_due(),
            },
            una: self.tx.una_offset(),
            nxt: self.tx.queue_ref().nxt(),
            probes_mtu: self.path.plpmtud.as_ref().is_some_and(|search| search.is_probing()),
            records: self.tx.queue_ref().records(),
            tail_probe: self.tx.tail_probe(),
        }
    }

    /// Sequence space that the peer has acknowledged. Offset 0 is the SYN; a passive open began at 1, and its SYN-ACK is no
    /// connection's.
    pub(super) fn bytes_acked(&self) -> u64 {
        let passive = !self.rest.stats.fast.has(fact::ACTIVE);
        self.tx.una_offset().saturating_sub(u64::from(passive))
    }

    /// Bytes of charge that were handed down and have not come back.
    #[must_use]
    pub const fn charge_below(&self) -> u32 {
        self.out.credit.below()
    }

    /// Bytes that wait to be read, and bytes written that the peer has not acknowledged: the queues as `ss` shows them.
    #[must_use]
    pub fn queues(&self) -> (u64, u64) {
        (u64::from(self.rx.readable_bytes()), self.tx.queue_ref().write_seq() - self.tx.una_offset())
    }

    /// Bytes written that were not sent, retransmissions aside.
    #[must_use]
    pub const fn unsent_bytes(&self) -> u64 {
        self.tx.queue_ref().unsent_bytes()
    }

    /// See [`Receiver::charge_errors`](super::receiver::Receiver::charge_errors).
    pub const fn charge_errors(&mut self, bytes: u32) {
        self.rx.charge_errors(bytes);
    }

    /// Memory of both queues with their bounds.
    #[must_use]
    pub fn memory(&self) -> Memory {
        Memory {
            received: self.rx.truesize(),
            rcvbuf: self.rx.window().buf().bytes,
            queued: u32::try_from(self.tx.flight().wmem_queued()).unwrap_or(u32::MAX),
            sndbuf: self.app.sndbuf,
            held: u32::try_from(self.tx.queue_ref().queued_charge()).unwrap_or(u32::MAX),
        }
    }

    /// TCP_CC_INFO, where the controller is BBR.
    #[must_use]
    pub fn bbr_info(&self) -> Option<BbrInfo> {
        match &self.path.congestion {
            AnyCongestion::Bbr(bbr) => Some(bbr.info(u32::from(self.mss()))),
            _ => None,
        }
    }

    /// TCP_INFO.
    #[must_use]
    pub fn info(&self, cx: &Cx<'_>) -> TcpInfo {
        let mut info = TcpInfo {
            // What is left of a connection in TIME-WAIT is no socket any more; the application's is closed.
            state: if self.state == State::TimeWait { State::Close } else { self.state } as u8,
            probes: self.timers.probes_out,
            backoff: self.path.rtt.backoff(),
            options: self.option_bits(),
            snd_wscale: self.peer.snd_wscale,
            rcv_wscale: self.peer.rcv_wscale,
            snd_mss: u32::from(self.mss()),
            pmtu: u32::from(self.path.pmtu.mtu()),
            advmss: self.rx.window().advmss(),
            snd_wnd: self.snd.wnd,
            fastopen_client_fail: self.rest.stats.fast.fail as u8,
            ..TcpInfo::default()
        };
        info.take_times(&self.rest.stats.chrono, cx);
        self.sending(&mut info, cx);
        self.receiving(&mut info, cx);
        self.path_info(&mut info, cx);
        if !self.was_accepted() {
            self.unanswered(&mut info);
        }
        info.ecn_mode = self.ecn_mode();
        if let Some(accurate) = self.accurate() {
            let learned = accurate.learned;
            (info.accecn_fail_mode, info.accecn_opt_seen) = (learned.failed, learned.seen as u8);
            [info.delivered_e1_bytes, info.delivered_e0_bytes, info.delivered_ce_bytes] =
                accurate.delivered();
        }
        info
    }

    /// The peer has answered our SYN, or it was the peer's.
    #[must_use]
    pub fn was_accepted(&self) -> bool {
        self.rest.stats.fast.has(fact::HANDSHAKE) || !self.rest.stats.fast.has(fact::ACTIVE)
    }

    /// TCPI_ECN_MODE_*: what was asked for counts until there is an answer.
    fn ecn_mode(&self) -> u8 {
        match self.peer.ecn {
            _ if !self.was_accepted() && self.out.ecn_asked.accurate() => MODE_PENDING,
            _ if !self.was_accepted() => u8::from(self.out.ecn_asked.ever()),
            mode => mode as u8,
        }
    }

    fn option_bits(&self) -> u8 {
        let bits = [
            (self.peer.ts, OPT_TIMESTAMPS),
            (self.peer.sack, OPT_SACK),
            (self.peer.wscale, OPT_WSCALE),
            (self.peer.ecn.capable(), OPT_ECN),
            (self.path.ecn.ect_seen() || self.rest.stats.fast.has(fact::MARKED), OPT_ECN_SEEN),
            (self.rest.stats.fast.has(fact::DATA_ACKED), OPT_SYN_DATA),
            (self.rest.stats.fast.has(fact::CHILD), OPT_TFO_CHILD),
        ];
        bits.into_iter().fold(0, |all, (on, bit)| if on { all | bit } else { all })
    }

    /// Nothing of what our SYN offers is agreed on (`tcp_connect_init`).
    fn unanswered(&self, info: &mut TcpInfo) {
        info.options = if self.out.ecn_asked.ever() { OPT_ECN } else { 0 };
        (info.snd_wscale, info.rcv_wscale) = (0, 0);
        // Nothing is settled before the SYN (`tcp_init_sock`).
        let settled = self.tx.queue_ref().nxt() > 0;
        let mss = if settled { self.path.pmtu.mss(self.syn_option_bytes()) } else { MSS_DEFAULT };
        info.snd_mss = mss.into();
        info.rcv_mss = MIN_MSS;
    }

    fn sending(&self, info: &mut TcpInfo, cx: &Cx<'_>) {
        let (flight, stats) = (self.tx.flight(), &self.rest.stats);
        info.ca_state = self.tx.ca_state() as u8;
        info.retransmits = self.tx.retransmits();
        info.unacked = flight.packets_out;
        info.sacked = flight.sacked_out;
        info.lost = flight.lost_out;
        info.retrans = flight.retrans_out;
        info.last_data_sent = cx.now.since(self.tx.last_data_at()).as_millis() as u32;
        info.reordering = self.tx.reordering().degree;
        info.reord_seen = self.tx.reordering().seen;
        info.total_retrans = self.tx.total_retrans();
        info.dsack_dups = self.tx.dsack_dups();
        let timeouts = self.tx.timeouts();
        info.rehash = timeouts.rehashes.into();
        info.total_rto = timeouts.total;
        info.total_rto_recoveries = timeouts.recoveries;
        info.total_rto_time = timeouts.time_ms(cx.now);
        info.bytes_acked = self.bytes_acked();
        info.segs_out = stats.segs_out;
        info.data_segs_out = stats.data_segs_out;
        info.bytes_sent = stats.bytes_sent;
        info.bytes_retrans = stats.bytes_retrans;
        info.notsent_bytes = u32::try_from(self.tx.queue_ref().unsent_bytes()).unwrap_or(u32::MAX);
    }

    fn receiving(&self, info: &mut TcpInfo, cx: &Cx<'_>) {
        let stats = &self.rest.stats;
        info.ato = micros(self.rx.ack.ato())
            .min(self.rx.ack.delay_max_us(cx.sysctl, self.path.rtt.rto_min_us(cx.sysctl)));
        info.rcv_mss = self.rx.ack.rcv_mss();
        info.last_data_recv = cx.now.since(self.rx.ack.last_data_at()).as_millis() as u32;
        info.last_ack_recv = cx.now.since(stats.last_ack_recv).as_millis() as u32;
        info.rcv_ssthresh = self.rx.window().ssthresh();
        info.rcv_wnd = self.rx.window().wnd();
        info.rcv_rtt = micros(self.rx.rtt());
        info.rcv_space = self.rx.rcv_space();
        info.bytes_received = stats.bytes_received;
        info.segs_in = stats.segs_in;
        info.data_segs_in = stats.data_segs_in;
        info.rcv_ooopack = stats.rcv_ooopack;
        info.received_ce = stats.received_ce;
        let marked = self.rest.seldom.as_ref().map(|seldom| seldom.received_marked);
        [info.received_e1_bytes, info.received_e0_bytes, info.received_ce_bytes] = marked.unwrap_or_default();
    }

    fn path_info(&self, info: &mut TcpInfo, cx: &Cx<'_>) {
        let path = &self.path;
        info.rto = micros(path.rtt.rto(cx.sysctl));
        info.rtt = micros(path.rtt.srtt().unwrap_or_default());
        info.rttvar = micros(path.rtt.mdev());
        info.min_rtt = path.rtt.min_rtt().map_or(u32::MAX, micros);
        info.snd_ssthresh = path.window.ssthresh;
        info.snd_cwnd = path.window.cwnd;
        info.pacing_rate = path.pacing.rate();
        info.max_pacing_rate = path.pacing.max_rate();
        info.delivered = path.rate.delivered();
        info.delivered_ce = path.rate.delivered_ce();
        let best = path.rate.best();
        info.delivery_rate_app_limited = u8::from(best.is_none_or(|rate| rate.app_limited));
        info.delivery_rate = best.map_or(0, |rate| rate.bytes_per_second(u32::from(self.mss())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_names_that_ss_prints() {
        let of = |state, ca_state| TcpInfo { state, ca_state, ..TcpInfo::default() };
        let names = |info: TcpInfo| (info.state_name(), info.ca_state_name());
        assert_eq!(names(of(1, 3)), ("ESTAB", "Recovery"));
        assert_eq!(names(of(0, 5)), ("UNKNOWN", "UNKNOWN"));
    }

    /// Offsets by the kernel's own type information (BTF of 6.18.44); the last word is that of 7.0.
    #[test]
    fn the_layout_is_that_of_the_kernel() {
        let info = TcpInfo {
            state: 1,
            options: 7,
            snd_wscale: 7,
            rcv_wscale: 10,
            delivery_rate_app_limited: 1,
            fastopen_client_fail: 2,
            rto: 0x0403_0201,
            total_retrans: 100,
            pacing_rate: 104,
            segs_out: 136,
            busy_time: 168,
            delivered: 192,
            bytes_sent: 200,
            rcv_wnd: 232,
            total_rto: 240,
            total_rto_recoveries: 242,
            total_rto_time: 244,
            received_ce: 248,
            received_ce_bytes: 272,
            ecn_mode: 1,
            accecn_opt_seen: 2,
            accecn_fail_mode: 4,
            ..TcpInfo::default()
        };
        let bytes = info.emit();
        assert_eq!((bytes[0], bytes[5], bytes[6], bytes[7]), (1, 7, 0xa7, 0b101));
        assert_eq!(bytes[8..12], [1, 2, 3, 4]);
        // Every other field above holds its own offset.
        for at in [100, 104, 136, 168, 192, 200, 232, 240, 242, 244, 248, 272] {
            assert_eq!(u16::from_le_bytes([bytes[at], bytes[at + 1]]), at as u16);
        }
        assert_eq!(bytes[276..], [0b0100_1001, 0, 0, 0]);
    }

    #[test]
    fn fields_are_found_by_linuxs_names() {
        let info = TcpInfo { snd_cwnd: 10, busy_time: 1 << 40, ..TcpInfo::default() };
        assert_eq!(info.get("tcpi_snd_cwnd"), Some(10));
        assert_eq!(info.get("busy_time"), Some(1 << 40));
        assert_eq!(info.get("tcpi_nonsense"), None);
    }
}
