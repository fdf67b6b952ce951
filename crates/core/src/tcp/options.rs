//! What an application may set on a TCP socket, under Linux's option names.
use super::negotiated::EcnMode;
use super::segment::Whole;
use crate::base::sysctl::CongestionKind;
use crate::base::time::Duration;
use crate::base::{FastOpenKeys, RouteMetrics, Sysctl};
use crate::path::congestion::Window;
use crate::path::rtt::RtoBounds;
use std::sync::Arc;

/// Longest timeout, in seconds (`TCP_RTO_MAX`).
const RTO_MAX_SECS: u32 = 120;
/// Sets of options that a stack remembers for sharing.
const SETS: usize = 8;

/// Socket options. Inherited by the connections that a listener accepts. The core takes them as they are; bounds named here are those of
/// setsockopt(), which the crate `lowwater` keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// TCP_NODELAY: no Nagle.
    pub nodelay: bool,
    /// TCP_CORK: hold partial segments, 200 ms at the most.
    pub cork: bool,
    /// SO_KEEPALIVE.
    pub keepalive: bool,
    /// TCP_KEEPIDLE in seconds, 32,767 at most; 0 takes tcp_keepalive_time.
    pub keepidle: u32,
    /// TCP_KEEPINTVL in seconds, 32,767 at most; 0 takes tcp_keepalive_intvl.
    pub keepintvl: u32,
    /// TCP_KEEPCNT, 127 at most; 0 takes tcp_keepalive_probes.
    pub keepcnt: u32,
    /// TCP_THIN_LINEAR_TIMEOUTS: timeouts of thin streams do not double at first.
    pub thin_linear_timeouts: bool,
    /// SO_OOBINLINE: urgent data stays in the stream.
    pub oobinline: bool,
    /// SO_LINGER, 2^31 - 1 seconds at most.
    pub linger: Option<Duration>,
    /// TCP_LINGER2 in seconds, 120 at most: time in FIN-WAIT-2 without an owner; 0 takes tcp_fin_timeout, negative none.
    pub linger2: i32,
    /// TCP_USER_TIMEOUT in milliseconds, 2^31 - 1 at most; 0 takes tcp_retries2.
    pub user_timeout_ms: u32,
    /// TCP_NOTSENT_LOWAT in bytes; 0 takes tcp_notsent_lowat, `u32::MAX` is no limit.
    pub notsent_lowat: u32,
    /// SO_SNDBUF as read back (twice what was asked for), 4,608 at least; `None` autotunes.
    pub sndbuf: Option<u32>,
    /// SO_RCVBUF as read back (twice what was asked for), 2,304 at least; `None` autotunes.
    pub rcvbuf: Option<u32>,
    /// SO_MAX_PACING_RATE in bytes per second, 1 at least; `u64::MAX` for none.
    pub max_pacing_rate: u64,
    /// Paced at its own rate, too, where there is no bound: as a socket stays that once had one (`sk_pacing_status`).
    pub paced: bool,
    /// TCP_MAXSEG, 88 to 32,767; 0 takes the path's.
    pub maxseg: u16,
    /// TCP_SYNCNT, 127 at most; 0 takes tcp_syn_retries.
    pub syncnt: u8,
    /// TCP_WINDOW_CLAMP in bytes, 1,152 at least; 0 for none.
    pub window_clamp: u32,
    /// TCP_FASTOPEN of a listener: connections that may be accepted with their SYN and wait for its last ACK; 0 for none.
    pub fastopen: u32,
    /// TCP_FASTOPEN_KEY of a listener; `None` takes tcp_fastopen_key.
    pub fastopen_key: Option<FastOpenKeys>,
    /// TCP_FASTOPEN_CONNECT: connect sends nothing while a cookie is known; the first write goes with the SYN.
    pub fastopen_connect: bool,
    /// TCP_FASTOPEN_NO_COOKIE, for both roles.
    pub fastopen_no_cookie: bool,
    /// TCP_DEFER_ACCEPT in timeouts of the SYN-ACK ([`secs_to_retrans`]); 0 for none.
    pub defer_accept: u8,
    /// TCP_SAVE_SYN of a listener: its connections keep the headers of their SYN until somebody has read them.
    pub save_syn: bool,
    /// TCP_RTO_MIN_US, 1,001 to 200,000; what tcp_rto_min_us said when the socket was made, until it is set. 0 follows the sysctl.
    pub rto_min_us: u32,
    /// TCP_RTO_MAX_MS, 1,000 to 120,000; what tcp_rto_max_ms said when the socket was made, until it is set. 0 follows the sysctl.
    pub rto_max_ms: u32,
    /// TCP_DELACK_MAX_US, 1,001 to 200,000; 0 takes tcp_delack_max_us.
    pub delack_max_us: u32,
    /// TCP_QUICKACK switched off before there is a connection: its acknowledgements wait from the start for an answer to ride on.
    pub interactive: bool,
    /// TCP_CONGESTION.
    pub congestion: CongestionKind,
    /// Bytes with which a receive buffer begins that autotunes: tcp_rmem when the socket was made.
    pub rmem: u32,
    /// Bytes with which a send buffer begins that autotunes: tcp_wmem when the socket was made.
    pub wmem: u32,
    /// Segments out of order before loss is assumed, at the start: tcp_reordering when the socket was made.
    pub reordering: u32,
    /// SO_RCVLOWAT, half of the receive buffer at most; 0 counts as 1.
    pub rcvlowat: u32,
    /// Receive buffer that low-water marks have asked for so far, in bytes (`tcp_set_rcvlowat`).
    pub rcvlowat_room: u32,
    /// Payload that 256 bytes of receive buffer hold, as an earlier connection of the socket found it; 0 takes tcp_adv_win_scale.
    pub rcv_ratio: u8,
    /// IP_TOS without the ECN bits: what packets of IPv4 carry.
    pub tos: u8,
    /// IPV6_TCLASS without the ECN bits: what packets of IPv6 carry.
    pub tclass: u8,
    /// IP_MTU_DISCOVER by Linux's number: 0 dont, 1 want, 2 do, 3 probe, 4 interface, 5 omit.
    pub mtu_discover: u8,
    /// IPV6_MTU_DISCOVER, by the same numbers.
    pub mtu_discover_v6: u8,
    /// IP_RECVERR and IPV6_RECVERR: what ICMP says of packets of that family ends the next call, also where the connection goes on.
    pub recverr: [bool; 2],
    /// IP_TTL; 0 takes ip_default_ttl.
    pub ttl: u8,
    /// IPV6_UNICAST_HOPS; `None` takes 64, and 0 is 0, as Linux has it.
    pub hops: Option<u8>,
    /// IP_MINTTL and IPV6_MINHOPCOUNT: what comes with less is dropped (RFC 5082); 0 drops nothing.
    pub min_ttl: [u8; 2],
    /// SO_PRIORITY, of which queues look at the last four bits; `None` leaves it to the type of service.
    pub priority: Option<u32>,
    /// What the route asks of a connection; the stack sets it, whatever is given here.
    pub route: RouteMetrics,
}

impl SocketOptions {
    /// The options of a new socket of a stack with these settings: what these say now stays with it, and with what it accepts
    /// (`tcp_init_sock`).
    #[must_use]
    pub const fn new(sysctl: &Sysctl) -> Self {
        Self {
            nodelay: false,
            cork: false,
            keepalive: false,
            keepidle: 0,
            keepintvl: 0,
            keepcnt: 0,
            thin_linear_timeouts: false,
            oobinline: false,
            linger: None,
            linger2: 0,
            user_timeout_ms: 0,
            notsent_lowat: 0,
            sndbuf: None,
            rcvbuf: None,
            max_pacing_rate: u64::MAX,
            paced: false,
            maxseg: 0,
            syncnt: 0,
            window_clamp: 0,
            fastopen: 0,
            fastopen_key: None,
            fastopen_connect: false,
            fastopen_no_cookie: false,
            defer_accept: 0,
            save_syn: false,
            rto_min_us: sysctl.tcp_rto_min_us,
            rto_max_ms: sysctl.tcp_rto_max_ms,
            delack_max_us: 0,
            interactive: false,
            congestion: sysctl.tcp_congestion_control,
            rmem: sysctl.tcp_rmem.default,
            wmem: sysctl.tcp_wmem.default,
            reordering: sysctl.tcp_reordering,
            rcvlowat: 0,
            rcvlowat_room: 0,
            rcv_ratio: 0,
            tos: 0,
            priority: None,
            tclass: 0,
            mtu_discover: if sysctl.ip_no_pmtu_disc == 0 { 1 } else { 0 },
            mtu_discover_v6: 1,
            recverr: [false; 2],
            ttl: 0,
            hops: None,
            min_ttl: [0; 2],
            route: RouteMetrics::NONE,
        }
    }

    /// These options on a route that asks for this; the controller that it names takes the place of the socket's (`tcp_ca_dst_init`).
    #[must_use]
    pub fn over(&self, route: RouteMetrics) -> Self {
        Self { route, congestion: route.congestion.unwrap_or(self.congestion), ..self.clone() }
    }

    /// Bounds of the retransmission timeout (`tcp_rto_min`).
    pub(super) const fn rto_bounds(&self) -> RtoBounds {
        let min_us = if self.route.rto_min_us != 0 { self.route.rto_min_us } else { self.rto_min_us };
        RtoBounds::new(min_us, self.rto_max_ms)
    }

    /// The window that a connection begins with and comes back to, in segments (`tcp_init_cwnd`).
    pub(super) const fn initial_cwnd(&self) -> u32 {
        if self.route.initcwnd != 0 { self.route.initcwnd } else { Window::INITIAL }
    }

    /// Fast Open needs no cookie (`tcp_fastopen_no_cookie`).
    #[must_use]
    pub const fn no_cookie(&self) -> bool {
        self.fastopen_no_cookie || self.route.fastopen_no_cookie
    }

    /// ECN is granted to who asks (`tcp_ecn_create_request`).
    pub(super) const fn grants_ecn(&self, sysctl: &Sysctl) -> bool {
        sysctl.tcp_ecn != 0 || self.route.ecn
    }

    /// Accurate ECN is (RFC 9768 section 3.1.2).
    pub(super) const fn grants_accurate_ecn(sysctl: &Sysctl) -> bool {
        sysctl.tcp_ecn >= 3
    }

    /// ECN is asked for (`tcp_ecn_send_syn`).
    pub(super) const fn asks_for_ecn(&self, sysctl: &Sysctl) -> EcnMode {
        match sysctl.tcp_ecn {
            3 => EcnMode::Accurate,
            1 | 4 => EcnMode::Classic,
            _ if self.route.ecn => EcnMode::Classic,
            _ => EcnMode::Off,
        }
    }

    /// What routers say about the path's MTU counts so far (`tcp_v4_mtu_reduced`, `tcp_v6_mtu_reduced`).
    #[must_use]
    pub const fn pmtu_belief(&self, v6: bool) -> PmtuBelief {
        match if v6 { (self.mtu_discover_v6, v6) } else { (self.mtu_discover, v6) } {
            (1..=3, _) | (0, true) => PmtuBelief::Full,
            (_, false) => PmtuBelief::Route,
            (_, true) => PmtuBelief::None,
        }
    }

    /// The application wants to hear what ICMP says of this family (`inet_test_bit(RECVERR)`, `inet6_test_bit(RECVERR6)`).
    #[must_use]
    pub const fn hears_icmp(&self, v6: bool) -> bool {
        self.recverr[v6 as usize]
    }

    /// Who keeps routers of IPv4 from cutting packets up (`ip_dont_fragment`).
    #[must_use]
    pub const fn whole(&self) -> Whole {
        match self.mtu_discover {
            1 => Whole::WherePathAllows,
            2 => Whole::Always,
            _ => Whole::Never,
        }
    }

    /// What packets of this family carry: TOS or traffic class, TTL or hop limit, 0 for the default.
    #[must_use]
    pub const fn marks(&self, v6: bool) -> (u8, u8) {
        let ttl = match self.ttl_of(v6) {
            Some(ttl) => ttl,
            None => 0,
        };
        (self.tos_of(v6), ttl)
    }

    /// What queues look at of the priority (`TC_PRIO_MAX`).
    #[must_use]
    pub fn queue_priority(&self) -> Option<u8> {
        self.priority.map(|priority| (priority & 15) as u8)
    }

    /// Type of service or traffic class of the family.
    #[must_use]
    pub const fn tos_of(&self, v6: bool) -> u8 {
        if v6 { self.tclass } else { self.tos }
    }

    /// Time to live or hop limit of the family, where it was set.
    #[must_use]
    pub const fn ttl_of(&self, v6: bool) -> Option<u8> {
        match (v6, self.hops, self.ttl) {
            (true, own, _) => own,
            (false, _, 0) => None,
            (false, _, own) => Some(own),
        }
    }

    /// A packet of this family with this TTL or hop limit has come too far.
    #[must_use]
    pub const fn too_far(&self, v6: bool, ttl: u8) -> bool {
        ttl < self.min_ttl[v6 as usize]
    }

    /// The same options with another type of service or traffic class.
    #[must_use]
    pub fn with_tos(&self, v6: bool, tos: u8) -> Self {
        if v6 { Self { tclass: tos, ..self.clone() } } else { Self { tos, ..self.clone() } }
    }
}

/// What a socket makes of a router's word that packets were too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmtuBelief {
    /// The route learns of it, and what was too long is sent again at once.
    Full,
    /// The route learns of it, so what the socket sends later is shorter; what is in flight stays.
    Route,
    /// Nothing.
    None,
}

/// Timeouts of a SYN-ACK, doubling from one second to two minutes, that last at least as long (`secs_to_retrans`): how
/// TCP_DEFER_ACCEPT keeps its seconds.
#[must_use]
pub const fn secs_to_retrans(seconds: u32) -> u8 {
    let (mut retries, mut period, mut timeout) = (0, 0_u32, 1_u32);
    while period < seconds && retries < u8::MAX {
        period = period.saturating_add(timeout);
        retries += 1;
        timeout = if timeout * 2 > RTO_MAX_SECS { RTO_MAX_SECS } else { timeout * 2 };
    }
    retries
}

/// How many seconds so many timeouts last (`retrans_to_secs`): what TCP_DEFER_ACCEPT reads back.
#[must_use]
pub const fn retrans_to_secs(retries: u8) -> u32 {
    let (mut n, mut period, mut timeout) = (0, 0, 1);
    while n < retries {
        period += timeout;
        n += 1;
        timeout = if timeout * 2 > RTO_MAX_SECS { RTO_MAX_SECS } else { timeout * 2 };
    }
    period
}

/// The sets of options that were used last. A socket with a set like one of these shares it, so that options cost a connection
/// one word, however many there are.
#[derive(Debug, Default)]
pub struct OptionSets {
    recent: [Option<Arc<SocketOptions>>; SETS],
    /// Where the next one goes that is not among them.
    next: usize,
}

impl OptionSets {
    /// These options, shared with whoever has the same.
    pub fn share(&mut self, options: &SocketOptions) -> Arc<SocketOptions> {
        if let Some(known) = self.recent.iter().flatten().find(|known| ***known == *options) {
            return known.clone();
        }
        let new = Arc::new(options.clone());
        self.recent[self.next] = Some(new.clone());
        self.next = (self.next + 1) % SETS;
        new
    }

    /// The same options over a route that asks for `route`.
    pub fn over(&mut self, options: &Arc<SocketOptions>, route: RouteMetrics) -> Arc<SocketOptions> {
        if options.route == route { options.clone() } else { self.share(&options.over(route)) }
    }

    /// The options of a listener's child: without a priority of its own (`sk_clone_lock`), nor TCP_DEFER_ACCEPT (`inet_csk_clone_lock`).
    pub fn of_child(&mut self, options: &Arc<SocketOptions>) -> Arc<SocketOptions> {
        let priority = options.priority.map(|_| 0);
        if options.priority == priority && options.defer_accept == 0 {
            return options.clone();
        }
        self.share(&SocketOptions { priority, defer_accept: 0, ..(**options).clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_has_marks_and_a_belief_of_its_own() {
        let plain = SocketOptions::new(&Sysctl { ip_no_pmtu_disc: 1, ..Sysctl::default() });
        assert_eq!((plain.mtu_discover, plain.mtu_discover_v6), (0, 1), "the setting is IPv4's");
        assert_eq!((plain.ttl_of(false), plain.ttl_of(true), plain.tos_of(true)), (None, None, 0));
        let o = SocketOptions { tos: 4, tclass: 8, ttl: 9, hops: Some(0), mtu_discover_v6: 4, ..plain };
        assert_eq!([false, true].map(|v6| (o.tos_of(v6), o.ttl_of(v6))), [(4, Some(9)), (8, Some(0))]);
        assert_eq!((o.pmtu_belief(false), o.pmtu_belief(true)), (PmtuBelief::Route, PmtuBelief::None));
        let far = SocketOptions { min_ttl: [255, 9], ..o };
        assert_eq!(
            [254, 255].map(|ttl| (o.too_far(false, ttl), far.too_far(false, ttl))),
            [(false, true), (false, false)]
        );
        assert_eq!([8, 9].map(|ttl| far.too_far(true, ttl)), [true, false]);
        let (four, six) = (o.with_tos(false, 12), o.with_tos(true, 12));
        assert_eq!((four.tos, four.tclass, six.tos, six.tclass), (12, 8, 4, 12));
    }

    #[test]
    fn what_the_route_asks_for_counts_where_the_socket_leaves_it() {
        let sysctl = Sysctl { tcp_ecn: 0, ..Sysctl::default() };
        let plain = SocketOptions::new(&sysctl);
        let route =
            "initcwnd 20 rto_min 50ms congctl reno features ecn fastopen_no_cookie 1 hoplimit 9".parse();
        let over = plain.over(route.expect("words"));
        let seen = |o: &SocketOptions| {
            (o.initial_cwnd(), o.no_cookie(), o.grants_ecn(&sysctl), o.asks_for_ecn(&sysctl).capable())
        };
        assert_eq!([seen(&plain), seen(&over)], [(10, false, false, false), (20, true, true, true)]);
        assert_eq!((plain.congestion, over.congestion), (CongestionKind::Cubic, CongestionKind::Reno));
        assert_eq!(
            [false, true].map(|v6| over.ttl_of(v6)),
            [None; 2],
            "where a packet leaves the route is asked anew"
        );
        let own = SocketOptions { ttl: 33, hops: Some(44), rto_min_us: 90_000, ..over };
        assert_eq!([false, true].map(|v6| own.ttl_of(v6)), [Some(33), Some(44)]);
        assert_eq!(
            format!("{:?}", own.rto_bounds()),
            format!("{:?}", over.rto_bounds()),
            "the route's is first"
        );
        assert_ne!(format!("{:?}", plain.rto_bounds()), format!("{:?}", over.rto_bounds()));
    }

    #[test]
    fn equal_options_are_one_object_and_others_are_not() {
        let (mut sets, plain) = (OptionSets::default(), SocketOptions::new(&Sysctl::default()));
        let nodelay = SocketOptions { nodelay: true, ..plain.clone() };
        let (a, b) = (sets.share(&plain), sets.share(&nodelay));
        assert!(Arc::ptr_eq(&a, &sets.share(&plain)) && Arc::ptr_eq(&b, &sets.share(&nodelay)));
        assert_eq!((&*a, &*b), (&plain, &nodelay));
        // A set that was pushed out lives on with its sockets; who comes later gets one that is equal.
        for ttl in 1..=SETS as u8 {
            sets.share(&SocketOptions { ttl, ..plain.clone() });
        }
        let again = sets.share(&plain);
        assert!(!Arc::ptr_eq(&a, &again) && a == again);
    }

    #[test]
    fn children_of_a_listener_with_a_priority_share_what_it_leaves_them() {
        let (mut sets, plain) = (OptionSets::default(), SocketOptions::new(&Sysctl::default()));
        let listener = sets.share(&SocketOptions { priority: Some(6), tos: 16, ..plain.clone() });
        let (a, b) = (sets.of_child(&listener), sets.of_child(&listener));
        assert_eq!(*a, SocketOptions { priority: Some(0), tos: 16, ..plain.clone() });
        assert!(Arc::ptr_eq(&a, &b) && Arc::ptr_eq(&a, &sets.of_child(&a)));
        let plain = sets.share(&plain);
        assert!(Arc::ptr_eq(&plain, &sets.of_child(&plain)), "one without stays as it is");
    }
}
