//! The laws that every congestion controller obeys, checked on random histories; a new controller adds one line.
use super::bbr::Bbr;
use super::cubic::Cubic;
use super::reno::Reno;
use super::{AckSample, AnyCongestion, CaEvent, CaState, Congestion, Flow, Window};
use crate::base::Instant;
use crate::base::sysctl::CongestionKind;
use crate::base::testing::World;
use crate::base::time::Duration;
use crate::path::rate::RateSample;
use proptest::prelude::*;

/// What can happen to a controller.
#[derive(Clone, Debug)]
enum Operation {
    Ack { acked: u32, lost: u32, rtt_us: Option<u64>, limited: bool, paced: bool },
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
    let lost = prop_oneof![9 => Just(0), 1 => number()];
    (number(), lost, rtt_us, prop::bool::weighted(0.9), prop::bool::weighted(0.2)).prop_map(
        |(acked, lost, rtt_us, limited, paced)| Operation::Ack { acked, lost, rtt_us, limited, paced },
    )
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
    flow: Flow,
    state: CaState,
    /// The largest window so far: what a controller that governs may come back to.
    most: u32,
}

impl Model<'_> {
    fn step(&mut self, operation: &Operation) {
        match *operation {
            Operation::Ack { acked, lost, rtt_us, limited, paced } => {
                let sample = self.sample(acked, lost, rtt_us, limited, paced);
                if self.it.wishes().governs { self.govern(&sample) } else { self.ack(&sample) }
            }
            Operation::FastRecovery => self.reduce(CaState::Recovery),
            Operation::Timeout => self.reduce(CaState::Loss),
            Operation::Undo => {
                self.state = CaState::Open;
                let cwnd = self.it.undo_cwnd(&self.window);
                let governs = self.it.wishes().governs;
                assert!(
                    governs || cwnd >= self.prior,
                    "undo returns at least the window before the reduction"
                );
                assert!(cwnd >= self.window.cwnd, "undo takes nothing away");
                self.window.set_cwnd(&mut self.world.cx(self.now), cwnd);
            }
            Operation::TxStart => {
                let last_sent = self.now - Duration::from_secs(3);
                self.event(CaEvent::TxStart { last_sent });
            }
            Operation::Restart if self.it.wishes().governs => {}
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
        self.it.on_event(&mut self.world.cx(self.now), &mut self.window, event, &self.flow);
        if self.it.wishes().governs {
            assert!(self.window.cwnd >= before.cwnd, "no event is a reason to shrink");
            assert!(self.window.cwnd <= before.cwnd.max(self.most), "nor to have more than ever");
        } else {
            assert_eq!(self.window, before);
        }
        self.pace();
    }

    /// The flow keeps to what the controller asks for.
    fn pace(&mut self) {
        let rate = self.it.wishes().pacing_rate.unwrap_or(u64::MAX);
        self.flow.pacing_rate = rate.min(self.flow.max_pacing_rate);
    }

    /// What an acknowledgement tells; what it says of the rate is as wild as the rest.
    fn sample(
        &mut self,
        acked: u32,
        lost: u32,
        rtt_us: Option<u64>,
        limited: bool,
        paced: bool,
    ) -> AckSample {
        self.una = self.una.saturating_add(u64::from(acked));
        let rtt = rtt_us.map(Duration::from_micros);
        let flow = &mut self.flow;
        flow.delivered = flow.delivered.wrapping_add(acked);
        (flow.delivered_at, flow.departure) = (self.now, self.now);
        flow.lost = flow.lost.wrapping_add(lost);
        flow.in_flight = self.window.cwnd.min(acked);
        flow.app_limited = !limited;
        flow.nxt = self.una.saturating_add(u64::from(self.window.cwnd));
        (flow.srtt, flow.min_rtt) = (rtt.or(flow.srtt), rtt.or(flow.min_rtt));
        AckSample {
            flow: *flow,
            state: self.state,
            delivered: acked,
            conserved: flow.in_flight.saturating_add(acked),
            acked,
            lost,
            prior_in_flight: self.window.cwnd,
            rtt,
            sampled: acked > 0,
            rate: rtt_us.map(|us| RateSample::of(acked, us.saturating_mul(1_000).max(1), !limited)),
            cwnd_limited: limited,
            paced,
            una: self.una,
            ..AckSample::default()
        }
    }

    /// A controller that moves the window at every acknowledgement.
    fn govern(&mut self, sample: &AckSample) {
        let before = self.window.cwnd;
        self.most = self.most.max(before);
        self.it.on_ack(&mut self.world.cx(self.now), &mut self.window, sample);
        assert_eq!(self.window.cwnd, before, "learning does not move the window");
        self.it.cong_avoid(&mut self.world.cx(self.now), &mut self.window, sample);
        let after = self.window.cwnd;
        assert!(after <= self.window.clamp.max(1), "the clamp holds");
        let conserved = sample.flow.in_flight.saturating_add(sample.delivered);
        let bound = self.most.max(before).saturating_add(sample.delivered).max(conserved).max(4);
        assert!(after <= bound, "no more leaves than twice what arrives, or what was out before");
        if let Some(rate) = self.it.wishes().pacing_rate {
            assert!(rate <= self.flow.max_pacing_rate, "SO_MAX_PACING_RATE holds: {rate}");
            let carries =
                |of: &RateSample| u128::from(of.delivered) * 1_000_000_000 >= of.interval().as_nanos();
            assert!(
                rate > 0 || !sample.rate.as_ref().is_some_and(carries),
                "a segment a second is some pace"
            );
        }
        self.pace();
    }

    fn ack(&mut self, sample: &AckSample) {
        let (acked, limited) = (sample.acked, sample.cwnd_limited);
        let before = self.window.clone();
        self.it.on_ack(&mut self.world.cx(self.now), &mut self.window, sample);
        assert_eq!(self.window.cwnd, before.cwnd, "learning does not move the window");
        assert!(self.window.ssthresh <= before.ssthresh, "learning can only end slow start");
        let slow = self.window.in_slow_start();
        let threshold = self.window.ssthresh;
        self.it.cong_avoid(&mut self.world.cx(self.now), &mut self.window, sample);
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
        let governs = self.it.wishes().governs;
        assert!(governs || ssthresh <= before.cwnd.max(2), "a loss never raises the window");
        self.prior = before.cwnd;
        self.most = self.most.max(before.cwnd);
        let mut cx = self.world.cx(self.now);
        self.window.set_ssthresh(&mut cx, ssthresh);
        match state {
            CaState::Loss => self.window.set_cwnd(&mut cx, 1),
            _ if governs => {}
            _ => self.window.set_cwnd(&mut cx, ssthresh),
        }
        self.window.cwnd_cnt = 0;
        self.state = state;
        self.it.on_state(&mut cx, &self.window, state, &self.flow);
        if !governs {
            self.it.on_state(&mut cx, &self.window, CaState::Open, &self.flow);
        }
    }
}

fn obeys(it: &mut dyn Congestion, hystart: u32, window: &Window, operations: &[Operation]) {
    let mut world = World::new();
    world.sysctl.hystart = hystart;
    let mut model = Model {
        it,
        window: window.clone(),
        world,
        now: Instant::from_millis(1),
        una: 1,
        prior: 0,
        flow: Flow { mss: 1_448, max_pacing_rate: 1 << 40, ..Flow::default() },
        state: CaState::Open,
        most: window.cwnd,
    };
    model.event(CaEvent::Start);
    for operation in operations {
        model.step(operation);
    }
    assert!(!model.it.name().is_empty());
    assert!(model.it.wishes().sndbuf_expand >= 2, "the send buffer holds the window and as much again");
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
        obeys(&mut Bbr::default(), hystart, &window, &operations);
    }
}
