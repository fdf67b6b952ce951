//! Corners that a reading of the code found: each was wrong once.
use super::peer::{Peer, Shape};
use lowwater_core::base::{Duration, Sysctl};
use lowwater_core::tcp::{How, State};

#[test]
fn a_fin_needs_room_in_the_window_too() {
    // RFC 9293 section 3.4: FIN takes sequence space. Until then the window is probed, with backoff.
    let mut p = Peer::server(Shape { win: 0, ..Shape::default() });
    p.shutdown(How::Write);
    p.quiet();
    for ms in [300, 900] {
        p.at(ms - 1);
        p.expect_at(ms, ". 0 ack 1");
        p.inject_more(". 1 ack 1 win 0");
    }
    p.at(1_000);
    p.inject(". 1 ack 1 win 1");
    p.expect("F. 1 ack 1");
}

#[test]
fn a_whole_segment_that_ends_a_write_is_acknowledged_once_it_is_read() {
    let mut p = Peer::server(Shape::default());
    p.end_quick_acks(1);
    let at = 16_001;
    p.inject(&format!("P. {at}:{} ack 1", at + 1_000));
    p.quiet();
    p.read(1_000);
    p.expect(&format!(". 1 ack {}", at + 1_000));
}

#[test]
fn the_reset_of_an_abort_shows_the_window() {
    let mut p = Peer::server(Shape::default());
    p.abort();
    let seg = p.expect("R. 1 ack 1");
    assert!(seg.win.is_some_and(|win| win > 0), "{seg}");
}

#[test]
fn after_a_window_was_taken_back_acknowledgements_stay_within_it() {
    let mut p = Peer::server(Shape { win: 10_000, ..Shape::default() });
    p.write(2_000);
    p.drain();
    p.inject("P. 1:11 ack 1 win 500");
    p.drain();
    p.inject("P. 11:21 ack 1 win 500");
    p.expect(". 501 ack 21");
    p.abort();
    p.expect("R. 501 ack 21");
}

#[test]
fn a_syn_ack_that_echoes_an_older_clock_is_refused() {
    // RFC 7323 section 5.8; Linux counts PAWSActive.
    let mut p = Peer::connecting(Shape { syn: "win 65535 mss 1460 sackOK ts 1000/0", ..Shape::default() });
    let (_, ecr) = p.expect("S 0").ts.unwrap();
    assert_eq!(ecr, 0);
    p.inject("S. 0 ack 1 win 65535 mss 1460 sackOK ts 1000/77");
    p.expect("R 1");
    assert_eq!((p.state(), p.stack.counters().tcp_ext.paws_active), (State::SynSent, 1));
}

#[test]
fn a_stray_answer_hastens_the_next_syn() {
    let mut p = Peer::connecting(Shape::default());
    p.expect("S 0");
    p.at(100);
    p.inject(". 5000 ack 77777 win 65535");
    p.expect("R 77777");
    p.expect_at(102, "S 0");
    // Once only: the one after it waits for its timeout.
    p.at(200);
    p.inject(". 5000 ack 77777 win 65535");
    p.expect("R 77777");
    p.at(400);
    p.quiet();
}

#[test]
fn no_keepalive_time_makes_a_timer_fire_for_ever() {
    let sysctl = Sysctl { tcp_keepalive_time: 0, tcp_keepalive_intvl: 0, ..Sysctl::default() };
    let mut p = Peer::server(Shape { sysctl, options: |o| o.keepalive = true, win: 0, ..Shape::default() });
    p.write(100);
    p.run_to(30_000);
    assert_eq!(p.state(), State::Established);
}

#[test]
fn fin_wait_2_lasts_two_minutes_at_most() {
    let mut p = Peer::server(Shape { options: |o| o.linger2 = 1_000_000, ..Shape::default() });
    p.close();
    p.expect("F. 1 ack 1");
    p.inject(". 1 ack 2");
    p.at(119_000);
    p.inject(". 1 ack 2");
    p.quiet();
    p.at(121_000);
    p.inject(". 1 ack 2");
    p.expect("R 2");
}

#[test]
fn a_tail_loss_probe_does_not_overrun_a_window_that_has_just_closed() {
    let mut p = Peer::server(Shape::default());
    p.write(100);
    p.expect("P. 1:101");
    p.write(100);
    p.quiet();
    // The probe is decided upon, then an acknowledgement comes in before it leaves.
    p.at(299);
    let due = p.now() + Duration::from_millis(1);
    p.stack.handle_timeout(due);
    p.inject_more(". 1 ack 101 win 0");
    p.quiet();
    p.at(700);
    p.drain();
    p.inject(". 1 ack 101 win 65535");
    p.expect("P. 101:201");
}

#[test]
fn data_after_only_reading_was_shut_waits_in_the_queue() {
    let mut p = Peer::server(Shape::default());
    p.shutdown(How::Read);
    p.inject("P. 1:11 ack 1");
    p.expect(". 1 ack 11");
    assert_eq!(p.state(), State::Established);
}

#[test]
fn a_peer_that_answers_but_never_opens_its_window_does_not_keep_an_orphan() {
    // Linux: the background close ends when the backoff has reached its bound, tcp_rto_max.
    let mut p = Peer::server(Shape { win: 0, ..Shape::default() });
    p.write(1_000);
    p.close();
    while p.sockets() > 1 {
        let before = p.ms();
        assert!(before < 600_000, "still there");
        for _ in p.run_to(before + 100) {
            p.inject_more(". 1 ack 1 win 0");
        }
    }
    assert!(p.ms() > 60_000, "{}", p.ms());
}

#[test]
fn nor_does_one_that_shut_its_window_over_what_is_in_flight() {
    let mut p = Peer::server(Shape::default());
    p.write(1_000);
    p.drain();
    p.inject("P. 1:11 ack 1 win 0");
    p.read(10);
    p.close();
    while p.sockets() > 1 {
        let before = p.ms();
        assert!(before < 1_200_000, "still there");
        for _ in p.run_to(before + 100) {
            p.inject_more(". 11 ack 1 win 0");
        }
    }
}
