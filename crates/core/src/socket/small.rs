//! The small objects of the handshake and of TIME-WAIT, which peers can create in numbers.
use super::event::Told;
use crate::base::{SocketId, Tuple};
use crate::tcp::{Request, Segment, Setup, TimeWait};
use crate::timer::Lazy;

slotmap::new_key_type! {
    /// A request: a SYN that waits for a decision, or SYN-RECEIVED of a passive open.
    pub struct RequestId;
    /// An object in TIME-WAIT.
    pub struct TwId;
}

/// A SYN about which the application has been asked.
#[derive(Debug)]
pub struct Asked {
    /// The SYN.
    pub syn: Segment,
    /// What the request will be made of.
    pub setup: Setup,
}

/// How far a request is.
#[derive(Debug)]
pub enum Pending {
    /// The application has been asked.
    Asked(Box<Asked>),
    /// The SYN-ACK was sent.
    Sent(Box<Request>),
}

impl Pending {
    /// Its flow.
    #[must_use]
    pub fn tuple(&self) -> &Tuple {
        match self {
            Self::Asked(asked) => &asked.setup.tuple,
            Self::Sent(request) => request.tuple(),
        }
    }
}

/// One request.
#[derive(Debug)]
pub struct RequestEntry {
    /// How far it is.
    pub pending: Pending,
    /// Whose it is.
    pub listener: SocketId,
    /// What the driver knows of it.
    pub told: Told,
    /// Its timer.
    pub timer: Lazy,
}

/// One object in TIME-WAIT.
#[derive(Debug)]
pub struct TwEntry {
    /// The object.
    pub time_wait: TimeWait,
    /// Its timer.
    pub timer: Lazy,
}
