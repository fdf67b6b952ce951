//! Checks that once the faults have stopped every program finishes within a bounded virtual time.
use crate::world::World;

/// The checker's name in reports.
pub const NAME: &str = "liveness";

/// Every program has finished.
///
/// # Errors
/// Those that have not, and how far they got.
pub fn check(world: &World) -> Result<(), String> {
    let waiting: Vec<String> = world
        .hosts()
        .iter()
        .enumerate()
        .flat_map(|(h, host)| {
            host.apps().filter(|a| !a.done()).map(move |a| format!("host {h} {}: {}", a.name(), a.progress()))
        })
        .collect();
    if waiting.is_empty() { Ok(()) } else { Err(format!("not finished: {}", waiting.join("; "))) }
}
