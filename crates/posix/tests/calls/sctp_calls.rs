//! Calls on SCTP sockets answer what the kernel answers, one after the other: tests/matrix/sctp_calls.txt, whose lines sctp_calls.c
//! beside it carries out in Linux 6.1 (`cargo test -p lowwater-uml --test sctp calls`).
use crate::support::*;
use bytes::Bytes;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use lowwater_core::base::Duration;
use lowwater_posix::abi::{self, *};
use lowwater_posix::sctp::layout::{SOCKADDR_STORAGE, layout, sockaddr, sockaddr_bytes};
use lowwater_posix::{
    Call, Control, Errno, Fd, Name, Optval, Piece, RecvKind, Reply, Room, SendKind, Started,
};
use std::collections::{BTreeMap, BTreeSet};

/// What is asked, and Linux 6.1's answers.
const KERNEL: &str = include_str!("../matrix/sctp_calls.txt");

/// Answers that are meant to be others: the beginning of the scene's title, the call, the kernel's answer and the one here, and why.
const DIFFERENT: &[(&str, &str, &str, &str, &str)] = &[
    ("What a socket peeled off", "recv D 100", "EAGAIN", "0", OVER),
    ("What a socket peeled off", "poll D", "OUT", "IN|OUT|RDHUP", OVER),
    ("Sending with a reason", "recv B 1000", "EAGAIN", "0", OVER),
    ("The association of a one-to-one", "poll B", "OUT|ERR", "IN|OUT|ERR|RDHUP", OVER),
    ("The association of a one-to-one", "poll B", "OUT", "IN|OUT|RDHUP", OVER),
    ("The association of a one-to-one", "recv B 100", "EAGAIN", "0", OVER),
    ("A peer that shuts down", "recv B 100", "EAGAIN", "0", OVER),
    ("A peer that shuts down", "poll B", "OUT", "IN|OUT|HUP|RDHUP", OVER),
    ("Addresses of bindx", "sockname B", "2", "?@0", "all or none; the kernel keeps the last one"),
    ("Fragments", "recv A 3000", "848 eor from:9 failed flags:0 error:0 info:2,6,6,7,0 id:00", UNCUT, WHOLE),
    (
        "Fragments",
        "recv A 3000",
        "1048 eor from:9 failed flags:0 error:0 info:2,4,6,7,0 id:00",
        "EAGAIN",
        WHOLE,
    ),
    (
        "Fragments",
        "recv A 3000",
        "748 eor from:9 failed flags:0 error:0 info:2,5,6,7,0 id:00",
        "EAGAIN",
        WHOLE,
    ),
];
const UNCUT: &str = "2548 eor from:9 failed flags:0 error:0 info:2,7,6,7,0 id:00";
const WHOLE: &str = "what was not cut yet is told in one piece";
const OVER: &str =
    "an association that is over is at its end, as with TCP; who may wait has ENOTCONN in the kernel";
/// What never came up has an identifier here, and none in the kernel.
const UNNAMED: [&str; 4] =
    ["Messages that fail", "Failed messages in both forms", "Fragments that fail", "Streams"];

/// One scene: sockets and identifiers by their letters.
struct Scene {
    net: Net,
    fds: BTreeMap<String, Fd>,
    ids: BTreeMap<String, u32>,
}

const BASE: u16 = 5_000;

fn number(word: &str) -> i64 {
    word.parse().unwrap_or(0)
}

/// PORT, or PORT@LAST for 127.0.0.LAST; with an m behind it the same as an IPv6 address.
fn at_port(word: &str) -> SocketAddr {
    let (word, mapped) = word.strip_suffix('m').map_or((word, false), |word| (word, true));
    let (port, last) = word.split_once('@').unwrap_or((word, "1"));
    let port = number(port) as u16;
    let ip = Ipv4Addr::new(127, 0, 0, number(last) as u8);
    let ip = if mapped { ip.to_ipv6_mapped().into() } else { IpAddr::from(ip) };
    SocketAddr::new(ip, if port == 0 { 0 } else { BASE + port })
}

fn shown_at(addr: Option<SocketAddr>) -> String {
    let Some(addr) = addr else { return "none".to_owned() };
    let (last, family) = match addr.ip() {
        IpAddr::V4(ip) => (ip.octets()[3], ""),
        IpAddr::V6(ip) => (ip.octets()[15], "m"),
    };
    let port = addr.port().checked_sub(BASE).filter(|port| *port < 100);
    let port = port.map_or_else(|| "?".to_owned(), |port| port.to_string());
    if last == 1 { port + family } else { format!("{port}@{last}{family}") }
}

fn outcome(reply: &Reply) -> String {
    reply.errno.map_or_else(|| reply.ret.to_string(), |errno| errno.name().to_owned())
}

/// What fields of a value are: letter, its bytes.
fn size_of(kind: &str, arg: &str) -> usize {
    match kind {
        "h" => 2,
        "b" => 1,
        "a" => SOCKADDR_STORAGE,
        "l" => 8,
        "s" if arg.contains('m') => 28,
        "s" => 16,
        "z" | "x" => number(arg) as usize,
        _ => 4,
    }
}

impl Scene {
    fn new() -> Self {
        Self { net: Net::loopbacks(), fds: BTreeMap::new(), ids: BTreeMap::new() }
    }

    fn fd(&self, word: &str) -> Fd {
        self.fds.get(word).copied().unwrap_or(-1)
    }

    /// The call's reply. None of these sockets blocks.
    fn call(&mut self, call: Call) -> Reply {
        let shown = format!("{call:?}");
        match self.net.a.call(call) {
            Started::Done(reply) => reply,
            Started::Blocked(_) => panic!("{shown} blocks"),
        }
    }

    fn id(&self, word: &str) -> u32 {
        self.ids.get(word).copied().unwrap_or_else(|| number(word) as u32)
    }

    fn shown_id(&self, id: u32) -> String {
        let named = self.ids.iter().find(|(_, known)| **known == id && id > 2);
        match named {
            Some((name, _)) => name.clone(),
            None if id > 2 => "?".to_owned(),
            None => id.to_string(),
        }
    }

    /// The bytes of a value.
    fn value(&self, text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for field in text.split(',') {
            let Some((kind, arg)) = field.split_once(':') else { continue };
            let size = size_of(kind, arg);
            let mut one = match kind {
                "a" | "s" if arg != "-" => sockaddr_bytes(at_port(arg)),
                "a" | "s" | "z" | "x" => Vec::new(),
                "id" => self.id(arg).to_le_bytes().to_vec(),
                _ => (number(arg) as u32).to_le_bytes().to_vec(),
            };
            one.resize(size, 0);
            bytes.extend(one);
        }
        bytes
    }

    /// What is in `bytes`, as `text` names its fields.
    fn shown(&self, text: &str, bytes: &[u8]) -> String {
        let (mut all, mut at) = (Vec::new(), 0);
        for field in text.split(',') {
            let Some((kind, arg)) = field.split_once(':') else { continue };
            let size = size_of(kind, arg);
            let Some(part) = bytes.get(at..at + size) else { break };
            at += size;
            let n = part.iter().take(4).rev().fold(0_u32, |n, b| n << 8 | u32::from(*b));
            let value = match kind {
                "a" | "s" => shown_at(sockaddr(part)),
                "id" => self.shown_id(n),
                "x" => size.to_string(),
                "z" if part.iter().any(|b| *b != 0) => "?".to_owned(),
                "z" => size.to_string(),
                "i" => (n as i32).to_string(),
                _ => n.to_string(),
            };
            all.push(format!("{kind}:{value}"));
        }
        all.join(",")
    }

    fn send(&mut self, words: &[&str]) -> String {
        let (fd, len) = (self.fd(words[0]), number(words[1]) as usize);
        let (mut to, mut control) = (None, Vec::new());
        let more = words.last() == Some(&"more");
        for pair in words[2..words.len() - usize::from(more)].chunks(2) {
            let ty = match pair[0] {
                "to" => {
                    to = Some(Name::Inet(at_port(pair[1])));
                    continue;
                }
                "init" => SCTP_INIT,
                "sndrcv" => SCTP_SNDRCV,
                "sndinfo" => SCTP_SNDINFO,
                "prinfo" => SCTP_PRINFO,
                "dstaddr" => SCTP_DSTADDRV4,
                other => panic!("{other}"),
            };
            control.push(Control { level: IPPROTO_SCTP, ty, data: self.value(pair[1]).into() });
        }
        let data = vec![Piece::zeros(len)];
        let flags = MSG_NOSIGNAL | if more { MSG_MORE } else { 0 };
        let call = Call::Send { fd, kind: SendKind::Sendmsg, data, flags, to, control };
        let reply = self.call(call);
        assert!(!reply.sigpipe, "MSG_NOSIGNAL");
        outcome(&reply)
    }

    fn recv(&mut self, words: &[&str]) -> String {
        let (fd, len) = (self.fd(words[0]), number(words[1]) as usize);
        let (mut flags, mut control_len) = (0, 1_024);
        match words.get(2) {
            Some(&"peek") => flags = MSG_PEEK,
            Some(&"room") => control_len = number(words[3]) as usize,
            _ => {}
        }
        let rooms = vec![Room::new(len)];
        let reply = self.call(Call::Recv { fd, kind: RecvKind::Recvmsg, rooms, flags, control_len });
        let mut out = outcome(&reply);
        if reply.errno.is_some() {
            return out;
        }
        for (flag, name) in [(MSG_EOR, " eor"), (MSG_CTRUNC, " ctrunc")] {
            out += if reply.msg_flags & flag != 0 { name } else { "" };
        }
        if let Some(addr) = reply.addr {
            out += &format!(" from:{}", shown_at(Some(addr)));
        }
        if reply.msg_flags & MSG_NOTIFICATION != 0 {
            return out + &self.notification(&reply.data);
        }
        for c in &reply.control {
            out += &self.control(c);
        }
        out
    }

    fn control(&self, c: &Control) -> String {
        let (name, of, fields) = match c.ty {
            SCTP_RCVINFO => (
                "rcvinfo",
                "sctp_rcvinfo",
                &["rcv_sid", "rcv_ssn", "rcv_flags", "rcv_ppid", "rcv_context", "rcv_assoc_id"][..],
            ),
            SCTP_NXTINFO => (
                "nxtinfo",
                "sctp_nxtinfo",
                &["nxt_sid", "nxt_flags", "nxt_ppid", "nxt_length", "nxt_assoc_id"][..],
            ),
            _ => (
                "sndrcv",
                "sctp_sndrcvinfo",
                &[
                    "sinfo_stream",
                    "sinfo_ssn",
                    "sinfo_flags",
                    "sinfo_ppid",
                    "sinfo_context",
                    "sinfo_timetolive",
                    "sinfo_assoc_id",
                ][..],
            ),
        };
        format!(" {name}:{}", self.fields(of, fields, &c.data))
    }

    /// Numbers of a structure; the last is an identifier.
    fn fields(&self, of: &str, fields: &[&str], bytes: &[u8]) -> String {
        let of = layout(of).expect("a structure");
        let n = |field: &str| of.number(bytes, field);
        let (last, rest) = fields.split_last().expect("an identifier");
        let mut all: Vec<String> = rest.iter().map(|field| n(field).to_string()).collect();
        all.push(self.shown_id(n(last) as u32));
        all.join(",")
    }

    fn notification(&self, bytes: &[u8]) -> String {
        if bytes.len() < 8 {
            return String::new();
        }
        let ty = i32::from(u16::from_le_bytes([bytes[0], bytes[1]]));
        let flags = u16::from_le_bytes([bytes[2], bytes[3]]);
        let length = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let n = |of: &str, field: &str| layout(of).expect("a structure").number(bytes, field);
        let id = |of: &str, field: &str| self.shown_id(n(of, field) as u32);
        let mut out = match ty {
            SCTP_ASSOC_CHANGE => {
                let of = "sctp_assoc_change";
                format!(
                    " assoc state:{} error:{} out:{} in:{} id:{}",
                    n(of, "sac_state"),
                    n(of, "sac_error"),
                    n(of, "sac_outbound_streams"),
                    n(of, "sac_inbound_streams"),
                    id(of, "sac_assoc_id")
                )
            }
            SCTP_SHUTDOWN_EVENT => format!(" shutdown id:{}", id("sctp_shutdown_event", "sse_assoc_id")),
            SCTP_SENDER_DRY_EVENT => {
                format!(" dry id:{}", id("sctp_sender_dry_event", "sender_dry_assoc_id"))
            }
            SCTP_ADAPTATION_INDICATION => {
                let of = "sctp_adaptation_event";
                format!(" adaptation:{} id:{}", n(of, "sai_adaptation_ind"), id(of, "sai_assoc_id"))
            }
            SCTP_SEND_FAILED => self.failed("failed", "sctp_send_failed", bytes),
            SCTP_SEND_FAILED_EVENT => self.failed("failed_event", "sctp_send_failed_event", bytes),
            SCTP_PEER_ADDR_CHANGE => {
                let of = "sctp_paddr_change";
                let addr = layout(of).and_then(|l| l.address(bytes, "spc_aaddr"));
                let (state, error) = (n(of, "spc_state"), n(of, "spc_error"));
                let (addr, id) = (shown_at(addr), id(of, "spc_assoc_id"));
                format!(" address:{addr} state:{state} error:{error} id:{id}")
            }
            other => format!(" type:{other:x}"),
        };
        if length as usize != bytes.len() || flags != 0 {
            out += &format!(" length:{length}");
        }
        out
    }

    fn failed(&self, name: &str, of: &str, bytes: &[u8]) -> String {
        let of = layout(of).expect("a structure");
        let n = |field| of.number(bytes, field);
        let (at, inner, fields) = match name {
            "failed" => (
                "ssf_info",
                "sctp_sndrcvinfo",
                &[
                    "sinfo_stream",
                    "sinfo_flags",
                    "sinfo_ppid",
                    "sinfo_context",
                    "sinfo_timetolive",
                    "sinfo_assoc_id",
                ][..],
            ),
            _ => (
                "ssfe_info",
                "sctp_sndinfo",
                &["snd_sid", "snd_flags", "snd_ppid", "snd_context", "snd_assoc_id"][..],
            ),
        };
        let (at, size) = of.field(at).expect("a field");
        let info = self.fields(inner, fields, &bytes[at..at + size]);
        let (info, id) = info.rsplit_once(',').expect("an identifier");
        let whose = self.shown_id(n("ssf_assoc_id") as u32);
        format!(" {name} flags:{} error:{} info:{info} id:{id}{whose}", n("ssf_flags"), n("ssf_error"))
    }

    fn get(&mut self, words: &[&str]) -> String {
        let (fd, name) = (self.fd(words[0]), option(words[1]));
        let value = Bytes::from(self.value(words[2]));
        let reply = self.call(Call::GetsockoptIn { fd, level: SOL_SCTP, name, value });
        if reply.errno.is_some() {
            return outcome(&reply);
        }
        format!("{} ({})", self.shown(words[2], &reply.value), reply.value.len())
    }

    /// Names the associations in the order of the list.
    fn list(&mut self, words: &[&str]) -> String {
        let fd = self.fd(words[0]);
        let value = vec![0; 108].into();
        let call = Call::GetsockoptIn { fd, level: SOL_SCTP, name: SCTP_GET_ASSOC_ID_LIST, value };
        let reply = self.call(call);
        if reply.errno.is_some() {
            return outcome(&reply);
        }
        let all: Vec<u32> = reply.value.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
        for (word, id) in words[1..].iter().zip(&all[1..]) {
            self.ids.insert((*word).to_owned(), *id);
        }
        all[0].to_string()
    }

    fn poll(&mut self, fd: Fd) -> String {
        const BITS: [(i32, &str); 6] = [
            (POLLIN, "IN"),
            (POLLPRI, "PRI"),
            (POLLOUT, "OUT"),
            (POLLERR, "ERR"),
            (POLLHUP, "HUP"),
            (POLLRDHUP, "RDHUP"),
        ];
        let bits = i32::from(self.call(pollfd(fd, 0x7fff, 0)).revents[0]);
        let set: Vec<&str> = BITS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
        if set.is_empty() { "0".to_owned() } else { set.join("|") }
    }

    /// A call that makes a descriptor, which gets a name and does not block.
    fn opened(&mut self, call: Call, name: &str) -> String {
        let reply = self.call(call);
        if reply.errno.is_some() {
            return outcome(&reply);
        }
        let fd = reply.ret as Fd;
        self.fds.insert(name.to_owned(), fd);
        self.call(Call::Fcntl { fd, cmd: F_SETFL, arg: O_NONBLOCK.into() });
        "0".to_owned()
    }

    fn setting(&mut self, fd: Fd, level: i32, name: i32, value: Vec<u8>) -> String {
        let value = Optval::Bytes(value.into());
        let reply = self.call(Call::Setsockopt { fd, level, name, value });
        outcome(&reply)
    }

    fn step(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let (verb, args) = (words[0], &words[1..]);
        let fd = args.first().map_or(-1, |word| self.fd(word));
        let arg = |n: usize| args.get(n).copied().unwrap_or_default();
        let int = |n: usize| number(arg(n)) as i32;
        let plain = match verb {
            "socket" => {
                let ty = if arg(1).starts_with("many") { SOCK_SEQPACKET } else { SOCK_STREAM };
                let domain = if arg(1).ends_with('6') { AF_INET6 } else { AF_INET };
                let call = Call::Socket { domain, ty, protocol: IPPROTO_SCTP };
                return self.opened(call, arg(0));
            }
            "accept" => return self.opened(Call::Accept { fd, flags: 0 }, arg(1)),
            "peeloff" => {
                let mut value = self.id(arg(1)).to_le_bytes().to_vec();
                value.resize(8, 0);
                let (level, name) = (SOL_SCTP, SCTP_SOCKOPT_PEELOFF);
                return self.opened(Call::GetsockoptIn { fd, level, name, value: value.into() }, arg(2));
            }
            "send" => return self.send(args),
            "recv" => return self.recv(args),
            "get" => return self.get(args),
            "ids" => return self.list(args),
            "poll" => return self.poll(fd),
            "set" => {
                let value = self.value(arg(2));
                return self.setting(fd, SOL_SCTP, option(arg(1)), value);
            }
            "set6" => {
                let value = self.value(arg(2));
                return self.setting(fd, SOL_IPV6, option(arg(1)), value);
            }
            "connectx" => {
                let value = Optval::Bytes(self.value(arg(2)).into());
                let (level, name) = (SOL_SCTP, SCTP_SOCKOPT_CONNECTX);
                let reply = self.call(Call::Setsockopt { fd, level, name, value });
                if reply.ret > 2 {
                    self.ids.insert(arg(1).to_owned(), reply.ret as u32);
                    return arg(1).to_owned();
                }
                return outcome(&reply);
            }
            "connectx3" => {
                let addresses = self.value(arg(2));
                let mut value = vec![0; 4];
                value.extend((addresses.len() as u32).to_le_bytes());
                value.extend(addresses);
                value.resize(value.len().max(16), 0);
                let name = SCTP_SOCKOPT_CONNECTX3;
                let reply = self.call(Call::GetsockoptIn { fd, level: SOL_SCTP, name, value: value.into() });
                let Some(id) = reply.value.first_chunk::<4>() else { return outcome(&reply) };
                self.ids.insert(arg(1).to_owned(), u32::from_le_bytes(*id));
                return format!("{} {}", outcome(&reply), arg(1));
            }
            "error" => {
                let reply = self.call(get(fd, SOL_SOCKET, SO_ERROR, 4));
                let error = reply.int().expect("a number");
                return Errno::from_number(error).map_or_else(|| "0".to_owned(), |e| e.name().to_owned());
            }
            "linger" => {
                let value = [1_i32.to_le_bytes(), int(1).to_le_bytes()].concat();
                return self.setting(fd, SOL_SOCKET, SO_LINGER, value);
            }
            "sleep" => {
                self.net.run(Duration::from_millis(int(0) as u64));
                return "0".to_owned();
            }
            "sockname" | "peername" => {
                let call =
                    if verb == "sockname" { Call::Getsockname { fd } } else { Call::Getpeername { fd } };
                let reply = self.call(call);
                return if reply.errno.is_some() { outcome(&reply) } else { shown_at(reply.addr) };
            }
            "bind" => Call::Bind { fd, addr: Name::Inet(at_port(arg(1))) },
            "listen" => Call::Listen { fd, backlog: int(1) },
            "connect" => Call::Connect { fd, addr: Name::Inet(at_port(arg(1))) },
            "shutdown" => Call::Shutdown { fd, how: int(1) },
            "close" => Call::Close { fd },
            other => panic!("{other}"),
        };
        let reply = self.call(plain);
        outcome(&reply)
    }

    /// Nothing is left when all is closed.
    fn end(&mut self) {
        let fds: Vec<Fd> = self.net.a.open_fds().collect();
        for fd in fds {
            self.call(Call::Close { fd });
        }
        self.net.run(Duration::from_secs(1_000));
        assert_eq!(self.net.a.stack().open_sockets(), 0);
    }
}

fn option(word: &str) -> i32 {
    abi::constant(word).map_or_else(|| number(word) as i32, |value| value as i32)
}

#[test]
fn calls_in_a_row_answer_what_the_kernel_answers() {
    let (mut wrong, mut differs) = (Vec::new(), BTreeSet::new());
    let mut title = "";
    let mut scene = Scene::new();
    for line in KERNEL.lines() {
        if let Some(next) = line.strip_prefix("# ") {
            scene.end();
            (title, scene) = (next, Scene::new());
            continue;
        }
        let (step, kernel) = line.split_once(" -> ").expect("a call and its answer");
        let ours = scene.step(step);
        let unnamed = UNNAMED.iter().any(|t| title.starts_with(t));
        let named = |text: &str| match unnamed {
            true => text.replace("id:??", "id:00").replace("id:?", "id:0"),
            false => text.to_owned(),
        };
        let (ours, kernel) = (named(&ours), &named(kernel)[..]);
        let meant = DIFFERENT
            .iter()
            .position(|(t, s, k, o, _)| title.starts_with(t) && *s == step && *k == kernel && *o == ours);
        differs.extend(meant);
        if ours != kernel && meant.is_none() {
            wrong.push(format!("{title}\n  {step}\n    kernel: {kernel}\n    ours:   {ours}"));
        }
    }
    scene.end();
    assert!(wrong.is_empty(), "{} of {} lines:\n{}", wrong.len(), KERNEL.lines().count(), wrong.join("\n"));
    assert_eq!(differs.len(), DIFFERENT.len(), "what is listed differs somewhere");
}
