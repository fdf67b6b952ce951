//! Checks that time never ran backwards in any stack.
use crate::world::World;

/// The checker's name in reports.
pub const NAME: &str = "clock";

/// No stack saw its clock go back.
///
/// # Errors
/// The host that did.
pub fn check(world: &World) -> Result<(), String> {
    for (h, host) in world.hosts().iter().enumerate() {
        let n = host.core().stack().counters().own.clock_backwards;
        if n != 0 {
            return Err(format!("host {h}: its clock went back {n} times"));
        }
    }
    Ok(())
}
