//! Heartbeats that cost nothing (transmit-path rule of Linux's ba6f5e33bdbb), and the bugs that it had afterwards.
use crate::world::*;
use lowwater_core::base::{Duration, SocketId, Sysctl};
use lowwater_core::sctp::{PathOptions, SctpOptions, SendInfo};
use lowwater_wire::sctp::chunk_kind as kind;

fn with_interval(ms: u32) -> Sysctl {
    Sysctl { sctp_hb_interval: ms, ..Sysctl::default() }
}

/// When A sent HEARTBEATs, in milliseconds.
fn beats(w: &World, link: usize) -> Vec<u64> {
    let beats = w.log.iter().filter(|l| l.from == A && l.link == link && l.kinds.contains(&kind::HEARTBEAT));
    beats.map(|l| l.at.as_millis()).collect()
}

fn steady(w: &mut World, a: SocketId, b: SocketId, every_ms: u64, count: u64) {
    for _ in 0..count {
        w.send(A, a, &[0; 100], SendInfo::default());
        w.pass(ms(every_ms));
        w.read(B, b);
    }
}

#[test]
fn a_busy_path_is_never_asked() {
    let mut w = World::with(1, &with_interval(500), 1);
    let (a, b) = w.pair();
    steady(&mut w, a, b, 5, 4_000);
    assert_eq!(beats(&w, 0), [0; 0]);
    let own = w.stacks[A].counters().own.clone();
    assert_eq!(own.sctp_hb_armed, 1, "armed at the beginning and never again");
    assert!(own.sctp_hb_early >= 10);
}

#[test]
fn an_idle_path_is_asked_after_the_interval_and_at_most_one_and_a_half_timeouts_more() {
    for seed in 1..6 {
        let mut w = World::with(1, &with_interval(5_000), seed);
        let (a, b) = w.pair();
        let mut quiet_from = w.now.as_millis();
        for silence in [3, 20] {
            steady(&mut w, a, b, 50, 20 + seed);
            quiet_from = quiet_from.max(
                w.log
                    .iter()
                    .filter(|l| l.from == A && l.kinds.contains(&kind::DATA))
                    .map(|l| l.at.as_millis())
                    .max()
                    .unwrap(),
            );
            let before = beats(&w, 0).len();
            w.pass(Duration::from_secs(silence));
            if silence == 20 {
                let beats = beats(&w, 0)[before..].to_vec();
                assert!(beats.len() >= 2, "{beats:?}");
                let mut last = quiet_from;
                for beat in beats {
                    assert!(
                        (5_000..=6_500).contains(&(beat - last)),
                        "seed {seed}: {} after {last}",
                        beat - last
                    );
                    last = beat;
                }
            }
        }
    }
}

/// usrsctp arms a whole interval on an early end, so that an idle path waits nearly two.
#[test]
fn an_early_end_is_followed_by_the_remainder() {
    let mut w = World::with(1, &with_interval(10_000), 3);
    let (a, b) = w.pair();
    w.pass(Duration::from_secs(9));
    w.send(A, a, b"x", SendInfo::default());
    let sent = w.now.as_millis();
    w.pass(Duration::from_secs(30));
    w.read(B, b);
    let beats = beats(&w, 0);
    assert!((10_000..=11_500).contains(&(beats[0] - sent)), "{beats:?} after {sent}");
}

#[test]
fn a_changed_interval_takes_effect_at_once() {
    let mut w = World::with(1, &with_interval(300_000), 4);
    let (a, _) = w.pair();
    w.pass(Duration::from_secs(10));
    let now = w.now;
    let options = PathOptions { hb_interval_ms: 1_000, ..w.options().path };
    w.stacks[A].sctp_set_path(now, a, ip(0, B), options).unwrap();
    w.pass(ms(2_600));
    assert!(!beats(&w, 0).is_empty());
    let before = beats(&w, 0).len();
    let now = w.now;
    let options = PathOptions { hb_enable: false, ..options };
    w.stacks[A].sctp_set_path(now, a, ip(0, B), options).unwrap();
    w.pass(Duration::from_secs(100));
    assert_eq!(beats(&w, 0).len(), before, "switched off");
    let now = w.now;
    w.stacks[A].sctp_heartbeat(now, a, ip(0, B)).unwrap();
    w.pass(ms(1));
    assert_eq!(beats(&w, 0).len(), before + 1, "on demand");
}

/// Linux once never armed a timer that was not running: no heartbeat ever, and a dead peer was never noticed.
#[test]
fn a_silent_association_notices_that_its_peer_is_gone() {
    let mut w = World::with(1, &with_interval(1_000), 5);
    let (a, _) = w.pair();
    w.rule = Box::new(|_| Fate::Lose);
    w.pass(Duration::from_secs(1_500));
    assert_eq!(w.info(A, a).state, lowwater_core::sctp::State::Closed);
}

#[test]
fn what_answers_a_heartbeat_must_carry_its_number() {
    let mut w = World::with(1, &with_interval(1_000), 6);
    let (a, _) = w.pair();
    w.pass(Duration::from_secs(10));
    assert!(beats(&w, 0).len() >= 3);
    assert_eq!(w.sent(B, kind::HEARTBEAT_ACK), beats(&w, 0).len());
    let info = w.info(A, a);
    assert_eq!((info.errors, info.paths[0].errors), (0, 0));
    assert!(info.paths[0].srtt.is_some_and(|srtt| srtt >= ms(20) && srtt < ms(25)), "{info:?}");
}

/// What experiment sctp-heartbeat counts: the eager variant arms with every packet, the lazy one hardly ever.
#[test]
fn the_eager_variant_draws_and_arms_with_every_packet() {
    let mut armed = Vec::new();
    for eager in [true, false] {
        let mut w = World::with(1, &Sysctl { sctp_hb_eager: eager, ..with_interval(500) }, 1);
        let options = SctpOptions { nodelay: true, ..w.options() };
        let (a, b) = w.associated(options.clone(), options);
        steady(&mut w, a, b, 5, 1_000);
        assert_eq!(beats(&w, 0), [0; 0], "eager {eager}");
        let own = &w.stacks[A].counters().own;
        armed.push((own.sctp_hb_armed, own.timer_armed));
    }
    let [(hb_eager, timer_eager), (hb_lazy, timer_lazy)] = armed[..] else { panic!("two runs") };
    assert!(hb_eager >= 1_000 && hb_lazy == 1, "{armed:?}");
    assert!(timer_eager >= 1_000 && timer_lazy < timer_eager / 50, "{armed:?}");
}
