//! What packets of TCP say of themselves, from the IP header on, and the packet that several were cut from.
use crate::abi::IPPROTO_TCP;
use bytes::{BufMut as _, Bytes, BytesMut};
use core::net::IpAddr;
use lowwater_core::tcp::Progress;
use lowwater_wire::checksum;

/// Those around the `nth` packet that one piece of the stream, at `from..to`, was cut into: they have left one behind the other.
pub(super) fn segments_of<'a, 'b>(
    left: &'b [&'a Bytes],
    nth: usize,
    (from, to): (u64, u64),
    progress: Progress,
) -> &'b [&'a Bytes] {
    let (mut first, mut last) = (nth, nth);
    let places = |at: usize| left.get(at).and_then(|packet| places_of(packet, progress));
    while let Some(here) = places(first)
        && let Some(before) = first.checked_sub(1).and_then(places)
        && before.0 >= from
        && before.1 == here.0
        && before.0 < before.1
    {
        first -= 1;
    }
    while let Some(here) = places(last)
        && let Some(next) = places(last + 1)
        && next.0 == here.1
        && next.1 <= to
        && next.0 < next.1
    {
        last += 1;
    }
    left.get(first..=last).unwrap_or_default()
}

/// The packet that was cut into `segments` to carry `payload`, which begins at the place `start`: the transport's, as it is before a device
/// or what stands for one cuts it (`__dev_queue_xmit`). It has the headers of the first, and the flags of all.
pub(super) fn uncut(segments: &[&Bytes], start: u64, payload: &Bytes, progress: Progress) -> Option<Bytes> {
    let first = *segments.first()?;
    let headers = headers_of(first)?;
    if payload.len() <= first.len().saturating_sub(headers) {
        return Some(first.clone());
    }
    // More of it may have left before.
    let before = places_of(first, progress)?.0.saturating_sub(start) as u32;
    let v6 = first.first()? >> 4 != 4;
    let ip = if v6 { 40 } else { usize::from(first.first()? & 0xf) * 4 };
    let flags = segments.iter().filter_map(|packet| packet.get(ip + 13)).fold(0, |all, flags| all | flags);
    let mut whole = BytesMut::from(first.get(..headers)?);
    whole.put_slice(payload);
    let len = whole.len();
    let mut put = |at: usize, value: u16| {
        if let Some(field) = whole.get_mut(at..at + 2) {
            field.copy_from_slice(&value.to_be_bytes());
        }
    };
    put(if v6 { 4 } else { 2 }, u16::try_from(if v6 { len - ip } else { len }).unwrap_or(u16::MAX));
    put(if v6 { ip + 16 } else { 10 }, 0);
    put(ip + 16, 0);
    let seq = whole.get_mut(ip + 4..ip + 8)?;
    let own = u32::from_be_bytes(<[u8; 4]>::try_from(&*seq).ok()?);
    seq.copy_from_slice(&own.wrapping_sub(before).to_be_bytes());
    *whole.get_mut(ip + 13)? = flags;
    if !v6 {
        let sum = checksum::checksum(whole.get(..ip)?);
        whole.get_mut(10..12)?.copy_from_slice(&sum.to_be_bytes());
    }
    let pseudo = checksum::sum(whole.get(if v6 { 8..40 } else { 12..20 })?)
        + u64::from(IPPROTO_TCP.unsigned_abs())
        + (len - ip) as u64;
    let sum = checksum::finish(pseudo + checksum::sum(whole.get(ip..)?));
    whole.get_mut(ip + 16..ip + 18)?.copy_from_slice(&sum.to_be_bytes());
    Some(whole.freeze())
}

/// Where the payload stands in the stream that a packet of TCP, from its IP header on, carries.
pub(super) fn places_of(packet: &[u8], progress: Progress) -> Option<(u64, u64)> {
    let (tcp, len) = tcp_of(packet)?;
    let first = u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?);
    let syn = tcp.get(13).is_some_and(|flags| flags & 2 != 0);
    // What leaves lies less than half of the sequence space from what is acknowledged.
    let una = (progress.isn + progress.una as u32).0;
    let off = first.wrapping_add(u32::from(syn)).wrapping_sub(una) as i32;
    let start = progress.una.saturating_add_signed(i64::from(off));
    Some((start, start + len as u64))
}

/// Its TCP header with what follows, and how many bytes of payload that has.
fn tcp_of(packet: &[u8]) -> Option<(&[u8], usize)> {
    let at = match packet.first()? >> 4 {
        4 => usize::from(packet.first()? & 15) * 4,
        _ => 40,
    };
    let tcp = packet.get(at..)?;
    let header = usize::from(tcp.get(12)? >> 4) * 4;
    Some((tcp, tcp.len().checked_sub(header)?))
}

/// The source address of a packet.
pub(super) fn source_of(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(packet.get(12..16)?).ok()?)),
        _ => Some(IpAddr::from(<[u8; 16]>::try_from(packet.get(8..24)?).ok()?)),
    }
}

/// What all packets of one flow have in common: the protocol, the addresses, the ports.
pub(super) fn flow_of(packet: &[u8]) -> Option<(u8, &[u8])> {
    match packet.first()? >> 4 {
        4 => Some((*packet.get(9)?, packet.get(12..24)?)),
        _ => Some((*packet.get(6)?, packet.get(8..44)?)),
    }
}

/// Bytes of a packet in front of the payload of TCP.
pub(super) fn headers_of(packet: &[u8]) -> Option<usize> {
    let ip = match packet.first()? {
        v4 if v4 >> 4 == 4 => usize::from(v4 & 0xf) * 4,
        _ => 40,
    };
    Some(ip + usize::from(packet.get(ip + 12)? >> 4) * 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowwater_core::tcp::Seq;

    const ISN: u32 = 0xffff_fff0;

    /// Ten bytes from `place` on, of IPv4 or IPv6, with `flags`.
    fn segment(v6: bool, place: u64, flags: u8) -> Bytes {
        let ip = if v6 { 40 } else { 20 };
        let mut bytes = BytesMut::zeroed(ip + 20);
        (bytes[0], bytes[ip + 12], bytes[ip + 13]) = (if v6 { 0x60 } else { 0x45 }, 5 << 4, flags);
        bytes[ip + 4..ip + 8].copy_from_slice(&ISN.wrapping_add(place as u32).to_be_bytes());
        bytes.extend((0..10).map(|n| (place + n) as u8));
        bytes.freeze()
    }

    #[test]
    fn segments_become_the_packet_that_they_were_cut_from() {
        let progress = Progress { una: 1, nxt: 61, end: 61, isn: Seq(ISN) };
        for (v6, ip) in [(false, 20), (true, 40)] {
            let flags = [0x10, 0x90, 0x10, 0x18, 0x10];
            let all: Vec<Bytes> = (0..5).map(|n| segment(v6, 1 + 10 * n as u64, flags[n])).collect();
            let left: Vec<&Bytes> = all.iter().collect();
            // The piece is 11..41: of its three segments any one leads to all.
            let payload: Bytes = (11..41).collect::<Vec<u8>>().into();
            for nth in 1..4 {
                let segments = segments_of(&left, nth, (11, 41), progress);
                assert_eq!(segments, &left[1..4]);
                let whole = uncut(segments, 11, &payload, progress).expect("a packet");
                assert_eq!((places_of(&whole, progress), whole[ip + 13]), (Some((11, 41)), 0x98));
                assert_eq!(whole[ip + 20..], payload);
                let total = if v6 { 4 } else { 2 };
                let said = u16::from_be_bytes([whole[total], whole[total + 1]]);
                assert_eq!(usize::from(said), whole.len() - if v6 { 40 } else { 0 });
                let pseudo = 6 + (whole.len() - ip) as u64;
                assert!(checksum::verify(pseudo, &whole[ip..]), "the addresses are 0");
                assert!(v6 || checksum::verify(0, &whole[..ip]));
            }
            // The first had left before: its place counts all the same.
            let whole = uncut(&left[2..4], 11, &payload, progress).expect("a packet");
            assert_eq!(places_of(&whole, progress), Some((11, 41)));
            let one: Bytes = (11..21).collect::<Vec<u8>>().into();
            assert_eq!(uncut(&left[1..2], 11, &one, progress), Some(all[1].clone()), "it was not cut");
            for len in 0..ip + 20 {
                let cut = all[1].slice(..len);
                let _ = uncut(&[&cut, left[2]], 11, &payload, progress);
            }
        }
    }
}
