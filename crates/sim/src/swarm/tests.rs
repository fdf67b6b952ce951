//! Draws are functions of the seed, and worlds functions of the draw.
use super::*;

#[test]
fn a_seed_draws_the_same_options_again_and_most_options_occur() {
    assert_eq!(WorldSpec::new(5), WorldSpec::new(5));
    assert_ne!(WorldSpec::new(5), WorldSpec::new(6));
    let draws: Vec<WorldSpec> = (0..300).map(WorldSpec::new).collect();
    assert!(draws.iter().any(|d| d.v6) && draws.iter().any(|d| !d.v6));
    assert!(draws.iter().any(|d| d.clients > 1));
    assert!(draws.iter().any(|d| d.hop_mtu != 0));
    assert!(draws.iter().any(|d| d.not_now_ppm != 0));
    assert!(draws.iter().any(|d| d.faults[0] == Faults::default()));
    assert!(draws.iter().any(|d| d.faults[0].corrupt_ppm != 0));
    assert!(draws.iter().any(|d| d.options == [0; 2]) && draws.iter().any(|d| d.options[0] != d.options[1]));
    for name in ["tcp_sack", "tcp_timestamps", "tcp_ecn", "tcp_congestion_control", "hystart", "tcp_rmem"] {
        assert!(draws.iter().any(|d| d.client_sysctl.iter().any(|(n, _)| *n == name)), "{name}");
    }
    let sctp: Vec<&SctpDraw> = draws.iter().map(|d| &d.sctp).filter(|s| !s.talks.is_empty()).collect();
    assert!(sctp.len() > 50 && draws.iter().any(|d| d.apps.is_empty()));
    assert!(sctp.iter().any(|s| s.second.as_ref().is_some_and(|second| second.dark_ms != [(0, 0); 2])));
    assert!(sctp.iter().any(|s| s.may_fail) && sctp.iter().any(|s| s.trains && s.bound));
    let talks: Vec<&TalkDraw> = sctp.iter().flat_map(|s| &s.talks).collect();
    assert!(talks.iter().any(|t| t.writes[0].limited > 0 && t.writes[0].whims > 0));
    assert!(talks.iter().any(|t| !t.end.is_good()) && talks.iter().any(|t| t.end.is_good()));
}

#[test]
fn a_world_runs_twice_to_the_same_bytes() {
    for seed in 0..4 {
        let draw = WorldSpec::new(seed);
        let once = || {
            let mut world = build(&draw, Recording { capture: true, ..Recording::default() });
            let outcome = run(&mut world, &draw);
            (outcome, world.events(), world.now(), world.take_capture())
        };
        assert!(once() == once(), "seed {seed}");
    }
}

/// A FIN and its copy come at once: what the second one gets is among the segments sent.
#[test]
fn answers_in_time_wait_are_counted_while_the_program_holds_its_socket() {
    let churn = AppDraw::Churn { rounds: 200, pause_ms: 1, start_ms: 0 };
    let twice = Faults { duplicate_ppm: 1_000_000, ..Faults::default() };
    let draw = WorldSpec {
        apps: vec![churn],
        sctp: SctpDraw::default(),
        faults: [Faults::default(), twice],
        qdiscs: [String::new(), String::new()],
        ..WorldSpec::new(1)
    };
    run(&mut build(&draw, Recording::default()), &draw).expect("no promise is broken");
}

#[test]
fn some_seeds_reach_the_mechanisms_that_matter() {
    let mut sums: Vec<u64> = Vec::new();
    for seed in 0..80 {
        let draw = WorldSpec::new(seed);
        let summary = run(&mut build(&draw, Recording::default()), &draw).expect("no promise is broken");
        sums.resize(summary.counters.len(), 0);
        sums.iter_mut().zip(&summary.counters).for_each(|(sum, n)| *sum += n);
    }
    let names = Summary::counter_names();
    for wanted in [
        "TcpRetransSegs",
        "TcpInCsumErrors",
        "TcpExtTCPSackRecovery",
        "TcpExtTCPRenoRecovery",
        "TcpExtTCPFastRetrans",
        "TcpExtTCPTimeouts",
        "TcpExtTCPLossProbes",
        "TcpExtTCPDSACKRecv",
        "TcpExtTCPOFOQueue",
        "TcpExtTCPHystartTrainDetect",
        "TcpExtTW",
        // Of a socket option.
        "TcpExtTCPKeepAlive",
        "IcmpInDestUnreachs",
        "SctpFastRetransmits",
        "SctpT3Retransmits",
        "SctpShutdowns",
        "SctpAborteds",
        "LowwaterSctpAbandoned",
        "LowwaterSctpHeartbeats",
        "LowwaterPacketsNotNow",
        "LowwaterGroMerged",
        "LowwaterGsoSegmented",
    ] {
        let index = names.iter().position(|n| n == wanted);
        assert!(index.is_some_and(|i| sums[i] > 0), "{wanted} was never counted");
    }
}

/// Without a search for the path's MTU nothing passes a hop that says nothing: a world that has the one and not the other fails whatever is
/// looked for.
#[test]
fn no_smaller_world_has_a_silent_hop_and_no_search() {
    let holes = (0..400).map(WorldSpec::new).filter(|d| d.seldom.black_hole);
    for draw in holes {
        let set = |d: &WorldSpec, name| d.seldom.sysctl.iter().any(|(n, _)| *n == name);
        let mut seen = false;
        let smallest = shrink(&draw, &mut |d| {
            let searches = set(d, "tcp_mtu_probing")
                && (d.sctp.talks.is_empty() || set(d, "sctp.plpmtud_probe_interval"));
            assert!(!d.seldom.black_hole || searches, "{:?}", d.seldom);
            seen |= d.seldom.black_hole;
            true
        });
        assert!(seen && !smallest.seldom.black_hole);
    }
}
