//! SCTP sockets in what a table of calls cannot show: what blocks, what is bounded, what leaks nothing.
use crate::support::sctp::*;
use crate::support::*;
use bytes::Bytes;
use lowwater_core::base::Duration;
use lowwater_posix::abi::*;
use lowwater_posix::{Call, Fd, Name, Optval, Piece, SendKind};

#[test]
fn associations_that_end_leave_nothing_on_a_socket_that_nobody_reads() {
    let mut net = Net::new();
    let (hub, _) = star(&mut net, 0);
    for _ in 0..50 {
        let fd = joined(&mut net);
        ok(
            &mut net.a,
            Call::Setsockopt {
                fd,
                level: SOL_SOCKET,
                name: SO_LINGER,
                value: Optval::Bytes(Bytes::from_static(&[1, 0, 0, 0, 0, 0, 0, 0])),
            },
        );
        ok(&mut net.a, Call::Close { fd });
        net.run(SOON);
    }
    assert_eq!((net.b.stack().open_sockets(), ids(&mut net.b, hub).len()), (1, 0), "the listener");
    assert_eq!(revents(&mut net.b, hub), POLLOUT | POLLWRNORM);
    end(&mut net);
}

#[test]
fn what_ended_associations_leave_to_be_read_is_bounded_and_counted() {
    let mut net = Net::new();
    let (hub, _) = star(&mut net, 0);
    ok(&mut net.b, setint(hub, SOL_SOCKET, SO_RCVBUF, 10_000));
    for _ in 0..40 {
        let fd = joined(&mut net);
        ok(&mut net.a, send(fd, &[7; 1_000], 0));
        ok(&mut net.a, Call::Close { fd });
        net.run(Duration::from_secs(1));
    }
    let mut read = 0;
    while done(&mut net.b, recv(hub, 2_000, MSG_DONTWAIT)).ret == 1_000 {
        read += 1;
    }
    let dropped = net.b.unread_dropped();
    assert!((10..=20).contains(&read) && read + dropped == 40, "{read} read, {dropped} dropped");
    end(&mut net);
}

#[test]
fn a_reader_that_blocks_hears_of_shutdown_and_of_its_completion() {
    let mut net = Net::new();
    let (hub, points) = star(&mut net, 1);
    for ty in [SCTP_ASSOC_CHANGE, SCTP_SHUTDOWN_EVENT] {
        let value = [&2_u32.to_le_bytes()[..], &(ty as u16).to_le_bytes(), &[1, 0]].concat();
        option(&mut net.b, hub, SCTP_EVENT, value);
    }
    let first = blocks(&mut net.b, recv(hub, 100, 0));
    ok(&mut net.a, Call::Shutdown { fd: points[0], how: SHUT_WR });
    net.run(DELAY);
    let first = finished(&mut net.b, first);
    assert_eq!((first.ret, &first.data[..2]), (12, &(SCTP_SHUTDOWN_EVENT as u16).to_le_bytes()[..]));
    // A round trip before the end it is still there.
    assert_eq!(ids(&mut net.b, hub).len(), 1);
    let second = blocks(&mut net.b, recv(hub, 100, 0));
    net.run(SOON);
    let second = finished(&mut net.b, second);
    assert_eq!((second.ret, second.data[8]), (20, SCTP_SHUTDOWN_COMP as u8));
    assert_eq!(ids(&mut net.b, hub).len(), 0);
    end(&mut net);
}

#[test]
fn a_one_to_many_socket_can_be_written_to_unless_every_association_is_full() {
    let mut net = Net::new();
    let (hub, _points) = star(&mut net, 2);
    let both = ids(&mut net.b, hub);
    let writable = |net: &mut Net| revents(&mut net.b, hub) & POLLOUT != 0;
    for (n, id) in both.iter().enumerate() {
        assert!(writable(&mut net), "{n} of 2 are full");
        while done(&mut net.b, to_one(hub, *id, 10_000, MSG_DONTWAIT)).errno.is_none() {}
    }
    assert!(!writable(&mut net), "a loop of poll() and EAGAIN");
    end(&mut net);
}

#[test]
fn peeling_off_needs_a_descriptor_first() {
    let mut net = Net::new();
    let (hub, _points) = star(&mut net, 1);
    let id = ids(&mut net.b, hub)[0];
    let mut last = 0;
    while net.b.open_fds().count() < 1_024 {
        last = socket(&mut net.b, SOCK_STREAM);
    }
    let value = Bytes::copy_from_slice(&u64::from(id).to_le_bytes());
    let call = Call::GetsockoptIn { fd: hub, level: SOL_SCTP, name: SCTP_SOCKOPT_PEELOFF, value };
    assert_eq!(fails(&mut net.b, call.clone()).name(), "EMFILE");
    assert_eq!(ids(&mut net.b, hub), [id], "it stays where it was");
    ok(&mut net.b, Call::Close { fd: last });
    ok(&mut net.b, call);
    assert_eq!(ids(&mut net.b, hub), []);
    end(&mut net);
}

#[test]
fn what_is_peeled_off_takes_along_what_was_read_in_part() {
    let mut net = Net::new();
    let (hub, points) = star(&mut net, 1);
    ok(&mut net.a, send(points[0], &[1; 100], 0));
    net.run(SOON);
    assert_eq!(done(&mut net.b, recv(hub, 60, MSG_PEEK)).ret, 60);
    assert_eq!(done(&mut net.b, recv(hub, 60, 0)).ret, 60);
    let id = ids(&mut net.b, hub)[0];
    let value = Bytes::copy_from_slice(&u64::from(id).to_le_bytes());
    let call = Call::GetsockoptIn { fd: hub, level: SOL_SCTP, name: SCTP_SOCKOPT_PEELOFF, value };
    let own = done(&mut net.b, call).ret as Fd;
    assert_eq!(done(&mut net.b, recv(hub, 60, MSG_DONTWAIT)).ret, -1);
    let rest = done(&mut net.b, recvmsg(own, 100, 0, 0));
    assert_eq!((rest.ret, rest.msg_flags), (40, MSG_EOR));
    end(&mut net);
}

/// RFC 6458 section 8.1.20, level 0: between the parts of a message comes nothing of another association.
#[test]
fn parts_of_a_message_do_not_alternate_with_another_associations() {
    for interleave in [0, 1] {
        let mut net = Net::new();
        let (hub, points) = star(&mut net, 2);
        option(&mut net.b, hub, SCTP_PARTIAL_DELIVERY_POINT, 4_000_u32.to_le_bytes().to_vec());
        option(&mut net.b, hub, SCTP_FRAGMENT_INTERLEAVE, vec![interleave, 0, 0, 0]);
        ok(&mut net.a, send(points[0], &[1; 60_000], 0));
        // Some of it has come.
        net.run(Duration::from_millis(25));
        let part = done(&mut net.b, recvmsg(hub, 100_000, 0, 0));
        assert!(part.ret >= 4_000 && part.ret < 60_000 && part.msg_flags & MSG_EOR == 0, "{}", part.ret);
        ok(&mut net.a, send(points[1], &[2; 10], 0));
        net.run(DELAY + Duration::from_millis(1));
        let (mut others, mut own) = (0, part.ret);
        for _ in 0..200 {
            let next = done(&mut net.b, recvmsg(hub, 100_000, MSG_DONTWAIT, 0));
            if next.ret == 10 {
                others += 1;
                break;
            }
            own += next.ret.max(0);
            net.run(Duration::from_millis(1));
        }
        let whole = own == 60_000;
        assert_eq!((others, whole), (1, interleave == 0), "level {interleave}: {own} bytes before the other");
        end(&mut net);
    }
}

#[test]
fn connectx_tells_the_identifier_when_it_has_blocked() {
    let mut net = Net::new();
    let (_, _) = star(&mut net, 0);
    let fd = socket(&mut net.a, SOCK_SEQPACKET);
    let value = Optval::Bytes(lowwater_posix::sctp::layout::sockaddr_bytes(at(B, PORT)).into());
    let name = SCTP_SOCKOPT_CONNECTX;
    let id = blocks(&mut net.a, Call::Setsockopt { fd, level: SOL_SCTP, name, value });
    let reply = over(&mut net, id, SOON).expect("it is connected");
    assert_eq!(ids(&mut net.a, fd), [reply.ret as u32]);
    end(&mut net);
}

/// `sctp_sendmsg`: the length of the message is told in any case.
#[test]
fn a_message_that_begins_an_association_waits_until_that_is_up_or_refused() {
    let mut net = Net::new();
    let (hub, _) = star(&mut net, 0);
    let fd = socket(&mut net.a, SOCK_SEQPACKET);
    for (to, connected) in [(PORT, 1), (PORT + 1, 1)] {
        let (data, to) = (vec![Piece::zeros(7)], Some(Name::Inet(at(B, to))));
        let (kind, control) = (SendKind::Sendto, Vec::new());
        let call = Call::Send { fd, kind, data, flags: 0, to, control };
        let id = blocks(&mut net.a, call.clone());
        assert!(over(&mut net, id, DELAY).is_none(), "nothing has come back");
        assert_eq!(over(&mut net, id, SOON).map(|reply| reply.ret), Some(7));
        assert_eq!(ids(&mut net.a, fd).len(), connected);
        // Once there is one nobody waits.
        if to == Some(Name::Inet(at(B, PORT))) {
            ok(&mut net.a, call);
        }
    }
    net.run(SOON);
    for _ in 0..2 {
        assert_eq!(done(&mut net.b, recv(hub, 100, 0)).ret, 7);
    }
    // Its time is SO_SNDTIMEO's.
    let timeval = [0_u64.to_le_bytes(), 5_000_u64.to_le_bytes()].concat();
    let value = Optval::Bytes(timeval.into());
    ok(&mut net.a, Call::Setsockopt { fd, level: SOL_SOCKET, name: SO_SNDTIMEO, value });
    let (data, to) = (vec![Piece::zeros(9)], Some(Name::Inet(at(B, PORT + 2))));
    let (kind, control) = (SendKind::Sendto, Vec::new());
    let id = blocks(&mut net.a, Call::Send { fd, kind, data, flags: 0, to, control });
    assert_eq!(over(&mut net, id, Duration::from_millis(6)).map(|reply| reply.ret), Some(9));
    end(&mut net);
}

#[test]
fn connect_tells_a_one_to_many_socket_why_it_failed() {
    let mut net = Net::new();
    let fd = socket(&mut net.a, SOCK_SEQPACKET);
    event(&mut net.a, fd, SCTP_ASSOC_CHANGE);
    let id = blocks(&mut net.a, connect(fd, B, PORT));
    let reply = over(&mut net, id, SOON).expect("nobody listens");
    assert_eq!(reply.errno.map(|e| e.name()), Some("ECONNREFUSED"));
    let change = done(&mut net.a, recv(fd, 100, 0));
    assert_eq!((change.ret, change.data[8]), (20, SCTP_CANT_STR_ASSOC as u8));
    assert_eq!(net.a.stack().open_sockets(), 0);
    end(&mut net);
}

#[test]
fn close_lingers_until_what_was_sent_has_arrived() {
    for (seconds, ended) in [(1, true), (10, true), (0, false)] {
        let mut net = Net::new();
        let (_hub, points) = star(&mut net, 1);
        let fd = points[0];
        let value = [u32::from(ended).to_le_bytes(), (seconds as u32).to_le_bytes()].concat();
        let value = Optval::Bytes(value.into());
        ok(&mut net.a, Call::Setsockopt { fd, level: SOL_SOCKET, name: SO_LINGER, value });
        ok(&mut net.a, send(fd, &[1; 20_000], 0));
        if ended {
            let id = blocks(&mut net.a, Call::Close { fd });
            assert!(over(&mut net, id, DELAY).is_none(), "nothing has come back");
            assert_eq!(over(&mut net, id, Duration::from_millis(900)).map(|reply| reply.ret), Some(0));
        } else {
            ok(&mut net.a, Call::Close { fd });
        }
        end(&mut net);
    }
}

#[test]
fn a_port_that_another_socket_of_sctp_has_is_not_given_away() {
    let mut net = Net::new();
    net.a.set_sysctl("net.ipv4.ip_local_port_range", "40000 40003").expect("a range");
    for _ in 0..4 {
        let fd = socket(&mut net.a, SOCK_STREAM);
        ok(&mut net.a, bind(fd, A, 0));
    }
    let fd = socket(&mut net.a, SOCK_STREAM);
    assert_eq!(fails(&mut net.a, bind(fd, A, 0)).name(), "EADDRINUSE");
    // What has none yet gets one, and the same for all of its associations.
    net.a.set_sysctl("net.ipv4.ip_local_port_range", "40000 50000").expect("a range");
    let (hub, _) = star(&mut net, 0);
    let many = socket(&mut net.a, SOCK_SEQPACKET);
    for to in [PORT, PORT + 1] {
        let (data, to) = (vec![Piece::zeros(1)], Some(Name::Inet(at(B, to))));
        let control = Vec::new();
        let flags = MSG_DONTWAIT;
        ok(&mut net.a, Call::Send { fd: many, kind: SendKind::Sendto, data, flags, to, control });
    }
    net.run(SOON);
    let from = done(&mut net.b, recv(hub, 10, 0)).addr.expect("a sender").port();
    let own = done(&mut net.a, Call::Getsockname { fd: many }).addr.expect("an address").port();
    assert_eq!(from, own);
    end(&mut net);
}

#[test]
fn a_fixed_path_mtu_holds_until_it_is_searched_again() {
    let mut net = Net::new();
    let (_hub, points) = star(&mut net, 1);
    let fd = points[0];
    let params = |flags: i32, mtu: u32| {
        let mut value = vec![0; 156];
        value[138..142].copy_from_slice(&mtu.to_le_bytes());
        value[146..150].copy_from_slice(&flags.to_le_bytes());
        value
    };
    let longest = |net: &mut Net| {
        ok(&mut net.a, send(fd, &[1; 4_000], 0));
        let (now, mut most) = (net.a.now(), 0);
        while let Some(sent) = net.a.next_packet(now) {
            most = most.max(sent.bytes.len());
            net.b.inject(sent.bytes);
        }
        net.run(Duration::from_secs(1));
        most
    };
    assert_eq!(longest(&mut net), 1_500);
    option(&mut net.a, fd, SCTP_PEER_ADDR_PARAMS, params(SPP_PMTUD_DISABLE, 1_000));
    assert_eq!(longest(&mut net), 1_000);
    option(&mut net.a, fd, SCTP_PEER_ADDR_PARAMS, params(SPP_PMTUD_ENABLE, 0));
    assert_eq!(longest(&mut net), 1_500);
    end(&mut net);
}
