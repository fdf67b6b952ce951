//! Snippets bind, count and fail as Python does, within bounds.
use super::eval::Wrong;
use super::{Env, parse};
use crate::failure::Failure;

fn facts(name: &str) -> Option<i128> {
    match name {
        "tcpi_snd_cwnd" => Some(10),
        "tcpi_unacked" => Some(4),
        "tcpi_ca_state" | "TCP_CA_Recovery" => Some(3),
        _ => None,
    }
}

fn run(text: &str) -> Result<Vec<String>, Wrong> {
    let program = parse(text, 1).expect(text);
    let mut env = Env::default();
    env.run(&program, &facts).map(|()| env.printed)
}

fn mistake(text: &str) -> Box<Failure> {
    parse(text, 7).expect_err(text)
}

#[test]
fn operators_bind_as_in_python() {
    for text in [
        "tcpi_snd_cwnd == 10",
        "tcpi_snd_cwnd == 2 + 2 * 4, tcpi_snd_cwnd",
        "not tcpi_unacked == 5",
        "tcpi_unacked == 5 or tcpi_ca_state == TCP_CA_Recovery and tcpi_unacked < 5",
        "(tcpi_unacked - 6) <= -2",
        "3 < tcpi_unacked < 5 <= 5",
        "1 | 2 == 3",
        "(1 & 3) == 1 and 6 ^ 3 == 5 and ~0 == -1",
        "-7 // 2 == -4 and -7 % 2 == 1 and 7 // -2 == -4 and 7 % -2 == -1",
        "2 ** 3 ** 2 == 512 and -2 ** 2 == -4",
        "1 << 4 == 16 and 0x10 >> 2 == 4 and 0b11 == 3 and 1_000 == 1000",
        "7 / 2 == 3.5 and 1e3 == 1000 and .5 * 2 == 1",
        "tcpi_ca_state in (1, TCP_CA_Recovery) and 9 not in [1, 2]",
        "'b' in 'abc' and 'a' 'b' == \"ab\"",
        "(1 if tcpi_unacked > 9 else 2) == 2",
        "min(3, 1, 2) == 1 and max([4, 9]) == 9 and abs(-3) == 3 and sum(range(4)) == 6",
        "int(3.9) == 3 and round(2.5) == 2 and len('abc') == 3 and [5, 6][-1] == 6",
        "True and not None and not not 1",
        "(not not not 0)",
        "'%d of %s: %.2f %x%%' % (3, 'x', 1.5, 255) == '3 of x: 1.50 ff%'",
        "'%x %3d %7.2f' % (-255, 7, 1.5) == '-ff   7    1.50'",
    ] {
        assert_eq!(run(&format!("assert {text}")), Ok(vec![]), "{text}");
    }
}

#[test]
fn a_wrong_assertion_tells_its_condition_and_the_values_in_it() {
    let wrong =
        run("x = 3\nassert tcpi_snd_cwnd == 11 and x < 4, 'cwnd %d' % tcpi_snd_cwnd").expect_err("11");
    assert_eq!(wrong.line, 2);
    assert_eq!(wrong.what, "the assertion does not hold: cwnd 10");
    assert_eq!(wrong.expected, "tcpi_snd_cwnd == 11 and x < 4");
    assert_eq!(wrong.actual, "tcpi_snd_cwnd = 10, x = 3");
    for text in ["1 == 2", "3 < 2 < 5", "1 < 3 < 2", "tcpi_unacked in (1, 2)", "not tcpi_unacked", "''", "()"]
    {
        assert_eq!(
            run(&format!("assert {text}")).expect_err(text).what,
            "the assertion does not hold",
            "{text}"
        );
    }
}

#[test]
fn statements_work_over_lines_and_blocks() {
    let text = "\n  a, b = 1, 2  # comment\n  a += 2; b *= 3\n  if a > 5:\n    assert False\n  elif a == 3:\n    for i in range(3):\n      \
        b = b + i\n    print('b', b)\n  else:\n    assert 0\n  assert (a +\n    b) == 12 \\\n   and True\n  if a: pass\n";
    assert_eq!(run(&text.replace("\n  ", "\n")), Ok(vec!["b 9".to_owned()]));
    assert_eq!(run(" assert 1\nassert 1\nassert 1"), Ok(vec![]));
    let wrong = run(" assert 1\nassert (0 or\n 0)").expect_err("the second");
    assert_eq!((wrong.line, wrong.expected.as_str()), (2, "(0 or 0)"));
}

#[test]
fn names_stay_from_snippet_to_snippet() {
    let mut env = Env::default();
    env.run(&parse("before = tcpi_snd_cwnd", 1).expect("text"), &facts).expect("run");
    env.run(&parse("assert before == 10", 1).expect("text"), &|_: &str| None).expect("kept");
    assert!(env.run(&parse("assert after == 10", 1).expect("text"), &facts).is_err());
}

#[test]
fn mistakes_are_told_with_their_line() {
    for (text, why) in [
        ("import sys", "'import' does not work"),
        ("assert (1", "never closed"),
        ("assert 'x", "never closed"),
        ("assert 1 +", "cannot stand"),
        ("assert x y", "cannot stand"),
        ("1 = 2", "only a name"),
        ("else: pass", "no 'if'"),
        ("if 1:\nassert 1", "indented block"),
        ("assert 1 $ 2", "means nothing"),
        ("assert 12ab", "no number"),
        ("print(f'x')", "letter in front"),
        (r"print('\x41')", "goes with n, t"),
        ("\nassert 1\n    assert 1", "not indented like"),
        ("assert 1\n    assert 1\n    assert 1", "not indented like"),
        ("\n  assert 1\n  assert 1", "must not be indented"),
    ] {
        let e = mistake(text);
        assert!(e.line >= 7 && e.what.contains(why), "{text}: {e:?}");
    }
    for (text, why) in [
        ("assert tcpi_nonsense == 1", "TCP_INFO has no 'tcpi_nonsense'"),
        ("assert frob(1)", "no function frob()"),
        ("x = 1 // 0", "division by zero"),
        ("x = 1.0 / 0", "division by zero"),
        ("x = 2 ** 100 * 2 ** 100", "128 bits"),
        ("x = 1 << 1000", "128 bits"),
        ("x = 'a' + 1", "does not go with"),
        ("x = 'a' < 1", "does not go with"),
        ("a, b = 1, 2, 3", "2 names for 3"),
        ("x = [1][5]", "has no"),
        ("x = '%d' % 'y'", "no whole number"),
        ("for i in range(9999):\n  for j in range(9999): pass", "come to an end"),
        ("x = range(99999)", "too long"),
        ("x = 1\nfor i in range(99): x = [x]", "too deep"),
        ("x = 1\nfor i in range(40): x = [x, x]", "too long"),
        ("x = [[[1], 2]]\nfor i in range(40): x += x", "too long"),
        ("x = range(9999)\nfor i in range(9999): y = len(x)", "come to an end"),
        ("x = '%05d' % 7", "'%05d' does not work"),
        ("x = '%-5d' % 7", "'%-5d' does not work"),
        ("x = '%.1d' % 7", "'%.1d' does not work"),
        ("x = '%g' % 7", "'%g' does not work"),
    ] {
        let wrong = run(text).expect_err(text);
        assert!(wrong.what.contains(why), "{text}: {wrong:?}");
    }
}

#[test]
fn nothing_makes_it_panic() {
    for deep in ["(", "[", "-", "not ", "a[", "1**", "if 1:\n "] {
        let _ = parse(&deep.repeat(100_000), 1);
    }
    let good = "assert (tcpi_x == 1 and not 2 < 3) or [1,'é'] % 4 ** 5 if a else b\n  for i in range(3):\n print(~i)\nx += 1;";
    let chars: Vec<char> = good.chars().collect();
    let mut seed = 1_u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..10 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (from, len) = ((seed >> 33) as usize % chars.len(), (seed >> 50) as usize % 9);
            text.extend(chars.iter().skip(from).take(len));
        }
        if let Ok(program) = parse(&text, 1) {
            let _ = Env::default().run(&program, &facts);
        }
    }
}
