//! A gateway: one stack whose link carries datagrams of many peers, who all call themselves the same.
use crate::world::{message, next, on, soon};
use bytes::Bytes;
use lowwater::link::{self, Carrier, DatagramLink, QueueLimit};
use lowwater::{SctpAssociation, SctpListener, Stack};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const LARGEST: u16 = 1_200;
const PEERS: u8 = 3;
const PORT: u16 = 5_000;

fn name(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, n)
}

fn stack(local: Ipv4Addr) -> (Stack, DatagramLink) {
    let (port, link) = link::datagrams(LARGEST, Carrier::Dtls, local, QueueLimit::default());
    (Stack::builder().device(port).address(&format!("{local}/24")).build().unwrap(), link)
}

#[derive(Default)]
struct Seen {
    datagrams: AtomicUsize,
    with_crc: AtomicUsize,
    largest: AtomicUsize,
}

impl Seen {
    fn note(&self, datagram: &[u8]) {
        self.datagrams.fetch_add(1, Ordering::Relaxed);
        self.with_crc.fetch_add(usize::from(datagram[8..12] != [0; 4]), Ordering::Relaxed);
        self.largest.fetch_max(datagram.len(), Ordering::Relaxed);
    }
}

/// What would be DTLS to each peer.
fn carry(gateway: &DatagramLink, peers: Vec<DatagramLink>, seen: &Arc<Seen>) {
    for (n, peer) in peers.iter().enumerate() {
        let (from, to, seen) = (peer.clone(), gateway.clone(), seen.clone());
        tokio::spawn(async move {
            while let Some(datagram) = from.recv().await {
                assert_eq!(datagram.peer(), name(1), "the only one that a peer knows");
                seen.note(&datagram);
                to.send(name(100 + n as u8), datagram.bytes()).await.unwrap();
            }
        });
    }
    let (from, seen) = (gateway.clone(), seen.clone());
    tokio::spawn(async move {
        while let Some(datagram) = from.recv().await {
            seen.note(&datagram);
            let peer = &peers[usize::from(datagram.peer().octets()[3] - 100)];
            // The peer's stack may be gone by the end of the test.
            let _ = peer.send(name(1), datagram.bytes()).await;
        }
    });
}

#[tokio::test]
async fn a_gateway_serves_many_peers_on_one_link() {
    let (gateway, link) = stack(name(1));
    let peers: Vec<(Stack, DatagramLink)> = (0..PEERS).map(|_| stack(name(2))).collect();
    let seen = Arc::new(Seen::default());
    carry(&link, peers.iter().map(|(_, link)| link.clone()).collect(), &seen);

    let at = SocketAddr::from((name(1), PORT));
    let listener = SctpListener::bind(&gateway, at).await.unwrap();
    for (n, (peer, _)) in peers.iter().enumerate() {
        let (accepted, opened) = tokio::join!(listener.accept(), SctpAssociation::connect(peer, at));
        let ((there, from), here) = (accepted.unwrap(), opened.unwrap());
        assert_eq!(from.ip(), name(100 + n as u8), "the gateway's name for it");
        let sent = message(n as u64, 100_000);
        here.send_bytes(sent.clone(), on(1)).await.unwrap();
        assert!(next(&there).await.0 == sent);
        there.send_bytes(sent.clone(), on(2)).await.unwrap();
        assert!(next(&here).await.0 == sent);
        soon(here.finish()).await.unwrap();
    }
    assert_eq!(seen.largest.load(Ordering::Relaxed), usize::from(LARGEST));
    // INIT, INIT ACK and COOKIE ECHO of each.
    assert_eq!(seen.with_crc.load(Ordering::Relaxed), 3 * usize::from(PEERS));
    assert!(seen.datagrams.load(Ordering::Relaxed) > 500);
}

#[test]
fn what_cannot_be_sctp_is_refused() {
    let (_stack, link) = stack(name(1));
    let short = link.try_send(name(2), &Bytes::from_static(b"short"));
    assert_eq!(short.map_err(|e| e.kind()), Err(ErrorKind::InvalidInput));
    assert!(link.try_recv().is_none());
}
