//! What the peer of a drawn life knows, and the segments that it makes of that.
use super::super::network::Dice;
use super::end::Out;
use super::program::{Offer, PEERS, Segment};
use lowwater_wire::tcp::TcpFlags;
use std::collections::BTreeMap;

/// The peer's clock at the beginning, in milliseconds.
const CLOCK: u32 = 10_000;
/// Payload of a packet that the device takes, at most.
const MSS: u32 = 1_400;

/// What both SYNs have.
#[derive(Debug)]
struct Agreed {
    stamps: bool,
    sack: bool,
    /// What the stack's windows are scaled by.
    scale: u8,
    /// A SYN of the stack's has come.
    heard: bool,
}

/// The peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) offer: Offer,
    /// The SYN carries timestamps.
    pub(super) stamps: bool,
    agreed: Agreed,
    /// What was sent: first numbers and ends.
    sent: BTreeMap<u32, u32>,
    pub(super) fin_at: Option<u32>,
    /// One past the highest number of the stack, and whether that is its FIN.
    pub(super) high: u32,
    /// The stack's acknowledgment, and the end of its window.
    pub(super) una: u32,
    pub(super) edge: u32,
    /// The highest acknowledgment of the stack's data.
    pub(super) acked: u32,
    /// The window field of what is sent.
    pub(super) window: u16,
    /// The largest window so far.
    pub(super) most: u32,
    habits: Habits,
}

/// What it keeps to.
#[derive(Clone, Copy, Debug)]
struct Habits {
    /// Its SYN has the flags of ECN.
    ecn: bool,
    /// The TOS of what it sends.
    tos: u8,
    /// Payload of what it sends at most, and of what the stack sends.
    longest: (u32, u32),
}

impl Peer {
    pub(super) fn new(offer: Offer, stamps: bool, window: u16) -> Self {
        Self {
            offer,
            stamps,
            agreed: Agreed { stamps, sack: false, scale: 0, heard: false },
            sent: BTreeMap::new(),
            fin_at: None,
            high: 1,
            una: 1,
            edge: 1,
            acked: 1,
            window,
            most: 0,
            habits: Habits { ecn: false, tos: 0, longest: (MSS, 1_460) },
        }
    }

    /// As many others as a crowd has, and one in the place of this.
    pub(super) fn others(&self) -> Vec<Self> {
        let other = |_| {
            let new = Self::new(self.offer, self.stamps, self.window);
            Self { habits: self.habits, ..new }
        };
        (0..PEERS).map(other).collect()
    }

    /// How far its handshake is: what it sends next for it.
    pub(super) fn knock(&self, at: u64) -> Segment {
        match self.agreed.heard {
            true => self.ack(at),
            false => self.syn(at, false),
        }
    }

    /// Nothing was sent or heard of a new connection.
    pub(super) fn restart(&mut self) {
        let new = Self::new(self.offer, self.stamps, self.window);
        *self = Self { habits: self.habits, ..new };
    }

    /// It asks for ECN, or agrees to it, and sends with this TOS.
    pub(super) fn asking(self, ecn: bool, tos: u8) -> Self {
        Self { habits: Habits { ecn, tos, ..self.habits }, ..self }
    }

    /// A packet takes so many bytes behind its headers, of which options need some.
    pub(super) fn behind(self, payload: u32) -> Self {
        Self { habits: Habits { longest: (payload - 60, payload), ..self.habits }, ..self }
    }

    /// Payload of what it sends, at most.
    pub(super) const fn longest(&self) -> u32 {
        self.habits.longest.0
    }

    /// Both SYNs allowed SACK blocks.
    pub(super) const fn may_sack(&self) -> bool {
        self.agreed.sack
    }

    /// A segment of the stack arrives.
    pub(super) fn hear(&mut self, out: &Out) {
        let repr = &out.repr;
        if repr.flags.rst() {
            return;
        }
        if repr.flags.syn() {
            self.agreed.heard = true;
            self.agreed.stamps = self.stamps && repr.options.timestamps.is_some();
            self.agreed.sack = self.offer.sack && repr.options.sack_permitted;
            self.agreed.scale = self.offer.scale.and(repr.options.window_scale).unwrap_or(0);
        }
        self.high = self.high.max(out.end());
        if repr.flags.ack() {
            self.una = self.una.max(repr.ack);
            // What came with a SYN-ACK may be taken or not.
            if self.fin_at.is_none() && self.sent.is_empty() && self.una > 1 {
                self.sent.insert(1, self.una);
            }
            let shift = if repr.flags.syn() { 0 } else { self.agreed.scale };
            self.edge = self.edge.max(repr.ack.saturating_add(u32::from(repr.window) << shift));
        }
    }

    /// The first number that was not sent yet.
    pub(super) fn next(&self) -> u32 {
        match self.sent.first_key_value() {
            Some((1, end)) => *end,
            _ => 1,
        }
    }

    /// One past the highest number that was sent.
    pub(super) fn top(&self) -> u32 {
        self.sent.last_key_value().map_or(1, |(_, end)| *end)
    }

    /// A segment leaves.
    pub(super) fn told(&mut self, segment: &Segment) {
        if segment.flags.ack() && segment.ack <= self.high {
            self.acked = self.acked.max(segment.ack);
            self.most = self.most.max(segment.window.into());
        }
        let (from, to) = (segment.seq, segment.seq + u32::from(segment.len));
        if segment.flags.syn() || segment.flags.rst() || !segment.flags.ack() {
            return;
        }
        if segment.flags.fin() && self.fin_at.is_none() {
            self.fin_at = Some(to);
        }
        if from >= to {
            return;
        }
        let touches = |(a, b): (&u32, &u32)| (*a <= to && from <= *b).then_some(*a);
        let touched: Vec<u32> = self.sent.iter().filter_map(touches).collect();
        let (mut start, mut end) = (from, to);
        for at in touched {
            let other = self.sent.remove(&at).unwrap_or(at);
            (start, end) = (start.min(at), end.max(other));
        }
        self.sent.insert(start, end);
    }

    /// The timestamp option at `at`, in microseconds.
    pub(super) fn stamp(&self, at: u64) -> Option<(u32, u32)> {
        self.agreed.stamps.then_some((CLOCK + (at / 1_000) as u32, 0))
    }

    /// An acknowledgement of everything.
    pub(super) fn ack(&self, at: u64) -> Segment {
        let past_fin = self.fin_at.map_or(0, |fin| u32::from(fin < self.next() + 1));
        Segment {
            flags: TcpFlags::ACK,
            seq: self.next() + past_fin,
            len: 0,
            ack: self.high,
            window: self.window,
            urgent: 0,
            tos: self.habits.tos,
            stamp: self.stamp(at),
            sacks: Vec::new(),
            offer: None,
        }
    }

    /// The SYN, or with `ack` the SYN-ACK.
    pub(super) fn syn(&self, at: u64, ack: bool) -> Segment {
        let mut flags = if ack { TcpFlags::SYN.union(TcpFlags::ACK) } else { TcpFlags::SYN };
        if self.habits.ecn {
            flags.insert(if ack { TcpFlags::ECE } else { TcpFlags::ECE.union(TcpFlags::CWR) });
        }
        let stamp = self.stamps.then_some((CLOCK + (at / 1_000) as u32, 0));
        let ack = if ack { 1 } else { 0 };
        let window = self.window;
        Segment {
            flags,
            seq: 0,
            len: 0,
            ack,
            window,
            urgent: 0,
            tos: self.habits.tos,
            stamp,
            sacks: vec![],
            offer: Some(self.offer),
        }
    }

    /// Payload of the stack's full segments, as far as the peer knows.
    pub(super) fn segment(&self) -> u32 {
        let options = if self.agreed.stamps { 12 } else { 0 };
        u32::from(self.offer.mss.unwrap_or(536).clamp(48, self.habits.longest.1 as u16)) - options
    }

    /// Data from `seq` on, which stays before a FIN that was sent.
    pub(super) fn data(&self, at: u64, seq: u32, len: u32) -> Segment {
        let room = self.fin_at.map_or(u32::MAX, |fin| fin.saturating_sub(seq));
        let len = len.min(room).min(self.longest()) as u16;
        let flags = if len > 0 { TcpFlags::PSH.union(TcpFlags::ACK) } else { TcpFlags::ACK };
        Segment { flags, seq, len, ..self.ack(at) }
    }

    /// How much the window takes from `seq` on.
    pub(super) fn room(&self, seq: u32) -> u32 {
        self.edge.saturating_sub(seq)
    }

    /// Some acknowledgment between the last one and everything, more often than not at the end of a segment.
    pub(super) fn some_ack(&self, dice: &mut Dice) -> u32 {
        let span = self.high.saturating_sub(self.acked);
        match span {
            0 => self.high,
            _ if dice.percent(60) => self.acked + span / 2,
            _ => self.acked + dice.range(1, u64::from(span)) as u32,
        }
    }
}
