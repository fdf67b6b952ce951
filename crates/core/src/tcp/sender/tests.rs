//! Scripts against the sending side: each algorithm where it acts and where it must not.
use super::*;
use crate::base::testing::World;
use crate::base::time::Duration;
use crate::path::congestion::Window;
use crate::path::pmtu::Pmtu;
use crate::tcp::recovery::rto::{Patience, Timeout};

mod rack;
mod rounds;

const MSS: u16 = 1_000;
const RTT: u64 = 100;

impl Sender {
    /// RACK loses sight of nothing.
    pub(super) fn check_sight(&self) {
        self.recovery.rack.check_sight(&self.flight);
    }
}

/// A sender, its path and a clock in milliseconds.
pub(super) struct Rig {
    world: World,
    path: Path,
    s: Sender,
    ms: u64,
}

impl Rig {
    fn new() -> Self {
        let mut world = World::new();
        world.sysctl.tcp_congestion_control = crate::base::sysctl::CongestionKind::Reno;
        let path = Path::new(&world.cx(Instant::ZERO), Pmtu::new(1_500, false));
        let mut s = Sender::established(world.sysctl.tcp_reordering, Seq(u32::MAX - 5_000), MSS);
        s.set_sack(true);
        s.note_window(1 << 20);
        Self { world, path, s, ms: 1_000 }
    }

    /// A rig whose path has an RTT of 100 ms: one segment went and came.
    fn warm() -> Self {
        let mut rig = Self::new();
        rig.send(1, false);
        rig.ms += RTT;
        let out = rig.ack(1, &[]);
        assert!(out.rtt_sampled && rig.s.is_empty());
        rig
    }

    fn without_sack() -> Self {
        let mut rig = Self::warm();
        rig.s.set_sack(false);
        rig
    }

    fn seq(&self, segs: u64) -> Seq {
        self.s.iss() + (1 + segs * u64::from(MSS)) as u32
    }

    fn write(&mut self, bytes: usize) {
        let data = vec![7; bytes];
        let mut rest = &data[..];
        while !rest.is_empty() {
            let mut n = self.s.queue().unsent.fill_tail(&mut crate::base::Pool::default(), rest, 64_000);
            if n == 0 {
                n = self.s.queue().unsent.begin_element(
                    &mut crate::base::Pool::default(),
                    rest,
                    rest.len(),
                    64_000,
                );
            }
            rest = &rest[n..];
        }
        self.s.queue().unsent.mark_push();
    }

    /// Sends `segs` segments at once: one by one, or as one super-packet.
    fn send(&mut self, segs: usize, whole: bool) {
        self.write(segs * usize::from(MSS));
        let mut cx = self.world.cx(Instant::from_millis(self.ms));
        let (times, len) = if whole { (1, segs) } else { (segs, 1) };
        for _ in 0..times {
            let plan = self.s.commit_send(&mut cx, &mut self.path, len * usize::from(MSS)).expect("queued");
            assert_eq!(usize::from(plan.segs), len);
        }
        self.s.after_write(&mut cx, &mut self.path, segs as u32, true, false);
        self.check();
    }

    /// Acknowledges `segs` segments since the start; blocks in segments.
    fn ack(&mut self, segs: u64, blocks: &[(u64, u64)]) -> AckOut {
        self.ack_with(segs, blocks, |_| {})
    }

    fn ack_with(&mut self, segs: u64, blocks: &[(u64, u64)], change: impl FnOnce(&mut AckIn<'_>)) -> AckOut {
        let blocks: Vec<_> = blocks.iter().map(|&(a, b)| (self.seq(a), self.seq(b))).collect();
        let mut input = AckIn {
            ack: self.seq(segs),
            sack: &blocks,
            tsecr: None,
            at: Instant::from_millis(self.ms),
            has_data: false,
            window_taken: false,
            ece: false,
            child: false,
            crossed: false,
            wnd_end: self.s.snd_nxt() + 100_000,
        };
        change(&mut input);
        let mut cx = self.world.cx(Instant::from_millis(self.ms));
        let out = self.s.on_ack(&mut cx, &mut self.path, &input);
        self.check();
        out
    }

    /// Sends every retransmission that is allowed; the segments, as (first, number).
    fn resend(&mut self) -> Vec<(u64, u16)> {
        let mut sent = Vec::new();
        let far = self.s.snd_nxt();
        while let Some(r) = self.s.next_lost(&self.path, 64, far).and_then(|lost| self.s.fit(&lost)) {
            let mut cx = self.world.cx(Instant::from_millis(self.ms));
            let plan = self.s.commit_retransmit(&mut cx, &mut self.path, &r).expect("fresh");
            assert_eq!(plan.payload.len() + usize::from(plan.fin), r.len as usize);
            sent.push((u64::from(plan.seq.since(self.s.iss()) - 1) / u64::from(MSS), plan.segs));
        }
        self.check();
        sent
    }

    fn timer(&self) -> (TimerKind, u64) {
        let (kind, at) = self.s.timer().expect("a timer");
        (kind, at.as_millis())
    }

    /// Lets the transmission timer fire.
    fn fire(&mut self) -> TimerKind {
        let (kind, at) = self.timer();
        self.ms = at;
        let mut cx = self.world.cx(Instant::from_millis(self.ms));
        match kind {
            TimerKind::Rto => {
                let r = self.s.on_rto(&mut cx, &mut self.path, Timeout::Backoff).expect("a head");
                self.s.commit_rto(&mut cx, &mut self.path, &r).expect("fresh");
            }
            TimerKind::Tlp => match self.s.on_tlp(&mut cx, &mut self.path, true) {
                Probe::New => {
                    self.s.commit_send(&mut cx, &mut self.path, usize::from(MSS)).expect("queued");
                    self.s.tlp_done(&mut cx, &mut self.path, false);
                }
                Probe::Resend(r) => {
                    self.s.commit_tlp(&mut cx, &mut self.path, &r).expect("fresh");
                    self.s.tlp_done(&mut cx, &mut self.path, true);
                }
                Probe::Nothing => {}
            },
            TimerKind::Reorder => {
                self.s.on_reorder_timeout(&mut cx, &mut self.path);
            }
        }
        self.check();
        kind
    }

    fn cwnd(&self) -> u32 {
        self.path.window.cwnd
    }

    /// Counters are sums over records, and indices say what the marks say.
    fn check(&self) {
        self.s.flight().check_counters();
        self.s.check_sight();
    }
}

#[test]
fn an_idle_sender_is_small_and_owns_no_heap() {
    assert!(size_of::<Sender>() <= 512, "{}", size_of::<Sender>());
    let rig = Rig::warm();
    assert_eq!(rig.s.queue_ref().queued_charge(), 0);
    assert_eq!(rig.s.timer(), None);
}

#[test]
fn sequence_numbers_wrap_and_offsets_do_not() {
    let mut rig = Rig::warm();
    for round in 0..20u64 {
        rig.send(5, true);
        rig.ms += RTT;
        let out = rig.ack(1 + 5 * (round + 1), &[]);
        assert_eq!((out.acked_bytes, out.progress), (5_000, true));
    }
    assert_eq!(rig.s.una_offset(), 1 + 101_000);
}

#[test]
fn three_sacks_start_fast_retransmit() {
    let mut rig = Rig::warm();
    rig.send(10, false);
    rig.ms += RTT;
    assert_eq!(rig.ack(1, &[(2, 3)]).rexmit, Rexmit::None);
    assert_eq!((rig.s.ca_state(), rig.resend()), (CaState::Disorder, vec![]));
    rig.ack(1, &[(2, 4)]);
    assert_eq!(rig.s.ca_state(), CaState::Disorder);
    rig.ack(1, &[(2, 5)]);
    assert_eq!(rig.s.ca_state(), CaState::Recovery);
    assert_eq!(rig.resend(), [(1, 1)]);
    assert_eq!(rig.world.count.tcp_ext.tcp_fast_retrans, 1);
    assert_eq!(rig.path.window.ssthresh, 5);
    rig.ms += RTT;
    rig.ack(11, &[]);
    // Half the window, and one more for the seven that this last acknowledgement delivered.
    assert_eq!((rig.s.ca_state(), rig.cwnd()), (CaState::Open, 6));
}

#[test]
fn reordering_within_a_quarter_of_the_round_trip_retransmits_nothing() {
    let mut rig = Rig::warm();
    rig.send(4, false);
    rig.ms += RTT;
    rig.ack(1, &[(2, 3)]);
    assert_eq!(rig.timer().0, TimerKind::Reorder);
    rig.ms += 10;
    rig.ack(3, &[]);
    assert_eq!(rig.s.reordering().seen, 1);
    // From now on three duplicates are no proof any more.
    rig.send(8, false);
    rig.ms += RTT;
    for top in 7..11 {
        rig.ack(5, &[(6, top)]);
    }
    assert_eq!((rig.s.ca_state(), rig.resend()), (CaState::Disorder, vec![]));
    assert_eq!(rig.timer().0, TimerKind::Reorder);
    rig.ms += 10;
    rig.ack(13, &[]);
    assert_eq!((rig.s.ca_state(), rig.world.count.tcp.retrans_segs), (CaState::Open, 0));
}

#[test]
fn the_reordering_timer_finds_the_loss_that_no_ack_shows() {
    let mut rig = Rig::warm();
    rig.send(3, false);
    rig.ms += RTT;
    rig.ack(1, &[(2, 3)]);
    assert_eq!(rig.timer(), (TimerKind::Reorder, rig.ms + 25 + 2));
    rig.fire();
    assert_eq!((rig.s.ca_state(), rig.resend()), (CaState::Recovery, vec![(1, 1)]));
    assert_eq!(rig.timer().0, TimerKind::Rto);
}

#[test]
fn a_lost_tail_is_probed_and_repaired() {
    let mut rig = Rig::warm();
    rig.send(10, false);
    rig.ms += RTT;
    rig.ack(6, &[]);
    assert_eq!(rig.timer(), (TimerKind::Tlp, rig.ms + 2 * RTT + 2));
    assert_eq!(rig.fire(), TimerKind::Tlp);
    assert_eq!(rig.world.count.tcp_ext.tcp_loss_probes, 1);
    assert_eq!(rig.timer().0, TimerKind::Rto);
    // The probe was segment 10: its SACK shows that 6 to 9 are lost.
    rig.ms += RTT;
    rig.ack(6, &[(10, 11)]);
    assert_eq!(rig.s.ca_state(), CaState::Recovery);
    assert_eq!(rig.resend().first(), Some(&(6, 1)));
}

#[test]
fn a_probe_that_repairs_its_own_loss_costs_one_reduction() {
    let mut rig = Rig::warm();
    rig.send(4, false);
    rig.ms += RTT;
    rig.ack(4, &[]);
    rig.fire();
    rig.write(1_000);
    let mut cx = rig.world.cx(Instant::from_millis(rig.ms));
    rig.s.commit_send(&mut cx, &mut rig.path, 1_000);
    rig.ms += RTT;
    rig.ack(6, &[]);
    assert_eq!(rig.world.count.tcp_ext.tcp_loss_probe_recovery, 1);
    assert_eq!(rig.s.ca_state(), CaState::Open);
    assert!(rig.path.window.ssthresh < 20 && rig.cwnd() == rig.path.window.ssthresh);
}

#[test]
fn a_probe_in_vain_costs_nothing() {
    let mut rig = Rig::warm();
    rig.send(2, false);
    rig.ms += RTT;
    rig.ack(2, &[]);
    rig.fire();
    rig.ms += 1;
    rig.ack(3, &[]);
    rig.ms += RTT;
    rig.ack(3, &[(2, 3)]);
    assert_eq!(rig.world.count.tcp_ext.tcp_dsack_recv, 1);
    assert_eq!(rig.world.count.tcp_ext.tcp_loss_probe_recovery, 0);
    assert_eq!(rig.s.ca_state(), CaState::Open);
}

#[test]
fn timeouts_double_and_an_acknowledgement_of_new_data_ends_it() {
    let mut rig = Rig::warm();
    rig.world.sysctl.tcp_early_retrans = 0;
    let rto = 300;
    rig.send(5, false);
    assert_eq!(rig.timer(), (TimerKind::Rto, rig.ms + rto));
    for factor in [2, 4, 8] {
        rig.fire();
        assert_eq!(rig.timer(), (TimerKind::Rto, rig.ms + rto * factor));
    }
    assert_eq!((rig.s.ca_state(), rig.cwnd(), rig.s.retransmits()), (CaState::Loss, 1, 3));
    assert_eq!(rig.world.count.tcp_ext.tcp_timeouts, 3);
    let cx = rig.world.cx(Instant::from_millis(rig.ms));
    let max = Duration::from_secs(120);
    let patience = |retries| Patience { retries, user_timeout: None, syn: false, max };
    assert!(rig.s.timed_out(&cx, &patience(2)));
    assert!(!rig.s.timed_out(&cx, &patience(15)));
    rig.ms += RTT;
    rig.ack(2, &[]);
    assert_eq!((rig.s.retransmits(), rig.cwnd()), (0, 2));
    assert_eq!(rig.resend(), [(2, 1), (3, 1)]);
    rig.ms += RTT;
    rig.ack(6, &[]);
    assert_eq!(rig.s.ca_state(), CaState::Open);
}

#[test]
fn frto_finds_a_spurious_timeout_without_timestamps() {
    let mut rig = Rig::warm();
    rig.world.sysctl.tcp_early_retrans = 0;
    rig.send(5, false);
    let before = rig.cwnd();
    rig.fire();
    assert_eq!(rig.s.ca_state(), CaState::Loss);
    rig.write(3_000);
    // The first late ACK lets two new segments out; the second acknowledges an original: the timeout was spurious.
    rig.ms += 1;
    assert_eq!(rig.ack(2, &[]).rexmit, Rexmit::New);
    let mut cx = rig.world.cx(Instant::from_millis(rig.ms));
    rig.s.commit_send(&mut cx, &mut rig.path, 1_000);
    rig.s.commit_send(&mut cx, &mut rig.path, 1_000);
    assert!(!rig.s.frto_sent());
    assert_eq!(rig.resend(), [], "new data asks; a retransmission would spoil the answer");
    rig.ms += 1;
    rig.ack(3, &[]);
    assert_eq!((rig.s.ca_state(), rig.world.count.tcp_ext.tcp_spurious_rtos), (CaState::Open, 1));
    assert!(rig.cwnd() >= before, "{} {before}", rig.cwnd());
    assert_eq!(rig.s.flight().lost_out, 0);
}

#[test]
fn dsack_undoes_a_spurious_recovery() {
    let mut rig = Rig::warm();
    rig.send(10, false);
    let before = rig.cwnd();
    rig.ms += RTT;
    rig.ack(1, &[(2, 5)]);
    assert_eq!(rig.resend(), [(1, 1)]);
    rig.ms += 5;
    rig.ack(5, &[]);
    assert_eq!(rig.s.ca_state(), CaState::Recovery);
    rig.ms += RTT;
    rig.ack(11, &[(1, 2)]);
    assert_eq!(rig.s.ca_state(), CaState::Open);
    assert!(rig.cwnd() >= before && rig.path.window.in_slow_start());
    let c = &rig.world.count.tcp_ext;
    assert_eq!(c.tcp_dsack_undo + c.tcp_full_undo, 1);
}

#[test]
fn an_old_timestamp_undoes_at_once() {
    let mut rig = Rig::warm();
    rig.send(10, false);
    let (before, sent) = (rig.cwnd(), rig.ms as u32);
    rig.ms += RTT;
    rig.ack_with(1, &[(2, 5)], |a| a.tsecr = Some(sent));
    assert_eq!(rig.resend(), [(1, 1)]);
    rig.ms += 5;
    // The original arrived late: its echo is older than the retransmission.
    rig.ack_with(11, &[], |a| a.tsecr = Some(sent));
    assert_eq!(rig.s.ca_state(), CaState::Open);
    assert!(rig.cwnd() >= before && rig.path.window.in_slow_start());
    assert_eq!(rig.world.count.tcp_ext.tcp_full_undo, 1);
}

#[test]
fn prr_paces_retransmissions_to_half_the_window() {
    let mut rig = Rig::warm();
    rig.send(10, false);
    rig.ms += RTT;
    // Segments 1 to 4 are lost, 5 to 10 arrive one by one.
    rig.ack(1, &[(5, 8)]);
    let mut sent = rig.resend().len();
    assert_eq!(sent, 2);
    for top in 9..=11 {
        rig.ack(1, &[(5, top)]);
        sent += rig.resend().len();
    }
    assert_eq!(sent, 4);
    assert!(rig.s.in_flight() <= 5);
}

#[test]
fn a_lost_retransmission_is_found_by_what_was_sent_after_it() {
    let mut rig = Rig::warm();
    rig.send(10, false);
    rig.ms += RTT;
    rig.ack(1, &[(3, 11)]);
    assert_eq!(rig.resend(), [(1, 1), (2, 1)]);
    rig.send(4, false);
    rig.ms += RTT;
    rig.ack(1, &[(3, 15)]);
    assert_eq!(rig.world.count.tcp_ext.tcp_lost_retransmit, 2);
    assert_eq!(rig.resend().first(), Some(&(1, 1)));
}

/// What left first of two at one instant is as late as the other's round trip says; what left behind it is not.
#[test]
fn of_one_instant_only_what_left_behind_a_retransmission_is_spared() {
    for first in [true, false] {
        let mut rig = Rig::warm();
        rig.s.follow_departures();
        rig.send(5, false);
        rig.ms += RTT;
        rig.ack(1, &[(2, 5)]);
        if first {
            rig.send(1, false);
        }
        assert_eq!(rig.resend(), [(1, 1)]);
        if !first {
            rig.send(1, false);
        }
        rig.ms += RTT;
        rig.ack(5, &[]);
        assert_eq!(rig.s.flight().lost_out, if first { 2 } else { 1 }, "first: {first}");
    }
}

#[test]
fn a_sack_in_the_middle_of_a_super_packet_splits_it() {
    let mut rig = Rig::warm();
    rig.send(10, true);
    rig.ms += RTT;
    rig.ack(1, &[(3, 4)]);
    assert_eq!((rig.s.flight().sacked_out, rig.s.queue_ref().records()), (1, 3));
    rig.ack(1, &[(6, 11), (3, 4)]);
    assert_eq!((rig.s.ca_state(), rig.s.flight().sacked_out), (CaState::Recovery, 6));
    let sent = rig.resend();
    assert_eq!(sent.first().map(|s| s.0), Some(1));
    // A partial acknowledgement trims what is left.
    rig.ms += RTT;
    rig.ack(2, &[(6, 11), (3, 4)]);
    assert_eq!(rig.s.flight().packets_out, 9);
}

#[test]
fn retransmissions_that_rack_never_judges_are_not_remembered() {
    for sack in [true, false] {
        let mut rig = if sack { Rig::warm() } else { Rig::without_sack() };
        rig.send(10, false);
        for _ in 0..3 {
            rig.fire();
        }
        assert_eq!(rig.s.recovery.rack.remembered() > 0, sack);
    }
}

#[test]
fn newreno_repairs_one_hole_per_round_trip() {
    let mut rig = Rig::without_sack();
    rig.send(10, false);
    rig.ms += RTT;
    for _ in 0..2 {
        rig.ack(1, &[]);
        assert_eq!(rig.resend(), []);
    }
    rig.ack(1, &[]);
    assert_eq!((rig.s.ca_state(), rig.resend()), (CaState::Recovery, vec![(1, 1)]));
    for _ in 0..5 {
        rig.ack(1, &[]);
    }
    rig.ms += RTT;
    rig.ack(4, &[]);
    assert_eq!((rig.s.ca_state(), rig.resend()), (CaState::Recovery, vec![(4, 1)]));
    rig.ms += RTT;
    rig.ack(11, &[]);
    // Held until something above the recovery point is acknowledged (RFC 6582).
    assert_eq!(rig.s.ca_state(), CaState::Recovery);
    rig.send(1, false);
    rig.ms += RTT;
    rig.ack(12, &[]);
    assert_eq!(rig.s.ca_state(), CaState::Open);
}

#[test]
fn limited_transmit_counts_duplicates_as_room() {
    let mut rig = Rig::without_sack();
    rig.send(10, false);
    rig.ms += RTT;
    let room = rig.s.cwnd_room(&rig.path);
    rig.ack(1, &[]);
    assert_eq!(rig.s.cwnd_room(&rig.path), room + 1);
    rig.ack_with(1, &[], |a| a.has_data = true);
    assert_eq!(rig.s.cwnd_room(&rig.path), room + 1);
}

#[test]
fn a_peer_that_reneges_is_treated_like_a_timeout() {
    let mut rig = Rig::warm();
    rig.send(4, false);
    rig.ms += RTT;
    rig.ack(1, &[(2, 4)]);
    rig.ack(2, &[]);
    assert_eq!(rig.timer(), (TimerKind::Rto, rig.ms + RTT / 2));
    rig.fire();
    assert_eq!(rig.world.count.tcp_ext.tcp_sack_reneging, 1);
    assert_eq!((rig.s.flight().sacked_out, rig.s.flight().lost_out), (0, 3));
}

#[test]
fn an_overtaken_acknowledgement_is_no_duplicate() {
    let mut rig = Rig::warm();
    rig.send(10, false);
    rig.ms += RTT;
    rig.ack(5, &[(6, 7)]);
    rig.ack(5, &[(6, 8)]);
    rig.ack(3, &[(6, 9)]);
    assert_eq!((rig.s.ca_state(), rig.s.flight().sacked_out), (CaState::Recovery, 3));
    let mut reno = Rig::without_sack();
    reno.send(10, false);
    reno.ms += RTT;
    reno.ack(5, &[]);
    reno.ack(3, &[]);
    assert_eq!(reno.s.flight().sacked_out, 0);
}

#[test]
fn a_retransmission_that_an_acknowledgement_overtakes_is_not_sent() {
    let mut rig = Rig::warm();
    rig.world.sysctl.tcp_early_retrans = 0;
    rig.send(3, true);
    rig.ms = rig.timer().1;
    let mut cx = rig.world.cx(Instant::from_millis(rig.ms));
    let r = rig.s.on_rto(&mut cx, &mut rig.path, Timeout::Backoff).expect("a head");
    rig.ack(3, &[]);
    let mut cx = rig.world.cx(Instant::from_millis(rig.ms));
    assert!(rig.s.commit_rto(&mut cx, &mut rig.path, &r).is_none());
    assert!(rig.s.commit_tlp(&mut cx, &mut rig.path, &r).is_none());
    assert!(rig.s.commit_retransmit(&mut cx, &mut rig.path, &r).is_none());
}

#[test]
fn only_the_unacknowledged_rest_of_a_segment_is_sent_again() {
    let mut rig = Rig::warm();
    rig.world.sysctl.tcp_early_retrans = 0;
    rig.send(1, false);
    let half = rig.seq(1) + 500;
    rig.ack_with(1, &[], |a| a.ack = half);
    let mut cx = rig.world.cx(Instant::from_millis(rig.ms + 300));
    let r = rig.s.on_rto(&mut cx, &mut rig.path, Timeout::Backoff).expect("the rest");
    assert_eq!((r.seq, r.len), (half, 500));
}

#[test]
fn an_ecn_echo_reduces_once_per_window_and_is_never_undone() {
    let mut rig = Rig::warm();
    rig.send(10, false);
    rig.ms += RTT;
    rig.ack_with(3, &[], |a| a.ece = true);
    assert_eq!((rig.s.ca_state(), rig.path.window.ssthresh, rig.s.take_cwr()), (CaState::Cwr, 5, true));
    let ssthresh = rig.path.window.ssthresh;
    rig.ack_with(5, &[], |a| a.ece = true);
    assert_eq!(rig.path.window.ssthresh, ssthresh);
    rig.ack(11, &[]);
    assert_eq!(rig.s.ca_state(), CaState::Cwr);
    rig.send(1, false);
    rig.ms += RTT;
    rig.ack(12, &[]);
    assert_eq!((rig.s.ca_state(), rig.cwnd()), (CaState::Open, ssthresh));
}

#[test]
fn a_local_drop_reduces_but_marks_nothing_lost() {
    let mut rig = Rig::warm();
    rig.send(10, false);
    let mut cx = rig.world.cx(Instant::from_millis(rig.ms));
    rig.s.enter_cwr(&mut cx, &mut rig.path);
    rig.s.enter_cwr(&mut cx, &mut rig.path);
    assert_eq!((rig.s.ca_state(), rig.path.window.ssthresh), (CaState::Cwr, 5));
    assert_eq!((rig.s.flight().lost_out, rig.resend()), (0, vec![]));
}

#[test]
fn what_a_queue_gave_up_is_lost_at_once_and_reduces_once() {
    let mut rig = Rig::warm();
    rig.send(10, false);
    for (first, lost) in [(3, 2), (7, 3)] {
        let (seq, mut cx) = (rig.seq(first), rig.world.cx(Instant::from_millis(rig.ms)));
        let len = if first == 3 { 2 } else { 1 } * u32::from(rig.s.mss());
        rig.s.on_gone();
        rig.s.on_given_up(&mut cx, &mut rig.path, seq, len);
        assert_eq!((rig.s.ca_state(), rig.path.window.ssthresh), (CaState::Cwr, 5));
        assert_eq!(rig.s.flight().lost_out, lost, "whole records of the range alone");
    }
    assert_eq!(rig.world.count.own.lost_in_queue, 3);
    // A controller that looks for losses of the network does not see these.
    assert_eq!(rig.s.flight().lost, 0);
    // The window is full of what is still under way; each delivery lets one of them go again.
    rig.ms += RTT;
    rig.ack(3, &[]);
    assert!(rig.resend().first().is_some_and(|r| r.0 == 3), "{:?}", rig.s);
    assert_eq!(rig.path.window.ssthresh, 5, "recovery continues the same reduction");
}

/// A queue that is full of others gives up a retransmission as soon as it comes: again at once, and nothing would ever come to rest.
#[test]
fn what_a_queue_gave_up_again_at_once_waits_for_rack() {
    let mut rig = Rig::warm();
    rig.send(10, false);
    let give_up = |rig: &mut Rig| {
        let (seq, len) = (rig.seq(3), u32::from(rig.s.mss()));
        rig.s.on_gone();
        rig.s.on_given_up(&mut rig.world.cx(Instant::from_millis(rig.ms)), &mut rig.path, seq, len);
        rig.world.count.own.lost_in_queue
    };
    assert_eq!(give_up(&mut rig), 1);
    rig.ms += RTT;
    rig.ack(3, &[]);
    assert_eq!(rig.resend().first().map(|r| r.0), Some(3));
    assert_eq!((give_up(&mut rig), rig.resend()), (1, vec![]), "at the instant at which it went");
    rig.ms += 1;
    assert_eq!(give_up(&mut rig), 2, "later");
}

#[test]
fn what_was_refused_is_as_if_it_had_not_been_sent() {
    let mut rig = Rig::warm();
    rig.s.follow_departures();
    rig.send(3, false);
    let (nxt, timer, unsent) = (rig.s.snd_nxt(), rig.s.timer(), rig.s.queue_ref().unsent_bytes());
    rig.write(usize::from(MSS));
    let mut cx = rig.world.cx(Instant::from_millis(rig.ms));
    let plan = rig.s.commit_send(&mut cx, &mut rig.path, usize::from(MSS)).expect("queued");
    assert_eq!(rig.s.take_back(&mut cx, &mut rig.path, &plan.attempt.expect("data"), true), 1);
    rig.check();
    assert_eq!((rig.s.snd_nxt(), rig.s.timer(), rig.s.flight().packets_out), (nxt, timer, 3));
    assert_eq!(rig.s.queue_ref().unsent_bytes(), unsent + u64::from(MSS));
    // What leaves next has the number of what did not.
    assert!(rig.s.head_is_below());
    rig.s.on_left(&mut rig.world.cx(Instant::from_millis(rig.ms)), &mut rig.path);
    assert!(!rig.s.head_is_below());
}

/// A retransmission that was refused is not below, whatever gets its number; RACK or not.
#[test]
fn what_was_refused_again_does_not_wait_for_what_leaves_next() {
    for sack in [true, false] {
        let mut rig = Rig::warm();
        rig.s.set_sack(sack);
        rig.s.follow_departures();
        rig.send(3, false);
        (0..3).for_each(|_| rig.s.on_gone());
        rig.ms += 3_000;
        let mut cx = rig.world.cx(Instant::from_millis(rig.ms));
        let resend = rig.s.on_rto(&mut cx, &mut rig.path, Timeout::Backoff).expect("a head");
        let plan = rig.s.commit_rto(&mut cx, &mut rig.path, &resend).expect("fresh");
        assert!(rig.s.head_is_below());
        rig.s.take_back(&mut cx, &mut rig.path, &plan.attempt.expect("data"), true);
        rig.send(1, false);
        let flight = rig.s.flight();
        let below = flight.tx.range(0, u64::MAX).map(|(_, sent)| flight.tx.below.holds(sent.number));
        assert_eq!(below.collect::<Vec<_>>(), [false, false, false, true], "SACK: {sack}");
    }
}

/// Time not used before a packet that was refused is no credit for the next: the flow asked, and was answered (`__tcp_transmit_skb`).
#[test]
fn what_was_refused_leaves_the_pace_where_it_asked() {
    let mut rig = Rig::warm();
    // A segment takes 10 ms.
    rig.path.pacing.set_max_rate(100_000);
    rig.send(12, false);
    let free = rig.path.pacing.wstamp();
    rig.ms = free.as_millis() + 100;
    let now = Instant::from_millis(rig.ms);
    for _ in 0..2 {
        rig.write(usize::from(MSS));
        let mut cx = rig.world.cx(now);
        let plan = rig.s.commit_send(&mut cx, &mut rig.path, usize::from(MSS)).expect("queued");
        rig.s.take_back(&mut cx, &mut rig.path, &plan.attempt.expect("data"), true);
        assert_eq!(rig.path.pacing.not_before(now), None, "it may be tried again at once");
    }
    rig.send(1, false);
    assert_eq!(rig.path.pacing.not_before(now), Some(now + Duration::from_millis(10)), "whole");
}

#[test]
fn what_is_dropped_at_the_device_is_the_oldest_below() {
    let mut rig = Rig::warm();
    rig.s.follow_departures();
    rig.send(3, false);
    assert!(rig.s.head_is_below());
    rig.s.on_gone();
    rig.s.enter_cwr(&mut rig.world.cx(Instant::from_millis(rig.ms)), &mut rig.path);
    assert!(!rig.s.head_is_below());
    let holds: Vec<bool> = rig
        .s
        .flight()
        .tx
        .range(0, u64::MAX)
        .map(|(_, sent)| rig.s.flight().tx.below.holds(sent.number))
        .collect();
    assert_eq!(holds, [false, true, true]);
}

/// The queue has room for pieces of a packet and none for its end: what stands before them has not left.
#[test]
fn an_end_that_was_refused_is_the_newests() {
    let mut rig = Rig::warm();
    rig.s.follow_departures();
    rig.send(3, false);
    rig.s.on_end_refused();
    for holds in [[true, true, false], [false, true, false], [false; 3]] {
        let flight = rig.s.flight();
        let below = flight.tx.range(0, u64::MAX).map(|(_, sent)| flight.tx.below.holds(sent.number));
        assert_eq!(below.collect::<Vec<_>>(), holds);
        rig.s.on_left(&mut rig.world.cx(Instant::from_millis(rig.ms)), &mut rig.path);
    }
    assert_eq!(rig.s.packets_below(), 0);
}

/// The head of a queue is given up, and what went before it is in the device: it may go again at once, and what the device has need not leave first.
#[test]
fn what_a_queue_gave_up_behind_a_device_is_not_below() {
    let mut rig = Rig::warm();
    rig.s.follow_departures();
    rig.send(5, false);
    let below = |rig: &Rig| {
        let flight = rig.s.flight();
        let all = flight.tx.range(0, u64::MAX).map(|(_, sent)| flight.tx.below.holds(sent.number));
        all.collect::<Vec<_>>()
    };
    let (seq, mss) = (rig.seq(3), u32::from(rig.s.mss()));
    rig.s.on_gone();
    rig.s.on_given_up(&mut rig.world.cx(Instant::from_millis(rig.ms)), &mut rig.path, seq, mss);
    assert_eq!(below(&rig)[2..], [false, true, true]);
    // The two in the device leave, and all are as they are.
    for _ in 0..2 {
        rig.s.on_left(&mut rig.world.cx(Instant::from_millis(rig.ms)), &mut rig.path);
    }
    assert_eq!(below(&rig), [false, false, false, true, true]);
}

/// Nobody has use for pieces of what goes once: what follows it would not find one element any more, which small queues let pass.
#[test]
fn what_is_lost_is_cut_when_it_goes() {
    let mut rig = Rig::warm();
    rig.s.follow_departures();
    rig.send(5, true);
    let mut cx = rig.world.cx(Instant::from_millis(rig.ms + 3_000));
    rig.s.on_rto(&mut cx, &mut rig.path, Timeout::Backoff).expect("a head");
    assert_eq!(rig.s.flight().lost_out, 5);
    let far = rig.s.snd_nxt();
    let lost = rig.s.next_lost(&rig.path, 1, far).expect("lost");
    assert!(rig.s.is_below(lost.start));
    assert_eq!((lost.len, rig.s.queue_ref().records()), (u32::from(MSS), 1));
    rig.s.on_left(&mut rig.world.cx(Instant::from_millis(rig.ms)), &mut rig.path);
    assert!(!rig.s.is_below(lost.start));
    let resend = rig.s.fit(&lost).expect("lost");
    assert_eq!((resend.segs, rig.s.queue_ref().records()), (1, 2));
}

#[test]
fn what_has_not_left_is_not_probed_for() {
    let mut rig = Rig::warm();
    rig.s.follow_departures();
    rig.send(5, true);
    let mut cx = rig.world.cx(Instant::from_millis(rig.ms + 100));
    assert!(matches!(rig.s.on_tlp(&mut cx, &mut rig.path, true), Probe::Nothing));
    assert_eq!(cx.count.tcp_ext.tcp_spurious_rtx_host_queues, 1);
    rig.s.on_left(&mut rig.world.cx(Instant::from_millis(rig.ms)), &mut rig.path);
    let mut cx = rig.world.cx(Instant::from_millis(rig.ms + 200));
    let Probe::Resend(last) = rig.s.on_tlp(&mut cx, &mut rig.path, true) else { panic!("no probe") };
    assert_eq!((last.segs, last.seq + last.len), (1, rig.s.snd_nxt()));
}

#[test]
fn nothing_switches_rack_off() {
    let mut rig = Rig::warm();
    rig.world.sysctl.tcp_recovery = 0;
    rig.send(10, false);
    rig.ms += RTT;
    rig.ack(1, &[(3, 4)]);
    assert_eq!(rig.s.flight().lost_out, 0);
    assert!(matches!(rig.s.timer(), Some((TimerKind::Reorder, _))));
    rig.ack(1, &[(3, 5)]);
    rig.ack(1, &[(3, 6)]);
    assert_eq!((rig.s.ca_state(), rig.s.flight().lost_out), (CaState::Recovery, 2));
}

#[test]
fn a_smaller_mtu_resends_in_smaller_segments_without_a_reduction() {
    let mut rig = Rig::warm();
    rig.send(4, true);
    let cwnd = rig.cwnd();
    rig.s.set_mss(500);
    let mut cx = rig.world.cx(Instant::from_millis(rig.ms));
    assert!(rig.s.on_mss_reduced(&mut cx, &mut rig.path, false));
    assert_eq!(rig.cwnd(), cwnd);
    assert_eq!(rig.resend(), [(1, 8)]);
    assert_eq!(rig.s.flight().packets_out, 8);
}

#[test]
fn an_idle_flow_starts_with_a_smaller_window() {
    let mut rig = Rig::warm();
    {
        let cx = &mut rig.world.cx(Instant::from_millis(rig.ms));
        rig.path.window.set_cwnd(cx, 100);
    }
    rig.ms += 1_000;
    let cx = &mut rig.world.cx(Instant::from_millis(rig.ms));
    rig.s.check_idle_restart(cx, &mut rig.path);
    assert_eq!(rig.path.window.cwnd, 12);
    assert_eq!(rig.path.window.ssthresh, Window::INFINITE_SSTHRESH);
}

#[test]
fn syn_and_fin_take_sequence_space() {
    let mut world = World::new();
    let mut path = Path::new(&world.cx(Instant::ZERO), Pmtu::new(1_500, false));
    let mut s = Sender::new(world.sysctl.tcp_reordering, Seq(10), MSS);
    let mut cx = world.cx(Instant::from_millis(5));
    let plan = s.commit_syn(&mut cx, &mut path);
    assert!(plan.syn && plan.seq == Seq(10) && s.snd_nxt() == Seq(11));
    assert_eq!(s.timer(), Some((TimerKind::Rto, Instant::from_millis(1_005))));
    let mut cx = world.cx(Instant::from_millis(1_005));
    let again = s.on_rto(&mut cx, &mut path, Timeout::Backoff).expect("the SYN");
    assert!(s.commit_rto(&mut cx, &mut path, &again).expect("fresh").syn);
    s.set_sack(true);
    let input = AckIn {
        ack: Seq(11),
        sack: &[],
        tsecr: None,
        at: Instant::from_millis(1_100),
        has_data: true,
        window_taken: true,
        ece: false,
        child: false,
        crossed: false,
        wnd_end: Seq(60_000),
    };
    let mut cx = world.cx(Instant::from_millis(1_100));
    let out = s.on_ack(&mut cx, &mut path, &input);
    assert!(out.syn_acked && out.progress && !out.rtt_sampled && s.is_empty());
    assert_eq!((s.ca_state(), s.timer()), (CaState::Open, None));
    s.init_transfer(&mut cx, &mut path, 10);
    assert_eq!(path.window.cwnd, 10);
    s.queue().unsent.queue_fin();
    s.queue().unsent.queue_fin();
    assert_eq!(s.write_seq(), Seq(12));
    let fin = s.commit_send(&mut cx, &mut path, 0).expect("a FIN");
    assert!(fin.fin && fin.payload.is_empty());
    let out = s.on_ack(&mut cx, &mut path, &AckIn { ack: Seq(12), ..input });
    assert!(out.fin_acked && out.acked_bytes == 0);
}

/// Four segments of 100 bytes, of which `sacked` are sacked: what a timeout sends again, and what is counted as in flight.
fn small_segments_again(collapse: bool, sacked: &[(u32, u32)]) -> (usize, u32) {
    let mut rig = Rig::warm();
    rig.world.sysctl.tcp_early_retrans = 0;
    rig.s.set_collapse(collapse);
    let una = rig.s.snd_una();
    for _ in 0..4 {
        rig.write(100);
        let mut cx = rig.world.cx(Instant::from_millis(rig.ms));
        rig.s.commit_send(&mut cx, &mut rig.path, 100).expect("queued");
    }
    let blocks: Vec<_> = sacked.iter().map(|&(a, b)| (una + a, una + b)).collect();
    if !blocks.is_empty() {
        let input = AckIn {
            ack: una,
            sack: &blocks,
            tsecr: None,
            at: Instant::from_millis(rig.ms),
            has_data: false,
            window_taken: false,
            ece: false,
            child: false,
            crossed: false,
            wnd_end: una + 100_000,
        };
        let mut cx = rig.world.cx(Instant::from_millis(rig.ms));
        rig.s.on_ack(&mut cx, &mut rig.path, &input);
    }
    rig.ms += 1_000;
    let mut cx = rig.world.cx(Instant::from_millis(rig.ms));
    let again = rig.s.on_rto(&mut cx, &mut rig.path, Timeout::Backoff).expect("a head");
    let again = rig.s.refit(again, una + 100_000).expect("within the window");
    let len = rig.s.commit_rto(&mut cx, &mut rig.path, &again).expect("the head").payload.len();
    rig.check();
    (len, rig.s.flight().packets_out)
}

#[test]
fn small_segments_are_retransmitted_together() {
    assert_eq!(small_segments_again(true, &[]), (400, 1));
    // What the peer has is not sent again.
    assert_eq!(small_segments_again(true, &[(200, 300)]), (200, 3));
    assert_eq!(small_segments_again(true, &[(100, 200)]), (100, 4));
}

#[test]
fn small_segments_are_retransmitted_one_by_one_without_collapse() {
    assert_eq!(small_segments_again(false, &[]), (100, 4));
}
