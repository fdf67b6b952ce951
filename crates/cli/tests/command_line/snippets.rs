//! Snippets of Python in scripts.
use super::*;

/// A script with one socket and a snippet.
fn snippet(dir: &Dir, name: &str, text: &str) -> String {
    let script = dir.join(name);
    let text = format!("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 %{{ {text} }}%\n");
    std::fs::write(&script, text).expect("writable");
    script.display().to_string()
}

/// There is a Python to read snippets.
fn has_python() -> bool {
    let has = Command::new("python3").arg("--version").output().is_ok();
    if !has {
        eprintln!("skipped: needs python3");
        assert!(std::env::var_os("LOWWATER_REQUIRE_NET").is_none_or(|v| v != "1"));
    }
    has
}

#[test]
fn ctrl_c_ends_what_a_snippet_waits_for_and_counts_no_failure() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        if signal == Signal::HUP && hangups_are_ignored() {
            eprintln!("skipped: needs SIGHUP, which who started this test ignores (nohup)");
            continue;
        }
        ends_what_a_snippet_waits_for(signal);
    }
}

/// What nohup sets, and every program that it starts keeps.
fn hangups_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("readable");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask");
    u64::from_str_radix(mask.trim(), 16).expect("hexadecimal") & 1 != 0
}

fn ends_what_a_snippet_waits_for(signal: Signal) {
    if !has_python() {
        return;
    }
    let dir = Dir::new();
    let begun = dir.join("begun");
    let text = format!(
        "import os, signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); \
         open('{0}.x', 'w').write(str(os.getpid())); os.rename('{0}.x', '{0}'); time.sleep(9999)",
        begun.display()
    );
    let script = snippet(&dir, "waits.pkt", &text);
    let drill = Proc::start(&mut lowwater(["drill", &script]));
    // A Python that never comes so far fails here.
    let mut looks = (0..3_000).map(|_| std::thread::sleep(Duration::from_millis(10)));
    assert!(looks.any(|()| begun.exists()), "the snippet has not begun");
    drill.signal(signal);
    let ended = drill.wait(SOON);
    assert_eq!((ended.code(), ended.stdout.as_str()), (Some(130), ""), "{ended:?}");
    assert!(ended.stderr.contains("stopped: 0 of 1 scripts, 0 failed"), "{ended:?}");
    let pid = std::fs::read_to_string(&begun).expect("readable");
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "Python was waited for");
}

#[test]
fn what_lies_where_drill_is_started_is_no_module_of_its_own() {
    if !has_python() {
        return;
    }
    let dir = Dir::new();
    for module in ["re", "signal", "traceback", "reprlib"] {
        std::fs::write(dir.join(format!("{module}.py")), "raise SystemExit(5)\n").expect("writable");
    }
    let script = snippet(&dir, "x.pkt", "import re; assert re.sub('a', 'b', 'a') == 'b'");
    run(lowwater(["drill", &script]).current_dir(dir.path()), SOON).ok();
    // And what Python says when it cannot even begin is told, however long the snippets are.
    let long = format!("import re; x = '{}'", "x".repeat(100_000));
    let script = snippet(&dir, "y.pkt", &long);
    let ended = run(lowwater(["drill", &script]).env("PYTHONHOME", "/nonexistent"), SOON);
    assert!(ended.code() == Some(1) && ended.stdout.contains("No module named"), "{ended:?}");
}
