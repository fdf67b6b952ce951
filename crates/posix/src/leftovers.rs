//! What closed sockets leave at their ports: connections that go on in the background, and TIME-WAIT. Each keeps whether its socket shared its
//! port (`sk_reuse`, `tw_reuse`), and who binds to the port is asked whether it would, too (`inet_csk_bind_conflict`).
use crate::steps;
use core::net::{IpAddr, Ipv4Addr};
use lowwater_core::base::Tuple;
use lowwater_core::stack::covers;
use std::collections::BTreeMap;

/// So many may stand here before those that are gone are looked for.
const LOOK_AFTER: usize = 64;

/// By what a socket shares its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// SO_REUSEADDR.
    pub(crate) addr: bool,
    /// SO_REUSEPORT.
    pub(crate) port: bool,
}

impl Shares {
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

/// A flow, by its port here first.
type Place = (u16, IpAddr, IpAddr, u16);

fn place(flow: &Tuple) -> Place {
    (flow.local_port, flow.local_ip, flow.remote_ip, flow.remote_port)
}

/// Connections without a descriptor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leftovers {
    /// Of each flow the socket that had it last. Those that are gone among them are fewer than those that live, or than [`LOOK_AFTER`].
    left: BTreeMap<Place, Left>,
    look_at: usize,
}

impl Leftovers {
    /// A descriptor was closed whose connection lives on. `lives` tells whether one that closed before still does.
    pub(crate) fn push(&mut self, left: Left, lives: impl Fn(&Tuple) -> bool) {
        if self.left.len() >= self.look_at.max(LOOK_AFTER) {
            self.left.retain(|_, other| lives(&other.flow));
            self.look_at = self.left.len() * 2;
        }
        self.left.insert(place(&left.flow), left);
    }

    /// Some of them keep `port` at `ip` (`None`: at any address, an unspecified one: at any of its family) from a socket that would share it so.
    pub(crate) fn keep(
        &self,
        ip: Option<IpAddr>,
        port: u16,
        shares: Shares,
        lives: impl Fn(&Tuple) -> bool,
    ) -> bool {
        self.at_port(port)
            .any(|left| covers(ip, left.flow.local_ip) && !left.shares.with(shares) && lives(&left.flow))
    }

    /// One of them has `port`, otherwise than by a choice of connect().
    pub(crate) fn has_asked(&self, port: u16, lives: impl Fn(&Tuple) -> bool) -> bool {
        self.at_port(port).inspect(|_| steps::step()).any(|left| left.asked && lives(&left.flow))
    }

    fn at_port(&self, port: u16) -> impl Iterator<Item = &Left> {
        let first: IpAddr = Ipv4Addr::UNSPECIFIED.into();
        let there = self.left.range((port, first, first, 0)..);
        there.take_while(move |((theirs, ..), _)| *theirs == port).map(|(_, left)| left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: Shares = Shares { addr: true, port: false };
    const ALONE: Shares = Shares { addr: false, port: false };

    fn flow(local: u16, remote: u16) -> Tuple {
        let ip = |last| IpAddr::from([10, 0, 0, last]);
        Tuple::new((ip(1), local).into(), (ip(2), remote).into())
    }

    fn of(flow: Tuple, shares: Shares) -> Left {
        Left { flow, shares, asked: true }
    }

    #[test]
    fn both_must_share_the_port_and_the_last_closed_of_a_flow_counts() {
        let mut left = Leftovers::default();
        left.push(of(flow(80, 1), ALONE), |_| true);
        assert!(left.keep(None, 80, SHARES, |_| true) && left.keep(None, 80, ALONE, |_| true));
        assert!(!left.keep(None, 80, SHARES, |_| false), "it is gone");
        assert!(!left.keep(None, 81, SHARES, |_| true));
        assert!(!left.keep(Some(IpAddr::from([10, 0, 0, 9])), 80, SHARES, |_| true));
        left.push(of(flow(80, 1), SHARES), |_| true);
        assert!(!left.keep(None, 80, SHARES, |_| true) && left.keep(None, 80, ALONE, |_| true));
        let by_port = Shares { addr: false, port: true };
        left.push(of(flow(80, 2), by_port), |_| true);
        assert!(left.keep(None, 80, SHARES, |_| true), "each shares by another option");
    }

    #[test]
    fn ports_that_connect_chose_are_for_others_to_choose() {
        let mut left = Leftovers::default();
        left.push(of(flow(80, 1), ALONE), |_| true);
        left.push(Left { asked: false, ..of(flow(81, 1), ALONE) }, |_| true);
        left.push(of(flow(82, 1), ALONE), |_| true);
        let lives = |flow: &Tuple| flow.local_port != 82;
        assert_eq!([80, 81, 82, 83].map(|port| left.has_asked(port, lives)), [true, false, false, false]);
    }

    #[test]
    fn those_that_are_gone_do_not_pile_up() {
        let mut left = Leftovers::default();
        for port in 1..=10_000 {
            left.push(of(flow(80, port), ALONE), |flow| flow.remote_port + 10 > port);
        }
        assert!(left.left.len() <= 2 * LOOK_AFTER, "{}", left.left.len());
        for port in 1..=10_000 {
            left.push(of(flow(80, port), ALONE), |_| true);
        }
        assert!(left.left.len() >= 10_000);
    }

    #[test]
    fn flows_that_come_again_while_they_live_do_not_pile_up() {
        let mut left = Leftovers::default();
        for port in 1..=10_000 {
            left.push(of(flow(80, port % 100), ALONE), |_| true);
        }
        assert_eq!(left.left.len(), 100);
        // What had its port by bind() is used again by one that connect() gave it to.
        left.push(Left { asked: false, ..of(flow(81, 1), ALONE) }, |_| true);
        left.push(of(flow(81, 1), ALONE), |_| true);
        left.push(Left { asked: false, ..of(flow(81, 1), ALONE) }, |_| true);
        assert!(left.has_asked(80, |_| true) && !left.has_asked(81, |_| true));
    }
}
