//! Laws of links: every packet is accounted for, rates hold, order is kept unless asked otherwise.
use super::spec::{Carry, DelaySpec, LossSpec, NicSpec, QdiscSpec, QueueSpec};
use super::*;
use bytes::Bytes;
use lowwater_core::base::{FlowId, Rng, SocketId};
use lowwater_core::packet::{Offload, Owner};

fn packet(number: u64, len: usize, owner: bool) -> Packet {
    let mut bytes = vec![0u8; len];
    bytes[0] = 0x45;
    bytes[6] = 0x40;
    bytes[20..28].copy_from_slice(&number.to_be_bytes());
    let mut p = Packet::received(Bytes::from(bytes), Offload::default(), Instant::ZERO);
    p.owner = owner.then(|| Owner::new(FlowId::of(SocketId::default()), number as u32));
    p
}

fn number(p: &Packet) -> u64 {
    u64::from_be_bytes(p.payload[20..28].try_into().expect("eight bytes"))
}

fn balanced(pipe: &Pipe) {
    let c = pipe.counts();
    assert_eq!(c.accepted + c.split + c.duplicated, c.delivered + c.dropped() + pipe.held());
}

fn drain(pipe: &mut Pipe) -> (Vec<(Instant, Packet)>, Vec<Completion>) {
    let (mut out, mut completions) = (Vec::new(), Vec::new());
    while let Some(at) = pipe.deadline() {
        pipe.advance(at, &mut completions);
        out.extend(pipe.take_delivered().into_iter().map(|p| (at, p)));
        balanced(pipe);
    }
    (out, completions)
}

#[test]
fn a_device_serialises_completes_and_refuses_when_full() {
    let nic = NicSpec { rate: 8_000_000, packets: 4, ..NicSpec::default() };
    let mut pipe = PipeSpec { nic: Some(nic), ..PipeSpec::default() }.build(&Rng::new(1));
    for n in 0..3 {
        assert!(matches!(pipe.submit(Instant::ZERO, packet(n, 1000, true)), Submitted::Sent));
    }
    let last = pipe.submit(Instant::ZERO, packet(3, 1000, true));
    assert!(matches!(last, Submitted::Filled), "it says so with the packet that fills it");
    let Submitted::NotNow(back) = pipe.submit(Instant::ZERO, packet(4, 1000, true)) else {
        panic!("it was full")
    };
    assert_eq!(number(&back), 4);
    assert!(back.owner.is_some(), "a refused packet keeps its owner");
    let (out, completions) = drain(&mut pipe);
    let at: Vec<u64> = out.iter().map(|(t, _)| t.as_millis()).collect();
    assert_eq!(at, [1, 2, 3, 4]);
    assert!(out.iter().all(|(_, p)| p.owner.is_none()), "a packet that left belongs to nobody");
    assert_eq!(completions.iter().filter(|c| matches!(c, Completion::Left(_))).count(), 4);
    assert_eq!(completions.iter().filter(|c| matches!(c, Completion::Ready)).count(), 1);
}

#[test]
fn a_random_refusal_ends_with_ready() {
    let nic = NicSpec { not_now_ppm: 1_000_000, not_now_ns: 500, ..NicSpec::default() };
    let mut pipe = PipeSpec { nic: Some(nic), ..PipeSpec::default() }.build(&Rng::new(1));
    assert!(matches!(pipe.submit(Instant::ZERO, packet(0, 100, true)), Submitted::NotNow(_)));
    assert_eq!(pipe.deadline(), Some(Instant::from_nanos(500)));
    let mut completions = Vec::new();
    pipe.advance(Instant::from_nanos(500), &mut completions);
    assert_eq!(completions, [Completion::Ready]);
    assert_eq!(pipe.deadline(), None);
}

#[test]
fn a_router_queue_drops_at_its_tail_and_nowhere_else() {
    let queue = QueueSpec { rate: 8_000_000, packets: 3, ..QueueSpec::default() };
    let mut pipe = PipeSpec { queue: Some(queue), ..PipeSpec::default() }.build(&Rng::new(1));
    for n in 0..5 {
        pipe.accept(Instant::ZERO, packet(n, 1000, false));
    }
    assert_eq!(pipe.counts().queue_full, 2);
    let (out, _) = drain(&mut pipe);
    assert_eq!(out.iter().map(|(_, p)| number(p)).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn jitter_keeps_order_and_reordering_does_not() {
    let run = |reorder_ppm| {
        let delay = DelaySpec { delay_ns: 1_000, jitter_ns: 5_000, reorder_ppm, reorder_ns: 50_000 };
        let mut pipe = PipeSpec { delay, ..PipeSpec::default() }.build(&Rng::new(3));
        for n in 0..200 {
            pipe.accept(Instant::from_nanos(n * 100), packet(n, 100, false));
        }
        let (out, _) = drain(&mut pipe);
        out.iter().map(|(_, p)| number(p)).collect::<Vec<_>>()
    };
    assert!(run(0).is_sorted());
    let mixed = run(200_000);
    assert!(!mixed.is_sorted());
    assert_eq!(mixed.len(), 200);
}

#[test]
fn losses_come_at_their_rates_and_stop_when_healed() {
    let loss = LossSpec { random_ppm: 100_000, ..LossSpec::default() };
    let mut pipe = PipeSpec { loss, duplicate_ppm: 50_000, corrupt_ppm: 50_000, ..PipeSpec::default() }
        .build(&Rng::new(9));
    for n in 0..10_000 {
        pipe.accept(Instant::from_nanos(n), packet(n, 100, false));
        pipe.advance(Instant::from_nanos(n), &mut Vec::new());
        balanced(&pipe);
    }
    let c = pipe.counts().clone();
    assert!((900..1100).contains(&c.lost), "{c:?}");
    assert!((350..550).contains(&c.duplicated), "{c:?}");
    assert!((350..550).contains(&c.corrupted), "{c:?}");
    pipe.heal();
    pipe.take_delivered();
    for n in 10_000..11_000 {
        pipe.accept(Instant::from_nanos(n), packet(n, 100, false));
        pipe.advance(Instant::from_nanos(n), &mut Vec::new());
    }
    assert_eq!(pipe.take_delivered().len(), 1000);
}

#[test]
fn bursts_and_blackouts_and_exact_losses() {
    let loss = LossSpec {
        to_bad_ppm: 10_000,
        to_good_ppm: 200_000,
        bad_ppm: 1_000_000,
        blackouts: vec![(Instant::from_nanos(5_000), Instant::from_nanos(5_100))],
        nth: vec![0],
        ..LossSpec::default()
    };
    let mut pipe = PipeSpec { loss, ..PipeSpec::default() }.build(&Rng::new(4));
    let mut got = Vec::new();
    for n in 0..10_000 {
        pipe.accept(Instant::from_nanos(n), packet(n, 100, false));
        pipe.advance(Instant::from_nanos(n), &mut Vec::new());
        got.extend(pipe.take_delivered().iter().map(number));
    }
    assert!(!got.contains(&0));
    assert!(!got.iter().any(|n| (5_000..5_100).contains(n)));
    let lost = pipe.counts().lost;
    assert!((200..1200).contains(&lost), "{lost}");
    balanced(&pipe);
}

#[test]
fn a_small_hop_tells_the_sender_unless_it_is_a_black_hole() {
    for silent in [false, true] {
        let mut pipe = PipeSpec { mtu: 1000, mtu_silent: silent, ..PipeSpec::default() }.build(&Rng::new(4));
        pipe.accept(Instant::ZERO, packet(0, 1001, false));
        pipe.accept(Instant::ZERO, packet(1, 1000, false));
        pipe.advance(Instant::ZERO, &mut Vec::new());
        assert_eq!(pipe.take_delivered().len(), 1);
        assert_eq!(pipe.take_back().len(), usize::from(!silent));
        balanced(&pipe);
    }
}

#[test]
fn a_carry_mode_is_chosen_per_device() {
    assert_eq!(Carry::default(), Carry::Whole);
}

#[test]
fn any_discipline_stands_before_a_line_and_the_account_balances() {
    for words in [
        "pfifo limit 20",
        "fq_codel limit 50 target 1ms interval 5ms",
        "tbf rate 8mbit burst 5kb limit 20kb",
        "netem delay 3ms 1ms loss 5% duplicate 5% rate 8mbit limit 50",
        "fq maxrate 4mbit",
    ] {
        let qdisc = QdiscSpec { words: words.into(), rate: 8_000_000, mtu: 1_500 };
        let spec = PipeSpec { qdisc: Some(qdisc), ..PipeSpec::default() };
        let mut pipe = spec.build(&Rng::new(4));
        let (mut got, mut none) = (0, Vec::new());
        for n in 0..400_u64 {
            pipe.accept(Instant::from_micros(n * 700), packet(n, 1_000, false));
            pipe.advance(Instant::from_micros(n * 700), &mut none);
            got += pipe.take_delivered().len() as u64;
            balanced(&pipe);
        }
        let mut last = Instant::from_micros(400 * 700);
        while let Some(at) = pipe.deadline() {
            assert!(at > last || pipe.held() > 0);
            last = last.max(at);
            pipe.advance(last, &mut none);
            got += pipe.take_delivered().len() as u64;
            balanced(&pipe);
        }
        assert_eq!((pipe.held(), got), (0, pipe.counts().delivered), "{words}");
        // A thousand bytes are a millisecond on this line, whatever stands before it.
        assert!(last.as_millis() >= got && got > 150, "{words}: {got} until {last}");
        assert!(
            pipe.counts().dropped() > 0 || words.starts_with("fq maxrate"),
            "{words}: {:?}",
            pipe.counts()
        );
    }
}

/// A packet of the link's MTU is no queue that stands, whatever time it takes (`codel_should_drop`).
#[test]
fn a_discipline_knows_the_mtu_of_its_link() {
    let dropped = |mtu| {
        let words = "codel limit 50 target 1ms interval 5ms".into();
        let spec = PipeSpec { qdisc: Some(QdiscSpec { words, rate: 8_000_000, mtu }), ..PipeSpec::default() };
        let mut pipe = spec.build(&Rng::new(4));
        // Five of a thousand bytes wait all the time: one comes when one leaves.
        for n in 0..200_u64 {
            let now = Instant::from_millis(n.saturating_sub(5));
            pipe.advance(now, &mut Vec::new());
            pipe.accept(now, packet(n, 1_000, false));
        }
        pipe.counts().dropped()
    };
    assert_eq!((dropped(9_000), dropped(1_500) > 0), (0, true));
}

#[test]
fn a_percentile_is_of_the_nearest_rank() {
    let spec = NicSpec {
        telling: nic::Telling { late_ns: 1, batch: 10, batch_ns: 1_000_000 },
        ..NicSpec::default()
    };
    let mut pipe = PipeSpec { nic: Some(NicSpec { rate: 8_000_000_000, ..spec }), ..PipeSpec::default() }
        .build(&Rng::new(1));
    let late = |pipe: &Pipe| pipe.nic.as_ref().map(Nic::lateness_ns);
    assert_eq!(late(&pipe), Some(0));
    // Each takes 100 ns of the line, and the tenth makes all be told: 901 ns after the first has left, 1 after the last.
    for n in 0..10 {
        pipe.submit(Instant::ZERO, packet(n, 100, true));
    }
    drain(&mut pipe);
    assert_eq!(late(&pipe), Some(801));
}
