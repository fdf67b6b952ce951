//! Reassembly in any order, order within streams, partial delivery.
use super::*;
use proptest::prelude::*;

const B: DataFlags = DataFlags::BEGIN;
const E: DataFlags = DataFlags::END;
const M: DataFlags = DataFlags::EMPTY;

fn chunk(tsn: u32, flags: DataFlags, sid: u16, ssn: u16) -> (Tsn, DataRepr) {
    (Tsn::initial(tsn), DataRepr { flags, tsn, sid, ssn, ppid: 0 })
}

fn put(streams: &mut RecvStreams, (tsn, header): (Tsn, DataRepr), byte: u8) -> Result<bool, Inconsistent> {
    let data = Bytes::copy_from_slice(&[byte; 10]);
    streams.insert(tsn, &header, &data, &data)
}

fn read(streams: &mut RecvStreams) -> Vec<(u16, usize, bool)> {
    core::iter::from_fn(|| streams.recv(1 << 20))
        .map(|r| match r {
            Received::Data { data, info, eor } => (info.ssn, data.len(), eor),
            Received::Notification(_) => panic!("none was made"),
        })
        .collect()
}

#[test]
fn a_late_message_of_one_stream_holds_up_that_stream_alone() {
    let mut s = RecvStreams::default();
    put(&mut s, chunk(2, DataFlags::WHOLE, 1, 1), 0).unwrap();
    put(&mut s, chunk(3, DataFlags::WHOLE, 2, 0), 0).unwrap();
    assert_eq!(read(&mut s), [(0, 10, true)]);
    put(&mut s, chunk(4, DataFlags::WHOLE | DataFlags::UNORDERED, 1, 9), 0).unwrap();
    assert_eq!(read(&mut s), [(0, 10, true)]);
    put(&mut s, chunk(1, DataFlags::WHOLE, 1, 0), 0).unwrap();
    assert_eq!(read(&mut s), [(0, 10, true), (1, 10, true)]);
    assert_eq!((s.bytes(), s.charge()), (0, 0));
}

/// A sender that gives a message up may go on with another where the rest of it would have been. The second one of these shows that
/// the first, or itself, or both can never be whole.
#[test]
fn what_cannot_be_whole_any_more_is_dropped() {
    let w = DataFlags::WHOLE;
    let both = [((1, E), (2, M)), ((2, B), (1, M))];
    let first = [
        ((1, B), (2, B)),
        ((2, M), (1, E)),
        ((1, B), (2, w)),
        ((2, M), (1, w)),
        ((2, E), (1, w)),
        ((1, M), (2, w)),
    ];
    for (n, (first, second)) in first.into_iter().chain(both).enumerate() {
        let mut s = RecvStreams::default();
        s.begin_packet(10, 10);
        put(&mut s, chunk(first.0, first.1, 0, 1), 0).unwrap();
        assert_eq!(put(&mut s, chunk(second.0, second.1, 0, 2), 0), Ok(false), "{first:?} {second:?}");
        assert_eq!((s.load.pieces, s.bytes(), s.end_packet().1), (1, 10, 1), "{first:?} {second:?}");
        let left = if n < 6 { second.0 } else { first.0 };
        assert!(
            s.runs.at(Tsn::initial(left).0).is_some() || s.waiting.contains_key(&(0, 2)),
            "{first:?} {second:?}"
        );
    }
    // One between two that are torn by what is on its other side.
    let mut s = RecvStreams::default();
    s.begin_packet(10, 10);
    for (tsn, flags) in [(1, B), (3, M), (5, B), (6, E)] {
        put(&mut s, chunk(tsn, flags, 0, u16::from(tsn > 4)), 0).unwrap();
    }
    assert_eq!(put(&mut s, chunk(2, M, 0, 0), 0), Ok(false));
    assert_eq!(put(&mut s, chunk(4, w, 0, 2), 0), Ok(false));
    assert_eq!((s.load.pieces, s.runs.is_empty(), s.end_packet().1), (3, true, 3));
    // Neighbours that do go on are another matter, and so are those of two messages.
    for (first, second) in [((1, E), (2, w)), ((2, B), (1, w)), ((1, B), (3, w)), ((1, E), (2, B))] {
        let mut s = RecvStreams::default();
        put(&mut s, chunk(first.0, first.1, 0, 0), 0).unwrap();
        assert_eq!(put(&mut s, chunk(second.0, second.1, 0, 1), 0), Ok(false), "{first:?} {second:?}");
        assert_eq!((s.load.pieces, s.end_packet().1), (2, 0), "{first:?} {second:?}");
    }
}

#[test]
fn a_fragment_that_goes_on_with_another_message_is_refused() {
    for (tsn, flags) in [(2, M), (2, E), (0, B), (0, M)] {
        let mut s = RecvStreams::default();
        put(&mut s, chunk(1, if tsn == 2 { B } else { E }, 0, 0), 0).unwrap();
        assert_eq!(put(&mut s, chunk(tsn, flags, 1, 0), 0), Err(Inconsistent), "{tsn} {flags:?}");
    }
}

/// What goes on with a message that is read in parts is no other one's; the reader would take it for that. Where another one begins the
/// reader waits until FORWARD TSN says that it was given up, and it may do so when all has come.
#[test]
fn what_does_not_go_on_with_the_message_that_is_read_in_parts_is_never_read_as_a_part_of_it() {
    let w = DataFlags::WHOLE;
    for (flags, sid, ssn) in [(M, 1, 0), (E, 0, 1), (M | DataFlags::UNORDERED, 0, 0), (B, 0, 1), (w, 0, 1)] {
        for behind in [false, true] {
            let mut s = RecvStreams::default();
            put(&mut s, chunk(1, B, 0, 0), 0).unwrap();
            assert!(s.begin_partial(Tsn::initial(1), 0));
            if behind && !flags.contains(E) {
                let end = if flags.unordered() { E | DataFlags::UNORDERED } else { E };
                put(&mut s, chunk(3, end, sid, ssn), 0).unwrap();
            }
            let taken = put(&mut s, chunk(2, flags, sid, ssn), 0);
            assert_eq!(taken.is_ok(), flags.begin(), "{flags:?} {sid} {ssn}");
            if taken.is_err() {
                continue;
            }
            assert_eq!(read(&mut s), [(0, 10, false)]);
            if taken == Ok(false) && flags == B {
                put(&mut s, chunk(3, E, sid, ssn), 0).unwrap();
            }
            assert!(!s.is_readable());
            s.skip(Tsn::initial(1), &[ForwardStream::new(0, 0)], false);
            assert_eq!(read(&mut s).iter().map(|r| (r.0, r.2)).collect::<Vec<_>>(), [(1, true)]);
            assert_eq!(s.charge(), 0);
        }
    }
}

#[test]
fn a_message_larger_than_the_buffer_is_read_in_parts_and_others_wait() {
    let mut s = RecvStreams::default();
    put(&mut s, chunk(1, B, 0, 0), 0).unwrap();
    put(&mut s, chunk(2, M, 0, 0), 0).unwrap();
    assert!(!s.is_readable());
    assert!(s.begin_partial(Tsn::initial(2), 0));
    assert_eq!(read(&mut s), [(0, 20, false)]);
    put(&mut s, chunk(5, DataFlags::WHOLE, 1, 0), 0).unwrap();
    assert!(!s.is_readable());
    put(&mut s, chunk(4, E, 0, 0), 0).unwrap();
    put(&mut s, chunk(3, M, 0, 0), 0).unwrap();
    assert_eq!(read(&mut s), [(0, 20, true), (0, 10, true)]);
    put(&mut s, chunk(6, DataFlags::WHOLE, 0, 1), 0).unwrap();
    assert_eq!(read(&mut s), [(1, 10, true)]);
    assert_eq!(s.charge(), 0);
}

proptest! {
    /// Whatever the order in which the fragments of some messages come, each message is read once, whole and in order.
    #[test]
    fn any_order_gives_the_same_messages(lens in prop::collection::vec(1usize..6, 1..8), keys in prop::collection::vec(any::<u32>(), 48)) {
        let mut chunks = Vec::new();
        for (ssn, &len) in lens.iter().enumerate() {
            for n in 0..len {
                let mut flags = M;
                if n == 0 { flags = flags | B; }
                if n == len - 1 { flags = flags | E; }
                chunks.push((keys[chunks.len()], chunks.len(), chunk(100 + chunks.len() as u32, flags, 3, ssn as u16)));
            }
        }
        chunks.sort_unstable_by_key(|c| (c.0, c.1));
        let mut s = RecvStreams::default();
        for &(_, n, c) in &chunks {
            put(&mut s, c, n as u8).unwrap();
        }
        let expected: Vec<(u16, usize, bool)> = lens.iter().enumerate().map(|(ssn, &len)| (ssn as u16, 10 * len, true)).collect();
        prop_assert_eq!(read(&mut s), expected);
        prop_assert_eq!(s.charge(), 0);
    }
}

/// A frame of 1,500 bytes with a chunk of `len` bytes in it, put at `tsn`; whether the frame is still held.
fn pinned(streams: &mut RecvStreams, tsn: u32, len: usize, flags: DataFlags, ssn: u16) -> bool {
    let frame = Bytes::from(vec![7; 1_500]);
    streams.begin_packet(frame.len(), 0);
    let (tsn, header) = chunk(tsn, flags, 0, ssn);
    streams.insert(tsn, &header, &frame[..len], &frame).unwrap();
    streams.end_packet();
    !frame.is_unique()
}

#[test]
fn a_small_chunk_does_not_pin_its_frame_wherever_it_waits() {
    let waits = [(DataFlags::WHOLE, 0), (DataFlags::WHOLE, 5), (B, 0), (M, 0)];
    for (flags, ssn) in waits {
        assert!(!pinned(&mut RecvStreams::default(), 10, 20, flags, ssn), "{flags:?} {ssn}");
        assert!(pinned(&mut RecvStreams::default(), 10, 200, flags, ssn), "{flags:?} {ssn}");
    }
    // Beside a message that is held up by one in parts.
    let mut s = RecvStreams::default();
    put(&mut s, chunk(1, B, 1, 0), 0).unwrap();
    assert!(s.begin_partial(Tsn::initial(1), 1));
    assert!(!pinned(&mut s, 10, 20, DataFlags::WHOLE, 0));
    assert_eq!(s.charge(), 30 + 2 * SCTP_CHUNK_OVERHEAD);
}

#[test]
fn chunks_that_fill_their_frame_are_not_copied_one_by_one() {
    let (mut s, frame) = (RecvStreams::default(), Bytes::from(vec![7; 1_500]));
    s.begin_packet(frame.len(), 0);
    for n in 0..20 {
        let (tsn, header) = chunk(n, DataFlags::WHOLE, 0, n as u16);
        s.insert(tsn, &header, &frame[n as usize * 20..n as usize * 20 + 20], &frame).unwrap();
    }
    assert_eq!(s.end_packet().0, 0);
    assert_eq!(read(&mut s).len(), 20);
}

#[test]
fn streams_that_the_peer_has_used_cost_memory_and_no_more_than_their_numbers() {
    let mut s = RecvStreams::default();
    assert_eq!(s.stream_bytes(), 0);
    for sid in 0..=u16::MAX {
        let tsn = 1 + u32::from(sid);
        put(&mut s, (Tsn::initial(tsn), DataRepr { flags: DataFlags::WHOLE, tsn, sid, ssn: 0, ppid: 0 }), 0)
            .unwrap();
        read(&mut s);
    }
    assert!(s.stream_bytes() <= 200_000, "{}", s.stream_bytes());
    assert_eq!(s.charge(), 0);
}

#[test]
fn a_message_that_comes_in_is_not_read_before_its_end_whatever_comes_between() {
    let open = || {
        let mut s = RecvStreams::default();
        put(&mut s, chunk(1, DataFlags::WHOLE, 0, 0), 0).unwrap();
        put(&mut s, chunk(2, B, 0, 1), 0).unwrap();
        put(&mut s, chunk(3, M, 0, 1), 0).unwrap();
        assert_eq!((s.readable_bytes(), s.charge()), (10, 30 + 3 * SCTP_CHUNK_OVERHEAD));
        assert_eq!(read(&mut s), [(0, 10, true)]);
        assert!(!s.is_readable() && s.recv(100).is_none() && s.next_piece() == 0);
        s
    };
    // Another message, and a notification: both are read first.
    let mut s = open();
    put(&mut s, chunk(5, DataFlags::WHOLE, 7, 0), 0).unwrap();
    s.notify(Notification::SenderDry);
    assert!(matches!(s.recv(100), Some(Received::Data { .. })));
    assert_eq!(s.recv(100), Some(Received::Notification(Notification::SenderDry)));
    assert_eq!(put(&mut s, chunk(4, E, 0, 1), 0), Ok(true));
    assert_eq!((read(&mut s), s.charge()), (vec![(1, 30, true)], 0));
    // It is given up, or the peer starts anew.
    let mut s = open();
    s.skip(Tsn::initial(4), &[ForwardStream::new(0, 1)], false);
    put(&mut s, chunk(5, DataFlags::WHOLE, 0, 2), 0).unwrap();
    assert_eq!((read(&mut s), s.charge()), (vec![(2, 10, true)], 0));
    let mut s = open();
    s.forget_incomplete();
    assert_eq!((s.is_readable(), s.charge()), (false, 0));
    let mut s = open();
    s.restart(false);
    assert_eq!((s.is_readable(), s.charge()), (false, 0));
    // A fragment that is not the next.
    let mut s = open();
    assert_eq!(put(&mut s, chunk(4, E, 1, 1), 0), Err(Inconsistent));
    let mut s = open();
    put(&mut s, chunk(5, E, 0, 1), 0).unwrap();
    assert!(!s.is_readable());
    assert_eq!(put(&mut s, chunk(4, M, 0, 1), 0), Ok(true));
    assert_eq!((read(&mut s), s.charge()), (vec![(1, 40, true)], 0));
}

#[test]
fn pieces_are_read_as_they_came_or_as_much_as_is_asked_for() {
    let filled = || {
        let mut s = RecvStreams::default();
        for (tsn, flags) in [(1, B), (2, M), (3, E), (4, DataFlags::WHOLE)] {
            put(&mut s, chunk(tsn, flags, 0, u16::from(tsn == 4)), tsn as u8).unwrap();
        }
        s
    };
    let lens = |s: &mut RecvStreams, max: usize| -> Vec<(usize, bool)> {
        core::iter::from_fn(|| s.recv(if max == 0 { s.next_piece() } else { max }))
            .map(|r| match r {
                Received::Data { data, eor, .. } => (data.len(), eor),
                Received::Notification(_) => panic!("none was made"),
            })
            .collect()
    };
    assert_eq!(lens(&mut filled(), 0), [(10, false), (10, false), (10, true), (10, true)]);
    assert_eq!(lens(&mut filled(), 15), [(15, false), (15, true), (10, true)]);
    assert_eq!(lens(&mut filled(), 20), [(20, false), (10, true), (10, true)]);
    assert_eq!(lens(&mut filled(), 30), [(30, true), (10, true)]);
    let mut s = filled();
    assert!(
        matches!(s.recv(25), Some(Received::Data { data, .. }) if data[..] == [&[1; 10][..], &[2; 10], &[3; 5]].concat())
    );
    assert_eq!((s.bytes(), s.charge()), (15, 15 + 2 * SCTP_CHUNK_OVERHEAD));
}

#[test]
fn pieces_of_one_frame_share_its_reference_however_they_are_taken() {
    let frame = Bytes::from((0..100).collect::<Vec<u8>>());
    let fill = |s: &mut RecvStreams| {
        for (n, flags) in [B, M, E, DataFlags::WHOLE, B].into_iter().enumerate() {
            let (tsn, header) = chunk(n as u32, flags, 0, n as u16 / 3);
            let header = DataRepr { ssn: if n == 4 { 2 } else { header.ssn }, ..header };
            s.insert(tsn, &header, &frame[10 * n..10 * n + 10], &frame).unwrap();
        }
    };
    let mut s = RecvStreams::default();
    fill(&mut s);
    let mut seen = Vec::new();
    assert_eq!(
        s.read(&mut |data: &[u8], info: &RecvInfo, eor| seen.push((data.to_vec(), info.ssn, eor))),
        40
    );
    let piece = |n: u8| (10 * n..10 * n + 10).collect::<Vec<u8>>();
    assert_eq!(seen, [(piece(0), 0, false), (piece(1), 0, false), (piece(2), 0, true), (piece(3), 1, true)]);
    // The last one waits for the rest of its message.
    assert!(!frame.is_unique() && s.bytes() == 10);
    s.restart(false);
    assert!(frame.is_unique() && s.charge() == 0);
    // Taken one by one, in parts, and set aside.
    let mut s = RecvStreams::default();
    fill(&mut s);
    s.notify(Notification::SenderDry);
    let mut data = Vec::new();
    for max in [10, 3, 12, 100, 100] {
        if let Some(Received::Data { data: part, .. }) = s.recv(max) {
            data.extend_from_slice(&part);
        }
    }
    assert_eq!(data, (0..40).collect::<Vec<u8>>());
    assert_eq!(s.recv(100), Some(Received::Notification(Notification::SenderDry)));
    put(&mut s, chunk(5, E, 0, 2), 9).unwrap();
    let Some(Received::Data { data, eor: true, .. }) = s.recv(100) else { panic!("a message") };
    assert_eq!(data[..], [&piece(4)[..], &[9; 10]].concat());
    assert!(frame.is_unique() && s.charge() == 0);
}

#[test]
fn what_waits_behind_a_message_read_in_parts_is_taken_back_from_its_end_and_comes_again() {
    let mut s = RecvStreams::default();
    put(&mut s, chunk(1, B, 0, 0), 0).unwrap();
    put(&mut s, chunk(2, M, 0, 0), 0).unwrap();
    assert!(s.begin_partial(Tsn::initial(2), 0));
    assert_eq!(read(&mut s), [(0, 20, false)]);
    let all = |s: &mut RecvStreams, from: u32| {
        for n in from..10 {
            put(s, chunk(4 + n, DataFlags::WHOLE, 1, n as u16), n as u8).unwrap();
        }
    };
    all(&mut s, 0);
    assert!(!s.is_readable());
    let first = Tsn::initial(4).0;
    let gone = s.renege(Tsn::initial(2), 5 * (10 + SCTP_CHUNK_OVERHEAD));
    assert_eq!(gone, (5..10).rev().map(|n| (first + n, first + n + 1)).collect::<Vec<_>>());
    put(&mut s, chunk(3, E, 0, 0), 0).unwrap();
    assert_eq!(read(&mut s)[1..], [0, 1, 2, 3, 4].map(|ssn| (ssn, 10, true)));
    all(&mut s, 5);
    assert_eq!(read(&mut s), [5, 6, 7, 8, 9].map(|ssn| (ssn, 10, true)));
    assert_eq!(s.charge(), 0);
}

/// A peer that leaves out a number of a stream holds up what is below the cumulative TSN, where nothing can be taken back.
#[test]
fn a_full_buffer_without_anything_to_take_back_is_not_searched_for_each_chunk() {
    let mut s = RecvStreams::default();
    for n in 1..2_000 {
        put(&mut s, chunk(n, DataFlags::WHOLE, 0, n as u16), 0).unwrap();
    }
    let (cum, goal) = (Tsn::initial(1_999), s.charge() * 3 / 4);
    let steps = steps::of(|| (0..1_000).for_each(|_| assert_eq!(s.renege(cum, goal), [])));
    assert_eq!(steps, 1_999, "of one look");
    // One that lies above is found once reading has paid for the look.
    put(&mut s, chunk(3_000, DataFlags::WHOLE, 0, 5_000), 0).unwrap();
    assert_eq!(s.renege(cum, goal), []);
    put(&mut s, chunk(2_000, DataFlags::WHOLE, 0, 0), 0).unwrap();
    assert_eq!(read(&mut s).len(), 2_000);
    put(&mut s, chunk(3_001, DataFlags::WHOLE, 0, 5_001), 0).unwrap();
    let first = Tsn::initial(3_001).0;
    assert_eq!(s.renege(cum, 10 + SCTP_CHUNK_OVERHEAD), [(first, first + 1)]);
}

/// One FORWARD TSN may name the same stream hundreds of times.
#[test]
fn skipping_a_stream_looks_at_what_is_skipped_and_nothing_else() {
    let mut s = RecvStreams::default();
    for n in 0..2_000 {
        put(&mut s, chunk(1_000 + n, DataFlags::WHOLE, 0, 1_000 + n as u16), 0).unwrap();
        put(&mut s, chunk(10_000 + 2 * n, M, 0, 9), 0).unwrap();
    }
    let skips: Vec<_> = (0..360).map(|ssn| ForwardStream::new(0, ssn)).collect();
    let steps = steps::of(|| skips.iter().for_each(|skip| s.skip(Tsn::initial(1), &[*skip], false)));
    assert!(steps <= 360, "{steps}");
    assert!(!s.is_readable());
    let steps = steps::of(|| s.skip(Tsn::initial(1), &[ForwardStream::new(0, 1_009)], false));
    assert!(steps <= 10, "{steps}");
    assert_eq!(read(&mut s).len(), 2_000);
}

#[test]
fn skipped_numbers_go_round() {
    let mut s = RecvStreams::default();
    for ssn in [30_000, 60_000] {
        s.skip(Tsn::initial(1), &[ForwardStream::new(0, ssn)], false);
    }
    for (n, ssn) in [65_535, 3, 65_530, 9].into_iter().enumerate() {
        put(&mut s, chunk(10 + n as u32, DataFlags::WHOLE, 0, ssn), 0).unwrap();
    }
    s.skip(Tsn::initial(2), &[ForwardStream::new(0, 2)], false);
    assert_eq!(read(&mut s), [65_530, 65_535, 3].map(|ssn| (ssn, 10, true)));
    // One that lies behind moves nothing.
    s.skip(Tsn::initial(3), &[ForwardStream::new(0, 60_000)], false);
    s.skip(Tsn::initial(4), &[ForwardStream::new(0, 8)], false);
    assert_eq!(read(&mut s), [(9, 10, true)]);
}

/// A full buffer asks with each chunk whether something can be handed over in parts.
#[test]
fn an_incomplete_message_above_the_cumulative_number_is_not_looked_at() {
    let mut s = RecvStreams::default();
    for n in 0..2_000 {
        put(&mut s, chunk(10 + 2 * n, B, 0, 9), 0).unwrap();
    }
    let steps = steps::of(|| assert!(!s.begin_partial(Tsn::initial(5), 0)));
    assert!(steps <= 1, "{steps}");
    let mut s = RecvStreams::default();
    put(&mut s, chunk(1, B, 0, 0), 0).unwrap();
    put(&mut s, chunk(9, B, 0, 1), 0).unwrap();
    assert!(s.begin_partial(Tsn::initial(1), 0));
}

/// A packet of a train is small, the train is not. What waits for others outlives what was read of the train.
#[test]
fn what_waits_of_a_train_does_not_pin_all_of_it() {
    const TRAIN: usize = 65_000;
    let train = |at: usize| {
        let buffer = Bytes::from(vec![0; TRAIN]);
        (buffer.slice(at..at + 60), buffer)
    };
    let insert = |s: &mut RecvStreams, (tsn, header): (Tsn, DataRepr), packet: usize| {
        let (data, buffer) = train(1_000);
        s.begin_packet(packet, buffer.len());
        s.insert(tsn, &header, &data, &buffer).unwrap();
        s.end_packet().0
    };
    let mut s = RecvStreams::default();
    // A message that waits for its turn, fragments that wait for others, and what waits behind a message read in parts.
    assert_eq!(insert(&mut s, chunk(5, DataFlags::WHOLE, 0, 1), 1_450), 60);
    assert_eq!(insert(&mut s, chunk(7, M, 1, 0), 1_450), 60);
    assert_eq!(insert(&mut s, chunk(9, B, 2, 0), 1_450), 60);
    put(&mut s, chunk(1, B, 3, 0), 0).unwrap();
    assert!(s.begin_partial(Tsn::initial(1), 0));
    assert_eq!(insert(&mut s, chunk(12, DataFlags::WHOLE, 4, 0), 1_450), 60);
    // One in its turn shares the buffer with the others of its packet, until something comes between.
    let mut s = RecvStreams::default();
    assert_eq!(insert(&mut s, chunk(1, DataFlags::WHOLE, 0, 0), 1_450), 0);
    assert_eq!(insert(&mut s, chunk(2, B, 1, 0), 1_450), 0);
    assert_eq!(insert(&mut s, chunk(4, DataFlags::WHOLE, 2, 0), 1_450), 60);
    // Whatever that is and wherever it lies: a packet by itself, or a notification.
    for note in [false, true] {
        let mut s = RecvStreams::default();
        assert_eq!(insert(&mut s, chunk(2, B, 1, 0), 1_450), 0);
        if note {
            s.notify(Notification::Shutdown);
        }
        let data = Bytes::from(vec![0; 60]);
        let (tsn, header) = chunk(4, DataFlags::WHOLE, 2, 0);
        s.begin_packet(data.len(), data.len());
        s.insert(tsn, &header, &data, &data).unwrap();
        assert_eq!(s.end_packet().0, 60, "{note}");
    }
}

/// The message that was coming in goes to those that wait, and what this packet brought lies where it has lain.
#[test]
fn a_small_message_in_a_large_packet_that_sets_another_aside_is_copied() {
    let mut s = RecvStreams::default();
    for (tsn, flags) in [(1, B), (2, M), (3, M)] {
        put(&mut s, chunk(tsn, flags, 0, 0), 0).unwrap();
    }
    let buffer = Bytes::from(vec![0; 65_000]);
    s.begin_packet(65_000, 65_000);
    let (tsn, header) = chunk(5, DataFlags::WHOLE, 1, 0);
    s.insert(tsn, &header, &buffer.slice(60_000..60_001), &buffer).unwrap();
    // The pieces of the message have small buffers of their own.
    assert_eq!(s.end_packet().0, 1);
}

#[test]
fn what_nobody_could_ever_read_is_useless() {
    let useless = |s: &RecvStreams, (tsn, header): (Tsn, DataRepr), (before, behind)| {
        s.is_useless(tsn, &header, |other| if other < tsn { before } else { behind })
    };
    let mut s = RecvStreams::default();
    put(&mut s, chunk(1, DataFlags::WHOLE, 0, 0), 1).unwrap();
    for (flags, beside) in [(M, (true, false)), (E, (true, false)), (B, (false, true))] {
        assert!(useless(&s, chunk(2, flags, 0, 1), beside), "{flags:?}");
    }
    // What waits for it is none, whichever of the two lists it is in.
    assert!(!useless(&s, chunk(2, B, 0, 1), (true, false)));
    put(&mut s, chunk(2, B, 0, 1), 1).unwrap();
    assert!(!useless(&s, chunk(3, M, 0, 1), (true, false)));
    put(&mut s, chunk(4, E, 0, 1), 1).unwrap();
    assert!(!useless(&s, chunk(3, M, 0, 1), (true, true)));
    assert_eq!(put(&mut s, chunk(3, M, 0, 1), 1), Ok(true));
    // A number that was read is none that could come; unordered messages have none.
    assert!(useless(&s, chunk(5, DataFlags::WHOLE, 0, 1), (true, false)));
    assert!(!useless(&s, chunk(5, DataFlags::WHOLE | DataFlags::UNORDERED, 0, 1), (true, false)));
    for ssn in [2, 2 + (1 << 15)] {
        assert!(!useless(&s, chunk(5, DataFlags::WHOLE, 0, ssn), (true, false)), "{ssn}");
    }
    assert!(useless(&s, chunk(5, DataFlags::WHOLE, 0, 3 + (1 << 15)), (true, false)));
}
