//! Addresses that another process has on an interface of the kernel. A TUN is one process's alone, but packet sockets of several receive
//! everything: with one address all would answer, and none of their connections would live.
use super::Side;
use crate::failure::Failure;
use lowwater_os::Link;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// What tells other processes that the addresses are taken, for as long as it lives: abstract Unix sockets, one for each address. Their
/// names are those of one network namespace, as interfaces are, and end with the process (unix(7)). They have no owner, so anybody may take one
/// first: the message says which socket stands in the way.
pub(super) struct Taken {
    _sockets: Vec<UnixDatagram>,
}

/// Takes the addresses on this interface. That is advice among processes of this command: where it cannot be had for another reason than
/// that somebody has it, nothing is refused.
pub(super) fn take(interface: &str, sides: &[Side]) -> Result<Taken, Failure> {
    let index = Link::by_name(interface)?.index();
    let mut sockets = Vec::new();
    for own in sides.iter().map(|side| side.own.addr()) {
        let name = format!("lowwater/packet/{index}/{own}");
        match SocketAddr::from_abstract_name(&name).and_then(|name| UnixDatagram::bind_addr(&name)) {
            Ok(socket) => sockets.push(socket),
            Err(e) if e.kind() == ErrorKind::AddrInUse => {
                return Err(Failure::other(format!(
                    "{own} on {interface} is in use by another process, and both would answer: choose another address, or end \
                     that process (`ss -xlp` names it beside its socket @{name})"
                )));
            }
            Err(_) => {}
        }
    }
    Ok(Taken { _sockets: sockets })
}
