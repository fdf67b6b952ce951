//! 1 byte, 1 MB, 10,000 messages on ten streams and some out of order, each way, and all the ways to close.
use crate::host::{Host, PORT, Setting, with_guest, with_usrsctp};
use crate::peer::plan;
use bytes::Bytes;
use lowwater_core::base::{Duration, Error, SocketId};
use lowwater_core::sctp::{SendInfo, State};

/// Everything to a peer that listens; it closes.
fn to_the_peer(host: &mut Host) {
    let a = host.connect();
    // A guest whose network is there before its listener has refused some.
    let refused = host.stack.counters().sctp.aborteds;
    host.send_all(a, &plan(10_000));
    host.closed(a);
    assert_eq!(host.stack.take_error(a), None, "the peer closed in good order");
    let sctp = &host.stack.counters().sctp;
    assert_eq!((sctp.shutdowns, sctp.aborteds - refused, sctp.checksum_errors), (1, 0, 0));
}

/// Everything from a peer that opens; it closes, opens again and aborts.
fn from_the_peer(host: &mut Host) {
    let listener = host.listen();
    let a = host.accept(listener);
    host.answer(a);
    host.closed(a);
    let now = host.now();
    assert_eq!(host.stack.sctp_recv(now, a, 1), Ok(None), "closed in good order");
    let b = host.accept(listener);
    host.closed(b);
    assert_eq!(host.stack.take_error(b), Some(Error::Reset));
    assert_eq!(host.stack.counters().sctp.passive_estabs, 2);
}

/// A little to a peer that listens; we close in good order, or abort.
fn we_close(host: &mut Host, abort: bool) {
    let a = host.connect();
    host.send_all(a, &plan(100));
    we_end(host, a, abort);
}

/// A little from a peer that opens; we close in good order, or abort.
fn the_server_closes(host: &mut Host, abort: bool) {
    let listener = host.listen();
    let a = host.accept(listener);
    host.answer(a);
    // An ABORT overtakes what was not acknowledged yet, the sums among it.
    let heard =
        host.until(Duration::from_secs(10), |h| (h.info(a).unsent_bytes, h.info(a).unacked) == (0, 0));
    assert!(heard, "{:?}", host.info(a));
    we_end(host, a, abort);
}

fn we_end(host: &mut Host, a: SocketId, abort: bool) {
    let now = host.now();
    if abort {
        host.stack.sctp_abort(now, a, b"enough").unwrap();
    } else {
        host.stack.sctp_shutdown(now, a).unwrap();
    }
    host.closed(a);
    assert_eq!(host.stack.take_error(a), abort.then_some(Error::Aborted));
}

/// What the peer says of the end of an association, where there was a peer.
fn heard(said: Option<&str>, abort: bool) {
    let end = if abort { "Connection reset by peer\n" } else { "end\n" };
    assert!(said.is_none_or(|said| said == end), "{said:?}");
}

const LISTENS: Setting = Setting::new("serve 4");
const WAITS: Setting = Setting::new("serve 4 wait");
const CALLS: Setting = Setting::new("call 4 10.9.0.2");
const LISTENS_6: Setting = Setting { v6: true, ..Setting::new("serve 6") };
const CALLS_AND_WAITS: Setting = Setting::new("call 4 10.9.0.2 wait");
const CALLS_6: Setting = Setting { v6: true, ..Setting::new("call 6 fd09::2") };

#[test]
fn everything_arrives_at_the_kernel() {
    with_guest(LISTENS, to_the_peer);
}

#[test]
fn everything_arrives_at_the_kernel_over_a_bad_network() {
    with_guest(Setting { bad: true, ..LISTENS }, |host| {
        host.lose_one_of = 101;
        to_the_peer(host);
        let sctp = &host.stack.counters().sctp;
        assert!(sctp.fast_retransmits + sctp.t3_retransmits > 0, "{sctp:?}");
    });
}

#[test]
fn everything_arrives_at_the_kernel_over_ipv6() {
    with_guest(LISTENS_6, to_the_peer);
}

#[test]
fn everything_arrives_at_the_kernel_over_udp() {
    with_guest(Setting { udp: true, ..LISTENS }, to_the_peer);
}

#[test]
fn everything_comes_from_the_kernel() {
    with_guest(CALLS, from_the_peer);
}

#[test]
fn everything_comes_from_the_kernel_over_a_bad_network() {
    with_guest(Setting { bad: true, ..CALLS }, from_the_peer);
}

#[test]
fn everything_comes_from_the_kernel_over_udp_and_ipv6() {
    with_guest(Setting { udp: true, ..CALLS_6 }, from_the_peer);
}

#[test]
fn the_kernel_hears_that_we_close() {
    heard(with_guest(WAITS, |host| we_close(host, false)).as_deref(), false);
}

#[test]
fn the_kernel_hears_that_we_abort() {
    heard(with_guest(WAITS, |host| we_close(host, true)).as_deref(), true);
}

#[test]
fn the_kernel_that_has_called_hears_that_we_close() {
    heard(with_guest(CALLS_AND_WAITS, |host| the_server_closes(host, false)).as_deref(), false);
}

#[test]
fn the_kernel_that_has_called_hears_that_we_abort() {
    heard(with_guest(CALLS_AND_WAITS, |host| the_server_closes(host, true)).as_deref(), true);
}

#[test]
fn the_kernel_refuses_where_nobody_listens() {
    with_guest(Setting::new("idle"), |host| {
        let a = host.open(&[], 0, PORT + 1);
        host.closed(a);
        assert_eq!(host.stack.take_error(a), Some(Error::Refused));
        let now = host.now();
        let _ = host.stack.sctp_send(now, a, Bytes::new(), SendInfo::default());
        assert_eq!(host.state(a), State::Closed);
    });
}

const OVER_UDP: Setting = Setting { udp: true, ..LISTENS };

#[test]
fn everything_arrives_at_usrsctp() {
    with_usrsctp(OVER_UDP, to_the_peer);
}

#[test]
fn everything_arrives_at_usrsctp_over_ipv6() {
    with_usrsctp(Setting { udp: true, ..LISTENS_6 }, to_the_peer);
}

#[test]
fn everything_arrives_at_usrsctp_over_a_bad_network() {
    with_usrsctp(Setting { bad: true, ..OVER_UDP }, |host| {
        host.lose_one_of = 101;
        to_the_peer(host);
    });
}

#[test]
fn everything_comes_from_usrsctp_over_a_bad_network() {
    with_usrsctp(Setting { bad: true, udp: true, ..CALLS }, from_the_peer);
}

#[test]
fn everything_comes_from_usrsctp() {
    with_usrsctp(Setting { udp: true, ..CALLS }, from_the_peer);
}

#[test]
fn everything_comes_from_usrsctp_over_ipv6() {
    with_usrsctp(Setting { udp: true, ..CALLS_6 }, from_the_peer);
}

#[test]
fn usrsctp_that_has_called_hears_that_we_close_and_that_we_abort() {
    for abort in [false, true] {
        let setting = Setting { udp: true, ..CALLS_AND_WAITS };
        heard(with_usrsctp(setting, |host| the_server_closes(host, abort)).as_deref(), abort);
    }
}

#[test]
fn usrsctp_hears_that_we_close_and_that_we_abort() {
    for abort in [false, true] {
        heard(with_usrsctp(Setting { udp: true, ..WAITS }, |host| we_close(host, abort)).as_deref(), abort);
    }
}
