//! Segment size and the path's MTU (RFC 9293 section 3.7.1, RFC 1191, RFC 5927).
use super::peer::{Peer, Shape};
use lowwater_core::base::Sysctl;
use lowwater_core::tcp::{SocketOptions, State};

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
    // Linux's min_pmtu, 552 bytes. A router older than RFC 1191 says 0.
    for (mtu, mss) in [(0, 512), (68, 512), (500, 512)] {
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
fn below_the_floor_routers_may_cut() {
    // Linux's locked exceptions: else packets of 552 bytes would never pass a path of 300. IP_PMTUDISC_DO forbids it all the same, and
    // its application hears of that (EMSGSIZE).
    for (discover, cut) in [(1, true), (2, false)] {
        let options: fn(&mut SocketOptions) = match discover {
            1 => |o| o.mtu_discover = 1,
            _ => |o| o.mtu_discover = 2,
        };
        let mut p = Peer::server(Shape { options, ..Shape::default() });
        p.write(1_460);
        p.expect("P. 1:1461");
        assert!(p.last_dont_fragment());
        p.icmp(FRAG_NEEDED, 300, 1);
        p.expect(". 1:513");
        assert_eq!(p.last_dont_fragment(), !cut);
        p.drain();
        p.inject(". 1 ack 1461");
        // Nothing else that routers say changes it.
        p.write(100);
        p.drain();
        p.icmp(FRAG_NEEDED, 552, 1_461);
        p.inject(". 1 ack 1561");
        p.write(100);
        p.drain();
        assert_eq!((p.last_dont_fragment(), p.info().snd_mss), (!cut, 512));
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

// ----- RFC 4821 -----

/// A search from the start: 1,064 bytes of packet pass for certain, 1,500 may.
fn searching() -> Peer {
    let sysctl = Sysctl { tcp_mtu_probing: 2, tcp_timestamps: 0, ..Sysctl::default() };
    let mut p = Peer::client(Shape { syn: "win 65535 mss 1460 sackOK", sysctl, ..Shape::default() });
    assert_eq!(p.info().snd_mss, 1_024);
    p.write(10_240);
    // Ten segments: a window of ten is too small for a probe.
    p.expect_data(1, 10_241, 1_024);
    p.at(100);
    p.inject(". 1 ack 2049");
    assert_eq!(p.info().snd_cwnd, 12);
    p
}

fn probes(p: &Peer) -> (u64, u64) {
    let c = &p.stack.counters().tcp_ext;
    (c.tcp_mtup_success, c.tcp_mtup_fail)
}

#[test]
fn a_probe_that_arrives_makes_segments_larger() {
    let mut p = searching();
    p.write(20_000);
    // 1,282 bytes of packet, the middle; it counts for two segments.
    p.expect(". 10241:11483");
    assert_eq!(p.info().snd_cwnd, 11);
    p.expect_data(11_483, 13_531, 1_024);
    p.quiet();
    p.at(200);
    p.inject(". 1 ack 11483");
    // The next one at once: the middle of 1,282 and 1,500.
    p.expect(". 13531:14882");
    p.expect(". 14882:16124");
    p.drain();
    assert_eq!((probes(&p), p.info().snd_mss), ((1, 0), 1_242));
    // 11 segments of 1,064 bytes are as many bytes as nine of 1,282; nine were acknowledged, and the new probe costs one.
    assert_eq!(p.info().snd_cwnd, 17);
    assert_eq!(p.info().snd_ssthresh, 0x7fff_ffff);
}

/// It leaves now, and would say by its timestamp that it has left when the pace allows: behind it, an acknowledgement must not say less.
#[test]
fn a_probe_waits_for_the_pace_lest_timestamps_go_back() {
    let sysctl = Sysctl { tcp_mtu_probing: 2, ..Sysctl::default() };
    let options = |o: &mut SocketOptions| o.max_pacing_rate = 100_000;
    let syn = "win 65535 mss 1460 sackOK ts 1/0";
    let mut p = Peer::client(Shape { syn, sysctl, options, ..Shape::default() });
    p.write(40_000);
    let mut stamps = Vec::new();
    let mut read = 1;
    for ms in 1..2_000 {
        for (_, seg) in p.run_to(ms) {
            stamps.extend(seg.ts.map(|(value, _)| value));
            if let Some(seq) = seg.seq.filter(|_| seg.len > 0) {
                // Two at once, the first of which comes out of order: it is acknowledged by itself, at once.
                let ts = format!("ack {} ts {}/0", seq + seg.len, 100 + ms);
                p.inject_more(&format!(". {}:{} {ts}", read + 10, read + 20));
                p.inject_more(&format!(". {read}:{} {ts}", read + 10));
                read += 20;
            }
        }
    }
    assert!(probes(&p).0 > 0 && stamps.len() > 40, "{:?} {}", probes(&p), stamps.len());
    assert!(stamps.is_sorted(), "{stamps:?}");
}

#[test]
fn a_probe_that_is_lost_is_no_sign_of_congestion() {
    let mut p = searching();
    p.write(20_000);
    p.expect(". 10241:11483");
    p.expect_data(11_483, 13_531, 1_024);
    p.at(200);
    p.inject(". 1 ack 10241");
    p.drain();
    let before = p.info().snd_cwnd;
    p.at(230);
    p.inject(". 1 ack 10241 sack 11483:17000");
    // What it carried goes again in segments that pass.
    p.expect(". 10241:11265 ack 1");
    p.expect(". 11265:11483 ack 1");
    let i = p.info();
    assert_eq!((probes(&p), i.snd_mss, i.total_retrans), ((0, 1), 1_024, 2));
    assert!(i.snd_cwnd > before, "{} {before}", i.snd_cwnd);
    assert_eq!(i.snd_ssthresh, 0x7fff_ffff);
}

#[test]
fn no_probe_without_enough_behind_it() {
    let mut p = searching();
    // 1,242 bytes and four segments would be 5,338.
    p.write(5_000);
    p.expect_data(10_241, 14_337, 1_024);
    assert_eq!((probes(&p), p.info().snd_cwnd), ((0, 0), 12));
}

#[test]
fn a_probe_waits_until_the_windows_have_room_for_it() {
    let mut p = searching();
    p.write(1_024);
    p.expect("P. 10241:11265");
    p.write(3_072);
    p.expect_data(11_265, 14_337, 1_024);
    // The congestion window is full: 12 segments are out.
    p.write(20_000);
    p.quiet();
    p.at(110);
    p.inject(". 1 ack 3073");
    // 11 of 13 are out: there is room for the two that a probe counts for.
    p.expect(". 14337:15579");
    p.quiet();
    let before = p.stack.counters().waits(lowwater_core::base::Wait::MtuProbe);
    assert!(before > 0);
}

#[test]
fn no_probe_crosses_the_end_of_a_record() {
    let mut p = searching();
    let eor = lowwater_core::tcp::SendFlags { eor: true, more: true, ..Default::default() };
    assert_eq!(p.try_write(1_000, eor), Ok(1_000));
    p.write(20_000);
    p.expect(". 10241:11241");
    assert_eq!(p.info().snd_cwnd, 12);
}

fn black_hole(probing: u32) -> Peer {
    let sysctl = Sysctl { tcp_mtu_probing: probing, ..Sysctl::default() };
    let mut p = Peer::server(Shape { syn: "win 65535 mss 1460", sysctl, ..Shape::default() });
    p.write(1_460);
    p.expect("P. 1:1461");
    for at in [300, 900, 2_100] {
        p.expect_at(at, "P. 1:1461");
    }
    p
}

#[test]
fn after_tcp_retries1_a_black_hole_is_suspected() {
    let mut p = black_hole(1);
    p.expect_at(4_500, ". 1:1025");
    assert_eq!(p.info().snd_mss, 1_024);
    p.expect_at(9_300, ". 1:513");
    p.at(9_400);
    p.inject(". 1 ack 513");
    p.expect(". 513:1025");
    p.drain();
    assert_eq!(p.info().snd_mss, 512);
}

#[test]
fn without_the_sysctl_the_size_stays() {
    let mut p = black_hole(0);
    p.expect_at(4_500, "P. 1:1461");
    p.expect_at(9_300, "P. 1:1461");
    assert_eq!(p.info().snd_mss, 1_460);
}

#[test]
fn the_sysctls_bound_the_search() {
    let sysctl = Sysctl {
        tcp_mtu_probing: 2,
        tcp_timestamps: 0,
        tcp_base_mss: 700,
        tcp_probe_threshold: 2_000,
        ..Sysctl::default()
    };
    let mut p = Peer::client(Shape { syn: "win 65535 mss 1460 sackOK", sysctl, ..Shape::default() });
    assert_eq!(p.info().snd_mss, 700);
    p.write(7_000);
    p.expect_data(1, 7_001, 700);
    p.at(100);
    p.inject(". 1 ack 7001");
    p.write(20_000);
    p.expect(". 7001:7701");
    p.drain();
    assert_eq!(p.info().snd_cwnd, 20, "the range is too narrow for a probe");
    // Ten minutes later it would be searched again, but never beyond the threshold.
    let sysctl = Sysctl { tcp_min_snd_mss: 500, ..Sysctl::default() };
    let mut p = Peer::server(Shape { syn: "win 65535 mss 100", sysctl, ..Shape::default() });
    assert_eq!(p.info().snd_mss, 500);
    p.write(1_000);
    p.expect_data(1, 1_001, 500);
}

#[test]
fn the_floor_bounds_what_black_holes_do() {
    let sysctl =
        Sysctl { tcp_mtu_probing: 1, tcp_mtu_probe_floor: 900, tcp_retries1: 1, ..Sysctl::default() };
    let mut p = Peer::server(Shape { syn: "win 65535 mss 1460", sysctl, ..Shape::default() });
    p.write(1_460);
    p.expect("P. 1:1461");
    p.expect_at(300, "P. 1:1461");
    // 600 ms of patience at one retry.
    p.expect_at(900, ". 1:1025");
    p.expect_at(2_100, ". 1:901");
    p.expect_at(4_500, ". 1:901");
}

#[test]
fn a_search_begins_anew_after_its_interval() {
    let sysctl = Sysctl {
        tcp_mtu_probing: 2,
        tcp_timestamps: 0,
        tcp_base_mss: 1_456,
        tcp_probe_interval: 5,
        ..Sysctl::default()
    };
    let mut p = Peer::client(Shape { syn: "win 65535 mss 1460 sackOK", sysctl, ..Shape::default() });
    p.write(14_560);
    p.expect_data(1, 14_561, 1_456);
    p.at(100);
    p.inject(". 1 ack 14561");
    // Four bytes between what passes and what may: nothing to search, now or later.
    p.write(14_560);
    p.expect_data(14_561, 29_121, 1_456);
    p.at(200);
    p.inject(". 1 ack 29121");
    p.at(6_000);
    p.write(14_560);
    p.expect_data(29_121, 43_681, 1_456);
}

#[test]
fn what_was_learnt_is_forgotten_after_ten_minutes() {
    let mut p = server();
    p.write(1_460);
    p.expect("P. 1:1461");
    p.at(10);
    p.icmp(FRAG_NEEDED, 1_400, 1);
    p.drain();
    p.at(100);
    p.inject(". 1 ack 1461");
    p.at(590_000);
    p.write(1_460);
    p.expect(". 1461:2821");
    p.drain();
    p.at(590_100);
    p.inject(". 1 ack 2921");
    p.at(611_000);
    p.write(1_460);
    p.expect("P. 2921:4381");
    assert_eq!((p.info().pmtu, p.info().snd_mss), (1_500, 1_460));
}

#[test]
fn a_socket_may_refuse_to_learn() {
    // IP_PMTUDISC_DONT: routers fragment, and their errors change nothing.
    let mut p = Peer::server(Shape { options: |o| o.mtu_discover = 0, ..Shape::default() });
    p.write(1_460);
    p.expect("P. 1:1461");
    assert!(!p.last_dont_fragment());
    p.icmp(FRAG_NEEDED, 1_400, 1);
    p.quiet();
    assert_eq!(p.info().snd_mss, 1_460);
    // IP_PMTUDISC_DO forbids fragments whatever the sysctl says.
    let sysctl = Sysctl { ip_no_pmtu_disc: 1, ..Sysctl::default() };
    let mut p = Peer::server(Shape { options: |o| o.mtu_discover = 2, sysctl, ..Shape::default() });
    p.write(1_460);
    p.expect("P. 1:1461");
    assert!(p.last_dont_fragment());
}
