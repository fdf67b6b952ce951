//! Segment size and the path's MTU (RFC 9293 section 3.7.1, RFC 1191, RFC 5927).
use super::peer::{Peer, Shape};
use lowwater_core::base::Sysctl;
use lowwater_core::tcp::State;

fn server() -> Peer {
    Peer::server(Shape::default())
}

const FRAG_NEEDED: u8 = 4;

#[test]
fn a_segment_holds_what_the_peer_offers_less_options() {
    for (syn, mss) in [
        ("win 65535 mss 1460", 1_460),
        ("win 65535 mss 1400", 1_400),
        ("win 65535 mss 9000", 1_460),
        ("win 65535 mss 1460 ts 500000/0", 1_448),
        ("win 65535", 536),
        // Too small to be true: CVE-2019-11479.
        ("win 65535 mss 10", 48),
    ] {
        let mut p = Peer::server(Shape { syn, ..Shape::default() });
        p.write(mss as usize + 10);
        p.expect(&format!(". 1:{}", mss + 1));
        p.drain();
    }
}

#[test]
fn maxseg_bounds_both_directions() {
    let options = |o: &mut lowwater_core::tcp::SocketOptions| o.maxseg = 1_000;
    let mut p = Peer::listening(Shape { options, ..Shape::default() }, 1);
    p.inject("S 0 win 65535 mss 1460");
    p.expect("S. 0 ack 1 mss 1000");
    p.inject(". 1 ack 1");
    p.accept();
    p.write(1_500);
    p.expect(". 1:1001");
    p.expect("P. 1001:1501");
}

#[test]
fn a_router_that_needs_smaller_packets_is_believed() {
    // RFC 1191 section 6.5: what was too long is sent again at once, and it is no sign of congestion.
    let mut p = server();
    p.write(4_380);
    p.expect_data(1, 4_381, 1_460);
    p.at(10);
    p.icmp(FRAG_NEEDED, 1_400, 1);
    let again = p.drain();
    assert!(again.iter().all(|s| s.len <= 1_360), "{again:?}");
    assert_eq!(again.iter().map(|s| s.len).sum::<u32>(), 4_380, "{again:?}");
    assert_eq!((p.info().snd_mss, p.info().pmtu), (1_360, 1_400));
    p.at(110);
    p.inject(". 1 ack 4381");
    assert_eq!(p.info().snd_cwnd, 10);
    p.write(3_000);
    p.expect_data(4_381, 7_381, 1_360);
}

#[test]
fn forged_ones_are_ignored() {
    // RFC 5927 section 4.1: the quoted number must be in flight; section 7.2: never larger than now.
    let mut p = server();
    p.write(1_460);
    p.expect("P. 1:1461");
    p.icmp(FRAG_NEEDED, 1_000, 5_000);
    p.icmp(FRAG_NEEDED, 1_000, 0);
    p.icmp(FRAG_NEEDED, 9_000, 1);
    p.quiet();
    assert_eq!(p.info().snd_mss, 1_460);
    p.inject(". 1 ack 1461");
    p.icmp(FRAG_NEEDED, 1_000, 1);
    assert_eq!(p.info().snd_mss, 1_460, "no longer in flight");
}

#[test]
fn none_makes_packets_smaller_than_the_floor() {
    // Linux's min_pmtu, 552 bytes. A router older than RFC 1191 says 0: the next plateau of its section 7.1, 1,492.
    for (mtu, mss) in [(0, 1_452), (68, 512), (500, 512)] {
        let mut p = server();
        p.write(1_460);
        p.expect("P. 1:1461");
        p.icmp(FRAG_NEEDED, mtu, 1);
        assert_eq!(p.info().snd_mss, mss, "mtu {mtu}");
        p.expect_data(1, mss + 1, mss);
        p.drain();
    }
}

#[test]
fn a_later_connection_to_the_same_host_knows_the_path() {
    let mut p = server();
    p.write(1_460);
    p.expect("P. 1:1461");
    p.icmp(FRAG_NEEDED, 1_200, 1);
    p.drain();
    p.other_peer(6_000);
    p.inject("S 0 win 65535 mss 1460");
    p.drain();
    p.inject(". 1 ack 1");
    p.accept();
    assert_eq!(p.info().snd_mss, 1_160);
}

#[test]
fn unreachable_hosts_do_not_end_a_connection() {
    // RFC 5927 section 5.2, RFC 5461 section 4.1: soft once synchronized.
    let mut p = server();
    p.write(100);
    p.expect("P. 1:101");
    for code in [0, 1, 2, 3, 13] {
        p.icmp(code, 0, 1);
    }
    assert_eq!((p.state(), p.error()), (State::Established, None));
    p.inject(". 1 ack 101");
    p.write(1);
    p.expect("P. 101:102");
}

#[test]
fn an_unreachable_host_is_the_reason_of_a_timeout() {
    let sysctl = Sysctl { tcp_retries2: 2, ..Sysctl::default() };
    let mut p = Peer::server(Shape { sysctl, ..Shape::default() });
    p.write(100);
    p.expect("P. 1:101");
    p.icmp(1, 0, 1);
    p.run_to(60_000);
    assert_eq!((p.state(), p.error()), (State::Close, Some(lowwater_core::base::Error::HostUnreachable)));
}
