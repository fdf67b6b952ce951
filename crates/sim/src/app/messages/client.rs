//! The side that opens an association.
use super::TalkSpec;
use super::side::Side;
use crate::app::{App, Io};
use crate::check::messages::NAME;
use lowwater_core::base::{Error, SocketId};
use lowwater_core::socket::Event;

/// A client with one association.
pub struct Talk {
    spec: TalkSpec,
    opening: Option<SocketId>,
    side: Option<Side>,
    failed: bool,
}

impl Talk {
    /// A client that opens its association at its time.
    #[must_use]
    pub fn new(spec: TalkSpec) -> Self {
        Self { spec, opening: None, side: None, failed: false }
    }

    fn up(&mut self, io: &mut Io<'_>, id: SocketId) {
        self.opening = None;
        self.side = Some(Side::new(io, id, &self.spec, 0));
    }

    fn no_start(&mut self, io: &mut Io<'_>, e: Option<Error>) {
        let late = self.spec.may_fail && e == Some(Error::TimedOut);
        // Where the cookie has come and its acknowledgement is lost, the server is up, and may give up first or abort it as it was told to: its ABORT is a
        // refusal here. Nobody else may refuse.
        let ends_it = self.spec.may_fail || !self.spec.end.is_good();
        let up = io.ledger.messages.was_accepted(self.spec.number.into());
        let aborted = ends_it && up && e == Some(Error::Refused);
        if !late && !aborted {
            io.fail(NAME, format!("association {} never began: {e:?}", self.spec.number));
        }
        self.failed = true;
        if let Some(id) = self.opening.take() {
            io.core.close(io.now, id);
        }
    }
}

impl App for Talk {
    fn name(&self) -> &'static str {
        "talk"
    }

    fn start(&mut self, io: &mut Io<'_>) {
        io.wake_at(self.spec.start);
    }

    fn wake(&mut self, io: &mut Io<'_>) {
        if let Some(side) = &mut self.side {
            return side.run(io);
        }
        if self.opening.is_some() || self.failed {
            return;
        }
        match io.sctp_connect(&self.spec.remotes, &self.spec.locals, self.spec.options[0].clone()) {
            Ok(id) => self.opening = Some(id),
            Err(e) => self.no_start(io, Some(e)),
        }
    }

    fn event(&mut self, io: &mut Io<'_>, event: Event) {
        match event {
            Event::Connected(id) if self.opening == Some(id) => self.up(io, id),
            Event::Closed(id) if self.opening == Some(id) => {
                let e = io.core.take_error(io.now, id);
                return self.no_start(io, e);
            }
            _ => {}
        }
        if let Some(side) = &mut self.side {
            side.run(io);
        }
    }

    fn done(&self) -> bool {
        self.failed || self.side.as_ref().is_some_and(|s| s.over)
    }

    fn stop(&mut self, _io: &mut Io<'_>) {}

    fn sockets(&self) -> Vec<SocketId> {
        self.opening.into_iter().chain(self.side.as_ref().filter(|s| !s.over).map(|s| s.id)).collect()
    }

    fn progress(&self) -> String {
        let opening = if self.opening.is_some() { "opening; " } else { "" };
        self.side.as_ref().map_or_else(
            || format!("association {} {opening}not up", self.spec.number),
            |s| s.progress(opening),
        )
    }
}
