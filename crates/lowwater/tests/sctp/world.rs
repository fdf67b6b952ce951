//! Two stacks of two addresses each on a link in memory, and messages whose content only their number decides.
use bytes::Bytes;
use lowwater::core::base::Rng;
use lowwater::sctp::{ConnectOptions, ListenOptions, Received, RecvInfo, SctpOptions, SendInfo};
use lowwater::{SctpAssociation, SctpListener, Stack, link};
use std::net::SocketAddr;
use std::time::Duration;

pub(crate) fn two() -> (Stack, Stack) {
    let (a, b) = link::pair(1500);
    let stack = |port, n| {
        let address = |net| format!("10.0.{net}.{n}/24");
        Stack::builder().device(port).address(&address(1)).address(&address(2)).build().unwrap()
    };
    (stack(a, 1), stack(b, 2))
}

pub(crate) fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// An association from the second stack to the first: the accepted end and the one that connected.
pub(crate) async fn pair(
    stacks: &(Stack, Stack),
    options: &SctpOptions,
) -> (SctpAssociation, SctpAssociation) {
    let listen = ListenOptions {
        local: vec![addr("10.0.1.1:0")],
        options: Some(options.clone()),
        ..ListenOptions::default()
    };
    let listener = SctpListener::listen(&stacks.0, &listen).unwrap();
    let to = listener.local_addr().unwrap();
    let connect = ConnectOptions { options: Some(options.clone()), ..ConnectOptions::default() };
    let (there, here) =
        tokio::join!(listener.accept(), SctpAssociation::connect_with(&stacks.1, to, &connect));
    (there.unwrap().0, here.unwrap())
}

pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("this takes too long")
}

pub(crate) fn on(stream: u16) -> SendInfo {
    SendInfo { stream, ..SendInfo::default() }
}

/// Message number `n`.
pub(crate) fn message(n: u64, len: usize) -> Bytes {
    let mut rng = Rng::new(n + 1);
    (0..len).map(|_| rng.next_u32() as u8).collect()
}

/// A whole message.
pub(crate) fn whole(received: Received) -> (Bytes, RecvInfo) {
    match received {
        Received::Data { data, info, eor: true } => (data, info),
        other => panic!("no whole message: {other:?}"),
    }
}

/// The next whole message.
pub(crate) async fn next(assoc: &SctpAssociation) -> (Bytes, RecvInfo) {
    whole(soon(assoc.recv()).await.unwrap().expect("a message"))
}
