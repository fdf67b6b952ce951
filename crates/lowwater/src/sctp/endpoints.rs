//! One-to-many sockets under the stack's lock: whose an association is, and which have something to read.
use lowwater_core::base::{Error, Instant, SocketId};
use lowwater_core::sctp::{Received, State};
use lowwater_core::stack::Stack as Core;
use lowwater_core::tcp::Ready;
use std::collections::{BTreeMap, BTreeSet};

/// One of them, by the name of its listener in the core.
#[derive(Debug, Default)]
struct Endpoint {
    assocs: BTreeSet<SocketId>,
    /// Those that may have something to read, once each, by when that came.
    ready: BTreeSet<(u64, SocketId)>,
    /// How many it may have.
    most: usize,
    /// Those that refused a message since they were last told to be writable.
    full: BTreeSet<SocketId>,
}

/// An association of a one-to-many socket.
#[derive(Debug)]
struct Member {
    endpoint: SocketId,
    /// It is in `ready` under this number.
    listed: Option<u64>,
    /// Somebody waits for the end of its handshake, and takes its error.
    awaited: bool,
}

/// All one-to-many sockets of a stack.
#[derive(Debug, Default)]
pub(crate) struct Endpoints {
    all: BTreeMap<SocketId, Endpoint>,
    members: BTreeMap<SocketId, Member>,
}

impl Endpoints {
    /// A listener that is a one-to-many socket.
    pub(crate) fn insert(&mut self, endpoint: SocketId, most: usize) {
        self.all.insert(endpoint, Endpoint { most, ..Endpoint::default() });
    }

    /// It is gone; its associations are to be closed.
    pub(crate) fn remove(&mut self, endpoint: SocketId) -> impl Iterator<Item = SocketId> + use<> {
        let assocs = self.all.remove(&endpoint).unwrap_or_default().assocs;
        for id in &assocs {
            self.members.remove(id);
        }
        assocs.into_iter()
    }

    /// It is a one-to-many socket.
    pub(crate) fn knows(&self, listener: SocketId) -> bool {
        self.all.contains_key(&listener)
    }

    /// The socket of an association.
    pub(crate) fn of(&self, assoc: SocketId) -> Option<SocketId> {
        self.members.get(&assoc).map(|member| member.endpoint)
    }

    /// The associations of a socket.
    pub(crate) fn assocs(&self, endpoint: SocketId) -> impl Iterator<Item = SocketId> + '_ {
        self.all.get(&endpoint).into_iter().flat_map(|e| e.assocs.iter().copied())
    }

    /// It takes no further association.
    pub(crate) fn is_full(&self, endpoint: SocketId) -> bool {
        self.all.get(&endpoint).is_some_and(|e| e.assocs.len() >= e.most)
    }

    /// One more association.
    pub(crate) fn join(&mut self, endpoint: SocketId, assoc: SocketId, awaited: bool) {
        if let Some(e) = self.all.get_mut(&endpoint) {
            e.assocs.insert(assoc);
            self.members.insert(assoc, Member { endpoint, listed: None, awaited });
        }
    }

    /// One less.
    pub(crate) fn leave(&mut self, assoc: SocketId) {
        self.list(assoc, None);
        let Some(member) = self.members.remove(&assoc) else { return };
        if let Some(e) = self.all.get_mut(&member.endpoint) {
            e.assocs.remove(&assoc);
            e.full.remove(&assoc);
        }
    }

    /// What it has to read next has come at `arrival` ([`Core::sctp_arrival`]); none for nothing.
    pub(crate) fn list(&mut self, assoc: SocketId, arrival: Option<u64>) {
        let Some(member) = self.members.get_mut(&assoc).filter(|m| m.listed != arrival) else { return };
        let Some(e) = self.all.get_mut(&member.endpoint) else { return };
        if let Some(old) = core::mem::replace(&mut member.listed, arrival) {
            e.ready.remove(&(old, assoc));
        }
        e.ready.extend(arrival.map(|new| (new, assoc)));
    }

    /// It takes messages again, or has refused one.
    pub(crate) fn set_full(&mut self, assoc: SocketId, full: bool) {
        let endpoint = self.of(assoc).and_then(|endpoint| self.all.get_mut(&endpoint));
        match endpoint {
            Some(e) if full => drop(e.full.insert(assoc)),
            Some(e) => drop(e.full.remove(&assoc)),
            None => {}
        }
    }

    /// Nobody waits for its handshake any more.
    pub(crate) fn set_met(&mut self, assoc: SocketId) {
        if let Some(member) = self.members.get_mut(&assoc) {
            member.awaited = false;
        }
    }

    /// It is over, everything of it was read, and nobody waits for its error: it is to be given back.
    pub(crate) fn is_over(&self, core: &Core, assoc: SocketId) -> bool {
        self.members.get(&assoc).is_some_and(|member| !member.awaited)
            && core.sctp_state(assoc).is_ok_and(|state| state == State::Closed)
            && !core.sctp_has_input(assoc)
    }

    /// Level readiness: something can be read; some association, or a new one, takes a message.
    pub(crate) fn poll(&mut self, core: &Core, endpoint: SocketId) -> Ready {
        let mut is = Ready::NONE;
        while let Some(id) = self.front(endpoint) {
            if core.sctp_has_input(id) {
                is.insert(Ready::IN);
                break;
            }
            self.list(id, None);
        }
        if self.all.get(&endpoint).is_some_and(|e| e.full.is_empty() || e.full.len() < e.assocs.len()) {
            is.insert(Ready::OUT);
        }
        is
    }

    /// What is next to be read, of all associations in the order in which it came.
    pub(crate) fn next(
        &mut self,
        core: &mut Core,
        now: Instant,
        (endpoint, max): (SocketId, usize),
    ) -> Result<(SocketId, Received), Error> {
        loop {
            let id = self.front(endpoint).ok_or(Error::WouldBlock)?;
            // An end or an error that is met first stays with the association: here it is told by notifications.
            let received = if core.sctp_has_input(id) { core.sctp_recv(now, id, max) } else { Ok(None) };
            self.list(id, core.sctp_arrival(id).filter(|_| matches!(received, Ok(Some(_)))));
            if let Ok(Some(received)) = received {
                return Ok((id, received));
            }
        }
    }

    fn front(&self, endpoint: SocketId) -> Option<SocketId> {
        self.all.get(&endpoint)?.ready.first().map(|(_, id)| *id)
    }
}
