//! Checks that once the faults have stopped every program finishes within a bounded virtual time.
use crate::host::Host;
use crate::world::World;
use lowwater_core::base::SocketId;

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
            host.apps().filter(|a| !a.done()).map(move |a| {
                let stuck: String = a.sockets().iter().filter_map(|id| association(host, *id)).collect();
                format!("host {h} {}: {}{stuck}", a.name(), a.progress())
            })
        })
        .collect();
    if waiting.is_empty() { Ok(()) } else { Err(format!("not finished: {}", waiting.join("; "))) }
}

/// Where an association stands, and why it does not send.
fn association(host: &Host, id: SocketId) -> Option<String> {
    let info = host.core().stack().sctp_info(id).ok()?;
    let paths: Vec<String> = info
        .paths
        .iter()
        .map(|p| {
            format!(
                "{} {:?} flight {} of {} errors {} pace {} B/s",
                p.remote, p.state, p.flight, p.cwnd, p.errors, p.pacing_rate
            )
        })
        .collect();
    Some(format!(
        " [{:?}, unsent {}, unacked {}, missing {}, windows {} {}, waits for {:?}, streams {:?}, paths {}]",
        info.state,
        info.unsent_bytes,
        info.unacked,
        info.missing,
        info.rwnd,
        info.peer_rwnd,
        info.wait,
        info.streams,
        paths.join(", ")
    ))
}
