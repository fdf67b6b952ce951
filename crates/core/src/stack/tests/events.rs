//! A driver that takes no events, or few, while peers and programs make as many as they can: the queue keeps its bounds and
//! loses nothing.
use super::world::{World, at, ipv4_packet, v4};
use crate::base::limits::GONE_EVENTS_MAX;
use crate::base::{Duration, Error, SocketId, Tuple};
use crate::packet::Csum;
use crate::socket::{Decision, Event, ListenAddr, ListenOptions, RequestId};
use crate::tcp::{SendFlags, SocketOptions};
use lowwater_wire::protocol;

const SECOND: Duration = Duration::from_secs(1);
const BACKLOG: u32 = 16;

/// A SYN of peer number `n` to port 80 of the second stack.
fn syn(w: &mut World, n: u16) {
    let mut l4 = vec![0; 20];
    l4[..2].copy_from_slice(&(1_024 + n).to_be_bytes());
    l4[2..4].copy_from_slice(&80u16.to_be_bytes());
    (l4[12], l4[13], l4[14]) = (5 << 4, 2, 0xff);
    let mut packet = ipv4_packet([10, 0, 0, 1], [10, 0, 0, 2], protocol::TCP, &l4, w.now);
    packet.offload.csum = Csum::Valid;
    w.stacks[1].receive(w.now, w.devs[1], packet);
    w.stacks[1].flush(w.now);
}

fn listen(w: &mut World, ask: bool) -> SocketId {
    let options = SocketOptions::new(w.stacks[1].sysctl());
    let options = ListenOptions { ask, backlog: BACKLOG, ..ListenOptions::new(options) };
    w.stacks[1].tcp_listen(w.now, ListenAddr::port(80), options).expect("free")
}

/// Lets time pass for the second stack without taking its events.
fn wait(w: &mut World, time: Duration) {
    let end = w.now + time;
    while let Some(at) = w.stacks[1].next_deadline().filter(|at| *at <= end) {
        w.now = w.now.max(at);
        w.stacks[1].handle_timeout(w.now);
        let dev = w.devs[1];
        w.stacks[1].transmit(w.now, dev, 64, &mut |_, _| crate::device::Submit::Completed);
    }
    w.now = end;
}

fn events(w: &mut World) -> Vec<Event> {
    core::iter::from_fn(|| w.stacks[1].next_event()).collect()
}

fn incoming(event: &Event) -> Option<(RequestId, Tuple)> {
    match *event {
        Event::Incoming { request, tuple, .. } => Some((request, tuple)),
        _ => None,
    }
}

#[test]
fn a_flood_of_syns_leaves_no_more_events_than_the_syn_queue_has_places() {
    let mut w = World::plain();
    let listener = listen(&mut w, true);
    for round in 0..50 {
        (0..200).for_each(|n| syn(&mut w, round * 200 + n));
        assert_eq!(w.stacks[1].events.len(), BACKLOG as usize + 1, "one question per request");
        wait(&mut w, SECOND * 4);
        assert_eq!(w.stacks[1].events.len(), 0, "they came and went: there is nothing to tell");
    }
    assert_eq!(w.stacks[1].small_objects().0, 0);
    // And what is there now is told.
    syn(&mut w, 20_000);
    let all = events(&mut w);
    assert!(matches!(all[..], [Event::Incoming { listener: l, .. }] if l == listener), "{all:?}");
}

#[test]
fn every_request_that_was_told_is_told_to_be_gone_and_keeps_its_place_until_then() {
    let mut w = World::plain();
    let listener = listen(&mut w, true);
    let mut told: Vec<Tuple> = Vec::new();
    let mut gone: Vec<Tuple> = Vec::new();
    for n in 0..2_000 {
        syn(&mut w, n);
        if n % 7 == 0 {
            wait(&mut w, SECOND);
        }
        // One event for each five SYNs: this driver never keeps up.
        if n % 5 == 0 {
            match w.stacks[1].next_event() {
                Some(Event::RequestGone { listener: l, tuple }) if l == listener => gone.push(tuple),
                Some(event) => told.extend(incoming(&event).map(|(_, tuple)| tuple)),
                None => {}
            }
        }
        assert!(w.stacks[1].events.len() <= BACKLOG as usize + 1, "the SYN queue bounds what waits");
    }
    wait(&mut w, SECOND * 10);
    for event in events(&mut w) {
        match event {
            Event::RequestGone { tuple, .. } => gone.push(tuple),
            event => panic!("nothing is left to be decided: {event:?}"),
        }
    }
    assert!(told.len() > 50);
    assert_eq!(told, gone, "each once, in order");
    // The places are free again.
    (0..u16::from(BACKLOG as u8)).for_each(|n| syn(&mut w, 30_000 + n));
    assert_eq!(w.stacks[1].small_objects().0, BACKLOG as usize);
}

#[test]
fn a_decision_and_a_closed_listener_leave_nothing_behind() {
    let mut w = World::plain();
    let listener = listen(&mut w, true);
    (0..4).for_each(|n| syn(&mut w, n));
    let asked: Vec<_> = events(&mut w).iter().filter_map(incoming).collect();
    assert_eq!(asked.len(), 4);
    w.stacks[1].tcp_decide(w.now, asked[0].0, Decision::Accept).expect("waits");
    w.stacks[1].tcp_decide(w.now, asked[1].0, Decision::Drop).expect("waits");
    // The third and the fourth lapse; the first gives up after its SYN-ACKs.
    wait(&mut w, SECOND * 300);
    syn(&mut w, 9);
    w.stacks[1].close(w.now, listener).expect("open");
    assert_eq!(events(&mut w), [Event::Gone(listener)], "nobody asks about a listener that is gone");
    assert_eq!((w.stacks[1].small_objects().0, w.stacks[1].events.len()), (0, 0));
}

#[test]
fn a_socket_stands_in_the_queue_once_with_all_there_is_to_tell() {
    let mut w = World::plain();
    let listener = listen(&mut w, false);
    let options = SocketOptions::new(w.stacks[0].sysctl());
    let client = w.stacks[0].tcp_connect(w.now, at(v4(2), 80), None, &options).expect("a route");
    w.run(SECOND);
    let (server, _) = w.stacks[1].tcp_accept(w.now, listener).expect("one waits");
    w.events = Default::default();
    for _ in 0..100 {
        w.stacks[0].tcp_send(w.now, client, b"more", SendFlags::default()).expect("room");
        // Packets cross, events stay.
        let end = w.now + SECOND;
        while w.step_without_events(end) {}
        assert!(w.stacks[1].events.len() <= 1);
    }
    w.stacks[0].abort(w.now, client).expect("open");
    let end = w.now + SECOND;
    while w.step_without_events(end) {}
    assert_eq!(w.stacks[1].events.len(), 1);
    let told = events(&mut w);
    assert_eq!(told, [Event::Readable(server), Event::Writable(server), Event::Closed(server)]);
}

#[test]
fn ends_that_nobody_hears_of_stop_new_sockets() {
    let mut w = World::plain();
    for n in 0..GONE_EVENTS_MAX {
        let id = w.stacks[1].udp_bind(w.now, at(v4(2), 0)).unwrap_or_else(|e| panic!("{n}: {e:?}"));
        w.stacks[1].close(w.now, id).expect("open");
    }
    let options = SocketOptions::new(w.stacks[1].sysctl());
    let listener = ListenOptions::new(options.clone());
    let stack = &mut w.stacks[1];
    assert_eq!(stack.udp_bind(w.now, at(v4(2), 0)), Err(Error::NoBuffers));
    assert_eq!(stack.tcp_connect(w.now, at(v4(1), 80), None, &options), Err(Error::NoBuffers));
    assert_eq!(stack.tcp_listen(w.now, ListenAddr::port(80), listener), Err(Error::NoBuffers));
    assert!(matches!(stack.next_event(), Some(Event::Gone(_))));
    assert!(stack.udp_bind(w.now, at(v4(2), 0)).is_ok());
}

#[test]
fn followed_connections_that_are_gone_are_not_remembered() {
    let mut w = World::plain();
    listen(&mut w, false);
    let options = SocketOptions::new(w.stacks[0].sysctl());
    for round in 0..10 {
        let id = w.stacks[0].tcp_connect(w.now, at(v4(2), 80), None, &options).expect("a port");
        let _ = w.stacks[0].tcp_changed(id);
        w.run(SECOND);
        w.stacks[0].tcp_send(w.now, id, b"data", SendFlags::default()).expect("room");
        if round == 0 {
            assert_eq!(w.stacks[0].tcp_take_followed().into_iter().collect::<Vec<_>>(), [id]);
        }
        w.stacks[0].abort(w.now, id).expect("open");
        w.run(SECOND);
    }
    assert!(w.stacks[0].tcp_take_followed().is_empty());
}
