//! Explicit congestion notification: whether packets of this path may carry ECT, and whether the path has ever marked one.
//!
//! What a transport makes of a mark (TCP's ECE and CWR, SCTP's ECNE chunk) is the transport's. Source: RFC 3168.

/// The two ECN bits of an IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Codepoint {
    /// Not capable.
    #[default]
    NotEct = 0,
    /// ECT(1).
    Ect1 = 1,
    /// ECT(0), what we send.
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Codepoint {
    /// The codepoint in a traffic class or type-of-service byte.
    #[must_use]
    pub const fn of(traffic_class: u8) -> Self {
        match traffic_class & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// What goes out, as far as ECN cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// Data for the first time.
    NewData,
    /// Retransmitted data, window probes, pure acknowledgements, SYN, RST: RFC 3168 sections 6.1.1, 6.1.4 to 6.1.6 forbid ECT.
    Anything,
}

/// ECN on one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ecn {
    negotiated: bool,
    ce_seen: bool,
    ect_seen: bool,
    last_capable: bool,
}

impl Ecn {
    /// The handshake ended: both sides want ECN, or not.
    pub const fn set_negotiated(&mut self, on: bool) {
        self.negotiated = on;
    }

    /// True when both sides agreed on ECN.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.negotiated
    }

    /// The codepoint for what goes out.
    #[must_use]
    pub const fn codepoint(&self, sending: Sending) -> Codepoint {
        match sending {
            Sending::NewData if self.negotiated => Codepoint::Ect0,
            Sending::NewData | Sending::Anything => Codepoint::NotEct,
        }
    }

    /// A packet left, with ECT or not.
    pub const fn left(&mut self, capable: bool) {
        self.last_capable = capable;
    }

    /// The last one had ECT.
    #[must_use]
    pub const fn last_capable(&self) -> bool {
        self.last_capable
    }

    /// A packet came with this codepoint; true when the path marked it and somebody should hear of it.
    pub fn on_received(&mut self, codepoint: Codepoint) -> bool {
        if !self.negotiated {
            return false;
        }
        self.ect_seen |= codepoint != Codepoint::NotEct;
        self.ce_seen |= codepoint == Codepoint::Ce;
        codepoint == Codepoint::Ce
    }

    /// The path has marked a packet at least once.
    #[must_use]
    pub const fn ce_seen(&self) -> bool {
        self.ce_seen
    }

    /// The peer has sent a capable packet at least once (`tcpi_options`, TCPI_OPT_ECN_SEEN).
    #[must_use]
    pub const fn ect_seen(&self) -> bool {
        self.ect_seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_data_of_a_willing_pair_is_capable() {
        let mut ecn = Ecn::default();
        assert_eq!(ecn.codepoint(Sending::NewData), Codepoint::NotEct);
        assert!(!ecn.on_received(Codepoint::Ce));
        ecn.set_negotiated(true);
        assert_eq!(ecn.codepoint(Sending::NewData), Codepoint::Ect0);
        assert_eq!(ecn.codepoint(Sending::Anything), Codepoint::NotEct);
        assert!(!ecn.on_received(Codepoint::of(0x02)) && ecn.ect_seen() && !ecn.ce_seen());
        assert!(ecn.on_received(Codepoint::of(0xb8 | 3)) && ecn.ce_seen());
    }
}
