//! What few programs do, and few networks: each in some worlds. Its draws come from streams of their own, so that the others draw what they drew.
use super::draw::{between, log_between, pick, toss};
use lowwater_core::base::Rng;

/// Of all of that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeldomDraw {
    /// Writes of TCP that say that more follows (MSG_MORE), in a hundred.
    pub more: u8,
    /// Writes of TCP that end with an urgent byte (MSG_OOB), in a thousand. Readers have it in the stream (SO_OOBINLINE).
    pub urgent: u16,
    /// Clients that open many connections write with their SYN (TCP Fast Open).
    pub fast_open: bool,
    /// The hop with the smaller MTU says nothing of what it drops.
    pub black_hole: bool,
    /// The devices have no room for as long as this, in nanoseconds, with this chance for each packet in 10^-6; 0 for never.
    pub stall: (u64, u32),
    /// Settings of both sides for that.
    pub sysctl: Vec<(&'static str, String)>,
}

impl SeldomDraw {
    /// Those of a world that has such a hop or not (`narrow`), and associations or not.
    pub(super) fn draw(root: &Rng, narrow: bool, associations: bool) -> Self {
        let mut seldom = Self::default();
        let rng = &mut root.fork("more");
        if toss(rng, 15) {
            seldom.more = between(rng, 1, 100) as u8;
        }
        let rng = &mut root.fork("urgent");
        if toss(rng, 10) {
            seldom.urgent = log_between(rng, 1, 500) as u16;
        }
        let rng = &mut root.fork("fast open");
        if toss(rng, 30) {
            seldom.fast_open = true;
            // Both, without a cookie, and for any listener.
            let bits = pick(rng, &["0x403", "0x403", "0x407", "0x603"]);
            seldom.sysctl.push(("tcp_fastopen", bits.to_owned()));
        }
        let rng = &mut root.fork("stall");
        if toss(rng, 20) {
            // Longer than timers of lost tails, and than timeouts.
            seldom.stall = (log_between(rng, 1_000_000, 1_000_000_000), log_between(rng, 200, 20_000) as u32);
        }
        let rng = &mut root.fork("black hole");
        if narrow && toss(rng, 35) {
            seldom.black_hole = true;
            seldom.sysctl.push(("tcp_mtu_probing", pick(rng, &["1", "2"]).to_owned()));
            if associations {
                seldom.sysctl.push(("sctp.plpmtud_probe_interval", "5000".to_owned()));
            }
        } else if toss(rng, 10) {
            seldom.sysctl.push(("tcp_mtu_probing", "2".to_owned()));
        }
        seldom
    }
}
