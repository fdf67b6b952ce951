//! A tunnel: packets leave a stack by a link that the program owns, and travel in UDP datagrams.
//!
//! `cargo run -p lowwater-examples --bin tunnel` makes both ends in this process and moves a file through the kernel's
//! loopback. The carrier gives a packet's credit back only when it has been sent, so that flows feel the tunnel's queue as
//! their own, and drops what comes faster than the stack takes it, as any link does.
#![forbid(unsafe_code)]
use bytes::Bytes;
use lowwater::Stack;
use lowwater::blocking::{TcpListener, TcpStream};
use lowwater::link::{Link, QueueLimit, owned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Fits a datagram of 1500 bytes with its headers (IPv6 40, UDP 8), and one more header of eight bytes.
const MTU: u16 = 1444;
/// A real tunnel encrypts; this one only shows that bytes need not travel as they are.
const SCRAMBLE: u8 = 0x5a;

/// Packets of the stack to the other end.
fn carry_out(link: &Link, socket: &UdpSocket, peer: SocketAddr) -> io::Result<()> {
    let mut datagram = Vec::with_capacity(usize::from(MTU));
    // `None`: the stack has ended.
    while let Some(packet) = link.recv_blocking() {
        datagram.clear();
        datagram.extend(packet.iter().map(|byte| byte ^ SCRAMBLE));
        socket.send_to(&datagram, peer)?;
        // Here `packet` is dropped, and with it the flow's credit comes back.
    }
    Ok(())
}

/// Datagrams of the other end to the stack.
fn carry_in(link: &Link, socket: &UdpSocket, peer: SocketAddr) -> io::Result<()> {
    let mut datagram = vec![0; usize::from(u16::MAX)];
    loop {
        let (len, from) = socket.recv_from(&mut datagram)?;
        if from != peer {
            continue;
        }
        let packet: Bytes = datagram[..len].iter().map(|byte| byte ^ SCRAMBLE).collect::<Vec<u8>>().into();
        match link.try_send(&packet) {
            Err(e) if e.kind() != io::ErrorKind::WouldBlock => return Ok(()),
            _ => {}
        }
    }
}

/// One end: a stack whose packets go to `peer` by `socket`.
fn tunnel_end(address: &str, socket: UdpSocket, peer: SocketAddr) -> io::Result<Stack> {
    let (port, link) = owned(MTU, QueueLimit { packets: 128, bytes: 256 << 10 });
    let stack = Stack::builder().device(port).address(address).build()?;
    let (inbound, socket) = (link.clone(), Arc::new(socket));
    let receiving = socket.clone();
    thread::spawn(move || carry_out(&link, &socket, peer));
    thread::spawn(move || carry_in(&inbound, &receiving, peer));
    Ok(stack)
}

fn main() -> io::Result<()> {
    let sockets = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    let addrs = (sockets.0.local_addr()?, sockets.1.local_addr()?);
    let left = tunnel_end("fd00:9::1/64", sockets.0, addrs.1)?;
    let right = tunnel_end("fd00:9::2/64", sockets.1, addrs.0)?;

    let listener = TcpListener::bind(&right, "[fd00:9::2]:80")?;
    let receiver = thread::spawn(move || -> io::Result<Vec<u8>> {
        let (mut stream, peer) = listener.accept()?;
        println!("{peer} came through the tunnel");
        let mut got = Vec::new();
        stream.read_to_end(&mut got)?;
        Ok(got)
    });
    let file: Vec<u8> = (0..8_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut stream = TcpStream::connect(&left, "[fd00:9::2]:80")?;
    stream.write_all(&file)?;
    drop(stream);
    // The stream closes in the background; this waits until the other end has everything.
    let drained = left.shutdown_blocking(Duration::from_secs(30));
    assert_eq!(drained.aborted, 0);
    let got = receiver.join().expect("the receiver does not panic")?;
    assert!(got == file, "the file arrives as it was sent");
    println!("{} bytes through the tunnel, {} segments resent", got.len(), left.counters().tcp.retrans_segs);
    Ok(())
}
