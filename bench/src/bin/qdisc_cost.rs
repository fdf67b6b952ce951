//! Work per packet of a queueing discipline with so many flows: run under callgrind, which counts only what `measured` does.
//!
//! `qdisc_cost FLOWS WORDS`: each flow has a packet that waits; a packet leaves, and its flow's next one comes.
#![forbid(unsafe_code)]
use bytes::Bytes;
use lowwater_core::base::trace::Trace;
use lowwater_core::base::{Counters, Cx, FlowId, Instant, Pool, Pressure, Rng, SocketId, Sysctl};
use lowwater_core::packet::{Head, Offload, Owner, Packet};
use lowwater_core::qdisc::{Any, Dequeued, Gone, LinkFacts, Qdisc as _};
use lowwater_wire::{ipv4, protocol, tcp};

/// Packets that are measured.
const MEASURED: u32 = 20_000;
/// Nanoseconds between two packets.
const GAP_NS: u64 = 1_000;

fn packet(flow: u32) -> Packet {
    let mut head = Head::new();
    let repr = tcp::TcpRepr {
        src_port: flow as u16,
        dst_port: 80,
        seq: 0,
        ack: 0,
        flags: tcp::TcpFlags::ACK,
        window: 0,
        urgent: 0,
        options: tcp::TcpOptions::EMPTY,
    };
    repr.emit(head.prepend(repr.buffer_len()));
    let ip = ipv4::Ipv4Repr {
        tos: 0,
        ident: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: protocol::TCP,
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, (flow >> 16) as u8, 2].into(),
        payload_len: 1_480,
    };
    ip.emit(head.prepend(ipv4::HEADER_LEN));
    let owner = Some(Owner::new(FlowId::of(SocketId::default()), 2_228));
    let payload = Bytes::from_static(&[0; 1_460]);
    Packet { head, payload, offload: Offload::default(), owner, at: Instant::ZERO, priority: None }
}

/// One packet leaves, and comes again as its flow's next one.
#[inline(never)]
fn measured(q: &mut Any, cx: &mut Cx<'_>, gone: &mut Gone) {
    match q.dequeue(cx, gone) {
        Dequeued::Packet(packet) => q.enqueue(cx, packet, gone),
        other => panic!("a backlog without rates gave {other:?}"),
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let flows: u32 = args.next().and_then(|n| n.parse().ok()).expect("FLOWS");
    let words = args.next().expect("WORDS");
    let mut q: Any = words.parse().expect("a queueing discipline");
    let (mut rng, sysctl) = (Rng::new(1), Sysctl::default());
    let (mut count, mut trace, mut pool) = (Counters::default(), Trace::default(), Pool::default());
    let mut gone = Gone::default();
    let mut cx = Cx {
        now: Instant::from_millis(1),
        rng: &mut rng,
        sysctl: &sysctl,
        count: &mut count,
        trace: &mut trace,
        pool: &mut pool,
        pressure: Pressure::Low,
        share: u64::MAX,
        orphans: 0,
        socket: None,
    };
    q.attach(&mut cx, &LinkFacts::ip(1_500));
    for flow in 0..flows {
        q.enqueue(&mut cx, packet(flow), &mut gone);
    }
    // Each flow's first turn is larger than the others.
    for _ in 0..flows * 2 {
        cx.now = cx.now.plus_nanos(GAP_NS);
        warm_up(&mut q, &mut cx, &mut gone);
    }
    for _ in 0..MEASURED {
        cx.now = cx.now.plus_nanos(GAP_NS);
        measured(&mut q, &mut cx, &mut gone);
    }
    assert!(gone.is_empty() && q.stats().qlen == u64::from(flows), "nothing is given up");
}

/// The same without being counted, for warming up.
#[inline(never)]
fn warm_up(q: &mut Any, cx: &mut Cx<'_>, gone: &mut Gone) {
    if let Dequeued::Packet(packet) = q.dequeue(cx, gone) {
        q.enqueue(cx, packet, gone);
    }
}
