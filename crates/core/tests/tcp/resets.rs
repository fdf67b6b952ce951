//! Resets, blind attacks and what lies outside the window (RFC 9293 section 3.10.7.4, RFC 5961).
use super::peer::{Peer, Shape};
use lowwater_core::base::{Error, Sysctl};
use lowwater_core::stack::Event;
use lowwater_core::tcp::{How, State};

#[test]
fn a_reset_with_the_next_number_ends_the_connection() {
    let mut p = Peer::server(Shape::default());
    p.inject("R 1");
    p.quiet();
    assert_eq!((p.state(), p.error()), (State::Close, Some(Error::Reset)));
    assert_eq!(p.stack.counters().tcp.estab_resets, 1);
    assert!(p.events.contains(&Event::Closed(p.sock)));
    assert_eq!(p.try_read(1), Ok(0), "the error was taken, what remains is the end");
}

#[test]
fn the_error_of_a_reset_is_told_once_to_the_reader() {
    let mut p = Peer::server(Shape::default());
    p.inject("P. 1:11 ack 1");
    p.expect(". 1 ack 11");
    p.inject("R 11");
    // Linux: what was received before may still be read.
    p.read(10);
    assert_eq!(p.try_read(1), Err(Error::Reset));
    assert_eq!(p.try_read(1), Ok(0));
}

#[test]
fn a_reset_elsewhere_in_the_window_is_challenged() {
    // RFC 5961 section 3.2.
    let mut p = Peer::server(Shape::default());
    p.inject("R 2");
    p.expect(". 1 ack 1");
    p.at(600);
    // The right edge itself: 1 + 64,240.
    p.inject("R 64241");
    p.expect(". 1 ack 1");
    assert_eq!(p.state(), State::Established);
    assert_eq!(p.stack.counters().tcp_ext.tcp_challenge_ack, 2);
    // The peer answers a challenge with a reset that fits.
    p.inject("R 1");
    assert_eq!(p.state(), State::Close);
}

#[test]
fn a_reset_outside_the_window_is_nothing() {
    let mut p = Peer::server(Shape::default());
    for text in ["R 0", "R 64242", "R -5000", "R. 100000 ack 1"] {
        p.inject(text);
        p.quiet();
    }
    assert_eq!(p.state(), State::Established);
}

#[test]
fn a_reset_at_the_end_of_what_was_sacked_is_believed() {
    // Linux (tcp_reset_check, tcp_validate_incoming): a peer without state knows no other number.
    let mut p = Peer::server(Shape::default());
    p.inject(". 1001:2001 ack 1");
    p.expect(". 1 ack 1 sack 1001:2001");
    p.inject("R 1500");
    p.expect(". 1 ack 1 sack 1001:2001");
    p.inject("R 2001");
    assert_eq!(p.state(), State::Close);
}

#[test]
fn a_reset_before_the_fin_is_believed_after_it() {
    // Linux: a Mac OS peer that dies after its FIN resets with the FIN's own number.
    let mut p = Peer::server(Shape::default());
    p.inject("F. 1 ack 1");
    p.expect_at(1, ". 1 ack 2");
    p.inject("R 1");
    assert_eq!((p.state(), p.error()), (State::Close, Some(Error::BrokenPipe)));
}

#[test]
fn a_syn_in_a_connection_is_challenged_wherever_it_lies() {
    // RFC 5961 section 4.2; rate limit of section 7 at one answer in 500 ms per connection.
    let mut p = Peer::server(Shape::default());
    p.inject("S 1 win 100");
    p.expect(". 1 ack 1");
    p.at(499);
    p.inject("S 500000 win 100");
    p.quiet();
    p.at(500);
    p.inject("S 500000 win 100");
    p.expect(". 1 ack 1");
    p.at(1_000);
    // The old SYN-ACK again.
    p.inject("S. 0 ack 1 win 100");
    p.expect(". 1 ack 1");
    assert_eq!(p.state(), State::Established);
    assert_eq!(p.stack.counters().tcp_ext.tcp_syn_challenge, 4);
    assert_eq!(p.stack.counters().tcp_ext.tcp_ack_skipped_challenge, 1);
    assert_eq!(p.stack.counters().tcp.in_errs, 4);
    // Once a FIN has passed it is no error (`tcp_rcv_state_process`).
    p.at(2_000);
    p.inject("F. 1 ack 1");
    p.drain();
    p.inject("S 2 win 100");
    p.expect(". 1 ack 2");
    assert_eq!((p.stack.counters().tcp_ext.tcp_syn_challenge, p.stack.counters().tcp.in_errs), (5, 4));
}

/// An ACK that is due for data is none that a SYN asked for, which was not to be answered so soon after another (RFC 9768 section 3.1.5).
#[test]
fn only_a_challenge_says_how_a_syn_within_the_window_came() {
    let sysctl = Sysctl { tcp_ecn: 3, ..Sysctl::default() };
    let mut p = Peer::listening(Shape { sysctl, ..Shape::default() }, 128);
    p.inject("SEWA 0 win 65535 mss 1460");
    p.expect("SW. 0 ack 1");
    p.inject("W. 1 ack 1");
    p.accept();
    p.inject("SEWA 1 win 100 ect0");
    p.expect("A. 1 ack 1");
    p.at(400);
    p.inject("PEA. 1:11 ack 1");
    p.expect("EA. 1 ack 11");
    // Neither the data's acknowledgement nor a later one is taken for an answer.
    p.inject_together(&["PEA. 31:41 ack 1", "SEWA 31 win 100 ect0"]);
    p.expect("EA. 1 ack 11");
    assert_eq!(p.stack.counters().tcp_ext.tcp_ack_skipped_challenge, 1);
    p.at(1_000);
    p.inject("SEWA 31 win 100 ect0");
    p.expect("A. 1 ack 11");
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_brings_nothing_in() {
    // RFC 9293 section 3.10.7.4 asks for an ACK here; later Linux sends one.
    let mut p = Peer::server(Shape::default());
    p.write(1_000);
    p.expect("P. 1:1001");
    p.inject("P. 1:11 ack 1002");
    p.expect(". 1001 ack 1");
    assert_eq!(p.try_read(10), Err(Error::WouldBlock));
    assert_eq!(p.info().unacked, 1);
    p.inject(". 1 ack 1001");
    assert_eq!(p.info().unacked, 0);
}

#[test]
fn an_acknowledgement_far_too_old_is_challenged_and_its_data_dropped() {
    // RFC 5961 section 5.2: SND.UNA - MAX.SND.WND <= SEG.ACK; never below what was ever acknowledged.
    let mut p = Peer::server(Shape::default());
    p.write(1_000);
    p.expect("P. 1:1001");
    p.inject(". 1 ack 1001");
    p.inject("P. 1:11 ack 0");
    p.expect(". 1001 ack 1");
    assert_eq!(p.try_read(10), Err(Error::WouldBlock));
    p.at(600);
    p.inject("P. 1:11 ack -70000");
    p.expect(". 1001 ack 1");
    assert_eq!(p.stack.counters().tcp_ext.tcp_challenge_ack, 2);
    // Merely old: its data counts.
    p.inject("P. 1:11 ack 1");
    p.expect(". 1001 ack 11");
    p.read(10);
}

#[test]
fn a_segment_without_ack_is_dropped() {
    let mut p = Peer::server(Shape::default());
    p.inject("P 1:11");
    p.inject("F 1");
    p.quiet();
    assert_eq!(p.state(), State::Established);
    assert_eq!(p.try_read(10), Err(Error::WouldBlock));
}

#[test]
fn data_outside_the_window_is_answered_and_dropped() {
    // RFC 9293 section 3.10.7.4, first step.
    let mut p = Peer::server(Shape::default());
    // Beyond the right edge at 64,241.
    p.inject("P. 64242:64342 ack 1");
    p.expect(". 1 ack 1");
    // Long gone: before the window, answered with D-SACK.
    p.inject("P. -100:0 ack 1");
    p.expect(". 1 ack 1 sack -100:0");
    // Empty segments outside are answered once in 500 ms only, or two confused peers would never stop.
    p.inject(". 70000 ack 1");
    p.expect(". 1 ack 1");
    p.inject(". 70000 ack 1");
    p.quiet();
    p.at(500);
    p.inject(". 70000 ack 1");
    p.expect(". 1 ack 1");
}

#[test]
fn a_keepalive_probe_of_the_peer_is_answered() {
    let mut p = Peer::server(Shape::default());
    p.inject(". 0 ack 1");
    p.expect(". 1 ack 1");
    p.at(1_000);
    // The old kind with one byte of garbage.
    p.inject(". 0:1 ack 1");
    p.expect(". 1 ack 1 sack 0:1");
}

#[test]
fn data_is_cut_to_the_window() {
    // RFC 9293 section 3.10.7.4: only what lies in the window is kept.
    let mut p = Peer::server(Shape::default());
    p.inject("P. -9:11 ack 1");
    p.expect(". 1 ack 11 sack -9:1");
    p.read(10);
}

#[test]
fn resets_reach_every_state_after_the_handshake() {
    // FIN-WAIT-1, FIN-WAIT-2, CLOSING, LAST-ACK (RFC 9293 section 3.10.7.4, second step).
    let mut p = Peer::server(Shape::default());
    p.shutdown(How::Write);
    p.expect("F. 1 ack 1");
    p.inject("R 1");
    assert_eq!((p.state(), p.error()), (State::Close, Some(Error::Reset)));

    let mut p = Peer::server(Shape::default());
    p.shutdown(How::Write);
    p.expect("F. 1 ack 1");
    p.inject(". 1 ack 2");
    assert_eq!(p.state(), State::FinWait2);
    p.inject("R 1");
    assert_eq!((p.state(), p.error()), (State::Close, Some(Error::Reset)));

    let mut p = Peer::server(Shape::default());
    p.shutdown(How::Write);
    p.expect("F. 1 ack 1");
    p.inject("F. 1 ack 1");
    p.expect(". 2 ack 2");
    assert_eq!(p.state(), State::Closing);
    p.inject("R 2");
    assert_eq!(p.state(), State::Close);

    let mut p = Peer::server(Shape::default());
    p.inject("F. 1 ack 1");
    p.expect_at(1, ". 1 ack 2");
    p.close();
    p.expect("F. 1 ack 2");
    p.inject("R 2");
    p.quiet();
    assert_eq!(p.sockets(), 1, "the listener");
}

#[test]
fn abort_sends_a_reset() {
    let mut p = Peer::server(Shape::default());
    p.write(100);
    p.expect("P. 1:101");
    p.abort();
    p.expect("R. 101 ack 1");
    p.quiet();
    assert_eq!(p.sockets(), 1, "the listener");
}

#[test]
fn challenges_over_all_connections_are_limited_where_the_setting_says_so() {
    // RFC 5961 section 7: two to five in a second at a limit of four; one connection alone has a limit of its own.
    let sysctl = Sysctl { tcp_challenge_ack_limit: 4, tcp_invalid_ratelimit: 0, ..Sysctl::default() };
    let mut p = Peer::server(Shape { sysctl, ..Shape::default() });
    for second in 0..3 {
        for ms in 1..=10 {
            p.run_to(second * 1_000 + ms * 2);
            p.inject("S 5");
            p.drain();
        }
    }
    let c = &p.stack.counters().tcp_ext;
    assert!((6..=15).contains(&c.tcp_challenge_ack), "{}", c.tcp_challenge_ack);
    assert_eq!((c.tcp_syn_challenge, c.tcp_ack_skipped_challenge), (30, 0));
    let sysctl = Sysctl { tcp_invalid_ratelimit: 0, ..Sysctl::default() };
    let mut p = Peer::server(Shape { sysctl, ..Shape::default() });
    for ms in 1..=10 {
        p.run_to(ms * 2);
        p.inject("S 5");
        p.expect(". 1 ack 1");
    }
}

#[test]
fn what_ends_beyond_the_window_is_refused_while_something_waits_to_be_read() {
    // Linux 6.17: a peer may overrun the window only into an empty queue.
    let mut p = Peer::server(Shape::default());
    p.inject("P. 1:11 ack 1");
    p.expect(". 1 ack 11");
    let edge = 1 + 64_240;
    p.inject(&format!(". {}:{} ack 1", edge - 500, edge + 500));
    p.expect(". 1 ack 11");
    assert_eq!(p.stack.counters().tcp_ext.beyond_window, 1);
    p.read(10);
    p.inject(&format!(". {}:{} ack 1", edge - 500, edge + 500));
    let seg = p.expect(&format!(". 1 ack 11 sack {}:{}", edge - 500, edge + 500));
    assert_eq!(seg.sack.len(), 1);
    // A FIN alone may lie beyond.
    assert_eq!(p.stack.counters().tcp_ext.beyond_window, 1);
}
