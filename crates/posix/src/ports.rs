//! Who has which port: what is chosen or asked for, who shares it, and when it goes back.
use crate::abi::{SO_REUSEADDR, SO_REUSEPORT, SOL_SOCKET};
use crate::call::Fd;
use crate::errno::Errno;
use crate::files::{Files, Kind, Sock};
use crate::host::Host;
use crate::leftovers::{Left, Shares};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use lowwater_core::base::{Error, SocketId, Tuple};
use lowwater_core::stack::{Flows, covers};
use lowwater_core::tcp::State;

/// Two sockets that have these places must agree on sharing a port.
fn meet((a, x): (&Sock, SocketAddr), (b, y): (&Sock, SocketAddr)) -> bool {
    let (x_any, y_any) = (x.ip().is_unspecified(), y.ip().is_unspecified());
    if x.port() == 0 || x.port() != y.port() || a.stream != b.stream || !(x.ip() == y.ip() || x_any || y_any)
    {
        return false;
    }
    // ::ffff:0.0.0.0 is any address of IPv4, as `::` is any at all (`ipv6_rcv_saddr_equal`).
    let families = |s: &Sock, ip: IpAddr| (ip.is_ipv4(), s.v6only());
    // One for IPv6 alone does not meet one for IPv4.
    let ((x_v4, x_only), (y_v4, y_only)) = (families(a, x.ip()), families(b, y.ip()));
    let six_alone = if x_v4 { y_only || !y_any } else { x_only || !x_any };
    x_v4 == y_v4 || !six_alone
}

/// Any address, of a socket of one family or the other.
pub(crate) fn unspecified(v6: bool) -> IpAddr {
    if v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

/// By what a socket shares its port.
pub(crate) fn shares_of(sock: &Sock) -> Shares {
    let has = |name| sock.plain(SOL_SOCKET, name) != 0;
    Shares { addr: has(SO_REUSEADDR), port: has(SO_REUSEPORT) }
}

/// It was bound behind the end of its connection, or failed to be, which has lost it the address of before (`inet_reset_saddr`).
fn has_left(sock: &Sock) -> bool {
    sock.knobs.past.rebound || sock.bound.is_none()
}

/// The connection is over: what Linux calls TCP_CLOSE, TIME-WAIT included.
pub(crate) fn is_over(flows: &Flows<'_>, id: SocketId) -> bool {
    matches!(flows.state(id), Ok(State::Close | State::TimeWait) | Err(_))
}

/// As [`Host::has_port`].
fn has_port(flows: &Flows<'_>, sock: &Sock) -> bool {
    let kept = sock.bound.is_some_and(|b| b.port() != 0);
    match sock.kind {
        Kind::Fresh => kept,
        Kind::Conn(id) => !is_over(flows, id) || (kept && (!sock.chosen || sock.knobs.past.rebound)),
        Kind::Udp(_) => kept,
        Kind::Listener(_) => true,
    }
}

/// Its connection is over, TIME-WAIT too, and the port was not its own (`tcp_done`: `inet_put_port`).
fn has_given_back(flows: &Flows<'_>, sock: &Sock) -> bool {
    matches!(sock.kind, Kind::Conn(id) if !matches!(flows.state(id), Ok(state) if state != State::Close))
        && !has_port(flows, sock)
}

/// A connection of this flow lives on without a descriptor, or in TIME-WAIT while its descriptor is bound elsewhere, or to nothing.
fn is_left(flows: &Flows<'_>, files: &Files, flow: &Tuple) -> bool {
    let has_left = |fd| files.sock(fd).is_ok_and(has_left);
    match flows.lookup(flow) {
        Some(id) => files.fd_of(id).is_none_or(has_left),
        None => flows.has(flow),
    }
}

/// Its connection is in TIME-WAIT.
fn is_waiting(flows: &Flows<'_>, sock: &Sock) -> bool {
    matches!(sock.kind, Kind::Conn(id) if flows.state(id) == Ok(State::TimeWait))
}

/// By what its TIME-WAIT shares the port, where that may differ from its options.
fn waiting_shares(flows: &Flows<'_>, sock: &Sock) -> Option<Shares> {
    sock.knobs.past.shared.filter(|_| is_waiting(flows, sock))
}

/// The two may share a port: by SO_REUSEADDR unless the other one listens, of UDP always (`inet_csk_bind_conflict`,
/// `inet_rcv_saddr_equal`).
fn share(flows: &Flows<'_>, a: &Sock, b: &Sock) -> bool {
    let (mine, listens) = (shares_of(a), matches!(b.kind, Kind::Listener(_)));
    let by = |theirs: Shares| mine.with(Shares { addr: theirs.addr && !(listens && a.stream), ..theirs });
    // TIME-WAIT and the socket that still has the port are asked each.
    let waiting = waiting_shares(flows, b).filter(|_| !b.knobs.past.rebound);
    let own = (waiting.is_none() || has_port(flows, b)).then(|| shares_of(b));
    [own, waiting].into_iter().flatten().all(by)
}

/// Where a socket is: what it was bound to, with the address that connecting has fixed (`inet_rcv_saddr`).
fn place_of(flows: &Flows<'_>, sock: &Sock) -> Option<SocketAddr> {
    let fixed = match sock.kind {
        Kind::Conn(id) if !sock.knobs.past.rebound => flows.local_addr(id).ok(),
        Kind::Udp(id) => flows.local_addr(id).ok(),
        _ => None,
    };
    let bound = sock.bound?;
    // A port that connect() has chosen is one as any other.
    let port = |fixed: SocketAddr| if bound.port() == 0 { fixed.port() } else { bound.port() };
    Some(fixed.map_or(bound, |fixed| SocketAddr::new(fixed.ip(), port(fixed))))
}

/// The sockets other than `fd` that have a place at `port`.
fn others<'a>(
    flows: &'a Flows<'a>,
    files: &'a Files,
    (fd, port): (Fd, u16),
) -> impl Iterator<Item = (&'a Sock, SocketAddr)> {
    let theirs = files.at_port(port).filter(move |(other, b)| *other != fd && !has_given_back(flows, b));
    theirs.filter_map(|(_, b)| place_of(flows, b).map(|theirs| (b, theirs)))
}

impl Host {
    /// It has a port (`inet_num`). A connection that is over has given back one that the system had chosen, and keeps what it got since.
    pub(crate) fn has_port(&self, sock: &Sock) -> bool {
        has_port(&self.stack.tcp_flows(), sock)
    }

    /// Binds a socket to an address, at a port of its choice or the one that is asked for (`inet_csk_get_port`).
    pub(crate) fn take_port(&mut self, fd: Fd, addr: SocketAddr) -> Result<(), Errno> {
        let mut sock = self.files.sock(fd)?.clone();
        // Any address of both families, of one, or this address.
        let both = addr.is_ipv6() && addr.ip().is_unspecified() && !sock.v6only();
        let ip = (!both).then(|| addr.ip());
        sock.chosen = addr.port() == 0;
        let port = if sock.chosen { self.find_port(fd, &sock, addr.ip(), ip)? } else { addr.port() };
        sock.bound = Some(SocketAddr::new(addr.ip(), port));
        // Its own TIME-WAIT is asked as those of others are.
        let own = |left: Left| {
            left.flow.local_port == port
                && covers(ip, left.flow.local_ip)
                && !left.shares.with(shares_of(&sock))
        };
        let waits = self.waits_on(fd)?.is_some_and(own);
        let taken = !sock.chosen
            && (waits
                || self.collides(fd, &sock)
                || (sock.stream && self.is_kept(port, ip, shares_of(&sock))));
        if taken {
            return Err(Errno::EADDRINUSE);
        }
        if !sock.stream {
            self.bind_udp(&mut sock)?;
        }
        *self.files.sock_mut(fd)? = sock;
        self.files.index(fd);
        Ok(())
    }

    /// A port for a socket that asks for none: of those whose turn it is, each is asked for by the sockets that have it (one that is bound
    /// only has no object in the stack), of TCP also by what is left of closed ones.
    fn find_port(&mut self, fd: Fd, sock: &Sock, at: IpAddr, ip: Option<IpAddr>) -> Result<u16, Errno> {
        // Its own TIME-WAIT has its port as those of others have.
        let waits = self.waits_on(fd)?.map(|left| left.flow).filter(|flow| covers(ip, flow.local_ip));
        let (files, leftovers) = (&self.files, &mut self.leftovers);
        let taken = |flows: &Flows<'_>, port| {
            let own = waits.is_some_and(|flow| flow.local_port == port);
            own || others(flows, files, (fd, port)).any(|(b, theirs)| {
                // Of TCP no option shares a port that nobody has asked for (`inet_csk_find_open_port`).
                meet((sock, SocketAddr::new(at, port)), (b, theirs))
                    && (sock.stream || !share(flows, sock, b))
            })
        };
        if !sock.stream {
            return Ok(self.stack.udp_free_port(taken)?);
        }
        let port = self.stack.tcp_free_port(ip, |flows, port| {
            let lives = |flow: &Tuple| is_left(flows, files, flow);
            taken(flows, port) || leftovers.keep(ip, port, Shares::NONE, lives)
        })?;
        Ok(port)
    }

    /// Where a connection to `remote` begins. connect() chooses no port that another socket of TCP has, at whatever address, unless that has it
    /// by such a choice too (`fastreuse` in `__inet_hash_connect`).
    pub(crate) fn find_source(&mut self, fd: Fd, remote: SocketAddr) -> Result<Option<SocketAddr>, Error> {
        let Ok(sock) = self.files.sock(fd) else { return Err(Error::NoSuchSocket) };
        let (bound, any) = (sock.bound, unspecified(remote.is_ipv6()));
        if bound.is_some_and(|b| b.port() != 0) {
            return Ok(bound);
        }
        let ip = bound.map(|b| b.ip());
        let (files, leftovers) = (&self.files, &mut self.leftovers);
        // Only the ports whose turn it is are asked for, each by the sockets that have it.
        let taken = |flows: &Flows<'_>, port| {
            let bound = |b: &Sock| b.is_tcp() && b.bound.is_some_and(|at| at.port() == port);
            files.at_port(port).any(|(_, b)| bound(b) && !has_given_back(flows, b))
                || leftovers.has_asked(port, |flow| is_left(flows, files, flow))
        };
        let port = self.stack.tcp_source_port(self.now, remote, ip, taken)?;
        Ok(Some(SocketAddr::new(ip.unwrap_or(any), port)))
    }

    /// Connections without a descriptor keep a port from who would not share it so. Those of a listener's queue have its port.
    fn is_kept(&mut self, port: u16, ip: Option<IpAddr>, shares: Shares) -> bool {
        let (flows, files) = (self.stack.tcp_flows(), &self.files);
        self.leftovers.keep(ip, port, shares, |flow| is_left(&flows, files, flow))
    }

    /// A connection, where there is one, has no descriptor any more: what is left of it keeps its port as that did.
    pub(crate) fn leave_behind(&mut self, left: Option<Left>) {
        if let Some(left) = left
            && self.stack.tcp_has_flow(&left.flow)
        {
            let (flows, files) = (self.stack.tcp_flows(), &self.files);
            self.leftovers.push(left, |flow| is_left(&flows, files, flow));
        }
    }

    pub(crate) fn collides(&self, fd: Fd, sock: &Sock) -> bool {
        let Some(mine) = sock.bound else { return false };
        let flows = self.stack.tcp_flows();
        let mut others = others(&flows, &self.files, (fd, mine.port()));
        others.any(|(b, theirs)| meet((sock, mine), (b, theirs)) && !share(&flows, sock, b))
    }

    /// Options are about to change: TIME-WAIT goes on sharing its port as the socket did when that began (`inet_twsk_alloc`).
    pub(crate) fn settle_shares(&mut self, fd: Fd) -> Result<(), Errno> {
        let sock = self.files.sock(fd)?;
        let (past, shares) = (sock.knobs.past, shares_of(sock));
        if past.shared.is_none() && self.is_waiting(sock) {
            self.files.sock_mut(fd)?.knobs.past.shared = Some(shares);
        }
        Ok(())
    }

    /// Its connection is in TIME-WAIT.
    fn is_waiting(&self, sock: &Sock) -> bool {
        is_waiting(&self.stack.tcp_flows(), sock)
    }

    /// What will be left of its connection without the descriptor. Nothing where that was bound anew: the rest was left then.
    pub(crate) fn leftover(&self, sock: &Sock) -> Option<Left> {
        let Kind::Conn(id) = sock.kind else { return None };
        let (local, remote) = self.stack.local_addr(id).ok().zip(self.stack.peer_addr(id).ok())?;
        let shares = waiting_shares(&self.stack.tcp_flows(), sock).unwrap_or_else(|| shares_of(sock));
        let asked = sock.bound.is_some_and(|b| b.port() != 0);
        (!has_left(sock)).then(|| Left { flow: Tuple::new(local, remote), shares, asked })
    }

    /// Its TIME-WAIT, which goes on without it.
    pub(crate) fn waits_on(&self, fd: Fd) -> Result<Option<Left>, Errno> {
        let sock = self.files.sock(fd)?;
        Ok(self.leftover(sock).filter(|_| self.is_waiting(sock)))
    }

    /// As [`place_of`].
    pub(crate) fn place_of(&self, sock: &Sock) -> Option<SocketAddr> {
        place_of(&self.stack.tcp_flows(), sock)
    }

    /// Gives a socket without a port one, before it is used.
    pub(crate) fn autobind(&mut self, fd: Fd) -> Result<(), Errno> {
        let sock = self.files.sock(fd)?;
        let any = SocketAddr::new(unspecified(sock.v6), 0);
        match sock.bound {
            Some(bound) if bound.port() != 0 => Ok(()),
            bound => self.take_port(fd, bound.unwrap_or(any)),
        }
    }

    /// A port that the system chose is given back; an address that was asked for stays.
    pub(crate) fn give_port_back(&mut self, fd: Fd) -> Result<(), Errno> {
        let sock = self.files.sock(fd)?;
        // What was bound behind the end of a connection goes back with the next one (`tcp_set_state`).
        if sock.knobs.past.rebound && matches!(sock.kind, Kind::Conn(_)) {
            return Ok(());
        }
        let live = sock.kind.id().and_then(|id| self.stack.local_addr(id).ok());
        let sock = self.files.sock_mut(fd)?;
        // ::ffff:0.0.0.0 was asked for, so what became of it by connecting stays (`SOCK_BINDADDR_LOCK`).
        if let (true, Some(SocketAddr::V4(bound)), Some(SocketAddr::V4(live))) = (sock.v6, sock.bound, live)
            && bound.ip().is_unspecified()
        {
            sock.bound = Some(SocketAddr::new((*live.ip()).into(), bound.port()));
        }
        if let Some(bound) = sock.bound.filter(|b| b.port() == 0 || sock.chosen) {
            let asked = !bound.ip().is_unspecified() || sock.v6 == bound.is_ipv4();
            (sock.bound, sock.chosen) = (asked.then(|| SocketAddr::new(bound.ip(), 0)), false);
            let port = live.map_or(bound.port(), |live| live.port());
            if sock.stream && port != 0 {
                sock.knobs.past.port = port;
            }
            self.files.index(fd);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{AF_INET, IPPROTO_SCTP, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_STREAM};
    use crate::call::{Call, Name, Optval, Reply};
    use crate::files::File;
    use crate::host::{Settings, Started};
    use crate::steps;
    use lowwater_core::base::{Duration, Rng};
    use lowwater_core::stack::SocketKind;
    use lowwater_core::tcp::SocketOptions;

    const HERE: [u8; 4] = [10, 0, 0, 1];

    fn host() -> Host {
        let addresses = vec![(IpAddr::from(HERE), 8)];
        Host::new(Settings { addresses, ..Settings::default() }).expect("a host")
    }

    fn done(host: &mut Host, call: Call) -> Reply {
        match host.call(call) {
            Started::Done(reply) => reply,
            Started::Blocked(id) => panic!("{id:?}"),
        }
    }

    fn socket_of(host: &mut Host, ty: i32, protocol: i32) -> Fd {
        done(host, Call::Socket { domain: AF_INET, ty: ty | SOCK_NONBLOCK, protocol }).ret as Fd
    }

    fn at(ip: [u8; 4], port: u16) -> Name {
        Name::Inet(SocketAddr::from((ip, port)))
    }

    /// The kinds of sockets that have ports.
    const KINDS: [(i32, i32); 3] = [(SOCK_STREAM, 0), (SOCK_DGRAM, 0), (SOCK_STREAM, IPPROTO_SCTP)];

    /// What asks for a port, and what it comes to.
    type Ask = (&'static str, (i32, i32), fn(Fd, u16) -> Call, Option<Errno>);

    const ASKS: [Ask; 8] = [
        (
            "connect",
            KINDS[0],
            |fd, _| Call::Connect { fd, addr: at([10, 0, 0, 2], 80) },
            Some(Errno::EINPROGRESS),
        ),
        ("bind", KINDS[0], |fd, n| Call::Bind { fd, addr: at(HERE, 2_000 + n) }, None),
        ("bind to any", KINDS[0], |fd, _| Call::Bind { fd, addr: at(HERE, 0) }, None),
        ("listen", KINDS[0], |fd, _| Call::Listen { fd, backlog: 1 }, None),
        ("bind of UDP", KINDS[1], |fd, n| Call::Bind { fd, addr: at(HERE, 2_000 + n) }, None),
        ("connect of UDP", KINDS[1], |fd, _| Call::Connect { fd, addr: at([10, 0, 0, 2], 80) }, None),
        ("bind of SCTP", KINDS[2], |fd, n| Call::Bind { fd, addr: at(HERE, 2_000 + n) }, None),
        ("bind of SCTP to any", KINDS[2], |fd, _| Call::Bind { fd, addr: at(HERE, 0) }, None),
    ];

    #[test]
    fn a_port_costs_as_much_beside_any_number_of_sockets() {
        for (name, (ty, protocol), ask, errno) in ASKS {
            let cost = |bound: u16| {
                let mut host = host();
                for n in 0..bound {
                    let (ty, protocol) = KINDS[usize::from(n / 2 % 3)];
                    let fd = socket_of(&mut host, ty, protocol);
                    // They have ports that the system could choose, some of them a connection.
                    assert_eq!(done(&mut host, Call::Bind { fd, addr: at(HERE, 33_001 + 2 * n) }).ret, 0);
                    if n % 2 == 0 {
                        done(&mut host, Call::Connect { fd, addr: at([10, 0, 0, 2], 80) });
                    }
                }
                let fds: Vec<Fd> = (0..20).map(|_| socket_of(&mut host, ty, protocol)).collect();
                steps::of(|| {
                    for (n, fd) in fds.into_iter().enumerate() {
                        assert_eq!(done(&mut host, ask(fd, n as u16)).errno, errno, "{name}");
                    }
                })
            };
            let (few, many) = (cost(10), cost(900));
            assert!(many <= few + 20, "{name}: {few} steps beside 10 sockets, {many} beside 900");
        }
    }

    /// So many connections end in TIME-WAIT, at port 80 and at ports that the system chose, all of them closed.
    fn live_on(host: &mut Host, listener: Fd, count: usize) {
        for n in 0..count {
            let fd = socket_of(host, SOCK_STREAM, 0);
            let connected = done(host, Call::Connect { fd, addr: at(HERE, 80) }).errno;
            let accepted = done(host, Call::Accept { fd: listener, flags: SOCK_NONBLOCK });
            assert_eq!(accepted.errno, None, "connection {n}: {connected:?}");
            let child = accepted.ret as Fd;
            let ends = if n % 2 == 0 { [fd, child] } else { [child, fd] };
            for fd in ends {
                assert_eq!(done(host, Call::Close { fd }).ret, 0);
            }
            // The next one may have a port of one before, whose TIME-WAIT begins again with later timestamps only.
            host.advance_until(host.now() + Duration::from_millis(2));
        }
        // Some have followed others.
        assert!(host.stack.small_objects().1 >= count * 4 / 5, "{:?}", host.stack.small_objects());
    }

    /// A name, and what is asked; none where it comes to what it should.
    type Asks<'a> = (&'a str, &'a dyn Fn(&mut Host) -> Option<Errno>);

    #[test]
    fn a_port_costs_as_much_beside_any_number_of_connections() {
        let bind = |host: &mut Host, port, shares: bool| {
            let fd = socket_of(host, SOCK_STREAM, 0);
            let (level, name) = (SOL_SOCKET, SO_REUSEADDR);
            done(host, Call::Setsockopt { fd, level, name, value: Optval::int(shares.into()) });
            done(host, Call::Bind { fd, addr: at(HERE, port) }).errno
        };
        let asks: [Asks<'_>; 5] = [
            ("bind to any", &|host| bind(host, 0, false)),
            ("bind", &|host| {
                let errno = bind(host, 80, false);
                if errno == Some(Errno::EADDRINUSE) { None } else { Some(errno.unwrap_or(Errno::EINVAL)) }
            }),
            ("bind and share", &|host| bind(host, 80, true)),
            ("listen", &|host| {
                let fd = socket_of(host, SOCK_STREAM, 0);
                done(host, Call::Listen { fd, backlog: 1 }).errno
            }),
            ("connect", &|host| {
                let fd = socket_of(host, SOCK_STREAM, 0);
                let errno = done(host, Call::Connect { fd, addr: at([10, 0, 0, 2], 80) }).errno;
                errno.filter(|e| *e != Errno::EINPROGRESS)
            }),
        ];
        let costs = |connections| {
            let mut host = host();
            let listener = socket_of(&mut host, SOCK_STREAM, 0);
            let (level, name) = (SOL_SOCKET, SO_REUSEADDR);
            done(&mut host, Call::Setsockopt { fd: listener, level, name, value: Optval::int(1) });
            assert_eq!(done(&mut host, Call::Bind { fd: listener, addr: at(HERE, 80) }).ret, 0);
            assert_eq!(done(&mut host, Call::Listen { fd: listener, backlog: 8 }).ret, 0);
            live_on(&mut host, listener, connections);
            // Who listens would have the port before all others.
            assert_eq!(done(&mut host, Call::Close { fd: listener }).ret, 0);
            asks.map(|(name, ask)| {
                steps::of(|| {
                    for _ in 0..20 {
                        assert_eq!(ask(&mut host), None, "{name}");
                    }
                })
            })
        };
        let (few, many) = (costs(10), costs(10_000));
        for ((name, _), (few, many)) in asks.iter().zip(few.into_iter().zip(many)) {
            assert!(many <= few + 200, "{name}: {few} steps beside 10 connections, {many} beside 10,000");
        }
    }

    /// What closed sockets have left is as much in the way of who asks for any port.
    #[test]
    fn no_port_that_a_connection_has_is_chosen() {
        let mut host = host();
        host.set_sysctl("net.ipv4.ip_local_port_range", "40000 40001").expect("two ports");
        let listener = socket_of(&mut host, SOCK_STREAM, 0);
        assert_eq!(done(&mut host, Call::Bind { fd: listener, addr: at(HERE, 80) }).ret, 0);
        assert_eq!(done(&mut host, Call::Listen { fd: listener, backlog: 8 }).ret, 0);
        for left in 0..=2 {
            let fd = socket_of(&mut host, SOCK_STREAM, 0);
            let bound = done(&mut host, Call::Bind { fd, addr: at(HERE, 0) }).errno;
            assert_eq!(bound, (left == 2).then_some(Errno::EADDRINUSE), "{left} are left");
            if left < 2 {
                done(&mut host, Call::Connect { fd, addr: at(HERE, 80) });
                let child = done(&mut host, Call::Accept { fd: listener, flags: SOCK_NONBLOCK }).ret as Fd;
                for fd in [fd, child] {
                    assert_eq!(done(&mut host, Call::Close { fd }).ret, 0);
                }
            }
        }
        assert_eq!(host.stack.small_objects().1, 2, "in TIME-WAIT");
    }

    /// A socket that shares with nobody may not have a port that some connection has: what a walk over all of them would find.
    fn keeps_what_a_walk_finds(host: &mut Host, port: u16, ip: [u8; 4]) -> bool {
        let mut sock = Sock::new(true, false, true, SocketOptions::new(host.stack.sysctl()));
        let place = SocketAddr::from((ip, port));
        sock.bound = Some(place);
        let all = host.stack.report(host.now).sockets.into_iter();
        let connections = all.filter(|s| s.kind == SocketKind::Tcp && s.state != State::Close);
        let accepted = connections.filter(|s| s.state != State::SynRecv);
        let has =
            accepted.filter_map(|s| s.local).any(|at| at.port() == port && covers(Some(place.ip()), at.ip()));
        let bound = host.collides(-1, &sock);
        assert_eq!(host.is_kept(port, Some(place.ip()), Shares::NONE) || bound, has || bound, "{place}");
        has && !bound
    }

    /// How many sockets have a place; `None` where the index lacks one of them, or has one at another port than its own.
    fn found(host: &Host) -> Option<usize> {
        let port = |file: &File| match file {
            File::Socket(sock) => match &sock.sctp {
                Some(sctp) => sctp.bound.first().copied(),
                None => host.place_of(sock),
            },
            _ => None,
        };
        let places = host.files.iter().filter_map(|(fd, file)| Some((fd, port(file)?.port())));
        let places: Vec<(Fd, u16)> = places.filter(|(_, port)| *port != 0).collect();
        let all = places.iter().all(|(fd, port)| host.files.at_port(*port).any(|(other, _)| other == *fd));
        (all && host.files.index_is_true()).then_some(places.len())
    }

    /// Whoever changes what a socket is bound to keeps the index.
    #[test]
    fn the_index_of_ports_has_what_a_walk_finds() {
        let (mut seen, mut kept) = (0, 0);
        for seed in 0..50 {
            let (mut host, mut rng) = (host(), Rng::new(seed));
            let mut fds: Vec<Fd> = Vec::new();
            for _ in 0..200 {
                let one = |rng: &mut Rng| rng.below(fds.len().max(1) as u64) as usize;
                let fd = fds.get(one(&mut rng)).copied().unwrap_or(-1);
                let port = [0, 0, 80, 81, 40_000][rng.below(5) as usize];
                let ip = if rng.below(2) == 0 { HERE } else { [0; 4] };
                match rng.below(8) {
                    0 | 1 => {
                        let (ty, protocol) = KINDS[(rng.below(6) as usize).saturating_sub(3)];
                        fds.push(socket_of(&mut host, ty, protocol));
                    }
                    2 | 3 => drop(host.call(Call::Bind { fd, addr: at(ip, port) })),
                    4 => drop(host.call(Call::Listen { fd, backlog: 8 })),
                    // To itself, where somebody listens.
                    5 => drop(host.call(Call::Connect { fd, addr: at(HERE, 80) })),
                    6 if rng.below(2) == 0 => drop(host.call(Call::Connect { fd, addr: Name::UNSPEC })),
                    6 => match host.call(Call::Accept { fd, flags: 0 }) {
                        Started::Done(reply) if reply.ret >= 0 => fds.push(reply.ret as Fd),
                        _ => {}
                    },
                    _ => {
                        drop(host.call(Call::Close { fd }));
                        fds.retain(|other| *other != fd);
                    }
                }
                host.advance_until(host.now() + Duration::from_millis(rng.below(50)));
                seen += found(&host).unwrap_or_else(|| panic!("seed {seed}"));
                let locals = host.stack.report(host.now).sockets.into_iter().filter_map(|s| s.local);
                let ports: Vec<u16> = locals.map(|at| at.port()).chain([80, 81]).collect();
                for port in ports {
                    kept += usize::from(keeps_what_a_walk_finds(&mut host, port, ip));
                }
            }
        }
        assert!(seen > 10_000 && kept > 1_000, "{seen}, {kept}");
    }
}
