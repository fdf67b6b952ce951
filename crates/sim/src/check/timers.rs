//! Checks that a stack whose sockets are all closed, TIME-WAIT over, holds no socket and waits for nothing.
use crate::world::World;

/// The checker's name in reports.
pub const NAME: &str = "timers";

/// No socket, no deadline, nothing to transmit.
///
/// # Errors
/// The host that still has some.
pub fn check(world: &World) -> Result<(), String> {
    for (h, host) in world.hosts().iter().enumerate() {
        let open = host.core().stack().open_sockets();
        if open != 0 {
            return Err(format!("host {h}: {open} sockets left after everything was closed"));
        }
        let small = host.core().stack().small_objects();
        if small != (0, 0, 0) {
            return Err(format!("host {h}: requests, TIME-WAITs and orphans are left: {small:?}"));
        }
        if let Some(at) = host.core().stack().next_deadline() {
            return Err(format!("host {h}: a deadline at {at} is left after everything was closed"));
        }
    }
    Ok(())
}
