//! BBR fed by hand: each phase where it begins and ends, each rule where it acts.
use super::*;
use crate::base::Instant;
use crate::base::testing::World;
use crate::path::rate::RateSample;

/// A controller and a clock. Segments of 1,000 bytes, 10 ms of round trip.
struct Rig {
    world: World,
    bbr: Bbr,
    window: Window,
    flow: Flow,
    state: CaState,
    us: u64,
    /// Segments that a sample covers where acknowledgements come more often than once per round trip.
    steady: Option<u32>,
}

impl Rig {
    fn new() -> Self {
        let rtt = Some(Duration::from_millis(10));
        let flow = Flow {
            mss: 1_000,
            delivered: 1,
            srtt: rtt,
            min_rtt: rtt,
            max_pacing_rate: u64::MAX,
            ..Flow::default()
        };
        let (world, bbr, window) = (World::new(), Bbr::default(), Window::new());
        let mut rig = Self { world, bbr, window, flow, state: CaState::Open, us: 1_000_000, steady: None };
        rig.tell(CaEvent::Start);
        rig
    }

    fn now(&self) -> Instant {
        Instant::from_micros(self.us)
    }

    fn tell(&mut self, event: CaEvent) {
        let now = self.now();
        self.bbr.on_event(&mut self.world.cx(now), &mut self.window, event, &self.flow);
    }

    fn enter(&mut self, state: CaState) {
        let now = self.now();
        if state >= CaState::Recovery && self.state < CaState::Recovery {
            self.bbr.ssthresh(&mut self.world.cx(now), &self.window);
        }
        self.state = state;
        self.bbr.on_state(&mut self.world.cx(now), &self.window, state, &self.flow);
    }

    /// One acknowledgement per round trip of 10 ms: `delivered` segments in it, `in_flight` left after it.
    fn round(&mut self, delivered: u32, in_flight: u32) {
        self.us += 10_000;
        self.ack(delivered, in_flight, 0, 10_000);
    }

    fn ack(&mut self, delivered: u32, in_flight: u32, lost: u32, rtt_us: u64) {
        let now = self.now();
        let flow = &mut self.flow;
        flow.delivered += delivered;
        flow.lost += lost;
        (flow.delivered_at, flow.in_flight, flow.departure) = (now, in_flight, now);
        flow.pacing_rate = self.bbr.rate();
        let sample = AckSample {
            flow: *flow,
            state: self.state,
            delivered,
            conserved: in_flight + delivered,
            acked: delivered,
            lost,
            prior_in_flight: in_flight + delivered,
            rtt: Some(Duration::from_micros(rtt_us)),
            rate: Some(RateSample::of(self.steady.unwrap_or(delivered), 10_000_000, flow.app_limited)),
            sampled: delivered > 0,
            ..AckSample::default()
        };
        self.bbr.cong_avoid(&mut self.world.cx(now), &mut self.window, &sample);
    }

    /// A pipe of 100 segments, filled and drained.
    fn filled() -> Self {
        let mut rig = Self::new();
        for delivered in [10, 20, 40, 80, 100, 100, 100, 100] {
            rig.round(delivered, 300);
        }
        assert_eq!((rig.bbr.mode, rig.bbr.pipe.reached), (Mode::Drain, true));
        rig.round(100, 60);
        assert_eq!(rig.bbr.mode, Mode::ProbeBw);
        rig
    }

    fn rate(&self) -> u64 {
        self.bbr.wishes().pacing_rate.expect("it sets its rate")
    }
}

#[test]
fn the_first_rate_is_a_window_per_round_trip_at_the_high_gain() {
    // 10,000 bytes per 10 ms, times 739/256, less 1 %.
    let rig = Rig::new();
    assert_eq!(rig.rate(), 2_857_814);
    assert_eq!(rig.bbr.wishes().two_segments_from, Some(150_000));
    // Without a round trip it is taken for a millisecond, until one is measured.
    let mut rig = Rig::new();
    (rig.flow.srtt, rig.flow.min_rtt) = (None, None);
    rig.tell(CaEvent::Start);
    assert_eq!(rig.rate(), 28_578_488);
    rig.flow.srtt = Some(Duration::from_millis(10));
    rig.round(1, 9);
    assert_eq!(rig.rate(), 2_857_814);
}

#[test]
fn a_bound_holds() {
    let mut rig = Rig::new();
    rig.flow.max_pacing_rate = 149_999;
    rig.tell(CaEvent::Start);
    assert_eq!(rig.rate(), 149_999);
    rig.round(10, 10);
    assert_eq!(rig.rate(), 149_999);
}

#[test]
fn startup_doubles_until_three_rounds_bring_nothing() {
    let mut rig = Rig::new();
    let mut rates = Vec::new();
    for delivered in [10, 20, 40, 80] {
        rig.round(delivered, delivered);
        rates.push(rig.rate());
    }
    assert!(rates.is_sorted() && rates[3] > 7 * rates[0], "{rates:?}");
    assert_eq!(rig.window.cwnd, 10 + 150, "the window grows with what is delivered");
    assert_eq!((rig.bbr.out.pacing_gain, rig.bbr.out.cwnd_gain), (739, 739));
    // Growth by a quarter counts, less does not.
    for (delivered, rounds) in [(100, 0), (110, 1), (124, 2), (125, 0), (125, 1), (125, 2)] {
        rig.round(delivered, 200);
        assert_eq!((rig.bbr.pipe.rounds, rig.bbr.mode), (rounds, Mode::Startup), "{delivered}");
    }
    rig.round(125, 200);
    assert_eq!((rig.bbr.mode, rig.bbr.out.pacing_gain, rig.bbr.out.cwnd_gain), (Mode::Drain, 88, 739));
    assert!((125..260).contains(&rig.window.ssthresh), "{}", rig.window.ssthresh);
}

#[test]
fn rounds_that_the_application_limits_are_no_evidence() {
    let mut rig = Rig::new();
    rig.round(100, 100);
    rig.flow.app_limited = true;
    for _ in 0..10 {
        rig.round(50, 100);
    }
    assert_eq!((rig.bbr.mode, rig.bbr.pipe.rounds), (Mode::Startup, 0));
    assert!(rig.bbr.model.max_bw() > 100 * BW_UNIT as u32 / 10_001, "slower samples are not taken");
    rig.round(200, 100);
    assert!(rig.bbr.model.max_bw() > 200 * BW_UNIT as u32 / 10_001, "faster ones are");
}

#[test]
fn drain_lasts_until_the_queue_is_gone() {
    let mut rig = Rig::new();
    for delivered in [10, 20, 40, 80, 100, 100, 100, 100] {
        rig.round(delivered, 300);
    }
    let before = rig.rate();
    for _ in 0..3 {
        rig.round(100, 180);
        assert_eq!(rig.bbr.mode, Mode::Drain);
        assert!(rig.rate() <= before);
    }
    // 100 x 1,000 bytes per 10 ms, times 88/256, less 1 %.
    assert!((3_400_000..3_410_000).contains(&rig.rate()), "{}", rig.rate());
    rig.round(100, 101);
    assert_eq!((rig.bbr.mode, rig.bbr.out.cwnd_gain), (Mode::ProbeBw, 512));
}

#[test]
fn what_leaves_only_later_is_not_in_the_network() {
    let mut rig = Rig::filled();
    let now = rig.now();
    rig.bbr.out.pacing_gain = UNIT;
    let in_network = |rig: &mut Rig, ms: u64| {
        rig.flow.departure = now + Duration::from_millis(ms);
        rig.bbr.in_network_at_departure(&rig.world.cx(now), 120, &rig.flow)
    };
    // Ten segments per millisecond arrive meanwhile.
    assert_eq!((in_network(&mut rig, 0), in_network(&mut rig, 1)), (120, 111));
    assert_eq!(in_network(&mut rig, 1_000), 0);
    rig.bbr.out.pacing_gain = UNIT + 1;
    assert_eq!(in_network(&mut rig, 0), 120 + rig.bbr.tso_segs_goal(&rig.flow));
}

#[test]
fn the_cycle_probes_drains_and_cruises() {
    let mut rig = Rig::filled();
    let mut gains = Vec::new();
    for _ in 0..24 {
        // The queue holds what probing asked for, and no more.
        let in_flight = if rig.bbr.out.pacing_gain > UNIT { 150 } else { 100 };
        rig.us += 1_000;
        rig.round(100, in_flight - 60);
        gains.push(rig.bbr.out.pacing_gain);
    }
    let first = gains.iter().position(|g| *g == 320).expect("it probes");
    assert_eq!(gains[first..first + 10], [320, 192, 256, 256, 256, 256, 256, 256, 320, 192]);
    assert!(
        rig.window.cwnd >= 200 && rig.window.cwnd < 340,
        "two pipes and what arrives at once: {}",
        rig.window.cwnd
    );
}

#[test]
fn the_cycle_begins_anywhere_but_below_the_estimate() {
    let mut begun = [0; 8];
    let mut rig = Rig::filled();
    for _ in 0..700 {
        let now = rig.now();
        rig.bbr.enter_probe_bw(&mut rig.world.cx(now), &rig.flow);
        rig.bbr.set_gains();
        begun[usize::from(rig.bbr.out.pacing_gain == 320)
            + 2 * usize::from(rig.bbr.out.pacing_gain == 192)] += 1;
    }
    assert_eq!(begun[2], 0, "never below");
    assert!((60..140).contains(&begun[1]), "one in seven above: {begun:?}");
}

#[test]
fn probe_rtt_comes_after_ten_seconds_and_gives_the_window_back() {
    let mut rig = Rig::filled();
    let cwnd = rig.window.cwnd;
    while rig.bbr.mode != Mode::ProbeRtt {
        rig.us += 10_000;
        rig.ack(100, 60, 0, 10_500);
        assert!(rig.us < 12_000_000);
    }
    assert!((11_000_000..11_100_000).contains(&rig.us), "{}", rig.us);
    assert_eq!((rig.window.cwnd, rig.bbr.out.pacing_gain, rig.bbr.out.cwnd_gain), (4, 256, 256));
    assert!(rig.bbr.wishes().app_limited, "what is sent now shows nothing");
    assert_eq!(rig.bbr.info(1_000).min_rtt, 10_500, "what was believed is too old");
    let began = rig.us;
    rig.flow.app_limited = true;
    while rig.bbr.mode == Mode::ProbeRtt {
        rig.us += 10_000;
        rig.ack(4, 4, 0, 9_000);
    }
    let lasted = rig.us - began;
    assert!((200_000..240_000).contains(&lasted), "{lasted}");
    assert_eq!(rig.bbr.mode, Mode::ProbeBw);
    // As far as the model allows: two pipes, now without what used to arrive at once.
    assert!((180..cwnd).contains(&rig.window.cwnd), "{} of {cwnd}", rig.window.cwnd);
    assert_eq!(rig.bbr.info(1_000).min_rtt, 9_000);
}

#[test]
fn a_pause_of_the_application_replaces_probe_rtt() {
    let mut rig = Rig::filled();
    rig.us += 20_000_000;
    rig.flow.app_limited = true;
    rig.tell(CaEvent::TxStart { last_sent: Instant::ZERO });
    // It goes on at the estimate, whatever phase it was in: 10 MB/s less 1 %.
    assert!((9_890_000..9_910_000).contains(&rig.rate()), "{}", rig.rate());
    rig.round(2, 0);
    assert_eq!(rig.bbr.mode, Mode::ProbeBw);
    assert!(!rig.bbr.out.idle_restart, "the pause is over when something arrives");
}

#[test]
fn recovery_conserves_for_a_round_and_restores_at_its_end() {
    let mut rig = Rig::filled();
    let before = rig.window.cwnd;
    rig.enter(CaState::Recovery);
    rig.ack(1, 90, 3, 10_000);
    assert_eq!(rig.window.cwnd, 91, "packet for packet");
    // Within the round: what is delivered may leave again, and losses do not close the window below that.
    rig.us += 1_000;
    let prior = rig.bbr.model.clone();
    let sample = AckSample {
        flow: Flow { in_flight: 80, ..rig.flow },
        state: CaState::Recovery,
        delivered: 5,
        conserved: 85,
        lost: 7,
        ..AckSample::default()
    };
    let now = rig.now();
    rig.bbr.cong_avoid(&mut rig.world.cx(now), &mut rig.window, &sample);
    assert_eq!(rig.window.cwnd, 85);
    assert_eq!(rig.bbr.model.max_bw(), prior.max_bw());
    // The next round grows again, the end brings the window of before back, as far as the model allows.
    rig.round(80, 80);
    assert!(rig.window.cwnd > 85);
    rig.enter(CaState::Open);
    rig.round(80, 80);
    assert!(rig.window.cwnd + 10 >= before && rig.window.cwnd > 180, "{} of {before}", rig.window.cwnd);
}

#[test]
fn a_timeout_starts_from_one_and_comes_back() {
    let mut rig = Rig::filled();
    let before = rig.window.cwnd;
    rig.enter(CaState::Loss);
    rig.window.cwnd = 1;
    rig.round(1, 1);
    assert_eq!(rig.window.cwnd, 4, "four segments at least");
    rig.enter(CaState::Open);
    rig.round(4, 4);
    assert!(rig.window.cwnd + 10 >= before, "{} of {before}", rig.window.cwnd);
}

#[test]
fn an_undo_forgets_what_losses_taught() {
    let mut rig = Rig::new();
    for delivered in [10, 20, 40, 40, 40] {
        rig.round(delivered, 100);
    }
    assert_eq!(rig.bbr.pipe.rounds, 2);
    rig.window.cwnd = 33;
    assert_eq!(rig.bbr.undo_cwnd(&rig.window), 33);
    rig.round(40, 100);
    assert_eq!((rig.bbr.pipe.rounds, rig.bbr.mode), (0, Mode::Startup));
}

/// A policer lets 50 segments per round trip through, whatever is sent.
#[test]
fn a_policer_is_found_and_believed_for_48_rounds() {
    let mut rig = Rig::filled();
    let mut found = None;
    for round in 0..30 {
        rig.us += 10_000;
        rig.ack(50, 100, 30, 10_000);
        if rig.bbr.policer.rate().is_some() {
            found = Some(round);
            break;
        }
    }
    // Two intervals of four rounds; the first loss begins the first.
    assert!((7..=10).contains(&found.expect("found")), "{found:?}");
    assert_eq!(rig.bbr.out.pacing_gain, UNIT);
    // 50 segments of 1,000 bytes per 10 ms, less 1 %.
    assert!((4_900_000..5_600_000).contains(&rig.rate()), "{}", rig.rate());
    let mut rounds = 0;
    while rig.bbr.policer.rate().is_some() {
        rig.us += 10_000;
        rig.ack(50, 100, 0, 10_000);
        rounds += 1;
        assert!(rounds <= 48, "looked for anew");
    }
    assert_eq!(rounds, 48);
}

#[test]
fn light_loss_or_a_thirsty_application_is_no_policer() {
    for (lost, app_limited) in [(5, false), (30, true)] {
        let mut rig = Rig::filled();
        rig.flow.app_limited = app_limited;
        for _ in 0..60 {
            rig.us += 10_000;
            rig.ack(50, 100, lost, 10_000);
        }
        assert_eq!(rig.bbr.policer.rate(), None, "{lost}");
    }
}

#[test]
fn acknowledgements_in_lots_get_room() {
    let mut rig = Rig::filled();
    rig.us += 10_000;
    rig.ack(100, 60, 0, 10_000);
    let before = rig.bbr.aggregation.room(rig.bbr.bw());
    rig.steady = Some(100);
    // Eighty segments within a millisecond, where ten were expected.
    for _ in 0..4 {
        rig.us += 250;
        rig.ack(20, 60, 0, 10_000);
    }
    let room = rig.bbr.aggregation.room(rig.bbr.bw());
    assert!(room > before + 50, "{before} to {room}");
    // Ten rounds of a stream that is a little slower than expected later it is forgotten.
    for _ in 0..300 {
        rig.us += 500;
        rig.ack(4, 60, 0, 10_000);
    }
    assert!(rig.bbr.aggregation.room(rig.bbr.bw()) < room);
}

#[test]
fn tcp_cc_info_has_the_layout_of_the_kernel() {
    let rig = Rig::filled();
    let info = rig.bbr.info(1_000);
    assert!((9_990_000..=10_000_000).contains(&info.bw), "{info:?}");
    let bytes = BbrInfo { bw: 0x1_0203_0405, min_rtt: 7, pacing_gain: 739, cwnd_gain: 512 }.emit();
    assert_eq!(bytes[..8], [5, 4, 3, 2, 1, 0, 0, 0]);
    assert_eq!((bytes[8], bytes[12], bytes[13], bytes[17]), (7, 0xe3, 2, 2));
}
