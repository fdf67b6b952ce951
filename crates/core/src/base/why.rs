//! Every reason for silence and every reason for a drop, as values with a counter each.

/// Why a flow that was asked to send did not: the answer to "why is it not sending?".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Wait {
    /// Nothing left to send.
    Empty,
    /// The handshake is not far enough to send data, or the peer has not answered what we have asked about a stream (RE-CONFIG).
    Handshake,
    /// The congestion window is full.
    Cwnd,
    /// The peer's receive window is full.
    RecvWindow,
    /// Nagle's algorithm holds a small segment back (RFC 9293 section 3.7.4, Minshall's form).
    Nagle,
    /// The application corked the socket or said more data follows (TCP_CORK, MSG_MORE).
    Cork,
    /// A larger super-packet will be possible soon (`tcp_tso_should_defer`).
    Defer,
    /// Enough of this flow is already below the transport (TCP small queues).
    Credit,
    /// The flow's own queue holds what it passes on in a millisecond (`tcp_queue_aware`).
    QueueAware,
    /// A small write waits for more while something of this flow is below the transport (`tcp_should_autocork`).
    Autocork,
    /// A probe of the path's MTU needs room in the windows first (`tcp_mtu_probe`).
    MtuProbe,
    /// The pacer's departure time has not come.
    Pacing,
    /// The packet that would be retransmitted still waits below us.
    HostQueue,
    /// No route, or the path's device is gone.
    NoPath,
    /// The queue below had no room for the last packet, which is unsent again (`tcp_transmit_skb`).
    Refused,
}

/// Number of [`Wait`] reasons.
pub const WAIT_REASONS: usize = 15;

impl Wait {
    /// All reasons in the order of their discriminants.
    pub const ALL: [Self; WAIT_REASONS] = [
        Self::Empty,
        Self::Handshake,
        Self::Cwnd,
        Self::RecvWindow,
        Self::Nagle,
        Self::Cork,
        Self::Defer,
        Self::Credit,
        Self::QueueAware,
        Self::Autocork,
        Self::MtuProbe,
        Self::Pacing,
        Self::HostQueue,
        Self::NoPath,
        Self::Refused,
    ];

    /// The reason's name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Handshake => "handshake",
            Self::Cwnd => "cwnd",
            Self::RecvWindow => "recv_window",
            Self::Nagle => "nagle",
            Self::Cork => "cork",
            Self::Defer => "defer",
            Self::Credit => "credit",
            Self::QueueAware => "queue_aware",
            Self::Autocork => "autocork",
            Self::MtuProbe => "mtu_probe",
            Self::Pacing => "pacing",
            Self::HostQueue => "host_queue",
            Self::NoPath => "no_path",
            Self::Refused => "refused",
        }
    }
}

macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Why a packet was dropped. One enum for the whole stack; each reason has a counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DropWhy { $($(#[$doc])* $variant,)* }

        impl DropWhy {
            /// All reasons in the order of their discriminants.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// The reason's name in reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
        /// Number of [`DropWhy`] reasons.
        pub const DROP_REASONS: usize = DropWhy::ALL.len();
    };
}

drop_reasons! {
    /// Shorter than its headers say, or a header field that cannot be.
    Malformed = "malformed",
    /// A checksum does not match.
    Checksum = "checksum",
    /// Not addressed to this stack.
    NotForUs = "not_for_us",
    /// A link-layer protocol that the stack does not speak.
    EtherType = "ether_type",
    /// An IP protocol that the stack does not speak.
    Protocol = "protocol",
    /// An unknown IPv6 option or extension header demanded the drop (RFC 8200 section 4.2).
    ExtensionHeader = "extension_header",
    /// A source address that no packet may carry (multicast, broadcast, unspecified, loopback from outside).
    BadSource = "bad_source",
    /// No socket for this flow.
    NoSocket = "no_socket",
    /// A fragment overlapped another one, or ended beyond 65,535 bytes (RFC 5722, RFC 1858).
    BadFragment = "bad_fragment",
    /// The reassembly memory is full.
    ReassemblyFull = "reassembly_full",
    /// The reassembly timer ran out.
    ReassemblyTimeout = "reassembly_timeout",
    /// No route for an outgoing packet.
    NoRoute = "no_route",
    /// The packet is too big for the path and may not be fragmented.
    TooBig = "too_big",
    /// The neighbour's link address could not be found.
    Neighbour = "neighbour",
    /// Too many packets wait for a neighbour's link address: the oldest went (Linux: `unres_discards`).
    NeighbourQueue = "neighbour_queue",
    /// It waited for a neighbour that another one has pushed out of the full table (Linux: `table_fulls`).
    NeighbourTable = "neighbour_table",
    /// A queue below the transport was full.
    QueueFull = "queue_full",
    /// A queueing discipline gave up a packet that it had taken: congestion on purpose.
    Aqm = "aqm",
    /// Lost on a network that a queueing discipline emulates (netem).
    Emulated = "emulated",
    /// The device refused the packet for good.
    Device = "device",
    /// An ICMP error about a flow or a sequence number that is not ours (RFC 5927 section 4).
    IcmpForeign = "icmp_foreign",
    /// An ICMP message of a kind that the stack ignores.
    IcmpIgnored = "icmp_ignored",
    /// Rate limit on what we send in answer.
    RateLimited = "rate_limited",
    /// A TCP segment outside the window (RFC 9293 section 3.10.7.4, first step).
    TcpOutOfWindow = "tcp_out_of_window",
    /// PAWS: the timestamp is older than the last one (RFC 7323 section 5).
    TcpPaws = "tcp_paws",
    /// Flags that fit no legal segment in this state.
    TcpFlags = "tcp_flags",
    /// An acknowledgement for something never sent, or far too old (RFC 5961 section 5).
    TcpBadAck = "tcp_bad_ack",
    /// A segment with a signature, which nobody here has a key for (RFC 2385, RFC 5925).
    TcpSigned = "tcp_signed",
    /// It has come further than the socket allows by IP_MINTTL or IPV6_MINHOPCOUNT (RFC 5082).
    TcpMinTtl = "tcp_min_ttl",
    /// Data after the application closed for receiving.
    TcpClosed = "tcp_closed",
    /// The accept backlog or the SYN queue is full.
    ListenOverflow = "listen_overflow",
    /// A listener's filter said "drop".
    ListenFilter = "listen_filter",
    /// An SCTP packet whose verification tag fits no rule (RFC 9260 section 8.5).
    SctpTag = "sctp_tag",
    /// A cookie that is not ours, or a handshake that is over (RFC 9260 section 5.2.4).
    SctpCookie = "sctp_cookie",
    /// An SCTP packet that belongs to no association (RFC 9260 section 8.4).
    SctpBlue = "sctp_out_of_blue",
    /// The receive buffer is full.
    ReceiveBufferFull = "receive_buffer_full",
}
