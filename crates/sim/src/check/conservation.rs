//! Checks that no packet appears or vanishes in a link without an entry in its account.
use crate::link::Pipe;
use crate::world::World;

/// The checker's name in reports.
pub const NAME: &str = "conservation";

/// One pipe's account balances.
///
/// # Errors
/// The account.
pub fn pipe(pipe: &Pipe) -> Result<(), String> {
    let (c, held) = (pipe.counts(), pipe.held());
    if c.accepted + c.split + c.duplicated == c.delivered + c.dropped() + held {
        return Ok(());
    }
    Err(format!("{held} held, {c:?}"))
}

/// All pipes balance, the hosts got what the pipes delivered, and each stack has counted what its host took.
///
/// # Errors
/// The first account that does not balance.
pub fn check(world: &World) -> Result<(), String> {
    for (i, p) in world.pipes().enumerate() {
        pipe(p).map_err(|e| format!("pipe {i}: {e}"))?;
    }
    let mut total = 0;
    for (h, host) in world.hosts().iter().enumerate() {
        let (arrived, taken, waiting) = host.received_packets();
        if arrived != taken + waiting {
            return Err(format!("host {h}: {arrived} arrived, {taken} taken, {waiting} waiting"));
        }
        let count = host.core().stack().counters();
        let counted = count.ip.in_receives + count.own.gro_merged;
        if counted != taken {
            return Err(format!("host {h}: {taken} packets taken, and its stack has counted {counted}"));
        }
        total += arrived;
    }
    let handed = world.handed_to_hosts();
    if handed == total { Ok(()) } else { Err(format!("{handed} packets for hosts, and {total} arrived")) }
}
