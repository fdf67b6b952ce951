//! Many associations a socket.
use crate::world::{addr, next, on, soon, two, whole};
use lowwater::sctp::{AssocChange, AssocId, AssocInfo, ListenOptions, Notification};
use lowwater::sctp::{Received, State, Subscriptions};
use lowwater::{SctpAssociation, SctpSocket, Stack};
use std::io::ErrorKind;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A socket on port 7 of the first stack that hears of associations.
fn server(stack: &Stack) -> SctpSocket {
    let mut options = stack.sctp_options();
    options.events = Subscriptions::ASSOC;
    let local = vec![addr("10.0.1.1:7")];
    SctpSocket::bind_with(stack, &ListenOptions { local, options: Some(options), ..ListenOptions::default() })
        .unwrap()
}

#[tokio::test]
async fn one_socket_serves_many_peers() {
    let stacks = two();
    let server = server(&stacks.0);
    let mut peers = Vec::new();
    for _ in 0..20 {
        peers.push(soon(SctpAssociation::connect(&stacks.1, "10.0.1.1:7")).await.unwrap());
    }
    let echo = async {
        let (mut ups, mut downs) = (0, 0);
        while downs < 20 {
            match server.recv().await.unwrap() {
                (id, Received::Data { data, info, .. }) => {
                    server.send_bytes(id, data, on(info.stream)).await.unwrap();
                }
                (_, Received::Notification(Notification::Assoc { change, .. })) => {
                    ups += u32::from(change == AssocChange::Up);
                    downs += u32::from(change == AssocChange::ShutdownComplete);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(ups, 20);
    };
    let ask = async {
        for (n, peer) in peers.iter().enumerate() {
            peer.send(format!("peer {n}").as_bytes(), on(n as u16 % 10)).await.unwrap();
        }
        for (n, peer) in peers.iter().enumerate() {
            assert_eq!(next(peer).await.0, format!("peer {n}"));
            peer.finish().await.unwrap();
        }
    };
    soon(async { tokio::join!(echo, ask) }).await;
    assert_eq!(server.assocs(), []);
    // Nothing of them is left in the stack.
    assert_eq!(stacks.0.sockets().sockets.len(), 1);
}

#[tokio::test]
async fn sending_to_an_address_opens_an_association() {
    let stacks = two();
    let server = server(&stacks.0);
    let client = SctpSocket::bind(&stacks.1, "10.0.1.2:0").await.unwrap();
    let id = soon(client.send_to(b"hello", addr("10.0.1.1:7"), on(1))).await.unwrap();
    assert_eq!(soon(client.send_to(b"again", addr("10.0.1.1:7"), on(1))).await.unwrap(), id);
    assert_eq!((client.assocs(), client.assoc_with(addr("10.0.1.1:7")).unwrap()), (vec![id], id));
    let (peer, _) = soon(server.recv()).await.unwrap();
    for text in ["hello", "again"] {
        let (from, received) = soon(server.recv()).await.unwrap();
        assert_eq!((from, &whole(received).0[..]), (peer, text.as_bytes()));
    }
    assert_eq!(server.assoc(peer).unwrap().peer_addr().unwrap(), client.local_addr().unwrap());
    server.assoc(peer).unwrap().abort(b"enough").unwrap();
    let gone = async {
        while !client.assocs().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    soon(gone).await;
    assert_eq!(client.send(id, b"x", on(0)).await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert_eq!(client.assoc(id).unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn connect_waits_and_a_refusal_leaves_nothing() {
    let stacks = two();
    let server = server(&stacks.0);
    let client = SctpSocket::bind(&stacks.1, "10.0.1.2:0").await.unwrap();
    let refused = soon(client.connect("10.0.1.1:8")).await.unwrap_err();
    assert_eq!((refused.kind(), client.assocs()), (ErrorKind::ConnectionRefused, vec![]));
    assert!(tokio::time::timeout(Duration::from_millis(5), client.connect("10.0.1.99:8")).await.is_err());
    assert_eq!(client.assocs(), []);
    let id = soon(client.connect("10.0.1.1:7")).await.unwrap();
    assert_eq!(client.assoc(id).unwrap().state().unwrap(), State::Established);
    let again = soon(client.connect("10.0.1.1:7")).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AddrInUse);
    drop(server);
    // The server's end of it was closed in good order, the socket with it.
    let gone = async {
        while !client.assocs().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    soon(gone).await;
}

#[tokio::test]
async fn an_association_that_is_peeled_off_takes_its_unread_messages_along() {
    let stacks = two();
    let server = SctpSocket::bind(&stacks.0, "10.0.1.1:7").await.unwrap();
    let here = soon(SctpAssociation::connect(&stacks.1, "10.0.1.1:7")).await.unwrap();
    here.send(b"first", on(0)).await.unwrap();
    here.send(b"second", on(0)).await.unwrap();
    let (id, first) = soon(server.recv()).await.unwrap();
    assert_eq!(whole(first).0, "first");
    let there = server.peel_off(id).unwrap();
    assert_eq!(next(&there).await.0, "second");
    assert_eq!((server.assocs(), server.peel_off(id).unwrap_err().kind()), (vec![], ErrorKind::BrokenPipe));
    drop(server);
    there.send(b"still there", on(0)).await.unwrap();
    assert_eq!(next(&here).await.0, "still there");
    let (a, b) = soon(async { tokio::join!(here.finish(), there.finish()) }).await;
    assert!(a.is_ok() && b.is_ok());
}

#[tokio::test]
async fn messages_of_many_peers_are_read_in_the_order_in_which_they_came() {
    let stacks = two();
    let server = SctpSocket::bind(&stacks.0, "10.0.1.1:7").await.unwrap();
    let mut peers = Vec::new();
    for _ in 0..3 {
        peers.push(soon(SctpAssociation::connect(&stacks.1, "10.0.1.1:7")).await.unwrap());
    }
    let order = [0, 0, 0, 1, 2, 2, 0, 1];
    for (n, from) in order.into_iter().enumerate() {
        let peer = &peers[from];
        peer.send(&[n as u8, 0, 0], on(0)).await.unwrap();
        // The next one is sent when this one has come.
        soon(async {
            let waits = |info: AssocInfo| info.unacked > 0 || info.unsent_bytes > 0;
            while waits(peer.info().unwrap()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }
    // What is read in parts stays where it was.
    let (first, part) = soon(server.recv_part(1)).await.unwrap();
    let (again, rest) = soon(server.recv_part(9)).await.unwrap();
    assert!(first == again, "two parts of one message");
    assert!(matches!(part, Received::Data { data, eor: false, .. } if data[..] == [0]));
    assert_eq!(whole(rest).0[..], [0, 0]);
    let with = |peer: &SctpAssociation| server.assoc_with(peer.local_addr().unwrap()).unwrap();
    for (n, from) in order.into_iter().enumerate().skip(1) {
        let (id, received) = server.try_recv().unwrap();
        assert_eq!((id, whole(received).0[0]), (with(&peers[from]), n as u8));
    }
    assert_eq!(server.try_recv().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[tokio::test]
async fn a_slow_peer_holds_up_nobody_else() {
    let stacks = two();
    let server = SctpSocket::bind(&stacks.0, "10.0.1.1:7").await.unwrap();
    let slow = soon(SctpAssociation::connect(&stacks.1, "10.0.1.1:7")).await.unwrap();
    let quick = soon(SctpAssociation::connect(&stacks.1, "10.0.1.1:7")).await.unwrap();
    let with = |assoc: &SctpAssociation| server.assoc_with(assoc.local_addr().unwrap()).unwrap();
    let (slow_id, quick_id) = (with(&slow), with(&quick));
    let data = crate::world::message(1, 60_000);
    let brief = Duration::from_millis(50);
    let full = || tokio::time::timeout(brief, server.send_bytes(slow_id, data.clone(), on(0)));
    while full().await.is_ok() {}
    soon(server.send(quick_id, b"at once", on(0))).await.unwrap();
    assert_eq!(next(&quick).await.0, "at once");
    let read = async {
        loop {
            let _ = slow.recv().await.unwrap();
        }
    };
    soon(async {
        tokio::select! {
            () = read => {}
            written = server.writable(slow_id) => written.unwrap(),
        }
    })
    .await;
}

#[tokio::test]
async fn a_socket_has_so_many_associations_and_aborts_others() {
    let stacks = two();
    let listen =
        ListenOptions { local: vec![addr("10.0.1.1:7")], associations: 2, ..ListenOptions::default() };
    let server = SctpSocket::bind_with(&stacks.0, &listen).unwrap();
    let connect = || SctpAssociation::connect(&stacks.1, "10.0.1.1:7");
    let (first, second) = (soon(connect()).await.unwrap(), soon(connect()).await.unwrap());
    // The ABORT may overtake COOKIE ACK.
    let error = match soon(connect()).await {
        Ok(third) => soon(third.recv()).await.unwrap_err().kind(),
        Err(error) => error.kind(),
    };
    assert!(matches!(error, ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused), "{error}");
    assert_eq!(server.assocs().len(), 2);
    first.finish().await.unwrap();
    soon(async {
        while server.assocs().len() > 1 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    let fourth = soon(connect()).await.unwrap();
    for peer in [&second, &fourth] {
        peer.send(b"x", on(0)).await.unwrap();
        soon(server.recv()).await.unwrap();
    }
    // The socket and two associations.
    soon(async {
        while stacks.0.sockets().sockets.len() != 3 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert_eq!(server.assocs().len(), 2);
}

/// A task that waits for nothing, since what it asks for is there each time, shares its thread. A thread of its own, so that one
/// that does not is a failure.
fn lets_others_run<F: AsyncFn()>(what: &str, prepare: impl AsyncFnOnce() -> F + Send + 'static) {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let busy = prepare().await;
            let others = async {
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                biased;
                () = async { loop { busy().await } } => {}
                () = others => {}
            }
        });
        tell.send(())
    });
    told.recv_timeout(Duration::from_secs(60)).expect(what);
}

#[test]
fn tasks_that_never_wait_for_an_association_let_others_run() {
    async fn connected() -> ((Stack, Stack), SctpSocket, AssocId, SctpSocket) {
        let stacks = two();
        let server = server(&stacks.0);
        let client = SctpSocket::bind(&stacks.1, "10.0.1.2:0").await.unwrap();
        let to = soon(client.connect("10.0.1.1:7")).await.unwrap();
        (stacks, client, to, server)
    }
    lets_others_run("writable", async || {
        let (stacks, client, to, server) = connected().await;
        async move || {
            let _held = (&stacks, &server);
            client.writable(to).await.unwrap();
        }
    });
    lets_others_run("writable_stream", async || {
        let (stacks, client, to, server) = connected().await;
        let alone = client.peel_off(to).unwrap();
        async move || {
            let _held = (&stacks, &client, &server);
            alone.writable_stream(0).await.unwrap();
        }
    });
    // Each ends at once, with an error.
    lets_others_run("send", async || {
        let (stacks, client, to, server) = connected().await;
        drop(client.peel_off(to).unwrap());
        async move || {
            let _held = (&stacks, &server);
            client.send(to, b"x", on(0)).await.unwrap_err();
        }
    });
    lets_others_run("finish", async || {
        let (stacks, client, to, server) = connected().await;
        let alone = client.peel_off(to).unwrap();
        async move || {
            let _held = (&stacks, &client, &server);
            alone.finish().await.unwrap();
        }
    });
}
