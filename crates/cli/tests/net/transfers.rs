//! Files both ways between the kernel's curl and the stack, and what `serve` answers.
use crate::served::{
    LIMIT, MIB, Served, V4, V6, ask, can_run, content, curl, download, in_namespace, sha256_file, upload,
};
use crate::support::{Dir, Proc, eventually, lowwater, run};
use lowwater_os::{Link, SetupError};
use rustix::process::Signal;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::time::Duration;

/// Up and down by both families with equal hashes.
fn both_ways(args: &[&str], len: u64, hosts: &[&str]) -> serde_json::Value {
    both_ways_on(["--tun", "lw0"], args, len, hosts)
}

fn both_ways_on(device: [&str; 2], args: &[&str], len: u64, hosts: &[&str]) -> serde_json::Value {
    let served = Served::start_on(device, &[&["--writable"], args].concat());
    let source = served.dir.join("source");
    let hash = content(&source, len);
    std::fs::hard_link(&source, served.root("down")).unwrap();
    for host in hosts {
        assert_eq!(download(&format!("http://{host}/down")), hash, "download from {host} with {args:?}");
        upload(&source, &format!("http://{host}/up"));
        assert_eq!(sha256_file(&served.root("up")), hash, "upload to {host} with {args:?}");
        std::fs::remove_file(served.root("up")).unwrap();
    }
    let (stats, _dir) = served.stop(Signal::INT);
    assert_eq!(stats["Tcp"]["InCsumErrors"], 0, "{args:?}");
    assert_eq!(stats["Tcp"]["CurrEstab"], 0, "{args:?}");
    stats
}

#[test]
fn a_gibibyte_each_way() {
    if can_run(&["curl"]) {
        in_namespace(|| {
            let stats = both_ways(&[], 1_024 * MIB, &[V4]);
            let octets = stats["IpExt"]["OutOctets"].as_u64().unwrap();
            assert!(octets > 1_024 * MIB && octets < 1_200 * MIB, "{octets}");
        });
    }
}

/// An interface for packet sockets, and the kernel's at its other end.
fn veth() {
    for line in [
        "link add va type veth peer name vb",
        "addr add 10.9.0.1/24 dev vb",
        "addr add fd00:9::1/64 dev vb nodad",
        "link set va up",
        "link set vb up",
    ] {
        run(std::process::Command::new("ip").args(line.split(' ')), LIMIT);
    }
}

#[test]
fn both_families_by_packet_sockets() {
    if can_run(&["curl", "ip"]) {
        in_namespace(|| {
            veth();
            drop(both_ways_on(["--packet", "va"], &[], 64 * MIB, &[V4, V6]));
        });
    }
}

#[test]
fn what_to_try_is_said_to_be_from_another_machine_where_this_one_cannot() {
    if !can_run(&["curl", "ip"]) {
        return;
    }
    in_namespace(|| {
        let ip = |line: &str| run(std::process::Command::new("ip").args(line.split(' ')), LIMIT).ok();
        // The kernel's own address is on the interface that the stack is on.
        for line in [
            "link add va type veth peer name vb",
            "addr add 10.9.0.9/24 dev va",
            "link set va up",
            "link set vb up",
        ] {
            ip(line);
        }
        let dir = Dir::new();
        let root = dir.join("").display().to_string();
        for (device, wanted, reached) in [
            (["--packet", "va"], "; from another machine on that link: curl http://10.9.0.2/", false),
            (["--tun", "lw0"], "; try: curl http://10.9.0.2/", true),
        ] {
            let words = ["serve", "--addr", "10.9.0.2/24", "--root", &root];
            let mut proc = Proc::piped(lowwater(words).args(device));
            let mut lines = BufReader::new(proc.stdout());
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            proc.gather_rest(lines);
            assert!(line.trim_end().ends_with(wanted), "{line}");
            let asked = run(curl(&["http://10.9.0.2/"]).args(["--max-time", "5"]), LIMIT);
            assert_eq!(asked.code() == Some(0), reached, "{asked:?}");
            proc.signal(Signal::INT);
            proc.wait(LIMIT).ok();
            if !reached {
                // The TUN is to have its subnet.
                ip("link del va");
            }
        }
    });
}

#[test]
fn an_address_on_an_interface_is_one_processs_alone() {
    if !can_run(&["curl", "ip"]) {
        return;
    }
    in_namespace(|| {
        veth();
        let on = ["--packet", "va"];
        let first = Served::start_on(on, &[]);
        assert!(first.said["packet"] == "va" && first.said["tun"].is_null(), "{:#}", first.said);
        for address in ["10.9.0.2/24", "10.9.0.9/24"] {
            let both = [address, "--addr6", "fd00:9::2/64"];
            let ended = run(lowwater(["serve"]).args(on).arg("--addr").args(both), LIMIT);
            let told = if address.starts_with("10.9.0.2/") { "10.9.0.2 on va" } else { "fd00:9::2 on va" };
            assert_eq!(ended.code(), Some(1), "{ended:?}");
            assert!(ended.stderr.contains(&format!("{told} is in use by another process")), "{ended:?}");
            // The socket that it names is there.
            let named =
                ended.stderr.split_once("@lowwater/packet/").and_then(|(_, rest)| rest.split_once(')'));
            let (named, _) = named.expect("a socket");
            let sockets = std::fs::read_to_string("/proc/thread-self/net/unix").unwrap();
            assert!(
                sockets.lines().any(|line| line.ends_with(&format!("@lowwater/packet/{named}"))),
                "{named}"
            );
        }
        // With another address it is a host beside the first; what was killed has nothing.
        let beside = [&["serve", "--addr", "10.9.0.3/24"][..], &on].concat();
        let beside = Proc::start(&mut lowwater(beside));
        for host in [V4, "10.9.0.3", V6] {
            assert!(
                eventually(LIMIT, || run(&mut curl(&[&format!("http://{host}/")]), LIMIT).code() == Some(0))
            );
        }
        beside.signal(Signal::KILL);
        beside.wait(LIMIT);
        drop(first);
        drop(Served::start_on(on, &["--addr", "10.9.0.3/24"]));
    });
}

#[test]
fn both_families_with_small_packets_and_offload() {
    if can_run(&["curl"]) {
        in_namespace(|| drop(both_ways(&["--mtu", "1500"], 64 * MIB, &[V4, V6])));
    }
}

#[test]
fn both_families_with_large_packets_and_offload() {
    if can_run(&["curl"]) {
        in_namespace(|| drop(both_ways(&["--mtu", "9000"], 64 * MIB, &[V4, V6])));
    }
}

#[test]
fn both_families_with_small_packets_without_offload() {
    if can_run(&["curl"]) {
        in_namespace(|| drop(both_ways(&["--mtu", "1500", "--no-offload"], 64 * MIB, &[V4, V6])));
    }
}

#[test]
fn both_families_with_large_packets_without_offload() {
    if can_run(&["curl"]) {
        in_namespace(|| drop(both_ways(&["--mtu", "9000", "--no-offload"], 64 * MIB, &[V4, V6])));
    }
}

#[test]
fn a_device_that_says_not_now_half_the_time_loses_nothing() {
    if can_run(&["curl"]) {
        in_namespace(|| {
            let stats = both_ways(&["--fault-not-now"], 64 * MIB, &[V4]);
            let (sent, again) = (stats["Tcp"]["OutSegs"].as_u64(), stats["Tcp"]["RetransSegs"].as_u64());
            assert!(again.unwrap() * 1_000 < sent.unwrap(), "{again:?} of {sent:?} segments were sent again");
        });
    }
}

#[test]
fn qdiscs_stand_before_the_device() {
    if can_run(&["curl"]) {
        in_namespace(|| {
            for words in ["fq", "fq_codel", "tbf rate 800mbit burst 64kb latency 50ms", "netem delay 1ms"] {
                let stats = both_ways(&["--qdisc", words], 8 * MIB, &[V4, V6]);
                let (qdisc, name) = (&stats["Qdisc"], words.split(' ').next().unwrap());
                assert_eq!(
                    (&qdisc["kind"], &qdisc["qlen"], &qdisc["backlog"]),
                    (&name.into(), &0.into(), &0.into())
                );
                let (bytes, text) = (qdisc["bytes"].as_u64().unwrap(), qdisc["text"].as_str().unwrap());
                assert!(bytes > 16 * MIB && bytes < 40 * MIB, "{text}");
                assert!(
                    text.starts_with(&format!("qdisc {name} root"))
                        && text.contains(&format!(" Sent {bytes} bytes "))
                );
            }
        });
    }
}

#[test]
fn http_answers_what_is_asked_and_nothing_outside_the_root() {
    if !can_run(&["curl"]) {
        return;
    }
    in_namespace(|| {
        let served = Served::start(&["--writable"]);
        std::fs::write(served.dir.join("secret"), "secret").unwrap();
        std::fs::write(served.dir.join("source"), "uploaded").unwrap();
        let source = served.dir.join("source").display().to_string();
        std::fs::create_dir(served.root("sub")).unwrap();
        std::fs::write(served.root("sub/a b"), "0123456789").unwrap();
        std::os::unix::fs::symlink("../secret", served.root("link")).unwrap();
        let at = |path: &str| format!("http://{V4}{path}");
        assert_eq!(ask(&[&at("/sub/a%20b")]), "0123456789");
        assert_eq!(ask(&["-r", "2-4", &at("/sub/a%20b")]), "234");
        assert_eq!(ask(&["-r", "-3", &at("/sub/a%20b")]), "789");
        assert!(ask(&[&at("/sub/")]).contains("a%20b"));
        assert!(ask(&["-L", &at("/sub")]).contains("a%20b"));
        assert!(ask(&["-I", &at("/sub/a%20b")]).contains("content-length: 10"));
        let status = |args: &[&str]| {
            let ended =
                run(curl(&["--path-as-is", "-o", "/dev/null", "-w", "%{http_code}"]).args(args), LIMIT);
            ended.stdout
        };
        for (args, wanted) in [
            (&[at("/none")][..], "404"),
            (&[at("/../secret")], "400"),
            (&[at("/%2e%2e/secret")], "400"),
            (&[at("/sub/..%2f..%2fsecret")], "400"),
            (&[at("/link")], "403"),
            (&["-r".into(), "99-".into(), at("/sub/a%20b")], "416"),
            (&["-X".into(), "DELETE".into(), at("/sub/a%20b")], "405"),
            (&["-T".into(), source.clone(), at("/no/such/dir")], "409"),
            (&["-T".into(), source.clone(), at("/../up")], "400"),
            (&["-T".into(), source.clone(), at("/sub/new")], "201"),
            (&["-T".into(), source.clone(), at("/sub/new")], "200"),
            (&["-T".into(), source, at("/link")], "200"),
        ] {
            let args: Vec<_> = args.iter().map(String::as_str).collect();
            assert_eq!(status(&args), wanted, "{args:?}");
        }
        assert_eq!(std::fs::read_to_string(served.dir.join("secret")).unwrap(), "secret");
        assert_eq!(std::fs::read(served.root("sub/new")).unwrap(), b"uploaded");
        served.stop(Signal::INT);
    });
}

/// Who reaches the address reads; that he may write is said by whoever starts it.
#[test]
fn nothing_is_written_without_writable() {
    if !can_run(&["curl"]) {
        return;
    }
    in_namespace(|| {
        let served = Served::start(&[]);
        assert_eq!((&served.said["writable"], &served.said["user_timeout_s"]), (&false.into(), &60.into()));
        std::fs::write(served.root("file"), "as it was").unwrap();
        let source = served.dir.join("source").display().to_string();
        content(std::path::Path::new(&source), 4 * MIB);
        let url = format!("http://{V4}/file");
        let ended = run(&mut curl(&["-i", "-w", "%{http_code}", "-T", &source, &url]), LIMIT);
        assert!(ended.stdout.contains("405") && ended.stdout.contains("--writable"), "{ended:?}");
        assert!(ended.stdout.to_lowercase().contains("allow: get, head\r\n"), "{ended:?}");
        assert_eq!(ask(&[&url]), "as it was");
        let names = std::fs::read_dir(served.root("")).unwrap().count();
        assert_eq!(names, 1, "nothing was begun either");
        served.stop(Signal::INT);
    });
}

#[test]
fn the_small_services_answer() {
    if !can_run(&[]) {
        return;
    }
    in_namespace(|| {
        let served = Served::start(&[]);
        let timeout = Some(Duration::from_secs(5));
        let connect = |port: u16| {
            let stream = TcpStream::connect((V4, port)).unwrap();
            stream.set_read_timeout(timeout).unwrap();
            stream
        };
        let mut echo = connect(7);
        echo.write_all(b"again").unwrap();
        echo.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        echo.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "again");

        let mut discard = connect(9);
        discard.write_all(&vec![0; 1 << 20]).unwrap();
        discard.shutdown(Shutdown::Write).unwrap();
        assert_eq!(discard.read(&mut [0; 1]).unwrap(), 0);

        let mut lines = vec![0; 74 * 3];
        connect(19).read_exact(&mut lines).unwrap();
        assert!(
            lines.starts_with(b" !\"#") && lines[74..].starts_with(b"!\"#$"),
            "{}",
            String::from_utf8_lossy(&lines)
        );

        for (own, peer) in [("10.9.0.1:0", "10.9.0.2:7"), ("[fd00:9::1]:0", "[fd00:9::2]:7")] {
            let socket = UdpSocket::bind(own).unwrap();
            socket.set_read_timeout(timeout).unwrap();
            socket.send_to(b"datagram", peer).unwrap();
            let mut buffer = [0; 64];
            let (n, from) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..n], from.to_string().as_str()), (&b"datagram"[..], peer));
        }
        let (stats, _dir) = served.stop(Signal::INT);
        assert_eq!((&stats["Udp"]["InDatagrams"], &stats["Udp"]["OutDatagrams"]), (&2.into(), &2.into()));
    });
}

#[test]
fn a_signal_ends_it_in_the_middle_of_a_transfer_and_removes_the_device() {
    if !can_run(&["curl"]) {
        return;
    }
    in_namespace(|| {
        for signal in [Signal::INT, Signal::TERM] {
            let served = Served::start(&[]);
            std::fs::File::create(served.root("zeros")).unwrap().set_len(1 << 40).unwrap();
            let url = format!("http://{V4}/zeros");
            let slow =
                crate::support::Proc::start(&mut curl(&["-o", "/dev/null", "--limit-rate", "10M", &url]));
            served.stats_show("the transfer", |s| s["IpExt"]["OutOctets"].as_u64() > Some(MIB));
            assert!(Link::by_name("lw0").is_ok());
            served.stop(signal);
            assert!(matches!(Link::by_name("lw0"), Err(SetupError::NoSuchLink { .. })));
            assert!(!slow.wait(LIMIT).status.success(), "curl was told that the transfer is incomplete");
        }
    });
}

/// `curl -C` sends a part and says so: what is there stays as it is.
#[test]
fn a_part_is_not_put_in_the_place_of_a_file_and_head_has_no_parts() {
    if !can_run(&["curl"]) {
        return;
    }
    in_namespace(|| {
        let served = Served::start(&["--writable"]);
        std::fs::write(served.root("file"), "all of it").unwrap();
        let part = served.dir.join("part");
        std::fs::write(&part, "it").unwrap();
        let url = format!("http://{V4}/file");
        let put =
            ["-w", "%{http_code}", "-H", "Content-Range: bytes 7-8/9", "-T", part.to_str().unwrap(), &url];
        let ended = run(&mut curl(&put), LIMIT);
        assert!(ended.stdout.ends_with("400") && ended.stdout.contains("send all of it"), "{ended:?}");
        assert_eq!(std::fs::read_to_string(served.root("file")).unwrap(), "all of it");
        let head = run(&mut curl(&["-I", "-r", "0-3", &url]), LIMIT).ok();
        assert!(
            head.stdout.starts_with("HTTP/1.1 200 OK") && head.stdout.contains("content-length: 9"),
            "{head:?}"
        );
        served.stop(Signal::INT);
    });
}
