//! Several datagrams of UDP in one frame (UDP_SEGMENT), cut as the kernel would have: nobody is asked whether a packet socket takes
//! them, and a pair of interfaces hands over what a program on this host has sent at once.
use super::recv::ETHERNET_HEADER;
use bytes::{BufMut as _, Bytes, BytesMut};
use lowwater_core::packet::{Csum, Offload};
use lowwater_wire::checksum::{checksum, update};
use lowwater_wire::vnet_hdr::{GSO_UDP_L4, VnetHdr};

/// Most datagrams of one frame (`UDP_MAX_SEGMENTS`).
const DATAGRAMS_MAX: usize = 128;
const UDP_HEADER: usize = 8;
/// Of an IPv4 header, and of an IPv6 header: where the length is; of an IPv4 header the number and the checksum.
const V4_LENGTH: usize = 2;
const V6_LENGTH: usize = 4;
const V4_IDENT: usize = 4;
const V4_CHECKSUM: usize = 10;
/// Length of the header of IPv6, which its length does not count.
const V6_HEADER: usize = 40;
/// Of a UDP header.
const UDP_LENGTH: usize = 4;
const UDP_CHECKSUM: usize = 6;

/// Where the header of UDP is, and how much each datagram carries, if that is what the frame is. What contradicts itself is not.
fn shape(header: &VnetHdr, frame: &[u8]) -> Option<(usize, usize)> {
    let (udp, size) = (usize::from(header.csum_start), usize::from(header.gso_size));
    let is = header.gso_kind() == GSO_UDP_L4 && header.needs_csum() && header.check(frame.len()).is_ok();
    let carried = frame.len().checked_sub(udp + UDP_HEADER)?;
    let ip = frame.get(ETHERNET_HEADER..udp)?;
    let fits = match ip.first()? >> 4 {
        4 => ip.len() == usize::from(ip[0] & 15) * 4 && ip.len() >= 20,
        6 => ip.len() >= V6_HEADER,
        _ => false,
    };
    let right = is && fits && usize::from(header.csum_offset) == UDP_CHECKSUM;
    (right && carried > 0 && carried <= size * DATAGRAMS_MAX).then_some((udp, size))
}

/// The datagrams of a frame with several, each a frame with an unfinished checksum; `None` where it is none.
pub(super) fn cut<'a>(
    header: &VnetHdr,
    frame: &'a [u8],
) -> Option<impl Iterator<Item = (Bytes, Offload)> + use<'a>> {
    let (udp, size) = shape(header, frame)?;
    let (headers, carried) = frame.split_at(udp + UDP_HEADER);
    let csum = Csum::Partial { start: (udp - ETHERNET_HEADER) as u16, offset: UDP_CHECKSUM as u16 };
    let offload = Offload { csum, ..Offload::default() };
    let one = move |(number, part): (usize, &[u8])| {
        let mut bytes = BytesMut::with_capacity(headers.len() + part.len());
        bytes.put_slice(headers);
        address_to_part(&mut bytes[ETHERNET_HEADER..], udp - ETHERNET_HEADER, number as u16, part.len());
        bytes.put_slice(part);
        (bytes.freeze(), offload)
    };
    Some(carried.chunks(size).enumerate().map(one))
}

/// Makes the headers those of one part: lengths, the number of an IPv4 packet, checksums. That of UDP is the sum of the pseudo-header, as of
/// any unfinished one.
fn address_to_part(ip: &mut [u8], udp: usize, number: u16, carries: usize) {
    let number_at = |ip: &[u8], at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
    let put = |ip: &mut [u8], at: usize, value: u16| ip[at..at + 2].copy_from_slice(&value.to_be_bytes());
    let len = (UDP_HEADER + carries) as u16;
    if ip[0] >> 4 == 4 {
        put(ip, V4_LENGTH, udp as u16 + len);
        let ident = number_at(ip, V4_IDENT).wrapping_add(number);
        put(ip, V4_IDENT, ident);
        put(ip, V4_CHECKSUM, 0);
        let sum = checksum(&ip[..udp]);
        put(ip, V4_CHECKSUM, sum);
    } else {
        put(ip, V6_LENGTH, (udp - V6_HEADER) as u16 + len);
    }
    let (old, sum) = (number_at(ip, udp + UDP_LENGTH), number_at(ip, udp + UDP_CHECKSUM));
    put(ip, udp + UDP_LENGTH, len);
    put(ip, udp + UDP_CHECKSUM, !update(!sum, old, len));
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use lowwater_wire::checksum::{fold, pseudo_v4, pseudo_v6};
    use lowwater_wire::vnet_hdr::F_NEEDS_CSUM;

    const ETHER: [u8; 12] = [7; 12];
    const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
    const V6: [Ipv6Addr; 2] =
        [Ipv6Addr::new(0xfd, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xfd, 0, 0, 0, 0, 0, 0, 2)];

    fn udp(sum: u64, data: &[u8]) -> Vec<u8> {
        let len = (UDP_HEADER + data.len()) as u16;
        [&[1, 2, 3, 4][..], &len.to_be_bytes(), &fold(sum).to_be_bytes(), data].concat()
    }

    fn v4(ident: u16, data: &[u8]) -> Vec<u8> {
        let len = UDP_HEADER + data.len();
        let mut ip = [0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        ip[2..4].copy_from_slice(&(20 + len as u16).to_be_bytes());
        ip[4..6].copy_from_slice(&ident.to_be_bytes());
        let sum = checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        [&ETHER[..], &[8, 0], &ip, &udp(pseudo_v4(V4[0], V4[1], 17, len), data)].concat()
    }

    fn v6(data: &[u8]) -> Vec<u8> {
        let len = UDP_HEADER + data.len();
        let [src, dst] = V6.map(|ip| ip.octets());
        let front = [0x60, 0, 0, 0, (len >> 8) as u8, len as u8, 17, 64];
        [&ETHER[..], &[0x86, 0xdd], &front, &src, &dst, &udp(pseudo_v6(V6[0], V6[1], 17, len), data)].concat()
    }

    fn header(start: u16, size: u16) -> VnetHdr {
        let (flags, gso_type) = (F_NEEDS_CSUM, GSO_UDP_L4);
        VnetHdr { flags, gso_type, gso_size: size, csum_start: start, csum_offset: 6, ..VnetHdr::default() }
    }

    #[test]
    fn each_datagram_is_what_it_would_have_been_by_itself() {
        let data: Vec<u8> = (0..2_500_u16).map(|n| n as u8).collect();
        let parts: Vec<&[u8]> = data.chunks(1_000).collect();
        let whole = v4(0xffff, &data);
        let cut4: Vec<_> = cut(&header(34, 1_000), &whole).expect("it is one").collect();
        assert_eq!(cut4.len(), 3);
        for (n, (bytes, offload)) in cut4.iter().enumerate() {
            assert_eq!(bytes[..], v4(0xffff_u16.wrapping_add(n as u16), parts[n])[..], "{n}");
            assert_eq!(offload.csum, Csum::Partial { start: 20, offset: 6 });
        }
        let whole = v6(&data);
        let cut6: Vec<_> = cut(&header(54, 1_000), &whole).expect("it is one").collect();
        assert!(cut6.iter().zip(&parts).all(|((bytes, _), part)| bytes[..] == v6(part)[..]));
        assert_eq!((cut6.len(), cut6[0].1.csum), (3, Csum::Partial { start: 40, offset: 6 }));
    }

    #[test]
    fn what_contradicts_itself_is_none() {
        let frame = v4(1, &[0; 2_500]);
        let is = |header: &VnetHdr, frame: &[u8]| cut(header, frame).is_some();
        assert!(is(&header(34, 1_000), &frame) && is(&header(34, 20), &frame));
        assert!(!is(&header(34, 19), &frame), "more than the kernel sends at once");
        assert!(!is(&header(34, 0), &frame));
        for start in [0, 13, 14, 33, 35, 54, 2_500, u16::MAX] {
            assert!(!is(&header(start, 1_000), &frame), "{start}");
        }
        assert!(!is(&VnetHdr { csum_offset: 16, ..header(34, 1_000) }, &frame));
        assert!(!is(&VnetHdr { flags: 0, ..header(34, 1_000) }, &frame));
        assert!(!is(&VnetHdr { gso_type: 1, ..header(34, 1_000) }, &frame), "TCP's");
        (0..=42).for_each(|len| assert!(!is(&header(34, 1_000), &frame[..len]), "{len}"));
    }
}
