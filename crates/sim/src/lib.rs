//! The deterministic simulator: the production core in virtual time, with links, faults, programs and checkers from one seed.
//!
//! A protocol of one's own is an [`app::App`]: it hears of events and of the time that it asked for, and calls the stack by [`app::Io`].
//! Stop and wait over UDP, on a link that loses a tenth of its packets, is the same whenever it runs:
//!
//! ```
//! use lowwater_core::base::{Duration, Instant, SocketId};
//! use lowwater_core::socket::Event;
//! use lowwater_sim::app::{App, Io, UdpEcho};
//! use lowwater_sim::host::HostSpec;
//! use lowwater_sim::link::spec::{DelaySpec, LossSpec, NicSpec, PipeSpec};
//! use lowwater_sim::world::{Recording, To, World};
//! use std::net::{IpAddr, SocketAddr};
//!
//! const RETRY: Duration = Duration::from_millis(100);
//!
//! /// Asks `last` times, one question after the other, and again where no answer comes.
//! struct Ask {
//!     from: SocketAddr,
//!     to: SocketAddr,
//!     id: Option<SocketId>,
//!     next: u32,
//!     last: u32,
//!     retry_at: Instant,
//!     sent: u32,
//! }
//!
//! impl Ask {
//!     fn send(&mut self, io: &mut Io<'_>) {
//!         let (Some(id), question) = (self.id, self.next.to_be_bytes().to_vec()) else { return };
//!         if let Err(e) = io.core.udp_send_to(io.now, id, question.into(), self.to) {
//!             io.fail("ask", format!("question {}: {e}", self.next));
//!         }
//!         self.sent += 1;
//!         self.retry_at = io.now + RETRY;
//!         io.wake_at(self.retry_at);
//!     }
//! }
//!
//! impl App for Ask {
//!     fn name(&self) -> &'static str {
//!         "ask"
//!     }
//!     fn start(&mut self, io: &mut Io<'_>) {
//!         self.id = io.udp_bind(self.from).ok();
//!         self.send(io);
//!     }
//!     fn event(&mut self, io: &mut Io<'_>, event: Event) {
//!         let Event::Readable(id) = event else { return };
//!         while let Ok((answer, _)) = io.core.udp_recv_from(io.now, id) {
//!             // An answer that came late is one to a question before.
//!             if !self.done() && answer[..] == self.next.to_be_bytes() {
//!                 self.next += 1;
//!                 if !self.done() {
//!                     self.send(io);
//!                 }
//!             }
//!         }
//!     }
//!     fn wake(&mut self, io: &mut Io<'_>) {
//!         // A wake-up that was asked for is not taken back: this one may be early.
//!         if !self.done() && io.now >= self.retry_at {
//!             self.send(io);
//!         } else if !self.done() {
//!             io.wake_at(self.retry_at);
//!         }
//!     }
//!     fn done(&self) -> bool {
//!         self.next == self.last
//!     }
//!     fn stop(&mut self, io: &mut Io<'_>) {
//!         if let Some(id) = self.id.take() {
//!             io.core.close(io.now, id);
//!         }
//!     }
//!     fn progress(&self) -> String {
//!         format!("{} of {} answered, {} sent", self.next, self.last, self.sent)
//!     }
//! }
//!
//! fn run(seed: u64) -> (Instant, String) {
//!     let mut world = World::new(seed, Recording::default());
//!     let (a, b): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
//!     let (asking, echo) = (world.add_host(HostSpec::new(a)), world.add_host(HostSpec::new(b)));
//!     let way = PipeSpec {
//!         nic: Some(NicSpec::default()),
//!         loss: LossSpec { random_ppm: 100_000, ..LossSpec::default() },
//!         delay: DelaySpec { delay_ns: 5_000_000, ..DelaySpec::default() },
//!         ..PipeSpec::default()
//!     };
//!     world.add_pipe(Some(asking), &way, To::Host(echo));
//!     world.add_pipe(Some(echo), &way, To::Host(asking));
//!     let (from, to) = (SocketAddr::new(a, 1_000), SocketAddr::new(b, 7));
//!     let ask = Ask { from, to, id: None, next: 0, last: 100, retry_at: Instant::ZERO, sent: 0 };
//!     world.add_app(echo, Box::new(UdpEcho::new(to)));
//!     world.add_app(asking, Box::new(ask));
//!     world.start();
//!     let limit = Instant::ZERO + Duration::from_secs(60);
//!     let busy = |world: &World| world.hosts()[asking].apps().any(|app| !app.done());
//!     assert!(world.run_while(limit, busy).expect("no promise is broken"), "all is answered in a minute");
//!     let told = world.hosts()[asking].apps().map(App::progress).collect();
//!     (world.now(), told)
//! }
//!
//! assert_eq!(run(1), run(1));
//! assert_ne!(run(1), run(2));
//! ```
#![forbid(unsafe_code)]
pub mod app;
pub mod check;
pub mod edit;
pub mod host;
pub mod journal;
pub mod link;
pub mod pcap;
pub mod runner;

pub mod scenario;
pub mod schedule;
pub mod split;
pub mod swarm;
pub mod world;
