//! Seeds make programs, and scripts of them that pass.
use super::stack::HEADERS;
use super::*;

fn flavours(text: &str) -> Flavours {
    Flavours::parse(text).expect("known words")
}

#[test]
fn a_seed_makes_one_program() {
    let words = flavours("sysctl,ecn,weird,data");
    for seed in 0..20 {
        let program = author::program(seed, &words, HEADERS).expect("a program");
        assert_eq!(program, author::program(seed, &words, HEADERS).expect("a program"));
        assert!(program.steps.is_sorted_by_key(|step| step.at), "seed {seed}");
        assert!(program.steps.iter().any(|step| matches!(step.act, Act::Write(_))), "seed {seed}");
    }
    let all: Vec<_> =
        (0..20).map(|seed| author::program(seed, &words, HEADERS).expect("a program").steps.len()).collect();
    assert!(all.iter().max() > all.iter().min(), "{all:?}");
}

#[test]
fn the_script_of_a_run_passes_where_it_ran() {
    for (seed, words) in [(1, ""), (2, "cubic"), (3, "nosack"), (4, "ecn"), (5, "even,spike"), (6, "sysctl")]
    {
        let program = author::program(seed, &flavours(words), HEADERS).expect("a program");
        let run =
            trace::run(&mut stack::Stack::new(HEADERS).expect("a stack"), &program, None).expect("a run");
        let text = script::text(&program, &run, usize::MAX);
        if let Err(failure) = lowwater_drill::drill("drawn.pkt", &text) {
            panic!("seed {seed} {words}: {failure}\n{text}");
        }
    }
}

#[test]
fn a_replay_does_the_same_at_the_same_times_and_follows_late_ones() {
    let mut with_timer = 0;
    for (seed, words) in [(2, "cubic"), (5, "even,spike"), (8, "defer"), (11, "weird")] {
        let program = author::program(seed, &flavours(words), HEADERS).expect("a program");
        let mut run =
            trace::run(&mut stack::Stack::new(HEADERS).expect("a stack"), &program, None).expect("a run");
        let replay = |run: &Trace| trace::replay(&program, run, Moved::default(), None).expect("a replay");
        assert_eq!(compare::difference(&program, &replay(&run), &run), None, "seed {seed} {words}");
        // What a timer sends follows the run by a tick, and not by more.
        let Some(step) = run.steps.iter().position(|step| !step.later.is_empty()) else { continue };
        with_timer += 1;
        let due = run.steps[step].later[0].at;
        run.steps[step].later[0].at = due + 5_000;
        assert_eq!(replay(&run).steps[step].later[0].at, due + 5_000, "seed {seed} {words}");
        run.steps[step].later[0].at = due + 20_000 + due.saturating_sub(program.steps[step].at) / 3;
        assert_eq!(replay(&run).steps[step].later[0].at, due, "seed {seed} {words}");
    }
    assert!(with_timer >= 2, "timers sent something in {with_timer} connections");
}

#[test]
fn a_timer_that_was_set_long_before_a_step_is_followed_for_as_long() {
    // A timeout of a second comes 21 ms behind the step, 40 ms later on a kernel: what was sent again at the step has then left by more than the
    // reordering window before what that sends, and is lost.
    let (program, step) = (author::program(151_320, &flavours("sack,ecn"), HEADERS).expect("a program"), 32);
    let mut run =
        trace::run(&mut stack::Stack::new(HEADERS).expect("a stack"), &program, None).expect("a run");
    let due = run.steps[step].later[0].at;
    assert!(due - program.steps[step].at < 30_000, "{:?}", run.steps[step].later);
    run.steps[step].later[0].at = due + 40_000;
    let again = trace::replay(&program, &run, Moved::default(), None).expect("a replay");
    assert_eq!(again.steps[step].later[0].at, due + 40_000);
    let seqs = |trace: &Trace| trace.steps[step + 1].at_once.iter().map(|seen| seen.seq).collect::<Vec<_>>();
    assert_eq!((seqs(&run), seqs(&again)), (vec![33_001], vec![31_001]));
}

#[test]
fn microseconds_that_code_takes_count_for_nothing() {
    // A retransmission whose round trip is the least one or some microseconds less (141100).
    let (program, stack) = drawn(141_100, "cubic,even,weird");
    let (mut differ, mut found) = (0, Vec::new());
    for from in 1..stack.steps.len() {
        let mut program = program.clone();
        program.steps[from..].iter_mut().for_each(|step| step.at += 300);
        let run =
            trace::run(&mut stack::Stack::new(HEADERS).expect("a stack"), &program, None).expect("a run");
        differ += usize::from(compare::difference(&program, &stack, &run).is_some());
        found.extend(different(&program, &stack, &run));
    }
    assert!(differ > 0, "microseconds decide nothing in this connection");
    assert!(found.iter().all(|found| found.border), "{found:?}");
}

fn drawn(seed: u64, words: &str) -> (program::Program, Trace) {
    let program = author::program(seed, &flavours(words), HEADERS).expect("a program");
    let stack = trace::run(&mut stack::Stack::new(HEADERS).expect("a stack"), &program, None).expect("a run");
    (program, stack)
}

/// What stands for a kernel that does as the stack does with other times.
fn moved(program: &program::Program, stack: &Trace, moment: Moved) -> Trace {
    let plain = trace::replay(program, stack, Moved::default(), None).expect("a replay");
    let mut run = trace::replay(program, stack, moment, Some(&plain)).expect("a replay");
    (run.end_ns, run.tick_ns) = (stack.end_ns, stack.tick_ns);
    for (done, plain) in run.steps.iter_mut().zip(&stack.steps) {
        (done.at_ns, done.late) = (plain.at_ns, plain.late);
    }
    run
}

#[test]
fn a_write_pushes_when_it_likes() {
    // Its last packet is a push by itself, 30 us behind those before it, and so too young to be lost by the round trip of the first of them; what
    // was pushed with that is lost.
    let (program, stack) = drawn(152_353, "sysctl,smallwin,weird");
    let run = moved(&program, &stack, Moved { apart: 30, only: Some((0, 3)), ..Moved::default() });
    let found = different(&program, &stack, &run).expect("another outcome");
    assert!(found.border && found.step == 4, "{found:?}");
}

#[test]
fn what_leaves_a_moment_later_is_cut_as_before() {
    // The window's half is reached with the fifth of six packets, which is pushed with the four before it, and so lost with them; the sixth is
    // too young (152555). A pause of whole packets must not count segments, or small queues hold the fourth and the last two are one.
    let (program, stack) = drawn(152_555, "sysctl,smallwin,weird");
    let run = moved(&program, &stack, Moved { apart: 40, only: Some((0, 5)), ..Moved::default() });
    let found = different(&program, &stack, &run).expect("another outcome");
    assert!(found.border && found.step == 4, "{found:?}");
    let seqs: Vec<u32> = run.steps[4].at_once.iter().map(|seen| seen.seq).collect();
    assert_eq!(seqs, [7_905]);
}

#[test]
fn what_one_acknowledgement_lets_out_may_lie_microseconds_apart_and_that_excuses_nothing_else() {
    // A SACK of what had just left makes a reordering window of 60 us: what went again 80 us before new data is lost when that arrives, and
    // what left with it is not.
    let (program, stack) = drawn(140_008, "weird,ecn,cubic");
    let plain = trace::replay(&program, &stack, Moved::default(), None).expect("a replay");
    assert!(plain.steps.iter().any(|done| done.parts == (2, 1)), "one again, one new");
    let run = moved(&program, &stack, Moved { apart: 80, ..Moved::default() });
    let found = different(&program, &stack, &run).expect("another outcome");
    assert!(found.border && found.what.contains("retrans"), "{found:?}");
    // Behind the same SACK something else is a difference.
    let sacked = trace::FIELDS.iter().position(|(name, ..)| *name == "sacked").expect("a field");
    for step in [found.step - 1, found.step] {
        let mut run = stack.clone();
        run.steps[step].info[sacked] += 1;
        let found = different(&program, &stack, &run).expect("a difference");
        assert!(found.step == step && !found.border, "{found:?}");
    }
}

#[test]
fn unknown_words_are_told_with_the_known_ones() {
    let why = Flavours::parse("ecn,sacks").expect_err("a wrong word");
    assert!(why.contains("'sacks'") && why.contains("nosack") && why.contains("weird"), "{why}");
    assert_eq!(flavours(" ecn, sack ").to_string(), "ecn,sack");
}

#[test]
fn a_program_does_the_same_on_the_kernel() {
    if !lowwater_os::netns::net_admin() {
        return;
    }
    let mut steps = 0;
    for seed in [0, 7] {
        let drawn = draw(seed, &Flavours::default(), 6).expect("a kernel");
        assert!(drawn.finding.is_none(), "seed {seed}: {drawn:?}");
        steps += drawn.steps;
    }
    assert!(steps > 30, "{steps}");
}

#[test]
fn the_script_of_a_life_passes_where_it_ran() {
    let (mut drilled, mut waited) = (0, 0);
    let drawn = |words| move |seed| (seed, words);
    let many = ["life", "vectors", "blocking", "vectors,blocking"].map(|words| (0..8).map(drawn(words)));
    for (seed, words) in many.into_iter().flatten().chain([13, 36].map(drawn("vectors,blocking,buffers"))) {
        let life = life::Life::draw(seed, &flavours(words), HEADERS).expect("a life");
        let run = life.run(&mut stack::Stack::at(life.place()).expect("a stack")).expect("a run").0;
        let text = life.script(&run, usize::MAX);
        // What such a call would write is in no script.
        let never = |line: &str| line.contains("// never comes back") && !line.contains(" recv(");
        if text.lines().any(never) {
            continue;
        }
        drilled += 1;
        let waits = |line: &&str| line.contains(" splice(") && line.contains("...");
        waited += text.lines().filter(waits).count();
        if let Err(failure) = lowwater_drill::drill("drawn.pkt", &text) {
            panic!("seed {seed} {words}: {failure}\n{text}");
        }
    }
    assert!(drilled > 20 && waited >= 2, "{drilled} scripts, in which {waited} splices wait");
}

#[test]
fn a_seed_makes_one_life() {
    for (word, _) in LIVES {
        let words = flavours(word);
        for seed in 0..4 {
            let life = life::Life::draw(seed, &words, HEADERS).expect("a life");
            let again = life::Life::draw(seed, &words, HEADERS).expect("a life");
            assert!(life.steps() > 1, "seed {seed} {word}");
            let run = |life: &life::Life| {
                life.run(&mut stack::Stack::at(life.place()).expect("a stack")).expect("a run").0
            };
            let (one, other) = (run(&life), run(&again));
            assert_eq!(life.difference(&other), None, "seed {seed} {word}");
            assert_eq!(life.script(&one, usize::MAX), again.script(&other, usize::MAX), "seed {seed} {word}");
        }
    }
}

#[test]
fn what_words_ask_for_is_drawn_and_seen() {
    let script = |seed, words| {
        let life = life::Life::draw(seed, &flavours(words), HEADERS).expect("a life");
        let run = life.run(&mut stack::Stack::at(life.place()).expect("a stack")).expect("a run").0;
        life.script(&run, usize::MAX)
    };
    let all = |words, what: &str| (0..20).filter(|seed| script(*seed, words).contains(what)).count();
    assert!(all("blocks", "sack ") > 10 && all("life", "sack ") == 0);
    assert!(all("ipv6", "--ip_version=ipv6") == 20 && all("life", "--") == 0);
    assert!(all("mtu", "--mtu=") == 20 && all("mtu,icmp,ipv6", "icmp type_2 code_0") > 0);
    assert!(all("vectors", "readv(") > 0 && all("vectors", "recvmsg(") > 0 && all("vectors", "writev(") > 0);
    assert!(all("vectors", "splice(") > 0);
    assert!(all("header,ipv6", "IPV6_TCLASS") > 0 && all("header,ipv6", " IP_") == 0);
    assert!(
        all("header", "> [tos 0xb8, ttl 64]") > 0 && all("header", "ttl 33]") > 0 && all("life", "ttl ") == 0
    );
}

#[test]
fn another_tos_or_ttl_is_a_difference() {
    let life = life::Life::draw(0, &flavours("life"), HEADERS).expect("a life");
    for header in [(3, 64), (0, 63)] {
        let mut run = life.moved(0, 0, None).expect("a run");
        let step = run.mark(header).expect("something that was sent");
        let found = life.difference(&run).expect("a difference");
        assert!(found.step == step && found.what.contains("[tos "), "{found:?}");
    }
}

#[test]
fn what_a_moment_decides_counts_for_nothing() {
    // A stack whose timers were late stands for a kernel: a segment comes after a silence of a timeout, or not yet (9045), and a SYN when half a
    // second has passed since the last one that was answered, or not yet (9119).
    for (seed, word, step) in [(9_045, "options", 13), (9_119, "options", 23)] {
        let life = life::Life::draw(seed, &flavours(word), HEADERS).expect("a life");
        let found: Vec<_> = (1..12)
            .filter_map(|late| {
                let mut run = life.moved(0, 0, None).expect("a run");
                run.delay(step - 3, late * 5_000);
                life.difference(&life.moved(0, 0, Some(&run)).expect("a run"))
            })
            .collect();
        assert!(!found.is_empty(), "seed {seed}: the moment decides");
        assert!(found.iter().all(|found| found.border), "seed {seed}: {found:?}");
        // Much later is no matter of moments.
        let run = life.moved(step, 300_000, None).expect("a run");
        let late = life.difference(&run).expect("another life");
        assert!(!late.border, "seed {seed}: {late:?}");
    }
}

#[test]
fn a_moment_is_a_jiffy_and_no_more() {
    // What decides lies 9 ms off: no silence that is counted in jiffies of 4 ms is as wrong, though a step that came 4 ms late as well as 6 ms for
    // the moment would reach it.
    let life = life::Life::draw(9_119, &flavours("options"), HEADERS).expect("a life");
    let step = 21;
    let from = |by: i64| life.difference(&life.moved(step, by, None).expect("a run"));
    let decides = (1..400).map(|n| n * 250).find(|by| from(*by).is_some()).expect("a moment that decides");
    for (off, border) in [(2_000, true), (9_000, false)] {
        let near = life.shifted(step, decides - off);
        let found = near.difference(&near.moved(step, off, None).expect("a run")).expect("another life");
        assert_eq!(found.border, border, "{off} us: {found:?}");
    }
}

#[test]
fn a_silence_of_a_timeout_is_two_jiffies_wide_and_no_more() {
    // The kernel rounds the timeout up and cuts the silence off: a write 7 ms beyond the timeout may find the window as it was.
    let life = life::Life::draw(710_013, &flavours("vectors,blocking,buffers"), HEADERS).expect("a life");
    let earlier = |step, by: i64| life.difference(&life.moved(step, -by, None).expect("a run"));
    let step = (0..life.steps()).find(|step| earlier(*step, 10_000).is_some_and(|found| found.step == *step));
    let step = step.expect("a write after a silence");
    let decides = (1..40).map(|n| n * 250).find(|by| earlier(step, *by).is_some()).expect("a moment");
    for (off, border) in [(7_000, true), (9_000, false)] {
        let near = life.shifted(step, off - decides);
        let mut kernel = near.moved(0, 0, None).expect("a run");
        kernel.does_as(step, &near.moved(step, -off - 250, None).expect("a run"));
        let found = near.difference(&kernel).expect("another life");
        assert_eq!((found.border, found.step), (border, step), "{off} us: {found:?}");
    }
}

#[test]
fn a_timer_that_was_late_is_as_late_again() {
    // What a tail loss probe carries is an answer to what came 39 ms before it, which makes the traffic interactive, or 44 ms, and is none: the
    // acknowledgement of much later data shows it.
    let (life, probe) = (life::Life::draw(134_543, &flavours("calls"), HEADERS).expect("a life"), 14);
    let on_time = life.moved(0, 0, None).expect("a run");
    assert_eq!(life.difference(&life.replayed(0, 0, &on_time).expect("a run")), None);
    let mut late = life.moved(0, 0, None).expect("a run");
    late.put_off(probe, 5_000);
    let late = life.replayed(0, 0, &late).expect("a run");
    let found = life.difference(&late).expect("another life");
    assert!(found.border && found.step > probe + 10, "{found:?}");
}

#[test]
fn what_a_kernel_leaves_out_of_a_life_is_waited_for_in_vain() {
    let life = life::Life::draw(134_543, &flavours("calls"), HEADERS).expect("a life");
    let mut run = life.moved(0, 0, None).expect("a run");
    let step = run.leave_out().expect("something that a timer sent");
    let found = life.difference(&run).expect("a difference");
    assert!(found.in_vain && found.step == step, "{found:?}");
}

#[test]
fn kinds_of_connections_do_not_mix() {
    let why = Flavours::parse("ecn,close").expect_err("two kinds");
    assert!(why.contains("close") && why.contains("listen"), "{why}");
    assert!(flavours("close,poll").is_life() && !flavours("ecn").is_life());
}

#[test]
fn a_life_does_the_same_on_the_kernel() {
    if !lowwater_os::netns::net_admin() {
        return;
    }
    for (seed, words) in [(0, "nodelay"), (1, "close")] {
        let drawn = draw(seed, &flavours(words), 6).expect("a kernel");
        assert!(drawn.finding.is_none() && drawn.steps > 1, "seed {seed}: {drawn:?}");
    }
}

#[test]
fn calls_that_wait_and_syns_with_data_are_drawn() {
    let script = |seed, words| {
        let life = life::Life::draw(seed, &flavours(words), HEADERS).expect("a life");
        let run = life.run(&mut stack::Stack::at(life.place()).expect("a stack")).expect("a run").0;
        life.script(&run, usize::MAX)
    };
    let all = |words, what: &str| (0..30).filter(|seed| script(*seed, words).contains(what)).count();
    assert!(all("blocking", "...") == 30 && all("blocking", "SOCK_NONBLOCK") == 0);
    assert!(all("blocking", "MSG_WAITALL") > 5 && all("blocking", "SO_SNDTIMEO") > 5);
    assert!(all("fastopen", "MSG_FASTOPEN") > 10 && all("fastopen", "TCP_FASTOPEN_CONNECT") > 5);
    // A cookie is learnt, and another connection begins with it.
    assert!(all("fastopen", "< S. 0:0(0) ack 1 ") > 10 && all("fastopen", "FO abababab") > 10);
}

#[test]
fn when_a_call_comes_back_and_with_what_is_compared() {
    let drawn = |seed| life::Life::draw(seed, &flavours("blocking"), HEADERS).expect("a life");
    let woken = |life: &life::Life, later, with| {
        let mut run = life.moved(0, 0, None).expect("a run");
        run.wake(later, with).map(|step| (step, run))
    };
    // The earlier it is, the fewer moments are tried for it.
    let all = (0..12).map(drawn).filter_map(|life| woken(&life, 0, None).map(|(step, _)| (step, life)));
    let (step, life) = all.min_by_key(|(step, _)| *step).expect("a call that comes back");
    let (_, run) = woken(&life, 10_000, None).expect("the call");
    assert_eq!(life.difference(&run), None);
    for (later, with) in [(0, Some("-1 EIO")), (150_000, None)] {
        let (_, run) = woken(&life, later, with).expect("the call");
        let found = life.difference(&run).expect("a difference");
        assert!(found.step == step && found.what.contains("came back"), "{found:?}");
    }
}
