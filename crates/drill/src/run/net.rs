//! The wire: moves virtual time, gathers what the stack sends, hands it what the peer sends.
use super::flow::Flow;
use super::{Runner, SHOWN, seconds};
use crate::failure::Failure;
use crate::script::{EcnSpec, PacketSpec};
use crate::wire::{self, Wire};
use core::net::SocketAddr;
use lowwater_core::base::Instant;
use lowwater_core::device::Submit;
use lowwater_core::packet::{Offload, Packet};
use std::collections::VecDeque;

/// Steps within one wait after which the stack is taken to spin.
const STEPS_MAX: usize = 1_000_000;
/// Packets that the stack may send without the script taking one.
const SNIFFED_MAX: usize = 100_000;
/// The peer's first port; every SYN to a listener comes from another.
const REMOTE_PORT: u16 = 40_000;
/// What the scripts' system calls bind and connect to.
pub(super) const PORT: u16 = 8_080;

/// Packets that the stack has sent and no line of the script has taken.
#[derive(Default)]
pub(super) struct Sniffed {
    waiting: VecDeque<Wire>,
    /// The last packets in both directions, for messages.
    pub(super) log: VecDeque<String>,
    /// SYNs that came to listeners.
    flows: u16,
}

impl Sniffed {
    fn note(&mut self, line: String) {
        if self.log.len() == SHOWN {
            self.log.pop_front();
        }
        self.log.push_back(line);
    }
}

impl Runner {
    /// Lets the stack and a blocked call do all that they can at this instant.
    pub(super) fn pump(&mut self, line: usize) -> Result<(), Box<Failure>> {
        for _ in 0..STEPS_MAX {
            let mut sent = Vec::new();
            while self.stack.needs_transmit(self.dev) {
                let mut device = |now: Instant, packet: Packet| {
                    sent.push((now, packet.to_bytes()));
                    Submit::Completed
                };
                let done = self.stack.transmit(self.now, self.dev, 64, &mut device);
                if done.packets == 0 {
                    break;
                }
            }
            while self.stack.next_event().is_some() {}
            let idle = sent.is_empty();
            for (at, bytes) in sent {
                let packet = wire::read(&bytes, at).map_err(|what| Failure::new(line, what))?;
                self.sniffed.waiting.extend(packet);
            }
            if self.sniffed.waiting.len() > SNIFFED_MAX {
                return Err(Failure::new(line, "the stack sends without end"));
            }
            if !self.retry_blocked()? && idle {
                return Ok(());
            }
        }
        Err(Failure::new(line, "the stack does not come to rest"))
    }

    /// Moves to the next timer that is not after `until`; false when there is none.
    fn step(&mut self, until: Instant, line: usize) -> Result<bool, Box<Failure>> {
        self.pump(line)?;
        let timers = [self.stack.next_deadline(), self.wake];
        let Some(next) = timers.into_iter().flatten().min().filter(|next| *next <= until) else {
            return Ok(false);
        };
        self.now = self.now.max(next);
        self.stack.handle_timeout(self.now);
        self.pump(line)?;
        Ok(true)
    }

    /// Moves time to `until`.
    pub(super) fn advance(&mut self, until: Instant, line: usize) -> Result<(), Box<Failure>> {
        for _ in 0..STEPS_MAX {
            if !self.step(until, line)? {
                if until > self.now {
                    self.now = until;
                    self.stack.handle_timeout(until);
                }
                return self.pump(line);
            }
        }
        Err(Failure::new(line, "the stack's timers spin"))
    }

    /// The next packet of the flow under test, if one comes until `limit`.
    pub(super) fn sniff(&mut self, limit: Instant, line: usize) -> Result<Option<Wire>, Box<Failure>> {
        for _ in 0..STEPS_MAX {
            self.pump(line)?;
            while let Some(packet) = self.sniffed.waiting.pop_front() {
                let flow = match &mut self.flow {
                    // The first SYN of an active open tells its port.
                    none @ None if packet.flags.syn() && !packet.flags.ack() => {
                        none.insert(Flow::new(packet.src, packet.dst))
                    }
                    None => continue,
                    Some(flow) => flow,
                };
                if flow.learn(&packet) {
                    let mapped = flow.to_script(&packet);
                    let at = seconds(self.micros(packet.at));
                    self.sniffed.note(format!("{at} > {}", mapped.script(true)));
                    return Ok(Some(mapped));
                }
            }
            if !self.step(limit, line)? {
                return Ok(None);
            }
        }
        Err(Failure::new(line, "the stack's timers spin"))
    }

    /// Looks at the next packet without time passing, and takes it if `wanted` likes it.
    pub(super) fn sniff_if(&mut self, wanted: impl Fn(&Wire) -> bool) -> Option<Wire> {
        let flow = self.flow.as_mut()?;
        let front = self.sniffed.waiting.front().filter(|p| flow.learn(p))?;
        let mapped = flow.to_script(front);
        if !wanted(&mapped) {
            return None;
        }
        self.sniffed.waiting.pop_front();
        let at = seconds(self.micros(mapped.at));
        self.sniffed.note(format!("{at} > {}", mapped.script(true)));
        Some(mapped)
    }

    /// The peer sends a packet.
    pub(super) fn inbound(&mut self, line: usize, spec: &PacketSpec) -> Result<(), Box<Failure>> {
        if self.flow.is_none() {
            // Without a line for our SYN (a simultaneous open), it still tells the flow's numbers.
            let syn = self.sniffed.waiting.iter().find(|p| p.flags.syn() && !p.flags.ack());
            self.flow = syn.map(|syn| Flow::new(syn.src, syn.dst));
            self.flow.iter_mut().zip(syn).for_each(|(flow, syn)| _ = flow.learn(syn));
        }
        // As in packetdrill, every SYN to a listener is a connection of its own.
        if let Some(local) = self.sockets.listening_port().filter(|_| spec.flags.syn() && !spec.flags.ack()) {
            let port = REMOTE_PORT.wrapping_add(self.sniffed.flows);
            self.sniffed.flows = self.sniffed.flows.wrapping_add(1);
            let local = SocketAddr::new(self.local, local);
            self.flow = Some(Flow::new(local, SocketAddr::new(self.remote, port)));
            self.sockets.forget_latest();
        }
        let Some(flow) = &self.flow else {
            return Err(Failure::new(line, "no connection that this packet could belong to"));
        };
        let tos = match spec.ecn {
            Some(EcnSpec::Bits(bits)) => bits,
            Some(EcnSpec::Ect01) => 2,
            None => 0,
        };
        let script = Wire {
            at: self.now,
            src: flow.remote,
            dst: flow.local,
            seq: spec.seq,
            ack: spec.ack,
            flags: spec.flags,
            window: spec.window.unwrap_or_default(),
            urgent: spec.urgent,
            options: spec.options.clone().unwrap_or_default(),
            tos,
            len: spec.len,
        };
        let live = flow.to_live(&script).map_err(|what| Failure::new(line, what))?;
        let now = seconds(self.micros(self.now));
        self.sniffed.note(format!("{now} < {}", script.script(true)));
        let packet = Packet::received(live.write(), Offload::default(), self.now);
        self.stack.receive(self.now, self.dev, packet);
        self.stack.flush(self.now);
        Ok(())
    }
}
