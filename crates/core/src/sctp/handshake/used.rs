//! Cookies that have made an association: when that is over, a copy of one that comes late makes no second (RFC 9260 section 5.1.3 leaves a
//! listener nothing to know it by, and Linux makes one, which the peer knows nothing of).
use super::cookie::Ticket;
use crate::base::Instant;
use crate::base::limits::SCTP_USED_COOKIES_MAX;
use crate::base::time::Duration;
use std::collections::{BTreeSet, VecDeque};

/// Our tag and the peer's.
type Tags = (u32, u32);

/// The cookies. Of too many the oldest are forgotten first.
#[derive(Debug, Default)]
pub struct UsedCookies {
    known: BTreeSet<Tags>,
    /// Each with the end of its life.
    order: VecDeque<(Instant, Tags)>,
}

impl UsedCookies {
    /// This one has been good for something.
    pub fn note(&mut self, now: Instant, ticket: &Ticket) {
        while let Some((_, tags)) = self.order.pop_front_if(|(until, _)| *until < now) {
            self.known.remove(&tags);
        }
        let until = ticket.made_at + Duration::from_millis(ticket.life_ms.into());
        if !self.known.insert(ticket.tags) {
            return;
        }
        if self.order.len() == SCTP_USED_COOKIES_MAX
            && let Some((_, tags)) = self.order.pop_front()
        {
            self.known.remove(&tags);
        }
        self.order.push_back((until, ticket.tags));
    }

    /// It was.
    #[must_use]
    pub fn has(&self, ticket: &Ticket) -> bool {
        self.known.contains(&ticket.tags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::handshake::init::{Addresses, Features};
    use core::net::{IpAddr, Ipv4Addr};

    fn ticket(n: u32) -> Ticket {
        Ticket {
            made_at: Instant::from_millis(n.into()),
            life_ms: 60_000,
            ports: (1, 2),
            tags: (n, 7),
            tsns: (0, 0),
            ties: (0, 0),
            streams: (1, 1),
            peer_rwnd: 0,
            features: Features::default(),
            adaptation: None,
            local: IpAddr::V4(Ipv4Addr::LOCALHOST),
            addresses: Addresses::new(),
        }
    }

    #[test]
    fn a_cookie_is_known_for_its_life_and_of_too_many_the_oldest_is_forgotten() {
        let mut used = UsedCookies::default();
        let most = SCTP_USED_COOKIES_MAX as u32;
        for n in 0..=most {
            used.note(Instant::from_millis(n.into()), &ticket(n));
            used.note(Instant::from_millis(n.into()), &ticket(n));
        }
        assert!(!used.has(&ticket(0)) && used.has(&ticket(1)) && used.has(&ticket(most)));
        assert_eq!((used.known.len(), used.order.len()), (SCTP_USED_COOKIES_MAX, SCTP_USED_COOKIES_MAX));
        // Those of which no copy is good any more go with the next.
        used.note(Instant::from_millis(60_000 + u64::from(most)), &ticket(70_000));
        assert!(used.has(&ticket(most)) && !used.has(&ticket(most - 1)));
        assert_eq!((used.known.len(), used.order.len()), (2, 2));
    }
}
