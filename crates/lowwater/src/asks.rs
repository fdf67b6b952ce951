//! Listeners that ask: requests on their way to the application, and connections on their way to who accepted them.
use crate::registry::Wakes;
use lowwater_core::base::{SocketId, Tuple};
use lowwater_core::stack::RequestId;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::task::Waker;

/// What is known about a connection that the application has accepted before it exists.
#[derive(Debug)]
pub(crate) enum Birth {
    /// The handshake goes on; the waker of who waits.
    Expected(Option<Waker>),
    /// It is here.
    Arrived(SocketId),
    /// The peer did not complete the handshake.
    Failed,
}

#[derive(Debug, Default)]
struct Ask {
    /// Not looked at yet; bounded by the listener's backlog, as the core bounds requests.
    incoming: VecDeque<(RequestId, Tuple)>,
    accepted: HashMap<Tuple, Birth>,
}

/// State of all listeners that ask.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    listeners: HashMap<SocketId, Ask>,
}

impl Asks {
    /// A listener that asks.
    pub(crate) fn insert(&mut self, listener: SocketId) {
        self.listeners.insert(listener, Ask::default());
    }

    /// The listener is gone: connections that arrived and were not fetched are returned, to be closed.
    pub(crate) fn remove(&mut self, listener: SocketId, wakes: &mut Wakes) -> Vec<SocketId> {
        let births = self.listeners.remove(&listener).into_iter().flat_map(|ask| ask.accepted.into_values());
        births
            .filter_map(|birth| match birth {
                Birth::Expected(waker) => {
                    wakes.extend(waker);
                    None
                }
                Birth::Arrived(id) => Some(id),
                Birth::Failed => None,
            })
            .collect()
    }

    /// It is a listener that asks.
    pub(crate) fn knows(&self, listener: SocketId) -> bool {
        self.listeners.contains_key(&listener)
    }

    /// A peer wants to connect.
    pub(crate) fn incoming(&mut self, listener: SocketId, request: RequestId, tuple: Tuple) {
        if let Some(ask) = self.listeners.get_mut(&listener) {
            ask.incoming.push_back((request, tuple));
        }
    }

    /// The oldest request that was not looked at.
    pub(crate) fn next(&mut self, listener: SocketId) -> Option<(RequestId, Tuple)> {
        self.listeners.get_mut(&listener)?.incoming.pop_front()
    }

    /// The application accepts this flow and waits for the connection.
    pub(crate) fn expect(&mut self, listener: SocketId, tuple: Tuple) {
        if let Some(ask) = self.listeners.get_mut(&listener) {
            ask.accepted.insert(tuple, Birth::Expected(None));
        }
    }

    /// The application waits no more; a connection that has arrived is returned, to be closed.
    pub(crate) fn forget(&mut self, listener: SocketId, tuple: &Tuple) -> Option<SocketId> {
        match self.listeners.get_mut(&listener)?.accepted.remove(tuple)? {
            Birth::Arrived(id) => Some(id),
            Birth::Expected(_) | Birth::Failed => None,
        }
    }

    /// How far an accepted flow is; `None` when the listener is gone. Anything but "expected" is told once.
    pub(crate) fn poll(&mut self, listener: SocketId, tuple: &Tuple, waker: &Waker) -> Option<Birth> {
        let accepted = &mut self.listeners.get_mut(&listener)?.accepted;
        if let Some(Birth::Expected(slot)) = accepted.get_mut(tuple) {
            *slot = Some(waker.clone());
            return Some(Birth::Expected(None));
        }
        accepted.remove(tuple)
    }

    /// A connection is complete; true when somebody waits for it.
    pub(crate) fn arrived(
        &mut self,
        listener: SocketId,
        local: SocketAddr,
        peer: SocketAddr,
        child: SocketId,
        wakes: &mut Wakes,
    ) -> bool {
        self.settle(listener, &Tuple::new(local, peer), Birth::Arrived(child), wakes)
    }

    /// The request lapsed before the decision, or the handshake failed after it.
    pub(crate) fn gone(&mut self, listener: SocketId, tuple: &Tuple, wakes: &mut Wakes) {
        if let Some(ask) = self.listeners.get_mut(&listener) {
            ask.incoming.retain(|(_, waiting)| waiting != tuple);
        }
        self.settle(listener, tuple, Birth::Failed, wakes);
    }

    fn settle(&mut self, listener: SocketId, tuple: &Tuple, birth: Birth, wakes: &mut Wakes) -> bool {
        let ask = self.listeners.get_mut(&listener);
        let Some(slot @ Birth::Expected(_)) = ask.and_then(|a| a.accepted.get_mut(tuple)) else {
            return false;
        };
        if let Birth::Expected(waker) = core::mem::replace(slot, birth) {
            wakes.extend(waker);
        }
        true
    }
}
