//! Outgoing ICMP errors: about which packets they may be sent, how often, and what they quote.
use super::icmp::Unreachable;
use super::{Ingress, Ip, Outbox, OutputParams, reasm};
use crate::base::{Cx, DropWhy};
use crate::packet::{Csum, Head, Offload, Packet};
use bytes::Bytes;
use core::net::IpAddr;
use lowwater_wire::icmp4::{self, Icmp4Repr};
use lowwater_wire::icmp6::{self, Icmp6Repr};
use lowwater_wire::ipv4::Ipv4View;
use lowwater_wire::ipv6::{self, Ipv6View};
use lowwater_wire::{checksum, protocol, udp};

/// The packet that an error of ours is about.
#[derive(Debug)]
pub(super) struct About<'a> {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) to_group: bool,
    /// The packet from its IP header on.
    pub(super) quote: &'a Packet,
}

/// What an error of ours says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    Unreachable(Unreachable),
    ReassemblyTimeExceeded,
    /// What a header says is wrong at `pointer`.
    Problem {
        code: u8,
        pointer: u32,
    },
}

impl Report {
    /// The type of its message over IPv4, by which the limits know it.
    const fn kind_v4(self) -> u8 {
        match self {
            Self::Unreachable(_) => icmp4::UNREACHABLE,
            Self::ReassemblyTimeExceeded => icmp4::TIME_EXCEEDED,
            Self::Problem { .. } => icmp4::PARAMETER_PROBLEM,
        }
    }
}

impl Ip {
    /// Answers `ingress` with "destination unreachable" (for an unknown protocol over IPv6: "unrecognized next header"),
    /// within the limits of RFC 1812 section 4.3.2 and RFC 4443 section 2.4.
    pub fn unreachable(&mut self, cx: &mut Cx<'_>, ingress: &Ingress, what: Unreachable, out: &mut Outbox) {
        let about =
            About { src: ingress.src, dst: ingress.dst, to_group: ingress.to_group, quote: &ingress.packet };
        self.report(cx, &about, Report::Unreachable(what), out);
    }

    pub(super) fn reassembly_timed_out(&mut self, cx: &mut Cx<'_>, a: &reasm::Abandoned, out: &mut Outbox) {
        cx.count.ip.reasm_timeout += 1;
        cx.count.ip.reasm_fails += 1;
        for _ in 0..a.pieces {
            cx.count.dropped(DropWhy::ReassemblyTimeout);
        }
        let Some(first) = &a.first else { return };
        let to_group = a.to_group
            || self.ifaces.owner_of(a.key.dst).is_none()
                && !self.ifaces.get(a.device).is_some_and(|iface| iface.any_address);
        let quote = Packet::received(Bytes::copy_from_slice(first), Offload::default(), cx.now);
        let about = About { src: a.key.src, dst: a.key.dst, to_group, quote: &quote };
        self.report(cx, &about, Report::ReassemblyTimeExceeded, out);
    }

    /// Sends an error about a packet, if errors about such a packet may be sent.
    pub(super) fn report(&mut self, cx: &mut Cx<'_>, about: &About<'_>, report: Report, out: &mut Outbox) {
        // RFC 4443 section 2.4 (e.3): only an unrecognized option may be reported to the sender of a multicast.
        let multicast_allowed =
            matches!(report, Report::Problem { code: icmp6::UNRECOGNIZED_OPTION, .. }) && about.dst.is_ipv6();
        if (about.to_group && !multicast_allowed)
            || about.src.is_unspecified()
            || is_unanswerable(about.quote)
        {
            return;
        }
        let from = if about.to_group || self.ifaces.owner_of(about.dst).is_none() && about.dst.is_multicast()
        {
            self.lookup(None, about.src, cx.now).ok().map(|dst| dst.src)
        } else {
            Some(about.dst)
        };
        let Some(from) = from else { return };
        // What came over loopback came from here, and nothing else that has a source of ours has come at all: no limit (`__icmp_send`).
        let own = self.ifaces.owner_of(about.src).is_some();
        if !own && !self.limiter.allow(cx, about.src, report.kind_v4()) {
            cx.count.dropped(DropWhy::RateLimited);
            return;
        }
        let Some((protocol, message)) = compose(from, about, report) else { return };
        let tos = tos_of_error(about.quote);
        let params = OutputParams { tos, ..OutputParams::new(from, about.src, protocol) };
        if self.send(cx, &params, message_packet(cx, message), out).is_ok() {
            cx.count.icmp.out_msgs += 1;
            cx.count.icmp.out_errors += 1;
            cx.count.icmp.out_dest_unreachs += u64::from(matches!(report, Report::Unreachable(_)));
        }
    }
}

/// TOS of an error about `packet`: over IPv4 precedence 6, internetwork control, and below it the bits of the packet that has
/// caused it (RFC 1812 section 4.3.2.5; Linux's RT_TOS() and IPTOS_PREC_INTERNETCONTROL); over IPv6 nothing.
fn tos_of_error(packet: &Packet) -> u8 {
    const INTERNETWORK_CONTROL: u8 = 0xc0;
    const BELOW_PRECEDENCE: u8 = 0x1e;
    match quote(packet, 2)[..] {
        [version, tos] if version >> 4 == 4 => INTERNETWORK_CONTROL | (tos & BELOW_PRECEDENCE),
        _ => 0,
    }
}

pub(super) fn message_packet(cx: &Cx<'_>, message: Vec<u8>) -> Packet {
    Packet {
        head: Head::new(),
        payload: message.into(),
        offload: Offload::default(),
        owner: None,
        at: cx.now,
        priority: None,
    }
}

/// The first `max` bytes of a packet, as they would look on a wire: a checksum that was left to the device is completed.
fn quote(packet: &Packet, max: usize) -> Vec<u8> {
    let head = packet.head.as_slice();
    let mut bytes: Vec<u8> =
        head.iter().chain(&packet.payload[..max.min(packet.payload.len())]).take(max).copied().collect();
    if let Csum::Partial { start, offset } = packet.offload.csum {
        let (start, field) = (usize::from(start), usize::from(start) + usize::from(offset));
        let parts = [
            head.get(start..).unwrap_or_default(),
            packet.payload.get(start.saturating_sub(head.len())..).unwrap_or_default(),
        ];
        if let Some(place) = bytes.get_mut(field..field + 2) {
            // The field holds the pseudo-header's sum; for UDP zero would mean "none" (RFC 768).
            let value = match checksum::finish(checksum::sum_parts(&parts)) {
                0 if usize::from(offset) == udp::CHECKSUM_OFFSET => 0xffff,
                value => value,
            };
            place.copy_from_slice(&value.to_be_bytes());
        }
    }
    bytes
}

/// No error may answer it: an ICMP error, an ICMP message that cannot be read (RFC 1812 section 4.3.2.7), or over IPv4 another fragment than the first
/// (RFC 1122 section 3.2.2).
fn is_unanswerable(packet: &Packet) -> bool {
    let bytes = quote(packet, icmp6::MAX_QUOTED);
    let kind = |at: usize| bytes.get(at).copied();
    match bytes.first().map_or(0, |byte| byte >> 4) {
        4 => Ipv4View::parse_quoted(&bytes).is_ok_and(|view| {
            let query = [0, 8, 9, 10, 13, 14, 15, 16, 17, 18];
            let readable = || kind(view.header_len()).is_some_and(|k| query.contains(&k));
            view.fragment_offset() > 0 || (view.protocol() == protocol::ICMP && !readable())
        }),
        6 => Ipv6View::parse_quoted(&bytes).is_ok_and(|view| {
            // Where the type is cut off nobody knows (`is_ineligible`).
            let behind = ipv6::skip(view.next_header(), view.payload());
            behind.is_some_and(|(protocol, at)| {
                protocol == protocol::ICMPV6 && kind(ipv6::HEADER_LEN + at).is_none_or(|k| k < 128)
            })
        }),
        _ => true,
    }
}

/// Protocol and bytes of an error message from `from`; `None` for what the family has no message for.
fn compose(from: IpAddr, about: &About<'_>, report: Report) -> Option<(u8, Vec<u8>)> {
    match (from, about.src) {
        (IpAddr::V4(_), IpAddr::V4(_)) => {
            let quoted = &quote(about.quote, icmp4::MAX_QUOTED)[..];
            let repr = match report {
                Report::Unreachable(what) => {
                    let code = match what {
                        Unreachable::Net => icmp4::NET_UNREACHABLE,
                        Unreachable::Host | Unreachable::Other(_) => icmp4::HOST_UNREACHABLE,
                        Unreachable::Protocol => icmp4::PROTOCOL_UNREACHABLE,
                        Unreachable::Port => icmp4::PORT_UNREACHABLE,
                        Unreachable::Admin => icmp4::ADMIN_PROHIBITED,
                    };
                    Icmp4Repr::Unreachable { code, mtu: 0, quoted }
                }
                Report::ReassemblyTimeExceeded => {
                    Icmp4Repr::TimeExceeded { code: icmp4::REASSEMBLY_EXCEEDED, quoted }
                }
                Report::Problem { code, pointer } => {
                    Icmp4Repr::ParameterProblem { code, pointer: u8::try_from(pointer).ok()?, quoted }
                }
            };
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut bytes);
            Some((protocol::ICMP, bytes))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let quoted = &quote(about.quote, icmp6::MAX_QUOTED)[..];
            let repr = match report {
                Report::Unreachable(Unreachable::Protocol) => {
                    let pointer = next_header_at(quoted)?;
                    Icmp6Repr::ParameterProblem { code: icmp6::UNRECOGNIZED_NEXT_HEADER, pointer, quoted }
                }
                Report::Unreachable(what) => {
                    let code = match what {
                        Unreachable::Net => icmp6::NO_ROUTE,
                        Unreachable::Host | Unreachable::Protocol | Unreachable::Other(_) => {
                            icmp6::ADDRESS_UNREACHABLE
                        }
                        Unreachable::Port => icmp6::PORT_UNREACHABLE,
                        Unreachable::Admin => icmp6::ADMIN_PROHIBITED,
                    };
                    Icmp6Repr::Unreachable { code, quoted }
                }
                Report::ReassemblyTimeExceeded => {
                    Icmp6Repr::TimeExceeded { code: icmp6::REASSEMBLY_EXCEEDED, quoted }
                }
                Report::Problem { code, pointer } => Icmp6Repr::ParameterProblem { code, pointer, quoted },
            };
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(from, to, &mut bytes);
            Some((protocol::ICMPV6, bytes))
        }
        _ => None,
    }
}

/// Where the next header value lies that nobody understood.
fn next_header_at(quoted: &[u8]) -> Option<u32> {
    let view = Ipv6View::parse_quoted(quoted).ok()?;
    ipv6::walk(view.next_header(), view.payload()).ok().map(|chain| chain.protocol_at as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Instant;

    #[test]
    fn a_quoted_checksum_that_was_left_to_the_device_is_completed() {
        // An IPv4 header, then UDP from port 1 to port 9 with one byte; the field holds the pseudo-header's sum.
        let mut frame =
            [&[0x45, 0, 0, 29, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2][..], &[0; 9]].concat();
        let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let pseudo = checksum::pseudo_v4(src, dst, protocol::UDP, 9);
        frame[20..28].copy_from_slice(&[0, 1, 0, 9, 0, 9, 0, 0]);
        frame[28] = 0x77;
        frame[26..28].copy_from_slice(&checksum::fold(pseudo).to_be_bytes());
        let offload = Offload { csum: Csum::Partial { start: 20, offset: 6 }, ..Offload::default() };
        let packet = Packet::received(Bytes::from(frame), offload, Instant::ZERO);
        let whole = quote(&packet, 548);
        assert!(checksum::verify(pseudo, &whole[20..]), "{whole:02x?}");
        assert_eq!(quote(&packet, 27).len(), 27, "a field that is cut off is left alone");
    }
}
