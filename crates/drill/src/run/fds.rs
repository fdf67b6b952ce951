//! The script's file descriptors and what is behind them.
use super::Runner;
use lowwater_posix::{Call, Fd, Started};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;

/// What a descriptor is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Stream,
    Datagram,
    /// A pipe or an epoll set.
    Other,
}

/// All descriptors by the script's numbers.
#[derive(Debug, Default)]
pub(super) struct Fds {
    by_script: BTreeMap<i64, (Fd, Kind)>,
    /// Stream sockets whose connection is there or on its way.
    begun: BTreeSet<i64>,
    /// The stream socket that was made or accepted last.
    latest: Option<i64>,
    listening: BTreeSet<i64>,
    /// Sockets whose datagrams have no checksum (SO_NO_CHECK).
    unchecked: BTreeSet<i64>,
    /// The script has made a socket.
    made: bool,
    /// Files of the machine.
    files: BTreeMap<i64, File>,
}

impl Fds {
    /// The host's number; one that no host gives for what the script never had.
    pub(super) fn live(&self, script: i64) -> Fd {
        self.by_script.get(&script).map_or(-1, |(live, _)| *live)
    }

    /// Gives a new descriptor the script's number; false when that is taken.
    pub(super) fn insert(&mut self, script: i64, live: Fd, kind: Kind) -> bool {
        if kind == Kind::Stream {
            self.latest = Some(script);
        }
        self.made |= kind != Kind::Other;
        self.by_script.insert(script, (live, kind)).is_none()
    }

    /// Gives a file the script's number; false when that is taken.
    pub(super) fn insert_file(&mut self, script: i64, file: File) -> bool {
        !self.by_script.contains_key(&script) && self.files.insert(script, file).is_none()
    }

    /// The file of this number.
    pub(super) fn file(&self, script: i64) -> Option<&File> {
        self.files.get(&script)
    }

    pub(super) fn remove(&mut self, script: i64) {
        self.files.remove(&script);
        self.by_script.remove(&script);
        self.begun.remove(&script);
        self.listening.remove(&script);
        self.unchecked.remove(&script);
    }

    /// This socket's datagrams have a checksum from now on, or none.
    pub(super) fn check(&mut self, script: i64, on: bool) {
        match on {
            true => self.unchecked.remove(&script),
            false => self.unchecked.insert(script),
        };
    }

    /// Some socket has asked for datagrams without a checksum.
    pub(super) fn is_unchecked(&self) -> bool {
        !self.unchecked.is_empty()
    }

    pub(super) fn kind(&self, script: i64) -> Option<Kind> {
        self.by_script.get(&script).map(|(_, kind)| *kind)
    }

    /// A connection of this socket begins; false when one is there or on its way.
    pub(super) fn begins(&mut self, script: i64) -> bool {
        self.begun.insert(script)
    }

    /// The connection of this socket has failed: another may begin.
    pub(super) fn failed(&mut self, script: i64) {
        self.begun.remove(&script);
    }

    /// This socket listens; false when it did already.
    pub(super) fn listens(&mut self, script: i64) -> bool {
        self.listening.insert(script)
    }

    /// A new connection is under test that nobody has accepted yet.
    pub(super) const fn forget_latest(&mut self) {
        self.latest = None;
    }

    /// All stream sockets, by the script's numbers.
    pub(super) fn streams(&self) -> Vec<(i64, Fd)> {
        let streams = self.by_script.iter().filter(|(_, (_, kind))| *kind == Kind::Stream);
        streams.map(|(script, (live, _))| (*script, *live)).collect()
    }

    /// All datagram sockets, by the script's numbers.
    pub(super) fn datagrams(&self) -> Vec<(i64, Fd)> {
        let datagrams = self.by_script.iter().filter(|(_, (_, kind))| *kind == Kind::Datagram);
        datagrams.map(|(script, (live, _))| (*script, *live)).collect()
    }

    /// What the peer sends may come without being asked for: the script has made a stream socket and no connection came after it, or it has
    /// made no socket at all.
    pub(super) const fn unasked(&self) -> bool {
        self.latest.is_some() || !self.made
    }

    /// The socket of the connection under test.
    pub(super) fn latest(&self) -> Option<Fd> {
        self.by_script.get(&self.latest?).map(|(live, _)| *live)
    }
}

impl Runner<'_> {
    /// The port of the last datagram socket, and its peer's if it is connected.
    pub(super) fn datagram_socket(&mut self) -> Option<(u16, Option<u16>)> {
        let of_datagrams = |(live, kind): &(Fd, Kind)| (*kind == Kind::Datagram).then_some(*live);
        let fd = self.fds.by_script.values().rev().find_map(of_datagrams)?;
        let mut port = |call| match self.host.call(call) {
            Started::Done(reply) => reply.addr.map(|a| a.port()),
            Started::Blocked(_) => None,
        };
        let local = port(Call::Getsockname { fd })?;
        Some((local, port(Call::Getpeername { fd })))
    }
}
