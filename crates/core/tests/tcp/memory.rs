//! Short memory, of one socket and of all: what is given up, in which order (`tcp_prune_queue`, `tcp_mem`).
use super::peer::{Peer, Shape};
use lowwater_core::base::sysctl::Triple;
use lowwater_core::base::{Error, Sysctl};
use lowwater_core::tcp::{SendFlags, SocketOptions, State};

const SYN: &str = "win 65535 mss 1000 sackOK";

fn mem(min: u32, default: u32, max: u32) -> Sysctl {
    Sysctl { tcp_mem: Triple { min, default, max }, ..Sysctl::default() }
}

fn server(sysctl: Sysctl) -> Peer {
    Peer::server(Shape { syn: SYN, sysctl, ..Shape::default() })
}

/// Pressures, prunes called, out-of-order pruned, out-of-order refused, in order refused.
fn counts(p: &Peer) -> [u64; 5] {
    let c = &p.stack.counters().tcp_ext;
    [c.tcp_mem_pressures, c.prune_called, c.ofo_pruned, c.tcp_ofo_drop, c.tcp_rcv_q_drop]
}

/// The peer sends `n` segments of 1,000 bytes from `from` on.
fn send(p: &mut Peer, from: u32, n: u32) {
    for i in 0..n {
        let at = from + i * 1_000;
        p.inject(&format!(". {at}:{} ack 1", at + 1_000));
        p.drain();
    }
}

#[test]
fn under_pressure_data_beyond_a_hole_goes_first() {
    // 1,200 bytes per segment: pressure begins with the seventh.
    let mut p = server(mem(1, 2, 1_000));
    send(&mut p, 2_001, 6);
    assert_eq!((counts(&p), p.info().rcv_ooopack), ([0; 5], 6));
    send(&mut p, 8_001, 1);
    assert_eq!(counts(&p)[0], 1, "the seventh brought it");
    // The next one lies further away than all that is held: it is refused, nothing goes for it.
    send(&mut p, 9_001, 1);
    assert_eq!((counts(&p), p.info().rcv_ooopack), ([1, 1, 0, 1, 0], 7));
    // A nearer one pushes further ones out.
    send(&mut p, 1_001, 1);
    let [_, _, pruned, refused, _] = counts(&p);
    assert!(pruned >= 1 && refused == 1);
    // What comes in order is always taken.
    send(&mut p, 1, 1);
    assert_eq!(counts(&p)[4], 0);
    assert!(p.info().bytes_received >= 2_000);
}

#[test]
fn then_windows_shrink_to_four_segments() {
    let mut p = server(mem(1, 2, 1_000));
    send(&mut p, 1, 7);
    assert!(p.info().rcv_ssthresh > 4 * 1_460);
    send(&mut p, 7_001, 1);
    assert_eq!((p.info().rcv_ssthresh, counts(&p)), (4 * 1_460, [1, 0, 0, 0, 0]));
    // Reading ends the pressure; windows grow again with what comes.
    p.read(8_000);
    p.drain();
    send(&mut p, 8_001, 2);
    assert!(p.info().rcv_ssthresh > 4 * 1_460);
    assert_eq!(counts(&p)[0], 1);
}

#[test]
fn at_the_limit_data_is_refused_beyond_the_least_buffer_and_the_window_shuts() {
    let mut p = server(mem(1, 2, 3));
    send(&mut p, 1, 11);
    assert_eq!(counts(&p)[4], 0);
    p.inject(". 11001:12001 ack 1");
    p.expect(". 1 ack 11001 win 0");
    assert_eq!((counts(&p)[4], p.info().bytes_received), (1, 11_000));
    p.read(11_000);
    p.drain();
    p.inject(". 11001:12001 ack 1");
    p.drain();
    assert_eq!(p.info().bytes_received, 12_000);
}

#[test]
fn under_pressure_a_writer_with_more_than_his_share_gets_a_smaller_buffer() {
    // Pressure begins with the third page. A listener and a connection share the last limit: 8 pages each, or 500.
    for (limit, own) in [(16, false), (16, true), (1_000, false), (1_000, true)] {
        let mut sysctl = mem(1, 2, limit);
        sysctl.tcp_wmem.default = 200_000;
        let mut shape = Shape { syn: SYN, sysctl, ..Shape::default() };
        if own {
            shape.options = |o: &mut SocketOptions| o.sndbuf = Some(1 << 20);
        }
        let mut p = Peer::server(shape);
        let sndbuf = |p: &Peer| p.stack.memory(p.sock).expect("a socket").sndbuf;
        let (before, mut all) = (sndbuf(&p), 0);
        while all < 60_000
            && let Ok(n) = p.try_write(3_000, SendFlags::default())
        {
            all += n;
            assert!(all > 10_000 || sndbuf(&p) == before, "not before it has its share");
        }
        assert!(all > 10_000, "{all}");
        match (limit, own) {
            (16, false) => {
                assert!(all < 60_000, "a buffer of half of what waits in it takes nothing more");
                assert!((10_000..30_000).contains(&sndbuf(&p)), "{}", sndbuf(&p));
            }
            (16, true) => {
                assert_eq!((all < 60_000, sndbuf(&p)), (true, before), "the size is the application's");
            }
            _ => assert_eq!((all, sndbuf(&p)), (60_000, before)),
        }
        // Acknowledgements make room again, however small the buffer.
        for ack in [10_001, all as u32 + 1] {
            p.drain();
            p.inject(&format!(". 1 ack {ack}"));
        }
        assert!(p.try_write(1_000, SendFlags::default()).is_ok());
    }
}

#[test]
fn at_the_limit_a_writer_has_the_least_buffer() {
    let mut p = server(mem(1, 2, 3));
    let taken = p.try_write(100_000, SendFlags::default()).expect("what the buffer takes") as u32;
    p.drain();
    assert!(taken > 12_288, "{taken}");
    assert_eq!(p.try_write(1, SendFlags::default()), Err(Error::WouldBlock));
    // All is acknowledged: there is memory again.
    let mut una = 10_001;
    for _ in 0..6 {
        p.inject(&format!(". 1 ack {}", una.min(taken + 1)));
        p.drain();
        una += 20_000;
    }
    assert!(p.try_write(1_000, SendFlags::default()).is_ok());
}

#[test]
fn an_orphan_with_much_to_send_is_reset_at_the_limit() {
    for (limit, aborted) in [(3, 1), (1_000, 0)] {
        let mut p = server(mem(1, 2, limit));
        p.try_write(60_000, SendFlags::default()).expect("one element");
        p.drain();
        p.close();
        p.drain();
        assert_eq!(p.stack.counters().tcp_ext.tcp_abort_on_memory, aborted);
        assert_eq!(p.sockets() == 1, aborted == 1, "only the listener is left");
    }
}

#[test]
fn buffers_do_not_grow_while_all_hold_much() {
    let grown = |sysctl| {
        let mut p = server(sysctl);
        let fill = |p: &mut Peer| {
            let mut all = 0;
            while let Ok(n) = p.try_write(1_000, SendFlags::default()) {
                all += n as u32;
            }
            p.drain();
            all
        };
        let first = fill(&mut p);
        assert!(first > 10_000);
        p.at(100);
        p.inject(". 1 ack 10001");
        p.drain();
        // The congestion window is 20 now, and 10,000 bytes less are queued.
        fill(&mut p)
    };
    assert!(grown(Sysctl::default()) > grown(mem(1, 100_000, 200_000)));
}

// ----- the window's edge -----

#[test]
fn a_segment_that_ends_behind_the_window_is_taken_only_while_nothing_waits() {
    let options = |o: &mut SocketOptions| o.rcvbuf = Some(8_000);
    let mut p = Peer::server(Shape { syn: SYN, options, ..Shape::default() });
    let edge = p.info().rcv_wnd;
    assert!(edge < 5_000, "{edge}");
    let beyond = |p: &Peer| p.stack.counters().tcp_ext.beyond_window;
    // Nothing waits: taken, as Linux does for senders that ignore windows.
    p.inject(&format!(". 1:{} ack 1", edge + 1_000));
    p.drain();
    assert_eq!((p.info().bytes_received, beyond(&p)), (u64::from(edge) + 999, 0));
    let mut p = Peer::server(Shape { syn: SYN, options, ..Shape::default() });
    p.inject(". 1:101 ack 1");
    p.drain();
    p.inject(&format!(". 101:{} ack 1", edge + 1_000));
    p.expect(". 1 ack 101");
    assert_eq!((p.info().bytes_received, beyond(&p)), (100, 1));
    // A FIN takes no room.
    let end = 101 + p.info().rcv_wnd;
    p.inject(&format!("F. 101:{end} ack 1"));
    p.drain();
    assert_eq!((p.state(), beyond(&p)), (State::CloseWait, 1));
}
