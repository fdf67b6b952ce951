//! What the stack tells its driver: facts, merged so that a driver who takes none cannot make the queue grow.
//!
//! A socket stands in the queue at most once, however much there is to tell about it; what that is stands in its own record.
//! What is told of requests is bounded by the listener's SYN queue: a request counts there until its driver knows that it is
//! gone, and one that came and went untold leaves nothing to tell. Sockets that are gone are bounded by
//! [`GONE_EVENTS_MAX`](crate::base::limits::GONE_EVENTS_MAX): nobody gets another socket before some were taken.
use super::small::RequestId;
use crate::base::limits::{GONE_EVENTS_MAX, ICMP_HEARD_MAX};
use crate::base::{Error, SocketId, Tuple};
use crate::ip::IcmpError;
use crate::tcp::Notice;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Something that the application may want to act on. At most one event of a kind waits per socket, so the receiver of one
/// must go on until it meets [`crate::base::Error::WouldBlock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Data, an end of stream, a datagram or an error can be read.
    Readable(SocketId),
    /// A writer that had seen "full" may go on.
    Writable(SocketId),
    /// The handshake of an active open is complete.
    Connected(SocketId),
    /// The listener has connections to accept.
    Accepted(SocketId),
    /// A listener that asks got a SYN: decide.
    Incoming {
        /// The listener.
        listener: SocketId,
        /// The name to decide by.
        request: RequestId,
        /// The flow: the local side is where the peer wants to go.
        tuple: Tuple,
    },
    /// A request of a listener that asks came to nothing: nobody decided in time, the peer did not complete the handshake,
    /// or it took its SYN back. Told only of requests that were told by [`Event::Incoming`].
    RequestGone {
        /// The listener.
        listener: SocketId,
        /// The flow, as in [`Event::Incoming`].
        tuple: Tuple,
    },
    /// The connection is over in both directions; an error may wait in `take_error`. The socket remains until it is closed.
    Closed(SocketId),
    /// A socket that was closed is gone for good, the background close included. Its name is stale from now on.
    Gone(SocketId),
}

/// What ICMP said about a socket, which is to hear more of it than an error (IP_RECVERR).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IcmpHeard {
    /// The socket.
    pub id: SocketId,
    /// What it makes of it.
    pub error: Error,
    /// The message and whom it is from; `None` where the application hears the error alone.
    pub message: Option<IcmpError>,
}

/// An event about a socket.
type Make = fn(SocketId) -> Event;

/// The facts about one socket that wait to be told, a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Facts(u8);

impl Facts {
    /// Nothing waits.
    pub const NONE: Self = Self(0);
    /// Connections wait to be accepted.
    const ACCEPTED: u8 = 16;
    /// In the order in which they are told.
    const ORDER: [(u8, Make); 5] = [
        (Notice::CONNECTED.0, Event::Connected),
        (Notice::READABLE.0, Event::Readable),
        (Notice::WRITABLE.0, Event::Writable),
        (Notice::CLOSED.0, Event::Closed),
        (Self::ACCEPTED, Event::Accepted),
    ];

    /// Takes the first fact out, as an event about `id`.
    pub fn take(&mut self, id: SocketId) -> Option<Event> {
        let (bit, event) = Self::ORDER.iter().find(|(bit, _)| self.0 & bit != 0)?;
        self.0 &= !bit;
        Some(event(id))
    }

    /// True when nothing waits.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// How much of a request the driver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Told {
    /// There is nothing to tell: its listener does not ask.
    #[default]
    Never,
    /// [`Event::Incoming`] waits under this number.
    Waiting(u64),
    /// The driver knows of it, and must hear when it is gone.
    Yes,
}

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// There are facts in this socket's record, unless it is gone.
    Socket(SocketId),
    /// The socket is gone.
    Gone(SocketId),
    /// [`Event::Incoming`] of a request that exists.
    Incoming(RequestId),
    /// [`Event::RequestGone`] of a listener that exists.
    RequestGone(SocketId, Tuple),
}

/// The queue of events.
#[derive(Debug, Default)]
pub struct Events {
    /// Numbers the places, so that the oldest comes first.
    next: u64,
    sockets: VecDeque<(u64, Place)>,
    /// Sorted by number; apart, because requests take their places back.
    requests: BTreeMap<u64, Place>,
    gone: usize,
    /// Messages of ICMP, for a driver who has asked for them: `None` for one who has not.
    heard: Option<VecDeque<IcmpHeard>>,
    /// Connections whose pieces somebody follows and of which something may have changed; each once, and none that is gone: no more than
    /// there are connections.
    followed: BTreeSet<SocketId>,
}

impl Events {
    /// The driver wants to hear messages of ICMP from now on.
    pub fn hear_icmp(&mut self) {
        self.heard.get_or_insert_default();
    }

    /// Something may have changed about the pieces of a connection that are followed.
    pub fn push_followed(&mut self, id: SocketId) {
        self.followed.insert(id);
    }

    /// Those of which something may have changed since the last call.
    pub fn take_followed(&mut self) -> BTreeSet<SocketId> {
        core::mem::take(&mut self.followed)
    }

    /// A message of ICMP was about this socket; one too many is not told.
    pub fn push_icmp(&mut self, heard: IcmpHeard) {
        if let Some(queue) = self.heard.as_mut().filter(|queue| queue.len() < ICMP_HEARD_MAX) {
            queue.push_back(heard);
        }
    }

    /// The oldest message that was not taken.
    pub fn take_icmp(&mut self) -> Option<IcmpHeard> {
        self.heard.as_mut()?.pop_front()
    }

    /// Notes that the listener `id` has connections to accept.
    pub fn push_accepted(&mut self, pending: &mut Facts, id: SocketId) {
        self.push(pending, id, Facts::ACCEPTED);
    }

    /// Notes each edge in `notice`.
    pub fn push_notice(&mut self, pending: &mut Facts, id: SocketId, notice: Notice) {
        self.push(pending, id, notice.0);
    }

    fn push(&mut self, pending: &mut Facts, id: SocketId, bits: u8) {
        if pending.is_empty() && bits != 0 {
            let number = self.number();
            self.sockets.push_back((number, Place::Socket(id)));
        }
        pending.0 |= bits;
    }

    /// Notes that a socket is gone.
    pub fn push_gone(&mut self, id: SocketId) {
        self.followed.remove(&id);
        self.gone += 1;
        let number = self.number();
        self.sockets.push_back((number, Place::Gone(id)));
    }

    /// True when the driver must take events before anybody gets another socket.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.gone >= GONE_EVENTS_MAX
    }

    /// Notes that a request waits for a decision.
    pub fn push_incoming(&mut self, request: RequestId) -> Told {
        let number = self.number();
        self.requests.insert(number, Place::Incoming(request));
        Told::Waiting(number)
    }

    /// Notes that a request is gone: true when that has to be told, which the listener's SYN queue must have room for until
    /// it is.
    #[must_use]
    pub fn push_request_gone(&mut self, listener: SocketId, tuple: Tuple, told: Told) -> bool {
        match told {
            Told::Never => false,
            Told::Waiting(number) => {
                self.requests.remove(&number);
                false
            }
            Told::Yes => {
                let number = self.number();
                self.requests.insert(number, Place::RequestGone(listener, tuple));
                true
            }
        }
    }

    /// A request was decided, or its listener is gone: its own event concerns nobody any more.
    pub fn forget_request(&mut self, told: Told) {
        if let Told::Waiting(number) = told {
            self.requests.remove(&number);
        }
    }

    /// A listener is gone: so is what waits about its requests.
    pub fn forget_listener(&mut self, id: SocketId) {
        self.requests.retain(|_, place| !matches!(*place, Place::RequestGone(l, _) if l == id));
    }

    /// The oldest place; it leaves the queue.
    pub fn pop(&mut self) -> Option<Place> {
        let request = self.requests.first_key_value().map(|(&number, _)| number);
        let socket = self.sockets.front().map(|&(number, _)| number);
        if request.is_some_and(|r| socket.is_none_or(|s| r < s)) {
            return self.requests.pop_first().map(|(_, place)| place);
        }
        let (_, place) = self.sockets.pop_front()?;
        self.gone -= usize::from(matches!(place, Place::Gone(_)));
        Some(place)
    }

    /// Puts a socket back in front that has more to tell.
    pub fn push_front(&mut self, id: SocketId) {
        self.sockets.push_front((0, Place::Socket(id)));
    }

    /// Places in use, for tests of the bound.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sockets.len() + self.requests.len()
    }

    /// True when no event waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    const fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}
