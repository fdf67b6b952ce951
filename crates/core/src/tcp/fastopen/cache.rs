//! What clients remember of servers (RFC 7413 section 4.1.3; `tcp_fastopen_cache_get`), and when Fast Open rests because a path
//! seems to swallow it (`tcp_fastopen_active_disable`).
use super::{ClientFail, mode};
use crate::base::hash::{KeyedState, Map};
use crate::base::limits::FASTOPEN_SERVERS_MAX;
use crate::base::time::Instant;
use crate::base::{Cx, Tuple};
use core::net::IpAddr;
use lowwater_wire::tcp::FastOpenCookie;
use std::collections::VecDeque;

/// Largest exponent of the rest after repeated suspicions.
const PAUSE_DOUBLINGS_MAX: u32 = 6;

/// Our address and the server's.
type Pair = (IpAddr, IpAddr);

/// What is known of one server.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// MSS of its last SYN-ACK; 0 for none.
    mss: u16,
    cookie: Option<FastOpenCookie>,
    /// 1: the assigned option brought no cookie, try the experimental one. 2: neither did.
    try_exp: u8,
    /// SYNs with data that seem to have been lost in a row.
    syn_losses: u16,
}

/// What the answer to a SYN with the option taught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learnt {
    /// MSS of the SYN-ACK.
    pub mss: u16,
    /// Its cookie.
    pub cookie: Option<FastOpenCookie>,
    /// The SYN with data, or its answer, was lost.
    pub syn_lost: bool,
    /// The form that brought no cookie: 1 the assigned option, 2 the experimental one, 0 neither.
    pub try_exp: u8,
}

/// What the SYN of an active open may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SynPlan {
    /// The option.
    pub option: Option<FastOpenCookie>,
    /// Data may go along.
    pub data: bool,
    /// MSS that the server announced last; 0 when unknown.
    pub mss: u16,
    /// Why no data may.
    pub fail: ClientFail,
    /// Fast Open was suspended before: this connection shows whether it works again.
    pub trial: bool,
}

/// The memory of a stack's clients.
#[derive(Debug)]
pub struct Cache {
    servers: Map<Pair, Known>,
    /// In the order in which they were met; the oldest is forgotten first.
    order: VecDeque<Pair>,
    /// Suspicions in a row, and the last of them.
    suspicions: u32,
    last_suspicion: Instant,
}

impl Cache {
    /// Forgets all servers, as `ip tcp_metrics flush` does.
    pub fn clear(&mut self) {
        self.servers.clear();
        self.order.clear();
    }

    /// An empty memory whose table is keyed.
    #[must_use]
    pub const fn new(key: KeyedState) -> Self {
        let servers = Map::with_hasher(key);
        Self { servers, order: VecDeque::new(), suspicions: 0, last_suspicion: Instant::ZERO }
    }

    /// What the SYN of a flow may carry (`tcp_fastopen_cookie_check`). `no_cookie` is the socket's TCP_FASTOPEN_NO_COOKIE.
    #[must_use]
    pub fn plan(&self, cx: &Cx<'_>, tuple: &Tuple, no_cookie: bool) -> SynPlan {
        let known = self.servers.get(&(tuple.local_ip, tuple.remote_ip)).copied().unwrap_or_default();
        let plan = SynPlan { mss: known.mss, ..SynPlan::default() };
        if self.is_resting(cx) {
            return plan;
        }
        let plan = SynPlan {
            trial: cx.sysctl.tcp_fastopen_blackhole_timeout_sec > 0 && self.suspicions > 0,
            ..plan
        };
        if no_cookie || cx.sysctl.tcp_fastopen & mode::CLIENT_NO_COOKIE != 0 {
            return SynPlan { data: true, ..plan };
        }
        match known.cookie {
            Some(_) => SynPlan { option: known.cookie, data: true, ..plan },
            None => SynPlan {
                option: Some(FastOpenCookie::REQUEST.with_experimental(known.try_exp == 1)),
                fail: ClientFail::CookieUnavailable,
                ..plan
            },
        }
    }

    /// Remembers an answer (`tcp_fastopen_cache_set`).
    pub fn learn(&mut self, tuple: &Tuple, learnt: &Learnt) {
        let pair = (tuple.local_ip, tuple.remote_ip);
        if !self.servers.contains_key(&pair) {
            if self.order.len() >= FASTOPEN_SERVERS_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.servers.remove(&oldest);
            }
            self.order.push_back(pair);
        }
        let known = self.servers.entry(pair).or_default();
        if learnt.mss != 0 {
            known.mss = learnt.mss;
        }
        if let Some(cookie) = learnt.cookie.filter(|c| !c.is_empty()) {
            known.cookie = Some(cookie);
        } else if learnt.try_exp > known.try_exp && known.cookie.is_none() {
            known.try_exp = learnt.try_exp;
        }
        known.syn_losses = if learnt.syn_lost { known.syn_losses.saturating_add(1) } else { 0 };
    }

    /// A path swallowed a connection with Fast Open.
    pub fn suspect(&mut self, cx: &mut Cx<'_>) {
        if cx.sysctl.tcp_fastopen_blackhole_timeout_sec == 0 {
            return;
        }
        self.suspicions = self.suspicions.saturating_add(1);
        self.last_suspicion = cx.now;
        cx.count.tcp_ext.tcp_fast_open_blackhole += 1;
    }

    /// A connection got data after a suspicion: it is withdrawn.
    pub const fn trust(&mut self) {
        self.suspicions = 0;
    }

    /// Servers remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// True when nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    fn is_resting(&self, cx: &Cx<'_>) -> bool {
        let seconds = u64::from(cx.sysctl.tcp_fastopen_blackhole_timeout_sec);
        let Some(doublings) = self.suspicions.checked_sub(1).filter(|_| seconds > 0) else { return false };
        let pause = (seconds * 1_000_000_000).saturating_mul(1 << doublings.min(PAUSE_DOUBLINGS_MAX));
        cx.now < self.last_suspicion.plus_nanos(pause)
    }
}
