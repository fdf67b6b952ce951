//! Snippets of our scripts as packetdrill runs them: all of a script in one program, by Python itself.
use lowwater_drill::Invocation;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs programs of many scripts, each in a world of its own, and tells which fail and where.
const RUN: &str = r"
import sys, traceback
failed = 0
for part in sys.stdin.read().split('\x01'):
    name, program = part.split('\x02')
    world = {}
    try:
        exec(compile(program, name, 'exec'), world)
    except BaseException as e:
        failed += 1
        print(name, 'line', world.get('_line'), ''.join(traceback.format_exception_only(type(e), e)).strip())
sys.exit(min(failed, 1))
";

fn snippets() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/drill");
    let scripts = lowwater_drill::collect(std::slice::from_ref(&root)).unwrap();
    let mut programs = Vec::new();
    for script in scripts {
        let text = lowwater_drill::read(&script).unwrap();
        let name = script.display().to_string();
        // A script that is expected to fail fails before its snippets are over.
        let Ok(program) = Invocation::new(&name, &text).python() else { continue };
        if !program.is_empty() {
            programs.push(format!("{}\u{2}{program}", script.strip_prefix(&root).unwrap().display()));
        }
    }
    assert!(programs.len() >= 60, "{} scripts have snippets", programs.len());
    programs.join("\u{1}")
}

/// `None` without Python.
fn python(input: &str) -> Option<(bool, String)> {
    let child = Command::new("python3")
        .args(["-c", RUN])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn();
    let mut child = match child {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let require = std::env::var_os("LOWWATER_REQUIRE_NET").is_some_and(|v| v == "1");
            assert!(!require, "LOWWATER_REQUIRE_NET=1, but this test needs python3");
            eprintln!("skipped: needs python3");
            return None;
        }
        child => child.unwrap(),
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    Some((done.status.success(), String::from_utf8_lossy(&done.stdout).into_owned()))
}

#[test]
fn python_takes_the_snippets_and_agrees_with_them() {
    let Some((fine, said)) = python(&snippets()) else { return };
    assert!(fine, "{said}");
}

#[test]
fn a_wrong_value_and_a_wrong_indentation_fail_in_their_line() {
    let program = |text: &str| {
        let script = format!("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 %{{ {text} }}%\n");
        Invocation::new("made.pkt", &script).python().unwrap_or_else(|e| panic!("{e}"))
    };
    let fine = program("assert tcpi_state == TCP_CLOSE\nassert tcpi_snd_cwnd == 10");
    let one = fine.replace("assert tcpi_snd_cwnd", "  assert tcpi_snd_cwnd");
    let other = program("assert tcpi_state == TCP_CLOSE").replace("== TCP_CLOSE", "== TCP_LISTEN");
    let Some((fine, said)) = python(&format!("a\u{2}{one}\u{1}b\u{2}{other}")) else { return };
    assert!(!fine && said.contains("a line None") && said.contains("IndentationError"), "{said}");
    assert!(said.contains("b line 2 AssertionError"), "{said}");
}

/// A script with one socket and these snippets, a line each.
fn asked(front: &str, snippets: &[&str]) -> Result<Vec<String>, (usize, String, String)> {
    let lines: String = snippets.iter().map(|text| format!("+0 %{{ {text} }}%\n")).collect();
    let script = format!("{front}0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n{lines}");
    lowwater_drill::drill("made.pkt", &script).map_err(|e| (e.line, e.what, e.actual))
}

#[test]
fn what_our_evaluator_cannot_read_python_runs() {
    if python("a\u{2}pass").is_none() {
        return;
    }
    let cwnd = "import math; low = [n for n in (9, 10) if n >= tcpi_snd_cwnd]; print(f'{low}', end='!\\n')";
    let printed =
        asked("", &["before = tcpi_state; print('a')", cwnd, "assert before == TCP_CLOSE and low == [10]"]);
    assert_eq!(
        printed,
        Ok(vec!["a".to_owned(), "[10]!".to_owned()]),
        "names stay, and nothing is printed twice"
    );
    assert_eq!(
        asked("", &["assert sorted([3, tcpi_snd_cwnd])[-1] == 10", "assert 'x' * 3 == 'xxx'"]),
        Ok(vec![])
    );
    let wrong = asked("", &["import sys", "assert tcpi_snd_cwnd == 11, 'no'"]).unwrap_err();
    assert_eq!(wrong, (3, "the assertion does not hold: no".to_owned(), "tcpi_snd_cwnd = 10".to_owned()));
    let wrong = asked("", &["import sys", "\nimport sys\nx = 1 / 0"]).unwrap_err();
    assert!(wrong.0 == 5 && wrong.1.starts_with("Python says ZeroDivisionError"), "{wrong:?}");
    let wrong = asked("", &["import sys", "assert (1"]).unwrap_err();
    assert!(wrong.1.starts_with("Python says SyntaxError") && !wrong.1.contains("snippets"), "{wrong:?}");
    // What Python does not know either is told in our words.
    let wrong = asked("", &["assert tcpi_nonsense == 1"]).unwrap_err();
    assert_eq!((wrong.0, wrong.1.as_str()), (2, "TCP_INFO has no 'tcpi_nonsense'"));
}

#[test]
fn what_snippets_say_and_start_has_its_bounds() {
    if python("a\u{2}pass").is_none() {
        return;
    }
    // Values are cut to what one can read, so that the assertion is what is told.
    let wrong = asked("", &["import json", "x = list(range(20000))", "assert len(x) == 5"]).unwrap_err();
    assert_eq!((wrong.0, wrong.1.as_str()), (4, "the assertion does not hold"));
    assert!(wrong.2.starts_with("x = [0, 1, 2,") && wrong.2.len() < 300, "{wrong:?}");
    let wrong = asked("", &["x = 10 ** 5000; import json", "assert x == 5, 'y' * 9999"]).unwrap_err();
    assert!(wrong.1.starts_with("the assertion does not hold: yyy") && wrong.1.len() < 3_000, "{wrong:?}");
    // What goes to stderr is no report.
    let to_stderr = "import sys; print('x' * 100000, end='', file=sys.stderr); print('a')";
    assert_eq!(asked("", &[to_stderr]), Ok(vec!["a".to_owned()]));
    let wrong = asked("", &[to_stderr, "assert tcpi_snd_cwnd == 11, 'no'"]).unwrap_err();
    assert_eq!((wrong.0, wrong.1.as_str()), (3, "the assertion does not hold: no"));
    // Whoever is still there is not waited for.
    let child = "import subprocess; subprocess.Popen(['sleep', '9999']); print('b')";
    assert_eq!(asked("", &[child]), Ok(vec!["b".to_owned()]));
    let wrong = asked("", &["import sys; print('x' * 2000000)"]).unwrap_err();
    assert!(wrong.1.contains("more than the 1048576 bytes"), "{wrong:?}");
}

#[test]
fn python_has_the_word_where_it_alone_could_read() {
    if python("a\u{2}pass").is_none() {
        return;
    }
    for (snippet, why) in [
        ("import nosuchmodule", "Python says ModuleNotFoundError: No module named 'nosuchmodule'"),
        ("assert {}[1]", "Python says KeyError: 1"),
        (
            "assert tcpi_snd_cwnd.nothing",
            "Python says AttributeError: 'int' object has no attribute 'nothing'",
        ),
    ] {
        let wrong = asked("", &[snippet]).unwrap_err();
        assert_eq!((wrong.0, wrong.1.as_str()), (2, why));
    }
}

#[test]
fn the_command_of_python_may_have_words_of_its_own() {
    if python("a\u{2}pass").is_none() {
        return;
    }
    let snippets = ["import sys", "assert sys.flags.ignore_environment"];
    assert!(asked("--code_command=\"python3 -E\"\n", &snippets).is_ok());
    assert!(asked("", &snippets).is_err());
    // After such a character a line of Python's is none of splitlines().
    let odd = ["import sys", "a, b = 'x\u{b}y\u{85}z', 5\nassert b == 6"];
    let wrong = asked("", &odd).unwrap_err();
    assert_eq!((wrong.1.as_str(), wrong.2.as_str()), ("the assertion does not hold", "b = 5"));
}

#[test]
fn without_python_a_snippet_is_refused_with_its_line_and_why() {
    let wrong = asked("--code_command=none\n", &["assert 1", "import sys"]).unwrap_err();
    assert!(wrong.0 == 4 && wrong.1.contains("'import' does not work"), "{wrong:?}");
    assert!(wrong.1.contains("--code_command=none"), "{wrong:?}");
}
