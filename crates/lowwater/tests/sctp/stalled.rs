//! A link whose owner takes nothing any more, and an association that has another.
use crate::world::{message, on, soon, whole};
use lowwater::link::{self, Link, QueueLimit};
use lowwater::sctp::PathState;
use lowwater::{SctpAssociation, SctpListener, Stack};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A stack with two links of its application's.
fn stack(n: u8) -> (Stack, [Link; 2]) {
    let limit = QueueLimit { packets: 4, bytes: 64_000 };
    let [(first, one), (second, two)] = [(); 2].map(|()| link::owned(1_500, limit));
    let stack = Stack::builder()
        .sysctl("sctp.rto_min", "100")
        .device(first)
        .address(&format!("10.0.1.{n}/24"))
        .device(second)
        .address(&format!("10.0.2.{n}/24"));
    (stack.build().unwrap(), [one, two])
}

/// Carries packets until it is told to take no more.
async fn carry(from: Link, to: Link, stalled: Arc<AtomicBool>) {
    while let Some(packet) = from.recv().await {
        if stalled.load(Ordering::Relaxed) {
            // It is held, and so is its credit.
            std::future::pending::<()>().await;
        }
        if to.send(packet.bytes()).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn an_association_goes_on_by_its_other_link() {
    const MESSAGES: u64 = 200;
    let ((here, links_here), (there, links_there)) = (stack(1), stack(2));
    let [stalled, never] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    for (at, (a, b)) in links_here.iter().zip(&links_there).enumerate() {
        let flag = if at == 0 { &stalled } else { &never };
        tokio::spawn(carry(a.clone(), b.clone(), flag.clone()));
        tokio::spawn(carry(b.clone(), a.clone(), never.clone()));
    }
    let listener = SctpListener::bind(&there, "0.0.0.0:7").await.unwrap();
    let (client, server) =
        soon(async { tokio::join!(SctpAssociation::connect(&here, "10.0.1.2:7"), listener.accept()) }).await;
    let (client, (server, _)) = (client.unwrap(), server.unwrap());
    let paths = || client.info().unwrap().paths;
    soon(async {
        while paths().len() < 2 || paths().iter().any(|path| path.state != PathState::Active) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    stalled.store(true, Ordering::Relaxed);
    let send = async {
        for n in 0..MESSAGES {
            client.send_bytes(message(n, 1_000), on(0)).await.unwrap();
        }
    };
    let read = async {
        for n in 0..MESSAGES {
            let (data, _) = whole(server.recv().await.unwrap().unwrap());
            assert_eq!(data, message(n, 1_000));
        }
    };
    soon(async { tokio::join!(send, read) }).await;
    assert_ne!(paths()[0].state, PathState::Active, "its own link has failed it");
    assert!(paths()[0].below > 0 && here.counters().own.sctp_t3_in_host > 0);
    soon(client.finish()).await.unwrap();
}
