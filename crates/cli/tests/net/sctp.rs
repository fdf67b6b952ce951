//! `serve --sctp` and `sctp-send`: two processes, two TUNs, and the kernel as the router between them.
use crate::served::{LIMIT, Served, can_run, in_namespace};
use crate::support::{Dir, Ended, Proc, eventually, lowwater, run};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// What no capture may hold.
const BAD: &str =
    "_ws.malformed || sctp.checksum.status == Bad || sctp.parameter_length.bad || ip.checksum.status == Bad";
const NOTHING_BACK: &str = "all acknowledged, nothing came back: is that the discard port?";
/// The server's addresses: two networks of IPv4, one of IPv6.
const SERVER: [&str; 3] = ["10.9.0.2", "10.9.4.2", "[fd00:9::2]"];

/// The server on its addresses; the kernel forwards.
fn server(more: &[&str]) -> Served {
    for name in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        std::fs::write(format!("/proc/sys/net/{name}"), "1").unwrap();
    }
    let mut args = vec!["--sctp", "7", "--addr", "10.9.4.2/24"];
    args.extend(more);
    Served::start(&args)
}

/// The client behind a TUN of its own, with two addresses of IPv4 and one of IPv6.
fn client(args: &[&str], peers: &[String]) -> Command {
    let mut command =
        lowwater(["sctp-send", "--tun", "lw1", "--addr", "10.9.1.2/24", "--addr", "10.9.2.2/24"]);
    command.args(["--addr6", "fd00:a::2/64", "--json"]).args(args).args(peers);
    command
}

fn peers(port: u16) -> Vec<String> {
    SERVER.iter().map(|ip| format!("{ip}:{port}")).collect()
}

/// How many packets a TUN of this namespace has carried into the kernel (proc_pid_net(5), dev).
fn packets_of(device: &str) -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let row = table.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'));
    row.and_then(|row| row.split_whitespace().nth(1)?.parse().ok()).expect("a device that counts")
}

fn said(ended: Ended) -> Value {
    serde_json::from_str(&ended.ok().stdout).expect("a JSON object")
}

fn frames(file: &Path, filter: &str) -> usize {
    let mut tshark = Command::new("tshark");
    tshark.args(["-o", "sctp.checksum:CRC 32c", "-o", "ip.check_checksum:TRUE", "-r"]).arg(file);
    tshark.args(["-Y", filter, "-T", "fields", "-e", "frame.number"]);
    run(&mut tshark, LIMIT).ok().stdout.lines().count()
}

#[test]
fn what_the_echo_sends_back_is_what_was_sent_and_the_captures_are_well_formed() {
    if !can_run(&["tshark"]) {
        return;
    }
    in_namespace(|| {
        let dir = Dir::new();
        let (ours, theirs) = (dir.join("client.pcapng"), dir.join("server.pcapng"));
        let names = [&ours, &theirs].map(|file| file.display().to_string());
        let served = server(&["--pcap", &names[1]]);
        assert_eq!((&served.said["sctp"]["echo"], &served.said["sctp"]["discard"]), (&7.into(), &9.into()));
        let ordered = ["--count", "3000", "--size", "1700", "--streams", "8", "--ppid", "51"];
        let args = [&ordered[..], &["--echo", "--hash", "--pcap", &names[0]]].concat();
        let sent = said(run(&mut client(&args, &peers(7)), LIMIT));
        assert_eq!((&sent["messages"], &sent["bytes"]), (&3_000.into(), &5_100_000.into()));
        assert_eq!((&sent["back_messages"], &sent["back_bytes"]), (&3_000.into(), &5_100_000.into()));
        assert!(sent["hash"].as_str().is_some_and(|h| h.len() == 64) && sent["hash"] == sent["back_hash"]);
        let paths = sent["paths"].as_array().unwrap();
        assert_eq!(paths.len(), 3);
        assert!(paths[0]["primary"] == true && paths[0]["srtt_ms"].as_f64().is_some(), "{sent:#}");
        // Told is the end, where nothing is in flight, and the streams that were used beside those that there are.
        assert!(paths.iter().all(|path| path["flight"] == 0), "{sent:#}");
        assert_eq!((&sent["streams"], &sent["outbound_streams"]), (&8.into(), &10.into()), "{sent:#}");
        // The other family alone, unordered, and larger than a window.
        let unordered = ["--unordered", "--count", "200", "--echo"];
        let last = said(run(&mut client(&unordered, &peers(7)[2..]), LIMIT));
        assert_eq!(last["hash"], last["back_hash"]);
        let large = ["--size", "1000000", "--count", "5", "--echo"];
        assert_eq!(said(run(&mut client(&large, &peers(7)), LIMIT))["back_bytes"], 5_000_000);
        let (stats, _root) = served.stop(Signal::INT);
        let sctp = &stats["Sctp"];
        assert_eq!(
            (&sctp["PassiveEstabs"], &sctp["Shutdowns"], &sctp["Aborteds"]),
            (&3.into(), &3.into(), &0.into())
        );
        assert_eq!(stats["Associations"], serde_json::json!([]));
        for file in [&ours, &theirs] {
            assert_eq!(frames(file, BAD), 0, "{}", file.display());
            for some in [
                "sctp.chunk_type == 0 && ip",
                "sctp.chunk_type == 3",
                "sctp.chunk_type == 4",
                "sctp.data_payload_proto_id == 51",
            ] {
                assert!(frames(file, some) > 0, "{some} in {}", file.display());
            }
        }
        assert!(frames(&theirs, "sctp.chunk_type == 0 && ipv6") > 0);
    });
}

#[test]
fn settings_carry_it_over_udp() {
    if !can_run(&["tshark"]) {
        return;
    }
    in_namespace(|| {
        let dir = Dir::new();
        let file = dir.join("client.pcapng");
        let name = file.display().to_string();
        let served = server(&["--set", "sctp.udp_port=9899"]);
        let over_udp = ["--set", "sctp.udp_port=9899", "--set", "sctp.encap_port=9899"];
        let args = [&over_udp[..], &["--echo", "--pcap", &name]].concat();
        let sent = said(run(&mut client(&args, &peers(7)[..1]), LIMIT));
        assert_eq!((&sent["back_messages"], &sent["hash"]), (&1_000.into(), &sent["back_hash"]));
        served.stop(Signal::INT);
        let of_first = "(ip.addr == 10.9.0.2 || ip.addr == 10.9.4.2) && sctp";
        assert!(frames(&file, &format!("{of_first} && udp.port == 9899")) > 1_000);
        assert_eq!(frames(&file, &format!("{of_first} && !udp")), 0);
        assert_eq!(frames(&file, BAD), 0);
    });
}

#[test]
fn a_transfer_for_a_time_shows_in_ss_and_ends_in_good_order_at_ctrl_c() {
    if !can_run(&[]) {
        return;
    }
    in_namespace(|| {
        let served = server(&["--congestion", "cubic"]);
        let args = ["--duration", "100", "--streams", "4", "--congestion", "bbr"];
        let sending = Proc::start(&mut client(&args, &peers(9)));
        served.stats_show("an association with its paths", |stats| {
            let paths = stats["Associations"][0]["paths"].as_array();
            stats["Sctp"]["CurrEstab"] == 1 && paths.is_some_and(|paths| paths.len() == 3)
        });
        let name = served.dir.join("stats.json").display().to_string();
        let shown = run(&mut lowwater(["ss", "-i", "--sctp", &name]), LIMIT).ok().stdout;
        assert!(
            shown.contains("sctp   ESTAB")
                && shown.contains("path 10.9.1.2 from 10.9.0.2: active, primary")
                && shown.contains("; cubic"),
            "{shown}"
        );
        sending.signal(Signal::INT);
        let ended = sending.wait(LIMIT);
        assert_eq!(ended.code(), Some(130), "{ended:?}");
        let sent: Value = serde_json::from_str(&ended.stdout).expect("a JSON object");
        let path = &sent["paths"][0];
        assert!(path["congestion"] == "bbr" && path["bbr"]["bw"].as_u64().is_some(), "{sent}");
        assert!(sent["interrupted"] == true && sent["messages"].as_u64().is_some_and(|n| n > 0), "{sent}");
        served.stats_show("its end", |stats| stats["Sctp"]["CurrEstab"] == 0);
        let (stats, _root) = served.stop(Signal::INT);
        assert_eq!((&stats["Sctp"]["Shutdowns"], &stats["Sctp"]["Aborteds"]), (&1.into(), &0.into()));
    });
}

#[test]
fn an_echo_that_never_comes_is_told_and_ctrl_c_still_ends_in_good_order() {
    if !can_run(&[]) {
        return;
    }
    in_namespace(|| {
        let served = server(&[]);
        let began = Instant::now();
        let sending = Proc::start(&mut client(&["--count", "10", "--echo"], &peers(9)));
        served.stats_show("an association", |stats| stats["Sctp"]["CurrEstab"] == 1);
        sending.says(NOTHING_BACK);
        let before = began.elapsed();
        sending.signal(Signal::INT);
        let ended = sending.wait(LIMIT);
        assert_eq!(ended.code(), Some(130), "{ended:?}");
        assert_eq!(ended.stderr.matches(NOTHING_BACK).count(), 1, "{ended:?}");
        let sent: Value = serde_json::from_str(&ended.stdout).expect("a JSON object");
        assert!(
            sent["interrupted"] == true && sent["aborted"] == false && sent["acknowledged"] == true,
            "{sent}"
        );
        assert_eq!((&sent["messages"], &sent["back_messages"]), (&10.into(), &0.into()));
        // The silence, which lasts three seconds before it is told, is no part of the time.
        let most = before.as_secs_f64() - 3.0;
        assert!(sent["seconds"].as_f64().is_some_and(|s| s <= most), "{most}: {sent}");
        let (stats, _root) = served.stop(Signal::INT);
        assert_eq!((&stats["Sctp"]["Shutdowns"], &stats["Sctp"]["Aborteds"]), (&1.into(), &0.into()));
    });
}

#[test]
fn what_a_peer_that_stands_still_has_not_acknowledged_is_told_after_ctrl_c() {
    if !can_run(&[]) {
        return;
    }
    in_namespace(|| {
        let served = server(&[]);
        let mut sending = Proc::start(&mut client(&["--duration", "100"], &peers(9)));
        served.stats_show("an association", |stats| stats["Sctp"]["CurrEstab"] == 1);
        served.freeze();
        // Of what is sent from now on nothing is acknowledged.
        let before = packets_of("lw1");
        assert!(eventually(LIMIT, || packets_of("lw1") > before + 1), "it sends nothing");
        sending.signal(Signal::INT);
        // Two that come at the same time are one: again, until it has heard the second.
        let ends = eventually(LIMIT, || {
            std::thread::sleep(Duration::from_millis(100));
            let running = sending.running();
            if running {
                sending.signal(Signal::INT);
            }
            !running
        });
        assert!(ends, "it goes on");
        let ended = sending.wait(LIMIT);
        served.signal(Signal::CONT);
        assert_eq!(ended.code(), Some(130), "{ended:?}");
        assert!(
            ended.stderr.contains("aborted, since the peer had not acknowledged everything"),
            "{ended:?}"
        );
        let sent: Value = serde_json::from_str(&ended.stdout).expect("a JSON object");
        assert!(sent["aborted"] == true && sent["acknowledged"] == false, "{sent}");
    });
}

#[test]
fn what_is_given_up_is_no_part_of_the_rate() {
    if !can_run(&[]) {
        return;
    }
    in_namespace(|| {
        let served = server(&[]);
        let slow =
            ["--qdisc", "tbf rate 5mbit burst 15kb latency 50ms", "--lifetime", "100", "--duration", "2"];
        // Of one chunk, and of several; what counts them where they come.
        for (nth, (size, of, counter)) in
            [(1_000, "1000", "InOrderChunks"), (4_000, "4000", "ReasmUsrMsgs")].into_iter().enumerate()
        {
            let args = [&slow[..], &["--size", of]].concat();
            let sent = said(run(&mut client(&args, &peers(9)[..1]), LIMIT));
            let number = |name: &str| sent[name].as_f64().expect("a number");
            assert!(number("given_up") > 100.0 && number("given_up") < number("messages"), "{sent}");
            served.stats_show("the end", |stats| {
                stats["Sctp"]["PassiveEstabs"] == nth + 1 && stats["Sctp"]["CurrEstab"] == 0
            });
            let came = served.stats()["Sctp"][counter].as_f64().expect("a counter");
            let told = number("acknowledged_bytes") / f64::from(size);
            // What is told as acknowledged is what has come. A timer may have given up what was on its way, too.
            assert!(told <= came && told > 0.98 * came, "{came} have come: {sent}");
            assert!(number("mbps") < 5.0, "{sent}");
            let rate = number("acknowledged_bytes") * 8.0 / number("seconds") / 1e6;
            assert!((number("mbps") - rate).abs() < 1e-6, "{sent}");
        }
        served.stop(Signal::INT);
    });
}

#[test]
fn failures_say_what_to_do() {
    if !can_run(&[]) {
        return;
    }
    in_namespace(|| {
        let served = server(&[]);
        let refused = run(&mut client(&[], &peers(8)), LIMIT);
        assert_eq!(refused.code(), Some(1), "{refused:?}");
        assert!(
            refused.stderr.contains("nobody listens") && refused.stderr.contains("--sctp"),
            "{refused:?}"
        );
        let local = run(&mut client(&["--local", "10.9.7.7"], &peers(9)), LIMIT);
        assert!(local.code() == Some(1) && local.stderr.contains("--local takes"), "{local:?}");
        let different = run(&mut client(&[], &[peers(7)[0].clone(), peers(9)[1].clone()]), LIMIT);
        assert!(different.code() == Some(2) && different.stderr.contains("different ports"), "{different:?}");
        // A server that ends says so.
        let sending = Proc::start(&mut client(&["--duration", "100"], &peers(9)));
        served.stats_show("an association", |stats| stats["Sctp"]["CurrEstab"] == 1);
        let (_stats, _root) = served.stop(Signal::INT);
        let ended = sending.wait(LIMIT);
        assert_eq!(ended.code(), Some(1), "{ended:?}");
        assert!(ended.stderr.contains("the peer has closed") || ended.stderr.contains("reset"), "{ended:?}");
    });
}
