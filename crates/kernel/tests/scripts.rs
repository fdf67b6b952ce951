//! The scripts of tests/drill/tcp against the kernel: what passes in virtual time passes here, or says why it cannot.
#![cfg(target_os = "linux")]
use lowwater_drill::{Family, Invocation, Overrides, left_out};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{fs, thread};

/// Runs of one script until it passes: a busy machine makes some fail.
const ATTEMPTS: usize = 6;
/// Scripts at a time; they sleep most of the time.
const THREADS: usize = 16;

fn scripts(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/drill").join(folder);
    lowwater_drill::collect(&[root]).expect("the scripts")
}

/// Scripts of one run in which nothing but times may differ: a machine that stays late makes a few, a mistake in the stack many.
const LATE_AT_MOST: usize = 5;

/// A script and what the command line says over it.
type Job = (PathBuf, Overrides);

/// How the scripts of a run ended.
#[derive(Default)]
struct Ended {
    passed: usize,
    /// What differs, in words, and whether a late machine explains it.
    failed: Vec<(Job, String, bool)>,
}

impl Ended {
    fn add(&mut self, job: Job) {
        let (script, over) = &job;
        let (outcome, differences) = lowwater_kernel::compare_file(script, *over, ATTEMPTS).unwrap();
        match outcome.failure {
            None if differences.lines.is_empty() => self.passed += 1,
            None => {
                let list = differences.lines.join("\n");
                let what =
                    format!("{over}{}: the stack (-) and the kernel (+) differ\n{list}\n", script.display());
                self.failed.push((job, what, differences.times_alone));
            }
            Some(failure) => self.failed.push((job, format!("{failure}\n"), false)),
        }
    }
}

/// How long the script takes, by the stack in virtual time; nothing where the stack fails it.
fn lasts_us((script, over): &Job) -> u64 {
    let text = fs::read_to_string(script).unwrap();
    let ran = Invocation::new(&script.display().to_string(), &text).over(*over).record();
    ran.map_or(0, |(_, transcript)| transcript.lasted_us())
}

/// The longest begin first, so that nobody waits for one of them at the end. What fails is run again by itself: many scripts at once make
/// one another late.
fn run(mut all: Vec<Job>) -> (usize, Vec<String>) {
    all.sort_by_cached_key(lasts_us);
    let first = run_with(all, THREADS);
    let again = run_with(first.failed.into_iter().map(|(job, ..)| job).collect(), 1);
    let (late, mut failed): (Vec<_>, Vec<_>) = again.failed.into_iter().partition(|(.., late)| *late);
    for (_, what, _) in &late {
        println!("late in all its runs: {what}");
    }
    if late.len() > LATE_AT_MOST {
        failed.extend(late);
    }
    (first.passed + again.passed, failed.into_iter().map(|(_, what, _)| what).collect())
}

fn run_with(all: Vec<Job>, threads: usize) -> Ended {
    let queue = Mutex::new(all);
    let work = || {
        let mut ended = Ended::default();
        loop {
            let Some(job) = queue.lock().unwrap().pop() else { return ended };
            ended.add(job);
        }
    };
    thread::scope(|s| {
        let workers: Vec<_> = (0..threads).map(|_| s.spawn(work)).collect();
        workers.into_iter().fold(Ended::default(), |mut all, worker| {
            let part = worker.join().unwrap();
            all.passed += part.passed;
            all.failed.extend(part.failed);
            all
        })
    })
}

#[test]
fn the_kernel_passes_what_the_stack_passes() {
    if !lowwater_os::netns::net_admin() {
        return;
    }
    let (excused, all): (Vec<_>, Vec<_>) = scripts("tcp").into_iter().partition(excused);
    let total = all.len();
    let (passed, failed) = run(all.into_iter().map(|script| (script, Overrides::default())).collect());
    assert!(failed.is_empty(), "{}{passed} of {total} passed", failed.concat());
    assert!(passed >= 700, "{passed} passed, {} are excused", excused.len());
}

#[test]
fn a_script_may_pass_by_chance() {
    if !lowwater_os::netns::net_admin() {
        return;
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chance.pkt");
    let outcome = |mark: &str, result: &str| {
        fs::write(&path, format!("// Shows nothing.\n{mark}: a reason\n0 close(3) = {result}\n")).unwrap();
        lowwater_kernel::drill_file(&path, Overrides::default(), 1).unwrap()
    };
    for result in ["-1 EBADF", "0"] {
        let chance = outcome("// kernel by chance", result);
        assert!(chance.as_expected() && chance.by_chance, "{chance:?}");
        assert_eq!(chance.fails_because.as_deref(), Some("a reason"));
    }
    assert!(outcome("// kernel", "0").as_expected());
    assert!(!outcome("// kernel", "-1 EBADF").as_expected(), "it passes");
    fs::remove_file(&path).unwrap();
}

fn excused(script: &PathBuf) -> bool {
    lowwater_kernel::excuse(&fs::read_to_string(script).unwrap()).is_some()
}

/// Folders whose scripts look at what depends on the family, and which take little time: all others are for `lowwater drill --kernel
/// --compare --modes all`.
const OF_FAMILIES: [&str; 11] = [
    "calls",
    "data",
    "ecn",
    "fastopen",
    "icmp",
    "info",
    "mtu_probing",
    "ports",
    "reset",
    "syncookies",
    "timestamps",
];
/// Scripts that run in each of the other modes at least.
const RUN_AT_LEAST: usize = 100;

#[test]
fn the_kernel_and_the_stack_are_alike_in_the_other_modes() {
    if !lowwater_os::netns::net_admin() {
        return;
    }
    for mode in [Family::Mapped, Family::V6] {
        let all: Vec<_> = OF_FAMILIES.iter().flat_map(|folder| scripts(&format!("tcp/{folder}"))).collect();
        let found = all.len();
        let runs = |script: &PathBuf| left_out(&fs::read_to_string(script).unwrap(), mode).unwrap().is_none();
        let here: Vec<Job> =
            all.into_iter().filter(|s| runs(s) && !excused(s)).map(|script| (script, mode.into())).collect();
        let total = here.len();
        println!("{}: {total} of {found} scripts run", mode.name());
        let (passed, failed) = run(here);
        assert!(failed.is_empty(), "{}{passed} of {total} passed as {}", failed.concat(), mode.name());
        assert!(passed >= RUN_AT_LEAST, "{passed} passed as {}", mode.name());
    }
}

#[test]
fn a_wrong_expectation_fails_in_its_line() {
    if !lowwater_os::netns::net_admin() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("lowwater-kernel-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let script = folder.join("wrong.pkt");
    let text = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n\
        +0 < S 0:0(0) win 32792 <mss 1000>\n+0 > S. 0:0(0) ack 2 <mss 1460>\n";
    fs::write(&script, text).unwrap();
    let failure =
        lowwater_kernel::drill_file(&script, Overrides::default(), 1).unwrap().failure.expect("a difference");
    assert_eq!((failure.line, failure.what.contains("acknowledgment")), (5, true), "{failure}");
    fs::remove_dir_all(&folder).unwrap();
}

/// A script in a folder of its own, which goes with it.
fn in_file(name: &str, text: &str, with: impl FnOnce(&Path)) {
    let folder = std::env::temp_dir().join(format!("lowwater-kernel-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let script = folder.join("script.pkt");
    fs::write(&script, text).unwrap();
    with(&script);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_script_that_only_the_kernel_passes_is_not_alike() {
    if !lowwater_os::netns::net_admin() {
        return;
    }
    // Devices have no numbers here.
    let text = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n\
        +0 setsockopt(3, SOL_SOCKET, SO_BINDTOIFINDEX, [1], 4) = 0\n";
    in_file("alike", text, |script| {
        let over = Overrides::default();
        assert!(lowwater_kernel::drill_file(script, over, 1).unwrap().as_expected(), "the kernel fails it");
        let (outcome, _) = lowwater_kernel::compare_file(script, over, 1).unwrap();
        let failure = outcome.failure.as_ref().expect("what the stack fails");
        assert!(failure.what.starts_with("the stack fails it") && failure.line == 2, "{failure}");
        assert!(!outcome.as_expected());
    });
}

#[test]
fn a_counter_that_differs_is_told_unless_the_script_says_why() {
    if !lowwater_os::netns::net_admin() {
        return;
    }
    let script = scripts("tcp/routes").into_iter().find(|path| path.ends_with("no_route.pkt")).unwrap();
    let text = fs::read_to_string(script).unwrap();
    let silent = text.replace(", TcpOutSegs:", ":");
    assert_ne!(text, silent, "the script says why");
    in_file("counter", &silent, |script| {
        // None of these runs is alike; a busy machine makes times differ, too.
        let mut runs = (0..ATTEMPTS).map(|_| {
            let (outcome, differences) =
                lowwater_kernel::compare_file(script, Overrides::default(), 1).unwrap();
            assert!(!(outcome.failure.is_none() && differences.lines.is_empty()), "it is alike");
            differences
        });
        let alone = |differences: &lowwater_kernel::Differences| {
            let beginnings = ["  counters in the end", "- TcpOutSegs ", "+ TcpOutSegs "];
            let lines = &differences.lines;
            lines.len() == 3 && lines.iter().zip(beginnings).all(|(line, with)| line.starts_with(with))
        };
        // Which of the three it is that differs is said, and of which line it is.
        let named = |apart: &lowwater_drill::Apart| apart.what == ["counters"] && apart.line > 1;
        assert!(runs.any(|d| alone(&d) && d.info_alone && named(&d.apart)));
    });
}

#[test]
fn what_the_kernel_does_not_send_has_the_time_until_which_it_was_waited_for() {
    if !lowwater_os::netns::net_admin() {
        return;
    }
    let text = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+.01 > S 0:0(0) <...>\n";
    in_file("unsent", text, |script| {
        let outcome = lowwater_kernel::drill_file(script, Overrides::default(), 1).unwrap();
        let failure = outcome.failure.expect("nothing is sent");
        let told = failure.what.strip_prefix("this packet is not sent until ").expect("a time");
        assert!(told.ends_with(", when the run stops waiting"), "{failure}");
        // The stack, which nothing keeps waiting, fails it in the same way.
        let (outcome, _) = lowwater_kernel::compare_file(script, Overrides::default(), 1).unwrap();
        let failure = outcome.failure.expect("nothing is sent");
        assert!(failure.what.starts_with("the stack and the kernel both fail it"), "{failure}");
    });
}

#[test]
fn tc_puts_a_discipline_before_the_device_of_the_namespace() {
    if !lowwater_os::netns::net_admin() {
        return;
    }
    let text = "`tc qdisc add dev tun0 root pfifo limit 100`\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n\
        +0 `tc qdisc del dev tun0 root`\n";
    in_file("tc", text, |script| {
        let outcome = lowwater_kernel::drill_file(script, Overrides::default(), ATTEMPTS).unwrap();
        assert!(outcome.failure.is_none(), "{}", outcome.failure.unwrap());
    });
    in_file("tc-none", "`tc qdisc add dev tun0 root nosuchthing`\n", |script| {
        let outcome = lowwater_kernel::drill_file(script, Overrides::default(), 1).unwrap();
        assert!(outcome.failure.is_some_and(|failure| failure.what.contains("nosuchthing")));
    });
}
