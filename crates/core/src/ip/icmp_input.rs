//! Incoming ICMP: answers echo requests, and turns errors into [`IcmpError`]s for the flows they concern.
use super::icmp::{Embedded, IcmpError, IcmpKind, IcmpMessage, Unreachable, quoted_ttl};
use super::icmp_output::message_packet;
use super::iface::Link;
use super::{Ingress, Input, Ip, Outbox, OutputParams};
use crate::base::{Cx, DropWhy, Error};
use core::net::{IpAddr, Ipv6Addr};
use lowwater_wire::icmp4::{self, Icmp4Repr, Icmp4View};
use lowwater_wire::icmp6::{self, Icmp6Repr, Icmp6View};
use lowwater_wire::protocol;

fn kind_v4(repr: &Icmp4Repr<'_>) -> Option<IcmpKind> {
    Some(match *repr {
        Icmp4Repr::Unreachable { code, mtu, .. } => IcmpKind::Unreachable(match code {
            0 => Unreachable::Net,
            1 => Unreachable::Host,
            2 => Unreachable::Protocol,
            3 => Unreachable::Port,
            icmp4::FRAGMENTATION_NEEDED => return Some(IcmpKind::TooBig(mtu)),
            // RFC 1122 section 3.2.2.1: source route failed, destination unknown, isolated, prohibited, or not for this type of service.
            5 => Unreachable::Other(Error::Unsupported),
            6 | 9 | 11 => Unreachable::Other(Error::NoRoute),
            7 => Unreachable::Other(Error::HostDown),
            8 => Unreachable::Other(Error::Isolated),
            12 => Unreachable::Other(Error::HostUnreachable),
            10 | 13..=15 => Unreachable::Admin,
            _ => return None,
        }),
        // Fragments that did not come in time say nothing of the way (`icmp_unreach`).
        Icmp4Repr::TimeExceeded { code: icmp4::REASSEMBLY_EXCEEDED, .. } => return None,
        Icmp4Repr::TimeExceeded { .. } => IcmpKind::TimeExceeded,
        Icmp4Repr::ParameterProblem { .. } => IcmpKind::ParamProblem,
        Icmp4Repr::EchoRequest { .. } | Icmp4Repr::EchoReply { .. } => return None,
    })
}

fn kind_v6(repr: &Icmp6Repr<'_>) -> Option<IcmpKind> {
    Some(match *repr {
        Icmp6Repr::Unreachable { code, .. } => IcmpKind::Unreachable(match code {
            icmp6::NO_ROUTE => Unreachable::Net,
            icmp6::PORT_UNREACHABLE => Unreachable::Port,
            // 5 and 6: source address failed policy, reject route (RFC 4443 section 3.1).
            icmp6::ADMIN_PROHIBITED | 5 | 6 => Unreachable::Admin,
            // Beyond the scope of the source address, or the address alone.
            2 | 3 => Unreachable::Host,
            _ => Unreachable::Other(Error::ProtocolProblem),
        }),
        Icmp6Repr::PacketTooBig { mtu, .. } => IcmpKind::TooBig(u16::try_from(mtu).unwrap_or(u16::MAX)),
        Icmp6Repr::TimeExceeded { .. } => IcmpKind::TimeExceeded,
        Icmp6Repr::ParameterProblem { code: icmp6::UNRECOGNIZED_NEXT_HEADER, .. } => {
            IcmpKind::Unreachable(Unreachable::Protocol)
        }
        Icmp6Repr::ParameterProblem { .. } => IcmpKind::ParamProblem,
        Icmp6Repr::EchoRequest { .. } | Icmp6Repr::EchoReply { .. } | Icmp6Repr::Nd(_) => return None,
    })
}

/// The message of an error, whose header has eight bytes in both families.
fn message_of(ingress: &Ingress) -> IcmpMessage {
    /// Bytes of the header of an error.
    const HEADER: usize = 8;
    let head = ingress.l4();
    let rest = head.get(4..HEADER).and_then(|b| b.try_into().ok()).map_or(0, u32::from_be_bytes);
    let byte = |at: usize| head.get(at).copied().unwrap_or(0);
    IcmpMessage { ty: byte(0), code: byte(1), rest, quoted: ingress.payload(HEADER) }
}

impl Ip {
    pub(super) fn input_icmp4(&mut self, cx: &mut Cx<'_>, ingress: &Ingress, out: &mut Outbox) -> Input {
        cx.count.icmp.in_msgs += 1;
        let Ok(view) = Icmp4View::parse(ingress.l4()) else {
            cx.count.icmp.in_errors += 1;
            return Input::Drop(DropWhy::Malformed);
        };
        if !view.checksum_ok() {
            cx.count.icmp.in_csum_errors += 1;
            return Input::Drop(DropWhy::Checksum);
        }
        match Icmp4Repr::parse(&view) {
            // Linux's icmp_echo_ignore_broadcasts: no amplification.
            Ok(Icmp4Repr::EchoRequest { .. }) if ingress.to_group => Input::Drop(DropWhy::IcmpIgnored),
            Ok(Icmp4Repr::EchoRequest { ident, seq, data }) => {
                let reply = Icmp4Repr::EchoReply { ident, seq, data };
                let mut bytes = vec![0; reply.buffer_len()];
                reply.emit(&mut bytes);
                self.echo_reply(cx, ingress, protocol::ICMP, bytes, out)
            }
            Ok(Icmp4Repr::EchoReply { .. }) => {
                cx.count.icmp.in_echo_reps += 1;
                Input::Consumed
            }
            // Nobody sends an error to a group (RFC 1122 section 3.2.2; `icmp_rcv`).
            Ok(_) if ingress.to_group => Input::Drop(DropWhy::IcmpIgnored),
            Ok(error) => self.input_error(cx, ingress, view.quoted().len(), kind_v4(&error)),
            Err(_) => Input::Drop(DropWhy::IcmpIgnored),
        }
    }

    pub(super) fn input_icmp6(
        &mut self,
        cx: &mut Cx<'_>,
        ingress: &Ingress,
        (src, dst): (Ipv6Addr, Ipv6Addr),
        out: &mut Outbox,
    ) -> Input {
        cx.count.icmp.in_msgs += 1;
        let Ok(view) = Icmp6View::parse(ingress.l4()) else {
            cx.count.icmp.in_errors += 1;
            return Input::Drop(DropWhy::Malformed);
        };
        if !view.checksum_ok(src, dst) {
            cx.count.icmp.in_csum_errors += 1;
            return Input::Drop(DropWhy::Checksum);
        }
        let repr = Icmp6Repr::parse(&view);
        if src.is_unspecified() && !matches!(repr, Ok(Icmp6Repr::Nd(_))) {
            return Input::Drop(DropWhy::BadSource);
        }
        match repr {
            Ok(Icmp6Repr::Nd(nd)) => self.input_nd(cx, ingress, &nd, out),
            Ok(Icmp6Repr::EchoRequest { ident, seq, data }) => {
                // For all of a link, and yet for one host: no amplification either.
                if ingress.to_group && !ingress.dst.is_multicast() {
                    return Input::Drop(DropWhy::IcmpIgnored);
                }
                let Some(IpAddr::V6(from)) = self.answering_address(ingress, cx) else {
                    return Input::Drop(DropWhy::NoRoute);
                };
                let reply = Icmp6Repr::EchoReply { ident, seq, data };
                let mut bytes = vec![0; reply.buffer_len()];
                reply.emit(from, src, &mut bytes);
                self.echo_reply(cx, ingress, protocol::ICMPV6, bytes, out)
            }
            Ok(Icmp6Repr::EchoReply { .. }) => {
                cx.count.icmp.in_echo_reps += 1;
                Input::Consumed
            }
            Ok(error) => self.input_error(cx, ingress, view.quoted().len(), kind_v6(&error)),
            Err(_) if view.is_error() => {
                self.input_error(cx, ingress, view.quoted().len(), Some(IcmpKind::Unknown))
            }
            Err(_) => Input::Drop(DropWhy::IcmpIgnored),
        }
    }

    /// The source of an answer: where the question went, unless that was a group.
    fn answering_address(&self, ingress: &Ingress, cx: &Cx<'_>) -> Option<IpAddr> {
        if !ingress.to_group {
            return Some(ingress.dst);
        }
        let mut on_device = self.ifaces.candidates().filter(|c| c.0 == ingress.device);
        super::source::select(&mut on_device, (ingress.src, None), ingress.device)
            .or_else(|| self.lookup(None, ingress.src, cx.now).ok().map(|dst| dst.src))
    }

    fn echo_reply(
        &mut self,
        cx: &mut Cx<'_>,
        ingress: &Ingress,
        protocol: u8,
        message: Vec<u8>,
        out: &mut Outbox,
    ) -> Input {
        cx.count.icmp.in_echos += 1;
        let Some(src) = self.answering_address(ingress, cx) else { return Input::Drop(DropWhy::NoRoute) };
        // RFC 1122 section 3.2.2.6: the answer carries the question's type of service; never its CE mark.
        let params = OutputParams { tos: ingress.tos & !3, ..OutputParams::new(src, ingress.src, protocol) };
        if self.send(cx, &params, message_packet(cx, message), out).is_err() {
            return Input::Drop(DropWhy::NoRoute);
        }
        cx.count.icmp.out_msgs += 1;
        cx.count.icmp.out_echo_reps += 1;
        Input::Consumed
    }

    fn input_error(
        &mut self,
        cx: &mut Cx<'_>,
        ingress: &Ingress,
        quoted: usize,
        kind: Option<IcmpKind>,
    ) -> Input {
        let from = ingress.src;
        let mut message = message_of(ingress);
        let Some(embedded) = message.quoted.get(..quoted).and_then(Embedded::parse) else {
            return Input::Drop(DropWhy::IcmpIgnored);
        };
        let Some(kind) = kind else { return Input::Drop(DropWhy::IcmpIgnored) };
        cx.count.icmp.in_dest_unreachs +=
            u64::from(matches!(kind, IcmpKind::Unreachable(_) | IcmpKind::TooBig(_)));
        // RFC 5927 section 4: first of all it must be about a packet that we could have sent.
        let from_wire = self.ifaces.get(ingress.device).is_none_or(|iface| iface.link != Link::Loopback);
        let ours = self.ifaces.owner_of(embedded.src).is_some()
            || self.ifaces.iter().any(|(_, iface)| iface.any_address);
        let ours = ours && !(from_wire && embedded.src.is_loopback());
        if !ours || embedded.src.is_ipv4() != from.is_ipv4() {
            return Input::Drop(DropWhy::IcmpForeign);
        }
        let kind = match kind {
            // That something was too long counts, how long it may be does not: the least is believed (`icmp_unreach`).
            IcmpKind::TooBig(_) if from.is_ipv4() && cx.sysctl.ip_no_pmtu_disc != 0 => {
                message.rest &= !0xffff;
                IcmpKind::TooBig(0)
            }
            kind => kind,
        };
        let ttl = quoted_ttl(&message.quoted).unwrap_or(ingress.ttl);
        Input::Error(IcmpError { kind, from, embedded, ttl, message })
    }
}
