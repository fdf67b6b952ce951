//! TCP end to end.
use super::world::{World, at, ipv4_packet, v4, v6};
use crate::base::{Duration, Error, SocketId, Tuple, Wait};
use crate::device::{DeviceCaps, Submit};
use crate::packet::{Csum, Packet};
use crate::stack::{Decision, Event, ListenAddr, ListenOptions};
use crate::tcp::{How, SendFlags, SocketOptions, State};
use bytes::Bytes;
use core::net::IpAddr;

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const NO_FLAGS: SendFlags =
    SendFlags { more: false, eor: false, oob: false, waits: false, resumed: false, goes_on: false };

pub(super) fn options(w: &World) -> SocketOptions {
    SocketOptions::new(w.stacks[0].sysctl())
}

pub(super) fn listen(w: &mut World, addr: ListenAddr) -> SocketId {
    let options = ListenOptions::new(options(w));
    w.stacks[1].tcp_listen(w.now, addr, options).expect("free")
}

fn connect(w: &mut World, ip: IpAddr, port: u16) -> SocketId {
    let options = options(w);
    w.stacks[0].tcp_connect(w.now, at(ip, port), None, &options).expect("a route")
}

/// A connection between the two stacks: the client's and the server's end.
fn pair(w: &mut World, ip: IpAddr) -> (SocketId, SocketId) {
    let listener = listen(w, ListenAddr::port(80));
    let client = connect(w, ip, 80);
    w.until("connected", |w| w.saw(0, Event::Connected(client)));
    w.until("accepted", |w| w.saw(1, Event::Accepted(listener)));
    let (server, peer) = w.stacks[1].tcp_accept(w.now, listener).expect("one waits");
    assert_eq!(Ok(peer), w.stacks[0].local_addr(client));
    w.stacks[1].close(w.now, listener).expect("open");
    (client, server)
}

fn byte(n: usize) -> u8 {
    (n ^ (n >> 8) ^ (n >> 16)) as u8
}

/// Moves `total` bytes from one socket to the other and checks every one.
pub(super) fn transfer(w: &mut World, from: (usize, SocketId), to: (usize, SocketId), total: usize) {
    let (mut sent, mut got) = (0, 0);
    w.until("transfer", |w| {
        while sent < total {
            let end = (sent + 16_384).min(total);
            let data: Vec<u8> = (sent..end).map(byte).collect();
            match w.stacks[from.0].tcp_send(w.now, from.1, &data, NO_FLAGS) {
                Ok(n) => sent += n,
                Err(Error::WouldBlock) => break,
                Err(e) => panic!("send: {e}"),
            }
        }
        loop {
            match w.stacks[to.0].tcp_read_chunk(w.now, to.1, usize::MAX) {
                Ok(Some(data)) => {
                    assert!(data.iter().enumerate().all(|(i, &b)| b == byte(got + i)), "at {got}");
                    got += data.len();
                }
                Ok(None) => panic!("the stream ended at {got}"),
                Err(Error::WouldBlock) => break,
                Err(e) => panic!("recv: {e}"),
            }
        }
        got == total
    });
}

pub(super) fn close_both(w: &mut World, client: SocketId, server: SocketId) {
    w.stacks[0].close(w.now, client).expect("open");
    w.run(SECOND);
    let state = |w: &mut World| w.stacks[0].report(w.now).sockets.last().map(|line| line.state);
    assert_eq!(state(w), Some(State::FinWait2), "a small object already, but it waits for the peer's FIN");
    assert_eq!(w.stacks[1].tcp_recv(w.now, server, &mut [0; 8], false), Ok(0));
    w.stacks[1].close(w.now, server).expect("open");
    w.run(SECOND);
    assert!(w.saw(0, Event::Gone(client)) && w.saw(1, Event::Gone(server)));
    assert_eq!((w.stacks[0].open_sockets(), w.stacks[1].open_sockets()), (0, 0));
    assert_eq!(w.stacks[0].small_objects(), (0, 1, 0), "the one who closed first waits");
    assert_eq!(state(w), Some(State::TimeWait));
    assert_eq!(w.stacks[1].small_objects(), (0, 0, 0));
    w.run(SECOND * 61);
    assert_eq!(w.stacks[0].small_objects(), (0, 0, 0));
    assert!(w.stacks.iter().all(|s| s.wheel.is_empty()), "no timer is left");
}

#[test]
fn a_connection_opens_carries_data_both_ways_and_closes() {
    for ip in [v4(2), v6(2)] {
        let mut w = World::plain();
        let (client, server) = pair(&mut w, ip);
        assert_eq!(w.stacks[0].tcp_state(client), Ok(State::Established));
        transfer(&mut w, (0, client), (1, server), 100_000);
        transfer(&mut w, (1, server), (0, client), 100_000);
        close_both(&mut w, client, server);
    }
}

#[test]
fn without_a_route_a_connection_waits_and_says_so() {
    let mut w = World::plain();
    let (client, server) = pair(&mut w, v4(2));
    transfer(&mut w, (0, client), (1, server), 100_000);
    let (dest, dev) = (v4(0), w.devs[0]);
    let before = w.stacks[0].counters().tcp.retrans_segs;
    assert!(w.stacks[0].remove_route(dest, 24, None, dev), "the subnet's route");
    assert!(!w.stacks[0].remove_route(dest, 24, None, dev), "it is gone");
    w.stacks[0].tcp_send(w.now, client, &[7; 5_000], NO_FLAGS).expect("room");
    w.run(SECOND * 3);
    let count = w.stacks[0].counters();
    assert!(count.waits(Wait::NoPath) > 0, "the reason is counted");
    assert_eq!(w.stacks[1].tcp_recv(w.now, server, &mut [0; 8], false), Err(Error::WouldBlock));
    w.stacks[0].add_route(dest, 24, None, dev).expect("a device");
    w.run(SECOND * 10);
    assert_eq!(w.stacks[1].tcp_recv(w.now, server, &mut [0; 8_000], false), Ok(5_000));
    assert_eq!(w.stacks[0].counters().tcp.retrans_segs, before, "nothing counts as lost");
}

#[test]
fn a_connection_that_began_without_a_route_takes_the_one_that_comes() {
    let mut w = World::plain();
    let listener = listen(&mut w, ListenAddr::port(80));
    let client = connect(&mut w, v4(2), 80);
    let (dest, dev) = (v4(0), w.devs[1]);
    // The SYN-ACK is out, the last ACK is not there yet.
    w.until("the SYN-ACK", |w| w.crossed[1] > 0);
    assert!(w.stacks[1].remove_route(dest, 24, None, dev), "the subnet's route");
    w.until("accepted", |w| w.saw(1, Event::Accepted(listener)));
    let (server, _) = w.stacks[1].tcp_accept(w.now, listener).expect("one waits");
    w.stacks[1].tcp_send(w.now, server, &[7; 5_000], NO_FLAGS).expect("room");
    w.run(SECOND);
    assert_eq!(w.stacks[0].tcp_recv(w.now, client, &mut [0; 8], false), Err(Error::WouldBlock));
    w.stacks[1].add_route(dest, 24, None, dev).expect("a device");
    w.run(SECOND * 10);
    assert_eq!(w.stacks[0].tcp_recv(w.now, client, &mut [0; 8_000], false), Ok(5_000));
}

#[test]
fn bulk_crosses_devices_of_every_kind() {
    let ethernet =
        [1, 2].map(|n| DeviceCaps { ethernet: Some([2, 0, 0, 0, 0, n]), ..DeviceCaps::offloading(1_500) });
    for caps in [[DeviceCaps::plain(1_500); 2], [DeviceCaps::offloading(9_000); 2], ethernet] {
        let mut w = World::new(caps);
        w.ring = 5;
        let (client, server) = pair(&mut w, v4(2));
        transfer(&mut w, (0, client), (1, server), 5_000_000);
        close_both(&mut w, client, server);
        assert_eq!(w.stacks[0].counters().tcp.retrans_segs, 0);
    }
}

/// What the path marks is what the receiver counts, what the sender hears of, and what slows it down, whether a segment has counters or not.
#[test]
fn with_accurate_ecn_both_sides_count_the_same_marks() {
    for option in ["0", "1", "2"] {
        let mut w = World::plain();
        for stack in &mut w.stacks {
            stack.set_sysctl("tcp_ecn", "3").expect("a name");
            stack.set_sysctl("tcp_ecn_option", option).expect("a name");
        }
        let (client, server) = pair(&mut w, v6(2));
        w.mark_every = 40;
        transfer(&mut w, (0, client), (1, server), 2_000_000);
        w.run(SECOND);
        let [from, to] =
            [(0, client), (1, server)].map(|(side, id)| w.stacks[side].tcp_info(w.now, id).expect("open"));
        assert!(w.marked > 10, "{option}: {}", w.marked);
        assert_eq!(to.received_ce, w.marked, "{option}");
        // An acknowledgement of many may be taken for eight marks more, with counters only the first (Linux, too).
        let more = from.delivered_ce - w.marked;
        let most = if option == "0" { 64 } else { 8 };
        assert!(more.is_multiple_of(8) && more <= most, "{option}: {more}");
        assert_eq!((from.ecn_mode, to.ecn_mode, from.accecn_fail_mode, from.total_retrans), (2, 2, 0, 0));
        assert!(from.snd_ssthresh < 1_000, "{option}: {}", from.snd_ssthresh);
        let told = [from.delivered_e0_bytes, from.delivered_ce_bytes, from.delivered_e1_bytes];
        let came = [to.received_e0_bytes, to.received_ce_bytes, to.received_e1_bytes];
        match option {
            "0" => assert_eq!(told, [0; 3]),
            "1" => assert!(told[0] > 1_000_000 && told[1] > 10_000, "{told:?}"),
            _ => assert_eq!(told, came),
        }
    }
}

/// A device that leaves CWR on the first segment would let all others say another number: it gets them one by one, as long as the field has that bit.
#[test]
fn an_ace_field_with_cwr_is_handed_whole_to_who_repeats_it_alone() {
    for repeats in [false, true] {
        let caps = DeviceCaps::offloading(1_500);
        let mut w = World::new([if repeats { caps.repeating_cwr() } else { caps }; 2]);
        for stack in &mut w.stacks {
            stack.set_sysctl("tcp_ecn", "3").expect("a name");
        }
        w.wholes = Some([0; 2]);
        let (client, server) = pair(&mut w, v6(2));
        let mut fields = 0_u8;
        // The field of what the first one sends is the number of marks of the other's segments, and five.
        for _ in 0..8 {
            w.mark_back = true;
            transfer(&mut w, (1, server), (0, client), 1);
            w.mark_back = false;
            transfer(&mut w, (0, client), (1, server), 20_000);
            fields |= 1 << ((w.stacks[0].tcp_info(w.now, client).expect("open").received_ce + 5) & 7);
        }
        w.run(SECOND);
        assert_eq!(fields, 0xff, "each value of the field");
        let [with, without] = w.wholes.expect("counted");
        assert!(without > 8, "{without}");
        assert_eq!(with > 8, repeats, "{with}");
        let told = w.stacks[1].tcp_info(w.now, server).expect("open").delivered_ce;
        assert_eq!(told, w.stacks[0].tcp_info(w.now, client).expect("open").received_ce);
    }
}

#[test]
fn bulk_survives_loss() {
    let mut w = World::plain();
    w.lose_every = 50;
    let (client, server) = pair(&mut w, v4(2));
    transfer(&mut w, (0, client), (1, server), 3_000_000);
    assert!(w.stacks[0].counters().tcp.retrans_segs > 0);
}

#[test]
fn unread_data_survives_the_end_of_the_connection() {
    let mut w = World::plain();
    let (client, server) = pair(&mut w, v4(2));
    w.stacks[0].shutdown(w.now, client, How::Write).expect("connected");
    w.run(SECOND);
    w.stacks[1].tcp_send(w.now, server, b"last words", NO_FLAGS).expect("room");
    w.stacks[1].close(w.now, server).expect("open");
    w.run(SECOND);
    let mut buf = [0; 32];
    assert_eq!(w.stacks[0].tcp_recv(w.now, client, &mut buf, false), Ok(10));
    assert_eq!(w.stacks[0].tcp_recv(w.now, client, &mut buf, false), Ok(0));
    w.stacks[0].close(w.now, client).expect("open");
    w.run(SECOND);
    assert_eq!(w.stacks[0].open_sockets(), 0);
    assert_eq!(w.stacks[0].small_objects(), (0, 1, 0));
}

#[test]
fn a_closed_port_refuses() {
    let mut w = World::plain();
    let client = connect(&mut w, v4(2), 81);
    w.until("closed", |w| w.saw(0, Event::Closed(client)));
    assert_eq!(w.stacks[0].take_error(client), Some(Error::Refused));
    w.stacks[0].close(w.now, client).expect("open");
    assert!(w.stacks[0].next_event() == Some(Event::Gone(client)) && w.stacks[0].open_sockets() == 0);
    assert_eq!(w.stacks[1].counters().tcp.out_rsts, 1);
}

#[test]
fn what_no_flow_pays_for_has_no_ip_number() {
    let mut w = World::plain();
    // A SYN from port 1 to port 9, where nobody listens.
    let syn = [0, 1, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0];
    for (no_pmtu_disc, zero) in [("0", true), ("1", false)] {
        w.stacks[0].set_sysctl("ip_no_pmtu_disc", no_pmtu_disc).expect("known");
        let mut packet = ipv4_packet([10, 0, 0, 2], [10, 0, 0, 1], lowwater_wire::protocol::TCP, &syn, w.now);
        packet.offload.csum = Csum::Valid;
        w.stacks[0].receive(w.now, w.devs[0], packet);
        let mut idents = Vec::new();
        let mut device = |_, packet: Packet| {
            idents.push(u16::from_be_bytes([packet.head.as_slice()[4], packet.head.as_slice()[5]]));
            Submit::Completed
        };
        w.stacks[0].transmit(w.now, w.devs[0], 8, &mut device);
        assert_eq!(idents.len(), 1, "a reset");
        assert_eq!(idents[0] == 0, zero);
    }
}

#[test]
fn a_listener_that_asks_accepts_refuses_and_drops() {
    for decision in [Decision::Accept, Decision::Refuse, Decision::Drop] {
        let mut w = World::plain();
        w.stacks[1].set_any_address(w.devs[1], true).expect("a device");
        let ask = ListenOptions { ask: true, ..ListenOptions::new(options(&w)) };
        let listener = w.stacks[1].tcp_listen(w.now, ListenAddr::ANY, ask).expect("free");
        let client = connect(&mut w, v4(200), 4_321);
        let mut request = None;
        w.until("asked", |w| {
            request = w.events[1].iter().find_map(|e| match e {
                Event::Incoming { listener: l, request, tuple } if *l == listener => {
                    Some((*request, tuple.local()))
                }
                _ => None,
            });
            request.is_some()
        });
        let (request, wanted) = request.expect("just seen");
        assert_eq!(wanted, at(v4(200), 4_321));
        assert_eq!(w.stacks[1].counters().tcp.out_segs, 0, "nothing was said before the decision");
        w.stacks[1].tcp_decide(w.now, request, decision).expect("waits");
        assert_eq!(w.stacks[1].tcp_decide(w.now, request, decision), Err(Error::NoSuchSocket));
        w.run(Duration::from_millis(900));
        match decision {
            Decision::Accept => {
                assert!(w.saw(0, Event::Connected(client)));
                let (server, _) = w.stacks[1].tcp_accept(w.now, listener).expect("one waits");
                assert_eq!(w.stacks[1].local_addr(server), Ok(wanted));
                transfer(&mut w, (1, server), (0, client), 10_000);
            }
            Decision::Refuse => assert_eq!(w.stacks[0].take_error(client), Some(Error::Refused)),
            Decision::Drop => {
                assert_eq!(w.stacks[0].tcp_state(client), Ok(State::SynSent));
                w.run(SECOND * 5);
                assert!(w.events[1].iter().filter(|e| matches!(e, Event::Incoming { .. })).count() > 1);
            }
        }
    }
}

/// The last element is filled whatever may wait, by either call.
#[test]
fn at_the_low_water_mark_a_short_buffer_fills_the_last_element_as_bytes_do() {
    let mut w = World::plain();
    let (client, _) = pair(&mut w, v4(2));
    let limited = SocketOptions { notsent_lowat: 16_384, ..options(&w) };
    w.stacks[0].set_options(w.now, client, limited).expect("a socket");
    let stack = &mut w.stacks[0];
    assert_eq!(stack.tcp_send(w.now, client, &[1; 20_000], NO_FLAGS), Ok(20_000));
    let mut long = Bytes::from(vec![2; 8_000]);
    assert_eq!(stack.tcp_send_bytes(w.now, client, &mut long, NO_FLAGS), Err(Error::WouldBlock));
    let mut short = Bytes::from(vec![3; 100]);
    assert_eq!(stack.tcp_send_bytes(w.now, client, &mut short, NO_FLAGS), Ok(100));
    assert_eq!(stack.tcp_send(w.now, client, &[4; 100], NO_FLAGS), Ok(100));
    assert_eq!((short.len(), stack.tcp_info(w.now, client).expect("a socket").notsent_bytes), (0, 20_200));
}

/// With Fast Open it would be a connection at once, beyond the backlog.
#[test]
fn who_is_accepted_when_the_backlog_has_become_full_is_dropped_and_asks_again() {
    let mut w = World::plain();
    let ask = ListenOptions { ask: true, backlog: 1, ..ListenOptions::new(options(&w)) };
    let listener = w.stacks[1].tcp_listen(w.now, ListenAddr::port(80), ask).expect("free");
    let asked = |w: &World, n: usize| {
        let mut requests = w.events[1].iter().filter_map(|e| match e {
            Event::Incoming { request, .. } => Some(*request),
            _ => None,
        });
        requests.nth(n)
    };
    let accept = |w: &mut World, n: usize| {
        w.until("it asks", |w| asked(w, n).is_some());
        let request = asked(w, n).expect("just seen");
        w.stacks[1].tcp_decide(w.now, request, Decision::Accept).expect("waits");
        w.run(Duration::from_millis(100));
    };
    let mut clients = vec![connect(&mut w, v4(2), 80)];
    accept(&mut w, 0);
    clients.extend([connect(&mut w, v4(2), 80), connect(&mut w, v4(2), 80)]);
    w.until("the third asks", |w| asked(w, 2).is_some());
    accept(&mut w, 1);
    assert_eq!(w.stacks[1].counters().tcp_ext.listen_overflows, 0);
    accept(&mut w, 2);
    assert_eq!(w.stacks[1].counters().tcp_ext.listen_overflows, 1);
    assert_eq!(w.stacks[1].small_objects().0, 0, "no request is left");
    w.stacks[1].tcp_accept(w.now, listener).expect("one waits");
    accept(&mut w, 3);
    w.until("all are connected", |w| clients.iter().all(|client| w.saw(0, Event::Connected(*client))));
}

#[test]
fn a_question_without_an_answer_expires() {
    let mut w = World::plain();
    let ask = ListenOptions { ask: true, ..ListenOptions::new(options(&w)) };
    w.stacks[1].tcp_listen(w.now, ListenAddr::port(80), ask).expect("free");
    let client = connect(&mut w, v4(2), 80);
    w.run(Duration::from_millis(500));
    w.stacks[0].abort(w.now, client).expect("open");
    assert_eq!(w.stacks[1].small_objects().0, 1);
    w.run(SECOND * 5);
    assert_eq!(w.stacks[1].small_objects().0, 0);
}

#[test]
fn a_full_backlog_drops_and_recovers() {
    let mut w = World::plain();
    // Who opens with a cookie and finds the backlog full is forgotten, as in Linux.
    w.stacks[1].set_sysctl("tcp_syncookies", "0").expect("a sysctl");
    let small = ListenOptions { backlog: 1, ..ListenOptions::new(options(&w)) };
    let listener = w.stacks[1].tcp_listen(w.now, ListenAddr::port(80), small).expect("free");
    let clients: Vec<_> = (0..4).map(|_| connect(&mut w, v4(2), 80)).collect();
    w.run(SECOND * 20);
    assert!(w.stacks[1].counters().tcp_ext.listen_drops > 0);
    let mut accepted = 0;
    for _ in 0..10 {
        while w.stacks[1].tcp_accept(w.now, listener).is_ok() {
            accepted += 1;
        }
        w.run(SECOND * 10);
    }
    assert_eq!(accepted, clients.len(), "whoever waits gets in");
}

#[test]
fn closing_a_listener_resets_what_nobody_accepted() {
    let mut w = World::plain();
    let listener = listen(&mut w, ListenAddr::port(80));
    let client = connect(&mut w, v4(2), 80);
    w.until("connected", |w| w.saw(0, Event::Connected(client)));
    w.run(SECOND);
    w.stacks[1].close(w.now, listener).expect("open");
    w.run(SECOND);
    assert_eq!(w.stacks[0].take_error(client), Some(Error::Reset));
    assert_eq!((w.stacks[1].open_sockets(), w.stacks[1].small_objects()), (0, (0, 0, 0)));
    let again = listen(&mut w, ListenAddr::port(80));
    assert_ne!(again, listener);
}

#[test]
fn listeners_take_places_by_address_and_port() {
    let mut w = World::plain();
    let o = ListenOptions::new(options(&w));
    let s = &mut w.stacks[1];
    let on = |ip, port| ListenAddr { ip, port };
    s.tcp_listen(w.now, on(Some(v4(2)), Some(80)), o.clone()).expect("free");
    let taken = Err(Error::AddressInUse);
    assert_eq!(s.tcp_listen(w.now, on(Some(v4(2)), Some(80)), o.clone()), taken);
    assert_eq!(s.tcp_listen(w.now, on(None, Some(80)), o.clone()), taken);
    s.tcp_listen(w.now, on(Some(v6(2)), Some(80)), o.clone()).expect("another address");
    s.tcp_listen(w.now, ListenAddr::ANY, o.clone()).expect("any port is another place");
    assert_eq!(s.tcp_listen(w.now, ListenAddr::ANY, o.clone()), taken);
    let picked = s.tcp_listen(w.now, on(None, Some(0)), o.clone()).expect("free");
    assert_ne!(s.local_addr(picked).expect("bound").port(), 0);
    assert_eq!(s.tcp_listen(w.now, on(Some(v4(9)), Some(80)), o), Err(Error::AddressNotAvailable));
}

#[test]
fn a_listener_on_every_port_of_one_family_hears_that_family_alone() {
    let mut w = World::plain();
    let o = ListenOptions::new(options(&w));
    let addr = ListenAddr { ip: Some(core::net::Ipv4Addr::UNSPECIFIED.into()), port: None };
    let listener = w.stacks[1].tcp_listen(w.now, addr, o).expect("free");
    let client = connect(&mut w, v4(2), 4_321);
    w.until("accepted", |w| w.saw(1, Event::Accepted(listener)));
    let other = connect(&mut w, v6(2), 4_321);
    w.until("refused", |w| w.saw(0, Event::Closed(other)));
    assert!(!w.saw(0, Event::Closed(client)));
}

#[test]
fn a_stack_connects_to_itself() {
    let mut w = World::plain();
    for ip in [v4(1), "127.0.0.1".parse().expect("valid"), "::1".parse().expect("valid")] {
        let options = ListenOptions::new(options(&w));
        let listener = w.stacks[0].tcp_listen(w.now, ListenAddr::port(80), options).expect("free");
        let client = connect(&mut w, ip, 80);
        w.until("connected", |w| w.saw(0, Event::Connected(client)));
        w.until("accepted", |w| w.saw(0, Event::Accepted(listener)));
        let (server, _) = w.stacks[0].tcp_accept(w.now, listener).expect("one waits");
        transfer(&mut w, (0, client), (0, server), 1_000_000);
        w.stacks[0].close(w.now, listener).expect("open");
        w.stacks[0].close(w.now, client).expect("open");
        w.stacks[0].close(w.now, server).expect("open");
        w.run(SECOND * 70);
        assert_eq!((w.stacks[0].open_sockets(), w.stacks[0].small_objects()), (0, (0, 0, 0)));
    }
    assert!(w.stacks[0].links.iter().all(|link| link.told.untold() == 0), "nothing is remembered of them");
    assert_eq!(w.crossed, [0, 0]);
}

#[test]
fn a_thousand_connections() {
    let mut w = World::plain();
    let listener = listen(&mut w, ListenAddr::port(80));
    let clients: Vec<_> = (0..1_000).map(|_| connect(&mut w, v4(2), 80)).collect();
    let mut servers = Vec::new();
    w.until("all accepted", |w| {
        while let Ok((id, _)) = w.stacks[1].tcp_accept(w.now, listener) {
            servers.push(id);
        }
        servers.len() == 1_000
    });
    w.run(SECOND);
    let hello = Bytes::from_static(b"hello, world");
    for &id in &clients {
        assert_eq!(w.stacks[0].tcp_send_bytes(w.now, id, &mut hello.clone(), NO_FLAGS), Ok(12));
    }
    w.run(SECOND);
    for &id in &servers {
        assert_eq!(w.stacks[1].tcp_read_chunk(w.now, id, 100), Ok(Some(hello.clone())));
        w.stacks[1].close(w.now, id).expect("open");
    }
    for &id in &clients {
        w.stacks[0].close(w.now, id).expect("open");
    }
    w.run(SECOND * 70);
    assert_eq!((w.stacks[0].open_sockets(), w.stacks[0].small_objects()), (0, (0, 0, 0)));
    assert_eq!((w.stacks[1].open_sockets(), w.stacks[1].small_objects()), (1, (0, 0, 0)));
}

#[test]
fn flows_share_the_device_in_turn() {
    let mut w = World::plain();
    w.ring = 1;
    let listener = listen(&mut w, ListenAddr::port(80));
    let clients: Vec<_> = (0..4).map(|_| connect(&mut w, v4(2), 80)).collect();
    w.run(SECOND);
    let servers: Vec<_> = core::iter::from_fn(|| w.stacks[1].tcp_accept(w.now, listener).ok()).collect();
    assert_eq!(servers.len(), 4);
    let data = vec![0; 1_000_000];
    let mut got = [0usize; 4];
    let end = w.now + SECOND;
    w.until("a second of bulk", |w| {
        for &id in &clients {
            let _ = w.stacks[0].tcp_send(w.now, id, &data, NO_FLAGS);
        }
        for (got, (id, _)) in got.iter_mut().zip(&servers) {
            while let Ok(Some(chunk)) = w.stacks[1].tcp_read_chunk(w.now, *id, usize::MAX) {
                *got += chunk.len();
            }
        }
        w.now >= end
    });
    let (least, most) = (got.iter().min().expect("four"), got.iter().max().expect("four"));
    assert!(*least > 0 && most < &(least * 2), "{got:?}");
}

#[test]
fn a_router_that_says_too_big_lowers_the_path_mtu() {
    let mut w = World::plain();
    let (client, server) = pair(&mut w, v4(2));
    w.path_mtu = Some(1_000);
    transfer(&mut w, (0, client), (1, server), 200_000);
    assert_eq!(w.stacks[0].tcp_info(w.now, client).map(|i| i.pmtu), Ok(1_000));
    let listener = listen(&mut w, ListenAddr::port(81));
    let next = connect(&mut w, v4(2), 81);
    w.until("connected", |w| w.saw(0, Event::Connected(next)));
    w.until("accepted", |w| w.saw(1, Event::Accepted(listener)));
    assert_eq!(w.stacks[0].tcp_info(w.now, next).map(|i| i.pmtu), Ok(1_000), "the next connection knows");
}

#[test]
fn a_device_that_drops_is_survived() {
    let mut w = World::plain();
    let (client, server) = pair(&mut w, v4(2));
    w.refuse_every = 40;
    transfer(&mut w, (0, client), (1, server), 500_000);
    assert!(w.stacks[0].counters().own.packets_dropped_below > 0);
    close_both(&mut w, client, server);
}

#[test]
fn what_is_written_becomes_packets_that_the_device_takes() {
    for (segs, elements) in [(64, 1), (2, 5), (1, 10)] {
        let caps = DeviceCaps { gso_max_segs: segs, ..DeviceCaps::offloading(1_500) };
        let mut w = World::new([caps; 2]);
        let (client, server) = pair(&mut w, v4(2));
        for (side, id) in [(0, client), (1, server)] {
            let mss = w.stacks[side].tcp_info(w.now, id).expect("open").snd_mss as usize;
            let sent = w.stacks[side].tcp_send(w.now, id, &vec![0; 10 * mss], NO_FLAGS);
            assert_eq!(sent, Ok(10 * mss));
            // 832 bytes are what an element costs beside its payload.
            let queued = w.stacks[side].memory(id).expect("open").queued as usize;
            assert_eq!(queued, 10 * mss + elements * 832, "{segs} segments");
        }
    }
}

#[test]
fn a_host_that_does_not_answer_arp_is_unreachable() {
    let mac = Some([2, 0, 0, 0, 0, 1]);
    let mut w = World::new([DeviceCaps { ethernet: mac, ..DeviceCaps::plain(1_500) }; 2]);
    let client = connect(&mut w, v4(77), 80);
    w.until("closed", |w| w.saw(0, Event::Closed(client)));
    assert_eq!(w.stacks[0].take_error(client), Some(Error::HostUnreachable));
}

#[test]
fn time_wait_gives_way_to_a_new_connection_of_the_same_flow() {
    let mut w = World::plain();
    let (client, server) = pair(&mut w, v4(2));
    let local = w.stacks[0].local_addr(client).expect("bound");
    // The server closes first, so that TIME-WAIT is at its side and the client may come again.
    w.stacks[1].close(w.now, server).expect("open");
    w.run(SECOND);
    w.stacks[0].close(w.now, client).expect("open");
    w.run(SECOND);
    assert_eq!((w.stacks[0].small_objects(), w.stacks[1].small_objects()), ((0, 0, 0), (0, 1, 0)));
    let listener = listen(&mut w, ListenAddr::port(80));
    let options = options(&w);
    let again = w.stacks[0].tcp_connect(w.now, at(v4(2), 80), Some(local), &options).expect("free");
    w.until("connected", |w| w.saw(0, Event::Connected(again)));
    w.until("accepted", |w| w.saw(1, Event::Accepted(listener)));
    assert_eq!(w.stacks[1].small_objects().1, 0);
}

/// Tables, the facade's handle and its registry need the rest of 1,536 bytes (crates/lowwater/tests/memory.rs). What an idle
/// connection does not use belongs behind `Option<Box<..>>`, not into the connection.
#[test]
fn a_connection_without_its_buffers_is_small() {
    use crate::tcp::Conn;
    assert!(size_of::<Conn>() <= 1_280, "{}", size_of::<Conn>());
}

#[test]
fn what_a_lost_device_alone_led_to_ends_at_once() {
    for (ours, ip) in [(v4(1), v4(2)), (v6(1), v6(2))] {
        let mut w = World::plain();
        let (client, server) = pair(&mut w, ip);
        w.stacks[1].tcp_send(w.now, server, b"abc", NO_FLAGS).expect("room");
        w.run(SECOND);
        let opening = connect(&mut w, ip, 81);
        let loose = w.stacks[0].udp_bind(w.now, at(ours, 0)).expect("free");
        let udp = w.stacks[0].udp_bind(w.now, at(ours, 0)).expect("free");
        w.stacks[0].udp_connect(w.now, udp, at(ip, 9)).expect("a route");
        // Our own address is as near as ever.
        let options = options(&w);
        let listener =
            w.stacks[0].tcp_listen(w.now, ListenAddr::port(82), ListenOptions::new(options.clone()));
        let own = w.stacks[0].tcp_connect(w.now, at(ours, 82), None, &options).expect("a route");
        w.stacks[0].lose_device(w.now, w.devs[0]);
        w.run(SECOND);
        assert!(w.saw(0, Event::Accepted(listener.expect("free"))));
        assert_eq!(w.stacks[0].tcp_state(own), Ok(State::Established));
        // What had come is there.
        assert_eq!(w.stacks[0].tcp_recv(w.now, client, &mut [0; 8], false), Ok(3));
        let no_route = Err(Error::NoRoute);
        assert_eq!(w.stacks[0].tcp_recv(w.now, client, &mut [0; 8], false), no_route);
        assert_eq!(w.stacks[0].tcp_recv(w.now, opening, &mut [0; 8], false), no_route);
        assert!(w.saw(0, Event::Readable(udp)));
        assert_eq!(w.stacks[0].udp_recv_from(w.now, udp), Err(Error::NoRoute));
        let hello = Bytes::from_static(b"hello");
        assert_eq!(w.stacks[0].udp_send_to(w.now, loose, hello, at(ip, 9)), Err(Error::NoRoute));
        assert_eq!(w.stacks[0].udp_recv_from(w.now, loose), Err(Error::WouldBlock));
        assert_eq!(w.stacks[0].tcp_connect(w.now, at(ip, 80), None, &options), Err(Error::NoRoute));
        let dest = if ip.is_ipv4() { v4(0) } else { v6(0) };
        assert_eq!(w.stacks[0].add_route(dest, 24, None, w.devs[0]), Err(Error::NoSuchSocket));
    }
}

#[test]
fn handshakes_that_a_lost_device_alone_led_to_give_their_places_back() {
    for ask in [false, true] {
        let mut w = World::plain();
        let options = ListenOptions { ask, ..ListenOptions::new(options(&w)) };
        let listener = w.stacks[1].tcp_listen(w.now, ListenAddr::port(80), options).expect("free");
        let client = connect(&mut w, v4(2), 80);
        w.until("a SYN", |w| w.stacks[1].small_objects().0 == 1);
        w.stacks[1].lose_device(w.now, w.devs[1]);
        assert_eq!(w.stacks[1].small_objects().0, 0);
        assert_eq!(w.stacks[1].counters().tcp_ext.listen_drops, 1);
        w.run(SECOND * 3);
        assert_eq!(w.stacks[1].tcp_backlog(listener).expect("it listens").0, 0);
        let local = w.stacks[0].local_addr(client).expect("open");
        let gone = Event::RequestGone { listener, tuple: Tuple::new(at(v4(2), 80), local) };
        // Who was told of it is told that it is gone.
        assert_eq!(w.saw(1, gone), ask);
    }
}

#[test]
fn a_handshake_is_given_up_where_no_way_leads_to_the_peer_any_more() {
    for acknowledged in [false, true] {
        let mut w = World::plain();
        let options = SocketOptions { defer_accept: 5, ..options(&w) };
        w.stacks[1].tcp_listen(w.now, ListenAddr::port(80), ListenOptions::new(options)).expect("free");
        connect(&mut w, v4(2), 80);
        w.until("the SYN-ACK", |w| w.crossed[1] > 0);
        if acknowledged {
            // Data is awaited, which may come whatever leads back.
            w.run(Duration::from_millis(20));
        }
        let (dest, dev) = (v4(0), w.devs[1]);
        assert!(w.stacks[1].remove_route(dest, 24, None, dev), "the subnet's route");
        if !acknowledged {
            w.stacks[0].lose_device(w.now, w.devs[0]);
        }
        w.run(Duration::from_millis(500));
        assert_eq!(w.stacks[1].small_objects().0, 1);
        w.run(Duration::from_millis(600));
        assert_eq!(w.stacks[1].small_objects().0, usize::from(acknowledged));
        assert_eq!(w.stacks[1].counters().tcp.retrans_segs, 0);
    }
}

#[test]
fn with_another_way_a_connection_outlives_its_device() {
    let mut w = World::plain();
    let (client, _) = pair(&mut w, v4(2));
    let other = w.stacks[0].add_device(DeviceCaps::plain(1_500));
    w.stacks[0].add_route(v4(0), 16, None, other).expect("a device");
    // One has its turn on the lost device already, the other one asks for it afterwards.
    let early = pair(&mut w, v4(2)).0;
    // What another has sent waits before the lost device.
    let queued = pair(&mut w, v4(2)).0;
    w.stacks[0].tcp_send(w.now, queued, b"queued", NO_FLAGS).expect("room");
    let _ = w.stacks[0].transmit(w.now, w.devs[0], 8, &mut |_, packet| Submit::NotNow(packet));
    w.stacks[0].tcp_send(w.now, early, b"early", NO_FLAGS).expect("room");
    w.stacks[0].lose_device(w.now, w.devs[0]);
    w.stacks[0].tcp_send(w.now, client, b"late", NO_FLAGS).expect("room");
    let mut left = Vec::new();
    let mut transmit = |w: &mut World| {
        let mut device = |_, packet: Packet| {
            left.push(packet.payload);
            Submit::Completed
        };
        w.stacks[0].transmit(w.now, other, 8, &mut device);
        left.clone()
    };
    assert_eq!(transmit(&mut w), ["early", "late"]);
    for _ in 0..10 {
        w.now = w.now.plus_nanos(100_000_000);
        w.stacks[0].handle_timeout(w.now);
        transmit(&mut w);
    }
    assert!(left.iter().any(|payload| payload == "queued"), "{left:?}");
    assert_eq!(w.stacks[0].tcp_state(client), Ok(State::Established));
    w.stacks[0].lose_device(w.now, other);
    w.run(SECOND);
    assert_eq!(w.stacks[0].tcp_recv(w.now, client, &mut [0; 8], false), Err(Error::NoRoute));
}

#[test]
fn nobody_connects_to_many() {
    let mut w = World::plain();
    let options = options(&w);
    for to in
        [v4(255), IpAddr::from([255; 4]), IpAddr::from([224, 0, 0, 1]), "ff02::1".parse().expect("valid")]
    {
        let (now, stack) = (w.now, &mut w.stacks[0]);
        assert_eq!(stack.tcp_connect(now, at(to, 80), None, &options), Err(Error::NoRoute), "{to}");
    }
}
