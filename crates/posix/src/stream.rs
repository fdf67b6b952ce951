//! The life of a TCP socket: bind, listen, accept, connect, shutdown, close.
use crate::abi::{
    IPV6_V6ONLY, SHUT_RD, SHUT_RDWR, SHUT_WR, SO_BINDTODEVICE, SO_PEEK_OFF, SOCK_CLOEXEC, SOCK_NONBLOCK,
    SOL_IP, SOL_IPV6, SOL_SOCKET,
};
use crate::block::{Holds, Progress};
use crate::call::{Fd, Name, Reply};
use crate::calls::Answer;
use crate::errno::Errno;
use crate::fastopen::Fast;
use crate::files::{Attempt, File, Kind, Past, Residue, Sock, take_addr};
use crate::host::{ANY, Host};
use crate::ports::unspecified;
use crate::sockopt::TIMER_US;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use lowwater_core::base::{Error, SocketId};
use lowwater_core::stack::{ListenAddr, ListenOptions};
use lowwater_core::tcp::{How, SocketOptions, State};

/// Directions that are shut down.
const READING: u8 = 1;
const WRITING: u8 = 2;

impl Host {
    /// bind(2): `__inet_bind`, `__inet6_bind`.
    pub(crate) fn bind(&mut self, fd: Fd, name: Name) -> Result<Reply, Errno> {
        let sock = self.files.sock(fd)?;
        let v6 = sock.v6;
        let addr = match name {
            // AF_UNSPEC with the address 0.0.0.0 is an old way to write AF_INET.
            Name::Unspec(Some(any), _) if !v6 && any.ip().is_unspecified() => any.into(),
            name => take_addr(v6, name)?,
        };
        if v6 && sock.v6only() && addr.is_ipv4() {
            return Err(Errno::EINVAL);
        }
        if matches!(addr.ip(), IpAddr::V6(ip) if ip.is_multicast()) {
            return Err(Errno::EINVAL);
        }
        // Sockets of IPv6 ask that before they look whose the address is.
        if v6 && self.has_port(sock) {
            return Err(Errno::EINVAL);
        }
        self.find_device(fd, addr)?;
        let addr = SocketAddr::new(addr.ip(), addr.port());
        let sock = self.files.sock(fd)?;
        let any = sock.plain(SOL_IP, crate::abi::IP_FREEBIND) != 0;
        if !any && !addr.ip().is_unspecified() && !self.is_ours(addr.ip()) {
            return Err(Errno::EADDRNOTAVAIL);
        }
        if self.has_port(sock) {
            return Err(Errno::EINVAL);
        }
        let waits_on = self.waits_on(fd)?;
        if addr.port() == 0 && sock.plain(SOL_IP, crate::abi::IP_BIND_ADDRESS_NO_PORT) != 0 {
            // connect() chooses the port, which then needs to be free for its peer only.
            self.files.sock_mut(fd)?.bound = Some(addr);
            self.files.index(fd);
        } else if let Err(errno) = self.take_port(fd, addr) {
            // The address of before is forgotten, too (`inet_reset_saddr`), its port is not.
            let port = self.getsockname(fd)?.addr.map_or(0, |told| told.port());
            let sock = self.files.sock_mut(fd)?;
            (sock.bound, sock.knobs.past.port) = (None, port);
            self.files.index(fd);
            self.leave_behind(waits_on);
            return Err(errno);
        }
        self.leave_behind(waits_on);
        let sock = self.files.sock_mut(fd)?;
        sock.knobs.past = Past { rebound: matches!(sock.kind, Kind::Conn(_)), port: 0, ..sock.knobs.past };
        // An address of IPv6 is for nothing else (`__inet6_bind`).
        if addr.is_ipv6() && !addr.ip().is_unspecified() {
            self.files.sock_mut(fd)?.knobs.plain.insert((SOL_IPV6, IPV6_V6ONLY), 1);
        }
        Ok(Reply::ok(0))
    }

    /// An address of a link is none without the device, which sin6_scope_id names, for the socket's other addresses too, or SO_BINDTODEVICE
    /// has named (`__inet6_bind`, `tcp_v6_connect`, `__ip6_datagram_connect`).
    pub(crate) fn find_device(&mut self, fd: Fd, addr: SocketAddr) -> Result<(), Errno> {
        let SocketAddr::V6(to) = addr else { return Ok(()) };
        let of_group = to.ip().is_multicast() && matches!(to.ip().octets()[1] & 0xf, 1 | 2);
        if !to.ip().is_unicast_link_local() && !of_group {
            return Ok(());
        }
        let sock = self.files.sock_mut(fd)?;
        if to.scope_id() != 0 {
            sock.knobs.plain.insert((SOL_SOCKET, SO_BINDTODEVICE), 1);
        }
        if sock.plain(SOL_SOCKET, SO_BINDTODEVICE) == 0 { Err(Errno::EINVAL) } else { Ok(()) }
    }

    /// The connection is over: what Linux calls TCP_CLOSE, TIME-WAIT included.
    pub(crate) fn is_over(&self, id: SocketId) -> bool {
        crate::ports::is_over(&self.stack.tcp_flows(), id)
    }

    /// An address of some device, or one that any may have.
    pub(crate) fn is_ours(&self, ip: IpAddr) -> bool {
        let ifaces = self.stack.ip().ifaces();
        ifaces.owner_of(ip).is_some()
            || ip.is_loopback()
            || ip == IpAddr::V4(Ipv4Addr::BROADCAST)
            || ifaces.iter().any(|(_, iface)| iface.any_address)
    }

    /// listen(2): `inet_listen`, which changes the backlog of a listener.
    pub(crate) fn listen(&mut self, fd: Fd, backlog: i32) -> Result<Reply, Errno> {
        let sock = self.files.sock(fd)?;
        if !sock.stream {
            return Err(Errno::EOPNOTSUPP);
        }
        let backlog = u32::try_from(backlog).unwrap_or(u32::MAX);
        match sock.kind {
            Kind::Fresh => {}
            Kind::Listener(id) => {
                self.stack.tcp_set_backlog(self.now, id, backlog)?;
                return Ok(Reply::ok(0));
            }
            _ => return Err(Errno::EINVAL),
        }
        // How acknowledgements go begins anew, also where the port is another's (`inet_csk_listen_start`); what a listener is told later its
        // children have.
        let sock = self.files.sock_mut(fd)?;
        sock.options.interactive = false;
        if let Some(residue) = &mut sock.knobs.residue {
            residue.rcv_mss = 0;
        }
        self.autobind(fd)?;
        let sock = self.files.sock(fd)?.clone();
        let Some(bound) = sock.bound else { return Err(Errno::EADDRINUSE) };
        if self.collides(fd, &sock) {
            return Err(Errno::EADDRINUSE);
        }
        let only = sock.v6only();
        let options = ListenOptions { backlog, ask: false, options: sock.options };
        // Only an AF_INET6 socket without IPV6_V6ONLY listens for both families.
        let both = bound.ip().is_unspecified() && bound.is_ipv6() && !only;
        let ip = (!both).then(|| bound.ip());
        let addr = ListenAddr { ip, port: Some(bound.port()) };
        let id = self.stack.tcp_listen(self.now, addr, options)?;
        let sock = self.files.sock_mut(fd)?;
        (sock.kind, sock.shut) = (Kind::Listener(id), 0);
        self.files.index(fd);
        Ok(Reply::ok(0))
    }

    /// accept(2): `inet_csk_accept`.
    pub(crate) fn accept(&mut self, fd: Fd, flags: i32, p: &mut Progress) -> Answer {
        self.files.get(fd)?;
        if flags & !(SOCK_NONBLOCK | SOCK_CLOEXEC) != 0 {
            return Err(Errno::EINVAL);
        }
        // Who cannot have a descriptor is told so first, and leaves the connection where it is (`__sys_accept4_file`).
        let new = self.reserve_for(p)?;
        let sock = self.files.sock(fd)?;
        if !sock.stream {
            return Err(Errno::EOPNOTSUPP);
        }
        let Kind::Listener(listener) = sock.kind else { return Err(Errno::EINVAL) };
        let (nonblocking, timeout) = (sock.nonblocking, sock.knobs.rcvtimeo);
        let (id, peer) = match self.stack.tcp_accept(self.now, listener) {
            Ok(accepted) => accepted,
            Err(Error::WouldBlock) if p.hurries(nonblocking, None) => return Err(Errno::EAGAIN),
            Err(Error::WouldBlock) => return p.wait(self.now, timeout),
            Err(e) => return Err(e.into()),
        };
        let mut child = self.files.sock(fd)?.child(id, flags & SOCK_NONBLOCK != 0);
        child.knobs.past.fin_told = self.has_peer_closed(id);
        let addr = Some(child.shown(peer));
        self.files.sock_mut(fd)?.knobs.heirs.pop_front_if(|(last, _)| *last == id);
        self.install_reserved(new, child, flags, p);
        // Bound and key are of the listener's queue, and a child has none (`inet_csk_clone_lock`).
        let options = self.options_of(self.files.sock(new)?);
        if options.fastopen != 0 || options.fastopen_key.is_some() {
            self.change(new, |o| (o.fastopen, o.fastopen_key) = (0, None))?;
        }
        Ok(Some(Reply { addr, ..Reply::ok(new.into()) }))
    }

    /// The descriptor of what an accept() waits for is taken when it begins.
    pub(crate) fn reserve_for(&mut self, p: &mut Progress) -> Result<Fd, Errno> {
        let fd = if let Holds::Number(fd) = p.holds { fd } else { self.files.reserve()? };
        p.holds = Holds::Number(fd);
        Ok(fd)
    }

    /// What was accepted gets the descriptor that waited for it.
    pub(crate) fn install_reserved(&mut self, new: Fd, child: Sock, flags: i32, p: &mut Progress) {
        p.holds = Holds::Nothing;
        self.files.install(new, File::Socket(Box::new(child)));
        self.files.set_cloexec(new, flags & SOCK_CLOEXEC != 0);
    }

    /// connect(2): `__inet_stream_connect`, `inet_dgram_connect`.
    pub(crate) fn connect(&mut self, fd: Fd, name: Name, p: &mut Progress) -> Answer {
        // The address is copied before anybody asks what file it is (`__sys_connect`).
        self.files.get(fd)?;
        match name {
            Name::Bad => return Err(Errno::EFAULT),
            Name::Strange => return Err(Errno::EINVAL),
            _ => {}
        }
        let sock = self.files.sock(fd)?;
        if matches!(name, Name::Short(0, _)) {
            return Err(Errno::EINVAL);
        }
        if !sock.stream {
            return self.udp_connect(fd, name).map(Some);
        }
        if matches!(name, Name::Unspec(..)) {
            sock.kind.id().into_iter().for_each(|id| self.waiting.cut(id));
            self.disconnect(fd)?;
            return Ok(Some(Reply::ok(0)));
        }
        let nonblocking = sock.nonblocking;
        match sock.kind {
            Kind::Listener(_) | Kind::Udp(_) => Err(Errno::EISCONN),
            // Who waits already goes on waiting (`inet_wait_for_connect`).
            Kind::Conn(_) if sock.attempt == Attempt::Spoilt && !p.begun => Err(Errno::EINVAL),
            // The SYN waits for the first write, or that has not come back, and so does who may wait.
            Kind::Conn(id) if sock.knobs.past.fast.is_deferred() && !p.begun => {
                p.fast = true;
                self.connect_result(fd, id, nonblocking, Errno::EISCONN, p)
            }
            Kind::Conn(id) if sock.attempt != Attempt::None => {
                // Who waits for what another call began is told so, however long that was (`__inet_stream_connect`).
                let still = match (p.first, p.fast) {
                    (true, _) => Errno::EINPROGRESS,
                    (_, true) => Errno::EISCONN,
                    _ => Errno::EALREADY,
                };
                self.connect_result(fd, id, nonblocking, still, p)
            }
            // Another call that waited for the handshake, too, was answered first.
            Kind::Conn(_) if p.begun => Ok(Some(Reply::ok(0))),
            Kind::Conn(_) => Err(Errno::EISCONN),
            // shutdown() has dissolved what it waited for, and left the reason.
            Kind::Fresh if p.begun => {
                let error = self.files.sock_mut(fd)?.take_error();
                // Who tells that dissolves it once more (`__inet_stream_connect`: `sock_error`).
                self.disconnect(fd)?;
                Err(error.unwrap_or(Errno::ECONNABORTED))
            }
            Kind::Fresh => {
                let remote = take_addr(sock.v6, name)?;
                let (id, _) = self.open_connection(fd, remote, None)?;
                if self.fast(fd).is_deferred() {
                    return Ok(Some(Reply::ok(0)));
                }
                p.first = true;
                self.connect_result(fd, id, nonblocking, Errno::EINPROGRESS, p)
            }
        }
    }

    /// Begins to connect, with as much of `data` as the SYN takes (Fast Open); how much that is.
    pub(crate) fn open_connection(
        &mut self,
        fd: Fd,
        remote: SocketAddr,
        data: Option<&[u8]>,
    ) -> Result<(SocketId, usize), Errno> {
        let sock = self.files.sock(fd)?;
        if sock.v6only() && remote.is_ipv4() {
            return Err(Errno::ENETUNREACH);
        }
        if remote.ip().is_multicast() || remote.ip() == IpAddr::V4(Ipv4Addr::BROADCAST) {
            return Err(Errno::ENETUNREACH);
        }
        self.find_device(fd, remote)?;
        let sock = self.files.sock(fd)?;
        let remote = Self::stack_remote(remote, sock.bound);
        self.may_reach(sock.bound, remote)?;
        let options = sock.options.clone();
        let opened = self.find_source(fd, remote).and_then(|from| match data {
            Some(data) => self.stack.tcp_connect_with_data(self.now, remote, from, &options, data),
            None => self.stack.tcp_connect(self.now, remote, from, &options).map(|id| (id, 0)),
        });
        let (id, taken) = match opened {
            Ok(opened) => opened,
            // The flow of a socket that was bound is taken; without a port none is left (`__inet_hash_connect`). The attempt is over then, and
            // what the system had chosen goes back (`tcp_v4_connect`, `tcp_set_state`).
            Err(Error::AddressInUse | Error::AddressNotAvailable) => {
                self.settle_any(fd, remote)?;
                self.give_port_back(fd)?;
                return Err(Errno::EADDRNOTAVAIL);
            }
            Err(e) => return Err(e.into()),
        };
        let local = self.stack.local_addr(id).ok();
        let deferred = self.stack.tcp_is_deferred(id);
        let sock = self.files.sock_mut(fd)?;
        let fast = match data {
            // Its write has noted that.
            Some(_) => sock.knobs.past.fast,
            None => Fast::of_connect(deferred, options.fastopen_connect),
        };
        sock.knobs.past = Past { own: local.map_or(0, |local| local.port()), fast, ..Past::default() };
        (sock.kind, sock.attempt, sock.error) = (Kind::Conn(id), Attempt::Open, None);
        sock.bound = sock.bound.or_else(|| local.map(|_| SocketAddr::new(unspecified(sock.v6), 0)));
        if let Some(soft) = sock.knobs.soft.take() {
            self.stack.tcp_set_soft_error(id, soft)?;
        }
        self.files.index(fd);
        self.watched.look_at(fd);
        // What the socket's last connection left unread there counts for this one.
        self.charge_errors(fd);
        Ok((id, taken))
    }

    /// ::ffff:0.0.0.0 becomes the route's address before a port is looked for, and stays that (`tcp_v4_connect`, `SOCK_BINDADDR_LOCK`).
    fn settle_any(&mut self, fd: Fd, remote: SocketAddr) -> Result<(), Errno> {
        let sock = self.files.sock_mut(fd)?;
        if let (true, Some(SocketAddr::V4(bound))) = (sock.v6, sock.bound)
            && bound.ip().is_unspecified()
            && let Ok(way) = self.stack.ip().lookup(None, remote.ip(), self.now)
        {
            sock.bound = Some(SocketAddr::new(way.src, bound.port()));
        }
        Ok(())
    }

    /// Nobody of one family is reached from an address of the other that was asked for, and from 127.0.0.1 only this host
    /// (`__mkroute_output`).
    pub(crate) fn may_reach(&self, bound: Option<SocketAddr>, remote: SocketAddr) -> Result<(), Errno> {
        match bound.map(|b| (b.ip(), remote.ip())) {
            Some((IpAddr::V6(from), IpAddr::V4(_))) if !from.is_unspecified() => Err(Errno::ENETUNREACH),
            // What is no address of ours is for listeners (IP_FREEBIND).
            Some((IpAddr::V4(from), IpAddr::V4(_)))
                if !from.is_unspecified() && !self.is_ours(from.into()) =>
            {
                Err(Errno::ENETUNREACH)
            }
            Some((IpAddr::V4(from), to)) if to.is_ipv6() || (from.is_loopback() && !self.is_ours(to)) => {
                // Where nothing leads there that is told first. ::ffff:0.0.0.0 is an address, too (`ip6_dst_lookup_tail`).
                self.stack.ip().lookup(None, to, self.now)?;
                Err(if to.is_ipv6() { Errno::EAFNOSUPPORT } else { Errno::EINVAL })
            }
            _ => Ok(()),
        }
    }

    /// The unspecified address means this host, in the family of the address that the socket has: of IPv4 that address itself, where there is
    /// one (`ip_route_output_key_hash_rcu`).
    pub(crate) fn stack_remote(remote: SocketAddr, bound: Option<SocketAddr>) -> SocketAddr {
        let four = bound.map(|b| b.ip()).filter(|ip| ip.is_ipv4());
        let ip = match (remote.ip(), four) {
            (IpAddr::V4(ip), Some(own)) if ip.is_unspecified() && !own.is_unspecified() => own,
            (IpAddr::V4(ip), _) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            (IpAddr::V6(ip), Some(_)) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            (IpAddr::V6(ip), None) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            (ip, _) => ip,
        };
        SocketAddr::new(ip, remote.port())
    }

    /// What a connect() under way comes to.
    pub(crate) fn connect_result(
        &mut self,
        fd: Fd,
        id: SocketId,
        nonblocking: bool,
        still: Errno,
        p: &mut Progress,
    ) -> Answer {
        match self.stack.tcp_state(id) {
            Ok(State::SynSent | State::SynRecv) => {
                let timeout = self.files.sock(fd)?.knobs.sndtimeo;
                if p.expired || p.hurries(nonblocking, timeout) {
                    return Err(still);
                }
                p.wait(self.now, timeout)
            }
            Ok(State::Close) | Err(_) => Err(self.end_attempt(fd, id)?),
            Ok(_) => {
                self.files.sock_mut(fd)?.attempt = Attempt::None;
                Ok(Some(Reply::ok(0)))
            }
        }
    }

    /// What the call is told that hears first how an attempt failed, which leaves a socket that can try again (`__inet_stream_connect`,
    /// `tcp_disconnect`).
    pub(crate) fn end_attempt(&mut self, fd: Fd, id: SocketId) -> Result<Errno, Errno> {
        // What reading the error queue has left is the socket's (`sock_dequeue_err_skb`).
        let error = self.files.sock_mut(fd)?.take_error();
        let error = error.or_else(|| self.stack.take_error(id).map(Errno::from));
        self.waiting.cut(id);
        self.forget(fd, Some(id))?;
        self.files.sock_mut(fd)?.shut = 0;
        self.wake_fd(fd, ANY);
        self.wake_blocked(&[id]);
        Ok(error.unwrap_or(Errno::ECONNABORTED))
    }

    /// The options that a connection or listener leaves: buffers stay as large as they have become, and so does what was seen of
    /// reordering and of how much of a buffer payload takes (`tcp_disconnect`).
    fn options_after(&mut self, id: SocketId) -> Result<SocketOptions, Error> {
        let mut options = self.stack.options(id)?.clone();
        if let (Ok(info), Ok(memory)) = (self.stack.tcp_info(self.now, id), self.stack.memory(id)) {
            options.reordering = info.reordering;
            options.rcv_ratio = self.stack.tcp_rcv_ratio(id).unwrap_or(options.rcv_ratio);
            // Nothing takes back that a controller, or a bound, had the socket paced (`tcp_disconnect`).
            options.paced |= self.stack.tcp_needs_pacing(id).unwrap_or(false);
            (options.rmem, options.wmem) = (memory.rcvbuf, memory.sndbuf);
        }
        Ok(options)
    }

    /// What TCP_INFO will tell of what a socket was.
    fn residue(&mut self, fd: Fd, id: SocketId) -> Residue {
        let reordering = self.stack.options(id).map_or(0, |o| o.reordering);
        let info = self.stack.tcp_info(self.now, id).unwrap_or_else(|_| self.unused(reordering));
        let info = self.unanswered(fd, id, info);
        let max_window = self.stack.tcp_max_window(id).unwrap_or(0);
        let unsent = info.notsent_bytes;
        Residue { info, max_window, unsent, rcv_mss: 0, at: self.now }.dissolved()
    }

    /// The same of a listener, which changes little of what the connection before it left.
    fn residue_of_listener(&mut self, fd: Fd, id: SocketId) -> Result<Residue, Errno> {
        match self.files.sock_mut(fd)?.knobs.residue.take() {
            Some(old) => Ok(old.dissolved()),
            None => Ok(self.residue(fd, id)),
        }
    }

    /// Options that do not outlive what they were set for: TCP_MAXSEG and TCP_WINDOW_CLAMP, which `tcp_disconnect` clears with what
    /// the peer had said, TCP_QUICKACK, with the state of acknowledgements, and SO_PEEK_OFF, with what there was to look at. TCP_RTO_MIN_US and
    /// TCP_DELACK_MAX_US become their longest, whatever the settings say.
    fn clear_options(&mut self, fd: Fd) -> Result<(), Errno> {
        let sock = self.files.sock_mut(fd)?;
        (sock.options.maxseg, sock.options.window_clamp) = (0, 0);
        (sock.options.rto_min_us, sock.options.delack_max_us) = (TIMER_US.1, TIMER_US.1);
        sock.options.interactive = false;
        sock.knobs.plain.remove(&(SOL_SOCKET, SO_PEEK_OFF));
        Ok(())
    }

    /// The socket is as new, most of its options and what it was bound to kept.
    fn forget(&mut self, fd: Fd, id: Option<SocketId>) -> Result<(), Errno> {
        if let Some(id) = id {
            let old = self.files.sock(fd)?.options.clone();
            self.files.sock_mut(fd)?.options = self.options_after(id).unwrap_or(old);
        }
        self.clear_options(fd)?;
        let residue = match id {
            Some(id) if matches!(self.files.sock(fd)?.kind, Kind::Listener(_)) => {
                Some(Box::new(self.residue_of_listener(fd, id)?))
            }
            Some(id) => {
                self.files.sock_mut(fd)?.knobs.soft = self.stack.tcp_take_soft_error(id);
                Some(Box::new(self.residue(fd, id)))
            }
            None => None,
        };
        self.end_feedback(fd);
        self.give_port_back(fd)?;
        let sock = self.files.sock_mut(fd)?;
        (sock.kind, sock.attempt, sock.knobs.past.fast) = (Kind::Fresh, Attempt::None, Fast::Nothing);
        sock.knobs.residue = residue;
        sock.knobs.heirs.clear();
        self.files.index(fd);
        if let Some(id) = id {
            self.stack.close(self.now, id)?;
        }
        Ok(())
    }

    /// connect() with AF_UNSPEC, and shutdown() of what is not connected yet (`tcp_disconnect`).
    fn disconnect(&mut self, fd: Fd) -> Result<(), Errno> {
        let kind = self.files.sock(fd)?.kind;
        match kind {
            Kind::Fresh | Kind::Udp(_) => {
                self.clear_options(fd)?;
                let info = self.unused(self.files.sock(fd)?.options.reordering);
                let unused = Residue { info, max_window: 0, unsent: 0, rcv_mss: 0, at: self.now };
                let sock = self.files.sock_mut(fd)?;
                let before = sock.knobs.residue.take().map_or(unused, |old| *old);
                sock.knobs.residue = Some(Box::new(before.dissolved()));
                sock.shut = 0;
            }
            Kind::Listener(id) => self.forget(fd, Some(id))?,
            Kind::Conn(id) => {
                let state = self.stack.tcp_state(id);
                let resets = self.stack.tcp_needs_reset(id).unwrap_or(false);
                let options = self.options_after(id);
                let mut residue = self.residue(fd, id);
                let waits_on = self.waits_on(fd)?;
                self.give_port_back(fd)?;
                // What nobody has asked for yet can still be asked for.
                let error = self.stack.take_error(id).map(Errno::from);
                let soft = self.stack.tcp_take_soft_error(id);
                if matches!(state, Ok(State::Close | State::TimeWait) | Err(_)) {
                    self.stack.close(self.now, id)?;
                } else {
                    self.stack.abort(self.now, id)?;
                    // The reset offers a window as any segment does (`tcp_select_window`).
                    residue.info.rcv_wnd =
                        self.stack.tcp_info(self.now, id).map_or(residue.info.rcv_wnd, |info| info.rcv_wnd);
                }
                let sock = self.files.sock_mut(fd)?;
                // What it paced by stays, one that never came to anything left it as it was.
                if !Self::has_come_to_nothing(&residue.info) {
                    sock.knobs.pace = Some(residue.info.pacing_rate);
                }
                if let Ok(options) = options {
                    sock.options = options;
                }
                let told = resets || matches!(state, Ok(State::SynSent));
                sock.error = if told { Some(Errno::ECONNRESET) } else { error };
                sock.knobs.soft = soft;
                sock.shut = 0;
                self.forget(fd, None)?;
                self.files.sock_mut(fd)?.knobs.residue = Some(Box::new(residue));
                self.leave_behind(waits_on);
            }
        }
        self.wake_fd(fd, ANY);
        self.wake_blocked(&kind.id().into_iter().collect::<Vec<_>>());
        Ok(())
    }

    /// shutdown(2): `inet_shutdown`.
    pub(crate) fn shutdown(&mut self, fd: Fd, how: i32) -> Result<Reply, Errno> {
        let sock = self.files.sock(fd)?;
        let (directions, how) = match how {
            SHUT_RD => (READING, How::Read),
            SHUT_WR => (WRITING, How::Write),
            SHUT_RDWR => (READING | WRITING, How::Both),
            _ => return Err(Errno::EINVAL),
        };
        match sock.kind {
            Kind::Listener(_) => {
                if directions & READING != 0 {
                    self.disconnect(fd)?;
                } else {
                    self.wake_fd(fd, ANY);
                }
            }
            Kind::Conn(id) => match self.stack.tcp_state(id) {
                Ok(State::SynSent) => self.disconnect(fd)?,
                Ok(State::Close | State::TimeWait) | Err(_) => {
                    let attempt = &mut self.files.sock_mut(fd)?.attempt;
                    if *attempt == Attempt::Open {
                        *attempt = Attempt::Spoilt;
                    }
                    self.wake_fd(fd, ANY);
                    self.wake_waiters(fd);
                    return Err(Errno::ENOTCONN);
                }
                Ok(state) => {
                    // Nobody need ask for the result any more, and before there is one nobody can.
                    let attempt = &mut self.files.sock_mut(fd)?.attempt;
                    *attempt = match (state, *attempt) {
                        (State::SynRecv, Attempt::Open | Attempt::Spoilt) => Attempt::Spoilt,
                        _ => Attempt::None,
                    };
                    self.stack.shutdown(self.now, id, how)?;
                    // Whoever watches for edges is told, also of what was there before (`inet_shutdown`).
                    self.wake_fd(fd, ANY);
                    self.wake_waiters(fd);
                }
            },
            Kind::Fresh | Kind::Udp(_) => {
                let connected = matches!(sock.kind, Kind::Udp(id) if self.stack.peer_addr(id).is_ok());
                self.files.sock_mut(fd)?.shut |= directions;
                self.wake_fd(fd, ANY);
                self.wake_waiters(fd);
                if !connected {
                    return Err(Errno::ENOTCONN);
                }
            }
        }
        Ok(Reply::ok(0))
    }

    /// close(2), which lingers if SO_LINGER says so (`sock_release`, `tcp_close`).
    pub(crate) fn close(&mut self, fd: Fd, p: &mut Progress) -> Answer {
        if let Some(id) = p.lingers() {
            let busy =
                matches!(self.stack.tcp_state(id), Ok(State::FinWait1 | State::Closing | State::LastAck));
            return Ok((!busy || p.over()).then(|| Reply::ok(0)));
        }
        let file = self.files.remove(fd).ok_or(Errno::EBADF)?;
        self.watched.end(fd);
        match file {
            File::Epoll(_) => {}
            File::Pipe(id, side) => self.close_pipe(id, side),
            File::Socket(sock) => {
                let Some(id) = sock.kind.id() else { return Ok(Some(Reply::ok(0))) };
                let linger = self.stack.options(id).ok().and_then(|o| o.linger).filter(|l| !l.is_zero());
                let left = self.leftover(&sock);
                self.stack.close(self.now, id)?;
                self.leave_behind(left);
                let busy =
                    matches!(self.stack.tcp_state(id), Ok(State::FinWait1 | State::Closing | State::LastAck));
                if let (Kind::Conn(_), Some(linger), true) = (sock.kind, linger, busy) {
                    p.holds = Holds::Lingering(id);
                    p.arm(self.now, Some(linger));
                    return Ok(None);
                }
            }
        }
        Ok(Some(Reply::ok(0)))
    }
}
