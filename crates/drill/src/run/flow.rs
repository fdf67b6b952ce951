//! Connections as the script sees them: whose packets they are, and how the script's numbers map to the stack's.
use super::association::Association;
use crate::options::TcpOption;
use crate::wire::{Body, Quote, Tcp, Wire};
use core::net::SocketAddr;
use lowwater_core::base::trace::Ev;
use lowwater_wire::protocol;
use lowwater_wire::tcp::TcpFlags;
use std::collections::BTreeMap;

/// Added to the peer's sequence numbers, so that no script depends on theirs being small.
const REMOTE_ISN: u32 = 0x7fff_f000;
/// Connections that a script may have.
const FLOWS_MAX: usize = 4_096;
/// Timestamps of outgoing lines that one connection remembers.
const STAMPS_MAX: usize = 65_536;

/// One connection.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// The stack's initial sequence number, known after its SYN, and what the script calls it. As in packetdrill, numbers of segments with
    /// SYN stand in the script as they are, all others count from the first SYN's.
    isn: Option<u32>,
    script_isn: u32,
    /// The peer's initial sequence number in the script, once it is known.
    peer_isn: Option<u32>,
    /// The first number of a SYN that the peer has sent into a connection that was there: a new one begins with it if the stack's answer
    /// acknowledges it.
    syn_again: Option<u32>,
    /// A line of the script has named the first number.
    begun: bool,
    /// The stack's timestamps by the script's.
    stamps: BTreeMap<u32, u32>,
    /// The first pair of them: the script's and the stack's.
    first_stamp: Option<(u32, u32)>,
    /// The flow label of the script and the stack's.
    label: Option<(u32, u32)>,
    /// Of an SCTP association.
    pub(super) sctp: Association,
}

impl Flow {
    /// A connection whose numbers are not known yet.
    pub(super) fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            local,
            remote,
            isn: None,
            script_isn: 0,
            peer_isn: None,
            syn_again: None,
            begun: false,
            stamps: BTreeMap::new(),
            label: None,
            first_stamp: None,
            sctp: Association::default(),
        }
    }

    /// True for a packet of the stack that belongs to this connection: its segments, and ICMP errors about the peer's.
    pub(super) fn owns(&self, packet: &Wire) -> bool {
        match &packet.body {
            Body::Tcp(_) | Body::Sctp(_) => packet.ends() == (self.local, self.remote),
            Body::Icmp(icmp) => icmp
                .quoted
                .is_some_and(|q| q.protocol == protocol::TCP && (q.dst, q.src) == (self.local, self.remote)),
            Body::Udp(_) => false,
        }
    }

    /// Takes note of a packet from the stack: its SYN tells its numbers.
    pub(super) fn learn(&mut self, packet: &Wire) {
        packet.tcp().into_iter().for_each(|tcp| self.answers(tcp));
        if let Some(tcp) = packet.tcp().filter(|tcp| tcp.flags.syn()) {
            self.isn.get_or_insert(tcp.seq);
        }
        if let Some(sctp) = packet.sctp() {
            self.sctp.learn(sctp);
        }
    }

    /// Takes note of where the peer's numbers begin, the first time.
    pub(super) fn peer_begins(&mut self, script_seq: u32) {
        self.peer_isn.get_or_insert(script_seq);
    }

    /// The peer has sent a SYN between ends that are known: again, into a connection, or for a new one.
    pub(super) fn peer_opens(&mut self, script_seq: u32) {
        if self.isn.is_none() {
            self.forget();
            self.peer_begins(script_seq);
        } else {
            self.syn_again = Some(script_seq);
        }
    }

    /// The stack takes a SYN of the peer for a new connection, or has none for it, when what it answers acknowledges that SYN with numbers
    /// that are not the old ones.
    fn answers(&mut self, tcp: &Tcp) {
        let Some(seq) = self.syn_again else { return };
        let answers = (tcp.flags.syn() || tcp.flags.rst()) && tcp.flags.ack();
        let acknowledges = tcp.ack == seq.wrapping_add(REMOTE_ISN).wrapping_add(1);
        if answers && acknowledges && self.isn != Some(tcp.seq) {
            self.forget();
            self.peer_begins(seq);
        }
    }

    /// What the stack's numbers are ahead of the script's, in a segment with SYN or without.
    fn ours_ahead(&self, syn: bool) -> u32 {
        self.isn.unwrap_or_default().wrapping_sub(if syn { self.script_isn } else { 0 })
    }

    /// The same for the peer's.
    fn peers_ahead(&self, syn: bool) -> u32 {
        REMOTE_ISN.wrapping_add(if syn { 0 } else { self.peer_isn.unwrap_or_default() })
    }

    /// The stack's number for one of the script's, in a segment with SYN.
    pub(super) fn live_seq(&self, script: u32) -> u32 {
        script.wrapping_add(self.ours_ahead(true))
    }

    /// A line of the script stands for this SYN of the stack: the script may call its first number what it likes, once. False for the
    /// next time.
    pub(super) const fn begins_with(&mut self, script_seq: u32, live_seq: u32) -> bool {
        if self.begun {
            return false;
        }
        self.begun = true;
        (self.isn, self.script_isn) = (Some(live_seq), script_seq);
        true
    }

    /// The stack has begun anew with other numbers, as after a connection of the same ports is over.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.local, self.remote);
    }

    /// Remembers which timestamp of the stack a line of the script stood for.
    pub(super) fn stamp(&mut self, script: &[TcpOption], live: &[TcpOption]) {
        for (s, l) in script.iter().zip(live) {
            if let (TcpOption::Ts { val: s, .. }, TcpOption::Ts { val: l, .. }) = (s, l) {
                self.first_stamp.get_or_insert((*s, *l));
                if self.stamps.len() == STAMPS_MAX {
                    self.stamps.pop_first();
                }
                self.stamps.insert(*s, *l);
            }
        }
    }

    /// Whether the stack's flow label is what a line calls it: a number of the script is one label, and another number another one.
    pub(super) fn label_is(&mut self, script: u32, live: u32) -> bool {
        let same = live != 0 && self.label.is_none_or(|(s, l)| (s == script) == (l == live));
        if same {
            self.label = Some((script, live));
        }
        same
    }

    /// How many ticks the stack's timestamp is ahead of what the script says, counted from the first.
    pub(super) fn drift(&self, script: u32, live: u32) -> i64 {
        let Some((script0, live0)) = self.first_stamp else { return 0 };
        i64::from(live.wrapping_sub(live0) as i32) - i64::from(script.wrapping_sub(script0) as i32)
    }

    /// A packet of the stack in the script's numbers. Timestamps stay as they are.
    pub(super) fn to_script(&self, live: &Wire) -> Wire {
        let mut p = live.clone();
        match &mut p.body {
            Body::Tcp(tcp) => {
                let (ours, peers) = (self.ours_ahead(tcp.flags.syn()), self.peers_ahead(tcp.flags.syn()));
                tcp.seq = tcp.seq.wrapping_sub(ours);
                if tcp.flags.ack() {
                    tcp.ack = tcp.ack.wrapping_sub(peers);
                }
                shift_sack(&mut tcp.options, peers.wrapping_neg());
            }
            Body::Sctp(sctp) => *sctp = self.sctp.to_script(sctp),
            // What the stack quotes is the peer's.
            Body::Icmp(icmp) => {
                if let Some(quote) = &mut icmp.quoted {
                    quote.seq = quote.seq.wrapping_sub(self.peers_ahead(false));
                }
            }
            Body::Udp(_) => {}
        }
        p
    }

    /// What the flight recorder says of a segment, in the script's numbers.
    pub(super) fn told(&self, event: Ev) -> Ev {
        const SYN: u16 = TcpFlags::SYN.bits();
        match event {
            Ev::Out(seq, len, flags) => {
                Ev::Out(seq.wrapping_sub(self.ours_ahead(flags & SYN != 0)), len, flags)
            }
            Ev::In(seq, len, flags) => {
                Ev::In(seq.wrapping_sub(self.peers_ahead(flags & SYN != 0)), len, flags)
            }
            event => event,
        }
    }

    /// A segment of the peer in the stack's numbers. With `scaled` (--tcp_ts_ecr_scaled) a timestamp that never went out is counted from the first.
    pub(super) fn to_live(&self, script: &Tcp, scaled: bool) -> Result<Tcp, String> {
        let mut p = script.clone();
        p.seq = p.seq.wrapping_add(self.peers_ahead(p.flags.syn()));
        let offset = self.ours_ahead(p.flags.syn());
        if p.flags.ack() {
            p.ack = p.ack.wrapping_add(offset);
        }
        shift_sack(&mut p.options, offset);
        // Without ACK the field means nothing (RFC 7323 section 3.2).
        for option in p.options.iter_mut().filter(|_| p.flags.ack()) {
            if let TcpOption::Ts { ecr, .. } = option {
                let first = self.first_stamp.filter(|_| scaled);
                let counted = first.map(|(script, live)| live.wrapping_add(ecr.wrapping_sub(script)));
                let live = self.stamps.get(ecr).copied().or(counted);
                *ecr = live.ok_or_else(|| format!("ecr {ecr}: no packet with this TS val went out"))?;
            }
        }
        Ok(p)
    }

    /// A segment of the stack as a router quotes it, with the script's sequence number.
    pub(super) fn quote(&self, seq: u32, len: u32) -> Quote {
        let seq = seq.wrapping_add(self.ours_ahead(false));
        Quote { src: self.local, dst: self.remote, protocol: protocol::TCP, seq, len, kept: 8 + len }
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

/// All connections of a script.
#[derive(Debug, Default)]
pub(super) struct Flows {
    all: Vec<Flow>,
    /// The one that lines without ends speak of.
    current: Option<usize>,
    /// The port of a listener that has been sent nothing: what comes first makes the connection that lines without ends speak of.
    listener: Option<u16>,
}

impl Flows {
    /// The connection, where there is one alone.
    pub(super) fn only(&self) -> Option<&Flow> {
        if let [one] = self.all.as_slice() { Some(one) } else { None }
    }

    /// The connection under test.
    pub(super) fn current(&mut self) -> Option<&mut Flow> {
        self.all.get_mut(self.current?)
    }

    /// True when the connection under test owns this packet.
    pub(super) fn is_current(&self, packet: &Wire) -> bool {
        self.current.and_then(|at| self.all.get(at)).is_some_and(|flow| flow.owns(packet))
    }

    /// The connection between these two, if there is one.
    pub(super) fn find(&mut self, local: SocketAddr, remote: SocketAddr) -> Option<&mut Flow> {
        self.all.iter_mut().rev().find(|f| (f.local, f.remote) == (local, remote))
    }

    /// Whose packet of the stack this is: an association has more than one path.
    pub(super) fn find_packet(
        &mut self,
        packet: &Wire,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<&mut Flow> {
        let exact = self.all.iter().rposition(|f| (f.local, f.remote) == (local, remote));
        let by_ports = || {
            let ports = (local.port(), remote.port());
            self.all.iter().rposition(|f| (f.local.port(), f.remote.port()) == ports)
        };
        let at = exact.or_else(|| packet.sctp().and_then(|_| by_ports()))?;
        self.all.get_mut(at)
    }

    /// Makes the association of these ports the one under test; false if there is none.
    pub(super) fn turn_to_ports(&mut self, local: u16, remote: u16) -> bool {
        let known = self.all.iter().rposition(|f| (f.local.port(), f.remote.port()) == (local, remote));
        self.current = known.or(self.current);
        known.is_some()
    }

    /// True when some connection owns this packet.
    pub(super) fn owned(&self, packet: &Wire) -> bool {
        self.all.iter().any(|f| f.owns(packet))
    }

    /// Makes a connection the one under test, a new one if need be; `None` when there are too many.
    pub(super) fn turn_to(&mut self, local: SocketAddr, remote: SocketAddr) -> Option<&mut Flow> {
        let known = self.all.iter().rposition(|f| (f.local, f.remote) == (local, remote));
        if known.is_none() {
            if self.all.len() == FLOWS_MAX {
                return None;
            }
            self.all.push(Flow::new(local, remote));
        }
        self.current = known.or(self.all.len().checked_sub(1));
        self.current()
    }

    /// A new connect(): lines without ends wait for its SYN.
    pub(super) const fn expect_new(&mut self) {
        (self.current, self.listener) = (None, None);
    }

    /// A new listener: lines without ends wait for what the peer sends it first.
    pub(super) const fn expect_child(&mut self, port: u16) {
        (self.current, self.listener) = (None, Some(port));
    }

    /// The port of the listener that waits for its first packet, once.
    pub(super) const fn take_listener(&mut self) -> Option<u16> {
        self.listener.take()
    }
}
