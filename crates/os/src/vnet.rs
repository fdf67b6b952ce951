//! The virtio-net header in front of every frame of a TUN, a TAP or a packet socket, to and from the core's `Offload`.
//!
//! Virtual I/O Device specification 1.2, section 5.1.6. TUN and TAP are told to use little-endian numbers and the long form;
//! packet sockets use the machine's order (`vio_le` of af_packet.c) and the short form: [`turn`].
use lowwater_core::packet::{Csum, GsoKind, Offload, Packet};
use lowwater_wire::Malformed;
use lowwater_wire::vnet_hdr::{self, GSO_ECN, GSO_NONE, GSO_TCPV4, GSO_TCPV6, VnetHdr};

/// Length with `num_buffers`: keeps the IP header behind it aligned to four bytes.
pub(crate) const VNET_HDR_LEN: usize = vnet_hdr::LEN_MERGEABLE;
/// Length without it: what packet sockets use.
pub(crate) const VNET_HDR_SHORT: usize = vnet_hdr::LEN;

/// Where the numbers of two bytes are in the header.
const NUMBERS: core::ops::Range<usize> = 2..VNET_HDR_SHORT;

/// How a machine writes its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

impl Order {
    /// This machine's.
    pub(crate) const HERE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };
}

/// The short form with little-endian numbers becomes that of a machine, and the other way round.
pub(crate) fn turn(header: &mut [u8], order: Order) {
    if let (Order::Big, Some(numbers)) = (order, header.get_mut(NUMBERS)) {
        numbers.chunks_exact_mut(2).for_each(<[u8]>::reverse);
    }
}

/// Offset of the checksum in the TCP header.
const TCP_CSUM_OFFSET: u16 = 16;
/// Offset of the CRC32c in SCTP's common header. A pair of interfaces passes it on unfinished (NETIF_F_SCTP_CRC); no other protocol has its
/// checksum there.
const SCTP_CSUM_OFFSET: u16 = 8;
/// Offset of the byte with CWR (0x80) in the TCP header.
const TCP_FLAGS: usize = 13;
/// Shortest IP header, and shortest TCP header.
const MIN_HEADER: usize = 20;

/// What the header says about `frame`, whose IP header is at `link_len`. Nothing in the header is taken on trust: every
/// offset is checked against the frame, so that the core may index by it. Kinds of super-packets that were not asked for
/// are refused.
pub(crate) fn decode(header: &[u8], frame: &[u8], link_len: usize) -> Result<Offload, Malformed> {
    let header = VnetHdr::parse(header)?;
    header.check(frame.len())?;
    let version = frame.get(link_len).ok_or(Malformed::Truncated)? >> 4;
    let csum = if header.needs_csum() {
        let start = usize::from(header.csum_start).checked_sub(link_len).filter(|s| *s >= MIN_HEADER);
        let start = start.ok_or(Malformed::Field)? as u16;
        match header.csum_offset {
            // A CRC that has not left this host either, and is no sum that could be finished.
            SCTP_CSUM_OFFSET => Csum::Valid,
            offset => Csum::Partial { start, offset },
        }
    } else if header.data_valid() {
        Csum::Valid
    } else {
        Csum::None
    };
    let (gso, expected_version) = match header.gso_kind() {
        GSO_NONE => return Ok(Offload { gso: GsoKind::None, gso_size: 0, csum, ..Offload::default() }),
        GSO_TCPV4 => (GsoKind::Tcp4, 4),
        GSO_TCPV6 => (GsoKind::Tcp6, 6),
        _ => return Err(Malformed::Field),
    };
    let tcp_fits = match csum {
        Csum::Partial { start, offset } => {
            offset == TCP_CSUM_OFFSET && link_len + usize::from(start) + MIN_HEADER <= frame.len()
        }
        _ => link_len + 2 * MIN_HEADER <= frame.len(),
    };
    if version != expected_version || !tcp_fits {
        return Err(Malformed::Field);
    }
    Ok(Offload { gso, gso_size: header.gso_size, csum, ..Offload::default() })
}

/// The header for a packet whose IP header is at `link_len`; the short form is its front.
pub(crate) fn encode(packet: &Packet, link_len: usize) -> [u8; VNET_HDR_LEN] {
    let mut header = VnetHdr::default();
    if let Csum::Partial { start, offset } = packet.offload.csum {
        header.flags = vnet_hdr::F_NEEDS_CSUM;
        header.csum_start = start.saturating_add(link_len as u16);
        header.csum_offset = offset;
    }
    header.gso_type = match packet.offload.gso {
        // Packets of SCTP come one by one: no device says that it takes more.
        GsoKind::None | GsoKind::Sctp => GSO_NONE,
        GsoKind::Tcp4 => GSO_TCPV4,
        GsoKind::Tcp6 => GSO_TCPV6,
    };
    if header.gso_type != GSO_NONE {
        header.gso_size = packet.offload.gso_size;
        if header.needs_csum() {
            let tcp_at = usize::from(header.csum_start);
            // Only the first segment of a super-packet may carry CWR (RFC 3168 section 6.1.2); the flag asks for that.
            if byte(packet, tcp_at + TCP_FLAGS) & 0x80 != 0 {
                header.gso_type |= GSO_ECN;
            }
            let tcp_len = u16::from(byte(packet, tcp_at + TCP_FLAGS - 1) >> 4) * 4;
            header.hdr_len = header.csum_start.saturating_add(tcp_len);
        }
    }
    let mut bytes = [0; VNET_HDR_LEN];
    header.emit_mergeable(&mut bytes);
    bytes
}

fn byte(packet: &Packet, at: usize) -> u8 {
    let head = packet.head.as_slice();
    let byte = head.get(at).or_else(|| packet.payload.get(at.wrapping_sub(head.len())));
    byte.copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowwater_core::base::Instant;

    /// A frame of `len` bytes of IP version `version` behind `link_len` bytes.
    fn frame(version: u8, link_len: usize, len: usize) -> Vec<u8> {
        let mut frame = vec![0; len];
        frame[link_len] = version << 4;
        frame
    }

    fn header(flags: u8, kind: u8, size: u16, start: u16, offset: u16) -> [u8; VNET_HDR_LEN] {
        let mut h = [flags, kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        h[4..6].copy_from_slice(&size.to_le_bytes());
        h[6..8].copy_from_slice(&start.to_le_bytes());
        h[8..10].copy_from_slice(&offset.to_le_bytes());
        h
    }

    #[test]
    fn headers_map_to_offloads_and_back() {
        let partial = |start| Csum::Partial { start, offset: 16 };
        for (link, h, version, want) in [
            (0, header(0, 0, 0, 0, 0), 4, Offload::default()),
            (0, header(2, 0, 0, 0, 0), 4, Offload { csum: Csum::Valid, ..Offload::default() }),
            (14, header(1, 0, 0, 34, 8), 4, Offload { csum: Csum::Valid, ..Offload::default() }),
            (
                0,
                header(1, 0, 0, 20, 6),
                4,
                Offload { csum: Csum::Partial { start: 20, offset: 6 }, ..Offload::default() },
            ),
            (
                0,
                header(1, 1, 1448, 20, 16),
                4,
                Offload { gso: GsoKind::Tcp4, gso_size: 1448, csum: partial(20), ..Offload::default() },
            ),
            (
                14,
                header(1, 4, 1428, 54, 16),
                6,
                Offload { gso: GsoKind::Tcp6, gso_size: 1428, csum: partial(40), ..Offload::default() },
            ),
        ] {
            let mut bytes = frame(version, link, 5_000);
            let got = decode(&h, &bytes, link).unwrap();
            assert_eq!(got, want);
            if got.csum == Csum::Valid {
                continue;
            }
            let tcp = usize::from(u16::from_le_bytes([h[6], h[7]]));
            if got.gso != GsoKind::None {
                bytes[tcp + 12] = 8 << 4;
            }
            let mut packet = Packet::received(bytes.clone().into(), got, Instant::ZERO);
            let mut back = encode(&packet, link);
            let hdr_len = u16::from_le_bytes([back[2], back[3]]);
            assert_eq!(usize::from(hdr_len), if got.gso == GsoKind::None { 0 } else { tcp + 32 });
            back[2..4].fill(0);
            assert_eq!(back, h);
            // The same with a separate head, and with CWR.
            if got.gso != GsoKind::None {
                bytes[tcp + 13] = 0x80;
                packet.payload = bytes.split_off(tcp + 32).into();
                packet.head.prepend(bytes.len()).copy_from_slice(&bytes);
                let cwr = encode(&packet, link);
                assert_eq!((cwr[1], cwr[2..4] == hdr_len.to_le_bytes()), (h[1] | 0x80, true));
                assert_eq!(decode(&cwr, &packet.to_bytes(), link), Ok(want));
            }
        }
    }

    /// As a kernel of that order has a `struct virtio_net_hdr` in memory.
    #[test]
    fn packet_sockets_have_the_numbers_of_the_machine() {
        let packet = Offload {
            gso: GsoKind::Tcp4,
            gso_size: 0x0102,
            csum: Csum::Partial { start: 20, offset: 16 },
            ..Offload::default()
        };
        let mut bytes = frame(4, 14, 5_000);
        bytes[14 + 20 + 12] = 5 << 4;
        let packet = Packet::received(bytes.clone().into(), packet, Instant::ZERO);
        let of = |order| {
            let mut header = encode(&packet, 14);
            turn(&mut header[..VNET_HDR_SHORT], order);
            header[..VNET_HDR_SHORT].to_vec()
        };
        // hdr_len, gso_size, csum_start, csum_offset.
        assert_eq!(of(Order::Little), [1, 1, 54, 0, 2, 1, 34, 0, 16, 0]);
        assert_eq!(of(Order::Big), [1, 1, 0, 54, 1, 2, 0, 34, 0, 16]);
        assert_eq!(Order::HERE == Order::Big, 1_u16.to_ne_bytes() == [0, 1]);
        let mut back = of(Order::Big);
        turn(&mut back, Order::Big);
        assert_eq!(decode(&back, &bytes, 14), Ok(packet.offload));
        turn(&mut [1, 2, 3], Order::Big);
    }

    #[test]
    fn hostile_headers_are_refused() {
        let v4 = frame(4, 0, 100);
        for (what, h) in [
            ("checksum starts inside the IP header", header(1, 0, 0, 19, 16)),
            ("SCTP's checksum starts inside the IP header", header(1, 0, 0, 19, 8)),
            ("checksum starts beyond the end", header(1, 0, 0, 100, 16)),
            ("checksum field beyond the end", header(1, 0, 0, 60, 39)),
            ("offsets that overflow", header(1, 0, 0, 0xffff, 0xffff)),
            ("UFO, which was not asked for", header(1, 3, 1000, 20, 6)),
            ("USO, which was not asked for", header(1, 5, 1000, 20, 6)),
            ("unknown kind", header(1, 0x7f, 1000, 20, 16)),
            // Nobody has asked for more than ECN's bit: a tunnel's (Linux 6.17), or one that accurate ECN has been proposed for.
            ("a bit that accurate ECN may get", header(1, 0x11, 1000, 20, 16)),
            ("the same beside that of ECN", header(1, 0x91, 1000, 20, 16)),
            ("that bit alone", header(1, 0x10, 1000, 20, 16)),
            ("a tunnel's bit", header(1, 0x21, 1000, 20, 16)),
            ("segments of no size", header(1, 1, 0, 20, 16)),
            ("TCPv6 in an IPv4 packet", header(1, 4, 1000, 40, 16)),
            ("super-packet with UDP's checksum", header(1, 1, 1000, 20, 6)),
            ("TCP header beyond the end", header(1, 1, 1000, 81, 16)),
        ] {
            assert!(decode(&h, &v4, 0).is_err(), "{what}");
        }
        assert!(decode(&header(0, 0, 0, 0, 0), &[], 0).is_err(), "no frame");
        assert!(decode(&header(0, 0, 0, 0, 0), &[0; 14], 14).is_err(), "nothing behind the link header");
        assert!(decode(&header(1, 0, 0, 20, 16), &frame(4, 14, 100), 14).is_err(), "inside the link header");
        assert!(decode(&header(0, 1, 1000, 0, 0), &frame(4, 0, 39), 0).is_err(), "too short for TCP");
    }

    #[test]
    fn no_header_panics() {
        let mut x = 1u64;
        for _ in 0..200_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut h = [0; VNET_HDR_LEN];
            h[..8].copy_from_slice(&x.to_le_bytes());
            h[0] &= 3;
            h[1] &= 0x87;
            h[6] &= 0x7f;
            h[7] &= (x >> 40) as u8 & 1;
            h[8] = (x >> 33) as u8 & 31;
            let link = if x & (1 << 50) == 0 { 0 } else { 14 };
            let bytes = frame(4, link, link + 1 + (x >> 52) as usize % 120);
            if let Ok(offload) = decode(&h, &bytes, link) {
                let _ = encode(&Packet::received(bytes.into(), offload, Instant::ZERO), link);
            }
        }
    }
}
