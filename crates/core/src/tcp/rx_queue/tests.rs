//! The queue against a naive array of bytes.
use super::*;
use crate::base::Rng;
use crate::tcp::window::Ratio;

const BASE: u64 = 1 << 32;

fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn payload(start: u64, end: u64) -> Bytes {
    (start..end).map(byte).collect::<Vec<u8>>().into()
}

fn pieces(rng: &mut Rng, start: u64, end: u64) -> Pieces {
    let mut out = Pieces::new();
    let mut at = start;
    while at < end {
        let stop = (at + 1 + rng.below(end - at)).min(end);
        let pinned = if rng.chance_ppm(300_000) { rng.below(4_000) as usize } else { 0 };
        out.push(Chunk::admit(payload(at, stop), pinned, 40, &mut 0));
        at = stop;
    }
    out
}

fn one(start: u64, end: u64) -> Pieces {
    let mut out = Pieces::new();
    if end > start {
        out.push(Chunk::admit(payload(start, end), 0, 40, &mut 0));
    }
    out
}

/// What is held, one flag per byte of the stream; the FIN is the last one.
struct Model {
    have: Vec<bool>,
    read: u64,
}

impl Model {
    fn next(&self) -> u64 {
        BASE + self.have.iter().take_while(|h| **h).count() as u64
    }

    fn ranges(&self) -> Vec<Range<u64>> {
        let mut out: Vec<Range<u64>> = Vec::new();
        for at in self.next()..BASE + self.have.len() as u64 {
            if self.have[(at - BASE) as usize] {
                match out.last_mut() {
                    Some(r) if r.end == at => r.end += 1,
                    _ => out.push(at..at + 1),
                }
            }
        }
        out
    }
}

fn assert_same(q: &RxQueue, m: &Model, fin_at: u64) {
    assert_eq!(q.next_offset(), m.next());
    assert_eq!(q.ranges().collect::<Vec<_>>(), m.ranges());
    assert_eq!(u64::from(q.readable_bytes()), m.next().min(fin_at) - m.read);
    let held = || q.held.iter().flat_map(|held| &held.chunks);
    let charge: u32 = q.ready.iter().chain(held().map(|(_, chunk)| chunk)).map(Chunk::charge).sum();
    assert_eq!(q.charge(), charge);
    let truesize: u32 = q.ready.iter().chain(held().map(|(_, chunk)| chunk)).map(Chunk::truesize).sum();
    // Beside the buffer of a FIN that came with nothing new.
    assert!(q.truesize() == truesize || (q.fin_reached() && q.truesize() > truesize));
    let page = pages::PAGE as u32;
    assert!((q.truesize() + q.set_aside(0)).is_multiple_of(page) && q.set_aside(0) < page, "whole pages");
    assert_eq!(q.held_bytes(), held().map(|(_, c)| c.len() as u32).sum::<u32>());
    assert_eq!(q.has_hole(), !m.ranges().is_empty());
    let mut end = q.next_offset();
    // The number of a FIN is a part of the last one.
    let with_fin = q.held.as_ref().is_some_and(|held| held.with_fin);
    assert!(!with_fin || q.furthest() == Some(fin_at + 1), "a FIN that nobody holds");
    let mut for_fin = 0;
    for (&at, chunk) in held() {
        let next = at + chunk.len() as u64;
        for_fin += usize::from(next == end);
        let within = next < end || (next == end && !(with_fin && next == fin_at));
        assert!(at >= q.next_offset() && !within, "one held chunk lies within another");
        assert!(at <= end || q.ranges().any(|range| range.start == at), "a hole within a range");
        end = next;
        assert_eq!(chunk.as_slice(), &payload(at, end)[..]);
    }
    assert!(for_fin <= 1, "more than one chunk is there for its FIN alone");
    let filled = |range: Range<u64>| range.start == fin_at || range.end <= end + 1;
    assert!(q.ranges().last().is_none_or(filled), "a range that nothing fills");
    assert_eq!(q.fin_reached(), m.next() > fin_at);
}

fn has_no_heap(q: &RxQueue) -> bool {
    q.held.is_none() && q.ready.has_no_heap()
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let len = 1 + rng.below(3_000);
    let fin_at = BASE + len;
    let mut m = Model { have: vec![false; len as usize + 1], read: BASE };
    let mut q = RxQueue::new(BASE);
    let mut rounds = 0;
    while !q.at_eof() {
        rounds += 1;
        assert!(rounds < 100_000, "seed {seed}: no progress");
        match rng.below(20) {
            0 => {
                let limit = rng.below(4_000) as u32;
                if let Some(cut) = q.prune_held(limit, 0) {
                    m.have[(cut - BASE) as usize..].fill(false);
                }
            }
            1 => {
                let before = q.charge();
                q.collapse(rng.below(2_000) as u32);
                assert!(q.charge() <= before, "collapsing must not cost memory");
            }
            19 => {
                let before = (q.charge(), q.truesize());
                q.squeeze(Ratio::measured(1_460, 2_304), rng.below(2_000) as u32);
                assert!(q.charge() <= before.0 && q.truesize() <= before.1, "squeezing must not cost");
            }
            2..5 => {
                let mut buf = vec![0; rng.below(500) as usize];
                let peek = rng.chance_ppm(300_000);
                let n = if peek { q.peek(0, &mut buf) } else { q.recv(&mut buf) };
                assert_eq!(buf[..n], payload(m.read, m.read + n as u64)[..]);
                m.read += if peek { 0 } else { n as u64 };
            }
            5 => {
                if let Some(piece) = q.read_chunk(1 + rng.below(300) as usize) {
                    assert_eq!(piece, payload(m.read, m.read + piece.len() as u64));
                    m.read += piece.len() as u64;
                }
            }
            _ => segment(&mut rng, &mut q, &mut m, fin_at),
        }
        assert_same(&q, &m, fin_at);
    }
    assert_eq!(q.recv(&mut [0]), 0, "the end");
    assert_eq!((q.charge(), q.truesize(), q.set_aside(0)), (0, 0, 0));
    assert!(has_no_heap(&q));
}

fn segment(rng: &mut Rng, q: &mut RxQueue, m: &mut Model, fin_at: u64) {
    // Mostly near the left edge, at times anywhere.
    let near = q.next_offset().saturating_sub(20).max(BASE);
    let start = if rng.chance_ppm(300_000) { BASE + rng.below(fin_at - BASE) } else { near + rng.below(200) };
    let start = start.min(fin_at);
    let end = (start + rng.below(120)).min(fin_at);
    let fin = end == fin_at && rng.chance_ppm(500_000);
    let new = start..end + u64::from(fin);
    let before = m.have.clone();
    let next = m.next();
    let done = q.enqueue(start, pieces(rng, start, end), fin);
    for at in new.clone() {
        m.have[(at - BASE) as usize] = true;
    }
    assert_eq!(done.advanced, m.next() - next);
    assert_eq!(done.fin, m.next() > fin_at && next <= fin_at);
    // A FIN in order forgets what is held before that could be told as come twice.
    let ends = fin && start <= next;
    let known = |at: &u64| before[(at - BASE) as usize] && (!ends || *at < next);
    let known: Vec<u64> = new.clone().filter(known).collect();
    // What follows held bytes may share their buffer, and is then not compared with what lies further on.
    let follows = start > next && before[(start - BASE) as usize - 1];
    match done.duplicate {
        None => assert!(known.is_empty() || follows),
        Some(d) => {
            assert!(d.clone().all(|at| known.contains(&at)), "D-SACK for bytes that are new");
            assert_eq!(d.start, known[0], "the first duplicate is the one to report");
        }
    }
    if let Some(held) = done.out_of_order {
        assert!(m.ranges().contains(&held) && held.start <= new.start && new.end <= held.end);
    } else {
        assert!(new.start <= next || new.is_empty());
    }
}

#[test]
fn a_fin_without_anything_new_is_charged_until_the_end_is_read() {
    // Alone, behind data that was there before (its own buffer), and where one ends (in that).
    for (read, start, alone) in [(true, 3, true), (true, 2, true), (false, 2, true), (false, 3, false)] {
        let mut q = RxQueue::new(BASE);
        q.enqueue(BASE, one(BASE, BASE + 3), false);
        let data = if read { q.recv(&mut [0; 3]) } else { 0 };
        let before = q.truesize();
        let mut chunks = one(BASE + start, BASE + 3);
        if chunks.is_empty() {
            chunks.push(Chunk::bare(40));
        }
        let own = chunks.iter().map(Chunk::truesize).sum::<u32>();
        assert!(q.enqueue(BASE + start, chunks, true).fin);
        assert_eq!(q.truesize(), before + if alone { own } else { 0 }, "from {start}, {data} bytes read");
        assert_eq!((q.peek(0, &mut [0; 9]), q.recv(&mut [0; 3])), (3 - data, 3 - data));
        assert_eq!(q.recv(&mut [0; 3]), 0);
        assert_eq!((q.charge(), q.truesize()), (0, 0));
    }
}

#[test]
fn behaves_like_an_array_of_bytes() {
    for seed in 0..400 {
        run(seed);
    }
}

#[test]
fn an_empty_queue_has_no_heap() {
    let q = RxQueue::new(0);
    assert!(has_no_heap(&q) && q.charge() == 0);
    assert!(size_of::<RxQueue>() <= 128, "{}", size_of::<RxQueue>());
}

#[test]
fn a_small_slice_of_a_large_buffer_is_copied() {
    let frame = payload(0, 65_000);
    let slice = frame.slice(100..200);
    let chunk = Chunk::admit(slice.clone(), 65_000, 40, &mut 0);
    assert_eq!(chunk.charge(), 100 + CHUNK_OVERHEAD);
    assert_ne!(chunk.as_slice().as_ptr(), slice.as_ptr());
    let most = frame.slice(100..60_000);
    let chunk = Chunk::admit(most.clone(), 65_000, 40, &mut 0);
    assert_eq!(chunk.charge(), 65_000 + CHUNK_OVERHEAD);
    assert_eq!(chunk.as_slice().as_ptr(), most.as_ptr());
}

#[test]
fn data_in_order_is_never_copied() {
    let data = payload(BASE, BASE + 1_448);
    let mut q = RxQueue::new(BASE);
    let mut in_order = Pieces::new();
    in_order.push(Chunk::admit(data.clone(), 1_514, 40, &mut 0));
    assert_eq!(q.enqueue(BASE, in_order, false).advanced, 1_448);
    assert_eq!(q.read_chunk(usize::MAX).expect("data").as_ptr(), data.as_ptr());
}

#[test]
fn collapse_merges_small_chunks_and_then_waits_for_new_overhead() {
    let mut q = RxQueue::new(BASE);
    for i in 0..1_000 {
        q.enqueue(BASE + i * 10, one(BASE + i * 10, BASE + i * 10 + 10), false);
        q.enqueue(BASE + 20_000 + i * 10, one(BASE + 20_000 + i * 10, BASE + 20_010 + i * 10), false);
    }
    assert_eq!(q.charge(), 2_000 * (10 + CHUNK_OVERHEAD));
    assert_eq!(q.collapse(100_000), Collapsed { chunks: 1_998, bytes: 20_000 });
    assert_eq!(q.charge(), 2 * (10_000 + CHUNK_OVERHEAD));
    assert_eq!(q.collapse(100_000), Collapsed::default());
    assert_eq!(q.ready.iter().count() + q.held.map_or(0, |held| held.chunks.len()), 2);
}

#[test]
fn prune_drops_the_furthest_and_an_eighth_at_least() {
    let mut q = RxQueue::new(BASE);
    for i in 1..=100 {
        q.enqueue(BASE + i * 200, one(BASE + i * 200, BASE + i * 200 + 100), false);
    }
    let each = 100 + CHUNK_OVERHEAD;
    assert_eq!(q.charge(), 100 * each);
    // Linux charges 832 bytes for each. An eighth of 99 chunks is 12.4, so 13 go.
    assert_eq!(q.prune_held(99 * 832 / 8, 0), Some(BASE + 88 * 200));
    assert_eq!(q.charge(), 87 * each);
    assert_eq!(q.furthest(), Some(BASE + 87 * 200 + 100));
    // Nothing goes for something even further away.
    assert_eq!(q.prune_held(1, BASE + 87 * 200 + 1), None);
    assert_eq!(q.prune_held(10_000, BASE + 86 * 200), Some(BASE + 86 * 200));
}

#[test]
fn a_pruned_fin_is_forgotten_and_may_come_again() {
    let mut q = RxQueue::new(BASE);
    q.enqueue(BASE + 100, one(BASE + 100, BASE + 200), true);
    assert_eq!(q.ranges().collect::<Vec<_>>(), vec![Range { start: BASE + 100, end: BASE + 201 }]);
    assert_eq!(q.prune_held(0, 0), Some(BASE + 100));
    assert_eq!(q.enqueue(BASE, one(BASE, BASE + 200), false).advanced, 200);
    assert!(!q.fin_reached());
    assert_eq!(q.enqueue(BASE + 200, Pieces::new(), true).advanced, 1);
    assert!(q.fin_reached() && !q.at_eof());
}

#[test]
fn a_fin_ends_the_stream_in_order_and_beyond_a_hole_only_behind_all_that_is_known() {
    let mut q = RxQueue::new(BASE);
    q.enqueue(BASE + 100, one(BASE + 100, BASE + 200), false);
    q.enqueue(BASE + 100, one(BASE + 100, BASE + 150), true);
    assert_eq!(q.enqueue(BASE, one(BASE, BASE + 50), false).advanced, 50);
    assert!(q.has_hole() && !q.fin_reached());
    // Covers a part of what is held and ends before the rest.
    let done = q.enqueue(BASE + 50, one(BASE + 50, BASE + 120), true);
    assert_eq!((done.advanced, done.fin, done.duplicate), (71, true, None));
    assert!(!q.has_hole());
    let late = q.enqueue(BASE + 121, one(BASE + 121, BASE + 300), false);
    assert_eq!((late.advanced, late.out_of_order), (0, None));
    assert_eq!(q.readable_bytes(), 120);
}

#[test]
fn data_behind_a_held_fin_is_not_believed() {
    let mut q = RxQueue::new(BASE);
    q.enqueue(BASE + 100, one(BASE + 100, BASE + 200), true);
    assert_eq!(q.enqueue(BASE + 201, one(BASE + 201, BASE + 300), false).out_of_order, None);
    let done = q.enqueue(BASE, one(BASE, BASE + 100), false);
    assert_eq!((done.advanced, done.fin), (201, true));
}

#[test]
fn small_segments_share_the_buffer_before_them() {
    let mut q = RxQueue::new(BASE);
    q.enqueue(BASE, one(BASE, BASE + 1_460), false);
    assert_eq!(q.truesize(), 2_304);
    // 164 bytes are left behind it.
    q.enqueue(BASE + 1_460, one(BASE + 1_460, BASE + 1_560), false);
    assert_eq!(q.truesize(), 2_304);
    q.enqueue(BASE + 1_560, one(BASE + 1_560, BASE + 1_660), false);
    assert_eq!((q.truesize(), q.set_aside(0)), (2_304 + 832, 960));
    // Freed when the last of those who share it is read.
    let mut buf = [0; 1_460];
    q.recv(&mut buf);
    assert_eq!(q.truesize(), 2_304 + 832);
    q.recv(&mut buf[..100]);
    assert_eq!(q.truesize(), 832);
    q.recv(&mut buf);
    assert_eq!(q.truesize(), 0);
}

#[test]
fn a_long_queue_is_not_walked_for_each_segment() {
    let mut q = RxQueue::new(BASE);
    let full = Ratio::measured(1_460, 2_304);
    let mut at = BASE;
    let mut add = |q: &mut RxQueue, n: u64| {
        for _ in 0..n {
            q.enqueue(at, one(at, at + 100), false);
            at += 100;
        }
    };
    add(&mut q, 8_000);
    assert!(q.squeeze(full, 100_000) > 3_000);
    // It was walked; a sixteenth of it must come before that is done again, whatever the peer sends.
    let before = q.truesize();
    add(&mut q, 100);
    let grown = q.truesize();
    assert!(grown > before && q.squeeze(full, 100_000) == 0 && q.truesize() == grown);
    add(&mut q, 500);
    assert!(q.squeeze(full, 100_000) > 200 && q.truesize() < before + 600 * 130);
}

#[test]
fn squeezing_charges_for_whole_buffers() {
    let mut q = RxQueue::new(BASE);
    let full = Ratio::measured(1_460, 2_304);
    for i in 0..100 {
        q.enqueue(BASE + i * 1_460, one(BASE + i * 1_460, BASE + (i + 1) * 1_460), false);
    }
    assert_eq!((q.truesize(), q.squeeze(full, 100_000), q.truesize()), (230_400, 0, 230_400));
    // 100 bytes cost 832: less than the ratio promises, so all from there on is copied to buffers of 3,776 bytes.
    for i in 0..200 {
        let at = BASE + 146_000 + i * 100;
        q.enqueue(at, one(at, at + 100), false);
    }
    let before = q.truesize();
    assert!(q.squeeze(full, 100_000) > 90);
    assert!(before > 230_400 + 100_000 && q.truesize() < 230_400 + 25_000, "{before} {}", q.truesize());
    // The same beyond a hole, each run for itself.
    for i in 0..100 {
        let at = BASE + 200_000 + i * 100;
        q.enqueue(at, one(at, at + 100), false);
        q.enqueue(at + 50_000, one(at + 50_000, at + 50_100), false);
    }
    let before = q.truesize();
    assert!(q.squeeze(full, 100_000) > 90 && q.truesize() < before - 100_000);
}

/// Copies end within segments: a second squeeze that copies the last of them again pays as much for it.
#[test]
fn a_second_squeeze_charges_for_as_many_copies() {
    let mut q = RxQueue::new(BASE);
    let ratio = Ratio::measured(1_460, 2_304);
    q.enqueue(BASE, one(BASE, BASE + 100), false);
    for i in 0..7 {
        let at = BASE + 100 + i * 1_400;
        q.enqueue(at, one(at, at + 1_400), false);
    }
    // Two full buffers, and one of a page for the 2,348 bytes left.
    assert_eq!((q.squeeze(ratio, 100_000), q.truesize()), (8, 3 * 4_352));
    assert_eq!((q.squeeze(ratio, 100_000), q.truesize()), (1, 3 * 4_352), "copied again, for the same");
    // What follows has a buffer of its own beside them, or the room behind the last copy.
    let at = BASE + 9_900;
    q.enqueue(at, one(at, at + 1_400), false);
    assert_eq!((q.truesize(), q.squeeze(ratio, 100_000), q.truesize()), (13_056, 0, 13_056));
}

/// One segment has the end of a full copy and all of the short one behind it: a second squeeze begins with the short one.
#[test]
fn a_second_squeeze_begins_within_a_segment() {
    let mut q = RxQueue::new(BASE);
    let ratio = Ratio::measured(1_400, 2_304);
    let mut at = BASE;
    let mut more = |q: &mut RxQueue, len| {
        q.enqueue(at, one(at, at + len), false);
        at += len;
    };
    for len in [40, 1_400, 1_400, 1_000] {
        more(&mut q, len);
    }
    assert_eq!((q.squeeze(ratio, 100_000), q.truesize()), (4, 4_352 + 832), "3,776 and 64 bytes");
    more(&mut q, 1_400);
    more(&mut q, 1_000);
    assert_eq!(q.truesize(), 4_352 + 832 + 2 * 2_304);
    assert_eq!(
        (q.squeeze(ratio, 100_000), q.truesize()),
        (3, 2 * 4_352),
        "64, 1,400 and 1,000 bytes are one"
    );
}

/// The same where nothing has come behind the short copy: it is copied alone, and is charged as before.
#[test]
fn a_short_copy_that_is_the_last_keeps_its_charge() {
    let mut q = RxQueue::new(BASE);
    let ratio = Ratio::measured(1_400, 2_304);
    let mut at = BASE;
    for len in [40, 1_400, 1_400, 1_000] {
        q.enqueue(at, one(at, at + len), false);
        at += len;
    }
    for gone in [4, 1, 1] {
        assert_eq!((q.squeeze(ratio, 100_000), q.truesize()), (gone, 4_352 + 832), "3,776 and 64 bytes");
    }
}

/// Who repeats one byte of a buffer of many pieces has that one looked at.
#[test]
fn a_repeated_piece_does_not_have_those_behind_it_looked_at() {
    let mut q = RxQueue::new(BASE);
    for at in BASE + 1..BASE + 101 {
        q.enqueue(at, one(at, at + 1), false);
    }
    let held = q.held.as_ref().expect("a hole");
    assert!(held.chunks.values().rev().skip(1).all(|piece| piece.truesize() == 0), "one buffer");
    assert_eq!(held.buffer_end(BASE + 7, u64::MAX), BASE + 101);
    // As far as the question goes, and no further.
    assert_eq!(held.buffer_end(BASE + 7, BASE + 9), BASE + 9);
    assert_eq!(held.shared_end(BASE + 8, BASE + 9), BASE + 9);
    let charge = (q.charge(), q.truesize());
    assert!(!q.enqueue(BASE + 7, one(BASE + 7, BASE + 8), false).held);
    assert_eq!((q.charge(), q.truesize()), charge);
}
