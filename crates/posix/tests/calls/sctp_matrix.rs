//! Every option of SOL_SCTP answers what the kernel answers: tests/matrix/sctp.txt, which sctp.c beside it prints in Linux 6.1
//! (`cargo test -p lowwater-uml --test sctp options` runs it there).
use crate::support::*;
use bytes::Bytes;
use lowwater_core::base::Duration;
use lowwater_posix::abi::*;
use lowwater_posix::{Call, Fd, Host, Optval};

/// Linux 6.1's answers.
const KERNEL: &str = include_str!("../matrix/sctp.txt");
const GETS: [usize; 4] = [0, 4, 8, 256];
const SETS: [usize; 14] = [0, 3, 4, 8, 12, 14, 16, 20, 32, 132, 140, 144, 152, 156];
const PORT: u16 = 5_000;

/// Options that are not there, or not as in the kernel, and why.
const DIFFERENT: &[(i32, &str)] = &[
    (SCTP_AUTO_ASCONF, "no ASCONF: what a kernel without the option answers"),
    (
        SCTP_GET_LOCAL_ADDRS,
        "the length is that of all that was written; Linux's is that of the addresses alone",
    ),
    (SCTP_STREAM_SCHEDULER, "first come, first served"),
    (SCTP_STREAM_SCHEDULER_VALUE, "first come, first served"),
    (SCTP_INTERLEAVING_SUPPORTED, "no I-DATA"),
    (SCTP_ASCONF_SUPPORTED, "no ASCONF"),
    (SCTP_AUTH_SUPPORTED, "no AUTH"),
    (SCTP_EXPOSE_POTENTIALLY_FAILED_STATE, "that a path is potentially failed is always told"),
    (SCTP_PLPMTUD_PROBE_INTERVAL, "no interval of a socket's own"),
];

fn socket(host: &mut Host, ty: i32) -> Fd {
    ok(host, Call::Socket { domain: AF_INET, ty, protocol: IPPROTO_SCTP })
}

/// A socket of this kind, and the other end of its association.
fn make(net: &mut Net, kind: &str) -> Vec<Fd> {
    let host = &mut net.a;
    match kind {
        "new" => vec![socket(host, SOCK_STREAM)],
        "many" => vec![socket(host, SOCK_SEQPACKET)],
        _ => {
            let fd = socket(host, SOCK_STREAM);
            if kind == "listening" {
                ok(host, bind(fd, "127.0.0.1", PORT + 1));
                ok(host, Call::Listen { fd, backlog: 5 });
                return vec![fd];
            }
            let listener = socket(host, SOCK_STREAM);
            ok(host, bind(listener, "127.0.0.1", PORT));
            ok(host, Call::Listen { fd: listener, backlog: 5 });
            let id = blocks(host, connect(fd, "127.0.0.1", PORT));
            net.run(Duration::from_millis(100));
            assert_eq!(finished(&mut net.a, id).ret, 0);
            vec![fd, listener]
        }
    }
}

fn drop_all(net: &mut Net, fds: Vec<Fd>) {
    for fd in fds {
        ok(&mut net.a, Call::Close { fd });
    }
    net.run(Duration::from_millis(100));
}

/// What reading into so many zeros gives.
fn read(net: &mut Net, kind: &str, name: i32, len: usize) -> String {
    let fds = make(net, kind);
    let call = Call::GetsockoptIn { fd: fds[0], level: SOL_SCTP, name, value: vec![0; len].into() };
    let reply = done(&mut net.a, call);
    drop_all(net, fds);
    if let Some(errno) = reply.errno {
        return errno.name().to_owned();
    }
    let shown = if kind == "connected" { &[][..] } else { &reply.value[..] };
    let hex: String = shown.iter().map(|b| format!("{b:02x}")).collect();
    format!("{}:{hex}", reply.value.len())
}

/// What setting so many zeros gives.
fn write(net: &mut Net, kind: &str, name: i32, len: usize) -> String {
    let fds = make(net, kind);
    let value = Optval::Bytes(Bytes::from(vec![0; len]));
    let reply = done(&mut net.a, Call::Setsockopt { fd: fds[0], level: SOL_SCTP, name, value });
    drop_all(net, fds);
    reply.errno.map_or_else(|| "ok".to_owned(), |errno| errno.name().to_owned())
}

#[test]
fn every_option_of_sctp_answers_what_the_kernel_answers() {
    let mut net = Net::new();
    let (mut wrong, mut same, mut differs) = (Vec::new(), 0, std::collections::BTreeSet::new());
    for line in KERNEL.lines() {
        let mut words = line.split(' ');
        let (kind, name) = (words.next().expect("a kind"), words.next().expect("a number"));
        let option: i32 = name.parse().expect("a number");
        let gets: Vec<String> = GETS.iter().map(|len| read(&mut net, kind, option, *len)).collect();
        let sets: Vec<String> = SETS.iter().map(|len| write(&mut net, kind, option, *len)).collect();
        let ours = format!("{kind} {name} get {} set {}", gets.join(" "), sets.join(" "));
        let known = DIFFERENT.iter().any(|(o, _)| *o == option);
        match (ours == line, known) {
            (true, _) => same += 1,
            (false, true) => _ = differs.insert(option),
            (false, false) => wrong.push(format!("kernel: {line}\n  ours: {ours}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {} lines:\n{}", wrong.len(), KERNEL.lines().count(), wrong.join("\n"));
    let listed: Vec<i32> = DIFFERENT.iter().map(|(option, _)| *option).collect();
    assert_eq!(differs.into_iter().collect::<Vec<_>>(), listed, "what is listed differs somewhere");
    assert!(same >= KERNEL.lines().count() - 4 * DIFFERENT.len(), "{same}");
}

#[test]
fn the_congestion_controller_has_a_name_that_can_be_changed_while_it_runs() {
    let mut net = Net::new();
    for kind in ["new", "many", "listening", "connected"] {
        let fds = make(&mut net, kind);
        let fd = fds[0];
        let get = |net: &mut Net, room: usize| {
            let value = vec![0; room].into();
            done(&mut net.a, Call::GetsockoptIn { fd, level: SOL_SCTP, name: SCTP_CONGESTION, value }).value
        };
        let set = |net: &mut Net, text: &'static [u8]| {
            let value = Optval::Bytes(Bytes::from_static(text));
            done(&mut net.a, Call::Setsockopt { fd, level: SOL_SCTP, name: SCTP_CONGESTION, value }).errno
        };
        assert_eq!(get(&mut net, 64), &b"rfc9260\0\0\0\0\0\0\0\0\0"[..], "{kind}");
        assert_eq!(set(&mut net, b"bbr"), None);
        assert_eq!(get(&mut net, 4), &b"bbr\0"[..]);
        assert_eq!(set(&mut net, b"cubic\0rest"), None);
        assert_eq!(get(&mut net, 6), &b"cubic\0"[..]);
        assert_eq!(set(&mut net, b"reno").map(|e| e.name()), Some("ENOENT"));
        assert_eq!(set(&mut net, b"").map(|e| e.name()), Some("EINVAL"));
        assert_eq!(get(&mut net, 6), &b"cubic\0"[..]);
        drop_all(&mut net, fds);
    }
}
