//! The side that accepts associations.
use super::TalkSpec;
use super::side::Side;
use crate::app::{App, Io};
use crate::check::messages::NAME;
use lowwater_core::base::SocketId;
use lowwater_core::sctp::SctpOptions;
use lowwater_core::socket::Event;
use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddr};

/// A server of all associations of a world.
pub struct Hear {
    at: Vec<SocketAddr>,
    options: SctpOptions,
    specs: Vec<TalkSpec>,
    listener: Option<SocketId>,
    sides: BTreeMap<SocketId, Side>,
}

impl Hear {
    /// A server at these addresses, or on `port` of any address; `specs` are the associations that it knows by their clients' ports.
    #[must_use]
    pub fn new(at: Vec<SocketAddr>, port: u16, options: SctpOptions, specs: Vec<TalkSpec>) -> Self {
        let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
        let at = if at.is_empty() { vec![any] } else { at };
        Self { at, options, specs, listener: None, sides: BTreeMap::new() }
    }

    fn accept(&mut self, io: &mut Io<'_>, listener: SocketId) {
        while let Ok((id, peer)) = io.sctp_accept(listener) {
            let spec = self.specs.iter().find(|s| TalkSpec::port(s.number) == peer.port());
            let Some(spec) = spec else {
                io.fail(NAME, format!("an association from {peer} was never opened"));
                continue;
            };
            io.ledger.messages.accept(spec.number.into());
            let _ = io.core.stack_mut().sctp_set_options(io.now, id, spec.options[1].clone());
            self.sides.insert(id, Side::new(io, id, spec, 1));
            self.run(io, id);
        }
    }

    fn run(&mut self, io: &mut Io<'_>, id: SocketId) {
        let Some(side) = self.sides.get_mut(&id) else { return };
        side.run(io);
        if side.over {
            self.sides.remove(&id);
        }
    }
}

impl App for Hear {
    fn name(&self) -> &'static str {
        "hear"
    }

    fn start(&mut self, io: &mut Io<'_>) {
        match io.sctp_listen(&self.at, self.options.clone()) {
            Ok(id) => self.listener = Some(id),
            Err(e) => io.fail(NAME, format!("listening at {:?} failed: {e}", self.at)),
        }
    }

    fn event(&mut self, io: &mut Io<'_>, event: Event) {
        match event {
            Event::Accepted(listener) => self.accept(io, listener),
            Event::Readable(id) | Event::Writable(id) | Event::Closed(id) | Event::Connected(id) => {
                self.run(io, id);
            }
            _ => {}
        }
    }

    fn wake(&mut self, io: &mut Io<'_>) {
        let ids: Vec<SocketId> = self.sides.keys().copied().collect();
        for id in ids {
            self.run(io, id);
        }
    }

    fn done(&self) -> bool {
        self.sides.is_empty()
    }

    fn stop(&mut self, io: &mut Io<'_>) {
        if let Some(id) = self.listener.take() {
            io.core.close(io.now, id);
        }
    }

    fn sockets(&self) -> Vec<SocketId> {
        self.sides.keys().copied().collect()
    }

    fn progress(&self) -> String {
        self.sides.values().map(|s| s.progress("")).collect::<Vec<_>>().join(", ")
    }
}
