//! What `serve` is given and has written.
use super::*;

#[test]
fn what_stands_before_the_device_is_checked_at_once() {
    for (option, value, wanted) in [
        (
            "--qdisc",
            "fq maxrate 0",
            "\"fq maxrate 0\": maxrate cannot be \"0\"; allowed: a rate of 8bit and more",
        ),
        ("--qdisc", "fq_code", "there is none called \"fq_code\"; allowed: noqueue, pfifo,"),
        ("--qdisc", "fq_code", "netem, mq; near it: fq_codel"),
        ("--qdisc", "fq maxrat 1mbit", "; near it: maxrate"),
        (
            "--qdisc",
            "tbf rate 1mbit burst 5kb child fifo",
            "there is none called \"fifo\"; allowed: noqueue,",
        ),
        ("--set", "default_qdisc=tbf", "'tbf' is not allowed; it takes pfifo_fast, pfifo, bfifo,"),
        ("--set", "default_qdisk=fq", "there is no sysctl default_qdisk; near it: default_qdisc"),
    ] {
        let ended = say(&["serve", "--tun", "lw0", "--addr", "10.9.0.2/24", option, value]);
        assert_eq!(ended.code(), Some(2), "{ended:?}");
        assert!(ended.stderr.contains(wanted), "{ended:?}");
    }
}

#[test]
fn tc_shows_what_serve_has_written() {
    let dir = Dir::new();
    let file = dir.join("stats.json");
    let name = file.display().to_string();
    let q = r#"{"kind": "fq", "options": {"limit": 3}, "bytes": 5, "details": {"gc": 7}, "text": "qdisc fq root limit 3p\n Sent 5 bytes"}"#;
    std::fs::write(&file, format!("{{\"Tcp\": {{}}, \"Qdisc\": {q}}}")).expect("writable");
    assert_eq!(say(&["tc", &name]).ok().stdout, "qdisc fq root limit 3p\n");
    assert_eq!(say(&["tc", "-s", &name]).ok().stdout, "qdisc fq root limit 3p\n Sent 5 bytes\n");
    let ended = say(&["tc", "-s", "--json", &name]).ok();
    let list: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!((&list[0]["root"], &list[0]["gc"], &list[0]["bytes"]), (&true.into(), &7.into(), &5.into()));
    std::fs::write(&file, "{}").expect("writable");
    let ended = say(&["tc", &name]);
    assert!(
        ended.code() == Some(1) && ended.stderr.contains("has no Qdisc: is it from serve --stats?"),
        "{ended:?}"
    );
}

#[test]
fn ss_shows_what_serve_has_written() {
    let dir = Dir::new();
    let file = dir.join("stats.json");
    let name = file.display().to_string();
    let socket = |local: &str| {
        format!(
            r#"{{"local": "{local}", "remote": "10.9.0.1:999", "state": "Established", "recv_queue_bytes": 0, "send_queue_bytes": 3,
            "below_bytes": 2, "waits_for": null}}"#
        )
    };
    let (tcp, sctp) = (socket("10.9.0.2:80"), socket("10.9.0.2:7"));
    std::fs::write(&file, format!(r#"{{"Connections": [{tcp}], "Associations": [{sctp}], "NotListed": 7}}"#))
        .expect("writable");
    let ended = say(&["ss", &name]).ok();
    assert!(ended.stderr.contains("7 more are not in"), "{ended:?}");
    let all = ended.stdout;
    assert_eq!(all.lines().count(), 3, "{all}");
    assert!(all.contains("tcp    ESTAB") && all.contains("sctp   ESTAB"), "{all}");
    for only in ["--tcp", "-t", "-ti"] {
        let shown = say(&["ss", only, &name]).ok().stdout;
        assert!(shown.contains("tcp    ESTAB") && !shown.contains("sctp"), "{only}: {shown}");
    }
    let one: Value =
        serde_json::from_str(&say(&["ss", "--sctp", "--json", &name]).ok().stdout).expect("JSON");
    assert_eq!((&one["netid"], &one["local"]), (&"sctp".into(), &"10.9.0.2:7".into()));
    std::fs::write(&file, "{}").expect("writable");
    let ended = say(&["ss", "-s", &name]);
    assert!(ended.code() == Some(1) && ended.stderr.contains("has no Sockstat: is it from"), "{ended:?}");
    let ended = say(&["ss", &name]);
    assert!(
        ended.code() == Some(1) && ended.stderr.contains("has no Connections: is it from serve --stats?"),
        "{ended:?}"
    );
}
