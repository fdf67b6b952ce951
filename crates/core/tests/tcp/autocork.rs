//! Autocorking: a small write waits while a packet of the flow sits below the transport (`tcp_should_autocork`).
use super::peer::{Peer, Shape};
use lowwater_core::base::{Sysctl, Wait};
use lowwater_core::tcp::{How, SendFlags, SocketOptions};

const NODELAY: fn(&mut SocketOptions) = |o| o.nodelay = true;

/// 100 bytes are on the device, which is slow.
fn busy(sysctl: Sysctl) -> Peer {
    let mut p =
        Peer::server(Shape { syn: "win 65535 mss 1000", options: NODELAY, sysctl, ..Shape::default() });
    p.slow_device();
    p.write(100);
    p.expect("P. 1:101");
    p
}

fn corked(p: &Peer) -> (u64, u64) {
    (p.stack.counters().tcp_ext.tcp_auto_corking, p.stack.counters().waits(Wait::Autocork))
}

#[test]
fn small_writes_wait_for_the_completion_and_leave_as_one() {
    let mut p = busy(Sysctl::default());
    p.write(50);
    p.write(50);
    p.quiet();
    assert_eq!(corked(&p), (1, 1), "counted once per wait");
    p.complete(1);
    p.expect("P. 101:201");
    p.quiet();
    // The same again.
    p.write(10);
    p.quiet();
    assert_eq!(corked(&p), (2, 2));
    p.complete(1);
    p.expect("P. 201:211");
}

#[test]
fn the_sysctl_switches_it_off() {
    let mut p = busy(Sysctl { tcp_autocorking: false, ..Sysctl::default() });
    p.write(50);
    p.expect("P. 101:151");
    assert_eq!(corked(&p), (0, 0));
}

#[test]
fn what_is_larger_than_all_that_is_below_goes() {
    let mut p = busy(Sysctl::default());
    p.write(101);
    p.expect("P. 101:202");
    p.write(2_000);
    p.expect_data(202, 2_202, 1_000);
    assert_eq!(corked(&p), (0, 0));
}

#[test]
fn nothing_waits_when_all_was_acknowledged() {
    let mut p = busy(Sysctl::default());
    p.inject(". 1 ack 101");
    p.write(10);
    p.expect("P. 101:111");
    assert_eq!(corked(&p), (0, 0));
}

#[test]
fn an_end_of_record_goes() {
    let mut p = busy(Sysctl::default());
    let eor = SendFlags { eor: true, ..SendFlags::default() };
    assert_eq!(p.try_write(50, eor), Ok(50));
    p.expect("P. 101:151");
    assert_eq!(corked(&p), (0, 0));
}

#[test]
fn a_fin_takes_along_what_waits() {
    let mut p = busy(Sysctl::default());
    p.write(50);
    p.quiet();
    p.shutdown(How::Write);
    p.expect("FP. 101:151");
}
