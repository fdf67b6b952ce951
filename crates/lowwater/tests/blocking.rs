//! The same test bodies against std's sockets over loopback and against our blocking ones over a link in memory.
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

/// std's sockets: the reference.
mod std_net {
    use super::*;
    pub(crate) use std::net::{TcpListener, TcpStream, UdpSocket};

    pub(crate) struct World;

    impl World {
        pub(crate) fn new() -> Self {
            Self
        }
        pub(crate) fn listen(&self) -> TcpListener {
            TcpListener::bind("127.0.0.1:0").unwrap()
        }
        pub(crate) fn connect(&self, addr: SocketAddr) -> std::io::Result<TcpStream> {
            TcpStream::connect(addr)
        }
        pub(crate) fn connect_timeout(
            &self,
            addr: SocketAddr,
            limit: Duration,
        ) -> std::io::Result<TcpStream> {
            TcpStream::connect_timeout(&addr, limit)
        }
        pub(crate) fn udp(&self) -> (UdpSocket, UdpSocket) {
            let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
            (bind(), bind())
        }
    }
}

/// Ours.
mod ours {
    use super::*;
    pub(crate) use lowwater::blocking::{TcpListener, TcpStream, UdpSocket};

    pub(crate) struct World {
        server: lowwater::Stack,
        client: lowwater::Stack,
    }

    impl World {
        pub(crate) fn new() -> Self {
            let (a, b) = lowwater::link::pair(1500);
            let stack =
                |port, address| lowwater::Stack::builder().device(port).address(address).build().unwrap();
            Self { server: stack(a, "fd00::1/64"), client: stack(b, "fd00::2/64") }
        }
        pub(crate) fn listen(&self) -> TcpListener {
            TcpListener::bind(&self.server, "[fd00::1]:0").unwrap()
        }
        pub(crate) fn connect(&self, addr: SocketAddr) -> std::io::Result<TcpStream> {
            TcpStream::connect(&self.client, addr)
        }
        pub(crate) fn connect_timeout(
            &self,
            addr: SocketAddr,
            limit: Duration,
        ) -> std::io::Result<TcpStream> {
            TcpStream::connect_timeout(&self.client, &addr, limit)
        }
        pub(crate) fn udp(&self) -> (UdpSocket, UdpSocket) {
            let server = UdpSocket::bind(&self.server, "[fd00::1]:0").unwrap();
            (server, UdpSocket::bind(&self.client, "[fd00::2]:0").unwrap())
        }
    }
}

macro_rules! parity {
    ($net:ident, $tests:ident) => {
        mod $tests {
            use super::$net::*;
            use super::*;

            fn connection(world: &World) -> (TcpStream, TcpStream) {
                let listener: TcpListener = world.listen();
                let addr = listener.local_addr().unwrap();
                let client = world.connect(addr).unwrap();
                (client, listener.accept().unwrap().0)
            }

            #[test]
            fn echo_by_two_threads_and_clones() {
                let world = World::new();
                let (mut client, server) = connection(&world);
                let echo = thread::spawn(move || {
                    let mut write = server.try_clone().unwrap();
                    std::io::copy(&mut &server, &mut write).unwrap()
                });
                let data: Vec<u8> =
                    (0..4_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
                let mut reader = client.try_clone().unwrap();
                let len = data.len();
                let read = thread::spawn(move || {
                    let mut got = vec![0; len];
                    reader.read_exact(&mut got).unwrap();
                    got
                });
                client.write_all(&data).unwrap();
                assert!(read.join().unwrap() == data);
                client.shutdown(Shutdown::Write).unwrap();
                assert_eq!(client.read(&mut [0; 4]).unwrap(), 0);
                assert_eq!(echo.join().unwrap(), len as u64);
            }

            #[test]
            fn timeouts_and_nonblocking() {
                let world = World::new();
                let (mut client, mut server) = connection(&world);
                assert_eq!(
                    client.set_read_timeout(Some(Duration::ZERO)).unwrap_err().kind(),
                    ErrorKind::InvalidInput
                );
                client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                // The kernel rounds up to its ticks.
                assert!(client.read_timeout().unwrap().unwrap() >= Duration::from_millis(50));
                let start = Instant::now();
                let e = client.read(&mut [0; 4]).unwrap_err();
                assert_eq!((e.kind(), e.raw_os_error()), (ErrorKind::WouldBlock, Some(11)));
                assert!(start.elapsed() >= Duration::from_millis(50));
                client.set_nonblocking(true).unwrap();
                assert_eq!(client.read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::WouldBlock);
                client.set_nonblocking(false).unwrap();
                client.set_read_timeout(None).unwrap();
                server.write_all(b"now").unwrap();
                assert_eq!(client.peek(&mut [0; 4]).unwrap(), 3);
                assert_eq!(client.read(&mut [0; 4]).unwrap(), 3);
            }

            #[test]
            fn refused_reset_and_closed() {
                let world = World::new();
                let listener = world.listen();
                let addr = listener.local_addr().unwrap();
                drop(listener);
                let limit = Duration::from_secs(5);
                let e = world.connect_timeout(addr, limit).unwrap_err();
                assert_eq!((e.kind(), e.raw_os_error()), (ErrorKind::ConnectionRefused, Some(111)));
                assert_eq!(world.connect(addr).unwrap_err().to_string(), e.to_string());

                let (mut client, server) = connection(&world);
                client.write_all(b"unread").unwrap();
                assert_eq!(server.peek(&mut [0; 16]).unwrap(), 6);
                drop(server);
                let e = client.read(&mut [0; 4]).unwrap_err();
                assert_eq!((e.kind(), e.raw_os_error()), (ErrorKind::ConnectionReset, Some(104)));
            }

            #[test]
            fn incoming_is_an_iterator() {
                let world = World::new();
                let listener = world.listen();
                let addr = listener.local_addr().unwrap();
                let server = thread::spawn(move || {
                    for (n, stream) in (0u8..50).zip(listener.incoming()) {
                        stream.unwrap().write_all(&[n]).unwrap();
                    }
                });
                for n in 0u8..50 {
                    let mut byte = [0];
                    world.connect(addr).unwrap().read_exact(&mut byte).unwrap();
                    assert_eq!(byte, [n]);
                }
                server.join().unwrap();
            }

            #[test]
            fn datagrams() {
                let world = World::new();
                let (server, client): (UdpSocket, UdpSocket) = world.udp();
                let to = server.local_addr().unwrap();
                client.send_to(b"hello", to).unwrap();
                let mut buf = [0; 16];
                let (len, from) = server.recv_from(&mut buf).unwrap();
                assert_eq!((&buf[..len], from), (&b"hello"[..], client.local_addr().unwrap()));
                server.connect(from).unwrap();
                client.connect(to).unwrap();
                server.send(b"there").unwrap();
                assert_eq!(client.recv(&mut buf).unwrap(), 5);
                client.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
                assert_eq!(client.recv(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
                client.set_nonblocking(true).unwrap();
                assert_eq!(client.recv(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
                client.set_multicast_ttl_v4(9).unwrap();
                assert_eq!(client.multicast_ttl_v4().unwrap(), 9);
            }
        }
    };
}

parity!(std_net, reference);
parity!(ours, lowwater_sockets);
