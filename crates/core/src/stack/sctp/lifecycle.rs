//! What follows a verb on an association: events, a turn, the timer, the end; and what ICMP errors mean for one.
use crate::base::limits::MIN_PMTU_V4;
use crate::base::{Error, Instant, SocketId, Tuple};
use crate::ip::{IcmpError, IcmpKind, Unreachable};
use crate::sctp::{Assoc, Fate, Notice as SctpNotice, State};
use crate::socket::{Entry, Holder, SctpSocket, Socket, Turn};
use crate::stack::Stack;
use crate::stack::expiry::TimerKey;
use crate::tcp::Notice;
use core::net::SocketAddr;
use lowwater_wire::sctp::Quoted;
use smallvec::SmallVec;

/// The edges under the names that all sockets share.
fn edges(notice: SctpNotice) -> Notice {
    let pairs = [
        (SctpNotice::CONNECTED, Notice::CONNECTED),
        (SctpNotice::READABLE, Notice::READABLE),
        (SctpNotice::WRITABLE, Notice::WRITABLE),
        (SctpNotice::CLOSED, Notice::CLOSED),
    ];
    let mut out = Notice::NONE;
    for (bit, edge) in pairs {
        if notice.0 & bit != 0 {
            out.insert(edge);
        }
    }
    out
}

impl Stack {
    /// Puts a new association into the tables.
    pub(super) fn insert_assoc(&mut self, assoc: Assoc, holder: Holder) -> SocketId {
        let arrivals = assoc.options().arrivals.then(Box::default);
        let socket = SctpSocket { assoc, routes: SmallVec::new(), generation: 0, arrivals, seen: None };
        self.env.memory.open();
        let id = self.sockets.insert(Entry::new(Socket::Sctp(Box::new(socket)), None, holder));
        self.sctp_refresh(id);
        id
    }

    /// Something may be there to be read when a socket changes hands.
    pub(super) fn tell_readable(&mut self, id: SocketId) {
        let Some(entry) = self.sockets.get_mut(id) else { return };
        let Socket::Sctp(sctp) = &mut entry.socket else { return };
        if sctp.assoc.poll(&self.env.cx(self.now, Some(id))).readable {
            self.events.push_notice(&mut entry.pending, id, Notice::READABLE);
        }
    }

    /// Draws the conclusions from what was done to an association; [`Turn::NONE`] asks for no turn.
    pub(in crate::stack) fn settle_sctp(&mut self, id: SocketId, why: Turn) {
        self.sctp_refresh(id);
        let Some(entry) = self.sockets.get_mut(id) else { return };
        let Socket::Sctp(sctp) = &mut entry.socket else { return };
        if self.env.trace.is_on() {
            let seen = sctp.seen.get_or_insert_default();
            sctp.assoc.record_changes(&mut self.env.cx(self.now, Some(id)), seen);
        }
        let (before, after) = sctp.assoc.recharge();
        self.env.memory.account(&self.env.sysctl, &mut self.env.count, before, after);
        let (notes, failed) = sctp.assoc.take_dropped();
        self.env.count.own.sctp_notes_dropped += notes;
        self.env.count.own.sctp_failed_dropped += failed;
        if let Some(arrivals) = &mut sctp.arrivals {
            arrivals.sync(id, sctp.assoc.readable(), &mut self.demux.sctp.stamps);
        }
        let notice = edges(sctp.assoc.take_notice(&self.env.cx(self.now, Some(id))));
        if entry.holder == Holder::Owner && !notice.is_empty() {
            self.events.push_notice(&mut entry.pending, id, notice);
        }
        if !entry.bound {
            return self.bury(id);
        }
        let wants = why != Turn::NONE && sctp.assoc.wants_output();
        let fate = sctp.assoc.fate();
        let deadline = sctp.assoc.next_deadline();
        let mut cx = self.env.cx(self.now, Some(id));
        entry.timer.set(&mut cx, &mut self.wheel, TimerKey::Socket(id), deadline);
        if wants {
            return self.mark_ready(id, why);
        }
        if fate == Fate::Dead {
            self.retire_sctp(id);
        }
    }

    /// For comparison (`sctp.hb_eager`): the heartbeat timer was drawn anew by the packet that leaves, and costs an operation of the
    /// wheel each time, as Linux's once did.
    pub(super) fn sctp_rearm(&mut self, id: SocketId) {
        let Some(entry) = self.sockets.get_mut(id) else { return };
        let Socket::Sctp(sctp) = &entry.socket else { return };
        let deadline = sctp.assoc.next_deadline();
        entry.timer.cancel(&mut self.wheel);
        entry.timer.set(
            &mut self.env.cx(self.now, Some(id)),
            &mut self.wheel,
            TimerKey::Socket(id),
            deadline,
        );
    }

    /// The association is over: its addresses are free.
    fn retire_sctp(&mut self, id: SocketId) {
        let Some(entry) = self.sockets.get_mut(id) else { return };
        let Socket::Sctp(sctp) = &entry.socket else { return };
        let (local, remote) = sctp.assoc.ports();
        for (_, path) in sctp.assoc.paths().iter() {
            self.demux.sctp.remove(local, SocketAddr::new(path.remote, remote), id);
        }
        entry.bound = false;
        entry.timer.cancel(&mut self.wheel);
        self.bury(id);
    }

    pub(in crate::stack) fn sctp_timer(&mut self, id: SocketId) {
        let Some(entry) = self.sockets.get_mut(id) else { return };
        let Socket::Sctp(sctp) = &mut entry.socket else { return };
        sctp.assoc.on_timeout(&mut self.env.cx(self.now, Some(id)));
        self.settle_sctp(id, Turn::TIMER);
    }

    /// Nobody holds this association any more.
    pub(in crate::stack) fn release_sctp(&mut self, id: SocketId, abort: bool) {
        let Some(entry) = self.sockets.get_mut(id) else { return };
        let Socket::Sctp(sctp) = &mut entry.socket else { return };
        entry.holder = Holder::Nobody;
        let mut cx = self.env.cx(self.now, Some(id));
        if abort {
            sctp.assoc.user_abort(&mut cx, b"");
        } else {
            sctp.assoc.release(&mut cx);
        }
        self.settle_sctp(id, Turn::APP);
    }

    pub(in crate::stack) fn close_sctp_listener(&mut self, id: SocketId) {
        let Some(entry) = self.sockets.get_mut(id) else { return };
        let Socket::SctpListener(l) = &mut entry.socket else { return };
        entry.holder = Holder::Nobody;
        self.demux.sctp.unlisten(l.port, id);
        for child in core::mem::take(&mut l.accept) {
            self.release_sctp(child, true);
        }
        self.bury(id);
    }

    /// An ICMP error about a packet of ours (RFC 9260 section 10): the tag must be the association's.
    pub(in crate::stack) fn icmp_error_sctp(&mut self, tuple: &Tuple, error: &IcmpError) -> bool {
        error.embedded.sctp.is_some_and(|quoted| self.sctp_unreached(tuple, &quoted, error.kind))
    }

    /// The same about a packet that begins like this.
    pub(super) fn sctp_unreached(&mut self, tuple: &Tuple, quoted: &Quoted, kind: IcmpKind) -> bool {
        let Some(id) = self.sctp_flow(tuple.local(), tuple.remote()) else { return false };
        let Some(Socket::Sctp(sctp)) = self.sockets.get_mut(id).map(|e| &mut e.socket) else { return false };
        let (now, (ours, peers)): (Instant, _) = (self.now, sctp.assoc.tags());
        let known = match quoted.vtag {
            // An INIT has none; its own says who sent it (ICMP7).
            0 => quoted.initiate_tag == Some(ours),
            tag => tag == peers,
        };
        if !known {
            return false;
        }
        match kind {
            IcmpKind::TooBig(mtu) => {
                // What is not believed counts as the least that is (`__ip_rt_update_pmtu`).
                let least = if tuple.is_v6() { 0 } else { MIN_PMTU_V4 };
                let narrowed = sctp.assoc.on_pmtu(tuple.remote_ip, mtu.max(least));
                self.env.count.sctp.pmtud_retransmits += u64::from(narrowed);
                // What changes nothing for this path may for its others, and for other flows, and lets routers cut its packets.
                let learnt = self.ip.lower_path_mtu(tuple.remote_ip, mtu, now);
                if !narrowed && !learnt {
                    return false;
                }
            }
            // ICMP9: the peer's host does not speak SCTP, which is as good as an ABORT; what an INIT has met, only while that is out.
            IcmpKind::Unreachable(Unreachable::Protocol)
                if quoted.vtag != 0 || sctp.assoc.state() == State::CookieWait =>
            {
                let mut cx = self.env.cx(now, Some(id));
                sctp.assoc.cut_off(&mut cx, Error::ProtocolUnreachable);
            }
            // Everything else may be forged and is left to the timers (ICMP3, ICMP5).
            _ => {}
        }
        self.settle_sctp(id, Turn::INPUT);
        true
    }
}
