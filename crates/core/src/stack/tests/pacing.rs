//! The pace of a flow on the wire, kept by the transport or by the queue below: its rate, its gaps, and what changes neither.
use super::qdisc::{paced, qdisc};
use super::tcp::{close_both, transfer};
use super::world::World;
use crate::base::sysctl::CongestionKind;
use crate::base::{Duration, Instant, Rng, SocketId, Wait};
use crate::device::DeviceCaps;
use crate::tcp::SocketOptions;

/// Headers of a packet with timestamps.
const HEADERS: usize = 52;
/// The first ten segments of 1,448 bytes leave at once, in packets that may end beyond them.
const UNPACED: usize = 10 * 1_448;

/// Two hosts that are near each other, so that nothing but the pace holds the flow back.
fn near(spec: &str, rate: u64) -> (World, SocketId, SocketId) {
    let mut w = World::new([DeviceCaps::offloading(1_500); 2]);
    w.delay = Duration::from_nanos(500);
    // Packets of a millisecond each: near peers would get larger ones, which says nothing about the pace.
    w.stacks[0].set_sysctl("net.ipv4.tcp_tso_rtt_log", "0").expect("a setting");
    // Nor shall a window or a buffer be the limit: what waits in fq counts as in flight, and its time as a train of acknowledgements.
    w.stacks[0].set_sysctl("hystart", "0").expect("a setting");
    w.stacks[0].set_sysctl("net.ipv4.tcp_wmem", "4096 16777216 67108864").expect("a setting");
    w.stacks[1].set_sysctl("net.ipv4.tcp_rmem", "4096 67108864 67108864").expect("a setting");
    qdisc(&mut w, spec);
    let (client, server) = paced(&mut w, rate);
    w.sent = Some(Vec::new());
    (w, client, server)
}

/// Data packets after the first ten segments: when each left, and its payload.
fn data(w: &World) -> Vec<(Instant, usize)> {
    let sent = w.sent.as_ref().expect("noted").iter().filter(|(_, len)| *len > HEADERS);
    let mut before = 0;
    let mut paced = Vec::new();
    for &(at, len) in sent {
        if before >= UNPACED {
            paced.push((at, len - HEADERS));
        }
        before += len - HEADERS;
    }
    paced
}

/// Payload bytes per second from the first of the packets to the last, which itself does not count.
fn rate_of(packets: &[(Instant, usize)]) -> u64 {
    let bytes: usize = packets[..packets.len() - 1].iter().map(|(_, len)| len).sum();
    let ns = packets[packets.len() - 1].0.nanos_since(packets[0].0);
    (bytes as u128 * 1_000_000_000 / u128::from(ns)) as u64
}

/// No packet leaves before the one before it has had its time; `percent` of it.
fn no_burst(packets: &[(Instant, usize)], rate: u64, percent: u64) {
    for pair in packets.windows(2) {
        let (gap, len) = (pair[1].0.nanos_since(pair[0].0), pair[0].1 as u64);
        let due = len * 1_000_000_000 / rate;
        assert!(gap + 1 >= due * percent / 100, "{gap} ns after {len} bytes, {due} due, at {:?}", pair[1].0);
    }
}

/// The queues of both pacers: while the window grows a millisecond of 40 Gbit/s is more than fq's hundred packets per flow.
const PACERS: [&str; 2] = ["pfifo", "fq flow_limit 10000"];

/// 0.5 % over 100 packets after the first ten segments, and no packet before the one in front of it has had its time.
fn keeps_to(spec: &str, rate: u64, congestion: CongestionKind) {
    let (mut w, client, server) = near(spec, rate);
    let options = w.stacks[0].options(client).expect("open").clone();
    w.stacks[0].set_options(w.now, client, SocketOptions { congestion, ..options }).expect("open");
    let packet = (rate / 1_000).clamp(2_896, 65_160) as usize;
    transfer(&mut w, (0, client), (1, server), UNPACED + 130 * packet);
    let packets = data(&w);
    assert!(packets.len() > 100, "{spec} {rate}: {} packets", packets.len());
    let got = rate_of(&packets);
    assert!(got.abs_diff(rate) <= rate / 200, "{spec}, {congestion:?}: {got} of {rate} bytes per second");
    no_burst(&packets, rate, 100);
    let waits = w.stacks[0].counters().waits(Wait::Pacing);
    assert_eq!(waits == 0, spec != "pfifo", "who waits: {waits}");
    close_both(&mut w, client, server);
}

#[test]
fn the_payload_keeps_to_the_rate_from_a_megabit_to_forty_gigabits() {
    for mbit in [1u64, 10, 48, 100, 1_000, 10_000, 40_000] {
        PACERS.iter().for_each(|spec| keeps_to(spec, mbit * 125_000, CongestionKind::Cubic));
    }
}

/// Rates that nobody has thought of, drawn over sixteen powers of two.
#[test]
fn the_payload_keeps_to_any_rate() {
    let mut rng = Rng::new(11);
    for _ in 0..40 {
        let power = rng.below(16);
        let rate = (125_000 + rng.below(125_000)) << power;
        let congestion = [CongestionKind::Cubic, CongestionKind::Reno][rng.below(2) as usize];
        PACERS.iter().for_each(|spec| keeps_to(spec, rate.min(5_000_000_000), congestion));
    }
}

#[test]
fn the_pace_moves_between_transport_and_queue_without_burst_gap_or_loss() {
    let (mut w, client, server) = near("pfifo", 1_250_000);
    for _ in 0..20 {
        for spec in ["fq", "pfifo", "fq maxrate 100mbit", "pfifo limit 100", "fq"] {
            qdisc(&mut w, spec);
            transfer(&mut w, (0, client), (1, server), 17_000);
            // And in the midst of it, with packets in the queue whose time has not come.
            let block = vec![0; 30_000];
            w.stacks[0].tcp_send(w.now, client, &block, super::tcp::NO_FLAGS).expect("room");
            w.run(Duration::from_millis(3));
            qdisc(&mut w, if spec == "pfifo" { "fq" } else { "pfifo" });
            let mut got = 0;
            w.until("the rest", |w| {
                while let Ok(Some(chunk)) = w.stacks[1].tcp_read_chunk(w.now, server, usize::MAX) {
                    got += chunk.len();
                }
                got == block.len()
            });
        }
    }
    let packets = data(&w);
    assert!(packets.len() > 1_000);
    // Between two transfers the application holds the flow up, for a round trip at most: then half of a gap may be made good.
    no_burst(&packets, 1_250_000, 50);
    let longest = packets.windows(2).map(|p| p[1].0.nanos_since(p[0].0)).max().expect("many");
    assert!(longest < 10_000_000, "{longest} ns of silence");
    let rate = rate_of(&packets);
    assert!(rate.abs_diff(1_250_000) <= 1_250_000 / 50, "{rate}");
    assert_eq!(w.stacks[0].counters().tcp.retrans_segs, 0);
    close_both(&mut w, client, server);
    assert!(w.stacks[0].credits().is_empty());
}

#[test]
fn not_now_never_moves_the_window() {
    for kind in CongestionKind::ALL {
        for rate in [u64::MAX, 12_500_000] {
            let mut w = World::plain();
            (w.ring, w.says_full) = (1, false);
            let (client, server) = paced(&mut w, rate);
            let options =
                SocketOptions { max_pacing_rate: rate, congestion: kind, ..super::tcp::options(&w) };
            w.stacks[0].set_options(w.now, client, options).expect("open");
            let (mut sent, mut got, total) = (0, 0, 400_000);
            let window = |w: &mut World| {
                let info = w.stacks[0].tcp_info(w.now, client).expect("open");
                (info.snd_cwnd, info.snd_ssthresh, info.lost, info.ca_state)
            };
            w.until("all", |w| {
                while sent < total {
                    match w.stacks[0].tcp_send(
                        w.now,
                        client,
                        &vec![0; (total - sent).min(30_000)],
                        super::tcp::NO_FLAGS,
                    ) {
                        Ok(n) => sent += n,
                        Err(_) => break,
                    }
                }
                let before = window(w);
                w.transmit();
                assert_eq!(window(w), before, "{kind:?}");
                while let Ok(Some(chunk)) = w.stacks[1].tcp_read_chunk(w.now, server, usize::MAX) {
                    got += chunk.len();
                }
                got == total
            });
            assert!(w.stacks[0].counters().own.packets_not_now > 20);
            assert_eq!(w.stacks[0].counters().tcp.retrans_segs, 0);
            close_both(&mut w, client, server);
        }
    }
}
