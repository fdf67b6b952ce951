//! What the stack does below the transports: echo, neighbours, drops.
use super::tcp::{NO_FLAGS, SECOND, listen, options};
use super::world::{World, at, ipv4_packet, v4, v6};
use crate::base::limits::NEIGHBOUR_QUEUE_PACKETS;
use crate::base::{DropWhy, Instant, SocketId};
use crate::device::DeviceCaps;
use crate::ip::neigh::State as Neighbour;
use crate::packet::{Offload, Packet};
use crate::sctp::{SctpOptions, SendInfo};
use crate::socket::{ListenAddr, ListenOptions};
use crate::stack::Event;
use crate::tcp::{SocketOptions, State};
use bytes::Bytes;
use lowwater_wire::{checksum, protocol};

/// An ICMP echo request from 10.0.0.1 to 10.0.0.2.
fn echo_request() -> Packet {
    let mut icmp = vec![8, 0, 0, 0, 0x12, 0x34, 0, 1];
    icmp.extend_from_slice(b"ping");
    let sum = checksum::checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    ipv4_packet([10, 0, 0, 1], [10, 0, 0, 2], protocol::ICMP, &icmp, Instant::ZERO)
}

#[test]
fn an_echo_request_is_answered() {
    let mut w = World::plain();
    w.stacks[1].receive(w.now, w.devs[1], echo_request());
    w.run(SECOND);
    let icmp = &w.stacks[1].counters().icmp;
    assert_eq!((icmp.in_echos, icmp.out_echo_reps), (1, 1));
    assert_eq!(w.crossed, [0, 1]);
}

#[test]
fn neighbours_on_ethernet_are_found_before_the_first_packet() {
    let caps = [1, 2].map(|n| DeviceCaps { ethernet: Some([2, 0, 0, 0, 0, n]), ..DeviceCaps::plain(1_500) });
    for (a, b) in [(v4(1), v4(2)), (v6(1), v6(2))] {
        let mut w = World::new(caps);
        let client = w.stacks[0].udp_bind(w.now, at(a, 0)).expect("free");
        let server = w.stacks[1].udp_bind(w.now, at(b, 7)).expect("free");
        w.stacks[0].udp_send_to(w.now, client, Bytes::from_static(b"over"), at(b, 7)).expect("room");
        w.run(SECOND);
        assert_eq!(w.stacks[1].udp_recv_from(w.now, server).map(|(d, _)| d), Ok(Bytes::from_static(b"over")));
        assert_eq!(w.crossed, [2, 1], "a question, its answer, the datagram");
        w.stacks[0].close(w.now, client).expect("open");
        w.run(SECOND);
        assert_eq!(w.stacks[0].open_sockets(), 0, "its credit came back");
    }
}

#[test]
fn a_neighbour_that_does_not_exist_gives_the_credit_back() {
    let mac = Some([2, 0, 0, 0, 0, 1]);
    let mut w = World::new([DeviceCaps { ethernet: mac, ..DeviceCaps::plain(1_500) }; 2]);
    let client = w.stacks[0].udp_bind(w.now, at(v4(1), 0)).expect("free");
    w.stacks[0].udp_send_to(w.now, client, Bytes::from_static(b"lost"), at(v4(77), 7)).expect("room");
    w.stacks[0].close(w.now, client).expect("open");
    w.run(SECOND * 30);
    assert_eq!(w.stacks[0].open_sockets(), 0);
}

/// Two stacks on Ethernet.
fn on_ethernet() -> World {
    World::new([1, 2].map(|n| DeviceCaps { ethernet: Some([2, 0, 0, 0, 0, n]), ..DeviceCaps::plain(1_500) }))
}

#[test]
fn a_burst_before_the_neighbour_has_answered_fails_no_connection() {
    for ip in [v4(2), v6(2)] {
        let mut w = on_ethernet();
        listen(&mut w, ListenAddr::port(80));
        let options = options(&w);
        let burst: Vec<SocketId> = (0..=NEIGHBOUR_QUEUE_PACKETS)
            .map(|_| w.stacks[0].tcp_connect(w.now, at(ip, 80), None, &options).expect("a route"))
            .collect();
        w.run(SECOND * 3);
        let states: Vec<_> = burst.iter().map(|&id| w.stacks[0].tcp_state(id)).collect();
        assert_eq!(states, vec![Ok(State::Established); burst.len()], "{ip}");
        let count = w.stacks[0].counters();
        assert_eq!(count.tcp_ext.tcp_syn_retrans, 1, "one waited too long, and was lost without a word");
        assert_eq!((count.drops(DropWhy::NeighbourQueue), count.drops(DropWhy::Neighbour)), (1, 0));
    }
}

#[test]
fn who_hears_nothing_keeps_no_neighbour_reachable() {
    let mut w = on_ethernet();
    let listener = listen(&mut w, ListenAddr::port(80));
    let options = options(&w);
    let client = w.stacks[0].tcp_connect(w.now, at(v4(2), 80), None, &options).expect("a route");
    w.until("connected", |w| w.saw(0, Event::Connected(client)));
    w.until("accepted", |w| w.saw(1, Event::Accepted(listener)));
    let (server, _) = w.stacks[1].tcp_accept(w.now, listener).expect("one waits");
    let state = |w: &World| w.stacks[0].ip.neighbours().get(w.devs[0], v4(2)).map(|(state, _)| state);
    assert_eq!(state(&w), Some(Neighbour::Reachable));
    // What progresses confirms, for longer than a neighbour is believed without it.
    for _ in 0..60 {
        w.stacks[0].tcp_send(w.now, client, b"on", NO_FLAGS).expect("room");
        w.run(SECOND);
        assert_eq!(state(&w), Some(Neighbour::Reachable));
    }
    let before = w.stacks[0].counters().tcp.in_segs;
    w.lose_every = 1;
    w.stacks[1].tcp_send(w.now, server, b"unheard", NO_FLAGS).expect("room");
    w.run(SECOND * 46);
    let end = w.now + SECOND * 60;
    while w.now < end {
        assert!(w.step(), "it is sent again");
        assert_ne!(state(&w), Some(Neighbour::Reachable), "{:?}", w.now);
    }
    assert!(w.stacks[0].counters().tcp.in_segs > before + 5, "the first, and again and again");
}

#[test]
fn what_an_association_has_acknowledged_confirms_its_neighbour() {
    let mut w = on_ethernet();
    let options = SctpOptions::new(w.stacks[0].sysctl());
    w.stacks[1].sctp_listen(w.now, &[at(v4(2), 80)], 16, options.clone()).expect("free");
    let client = w.stacks[0].sctp_connect(w.now, &[at(v4(2), 80)], &[], options).expect("a route");
    w.until("connected", |w| w.saw(0, Event::Connected(client)));
    let state = |w: &World| w.stacks[0].ip.neighbours().get(w.devs[0], v4(2)).map(|(state, _)| state);
    for _ in 0..60 {
        let data = Bytes::from_static(b"on");
        w.stacks[0].sctp_send(w.now, client, data, SendInfo::default()).expect("room");
        w.run(SECOND);
        assert_eq!(state(&w), Some(Neighbour::Reachable), "{:?}", w.now);
    }
}

#[test]
fn what_came_to_all_of_a_link_is_answered_by_nobody() {
    for (from, to) in [(v4(1), v4(2)), (v6(1), v6(2))] {
        let mut w = on_ethernet();
        listen(&mut w, ListenAddr::port(80));
        let open = w.stacks[1].udp_bind(w.now, at(to, 7)).expect("free");
        let client = w.stacks[0].udp_bind(w.now, at(from, 0)).expect("free");
        w.stacks[0].udp_send_to(w.now, client, Bytes::from_static(b"known now"), at(to, 7)).expect("room");
        w.run(SECOND);
        let before = w.stacks[1].counters().ip.out_requests;
        w.to_all = true;
        let options = options(&w);
        for port in [80, 81] {
            w.stacks[0].tcp_connect(w.now, at(to, port), None, &options).expect("a route");
        }
        for port in [7, 8] {
            let data = Bytes::from_static(b"for all");
            w.stacks[0].udp_send_to(w.now, client, data, at(to, port)).expect("room");
        }
        if to.is_ipv4() {
            let mut frame = vec![0xff; 6];
            frame.extend([2, 0, 0, 0, 0, 1, 8, 0]);
            frame.extend_from_slice(&echo_request().to_bytes());
            let frame = Packet::received(Bytes::from(frame), Offload::default(), w.now);
            w.stacks[1].receive(w.now, w.devs[1], frame);
        }
        w.run(SECOND / 2);
        let count = w.stacks[1].counters();
        assert_eq!(count.ip.out_requests, before, "{to}");
        assert_eq!(count.udp.no_ports, 1, "they did come");
        // A datagram is for whoever waits for it.
        for data in [&b"known now"[..], b"for all"] {
            assert_eq!(w.stacks[1].udp_recv_from(w.now, open).map(|(d, _)| d), Ok(Bytes::from_static(data)));
        }
    }
}

#[test]
fn at_the_end_of_the_clock_timers_stand_still_instead_of_firing_for_ever() {
    let mut w = World::plain();
    let mut options = SocketOptions::new(w.stacks[0].sysctl());
    options.keepalive = true;
    w.stacks[1].tcp_listen(w.now, ListenAddr::port(80), ListenOptions::new(options.clone())).expect("free");
    w.stacks[0].tcp_connect(w.now, at(v4(2), 80), None, &options).expect("a route");
    w.run(SECOND);
    assert!(w.stacks[0].next_deadline().is_some(), "a keepalive probe is due in two hours");
    w.stacks[0].handle_timeout(Instant::FAR_FUTURE);
    assert_eq!(w.stacks[0].now(), Instant::LAST);
    assert_eq!(w.stacks[0].next_deadline(), None, "the next one would be due after the end");
    w.stacks[0].handle_timeout(Instant::FAR_FUTURE);
    assert_eq!(w.stacks[0].counters().own.clock_backwards, 0);
}

#[test]
fn time_never_runs_backwards() {
    let mut w = World::plain();
    w.stacks[0].handle_timeout(Instant::from_millis(10));
    w.stacks[0].handle_timeout(Instant::from_millis(5));
    assert_eq!(w.stacks[0].now(), Instant::from_millis(10));
    assert_eq!(w.stacks[0].counters().own.clock_backwards, 1);
}
