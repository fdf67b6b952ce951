//! The packets of SCTP in a packet of IP: one, or those of a super-packet one after the other.
use crate::edit::{addresses, peek};
use crate::split::segment;
use lowwater_core::packet::{Csum, Packet};
use lowwater_wire::ipv4::Ipv4View;
use lowwater_wire::protocol;
use lowwater_wire::sctp::{Checksum, SctpView};
use std::net::IpAddr;

/// Where SCTP over UDP comes from and goes to (RFC 6951 section 5.1).
const UDP_PORT: u16 = 9_899;
const UDP_HEADER_LEN: usize = 8;

/// Bytes that hold the headers of IP and UDP.
const HEADERS: usize = 96;

/// What IP says.
pub(super) struct Around {
    pub(super) from: IpAddr,
    pub(super) to: IpAddr,
    /// Bytes from its header on.
    pub(super) len: usize,
    /// Somebody has checked the CRC32c, or nobody needs to.
    pub(super) trusted: bool,
}

/// What a packet of IP is.
pub(super) enum What<'a> {
    /// SCTP, from the common header on.
    Sctp(&'a [u8]),
    /// A part of something that may be SCTP.
    Fragment,
    Other,
}

/// What these bytes are.
fn look(b: &[u8]) -> What<'_> {
    let half = |at: usize| b.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]));
    let (at, protocol, fragment) = match b.first().map(|first| first >> 4) {
        Some(4) if b.len() >= 20 => {
            (usize::from(b[0] & 15) * 4, b[9], half(6).is_some_and(|bits| bits & 0x3fff != 0))
        }
        Some(6) if b.len() >= 40 => (40, b[6], b[6] == 44),
        _ => return What::Other,
    };
    match protocol {
        _ if fragment => What::Fragment,
        protocol::SCTP => What::Sctp(b.get(at..).unwrap_or_default()),
        protocol::UDP if half(at) == Some(UDP_PORT) && half(at + 2) == Some(UDP_PORT) => {
            What::Sctp(b.get(at + UDP_HEADER_LEN..).unwrap_or_default())
        }
        _ => What::Other,
    }
}

/// Shows `each` what is in a packet, super-packets part by part. A header of IPv4 that is damaged has nothing in it.
pub(super) fn packets(packet: &Packet, each: &mut dyn FnMut(&Around, What<'_>)) {
    let trusted = packet.offload.csum == Csum::Valid;
    let mut b = [0; HEADERS];
    let n = peek(packet, &mut b);
    if matches!(look(&b[..n]), What::Other) {
        return;
    }
    segment(packet.clone(), &mut |one| {
        let Some((from, to)) = addresses(&one) else { return };
        let bytes = one.to_bytes();
        if to.is_ipv4() && !trusted && !Ipv4View::parse(&bytes).is_ok_and(|ip| ip.checksum_ok()) {
            return;
        }
        each(&Around { from, to, len: bytes.len(), trusted }, look(&bytes));
    });
}

/// The packet, where its CRC32c is right.
pub(super) fn intact<'a>(around: &Around, sctp: &'a [u8]) -> Option<SctpView<'a>> {
    let view = SctpView::parse(sctp).ok()?;
    (around.trusted || view.verify() == Checksum::Good).then_some(view)
}
