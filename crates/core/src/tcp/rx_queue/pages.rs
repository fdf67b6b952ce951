//! Linux takes memory for a socket in whole pages: for a segment before it knows where that will lie, so that a page may be left over
//! where the segment then finds room behind another (`tcp_try_rmem_schedule`, `tcp_try_coalesce`). It goes back with the next buffer
//! that is freed (`sk_mem_uncharge`). What is left decides whether a segment is as predicted (`tcp_rcv_established`).

/// Linux accounts memory of sockets in pages.
pub(super) const PAGE: u64 = 4_096;

/// Pages taken for what was to come, counted from the first; 0 where what waits needs them all. Between two buffers that are freed
/// charges only grow, so the largest number that was asked for is all that is to be known. Beyond 256 MB
/// nobody looks at single pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pages(u16);

impl Pages {
    /// Nothing beyond what is needed.
    pub(super) const NONE: Self = Self(0);

    /// Memory for `bytes` altogether is asked for.
    pub(super) fn schedule(&mut self, bytes: u64) {
        self.0 = self.0.max(u16::try_from(bytes.div_ceil(PAGE)).unwrap_or(u16::MAX));
    }

    /// What is left where `bytes` are charged (`sk_forward_alloc`).
    #[must_use]
    pub(super) const fn left(self, bytes: u64) -> u32 {
        let (needed, taken) = (bytes.div_ceil(PAGE) * PAGE, self.0 as u64 * PAGE);
        let left = if taken > needed { taken } else { needed } - bytes;
        if left > u32::MAX as u64 { u32::MAX } else { left as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_for_a_segment_stays_until_charges_have_grown_into_it() {
        let mut pages = Pages::NONE;
        assert_eq!((pages.left(0), pages.left(4_013)), (0, 83));
        pages.schedule(4_013 + 1_280);
        assert_eq!((pages.left(4_013), pages.left(8_000), pages.left(8_193)), (83 + 4_096, 192, 4_095));
        pages.schedule(100);
        assert_eq!(pages.left(4_013), 83 + 4_096, "less asks for nothing");
    }
}
