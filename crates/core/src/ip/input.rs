//! The input path of IP: parse, verify, validate addresses, reassemble, classify.
use super::icmp_output::{About, Report};
use super::iface::{Iface, Link};
use super::reasm::{Fragment, Key, Outcome};
use super::{IcmpError, Ingress, Ip, Outbox, source};
use crate::base::{Cx, DeviceId, DropWhy, Instant};
use crate::packet::{Head, Offload, Packet};
use bytes::Bytes;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use lowwater_wire::ipv4::{self, Ipv4View};
use lowwater_wire::ipv6::{self, ExtError, Ipv6View};
use lowwater_wire::protocol;

/// What became of a packet.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "the large one is the common one, and is moved once")]
pub enum Input {
    /// For a transport. When none wants it: [`Ip::unreachable`].
    Deliver(Ingress),
    /// An ICMP error about a packet of ours, for the flow that it embeds.
    Error(IcmpError),
    /// IP itself dealt with it: echo, neighbour discovery, a fragment that waits.
    Consumed,
    /// Dropped; the caller counts the reason.
    Drop(DropWhy),
}

/// The contiguous bytes in which the headers lie.
fn headers(packet: &Packet) -> &[u8] {
    if packet.head.is_empty() { &packet.payload } else { packet.head.as_slice() }
}

/// Makes the whole packet one contiguous piece.
fn flatten(packet: &mut Packet) {
    if !packet.head.is_empty() {
        packet.payload = packet.to_bytes();
        packet.head = Head::new();
    }
}

/// Cuts off what the link added behind the packet.
pub(super) fn trim(packet: &mut Packet, total: usize) {
    if packet.len() <= total {
        return;
    }
    if total < packet.head.len() {
        flatten(packet);
    }
    packet.payload.truncate(total - packet.head.len());
}

/// What is wrong with the options of an IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BadOption {
    /// A loose or strict source route, which no packet may dictate to a host (RFC 7126 section 4.3; Linux: `accept_source_route`).
    SourceRoute,
    /// One whose length cannot be, at this offset.
    Length(usize),
}

fn check_options(options: &[u8]) -> Result<(), BadOption> {
    let mut at = 0;
    loop {
        at += match options[at..] {
            [] | [0, ..] => return Ok(()),
            [1, ..] => 1,
            [131 | 137, ..] => return Err(BadOption::SourceRoute),
            [_, len, ..] if len >= 2 && usize::from(len) <= options.len() - at => len.into(),
            _ => return Err(BadOption::Length(at)),
        };
    }
}

impl Ip {
    /// Takes in one packet without link header. Answers to it (echo replies, errors, neighbour advertisements) go to `out`.
    pub fn input(&mut self, cx: &mut Cx<'_>, device: DeviceId, packet: Packet, out: &mut Outbox) -> Input {
        self.take_in(cx, Came { device, to_group: false, fragments: true }, packet, out)
    }

    /// The same for a packet whose frame has come to a group or to all of its link: whatever its destination, nobody answers it
    /// (RFC 1122 section 3.3.6, RFC 4443 section 2.4 e).
    pub fn input_to_group(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceId,
        packet: Packet,
        out: &mut Outbox,
    ) -> Input {
        self.take_in(cx, Came { device, to_group: true, fragments: true }, packet, out)
    }

    fn take_in(&mut self, cx: &mut Cx<'_>, came: Came, packet: Packet, out: &mut Outbox) -> Input {
        cx.count.ip.in_receives += 1;
        cx.count.ip_ext.in_octets += packet.len() as u64;
        let verdict = self.classify(cx, came, packet, out);
        match &verdict {
            Input::Deliver(ingress) => {
                cx.count.ip.in_delivers += 1;
                let ext = &mut cx.count.ip_ext;
                match ingress.ecn() {
                    0 => ext.in_no_ect_pkts += 1,
                    1 => ext.in_ect1_pkts += 1,
                    2 => ext.in_ect0_pkts += 1,
                    _ => ext.in_ce_pkts += 1,
                }
            }
            Input::Drop(DropWhy::Malformed | DropWhy::Checksum | DropWhy::ExtensionHeader) => {
                cx.count.ip.in_hdr_errors += 1;
            }
            Input::Drop(DropWhy::NotForUs | DropWhy::BadSource) => cx.count.ip.in_addr_errors += 1,
            Input::Error(_) | Input::Consumed | Input::Drop(_) => {}
        }
        verdict
    }

    /// The packet itself is moved once, with what was read of it, into the answer.
    fn classify(&mut self, cx: &mut Cx<'_>, came: Came, mut packet: Packet, out: &mut Outbox) -> Input {
        let version = headers(&packet).first().map(|byte| byte >> 4);
        let result = match version {
            Some(4) => self.classify_v4(cx, came, &mut packet, out),
            Some(6) => self.classify_v6(cx, came, &mut packet, out),
            _ => Err(DropWhy::Malformed),
        };
        match result {
            Ok(Classified::Whole(header)) => self.deliver(cx, (came.device, header), packet, out),
            Ok(Classified::Reassembled { whole, at, to_group }) => {
                let packet = Packet::received(whole, Offload::default(), at);
                self.classify(cx, Came { to_group, fragments: false, ..came }, packet, out)
            }
            Ok(Classified::Waiting) => Input::Consumed,
            Err(why) => Input::Drop(why),
        }
    }

    fn classify_v4(
        &mut self,
        cx: &mut Cx<'_>,
        came: Came,
        packet: &mut Packet,
        out: &mut Outbox,
    ) -> Result<Classified, DropWhy> {
        let device = came.device;
        let Ok(view) = Ipv4View::parse_quoted(headers(packet)) else { return Err(DropWhy::Malformed) };
        let total = usize::from(view.total_len());
        if total > packet.len() {
            return Err(DropWhy::Malformed);
        }
        if !view.checksum_ok() {
            cx.count.ip_ext.in_csum_errors += 1;
            return Err(DropWhy::Checksum);
        }
        let (src, dst) = (view.src(), view.dst());
        let options = check_options(view.options());
        let to_group = self.judge_v4(device, (src, dst), options == Err(BadOption::SourceRoute))?;
        if let Err(BadOption::Length(at)) = options {
            // RFC 1122 section 3.2.2.5.
            let problem = Report::Problem { code: 0, pointer: (ipv4::HEADER_LEN + at) as u32 };
            trim(packet, total);
            let to_group = to_group || came.to_group;
            let about = About { src: src.into(), dst: dst.into(), to_group, quote: packet };
            self.report(cx, &about, problem, out);
            return Err(DropWhy::Malformed);
        }
        if view.is_fragment() {
            if !came.fragments {
                return Err(DropWhy::BadFragment);
            }
            trim(packet, total);
            flatten(packet);
            return self.reassemble_v4(cx, came, packet);
        }
        let header = Header {
            src: src.into(),
            dst: dst.into(),
            protocol: view.protocol(),
            tos: view.tos(),
            ttl: view.ttl(),
            to_group: to_group || came.to_group,
            l4_offset: view.header_len() as u16,
        };
        trim(packet, total);
        Ok(Classified::Whole(header))
    }

    /// Whether the addresses of a packet are right; true for one to a group. What follows another of its kind, as most do, has been judged.
    fn judge_v4(
        &mut self,
        device: DeviceId,
        (src, dst): (Ipv4Addr, Ipv4Addr),
        source_route: bool,
    ) -> Result<bool, DropWhy> {
        if !source_route && self.ifaces.is_judged((device, src, dst)) {
            return Ok(false);
        }
        let Some(iface) = self.ifaces.get(device) else { return Err(DropWhy::NotForUs) };
        // Who has no address yet asks everybody for one (RFC 1122 section 3.2.1.3 a).
        let asks_for_one = src.is_unspecified() && dst.is_broadcast();
        if !asks_for_one && self.is_bad_source_v4(src, iface) || source_route {
            return Err(DropWhy::BadSource);
        }
        let to_group = dst.is_multicast() || self.ifaces.is_broadcast(dst);
        if !self.is_for_us(dst.into(), to_group, device, iface) {
            return Err(DropWhy::NotForUs);
        }
        if !to_group {
            self.ifaces.note_judged((device, src, dst));
        }
        Ok(to_group)
    }

    fn reassemble_v4(&mut self, cx: &mut Cx<'_>, came: Came, packet: &Packet) -> Result<Classified, DropWhy> {
        let bytes = &packet.payload;
        let Ok(view) = Ipv4View::parse(bytes) else { return Err(DropWhy::Malformed) };
        let key = Key {
            src: view.src().into(),
            dst: view.dst().into(),
            protocol: view.protocol(),
            ident: view.ident().into(),
        };
        let fragment = Fragment {
            offset: view.fragment_offset(),
            more: view.more_fragments(),
            headers: &bytes[..view.header_len()],
            data: view.payload(),
            next_header: (0, 0),
            ecn: view.tos() & 3,
            device: came.device,
            to_group: came.to_group,
        };
        self.reassembled(cx, key, &fragment, packet)
    }

    fn reassembled(
        &mut self,
        cx: &mut Cx<'_>,
        key: Key,
        fragment: &Fragment<'_>,
        packet: &Packet,
    ) -> Result<Classified, DropWhy> {
        match self.reasm.insert(cx, key, fragment) {
            Outcome::Waiting => Ok(Classified::Waiting),
            Outcome::Complete { whole, to_group } => {
                Ok(Classified::Reassembled { whole, at: packet.at, to_group })
            }
            Outcome::Drop(why) => Err(why),
        }
    }

    fn classify_v6(
        &mut self,
        cx: &mut Cx<'_>,
        came: Came,
        packet: &mut Packet,
        out: &mut Outbox,
    ) -> Result<Classified, DropWhy> {
        let device = came.device;
        let Ok(view) = Ipv6View::parse_quoted(headers(packet)) else { return Err(DropWhy::Malformed) };
        let (src, dst, total) = (view.src(), view.dst(), view.total_len());
        let transport = matches!(view.next_header(), protocol::TCP | protocol::UDP);
        if total > packet.len() {
            return Err(DropWhy::Malformed);
        }
        let Some(iface) = self.ifaces.get(device) else { return Err(DropWhy::NotForUs) };
        if self.is_bad_source_v6(src, iface) {
            return Err(DropWhy::BadSource);
        }
        if !self.is_for_us(dst.into(), dst.is_multicast(), device, iface) {
            return Err(DropWhy::NotForUs);
        }
        if !dst.is_multicast() && !self.answers_stay(src, dst, device) {
            return Err(DropWhy::BadSource);
        }
        let to_group = dst.is_multicast() || came.to_group;
        trim(packet, total);
        if !transport {
            // Extension headers and ICMP are read as one piece.
            flatten(packet);
        }
        let Ok(view) = Ipv6View::parse_quoted(headers(packet)) else { return Err(DropWhy::Malformed) };
        let chain = match ipv6::walk(view.next_header(), view.payload()) {
            Ok(chain) => chain,
            Err(error) => {
                let about = About { src: src.into(), dst: dst.into(), to_group, quote: packet };
                return Err(self.refuse_extension(cx, &about, error, out));
            }
        };
        // RFC 6980: in fragments neighbour discovery could be hidden from whoever filters it.
        if (chain.atomic || !came.fragments) && is_neighbour_discovery(&chain, view.payload()) {
            return Err(DropWhy::BadFragment);
        }
        // RFC 4861 section 7.1.1 needs the unspecified source; nothing else does.
        if src.is_unspecified() && chain.protocol != protocol::ICMPV6 {
            return Err(DropWhy::BadSource);
        }
        let l4_offset = ipv6::HEADER_LEN + chain.offset;
        if let Some(header) = chain.fragment {
            if !came.fragments {
                return Err(DropWhy::BadFragment);
            }
            let key = Key { src: src.into(), dst: dst.into(), protocol: 0, ident: header.ident };
            let fragment = Fragment {
                offset: header.offset,
                more: header.more,
                headers: packet.payload.get(..l4_offset).unwrap_or_default(),
                data: packet.payload.get(l4_offset..).unwrap_or_default(),
                next_header: (chain.fragment_at, header.next_header),
                ecn: view.traffic_class() & 3,
                device,
                to_group: came.to_group,
            };
            return self.reassembled(cx, key, &fragment, packet);
        }
        let (tos, ttl) = (view.traffic_class(), view.hop_limit());
        let (src, dst, protocol) = (src.into(), dst.into(), chain.protocol);
        let l4_offset = l4_offset as u16;
        Ok(Classified::Whole(Header { src, dst, protocol, tos, ttl, to_group, l4_offset }))
    }

    fn refuse_extension(
        &mut self,
        cx: &mut Cx<'_>,
        about: &About<'_>,
        error: ExtError,
        out: &mut Outbox,
    ) -> DropWhy {
        match error {
            ExtError::Malformed(_) => DropWhy::Malformed,
            ExtError::Discard => DropWhy::ExtensionHeader,
            ExtError::ParameterProblem { code, pointer, unless_multicast } => {
                if !(unless_multicast && about.to_group) {
                    self.report(cx, about, Report::Problem { code, pointer }, out);
                }
                DropWhy::ExtensionHeader
            }
        }
    }

    /// Sources that no packet may carry (RFC 1122 section 3.2.1.3; Linux: martian sources).
    fn is_bad_source_v4(&self, src: Ipv4Addr, iface: &Iface) -> bool {
        if iface.link == Link::Loopback {
            return src.is_multicast() || src.is_broadcast() || src.is_unspecified();
        }
        src.octets()[0] == 0
            || src.is_loopback()
            || src.octets()[0] >= 224
            || self.ifaces.is_broadcast(src)
            || self.ifaces.owner_of(src.into()).is_some()
    }

    /// The same for IPv6 (RFC 4291 section 2). The unspecified address is judged later.
    fn is_bad_source_v6(&self, src: Ipv6Addr, iface: &Iface) -> bool {
        if iface.link == Link::Loopback {
            return src.is_multicast();
        }
        src.is_multicast()
            || src.is_loopback()
            || src.to_ipv4_mapped().is_some()
            || self.ifaces.owner_of(src.into()).is_some()
    }

    /// An answer from `dst` to `src` would leave by the device that the question came by, if no other link may see it: sockets do not know
    /// zones (RFC 4007 section 9), so that a link-local source is no one's whom we could answer where our address is another device's.
    fn answers_stay(&self, src: Ipv6Addr, dst: Ipv6Addr, device: DeviceId) -> bool {
        !src.is_unicast_link_local()
            || self.best_route(Some(dst.into()), src.into()).is_none_or(|way| way.device == device)
    }

    fn is_for_us(&self, dst: IpAddr, to_group: bool, device: DeviceId, iface: &Iface) -> bool {
        if to_group {
            // Broadcasts need no membership.
            return !dst.is_multicast() || iface.is_member(dst);
        }
        if dst.is_unspecified() || dst.is_loopback() {
            return dst.is_loopback() && iface.link == Link::Loopback;
        }
        match self.ifaces.owner_of(dst) {
            // Link-local addresses belong to their link; all others to the host.
            Some(owner) => {
                owner == device || source::scope(dst) != source::LINK || iface.link == Link::Loopback
            }
            None => iface.any_address,
        }
    }

    #[inline]
    fn deliver(
        &mut self,
        cx: &mut Cx<'_>,
        (device, header): (DeviceId, Header),
        mut packet: Packet,
        out: &mut Outbox,
    ) -> Input {
        match (header.protocol, header.src, header.dst) {
            (protocol::ICMP, _, IpAddr::V4(_)) => {
                flatten(&mut packet);
                self.input_icmp4(cx, &header.of(device, packet), out)
            }
            (protocol::ICMPV6, IpAddr::V6(src), IpAddr::V6(dst)) => {
                flatten(&mut packet);
                self.input_icmp6(cx, &header.of(device, packet), (src, dst), out)
            }
            (protocol::ICMPV6, IpAddr::V4(_), IpAddr::V6(_)) => Input::Drop(DropWhy::Malformed),
            // Nothing follows, and nothing is to be said about it (RFC 8200 section 4.7).
            (protocol::NO_NEXT_HEADER, _, IpAddr::V6(_)) => Input::Drop(DropWhy::Protocol),
            _ => Input::Deliver(header.of(device, packet)),
        }
    }
}

/// What was read of a packet's headers: an [`Ingress`] without its packet.
struct Header {
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    tos: u8,
    ttl: u8,
    to_group: bool,
    l4_offset: u16,
}

impl Header {
    #[inline]
    fn of(self, device: DeviceId, packet: Packet) -> Ingress {
        let Self { src, dst, protocol, tos, ttl, to_group, l4_offset } = self;
        Ingress { device, src, dst, protocol, tos, ttl, to_group, l4_offset, packet }
    }
}

/// How a packet has come.
#[derive(Clone, Copy, Debug)]
struct Came {
    device: DeviceId,
    /// Its frame was for a group of the link, or for all of it.
    to_group: bool,
    /// It may be a fragment. What has been reassembled may not: a fragment inside a fragment serves no honest purpose.
    fragments: bool,
}

/// What parsing made of a packet.
enum Classified {
    Whole(Header),
    Reassembled {
        whole: Bytes,
        at: Instant,
        to_group: bool,
    },
    /// A fragment; others are missing.
    Waiting,
}

/// A message of neighbour discovery, routers' included (RFC 4861 section 4).
fn is_neighbour_discovery(chain: &ipv6::Chain, payload: &[u8]) -> bool {
    chain.protocol == protocol::ICMPV6
        && payload.get(chain.offset).is_some_and(|kind| (133..=137).contains(kind))
}

#[cfg(test)]
mod tests;
