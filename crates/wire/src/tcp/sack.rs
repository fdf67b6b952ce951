//! The blocks of a SACK option (RFC 2018), D-SACK included (RFC 2883), and the counters of accurate ECN, for which a header with four of them has no
//! room: they share the memory of the fourth.
use super::AccEcnOption;

/// Most blocks that fit the option space.
pub const MAX_SACK_BLOCKS: usize = 4;

/// Up to four blocks in wire order, each from its first sequence number to the one after its last.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks {
    // Blocks past `len` stay (0, 0), so that derived equality is right; but the last has counters where `counters` says so.
    blocks: [(u32, u32); MAX_SACK_BLOCKS],
    len: u8,
    /// What of the option of accurate ECN is not in the last block; 0 without one.
    counters: u8,
    last: u8,
}

impl SackBlocks {
    /// No blocks.
    pub const EMPTY: Self = Self { blocks: [(0, 0); MAX_SACK_BLOCKS], len: 0, counters: 0, last: 0 };

    /// The counters beside the blocks.
    pub(super) const fn accecn(&self) -> Option<AccEcnOption> {
        if self.counters == 0 {
            return None;
        }
        let (first, second) = self.blocks[MAX_SACK_BLOCKS - 1];
        let ([a, b, c, d], [e, f, g, h]) = (first.to_be_bytes(), second.to_be_bytes());
        Some(AccEcnOption::from_parts(self.counters, [[a, b, c], [d, e, f], [g, h, self.last]]))
    }

    /// Puts counters beside the blocks, in the place of others; four blocks are kept without any.
    pub(super) fn set_accecn(&mut self, option: AccEcnOption) {
        if usize::from(self.len) == MAX_SACK_BLOCKS {
            return;
        }
        let (tag, [[a, b, c], [d, e, f], [g, h, last]]) = option.parts();
        self.blocks[MAX_SACK_BLOCKS - 1] =
            (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        (self.counters, self.last) = (tag, last);
    }

    /// Appends a block; false if there is no room.
    pub fn push(&mut self, left: u32, right: u32) -> bool {
        if self.counters != 0 && usize::from(self.len) == MAX_SACK_BLOCKS - 1 {
            return false;
        }
        match self.blocks.get_mut(usize::from(self.len)) {
            Some(slot) => {
                *slot = (left, right);
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// Number of blocks.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// True if there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The blocks in wire order.
    #[must_use]
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.len)]
    }

    /// The blocks in wire order, as (left edge, right edge).
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u32, u32)> + '_ {
        self.as_slice().iter().copied()
    }
}

impl FromIterator<(u32, u32)> for SackBlocks {
    /// The first [`MAX_SACK_BLOCKS`] blocks.
    fn from_iter<I: IntoIterator<Item = (u32, u32)>>(blocks: I) -> Self {
        let mut all = Self::EMPTY;
        for (left, right) in blocks.into_iter().take(MAX_SACK_BLOCKS) {
            all.push(left, right);
        }
        all
    }
}

impl core::fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut list = f.debug_list();
        list.entries(self.iter());
        if let Some(counters) = self.accecn() {
            list.entry(&counters);
        }
        list.finish()
    }
}
