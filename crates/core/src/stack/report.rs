//! Snapshots for people and tools: counters, the flight recorder, and the list of sockets.
use super::Stack;
use crate::base::sysctl::CongestionKind;
use crate::base::trace::Trace;
use crate::base::{Counters, Instant, SocketId, Tuple};
use crate::path::congestion::bbr::BbrInfo;
use crate::sctp::AssocInfo;
use crate::socket::{Holder, Pending, Socket};
use crate::tcp::{State, TcpInfo, WaitReport};
use core::net::SocketAddr;

/// Kind of a socket in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// A TCP connection, request or TIME-WAIT.
    Tcp,
    /// A TCP listener.
    TcpListener,
    /// A UDP socket.
    Udp,
    /// An SCTP association.
    Sctp,
    /// An SCTP listener.
    SctpListener,
}

/// One line of `ss`.
#[derive(Clone, Debug)]
pub struct SocketReport {
    /// Its name, where it has one (requests and TIME-WAIT have none).
    pub id: Option<SocketId>,
    /// Its kind.
    pub kind: SocketKind,
    /// State of TCP; `Close` for an unconnected UDP socket, `Established` for a connected one, as `ss` has it.
    pub state: State,
    /// Our side; port 0 stands for any.
    pub local: Option<SocketAddr>,
    /// The other side.
    pub remote: Option<SocketAddr>,
    /// Bytes to read; of a listener, connections to accept.
    pub recv_queue: u64,
    /// Bytes written and not acknowledged; of a listener, its backlog; of a UDP socket, charge on the way out.
    pub send_queue: u64,
    /// The application holds it.
    pub owned: bool,
    /// Bytes of charge that it has below the transport and that have not left: in queues and at the device.
    pub below: u64,
    /// TCP_INFO of a connection.
    pub info: Option<TcpInfo>,
    /// TCP_CONGESTION of a connection.
    pub congestion: Option<CongestionKind>,
    /// TCP_CC_INFO, where that is BBR.
    pub bbr: Option<BbrInfo>,
    /// Why a connection does not send.
    pub wait: Option<WaitReport>,
    /// An association with its paths.
    pub sctp: Option<AssocInfo>,
}

/// All sockets at one instant.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// In the order of their names; requests and TIME-WAITs after the sockets.
    pub sockets: Vec<SocketReport>,
}

impl Stack {
    /// The counters.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.env.count
    }

    /// The flight recorder.
    #[must_use]
    pub const fn trace(&self) -> &Trace {
        &self.env.trace
    }

    /// Sockets that exist: those with an owner, those in a backlog, and those that close in the background. Requests and
    /// TIME-WAITs are not counted, since they need no draining.
    #[must_use]
    pub fn open_sockets(&self) -> usize {
        self.sockets.len()
    }

    /// Requests, TIME-WAITs and connections without an owner, for checks of leaks.
    #[must_use]
    pub fn small_objects(&self) -> (usize, usize, usize) {
        (self.small.requests.len(), self.small.time_waits.len(), self.env.memory.orphans() as usize)
    }

    /// A list of all sockets, whose times are as of `now`.
    pub fn report(&mut self, now: Instant) -> Report {
        let now = now.max(self.now);
        let mut sockets = Vec::with_capacity(self.sockets.len());
        for (id, entry) in self.sockets.iter() {
            let mut line = SocketReport {
                id: Some(id),
                kind: SocketKind::Tcp,
                state: State::Listen,
                local: None,
                remote: None,
                recv_queue: 0,
                send_queue: 0,
                owned: entry.holder == Holder::Owner,
                below: 0,
                info: None,
                congestion: None,
                bbr: None,
                wait: None,
                sctp: None,
            };
            match &entry.socket {
                Socket::Tcp(conn) => {
                    let info = conn.info(&self.env.cx(now, Some(id)));
                    line.state = conn.state();
                    (line.recv_queue, line.send_queue) = conn.queues();
                    (line.local, line.remote) = (Some(conn.tuple().local()), Some(conn.tuple().remote()));
                    line.info = Some(info);
                    line.congestion = Some(conn.options().congestion);
                    line.bbr = conn.bbr_info();
                    line.below = u64::from(conn.charge_below());
                    line.wait = Some(conn.wait_report(now));
                }
                Socket::Listener(l) => {
                    line.kind = SocketKind::TcpListener;
                    line.local = l.addr.ip.map(|ip| SocketAddr::new(ip, l.addr.port.unwrap_or(0)));
                    line.recv_queue = l.accept.len() as u64;
                    line.send_queue = u64::from(l.options.backlog);
                }
                Socket::Sctp(sctp) => {
                    line.kind = SocketKind::Sctp;
                    line.state = sctp.tcp_state();
                    (line.recv_queue, line.send_queue) = sctp.assoc.queues();
                    (line.local, line.remote) = (Some(sctp.local()), Some(sctp.remote()));
                    line.below = u64::from(sctp.assoc.below());
                    line.sctp = Some(sctp.assoc.info());
                }
                Socket::SctpListener(l) => {
                    line.kind = SocketKind::SctpListener;
                    line.local = Some(l.local());
                    line.recv_queue = l.accept.len() as u64;
                    line.send_queue = u64::from(l.backlog);
                }
                Socket::Udp(u) => {
                    line.kind = SocketKind::Udp;
                    line.state = if u.remote.is_some() { State::Established } else { State::Close };
                    (line.local, line.remote) = (Some(u.local), u.remote);
                    (line.recv_queue, line.send_queue) = u.queues();
                    line.below = u.charge_below();
                }
            }
            sockets.push(line);
        }
        sockets.extend(self.small_reports());
        Report { sockets }
    }

    fn small_reports(&self) -> impl Iterator<Item = SocketReport> + '_ {
        let line = |state, tuple: &Tuple| SocketReport {
            id: None,
            kind: SocketKind::Tcp,
            state,
            local: Some(tuple.local()),
            remote: Some(tuple.remote()),
            recv_queue: 0,
            send_queue: 0,
            owned: false,
            below: 0,
            info: None,
            congestion: None,
            bbr: None,
            wait: None,
            sctp: None,
        };
        let requests = self.small.requests.iter().map(move |(_, r)| {
            line(
                State::SynRecv,
                match &r.pending {
                    Pending::Asked(asked) => &asked.setup.tuple,
                    Pending::Sent(request) => request.tuple(),
                },
            )
        });
        let waits = self.small.time_waits.iter().map(|(_, t)| &t.time_wait);
        let waits = waits.map(move |t| line(t.state(), t.tuple()));
        requests.chain(waits)
    }
}
