//! Every option of every level answers what the kernel answers: tests/matrix/options.txt, which options.py beside it prints.
use crate::support::*;
use bytes::Bytes;
use lowwater_posix::abi::*;
use lowwater_posix::{Call, Fd, Host, Optval};
use std::collections::BTreeSet;

/// Linux 6.18's answers.
const KERNEL: &str = include_str!("../matrix/options.txt");

/// Options that are not there, or not as in the kernel: level, name, why.
const DIFFERENT: &[(i32, i32, &str)] = &[
    (SOL_SOCKET, SO_RCVLOWAT, "bounded by the machine's tcp_rmem"),
    (SOL_SOCKET, SO_PEEK_OFF, "of TCP alone"),
    (SOL_SOCKET, SO_ATTACH_BPF, "no programs in sockets"),
    (SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF, "the same"),
    (SOL_SOCKET, SO_BINDTOIFINDEX, "devices have no numbers"),
    (SOL_IP, IP_OPTIONS, "nothing is sent with IP options"),
    (SOL_IP, IP_LOCAL_PORT_RANGE, "the sysctl alone"),
    (SOL_TCP, TCP_CONGESTION, "the machine's default"),
    (SOL_TCP, TCP_CC_INFO, "the machine's default congestion controller has some"),
    (SOL_TCP, TCP_MD5SIG, "no MD5 signatures: what a kernel without them answers"),
    (SOL_TCP, TCP_MD5SIG_EXT, "the same"),
    (SOL_TCP, TCP_REPAIR, "for who may not repair"),
    (SOL_TCP, TCP_TIMESTAMP, "a clock"),
    (SOL_TCP, TCP_TX_DELAY, "no such delay"),
    (SOL_IP, IP_MULTICAST_IF, "no multicast"),
];

fn text(host: &mut Host, fd: Fd, level: i32, name: i32) -> String {
    let reply = done(host, get(fd, level, name, 4));
    if let Some(errno) = reply.errno {
        return errno.name().to_owned();
    }
    let number = reply.value.iter().rev().fold(0_i64, |n, b| n << 8 | i64::from(*b));
    let bits = 8 * reply.value.len() as u32;
    let number = if bits > 0 && number >= 1 << (bits - 1) { number - (1 << bits) } else { number };
    format!("{}:{number}", reply.value.len())
}

fn set(host: &mut Host, fd: Fd, level: i32, name: i32, value: &[u8]) -> String {
    let value = Optval::Bytes(Bytes::copy_from_slice(value));
    match done(host, Call::Setsockopt { fd, level, name, value }).errno {
        Some(errno) => errno.name().to_owned(),
        None => format!("={}", text(host, fd, level, name)),
    }
}

#[test]
fn every_option_answers_as_the_kernel() {
    let (mut wrong, mut differs) = (Vec::new(), BTreeSet::new());
    for line in KERNEL.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, level, name, kernel @ ..] = words.as_slice() else { panic!("'{line}'") };
        let (level, name): (i32, i32) = (level.parse().expect("a number"), name.parse().expect("a number"));
        let label =
            NAMES.iter().filter(|(n, v)| *v == i64::from(name) && level_of(n) == level).map(|(n, _)| *n);
        let label = label.collect::<Vec<_>>().join(" ");
        // What has no name here is not there.
        if label.is_empty() {
            continue;
        }
        let domain = if *kind == "stream6" { AF_INET6 } else { AF_INET };
        let ty = if *kind == "dgram" { SOCK_DGRAM } else { SOCK_STREAM };
        let mut ours = Vec::new();
        for value in [1_i32, 0, -1, 1_000]
            .map(i32::to_ne_bytes)
            .iter()
            .map(<[u8; 4]>::as_slice)
            .chain([&[1, 0, 0][..]])
        {
            let mut host = host(A, A6);
            let fd = ok(&mut host, Call::Socket { domain, ty, protocol: 0 });
            if ours.is_empty() {
                ours.push(text(&mut host, fd, level, name));
            }
            ours.push(set(&mut host, fd, level, name, value));
        }
        if ours == kernel {
            continue;
        }
        if DIFFERENT.iter().any(|(l, n, _)| (*l, *n) == (level, name)) {
            differs.insert((level, name));
        } else {
            wrong.push(format!(
                "{kind} {level} {name} {label}:\n    {}\n    {}",
                ours.join(" "),
                kernel.join(" ")
            ));
        }
    }
    assert!(wrong.is_empty(), "{} differ (ours, the kernel's):\n{}", wrong.len(), wrong.join("\n"));
    let listed: BTreeSet<_> = DIFFERENT.iter().map(|(level, name, _)| (*level, *name)).collect();
    assert_eq!(differs, listed, "what is listed differs somewhere");
}

fn level_of(name: &str) -> i32 {
    match name.split('_').next() {
        Some("SO") => SOL_SOCKET,
        Some("IP") => SOL_IP,
        Some("TCP") => SOL_TCP,
        Some("IPV6") => SOL_IPV6,
        _ => -1,
    }
}
