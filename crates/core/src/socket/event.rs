//! What the stack tells its driver: edges, merged so that the queue stays bounded by the number of sockets.
use super::small::RequestId;
use crate::base::{SocketId, Tuple};
use crate::tcp::Notice;
use std::collections::VecDeque;

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
    /// or it took its SYN back.
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

const ACCEPTED: u8 = 16;

/// Bit of an event's kind, for the kinds that merge.
const fn kind(event: &Event) -> Option<(SocketId, u8)> {
    match *event {
        Event::Readable(id) => Some((id, Notice::READABLE.0)),
        Event::Writable(id) => Some((id, Notice::WRITABLE.0)),
        Event::Connected(id) => Some((id, Notice::CONNECTED.0)),
        Event::Closed(id) => Some((id, Notice::CLOSED.0)),
        Event::Accepted(id) => Some((id, ACCEPTED)),
        Event::Incoming { .. } | Event::RequestGone { .. } | Event::Gone(_) => None,
    }
}

/// The queue of events.
#[derive(Debug, Default)]
pub struct Events {
    queue: VecDeque<Event>,
}

impl Events {
    /// Queues `event` unless one of its kind waits already; `pending` is the socket's record of what waits.
    pub fn push(&mut self, pending: &mut u8, event: Event) {
        if let Some((_, bit)) = kind(&event) {
            if *pending & bit != 0 {
                return;
            }
            *pending |= bit;
        }
        self.queue.push_back(event);
    }

    /// Queues an event that never merges.
    pub fn push_single(&mut self, event: Event) {
        self.queue.push_back(event);
    }

    /// Queues an event for each edge in `notice`.
    pub fn push_notice(&mut self, pending: &mut u8, id: SocketId, notice: Notice) {
        let edges = [
            (Notice::CONNECTED, Event::Connected(id)),
            (Notice::READABLE, Event::Readable(id)),
            (Notice::WRITABLE, Event::Writable(id)),
            (Notice::CLOSED, Event::Closed(id)),
        ];
        for (bit, event) in edges {
            if notice.contains(bit) {
                self.push(pending, event);
            }
        }
    }

    /// The oldest event, with the socket and the kind bit to clear in its record.
    pub fn pop(&mut self) -> Option<(Event, Option<(SocketId, u8)>)> {
        let event = self.queue.pop_front()?;
        Some((event, kind(&event)))
    }

    /// True when no event waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}
