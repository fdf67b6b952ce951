//! The ways to end: every order of FINs, linger, unread data, orphans (RFC 9293 sections 3.6, 3.10.4, 3.10.7.4; RFC 2525).
use super::peer::{Peer, Shape};
use core::net::{IpAddr, Ipv4Addr};
use lowwater_core::base::{DeviceId, Duration, Error, Sysctl};
use lowwater_core::stack::Event;
use lowwater_core::tcp::{How, SendFlags, State};

#[test]
fn active_close_goes_through_fin_wait_1_and_2_to_time_wait() {
    let mut p = Peer::server(Shape::default());
    p.shutdown(How::Write);
    p.expect("F. 1 ack 1");
    assert_eq!(p.state(), State::FinWait1);
    p.inject(". 1 ack 2");
    assert_eq!(p.state(), State::FinWait2);
    p.inject("F. 1 ack 2");
    p.expect(". 2 ack 2");
    assert_eq!(p.state(), State::TimeWait);
    assert_eq!(p.try_read(1), Ok(0));
    p.close();
    assert_eq!(p.sockets(), 1, "the listener");
    assert_eq!(p.stack.small_objects().1, 1);
    p.at(59_999);
    assert_eq!(p.stack.small_objects().1, 1);
    p.at(60_000);
    assert_eq!(p.stack.small_objects(), (0, 0, 0));
}

#[test]
fn passive_close_goes_through_close_wait_and_last_ack_to_nothing() {
    let mut p = Peer::server(Shape::default());
    p.inject("F. 1 ack 1");
    p.expect_at(1, ". 1 ack 2");
    assert_eq!(p.state(), State::CloseWait);
    assert_eq!(p.try_read(1), Ok(0));
    p.write(100);
    p.expect("P. 1:101 ack 2");
    p.shutdown(How::Write);
    p.expect("F. 101 ack 2");
    assert_eq!(p.state(), State::LastAck);
    p.inject(". 2 ack 101");
    assert_eq!(p.state(), State::LastAck);
    p.inject(". 2 ack 102");
    assert_eq!(p.state(), State::Close);
    assert_eq!(p.error(), None);
    p.close();
    assert_eq!((p.sockets(), p.stack.small_objects()), (1, (0, 0, 0)));
}

#[test]
fn simultaneous_close_goes_through_closing() {
    // RFC 9293 section 3.6, figure 13.
    let mut p = Peer::server(Shape::default());
    p.close();
    p.expect("F. 1 ack 1");
    p.inject("F. 1 ack 1");
    p.expect(". 2 ack 2");
    p.inject(". 2 ack 2");
    assert_eq!(p.stack.small_objects().1, 1);
    p.at(60_000);
    assert_eq!((p.sockets(), p.stack.small_objects()), (1, (0, 0, 0)));
}

#[test]
fn a_fin_that_acknowledges_ours_leads_to_time_wait_at_once() {
    let mut p = Peer::server(Shape::default());
    p.close();
    p.expect("F. 1 ack 1");
    p.inject("F. 1 ack 2");
    p.expect(". 2 ack 2");
    assert_eq!(p.stack.small_objects().1, 1);
}

#[test]
fn half_closed_the_other_direction_goes_on() {
    let mut p = Peer::server(Shape::default());
    p.write(50);
    p.expect("P. 1:51");
    p.shutdown(How::Write);
    p.expect("F. 51 ack 1");
    assert_eq!(p.try_write(1, SendFlags::default()), Err(Error::BrokenPipe));
    p.inject(". 1 ack 52");
    for i in 0..5 {
        p.inject(&format!("P. {}:{} ack 52", i * 100 + 1, i * 100 + 101));
        p.expect(&format!(". 52 ack {}", i * 100 + 101));
        p.read(100);
    }
    p.inject("FP. 501:511 ack 52");
    p.expect(". 52 ack 512");
    p.read(10);
    assert_eq!(p.try_read(1), Ok(0));
}

#[test]
fn a_fin_goes_behind_what_is_queued() {
    let mut p = Peer::server(Shape { win: 2_000, ..Shape::default() });
    p.write(3_000);
    p.expect_data(1, 2_001, 1_000);
    p.close();
    p.quiet();
    p.inject(". 1 ack 2001 win 3000");
    p.expect("FP. 2001:3001");
    p.inject(". 1 ack 3002");
    p.inject("F. 1 ack 3002");
    p.expect(". 3002 ack 2");
}

#[test]
fn a_fin_is_retransmitted() {
    let mut p = Peer::server(Shape::default());
    p.shutdown(How::Write);
    p.expect("F. 1 ack 1");
    // Tail loss probe, then timeouts.
    for ms in [300, 600, 1_200] {
        p.expect_at(ms, "F. 1 ack 1");
    }
    p.inject(". 1 ack 2");
    assert_eq!(p.state(), State::FinWait2);
    p.at(100_000);
}

#[test]
fn a_fin_out_of_order_waits_for_the_data_before_it() {
    let mut p = Peer::server(Shape::default());
    p.inject("F. 101 ack 1");
    p.expect_at(0, ". 1 ack 1 sack 101:102");
    assert_eq!(p.state(), State::Established);
    p.inject("P. 1:101 ack 1");
    p.expect(". 1 ack 102");
    assert_eq!(p.state(), State::CloseWait);
    p.read(100);
    assert_eq!(p.try_read(1), Ok(0));
}

#[test]
fn data_after_a_fin_is_ignored() {
    // RFC 9293 section 3.10.7.4, seventh step: this should not occur.
    let mut p = Peer::server(Shape::default());
    p.inject("F. 1 ack 1");
    p.expect_at(1, ". 1 ack 2");
    p.inject("P. 2:12 ack 1");
    assert_eq!(p.try_read(1), Ok(0));
}

#[test]
fn a_repeated_fin_is_acknowledged_again() {
    let mut p = Peer::server(Shape::default());
    p.inject("F. 1 ack 1");
    p.expect_at(1, ". 1 ack 2");
    p.at(300);
    p.inject("F. 1 ack 1");
    p.expect(". 1 ack 2 sack 1:2");
}

#[test]
fn closing_with_unread_data_resets() {
    // RFC 2525 section 2.17; RFC 1122 section 4.2.2.13.
    let mut p = Peer::server(Shape::default());
    p.inject("P. 1:11 ack 1");
    p.expect(". 1 ack 11");
    p.close();
    p.expect("R. 1 ack 11");
    p.quiet();
    assert_eq!((p.sockets(), p.stack.small_objects()), (1, (0, 0, 0)));
    let count = p.stack.counters();
    assert_eq!((count.tcp_ext.tcp_abort_on_close, count.tcp.estab_resets), (1, 1));
}

#[test]
fn closing_after_reading_everything_does_not_reset() {
    let mut p = Peer::server(Shape::default());
    p.inject("P. 1:11 ack 1");
    p.expect(". 1 ack 11");
    p.read(10);
    p.close();
    p.expect("F. 1 ack 11");
    assert_eq!(p.stack.counters().tcp.estab_resets, 0);
}

#[test]
fn an_unread_fin_is_no_unread_data() {
    let mut p = Peer::server(Shape::default());
    p.inject("F. 1 ack 1");
    p.expect_at(1, ". 1 ack 2");
    p.close();
    p.expect("F. 1 ack 2");
    p.inject(". 2 ack 2");
    assert_eq!((p.sockets(), p.stack.small_objects()), (1, (0, 0, 0)));
}

#[test]
fn lingering_for_zero_seconds_resets() {
    let options = |o: &mut lowwater_core::tcp::SocketOptions| o.linger = Some(Duration::ZERO);
    let mut p = Peer::server(Shape { options, ..Shape::default() });
    p.write(100);
    p.expect("P. 1:101");
    p.close();
    p.expect("R. 101 ack 1");
    p.quiet();
    assert_eq!((p.sockets(), p.stack.counters().tcp.estab_resets), (1, 1));
    // So it counts where there is nobody yet who could hear of it.
    let mut p = Peer::connecting(Shape { options, ..Shape::default() });
    p.expect("S 0");
    p.close();
    p.quiet();
    assert_eq!(p.stack.counters().tcp_ext.tcp_abort_on_data, 1);
    // With a time the close itself is graceful; waiting is the facade's business.
    let options = |o: &mut lowwater_core::tcp::SocketOptions| o.linger = Some(Duration::from_secs(5));
    let mut p = Peer::server(Shape { options, ..Shape::default() });
    p.close();
    p.expect("F. 1 ack 1");
}

#[test]
fn data_for_a_closed_socket_is_answered_with_a_reset() {
    // RFC 9293 section 3.6.1 / RFC 1122 section 4.2.2.13: nobody will read it.
    let mut p = Peer::server(Shape::default());
    p.close();
    p.expect("F. 1 ack 1");
    p.inject("P. 1:11 ack 1");
    p.expect("R 1");
    assert_eq!(p.sockets(), 1);
    let mut p = Peer::server(Shape::default());
    p.close();
    p.expect("F. 1 ack 1");
    p.inject(". 1 ack 2");
    p.inject("P. 1:11 ack 2");
    p.expect("R 2");
    assert_eq!(p.stack.small_objects(), (0, 0, 0));
}

#[test]
fn a_shutdown_for_reading_changes_nothing_on_the_wire() {
    let mut p = Peer::server(Shape::default());
    p.shutdown(How::Read);
    p.quiet();
    assert_eq!(p.try_read(1), Ok(0));
    p.inject("P. 1:11 ack 1");
    p.expect(". 1 ack 11");
    p.write(10);
    p.expect("P. 1:11 ack 11");
}

#[test]
fn an_orphan_in_fin_wait_2_is_kept_for_tcp_fin_timeout() {
    let mut p = Peer::server(Shape::default());
    p.close();
    p.expect("F. 1 ack 1");
    p.inject(". 1 ack 2");
    assert!(p.events.contains(&Event::Gone(p.sock)));
    assert_eq!((p.sockets(), p.stack.small_objects()), (1, (0, 1, 0)));
    p.at(59_999);
    assert_eq!(p.stack.small_objects().1, 1);
    p.at(60_000);
    assert_eq!(p.stack.small_objects().1, 0);
    // A FIN that comes too late finds nobody.
    p.inject("F. 1 ack 2");
    p.expect("R 2");
}

#[test]
fn an_orphan_in_fin_wait_2_completes_when_the_fin_comes() {
    let sysctl = Sysctl { tcp_fin_timeout: 10, ..Sysctl::default() };
    let mut p = Peer::server(Shape { sysctl, ..Shape::default() });
    p.close();
    p.expect("F. 1 ack 1");
    p.inject(". 1 ack 2");
    p.at(9_000);
    p.inject("F. 1 ack 2");
    p.expect(". 2 ack 2");
    // TIME-WAIT has its own length.
    p.at(68_999);
    assert_eq!(p.stack.small_objects().1, 1);
    p.at(69_000);
    assert_eq!(p.stack.small_objects().1, 0);
}

#[test]
fn linger2_sets_the_time_of_one_socket_and_below_zero_allows_none() {
    let mut p = Peer::server(Shape { options: |o| o.linger2 = 3, ..Shape::default() });
    p.close();
    p.expect("F. 1 ack 1");
    p.inject(". 1 ack 2");
    p.at(2_999);
    assert_eq!(p.stack.small_objects().1, 1);
    p.at(3_000);
    assert_eq!(p.stack.small_objects().1, 0);
    let mut p = Peer::server(Shape { options: |o| o.linger2 = -1, ..Shape::default() });
    p.close();
    p.expect("F. 1 ack 1");
    p.inject(". 1 ack 2");
    p.expect("R 2:2");
    assert_eq!((p.sockets(), p.stack.small_objects()), (1, (0, 0, 0)));
}

#[test]
fn an_owner_in_fin_wait_2_may_wait_for_ever() {
    let mut p = Peer::server(Shape::default());
    p.shutdown(How::Write);
    p.expect("F. 1 ack 1");
    p.inject(". 1 ack 2");
    p.at(1_000_000);
    p.inject("P. 1:11 ack 2");
    p.drain();
    p.read(10);
}

#[test]
fn an_orphan_gives_up_after_eight_retries() {
    // tcp_orphan_retries 0 means 8: (2^9 - 1) * 200 ms = 102.2 s after the first retransmission.
    let mut p = Peer::server(Shape::default());
    p.close();
    p.expect("F. 1 ack 1");
    p.run_to(102_000);
    assert_eq!(p.stack.small_objects().2, 1);
    p.run_to(200_000);
    assert_eq!((p.sockets(), p.stack.small_objects()), (1, (0, 0, 0)));
}

#[test]
fn the_application_hears_that_the_connection_is_over() {
    let mut p = Peer::server(Shape::default());
    p.inject("F. 1 ack 1");
    assert!(p.events.contains(&Event::Readable(p.sock)));
    assert!(!p.events.contains(&Event::Closed(p.sock)));
    p.expect_at(1, ". 1 ack 2");
    p.shutdown(How::Write);
    p.expect("F. 1 ack 2");
    p.inject(". 2 ack 2");
    assert!(p.events.contains(&Event::Closed(p.sock)));
}

#[test]
fn an_acknowledgement_that_ends_it_is_one_like_any_other() {
    // In LAST-ACK, in CLOSING, and where an orphan becomes the small object of FIN-WAIT-2.
    for (first, second) in [(true, true), (false, true), (false, false)] {
        let mut p = Peer::server(Shape::default());
        if first {
            p.inject("F. 1 ack 1");
            p.drain();
        }
        p.close();
        p.drain();
        let before = p.stack.counters().tcp_ext.tcp_pure_acks;
        if !first && second {
            p.inject("F. 1 ack 1");
            p.drain();
        }
        p.inject(if second { ". 2 ack 2" } else { ". 1 ack 2" });
        assert_eq!(p.stack.counters().tcp_ext.tcp_pure_acks, before + 1, "{first} {second}");
    }
}

#[test]
fn what_the_acknowledgement_of_resetting_data_lets_go_leaves_first() {
    // `tcp_ack` sends before `tcp_rcv_state_process` looks at the data.
    const SUBNET: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0));
    for reachable in [true, false] {
        let mut p = Peer::server(Shape::default());
        p.write(4_380);
        p.expect_data(1, 4_381, 1_460);
        p.shutdown(How::Both);
        p.expect("F. 4381 ack 1");
        if !reachable {
            assert!(p.stack.remove_route(SUBNET, 24, None, DeviceId(1)), "the subnet's route");
        }
        p.inject("P. 1:11 ack 1 sack 1461:4382");
        if reachable {
            p.expect(". 1:1461 ack 1");
            p.expect("R 1");
        }
        p.quiet();
        assert_eq!((p.state(), p.error()), (State::Close, Some(Error::Reset)));
        assert_eq!(p.stack.counters().tcp.retrans_segs, u64::from(reachable));
        // Nothing of it is sought for any more.
        p.at(10_000);
        p.quiet();
    }
}

#[test]
fn what_an_acknowledgement_lets_go_leaves_before_the_next_segment_ends_the_connection() {
    // `tcp_data_snd_check` at the end of each, whether or not the next one is a reset, or data that nobody reads.
    for (together, end) in
        [(true, "R 1"), (false, "R 1"), (true, "P. 1:11 ack 1461"), (false, "P. 1:11 ack 1461")]
    {
        let mut p = Peer::server(Shape::default());
        p.write(20_000);
        p.expect_data(1, 14_601, 1_460);
        p.close();
        let acks = ". 1 ack 1461";
        if together {
            p.inject_together(&[acks, end]);
        } else {
            p.inject(acks);
            p.inject_more(end);
        }
        p.expect_data(14_601, 17_521, 1_460);
        if end.starts_with('P') {
            p.expect("R 1461");
        }
        p.quiet();
        assert_eq!(p.sockets(), 1, "the listener");
    }
}

/// What is looked at from behind what waits (SO_PEEK_OFF): the end where it has come, and else the error of a reset.
#[test]
fn a_look_from_behind_what_waits_sees_the_end_before_an_error() {
    for (fin, wanted) in [(true, Ok(0)), (false, Err(Error::Reset))] {
        let mut p = Peer::server(Shape::default());
        p.inject_more(". 1:301 ack 1");
        if fin {
            p.inject_more("F. 301 ack 1");
        }
        p.inject_more(if fin { "R. 302 ack 1" } else { "R. 301 ack 1" });
        let (now, sock) = (p.now(), p.sock);
        assert_eq!(p.stack.tcp_peek(now, sock, 600, &mut [0]), wanted);
        assert_eq!(p.stack.tcp_peek(now, sock, 600, &mut [0]), Ok(0));
    }
}
