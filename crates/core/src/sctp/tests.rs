//! One association by itself, in a state that takes long to come by.
use super::handshake::init::Addresses;
use super::outstanding::{Chunk, MISSING_MAX};
use super::pending::Pending;
use super::*;
use crate::base::sysctl::SctpCongestionKind;
use crate::base::testing::World;
use crate::base::{Carrier, DeviceId, Duration, Instant, Pressure, Sysctl, Wait, steps};
use bytes::Bytes;
use core::net::IpAddr;
use lowwater_wire::sctp::{Cause, Chunk as Wire, DataFlags, DataRepr, GapBlock, Param, Sack, Tlvs};

mod drawn;

fn now() -> Instant {
    Instant::from_millis(1_000)
}

fn ip(host: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, host])
}

/// An association with so many paths, all of them confirmed.
fn up(world: &mut World, paths: u8) -> Assoc {
    let remotes: Addresses = (1..=paths).map(ip).collect();
    let locals: Addresses = [ip(99)].into_iter().collect();
    let options = SctpOptions { nodelay: true, sndbuf: 1 << 24, ..SctpOptions::new(&Sysctl::default()) };
    let setup = Setup { ports: (1, 2), remotes, locals, carrier: Carrier::Ip, options };
    let mut cx = world.cx(now());
    let mut assoc = Assoc::connect(&mut cx, setup);
    for (_, path) in assoc.paths.iter_mut() {
        path.set_route((ip(99), DeviceId(0)), 1_500);
    }
    assoc.pending.clear(Pending::INIT);
    assoc.set_state(State::CookieEchoed);
    assoc.establish(&mut cx);
    (assoc.id.tags.1, assoc.tx.peer_rwnd, assoc.tx.streams) = (9, 1 << 20, 10);
    assoc
}

/// A chunk that has left by this path, with some misses; its TSN.
fn leave(assoc: &mut Assoc, path: PathId, missing: u8) -> tsn::Tsn {
    assoc.tx.out.push(Chunk { missing, ..Chunk::whole(path, now(), &[7; 10]) })
}

/// One that was lost: by SACKs, or by a timer.
fn lose(assoc: &mut Assoc, path: PathId, missed: bool) {
    let tsn = leave(assoc, path, if missed { MISSING_MAX } else { 0 });
    assert!(assoc.tx.out.lose(tsn).is_some());
}

/// The device of this path takes nothing.
fn fill(assoc: &mut Assoc, path: PathId) {
    let credit = &mut assoc.paths.get_mut(path).flow.credit;
    credit.charge(1 << 30);
    credit.throttle();
}

/// Rule 3 of section 7.2.4 lets one packet of retransmissions leave, not one of new data by another path.
#[test]
fn the_permission_to_retransmit_is_not_spent_by_new_data() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 2);
    // One alone could go whatever the device says.
    for _ in 0..2 {
        lose(&mut assoc, 0, true);
    }
    fill(&mut assoc, 0);
    assoc.tx.fast = true;
    let mut cx = world.cx(now());
    let info = SendInfo { to: Some(ip(2)), ..SendInfo::default() };
    assoc.send(&mut cx, Bytes::from_static(b"new"), info).unwrap();
    let out = assoc.output(&mut cx).expect("it goes by the other path");
    assert_eq!((out.path, assoc.tx.out.lost(), assoc.tx.fast), (1, 2, true));
    // The device takes something again.
    assoc.paths.refund(0, 1 << 30);
    let out = assoc.output(&mut cx).expect("what was lost goes again");
    assert_eq!((out.path, assoc.tx.out.lost(), assoc.tx.fast), (0, 0, false));
}

/// Packet after packet with a message each.
fn receive(assoc: &mut Assoc, world: &mut World, messages: u32, len: usize) {
    let first = assoc.rx.map.cum().wire().wrapping_add(1);
    for n in 0..messages {
        let tsn = first.wrapping_add(n);
        let header = DataRepr { flags: DataFlags::WHOLE, tsn, sid: 0, ssn: n as u16, ppid: 0 };
        input(assoc, world, &Wire::Data(header, &vec![n as u8; len]));
    }
}

/// A packet with this chunk comes in.
fn input(assoc: &mut Assoc, world: &mut World, chunk: &Wire<'_>) {
    input_under(assoc, world, Pressure::Low, chunk);
}

/// The same with so little memory left.
fn input_under(assoc: &mut Assoc, world: &mut World, pressure: Pressure, chunk: &Wire<'_>) {
    input_at(assoc, world, (now(), pressure), chunk);
}

fn input_at(assoc: &mut Assoc, world: &mut World, (at, pressure): (Instant, Pressure), chunk: &Wire<'_>) {
    let mut chunks = vec![0; chunk.buffer_len()];
    chunk.emit(&mut chunks);
    let buffer = Bytes::from(chunks);
    let (vtag, chunks) = (assoc.id.tags.0, &buffer[..]);
    let inbound = Inbound { from: ip(1), to: ip(99), vtag, chunks, buffer: &buffer, ce: false, encap: 0 };
    let mut cx = world.cx(at);
    cx.pressure = pressure;
    assoc.input(&mut cx, &inbound).unwrap();
}

/// Messages that nobody can read wait for a number, not for a TSN: a peer that leaves one out gets no more than the least buffer.
#[test]
fn messages_out_of_turn_take_the_least_buffer_of_exhausted_memory() {
    for whole in [true, false] {
        let mut world = World::new();
        let mut assoc = up(&mut world, 1);
        let first = assoc.rx.map.cum().wire().wrapping_add(1);
        for n in 0..100 {
            let part = if n == 0 { DataFlags::BEGIN } else { DataFlags::EMPTY };
            let (flags, ssn) = if whole { (DataFlags::WHOLE, 1 + n as u16) } else { (part, 1) };
            let header = DataRepr { flags, tsn: first.wrapping_add(n), sid: 0, ssn, ppid: 0 };
            input_under(&mut assoc, &mut world, Pressure::Exhausted, &Wire::Data(header, &[7; 1_000]));
        }
        assert_eq!(assoc.state, State::Established);
        let (held, least) = (assoc.rx.streams.charge(), Sysctl::default().tcp_rmem.min as usize);
        assert!((least..2 * least).contains(&held), "{held}");
    }
}

/// An answer asked for by hand waits for the handshake, but not for an association that is over.
#[test]
fn nobody_is_asked_once_it_is_over() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 1);
    assoc.request_heartbeat(ip(1)).unwrap();
    assert!(assoc.paths.get(0).hb.wanted);
    assoc.paths.get_mut(0).hb.wanted = false;
    assoc.cut_off(&mut world.cx(now()), crate::base::Error::ProtocolUnreachable);
    assoc.request_heartbeat(ip(1)).unwrap();
    assert!(!assoc.wants_output());
}

/// What has no route waits for that, not for a device.
#[test]
fn the_reason_for_silence_is_the_route_where_that_is_missing() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 1);
    lose(&mut assoc, 0, true);
    assoc.lose_route(0);
    let mut cx = world.cx(now());
    assoc.send(&mut cx, Bytes::from_static(b"new"), SendInfo::default()).unwrap();
    assert!(assoc.output(&mut cx).is_none());
    assert_eq!(assoc.wait(), (Wait::NoPath, None));
}

/// While memory is exhausted a SACK offers the least buffer, however much was read: one that says the same again is not sent.
#[test]
fn reading_from_a_window_that_cannot_open_says_nothing() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 1);
    receive(&mut assoc, &mut world, 100, 1_000);
    let mut cx = world.cx(now());
    cx.pressure = Pressure::Exhausted;
    assert!(assoc.output_sack(&mut cx).is_some());
    assert_eq!(assoc.rx.advertised, 0);
    let mut sacks = 0;
    for _ in 0..100 {
        let mut cx = world.cx(now());
        cx.pressure = Pressure::Exhausted;
        assert!(matches!(assoc.recv(&mut cx, 1 << 20), Ok(Some(_))));
        sacks += usize::from(assoc.output_sack(&mut cx).is_some());
    }
    assert!((1..=3).contains(&sacks), "{sacks}");
    assert_eq!(assoc.rx.advertised, Sysctl::default().tcp_rmem.min);
}

/// What a full device holds back is asked for at each turn, and a full device is the usual state of a bulk flow.
#[test]
fn a_turn_looks_at_paths_and_not_at_all_that_was_lost() {
    for paths in 1..=3 {
        let mut world = World::new();
        let mut assoc = up(&mut world, paths);
        for n in 0..3_000 {
            lose(&mut assoc, n as u8 % paths, n % 7 < 3);
        }
        for id in 0..paths {
            fill(&mut assoc, id);
        }
        let mut cx = world.cx(now());
        assoc.send(&mut cx, Bytes::from_static(b"new"), SendInfo::default()).unwrap();
        let steps = steps::of(|| assert!(assoc.output(&mut cx).is_none()));
        assert!(steps <= 8 * u64::from(paths), "{paths} paths: {steps}");
        assert_eq!(assoc.wait().0, crate::base::Wait::Credit);
    }
}

#[test]
fn new_data_of_one_path_does_not_look_at_all_that_another_has_lost() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 3);
    for _ in 0..3_000 {
        lose(&mut assoc, 0, true);
    }
    fill(&mut assoc, 0);
    let mut cx = world.cx(now());
    let info = SendInfo { to: Some(ip(3)), ..SendInfo::default() };
    assoc.send(&mut cx, Bytes::from_static(b"new"), info).unwrap();
    let mut path = None;
    let steps = steps::of(|| path = assoc.output(&mut cx).map(|out| out.path));
    assert!(path == Some(2) && steps <= 30, "{path:?}: {steps}");
}

/// What has no way to go holds back nothing that has one.
#[test]
fn what_was_lost_on_a_path_without_a_route_keeps_nothing_else() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 2);
    lose(&mut assoc, 0, false);
    assoc.paths.get_mut(0).lose_route();
    let change = assoc.paths.on_error(&world.cx(now()), 1);
    assert_eq!(change, Some(PathChange::PotentiallyFailed));
    assoc.paths.choose();
    let out = assoc.output(&mut world.cx(now())).expect("the other path takes it");
    assert_eq!((out.path, assoc.tx.out.lost()), (1, 0));
}

/// The association names so many paths that asking all of them for each message would be felt.
#[test]
fn small_messages_in_one_packet_ask_for_the_fragmentation_point_once() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 16);
    let mut cx = world.cx(now());
    for _ in 0..20 {
        assoc.send(&mut cx, Bytes::from_static(&[7; 40]), SendInfo::default()).unwrap();
    }
    let mut len = 0;
    let steps = steps::of(|| len = assoc.output(&mut cx).map_or(0, |out| out.unit));
    assert!(len > 20 * 56 && steps <= 3 * 16, "{len} bytes, {steps} steps");
}

/// Gap blocks, misses in fast recovery and what is taken back cost sets and searches by blocks and holes, not by chunks.
#[test]
fn a_sack_costs_its_blocks_and_what_is_missing() {
    for paths in 1..=2_u8 {
        let mut world = World::new();
        let mut assoc = up(&mut world, paths);
        let base = assoc.tx.out.cum();
        for n in 0..3_000 {
            let path = n as u8 % paths;
            leave(&mut assoc, path, 0);
            let next = assoc.tx.out.next_tsn();
            assoc.paths.get_mut(path).on_chunk_sent(&mut world.cx(now()), 10, next);
        }
        let mut sack = |assoc: &mut Assoc, cum: u64, gaps: &[(u16, u16)]| {
            let gaps: Vec<_> = gaps.iter().map(|(start, end)| GapBlock::new(*start, *end)).collect();
            let sack = Sack { cum_tsn: base.plus(cum).wire(), a_rwnd: 1 << 20, gaps: &gaps, dups: &[] };
            steps::of(|| input(assoc, &mut world, &Wire::Sack(sack)))
        };
        // The first and the 1,500th are missing, until three SACKs have said so.
        for last in [2_988, 2_990, 2_992] {
            let steps = sack(&mut assoc, 0, &[(2, 1_499), (1_501, last)]);
            assert!(steps <= 12, "{steps} for gap blocks");
            assert_eq!(assoc.tx.out.acked(), u64::from(last) - 2);
        }
        assert_eq!((assoc.tx.out.lost(), assoc.paths.get(0).cwnd.recovery.is_some()), (2, true));
        let steps = sack(&mut assoc, 1_499, &[(2, 1_494)]);
        assert!(steps <= 12, "{steps} in recovery");
        // All of it is taken back, and named again.
        for gaps in [&[][..], &[(2, 1_494)], &[]] {
            let steps = sack(&mut assoc, 1_499, gaps);
            assert!(steps <= 12, "{steps} for {gaps:?}");
        }
        assert_eq!(assoc.tx.out.acked(), 0);
        let steps = sack(&mut assoc, 3_000, &[]);
        assert!(steps <= 12 && assoc.tx.out.is_empty(), "{steps}");
    }
}

/// What a peer makes us keep beside messages counts for the memory of the stack.
#[test]
fn streams_and_errors_of_a_peer_are_charged() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 1);
    assoc.rx.inbound = u16::MAX;
    assoc.options.events = Subscriptions::REMOTE_ERROR;
    for sid in 0..6_400 {
        let tsn = assoc.rx.map.cum().next().wire();
        let header = DataRepr { flags: DataFlags::WHOLE, tsn, sid, ssn: 0, ppid: 0 };
        input(&mut assoc, &mut world, &Wire::Data(header, b"x"));
        assert!(assoc.recv(&mut world.cx(now()), 10).is_ok());
    }
    let (_, streams) = assoc.recharge();
    assert!(streams >= 200 * 64 && streams as usize <= assoc.rx.streams.stream_bytes(), "{streams}");
    let unknown = [7; 10_000];
    let cause = Cause::UnrecognizedChunk(&unknown);
    let mut causes = vec![0; cause.stated_len()];
    cause.emit(&mut causes);
    for _ in 0..64 {
        input(&mut assoc, &mut world, &Wire::Error(Tlvs::new(&causes)));
    }
    let (_, held) = assoc.recharge();
    assert!((50_000..=80_000).contains(&(held - streams)), "{held}");
    assert!(assoc.take_dropped().0 > 50);
    while assoc.recv(&mut world.cx(now()), 10).is_ok() {}
    assert_eq!(assoc.recharge(), (held, streams));
}

/// Who wants no pacing has it from BBR as long as that moves the window.
#[test]
fn pacing_that_a_controller_wanted_ends_with_it() {
    for pacing in [false, true] {
        let mut world = World::new();
        let mut assoc = up(&mut world, 1);
        let options = SctpOptions { pacing, congestion: SctpCongestionKind::Bbr, ..(*assoc.options).clone() };
        assoc.paths.get_mut(0).flow.pacing.release();
        let mut cx = world.cx(now());
        assoc.set_options(&mut cx, options.clone());
        assoc.send(&mut cx, Bytes::from_static(b"x"), SendInfo::default()).unwrap();
        assert!(assoc.output(&mut cx).is_some());
        assert!(assoc.paths.get(0).flow.pacing.is_paced());
        assoc.set_options(&mut cx, SctpOptions { congestion: SctpCongestionKind::Rfc9260, ..options });
        assert_eq!(assoc.paths.get(0).flow.pacing.is_paced(), pacing);
    }
}

/// A path on which nothing but T3-rtx brings anything through delivers little in long times; a rate that followed that would be a
/// delay of minutes, and the next sample less still.
#[test]
fn what_timers_send_does_not_make_bbr_ever_slower() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 1);
    let mut options = SctpOptions { congestion: SctpCongestionKind::Bbr, ..(*assoc.options).clone() };
    options.path.hb_enable = false;
    assoc.set_options(&mut world.cx(now()), options);
    let (rtt, mut at) = (Duration::from_millis(10), now());
    for _ in 0..2_000 {
        assoc.send(&mut world.cx(at), Bytes::from_static(b"12345678"), SendInfo::default()).unwrap();
    }
    // The peer's buffer is full of small chunks behind the first that is missing: it takes three in each round trip, and says so.
    let mut cum_tsn = assoc.tx.out.next_tsn().wire().wrapping_sub(1);
    for round in 0..60 {
        let (begun, mut sent) = (at, 0);
        while sent == 0 {
            while let Some(out) = assoc.output(&mut world.cx(at)) {
                let number = assoc.paths.get(out.path).number();
                assoc.on_complete(number, out.charge);
                sent += 1;
            }
            if sent == 0 {
                at = assoc.next_deadline().expect("a timer or a pace").max(at);
                assoc.on_timeout(&mut world.cx(at));
            }
        }
        assert!(at.since(begun) < Duration::from_secs(100), "round {round}: {:?}", assoc.wait());
        at += rtt;
        cum_tsn = cum_tsn.wrapping_add(3);
        let sack = Sack { cum_tsn, a_rwnd: 400, gaps: &[], dups: &[] };
        input_at(&mut assoc, &mut world, (at, Pressure::Low), &Wire::Sack(sack));
    }
    let delay = assoc.paths.get(0).flow.pacing.delay(at);
    assert!(delay <= rtt * 2, "{delay:?} at {} B/s", assoc.paths.get(0).flow.pacing.rate());
}

/// Section 3.3.4: the first block begins two behind the cumulative TSN, for what lies between is what is missing. Who names that too has it
/// sent again: nothing else would run for it, not even where its owner has closed.
#[test]
fn the_tsn_behind_the_cumulative_one_is_missing_whatever_a_gap_block_says() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 1);
    assoc.send(&mut world.cx(now()), Bytes::from_static(b"x"), SendInfo::default()).unwrap();
    assert!(assoc.output(&mut world.cx(now())).is_some());
    assoc.close(&mut world.cx(now()));
    let cum_tsn = assoc.tx.out.cum().wire();
    let mut at = now();
    for _ in 0..60 {
        let gaps = [GapBlock::new(1, 1)];
        let sack = Sack { cum_tsn, a_rwnd: 1 << 20, gaps: &gaps, dups: &[] };
        input_at(&mut assoc, &mut world, (at, Pressure::Low), &Wire::Sack(sack));
        if assoc.state == State::Closed {
            break;
        }
        at = at.max(assoc.next_deadline().expect("a timer"));
        assoc.on_timeout(&mut world.cx(at));
        while assoc.output(&mut world.cx(at)).is_some() {}
        // The peer answers every HEARTBEAT.
        assoc.on_alive(0, true);
        assoc.paths.get_mut(0).hb.nonce = 0;
    }
    assert_eq!(assoc.state, State::Closed);
}

/// Nor whatever one has said: a SHUTDOWN that comes no further takes it back.
#[test]
fn the_tsn_behind_that_of_a_shutdown_is_missing_too() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 1);
    for _ in 0..3 {
        assoc.send(&mut world.cx(now()), Bytes::from_static(b"x"), SendInfo::default()).unwrap();
        assert!(assoc.output(&mut world.cx(now())).is_some());
        assoc.end_train();
    }
    let cum = assoc.tx.out.cum();
    let gaps = [GapBlock::new(2, 3)];
    let sack = Sack { cum_tsn: cum.wire(), a_rwnd: 1 << 20, gaps: &gaps, dups: &[] };
    input(&mut assoc, &mut world, &Wire::Sack(sack));
    input(&mut assoc, &mut world, &Wire::Shutdown(cum.next().wire()));
    assert_eq!(
        (assoc.state, assoc.tx.out.in_flight(), assoc.tx.out.acked()),
        (State::ShutdownReceived, 1, 1)
    );
    assert_ne!(assoc.paths.get(0).t3, Instant::FAR_FUTURE);
    input(&mut assoc, &mut world, &Wire::Shutdown(cum.plus(3).wire()));
    assert_eq!(assoc.state, State::ShutdownAckSent);
}

/// Rule R3 of section 6.3.2 speaks of the earliest TSN of an address: that another path waits is nothing to this one.
#[test]
fn t3_of_a_path_begins_anew_though_the_cumulative_tsn_waits_for_another() {
    for (gaps, anew) in [([(2, 2), (3, 3)], true), ([(3, 3), (4, 4)], false), ([(2, 2), (4, 4)], true)] {
        let mut world = World::new();
        let mut assoc = up(&mut world, 2);
        for to in [1, 2, 2, 2, 2] {
            let info = SendInfo { to: Some(ip(to)), ..SendInfo::default() };
            assoc.send(&mut world.cx(now()), Bytes::from_static(b"x"), info).unwrap();
            assert!(assoc.output(&mut world.cx(now())).is_some());
            assoc.end_train();
        }
        let before = assoc.paths.get(1).t3;
        let cum_tsn = assoc.tx.out.cum().wire();
        let at = now() + Duration::from_millis(500);
        let gaps = gaps.map(|(start, end)| GapBlock::new(start, end));
        let sack = Sack { cum_tsn, a_rwnd: 1 << 20, gaps: &gaps, dups: &[] };
        input_at(&mut assoc, &mut world, (at, Pressure::Low), &Wire::Sack(sack));
        let path = assoc.paths.get(1);
        assert_eq!(path.t3, if anew { at + path.rto.get() } else { before }, "{gaps:?}");
    }
}

/// Section 6.1 A: what is sent into a window that has no room for it is a probe, also where the window is not quite closed.
#[test]
fn a_peer_that_has_less_room_than_a_chunk_takes_lives() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 1);
    let mut at = now();
    assoc.tx.peer_rwnd = 100;
    assoc.send(&mut world.cx(at), Bytes::from_static(&[7; 1_000]), SendInfo::default()).unwrap();
    let cum_tsn = assoc.tx.out.cum().wire();
    let mut probes = 0;
    while at < now() + Duration::from_secs(3_600) {
        while let Some(out) = assoc.output(&mut world.cx(at)) {
            probes += u32::from(out.charge > 0);
            let number = assoc.paths.get(out.path).number();
            assoc.on_complete(number, out.charge);
        }
        assoc.paths.get_mut(0).hb.nonce = 0;
        let sack = Sack { cum_tsn, a_rwnd: 100, gaps: &[], dups: &[] };
        input_at(&mut assoc, &mut world, (at, Pressure::Low), &Wire::Sack(sack));
        assert_eq!(assoc.paths.get(0).state(), PathState::Active);
        at = at.max(assoc.next_deadline().expect("a timer"));
        assoc.on_timeout(&mut world.cx(at));
    }
    assert!(assoc.state == State::Established && probes > 20, "{probes}");
}

/// What goes with COOKIE ECHO may run out of tries before its answer comes: then the association never began.
#[test]
fn an_association_that_fails_before_cookie_ack_could_not_start() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 1);
    assoc.state = State::CookieEchoed;
    assoc.options.events = Subscriptions::ASSOC;
    assoc.options.association_max_retrans = 0;
    while assoc.recv(&mut world.cx(now()), 10).is_ok() {}
    assert!(!assoc.on_error(&mut world.cx(now()), 0));
    let note = assoc.recv(&mut world.cx(now()), 10).unwrap();
    let cannot =
        |note: &Notification| matches!(note, Notification::Assoc { change: AssocChange::CannotStart, .. });
    assert!(matches!(&note, Some(Received::Notification(note)) if cannot(note)), "{note:?}");
}

/// What was given up is not under way: a small message does not wait until the peer has heard of it.
#[test]
fn nagles_rule_waits_for_what_is_in_flight() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 1);
    assoc.options.nodelay = false;
    let tsn = leave(&mut assoc, 0, 0);
    let mut cx = world.cx(now());
    assoc.send(&mut cx, Bytes::from_static(b"small"), SendInfo::default()).unwrap();
    assert!(assoc.output(&mut cx).is_none() && assoc.wait().0 == Wait::Nagle);
    assert!(assoc.tx.out.abandon(tsn).is_some());
    assert!(assoc.output(&mut cx).is_some(), "{:?}", assoc.wait());
}

/// RFC 6525 section 5.2.7 has no limit for "in progress". What waits for the answer may have no owner any more.
#[test]
fn a_promise_does_not_put_off_a_shutdown_for_ever() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 1);
    assoc.id.features = handshake::init::Features(handshake::init::Features::RECONF);
    assoc.options.reconfigurable = Reconfigurable::ALL;
    assoc.reset_streams(&[0], true, false).unwrap();
    assoc.send(&mut world.cx(now()), Bytes::from_static(b"x"), SendInfo::default()).unwrap();
    assoc.close(&mut world.cx(now()));
    let (mut at, mut asked) = (now(), 0);
    for _ in 0..100 {
        while assoc.output(&mut world.cx(at)).is_some() {}
        if assoc.state == State::Closed {
            break;
        }
        let reconf = assoc.pending.reconf.as_ref().expect("a request is out");
        let number = reconf.request.as_ref().expect("it is not answered").parts[0].number;
        asked += 1;
        let param = Param::ResetResponse(number, 6, None);
        let mut list = vec![0; param.stated_len()];
        param.emit(&mut list);
        input_at(&mut assoc, &mut world, (at, Pressure::Low), &Wire::ReConfig(Tlvs::new(&list)));
        at = at.max(assoc.next_deadline().expect("a timer"));
        assoc.on_timeout(&mut world.cx(at));
        // The peer answers every HEARTBEAT.
        assoc.on_alive(0, true);
        assoc.paths.get_mut(0).hb.nonce = 0;
    }
    assert!(assoc.state == State::Closed && asked >= 10, "{:?} {asked}", assoc.state);
}

/// The same request again and again in one packet: what it asks for waits for messages that are not sent yet.
#[test]
fn requests_that_wait_look_at_the_messages_once_in_a_packet() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 1);
    assoc.id.features = handshake::init::Features(handshake::init::Features::RECONF);
    assoc.options.reconfigurable = Reconfigurable::ALL;
    assoc.id.peer_tsn = 7;
    for n in 0..1_000 {
        let info = SendInfo { stream: u16::from(n == 999), ..SendInfo::default() };
        assoc.send(&mut world.cx(now()), Bytes::from_static(b"x"), info).unwrap();
    }
    let param = Param::IncomingReset(7, &[1.into()]);
    let mut list = vec![0; param.stated_len().next_multiple_of(4)];
    param.emit(&mut list);
    let chunk = Wire::ReConfig(Tlvs::new(&list[..param.stated_len()]));
    let mut packet = Vec::new();
    for _ in 0..50 {
        let at = packet.len();
        packet.resize(at + chunk.buffer_len(), 0);
        chunk.emit(&mut packet[at..]);
    }
    let buffer = Bytes::from(packet);
    let (vtag, chunks) = (assoc.id.tags.0, &buffer[..]);
    let inbound = Inbound { from: ip(1), to: ip(99), vtag, chunks, buffer: &buffer, ce: false, encap: 0 };
    let steps = steps::of(|| assoc.input(&mut world.cx(now()), &inbound).unwrap());
    let answers = assoc.pending.reconf.as_ref().map(|reconf| reconf.answers.len());
    assert!((1_000..1_100).contains(&steps) && answers > Some(1), "{steps} steps, {answers:?} answers");
}

/// Section 8.3: whatever HEARTBEAT is answered, the path lives, also where a round trip is longer than the time between two.
#[test]
fn an_answer_that_comes_after_the_next_heartbeat_is_one() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 1);
    let mut ask = |assoc: &mut Assoc, ms: u64| {
        let at = now() + Duration::from_millis(ms);
        assoc.request_heartbeat(ip(1)).unwrap();
        let bytes = assoc.output(&mut world.cx(at)).expect("a HEARTBEAT").bytes;
        bytes[12 + 4..12 + 4 + 16].to_vec()
    };
    let asked = [0, 500].map(|ms| ask(&mut assoc, ms));
    assoc.paths.get_mut(0).errors = 3;
    let late = now() + Duration::from_millis(700);
    input_at(&mut assoc, &mut world, (late, Pressure::Low), &Wire::HeartbeatAck(Tlvs::new(&asked[0])));
    let path = assoc.paths.get(0);
    assert_eq!((path.errors, path.rto.srtt()), (0, None), "it lives, and nobody knows how far away");
    // One answer is enough.
    assoc.paths.get_mut(0).errors = 3;
    input_at(&mut assoc, &mut world, (late, Pressure::Low), &Wire::HeartbeatAck(Tlvs::new(&asked[1])));
    assert_eq!(assoc.paths.get(0).errors, 3);
    let again = {
        assoc.request_heartbeat(ip(1)).unwrap();
        let bytes = assoc.output(&mut world.cx(late)).expect("a HEARTBEAT").bytes;
        bytes[12 + 4..12 + 4 + 16].to_vec()
    };
    assert_ne!(again[..12], asked[1][..12], "another number");
    let at = late + Duration::from_millis(40);
    input_at(&mut assoc, &mut world, (at, Pressure::Low), &Wire::HeartbeatAck(Tlvs::new(&again)));
    assert_eq!(assoc.paths.get(0).rto.srtt(), Some(Duration::from_millis(40)));
}

/// What went with a cookie in vain goes again with the next one, also where the owner has closed meanwhile.
#[test]
fn a_close_waits_for_what_went_with_a_stale_cookie() {
    for sent in [true, false] {
        let mut world = World::new();
        let mut assoc = up(&mut world, 1);
        if sent {
            lose(&mut assoc, 0, false);
        }
        assoc.state = State::CookieWait;
        assoc.close(&mut world.cx(now()));
        assert_eq!(assoc.state, if sent { State::CookieWait } else { State::Closed });
    }
}

#[test]
fn what_is_under_way_counts_for_the_window_of_a_handshake_that_crosses() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 1);
    (assoc.state, assoc.opening) = (State::CookieEchoed, Some(Box::default()));
    leave(&mut assoc, 0, 0);
    let ticket = handshake::cookie::Ticket {
        made_at: now(),
        life_ms: 1_000,
        ports: (1, 2),
        tags: assoc.id.tags,
        tsns: (assoc.id.tsn, 77),
        ties: (0, 0),
        streams: (1, 1),
        peer_rwnd: 1_500,
        features: handshake::init::Features::default(),
        adaptation: None,
        local: ip(99),
        addresses: [ip(1)].into_iter().collect(),
    };
    assert!(assoc.on_own_cookie(&mut world.cx(now()), &ticket, true));
    assert_eq!((assoc.state, assoc.tx.peer_rwnd), (State::Established, 1_490));
}

/// A FORWARD TSN that comes late speaks of numbers that its stream no longer has once that has begun anew (RFC 6525 section 5.2.2).
#[test]
fn a_late_forward_tsn_does_not_move_a_stream_that_has_begun_anew() {
    use lowwater_wire::sctp::{ForwardStream, Reset};
    let mut world = World::new();
    let mut assoc = up(&mut world, 1);
    let features = handshake::init::Features::RECONF | handshake::init::Features::FORWARD_TSN;
    assoc.id.features = handshake::init::Features(features);
    assoc.options.reconfigurable = Reconfigurable::ALL;
    (assoc.id.peer_tsn, assoc.rx.inbound) = (7, 10);
    receive(&mut assoc, &mut world, 3, 1);
    let last = assoc.rx.map.cum().wire();
    let streams = [ForwardStream::new(0, 5), ForwardStream::new(1, 5)];
    let late = Wire::ForwardTsn(last, &streams);
    let fixed = Reset { request: 7.into(), response: 0.into(), last_tsn: last.into() };
    let param = Param::OutgoingReset(&fixed, &[0.into()]);
    let mut list = vec![0; param.buffer_len()];
    param.emit(&mut list);
    input(&mut assoc, &mut world, &Wire::ReConfig(Tlvs::new(&list[..param.stated_len()])));
    input(&mut assoc, &mut world, &late);
    while assoc.recv(&mut world.cx(now()), 10).is_ok() {}
    // The first of stream 0 by its new numbers, and the sixth of stream 1, whose numbers go on.
    for (n, (sid, ssn)) in (1..).zip([(0, 0), (1, 6)]) {
        let header = DataRepr { flags: DataFlags::WHOLE, tsn: last.wrapping_add(n), sid, ssn, ppid: 0 };
        input(&mut assoc, &mut world, &Wire::Data(header, b"x"));
        assert!(matches!(assoc.recv(&mut world.cx(now()), 10), Ok(Some(Received::Data { .. }))), "{sid}");
    }
}

/// Each stream has its own: the reset of another does not make its old numbers new ones again.
#[test]
fn a_late_forward_tsn_is_known_though_another_stream_has_begun_anew_since() {
    let old = |rx: &receiver::Receiver, at: tsn::Tsn| [0, 1, 2].map(|stream| rx.is_of_old(at, stream));
    let mut world = World::new();
    let mut assoc = up(&mut world, 1);
    let rx = &mut assoc.rx;
    let last = rx.map.cum();
    rx.begin_anew(last, &[0]);
    rx.begin_anew(last.plus(5), &[1]);
    assert_eq!(old(rx, last), [true, true, false]);
    assert_eq!(old(rx, last.plus(1)), [false, true, false]);
    rx.begin_anew(last.plus(7), &[0]);
    assert_eq!((old(rx, last.plus(7)), old(rx, last.plus(8))), ([true, false, false], [false; 3]));
    // All of them.
    rx.begin_anew(last.plus(9), &[]);
    rx.begin_anew(last.plus(11), &[2]);
    assert_eq!((old(rx, last.plus(9)), old(rx, last.plus(10))), ([true; 3], [false, false, true]));
    assert_eq!(rx.anew_bytes(), 24);
}

/// A timeout says something of the length of packets only where something long was out.
#[test]
fn what_is_short_does_not_make_packets_shorter_when_it_is_lost() {
    for (len, mtu) in [(100, 1_500), (1_400, 1_200)] {
        let mut world = World::new();
        world.sysctl.sctp_plpmtud_probe_interval = 5_000;
        let mut assoc = up(&mut world, 1);
        assoc.begin_probing(&world.cx(now()));
        assoc.on_probe_timer(&world.cx(now()), 0);
        // The base has passed, and the route's size is asked for.
        let probe = assoc.output(&mut world.cx(now())).expect("a probe").bytes;
        input(&mut assoc, &mut world, &Wire::HeartbeatAck(Tlvs::new(&probe[16..32])));
        assert!(assoc.output(&mut world.cx(now())).is_some_and(|out| out.unit > 1_400));
        assoc.send(&mut world.cx(now()), Bytes::from(vec![7; len]), SendInfo::default()).unwrap();
        while assoc.output(&mut world.cx(now())).is_some() {}
        assert!(assoc.tx.out.in_flight() > 0);
        recovery::t3::on_timer(&mut assoc, &mut world.cx(now()), 0);
        assert_eq!(assoc.paths.get(0).mtu(), mtu, "{len}");
    }
}

/// What gives up thousands of messages is said with each SACK: what is looked at is what was given up since.
#[test]
fn a_forward_tsn_that_goes_again_looks_at_nothing_twice() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 1);
    assoc.id.features = handshake::init::Features(handshake::init::Features::FORWARD_TSN);
    let cum_tsn = assoc.tx.out.cum().wire();
    for _ in 0..3_000 {
        let tsn = leave(&mut assoc, 0, 0);
        assert!(assoc.tx.out.abandon(tsn).is_some());
    }
    leave(&mut assoc, 0, 0);
    let mut said = |assoc: &mut Assoc, cum_tsn: u32| {
        let sack = Sack { cum_tsn, a_rwnd: 1 << 20, gaps: &[], dups: &[] };
        steps::of(|| {
            input(assoc, &mut world, &Wire::Sack(sack));
            assert!(assoc.output(&mut world.cx(now())).is_some());
        })
    };
    assert!(said(&mut assoc, cum_tsn) >= 3_000);
    for n in 1..100 {
        let few = said(&mut assoc, cum_tsn.wrapping_add(n * 30));
        assert!(few <= 10, "{few}");
    }
}

/// Section 7.2.4: a window is not cut again for what was out when it was cut first, whatever another path's timer says meanwhile. A path whose
/// own timer has run out begins anew.
#[test]
fn a_timer_of_one_path_does_not_end_the_recovery_of_another() {
    for timed_out in [0, 1_u8] {
        let mut world = World::new();
        let mut assoc = up(&mut world, 2);
        assoc.paths.get_mut(1).cwnd.cwnd = 40_000;
        for n in 0..20 {
            let path = u8::from(n > 0);
            leave(&mut assoc, path, 0);
            let next = assoc.tx.out.next_tsn();
            assoc.paths.get_mut(path).on_chunk_sent(&mut world.cx(now()), 10, next);
        }
        let cum_tsn = assoc.tx.out.cum().wire();
        let mut sacks = |assoc: &mut Assoc, blocks: &[(u16, u16)]| {
            for more in 0..3 {
                let last = blocks.len() - 1;
                let ends = |n: usize, end: u16| end + if n == last { more } else { 0 };
                let gaps = blocks.iter().enumerate().map(|(n, b)| GapBlock::new(b.0, ends(n, b.1)));
                let gaps: Vec<_> = gaps.collect();
                let sack = Sack { cum_tsn, a_rwnd: 1 << 20, gaps: &gaps, dups: &[] };
                input(assoc, &mut world, &Wire::Sack(sack));
            }
        };
        // The second is lost.
        sacks(&mut assoc, &[(3, 3)]);
        assert_eq!((assoc.paths.get(1).cwnd.cwnd, assoc.tx.out.lost()), (20_000, 1));
        recovery::t3::on_timer(&mut assoc, &mut World::new().cx(now()), timed_out);
        assoc.paths.get_mut(1).cwnd.cwnd = 20_000;
        let sixth = assoc.tx.out.cum().plus(6);
        if timed_out == 1 {
            for n in 6..=20 {
                let tsn = assoc.tx.out.cum().plus(n);
                assert!(assoc.tx.out.resend(tsn, 1, now()).is_some());
                assoc.paths.get_mut(1).cwnd.add(10);
            }
        }
        // So is the sixth.
        sacks(&mut assoc, &[(3, 5), (7, 8)]);
        assert!(assoc.tx.out.get(sixth).is_some_and(|c| c.mark == outstanding::Mark::Lost));
        let cwnd = assoc.paths.get(1).cwnd.cwnd;
        assert_eq!(cwnd, if timed_out == 0 { 20_000 } else { 10_000 });
    }
}

/// Section 6.1 A: what goes again into a closed window is a probe too, however much of it there is; and it goes as soon as the window opens.
#[test]
fn many_chunks_that_were_lost_probe_a_closed_window_one_by_one() {
    let mut world = World::new();
    let mut assoc = up(&mut world, 1);
    let rtt = Duration::from_millis(100);
    assoc.paths.get_mut(0).rto.sample(&assoc.options.rto, rtt);
    assoc.options.events = Subscriptions::PATH;
    while assoc.recv(&mut world.cx(now()), 10).is_ok() {}
    assoc.paths.get_mut(0).cwnd.cwnd = 40_000;
    let mut at = now();
    for _ in 0..6 {
        assoc.send(&mut world.cx(at), Bytes::from_static(&[7; 1_400]), SendInfo::default()).unwrap();
    }
    let first = assoc.tx.out.cum();
    let all = |assoc: &mut Assoc, world: &mut World, at: Instant| {
        let mut packets = 0;
        while let Some(out) = assoc.output(&mut world.cx(at)) {
            packets += u32::from(out.charge > 0);
            let number = assoc.paths.get(out.path).number();
            assoc.on_complete(number, out.charge);
            assoc.end_train();
        }
        packets
    };
    let sack = |assoc: &mut Assoc, world: &mut World, at: Instant, a_rwnd: u32| {
        let sack = Sack { cum_tsn: first.wire(), a_rwnd, gaps: &[], dups: &[] };
        input_at(assoc, world, (at, Pressure::Low), &Wire::Sack(sack));
    };
    assert_eq!(all(&mut assoc, &mut world, at), 6);
    let mut failed = 0;
    for round in 0..10 {
        sack(&mut assoc, &mut world, at + rtt, if round % 2 == 0 { 0 } else { 500 });
        assert_eq!(all(&mut assoc, &mut world, at + rtt), 0);
        // A HEARTBEAT is answered.
        assoc.on_alive(0, true);
        assoc.paths.get_mut(0).hb.nonce = 0;
        at = assoc.paths.get(0).t3;
        assoc.on_timeout(&mut world.cx(at));
        assert_eq!(all(&mut assoc, &mut world, at), 1, "round {round}");
        while let Ok(Some(Received::Notification(note))) = assoc.recv(&mut world.cx(at), 10) {
            let Notification::Path { change, .. } = note else { panic!("{note:?}") };
            failed += u32::from(change == PathChange::PotentiallyFailed);
        }
    }
    assert_eq!((failed, assoc.errors, assoc.paths.get(0).errors), (1, 0, 0), "the first was no probe");
    sack(&mut assoc, &mut world, at + rtt, 0);
    at += rtt * 20;
    sack(&mut assoc, &mut world, at, 50_000);
    assert!(all(&mut assoc, &mut world, at) >= 1, "{:?}", assoc.wait());
}
