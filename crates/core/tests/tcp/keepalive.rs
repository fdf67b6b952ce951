//! SO_KEEPALIVE and TCP_USER_TIMEOUT (RFC 9293 sections 3.8.4 and 3.8.3, RFC 5482).
use super::peer::{Peer, Shape};
use lowwater_core::base::{Error, Sysctl};
use lowwater_core::tcp::{How, SocketOptions, State};

fn keepalive(o: &mut SocketOptions) {
    (o.keepalive, o.keepidle, o.keepintvl, o.keepcnt) = (true, 60, 10, 3);
}

#[test]
fn a_silent_peer_is_probed_and_given_up() {
    // 60 s of silence, three probes 10 s apart, and a reset at the end.
    let mut p = Peer::server(Shape { options: keepalive, ..Shape::default() });
    for second in [60, 70, 80] {
        p.at(second * 1_000 - 1);
        p.expect_at(second * 1_000, ". 0 ack 1");
    }
    p.at(89_999);
    assert_eq!(p.state(), State::Established);
    p.expect_at(90_000, "R. 1 ack 1");
    assert_eq!((p.state(), p.error()), (State::Close, Some(Error::TimedOut)));
}

#[test]
fn an_answer_begins_the_wait_anew() {
    let mut p = Peer::server(Shape { options: keepalive, ..Shape::default() });
    p.expect_at(60_000, ". 0 ack 1");
    p.expect_at(70_000, ". 0 ack 1");
    p.at(70_100);
    p.inject(". 1 ack 1");
    p.at(130_099);
    p.expect_at(130_100, ". 0 ack 1");
    assert_eq!(p.info().probes, 1);
}

#[test]
fn any_traffic_postpones_the_probe() {
    let mut p = Peer::server(Shape { options: keepalive, ..Shape::default() });
    p.at(30_000);
    p.inject("P. 1:11 ack 1");
    p.expect(". 1 ack 11");
    p.at(89_999);
    p.expect_at(90_000, ". 0 ack 11");
}

#[test]
fn without_the_option_there_is_silence() {
    let mut p = Peer::server(Shape::default());
    p.at(10 * 3_600_000);
    assert_eq!(p.state(), State::Established);
}

#[test]
fn the_sysctls_give_two_hours_75_seconds_and_nine_probes() {
    let mut p = Peer::server(Shape { options: |o| o.keepalive = true, ..Shape::default() });
    for i in 0..9 {
        p.expect_at(7_200_000 + i * 75_000, ". 0 ack 1");
    }
    p.expect_at(7_200_000 + 9 * 75_000, "R. 1 ack 1");
}

#[test]
fn it_can_be_switched_on_and_off_while_the_connection_lives() {
    let mut p = Peer::server(Shape::default());
    p.at(100_000);
    // Linux counts the silence so far when the time is set.
    p.set(keepalive);
    p.expect_at(100_000, ". 0 ack 1");
    p.inject(". 1 ack 1");
    p.set(|o| o.keepalive = false);
    p.at(1_000_000);
}

/// The timer is TIME-WAIT's by then: switched off the flow would never be free, and switched on not for two hours.
#[test]
fn time_wait_that_somebody_holds_ends_in_its_time_whatever_is_set() {
    let changes: [fn(&mut SocketOptions); 3] =
        [|o| o.keepalive = false, |o| (o.keepalive, o.keepidle) = (true, 7_200), |o| o.keepidle = 7_000];
    for (at_first, change) in [true, false, true].into_iter().zip(changes) {
        let options = if at_first { keepalive } else { |_: &mut SocketOptions| () };
        let mut p = Peer::server(Shape { options, ..Shape::default() });
        p.shutdown(How::Both);
        p.expect("F. 1 ack 1");
        p.inject("F. 1 ack 2");
        p.expect(". 2 ack 2");
        assert_eq!(p.state(), State::TimeWait);
        p.at(30_000);
        p.set(change);
        p.at(59_999);
        assert_eq!(p.state(), State::TimeWait);
        p.at(60_000);
        assert_eq!(p.state(), State::Close);
    }
}

#[test]
fn unacknowledged_data_keeps_keepalive_quiet() {
    // The retransmission timer finds out about the peer.
    let mut p =
        Peer::server(Shape { options: |o| (o.keepalive, o.keepidle) = (true, 1), ..Shape::default() });
    p.write(100);
    let out = p.run_to(10_000);
    assert!(out.iter().all(|(_, s)| s.seq == Some(1) && s.len == 100), "{out:?}");
    assert_eq!(p.stack.counters().tcp_ext.tcp_keep_alive, 0);
}

#[test]
fn a_user_timeout_ends_keepalive_early() {
    // Linux: with TCP_USER_TIMEOUT the count of probes does not matter.
    let mut p = Peer::server(Shape {
        options: |o| {
            keepalive(o);
            o.user_timeout_ms = 75_000;
        },
        ..Shape::default()
    });
    p.expect_at(60_000, ". 0 ack 1");
    p.expect_at(70_000, ". 0 ack 1");
    p.expect_at(80_000, "R. 1 ack 1");
    assert_eq!(p.error(), Some(Error::TimedOut));
}

#[test]
fn a_user_timeout_bounds_retransmission() {
    // Linux counts from the first retransmission and cuts the last wait short so that the moment is exact.
    let options = |o: &mut SocketOptions| o.user_timeout_ms = 2_000;
    let mut p = Peer::server(Shape { options, ..Shape::default() });
    p.write(100);
    p.expect("P. 1:101");
    // The tail loss probe at the RTO of 300 ms, the first retransmission 300 ms later.
    p.expect_at(300, "P. 1:101");
    p.expect_at(600, "P. 1:101");
    p.expect_at(1_200, "P. 1:101");
    p.expect_at(2_400, "P. 1:101");
    p.at(2_599);
    assert_eq!(p.state(), State::Established);
    p.at(2_600);
    assert_eq!((p.state(), p.error()), (State::Close, Some(Error::TimedOut)));
}

#[test]
fn a_user_timeout_bounds_the_handshake_and_window_probes() {
    let options = |o: &mut SocketOptions| o.user_timeout_ms = 5_000;
    let mut p = Peer::connecting(Shape { options, ..Shape::default() });
    p.expect("S 0");
    for second in 1..=4 {
        p.expect_at(second * 1_000, "S 0");
    }
    p.at(4_999);
    p.at(5_000);
    assert_eq!((p.state(), p.error()), (State::Close, Some(Error::TimedOut)));
    let options = |o: &mut SocketOptions| o.user_timeout_ms = 1_000;
    let mut p = Peer::server(Shape { options, win: 0, ..Shape::default() });
    p.write(100);
    p.expect_at(300, ". 0 ack 1");
    p.expect_at(900, ". 0 ack 1");
    // Probing began with the first probe.
    p.at(1_299);
    p.at(1_300);
    assert_eq!((p.state(), p.error()), (State::Close, Some(Error::TimedOut)));
}

#[test]
fn retransmission_gives_up_after_tcp_retries2() {
    // tcp_retries2 counts as time: 3 means (2^4 - 1) * 200 ms = 3 s after the first retransmission (RFC 9293 R2).
    let sysctl = Sysctl { tcp_retries2: 3, ..Sysctl::default() };
    let mut p = Peer::server(Shape { sysctl, ..Shape::default() });
    p.write(100);
    p.expect("P. 1:101");
    for ms in [300, 600, 1_200, 2_400] {
        p.expect_at(ms, "P. 1:101");
    }
    p.at(4_799);
    assert_eq!(p.state(), State::Established);
    p.at(4_800);
    assert_eq!((p.state(), p.error()), (State::Close, Some(Error::TimedOut)));
}
