//! `lowwater drill`: what it says of scripts.
use super::*;

#[test]
fn drill_says_which_line_failed() {
    let dir = Dir::new();
    let good = dir.join("good.pkt");
    let bad = dir.join("bad.pkt");
    std::fs::write(&good, "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n").expect("writable");
    std::fs::write(&bad, "// bad\n0 close(3) = 0\n").expect("writable");
    let ended = say(&["drill", &good.display().to_string()]).ok();
    assert!(
        ended.stdout.contains("1 of 1 scripts passed in ") && ended.stdout.ends_with(" a second\n"),
        "{}",
        ended.stdout
    );
    let ended = say(&["drill", &bad.display().to_string()]);
    assert!(
        ended.stdout.contains("0 of 1 scripts passed in ") && ended.stdout.ends_with(" ms\n"),
        "{ended:?}"
    );
    let ended = say(&["drill", "--json", &dir.path().display().to_string()]);
    assert_eq!(ended.code(), Some(1), "{}", ended.stdout);
    let first = ended.stdout.lines().next().expect("a line per script");
    let failed: Value = serde_json::from_str(first).expect("JSON");
    assert_eq!(
        (&failed["ok"], &failed["line"], &failed["actual"]),
        (&false.into(), &2.into(), &"-1 EBADF".into())
    );
    let ended = say(&["drill", "--modes", "all", &bad.display().to_string()]);
    let told: Vec<_> = ended.stdout.lines().filter(|line| line.starts_with("FAILED ")).collect();
    assert!(told.len() == 3 && ended.stdout.matches("EBADF").count() == 1, "{}", ended.stdout);
    assert!(told[2].ends_with("bad.pkt:2 as ipv6: in the same way"), "{}", ended.stdout);
}

#[test]
fn a_page_names_the_command_that_makes_it() {
    let dir = Dir::new();
    let script = dir.join("a script.pkt").display().to_string();
    std::fs::write(&script, "// Shows.\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n").expect("writable");
    let page = say(&["drill", "--page", &script]).ok().stdout;
    assert!(page.contains(&format!("`lowwater drill --page '{script}'`")), "{page}");
    // As shells complete a folder.
    let folder = dir.path().display().to_string();
    let page = say(&["drill", "--page", &folder]).ok().stdout;
    assert!(page.contains(&format!("`lowwater drill --page {folder}`")), "{page}");
    assert_eq!(say(&["drill", "--page", &format!("{folder}/")]).ok().stdout, page);
}

#[test]
fn drill_takes_packetdrills_options() {
    let dir = Dir::new();
    let script = dir.join("x.pkt").display().to_string();
    let text = "--define=RESULT=5\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n\
                +0 setsockopt(3, SOL_TCP, NAME, [1], 4) = RESULT\n\
                +0 bind(3, {sa_family = AF_INET, sin_port = htons(80), sin_addr = inet_addr(\"10.0.0.1\")}, ...) = 0\n";
    std::fs::write(&script, text).expect("writable");
    let defined = ["drill", "-D", "NAME=TCP_NODELAY", "--define=RESULT=0", "--strict_segments"];
    say(&[defined.as_slice(), &["--local_ip=10.0.0.1", &script]].concat()).ok();
    let ended = say(&[defined.as_slice(), &["--local_ip=10.0.0.2", &script]].concat());
    assert_eq!(ended.code(), Some(1));
    let alone = "drill --define=NAME=TCP_NODELAY --define=RESULT=0 --local_ip=10.0.0.2 --strict_segments ";
    assert!(ended.stdout.contains(alone), "{}", ended.stdout);
    // Those of its runner, and what has no effect, are taken too.
    let other = ["drill", "--send_omit_free", "-v", "--mss=1000", "--code_format=python"];
    say(&[other.as_slice(), &["-DNAME=TCP_NODELAY", "-DRESULT=0", "--local_ip=10.0.0.1", &script]].concat())
        .ok();
    say(&["drill", "--dry_run", "--is_anyip", "-DNAME=TCP_NODELAY", "-DRESULT=7", &script]).ok();
    let fails = dir.join("fails.pkt").display().to_string();
    std::fs::write(&fails, "// fails: a reason\n0 close(3) = 0\n").expect("writable");
    say(&["drill", "--dry_run", &fails]).ok();
    // What the command line says stands in no line of the script.
    let ended = say(&["drill", "--init_scripts=gone.sh", "-DNAME=TCP_NODELAY", &script]);
    assert!(
        ended.stdout.contains("x.pkt: --init_scripts: ")
            && ended.stdout.contains("gone.sh: No such file")
            && !ended.stdout.contains("line:"),
        "{}",
        ended.stdout
    );
    // What fits no script is told before any runs.
    for (wrong, why) in [
        (["drill", "--bind_port=0"].as_slice(), "--bind_port=0: it takes a number"),
        (&["drill", "-D", "X"], "--define=X: it takes NAME=value"),
        (&["drill", "--ip_version=ipv6", "--mtu=1000"], "--mtu=1000: it takes a number from 1280"),
    ] {
        let ended = say(&[wrong, &[&script]].concat());
        assert_eq!((ended.code(), ended.stdout.as_str()), (Some(2), ""), "{wrong:?}");
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
    }
}

#[test]
fn drill_names_what_cannot_be_had_and_goes_on() {
    let dir = Dir::new();
    let folder = dir.path().display().to_string();
    let ended = say(&["drill", &folder]);
    assert_eq!((ended.code(), ended.stdout.as_str()), (Some(2), ""));
    assert!(ended.stderr.contains(&folder), "{}", ended.stderr);
    let gone = dir.join("gone.pkt").display().to_string();
    let ended = say(&["drill", &gone]);
    assert_eq!(ended.code(), Some(1));
    assert!(ended.stderr.contains(&gone), "{}", ended.stderr);
    std::fs::write(dir.join("a.pkt"), [0xff, 0xfe]).expect("writable");
    std::fs::write(dir.join("b.pkt"), "// nothing happens here\n").expect("writable");
    std::fs::write(dir.join("c.pkt"), "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n").expect("writable");
    let ended = say(&["drill", &folder]);
    assert_eq!(ended.code(), Some(1));
    for part in ["a.pkt: this is no text", "b.pkt:2: the script has no event", "c.pkt\n1 of 3 scripts passed"]
    {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    // What is not there keeps nobody from running.
    let c = dir.join("c.pkt").display().to_string();
    let ended = say(&["drill", &c, &gone, &c]);
    assert_eq!(ended.code(), Some(1));
    assert!(ended.stdout.contains("gone.pkt: there is no such file or directory\n"), "{}", ended.stdout);
    assert!(ended.stdout.contains("2 of 3 scripts passed"), "{}", ended.stdout);
    let other = dir.join("other").display().to_string();
    let ended = say(&["drill", &gone, &other]);
    assert!(ended.code() == Some(1) && ended.stdout.is_empty(), "{ended:?}");
    assert!(ended.stderr.contains(&gone) && ended.stderr.contains(&other), "{ended:?}");
}

#[test]
fn drill_says_where_it_has_looked_for_a_script_and_what_it_takes() {
    let here = std::env::current_dir().expect("a directory").display().to_string();
    let hint = "give scripts (*.pkt), or folders which have some at any depth\n";
    let ended = say(&["drill", "nowhere.pkt"]);
    let text = format!("lowwater: nowhere.pkt: there is no such file or directory in {here}: {hint}");
    assert_eq!((ended.code(), ended.stdout.as_str(), ended.stderr), (Some(1), "", text));
    let ended = say(&["drill", "/dev/null"]);
    let text = format!("lowwater: /dev/null: it cannot be read: this is no regular file: {hint}");
    assert_eq!((ended.code(), ended.stderr), (Some(1), text));
    // Who reads objects gets one.
    let ended = say(&["drill", "--json", "nowhere.pkt"]);
    let told: Value = serde_json::from_str(&ended.stdout).expect("an object");
    assert_eq!((ended.code(), &told["script"], &told["ok"]), (Some(1), &"nowhere.pkt".into(), &false.into()));
    let why = told["what"].as_str().expect("why");
    assert!(why.contains("no such file or directory") && ended.stderr.is_empty(), "{ended:?}");
    // One among others says so in its turn.
    let dir = Dir::new();
    std::fs::write(dir.join("a.pkt"), "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n").expect("writable");
    let ended = say(&["drill", "nowhere.pkt", &dir.path().display().to_string()]);
    let text = format!("FAILED nowhere.pkt: there is no such file or directory in {here}\n");
    assert!(ended.code() == Some(1) && ended.stdout.contains(&text), "{}", ended.stdout);
}
