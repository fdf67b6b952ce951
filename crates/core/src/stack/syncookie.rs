//! Listeners whose queue of requests is full answer with SYN cookies, and know them again (`tcp_conn_request`, `cookie_v4_check`).
use super::Stack;
use crate::base::{DropWhy, SocketId, Tuple};
use crate::socket::{Holder, Listener, Socket};
use crate::tcp::syncookie::VALID;
use crate::tcp::{Segment, Setup};
use lowwater_wire::tcp::TcpFlags;

/// What becomes of a SYN before anything is kept of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// A request.
    Request,
    /// A cookie.
    Cookie,
    /// Nothing.
    Drop,
}

impl Stack {
    /// Looks at a listener's queues. `reopens` says that the SYN follows a TIME-WAIT, whose place it takes.
    pub(super) fn admit_syn(&mut self, listener: SocketId, reopens: bool) -> Admission {
        let Some(Socket::Listener(l)) = self.sockets.get(listener).map(|e| &e.socket) else {
            return Admission::Drop;
        };
        let (sysctl, count) = (&self.env.sysctl, &mut self.env.count.tcp_ext);
        let full = l.requests_full();
        // Who asks first keeps a SYN for that time: a cookie cannot.
        let cookies = sysctl.tcp_syncookies != 0 && !l.options.ask;
        let mut admission = Admission::Request;
        if !reopens && (full || (cookies && sysctl.tcp_syncookies == 2)) {
            if !cookies {
                count.tcp_req_q_full_drop += 1;
                count.listen_drops += 1;
                return Admission::Drop;
            }
            count.tcp_req_q_full_do_cookies += 1;
            admission = Admission::Cookie;
        }
        if l.accept_full() {
            count.listen_overflows += 1;
            count.listen_drops += 1;
            return Admission::Drop;
        }
        if admission == Admission::Request
            && !reopens
            && sysctl.tcp_syncookies == 0
            && crowded(l, sysctl.tcp_max_syn_backlog)
        {
            count.listen_drops += 1;
            return Admission::Drop;
        }
        admission
    }

    /// Answers a SYN with a cookie; nothing is kept of it.
    pub(super) fn send_cookie(
        &mut self,
        listener: SocketId,
        setup: Setup,
        syn: &Segment,
    ) -> Result<(), DropWhy> {
        let tuple = setup.tuple;
        let out = self.openers.cookies.answer(&mut self.env.cx(self.now, Some(listener)), setup, syn)?;
        let now = self.now;
        if let Some(l) = self.listener(listener) {
            l.cookie_at = Some(now);
        }
        self.env.count.tcp_ext.syncookies_sent += 1;
        self.send_control(&tuple, out);
        Ok(())
    }

    /// The size of segments that the cookie tells which an acknowledgement brings back.
    pub(super) fn cookie_of(&mut self, listener: SocketId, tuple: &Tuple, seg: &Segment) -> Option<u16> {
        let Some(Socket::Listener(l)) = self.sockets.get(listener).map(|e| &e.socket) else { return None };
        let recent = l.cookie_at.is_some_and(|at| self.now.since(at) <= VALID);
        if self.env.sysctl.tcp_syncookies == 0 || !recent || seg.has(TcpFlags::RST) || seg.has(TcpFlags::SYN)
        {
            return None;
        }
        let mss = self.openers.cookies.check(tuple, seg, self.now);
        let count = &mut self.env.count.tcp_ext;
        count.syncookies_failed += u64::from(mss.is_none());
        count.syncookies_recv += u64::from(mss.is_some());
        mss
    }

    /// An acknowledgement that no flow knows may bring a cookie back: then it opens a connection. False when it does not, and
    /// nobody wants the segment.
    pub(super) fn accept_cookie(&mut self, listener: SocketId, tuple: &Tuple, seg: &Segment) -> bool {
        let Some(mss) = self.cookie_of(listener, tuple, seg) else { return false };
        let Some(Socket::Listener(l)) = self.sockets.get(listener).map(|e| &e.socket) else { return false };
        let (accept_full, options) = (l.accept_full(), &l.options.options);
        // The SYN is forgotten, so that the last ACK says what is reflected (`cookie_tcp_reqsk_init`).
        let tos = self.env.sysctl.tcp_reflect_tos.then(|| (tuple.is_v6(), seg.tos & !3));
        let options = Self::options_for_request(&mut self.env.option_sets, options, tos);
        let Ok(dst) = self.route(Some(tuple.local_ip), tuple.remote_ip) else { return true };
        let ts_offset = self.env.secrets.ts_offset(tuple);
        let options = self.over_route(&options, tuple);
        let setup = Setup { tuple: *tuple, mtu: dst.mtu, isn: seg.ack, ts_offset, options, saved_syn: None };
        if accept_full {
            self.count_overflow();
            self.env.count.dropped(DropWhy::ListenOverflow);
            return true;
        }
        let cookies = &self.openers.cookies;
        let Some(conn) = cookies.accept(&mut self.env.cx(self.now, Some(listener)), setup, seg, mss) else {
            return false;
        };
        let path = self.path(Some(tuple.local_ip), tuple).ok();
        let child = self.insert_conn(conn, path, Holder::Backlog);
        self.queue_child(listener, child);
        self.conn_input(child, tuple, &mut seg.clone());
        true
    }
}

/// Without cookies the last quarter of the SYN queue is for peers that are known to live; nobody is remembered here, so it stays
/// free (`tcp_peer_is_proven`).
const fn crowded(l: &Listener, max_syn_backlog: u32) -> bool {
    // Of a queue of one to three nothing stays free, and it is bounded all the same.
    let left = max_syn_backlog as i64 - l.requests as i64;
    left < (max_syn_backlog >> 2) as i64
}
