//! What Linux charges the send buffer for although nothing holds it: a probe of the path's MTU takes its payload off the front of a
//! buffer that stays charged as if it were whole (`tcp_mtu_probe`), until the front of what is left is acknowledged.

/// Buffers of that kind, ascending. The search sends its next probe when the last one is acknowledged, so a third is never there.
#[derive(Debug, Default)]
pub(super) struct Trimmed([Trim; 2]);

#[derive(Clone, Copy, Debug, Default)]
struct Trim {
    /// Where what is left begins.
    at: u64,
    bytes: usize,
}

impl Trimmed {
    /// A probe of `len` bytes left at `start`, of which `bytes` came from a buffer that has more.
    pub(super) fn note(&mut self, start: u64, len: usize, bytes: usize) {
        let [first, last] = &mut self.0;
        let before = if last.at == start { core::mem::take(last) } else { Trim::default() };
        if bytes > 0 {
            // It may have been the very buffer that the probe before took from.
            let bytes = if bytes == len { bytes + before.bytes } else { bytes };
            let trim = Trim { at: start + len as u64, bytes };
            if last.bytes > 0 {
                *first = *last;
            }
            *last = trim;
        }
    }

    /// An acknowledgement ends within a buffer: it begins at `to` now.
    pub(super) fn moved(&mut self, from: u64, to: u64) {
        if let Some(trim) = self.0.iter_mut().find(|trim| trim.at == from) {
            trim.at = to;
        }
    }

    /// Bytes charged for those of which `is_there` says that a buffer begins where they did.
    pub(super) fn bytes(&self, is_there: impl Fn(u64) -> bool) -> usize {
        let there = self.0.iter().filter(|trim| trim.bytes > 0 && is_there(trim.at));
        there.map(|trim| trim.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_stays_charged_while_its_rest_is_there() {
        let mut trimmed = Trimmed::default();
        trimmed.note(1, 700, 0);
        assert_eq!(trimmed.bytes(|_| true), 0, "eaten whole");
        trimmed.note(1_001, 700, 700);
        trimmed.moved(1_701, 2_000);
        trimmed.note(3_000, 800, 300);
        assert_eq!(trimmed.bytes(|_| true), 1_000);
        assert_eq!((trimmed.bytes(|at| at == 2_000), trimmed.bytes(|at| at == 3_800)), (700, 300));
        trimmed.note(3_800, 900, 900);
        assert_eq!(trimmed.bytes(|at| at == 4_700), 1_200, "once more the same");
        trimmed.note(4_700, 900, 100);
        assert_eq!(trimmed.bytes(|at| at >= 4_700), 100, "what was left went with the probe");
    }
}
