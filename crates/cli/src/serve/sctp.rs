//! Echo and discard over SCTP: message for message, on the stream that it came on.
use super::over;
use bytes::Bytes;
use lowwater::sctp::{ListenOptions, Received, RecvInfo, SctpCongestionKind, SctpOptions, SendInfo, State};
use lowwater::{SctpAssociation, SctpListener, Stack};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Discard is so far above echo, as 9 is above 7.
pub(crate) const DISCARD: u16 = 2;
/// Associations of one service at the same time; more wait in the backlog.
const ASSOCIATIONS_MAX: usize = 16_384;
/// Longest message that echo puts together from its parts.
const MESSAGE_MAX: usize = 16 << 20;
/// Unsent bytes that wait in the stack.
const NOTSENT_LOWAT: u32 = 128 << 10;

/// Listens at a port of all addresses.
pub(crate) fn listen(
    stack: &Stack,
    addresses: &[IpAddr],
    port: u16,
    congestion: Option<SctpCongestionKind>,
) -> io::Result<SctpListener> {
    let options = stack.sctp_options();
    let options = SctpOptions {
        congestion: congestion.unwrap_or(options.congestion),
        // An echo goes to any stream that the peer has; those that nobody uses cost nothing.
        num_ostreams: u16::MAX,
        notsent_lowat: NOTSENT_LOWAT,
        ..options
    };
    let local = addresses.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
    SctpListener::listen(
        stack,
        &ListenOptions { local, backlog: super::BACKLOG, options: Some(options), ..ListenOptions::default() },
    )
}

/// Serves each association by `service` until the end.
pub(crate) async fn serve<F>(
    listener: SctpListener,
    mut ended: watch::Receiver<bool>,
    service: impl Fn(SctpAssociation) -> F,
) where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let mut associations = JoinSet::new();
    loop {
        while associations.try_join_next().is_some() {}
        let full = associations.len() >= ASSOCIATIONS_MAX;
        tokio::select! {
            () = over(&mut ended) => break,
            Some(_) = associations.join_next() => {}
            accepted = listener.accept(), if !full => match accepted {
                Ok((assoc, _)) => drop(associations.spawn(service(assoc))),
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
        }
    }
    // What is open at the end is cut off: these services end when the peer wants.
    associations.abort_all();
}

/// Sends each message back on its stream, with its identifier, as ordered as it came, to a peer that takes something within `patience`.
pub(crate) async fn echo(assoc: SctpAssociation, patience: Duration) -> io::Result<()> {
    let given = AtomicU64::new(0);
    let echoing = async {
        let mut parts = Vec::new();
        while let Some(received) = assoc.recv().await? {
            let Received::Data { data, info, eor } = received else { continue };
            parts.push(data);
            if parts.iter().map(Bytes::len).sum::<usize>() > MESSAGE_MAX {
                return assoc.abort(b"message too long for the echo service");
            }
            if eor {
                let RecvInfo { stream, ppid, unordered, .. } = info;
                let back = SendInfo { stream, ppid, unordered, ..SendInfo::default() };
                let message = joined(&mut parts);
                let len = message.len() as u64;
                assoc.send_bytes(message, back).await?;
                // Once it waits with the others: what has left is to be the difference at each moment.
                given.fetch_add(len, Relaxed);
            }
        }
        assoc.finish().await
    };
    while_it_goes_on(&assoc, echoing, &given, patience).await
}

/// Waits for `what` as long as, of the bytes that it has `given` to be sent, some leave or are acknowledged within `patience`, or none wait; none: without
/// end. SCTP has nothing like TCP_USER_TIMEOUT: a peer whose window is shut, and that answers probes, is none that has failed (RFC 9260 section 6.1 A).
async fn while_it_goes_on(
    assoc: &SctpAssociation,
    what: impl Future<Output = io::Result<()>>,
    given: &AtomicU64,
    patience: Duration,
) -> io::Result<()> {
    let mut what = pin!(what);
    if patience.is_zero() {
        return what.await;
    }
    // What waits, where something does: what the peer sends meanwhile moves it no further.
    let waiting = || {
        assoc.info().map(|info| {
            let unsent = info.unsent_bytes as u64;
            let waits = info.unacked > 0 || unsent > 0 || info.state != State::Established;
            waits.then(|| (info.unacked, given.load(Relaxed).wrapping_sub(unsent)))
        })
    };
    let mut known = waiting()?;
    loop {
        if let Ok(done) = tokio::time::timeout(patience, what.as_mut()).await {
            return done;
        }
        let now = waiting()?;
        if now.is_some() && now == known {
            assoc.abort(b"nothing of the echo was taken for too long")?;
            return Err(io::ErrorKind::TimedOut.into());
        }
        known = now;
    }
}

/// Reads to the end.
pub(crate) async fn discard(assoc: SctpAssociation) -> io::Result<()> {
    while assoc.recv().await?.is_some() {}
    assoc.finish().await
}

/// The parts as one message; a single one is not copied.
fn joined(parts: &mut Vec<Bytes>) -> Bytes {
    if let [_] = parts[..]
        && let Some(only) = parts.pop()
    {
        return only;
    }
    std::mem::take(parts).concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_part_is_not_copied_and_several_become_one() {
        let part = Bytes::from(vec![7; 10]);
        let mut parts = vec![part.clone()];
        assert_eq!(joined(&mut parts).as_ptr(), part.as_ptr());
        parts.extend([part, Bytes::from_static(b"end")]);
        assert_eq!(joined(&mut parts).len(), 13);
        assert!(parts.is_empty());
    }
}
