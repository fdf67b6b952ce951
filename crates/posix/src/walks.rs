//! What a call or an event costs beside many other sockets: as much as beside few.
use crate::abi::*;
use crate::call::{Call, EpollEvent, Fd, Name, Optval, Piece, PollFd, RecvKind, Reply, Room, SendKind};
use crate::files::FDS_MAX;
use crate::host::{Host, Settings, Started};
use crate::steps;
use core::net::SocketAddr;
use lowwater_core::base::Duration;

const HERE: [u8; 4] = [10, 0, 0, 1];
/// Others of which nothing changes: few and many.
const OTHERS: [usize; 2] = [5, 200];

fn host() -> Host {
    Host::new(Settings { addresses: vec![(HERE.into(), 8)], ..Settings::default() }).expect("a host")
}

fn done(host: &mut Host, call: Call) -> Reply {
    match host.call(call) {
        Started::Done(reply) => reply,
        Started::Blocked(id) => panic!("{id:?}"),
    }
}

#[track_caller]
fn ok(host: &mut Host, call: Call) -> Fd {
    let reply = done(host, call);
    assert_eq!(reply.errno, None);
    reply.ret as Fd
}

fn socket(host: &mut Host, ty: i32, protocol: i32) -> Fd {
    ok(host, Call::Socket { domain: AF_INET, ty: ty | SOCK_NONBLOCK, protocol })
}

fn at(port: u16) -> Name {
    Name::Inet(SocketAddr::from((HERE, port)))
}

fn set(host: &mut Host, fd: Fd, level: i32, name: i32, value: i32) {
    ok(host, Call::Setsockopt { fd, level, name, value: Optval::int(value) });
}

fn send(fd: Fd, len: usize, flags: i32, to: Option<Name>, control: Vec<crate::call::Control>) -> Call {
    Call::Send { fd, kind: SendKind::Sendmsg, data: vec![Piece::zeros(len)], flags, to, control }
}

fn recv(fd: Fd, len: usize) -> Call {
    Call::Recv { fd, kind: RecvKind::Recvmsg, rooms: vec![Room::new(len)], flags: 0, control_len: 0 }
}

fn listener(host: &mut Host, ty: i32, protocol: i32) -> Fd {
    let fd = socket(host, ty, protocol);
    ok(host, Call::Bind { fd, addr: at(80) });
    ok(host, Call::Listen { fd, backlog: FDS_MAX as i32 });
    fd
}

fn connected(host: &mut Host, listener: Fd) -> (Fd, Fd) {
    let fd = socket(host, SOCK_STREAM, 0);
    done(host, Call::Connect { fd, addr: at(80) });
    (fd, ok(host, Call::Accept { fd: listener, flags: SOCK_NONBLOCK }))
}

#[track_caller]
fn costs_the_same(of: impl Fn(usize) -> u64) {
    let [few, many] = OTHERS.map(of);
    assert!(many <= few + 5, "{few} steps beside {} others, {many} beside {}", OTHERS[0], OTHERS[1]);
}

fn watch(host: &mut Host, epfd: Fd, fd: Fd) {
    let event = Some(EpollEvent { events: EPOLLIN, data: 0 });
    ok(host, Call::EpollCtl { epfd, op: EPOLL_CTL_ADD, fd, event });
}

#[test]
fn an_event_asks_the_sets_that_watch_its_file() {
    costs_the_same(|others| {
        let mut host = host();
        let listener = listener(&mut host, SOCK_STREAM, 0);
        let (mine, peer) = connected(&mut host, listener);
        let set = |host: &mut Host| ok(host, Call::EpollCreate { size: 1, flags: 0 });
        let (inner, outer) = (set(&mut host), set(&mut host));
        watch(&mut host, inner, mine);
        watch(&mut host, outer, inner);
        for _ in 0..others {
            let set = set(&mut host);
            watch(&mut host, set, listener);
        }
        steps::of(|| {
            ok(&mut host, send(peer, 10, 0, None, Vec::new()));
            let reply = done(&mut host, Call::EpollWait { epfd: outer, max_events: 8, timeout_ms: 0 });
            assert_eq!(reply.events.len(), 1);
            ok(&mut host, Call::Close { fd: mine });
        })
    });
}

#[test]
fn a_set_in_a_set_asks_for_sets_alone() {
    costs_the_same(|others| {
        let mut host = host();
        let sets = [0; 2].map(|_| ok(&mut host, Call::EpollCreate { size: 1, flags: 0 }));
        for _ in 0..others {
            let fd = socket(&mut host, SOCK_STREAM, 0);
            watch(&mut host, sets[0], fd);
        }
        // All of them hang up, the first tells that there is something.
        steps::of(|| watch(&mut host, sets[1], sets[0]))
    });
}

/// A closed set, or one that does not watch any more, is not asked.
#[test]
fn watches_end_with_their_set_and_their_file() {
    let mut host = host();
    let fds = [0; 2].map(|_| socket(&mut host, SOCK_STREAM, 0));
    let sets = [0; 2].map(|_| ok(&mut host, Call::EpollCreate { size: 1, flags: 0 }));
    for epfd in sets {
        fds.iter().for_each(|fd| watch(&mut host, epfd, *fd));
    }
    let of = |host: &Host, fd| host.files.watches().sets_of(fd).collect::<Vec<_>>();
    assert_eq!(of(&host, fds[0]), sets);
    ok(&mut host, Call::EpollCtl { epfd: sets[0], op: EPOLL_CTL_DEL, fd: fds[0], event: None });
    assert_eq!((of(&host, fds[0]), of(&host, fds[1])), (vec![sets[1]], sets.to_vec()));
    ok(&mut host, Call::Close { fd: sets[1] });
    assert_eq!((of(&host, fds[0]), of(&host, fds[1])), (vec![], vec![sets[0]]));
    ok(&mut host, Call::Close { fd: fds[1] });
    assert_eq!(of(&host, fds[1]), []);
    assert_eq!(done(&mut host, Call::EpollWait { epfd: sets[0], max_events: 8, timeout_ms: 0 }).ret, 0);
}

#[test]
fn sends_without_a_copy_that_wait_elsewhere_are_not_looked_at() {
    costs_the_same(|others| {
        let mut host = host();
        let listener = listener(&mut host, SOCK_STREAM, 0);
        set(&mut host, listener, SOL_SOCKET, SO_RCVBUF, 4_000);
        let one = |host: &mut Host| {
            let (fd, child) = connected(host, listener);
            set(host, fd, SOL_SOCKET, SO_ZEROCOPY, 1);
            assert!(done(host, send(fd, 20_000, MSG_ZEROCOPY, None, Vec::new())).ret > 4_000);
            (fd, child)
        };
        let (fd, child) = one(&mut host);
        for _ in 0..others {
            one(&mut host);
        }
        let waits = |host: &Host| {
            host.files.sock(fd).is_ok_and(|s| s.knobs.feedback.as_ref().is_some_and(|f| f.is_watching()))
        };
        assert!(waits(&host));
        let cost = steps::of(|| {
            for _ in 0..1_000 {
                if !waits(&host) {
                    break;
                }
                done(&mut host, recv(child, 1_000_000));
                host.advance_until(host.now() + Duration::from_millis(1));
            }
        });
        assert!(
            !waits(&host)
                && host.files.sock(fd).is_ok_and(|s| s
                    .knobs
                    .feedback
                    .as_ref()
                    .is_some_and(|f| f.has_entries()))
        );
        cost
    });
}

/// What waits to be accepted when options change shares what they were.
#[test]
fn heirs_of_one_time_share_what_they_inherit() {
    let mut host = host();
    let listener = listener(&mut host, SOCK_STREAM, 0);
    let timeout = |host: &mut Host, secs: i64| {
        let value = Optval::Bytes([secs.to_ne_bytes(), 0_i64.to_ne_bytes()].concat().into());
        ok(host, Call::Setsockopt { fd: listener, level: SOL_SOCKET, name: SO_RCVTIMEO, value });
    };
    let kept = |host: &Host| host.files.sock(listener).expect("it is open").knobs.heirs.len();
    for (secs, new) in [(1, 100), (2, 30), (3, 0), (4, 1)] {
        for _ in 0..new {
            let fd = socket(&mut host, SOCK_STREAM, 0);
            done(&mut host, Call::Connect { fd, addr: at(80) });
        }
        timeout(&mut host, secs);
        timeout(&mut host, secs);
    }
    assert_eq!(kept(&host), 3, "once for all that came between two changes");
    let fd = socket(&mut host, SOCK_STREAM, 0);
    done(&mut host, Call::Connect { fd, addr: at(80) });
    for n in 0..132 {
        let fd = ok(&mut host, Call::Accept { fd: listener, flags: 0 });
        let told = host.files.sock(fd).expect("it is open").knobs.rcvtimeo.map(|t| t.as_secs());
        let then = match n {
            0..100 => None,
            100..130 => Some(1),
            130 => Some(3),
            _ => Some(4),
        };
        assert_eq!(told, then, "{n}");
    }
    assert_eq!(kept(&host), 0);
    // Those that are lost with their listener leave nothing to the next.
    let fd = socket(&mut host, SOCK_STREAM, 0);
    done(&mut host, Call::Connect { fd, addr: at(80) });
    timeout(&mut host, 5);
    assert_eq!(kept(&host), 1);
    ok(&mut host, Call::Shutdown { fd: listener, how: SHUT_RD });
    assert_eq!(kept(&host), 0);
}

#[test]
fn a_message_to_one_of_many_associations_looks_at_no_other() {
    costs_the_same(|others| {
        let mut host = host();
        let many = listener(&mut host, SOCK_SEQPACKET, IPPROTO_SCTP);
        for n in 0..others {
            let fd = socket(&mut host, SOCK_STREAM, IPPROTO_SCTP);
            ok(&mut host, Call::Bind { fd, addr: at(1_000 + n as u16) });
            done(&mut host, Call::Connect { fd, addr: at(80) });
        }
        host.advance_until(host.now() + Duration::from_millis(500));
        let number = done(
            &mut host,
            Call::Getsockopt { fd: many, level: SOL_SCTP, name: SCTP_GET_ASSOC_NUMBER, len: 4 },
        );
        assert_eq!(number.int(), Some(others as i32));
        // All of them are new, which is looked at once.
        done(&mut host, Call::Poll { fds: vec![PollFd { fd: many, events: 0 }], timeout_ms: 0 });
        let ids = Call::Getsockopt { fd: many, level: SOL_SCTP, name: SCTP_GET_ASSOC_ID_LIST, len: 4_096 };
        let last = done(&mut host, ids).value;
        let last: [u8; 4] = last[last.len() - 4..].try_into().expect("an identifier");
        let mut info = vec![0; 16];
        info[12..].copy_from_slice(&last);
        let control = crate::call::Control { level: SOL_SCTP, ty: SCTP_SNDINFO, data: info.into() };
        steps::of(|| {
            ok(&mut host, send(many, 10, 0, Some(at(999 + others as u16)), Vec::new()));
            ok(&mut host, send(many, 10, 0, None, vec![control.clone()]));
            host.advance_until(host.now() + Duration::from_millis(500));
            assert_eq!(done(&mut host, recv(many, 100)).errno, Some(crate::errno::Errno::EAGAIN));
            let fds = vec![PollFd { fd: many, events: POLLOUT as i16 }];
            let reply = done(&mut host, Call::Poll { fds, timeout_ms: 0 });
            assert_eq!(reply.revents, [POLLOUT as i16]);
        })
    });
}
