//! What Linux charges a receive buffer for a packet: `truesize`. Windows of TCP and the room of UDP are reckoned from it, whatever a packet
//! really pins here.
//!
//! It depends on the driver that received the packet. This is what a TUN device without offloads gives, as found by SO_MEMINFO on
//! Linux 6.18: a buffer of the next larger size with room in front and metadata behind, and whole pages for what that cannot hold.

/// The descriptor of a buffer (`struct sk_buff`).
const DESCRIPTOR: u32 = 256;
/// Metadata behind the bytes (`struct skb_shared_info`).
const BEHIND: u32 = 320;
/// Room in front of the packet (`NET_SKB_PAD`).
const FRONT: u32 = 64;
/// Sizes of buffers; the last one is a page.
const SIZES: [u32; 4] = [576, 1_024, 2_048, PAGE];
const PAGE: u32 = 4_096;
/// Bytes of a packet that the largest buffer holds.
const LINEAR_MAX: u32 = PAGE - FRONT - BEHIND;
/// A packet that fits a page with the room in front, but not with the metadata behind it, gets one buffer of two pages (`tun_get_user`).
const SINGLE_MAX: u32 = PAGE - FRONT - 1;
/// Payload bytes of the buffers into which a full queue is squeezed (`SKB_MAX_ORDER(0, 0)`).
pub const SQUEEZED_MAX: u32 = PAGE - BEHIND;

/// A charge, the room behind the payload in its buffer, whether the buffer begins with bytes that the one before it has, and whether it is one of
/// copies.
///
/// All in one word, since each waiting segment has one: bytes in units of 64 above, tail room in the low 12 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Truesize(u32);

impl Truesize {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Largest charge that fits, in its units.
    const MAX: u32 = (1 << 18) - 1;
    const CUT: u32 = 1 << 12;
    const COPIES: u32 = 1 << 13;
    /// Bits below the charge.
    const SHIFT: u32 = 14;

    const fn new(bytes: u32, tailroom: u32) -> Self {
        let units = bytes / 64;
        Self((if units > Self::MAX { Self::MAX } else { units }) << Self::SHIFT | tailroom)
    }

    /// A packet of `bytes`, IP header included.
    #[must_use]
    pub fn of_packet(bytes: u32) -> Self {
        if (LINEAR_MAX + 1..=SINGLE_MAX).contains(&bytes) {
            return Self::new(DESCRIPTOR + 2 * PAGE, 2 * PAGE - BEHIND - FRONT - bytes);
        }
        let linear = bytes.min(LINEAR_MAX);
        let size = buffer(FRONT + linear);
        let tailroom = if bytes > linear { 0 } else { size - BEHIND - FRONT - linear };
        Self::new(DESCRIPTOR + size + (bytes - linear).next_multiple_of(PAGE), tailroom)
    }

    /// `bytes` of payload, at most [`SQUEEZED_MAX`], that were copied to a buffer of their own (`tcp_collapse`).
    #[must_use]
    pub fn squeezed(bytes: u32) -> Self {
        let size = buffer(bytes);
        Self(Self::new(DESCRIPTOR + size, (size - BEHIND).saturating_sub(bytes)).0 | Self::COPIES)
    }

    /// The charge in bytes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        self.0 >> Self::SHIFT << 6
    }

    /// Bytes that still fit behind the payload.
    #[must_use]
    pub const fn tailroom(self) -> u32 {
        self.0 & 0xfff
    }

    /// The same buffer, of whose first bytes the one before it has some.
    #[must_use]
    pub const fn cut(self) -> Self {
        Self(self.0 | Self::CUT)
    }

    /// The one before it has some of its first bytes.
    #[must_use]
    pub const fn is_cut(self) -> bool {
        self.0 & Self::CUT != 0
    }

    /// Nothing but copies is charged ([`Self::squeezed`]): no packet as it came.
    #[must_use]
    pub const fn is_of_copies(self) -> bool {
        self.0 & Self::COPIES != 0
    }

    /// No more can be added without a charge beyond the largest.
    #[must_use]
    pub const fn is_large(self) -> bool {
        self.bytes() > Self::MAX << 5
    }

    /// The same buffer after `len` bytes that follow were copied to its end, where they cost nothing (`skb_try_coalesce`).
    #[must_use]
    pub const fn with_tail(self, len: u32) -> Option<Self> {
        if len <= self.tailroom() { Some(Self(self.0 - len)) } else { None }
    }

    /// Two buffers as one, of which `next` is the last.
    #[must_use]
    pub const fn and(self, next: Self) -> Self {
        let both = Self::new(self.bytes().saturating_add(next.bytes()), next.tailroom());
        let of_copies = (self.bytes() == 0 || self.is_of_copies()) && next.is_of_copies()
            || self.is_of_copies() && next.bytes() == 0;
        if of_copies { Self(both.0 | Self::COPIES) } else { both }
    }
}

/// The buffer that holds `bytes` beside its metadata.
fn buffer(bytes: u32) -> u32 {
    SIZES.into_iter().find(|size| bytes + BEHIND <= *size).unwrap_or(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (payload, truesize) of segments with 40 bytes of headers, printed by SO_MEMINFO on Linux 6.18.44.
    #[test]
    fn packets_are_charged_as_by_a_tun_of_linux() {
        for (payload, charge) in [
            (50, 832),
            (150, 832),
            (200, 1_280),
            (600, 1_280),
            (620, 2_304),
            (1_460, 2_304),
            (1_624, 2_304),
            (1_630, 4_352),
            (3_640, 4_352),
            (3_700, 8_448),
            (7_000, 8_448),
            (8_000, 12_544),
            (8_960, 12_544),
        ] {
            assert_eq!(Truesize::of_packet(payload + 40).bytes(), charge, "{payload}");
        }
    }

    #[test]
    fn copies_are_told_from_packets() {
        let (copy, packet) = (Truesize::squeezed(SQUEEZED_MAX), Truesize::of_packet(3_000));
        assert_eq!(copy.bytes(), packet.bytes());
        let of_copies =
            [copy, copy.and(copy), Truesize::NONE.and(copy), copy.and(Truesize::NONE), copy.cut()];
        assert!(of_copies.into_iter().all(Truesize::is_of_copies));
        let others = [packet, Truesize::NONE, copy.and(packet), packet.and(copy), packet.and(Truesize::NONE)];
        assert!(!others.into_iter().any(Truesize::is_of_copies));
    }

    #[test]
    fn what_is_left_of_a_buffer_is_known() {
        let left = [1_500, 192, 40, 5_000].map(|bytes| Truesize::of_packet(bytes).tailroom());
        assert_eq!(left, [164, 0, 152, 0]);
        let of_two_pages = [3_712, 3_713, 4_031, 4_032].map(|bytes| Truesize::of_packet(bytes).tailroom());
        assert_eq!(of_two_pages, [0, 4_095, 3_777, 0]);
        let squeezed = [SQUEEZED_MAX, 1_000].map(Truesize::squeezed).map(|t| (t.bytes(), t.tailroom()));
        assert_eq!(squeezed, [(4_352, 0), (2_304, 728)]);
        let more = Truesize::of_packet(1_500).with_tail(164).expect("room");
        assert_eq!((more.bytes(), more.tailroom(), more.with_tail(1)), (2_304, 0, None));
        let both = more.and(Truesize::of_packet(40));
        assert_eq!((both.bytes(), both.tailroom()), (3_136, 152));
        assert_eq!(Truesize::of_packet(u32::MAX - 5_000).bytes(), 16_777_152);
        assert!(!Truesize::of_packet(8_000_000).is_large() && Truesize::of_packet(8_500_000).is_large());
    }
}
