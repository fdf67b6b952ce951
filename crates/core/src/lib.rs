//! The lowwater stack: one owner, no I/O, time and chance as arguments.
//!
//! [`stack::Stack`] is the whole of it: a driver owns one, calls its verbs and carries out their answers. The core never
//! reads a clock, draws no randomness of its own, opens nothing and calls nobody back.
//!
//! # The order of calls
//! A driver is a loop around these verbs:
//!
//! ```text
//! loop {
//!     for each packet that came in      stack.receive(now, dev, packet)      // first: news before timers
//!     for each packet that left         stack.complete(now, dev, owner)      // its credit comes back
//!     for each that the device dropped  stack.dropped(now, dev, owner)       // so does it, and the flow reduces
//!     if a full device has room again   stack.device_ready(now, dev)
//!     if next_deadline() has come       stack.handle_timeout(now)
//!     while let Some(event) = stack.next_event() { wake or serve the application, which calls the socket verbs }
//!     for each dev while needs_transmit(dev)   stack.transmit(now, dev, budget, &mut device)
//!     sleep until a packet, a completion, room, a call, or next_deadline()
//! }
//! ```
//! - Time never runs backwards. An earlier `now` is counted (`ClockBackwards`) and taken as the last one.
//! - `receive` may keep packets back to merge them with their successors; every other verb processes them first.
//! - Nothing is sent from inside a verb other than `transmit`; nothing but `transmit` needs a device.
//! - A device that answers [`device::Submit::Sent`] or `Filled` owes a `complete` for every packet with an owner, exactly once; one
//!   that answers `Completed` or `Dropped` has paid by that; after `Filled` and `NotNow` it owes a `device_ready`.
//! - Events are edges and merge: whoever takes one goes on until [`base::Error::WouldBlock`].
//! - Closing gives the name up at once; a connection ends in the background and [`stack::Event::Gone`] tells when.
//! - The same sequence of calls with the same arguments gives the same packets and events, byte for byte.
#![forbid(unsafe_code)]
pub mod base;
pub mod credit;
pub mod device;
pub mod ip;
pub mod offload;
pub mod packet;
pub mod path;
pub mod qdisc;
pub mod ranges;
pub mod sctp;
pub mod socket;
pub mod stack;
pub mod tcp;
pub mod timer;
pub mod udp;
