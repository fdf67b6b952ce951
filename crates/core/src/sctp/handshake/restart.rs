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
