//! The same test bodies compiled against tokio's sockets over loopback and against ours over a link in memory.
use sha2::{Digest, Sha256};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Nothing here may take this long.
const PATIENCE: Duration = Duration::from_secs(30);

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("this takes too long")
}

/// What could keep its thread for ever, and with it every timer that would end it.
fn on_a_thread(future: impl Future<Output = ()> + Send + 'static) {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(future);
        tell.send(())
    });
    told.recv_timeout(PATIENCE).expect("this fails, or takes too long");
}

/// Bytes that tell where they belong.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// tokio's sockets: the reference.
mod tokio_net {
    use super::*;
    pub(crate) use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
    pub(crate) use tokio::net::{TcpListener, TcpStream, UdpSocket};

    pub(crate) struct World;

    impl World {
        pub(crate) fn new() -> Self {
            Self
        }
        pub(crate) async fn listen(&self) -> TcpListener {
            TcpListener::bind("127.0.0.1:0").await.unwrap()
        }
        pub(crate) async fn listen_at(&self, addr: SocketAddr) -> std::io::Result<TcpListener> {
            TcpListener::bind(addr).await
        }
        pub(crate) async fn connect(&self, addr: SocketAddr) -> std::io::Result<TcpStream> {
            TcpStream::connect(addr).await
        }
        pub(crate) async fn udp(&self) -> (UdpSocket, UdpSocket) {
            let bind = || UdpSocket::bind("127.0.0.1:0");
            (bind().await.unwrap(), bind().await.unwrap())
        }
    }

    pub(crate) fn reset_at_drop(stream: &TcpStream) {
        stream.set_zero_linger().unwrap();
    }
}

/// Ours.
mod ours {
    use super::*;
    pub(crate) use lowwater::tcp::{OwnedReadHalf, OwnedWriteHalf};
    pub(crate) use lowwater::{TcpListener, TcpStream, UdpSocket};

    pub(crate) struct World {
        server: lowwater::Stack,
        client: lowwater::Stack,
    }

    impl World {
        pub(crate) fn new() -> Self {
            let (a, b) = lowwater::link::pair(1500);
            let stack =
                |port, address| lowwater::Stack::builder().device(port).address(address).build().unwrap();
            Self { server: stack(a, "10.0.0.1/24"), client: stack(b, "10.0.0.2/24") }
        }
        pub(crate) async fn listen(&self) -> TcpListener {
            TcpListener::bind(&self.server, "10.0.0.1:0").await.unwrap()
        }
        pub(crate) async fn listen_at(&self, addr: SocketAddr) -> std::io::Result<TcpListener> {
            TcpListener::bind(&self.server, addr).await
        }
        pub(crate) async fn connect(&self, addr: SocketAddr) -> std::io::Result<TcpStream> {
            TcpStream::connect(&self.client, addr).await
        }
        pub(crate) async fn udp(&self) -> (UdpSocket, UdpSocket) {
            let server = UdpSocket::bind(&self.server, "10.0.0.1:0").await.unwrap();
            (server, UdpSocket::bind(&self.client, "10.0.0.2:0").await.unwrap())
        }
    }

    pub(crate) fn reset_at_drop(stream: &TcpStream) {
        stream.set_linger(Some(Duration::ZERO)).unwrap();
    }
}

macro_rules! parity {
    ($net:ident, $tests:ident) => {
        mod $tests {
            use super::$net::*;
            use super::*;
            use tokio::io::{AsyncReadExt, AsyncWriteExt};

            /// Both ends of a connection: the one that connected and the one that was accepted.
            async fn connection(world: &World) -> (TcpStream, TcpStream) {
                let listener = world.listen().await;
                let addr = listener.local_addr().unwrap();
                let (client, server) = tokio::join!(world.connect(addr), listener.accept());
                (client.unwrap(), server.unwrap().0)
            }

            fn halves(stream: TcpStream) -> (OwnedReadHalf, OwnedWriteHalf) {
                stream.into_split()
            }

            #[tokio::test]
            async fn echo() {
                let world = World::new();
                let (mut client, server) = soon(connection(&world)).await;
                let echo = tokio::spawn(async move {
                    let (mut read, mut write) = halves(server);
                    tokio::io::copy(&mut read, &mut write).await.unwrap()
                });
                let mut answer = [0; 5];
                for _ in 0..100 {
                    client.write_all(b"hello").await.unwrap();
                    soon(client.read_exact(&mut answer)).await.unwrap();
                    assert_eq!(&answer, b"hello");
                }
                client.shutdown().await.unwrap();
                assert_eq!(client.read(&mut answer).await.unwrap(), 0);
                assert_eq!(soon(echo).await.unwrap(), 500);
            }

            #[tokio::test]
            async fn a_large_transfer_both_ways_at_once() {
                let world = World::new();
                let (client, server) = soon(connection(&world)).await;
                let data = pattern(16 << 20);
                let run = |stream: TcpStream, data: Vec<u8>| async move {
                    let (mut read, mut write) = halves(stream);
                    let send = tokio::spawn(async move {
                        write.write_all(&data).await.unwrap();
                        write.shutdown().await.unwrap();
                    });
                    let (mut hash, mut buf, mut len) = (Sha256::new(), vec![0; 100_000], 0);
                    loop {
                        let n = read.read(&mut buf).await.unwrap();
                        if n == 0 {
                            break;
                        }
                        hash.update(&buf[..n]);
                        len += n;
                    }
                    send.await.unwrap();
                    (len, hash.finalize())
                };
                let ends = (tokio::spawn(run(client, data.clone())), tokio::spawn(run(server, data.clone())));
                let expected = (data.len(), Sha256::digest(&data));
                let (a, b) = soon(async { tokio::join!(ends.0, ends.1) }).await;
                assert_eq!(a.unwrap(), expected);
                assert_eq!(b.unwrap(), expected);
            }

            #[tokio::test]
            async fn one_direction_closes_and_the_other_goes_on() {
                let world = World::new();
                let (mut client, mut server) = soon(connection(&world)).await;
                client.write_all(b"request").await.unwrap();
                client.shutdown().await.unwrap();
                let mut request = String::new();
                soon(server.read_to_string(&mut request)).await.unwrap();
                assert_eq!(request, "request");
                server.write_all(b"answer").await.unwrap();
                drop(server);
                let mut answer = String::new();
                soon(client.read_to_string(&mut answer)).await.unwrap();
                assert_eq!(answer, "answer");
                let e = client.write(b"more").await.unwrap_err();
                assert_eq!(e.kind(), ErrorKind::BrokenPipe);
            }

            #[tokio::test]
            async fn nobody_listens() {
                let world = World::new();
                let listener = world.listen().await;
                let addr = listener.local_addr().unwrap();
                drop(listener);
                let e = soon(world.connect(addr)).await.unwrap_err();
                assert_eq!((e.kind(), e.raw_os_error()), (ErrorKind::ConnectionRefused, Some(111)));
            }

            #[tokio::test]
            async fn a_port_can_be_taken_only_once() {
                let world = World::new();
                let listener = world.listen().await;
                let addr = listener.local_addr().unwrap();
                assert_ne!(addr.port(), 0);
                assert_eq!(world.listen_at(addr).await.unwrap_err().kind(), ErrorKind::AddrInUse);
                let stranger = SocketAddr::from(([192, 0, 2, 77], 0));
                let e = world.listen_at(stranger).await.unwrap_err();
                assert_eq!(e.kind(), ErrorKind::AddrNotAvailable);
            }

            #[tokio::test]
            async fn many_connections() {
                let world = World::new();
                let listener = world.listen().await;
                let addr = listener.local_addr().unwrap();
                let server = tokio::spawn(async move {
                    for _ in 0..200 {
                        let (mut stream, peer) = listener.accept().await.unwrap();
                        assert_eq!(stream.peer_addr().unwrap(), peer);
                        tokio::spawn(async move {
                            let n = stream.read_u32().await.unwrap();
                            stream.write_u32(n + 1).await.unwrap();
                        });
                    }
                });
                let mut streams = Vec::new();
                for _ in 0..200 {
                    streams.push(soon(world.connect(addr)).await.unwrap());
                }
                for (n, stream) in (0..).zip(&mut streams) {
                    stream.write_u32(n).await.unwrap();
                }
                for (n, stream) in (1..).zip(&mut streams) {
                    assert_eq!(soon(stream.read_u32()).await.unwrap(), n);
                }
                soon(server).await.unwrap();
            }

            #[tokio::test]
            async fn a_cancelled_read_loses_nothing() {
                let world = World::new();
                let (mut client, mut server) = soon(connection(&world)).await;
                let (mut got, mut buf) = (Vec::new(), [0; 64]);
                let data = pattern(20_000);
                let sent = data.clone();
                let sender = tokio::spawn(async move {
                    for piece in sent.chunks(100) {
                        client.write_all(piece).await.unwrap();
                        tokio::task::yield_now().await;
                    }
                    client
                });
                while got.len() < data.len() {
                    tokio::select! {
                        biased;
                        n = server.read(&mut buf) => got.extend_from_slice(&buf[..n.unwrap()]),
                        () = tokio::task::yield_now() => {}
                    }
                }
                assert_eq!(got, data);
                soon(sender).await.unwrap();
            }

            #[tokio::test]
            async fn a_cancelled_accept_loses_no_connection() {
                let world = World::new();
                let listener = world.listen().await;
                let addr = listener.local_addr().unwrap();
                for _ in 0..20 {
                    let early = tokio::time::timeout(Duration::from_micros(50), listener.accept()).await;
                    assert!(early.is_err());
                    let _client = soon(world.connect(addr)).await.unwrap();
                    soon(listener.accept()).await.unwrap();
                }
            }

            #[tokio::test]
            async fn a_drop_closes_and_delivers_what_was_written() {
                let world = World::new();
                let (mut client, mut server) = soon(connection(&world)).await;
                let data = pattern(100_000);
                client.write_all(&data).await.unwrap();
                drop(client);
                let mut got = Vec::new();
                soon(server.read_to_end(&mut got)).await.unwrap();
                assert_eq!(got, data);
            }

            #[tokio::test]
            async fn a_drop_with_unread_data_resets() {
                let world = World::new();
                let (mut client, server) = soon(connection(&world)).await;
                client.write_all(b"never read").await.unwrap();
                server.readable().await.unwrap();
                drop(server);
                let e = soon(client.read(&mut [0; 8])).await.unwrap_err();
                assert_eq!(e.kind(), ErrorKind::ConnectionReset);
            }

            #[tokio::test]
            async fn zero_linger_resets_at_drop() {
                let world = World::new();
                let (mut client, server) = soon(connection(&world)).await;
                reset_at_drop(&server);
                drop(server);
                let e = soon(client.read(&mut [0; 8])).await.unwrap_err();
                assert_eq!((e.kind(), e.raw_os_error()), (ErrorKind::ConnectionReset, Some(104)));
            }

            #[tokio::test]
            async fn peek_and_try_read() {
                let world = World::new();
                let (mut client, server) = soon(connection(&world)).await;
                let mut buf = [0; 16];
                assert_eq!(server.try_read(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
                client.write_all(b"abc").await.unwrap();
                assert_eq!(soon(server.peek(&mut buf)).await.unwrap(), 3);
                soon(server.readable()).await.unwrap();
                assert_eq!(server.try_read(&mut buf[..2]).unwrap(), 2);
                assert_eq!(server.try_read(&mut buf[2..]).unwrap(), 1);
                assert_eq!(&buf[..3], b"abc");
                let e = server.try_read(&mut buf).unwrap_err();
                assert_eq!(e.kind(), ErrorKind::WouldBlock);
            }

            #[tokio::test]
            async fn a_full_writer_waits_until_the_reader_reads() {
                let world = World::new();
                let (client, mut server) = soon(connection(&world)).await;
                let (block, mut written) = (pattern(65_536), 0);
                loop {
                    match client.try_write(&block) {
                        Ok(n) => written += n,
                        Err(e) => {
                            assert_eq!(e.kind(), ErrorKind::WouldBlock);
                            // What is under way may still make room.
                            let more = tokio::time::timeout(Duration::from_millis(300), client.writable());
                            if more.await.is_err() {
                                break;
                            }
                        }
                    }
                }
                let reader = tokio::spawn(async move {
                    let (mut read, mut buf) = (0, vec![0; 65_536]);
                    while read <= written {
                        read += server.read(&mut buf).await.unwrap();
                    }
                    server
                });
                while client.try_write(b"x").is_err() {
                    soon(client.writable()).await.unwrap();
                }
                soon(reader).await.unwrap();
            }

            #[tokio::test]
            async fn dropping_the_writing_half_sends_fin() {
                let world = World::new();
                let (client, mut server) = soon(connection(&world)).await;
                let (mut read, write) = halves(client);
                drop(write);
                assert_eq!(soon(server.read(&mut [0; 8])).await.unwrap(), 0);
                server.write_all(b"still").await.unwrap();
                drop(server);
                let mut got = String::new();
                soon(read.read_to_string(&mut got)).await.unwrap();
                assert_eq!(got, "still");
            }

            #[tokio::test]
            async fn halves_find_together() {
                let world = World::new();
                let (client, mut server) = soon(connection(&world)).await;
                let (read, write) = halves(client);
                let mut client = read.reunite(write).unwrap();
                client.write_all(b"one piece").await.unwrap();
                let mut buf = [0; 9];
                soon(server.read_exact(&mut buf)).await.unwrap();
                assert_eq!(&buf, b"one piece");
            }

            #[tokio::test]
            async fn addresses_and_options() {
                let world = World::new();
                let (client, server) = soon(connection(&world)).await;
                assert_eq!(client.local_addr().unwrap(), server.peer_addr().unwrap());
                assert_eq!(client.peer_addr().unwrap(), server.local_addr().unwrap());
                assert!(!client.nodelay().unwrap());
                client.set_nodelay(true).unwrap();
                assert!(client.nodelay().unwrap());
                assert!(client.take_error().unwrap().is_none());
            }

            #[tokio::test]
            async fn a_task_that_moves_is_woken_where_it_is() {
                let world = World::new();
                let (client, mut server) = soon(connection(&world)).await;
                let (mut read, mut write) = halves(client);
                // The first poll registers one task, the second another.
                let mut buf = [0; 4];
                let first = tokio::time::timeout(Duration::from_millis(5), read.read(&mut buf)).await;
                assert!(first.is_err());
                let reader = tokio::spawn(async move {
                    let mut buf = [0; 4];
                    read.read_exact(&mut buf).await.unwrap();
                    buf
                });
                tokio::task::yield_now().await;
                server.write_all(b"wake").await.unwrap();
                assert_eq!(&soon(reader).await.unwrap(), b"wake");
                write.write_all(b"x").await.unwrap();
            }

            #[tokio::test]
            async fn a_busy_reader_lets_other_tasks_run() {
                let world = World::new();
                let (client, mut server) = soon(connection(&world)).await;
                let (mut read, mut write) = halves(client);
                let feeder =
                    tokio::spawn(async move { while write.write_all(&[1; 65_536]).await.is_ok() {} });
                let drain =
                    tokio::spawn(async move { while matches!(server.read(&mut [0; 64]).await, Ok(1..)) {} });
                for _ in 0..1_000 {
                    tokio::task::yield_now().await;
                }
                feeder.abort();
                drain.abort();
                let e = soon(drain).await.unwrap_err();
                assert!(e.is_cancelled());
                let _ = soon(read.read(&mut [0; 1])).await;
            }

            /// Whatever it waits for is there, each time.
            #[test]
            fn a_task_that_never_waits_lets_others_run() {
                on_a_thread(async {
                    let world = World::new();
                    let (mut client, server) = soon(connection(&world)).await;
                    client.write_all(b"x").await.unwrap();
                    soon(server.readable()).await.unwrap();
                    let busy = tokio::spawn(async move {
                        loop {
                            assert_eq!(server.peek(&mut [0; 1]).await.unwrap(), 1);
                        }
                    });
                    for _ in 0..1_000 {
                        tokio::task::yield_now().await;
                    }
                    busy.abort();
                    assert!(soon(busy).await.unwrap_err().is_cancelled());
                });
            }

            #[tokio::test]
            async fn datagrams() {
                let world = World::new();
                let (server, client) = world.udp().await;
                let (to, from) = (server.local_addr().unwrap(), client.local_addr().unwrap());
                let mut buf = [0; 100];
                assert_eq!(client.send_to(b"one", to).await.unwrap(), 3);
                assert_eq!(client.send_to(b"", to).await.unwrap(), 0);
                assert_eq!(soon(server.recv_from(&mut buf)).await.unwrap(), (3, from));
                assert_eq!(soon(server.recv_from(&mut buf)).await.unwrap(), (0, from));
                server.connect(from).await.unwrap();
                client.connect(to).await.unwrap();
                assert_eq!(server.send(b"answer").await.unwrap(), 6);
                assert_eq!(soon(client.recv(&mut buf[..3])).await.unwrap(), 3);
                assert_eq!(&buf[..3], b"ans");
                assert_eq!(client.peer_addr().unwrap(), to);
                let e = client.try_recv_from(&mut buf).unwrap_err();
                assert_eq!(e.kind(), ErrorKind::WouldBlock);
                let large = client.send(&vec![0; 65_508]).await.unwrap_err();
                assert_eq!(large.raw_os_error(), Some(90));
                assert_eq!(client.multicast_ttl_v4().unwrap(), 1);
                client.set_multicast_ttl_v4(9).unwrap();
                assert_eq!(client.multicast_ttl_v4().unwrap(), 9);
                assert_eq!(client.set_multicast_ttl_v4(256).unwrap_err().kind(), ErrorKind::InvalidInput);
            }

            #[tokio::test]
            async fn a_datagram_to_nobody_is_refused() {
                let world = World::new();
                let (server, client) = world.udp().await;
                client.connect(server.local_addr().unwrap()).await.unwrap();
                drop(server);
                client.send(b"hello?").await.unwrap();
                let e = soon(client.recv(&mut [0; 8])).await.unwrap_err();
                assert_eq!(e.kind(), ErrorKind::ConnectionRefused);
            }
        }
    };
}

parity!(tokio_net, reference);
parity!(ours, lowwater_sockets);
