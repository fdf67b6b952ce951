//! The small services: echo (RFC 862), discard (RFC 863), chargen (RFC 864).
use super::{accept, over};
use bytes::{Bytes, BytesMut};
use lowwater::{TcpListener, TcpStream, UdpSocket};
use std::io;
use std::sync::OnceLock;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Characters in a line of chargen, line end excluded.
const LINE: usize = 72;
/// Printable characters, from the blank on.
const PRINTABLE: usize = 95;
/// Connections of one service at the same time; more wait in the backlog.
const CONNECTIONS_MAX: usize = 16_384;

/// Serves each connection by `service` until the end.
pub(crate) async fn serve<F>(
    listener: TcpListener,
    mut ended: watch::Receiver<bool>,
    service: fn(TcpStream) -> F,
) where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    while let Some((stream, _)) = accept(&listener, &mut ended).await {
        while connections.try_join_next().is_some() {}
        if connections.len() >= CONNECTIONS_MAX {
            connections.join_next().await;
        }
        connections.spawn(service(stream));
    }
    // What is open at the end is cut off: these services end when the peer wants.
    connections.abort_all();
}

/// Sends back what comes, without a copy.
pub(crate) async fn echo(stream: TcpStream) -> io::Result<()> {
    while let Some(piece) = stream.read_chunk().await? {
        stream.write_bytes(piece).await?;
    }
    Ok(())
}

/// Reads to the end.
pub(crate) async fn discard(stream: TcpStream) -> io::Result<()> {
    while stream.read_chunk().await?.is_some() {}
    Ok(())
}

/// Sends the rotating pattern until the peer goes away.
pub(crate) async fn chargen(stream: TcpStream) -> io::Result<()> {
    static PATTERN: OnceLock<Bytes> = OnceLock::new();
    let pattern = PATTERN.get_or_init(pattern);
    loop {
        stream.write_bytes(pattern.clone()).await?;
    }
}

/// Whole periods of the pattern, enough of them for large writes.
fn pattern() -> Bytes {
    let mut text = BytesMut::new();
    for line in 0..PRINTABLE * 10 {
        text.extend((0..LINE).map(|i| b' ' + ((line + i) % PRINTABLE) as u8));
        text.extend_from_slice(b"\r\n");
    }
    text.freeze()
}

/// Sends datagrams back, but not to the ports of other echo services (two of them would never stop).
pub(crate) async fn echo_datagrams(socket: UdpSocket, mut ended: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = over(&mut ended) => return,
            received = socket.recv_bytes_from() => match received {
                Ok((data, from)) if !matches!(from.port(), 7 | 19) => {
                    // An answer that cannot be sent is lost like any datagram.
                    let _ = socket.send_bytes_to(data, from).await;
                }
                Ok(_) => {}
                // An ICMP error about an earlier answer.
                Err(_) => tokio::task::yield_now().await,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_rotates_and_repeats() {
        let text = pattern();
        let lines: Vec<_> = text.split(|b| *b == b'\n').collect();
        assert!(lines[0].starts_with(b" !\"#$") && lines[0].len() == LINE + 1);
        assert!(lines[1].starts_with(b"!\"#$%"));
        assert_eq!(lines[PRINTABLE], lines[0]);
        assert_eq!(text.len() % ((LINE + 2) * PRINTABLE), 0);
    }
}
