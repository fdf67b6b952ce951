//! Drawn events on one association: whatever comes, what is counted is what there is, and something runs that goes on.
use super::*;
use crate::base::Rng;
use crate::sctp::handshake::init::Features;
use crate::sctp::outstanding::Mark;

/// What has to hold between any two events.
fn check(assoc: &Assoc, last: &str) {
    let mut all = 0;
    for (id, path) in assoc.paths.iter() {
        let here = |mark: Mark| assoc.tx.out.iter().filter(move |(_, c)| c.path == id && c.mark == mark);
        let flight: u32 = here(Mark::InFlight).map(|(_, c)| c.len()).sum();
        let load: u32 = here(Mark::InFlight).map(|(_, c)| 16 + c.len().next_multiple_of(4)).sum();
        assert_eq!((path.cwnd.flight(), path.cwnd.in_flight()), (flight, load), "path {id} after {last}");
        all += flight;
        if assoc.state != State::Closed && flight > 0 {
            assert!(path.t3 != Instant::FAR_FUTURE, "no T3 on path {id} after {last}");
        }
        if let Some(timed) = path.timed.and_then(|tsn| assoc.tx.out.get(tsn)) {
            assert_eq!((timed.path, timed.sends, timed.mark), (id, 1, Mark::InFlight), "timed after {last}");
        }
    }
    assert_eq!(assoc.tx.out.in_flight(), all, "after {last}");
    let count = |mark: Mark| assoc.tx.out.iter().filter(|(_, c)| c.mark == mark).count() as u64;
    assert_eq!(assoc.tx.out.lost(), count(Mark::Lost), "after {last}");
    let named = assoc.tx.out.acked_ranges().map(|(s, e)| e - s).sum::<u64>();
    assert!(
        (count(Mark::Acked)..=count(Mark::Acked) + count(Mark::Abandoned)).contains(&named),
        "after {last}"
    );
    let bytes: usize = assoc.tx.out.iter().map(|(_, c)| c.data.len()).sum();
    assert_eq!(assoc.tx.out.bytes(), bytes, "after {last}");
}

/// What is out is acknowledged, goes again, or is waited for.
fn check_alive(assoc: &Assoc, last: &str) {
    if !assoc.state.may_send_data()
        || assoc.tx.out.is_empty()
        || assoc.paths.iter().any(|(_, p)| !p.is_routed())
    {
        return;
    }
    let timed = assoc.paths.iter().any(|(_, path)| path.t3 != Instant::FAR_FUTURE);
    let marks: Vec<_> = assoc.tx.out.iter().map(|(t, c)| (t, c.mark, c.path)).take(9).collect();
    assert!(
        timed || assoc.tx.out.lost() > 0 || assoc.pending.has(Pending::FORWARD_TSN),
        "nothing runs after {last}: {marks:?} {:?}",
        assoc.wait()
    );
}

fn draw(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut world = World::new();
    let paths = 1 + rng.below(3) as u8;
    let mut assoc = up(&mut world, paths);
    assoc.id.features = Features(Features::FORWARD_TSN | Features::ECN | Features::RECONF);
    assoc.options.nodelay = rng.below(2) == 0;
    assoc.options.events = Subscriptions::ALL;
    assoc.options.reconfigurable = Reconfigurable::ALL;
    let mut at = now();
    for n in 0..400 {
        if assoc.state == State::Closed {
            check(&assoc, "the end");
            return;
        }
        let last;
        match rng.below(19) {
            16 => {
                last = "ecne";
                let tsn = assoc.tx.out.cum().plus(rng.below(5)).wire();
                input_at(&mut assoc, &mut world, (at, Pressure::Low), &Wire::Ecne(tsn));
            }
            17 => {
                last = "reset";
                let streams: Vec<u16> = (0..rng.below(2) as u16).collect();
                let _ = match rng.below(3) {
                    0 => assoc.reset_streams(&streams, true, false),
                    1 => assoc.add_streams(1, 1),
                    _ => assoc.reset_association(),
                };
            }
            18 => {
                last = "close";
                if n > 300 && rng.below(10) == 0 {
                    assoc.close(&mut world.cx(at));
                } else if n > 300 && rng.below(10) == 0 {
                    let cum = assoc.tx.out.cum().plus(rng.below(2)).wire();
                    input_at(&mut assoc, &mut world, (at, Pressure::Low), &Wire::Shutdown(cum));
                }
            }
            0..=3 => {
                last = "send";
                let reliability = match rng.below(5) {
                    0 => Reliability::Lifetime(Duration::from_millis(1 + rng.below(3_000))),
                    1 => Reliability::Retransmissions(rng.below(3) as u32),
                    2 => Reliability::Priority(rng.below(5) as u32),
                    _ => Reliability::Full,
                };
                let to = (rng.below(3) == 0).then(|| ip(1 + rng.below(paths.into()) as u8));
                let info = SendInfo {
                    stream: rng.below(3) as u16,
                    unordered: rng.below(3) == 0,
                    reliability,
                    to,
                    ..SendInfo::default()
                };
                let len = if rng.below(4) == 0 { 1 + rng.below(6_000) } else { 1 + rng.below(200) } as usize;
                let _ = assoc.send(&mut world.cx(at), Bytes::from(vec![1; len]), info);
            }
            4..=9 => {
                last = "sack";
                let (cum, next) = (assoc.tx.out.cum(), assoc.tx.out.next_tsn());
                let out = next.0 - cum.0 - 1;
                let cum = if rng.below(3) == 0 {
                    cum.plus(rng.below(out + 1))
                } else {
                    cum.plus(rng.below(out.min(2) + 1))
                };
                let mut gaps = Vec::new();
                let mut from = 1 + u64::from(rng.below(8) != 0);
                for _ in 0..rng.below(5) {
                    let start = from + rng.below(4);
                    let end = start + rng.below(4);
                    if end < next.0 - cum.0 + 2 {
                        gaps.push(GapBlock::new(start as u16, end as u16));
                    }
                    from = if rng.below(20) == 0 { 1 } else { end + 2 };
                }
                let a_rwnd = [0, 100, 3_000, 1 << 20, 1 << 20][rng.below(5) as usize];
                let sack = Sack { cum_tsn: cum.wire(), a_rwnd, gaps: &gaps, dups: &[] };
                input_at(&mut assoc, &mut world, (at, Pressure::Low), &Wire::Sack(sack));
            }
            10 | 11 => {
                last = "timer";
                if let Some(next) = assoc.next_deadline() {
                    at = at.max(next);
                    assoc.on_timeout(&mut world.cx(at));
                }
            }
            12 => {
                last = "mtu";
                let id = rng.below(paths.into()) as u8;
                let mtu = 600 + rng.below(1_000) as u16;
                if rng.below(2) == 0 {
                    assoc.on_pmtu(ip(1 + id), mtu);
                } else {
                    let before = assoc.paths.get(id).mtu();
                    assoc.set_route(&world.cx(at), id, (ip(99), DeviceId(0)), mtu.max(before));
                }
            }
            13 => {
                last = "primary";
                let _ = assoc.set_primary(ip(1 + rng.below(paths.into()) as u8));
            }
            14 => {
                last = "heartbeat ack";
                let id = rng.below(paths.into()) as u8;
                let nonce = assoc.paths.get(id).hb.nonce;
                if nonce != 0 {
                    let info = super::super::input::heartbeat_info(nonce, id, assoc.paths.get(id).hb.asked);
                    let param = Param::HeartbeatInfo(&info);
                    let mut list = vec![0; param.stated_len()];
                    param.emit(&mut list);
                    input_at(
                        &mut assoc,
                        &mut world,
                        (at, Pressure::Low),
                        &Wire::HeartbeatAck(Tlvs::new(&list)),
                    );
                }
            }
            _ => {
                last = "route";
                let id = rng.below(paths.into()) as u8;
                if rng.below(4) == 0 {
                    assoc.lose_route(id);
                } else {
                    let mtu = assoc.paths.get(id).mtu();
                    for id in 0..paths {
                        assoc.set_route(&world.cx(at), id, (ip(99), DeviceId(rng.below(2) as u16 as _)), mtu);
                    }
                }
            }
        }
        check(&assoc, last);
        let turns = rng.below(6);
        for _ in 0..turns {
            at += Duration::from_micros(rng.below(3_000));
            let Some(out) = assoc.output(&mut world.cx(at)) else { break };
            if rng.below(10) != 0 {
                let number = assoc.paths.get(out.path).number();
                assoc.on_complete(number, out.charge);
            }
            check(&assoc, "output");
        }
        check_alive(&assoc, last);
        assoc.end_train();
    }
    settle(&mut assoc, &mut world, at);
}

/// From here on the peer takes everything, and all that was written is settled.
fn settle(assoc: &mut Assoc, world: &mut World, mut at: Instant) {
    for id in 0..assoc.paths.len() as PathId {
        let mtu = assoc.paths.get(id).mtu();
        assoc.set_route(&world.cx(at), id, (ip(99), DeviceId(0)), mtu);
    }
    for _ in 0..3_000 {
        let mut some = false;
        while let Some(out) = assoc.output(&mut world.cx(at)) {
            some = true;
            let number = assoc.paths.get(out.path).number();
            assoc.on_complete(number, out.charge);
        }
        assoc.end_train();
        if assoc.tx.is_dry() || assoc.state == State::Closed {
            return;
        }
        at += Duration::from_millis(10);
        let cum_tsn = assoc.tx.out.next_tsn().prev().wire();
        if some {
            let sack = Sack { cum_tsn, a_rwnd: 1 << 20, gaps: &[], dups: &[] };
            input_at(assoc, world, (at, Pressure::Low), &Wire::Sack(sack));
        } else {
            let next = assoc.next_deadline().unwrap_or_else(|| panic!("nothing runs: {:?}", assoc.wait()));
            at = at.max(next);
            assoc.on_timeout(&mut world.cx(at));
        }
        let number =
            assoc.pending.reconf.as_ref().and_then(|r| Some(r.request.as_ref()?.parts.first()?.number));
        if let Some(number) = number {
            let param = Param::ResetResponse(number, 2, None);
            let mut list = vec![0; param.stated_len()];
            param.emit(&mut list);
            input_at(assoc, world, (at, Pressure::Low), &Wire::ReConfig(Tlvs::new(&list)));
        }
        for id in 0..assoc.paths.len() as PathId {
            assoc.on_alive(id, true);
            assoc.paths.get_mut(id).hb.nonce = 0;
        }
        check(assoc, "settling");
    }
    panic!("it does not end: {:?} {} {}", assoc.wait(), assoc.tx.out.len(), assoc.tx.queue.len());
}

#[test]
fn whatever_comes_what_is_counted_is_what_there_is() {
    for seed in 0..500 {
        let drawn = std::panic::catch_unwind(|| draw(seed));
        assert!(drawn.is_ok(), "seed {seed}");
    }
}
