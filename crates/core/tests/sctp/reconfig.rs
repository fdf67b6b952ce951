//! Stream reconfiguration (RFC 6525) between two stacks, over networks that lose, and by peers that ask for what nobody should.
use crate::world::*;
use lowwater_core::base::limits::{SCTP_NOTES_MAX, SCTP_REPLIES_MAX};
use lowwater_core::base::{Duration, Error, Rng, SocketId, Sysctl};
use lowwater_core::sctp::{
    Notification, Outcome, Received, Reconfigurable, Reliability, ResetWhat, SctpOptions, SendInfo, State,
    Subscriptions,
};
use lowwater_wire::sctp::{Chunk, Chunks, ForwardStream, Param, Reset, Tlvs, chunk_kind as kind};
use std::cell::RefCell;
use std::rc::Rc;
use zerocopy::network_endian::U16;

fn sysctl() -> Sysctl {
    Sysctl { sctp_reconf_enable: true, ..Sysctl::default() }
}

fn pair(seed: u64) -> (World, SocketId, SocketId) {
    let mut w = World::with(1, &sysctl(), seed);
    let events = Subscriptions::STREAM_RESET.with(Subscriptions::ASSOC_RESET);
    let events = events.with(Subscriptions::STREAM_CHANGE).with(Subscriptions::SEND_FAILED);
    let reconfigurable = Reconfigurable::ALL;
    let options = SctpOptions { nodelay: true, events, reconfigurable, ..w.options() };
    let (a, b) = w.associated(options.clone(), options);
    (w, a, b)
}

fn on(stream: u16) -> SendInfo {
    SendInfo { stream, ..SendInfo::default() }
}

/// The notifications that wait.
fn notes(w: &mut World, host: usize, id: SocketId) -> Vec<Notification> {
    let items = w.read(host, id).into_iter();
    items.filter_map(|item| if let Received::Notification(n) = item { Some(n) } else { None }).collect()
}

#[test]
fn a_stream_begins_anew_at_both_sides_and_both_are_told() {
    let (mut w, a, b) = pair(1);
    for _ in 0..3 {
        w.send(A, a, b"old", on(3));
    }
    w.pass(ms(500));
    assert_eq!(w.messages(B, b).len(), 3);
    let now = w.now;
    w.stacks[A].sctp_reset_streams(now, a, &[3], (true, false)).unwrap();
    w.send(A, a, b"new", on(3));
    w.pass(ms(5));
    let again = w.stacks[A].sctp_reset_streams(w.now, a, &[4], (true, false));
    assert_eq!(again, Err(Error::InProgress));
    w.pass(ms(500));
    let told = |what| Notification::StreamReset { what, outcome: Outcome::Done, streams: vec![3] };
    assert_eq!(notes(&mut w, A, a), [told(ResetWhat::Outgoing)]);
    let items = w.read(B, b);
    assert_eq!(items[0], Received::Notification(told(ResetWhat::Incoming)));
    let Received::Data { data, info, .. } = &items[1] else { panic!("{items:?}") };
    assert_eq!((&data[..], info.ssn), (&b"new"[..], 0));
    // And back: B asks A to ask.
    let now = w.now;
    w.stacks[B].sctp_reset_streams(now, b, &[3], (false, true)).unwrap();
    w.pass(ms(500));
    assert_eq!(notes(&mut w, A, a), [told(ResetWhat::OutgoingWanted), told(ResetWhat::Outgoing)]);
    assert_eq!(notes(&mut w, B, b), [told(ResetWhat::IncomingAsked)]);
}

#[test]
fn who_has_no_streams_left_gets_more_and_all_numbers_begin_anew() {
    let (mut w, a, b) = pair(1);
    assert_eq!(w.info(A, a).streams, (10, 10));
    let now = w.now;
    assert_eq!(w.stacks[A].sctp_send(now, a, b"x"[..].into(), on(11)), Err(Error::Invalid));
    w.stacks[A].sctp_add_streams(now, a, 2, 5).unwrap();
    w.send(A, a, b"more", on(11));
    w.pass(ms(500));
    assert_eq!((w.info(A, a).streams, w.info(B, b).streams), ((12, 15), (15, 12)));
    assert_eq!(w.messages(B, b), [b"more"]);
    w.pass(ms(500));
    notes(&mut w, A, a);
    let now = w.now;
    w.stacks[A].sctp_reset_association(now, a).unwrap();
    w.send(A, a, b"anew", on(11));
    w.pass(ms(500));
    let told = notes(&mut w, A, a);
    assert!(matches!(told[..], [Notification::AssocReset { outcome: Outcome::Done, .. }]), "{told:?}");
    w.send(B, b, b"too", on(11));
    w.pass(ms(500));
    assert_eq!((w.messages(B, b), w.messages(A, a)), (vec![b"anew".to_vec()], vec![b"too".to_vec()]));
    for _ in 0..100 {
        w.send(A, a, &[7; 1_000], on(1));
    }
    w.pass(Duration::from_secs(5));
    assert_eq!((w.messages(B, b).len(), w.info(A, a).unacked), (100, 0));
}

#[test]
fn without_the_setting_nobody_offers_it() {
    let mut w = World::new();
    let (a, _) = w.associated(
        SctpOptions { reconfigurable: Reconfigurable::ALL, ..w.options() },
        SctpOptions { reconfigurable: Reconfigurable::ALL, ..w.options() },
    );
    let now = w.now;
    assert_eq!(w.stacks[A].sctp_reset_streams(now, a, &[], (true, false)), Err(Error::NoSuchOption));
    assert_eq!(w.stacks[A].sctp_add_streams(now, a, 1, 0), Err(Error::NoSuchOption));
}

/// Whatever both sides ask for and the network loses, every message arrives, those of a stream in order.
#[test]
fn messages_arrive_in_order_however_streams_begin_anew() {
    for seed in 1..40 {
        let (mut w, a, b) = pair(seed);
        let ids = [a, b];
        let mut rng = Rng::new(seed);
        let mut fates = Rng::new(seed ^ 99);
        w.rule = Box::new(move |_| match fates.below(16) {
            0 => Fate::Lose,
            1 => Fate::Deliver(ms(40)),
            _ => Fate::Deliver(ms(10)),
        });
        let mut sent: [Vec<Vec<u32>>; 2] = [vec![Vec::new(); 64], vec![Vec::new(); 64]];
        let mut got = sent.clone();
        let (mut number, mut done) = (0u32, 0);
        for _ in 0..300 {
            let host = rng.below(2) as usize;
            let (now, id) = (w.now, ids[host]);
            let stream = rng.below(u64::from(w.info(host, id).streams.0)) as u16;
            match rng.below(12) {
                0 => {
                    let which = [(true, false), (false, true), (true, true)][rng.below(3) as usize];
                    let list = if rng.below(4) == 0 { vec![] } else { vec![stream.min(9)] };
                    let _ = w.stacks[host].sctp_reset_streams(now, id, &list, which);
                }
                1 => _ = w.stacks[host].sctp_reset_association(now, id),
                2 => {
                    // Nothing but the number of streams tells what the peer wants from what we have asked it to want.
                    let (out, inn) = (rng.below(2) as u16, rng.below(2) as u16 * (2 + host as u16));
                    if w.info(host, id).streams.0.max(w.info(host, id).streams.1) < 55 {
                        let _ = w.stacks[host].sctp_add_streams(now, id, out, inn);
                    }
                }
                _ => {
                    let len = 4 + rng.below(2_000) as usize;
                    let mut data = vec![0; len];
                    data[..4].copy_from_slice(&number.to_be_bytes());
                    if w.stacks[host].sctp_send(now, id, data.into(), on(stream)).is_ok() {
                        sent[host][usize::from(stream)].push(number);
                        number += 1;
                    }
                }
            }
            w.pass(ms(rng.below(150)));
            take(&mut w, ids, &mut got, &mut done);
        }
        w.pass(Duration::from_secs(600));
        take(&mut w, ids, &mut got, &mut done);
        assert_eq!([w.info(A, a).state, w.info(B, b).state], [State::Established; 2], "seed {seed}");
        assert_eq!(sent, got, "seed {seed}");
        assert!(done > 0, "seed {seed}: something was carried out");
    }
}

/// What both sides have read, by the sender and the stream.
fn take(w: &mut World, ids: [SocketId; 2], got: &mut [Vec<Vec<u32>>; 2], done: &mut usize) {
    for host in [A, B] {
        for item in w.read(host, ids[host]) {
            match item {
                Received::Data { data, info, eor } => {
                    assert!(eor, "messages come whole");
                    let number = u32::from_be_bytes(*data.first_chunk().expect("a number"));
                    got[1 - host][usize::from(info.stream)].push(number);
                }
                Received::Notification(
                    Notification::StreamReset { outcome: Outcome::Done, .. }
                    | Notification::AssocReset { outcome: Outcome::Done, .. }
                    | Notification::StreamChange { outcome: Outcome::Done, .. },
                ) => *done += 1,
                Received::Notification(note) => {
                    assert!(!matches!(note, Notification::SendFailed(_)), "{note:?}");
                }
            }
        }
    }
}

/// A peer that sends SHUTDOWN answers no request any more, and whether it has carried ours out nobody knows: what waits for that would be
/// acknowledged with numbers that the peer may never have its turn for. It fails, and what has no number of the stream goes.
#[test]
fn what_waits_for_an_answer_fails_when_the_peer_has_closed() {
    // One that leaves when the SHUTDOWN is under way is not carried out, and its stream goes on. How long a way takes now nobody knows: one that may
    // have come before it, by ways that are shorter than all that there were, may have been.
    let cases =
        [(true, 100_i64, 10, 1), (false, 100, 10, 1), (true, 0, 10, 1), (true, -2, 10, 0), (true, 7, 6, 1)];
    for (asked, wait, way, fails) in cases {
        let (mut w, a, b) = pair(1);
        for _ in 0..3 {
            w.send(A, a, b"old", on(3));
        }
        w.pass(ms(500));
        w.rule = Box::new(move |c| {
            let lost = c.kinds().contains(&kind::RE_CONFIG) && (c.from == B || !asked);
            if lost { Fate::Lose } else { Fate::Deliver(ms(way)) }
        });
        let ends = |w: &mut World| w.stacks[B].sctp_shutdown(w.now, b).unwrap();
        if wait < 0 {
            ends(&mut w);
            w.pass(ms(wait.unsigned_abs()));
        }
        let now = w.now;
        w.stacks[A].sctp_reset_streams(now, a, &[3], (true, false)).unwrap();
        w.send(A, a, b"new", on(3));
        w.send(A, a, b"free", SendInfo { unordered: true, ..on(3) });
        w.send(A, a, b"other", on(4));
        if wait >= 0 {
            w.pass(ms(wait.unsigned_abs()));
            ends(&mut w);
        }
        w.pass(Duration::from_secs(30));
        let notes = notes(&mut w, A, a);
        let new =
            |note: &&Notification| matches!(note, Notification::SendFailed(f) if f.data[..] == b"new"[..]);
        assert_eq!(notes.iter().filter(new).count(), fails, "{notes:?}");
        let (what, outcome) = (ResetWhat::Outgoing, Outcome::Failed);
        assert!(notes.contains(&Notification::StreamReset { what, outcome, streams: vec![3] }), "{notes:?}");
        let mut all: Vec<&[u8]> = vec![b"old", b"old", b"old", b"new", b"free", b"other"];
        all.retain(|message| fails == 0 || *message != b"new");
        assert_eq!(w.messages(B, b), all);
        assert_eq!((w.info(A, a).state, w.info(B, b).state), (State::Closed, State::Closed));
        assert_eq!(w.stacks[A].counters().sctp.aborteds + w.stacks[B].counters().sctp.aborteds, 0);
    }
}

/// The numbers begin half of all away, so that a SACK from before seems to acknowledge what nobody has sent.
#[test]
fn a_sack_that_a_reset_of_all_numbers_has_overtaken_is_old() {
    let (mut w, a, b) = pair(1);
    let mut sacks = 0;
    w.rule = Box::new(move |c| {
        sacks += u32::from(c.from == B && c.kinds().contains(&kind::SACK));
        Fate::Deliver(ms(if sacks == 1 && c.from == B { 2_000 } else { 10 }))
    });
    for _ in 0..4 {
        w.send(A, a, &[7; 1_000], on(1));
    }
    w.pass(ms(1_000));
    assert_eq!(w.info(A, a).unacked, 0);
    let now = w.now;
    w.stacks[A].sctp_reset_association(now, a).unwrap();
    w.pass(ms(100));
    w.send(A, a, b"anew", on(1));
    w.pass(Duration::from_secs(3));
    assert_eq!(w.messages(B, b).len(), 5);
    assert_eq!((w.info(A, a).state, w.info(A, a).unacked), (State::Established, 0));
    assert_eq!(w.stacks[A].counters().sctp.aborteds + w.stacks[B].counters().sctp.aborteds, 0);
}

/// A peer that has reset all numbers counts from others on, and a SHUTDOWN of it that goes again as well: that is no violation.
#[test]
fn a_shutdown_goes_again_behind_a_reset_of_all_numbers() {
    let (mut w, a, b) = pair(1);
    w.send(A, a, b"old", on(3));
    w.pass(ms(500));
    let mut acks = 0;
    // The answer is lost, and then the first SHUTDOWN ACK.
    w.rule = Box::new(move |c| {
        acks += u32::from(c.from == A && c.kinds().contains(&kind::SHUTDOWN_ACK));
        let first = acks == 1 && c.from == A;
        let lost = c.from == B && c.kinds().contains(&kind::RE_CONFIG);
        if lost || first { Fate::Lose } else { Fate::Deliver(ms(10)) }
    });
    let now = w.now;
    w.stacks[A].sctp_reset_association(now, a).unwrap();
    w.pass(ms(15));
    let now = w.now;
    w.stacks[B].sctp_shutdown(now, b).unwrap();
    w.pass(Duration::from_secs(30));
    assert_eq!(w.messages(B, b), [b"old"]);
    assert_eq!((w.info(A, a).state, w.info(B, b).state), (State::Closed, State::Closed));
    assert_eq!(w.stacks[A].counters().sctp.aborteds + w.stacks[B].counters().sctp.aborteds, 0);
}

/// A shutdown waits until the peer has said what it counts from: what it sends meanwhile has new numbers in its streams.
#[test]
fn a_shutdown_waits_for_the_answer_to_a_reset_of_all_numbers() {
    let (mut w, a, b) = pair(1);
    for _ in 0..3 {
        w.send(B, b, b"old", on(3));
    }
    w.pass(ms(500));
    assert_eq!(w.messages(A, a).len(), 3);
    let now = w.now;
    w.stacks[A].sctp_reset_association(now, a).unwrap();
    w.pass(ms(5));
    let now = w.now;
    w.stacks[A].sctp_shutdown(now, a).unwrap();
    w.pass(ms(7));
    w.send(B, b, b"new", on(3));
    w.pass(Duration::from_secs(30));
    let got: Vec<_> = w.read(A, a);
    let told = |item: &Received| {
        matches!(item, Received::Notification(Notification::AssocReset { outcome: Outcome::Done, .. }))
    };
    assert!(got.iter().any(told), "{got:?}");
    assert!(
        got.iter().any(|item| matches!(item, Received::Data { data, .. } if data[..] == b"new"[..])),
        "{got:?}"
    );
    assert_eq!((w.info(A, a).state, w.info(B, b).state), (State::Closed, State::Closed));
}

/// A peer that has not heard of the SHUTDOWN asks, or asks again: it hears what became of that, and what waits for it arrives.
#[test]
fn who_has_not_heard_of_the_shutdown_has_an_answer() {
    for before in [false, true] {
        let (mut w, a, b) = pair(1);
        for _ in 0..3 {
            w.send(A, a, b"old", on(3));
        }
        w.pass(ms(500));
        let mut lost = [false; 2];
        // The first answer, where the request comes before it, and the first SHUTDOWN.
        w.rule = Box::new(move |c| {
            let is = [before && c.kinds().contains(&kind::RE_CONFIG), c.kinds().contains(&kind::SHUTDOWN)];
            let mut first =
                (0..2).filter(|n| c.from == B && is[*n] && !core::mem::replace(&mut lost[*n], true));
            if first.next().is_some() { Fate::Lose } else { Fate::Deliver(ms(10)) }
        });
        let ends = |w: &mut World| w.stacks[B].sctp_shutdown(w.now, b).unwrap();
        if !before {
            ends(&mut w);
            w.pass(ms(50));
        }
        let now = w.now;
        w.stacks[A].sctp_reset_streams(now, a, &[3], (true, false)).unwrap();
        w.send(A, a, b"new", on(3));
        w.pass(ms(50));
        if before {
            ends(&mut w);
        }
        w.pass(Duration::from_secs(30));
        let (what, outcome) = (ResetWhat::Outgoing, if before { Outcome::Done } else { Outcome::Denied });
        let told = Notification::StreamReset { what, outcome, streams: vec![3] };
        assert_eq!(notes(&mut w, A, a), [told], "{before}");
        assert_eq!(w.messages(B, b), [&b"old"[..], b"old", b"old", b"new"], "{before}");
        assert_eq!((w.info(A, a).state, w.info(B, b).state), (State::Closed, State::Closed));
    }
}

/// A shutdown does not wait for a request for which nothing waits. Its answer is heard all the same; where there is none, it has failed by its
/// timeout or the end.
#[test]
fn the_owner_hears_what_became_of_a_request_though_all_is_shut_down() {
    for (lost, wait, outcome) in
        [(None, 0, Outcome::Done), (Some(B), 0, Outcome::Failed), (Some(A), 5, Outcome::Failed)]
    {
        let (mut w, a, b) = pair(1);
        w.rule = Box::new(move |c| {
            let gone = Some(c.from) == lost && c.kinds().contains(&kind::RE_CONFIG);
            if gone { Fate::Lose } else { Fate::Deliver(ms(10)) }
        });
        let now = w.now;
        w.stacks[A].sctp_reset_streams(now, a, &[3], (true, false)).unwrap();
        w.pass(ms(wait));
        let now = w.now;
        w.stacks[A].sctp_shutdown(now, a).unwrap();
        w.pass(Duration::from_secs(30));
        let what = ResetWhat::Outgoing;
        assert_eq!(
            notes(&mut w, A, a),
            [Notification::StreamReset { what, outcome, streams: vec![3] }],
            "{lost:?}"
        );
        assert_eq!((w.info(A, a).state, w.info(B, b).state), (State::Closed, State::Closed));
    }
}

fn reconfig(params: &[Param<'_>]) -> Vec<u8> {
    let mut list = Vec::new();
    for param in params {
        let mut out = vec![0; param.buffer_len()];
        param.emit(&mut out);
        list.extend(out);
    }
    bytes(&[Chunk::ReConfig(Tlvs::new(&list))])
}

/// Answers which leave open what a shutdown waits for hold it up no longer than a peer that is silent: nobody may be left to give it up.
#[test]
fn no_answer_holds_up_a_shutdown_for_good() {
    const PERFORMED: u32 = 1;
    const BAD_NUMBER: u32 = 5;
    const IN_PROGRESS: u32 = 6;
    // All was reset, and there are no TSNs; the first part is put off, so that the second has not been looked at.
    for all in [true, false] {
        let (mut w, a, b) = pair(1);
        let ports = (5_000, w.stacks[A].local_addr(a).unwrap().port());
        let (tag, first) = (w.info(A, a).tags.0, w.info(B, b).cum_tsn.wrapping_add(1));
        let mut options = w.stacks[A].sctp_options(a).unwrap().clone();
        options.association_max_retrans = 2;
        let now = w.now;
        w.stacks[A].sctp_set_options(now, a, options).unwrap();
        w.rule = Box::new(|c| {
            let answer = c.from == B && c.kinds().contains(&kind::RE_CONFIG);
            if answer { Fate::Lose } else { Fate::Deliver(ms(10)) }
        });
        if all {
            w.stacks[A].sctp_reset_association(now, a).unwrap();
        } else {
            w.stacks[A].sctp_reset_streams(now, a, &[3], (true, true)).unwrap();
            w.send(A, a, b"new", on(3));
        }
        w.stacks[A].sctp_shutdown(now, a).unwrap();
        w.pass(ms(100));
        assert_eq!(w.info(A, a).state, State::ShutdownPending);
        let answer = if all {
            reconfig(&[Param::ResetResponse(first, PERFORMED, None)])
        } else {
            let parts = [(first, IN_PROGRESS), (first.wrapping_add(1), BAD_NUMBER)];
            reconfig(&parts.map(|(number, result)| Param::ResetResponse(number, result, None)))
        };
        for _ in 0..60 {
            w.inject(A, ports, tag, &answer);
            w.pass(ms(500));
        }
        assert_eq!(w.info(A, a).state, State::Closed, "{all}");
        assert!(w.sent(A, kind::RE_CONFIG) >= 3, "not before the peer had its time");
    }
}

/// An answer that puts a request off may have been under way when a later copy of it was carried out: then nobody knows the numbers either.
#[test]
fn a_promise_for_one_copy_says_nothing_of_the_next() {
    for slow in [true, false] {
        let (mut w, a, b) = pair(1);
        w.send(A, a, b"early", on(3));
        w.pass(ms(500));
        let (mut data, mut answers) = (0, 0);
        // What comes before the request comes late; its second answer is lost, and the first is as slow as that.
        w.rule = Box::new(move |c| {
            if c.from == A && c.kinds().contains(&kind::DATA) {
                data += 1;
                return Fate::Deliver(ms(if data == 1 { 800 } else { 10 }));
            }
            if c.from != B || !c.kinds().contains(&kind::RE_CONFIG) {
                return Fate::Deliver(ms(10));
            }
            answers += 1;
            if answers > 1 { Fate::Lose } else { Fate::Deliver(ms(if slow { 1_400 } else { 10 })) }
        });
        w.send(A, a, b"old", on(3));
        w.pass(ms(1));
        let now = w.now;
        w.stacks[A].sctp_reset_streams(now, a, &[3], (true, false)).unwrap();
        w.send(A, a, b"new", on(3));
        // The second copy leaves after a second; where the first has an answer by then, the shutdown comes before it does.
        w.pass(ms(if slow { 1_500 } else { 900 }));
        let now = w.now;
        w.stacks[B].sctp_shutdown(now, b).unwrap();
        w.pass(Duration::from_secs(30));
        let failed =
            |note: &Notification| matches!(note, Notification::SendFailed(f) if f.data[..] == b"new"[..]);
        let notes = notes(&mut w, A, a);
        assert_eq!(notes.iter().any(failed), slow, "{notes:?}");
        let mut got: Vec<&[u8]> = vec![b"early", b"old", b"new"];
        got.truncate(if slow { 2 } else { 3 });
        assert_eq!(w.messages(B, b), got, "{slow}");
    }
}

/// Hundreds of requests in one packet: some answers, some notifications, and no more state than of one.
#[test]
fn what_a_peer_asks_for_at_will_is_bounded() {
    let (mut w, a, b) = pair(1);
    let ports = (w.stacks[A].local_addr(a).unwrap().port(), 5_000);
    let tag = w.info(B, b).tags.0;
    let first = w.info(B, b).cum_tsn.wrapping_add(1);
    let many: Vec<U16> = (0..10).cycle().take(600).map(U16::new).collect();
    let from = w.log.len();
    let mut all = Vec::new();
    for n in 0..40 {
        let fixed = Reset {
            request: first.wrapping_add(n).into(),
            response: 0.into(),
            last_tsn: first.wrapping_sub(1).into(),
        };
        all.extend(reconfig(&[Param::OutgoingReset(&fixed, &many)]));
    }
    w.inject(B, ports, tag, &all);
    w.pass(ms(5));
    let answers: usize = w.log[from..]
        .iter()
        .filter(|line| line.from == B)
        .map(|line| line.kinds.iter().filter(|k| **k == kind::RE_CONFIG).count())
        .sum();
    assert_eq!(answers, SCTP_REPLIES_MAX);
    let told = notes(&mut w, B, b).len();
    assert!(told > 1 && told <= SCTP_NOTES_MAX, "{told}");
    assert_eq!(w.info(B, b).state, State::Established);
}

/// RE-CONFIGs made at random, under the right tag and with numbers near the right ones: nothing panics, and what goes on is an association
/// that still carries messages or one that was aborted.
#[test]
fn requests_at_random() {
    for seed in 0..300 {
        let (mut w, a, b) = pair(seed);
        let ports = (w.stacks[A].local_addr(a).unwrap().port(), 5_000);
        let tag = w.info(B, b).tags.0;
        let first = w.info(B, b).cum_tsn.wrapping_add(1);
        let mut rng = Rng::new(seed);
        for _ in 0..30 {
            let (now, stream) = (w.now, rng.below(10) as u16);
            let _ = w.stacks[A].sctp_send(now, a, vec![1; 300].into(), on(stream));
            if rng.below(4) == 0 {
                let now = w.now;
                let _ = w.stacks[B].sctp_reset_streams(now, b, &[], (true, rng.below(2) == 0));
                let _ = w.stacks[B].sctp_add_streams(now, b, 1, rng.below(2) as u16);
            }
            let near = |rng: &mut Rng| first.wrapping_add(rng.below(8) as u32).wrapping_sub(2);
            let list: Vec<U16> = (0..rng.below(6)).map(|_| U16::new(rng.below(14) as u16)).collect();
            let fixed = Reset {
                request: near(&mut rng).into(),
                response: near(&mut rng).into(),
                last_tsn: near(&mut rng).into(),
            };
            let number = near(&mut rng);
            let local = w.stacks[B].sctp_info(b).map_or(0, |info| info.tags.1);
            let param = match rng.below(7) {
                0 | 1 => Param::OutgoingReset(&fixed, &list),
                2 => Param::IncomingReset(number, &list),
                3 => Param::TsnReset(number),
                4 => Param::AddOutgoing(number, rng.next_u32() as u16 >> rng.below(16)),
                5 => Param::AddIncoming(number, rng.next_u32() as u16 >> rng.below(16)),
                _ => Param::ResetResponse(
                    if rng.below(2) == 0 { number } else { local },
                    rng.below(8) as u32,
                    (rng.below(2) == 0).then(|| (rng.next_u32(), rng.next_u32())),
                ),
            };
            let mut packet = reconfig(&[param]);
            if rng.below(4) == 0 {
                let at = rng.below(packet.len() as u64) as usize;
                packet[at] = rng.next_u32() as u8;
            }
            w.inject(B, ports, tag, &packet);
            w.pass(ms(rng.below(60)));
            w.read(B, b);
        }
        w.pass(Duration::from_secs(30));
    }
}

/// A message came, though no SACK said so, and its stream began anew: who gives it up then tells nothing of a number that there is no more,
/// or the messages behind it would be taken for old ones.
#[test]
fn what_is_given_up_when_its_stream_has_begun_anew_skips_nothing_there() {
    let (mut w, a, b) = pair(1);
    for _ in 0..5 {
        w.send(A, a, b"old", on(3));
    }
    w.pass(ms(500));
    let skips = Rc::new(RefCell::new(Vec::new()));
    let seen = skips.clone();
    w.rule = Box::new(move |c| {
        for raw in Chunks::new(c.chunks) {
            if let Ok(Chunk::ForwardTsn(_, streams)) = Chunk::parse(&raw.unwrap()) {
                seen.borrow_mut().push(streams.len());
            }
        }
        if c.from == B && c.kinds() == [kind::SACK] { Fate::Lose } else { Fate::Deliver(ms(10)) }
    });
    w.send(A, a, b"late", SendInfo { reliability: Reliability::Lifetime(ms(50)), ..on(3) });
    w.pass(ms(30));
    let now = w.now;
    w.stacks[A].sctp_reset_streams(now, a, &[3], (true, false)).unwrap();
    w.pass(ms(2_000));
    assert!(!skips.borrow().is_empty() && skips.borrow().iter().all(|n| *n == 0), "{skips:?}");
    w.rule = Box::new(|_| Fate::Deliver(ms(10)));
    for text in [b"new 0", b"new 1"] {
        w.send(A, a, text, on(3));
    }
    w.pass(ms(2_000));
    let got: Vec<Vec<u8>> = w.messages(B, b).into_iter().skip(5).collect();
    assert_eq!(got, [&b"late"[..], b"new 0", b"new 1"]);
}

/// The same from a peer that tells it all the same, late or once more: what it says of a number that the stream can not have yet counts as old.
#[test]
fn a_forward_tsn_from_before_a_stream_began_anew_skips_nothing_there() {
    for (ahead, ssn, skipped) in [(0, 3, false), (-1, 0, false), (1, 3, false), (1, 0, true), (0, 1, false)] {
        let (mut w, a, b) = pair(1);
        for _ in 0..5 {
            w.send(A, a, b"old", on(3));
        }
        w.pass(ms(500));
        let now = w.now;
        w.stacks[A].sctp_reset_streams(now, a, &[3], (true, false)).unwrap();
        w.pass(ms(500));
        assert_eq!(w.messages(B, b).len(), 5);
        let (tag, cum) = (w.info(B, b).tags.0, w.info(B, b).cum_tsn);
        let ports = (w.stacks[A].local_addr(a).unwrap().port(), 5_000);
        let streams = [ForwardStream::new(3, ssn)];
        w.inject(B, ports, tag, &bytes(&[Chunk::ForwardTsn(cum.wrapping_add_signed(ahead), &streams)]));
        w.pass(ms(1));
        // One that A has not sent takes the number of the first.
        for text in [b"new 0", b"new 1"] {
            w.send(A, a, text, on(3));
        }
        w.pass(ms(500));
        let got = w.messages(B, b);
        let all = [b"new 0".to_vec(), b"new 1".to_vec()];
        let come = if ahead > 0 { &all[1..] } else { &all[..] };
        match (ahead > 0, skipped) {
            // Its TSN is taken, so that the first message counts as old; the second waits for it, unless it is skipped.
            (true, false) => assert!(got.is_empty(), "{got:?}"),
            _ => assert_eq!(got, come, "{ahead} {ssn}"),
        }
    }
}
