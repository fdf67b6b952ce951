//! Urgent data as Linux has it by default: one byte out of band (RFC 9293 section 3.8.5, RFC 6093).
use super::peer::{Peer, Shape, pattern};
use lowwater_core::base::{Error, Sysctl};
use lowwater_core::tcp::{Inq, Ready, SendFlags};

fn server() -> Peer {
    Peer::server(Shape::default())
}

fn inline() -> Peer {
    Peer::server(Shape { options: |o| o.oobinline = true, ..Shape::default() })
}

fn oob(p: &mut Peer, peek: bool) -> Result<Option<u8>, Error> {
    let (now, sock) = (p.now(), p.sock);
    p.stack.tcp_recv_oob(now, sock, peek)
}

fn inq(p: &Peer) -> Inq {
    p.stack.tcp_inq(p.sock).unwrap()
}

fn ready(p: &mut Peer, what: Ready) -> bool {
    let (now, sock) = (p.now(), p.sock);
    p.stack.poll(now, sock).contains(what)
}

/// Reads without comparing: the byte out of band leaves a hole in the pattern.
fn read(p: &mut Peer, n: usize) -> Result<Vec<u8>, Error> {
    let (now, sock) = (p.now(), p.sock);
    let mut buf = vec![0; n];
    let n = p.stack.tcp_recv(now, sock, &mut buf, false)?;
    buf.truncate(n);
    Ok(buf)
}

fn bytes(from: u64, to: u64) -> Vec<u8> {
    (from..to).map(pattern).collect()
}

#[test]
fn a_read_ends_before_the_byte_and_the_next_steps_over_it() {
    let mut p = server();
    // The pointer names the byte behind the urgent one, as everybody sends it: byte 100 is urgent.
    p.inject("PU. 1:201 ack 1 urg 100");
    p.drain();
    assert!(ready(&mut p, Ready::PRI));
    assert_eq!(inq(&p), Inq { bytes: 99, hint: 200, at_mark: false, to_mark: Some(99) });
    assert_eq!(read(&mut p, 1_000), Ok(bytes(0, 99)));
    assert_eq!(inq(&p), Inq { bytes: 0, hint: 101, at_mark: true, to_mark: Some(0) });
    assert_eq!(oob(&mut p, true), Ok(Some(pattern(99))));
    assert_eq!(oob(&mut p, false), Ok(Some(pattern(99))));
    assert_eq!(oob(&mut p, false), Err(Error::Invalid), "only once");
    assert!(!ready(&mut p, Ready::PRI) && inq(&p).at_mark, "the mark stays until it is passed");
    assert_eq!(read(&mut p, 1_000), Ok(bytes(100, 200)));
    assert_eq!(inq(&p), Inq::default());
    assert_eq!(oob(&mut p, false), Err(Error::Invalid));
}

#[test]
fn alone_the_byte_is_nothing_to_read() {
    let mut p = server();
    p.inject("PU. 1:2 ack 1 urg 1");
    p.drain();
    assert!(ready(&mut p, Ready::PRI) && !ready(&mut p, Ready::IN));
    assert!(inq(&p).at_mark);
    assert_eq!(read(&mut p, 10), Err(Error::WouldBlock));
    // Reading has stepped over it, and its place is forgotten.
    assert!(!inq(&p).at_mark);
    assert_eq!(oob(&mut p, false), Err(Error::Invalid));
}

#[test]
fn inline_it_stays_in_the_stream_and_the_mark_still_stops_a_read() {
    let mut p = inline();
    p.inject("PU. 1:201 ack 1 urg 100");
    p.drain();
    assert_eq!(oob(&mut p, false), Err(Error::Invalid));
    assert_eq!(inq(&p).bytes, 200);
    p.read(99);
    assert!(inq(&p).at_mark);
    p.read(101);
    assert!(!inq(&p).at_mark);
}

#[test]
fn the_pointer_may_come_before_its_byte() {
    let mut p = server();
    p.inject("PU. 1:101 ack 1 urg 150");
    p.drain();
    assert_eq!(oob(&mut p, false), Err(Error::WouldBlock));
    assert!(!ready(&mut p, Ready::PRI));
    p.inject("P. 101:201 ack 1");
    p.drain();
    assert_eq!(oob(&mut p, false), Ok(Some(pattern(149))));
    assert_eq!(read(&mut p, 1_000), Ok(bytes(0, 149)));
    assert_eq!(read(&mut p, 1_000), Ok(bytes(150, 200)));
}

#[test]
fn a_later_pointer_takes_the_place_of_an_earlier_one() {
    let mut p = server();
    p.inject("PU. 1:101 ack 1 urg 50");
    p.drain();
    p.inject("PU. 101:201 ack 1 urg 50");
    p.drain();
    assert_eq!(oob(&mut p, false), Ok(Some(pattern(149))));
    // The first byte has become data.
    assert_eq!(read(&mut p, 1_000), Ok(bytes(0, 149)));
    // An older one changes nothing.
    p.inject("PU. 201:301 ack 1 urg 0");
    p.drain();
    assert_eq!(read(&mut p, 1_000), Ok(bytes(150, 200)));
}

#[test]
fn a_new_pointer_at_the_mark_drops_the_byte_under_it() {
    let mut p = server();
    p.inject("PU. 1:101 ack 1 urg 50");
    p.drain();
    assert_eq!(read(&mut p, 49), Ok(bytes(0, 49)));
    assert!(inq(&p).at_mark);
    p.inject("PU. 101:201 ack 1 urg 100");
    p.drain();
    assert_eq!(read(&mut p, 1_000), Ok(bytes(50, 199)), "byte 49 was urgent");
}

#[test]
fn the_sysctl_takes_the_pointer_by_the_word_of_rfc_1122() {
    let sysctl = Sysctl { tcp_stdurg: true, ..Sysctl::default() };
    let mut p = Peer::server(Shape { sysctl, ..Shape::default() });
    p.inject("PU. 1:201 ack 1 urg 100");
    p.drain();
    assert_eq!(oob(&mut p, false), Ok(Some(pattern(100))));
}

#[test]
fn without_the_flag_the_pointer_means_nothing() {
    let mut p = server();
    p.inject("P. 1:201 ack 1 urg 100");
    p.drain();
    assert_eq!(oob(&mut p, false), Err(Error::Invalid));
    p.read(200);
}

const OOB: SendFlags =
    SendFlags { more: false, eor: false, oob: true, waits: false, resumed: false, goes_on: false };

#[test]
fn msg_oob_points_behind_its_last_byte_until_that_is_acknowledged() {
    let mut p = Peer::server(Shape { syn: "win 65535 mss 1000", ..Shape::default() });
    assert_eq!(p.try_write(100, OOB), Ok(100));
    p.expect("PU. 1:101 urg 100");
    // Neither Nagle nor the cork holds anything back in urgent mode.
    p.write(50);
    p.expect("P. 101:151");
    p.at(20);
    p.inject(". 1 ack 51");
    p.write(50);
    p.expect("P. 151:201");
    p.inject(". 1 ack 101");
    p.write(10);
    p.quiet();
}

#[test]
fn every_segment_before_the_end_of_urgent_data_carries_the_pointer() {
    let mut p = Peer::server(Shape { syn: "win 65535 mss 1000", ..Shape::default() });
    p.write(1);
    p.expect("P. 1:2");
    assert_eq!(p.try_write(2_500, OOB), Ok(2_500));
    p.expect("U. 2:1002 urg 2500");
    p.expect("U. 1002:2002 urg 1500");
    p.expect("PU. 2002:2502 urg 500");
    p.inject(". 1 ack 2502");
    p.write(1);
    p.expect("P. 2502:2503");
}

#[test]
fn a_probe_of_a_shut_window_carries_the_pointer() {
    let mut p = Peer::server(Shape { syn: "win 65535 mss 1000", ..Shape::default() });
    p.write(1_000);
    p.expect("P. 1:1001");
    p.at(100);
    p.inject(". 1 ack 1001 win 0");
    assert_eq!(p.try_write(10, OOB), Ok(10));
    let all = p.run_to(500);
    let probes: Vec<_> = all.iter().map(|(_, s)| (s.seq, s.urg)).collect();
    assert_eq!(probes, [(Some(1_001), Some(10)), (Some(1_000), Some(11))]);
}

#[test]
fn a_low_water_mark_beyond_all_bounds_waits_for_the_end() {
    let mut p = Peer::server(Shape { options: |o| o.rcvlowat = u32::MAX, ..Shape::default() });
    p.inject("PU. 1:201 ack 1 urg 100");
    p.expect(". 1:1 ack 201");
    assert!(!ready(&mut p, Ready::IN));
    p.inject("F. 201 ack 1");
    assert!(ready(&mut p, Ready::IN));
}
