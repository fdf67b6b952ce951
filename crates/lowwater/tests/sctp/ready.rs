//! Readiness of SCTP's sockets in sets.
use crate::world::{message, on, two};
use lowwater::blocking::{SctpAssociation, SctpListener, SctpSocket};
use lowwater::ready::{Events, Seen, Set};
use lowwater::sctp::{ListenOptions, SctpOptions};
use std::time::Duration;

/// Long enough for anything that is to come.
const SOON: Option<Duration> = Some(Duration::from_secs(30));
/// Not at all: what is there now.
const NOW: Option<Duration> = Some(Duration::ZERO);

fn told(set: &Set) -> Vec<(u64, Events)> {
    set.wait(8, SOON).unwrap().into_iter().map(|Seen { token, events }| (token, events)).collect()
}

fn nothing(set: &Set) -> bool {
    set.wait(8, NOW).unwrap().is_empty()
}

#[test]
fn listeners_and_associations_are_told_by_level() {
    let stacks = two();
    let listener = SctpListener::bind(&stacks.0, "10.0.1.1:7").unwrap();
    let set = Set::new(&stacks.0).unwrap();
    set.add(&listener, 1, Events::IN).unwrap();
    assert!(nothing(&set));
    let here = SctpAssociation::connect(&stacks.1, "10.0.1.1:7").unwrap();
    assert_eq!(told(&set), [(1, Events::IN)]);
    let (there, _) = listener.accept().unwrap();
    assert!(nothing(&set));
    set.add(&there, 2, Events::IN).unwrap();
    assert!(nothing(&set));
    here.send(b"x", on(0)).unwrap();
    assert_eq!(told(&set), [(2, Events::IN)]);
    assert_eq!(told(&set), [(2, Events::IN)]);
    there.recv().unwrap();
    assert!(nothing(&set));
    here.finish().unwrap();
    there.finish().unwrap();
    let (token, events) = told(&set)[0];
    assert!(token == 2 && events.contains(Events::IN | Events::HUP), "{events:?}");
}

#[test]
fn a_writer_by_edges_is_told_under_half_of_the_mark() {
    let stacks = two();
    let options = SctpOptions { notsent_lowat: 10_000, rcvbuf: 8_192, ..stacks.0.sctp_options() };
    let listen = ListenOptions {
        local: vec!["10.0.1.1:7".parse().unwrap()],
        options: Some(options.clone()),
        ..ListenOptions::default()
    };
    let listener = SctpListener::listen(&stacks.0, &listen).unwrap();
    let here = SctpAssociation::connect(&stacks.1, "10.0.1.1:7").unwrap();
    let (there, _) = listener.accept().unwrap();
    here.set_options(|o| *o = options).unwrap();
    here.set_nonblocking(true).unwrap();
    let set = Set::new(&stacks.1).unwrap();
    set.add(&here, 3, Events::OUT | Events::ET).unwrap();
    assert_eq!(told(&set), [(3, Events::OUT)]);
    let mut sent = 0;
    while here.send_bytes(&message(sent, 1_000), on(0)).is_ok() {
        sent += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
    // Edges of the time before there was no room.
    while !nothing(&set) {}
    let mut read = 0;
    while nothing(&set) {
        there.recv().unwrap();
        read += 1;
        std::thread::sleep(Duration::from_millis(1));
        assert!(read < sent, "never told");
    }
    let unsent = here.info().unwrap().unsent_bytes;
    assert!(unsent < 5_000, "{unsent}");
}

#[test]
fn a_one_to_many_socket_is_told_for_all_of_its_associations() {
    let stacks = two();
    let server = SctpSocket::bind(&stacks.0, "10.0.1.1:7").unwrap();
    let set = Set::new(&stacks.0).unwrap();
    set.add(&server, 1, Events::IN | Events::OUT).unwrap();
    assert_eq!(told(&set), [(1, Events::OUT)]);
    set.modify(&server, 1, Events::IN).unwrap();
    assert!(nothing(&set));
    let peers: Vec<_> = (0..3).map(|_| SctpAssociation::connect(&stacks.1, "10.0.1.1:7").unwrap()).collect();
    assert!(nothing(&set));
    for peer in &peers {
        peer.send(b"x", on(0)).unwrap();
    }
    for _ in &peers {
        assert_eq!(told(&set), [(1, Events::IN)]);
        server.recv().unwrap();
    }
    assert!(nothing(&set));
    // The end of an association is nothing to read without a notification.
    peers[0].finish().unwrap();
    while server.assocs().len() > 2 {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(nothing(&set));
}

/// A message that comes says nothing of the room for those that go.
#[test]
fn a_full_one_to_many_socket_is_not_writable_because_something_can_be_read() {
    let stacks = two();
    let server = SctpSocket::bind(&stacks.0, "10.0.1.1:7").unwrap();
    let peer = SctpAssociation::connect(&stacks.1, "10.0.1.1:7").unwrap();
    peer.send(b"first", on(0)).unwrap();
    let (id, _) = server.recv().unwrap();
    server.set_nonblocking(true).unwrap();
    while server.send_bytes(id, &message(0, 10_000), on(0)).is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let set = Set::new(&stacks.0).unwrap();
    set.add(&server, 1, Events::OUT).unwrap();
    while !nothing(&set) {}
    set.modify(&server, 1, Events::IN | Events::OUT).unwrap();
    peer.send(b"second", on(0)).unwrap();
    assert_eq!(told(&set), [(1, Events::IN)]);
}
