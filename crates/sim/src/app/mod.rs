//! Programs that run on simulated hosts. They drive sockets only by the stack's verbs and by its events.
mod bulk;
mod churn;
mod echo;
mod flood;
pub mod messages;
pub mod pattern;
mod rr;
mod sink;
mod udp;

pub use bulk::{Bulk, BulkSpec};
pub use churn::{Churn, ChurnSpec};
pub use echo::Echo;
pub use flood::{Discard, Flood, FloodSpec};
pub use rr::{Rr, RrSpec};
pub use sink::{Pace, Sink};
pub use udp::{UdpEcho, UdpPing, UdpPingSpec};

use crate::check::Ledger;
use crate::host::Core;
use lowwater_core::base::{Error, Instant, Rng, SocketId};
use lowwater_core::sctp::SctpOptions;
use lowwater_core::socket::{Event, ListenAddr, ListenOptions};
use lowwater_core::tcp::SocketOptions;
use std::net::SocketAddr;

/// Most bytes that a program reads with one call.
pub const READ_BYTES: usize = 65_536;
/// Associations that may wait to be accepted.
const SCTP_BACKLOG: u32 = 128;

/// What a program can do.
pub struct Io<'a> {
    /// The stack.
    pub core: &'a mut Core,
    /// Virtual time.
    pub now: Instant,
    /// The program's own stream of chance.
    pub rng: &'a mut Rng,
    /// Where facts are reported.
    pub ledger: &'a mut Ledger,
    pub(crate) opened: &'a mut Vec<SocketId>,
    pub(crate) wake_at: &'a mut Option<Instant>,
}

impl Io<'_> {
    /// Asks for [`App::wake`] at `at` at the latest (an earlier request stays).
    pub fn wake_at(&mut self, at: Instant) {
        let at = self.wake_at.map_or(at, |w| w.min(at));
        *self.wake_at = Some(at);
    }

    /// Opens a connection; its events come to this program.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn connect(&mut self, remote: SocketAddr, options: &SocketOptions) -> Result<SocketId, Error> {
        let id = self.core.tcp_connect(self.now, remote, options)?;
        self.opened.push(id);
        Ok(id)
    }

    /// Opens a connection with the front of `data` in its SYN, where it may be (TCP Fast Open); how much that was.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn connect_with_data(
        &mut self,
        remote: SocketAddr,
        options: &SocketOptions,
        data: &[u8],
    ) -> Result<(SocketId, usize), Error> {
        let (id, sent) = self.core.tcp_connect_with_data(self.now, remote, options, data)?;
        self.opened.push(id);
        Ok((id, sent))
    }

    /// Listens on `port` of any address; events come to this program.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn listen(&mut self, port: u16, options: &ListenOptions) -> Result<SocketId, Error> {
        let id = self.core.tcp_listen(self.now, ListenAddr::port(port), options)?;
        self.opened.push(id);
        Ok(id)
    }

    /// Takes a connection from the backlog, and the peer's address; its events come to this program.
    ///
    /// # Errors
    /// Those of the stack, [`Error::WouldBlock`] when none waits.
    pub fn accept(&mut self, listener: SocketId) -> Result<(SocketId, SocketAddr), Error> {
        let (id, peer) = self.core.tcp_accept(self.now, listener)?;
        self.opened.push(id);
        Ok((id, peer))
    }

    /// Binds a UDP socket; its events come to this program.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn udp_bind(&mut self, local: SocketAddr) -> Result<SocketId, Error> {
        let id = self.core.udp_bind(self.now, local)?;
        self.opened.push(id);
        Ok(id)
    }

    /// Opens an association; its events come to this program. Calls of SCTP miss the journal.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn sctp_connect(
        &mut self,
        remotes: &[SocketAddr],
        locals: &[SocketAddr],
        options: SctpOptions,
    ) -> Result<SocketId, Error> {
        let id = self.core.stack_mut().sctp_connect(self.now, remotes, locals, options)?;
        self.opened.push(id);
        Ok(id)
    }

    /// Listens for associations at these addresses; events come to this program.
    ///
    /// # Errors
    /// Those of the stack.
    pub fn sctp_listen(&mut self, at: &[SocketAddr], options: SctpOptions) -> Result<SocketId, Error> {
        let id = self.core.stack_mut().sctp_listen(self.now, at, SCTP_BACKLOG, options)?;
        self.opened.push(id);
        Ok(id)
    }

    /// Takes an association from the backlog, with the peer's address; its events come to this program.
    ///
    /// # Errors
    /// Those of the stack, [`Error::WouldBlock`] when none waits.
    pub fn sctp_accept(&mut self, listener: SocketId) -> Result<(SocketId, SocketAddr), Error> {
        let (id, peer) = self.core.stack_mut().sctp_accept(self.now, listener)?;
        self.opened.push(id);
        Ok((id, peer))
    }

    /// Reports a broken promise.
    pub fn fail(&mut self, checker: &'static str, message: impl Into<String>) {
        self.ledger.fail(checker, self.now, message);
    }
}

/// A program.
pub trait App: Send {
    /// Its name in reports.
    fn name(&self) -> &'static str;
    /// Called once when the host starts.
    fn start(&mut self, io: &mut Io<'_>);
    /// Something happened to one of its sockets.
    fn event(&mut self, io: &mut Io<'_>, event: Event);
    /// The time that it asked for has come.
    fn wake(&mut self, io: &mut Io<'_>);
    /// It has nothing more to do. Servers are done when they serve nobody.
    fn done(&self) -> bool;
    /// Closes what it holds open for good (listeners), once all programs are done.
    fn stop(&mut self, io: &mut Io<'_>);
    /// How far it got, for reports.
    fn progress(&self) -> String;
    /// The sockets whose path a picture should show.
    fn sockets(&self) -> Vec<SocketId> {
        Vec::new()
    }
}
