//! Checks that credit is conserved: every charge that went below the transport comes back exactly once.
use crate::host::Host;
use crate::world::World;

/// The checker's name in reports.
pub const NAME: &str = "credit";

/// The accounts of a host's flows agree with what its stack holds and what its device owes, flow by flow, at this instant.
///
/// # Errors
/// The first flow whose account does not balance.
pub fn host(host: &Host) -> Result<(), String> {
    for flow in host.core().stack().credits() {
        let owed = host.owed(flow.socket);
        if flow.at_device() != owed as i64 {
            return Err(format!(
                "{:?}: {} bytes charged, {} held in the stack, {owed} at the device",
                flow.socket, flow.below, flow.held
            ));
        }
    }
    Ok(())
}

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
