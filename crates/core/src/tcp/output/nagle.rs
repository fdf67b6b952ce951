//! Nagle's algorithm in Minshall's form, and the cork (RFC 9293 section 3.7.4; draft-minshall-nagle).
use crate::base::Wait;

/// How much a partial segment may be held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::tcp) enum Hold {
    /// Send it at once: TCP_NODELAY, a timer's push, or the element is not the last one.
    Push,
    /// TCP_NODELAY was set on a cork: a segment by itself is sent at once, but not the rest of a longer packet.
    PushCorked,
    /// Nagle's algorithm.
    Nagle,
    /// TCP_CORK or MSG_MORE: until the segment is full.
    Cork,
}

impl Hold {
    /// For what is left of a packet behind its whole segments: Linux asks for the cork there before any push (`tcp_nagle_check` in
    /// `tcp_mss_split_point`, where `tcp_nagle_test` asks for the push first).
    pub(in crate::tcp) const fn of_rest(self) -> Self {
        if matches!(self, Self::PushCorked) { Self::Cork } else { self }
    }
}

/// Facts about the element at the head of the queue.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Facts {
    /// Shorter than one MSS (or, for a super-packet, a remainder shorter than one MSS).
    pub(in crate::tcp) partial: bool,
    /// A FIN ends the element, or urgent data is on its way.
    pub(in crate::tcp) fin: bool,
    /// Something is in flight.
    pub(in crate::tcp) in_flight: bool,
    /// A small segment was sent and is not acknowledged yet.
    pub(in crate::tcp) small_in_flight: bool,
}

/// Why a partial segment must wait, if it must.
pub(in crate::tcp) const fn check(hold: Hold, facts: Facts) -> Option<Wait> {
    if facts.fin || !facts.partial {
        return None;
    }
    match hold {
        Hold::Push | Hold::PushCorked => None,
        Hold::Cork => Some(Wait::Cork),
        Hold::Nagle if facts.in_flight && facts.small_in_flight => Some(Wait::Nagle),
        Hold::Nagle => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTIAL: Facts = Facts { partial: true, fin: false, in_flight: true, small_in_flight: true };

    #[test]
    fn only_a_second_small_segment_waits() {
        assert_eq!(check(Hold::Nagle, PARTIAL), Some(Wait::Nagle));
        assert_eq!(check(Hold::Nagle, Facts { small_in_flight: false, ..PARTIAL }), None);
        assert_eq!(check(Hold::Nagle, Facts { in_flight: false, ..PARTIAL }), None);
        assert_eq!(check(Hold::Nagle, Facts { partial: false, ..PARTIAL }), None);
    }

    #[test]
    fn a_fin_and_a_push_never_wait() {
        assert_eq!(check(Hold::Cork, Facts { fin: true, ..PARTIAL }), None);
        assert_eq!(check(Hold::Push, PARTIAL), None);
        assert_eq!(check(Hold::Cork, Facts { in_flight: false, ..PARTIAL }), Some(Wait::Cork));
    }
}
