//! Datagrams of one byte there and back: who asks is the kernel's, who answers the kernel's or ours.
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// A datagram that ends whoever answers.
const LAST: u8 = b'q';
/// A datagram that has no answer by then was lost, and is asked again.
const PATIENCE: Duration = Duration::from_millis(100);

/// Answers by a socket of the kernel's until the last datagram.
pub fn answer(socket: &UdpSocket) {
    let mut byte = [0; 64];
    while let Ok((len, from)) = socket.recv_from(&mut byte) {
        if byte[0] == LAST || socket.send_to(&byte[..len], from).is_err() {
            return;
        }
    }
}

/// The same by a blocking socket of a stack.
pub fn answer_blocking(socket: &lowwater::blocking::UdpSocket) {
    let mut byte = [0; 64];
    while let Ok((len, from)) = socket.recv_from(&mut byte) {
        if byte[0] == LAST || socket.send_to(&byte[..len], from).is_err() {
            return;
        }
    }
}

/// The same by a task.
pub async fn answer_by_task(socket: &lowwater::UdpSocket) {
    let mut byte = [0; 64];
    while let Ok((len, from)) = socket.recv_from(&mut byte).await {
        if byte[0] == LAST || socket.send_to(&byte[..len], from).await.is_err() {
            return;
        }
    }
}

/// Asks at `addr` by a socket of the kernel's for `time`, then says that it was the last; how many answers came, and how long it took.
///
/// # Errors
/// Those of the socket.
pub fn ask(addr: SocketAddr, time: Duration) -> io::Result<(u64, Duration)> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(addr)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let (mut done, mut byte, start) = (0, [b'x'], Instant::now());
    while start.elapsed() < time {
        socket.send(&byte)?;
        match socket.recv(&mut byte) {
            Ok(_) => done += 1,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
    }
    let took = start.elapsed();
    socket.send(&[LAST])?;
    Ok((done, took))
}
