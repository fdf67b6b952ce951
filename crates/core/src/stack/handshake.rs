//! Passive opens: from a SYN by way of a request, perhaps a question to the application, into an accept backlog.
use super::demux::Flow;
use super::egress::follow_metrics;
use super::expiry::TimerKey;
use super::syncookie::Admission;
use super::{Decision, Stack};
use crate::base::{DropWhy, Duration, Error, Instant, SocketId, Tuple};
use crate::socket::{
    Asked, Entry, Event, Holder, Listener, Path, Pending, RequestEntry, RequestId, Socket, Told, Turn, TwId,
};
use crate::tcp::options::OptionSets;
use crate::tcp::{
    Conn, Disposition, Outgoing, Request, RequestVerdict, Segment, Seq, Setup, SocketOptions, State,
    TimeWaitVerdict, reset_for,
};
use crate::timer::Lazy;
use lowwater_wire::tcp::{FastOpenCookie, TcpFlags};
use std::sync::Arc;

/// How long a SYN waits for the application's decision: the peer sends it again after one second and after three.
const DECISION_TIMEOUT: Duration = Duration::from_secs(3);

impl Stack {
    /// A segment for which there is no flow (RFC 9293 section 3.10.7.1 and .2).
    pub(super) fn segment_without_flow(&mut self, tuple: &Tuple, seg: &Segment, isn: Option<Seq>) {
        let listener = self.demux.listener(tuple.local());
        if let Some(Socket::Listener(l)) = listener.and_then(|id| self.sockets.get(id)).map(|e| &e.socket)
            && l.options.options.too_far(tuple.is_v6(), seg.ttl)
        {
            return self.come_too_far();
        }
        if let Some(signature) = seg.options.signed {
            return match listener {
                Some(_) => self.signed(signature),
                // No reset, which would have to be signed (`tcp_v4_send_reset`).
                None => self.env.count.dropped(DropWhy::NoSocket),
            };
        }
        if let Some(listener) = listener.filter(|_| seg.has(TcpFlags::ACK))
            && self.accept_cookie(listener, tuple, seg)
        {
            return;
        }
        let Some(listener) = listener.filter(|_| !seg.has(TcpFlags::ACK)) else {
            self.env.count.dropped(DropWhy::NoSocket);
            return self.answer_with_reset(tuple, seg);
        };
        // A SYN with FIN opens nothing, so that nobody is asked about it (`tcp_rcv_state_process`).
        if !seg.has(TcpFlags::SYN) || seg.flags.intersects(TcpFlags::RST.union(TcpFlags::FIN)) {
            return self.env.count.dropped(DropWhy::TcpFlags);
        }
        if let Err(why) = self.open_request(listener, tuple, seg, isn) {
            self.env.count.dropped(why);
        }
    }

    fn answer_with_reset(&mut self, tuple: &Tuple, seg: &Segment) {
        if let Some(out) = reset_for(tuple, seg) {
            self.send_control(tuple, out);
        }
    }

    pub(super) fn listener(&mut self, id: SocketId) -> Option<&mut Listener> {
        match self.sockets.get_mut(id).map(|e| &mut e.socket) {
            Some(Socket::Listener(l)) => Some(l),
            _ => None,
        }
    }

    fn open_request(
        &mut self,
        listener: SocketId,
        tuple: &Tuple,
        syn: &Segment,
        isn: Option<Seq>,
    ) -> Result<(), DropWhy> {
        let admission = self.admit_syn(listener, isn.is_some());
        if admission == Admission::Drop {
            return Err(DropWhy::ListenOverflow);
        }
        let Some(Socket::Listener(l)) = self.sockets.get(listener).map(|e| &e.socket) else {
            return Err(DropWhy::NoSocket);
        };
        let ask = l.options.ask;
        let tos = self.env.sysctl.tcp_reflect_tos.then(|| (tuple.is_v6(), syn.tos & !3));
        let options = Self::options_for_request(&mut self.env.option_sets, &l.options.options, tos);
        let dst = self.route(Some(tuple.local_ip), tuple.remote_ip).map_err(|_| DropWhy::NoRoute)?;
        let isn = isn.unwrap_or_else(|| self.env.secrets.isn(tuple, self.now));
        let ts_offset = self.env.secrets.ts_offset(tuple);
        let saved_syn = options.save_syn.then(|| self.openers.syn_head.as_slice().into());
        let options = self.over_route(&options, tuple);
        let setup = Setup { tuple: *tuple, mtu: dst.mtu, isn, ts_offset, options, saved_syn };
        if admission == Admission::Cookie {
            return self.send_cookie(listener, setup, syn);
        }
        if ask {
            self.ask(listener, setup, syn);
            return Ok(());
        }
        self.begin_request(listener, setup, syn, Told::Never)
    }

    /// These options over the route that the flow takes.
    pub(super) fn over_route(&mut self, options: &Arc<SocketOptions>, tuple: &Tuple) -> Arc<SocketOptions> {
        let route = self.ip.metrics(Some(tuple.local_ip), tuple.remote_ip);
        self.env.option_sets.over(options, route)
    }

    /// What a request has of its listener's options, and of its SYN where `tcp_reflect_tos` says so.
    pub(super) fn options_for_request(
        sets: &mut OptionSets,
        options: &SocketOptions,
        tos: Option<(bool, u8)>,
    ) -> Arc<SocketOptions> {
        match tos {
            Some((v6, tos)) if options.tos_of(v6) != tos => sets.share(&options.with_tos(v6, tos)),
            _ => sets.share(options),
        }
    }

    /// A request answers by the options that its listener has now, and its connection begins with them; only what the SYN settled
    /// stays (`sk_clone_lock`), and what the route asks for by now. `again`: the SYN-ACK goes again, and the path may have another MTU
    /// (`inet_csk_route_req`). False where there is no path for that any more.
    pub(super) fn renew_request(&mut self, id: RequestId, again: bool) -> bool {
        let Some(entry) = self.small.requests.get_mut(id) else { return false };
        let Pending::Sent(request) = &mut entry.pending else { return false };
        let Some(Socket::Listener(l)) = self.sockets.get(entry.listener).map(|e| &e.socket) else {
            return false;
        };
        let v6 = request.tuple().is_v6();
        let tos = self.env.sysctl.tcp_reflect_tos.then(|| (v6, request.options().tos_of(v6)));
        let (local, remote) = (request.tuple().local_ip, request.tuple().remote_ip);
        let route = self.ip.metrics(Some(local), remote);
        let path = if again { self.ip.lookup(Some(local), remote, self.now).ok() } else { None };
        if let Some(dst) = &path {
            request.follow_path(dst.mtu);
        }
        let options = Self::options_for_request(&mut self.env.option_sets, &l.options.options, tos);
        request.renew(self.env.option_sets.over(&options, route));
        path.is_some()
    }

    /// Answers a SYN: with a connection where Fast Open allows it, else with a request.
    fn begin_request(
        &mut self,
        listener: SocketId,
        setup: Setup,
        syn: &Segment,
        told: Told,
    ) -> Result<(), DropWhy> {
        let request = Request::new(&mut self.env.cx(self.now, Some(listener)), setup, syn)?;
        let tuple = *request.tuple();
        let grant = self.fast_open_grant(listener, &tuple, syn);
        if grant.child {
            self.spawn_fast(listener, request, syn, &grant);
            return Ok(());
        }
        let id = self.insert_request(listener, tuple, Pending::Sent(Box::new(request)), told);
        self.send_syn_ack(id, grant.cookie);
        Ok(())
    }

    fn insert_request(
        &mut self,
        listener: SocketId,
        tuple: Tuple,
        pending: Pending,
        told: Told,
    ) -> RequestId {
        let id = self.small.requests.insert(RequestEntry { pending, listener, told, timer: Lazy::new() });
        self.demux.flows.insert(&tuple, Flow::Request(id));
        if let Some(l) = self.listener(listener) {
            l.requests += 1;
            l.young += 1;
        }
        id
    }

    fn ask(&mut self, listener: SocketId, setup: Setup, syn: &Segment) {
        let tuple = setup.tuple;
        let asked = Asked { syn: syn.clone(), setup };
        let request = self.insert_request(listener, tuple, Pending::Asked(Box::new(asked)), Told::Never);
        self.schedule_request(request);
        let told = self.events.push_incoming(request);
        if let Some(entry) = self.small.requests.get_mut(request) {
            entry.told = told;
        }
    }

    /// The application's answer to [`Event::Incoming`].
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`] when the request is gone: decided before, timed out, or its listener was closed.
    pub fn tcp_decide(&mut self, now: Instant, request: RequestId, decision: Decision) -> Result<(), Error> {
        self.enter(now);
        let entry = self.small.requests.get(request).ok_or(Error::NoSuchSocket)?;
        let Pending::Asked(asked) = &entry.pending else { return Err(Error::NoSuchSocket) };
        let (syn, setup, listener) = (asked.syn.clone(), asked.setup.clone(), entry.listener);
        let tuple = setup.tuple;
        self.events.forget_request(entry.told);
        self.remove_request(request);
        match decision {
            Decision::Drop => self.env.count.dropped(DropWhy::ListenFilter),
            Decision::Refuse => {
                self.env.count.dropped(DropWhy::ListenFilter);
                self.answer_with_reset(&tuple, &syn);
            }
            Decision::Accept => {
                // Others have been accepted since the SYN came, and with Fast Open this one may be a connection at once.
                let begun = if self.listener(listener).is_some_and(|l| l.accept_full()) {
                    self.count_overflow();
                    Err(DropWhy::ListenOverflow)
                } else {
                    self.begin_request(listener, setup, &syn, Told::Yes)
                };
                if let Err(why) = begun {
                    self.env.count.dropped(why);
                    self.tell_request_gone(listener, tuple, Told::Yes);
                }
            }
        }
        Ok(())
    }

    /// A backlog is full (`tcp_listendrop`).
    pub(super) const fn count_overflow(&mut self) {
        self.env.count.tcp_ext.listen_overflows += 1;
        self.env.count.tcp_ext.listen_drops += 1;
    }

    fn send_syn_ack(&mut self, id: RequestId, cookie: Option<FastOpenCookie>) {
        let Some(entry) = self.small.requests.get_mut(id) else { return };
        let Pending::Sent(request) = &mut entry.pending else { return };
        let out = request.syn_ack(&mut self.env.cx(self.now, Some(entry.listener)), cookie);
        let tuple = *request.tuple();
        self.schedule_request(id);
        self.send_control(&tuple, out);
    }

    pub(super) fn schedule_request(&mut self, id: RequestId) {
        let Some(entry) = self.small.requests.get_mut(id) else { return };
        let deadline = match &entry.pending {
            Pending::Asked(_) => self.now + DECISION_TIMEOUT,
            Pending::Sent(request) => request.deadline(),
        };
        let mut cx = self.env.cx(self.now, Some(entry.listener));
        entry.timer.set(&mut cx, &mut self.wheel, TimerKey::Request(id), Some(deadline));
    }

    /// Forgets a request; its flow is free.
    pub(super) fn remove_request(&mut self, id: RequestId) -> Option<Pending> {
        let mut entry = self.small.requests.remove(id)?;
        entry.timer.cancel(&mut self.wheel);
        self.demux.flows.remove(entry.pending.tuple(), Flow::Request(id));
        let young = !matches!(&entry.pending, Pending::Sent(request) if !request.is_young());
        if let Some(l) = self.listener(entry.listener) {
            l.requests = l.requests.saturating_sub(1);
            l.young = l.young.saturating_sub(u32::from(young));
        }
        Some(entry.pending)
    }

    /// Forgets a request that came to nothing; a listener that asked about it is told.
    pub(super) fn fail_request(&mut self, id: RequestId) {
        let Some(entry) = self.small.requests.get(id) else { return };
        let (listener, tuple, told) = (entry.listener, *entry.pending.tuple(), entry.told);
        self.remove_request(id);
        self.tell_request_gone(listener, tuple, told);
    }

    /// Until the driver hears of it, the request keeps its place in the SYN queue.
    fn tell_request_gone(&mut self, listener: SocketId, tuple: Tuple, told: Told) {
        if self.events.push_request_gone(listener, tuple, told)
            && let Some(l) = self.listener(listener)
        {
            l.requests += 1;
        }
    }

    /// [`Event::Incoming`] of a request, while it exists.
    pub(super) fn tell_incoming(&mut self, request: RequestId) -> Option<Event> {
        let entry = self.small.requests.get_mut(request)?;
        let Pending::Asked(asked) = &entry.pending else { return None };
        entry.told = Told::Yes;
        Some(Event::Incoming { listener: entry.listener, request, tuple: asked.setup.tuple })
    }

    /// [`Event::RequestGone`]: the place in the SYN queue is free.
    pub(super) fn tell_gone(&mut self, listener: SocketId, tuple: Tuple) -> Event {
        if let Some(l) = self.listener(listener) {
            l.requests = l.requests.saturating_sub(1);
        }
        Event::RequestGone { listener, tuple }
    }

    /// A segment for a flow in SYN-RECEIVED.
    pub(super) fn request_input(&mut self, id: RequestId, tuple: &Tuple, seg: &mut Segment) {
        self.renew_request(id, seg.has(TcpFlags::SYN));
        let Some(entry) = self.small.requests.get_mut(id) else { return };
        let listener = entry.listener;
        let Pending::Sent(request) = &mut entry.pending else {
            // The peer repeats its SYN while the application thinks, or has given up: then the decision finds nobody.
            return self.env.count.dropped(DropWhy::ListenFilter);
        };
        let verdict = request.input(&mut self.env.cx(self.now, Some(listener)), seg);
        let label = request.label();
        match verdict {
            RequestVerdict::Drop(why) => self.env.count.dropped(why),
            // What does not fit the request is the listener's, who looks at how far it has come (`tcp_v4_rcv`).
            RequestVerdict::Reset(_) if self.too_far_for_listener(listener, tuple, seg) => {
                self.come_too_far();
            }
            // It may bring the cookie of an earlier SYN back. No connection begins beside the request (`tcp_v4_syn_recv_sock`), and nobody is told.
            RequestVerdict::Reset(_) if self.cookie_of(listener, tuple, seg).is_some() => {
                self.env.count.dropped(DropWhy::TcpBadAck);
            }
            RequestVerdict::Reply(out) | RequestVerdict::Reset(out) => {
                self.schedule_request(id);
                self.send_labelled(tuple, label, out);
            }
            RequestVerdict::Gone(answer) => {
                self.fail_request(id);
                if let Some(out) = answer {
                    self.send_control(tuple, out);
                }
            }
            RequestVerdict::Spawn => self.spawn(id, listener, tuple, seg),
        }
    }

    /// The segment has come further than IP_MINTTL or IPV6_MINHOPCOUNT of the listener allow.
    fn too_far_for_listener(&mut self, listener: SocketId, tuple: &Tuple, seg: &Segment) -> bool {
        self.listener(listener).is_some_and(|l| l.options.options.too_far(tuple.is_v6(), seg.ttl))
    }

    /// The final ACK has come: the request becomes a connection, if the backlog has room.
    fn spawn(&mut self, id: RequestId, listener: SocketId, tuple: &Tuple, seg: &mut Segment) {
        if self.listener(listener).is_none_or(|l| l.accept_full()) {
            self.count_overflow();
            self.env.count.dropped(DropWhy::ListenOverflow);
            if self.env.sysctl.tcp_abort_on_overflow {
                self.env.count.tcp_ext.embryonic_rsts += 1;
                self.fail_request(id);
                self.answer_with_reset(tuple, seg);
            } else if let Some(Pending::Sent(request)) =
                self.small.requests.get_mut(id).map(|e| &mut e.pending)
            {
                request.note_acked();
            }
            return;
        }
        let Some(Pending::Sent(mut request)) = self.remove_request(id) else { return };
        // By the route of now, whatever that of the SYN said (`inet_csk_route_child_sock`).
        let path = self.path(Some(tuple.local_ip), tuple).ok();
        if let Some(path) = &path {
            request.follow_path(path.dst.mtu);
        }
        let conn = request.into_conn(&mut self.env.cx(self.now, Some(listener)), seg);
        let child = self.insert_conn(conn, path, Holder::Backlog);
        self.queue_child(listener, child);
        // A request asks nobody how far its last ACK has come (`tcp_v4_rcv`).
        seg.ttl = u8::MAX;
        self.conn_input(child, tuple, seg);
    }

    /// Puts a connection into its listener's backlog.
    pub(super) fn queue_child(&mut self, listener: SocketId, child: SocketId) {
        if let Some(entry) = self.sockets.get_mut(listener)
            && let Socket::Listener(l) = &mut entry.socket
        {
            l.accept.push_back(child);
            self.events.push_accepted(&mut entry.pending, listener);
        }
    }

    /// Adds a connection to the table and to the flows.
    pub(super) fn insert_conn(&mut self, mut conn: Conn, path: Option<Path>, holder: Holder) -> SocketId {
        let tuple = *conn.tuple();
        if let Some(link) = path.as_ref().and_then(|p| self.links.get(usize::from(p.dst.device.0))) {
            conn.stand_above(&link.path_caps());
        }
        if holder == Holder::Backlog {
            conn.inherit(&mut self.env.option_sets);
        }
        let id = self.sockets.insert(Entry::new(Socket::Tcp(Box::new(conn)), path, holder));
        self.env.memory.open();
        self.demux.flows.insert(&tuple, Flow::Conn(id));
        id
    }

    /// A segment for a connection, behind what those before it have let go where that makes a difference.
    pub(super) fn conn_input(&mut self, id: SocketId, tuple: &Tuple, seg: &mut Segment) {
        let Some(mut entry) = self.sockets.get_mut(id) else { return };
        let Socket::Tcp(conn) = &mut entry.socket else { return };
        if conn.drops_from_afar(tuple.is_v6(), seg.ttl) {
            return self.come_too_far();
        }
        // In TIME-WAIT nobody looks for a signature, as with the small object (`tcp_v4_rcv`).
        if let Some(signature) = seg.options.signed.filter(|_| conn.state() != State::TimeWait) {
            return self.signed(signature);
        }
        if conn.sends_before(seg) {
            self.send_now(id, Conn::output);
            let Some(same) = self.sockets.get_mut(id) else { return };
            entry = same;
        }
        let Socket::Tcp(conn) = &mut entry.socket else { return };
        // What answers our SYN, where SYNs have crossed too, finds the route of now (`tcp_init_transfer`: `inet_sk_rebuild_header`).
        if conn.is_answered_by(seg) {
            let metrics = self.ip.metrics(Some(tuple.local_ip), tuple.remote_ip);
            follow_metrics(conn, &mut self.env.option_sets, metrics);
        }
        let syn = (conn.state() == State::TimeWait && seg.has(TcpFlags::SYN)).then(|| seg.clone());
        let (heard, label, priority) = (conn.heard(), conn.label(), conn.options().queue_priority());
        let disposition = conn.input(&mut self.env.cx(self.now, Some(id)), seg);
        // What only shows that the peer can be heard says nothing of the way to it; what is acknowledged for the first time has
        // come there (RFC 4861 section 7.3.1; `tcp_ack`).
        if conn.heard() != heard
            && let Some(path) = &entry.path
        {
            self.ip.confirm_neighbour(&mut self.env.cx(self.now, Some(id)), &path.dst);
        }
        if let Disposition::Reopen { isn } = disposition
            && let Some(syn) = &syn
        {
            return self.reopen(id, tuple, syn, isn);
        }
        self.settle(id, Turn::INPUT);
        match disposition {
            Disposition::Done | Disposition::Reopen { .. } => {}
            // It is the connection's, though none of its own accord (`tcp_v4_send_reset`, `tcp_v6_send_reset`).
            Disposition::Reset(out) => {
                self.send_labelled(tuple, label, Outgoing { priority: out.priority.or(priority), ..out });
            }
            Disposition::Drop(why) => self.env.count.dropped(why),
            Disposition::ResetBehind { reset, error } => self.reset_behind(id, tuple, reset, error),
        }
    }

    /// A SYN that could follow a connection in TIME-WAIT that somebody still holds.
    fn reopen(&mut self, id: SocketId, tuple: &Tuple, syn: &Segment, isn: Seq) {
        let listens = self.demux.listener(tuple.local()).is_some();
        let Some(Socket::Tcp(conn)) = self.sockets.get_mut(id).map(|entry| &mut entry.socket) else { return };
        let cx = &mut self.env.cx(self.now, Some(id));
        if listens {
            conn.yield_flow(cx);
            self.settle(id, Turn::INPUT);
            self.segment_without_flow(tuple, syn, Some(isn));
        } else if let Some(out) = conn.last_ack(cx) {
            let label = conn.label();
            // As an old one would get (`tcp_v4_rcv`).
            self.send_labelled(tuple, label, out);
        }
    }

    /// A segment for a flow in TIME-WAIT.
    pub(super) fn time_wait_input(&mut self, id: TwId, tuple: &Tuple, seg: &Segment) {
        let Some(entry) = self.small.time_waits.get_mut(id) else { return };
        let mut cx = self.env.cx(self.now, None);
        let verdict = entry.time_wait.input(&mut cx, seg);
        let (deadline, label) = (entry.time_wait.deadline(), entry.time_wait.label());
        entry.timer.set(&mut cx, &mut self.wheel, TimerKey::TimeWait(id), Some(deadline));
        match verdict {
            TimeWaitVerdict::Drop(why) => cx.count.dropped(why),
            TimeWaitVerdict::Reply(out) => self.send_labelled(tuple, label, out),
            TimeWaitVerdict::Reset(out) => {
                self.remove_time_wait(id);
                self.send_labelled(tuple, label, out);
            }
            TimeWaitVerdict::Gone => self.remove_time_wait(id),
            // Without anybody who listens the SYN gets the last acknowledgement, as an old one would (`tcp_v4_rcv`).
            TimeWaitVerdict::Reopen { .. } if self.demux.listener(tuple.local()).is_none() => {
                let out = entry.time_wait.last_ack(&cx);
                self.send_labelled(tuple, label, out);
            }
            TimeWaitVerdict::Reopen { isn } => {
                self.remove_time_wait(id);
                self.segment_without_flow(tuple, seg, Some(isn));
            }
        }
    }

    pub(super) fn remove_time_wait(&mut self, id: TwId) {
        if let Some(mut entry) = self.small.time_waits.remove(id) {
            entry.timer.cancel(&mut self.wheel);
            self.demux.flows.remove(entry.time_wait.tuple(), Flow::TimeWait(id));
        }
    }
}
