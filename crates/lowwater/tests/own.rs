//! What tokio's and std's sockets do not have: decisions before the handshake, no-copy I/O, links of the application, ends.
use bytes::Bytes;
use lowwater::core::base::Rng;
use lowwater::core::device::{Device, DeviceCaps, Submit};
use lowwater::core::packet::{Owner, Packet};
use lowwater::core::tcp::SocketOptions;
use lowwater::link::{self, QueueLimit};
use lowwater::port::Port;
use lowwater::{
    ConnectOptions, Direction, Driver, Incoming, ListenOptions, Stack, TcpListener, TcpStream, UdpSocket,
    blocking,
};
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn two() -> (Stack, Stack) {
    let (a, b) = link::pair(1500);
    let stack = |port, address| Stack::builder().device(port).address(address).build().unwrap();
    (stack(a, "10.0.0.1/24"), stack(b, "10.0.0.2/24"))
}

/// Four million bytes, all of which arrive.
async fn crosses(client: TcpStream, server: &mut TcpStream) {
    let data = Bytes::from(vec![1; 4_000_000]);
    let sent = data.clone();
    let sender = tokio::spawn(async move { client.write_bytes(sent).await.unwrap() });
    let mut got = Vec::new();
    soon(server.read_to_end(&mut got)).await.unwrap();
    sender.await.unwrap();
    assert!(got == data);
}

async fn connection(server: &Stack, client: &Stack) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(server, "10.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (client, server) = tokio::join!(TcpStream::connect(client, addr), listener.accept());
    (client.unwrap(), server.unwrap().0)
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("this takes too long")
}

const fn send_and_sync<T: Send + Sync>() {}
const fn send<T: Send>(_: &T) {}

#[test]
fn handles_go_to_any_thread() {
    send_and_sync::<Stack>();
    send_and_sync::<TcpListener>();
    send_and_sync::<TcpStream>();
    send_and_sync::<UdpSocket>();
    send_and_sync::<Incoming>();
    send_and_sync::<blocking::TcpListener>();
    send_and_sync::<blocking::TcpStream>();
    send_and_sync::<blocking::UdpSocket>();
    send_and_sync::<link::Link>();
    send_and_sync::<lowwater::tcp::OwnedReadHalf>();
    send_and_sync::<lowwater::tcp::OwnedWriteHalf>();
    let (a, _b) = two();
    send(&TcpStream::connect(&a, "10.0.0.2:1"));
    send(&a.shutdown(Duration::ZERO));
}

#[tokio::test]
async fn no_copy_on_either_side() {
    let (a, b) = two();
    let (client, server) = soon(connection(&a, &b)).await;
    let data = Bytes::from((0..3_000_000u32).map(|i| (i >> 7) as u8).collect::<Vec<_>>());
    let sent = data.clone();
    let sender = tokio::spawn(async move {
        client.write_bytes(sent).await.unwrap();
        client
    });
    let mut got = 0;
    let inside = data.as_ptr_range();
    let mut shared = 0;
    while got < data.len() {
        let chunk = soon(server.read_chunk()).await.unwrap().unwrap();
        assert_eq!(chunk, data.slice(got..got + chunk.len()));
        shared += usize::from(inside.contains(&chunk.as_ptr()));
        got += chunk.len();
    }
    assert!(shared > 0, "over a link in memory the reader gets the writer's own bytes");
    drop(sender.await.unwrap());
    assert!(soon(server.read_chunk()).await.unwrap().is_none());
}

#[tokio::test]
async fn what_a_route_asks_for_counts_for_peers_behind_it() {
    let (a, b) = link::pair(1500);
    let server = Stack::builder().device(a).address("10.0.0.1/24").address("10.9.0.1/24").build().unwrap();
    let client = Stack::builder().device(b).address("10.0.0.2/24");
    let words = |client: lowwater::Builder| client.route_metrics("initcwnd 20").route_metrics("advmss 900");
    let client = words(client.route("10.9.0.0/24", None)).build().unwrap();
    let listener = TcpListener::bind(&server, "0.0.0.0:80").await.unwrap();
    let seen = async |to: &str| {
        let info = soon(TcpStream::connect(&client, to)).await.unwrap().info().unwrap();
        (info.snd_cwnd, info.advmss)
    };
    assert_eq!(seen("10.9.0.1:80").await, (20, 888), "a second call adds to the first");
    assert_eq!(seen("10.0.0.1:80").await, (10, 1_448), "the subnet's own route asks for nothing");
    let net = "10.9.0.0".parse().unwrap();
    client.replace_route(net, 24, None, 0, "initcwnd 30").unwrap();
    assert_eq!(seen("10.9.0.1:80").await, (30, 1_448));
    let told = client.replace_route(net, 24, None, 0, "initcwnd").unwrap_err();
    assert!(told.kind() == ErrorKind::InvalidInput && told.to_string().contains("wants a value"), "{told}");
    assert_eq!(client.replace_route(net, 33, None, 0, "").unwrap_err().kind(), ErrorKind::InvalidInput);
    client.add_route(net, 24, None, 0).unwrap();
    assert_eq!(seen("10.9.0.1:80").await, (10, 1_448), "replaced with its words");
    drop(listener);
}

#[tokio::test]
async fn a_listener_asks_before_the_handshake() {
    let (a, b) = two();
    b.add_route("0.0.0.0".parse().unwrap(), 0, None, 0).unwrap();
    let listener = TcpListener::bind_any(&a).unwrap();
    let server = tokio::spawn(async move {
        loop {
            let request = listener.incoming_request().await.unwrap();
            assert_eq!(request.peer().ip().to_string(), "10.0.0.2");
            match request.local().port() {
                80 => {
                    let to = request.local();
                    let mut stream = request.accept().await.unwrap();
                    assert_eq!(stream.local_addr().unwrap(), to);
                    stream.write_all(to.to_string().as_bytes()).await.unwrap();
                }
                81 => request.refuse(),
                82 => request.drop_silently(),
                83 => drop(request),
                _ => return,
            }
        }
    });
    for to in ["10.0.0.1:80", "198.51.100.7:80"] {
        let mut answer = String::new();
        let mut stream = soon(TcpStream::connect(&b, to)).await.unwrap();
        soon(stream.read_to_string(&mut answer)).await.unwrap();
        assert_eq!(answer, to);
    }
    for to in ["203.0.113.5:81", "203.0.113.5:83"] {
        let e = soon(TcpStream::connect(&b, to)).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::ConnectionRefused);
    }
    let silent = TcpStream::connect(&b, "203.0.113.5:82");
    assert!(tokio::time::timeout(Duration::from_millis(100), silent).await.is_err());
    let last = TcpStream::connect(&b, "203.0.113.5:84");
    assert_eq!(soon(last).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    soon(server).await.unwrap();
}

/// The devices go on taking packets to any address: such a connection would fall silent otherwise.
#[tokio::test]
async fn connections_of_an_any_address_listener_outlive_it() {
    let (a, b) = two();
    b.add_route("0.0.0.0".parse().unwrap(), 0, None, 0).unwrap();
    let foreign = "198.51.100.7:80".parse::<std::net::SocketAddr>().unwrap();
    assert_eq!(TcpListener::bind(&a, foreign).await.unwrap_err().kind(), ErrorKind::AddrNotAvailable);
    let listener = TcpListener::bind_any(&a).unwrap();
    let accept = async { listener.incoming_request().await.unwrap().accept().await.unwrap() };
    let (client, mut server) = soon(async { tokio::join!(TcpStream::connect(&b, foreign), accept) }).await;
    let mut client = client.unwrap();
    drop(listener);
    client.write_all(b"still").await.unwrap();
    let mut got = [0; 5];
    soon(server.read_exact(&mut got)).await.unwrap();
    server.write_all(b"there").await.unwrap();
    soon(client.read_exact(&mut got)).await.unwrap();
    assert_eq!(&got, b"there");
    let e = soon(TcpStream::connect(&b, "198.51.100.8:80")).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ConnectionRefused, "nobody listens, and nobody waits");
    TcpListener::bind(&a, foreign).await.unwrap();
}

#[test]
fn an_any_address_listener_that_is_none_changes_nothing() {
    let (a, _b) = two();
    let listen = || TcpListener::listen(&a, &ListenOptions { ask: true, ..ListenOptions::default() });
    let _first = listen().unwrap();
    assert_eq!(TcpListener::bind_any(&a).unwrap_err().kind(), ErrorKind::AddrInUse);
    let foreign = blocking::TcpListener::bind(&a, "192.0.2.1:80").unwrap_err();
    assert_eq!(foreign.kind(), ErrorKind::AddrNotAvailable);
}

#[test]
fn blocking_programs_are_asked_too() {
    let (a, b) = two();
    let options = ListenOptions {
        ask: true,
        ..ListenOptions::from("10.0.0.1:80".parse::<std::net::SocketAddr>().unwrap())
    };
    let listener = blocking::TcpListener::listen(&a, &options).unwrap();
    let server = thread::spawn(move || {
        let mut stream = listener.incoming_request().unwrap().accept_blocking().unwrap();
        stream.write_all(b"asked").unwrap();
    });
    let mut answer = String::new();
    blocking::TcpStream::connect(&b, "10.0.0.1:80").unwrap().read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "asked");
    server.join().unwrap();
}

#[tokio::test]
async fn the_second_connection_to_a_server_opens_fast() {
    let (a, b) = link::pair(1500);
    let server =
        Stack::builder().device(a).address("10.0.0.1/24").sysctl("tcp_fastopen", "0x402").build().unwrap();
    let client = Stack::builder().device(b).address("10.0.0.2/24").build().unwrap();
    let listener = TcpListener::bind(&server, "10.0.0.1:80").await.unwrap();
    let mut fast = SocketOptions::new(&client.sysctl());
    fast.fastopen_connect = true;
    let options = ConnectOptions { options: Some(fast), ..ConnectOptions::default() };
    for n in 0..2 {
        let mut stream = soon(TcpStream::connect_with(&client, "10.0.0.1:80", &options)).await.unwrap();
        stream.write_all(b"question").await.unwrap();
        let mut accepted = soon(listener.accept()).await.unwrap().0;
        let mut question = [0; 8];
        soon(accepted.read_exact(&mut question)).await.unwrap();
        accepted.write_all(b"answer").await.unwrap();
        drop(accepted);
        let mut answer = String::new();
        soon(stream.read_to_string(&mut answer)).await.unwrap();
        assert_eq!((&question, answer.as_str()), (b"question", "answer"));
        assert_eq!(server.counters().tcp_ext.tcp_fast_open_passive, n, "the first one brings the cookie");
    }
}

#[tokio::test]
async fn shutdown_drains() {
    let (a, b) = two();
    let (mut client, mut server) = soon(connection(&a, &b)).await;
    let data = vec![7; 1_000_000];
    let reader = tokio::spawn(async move {
        let mut got = Vec::new();
        server.read_to_end(&mut got).await.unwrap();
        got
    });
    client.write_all(&data).await.unwrap();
    drop(client);
    let drained = soon(b.shutdown(Duration::from_secs(10))).await;
    assert_eq!(drained.aborted, 0);
    assert!(soon(reader).await.unwrap() == data);
    let e = soon(TcpStream::connect(&b, "10.0.0.1:80")).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotConnected);
}

/// A listener that the program still holds is no connection less that closes in the background.
#[tokio::test]
async fn shutdown_drains_beside_listeners_that_are_held() {
    let (a, b) = two();
    let listener = TcpListener::bind(&a, "10.0.0.1:80").await.unwrap();
    let other = lowwater::SctpListener::bind(&a, "10.0.0.1:80").await.unwrap();
    let mut client = soon(TcpStream::connect(&b, "10.0.0.1:80")).await.unwrap();
    let (mut server, _) = soon(listener.accept()).await.unwrap();
    let reader = tokio::spawn(async move {
        let mut got = Vec::new();
        client.read_to_end(&mut got).await.unwrap();
        got
    });
    server.write_all(&[7; 100_000]).await.unwrap();
    drop(server);
    assert_eq!(soon(a.shutdown(Duration::from_secs(10))).await.aborted, 0);
    assert_eq!(soon(reader).await.unwrap().len(), 100_000);
    drop((listener, other));
}

#[tokio::test]
async fn shutdown_resets_what_is_left_and_wakes_who_waits() {
    let (a, b) = two();
    let (mut client, mut server) = soon(connection(&a, &b)).await;
    let waits = tokio::spawn(async move { client.read(&mut [0; 1]).await });
    tokio::task::yield_now().await;
    let start = Instant::now();
    assert_eq!(b.shutdown_blocking(Duration::from_millis(100)).aborted, 1);
    assert!(start.elapsed() < Duration::from_secs(5));
    soon(waits).await.unwrap().unwrap_err();
    let e = soon(server.read(&mut [0; 1])).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ConnectionReset);
}

/// Both directions were over before: nothing is reset that somebody misses.
#[tokio::test]
async fn shutdown_counts_no_connection_that_was_over() {
    let (a, b) = two();
    let (mut client, mut server) = soon(connection(&a, &b)).await;
    client.shutdown().await.unwrap();
    assert_eq!(soon(server.read(&mut [0; 1])).await.unwrap(), 0);
    server.shutdown().await.unwrap();
    assert_eq!(soon(client.read(&mut [0; 1])).await.unwrap(), 0);
    // The client's program still holds its socket, in TIME-WAIT on its stack.
    assert_eq!(soon(b.shutdown(Duration::from_millis(100))).await.aborted, 0);
    drop((client, server));
}

#[tokio::test]
async fn a_listener_says_which_call_gives_its_connections() {
    let (a, _b) = two();
    let asks = TcpListener::bind_any(&a).unwrap();
    let told = soon(asks.accept()).await.unwrap_err();
    assert!(
        told.kind() == ErrorKind::InvalidInput && told.to_string().contains("incoming_request()"),
        "{told}"
    );
    let plain = TcpListener::bind(&a, "10.0.0.1:80").await.unwrap();
    let told = soon(plain.incoming_request()).await.unwrap_err();
    assert!(told.kind() == ErrorKind::InvalidInput && told.to_string().contains("accept()"), "{told}");
    let asks = lowwater::blocking::TcpListener::from(asks);
    assert_eq!(asks.accept().unwrap_err().kind(), ErrorKind::InvalidInput);
}

/// The device that was there is told of; what has come by it is read before.
#[tokio::test]
async fn a_link_whose_other_end_is_gone_is_a_failure() {
    let failure = async |stack: &Stack| {
        let told = async {
            loop {
                if let Some(why) = stack.failure() {
                    return why;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon(told).await
    };
    let (port, link) = link::owned(1500, link::QueueLimit::default());
    let stack = Stack::builder().device(port).address("10.0.0.1/24").build().unwrap();
    let (clone, connecting) = (link.clone(), stack.clone());
    let syn = tokio::spawn(async move { TcpStream::connect(&connecting, "10.0.0.2:80").await });
    drop(link);
    let packet = soon(clone.recv()).await.unwrap();
    drop(clone);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(stack.failure(), None, "a packet is still on its way");
    drop(packet);
    assert!(failure(&stack).await.contains("the application has dropped its end"));
    syn.abort();

    let (a, b) = two();
    let (mut client, mut server) = soon(connection(&a, &b)).await;
    server.write_all(b"the last words").await.unwrap();
    drop(server);
    soon(a.shutdown(Duration::from_secs(10))).await;
    assert!(failure(&b).await.contains("the stack at the other end"));
    let mut got = [0; 14];
    soon(client.read_exact(&mut got)).await.unwrap();
    assert_eq!(&got, b"the last words");
}

/// What nothing could ever be sent by is refused before anybody waits for it.
#[tokio::test]
async fn options_that_no_connection_could_work_with_are_told() {
    let (a, b) = two();
    let refused = |end: std::io::Result<()>, why: &str| {
        let e = end.unwrap_err();
        assert!(e.kind() == ErrorKind::InvalidInput && e.to_string().contains(why), "{e}");
    };
    let tcp = |change: fn(&mut SocketOptions)| {
        let mut options = SocketOptions::new(&a.sysctl());
        change(&mut options);
        Some(options)
    };
    let nothing = tcp(|o| o.sndbuf = Some(0));
    let connect = ConnectOptions { options: nothing.clone(), ..ConnectOptions::default() };
    let to = "10.0.0.2:7";
    refused(soon(TcpStream::connect_with(&a, to, &connect)).await.map(drop), "sndbuf is 0");
    let listen = ListenOptions { options: tcp(|o| o.mtu_discover = 99), ..ListenOptions::default() };
    refused(TcpListener::listen(&b, &listen).map(drop), "mtu_discover is 99: there are 0 to 5");
    let (stream, _server) = soon(connection(&a, &b)).await;
    refused(stream.set_options(|o| o.sndbuf = Some(0)), "sndbuf is 0");
    refused(stream.set_options(|o| o.keepcnt = 200), "keepcnt is 200: there are 1 to 127");
    refused(stream.set_linger(Some(Duration::MAX)), "linger is");
    assert_ne!(stream.options().unwrap().sndbuf, Some(0), "it is as it was");
    let mut options = a.sctp_options();
    options.rto.min_ms = options.rto.max_ms + 1;
    let connect = lowwater::sctp::ConnectOptions {
        options: Some(options),
        ..lowwater::sctp::ConnectOptions::default()
    };
    refused(lowwater::SctpAssociation::open(&a, "10.0.0.2:9", &connect).map(drop), "above the longest");
    let listener = lowwater::SctpListener::bind(&b, "10.0.0.2:9").await.unwrap();
    refused(listener.set_options(|o| o.sndbuf = 0), "sndbuf is 0");
    let there = soon(lowwater::SctpAssociation::connect(&a, "10.0.0.2:9")).await.unwrap();
    refused(there.set_options(|o| o.sndbuf = 0), "sndbuf is 0");
    refused(there.set_path("10.0.0.2".parse().unwrap(), |path| path.pmtu = 100), "pmtu is 100");
}

/// SO_RCVLOWAT of a connection that there is: its reader is woken by so many bytes, and by no fewer.
#[tokio::test]
async fn a_low_water_mark_of_a_reader_acts_at_once() {
    let (a, b) = two();
    let (mut client, server) = soon(connection(&a, &b)).await;
    server.set_options(|o| o.rcvlowat = 1_000).unwrap();
    client.write_all(&[1; 500]).await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(200), server.readable()).await;
    assert!(early.is_err(), "half of it is not enough");
    client.write_all(&[1; 500]).await.unwrap();
    soon(server.readable()).await.unwrap();
    server.set_options(|o| o.rcvlowat = u32::MAX).unwrap();
    let most = a.sysctl().tcp_rmem.max / 2;
    assert_eq!(server.options().unwrap().rcvlowat, most, "half of the buffer at most");
}

/// As on Linux's sockets of both families: ::ffff:a.b.c.d is a.b.c.d, wherever an address is given.
#[tokio::test]
async fn an_address_of_ipv4_in_the_form_of_ipv6_means_ipv4() {
    let (a, b) = two();
    let listener = TcpListener::bind(&a, "[::ffff:10.0.0.1]:80").await.unwrap();
    assert_eq!(listener.local_addr().unwrap().to_string(), "10.0.0.1:80");
    let local = "[::ffff:10.0.0.2]:0".parse().unwrap();
    let from = ConnectOptions { local: Some(local), ..ConnectOptions::default() };
    let connecting = TcpStream::connect_with(&b, "[::ffff:10.0.0.1]:80", &from);
    let (client, server) = soon(async { tokio::join!(connecting, listener.accept()) }).await;
    let (client, (_, peer)) = (client.unwrap(), server.unwrap());
    assert_eq!(client.peer_addr().unwrap().to_string(), "10.0.0.1:80");
    assert_eq!(peer, client.local_addr().unwrap());

    for any in ["0.0.0.0:81", "[::]:81", "[::ffff:0.0.0.0]:81"] {
        let listen = ListenOptions::from(any.parse::<std::net::SocketAddr>().unwrap());
        assert_eq!((listen.ip, listen.port), (None, Some(81)), "{any} is any address of both families");
    }
    let mapped = Some("::ffff:10.0.0.1".parse().unwrap());
    b.add_route("10.8.0.0".parse().unwrap(), 16, mapped, 0).unwrap();
    b.replace_route("10.8.0.0".parse().unwrap(), 16, mapped, 0, "mtu 1400").unwrap();
    let routed = Stack::builder().device(link::pair(1500).0).address("10.0.0.2/24");
    routed.route("default", mapped).build().unwrap();

    let server = UdpSocket::bind(&a, "[::ffff:0.0.0.0]:7").await.unwrap();
    assert_eq!(server.local_addr().unwrap().to_string(), "0.0.0.0:7");
    let client = UdpSocket::bind(&b, "[::]:0").await.unwrap();
    let to = "[::ffff:10.0.0.1]:7".parse::<std::net::SocketAddr>().unwrap();
    client.send_to(b"one", to).await.unwrap();
    client.try_send_to(b"two", to).unwrap();
    client.connect(to).await.unwrap();
    client.send(b"six").await.unwrap();
    for text in ["one", "two", "six"] {
        let (data, from) = soon(server.recv_bytes_from()).await.unwrap();
        assert_eq!((&data[..], from.ip().to_string().as_str()), (text.as_bytes(), "10.0.0.2"));
    }

    use lowwater::sctp::{self, SendInfo};
    let listener = lowwater::SctpListener::bind(&a, to).await.unwrap();
    let from = sctp::ConnectOptions { local: vec![local], ..sctp::ConnectOptions::default() };
    let connecting = lowwater::SctpAssociation::connect_with(&b, to, &from);
    let (here, there) = soon(async { tokio::join!(connecting, listener.accept()) }).await;
    let (here, (there, _)) = (here.unwrap(), there.unwrap());
    here.set_primary(to.ip()).unwrap();
    here.set_path(to.ip(), |path| path.max_retrans = 3).unwrap();
    here.send(b"x", SendInfo { to: Some(to.ip()), ..SendInfo::default() }).await.unwrap();
    assert!(soon(there.recv()).await.unwrap().is_some());
    let many = lowwater::SctpSocket::bind(&b, "[::ffff:10.0.0.2]:9").await.unwrap();
    let id = soon(many.send_to(b"x", to, SendInfo::default())).await.unwrap();
    assert_eq!(many.assoc_with(to).unwrap(), id);
}

/// As std's, in words; one that is longer than anybody lives is none.
#[test]
fn a_timeout_of_zero_is_told_and_an_endless_one_is_none() {
    let (a, _b) = two();
    let told = |end: std::io::Result<()>| {
        let e = end.unwrap_err();
        assert!(e.kind() == ErrorKind::InvalidInput && e.to_string().contains("a timeout of zero"), "{e}");
    };
    let socket = blocking::UdpSocket::bind(&a, "10.0.0.1:0").unwrap();
    told(socket.set_read_timeout(Some(Duration::ZERO)));
    told(blocking::TcpStream::connect_timeout(&a, &"10.0.0.2:9".parse().unwrap(), Duration::ZERO).map(drop));
    socket.set_write_timeout(Some(Duration::MAX)).unwrap();
    socket.send_to(b"x", "10.0.0.2:9").unwrap();
    drop(socket);
    assert_eq!(a.shutdown_blocking(Duration::MAX).aborted, 0);
}

/// One hop, unless the program says otherwise, of each family by itself; what goes to one host has its own.
#[tokio::test]
async fn datagrams_to_groups_go_as_far_as_the_program_says() {
    let (port, link) = link::owned(1500, QueueLimit::default());
    let stack = Stack::builder().device(port).address("10.0.0.1/24").address("fd00::1/64");
    let stack = stack.route("224.0.0.0/4", None).route("ff00::/8", None).build().unwrap();
    let socket = UdpSocket::bind(&stack, "[::]:0").await.unwrap();
    let hops = async |to: &str| {
        socket.send_to(b"x", to).await.unwrap();
        let packet = soon(link.recv()).await.unwrap().bytes();
        packet[if packet[0] >> 4 == 4 { 8 } else { 7 }]
    };
    let both = async || [hops("[::ffff:239.1.2.3]:9").await, hops("[ff0e::1]:9").await];
    assert_eq!(both().await, [1, 1]);
    socket.set_multicast_ttl_v4(7).unwrap();
    assert_eq!(both().await, [7, 1]);
    socket.set_multicast_hops_v6(255).unwrap();
    assert_eq!(both().await, [7, 255]);
    assert_eq!((socket.multicast_ttl_v4().unwrap(), socket.multicast_hops_v6().unwrap()), (7, 255));
    assert_eq!([hops("[::ffff:10.0.0.2]:9").await, hops("[fd00::2]:9").await], [64, 64]);
    let e = socket.set_multicast_hops_v6(256).unwrap_err();
    assert!(e.kind() == ErrorKind::InvalidInput && e.to_string().contains("256 hops"), "{e}");
    assert_eq!(socket.multicast_hops_v6().unwrap(), 255);
    let socket = blocking::UdpSocket::bind(&stack, "[::]:0").unwrap();
    socket.set_multicast_hops_v6(3).unwrap();
    socket.send_to(b"x", "[ff0e::1]:9").unwrap();
    assert_eq!((soon(link.recv()).await.unwrap().bytes()[7], socket.multicast_hops_v6().unwrap()), (3, 3));
}

#[test]
fn a_link_too_narrow_for_ip_is_refused() {
    for mtu in [0, 67] {
        let (a, _b) = link::pair(mtu);
        let e = Stack::builder().device(a).address("10.0.0.1/24").build().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidInput);
        assert!(e.to_string().contains(&format!("an MTU of {mtu}; IPv4 needs 68")), "{e}");
    }
    let (a, _b) = link::pair(68);
    Stack::builder().device(a).address("10.0.0.1/24").build().unwrap();
}

#[test]
fn a_driver_runs_on_a_thread_of_the_program_and_ends_with_the_last_handle() {
    let (a, b) = link::pair(1500);
    let (stack, driver) = Stack::builder().device(a).address("10.0.0.1/24").build_driver().unwrap();
    let other = Stack::builder().device(b).address("10.0.0.2/24").build().unwrap();
    let thread = thread::spawn(move || Driver::run(driver));
    let listener = blocking::TcpListener::bind(&stack, "10.0.0.1:80").unwrap();
    let client = blocking::TcpStream::connect(&other, "10.0.0.1:80").unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.write_all(b"last words").unwrap();
    drop((listener, server, stack));
    let mut got = String::new();
    (&client).read_to_string(&mut got).unwrap();
    assert_eq!(got, "last words");
    drop(client);
    thread.join().unwrap();
}

#[test]
fn the_futures_run_without_a_runtime() {
    let (a, b) = two();
    let socket = UdpSocket::bind_blocking(&a);
    let client = blocking::UdpSocket::bind(&b, "10.0.0.2:0").unwrap();
    client.send_to(b"x", socket.local_addr().unwrap()).unwrap();
    let got = block_on(socket.recv_bytes_from()).unwrap();
    assert_eq!(&got.0[..], b"x");
}

trait BindBlocking {
    fn bind_blocking(stack: &Stack) -> UdpSocket;
}

impl BindBlocking for UdpSocket {
    fn bind_blocking(stack: &Stack) -> UdpSocket {
        block_on(Self::bind(stack, "10.0.0.1:0")).unwrap()
    }
}

/// The smallest executor there is.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(out) = future.as_mut().poll(&mut std::task::Context::from_waker(&waker))
        {
            return out;
        }
        thread::park();
    }
}

#[test]
fn the_application_carries_the_packets() {
    let limit = QueueLimit { packets: 32, bytes: 64 << 10 };
    let (port_a, link_a) = link::owned(1400, limit);
    let (port_b, link_b) = link::owned(1400, limit);
    let a = Stack::builder().device(port_a).address("10.0.0.1/24").build().unwrap();
    let b = Stack::builder().device(port_b).address("10.0.0.2/24").build().unwrap();
    let largest = Arc::new(AtomicUsize::new(0));
    for (from, to) in [(link_a.clone(), link_b.clone()), (link_b, link_a)] {
        let largest = largest.clone();
        thread::spawn(move || {
            while let Some(packet) = from.recv_blocking() {
                largest.fetch_max(packet.len(), Ordering::Relaxed);
                if to.send_blocking(&packet.bytes()).is_err() {
                    return;
                }
            }
        });
    }
    let listener = blocking::TcpListener::bind(&a, "10.0.0.1:80").unwrap();
    let mut client = blocking::TcpStream::connect(&b, "10.0.0.1:80").unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let data = vec![42; 5_000_000];
    let sent = data.clone();
    let sender = thread::spawn(move || client.write_all(&sent).unwrap());
    let mut got = Vec::new();
    server.read_to_end(&mut got).unwrap();
    sender.join().unwrap();
    assert!(got == data);
    assert_eq!(largest.load(Ordering::Relaxed), 1400, "packets are finished and fill the MTU");
}

#[tokio::test]
async fn a_link_that_says_not_now_loses_nothing() {
    for caps in [DeviceCaps::offloading(1500), DeviceCaps::plain(1500)] {
        let (a, b) = link::pair_with(caps, QueueLimit { packets: 4, bytes: 100_000 });
        let not_now = |port, seed| lowwater::port::NotNow::new(port, Rng::new(seed), 500_000);
        let a = Stack::builder().device(not_now(a, 1)).address("10.0.0.1/24").build().unwrap();
        // Without timers, which tell a machine that stands still from a loss as little as anybody: what acknowledgements say
        // must be enough. (What timers do about packets that have not left: `cargo test -p lowwater-core --test tcp below`.)
        let b = Stack::builder().device(not_now(b, 2)).address("10.0.0.2/24");
        let b = b.sysctl("tcp_early_retrans", "0").sysctl("tcp_rto_min_us", "60000000").build().unwrap();
        let (client, mut server) = soon(connection(&a, &b)).await;
        crosses(client, &mut server).await;
        let counters = b.counters();
        assert_eq!(counters.tcp.retrans_segs, 0, "not now is no loss: {counters:?}");
    }
}

/// A device that drops some of the packets that it is given.
struct Drops<P> {
    port: P,
    given: usize,
    dropped: Arc<AtomicUsize>,
}

impl<P: Port> Device for Drops<P> {
    fn submit(&mut self, now: lowwater::core::base::Instant, packet: Packet) -> Submit {
        self.given += 1;
        if packet.owner.is_some() && [30, 31, 60].contains(&self.given) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return Submit::Dropped;
        }
        self.port.submit(now, packet)
    }
}

impl<P: Port> Port for Drops<P> {
    fn caps(&self) -> DeviceCaps {
        self.port.caps()
    }
    fn recv(
        &mut self,
        at: lowwater::core::base::Instant,
        max: usize,
        into: &mut Vec<Packet>,
    ) -> std::io::Result<bool> {
        self.port.recv(at, max, into)
    }
    fn completions(&mut self, into: &mut Vec<Owner>) {
        self.port.completions(into);
    }
    fn room(&self) -> QueueLimit {
        self.port.room()
    }
    fn flush(&mut self) {
        self.port.flush();
    }
    fn needs_flush(&self) -> bool {
        self.port.needs_flush()
    }
    fn attach(&mut self, poller: &lowwater_os::Poller, token: u64) -> std::io::Result<()> {
        self.port.attach(poller, token)
    }
    fn retry_after(&self) -> Option<Duration> {
        self.port.retry_after()
    }
}

#[tokio::test]
async fn what_a_device_drops_is_counted_and_its_flow_hears_of_it() {
    let (a, b) = link::pair(1500);
    let dropped = Arc::new(AtomicUsize::new(0));
    let port = Drops { port: b, given: 0, dropped: dropped.clone() };
    let a = Stack::builder().device(a).address("10.0.0.1/24").build().unwrap();
    let b = Stack::builder().device(port).address("10.0.0.2/24").build().unwrap();
    let (client, mut server) = soon(connection(&a, &b)).await;
    crosses(client, &mut server).await;
    let (counters, dropped) = (b.counters(), dropped.load(Ordering::Relaxed) as u64);
    assert!(dropped > 0 && counters.tcp.retrans_segs > 0);
    assert_eq!(counters.own.packets_dropped_below, dropped, "none of them counts as having left");
}

#[tokio::test]
async fn what_is_asked_of_a_silent_stack_counts_to_now() {
    let (server, client) = two();
    let (mut client_end, server_end) = connection(&server, &client).await;
    let full = async {
        loop {
            if client_end.write(&[1; 65_536]).await.is_err() {
                break;
            }
        }
    };
    // Nobody reads: in the end nothing happens any more but probes of the window.
    tokio::time::timeout(Duration::from_millis(100), full).await.expect_err("it waits");
    let asked = |stack: &Stack| {
        let sockets = stack.sockets().sockets;
        let line = sockets.into_iter().find(|line| line.info.is_some()).expect("a connection");
        let wait = line.wait.expect("of a connection");
        (line.info.expect("of a connection"), wait.why.is_some())
    };
    let (before, waits) = asked(&client);
    assert!(waits);
    tokio::time::sleep(Duration::from_millis(60)).await;
    let (after, _) = asked(&client);
    assert!(after.rwnd_limited >= before.rwnd_limited + 60_000, "{before:?} {after:?}");
    let own = client_end.info().unwrap();
    assert!(own.rwnd_limited >= after.rwnd_limited, "{own:?} {after:?}");
    drop(server_end);
}

#[tokio::test]
async fn observers_see_both_directions_and_reports_name_sockets() {
    let (a, b) = link::pair(1500);
    let seen = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let count = seen.clone();
    let observer = Box::new(move |device: usize, way: Direction, _: &_| {
        assert_eq!(device, 0);
        count[usize::from(way == Direction::Out)].fetch_add(1, Ordering::Relaxed);
    });
    let a = Stack::builder().device(a).address("10.0.0.1/24").observe(observer).build().unwrap();
    let b = Stack::builder().device(b).address("10.0.0.2/24").build().unwrap();
    let (mut client, mut server) = soon(connection(&a, &b)).await;
    client.write_all(b"x").await.unwrap();
    server.read_u8().await.unwrap();
    // SYN, ACK, data in; SYN-ACK out.
    assert!(seen[0].load(Ordering::Relaxed) >= 3 && seen[1].load(Ordering::Relaxed) >= 1);
    let report = a.sockets();
    assert!(report.sockets.iter().any(|s| s.remote == client.local_addr().ok() && s.owned), "{report:?}");
    assert_eq!(a.counters().tcp.passive_opens, 1);
    a.observe(None);
    let before = seen[0].load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(10)).await;
    client.write_all(b"y").await.unwrap();
    server.read_u8().await.unwrap();
    assert_eq!(seen[0].load(Ordering::Relaxed), before);
}

#[tokio::test]
async fn a_stack_talks_to_itself() {
    let stack = Stack::builder().build().unwrap();
    let listener = TcpListener::bind(&stack, "127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (client, server) =
        soon(async { tokio::join!(TcpStream::connect(&stack, addr), listener.accept()) }).await;
    let (mut client, (mut server, _)) = (client.unwrap(), server.unwrap());
    client.write_all(b"me").await.unwrap();
    let mut buf = [0; 2];
    soon(server.read_exact(&mut buf)).await.unwrap();
    assert_eq!(&buf, b"me");
}

#[tokio::test]
async fn options_from_the_first_segment_on() {
    let (a, b) = two();
    let listener = TcpListener::bind(&a, "10.0.0.1:80").await.unwrap();
    let mut socket_options = listener_defaults(&b);
    socket_options.nodelay = true;
    let options =
        ConnectOptions { local: Some("10.0.0.2:4000".parse().unwrap()), options: Some(socket_options) };
    let client = soon(TcpStream::connect_with(&b, "10.0.0.1:80", &options)).await.unwrap();
    assert_eq!(client.local_addr().unwrap().port(), 4000);
    assert!(client.nodelay().unwrap());
    assert_eq!(soon(listener.accept()).await.unwrap().1.port(), 4000);
    let info = client.info().unwrap();
    assert!(format!("{info:?}").contains("rtt"));
    client.abort();
}

fn listener_defaults(stack: &Stack) -> lowwater::SocketOptions {
    lowwater::SocketOptions::new(&stack.sysctl())
}

#[test]
fn mistakes_of_the_builder_are_told_in_words() {
    let told = |builder: lowwater::Builder| builder.build().unwrap_err().to_string();
    assert!(told(Stack::builder().address("10.0.0.1/24")).contains("device"));
    let port = || link::pair(1500).0;
    assert!(told(Stack::builder().device(port()).address("10.0.0.1/33")).contains("10.0.0.1/33"));
    assert!(told(Stack::builder().sysctl("tcp_no_such", "1")).contains("tcp_no_such"));
    assert!(told(Stack::builder().sysctl("tcp_sakc", "1")).contains("near it: tcp_sack"));
    let device = || Stack::builder().device(port());
    assert!(told(device().address("10.0.0.2/24").host_address("10.0.0.1/24")).contains("TUN"));
    assert!(told(device()).contains("no address"));
    assert!(told(device().address("10.0.0.0/24")).contains("the network itself"));
    let tun = |host| Stack::builder().tun("").address("10.0.0.2/24").host_address(host);
    assert!(told(tun("10.0.0.2/24")).contains("own address"));
    assert!(told(tun("10.0.1.1/24")).contains("in no subnet"));
    assert!(told(tun("10.0.0.255/24")).contains("broadcast"));
    let addressed = || device().address("10.0.0.1/24");
    assert!(
        told(addressed().route_metrics("initcwnd 20"))
            .contains("the route() before it, and this device has none")
    );
    assert!(
        told(addressed().route("0.0.0.0/0", None).route_metrics("initcwn 20"))
            .contains("there are mtu, initcwnd")
    );
    assert!(addressed().route("default", Some("10.0.0.2".parse().unwrap())).build().is_ok());
    let far = Some("10.9.9.9".parse().unwrap());
    assert!(told(addressed().route("default", far)).contains("10.9.9.9"));
    assert!(addressed().route("10.9.9.0/24", None).route("default", far).build().is_ok());
    let link_local = Some("fe80::1".parse().unwrap());
    assert!(device().address("fd00::1/64").route("default", link_local).build().is_ok());
    assert!(
        device().address("fd00::1/64").route("default", Some("fd00::2".parse().unwrap())).build().is_ok()
    );
    assert!(told(addressed().route("default", Some("10.0.0.1".parse().unwrap()))).contains("own address"));
    let stack = addressed().build().unwrap();
    let too_long = stack.add_route("10.1.0.0".parse().unwrap(), 40, None, 0).unwrap_err().to_string();
    assert!(too_long.contains("10.1.0.0/40") && too_long.contains("32"), "{too_long}");
    let stack = Stack::builder().build().unwrap();
    assert_eq!(stack.set_sysctl("tcp_sack", "256").unwrap_err().kind(), ErrorKind::InvalidInput);
}

/// A stack that runs refuses the gateways that its builder refuses, and no other: broadcast and multicast addresses, those of no subnet, and
/// addresses of its own, whichever device has them. The address of the network itself passes, as in Linux.
#[test]
fn a_gateway_that_nobody_would_reach_is_told_while_the_stack_runs() {
    // Where the other end is dropped the device is gone.
    let ends = std::cell::RefCell::new(Vec::new());
    let port = || {
        let (port, end) = link::pair(1500);
        ends.borrow_mut().push(end);
        port
    };
    let device = || Stack::builder().device(port());
    let add = |stack: &Stack, to: &str, via: &str| {
        let (to, via) = (to.parse().unwrap(), Some(via.parse().unwrap()));
        let added = stack.add_route(to, 0, via, 0).map_err(|e| (e.kind(), e.to_string()));
        let replaced = stack.replace_route(to, 0, via, 0, "mtu 1400").map_err(|e| (e.kind(), e.to_string()));
        assert_eq!(added, replaced, "one check for both");
        added
    };
    let planned = |to: &str, via: &str| {
        let to = if to == "::" { "::/0" } else { "0.0.0.0/0" };
        let device = device().address("10.0.0.1/24").address("fd00::1/64").route(to, via.parse().ok());
        device.device(port()).address("10.1.0.1/24").build()
    };
    let stack = || {
        let device = device().address("10.0.0.1/24").address("fd00::1/64");
        device.device(port()).address("10.1.0.1/24").build().unwrap()
    };
    let told = |to, via| {
        let (kind, why) = add(&stack(), to, via).unwrap_err();
        assert_eq!(kind, ErrorKind::InvalidInput, "{why}");
        assert_eq!(planned(to, via).unwrap_err().to_string(), why, "the builder has the same words");
        why
    };
    assert!(
        told("0.0.0.0", "10.9.9.9")
            .contains("the gateway 10.9.9.9 of the route to 0.0.0.0/0 is in no subnet")
    );
    assert!(told("::", "fd09::9").contains("in no subnet"));
    for (to, own) in [("0.0.0.0", "10.0.0.1"), ("0.0.0.0", "10.1.0.1"), ("0.0.0.0", "127.0.0.9")] {
        assert!(told(to, own).contains("own address"));
    }
    assert!(told("::", "fd00::1").contains("own address") && told("::", "::1").contains("own address"));
    for (via, what) in [
        ("10.0.0.255", "is a broadcast address"),
        ("255.255.255.255", "is a broadcast address"),
        ("224.0.0.1", "is a multicast address"),
        ("0.0.0.0", "is no address"),
    ] {
        assert!(told("0.0.0.0", via).contains(what), "{via}");
    }
    assert!(told("0.0.0.0", "fd00::2").contains("another family"));
    for (to, via) in [("0.0.0.0", "10.0.0.2"), ("0.0.0.0", "10.0.0.0"), ("::", "fd00::2"), ("::", "fe80::1")]
    {
        add(&stack(), to, via).unwrap();
        planned(to, via).unwrap();
    }
    let behind = stack();
    behind.add_route("10.9.9.0".parse().unwrap(), 24, None, 0).unwrap();
    add(&behind, "0.0.0.0", "10.9.9.9").unwrap();
    let any = device().any_address().build().unwrap();
    add(&any, "0.0.0.0", "10.9.9.9").unwrap();
    ends.borrow_mut().clear();
    let gone_by = std::time::Instant::now() + Duration::from_secs(60);
    while any.failure().is_none() {
        assert!(std::time::Instant::now() < gone_by, "nobody says that the device is gone");
        thread::sleep(Duration::from_millis(1));
    }
    let (kind, why) = add(&any, "0.0.0.0", "10.9.9.9").unwrap_err();
    assert!(kind == ErrorKind::InvalidInput && why.contains("device 0 is gone"), "{why}");
}

#[test]
fn threads_share_one_stack() {
    let (a, b) = two();
    let listener = blocking::TcpListener::bind(&a, "10.0.0.1:80").unwrap();
    let server = thread::spawn(move || {
        let workers: Vec<_> = listener
            .incoming()
            .take(16)
            .map(|stream| {
                thread::spawn(move || {
                    std::io::copy(&mut stream.as_ref().unwrap(), &mut stream.as_ref().unwrap())
                })
            })
            .collect();
        workers.into_iter().for_each(|w| drop(w.join().unwrap()));
    });
    let clients: Vec<_> = (0..16u8)
        .map(|n| {
            let b = b.clone();
            thread::spawn(move || {
                let mut stream = blocking::TcpStream::connect(&b, "10.0.0.1:80").unwrap();
                for _ in 0..200 {
                    let (data, mut back) = ([n; 500], [0; 500]);
                    stream.write_all(&data).unwrap();
                    stream.read_exact(&mut back).unwrap();
                    assert_eq!(data, back);
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|c| c.join().unwrap());
    server.join().unwrap();
}

#[test]
fn an_idle_stack_sleeps() {
    let (a, b) = two();
    let listener = blocking::TcpListener::bind(&a, "10.0.0.1:80").unwrap();
    let client = blocking::TcpStream::connect(&b, "10.0.0.1:80").unwrap();
    let (server, _) = listener.accept().unwrap();
    thread::sleep(Duration::from_millis(200));
    let events = || a.counters().own.events + b.counters().own.events;
    let before = events();
    thread::sleep(Duration::from_millis(300));
    // The calls that read the counters are not verbs; timers that pass by may be a few.
    let woken = events() - before;
    assert!(woken < 20, "{woken} calls of the core while nothing happened");
    drop((client, server));
}

/// Counts how often the driver looks for packets.
struct Looks<P>(P, Arc<AtomicUsize>);

impl<P: Port> Device for Looks<P> {
    fn submit(&mut self, now: lowwater::core::base::Instant, packet: Packet) -> Submit {
        self.0.submit(now, packet)
    }
}

impl<P: Port> Port for Looks<P> {
    fn caps(&self) -> DeviceCaps {
        self.0.caps()
    }
    fn recv(
        &mut self,
        at: lowwater::core::base::Instant,
        max: usize,
        into: &mut Vec<Packet>,
    ) -> std::io::Result<bool> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.recv(at, max, into)
    }
    fn completions(&mut self, into: &mut Vec<Owner>) {
        self.0.completions(into);
    }
    fn attach(&mut self, poller: &lowwater_os::Poller, token: u64) -> std::io::Result<()> {
        self.0.attach(poller, token)
    }
}

#[test]
fn busy_polling_looks_instead_of_sleeping_and_misses_neither_calls_nor_packets_nor_deadlines() {
    let (a, b) = link::pair(1500);
    let looks = [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))];
    let hour = Duration::from_secs(3_600);
    let server = Stack::builder()
        .device(Looks(a, looks[0].clone()))
        .address("10.0.0.1/24")
        .busy_poll(hour)
        .build()
        .unwrap();
    let client = Stack::builder()
        .device(Looks(b, looks[1].clone()))
        .address("10.0.0.2/24")
        .busy_poll(hour)
        .build()
        .unwrap();
    for looks in &looks {
        while looks.load(Ordering::Relaxed) < 10_000 {
            thread::sleep(Duration::from_millis(1));
        }
    }
    let listener = blocking::TcpListener::bind(&server, "10.0.0.1:80").unwrap();
    let mut there = blocking::TcpStream::connect(&client, "10.0.0.1:80").unwrap();
    let (mut here, _) = listener.accept().unwrap();
    for n in 0..100u8 {
        let mut byte = [0];
        there.write_all(&[n]).unwrap();
        here.read_exact(&mut byte).unwrap();
        here.write_all(&byte).unwrap();
        there.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [n]);
    }
    // Nobody answers, so only a timer of the server lets go of this.
    there.write_all(b"x").unwrap();
    while there.info().unwrap().unacked > 0 {
        thread::sleep(Duration::from_millis(1));
    }
    drop((there, here, listener));
    for stack in [client, server] {
        assert_eq!(stack.shutdown_blocking(Duration::from_secs(30)).aborted, 0);
    }
}

/// How often a stack without packets looks at its device in a tenth of a second.
fn looks_of_an_idle_stack(busy_poll: impl FnOnce(lowwater::Builder) -> lowwater::Builder) -> usize {
    let (a, _b) = link::pair(1500);
    let looks = Arc::new(AtomicUsize::new(0));
    let stack =
        busy_poll(Stack::builder()).device(Looks(a, looks.clone())).address("10.0.0.1/24").build().unwrap();
    thread::sleep(Duration::from_millis(100));
    drop(stack);
    looks.load(Ordering::Relaxed)
}

#[test]
fn without_busy_polling_a_stack_without_packets_looks_no_more_than_it_is_woken() {
    let looks = looks_of_an_idle_stack(|builder| builder.busy_poll(Duration::ZERO));
    assert!(looks < 20, "{looks}");
}

#[test]
fn an_idle_stack_gives_up_its_first_busy_poll_and_sleeps() {
    let looks = looks_of_an_idle_stack(|builder| builder);
    assert!(looks < 2_000, "{looks}");
}

/// The end of a stack is the end of its link: who is connected to it, or wants to be, hears so.
#[tokio::test]
async fn the_partner_of_a_link_that_has_ended_is_out_of_reach() {
    let (a, b) = two();
    let (mut reader, mut server) = soon(connection(&a, &b)).await;
    let (writer, _held) = soon(connection(&a, &b)).await;
    server.write_all(b"last words").await.unwrap();
    let listener = TcpListener::bind(&b, "10.0.0.2:80").await.unwrap();
    let udp = UdpSocket::bind(&b, "10.0.0.2:0").await.unwrap();
    udp.connect("10.0.0.1:9").await.unwrap();
    assert_eq!(b.failure(), None);
    a.shutdown(Duration::ZERO).await;
    drop((a, server));
    let gone = |e: std::io::Error| {
        // Some hear the reset with which a stack ends before the link does.
        let kinds = [ErrorKind::NetworkUnreachable, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
        assert!(kinds.contains(&e.kind()), "{e:?}");
    };
    let mut all = Vec::new();
    let end = soon(reader.read_to_end(&mut all)).await;
    gone(end.unwrap_err());
    let end = soon(writer.write_bytes(Bytes::from(vec![0; 4_000_000]))).await;
    gone(end.unwrap_err());
    let end = soon(udp.recv_from(&mut [0; 8])).await.unwrap_err();
    assert_eq!(end.kind(), ErrorKind::NetworkUnreachable);
    let end = soon(TcpStream::connect(&b, "10.0.0.1:80")).await.unwrap_err();
    assert_eq!((end.kind(), end.raw_os_error()), (ErrorKind::NetworkUnreachable, Some(101)));
    assert!(b.failure().unwrap().contains("other end of the link has ended"), "{:?}", b.failure());
    // What needs no device goes on.
    let own = soon(TcpStream::connect(&b, "10.0.0.2:80")).await.unwrap();
    soon(listener.accept()).await.unwrap();
    drop((own, udp));
    // Far less than the time that it is given.
    assert_eq!(soon(b.shutdown(Duration::from_secs(600))).await.aborted, 0);
}

/// A stack that goes without a word, with the runtime that it was a task of, and an end that no stack ever had.
#[test]
fn a_link_without_a_stack_leads_nowhere() {
    let (a, b) = link::pair(1500);
    let stack = Stack::builder().device(b).address("10.0.0.2/24").build().unwrap();
    let opening = thread::spawn(move || blocking::TcpStream::connect(&stack, "10.0.0.1:80").map(drop));
    drop(a);
    let end = opening.join().unwrap().unwrap_err();
    assert_eq!(end.kind(), ErrorKind::NetworkUnreachable);

    let (a, b) = link::pair(1500);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let a = runtime.block_on(async { Stack::builder().device(a).address("10.0.0.1/24").spawn() }).unwrap();
    let b = Stack::builder().device(b).address("10.0.0.2/24").build().unwrap();
    let listener = blocking::TcpListener::bind(&a, "10.0.0.1:80").unwrap();
    let mut client = blocking::TcpStream::connect(&b, "10.0.0.1:80").unwrap();
    let _server = listener.accept().unwrap();
    let reading = thread::spawn(move || (client.read(&mut [0; 8]), client.write(b"x")));
    drop(runtime);
    let (read, written) = reading.join().unwrap();
    assert_eq!(read.unwrap_err().kind(), ErrorKind::NetworkUnreachable);
    assert_eq!(written.unwrap_err().kind(), ErrorKind::BrokenPipe, "told once, as by any socket");
}
