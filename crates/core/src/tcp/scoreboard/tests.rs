//! The scoreboard against a naive model: one mark per byte, everything recounted.
use super::*;
use crate::base::testing::World;
use proptest::prelude::*;

impl Flight {
    /// Marks as sacked what a block reports, in whole segments.
    fn sack(&mut self, start: u64, end: u64, each: &mut dyn FnMut(SackedRecord)) {
        let mut at = start.max(self.tx.first().map_or(end, |(first, _)| first));
        while let Some((first, _)) = self.tx.covering(at).filter(|(first, _)| *first < end) {
            let Some(buffer) = self.buffer_at(first) else { break };
            if self.fit(&buffer, (start, end)) == Fit::Whole
                && let Some(told) = self.sack_record(first)
            {
                each(told);
            }
            let Some(sent) = self.tx.get(first) else { break };
            at = first + sent.span();
        }
    }

    /// Recounts everything from the records and compares.
    pub(in crate::tcp) fn check_counters(&self) {
        let (mut packets, mut lost, mut retrans, mut sacked) = (0u32, 0u32, 0u32, 0u32);
        let mut next = None;
        for (start, sent) in self.tx.range(0, u64::MAX) {
            assert!(next.is_none_or(|n| n == start), "records are contiguous");
            next = Some(start + sent.span());
            // The front of a single segment may be acknowledged already; the indices know only the rest.
            let (from, to) = (start.max(self.tx.una()), start + sent.span());
            let segs = u32::from(sent.segs);
            packets += segs;
            lost += segs * u32::from(sent.has(flag::LOST));
            retrans += segs * u32::from(sent.has(flag::RETRANS));
            sacked += segs * u32::from(sent.has(flag::SACKED));
            let resend = sent.flags & (flag::LOST | flag::RETRANS) == flag::LOST;
            assert_eq!(resend, self.to_resend.covers(from, to), "to_resend at {start}");
            let known = self.buffers.as_ref().is_some_and(|b| b.sacked.covers(from, to));
            assert!(sent.has(flag::SACKED) == known || from >= to, "at {start}");
            assert!(!(sent.has(flag::SACKED) && sent.has(flag::LOST)), "sacked and lost at {start}");
        }
        assert_eq!((self.packets_out, self.lost_out, self.retrans_out), (packets, lost, retrans));
        if self.sack_ok {
            assert_eq!(self.sacked_out, sacked);
        }
        assert!(next.is_none_or(|n| n == self.tx.nxt()));
        let (first, una) = (self.to_resend.first().map(|(start, _)| start), self.tx.una());
        assert!(first.is_none_or(|start| start >= una), "{first:?} is acknowledged up to {una}");
    }
}

#[derive(Clone, Debug)]
enum Op {
    Send(u16, bool),
    Sack(u16, u16),
    Ack(u16),
    Lose(u16),
    Resend,
    Unmark,
    Renege,
    Mss(u16),
    Join(u16),
    Cut(u16, u16),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1..6_000u16, any::<bool>()).prop_map(|(n, w)| Op::Send(n, w)),
        4 => (0..12_000u16, 1..4_000u16).prop_map(|(s, n)| Op::Sack(s, n)),
        2 => (0..4_000u16).prop_map(Op::Ack),
        3 => (0..12_000u16).prop_map(Op::Lose),
        3 => Just(Op::Resend),
        1 => Just(Op::Unmark),
        1 => Just(Op::Renege),
        1 => (100..900u16).prop_map(Op::Mss),
        4 => (0..12_000u16).prop_map(Op::Join),
        3 => (0..12_000u16, 1..4_000u16).prop_map(|(s, n)| Op::Cut(s, n)),
    ]
}

/// Bytes by their offset: what was written, and whether a SACK block covered it since the last reneging.
#[derive(Default)]
struct Model {
    covered: std::collections::BTreeSet<u64>,
}

fn send(f: &mut Flight, n: u16, whole: bool, clock: u64) {
    let data: Vec<u8> = (0..n).map(|i| (f.tx.write_seq() + u64::from(i)) as u8).collect();
    f.tx.unsent.begin_element(&mut crate::base::Pool::default(), &data, data.len(), 64_000);
    let len = if whole { 64_000 } else { usize::from(f.mss) };
    while let Some(at) = f.tx.send_head(len, f.mss, Instant::from_millis(clock), Default::default()) {
        f.on_sent(at);
    }
}

fn step(world: &mut World, f: &mut Flight, m: &mut Model, op: &Op, clock: u64) {
    let now = Instant::from_millis(clock);
    let mut cx = world.cx(now);
    let (una, nxt) = (f.tx.una(), f.tx.nxt());
    match *op {
        Op::Send(n, whole) => send(f, n, whole, clock),
        Op::Sack(s, n) => {
            let (start, end) = ((una + 1 + u64::from(s)).min(nxt), (una + 1 + u64::from(s + n)).min(nxt));
            f.sack(start, end, &mut |r| {
                assert!(r.start >= start && r.end <= end, "only what the block covers");
            });
            m.covered.extend(start..end);
        }
        Op::Ack(n) => {
            let ack = (una + u64::from(n)).min(nxt);
            f.advance_una(ack);
            while let Some(a) = f.take_acked(&mut crate::base::Pool::default(), ack) {
                if a.end > ack {
                    break;
                }
            }
        }
        Op::Lose(s) => {
            if let Some((start, _)) = f.tx.covering(una + u64::from(s)) {
                f.mark_lost(&mut cx, start);
            }
        }
        Op::Resend => {
            if let Some((start, sent)) = f.next_lost() {
                let (segs, mss) = (sent.segs, usize::from(sent.mss));
                if segs > 2 {
                    f.split_to_resend(start, 2 * mss);
                }
                f.recount(start);
                f.on_resent(start, now, false, Default::default(), true);
            }
        }
        Op::Unmark => {
            f.unmark_lost();
        }
        Op::Renege => {
            f.forget_sacks();
            m.covered.clear();
        }
        Op::Mss(mss) => f.mss = mss,
        Op::Join(s) => {
            let Some(buffer) = f.buffer_at(una + u64::from(s)).filter(|b| b.has(flag::SACKED)) else {
                return;
            };
            if let Some(before) = f.buffer_before(&buffer)
                && f.joins(Some(&before), &buffer, (buffer.start, buffer.end), false)
                    == Join::Front(buffer.end - buffer.start)
            {
                f.join(&before, &buffer);
            }
        }
        Op::Cut(s, n) => {
            let start = una + u64::from(s);
            if let Some(buffer) = f.buffer_at(start).filter(|b| b.has(flag::SACKED)) {
                f.fit(&buffer, (start, start + u64::from(n)));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn counters_are_sums_and_bytes_stay_in_place(ops in prop::collection::vec(op(), 1..60)) {
        let mut world = World::new();
        let mut f = Flight::new(1, 500);
        f.sack_ok = true;
        let mut m = Model::default();
        for (clock, op) in ops.iter().enumerate() {
            step(&mut world, &mut f, &mut m, op, clock as u64);
            f.check_counters();
            for (start, sent) in f.tx.range(0, u64::MAX) {
                for (i, b) in sent.payload.iter().enumerate() {
                    prop_assert_eq!(*b, (start + i as u64) as u8);
                }
                // Exactly the whole segments that blocks covered are sacked, and never a byte that none did.
                if sent.has(flag::SACKED) {
                    prop_assert!((start..start + sent.span()).all(|o| o < f.tx.una() || m.covered.contains(&o)));
                }
            }
        }
    }
}

#[test]
fn repeated_blocks_cost_nothing_new() {
    let mut f = Flight::new(1, 1_000);
    f.sack_ok = true;
    send(&mut f, 60_000, false, 0);
    let mut told = 0;
    f.sack(10_001, 20_001, &mut |_| told += 1);
    f.sack(10_001, 20_001, &mut |_| told += 1);
    f.sack(9_001, 22_001, &mut |_| told += 1);
    assert_eq!((told, f.sacked_out, f.highest_sack()), (13, 13, 22_001));
    assert_eq!(f.last_unsacked_below(22_001).map(|(s, _)| s), Some(8_001));
    f.check_counters();
}

#[test]
fn what_was_one_buffer_keeps_one_time_also_when_it_is_taken_back() {
    let mut f = Flight::new(1, 1_000);
    f.sack_ok = true;
    (0..3).for_each(|clock| send(&mut f, 1_000, false, clock));
    let times = |f: &Flight| f.tx.range(0, 9_999).map(|(_, s)| s.sent_at.as_millis()).collect::<Vec<_>>();
    f.sack(1_001, 3_001, &mut |_| ());
    let (before, buffer) = (f.buffer_at(1_001).expect("the first"), f.buffer_at(2_001).expect("the second"));
    assert_eq!(f.join(&before, &buffer).end, 3_001);
    f.take_acked(&mut crate::base::Pool::default(), 1_001).expect("the first");
    f.advance_una(1_001);
    assert_eq!((times(&f), f.head_sent_at()), (vec![1, 2], Some(Instant::from_millis(1))));
    f.take_acked(&mut crate::base::Pool::default(), 2_001).expect("the second");
    f.advance_una(2_001);
    assert_eq!((times(&f), f.head_sent_at()), (vec![2], Some(Instant::from_millis(1))));
    f.forget_sacks();
    assert_eq!((times(&f), f.head_sent_at()), (vec![1], Some(Instant::from_millis(1))));
    f.check_counters();
}
