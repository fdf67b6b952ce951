//! Every script of ours passes, and a wrong one fails where it is wrong.
use lowwater_drill::{Family, Invocation, Outcome, Overrides};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/drill");
    tests.canonicalize().expect("the folder of scripts")
}

/// All scripts in all modes.
fn outcomes() -> Vec<Outcome> {
    let scripts = lowwater_drill::collect(&[folder()]).expect("the folder of scripts");
    let run = |script: &PathBuf| lowwater_drill::in_modes(script, &Family::ALL, lowwater_drill::drill_file);
    scripts.iter().flat_map(|script| run(script).expect("a readable script")).collect()
}

/// Scripts that must run at least in each mode: a rule that leaves out too many fails here.
const RUN_AT_LEAST: [(Family, usize); 3] = [(Family::V4, 505), (Family::Mapped, 500), (Family::V6, 480)];

#[test]
fn all_scripts_pass_in_all_modes() {
    let outcomes = outcomes();
    let mut failures = String::new();
    for outcome in outcomes.iter().filter(|outcome| !outcome.as_expected()) {
        match &outcome.failure {
            Some(failure) => failures.push_str(&format!("{failure}\n\n")),
            None => failures.push_str(&format!("{}: it should fail\n", outcome.script.display())),
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
    for (family, least) in RUN_AT_LEAST {
        let here = || outcomes.iter().filter(|outcome| outcome.mode == Some(family));
        let ran = here().filter(|outcome| outcome.left_out.is_none()).count();
        println!(
            "{}: {ran} of {} scripts, {} are left out",
            family.name(),
            here().count(),
            here().count() - ran
        );
        assert!(ran >= least, "{ran} scripts ran as {}", family.name());
    }
}

/// packetdrill does not compare what a packet of the stack echoes, so neither does the runner unless it is asked to.
#[test]
fn every_timestamp_that_a_script_has_the_stack_echo_is_the_right_one() {
    let over =
        Overrides { options: vec![("tcp_ts_ecr_exact".to_owned(), None)].leak(), ..Overrides::default() };
    let mut wrong = String::new();
    for script in lowwater_drill::collect(&[folder()]).expect("the folder of scripts") {
        let done = lowwater_drill::drill_file(&script, over).expect("a readable script");
        if let (Some(failure), true) = (&done.failure, done.fails_because.is_none()) {
            wrong.push_str(&format!("{failure}\n\n"));
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn what_is_left_out_of_a_mode_would_fail_there() {
    let mut wrong = String::new();
    for outcome in outcomes() {
        let (Some(why), Some(mode)) = (&outcome.left_out, outcome.mode) else { continue };
        // The script's own version wins nothing against the command line; it may pass in another all the same.
        if why.starts_with("its own") {
            continue;
        }
        let done = lowwater_drill::drill_file(&outcome.script, mode.into()).expect("a readable script");
        if done.failure.is_none() {
            wrong.push_str(&format!("{} as {}: {why}\n", outcome.script.display(), mode.name()));
        }
    }
    assert!(wrong.is_empty(), "these pass where they are left out:\n{wrong}");
}

#[test]
fn the_page_of_results_is_up_to_date() {
    let root = folder().join("../..").canonicalize().expect("the root");
    let page = std::fs::read_to_string(root.join("docs/conformance.md")).expect("docs/conformance.md");
    let same = page == lowwater_drill::page("lowwater drill --page tests/drill", &root, &outcomes());
    assert!(same, "docs/conformance.md is old: lowwater drill --page tests/drill > docs/conformance.md");
}

#[test]
fn the_documentation_shows_a_script_as_it_is() {
    let root = folder().join("../..").canonicalize().expect("the root");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect("a file of the project");
    assert!(read("docs/drill.md").contains(&read("tests/drill/lang/first.pkt")));
}

#[test]
fn a_script_that_is_expected_to_fail_must_fail() {
    let dir = std::env::temp_dir().join(format!("lowwater-drill-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder");
    let outcome = |text: &str| {
        let path = dir.join("x.pkt");
        std::fs::write(&path, text).expect("a script");
        lowwater_drill::drill_file(&path, Overrides::default()).expect("a readable script")
    };
    let wrong = outcome("// Shows | nothing.\n// fails: a reason\n0 close(3) = 0\n");
    assert!(wrong.as_expected() && wrong.fails_because.as_deref() == Some("a reason"));
    assert!(!outcome("// Shows nothing.\n0 close(3) = 0\n").as_expected());
    let right = outcome("// fails: not at all\n0 close(3) = -1 EBADF\n");
    assert!(right.failure.is_none() && !right.as_expected());
    // What cannot be read shows nothing of its reason.
    for text in ["0 close(3) =\n", "--no_such_option\n0 close(3) = 0\n", "", "0 > [ect9] S 0:0(0)\n"] {
        let unread = outcome(&format!("// fails: a reason\n{text}"));
        assert!(unread.is_unread() && !unread.as_expected(), "{text}: {unread:?}");
        let page = lowwater_drill::page("x", &dir, &[unread]);
        assert!(page.contains("**fails** in line "), "{page}");
    }
    let page = lowwater_drill::page("x", &dir, &[wrong]) + &lowwater_drill::page("y", &dir, &[right]);
    assert!(page.contains("| `x.pkt` | Shows \\| nothing. |  | fails, as expected: a reason |"), "{page}");
    assert!(page.contains("passes, though its head"), "{page}");
    assert!(page.starts_with("# Scripts and their results") && !page.contains("conformance.md"), "{page}");
    std::fs::remove_dir_all(&dir).expect("removed");
}

/// A connection at 0.01 s, to be followed by what is under test; seven lines.
const OPENED: &str = "\
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000,nop,nop,sackOK>
+0 > S. 0:0(0) ack 1 <...>
+.01 < . 1:1(0) ack 1 win 65535
+0 accept(3, ..., ...) = 4
";

#[test]
fn a_wrong_script_fails_in_its_line() {
    for (text, what, expected, actual) in [
        ("+0 write(4, ..., 10) = 11", "write has another result", "11", "10"),
        ("+0 read(4, ..., 10) = 5", "blocks", "5", "nothing yet"),
        ("+0 write(3, ..., 1) = -1 EAGAIN", "write has another result", "-1 EAGAIN", "-1 EPIPE"),
        ("+0 > . 1:1(0) ack 1", "is not sent", ". 1:1(0) ack 1", "nothing"),
        ("+0 %{ assert tcpi_snd_cwnd == 11 }%", "assertion", "tcpi_snd_cwnd == 11", "tcpi_snd_cwnd = 10"),
        ("+0 `tc qdisc del dev tun0 parent 1:1`", "tc qdisc replace dev DEVICE root DISCIPLINE", "", ""),
        ("+0 `tc qdisc add dev tun0 root fq maxrate 0`", "maxrate cannot be \"0\"; allowed: a rate", "", ""),
        ("+0 `sysctl -q net.ipv4.tcp_sack=maybe`", "from 0 to 255", "", ""),
        ("+0 getsockopt(4, SOL_TCP, TCP_NODELAY, [1], [4]) = 0", "TCP_NODELAY has another value", "1", "0"),
        ("+0...1 read(4, ..., 10) = 5", "still blocks", "", ""),
        ("+0...2 poll([{fd=4, events=POLLIN, revents=0}], 1, 1500) = 0", "still blocks", "", ""),
        ("+0...0.2 poll([{fd=4, events=POLLIN, revents=0}], 1, 300) = 0", "still blocks", "", ""),
        ("+0 read(4, ..., 10) = -1 EDQUOT (no answer of TCP)", "blocks", "-1 EDQUOT", "nothing yet"),
        ("+0 write(3, ..., 1) = -1 EKEYREVOKED", "write has another result", "-1 EKEYREVOKED", "-1 EPIPE"),
        ("+0 readv(4, [{..., 10}], 2) = 10", "readv says 2 buffers and lists 1", "", ""),
        ("+0 setsockopt(4, SOL_IP, IP_TOS, inet6_addr(\"::1\"), 16) = 5", "another result", "5", "0"),
        ("+0 open(\"x\", O_WRONLY) = 5", "not write them", "", ""),
        ("+0 cap_set(CAP_PERMITTED, CAP_NET_ADMIN, CAP_CLEAR) = 0", "from CAP_EFFECTIVE", "", ""),
        ("+0 `sysctl -q net.ipv4.tcp_nonsense=1`", "the stack has no setting", "", ""),
        (
            "+0 `nstat | grep -q TcpExtTCPTimeouts`",
            "finds nothing; nstat printed:\n    #kernel\n    Ip",
            "",
            "",
        ),
        ("+0 `! nstat -az | grep TcpPassiveOpens`", "succeeds, and should not", "", ""),
        ("+0 `nstat -az | awk '{print $2}'`", "through grep alone", "", ""),
        ("+0 `nstat -az | grep -o Tcp`", "grep -o cannot be had", "", ""),
        ("+0 `nstat -j`", "nstat -j cannot be had", "", ""),
        ("+0 `ethtool -K tun0 tso on`", "is set by --mtu", "", ""),
        ("+0 `echo 1 | tee /proc/sys/net/ipv4/tcp_sack`", "echo works into", "", ""),
        ("+0 `sysctl -q net.ipv4.tcp_sack=$SACK`", "no variables", "", ""),
        ("+0 `for i in 1 2; do true; done`", "loops and conditions", "", ""),
        ("+0 `sysctl -p`", "needs the name of a file", "", ""),
        ("+0 `sysctl -p nosuch.conf`", "nosuch.conf", "", ""),
        ("+0 `sleep long`", "sleep takes seconds", "", ""),
        ("+0 < . 1:1(0) ack 1 win 0 <nop,nop,TS val 1 ecr 77>", "ecr 77", "", ""),
        ("+0 < [ce] . 1:1(0) ack 1", "needs 'win N'", "", ""),
    ] {
        let failure = lowwater_drill::drill("x.pkt", &format!("{OPENED}{text}\n")).expect_err(text);
        assert_eq!(failure.line, 8, "{failure}");
        assert!(failure.what.contains(what), "{failure}");
        assert_eq!((failure.expected.as_str(), failure.actual.as_str()), (expected, actual), "{failure}");
        assert!(failure.to_string().starts_with("x.pkt:8: "), "{failure}");
    }
}

#[test]
fn packets_are_compared_in_all_that_the_script_says() {
    for (line, what) in [
        ("+0 > P. 1:11(10) ack 1 win 64000", "another window"),
        ("+0 > . 1:11(10) ack 1", "other flags"),
        ("+0 > P. 2:12(10) ack 1", "another sequence number"),
        ("+0 > P. 1:12(11) ack 1", "another length"),
        ("+0 > P. 1:11(10) ack 2", "another acknowledgment number"),
        ("+0 > P. 1:11(10) ack 1 <nop,nop,TS val 1 ecr 1>", "other options: TS val 1 ecr 1 is missing"),
        ("+0 > [ect0] P. 1:11(10) ack 1", "another ECN mark"),
        ("+.005 > P. 1:11(10) ack 1", "the wrong time"),
        ("+.1 > P. 1:11(10) ack 1", "the wrong time"),
    ] {
        let text = format!("{OPENED}+0 write(4, ..., 10) = 10\n{line}\n");
        let failure = lowwater_drill::drill("x.pkt", &text).expect_err(line);
        assert!(failure.line == 9 && failure.what.ends_with(what), "{failure}");
        assert!(!failure.packets.is_empty() && !failure.trace.is_empty(), "{failure}");
    }
    // The 10 bytes have left when the script waits for more: what comes then is their retransmission.
    let late =
        format!("{OPENED}+0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 1\n+.001 > . 11:11(0) ack 1\n");
    let failure = lowwater_drill::drill("x.pkt", &late).expect_err("it is not sent");
    assert!(
        failure.what.contains("other flags; it came at 0.2")
            && failure.what.contains(", and until the line's time, 0.0")
            && failure.what.ends_with("none came"),
        "{failure}"
    );
    for line in
        ["+.003 > P. 1:11(10) ack 1", "* > P. 1:11(10) ack 1 <...>", "+0~+.1 > [noecn] P. 1:11(10) ack 1"]
    {
        let text = format!("{OPENED}+0 write(4, ..., 10) = 10\n{line}\n");
        lowwater_drill::drill("x.pkt", &text).expect(line);
    }
}

#[test]
fn commands_of_scripts_work_or_have_no_effect() {
    for (commands, behind) in [
        ("sysctl -qe net.ipv4.tcp_timestamps=0 net.ipv4.tcp_nonsense=1 > /dev/null 2>&1", ""),
        ("/sbin/sysctl --write net.ipv4.tcp_timestamps=0 || true", ""),
        ("echo -n 0 >/proc/sys/net/ipv4/tcp_timestamps 2>/dev/null; sysctl -n net.ipv4.tcp_timestamps", ""),
        (
            "../x/set_sysctls.py /proc/sys/net/ipv4/tcp_timestamps=0 '/proc/sys/net/ipv4/tcp_rmem=4096 5000 6000'",
            "",
        ),
        ("sysctl net.ipv4.tcp_timestamps=0; sleep 2; nstat -n; ss -ti; echo done", ""),
        (
            "ip tcp_metrics flush all && sysctl -w net.ipv4.tcp_timestamps=0",
            "`/tmp/sysctl_restore_${PPID}.sh`",
        ),
        ("ethtool -K tun0 tso off gso off; tc qdisc del dev tun0 root; sysctl net.ipv4.tcp_timestamps=0", ""),
    ] {
        let text = format!(
            "`{commands}`\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0\n\
             +0 connect(3, ..., ...) = -1 EINPROGRESS\n+0 > S 0:0(0) <mss 1460,nop,nop,sackOK,nop,wscale ...>\n{behind}"
        );
        // Without timestamps the options of a SYN are others.
        let text = text.replace("<mss 1460,nop,nop,sackOK,nop,wscale ...>", "<...>");
        assert_eq!(lowwater_drill::drill("x.pkt", &text), Ok(vec![]), "{commands}");
        let wrong = text.replace("<...>", "<mss 1460,sackOK,TS val 0 ecr 0,nop,wscale 7>");
        let failure = lowwater_drill::drill("x.pkt", &wrong).expect_err(commands);
        assert!(failure.what.starts_with("the packet has other options: "), "{failure}");
    }
    let idle = "`sysctl -q net.ipv4.tcp_no_metrics_save=1; sysctl -q net.ipv4.conf.all.rp_filter=0`\n";
    let notes = lowwater_drill::drill("x.pkt", &format!("{idle}{OPENED}")).expect(idle);
    assert_eq!(
        notes,
        [
            "line 1: net.ipv4.tcp_no_metrics_save has no effect here",
            "line 1: net.ipv4.conf.all.rp_filter has no effect here"
        ]
    );
    let fixed = "`sysctl -q net.ipv4.ip_nonlocal_bind=0 net.ipv4.ip_unprivileged_port_start=1024; sysctl net.ipv4.ip_autobind_reuse`\n";
    assert_eq!(lowwater_drill::drill("x.pkt", &format!("{fixed}{OPENED}")), Ok(vec![]));
    let other = format!("`sysctl -q net.ipv4.ip_nonlocal_bind=1`\n{OPENED}");
    let failure = lowwater_drill::drill("x.pkt", &other).expect_err("nothing else can be had");
    assert!(failure.what.ends_with("it is always 0 here"), "{failure}");
    let looks = "`ss -tni > /nowhere/ss.txt`\n";
    let notes = lowwater_drill::drill("x.pkt", &format!("{looks}{OPENED}")).expect(looks);
    let told = "line 1: `ss -tni` writes nothing into /nowhere/ss.txt: sockets are seen through %{ }%";
    assert_eq!(notes, [told]);
    lowwater_drill::drill("x.pkt", &format!("`ss -tni | grep cubic`\n{OPENED}"))
        .expect_err("somebody reads it");
    // Time passes while a script sleeps, and what follows counts from there.
    let text = format!(
        "{OPENED}+0...1.5 poll([{{fd=4, events=POLLIN, revents=0}}], 1, 1500) = 0\n+0 `sleep 2`\n+1 close(4) = 0\n3.01 close(3) = 0"
    );
    assert_eq!(lowwater_drill::drill("x.pkt", &text), Ok(vec![]));
}

#[test]
fn a_failure_tells_what_happened_in_the_scripts_times_and_numbers() {
    let text = format!("{OPENED}+0 write(4, ..., 10) = 10\n+0 > P. 2:12(10) ack 1\n");
    let failure = lowwater_drill::drill("x.pkt", &text).expect_err("another number");
    for record in ["0.010000 < . 1:1(0)", "0.010000 state SYN-RECV -> ESTAB", "0.010000 > P. 1:11(10)"] {
        assert!(failure.trace.iter().any(|told| told == record), "{record}: {failure}");
    }
    let timer = |told: &&String| told.starts_with("0.010000 timer rto set to 0.2");
    assert_eq!(failure.trace.iter().filter(timer).count(), 1, "{failure}");
}

/// A small generator: what it makes is the same everywhere.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n.max(1)
    }
}

#[test]
fn no_damaged_script_makes_the_runner_or_the_stack_panic() {
    let mut dice = Dice(3);
    let read = |script: &PathBuf| std::fs::read_to_string(script).expect("a readable script");
    let texts: Vec<String> =
        lowwater_drill::collect(&[folder()]).expect("the folder of scripts").iter().map(read).collect();
    let others: Vec<&str> = texts.iter().flat_map(|text| text.lines()).collect();
    for text in &texts {
        for _ in 0..80 {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            for _ in 0..=dice.below(3) {
                let (from, to) = (dice.below(lines.len()), dice.below(lines.len()));
                match dice.below(5) {
                    0 => lines.swap(from, to),
                    1 => lines.insert(to, lines[from].clone()),
                    // A line of another script: calls, packets and options that were never meant for this one.
                    2 => lines.insert(to, others[dice.below(others.len())].to_owned()),
                    3 if lines.len() > 1 => _ = lines.remove(from),
                    _ => {
                        let digit = char::from(b'0' + dice.below(10) as u8);
                        let at = dice.below(lines[from].len());
                        lines[from] = lines[from]
                            .char_indices()
                            .map(|(i, c)| if i >= at && i < at + 3 && c.is_ascii_digit() { digit } else { c })
                            .collect();
                    }
                }
            }
            let text = lines.join("\n");
            let _ = lowwater_drill::drill("damaged.pkt", &format!("--code_command=none\n{text}"));
        }
    }
}

#[test]
fn a_mode_where_a_script_fails_is_told_with_the_command_that_shows_it() {
    let dir = std::env::temp_dir().join(format!("lowwater-modes-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder");
    let path = dir.join("x.pkt");
    let text = |front: &str| format!("// Shows.\n{front}{OPENED}+0 %{{ assert tcpi_pmtu == 1500 }}%\n");
    std::fs::write(&path, text("")).expect("a script");
    let run = || lowwater_drill::in_modes(&path, &Family::ALL, lowwater_drill::drill_file).expect("readable");
    let outcomes = run();
    assert_eq!(outcomes.iter().map(Outcome::as_expected).collect::<Vec<_>>(), [true, true, false]);
    let failure = outcomes[2].failure.as_ref().expect("the MTU is another");
    assert_eq!(failure.alone(), format!("lowwater drill --ip_version=ipv6 {}", path.display()));
    let page = lowwater_drill::page("x", &dir, &outcomes);
    assert!(page.contains("| `x.pkt` | Shows. | 4 m 6 | **fails** as ipv6 in line 9: "), "{page}");
    assert!(page.contains("1 scripts: 0 pass, 1 fail, 1 not as expected. They run: 1 as ipv4, "), "{page}");

    std::fs::write(&path, text("// modes: ipv4, ipv4-mapped-ipv6: the MTU | that\n")).expect("a script");
    let outcomes = run();
    assert!(outcomes.iter().all(Outcome::as_expected) && outcomes[2].left_out.is_some());
    let page = lowwater_drill::page("x", &dir, &outcomes);
    assert!(page.contains("| `x.pkt` | Shows. | 4 m: the MTU \\| that | passes |"), "{page}");

    std::fs::write(&path, text("// modes: all: they say\n")).expect("a script");
    assert!(run().iter().all(|outcome| !outcome.as_expected()), "there is no such mode");
    std::fs::remove_dir_all(&dir).expect("removed");

    // What the command line says goes over the script's own.
    let of =
        |over: Overrides| Invocation::new("x.pkt", &text("--ip_version=ipv6\n")).over(over).run().is_ok();
    assert_eq!(Family::ALL.map(|family| of(family.into())), [true, true, false]);
    assert!(of(Overrides { mtu: Some(1_500), ..Overrides::default() }));
}

#[test]
fn what_is_no_regular_file_is_no_script() {
    let fifo = Path::new("/dev/zero");
    for e in [
        lowwater_drill::drill_file(fifo, Overrides::default()).unwrap_err(),
        lowwater_drill::collect(&[fifo.into()]).unwrap_err(),
    ] {
        assert_eq!(e.to_string(), "/dev/zero: this is no regular file");
    }
}

/// A folder of this test program's own, with a pipe that nobody writes to.
fn with_pipe(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let made = std::process::Command::new("mkfifo").arg(folder.join("fifo")).status().unwrap();
    assert!(made.success());
    folder
}

#[test]
fn nobody_waits_for_the_other_end_of_a_pipe() {
    let folder = with_pipe("pipes");
    let script = folder.join("x.pkt").display().to_string();
    let failed = |text: &str| lowwater_drill::drill(&script, text).expect_err(text).what;
    let socket = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n";
    assert!(
        failed(&format!("{socket}+0 open(\"fifo\", O_RDONLY) = 5\n")).ends_with("fifo is no regular file")
    );
    for command in ["`sh ./fifo`\n", "`. ./fifo`\n", "`./fifo.sh; . /dev/zero`\n", "--init_scripts=./fifo\n"]
    {
        std::fs::write(folder.join("fifo.sh"), "sysctl -q tcp_sack=1\n").unwrap();
        let said = failed(&format!("{command}{socket}"));
        assert!(said.ends_with(": this is no regular file"), "{command}: {said}");
    }
}

#[test]
fn settings_of_sctp_have_linuxs_own_names() {
    let asked = "0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3\n\
                 +0 getsockopt(3, IPPROTO_SCTP, SCTP_RTOINFO, {srto_initial=500}, [16]) = 0\n";
    for set in ["sysctl -w net.sctp.rto_initial=500", "echo 500 > /proc/sys/net/sctp/rto_initial"] {
        assert_eq!(lowwater_drill::drill("x.pkt", &format!("`{set}`\n{asked}")), Ok(vec![]), "{set}");
    }
    assert!(lowwater_drill::drill("x.pkt", asked).is_err(), "it is another by itself");
}

#[test]
fn sendfile_takes_all_that_the_socket_has_room_for() {
    let folder = with_pipe("files");
    std::fs::write(folder.join("long"), vec![0; 100_000]).unwrap();
    let script = folder.join("x.pkt").display().to_string();
    let text = format!(
        "{OPENED}+0 setsockopt(4, SOL_SOCKET, SO_SNDBUF, [1000000], 4) = 0\n+0 open(\"long\", O_RDONLY) = 5\n\
         +0 sendfile(4, 5, [0], 200000) = 100000\n"
    );
    lowwater_drill::drill(&script, &text).expect("100,000 bytes");
}

/// A script that passes where commands have left one setting so.
const SHOWS: &str = "0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3\n\
                     +0 getsockopt(3, IPPROTO_SCTP, SCTP_RTOINFO, {srto_initial=500}, [16]) = 0\n";

#[test]
fn a_shell_ends_where_it_says_so() {
    let folder = with_pipe("shell");
    let script = folder.join("x.pkt").display().to_string();
    let file = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    file("returns.sh", "sysctl sctp.rto_initial=500\nreturn\nsysctl sctp.rto_initial=600\n");
    file("exits.sh", "sysctl sctp.rto_initial=500\nexit $?\nsysctl sctp.rto_initial=600\n");
    file("fails.sh", "\n\nexit 1\n");
    file("open.sh", "sysctl sctp.rto_initial=500\necho 'x\n");
    file("an odd $name.sh", "sysctl sctp.rto_initial=500");
    let run = |front: &str| lowwater_drill::drill(&script, &format!("{front}\n{SHOWS}")).map_err(|e| e.what);
    for front in [
        "`sysctl sctp.rto_initial=500; exit 0; sysctl sctp.rto_initial=600`",
        "`sysctl sctp.rto_initial=500\nexit\nsysctl sctp.rto_initial=600`",
        "`. ./returns.sh`",
        "`. ./exits.sh; sysctl sctp.rto_initial=600`",
        "`sysctl sctp.rto_initial=600; sh ./exits.sh`",
        "`./exits.sh; sysctl sctp.rto_initial=500`",
        "--init_scripts=\"./an odd $name.sh\"",
    ] {
        assert_eq!(run(front), Ok(vec![]), "{front}");
    }
    for (front, why) in [
        ("`sh ./exits.sh; sysctl sctp.rto_initial=600`", "srto_initial has another value"),
        ("`exit 1`", "`exit 1`: whoever"),
        ("`./fails.sh`", "fails.sh:3: `exit 1`"),
        ("`./open.sh`", "open.sh:2: a quotation that does not end"),
        ("`sysctl -n net.ipv4.tcp_sack | grep -q 1`", "another command makes of its output"),
        ("`tc qdisc show | grep fq`", "another command makes of its output"),
        ("`true | sysctl sctp.rto_initial=500`", "another command makes of its output"),
        ("`exit 0 | sysctl sctp.rto_initial=500`", "another command makes of its output"),
        ("`modprobe sctp | sysctl sctp.rto_initial=500`", "there are no modules"),
        ("`sleep 1 & sysctl sctp.rto_initial=500`", "nothing runs in the background"),
        ("`true || true & sysctl sctp.rto_initial=500`", "nothing runs in the background"),
        ("`echo 500>/proc/sys/net/sctp/rto_initial`", "srto_initial has another value"),
        ("`tc qdisc change dev tun0 root fq maxrate 1mbit`", "tc qdisc change keeps"),
        ("`tc qdisc add dev tun0 root fq; tc qdisc add dev tun0 root fq`", "has a discipline already"),
        ("--init_scripts=\"sysctl sctp.rto_initial=500\"", "No such file"),
    ] {
        let said = run(front).expect_err(front);
        assert!(said.contains(why), "{front}: {said}");
    }
    // A value goes on in the next line between quotation marks, too.
    let text = format!("`echo \"4096 \\\n 5000 6000\" > /proc/sys/net/ipv4/tcp_rmem`\n{OPENED}");
    assert_eq!(lowwater_drill::drill("x.pkt", &text), Ok(vec![]));
}

#[test]
fn a_script_with_a_mask_of_ipv4_runs_in_all_modes() {
    let text = "--netmask_ip=255.255.0.0\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 connect(3, ..., ...) = -1 EINPROGRESS\n";
    let text = text.replace("SOCK_STREAM", "SOCK_STREAM|SOCK_NONBLOCK");
    let tab = format!("--mtu=1400\t{text}");
    for family in Family::ALL {
        assert_eq!(lowwater_drill::left_out(&text, family).unwrap(), None);
        assert_eq!(lowwater_drill::left_out(&tab, family).unwrap(), None);
        assert_eq!(Invocation::new("x.pkt", &text).over(Overrides::from(family)).run(), Ok(vec![]));
    }
}
