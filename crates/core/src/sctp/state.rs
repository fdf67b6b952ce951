//! States of an association and which may follow which (RFC 9260 section 4, figure 3).

/// The state of an association. CLOSED is the end: an association that was never opened does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Over.
    Closed,
    /// INIT is out.
    CookieWait,
    /// COOKIE ECHO is out.
    CookieEchoed,
    /// Data flows.
    Established,
    /// The application has closed; data is still to be acknowledged.
    ShutdownPending,
    /// SHUTDOWN is out.
    ShutdownSent,
    /// The peer sent SHUTDOWN; our data is still to be acknowledged.
    ShutdownReceived,
    /// SHUTDOWN ACK is out.
    ShutdownAckSent,
}

impl State {
    /// All states.
    pub const ALL: [Self; 8] = [
        Self::Closed,
        Self::CookieWait,
        Self::CookieEchoed,
        Self::Established,
        Self::ShutdownPending,
        Self::ShutdownSent,
        Self::ShutdownReceived,
        Self::ShutdownAckSent,
    ];

    /// The name in Linux's `ss` and /proc/net/sctp/assocs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "CLOSED",
            Self::CookieWait => "COOKIE_WAIT",
            Self::CookieEchoed => "COOKIE_ECHOED",
            Self::Established => "ESTABLISHED",
            Self::ShutdownPending => "SHUTDOWN_PENDING",
            Self::ShutdownSent => "SHUTDOWN_SENT",
            Self::ShutdownReceived => "SHUTDOWN_RECEIVED",
            Self::ShutdownAckSent => "SHUTDOWN_ACK_SENT",
        }
    }

    /// True when an association may go from here to `next`. A restart of the peer leads back to ESTABLISHED
    /// (section 5.2.4, action A), an ABORT from anywhere to CLOSED.
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        use State::{
            Closed, CookieEchoed, CookieWait, Established, ShutdownAckSent, ShutdownPending,
            ShutdownReceived, ShutdownSent,
        };
        matches!(
            (self, next),
            (
                CookieWait
                    | CookieEchoed
                    | Established
                    | ShutdownPending
                    | ShutdownSent
                    | ShutdownReceived
                    | ShutdownAckSent,
                Closed
            ) | (CookieWait, CookieEchoed | Established)
                | (CookieEchoed, CookieWait | Established)
                | (Established, ShutdownPending | ShutdownSent | ShutdownReceived | ShutdownAckSent)
                | (ShutdownPending, ShutdownSent | ShutdownReceived | ShutdownAckSent)
                | (ShutdownSent | ShutdownReceived, ShutdownAckSent)
                | (ShutdownPending | ShutdownSent | ShutdownReceived | ShutdownAckSent, Established)
        )
    }

    /// DATA may be sent, new or again (section 6).
    #[must_use]
    pub const fn may_send_data(self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownReceived)
    }

    /// DATA is accepted (section 6; in SHUTDOWN-SENT the peer may still have some, section 9.2).
    #[must_use]
    pub const fn may_receive_data(self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownSent)
    }

    /// The application may queue messages.
    #[must_use]
    pub const fn may_queue(self) -> bool {
        matches!(self, Self::CookieWait | Self::CookieEchoed | Self::Established)
    }

    /// We have asked, and the handshake is not complete.
    #[must_use]
    pub const fn is_opening(self) -> bool {
        matches!(self, Self::CookieWait | Self::CookieEchoed)
    }

    /// The peer may have taken our cookie, and the association is not over.
    #[must_use]
    pub const fn is_answered(self) -> bool {
        self.is_up() || matches!(self, Self::CookieEchoed)
    }

    /// HEARTBEATs and probes are sent: until SHUTDOWN or SHUTDOWN ACK is (section 8.3).
    #[must_use]
    pub const fn beats(self) -> bool {
        matches!(self, Self::Established | Self::ShutdownPending | Self::ShutdownReceived)
    }

    /// A SACK is processed (section 6; before COOKIE ACK what went with COOKIE ECHO may be acknowledged).
    #[must_use]
    pub const fn takes_sack(self) -> bool {
        self.may_send_data() || matches!(self, Self::CookieEchoed)
    }

    /// The handshake is complete and the association not over.
    #[must_use]
    pub const fn is_up(self) -> bool {
        !self.is_opening() && !matches!(self, Self::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_can_end_and_only_closed_is_final() {
        for state in State::ALL {
            assert_eq!(state.may_become(State::Closed), state != State::Closed);
            assert!(!State::Closed.may_become(state));
            assert!(!state.may_become(state));
        }
    }
}
