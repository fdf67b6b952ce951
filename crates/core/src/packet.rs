//! One IP datagram on its way through the stack, possibly a super-packet, with its owner and departure time.
use crate::base::id::FlowId;
use crate::base::limits::HEAD_BYTES;
use crate::base::time::Instant;
use bytes::Bytes;

/// Headers of a packet, written back to front so that each layer prepends its own without moving the others'.
#[derive(Clone)]
pub struct Head {
    start: u8,
    bytes: [u8; HEAD_BYTES],
}

impl Head {
    /// No headers yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { start: HEAD_BYTES as u8, bytes: [0; HEAD_BYTES] }
    }

    /// Room for `len` more bytes in front; the caller writes the header there.
    ///
    /// # Panics
    /// When the headers exceed [`HEAD_BYTES`], which is a bug: the largest legal stack of headers fits.
    pub fn prepend(&mut self, len: usize) -> &mut [u8] {
        let start = usize::from(self.start).checked_sub(len).expect("headers fit HEAD_BYTES");
        self.start = start as u8;
        &mut self.bytes[start..start + len]
    }

    /// Removes `len` bytes from the front.
    pub fn strip(&mut self, len: usize) {
        self.start = (usize::from(self.start) + len).min(HEAD_BYTES) as u8;
    }

    /// The headers, outermost first.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[usize::from(self.start)..]
    }

    /// The headers, outermost first, for fields that are filled in late.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[usize::from(self.start)..]
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        HEAD_BYTES - self.start as usize
    }

    /// True when there are none: a received packet carries its headers in the payload.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for Head {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for Head {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Head({:02x?})", self.as_slice())
    }
}

/// What a super-packet is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum GsoKind {
    /// An ordinary packet.
    #[default]
    None,
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// SCTP over IP: whole packets one behind the other, each with its common header and checksum. The head ends with the IP header.
    Sctp,
}

/// State of the transport checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Csum {
    /// Outgoing: complete in the header. Incoming: not looked at yet.
    #[default]
    None,
    /// The header holds the folded pseudo-header sum (not complemented); the sum over the bytes from `start` on belongs at
    /// `start + offset`. `start` counts from the first byte of the IP header. (VIRTIO_NET_HDR_F_NEEDS_CSUM)
    Partial {
        /// Where summing starts: the transport header.
        start: u16,
        /// Where the checksum belongs, relative to `start`.
        offset: u16,
    },
    /// Incoming: the device or a trusted link has verified it. (VIRTIO_NET_HDR_F_DATA_VALID)
    Valid,
}

/// What the layers below must do to a packet, or what the device has done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Offload {
    /// Kind of super-packet.
    pub gso: GsoKind,
    /// Payload bytes per segment of a super-packet; 0 for an ordinary packet.
    pub gso_size: u16,
    /// Transport checksum.
    pub csum: Csum,
    /// CWR of a super-packet is a bit of the ACE field (RFC 9768 section 3.2.2), which all of its segments carry; that of classic ECN is the first
    /// one's (RFC 3168 section 6.1.2).
    pub repeats_cwr: bool,
}

/// Whose packet it is and how much credit it holds (TCP small queues).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The flow that gets the credit back.
    pub flow: FlowId,
    /// Charge in bytes that comes back when this packet ends.
    pub charge: u32,
    /// What the flow paid for the packet that ends with this one, in bytes; 0 where more pieces of it follow.
    pub whole: u32,
}

impl Owner {
    /// The owner of a packet as its flow hands it down.
    #[must_use]
    pub const fn new(flow: FlowId, charge: u32) -> Self {
        Self { flow, charge, whole: charge }
    }

    /// The owners of the `pieces` that this packet is cut into, in order: its charge and `more` in equal shares, what does not
    /// divide a byte each with the last, so that no share is more than a segment's.
    pub fn cut(self, pieces: u32, more: u32) -> impl Iterator<Item = Self> {
        let pieces = pieces.max(1);
        let all = self.charge.saturating_add(more);
        let (share, small) = (all / pieces, pieces - all % pieces);
        (0..pieces).map(move |at| {
            let whole = if at + 1 == pieces { self.whole } else { 0 };
            Self { charge: share + u32::from(at >= small), whole, ..self }
        })
    }

    /// Nothing of what the flow handed down follows behind this packet.
    #[must_use]
    pub const fn is_end(&self) -> bool {
        self.whole > 0
    }
}

/// One IP datagram, possibly a super-packet.
///
/// Outgoing, `head` holds all headers and `payload` the transport's payload, shared with the send queue. Incoming from a
/// device, `head` is empty and `payload` holds the whole frame; incoming from a link in memory, it is as the sender made it.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Headers.
    pub head: Head,
    /// Payload.
    pub payload: Bytes,
    /// Offload state.
    pub offload: Offload,
    /// Whose credit it holds; `None` for what no flow pays for (RST, ACK, ICMP).
    pub owner: Option<Owner>,
    /// Outgoing: earliest departure time. Incoming: when it reached this host.
    pub at: Instant,
    /// What its socket asks of queues (SO_PRIORITY, its last four bits); `None` leaves it to the type of service.
    pub priority: Option<u8>,
}

impl Packet {
    /// A packet as a device received it.
    #[must_use]
    pub fn received(frame: Bytes, offload: Offload, at: Instant) -> Self {
        Self { head: Head::new(), payload: frame, offload, owner: None, at, priority: None }
    }

    /// Length of headers and payload in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.len() + self.payload.len()
    }

    /// Bytes on the line, where each segment of a super-packet has headers of its own.
    #[must_use]
    pub fn line_bytes(&self) -> u32 {
        self.ip_bytes(0)
    }

    /// The same without the `link_len` bytes of link header that each of them begins with.
    #[must_use]
    pub fn ip_bytes(&self, link_len: usize) -> u32 {
        let size = usize::from(self.offload.gso_size);
        let segments = if size == 0 { 1 } else { self.payload.len().div_ceil(size).max(1) };
        (self.payload.len() + segments * self.head.len().saturating_sub(link_len)) as u32
    }

    /// True when there is not a single byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The packet as one contiguous piece (copies unless there is no separate head).
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        if self.head.is_empty() {
            return self.payload.clone();
        }
        let mut all = bytes::BytesMut::with_capacity(self.len());
        all.extend_from_slice(self.head.as_slice());
        all.extend_from_slice(&self.payload);
        all.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SocketId;

    #[test]
    fn pieces_hold_what_the_packet_held_and_more_and_the_last_is_its_end() {
        let owner = Owner::new(FlowId::of(SocketId::default()), 1_000);
        let pieces: Vec<Owner> = owner.cut(3, 200).collect();
        let of = |f: fn(&Owner) -> u32| pieces.iter().map(f).collect::<Vec<_>>();
        assert_eq!((of(|o| o.charge), of(|o| o.whole)), (vec![400, 400, 400], vec![0, 0, 1_000]));
        let shares: Vec<u32> = owner.cut(7, 0).map(|o| o.charge).collect();
        assert_eq!(shares, [142, 143, 143, 143, 143, 143, 143], "no more than a segment's");
        assert_eq!(owner.cut(1, 0).collect::<Vec<_>>(), [owner]);
    }
}
