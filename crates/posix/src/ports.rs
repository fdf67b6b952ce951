//! Who has which port: what is chosen or asked for, who shares it, and when it goes back.
use crate::abi::{SO_REUSEADDR, SO_REUSEPORT, SOL_SOCKET};
use crate::call::Fd;
use crate::errno::Errno;
use crate::files::{File, Kind, Sock};
use crate::host::Host;
use crate::leftovers::{Left, Shares};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use lowwater_core::base::{Error, Tuple};
use lowwater_core::stack::covers;
use lowwater_core::tcp::State;
use std::collections::BTreeSet;

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

impl Host {
    /// It has a port (`inet_num`). A connection that is over has given back one that the system had chosen, and keeps what it got since.
    pub(crate) fn has_port(&self, sock: &Sock) -> bool {
        let kept = sock.bound.is_some_and(|b| b.port() != 0);
        match sock.kind {
            Kind::Fresh => kept,
            Kind::Conn(id) => !self.is_over(id) || (kept && (!sock.chosen || sock.knobs.past.rebound)),
            Kind::Udp(_) => kept,
            Kind::Listener(_) => true,
        }
    }

    /// Its connection is over, TIME-WAIT too, and the port was not its own (`tcp_done`: `inet_put_port`).
    fn has_given_back(&self, sock: &Sock) -> bool {
        matches!(sock.kind, Kind::Conn(id) if !matches!(self.stack.tcp_state(id), Ok(state) if state != State::Close))
            && !self.has_port(sock)
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
        let taken =
            || waits || self.collides(fd, &sock) || (sock.stream && self.is_kept(port, ip, shares_of(&sock)));
        if !sock.chosen && taken() {
            return Err(Errno::EADDRINUSE);
        }
        if !sock.stream {
            self.bind_udp(&mut sock)?;
        }
        *self.files.sock_mut(fd)? = sock;
        self.files.index(fd);
        Ok(())
    }

    /// A port for a socket that asks for none. Those that are not for it are collected first, from the descriptors (a socket that is bound
    /// only has no object in the stack) and, of TCP, from the connections: one walk over both, and one over the range.
    fn find_port(&mut self, fd: Fd, sock: &Sock, at: IpAddr, ip: Option<IpAddr>) -> Result<u16, Errno> {
        let others = self.others(fd).filter(|&(b, theirs)| {
            let mine = SocketAddr::new(at, theirs.port());
            // Of TCP no option shares a port that nobody has asked for (`inet_csk_find_open_port`).
            meet((sock, mine), (b, theirs)) && (sock.stream || !self.share(sock, b))
        });
        let mut taken: BTreeSet<u16> = others.map(|(_, theirs)| theirs.port()).collect();
        if !sock.stream {
            return Ok(self.stack.udp_free_port(|port| taken.contains(&port))?);
        }
        taken.extend(self.stack.tcp_ports_with_connections(ip));
        Ok(self.stack.tcp_free_port(ip, |port| taken.contains(&port))?)
    }

    /// Where a connection to `remote` begins. connect() chooses no port that another socket of TCP has, at whatever address, unless that has it
    /// by such a choice too (`fastreuse` in `__inet_hash_connect`).
    pub(crate) fn find_source(&mut self, fd: Fd, remote: SocketAddr) -> Result<Option<SocketAddr>, Error> {
        let Ok(sock) = self.files.sock(fd) else { return Err(Error::NoSuchSocket) };
        let (bound, any) = (sock.bound, unspecified(remote.is_ipv6()));
        if bound.is_some_and(|b| b.port() != 0) {
            return Ok(bound);
        }
        let mut taken: BTreeSet<u16> = self.leftovers.asked(|flow| self.is_left(flow)).collect();
        for (_, file) in self.files.iter() {
            if let File::Socket(b) = file
                && b.is_tcp()
                && let Some(port) = b.bound.map(|at| at.port()).filter(|&port| port != 0)
                && !taken.contains(&port)
                && !self.has_given_back(b)
            {
                taken.insert(port);
            }
        }
        let ip = bound.map(|b| b.ip());
        let port = self.stack.tcp_source_port(self.now, remote, ip, |port| taken.contains(&port))?;
        Ok(Some(SocketAddr::new(ip.unwrap_or(any), port)))
    }

    /// Connections without a descriptor keep a port from who would share it so: all of them from who would not at all.
    fn is_kept(&self, port: u16, ip: Option<IpAddr>, shares: Shares) -> bool {
        let alone = !shares.addr && !shares.port;
        (alone && self.stack.tcp_port_has_connections(port, ip))
            || self.leftovers.keep(ip, port, shares, |flow| self.is_left(flow))
    }

    /// A connection, where there is one, has no descriptor any more: what is left of it keeps its port as that did.
    pub(crate) fn leave_behind(&mut self, left: Option<Left>) {
        if let Some(left) = left
            && self.stack.tcp_has_flow(&left.flow)
        {
            let mut leftovers = core::mem::take(&mut self.leftovers);
            leftovers.push(left, |flow| self.is_left(flow));
            self.leftovers = leftovers;
        }
    }

    /// A connection of this flow lives on without a descriptor, or in TIME-WAIT while its descriptor is bound elsewhere, or to nothing.
    fn is_left(&self, flow: &Tuple) -> bool {
        let has_left = |fd| self.files.sock(fd).is_ok_and(has_left);
        match self.stack.tcp_lookup(flow) {
            Some(id) => self.files.fd_of(id).is_none_or(has_left),
            None => self.stack.tcp_has_flow(flow),
        }
    }

    pub(crate) fn collides(&self, fd: Fd, sock: &Sock) -> bool {
        let Some(mine) = sock.bound else { return false };
        self.others(fd).any(|(b, theirs)| meet((sock, mine), (b, theirs)) && !self.share(sock, b))
    }

    /// The other sockets that have a place.
    fn others(&self, fd: Fd) -> impl Iterator<Item = (&Sock, SocketAddr)> {
        self.files.iter().filter_map(move |(other, file)| match file {
            File::Socket(b) if other != fd && !self.has_given_back(b) => {
                self.place_of(b).map(|theirs| (&**b, theirs))
            }
            _ => None,
        })
    }

    /// The two may share a port: by SO_REUSEADDR unless the other one listens, of UDP always (`inet_csk_bind_conflict`,
    /// `inet_rcv_saddr_equal`).
    fn share(&self, a: &Sock, b: &Sock) -> bool {
        let (mine, listens) = (shares_of(a), matches!(b.kind, Kind::Listener(_)));
        let by = |theirs: Shares| mine.with(Shares { addr: theirs.addr && !(listens && a.stream), ..theirs });
        // TIME-WAIT and the socket that still has the port are asked each.
        let waiting = self.waiting_shares(b).filter(|_| !b.knobs.past.rebound);
        let own = (waiting.is_none() || self.has_port(b)).then(|| shares_of(b));
        [own, waiting].into_iter().flatten().all(by)
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
        matches!(sock.kind, Kind::Conn(id) if self.stack.tcp_state(id) == Ok(State::TimeWait))
    }

    /// By what its TIME-WAIT shares the port, where that may differ from its options.
    pub(crate) fn waiting_shares(&self, sock: &Sock) -> Option<Shares> {
        sock.knobs.past.shared.filter(|_| self.is_waiting(sock))
    }

    /// What will be left of its connection without the descriptor. Nothing where that was bound anew: the rest was left then.
    pub(crate) fn leftover(&self, sock: &Sock) -> Option<Left> {
        let Kind::Conn(id) = sock.kind else { return None };
        let (local, remote) = self.stack.local_addr(id).ok().zip(self.stack.peer_addr(id).ok())?;
        let shares = self.waiting_shares(sock).unwrap_or_else(|| shares_of(sock));
        let asked = sock.bound.is_some_and(|b| b.port() != 0);
        (!has_left(sock)).then(|| Left { flow: Tuple::new(local, remote), shares, asked })
    }

    /// Its TIME-WAIT, which goes on without it.
    pub(crate) fn waits_on(&self, fd: Fd) -> Result<Option<Left>, Errno> {
        let sock = self.files.sock(fd)?;
        Ok(self.leftover(sock).filter(|_| self.is_waiting(sock)))
    }

    /// Where a socket is: what it was bound to, with the address that connecting has fixed (`inet_rcv_saddr`).
    pub(crate) fn place_of(&self, sock: &Sock) -> Option<SocketAddr> {
        let fixed = match sock.kind {
            Kind::Conn(id) if !sock.knobs.past.rebound => self.stack.local_addr(id).ok(),
            Kind::Udp(id) => self.stack.local_addr(id).ok(),
            _ => None,
        };
        let bound = sock.bound?;
        // A port that connect() has chosen is one as any other.
        let port = |fixed: SocketAddr| if bound.port() == 0 { fixed.port() } else { bound.port() };
        Some(fixed.map_or(bound, |fixed| SocketAddr::new(fixed.ip(), port(fixed))))
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
        }
        Ok(())
    }
}
