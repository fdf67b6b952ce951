//! Settings that no other script turns: sysctls and options one by one, where they act and where not.
use super::peer::{Peer, Shape};
use lowwater_core::base::{Error, Sysctl};
use lowwater_core::tcp::{How, Ready, SendFlags, SocketOptions, State};

const SYN: &str = "win 65535 mss 1000 sackOK";

fn with(change: impl FnOnce(&mut Sysctl)) -> Shape {
    let mut sysctl = Sysctl::default();
    change(&mut sysctl);
    Shape { sysctl, syn: SYN, ..Shape::default() }
}

#[test]
fn window_scaling_off_is_neither_offered_nor_accepted() {
    let off = || with(|s| s.tcp_window_scaling = false);
    let mut p = Peer::connecting(off());
    p.expect("S 0 win 64240 mss 1460 sackOK ts 0/0 opts");
    let mut p = Peer::listening(off(), 1);
    p.inject("S 0 win 65535 mss 1000 ws 7");
    p.expect("S. 0 ack 1 win 64240 mss 1460 opts");
    p.inject(". 1 ack 1 win 500");
    p.accept();
    assert_eq!((p.info().snd_wnd, p.info().snd_wscale), (500, 0));
}

#[test]
fn without_f_rto_a_spurious_timeout_is_not_noticed() {
    let mut p = Peer::server(with(|s| s.tcp_frto = 0));
    p.write(30_000);
    p.expect_data(1, 10_001, 1_000);
    p.expect_at(202, ". 10001:11001");
    p.expect_at(502, ". 1:1001");
    p.at(520);
    p.inject(". 1 ack 2001");
    p.drain();
    assert_eq!(p.stack.counters().tcp_ext.tcp_spurious_rtos, 0);
    assert_eq!((p.info().ca_state, p.info().snd_ssthresh), (4, 7));
}

#[test]
fn orphan_retries_count_for_orphans_only() {
    // 1 means (2^2 - 1) * 200 ms after the first retransmission at 600 ms.
    let mut p = Peer::server(with(|s| s.tcp_orphan_retries = 1));
    p.close();
    p.expect("F. 1 ack 1");
    p.expect_at(300, "F. 1 ack 1");
    p.expect_at(600, "F. 1 ack 1");
    p.at(1_199);
    assert_eq!(p.stack.small_objects().2, 1);
    p.at(1_200);
    assert_eq!(p.stack.small_objects().2, 0);
    let mut p = Peer::server(with(|s| s.tcp_orphan_retries = 1));
    p.write(1);
    p.run_to(10_000);
    assert_eq!(p.state(), State::Established);
}

#[test]
fn too_many_orphans_are_reset() {
    let mut p = Peer::server(with(|s| s.tcp_max_orphans = 0));
    p.close();
    p.expect("R. 1 ack 1");
    assert_eq!(p.stack.small_objects(), (0, 0, 0));
    assert_eq!(p.stack.counters().tcp_ext.tcp_abort_on_memory, 1);
}

#[test]
fn what_waits_for_the_peer_s_end_alone_is_no_orphan_too_many() {
    let mut p = Peer::server(with(|s| s.tcp_max_orphans = 0));
    p.shutdown(How::Both);
    p.expect("F. 1 ack 1");
    p.inject(". 1 ack 2");
    p.close();
    assert_eq!(p.stack.small_objects(), (0, 1, 0), "FIN-WAIT-2");
    p.inject("F. 1 ack 2");
    p.expect(". 2 ack 2");
    // Unless it stays whole for a while, as where it waits for longer than a minute.
    let mut p = Peer::server(with(|s| (s.tcp_max_orphans, s.tcp_fin_timeout) = (0, 120)));
    p.shutdown(How::Both);
    p.expect("F. 1 ack 1");
    p.inject(". 1 ack 2");
    p.close();
    p.expect("R. 2 ack 1");
    assert_eq!(p.stack.counters().tcp_ext.tcp_abort_on_memory, 1);
    // Nor is what only waits for old segments to die out.
    let mut p = Peer::server(with(|s| s.tcp_max_orphans = 0));
    p.shutdown(How::Both);
    p.expect("F. 1 ack 1");
    p.inject("F. 1 ack 2");
    p.expect(". 2 ack 2");
    p.close();
    assert_eq!(p.stack.small_objects(), (0, 1, 0), "TIME-WAIT");
    assert_eq!(p.stack.counters().tcp_ext.tcp_abort_on_memory, 0);
}

#[test]
fn compressed_acknowledgements_can_be_switched_off() {
    let mut p = Peer::server(with(|s| s.tcp_comp_sack_nr = 0));
    p.end_quick_acks(1);
    for i in 17..=24 {
        p.inject(&format!(". {i}001:{}001 ack 1", i + 1));
        p.expect(&format!(". 1 ack 16001 sack 17001:{}001", i + 1));
    }
}

#[test]
fn a_window_clamp_bounds_the_offer() {
    // 10,000 in whole segments of 1,460.
    let options = |o: &mut SocketOptions| o.window_clamp = 10_000;
    let mut p = Peer::connecting(Shape { options, ..Shape::default() });
    p.expect("S 0 win 8760 ws 0");
    p.inject("S. 0 ack 1 win 65535 mss 1460");
    p.expect(". 1 ack 1 win 8760");
}

#[test]
fn type_of_service_and_time_to_live_mark_every_packet() {
    let options = |o: &mut SocketOptions| (o.tos, o.ttl) = (0x10, 9);
    let mut p = Peer::server(Shape { options, ..Shape::default() });
    assert_eq!(p.last_tos_ttl(), (0x10, 9), "the SYN-ACK");
    p.write(1);
    p.drain();
    assert_eq!(p.last_tos_ttl(), (0x10, 9));
    p.inject("P. 1:11 ack 2");
    p.expect(". 2 ack 11");
    assert_eq!(p.last_tos_ttl(), (0x10, 9));
    let mut p = Peer::server(with(|s| s.ip_default_ttl = 33));
    p.write(1);
    p.drain();
    assert_eq!(p.last_tos_ttl(), (0, 33));
}

#[test]
fn what_has_come_further_than_its_socket_allows_is_dropped() {
    // RFC 5082; the peer's packets come with 64.
    let mut p = Peer::server(Shape::default());
    p.set(|o| o.min_ttl = [64, 255]);
    p.inject("P. 1:11 ack 1");
    p.expect(". 1 ack 11");
    p.set(|o| o.min_ttl = [65, 0]);
    p.inject("P. 11:21 ack 1");
    p.inject("R 11");
    p.quiet();
    assert_eq!((p.state(), p.stack.counters().tcp_ext.tcp_min_ttl_drop), (State::Established, 2));
}

#[test]
fn a_signed_segment_that_has_come_too_far_counts_as_that() {
    // Linux looks at the way of a segment before it looks for keys (`tcp_v4_rcv`); requests are excepted from the first.
    let counted = |p: &Peer| {
        let ext = &p.stack.counters().tcp_ext;
        (ext.tcp_min_ttl_drop, ext.tcp_md5_unexpected)
    };
    let mut p = Peer::server(Shape::default());
    p.inject_signed("P. 1 ack 1", 80);
    assert_eq!(counted(&p), (0, 1));
    p.set(|o| o.min_ttl = [65, 0]);
    p.inject_signed("P. 1 ack 1", 80);
    assert_eq!(counted(&p), (1, 1));
    // A port at which nobody listens has no keys to lack, and answers nothing.
    p.inject_signed("S 1", 81);
    p.quiet();
    assert_eq!(counted(&p), (1, 1));
}

#[test]
fn a_priority_is_the_listener_s_alone_and_outlives_its_connection_in_time_wait() {
    let options = |o: &mut SocketOptions| o.priority = Some(6);
    let mut p = Peer::listening(Shape { options, ..Shape::default() }, 1);
    p.inject("S 0 win 65535 mss 1000");
    p.drain();
    assert_eq!(p.last_priority, Some(6), "the SYN-ACK is the listener's");
    p.inject(". 1 ack 1");
    p.accept();
    p.write(1);
    p.drain();
    assert_eq!(p.last_priority, Some(0), "its child has none");
    p.set(|o| o.priority = Some(5));
    p.close();
    p.drain();
    p.inject("F. 1 ack 3");
    p.expect(". 3 ack 2");
    assert_eq!((p.stack.small_objects().1, p.last_priority), (1, Some(5)));
    p.at(5_000);
    p.inject("F. 1 ack 3");
    p.expect(". 3 ack 2");
    assert_eq!(p.last_priority, Some(5), "TIME-WAIT goes on with it");
}

/// It is none of the connection's own accord, but nobody else's either (`tcp_v4_send_reset`).
#[test]
fn a_reset_for_what_comes_too_late_has_its_connection_s_priority() {
    let mut p = Peer::server(Shape::default());
    p.set(|o| o.priority = Some(6));
    p.close();
    p.expect("F. 1 ack 1");
    p.last_priority = None;
    p.inject("P. 1:11 ack 2");
    p.expect("R 2");
    assert_eq!(p.last_priority, Some(6));
}

#[test]
fn a_low_water_mark_comes_with_the_socket_and_so_does_the_room_for_it() {
    let options = |o: &mut SocketOptions| (o.rcvlowat, o.rcvlowat_room) = (2_000, 200_000);
    let mut p = Peer::listening(Shape { options, ..Shape::default() }, 1);
    p.inject("S 0 win 65535 mss 1460 ws 0");
    p.expect("S. 0 ack 1 win 65535");
    p.inject(". 1 ack 1");
    p.accept();
    let mark = (2_000, 200_000);
    assert_eq!(
        (p.stack.options(p.sock).map(|o| (o.rcvlowat, o.rcvlowat_room)), p.info().rcv_wnd),
        (Ok(mark), 99_280)
    );
    p.inject(". 1:1001 ack 1");
    p.drain();
    let readable = |p: &mut Peer| p.stack.poll(p.now(), p.sock).contains(Ready::IN);
    assert!(!readable(&mut p), "half of what is waited for");
    p.inject(". 1001:2001 ack 1");
    p.drain();
    assert!(readable(&mut p));
}

#[test]
fn the_port_range_bounds_active_opens() {
    let mut p = Peer::connecting(with(|s| s.ip_local_port_range = (40_000, 40_000)));
    p.expect("S 0");
    assert_eq!(p.our_port(), 40_000);
    let remote = std::net::SocketAddr::new(super::peer::PEER.into(), 80);
    let options = SocketOptions::new(p.stack.sysctl());
    let again = p.stack.tcp_connect(p.now(), remote, None, &options);
    assert_eq!(again, Err(Error::AddressNotAvailable));
}

#[test]
fn reserved_ports_are_only_given_to_who_asks() {
    let mut p = Peer::new(with(|s| {
        s.ip_local_port_range = (40_000, 40_003);
        s.set("ip_local_reserved_ports", "40000-40002").unwrap();
    }));
    p.connect();
    p.expect("S 0");
    assert_eq!(p.our_port(), 40_003);
    assert_eq!(p.try_connect(), Err(Error::AddressNotAvailable));
    p.next_connection();
    p.connect_from(40_001, 80).unwrap();
    p.expect("S 0");
}

#[test]
fn the_smallest_and_the_largest_timeout() {
    // RTT 10 ms: four deviations are 20 ms, below the floor of 50.
    let mut p = Peer::server(Shape { rtt_ms: 10, ..with(|s| s.tcp_rto_min_us = 50_000) });
    assert_eq!(p.info().rto, 60_000);
    let mut p = Peer::server(Shape { syn: "win 65535 mss 1000", ..with(|s| s.tcp_rto_max_ms = 1_000) });
    p.write(1);
    p.expect("P. 1:2");
    for ms in [300, 900, 1_900, 2_900, 3_900] {
        p.expect_at(ms, "P. 1:2");
    }
}

#[test]
fn a_socket_may_have_bounds_of_its_own_for_timeouts() {
    let own = |o: &mut SocketOptions| (o.rto_min_us, o.rto_max_ms) = (50_000, 1_000);
    let mut p = Peer::server(Shape { rtt_ms: 10, options: own, ..Shape::default() });
    assert_eq!(p.info().rto, 60_000);
    let mut p = Peer::server(Shape {
        syn: "win 65535 mss 1000",
        options: |o| o.rto_max_ms = 1_000,
        ..Shape::default()
    });
    p.write(1);
    p.expect("P. 1:2");
    for ms in [300, 900, 1_900, 2_900, 3_900] {
        p.expect_at(ms, "P. 1:2");
    }
}

#[test]
fn a_listener_hands_on_what_settings_said_when_it_was_made() {
    let mut p = Peer::listening(Shape::default(), 1);
    let later = [
        ("tcp_rmem", "4096 20000 6291456"),
        ("tcp_wmem", "4096 8000 4194304"),
        ("tcp_reordering", "10"),
        ("tcp_rto_min_us", "50000"),
        ("tcp_rto_max_ms", "1000"),
    ];
    for (name, value) in later {
        p.stack.set_sysctl(name, value).expect("a setting");
    }
    let memory = p.stack.memory(p.listener).expect("a listener");
    assert_eq!((memory.rcvbuf, memory.sndbuf), (131_072, 16_384));
    p.inject("S 0 win 65535 mss 1460 sackOK");
    assert_eq!(p.expect("S. 0 ack 1").win, Some(64_240));
    p.at(50);
    p.inject(". 1 ack 1");
    p.accept();
    let (info, memory) = (p.info(), p.stack.memory(p.sock).expect("a connection"));
    assert_eq!((info.reordering, info.rto, memory.rcvbuf), (3, 250_000, 131_072));
    assert_eq!(SocketOptions::new(p.stack.sysctl()).rmem, 20_000, "the next one has the new");
}

#[test]
fn what_a_kernel_reserves_for_headers_sizes_send_buffers() {
    for (max_tcp_header, sndbuf) in [(320, 87_040), (256, 46_080)] {
        let shape = with(|s| s.max_tcp_header = max_tcp_header);
        let p = Peer::server(Shape { syn: "win 65535 mss 1460 sackOK", ..shape });
        let (now, sock) = (p.now(), p.sock);
        let memory = p.stack.memory(sock).expect("a socket");
        assert_eq!(memory.sndbuf, sndbuf, "at {now}");
    }
}

#[test]
fn what_a_kernel_reserves_for_headers_is_left_out_of_elements() {
    for (max_tcp_header, segments) in [(320, 47), (192, 48)] {
        let shape = with(|s| s.max_tcp_header = max_tcp_header);
        let options = |o: &mut SocketOptions| o.sndbuf = Some(5_000);
        let mut p = Peer::server(Shape { syn: "win 65535 mss 1360 ws 7", options, ..shape });
        // Nothing leaves, and the first element may exceed the buffer.
        p.inject(". 1 ack 1 win 0");
        assert_eq!(p.write_before_turn(70_000, SendFlags::default()), Ok(segments * 1_360));
    }
}

#[test]
fn the_sysctl_keeps_the_buffer_as_it_is() {
    let most = |moderate| {
        let sysctl = Sysctl { tcp_moderate_rcvbuf: moderate, ..Sysctl::default() };
        let mut p = Peer::server(Shape { syn: "win 65535 mss 1460 ws 7", sysctl, ..Shape::default() });
        let mut at = 1;
        for round in 1..8 {
            // A window per round trip, read at once.
            let end = at + p.info().rcv_wnd / 1_000 * 1_000;
            while at < end {
                p.inject_more(&format!(". {at}:{} ack 1", at + 1_000));
                at += 1_000;
                p.read(1_000);
            }
            p.drain();
            p.run_to(round * 100);
        }
        p.info().rcv_wnd
    };
    let (fixed, tuned) = (most(false), most(true));
    // Half of the buffer.
    assert!(fixed <= 65_536, "{fixed}");
    assert!(tuned > 2 * fixed, "{tuned}");
}

#[test]
fn a_fixed_receive_buffer_is_not_tuned() {
    for (tuned, on) in [(false, false), (true, true)] {
        let syn = "win 65535 mss 1460 ws 7 ts 500000/0 sackOK";
        let mut p = Peer::server(Shape { syn, win: 512, ..with(|s| s.tcp_moderate_rcvbuf = on) });
        let (mut at, mut win, mut right) = (1, 0, 60_000);
        for round in 1..8 {
            let mut seen: Vec<_> = p.run_to(round * 100).into_iter().map(|(_, seg)| seg).collect();
            while at + 1_448 < right {
                p.inject_more(&format!(". {at}:{} ack 1", at + 1_448));
                at += 1_448;
                while p.try_read(65_536).is_ok_and(|n| n > 0) {}
                seen.extend(p.drain());
                for seg in seen.drain(..) {
                    win = seg.win.unwrap() << 7;
                    right = right.max(seg.ack.unwrap() + win);
                }
                if at > (round as u32) * 100_000 {
                    break;
                }
            }
        }
        assert_eq!(win > 90_000, tuned, "{win}");
    }
}

#[test]
fn user_timeouts_and_names_can_be_set_at_run_time() {
    let mut p = Peer::server(Shape { syn: SYN, ..Shape::default() });
    assert!(p.stack.set_sysctl("net.ipv4.tcp_retries2", "2").is_ok());
    assert!(p.stack.set_sysctl("net.ipv4.tcp_nonsense", "2").is_err());
    p.write(1);
    p.run_to(10_000);
    assert_eq!((p.state(), p.error()), (State::Close, Some(Error::TimedOut)));
}

#[test]
fn thin_streams_do_not_double_their_first_timeouts() {
    let thin = |sysctl: bool, option: bool, segments: usize| {
        let options = if option {
            |o: &mut SocketOptions| o.thin_linear_timeouts = true
        } else {
            |_: &mut SocketOptions| {}
        };
        let sysctl = Sysctl { tcp_thin_linear_timeouts: sysctl, ..Sysctl::default() };
        let mut p = Peer::server(Shape { syn: "win 65535 mss 1000", sysctl, options, ..Shape::default() });
        p.write(segments * 1_000);
        p.drain();
        p.run_to(10_000).iter().filter(|(_, s)| s.seq == Some(1)).map(|(at, _)| *at).collect::<Vec<_>>()
    };
    let linear = [300, 600, 900, 1_200, 1_500, 1_800, 2_100, 2_700, 3_900, 6_300];
    assert_eq!(thin(true, false, 1), linear, "six do not double the next");
    assert_eq!(thin(false, true, 3), linear);
    let doubling = [300, 900, 2_100, 4_500, 9_300];
    assert_eq!(thin(false, false, 1), doubling);
    assert_eq!(thin(true, true, 4), doubling, "four segments are not thin");
}

#[test]
fn the_type_of_service_of_a_syn_can_be_reflected() {
    for (reflect, tos) in [(true, 0x48), (false, 0)] {
        let sysctl = Sysctl { tcp_reflect_tos: reflect, ..Sysctl::default() };
        let mut p = Peer::listening(Shape { sysctl, ..Shape::default() }, 1);
        p.tos = 0x48;
        p.inject("S 0 win 65535 mss 1000");
        p.drain();
        assert_eq!(p.last_tos_ttl().0, tos);
        p.tos = 0x10;
        p.inject(". 1 ack 1");
        p.accept();
        p.write(100);
        p.drain();
        assert_eq!(p.last_tos_ttl().0, tos, "for the whole connection");
    }
}

#[test]
fn a_living_connection_changes_its_controller() {
    use lowwater_core::base::sysctl::CongestionKind;
    let mut p = Peer::server(Shape { syn: "win 65535 mss 1000 sackOK", ..Shape::default() });
    p.write(10_000);
    p.expect_data(1, 10_001, 1_000);
    p.set(|o| o.congestion = CongestionKind::Reno);
    p.at(100);
    p.inject(". 1 ack 10001");
    assert_eq!(p.info().snd_cwnd, 20, "the window stays and goes on growing");
    p.write(20_000);
    p.expect_data(10_001, 30_001, 1_000);
    p.at(200);
    p.inject(". 1 ack 10001 sack 11001:30001");
    p.drain();
    // Half, as Reno has it; CUBIC would take seven tenths.
    assert_eq!(p.info().snd_ssthresh, 10);
}

#[test]
fn a_new_controller_undoes_nothing_of_the_old_one() {
    use lowwater_core::base::sysctl::CongestionKind;
    let mut p = Peer::server(Shape { syn: "win 65535 mss 1000 sackOK", ..Shape::default() });
    p.write(10_000);
    p.expect_data(1, 10_001, 1_000);
    p.at(100);
    p.inject(". 1 ack 1 sack 1001:4001");
    p.expect(". 1:1001");
    let (cwnd, ssthresh) = (p.info().snd_cwnd, p.info().snd_ssthresh);
    p.set(|o| o.congestion = CongestionKind::Reno);
    p.at(120);
    p.inject(". 1 ack 4001");
    p.inject(". 1 ack 4001 sack 1:1001");
    let info = p.info();
    assert_eq!(p.stack.counters().tcp_ext.tcp_dsack_undo, 1);
    assert_eq!((info.ca_state, info.snd_cwnd, info.snd_ssthresh), (0, cwnd, ssthresh));
}
