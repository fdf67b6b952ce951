//! A listening socket: its backlog of complete connections and the count of its requests.
use super::addr::{ListenAddr, ListenOptions};
use crate::base::SocketId;
use crate::base::{Instant, Sysctl};
use crate::tcp::fastopen::{Queue, mode};
use crate::tcp::{Crowd, Ready, SocketOptions};
use std::collections::VecDeque;

/// A TCP listener.
#[derive(Debug)]
pub struct Listener {
    /// Where it listens, the port chosen.
    pub addr: ListenAddr,
    /// How it behaves; the backlog is bounded by `somaxconn`.
    pub options: ListenOptions,
    /// Complete connections, oldest first.
    pub accept: VecDeque<SocketId>,
    /// Requests that wait for a decision or for the final ACK, and those that the driver must still hear are gone.
    pub requests: u32,
    /// Those of them whose SYN-ACK was not repeated yet.
    pub young: u32,
    /// Connections that began with data and wait for their final ACK.
    pub fastopen: Queue,
    /// When a SYN cookie left last.
    pub cookie_at: Option<Instant>,
}

impl Listener {
    /// A listener at `addr`.
    #[must_use]
    pub fn new(addr: ListenAddr, mut options: ListenOptions, sysctl: &Sysctl) -> Self {
        options.backlog = options.backlog.min(sysctl.somaxconn);
        // For all listeners, unless this one has a bound of its own (`inet_listen`).
        let all = sysctl.tcp_fastopen & mode::ALL_LISTENERS != 0 && sysctl.tcp_fastopen & mode::SERVER != 0;
        let bound = &mut options.options.fastopen;
        if all && *bound == 0 {
            *bound = options.backlog;
        }
        // What TCP_FASTOPEN tells, too (`fastopen_queue_tune`).
        *bound = (*bound).min(sysctl.somaxconn);
        let fastopen = Queue::new(*bound);
        Self { addr, options, accept: VecDeque::new(), requests: 0, young: 0, fastopen, cookie_at: None }
    }

    /// Changes the options of connections to come, and TCP_FASTOPEN.
    pub fn set_options(&mut self, mut options: SocketOptions, sysctl: &Sysctl) {
        if options.fastopen != self.options.options.fastopen {
            options.fastopen = options.fastopen.min(sysctl.somaxconn);
            self.fastopen.set_max(options.fastopen);
        }
        self.options.options = options;
    }

    /// How crowded it is.
    #[must_use]
    pub const fn crowd(&self) -> Crowd {
        Crowd { requests: self.requests, young: self.young, backlog: self.options.backlog }
    }

    /// No further connection fits (`sk_acceptq_is_full`: a backlog of n holds n + 1).
    #[must_use]
    pub fn accept_full(&self) -> bool {
        self.accept.len() > self.options.backlog as usize
    }

    /// No further request fits (`inet_csk_reqsk_queue_is_full`: a backlog of n holds n + 1 of these too).
    #[must_use]
    pub const fn requests_full(&self) -> bool {
        self.requests > self.options.backlog
    }

    /// Level readiness.
    #[must_use]
    pub fn poll(&self) -> Ready {
        if self.accept.is_empty() { Ready::NONE } else { Ready::IN }
    }
}
