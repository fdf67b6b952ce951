//! What a reader of SCTP sockets gets when associations end, stop in the middle of a message or change hands meanwhile.
use crate::support::sctp::*;
use crate::support::*;
use bytes::Bytes;
use core::net::SocketAddr;
use lowwater_core::base::Duration;
use lowwater_posix::abi::*;
use lowwater_posix::{Call, Control, Name, Piece, SendKind};
use lowwater_wire::sctp::{HEADER_LEN, fill_checksum};

/// A packet with an ABORT behind its last chunk.
fn with_abort(packet: &[u8]) -> Bytes {
    let (ip, sctp) = packet.split_at(20);
    let mut sctp = [sctp, &[6, 0, 0, 4]].concat();
    let (head, chunks) = sctp.split_at_mut(HEADER_LEN);
    fill_checksum(head, &[chunks]);
    let mut ip = ip.to_vec();
    ip[2..4].copy_from_slice(&((20 + sctp.len()) as u16).to_be_bytes());
    ip[10..12].fill(0);
    let sum = lowwater_wire::checksum::checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    [ip, sctp].concat().into()
}

/// Listens to nothing, reads nothing, and may be joined to its end by one packet: nothing of that stays.
#[test]
fn an_association_that_is_over_before_it_is_the_sockets_leaves_nothing() {
    let mut net = Net::new();
    let (hub, _) = star(&mut net, 0);
    for _ in 0..50 {
        let fd = socket(&mut net.a, SOCK_STREAM);
        blocks(&mut net.a, connect(fd, B, PORT));
        let now = net.a.now();
        let init = net.a.next_packet(now).expect("INIT").bytes;
        net.b.inject(init);
        let ack = net.b.next_packet(now).expect("INIT ACK").bytes;
        net.a.inject(ack);
        let cookie = net.a.next_packet(now).expect("COOKIE ECHO").bytes;
        net.b.inject(with_abort(&cookie));
        net.lose();
        assert_eq!((net.b.stack().open_sockets(), ids(&mut net.b, hub).len()), (1, 0), "the listener");
        ok(&mut net.a, Call::Close { fd });
        net.run(Duration::from_secs(1));
    }
    end(&mut net);
}

#[test]
fn what_is_told_of_the_next_message_takes_no_error_and_loses_no_message() {
    let mut net = Net::new();
    let (a, b) = pair(&mut net);
    option(&mut net.b, b, SCTP_RECVNXTINFO, vec![1, 0, 0, 0]);
    ok(&mut net.a, send(a, &[7; 10], 0));
    net.run(SOON);
    abort(&mut net.a, a);
    net.run(SOON);
    let message = done(&mut net.b, recvmsg(b, 100, 0, 1_024));
    assert_eq!((message.ret, message.control.len(), &message.data[..]), (10, 0, &[7; 10][..]));
    assert_eq!(fails(&mut net.b, recv(b, 100, 0)).name(), "ECONNRESET");
    end(&mut net);
}

/// One receive queue for all of them, in the kernel: an end makes nothing come sooner or later.
#[test]
fn what_ended_associations_leave_is_read_in_the_order_in_which_it_came() {
    let mut net = Net::new();
    let (hub, points) = star(&mut net, 3);
    for point in &points {
        option(&mut net.a, *point, SCTP_NODELAY, vec![1, 0, 0, 0]);
    }
    let mut each = |from: usize, len: usize| {
        ok(&mut net.a, send(points[from], &vec![1; len], 0));
        net.run(SOON);
    };
    for (from, len) in [(0, 1), (1, 2), (2, 3), (1, 4), (1, 5), (0, 6)] {
        each(from, len);
    }
    for over in [1, 2] {
        ok(&mut net.a, Call::Close { fd: points[over] });
        net.run(Duration::from_secs(1));
    }
    assert_eq!(ids(&mut net.b, hub).len(), 1);
    // What was looked at is still the first.
    assert_eq!(done(&mut net.b, recv(hub, 100, MSG_PEEK)).ret, 1);
    for len in 1..=6 {
        assert_ne!(revents(&mut net.b, hub) & POLLIN, 0, "{len}");
        assert_eq!(done(&mut net.b, recv(hub, 100, MSG_DONTWAIT)).ret, len);
    }
    assert_eq!(revents(&mut net.b, hub) & POLLIN, 0);
    assert_eq!(fails(&mut net.b, recv(hub, 100, MSG_DONTWAIT)).name(), "EAGAIN");
    end(&mut net);
}

/// Some of a message is put back in front (`sctp_recvmsg`), whatever SCTP_FRAGMENT_INTERLEAVE says.
#[test]
fn what_ended_associations_leave_is_not_read_in_the_middle_of_a_message() {
    for interleave in [0, 1] {
        let mut net = Net::new();
        let (hub, points) = star(&mut net, 2);
        option(&mut net.b, hub, SCTP_FRAGMENT_INTERLEAVE, vec![interleave, 0, 0, 0]);
        let value = [&2_u32.to_le_bytes()[..], &(SCTP_ASSOC_CHANGE as u16).to_le_bytes(), &[1, 0]].concat();
        option(&mut net.b, hub, SCTP_EVENT, value);
        ok(&mut net.a, send(points[0], &[1; 100], 0));
        net.run(SOON);
        let begun = done(&mut net.b, recvmsg(hub, 60, 0, 0));
        assert_eq!((begun.ret, begun.msg_flags & MSG_EOR), (60, 0));
        ok(&mut net.a, send(points[1], &[2; 10], 0));
        ok(&mut net.a, Call::Close { fd: points[1] });
        net.run(Duration::from_secs(1));
        assert_eq!(ids(&mut net.b, hub).len(), 1);
        let lens = [(); 3].map(|()| done(&mut net.b, recv(hub, 60, MSG_DONTWAIT)).ret);
        assert_eq!(lens, [40, 10, 20], "level {interleave}");
        end(&mut net);
    }
}

#[test]
fn the_rest_of_a_message_that_was_begun_is_kept_however_full_it_is() {
    let mut net = Net::new();
    let (hub, points) = star(&mut net, 4);
    ok(&mut net.b, setint(hub, SOL_SOCKET, SO_RCVBUF, 1_500));
    ok(&mut net.a, send(points[0], &[1; 100], 0));
    net.run(SOON);
    assert_eq!(done(&mut net.b, recv(hub, 60, 0)).ret, 60);
    for point in &points[1..] {
        ok(&mut net.a, send(*point, &[2; 1_000], 0));
        ok(&mut net.a, Call::Close { fd: *point });
        net.run(Duration::from_secs(1));
    }
    ok(&mut net.a, Call::Close { fd: points[0] });
    net.run(Duration::from_secs(1));
    assert_eq!(ids(&mut net.b, hub).len(), 0);
    let rest = done(&mut net.b, recvmsg(hub, 2_000, MSG_DONTWAIT, 0));
    assert_eq!((rest.ret, rest.msg_flags, &rest.data[..]), (40, MSG_EOR, &[1; 40][..]));
    assert_eq!(done(&mut net.b, recv(hub, 2_000, MSG_DONTWAIT)).ret, 1_000);
    end(&mut net);
}

/// The peer gives up a message half of which was read, and nobody asked to be told.
#[test]
fn a_message_that_is_given_up_in_its_middle_silences_no_other() {
    let mut net = Net::new();
    let (hub, points) = star(&mut net, 2);
    option(&mut net.b, hub, SCTP_PARTIAL_DELIVERY_POINT, 4_000_u32.to_le_bytes().to_vec());
    ok(&mut net.a, mortal(points[0], 60_000, 50));
    net.run(Duration::from_millis(25));
    let part = done(&mut net.b, recvmsg(hub, 100_000, 0, 0));
    assert!(part.ret >= 4_000 && part.msg_flags & MSG_EOR == 0, "{}", part.ret);
    for _ in 0..60 {
        net.run(Duration::from_millis(1));
        net.lose();
    }
    ok(&mut net.a, send(points[1], &[2; 10], 0));
    let reader = blocks(&mut net.b, recv(hub, 100, 0));
    net.run(Duration::from_millis(20));
    assert!(net.b.is_blocked(reader), "the rest of the message may still come");
    assert_eq!(revents(&mut net.b, hub) & POLLIN, 0);
    net.run(Duration::from_secs(5));
    assert_eq!(finished(&mut net.b, reader).ret, 10);
    end(&mut net);
}

/// `sctp_wait_for_packet`.
#[test]
fn nobody_waits_for_messages_that_nobody_can_send() {
    let mut net = Net::new();
    for ty in [SOCK_STREAM, SOCK_SEQPACKET] {
        let fd = socket(&mut net.a, ty);
        assert_eq!(fails(&mut net.a, recv(fd, 10, 0)).name(), "ENOTCONN");
        assert_eq!(fails(&mut net.a, recv(fd, 10, MSG_DONTWAIT)).name(), "EAGAIN");
        ok(&mut net.a, Call::Close { fd });
    }
    // One that listens may always hear of somebody; one whose last association ends while it sleeps does not.
    let (hub, _) = star(&mut net, 0);
    let listening = blocks(&mut net.b, recv(hub, 10, 0));
    let many = socket(&mut net.a, SOCK_SEQPACKET);
    let (data, to) = (vec![Piece::zeros(1)], Some(Name::Inet(at(B, PORT))));
    let control = Vec::new();
    let first = Call::Send { fd: many, kind: SendKind::Sendto, data, flags: MSG_DONTWAIT, to, control };
    ok(&mut net.a, first);
    let reader = blocks(&mut net.a, recv(many, 10, 0));
    net.run(SOON);
    assert_eq!(finished(&mut net.b, listening).ret, 1);
    let assoc = ids(&mut net.b, hub)[0];
    let mut info = vec![0; 16];
    info[2..4].copy_from_slice(&(SCTP_ABORT as u16).to_le_bytes());
    info[12..].copy_from_slice(&assoc.to_le_bytes());
    let control = vec![Control { level: IPPROTO_SCTP, ty: SCTP_SNDINFO, data: info.into() }];
    let kind = SendKind::Sendmsg;
    ok(&mut net.b, Call::Send { fd: hub, kind, data: Vec::new(), flags: 0, to: None, control });
    net.run(SOON);
    assert_eq!(finished(&mut net.a, reader).errno.map(|e| e.name()), Some("ENOTCONN"));
    end(&mut net);
}

/// It was queued while it was wanted.
#[test]
fn a_failed_message_is_told_though_nobody_asks_for_that_any_more() {
    for ty in [SCTP_SEND_FAILED, SCTP_SEND_FAILED_EVENT] {
        let mut net = Net::new();
        let (a, b) = pair(&mut net);
        event(&mut net.a, a, ty);
        ok(&mut net.a, mortal(a, 10, 20));
        for _ in 0..3_000 {
            net.run(Duration::from_millis(1));
            net.lose();
        }
        let off = [&[0; 4][..], &(ty as u16).to_le_bytes(), &[0, 0]].concat();
        option(&mut net.a, a, SCTP_EVENT, off);
        ok(&mut net.b, send(b, &[1; 12], 0));
        net.run(Duration::from_secs(5));
        assert_ne!(revents(&mut net.a, a) & POLLIN, 0);
        let told = done(&mut net.a, recvmsg(a, 200, MSG_DONTWAIT, 0));
        assert_eq!((told.msg_flags, i32::from(told.data[0])), (MSG_EOR | MSG_NOTIFICATION, ty & 0xff));
        assert_eq!(done(&mut net.a, recv(a, 100, MSG_DONTWAIT)).ret, 12);
        end(&mut net);
    }
}

/// What comes behind a message may be a notification (RFC 6458 section 5.3.6).
#[test]
fn the_next_message_may_be_a_notification() {
    let mut net = Net::new();
    let (a, b) = pair(&mut net);
    option(&mut net.b, b, SCTP_RECVNXTINFO, vec![1, 0, 0, 0]);
    event(&mut net.b, b, SCTP_SHUTDOWN_EVENT);
    ok(&mut net.a, send(a, &[7; 10], 0));
    ok(&mut net.a, Call::Shutdown { fd: a, how: SHUT_WR });
    net.run(SOON);
    let message = done(&mut net.b, recvmsg(b, 100, 0, 1_024));
    let of = lowwater_posix::sctp::layout::layout("sctp_nxtinfo").expect("a structure");
    let next = &message.control[0].data;
    let told = ["nxt_flags", "nxt_length"].map(|field| of.number(next, field));
    assert_eq!(told, [SCTP_NOTIFICATION as u64, 12]);
    assert_eq!(done(&mut net.b, recvmsg(b, 100, 0, 0)).msg_flags, MSG_EOR | MSG_NOTIFICATION);
    assert_eq!(done(&mut net.b, recv(b, 100, 0)).ret, 0);
    end(&mut net);
}

/// A call that blocks is about the file that its descriptor was when it began.
/// Its association goes on to be up and ends in good order, while something else wakes whoever waits.
#[test]
fn a_blocked_connectx3_does_not_go_on_with_another_file() {
    let mut net = Net::new();
    let listener = socket(&mut net.b, SOCK_STREAM);
    ok(&mut net.b, bind(listener, B, PORT));
    ok(&mut net.b, Call::Listen { fd: listener, backlog: 5 });
    let fd = socket(&mut net.a, SOCK_STREAM);
    let SocketAddr::V4(to) = at(B, PORT) else { unreachable!("IPv4") };
    let mut value = vec![0; 4];
    value.extend(16_u32.to_le_bytes());
    value.extend((AF_INET as u16).to_le_bytes());
    value.extend(to.port().to_be_bytes());
    value.extend(to.ip().octets());
    value.resize(24, 0);
    let (level, name) = (SOL_SCTP, SCTP_SOCKOPT_CONNECTX3);
    let opener = blocks(&mut net.a, Call::GetsockoptIn { fd, level, name, value: value.into() });
    let other = socket(&mut net.a, SOCK_STREAM);
    blocks(&mut net.a, connect(other, B, PORT));
    // The cookies are out.
    net.run(DELAY * 5 / 2);
    ok(&mut net.a, Call::Close { fd });
    assert_eq!(socket(&mut net.a, SOCK_STREAM), fd, "the lowest number that is free");
    net.run(Duration::from_secs(100));
    assert_eq!(finished(&mut net.a, opener).errno.map(|e| e.name()), Some("EBADF"));
    end(&mut net);
}

#[test]
fn a_blocked_call_does_not_go_on_with_another_file() {
    let mut net = Net::new();
    let (a, b) = pair(&mut net);
    let (tcp_a, tcp_b) = net.connected();
    for (a, b, protocol) in [(a, b, IPPROTO_SCTP), (tcp_a, tcp_b, IPPROTO_TCP)] {
        while socket(&mut net.b, SOCK_STREAM) < b {}
        let reader = blocks(&mut net.b, recv(b, 10, 0));
        ok(&mut net.b, Call::Close { fd: b });
        let again = ok(&mut net.b, Call::Socket { domain: AF_INET, ty: SOCK_STREAM, protocol });
        assert_eq!(again, b, "the lowest number that is free");
        ok(&mut net.a, Call::Close { fd: a });
        net.run(Duration::from_secs(100));
        assert_eq!(finished(&mut net.b, reader).errno.map(|e| e.name()), Some("EBADF"), "{protocol}");
    }
    end(&mut net);
}
