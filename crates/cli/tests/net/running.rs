//! What is asked of a `serve` that runs, and what is changed of it: why a connection does not send, and the queueing discipline.
use crate::served::{LIMIT, Served, V4, can_run, content, download, in_namespace};
use crate::support::{Proc, lowwater, run};
use rustix::process::Signal;
use serde_json::Value;
use std::net::TcpStream;

/// chargen.
const CHARGEN: &str = "10.9.0.2:19";

#[test]
fn ss_tells_why_a_connection_does_not_send_and_what_ss_ti_tells() {
    if !can_run(&[]) {
        return;
    }
    in_namespace(|| {
        let served = Served::start(&["--max-pacing-rate", "40mbit"]);
        // It never reads: its window shuts.
        let _idle = TcpStream::connect(CHARGEN).expect("chargen listens");
        served.stats_show("a shut window", |stats| {
            let conn = &stats["Connections"][0];
            conn["waits_for"] == "recv_window" && conn["info"]["rwnd_limited_ms"].as_u64() > Some(0)
        });
        let name = served.dir.join("stats.json").display().to_string();
        let shown = run(&mut lowwater(["ss", "-i", &name]), LIMIT).ok().stdout;
        for words in [
            "waits for recv_window (",
            "cubic wscale:",
            " rto:",
            " rtt:",
            " cwnd:",
            " pacing_rate ",
            "/40000000bps delivery_rate ",
            " notsent:",
            " minrtt:",
        ] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        assert!(shown.contains(" busy:") && shown.contains("ms rwnd_limited:"), "{shown}");
        let told = run(&mut lowwater(["ss", "--json", &name]), LIMIT).ok().stdout;
        let told: Value = serde_json::from_str(&told).expect("one connection");
        let info = &told["info"];
        assert_eq!((&info["max_pacing_rate"], &info["mss"]), (&5_000_000.into(), &1_448.into()), "{told:#}");
        assert!(info["notsent"].as_u64() > Some(0) && info["cwnd"].as_u64() >= Some(10), "{told:#}");
        let counted = run(&mut lowwater(["ss", "-s", &name]), LIMIT).ok();
        assert!(counted.stdout.contains("\nTCP: inuse ") && counted.stderr.is_empty(), "{counted:?}");
        assert_eq!(served.stats()["ended"], false);
        let (last, dir) = served.stop(Signal::INT);
        assert_eq!(last["ended"], true);
        let told = run(lowwater(["ss"]).arg(dir.join("stats.json")), LIMIT).ok();
        assert!(told.stderr.contains("that serve ended "), "{told:?}");
    });
}

#[test]
fn tc_replaces_the_discipline_of_a_serve_in_the_middle_of_a_transfer() {
    if !can_run(&["curl"]) {
        return;
    }
    in_namespace(|| {
        let dir = crate::support::Dir::new();
        let control = dir.join("control").display().to_string();
        let served = Served::start(&["--control", &control, "--qdisc", "fq maxrate 80mbit"]);
        let tc = |words: &[&str]| run(lowwater(["tc", &control]).args(words), LIMIT);
        assert!(tc(&[]).ok().stdout.starts_with("qdisc fq "));
        let hash = content(&served.root("down"), 20 << 20);
        let url = format!("http://{V4}/down");
        let loading = std::thread::scope(|scope| {
            let loading = scope.spawn(|| download(&url));
            served.stats_show("packets by the first", |stats| stats["Qdisc"]["packets"].as_u64() > Some(100));
            let told = tc(&[
                "replace", "tbf", "rate", "400mbit", "burst", "64kb", "limit", "1mb", "child", "fq_codel",
            ])
            .ok();
            assert!(
                told.stdout.starts_with("qdisc tbf ") && told.stdout.contains("rate 400Mbit"),
                "{told:?}"
            );
            loading.join().expect("a download")
        });
        assert_eq!(loading, hash, "nothing is lost by a change");
        let counts: Value = serde_json::from_str(&tc(&["-s", "--json"]).ok().stdout).expect("JSON");
        assert!(counts[0]["kind"] == "tbf" && counts[0]["packets"].as_u64() > Some(100), "{counts:#}");
        let _idle = TcpStream::connect(CHARGEN).expect("chargen listens");
        let shown = run(&mut lowwater(["ss", "-i", &control]), LIMIT).ok();
        assert!(shown.stdout.contains("10.9.0.2:19") && shown.stdout.contains(" cwnd:"), "{shown:?}");
        for (words, code, why) in
            [(&["replace", "fqq"][..], 2, "fq"), (&["destroy"], 2, "replace"), (&["replace"], 2, "replace")]
        {
            let ended = tc(words);
            assert!(ended.code() == Some(code) && ended.stderr.contains(why), "{ended:?}");
        }
        served.stop(Signal::INT);
        assert!(!dir.join("control").exists(), "it goes with serve");
        let ended = Proc::start(&mut lowwater(["tc", &control])).wait(LIMIT);
        assert!(ended.code() == Some(1) && ended.stderr.contains(&control), "{ended:?}");
    });
}
