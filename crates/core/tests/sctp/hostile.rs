//! What a peer may send and should not: unknown types, broken chunks, wrong tags, and packets changed at random.
use crate::world::*;
use lowwater_core::base::limits::SCTP_NOTES_MAX;
use lowwater_core::base::{DropWhy, Duration, Error, Rng};
use lowwater_core::sctp::{SctpOptions, SendInfo, State, Subscriptions};
use lowwater_wire::sctp::{Chunk, DataFlags, DataRepr, GapBlock, Init, Sack, Tlvs, chunk_kind as kind};

/// An association, the ports of A's packets and the tag that B expects.
fn ready() -> (World, lowwater_core::base::SocketId, lowwater_core::base::SocketId, (u16, u16), u32) {
    let mut w = World::new();
    let (a, b) = w.pair();
    let port = w.stacks[A].local_addr(a).unwrap().port();
    let tag = w.info(B, b).tags.0;
    (w, a, b, (port, 5_000), tag)
}

#[test]
fn unknown_chunks_are_skipped_or_stop_and_are_reported_by_their_high_bits() {
    for (unknown, goes_on, reported) in
        [(0x3f, false, false), (0x7f, false, true), (0xbf, true, false), (0xfe, true, true)]
    {
        let (mut w, _, b, ports, tag) = ready();
        let mut chunks = vec![unknown, 0, 0, 5, 9, 0, 0, 0];
        chunks.extend(bytes(&[Chunk::Heartbeat(Tlvs::new(&[0, 1, 0, 4]))]));
        w.inject(B, ports, tag, &chunks);
        w.pass(ms(5));
        assert_eq!(w.sent(B, kind::HEARTBEAT_ACK), usize::from(goes_on), "type {unknown:#x}");
        assert_eq!(w.sent(B, kind::ERROR), usize::from(reported), "type {unknown:#x}");
        assert_eq!(w.info(B, b).state, State::Established);
    }
}

#[test]
fn hundreds_of_error_chunks_are_some_notifications_and_a_counter() {
    let mut w = World::new();
    let theirs = SctpOptions { events: Subscriptions::REMOTE_ERROR, ..w.options() };
    let (a, b) = w.associated(w.options(), theirs);
    let ports = (w.stacks[A].local_addr(a).unwrap().port(), 5_000);
    let tag = w.info(B, b).tags.0;
    let errors = [kind::ERROR, 0, 0, 8, 0, 99, 0, 4].repeat(180);
    w.inject(B, ports, tag, &errors);
    w.inject(B, ports, tag, &errors);
    let notes = w.read(B, b).len();
    assert_eq!(notes, SCTP_NOTES_MAX);
    assert_eq!(w.stacks[B].counters().own.sctp_notes_dropped, 360 - notes as u64);
    // What was read makes room.
    w.inject(B, ports, tag, &errors[..8]);
    assert_eq!(w.read(B, b).len(), 1);
}

#[test]
fn a_wrong_tag_is_dropped_whatever_it_carries() {
    let (mut w, _, b, ports, tag) = ready();
    let all = [
        Chunk::Abort(false, Tlvs::EMPTY),
        Chunk::Abort(true, Tlvs::EMPTY),
        Chunk::Shutdown(0),
        Chunk::ShutdownAck,
        Chunk::ShutdownComplete(true),
        Chunk::CookieEcho(b"nothing"),
        Chunk::Error(Tlvs::EMPTY),
    ];
    for chunk in all {
        w.inject(B, ports, tag ^ 1, &bytes(&[chunk]));
    }
    w.pass(ms(5));
    assert_eq!(w.info(B, b).state, State::Established);
    let count = w.stacks[B].counters();
    assert_eq!((count.drops(DropWhy::SctpTag), count.drops(DropWhy::SctpCookie)), (6, 1));
    // The T bit with the peer's own tag is the one exception.
    let peers = w.info(B, b).tags.1;
    w.inject(B, ports, peers, &bytes(&[Chunk::Abort(true, Tlvs::EMPTY)]));
    assert_eq!(w.info(B, b).state, State::Closed);
}

#[test]
fn who_breaks_the_rules_is_aborted() {
    let data = |tsn, flags, sid| DataRepr { flags, tsn, sid, ssn: 0, ppid: 0 };
    let (w, a, _, _, _) = ready();
    let first = w.stacks[A].sctp_info(a).unwrap();
    assert_eq!(first.unacked, 0);
    let beyond = Chunk::Sack(Sack { cum_tsn: 0x1234_5678, a_rwnd: 9_999, gaps: &[], dups: &[] });
    // A TSN that is ours would be needed for DATA; a SACK of what was never sent needs none.
    for (what, chunks) in [("sack", bytes(&[beyond])), ("length", vec![kind::SACK, 0, 0, 8, 0, 0, 0, 0])] {
        let (mut w, _, b, ports, tag) = ready();
        w.inject(B, ports, tag, &chunks);
        w.pass(ms(5));
        let closed = w.info(B, b).state == State::Closed;
        // Nearest to what was sent, a number is either behind (old, ignored) or beyond.
        assert!(closed || what == "sack", "{what}");
        if closed {
            assert_eq!(w.sent(B, kind::ABORT), 1);
            assert_eq!(w.stacks[B].take_error(b), Some(Error::Aborted));
        }
    }
    let empty = bytes(&[Chunk::Data(data(1, DataFlags::WHOLE, 0), b"")]);
    let (mut w, _, b, ports, tag) = ready();
    w.inject(B, ports, tag, &empty);
    w.pass(ms(5));
    assert_eq!(w.info(B, b).state, State::Closed, "DATA without data");
}

#[test]
fn an_init_with_values_that_cannot_be_is_refused_or_dropped() {
    let init = Init {
        initiate_tag: 7,
        a_rwnd: 9_000,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: 1,
        params: Tlvs::EMPTY,
    };
    let cases = [
        (Init { initiate_tag: 0, ..init }, None),
        (Init { outbound_streams: 0, ..init }, Some(kind::ABORT)),
        (Init { inbound_streams: 0, ..init }, Some(kind::ABORT)),
        (Init { a_rwnd: 1_499, ..init }, Some(kind::ABORT)),
        (Init { params: Tlvs::new(&[0, 11, 0, 4]), ..init }, Some(kind::ABORT)),
        (Init { params: Tlvs::new(&[0x40, 99, 0, 4]), ..init }, Some(kind::INIT_ACK)),
        (init, Some(kind::INIT_ACK)),
    ];
    for (n, (init, answer)) in cases.into_iter().enumerate() {
        let mut w = World::new();
        let options = w.options();
        w.listen(options);
        w.inject(B, (9, 5_000), 0, &bytes(&[Chunk::Init(init)]));
        w.pass(ms(5));
        let kinds: Vec<u8> = w.log.iter().filter(|l| l.from == B).flat_map(|l| l.kinds.clone()).collect();
        assert_eq!(kinds, answer.into_iter().collect::<Vec<u8>>(), "case {n}");
    }
    // An unknown parameter of the reporting kind comes back in the INIT ACK.
    let mut w = World::new();
    let options = w.options();
    w.listen(options);
    let len = |w: &World| w.log.iter().find(|l| l.from == B).map_or(0, |l| l.bytes);
    w.inject(
        B,
        (9, 5_000),
        0,
        &bytes(&[Chunk::Init(Init { params: Tlvs::new(&[0xc0, 99, 0, 5, 1, 0, 0, 0]), ..init })]),
    );
    w.pass(ms(1));
    let mut plain = World::new();
    let options = plain.options();
    plain.listen(options);
    plain.inject(B, (9, 5_000), 0, &bytes(&[Chunk::Init(init)]));
    plain.pass(ms(1));
    assert_eq!(len(&w), len(&plain) + 12);
}

/// Every packet is changed a little: nothing panics, nothing is counted twice, and time still passes.
#[test]
fn packets_that_are_changed_at_random_break_nothing() {
    for seed in 0..60 {
        let mut w = World::with(1 + seed as usize % 2, &Default::default(), seed + 1);
        let mut rng = Rng::new(seed);
        let options = SctpOptions { nodelay: seed % 2 == 0, ..w.options() };
        let (a, b) = w.associated(options.clone(), options);
        let often = 2 + seed % 20;
        w.mutate = Some(Box::new(move |chunks| {
            if rng.below(often) > 0 || chunks.is_empty() {
                return;
            }
            for _ in 0..1 + rng.below(3) {
                let at = rng.below(chunks.len() as u64) as usize;
                match rng.below(4) {
                    0 => chunks[at] = rng.next_u32() as u8,
                    1 => chunks[at] ^= 1 << rng.below(8),
                    2 => chunks.truncate(at & !3),
                    _ => {
                        let copy = chunks[at & !3..].to_vec();
                        chunks.extend(copy);
                    }
                }
                if chunks.is_empty() || chunks.len() > 3_000 {
                    break;
                }
            }
        }));
        for n in 0..200u32 {
            let (now, info) = (w.now, SendInfo { stream: (n % 10) as u16, ..SendInfo::default() });
            let data = bytes::Bytes::from(vec![n as u8; 1 + n as usize * 97 % 4_000]);
            for (host, id) in [(A, a), (B, b)] {
                let _ = w.stacks[host].sctp_send(now, id, data.clone(), info);
                let _ = w.read(host, id);
            }
            w.pass(ms(20));
        }
        w.pass(Duration::from_secs(600));
        let now = w.now;
        for (host, id) in [(A, a), (B, b)] {
            let _ = w.stacks[host].close(now, id);
        }
        w.mutate = None;
        w.pass(Duration::from_secs(2_000));
        assert_eq!((w.stacks[A].open_sockets(), w.stacks[B].open_sockets()), (0, 1), "seed {seed}");
        assert_eq!(w.stacks[A].counters().sctp.curr_estab, 0);
    }
}

/// A receiver that takes back what it had acknowledged in a gap block gets it again.
#[test]
fn what_a_peer_takes_back_is_sent_again() {
    let (mut w, a, b, ports, _) = ready();
    for n in 0..3 {
        w.send(A, a, &[n; 1_452], SendInfo::default());
    }
    w.rule = Box::new(|c| if c.from == A { Fate::Lose } else { Fate::Deliver(ms(10)) });
    w.pass(ms(1));
    let tag = w.info(A, a).tags.0;
    let cum = first_tsn(&w, b);
    let sack =
        |gaps: &[GapBlock]| bytes(&[Chunk::Sack(Sack { cum_tsn: cum, a_rwnd: 99_999, gaps, dups: &[] })]);
    w.inject(A, (ports.1, ports.0), tag, &sack(&[GapBlock::new(2, 3)]));
    assert_eq!(w.info(A, a).paths[0].flight, 1_452);
    w.inject(A, (ports.1, ports.0), tag, &sack(&[GapBlock::new(2, 2)]));
    w.rule = Box::new(|_| Fate::Deliver(ms(10)));
    w.pass(Duration::from_secs(10));
    assert_eq!(w.messages(B, b).len(), 3);
}

/// The TSN before A's first, as B's SACKs would name it: B's snapshot has it.
fn first_tsn(w: &World, b: lowwater_core::base::SocketId) -> u32 {
    w.info(B, b).cum_tsn
}

/// A buffer full of what waits for the next TSN must not keep that one out for ever (section 6.2): the highest is taken back.
#[test]
fn what_everybody_waits_for_finds_room_in_a_full_buffer() {
    let mut w = World::new();
    let options = SctpOptions { rcvbuf: 4_000, ..w.options() };
    let (a, b) = w.associated(w.options(), options);
    let ports = (w.stacks[A].local_addr(a).unwrap().port(), 5_000);
    let (tag, cum) = (w.info(B, b).tags.0, w.info(B, b).cum_tsn);
    w.rule = Box::new(|_| Fate::Lose);
    let chunk = |w: &mut World, n: u32| {
        let (flags, ssn) = (DataFlags::WHOLE, (n - 1) as u16);
        let header = DataRepr { flags, tsn: cum.wrapping_add(n), sid: 0, ssn, ppid: 0 };
        w.inject(B, ports, tag, &bytes(&[Chunk::Data(header, &[n as u8])]));
    };
    let (odd, even) = ((3..100).step_by(2), (2..100).step_by(2).rev());
    for n in odd.chain(even) {
        chunk(&mut w, n);
    }
    assert!(w.stacks[B].counters().sctp.in_data_chunk_discards > 0, "it is full");
    assert!(!w.stacks[B].sctp_has_input(b));
    // Everything comes again and again, the first one first, until all is read.
    let mut got = Vec::new();
    for _ in 0..20 {
        for n in 1..100 {
            chunk(&mut w, n);
        }
        got.extend(w.messages(B, b).concat());
    }
    assert_eq!(got, (1..100).collect::<Vec<u8>>());
    assert_eq!((w.info(B, b).cum_tsn, w.info(B, b).state), (cum.wrapping_add(99), State::Established));
}

/// Each SACK that takes back what the one before has said costs a walk over what is out.
#[test]
fn of_a_packet_full_of_sacks_four_are_read() {
    let mut w = World::new();
    let options = SctpOptions { nodelay: true, ..w.options() };
    let (a, b) = w.associated(options.clone(), options);
    w.pass(ms(100));
    w.rule = Box::new(|_| Fate::Lose);
    for _ in 0..3 {
        w.send(A, a, &[1; 100], SendInfo::default());
    }
    w.pass(ms(1));
    let cum_tsn = first_tsn(&w, b);
    let sack =
        |n: u32| Chunk::Sack(Sack { cum_tsn: cum_tsn.wrapping_add(n), a_rwnd: 9_999, gaps: &[], dups: &[] });
    let ports = (5_000, w.stacks[A].local_addr(a).unwrap().port());
    let tag = w.info(A, a).tags.0;
    w.inject(A, ports, tag, &bytes(&[sack(0), sack(0), sack(1), sack(2), sack(3), sack(3)]));
    w.pass(ms(1));
    let ignored = w.stacks[A].counters().own.sctp_sacks_ignored;
    assert_eq!((w.info(A, a).unacked, ignored), (1, 2));
}
