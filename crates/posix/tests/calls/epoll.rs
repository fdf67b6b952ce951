//! Epoll sets: level and edge, one shot, nesting, errors of epoll_ctl; poll with timeouts.
use crate::support::*;
use lowwater_core::base::Duration;
use lowwater_posix::abi::*;
use lowwater_posix::{Call, EpollEvent, Errno, Fd, Host, PollFd, RecvKind, Room};

const MS: fn(u64) -> Duration = Duration::from_millis;

fn set(host: &mut Host) -> Fd {
    ok(host, Call::EpollCreate { size: 1, flags: 0 })
}

fn ctl(epfd: Fd, op: i32, fd: Fd, events: u32) -> Call {
    Call::EpollCtl { epfd, op, fd, event: Some(EpollEvent { events, data: u64::MAX - fd as u64 }) }
}

/// What a set has, now: descriptors (as the data tells them) and events.
fn wait(host: &mut Host, epfd: Fd) -> Vec<(Fd, u32)> {
    let reply = done(host, Call::EpollWait { epfd, max_events: 10, timeout_ms: 0 });
    assert_eq!(reply.ret, reply.events.len() as i64);
    reply.events.iter().map(|e| ((u64::MAX - e.data) as Fd, e.events)).collect()
}

#[test]
fn a_level_is_told_until_it_is_gone() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    let epfd = set(&mut net.b);
    ok(&mut net.b, ctl(epfd, EPOLL_CTL_ADD, b, EPOLLIN));
    assert_eq!(wait(&mut net.b, epfd), []);
    ok(&mut net.a, write(a, b"abc"));
    net.run(MS(50));
    assert_eq!(wait(&mut net.b, epfd), [(b, EPOLLIN)]);
    assert_eq!(wait(&mut net.b, epfd), [(b, EPOLLIN)]);
    ok(&mut net.b, read(b, 2));
    assert_eq!(wait(&mut net.b, epfd), [(b, EPOLLIN)], "there is a byte left");
    ok(&mut net.b, read(b, 2));
    assert_eq!(wait(&mut net.b, epfd), []);
}

#[test]
fn an_edge_is_told_once_and_again_with_new_data() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    let epfd = set(&mut net.b);
    ok(&mut net.b, ctl(epfd, EPOLL_CTL_ADD, b, EPOLLIN | EPOLLOUT | EPOLLET));
    assert_eq!(wait(&mut net.b, epfd), [(b, EPOLLOUT)], "what is there when it is added is an edge");
    assert_eq!(wait(&mut net.b, epfd), []);
    ok(&mut net.a, write(a, b"abc"));
    net.run(MS(50));
    assert_eq!(wait(&mut net.b, epfd), [(b, EPOLLIN | EPOLLOUT)]);
    assert_eq!(wait(&mut net.b, epfd), [], "nothing was read, nothing is new");
    ok(&mut net.a, write(a, b"d"));
    net.run(MS(50));
    assert_eq!(wait(&mut net.b, epfd), [(b, EPOLLIN | EPOLLOUT)]);
    ok(&mut net.b, ctl(epfd, EPOLL_CTL_MOD, b, EPOLLIN | EPOLLET));
    assert_eq!(wait(&mut net.b, epfd), [(b, EPOLLIN)], "a change looks again");
    ok(&mut net.a, Call::Shutdown { fd: a, how: SHUT_WR });
    net.run(MS(50));
    assert_eq!(wait(&mut net.b, epfd), [(b, EPOLLIN)]);
    assert_eq!(wait(&mut net.b, epfd), []);
}

#[test]
fn an_edge_of_room_comes_only_to_who_saw_none() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    let epfd = set(&mut net.a);
    ok(&mut net.a, ctl(epfd, EPOLL_CTL_ADD, a, EPOLLOUT | EPOLLET));
    assert_eq!(wait(&mut net.a, epfd), [(a, EPOLLOUT)]);
    ok(&mut net.a, write(a, b"abc"));
    net.run(MS(50));
    assert_eq!(wait(&mut net.a, epfd), [], "acknowledgements of a writer that never saw full are no news");
    let sent = done(&mut net.a, send(a, &[0; 10_000_000], MSG_DONTWAIT)).ret;
    assert!(sent < 10_000_000);
    assert_eq!(fails(&mut net.a, send(a, b"x", MSG_DONTWAIT)), Errno::EAGAIN);
    let mut told = Vec::new();
    for _ in 0..500 {
        net.run(MS(10));
        done(&mut net.b, recv(b, 1 << 22, MSG_DONTWAIT));
        told.extend(wait(&mut net.a, epfd));
    }
    assert_eq!(told, [(a, EPOLLOUT)]);
}

#[test]
fn one_shot_is_armed_again_by_mod() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    let epfd = set(&mut net.b);
    ok(&mut net.b, ctl(epfd, EPOLL_CTL_ADD, b, EPOLLIN | EPOLLONESHOT));
    for _ in 0..2 {
        ok(&mut net.a, write(a, b"abc"));
        net.run(MS(50));
        assert_eq!(wait(&mut net.b, epfd), [(b, EPOLLIN)]);
        ok(&mut net.a, write(a, b"abc"));
        net.run(MS(50));
        assert_eq!(wait(&mut net.b, epfd), []);
        ok(&mut net.b, ctl(epfd, EPOLL_CTL_MOD, b, EPOLLIN | EPOLLONESHOT));
    }
}

#[test]
fn errors_and_ends_need_not_be_asked_for() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    let epfd = set(&mut net.b);
    ok(&mut net.b, ctl(epfd, EPOLL_CTL_ADD, b, 0));
    assert_eq!(wait(&mut net.b, epfd), []);
    ok(&mut net.a, Call::Connect { fd: a, addr: lowwater_posix::Name::UNSPEC });
    net.run(MS(50));
    assert_eq!(wait(&mut net.b, epfd), [(b, EPOLLERR | EPOLLHUP)]);
}

#[test]
fn a_blocked_wait_ends_at_the_instant_of_the_event_or_of_its_timeout() {
    let mut net = Net::new();
    let listener = listener(&mut net.b, 80);
    let epfd = set(&mut net.b);
    ok(&mut net.b, ctl(epfd, EPOLL_CTL_ADD, listener, EPOLLIN));
    let begun = net.b.now();
    let id = blocks(&mut net.b, Call::EpollWait { epfd, max_events: 1, timeout_ms: 300 });
    net.run(MS(400));
    let (when, reply) = net.b.take(id).expect("its time is over");
    assert_eq!((when, reply.ret, reply.events.len()), (begun + MS(300), 0, 0));
    let id = blocks(&mut net.b, Call::EpollWait { epfd, max_events: 1, timeout_ms: -1 });
    let begun = net.a.now();
    let a = stream(&mut net.a);
    blocks(&mut net.a, connect(a, B, 80));
    net.run(MS(400));
    let (when, reply) = net.b.take(id).expect("a connection came");
    assert_eq!((when, reply.ret), (begun + 3 * DELAY, 1), "with the last segment of the handshake");
}

#[test]
fn who_was_first_is_told_first_and_all_have_their_turn() {
    let mut net = Net::new();
    let (a1, b1) = net.connected();
    let (a2, b2) = net.connected();
    let epfd = set(&mut net.b);
    ok(&mut net.b, ctl(epfd, EPOLL_CTL_ADD, b1, EPOLLIN));
    ok(&mut net.b, ctl(epfd, EPOLL_CTL_ADD, b2, EPOLLIN));
    ok(&mut net.a, write(a2, b"x"));
    net.run(MS(50));
    ok(&mut net.a, write(a1, b"x"));
    net.run(MS(50));
    let one = Call::EpollWait { epfd, max_events: 1, timeout_ms: 0 };
    let mut first = || done(&mut net.b, one.clone()).events[0].data;
    assert_eq!([first(), first(), first()], [b2, b1, b2].map(|fd| u64::MAX - fd as u64));
}

#[test]
fn a_set_in_a_set_is_readable_when_it_has_something() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    let (inner, outer) = (set(&mut net.b), set(&mut net.b));
    ok(&mut net.b, ctl(inner, EPOLL_CTL_ADD, b, EPOLLIN));
    ok(&mut net.b, ctl(outer, EPOLL_CTL_ADD, inner, EPOLLIN));
    assert_eq!(fails(&mut net.b, ctl(inner, EPOLL_CTL_ADD, outer, EPOLLIN)), Errno::ELOOP);
    assert_eq!(wait(&mut net.b, outer), []);
    let id = blocks(&mut net.b, Call::EpollWait { epfd: outer, max_events: 1, timeout_ms: -1 });
    ok(&mut net.a, write(a, b"x"));
    net.run(MS(50));
    assert_eq!(finished(&mut net.b, id).ret, 1);
    assert_eq!(wait(&mut net.b, outer), [(inner, EPOLLIN)]);
    assert_eq!(revents(&mut net.b, inner), POLLIN | POLLRDNORM);
}

#[test]
fn epoll_ctl_refuses_what_linux_refuses() {
    let mut host = host(A, A6);
    let (epfd, s) = (set(&mut host), stream(&mut host));
    let table = [
        (Call::EpollCreate { size: 0, flags: 0 }, Errno::EINVAL),
        (Call::EpollCreate { size: 1, flags: 1 }, Errno::EINVAL),
        (ctl(epfd, EPOLL_CTL_MOD, s, EPOLLIN), Errno::ENOENT),
        (ctl(epfd, EPOLL_CTL_DEL, s, 0), Errno::ENOENT),
        (ctl(epfd, 9, s, EPOLLIN), Errno::EINVAL),
        (ctl(s, EPOLL_CTL_ADD, epfd, EPOLLIN), Errno::EINVAL),
        (ctl(epfd, EPOLL_CTL_ADD, epfd, EPOLLIN), Errno::EINVAL),
        (ctl(epfd, EPOLL_CTL_ADD, 77, EPOLLIN), Errno::EBADF),
        (ctl(77, EPOLL_CTL_ADD, s, EPOLLIN), Errno::EBADF),
        (ctl(epfd, EPOLL_CTL_ADD, s, EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT), Errno::EINVAL),
        (Call::EpollCtl { epfd, op: EPOLL_CTL_ADD, fd: s, event: None }, Errno::EFAULT),
        (Call::EpollWait { epfd, max_events: 0, timeout_ms: 0 }, Errno::EINVAL),
        (Call::EpollWait { epfd: s, max_events: 1, timeout_ms: 0 }, Errno::EINVAL),
        (Call::EpollWait { epfd: 77, max_events: 1, timeout_ms: 0 }, Errno::EBADF),
    ];
    for (call, errno) in table {
        let shown = format!("{call:?}");
        assert_eq!(fails(&mut host, call), errno, "{shown}");
    }
    ok(&mut host, ctl(epfd, EPOLL_CTL_ADD, s, EPOLLIN));
    assert_eq!(fails(&mut host, ctl(epfd, EPOLL_CTL_ADD, s, EPOLLIN)), Errno::EEXIST);
    ok(&mut host, Call::EpollCtl { epfd, op: EPOLL_CTL_DEL, fd: s, event: None });
    ok(&mut host, ctl(epfd, EPOLL_CTL_ADD, s, EPOLLIN));
    ok(&mut host, Call::Close { fd: s });
    assert_eq!(wait(&mut host, epfd), [], "a closed file is forgotten");
    // What is no set is told so first, however many sets watch it.
    let s = stream(&mut host);
    let outermost = (0..5).fold(s, |inner, _| {
        let outer = set(&mut host);
        done(&mut host, ctl(outer, EPOLL_CTL_ADD, inner, EPOLLIN));
        outer
    });
    assert_ne!(outermost, s);
    assert_eq!(fails(&mut host, ctl(s, EPOLL_CTL_ADD, epfd, EPOLLIN)), Errno::EINVAL);
}

#[test]
fn poll_tells_each_descriptor_and_skips_negative_ones() {
    let mut net = Net::new();
    let (a, b) = net.connected();
    let fds = [(b, POLLIN), (-1, POLLIN), (99, POLLIN), (b, 0)];
    let fds: Vec<PollFd> =
        fds.iter().map(|(fd, events)| PollFd { fd: *fd, events: *events as i16 }).collect();
    let reply = done(&mut net.b, Call::Poll { fds: fds.clone(), timeout_ms: 0 });
    assert_eq!((reply.ret, reply.revents), (1, vec![0, 0, POLLNVAL as i16, 0]));
    ok(&mut net.a, write(a, b"x"));
    let id = blocks(&mut net.b, Call::Poll { fds: fds[..2].to_vec(), timeout_ms: 1_000 });
    let begun = net.b.now();
    net.run(MS(100));
    let (when, reply) = net.b.take(id).expect("data came");
    assert_eq!((when, reply.ret, reply.revents), (begun + DELAY, 1, vec![POLLIN as i16, 0]));
    let id = blocks(&mut net.a, pollfd(a, POLLIN, 250));
    let begun = net.a.now();
    net.run(MS(300));
    assert_eq!(net.a.take(id).map(|(when, r)| (when, r.ret)), Some((begun + MS(250), 0)));
}

/// As Linux 6.18 answers: four sets within one another below the outermost, counted over both ends of the new link.
#[test]
fn sets_nest_four_deep_however_the_chain_is_made() {
    let mut net = Net::new();
    for (upper, lower) in (1..=5).flat_map(|a| (1..=5).map(move |b| (a, b))) {
        let chain = |host: &mut Host, n: usize| {
            let sets: Vec<Fd> = (0..n).map(|_| set(host)).collect();
            for pair in sets.windows(2) {
                ok(host, ctl(pair[0], EPOLL_CTL_ADD, pair[1], EPOLLIN));
            }
            sets
        };
        let (above, below) = (chain(&mut net.b, upper), chain(&mut net.b, lower));
        let link = ctl(above[upper - 1], EPOLL_CTL_ADD, below[0], EPOLLIN);
        if upper + lower > 5 {
            assert_eq!(fails(&mut net.b, link), Errno::ELOOP, "{upper} and {lower}");
            continue;
        }
        ok(&mut net.b, link);
        let (read, write_end) = done(&mut net.b, Call::Pipe { flags: 0 }).pipe.unwrap();
        ok(&mut net.b, ctl(below[lower - 1], EPOLL_CTL_ADD, read, EPOLLIN));
        assert_eq!(wait(&mut net.b, above[0]), []);
        ok(&mut net.b, write(write_end, b"x"));
        assert_eq!(
            wait(&mut net.b, above[0]).len(),
            1,
            "{upper} and {lower}: it is seen through all of them"
        );
        let back = ctl(below[lower - 1], EPOLL_CTL_ADD, above[0], EPOLLIN);
        assert_eq!(fails(&mut net.b, back), Errno::ELOOP, "a circle");
    }
}

/// Every set of a level watches every one of the next: the paths are too many to be walked one by one.
#[test]
fn sets_that_many_watch_are_looked_at_once() {
    const WIDTH: usize = 12;
    let mut net = Net::new();
    let levels: Vec<Vec<Fd>> = (0..5).map(|_| (0..WIDTH).map(|_| set(&mut net.b)).collect()).collect();
    for pair in levels.windows(2) {
        for (outer, inner) in pair[0].iter().flat_map(|o| pair[1].iter().map(move |i| (*o, *i))) {
            // The levels' own order keeps each look short: nothing is below yet, and one above.
            ok(&mut net.b, ctl(outer, EPOLL_CTL_ADD, inner, EPOLLIN));
        }
    }
    let (read, write_end) = done(&mut net.b, Call::Pipe { flags: 0 }).pipe.unwrap();
    for inner in &levels[4] {
        ok(&mut net.b, ctl(*inner, EPOLL_CTL_ADD, read, EPOLLIN));
    }
    ok(&mut net.b, write(write_end, b"x"));
    for outer in &levels[0] {
        let ready = done(&mut net.b, Call::EpollWait { epfd: *outer, max_events: 1_000, timeout_ms: 0 });
        assert_eq!(ready.ret, WIDTH as i64);
    }
    ok(
        &mut net.b,
        Call::Recv { fd: read, kind: RecvKind::Read, rooms: vec![Room::new(1)], flags: 0, control_len: 0 },
    );
    assert_eq!(wait(&mut net.b, levels[0][0]), []);
}
