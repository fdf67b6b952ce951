//! Laws that every queueing discipline keeps: order, bounds, and conservation of packets.
use super::{Dequeued, Pfifo, Qdisc};
use crate::base::trace::Trace;
use crate::base::{Counters, Cx, Instant, Rng, Sysctl};
use crate::packet::{Offload, Packet};
use bytes::Bytes;

fn packet(n: usize) -> Packet {
    Packet::received(Bytes::from(vec![0; n]), Offload::default(), Instant::ZERO)
}

#[test]
fn what_goes_in_comes_out_once_in_order_and_a_full_queue_hands_back() {
    let (mut rng, sysctl, mut count, mut trace) =
        (Rng::new(1), Sysctl::default(), Counters::default(), Trace::default());
    let cx = &mut Cx {
        now: Instant::ZERO,
        rng: &mut rng,
        sysctl: &sysctl,
        count: &mut count,
        trace: &mut trace,
        pool: &mut crate::base::Pool::default(),
        pressure: crate::base::Pressure::Low,
        socket: None,
    };
    let mut q = Pfifo::new(3);
    for n in 1..=3 {
        q.enqueue(cx, packet(n)).expect("room");
    }
    assert_eq!(q.enqueue(cx, packet(4)).expect_err("full").len(), 4);
    assert_eq!((q.len(), q.bytes()), (3, 6));
    let mut seen = 0;
    q.each(&mut |packet| seen += packet.len());
    assert_eq!(seen, 6, "reports see what waits");
    for n in 1..=3 {
        assert!(matches!(q.dequeue(cx), Dequeued::Packet(p) if p.len() == n));
    }
    assert!(matches!(q.dequeue(cx), Dequeued::Empty));
    assert!(q.is_empty() && q.bytes() == 0);
}
