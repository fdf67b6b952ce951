//! After every verb on a connection: edges become events, silence or eagerness becomes a turn, an end becomes a smaller object.
use super::Stack;
use super::demux::Flow;
use super::expiry::TimerKey;
use super::link::LOOPBACK;
use super::queue::Origin;
use crate::base::{DeviceId, SocketId};
use crate::packet::Owner;
use crate::socket::{Entry, Holder, Socket, Turn, TwEntry};
use crate::tcp::{Fate, Notice, State};
use crate::timer::Lazy;

impl Stack {
    /// Draws the conclusions from what was done to a connection. [`Turn::NONE`] asks for no turn: the connection has just
    /// said that it has nothing to send.
    pub(super) fn settle(&mut self, id: SocketId, why: Turn) {
        let Some(entry) = self.sockets.get_mut(id) else { return };
        let Socket::Tcp(conn) = &mut entry.socket else { return };
        if let Some(news) = conn.take_news() {
            let (tuple, holder) = (*conn.tuple(), entry.holder);
            self.hear(&tuple, holder, &news);
            return self.settle(id, why);
        }
        if conn.is_followed() {
            self.events.push_followed(id);
        }
        let notice = conn.take_notice();
        let (before, after) = conn.recharge();
        self.env.memory.account(&self.env.sysctl, &mut self.env.count, before, after);
        if entry.holder == Holder::Owner && !notice.is_empty() {
            self.events.push_notice(&mut entry.pending, id, notice);
        }
        if !entry.bound {
            return self.bury(id);
        }
        let wants = why != Turn::NONE && conn.wants_output();
        let (fate, in_time_wait) = (conn.fate(), conn.state() == State::TimeWait);
        if wants || fate == Fate::Alive {
            let mut cx = self.env.cx(self.now, Some(id));
            entry.timer.set(&mut cx, &mut self.wheel, TimerKey::Socket(id), conn.next_deadline());
        }
        if wants {
            return self.mark_ready(id, why);
        }
        match fate {
            Fate::Alive if in_time_wait => self.hold_time_wait(id),
            Fate::Alive => {}
            Fate::TimeWait => self.enter_time_wait(id),
            // A dead connection that its owner still holds must not keep its flow from a new one.
            Fate::Detached | Fate::Dead => self.retire(id),
        }
    }

    /// Gives a socket a turn on the device that its route leads to, which may be another since it was last asked for.
    pub(super) fn mark_ready(&mut self, id: SocketId, why: Turn) {
        let Some(entry) = self.sockets.get(id) else { return };
        // One that waits for its turn already does so where it is.
        let dev = if entry.turn == Turn::NONE { self.device_of(entry) } else { LOOPBACK };
        let Some(entry) = self.sockets.get_mut(id) else { return };
        if let Some(link) = self.links.get_mut(usize::from(dev.0)) {
            link.ready.mark(id, entry, why);
        }
    }

    pub(super) fn device_of(&self, entry: &Entry) -> DeviceId {
        match (&entry.path, &entry.socket) {
            (None, _) => LOOPBACK,
            (Some(path), Socket::Tcp(conn)) if path.dst.generation != self.ip.generation() => {
                let tuple = conn.tuple();
                self.route(Some(tuple.local_ip), tuple.remote_ip).map_or(path.dst.device, |dst| dst.device)
            }
            // Its turn asks for the routes of all its paths, and moves it.
            (Some(path), Socket::Sctp(_)) if path.dst.generation != self.ip.generation() => LOOPBACK,
            (Some(path), _) => path.dst.device,
        }
    }

    /// A connection in TIME-WAIT whose last acknowledgement has left takes a place there, also while somebody holds it; where none is
    /// free its flow ends at once (`tcp_time_wait`).
    fn hold_time_wait(&mut self, id: SocketId) {
        let full = self.small.time_waits.len() + self.small.held_time_waits
            >= self.env.sysctl.tcp_max_tw_buckets as usize;
        let Some(entry) = self.sockets.get_mut(id) else { return };
        let Socket::Tcp(conn) = &mut entry.socket else { return };
        if conn.state() != State::TimeWait || entry.in_time_wait || conn.wants_output() {
            return;
        }
        if full {
            self.env.count.tcp_ext.tcp_time_wait_overflow += 1;
            // It was none (`tcp_time_wait`).
            self.env.count.tcp_ext.tw = self.env.count.tcp_ext.tw.saturating_sub(1);
            conn.yield_flow(&mut self.env.cx(self.now, Some(id)));
            return self.settle(id, Turn::NONE);
        }
        entry.in_time_wait = true;
        self.small.held_time_waits += 1;
    }

    /// What held a place in TIME-WAIT gives it back.
    fn leave_time_wait(&mut self, id: SocketId) -> bool {
        let held = self.sockets.get_mut(id).is_some_and(|e| core::mem::take(&mut e.in_time_wait));
        self.small.held_time_waits -= usize::from(held);
        held
    }

    /// The connection ends in TIME-WAIT: once nobody holds it, a small object takes its place among the flows.
    fn enter_time_wait(&mut self, id: SocketId) {
        let Some(entry) = self.sockets.get(id).filter(|e| e.holder == Holder::Nobody) else { return };
        let begun = matches!(&entry.socket, Socket::Tcp(conn) if conn.state() == State::TimeWait);
        let had_place = self.leave_time_wait(id);
        let taken = self.small.time_waits.len() + self.small.held_time_waits;
        if !had_place && taken >= self.env.sysctl.tcp_max_tw_buckets as usize {
            self.env.count.tcp_ext.tcp_time_wait_overflow += 1;
            // That of TIME-WAIT was counted with its beginning, and was none.
            self.env.count.tcp_ext.tw = self.env.count.tcp_ext.tw.saturating_sub(begun.into());
            return self.retire(id);
        }
        let Some(mut entry) = self.sockets.remove(id) else { return };
        self.env.memory.close();
        self.env.memory.bury();
        entry.timer.cancel(&mut self.wheel);
        self.events.push_gone(id);
        let Socket::Tcp(conn) = entry.socket else { return };
        self.env.memory.account(&self.env.sysctl, &mut self.env.count, conn.accounted(), 0);
        let mut cx = self.env.cx(self.now, Some(id));
        let time_wait = conn.into_time_wait(&mut cx);
        let (tuple, deadline) = (*time_wait.tuple(), time_wait.deadline());
        let tw = self.small.time_waits.insert(TwEntry { time_wait, timer: Lazy::new() });
        if let Some(entry) = self.small.time_waits.get_mut(tw) {
            entry.timer.set(&mut cx, &mut self.wheel, TimerKey::TimeWait(tw), Some(deadline));
        }
        self.demux.flows.remove(&tuple, Flow::Conn(id));
        self.demux.flows.insert(&tuple, Flow::TimeWait(tw));
    }

    /// The connection is over: its flow is free.
    fn retire(&mut self, id: SocketId) {
        self.leave_time_wait(id);
        let Some(entry) = self.sockets.get_mut(id) else { return };
        let Socket::Tcp(conn) = &entry.socket else { return };
        self.demux.flows.remove(conn.tuple(), Flow::Conn(id));
        entry.bound = false;
        entry.timer.cancel(&mut self.wheel);
        self.bury(id);
    }

    /// Frees a socket that is out of the demultiplexer, unless somebody still holds it.
    pub(super) fn bury(&mut self, id: SocketId) {
        let Some(entry) = self.sockets.get_mut(id) else { return };
        if entry.holder != Holder::Nobody {
            return;
        }
        entry.timer.cancel(&mut self.wheel);
        match &entry.socket {
            Socket::Tcp(conn) => {
                self.env.memory.account(&self.env.sysctl, &mut self.env.count, conn.accounted(), 0);
                self.env.memory.close();
                self.env.memory.bury();
            }
            Socket::Listener(_) => self.env.memory.close(),
            Socket::Sctp(sctp) => {
                let held = sctp.assoc.accounted();
                self.env.memory.account(&self.env.sysctl, &mut self.env.count, held, 0);
                self.env.memory.close();
            }
            Socket::Udp(_) | Socket::SctpListener(_) => {}
        }
        self.sockets.remove(id);
        self.events.push_gone(id);
    }

    /// A packet has left the device, or will never come to it: the flow gets its credit back. True as [`Self::refund`] says.
    pub(super) fn credit_back(&mut self, owner: Owner, from: Origin) -> bool {
        self.env.count.own.completions += 1;
        self.refund(owner, false, from)
    }

    /// Gives a flow its credit back; `dropped` when the packet was lost on this side of the wire. True when nothing of the flow is in
    /// its queue any more although that had held it back.
    pub(super) fn refund(&mut self, owner: Owner, dropped: bool, from: Origin) -> bool {
        let id = owner.flow.socket;
        let Some(entry) = self.sockets.get_mut(id) else { return false };
        let mut starved = false;
        match &mut entry.socket {
            Socket::Tcp(conn) => {
                let mut cx = self.env.cx(self.now, Some(id));
                if from == Origin::Queue {
                    starved = conn.leave_queue(&mut cx, owner, dropped);
                }
                if dropped {
                    conn.on_dropped(&mut cx, owner);
                } else {
                    conn.on_complete(&mut cx, owner);
                }
                self.settle(id, Turn::CREDIT);
            }
            Socket::Udp(udp) => {
                self.env.count.udp.sndbuf_errors += u64::from(dropped);
                if udp.on_complete(owner.charge) && entry.holder == Holder::Owner {
                    self.events.push_notice(&mut entry.pending, id, Notice::WRITABLE);
                }
                if entry.holder == Holder::Nobody && udp.is_idle() {
                    self.bury(id);
                }
            }
            Socket::Sctp(sctp) => {
                if sctp.assoc.on_complete(owner.flow.path, owner.charge) {
                    self.settle_sctp(id, Turn::CREDIT);
                }
            }
            Socket::Listener(_) | Socket::SctpListener(_) => {}
        }
        starved
    }

    /// A packet leaves the queueing discipline for a device in which nothing waits: it has left its flow's queue. Its credit comes back
    /// when the device tells.
    pub(super) fn pass_on(&mut self, owner: Owner) {
        let id = owner.flow.socket;
        if let Some(Socket::Tcp(conn)) = self.sockets.get_mut(id).map(|entry| &mut entry.socket) {
            let _ = conn.leave_queue(&mut self.env.cx(self.now, Some(id)), owner, false);
        }
    }
}
