//! TCP_INFO in known situations: each field where it must move, and where it must not (`tcp_get_info`).
use super::peer::{Peer, Shape};
use lowwater_core::base::{Error, Sysctl};
use lowwater_core::tcp::{How, SendFlags};

const SYN: &str = "win 65535 mss 1000 sackOK";

fn server() -> Peer {
    Peer::server(Shape { syn: SYN, ..Shape::default() })
}

/// Busy, window-limited and buffer-limited time in ms.
fn times(p: &mut Peer) -> (u64, u64, u64) {
    let i = p.info();
    (i.busy_time / 1_000, i.rwnd_limited / 1_000, i.sndbuf_limited / 1_000)
}

#[test]
fn a_fresh_connection_looks_as_it_does_on_linux() {
    // As 6.18 shows it on loopback: who sent the first SYN has its byte acknowledged and sent two segments.
    let mut c = Peer::client(Shape { syn: SYN, ..Shape::default() });
    c.at(50);
    let i = c.info();
    assert_eq!((i.state, i.ca_state, i.options, i.reordering), (1, 0, 2, 3));
    assert_eq!((i.bytes_acked, i.segs_out, i.segs_in, i.delivered), (1, 2, 1, 1));
    assert_eq!((i.last_data_sent, i.last_data_recv, i.last_ack_recv), (50, 50, 50));
    assert_eq!((i.snd_cwnd, i.snd_ssthresh, i.ato, i.delivery_rate_app_limited), (10, 0x7fff_ffff, 0, 1));
    let mut s = server();
    s.at(50);
    let i = s.info();
    assert_eq!((i.bytes_acked, i.segs_out, i.segs_in, i.delivered), (0, 0, 2, 1));
    assert_eq!((i.last_data_sent, i.last_data_recv, i.last_ack_recv), (50, 50, 50));
    assert_eq!((i.snd_mss, i.advmss, i.rcv_mss, i.pmtu), (1_000, 1_460, 536, 1_500));
    assert_eq!((i.rtt, i.rttvar, i.rto, i.min_rtt), (100_000, 50_000, 300_000, 100_000));
    assert_eq!((i.busy_time, i.rehash, i.fackets, i.fastopen_client_fail), (0, 0, 0, 0));
}

#[test]
fn busy_time_runs_while_anything_is_queued_or_in_flight() {
    let mut p = server();
    p.at(100);
    p.write(2_000);
    p.expect_data(1, 2_001, 1_000);
    p.at(130);
    assert_eq!(times(&mut p), (30, 0, 0));
    p.at(150);
    p.inject(". 1 ack 1001");
    p.at(180);
    p.inject(". 1 ack 2001");
    p.at(900);
    assert_eq!(times(&mut p), (80, 0, 0), "nothing since");
    p.shutdown(How::Write);
    p.expect("F. 2001 ack 1");
    p.at(910);
    assert_eq!(times(&mut p), (90, 0, 0), "a FIN counts");
}

#[test]
fn a_shut_window_is_its_own_time() {
    let mut p = server();
    p.write(1_000);
    p.expect("P. 1:1001");
    p.at(100);
    p.inject(". 1 ack 1001 win 0");
    p.at(150);
    p.write(500);
    p.at(250);
    assert_eq!(times(&mut p), (200, 100, 0));
    p.inject(". 1 ack 1001 win 1000");
    p.expect("P. 1001:1501");
    p.at(300);
    assert_eq!(times(&mut p), (250, 100, 0), "the window is open again");
    p.inject(". 1 ack 1501 win 1000");
    p.at(400);
    assert_eq!(times(&mut p), (250, 100, 0));
}

#[test]
fn the_congestion_window_is_no_reason_of_its_own() {
    let mut p = server();
    p.write(20_000);
    p.expect_data(1, 10_001, 1_000);
    p.at(90);
    assert_eq!(times(&mut p), (90, 0, 0));
}

#[test]
fn a_full_send_buffer_counts_once_all_is_sent() {
    // Two elements of half the window fit the buffer; four segments are less than half the congestion window.
    let options = |o: &mut lowwater_core::tcp::SocketOptions| o.sndbuf = Some(4_100);
    let mut p =
        Peer::server(Shape { syn: "win 5000 mss 1000 sackOK", options, win: 5_000, ..Shape::default() });
    p.inject(". 1 ack 1 win 0");
    assert_eq!(p.try_write(60_000, SendFlags::default()), Ok(4_000));
    p.inject(". 1 ack 1 win 5000");
    p.expect_data(1, 4_001, 1_000);
    assert_eq!(p.try_write(1, SendFlags::default()), Err(Error::WouldBlock));
    p.at(40);
    assert_eq!(times(&mut p), (40, 0, 40));
    p.at(100);
    p.inject(". 1 ack 4001");
    p.at(200);
    assert_eq!(times(&mut p), (100, 0, 100), "room again");
    p.write(1_000);
    p.expect("P. 4001:5001");
    p.at(250);
    assert_eq!(times(&mut p), (150, 0, 100), "a write that fits is only busy");
}

#[test]
fn what_leaves_before_the_buffer_is_found_full_is_not_held_by_it() {
    let options = |o: &mut lowwater_core::tcp::SocketOptions| o.sndbuf = Some(4_100);
    let mut p =
        Peer::server(Shape { syn: "win 5000 mss 1000 sackOK", options, win: 5_000, ..Shape::default() });
    assert_eq!(p.try_write(60_000, SendFlags::default()), Ok(4_000));
    p.expect_data(1, 4_001, 1_000);
    assert_eq!(p.try_write(1, SendFlags::default()), Err(Error::WouldBlock));
    p.at(40);
    assert_eq!(times(&mut p), (40, 0, 0));
}

#[test]
fn timeouts_are_counted_by_row_and_by_time() {
    let sysctl = Sysctl { tcp_early_retrans: 0, ..Sysctl::default() };
    let mut p = Peer::server(Shape { syn: SYN, sysctl, ..Shape::default() });
    p.write(100);
    p.expect("P. 1:101");
    p.expect_at(300, "P. 1:101");
    p.expect_at(900, "P. 1:101");
    let i = p.info();
    assert_eq!((i.total_rto, i.total_rto_recoveries, i.total_rto_time), (2, 1, 600));
    assert_eq!((i.retransmits, i.backoff, i.total_retrans, i.bytes_retrans), (2, 2, 2, 200));
    assert_eq!((i.bytes_sent, i.data_segs_out, i.last_data_sent), (300, 3, 0), "again is sent too");
    p.at(1_000);
    p.inject(". 1 ack 101");
    p.at(5_000);
    p.write(100);
    p.expect("P. 101:201");
    let rto = u64::from(p.info().rto);
    p.expect_at_us(5_000_000 + rto, "P. 101:201");
    let i = p.info();
    assert_eq!((i.total_rto, i.total_rto_recoveries, i.total_rto_time), (3, 2, 700));
    assert_eq!((i.retransmits, i.ca_state, i.lost, i.retrans), (1, 4, 1, 1));
}

#[test]
fn the_scoreboard_shows() {
    let mut p = server();
    p.write(10_000);
    p.expect_data(1, 10_001, 1_000);
    p.at(100);
    p.inject(". 1 ack 1001 sack 2001:4001");
    p.drain();
    let i = p.info();
    assert_eq!((i.sacked, i.delivered, i.reord_seen), (2, 4, 0));
    p.inject(". 1 ack 1001 sack 2001:8001");
    p.drain();
    assert_eq!((p.info().ca_state, p.info().retrans, p.info().lost), (3, 1, 1));
    // The peer had it already: a duplicate of ours.
    p.at(200);
    p.inject(". 1 ack 10001 sack 1001:2001");
    assert_eq!((p.info().dsack_dups, p.info().unacked, p.info().sacked), (1, 0, 0));
}

#[test]
fn marks_are_counted_in_both_directions() {
    let sysctl = Sysctl { tcp_ecn: 1, ..Sysctl::default() };
    let mut p = Peer::listening(Shape { sysctl, ..Shape::default() }, 1);
    p.inject("SEW 0 win 65535 mss 1000 sackOK");
    p.drain();
    p.inject(". 1 ack 1");
    p.accept();
    assert_eq!(p.info().options, 2 | 8, "negotiated, not seen");
    p.inject(". 1:1001 ack 1 ect0");
    p.drain();
    assert_eq!((p.info().options, p.info().received_ce), (2 | 8 | 16, 0));
    p.inject(". 1001:2001 ack 1 ce");
    p.drain();
    assert_eq!(p.info().received_ce, 1);
    p.write(2_000);
    p.drain();
    p.inject("E. 2001 ack 2001");
    assert_eq!((p.info().delivered, p.info().delivered_ce), (3, 2));
}

#[test]
fn what_comes_out_of_order_is_counted_and_is_no_data_yet() {
    let mut p = server();
    p.at(50);
    p.inject(". 1001:2001 ack 1");
    p.drain();
    p.inject(". 2001:3001 ack 1");
    p.drain();
    let i = p.info();
    assert_eq!((i.rcv_ooopack, i.bytes_received, i.last_data_recv), (2, 0, 50));
    assert_eq!((i.segs_in, i.data_segs_in), (4, 2));
    p.inject(". 1:1001 ack 1");
    p.drain();
    let i = p.info();
    assert_eq!((i.rcv_ooopack, i.bytes_received, i.last_data_recv), (2, 3_000, 0));
}

#[test]
fn the_delivery_rate_tells_whether_the_application_was_the_limit() {
    let mut p = server();
    p.write(10_000);
    p.expect_data(1, 10_001, 1_000);
    p.at(100);
    p.inject(". 1 ack 10001");
    let i = p.info();
    assert_eq!(
        (i.delivery_rate, i.delivery_rate_app_limited),
        (100_000, 1),
        "the first flight of a write that fits"
    );
    p.write(30_000);
    p.expect_data(10_001, 30_001, 1_000);
    p.at(200);
    p.inject(". 1 ack 30001");
    let i = p.info();
    assert_eq!(
        (i.delivery_rate, i.delivery_rate_app_limited),
        (200_000, 1),
        "a faster one counts all the same"
    );
    p.expect_data(30_001, 40_001, 1_000);
    p.at(300);
    p.inject(". 1 ack 40001");
    let i = p.info();
    assert_eq!((i.delivery_rate, i.delivery_rate_app_limited), (100_000, 0), "these waited for the window");
}

#[test]
fn probes_and_their_backoff_show() {
    let mut p = server();
    p.write(1_000);
    p.expect("P. 1:1001");
    p.at(100);
    p.inject(". 1 ack 1001 win 0");
    p.write(100);
    p.run_to(1_500);
    let i = p.info();
    assert_eq!((i.probes, i.backoff, i.unacked, i.notsent_bytes), (2, 2, 0, 100));
    assert_eq!(i.snd_wnd, 0);
}
