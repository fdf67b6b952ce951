//! The queue-aware limit: eight completions tell what the own queue passes on, and no more than a millisecond of it stands below.
use super::peer::{Peer, Shape};
use lowwater_core::base::{Sysctl, Wait};

/// Time between two completions; then the peer acknowledges what had left before.
const STEP_MS: u64 = 50;

/// A bulk flow before a device that takes 50 ms for a packet of two segments, after `n` completions.
fn bulk(aware: bool, n: u64) -> Peer {
    let sysctl = Sysctl { tcp_queue_aware: aware, ..Sysctl::default() };
    let mut p = Peer::server(Shape { sysctl, syn: "win 65535 mss 1000 sackOK", ..Shape::default() });
    p.slow_device();
    p.write(40_000);
    for i in 1..=n {
        p.drain();
        p.at(STEP_MS * i);
        p.complete(1);
        p.drain();
        if i > 2 {
            p.inject(&format!(". 1 ack {}", 1 + 2_000 * (i - 2)));
        }
    }
    p
}

fn segments_sent(p: &mut Peer) -> usize {
    p.drain().len()
}

fn queue_bytes(p: &Peer) -> Option<u64> {
    p.stack.own_queue(p.stack.now(), p.sock).map(|queue| queue.bytes)
}

#[test]
fn a_slow_line_has_two_segments_below_it() {
    let mut p = bulk(true, 7);
    let queue = p.stack.own_queue(p.stack.now(), p.sock).expect("followed");
    assert_eq!((queue.bytes, queue.rate), (2 * 2_080, None), "as small queues have it: two packets");
    segments_sent(&mut p);
    p.at(STEP_MS * 8);
    p.complete(1);
    let queue = p.stack.own_queue(p.stack.now(), p.sock).expect("followed");
    // 2,080 bytes in 50 ms.
    assert_eq!((queue.rate, queue.limit), (Some(41_600), Some(2_080)));
    assert_eq!(segments_sent(&mut p), 0, "a packet stands, which is all that may");
    p.complete(1);
    assert_eq!((segments_sent(&mut p), queue_bytes(&p)), (2, Some(2_080)), "now packets are segments");
    let waits = p.stack.counters().waits(Wait::QueueAware);
    assert!(waits >= 2, "{waits}");
    assert_eq!(p.stack.wait_report(p.stack.now(), p.sock).and_then(|w| w.why), Some(Wait::QueueAware));
    for i in 1..10 {
        p.at(STEP_MS * (8 + i));
        p.complete(1);
        assert_eq!((segments_sent(&mut p), queue_bytes(&p)), (1, Some(2_080)), "one for one");
        p.inject(&format!(". 1 ack {}", 16_001 + 1_000 * i));
        assert_eq!(segments_sent(&mut p), 0, "an acknowledgement makes no room below");
    }
    assert_eq!(
        p.info().delivery_rate_app_limited,
        0,
        "held back by its own queue it is not application-limited"
    );
}

#[test]
fn without_the_setting_linux_s_limit_holds() {
    let mut p = bulk(false, 12);
    segments_sent(&mut p);
    p.complete(1);
    assert_eq!(segments_sent(&mut p), 2);
    assert_eq!((queue_bytes(&p), p.stack.counters().waits(Wait::QueueAware)), (None, 0));
}

#[test]
fn the_setting_can_be_switched_while_flows_run() {
    let mut p = bulk(true, 9);
    p.stack.set_sysctl("net.lowwater.tcp_queue_aware", "0").expect("a setting");
    segments_sent(&mut p);
    p.complete(1);
    assert!(segments_sent(&mut p) > 1, "larger packets again");
    assert_eq!(queue_bytes(&p), None);
    let mut p = bulk(false, 9);
    p.stack.set_sysctl("tcp_queue_aware", "1").expect("a setting");
    p.drain();
    p.complete(1);
    assert!(queue_bytes(&p).is_some());
    let below = p.stack.credits()[0].below;
    assert!(queue_bytes(&p).is_some_and(|bytes| bytes <= below), "the account begins in the middle");
}

/// All that was written leaves and is acknowledged.
fn finish(p: &mut Peer) {
    for _ in 0..200 {
        p.drain();
        let now = p.ms();
        p.at(now + STEP_MS);
        let below = p.stack.credits().first().map_or(0, |c| c.below);
        if below > 0 {
            p.complete(1);
        }
        segments_sent(p);
        let nxt = 40_001 - p.stack.tcp_info(p.stack.now(), p.sock).expect("open").notsent_bytes;
        p.inject(&format!(". 1 ack {nxt}"));
        if p.stack.queues(p.sock).expect("open").send == 0 && p.stack.credits().is_empty() {
            break;
        }
    }
    assert_eq!(p.stack.queues(p.sock).expect("open").send, 0, "all is acknowledged");
    assert_eq!(queue_bytes(p), None);
}

#[test]
fn after_a_pause_a_flow_begins_with_what_it_knows_of_its_queue() {
    let mut p = bulk(true, 12);
    finish(&mut p);
    let packets = |p: &mut Peer| {
        p.write(20_000);
        (segments_sent(p), queue_bytes(p))
    };
    assert_eq!(packets(&mut p), (2, Some(2_080)), "two segments at once");
    // After ten seconds it could be another line.
    let late = |aware| {
        let mut p = bulk(aware, 12);
        finish(&mut p);
        let now = p.ms();
        p.at(now + 10_000);
        packets(&mut p).0
    };
    assert_eq!((late(true), late(false)), (10, 10), "as small queues have it");
}

#[test]
fn a_probe_waits_for_its_own_queue_too() {
    let mut p = bulk(true, 12);
    p.drain();
    let sent = p.stack.counters().tcp.out_segs;
    let now = p.ms();
    // After two round trips, before the timeout.
    p.at(now + 320);
    segments_sent(&mut p);
    assert_eq!(p.stack.counters().tcp.out_segs, sent, "two segments stand, and will bring an answer");
    p.complete(2);
    assert_eq!(segments_sent(&mut p), 2);
}

#[test]
fn what_leaves_at_once_is_no_queue() {
    let sysctl = Sysctl { tcp_queue_aware: true, ..Sysctl::default() };
    let mut p = Peer::server(Shape { sysctl, syn: "win 65535 mss 1000 sackOK", ..Shape::default() });
    for i in 0..20 {
        p.write(5_000);
        assert_eq!(segments_sent(&mut p), 5);
        let rate = p.stack.own_queue(p.stack.now(), p.sock).and_then(|queue| queue.rate);
        assert_eq!(rate, None, "nothing was below for any time");
        p.at(100 * (i + 1));
        p.inject(&format!(". 1 ack {}", 5_001 + 5_000 * i));
    }
    assert_eq!(p.stack.counters().waits(Wait::QueueAware), 0);
}
