//! What RACK must not lose sight of, and what it must forget.
use super::*;
use crate::base::steps;

/// The queue below refuses a tail loss probe: what is in flight is what left before it, and lost when later data overtakes it.
#[test]
fn a_probe_that_was_refused_leaves_the_tail_to_rack() {
    for refused in [true, false] {
        let mut rig = Rig::warm();
        rig.send(3, false);
        let left = rig.s.flight().tx.last().expect("in flight").1.departure();
        rig.ms = rig.timer().1;
        let mut cx = rig.world.cx(Instant::from_millis(rig.ms));
        let Probe::Resend(resend) = rig.s.on_tlp(&mut cx, &mut rig.path, true) else {
            panic!("nothing new to send")
        };
        let plan = rig.s.commit_tlp(&mut cx, &mut rig.path, &resend).expect("fresh");
        rig.s.tlp_done(&mut cx, &mut rig.path, true);
        if refused {
            rig.s.take_back(&mut cx, &mut rig.path, &plan.attempt.expect("data"), true);
            assert_eq!(rig.s.flight().tx.last().expect("in flight").1.departure(), left);
        }
        rig.ack(3, &[]);
        rig.send(4, false);
        rig.ms += RTT;
        // The probe, where it left, left with what is sacked, and has a quarter of a round trip.
        rig.ack(3, &[(4, 5)]);
        assert_eq!(rig.s.flight().lost_out, u32::from(refused), "refused: {refused}");
    }
}

/// A refused retransmission of what RACK had judged is not judged again when the mark is taken back.
#[test]
fn a_refused_retransmission_of_what_was_judged_stays_judged() {
    let mut rig = Rig::warm();
    rig.send(10, false);
    rig.ms += RTT;
    rig.ack(1, &[(5, 11)]);
    assert_eq!(rig.s.flight().lost_out, 4);
    let far = rig.s.snd_nxt();
    let resend = rig.s.next_lost(&rig.path, 1, far).and_then(|lost| rig.s.fit(&lost)).expect("lost");
    let mut cx = rig.world.cx(Instant::from_millis(rig.ms));
    let plan = rig.s.commit_retransmit(&mut cx, &mut rig.path, &resend).expect("fresh");
    rig.s.take_back(&mut cx, &mut rig.path, &plan.attempt.expect("data"), false);
    rig.check();
    assert_eq!((rig.s.flight().retrans_out, rig.s.recovery.rack.remembered()), (0, 0));
    assert_eq!(rig.resend().first(), Some(&(1, 1)), "it still is to be sent again");
}

/// What a queue of our own gave up is lost for certain. An undo takes back all marks; RACK makes this one again.
#[test]
fn what_was_given_up_is_judged_after_an_undo() {
    let mut rig = Rig::warm();
    rig.send(10, false);
    rig.ms += RTT;
    rig.ack(1, &[(5, 11)]);
    assert_eq!((rig.s.ca_state(), rig.s.flight().lost_out), (CaState::Recovery, 4));
    rig.send(4, false);
    let (seq, len) = (rig.seq(13), u32::from(rig.s.mss()));
    rig.s.on_given_up(&mut rig.world.cx(Instant::from_millis(rig.ms)), &mut rig.path, seq, len);
    rig.ms += RTT;
    rig.ack(1, &[(5, 13), (14, 15)]);
    assert_eq!(rig.s.flight().lost_out, 5);
    // Nothing was sent again, so what fills the hole was late.
    rig.ack(2, &[(5, 13), (14, 15)]);
    assert_eq!((rig.world.count.tcp_ext.tcp_partial_undo, rig.s.flight().tx.una()), (1, 2_001));
    rig.ack(13, &[(14, 15)]);
    rig.send(1, false);
    rig.ms += RTT;
    rig.ack(13, &[(14, 16)]);
    assert_eq!((rig.s.ca_state(), rig.s.flight().lost_out), (CaState::Recovery, 1));
    assert_eq!(rig.resend(), [(13, 1)]);
}

/// A window that shuts over data in flight has its head sent again for as long as the peer answers.
#[test]
fn a_window_that_stays_shut_makes_nothing_grow() {
    let mut rig = Rig::warm();
    rig.send(3, false);
    for _ in 0..1_000 {
        rig.fire();
        rig.ack(1, &[]);
    }
    assert!(rig.s.total_retrans() >= 999);
    assert!(rig.s.recovery.rack.remembered() <= 32, "{}", rig.s.recovery.rack.remembered());
}

#[test]
fn nothing_is_remembered_of_what_has_arrived() {
    let mut rig = Rig::warm();
    rig.send(10, false);
    rig.ms += RTT;
    rig.ack(1, &[(3, 11)]);
    assert_eq!(rig.resend().len(), 2);
    assert!(rig.s.recovery.rack.remembered() > 0);
    rig.ms += RTT;
    rig.ack(11, &[]);
    assert_eq!(rig.s.recovery.rack.remembered(), 0);
}

/// A segment is probed for so often that what is stale is forgotten, and the last probe is refused: the one before it is out, and is judged.
#[test]
fn the_probe_before_one_that_was_refused_is_judged() {
    let mut rig = Rig::warm();
    rig.send(1, false);
    rig.ms = rig.timer().1;
    let mut left = rig.s.flight().tx.last().expect("in flight").1.departure();
    for probes in 1.. {
        let before = left;
        let mut cx = rig.world.cx(Instant::from_millis(rig.ms));
        let Probe::Resend(resend) = rig.s.on_tlp(&mut cx, &mut rig.path, true) else {
            panic!("nothing new to send")
        };
        let remembered = rig.s.recovery.rack.remembered();
        let plan = rig.s.commit_tlp(&mut cx, &mut rig.path, &resend).expect("fresh");
        left = rig.s.flight().tx.last().expect("in flight").1.departure();
        if rig.s.recovery.rack.remembered() <= remembered {
            assert!(probes > 16, "forgotten early: {probes}");
            rig.s.tlp_done(&mut cx, &mut rig.path, true);
            rig.s.take_back(&mut cx, &mut rig.path, &plan.attempt.expect("data"), true);
            assert_eq!(cx.count.tcp_ext.tcp_loss_probes, 0, "what was refused is no probe");
            assert_eq!(rig.s.flight().tx.last().expect("in flight").1.departure(), before);
            break;
        }
        rig.ms += 1;
    }
    rig.check();
    rig.send(1, false);
    rig.ms += RTT;
    rig.ack(1, &[(2, 3)]);
    rig.ms += RTT;
    rig.s.on_reorder_timeout(&mut rig.world.cx(Instant::from_millis(rig.ms)), &mut rig.path);
    assert_eq!(rig.s.flight().lost_out, 1);
}

/// A peer takes a retransmission of many segments one by one, while another that left before it is out: what has arrived of it is not walked over
/// for each acknowledgement.
#[test]
fn what_has_arrived_of_a_retransmission_is_passed_over_at_once() {
    const SEGS: u64 = 40;
    let mut rig = Rig::warm();
    let now = Instant::from_millis(rig.ms);
    rig.path.window.set_cwnd(&mut rig.world.cx(now), 100);
    rig.send(1, false);
    rig.send(SEGS as usize, true);
    rig.send(3, false);
    rig.ms += RTT;
    let rest = (SEGS + 2, SEGS + 5);
    rig.ack(1, &[rest]);
    for (cwnd, sent) in [(1, (1, 1)), (100, (2, SEGS as u16))] {
        rig.ms += 1;
        let now = Instant::from_millis(rig.ms);
        rig.path.window.set_cwnd(&mut rig.world.cx(now), cwnd);
        assert_eq!(rig.resend(), [sent]);
    }
    // There is reordering, and nothing is judged for a quarter of a round trip.
    rig.s.recovery.reorder.seen = 1;
    rig.ms += RTT;
    let steps = steps::of(|| {
        for segs in 1..SEGS {
            rig.ack(1, &[(2, 2 + segs), rest]);
        }
    });
    assert_eq!((rig.s.flight().lost_out, rig.s.flight().sacked_out), (2, SEGS as u32 + 2));
    assert!((SEGS..10 * SEGS).contains(&steps), "{steps} steps");
}

/// A queue gives up the first part of a retransmission, and RACK judges a later one: an undo has the first judged again.
#[test]
fn the_part_of_a_retransmission_that_was_given_up_is_not_forgotten() {
    let mut rig = Rig::warm();
    let widen = |rig: &mut Rig| {
        let now = Instant::from_millis(rig.ms);
        rig.path.window.set_cwnd(&mut rig.world.cx(now), 100);
    };
    widen(&mut rig);
    let first = rig.ms as u32;
    rig.send(1, false);
    rig.send(4, true);
    rig.send(6, false);
    rig.ms += RTT;
    rig.ack(1, &[(6, 12)]);
    widen(&mut rig);
    assert_eq!(rig.resend(), [(1, 1), (2, 4)]);
    rig.send(4, false);
    // There is reordering, and nothing is judged for a quarter of a round trip.
    rig.s.recovery.reorder.seen = 1;
    rig.ms += RTT;
    // Its second segment arrives, so that there are three parts, of which the first waits in our own queue and is given up.
    rig.ack(1, &[(3, 4), (6, 12)]);
    let (seq, len) = (rig.seq(2), u32::from(rig.s.mss()));
    rig.s.on_given_up(&mut rig.world.cx(Instant::from_millis(rig.ms)), &mut rig.path, seq, len);
    rig.check();
    assert_eq!((rig.s.flight().lost_out, rig.s.flight().retrans_out), (4, 3));
    // What left after it arrives: the rest is lost again.
    rig.ms += RTT;
    rig.ack(1, &[(3, 4), (6, 16)]);
    assert_eq!((rig.fire(), rig.s.flight().retrans_out), (TimerKind::Reorder, 0));
    // The first of all had only been late: all marks are taken back, and what was given up is found again.
    rig.ack_with(2, &[(3, 4), (6, 16)], |input| input.tsecr = Some(first));
    assert_eq!((rig.world.count.tcp_ext.tcp_partial_undo, rig.s.flight().lost_out), (1, 1));
    assert_eq!(rig.resend(), [(2, 1)]);
}
