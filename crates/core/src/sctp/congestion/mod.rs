//! Window and flight of one path, and who moves the window: RFC 9260's own rules, or a controller of those that TCP has too.
//!
//! Both count bytes of chunks with their headers and padding (the *load*; RFC 9260 section 7.2), so that what is delivered, what is in
//! flight and what is paced are measured by one rule, however short the messages are. RFC 9260's rules (`rfc9260.rs`) count these bytes
//! themselves. The controllers of `path/congestion` count segments: what stands for one here is a full packet of the path, PMDCS bytes
//! (`controller.rs`). What this module tells others is in bytes in either case.
mod controller;
mod departures;
mod on_path;
mod rfc9260;
#[cfg(test)]
mod tests;

pub use controller::Snapshot;
pub(in crate::sctp) use on_path::Marks;

use crate::base::Cx;
use crate::base::sysctl::SctpCongestionKind;
use crate::base::time::Instant;
use crate::base::trace::Ev;
use crate::path::congestion::Flow;
use crate::sctp::tsn::Tsn;
use controller::Controller;
use lowwater_wire::sctp::{DATA_HEADER_LEN, padded};

/// Window and flight of one path.
#[derive(Debug)]
pub struct Cwnd {
    /// Congestion window in bytes.
    pub cwnd: u32,
    /// Slow-start threshold in bytes; `u32::MAX` before any congestion.
    pub ssthresh: u32,
    /// Bytes acknowledged towards the next increase in congestion avoidance; RFC 9260's rules alone use it.
    pub partial_bytes_acked: u32,
    /// Bytes of user data sent to this path and neither acknowledged nor given up.
    flight: u32,
    /// The same with the headers of the chunks and their padding: what windows count.
    load: u32,
    /// T3-rtx has run out and nothing was acknowledged since: one packet may be in flight (sections 6.3.3 E3, 7.2.3).
    pub lone: bool,
    /// Fast recovery lasts until this TSN is acknowledged (section 7.2.4). It begins for all paths at once; T3-rtx ends it for its own.
    pub(in crate::sctp) recovery: Option<Tsn>,
    /// When data was last sent here, for the decay of an idle window.
    pub last_data: Instant,
    /// Nothing has come to count as in flight since the idle window was made smaller first.
    decayed: bool,
    kind: SctpCongestionKind,
    /// What moves the window where RFC 9260's rules do not, from the first data on.
    controller: Option<Box<Controller>>,
}

/// Bytes that a chunk of `len` bytes of user data takes of a packet; nothing for one whose data was given up.
const fn load(len: u32) -> u32 {
    if len == 0 { 0 } else { DATA_HEADER_LEN as u32 + padded(len as usize) as u32 }
}

impl Cwnd {
    /// The window of a new path whose packets hold `pmdcs` bytes of DATA chunks.
    #[must_use]
    pub const fn new(kind: SctpCongestionKind, pmdcs: u32, v6: bool) -> Self {
        Self {
            cwnd: rfc9260::initial(pmdcs, v6),
            ssthresh: u32::MAX,
            partial_bytes_acked: 0,
            flight: 0,
            load: 0,
            lone: false,
            recovery: None,
            last_data: Instant::ZERO,
            decayed: false,
            kind,
            controller: None,
        }
    }

    /// Who moves it.
    #[must_use]
    pub const fn kind(&self) -> SctpCongestionKind {
        self.kind
    }

    /// What the controller knows, where there is one.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.controller.as_ref().map(|controller| controller.snapshot())
    }

    /// Bytes of user data in flight.
    #[must_use]
    pub const fn flight(&self) -> u32 {
        self.flight
    }

    /// What counts against the window.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.load
    }

    /// True while slow start grows the window.
    #[must_use]
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd <= self.ssthresh
    }

    /// Another packet may go: the window may be overrun by less than one (rule B of section 6.1).
    #[must_use]
    pub const fn has_room(&self) -> bool {
        self.has_room_in_packet() && !(self.lone && self.flight > 0)
    }

    /// Another chunk may join the packet that is being written.
    #[must_use]
    pub const fn has_room_in_packet(&self) -> bool {
        self.in_flight() < self.cwnd
    }

    /// A chunk counts as in flight.
    pub const fn add(&mut self, len: u32) {
        self.flight += len;
        self.load += load(len);
        self.decayed = false;
    }

    /// The window and the threshold begin anew; what is in flight stays so.
    fn reinitialize(&mut self, pmdcs: u32, v6: bool) {
        let Self { flight, load, lone, recovery, last_data, kind, .. } = *self;
        *self = Self { flight, load, lone, recovery, last_data, ..Self::new(kind, pmdcs, v6) };
    }

    /// A chunk counts as in flight no more.
    pub const fn remove(&mut self, len: u32) {
        self.flight = self.flight.saturating_sub(len);
        self.load = self.load.saturating_sub(load(len));
    }

    /// Nothing is in flight any more; its load.
    pub(in crate::sctp) const fn remove_all(&mut self) -> u32 {
        self.flight = 0;
        core::mem::replace(&mut self.load, 0)
    }

    /// Nothing will be sent any more.
    pub(in crate::sctp) fn end(&mut self) {
        self.remove_all();
        self.controller = None;
    }

    fn set(&mut self, cx: &mut Cx<'_>, cwnd: u32) {
        self.cwnd = cwnd;
        cx.trace(Ev::Cwnd(self.cwnd, self.ssthresh));
    }

    /// Lets the controller do something, and shows the window that it has then, in bytes. Nothing where there is none.
    fn control<R>(&mut self, flow: &Flow, act: impl FnOnce(&mut Controller, &Flow) -> R) -> Option<R> {
        let controller = self.controller.as_mut()?;
        controller.set_unit(flow.mss);
        let flow = controller.complete(*flow, self.load);
        let result = act(controller, &flow);
        (self.cwnd, self.ssthresh) = controller.window_bytes();
        Some(result)
    }
}
