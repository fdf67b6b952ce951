//! Threads instead of tasks.
use crate::world::{on, two, whole};
use lowwater::blocking::{SctpAssociation, SctpListener, SctpSocket};
use lowwater::sctp::Received;
use std::io::ErrorKind;
use std::thread;
use std::time::Duration;

#[test]
fn threads_talk() {
    let stacks = two();
    let listener = SctpListener::bind(&stacks.0, "10.0.1.1:7").unwrap();
    thread::scope(|s| {
        s.spawn(|| {
            let (peer, _) = listener.accept().unwrap();
            while let Some(received) = peer.recv().unwrap() {
                let (data, info) = whole(received);
                peer.send_bytes(&data, on(info.stream)).unwrap();
            }
        });
        let here = SctpAssociation::connect(&stacks.1, "10.0.1.1:7").unwrap();
        for n in 0..100u16 {
            here.send(&n.to_be_bytes(), on(n % 10)).unwrap();
            let (data, info) = whole(here.recv().unwrap().unwrap());
            assert_eq!((&data[..], info.stream), (&n.to_be_bytes()[..], n % 10));
        }
        here.finish().unwrap();
    });
}

#[test]
fn timeouts_and_nonblocking_calls_are_those_of_std() {
    let stacks = two();
    let listener = SctpListener::bind(&stacks.0, "10.0.1.1:7").unwrap();
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    listener.set_nonblocking(false).unwrap();
    let here = SctpAssociation::connect(&stacks.1, "10.0.1.1:7").unwrap();
    let (_there, _) = listener.accept().unwrap();
    here.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    assert_eq!(here.recv().unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(here.set_read_timeout(Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(
        SctpAssociation::connect(&stacks.1, "10.0.1.1:8").unwrap_err().kind(),
        ErrorKind::ConnectionRefused
    );
}

#[test]
fn one_socket_for_many_associations_blocks_too() {
    let stacks = two();
    let server = SctpSocket::bind(&stacks.0, "10.0.1.1:7").unwrap();
    let client = SctpSocket::bind(&stacks.1, "10.0.1.2:0").unwrap();
    thread::scope(|s| {
        s.spawn(|| {
            for _ in 0..2 {
                let (id, received) = server.recv().unwrap();
                server.send_bytes(id, &whole(received).0, on(0)).unwrap();
            }
        });
        let id = client.connect("10.0.1.1:7").unwrap();
        client.send(id, b"one", on(0)).unwrap();
        assert_eq!(client.send_to(b"two", "10.0.1.1:7".parse().unwrap(), on(0)).unwrap(), id);
        for text in ["one", "two"] {
            let (from, Received::Data { data, .. }) = client.recv().unwrap() else { panic!("data") };
            assert_eq!((from, &data[..]), (id, text.as_bytes()));
        }
        let own = client.peel_off(id).unwrap();
        own.finish().unwrap();
    });
}
