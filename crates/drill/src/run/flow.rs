//! The connection under test: whose packets they are, and how the script's numbers map to the stack's.
use crate::options::TcpOption;
use crate::wire::Wire;
use core::net::SocketAddr;
use std::collections::BTreeMap;

/// Added to the peer's sequence numbers, so that no script depends on theirs being small.
const REMOTE_ISN: u32 = 0x7fff_f000;

/// A connection as the script sees it.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// What the stack's sequence numbers are ahead of the script's; known after its SYN.
    offset: Option<u32>,
    /// The stack's timestamps by the script's.
    stamps: BTreeMap<u32, u32>,
}

impl Flow {
    /// A connection whose numbers are not known yet; the script calls the stack's ISN 0.
    pub(super) const fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        Self { local, remote, offset: None, stamps: BTreeMap::new() }
    }

    /// Takes note of a packet from the stack; false if it is not this connection's.
    pub(super) fn learn(&mut self, packet: &Wire) -> bool {
        if (packet.src, packet.dst) != (self.local, self.remote) {
            return false;
        }
        if packet.flags.syn() {
            self.offset = Some(packet.seq);
        }
        true
    }

    /// Remembers which timestamp of the stack a line of the script stood for.
    pub(super) fn stamp(&mut self, script: &[TcpOption], live: &[TcpOption]) {
        for (s, l) in script.iter().zip(live) {
            if let (TcpOption::Ts { val: s, .. }, TcpOption::Ts { val: l, .. }) = (s, l) {
                self.stamps.insert(*s, *l);
            }
        }
    }

    /// A packet of the stack in the script's numbers. Timestamps stay as they are.
    pub(super) fn to_script(&self, live: &Wire) -> Wire {
        let mut p = live.clone();
        p.seq = p.seq.wrapping_sub(self.offset.unwrap_or_default());
        if p.flags.ack() {
            p.ack = p.ack.wrapping_sub(REMOTE_ISN);
        }
        shift_sack(&mut p.options, REMOTE_ISN.wrapping_neg());
        p
    }

    /// A packet of the peer in the stack's numbers.
    pub(super) fn to_live(&self, script: &Wire) -> Result<Wire, String> {
        let mut p = script.clone();
        p.seq = p.seq.wrapping_add(REMOTE_ISN);
        let offset = self.offset.unwrap_or_default();
        if p.flags.ack() {
            p.ack = p.ack.wrapping_add(offset);
        }
        shift_sack(&mut p.options, offset);
        for option in &mut p.options {
            if let TcpOption::Ts { ecr, .. } = option {
                let live = if *ecr == 0 { Some(&0) } else { self.stamps.get(ecr) };
                *ecr = *live.ok_or_else(|| format!("ecr {ecr}: no packet with this TS val went out"))?;
            }
        }
        Ok(p)
    }
}

fn shift_sack(options: &mut [TcpOption], by: u32) {
    for option in options {
        if let TcpOption::Sack(blocks) = option {
            for (left, right) in blocks {
                (*left, *right) = (left.wrapping_add(by), right.wrapping_add(by));
            }
        }
    }
}
