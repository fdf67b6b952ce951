//! A world drawn from a seed: every option a draw, run through a phase of faults and a phase without, then judged.
mod build;
mod draw;
mod sctp;
mod seldom;
mod shrink;

pub use draw::{AppDraw, Canary, Faults, WorldSpec};
pub use sctp::{SctpDraw, TalkDraw};
pub use seldom::SeldomDraw;
pub use shrink::shrink;

use crate::check::{self, Broken};
use crate::world::{Recording, World};
use lowwater_core::base::{Counters, Duration, Instant};

/// Virtual time after the faults within which every program must finish.
pub const HEAL_LIMIT: Duration = Duration::from_secs(900);
/// Virtual time in which a stack must forget everything after its programs are gone: orphans, TIME-WAIT, and room.
pub const QUIET_LIMIT: Duration = Duration::from_secs(1_200);

/// What a world did, when it kept all promises.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Events of the world.
    pub events: u64,
    /// Bytes that readers got.
    pub bytes: u64,
    /// Virtual time.
    pub virtual_time: Instant,
    /// Segments retransmitted.
    pub retrans_segs: u64,
    /// Packets that the links dropped.
    pub dropped: u64,
    /// Every counter of every stack, added up, in the order of [`lowwater_core::base::Counters::each`].
    pub counters: Vec<u64>,
}

impl Summary {
    /// Names of [`Summary::counters`]. What stays zero over many seeds is a mechanism that no world reached.
    #[must_use]
    pub fn counter_names() -> Vec<String> {
        let mut names = Vec::new();
        Counters::default().each(&mut |group, name, _| names.push(format!("{group}{name}")));
        names
    }
}

/// Builds the world of a draw.
#[must_use]
pub fn build(draw: &WorldSpec, recording: Recording) -> World {
    build::world(draw, recording)
}

/// Runs a world through its phases.
///
/// # Errors
/// The first broken promise.
pub fn run(world: &mut World, draw: &WorldSpec) -> Result<Summary, Broken> {
    world.start();
    world.run_while(draw.faults_end, |w| !w.all_done())?;
    world.heal();
    let limit = world.now() + HEAL_LIMIT;
    world.run_while(limit, |w| !w.all_done())?;
    verdict(world, check::liveness::NAME, check::liveness::check)?;
    verdict(world, check::bytes::NAME, |w| w.ledger.bytes.finish())?;
    verdict(world, check::messages::NAME, |w| w.ledger.messages.finish())?;
    world.stop();
    // The links carry the last segments; a stack then keeps only what time removes.
    let limit = world.now() + QUIET_LIMIT;
    world.run_while(limit, |w| !w.is_quiet())?;
    verdict(world, check::timers::NAME, check::timers::check)?;
    verdict(world, check::memory::NAME, check::memory::check)?;
    verdict(world, check::credit::NAME, check::credit::check)?;
    verdict(world, check::conservation::NAME, check::conservation::check)?;
    verdict(world, check::clock::NAME, check::clock::check)?;
    verdict(world, check::segments::NAME, check::segments::check)?;
    match draw.canary {
        Canary::None => Ok(summary(world)),
        Canary::Checker => {
            let message = String::from("broken on purpose, to prove that failures are reported");
            Err(Broken { checker: "canary", at: world.now(), message })
        }
        Canary::Panic => panic!("a panic on purpose, to prove that panics are reported"),
    }
}

fn verdict(
    world: &World,
    checker: &'static str,
    check: impl Fn(&World) -> Result<(), String>,
) -> Result<(), Broken> {
    check(world).map_err(|message| Broken { checker, at: world.now(), message })
}

fn summary(world: &World) -> Summary {
    Summary {
        events: world.events(),
        bytes: world.ledger.bytes.total_received() + world.ledger.messages.total_received(),
        virtual_time: world.now(),
        retrans_segs: world.hosts().iter().map(|h| h.core().stack().counters().tcp.retrans_segs).sum(),
        dropped: world.pipes().map(|p| p.counts().dropped()).sum(),
        counters: world.hosts().iter().fold(Vec::new(), |mut sums, h| {
            let mut i = 0;
            h.core().stack().counters().each(&mut |_, _, value| {
                if sums.len() <= i {
                    sums.push(0);
                }
                sums[i] += value;
                i += 1;
            });
            sums
        }),
    }
}

#[cfg(test)]
mod tests;
