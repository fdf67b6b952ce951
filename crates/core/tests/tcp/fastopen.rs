//! TCP Fast Open (RFC 7413) on the wire, as client and as server, with Linux's answers to every refusal.
use super::peer::{PEER, Peer, Shape, US};
use lowwater_core::base::{Error, FastOpenKeys, Sysctl};
use lowwater_core::stack::Event;
use lowwater_core::tcp::fastopen::cookie::cookie;
use lowwater_core::tcp::{How, Ready, SocketOptions, State};

const KEY: &str = "a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4";
const OTHER_KEY: &str = "1-2-3-4";

/// The peer's cookie under a key, as the scripts write it.
fn of_peer(key: &str) -> String {
    let keys = FastOpenKeys::parse(key).unwrap();
    cookie(&keys.primary, PEER.into(), US.into()).as_slice().iter().map(|b| format!("{b:02x}")).collect()
}

fn server_sysctl() -> Sysctl {
    Sysctl { tcp_fastopen: 3, tcp_fastopen_key: FastOpenKeys::parse(KEY), ..Sysctl::default() }
}

fn qlen(n: u32) -> fn(&mut SocketOptions) {
    match n {
        1 => |o| o.fastopen = 1,
        _ => |o| o.fastopen = 5,
    }
}

/// A listener with TCP_FASTOPEN.
fn listening(sysctl: Sysctl, n: u32) -> Peer {
    Peer::listening(Shape { sysctl, options: qlen(n), ..Shape::default() }, 16)
}

/// A listener that has accepted a SYN with 10 bytes; they are read, its SYN-ACK is out, the last ACK is missing.
fn child() -> Peer {
    let mut p = listening(server_sysctl(), 5);
    p.inject(&format!("S 0:10 win 65535 mss 1460 sackOK fo {}", of_peer(KEY)));
    p.expect("S. 0 ack 11 win 64240 mss 1460 sackOK opts");
    p.accept();
    p.read(10);
    p.quiet();
    p
}

#[test]
fn a_cookie_is_given_to_who_asks_and_his_data_is_not_taken() {
    let mut p = listening(server_sysctl(), 5);
    p.inject("S 0:10 win 65535 mss 1460 sackOK fo -");
    p.expect(&format!("S. 0 ack 1 fo {}", of_peer(KEY)));
    p.inject(". 1 ack 1");
    p.accept();
    assert_eq!(p.try_read(10), Err(Error::WouldBlock));
    let c = &p.stack.counters().tcp_ext;
    assert_eq!(
        (c.tcp_fast_open_cookie_reqd, c.tcp_fast_open_passive, c.tcp_fast_open_passive_fail),
        (1, 0, 0)
    );
}

#[test]
fn data_with_a_valid_cookie_is_read_and_answered_before_the_last_ack() {
    let mut p = child();
    assert_eq!((p.state(), p.info().options & 32, p.info().data_segs_in), (State::SynRecv, 32, 1));
    p.write(100);
    p.expect("P. 1:101 ack 11");
    p.at(50);
    p.inject(". 11 ack 1");
    assert_eq!(p.state(), State::Established);
    p.inject(". 11 ack 101");
    p.inject("P. 11:21 ack 101");
    p.expect(". 101 ack 21");
    p.read(10);
    let c = &p.stack.counters().tcp_ext;
    assert_eq!((c.tcp_fast_open_passive, c.tcp_fast_open_passive_fail), (1, 0));
    assert_eq!(p.stack.counters().tcp.passive_opens, 1);
}

#[test]
fn a_valid_cookie_without_data_makes_a_connection_that_may_write_first() {
    let mut p = listening(server_sysctl(), 5);
    p.inject(&format!("S 0 win 65535 mss 1460 fo {}", of_peer(KEY)));
    p.expect("S. 0 ack 1");
    p.accept();
    p.write(10);
    p.expect("P. 1:11 ack 1");
    p.inject(". 1 ack 11");
    assert_eq!((p.state(), p.info().options & 32), (State::Established, 0));
}

#[test]
fn a_wrong_cookie_is_answered_with_the_right_one_and_the_syn_alone_acknowledged() {
    let mut p = listening(server_sysctl(), 5);
    p.inject("S 0:10 win 65535 mss 1460 fo 0102030405060708");
    p.expect(&format!("S. 0 ack 1 fo {}", of_peer(KEY)));
    // Repeated without the cookie.
    p.expect_at(1_000, "S. 0 ack 1");
    p.inject("P. 1:11 ack 1");
    p.expect(". 1 ack 11");
    assert_eq!(p.stack.counters().tcp_ext.tcp_fast_open_passive_fail, 1);
}

#[test]
fn the_experimental_option_is_answered_in_its_own_form() {
    let mut p = listening(server_sysctl(), 5);
    p.inject("S 0 win 65535 mss 1460 foexp -");
    p.expect(&format!("S. 0 ack 1 foexp {}", of_peer(KEY)));
    p.other_peer(5_001);
    p.inject(&format!("S 0:10 win 65535 mss 1460 foexp {}", of_peer(KEY)));
    p.expect("S. 0 ack 11");
}

#[test]
fn a_cookie_of_the_backup_key_is_good_and_replaced() {
    let mut sysctl = server_sysctl();
    sysctl.tcp_fastopen_key = FastOpenKeys::parse(&format!("{KEY},{OTHER_KEY}"));
    let mut p = listening(sysctl, 5);
    p.inject(&format!("S 0:10 win 65535 mss 1460 fo {}", of_peer(OTHER_KEY)));
    p.expect(&format!("S. 0 ack 11 fo {}", of_peer(KEY)));
    assert_eq!(p.stack.counters().tcp_ext.tcp_fast_open_passive_alt_key, 1);
}

#[test]
fn a_listener_s_own_key_goes_before_the_system_s() {
    let options: fn(&mut SocketOptions) = |o| {
        (o.fastopen, o.fastopen_key) = (5, FastOpenKeys::parse(OTHER_KEY));
    };
    let mut p = Peer::listening(Shape { sysctl: server_sysctl(), options, ..Shape::default() }, 16);
    p.inject("S 0 win 65535 mss 1460 fo -");
    p.expect(&format!("S. 0 ack 1 fo {}", of_peer(OTHER_KEY)));
}

#[test]
fn nothing_is_open_fast_unless_the_sysctl_and_the_listener_say_so() {
    for (bits, n) in [(1, 5), (3, 0)] {
        let sysctl = Sysctl { tcp_fastopen: bits, ..server_sysctl() };
        let options: fn(&mut SocketOptions) = if n == 0 { |_| {} } else { |o| o.fastopen = 5 };
        let mut p = Peer::listening(Shape { sysctl, options, ..Shape::default() }, 16);
        p.inject(&format!("S 0:10 win 65535 mss 1460 fo {}", of_peer(KEY)));
        p.expect("S. 0 ack 1");
        p.other_peer(5_001);
        p.inject("S 0 win 65535 mss 1460 fo -");
        p.expect("S. 0 ack 1");
    }
}

#[test]
fn bits_of_the_sysctl_open_all_listeners_and_ask_for_no_cookie() {
    let sysctl = Sysctl { tcp_fastopen: 0x602, ..server_sysctl() };
    let mut p = Peer::listening(Shape { sysctl, ..Shape::default() }, 16);
    p.inject("S 0:10 win 65535 mss 1460");
    p.expect("S. 0 ack 11");
    p.accept();
    p.read(10);
    let sysctl = Sysctl { tcp_fastopen: 0x402, ..server_sysctl() };
    let mut p = Peer::listening(Shape { sysctl, ..Shape::default() }, 16);
    p.inject("S 0:10 win 65535 mss 1460");
    p.expect("S. 0 ack 1");
}

#[test]
fn a_listener_may_ask_for_no_cookie() {
    let options: fn(&mut SocketOptions) = |o| (o.fastopen, o.fastopen_no_cookie) = (5, true);
    let mut p = Peer::listening(Shape { sysctl: server_sysctl(), options, ..Shape::default() }, 16);
    p.inject("S 0:10 win 65535 mss 1460");
    p.expect("S. 0 ack 11");
}

#[test]
fn beyond_the_limit_connections_open_slowly() {
    let mut p = listening(server_sysctl(), 1);
    p.inject(&format!("S 0:10 win 65535 mss 1460 fo {}", of_peer(KEY)));
    p.expect("S. 0 ack 11");
    let first = p.iss();
    p.other_peer(5_001);
    p.inject(&format!("S 0:10 win 65535 mss 1460 fo {}", of_peer(KEY)));
    p.expect("S. 0 ack 1");
    assert_eq!(p.stack.counters().tcp_ext.tcp_fast_open_listen_overflow, 1);
    // The last ACK of the first one makes room.
    p.other_peer(5_000);
    p.set_iss(first);
    p.inject(". 11 ack 1");
    p.other_peer(5_002);
    p.inject(&format!("S 0:10 win 65535 mss 1460 fo {}", of_peer(KEY)));
    p.expect("S. 0 ack 11");
}

#[test]
fn a_reset_of_an_accepted_connection_counts_for_a_minute() {
    // RFC 7413 section 5.1: cookies that were stolen from a victim make it send resets.
    let mut p = listening(server_sysctl(), 1);
    let syn = format!("S 0:10 win 65535 mss 1460 fo {}", of_peer(KEY));
    p.inject(&syn);
    p.expect("S. 0 ack 11");
    p.accept();
    p.read(10);
    p.inject("R 11");
    assert_eq!((p.state(), p.error()), (State::Close, Some(Error::Reset)));
    p.other_peer(5_001);
    p.inject(&syn);
    p.expect("S. 0 ack 1");
    p.inject("R 1");
    p.at(60_001);
    p.other_peer(5_002);
    p.inject(&syn);
    p.expect("S. 0 ack 11");
    assert_eq!(p.stack.counters().tcp_ext.tcp_fast_open_listen_overflow, 1);
}

#[test]
fn the_syn_ack_is_repeated_alone_and_given_up_one_try_later_than_without_data() {
    let mut p = child();
    p.write(100);
    p.expect("P. 1:101 ack 11");
    let counts = |p: &Peer| (p.stack.counters().tcp.out_segs, p.stack.counters().tcp.retrans_segs);
    let (out, again) = counts(&p);
    for (n, second) in (1..).zip([1, 3, 7, 15, 31, 63]) {
        p.expect_at(second * 1_000, "S. 0 ack 11");
        assert_eq!(counts(&p), (out + n, again + n), "each is made, and goes again (`tcp_rtx_synack`)");
    }
    p.at(126_999);
    assert_eq!(p.state(), State::SynRecv);
    p.at(127_000);
    assert_eq!((p.state(), p.error()), (State::Close, Some(Error::TimedOut)));
}

#[test]
fn data_sent_early_is_repeated_only_after_the_last_ack() {
    let mut p = child();
    p.write(100);
    p.expect("P. 1:101 ack 11");
    p.expect_at(1_000, "S. 0 ack 11");
    p.at(1_100);
    p.inject(". 11 ack 1");
    assert_eq!(p.state(), State::Established);
    // The repeated SYN-ACK gave no sample: three seconds (RFC 6298 section 5.7).
    p.expect_at(4_100, "P. 1:101 ack 11");
}

#[test]
fn a_repeated_syn_gets_the_syn_ack_again() {
    let mut p = child();
    let counts = |p: &Peer| (p.stack.counters().tcp.out_segs, p.stack.counters().tcp.retrans_segs);
    let (out, again) = counts(&p);
    p.at(300);
    p.inject(&format!("S 0:10 win 65535 mss 1460 sackOK fo {}", of_peer(KEY)));
    p.expect("S. 0 ack 11");
    // Both as one that is made and as one that goes again (`tcp_rtx_synack`).
    assert_eq!(counts(&p), (out + 1, again + 1));
    p.inject("S 700 win 65535 mss 1460");
    p.expect("R. ack 701");
    assert_eq!(p.state(), State::SynRecv, "a foreign SYN does not end it");
    p.inject(". 11 ack 5000");
    p.expect("R 5000");
    p.inject(". 11 ack 1");
    assert_eq!(p.state(), State::Established);
}

#[test]
fn closing_before_the_last_ack_sends_the_fin_and_shutdown_waits() {
    let mut p = child();
    p.close();
    p.expect("F. 1 ack 11");
    p.expect_at(1_000, "S. 0 ack 11");
    p.inject("F. 11 ack 2");
    p.expect(". 2 ack 12");
    assert_eq!(p.stack.small_objects(), (0, 1, 0));
    let mut p = child();
    p.shutdown(How::Write);
    p.quiet();
    p.inject(". 11 ack 1");
    p.expect("F. 1 ack 11");
    assert_eq!(p.state(), State::FinWait1);
}

#[test]
fn closing_with_unread_data_resets() {
    let mut p = listening(server_sysctl(), 1);
    p.inject(&format!("S 0:10 win 65535 mss 1460 fo {}", of_peer(KEY)));
    p.expect("S. 0 ack 11");
    p.accept();
    p.close();
    p.expect("R. 1 ack 11");
    assert_eq!(p.sockets(), 1);
    // It no longer counts.
    p.other_peer(5_001);
    p.inject(&format!("S 0:10 win 65535 mss 1460 fo {}", of_peer(KEY)));
    p.expect("S. 0 ack 11");
}

#[test]
fn a_full_backlog_drops_such_syns_too() {
    let mut p = Peer::listening(Shape { sysctl: server_sysctl(), options: qlen(5), ..Shape::default() }, 1);
    for port in [5_000, 5_001] {
        p.other_peer(port);
        p.inject(&format!("S 0:10 win 65535 mss 1460 fo {}", of_peer(KEY)));
        p.expect("S. 0 ack 11");
    }
    p.other_peer(5_002);
    p.inject(&format!("S 0:10 win 65535 mss 1460 fo {}", of_peer(KEY)));
    p.quiet();
    assert_eq!(p.stack.counters().tcp_ext.listen_overflows, 1);
}

/// A client that got the cookie 0102030405060708 and a SYN-ACK with this MSS; that connection is over.
fn with_cookie(mss: u16, change: fn(&mut Sysctl), options: fn(&mut SocketOptions)) -> Peer {
    let mut sysctl = Sysctl { tcp_timestamps: 0, ..Sysctl::default() };
    change(&mut sysctl);
    let mut p = Peer::new(Shape { sysctl, options, ..Shape::default() });
    assert_eq!(p.connect_with_data(10), 0);
    p.expect("S 0 fo -");
    p.inject(&format!("S. 0 ack 1 win 65535 mss {mss} fo 0102030405060708"));
    p.expect(". 1 ack 1");
    assert_eq!(p.info().fastopen_client_fail, 1);
    p.abort();
    p.drain();
    p.next_connection();
    p
}

fn client() -> Peer {
    with_cookie(1_460, |_| {}, |_| {})
}

#[test]
fn a_known_cookie_takes_data_along_with_the_syn() {
    let mut p = client();
    assert_eq!(p.connect_with_data(1_000), 1_000);
    p.expect("S 0:1000 win 64240 mss 1460 sackOK ws 7 fo 0102030405060708");
    p.at(100);
    p.inject("S. 0 ack 1001 win 65535 mss 1460");
    p.expect(". 1001 ack 1");
    let i = p.info();
    assert_eq!((i.options & 32, i.unacked, i.delivered, i.bytes_acked), (32, 0, 1, 1_001));
    assert_eq!((i.fastopen_client_fail, i.total_retrans, i.data_segs_out), (0, 0, 1));
    let c = p.stack.counters();
    assert_eq!((c.tcp_ext.tcp_fast_open_active, c.tcp_ext.tcp_fast_open_active_fail), (1, 0));
    p.write(10);
    p.expect("P. 1001:1011 ack 1");
}

#[test]
fn the_syn_leaves_room_for_options_below_the_mss_of_the_last_syn_ack() {
    let mut p = with_cookie(940, |_| {}, |_| {});
    assert_eq!(p.connect_with_data(2_000), 900);
    p.expect("S 0:900 fo 0102030405060708");
}

#[test]
fn what_the_syn_ack_does_not_acknowledge_goes_again_at_once() {
    let mut p = client();
    p.connect_with_data(1_000);
    p.expect("S 0:1000 fo 0102030405060708");
    p.at(100);
    p.inject("S. 0 ack 1 win 65535 mss 1460 sackOK");
    p.expect("P. 1:1001 ack 1");
    p.quiet();
    assert_eq!((p.info().fastopen_client_fail, p.info().snd_cwnd), (2, 10));
    p.at(200);
    p.inject(". 1 ack 1001");
    assert_eq!(p.stack.counters().tcp_ext.tcp_fast_open_active_fail, 1);
    assert_eq!(p.info().ca_state, 0);
}

#[test]
fn a_syn_that_is_sent_again_carries_neither_option_nor_data() {
    let mut p = client();
    p.connect_with_data(1_000);
    p.expect("S 0:1000 fo 0102030405060708");
    p.expect_at(1_000, "S 0 win 64240 mss 1460 sackOK ws 7");
    p.at(1_100);
    p.inject("S. 0 ack 1 win 65535 mss 1460 sackOK");
    p.expect("P. 1:1001 ack 1");
    assert_eq!(p.info().fastopen_client_fail, 3);
}

#[test]
fn connect_may_wait_for_the_first_write() {
    let mut p = with_cookie(1_460, |_| {}, |o| o.fastopen_connect = true);
    p.connect();
    p.quiet();
    assert_eq!(p.state(), State::SynSent);
    let now = p.now();
    assert!(p.stack.poll(now, p.sock).contains(Ready::OUT));
    p.write(100);
    p.expect("S 0:100 fo 0102030405060708");
    assert_eq!(p.try_write(10, Default::default()), Err(Error::WouldBlock));
    p.inject("S. 0 ack 101 win 65535 mss 1460");
    p.expect(". 101 ack 1");
    assert!(p.events.contains(&Event::Connected(p.sock)));
    assert_eq!(p.state(), State::Established);
}

#[test]
fn connect_without_a_cookie_asks_for_one_at_once() {
    let options: fn(&mut SocketOptions) = |o| o.fastopen_connect = true;
    let mut p = Peer::new(Shape { options, ..Shape::default() });
    p.connect();
    p.expect("S 0 fo -");
    assert_eq!(p.try_write(10, Default::default()), Err(Error::WouldBlock));
}

#[test]
fn a_deferred_connection_can_be_given_up_in_silence() {
    let mut p = with_cookie(1_460, |_| {}, |o| o.fastopen_connect = true);
    p.connect();
    p.close();
    p.quiet();
    assert_eq!(p.sockets(), 0);
}

#[test]
fn a_deferred_connection_is_opened_by_its_first_write() {
    // `tcp_connect` counts, where the SYN leaves.
    for data in [10, 0] {
        let mut p = with_cookie(1_460, |_| {}, |o| o.fastopen_connect = true);
        let before = p.stack.counters().tcp.active_opens;
        p.connect();
        assert_eq!(p.stack.counters().tcp.active_opens, before);
        assert_eq!(p.try_write(data, Default::default()), Ok(data));
        assert_eq!(p.stack.counters().tcp.active_opens, before + 1);
    }
}

#[test]
fn without_cookies_data_goes_with_every_syn() {
    for change in [0, 1] {
        let mut sysctl = Sysctl::default();
        let mut options: fn(&mut SocketOptions) = |_| {};
        if change == 0 {
            sysctl.tcp_fastopen = 5;
        } else {
            options = |o| o.fastopen_no_cookie = true;
        }
        let mut p = Peer::new(Shape { sysctl, options, ..Shape::default() });
        assert_eq!(p.connect_with_data(10), 10);
        p.expect("S 0:10");
    }
}

#[test]
fn the_sysctl_forbids_it_and_a_plain_connect_knows_nothing_of_it() {
    let mut p =
        Peer::new(Shape { sysctl: Sysctl { tcp_fastopen: 2, ..Sysctl::default() }, ..Shape::default() });
    let (now, options) = (p.now(), SocketOptions::new(p.stack.sysctl()));
    let to = (PEER, 80).into();
    let refused = p.stack.tcp_connect_with_data(now, to, None, &options, b"x");
    assert_eq!(refused.unwrap_err(), Error::Unsupported);
    let mut p = client();
    p.connect();
    p.expect("S 0 win 64240 mss 1460 sackOK ws 7 opts");
}

#[test]
fn the_experimental_option_is_tried_after_the_assigned_one_and_then_never_again() {
    let mut p = Peer::new(Shape::default());
    for option in ["fo", "foexp", "fo"] {
        p.next_connection();
        p.connect_with_data(10);
        p.expect(&format!("S 0 {option} -"));
        p.inject("S. 0 ack 1 win 65535 mss 1460");
        p.expect(". 1 ack 1");
        p.abort();
        p.drain();
    }
}

#[test]
fn data_in_the_syn_ack_is_taken_by_who_has_asked() {
    let mut p = client();
    p.connect_with_data(10);
    p.expect("S 0:10 fo 0102030405060708");
    p.inject("S. 0:20 ack 11 win 65535 mss 1460");
    p.expect(". 11 ack 21");
    p.read(20);
    // Nobody else takes it.
    let mut p = Peer::connecting(Shape::default());
    p.expect("S 0");
    p.inject("S. 0:20 ack 1 win 65535 mss 1460");
    p.expect(". 1 ack 1");
    assert_eq!(p.try_read(20), Err(Error::WouldBlock));
}

/// Three timeouts of a SYN with data.
fn lose(p: &mut Peer, from: u64) {
    p.next_connection();
    p.connect_with_data(10);
    p.expect("S 0:10 fo 0102030405060708");
    p.run_to(from + 8_000);
    p.abort();
    p.drain();
}

#[test]
fn a_path_that_swallows_it_is_spared_for_a_while() {
    let mut p = with_cookie(1_460, |s| s.tcp_fastopen_blackhole_timeout_sec = 60, |_| {});
    lose(&mut p, 0);
    assert_eq!(p.stack.counters().tcp_ext.tcp_fast_open_blackhole, 1);
    p.next_connection();
    assert_eq!(p.connect_with_data(10), 0);
    p.expect("S 0");
    p.abort();
    // More than a minute after the third timeout.
    p.run_to(75_000);
    lose(&mut p, 75_000);
    assert_eq!(p.stack.counters().tcp_ext.tcp_fast_open_blackhole, 2);
    // Two minutes the second time.
    p.run_to(180_000);
    p.next_connection();
    assert_eq!(p.connect_with_data(10), 0);
}

#[test]
fn by_default_no_path_is_suspected() {
    let mut p = client();
    lose(&mut p, 0);
    assert_eq!(p.stack.counters().tcp_ext.tcp_fast_open_blackhole, 0);
    assert_eq!(p.stack.counters().tcp_ext.tcp_fast_open_active_fail, 1);
    p.next_connection();
    assert_eq!(p.connect_with_data(10), 10);
}
