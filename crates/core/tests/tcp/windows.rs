//! The peer's window: silly ones, closed ones, probes, and our own window (RFC 9293 section 3.8.6).
use super::peer::{Peer, Shape};
use lowwater_core::base::{Error, Sysctl};
use lowwater_core::tcp::State;

#[test]
fn a_window_below_a_segment_is_used_only_after_the_override_timeout() {
    // RFC 9293 section 3.8.6.2.1 (MUST-38): 0.1 to 1 s; Linux: the probe timer, here 300 ms.
    let mut p = Peer::server(Shape::default());
    p.write(100);
    p.expect("P. 1:101");
    p.at(100);
    p.inject(". 1 ack 101 win 1000");
    p.write(2_000);
    p.at(399);
    p.expect_at(400, "P. 101:1101");
    p.inject(". 1 ack 1101 win 800");
    p.quiet();
    p.inject(". 1 ack 1101 win 1000");
    p.expect("P. 1101:2101");
}

#[test]
fn nothing_is_sent_beyond_the_window() {
    let mut p = Peer::server(Shape { win: 4_000, ..Shape::default() });
    p.write(10_000);
    p.expect(". 1:1461");
    p.expect(". 1461:2921");
    p.quiet();
    // What is not the last that was written goes up to the edge (Linux 6.18).
    p.inject(". 1 ack 1461 win 4000");
    p.expect(". 2921:4381");
    p.expect("P. 4381:5461");
    p.quiet();
}

#[test]
fn a_peer_with_a_small_buffer_gets_segments_of_half_its_window() {
    // Linux's tcp_bound_to_half_wnd: two segments fit, or both sides wait for each other.
    let mut p = Peer::server(Shape { syn: "win 2000 mss 1460", win: 2_000, ..Shape::default() });
    p.write(3_000);
    p.expect_data(1, 2_001, 1_000);
    p.quiet();
    p.inject(". 1 ack 2001 win 2000");
    p.expect("P. 2001:3001");
}

#[test]
fn a_closed_window_is_probed_with_backoff() {
    // RFC 9293 section 3.8.6.1: the RTO (100 + 200 ms), doubled; the probe has the number before SND.UNA and no data.
    let mut p = Peer::server(Shape { win: 0, ..Shape::default() });
    p.write(1_000);
    for ms in [300, 900, 2_100, 4_500] {
        p.at(ms - 1);
        p.expect_at(ms, ". 0 ack 1");
    }
    assert_eq!(p.info().probes, 4);
    // The window opens: what waited goes at once.
    p.at(5_000);
    p.inject(". 1 ack 1 win 65535");
    p.expect("P. 1:1001");
    assert_eq!(p.info().probes, 0);
}

#[test]
fn answered_probes_go_on_for_ever() {
    // RFC 9293 section 3.8.6.1 (MUST-37): as long as the peer answers, the connection lives.
    let sysctl = Sysctl { tcp_retries2: 3, ..Sysctl::default() };
    let mut p = Peer::server(Shape { sysctl, win: 0, ..Shape::default() });
    p.write(1_000);
    let mut probes = 0;
    while p.ms() < 3_600_000 {
        let before = p.ms();
        for (at, seg) in p.run_to(before + 100) {
            assert_eq!(seg.to_string().split(" win").next(), Some(". 0:0 ack 1"), "at {at}");
            probes += 1;
            p.inject_more(". 1 ack 1 win 0");
        }
    }
    assert_eq!(p.state(), State::Established);
    // The backoff stays where it is: tcp_retries2 doublings, 300 ms * 2^3.
    assert!((1_400..=1_503).contains(&probes), "{probes}");
}

#[test]
fn unanswered_probes_end_the_connection() {
    let sysctl = Sysctl { tcp_retries2: 3, ..Sysctl::default() };
    let mut p = Peer::server(Shape { sysctl, win: 0, ..Shape::default() });
    p.write(1_000);
    p.expect_at(300, ". 0 ack 1");
    p.expect_at(900, ". 0 ack 1");
    p.expect_at(2_100, ". 0 ack 1");
    p.at(4_499);
    assert_eq!(p.state(), State::Established);
    p.at(4_500);
    assert_eq!((p.state(), p.error()), (State::Close, Some(Error::TimedOut)));
}

#[test]
fn nothing_to_send_means_no_probe() {
    let mut p = Peer::server(Shape { win: 0, ..Shape::default() });
    p.at(600_000);
}

#[test]
fn a_window_that_closes_over_data_in_flight_is_retransmitted_into() {
    // Linux: in-flight data keeps the RTO timer; a shut window does not count against tcp_retries2.
    let mut p = Peer::server(Shape::default());
    p.write(1_000);
    p.expect("P. 1:1001");
    p.at(100);
    p.inject(". 1 ack 1 win 0");
    let out = p.run_to(20_000);
    assert!(out.len() >= 4, "{out:?}");
    assert!(out.iter().all(|(_, s)| s.seq == Some(1)), "{out:?}");
    assert_eq!(p.state(), State::Established);
    p.inject(". 1 ack 1001 win 65535");
    assert_eq!(p.info().unacked, 0);
}

#[test]
fn an_old_segment_does_not_change_the_window() {
    // RFC 9293 section 3.10.7.4: SND.WL1, SND.WL2.
    let mut p = Peer::server(Shape::default());
    p.inject("P. 1:11 ack 1 win 3000");
    p.expect(". 1 ack 11");
    assert_eq!(p.info().snd_wnd, 65_535, "the number of the handshake's last ACK, but a smaller window");
    p.inject(". 11 ack 1 win 3000");
    assert_eq!(p.info().snd_wnd, 3_000);
    p.inject(". 11 ack 1 win 200");
    p.inject(". 10 ack 1 win 40000");
    p.expect(". 1 ack 11");
    assert_eq!(p.info().snd_wnd, 3_000);
    p.inject(". 11 ack 1 win 40000");
    assert_eq!(p.info().snd_wnd, 40_000);
}

#[test]
fn windows_are_scaled_both_ways_but_not_in_syns() {
    // RFC 7323 section 2.2.
    let mut p = Peer::listening(Shape::default(), 1);
    p.inject("S 0 win 100 mss 1460 ws 10");
    p.expect("S. 0 ack 1 win 64240 ws 7");
    p.inject(". 1 ack 1 win 50");
    p.accept();
    assert_eq!(p.info().snd_wnd, 51_200);
    p.inject("P. 1:11 ack 1 win 60");
    // 64,240 less 10, rounded up to 128: 502 * 128 = 64,256.
    p.expect(". 1 ack 11 win 502");
}

#[test]
fn a_scale_above_fourteen_counts_as_fourteen() {
    // RFC 7323 section 2.3.
    let mut p = Peer::listening(Shape::default(), 1);
    p.inject("S 0 win 100 mss 1460 ws 15");
    p.expect("S. 0 ack 1 ws 7");
    p.inject(". 1 ack 1 win 2");
    p.accept();
    assert_eq!((p.info().snd_wscale, p.info().snd_wnd), (14, 32_768));
}

#[test]
fn our_window_closes_as_the_buffer_fills_and_its_edge_never_moves_back() {
    // RFC 9293 section 3.8.6 (MUST-34 in spirit), 3.8.6.2.2 for the update.
    let mut p = Peer::server(Shape { options: |o| o.rcvbuf = Some(16_384), ..Shape::default() });
    let (mut at, mut edge, mut last) = (1, 1_001, u32::MAX);
    for _ in 0..40 {
        let len = (edge - at).min(1_000);
        p.inject(&format!(". {at}:{} ack 1", at + len));
        for seg in p.run_to(p.ms() + 50).into_iter().map(|(_, seg)| seg) {
            let right = seg.ack.unwrap() + seg.win.unwrap();
            assert!(right >= edge, "{seg}: the edge was {edge}");
            (edge, last) = (right, seg.win.unwrap());
        }
        if last == 0 {
            break;
        }
        at += len;
    }
    assert_eq!(last, 0, "a silly window is not offered");
    let held = p.info().bytes_received as usize;
    assert!((4_000..=16_384).contains(&held), "{held}");
    // The peer probes: it hears that the window is closed.
    let at = held as u32 + 1;
    p.inject(&format!(". {}:{at} ack 1", at - 1));
    assert_eq!(p.drain().last().unwrap().win, Some(0));
    // Data into the closed window is dropped.
    p.inject(&format!("P. {at}:{} ack 1", at + 10));
    assert_eq!(p.drain().last().unwrap().win, Some(0));
    assert_eq!(p.info().bytes_received as usize, held);
    // A small read opens nothing; reading all does, by an update of its own accord.
    p.read(100);
    p.quiet();
    p.read(held - 100);
    let update = p.drain();
    assert_eq!(update.len(), 1, "{update:?}");
    assert!(update[0].win.unwrap() >= 4_000, "{update:?}");
}

#[test]
fn acknowledgements_stay_inside_a_window_that_shrank() {
    // RFC 9293 section 3.8.6 (SHLD-15 is broken by the peer): beyond its window it would drop our ACKs.
    let mut p = Peer::server(Shape::default());
    p.write(5_000);
    p.expect_data(1, 5_001, 1_460);
    p.inject(". 1 ack 1461 win 100");
    p.inject("P. 1:11 ack 1461 win 100");
    p.expect(". 1561 ack 11");
    p.read(10);
    p.abort();
    p.expect("R. 1561 ack 11");
}

#[test]
fn a_window_that_closes_with_the_last_ack_is_probed() {
    let mut p = Peer::server(Shape { syn: "win 65535 mss 1000 sackOK", ..Shape::default() });
    p.write(20_000);
    p.expect_data(1, 10_001, 1_000);
    p.at(100);
    p.inject(". 1 ack 10001 win 0");
    p.at(399);
    p.expect_at(400, ". 10000 ack 1");
    // The update was lost; the answer to the probe tells it.
    p.inject(". 1 ack 10001 win 3000");
    p.expect_data(10_001, 13_001, 1_000);
    p.quiet();
}

#[test]
fn an_orphan_probes_a_closed_window_and_delivers_when_it_opens() {
    let mut p = Peer::server(Shape { win: 0, ..Shape::default() });
    p.write(1_000);
    p.close();
    p.expect_at(300, ". 0 ack 1");
    p.expect_at(900, ". 0 ack 1");
    p.at(1_000);
    p.inject(". 1 ack 1 win 65535");
    p.expect("FP. 1:1001");
    p.inject("F. 1 ack 1002");
    p.expect(". 1002 ack 2");
    p.at(61_000);
    assert_eq!((p.sockets(), p.stack.small_objects()), (1, (0, 0, 0)));
}

#[test]
fn an_orphan_before_a_closed_window_is_not_kept_for_ever() {
    let mut p = Peer::server(Shape { win: 0, ..Shape::default() });
    p.write(1_000);
    p.close();
    let probes = p.run_to(300_000);
    assert!((7..=9).contains(&probes.len()), "{probes:?}");
    assert_eq!((p.sockets(), p.stack.small_objects()), (1, (0, 0, 0)));
}

#[test]
fn a_fin_alone_waits_for_the_window() {
    // It takes sequence space (RFC 9293 section 3.4), so Linux probes before it sends one into a closed window.
    let mut p = Peer::server(Shape { win: 0, ..Shape::default() });
    p.close();
    p.expect_at(300, ". 0 ack 1");
    p.inject(". 1 ack 1 win 65535");
    p.expect("F. 1 ack 1");
}
