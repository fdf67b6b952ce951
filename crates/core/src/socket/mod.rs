//! The stack's sockets as objects: connections, listeners and UDP sockets under generational names, and the events they raise.
mod addr;
mod arrivals;
mod event;
mod listener;
pub mod ports;
pub mod ready_set;
mod sctp;
mod small;

pub use addr::{Decision, ListenAddr, ListenOptions};
pub use arrivals::{Arrivals, Stamps};
pub use event::{Event, Events, Facts, IcmpHeard, Place, Told};
pub use listener::Listener;
pub use sctp::{Families, SctpListener, SctpSocket};
pub use small::{Asked, Pending, RequestEntry, RequestId, TwEntry, TwId};

use crate::base::{Cx, Slab, SocketId};
use crate::ip::{Dst, FlowIds};
use crate::tcp::{Conn, Ready};
use crate::timer::Lazy;
use crate::udp::UdpSocket;

/// What a socket is. Boxed, so that the table stays dense and an idle listener does not cost what a connection costs.
#[derive(Debug)]
pub enum Socket {
    /// A TCP connection, or what is left of one that its owner still holds.
    Tcp(Box<Conn>),
    /// A TCP listener.
    Listener(Box<Listener>),
    /// A UDP socket.
    Udp(Box<UdpSocket>),
    /// An SCTP association, or what is left of one that its owner still holds.
    Sctp(Box<SctpSocket>),
    /// An SCTP listener.
    SctpListener(Box<SctpListener>),
}

/// Who keeps a socket alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The application.
    Owner,
    /// A listener's accept backlog.
    Backlog,
    /// Nobody: it lives until its connection has ended (an orphan).
    Nobody,
}

/// What a flow keeps of the layer below: its route, asked for again when the routes have changed, and its packet numbers.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// The route.
    pub dst: Dst,
    /// IPv4 ID counter and IPv6 flow label.
    pub ids: FlowIds,
}

/// One socket with what the stack keeps about it.
#[derive(Debug)]
pub struct Entry {
    /// The socket itself.
    pub socket: Socket,
    /// The way to its peer, for sockets that have one.
    pub path: Option<Path>,
    /// Who keeps it alive.
    pub holder: Holder,
    /// It has an entry in the demultiplexer.
    pub bound: bool,
    /// Why it stands on its device's ready list; none when it does not.
    pub turn: Turn,
    /// Facts that wait to be told.
    pub pending: Facts,
    /// A connection that takes a place in TIME-WAIT although somebody holds it.
    pub in_time_wait: bool,
    /// Its timer.
    pub timer: Lazy,
}

impl Entry {
    /// An entry of a socket that the application holds.
    #[must_use]
    pub const fn new(socket: Socket, path: Option<Path>, holder: Holder) -> Self {
        Self {
            socket,
            path,
            holder,
            bound: true,
            turn: Turn::NONE,
            pending: Facts::NONE,
            in_time_wait: false,
            timer: Lazy::new(),
        }
    }

    /// Level readiness.
    pub fn poll(&mut self, cx: &Cx<'_>) -> Ready {
        match &mut self.socket {
            Socket::Tcp(conn) => conn.poll(cx),
            Socket::Listener(l) => l.poll(),
            Socket::Sctp(sctp) => sctp.poll(cx),
            Socket::SctpListener(l) if l.accept.is_empty() => Ready::NONE,
            Socket::SctpListener(_) => Ready::IN,
            Socket::Udp(u) => {
                let mut ready = Ready::NONE;
                if u.readable() {
                    ready.insert(Ready::IN);
                }
                if u.poll_writable() {
                    ready.insert(Ready::OUT);
                }
                if u.errors.pending.is_some() {
                    ready.insert(Ready::ERR);
                }
                ready
            }
        }
    }
}

/// Why a socket stands on the ready list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Turn(pub u8);

impl Turn {
    /// Not on the list.
    pub const NONE: Self = Self(0);
    /// The application wrote, connected or closed.
    pub const APP: Self = Self(1);
    /// A packet came in.
    pub const INPUT: Self = Self(2);
    /// A timer fired.
    pub const TIMER: Self = Self(4);
    /// Credit came back.
    pub const CREDIT: Self = Self(8);
    /// Its last turn ended before it had nothing more to send.
    pub const AGAIN: Self = Self(16);
}

/// All sockets.
pub type Table = Slab<SocketId, Entry>;
