//! Peers that take nothing, over a link in memory.
use super::*;
use lowwater::sctp::{ConnectOptions, Received, SctpOptions, SendInfo};
use lowwater::{SctpAssociation, TcpStream};
use std::io::{self, ErrorKind};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// What a peer may take nothing for; the tests end as soon as it is over.
const PATIENCE: Duration = Duration::from_secs(2);
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

/// An association whose peer has a small buffer, echoed with patience.
async fn echoing(server: &Stack, client: &Stack) -> (impl Future<Output = io::Result<()>>, SctpAssociation) {
    let address = "10.0.0.1".parse().expect("an address");
    let listener = sctp::listen(server, &[address], 7, None).expect("a port");
    let options = Some(SctpOptions { rcvbuf: PEER_BUFFER, ..client.sctp_options() });
    let options = ConnectOptions { options, ..ConnectOptions::default() };
    let peer = SctpAssociation::connect_with(client, "10.0.0.1:7", &options).await.expect("it listens");
    let (assoc, _) = listener.accept().await.expect("an association");
    (sctp::echo(assoc, PATIENCE), peer)
}

/// So much fits the peer's buffer, and the echo's in any case.
const PEER_BUFFER: u32 = 20_000;
const MESSAGE: usize = 2_000;
const MESSAGES: usize = 30;

#[test]
fn an_association_whose_peer_takes_nothing_of_the_echo_is_aborted() {
    let (server, client) = stacks();
    in_time(async {
        let (echo, peer) = echoing(&server, &client).await;
        let sends = async {
            loop {
                if let Err(why) = peer.send(&[7; 10_000], SendInfo::default()).await {
                    return why;
                }
            }
        };
        let (echoed, _why) = tokio::join!(echo, sends);
        assert_eq!(echoed.map_err(|e| e.kind()), Err(ErrorKind::TimedOut));
    });
}

/// Its echo waits in the buffer, and nobody waits for room there.
#[test]
fn nor_is_one_waited_for_that_sends_little() {
    let (server, client) = stacks();
    in_time(async {
        let (echo, peer) = echoing(&server, &client).await;
        let sends = async {
            for _ in 0..MESSAGES {
                peer.send(&[7; MESSAGE], SendInfo::default()).await?;
            }
            io::Result::Ok(())
        };
        let (echoed, sent) = tokio::join!(echo, sends);
        assert!(sent.is_ok(), "there is room");
        assert_eq!(echoed.map_err(|e| e.kind()), Err(ErrorKind::TimedOut));
    });
}

/// Who takes something now and then is served to the end, and so is who says nothing for a while.
#[test]
fn a_late_reader_of_the_echo_is_served_to_the_end() {
    let (server, client) = stacks();
    in_time(async {
        let (echo, peer) = echoing(&server, &client).await;
        let late = async {
            tokio::time::sleep(PATIENCE * 5 / 2).await;
            for _ in 0..MESSAGES {
                peer.send(&[7; MESSAGE], SendInfo::default()).await?;
            }
            // Often enough that a busy machine is not taken for a peer that takes nothing.
            for read in 0..MESSAGES {
                if read % 3 == 0 {
                    tokio::time::sleep(PATIENCE / 4).await;
                }
                while !matches!(peer.recv().await?, Some(Received::Data { eor: true, .. })) {}
            }
            peer.finish().await
        };
        let (echoed, read) = tokio::join!(echo, late);
        assert!(echoed.is_ok() && read.is_ok(), "{echoed:?}, {read:?}");
    });
}

/// Larger than what the buffers of both ends take, so that an end of the connection in the middle of it is a reset.
const REFUSED_BODY: usize = 12 << 20;

#[test]
fn who_uploads_unasked_hears_that_it_is_refused() {
    let (server, client) = stacks();
    let root = Arc::new(Root::open(&std::env::temp_dir(), false).expect("it is there"));
    in_time(async {
        let listener = listen(&server, 80, None, Duration::ZERO).expect("a port");
        let mut peer = TcpStream::connect(&client, "10.0.0.1:80").await.expect("it listens");
        let (stream, _) = listener.accept().await.expect("a connection");
        let (_end, over) = watch::channel(false);
        let uploads = async {
            let head = format!("PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: {REFUSED_BODY}\r\n\r\n");
            peer.write_all(head.as_bytes()).await?;
            peer.write_all(&vec![7; REFUSED_BODY]).await?;
            let mut answer = String::new();
            peer.read_to_string(&mut answer).await?;
            drop(peer);
            io::Result::Ok(answer)
        };
        let (answer, ()) = tokio::join!(uploads, http::connection(stream, root, over));
        let answer = answer.expect("it is not lost behind a reset");
        assert!(answer.starts_with("HTTP/1.1 405") && answer.contains("--writable"), "{answer}");
    });
}
