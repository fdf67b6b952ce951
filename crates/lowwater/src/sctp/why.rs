//! What is wrong with a call, and what to do: sentences where the number of an error says too little.
use crate::error::io_error;
use lowwater_core::base::{Error, SocketId};
use lowwater_core::sctp::handshake::init::Features;
use lowwater_core::sctp::{AssocInfo, PathInfo, PathState, Reconfigurable, SendInfo};
use lowwater_core::stack::Stack as Core;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// What is wrong with a call of SCTP, as the source of an [`io::Error`] ([`io::Error::get_ref`]): its text is a sentence. See
/// [Errors](crate::sctp#errors).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    error: Error,
    what: String,
}

impl Explained {
    /// The error of the stack, which is the source of this one.
    #[must_use]
    pub const fn error(&self) -> Error {
        self.error
    }

    /// The number that a socket of the kernel gives; [`io::Error::raw_os_error`] has none beside a sentence.
    #[must_use]
    pub fn errno(&self) -> i32 {
        io_error(self.error).raw_os_error().unwrap_or_default()
    }
}

impl std::fmt::Display for Explained {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Explained {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// The call itself is wrong: neither the peer nor the network nor a full buffer.
const fn is_mistake(error: Error) -> bool {
    matches!(error, Error::Invalid | Error::MessageTooLong)
}

/// The kind stays. Who looks for [`Explained`] finds it behind each such error: where nothing more is known, a general sentence says so.
fn explained(error: Error, what: Option<String>) -> io::Error {
    let what = what.unwrap_or_else(|| general(error).to_owned());
    io::Error::new(io_error(error).kind(), Explained { error, what })
}

const fn general(error: Error) -> &'static str {
    match error {
        Error::MessageTooLong => "what the call sends fits no packet",
        Error::NoSuchOption => "both sides offer and allow what the call asks for, or it cannot be",
        _ => "something of the call is not valid: its documentation says what is",
    }
}

/// The two ports that addresses of one side have.
fn ports(addrs: &[SocketAddr]) -> Option<(u16, u16)> {
    let first = addrs.first()?.port();
    addrs.iter().map(SocketAddr::port).find(|port| *port != first).map(|other| (first, other))
}

fn local(addrs: &[SocketAddr]) -> Option<String> {
    ports(addrs).map(|(one, other)| {
        format!("our addresses have different ports ({one} and {other}): those of one call are one side's, with one port")
    })
}

/// Why nobody can listen there.
pub(super) fn listen(error: Error, addrs: &[SocketAddr]) -> io::Error {
    if is_mistake(error) { explained(error, local(addrs)) } else { io_error(error) }
}

/// Why no association with this peer can be.
pub(super) fn connect(error: Error, peer: &[SocketAddr], ours: &[SocketAddr]) -> io::Error {
    if !is_mistake(error) {
        return io_error(error);
    }
    let nobody = peer.iter().map(SocketAddr::ip).find(|ip| ip.is_unspecified() || ip.is_multicast());
    let what = match (ports(peer), nobody) {
        (Some((one, other)), _) => Some(format!(
            "the peer's addresses have different ports ({one} and {other}): those of one call are one peer's, with one port"
        )),
        _ if peer.iter().any(|addr| addr.port() == 0) => {
            Some("the peer's port is 0: nobody listens there".to_owned())
        }
        (_, Some(ip)) => {
            Some(format!("{ip} is no peer's address: an association has one host at its other end"))
        }
        _ if peer.len() > 1 && local(ours).is_none() => Some(
            "this device carries associations without addresses: name one of the peer's addresses".to_owned(),
        ),
        _ => local(ours),
    };
    explained(error, what)
}

fn no_stream(core: &Core, id: SocketId, stream: u16) -> Option<String> {
    let (count, _) = core.sctp_streams(id).ok()?;
    (stream >= count).then(|| {
        format!(
            "there is no stream {stream}: the association has {count} to send on, counted from 0 (SctpOptions::num_ostreams asks for more, add_streams() adds some)"
        )
    })
}

fn stranger(assoc: &AssocInfo, ip: IpAddr) -> Option<String> {
    (!assoc.paths.iter().any(|path| path.remote == ip))
        .then(|| format!("{ip} is no address of the peer: peer_addrs() has them"))
}

/// What is wrong with a message of `len` bytes. A full buffer is no mistake, and the answer to every second call: it asks nothing of the core.
pub(super) fn send(core: &Core, id: SocketId, error: Error, (len, info): (usize, SendInfo)) -> io::Error {
    if !is_mistake(error) {
        return io_error(error);
    }
    let assoc = || core.sctp_info(id).ok();
    let what = match error {
        Error::Invalid if len == 0 => Some("the message is empty: it has one byte at least".to_owned()),
        Error::Invalid => no_stream(core, id, info.stream)
            .or_else(|| info.to.and_then(|ip| assoc().and_then(|assoc| stranger(&assoc, ip)))),
        _ => assoc().map(|assoc| {
            format!(
                "a message of {len} bytes fits no packet, which has room for {}, and SctpOptions::disable_fragments keeps it from being cut up",
                assoc.fragment_point
            )
        }),
    };
    explained(error, what)
}

/// Nobody can wait for room in a stream that is not there.
pub(super) fn no_such_stream(core: &Core, id: SocketId, stream: u16) -> Option<io::Error> {
    no_stream(core, id, stream).map(|what| explained(Error::Invalid, Some(what)))
}

/// What is wrong with an address of the peer's.
pub(crate) fn peer(core: &Core, id: SocketId, error: Error, ip: IpAddr) -> io::Error {
    if !is_mistake(error) {
        return io_error(error);
    }
    let assoc = core.sctp_info(id).ok();
    let what = assoc.and_then(|assoc| {
        let of_it = |path: &PathInfo| path.remote == ip && path.state == PathState::Unconfirmed;
        let unconfirmed = assoc.paths.iter().any(of_it);
        if unconfirmed { Some(unconfirmed_address(ip)) } else { stranger(&assoc, ip) }
    });
    explained(error, what)
}

fn unconfirmed_address(ip: IpAddr) -> String {
    format!("the peer has not confirmed that {ip} is its own yet: heartbeat() asks, Notification::Path tells")
}

/// Why a reconfiguration (RFC 6525) cannot be asked for, unless the association is over: which right it takes, by its name, and what `Invalid` means.
pub(crate) fn reconfiguration(
    core: &Core,
    id: SocketId,
    error: Error,
    (right, name): (u8, &str),
    invalid: &str,
) -> io::Error {
    let allows = core.sctp_options(id).is_ok_and(|options| options.reconfigurable.has(right));
    let offered = core.sctp_info(id).is_ok_and(|info| info.features.has(Features::RECONF));
    let what = match error {
        Error::NotConnected | Error::NoSuchSocket | Error::Unsupported => return io_error(error),
        Error::NoSuchOption if !offered => Some(
            "not both sides offer RE-CONFIG: Features::RECONF in the options before the handshake, or the sysctl sctp.reconf_enable, do".to_owned(),
        ),
        Error::NoSuchOption if !allows => {
            Some(format!("SctpOptions::reconfigurable does not allow it: it lacks Reconfigurable::{name}"))
        }
        Error::InProgress => Some(
            "the reconfiguration before this one is not answered yet: its notification comes first".to_owned(),
        ),
        Error::WouldBlock => Some(
            "something that the reconfiguration concerns is unsent or not acknowledged: it can be asked for when that has arrived"
                .to_owned(),
        ),
        Error::MessageTooLong => {
            Some("a packet cannot name so many streams: name fewer, or none for all".to_owned())
        }
        Error::Invalid => Some(invalid.to_owned()),
        _ => None,
    };
    explained(error, what)
}

/// Rights by their names.
pub(crate) const STREAMS: (u8, &str) = (Reconfigurable::STREAMS, "STREAMS");
/// See [`STREAMS`].
pub(crate) const ASSOCIATION: (u8, &str) = (Reconfigurable::ASSOCIATION, "ASSOCIATION");
/// See [`STREAMS`].
pub(crate) const COUNT: (u8, &str) = (Reconfigurable::COUNT, "COUNT");

#[cfg(test)]
mod tests {
    use super::*;

    /// One rule for those who look at the number: a mistake of the call's never has it, whatever is known of it, and all else has.
    #[test]
    fn each_mistake_has_a_sentence_and_nothing_else_has() {
        let core = Core::new(lowwater_core::stack::Config::default(), lowwater_core::base::Instant::ZERO);
        let (id, to) = (SocketId::default(), std::net::Ipv4Addr::LOCALHOST.into());
        for error in [Error::Invalid, Error::MessageTooLong, Error::WouldBlock, Error::Refused] {
            let addr = [SocketAddr::new(to, 7)];
            let all = [
                listen(error, &addr),
                connect(error, &addr, &[]),
                send(&core, id, error, (1, SendInfo::default())),
                peer(&core, id, error, to),
            ];
            for told in all {
                let known = told.get_ref().and_then(|inner| inner.downcast_ref::<Explained>());
                assert_eq!(known.map(Explained::error), is_mistake(error).then_some(error), "{told}");
                assert_eq!(told.raw_os_error().is_some(), !is_mistake(error), "{told}");
            }
        }
    }
}
