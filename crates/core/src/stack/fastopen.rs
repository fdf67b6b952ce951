//! TCP Fast Open between sockets: cookies, connections that begin with their SYN, and what clients learn (RFC 7413).
use super::Stack;
use crate::base::fastopen_keys::KEY_BYTES;
use crate::base::hash::KeyedState;
use crate::base::{Error, FastOpenKeys, Instant, Rng, SocketId, Tuple};
use crate::socket::{Entry, Holder, Socket, Turn};
use crate::tcp::fastopen::{Cache, Grant, News, mode, server};
use crate::tcp::{Conn, Request, Segment, SocketOptions, State};
use core::net::SocketAddr;

/// What a stack keeps for Fast Open.
#[derive(Debug)]
pub(super) struct FastOpenHost {
    /// Keys while `tcp_fastopen_key` gives none.
    pub(super) drawn: FastOpenKeys,
    /// What clients remember.
    pub(super) cache: Cache,
}

impl FastOpenHost {
    pub(super) fn new(rng: &Rng) -> Self {
        let mut rng = rng.fork("fastopen");
        let mut primary = [0; KEY_BYTES];
        for half in primary.as_chunks_mut::<8>().0 {
            *half = rng.next_u64().to_le_bytes();
        }
        let cache = Cache::new(KeyedState::new(rng.next_u64(), rng.next_u64()));
        Self { drawn: FastOpenKeys { primary, backup: None }, cache }
    }
}

impl Stack {
    /// Forgets what connections have taught about servers: cookies of Fast Open, and which seem to drop it (`ip tcp_metrics flush`).
    pub fn forget_servers(&mut self) {
        self.openers.fastopen.cache.clear();
    }

    /// Opens a connection as [`Stack::tcp_connect`] does, with the front of `data` in its SYN where a cookie is known, or none is
    /// needed (MSG_FASTOPEN): the socket, and how much of `data` went along. Without a cookie the SYN asks for one and takes
    /// nothing; the rest can be sent when the connection is there.
    ///
    /// # Errors
    /// Those of [`Stack::tcp_connect`]; [`Error::Unsupported`] unless `tcp_fastopen` has bit 1.
    pub fn tcp_connect_with_data(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        options: &SocketOptions,
        data: &[u8],
    ) -> Result<(SocketId, usize), Error> {
        self.enter(now);
        self.check_events()?;
        if self.env.sysctl.tcp_fastopen & mode::CLIENT == 0 {
            return Err(Error::Unsupported);
        }
        let (setup, path, old) = self.prepare_connect(remote, local, options)?;
        let cx = self.env.cx(self.now, None);
        let plan = self.openers.fastopen.cache.plan(&cx, &setup.tuple, setup.options.no_cookie());
        let mut conn = Conn::connect_fast(&mut self.env.cx(self.now, None), setup, &plan, false);
        conn.follow(&self.env.sysctl, old.as_ref());
        let taken = conn.send_with_syn(&mut self.env.cx(self.now, None), data).unwrap_or(0);
        let id = self.insert_conn(conn, Some(path), Holder::Owner);
        self.settle(id, Turn::APP);
        Ok((id, taken))
    }

    /// The first write behind a deferred connect() is about to send its SYN: by the route of now, whose MTU bounds the data that goes along.
    /// Without a route the connection is over, which no counter tells (`tcp_connect`, `inet_sk_rebuild_header`).
    ///
    /// # Errors
    /// [`Error::Aborted`] without a route; why is the connection's soft error.
    pub(super) fn route_deferred(&mut self, id: SocketId) -> Result<(), Error> {
        let waits = |conn: &Conn| conn.is_deferred() && conn.state() == State::SynSent;
        match self.sockets.get(id) {
            Some(Entry { socket: Socket::Tcp(conn), holder: Holder::Owner, .. }) if waits(conn) => {}
            _ => return Ok(()),
        }
        let Err(error) = self.refresh_path(id) else { return Ok(()) };
        if let Some(Socket::Tcp(conn)) = self.sockets.get_mut(id).map(|entry| &mut entry.socket) {
            conn.set_soft_error(error);
            conn.end_deferred(&mut self.env.cx(self.now, Some(id)));
        }
        self.settle(id, Turn::APP);
        Err(Error::Aborted)
    }

    /// A call waits for this connection with more to write, so that the last ACK of the handshake may wait for it too; or it has given up.
    ///
    /// # Errors
    /// [`Error::NoSuchSocket`]; [`Error::Unsupported`] on anything but a connection.
    pub fn tcp_expect_write(&mut self, now: Instant, id: SocketId, expect: bool) -> Result<(), Error> {
        self.with_conn(now, id, |conn, _| {
            conn.expect_write(expect);
            Ok(())
        })
    }

    /// What the listener does with a SYN that is about to be answered.
    pub(super) fn fast_open_grant(&mut self, listener: SocketId, tuple: &Tuple, syn: &Segment) -> Grant {
        let drawn = self.openers.fastopen.drawn;
        let metrics = self.ip.metrics(Some(tuple.local_ip), tuple.remote_ip);
        let Some(Socket::Listener(l)) = self.sockets.get_mut(listener).map(|e| &mut e.socket) else {
            return Grant::default();
        };
        let options = &l.options.options;
        let keys = options.fastopen_key.or(self.env.sysctl.tcp_fastopen_key).unwrap_or(drawn);
        let no_cookie = options.fastopen_no_cookie || metrics.fastopen_no_cookie;
        let mut cx = self.env.cx(self.now, Some(listener));
        server::judge(&mut cx, tuple, &keys, no_cookie, &mut l.fastopen, syn)
    }

    /// The connection begins with its SYN, and waits in the backlog like one whose handshake is complete.
    pub(super) fn spawn_fast(
        &mut self,
        listener: SocketId,
        mut request: Request,
        syn: &Segment,
        grant: &Grant,
    ) {
        request.accept_data(syn);
        let tuple = *request.tuple();
        let mut cx = self.env.cx(self.now, Some(listener));
        let syn_ack = request.syn_ack(&mut cx, grant.cookie);
        let conn = Conn::open_fast(&mut cx, request, listener, syn);
        let path = self.path(Some(tuple.local_ip), &tuple).ok();
        let child = self.insert_conn(conn, path, Holder::Backlog);
        if let Some(l) = self.listener(listener) {
            l.fastopen.enter();
        }
        self.queue_child(listener, child);
        self.send_control(&tuple, syn_ack);
        self.settle(child, Turn::INPUT);
    }

    /// Does what a connection has to say.
    pub(super) fn hear(&mut self, tuple: &Tuple, holder: Holder, news: &News) {
        let mut cx = self.env.cx(self.now, None);
        match news {
            News::Learnt(learnt) => self.openers.fastopen.cache.learn(tuple, learnt),
            News::Blackhole => self.openers.fastopen.cache.suspect(&mut cx),
            News::Proven => self.openers.fastopen.cache.trust(),
            News::Released { listener, reset } => {
                if let Some(Socket::Listener(l)) = self.sockets.get_mut(*listener).map(|e| &mut e.socket) {
                    l.fastopen.leave(self.now, *reset && holder != Holder::Backlog);
                }
            }
        }
    }
}
