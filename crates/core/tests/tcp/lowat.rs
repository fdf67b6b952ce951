//! Writability: TCP_NOTSENT_LOWAT with the half rule, SO_SNDBUF, and buffers that grow by themselves.
use super::peer::{Peer, Shape};
use lowwater_core::base::{Error, Sysctl};
use lowwater_core::stack::Event;
use lowwater_core::tcp::{Ready, SendFlags, SocketOptions};

fn server(options: fn(&mut SocketOptions)) -> Peer {
    Peer::server(Shape { syn: "win 65535 mss 1000 sackOK", options, ..Shape::default() })
}

fn lowat(o: &mut SocketOptions) {
    (o.notsent_lowat, o.sndbuf) = (10_000, Some(1 << 20));
}

fn writable(p: &mut Peer) -> bool {
    let (now, sock) = (p.now(), p.sock);
    p.stack.poll(now, sock).contains(Ready::OUT)
}

fn told(p: &mut Peer) -> bool {
    let event = Event::Writable(p.sock);
    let told = p.events.contains(&event);
    p.events.clear();
    told
}

#[test]
fn a_write_may_exceed_the_limit_by_one_element() {
    // Linux asks per element, not per byte: an element is filled to the size goal, half the largest window in whole segments.
    let mut p = server(lowat);
    // What the first window would send of it in the meantime does not count: ten segments more.
    assert_eq!(p.try_write(100_000, SendFlags::default()), Ok(42_000));
    p.expect_data(1, 10_001, 1_000);
    // 32,000 unsent bytes are over the limit.
    assert_eq!(p.try_write(1, SendFlags::default()), Err(Error::WouldBlock));
    assert!(!writable(&mut p));
}

#[test]
fn the_waiter_is_woken_under_half_the_limit_and_once() {
    let mut p = server(lowat);
    // The end of a record, or the element that was begun would be filled up whatever the limit says.
    assert_eq!(p.try_write(32_000, SendFlags { eor: true, ..SendFlags::default() }), Ok(32_000));
    p.expect_data(1, 10_001, 1_000);
    assert_eq!(p.try_write(1, SendFlags::default()), Err(Error::WouldBlock));
    told(&mut p);
    p.at(100);
    let mut at = 100;
    // Unsent after each ACK in slow start: 18,000, 12,000, 6,000, then 4,000 at last.
    for (ack, unsent, woken) in
        [(2_001, 18_000, false), (5_001, 12_000, false), (8_001, 6_000, false), (9_001, 4_000, true)]
    {
        at += 2;
        p.at(at);
        p.inject(&format!(". 1 ack {ack}"));
        p.drain();
        assert_eq!(p.info().notsent_bytes, unsent);
        assert_eq!(told(&mut p), woken, "unsent {unsent}");
        if unsent == 6_000 {
            // Between half and whole a write is accepted, but nobody is woken for it, and poll says no.
            assert!(!writable(&mut p));
        }
    }
    p.at(at + 2);
    p.inject(". 1 ack 10001");
    p.drain();
    assert!(!told(&mut p), "nobody waits any more");
    assert!(writable(&mut p));
}

#[test]
fn the_half_rule_can_be_switched_off() {
    let sysctl = Sysctl { notsent_lowat_half: false, ..Sysctl::default() };
    let syn = "win 65535 mss 1000 sackOK";
    let mut p = Peer::server(Shape { syn, options: lowat, sysctl, ..Shape::default() });
    assert_eq!(p.try_write(32_000, SendFlags { eor: true, ..SendFlags::default() }), Ok(32_000));
    p.expect_data(1, 10_001, 1_000);
    assert_eq!(p.try_write(1, SendFlags::default()), Err(Error::WouldBlock));
    told(&mut p);
    for (at, ack, unsent, woken) in [(102, 5_001, 12_000, false), (104, 8_001, 6_000, true)] {
        p.at(at);
        p.inject(&format!(". 1 ack {ack}"));
        p.drain();
        assert_eq!(p.info().notsent_bytes, unsent);
        assert_eq!((told(&mut p), writable(&mut p)), (woken, woken), "unsent {unsent}");
    }
}

#[test]
fn what_is_in_flight_does_not_count() {
    let mut p = server(lowat);
    p.write(10_000);
    p.expect_data(1, 10_001, 1_000);
    assert_eq!((p.info().notsent_bytes, p.info().unacked), (0, 10));
    assert!(writable(&mut p));
}

#[test]
fn the_edge_is_strict() {
    // unsent * 2 < lowat: 4,999 of 10,000 yes, 5,000 no.
    for (unsent, want) in [(4_999, true), (5_000, false)] {
        let mut p = server(lowat);
        p.write(10_000);
        p.expect_data(1, 10_001, 1_000);
        p.write(unsent);
        p.quiet();
        assert_eq!(p.info().notsent_bytes as usize, unsent);
        assert_eq!(writable(&mut p), want);
    }
}

#[test]
fn the_sysctl_is_the_default_and_the_option_wins() {
    let sysctl = || Sysctl { tcp_notsent_lowat: 10_000, ..Sysctl::default() };
    let shape = Shape { syn: "win 65535 mss 1000 sackOK", sysctl: sysctl(), ..Shape::default() };
    let mut p = Peer::server(Shape { options: |o| o.sndbuf = Some(1 << 20), ..shape.clone() });
    p.write(10_000);
    p.drain();
    p.write(5_000);
    assert!(!writable(&mut p));
    let mut p =
        Peer::server(Shape { options: |o| (o.sndbuf, o.notsent_lowat) = (Some(1 << 20), 20_000), ..shape });
    p.write(10_000);
    p.drain();
    p.write(5_000);
    assert!(writable(&mut p));
}

#[test]
fn without_a_limit_only_the_buffer_counts() {
    let mut p = server(|o| o.sndbuf = Some(1 << 20));
    assert_eq!(p.try_write(500_000, SendFlags::default()), Ok(500_000));
    p.drain();
    assert!(writable(&mut p));
}

#[test]
fn so_sndbuf_bounds_what_is_queued_and_in_flight() {
    let mut p = server(|o| o.sndbuf = Some(50_000));
    let taken = p.try_write(500_000, SendFlags::default()).unwrap();
    assert!((50_000..=82_000).contains(&taken), "{taken}: the limit and at most one element");
    assert!(!writable(&mut p));
    p.drain();
    told(&mut p);
    let mut acked = 0;
    let mut woken_at = None;
    for step in 1..100 {
        acked = (acked + 4_000).min(taken as u32);
        p.run_to(step * 5);
        p.inject_more(&format!(". 1 ack {}", acked + 1));
        p.drain();
        if told(&mut p) {
            woken_at = Some(taken as u32 - acked);
            break;
        }
    }
    // A third of the buffer must be free: at most 33,333 bytes of charge are left.
    let left = woken_at.expect("woken");
    assert!((10_000..=33_333).contains(&left), "{left}");
}

#[test]
fn the_send_buffer_grows_with_the_window() {
    let mut p = server(|_| {});
    let first = p.try_write(1 << 20, SendFlags::default()).unwrap();
    let (mut total, mut acked) = (first, 0);
    for round in 1..6 {
        let sent = p.run_to(round * 100);
        assert!(!sent.is_empty());
        acked = sent.iter().map(|(_, s)| s.seq.unwrap() + s.len - 1).max().unwrap().max(acked);
        p.inject_more(&format!(". 1 ack {}", acked + 1));
        while let Ok(n) = p.try_write(1 << 20, SendFlags::default()) {
            total += n;
        }
    }
    let queued = total - acked as usize;
    assert!(queued > 3 * first, "first {first}, now {queued} beyond what is acknowledged");
    assert!(p.info().snd_cwnd > 40);
}

#[test]
fn the_receive_window_grows_with_what_is_read() {
    // Dynamic right-sizing; a reader that does not read gets no more than the buffer.
    let grow = |read: bool, options: fn(&mut SocketOptions)| {
        let syn = "win 65535 mss 1460 ws 7 ts 500000/0 sackOK";
        let mut p = Peer::server(Shape { syn, options, win: 512, ..Shape::default() });
        let (scale, mut at, mut win, mut right) = (p.info().rcv_wscale, 1, 0, 30_000);
        for round in 1..12 {
            for (_, seg) in p.run_to(round * 100) {
                win = seg.win.unwrap() << scale;
                right = right.max(seg.ack.unwrap() + win);
            }
            while at + 1_448 < right {
                p.inject_more(&format!(". {at}:{} ack 1", at + 1_448));
                at += 1_448;
                if read {
                    while p.try_read(65_536).is_ok_and(|n| n > 0) {}
                }
                for seg in p.drain() {
                    win = seg.win.unwrap() << scale;
                    right = right.max(seg.ack.unwrap() + win);
                }
                if at > (round as u32) * 400_000 {
                    break;
                }
            }
        }
        win
    };
    let grown = grow(true, |_| {});
    assert!(grown > 500_000, "{grown}");
    let fixed = grow(true, |o| o.rcvbuf = Some(65_536));
    assert!(fixed <= 65_536, "{fixed}");
    let full = grow(false, |_| {});
    assert!(full < 10_000, "{full}");
}
