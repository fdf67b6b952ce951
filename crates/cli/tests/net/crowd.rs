//! Many clients at once, and clients that die.
use crate::served::{LIMIT, MIB, Served, V4, can_run, content, curl, download, in_namespace, sha256};
use crate::support::Proc;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const CLIENTS: usize = 1_000;

#[test]
fn a_thousand_connections_at_once() {
    if !can_run(&[]) {
        return;
    }
    let limit = getrlimit(Resource::Nofile);
    let enough = limit.maximum.is_none_or(|most| most > 2 * CLIENTS as u64);
    assert!(enough, "the hard limit of open files is too low: {limit:?}");
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    in_namespace(|| {
        let served = Served::start(&[]);
        let hash = content(&served.root("file"), 256 * 1_024);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut connecting = JoinSet::new();
            for _ in 0..CLIENTS {
                connecting.spawn(TcpStream::connect((V4, 80)));
            }
            let streams =
                tokio::time::timeout(LIMIT, connecting.join_all()).await.expect("connections in time");
            served.stats_show("a thousand connections", |s| s["Tcp"]["CurrEstab"] == CLIENTS);
            let mut asking = JoinSet::new();
            for stream in streams {
                asking.spawn(ask(stream.unwrap()));
            }
            let answers = tokio::time::timeout(LIMIT, asking.join_all()).await.expect("answers in time");
            assert_eq!(answers.len(), CLIENTS);
            for answer in answers {
                assert_eq!(sha256(&answer[..]), hash);
            }
        });
        served.stats_show("no connection", |s| s["Tcp"]["CurrEstab"] == 0);
        let (stats, _dir) = served.stop(Signal::INT);
        assert_eq!(stats["Tcp"]["PassiveOpens"], CLIENTS);
        assert_eq!(stats["TcpExt"]["ListenOverflows"], 0);
    });
}

/// Asks for the file and returns the body.
async fn ask(mut stream: TcpStream) -> Vec<u8> {
    stream.write_all(b"GET /file HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let head = answer.windows(4).position(|w| w == b"\r\n\r\n").expect("the end of the head");
    answer.split_off(head + 4)
}

#[test]
fn a_client_killed_in_the_middle_leaves_nothing_behind() {
    if !can_run(&["curl"]) {
        return;
    }
    in_namespace(|| {
        let served = Served::start(&["--writable"]);
        let hash = content(&served.root("file"), 8 * MIB);
        std::fs::File::create(served.root("zeros")).unwrap().set_len(1 << 40).unwrap();
        let url = format!("http://{V4}/zeros");
        let source = served.root("zeros").display().to_string();
        let up = format!("http://{V4}/up");
        for args in [
            &["-o", "/dev/null", "--limit-rate", "20M", &url][..],
            &["--limit-rate", "20M", "-T", &source, &up],
        ] {
            let victim = Proc::start(&mut curl(args));
            served.stats_show("the transfer", |s| {
                s["Tcp"]["CurrEstab"] == 1
                    && (s["IpExt"]["InOctets"].as_u64() > Some(MIB)
                        || s["IpExt"]["OutOctets"].as_u64() > Some(MIB))
            });
            victim.signal(Signal::KILL);
            assert!(!victim.wait(LIMIT).status.success());
            served.stats_show("that nothing is left", |s| {
                s["Tcp"]["CurrEstab"] == 0
                    && s["Sockets"]["tcp_send_queue_bytes"] == 0
                    && s["Sockets"]["tcp_recv_queue_bytes"] == 0
            });
            let mut names: Vec<_> =
                std::fs::read_dir(served.root("")).unwrap().map(|e| e.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, ["file", "zeros"], "the file of a broken upload is removed");
            assert_eq!(download(&format!("http://{V4}/file")), hash, "the server is healthy");
        }
        std::thread::sleep(Duration::from_millis(1));
        served.stop(Signal::INT);
    });
}

/// A reader that takes nothing holds a connection, a file and memory: for as long as --user-timeout says.
#[test]
fn who_takes_nothing_is_not_waited_for() {
    if !can_run(&["curl"]) {
        return;
    }
    in_namespace(|| {
        let served = Served::start(&["--user-timeout", "1"]);
        std::fs::File::create(served.root("zeros")).unwrap().set_len(1 << 40).unwrap();
        let connect = |port| std::net::TcpStream::connect((V4, port)).unwrap();
        let (chargen, mut http) = (connect(19), connect(80));
        std::io::Write::write_all(&mut http, b"GET /zeros HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        served.stats_show("both ended", |s| {
            s["TcpExt"]["TCPAbortOnTimeout"] == 2
                && s["Tcp"]["CurrEstab"] == 0
                && s["Sockets"]["tcp_send_queue_bytes"] == 0
        });
        drop((chargen, http));
        let hash = content(&served.root("file"), MIB);
        assert_eq!(download(&format!("http://{V4}/file")), hash, "the server is healthy");
        served.stop(Signal::INT);
    });
}
