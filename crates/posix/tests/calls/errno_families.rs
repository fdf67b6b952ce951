//! Addresses of every kind on sockets of both families: tests/matrix/families.txt, which families.py beside it prints.
use crate::support::*;
use bytes::Bytes;
use lowwater_posix::abi::*;
use lowwater_posix::{Call, Host, Name, Piece, SendKind, Settings};

/// Linux 6.18's answers: kind of socket, call, name of the address, its bytes, the answer.
const KERNEL: &str = include_str!("../matrix/families.txt");

/// Where we differ: socket (or `*`), call, address, why.
const DIFFERENT: &[(&str, &str, &str, &str)] = &[
    ("*", "bind", "v4_multicast", "no multicast"),
    ("*", "connect", "v6_multicast", "no multicast"),
    ("*", "sendto", "v6_multicast", "no multicast"),
    ("*", "connect", "v4_port_0", "nobody can be reached at port 0: EINVAL at once"),
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| core::str::from_utf8(pair).expect("hexadecimal"));
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect()
}

fn answer(host: &mut Host, kind: &str, call: &str, name: Name) -> String {
    let domain = if kind.contains('6') { AF_INET6 } else { AF_INET };
    let ty = if kind.starts_with("dgram") { SOCK_DGRAM } else { SOCK_STREAM };
    let fd = ok(host, Call::Socket { domain, ty: ty | SOCK_NONBLOCK, protocol: 0 });
    if kind.contains("only6") {
        ok(host, setint(fd, SOL_IPV6, IPV6_V6ONLY, 1));
    }
    let data = vec![Piece::Data(Bytes::from_static(b"x"))];
    let call = match call {
        "bind" => Call::Bind { fd, addr: name },
        "connect" => Call::Connect { fd, addr: name },
        _ => Call::Send {
            fd,
            kind: SendKind::Sendto,
            data,
            flags: MSG_NOSIGNAL,
            to: Some(name),
            control: Vec::new(),
        },
    };
    let reply = done(host, call);
    let result = reply.errno.map_or_else(|| reply.ret.to_string(), |e| e.name().to_owned());
    if !matches!(result.as_str(), "0" | "EINPROGRESS") {
        return result;
    }
    let local = done(host, Call::Getsockname { fd }).addr.expect("a socket has a name");
    let port = if matches!(local.port(), 0 | 80) { local.port().to_string() } else { "some".to_owned() };
    format!("{result} {} {port}", local.ip())
}

#[test]
fn every_address_on_every_socket_answers_as_the_kernel() {
    let mut wrong = Vec::new();
    for line in KERNEL.lines() {
        let words: Vec<&str> = line.splitn(5, ' ').collect();
        let [kind, call, label, hex, kernel] = words.as_slice() else { panic!("'{line}' has five parts") };
        let ip = |text: &str| text.parse().expect("an address");
        let addresses = vec![(ip(A), 24), (ip(A6), 64)];
        let mut host = Host::new(Settings { addresses, ..Settings::default() }).expect("a host");
        let ours = answer(&mut host, kind, call, Name::read(&bytes(hex)));
        let meant = DIFFERENT.iter().any(|(k, c, l, _)| (k == kind || *k == "*") && c == call && l == label);
        if ours != *kernel && !meant {
            wrong.push(format!("{kind} {call} {label}: {ours}, the kernel says {kernel}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
