//! The queue by itself: nothing is copied, nothing is lost, memory is accounted for.
use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// Most that an element and its buffers take beside bytes.
const ELEMENT_MOST: usize = 400;

fn stamp() -> TxStamp {
    TxStamp::default()
}

fn fill(q: &mut TxQueue, data: &[u8], goal: usize) {
    let mut rest = data;
    while !rest.is_empty() {
        rest = &rest[q.unsent.fill_tail(&mut crate::base::Pool::default(), rest, goal)..];
        if !rest.is_empty() {
            rest = &rest[q.unsent.begin_element(&mut crate::base::Pool::default(), rest, rest.len(), goal)..];
        }
    }
}

#[test]
fn records_are_lean() {
    assert!(size_of::<Sent>() <= 80, "{}", size_of::<Sent>());
    assert!(size_of::<TxQueue>() <= 144, "{}", size_of::<TxQueue>());
}

#[test]
fn small_writes_gather_in_one_element_that_grows() {
    let mut q = TxQueue::new(1);
    for _ in 0..1_000 {
        fill(&mut q, &[1; 10], 4_000);
    }
    assert_eq!((q.unsent_bytes(), q.unsent.head().expect("data").len), (10_000, 4_000));
    assert!(q.queued_charge() < 13_000, "{}", q.queued_charge());
    let mut one = TxQueue::new(1);
    fill(&mut one, &[1], 64_000);
    assert!(one.queued_charge() < 1_200, "{}", one.queued_charge());
}

/// What [`TxQueue::take_changed`] tells.
fn changed(q: &mut TxQueue) -> Vec<(u64, u64)> {
    q.take_changed().expect("it was asked before").iter().collect()
}

#[test]
fn who_asks_hears_of_the_records_that_have_changed_and_of_no_other() {
    let (at, stamp) = (Instant::ZERO, TxStamp::default());
    let mut q = TxQueue::new(1);
    fill(&mut q, &[1; 5_000], 5_000);
    assert_eq!(q.take_changed(), None, "nobody had asked");
    for _ in 0..5 {
        q.send_head(1_000, 1_000, at, stamp);
    }
    assert_eq!(changed(&mut q), [(1, 5_001)], "all were sent");
    assert_eq!(changed(&mut q), [], "each is told once");
    q.split_record(1_001, 500, 1_000);
    assert_eq!(changed(&mut q), [(1_001, 2_001)]);
    q.split_record(3_001, 500, 1_000);
    q.join_following(1_001, (1_000, u64::MAX), &mut |_, _, _| ());
    assert_eq!(changed(&mut q), [(1_001, 2_001), (3_001, 4_001)]);
    q.split_record(1, 500, 1_000);
    q.on_changed(4_001, 5_001);
    q.pop_acked(&mut crate::base::Pool::default(), 501);
    q.advance_una(701);
    q.drop_acked_front();
    assert_eq!(changed(&mut q), [(701, 1_001), (4_001, 5_001)], "what is acknowledged changes no more");
    q.forget_changed();
    q.split_record(4_001, 500, 1_000);
    assert_eq!(q.take_changed(), None);
}

#[test]
fn fin_and_push_stay_with_the_last_part() {
    let mut q = TxQueue::new(1);
    fill(&mut q, &[1; 2_500], 64_000);
    q.unsent.mark_push();
    q.unsent.queue_fin();
    let a = q.send_head(1_000, 1_000, Instant::ZERO, stamp()).expect("data");
    assert!(!q.get(a).expect("sent").has(flag::PUSH | flag::FIN));
    assert_eq!(
        q.unsent.head(),
        Some(HeadInfo { len: 1_500, push: true, fin: true, eor: false, is_last: true })
    );
    let b = q.send_head(9_999, 1_000, Instant::ZERO, stamp()).expect("data");
    let sent = q.get(b).expect("sent");
    assert!(sent.has(flag::PUSH) && sent.has(flag::FIN) && sent.span() == 1_501 && sent.segs == 2);
    assert_eq!(q.split_record(b, 1_000, 1_000), Some(0));
    assert!(!q.get(b).expect("front").has(flag::FIN) && q.get(b + 1_000).expect("rest").has(flag::FIN));
    assert_eq!((q.nxt(), q.write_seq()), (2_502, 2_502));
}

#[test]
fn shared_payload_is_not_copied() {
    let data = Bytes::from(vec![5u8; 200_000]);
    let mut q = TxQueue::new(1);
    q.unsent.append_bytes(&mut crate::base::Pool::default(), data.clone(), 64_000);
    let at = q.send_head(3_000, 1_000, Instant::ZERO, stamp()).expect("data");
    assert_eq!(q.get(at).expect("sent").payload.as_ptr(), data.as_ptr());
    q.unsent.mark_eor();
    q.unsent.append_bytes(&mut crate::base::Pool::default(), Bytes::from_static(b"x"), 64_000);
    assert_eq!(q.unsent.len(), 5);
}

#[test]
fn a_packet_over_the_end_of_an_element_pins_no_more_than_itself() {
    let mut q = TxQueue::new(1);
    fill(&mut q, &[1; 130_000], 65_000);
    q.send_head(63_000, 1_000, Instant::ZERO, stamp()).expect("data");
    let before = q.queued_charge();
    q.grow_head(3_000, true);
    assert_eq!(q.unsent.head().expect("data").len, 3_000);
    assert!(q.queued_charge() <= before + 3_100, "{} after {before}", q.queued_charge());
    // The first buffer goes with its last byte, the packet's with the packet, the second's when all is acknowledged.
    q.send_head(3_000, 1_000, Instant::ZERO, stamp()).expect("data");
    for (ack, least, most) in [(63_001, 68_000, 70_000), (66_001, 65_000, 67_000)] {
        while q.pop_acked(&mut crate::base::Pool::default(), ack).is_some() {}
        q.advance_una(ack);
        let charge = q.queued_charge();
        assert!((least..most).contains(&charge), "{charge} after {ack}");
    }
}

/// Packets of twenty segments over elements of forty-five: each element would give a packet's worth of copies.
#[test]
fn copies_for_full_packets_pin_a_sixteenth_of_a_long_queue() {
    let (element, packet, mut q) = (45 * 1_448, 20 * 1_448, TxQueue::new(1));
    for _ in 0..100 {
        fill(&mut q, &vec![1; element], element);
    }
    let (mut grown, mut cut) = (0, 0);
    while let Some(head) = q.unsent.head() {
        if head.len < packet && !head.is_last && q.affords_copy(packet) {
            q.grow_head(packet, true);
            grown += 1;
        }
        let len = q.unsent.head().map_or(0, |head| head.len.min(packet));
        cut += u32::from(len < packet);
        q.send_head(len, 1_448, Instant::ZERO, stamp()).expect("data");
    }
    let written = 100 * element;
    let records = q.records() * RECORD_CHARGE;
    let pinned = q.queued_charge() - records;
    assert!(grown >= 10 && cut >= 10, "{grown} grew, {cut} ended with their element");
    assert!(pinned <= written + written / 16 + 2 * GSO_MAX_SIZE, "{pinned} for {written}");
    assert!(pinned >= written + written / 16, "the room for copies is used: {pinned} for {written}");
}

/// Sends elements segment by segment, each time out of a packet of sixteen, with acknowledgements so many segments behind; the most that
/// buffers were charged, and how many segments were short.
fn send_in_parts(elements: &[usize], behind: usize) -> (usize, usize) {
    let (segment, mut q, mut most, mut short) = (1_460, TxQueue::new(1), 0, 0);
    for &len in elements {
        fill(&mut q, &vec![1; len], len);
    }
    let ack = |q: &mut TxQueue, to: u64| {
        while q.pop_acked(&mut crate::base::Pool::default(), to).is_some() {}
        q.advance_una(to);
    };
    while !q.unsent.is_empty() {
        q.grow_head(16 * segment, false);
        short += usize::from(q.unsent.head().is_some_and(|head| head.len < segment));
        let at = q.send_head(segment, segment as u16, Instant::ZERO, stamp()).expect("data");
        most = most.max(q.queued_charge() - q.records() * RECORD_CHARGE);
        if let Some(to) = at.checked_sub((behind * segment) as u64)
            && q.get(to).is_some()
        {
            ack(&mut q, to);
        }
    }
    let end = q.unsent.end();
    ack(&mut q, end);
    assert_eq!((q.queued_charge(), q.is_empty()), (0, true), "{elements:?}, {behind} behind");
    (most, short)
}

/// Urgent data leaves segment by segment, and each time the packet could have been sixteen: room beyond the copy saves the next ones.
#[test]
fn a_packet_that_leaves_in_parts_is_not_copied_for_each_of_them() {
    let (pinned, short) = send_in_parts(&[30_000; 2], 100);
    assert!(pinned <= 150_000 && short == 1, "{pinned}, {short} short segments");
}

#[test]
fn what_elements_that_grew_were_charged_is_given_back() {
    for behind in [0, 1, 10, 100] {
        for len in [700, 5_000, 23_360, 30_000, 65_000] {
            send_in_parts(&[len; 3], behind);
            send_in_parts(&[len, 100, 2_000, len], behind);
        }
    }
}

#[test]
fn a_buffer_is_charged_until_its_last_byte_is_acknowledged() {
    let mut q = TxQueue::new(1);
    fill(&mut q, &[1; 8_000], 8_000);
    let full = q.queued_charge();
    for _ in 0..8 {
        q.send_head(1_000, 1_000, Instant::ZERO, stamp());
    }
    while q.pop_acked(&mut crate::base::Pool::default(), 7_001).is_some() {}
    q.advance_una(7_001);
    assert!(q.queued_charge() >= full);
    while q.pop_acked(&mut crate::base::Pool::default(), 8_001).is_some() {}
    q.advance_una(8_001);
    assert_eq!((q.queued_charge(), q.is_empty()), (0, true));
}

#[test]
fn splitting_is_bounded() {
    let mut q = TxQueue::new(1);
    fill(&mut q, &[1; 64_000], 64_000);
    let mut at = q.send_head(64_000, 48, Instant::ZERO, stamp()).expect("data");
    let mut splits = 0;
    while !q.splits_exhausted() && q.split_record(at, 48, 48).is_some() {
        at += 48;
        splits += 1;
    }
    assert!((500..2_000).contains(&splits), "{splits}");
}

#[test]
fn what_is_pushed_out_is_packets_that_nothing_joins() {
    let mut q = TxQueue::new(1);
    fill(&mut q, &[1; 5_000], 5_000);
    q.unsent.mark_push();
    let charge = q.wmem_queued();
    q.unsent.push_out(2_000, 2);
    q.unsent.push_out(1_000, 1);
    assert_eq!(q.unsent.pushed(), Pushed { bytes: 3_000, packets: 2, segs: 3 });
    assert_eq!(q.wmem_queued(), charge + 2 * BUFFER_CHARGE, "each is a buffer");
    let rest = HeadInfo { len: 2_000, push: true, fin: false, eor: false, is_last: true };
    assert_eq!(q.unsent.head_behind(), Some(rest));
    // What has gone of the tail made room in it.
    assert_eq!(
        (
            q.unsent.tail_room(5_000),
            q.unsent.fill_tail(&mut crate::base::Pool::default(), &[2; 4_000], 5_000)
        ),
        (3_000, 3_000)
    );
    q.unsent.push_out(5_000, 5);
    assert!(q.unsent.is_pushed_out() && q.unsent.tail_room(9_000) == 0);
    fill(&mut q, &[3; 100], 5_000);
    q.grow_head(9_000, true);
    assert_eq!(q.unsent.head().map(|head| (head.len, head.push)), Some((2_000, false)));
    // Half of a packet may be all that leaves.
    for (len, left) in [(1_000, (3, 7, 7_000)), (1_000, (2, 6, 6_000)), (9_999, (1, 5, 5_000))] {
        q.send_head(len, 1_000, Instant::ZERO, stamp()).expect("data");
        let pushed = q.unsent.pushed();
        assert_eq!((pushed.packets, pushed.segs, pushed.bytes), left);
    }
    q.unsent.forget_pushed();
    q.grow_head(5_100, true);
    assert_eq!(q.unsent.head().map(|head| (head.len, head.push)), Some((5_100, true)));
    assert_eq!(q.unsent.pushed(), Pushed::default());
}

#[test]
fn buffers_that_were_pushed_out_in_pieces_are_charged_until_they_are_acknowledged() {
    let mut q = TxQueue::new(1);
    fill(&mut q, &[1; 8_000], 8_000);
    q.unsent.push_out(3_000, 3);
    // What follows has a buffer of its own, and the packet over the seam of both is copied. The first stays with what was pushed out.
    let charge = q.queued_charge();
    fill(&mut q, &[2; 2_000], 8_000);
    assert_eq!(q.queued_charge(), charge + 3_000, "room up to the end of the element");
    while q.unsent.head().is_some() {
        q.send_head(9_999, 1_000, Instant::ZERO, stamp()).expect("data");
    }
    let full = q.queued_charge();
    assert!((8_000 + 7_000..16_000).contains(&full), "{full}");
    for (ack, least, most) in [(2_001, full, full), (3_001, 7_000, 8_000), (10_001, 0, 0)] {
        while q.pop_acked(&mut crate::base::Pool::default(), ack).is_some() {}
        q.advance_una(ack);
        assert!((least..=most).contains(&q.queued_charge()), "{} after {ack}", q.queued_charge());
    }
}

#[test]
fn what_is_cut_off_takes_more_and_the_cut_heals() {
    let mut q = TxQueue::new(1);
    fill(&mut q, &[1; 8_000], 8_000);
    q.unsent.mark_push();
    q.unsent.push_out(1_000, 1);
    q.unsent.cut_head(3_000);
    let heads = |q: &TxQueue| q.unsent.head_behind().map(|head| (head.len, head.push, head.is_last));
    assert_eq!((heads(&q), q.unsent.tail_room(8_000)), (Some((3_000, false, false)), 4_000));
    fill(&mut q, &[2; 4_000], 8_000);
    assert_eq!((q.unsent.len(), q.unsent.bytes()), (3, 12_000));
    // The packet may grow again.
    q.grow_head(5_000, true);
    assert_eq!(heads(&q), Some((5_000, false, false)));
    q.unsent.cut_head(9_000);
    assert_eq!(q.unsent.len(), 3, "no cut beyond its end");
    let full = q.queued_charge();
    let mut seen = Vec::new();
    while let Some(head) = q.unsent.head() {
        let at = q.send_head(9_999, 1_000, Instant::ZERO, stamp()).expect("data");
        seen.extend_from_slice(&q.get(at).expect("sent").payload);
        assert_eq!(q.get(at).expect("sent").span() as usize, head.len);
    }
    assert_eq!(seen, [vec![1; 8_000], vec![2; 4_000]].concat());
    // The first buffer goes with what was pushed out, since both others have left it: the packet's own has 5,000 bytes and goes with the
    // packet, the one over the seam is a copy of 6,000.
    for (ack, least, most) in [(1_001, 11_000, 12_000), (6_001, 6_000, 7_000), (12_001, 0, 0)] {
        while q.pop_acked(&mut crate::base::Pool::default(), ack).is_some() {}
        q.advance_una(ack);
        assert!((least..=most).contains(&q.queued_charge()), "{} after {ack}, {full}", q.queued_charge());
    }
}

/// Everything up to the packet that ends before `ack` is acknowledged.
fn ack_before(q: &mut TxQueue, ack: u64) {
    let whole = q.sent.range(..ack).map(|(at, sent)| at + sent.span()).take_while(|end| *end <= ack).last();
    let Some(ack) = whole else { return };
    while q.pop_acked(&mut crate::base::Pool::default(), ack).is_some() {}
    q.advance_una(ack);
}

/// What buffers are charged.
fn pinned(q: &TxQueue) -> usize {
    q.queued_charge() - q.records() * RECORD_CHARGE
}

/// A writer that is woken at half of what may wait finds the beginning of its last element in flight each time. Moving the rest of it to
/// a buffer with room for more would hold each byte nearly twice.
#[test]
fn a_writer_that_is_woken_at_half_has_each_byte_held_once() {
    for (limit, packet, in_flight) in
        [(65_536, 2_896, 200_000), (65_536, 14_480, 60_000), (16_384, 2_896, 100_000)]
    {
        let (goal, mut q, mut over) = (65_160, TxQueue::new(1), 0);
        for _ in 0..200 {
            let room = limit - q.unsent_bytes() as usize;
            fill(&mut q, &vec![1; room], goal);
            over = over.max(pinned(&q).saturating_sub((q.write_seq() - q.una) as usize));
            while q.unsent_bytes() as usize * 2 >= limit {
                q.send_head(packet, 1_448, Instant::ZERO, stamp()).expect("data");
                over = over.max(pinned(&q).saturating_sub((q.write_seq() - q.una) as usize));
                let ack = q.nxt().saturating_sub(in_flight);
                ack_before(&mut q, ack);
            }
        }
        // The buffer of which a part is acknowledged (the first is as long as an element), and a copied packet for each buffer in flight.
        let buffer = limit.min(goal) + packet;
        let most = buffer + (in_flight as usize / (limit / 2) + 2) * (packet + ELEMENT_MOST);
        assert!(over <= most, "{over} above what is written with {limit}, {packet}, {in_flight}; {most}");
        let end = q.nxt() + q.unsent_bytes();
        while q.unsent.head().is_some() {
            q.send_head(packet, 1_448, Instant::ZERO, stamp()).expect("data");
        }
        ack_before(&mut q, end);
        assert_eq!((q.queued_charge(), q.is_empty()), (0, true));
    }
}

/// A window that shuts behind such a packet may stay shut for as long as the peer likes.
#[test]
fn a_packet_over_a_seam_leaves_the_first_buffer_to_what_was_sent_before() {
    let mut q = TxQueue::new(1);
    fill(&mut q, &[1; 60_000], 65_000);
    q.send_head(40_000, 1_000, Instant::ZERO, stamp()).expect("data");
    fill(&mut q, &[2; 30_000], 65_000);
    let last = q.send_head(18_000, 1_000, Instant::ZERO, stamp()).expect("data");
    let over = q.send_head(9_000, 1_000, Instant::ZERO, stamp()).expect("data");
    assert_eq!(q.get(over).expect("sent").payload[..], [[1; 2_000].as_slice(), &[2; 7_000]].concat());
    ack_before(&mut q, last);
    assert!(q.get(last).expect("sent").payload.is_unique(), "nothing else holds the buffer");
    ack_before(&mut q, over);
    assert!(pinned(&q) < 30_000 + 9_000 + ELEMENT_MOST, "{}", pinned(&q));
}

/// One call on the queue.
#[derive(Clone, Copy, Debug)]
enum Call {
    Write(usize, usize),
    HandOver(usize, usize),
    EndRecord,
    PushOut(usize),
    Cut(usize),
    Grow(usize, bool),
    Send(usize),
    Gather(usize),
    TakeBack,
    Ack(u64),
}

fn any_call() -> impl Strategy<Value = Call> {
    let len = || prop_oneof![1..40_usize, 400..3_000_usize, 3_000..70_000_usize];
    prop_oneof![
        4 => (len(), prop_oneof![Just(1_000), Just(8_000), Just(65_160)]).prop_map(|(len, goal)| Call::Write(len, goal)),
        1 => (len(), Just(65_160)).prop_map(|(len, goal)| Call::HandOver(len, goal)),
        1 => Just(Call::EndRecord),
        1 => len().prop_map(Call::PushOut),
        1 => len().prop_map(Call::Cut),
        2 => (len(), any::<bool>()).prop_map(|(len, whole)| Call::Grow(len, whole)),
        6 => len().prop_map(Call::Send),
        1 => (1..3_000_usize).prop_map(Call::Gather),
        1 => Just(Call::TakeBack),
        3 => (1..100_000_u64).prop_map(Call::Ack),
    ]
}

/// A queue, and the stream that was written to it and that left it.
struct Watched {
    q: TxQueue,
    written: Vec<u8>,
    left: Vec<u8>,
}

impl Watched {
    fn call(&mut self, call: Call) {
        let (q, at) = (&mut self.q, Instant::ZERO);
        match call {
            Call::Write(len, goal) => {
                let from = self.written.len();
                let data: Vec<u8> = (from..from + len).map(|i| (i % 251) as u8).collect();
                fill(q, &data, goal);
                self.written.extend(data);
            }
            Call::HandOver(len, goal) => {
                let from = self.written.len();
                let data: Vec<u8> = (from..from + len).map(|i| (i % 251) as u8).collect();
                q.unsent.append_bytes(&mut crate::base::Pool::default(), Bytes::from(data.clone()), goal);
                self.written.extend(data);
            }
            Call::EndRecord => q.unsent.mark_eor(),
            Call::PushOut(len) => {
                if let Some(head) = q.unsent.head_behind() {
                    q.unsent.push_out(len.min(head.len), 1);
                }
            }
            Call::Cut(len) => q.unsent.cut_head(len),
            Call::Grow(len, whole) => {
                let before = q.unsent.len();
                let freed = q.grow_head(len, whole);
                assert_eq!(q.unsent.len(), before - usize::from(freed), "the next one is gone, or it is not");
            }
            Call::Send(len) => {
                let start = q.send_head(len, 1_448, at, stamp());
                self.leave(start);
            }
            Call::Gather(len) => {
                let start = q.send_gathered(len, at, stamp());
                self.leave(start);
            }
            Call::TakeBack => {
                if let Some((&start, sent)) = q.sent.last_key_value() {
                    self.left.truncate(self.left.len() - sent.payload.len());
                    q.take_back(start);
                }
            }
            Call::Ack(len) => {
                let ack = q.una + len;
                ack_before(q, ack);
            }
        }
    }

    fn leave(&mut self, start: Option<u64>) {
        let sent = start.and_then(|start| self.q.get(start));
        self.left.extend_from_slice(sent.map_or(&[], |sent| &sent.payload[..]));
    }
}

proptest! {
    /// Whatever packets are cut from it, the stream leaves as it was written, and every buffer is given back.
    #[test]
    fn what_was_written_leaves_in_order(calls in vec(any_call(), 1..60)) {
        let mut w = Watched { q: TxQueue::new(1), written: Vec::new(), left: Vec::new() };
        for call in calls {
            w.call(call);
            prop_assert!(w.written.starts_with(&w.left), "after {call:?}");
            prop_assert_eq!(w.left.len() + w.q.unsent_bytes() as usize, w.written.len());
        }
        w.q.unsent.queue_fin();
        while !w.q.unsent.is_empty() {
            w.call(Call::Send(3_000));
        }
        prop_assert!(w.left == w.written);
        w.call(Call::Ack(u64::MAX / 2));
        prop_assert_eq!((w.q.queued_charge(), w.q.is_empty()), (0, true));
    }
}
