//! TCP for async programs: listeners, streams, their halves, and requests that wait for a decision.
mod incoming;
mod io;
mod listener;
mod split;
mod stream;

pub use incoming::Incoming;
pub(crate) use listener::bind_first;
pub use listener::{ListenOptions, TcpListener};
pub use split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub(crate) use stream::start_connect;
pub use stream::{ConnectOptions, TcpStream};
