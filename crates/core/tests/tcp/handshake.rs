//! Opening: three segments, refusals, retransmission, simultaneous open, backlog (RFC 9293 sections 3.5, 3.10.7).
use super::peer::{Peer, Shape};
use lowwater_core::base::{Error, Sysctl};
use lowwater_core::stack::{Event, ListenAddr, ListenOptions};
use lowwater_core::tcp::options::secs_to_retrans;
use lowwater_core::tcp::{SendFlags, SocketOptions, State};

#[test]
fn active_open_offers_linux_options_and_completes() {
    let mut p = Peer::connecting(Shape::default());
    // 131,072 bytes of buffer, half of it window, in whole segments: 44 * 1,460.
    p.expect("S 0 win 64240 mss 1460 sackOK ts 0/0 ws 7 opts notect");
    assert_eq!(p.state(), State::SynSent);
    p.at(40);
    p.inject("S. 0 ack 1 win 65535 mss 1460 sackOK ws 7 ts 777/0");
    // The window rounded up to the scale: 502 * 128 = 64,256.
    p.expect(". 1 ack 1 win 502 ts 40/777");
    assert_eq!(p.state(), State::Established);
    assert!(p.events.contains(&Event::Connected(p.sock)));
    p.quiet();
}

#[test]
fn passive_open_answers_with_the_options_that_were_offered() {
    let mut p = Peer::listening(Shape::default(), 8);
    p.inject("S 0 win 29200 mss 1400 sackOK ts 100/0 ws 9");
    // With timestamps a full segment brings 1,448 bytes: 45 * 1,448.
    p.expect("S. 0 ack 1 win 65160 mss 1460 sackOK ts 0/100 ws 7 opts");
    p.at(10);
    p.inject(". 1 ack 1 win 58 ts 110/0");
    p.quiet();
    p.accept();
    assert_eq!(p.state(), State::Established);
    let info = p.info();
    assert_eq!((info.snd_wscale, info.snd_wnd, info.snd_mss), (9, 58 << 9, 1_400 - 12));
}

#[test]
fn passive_open_offers_nothing_that_was_not_offered() {
    let mut p = Peer::listening(Shape::default(), 8);
    p.inject("S 0 win 1000");
    p.expect("S. 0 ack 1 win 64240 mss 1460 opts");
    p.inject(". 1 ack 1");
    p.accept();
    // RFC 9293 section 3.7.1 (MUST-15): without the option a segment holds 536 bytes.
    assert_eq!(p.info().snd_mss, 536);
}

#[test]
fn data_in_a_syn_is_not_acknowledged_and_not_delivered() {
    let mut p = Peer::listening(Shape::default(), 8);
    p.inject("S 0:100 win 65535 mss 1460");
    p.expect("S. 0 ack 1");
    p.inject(". 1 ack 1");
    p.accept();
    assert_eq!(p.try_read(10), Err(Error::WouldBlock));
    // The data comes again after the handshake, and once.
    p.inject("P. 1:101 ack 1");
    p.expect(". 1 ack 101");
    p.read(100);
}

#[test]
fn data_with_the_last_segment_of_the_handshake_is_delivered() {
    let mut p = Peer::listening(Shape::default(), 8);
    p.inject("S 0 win 65535 mss 1460");
    p.expect("S. 0 ack 1");
    p.inject("P. 1:101 ack 1");
    p.expect(". 1 ack 101");
    p.accept();
    p.read(100);
}

#[test]
fn a_fin_with_the_last_segment_of_the_handshake_leads_to_close_wait() {
    let mut p = Peer::listening(Shape::default(), 8);
    p.inject("S 0 win 65535 mss 1460");
    p.expect("S. 0 ack 1");
    p.inject("F. 1 ack 1");
    p.accept();
    // No data has come yet, so the estimated delay is zero: the next tick.
    p.expect_at(1, ". 1 ack 2");
    assert_eq!(p.state(), State::CloseWait);
    assert_eq!(p.try_read(10), Ok(0));
}

#[test]
fn a_segment_without_socket_is_answered_with_a_reset() {
    // RFC 9293 section 3.10.7.1: <SEQ=SEG.ACK><CTL=RST>, or <SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>.
    let mut p = Peer::new(Shape::default());
    p.inject("S 0 win 100");
    p.expect("R. 0 ack 1 win 0");
    p.inject("P. 1:11 ack 4711");
    p.expect("R 4711");
    p.inject("F 1:11");
    p.expect("R. 0 ack 12");
    // Never a reset for a reset.
    p.inject("R 1");
    p.inject("R. 1 ack 5");
    p.quiet();
}

#[test]
fn a_listener_answers_an_ack_with_a_reset_and_nothing_else_but_syns() {
    // RFC 9293 section 3.10.7.2.
    let mut p = Peer::listening(Shape::default(), 8);
    p.inject(". 1 ack 99");
    p.expect("R 99");
    p.inject("R 1");
    p.inject("F 1");
    p.quiet();
    p.inject("S. 0 ack 99");
    p.expect("R 99");
    // A SYN with FIN is no SYN for Linux.
    p.inject("SF 0 win 100");
    p.quiet();
}

#[test]
fn nobody_is_asked_about_what_could_open_nothing() {
    let mut p = Peer::new(Shape::default());
    let listen = ListenOptions { ask: true, ..ListenOptions::new(SocketOptions::new(p.stack.sysctl())) };
    p.stack.tcp_listen(p.now(), ListenAddr::port(80), listen).unwrap();
    p.inject("SF 0 win 100");
    assert_eq!(p.stack.small_objects().0, 0);
    p.inject("S 0 win 100");
    assert_eq!(p.stack.small_objects().0, 1);
}

#[test]
fn a_refused_connection_tells_its_reason() {
    let mut p = Peer::connecting(Shape::default());
    p.expect("S 0");
    p.at(20);
    p.inject("R. 0 ack 1");
    p.quiet();
    assert_eq!(p.state(), State::Close);
    assert_eq!(p.error(), Some(Error::Refused));
    assert!(p.events.contains(&Event::Closed(p.sock)));
}

#[test]
fn syn_sent_believes_no_reset_without_its_number() {
    // RFC 9293 section 3.10.7.3: a reset must acknowledge the SYN; an unacceptable ACK is answered with a reset.
    let mut p = Peer::connecting(Shape::default());
    p.expect("S 0");
    p.inject("R 0");
    p.inject("R. 0 ack 2");
    p.inject("R. 0 ack 0");
    p.quiet();
    p.inject("S. 0 ack 2 win 100");
    p.expect("R 2");
    p.inject(". 0 ack 0");
    p.expect("R 0");
    assert_eq!(p.state(), State::SynSent);
    // Data or FIN without SYN are nothing.
    p.inject("F 0");
    p.inject(". 0 ack 1");
    p.quiet();
    p.inject("S. 0 ack 1 win 65535 mss 1460");
    p.expect(". 1 ack 1");
}

#[test]
fn a_syn_is_sent_seven_times_in_127_seconds_and_then_fails() {
    // tcp_syn_retries 6: 1, 3, 7, 15, 31 and 63 s after the first, failure at 127 s (RFC 6298 section 5.5).
    let sysctl = Sysctl { tcp_syn_linear_timeouts: 0, ..Sysctl::default() };
    let mut p = Peer::connecting(Shape { sysctl, ..Shape::default() });
    p.expect("S 0");
    for second in [1, 3, 7, 15, 31, 63] {
        p.expect_at(second * 1_000, "S 0 win 64240 mss 1460 sackOK ws 7");
    }
    p.at(126_999);
    assert_eq!(p.state(), State::SynSent);
    p.at(127_000);
    assert_eq!(p.state(), State::Close);
    assert_eq!(p.error(), Some(Error::TimedOut));
    // The timeout that gives up is one, too.
    let count = p.stack.counters();
    assert_eq!((count.tcp.attempt_fails, count.tcp_ext.tcp_timeouts), (1, 7));
}

#[test]
fn the_first_syn_timeouts_are_linear() {
    // tcp_syn_linear_timeouts 4: four more at the first timeout's distance, then doubling; patience stays that of tcp_syn_retries.
    let mut p = Peer::connecting(Shape::default());
    p.expect("S 0");
    for second in [1, 2, 3, 4, 5, 7, 11, 19, 35, 67] {
        p.expect_at(second * 1_000, "S 0");
    }
    p.at(130_999);
    assert_eq!(p.state(), State::SynSent);
    p.at(131_000);
    assert_eq!(p.error(), Some(Error::TimedOut));
}

#[test]
fn syncnt_bounds_the_syns() {
    // Two doublings would take seven seconds; that is the end, whatever came before.
    let mut p = Peer::connecting(Shape { options: |o| o.syncnt = 2, ..Shape::default() });
    p.expect("S 0");
    for second in 1..=5 {
        p.expect_at(second * 1_000, "S 0");
    }
    p.at(6_999);
    p.at(7_000);
    assert_eq!(p.error(), Some(Error::TimedOut));
}

#[test]
fn a_syn_ack_that_was_lost_twice_leaves_one_segment_unless_a_timestamp_clears_it() {
    for (echo, cwnd) in [("", 1), (" ts 10/0", 10), (" ts 10/1000", 1)] {
        let mut p = Peer::listening(Shape::default(), 8);
        let ts = if echo.is_empty() { "" } else { " ts 5/0" };
        p.inject(&format!("S 0 win 65535 mss 1460{ts}"));
        p.expect("S. 0 ack 1");
        p.expect_at(1_000, "S. 0 ack 1");
        p.expect_at(3_000, "S. 0 ack 1");
        p.inject(&format!(". 1 ack 1{echo}"));
        p.accept();
        assert_eq!((p.info().snd_cwnd, p.info().total_retrans, p.info().total_rto), (cwnd, 2, 2), "{echo}");
    }
}

#[test]
fn an_acknowledgement_that_echoes_no_timestamp_of_the_syn_acks_opens_nothing() {
    let mut p = Peer::listening(Shape::default(), 8);
    p.inject("S 0 win 65535 mss 1460 ts 5/0");
    p.expect("S. 0 ack 1");
    p.at(100);
    p.inject(". 1 ack 1 ts 10/1");
    p.expect(". 1 ack 1");
    assert_eq!(p.stack.counters().tcp_ext.tsecr_rejected, 1);
    p.inject(". 1 ack 1 ts 10/0");
    p.accept();
}

#[test]
fn a_syn_ack_to_a_repeated_syn_gives_an_rto_of_three_seconds_or_a_sample_by_timestamps() {
    // RFC 6298 section 5.7: without a sample, data begins with three seconds.
    let mut p = Peer::connecting(Shape::default());
    p.expect("S 0");
    p.expect_at(1_000, "S 0");
    p.at(1_100);
    p.inject("S. 0 ack 1 win 65535 mss 1460");
    p.expect(". 1 ack 1");
    assert_eq!(p.info().rto, 3_000_000);
    // With timestamps the echo tells which SYN was answered: 100 ms.
    let mut p = Peer::connecting(Shape::default());
    p.expect("S 0 ts 0/0");
    p.expect_at(1_000, "S 0 ts 1000/0");
    p.at(1_100);
    p.inject("S. 0 ack 1 win 65535 mss 1460 ts 5/1000");
    p.expect(". 1 ack 1");
    assert_eq!(p.info().rto, 300_000);
}

#[test]
fn a_syn_ack_is_sent_six_times_in_63_seconds_and_then_forgotten() {
    // tcp_synack_retries 5.
    let mut p = Peer::listening(Shape::default(), 8);
    p.inject("S 0 win 65535 mss 1460");
    p.expect("S. 0 ack 1");
    for second in [1, 3, 7, 15, 31] {
        p.expect_at(second * 1_000, "S. 0 ack 1");
    }
    p.at(62_999);
    assert_eq!(p.stack.small_objects().0, 1);
    p.at(63_000);
    assert_eq!(p.stack.small_objects().0, 0);
    p.inject(". 1 ack 1");
    p.expect("R 1");
}

#[test]
fn repeated_syns_are_answered_but_do_not_use_up_the_retries() {
    let mut p = Peer::listening(Shape::default(), 8);
    p.inject("S 0 win 65535 mss 1460");
    p.expect("S. 0 ack 1");
    for i in 0..8 {
        p.at(i * 600 / 10);
        p.inject_more("S 0 win 65535 mss 1460");
        // tcp_invalid_ratelimit: once in 500 ms.
        if i == 0 {
            p.expect("S. 0 ack 1");
        }
        p.quiet();
    }
    p.run_to(20_000);
    assert_eq!(p.stack.small_objects().0, 1, "the request is still there");
    p.inject(". 1 ack 1");
    p.accept();
    assert_eq!(p.state(), State::Established);
}

#[test]
fn a_request_survives_wrong_acks_and_dies_by_the_right_reset() {
    // RFC 9293 section 3.10.7.4 in SYN-RECEIVED.
    let mut p = Peer::listening(Shape::default(), 8);
    p.inject("S 0 win 65535 mss 1460");
    p.expect("S. 0 ack 1");
    p.inject(". 1 ack 7");
    p.expect("R 7");
    p.inject(". 70000 ack 1");
    p.expect(". 1 ack 1");
    p.inject("R 70000");
    assert_eq!(p.stack.small_objects().0, 1);
    // In the window but not the next number it is challenged, and that counts as anywhere.
    let counts = |p: &Peer| {
        let ext = &p.stack.counters().tcp_ext;
        (ext.tcp_challenge_ack, ext.tcp_ack_skipped_challenge, ext.tcp_ack_skipped_syn_recv)
    };
    p.inject("R 9");
    assert_eq!(counts(&p), (0, 1, 0), "half a second after the last answer");
    p.at(600);
    p.inject("R 9");
    p.expect(". 1 ack 1");
    p.inject(". 70000 ack 1");
    assert_eq!(counts(&p), (1, 1, 1));
    p.inject("R 1");
    assert_eq!(p.stack.small_objects().0, 0);
    p.quiet();
}

#[test]
fn simultaneous_open() {
    // RFC 9293 section 3.5, figure 8.
    let mut p = Peer::connecting(Shape::default());
    p.expect("S 0");
    p.at(10);
    p.inject("S 0 win 65535 mss 1460 sackOK ws 7 ts 5/0");
    p.expect("S. 0 ack 1 win 64240 mss 1460 sackOK ws 7 ts 10/5 opts");
    assert_eq!(p.state(), State::SynRecv);
    p.at(20);
    p.inject("S. 0 ack 1 win 65535 mss 1460 sackOK ws 7 ts 15/0");
    assert_eq!(p.state(), State::Established);
    assert!(p.events.contains(&Event::Connected(p.sock)));
    p.drain();
    p.write(100);
    p.expect("P. 1:101 ack 1");
}

#[test]
fn simultaneous_open_completed_by_an_ack() {
    let mut p = Peer::connecting(Shape::default());
    p.expect("S 0");
    p.at(10);
    p.inject("S 0 win 65535 mss 1460");
    p.expect("S. 0 ack 1");
    // Lost: it comes again.
    let again = p.run_to(1_200);
    assert!(again.iter().any(|(_, s)| s.flags == "S."), "{again:?}");
    p.inject(". 1 ack 1");
    p.quiet();
    assert_eq!(p.state(), State::Established);
}

/// A listener with a backlog of 2: three connections wait for `accept`, the last ACK of a fourth is still to come.
fn full(sysctl: Sysctl) -> Peer {
    let mut p = Peer::listening(Shape { sysctl, ..Shape::default() }, 2);
    for port in [5_000, 5_001, 5_002] {
        p.other_peer(port);
        p.inject("S 0 win 65535 mss 1460");
        p.expect("S. 0 ack 1");
        if port == 5_002 {
            p.other_peer(5_003);
            p.inject("S 0 win 65535 mss 1460");
            p.expect("S. 0 ack 1");
            let iss = p.swap_peer(5_002);
            p.inject(". 1 ack 1");
            p.swap_peer_back(5_003, iss);
        } else {
            p.inject(". 1 ack 1");
        }
    }
    p
}

#[test]
fn a_full_backlog_drops_the_last_ack_until_somebody_accepts() {
    // Linux: a backlog of n holds n + 1; the request stays and repeats its SYN-ACK.
    let mut p = full(Sysctl::default());
    p.inject(". 1 ack 1");
    assert_eq!(p.stack.counters().tcp_ext.listen_overflows, 1);
    p.expect_at(1_000, "S. 0 ack 1");
    p.accept();
    p.inject(". 1 ack 1");
    for _ in 0..3 {
        p.accept();
    }
    assert_eq!(p.state(), State::Established);
    assert_eq!(p.stack.counters().tcp_ext.listen_overflows, 1);
}

#[test]
fn a_full_backlog_drops_new_syns() {
    let mut p = Peer::listening(Shape::default(), 1);
    for port in [5_000, 5_001] {
        p.other_peer(port);
        p.inject("S 0 win 65535 mss 1460");
        p.expect("S. 0 ack 1");
        p.inject(". 1 ack 1");
    }
    p.other_peer(5_002);
    p.inject("S 0 win 65535 mss 1460");
    p.quiet();
    assert_eq!(p.stack.counters().tcp_ext.listen_overflows, 1);
    p.accept();
    p.inject("S 0 win 65535 mss 1460");
    p.expect("S. 0 ack 1");
}

#[test]
fn abort_on_overflow_resets_instead() {
    let mut p = full(Sysctl { tcp_abort_on_overflow: true, ..Sysctl::default() });
    p.inject(". 1 ack 1");
    p.expect("R 1");
    assert_eq!(p.stack.small_objects().0, 0);
    assert_eq!(p.stack.counters().tcp_ext.embryonic_rsts, 1);
}

#[test]
fn nothing_can_be_written_before_the_handshake_is_complete() {
    let mut p = Peer::connecting(Shape::default());
    p.expect("S 0");
    assert_eq!(p.try_write(10, SendFlags::default()), Err(Error::WouldBlock));
    p.inject("S. 0 ack 1 win 65535 mss 1460");
    p.expect(". 1 ack 1");
    assert!(p.events.contains(&Event::Writable(p.sock)));
    p.write(10);
    p.expect("P. 1:11 ack 1");
}

#[test]
fn close_before_the_handshake_is_complete_is_silent() {
    // RFC 9293 section 3.10.4, SYN-SENT: the connection is deleted.
    let mut p = Peer::connecting(Shape::default());
    p.expect("S 0");
    p.close();
    p.quiet();
    assert_eq!(p.sockets(), 0);
    p.inject("S. 0 ack 1 win 65535");
    p.expect("R 1");
}

#[test]
fn an_icmp_error_ends_an_attempt_but_not_a_connection() {
    // RFC 5461, RFC 5927 section 4; Linux reports a hard error at once only while connecting.
    let mut p = Peer::connecting(Shape::default());
    p.expect("S 0");
    p.icmp(3, 0, 17);
    assert_eq!(p.state(), State::SynSent, "a number that we never sent: forged");
    p.icmp(3, 0, 0);
    assert_eq!((p.state(), p.error()), (State::Close, Some(Error::Refused)));
    let mut p = Peer::client(Shape::default());
    p.write(100);
    p.expect("P. 1:101");
    p.icmp(1, 0, 1);
    assert_eq!((p.state(), p.error()), (State::Established, None));
}

#[test]
fn an_icmp_error_is_told_to_who_asked_and_the_connection_goes_on() {
    let mut p = Peer::client(Shape::default());
    p.set(|o| o.recverr = [true, false]);
    p.write(100);
    p.expect("P. 1:101");
    p.icmp(1, 0, 1);
    assert_eq!((p.state(), p.error()), (State::Established, Some(Error::HostUnreachable)));
    p.inject(". 1 ack 101");
    p.write(10);
    p.expect("P. 101:111");
}

#[test]
fn a_peer_with_an_old_connection_gets_the_syn_again_soon() {
    // RFC 9293 section 3.5.1, figure 9: the old half answers with its ACK, our reset ends it; Linux does not wait a second.
    let mut p = Peer::connecting(Shape::default());
    p.expect("S 0");
    p.at(100);
    p.inject(". 1000 ack 77777");
    p.expect("R 77777");
    p.expect_at(102, "S 0");
    p.inject("S. 0 ack 1 win 65535 mss 1460");
    p.expect(". 1 ack 1");
    assert_eq!(p.state(), State::Established);
}

#[test]
fn a_syn_ack_that_echoes_no_timestamp_of_ours_is_refused() {
    // RFC 7323 section 5.3 in SYN-SENT; Linux's PAWSActive.
    let mut p = Peer::connecting(Shape::default());
    p.expect("S 0 ts 0/0");
    p.at(100);
    p.inject("S. 0 ack 1 win 65535 mss 1460 ts 5/101");
    p.expect("R 1");
    p.inject("S. 0 ack 1 win 65535 mss 1460 ts 5/-1");
    p.expect("R 1");
    assert_eq!(p.stack.counters().tcp_ext.paws_active, 2);
    p.inject("S. 0 ack 1 win 65535 mss 1460 ts 5/0");
    p.expect(". 1 ack 1");
}

#[test]
fn an_acknowledgement_alone_wakes_nobody_who_waits_for_data() {
    // TCP_DEFER_ACCEPT of 3 seconds: two timeouts of the SYN-ACK.
    let options: fn(&mut SocketOptions) = |o| o.defer_accept = secs_to_retrans(3);
    let mut p = Peer::listening(Shape { options, ..Shape::default() }, 8);
    p.inject("S 0 win 65535 mss 1460");
    p.expect("S. 0 ack 1");
    p.inject(". 1 ack 1");
    p.quiet();
    assert_eq!(p.stack.small_objects().0, 1);
    // Data is what was waited for.
    p.at(500);
    p.inject("P. 1:11 ack 1");
    p.accept();
    p.read(10);
    p.drain();
    // A silent peer is reminded at the end of the wait, and its next acknowledgement is enough.
    p.other_peer(5_001);
    p.inject("S 0 win 65535 mss 1460");
    p.expect("S. 0 ack 1");
    p.inject(". 1 ack 1");
    p.at(1_600);
    p.expect_at(3_500, "S. 0 ack 1");
    p.inject(". 1 ack 1");
    p.accept();
    assert_eq!(p.stack.counters().tcp_ext.tcp_defer_accept_drop, 2);
}

#[test]
fn a_connecting_socket_that_defers_keeps_its_last_ack_for_its_data() {
    let mut p = Peer::connecting(Shape { options: |o| o.defer_accept = 1, ..Shape::default() });
    p.expect("S 0");
    p.inject("S. 0 ack 1 win 65535 mss 1460");
    p.quiet();
    p.at(100);
    p.write(10);
    p.expect("P. 1:11 ack 1");
    // Without data it leaves after the delayed acknowledgement's time.
    let mut p = Peer::connecting(Shape { options: |o| o.defer_accept = 1, ..Shape::default() });
    p.expect("S 0");
    p.inject("S. 0 ack 1 win 65535 mss 1460");
    p.expect_at(200, ". 1 ack 1");
}

#[test]
fn an_unreachable_peer_ends_a_request_in_silence() {
    // Net and host unreachable name the SYN-ACK by its number: the request is dropped (`tcp_req_err`).
    for (code, seq, dropped) in
        [(0, 0, true), (1, 0, true), (1, 1, false), (1, 77, false), (3, 0, false), (13, 0, false)]
    {
        let mut p = Peer::listening(Shape::default(), 100);
        p.inject("S 0 win 65535 mss 1460");
        p.expect("S. 0 ack 1");
        p.icmp(code, 0, seq);
        p.quiet();
        assert_eq!(p.stack.small_objects().0, usize::from(!dropped), "code {code} about {seq}");
        let ext = &p.stack.counters().tcp_ext;
        assert_eq!((ext.listen_drops, ext.out_of_window_icmps), (u64::from(dropped), u64::from(seq != 0)));
        // Nobody was told, and the peer may try again.
        assert_eq!(p.error(), None);
        if dropped {
            p.inject("S 0 win 65535 mss 1460");
            p.expect("S. 0 ack 1");
        } else {
            p.inject(". 1 ack 1");
            assert_eq!(p.stack.small_objects().0, 0, "the handshake goes on");
        }
    }
}

#[test]
fn the_headers_of_the_syn_are_kept_where_the_listener_asks() {
    let options: fn(&mut SocketOptions) = |o| o.save_syn = true;
    let p = Peer::server(Shape { options, ..Shape::default() });
    let syn = p.stack.tcp_saved_syn(p.sock).unwrap().expect("kept").to_vec();
    // IPv4 without options, TCP with MSS and SACK-permitted; the flags are SYN alone.
    assert_eq!((syn[0], syn[9], usize::from(syn[32] >> 4) * 4, syn[33]), (0x45, 6, syn.len() - 20, 2));
    let mut p = p;
    p.stack.tcp_forget_syn(p.sock).unwrap();
    assert_eq!(p.stack.tcp_saved_syn(p.sock).unwrap(), None);
}

#[test]
fn the_headers_of_the_syn_are_not_kept_otherwise() {
    let p = Peer::server(Shape::default());
    assert_eq!(p.stack.tcp_saved_syn(p.sock).unwrap(), None);
    let options: fn(&mut SocketOptions) = |o| o.save_syn = true;
    let p = Peer::client(Shape { options, ..Shape::default() });
    assert_eq!(p.stack.tcp_saved_syn(p.sock).unwrap(), None);
}
