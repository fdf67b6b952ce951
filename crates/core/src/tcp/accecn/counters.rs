//! Bytes that the peer has got by codepoint, as its option says (RFC 9768 section 3.2.3).
use crate::tcp::segment::Ecn;
use lowwater_wire::tcp::AccEcnOption;

/// Place of CE.
const CE: usize = 2;

/// `s.e1b`, `s.e0b` and `s.ceb`, without their initial values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    bytes: [u32; 3],
    /// The codepoint that was last seen to be the only one that arrives; none where [`Ecn::NotEct`].
    estimate: Ecn,
}

impl Counters {
    /// In the order of `TCP_INFO`'s: ECT(1), ECT(0), CE.
    pub(super) const fn bytes(&self) -> [u32; 3] {
        self.bytes
    }

    /// Those with a mark.
    pub(super) const fn marked(&self) -> u32 {
        self.bytes[CE]
    }

    /// More has been delivered, without an option: it is taken to have arrived as what came before; false where nobody knows how that was.
    pub(super) fn go_on(&mut self, bytes: u32) -> bool {
        let Some(known) = counter(&mut self.bytes, self.estimate) else { return false };
        *known = known.wrapping_add(bytes);
        true
    }

    /// What an option says (`tcp_accecn_process_option`); true where the bytes delivered with a mark are known by it.
    pub(super) fn take(&mut self, option: &AccEcnOption) -> bool {
        let (before, mut changed, mut clear) = (self.estimate, false, true);
        for (now, mark) in option.counters().zip(order(option.ect1_first())) {
            let Some(known) = counter(&mut self.bytes, mark) else { continue };
            let delta = extend(now.wrapping_sub(initial(mark)).wrapping_sub(*known));
            *known = known.wrapping_add(delta as u32);
            clear &= delta >= 0;
            if delta != 0 && mark != before {
                clear &= !changed;
                if !changed {
                    (self.estimate, changed) = (mark, true);
                }
            }
        }
        if !clear {
            self.estimate = Ecn::NotEct;
        }
        clear && before != Ecn::NotEct
    }

    /// Nothing has arrived but with this codepoint.
    #[cfg(test)]
    pub(super) fn only(estimate: Ecn) -> Self {
        Self { estimate, ..Self::default() }
    }
}

/// Codepoints in the order of an option's counters (section 3.2.3, table 5).
pub(super) const fn order(ect1_first: bool) -> [Ecn; 3] {
    if ect1_first { [Ecn::Ect1, Ecn::Ce, Ecn::Ect0] } else { [Ecn::Ect0, Ecn::Ce, Ecn::Ect1] }
}

/// Initial value of a counter of bytes (section 3.2.1).
pub(super) const fn initial(mark: Ecn) -> u32 {
    matches!(mark, Ecn::Ect0 | Ecn::Ect1) as u32
}

/// The counter of a codepoint in the order of `TCP_INFO`'s received ones: ECT(1), ECT(0), CE.
pub(super) fn counter(counters: &mut [u32; 3], mark: Ecn) -> Option<&mut u32> {
    counters.get_mut((mark as usize).wrapping_sub(1))
}

/// The difference of two counters of 24 bits, which may have gone back.
const fn extend(delta: u32) -> i32 {
    (delta << 8) as i32 >> 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_may_go_back_and_wraps_at_24_bits() {
        assert_eq!([extend(3), extend(0xff_ffff), extend(0x100_0002)], [3, -1, 2]);
        let mut told = Counters::default();
        assert!(!told.go_on(100), "nobody knows yet how it arrives");
        assert!(!told.take(&AccEcnOption::new(true, &[1, 0, 501])));
        assert_eq!((told.bytes, told.estimate), ([0, 500, 0], Ecn::Ect0));
        // Without the option what arrives is taken for more of the same.
        assert!(told.go_on(100));
        assert!(told.take(&AccEcnOption::new(true, &[1, 0, 601])));
        assert!(told.take(&AccEcnOption::new(true, &[1, 7, 602])));
        assert_eq!((told.bytes, told.estimate), ([0, 601, 7], Ecn::Ce));
        // Two others have changed: nobody knows what comes next.
        assert!(!told.take(&AccEcnOption::new(true, &[9, 8, 603])));
        assert_eq!((told.bytes, told.estimate), ([8, 602, 8], Ecn::NotEct));
    }
}
