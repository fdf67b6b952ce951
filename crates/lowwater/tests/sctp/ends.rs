//! Ends that come early, and ends that several wait for.
use crate::world::{on, pair, soon, two};
use bytes::Bytes;
use lowwater::core::base::Instant;
use lowwater::core::device::{DeviceCaps, Submit};
use lowwater::core::packet::{Offload, Packet};
use lowwater::core::sctp::SctpOptions;
use lowwater::core::stack::{Config, Stack as Core};
use lowwater::link::{self, Link, QueueLimit};
use lowwater::{SctpSocket, Stack};
use lowwater_wire::checksum;
use lowwater_wire::sctp::{chunk_kind, fill_checksum};
use std::io::ErrorKind;
use std::time::Duration;

/// Offset of the first chunk: no options of IP, and the common header.
const CHUNKS: usize = 20 + 12;

/// A client by hand: the packet with its COOKIE ECHO, which it did not send.
fn cookie_echo(link: &Link) -> Vec<u8> {
    let mut at = Instant::from_millis(1);
    let mut client = Core::new(Config::default(), at);
    let dev = client.add_device(DeviceCaps::plain(1_500));
    client.add_address(dev, "10.0.0.2".parse().unwrap(), 24).unwrap();
    let options = SctpOptions::new(client.sysctl());
    client.sctp_connect(at, &["10.0.0.1:7".parse().unwrap()], &[], options).unwrap();
    loop {
        let mut sent = Vec::new();
        let mut collect = |_, packet: Packet| {
            sent.push(packet.to_bytes());
            Submit::Completed
        };
        client.transmit(at, dev, 64, &mut collect);
        for packet in sent {
            if packet[CHUNKS] == chunk_kind::COOKIE_ECHO {
                return packet.to_vec();
            }
            link.send_blocking(&Bytes::from(packet.to_vec())).unwrap();
        }
        let answer = link.recv_blocking().unwrap().bytes();
        at = Instant::from_millis(2);
        client.receive(at, dev, Packet::received(answer, Offload::default(), at));
    }
}

/// An ABORT behind the chunks of this packet.
fn with_abort(mut packet: Vec<u8>) -> Bytes {
    packet.extend([chunk_kind::ABORT, 0, 0, 4]);
    let len = packet.len() as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet[10..12].fill(0);
    let sum = !checksum::fold(checksum::sum(&packet[..20]));
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    fill_checksum(&mut packet[20..], &[]);
    Bytes::from(packet)
}

#[tokio::test]
async fn an_association_that_ends_in_its_first_packet_leaves_nothing() {
    const TIMES: u64 = 1_000;
    let (port, link) = link::owned(1_500, QueueLimit::default());
    let stack = Stack::builder().device(port).address("10.0.0.1/24").build().unwrap();
    let server = SctpSocket::bind(&stack, "10.0.0.1:7").await.unwrap();
    for _ in 0..TIMES {
        // A cookie of its own each time: a copy of one that was used opens nothing.
        link.send_blocking(&with_abort(cookie_echo(&link))).unwrap();
        while link.try_recv().is_some() {}
    }
    soon(async {
        while stack.counters().sctp.passive_estabs < TIMES {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert_eq!(server.try_recv().unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(server.assocs(), []);
    assert_eq!(stack.sockets().sockets.len(), 1, "the socket itself");
}

#[tokio::test]
async fn an_abort_is_heard_by_the_reader_and_by_who_finishes() {
    let stacks = two();
    for _ in 0..10 {
        let (there, here) = pair(&stacks, &stacks.0.sctp_options()).await;
        // A message that nobody reads: the shutdown of this side cannot be over before the abort.
        there.set_options(|o| o.rcvbuf = 4_096).unwrap();
        for _ in 0..20 {
            here.send(&[0; 1_000], on(0)).await.unwrap();
        }
        let (read, finished, ()) = soon(async {
            tokio::join!(here.recv(), here.finish(), async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                there.abort(b"enough").unwrap();
            })
        })
        .await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(finished.unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}

/// Its partner's stack goes without a word, with the runtime that it was a task of: no path leads to it any more.
#[tokio::test]
async fn an_association_ends_with_its_only_link() {
    let (a, b) = link::pair(1500);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let builder = |port, n| {
        let address = |net| format!("10.0.{net}.{n}/24");
        Stack::builder().device(port).address(&address(1)).address(&address(2))
    };
    let there = {
        let _inside = runtime.enter();
        builder(a, 1).spawn().unwrap()
    };
    let stacks = (there, builder(b, 2).build().unwrap());
    let (_there, here) = pair(&stacks, &stacks.0.sctp_options()).await;
    let (read, ()) = soon(async {
        tokio::join!(here.recv(), async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            runtime.shutdown_background();
        })
    })
    .await;
    assert_eq!(read.unwrap_err().kind(), ErrorKind::NetworkUnreachable);
    assert!(here.send(b"x", on(0)).await.is_err());
    let again = soon(lowwater::SctpAssociation::connect(&stacks.1, "10.0.1.1:9")).await;
    assert_eq!(again.unwrap_err().kind(), ErrorKind::NetworkUnreachable);
}
