//! SCTP packets in datagrams without an IP header (RFC 8261): the header that names the sides inside of the stack goes on and off.
use crate::base::Instant;
use crate::packet::{Head, Offload, Packet};
use bytes::Bytes;
use core::net::Ipv4Addr;
use lowwater_wire::ipv4::{HEADER_LEN as IPV4_LEN, Ipv4Repr, Ipv4View};
use lowwater_wire::protocol;
use lowwater_wire::sctp::HEADER_LEN;

/// Bytes that stand in front of a datagram inside of the stack.
pub const NAMES_LEN: usize = IPV4_LEN;

/// A packet that leaves the stack as a datagram, and the name of whom it is for; `None` for what is not SCTP, or a fragment of it.
#[must_use]
pub fn unwrap(packet: &Bytes) -> Option<(Ipv4Addr, Bytes)> {
    let view = Ipv4View::parse(packet).ok()?;
    if view.protocol() != protocol::SCTP || view.is_fragment() {
        return None;
    }
    Some((view.dst(), packet.slice_ref(view.payload())))
}

/// A datagram as the stack takes it, from `peer` to `local` and as having arrived at `at`; `None` when it cannot be an SCTP packet. Its
/// chunks are not copied.
#[must_use]
pub fn wrap(mut datagram: Bytes, peer: Ipv4Addr, local: Ipv4Addr, at: Instant) -> Option<Packet> {
    if datagram.len() < HEADER_LEN || datagram.len() > usize::from(u16::MAX) - NAMES_LEN {
        return None;
    }
    let mut head = Head::new();
    let payload_len = datagram.len() as u16;
    let chunks = datagram.split_off(HEADER_LEN);
    head.prepend(HEADER_LEN).copy_from_slice(&datagram);
    let names = Ipv4Repr {
        src: peer,
        dst: local,
        protocol: protocol::SCTP,
        ttl: 1,
        tos: 0,
        ident: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len,
    };
    names.emit(head.prepend(NAMES_LEN));
    Some(Packet { head, payload: chunks, offload: Offload::default(), owner: None, at, priority: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_comes_out_as_it_went_in_and_nothing_else_does() {
        let (a, b) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2));
        let datagram = Bytes::from_static(b"ports, vtag, chunks: all the same here");
        let packet = wrap(datagram.clone(), a, b, Instant::ZERO).unwrap();
        assert_eq!(unwrap(&packet.to_bytes()), Some((b, datagram)));
        assert!(wrap(Bytes::from_static(b"11 bytes..."), a, b, Instant::ZERO).is_none());
        let mut other = packet.to_bytes().to_vec();
        other[6] |= 0x20;
        assert_eq!(unwrap(&Bytes::from(other.clone())), None, "a fragment");
        (other[6], other[9]) = (0, protocol::UDP);
        assert_eq!(unwrap(&Bytes::from(other)), None, "UDP");
        assert_eq!(unwrap(&Bytes::from_static(b"E")), None);
    }
}
