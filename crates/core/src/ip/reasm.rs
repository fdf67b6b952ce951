//! Reassembly of fragments for both families: bounded in memory, pieces and time, and strict about overlaps.
use crate::base::{Cx, DeviceId, DropWhy, Duration, Instant};
use bytes::{Bytes, BytesMut};
use core::net::IpAddr;
use lowwater_wire::{checksum, ipv4, ipv6};
use std::collections::{BTreeMap, BTreeSet};

/// Pieces of one datagram: enough for 64 KiB over links of 296 bytes (RFC 1191's smallest in use), too few for an attack.
pub const FRAGMENTS_MAX: usize = 256;
/// What one waiting fragment is charged beyond its bytes, and one datagram beyond its fragments.
const OVERHEAD: usize = 256;

/// What fragments of one datagram have in common (RFC 791 section 3.2; for IPv6 without the protocol, RFC 8200 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) protocol: u8,
    pub(super) ident: u32,
}

/// One fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment<'a> {
    /// Offset of `data` in the datagram.
    pub(super) offset: u16,
    pub(super) more: bool,
    /// Everything in front of `data`, IPv6's fragment header included.
    pub(super) headers: &'a [u8],
    pub(super) data: &'a [u8],
    /// IPv6: where in `headers` the fragment header is announced, and what to put there.
    pub(super) next_header: (usize, u8),
    pub(super) ecn: u8,
    pub(super) device: DeviceId,
    /// Its frame was for a group of the link, or for all of it.
    pub(super) to_group: bool,
}

/// What became of a fragment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Others are missing.
    Waiting,
    /// The datagram, as if it had never been fragmented; part of it may have come to a group of the link.
    Complete {
        whole: Bytes,
        to_group: bool,
    },
    Drop(DropWhy),
}

/// A datagram whose time ran out.
#[derive(Debug)]
pub(super) struct Abandoned {
    pub(super) key: Key,
    pub(super) device: DeviceId,
    /// Part of it has come to a group of the link.
    pub(super) to_group: bool,
    /// The first fragment, if it had come: only then is anybody told (RFC 792, RFC 4443 section 3.3).
    pub(super) first: Option<Vec<u8>>,
    /// Fragments that were dropped with it.
    pub(super) pieces: usize,
}

#[derive(Debug)]
struct Datagram {
    pieces: BTreeMap<u16, Box<[u8]>>,
    /// Headers of the fragment with offset 0.
    headers: Option<Box<[u8]>>,
    /// Where in them which next header belongs.
    next_header: (usize, u8),
    /// Length of the whole, known from the last fragment.
    total: Option<usize>,
    received: usize,
    charge: usize,
    /// Set of ECN codepoints seen.
    ecn: u8,
    deadline: Instant,
    device: DeviceId,
    to_group: bool,
}

/// Datagrams of which fragments are missing.
#[derive(Debug, Default)]
pub struct Reassembly {
    datagrams: BTreeMap<Key, Datagram>,
    deadlines: BTreeSet<(Instant, Key)>,
    charge: usize,
}

enum Fit {
    Fits,
    /// This very range is there already.
    Duplicate,
    /// It contradicts what is there.
    Conflict,
}

impl Datagram {
    fn new(deadline: Instant, device: DeviceId) -> Self {
        Self {
            pieces: BTreeMap::new(),
            headers: None,
            next_header: (0, 0),
            total: None,
            received: 0,
            charge: OVERHEAD,
            ecn: 0,
            deadline,
            device,
            to_group: false,
        }
    }

    /// Whether a piece may be added. Overlaps other than exact repetitions condemn the whole datagram: RFC 5722 section 4
    /// for IPv6, and the same for IPv4.
    fn fit(&self, f: &Fragment<'_>) -> Fit {
        let (start, end) = (usize::from(f.offset), usize::from(f.offset) + f.data.len());
        let ends_wrong = match self.total {
            Some(total) => end > total || (!f.more && end != total),
            None => {
                !f.more
                    && self.pieces.last_key_value().is_some_and(|(at, p)| usize::from(*at) + p.len() > end)
            }
        };
        if ends_wrong {
            return Fit::Conflict;
        }
        if self.pieces.get(&f.offset).is_some_and(|p| p.len() == f.data.len()) {
            // What has come as one of several and now comes as the last one contradicts itself.
            return if f.more || self.total.is_some() { Fit::Duplicate } else { Fit::Conflict };
        }
        let before = self.pieces.range(..=f.offset).next_back();
        let after = self.pieces.range(f.offset..).next();
        let overlaps = before.is_some_and(|(at, p)| usize::from(*at) + p.len() > start)
            || after.is_some_and(|(at, _)| usize::from(*at) < end);
        if overlaps { Fit::Conflict } else { Fit::Fits }
    }

    fn insert(&mut self, f: &Fragment<'_>) {
        if f.offset == 0 {
            self.headers = Some(f.headers.into());
            self.next_header = f.next_header;
        }
        if !f.more {
            self.total = Some(usize::from(f.offset) + f.data.len());
        }
        self.ecn |= 1 << (f.ecn & 3);
        self.to_group |= f.to_group;
        self.received += f.data.len();
        self.pieces.insert(f.offset, f.data.into());
    }

    fn is_complete(&self) -> bool {
        self.total == Some(self.received) && self.headers.is_some()
    }

    /// The datagram with its headers set right; `None` when it is too long, or its ECN codepoints contradict each other.
    fn assemble(&self) -> Option<Bytes> {
        const NOT_ECT: u8 = 1;
        const CE: u8 = 1 << 3;
        let headers = self.headers.as_ref()?;
        let (announced_at, next_header) = self.next_header;
        let mut bytes = BytesMut::with_capacity(headers.len() + self.received);
        bytes.extend_from_slice(headers);
        // RFC 3168 section 5.3: congestion on one fragment is congestion on the packet; a mix with not-ECT is a lie (`ip_frag_ecn_table`).
        let congested = self.ecn & CE != 0;
        if self.ecn & NOT_ECT != 0 && self.ecn != NOT_ECT {
            return None;
        }
        let v6 = headers.first()? >> 4 == 6;
        if v6 {
            bytes.truncate(headers.len() - ipv6::FRAGMENT_HEADER_LEN);
            *bytes.get_mut(announced_at)? = next_header;
            bytes[1] |= if congested { 0x30 } else { 0 };
            let len = u16::try_from(bytes.len() - ipv6::HEADER_LEN + self.received).ok()?;
            bytes[4..6].copy_from_slice(&len.to_be_bytes());
        } else {
            let len = u16::try_from(bytes.len() + self.received).ok()?;
            bytes[1] |= if congested { 3 } else { 0 };
            bytes[2..4].copy_from_slice(&len.to_be_bytes());
            bytes[6..8].fill(0);
            bytes[10..12].fill(0);
            let sum = checksum::checksum(&bytes);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        for piece in self.pieces.values() {
            bytes.extend_from_slice(piece);
        }
        Some(bytes.freeze())
    }
}

impl Reassembly {
    /// Datagrams that wait for the rest, and the bytes that they hold.
    pub(super) fn waiting(&self) -> (u64, u64) {
        (self.datagrams.len() as u64, self.charge as u64)
    }

    /// Takes in one fragment.
    pub(super) fn insert(&mut self, cx: &mut Cx<'_>, key: Key, f: &Fragment<'_>) -> Outcome {
        cx.count.ip.reasm_reqds += 1;
        let outcome = self.try_insert(cx, key, f);
        match outcome {
            Outcome::Waiting => {}
            Outcome::Complete { .. } => cx.count.ip.reasm_oks += 1,
            Outcome::Drop(_) => cx.count.ip.reasm_fails += 1,
        }
        outcome
    }

    fn try_insert(&mut self, cx: &Cx<'_>, key: Key, f: &Fragment<'_>) -> Outcome {
        if f.data.is_empty() || (f.more && !f.data.len().is_multiple_of(8)) {
            return Outcome::Drop(DropWhy::BadFragment);
        }
        // The length of IPv4 counts its header, that of IPv6 does not.
        let header = if key.dst.is_ipv4() { ipv4::HEADER_LEN } else { 0 };
        if usize::from(f.offset) + f.data.len() > usize::from(u16::MAX) - header {
            self.remove(&key);
            return Outcome::Drop(DropWhy::BadFragment);
        }
        let charge = f.data.len() + f.headers.len() + OVERHEAD;
        if self.charge + charge + OVERHEAD > cx.sysctl.ipfrag_high_thresh as usize {
            return Outcome::Drop(DropWhy::ReassemblyFull);
        }
        let Some(datagram) = self.datagrams.get_mut(&key) else {
            let seconds = if key.dst.is_ipv4() { cx.sysctl.ipfrag_time } else { cx.sysctl.ip6frag_time };
            let deadline = cx.now + Duration::from_secs(seconds.into());
            let mut datagram = Datagram::new(deadline, f.device);
            datagram.insert(f);
            datagram.charge += charge;
            self.charge += datagram.charge;
            self.deadlines.insert((deadline, key));
            self.datagrams.insert(key, datagram);
            return Outcome::Waiting;
        };
        match datagram.fit(f) {
            Fit::Duplicate => return Outcome::Waiting,
            Fit::Fits if datagram.pieces.len() < FRAGMENTS_MAX => {}
            Fit::Fits | Fit::Conflict => {
                self.remove(&key);
                return Outcome::Drop(DropWhy::BadFragment);
            }
        }
        datagram.insert(f);
        datagram.charge += charge;
        self.charge += charge;
        if !datagram.is_complete() {
            return Outcome::Waiting;
        }
        let whole = self.remove(&key).and_then(|d| Some((d.assemble()?, d.to_group)));
        whole.map_or(Outcome::Drop(DropWhy::BadFragment), |(whole, to_group)| Outcome::Complete {
            whole,
            to_group,
        })
    }

    fn remove(&mut self, key: &Key) -> Option<Datagram> {
        let datagram = self.datagrams.remove(key)?;
        self.deadlines.remove(&(datagram.deadline, *key));
        self.charge -= datagram.charge;
        Some(datagram)
    }

    /// Bytes that waiting fragments are charged.
    #[must_use]
    pub const fn charge(&self) -> usize {
        self.charge
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// Gives up the next datagram whose time has run out.
    pub(super) fn on_timeout(&mut self, now: Instant) -> Option<Abandoned> {
        let &(_, key) = self.deadlines.first().filter(|(at, _)| *at <= now)?;
        let datagram = self.remove(&key)?;
        let first = datagram.headers.as_ref().zip(datagram.pieces.get(&0));
        Some(Abandoned {
            key,
            device: datagram.device,
            to_group: datagram.to_group,
            pieces: datagram.pieces.len(),
            first: first.map(|(headers, data)| [&headers[..], data].concat()),
        })
    }
}

#[cfg(test)]
mod tests;
