//! The canary: failures and panics on purpose come out with everything that is needed to see them again.
use super::*;
use crate::swarm::{AppDraw, Canary, Faults, SctpDraw};

fn canary(seed: u64, canary: Canary) -> WorldSpec {
    let udp = AppDraw::Udp { count: 10, size: 500, every_ms: 1, start_ms: 0 };
    WorldSpec { apps: vec![udp], canary, ..WorldSpec::new(seed) }
}

fn out(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("lowwater-sim-test-{name}-{}", std::process::id()))
}

#[test]
fn a_failure_prints_the_replay_line_and_leaves_a_capture() {
    let out = out("checker");
    let report = run_draw(&canary(7, Canary::Checker), &out);
    let failure = report.outcome.expect_err("on purpose");
    assert_eq!(failure.broken.checker, "canary", "{}", failure.text);
    for part in ["seed 7", "commit: ", "options: ", "broken: canary at ", "last records:", "capture: "] {
        assert!(failure.text.contains(part), "{part} is missing in {}", failure.text);
    }
    // Its programs are not those of the seed.
    assert!(failure.text.trim_end().ends_with("replay: cargo xtask sim --seed 7 --canary --shrink"));
    assert!(!failure.text.contains("NOT REPRODUCED"));
    let file = std::fs::read(failure.capture.expect("it was written")).expect("it is there");
    assert_eq!(&file[..4], &[0x0a, 0x0d, 0x0d, 0x0a], "a section header begins a pcapng file");
    std::fs::remove_dir_all(out).expect("ours");
}

#[test]
fn records_are_lines_for_people() {
    let ask = AppDraw::Rr { rounds: 2, size: 100, think_ms: 1, start_ms: 0 };
    // Nothing is lost, and few records are made.
    let draw = WorldSpec {
        apps: vec![ask],
        sctp: SctpDraw::default(),
        faults: [Faults::default(), Faults::default()],
        // No bit of a counter is among the flags.
        client_sysctl: Vec::new(),
        server_sysctl: Vec::new(),
        ..WorldSpec::new(7)
    };
    let mut world = swarm::build(&draw, Recording { trace: true, ..Recording::default() });
    guarded(&mut world, &draw).expect("nothing is wrong");
    let records = world.last_records(usize::MAX);
    let lines: Vec<_> = records.iter().map(|(host, record)| record_line(*host, record)).collect();
    let asks = |way: &str| {
        let line = lines.iter().find(|line| line.contains(&format!(" {way} P. "))).expect("a question");
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        <[String; 6]>::try_from(words).unwrap_or_else(|words| panic!("{words:?}"))
    };
    let ([sent_at, from, socket, .., segment], [came_at, to, .., came]) = (asks(">"), asks("<"));
    assert!(sent_at < came_at && from != to && from.starts_with("host"), "{lines:#?}");
    // The place of the socket and how often that was used, as 1v1.
    assert!(socket.split_once('v').is_some_and(|(place, _)| place.parse::<u32>().is_ok()), "{socket}");
    assert!(segment == came && segment.contains(':') && segment.ends_with("(100)"), "{segment}");
    assert!(lines.iter().any(|line| line.contains(" state ")), "{lines:#?}");
}

#[test]
fn a_panic_is_a_failure_like_any_other() {
    let out = out("panic");
    let failure = run_draw(&canary(8, Canary::Panic), &out).outcome.expect_err("on purpose");
    assert_eq!(failure.broken.checker, "panic");
    assert!(failure.broken.message.contains("on purpose"));
    std::fs::remove_dir_all(out).expect("ours");
}

#[test]
fn seeds_run_on_threads_and_each_is_reported_once() {
    let mut seen = Vec::new();
    let stop = AtomicBool::new(false);
    run_seeds(100, 108, &out("threads"), (3, true), &stop, &mut |r| seen.push(r.seed));
    seen.sort_unstable();
    assert_eq!(seen, (100..108).collect::<Vec<_>>());
}

#[test]
fn the_replay_line_has_the_options_that_made_the_world() {
    let whole = WorldSpec::new(9);
    assert_eq!(replay(&whole), "cargo xtask sim --seed 9");
    assert_eq!(
        replay(&WorldSpec { clients: whole.clients + 1, ..whole }),
        "cargo xtask sim --seed 9 --shrink"
    );
}

/// Others tell something all the time.
#[test]
fn a_seed_that_hangs_is_seen_beside_others_that_end() {
    let (sender, receiver) = mpsc::channel();
    let mut watch = Watch { begun: vec![None; 2] };
    watch.begin(0, 7);
    for seed in 100..200 {
        sender.send(Note::Begun(1, seed)).expect("somebody listens");
        let report = Report { seed, outcome: Ok(Summary::default()) };
        sender.send(Note::Done(Box::new(report))).expect("somebody listens");
    }
    let report = next_report(&receiver, &mut watch, Duration::ZERO).expect("it hangs");
    assert_eq!((report.seed, report.outcome.err().map(|f| f.broken.checker)), (7, Some("hang")));
    assert!(watch.begun[0].is_none(), "it is told once");
}
