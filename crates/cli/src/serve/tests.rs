//! Peers that take nothing, over a link in memory.
use super::*;
use lowwater::sctp::{Received, SendInfo};
use lowwater::{SctpAssociation, TcpStream};
use std::io::{self, ErrorKind};
use tokio::io::AsyncWriteExt as _;

/// What a peer may take nothing for; the tests end as soon as it is over.
const PATIENCE: Duration = Duration::from_millis(50);
/// Longer than anything here takes: without a bound the tests would wait for ever.
const HANGS: Duration = Duration::from_secs(120);

/// Two stacks with a link between them: the one that serves is 10.0.0.1.
fn stacks() -> (Stack, Stack) {
    let (a, b) = lowwater::link::pair(1_500);
    let build = |port, address| Stack::builder().device(port).address(address).build().expect("a stack");
    (build(a, "10.0.0.1/24"), build(b, "10.0.0.2/24"))
}

fn in_time<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(HANGS, test).await.expect("it is waited for without end") })
}

/// How `serve` ends for a connection to a listener with a limit whose client asks and then reads nothing.
fn ended<F>(ask: &'static [u8], service: impl FnOnce(lowwater::TcpStream) -> F) -> F::Output
where
    F: Future,
{
    let (server, client) = stacks();
    in_time(async {
        let listener = listen(&server, 19, None, PATIENCE).expect("a port");
        let mut peer = TcpStream::connect(&client, "10.0.0.1:19").await.expect("it listens");
        peer.write_all(ask).await.expect("there is room");
        let (stream, _) = listener.accept().await.expect("a connection");
        let ended = service(stream).await;
        assert_eq!(server.counters().tcp_ext.tcp_abort_on_timeout, 1);
        drop(peer);
        ended
    })
}

#[test]
fn who_takes_nothing_of_chargen_is_cut_off() {
    assert_eq!(ended(b"", small::chargen).map_err(|e| e.kind()), Err(ErrorKind::TimedOut));
}

#[test]
fn who_takes_nothing_of_a_file_is_cut_off() {
    let dir = std::env::temp_dir().join(format!("lowwater-takes-nothing-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let file = std::fs::File::create(dir.join("zeros")).expect("a file");
    file.set_len(1 << 34).expect("a length");
    let root = Arc::new(Root::open(&dir, false).expect("it is there"));
    let (_end, over) = watch::channel(false);
    ended(b"GET /zeros HTTP/1.1\r\nHost: x\r\n\r\n", |stream| http::connection(stream, root, over));
    std::fs::remove_dir_all(&dir).expect("it was there");
}

/// Whoever reads is served to the end: with no patience to run out here, that of a late reader is not tried.
#[test]
fn an_association_whose_peer_takes_nothing_of_the_echo_is_aborted_and_others_are_not() {
    for reads in [false, true] {
        let (server, client) = stacks();
        in_time(async {
            let address = "10.0.0.1".parse().expect("an address");
            let listener = sctp::listen(&server, &[address], 7, None).expect("a port");
            let peer = SctpAssociation::connect(&client, "10.0.0.1:7").await.expect("it listens");
            let (assoc, _) = listener.accept().await.expect("an association");
            let patience = if reads { HANGS } else { PATIENCE };
            let (echoed, peer) = tokio::join!(sctp::echo(assoc, patience), ask(&peer, reads));
            match reads {
                true => assert!(echoed.is_ok() && peer.is_ok(), "{echoed:?}, {peer:?}"),
                false => {
                    assert_eq!(echoed.map_err(|e| e.kind()), Err(ErrorKind::TimedOut));
                    assert!(peer.is_err(), "its peer is told");
                }
            }
        });
    }
}

/// Sends until it fails, or 100 messages that are read one by one.
async fn ask(peer: &SctpAssociation, reads: bool) -> io::Result<()> {
    for _ in 0..if reads { 100 } else { u32::MAX } {
        peer.send(&[7; 10_000], SendInfo::default()).await?;
        let mut part = reads;
        while part {
            part = !matches!(peer.recv().await?, Some(Received::Data { eor: true, .. }));
        }
    }
    peer.finish().await
}
