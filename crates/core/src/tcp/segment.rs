//! A parsed segment on its way up, and a planned one on its way down.
use super::sender::Attempt;
use super::seq::Seq;
use crate::base::time::Instant;
use bytes::Bytes;
use lowwater_wire::tcp::{TcpFlags, TcpOptions, TcpRepr};
use smallvec::SmallVec;

/// Payload of a segment: one piece, or several where packets were coalesced.
pub type Chunks = SmallVec<[Bytes; 1]>;

/// The bits of the type of service that are ECN's (RFC 3168 section 5).
pub(super) const ECN_BITS: u8 = 3;

/// ECN codepoint of a packet (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Ecn {
    /// The sender does not understand ECN.
    #[default]
    NotEct = 0,
    /// ECN-capable, codepoint 1.
    Ect1 = 1,
    /// ECN-capable, codepoint 0.
    Ect0 = 2,
    /// A router met congestion.
    Ce = 3,
}

impl Ecn {
    /// The codepoint in the low two bits of a TOS or traffic class byte.
    #[must_use]
    pub const fn of_tos(tos: u8) -> Self {
        match tos & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// How a segment lay in its packet, or the first of those that were coalesced.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout {
    /// Length of the TCP header with its options, those that nobody here knows and their padding included.
    pub header_bytes: u8,
    /// The options are laid out as header prediction expects ([`TcpView::has_usual_options`]).
    ///
    /// [`TcpView::has_usual_options`]: lowwater_wire::tcp::TcpView::has_usual_options
    pub usual: bool,
    /// Payload bytes per segment where packets were coalesced; 0 for a single segment.
    pub gso_size: u16,
    /// Bytes that each piece of the payload pins where it is a slice of something larger; 0 for its own length.
    pub pinned_bytes: u32,
    /// Flow label of its IPv6 header; 0 over IPv4.
    pub flow_label: u32,
}

/// A segment as it came in: validated by checksum, not yet by sequence number.
#[derive(Clone, Debug)]
pub struct Segment {
    /// When the packet reached this host: RTT samples end here, not when it is processed.
    pub at: Instant,
    /// Sequence number of the first byte, or of the SYN.
    pub seq: Seq,
    /// Acknowledgement number; meaningful with ACK only.
    pub ack: Seq,
    /// Flags.
    pub flags: TcpFlags,
    /// Window field, unscaled.
    pub window: u16,
    /// Urgent pointer; meaningful with URG only.
    pub urgent: u16,
    /// Options.
    pub options: TcpOptions,
    /// Type of service or traffic class, the ECN bits included.
    pub tos: u8,
    /// TTL or hop limit of the packet.
    pub ttl: u8,
    /// How it lay in its packet.
    pub layout: Layout,
    /// Payload.
    pub payload: Chunks,
}

impl Segment {
    /// ECN codepoint of the packet.
    #[must_use]
    pub const fn ecn(&self) -> Ecn {
        Ecn::of_tos(self.tos)
    }

    /// Payload bytes.
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        // It is asked for at nearly every step, and hardly ever are there several pieces.
        match self.payload.as_slice() {
            [] => 0,
            [whole] => whole.len() as u32,
            pieces => pieces.iter().map(|c| c.len() as u32).sum(),
        }
    }

    /// Segments as the peer sent them: several in a coalesced packet, at least one.
    #[must_use]
    pub fn segs(&self) -> u32 {
        let size = u32::from(self.layout.gso_size);
        if size == 0 { 1 } else { self.payload_len().div_ceil(size).max(1) }
    }

    /// Length of the TCP header with its options, as it came.
    #[must_use]
    pub const fn header_bytes(&self) -> u32 {
        self.layout.header_bytes as u32
    }

    /// Sequence space that the segment occupies (SEG.LEN of RFC 9293).
    #[must_use]
    pub fn seq_len(&self) -> u32 {
        self.payload_len()
            + u32::from(self.flags.contains(TcpFlags::SYN))
            + u32::from(self.flags.contains(TcpFlags::FIN))
    }

    /// True when all of `flags` are set.
    #[must_use]
    pub fn has(&self, flags: TcpFlags) -> bool {
        self.flags.contains(flags)
    }
}

/// Whether routers may cut a packet up (`ip_dont_fragment`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// `ip_no_pmtu_disc` decides between [`Self::WherePathAllows`] and [`Self::Never`].
    AsSet,
    /// They may.
    Never,
    /// They may not, unless one of them has less room than is believed of any.
    WherePathAllows,
    /// They may not.
    Always,
}

impl Whole {
    /// DF is set; `locked` is what [`crate::ip::Dst::mtu_locked`] says.
    #[must_use]
    pub const fn sets_df(self, no_pmtu_disc: u32, locked: bool) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::WherePathAllows => !locked,
            Self::AsSet => no_pmtu_disc == 0 && !locked,
        }
    }
}

/// A segment that a connection wants to send; IP, queue and device take it from here.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Header.
    pub repr: TcpRepr,
    /// Payload, shared with the send queue.
    pub payload: Bytes,
    /// Payload bytes per packet when the payload is larger than one; 0 for an ordinary segment.
    pub gso_size: u16,
    /// Segments in it (1 unless `gso_size` is set).
    pub segs: u16,
    /// ECN codepoint and DSCP of the packet.
    pub tos: u8,
    /// Time to live or hop limit; `None` takes the stack's default.
    pub ttl: Option<u8>,
    /// What the socket asks of queues (SO_PRIORITY).
    pub priority: Option<u8>,
    /// Who keeps routers from fragmenting it.
    pub whole: Whole,
    /// Credit that the flow has charged for it; 0 for what no flow pays for.
    pub charge: u32,
    /// Earliest departure.
    pub depart_at: Instant,
    /// How the flow takes it back where the queue below refuses it; `None` for what carries no data.
    pub attempt: Option<Attempt>,
    /// What it asks the peer without data, so that its timer hears where the queue below refuses it.
    pub asks: Option<Question>,
}

/// What a flow must know of a segment that the queue below has refused.
#[derive(Clone, Copy, Debug)]
pub struct Handed {
    pub(in crate::tcp) attempt: Option<Attempt>,
    pub(in crate::tcp) asks: Option<Question>,
    pub(in crate::tcp) charge: u32,
}

impl Handed {
    /// Of this one.
    #[must_use]
    pub const fn of(out: &Outgoing) -> Self {
        Self { attempt: out.attempt, asks: out.asks, charge: out.charge }
    }
}

/// What a segment without data asks a silent peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether its window is open.
    Window,
    /// Whether it is still there.
    Life,
}

impl Outgoing {
    /// A segment without payload that nobody pays for.
    #[must_use]
    pub const fn control(repr: TcpRepr) -> Self {
        Self {
            repr,
            payload: Bytes::new(),
            gso_size: 0,
            segs: 1,
            tos: 0,
            ttl: None,
            priority: None,
            whole: Whole::AsSet,
            attempt: None,
            asks: None,
            charge: 0,
            depart_at: Instant::ZERO,
        }
    }

    /// With the DSCP of what it answers, since no connection has chosen one (`tcp_v4_send_reset`, `tcp_v4_reqsk_send_ack`).
    #[must_use]
    pub const fn in_answer_to(mut self, seg: &Segment) -> Self {
        self.tos = seg.tos & !ECN_BITS;
        self
    }
}
