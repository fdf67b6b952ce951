//! What owners do and hear: errors after the end, listeners that close, both directions shut, pacing they ask for.
use super::peer::{Peer, Shape};
use lowwater_core::base::{Duration, Error, Wait};
use lowwater_core::stack::Event;
use lowwater_core::tcp::{How, SendFlags, SocketOptions, State, WaitReport};

const SYN: &str = "win 65535 mss 1000 sackOK";

#[test]
fn writing_after_a_reset_tells_the_reset_first_and_then_the_broken_pipe() {
    let mut p = Peer::server(Shape::default());
    p.inject("R 1");
    assert_eq!(p.try_write(1, SendFlags::default()), Err(Error::Reset));
    assert_eq!(p.try_write(1, SendFlags::default()), Err(Error::BrokenPipe));
    assert_eq!(p.try_read(1), Ok(0));
    p.close();
    p.quiet();
    assert_eq!(p.sockets(), 1, "the listener");
}

#[test]
fn data_for_an_owner_that_shut_both_directions_is_answered_with_a_reset() {
    // Linux in FIN-WAIT: nobody will read it (TCPAbortOnData). With only reading shut it is taken.
    let mut p = Peer::server(Shape::default());
    p.shutdown(How::Both);
    p.expect("F. 1 ack 1");
    p.inject(". 1 ack 2");
    p.inject("P. 1:11 ack 2");
    p.expect("R 2");
    assert_eq!((p.state(), p.error()), (State::Close, Some(Error::Reset)));
    let mut p = Peer::server(Shape::default());
    p.shutdown(How::Both);
    p.expect("F. 1 ack 1");
    p.inject("F. 1 ack 2");
    p.expect(". 2 ack 2");
    assert_eq!((p.state(), p.error()), (State::TimeWait, None));
}

#[test]
fn a_closing_listener_resets_what_nobody_accepted_and_forgets_requests() {
    // Linux's inet_csk_listen_stop.
    let mut p = Peer::listening(Shape::default(), 4);
    p.inject("S 0 win 65535 mss 1460");
    p.expect("S. 0 ack 1");
    p.inject(". 1 ack 1");
    p.other_peer(5_001);
    p.inject("S 0 win 65535 mss 1460");
    p.expect("S. 0 ack 1");
    let second = p.swap_peer(5_000);
    let now = p.now();
    p.stack.close(now, p.listener).unwrap();
    p.expect("R. 1 ack 1");
    p.quiet();
    p.swap_peer_back(5_001, second);
    p.inject(". 1 ack 1");
    p.expect("R 1");
    assert_eq!((p.sockets(), p.stack.small_objects()), (0, (0, 0, 0)));
}

#[test]
fn a_connection_outlives_its_listener() {
    let mut p = Peer::server(Shape::default());
    let now = p.now();
    p.stack.close(now, p.listener).unwrap();
    p.inject("P. 1:11 ack 1");
    p.expect(". 1 ack 11");
    p.read(10);
    p.other_peer(5_001);
    p.inject("S 0 win 65535 mss 1460");
    p.expect("R. 0 ack 1");
}

#[test]
fn a_connection_that_was_reset_in_the_backlog_can_still_be_accepted() {
    // Linux: accept gives it out, and the first call tells the error.
    let mut p = Peer::listening(Shape::default(), 4);
    p.inject("S 0 win 65535 mss 1460");
    p.expect("S. 0 ack 1");
    p.inject(". 1 ack 1");
    p.inject("R 1");
    p.accept();
    assert_eq!(p.try_read(1), Err(Error::Reset));
    p.close();
    assert_eq!(p.sockets(), 1);
}

#[test]
fn data_and_fin_before_accept_are_kept() {
    let mut p = Peer::listening(Shape::default(), 4);
    p.inject("S 0 win 65535 mss 1460");
    p.expect("S. 0 ack 1");
    p.inject(". 1 ack 1");
    p.inject("FP. 1:101 ack 1");
    p.drain();
    p.accept();
    assert_eq!(p.state(), State::CloseWait);
    p.read(100);
    assert_eq!(p.try_read(1), Ok(0));
}

#[test]
fn the_end_of_a_socket_is_told_once() {
    let mut p = Peer::server(Shape::default());
    p.close();
    p.expect("F. 1 ack 1");
    p.inject("F. 1 ack 2");
    p.expect(". 2 ack 2");
    p.at(100_000);
    let gone = Event::Gone(p.sock);
    assert_eq!(p.events.iter().filter(|e| **e == gone).count(), 1);
    assert_eq!(p.try_read(1), Err(Error::NoSuchSocket));
}

#[test]
fn a_pacing_rate_spreads_packets() {
    // SO_MAX_PACING_RATE: 100,000 bytes per second after the first ten segments; a segment of 1,000 takes 10 ms.
    let options = |o: &mut SocketOptions| (o.max_pacing_rate, o.sndbuf) = (100_000, Some(1 << 20));
    let mut p = Peer::server(Shape { syn: SYN, options, ..Shape::default() });
    p.write(30_000);
    p.run_to(100);
    p.inject_more(". 1 ack 10001");
    let sent = p.run_to(300);
    let bytes: u32 = sent.iter().map(|(_, s)| s.len).sum();
    // 200 ms are worth 20,000 bytes; one packet of two segments may lead.
    assert!((14_000..=22_000).contains(&bytes), "{bytes}: {sent:?}");
    let most_at_once = sent.iter().map(|(at, _)| sent.iter().filter(|(b, _)| b == at).count()).max();
    assert!(most_at_once <= Some(4), "{sent:?}");
    // Without it the window goes out at once.
    let mut p = Peer::server(Shape { syn: SYN, options: |o| o.sndbuf = Some(1 << 20), ..Shape::default() });
    p.write(30_000);
    p.expect_data(1, 10_001, 1_000);
    p.at(100);
    p.inject(". 1 ack 10001");
    p.expect_data(10_001, 30_001, 1_000);
}

#[test]
fn a_flow_may_be_paced_without_a_bound() {
    // Twenty segments of 1,000 bytes, at twice that per round trip of 100 ms: one in 2.5 ms after the first ten.
    let options = |o: &mut SocketOptions| (o.paced, o.sndbuf) = (true, Some(1 << 20));
    let mut p = Peer::server(Shape { syn: SYN, options, ..Shape::default() });
    p.write(30_000);
    p.expect_data(1, 10_001, 1_000);
    p.run_to(100);
    p.inject_more(". 1 ack 10001");
    let sent = p.run_to(120);
    let bytes: u32 = sent.iter().map(|(_, s)| s.len).sum();
    assert!((2_000..=12_000).contains(&bytes), "{bytes}: {sent:?}");
    assert_eq!(p.stack.tcp_info(p.stack.now(), p.sock).expect("a connection").max_pacing_rate, u64::MAX);
}

/// Why the connection that is not the listener does not send.
fn wait_of(p: &mut Peer) -> (WaitReport, u64) {
    let sockets = p.stack.report(p.stack.now()).sockets;
    let line = sockets.into_iter().find(|s| s.wait.is_some()).expect("a connection");
    (line.wait.expect("just seen"), line.below)
}

#[test]
fn a_connection_says_why_it_does_not_send_and_what_is_below_it() {
    let mut p = Peer::server(Shape { syn: "win 20000 mss 1000", ..Shape::default() });
    assert_eq!(wait_of(&mut p).0.why, Some(Wait::Empty));
    p.set_zero();
    p.write(12_000);
    p.drain();
    let (wait, below) = wait_of(&mut p);
    assert_eq!((wait.why, below), (Some(Wait::Cwnd), 0), "ten segments are out");
    p.at(70);
    assert_eq!(wait_of(&mut p).0.since, Some(Duration::from_millis(70)));
    p.inject(". 1 ack 10001 win 1000");
    p.drain();
    let (wait, _) = wait_of(&mut p);
    assert_eq!((wait.why, wait.since), (Some(Wait::RecvWindow), Some(Duration::ZERO)));
    assert!(wait.counts[Wait::Cwnd] > 0 && wait.counts[Wait::RecvWindow] > 0);
    assert_eq!(wait.counts[Wait::Nagle], 0, "what did not happen is not counted");
    p.slow_device();
    p.inject(". 1 ack 11001 win 20000");
    p.drain();
    let (wait, below) = wait_of(&mut p);
    assert_eq!(wait.why, Some(Wait::Empty));
    assert!((1_000..3_000).contains(&below), "the last segment: {below}");
    p.complete(1);
    assert_eq!(wait_of(&mut p).1, 0);
}
