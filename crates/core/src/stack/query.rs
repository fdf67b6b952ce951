//! What system calls ask about one socket beside its data: whose flow it is, how much waits, how much memory it has.
use super::tcp::ports_of;
use super::{Flows, Stack};
use crate::base::{DeviceId, Duration, Error, Instant, SocketId, Tuple};
use crate::path::congestion::bbr::BbrInfo;
use crate::sctp::SctpOptions;
use crate::socket::{Holder, Socket};
use crate::tcp::{Memory, Moments, OwnQueue, Piece, Progress, WaitReport};
use crate::udp::Marks;
use core::net::IpAddr;
use std::collections::BTreeSet;

/// What waits in a socket, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// To be read (SIOCINQ); of a UDP socket, the first datagram.
    pub recv: u64,
    /// Written and not acknowledged, a FIN counted as one (SIOCOUTQ); of a UDP socket, charge on the way out.
    pub send: u64,
    /// Written and not sent (SIOCOUTQNSD).
    pub unsent: u64,
}

/// A place takes what is for this address.
#[must_use]
pub fn covers(place: Option<IpAddr>, local: IpAddr) -> bool {
    place.is_none_or(|ip| ip == local || (ip.is_unspecified() && ip.is_ipv4() == local.is_ipv4()))
}

impl Stack {
    /// What BBR believes of a connection's path (TCP_CC_INFO); `None` where another controller is at work.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] on anything but a connection.
    pub fn tcp_bbr_info(&self, id: SocketId) -> Result<Option<BbrInfo>, Error> {
        match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Tcp(conn) => Ok(conn.bbr_info()),
            _ => Err(Error::Unsupported),
        }
    }

    /// How a connection's queue below it moves as of `now`; `None` while nobody follows it (`tcp_queue_aware`), and for what is no connection.
    #[must_use]
    pub fn own_queue(&self, now: Instant, id: SocketId) -> Option<OwnQueue> {
        match &self.sockets.get(id)?.socket {
            Socket::Tcp(conn) => conn.own_queue(now.max(self.now)),
            _ => None,
        }
    }

    /// Why a connection does not send, and for how long by `now`; `None` for what is no connection.
    #[must_use]
    pub fn wait_report(&self, now: Instant, id: SocketId) -> Option<WaitReport> {
        match &self.sockets.get(id)?.socket {
            Socket::Tcp(conn) => Some(conn.wait_report(now.max(self.now))),
            _ => None,
        }
    }

    /// What the completions of a device are late by, as far as has been learnt.
    #[must_use]
    pub fn lateness(&self, dev: DeviceId) -> Option<Duration> {
        self.links.get(usize::from(dev.0)).map(|link| link.told.lateness())
    }

    /// The connection of a flow, in a listener's backlog too.
    #[must_use]
    pub fn tcp_lookup(&self, flow: &Tuple) -> Option<SocketId> {
        self.tcp_flows().lookup(flow)
    }

    /// A connection of this flow is there, or waits in TIME-WAIT.
    #[must_use]
    pub fn tcp_has_flow(&self, flow: &Tuple) -> bool {
        self.tcp_flows().has(flow)
    }

    /// A port at which a new listener or an active open from `ip` (`None`: any address) collides with nobody; `taken` are those that the
    /// caller knows of, asked one after the other as their turn comes.
    ///
    /// # Errors
    /// [`Error::AddressInUse`] when every port of `ip_local_port_range` is taken.
    pub fn tcp_free_port(
        &mut self,
        ip: Option<IpAddr>,
        mut taken: impl FnMut(&Flows<'_>, u16) -> bool,
    ) -> Result<u16, Error> {
        let (from, demux) = (ports_of(&self.env.sysctl), &self.demux);
        let flows = Flows { demux, sockets: &self.sockets, small: &self.small };
        let free = |port| demux.may_listen(port, ip) && !taken(&flows, port);
        self.openers.ports.bind(&from, free).ok_or(Error::AddressInUse)
    }

    /// What waits in a socket.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Invalid`] on a listener.
    pub fn queues(&self, id: SocketId) -> Result<Queues, Error> {
        match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Tcp(conn) => {
                let (recv, send) = conn.queues();
                Ok(Queues { recv, send, unsent: conn.unsent_bytes() })
            }
            Socket::Udp(udp) => {
                Ok(Queues { recv: udp.first_len().unwrap_or(0) as u64, send: udp.queues().1, unsent: 0 })
            }
            Socket::Sctp(sctp) => {
                let (recv, send) = sctp.assoc.queues();
                Ok(Queues { recv, send, unsent: sctp.assoc.unsent_bytes() as u64 })
            }
            Socket::Listener(_) | Socket::SctpListener(_) => Err(Error::Invalid),
        }
    }

    /// Bytes of buffers whose data was acknowledged and that are kept for the next writes of any socket, up to `POOL_BYTES_MAX`.
    #[must_use]
    pub const fn spare_bytes(&self) -> usize {
        self.env.pool.bytes()
    }

    /// Memory of a socket; a listener has buffers only.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`].
    pub fn memory(&self, id: SocketId) -> Result<Memory, Error> {
        Ok(match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Tcp(conn) => conn.memory(),
            Socket::Udp(udp) => Memory {
                received: udp.received_charge(),
                rcvbuf: udp.buffers.0,
                queued: 0,
                sndbuf: udp.buffers.1,
                held: 0,
            },
            Socket::Sctp(sctp) => sctp_memory(sctp.assoc.options()),
            Socket::SctpListener(l) => sctp_memory(&l.options),
            Socket::Listener(l) => {
                let options = &l.options.options;
                Memory {
                    rcvbuf: options.rcvbuf.unwrap_or(options.rmem),
                    sndbuf: options.sndbuf.unwrap_or(options.wmem),
                    ..Memory::default()
                }
            }
        })
    }

    /// The largest window that a connection's peer ever offered, in bytes.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] on anything but a connection.
    pub fn tcp_max_window(&self, id: SocketId) -> Result<u32, Error> {
        match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Tcp(conn) => Ok(conn.max_window()),
            _ => Err(Error::Unsupported),
        }
    }

    /// What a connection that follows on the same socket takes as [`SocketOptions::rcv_ratio`](crate::tcp::SocketOptions::rcv_ratio).
    ///
    /// # Errors
    /// As of [`Stack::tcp_max_window`].
    pub fn tcp_rcv_ratio(&self, id: SocketId) -> Result<u8, Error> {
        match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Tcp(conn) => Ok(conn.rcv_ratio(self.sysctl())),
            _ => Err(Error::Unsupported),
        }
    }

    /// A connection is paced whatever stands below it: [`SocketOptions::paced`](crate::tcp::SocketOptions::paced) of what follows on the same
    /// socket.
    ///
    /// # Errors
    /// As of [`Stack::tcp_max_window`].
    pub fn tcp_needs_pacing(&self, id: SocketId) -> Result<bool, Error> {
        match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Tcp(conn) => Ok(conn.needs_pacing()),
            _ => Err(Error::Unsupported),
        }
    }

    /// A connection's last segment left as one that routers may mark, which IP_TOS and IPV6_TCLASS read back in Linux.
    ///
    /// # Errors
    /// As of [`Stack::tcp_max_window`].
    pub fn tcp_last_capable(&self, id: SocketId) -> Result<bool, Error> {
        match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Tcp(conn) => Ok(conn.last_left_capable()),
            _ => Err(Error::Unsupported),
        }
    }

    /// A connection's buffer has room by the rule that wakes writers, whatever its state; `None` of what is no connection.
    pub fn tcp_has_room(&mut self, id: SocketId) -> Option<bool> {
        let cx = self.env.cx(self.now, Some(id));
        match &self.sockets.get(id)?.socket {
            Socket::Tcp(conn) => Some(conn.has_room(&cx)),
            _ => None,
        }
    }

    /// A write that waits for room goes on now (`sk_stream_wait_memory`); `None` where there is no connection.
    pub fn tcp_ends_wait_for_room(&mut self, id: SocketId) -> Option<bool> {
        let cx = self.env.cx(self.now, Some(id));
        match &mut self.sockets.get_mut(id)?.socket {
            Socket::Tcp(conn) => Some(conn.ends_wait_for_room(&cx)),
            _ => None,
        }
    }

    /// SO_ERROR as Linux has it: the pending error, else what ICMP said that did not end the connection; once.
    pub fn take_any_error(&mut self, id: SocketId) -> Option<Error> {
        let error = self.take_error(id);
        match self.sockets.get_mut(id).map(|e| &mut e.socket) {
            Some(Socket::Tcp(conn)) if error.is_none() => conn.take_soft_error(),
            _ => error,
        }
    }

    /// The latter alone.
    pub fn tcp_take_soft_error(&mut self, id: SocketId) -> Option<Error> {
        match self.sockets.get_mut(id).map(|e| &mut e.socket) {
            Some(Socket::Tcp(conn)) => conn.take_soft_error(),
            _ => None,
        }
    }

    /// Hands what ICMP said of a socket's connection before to its next one: SO_ERROR tells it, and an attempt that nobody answers ends by it;
    /// any acknowledgement takes it back. In Linux `sk_err_soft` outlives `tcp_disconnect`.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] of what is no connection.
    pub fn tcp_set_soft_error(&mut self, id: SocketId, error: Error) -> Result<(), Error> {
        match &mut self.sockets.get_mut(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Tcp(conn) => conn.set_soft_error(error),
            _ => return Err(Error::Unsupported),
        }
        Ok(())
    }

    /// How far what was written on a connection has got; `None` of what is no connection.
    #[must_use]
    pub fn tcp_progress(&self, id: SocketId) -> Option<Progress> {
        match &self.sockets.get(id)?.socket {
            Socket::Tcp(conn) => Some(conn.progress()),
            _ => None,
        }
    }

    /// When a connection itself looks after what its peer has not acknowledged (see [`crate::tcp::Conn::retransmission_deadline`]).
    #[must_use]
    pub fn tcp_retransmission_deadline(&self, id: SocketId) -> Option<Instant> {
        match &self.sockets.get(id)?.socket {
            Socket::Tcp(conn) => conn.retransmission_deadline(),
            _ => None,
        }
    }

    /// When a connection received data last; `None` of what is no connection.
    #[must_use]
    pub fn tcp_last_data(&self, id: SocketId) -> Option<Instant> {
        match &self.sockets.get(id)?.socket {
            Socket::Tcp(conn) => Some(conn.last_data_at()),
            _ => None,
        }
    }

    /// The piece of a connection's stream that holds what is at `place`, while it is there.
    #[must_use]
    pub fn tcp_piece(&self, id: SocketId, place: u64) -> Option<Piece> {
        match &self.sockets.get(id)?.socket {
            Socket::Tcp(conn) => conn.piece(place),
            _ => None,
        }
    }

    /// Where pieces of a connection's stream have become others since the last call, in order: handed down for the first time or again, cut
    /// or joined. For the first time all of it is named, and what changes is kept from then on until [`Stack::tcp_forget_changed`].
    #[must_use]
    pub fn tcp_changed(&mut self, id: SocketId) -> Vec<(u64, u64)> {
        match self.sockets.get_mut(id).map(|entry| &mut entry.socket) {
            Some(Socket::Tcp(conn)) => match conn.take_changed() {
                Some(changed) => changed.iter().collect(),
                None => vec![(0, u64::MAX)],
            },
            _ => Vec::new(),
        }
    }

    /// The connections that [`Stack::tcp_changed`] follows and of which something may have changed since the last call, that they ended included. Who
    /// follows any takes them: each stands there once, until then or until the socket is gone ([`Event::Gone`](crate::socket::Event::Gone)).
    pub fn tcp_take_followed(&mut self) -> BTreeSet<SocketId> {
        self.events.take_followed()
    }

    /// Whether what a connection is like amid its turns is kept for [`Stack::tcp_take_moments`]; at the latest until
    /// [`Stack::tcp_forget_changed`].
    pub fn tcp_keep_moments(&mut self, id: SocketId, keep: bool) {
        if let Some(Socket::Tcp(conn)) = self.sockets.get_mut(id).map(|entry| &mut entry.socket) {
            conn.keep_moments(keep);
        }
    }

    /// What a connection was like amid its turns since the last call.
    #[must_use]
    pub fn tcp_take_moments(&mut self, id: SocketId) -> Moments {
        match self.sockets.get_mut(id).map(|entry| &mut entry.socket) {
            Some(Socket::Tcp(conn)) => conn.take_moments(),
            _ => Moments::default(),
        }
    }

    /// Nobody follows the pieces of a connection's stream any more.
    pub fn tcp_forget_changed(&mut self, id: SocketId) {
        if let Some(Socket::Tcp(conn)) = self.sockets.get_mut(id).map(|entry| &mut entry.socket) {
            conn.forget_changed();
        }
    }

    /// The owner keeps the error queue of a connection or a UDP socket, which holds so many bytes of charge by now: what finds room, and windows,
    /// follow (`sock_queue_err_skb`). Nothing of other sockets.
    pub fn charge_errors(&mut self, id: SocketId, bytes: u32) {
        match self.sockets.get_mut(id).map(|entry| &mut entry.socket) {
            Some(Socket::Tcp(conn)) => conn.charge_errors(bytes),
            Some(Socket::Udp(udp)) => udp.errors.queued = bytes,
            _ => {}
        }
    }

    /// Which directions of a connection are shut down, reading and writing; for reading, by the peer, too.
    #[must_use]
    pub fn tcp_is_shut(&self, id: SocketId) -> [bool; 2] {
        match self.sockets.get(id).map(|e| &e.socket) {
            Some(Socket::Tcp(conn)) => conn.is_shut(),
            _ => [false; 2],
        }
    }

    /// The SYN of an active open waits for the first write (TCP_FASTOPEN_CONNECT).
    #[must_use]
    pub fn tcp_is_deferred(&self, id: SocketId) -> bool {
        matches!(self.sockets.get(id).map(|e| &e.socket), Some(Socket::Tcp(conn)) if conn.is_deferred())
    }

    /// Ending the connection now would reset it: the peer does not know yet that nothing more will come.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] on anything but a connection.
    pub fn tcp_needs_reset(&self, id: SocketId) -> Result<bool, Error> {
        match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Tcp(conn) => Ok(conn.needs_reset()),
            _ => Err(Error::Unsupported),
        }
    }

    /// Its SYN was answered, or it was the peer's. False of what is no connection.
    #[must_use]
    pub fn tcp_was_accepted(&self, id: SocketId) -> bool {
        matches!(self.sockets.get(id).map(|e| &e.socket), Some(Socket::Tcp(conn)) if conn.was_accepted())
    }

    /// TCP_QUICKACK as it reads back.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] on anything but a connection.
    pub fn tcp_quickack(&self, id: SocketId) -> Result<bool, Error> {
        match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Tcp(conn) => Ok(conn.quickack()),
            _ => Err(Error::Unsupported),
        }
    }

    /// The IP and TCP headers of the SYN that began the connection, as they came: until they are forgotten, and only where its listener had
    /// `save_syn` (TCP_SAVED_SYN).
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] on anything but a connection.
    pub fn tcp_saved_syn(&self, id: SocketId) -> Result<Option<&[u8]>, Error> {
        match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Tcp(conn) => Ok(conn.saved_syn()),
            _ => Err(Error::Unsupported),
        }
    }

    /// Forgets those headers.
    ///
    /// # Errors
    /// As [`Stack::tcp_saved_syn`].
    pub fn tcp_forget_syn(&mut self, id: SocketId) -> Result<(), Error> {
        match &mut self.sockets.get_mut(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Tcp(conn) => {
                conn.forget_syn();
                Ok(())
            }
            _ => Err(Error::Unsupported),
        }
    }

    /// SO_RCVLOWAT: a reader is told once so many bytes wait, or no more fit.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] on anything but a connection.
    pub fn tcp_set_rcvlowat(&mut self, now: Instant, id: SocketId, bytes: u32) -> Result<(), Error> {
        self.with_conn(now, id, |conn, cx| {
            conn.set_rcvlowat(cx, bytes);
            Ok(())
        })
    }

    /// TCP_WINDOW_CLAMP, said again: the option is what the window is bound by from now on, whatever segments have raised it to.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] on anything but a connection.
    pub fn tcp_clamp_window(&mut self, now: Instant, id: SocketId) -> Result<(), Error> {
        self.with_conn(now, id, |conn, _| {
            conn.clamp_window();
            Ok(())
        })
    }

    /// TCP_WINDOW_CLAMP of a connection: the bound of its receive window in bytes.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] on anything but a connection.
    pub fn tcp_window_clamp(&self, id: SocketId) -> Result<u32, Error> {
        match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Tcp(conn) => Ok(conn.window_clamp()),
            _ => Err(Error::Unsupported),
        }
    }

    /// The newest of the connections that wait to be accepted, which all others go before; none of what is no listener.
    #[must_use]
    pub fn tcp_newest_waiting(&self, listener: SocketId) -> Option<SocketId> {
        match &self.sockets.get(listener)?.socket {
            Socket::Listener(l) => l.accept.back().copied(),
            _ => None,
        }
    }

    /// Connections that wait to be accepted, and how many may.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] on anything but a listener.
    pub fn tcp_backlog(&self, id: SocketId) -> Result<(u32, u32), Error> {
        match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Listener(l) => Ok((l.accept.len() as u32, l.options.backlog)),
            _ => Err(Error::Unsupported),
        }
    }

    /// MTU of the path to a socket's peer.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::NotConnected`] where there is no peer; those of finding a route.
    pub fn path_mtu(&self, id: SocketId) -> Result<u16, Error> {
        match &self.sockets.get(id).ok_or(Error::NoSuchSocket)?.socket {
            Socket::Tcp(conn) => {
                let tuple = conn.tuple();
                Ok(self.route(Some(tuple.local_ip), tuple.remote_ip).map_or(conn.path_mtu(), |dst| dst.mtu))
            }
            Socket::Udp(udp) => {
                let remote = udp.remote.ok_or(Error::NotConnected)?;
                Ok(self.route(Some(udp.local.ip()), remote.ip())?.mtu)
            }
            Socket::Sctp(sctp) => Ok(sctp.assoc.paths().get(sctp.assoc.paths().primary()).mtu()),
            Socket::Listener(_) | Socket::SctpListener(_) => Err(Error::NotConnected),
        }
    }

    /// Changes the backlog of a listener, bounded by `somaxconn` (listen() once more).
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] on anything but a listener.
    pub fn tcp_set_backlog(&mut self, now: Instant, id: SocketId, backlog: u32) -> Result<(), Error> {
        self.enter(now);
        let entry = self.sockets.get_mut(id).filter(|e| e.holder == Holder::Owner);
        match &mut entry.ok_or(Error::NoSuchSocket)?.socket {
            Socket::Listener(l) => {
                l.options.backlog = backlog.min(self.env.sysctl.somaxconn);
                Ok(())
            }
            _ => Err(Error::Unsupported),
        }
    }

    /// The length of the oldest datagram that waits.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] on anything but a UDP socket; [`Error::WouldBlock`] when there is none.
    pub fn udp_first_len(&self, id: SocketId) -> Result<usize, Error> {
        let entry = self.sockets.get(id).filter(|e| e.holder == Holder::Owner);
        match &entry.ok_or(Error::NoSuchSocket)?.socket {
            Socket::Udp(udp) => udp.first_len().ok_or(Error::WouldBlock),
            _ => Err(Error::Unsupported),
        }
    }

    /// What a UDP socket's datagrams carry, those of IPv4 and those of IPv6.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`], [`Error::Unsupported`].
    pub fn udp_marks(&self, id: SocketId) -> Result<[Marks; 2], Error> {
        let entry = self.sockets.get(id).filter(|e| e.holder == Holder::Owner);
        match &entry.ok_or(Error::NoSuchSocket)?.socket {
            Socket::Udp(udp) => Ok(udp.marks),
            _ => Err(Error::Unsupported),
        }
    }

    /// How many errors a datagram socket was told of, modulo 2^32, also while another was pending; 0 of any other.
    #[must_use]
    pub fn udp_errors_told(&self, id: SocketId) -> u32 {
        match self.sockets.get(id).map(|entry| &entry.socket) {
            Some(Socket::Udp(udp)) => udp.errors.told,
            _ => 0,
        }
    }
}

const fn sctp_memory(options: &SctpOptions) -> Memory {
    Memory { received: 0, rcvbuf: options.rcvbuf, queued: 0, sndbuf: options.sndbuf, held: 0 }
}
