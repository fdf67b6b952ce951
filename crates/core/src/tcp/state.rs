//! The states of a connection and the table of legal transitions (RFC 9293 section 3.3.2, figure 5).

macro_rules! states {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal => [$($next:ident)*];)*) => {
        /// State of a connection. LISTEN, SYN-RECEIVED of a passive open and TIME-WAIT are small objects of their own; their
        /// names stand here for reports and for simultaneous open.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum State { $($(#[$doc])* $variant = $number,)* }

        impl State {
            /// All states.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name as `ss` prints it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// True when a connection may go from `self` to `next`.
            #[must_use]
            pub const fn may_become(self, next: Self) -> bool {
                match self { $(Self::$variant => { $(if matches!(next, Self::$next) { return true; })* false })* }
            }
        }
    };
}

// Numbers are Linux's (tcpi_state). Every state may be left for CLOSED by a reset, an abort or a timeout.
states! {
    /// Data flows both ways.
    Established = 1, "ESTAB" => [FinWait1 CloseWait Close];
    /// A SYN was sent, its acknowledgement is missing.
    SynSent = 2, "SYN-SENT" => [SynRecv Established Close];
    /// SYNs went both ways, our own is not acknowledged.
    SynRecv = 3, "SYN-RECV" => [Established FinWait1 CloseWait Close];
    /// We closed; our FIN is not acknowledged.
    FinWait1 = 4, "FIN-WAIT-1" => [FinWait2 Closing TimeWait Close];
    /// We closed, our FIN is acknowledged, the peer still sends.
    FinWait2 = 5, "FIN-WAIT-2" => [TimeWait Close];
    /// Both closed; old segments die out.
    TimeWait = 6, "TIME-WAIT" => [Close];
    /// Nothing is left.
    Close = 7, "UNCONN" => [];
    /// The peer closed; we may still send.
    CloseWait = 8, "CLOSE-WAIT" => [LastAck Close];
    /// Both closed; our FIN is not acknowledged.
    LastAck = 9, "LAST-ACK" => [Close];
    /// Waiting for connections.
    Listen = 10, "LISTEN" => [];
    /// Both closed at once; our FIN is not acknowledged.
    Closing = 11, "CLOSING" => [TimeWait Close];
}

impl State {
    /// The peer may still send data that we accept.
    #[must_use]
    pub const fn can_receive(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// New data of the application may go out.
    #[must_use]
    pub const fn can_send(self) -> bool {
        matches!(self, Self::Established | Self::CloseWait)
    }

    /// The handshake is over, and the peer may not have all of ours yet (`tcp_tsq_write`).
    #[must_use]
    pub const fn is_sending(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::Closing | Self::CloseWait | Self::LastAck)
    }

    /// The handshake is over.
    #[must_use]
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, Self::SynSent | Self::SynRecv | Self::Listen | Self::Close)
    }
}

#[cfg(test)]
mod tests {
    use super::State;

    #[test]
    fn the_table_of_transitions_is_the_one_of_rfc_9293() {
        let mut table = String::new();
        for &from in State::ALL {
            for &to in State::ALL {
                if from.may_become(to) {
                    table += &format!("{} -> {}\n", from.name(), to.name());
                }
            }
        }
        assert_eq!(
            table,
            "ESTAB -> FIN-WAIT-1\nESTAB -> UNCONN\nESTAB -> CLOSE-WAIT\n\
             SYN-SENT -> ESTAB\nSYN-SENT -> SYN-RECV\nSYN-SENT -> UNCONN\n\
             SYN-RECV -> ESTAB\nSYN-RECV -> FIN-WAIT-1\nSYN-RECV -> UNCONN\nSYN-RECV -> CLOSE-WAIT\n\
             FIN-WAIT-1 -> FIN-WAIT-2\nFIN-WAIT-1 -> TIME-WAIT\nFIN-WAIT-1 -> UNCONN\nFIN-WAIT-1 -> CLOSING\n\
             FIN-WAIT-2 -> TIME-WAIT\nFIN-WAIT-2 -> UNCONN\n\
             TIME-WAIT -> UNCONN\nCLOSE-WAIT -> UNCONN\nCLOSE-WAIT -> LAST-ACK\n\
             LAST-ACK -> UNCONN\nCLOSING -> TIME-WAIT\nCLOSING -> UNCONN\n"
        );
    }
}
