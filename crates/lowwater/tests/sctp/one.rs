//! One association a socket.
use crate::world::{addr, message, next, on, pair, soon, two, whole};
use bytes::Bytes;
use lowwater::sctp::{
    AssocChange, ConnectOptions, Features, Notification, Outcome, PathState, Received, Reconfigurable,
    Reliability, ResetWhat, SctpOptions, SendFailed, SendInfo, State, Subscriptions,
};
use lowwater::{SctpAssociation, SctpListener, SctpSocket, Stack};
use std::io::ErrorKind;
use std::time::Duration;

const fn send_and_sync<T: Send + Sync>() {}

#[test]
fn handles_go_to_any_thread() {
    send_and_sync::<SctpListener>();
    send_and_sync::<SctpAssociation>();
    send_and_sync::<SctpSocket>();
    send_and_sync::<lowwater::blocking::SctpAssociation>();
}

#[tokio::test]
async fn a_message_comes_back_with_all_that_is_said_of_it() {
    let stacks = two();
    let (there, here) = pair(&stacks, &stacks.0.sctp_options()).await;
    let info = SendInfo { stream: 3, ppid: 0xdead_beef, ..SendInfo::default() };
    for n in 0..3 {
        here.send(b"ping", info).await.unwrap();
        let (data, got) = next(&there).await;
        assert_eq!(
            (&data[..], got.stream, got.ssn, got.ppid, got.unordered),
            (&b"ping"[..], 3, n, 0xdead_beef, false)
        );
        there.send_bytes(data, SendInfo { unordered: true, ..info }).await.unwrap();
        let (data, got) = next(&here).await;
        assert_eq!((&data[..], got.stream, got.ppid, got.unordered), (&b"ping"[..], 3, 0xdead_beef, true));
    }
    soon(here.finish()).await.unwrap();
    assert!(matches!(soon(there.recv()).await, Ok(None)));
    soon(there.finish()).await.unwrap();
    assert_eq!((here.state().unwrap(), there.state().unwrap()), (State::Closed, State::Closed));
}

#[tokio::test]
async fn messages_on_streams_arrive_whole_and_in_the_order_of_each_stream() {
    let stacks = two();
    let (there, here) = pair(&stacks, &stacks.0.sctp_options()).await;
    let send = async {
        for n in 0..500 {
            here.send_bytes(message(n, 1 + n as usize * 7), on((n % 10) as u16)).await.unwrap();
        }
        here.finish().await.unwrap();
    };
    let receive = async {
        let (mut count, mut begun) = ([0u64; 10], Vec::new());
        while let Some(received) = there.recv().await.unwrap() {
            // Parts of one message follow each other.
            let Received::Data { data, info, eor } = received else { panic!("{received:?}") };
            begun.extend_from_slice(&data);
            if !eor {
                continue;
            }
            let n = count[usize::from(info.stream)] * 10 + u64::from(info.stream);
            assert_eq!(std::mem::take(&mut begun), message(n, 1 + n as usize * 7));
            assert_eq!(u64::from(info.ssn), n / 10);
            count[usize::from(info.stream)] += 1;
        }
        count
    };
    let ((), count) = soon(async { tokio::join!(send, receive) }).await;
    assert_eq!(count, [50; 10]);
}

#[tokio::test]
async fn a_message_larger_than_the_window_comes_in_parts_and_eor_ends_it() {
    let stacks = two();
    let (there, here) = pair(&stacks, &stacks.0.sctp_options()).await;
    let sent = message(1, 1 << 20);
    here.send_bytes(sent.clone(), on(0)).await.unwrap();
    let (mut got, mut parts) = (Vec::new(), 0);
    loop {
        let Some(Received::Data { data, eor, .. }) = soon(there.recv()).await.unwrap() else {
            panic!("data")
        };
        got.extend_from_slice(&data);
        parts += 1;
        if eor {
            break;
        }
    }
    assert!(got == sent && parts > 1, "{parts} parts of {} bytes", got.len());

    // One that fits is whole, unless the reader wants less at once.
    here.send(b"12345", on(0)).await.unwrap();
    let Some(Received::Data { data, eor, .. }) = soon(there.recv_part(3)).await.unwrap() else {
        panic!("data")
    };
    assert_eq!((&data[..], eor), (&b"123"[..], false));
    assert_eq!(next(&there).await.0, "45");
}

#[tokio::test]
async fn a_dropped_recv_loses_nothing_and_a_dropped_connect_leaves_nothing() {
    let stacks = two();
    let (there, here) = pair(&stacks, &stacks.0.sctp_options()).await;
    assert!(tokio::time::timeout(Duration::from_millis(5), there.recv()).await.is_err());
    here.send(b"late", on(0)).await.unwrap();
    assert_eq!(next(&there).await.0, "late");

    let nobody = SctpAssociation::connect(&stacks.1, "10.0.1.77:9");
    assert!(tokio::time::timeout(Duration::from_millis(5), nobody).await.is_err());
    assert_eq!(stacks.1.sockets().sockets.len(), 1);
}

#[tokio::test]
async fn a_writer_waits_above_the_low_water_mark_and_is_woken_under_its_half() {
    let stacks = two();
    let options = SctpOptions { notsent_lowat: 10_000, rcvbuf: 8_192, ..stacks.0.sctp_options() };
    let (there, here) = pair(&stacks, &options).await;
    let mut sent = 0;
    // The peer reads nothing, so that its window closes; then only the mark decides.
    while here.try_send(message(sent, 1_000), on(0)).is_ok() {
        sent += 1;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let unsent = here.info().unwrap().unsent_bytes;
    assert!((10_000..11_000).contains(&unsent), "{unsent}");
    assert_eq!(here.try_send(message(0, 1), on(0)).unwrap_err().kind(), ErrorKind::WouldBlock);
    let mut writable = Box::pin(here.writable());
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut writable).await.is_err());
    let mut read = 0;
    let mut woken_at = None;
    while read < sent {
        tokio::select! {
            biased;
            woken = &mut writable, if woken_at.is_none() => {
                woken.unwrap();
                woken_at = Some(here.info().unwrap().unsent_bytes);
            }
            () = async {} => {
                assert_eq!(next(&there).await.0, message(read, 1_000));
                read += 1;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
    let woken_at = match woken_at {
        Some(at) => at,
        None => soon(writable).await.map(|()| here.info().unwrap().unsent_bytes).unwrap(),
    };
    assert!(woken_at < 5_000, "{woken_at}");
}

#[tokio::test]
async fn a_stream_is_full_by_itself_and_its_writer_is_woken_under_half_of_its_mark() {
    let stacks = two();
    let options = SctpOptions { stream_lowat: 10_000, rcvbuf: 8_192, ..stacks.0.sctp_options() };
    let (there, here) = pair(&stacks, &options).await;
    let (mut on_one, mut on_two) = (0, 0);
    while here.try_send(message(on_one, 1_000), on(1)).is_ok() {
        on_one += 1;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // The stream is full, the association is not.
    soon(here.writable()).await.unwrap();
    soon(here.writable_stream(2)).await.unwrap();
    let mut freed = Box::pin(here.writable_stream(1));
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut freed).await.is_err());
    while here.try_send(message(on_two, 1_000), on(2)).is_ok() {
        on_two += 1;
    }
    assert_eq!(on_two, 10);
    let before = here.info().unwrap().unsent_bytes;
    assert!((20_000..21_000).contains(&before), "{before}");
    let mut woken_at = None;
    for n in 0..on_one + on_two {
        let (data, info) = next(&there).await;
        let first = info.stream == 1;
        assert_eq!(data, message(if first { n } else { n - on_one }, 1_000));
        tokio::task::yield_now().await;
        if woken_at.is_none() && tokio::time::timeout(Duration::from_millis(2), &mut freed).await.is_ok() {
            woken_at = Some(here.info().unwrap().unsent_bytes);
        }
    }
    // Less than half of its mark, and all of the other stream, were unsent at the most.
    let woken_at = woken_at.expect("the writer was woken");
    assert!(woken_at < 15_000, "{woken_at}");
}

#[tokio::test]
async fn pieces_are_what_came_in_packets() {
    let stacks = two();
    let options = SctpOptions { rcvbuf: 1 << 20, ..stacks.0.sctp_options() };
    let (there, here) = pair(&stacks, &options).await;
    let sent = message(3, 20_000);
    here.send_bytes(sent.clone(), on(0)).await.unwrap();
    let (mut got, mut pieces) = (Vec::new(), 0);
    loop {
        let Some(Received::Data { data, eor, .. }) = soon(there.recv_piece()).await.unwrap() else {
            panic!("data")
        };
        assert!(data.len() <= 1_500);
        got.extend_from_slice(&data);
        pieces += 1;
        if eor {
            break;
        }
    }
    assert!(got == sent && pieces >= 14, "{pieces}");
}

#[tokio::test]
async fn an_abort_tells_its_reason_and_a_drop_delivers_what_was_queued() {
    let stacks = two();
    let wants = SctpOptions { events: Subscriptions::ASSOC, ..stacks.0.sctp_options() };
    let (there, here) = pair(&stacks, &wants).await;
    here.abort(b"because").unwrap();
    let mut reason = None;
    loop {
        match soon(there.recv()).await {
            Ok(Some(Received::Notification(Notification::Assoc {
                change: AssocChange::Lost, info, ..
            }))) => {
                reason = Some(info);
            }
            Ok(Some(_)) => {}
            Ok(None) => panic!("no error"),
            Err(e) => break assert_eq!(e.kind(), ErrorKind::ConnectionReset),
        }
    }
    let reason = reason.expect("a notification");
    assert!(reason.windows(7).any(|w| w == b"because"), "{reason:?}");
    assert_eq!(here.send(b"x", on(0)).await.unwrap_err().kind(), ErrorKind::ConnectionAborted);

    let (there, here) = pair(&stacks, &stacks.0.sctp_options()).await;
    let sent = message(9, 50_000);
    here.send_bytes(sent.clone(), on(1)).await.unwrap();
    drop(here);
    let (mut got, mut end) = (Vec::new(), false);
    while let Some(Received::Data { data, eor, .. }) = soon(there.recv()).await.unwrap() {
        got.extend_from_slice(&data);
        end = eor;
    }
    assert!(end && got == sent);
}

#[tokio::test]
async fn a_drop_with_unread_messages_or_of_a_listener_aborts() {
    let stacks = two();
    let (there, here) = pair(&stacks, &stacks.0.sctp_options()).await;
    there.send(b"never read", on(0)).await.unwrap();
    soon(here.readable()).await.unwrap();
    drop(here);
    assert_eq!(soon(there.recv()).await.unwrap_err().kind(), ErrorKind::ConnectionReset);

    let listener = SctpListener::bind(&stacks.0, "10.0.1.1:99").await.unwrap();
    let here = soon(SctpAssociation::connect(&stacks.1, "10.0.1.1:99")).await.unwrap();
    drop(listener);
    assert_eq!(soon(here.recv()).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn who_cannot_connect_learns_why() {
    let stacks = two();
    let try_at = |to: &'static [&'static str]| {
        let to: Vec<_> = to.iter().map(|to| addr(to)).collect();
        let stack = stacks.1.clone();
        async move { soon(SctpAssociation::connect(&stack, &to[..])).await.map(drop).map_err(|e| e.kind()) }
    };
    assert_eq!(try_at(&["10.0.1.1:9"]).await, Err(ErrorKind::ConnectionRefused));
    assert_eq!(try_at(&["192.0.2.1:9"]).await, Err(ErrorKind::NetworkUnreachable));
    assert_eq!(try_at(&["10.0.1.1:9", "10.0.2.1:10"]).await, Err(ErrorKind::InvalidInput));
    assert_eq!(try_at(&[]).await, Err(ErrorKind::InvalidInput));
    for (ours, the_peers) in [(0, 10), (10, 0)] {
        let options = SctpOptions { num_ostreams: ours, max_instreams: the_peers, ..stacks.1.sctp_options() };
        let none = ConnectOptions { options: Some(options), ..ConnectOptions::default() };
        let told = soon(SctpAssociation::connect_with(&stacks.1, "10.0.1.1:7", &none)).await.unwrap_err();
        assert_eq!(told.kind(), ErrorKind::InvalidInput, "an association without streams is none");
    }
    let (there, here) = pair(&stacks, &stacks.0.sctp_options()).await;
    assert_eq!(here.send(b"", on(0)).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(here.send(b"x", on(10)).await.unwrap_err().kind(), ErrorKind::InvalidInput);
    drop(there);
}

/// A sentence where the call itself is wrong, with the kind and the number of the kernel's error; what the peer or the network brings keeps
/// the number alone, as TCP's errors do.
#[tokio::test]
async fn what_is_wrong_with_a_call_is_told_in_a_sentence() {
    use lowwater::sctp::{Explained, ListenOptions};
    let told = |result: std::io::Result<()>, why: &str, errno: i32| {
        let error = result.unwrap_err();
        assert!(error.to_string().contains(why), "{error}: {why}");
        let source = error.get_ref().and_then(|inner| inner.downcast_ref::<Explained>()).unwrap();
        assert_eq!((source.errno(), error.raw_os_error()), (errno, None), "{error}");
        assert_eq!(error.kind(), std::io::Error::from_raw_os_error(errno).kind(), "{error}");
    };
    const EINVAL: i32 = 22;
    let stacks = two();
    let open = |peer: &[&str], ours: &[&str]| {
        let all = |texts: &[&str]| texts.iter().map(|text| addr(text)).collect::<Vec<_>>();
        let options = ConnectOptions { local: all(ours), ..ConnectOptions::default() };
        SctpAssociation::open(&stacks.1, &all(peer)[..], &options).map(drop)
    };
    told(
        open(&["10.0.1.1:7", "10.0.2.1:8"], &[]),
        "the peer's addresses have different ports (7 and 8)",
        EINVAL,
    );
    told(open(&["10.0.1.1:0"], &[]), "the peer's port is 0", EINVAL);
    told(open(&["224.0.0.9:7"], &[]), "224.0.0.9 is no peer's address", EINVAL);
    told(open(&["10.0.1.1:7"], &["10.0.1.2:1", "10.0.2.2:2"]), "our addresses have different ports", EINVAL);
    let apart =
        ListenOptions { local: vec![addr("10.0.1.1:7"), addr("10.0.2.1:8")], ..ListenOptions::default() };
    told(
        SctpListener::listen(&stacks.0, &apart).map(drop),
        "our addresses have different ports (7 and 8)",
        EINVAL,
    );
    let many = SctpSocket::bind(&stacks.1, "10.0.1.2:5").await.unwrap();
    told(many.connect("10.0.1.1:0").await.map(drop), "the peer's port is 0", EINVAL);

    let options = SctpOptions { disable_fragments: true, ..stacks.0.sctp_options() };
    let (there, here) = pair(&stacks, &options).await;
    told(here.send(b"", on(0)).await, "the message is empty", EINVAL);
    told(here.send(b"x", on(10)).await, "there is no stream 10: the association has 10", EINVAL);
    told(here.try_send(message(0, 9), on(99)), "there is no stream 99", EINVAL);
    told(soon(here.writable_stream(10)).await, "there is no stream 10", EINVAL);
    let astray = SendInfo { to: Some("10.0.9.9".parse().unwrap()), ..on(0) };
    told(here.send(b"x", astray).await, "10.0.9.9 is no address of the peer", EINVAL);
    told(here.send(&[0; 2_000], on(0)).await, "a message of 2000 bytes fits no packet", 90);
    let stranger = "10.0.9.9".parse().unwrap();
    told(here.set_primary(stranger), "is no address of the peer", EINVAL);
    told(here.set_path(stranger, |_| {}), "is no address of the peer", EINVAL);
    told(here.heartbeat(stranger), "is no address of the peer", EINVAL);
    told(here.reset_streams(&[0], true, false), "Features::RECONF", 92);
    let refused = soon(SctpAssociation::connect(&stacks.1, "10.0.1.1:9")).await.unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(111), "the peer's answer keeps its number");
    drop(there);
}

/// The packets of the second path are held back, so that its heartbeat is not answered.
#[tokio::test]
async fn an_address_that_was_not_confirmed_is_told_from_one_that_is_not_there() {
    let limit = lowwater::link::QueueLimit::default();
    let end = |n: u8| {
        let [(first, one), (second, held)] = [(); 2].map(|()| lowwater::link::owned(1_500, limit));
        let stack = Stack::builder().device(first).address(&format!("10.0.1.{n}/24"));
        (stack.device(second).address(&format!("10.0.2.{n}/24")).build().unwrap(), one, held)
    };
    let ((server, one, _held), (client, two, _held_too)) = (end(1), end(2));
    for (from, to) in [(one.clone(), two.clone()), (two, one)] {
        tokio::spawn(async move {
            while let Some(packet) = from.recv().await {
                if to.send(packet.bytes()).await.is_err() {
                    return;
                }
            }
        });
    }
    let listener = SctpListener::bind(&server, &[addr("10.0.1.1:7"), addr("10.0.2.1:7")][..]).await.unwrap();
    let connecting = SctpAssociation::connect(&client, "10.0.1.1:7");
    let (there, here) = soon(async { tokio::join!(listener.accept(), connecting) }).await;
    let (_there, here) = (there.unwrap(), here.unwrap());
    let second = "10.0.2.1".parse().unwrap();
    let paths = here.info().unwrap().paths;
    assert!(paths.iter().any(|p| p.remote == second && p.state == PathState::Unconfirmed), "{paths:?}");
    let told = here.set_primary(second).unwrap_err();
    assert!(told.to_string().contains("has not confirmed that 10.0.2.1 is its own"), "{told}");
    assert_eq!(told.kind(), ErrorKind::InvalidInput);
    // Only who is to have the data must be known.
    here.heartbeat(second).unwrap();
}

#[tokio::test]
async fn what_is_wrong_with_a_reconfiguration_is_told_in_a_sentence() {
    let stacks = two();
    let features = Features(stacks.0.sctp_options().features.0 | Features::RECONF);
    let options = SctpOptions { features, ..stacks.0.sctp_options() };
    let (there, here) = pair(&stacks, &options).await;
    let told = |result: std::io::Result<()>, why: &str| {
        let error = result.unwrap_err();
        assert!(error.to_string().contains(why), "{error}: {why}");
    };
    told(here.reset_streams(&[0], true, false), "it lacks Reconfigurable::STREAMS");
    told(here.reset_association(), "it lacks Reconfigurable::ASSOCIATION");
    told(here.add_streams(1, 0), "it lacks Reconfigurable::COUNT");
    for end in [&here, &there] {
        end.set_options(|o| o.reconfigurable = Reconfigurable::ALL).unwrap();
    }
    told(here.reset_streams(&[10], true, false), "name streams that there are");
    told(here.reset_streams(&[0], false, false), "and a direction");
    told(here.add_streams(0, 0), "add one stream at least");
    here.add_streams(1, 0).unwrap();
    told(here.add_streams(1, 0), "is not answered yet");
}

#[tokio::test]
async fn several_addresses_are_paths_that_can_be_asked_and_set() {
    let stacks = two();
    let options = SctpOptions { events: Subscriptions::PATH, ..stacks.1.sctp_options() };
    let listener =
        SctpListener::bind(&stacks.0, &[addr("10.0.1.1:7"), addr("10.0.2.1:7")][..]).await.unwrap();
    let connect =
        ConnectOptions { local: vec![addr("10.0.1.2:0"), addr("10.0.2.2:0")], options: Some(options) };
    let peers = [addr("10.0.1.1:7"), addr("10.0.2.1:7")];
    let connecting = SctpAssociation::connect_with(&stacks.1, peers[0], &connect);
    let (accepted, here) = soon(async { tokio::join!(listener.accept(), connecting) }).await;
    let ((there, _), here) = (accepted.unwrap(), here.unwrap());
    assert_eq!((here.peer_addrs().unwrap(), there.peer_addrs().unwrap().len()), (peers.to_vec(), 2));
    assert_eq!(here.local_addrs().unwrap().len(), 2);

    // The second address came with INIT ACK: a heartbeat confirms it before it can be the primary one.
    let second = peers[1].ip();
    let confirmed = async {
        while here.info().unwrap().paths.iter().any(|p| p.state == PathState::Unconfirmed) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(confirmed).await;
    here.set_primary(second).unwrap();
    here.set_path(second, |path| (path.hb_interval_ms, path.max_retrans) = (250, 9)).unwrap();
    assert_eq!(here.set_primary("10.0.9.9".parse().unwrap()).unwrap_err().kind(), ErrorKind::InvalidInput);
    here.send(b"by the second path", on(0)).await.unwrap();
    assert_eq!(next(&there).await.0, "by the second path");
    let info = here.info().unwrap();
    let path = info.paths.iter().find(|p| p.remote == second).unwrap();
    assert!(
        path.primary && path.active && path.mtu == 1500 && path.cwnd > 0 && path.srtt.is_some(),
        "{path:?}"
    );
    let mut confirmed = false;
    while let Ok(Some(received)) = here.try_recv() {
        let Received::Notification(Notification::Path { address, change }) = received else {
            panic!("{received:?}")
        };
        confirmed |= address == second && change == lowwater::sctp::PathChange::Confirmed;
    }
    assert!(confirmed);
    assert!(stacks.1.counters().own.sctp_heartbeats >= 1);
}

#[tokio::test]
async fn notifications_are_read_in_order_with_the_messages() {
    let stacks = two();
    // All but those of paths, which come when heartbeats do.
    let events = Subscriptions(Subscriptions::ALL.0 & !Subscriptions::PATH.0);
    let options = SctpOptions { events, ..stacks.0.sctp_options() };
    let (there, here) = pair(&stacks, &options).await;
    let up =
        |r| matches!(r, Some(Received::Notification(Notification::Assoc { change: AssocChange::Up, .. })));
    assert!(up(soon(here.recv()).await.unwrap()) && up(soon(there.recv()).await.unwrap()));
    here.send(b"one", on(0)).await.unwrap();
    assert_eq!(next(&there).await.0, Bytes::from("one"));
    let Some(Received::Notification(Notification::SenderDry)) = soon(here.recv()).await.unwrap() else {
        panic!("no SENDER DRY")
    };
    here.shutdown().unwrap();
    let mut kinds = Vec::new();
    // The end of what the peer sends comes before the end of the association.
    for ends in 0..2 {
        while let Some(received) = soon(there.recv()).await.unwrap() {
            let Received::Notification(note) = received else { panic!("{received:?}") };
            kinds.push(note.kind());
        }
        if ends == 0 {
            soon(there.finish()).await.unwrap();
        }
    }
    assert_eq!(kinds, [Subscriptions::SHUTDOWN, Subscriptions::ASSOC]);
}

#[tokio::test]
async fn streams_begin_anew_and_are_added() {
    let stacks = two();
    let events = Subscriptions::STREAM_RESET.with(Subscriptions::STREAM_CHANGE);
    let mut options = SctpOptions { events, reconfigurable: Reconfigurable::ALL, ..stacks.0.sctp_options() };
    options.features.0 |= Features::RECONF;
    let (there, here) = pair(&stacks, &options).await;
    here.send(b"one", on(3)).await.unwrap();
    assert_eq!(next(&there).await.1.ssn, 0);
    here.reset_streams(&[3], true, false).unwrap();
    assert!(here.reset_association().is_err(), "one request at a time");
    let told = |what| Notification::StreamReset { what, outcome: Outcome::Done, streams: vec![3] };
    let note = |r: Option<Received>| match r {
        Some(Received::Notification(note)) => note,
        other => panic!("{other:?}"),
    };
    assert_eq!(note(soon(here.recv()).await.unwrap()), told(ResetWhat::Outgoing));
    assert_eq!(note(soon(there.recv()).await.unwrap()), told(ResetWhat::Incoming));
    here.send(b"two", on(3)).await.unwrap();
    assert_eq!(next(&there).await.1.ssn, 0);
    let (outbound, inbound) = here.info().unwrap().streams;
    here.add_streams(2, 0).unwrap();
    let added = Notification::StreamChange { outcome: Outcome::Done, incoming: 0, outgoing: 2 };
    assert_eq!(note(soon(here.recv()).await.unwrap()), added);
    assert_eq!(here.info().unwrap().streams, (outbound + 2, inbound));
    here.send(b"three", on(outbound + 1)).await.unwrap();
    assert!(matches!(
        note(soon(there.recv()).await.unwrap()),
        Notification::StreamChange { incoming: 2, .. }
    ));
    assert_eq!(next(&there).await.1.stream, outbound + 1);
}

#[tokio::test]
async fn what_a_lifetime_ended_is_told() {
    let stacks = two();
    let events = Subscriptions::SEND_FAILED;
    let options = SctpOptions { events, rcvbuf: 4_096, ..stacks.0.sctp_options() };
    let (there, here) = pair(&stacks, &options).await;
    for n in 0..10 {
        let reliability = Reliability::Lifetime(Duration::from_millis(30));
        let info = SendInfo { reliability, context: n as u32, ..on(0) };
        here.send_bytes(message(n, 1_000), info).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(60)).await;
    let mut arrived = 0;
    let mut failed = Vec::new();
    while arrived + failed.len() < 10 {
        tokio::select! {
            received = soon(there.recv()) => {
                let (data, _) = whole(received.unwrap().unwrap());
                assert_eq!(data, message(arrived as u64, 1_000));
                arrived += 1;
            }
            received = soon(here.recv()) => match received.unwrap().unwrap() {
                Received::Notification(Notification::SendFailed(SendFailed { context, sent: false, .. })) => failed.push(context),
                other => panic!("{other:?}"),
            },
        }
    }
    assert!(!failed.is_empty() && failed.iter().all(|n| *n as usize >= arrived), "{arrived} {failed:?}");
}
