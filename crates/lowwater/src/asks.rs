//! Listeners that ask: requests on their way to the application, and connections on their way to who accepted them.
use crate::registry::Wakes;
use crate::waiters::same_task;
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

/// A request that was told of, and its flow.
pub(crate) type Asked = (RequestId, Tuple);

#[derive(Debug, Default)]
struct Ask {
    /// Not looked at yet; bounded by the listener's backlog, as the core bounds requests.
    incoming: VecDeque<Asked>,
    /// By flow, which a later request may have as well: the latest has it.
    accepted: HashMap<Tuple, (RequestId, Birth)>,
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
            .filter_map(|(_, birth)| match birth {
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
    pub(crate) fn next(&mut self, listener: SocketId) -> Option<Asked> {
        self.listeners.get_mut(&listener)?.incoming.pop_front()
    }

    /// The application accepts this flow and waits for the connection, now that the core goes on with the request: one that has lapsed must not
    /// take the place of the flow's next. A connection of the flow before this one that nobody has fetched is returned, to be closed.
    #[must_use = "it is to be closed"]
    pub(crate) fn expect(
        &mut self,
        listener: SocketId,
        (request, tuple): Asked,
        wakes: &mut Wakes,
    ) -> Option<SocketId> {
        let before =
            self.listeners.get_mut(&listener)?.accepted.insert(tuple, (request, Birth::Expected(None)));
        match before?.1 {
            Birth::Arrived(id) => return Some(id),
            // The flow's handshake before this one has failed, and whoever waited for that has not looked yet.
            Birth::Expected(waker) => wakes.extend(waker),
            Birth::Failed => {}
        }
        None
    }

    /// The application waits no more; a connection that has arrived is returned, to be closed.
    pub(crate) fn forget(
        &mut self,
        listener: SocketId,
        (request, tuple): Asked,
        wakes: &mut Wakes,
    ) -> Option<SocketId> {
        let accepted = &mut self.listeners.get_mut(&listener)?.accepted;
        accepted.get(&tuple).filter(|(of, _)| *of == request)?;
        match accepted.remove(&tuple)?.1 {
            Birth::Arrived(id) => return Some(id),
            Birth::Expected(waker) => wakes.extend(waker),
            Birth::Failed => {}
        }
        None
    }

    /// How far an accepted flow is; `None` when the listener is gone. Anything but "expected" is told once.
    pub(crate) fn poll(
        &mut self,
        listener: SocketId,
        (request, tuple): Asked,
        waker: &Waker,
        wakes: &mut Wakes,
    ) -> Option<Birth> {
        let accepted = &mut self.listeners.get_mut(&listener)?.accepted;
        match accepted.get_mut(&tuple) {
            Some((of, _)) if *of != request => Some(Birth::Failed),
            Some((_, Birth::Expected(slot))) => {
                wakes.extend(slot.replace(waker.clone()).filter(|other| !same_task(other, waker)));
                Some(Birth::Expected(None))
            }
            // Another request of the flow was here meanwhile, and it has been told all.
            None => Some(Birth::Failed),
            Some(_) => accepted.remove(&tuple).map(|(_, birth)| birth),
        }
    }

    /// The stack has stopped: nobody waits any more.
    pub(crate) fn wake_everybody(&mut self, wakes: &mut Wakes) {
        for (_, birth) in self.listeners.values_mut().flat_map(|ask| ask.accepted.values_mut()) {
            if let Birth::Expected(waker) = birth {
                wakes.extend(waker.take());
            }
        }
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
        let Some((_, slot @ Birth::Expected(_))) = ask.and_then(|a| a.accepted.get_mut(tuple)) else {
            return false;
        };
        if let Birth::Expected(waker) = core::mem::replace(slot, birth) {
            wakes.extend(waker);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slotmap::SlotMap;

    /// The peer gives its SYN up and connects anew from the same port, before whoever accepted the first request looks.
    #[test]
    fn two_requests_of_one_flow_are_not_taken_for_each_other() {
        let mut names = SlotMap::<SocketId, ()>::with_key();
        let (listener, child) = (names.insert(()), names.insert(()));
        let mut requests = SlotMap::<RequestId, ()>::with_key();
        let ends = [([10, 0, 0, 1], 80).into(), ([10, 0, 0, 2], 4_000).into()];
        let tuple = Tuple::new(ends[0], ends[1]);
        let [first, second] = [(); 2].map(|()| (requests.insert(()), tuple));
        let (mut asks, mut wakes) = (Asks::default(), Wakes::new());
        asks.insert(listener);
        assert_eq!(asks.expect(listener, first, &mut wakes), None);
        asks.gone(listener, &tuple, &mut wakes);
        assert_eq!(asks.expect(listener, second, &mut wakes), None);
        let mut poll = |asks: &mut Asks, asked| asks.poll(listener, asked, Waker::noop(), &mut wakes);
        assert!(matches!(poll(&mut asks, second), Some(Birth::Expected(_))));
        assert!(matches!(poll(&mut asks, first), Some(Birth::Failed)));
        assert_eq!(asks.forget(listener, first, &mut Wakes::new()), None);
        assert!(asks.arrived(listener, ends[0], ends[1], child, &mut Wakes::new()), "it is waited for");
        assert!(matches!(poll(&mut asks, second), Some(Birth::Arrived(id)) if id == child));
        assert!(matches!(poll(&mut asks, first), Some(Birth::Failed)), "the listener is there");
        assert!(asks.remove(listener, &mut Wakes::new()).is_empty());
        assert!(asks.poll(listener, first, Waker::noop(), &mut Wakes::new()).is_none(), "now it is not");
    }
}
