//! Checks that a stack whose sockets are all closed charges nobody for memory.
use crate::world::World;

/// The checker's name in reports.
pub const NAME: &str = "memory";

/// What connections, associations, datagrams and fragments were charged for has been given back.
///
/// # Errors
/// The host that still charges for something.
pub fn check(world: &World) -> Result<(), String> {
    for (h, host) in world.hosts().iter().enumerate() {
        let stat = host.core().stack().sockstat();
        if (stat.tcp_mem, stat.udp_mem, stat.frag_memory) != (0, 0, 0) {
            return Err(format!("host {h}: memory is charged for after everything was closed: {stat:?}"));
        }
    }
    Ok(())
}
