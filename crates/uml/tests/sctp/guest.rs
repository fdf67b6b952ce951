//! What runs inside the guest: the kernel's sockets, one-to-one.
use rustix::net::{
    AddressFamily, RecvFlags, ReturnFlags, SendFlags, SocketAddrV4, SocketType, accept, bind, connect,
    ipproto, listen, recvmsg, send, socket, sockopt,
};
use std::io::IoSliceMut;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::Duration;

use crate::host::PORT;

/// Count and FNV-1a of the messages of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Sum {
    count: u32,
    hash: u64,
}

impl Default for Sum {
    fn default() -> Self {
        Self { count: 0, hash: 0xcbf2_9ce4_8422_2325 }
    }
}

impl Sum {
    pub(crate) fn add(&mut self, data: &[u8]) {
        self.count += 1;
        for byte in data.iter().chain(&[0xff]) {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    pub(crate) fn to_text(&self) -> String {
        format!("{}:{:016x}", self.count, self.hash)
    }
}

/// Message `n` of `stream`: says so in its first bytes.
pub(crate) fn message(stream: u16, n: u32, len: usize) -> Vec<u8> {
    let mut data: Vec<u8> = stream.to_be_bytes().into_iter().chain(n.to_be_bytes()).collect();
    data.extend((data.len()..len).map(|i| (i as u32).wrapping_mul(n | 1).to_le_bytes()[1]));
    data
}

fn sh(line: &str) {
    let done = Command::new("/bin/sh").args(["-c", line]).status().expect("a shell");
    assert!(done.success(), "{line}");
}

fn network(links: u8, netem: bool) {
    sh("ip link set lo up && echo 4194304 >/proc/sys/net/core/wmem_max");
    for link in 0..links {
        sh(&format!("ip addr add 10.9.{link}.1/24 dev vec{link} && ip link set vec{link} up"));
        if netem {
            sh(&format!("tc qdisc add dev vec{link} root netem limit 10000 delay 25ms 5ms loss 1%"));
        }
    }
}

fn sctp() -> OwnedFd {
    socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::SCTP)).expect("the kernel speaks SCTP")
}

fn addr(host: u8, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(if host == 0 { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::new(10, 9, 0, host) }, port)
}

/// The next message, or `None` at the end.
fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let mut slices = [IoSliceMut::new(buffer)];
        let mut control = Default::default();
        let got = recvmsg(fd, &mut slices, &mut control, RecvFlags::empty()).expect("a message");
        let (len, flags) = (got.bytes, got.flags);
        if len == 0 {
            return None;
        }
        all.extend_from_slice(&buffer[..len]);
        if flags.contains(ReturnFlags::from_bits_retain(0x80)) {
            return Some(all);
        }
    }
}

/// Accepts one association, sums what comes in each stream until "done", answers with the sums and closes.
fn serve() {
    let listener = sctp();
    bind(&listener, &addr(0, PORT)).expect("bind");
    listen(&listener, 5).expect("listen");
    let fd = accept(&listener).expect("accept");
    let (mut sums, mut next, mut buffer) = (vec![Sum::default(); 10], [0u32; 10], vec![0; 1 << 16]);
    while let Some(data) = receive(&fd, &mut buffer).filter(|d| d != b"done") {
        let stream = usize::from(u16::from_be_bytes([data[0], data[1]]));
        let n = u32::from_be_bytes([data[2], data[3], data[4], data[5]]);
        assert_eq!(n, next[stream], "stream {stream} is in order");
        next[stream] += 1;
        sums[stream].add(&data);
    }
    let text: Vec<String> = sums.iter().map(Sum::to_text).collect();
    send(&fd, text.join(" ").as_bytes(), SendFlags::empty()).expect("an answer");
    drop(fd);
    // The end of the guest would be the end of the association.
    std::thread::sleep(Duration::from_secs(3));
}

fn open() -> OwnedFd {
    for _ in 0..100 {
        let fd = sctp();
        // Linux takes no message that is larger than the buffer.
        sockopt::set_socket_send_buffer_size(&fd, 2_000_000).expect("a buffer");
        if connect(&fd, &addr(2, PORT)).is_ok() {
            return fd;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("no association");
}

fn call() {
    let fd = open();
    let mut sum = Sum::default();
    let sizes =
        [1, 1_000_000, 100, 1_452, 1_453, 60_000].into_iter().chain((0..2_000).map(|n| 1 + n % 1_900));
    for (n, len) in sizes.enumerate() {
        let data: Vec<u8> = (0..len).map(|i| (i * (n | 1)) as u8).collect();
        sum.add(&data);
        send(&fd, &data, SendFlags::empty()).expect("sent");
    }
    send(&fd, b"done", SendFlags::empty()).expect("sent");
    let mut buffer = vec![0; 1 << 16];
    let answer = receive(&fd, &mut buffer).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&answer), sum.to_text());
    drop(fd);
    std::thread::sleep(Duration::from_secs(1));
    let fd = open();
    send(&fd, b"lost", SendFlags::empty()).expect("sent");
    sockopt::set_socket_linger(&fd, Some(Duration::ZERO)).expect("linger");
    drop(fd);
    std::thread::sleep(Duration::from_secs(2));
}

#[test]
#[ignore = "runs inside the guest"]
fn listens() {
    network(1, false);
    serve();
}

#[test]
#[ignore = "runs inside the guest"]
fn listens_behind_netem() {
    network(1, true);
    serve();
}

#[test]
#[ignore = "runs inside the guest"]
fn listens_at_two_addresses() {
    network(2, false);
    serve();
}

#[test]
#[ignore = "runs inside the guest"]
fn connects() {
    network(1, false);
    call();
}

#[test]
#[ignore = "runs inside the guest"]
fn connects_behind_netem() {
    network(1, true);
    call();
}

#[test]
#[ignore = "runs inside the guest"]
fn waits() {
    network(1, false);
    // The protocol is there once its first socket is.
    let _fd = sctp();
    std::thread::sleep(Duration::from_secs(10));
}
