//! The wire: moves virtual time, gathers what the stack sends, finds the packet that a line waits for.
use super::{Runner, SHOWN, seconds};
use crate::failure::Failure;
use crate::wire::{self, Body, Handed, Line, Shown, Wire};
use core::net::SocketAddr;
use lowwater_core::base::Instant;
use lowwater_posix::Sent;
use lowwater_wire::protocol;
use lowwater_wire::sctp::chunk_kind::INIT;
use std::collections::VecDeque;

/// Packets that the stack may send without the script taking one.
const SNIFFED_MAX: usize = 100_000;

/// Packets that the stack has sent and no line of the script has taken.
#[derive(Default)]
pub(super) struct Sniffed {
    pub(super) waiting: VecDeque<Wire>,
    /// The last packets in both directions, for messages.
    pub(super) log: VecDeque<String>,
    /// When the script's last packet came, in microseconds.
    pub(super) came: Option<u64>,
    /// A call has written something else than zeros.
    pub(super) written: bool,
    /// Connections that a first packet to a listener began.
    pub(super) children: u16,
    /// The ends of the last datagram, the stack's first.
    pub(super) datagram: Option<(SocketAddr, SocketAddr)>,
}

impl Sniffed {
    pub(super) fn note(&mut self, line: String) {
        if self.log.len() == SHOWN {
            self.log.pop_front();
        }
        self.log.push_back(line);
    }
}

/// Whose packet a line waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// Of the connection under test; of a new one when there is none.
    Current,
    /// The same, or an association that the stack begins.
    Opening,
    /// Of the connection between these two.
    Between(SocketAddr, SocketAddr),
    /// Datagrams, and ICMP that is not about a TCP connection.
    Loose,
    /// ICMP about the connection under test, or about none.
    Message,
}

impl Runner<'_> {
    /// Reads the packets that the stack has sent up to now.
    pub(super) fn gather(&mut self, line: usize) -> Result<(), Box<Failure>> {
        let now = self.host.now();
        while let Some(sent) = self.host.next_packet(now) {
            self.note_sent(&sent, line)?;
        }
        Ok(())
    }

    fn note_sent(&mut self, sent: &Sent, line: usize) -> Result<(), Box<Failure>> {
        let handed = Handed {
            segs: 0,
            gso: sent.gso_size,
            wait_ns: sent.departs_at.nanos_since(sent.at),
            queued: sent.queued as u64,
            packets: sent.packets as u64,
        };
        let packet = wire::read(&sent.bytes, sent.at, handed, self.fds.is_unchecked());
        let packet = packet.map_err(|what| Failure::new(line, what))?;
        // As in packetdrill, whose scripts write zeros alone.
        if !self.sniffed.written && packet.as_ref().is_some_and(|packet| has_data(packet, &sent.bytes)) {
            return Err(Failure::new(line, "a packet carries data that no call has written"));
        }
        let at = self.micros(sent.at);
        self.record.iter_mut().zip(&packet).for_each(|(record, packet)| record.sent(packet, at));
        self.sniffed.waiting.extend(packet);
        if self.sniffed.waiting.len() > SNIFFED_MAX {
            return Err(Failure::new(line, "the stack sends without end"));
        }
        Ok(())
    }

    /// Moves time to `until`.
    pub(super) fn advance(&mut self, until: Instant, line: usize) -> Result<(), Box<Failure>> {
        self.host.advance_until(until);
        self.gather(line)
    }

    /// The next packet that `whose` speaks of, in the script's numbers, if one comes until `limit`.
    pub(super) fn sniff(
        &mut self,
        whose: Whose,
        limit: Instant,
        line: usize,
    ) -> Result<Option<Wire>, Box<Failure>> {
        let at = self.wait_for(whose, limit, line)?;
        Ok(at.and_then(|at| self.take(at)))
    }

    /// Where the first such packet waits, if one comes until `limit`.
    fn wait_for(&mut self, whose: Whose, limit: Instant, line: usize) -> Result<Option<usize>, Box<Failure>> {
        loop {
            self.gather(line)?;
            if let Some(at) = self.find(whose) {
                return Ok(Some(at));
            }
            match self.host.next_packet(limit) {
                Some(sent) => self.note_sent(&sent, line)?,
                None => return Ok(None),
            }
        }
    }

    /// Looks at the next such packet, if one comes until `limit`, and takes it if `wanted` likes it.
    pub(super) fn sniff_if(
        &mut self,
        whose: Whose,
        limit: Instant,
        line: usize,
        wanted: impl Fn(&Wire) -> bool,
    ) -> Result<Option<Wire>, Box<Failure>> {
        let Some(at) = self.wait_for(whose, limit, line)? else { return Ok(None) };
        let Some(front) = self.sniffed.waiting.get(at).cloned() else { return Ok(None) };
        let mapped = self.mapped(&front);
        Ok(if wanted(&mapped) { self.take(at) } else { None })
    }

    /// Where the first such packet waits.
    fn find(&mut self, whose: Whose) -> Option<usize> {
        if matches!(whose, Whose::Current | Whose::Opening) && self.flows.current().is_none() {
            self.adopt();
        }
        let Self { flows, sniffed, .. } = self;
        let flows_too = |protocol| matches!(protocol, protocol::TCP | protocol::SCTP);
        let about =
            |p: &Wire| matches!(&p.body, Body::Icmp(i) if i.quoted.is_some_and(|q| flows_too(q.protocol)));
        let loose = |p: &Wire| p.tcp().is_none() && p.sctp().is_none() && !about(p);
        match whose {
            Whose::Current => {
                let flow = flows.current()?;
                sniffed.waiting.iter().position(|p| flow.owns(p))
            }
            Whose::Opening => {
                let begins = |p: &Wire| opens_association(p) && !flows.owned(p);
                let at = sniffed.waiting.iter().position(|p| flows.is_current(p) || begins(p))?;
                let (local, remote) = sniffed.waiting.get(at).filter(|p| begins(p)).map(Wire::ends).unzip();
                local.zip(remote).and_then(|(local, remote)| flows.turn_to(local, remote));
                Some(at)
            }
            Whose::Between(local, remote) => {
                let direct = |p: &Wire| p.ends() == (local, remote);
                match flows.find(local, remote) {
                    Some(flow) => sniffed.waiting.iter().position(|p| flow.owns(p) || direct(p)),
                    None => sniffed.waiting.iter().position(direct),
                }
            }
            Whose::Loose => sniffed.waiting.iter().position(loose),
            Whose::Message => {
                let flow = flows.current();
                sniffed.waiting.iter().position(|p| loose(p) || flow.as_ref().is_some_and(|f| f.owns(p)))
            }
        }
    }

    /// Without a connection under test the first SYN of the stack that belongs to none makes one; else one that follows an older
    /// connection of the same ports.
    pub(super) fn adopt(&mut self) {
        let Self { flows, sniffed, .. } = self;
        let syn =
            |p: &&Wire| p.tcp().is_some_and(|t| t.flags.syn() && !t.flags.ack()) || opens_association(p);
        let first = sniffed.waiting.iter().find(|p| syn(p) && !flows.owned(p)).map(Wire::ends);
        if let Some((local, remote)) = first {
            flows.turn_to(local, remote);
        } else if let Some((local, remote)) = sniffed.waiting.iter().find(syn).map(Wire::ends) {
            flows.turn_to(local, remote).into_iter().for_each(|flow| flow.forget());
        }
    }

    fn take(&mut self, at: usize) -> Option<Wire> {
        let packet = self.sniffed.waiting.remove(at)?;
        let (local, remote) = packet.ends();
        match &packet.body {
            Body::Tcp(_) | Body::Sctp(_) => {
                if self.flows.find_packet(&packet, local, remote).is_none() {
                    self.flows.turn_to(local, remote);
                }
                let flow = self.flows.find_packet(&packet, local, remote);
                flow.into_iter().for_each(|flow| flow.learn(&packet));
            }
            Body::Udp(_) => self.sniffed.datagram = Some((local, remote)),
            Body::Icmp(_) => {}
        }
        let mapped = self.mapped(&packet);
        self.sniffed.note(self.logged(&mapped));
        Some(mapped)
    }

    /// A packet of the stack as the last packets show it.
    fn logged(&self, packet: &Wire) -> String {
        let shown = Shown { window: true, ..Shown::default() };
        format!("{} > {}", seconds(self.micros(packet.at)), Line(packet, shown))
    }

    /// The packet that was taken last has names for its numbers now.
    pub(super) fn note_again(&mut self, packet: &Wire) {
        let named = self.logged(packet);
        self.sniffed.log.back_mut().into_iter().for_each(|last| named.clone_into(last));
    }

    /// A packet that waits behind the one that was taken, or comes until `limit`, is one that `wanted` likes.
    pub(super) fn follows(
        &mut self,
        whose: Whose,
        limit: Instant,
        line: usize,
        wanted: impl Fn(&Wire) -> bool,
    ) -> bool {
        let Ok(Some(at)) = self.wait_for(whose, limit, line) else { return false };
        let next = self.sniffed.waiting.get(at).cloned();
        next.is_some_and(|next| wanted(&self.mapped(&next)))
    }

    /// A packet of the stack in the script's numbers.
    fn mapped(&mut self, packet: &Wire) -> Wire {
        let (local, remote) = match &packet.body {
            Body::Icmp(icmp) => match icmp.quoted {
                Some(q) => (q.dst, q.src),
                None => return packet.clone(),
            },
            _ => packet.ends(),
        };
        match self.flows.find_packet(packet, local, remote) {
            Some(flow) => flow.to_script(packet),
            None => packet.clone(),
        }
    }
}

/// A packet with INIT.
fn opens_association(packet: &Wire) -> bool {
    packet.sctp().is_some_and(|s| s.chunks.first().is_some_and(|c| c.kind() == Some(INIT.into())))
}

/// A segment carries something else than zeros.
fn has_data(packet: &Wire, bytes: &[u8]) -> bool {
    let len = packet.tcp().map_or(0, |tcp| tcp.len as usize);
    bytes.get(bytes.len().saturating_sub(len)..).unwrap_or_default().iter().any(|byte| *byte != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::TcpOption;
    use crate::wire::{Ip, Tcp};
    use lowwater_core::base::Instant;
    use lowwater_wire::tcp::TcpFlags;

    #[test]
    fn data_that_is_not_zeros_is_seen_and_headers_are_not_data() {
        let any = [192, 0, 2, 1].into();
        let ip = Ip { src: any, dst: any, tos: 0, ttl: 9, flow_label: 0 };
        let (options, flags) = (vec![TcpOption::Mss(1_460)], TcpFlags::ACK);
        for len in [0, 9] {
            let tcp = Tcp {
                src_port: 1,
                dst_port: 2,
                seq: 3,
                ack: 4,
                flags,
                window: 5,
                urgent: 6,
                options: options.clone(),
                len,
            };
            let packet = Wire { at: Instant::ZERO, ip, body: Body::Tcp(tcp), handed: Handed::default() };
            let mut bytes = packet.write().to_vec();
            assert!(!has_data(&packet, &bytes));
            let last = bytes.len() - 1;
            bytes[last] = 1;
            assert_eq!(has_data(&packet, &bytes), len > 0);
        }
    }
}
