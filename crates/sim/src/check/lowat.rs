//! Checks that a writer is bounded by its low-water mark, TCP_NOTSENT_LOWAT: it looks at what is not sent yet, not at the send buffer as a whole.
use crate::host::Core;
use lowwater_core::base::SocketId;
use lowwater_core::tcp::SocketOptions;

/// The checker's name in reports.
pub const NAME: &str = "lowat";

/// Most bytes of an element of the send queue.
const ELEMENT: u64 = 65_536;
/// How many a write may leave beyond the limit: the one that begins below it, and one that it has pushed out and that small queues, the pace or a
/// window then hold.
const BEYOND: u64 = 2;

/// Connections are not short of memory, for want of which a write is refused whatever its socket has room for (`tcp_mem`).
#[must_use]
pub fn has_memory(core: &Core) -> bool {
    let stack = core.stack();
    stack.sockstat().tcp_mem < u64::from(stack.sysctl().tcp_mem.min)
}

/// No more is unsent than the limit and these elements, once what a write has pushed out has left.
///
/// # Errors
/// How much it is.
pub fn check(core: &mut Core, id: SocketId, options: &SocketOptions) -> Result<(), String> {
    let of_all = core.stack().sysctl().tcp_notsent_lowat;
    let lowat = if options.notsent_lowat == 0 { of_all } else { options.notsent_lowat };
    let Some(info) = core.tcp_info(id) else { return Ok(()) };
    let most = u64::from(lowat) + BEYOND * ELEMENT;
    if u64::from(info.notsent_bytes) <= most {
        return Ok(());
    }
    Err(format!("{id:?}: {} bytes are not sent, and {most} may be", info.notsent_bytes))
}
