//! The experiments with parameters that nobody has chosen: other rates, sizes, numbers of flows and round trips, drawn from seeds.
//! What must hold between the figures holds there too, so that nothing is tuned to one scenario.
//!
//! A failure prints the command that runs it again.
use lowwater_core::base::Rng;
use lowwater_sim::scenario::{Figures, NotsentLowat, Pacing, Scenario, SmallQueues, TsoAutosize};
use std::fmt::Write as _;

/// Payload of a full segment with timestamps, and what it is on the line.
const MSS: f64 = 1_448.0;
const FRAME: f64 = 1_500.0;
/// The part of a line's rate that is left for payload.
const PAYLOAD: f64 = MSS / FRAME;
/// Payload of a full element of the send queue, and a little.
const ELEMENT: f64 = 65_536.0;
/// Charge and IP bytes of the largest packet.
const PACKET: f64 = 67_500.0;

/// One experiment with its parameters.
#[derive(Clone)]
struct Case {
    scenario: Box<dyn Scenario>,
    command: String,
}

impl Case {
    fn new(name: &'static str, scenario: impl Scenario + 'static) -> Self {
        let command = format!("lowwater lab run {name}");
        Self { scenario: Box::new(scenario), command }
    }

    fn set(mut self, key: &str, value: &(impl ToString + ?Sized)) -> Self {
        let value = value.to_string();
        let _ = write!(self.command, " --set \"{key}={value}\"");
        let known = self.scenario.set(key, &value);
        known.unwrap_or_else(|| self.scenario.sysctl().set(key, &value)).expect("a legal value");
        self
    }

    fn run(&self) -> Of {
        let figures = self.scenario.run(&mut |_| true).unwrap_or_else(|e| panic!("{}: {e:?}", self.command));
        assert!(figures.complete, "{}", self.command);
        Of { figures, command: self.command.clone() }
    }
}

struct Of {
    figures: Figures,
    command: String,
}

impl Of {
    fn get(&self, name: &str) -> f64 {
        self.figures.get(name).unwrap_or_else(|| panic!("{name} of {}", self.command))
    }

    fn holds(&self, what: &str, yes: bool) {
        assert!(yes, "{what}: {:?}\n{}", self.figures.named(), self.command);
    }
}

/// A number from `low` to `high`, evenly over its logarithm, with three digits.
fn drawn(rng: &mut Rng, low: f64, high: f64) -> f64 {
    let part = rng.below(1 << 20) as f64 / f64::from(1 << 20);
    let value = low * (high / low).powf(part);
    let digits = 10_f64.powf(value.log10().floor() - 2.0);
    (value / digits).round() * digits
}

fn whole(rng: &mut Rng, low: f64, high: f64) -> u64 {
    drawn(rng, low, high).round() as u64
}

/// E1: a limit bounds what is queued, costs no goodput, and wakes writers by halves of it.
#[test]
fn a_limit_on_unsent_data_holds_at_other_sizes() {
    for seed in 0..4 {
        let rng = &mut Rng::new(seed);
        let (rate, rtt) = (drawn(rng, 10.0, 400.0), drawn(rng, 10.0, 200.0));
        let flows = whole(rng, 1.0, 20.0);
        let path = rate * 1e6 / 8.0 * rtt / 1e3;
        let case = Case::new("notsent-lowat", NotsentLowat::default())
            .set("rate_mbps", &rate)
            .set("rtt_ms", &rtt)
            .set("flows", &flows)
            .set("queue_bytes", &(path.max(100_000.0) as u64))
            .set("sndbuf", &((4.0 * path / flows as f64).max(1e6) as u64))
            .set("warmup_s", &5)
            .set("measure_s", &5);
        // A limit below what one round of sending takes is for those who have less to send.
        let lowat = whole(rng, 131_072.0, 1_048_576.0);
        let unset = case.run();
        let limited = case.clone().set("lowat", &lowat).run();
        let eager = case.set("lowat", &lowat).set("notsent_lowat_half", &0).run();
        // In flight, the limit and an element; the first element is held whole until the last of it is acknowledged.
        let bound = lowat as f64 + ELEMENT;
        limited.holds(
            "memory per flow",
            limited.get("queued_over_bound_max") <= 1.15 * (bound + ELEMENT) / bound,
        );
        limited.holds(
            "less than without",
            limited.get("unsent_bytes_per_flow") <= bound.min(unset.get("unsent_bytes_per_flow")),
        );
        limited.holds("goodput", limited.get("goodput_mbps") >= 0.99 * unset.get("goodput_mbps"));
        // Each wake-up lets in half of the limit at least, and an element more.
        let wakes = limited.get("writable_events_per_mb");
        limited.holds("wakes", wakes <= 1.05e6 / (lowat as f64 / 2.0));
        eager.holds("the half rule spares wakes", eager.get("writable_events_per_mb") >= 1.5 * wakes);
    }
}

/// E2: what stands before the line is what the rule allows, and the line is full; without the rule the queue is.
#[test]
fn small_queues_hold_at_other_sizes() {
    for seed in 0..6 {
        let rng = &mut Rng::new(100 + seed);
        let rate = drawn(rng, 5.0, 4_000.0);
        let cap = whole(rng, 70_000.0, 2_000_000.0);
        let case = Case::new("small-queues", SmallQueues::default())
            .set("rate_mbps", &rate)
            .set("tcp_limit_output_bytes", &cap)
            .set("warmup_s", &2)
            .set("measure_s", &2);
        let on = case.run();
        // Slow start goes on where HyStart would end it before a queue is full.
        let [freely, off] = ["none", "netem delay 1us limit 1000"]
            .map(|qdisc| case.clone().set("hystart", &0).set("qdisc", qdisc).run());
        // Two packets or a millisecond of the pace, which is what the window allows and twice that in slow start; without HyStart the
        // window may be any number of times what is in flight, and the cap alone is left.
        let paced = (2.0 * PACKET).max(2.0 * rate * 1e6 / 8.0 / 1e3).min(cap as f64);
        // A large packet is charged a fortieth less than its bytes on the line.
        for (of, limit) in [(&on, 1.025 * paced + PACKET), (&freely, 1.025 * cap as f64 + PACKET)] {
            // And the probes behind them.
            of.holds("backlog", of.get("backlog_bytes_max") <= limit + FRAME);
            of.holds(
                "a probe waits for what stands",
                of.get("probe_rtt_ms_max") <= limit * 8.0 / rate / 1e3 + 0.1,
            );
            // A packet may have come a little before or after the end.
            let one = PACKET * 8.0 / 2e6;
            let goodput = of.get("goodput_mbps");
            of.holds("goodput", (goodput - PAYLOAD * rate).abs() <= 0.01 * rate + one);
            of.holds("no goodput was bought by more", goodput >= 0.98 * off.get("goodput_mbps") - one);
        }
        let ratio = off.get("backlog_bytes_mean") / freely.get("backlog_bytes_mean");
        off.holds("without them the queue is full", ratio >= 2.0);
    }
}

/// E3: fewer packets for the same segments in the same time, and none larger than a millisecond's worth where the peer is far.
#[test]
fn packets_are_sized_by_the_rate_at_other_sizes() {
    for seed in 0..8 {
        let rng = &mut Rng::new(200 + seed);
        let near = seed % 2 == 0;
        let rtt = if near { drawn(rng, 4.0, 30.0) } else { drawn(rng, 30.0, 300.0) };
        let bytes = whole(rng, if near { 2e6 } else { 3e5 }, 1e7);
        let mtu = [1_500, 1_500, 1_280, 4_000][rng.below(4) as usize];
        let case = Case::new("tso-autosize", TsoAutosize::default())
            .set("rtt_ms", &rtt)
            .set("bytes", &bytes)
            .set("mtu", &mtu);
        let (sized, pairs) = (case.run(), case.clone().set("gso_max_segs", &2).run());
        let mss = f64::from(mtu) - 52.0;
        let segs = sized.get("tcp_out_segs");
        let least = (bytes as f64 / mss).ceil();
        sized.holds("each byte is sent once", (least..=1.02 * least + 12.0).contains(&segs));
        sized.holds("the same segments", (segs / pairs.get("tcp_out_segs") - 1.0).abs() <= 0.02);
        let packets = (sized.get("ip_out_requests"), pairs.get("ip_out_requests"));
        pairs.holds("two segments in a packet", (packets.1 * 2.0 / segs - 1.0).abs() <= 0.05);
        // Far away a millisecond of the rate is two segments, for most of the time.
        sized.holds("fewer packets", packets.0 <= if near { 0.4 } else { 1.03 } * packets.1);
        // Give or take the round trip in which the last window falls.
        let (elapsed, trip) = (pairs.get("elapsed_s"), 1.05 * rtt / 1e3);
        sized.holds("in the same time", (sized.get("elapsed_s") - elapsed).abs() <= trip);
        // Pacing changes when packets go, and little else.
        let paced = case.set("qdisc", "fq").run();
        paced.holds("paced", paced.get("ip_out_requests") >= 0.9 * packets.0);
        paced.holds("paced in about the same time", paced.get("elapsed_s") <= 1.3 * sized.get("elapsed_s"));
    }
}

/// E4: the payload is what was asked for, packet after packet, by either pacer.
#[test]
fn paced_flows_keep_to_other_rates() {
    for seed in 0..4 {
        let rng = &mut Rng::new(300 + seed);
        let (flows, pace) = (whole(rng, 1.0, 60.0), drawn(rng, 1.0, 60.0));
        let rtt = drawn(rng, 2.0, 100.0);
        let case = Case::new("pacing", Pacing::default())
            .set("flows", &flows)
            .set("pacing_mbps", &pace)
            .set("rtt_ms", &rtt)
            .set("warmup_s", &2)
            .set("measure_s", &4);
        let both = ["pfifo_fast", "fq"].map(|qdisc| case.clone().set("qdisc", qdisc).run());
        for of in &both {
            let (got, asked) = (of.get("goodput_mbps"), flows as f64 * pace);
            of.holds("goodput", (got / asked - 1.0).abs() <= 0.005);
            of.holds(
                "bursts",
                of.get("burst_packets_max") <= 1.0 && of.get("first_burst_packets_max") <= 1.0,
            );
            of.holds("no loss", of.get("retrans_segs") == 0.0 && of.get("dropped_packets") == 0.0);
            // A packet holds a millisecond of the pace, two segments at least.
            let packet = (pace * 1e6 / 8.0 / 1_024.0 / MSS).floor().max(2.0) * MSS;
            let gap = packet * 8.0 / pace;
            of.holds("gaps", (of.get("gap_us_p50") / gap - 1.0).abs() <= 0.03);
        }
        let gaps = both.each_ref().map(|of| of.get("gap_us_p50"));
        both[1].holds("both alike", (gaps[0] / gaps[1] - 1.0).abs() <= 0.01);
    }
}
