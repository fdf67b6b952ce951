//! A peer that acknowledges what it likes: no order of acceptable acknowledgements breaks the counters or panics.
use super::*;
use crate::base::Rng;
use crate::base::testing::World;
use crate::base::time::Duration;
use crate::path::pmtu::Pmtu;
use crate::tcp::recovery::rto::Timeout;

const MSS: u16 = 500;

fn act(s: &mut Sender, path: &mut Path, cx: &mut Cx<'_>, rng: &mut Rng) {
    match rng.below(4) {
        0 => {
            let data = vec![0; rng.below(9_000) as usize];
            s.queue().unsent.begin_element(&mut crate::base::Pool::default(), &data, data.len(), 64_000);
            while s.cwnd_room(path) > 0
                && let Some(plan) = s.commit_send(cx, path, rng.below(9_000) as usize + 1)
            {
                if refused(s, path, cx, rng, &plan) {
                    break;
                }
            }
            s.after_write(cx, path, 1, rng.below(2) == 0, false);
        }
        1 => {
            let far = s.snd_nxt();
            while let Some(r) = s.next_lost(path, 1 + rng.below(5) as u16, far).and_then(|lost| s.fit(&lost))
            {
                let plan = s.commit_retransmit(cx, path, &r);
                if plan.is_some_and(|plan| refused(s, path, cx, rng, &plan)) {
                    break;
                }
            }
        }
        2 => fire(s, path, cx, rng),
        _ if rng.below(40) == 0 => {
            s.set_mss(100 + rng.below(400) as u16);
            s.on_mss_reduced(cx, path, false);
        }
        _ if rng.below(20) == 0 => s.enter_cwr(cx, path),
        _ if rng.below(6) == 0 => {
            let span = u64::from(s.snd_nxt().since(s.snd_una()));
            let start = s.snd_una() + rng.below(span + 1_000) as u32 - 500;
            s.on_gone();
            s.on_given_up(cx, path, start, rng.below(5_000) as u32);
        }
        _ => s.check_idle_restart(cx, path),
    }
}

/// Now and then the queue below has no room.
fn refused(s: &mut Sender, path: &mut Path, cx: &mut Cx<'_>, rng: &mut Rng, plan: &SendPlan) -> bool {
    let attempt = plan.attempt.filter(|_| rng.below(12) == 0);
    if let Some(attempt) = &attempt {
        s.take_back(cx, path, attempt, true);
        s.enter_cwr(cx, path);
        s.flight().check_counters();
    }
    attempt.is_some()
}

fn fire(s: &mut Sender, path: &mut Path, cx: &mut Cx<'_>, rng: &mut Rng) {
    let Some((kind, _)) = s.timer() else { return };
    match kind {
        TimerKind::Rto => {
            if let Some(r) = s.on_rto(cx, path, Timeout::Backoff)
                && let Some(plan) = s.commit_rto(cx, path, &r)
            {
                refused(s, path, cx, rng, &plan);
            }
        }
        TimerKind::Tlp => {
            let sent = match s.on_tlp(cx, path, false) {
                Probe::Resend(r) => s.commit_tlp(cx, path, &r),
                _ => None,
            };
            if let Some(plan) = sent {
                s.tlp_done(cx, path, true);
                refused(s, path, cx, rng, &plan);
            }
        }
        TimerKind::Reorder => {
            s.on_reorder_timeout(cx, path);
        }
    }
}

fn block(rng: &mut Rng, una: Seq, span: u64) -> (Seq, Seq) {
    let start = una + rng.below(span + 2_000) as u32 - 1_000;
    (start, start + rng.below(4_000) as u32 - 200)
}

#[test]
fn nothing_that_a_peer_says_breaks_the_counters() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let mut world = World::new();
        world.sysctl.tcp_recovery = (seed % 3 != 0).into();
        let mut path = Path::new(&world.cx(Instant::ZERO), Pmtu::new(1_500, false));
        let mut s = Sender::established(world.sysctl.tcp_reordering, Seq(rng.next_u32()), MSS);
        s.set_sack(seed % 5 != 0);
        s.note_window(20_000);
        let mut now = Instant::from_millis(10);
        for _ in 0..300 {
            now += Duration::from_micros(rng.below(40_000));
            act(&mut s, &mut path, &mut world.cx(now), &mut rng);
            let (una, span) = (s.snd_una(), u64::from(s.snd_nxt().since(s.snd_una())));
            let ack = match rng.below(4) {
                0 => una + rng.below(span + 1) as u32,
                1 => una - rng.below(3_000) as u32,
                _ => una,
            };
            let blocks: Vec<_> = (0..rng.below(5)).map(|_| block(&mut rng, una, span)).collect();
            let input = AckIn {
                ack,
                sack: &blocks,
                tsecr: (rng.below(2) == 0)
                    .then(|| (now.as_millis() as u32).wrapping_sub(rng.below(300) as u32)),
                at: now,
                has_data: rng.below(5) == 0,
                window_taken: rng.below(5) == 0,
                ece: rng.below(30) == 0,
                child: false,
                crossed: false,
                wnd_end: s.snd_nxt() + rng.below(20_000) as u32,
            };
            let out = s.on_ack(&mut world.cx(now), &mut path, &input);
            if out.rexmit == Rexmit::New {
                s.frto_sent();
            }
            s.flight().check_counters();
            s.check_sight();
            assert_eq!(s.timer().is_some(), s.flight().packets_out > 0, "seed {seed}: {s:?}");
        }
    }
}
