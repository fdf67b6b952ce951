//! SCTP sockets that run out of descriptors, room or partners, and what they tell of themselves.
use crate::support::sctp::*;
use crate::support::*;
use bytes::Bytes;
use core::net::IpAddr;
use lowwater_core::base::Duration;
use lowwater_posix::abi::*;
use lowwater_posix::sctp::layout::{sockaddr, sockaddr_bytes};
use lowwater_posix::{Call, Errno, Fd, Host, Name, Optval, Piece, SendKind};

fn peeloff(fd: Fd, name: i32, assoc: u32, room: usize) -> Call {
    let mut value = assoc.to_le_bytes().to_vec();
    value.resize(room, 0);
    Call::GetsockoptIn { fd, level: SOL_SCTP, name, value: value.into() }
}

fn number(host: &mut Host, fd: Fd, name: i32) -> i32 {
    done(host, get(fd, SOL_SOCKET, name, 4)).int().expect("a number")
}

fn send_to(fd: Fd, port: u16, len: usize) -> Call {
    let (data, to) = (vec![Piece::zeros(len)], Some(Name::Inet(at(B, port))));
    Call::Send { fd, kind: SendKind::Sendto, data, flags: 0, to, control: Vec::new() }
}

#[test]
fn without_a_descriptor_accept_leaves_the_association_where_it_is() {
    let mut net = Net::new();
    let listener = socket(&mut net.b, SOCK_STREAM);
    ok(&mut net.b, bind(listener, B, PORT));
    ok(&mut net.b, Call::Listen { fd: listener, backlog: 5 });
    let a = joined(&mut net);
    let mut last = 0;
    while net.b.open_fds().count() < 1_024 {
        last = socket(&mut net.b, SOCK_STREAM);
    }
    let accept = Call::Accept { fd: listener, flags: 0 };
    assert_eq!(fails(&mut net.b, accept.clone()).name(), "EMFILE");
    net.run(SOON);
    ok(&mut net.b, Call::Close { fd: last });
    let b = ok(&mut net.b, accept);
    ok(&mut net.a, send(a, &[1; 10], 0));
    net.run(SOON);
    assert_eq!(done(&mut net.b, recv(b, 100, 0)).ret, 10);
    end(&mut net);
}

/// `sctp_sendmsg` frees the association that it has made.
#[test]
fn a_message_that_is_refused_leaves_no_association() {
    for ty in [SOCK_STREAM, SOCK_SEQPACKET] {
        let mut net = Net::new();
        let (hub, _) = star(&mut net, 0);
        let fd = socket(&mut net.a, ty);
        option(&mut net.a, fd, SCTP_DISABLE_FRAGMENTS, vec![1, 0, 0, 0]);
        assert_eq!(fails(&mut net.a, send_to(fd, PORT, 3_000)).name(), "EMSGSIZE");
        assert!(net.a.sent().is_none(), "nothing leaves");
        assert_eq!(net.a.stack().open_sockets(), 0);
        net.run(SOON);
        assert_eq!(ids(&mut net.b, hub), []);
        let id = blocks(&mut net.a, send_to(fd, PORT, 1_000));
        assert_eq!(over(&mut net, id, SOON).map(|reply| reply.ret), Some(1_000));
        end(&mut net);
    }
}

#[test]
fn what_waits_is_not_judged_again() {
    let mut net = Net::new();
    star(&mut net, 0);
    let fd = socket(&mut net.a, SOCK_SEQPACKET);
    let id = blocks(&mut net.a, send_to(fd, PORT, 5_000));
    ok(&mut net.a, setint(fd, SOL_SOCKET, SO_SNDBUF, 2_304));
    assert_eq!(over(&mut net, id, SOON).map(|reply| reply.ret), Some(5_000));
    end(&mut net);
}

#[test]
fn nothing_is_peeled_off_under_a_sender_who_waits() {
    let mut net = Net::new();
    let (hub, points) = star(&mut net, 1);
    let id = ids(&mut net.b, hub)[0];
    while done(&mut net.b, to_one(hub, id, 10_000, MSG_DONTWAIT)).errno.is_none() {}
    let sender = blocks(&mut net.b, to_one(hub, id, 10_000, 0));
    let call = peeloff(hub, SCTP_SOCKOPT_PEELOFF, id, 8);
    assert_eq!(fails(&mut net.b, call.clone()).name(), "EBUSY");
    for _ in 0..100 {
        net.run(Duration::from_millis(50));
        done(&mut net.a, recv(points[0], 100_000, MSG_DONTWAIT));
    }
    assert_eq!(finished(&mut net.b, sender).ret, 10_000);
    ok(&mut net.b, call);
    end(&mut net);
}

#[test]
fn what_is_peeled_off_is_told_in_the_whole_structure_or_not_at_all() {
    let mut net = Net::new();
    let (hub, _points) = star(&mut net, 2);
    let both = ids(&mut net.b, hub);
    for (name, size) in [(SCTP_SOCKOPT_PEELOFF, 8), (SCTP_SOCKOPT_PEELOFF_FLAGS, 12)] {
        let id = both[usize::from(size == 12)];
        for room in [4, 7, size - 1] {
            assert_eq!(fails(&mut net.b, peeloff(hub, name, id, room)).name(), "EINVAL", "{name} {room}");
        }
        assert!(ids(&mut net.b, hub).contains(&id));
        let reply = done(&mut net.b, peeloff(hub, name, id, 20));
        let told = [id.to_le_bytes(), (reply.ret as u32).to_le_bytes(), [0; 4]].concat();
        assert_eq!(reply.value, told[..size]);
    }
    end(&mut net);
}

/// A reader who trusts the number of identifiers reads no further than what was written.
#[test]
fn identifiers_are_told_all_or_none() {
    let mut net = Net::new();
    let (hub, _points) = star(&mut net, 2);
    let list = |room: usize| {
        let (name, value) = (SCTP_GET_ASSOC_ID_LIST, vec![0; room].into());
        Call::GetsockoptIn { fd: hub, level: SOL_SCTP, name, value }
    };
    for room in [4, 8, 11] {
        assert_eq!(fails(&mut net.b, list(room)).name(), "EINVAL", "{room}");
    }
    assert_eq!(done(&mut net.b, list(12)).value.len(), 12);
    end(&mut net);
}

/// `sctp_init_sock` takes those of the system for every socket, not TCP's.
#[test]
fn buffers_have_one_size_in_every_state() {
    let mut net = Net::new();
    let (hub, points) = star(&mut net, 1);
    let fresh = socket(&mut net.a, SOCK_STREAM);
    let told = |host: &mut Host, fd: Fd| [SO_SNDBUF, SO_RCVBUF].map(|name| number(host, fd, name));
    let first = told(&mut net.a, fresh);
    assert_eq!(first, [212_992; 2]);
    assert_eq!([told(&mut net.a, points[0]), told(&mut net.b, hub)], [first; 2]);
    for fd in [fresh, points[0]] {
        // No more than a number (there is no `set_rcvlowat`), and what is TCP's is nobody else's.
        ok(&mut net.a, setint(fd, SOL_SOCKET, SO_RCVLOWAT, 1_000_000));
        assert_eq!(number(&mut net.a, fd, SO_RCVLOWAT), 1_000_000);
        assert_eq!(told(&mut net.a, fd), first);
        for name in [SO_PEEK_OFF, SO_TXREHASH] {
            assert_eq!(fails(&mut net.a, setint(fd, SOL_SOCKET, name, 1)).name(), "EOPNOTSUPP");
            assert_eq!(fails(&mut net.a, get(fd, SOL_SOCKET, name, 4)).name(), "EOPNOTSUPP");
        }
    }
    end(&mut net);
}

/// `sctp_ioctl`.
#[test]
fn fionread_is_the_length_of_the_next_message() {
    let mut net = Net::new();
    let (a, b) = pair(&mut net);
    let ioctl = |fd, request: i32| Call::Ioctl { fd, request: request as u64, arg: Some(0) };
    assert_eq!(done(&mut net.b, ioctl(b, FIONREAD)).int(), Some(0));
    for len in [10, 20] {
        ok(&mut net.a, send(a, &vec![1; len], 0));
    }
    net.run(SOON);
    for len in [10, 20] {
        assert_eq!(done(&mut net.b, ioctl(b, FIONREAD)).int(), Some(len));
        assert_eq!(done(&mut net.b, recv(b, 100, 0)).ret, i64::from(len));
    }
    assert_eq!(fails(&mut net.b, ioctl(b, SIOCOUTQ)).name(), "ENOTTY");
    let listener = socket(&mut net.b, SOCK_STREAM);
    ok(&mut net.b, Call::Listen { fd: listener, backlog: 1 });
    assert_eq!(fails(&mut net.b, ioctl(listener, FIONREAD)).name(), "ENOTCONN");
    end(&mut net);
}

#[test]
fn who_is_bound_to_any_address_has_all_of_his_families() {
    let mut net = Net::new();
    let locals = |host: &mut Host, fd: Fd| {
        let (name, value) = (SCTP_GET_LOCAL_ADDRS, vec![0; 1_000].into());
        let bytes = done(host, Call::GetsockoptIn { fd, level: SOL_SCTP, name, value }).value;
        let mut rest = &bytes[8..];
        let mut all = Vec::new();
        while let Some(addr) = sockaddr(rest) {
            rest = &rest[sockaddr_bytes(addr).len()..];
            all.push((addr.ip().to_canonical(), addr.port()));
        }
        assert_eq!(bytes[4..8], (all.len() as u32).to_le_bytes());
        all
    };
    for (domain, any, addrs) in
        [(AF_INET, "0.0.0.0", &["127.0.0.1", A][..]), (AF_INET6, "::", &["127.0.0.1", "::1", A, A6][..])]
    {
        let fd = ok(&mut net.a, Call::Socket { domain, ty: SOCK_STREAM, protocol: IPPROTO_SCTP });
        ok(&mut net.a, bind(fd, any, 7));
        let wanted: Vec<(IpAddr, u16)> = addrs.iter().map(|ip| (at(ip, 7).ip(), 7)).collect();
        assert_eq!(locals(&mut net.a, fd), wanted);
        ok(&mut net.a, Call::Close { fd });
    }
}

/// An AF_INET socket has no IPv6, and with IPV6_V6ONLY the other has no IPv4, in whatever call the address stands.
#[test]
fn addresses_of_a_family_that_a_socket_does_not_speak_are_refused() {
    let mut net = Net::new();
    let one = |ip: &str| Optval::Bytes(Bytes::from(sockaddr_bytes(at(ip, 9))));
    for (domain, strange, own) in [(AF_INET, B6, B), (AF_INET6, B, B6)] {
        let fd = ok(&mut net.a, Call::Socket { domain, ty: SOCK_SEQPACKET, protocol: IPPROTO_SCTP });
        if domain == AF_INET6 {
            ok(&mut net.a, setint(fd, SOL_IPV6, IPV6_V6ONLY, 1));
        }
        for name in [SCTP_SOCKOPT_CONNECTX, SCTP_SOCKOPT_BINDX_ADD] {
            let value = one(strange);
            let call = Call::Setsockopt { fd, level: SOL_SCTP, name, value };
            assert_eq!(fails(&mut net.a, call).name(), "EINVAL");
        }
        assert_eq!(net.a.stack().open_sockets(), 0);
        ok(&mut net.a, Call::Fcntl { fd, cmd: F_SETFL, arg: O_NONBLOCK.into() });
        let call = Call::Setsockopt { fd, level: SOL_SCTP, name: SCTP_SOCKOPT_CONNECTX, value: one(own) };
        assert_eq!(fails(&mut net.a, call).name(), "EINPROGRESS");
        ok(&mut net.a, Call::Close { fd });
    }
    net.run(Duration::from_secs(1_000));
}

/// A listener at any address has those of its own family alone, and an AF_INET6 one those of both unless IPV6_V6ONLY.
#[test]
fn a_listener_at_any_address_takes_peers_of_its_family() {
    for (domain, only, takes) in
        [(AF_INET, false, [true, false]), (AF_INET6, false, [true, true]), (AF_INET6, true, [false, true])]
    {
        let mut net = Net::new();
        let listener = ok(&mut net.b, Call::Socket { domain, ty: SOCK_STREAM, protocol: IPPROTO_SCTP });
        if only {
            ok(&mut net.b, setint(listener, SOL_IPV6, IPV6_V6ONLY, 1));
        }
        ok(&mut net.b, bind(listener, if domain == AF_INET { "0.0.0.0" } else { "::" }, PORT));
        ok(&mut net.b, Call::Listen { fd: listener, backlog: 5 });
        for (domain, ip, taken) in [(AF_INET, B, takes[0]), (AF_INET6, B6, takes[1])] {
            let fd = ok(&mut net.a, Call::Socket { domain, ty: SOCK_STREAM, protocol: IPPROTO_SCTP });
            let id = blocks(&mut net.a, connect(fd, ip, PORT));
            let reply = over(&mut net, id, SOON).expect("an answer");
            let wanted = if taken { None } else { Some("ECONNREFUSED") };
            assert_eq!(reply.errno.map(|e| e.name()), wanted, "{only} {ip}");
        }
        end(&mut net);
    }
}

/// `sctp_bind_addr_conflict`: with IPV6_V6ONLY a socket of each family is at any address of one port, in either order.
#[test]
fn two_listeners_of_different_families_share_a_port() {
    let all = [(AF_INET, false, "0.0.0.0"), (AF_INET6, true, "::"), (AF_INET6, false, "::")];
    let open = |net: &mut Net, (domain, only, ip): (i32, bool, &str)| {
        let fd = ok(&mut net.b, Call::Socket { domain, ty: SOCK_STREAM, protocol: IPPROTO_SCTP });
        if only {
            ok(&mut net.b, setint(fd, SOL_IPV6, IPV6_V6ONLY, 1));
        }
        let bound = done(&mut net.b, bind(fd, ip, PORT));
        (fd, bound.errno.map(|e| e.name()))
    };
    for (first, second, taken) in
        [(0, 1, false), (1, 0, false), (0, 2, true), (2, 0, true), (1, 2, true), (2, 1, true), (0, 0, true)]
    {
        let mut net = Net::new();
        let (one, _) = open(&mut net, all[first]);
        ok(&mut net.b, Call::Listen { fd: one, backlog: 5 });
        let (other, errno) = open(&mut net, all[second]);
        assert_eq!(errno, taken.then_some("EADDRINUSE"), "{first} {second}");
        if !taken {
            ok(&mut net.b, Call::Listen { fd: other, backlog: 5 });
            for (domain, ip, fd) in [(AF_INET, B, 0), (AF_INET6, B6, 1)] {
                let client = ok(&mut net.a, Call::Socket { domain, ty: SOCK_STREAM, protocol: IPPROTO_SCTP });
                let id = blocks(&mut net.a, connect(client, ip, PORT));
                assert_eq!(over(&mut net, id, SOON).expect("an answer").ret, 0);
                let listener = if fd == first { one } else { other };
                ok(&mut net.b, Call::Accept { fd: listener, flags: 0 });
            }
        }
        end(&mut net);
    }
}

/// `inet_create`: of SOCK_SEQPACKET it is the one protocol.
#[test]
fn who_names_no_protocol_for_seqpacket_has_sctp() {
    let mut host = host(A, A6);
    for domain in [AF_INET, AF_INET6] {
        let fd = ok(&mut host, Call::Socket { domain, ty: SOCK_SEQPACKET, protocol: 0 });
        let told = |host: &mut Host, name| done(host, get(fd, SOL_SOCKET, name, 4)).int();
        assert_eq!(told(&mut host, SO_PROTOCOL), Some(IPPROTO_SCTP));
        assert_eq!(told(&mut host, SO_TYPE), Some(SOCK_SEQPACKET));
        let tcp = Call::Socket { domain, ty: SOCK_SEQPACKET, protocol: IPPROTO_TCP };
        assert_eq!(fails(&mut host, tcp), Errno::EPROTONOSUPPORT);
    }
}
