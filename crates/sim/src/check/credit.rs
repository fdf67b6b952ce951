//! Checks that credit is conserved: every charge that went below the transport comes back exactly once.
use crate::world::World;

/// The checker's name in reports.
pub const NAME: &str = "credit";

/// Every charge that went to the device came back from it, once the links are empty.
///
/// # Errors
/// The host that misses some, and how many bytes.
pub fn check(world: &World) -> Result<(), String> {
    for (h, host) in world.hosts().iter().enumerate() {
        let (charged, refunded) = host.credit();
        if charged != refunded {
            return Err(format!(
                "host {h}: {charged} bytes charged below the transport, {refunded} came back"
            ));
        }
    }
    Ok(())
}
