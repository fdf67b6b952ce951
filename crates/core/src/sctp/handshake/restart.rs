//! A COOKIE ECHO for an association that exists: restart, collision or duplicate (RFC 9260 section 5.2.4, table 12).
use super::cookie::Ticket;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A: the peer has started anew.
    Restart,
    /// B: both have opened at the same time.
    Collision,
    /// C: an old handshake of ours; the cookie is too late.
    Discard,
    /// D: the handshake at hand, or its duplicate.
    Known,
}

/// Tags of the association that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tags {
    /// Our tag and the peer's.
    pub tags: (u32, u32),
    /// The tie-tags that a cookie of ours would hold.
    pub ties: (u32, u32),
}

/// The row of the table; what is in none is dropped.
#[must_use]
pub fn action(known: &Tags, ticket: &Ticket) -> Action {
    let (local, peer) = (ticket.tags.0 == known.tags.0, ticket.tags.1 == known.tags.1);
    match (local, peer) {
        (true, true) => Action::Known,
        (true, false) => Action::Collision,
        (false, false) if ticket.ties != (0, 0) && ticket.ties == known.ties => Action::Restart,
        (false, true | false) => Action::Discard,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Instant;
    use crate::sctp::handshake::init::{Addresses, Features};
    use core::net::{IpAddr, Ipv4Addr};

    fn ticket(tags: (u32, u32), ties: (u32, u32)) -> Ticket {
        Ticket {
            made_at: Instant::ZERO,
            life_ms: 0,
            ports: (1, 2),
            tags,
            tsns: (0, 0),
            ties,
            streams: (1, 1),
            peer_rwnd: 0,
            features: Features::default(),
            adaptation: None,
            local: IpAddr::V4(Ipv4Addr::LOCALHOST),
            addresses: Addresses::new(),
        }
    }

    /// The rows of table 12, and some that are in none.
    #[test]
    fn the_table_of_section_5_2_4() {
        let known = Tags { tags: (1, 2), ties: (8, 9) };
        let rows = [
            ((3, 4), (8, 9), Action::Restart),
            ((1, 4), (0, 0), Action::Collision),
            ((1, 4), (8, 9), Action::Collision),
            ((3, 2), (0, 0), Action::Discard),
            ((1, 2), (0, 0), Action::Known),
            ((1, 2), (8, 9), Action::Known),
            ((3, 4), (0, 0), Action::Discard),
            ((3, 4), (8, 7), Action::Discard),
        ];
        for (tags, ties, what) in rows {
            assert_eq!(action(&known, &ticket(tags, ties)), what, "{tags:?} {ties:?}");
        }
        // An association without tie-tags of its own is never restarted by a cookie without any.
        let bare = Tags { tags: (1, 2), ties: (0, 0) };
        assert_eq!(action(&bare, &ticket((3, 4), (0, 0))), Action::Discard);
    }
}
