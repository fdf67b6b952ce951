//! A gateway from TCP to SCTP: every client has a stream of its own in one association, which has two paths.
//!
//! `cargo run -p lowwater-examples --bin sctp_gateway` makes clients, the gateway and a server in this process. What one client
//! lost or reads late holds up nobody else, for each has its stream; and in the middle of it the first path goes dark, which no
//! client notices: the association goes on by the second.
#![forbid(unsafe_code)]
use bytes::Bytes;
use lowwater::link::{Link, QueueLimit, owned, pair};
use lowwater::sctp::{
    ConnectOptions, ListenOptions, Notification, PathChange, Received, SctpOptions, SendInfo, Subscriptions,
};
use lowwater::tcp::OwnedWriteHalf;
use lowwater::{SctpAssociation, SctpListener, Stack, TcpListener, TcpStream};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};

const CLIENTS: u16 = 8;
const LINES: u32 = 200;
/// The first path dies when this client has sent half of its lines.
const WITNESS: u16 = 3;

/// Carries packets one way until the stack ends, or drops them while it is dark.
fn carry(from: Link, to: Link, dark: Arc<AtomicBool>) {
    thread::spawn(move || {
        while let Some(packet) = from.recv_blocking() {
            if !dark.load(Ordering::Relaxed)
                && to
                    .try_send(&Bytes::copy_from_slice(&packet))
                    .is_err_and(|e| e.kind() != io::ErrorKind::WouldBlock)
            {
                break;
            }
        }
    });
}

/// Two stacks with two links between them; the switch makes the first link dark.
fn two_paths() -> io::Result<(lowwater::Builder, Stack, Arc<AtomicBool>)> {
    let limit = QueueLimit { packets: 256, bytes: 512 << 10 };
    let (mut gateway, mut server) = (Stack::builder(), Stack::builder());
    let switch = Arc::new(AtomicBool::new(false));
    for (net, dark) in [(1, switch.clone()), (2, Arc::default())] {
        let ((near, near_link), (far, far_link)) = (owned(1500, limit), owned(1500, limit));
        gateway = gateway.device(near).address(&format!("10.0.{net}.1/24"));
        server = server.device(far).address(&format!("10.0.{net}.2/24"));
        carry(near_link.clone(), far_link.clone(), dark.clone());
        carry(far_link, near_link, dark);
    }
    Ok((gateway, server.build()?, switch))
}

fn addrs(last: u8, port: u16) -> [SocketAddr; 2] {
    [1, 2].map(|net| SocketAddr::new([10, 0, net, last].into(), port))
}

/// The server: each line comes back in capitals, on the stream that it came on.
async fn shout(listener: SctpListener) -> io::Result<()> {
    let (peer, _) = listener.accept().await?;
    while let Some(received) = peer.recv().await? {
        if let Received::Data { data, info, .. } = received {
            let back = SendInfo { stream: info.stream, ..SendInfo::default() };
            peer.send(&data.to_ascii_uppercase(), back).await?;
        }
    }
    peer.finish().await
}

/// The gateway's state: where the answers of a stream go.
struct Gateway {
    assoc: SctpAssociation,
    clients: Mutex<HashMap<u16, tokio::sync::mpsc::Sender<Bytes>>>,
    next: AtomicU16,
}

impl Gateway {
    /// One client: its lines to the association, what comes on its stream to it.
    async fn client(self: Arc<Self>, stream: TcpStream) -> io::Result<()> {
        let (read, write) = stream.into_split();
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answers, inbox) = tokio::sync::mpsc::channel(64);
        self.clients.lock().expect("nobody panics with it").insert(id, answers);
        let writing = tokio::spawn(write_answers(write, inbox));
        let mut lines = BufReader::new(read).lines();
        while let Some(line) = lines.next_line().await? {
            let info = SendInfo { stream: id, ..SendInfo::default() };
            self.assoc.send_bytes(format!("{line}\n").into(), info).await?;
        }
        writing.await?
    }

    /// What the association brings; true when it has told that a path failed.
    async fn answers(&self) -> io::Result<bool> {
        let mut failed = false;
        while let Some(received) = self.assoc.recv().await? {
            match received {
                Received::Data { data, info, .. } => {
                    let client =
                        self.clients.lock().expect("nobody panics with it").get(&info.stream).cloned();
                    if let Some(client) = client {
                        let _ = client.send(data).await;
                    }
                }
                Received::Notification(Notification::Path { address, change }) => {
                    println!("path to {address}: {change:?}");
                    failed |= matches!(change, PathChange::PotentiallyFailed | PathChange::Unreachable);
                }
                Received::Notification(_) => {}
            }
        }
        Ok(failed)
    }
}

async fn write_answers(
    mut write: OwnedWriteHalf,
    mut inbox: tokio::sync::mpsc::Receiver<Bytes>,
) -> io::Result<()> {
    while let Some(answer) = inbox.recv().await {
        write.write_all(&answer).await?;
    }
    Ok(())
}

/// A client: sends a line, waits for its answer, `LINES` times.
async fn talk(stack: Stack, who: u16, dark: Arc<AtomicBool>) -> io::Result<()> {
    let (read, mut write) = TcpStream::connect(&stack, "10.1.0.1:80").await?.into_split();
    let mut answers: Lines<_> = BufReader::new(read).lines();
    for n in 0..LINES {
        if who == WITNESS && n == LINES / 2 {
            dark.store(true, Ordering::Relaxed);
            println!("the first path is dark now");
        }
        write.write_all(format!("line {n} of client {who}\n").as_bytes()).await?;
        let answer = answers.next_line().await?;
        assert_eq!(answer.as_deref(), Some(&*format!("LINE {n} OF CLIENT {who}")));
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let (gateway, server, dark) = two_paths()?;
    let (inside, outside) = pair(1500);
    let gateway = gateway.device(inside).address("10.1.0.1/24").build()?;
    let clients = Stack::builder().device(outside).address("10.1.0.2/24").build()?;

    // A timeout of 50 ms, as below, wants acknowledgements that wait for less.
    let quick = SctpOptions { sack_delay_ms: 10, ..server.sctp_options() };
    let listen =
        ListenOptions { local: addrs(2, 9).to_vec(), options: Some(quick), ..ListenOptions::default() };
    let listener = SctpListener::listen(&server, &listen)?;
    let serving = tokio::spawn(shout(listener));
    let mut options = SctpOptions { events: Subscriptions::PATH, ..gateway.sctp_options() };
    // Lines are short and wanted at once; a path that is silent for 50 ms is not waited for.
    options.nodelay = true;
    (options.rto.min_ms, options.rto.initial_ms) = (50, 200);
    let connect = ConnectOptions { local: addrs(1, 0).to_vec(), options: Some(options) };
    let assoc = SctpAssociation::connect_with(&gateway, &addrs(2, 9)[..], &connect).await?;
    let front = TcpListener::bind(&gateway, "10.1.0.1:80").await?;
    let state = Arc::new(Gateway { assoc, clients: Mutex::default(), next: AtomicU16::new(0) });

    let accepting = {
        let state = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = front.accept().await {
                tokio::spawn(state.clone().client(stream));
            }
        })
    };
    let answering = tokio::spawn({
        let state = state.clone();
        async move { state.answers().await }
    });
    let talking: Vec<_> =
        (0..CLIENTS).map(|who| tokio::spawn(talk(clients.clone(), who, dark.clone()))).collect();
    for client in talking {
        client.await??;
    }
    for path in state.assoc.info()?.paths {
        println!("path to {}: {:?}, srtt {:?}, {} errors", path.remote, path.state, path.srtt, path.errors);
    }
    accepting.abort();
    state.assoc.finish().await?;
    serving.await??;
    assert!(answering.await??, "the association noticed that a path was dark");
    println!("{} lines by {CLIENTS} clients, each answered in order", u32::from(CLIENTS) * LINES);
    Ok(())
}
