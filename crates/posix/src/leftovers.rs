//! What closed sockets leave at their ports: connections that go on in the background, and TIME-WAIT. Each keeps whether its socket shared its
//! port (`sk_reuse`, `tw_reuse`), and who binds to the port is asked whether it would, too (`inet_csk_bind_conflict`).
use crate::steps;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Bound;
use lowwater_core::base::Tuple;
use lowwater_core::stack::covers;
use std::collections::BTreeSet;

/// So many may stand here before those that are gone are looked for.
const LOOK_AFTER: usize = 64;

/// By what a socket shares its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shares {
    /// SO_REUSEADDR.
    pub(crate) addr: bool,
    /// SO_REUSEPORT.
    pub(crate) port: bool,
}

impl Shares {
    /// With nobody.
    pub(crate) const NONE: Self = Self { addr: false, port: false };

    /// Both share by the same option.
    pub(crate) const fn with(self, other: Self) -> bool {
        (self.addr && other.addr) || (self.port && other.port)
    }
}

/// What is left of one socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    pub(crate) flow: Tuple,
    pub(crate) shares: Shares,
    /// It has its port by bind() or from a listener, and not by a choice of connect().
    pub(crate) asked: bool,
}

/// Those that are alike to everybody who asks for their port: where they are, how they share it, how they have come to it.
type Group = (u16, IpAddr, Shares, bool);

/// The other end of a flow.
type Remote = (IpAddr, u16);

/// An end that no other comes before.
const FIRST: Remote = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
/// One that no other comes after.
const LAST: Remote = (IpAddr::V6(Ipv6Addr::from_bits(u128::MAX)), u16::MAX);

const fn flow((port, ip, ..): Group, remote: Remote) -> Tuple {
    Tuple { local_ip: ip, local_port: port, remote_ip: remote.0, remote_port: remote.1 }
}

/// Connections without a descriptor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leftovers {
    /// Of each flow the socket that had it last, group by group. Those that are gone among them are fewer than those that live, or than
    /// [`LOOK_AFTER`].
    left: BTreeSet<(Group, Remote)>,
    look_at: usize,
}

impl Leftovers {
    /// A descriptor was closed whose connection lives on. `lives` tells whether one that closed before still does.
    pub(crate) fn push(&mut self, left: Left, lives: impl Fn(&Tuple) -> bool) {
        if self.left.len() >= self.look_at.max(LOOK_AFTER) {
            self.left.retain(|(group, remote)| lives(&flow(*group, *remote)));
            self.look_at = self.left.len() * 2;
        }
        let (port, ip) = (left.flow.local_port, left.flow.local_ip);
        let remote = (left.flow.remote_ip, left.flow.remote_port);
        for bits in 0..8 {
            let shares = Shares { addr: bits & 1 != 0, port: bits & 2 != 0 };
            self.left.remove(&((port, ip, shares, bits & 4 != 0), remote));
        }
        self.left.insert(((port, ip, left.shares, left.asked), remote));
    }

    /// Some of them keep `port` at `ip` (`None`: at any address, an unspecified one: at any of its family) from a socket that would share it so.
    pub(crate) fn keep(
        &mut self,
        ip: Option<IpAddr>,
        port: u16,
        shares: Shares,
        lives: impl Fn(&Tuple) -> bool,
    ) -> bool {
        self.any(port, |(_, local, theirs, _)| covers(ip, local) && !theirs.with(shares), lives)
    }

    /// One of them has `port`, otherwise than by a choice of connect().
    pub(crate) fn has_asked(&mut self, port: u16, lives: impl Fn(&Tuple) -> bool) -> bool {
        self.any(port, |(.., asked)| asked, lives)
    }

    /// One of the groups of `port` that are `wanted` has somebody who lives. The first such ends the search, and those that are found gone
    /// are forgotten: there are as many steps as addresses, however many connections.
    fn any(&mut self, port: u16, wanted: impl Fn(Group) -> bool, lives: impl Fn(&Tuple) -> bool) -> bool {
        let least: Group = (port, FIRST.0, Shares::NONE, false);
        let mut from = Bound::Included((least, FIRST));
        loop {
            let next = self.left.range((from, Bound::Unbounded)).next().copied();
            let Some((group, remote)) = next.filter(|(group, _)| group.0 == port) else { return false };
            steps::step();
            if !wanted(group) {
                from = Bound::Excluded((group, LAST));
                continue;
            }
            if lives(&flow(group, remote)) {
                return true;
            }
            self.left.remove(&(group, remote));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: Shares = Shares { addr: true, port: false };
    const ALONE: Shares = Shares::NONE;

    fn tuple(local: u16, remote: u16) -> Tuple {
        let ip = |last| IpAddr::from([10, 0, 0, last]);
        Tuple::new((ip(1), local).into(), (ip(2), remote).into())
    }

    fn of(flow: Tuple, shares: Shares) -> Left {
        Left { flow, shares, asked: true }
    }

    #[test]
    fn both_must_share_the_port_and_the_last_closed_of_a_flow_counts() {
        let mut left = Leftovers::default();
        left.push(of(tuple(80, 1), ALONE), |_| true);
        assert!(left.keep(None, 80, SHARES, |_| true) && left.keep(None, 80, ALONE, |_| true));
        assert!(!left.keep(None, 80, SHARES, |_| false), "it is gone");
        assert!(!left.keep(None, 81, SHARES, |_| true));
        assert!(!left.keep(Some(IpAddr::from([10, 0, 0, 9])), 80, SHARES, |_| true));
        left.push(of(tuple(80, 1), SHARES), |_| true);
        assert!(!left.keep(None, 80, SHARES, |_| true) && left.keep(None, 80, ALONE, |_| true));
        let by_port = Shares { addr: false, port: true };
        left.push(of(tuple(80, 2), by_port), |_| true);
        assert!(left.keep(None, 80, SHARES, |_| true), "each shares by another option");
    }

    #[test]
    fn ports_that_connect_chose_are_for_others_to_choose() {
        let mut left = Leftovers::default();
        left.push(of(tuple(80, 1), ALONE), |_| true);
        left.push(Left { asked: false, ..of(tuple(81, 1), ALONE) }, |_| true);
        left.push(of(tuple(82, 1), ALONE), |_| true);
        let lives = |flow: &Tuple| flow.local_port != 82;
        assert_eq!([80, 81, 82, 83].map(|port| left.has_asked(port, lives)), [true, false, false, false]);
    }

    /// Who asks looks at no more of them than differ for it, and at those that are gone once.
    #[test]
    fn asking_costs_as_much_beside_any_number() {
        let mut left = Leftovers::default();
        for port in 1..=10_000 {
            left.push(of(tuple(80, port), SHARES), |_| true);
        }
        let cost = |left: &mut Leftovers, shares, lives: &dyn Fn(&Tuple) -> bool, kept| {
            steps::of(|| assert_eq!(left.keep(None, 80, shares, lives), kept))
        };
        assert!(cost(&mut left, SHARES, &|_| true, false) <= 2, "all share");
        assert!(cost(&mut left, ALONE, &|_| true, true) <= 2, "none shares");
        assert!(cost(&mut left, ALONE, &|flow| flow.remote_port == 9_999, true) >= 9_999, "they are gone");
        assert!(cost(&mut left, ALONE, &|_| true, true) <= 2, "and forgotten");
        assert_eq!(left.left.len(), 2);
    }

    #[test]
    fn those_that_are_gone_do_not_pile_up() {
        let mut left = Leftovers::default();
        for port in 1..=10_000 {
            left.push(of(tuple(80, port), ALONE), |flow| flow.remote_port + 10 > port);
        }
        assert!(left.left.len() <= 2 * LOOK_AFTER, "{}", left.left.len());
        for port in 1..=10_000 {
            left.push(of(tuple(80, port), ALONE), |_| true);
        }
        assert!(left.left.len() >= 10_000);
    }

    #[test]
    fn flows_that_come_again_while_they_live_do_not_pile_up() {
        let mut left = Leftovers::default();
        for port in 1..=10_000 {
            left.push(of(tuple(80, port % 100), ALONE), |_| true);
        }
        assert_eq!(left.left.len(), 100);
        // What had its port by bind() is used again by one that connect() gave it to.
        left.push(Left { asked: false, ..of(tuple(81, 1), ALONE) }, |_| true);
        left.push(of(tuple(81, 1), ALONE), |_| true);
        left.push(Left { asked: false, ..of(tuple(81, 1), ALONE) }, |_| true);
        assert!(left.has_asked(80, |_| true) && !left.has_asked(81, |_| true));
    }
}
