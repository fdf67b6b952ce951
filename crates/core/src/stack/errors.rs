//! ICMP errors: from the packet that they embed to the flow that sent it.
use super::Stack;
use super::demux::Flow;
use crate::base::limits::MIN_PMTU_V6;
use crate::base::{DropWhy, Error, SocketId, Tuple};
use crate::ip::{IcmpError, IcmpKind, IcmpMessage, Unreachable};
use crate::socket::{Holder, IcmpHeard, Pending, RequestId, Socket, Turn};
use crate::tcp::{Heard, Notice, Seq};
use crate::udp::MtuDiscovery;
use lowwater_wire::protocol;

/// What the application hears (RFC 1122 section 4.2.3.9 and RFC 4443 section 3, by Linux's table `icmp_err_convert`).
const fn error_of(kind: IcmpKind, v6: bool) -> Error {
    match kind {
        IcmpKind::Unreachable(Unreachable::Port) => Error::Refused,
        // Over IPv6 that is a parameter problem: the next header is not known.
        IcmpKind::ParamProblem | IcmpKind::Unknown => Error::ProtocolProblem,
        IcmpKind::Unreachable(Unreachable::Protocol) if v6 => Error::ProtocolProblem,
        IcmpKind::Unreachable(Unreachable::Protocol) => Error::ProtocolUnreachable,
        IcmpKind::Unreachable(Unreachable::Admin) if v6 => Error::Prohibited,
        IcmpKind::Unreachable(Unreachable::Other(error)) => error,
        IcmpKind::Unreachable(Unreachable::Net) => Error::NoRoute,
        IcmpKind::TooBig(_) => Error::MessageTooLong,
        IcmpKind::Unreachable(Unreachable::Host | Unreachable::Admin) | IcmpKind::TimeExceeded => {
            Error::HostUnreachable
        }
    }
}

/// The error will last, so that also who has not asked for errors hears it (`icmp_err_convert`, `icmpv6_err_convert`). What our own
/// neighbours do not answer has no message, and may pass.
const fn lasts(message: &IcmpMessage, v6: bool) -> bool {
    match (v6, message.ty, message.code) {
        (false, 3, code) => !matches!(code, 0 | 1 | 5 | 11 | 12),
        (false, ty, _) => ty == 12,
        (true, 1, code) => !matches!(code, 0 | 2 | 3),
        (true, ty, _) => ty == 4,
    }
}

/// A datagram socket is told of what was too long. Over IPv4 IP_PMTUDISC_DONT keeps it from that (`__udp4_lib_err`); over IPv6 who does not
/// believe it does not hear it, and to IPV6_PMTUDISC_DONT it is an error that may pass (`udpv6_err`).
fn hears_of_sizes(discovery: MtuDiscovery, v6: bool) -> bool {
    if v6 { discovery.believes() } else { discovery != MtuDiscovery::Dont }
}

/// Every link of IPv6 carries 1,280 bytes: who says less says nothing about the path (RFC 8201 section 4).
const fn is_below_all_links(error: &IcmpError) -> bool {
    matches!(error.kind, IcmpKind::TooBig(mtu) if error.from.is_ipv6() && mtu < MIN_PMTU_V6)
}

/// Which errors Linux drops a request for: `tcp_v4_err` names the unreachable ones, `tcp_v6_err` takes those that its table
/// calls fatal.
const fn drops_request(kind: IcmpKind, v6: bool) -> bool {
    match kind {
        IcmpKind::Unreachable(Unreachable::Net | Unreachable::Host) | IcmpKind::TimeExceeded => !v6,
        IcmpKind::Unreachable(Unreachable::Admin | Unreachable::Port | Unreachable::Protocol) => v6,
        IcmpKind::ParamProblem => true,
        // Codes that only IPv4 has, or that IPv6's table does not know, which is fatal there.
        IcmpKind::Unreachable(Unreachable::Other(_)) => v6,
        IcmpKind::TooBig(_) | IcmpKind::Unknown => false,
    }
}

/// Which errors say that there is no way to the peer for now (RFC 6069 section 4.1, by the codes that Linux takes).
const fn says_disconnected(kind: IcmpKind, v6: bool) -> bool {
    match kind {
        IcmpKind::Unreachable(Unreachable::Net) => true,
        IcmpKind::Unreachable(Unreachable::Host) => !v6,
        _ => false,
    }
}

impl Stack {
    /// Delivers an error to its flow; what fits no flow is dropped (RFC 5927 section 4).
    pub(super) fn icmp_error(&mut self, error: &IcmpError) {
        let e = &error.embedded;
        let tuple =
            Tuple { local_ip: e.src, remote_ip: e.dst, local_port: e.src_port, remote_port: e.dst_port };
        let of_datagram = e.protocol == protocol::UDP && !self.is_sctp_over_udp(e.src_port);
        // Datagram sockets hear of it all the same (`udpv6_err`).
        if is_below_all_links(error) && !of_datagram {
            // A connection looks at what it names first (`tcp_v6_err`).
            let judged = e.protocol == protocol::TCP && self.icmp_error_tcp(&tuple, error);
            if !judged {
                self.env.count.dropped(DropWhy::IcmpIgnored);
            }
            return;
        }
        let known = match e.protocol {
            protocol::TCP => self.icmp_error_tcp(&tuple, error),
            protocol::UDP if of_datagram => self.icmp_error_udp(&tuple, error),
            protocol::UDP => self.icmp_error_sctp_udp(&tuple, error),
            protocol::SCTP => self.icmp_error_sctp(&tuple, error),
            // Our own echo replies and resets: only what they teach about the path would matter.
            _ => false,
        };
        if !known {
            self.env.count.dropped(DropWhy::IcmpForeign);
        }
    }

    fn icmp_error_tcp(&mut self, tuple: &Tuple, error: &IcmpError) -> bool {
        let id = match self.flow(tuple) {
            Some(Flow::Conn(id)) => id,
            Some(Flow::Request(id)) => return self.icmp_error_request(id, tuple, error),
            Some(Flow::TimeWait(_)) | None => return false,
        };
        let Some(entry) = self.sockets.get_mut(id) else { return false };
        let Socket::Tcp(conn) = &mut entry.socket else { return false };
        if conn.drops_from_afar(tuple.is_v6(), error.ttl) {
            self.come_too_far();
            return true;
        }
        let mut cx = self.env.cx(self.now, Some(id));
        let seq = error.embedded.seq.map(Seq);
        match error.kind {
            IcmpKind::TooBig(mtu) => {
                // Others may have heard that the path takes less (`inet_csk_update_pmtu`).
                let known =
                    self.ip.lookup(None, tuple.remote_ip, self.now).map_or(mtu, |way| way.mtu.min(mtu));
                if !conn.on_pmtu(&mut cx, (mtu, known), seq) {
                    return false;
                }
                self.ip.lower_path_mtu(tuple.remote_ip, mtu, self.now);
            }
            kind => {
                if says_disconnected(kind, tuple.is_v6()) {
                    conn.on_disconnection(&mut cx, seq);
                }
                let accepted = entry.holder != Holder::Backlog;
                let what = error_of(kind, tuple.is_v6());
                let heard = conn.on_icmp(&mut cx, what, seq, accepted);
                if heard != Heard::Nothing {
                    let message = (heard == Heard::Message).then(|| error.clone());
                    self.events.push_icmp(IcmpHeard { id, error: what, message });
                }
            }
        }
        self.settle(id, Turn::INPUT);
        true
    }

    /// A request, known by the number of its SYN-ACK, is dropped in silence where the error says that the peer cannot be
    /// reached: nobody is told, since no socket exists yet (`tcp_req_err`). Any other error is ignored.
    fn icmp_error_request(&mut self, id: RequestId, tuple: &Tuple, error: &IcmpError) -> bool {
        let Some(Pending::Sent(request)) = self.small.requests.get(id).map(|r| &r.pending) else {
            return false;
        };
        if error.embedded.seq.map(Seq) != Some(request.isn()) {
            self.env.count.tcp_ext.out_of_window_icmps += 1;
            return false;
        }
        if drops_request(error.kind, tuple.is_v6()) {
            self.env.count.tcp_ext.listen_drops += 1;
            self.fail_request(id);
        }
        true
    }

    fn icmp_error_udp(&mut self, tuple: &Tuple, error: &IcmpError) -> bool {
        let Some(id) = self.udp_receiver(tuple) else { return false };
        // A path MTU counts for connections and associations too, and any port of ours would do to name it: Linux asks for no more.
        let sends = |id| match self.sockets.get(id).map(|entry| &entry.socket) {
            Some(Socket::Udp(udp)) => udp.sends_to(self.now, tuple.remote_ip),
            _ => false,
        };
        if matches!(error.kind, IcmpKind::TooBig(_)) && !sends(id) && !self.demux.udp_open(tuple).any(sends) {
            return false;
        }
        let Some(entry) = self.sockets.get_mut(id) else { return false };
        let Socket::Udp(udp) = &mut entry.socket else { return false };
        if let IcmpKind::TooBig(mtu) = error.kind
            && udp.discovery_to(tuple.remote_ip).believes()
        {
            self.ip.lower_path_mtu(tuple.remote_ip, mtu, self.now);
        }
        match error.kind {
            IcmpKind::TooBig(_) if !hears_of_sizes(udp.discovery_to(tuple.remote_ip), tuple.is_v6()) => {}
            kind => {
                let hard = match kind {
                    IcmpKind::TooBig(_) => !matches!(
                        udp.discovery_to(tuple.remote_ip),
                        MtuDiscovery::Dont | MtuDiscovery::Refuse
                    ),
                    _ => lasts(&error.message, tuple.is_v6()),
                };
                if udp.on_icmp(error_of(kind, tuple.is_v6()), hard, tuple.is_v6())
                    && entry.holder == Holder::Owner
                {
                    self.events.push_notice(&mut entry.pending, id, Notice::READABLE);
                }
                self.tell_udp_message(id, error);
            }
        }
        true
    }

    /// A datagram socket with IP_RECVERR gets the message itself (`ip_icmp_error`).
    fn tell_udp_message(&mut self, id: SocketId, error: &IcmpError) {
        let v6 = error.from.is_ipv6();
        if let Some(Socket::Udp(udp)) = self.sockets.get(id).map(|entry| &entry.socket)
            && udp.errors.asked[usize::from(v6)]
        {
            let what = error_of(error.kind, v6);
            self.events.push_icmp(IcmpHeard { id, error: what, message: Some(error.clone()) });
        }
    }

    /// The driver takes messages of ICMP about sockets from now on, besides events: [`Stack::next_icmp`].
    pub fn hear_icmp(&mut self) {
        self.events.hear_icmp();
    }

    /// The oldest message of ICMP that a socket is to hear of and that was not taken; none unless [`Stack::hear_icmp`] asked for them.
    pub fn next_icmp(&mut self) -> Option<IcmpHeard> {
        self.events.take_icmp()
    }
}
