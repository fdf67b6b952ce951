//! The AccECN option: counters of payload bytes by ECN codepoint (RFC 9768 section 3.2.3).

/// Kind of the option that begins with ECT(0), `AccECN0`.
const ACCECN0: u8 = 172;
/// Kind of the option that begins with ECT(1), `AccECN1`.
const ACCECN1: u8 = 174;
/// Bytes of a counter.
const COUNTER_LEN: usize = 3;
/// Most counters in an option.
const COUNTERS_MAX: usize = 3;

/// The option with up to three counters of 24 bits. The last ones may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccEcnOption {
    /// It begins with ECT(1) and not with ECT(0); CE is the second in either case.
    ect1_first: bool,
    len: u8,
    counters: [[u8; COUNTER_LEN]; COUNTERS_MAX],
}

impl AccEcnOption {
    /// Bytes of a header that it takes with all counters, in words.
    pub const ROOM_MAX: usize = (2 + COUNTERS_MAX * COUNTER_LEN).next_multiple_of(4);

    /// The option with these counters, of which the lower 24 bits go out, three at the most.
    #[must_use]
    pub fn new(ect1_first: bool, counters: &[u32]) -> Self {
        let mut option = Self { ect1_first, len: 0, counters: [[0; COUNTER_LEN]; COUNTERS_MAX] };
        for (to, counter) in option.counters.iter_mut().zip(counters) {
            let [_, a, b, c] = counter.to_be_bytes();
            *to = [a, b, c];
            option.len += 1;
        }
        option
    }

    /// What an option of this kind says; bytes that are no whole counter, and those behind the third, say nothing.
    pub(super) fn read(kind: u8, data: &[u8]) -> Option<Self> {
        let ect1_first = match kind {
            ACCECN0 => false,
            ACCECN1 => true,
            _ => return None,
        };
        let (counters, _) = data.as_chunks::<COUNTER_LEN>();
        let mut option = Self::new(ect1_first, &[]);
        for (to, counter) in option.counters.iter_mut().zip(counters) {
            *to = *counter;
            option.len += 1;
        }
        Some(option)
    }

    /// It begins with ECT(1).
    #[must_use]
    pub const fn ect1_first(&self) -> bool {
        self.ect1_first
    }

    /// The counters in their order.
    pub fn counters(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.counters[..usize::from(self.len)].iter().map(|&[a, b, c]| u32::from_be_bytes([0, a, b, c]))
    }

    /// Bytes of the option, without any that align it.
    #[must_use]
    pub const fn option_len(&self) -> usize {
        2 + self.len as usize * COUNTER_LEN
    }

    /// What comes back by [`Self::from_parts`]; the first is never 0.
    pub(super) const fn parts(&self) -> (u8, [[u8; COUNTER_LEN]; COUNTERS_MAX]) {
        (1 + self.len + if self.ect1_first { 4 } else { 0 }, self.counters)
    }

    /// See [`Self::parts`].
    pub(super) const fn from_parts(tag: u8, counters: [[u8; COUNTER_LEN]; COUNTERS_MAX]) -> Self {
        let tag = tag.saturating_sub(1);
        Self { ect1_first: tag & 4 != 0, len: tag & 3, counters }
    }

    /// The bytes, and how many of them count.
    pub(super) fn bytes(&self) -> ([u8; 11], usize) {
        let mut bytes = [0; 11];
        bytes[0] = if self.ect1_first { ACCECN1 } else { ACCECN0 };
        bytes[1] = self.option_len() as u8;
        for (to, counter) in bytes[2..].as_chunks_mut::<COUNTER_LEN>().0.iter_mut().zip(self.counters) {
            *to = counter;
        }
        (bytes, self.option_len())
    }
}
