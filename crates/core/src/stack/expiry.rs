//! Timers: one wheel for all sockets and small objects, the IP layer's own deadlines beside it.
use super::Stack;
use crate::base::SocketId;
use crate::socket::{Pending, RequestId, Socket, Turn, TwId};
use crate::tcp::RequestTimeout;

/// Whose timer an entry of the wheel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimerKey {
    /// A connection's.
    Socket(SocketId),
    /// A request's.
    Request(RequestId),
    /// A TIME-WAIT's.
    TimeWait(TwId),
}

impl Stack {
    /// Does everything that is due.
    pub(super) fn expire(&mut self) {
        while let Some((key, _)) = self.wheel.pop_expired(self.now) {
            match key {
                TimerKey::Socket(id) => self.socket_timer(id),
                TimerKey::Request(id) => self.request_timer(id),
                TimerKey::TimeWait(id) => self.time_wait_timer(id),
            }
        }
        if self.ip.next_deadline().is_some_and(|at| at <= self.now) {
            self.ip.on_timeout(&mut self.env.cx(self.now, None), &mut self.down.outbox);
            self.dispatch();
        }
        for link in &mut self.links {
            if link.not_before.is_some_and(|at| at <= self.now) {
                link.not_before = None;
            }
        }
    }

    fn socket_timer(&mut self, id: SocketId) {
        let Some(entry) = self.sockets.get_mut(id) else { return };
        let mut cx = self.env.cx(self.now, Some(id));
        let due = entry.timer.fired(&mut cx, &mut self.wheel, TimerKey::Socket(id));
        match &mut entry.socket {
            Socket::Tcp(conn) => {
                // Also where the timer was set for what has been answered since.
                conn.rest();
                if due {
                    conn.on_timeout(&mut cx);
                    self.settle(id, Turn::TIMER);
                }
            }
            Socket::Sctp(_) if due => self.sctp_timer(id),
            Socket::Sctp(_) | Socket::Udp(_) | Socket::Listener(_) | Socket::SctpListener(_) => {}
        }
    }

    fn request_timer(&mut self, id: RequestId) {
        let Some(entry) = self.small.requests.get_mut(id) else { return };
        let mut cx = self.env.cx(self.now, None);
        if !entry.timer.fired(&mut cx, &mut self.wheel, TimerKey::Request(id)) {
            return;
        }
        let reachable = self.renew_request(id, true);
        let Some(entry) = self.small.requests.get_mut(id) else { return };
        let mut cx = self.env.cx(self.now, None);
        let listener = self.sockets.get_mut(entry.listener).map(|e| &mut e.socket);
        let Some(Socket::Listener(listener)) = listener else { return self.fail_request(id) };
        let Pending::Sent(request) = &mut entry.pending else {
            // Nobody decided in time; the peer will send its SYN again.
            return self.fail_request(id);
        };
        let young = request.is_young();
        let verdict = request.on_timeout(&mut cx, &listener.crowd(), reachable);
        listener.young = listener.young.saturating_sub(u32::from(young && !request.is_young()));
        match verdict {
            RequestTimeout::Resend(out) => {
                let (tuple, label) = (*request.tuple(), request.label());
                self.schedule_request(id);
                self.send_labelled(&tuple, label, out);
            }
            RequestTimeout::Expired => self.fail_request(id),
            RequestTimeout::NotYet => self.schedule_request(id),
        }
    }

    fn time_wait_timer(&mut self, id: TwId) {
        let Some(entry) = self.small.time_waits.get_mut(id) else { return };
        let mut cx = self.env.cx(self.now, None);
        if entry.timer.fired(&mut cx, &mut self.wheel, TimerKey::TimeWait(id)) {
            self.remove_time_wait(id);
        }
    }
}
