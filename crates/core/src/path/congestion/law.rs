//! The laws that every congestion controller obeys, checked on random histories; a new controller adds one line.
use super::cubic::Cubic;
use super::reno::Reno;
use super::{AckSample, AnyCongestion, CaEvent, CaState, Congestion, Window};
use crate::base::Instant;
use crate::base::sysctl::CongestionKind;
use crate::base::testing::World;
use crate::base::time::Duration;
use proptest::prelude::*;

/// What can happen to a controller.
#[derive(Clone, Debug)]
enum Operation {
    Ack { acked: u32, rtt_us: Option<u64>, limited: bool, paced: bool },
    FastRecovery,
    Timeout,
    Undo,
    TxStart,
    Restart,
    Wait { ns: u64 },
    Clamp(u32),
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 1..50u32, 1 => 1..100_000u32, 1 => Just(u32::MAX)]
}

fn ack() -> impl Strategy<Value = Operation> {
    let rtt_us = prop::option::weighted(0.9, prop_oneof![4 => 1_000..200_000u64, 1 => any::<u64>()]);
    (number(), rtt_us, prop::bool::weighted(0.9), prop::bool::weighted(0.2))
        .prop_map(|(acked, rtt_us, limited, paced)| Operation::Ack { acked, rtt_us, limited, paced })
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        30 => ack(),
        2 => Just(Operation::FastRecovery),
        1 => Just(Operation::Timeout),
        1 => Just(Operation::Undo),
        1 => Just(Operation::TxStart),
        1 => Just(Operation::Restart),
        8 => prop_oneof![4 => 1..100_000_000u64, 1 => any::<u64>()].prop_map(|ns| Operation::Wait { ns }),
        1 => prop_oneof![Just(0), number()].prop_map(Operation::Clamp),
    ]
}

fn start() -> impl Strategy<Value = Window> {
    let ssthresh = prop_oneof![2 => Just(Window::INFINITE_SSTHRESH), 1 => number()];
    (number(), ssthresh).prop_map(|(cwnd, ssthresh)| Window {
        cwnd,
        ssthresh: ssthresh.max(2),
        ..Window::new()
    })
}

/// One flow, as far as a controller sees it.
struct Model<'a> {
    it: &'a mut dyn Congestion,
    window: Window,
    world: World,
    now: Instant,
    una: u64,
    /// The window before the last reduction.
    prior: u32,
}

impl Model<'_> {
    fn step(&mut self, operation: &Operation) {
        match *operation {
            Operation::Ack { acked, rtt_us, limited, paced } => self.ack(acked, rtt_us, limited, paced),
            Operation::FastRecovery => self.reduce(CaState::Recovery),
            Operation::Timeout => self.reduce(CaState::Loss),
            Operation::Undo => {
                let cwnd = self.it.undo_cwnd(&self.window);
                assert!(cwnd >= self.prior, "undo returns at least the window before the reduction");
                assert!(cwnd >= self.window.cwnd, "undo takes nothing away");
                self.window.set_cwnd(&mut self.world.cx(self.now), cwnd);
            }
            Operation::TxStart => {
                let last_sent = self.now - Duration::from_secs(3);
                self.event(CaEvent::TxStart { last_sent });
            }
            Operation::Restart => {
                self.event(CaEvent::CwndRestart);
                let cwnd = self.window.cwnd.min(Window::INITIAL);
                self.window.set_cwnd(&mut self.world.cx(self.now), cwnd);
            }
            Operation::Wait { ns } => self.now = self.now.plus_nanos(ns),
            Operation::Clamp(clamp) => self.window.clamp = clamp,
        }
        assert!(self.window.cwnd >= 1, "the window never closes");
        assert!(self.window.ssthresh >= 2, "ssthresh is at least two segments (RFC 5681 equation 4)");
    }

    fn event(&mut self, event: CaEvent) {
        let before = self.window.clone();
        self.it.on_event(&mut self.world.cx(self.now), &self.window, event);
        assert_eq!(self.window, before);
    }

    fn ack(&mut self, acked: u32, rtt_us: Option<u64>, limited: bool, paced: bool) {
        self.una = self.una.saturating_add(u64::from(acked));
        let sample = AckSample {
            delivered: acked,
            acked,
            rtt: rtt_us.map(Duration::from_micros),
            cwnd_limited: limited,
            paced,
            una: self.una,
            nxt: self.una.saturating_add(u64::from(self.window.cwnd)),
            ..AckSample::default()
        };
        let before = self.window.clone();
        self.it.on_ack(&mut self.world.cx(self.now), &mut self.window, &sample);
        assert_eq!(self.window.cwnd, before.cwnd, "learning does not move the window");
        assert!(self.window.ssthresh <= before.ssthresh, "learning can only end slow start");
        let slow = self.window.in_slow_start();
        let threshold = self.window.ssthresh;
        self.it.cong_avoid(&mut self.world.cx(self.now), &mut self.window, &sample);
        let after = self.window.cwnd;
        assert!(limited || after == before.cwnd, "a window that is not used does not grow");
        // A round acknowledges no more than the window it began with: growth by `acked` is doubling.
        assert!(after <= before.cwnd.saturating_add(acked), "slow start at most doubles per round");
        assert!(after >= before.cwnd.min(self.window.clamp), "an acknowledgement is no reason to shrink");
        if !slow && self.window.cwnd_cnt < self.window.cwnd {
            // Congestion avoidance: 1.5 times per round at the most, plus a carry.
            let bound = u64::from(before.cwnd) + u64::from(acked) / 2 + 2;
            assert!(
                u64::from(after) <= bound.max(u64::from(threshold)),
                "congestion avoidance does not double"
            );
        }
    }

    fn reduce(&mut self, state: CaState) {
        let before = self.window.clone();
        let ssthresh = self.it.ssthresh(&mut self.world.cx(self.now), &self.window);
        assert_eq!(self.window, before, "the controller answers; the transport acts");
        assert!(ssthresh <= before.cwnd.max(2), "a loss never raises the window");
        self.prior = before.cwnd;
        let mut cx = self.world.cx(self.now);
        self.window.set_ssthresh(&mut cx, ssthresh);
        self.window.set_cwnd(&mut cx, if state == CaState::Loss { 1 } else { ssthresh });
        self.window.cwnd_cnt = 0;
        self.it.on_state(&mut cx, &self.window, state);
        self.it.on_state(&mut cx, &self.window, CaState::Open);
    }
}

fn obeys(it: &mut dyn Congestion, hystart: u32, window: &Window, operations: &[Operation]) {
    let mut world = World::new();
    world.sysctl.hystart = hystart;
    let mut model =
        Model { it, window: window.clone(), world, now: Instant::from_millis(1), una: 1, prior: 0 };
    for operation in operations {
        model.step(operation);
    }
    assert!(!model.it.name().is_empty());
    assert!(model.it.sndbuf_expand() >= 2, "the send buffer holds the window and as much again");
}

proptest! {
    #[test]
    fn every_controller_obeys(
        window in start(), operations in prop::collection::vec(operation(), 1..200), hystart in 0..4u32,
    ) {
        for kind in CongestionKind::ALL {
            obeys(&mut AnyCongestion::new(kind), hystart, &window, &operations);
        }
        obeys(&mut AnyCongestion::Custom(Box::new(Reno::new())), hystart, &window, &operations);
        obeys(&mut Cubic::new(), hystart, &window, &operations);
    }
}
