//! The transmit path: from a flow's turn to the device.
//!
//! ```text
//! transmit ─▶ ready list ─▶ a flow's turn: output ─▶ headers ─▶ ip.output ─▶ qdisc.enqueue ──┐ (full: the flow is told)
//!                 ▲             (bounded packets; credit charged by the flow)                │
//!                 │                                                                          ▼
//!             credit back ◀── completed ◀── device.submit ◀── segment, checksum ◀── qdisc.dequeue
//!                                             └▶ filled: nothing more is dequeued until device_ready
//! ```
//! Flows write as far as their credit and the budget go, never looking at the queue below: its backlog is for the queueing
//! discipline to judge.
use super::link::LOOPBACK;
use super::queue::{Handing, Origin};
use super::{Stack, Transmitted};
use crate::base::{Cx, DeviceId, DropWhy, Error, FlowId, RouteMetrics, SocketId, Tuple};
use crate::device::{Device, Submit};
use crate::ip::{Dst, OutputParams};
use crate::offload::{self, Coalesced};
use crate::packet::{Csum, GsoKind, Head, Offload, Owner, Packet};
use crate::qdisc::{Dequeued, Qdisc as _};
use crate::socket::{Path, Socket, Turn};
use crate::tcp::options::OptionSets;
use crate::tcp::{Conn, Handed, Outgoing, PathCaps, SocketOptions};
use core::net::IpAddr;
use lowwater_wire::protocol;
use lowwater_wire::tcp::{CHECKSUM_OFFSET, TcpFlags};
use smallvec::SmallVec;

/// Packets that a flow may send before the next flow has its turn.
const TURN_PACKETS: usize = 4;
/// Segments that one packet may have (the most of `gso_max_segs`).
const SEGMENTS_MAX: usize = 65_535;
/// Packets that go round the loopback device in one call.
const LOOPBACK_BUDGET: usize = 64;

/// What gives a connection's next segment.
type Next = fn(&mut Conn, &mut Cx<'_>, &PathCaps) -> Option<Outgoing>;

impl Stack {
    /// Alternates turns of flows with emptying the queue, until both have used the budget or have nothing to do.
    pub(super) fn run_device(
        &mut self,
        dev: DeviceId,
        budget: usize,
        device: &mut dyn Device,
    ) -> Transmitted {
        if usize::from(dev.0) >= self.links.len() {
            return Transmitted::default();
        }
        let mut door = Door { dev, budget, device, done: Transmitted::default() };
        let mut turns = budget;
        loop {
            let sent = self.turn(&mut door, turns);
            turns = turns.saturating_sub(sent);
            self.drain(&mut door);
            if turns == 0 || sent == 0 {
                break;
            }
        }
        self.finish(&door)
    }

    /// One packet of the next flow with all its segments; where no flow waits, one of the queue.
    pub(super) fn run_one(&mut self, dev: DeviceId, device: &mut dyn Device) -> Transmitted {
        if usize::from(dev.0) >= self.links.len() {
            return Transmitted::default();
        }
        let mut door = Door { dev, budget: SEGMENTS_MAX, device, done: Transmitted::default() };
        if self.turn(&mut door, 1) == 0 {
            door.budget = 1;
        }
        self.drain(&mut door);
        self.finish(&door)
    }

    fn finish(&self, door: &Door<'_>) -> Transmitted {
        let link = &self.links[usize::from(door.dev.0)];
        Transmitted { stopped: link.stopped, more: link.wants_transmit(self.now), ..door.done }
    }

    /// The next flow's turn; what it used of `budget`, 0 when no flow waits.
    fn turn(&mut self, door: &mut Door<'_>, budget: usize) -> usize {
        if budget == 0 {
            return 0;
        }
        let link = &mut self.links[usize::from(door.dev.0)];
        let Some(id) = link.ready.pop() else { return 0 };
        let caps = link.path_caps();
        let Some(entry) = self.sockets.get_mut(id) else { return 1 };
        entry.turn = Turn::NONE;
        match entry.socket {
            Socket::Tcp(_) => self.tcp_turn(id, &caps, budget.min(TURN_PACKETS), door).max(1),
            Socket::Udp(_) => self.udp_turn(id, budget.min(TURN_PACKETS)).max(1),
            Socket::Sctp(_) => self.sctp_turn(id, budget.min(TURN_PACKETS)).max(1),
            Socket::Listener(_) | Socket::SctpListener(_) => 1,
        }
    }

    fn tcp_turn(&mut self, id: SocketId, caps: &PathCaps, budget: usize, door: &mut Door<'_>) -> usize {
        let reachable = self.refresh_path(id).is_ok();
        let caps = &PathCaps { reachable, ..*caps };
        for sent in 0..budget {
            let Some(entry) = self.sockets.get_mut(id) else { return sent };
            let Socket::Tcp(conn) = &mut entry.socket else { return sent };
            let Some(out) = conn.output(&mut self.env.cx(self.now, Some(id)), caps) else {
                self.settle(id, Turn::NONE);
                return sent;
            };
            let asks_below = conn.asks_what_is_below();
            if !self.hand_down(id, reachable, out) {
                return sent + 1;
            }
            if asks_below || self.links[usize::from(door.dev.0)].passes() {
                self.drain(door);
            }
        }
        if let Some(Socket::Tcp(conn)) = self.sockets.get_mut(id).map(|entry| &mut entry.socket) {
            conn.on_taken(&self.env.cx(self.now, Some(id)));
        }
        self.settle(id, Turn::AGAIN);
        budget
    }

    /// Passes on what a flow sends; false where it did not get into a queue, of which the flow has heard.
    fn hand_down(&mut self, id: SocketId, reachable: bool, out: Outgoing) -> bool {
        let Some(entry) = self.sockets.get_mut(id) else { return false };
        let Socket::Tcp(conn) = &entry.socket else { return false };
        let owner = (out.charge > 0).then(|| Owner::new(FlowId::of(id), out.charge));
        let (tuple, label) = (*conn.tuple(), conn.label_of(&out));
        let (handed, repeats) = (Handed::of(&out), conn.repeats_cwr() && out.gso_size > 0);
        let failed = match entry.path.as_mut().filter(|_| reachable) {
            Some(path) => {
                let dst = path.dst;
                let ident = path.ids.take(out.segs);
                let numbers = (Some(ident), path.ids.label(label));
                let cwr = repeats && out.repr.flags.contains(TcpFlags::CWR);
                self.down.handing = Some(Handing { owner, refused: false });
                self.send_tcp(&tuple, &dst, numbers, (owner, cwr), out);
                self.down.handing.take().is_some_and(|handing| handing.refused).then_some(true)
            }
            None => {
                self.env.count.no_route();
                Some(false)
            }
        };
        if let Some(congested) = failed {
            self.tcp_refused(id, &handed, congested);
        }
        failed.is_none()
    }

    /// What a connection has to send goes down before its turn, as `next` gives it: as many packets as the congestion window, the pace and
    /// small queues allow.
    pub(super) fn send_now(&mut self, id: SocketId, next: Next) {
        let reachable = self.refresh_path(id).is_ok();
        let Some(dev) = self.sockets.get(id).map(|entry| self.device_of(entry)) else { return };
        let was = self.watched(id);
        let caps = PathCaps { reachable, ..self.links[usize::from(dev.0)].path_caps() };
        while let Some(Socket::Tcp(conn)) = self.sockets.get_mut(id).map(|entry| &mut entry.socket) {
            let out = next(conn, &mut self.env.cx(self.now, Some(id)), &caps);
            if !out.is_some_and(|out| self.hand_down(id, reachable, out)) {
                break;
            }
        }
        self.watch_early(id, was);
    }

    /// Data that nobody will read is answered with `reset` and ends its connection, once that has sent what the same segment's
    /// acknowledgement lets go.
    pub(super) fn reset_behind(
        &mut self,
        id: SocketId,
        tuple: &Tuple,
        reset: Outgoing,
        error: Option<Error>,
    ) {
        self.send_now(id, Conn::output_before_end);
        let Some(Socket::Tcp(conn)) = self.sockets.get_mut(id).map(|entry| &mut entry.socket) else { return };
        let (label, priority) = (conn.label(), conn.options().queue_priority());
        conn.end_by_data(&mut self.env.cx(self.now, Some(id)), error);
        self.settle(id, Turn::INPUT);
        // It is the connection's, though none of its own accord (`tcp_v4_send_reset`, `tcp_v6_send_reset`).
        self.send_labelled(tuple, label, Outgoing { priority: reset.priority.or(priority), ..reset });
    }

    /// What a flow has just handed down did not get into a queue: the flow hears of it, and its turn is over.
    fn tcp_refused(&mut self, id: SocketId, handed: &Handed, congested: bool) {
        if let Some(Socket::Tcp(conn)) = self.sockets.get_mut(id).map(|entry| &mut entry.socket) {
            let again = conn.on_refused(&mut self.env.cx(self.now, Some(id)), handed, congested);
            self.settle(id, if again { Turn::CREDIT } else { Turn::NONE });
        }
    }

    /// A segment that no flow pays for: SYN-ACKs of requests, answers of TIME-WAIT, resets.
    pub(super) fn send_control(&mut self, tuple: &Tuple, out: Outgoing) {
        self.send_labelled(tuple, 0, out);
    }

    /// The same with the label in use, after so many others.
    pub(super) fn send_labelled(&mut self, tuple: &Tuple, label: u16, out: Outgoing) {
        self.env.count.tcp.out_segs += 1;
        self.env.count.tcp.out_rsts += u64::from(out.repr.flags.contains(TcpFlags::RST));
        match self.path(Some(tuple.local_ip), tuple) {
            Ok(mut path) => {
                // Never fragmented, such a packet needs no number, and zero tells nothing (RFC 6864 section 4.1; Linux too).
                let atomic = self.env.sysctl.ip_no_pmtu_disc == 0;
                let ident = if atomic { 0 } else { path.ids.take(1) };
                let numbers = (Some(ident), path.ids.label(label));
                self.send_tcp(tuple, &path.dst, numbers, (None, false), out);
            }
            Err(_) => {
                self.env.count.no_route();
            }
        }
    }

    /// Writes the TCP header and sends the packet on its way; its checksum is completed at the device's door.
    fn send_tcp(
        &mut self,
        tuple: &Tuple,
        dst: &Dst,
        numbers: (Option<u16>, u32),
        (owner, repeats_cwr): (Option<Owner>, bool),
        out: Outgoing,
    ) {
        let mut head = Head::new();
        let header = head.prepend(out.repr.buffer_len());
        out.repr.emit(header);
        let len = header.len() + out.payload.len();
        let pseudo = pseudo_header(tuple.local_ip, tuple.remote_ip, protocol::TCP, len);
        lowwater_wire::tcp::fill_checksum_partial(header, pseudo);
        let gso = match (out.gso_size, tuple.is_v6()) {
            (0, _) => GsoKind::None,
            (_, false) => GsoKind::Tcp4,
            (_, true) => GsoKind::Tcp6,
        };
        let csum = Csum::Partial { start: 0, offset: CHECKSUM_OFFSET as u16 };
        let offload = Offload { gso, gso_size: out.gso_size, csum, repeats_cwr };
        let packet = Packet {
            head,
            payload: out.payload,
            offload,
            owner,
            at: out.depart_at.max(self.now),
            priority: out.priority,
        };
        let params = OutputParams {
            tos: out.tos,
            ttl: out.ttl,
            dont_fragment: out.whole.sets_df(self.env.sysctl.ip_no_pmtu_disc, dst.mtu_locked),
            ident: numbers.0,
            flow_label: numbers.1,
            ..OutputParams::new(tuple.local_ip, tuple.remote_ip, protocol::TCP)
        };
        self.ip.output(&mut self.env.cx(self.now, None), dst, &params, packet, &mut self.down.outbox);
        self.dispatch();
    }

    /// Carries out what the IP layer left to be done: frames go to their queues, losses to their flows.
    pub(super) fn dispatch(&mut self) {
        if let ([_], []) = (self.down.outbox.frames.as_slice(), self.down.outbox.dropped.as_slice())
            && let Some((dev, packet)) = self.down.outbox.frames.pop()
        {
            // Nearly always: one packet, and nothing else.
            self.enqueue(dev, packet);
        }
        // A loss may make a flow say something, never at once: so this ends.
        while !self.down.outbox.is_empty() {
            let mut outbox = core::mem::take(&mut self.down.outbox);
            for (dev, packet) in outbox.frames.drain(..) {
                self.enqueue(dev, packet);
            }
            for (packet, why) in outbox.dropped.drain(..) {
                self.packet_lost(&packet, why);
            }
            if self.down.outbox.is_empty() {
                self.down.outbox = outbox;
            }
        }
    }

    /// From the queue to the device, as far as both allow.
    fn drain(&mut self, door: &mut Door<'_>) {
        let Door { dev, budget, device, done } = door;
        let (dev, budget) = (*dev, *budget);
        let from = if self.links[usize::from(dev.0)].caps.keeps { Origin::Queue } else { Origin::Beyond };
        while done.packets + done.dropped < budget && !self.links[usize::from(dev.0)].stopped {
            let link = &mut self.links[usize::from(dev.0)];
            if link.is_clear() {
                // Every turn ends here, nearly always with nothing behind its packets.
                link.told.on_cut_over();
                link.not_before = None;
                return;
            }
            let Some(packet) = self.next_packet(dev) else { return };
            let (owner, len, line) = (packet.owner, packet.len() as u64, packet.line_bytes());
            let answer = device.submit(self.now, packet);
            let link = &mut self.links[usize::from(dev.0)];
            link.stopped = matches!(answer, Submit::Filled | Submit::NotNow(_));
            link.at_once = matches!(answer, Submit::Completed);
            match answer {
                Submit::Sent | Submit::Filled => {
                    let aware = self.env.sysctl.tcp_queue_aware;
                    link.told.on_sent(self.now, owner.is_some(), line, aware);
                }
                Submit::Completed => {
                    if let Some(owner) = owner {
                        self.credit_back(owner, from);
                    }
                }
                Submit::NotNow(packet) => {
                    self.env.count.own.packets_not_now += 1;
                    link.held.push_front(packet);
                    link.requeues += 1;
                    return;
                }
                Submit::Dropped => {
                    self.dropped_below(owner, from);
                    done.dropped += 1;
                    continue;
                }
            }
            done.packets += 1;
            done.bytes += len;
        }
    }

    /// The device dropped a packet on the way to the wire.
    pub(super) fn dropped_below(&mut self, owner: Option<Owner>, from: Origin) {
        self.env.count.own.packets_dropped_below += 1;
        self.env.count.dropped(DropWhy::Device);
        if let Some(owner) = owner {
            self.refund(owner, true, from);
        }
    }

    /// The next packet for the device, as the device can take it.
    fn next_packet(&mut self, dev: DeviceId) -> Option<Packet> {
        loop {
            let link = &mut self.links[usize::from(dev.0)];
            if let Some(packet) = link.held.pop_front() {
                return Some(packet);
            }
            link.told.on_cut_over();
            if let Some(packet) = link.early.take_due(self.now) {
                self.hand_over(dev, packet);
                continue;
            }
            link.not_before = None;
            let next = link.qdisc.dequeue(&mut self.env.cx(self.now, None), &mut link.gone);
            if !link.gone.is_empty() {
                self.carry_out(dev);
            }
            let link = &mut self.links[usize::from(dev.0)];
            let packet = match next {
                Dequeued::Packet(packet) => packet,
                Dequeued::NotBefore(at) => {
                    link.not_before = Some(at);
                    return None;
                }
                Dequeued::Empty => return None,
            };
            let (caps, link_len) = (link.caps, link.caps.link_len());
            let aware = self.env.sysctl.tcp_queue_aware;
            if aware
                && !caps.keeps
                && let Some(owner) = packet.owner
            {
                self.pass_on(owner);
            }
            let too_large = packet.len() - link_len.min(packet.len()) > caps.gso_max_size as usize;
            let train = packet.offload.gso == GsoKind::Sctp && !caps.sctp;
            let loses_cwr = packet.offload.repeats_cwr && !caps.repeats_cwr;
            if packet.offload.gso_size > 0 && (too_large || !caps.checksum || train || loses_cwr) {
                self.env.count.own.gso_segmented += 1;
                let link = &mut self.links[usize::from(dev.0)];
                link.told.on_cut(packet.line_bytes(), aware);
                link.held.extend(offload::segment(packet, link_len, !caps.checksum));
                continue;
            }
            let mut packet = packet;
            if !caps.checksum {
                offload::csum::fill(&mut packet, link_len);
            }
            return Some(packet);
        }
    }

    /// Carries packets to this stack's own addresses round the loopback device.
    pub(super) fn run_loopback(&mut self) {
        if !self.links[usize::from(LOOPBACK.0)].wants_transmit(self.now) {
            return;
        }
        let mut looped = Vec::new();
        let mut collect = |_, packet: Packet| {
            looped.push(packet);
            Submit::Sent
        };
        self.run_device(LOOPBACK, LOOPBACK_BUDGET, &mut collect);
        for mut packet in looped {
            let owner = packet.owner.take();
            packet.at = self.now;
            let whole = Coalesced { packet, more: SmallVec::new(), push: false, fixed_id: false };
            self.ingress_packet(LOOPBACK, whole);
            if let Some(owner) = owner {
                self.credit_back(owner, Origin::Beyond);
            }
        }
    }

    /// The way to `dst`; to an own address it leads round the loopback device.
    pub(super) fn route(&self, src: Option<IpAddr>, dst: IpAddr) -> Result<Dst, Error> {
        self.ip.lookup(src, dst, self.now)
    }

    /// The way of a flow, with fresh packet numbers.
    pub(super) fn path(&self, src: Option<IpAddr>, tuple: &Tuple) -> Result<Path, Error> {
        let dst = self.route(src, tuple.remote_ip)?;
        let (local, remote) = ((dst.src, tuple.local_port), (tuple.remote_ip, tuple.remote_port));
        Ok(Path { dst, ids: self.ip.flow_ids(local, remote, protocol::TCP) })
    }

    /// There was no route when a request became this connection; there may be one now.
    fn find_path(&mut self, id: SocketId) -> Result<(), Error> {
        let Some(Socket::Tcp(conn)) = self.sockets.get(id).map(|e| &e.socket) else {
            return Err(Error::NoSuchSocket);
        };
        let tuple = *conn.tuple();
        let path = self.path(Some(tuple.local_ip), &tuple)?;
        self.sockets.get_mut(id).ok_or(Error::NoSuchSocket)?.path = Some(path);
        self.refresh_path(id)
    }

    /// Asks for the route again if routes have changed; an error when there is none now.
    pub(super) fn refresh_path(&mut self, id: SocketId) -> Result<(), Error> {
        let entry = self.sockets.get(id).ok_or(Error::NoSuchSocket)?;
        let Socket::Tcp(conn) = &entry.socket else { return Err(Error::NoSuchSocket) };
        let Some(path) = &entry.path else { return self.find_path(id) };
        // A connection that grew out of a request may be older than what the path's MTU has become since its SYN.
        if path.dst.generation == self.ip.generation() && path.dst.mtu >= conn.path_mtu() {
            return Ok(());
        }
        let tuple = *conn.tuple();
        let dst = self.route(Some(tuple.local_ip), tuple.remote_ip)?;
        let metrics = self.ip.metrics(Some(tuple.local_ip), tuple.remote_ip);
        let entry = self.sockets.get_mut(id).ok_or(Error::NoSuchSocket)?;
        if let Some(path) = &mut entry.path {
            path.dst = dst;
        }
        let Socket::Tcp(conn) = &mut entry.socket else { return Err(Error::NoSuchSocket) };
        follow_metrics(conn, &mut self.env.option_sets, metrics);
        if dst.mtu != conn.path_mtu() {
            conn.follow_route_mtu(&self.env.cx(self.now, Some(id)), dst.mtu);
        }
        Ok(())
    }
}

/// The route of a connection may ask for something else by now.
pub(super) fn follow_metrics(conn: &mut Conn, sets: &mut OptionSets, metrics: RouteMetrics) {
    if metrics != conn.options().route {
        let options = SocketOptions { route: metrics, ..conn.options().clone() };
        conn.follow_route(sets.share(&options));
    }
}

/// A device while packets are handed to it: how many may be, and what was.
struct Door<'a> {
    dev: DeviceId,
    budget: usize,
    device: &'a mut dyn Device,
    done: Transmitted,
}

/// The pseudo-header's sum; 0 for addresses of different families, which no flow has.
pub(super) fn pseudo_header(src: IpAddr, dst: IpAddr, protocol: u8, len: usize) -> u64 {
    match (src, dst) {
        (IpAddr::V4(s), IpAddr::V4(d)) => lowwater_wire::checksum::pseudo_v4(s, d, protocol, len),
        (IpAddr::V6(s), IpAddr::V6(d)) => lowwater_wire::checksum::pseudo_v6(s, d, protocol, len),
        _ => 0,
    }
}
