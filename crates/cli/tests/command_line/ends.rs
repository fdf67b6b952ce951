//! Readers that go away, and signals.
use super::*;

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let dir = Dir::new();
    let file = dir.join("stats.json");
    let socket = r#"{"local": "10.9.0.2:80", "remote": "10.9.0.1:999", "state": "Established"}"#;
    // More than a pipe holds.
    let (many, text) = (vec![socket; 3_000].join(","), "qdisc fq\\n".repeat(30_000));
    let q = format!(r#"{{"kind": "fq", "options": {{}}, "text": "{text}"}}"#);
    let all = format!(r#"{{"Connections": [{many}], "Associations": [], "Qdisc": {q}}}"#);
    std::fs::write(&file, all).expect("writable");
    let name = file.display().to_string();
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/drill/tcp");
    let asked: [&[&str]; 5] = [
        &["ss", &name],
        &["ss", "--json", &name],
        &["tc", &name],
        &["lab", "list"],
        &["drill", "--json", scripts],
    ];
    for args in asked {
        let mut told = Proc::piped(&mut lowwater(args));
        drop(told.stdout());
        let ended = told.wait(SOON);
        assert!(ended.stderr.is_empty() && matches!(ended.code(), Some(0 | 1)), "{args:?}: {ended:?}");
    }
}

#[test]
fn a_file_nobody_writes_any_more_and_one_that_is_not_there_are_told() {
    let dir = Dir::new();
    let file = dir.join("stats.json");
    std::fs::write(&file, r#"{"Connections": [], "Associations": [], "Qdisc": {"text": "qdisc fq"}}"#)
        .expect("writable");
    let name = file.display().to_string();
    assert_eq!(say(&["ss", &name]).ok().stderr, "");
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(100);
    let open = std::fs::File::options().write(true).open(&file).expect("it is there");
    open.set_modified(long_ago).expect("a time");
    for command in ["ss", "tc"] {
        let ended = say(&[command, &name]).ok();
        assert!(ended.stderr.contains("was written 100 s ago: does serve still run?"), "{ended:?}");
        let ended = say(&[command, &dir.join("gone").display().to_string()]);
        assert!(
            ended.code() == Some(1) && ended.stderr.contains("is not there: it takes the file"),
            "{ended:?}"
        );
    }
    // One that says that it is the last one is told to be that, however new or old it is.
    for (age, at) in [(0, std::time::SystemTime::now()), (100, long_ago)] {
        let last = r#"{"ended": true, "Connections": [], "Associations": [], "Qdisc": {"text": "qdisc fq"}}"#;
        std::fs::write(&file, last).expect("writable");
        std::fs::File::options().write(true).open(&file).and_then(|f| f.set_modified(at)).expect("a time");
        for command in ["ss", "tc"] {
            let told = say(&[command, &name]).ok().stderr;
            assert!(told.contains("stats.json: that serve ended ") && !told.contains("still run"), "{told}");
            assert!(age == 0 || told.contains("ended 100 s ago"), "{told}");
        }
    }
    let ended = say(&["tc", &name, "replace", "fq"]);
    assert!(ended.code() == Some(2) && ended.stderr.contains("is no socket"), "{ended:?}");
}

#[test]
fn ctrl_c_ends_the_lab_and_the_table_is_said_to_be_partial() {
    let dir = Dir::new();
    let page = dir.join("page.html").display().to_string();
    std::fs::write(&page, "that of before").expect("a file");
    let words = ["lab", "--set", "bytes=10000000000", "--variant", "cubic", "--report", &page];
    let lab = Proc::start(&mut lowwater(words));
    lab.interrupt();
    let ended = lab.wait(SOON);
    assert_eq!(ended.code(), Some(130), "{ended:?}");
    assert!(ended.stderr.contains("partial, 0 of 3 runs"), "{ended:?}");
    assert!(ended.stdout.contains("experiment"), "{ended:?}");
    assert!(ended.stderr.contains("no run has ended: nothing was written to"), "{ended:?}");
    assert_eq!(std::fs::read_to_string(page).expect("a page"), "that of before");
}

#[test]
fn the_usual_report_of_before_stays_where_no_run_has_ended() {
    for before in [Some("that of before"), None] {
        let dir = Dir::new();
        let page = dir.join("report.html");
        before.into_iter().for_each(|text| std::fs::write(&page, text).expect("a file"));
        let long = ["lab", "--set", "bytes=4000000000", "--set", "measure_s=900", "--set", "warmup_s=90"];
        let lab = Proc::start(lowwater(long).current_dir(dir.path()));
        lab.interrupt();
        let ended = lab.wait(SOON);
        assert!(ended.stderr.contains("no run has ended: nothing was written to report.html"), "{ended:?}");
        assert_eq!(std::fs::read_to_string(&page).ok().as_deref(), before);
    }
}

#[test]
fn a_reader_that_goes_away_costs_no_file() {
    let dir = Dir::new();
    let place = |name: &str| dir.join(name).display().to_string();
    let (page, out) = (place("page.html"), place("out"));
    let words = ["lab", "run", "bulk", "--variant", "reno", "--set", "bytes=100000"];
    for more in [&["--report", &page][..], &["--report", &page, "--out", &out, "--json"]] {
        let mut lab = Proc::piped(&mut lowwater(words.iter().chain(more)));
        drop(lab.stdout());
        let ended = lab.wait(SOON).ok();
        assert!(ended.stderr.ends_with(&format!("for a browser: {page}\n")), "{ended:?}");
        assert!(std::fs::read_to_string(&page).expect("a page").contains("reno/0.1%"));
        std::fs::remove_file(&page).expect("it was there");
    }
    let runs = std::fs::read_to_string(dir.join("out/runs.jsonl")).expect("the runs");
    assert_eq!(runs.lines().count(), 3, "{runs}");
}

/// As `timeout` does, which signals the program and then its group.
#[test]
fn a_signal_that_comes_twice_is_one() {
    let lab = Proc::start(&mut lowwater(["lab", "--set", "bytes=10000000000", "--variant", "cubic"]));
    lab.interrupt();
    std::thread::sleep(Duration::from_millis(5));
    lab.signal(Signal::INT);
    let ended = lab.wait(SOON);
    assert!(ended.code() == Some(130) && ended.stderr.contains("partial, 0 of 3 runs"), "{ended:?}");
}

#[test]
fn ctrl_c_ends_linux_beside_the_lab_and_leaves_nothing() {
    if !lowwater_uml::present() {
        return;
    }
    let tmp = Dir::new();
    let lab = Proc::start(
        lowwater(["lab", "run", "sctp-failover", "--variant", "pf-off", "--uml"]).env("TMPDIR", tmp.path()),
    );
    // The guest's folder stands on its kernel's command line.
    let folders = || std::fs::read_dir(tmp.path()).expect("a folder").count();
    let kernels = || {
        let mine = tmp.path().display().to_string();
        let command = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("cmdline")).ok();
        let all = std::fs::read_dir("/proc").expect("proc").filter_map(|entry| command(entry.ok()?));
        all.filter(|words| words.starts_with("linux.uml") && words.contains(&mine)).count()
    };
    assert!(eventually(SOON, || folders() == 1 && kernels() > 0), "no guest");
    lab.signal(Signal::INT);
    let ended = lab.wait(SOON);
    assert_eq!(ended.code(), Some(130), "{ended:?}");
    assert!(ended.stderr.contains("partial, 0 of 1 runs"), "{ended:?}");
    assert_eq!((folders(), kernels()), (0, 0));
}

#[test]
fn ctrl_c_ends_a_drill_and_says_how_far_it_came() {
    let dir = Dir::new();
    let script = dir.join("one.pkt");
    std::fs::write(&script, "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n").expect("writable");
    let script = script.display().to_string();
    // More than can be done before the signal: whoever reads the first line knows that it is armed.
    let all = std::iter::repeat_n(script.as_str(), 20_000);
    let mut drill = Proc::piped(&mut lowwater(["drill", "--json"].into_iter().chain(all)));
    let mut lines = BufReader::new(drill.stdout());
    lines.read_line(&mut String::new()).expect("a line per script");
    drill.signal(Signal::INT);
    drill.gather_rest(lines);
    let ended = drill.wait(SOON);
    assert_eq!(ended.code(), Some(130), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("stopped: ") && ended.stderr.contains(" of 20000 scripts"),
        "{}",
        ended.stderr
    );
}
